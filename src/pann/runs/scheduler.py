"""The way to a Dask scheduler: it is found and reached, or one sentence says why not."""

import contextlib
import json
import logging
import os
import pathlib
import socket
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pann.io.container import told

if TYPE_CHECKING:
    from distributed import Client

FILE = ".json"
CONNECT_SECONDS = 10
AGAIN = "what is done is in the store, and the same command goes on with the rest"
GONE = f"the scheduler of the cluster is gone; {AGAIN}"


@contextlib.contextmanager
def connected(cluster: Any) -> Iterator["Client"]:
    """Yield a client; that its scheduler is gone becomes one sentence."""
    try:
        import distributed
        from distributed.comm.core import CommClosedError
    except ImportError:
        raise ValueError("a cluster needs the package distributed; install pann[cluster]") from None
    if isinstance(cluster, distributed.Client):
        yield cluster
        return
    where = _reachable(cluster) if isinstance(cluster, str | os.PathLike) else cluster
    try:
        client = distributed.Client(where, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:
        raise _no_scheduler(where, error) from error
    try:
        with _quiet(), client:
            yield client
    except CommClosedError:
        raise ValueError(GONE) from None


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without what the client logs of a scheduler that dies: we say it in a sentence."""
    logger = logging.getLogger("distributed.client")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(before)


def _reachable(given: str | os.PathLike[str]) -> str:
    """The address that is given, or that a scheduler's file holds, if something answers there."""
    from distributed.comm.addressing import get_address_host_port

    address = os.fspath(given)
    if address.endswith(FILE):
        try:
            address = str(json.loads(pathlib.Path(address).read_bytes())["address"])
        except (OSError, ValueError, KeyError, TypeError):
            raise ValueError(
                f"there is no scheduler's file '{given}'; start one with dask scheduler "
                f"--scheduler-file {given}"
            ) from None
    # Here, for a client of Dask's that does not reach its scheduler is slow to give up.
    try:
        socket.create_connection(get_address_host_port(address), CONNECT_SECONDS).close()
    except (OSError, ValueError) as error:
        raise _no_scheduler(address, error) from error
    return address


def _no_scheduler(where: Any, error: Exception) -> ValueError:
    why = (getattr(error, "strerror", None) or told(error)).lower()
    return ValueError(
        f"there is no Dask scheduler at '{where}' ({why}); start one with dask scheduler, "
        "which prints its address"
    )


def check_threads(client: "Client") -> None:
    """One row a process: JAX has the device, and the memory, of the process to itself."""
    threads = client.nthreads()
    for address, number in threads.items():
        if number != 1:
            raise ValueError(
                f"the worker at {address} has {number} threads, and a row wants a process of its "
                f"own; start workers with dask worker --nworkers {number} --nthreads 1"
            )
    if not threads:
        warnings.warn("the cluster has no workers yet; the rows wait for the first", stacklevel=2)

"""Rows on a Dask cluster: the scheduler deals them out, the workers record them in the store.

Only data travel: rows, the name of the work, the folder of the store, which all machines see by one
path. The worker that runs a row also claims and records it there, as processes on one machine do.
No result passes through the client, so nothing is lost if the client dies, and the checkpoints of a
worker that was killed serve the next one. Workers may come and go during a sweep.
"""

import contextlib
import dataclasses
import importlib
import json
import logging
import os
import pathlib
import queue
import secrets
import socket
import sys
import threading
import time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pann.io import FileError
from pann.io.checks import one_line
from pann.runs.batch import (
    BEGUN,
    CLAIMED,
    Event,
    Session,
    find_work,
    record_death,
    run_unit,
)
from pann.runs.row import Row
from pann.runs.store import DONE, FAILED

if TYPE_CHECKING:
    from distributed import Client, Future

CONNECT_SECONDS = 10
AGAIN = "what is done is in the store, and the same command goes on with the rest"
GONE = f"the scheduler of the cluster is gone; {AGAIN}"
_LOOK_SECONDS = 2.0  # between looks whether there are workers
# A worker with several threads would run several rows in one process, which has one device.
_ONE_ROW = threading.Lock()


@dataclasses.dataclass(frozen=True)
class Job:
    """What the rows of a sweep share; plain data, for it travels.

    `name` is the topic under which workers report rows that they begin and end, and the beginning
    of the tokens of their claims. `work_folder` is where the work's module is, for workers that
    cannot find it; `store_id` shows whether a worker sees the same store.
    """

    name: str
    session: Session
    work_folder: str | None
    store_id: str

    def new_token(self) -> str:
        return f"{self.name}-{secrets.token_hex(4)}"


def run_on_cluster(rows: Sequence[Row], session: Session, cluster: Any) -> None:
    """Run the rows, and report what becomes of each of them.

    `cluster` is the address of a scheduler, its file (`dask scheduler --scheduler-file`), or a
    cluster or client of Dask. If this is interrupted, rows that wait are withdrawn; those that
    workers have begun are finished and recorded by them.
    """
    if not rows:
        return
    with _connected(cluster) as client:
        check_threads(client)
        name = f"pann-{secrets.token_hex(8)}"
        # Rows travel with their own failures only.
        sent = dataclasses.replace(session.to_send(), together=None, failures={})
        job = Job(name, sent, _folder_of(str(session.work)), session.store.make_id())
        _Sweep(client, session, job, {row.identity: row for row in rows}).run()


def run_row(row: Row, failure: str | None, job: Job) -> Event | str:
    """Run a row in a Dask worker; a text says why the worker cannot use the store or the work."""
    from distributed import get_worker

    worker, events = get_worker(), []

    def report(event: Event) -> None:
        events.append(event)
        # A returned event stays here until it is fetched, and is lost with this process.
        if event.kind in (BEGUN, DONE, FAILED):
            worker.log_event(job.name, [row.identity, event.kind, event.seconds, event.reason])

    failures = {} if failure is None else {row: failure}
    token, store = job.new_token(), job.session.store
    session = dataclasses.replace(job.session, report=report, failures=failures, token=token)
    with _ONE_ROW:
        try:
            store.check_id(job.store_id)
            if job.work_folder is not None and job.work_folder not in sys.path:
                sys.path.append(job.work_folder)
            find_work(str(session.work))
            # The scheduler gives a row to a second worker when it has given up the first.
            store.claims.revoke(row.identity, f"{job.name}-")
            run_unit([row], session)
        except ValueError as error:
            return f"on {socket.gethostname()}: {error}"
    return events[-1]


def check_threads(client: "Client") -> None:
    """One row per process: JAX has the device, and the memory, of the process to itself."""
    threads = client.nthreads()
    for address, number in threads.items():
        if number != 1:
            raise ValueError(
                f"the worker at {address} has {number} threads, and a row wants a process of its "
                f"own; start workers with dask worker --nworkers {number} --nthreads 1"
            )
    if not threads:
        warnings.warn("the cluster has no workers yet; the rows wait for the first", stacklevel=2)


@dataclasses.dataclass
class _Sweep:
    """The rows that are submitted, and when workers began them last."""

    client: "Client"
    session: Session
    job: Job
    rows: dict[str, Row]  # by their identities
    futures: dict[Row, "Future"] = dataclasses.field(default_factory=dict)
    begun: dict[Row, float] = dataclasses.field(default_factory=dict)
    resubmitted: set[Row] = dataclasses.field(default_factory=set)
    # Events that workers report, and futures that are done; filled by threads of the client.
    news: queue.SimpleQueue[Any] = dataclasses.field(default_factory=queue.SimpleQueue)

    def run(self) -> None:
        self.client.subscribe_topic(self.job.name, self._note)
        try:
            self._submit(self.rows.values())
            num_workers = len(self.client.nthreads())
            while self.futures:
                try:
                    self._handle(self.news.get(timeout=_LOOK_SECONDS))
                except queue.Empty:
                    num_workers = self._count_workers(num_workers)
        finally:
            with contextlib.suppress(Exception):  # the scheduler may be gone
                if self.futures and self.client.status == "running":
                    self.client.cancel(list(self.futures.values()), force=True)
            with contextlib.suppress(Exception):
                self.client.unsubscribe_topic(self.job.name)

    def _submit(self, rows: Iterable[Row]) -> None:
        for row in rows:
            arguments = row, self.session.failures.get(row), self.job
            future = self.client.submit(run_row, *arguments, key=self.job.new_token(), pure=False)
            self.futures[row] = future
            future.add_done_callback(lambda done, row=row: self.news.put((row, done)))

    def _note(self, logged: Sequence[Any]) -> None:
        _, (identity, *event) = logged  # the first is a time
        self.news.put(Event(self.rows[identity], *event))

    def _handle(self, news: "Event | tuple[Row, Future]") -> None:
        if isinstance(news, Event) and news.kind == BEGUN:
            self.begun[news.row] = time.time()
            self.session.report(news)
            return
        row = news.row if isinstance(news, Event) else news[0]
        if row in self.futures:  # otherwise a worker has reported its end already
            event = news if isinstance(news, Event) else self._event(*news)
            if event is not None:
                del self.futures[row]
                self.session.report(event)

    def _event(self, row: Row, future: "Future") -> Event | None:
        """What became of a row; None if it was submitted again."""
        from distributed import KilledWorker

        if future.status in ("cancelled", "lost"):
            raise ValueError(GONE)
        try:
            event: Event | str = future.result()
        except KilledWorker as error:
            return self._after_death(row, error)
        except Exception as error:
            raise ValueError(
                f"a worker cannot take rows ({type(error).__name__}: {one_line(error)}); the "
                "workers and the scheduler need the same versions of pann and distributed as here"
            ) from error
        if isinstance(event, str):
            raise FileError(f"{event}; {AGAIN}")
        return event

    def _after_death(self, row: Row, error: Any) -> Event | None:
        """Record a row that kills its workers; submit one again that only waited behind it."""
        if row not in self.begun and row not in self.resubmitted:
            self.resubmitted.add(row)
            self._submit([row])
            return None
        reason = (
            f"{error.allowed_failures + 1} workers died with it, the last at "
            f"{error.last_worker.address}; perhaps it needs more memory"
        )
        store = self.session.store
        store.claims.revoke(row.identity, f"{self.job.name}-")
        claim = store.claims.take(row.identity, self.job.new_token())
        if claim is None:
            return Event(row, CLAIMED)
        return record_death(row, store, claim, self.begun.get(row, time.time()), reason)

    def _count_workers(self, before: int) -> int:
        try:
            now = len(self.client.nthreads())
        except (OSError, RuntimeError, ValueError) as error:  # there is nothing else to ask
            raise ValueError(GONE) from error
        if before and not now:
            warnings.warn("all workers are gone; the rows wait for new ones", stacklevel=2)
        return now


def _folder_of(work: str) -> str | None:
    """Where a module that is not installed is imported from, for workers that lack it."""
    name = work.partition(":")[0]
    file = importlib.import_module(name).__file__
    if file is None or "site-packages" in file or name.partition(".")[0] == "pann":
        return None
    path = pathlib.Path(file).resolve()
    depth = name.count(".") + (path.name == "__init__.py")
    return str(path.parents[depth])


@contextlib.contextmanager
def _connected(cluster: Any) -> Iterator["Client"]:
    """Yield a client; one sentence says why there is no scheduler, or that it is gone."""
    try:
        import distributed
        from distributed.comm.core import CommClosedError
    except ImportError:
        raise ValueError("a cluster needs the package distributed; install pann[cluster]") from None
    if isinstance(cluster, distributed.Client):
        yield cluster
        return
    where = _address(cluster) if isinstance(cluster, str | os.PathLike) else cluster
    try:
        client = distributed.Client(where, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:
        raise _no_scheduler(where, error) from error
    # The client logs at length that its scheduler died; one sentence is enough.
    logger = logging.getLogger("distributed.client")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        with client:
            yield client
    except CommClosedError:
        raise ValueError(GONE) from None
    finally:
        logger.setLevel(level)


def _address(given: str | os.PathLike[str]) -> str:
    """The address that is given, or that a scheduler's file holds, if something answers there."""
    from distributed.comm.addressing import get_address_host_port

    address = os.fspath(given)
    if address.endswith(".json"):
        try:
            address = str(json.loads(pathlib.Path(address).read_bytes())["address"])
        except (OSError, ValueError, KeyError, TypeError):
            raise ValueError(
                f"there is no scheduler's file '{given}'; start one with dask scheduler "
                f"--scheduler-file {given}"
            ) from None
    # Tried here, because a client of Dask is slow to give up.
    try:
        socket.create_connection(get_address_host_port(address), CONNECT_SECONDS).close()
    except (OSError, ValueError) as error:
        raise _no_scheduler(address, error) from error
    return address


def _no_scheduler(where: Any, error: Exception) -> ValueError:
    why = (getattr(error, "strerror", None) or one_line(error)).lower()
    return ValueError(
        f"there is no Dask scheduler at '{where}' ({why}); start one with dask scheduler, "
        "which prints its address"
    )

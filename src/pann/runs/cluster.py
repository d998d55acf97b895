"""Rows on a Dask cluster: the scheduler deals them out, the workers record them in the store.

What travels is data: rows, the name of the work, the folder of the store, which all machines see
by one path. Who runs a row also claims and records it there, as processes on one machine do: no
result passes through the client, which may die without losing any, and the checkpoints of a
worker that was killed serve the next one. Workers may come and go meanwhile.
"""

import contextlib
import dataclasses
import importlib
import pathlib
import queue
import secrets
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pann.io import FileError
from pann.io.container import told
from pann.runs.attempt import BEGUN, CLAIMED, Outcome, Task, record_death
from pann.runs.errands import BROKEN, Errand, run_row
from pann.runs.marks import make_mark
from pann.runs.scheduler import AGAIN, GONE, check_threads, connected
from pann.runs.store import Store

if TYPE_CHECKING:
    from distributed import Client, Future

Tell = Callable[[int, Outcome], None]

_LOOK_SECONDS = 2.0  # between looks whether there are workers


def run_on_cluster(
    tasks: Mapping[int, Task], work: str, store: Store, cluster: Any, tell: Tell
) -> None:
    """Run the tasks, by number, and tell what becomes of each of them.

    `cluster` is the address of a scheduler, its file (`dask scheduler --scheduler-file`), or a
    cluster or client of Dask's. If this is interrupted, rows that wait are withdrawn; those that
    workers have begun are finished and recorded by them.
    """
    if not tasks:
        return
    with connected(cluster) as client:
        check_threads(client)
        errand = Errand(
            f"pann-{secrets.token_hex(8)}", work, _folder_of(work), store, make_mark(store)
        )
        _Sweep(client, tasks, errand, tell).run()


def _folder_of(work: str) -> str | None:
    """Where a module that is no installed one is imported from, for workers who lack it."""
    name = work.partition(":")[0]
    file = importlib.import_module(name).__file__
    if file is None or "site-packages" in file or name.partition(".")[0] == "pann":
        return None
    path = pathlib.Path(file).resolve()
    depth = name.count(".") + (path.name == "__init__.py")
    return str(path.parents[depth])


@dataclasses.dataclass
class _Sweep:
    """The rows that are on their way, and when workers began them last."""

    client: "Client"
    tasks: Mapping[int, Task]
    errand: Errand
    tell: Tell
    futures: dict[int, "Future"] = dataclasses.field(default_factory=dict)
    begun: dict[int, float] = dataclasses.field(default_factory=dict)
    resubmitted: set[int] = dataclasses.field(default_factory=set)
    # What workers say of rows, and futures that are done; filled by threads of the client's.
    news: queue.SimpleQueue[tuple[int, Any]] = dataclasses.field(default_factory=queue.SimpleQueue)

    def run(self) -> None:
        topic = self.errand.sweep
        self.client.subscribe_topic(topic, self._note)
        try:
            self._submit(list(self.tasks))
            num_workers = len(self.client.nthreads())
            while self.futures:
                try:
                    self._hear(*self.news.get(timeout=_LOOK_SECONDS))
                except queue.Empty:
                    num_workers = self._look_for_workers(num_workers)
        finally:
            self._withdraw()
            with contextlib.suppress(Exception):  # of a scheduler that is gone
                self.client.unsubscribe_topic(topic)

    def _submit(self, indices: list[int]) -> None:
        attempts = [f"{self.errand.sweep}-{secrets.token_hex(4)}" for _ in indices]
        futures = self.client.map(
            run_row,
            indices,
            [self.tasks[index] for index in indices],
            errand=self.errand,
            key=attempts,
            pure=False,
        )
        for index, future in zip(indices, futures, strict=True):
            self.futures[index] = future
            future.add_done_callback(lambda done, index=index: self.news.put((index, done)))

    def _note(self, event: Sequence[Any]) -> None:
        _, (index, *outcome) = event  # the first is a time
        self.news.put((index, Outcome(*outcome)))

    def _hear(self, index: int, said: "Outcome | Future") -> None:
        if isinstance(said, Outcome) and said.kind == BEGUN:
            self.begun[index] = time.time()
            self.tell(index, said)
            return
        if index not in self.futures:  # a worker has said what became of it
            return
        outcome = said if isinstance(said, Outcome) else self._outcome(index, said)
        if outcome is not None:
            del self.futures[index]
            self.tell(index, outcome)

    def _outcome(self, index: int, future: "Future") -> Outcome | None:
        """What became of a row; None if it was sent on its way again."""
        from distributed import KilledWorker

        if future.status in ("cancelled", "lost"):
            raise ValueError(GONE)
        try:
            outcome: Outcome = future.result()
        except KilledWorker as error:
            return self._after_death(index, error)
        except Exception as error:
            raise ValueError(
                f"a worker cannot take rows ({type(error).__name__}: {told(error)}); the workers "
                "and the scheduler need the same versions of pann and distributed as are here"
            ) from error
        if outcome.kind == BROKEN:
            raise FileError(f"{outcome.reason}; {AGAIN}")
        return outcome

    def _after_death(self, index: int, error: Any) -> Outcome | None:
        """Record a row that kills its workers; one that only waited behind it is sent again."""
        if index not in self.begun and index not in self.resubmitted:
            self.resubmitted.add(index)
            self._submit([index])
            return None
        row, store = self.tasks[index].row, self.errand.store
        reason = (
            f"{error.allowed_failures + 1} workers died with it, the last at "
            f"{error.last_worker.address}; perhaps it needs more memory"
        )
        prefix = f"{self.errand.sweep}-"
        store.claims.take_from_dead(row.identity, prefix)
        claim = store.claims.take(row.identity, prefix + secrets.token_hex(4))
        if claim is None:
            return Outcome(CLAIMED)
        started = self.begun.get(index, time.time())
        return record_death(row, store, claim, started=started, reason=reason)

    def _look_for_workers(self, before: int) -> int:
        try:
            now = len(self.client.nthreads())
        except (OSError, RuntimeError, ValueError) as error:  # nobody else is asked
            raise ValueError(GONE) from error
        if before and not now:
            warnings.warn("all workers are gone; the rows wait for new ones", stacklevel=2)
        return now

    def _withdraw(self) -> None:
        if self.futures and self.client.status == "running":
            with contextlib.suppress(Exception):  # of a scheduler that is gone
                self.client.cancel(list(self.futures.values()), force=True)

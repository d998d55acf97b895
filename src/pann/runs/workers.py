"""Rows in processes of their own: each takes the next row that nobody has claimed.

A process that is killed, by the system for want of memory say, takes nothing with it but its row:
the row is recorded as failed, and another process takes the place. Of several rows that ran as one
none is recorded: they are tried again in halves.
"""

import contextlib
import dataclasses
import multiprocessing
import os
import secrets
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection, wait
from typing import Any, Never

from pann.io import FileError
from pann.runs.attempt import BEGUN, CLAIMED, Outcome, Task, find_work, record_death
from pann.runs.claims import Claim
from pann.runs.store import Store
from pann.runs.together import Together, attempt_unit

Tell = Callable[[int, Outcome], None]
Unit = dict[int, Task]  # rows that may run as one, by number

TRYING, BROKEN = "trying", "broken"
INTERRUPTED = 130  # the status of a process that gave its row back
_LOOK_SECONDS = 1.0  # between looks at processes whose end nothing told of
_GRACE_SECONDS = 20.0  # for a process to give its row back


@dataclasses.dataclass
class _Worker:
    """A process as its parent sees it; `trying` are the rows it tried last."""

    process: Any
    pipe: Connection
    token: str
    trying: Unit | None = None
    since: float = 0.0

    def claims(self, store: Store) -> dict[int, Claim]:
        """The claims of the rows that it tried last, whether they hold or not."""
        return {
            index: store.claims.of(task.row.identity, self.token)
            for index, task in (self.trying or {}).items()
        }

    def held(self, store: Store) -> dict[int, Claim]:
        """The claims that the process has."""
        return {index: claim for index, claim in self.claims(store).items() if claim.is_held()}


def run_in_processes(
    units: Sequence[Unit],
    work: str,
    together: Together | None,
    store: Store,
    num_workers: int,
    tell: Tell,
) -> None:
    """Run the tasks, by number, and tell what becomes of each of them."""
    left = [dict(unit) for unit in units]
    workers: list[_Worker] = []
    sweep = secrets.token_hex(4)
    start = lambda: _started([unit for unit in left if unit], work, together, store, sweep)
    try:
        for _ in range(min(num_workers, len(left))):
            workers.append(start())
        while workers:
            wait([worker.pipe for worker in workers], _LOOK_SECONDS)
            for worker in list(workers):
                # Asked first: what a process that has ended had to tell is all there to be read.
                ended = not worker.process.is_alive()
                _listen(worker, left, tell)
                if ended:
                    workers.remove(worker)
                    died = _bury(worker, left, store, tell)
                    if died and any(left):
                        workers.append(start())
    finally:
        _stop(workers, store)


def _started(
    units: list[Unit], work: str, together: Together | None, store: Store, sweep: str
) -> _Worker:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    token = f"{sweep}.{secrets.token_hex(8)}"
    # A process is given its units; the key of rows may be no function that it could import.
    plain = None if together is None else dataclasses.replace(together, key=hash)
    arguments = (units, work, plain, store, token, theirs)
    process = context.Process(target=_work_through, args=arguments)
    with _interrupts_ignored():
        process.start()
    theirs.close()
    return _Worker(process, ours, token)


def _listen(worker: _Worker, left: list[Unit], tell: Tell) -> None:
    for about, said in _messages(worker.pipe):
        if said.kind == BROKEN:
            raise FileError(said.reason)
        if said.kind == TRYING:
            worker.trying, worker.since = about, time.time()
            continue
        if said.kind not in (BEGUN, CLAIMED):
            _take_out(about, left)
        tell(about, said)


def _take_out(index: int, left: list[Unit]) -> Task | None:
    found = [unit.pop(index) for unit in left if index in unit]
    return found[0] if found else None


def _messages(pipe: Connection) -> Iterator[tuple[Any, Outcome]]:
    """What a process says of a row, by its number; with `TRYING`, of a unit."""
    while True:
        try:
            if not pipe.poll():
                return
            message = pipe.recv()
        except (EOFError, OSError):  # the process has ended
            return
        yield message


def _bury(worker: _Worker, left: list[Unit], store: Store, tell: Tell) -> bool:
    """See to what a process left that has ended; False if it just had nothing more to do."""
    worker.process.join()
    status = worker.process.exitcode
    worker.process.close()
    worker.pipe.close()
    held = worker.held(store)
    # One that had nothing more to do has given back all it had.
    if status == 0 and not held:
        return False
    how = f"was killed (signal {-status})" if status < 0 else f"ended (status {status})"
    if worker.trying is None:
        raise ValueError(
            f"a worker process {how} before its first row; see above for its reason, and call "
            "sweep in a script only under if __name__ == '__main__':"
        )
    if len(held) > 1:
        _halve(held, left)
        return True
    # Rows before whose claim it died would kill the next one, too.
    for index in held or worker.trying:
        task = _take_out(index, left)
        if task is not None:
            claim = store.claims.of(task.row.identity, worker.token)
            reason = f"the process {how}"
            died = record_death(task.row, store, claim, started=worker.since, reason=reason)
            tell(index, died)
    return True


def _halve(held: dict[int, Claim], left: list[Unit]) -> None:
    """Give back rows that ran as one, as two units."""
    tasks = {index: task for index in held if (task := _take_out(index, left)) is not None}
    for claim in held.values():
        claim.release()
    indices = list(tasks)
    for half in (indices[: len(indices) // 2], indices[len(indices) // 2 :]):
        left.append({index: tasks[index] for index in half})


def _stop(workers: list[_Worker], store: Store) -> None:
    """End what still runs, and release the claims of those that did not do so themselves."""
    try:
        for worker in workers:
            worker.process.terminate()
        end = time.monotonic() + _GRACE_SECONDS
        for worker in workers:
            worker.process.join(max(0.0, end - time.monotonic()))
    finally:  # also if the user has no patience
        for worker in workers:
            worker.process.kill()
            worker.process.join()
            for about, said in _messages(worker.pipe):
                worker.trying = about if said.kind == TRYING else worker.trying
            # Without a look first, which a disk may refuse: another error is on its way already.
            for claim in worker.claims(store).values():
                claim.release()
            worker.process.close()
            worker.pipe.close()


@contextlib.contextmanager
def _interrupts_ignored() -> Iterator[None]:
    """What is started meanwhile ignores Ctrl-C: it is the parent that ends its processes."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.SIG_DFL if before is None else before)


# ---- In the process ----


def _work_through(
    units: list[Unit],
    work_name: str,
    together: Together | None,
    store: Store,
    token: str,
    pipe: Connection,
) -> None:
    current: list[Task] = []
    signal.signal(signal.SIGTERM, _interrupt)
    threading.Thread(target=_follow_parent, args=(store, token, current), daemon=True).start()
    try:
        work = find_work(work_name)
        for unit in units:
            current[:] = unit.values()
            pipe.send((unit, Outcome(TRYING)))
            tell = lambda index, outcome: pipe.send((index, outcome))
            attempt_unit(unit, work, together, store, tell, token)
    except ValueError as error:  # the store cannot be used, or the work not be found
        pipe.send((None, Outcome(BROKEN, reason=str(error))))
    except (KeyboardInterrupt, BrokenPipeError):
        raise SystemExit(INTERRUPTED) from None


def _interrupt(*_: Any) -> Never:
    raise KeyboardInterrupt


def _follow_parent(store: Store, token: str, current: list[Task]) -> None:
    """End with the parent, who may have been killed and then could not say so."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    for task in current:
        store.claims.of(task.row.identity, token).release()
    os._exit(INTERRUPTED)

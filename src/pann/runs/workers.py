"""Rows in processes of their own: each takes the next row that nobody has claimed.

A process that is killed, by the system for want of memory say, takes nothing with it but its row:
the row is recorded as failed, and another process takes the place.
"""

import contextlib
import dataclasses
import multiprocessing
import os
import secrets
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from multiprocessing.connection import Connection, wait
from typing import Any, Never

from pann.files import FileError
from pann.runs.attempt import (
    BEGUN,
    CLAIMED,
    Outcome,
    Task,
    attempt,
    find_work,
    record_death,
)
from pann.runs.store import Store

Tell = Callable[[int, Outcome], None]

TRYING, BROKEN = "trying", "broken"
INTERRUPTED = 130  # the status of a process that gave its row back
_LOOK_SECONDS = 1.0  # between looks at processes whose end nothing told of
_GRACE_SECONDS = 20.0  # for a process to give its row back


@dataclasses.dataclass
class _Worker:
    """A process as its parent sees it; `index` is the row it tried last."""

    process: Any
    pipe: Connection
    token: str
    index: int | None = None
    since: float = 0.0


def run_in_processes(
    tasks: Mapping[int, Task], work: str, store: Store, num_workers: int, tell: Tell
) -> None:
    """Run the tasks, by number, and tell what becomes of each of them."""
    left = dict(tasks)
    workers: list[_Worker] = []
    try:
        for _ in range(min(num_workers, len(left))):
            workers.append(_started(left, work, store))
        while workers:
            wait([worker.pipe for worker in workers], _LOOK_SECONDS)
            for worker in list(workers):
                # Asked first: what a process that has ended had to tell is all there to be read.
                ended = not worker.process.is_alive()
                _listen(worker, left, tell)
                if ended:
                    workers.remove(worker)
                    died = _bury(worker, left, store, tell)
                    if died and left:
                        workers.append(_started(left, work, store))
    finally:
        _stop(workers, tasks, store)


def _started(tasks: Mapping[int, Task], work: str, store: Store) -> _Worker:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    token = secrets.token_hex(8)
    process = context.Process(target=_work_through, args=(dict(tasks), work, store, token, theirs))
    with _interrupts_ignored():
        process.start()
    theirs.close()
    return _Worker(process, ours, token)


def _listen(worker: _Worker, left: dict[int, Task], tell: Tell) -> None:
    for index, said in _messages(worker.pipe):
        if said.kind == BROKEN:
            raise FileError(said.reason)
        if said.kind == TRYING:
            worker.index, worker.since = index, time.time()
            continue
        if said.kind not in (BEGUN, CLAIMED):
            left.pop(index, None)
        tell(index, said)


def _messages(pipe: Connection) -> Iterator[tuple[int, Outcome]]:
    while True:
        try:
            if not pipe.poll():
                return
            message = pipe.recv()
        except (EOFError, OSError):  # the process has ended
            return
        yield message


def _bury(worker: _Worker, left: dict[int, Task], store: Store, tell: Tell) -> bool:
    """See to what a process left that has ended; False if it just had nothing more to do."""
    worker.process.join()
    status = worker.process.exitcode
    worker.process.close()
    worker.pipe.close()
    task = None if worker.index is None else left.get(worker.index)
    claim = None if task is None else store.claims.of(task.row.identity, worker.token)
    # One that had nothing more to do has given back all it had.
    if status == 0 and not (claim is not None and claim.is_held()):
        return False
    how = f"was killed (signal {-status})" if status < 0 else f"ended (status {status})"
    if worker.index is None:
        raise ValueError(
            f"a worker process {how} before its first row; see above for its reason, and call "
            "sweep in a script only under if __name__ == '__main__':"
        )
    if task is not None and claim is not None:
        del left[worker.index]
        reason = f"the process {how}"
        died = record_death(task.row, store, claim, started=worker.since, reason=reason)
        tell(worker.index, died)
    return True


def _stop(workers: list[_Worker], tasks: Mapping[int, Task], store: Store) -> None:
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
            for index, said in _messages(worker.pipe):
                worker.index = index if said.kind == TRYING else worker.index
            if worker.index is not None:
                store.claims.of(tasks[worker.index].row.identity, worker.token).release()
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
    tasks: dict[int, Task], work_name: str, store: Store, token: str, pipe: Connection
) -> None:
    current: list[Task] = []
    signal.signal(signal.SIGTERM, _interrupt)
    threading.Thread(target=_follow_parent, args=(store, token, current), daemon=True).start()
    try:
        work = find_work(work_name)
        for index, task in tasks.items():
            current[:] = [task]
            pipe.send((index, Outcome(TRYING)))
            begun = lambda index=index: pipe.send((index, Outcome(BEGUN)))
            pipe.send((index, attempt(task, work, store, token, begun)))
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

"""Rows in processes of their own: the parent deals out units, one at a time to each process.

A process that is killed, for example because memory ran out, costs nothing but its row: the row is
recorded as failed, and a new process takes the place. If several rows ran as one program, none is
recorded; they are dealt out again in halves. The pools of `concurrent.futures` are not used: a
process that is killed breaks the whole pool, and the pool does not say how it ended.
"""

import collections
import contextlib
import dataclasses
import multiprocessing
import os
import secrets
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection, wait
from typing import Any

from pann.io import FileError
from pann.runs.batch import BEGUN, Event, Session, Unit, find_work, known, record_death, run_unit
from pann.runs.store import Store
from pann.runtime.limits import ctrl_c_handled

INTERRUPTED = 130  # the exit status of a process that gave its row back
_LOOK_SECONDS = 1.0  # between looks at processes whose end closed no pipe
_GRACE_SECONDS = 20.0  # for a process to give its row back


@dataclasses.dataclass
class _Worker:
    """A process as its parent sees it; `unit` has the rows that it was given and has not ended."""

    process: Any
    pipe: Connection
    token: str
    unit: Unit = dataclasses.field(default_factory=list)
    since: float = 0.0
    was_ready: bool = False

    def release(self, store: Store) -> None:
        for row in self.unit:
            store.claims.of(row.identity, self.token).release()


def run_in_processes(units: Sequence[Unit], session: Session, num_workers: int) -> None:
    """Run the units, and report what becomes of each row."""
    left = collections.deque(units)
    workers: list[_Worker] = []
    sent = session.to_send()
    try:
        while workers or left:
            while len(workers) < num_workers and len(left) > sum(not w.unit for w in workers):
                workers.append(_started(sent))
            wait([worker.pipe for worker in workers], _LOOK_SECONDS)
            for worker in list(workers):
                # Asked first: all messages of a process that has ended can then be read.
                has_ended = not worker.process.is_alive()
                for message in _messages(worker.pipe):
                    if isinstance(message, Event):
                        if message.kind != BEGUN:
                            worker.unit = [row for row in worker.unit if row != message.row]
                        session.report(message)
                    elif message is None:
                        _deal(worker, left)
                    else:
                        raise FileError(message)
                if has_ended:
                    workers.remove(worker)
                    _handle_exit(worker, left, session)
    finally:
        _stop(workers, session.store)


def _started(session: Session) -> _Worker:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    token = secrets.token_hex(8)
    own = dataclasses.replace(session, token=token)
    process = context.Process(target=_serve, args=(own, theirs))
    # Processes ignore Ctrl-C: their parent ends them.
    with ctrl_c_handled(signal.SIG_IGN):
        process.start()
    theirs.close()
    return _Worker(process, ours, token)


def _deal(worker: _Worker, left: collections.deque[Unit]) -> None:
    """Give a process its next unit, or an empty one, upon which it ends."""
    unit = left.popleft() if left else []
    worker.unit, worker.since, worker.was_ready = unit, time.time(), True
    try:
        worker.pipe.send(unit)
    except OSError:  # it has ended meanwhile
        worker.unit = []
        if unit:
            left.appendleft(unit)


def _messages(pipe: Connection) -> Iterator[Event | str | None]:
    """Events of rows; None: ready for a unit; a text: why the process cannot go on."""
    with contextlib.suppress(EOFError, OSError):  # the process has ended
        while pipe.poll():
            yield pipe.recv()


def _handle_exit(worker: _Worker, left: collections.deque[Unit], session: Session) -> None:
    """Record the row of a process that was killed, or deal out its rows again in halves."""
    worker.process.join()
    status = worker.process.exitcode
    worker.process.close()
    worker.pipe.close()
    how = f"was killed (signal {-status})" if status < 0 else f"ended (status {status})"
    if not worker.was_ready:
        raise ValueError(
            f"a worker process {how} before its first row; see above for its reason, and call "
            "sweep in a script only under if __name__ == '__main__':"
        )
    store = session.store
    claims = {row: store.claims.of(row.identity, worker.token) for row in worker.unit}
    held = [row for row, claim in claims.items() if claim.is_held()]
    if held and len(held) < len(worker.unit):
        left.append([row for row in worker.unit if row not in held])
    if len(held) > 1:
        left.extend([held[: len(held) // 2], held[len(held) // 2 :]])
        worker.release(store)
        return
    # Rows that it did not claim are not recorded, and not tried by another process either.
    for row in held or worker.unit:
        reason = f"the process {how}"
        event = known(row, session)
        session.report(event or record_death(row, store, claims[row], worker.since, reason))


def _stop(workers: list[_Worker], store: Store) -> None:
    """End what still runs, and release the claims of those that did not do so themselves."""
    try:
        for worker in workers:
            worker.process.terminate()
        end = time.monotonic() + _GRACE_SECONDS
        for worker in workers:
            worker.process.join(max(0.0, end - time.monotonic()))
    finally:  # also if the user interrupts again
        for worker in workers:
            worker.process.kill()
            worker.process.join()
            worker.release(store)
            worker.process.close()
            worker.pipe.close()


def _serve(session: Session, pipe: Connection) -> None:
    """Run units in the process until there is none left."""
    session = dataclasses.replace(session, report=pipe.send)
    current: Unit = []
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    threading.Thread(target=_follow_parent, args=(session, current), daemon=True).start()
    try:
        find_work(str(session.work))
        pipe.send(None)
        while unit := pipe.recv():
            current[:] = unit
            run_unit(unit, session)
            pipe.send(None)
    except ValueError as error:  # the store cannot be used, or the work not be found
        pipe.send(str(error))
    except (KeyboardInterrupt, BrokenPipeError, EOFError):
        raise SystemExit(INTERRUPTED) from None


def _follow_parent(session: Session, current: Unit) -> None:
    """End with the parent, which may have been killed."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    for row in current:
        session.store.claims.of(row.identity, str(session.token)).release()
    os._exit(INTERRUPTED)

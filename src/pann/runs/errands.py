"""What a worker of a cluster does with a row: claim it, run it and record it, all in the store."""

import dataclasses
import secrets
import socket
import sys
import threading

from pann.runs.attempt import BEGUN, Outcome, Task, Work, attempt, find_work
from pann.runs.marks import check_mark
from pann.runs.store import DONE, FAILED, Store

BROKEN = "broken"
# A worker of several threads would run as many rows in one process, which has one device.
_ONE_ROW = threading.Lock()


@dataclasses.dataclass(frozen=True)
class Errand:
    """What the rows of a sweep share; plain data, for it travels.

    `sweep` is the topic under which workers tell of rows that they begin and end, and begins the
    tokens of their claims; `work_folder` is where the work's module lies for who cannot find it.
    """

    sweep: str
    work: str
    work_folder: str | None
    store: Store
    mark: str


def run_row(index: int, task: Task, errand: Errand) -> Outcome:
    """Run a row in a Dask worker; a store or a work that cannot be used is an outcome too."""
    from distributed import get_worker

    worker, store = get_worker(), errand.store
    token = f"{errand.sweep}-{secrets.token_hex(4)}"
    say = lambda outcome: worker.log_event(errand.sweep, [index, *dataclasses.astuple(outcome)])
    with _ONE_ROW:
        try:
            check_mark(store, errand.mark)
            work = _found_work(errand)
            # The scheduler gives a row to a second worker when it has given up the first.
            store.claims.take_from_dead(task.row.identity, f"{errand.sweep}-")
            outcome = attempt(task, work, store, token, lambda: say(Outcome(BEGUN)))
        except ValueError as error:
            return Outcome(BROKEN, reason=f"on {socket.gethostname()}: {error}")
    # What is returned stays here until it is fetched, and is lost with this process.
    if outcome.kind in (DONE, FAILED):
        say(outcome)
    return outcome


def _found_work(errand: Errand) -> Work:
    folder = errand.work_folder
    if folder is not None and folder not in sys.path:
        sys.path.append(folder)
    return find_work(errand.work)

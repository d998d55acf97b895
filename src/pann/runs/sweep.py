"""A sweep: all rows of a list, each done once, whoever else is at work on the same store."""

import dataclasses
import os
import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from pann.runs.attempt import (
    BEGUN,
    CLAIMED,
    FAILED_BEFORE,
    SKIPPED,
    Outcome,
    Task,
    Work,
    find_work,
    known,
)
from pann.runs.cluster import run_on_cluster
from pann.runs.row import Row
from pann.runs.store import DONE, FAILED, Store
from pann.runs.surroundings import surroundings
from pann.runs.together import Together, attempt_unit, units_of
from pann.runs.workers import run_in_processes

Item = TypeVar("Item")


@dataclasses.dataclass(frozen=True)
class Event:
    """What became of a row: begun, done, failed, skipped, failed before or claimed."""

    row: Row
    kind: str
    seconds: float = 0.0
    reason: str | None = None


@dataclasses.dataclass(frozen=True)
class Summary:
    """How many rows were done or failed now, were so before, or are claimed by others."""

    done: int = 0
    failed: int = 0
    skipped: int = 0
    failed_before: int = 0
    claimed: int = 0


def sweep(
    rows: Sequence[Row],
    work: Work | str,
    store: Store | str | os.PathLike[str],
    *,
    workers: int = 1,
    cluster: Any = None,
    together: Together | None = None,
    shard: tuple[int, int] = (1, 1),
    retry: bool = False,
    report: Callable[[Event], None] = lambda event: None,
) -> Summary:
    """Run the rows that have no record, and with `retry` those that failed.

    `work` gets a row's configuration and a folder for checkpoints and gives a `Result`. With one
    worker it is called here; with more, in so many processes that import it, so that it is given
    by name, "module:function"; so it is with a `cluster`, the address of a Dask scheduler or what
    else `pann.runs.cluster` takes. A row that fails is recorded with its reason and stops no other;
    Ctrl-C gives back the rows at work. Of `shard` (k, n), rows k, k + n, k + 2n, ... are run. Rows
    that others have claimed are not waited for.

    `together` says which rows may run as one piece of work. Each has its own record, with its share
    of the seconds, and with the number of rows under `together`. Shards are then counted by units
    of such rows. On a cluster every row runs alone.
    """
    if workers < 1:
        raise ValueError(f"workers must be at least 1, got {workers}")
    if workers > 1 and cluster is not None:
        raise ValueError(f"a cluster brings its own workers; leave workers out, got {workers}")
    if (workers > 1 or cluster is not None) and not isinstance(work, str):
        raise ValueError(
            "with several workers the work is given by name, 'module:function', so that other "
            f"processes can import it; got {work!r}"
        )
    units = shard_of(units_of(list(dict.fromkeys(rows)), together), shard)
    own = [row for unit in units for row in unit]
    function = find_work(work) if isinstance(work, str) else work
    store = store if isinstance(store, Store) else Store(os.fspath(store))
    store.prepare()
    surroundings()  # the state of the code as it is now, not after hours of work
    outcomes: dict[int, Outcome] = {}

    def tell(index: int, outcome: Outcome) -> None:
        # Other workers find a record, and say so, of what one of them has done.
        if outcome.kind in (DONE, FAILED):
            outcomes[index] = outcome
        elif outcome.kind not in (BEGUN, CLAIMED):
            outcomes.setdefault(index, outcome)
        if outcome.kind in (BEGUN, DONE, FAILED):
            report(Event(own[index], outcome.kind, outcome.seconds, outcome.reason))

    tasks = {index: _task(row, store, retry) for index, row in enumerate(own)}
    for index, task in list(tasks.items()):
        if (outcome := known(task, store)) is not None:
            tell(index, outcome)
            report(Event(task.row, outcome.kind, reason=outcome.reason))
            del tasks[index]
    numbers = {row: index for index, row in enumerate(own)}
    left = [
        {numbers[row]: tasks[numbers[row]] for row in unit if numbers[row] in tasks}
        for unit in units
    ]
    left = [unit for unit in left if unit]
    if cluster is not None:
        assert isinstance(work, str)
        run_on_cluster(tasks, work, store, cluster, tell)
    elif workers > 1:
        assert isinstance(work, str)
        run_in_processes(left, work, together, store, workers, tell)
    else:
        for unit in left:
            attempt_unit(unit, function, together, store, tell)
    for index, task in tasks.items():
        kind = outcomes[index].kind if index in outcomes else CLAIMED
        if kind not in (DONE, FAILED):
            report(Event(task.row, kind))
    return _summary(outcomes, len(own))


def parse_shard(text: str) -> tuple[int, int]:
    """The shard that "3/16" names: the third of sixteen."""
    match = re.fullmatch(r"\s*(\d{1,9})\s*/\s*(\d{1,9})\s*", text, re.ASCII)
    if match is None:
        raise ValueError(f"a shard is written k/n, such as 3/16, got '{text}'")
    shard = int(match[1]), int(match[2])
    _check_shard(shard)
    return shard


def shard_of(rows: Sequence[Item], shard: tuple[int, int]) -> list[Item]:
    """Rows k, k + n, k + 2n, ... of shard k of n."""
    _check_shard(shard)
    return list(rows[shard[0] - 1 :: shard[1]])


def _check_shard(shard: tuple[int, int]) -> None:
    number, count = shard
    if count < 1 or not 1 <= number <= count:
        raise ValueError(
            f"shard {number}/{count} does not exist; shards of n are numbered 1/n to n/n"
        )


def _task(row: Row, store: Store, retry: bool) -> Task:
    record = store.record(row) if retry else None
    failed = record is not None and record["status"] == FAILED
    return Task(row, record["finished"] if failed and record is not None else None)


def _summary(outcomes: dict[int, Outcome], num_rows: int) -> Summary:
    counts = Counter(outcome.kind for outcome in outcomes.values())
    return Summary(
        done=counts[DONE],
        failed=counts[FAILED],
        skipped=counts[SKIPPED],
        failed_before=counts[FAILED_BEFORE],
        claimed=num_rows - len(outcomes),
    )

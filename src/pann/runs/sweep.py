"""A sweep: all rows of a list, each done once, whatever other processes share the store."""

import dataclasses
import os
import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from pann.runs.batch import (
    BEGUN,
    CLAIMED,
    FAILED_BEFORE,
    SKIPPED,
    Event,
    Session,
    Together,
    Work,
    find_work,
    known,
    run_unit,
    units_of,
)
from pann.runs.cluster import run_on_cluster
from pann.runs.processes import run_in_processes
from pann.runs.provenance import provenance
from pann.runs.row import Row
from pann.runs.store import DONE, FAILED, Store

Item = TypeVar("Item")


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

    `work` is a function of a row's configuration and a folder for checkpoints that gives a
    `Result`. With one worker it is called here. With more it is called in that many processes,
    which import it, so that it is given by name, "module:function"; likewise with a `cluster`, the
    address of a Dask scheduler or what else `pann.runs.cluster` takes. A row that fails is recorded
    with its reason and stops no other; Ctrl-C gives back the rows that are running. Of `shard`
    (k, n), rows k, k + n, k + 2n, ... are run. Rows that other processes have are not waited for.

    `together` says which rows may run as one program. Each has its own record, with its part of the
    seconds, and with the number of rows under `together`. Shards are then counted by units of such
    rows. On a cluster every row runs alone.
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
    if isinstance(work, str):
        find_work(work)  # refuses a name before the first row
    store = store if isinstance(store, Store) else Store(os.fspath(store))
    store.prepare()
    provenance()  # the state of the code as it is now, not after hours of work
    kinds: dict[Row, str] = {}

    def note(event: Event) -> None:
        # Other workers find, and report, a record of what one of them has done.
        if event.kind in (DONE, FAILED):
            kinds[event.row] = event.kind
        elif event.kind not in (BEGUN, CLAIMED):
            kinds.setdefault(event.row, event.kind)
        if event.kind in (BEGUN, DONE, FAILED):
            report(event)

    failures = _failures(own, store) if retry else {}
    session = Session(work, store, note, together, failures)
    for row in own:
        if (event := known(row, session)) is not None:
            kinds[row] = event.kind
            report(event)
    rows = [row for row in own if row not in kinds]
    left = [unit for every in units if (unit := [row for row in every if row not in kinds])]
    if cluster is not None:
        run_on_cluster(rows, session, cluster)
    elif workers > 1:
        run_in_processes(left, session, workers)
    else:
        for unit in left:
            run_unit(unit, session)
    for row in rows:
        if kinds.get(row, CLAIMED) not in (DONE, FAILED):
            report(Event(row, kinds.get(row, CLAIMED)))
    counts = Counter(kinds.values())
    return Summary(
        done=counts[DONE],
        failed=counts[FAILED],
        skipped=counts[SKIPPED],
        failed_before=counts[FAILED_BEFORE],
        claimed=len(own) - len(kinds),
    )


def parse_shard(text: str) -> tuple[int, int]:
    """The shard that "3/16" names: the third of sixteen."""
    match = re.fullmatch(r"\s*(\d{1,9})\s*/\s*(\d{1,9})\s*", text, re.ASCII)
    if match is None:
        raise ValueError(f"a shard is written k/n, such as 3/16, got '{text}'")
    shard = int(match[1]), int(match[2])
    shard_of((), shard)  # refuses one that does not exist
    return shard


def shard_of(rows: Sequence[Item], shard: tuple[int, int]) -> list[Item]:
    """Rows k, k + n, k + 2n, ... of shard k of n."""
    number, count = shard
    if count < 1 or not 1 <= number <= count:
        raise ValueError(
            f"shard {number}/{count} does not exist; shards of n are numbered 1/n to n/n"
        )
    return list(rows[number - 1 :: count])


def _failures(rows: Sequence[Row], store: Store) -> dict[Row, str]:
    """The rows that have failed, and when."""
    return {
        row: record["finished"]
        for row in rows
        if (record := store.record(row)) is not None and record["status"] == FAILED
    }

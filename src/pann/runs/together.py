"""Several rows as one piece of work, each with a record of its own."""

import contextlib
import dataclasses
import time
import warnings
from collections.abc import Callable, Hashable, Mapping, Sequence

from pann.runs.attempt import (
    BEGUN,
    Outcome,
    Task,
    Work,
    add_result,
    attempt,
    check_disk,
    copied,
    find_work,
    hold,
    now,
    reason_of,
)
from pann.runs.claims import Claim
from pann.runs.programs import forget_programs_if_many
from pann.runs.result import Result
from pann.runs.row import Row
from pann.runs.store import Store
from pann.runs.surroundings import surroundings

Tell = Callable[[int, Outcome], None]
AT_MOST = 16


@dataclasses.dataclass(frozen=True)
class Together:
    """Which rows may run as one, those of equal `key` (None: alone), and how.

    `work` names a function, "module:function", of a list of configurations and a folder for
    checkpoints; it gives a list of results. `room` names one of a configuration, which says for how
    many such rows there is memory; it is asked where the rows are run. `at_most` limits both.
    """

    key: Callable[[Row], Hashable]
    work: str
    room: str | None = None
    at_most: int = AT_MOST

    def __post_init__(self) -> None:
        if self.at_most < 1:
            raise ValueError(f"at_most must be at least 1, got {self.at_most}; 1 runs rows alone")


def units_of(rows: Sequence[Row], together: Together | None) -> list[list[Row]]:
    """The rows in units that may run as one, each where its first row stands."""
    if together is None or together.at_most == 1:
        return [[row] for row in rows]
    units: list[list[Row]] = []
    open_units: dict[Hashable, list[Row]] = {}
    for row in rows:
        key = together.key(row)
        unit = None if key is None else open_units.get(key)
        if unit is None or len(unit) == together.at_most:
            unit = []
            units.append(unit)
            if key is not None:
                open_units[key] = unit
        unit.append(row)
    return units


def attempt_unit(
    tasks: Mapping[int, Task],
    work: Work,
    together: Together | None,
    store: Store,
    tell: Tell,
    token: str | None = None,
) -> None:
    """Run rows as one as far as memory goes, and tell what becomes of each, by number.

    Rows that were begun alone go on alone; so do all where running them as one fails.
    """
    forget_programs_if_many()
    as_one = [index for index, task in tasks.items() if not store.is_begun(task.row)]
    if together is not None and len(as_one) > 1:
        several = {index: tasks[index] for index in as_one}
        room = _room(several[as_one[0]].row, together)
        _attempt_in_parts(several, room, work, together, store, tell, token)
    else:
        as_one = []
    for index in tasks:
        if index not in as_one:
            _attempt_alone(index, tasks[index], work, store, tell, token)


def _room(row: Row, together: Together) -> int:
    """How many rows such as this one to run at a time."""
    if together.room is None:
        return together.at_most
    try:
        return max(1, min(together.at_most, find_work(together.room)(copied(row))))
    except Exception as error:
        warnings.warn(
            f"it is not known how many rows run as one ({reason_of(error)}); they are run alone",
            stacklevel=2,
        )
        return 1


def _attempt_alone(
    index: int, task: Task, work: Work, store: Store, tell: Tell, token: str | None
) -> None:
    begun = lambda: tell(index, Outcome(BEGUN))
    tell(index, attempt(task, work, store, token, begun))


def _attempt_in_parts(
    tasks: Mapping[int, Task],
    size: int,
    work: Work,
    together: Together,
    store: Store,
    tell: Tell,
    token: str | None,
) -> None:
    """Run the rows, so many at a time; those for which the memory is too small in halves."""
    indices = list(tasks)
    for start in range(0, len(indices), size):
        part = {index: tasks[index] for index in indices[start : start + size]}
        if len(part) == 1:
            for index, task in part.items():
                _attempt_alone(index, task, work, store, tell, token)
            continue
        smaller = _attempt_as_one(part, together, store, tell, token)
        if smaller is not None:
            _attempt_in_parts(part, smaller, work, together, store, tell, token)


def _attempt_as_one(
    tasks: Mapping[int, Task], together: Together, store: Store, tell: Tell, token: str | None
) -> int | None:
    """Run rows as one, without those that others have; if that fails, how many to try at a time."""
    with contextlib.ExitStack() as kept:
        held: dict[int, Claim] = {}
        for index, task in tasks.items():
            claim = hold(task, store, token, kept)
            if isinstance(claim, Outcome):
                tell(index, claim)
            else:
                held[index] = claim
        if len(held) < 2:
            return 1
        for index in held:
            tell(index, Outcome(BEGUN))
        rows = [tasks[index].row for index in held]
        started, start = now(), time.perf_counter()
        try:
            results = _results(rows, together.work, store)
        except (Exception, SystemExit) as error:
            check_disk(error, store.scratch_together(rows))
            smaller = len(rows) // 2 if is_out_of_memory(error) else 1
            warnings.warn(
                f"{len(rows)} rows did not run as one ({reason_of(error)}); they are tried "
                f"{smaller} at a time",
                stacklevel=2,
            )
            return smaller
        seconds = (time.perf_counter() - start) / len(rows)
        about = {**surroundings(), "together": len(rows)}
        for (index, claim), row, result in zip(held.items(), rows, results, strict=True):
            outcome = add_result(
                row, result, store, claim, started=started, seconds=seconds, about=about
            )
            tell(index, outcome)
    return None


def _results(rows: Sequence[Row], work: str, store: Store) -> list[Result]:
    results = find_work(work)([copied(row) for row in rows], store.scratch_together(rows))
    if not all(isinstance(result, Result) for result in results) or len(results) != len(rows):
        raise TypeError(f"'{work}' must return a Result for each of {len(rows)} rows")
    return list(results)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error, or what led to it, is that of a device or machine without memory left."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, MemoryError) or "RESOURCE_EXHAUSTED" in str(cause):
            return True
        cause = cause.__cause__ or cause.__context__
    return False

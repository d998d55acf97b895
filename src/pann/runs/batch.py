"""Rows from claim to record: one alone, or several as one program with a record for each.

`run_unit` claims the rows of a unit, calls the work, and records what it gave. The work is a
function of a row's configuration and a folder for checkpoints, which gives a `Result`. Rows with
equal shapes may run as one program (`Together`); where memory does not suffice they run in halves,
and where that fails alone.
"""

import contextlib
import copy
import dataclasses
import datetime
import errno
import importlib
import pathlib
import time
import traceback
import warnings
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any

from pann.io import FileError
from pann.io.checks import one_line
from pann.runs.locks import Claim
from pann.runs.provenance import device_kind, provenance
from pann.runs.row import Result, Row
from pann.runs.store import DONE, FAILED, Store, is_failure
from pann.runtime.atomic import disk_errors

# What a row can turn out to be, in addition to "done" and "failed".
BEGUN, SKIPPED, FAILED_BEFORE, CLAIMED = "begun", "skipped", "failed before", "claimed"
AT_MOST = 16
MAPPINGS = pathlib.Path("/proc/self/maps")
MOST_MAPPINGS = pathlib.Path("/proc/sys/vm/max_map_count")
_DISK_REFUSES = {errno.ENOSPC, errno.EDQUOT, errno.EROFS}

Work = Callable[[Mapping[str, Any], pathlib.Path], Result]


@dataclasses.dataclass(frozen=True)
class Together:
    """Which rows may run as one program, those of equal `key` (None: alone), and how.

    `work` names a function, "module:function", of a list of configurations and a folder for
    checkpoints; it gives a list of results. `room` names one of a configuration, which says for how
    many such rows there is memory; it is called where the rows are run. `at_most` limits both.
    """

    key: Callable[[Row], Hashable]
    work: str
    room: str | None = None
    at_most: int = AT_MOST

    def __post_init__(self) -> None:
        if self.at_most < 1:
            raise ValueError(f"at_most must be at least 1, got {self.at_most}; 1 runs rows alone")


@dataclasses.dataclass(frozen=True)
class Event:
    """What became of a row: begun, done, failed, skipped, failed before or claimed."""

    row: Row
    kind: str
    seconds: float = 0.0
    reason: str | None = None


Unit = list[Row]  # rows that may run as one program
Report = Callable[[Event], None]


@dataclasses.dataclass(frozen=True)
class Session:
    """What all rows of a sweep share: how to run them, where to record them, and whom to report to.

    `work` is a function or its name, "module:function". `failures` has the rows to run though they
    failed, and when they did. `token` is that of the claims (default: a new one for each).
    """

    work: Work | str
    store: Store
    report: Report
    together: Together | None = None
    failures: Mapping[Row, str] = dataclasses.field(default_factory=dict)
    token: str | None = None

    def to_send(self) -> "Session":
        """The session for another process, which is given units and reports in its own way."""
        # The key of rows may be no function that another process could import.
        together = self.together and dataclasses.replace(self.together, key=hash)
        return dataclasses.replace(self, report=print, together=together)


def units_of(rows: Sequence[Row], together: Together | None) -> list[Unit]:
    """The rows in units that may run as one program, each at the place of its first row."""
    if together is None or together.at_most == 1:
        return [[row] for row in rows]
    units: list[Unit] = []
    open_units: dict[Hashable, Unit] = {}
    for row in rows:
        key = together.key(row)
        unit = open_units.get(key)
        if key is None or unit is None or len(unit) == together.at_most:
            unit = open_units[key] = []
            units.append(unit)
        unit.append(row)
    return units


def find_work(name: str) -> Callable[..., Any]:
    """The function that `module:function` names."""
    module, colon, function = name.partition(":")
    if not colon or not module or not function:
        raise ValueError(f"work must be named 'module:function', got '{name}'")
    try:
        work = getattr(importlib.import_module(module), function)
    except ModuleNotFoundError as error:
        raise ValueError(f"cannot import the work '{name}': {one_line(error)}") from error
    except AttributeError:
        raise ValueError(f"module '{module}' has no function '{function}' to work with") from None
    if not callable(work):
        raise ValueError(f"'{name}' is no function; name one of (configuration, folder)")
    return work


def known(row: Row, session: Session) -> Event | None:
    """What a record says of a row that needs no run; None if it needs one."""
    record = session.store.record(row)
    if record is None or is_failure(record, session.failures.get(row)):
        return None
    if record["status"] == FAILED:
        return Event(row, FAILED_BEFORE, reason=record.get("reason"))
    return Event(row, SKIPPED)


def run_unit(unit: Unit, session: Session) -> None:
    """Run and record the rows of a unit, as one program as far as memory allows.

    Rows that were begun alone go on alone.
    """
    forget_programs_if_many()
    together = session.together
    fresh = [row for row in unit if not session.store.is_begun(row)]
    if together is None or len(fresh) < 2:
        fresh = []
    else:
        _run_parts(fresh, _room(fresh[0], together), session)
    _run_parts([row for row in unit if row not in fresh], 1, session)


def _run_parts(unit: Unit, size: int, session: Session) -> None:
    """Run the rows, `size` at a time."""
    for start in range(0, len(unit), size):
        part = unit[start : start + size]
        smaller = _run_part(part, session)
        if smaller is not None:
            _run_parts(part, smaller, session)


def _run_part(unit: Unit, session: Session) -> int | None:
    """Run rows at once, without those that others have; if that fails, how many to try at a time.

    The failure of a row that runs alone is recorded.
    """
    store, report = session.store, session.report
    with contextlib.ExitStack() as kept:
        held: dict[Row, Claim] = {}
        for row in unit:
            claim = _hold(row, session, kept)
            if isinstance(claim, Event):
                report(claim)
            else:
                held[row] = claim
        if not held:
            return None
        rows = list(held)
        for row in rows:
            report(Event(row, BEGUN))
        about = {**provenance(), "together": len(rows)} if len(rows) > 1 else provenance()
        folder = store.scratch(*rows)
        started, start = time.time(), time.perf_counter()
        try:
            results = _results(rows, folder, session)
        except (Exception, SystemExit) as error:
            _check_disk(error, folder)
            if len(rows) > 1:
                smaller = len(rows) // 2 if is_out_of_memory(error) else 1
                warnings.warn(
                    f"{len(rows)} rows did not run as one ({_reason(error)}); they are tried "
                    f"{smaller} at a time",
                    stacklevel=2,
                )
                return smaller
            results = [Result({})]
            about = {**about, "reason": _reason(error), "traceback": traceback.format_exc()}
        seconds = (time.perf_counter() - start) / len(rows)
        about = {"device": device_kind(), **about}
        events = [
            add_record(row, result, store, held[row], started, seconds, about)
            for row, result in zip(rows, results, strict=True)
        ]
    # Reported when the claims are released: the receiver may end this process.
    for event in events:
        report(event)
    return None


def _hold(row: Row, session: Session, kept: contextlib.ExitStack) -> Claim | Event:
    """Claim a row that is to be run until the stack is left; or what else became of the row."""
    if (event := known(row, session)) is not None:
        return event
    claim = session.store.claims.take(row.identity, session.token)
    if claim is None:
        return Event(row, CLAIMED)
    kept.enter_context(claim.kept())
    # Another process may have finished the row since the first look; from now on none does.
    if (event := known(row, session)) is not None:
        return event
    if row in session.failures:
        session.store.forget_failure(row, session.failures[row])
    return claim


def _results(rows: Sequence[Row], folder: pathlib.Path, session: Session) -> list[Result]:
    # Copies: what the work changes there must not reach the record.
    own = [copy.deepcopy(row.configuration) for row in rows]
    if len(rows) == 1:
        work = find_work(session.work) if isinstance(session.work, str) else session.work
        result = work(own[0], folder)
        if not isinstance(result, Result):
            raise TypeError(f"work must return a Result, got {type(result).__name__}")
        return [result]
    assert session.together is not None
    name = session.together.work
    results = list(find_work(name)(own, folder))
    if not all(isinstance(result, Result) for result in results) or len(results) != len(rows):
        raise TypeError(f"'{name}' must return a Result for each of {len(rows)} rows")
    return results


def add_record(
    row: Row,
    result: Result,
    store: Store,
    claim: Claim,
    started: float,
    seconds: float,
    about: Mapping[str, Any],
) -> Event:
    """Record a run that started at that time, as a failure if `about` has a reason for one."""
    reason = about.get("reason")
    record = {
        "identity": row.identity,
        "experiment": row.experiment,
        "status": DONE if reason is None else FAILED,
        "configuration": dict(row.configuration),
        "figures": dict(result.figures),
        "arrays": sorted(result.arrays),
        "seconds": seconds,
        "started": _iso(started),
        "finished": _iso(time.time()),
        **about,
    }
    if not store.add(row, record, result.arrays, claim):
        return Event(row, CLAIMED)
    return Event(row, record["status"], seconds, reason)


def record_death(row: Row, store: Store, claim: Claim, started: float, reason: str) -> Event:
    """Record a failure for a process that was killed, if it held the row."""
    if not claim.is_held():
        return Event(row, CLAIMED)
    about = {**provenance(), "device": None, "reason": reason, "traceback": None}
    seconds = time.time() - started
    event = add_record(row, Result({}), store, claim, started, seconds, about)
    claim.release()
    return event


def _room(row: Row, together: Together) -> int:
    """How many rows such as this one to run at a time."""
    if together.room is None:
        return together.at_most
    try:
        room = find_work(together.room)(copy.deepcopy(row.configuration))
        return max(1, min(together.at_most, room))
    except Exception as error:
        warnings.warn(
            f"it is not known how many rows run as one ({_reason(error)}); they are run alone",
            stacklevel=2,
        )
        return 1


def forget_programs_if_many() -> None:
    """Drop compiled programs when they take half of the memory mappings that Linux allows.

    Linux gives a process 65,530 mappings at most. A sweep compiles programs for rows of ever new
    shapes, and after some hundred the next one would fail.
    """
    try:
        limit = int(MOST_MAPPINGS.read_text())
        with MAPPINGS.open("rb") as lines:
            taken = sum(1 for _ in lines)
    except (OSError, ValueError):  # not Linux
        return
    if taken >= limit / 2:
        import jax  # a sweep of other work may do without

        jax.clear_caches()


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error, or what caused it, is a lack of memory of the device or the machine."""
    return any(
        isinstance(cause, MemoryError) or "RESOURCE_EXHAUSTED" in str(cause)
        for cause in _causes(error)
    )


def _check_disk(error: BaseException, folder: pathlib.Path) -> None:
    """A disk that is full or read-only is no failure of the row: all others would fail as well."""
    for cause in _causes(error):
        if isinstance(cause, OSError) and cause.errno in _DISK_REFUSES:
            if isinstance(error, FileError):  # its sentence names the file
                raise error
            with disk_errors(cause.filename or folder):
                raise cause


def _causes(error: BaseException) -> Iterator[BaseException]:
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__ or cause.__context__


def _reason(error: BaseException) -> str:
    name = type(error).__name__
    if not isinstance(error, Exception):
        return f"{name}: the work ended its process ({error})"
    return f"{name}: {one_line(error)}" if str(error) else name


def _iso(seconds: float) -> str:
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).isoformat(timespec="microseconds")

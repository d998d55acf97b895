"""One row from claim to record."""

import contextlib
import dataclasses
import datetime
import errno
import importlib
import pathlib
import time
import traceback
from collections.abc import Callable, Mapping
from typing import Any

from pann.io import FileError
from pann.io.container import told
from pann.runs.claims import Claim
from pann.runs.result import Result
from pann.runs.row import Row
from pann.runs.store import DONE, FAILED, Store, is_failure
from pann.runs.surroundings import device_kind, surroundings
from pann.runs.writing import writing_to

# Beside "done" and "failed", what a row can turn out to be.
BEGUN, SKIPPED, FAILED_BEFORE, CLAIMED = "begun", "skipped", "failed before", "claimed"

_DISK_REFUSES = {errno.ENOSPC, errno.EDQUOT, errno.EROFS}

Work = Callable[[Mapping[str, Any], pathlib.Path], Result]


@dataclasses.dataclass(frozen=True)
class Task:
    """A row to run, and the time of the failure that may be tried again."""

    row: Row
    failure: str | None = None


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What became of a row, with the reason if it failed."""

    kind: str
    seconds: float = 0.0
    reason: str | None = None


def find_work(name: str) -> Callable[..., Any]:
    """The function that `module:function` names."""
    module, colon, function = name.partition(":")
    if not colon or not module or not function:
        raise ValueError(f"work must be named 'module:function', got '{name}'")
    try:
        work = getattr(importlib.import_module(module), function)
    except ModuleNotFoundError as error:
        raise ValueError(f"cannot import the work '{name}': {told(error)}") from error
    except AttributeError:
        raise ValueError(f"module '{module}' has no function '{function}' to work with") from None
    if not callable(work):
        raise ValueError(f"'{name}' is no function; name one of (configuration, folder)")
    return work


def known(task: Task, store: Store) -> Outcome | None:
    """What a record says of a row that needs no run; None if it needs one."""
    record = store.record(task.row)
    if record is None or is_failure(record, task.failure):
        return None
    if record["status"] == FAILED:
        return Outcome(FAILED_BEFORE, reason=record.get("reason"))
    return Outcome(SKIPPED)


def attempt(
    task: Task,
    work: Work,
    store: Store,
    token: str | None = None,
    begun: Callable[[], None] = lambda: None,
) -> Outcome:
    """Run a row and record it, unless another process has it in hand or was faster."""
    with contextlib.ExitStack() as kept:
        claim = hold(task, store, token, kept)
        if isinstance(claim, Outcome):
            return claim
        begun()
        return _run(task.row, work, store, claim)


def hold(
    task: Task, store: Store, token: str | None, kept: contextlib.ExitStack
) -> Claim | Outcome:
    """Claim a row that is to be run until the stack is left; or what else became of the row."""
    outcome = known(task, store)
    if outcome is not None:
        return outcome
    claim = store.claims.take(task.row.identity, token)
    if claim is None:
        return Outcome(CLAIMED)
    kept.enter_context(claim.kept())
    # Another may have finished the row since the first look; from now on nobody does.
    outcome = known(task, store)
    if outcome is not None:
        return outcome
    if task.failure is not None:
        store.forget_failure(task.row, task.failure)
    return claim


def _run(row: Row, work: Work, store: Store, claim: Claim) -> Outcome:
    about = surroundings()
    folder = store.scratch(row)
    started, start = now(), time.perf_counter()
    result, reason, trace = Result({}), None, None
    try:
        result = work(copied(row), folder)
        if not isinstance(result, Result):
            raise TypeError(f"work must return a Result, got {type(result).__name__}")
    except (Exception, SystemExit) as error:
        check_disk(error, folder)
        result, reason, trace = Result({}), reason_of(error), traceback.format_exc()
    seconds = time.perf_counter() - start
    if reason is not None:
        about = {**about, "reason": reason, "traceback": trace}
    return add_result(row, result, store, claim, started=started, seconds=seconds, about=about)


def add_result(
    row: Row,
    result: Result,
    store: Store,
    claim: Claim,
    *,
    started: str,
    seconds: float,
    about: Mapping[str, Any],
) -> Outcome:
    """Record a run, a failure where `about` has a reason for one."""
    reason = about.get("reason")
    record = {
        **_begin_record(row, DONE if reason is None else FAILED),
        "figures": dict(result.figures),
        "arrays": sorted(result.arrays),
        "seconds": seconds,
        "started": started,
        "finished": now(),
        "device": device_kind(),
        **about,
    }
    if not store.add(row, record, result.arrays, claim):
        return Outcome(CLAIMED)
    return Outcome(record["status"], seconds, reason)


def check_disk(error: BaseException, folder: pathlib.Path) -> None:
    """A disk that is full or read-only is no failure of the row, and would be that of all."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.errno in _DISK_REFUSES:
            if isinstance(error, FileError):  # its sentence names the file
                raise error
            with writing_to(pathlib.Path(cause.filename or folder)):
                raise cause
        cause = cause.__cause__ or cause.__context__


def record_death(row: Row, store: Store, claim: Claim, *, started: float, reason: str) -> Outcome:
    """Record for a process that was killed that its row failed, if it held the row."""
    if not claim.is_held():
        return Outcome(CLAIMED)
    end = time.time()
    record = {
        **_begin_record(row, FAILED),
        "figures": {},
        "arrays": [],
        "seconds": end - started,
        "started": datetime.datetime.fromtimestamp(started, datetime.UTC).isoformat(),
        "finished": now(),
        **surroundings(),
        "device": None,
        "reason": reason,
        "traceback": None,
    }
    recorded = store.add(row, record, {}, claim)
    claim.release()
    return Outcome(FAILED, end - started, reason) if recorded else Outcome(CLAIMED)


def _begin_record(row: Row, status: str) -> dict[str, Any]:
    return {
        "identity": row.identity,
        "experiment": row.experiment,
        "status": status,
        "configuration": dict(row.configuration),
    }


def copied(row: Row) -> Mapping[str, Any]:
    """For the work to keep: what it changes there must not reach the record."""
    return Row(row.experiment, row.configuration).configuration


def reason_of(error: BaseException) -> str:
    name = type(error).__name__
    if not isinstance(error, Exception):
        return f"{name}: the work ended its process ({error})"
    return f"{name}: {told(error)}" if str(error) else name


def now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="microseconds")

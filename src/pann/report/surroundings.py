"""Where and when the runs took place, and which of them failed."""

from collections.abc import Mapping, Sequence
from typing import Any

from pann.report.page import Column, Section, Table, Value
from pann.report.run_details import describe
from pann.report.texts import NOTHING, counted, duration, number

Record = Mapping[str, Any]
MOST_FAILURES = 500


def section(records: Sequence[Record]) -> Section:
    """Devices, versions and states of the code, with the seconds spent on each."""
    groups: dict[tuple[str, ...], list[Record]] = {}
    for record in records:
        groups.setdefault(_surroundings(record), []).append(record)
    lines = []
    for where, each in sorted(groups.items(), key=lambda pair: -len(pair[1])):
        seconds = sum(record["seconds"] for record in each)
        days = sorted(str(record["started"])[:10] for record in each)
        lines.append(
            (
                *(Value(text) for text in where),
                Value(f"{len(each):,}", len(each)),
                Value(duration(seconds), seconds),
                Value(days[0] if days[0] == days[-1] else f"{days[0]} to {days[-1]}"),
            )
        )
    columns = (
        *(Column(title) for title in ("device", "pann", "JAX", "Python", "commit")),
        Column("runs", is_number=True),
        Column("time", is_number=True),
        Column("days"),
    )
    return Section(
        "surroundings",
        "Times, versions, devices",
        f"{counted(len(records), 'run')} in {duration(sum(r['seconds'] for r in records))}. Every "
        "run has its own in its detail.",
        (Table("A line for each device and version.", columns, tuple(lines)),),
        group="About",
    )


def failures(records: Sequence[Record]) -> tuple[Section, ...]:
    """A section for the runs that failed, if there are any."""
    failed = [record for record in records if record["status"] != "done"]
    if not failed:
        return ()
    columns = (
        Column("experiment"),
        Column("run"),
        Column("reason", is_wide=True),
        Column("s", is_number=True),
    )
    lines = tuple(
        (
            Value(record["experiment"]),
            Value(describe(record["configuration"]), run=record["identity"]),
            Value(str(record.get("reason"))),
            Value(number(record["seconds"]), record["seconds"]),
        )
        for record in failed[:MOST_FAILURES]
    )
    cut = f", the first {MOST_FAILURES} of which are here" if len(failed) > MOST_FAILURES else ""
    lead = f"{counted(len(failed), 'run')} failed{cut}; a failure is recorded like a result."
    table = Table("The reason as it was recorded.", columns, lines)
    return (Section("failures", "What failed", lead, (table,), group="About"),)


def _surroundings(record: Record) -> tuple[str, ...]:
    versions, git = record.get("versions") or {}, record.get("git") or {}
    commit = str(git.get("commit") or NOTHING)[:10] + (" + changes" if git.get("dirty") else "")
    told = (record.get("device"), *(versions.get(name) for name in ("pann", "jax", "python")))
    return (*(str(each or NOTHING) for each in told), commit)

"""Records as a pandas frame: one line per run, one column per setting and figure.

Columns of every run: experiment, identity, status; then the settings and figures by their own
names, nested ones joined by dots; then seconds, together (how many rows ran as one program, if the
run was not alone), started, finished, reason, device, host, pann, jax, python, commit, dirty. A
setting or figure whose name is taken, by one of those or by one another, is called
`configuration.<name>` or `figures.<name>`. Lists are tuples, so that lines can be grouped by them;
null is missing.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

FIRST = ("experiment", "identity", "status")
LAST = ("seconds", "together", "started", "finished", "reason", "device", "host")
NESTED = {"versions": ("pann", "jax", "python"), "git": ("commit", "dirty")}
PARTS = ("configuration", "figures")


def make_frame(records: Sequence[Mapping[str, Any]]) -> "pd.DataFrame":
    """The frame of the records, in their order."""
    import pandas as pd

    flat = [{part: _flat(record.get(part) or {}) for part in PARTS} for record in records]
    fixed = [*LAST, *(name for names in NESTED.values() for name in names)]
    own = list(dict.fromkeys((part, n) for part in PARTS for line in flat for n in line[part]))
    counts = Counter([*FIRST, *fixed, *(name for _, name in own)])
    columns = {(part, name): f"{part}.{name}" if counts[name] > 1 else name for part, name in own}
    lines = []
    for record, parts in zip(records, flat, strict=True):
        line = {name: record.get(name) for name in FIRST + LAST}
        for key, names in NESTED.items():
            line |= {name: (record.get(key) or {}).get(name) for name in names}
        for part in PARTS:
            line |= {columns[part, name]: value for name, value in parts[part].items()}
        lines.append(line)
    frame = pd.DataFrame(lines, columns=[*FIRST, *columns.values(), *fixed])
    for column in ("started", "finished"):
        frame[column] = pd.to_datetime(frame[column], utc=True, format="ISO8601")
    # A figure that is finite in no run is a number nevertheless.
    figures = [column for (part, _), column in columns.items() if part == "figures"]
    for column in ("seconds", *figures):
        if frame[column].isna().all():
            frame[column] = frame[column].astype(float)
    return frame


def _flat(values: Mapping[str, Any]) -> dict[str, Any]:
    """Nested settings by names joined with dots, unless two would get the same name."""
    pairs = list(_pairs(values, ""))
    joined = dict(pairs)
    return joined if len(joined) == len(pairs) else {k: _fixed(v) for k, v in values.items()}


def _pairs(values: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if isinstance(value, dict) and value:
            yield from _pairs(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", _fixed(value)


def _fixed(value: Any) -> Any:
    return tuple(_fixed(inner) for inner in value) if isinstance(value, list) else value

"""What lies behind a cell: the configuration, figures, curves and arrays of one run."""

import base64
import functools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from pann.report.page import Block, Detail, Facts, Key, Note, Panels, Plot
from pann.report.plots import Axis, Line, coarser, history_lines, line_plot, map_plot
from pann.report.texts import duration, name_of, shown
from pann.runs import Row, Store

Record = Mapping[str, Any]
Arrays = Mapping[str, np.ndarray]
Special = Callable[[Arrays], list[Panels]]
# The maps of all runs together, in bytes of the page, and what a map may have at most.
MAP_BYTES, MAX_MAP = 3_000_000, 64
CURVE_POINTS = 60
AXIS = "axis_"
GAP, STEPS = 255, 254
DESCRIBED = ("method", "model", "base", "activation", "constraint", "norm", "sampling", "index_set")


def make_details(
    records: Sequence[Record], store: Store, special: Mapping[str, Special] | None = None
) -> tuple[Detail, ...]:
    """A detail for each run, with maps as fine as their number allows.

    What draws the arrays of an experiment better than maps of each may be given as `special`.
    """
    with_arrays = sum(bool(record.get("arrays")) for record in records)
    resolution = _resolution(with_arrays)
    return tuple(_make_detail(record, store, resolution, special or {}) for record in records)


def _resolution(num_runs: int) -> int:
    """How many places a map has along an axis, if each of so many runs has three maps."""
    return min(MAX_MAP, math.isqrt(MAP_BYTES // (3 * max(num_runs, 1))))


def _make_detail(
    record: Record, store: Store, resolution: int, special: Mapping[str, Special]
) -> Detail:
    figures, configuration = record.get("figures") or {}, record["configuration"]
    blocks: list[Block] = []
    if record["status"] != "done":
        blocks.append(Note(f"It failed: {record.get('reason')}"))
    blocks.append(Facts("Figures", tuple(_figures(figures))))
    history = figures.get("history")
    if isinstance(history, Mapping) and any(len(each) > 1 for each in history.values()):
        blocks.append(history_panels(history, CURVE_POINTS))
    if record.get("arrays"):
        arrays = store.arrays(Row(record["experiment"], configuration))
        drawn = special.get(record["experiment"], functools.partial(_panels, resolution))
        blocks += drawn(arrays)
    settings = tuple((name_of(name), shown(value)) for name, value in configuration.items())
    blocks.append(Facts("Configuration", settings))
    blocks.append(Facts("Where and when", tuple(_surroundings(record))))
    lead = f"{record['experiment']}, {record['status']} in {duration(record['seconds'])}"
    return Detail(record["identity"], describe(configuration), lead, tuple(blocks))


def describe(configuration: Mapping[str, Any]) -> str:
    """A configuration in a line: what is run, its size, its number of points."""
    words = [shown(configuration[name]) for name in DESCRIBED if name in configuration]
    if "depth" in configuration and "width" in configuration:
        words.append(f"{configuration['depth']}x{configuration['width']}")
    for name in ("c", "alpha", "dimension", "degree"):
        if name in configuration:
            words.append(f"{name_of(name)} = {shown(configuration[name])}")
    if "num_points" in configuration:
        words.append(f"N = {configuration['num_points']:,}")
    mode = configuration.get("mode")
    told = ", ".join(words) or ", ".join(
        f"{name_of(name)} {shown(value)}" for name, value in list(configuration.items())[:4]
    )
    return f"{mode}: {told}" if mode and words else str(mode or told or "a run")


def history_panels(history: Mapping[str, Sequence[Any]], most: int) -> Panels:
    """Every term of the loss and the error over the steps."""
    lines = history_lines(history, most)
    title = "step" if "step" in history else "number of the record"
    plot = line_plot("over the training", lines, Axis(title), Axis(is_log=True))
    keys = tuple(Key(each.label, each.color, each.dash, each.symbol) for each in lines)
    return Panels("Curves", (plot,), keys)


# ---- Figures and surroundings ----


def _figures(figures: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    for name, value in figures.items():
        if name == "history":
            continue
        if isinstance(value, Mapping):
            for part, values in value.items():
                yield f"{name_of(name)} of {part}", shown(values)
        else:
            yield name_of(name), shown(value)


def _surroundings(record: Record) -> Iterable[tuple[str, str]]:
    yield "identity", record["identity"]
    yield "device", shown(record.get("device"))
    for name, version in (record.get("versions") or {}).items():
        yield name, shown(version)
    git = record.get("git") or {}
    if git.get("commit"):
        changed = ", with changes" if git.get("dirty") else ""
        yield "commit", f"{git['commit'][:10]}{changed}"
    yield "begun", str(record["started"])[:19].replace("T", " ")
    yield "ended", str(record["finished"])[:19].replace("T", " ")
    yield "seconds", shown(record["seconds"])
    if record.get("together"):
        yield "rows trained together", shown(record["together"])


# ---- Arrays ----


def _panels(resolution: int, arrays: Arrays) -> list[Panels]:
    plots = array_plots(arrays, resolution)
    return [Panels("Solution and halves", tuple(plots))] if plots else []


def array_plots(arrays: Arrays, resolution: int) -> list[Plot]:
    """Maps of arrays with two dimensions, lines of those with one.

    Arrays called `axis_1_x`, `axis_2_y` have the coordinates along the axes x and y of the others.
    """
    axes = {name: array for name, array in sorted(arrays.items()) if name.startswith(AXIS)}
    plots = []
    for name, array in arrays.items():
        if name in axes or array.dtype == bool:
            continue
        places = list(axes.items()) if _fits(array, axes) else []
        if array.ndim == 2 and min(array.shape) > 1:
            plots.append(_array_map(name, array, places, resolution))
        elif array.ndim == 1 and len(array) > 2:
            at = places[0][1] if places else np.arange(len(array))
            along = _axis_name(places[0][0]) if places else "number"
            plots.append(line_plot(name_of(name), [Line(name, at, array)], Axis(along), Axis()))
    return plots


def _fits(array: np.ndarray, axes: Mapping[str, np.ndarray]) -> bool:
    return array.shape == tuple(len(each) for each in axes.values())


def _axis_name(name: str) -> str:
    return name.removeprefix(AXIS).partition("_")[2]


def _array_map(
    name: str, array: np.ndarray, places: Sequence[tuple[str, np.ndarray]], resolution: int
) -> Plot:
    values = coarser(np.asarray(array, float), resolution)
    if places:
        ticks = [coarser(np.asarray(each, float), resolution) for _, each in places]
        axes = [Axis(_axis_name(each)) for each, _ in places]
    else:
        ticks = [
            np.linspace(0, length - 1, count)
            for length, count in zip(array.shape, values.shape, strict=True)
        ]
        axes = [Axis("first index"), Axis("second index")]
    plot = map_plot(name_of(name), values, (axes[0], axes[1]), (ticks[0], ticks[1]))
    (trace,) = plot.figure["data"]
    trace["z"] = in_steps(values.T)
    return plot


def in_steps(values: np.ndarray) -> dict[str, Any]:
    """A map in a byte a value: what many runs can afford in one page; the page's script widens it.

    The values are low + (high - low) step / 254; 255 is a gap.
    """
    is_finite = np.isfinite(values)
    low, high = (float(f(values[is_finite])) if is_finite.any() else 0.0 for f in (np.min, np.max))
    scaled = (values - low) / (high - low or 1.0) * STEPS
    steps = np.where(is_finite, np.nan_to_num(scaled).round(), GAP).astype(np.uint8)
    text = base64.b64encode(np.ascontiguousarray(steps).tobytes()).decode("ascii")
    return {"steps": text, "low": low, "high": high, "shape": list(values.shape)}

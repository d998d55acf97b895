"""The paper's figures, drawn anew from the runs of a store."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from pann.runs import Store
from reproduction import equations
from reproduction.cells import Record, but_trials, finished_records
from reproduction.drawings import bars, histories, lines, maps
from reproduction.drawings.finished import Finished
from reproduction.experiments import Experiment

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FIGURES: dict[str, Callable[[Sequence[Finished], str], "Figure"]] = {
    "basis_sizes": lines.basis_sizes,
    "landscape": maps.landscape,
    "reproduction": lines.by_points,
    "constraints": bars.constraints,
    "non_smooth": lines.by_points,
    "frequency": maps.frequency,
    "high_dimensional": lines.by_dimension,
    **dict.fromkeys(equations.NAMES, bars.equation),
    "equal_cost": histories.equal_cost,
}


def draw(experiment: Experiment, store: Store, size: str = "full") -> "Figure":
    """The figure of an experiment from what the store has of it at that size."""
    if experiment.name not in FIGURES:
        raise ValueError(
            f"'{experiment.name}' has no figure, but a table: "
            f"python -m reproduction table {experiment.name}; there are figures of "
            f"{', '.join(FIGURES)}"
        )
    figure = FIGURES[experiment.name](finished(experiment, store, size), size)
    shows = experiment.shows
    if experiment.name in equations.NAMES:
        shows = f"{shows.partition(':')[0]}: errors"  # the table has more
    figure.suptitle(f"{shows} (size {size})", x=0.01, ha="left")
    return figure


def finished(experiment: Experiment, store: Store, size: str) -> list[Finished]:
    """The runs of an experiment; of a cell with several numbers of trials, the most."""
    return last_of_cells(finished_records(experiment, store, size), store)


def last_of_cells(records: Sequence[Record], store: Store) -> list[Finished]:
    """A run for each cell, the last of the records that are of it."""
    latest = {but_trials(record["configuration"]): record for record in records}
    return [Finished(record, store) for record in latest.values()]

"""Every experiment of the paper that can be run, by name: its rows at each size, and its work."""

import dataclasses
import difflib
import functools
from collections.abc import Callable
from typing import Any

from pann.runs import Row, Together
from reproduction import (
    conventional,
    equations,
    housing,
    index_sets,
    landscape,
    readings,
    regressions,
    spectra,
    step_cost,
)
from reproduction.published import shown_name, stored_name

SIZES = ("smoke", "quick", "full")
MODES = ("faithful", "default")


@dataclasses.dataclass(frozen=True)
class Experiment:
    """What it shows, its rows by size, mode and number of trials, and the function that runs one.

    `work` is given by name, "module:function", so that other processes can import it; `together`
    says which rows run as one program; `published` names the paper's data in
    `reproduction.published`.
    """

    name: str
    shows: str
    rows: Callable[[str, str, int | None], list[Row]]
    work: str
    published: str | None = None
    together: Together | None = None

    @property
    def stored_name(self) -> str:
        """The name in records of runs."""
        return stored_name(self.name)


def _together(module: Any) -> Together:
    return Together(module.alike, f"{module.__name__}:run_together", f"{module.__name__}:room")


EQUATIONS_TOGETHER = _together(equations)
REGRESSIONS_TOGETHER = _together(regressions)
HOUSING_TOGETHER = _together(housing)


def _equation(name: str, shows: str, data: str | None = None) -> Experiment:
    rows = functools.partial(equations.rows, name)
    work = "reproduction.equations:run"
    return Experiment(name, shows, rows, work, data or name, EQUATIONS_TOGETHER)


def _regression(name: str, shows: str, data: str | None = None) -> Experiment:
    rows = functools.partial(regressions.rows, name)
    work = "reproduction.regressions:run"
    return Experiment(name, shows, rows, work, data, REGRESSIONS_TOGETHER)


def _other(name: str, shows: str, module: Any, data: str | None = None) -> Experiment:
    return Experiment(name, shows, module.rows, f"{module.__name__}:run", data)


EXPERIMENTS = (
    _other("basis_sizes", "terms by index set and dimension", index_sets, "basis_sizes"),
    _other(
        "tables", "an Adam step with tables against one that evaluates the polynomials", step_cost
    ),
    _other("landscape", "Poisson: the loss around a PANN and a PINN", landscape),
    _regression("reproduction", "P10 P10: error and time by number of points"),
    _regression("constraints", "P10 P10: error and pruned percentages by constraint", "pruning"),
    _regression("non_smooth", "the non-smooth function: error and time by number of points"),
    _regression("alpha", "the non-smooth family: error by exponent", "alpha"),
    _other(
        "frequency", "an oscillating function: the halves in Fourier and Legendre space", spectra
    ),
    _regression("high_dimensional", "a product of sines: error and time by dimension"),
    Experiment(
        "housing",
        "California housing: error by constraint, with and without K",
        housing.rows,
        "reproduction.housing:run",
        "housing",
        HOUSING_TOGETHER,
    ),
    *(
        Experiment(
            f"conventional_{data}",
            f"{shows}: conventional regressors",
            functools.partial(conventional.rows, data),
            "reproduction.conventional:run",
            f"conventional_{data}",
        )
        for data, shows in conventional.DATA.items()
    ),
    _regression("sequential", "one half after the other against both at once"),
    _regression("norms", "the constraint by its spectral and its Frobenius norm"),
    _equation("poisson", "Poisson: errors and seconds"),
    _equation("allen_cahn", "Allen-Cahn: errors and seconds"),
    _equation("kdv", "Korteweg-de Vries: errors and seconds"),
    _equation("ks", "Kuramoto-Sivashinsky: errors and seconds"),
    _equation("gray_scott", "Gray-Scott: errors of u and v, seconds"),
    _equation("equal_cost", "Poisson: losses and error over time at equal cost", "poisson"),
    _equation("darcy", "Darcy flow in five strips, at two strengths of the constraint"),
    Experiment(
        "readings",
        "equations by other readings of what the paper leaves open",
        readings.rows,
        "reproduction.equations:run",
        together=EQUATIONS_TOGETHER,
    ),
)


def experiment_named(name: str) -> Experiment:
    """An experiment by its name; dashes may stand for underscores, and `table-` may lead."""
    key = name.lower().replace("-", "_").removeprefix("table_").removeprefix("figure_")
    key = shown_name(key)
    known = {each.name: each for each in EXPERIMENTS}
    if key not in known:
        close = difflib.get_close_matches(key, known, 1)
        meant = f" (did you mean {close[0]}?)" if close else ""
        raise ValueError(
            f"there is no experiment '{name}'{meant}; there are {', '.join(known)}, or all"
        )
    return known[key]

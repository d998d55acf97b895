"""Every experiment of the paper that can be run, by name: its rows at each size, and its work."""

import dataclasses
import difflib
import functools
from collections.abc import Callable

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

SIZES = ("smoke", "quick", "full")
MODES = ("faithful", "default")


@dataclasses.dataclass(frozen=True)
class Experiment:
    """What it shows, its rows by size, mode and number of trials, and the function that runs one.

    `work` is given by name, "module:function", so that other processes can import it; `together`
    says which rows run as one program; `published` names the paper's figures in
    `reproduction.published`.
    """

    name: str
    shows: str
    rows: Callable[[str, str, int | None], list[Row]]
    work: str
    published: str | None = None
    together: Together | None = None


EQUATIONS_TOGETHER = Together(
    equations.alike, "reproduction.equations:run_together", "reproduction.equations:room"
)


REGRESSIONS_TOGETHER = Together(
    regressions.alike, "reproduction.regressions:run_together", "reproduction.regressions:room"
)
HOUSING_TOGETHER = Together(
    housing.alike, "reproduction.housing:run_together", "reproduction.housing:room"
)


def _equation(name: str, shows: str, published: str | None = None) -> Experiment:
    rows = functools.partial(equations.rows, name)
    return Experiment(
        name, shows, rows, "reproduction.equations:run", published or name, EQUATIONS_TOGETHER
    )


def _regression(name: str, shows: str, published: str | None = None) -> Experiment:
    rows = functools.partial(regressions.rows, name)
    return Experiment(
        name, shows, rows, "reproduction.regressions:run", published, REGRESSIONS_TOGETHER
    )


EXPERIMENTS = (
    Experiment(
        "basis_sizes",
        "terms by index set and dimension",
        index_sets.rows,
        "reproduction.index_sets:run",
        "basis_sizes",
    ),
    Experiment(
        "tables",
        "an Adam step with tables against one that evaluates the polynomials",
        step_cost.rows,
        "reproduction.step_cost:run",
    ),
    Experiment(
        "landscape",
        "Poisson: the loss around a PANN and a PINN",
        landscape.rows,
        "reproduction.landscape:run",
    ),
    _regression("reproduction", "P10 P10: error and time by number of points"),
    _regression("constraints", "P10 P10: error and pruned shares by constraint", "pruning"),
    _regression("non_smooth", "the non-smooth function: error and time by number of points"),
    _regression("alpha", "the non-smooth family: error by exponent", "alpha"),
    Experiment(
        "frequency",
        "an oscillating function: the halves in Fourier and Legendre space",
        spectra.rows,
        "reproduction.spectra:run",
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
            f"{told}: conventional regressors",
            functools.partial(conventional.rows, data),
            "reproduction.conventional:run",
            f"conventional_{data}",
        )
        for data, told in conventional.DATA.items()
    ),
    _regression("sequential", "one half after the other against both at once"),
    _regression("norms", "the constraint by its spectral and its Frobenius norm"),
    _equation("poisson", "Poisson: errors and seconds"),
    _equation("allen_cahn", "Allen-Cahn: errors and seconds"),
    _equation("kdv", "Korteweg-de Vries: errors and seconds"),
    _equation("ks", "Kuramoto-Sivashinsky: errors and seconds"),
    _equation("grey_scott", "Grey-Scott: errors of u and v, seconds"),
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
    """An experiment by its name; dashes are as good as underscores, and `table-` may lead."""
    key = name.lower().replace("-", "_").removeprefix("table_").removeprefix("figure_")
    known = {each.name: each for each in EXPERIMENTS}
    if key not in known:
        close = difflib.get_close_matches(key, known, 1)
        meant = f" (did you mean {close[0]}?)" if close else ""
        raise ValueError(
            f"there is no experiment '{name}'{meant}; there are {', '.join(known)}, or all"
        )
    return known[key]

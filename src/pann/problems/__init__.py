"""Ready-made problems by name: the paper's, and some that test a solver in other ways.

One file per equation. The first line of a function's docstring is its equation, which `pann list`
shows; a new problem needs only its file and a line in `PROBLEMS`. Each is made once, so that what
is compiled for it serves the next call. `functions` has the paper's targets of regression.
"""

import difflib
from collections.abc import Callable
from inspect import signature

from pann.pde import Problem
from pann.problems.allen_cahn import allen_cahn, allen_cahn_time
from pann.problems.burgers import burgers
from pann.problems.darcy import darcy, darcy_across, darcy_across_mixed
from pann.problems.gray_scott import gray_scott
from pann.problems.helmholtz import helmholtz
from pann.problems.kdv import kdv, kdv_inverse
from pann.problems.kuramoto_sivashinsky import ks, ks_printed
from pann.problems.poisson import poisson

grey_scott = gray_scott  # the paper's spelling
ALIASES = {"grey_scott": "gray_scott"}


class _Problems(dict[str, Callable[..., Problem]]):
    """Problems by name; earlier names, which stored records have, are found but not listed."""

    def __missing__(self, name: str) -> Callable[..., Problem]:
        if name not in ALIASES:
            raise KeyError(name)
        return self[ALIASES[name]]


PROBLEMS = _Problems(
    poisson=poisson,
    allen_cahn=allen_cahn,
    helmholtz=helmholtz,
    darcy=darcy,
    darcy_across=darcy_across,
    darcy_across_mixed=darcy_across_mixed,
    kdv=kdv,
    kdv_inverse=kdv_inverse,
    ks=ks,
    ks_printed=ks_printed,
    gray_scott=gray_scott,
    burgers=burgers,
    allen_cahn_time=allen_cahn_time,
)


def problem_named(name: str, *, faithful: bool = False) -> Problem:
    """A problem by its name, if `faithful` as the paper poses it; a dash counts as underscore."""
    key = name.lower().replace("-", "_")
    key = ALIASES.get(key, key)
    if key not in PROBLEMS:
        close = difflib.get_close_matches(key, PROBLEMS, 1)
        meant = f" (did you mean {close[0]}?)" if close else ""
        raise ValueError(
            f"there is no problem '{name}'{meant}; there are {', '.join(PROBLEMS)}, and files of "
            "your own whose names end in .py"
        )
    if not faithful:
        return PROBLEMS[key]()
    two_ways = [each for each, make in PROBLEMS.items() if "faithful" in signature(make).parameters]
    if key not in two_ways:
        raise ValueError(
            f"'{key}' is posed in one way only; faithful is for {', '.join(two_ways)}: leave it out"
        )
    return PROBLEMS[key](faithful=True)


def equation_of(name: str) -> str:
    """The equation in one line."""
    return (PROBLEMS[name].__doc__ or name).splitlines()[0].rstrip(".")


__all__ = [
    "PROBLEMS",
    "allen_cahn",
    "allen_cahn_time",
    "burgers",
    "darcy",
    "darcy_across",
    "darcy_across_mixed",
    "equation_of",
    "gray_scott",
    "grey_scott",
    "helmholtz",
    "kdv",
    "kdv_inverse",
    "ks",
    "ks_printed",
    "poisson",
    "problem_named",
]

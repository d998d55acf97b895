"""The paper's regression experiments on functions: rows that determine a fit, and how one is run.

A row names its function, points and method.
"""

import dataclasses
import itertools
import pathlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from pann import Box, Fit, baselines, points, relative_l2
from pann.basis import make_basis
from pann.problems import functions
from pann.runs import Result, Row, halves_of, history_of
from reproduction import methods
from reproduction.degrees import degree_of

ACTIVATIONS = ("tanh", "relu", "repu")
# Points by dimension.
HIGH_DIMENSIONAL = {2: 1536, 3: 3072, 4: 6144, 5: 12_288, 6: 24_576}
NUM_TEST = 100_000
REVISION = 1
# Methods that are one fit by the paper's stages. Rows that differ in the settings below alone are
# trained as one program: neither shapes nor stages depend on them.
BY_GRADIENT = ("PANN", "DNN", "PL")
OWN = {"seed", "target", "alpha", "c", "constraint"}
Configuration = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Size:
    """How long a fit is, of how many points at most, and with how many of the activations."""

    trials: int
    adam_steps: int
    lbfgs_iterations: int
    num_points: int | None = None
    activations: tuple[str, ...] = ACTIVATIONS


SIZES = {
    "smoke": Size(1, 4, 2, num_points=256, activations=("tanh",)),
    "quick": Size(1, 1_000, 50, num_points=1024, activations=("tanh",)),
    "full": Size(5, 20_000, 400),
}
# The default recipe is second order on a network of a size where that is cheap.
NETWORK = {"faithful": {"width": 100, "depth": 3}, "default": {"width": 16, "depth": 3}}


def reproduction(size: Size, mode: str) -> Iterator[Configuration]:
    """P10 P10 by number of points and degree (paper, section 4.1)."""
    for num_points in _sizes(size, (256, 1024, 4096, 16_384)):
        yield from _methods(size, mode, "reproduction", num_points, (0.001, 0.002, 0.003))


def constraints(size: Size, mode: str) -> Iterator[Configuration]:
    """P10 P10 by constraint, with the percentages pruned (paper, section 4.1)."""
    names = (*"ABCDEFGH", "l1", "none") if mode == "faithful" else ("exact", "none")
    (num_points,) = _sizes(size, (4096,))
    for activation, constraint in itertools.product(size.activations, names):
        for signed in (False, True) if mode == "faithful" else (False,):
            yield _pann("reproduction", num_points, 26 if num_points >= 1024 else 8) | {
                "activation": activation,
                "constraint": constraint,
                "signed": signed,
            }


def non_smooth(size: Size, mode: str) -> Iterator[Configuration]:
    """The non-smooth function by number of points and degree (paper, section 4.2)."""
    for num_points in _sizes(size, (256, 1024, 4096, 16_384)):
        yield from _methods(size, mode, "non_smooth", num_points, (0.001, 0.002, 0.003))


def alpha(size: Size, mode: str) -> Iterator[Configuration]:
    """The non-smooth family (paper, section 4.2)."""
    (num_points,) = _sizes(size, (16_384,))
    for exponent in (2.0, 1.5, 1.0):
        for each in _methods(size, mode, "non_smooth", num_points, (0.001, 0.002, 0.003)):
            yield each | {"alpha": exponent}


def high_dimensional(size: Size, mode: str) -> Iterator[Configuration]:
    """A product of sines in two to six dimensions, degree 8 (paper, section 4.4)."""
    for dimension, published in HIGH_DIMENSIONAL.items():
        if size.num_points is not None and dimension > 3:
            continue
        num_points = min(published, size.num_points or published)
        for each in _methods(size, mode, "high_dimensional", num_points, (None,)):
            if each["method"] != "L2":
                yield each | {"dimension": dimension, "degree": 8}


def sequential(size: Size, mode: str) -> Iterator[Configuration]:
    """One half after the other against both at once (paper, section 4.1)."""
    (num_points,) = _sizes(size, (4096,))
    base = _pann("non_smooth", num_points, degree_of("non_smooth", 0.001, num_points))
    for method in ("PANN", "polynomial first", "network first"):
        yield base | {"method": method}


def norms(size: Size, mode: str) -> Iterator[Configuration]:
    """The constraint by its spectral and by its Frobenius norm."""
    if mode == "faithful":
        (num_points,) = _sizes(size, (1024,))
        for norm in ("frobenius", "spectral"):
            yield _pann("reproduction", num_points, 20 if num_points >= 1024 else 8) | {
                "norm": norm
            }


EXPERIMENTS: dict[str, Callable[[Size, str], Iterator[Configuration]]] = {
    "reproduction": reproduction,
    "constraints": constraints,
    "non_smooth": non_smooth,
    "alpha": alpha,
    "high_dimensional": high_dimensional,
    "sequential": sequential,
    "norms": norms,
}


def _sizes(size: Size, published: tuple[int, ...]) -> tuple[int, ...]:
    """The published numbers of points, or the one that is small enough."""
    return published if size.num_points is None else (size.num_points,)


def _pann(target: str, num_points: int, degree: int) -> Configuration:
    return {"target": target, "num_points": num_points, "degree": degree, "method": "PANN"}


def _methods(
    size: Size, mode: str, target: str, num_points: int, cs: tuple[float | None, ...]
) -> Iterator[Configuration]:
    common = {"target": target, "num_points": num_points}
    for activation in size.activations:
        yield common | {"method": "DNN", "activation": activation}
    for c in cs:
        degree = {} if c is None else {"c": c, "degree": degree_of(target, c, num_points)}
        for method in ("PL", "L2") if mode == "faithful" else ("least squares",):
            yield common | {"method": method} | degree
        for activation in size.activations:
            yield common | {"method": "PANN", "activation": activation} | degree


def rows(name: str, size: str, mode: str, trials: int | None = None) -> list[Row]:
    """The rows of one experiment."""
    chosen = SIZES[size]
    common: Configuration = {
        "mode": mode,
        "trials": trials or chosen.trials,
        "seed": 0,
        "revision": REVISION,
    }
    common |= NETWORK[mode]
    if mode == "faithful":
        steps = {"adam_steps": chosen.adam_steps, "lbfgs_iterations": chosen.lbfgs_iterations}
        common |= steps | {"precision": "float32"}
    return [Row(name, common | each) for each in EXPERIMENTS[name](chosen, mode)]


def run(configuration: Mapping[str, Any], scratch: pathlib.Path) -> Result:
    """Run one row."""
    if is_by_gradient(configuration):
        return run_together([configuration], scratch)[0]
    domain, target = _domain(configuration), target_of(configuration)
    if configuration["method"] == "L2":
        basis = make_basis(domain, configuration["degree"])
        projected = baselines.l2_projection(basis, target, configuration["num_points"])
        return _result(configuration, projected)
    places = sample(domain, configuration["num_points"])
    return _result(configuration, methods.fit_row(configuration, domain, places, target(places)))


def is_by_gradient(configuration: Mapping[str, Any]) -> bool:
    """Whether a row is one fit by the paper's stages."""
    return configuration["mode"] == "faithful" and configuration["method"] in BY_GRADIENT


def alike(row: Row) -> str | None:
    """What rows that are trained as one program have in common."""
    return methods.common(row, OWN) if is_by_gradient(row.configuration) else None


def room(configuration: Mapping[str, Any]) -> int:
    """The number of rows like this one to train as one program."""
    domain, degree = _domain(configuration), configuration.get("degree")
    num_points = configuration["num_points"]
    return methods.num_regressions_that_fit(configuration, domain, num_points, degree)


def run_together(
    configurations: Sequence[Mapping[str, Any]], scratch: pathlib.Path
) -> list[Result]:
    """Run rows that are alike as one program."""
    cases = [options_of(each) for each in configurations]
    (fits,) = methods.fit_rows(configurations, [cases], scratch)
    return [_result(each, fitted) for each, fitted in zip(configurations, fits, strict=True)]


def options_of(configuration: Mapping[str, Any]) -> dict[str, Any]:
    """What `fit` is given for a row."""
    domain = _domain(configuration)
    places = sample(domain, configuration["num_points"])
    values = target_of(configuration)(places)
    return methods.regression_options(configuration, domain, places, values)


def _result(configuration: Mapping[str, Any], fitted: Any) -> Result:
    """Errors at random points, and of a fit what it kept, its history and its halves."""
    domain = _domain(configuration)
    test = points.uniform(domain, NUM_TEST, seed=1).coordinates
    truth = target_of(configuration)(test)
    if not isinstance(fitted, Fit):
        return Result({"errors": [relative_l2(fitted(test), truth)]})
    units = [model.num_units for model in fitted.models]
    terms = [model.num_terms for model in fitted.models]
    num_terms = max(methods.num_terms(domain, configuration.get("degree")), 1)
    figures: dict[str, Any] = {
        "errors": [relative_l2(model(test), truth) for model in fitted.models],
        "units": units,
        "terms": terms,
        "pruned_network": 100 * (1 - np.mean(units) / configuration["width"]),
        "pruned_polynomial": 100 * (1 - np.mean(terms) / num_terms),
        "fit_seconds": fitted.seconds,
        "history": history_of(fitted),
    }
    return Result(figures, halves_of(fitted.model, domain))


def _domain(configuration: Mapping[str, Any]) -> Box:
    return Box.cube(configuration.get("dimension", 2))


def target_of(configuration: Mapping[str, Any]) -> Callable[[np.ndarray], np.ndarray]:
    """The function of a row."""
    return {
        "reproduction": functions.legendre_product,
        "non_smooth": functions.non_smooth(configuration.get("alpha", 2.0)),
        "high_dimensional": functions.sine_product,
    }[configuration["target"]]


def sample(domain: Box, num_points: int) -> np.ndarray:
    """The training points: Poisson disks, which end at three dimensions."""
    sampler = points.poisson_disk if domain.dimension <= 3 else points.sobol
    return sampler(domain, num_points).coordinates

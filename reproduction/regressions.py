"""The paper's regression experiments on functions: rows that determine a fit, and how one is run.

A row names its function, points and method. `faithful` is Adam with cosine annealing, pruning and
L-BFGS in float32; `default` is the default recipe in float64.
"""

import dataclasses
import itertools
import pathlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from pann import baselines, points
from pann.basis import make_basis
from pann.domain import Box
from pann.io.checkpoint import kept_in
from pann.problems import functions
from pann.regression.batch import fit_together, num_fits_that_fit
from pann.regression.fit import Fit, fit, relative_l2
from pann.runs import Result, Row
from pann.runs.kept import halves_of, history_of
from pann.runs.row import canonical
from pann.training import LBFGS, Adam, Cosine, Prune, Recipe
from pann.training.constraints import CONSTRAINTS
from reproduction.degrees import degree_of

ACTIVATIONS = ("tanh", "relu", "repu")
NUM_TEST = 100_000
REVISION = 1
# Methods that are one fit by the paper's stages, and what rows of theirs that are trained as one
# program may differ in: neither shapes nor stages depend on it.
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
    """P10 P10 by constraint, with the shares pruned (paper, section 4.1)."""
    names = (*CONSTRAINTS, "l1", "none") if mode == "faithful" else ("exact", "none")
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
    numbers = {2: 1536, 3: 3072, 4: 6144, 5: 12_288, 6: 24_576}
    for dimension, published in numbers.items():
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
    """Run one row; what was killed in training by gradients goes on from its checkpoint."""
    if is_by_gradient(configuration):
        return run_together([configuration], scratch)[0]
    return _result(configuration, _other_fit(configuration))


def is_by_gradient(configuration: Mapping[str, Any]) -> bool:
    """Whether a row is one fit by the paper's stages."""
    return configuration["mode"] == "faithful" and configuration["method"] in BY_GRADIENT


def alike(row: Row) -> str | None:
    """What rows that are trained as one program have in common."""
    if not is_by_gradient(row.configuration):
        return None
    return canonical({key: row.configuration[key] for key in set(row.configuration) - OWN})


def room(configuration: Mapping[str, Any]) -> int:
    """How many rows such as this one to train as one program."""
    domain = _domain(configuration)
    return num_fits_that_fit(
        num_points=configuration["num_points"],
        num_terms=_num_terms(configuration, domain),
        num_units=configuration["depth"] * configuration["width"],
        trials=configuration["trials"],
        precision=configuration["precision"],
        num_seen=configuration["num_points"] * configuration["adam_steps"],
        by_constraint="constraint" in configuration,
    )


def run_together(
    configurations: Sequence[Mapping[str, Any]], scratch: pathlib.Path
) -> list[Result]:
    """Run rows that are alike; what was killed goes on from its checkpoint."""
    told = {"rows": " ".join(canonical(dict(each)) for each in configurations)}
    with kept_in(scratch, told) as checkpoint:
        fits = fit_together([case_of(each) for each in configurations], checkpoint=checkpoint)
    return [_result(each, fitted) for each, fitted in zip(configurations, fits, strict=True)]


def _result(configuration: Mapping[str, Any], fitted: Any) -> Result:
    """Errors at random points, and of a fit what it kept, its course and its halves."""
    domain = _domain(configuration)
    test = points.uniform(domain, NUM_TEST, seed=1).coordinates
    truth = _target(configuration)(test)
    if not isinstance(fitted, Fit):
        return Result({"errors": [relative_l2(fitted(test), truth)]})
    kept = [(model.num_units, model.num_terms) for model in fitted.models]
    total = _num_terms(configuration, domain)
    figures: dict[str, Any] = {
        "errors": [relative_l2(model(test), truth) for model in fitted.models],
        "units": [units for units, _ in kept],
        "terms": [terms for _, terms in kept],
        "pruned_network": 100 * (1 - np.mean([u for u, _ in kept]) / configuration["width"]),
        "pruned_polynomial": 100 * (1 - np.mean([t for _, t in kept]) / max(total, 1)),
        "fit_seconds": fitted.seconds,
        "history": history_of(fitted),
    }
    return Result(figures, halves_of(fitted.model, domain))


def _domain(configuration: Mapping[str, Any]) -> Box:
    return Box.cube(configuration.get("dimension", 2))


def _target(configuration: Mapping[str, Any]) -> Callable[[np.ndarray], np.ndarray]:
    return {
        "reproduction": functions.legendre_product,
        "non_smooth": functions.non_smooth(configuration.get("alpha", 2.0)),
        "high_dimensional": functions.sine_product,
        "frequency": functions.frequency_mix,
    }[configuration["target"]]


def _points(domain: Box, configuration: Mapping[str, Any]) -> np.ndarray:
    # Poisson disks end at three dimensions.
    sampler = points.poisson_disk if domain.dimension <= 3 else points.sobol
    return sampler(domain, configuration["num_points"]).coordinates


def _num_terms(configuration: Mapping[str, Any], domain: Box) -> int:
    degree = configuration.get("degree")
    return 0 if degree is None else make_basis(domain, degree).num_terms


def case_of(configuration: Mapping[str, Any]) -> dict[str, Any]:
    """What `fit` is given for a row that is trained by gradients."""
    method = configuration["method"]
    options = _options(configuration) | {"preconditioner": method != "DNN"}
    if method == "DNN":
        return baselines.dnn_options(**options)
    if method == "PL":
        return baselines.polynomial_options(**options)
    return options | {
        "norm": configuration.get("norm", "frobenius"),
        "constraint": configuration.get("constraint", "E"),
    }


def _other_fit(configuration: Mapping[str, Any]) -> Any:
    """What fits the other rows: a projection, one half after the other, or the default recipe."""
    method, options = configuration["method"], _options(configuration) | {"progress": False}
    if method == "L2":
        basis = make_basis(options["domain"], configuration["degree"])
        return baselines.l2_projection(basis, _target(configuration), configuration["num_points"])
    if method in baselines.ORDERS:
        return baselines.sequential(order=method, **options)
    if method == "PANN" and "constraint" in configuration:
        options["constraint"] = configuration["constraint"]
    ways = {"PANN": fit, "DNN": baselines.dnn, "least squares": baselines.least_squares}
    return ways[method](**options)


def _options(configuration: Mapping[str, Any]) -> dict[str, Any]:
    """Points, values, and the options of `fit` that all methods have."""
    domain, method = _domain(configuration), configuration["method"]
    places = _points(domain, configuration)
    options: dict[str, Any] = {
        "points": places,
        "values": _target(configuration)(places),
        "domain": domain,
        "degree": configuration.get("degree"),
        "width": configuration["width"],
        "depth": configuration["depth"],
        "activation": configuration.get("activation", "tanh"),
        "trials": configuration["trials"],
        "seed": configuration["seed"],
    }
    if configuration["mode"] != "faithful":
        return options
    return options | {
        "recipe": recipe(configuration, prunes=method != "DNN"),
        "precision": configuration["precision"],
        "held_out": 0.0,
    }


def recipe(configuration: Mapping[str, Any], *, prunes: bool) -> Recipe:
    """The paper's recipe for regression with these numbers of steps."""
    steps, iterations = configuration["adam_steps"], configuration["lbfgs_iterations"]
    adam = Adam(steps, Cosine(1e-3), record_every=max(1, min(100, steps)))
    lbfgs = LBFGS(iterations, record_every=max(1, iterations // 20))
    prune = (Prune(1e-4, signed=configuration.get("signed", False)),) if prunes else ()
    return (adam, *prune, lbfgs, *prune)

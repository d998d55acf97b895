"""What the paper compares with: the halves alone, projection, and one half after the other."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from jaxtyping import Float

from pann.basis import Basis, project
from pann.domain import Box
from pann.model.pann import Parts
from pann.pde.problem import Problem
from pann.points import Points, from_array
from pann.regression.fit import Fit, fit
from pann.regression.unused_options import OF_THE_NETWORK
from pann.solvers.gradient import recipe_for
from pann.solvers.solution import Solution
from pann.solvers.solve import solve
from pann.training import Prune

# No network, no constraint between halves, and no options of either.
NO_NETWORK: dict[str, Any] = {
    "width": 0,
    "constraint": "none",
    "constraint_weight": None,
    "norm": None,
    **dict.fromkeys(OF_THE_NETWORK),
}


def dnn(points: npt.ArrayLike | Points, values: npt.ArrayLike, **options: Any) -> Fit:
    """The network alone, with an output bias; options as in `fit`."""
    return fit(points, values, **dnn_options(**options))


def dnn_options(**options: Any) -> dict[str, Any]:
    """The options of `fit` with those that leave the polynomial out."""
    fixed = {"degree": None, "basis": None, "constraint": "none"}
    return {**options, **fixed, "constraint_weight": None, "norm": None}


def polynomial_by_gradient(
    points: npt.ArrayLike | Points, values: npt.ArrayLike, **options: Any
) -> Fit:
    """PL: the polynomial alone with coefficients found by gradient descent (recipe `paper`)."""
    return fit(points, values, **polynomial_options(**options))


def polynomial_options(**options: Any) -> dict[str, Any]:
    """The options of `fit` with those that leave the network out, by gradient descent."""
    return {"recipe": "paper", **options, **NO_NETWORK}


def least_squares(points: npt.ArrayLike | Points, values: npt.ArrayLike, **options: Any) -> Fit:
    """The polynomial alone, solved for by QR."""
    return fit(points, values, **{**options, **NO_NETWORK})


def pinn(problem: Problem, **options: Any) -> Solution:
    """The network alone on an equation, with an output bias; options as in `solve`."""
    return solve(problem, **pinn_options(**options))


def pinn_options(**options: Any) -> dict[str, Any]:
    """The options of `solve` with those that make it a PINN."""
    recipe = options.get("recipe", "paper")
    unpruned = tuple(stage for stage in recipe_for(recipe) if not isinstance(stage, Prune))
    fixed = {"degree": 0, "constraint": "none", "preconditioner": False, "recipe": unpruned}
    return {**options, **fixed}


@dataclasses.dataclass(frozen=True)
class Projection:
    """The L2 projection of a function onto a basis."""

    basis: Basis
    coefficients: Float[np.ndarray, " terms"]

    def __call__(self, points: npt.ArrayLike) -> Float[np.ndarray, " points"]:
        coordinates = from_array(self.basis.domain, points).coordinates
        return self.basis.evaluate(coordinates, self.coefficients)


def l2_projection(
    basis: Basis,
    function: Callable[[Float[np.ndarray, "points d"]], Float[np.ndarray, " points"]],
    num_points: int,
    *,
    preconditioner: bool = True,
) -> Projection:
    """The projection by a Gauss rule with num_points^(1/d) nodes an axis (paper, table 2, d).

    It may sample the function where it likes: no other method here is given that.
    """
    nodes = round(num_points ** (1 / basis.domain.dimension))
    by_axis = lambda *axes: function(np.stack(axes, axis=-1))
    return Projection(basis, project(basis, by_axis, nodes, preconditioner=preconditioner))


@dataclasses.dataclass(frozen=True)
class Sequential:
    """Two fits, the second to what the first left."""

    first: Fit
    second: Fit

    def __call__(self, points: npt.ArrayLike) -> Float[np.ndarray, "points *outputs"]:
        return self.first(points) + self.second(points)

    def parts(self, points: npt.ArrayLike) -> Parts:
        both = [fitted.model.parts(points) for fitted in (self.first, self.second)]
        return Parts(*(np.sum(half, axis=0) for half in zip(*both, strict=True)))

    @property
    def seconds(self) -> float:
        return self.first.seconds + self.second.seconds


ORDERS = ("polynomial first", "network first")


def sequential(
    points: npt.ArrayLike | Points,
    values: npt.ArrayLike,
    *,
    order: str = "polynomial first",
    domain: Box,
    **options: Any,
) -> Sequential:
    """Train one half, then the other on its residual; the paper finds this worse than together."""
    if order not in ORDERS:
        raise ValueError(f"there is no order '{order}'; choose one of {', '.join(ORDERS)}")
    alone = {"polynomial first": (least_squares, dnn), "network first": (dnn, least_squares)}
    if options.get("recipe") == "paper":
        alone = {
            "polynomial first": (polynomial_by_gradient, dnn),
            "network first": (dnn, polynomial_by_gradient),
        }
    fit_first, fit_second = alone[order]
    first = fit_first(points, values, domain=domain, **options)
    coordinates = points.coordinates if isinstance(points, Points) else points
    rest = np.asarray(values, float) - first(coordinates)
    return Sequential(first, fit_second(points, rest, domain=domain, **options))

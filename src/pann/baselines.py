"""What the paper compares with: the halves alone, projection, and one half after the other."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from jaxtyping import Float

from pann.basis import Basis, project
from pann.domain import Box
from pann.methods import Hybrid, Polynomial, Training
from pann.model.pann import Parts
from pann.pde.problem import Problem
from pann.points import Points, from_array
from pann.regression.fit import Fit, fit
from pann.solvers.gradient import stages_of
from pann.solvers.solution import Solution
from pann.solvers.solve import solve
from pann.training import Prune

# No constraint between the halves where there is one half.
UNCONSTRAINED: dict[str, Any] = {"constraint": "none", "constraint_weight": None, "norm": None}


def network_alone(method: Hybrid | Training) -> Hybrid | Training:
    """The method without its polynomial."""
    free = UNCONSTRAINED if isinstance(method, Training) else {"constraint": "none"}
    return dataclasses.replace(method, degree=None, basis=None, **free)


def polynomial_alone(method: Hybrid | Training | Polynomial) -> Training | Polynomial:
    """The method without its network: by least squares, or by the same stages."""
    if isinstance(method, Training):
        return dataclasses.replace(method, network=None, **UNCONSTRAINED)
    return Polynomial(
        degree=method.degree, basis=method.basis, preconditioner=method.preconditioner
    )


def as_pinn(method: Training) -> Training:
    """The network alone on an equation: a constant as output bias, nothing pruned."""
    stages = tuple(stage for stage in stages_of(method) if not isinstance(stage, Prune))
    alone: dict[str, Any] = {"degree": 0, "basis": None, "c": None, "axes": None}
    alone |= {"preconditioner": False, **UNCONSTRAINED}
    return dataclasses.replace(method, stages=stages, **alone)


def dnn(
    points: npt.ArrayLike | Points,
    values: npt.ArrayLike,
    method: Hybrid | Training | None = None,
    **run: Any,
) -> Fit:
    """The network alone, with an output bias; parameters as in `fit`."""
    return fit(points, values, network_alone(Hybrid() if method is None else method), **run)


def polynomial_by_gradient(
    points: npt.ArrayLike | Points,
    values: npt.ArrayLike,
    method: Training | None = None,
    **run: Any,
) -> Fit:
    """PL: the polynomial alone with coefficients found by gradient descent, as in the paper."""
    method = Training.paper() if method is None else method
    return fit(points, values, polynomial_alone(method), **run)


def least_squares(
    points: npt.ArrayLike | Points,
    values: npt.ArrayLike,
    method: Polynomial | Hybrid | None = None,
    **run: Any,
) -> Fit:
    """The polynomial alone, solved for by QR."""
    method = Polynomial() if method is None else method
    return fit(points, values, polynomial_alone(method), **run)


def pinn(problem: Problem, method: Training | None = None, **run: Any) -> Solution:
    """The network alone on an equation, with an output bias; parameters as in `solve`."""
    return solve(problem, as_pinn(Training.paper() if method is None else method), **run)


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
    method: Hybrid | Training | None = None,
    *,
    order: str = "polynomial first",
    domain: Box,
    **run: Any,
) -> Sequential:
    """Train one half, then the other on its residual; the paper finds this worse than together."""
    if order not in ORDERS:
        raise ValueError(f"there is no order '{order}'; choose one of {', '.join(ORDERS)}")
    method = Hybrid() if method is None else method
    halves = [polynomial_alone(method), network_alone(method)]
    first_method, second_method = halves if order == "polynomial first" else halves[::-1]
    first = fit(points, values, first_method, domain=domain, **run)
    coordinates = points.coordinates if isinstance(points, Points) else points
    rest = np.asarray(values, float) - first(coordinates)
    return Sequential(first, fit(points, rest, second_method, domain=domain, **run))

"""What `solve` is asked for, checked and filled in: points, bases to try, networks to race."""

import dataclasses
import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from pann.basis import Basis, make_basis
from pann.domain import Box
from pann.model.architecture import Architecture, check_widths
from pann.network import Activation, Circles, EmbeddingOptions, RandomFourier, activation_named
from pann.network.taylor import smoothness
from pann.pde.checks import checked, has_integrals
from pann.pde.fields import Order
from pann.pde.jumps import with_breaks
from pann.pde.lift import make_ansatz
from pann.pde.problem import Problem
from pann.points import Points
from pann.runtime.chunks import parse_bytes
from pann.runtime.limits import Report
from pann.solvers.inverse import is_inverse
from pann.solvers.second_order import degrees_to_try
from pann.solvers.setup import CONDITION_WEIGHT, Setup

# Where nothing is said: the network of the default recipe, and what gradient training takes.
DEFAULT_WIDTH, DEFAULT_DEPTH = 24, 2
PAPER_WIDTH, PAPER_DEPTH = 50, 3
DEFAULT_ACTIVATIONS, PAPER_ACTIVATIONS = ("tanh", "sin"), ("tanh",)
PAPER_POINTS, PAPER_SAMPLING, PAPER_CONDITION_POINTS = 4096, "poisson_disk", 400
PAPER_C = 0.003


@dataclasses.dataclass(frozen=True)
class Plan:
    """What is to be solved: points, bases to try one after another, and networks to race."""

    setup: Setup
    ladder: list[Basis]
    architectures: list[Architecture]


def make_plan(
    problem: Problem,
    *,
    degree: int | None = None,
    c: float | None = None,
    basis: Basis | None = None,
    axes: Sequence[str] | None = None,
    points: Points | int | None = None,
    sampling: str | None = None,
    condition_points: int | None = None,
    condition_sampling: str | None = None,
    condition_weight: float | None = None,
    width: int | tuple[int, ...] | None = None,
    depth: int | None = None,
    activation: str | Activation | None = None,
    network: str = "mlp",
    embedding: EmbeddingOptions | None = None,
    by_gradient: bool = False,
    precision: str = "float64",
    memory: int | float | str | None = None,
    seed: int = 0,
    report: Report = lambda progress: None,
) -> Plan:
    """Check the problem and the options of `solve`, and fill in what was left out."""
    if by_gradient and points is None:
        points, sampling = PAPER_POINTS, sampling or PAPER_SAMPLING
    if by_gradient and condition_points is None:
        condition_points = PAPER_CONDITION_POINTS
    if c is not None or (by_gradient and degree is None and basis is None):
        degree = degree_by_rule(PAPER_C if c is None else c, points, degree)
    if condition_weight is None:
        condition_weight = 1.0 if by_gradient else CONDITION_WEIGHT
    elif not condition_weight > 0:
        raise ValueError(f"condition_weight must be positive, got {condition_weight!r}")
    problem = checked(problem)
    if by_gradient and has_integrals(problem):
        raise ValueError(
            "integrals are computed for polynomials alone; use the default recipe with width=0"
        )
    # A constant in pieces is no help to a network, which has to tie them.
    has_pieces = basis is None and points is None and degree != 0
    if not by_gradient and has_pieces and problem.domain.time is None:
        problem = with_breaks(problem)
    setup = Setup(
        problem,
        problem.asked.orders,
        points,
        sampling,
        seed,
        report,
        condition_points,
        float(condition_weight),
        make_ansatz(problem),
        condition_sampling,
        memory=None if memory is None else parse_bytes(memory),
    )
    if memory is not None and not by_gradient and is_inverse(problem):
        raise ValueError(
            "where parameters are found from data by the default recipe nothing is made in chunks; "
            "leave memory out, or give recipe='paper'"
        )
    default_width = PAPER_WIDTH if by_gradient else DEFAULT_WIDTH
    default_depth = PAPER_DEPTH if by_gradient else DEFAULT_DEPTH
    activations = PAPER_ACTIVATIONS if by_gradient else DEFAULT_ACTIVATIONS
    architectures = [
        Architecture(
            widths=check_widths(default_width if width is None else width, depth or default_depth),
            activation=activation_named(choice),
            embedding=_periodic(problem.domain, embedding),
            dropout=0.0,
            initialization=None,
            bias=False,
            precision=precision,
            kind=network,
        )
        for choice in (activations if activation is None else (activation,))
    ]
    _check_smoothness(setup.orders, architectures[0])
    if basis is not None:
        return Plan(setup, [basis], architectures)
    if degree is not None and (not isinstance(degree, int) or isinstance(degree, bool)):
        raise ValueError(f"degree must be a whole number, got {degree!r}; use degree=12")
    degrees = degrees_to_try(problem) if degree is None else (degree,)
    seen = problem.domain.names if axes is None else tuple(axes)
    families = {axis: family for axis, family in problem.pieces.items() if axis in seen}
    ladder = [make_basis(problem.domain, each, families=families, axes=seen) for each in degrees]
    return Plan(setup, ladder, architectures)


def as_points(points: Points | int | npt.ArrayLike | None, domain: Box) -> Points | int | None:
    """A number of points, or points of the user's, which may be an array."""
    if points is None or isinstance(points, int | Points):
        return points
    array = np.asarray(points)
    if array.ndim != 2 or array.shape[1] != domain.dimension or array.dtype.kind not in "iuf":
        raise ValueError(
            f"points are a number, or an array of shape (N, {domain.dimension}) with a column for "
            f"each of {', '.join(domain.names)}; got {type(points).__name__} of shape {array.shape}"
        )
    if not len(array) or not domain.contains(array.astype(float)):
        raise ValueError("some points lie outside the domain, or there are none; leave them out")
    return Points(array.astype(float))


def degree_by_rule(c: float, points: Points | int | None, degree: int | None = None) -> int:
    """ceil(c N) + 8, the paper's rule for Poisson's and the Allen-Cahn equation."""
    if degree is not None:
        raise ValueError(f"degree={degree} and c={c:g} both give the degree; use one of them")
    if points is None:
        raise ValueError("c gives the degree by the number of points, ceil(c N) + 8; give points=N")
    count = len(points.coordinates) if isinstance(points, Points) else points
    return math.ceil(c * count) + 8


def _periodic(domain: Box, embedding: EmbeddingOptions | None) -> EmbeddingOptions | None:
    """cos and sin along the periodic axes: the network repeats there as the basis does."""
    if not domain.periodic:
        return embedding
    axes = tuple(domain.names.index(axis) for axis in domain.periodic)
    if isinstance(embedding, RandomFourier):
        return Circles(axes, embedding.num_frequencies, embedding.scale)
    if embedding is not None:
        raise ValueError(
            f"the axes {', '.join(domain.periodic)} are periodic, where the network sees cos and "
            "sin of the coordinate; leave the embedding out, or use RandomFourier"
        )
    return Circles(axes)


def _check_smoothness(orders: tuple[Order, ...], architecture: Architecture) -> None:
    """Refuse an activation with fewer derivatives than the equation has."""
    highest, limit = max(sum(order) for order in orders), smoothness(architecture.activation)
    if architecture.widths and limit is not None and highest > limit:
        raise ValueError(
            f"the equation has derivatives of order {highest}, but {architecture.activation} has "
            f"only {limit}; use activation='tanh', or width=0 for no network"
        )

"""A method on a problem, checked and filled in: points, bases to try, networks to race."""

import dataclasses
import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from pann.basis import Basis, WholeBasis, make_basis
from pann.domain import Box
from pann.methods import MLP, Hybrid, Polynomial, RunOptions, Training, check_verb
from pann.model.architecture import Architecture
from pann.network import Circles, EmbeddingOptions, RandomFourier
from pann.network.taylor import smoothness
from pann.pde.checks import checked, has_integrals
from pann.pde.fields import Order
from pann.pde.hard_conditions import make_ansatz
from pann.pde.interfaces import with_breaks
from pann.pde.problem import Problem
from pann.points import Points, from_array
from pann.runtime.chunks import parse_bytes
from pann.solvers.inverse import is_inverse
from pann.solvers.polynomial import degrees_to_try
from pann.solvers.setup import CONDITION_WEIGHT, Setup
from pann.solvers.shapes import bases_of_shape

# Where nothing is said: the network of pann.Hybrid, and what gradient training takes.
DEFAULT_WIDTH, DEFAULT_DEPTH = 24, 2
PAPER_WIDTH, PAPER_DEPTH = 50, 3
DEFAULT_ACTIVATIONS, PAPER_ACTIVATIONS = ("tanh", "sin"), ("tanh",)
PAPER_POINTS, PAPER_SAMPLING, PAPER_CONDITION_POINTS = 4096, "poisson_disk", 400
PAPER_C = 0.003
RUN = RunOptions()


@dataclasses.dataclass(frozen=True)
class Plan:
    """What is to be solved: points, bases to try one after another, and networks to race."""

    setup: Setup
    ladder: Sequence[WholeBasis]
    architectures: list[Architecture]


def make_plan(
    problem: Problem, method: Polynomial | Hybrid | Training, run: RunOptions = RUN
) -> Plan:
    """Check a method's options against the problem, and fill in what was left out."""
    check_verb(method, "solve")
    by_gradient = isinstance(method, Training)
    problem = checked(problem)
    where = method.collocation
    points = as_points(where.points, problem.domain)
    sampling, condition_points = where.sampling, where.condition_points
    if sampling is not None and not isinstance(points, int) and not by_gradient:
        raise ValueError(
            f"sampling={sampling!r} is how a number of points lie; give that number, points=1000"
        )
    if by_gradient and points is None:
        points, sampling = PAPER_POINTS, sampling or PAPER_SAMPLING
    if by_gradient and condition_points is None:
        condition_points = PAPER_CONDITION_POINTS
    if method.degree is None:
        raise ValueError(
            "an equation keeps a polynomial: degree=0 is a constant, the output bias of a network"
        )
    degree = None if method.degree == "auto" else int(method.degree)
    if method.c is not None or (by_gradient and degree is None and method.basis is None):
        degree = degree_by_rule(PAPER_C if method.c is None else method.c, points)
    condition_weight = where.condition_weight
    if condition_weight is None:
        condition_weight = 1.0 if by_gradient else CONDITION_WEIGHT * _unit_of(problem)
    if by_gradient and has_integrals(problem):
        raise ValueError("integrals are computed for polynomials alone; use pann.Polynomial(...)")
    # A constant in pieces is no help to a network, which has to tie them.
    has_pieces = method.basis is None and points is None and degree != 0
    shape = problem.domain.shape
    if not by_gradient and has_pieces and problem.domain.time is None and shape is None:
        problem = with_breaks(problem)
    if run.memory is not None and not by_gradient and is_inverse(problem):
        raise ValueError(
            "where parameters are found from data nothing is made in chunks; leave memory out, or "
            "use pann.Training.paper()"
        )
    setup = Setup(
        problem,
        points,
        sampling,
        run.seed,
        condition_points,
        where.condition_sampling,
        condition_weight,
        ansatz=make_ansatz(problem),
        memory=None if run.memory is None else parse_bytes(run.memory),
        precision=run.precision,
    )
    architectures = _architectures(problem, method, run.precision)
    _check_smoothness(setup.orders, architectures[0])
    if method.basis is not None:
        _check_basis(method.basis, problem.domain)
        return Plan(setup, [method.basis], architectures)
    degrees = degrees_to_try(problem) if degree is None else (degree,)
    if shape is not None:
        if method.axes is not None:
            raise ValueError(f"polynomials of {shape} see all of its axes; leave axes out")
        return Plan(setup, bases_of_shape(problem, degrees), architectures)
    seen = problem.domain.names if method.axes is None else method.axes
    families = {axis: family for axis, family in problem.pieces.items() if axis in seen}
    ladder = [make_basis(problem.domain, each, families=families, axes=seen) for each in degrees]
    return Plan(setup, ladder, architectures)


def _unit_of(problem: Problem) -> float:
    """What derivatives of a shape's size are next to values, 1 for a size of 2.

    In millimeters or kilometers rows of the equation or of the conditions would be rounding.
    """
    shape, time = problem.domain.shape, problem.domain.time
    if shape is None or time is not None:
        return 1.0
    return float((2.0 / np.max(problem.domain.widths)) ** max(map(sum, problem.asked.orders)))


def _check_basis(basis: WholeBasis, domain: Box) -> None:
    if basis.domain != domain:
        raise ValueError(
            f"the basis lives on {basis.domain}, the problem on {domain}; make both with the same "
            "domain"
        )
    if domain.shape is not None and isinstance(basis, Basis):
        raise ValueError(
            "products of polynomials of the axes depend on each other on a part of a box; leave "
            "the basis out on a shape, and give a degree"
        )


def _architectures(
    problem: Problem, method: Polynomial | Hybrid | Training, precision: str
) -> list[Architecture]:
    """The networks to race: one for each activation, without layers where there is no network."""
    by_gradient = isinstance(method, Training)
    network = None if isinstance(method, Polynomial) else method.network
    has_network = network is not None or isinstance(method, Hybrid)
    network = MLP() if network is None else network
    usual, depth = (PAPER_WIDTH, PAPER_DEPTH) if by_gradient else (DEFAULT_WIDTH, DEFAULT_DEPTH)
    network = dataclasses.replace(network, embedding=_periodic(problem.domain, network.embedding))
    choices = PAPER_ACTIVATIONS if by_gradient else DEFAULT_ACTIVATIONS
    return [
        network.architecture(
            usual if has_network else 0, depth, choice, bias=False, precision=precision
        )
        for choice in (choices if network.activation is None else (network.activation,))
    ]


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
    return from_array(domain, array)


def degree_by_rule(c: float, points: Points | int | None) -> int:
    """ceil(c N) + 8, the paper's rule for Poisson's and the Allen-Cahn equation."""
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
            f"only {limit}; use activation='tanh', or pann.Polynomial(...) without a network"
        )

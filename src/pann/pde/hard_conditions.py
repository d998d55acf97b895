"""Hard conditions by the form of the solution: u = lift + bump * v, for whatever v.

The bump vanishes on the hard faces and the lift has the given values there, so that every v
satisfies the conditions; v = network + polynomial is what is trained. The derivatives that an
equation asks for follow by Leibniz' rule,

    D^n u = D^n lift + sum_(k <= n) binom(n, k) D^(n-k) bump D^k v,

so a block of rows for u becomes one for v by a change of its operator alone.

The lift is a smooth function with the given values on all hard faces at once. With L_i the
interpolation between the hard faces of axis i (linear between two, constant from one, value plus
velocity times time from the start), the Boolean sum I - prod_i (I - L_i) needs the solution on the
faces only, and agrees with it there (Gordon and Hall, 1973). It becomes a series in orthogonal
functions, so that a file can hold it. Each of its terms is at most linear along one of the hard
axes, which leaves few of them.
"""

import dataclasses
import functools
import itertools
import math
from collections.abc import Mapping
from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Float
from numpy.polynomial import Polynomial

from pann.basis import Basis, make_basis
from pann.domain import Box
from pann.errors import FileError
from pann.io.checks import check_bool, check_list, shown
from pann.io.codec import Listed, Plain, Record
from pann.io.codec import Values as StoredArrays
from pann.io.models import BASIS
from pann.network.jets import in_terms, lower_set
from pann.pde.collocation import Get, Operator, Placed
from pann.pde.conditions import Values, values_anywhere, values_at
from pann.pde.fields import Order
from pann.pde.hard_on_shapes import series_on_shape
from pann.pde.problem import HardTrace, Problem

DEGREES = (1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)
MAX_NODES = 150_000  # of the grid on which the Boolean sum is evaluated
MAX_DIMENSION = 6
NUM_CHECKED = 200  # random points on each face, besides the corners
# How closely values on the faces are met, relative to their size; a derivative loses digits.
TOLERANCES = {0: 1e-13, 1: 1e-11}
# Coefficients below this, relative to the values, are rounding: no function exceeds 1.
NEGLIGIBLE = float(np.finfo(float).eps)
# Values on a face may be all rounding, as sin(pi x) at x = 1; their size is seen a little inside.
INSIDE = 0.9

Points = Float[np.ndarray, "points d"]
# How often the bump vanishes at the lower and at the upper face of an axis.
Powers = tuple[int, int]
ALLOWED_POWERS: tuple[Powers, ...] = ((0, 0), (1, 0), (0, 1), (1, 1), (2, 0))


@dataclasses.dataclass(frozen=True, eq=False)
class Ansatz:
    """The lift as a series in `basis`, the bump by its powers for each field and axis.

    With (p, q) the factor along an axis is (1 + s)^p (1 - s)^q / 2^|p - q| for s in [-1, 1]. On a
    shape the bump is a series as well, with the coefficients `weights`.
    """

    basis: Basis
    coefficients: Float[np.ndarray, "terms fields"]
    powers: tuple[tuple[Powers, ...], ...]
    weights: Float[np.ndarray, "terms fields"] | None = None

    @property
    def hard_fields(self) -> tuple[int, ...]:
        """The fields that have a hard condition, on a shape all."""
        if self.weights is not None:
            return tuple(range(len(self.powers)))
        return tuple(field for field, axes in enumerate(self.powers) if any(map(any, axes)))

    def lift(
        self, points: Float[np.ndarray, "points d"], order: Order
    ) -> Float[np.ndarray, "points fields"]:
        """D^order lift at points of the domain."""
        return self.basis.evaluate(points, self.coefficients, order)

    def bump(
        self, points: Float[np.ndarray, "points d"], order: Order
    ) -> Float[np.ndarray, "points fields"]:
        """D^order bump at points of the domain; the value is exactly 0 on the hard faces."""
        if self.weights is not None:
            return self.basis.evaluate(points, self.weights, order)
        domain = self.basis.domain
        reference, slopes = domain.to_reference(points), 2.0 / domain.widths
        product = np.ones((len(points), len(self.powers)))
        for field, axes in enumerate(self.powers):
            for axis, (powers, times) in enumerate(zip(axes, order, strict=True)):
                factor = _factor(powers).deriv(times) * slopes[axis] ** times
                product[:, field] *= factor(reference[:, axis])
        return product

    def combine(
        self,
        points: Float[np.ndarray, "points d"],
        order: Order,
        v: Mapping[Order, Float[np.ndarray, "points fields"]],
    ) -> Float[np.ndarray, "points fields"]:
        """D^order u from the derivatives of v at and below that order."""
        total = self.lift(points, order)
        for lower, rest, count in _leibniz(order):
            total = total + count * self.bump(points, rest) * v[lower]
        return total

    def wrap(self, placed: Placed) -> Placed:
        """The rows of a block for u as rows for v."""
        orders = lower_set(in_terms(placed.orders))
        lifts, bumps = {}, {}
        for order in orders:
            lift = placed.differences(functools.partial(self.lift, order=order))
            # The bump is the same at both points of a pair: checks of the problem see to it.
            bump = self.bump(placed.points, order)
            for field in self.hard_fields:
                lifts[field, order], bumps[field, order] = lift[:, field], bump[:, field]
        operator = OfV(placed.operator, lifts, bumps)
        return dataclasses.replace(placed, orders=orders, operator=operator)


def check_alike(before: Ansatz | None, now: Ansatz | None) -> None:
    """Refuse to carry the coefficients of v to a problem where v means something else."""
    weights = [
        np.zeros(0) if each is None or each.weights is None else each.weights
        for each in (before, now)
    ]
    if (before and before.powers) != (now and now.powers) or not np.array_equal(
        weights[0], weights[1]
    ):
        raise ValueError(
            "start_from was solved with other hard conditions than this problem has, so that its "
            "coefficients mean something else; make the same conditions hard, or leave it out"
        )


class OfV(eqx.Module):
    """An operator on u as one on v, by the derivatives of lift and bump at the points."""

    of_u: Operator
    lift: dict[tuple[int, Order], Any]
    bump: dict[tuple[int, Order], Any]

    def __call__(self, get: Get, coordinates: Any, parameters: Any) -> tuple[Any, ...]:
        return self.of_u(functools.partial(self.channel, get), coordinates, parameters)

    def channel(self, get: Get, field: int, order: Any) -> Any:
        """D^order u from the channels of v; the same where the field has no hard condition."""
        if (field, order) not in self.lift:
            return get(field, order)
        total = self.lift[field, order]
        for lower, rest, count in _leibniz(order):
            total = total + count * self.bump[field, rest] * get(field, lower)
        return total


# ---- The lift ----


def make_ansatz(problem: Problem) -> Ansatz | None:
    """Lift and bump of every field, or None if no condition is hard."""
    domain = problem.domain
    if (series := series_on_shape(problem)) is not None:
        basis, lift, weights = series
        none = (((0, 0),) * domain.dimension,) * len(problem.fields)
        return Ansatz(basis, lift, none, weights)
    traces = [problem.hard_traces(field) for field in problem.fields]
    if not any(traces):
        return None
    if domain.dimension > MAX_DIMENSION:
        raise ValueError(
            f"conditions can be hard in up to {MAX_DIMENSION} dimensions, and this domain has "
            f"{domain.dimension}; use hard=False"
        )
    of_faces = [
        _HardFaces(domain, field, of_field).series() if of_field else {}
        for field, of_field in zip(problem.fields, traces, strict=True)
    ]
    indices = sorted(set().union(*of_faces))
    coefficients = [[of_field.get(index, 0.0) for of_field in of_faces] for index in indices]
    basis = Basis(
        domain,
        make_basis(domain, 0).families,
        np.array(indices, np.int64).reshape(len(indices), domain.dimension),
    )
    count = lambda own, axis, side: sum(HardTrace(axis, side, k) in own for k in (0, 1))
    powers = tuple(
        tuple((count(each, axis, "lower"), count(each, axis, "upper")) for axis in domain.names)
        for each in traces
    )
    return Ansatz(basis, np.array(coefficients).reshape(len(indices), len(of_faces)), powers)


@dataclasses.dataclass(frozen=True)
class _HardFaces:
    """What one field has to be on its hard faces."""

    domain: Box
    field: str
    traces: dict[HardTrace, Values]

    def series(self) -> dict[Order, float]:
        """The coefficients of the lift, of the lowest degree that meets all traces."""
        self._check_edges()
        families = make_basis(self.domain, 0).families
        size = lambda degree: math.prod(family.num_functions(degree) for family in families)
        for degree in (each for each in DEGREES if size(each) <= MAX_NODES):
            basis, coefficients = self._interpolant(degree)
            misses = {trace: self._miss(trace, basis, coefficients) for trace in self.traces}
            if max(misses.values()) <= 1:
                rows = map(tuple, basis.indices.tolist())
                return dict(zip(rows, coefficients.tolist(), strict=True))
        worst = max(misses, key=lambda trace: misses[trace])
        if len(self.traces) > 1:
            # What is not smooth on one face spoils the lift on all that meet it.
            for (axis, side, _), value in self.traces.items():
                _HardFaces(self.domain, self.field, {HardTrace(axis, side, 0): value}).series()
            if worst.order == 1:
                self._refuse_velocity(worst, basis, coefficients)
        error = misses[worst] * TOLERANCES[worst.order]
        raise ValueError(
            f"the hard condition for '{self.field}' on {worst.face(self.domain)} is not resolved: "
            f"degree {degree} misses it by {error:.1e} of its size; use hard=False for it"
        )

    # ---- Points and values on the faces ----

    def _axis(self, trace: HardTrace) -> int:
        return self.domain.names.index(trace.axis)

    def _end(self, trace: HardTrace) -> float:
        return trace.face(self.domain).end(trace.axis, trace.side)

    def _values(self, trace: HardTrace, points: Points) -> Float[np.ndarray, " points"]:
        return values_at(self.traces[trace], self.domain, points)

    def _points(self, *traces: HardTrace) -> Points:
        """Random points and corners where all these faces meet."""
        dimension = self.domain.dimension
        inside = np.random.default_rng(0).uniform(-1, 1, (NUM_CHECKED, dimension))
        corners = np.array(list(itertools.product((-1.0, 1.0), repeat=dimension)))
        points = self.domain.from_reference(np.concatenate([inside, corners]))
        for trace in traces:
            points[:, self._axis(trace)] = self._end(trace)
        return points

    def _unit(self, trace: HardTrace) -> float:
        """What a derivative is counted in: values over the width of its axis."""
        return float(self.domain.widths[self._axis(trace)]) ** -trace.order

    @functools.cached_property
    def _size(self) -> float:
        """The largest of all given values, or of those a little inside."""
        sizes = []
        for trace in self.traces:
            points = self._points(trace)
            inside = self.domain.from_reference(INSIDE * self.domain.to_reference(points))
            with np.errstate(all="ignore"):
                nearby = values_anywhere(self.traces[trace], self.domain, inside)
            both = np.concatenate([self._values(trace, points), nearby[np.isfinite(nearby)]])
            sizes.append(float(np.max(np.abs(both))) / self._unit(trace))
        return max(sizes) or 1.0

    def _miss(self, trace: HardTrace, basis: Basis, coefficients: np.ndarray) -> float:
        """The largest error of a lift on a face, in tolerances."""
        points = self._points(trace)
        error = self._trace_of(trace, basis, coefficients, points) - self._values(trace, points)
        allowed = TOLERANCES[trace.order] * self._size * self._unit(trace)
        return float(np.max(np.abs(error))) / allowed

    def _trace_of(
        self, trace: HardTrace, basis: Basis, coefficients: np.ndarray, points: Points
    ) -> Float[np.ndarray, " points"]:
        order = [trace.order if name == trace.axis else 0 for name in self.domain.names]
        return basis.evaluate(points, coefficients, order)

    # ---- Conditions that contradict each other ----

    def _check_edges(self) -> None:
        values = [trace for trace in self.traces if trace.order == 0]
        for one, other in itertools.combinations(values, 2):
            if one.axis == other.axis:
                continue
            points = self._points(one, other)
            first, second = self._values(one, points), self._values(other, points)
            worst = int(np.argmax(np.abs(first - second)))
            if abs(first[worst] - second[worst]) > TOLERANCES[0] * self._size:
                raise ValueError(
                    f"the hard conditions for '{self.field}' on {one.face(self.domain)} and "
                    f"{other.face(self.domain)} disagree: at {self._shown(points[worst])} they are "
                    f"{_difference(first[worst], second[worst])}; make them agree, or use "
                    "hard=False for one of them"
                )

    def _refuse_velocity(self, trace: HardTrace, basis: Basis, coefficients: np.ndarray) -> None:
        points = self._points(trace)
        given = self._values(trace, points)
        found = self._trace_of(trace, basis, coefficients, points)
        worst = int(np.argmax(np.abs(found - given)))
        raise ValueError(
            f"the hard Initial of order 1 for '{self.field}' disagrees with its hard conditions on "
            f"the faces: at {self._shown(points[worst])} the derivatives by '{trace.axis}' are "
            f"{_difference(given[worst], found[worst])}; make them agree, or use hard=False for "
            "one of them"
        )

    def _shown(self, point: np.ndarray) -> str:
        pairs = zip(self.domain.names, point, strict=True)
        return ", ".join(f"{name}={value:.4g}" for name, value in pairs)

    # ---- The Boolean sum ----

    def _interpolant(self, degree: int) -> tuple[Basis, Float[np.ndarray, " terms"]]:
        """The Boolean sum in products of at most this degree along each axis."""
        full = make_basis(self.domain, degree, index_set="tensor_product")
        hard = sorted({self._axis(trace) for trace in self.traces})
        basis = full.subset(np.min(full.indices[:, hard], axis=1) <= 1)
        nodes = [family.quadrature(family.num_functions(degree))[0] for family in full.families]
        tensor = self._boolean_sum(nodes)
        # By solving for it: the weights of a long Gauss rule have fewer digits than needed here.
        for family, at in zip(full.families, nodes, strict=True):
            table = family.table(at, len(at))
            solved = np.linalg.solve(table, tensor.reshape(len(at), -1)).reshape(tensor.shape)
            tensor = np.moveaxis(solved, 0, -1)
        coefficients = tensor[tuple(basis.indices.T)]
        kept = np.abs(coefficients) > NEGLIGIBLE * self._size
        return basis.subset(kept), coefficients[kept]

    def _boolean_sum(self, nodes: list[np.ndarray]) -> np.ndarray:
        """sum over sets S of hard axes of (-1)^(|S|+1) prod_(i in S) L_i, on a tensor grid."""
        along: dict[str, list[HardTrace]] = {}
        # Velocities are known at the start alone: of several faces that meet, it comes first.
        for trace in sorted(self.traces, key=lambda trace: trace.axis != self.domain.time):
            along.setdefault(trace.axis, []).append(trace)
        total = np.zeros([len(axis) for axis in nodes])
        for count in range(1, len(along) + 1):
            for chosen in itertools.combinations(along.values(), count):
                for met in itertools.product(*chosen):
                    total += (-1) ** (count + 1) * self._interpolated(met, nodes)
        return total

    def _interpolated(self, met: tuple[HardTrace, ...], nodes: list[np.ndarray]) -> np.ndarray:
        """The values where these faces meet, times the weights that carry them to the grid."""
        dimension = self.domain.dimension
        ends = {self._axis(trace): trace for trace in met}
        axes = [np.zeros(1) if axis in ends else nodes[axis] for axis in range(dimension)]
        grid = np.meshgrid(*axes, indexing="ij")
        points = self.domain.from_reference(np.stack([axis.ravel() for axis in grid], axis=1))
        for axis, trace in ends.items():
            points[:, axis] = self._end(trace)
        product = self._values(met[0], points).reshape(grid[0].shape)
        for axis, trace in ends.items():
            shape = [-1 if other == axis else 1 for other in range(dimension)]
            product = product * self._weight(trace, nodes[axis]).reshape(shape)
        return product

    def _weight(
        self, trace: HardTrace, s: Float[np.ndarray, " nodes"]
    ) -> Float[np.ndarray, " nodes"]:
        """How the interpolation along an axis weighs one of its traces."""
        axis, side, order = trace
        if order == 1:
            return 0.5 * (s + 1.0) * self.domain.widths[self._axis(trace)]
        other = HardTrace(axis, "upper" if side == "lower" else "lower", 0)
        if other not in self.traces:
            return np.ones_like(s)
        return 0.5 * (1.0 - s) if side == "lower" else 0.5 * (1.0 + s)


def _difference(one: float, other: float) -> str:
    return f"{one:.6g} and {other:.6g}, apart by {abs(one - other):.1e}"


@functools.cache
def _factor(powers: Powers) -> Polynomial:
    low, high = powers
    return Polynomial([1, 1]) ** low * Polynomial([1, -1]) ** high / 2.0 ** abs(low - high)


@functools.cache
def _leibniz(order: Order) -> tuple[tuple[Order, Order, int], ...]:
    """The terms (k, order - k, binom(order, k)) of the derivative of a product."""
    below = itertools.product(*(range(n + 1) for n in order))
    return tuple(
        (
            lower,
            tuple(n - k for n, k in zip(order, lower, strict=True)),
            math.prod(math.comb(n, k) for n, k in zip(order, lower, strict=True)),
        )
        for lower in below
    )


# ---- Files ----


def _stored_powers(value: Any, what: str) -> Powers:
    pair = tuple(check_list(value, what))
    if not all(type(power) is int for power in pair) or pair not in ALLOWED_POWERS:
        allowed = ", ".join(map(str, ALLOWED_POWERS))
        raise FileError(f"{what} must be one of {allowed}, but are {shown(value)}")
    return pair


def _check_powers(values: StoredArrays) -> None:
    num_fields, dimension = values.model.num_outputs or 1, values.model.domain.dimension
    if len(values.powers) != num_fields:
        raise FileError(
            f"the ansatz has powers for {len(values.powers)} fields, the model {num_fields}"
        )
    for axes in values.powers:
        if len(axes) != dimension:
            raise FileError(
                f"a field of the ansatz has powers for {len(axes)} axes, not {dimension}"
            )


def _split_ansatz(ansatz: Ansatz) -> dict[str, Any]:
    own = {"basis": ansatz.basis, "powers": ansatz.powers, "coefficients": ansatz.coefficients}
    return own if ansatz.weights is None else own | {"on_shape": True, "weights": ansatz.weights}


# The ansatz of a solution, by the model that it belongs to.
ANSATZ = Record(
    Ansatz,
    "the ansatz",
    {
        "basis": BASIS,
        "powers": Listed(
            Listed(Plain(_stored_powers, list), each="the powers along an axis"),
            each="the powers of a field",
        ),
        "on_shape": Plain(check_bool),
    },
    {
        "coefficients": "float64 basis.num_terms powers",
        "weights": lambda of: "float64 basis.num_terms powers" if of.on_shape else None,
    },
    check=_check_powers,
    split=_split_ansatz,
    build=lambda of: Ansatz(of.basis, of.coefficients, of.powers, of.weights),
    optional=("on_shape",),
    context=lambda known: {"domain": known.model.domain},
)

"""The lift of an ansatz: a smooth function with the given values on all hard faces at once.

With L_i the interpolation between the hard faces of axis i (linear between two, constant from one,
value plus velocity times time from the start), the Boolean sum I - prod_i (I - L_i) needs the
solution on the faces only, and agrees with it there (Gordon and Hall, 1973). It becomes a series in
orthogonal functions, so that a file can hold it. Each of its terms is at most linear along one of
the hard axes, which leaves few of them.
"""

import dataclasses
import functools
import itertools
import math

import numpy as np
from jaxtyping import Float

from pann.basis import Basis, make_basis
from pann.domain import Box, Faces
from pann.pde.conditions import Values, values_anywhere
from pann.pde.hard_conditions import Ansatz, Powers
from pann.pde.placing import evaluate
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

Index = tuple[int, ...]


def make_ansatz(problem: Problem) -> Ansatz | None:
    """Lift and bump of every field, or None if no condition is hard."""
    domain = problem.domain
    traces = [problem.hard_traces(field) for field in problem.fields]
    if not any(traces):
        return None
    if domain.dimension > MAX_DIMENSION:
        raise ValueError(
            f"conditions can be hard in up to {MAX_DIMENSION} dimensions, and this domain has "
            f"{domain.dimension}; use hard=False"
        )
    series = [
        _HardFaces(problem, field, of_field).series() if of_field else {}
        for field, of_field in zip(problem.fields, traces, strict=True)
    ]
    indices = sorted(set().union(*series))
    coefficients = [[of_field.get(index, 0.0) for of_field in series] for index in indices]
    basis = Basis(
        domain,
        make_basis(domain, 0).families,
        np.array(indices, np.int64).reshape(len(indices), domain.dimension),
    )
    return Ansatz(
        basis,
        np.array(coefficients).reshape(len(indices), len(series)),
        tuple(_powers(domain, of_field) for of_field in traces),
    )


def _powers(domain: Box, traces: dict[HardTrace, Values]) -> tuple[Powers, ...]:
    """How often the bump has to vanish at both ends of every axis."""
    count = lambda axis, side: sum((axis, side, order) in traces for order in (0, 1))
    return tuple((count(axis, "lower"), count(axis, "upper")) for axis in domain.names)


@dataclasses.dataclass(frozen=True)
class _HardFaces:
    """What one field has to be on its hard faces."""

    problem: Problem
    field: str
    traces: dict[HardTrace, Values]

    def series(self) -> dict[Index, float]:
        """The coefficients of the lift, of the lowest degree that meets all traces."""
        self._check_edges()
        for degree in self._degrees:
            basis, coefficients = self._interpolant(degree)
            misses = {trace: self._miss(trace, basis, coefficients) for trace in self.traces}
            if max(misses.values()) <= 1:
                rows = map(tuple, basis.indices.tolist())
                return dict(zip(rows, coefficients.tolist(), strict=True))
        worst = max(misses, key=lambda trace: misses[trace])
        if len(self.traces) > 1:
            self._refuse_the_one_alone_at_fault()
            if worst[2] == 1:
                self._refuse_velocity(worst, basis, coefficients)
        raise ValueError(
            f"the hard condition for '{self.field}' on {self._named(worst)} is not resolved: "
            f"degree {degree} misses it by {misses[worst] * TOLERANCES[worst[2]]:.1e} of its size; "
            "use hard=False for it"
        )

    # ---- Points and values on the faces ----

    @property
    def _domain(self) -> Box:
        return self.problem.domain

    def _named(self, trace: HardTrace) -> str:
        return str(Faces(self._domain, (trace[:2],)))

    def _axis(self, trace: HardTrace) -> int:
        return self._domain.names.index(trace[0])

    def _end(self, trace: HardTrace) -> float:
        return Faces(self._domain, (trace[:2],)).end(*trace[:2])

    def _values(
        self, trace: HardTrace, points: Float[np.ndarray, "points d"]
    ) -> Float[np.ndarray, " points"]:
        return evaluate(self.traces[trace], self.problem, points)

    def _points(self, *traces: HardTrace) -> Float[np.ndarray, "points d"]:
        """Random points and corners where all these faces meet."""
        dimension = self._domain.dimension
        inside = np.random.default_rng(0).uniform(-1, 1, (NUM_CHECKED, dimension))
        corners = np.array(list(itertools.product((-1.0, 1.0), repeat=dimension)))
        points = self._domain.from_reference(np.concatenate([inside, corners]))
        for trace in traces:
            points[:, self._axis(trace)] = self._end(trace)
        return points

    def _unit(self, trace: HardTrace) -> float:
        """What a derivative is counted in: values over the width of its axis."""
        return float(self._domain.widths[self._axis(trace)]) ** -trace[2]

    @functools.cached_property
    def _size(self) -> float:
        """The largest of all given values, or of those a little inside."""
        sizes = []
        for trace in self.traces:
            points = self._points(trace)
            inside = self._domain.from_reference(INSIDE * self._domain.to_reference(points))
            with np.errstate(all="ignore"):
                nearby = values_anywhere(self.traces[trace], self.problem.domain, inside)
            both = np.concatenate([self._values(trace, points), nearby[np.isfinite(nearby)]])
            sizes.append(float(np.max(np.abs(both))) / self._unit(trace))
        return max(sizes) or 1.0

    def _miss(self, trace: HardTrace, basis: Basis, coefficients: np.ndarray) -> float:
        """The largest error of a lift on a face, in tolerances."""
        points = self._points(trace)
        error = self._trace_of(trace, basis, coefficients, points) - self._values(trace, points)
        allowed = TOLERANCES[trace[2]] * self._size * self._unit(trace)
        return float(np.max(np.abs(error))) / allowed

    def _trace_of(
        self, trace: HardTrace, basis: Basis, coefficients: np.ndarray, points: np.ndarray
    ) -> Float[np.ndarray, " points"]:
        order = [trace[2] if name == trace[0] else 0 for name in self._domain.names]
        return basis.evaluate(points, coefficients, order)

    # ---- Conditions that contradict each other ----

    def _check_edges(self) -> None:
        values = [trace for trace in self.traces if trace[2] == 0]
        for one, other in itertools.combinations(values, 2):
            if one[0] == other[0]:
                continue
            points = self._points(one, other)
            first, second = self._values(one, points), self._values(other, points)
            worst = int(np.argmax(np.abs(first - second)))
            if abs(first[worst] - second[worst]) > TOLERANCES[0] * self._size:
                raise ValueError(
                    f"the hard conditions for '{self.field}' on {self._named(one)} and "
                    f"{self._named(other)} disagree: at {self._place(points[worst])} they are "
                    f"{_difference(first[worst], second[worst])}; make them agree, or use "
                    "hard=False for one of them"
                )

    def _refuse_the_one_alone_at_fault(self) -> None:
        """What is not smooth on one face spoils the lift on all that meet it."""
        for (axis, side, _), value in self.traces.items():
            _HardFaces(self.problem, self.field, {(axis, side, 0): value}).series()

    def _refuse_velocity(self, trace: HardTrace, basis: Basis, coefficients: np.ndarray) -> None:
        points = self._points(trace)
        given = self._values(trace, points)
        found = self._trace_of(trace, basis, coefficients, points)
        worst = int(np.argmax(np.abs(found - given)))
        raise ValueError(
            f"the hard Initial of order 1 for '{self.field}' disagrees with its hard conditions on "
            f"the faces: at {self._place(points[worst])} the derivatives by '{trace[0]}' are "
            f"{_difference(given[worst], found[worst])}; make them agree, or use hard=False for "
            "one of them"
        )

    def _place(self, point: np.ndarray) -> str:
        pairs = zip(self._domain.names, point, strict=True)
        return ", ".join(f"{name}={value:.4g}" for name, value in pairs)

    # ---- The Boolean sum ----

    @property
    def _degrees(self) -> list[int]:
        """Those whose grid is small enough."""
        families = make_basis(self._domain, 0).families
        size = lambda degree: math.prod(family.num_functions(degree) for family in families)
        return [degree for degree in DEGREES if size(degree) <= MAX_NODES]

    def _interpolant(self, degree: int) -> tuple[Basis, Float[np.ndarray, " terms"]]:
        """The Boolean sum in products of at most this degree along each axis."""
        full = make_basis(self._domain, degree, index_set="tensor_product")
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
        for trace in sorted(self.traces, key=lambda trace: trace[0] != self._domain.time):
            along.setdefault(trace[0], []).append(trace)
        total = np.zeros([len(axis) for axis in nodes])
        for count in range(1, len(along) + 1):
            for chosen in itertools.combinations(along.values(), count):
                for met in itertools.product(*chosen):
                    total += (-1) ** (count + 1) * self._interpolated(met, nodes)
        return total

    def _interpolated(self, met: tuple[HardTrace, ...], nodes: list[np.ndarray]) -> np.ndarray:
        """The values where these faces meet, times the weights that carry them to the grid."""
        dimension = self._domain.dimension
        ends = {self._axis(trace): trace for trace in met}
        axes = [np.zeros(1) if axis in ends else nodes[axis] for axis in range(dimension)]
        grid = np.meshgrid(*axes, indexing="ij")
        points = self._domain.from_reference(np.stack([axis.ravel() for axis in grid], axis=1))
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
            return 0.5 * (s + 1.0) * self._domain.widths[self._axis(trace)]
        other = (axis, "upper" if side == "lower" else "lower", 0)
        if other not in self.traces:
            return np.ones_like(s)
        return 0.5 * (1.0 - s) if side == "lower" else 0.5 * (1.0 + s)


def _difference(one: float, other: float) -> str:
    return f"{one:.6g} and {other:.6g}, apart by {abs(one - other):.1e}"

"""Evolution problems on shapes: windows of time with a small dense operator in space.

On a window the fields are polynomials in time through the state at its beginning and the states U_i
at q Radau points, with functions of the shape in space. With D the derivative in time at these
points, the linearized equation and its conditions are, with the coefficients in the middle of time,

    sum_k D^k U A_k = rows,

overdetermined in space. Eigenvectors of D make q systems in space alone of that, which are solved
by least squares and factorized once for all windows of equal length (Butcher, 1976). What the
coefficients' changes and nonlinear terms leave is made small by further steps of the same kind.

The length of a window is halved where the tail in time is too large, the degree in space is raised
where the residual at fresh points is.
"""

import contextlib
import dataclasses
import functools
import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg
import scipy.special
from jaxtyping import Complex, Float
from threadpoolctl import threadpool_limits

from pann.arguments import call_by_name
from pann.basis import EvolvingBasis, Legendre, ShapeBasis
from pann.domain import Box
from pann.errors import WindowsFailed
from pann.io.checkpoint import Saved
from pann.methods import Windows
from pann.network.jets import in_terms
from pann.numerics.least_squares import depends, solve
from pann.pde.collocation import Block, make_block
from pann.pde.conditions import Dirichlet, Initial, Neumann, Robin, values_at
from pann.pde.placing import place_conditions, place_inside, points_per_axis_of
from pann.pde.problem import Problem
from pann.points import sample, uniform
from pann.runtime.limits import Progress, Stopped
from pann.solvers.assessment import relative_errors
from pann.solvers.polynomial import polynomial_model
from pann.solvers.setup import CONDITION_WEIGHT, POINTS_PER_TERM_OF_SHAPES, Setup
from pann.solvers.shapes import singular_functions
from pann.solvers.solution import Report, Solution

DEGREES = (10, 14, 18, 24, 32)
MOST_COLUMNS = 1_200
# Degree in time; tails that are left out; residuals in space at which the degree is not raised.
DEGREE, TAIL, RESIDUAL = 9, 1e-10, 1e-10
# The first length, of the whole time, and how often it is halved at most.
FIRST, MOST_HALVINGS = 1 / 4, 24
# A window half as long would have had a tail so many times smaller than needed.
ROOM = 0.1
# Steps on a window; a step that leaves more of the last one asks for new factors, or is in vain.
MOST_STEPS, SLOW, HOPELESS = 30, 0.3, 0.9
# Relative sizes of the last step.
DONE, ROUNDING = 1e-13, 1e-9
NUM_FRESH = 400
# Growth over the whole of time that rounding may have, and the relative residual with which it is
# none of the equation.
GROWTH, SPURIOUS = 100.0, 1e-3
# What has grown from rounding is a smaller share of a state.
GROWN = 1e-8
# A tail of which half as long a window leaves more is not one in time.
STUCK = 0.25
# A higher degree that leaves more of the residual is not worth it.
WORTH = 0.3

State = Float[np.ndarray, "order terms fields"]
Nodal = Float[np.ndarray, "nodes terms fields"]


def reason_against(problem: Problem) -> str | None:
    """Why a problem on a shape is not solved in windows, None if it is."""
    time_name = str(problem.domain.time)
    for condition in problem.conditions:
        if not isinstance(condition, Dirichlet | Neumann | Robin | Initial):
            return f"windows on a shape have no condition {type(condition).__name__}"
        if isinstance(condition, Initial) and condition.order > 1:
            return "windows on a shape go up to the second order in time"
    if problem.parameters:
        return "windows have no unknown parameters"
    orders = [problem.highest_order(n, time_name) for n in range(len(problem.fields))]
    if max(orders) == 0 or max(orders) > 2:
        return f"windows on a shape are for the first and second order in {time_name}"
    for number, order in enumerate(orders):
        own = [c for c in problem.conditions if problem.field_number(c) == number]
        given = sorted(c.order for c in own if isinstance(c, Initial))
        if given != list(range(order)):
            return f"windows need the initial states of {problem.fields[number]} below its order"
    return None


# ---- Time ----


class Times(NamedTuple):
    """Radau's points on [0, 1], what they make of states, and the eigenvectors of D.

    A derivative at the points is `derivative` times the states there plus `start` times that at 0.
    Coefficients of Legendre polynomials come from the state at 0 and those at the points.
    """

    nodes: Float[np.ndarray, " nodes"]
    derivative: Float[np.ndarray, "nodes nodes"]
    start: Float[np.ndarray, " nodes"]
    numbers: Complex[np.ndarray, " nodes"]
    vectors: Complex[np.ndarray, "nodes nodes"]
    inverse: Complex[np.ndarray, "nodes nodes"]
    to_legendre: Float[np.ndarray, "coefficients nodes_and_start"]
    from_nodes: Float[np.ndarray, " nodes"]  # the polynomial through the nodes alone, at 0


@functools.cache
def radau(count: int) -> Times:
    inner = scipy.special.roots_jacobi(count - 1, 1.0, 0.0)[0] if count > 1 else np.zeros(0)
    nodes = np.append(0.5 * (1.0 + inner), 1.0)
    table = lambda at, size, order: Legendre().table(2.0 * at - 1.0, size, order) * 2.0**order
    with_start = np.concatenate([[0.0], nodes])
    to_legendre = np.linalg.inv(table(with_start, count + 1, 0))
    derivative = table(nodes, count + 1, 1) @ to_legendre
    numbers, vectors = np.linalg.eig(derivative[:, 1:])
    from_nodes = (table(np.zeros(1), count, 0) @ np.linalg.inv(table(nodes, count, 0)))[0]
    return Times(
        nodes,
        derivative[:, 1:],
        derivative[:, 0],
        numbers,
        vectors,
        np.linalg.inv(vectors),
        to_legendre,
        from_nodes,
    )


# ---- Space ----


class Held(NamedTuple):
    """A condition at points of the boundary and at the nodes: rows of one field, and values."""

    field: int
    rows: Float[np.ndarray, "nodes rows terms"]
    values: Float[np.ndarray, "nodes rows"]


def basis_of(problem: Problem, degree: int) -> ShapeBasis:
    shape: Any = problem.domain.shape
    return ShapeBasis(shape.box, degree, singular_functions(problem, degree))


class Space:
    """Functions of the shape at points, and the equation there at any times."""

    def __init__(self, setup: Setup, degree: int) -> None:
        self.problem = problem = setup.problem
        self.basis = basis_of(problem, degree)
        self.box: Box = self.basis.domain
        self.size, self.num_fields = len(self.basis), len(problem.fields)
        count = POINTS_PER_TERM_OF_SHAPES * self.size
        self.points = sample("graded", self.box, count, setup.seed).coordinates
        self.fresh = uniform(self.box, NUM_FRESH, seed=setup.seed + 7).coordinates
        self.time_order = [
            problem.highest_order(n, str(problem.domain.time)) for n in range(self.num_fields)
        ]
        self.orders = problem.asked.orders
        at = problem.domain.time_number
        self.in_space = [(*order[:at], *order[at + 1 :]) for order in self.orders]
        self.in_time = [order[at] for order in self.orders]
        self.tables = self._tables(self.points)
        self.fresh_tables = self._tables(self.fresh)
        self.misfit = 0.0  # of the initial state

    def _tables(self, points: Float[np.ndarray, "points d"]) -> dict[tuple[int, ...], np.ndarray]:
        return {order: self.basis.table(points, order) for order in dict.fromkeys(self.in_space)}

    def block(self, points: Float[np.ndarray, "points d"], times: Float[np.ndarray, " t"]) -> Block:
        """The equation at the points at each time."""
        whole = np.insert(
            np.tile(points, (len(times), 1)),
            self.problem.domain.time_number,
            np.repeat(times, len(points)),
            axis=1,
        )
        return make_block(
            place_inside(self.problem, whole, self.orders), self.problem, None, "float64"
        )

    def initial(self) -> State:
        """The states that are given at the beginning, derivatives of order 1 after them."""
        start = self.problem.domain.times[0]
        state = np.zeros((2, self.size, self.num_fields))
        zero = (0,) * len(self.in_space[0])
        points = np.concatenate([self.points, self.box.boundary.points(4 * self.size)[0]])
        at = np.insert(points, self.problem.domain.time_number, start, axis=1)
        at_fresh = np.insert(self.fresh, self.problem.domain.time_number, start, axis=1)
        table, fresh_table = (self.basis.table(each, zero) for each in (points, self.fresh))
        for condition in self.problem.conditions:
            if isinstance(condition, Initial):
                values = values_at(condition.value, self.problem.domain, at)
                fresh_values = values_at(condition.value, self.problem.domain, at_fresh)
                field = self.problem.field_number(condition)
                found = solve(table.copy(), values[:, None])[0][:, 0]
                state[condition.order, :, field] = found
                left = float(np.linalg.norm(fresh_table @ found - fresh_values))
                self.misfit = max(self.misfit, left / (float(np.linalg.norm(fresh_values)) or 1.0))
        return state

    def carried(
        self, old: ShapeBasis, state: Float[np.ndarray, "order before fields"]
    ) -> Float[np.ndarray, "order terms fields"]:
        """A state in these functions."""
        zero = (0,) * len(self.in_space[0])
        points = np.concatenate([self.points, self.box.boundary.points(4 * self.size)[0]])
        values = old.evaluate(points, np.moveaxis(state, 1, 0).reshape(len(old), -1))
        found = solve(self.basis.table(points, zero), values)[0]
        return np.moveaxis(found.reshape(self.size, *np.delete(state.shape, 1)), 0, 1)

    def conditions(self, times: Float[np.ndarray, " nodes"]) -> list[Held]:
        """What holds on the boundary at these times."""
        each = []
        for now in times.tolist():
            conditions = [
                _at(condition, str(self.problem.domain.time), now)
                for condition in self.problem.conditions
                if isinstance(condition, Dirichlet | Neumann | Robin)
            ]
            frozen = dataclasses.replace(
                self.problem, domain=self.box, conditions=conditions, trace=self.problem.asked
            )
            per_axis = points_per_axis_of(frozen, self.basis)
            each.append((conditions, place_conditions(frozen, per_axis)))
        found = []
        for number, condition in enumerate(each[0][0]):
            placed = [of_time[1][number] for of_time in each]
            operator: Any = placed[0].operator
            points = placed[0].points
            tables = {
                order: self.basis.table(points, order).T for order in in_terms(placed[0].orders)
            }
            rows = [_rows_of(p.operator, tables) for p in placed]
            scale = CONDITION_WEIGHT * len(placed[0].points) ** -0.5 * condition.weight
            values = np.stack([p.target.reshape(-1) for p in placed])
            found.append(Held(operator.field, scale * np.stack(rows), scale * values))
        return found


def _rows_of(operator: Any, tables: dict[Any, np.ndarray]) -> np.ndarray:
    """A condition of all terms at its points, from their tables, transposed."""
    return np.asarray(operator(lambda _, order: tables[order], None, {})[0]).T


def _at(condition: Any, name: str, now: float) -> Any:
    """A condition at a time, as one without time."""

    def fixed(value: Any) -> Any:
        if not callable(value):
            return value
        return lambda **given: call_by_name(value, {**given, name: now})

    names = {"value", "coefficient", "alpha", "beta"}
    own = [field.name for field in dataclasses.fields(condition) if field.name in names]
    changed = {each: fixed(getattr(condition, each)) for each in own}
    if isinstance(condition, Dirichlet):
        changed["hard"] = False
    return dataclasses.replace(condition, **changed)


# ---- A window ----


class Solved(NamedTuple):
    """A window: its time, Legendre coefficients in time, the state at its end, and its figures."""

    begin: float
    end: float
    basis: ShapeBasis
    coefficients: Float[np.ndarray, "degrees terms fields"]
    state: State
    steps: int
    tail: float
    residual: float


class Factor(NamedTuple):
    """Q R of a system in space, of columns of unit length that do not depend on others."""

    q: Complex[np.ndarray, "rows rank"]
    r: Complex[np.ndarray, "rank rank"]
    used: np.ndarray
    lengths: Float[np.ndarray, " columns"]

    @staticmethod
    def of(matrix: Complex[np.ndarray, "rows columns"]) -> "Factor":
        lengths = np.linalg.norm(matrix, axis=0)
        lengths[lengths == 0.0] = 1.0
        used = np.arange(len(lengths))
        q, r = np.linalg.qr(matrix / lengths)
        if np.any(dependent := depends(r)):
            used = used[~dependent]
            q, r = np.linalg.qr(matrix[:, used] / lengths[used])
        return Factor(q, r, used, lengths)

    def solve(self, right: Complex[np.ndarray, "rows *any"]) -> Complex[np.ndarray, "columns *any"]:
        found = np.zeros((len(self.lengths), *right.shape[1:]), complex)
        found[self.used] = scipy.linalg.solve_triangular(self.r, self.q.conj().T @ right)
        return (found.T / self.lengths).T


class Factors(NamedTuple):
    """Of the systems of half of the eigenvectors of D, and what rows of conditions count there.

    `parts` are the rows of the equation by the order in time of what they multiply. All follows
    from the window in which they were made and `mean`, the coefficients of the equation there.
    """

    begin: float
    length: float
    mean: Float[np.ndarray, "orders fields points residuals"]
    each: list[tuple[int, float, Factor]]
    parts: list[Float[np.ndarray, "rows columns"]]


class Window:
    """The equations of a window of time, for the state at its beginning."""

    def __init__(self, space: Space, times: Times, begin: float, length: float, state: State):
        self.space, self.times, self.state = space, times, state
        self.begin, self.length = begin, length
        now = begin + length * times.nodes
        self.block = space.block(space.points, now)
        self.fresh = space.block(space.fresh, now[[len(now) // 2, -1]])
        self.held = space.conditions(now)

    def in_time(self, nodal: Nodal) -> list[Nodal]:
        """The fields at the nodes, and their derivatives by time."""
        found = [nodal]
        for order in range(max(self.space.in_time)):
            # Of the second order by those of the first, as in a system of first order.
            start = self.times.start[:, None, None] * self.state[order]
            found.append((np.tensordot(self.times.derivative, found[-1], 1) + start) / self.length)
        return found

    def residual(self, nodal: Nodal) -> tuple[np.ndarray, np.ndarray]:
        """All rows at each node, and the derivatives of the equation's by the channels."""
        space, count = self.space, len(self.times.nodes)
        channels = self._channels(space.tables, self.in_time(nodal))
        values, slopes = _linearized(self.block, channels)
        rows = [count**0.5 * np.asarray(values).reshape(count, -1)]
        rows += [
            np.einsum("irt,it->ir", held.rows, nodal[:, :, held.field]) - held.values
            for held in self.held
        ]
        slopes = count**0.5 * np.asarray(slopes)
        shape = (*slopes.shape[:2], count, -1, slopes.shape[-1])
        return np.concatenate(rows, axis=1), slopes.reshape(shape)

    def _channels(self, tables: dict[tuple[int, ...], np.ndarray], states: list[Nodal]) -> Any:
        each = zip(self.space.in_space, self.space.in_time, strict=True)
        found = [np.einsum("pt,itf->ipf", tables[s], states[k], optimize=True) for s, k in each]
        return jnp.asarray(np.stack(found).reshape(len(found), -1, self.space.num_fields))

    def factors(self, mean: Float[np.ndarray, "orders fields points residuals"]) -> Factors:
        """With these coefficients of the equation, averaged over the nodes."""
        space, parts = self.space, self._parts(mean)
        below = []
        for held in self.held:
            rows = np.zeros((held.rows.shape[1], parts[0].shape[1]))
            rows[:, held.field * space.size : (held.field + 1) * space.size] = held.rows.mean(
                axis=0
            )
            below.append(rows)
        found = []
        for number, value in enumerate(self.times.numbers):
            if value.imag < 0.0:
                continue
            rate = value / self.length
            # Conditions count as much as where nothing changes in time.
            weight = max(1.0, abs(rate) ** (len(parts) - 1))
            equation = sum(part * rate**order for order, part in enumerate(parts))
            matrix = np.concatenate([equation, *(weight * rows for rows in below)])
            found.append((number, weight, Factor.of(matrix)))
        return Factors(self.begin, self.length, mean, found, parts)

    def _parts(self, mean: Float[np.ndarray, "orders fields points residuals"]) -> list[np.ndarray]:
        """The equation's columns, field by field, for each order in time."""
        space, num_rows = self.space, mean.shape[2] * mean.shape[3]
        parts = [
            np.zeros((num_rows, space.num_fields * space.size))
            for _ in range(max(space.in_time) + 1)
        ]
        for order, (of, power) in enumerate(zip(space.in_space, space.in_time, strict=True)):
            for field in range(space.num_fields):
                # Rows as the residual has them: points, then equations.
                own = mean[order, field][:, :, None] * space.tables[of][:, None, :]
                columns = slice(field * space.size, (field + 1) * space.size)
                parts[power][:, columns] += own.reshape(num_rows, space.size)
        return parts

    def growing(self, factors: Factors, share: float) -> Float[np.ndarray, "states states"] | None:
        """What takes those parts out of a state that grow without satisfying the equation.

        Least squares are no Galerkin method: where waves are too short for the functions in space,
        frequencies may have an imaginary part. Rounding would grow with it from window to window.
        """
        times, parts, size = self.times, factors.parts, self.length
        order = len(parts) - 1
        count = parts[0].shape[1]
        step = np.zeros((order * count, order * count))
        once = times.start / size
        # By order in time, what the nodes have of the state and of its derivative.
        of_state = [None, once, times.derivative @ once / size]
        of_slope = [None, None, once]
        for number, _, factor in factors.each:
            into = times.inverse[number]
            starts = [of_state, of_slope][:order]
            right = np.concatenate(
                [
                    sum(
                        (into @ each[k]) * parts[k]
                        for k in range(1, order + 1)
                        if each[k] is not None
                    )
                    for each in starts
                ],
                axis=1,
            )
            found = -factor.solve(np.pad(right, [(0, len(factor.q) - len(right)), (0, 0)]))
            twice = 2.0 if times.numbers[number].imag else 1.0
            for k in range(order):
                at_end = twice * times.vectors[-1, number] * (times.numbers[number] / size) ** k
                step[k * count : (k + 1) * count] += np.real(at_end * found)
        if order == 2:
            step[count:, :count] += once[-1] * np.eye(count)
        values, vectors = scipy.linalg.eig(step)
        worse = np.flatnonzero(np.abs(values) > GROWTH**share)
        rates = np.log(values[worse]) / size
        fresh = self._fresh_parts()
        own = vectors[:count, worse]
        each = np.stack([(part @ own) * rates**k for k, part in enumerate(fresh)])
        left = np.linalg.norm(each.sum(axis=0), axis=0) / np.linalg.norm(each, axis=(0, 1))
        worse = worse[left > SPURIOUS]
        if not len(worse):
            return None
        inverse = np.linalg.inv(vectors)
        return np.real(vectors[:, worse] @ inverse[worse])

    def step(self, factors: Factors, rows: Float[np.ndarray, "nodes rows"]) -> Nodal:
        """What makes the linearized rows vanish."""
        space, times = self.space, self.times
        inside = rows.shape[1] - sum(held.values.shape[1] for held in self.held)
        found = np.zeros((len(rows), space.num_fields * space.size))
        for number, weight, factor in factors.each:
            right = times.inverse[number] @ rows
            right[inside:] *= weight
            twice = 2.0 if times.numbers[number].imag else 1.0
            solved = factor.solve(right)
            found += twice * np.real(times.vectors[:, number, None] * solved)
        return np.moveaxis(found.reshape(len(rows), space.num_fields, space.size), 1, 2)

    def _fresh_parts(self) -> list[np.ndarray]:
        """The equation's columns at points not used, linearized about zero."""
        space = self.space
        channels = jnp.zeros((len(space.orders), self.fresh.num_points, space.num_fields))
        _, slopes = _linearized(self.fresh, channels)
        half = np.asarray(slopes)[:, :, : len(space.fresh)]
        tables, space.tables = space.tables, space.fresh_tables
        try:
            return self._parts(half)
        finally:
            space.tables = tables

    def fresh_residual(self, nodal: Nodal) -> tuple[float, float]:
        """The root mean square residual at points not used, and that of the terms there."""
        some = [each[[len(each) // 2, -1]] for each in self.in_time(nodal)]
        channels = self._channels(self.space.fresh_tables, some)
        values, slopes = _linearized(self.fresh, channels)
        terms = np.einsum("opf,ofpr->ofpr", np.asarray(channels), np.asarray(slopes))
        return float(np.linalg.norm(values)), float(np.linalg.norm(terms))


@jax.jit
def _linearized(block: Block, channels: jax.Array) -> tuple[jax.Array, jax.Array]:
    return block.linearize(channels, {})


# ---- From window to window ----


class March:
    """Windows as far as they have come, and what they were made with.

    The first degree in space has the number `rung`; `goal` is the residual at which it is enough.
    """

    def __init__(
        self, setup: Setup, degree: int, tail: float, goal: float = RESIDUAL, rung: int = 0
    ) -> None:
        self.setup, self.times, self.tail = setup, radau(degree), tail
        self.begin, self.end = setup.problem.domain.times
        self.rung = rung
        self.space = Space(setup, DEGREES[rung])
        self.state = self.space.initial()
        self.done: list[Solved] = []
        self.factors: Factors | None = None
        self.sizes = np.full(self.space.num_fields, 1e-300)
        self.terms, self.goal, self.rejected = 1e-300, goal, 0
        self.stopped: str | None = None
        self.last: Window | None = None
        self.seen: Factors | None = None
        self.spurious: Any = None

    def run(self) -> str:
        """March to the end of time, or to where it does not go on; says why there is no more."""
        whole = self.end - self.begin
        level, done, last = round(-math.log2(FIRST)), 0, math.inf
        saved = self.setup.checkpoint.under_way()
        if saved is not None:
            level, done = self.restore(saved)
        while done < 2**level:
            try:
                self.setup.run.check_time(0.0)
                self.tell(done / 2**level)
            except Stopped as stopped:
                # The first window, if it is one, is better than nothing.
                if self.done or self.rejected:
                    self.stopped = str(stopped)
                    return f"stopped by {stopped}"
            begin = self.begin + whole * done / 2**level
            found = self.window(begin, whole / 2**level)
            if found is not None:
                found = self.in_more_functions(found)
                is_stuck = found.tail > STUCK * last
                last = found.tail
                if is_stuck:
                    # What shorter windows do not lessen is of the functions in space.
                    self.tail = max(self.tail, 2.0 * found.tail)
            if found is None or found.tail > self.tail:
                self.rejected += 1
                level, done = level + 1, 2 * done
                if level > MOST_HALVINGS:
                    return (
                        f"windows do not get on from {self.setup.problem.domain.time} = {begin:g}"
                    )
                continue
            self.done.append(found)
            self.state = self.cleaned(found.state)
            done, last = done + 1, math.inf
            if found.tail < ROOM**2 * self.tail and done % 2 == 0 and level > 0:
                level, done = level - 1, done // 2
            self.keep(level, done)
        # What was to stop it comes too late.
        with contextlib.suppress(Stopped):
            self.tell(1.0)
        return ALL_DONE

    def tell(self, share: float) -> None:
        figures = {"fresh residual": self.done[-1].residual} if self.done else {}
        step = round(1000 * share)
        self.setup.report(Progress("windows, thousandths of time", step, 1000, figures))

    def keep(self, level: int, done: int) -> None:
        """Leave all that the next window depends on in the checkpoint."""
        factors = self.factors
        assert factors is not None
        numbers = [[w.begin, w.end, w.tail, w.residual] for w in self.done]
        arrays = {
            "numbers": np.array(numbers),
            "own": np.array([self.tail, self.terms, self.goal, self.space.misfit]),
            "sizes": self.sizes,
            "state": self.state,
            "factors": np.array([factors.begin, factors.length]),
            "mean": factors.mean,
        }
        for number, window in enumerate(self.done):
            arrays[f"window{number}"] = window.coefficients
            arrays[f"state{number}"] = window.state
        if self.spurious is not None:
            arrays["spurious"] = self.spurious
        notes = {
            "level": level,
            "done": done,
            "rung": self.rung,
            "rejected": self.rejected,
            "degrees": [window.basis.degree for window in self.done],
            "steps": [window.steps for window in self.done],
        }
        self.setup.checkpoint.keep(functools.partial(Saved, arrays, notes))

    def restore(self, saved: Saved) -> tuple[int, int]:
        """What was kept; the level of windows, and how many of it are done."""
        arrays = {name: np.array(array) for name, array in saved.arrays.items()}
        notes = saved.notes
        if notes["rung"] != self.rung:
            self.rung = int(notes["rung"])
            self.space = Space(self.setup, DEGREES[self.rung])
        self.tail, self.terms, self.goal, self.space.misfit = arrays["own"].tolist()
        self.sizes, self.state, self.rejected = arrays["sizes"], arrays["state"], notes["rejected"]
        bases = {self.space.basis.degree: self.space.basis}
        for number, (begin, end, tail, residual) in enumerate(arrays["numbers"].tolist()):
            degree = notes["degrees"][number]
            basis = bases.setdefault(degree, basis_of(self.setup.problem, degree))
            found = arrays[f"window{number}"], arrays[f"state{number}"]
            steps = notes["steps"][number]
            self.done.append(Solved(begin, end, basis, *found, steps, tail, residual))
        begin, length = arrays["factors"].tolist()
        window = Window(self.space, self.times, begin, length, self.state)
        self.factors = self.seen = window.factors(arrays["mean"])
        self.spurious = arrays.get("spurious")
        return int(notes["level"]), int(notes["done"])

    def window(self, begin: float, length: float) -> Solved | None:
        """The solution of a window, None if steps do not converge."""
        window = Window(self.space, self.times, begin, length, self.state)
        nodal = np.repeat(self.state[:1], len(self.times.nodes), axis=0)
        factors = self.factors if self.factors and self.factors.length == length else None
        is_new, last = False, math.inf
        steps = 0
        while steps < MOST_STEPS:
            steps += 1
            rows, slopes = window.residual(nodal)
            if not np.all(np.isfinite(rows)):
                return None
            if factors is None:
                factors, is_new, last = window.factors(slopes.mean(axis=2)), True, math.inf
            step = window.step(factors, rows)
            nodal = nodal - step
            norms = np.linalg.norm(nodal, axis=(0, 1)) + self.sizes * len(nodal) ** 0.5
            size = float(np.max(np.linalg.norm(step, axis=(0, 1)) / norms))
            if size <= DONE or (size <= ROUNDING and size > SLOW * last):
                break
            if size > SLOW * last:
                if is_new and size > HOPELESS * last:
                    return None
                if not is_new:
                    factors = None
            last = size
        else:
            return None
        self.factors, self.last = factors, window
        return self.described(window, nodal, begin, length, steps)

    def described(
        self, window: Window, nodal: Nodal, begin: float, length: float, steps: int
    ) -> Solved:
        start = self.state[0].copy()
        for field, order in enumerate(self.space.time_order):
            if order == 0:
                start[:, field] = self.times.from_nodes @ nodal[:, :, field]
        coefficients = np.tensordot(
            self.times.to_legendre, np.concatenate([start[None], nodal]), axes=1
        )
        self.sizes = np.maximum(self.sizes, np.linalg.norm(nodal, axis=1).max(axis=0))
        tail = float(np.max(np.linalg.norm(coefficients[-2:], axis=1) / self.sizes))
        residual, terms = window.fresh_residual(nodal)
        self.terms = max(self.terms, terms)
        state = np.zeros_like(self.state)
        for order, each in enumerate(window.in_time(nodal)[:2]):
            state[order] = each[-1]
        end = begin + length
        relative = residual / self.terms
        if not self.done:
            relative = max(relative, self.space.misfit)
        return Solved(begin, end, self.space.basis, coefficients, state, steps, tail, relative)

    def cleaned(self, state: State) -> State:
        """Without what grows though it satisfies no equation."""
        if self.factors is not self.seen:
            self.seen, self.spurious = self.factors, None
            if self.factors is not None and self.last is not None:
                self.spurious = self.last.growing(
                    self.factors, self.factors.length / (self.end - self.begin)
                )
        if self.spurious is None:
            return state
        order = self.spurious.shape[0] // (self.space.size * self.space.num_fields)
        flat = np.moveaxis(state[:order], 1, 2).ravel()
        grown = self.spurious @ flat
        if np.linalg.norm(grown) > GROWN * np.linalg.norm(flat):
            # No rounding: values given on the boundary, or a source, have a share in these.
            return state
        flat = flat - grown
        kept = state.copy()
        kept[:order] = np.moveaxis(
            flat.reshape(order, self.space.num_fields, self.space.size), 1, 2
        )
        return kept

    def in_more_functions(self, found: Solved) -> Solved:
        """The window in as many functions of space as lessen its residual."""
        while found.residual > self.goal and self.rung + 1 < len(DEGREES):
            before = (self.space, self.state, self.factors, self.last)
            higher = Space(self.setup, DEGREES[self.rung + 1])
            if higher.size * higher.num_fields > MOST_COLUMNS:
                break
            old = self.space.basis
            self.state = self.higher_state(higher, old)
            self.space, self.factors = higher, None
            again = self.window(found.begin, found.end - found.begin)
            if again is None or again.residual > WORTH * found.residual:
                self.space, self.state, self.factors, self.last = before
                # Not tried again before it has become worse.
                self.goal = 10.0 * found.residual
                break
            found, self.rung = again, self.rung + 1
        return found

    def higher_state(self, space: Space, old: ShapeBasis) -> State:
        return space.carried(old, self.state) if self.done else space.initial()


ALL_DONE = "all windows done"


def march_shape(setup: Setup, method: Windows) -> Solution:
    """All windows one after another; the domain of the solution ends where they do."""
    return march_from(setup, method.degree or DEGREE, method.tail or TAIL)[0]


def march_from(
    setup: Setup, degree: int, tail: float, goal: float = RESIDUAL, rung: int = 0
) -> tuple[Solution, March]:
    """The windows of this degree and tail as a solution, and as they were marched."""
    with threadpool_limits(1, "blas"):
        marched = March(setup, degree, tail, goal, rung)
        stop = marched.run()
    if not marched.done and marched.stopped:
        raise WindowsFailed(
            f"{marched.stopped} was over before the first window was done: {marched.rejected} were "
            "tried, and shortened; give more time"
        )
    if not marched.done:
        raise WindowsFailed(
            f"no window could be solved: {stop}; check the equation, or give "
            "pann.Hybrid() for one system over the whole of time"
        )
    problem, windows = setup.problem, marched.done
    domain = _up_to(problem.domain, windows[-1].end)
    edges = (windows[0].begin, *(window.end for window in windows))
    edges = (*edges[:-1], domain.times[1])
    basis = EvolvingBasis(domain, marched.space.basis, edges, degree)
    each = [
        w.coefficients if w.basis is basis.space else marched.space.carried(w.basis, w.coefficients)
        for w in windows
    ]
    b = np.stack(each).transpose(2, 0, 1, 3).reshape(len(basis), -1)
    model = polynomial_model(domain, basis, b)
    rel_l2, field_errors = relative_errors(dataclasses.replace(problem, domain=domain), model)
    worst = max(windows, key=lambda window: window.residual)
    steps = sum(window.steps for window in windows)
    report = Report(
        how=(
            f"Newton's method on {len(windows)} windows of degree {degree} in time and "
            f"{basis.space!r}, {steps} steps, {marched.rejected} windows tried again"
        ),
        degree=basis.space.degree,
        num_points=len(marched.space.points) * degree * len(windows),
        residual=worst.residual,
        rel_l2=rel_l2,
        field_errors=field_errors,
        stop=f"{stop}, tails in time below {marched.tail:.0e}",
        stopped=marched.stopped,
        seconds=setup.run.seconds,
        history={
            "fresh residual": [window.residual for window in windows],
            "tail in time": [window.tail for window in windows],
        },
    )
    own = Windows(windows=len(windows), degree=degree, tail=tail)
    return Solution(model, problem.fields, {}, report, problem, method=own), marched


def finer_marches(
    setup: Setup, tails: Sequence[float], more_degrees: int
) -> Iterator[tuple[Solution, bool]]:
    """Marches with ever smaller tails, each of a higher degree in time and in space.

    Beside each is whether it reached the end of time.
    """
    rung, columns = 0, len(setup.problem.fields)
    for number, tail in enumerate(tails):
        scoped = setup.within(f"march {number}")
        solution, marched = march_from(scoped, DEGREE + more_degrees * number, tail, tail, rung)
        yield solution, not marched.stopped and solution.model.domain == setup.problem.domain
        rung = marched.rung + 1
        if rung == len(DEGREES):
            return
        if columns * len(basis_of(setup.problem, DEGREES[rung])) > MOST_COLUMNS:
            return


def _up_to(domain: Box, end: float) -> Box:
    """The domain as far as the windows go."""
    low, high = domain.times
    if abs(end - high) <= 1e-9 * (high - low):
        return domain
    assert domain.shape is not None
    return Box.of_shape(domain.shape, {str(domain.time): (low, end)})

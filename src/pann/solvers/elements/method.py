"""From a single element to a resolved solution, in rounds; in windows of time where there is time.

A round solves on the elements there are, and refines those that are not resolved. While an element
is too wide for the layers that the equation may have there, its highest derivatives are amplified
until the degree resolves them: a wide layer is found where the narrow one will be, and the elements
around it become smaller until nothing is amplified.
"""

import dataclasses
import functools
import math
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from pann.basis import ElementBasis, Tree
from pann.basis.cells import graded, in_shape
from pann.domain import Box
from pann.io.checkpoint import NOWHERE, Checkpoint, Saved
from pann.methods import Elements
from pann.numerics.tree_least_squares import Solved
from pann.pde.checks import checked, has_integrals
from pann.pde.conditions import Break, Data, Dirichlet, Initial, Integral, planes
from pann.pde.placing import place_conditions
from pann.pde.problem import Problem
from pann.runtime.limits import Progress, Stopped
from pann.runtime.memory import available_memory
from pann.shapes import Shape
from pann.solvers.assessment import indicator, relative_errors
from pann.solvers.determinacy import constants_are_free, is_linear, without_values
from pann.solvers.elements.curves import Curves
from pann.solvers.elements.given import resolving_given
from pann.solvers.elements.refine import (
    Bounds,
    Measured,
    carried,
    compared_with,
    field_sizes,
    measured,
    num_unknowns,
    num_unknowns_each,
    refined,
    relative_size,
    shown,
    tails,
    unevenness,
)
from pann.solvers.elements.rows import ElementSystem, Missed
from pann.solvers.inverse import is_inverse
from pann.solvers.polynomial import polynomial_model
from pann.solvers.setup import Run, Setup
from pann.solvers.solution import Report, Solution, trial_figures

MAX_DIMENSION = 3
# By dimension: the degree to begin with, the tail to reach, and the most coefficients.
DEGREES, TAILS = {1: 16, 2: 12, 3: 6}, {1: 1e-11, 2: 1e-8, 3: 1e-6}
MAX_UNKNOWNS = {1: 200_000, 2: 200_000, 3: 60_000}
# Bytes that a round takes for the square of the unknowns of each element: rows, and triangles of
# this round and the last (9.5 for each of 8 bytes in a cavity on 94 to 316 elements, by hand); and
# how much of what is free it may take.
BYTES_PER_SQUARE, FREE_MEMORY = 80.0, 0.8
# The power of the unknowns with which the time of a round grows.
GROWTH = {1: 1.0, 2: 1.25, 3: 2.0}
MAX_ROUNDS, MAX_STEPS, HALVINGS = 60, 25, 6
USUAL_STEPS = 5
# What a step of Newton's method may leave, relative to the tail, and to the worst element before.
ENOUGH, FAR = 0.1, 1e-2
# Steps that no longer fall end it below this multiple of what a step may leave: on elements that do
# not resolve the solution they fall slowly, and say little.
SLOW = 100.0
# After a step below this, and as long as each is below this times the one before, steps are made
# with the factors that there are.
REUSED = 0.01
# Newton's method that has made so many steps, of which the last is so large, is at a loss. Then the
# first fraction of the nonlinear terms, the smallest by which it grows, and the steps for all.
LOST, STILL_LARGE, FIRST_FRACTION, LEAST_GROWTH, MOST_STEPS = 10, 0.1, 1 / 16, 1e-3, 60
# What a step of Newton's method may leave before all of the nonlinear terms are there.
ON_THE_WAY = 1e-3
# Where the solution is not smooth at some points, the tail to reach is so many times as large.
NOT_SMOOTH = 100.0
# Residuals above this, in units of the fields, say that the highest derivatives still need help, if
# they are not much smaller than the largest: what is amplified leaves a residual everywhere.
UNSETTLED, SHARE = 1e-2, 0.1
# Rounds that do not lower the worst element by this factor, this many in a row, end the work.
STALLED, PATIENCE = 0.7, 6
# Below this multiple of the tail wanted, a stall is rounding.
NEARLY = 30.0
# Where all elements are resolved, but the estimated error is above so many tails, tails are made
# smaller by a factor in each further round, down to rounding, as long as that helps; and elements
# are refined to which more than a share of what they do elsewhere is due.
WANTED, STRICTER, STRICTEST, NO_BETTER, DUE = 100.0, 0.1, 1e-12, 2, 0.1
# Elements at re-entrant corners are so many tails wide, relative to the shape.
AT_CORNERS = 10.0
# Windows of time: the first one as a fraction of the whole, and unknowns of a good one.
FIRST_WINDOW, FEW_UNKNOWNS, MANY_UNKNOWNS = 1 / 8, 4_000, 12_000
NUM_COMPARED = 4_000
# Pivots of the least squares below this, relative to the largest, are rounding.
FREE = 1e-12
# And a stability below this on a shape.
FREE_ON_SHAPES = 1e-9
NOT_DETERMINED = (
    "some function can be added to the solution without any change: conditions are missing, or a "
    "constant is free, which pann.Integral(...) chooses"
)
NO_FURTHER = "no longer better by finer elements"
HARDLY_DETERMINED = (
    "the equation hardly determines the solution: functions far from this one leave about the same "
    "residual, so that others may be as good; see whether conditions are missing on some side (a "
    "flow has as many where it leaves as it has at a wall), and what holds the solution in place, "
    "such as a front"
)
# A residual that allows for errors above this; where they are large a nonlinear equation is not
# near its linearization, so that they may be so much larger.
UNDETERMINED, FAR_OFF = 0.1, 10.0
# Changes that fall more slowly from round to round, or grow, count as if they fell so.
SLOWEST = 0.9
SAFETY = 2.0
# A note names at most so many points, no nearer to each other than this, relative to the domain.
MOST_POINTS, SAME_POINT = 6, 0.02
POINTS_ON_FACES = 24
ELEMENTS = Elements()
MISSED = ("size", "center", "spread")
# The basis and the coefficients of the window before.
Before = tuple[ElementBasis, np.ndarray]
NO_CURVES = Curves((), ())


@dataclasses.dataclass(frozen=True, eq=False)
class Resolved:
    """What the rounds on some elements came to.

    `worst` has for each round the largest tail or residual of any element, relative to the
    size of the fields, `changes` the relative differences from one round to the next in l2, and
    `unevenness` is the ratio of these two sizes of a field. About the points `rough` the solution
    is not smooth; `left_out` has the corners of elements there that are not resolved, and do not
    count in l2, `influence` what their residual may do elsewhere. `unstable` is the residual over
    the stability of a nonlinear equation's linearization, a bound of the error.
    """

    basis: ElementBasis
    b: Float[np.ndarray, "terms fields"]
    tail: float
    worst: list[float]
    changes: list[float]
    steps: int
    num_points: int
    smallest_pivot: float
    unevenness: float
    rough: Float[np.ndarray, "points d"]
    left_out: Float[np.ndarray, "boxes 2 d"]
    influence: float
    unstable: float
    stop: str = ""
    stopped: str | None = None

    @property
    def is_resolved(self) -> bool:
        """Whether all elements are resolved, or nearly."""
        return self.worst[-1] <= NEARLY * self.tail

    @property
    def error(self) -> float:
        """An estimate: the worst element, times what changes were per worst element before."""
        pairs = list(zip(self.changes, self.worst, strict=False))
        if len(self.rough):
            # Before, what changed most was what is left out.
            pairs = pairs[-1:]
        sensitivity = max((change / worst for change, worst in pairs if worst > 0), default=0.0)
        local = max(self.unevenness, sensitivity) * self.worst[-1] + self.influence
        return max(SAFETY * local, SAFETY * self._ahead, self.unstable)

    @property
    def _ahead(self) -> float:
        """The sum of all changes that would follow if they went on to fall as the last two do."""
        if len(self.changes) < 2 or len(self.rough):
            return 0.0
        ratio = min(self.changes[-1] / max(self.changes[-2], 1e-300), SLOWEST)
        return self.changes[-1] * ratio / (1 - ratio)

    @property
    def is_undetermined(self) -> bool:
        """Whether other functions meet a nonlinear equation as well as this one."""
        has_settled = self.is_resolved or self.stop == NO_FURTHER
        return self.unstable > UNDETERMINED and has_settled


@dataclasses.dataclass(frozen=True)
class Goal:
    """The tail to reach on every element, larger for what is not smooth unless it was given."""

    tail: float
    is_given: bool = False

    def where(self, *, is_smooth: bool) -> float:
        return self.tail if is_smooth or self.is_given else NOT_SMOOTH * self.tail


def reason_against(problem: Problem) -> str | None:
    """Why a problem cannot be solved on elements, None if it can."""
    if problem.domain.shape is not None and (reason := _reason_on_shape(problem)):
        return reason
    if problem.domain.dimension > MAX_DIMENSION:
        return f"elements are for at most {MAX_DIMENSION} dimensions"
    if is_inverse(problem) or problem.parameters:
        return "elements do not find unknown parameters; use pann.Polynomial() or pann.Hybrid()"
    if has_integrals(problem) and any(order < 0 for each in problem.asked.orders for order in each):
        return "elements have no integrals of the fields in the equation; use pann.Polynomial()"
    for condition in problem.conditions:
        if isinstance(condition, Dirichlet | Initial) and condition.hard:
            return "elements meet no hard conditions; leave hard out"
        if isinstance(condition, Integral) and (
            set(condition.over(problem.domain)) != set(problem.domain.names)
            or callable(condition.value)
        ):
            return "on elements an integral is over the whole domain, and a number"
    return None


def _reason_on_shape(problem: Problem) -> str | None:
    otherwise = "use pann.Polynomial() or pann.Hybrid()"
    if problem.domain.time is not None:
        return "elements on shapes are for problems without time; use pann.Windows()"
    if problem.domain.dimension != 2:
        return f"elements are for shapes of the plane; {otherwise} in space"
    if any(isinstance(condition, Integral) for condition in problem.conditions):
        return f"elements have no integrals over a shape; {otherwise}"
    if free := without_values(problem):
        return (
            f"a constant is free in {', '.join(free)}, and elements have no mean over a shape; "
            f"give a value at a point by pann.Data(...), or {otherwise}"
        )
    return None


def solve_on_elements(
    setup: Setup,
    method: Elements = ELEMENTS,
    *,
    start: Tree | None = None,
) -> Solution:
    """The solution on elements that the method asks for, in windows where there is time."""
    problem = checked(setup.problem)
    if reason := reason_against(problem):
        raise ValueError(reason)
    means = [Integral(0.0, field=name) for name in without_values(problem)]
    problem = dataclasses.replace(problem, conditions=[*problem.conditions, *means])
    dimension = problem.domain.dimension
    first = DEGREES[dimension] if method.degree is None else method.degree
    highest = math.ceil(1.5 * first) if method.highest_degree is None else method.highest_degree
    rounds = _Rounds(
        problem,
        Bounds(min(first, highest), highest),
        Goal(TAILS[dimension]) if method.tail is None else Goal(method.tail, is_given=True),
        MAX_UNKNOWNS[dimension] if method.max_unknowns is None else method.max_unknowns,
        setup.run,
        is_linear(problem),
        NO_CURVES if problem.domain.shape else Curves.of(problem, problem.domain),
    )
    if problem.domain.time is None or any(isinstance(c, Data) for c in problem.conditions):
        tree = start
        if tree is None:
            tree = first_tree(
                problem,
                problem.domain,
                rounds.bounds.first,
                rounds.curves,
                smallest=AT_CORNERS * rounds.goal.tail,
            )
        found = rounds.resolve(tree, setup.checkpoint.within("elements"))
        windows = 1
    else:
        found, windows = march(rounds, method.windows, setup.checkpoint.within("elements"))
    return _solution(setup, found, method, rounds, windows)


def better_on_elements(setup: Setup, other: Solution) -> Solution:
    """The solution on elements, or the other one where that has the smaller residual."""
    found = compared(setup, solve_on_elements(setup))
    return found if found.residual < other.residual or is_settled(found) else other


def elements_or(otherwise: Callable[[Setup], Solution], setup: Setup) -> Solution:
    """The solution on elements, or that of another way where it is not resolved and not better."""
    found = compared(setup, solve_on_elements(setup))
    if is_settled(found) or found.report.stopped:
        return found
    other = otherwise(setup)
    return other if other.residual < found.residual else found


def is_settled(solution: Solution) -> bool:
    """Whether the elements of a solution are all resolved, or nearly."""
    tail = solution.method.tail if isinstance(solution.method, Elements) else None
    return tail is not None and solution.report.history["worst element"][-1] <= NEARLY * tail


def compared(setup: Setup, solution: Solution) -> Solution:
    """With the relative residual that other ways have, at fresh points of the whole domain."""
    problem = setup.problem
    if solution.model.domain != problem.domain:
        return dataclasses.replace(
            solution, report=dataclasses.replace(solution.report, residual=math.inf)
        )
    conditions = place_conditions(problem, POINTS_ON_FACES)
    residual = indicator(setup, conditions, solution.model)
    return dataclasses.replace(
        solution, report=dataclasses.replace(solution.report, residual=residual)
    )


def first_tree(
    problem: Problem,
    domain: Box,
    degree: int,
    curves: Curves = NO_CURVES,
    before: Before | None = None,
    smallest: float = 1.0,
) -> Tree:
    """Elements between the planes of interfaces and breaks that resolve what is given.

    At re-entrant corners of a shape they are no larger than the `smallest`.
    """
    tree = Tree.whole(domain.lower, domain.upper, [degree] * domain.dimension)
    for axis, places in planes(problem.domain, problem.conditions).items():
        index = domain.names.index(axis)
        for at in places:
            corners = tree.corners[:, :, index]
            inside = np.flatnonzero((corners[:, 0] < at) & (at < corners[:, 1]))
            tree = tree.cut({int(element): (index, float(at)) for element in inside})
    tree = curves.resolving(tree)
    if isinstance(domain.shape, Shape):
        return graded(domain.shape, in_shape(domain.shape, tree), smallest)
    return resolving_given(problem, domain, tree, before, curves)


# ---- Rounds ----


@dataclasses.dataclass(frozen=True, eq=False)
class _Rounds:
    """What all rounds have in common."""

    problem: Problem
    bounds: Bounds
    goal: Goal
    max_unknowns: int
    run: Run
    is_linear: bool
    curves: Curves

    def resolve(
        self,
        tree: Tree,
        checkpoint: Checkpoint,
        before: Before | None = None,
        what: str = "elements",
        domain: Box | None = None,
    ) -> Resolved:
        """Rounds from these elements on; `before` has the end of the last window."""
        domain = self.problem.domain if domain is None else domain
        is_wide = np.ones((len(tree.elements), tree.dimension), bool)
        last: _Round | None = None
        stop, stopped = f"{MAX_ROUNDS} rounds", None
        extra = _Extra(
            math.inf if self.goal.is_given or self.problem.domain.time else WANTED * self.goal.tail
        )
        for number in range(MAX_ROUNDS):
            begun, done = time.monotonic(), 0 if last is None else last.resolved.steps
            try:
                own = checkpoint.within(f"round {number}")
                last = self._round(domain, tree, is_wide, last, own, before, extra.at_least)
                now = last.measured
                following = self._refined(tree, now, last.resolved.tail)
                if following is None:
                    following = self._finer(tree, last, extra)
                    stop = _all_done(last.resolved)
                elif reason := self._reason_to_end(last.resolved, following):
                    is_resolved = last.resolved.is_resolved
                    following = self._finer(tree, last, extra) if is_resolved else None
                    stop = reason
                if following is None:
                    break
                figures = {"worst element": now.worst}
                self.run.report(Progress(f"{what}, {len(tree.elements)}", number + 1, 0, figures))
                growth = num_unknowns(following, 1) / num_unknowns(tree, 1)
                growth **= GROWTH[tree.dimension]
                # Newton's method has come near, and will take few steps from now on.
                steps = last.resolved.steps - done
                growth *= min(1.0, USUAL_STEPS / steps)
                self.run.check_time((time.monotonic() - begun) * growth)
            except Stopped as reason:
                if last is None:
                    # A single element takes next to no time.
                    last = self._single(domain, before)
                if extra.errors and not reason.by_user and last.resolved.is_resolved:
                    stop = _all_done(last.resolved)
                    break
                stopped = str(reason)
                stop = f"stopped by {stopped}; next would have been finer elements"
                break
            unsettled = now.missed.size > max(UNSETTLED, SHARE * float(np.max(now.missed.size)))
            is_wide = (unsettled[:, None] & now.is_along)[
                tree.locate(following.corners.mean(axis=1))
            ]
            tree = following
        assert last is not None, stop
        return dataclasses.replace(last.resolved, stop=stop, stopped=stopped)

    def _single(self, domain: Box, before: Before | None) -> "_Round":
        """What a single element gives, whatever the time."""
        degrees = [self.bounds.first] * domain.dimension
        tree = Tree.whole(domain.lower, domain.upper, degrees)
        if isinstance(domain.shape, Shape):
            tree = in_shape(domain.shape, tree)
        unhurried = dataclasses.replace(self, run=Run())
        return unhurried._round(
            domain,
            tree,
            np.ones((len(tree.elements), domain.dimension), bool),
            None,
            NOWHERE,
            before,
        )

    def _finer(self, tree: Tree, last: "_Round", extra: "_Extra") -> Tree | None:
        """Elements for a smaller error where all are resolved, None if it is small enough."""
        found, now = last.resolved, last.measured
        extra.errors.append(found.error)
        extra.at_least = extra.at_least or found.tail
        best = extra.errors[:-NO_BETTER]
        has_stalled = best and min(extra.errors[-NO_BETTER:]) > STALLED * min(best)
        if found.error <= extra.wanted or not found.is_resolved or has_stalled:
            return None
        extra.tail = STRICTER * (extra.tail or found.tail)
        if extra.tail < STRICTEST:
            return None
        is_due = now.counted > extra.tail
        if SAFETY * found.influence > 0.5 * found.error:
            influences = now.influences(tree, found.tail, self._order)
            is_due |= influences > DUE * found.influence
        following = self._refined(tree, now, extra.tail, is_due)
        has_room = following is not None and not self._too_many(found, following)
        return following if has_room else None

    def _refined(
        self,
        tree: Tree,
        now: Measured,
        tolerance: float,
        chosen: Bool[np.ndarray, " boxes"] | None = None,
    ) -> Tree | None:
        """The next elements, in the shape where there is one; None if there are none."""
        widths = np.subtract(tree.upper, tree.lower)
        following = refined(tree, now, tolerance, self.bounds, widths, chosen)
        shape = self.problem.domain.shape
        if following is None or not isinstance(shape, Shape):
            return following
        return in_shape(shape, following)

    @property
    def _order(self) -> int:
        """The highest order of the equation."""
        return max(map(self.problem.asked.highest, range(self.problem.domain.dimension)))

    def _reason_to_end(self, resolved: Resolved, following: Tree) -> str:
        """Why there is no further round, empty if there is."""
        if resolved.worst[-1] > resolved.tail and has_stalled(resolved.worst, resolved.tail):
            return NO_FURTHER
        return self._too_many(resolved, following)

    def _too_many(self, resolved: Resolved, following: Tree) -> str:
        if num_unknowns(following, resolved.b.shape[1]) > self.max_unknowns:
            return f"more than {self.max_unknowns:,} unknowns would have come next"
        columns = num_unknowns_each(following, resolved.b.shape[1])
        needed = BYTES_PER_SQUARE * float(np.sum(columns.astype(float) ** 2))
        free = available_memory()
        if free is not None and needed > FREE_MEMORY * free:
            return (
                f"finer elements would have needed {needed / 2**30:,.1f} GiB of memory, of which "
                f"{free / 2**30:,.1f} are free"
            )
        return ""

    def _round(
        self,
        domain: Box,
        tree: Tree,
        is_wide: Bool[np.ndarray, "boxes d"],
        last: "_Round | None",
        checkpoint: Checkpoint,
        before: Before | None,
        at_least: float = 0.0,
    ) -> "_Round":
        """The solution on some boxes, and what it leaves there; `is_wide` is where to amplify.

        Tails need not be below `at_least`.
        """
        divided = self.curves.divide(tree)
        basis = ElementBasis(domain, divided.tree)
        guess = self._guess(basis, last, before)
        # There has to be something to give back before the work may be stopped.
        report = self._step_report if last is not None else (lambda step, size: None)
        # Newton's method need not go far where elements are still to be refined.
        tail = self.goal.tail if last is None else max(self.goal.tail, FAR * last.measured.worst)
        smoothed = is_wide[divided.boxes]
        may_be_lost = last is None or not last.is_lost
        solved = self._solved(
            basis, guess, smoothed, checkpoint, before, report, tail, may_be_lost=may_be_lost
        )
        b, amplified, steps, pivot, *_ = solved.found
        worst, changes = list[float](), list[float]()
        if last is not None:
            resolved = last.resolved
            steps += resolved.steps
            worst += resolved.worst
            changes += [*resolved.changes, difference(resolved.basis, resolved.b, basis, b)]
        if domain.shape is not None:
            # Of functions that count on a part of a box some are nearly free.
            pivot = solved.stability
        elif self.curves.levels:
            # Sides of which little is left have small ones.
            pivot = self._pivot(domain, tree, before) if last is None else resolved.smallest_pivot
        found = tails(basis, b, solved.missed.size)
        now = measured(divided, found, solved.missed, amplified)
        if last is not None:
            tail = self.goal.where(is_smooth=False)
            now = compared_with(now, tree, last.measured, last.tree, tail)
        tail = max(self.goal.where(is_smooth=not len(now.rough)), at_least)
        resolved = Resolved(
            basis,
            b,
            tail,
            [*worst, now.worst],
            changes,
            steps,
            solved.num_points,
            pivot,
            unevenness(basis, b),
            now.rough,
            tree.corners[now.is_left_out(tail)],
            float(np.sum(now.influences(tree, tail, self._order))),
            self._bound(float(np.linalg.norm(now.weights * now.missed.size)), solved),
        )
        return _Round(tree, resolved, now, is_lost=solved.is_lost or not may_be_lost)

    def _bound(self, missed: float, solved: "_Solved") -> float:
        """The residual over the stability, an upper bound of the error of a linear equation."""
        if not self.is_linear:
            return FAR_OFF * missed / solved.stability
        return max(missed, solved.residual) / solved.stability

    def _pivot(self, domain: Box, tree: Tree, before: Before | None) -> float:
        """The smallest pivot on whole boxes."""
        system = ElementSystem(self.problem, ElementBasis(domain, tree), before=before)
        b = np.zeros((len(system.basis), len(self.problem.fields)))
        return system.step(b, system.linearize(b))[1].smallest_pivot

    def _guess(
        self,
        basis: ElementBasis,
        last: "_Round | None",
        before: Before | None,
    ) -> Float[np.ndarray, "_terms _fields"]:
        """The last round's solution; in a new window the state that it begins with."""
        if last is not None:
            return carried(last.resolved.basis, last.resolved.b, basis)
        if before is not None and not self.is_linear:
            time_axis = self.problem.domain.names.index(str(self.problem.domain.time))
            return carried(*before, basis, held=(time_axis, before[0].domain.upper[time_axis]))
        return np.zeros((len(basis), len(self.problem.fields)))

    def _solved(
        self,
        basis: ElementBasis,
        b: Float[np.ndarray, "terms fields"],
        smoothed: Bool[np.ndarray, "elements d"],
        checkpoint: Checkpoint,
        before: Before | None,
        report: Callable[[int, float], None],
        tail: float,
        *,
        may_be_lost: bool,
    ) -> "_Solved":
        system = ElementSystem(self.problem, basis, before=before)
        num_points = sum(points.shape[0] * points.shape[1] for points in system.points)
        done = checkpoint.done()
        if done is not None:
            arrays, notes = done.arrays, done.notes
            missed = Missed(*(arrays[name] for name in MISSED))
            found = Found(arrays["b"], arrays["amplified"], notes["steps"], notes["pivot"], True)
            stability = notes.get("stability", math.inf)
            return _Solved(
                found, missed, num_points, notes["is_lost"], stability, notes.get("residual", 0.0)
            )
        enough = math.inf if self.is_linear else ENOUGH * tail
        check = lambda: self.run.check_time(0.0)
        solve = functools.partial(
            newton, system, smoothed=smoothed, enough=enough, report=report, check=check
        )
        found, is_lost = solve(b, patience=LOST if may_be_lost else MAX_STEPS), False
        if not found.has_ended and may_be_lost:
            gradual = solved_gradually(
                system, b, smoothed, enough=enough, report=report, check=check
            )
            is_lost = gradual is None
            more = gradual or solve(found.b, patience=MAX_STEPS)
            found = more._replace(steps=found.steps + more.steps)
        missed = system.missed(found.b)
        sizes = np.max(field_sizes(basis, found.b), axis=1)
        missed = dataclasses.replace(missed, size=missed.size / sizes)
        # On one side of a curve polynomials of small coefficients are free.
        stability = math.inf
        is_asked = self.problem.domain.shape is not None or not self.is_linear
        if is_asked and not self.curves.levels and found.solved is not None:
            stability = system.stability(found.solved)
        arrays = {name: getattr(missed, name) for name in MISSED}
        residual = 0.0 if found.solved is None or not self.is_linear else found.solved.residual
        arrays |= {"b": found.b, "amplified": found.amplified}
        notes = {"steps": found.steps, "pivot": found.pivot, "is_lost": is_lost}
        notes["residual"] = residual
        if math.isfinite(stability):
            notes["stability"] = stability
        checkpoint.finish(lambda: Saved(arrays, notes))
        return _Solved(found, missed, num_points, is_lost, stability, residual)

    def _step_report(self, step: int, size: float) -> None:
        self.run.report(Progress("Newton step on elements", step, MAX_STEPS, {"step": size}))


@dataclasses.dataclass
class _Extra:
    """Rounds after all elements are resolved, for an estimate of the error below `wanted`."""

    wanted: float
    tail: float = 0.0
    at_least: float = 0.0  # the tail at which all elements were resolved
    errors: list[float] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True, eq=False)
class _Round:
    """Boxes, and what the solution on them leaves.

    Newton's method `is_lost` where nothing helps it to come to an end.
    """

    tree: Tree
    resolved: Resolved
    measured: Measured
    is_lost: bool


@dataclasses.dataclass(frozen=True, eq=False)
class _Solved:
    found: "Found"
    missed: Missed
    num_points: int
    is_lost: bool
    stability: float
    residual: float  # of all rows, of a linear equation


class Found(NamedTuple):
    """Coefficients, by how much the rows were amplified there, the steps that led there, and
    whether they came to an end.
    """

    b: Float[np.ndarray, "terms fields"]
    amplified: Float[np.ndarray, "elements d"]
    steps: int
    pivot: float
    has_ended: bool
    solved: Solved | None = None


def solved_gradually(
    system: ElementSystem,
    b: Float[np.ndarray, "terms fields"],
    smoothed: Bool[np.ndarray, "elements d"],
    *,
    enough: float,
    report: Callable[[int, float], None],
    check: Callable[[], None] = lambda: None,
) -> Found | None:
    """Newton's method with ever more of the nonlinear terms, from none on; None if that fails."""
    steps, reached, growth = 0, 0.0, FIRST_FRACTION
    system.fraction = 0.0
    solve = functools.partial(newton, system, smoothed=smoothed, report=report, check=check)
    found = solve(np.zeros_like(b), enough=math.inf)
    while reached < 1 and growth > LEAST_GROWTH and steps < MOST_STEPS:
        system.fraction = min(1.0, reached + growth)
        leave = enough if system.fraction == 1 else max(enough, ON_THE_WAY)
        tried = solve(found.b, enough=leave)
        steps += tried.steps
        if tried.has_ended:
            found, reached, growth = tried, system.fraction, 2 * growth
        else:
            growth /= 4
    system.fraction = 1.0
    return found._replace(steps=steps) if reached == 1 else None


def newton(
    system: ElementSystem,
    b: Float[np.ndarray, "terms fields"],
    smoothed: Bool[np.ndarray, "elements d"],
    *,
    enough: float,
    report: Callable[[int, float], None],
    check: Callable[[], None] = lambda: None,
    patience: int = LOST,
) -> Found:
    """Gauss-Newton steps, shortened where the rows do not fall; one if `enough` is infinite.

    They end where the next one would be below `enough`: the residual is measured after all of
    them, and shows what they left. After those of `patience` they are given up if still large.
    """
    at = system.linearize(b, smoothed=smoothed)
    solved, last, is_anew = None, math.inf, True
    for step in range(1, MAX_STEPS + 1):
        if solved is None or is_anew:
            delta, solved = system.step(b, at, check)
        else:
            delta = system.step_by(b, at, solved)
        if enough == math.inf:
            return Found(b + delta, at.amplified, 1, solved.smallest_pivot, True, solved)
        value, fraction = system.sum_of_squares(b, at), 1.0
        for _ in range(HALVINGS):
            moved = b + fraction * delta
            new = system.linearize(moved, smoothed=smoothed)
            after = system.sum_of_squares(moved, new)
            if after <= value or after < 1e-24:
                break
            fraction *= 0.5
        size = fraction * relative_size(system.basis, delta, moved)
        b, at = moved, new
        following = size * (size if last == math.inf else max(size, size / last))
        if following < enough or (size > 0.3 * last and size < max(SLOW * enough, 1e-5)):
            return Found(b, at.amplified, step, solved.smallest_pivot, True, solved)
        if step >= patience and size > STILL_LARGE:
            break
        is_anew = size > (REUSED if is_anew else REUSED * last)
        last = size
        report(step, size)
    assert solved is not None
    return Found(b, at.amplified, step, solved.smallest_pivot, False, solved)


def _all_done(resolved: Resolved) -> str:
    is_done = resolved.worst[-1] <= resolved.tail
    return f"all elements below {resolved.tail:.0e}" if is_done else "narrowest elements"


def has_stalled(worst: Sequence[float], tail: float) -> bool:
    """Whether the last rounds did not lower the worst element."""
    patience = 2 if worst[-1] <= NEARLY * tail else PATIENCE
    if len(worst) <= patience:
        return False
    return min(worst[-patience:]) > STALLED * min(worst[:-patience])


def difference(coarse: ElementBasis, old: np.ndarray, fine: ElementBasis, new: np.ndarray) -> float:
    """Relative l2 between two rounds, each field by itself, at points in all elements."""
    tree = fine.tree
    points = fine.sample(NUM_COMPARED, seed=2)
    # A point stands for its share of the volume of its element.
    elements = tree.locate(points)
    counts = np.bincount(elements, minlength=len(tree.elements))
    volumes = np.prod(tree.corners[:, 1] - tree.corners[:, 0], axis=1)
    weights = np.sqrt(volumes / np.maximum(counts, 1))[elements, None]
    before, now = coarse.evaluate(points, old), fine.evaluate(points, new)
    sizes = np.linalg.norm(weights * now, axis=0)
    moved = np.linalg.norm(weights * (now - before), axis=0)
    return float(np.max(moved / np.maximum(sizes, 1e-300)))


# ---- Windows of time ----


def march(rounds: _Rounds, windows: int | str, checkpoint: Checkpoint) -> tuple[Resolved, int]:
    """Windows one after another, each with elements of its own, stacked to one tree."""
    domain = rounds.problem.domain
    axis = domain.names.index(str(domain.time))
    start, end = domain.lower[axis], domain.upper[axis]
    length = (end - start) * (FIRST_WINDOW if windows == "auto" else 1.0 / int(windows))
    found: list[Resolved] = []
    before: Before | None = None
    now = start
    while now < end - 1e-12 * (end - start):
        upper = min(now + length, end)
        if end - upper < 0.3 * length:
            upper = end
        slab = _between(domain, axis, now, upper)
        tree = first_tree(rounds.problem, slab, rounds.bounds.first, rounds.curves, before)
        own = checkpoint.within(f"window {now:.17g} {upper:.17g}")
        solved = rounds.resolve(tree, own, before, f"window {len(found) + 1}, elements", slab)
        found.append(solved)
        if solved.stopped:
            break
        before, now = (solved.basis, solved.b), upper
        size = solved.b.size
        if windows == "auto" and size > MANY_UNKNOWNS:
            length *= 0.5
        elif windows == "auto" and size < FEW_UNKNOWNS:
            length *= 2.0
    return _stacked(rounds, found, axis), len(found)


def _between(domain: Box, axis: int, lower: float, upper: float) -> Box:
    ends: dict[str, Any] = {
        name: (lower, upper) if index == axis else (domain.lower[index], domain.upper[index])
        for index, name in enumerate(domain.names)
    }
    return Box(periodic=domain.periodic, time=domain.time, **ends)


def _stacked(rounds: _Rounds, found: Sequence[Resolved], axis: int) -> Resolved:
    """All windows as one; the error of each is carried on by the next."""
    last, tree = found[-1], found[-1].basis.tree
    for each in found[-2::-1]:
        tree = each.basis.tree.stacked(tree, axis)
    domain = rounds.problem.domain
    domain = _between(domain, axis, domain.lower[axis], last.basis.domain.upper[axis])
    if domain.upper[axis] >= rounds.problem.domain.upper[axis]:
        domain = rounds.problem.domain
    worst = max(each.worst[-1] for each in found)
    unresolved = [each for each in found if not each.is_resolved]
    return Resolved(
        ElementBasis(domain, tree),
        np.concatenate([each.b for each in found]),
        max(each.tail for each in found),
        [worst],
        [sum(each.error for each in found)],
        sum(each.steps for each in found),
        sum(each.num_points for each in found),
        min(each.smallest_pivot for each in found),
        1.0,
        np.concatenate([each.rough for each in found]),
        np.concatenate([each.left_out for each in found]),
        sum(each.influence for each in found),
        max(each.unstable for each in found),
        (unresolved or [last])[0].stop,
        last.stopped,
    )


# ---- The solution ----


def _solution(
    setup: Setup,
    found: Resolved,
    method: Elements,
    rounds: _Rounds,
    windows: int,
) -> Solution:
    problem = checked(setup.problem)
    free = without_values(problem)
    model = polynomial_model(found.basis.domain, found.basis, found.b)
    reached = dataclasses.replace(problem, domain=model.domain)
    rel_l2, field_errors = relative_errors(reached, model)
    degrees = found.basis.tree.element_degrees
    count = int(np.sum(~found.basis.tree.is_void))
    is_free = found.smallest_pivot < (FREE if problem.domain.shape is None else FREE_ON_SHAPES)
    in_windows = f" in {windows} windows of time" if problem.domain.time else ""
    broken = [c for c in problem.conditions if isinstance(c, Break)]
    places = ", ".join(f"{c.axis} = {c.at:.6g}" for c in broken)
    notes = [NOT_DETERMINED] * is_free + [constants_are_free(free)] * bool(free)
    if found.is_undetermined and not is_free:
        notes.append(HARDLY_DETERMINED)
    if len(found.left_out):
        notes.append(_not_smooth(found))
    report = Report(
        how=f"least squares on {count} elements of degrees {shown(degrees)}{in_windows}, "
        f"{found.steps} steps" + (f", cut at {places}" if broken else ""),
        degree=int(np.max(degrees)),
        num_points=found.num_points,
        residual=found.worst[-1],
        rel_l2=rel_l2,
        stop=found.stop,
        seconds=setup.run.seconds,
        history={"worst element": found.worst, "difference between rounds": found.changes},
        field_errors=field_errors,
        error_estimate=math.inf if is_free else found.error,
        notes=notes,
        stopped=found.stopped,
        not_smooth=found.left_out.tolist(),
    )
    used = Elements(
        degree=rounds.bounds.first,
        highest_degree=rounds.bounds.highest,
        tail=found.tail,
        max_unknowns=rounds.max_unknowns,
        windows=windows if problem.domain.time else method.windows,
    )
    solution = Solution(model, problem.fields, {}, report, problem, method=used)
    report = dataclasses.replace(report, trials=[trial_figures(solution, setup.seed)])
    return dataclasses.replace(solution, report=report)


def _not_smooth(found: Resolved) -> str:
    """Where a solution is not smooth, and how far from there it is not resolved."""
    low, high = found.left_out.transpose(1, 0, 2)
    sizes = np.max(high - low, axis=1)
    touches = np.all((low <= found.rough[:, None]) & (found.rough[:, None] <= high), axis=2)
    # The error leaks from a point to others nearby, on larger elements.
    order = np.argsort(np.min(np.where(touches, sizes, np.inf), axis=1), kind="stable")
    apart = SAME_POINT * np.asarray(found.basis.domain.widths)
    places: list[np.ndarray] = []
    for point in found.rough[order]:
        if not any(np.all(np.abs(point - other) < apart) for other in places):
            places.append(point)
    shown = [f"({', '.join(f'{x:.4g}' for x in place + 0.0)})" for place in places]
    more = f" and {len(shown) - MOST_POINTS} more points" if len(shown) > MOST_POINTS else ""
    return (
        f"the solution is not smooth at {', '.join(shown[:MOST_POINTS])}{more}: about these points "
        f"elements of widths up to {np.max(sizes):.1g} count in l2 alone, and the residual leaves "
        "them out"
    )

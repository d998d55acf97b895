"""Right or honest: random problems are solved, refused or described, never wrongly certified."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pann
from benchmarks import harness, trust
from benchmarks.random_problems import ILL_POSED_PER_ROUND, ROUND, random_problem
from benchmarks.random_problems.case import Case, values
from benchmarks.trust import Outcome
from pann import Data, Dirichlet, Initial, Interface, Neumann, Robin
from pann.pde import Break, Periodic
from pann.pde.conditions import values_at

# Seconds that a problem may take, also on a slow machine that does other work.
LIMIT = 120.0

# ---- The generator: its solutions by finite differences ----

# Central differences at offsets -4 ... 4, of eighth order for first and second derivatives.
OFFSETS = np.arange(-4, 5)
STENCILS = {
    order: math.factorial(order)
    * np.linalg.solve(np.vander(OFFSETS, increasing=True).T.astype(float), np.eye(9)[order])
    for order in range(5)
}
# On either side of an interface, relative to the box.
ASIDE = 1e-7
# The ill-posed ones of three rounds are the last of each; before them, in every second, is an
# interface.
WELL_POSED = ROUND - ILL_POSED_PER_ROUND
ILL_POSED = [seed for seed in range(3 * ROUND) if seed % ROUND >= WELL_POSED]
OF_EACH_KIND = [*range(WELL_POSED), ROUND + WELL_POSED - 1, *ILL_POSED]
case_of = functools.cache(random_problem)


def differences(function, case: Case, points, order, number):
    """A derivative of one field, by steps well below the length over which it changes."""
    domain, order = case.problem.domain, np.asarray(order)
    steps = 0.08 * min(case.width, 1 / 6) * domain.widths
    lines = [OFFSETS if times else [0] for times in order]
    offsets = np.stack(np.meshgrid(*lines, indexing="ij"), axis=-1).reshape(-1, len(order))
    weights = np.prod(
        [STENCILS[times][4 + offsets[:, axis]] for axis, times in enumerate(order)], axis=0
    )
    shifted = points + (offsets * steps)[:, None]
    found = values(function, shifted.reshape(-1, len(order)), domain.names)[:, number]
    return weights @ found.reshape(len(offsets), -1) / np.prod(steps**order)


def residuals(function, case: Case):
    """Of the equation at points inside, relative to its source."""
    problem, rng = case.problem, np.random.default_rng(1)
    points = problem.domain.from_reference(rng.uniform(-0.8, 0.8, (20, problem.domain.dimension)))

    def evaluate(get):
        with jax.enable_x64(True):
            return np.stack(problem.evaluate(get, points, {}), axis=1)

    found = evaluate(
        lambda number, order: jnp.asarray(differences(function, case, points, order, number))
    )
    source = evaluate(lambda number, order: jnp.zeros(len(points)))
    return np.max(np.abs(found), axis=1) / (1 + np.sqrt(np.mean(source**2)))


def misfit(function, case: Case, condition):
    """How far a function is from a condition, relative to the size of what is compared."""
    problem = case.problem
    domain, number = problem.domain, problem.field_number(condition)
    unit = np.eye(domain.dimension, dtype=int)
    rng = np.random.default_rng(2)
    inside = domain.from_reference(rng.uniform(-1, 1, (20, domain.dimension)))
    value = lambda points: values(function, points, domain.names)[:, number]
    slope = lambda points, axis: differences(function, case, points, unit[axis], number)
    given = lambda what, points: np.asarray(values_at(what, domain, points))

    def moved_to(axis, place):
        points = inside.copy()
        points[:, axis] = place
        return points

    pairs = []
    match condition:
        case Dirichlet() | Neumann() | Robin():
            for axis, side in condition.faces.sides:
                index = domain.names.index(axis)
                points = moved_to(index, condition.faces.end(axis, side))
                outward = slope(points, index) * (1 if side == "upper" else -1)
                found = value(points)
                if isinstance(condition, Neumann):
                    found = given(condition.coefficient, points) * outward
                elif isinstance(condition, Robin):
                    found = condition.alpha * found + condition.beta * outward
                pairs.append((found, given(condition.value, points)))
        case Initial():
            time = domain.names.index(domain.time)
            points = moved_to(time, domain.lower[time])
            found = value(points) if condition.order == 0 else slope(points, time)
            pairs.append((found, given(condition.value, points)))
        case Data():
            pairs.append((value(condition.points), given(condition.values, condition.points)))
        case Periodic():
            index = domain.names.index(condition.axis)
            low, high = (moved_to(index, end[index]) for end in (domain.lower, domain.upper))
            pairs += [(value(low), value(high)), (slope(low, index), slope(high, index))]
        case Interface():
            index = domain.names.index(condition.axis)
            step, plane = ASIDE * domain.widths[index], condition.at
            below, further, above, beyond = (
                moved_to(index, plane + k * step) for k in (-1, -2, 1, 2)
            )
            pairs.append((value(above) - value(below), given(condition.jump, above)))
            flux = lambda far, near: (
                given(condition.coefficient, near) * (value(far) - value(near)) / step
            )
            jump = flux(beyond, above) + flux(further, below)
            pairs.append((jump, given(condition.flux_jump, above)))
        case Break():
            pass
    return max((np.max(np.abs(a - b)) / (1 + np.max(np.abs(b))) for a, b in pairs), default=0.0)


def test_each_kind_is_there():
    cases = [case_of(seed) for seed in OF_EACH_KIND]
    assert len({case.equation for case in cases if case.expected == "solvable"}) == WELL_POSED + 1
    assert all(case.expected != "solvable" for case in map(case_of, ILL_POSED))


@pytest.mark.parametrize("seed", OF_EACH_KIND)
def test_the_exact_solution_of_a_random_problem_solves_it(seed):
    case = case_of(seed)
    # Differences across a kink or a jump are wrong: few points lie so near to one.
    assert np.quantile(residuals(case.exact, case), 0.8) < 1e-4
    wrong = [misfit(case.exact, case, each) > 1e-5 for each in case.problem.conditions]
    assert sum(wrong) == (case.expected == "inconsistent")


@pytest.mark.parametrize(
    "seed", [seed for seed in ILL_POSED if case_of(seed).expected == "undetermined"]
)
def test_an_undetermined_problem_has_another_solution(seed):
    case = case_of(seed)
    domain = case.problem.domain
    rng = np.random.default_rng(0)
    points = domain.from_reference(rng.uniform(-1, 1, (100, domain.dimension)))

    assert np.quantile(residuals(case.other, case), 0.8) < 1e-4
    assert all(misfit(case.other, case, each) < 1e-5 for each in case.problem.conditions)
    apart = values(case.other, points, domain.names) - values(case.exact, points, domain.names)
    assert np.max(np.abs(apart)) > 0.1


def test_the_same_seed_gives_the_same_problem():
    for seed in range(0, ROUND, 7):
        one, two = random_problem(seed), random_problem(seed)
        assert (one.equation, one.conditions, one.tolerance) == (
            two.equation,
            two.conditions,
            two.tolerance,
        )
        assert one.problem.domain == two.problem.domain
        points = one.problem.domain.from_reference(np.zeros((1, one.problem.domain.dimension)))
        np.testing.assert_array_equal(
            values(one.exact, points, one.problem.domain.names),
            values(two.exact, points, two.problem.domain.names),
        )


# ---- The judge ----

NOTE = "The equation and its conditions do not determine a constant."
SOLVABLE, UNDETERMINED, INCONSISTENT = (
    next(case for case in map(case_of, [0, *ILL_POSED]) if case.expected == expected)
    for expected in ("solvable", "undetermined", "inconsistent")
)


@pytest.mark.parametrize(
    "case, outcome, tolerance, expected",
    [
        (SOLVABLE, Outcome("met", 1.0, error=1e-7, estimate=1e-6), 1e-6, "right"),
        (SOLVABLE, Outcome("met", 1.0, error=2e-6, estimate=1e-6), 1e-6, "certified wrong"),
        (SOLVABLE, Outcome("met", 1.0, error=math.nan, estimate=1e-6), 1e-6, "certified wrong"),
        (SOLVABLE, Outcome("not met", 1.0, error=1e-2, estimate=1e-2), 1e-6, "honest"),
        (SOLVABLE, Outcome("not met", 1.0, error=1e-2, estimate=4e-3), 1e-6, "estimate too small"),
        (SOLVABLE, Outcome("not met", 1.0, error=1e-7, estimate=1e-2), 1e-6, "right"),
        (SOLVABLE, Outcome("resolved", 1.0, error=2e-3), None, "certified wrong"),
        (SOLVABLE, Outcome("not resolved", 1.0, error=2e-3), None, "honest"),
        (SOLVABLE, Outcome("ValueError", 1.0), 1e-6, "refused though solvable"),
        (SOLVABLE, Outcome("not met", 41.0, error=1e-2, estimate=1.0), 1e-6, "hang"),
        (SOLVABLE, Outcome("met, ends early", 1.0, error=0.0), 1e-6, "certified wrong"),
        (SOLVABLE, Outcome("not met, ends early", 1.0, error=0.0), 1e-6, "honest"),
        (SOLVABLE, Outcome("met", 1.0, message=NOTE), 1e-6, "refused though solvable"),
        (SOLVABLE, Outcome("crash", 1.0), 1e-6, "raw exception"),
        (UNDETERMINED, Outcome("ValueError", 1.0), 1e-6, "refused"),
        (UNDETERMINED, Outcome("ValueError (raw)", 1.0), 1e-6, "raw exception"),
        (UNDETERMINED, Outcome("not met", 1.0, message=NOTE), 1e-6, "described"),
        (UNDETERMINED, Outcome("not met", 1.0), 1e-6, "silent"),
        (INCONSISTENT, Outcome("not met", 1.0), 1e-6, "described"),
        (INCONSISTENT, Outcome("met", 1.0), 1e-6, "silent"),
    ],
)
def test_a_verdict_is_what_an_outcome_deserves(case, outcome, tolerance, expected):
    assert trust.verdict(case, outcome, tolerance, seconds=20.0) == expected


def test_an_exception_of_a_library_below_is_no_refusal(monkeypatch):
    monkeypatch.setattr(pann, "solve", lambda *_, **__: np.linalg.inv(np.zeros((2, 2))))
    assert trust.attempt(SOLVABLE, 1e-6, 1.0).said == "LinAlgError (raw)"
    monkeypatch.setattr(pann, "solve", lambda *_, **__: np.zeros(2) + np.zeros(3))
    assert trust.attempt(SOLVABLE, 1e-6, 1.0).said == "ValueError (raw)"
    monkeypatch.setattr(pann, "solve", lambda *_, **__: pann.Box(x=(1, 0)))
    assert trust.attempt(SOLVABLE, 1e-6, 1.0).said == "ValueError"


def test_a_summary_counts_both_calls_of_each_case():
    row = {"axes": "x", "equation": "heat", "solution": "peak", "expected": "solvable"}
    rows = [
        row | {"verdict": "right", "plain verdict": "honest"},
        row | {"verdict": "hang", "plain verdict": "hang", "equation": "wave"},
    ]

    kinds = {each["kind"]: each for each in trust.summary(rows)}

    assert (kinds["all"]["cases"], kinds["all"]["right"], kinds["all"]["hang"]) == (2, 1, 2)
    assert (kinds["equation: heat"]["honest"], kinds["equation: wave"]["honest"]) == (1, 0)


def test_a_killed_run_goes_on_with_the_rows_that_are_missing(tmp_path):
    harness.run("trust", "title", iter([{"seed": 3}, {"seed": 0}]), tmp_path)

    left = harness.missing("trust", ["0", "1", "2", "3"], tmp_path, trust.KEYS)

    assert left == ["1", "2"]
    with pytest.raises(SystemExit, match="leave out --resume"):
        harness.missing("trust", ["0", "3"], tmp_path, trust.KEYS)


@pytest.mark.slow
def test_a_process_that_hangs_is_killed_and_replaced(monkeypatch):
    worker, seed = trust.Worker(), 41
    try:
        with monkeypatch.context() as patch:
            patch.setattr(trust, "longest", lambda seconds: -4.9)
            assert worker.attempt(seed, True, 20.0).said == "hang"
        assert worker.attempt(seed, True, LIMIT).said == "met"
    finally:
        worker.stop()


# ---- Small problems ----

# Chosen for their speed, no two of one equation, kind of solution and kind of conditions: to a
# tolerance, and without options.
TO_TOLERANCE = (2, 8, 11, 12, 23, 26, 30, 38, 41, 42, 68, 98, 101, 131, 158, 161, 222, 311)
PLAIN = (20, 21, 22, 25, 58, 113, 115, 118, 203, 244)


@pytest.mark.parametrize("seed", TO_TOLERANCE)
def test_what_is_said_to_be_met_is_met(seed):
    case = random_problem(seed)
    outcome = trust.attempt(case, case.tolerance, seconds=LIMIT)
    assert trust.verdict(case, outcome, case.tolerance, seconds=LIMIT) in trust.SUCCESSES


@pytest.mark.parametrize("seed", PLAIN)
def test_what_is_said_to_be_resolved_is_resolved(seed):
    case = random_problem(seed)
    outcome = trust.attempt(case, None, seconds=LIMIT)
    assert trust.verdict(case, outcome, None, seconds=LIMIT) in trust.SUCCESSES

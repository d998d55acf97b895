"""Polynomials on elements: the tree, what neighbors share, sharp solutions, what is refused."""

import dataclasses
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pann
from pann.basis import ElementBasis, Tree
from pann.io import FileError
from pann.numerics.tree_least_squares import Link, Part, solve
from pann.pde.checks import checked
from pann.solvers.elements.method import first_tree, newton, solved_gradually
from pann.solvers.elements.refine import Cut, carried, cut, tails
from pann.solvers.elements.rows import ElementSystem, adapted, neighbors

LINE = pann.Box(x=(0.0, 1.0))
SQUARE = pann.Box(x=(-1.0, 1.0), y=(0.0, 2.0))


def uneven(degrees=(5, 4)):
    """Elements of many sizes on the square, with neighbors that do not match."""
    tree = Tree.whole(SQUARE.lower, SQUARE.upper, degrees)
    tree = tree.cut({0: (0, 0.2)})
    tree = tree.cut({0: (1, 0.5)})
    return cut(tree, {0: [Cut(0, 0.7), Cut(1, 1.1)]})


# ---- Least squares on a tree ----


def random_problem(rng, parts, ties, num_columns=7):
    """Parts with rows, and links between some of them, also as one dense system."""
    total = len(parts) * num_columns
    rows, right, links, of_parts = [], [], {}, [{} for _ in parts]
    matrices = [rng.normal(size=(num_columns + 3, num_columns)) for _ in parts]
    sides = [rng.normal(size=num_columns + 3) for _ in parts]
    for k, (matrix, side) in enumerate(zip(matrices, sides, strict=True)):
        whole = np.zeros((len(matrix), total))
        whole[:, k * num_columns : (k + 1) * num_columns] = matrix
        rows.append(whole)
        right.append(side)
    for number, members in enumerate(ties):
        side, whole = rng.normal(size=2), np.zeros((2, total))
        for k in members:
            own = rng.normal(size=(2, num_columns))
            own[:, :3] = 0.0  # no link sees the first columns
            of_parts[k][number] = own
            whole[:, k * num_columns : (k + 1) * num_columns] = own
        links[number] = Link(len(members), side)
        rows.append(whole)
        right.append(side)
    made = {
        name: Part(matrix, side, own)
        for name, matrix, side, own in zip(parts, matrices, sides, of_parts, strict=True)
    }
    return made, links, np.concatenate(rows), np.concatenate(right)


@pytest.mark.parametrize(
    "ties", [[(0, 1), (2, 3), (1, 2)], [(0, 1, 2, 3), (0, 3), (1, 3)], [(0, 3), (1, 2), (0, 1, 2)]]
)
def test_the_tree_gives_the_least_squares_solution(rng, ties):
    parts, links, rows, right = random_problem(rng, [0, 1, 2, 3], ties)
    found = solve(parts, links, [(0, 1, 4), (2, 3, 5), (4, 5, 6)])
    expected, *_ = np.linalg.lstsq(rows, right)
    assert np.allclose(np.concatenate(found.columns), expected, atol=1e-12)
    again = found.inverse(np.split(rows.T @ right, 4))
    assert np.allclose(np.concatenate(again), expected, atol=1e-10)
    assert found.residual == pytest.approx(np.linalg.norm(rows @ expected - right))


def test_a_part_alone_is_a_plain_least_squares_problem(rng):
    rows, right = rng.normal(size=(9, 4)), rng.normal(size=9)
    found = solve({0: Part(rows, right, {})}, {}, [])
    assert np.allclose(found.columns[0], np.linalg.lstsq(rows, right)[0])


def test_a_free_direction_shows_in_the_pivots(rng):
    rows = rng.normal(size=(9, 4))
    rows[:, 3] = rows[:, 1]
    found = solve({0: Part(rows, rng.normal(size=9), {})}, {}, [])
    assert found.smallest_pivot < 1e-14
    assert np.all(np.isfinite(found.columns[0]))


def test_a_free_direction_is_no_part_of_the_inverse(rng):
    rows = rng.normal(size=(9, 4))
    rows[:, 3] = rows[:, 1]
    right = rows.T @ rows @ rng.normal(size=4)
    (found,) = solve({0: Part(rows, np.zeros(9), {})}, {}, []).inverse([right])
    assert np.allclose(rows.T @ rows @ found, right)


@pytest.mark.parametrize(
    "merges", [[(0, 1, 4), (2, 3, 5), (4, 5, 6)], [(0, 2, 4), (4, 3, 5), (1, 5, 6)]]
)
def test_the_factors_give_the_inverse(rng, merges):
    parts, links, rows, _ = random_problem(rng, [0, 1, 2, 3], [(0, 1), (2, 3), (0, 1, 2, 3)])
    values = rng.normal(size=(4, 7))
    found = solve(parts, links, merges).inverse(list(values))
    expected = np.linalg.solve(rows.T @ rows, values.ravel())
    assert np.allclose(np.concatenate(found), expected, rtol=1e-9)


def test_elimination_ends_where_it_is_told_to(rng):
    parts, links, *_ = random_problem(rng, [0, 1, 2, 3], [(0, 1), (2, 3)])
    left = iter(range(5))

    def check():
        if next(left, None) is None:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        solve(parts, links, [(0, 1, 4), (2, 3, 5), (4, 5, 6)], check)


# ---- Elements and their functions ----


def test_elements_fill_the_box_and_each_point_has_its_own(rng):
    tree = uneven()
    low, high = tree.corners[:, 0], tree.corners[:, 1]
    assert np.sum(np.prod(high - low, axis=1)) == pytest.approx(4.0)
    points = rng.uniform(SQUARE.lower, SQUARE.upper, (500, 2))
    own = tree.locate(points)
    assert np.all((low[own] <= points) & (points <= high[own]))


def test_neighbors_share_all_of_the_borders_inside():
    tree = uneven()
    corners = tree.corners
    shared = np.zeros((len(corners), 2, 2))  # by element, axis and side
    for axis, low, high in neighbors(tree):
        other = 1 - axis
        length = min(corners[low, 1, other], corners[high, 1, other]) - max(
            corners[low, 0, other], corners[high, 0, other]
        )
        shared[low, axis, 1] += length
        shared[high, axis, 0] += length
    for element, (low, high) in enumerate(corners):
        for axis in range(2):
            edge = high[1 - axis] - low[1 - axis]
            inside = low[axis] > SQUARE.lower[axis], high[axis] < SQUARE.upper[axis]
            assert np.allclose(shared[element, axis], edge * np.array(inside))


def test_sums_are_those_by_tables_and_derivatives_those_of_polynomials(rng):
    basis = ElementBasis(SQUARE, uneven())
    points = rng.uniform(SQUARE.lower, SQUARE.upper, (60, 2))
    b = rng.normal(size=(len(basis), 2))
    for order in ((0, 0), (1, 2)):
        assert np.allclose(basis.evaluate(points, b, order), basis.table(points, order) @ b)
    plain = pann.make_basis(SQUARE, 4)
    exact = rng.normal(size=len(plain))
    whole = ElementBasis(SQUARE, Tree.whole(SQUARE.lower, SQUARE.upper, (4, 4)))
    coefficients = np.linalg.lstsq(whole.table(points), plain.table(points) @ exact)[0]
    inherited = carried(whole, coefficients[:, None], ElementBasis(SQUARE, uneven((4, 4))))
    moved = ElementBasis(SQUARE, uneven((4, 4))).evaluate(points, inherited[:, 0], (1, 1))
    assert np.allclose(moved, plain.table(points, (1, 1)) @ exact)


@pytest.mark.parametrize("orders", [(2, 2), (0, 1), (4, 2)])
def test_each_border_sees_few_functions_and_means_see_one(orders):
    functions = adapted((10, 9), orders)
    for change, back in zip(functions.change, functions.back, strict=True):
        assert np.allclose(change @ back, np.eye(len(change)), atol=1e-10)
        assert np.allclose(change[0, 1:], 0.0, atol=1e-10)
    for degree, order, change in zip((10, 9), orders, functions.change, strict=True):
        powers = np.polynomial.legendre.Legendre
        for times in range(order):
            at_end = [powers.basis(k).deriv(times)(1.0) for k in range(degree + 1)] @ change
            assert np.sum(np.abs(at_end) > 1e-8) == 1


def test_polynomials_are_found_on_elements_that_do_not_match():
    exact = lambda x, y: x**3 * y - 2 * x * y**2 + y**4
    problem = checked(
        pann.Problem.manufactured(SQUARE, lambda u, x, y: u.laplacian + x * u.x, exact)
    )
    basis = ElementBasis(SQUARE, uneven((6, 5)))
    system = ElementSystem(problem, basis)
    zero = np.zeros((len(basis), 1))
    with jax.enable_x64(True):
        b, _ = system.step(zero, system.linearize(zero))
    points = np.random.default_rng(0).uniform(SQUARE.lower, SQUARE.upper, (200, 2))
    assert np.allclose(basis.evaluate(points, b[:, 0]), exact(*points.T), atol=1e-10)


def test_tails_tell_a_rough_axis_from_a_smooth_one():
    basis = ElementBasis(SQUARE, Tree.whole(SQUARE.lower, SQUARE.upper, (12, 12)))
    b = np.outer(0.8 ** np.arange(13), 0.1 ** np.arange(13)).reshape(-1, 1)
    found = tails(basis, b)
    assert found.tail[0, 0] > 1e-2
    assert found.tail[0, 1] < 1e-9
    assert 0.5 < found.decay[0, 0] < 0.9
    assert found.decay[0, 1] < 0.2


def test_what_is_given_is_resolved_before_anything_is_solved():
    peak = lambda x, y: jnp.exp(-(((x - 0.3) / 0.003) ** 2) - ((y - 1.2) / 0.003) ** 2)
    walls = [pann.Dirichlet(SQUARE.boundary)]
    problem = checked(pann.Problem(SQUARE, lambda u, x, y: u.laplacian - peak(x, y), walls))
    tree = first_tree(problem, SQUARE, 12)
    own = tree.corners[tree.locate(np.array([[0.3, 1.2]]))[0]]
    assert np.all(own[1] - own[0] < 0.04)
    assert len(tree.elements) < 80


# ---- Solutions ----


def layer(eps):
    exact = lambda x: x - (np.exp((x - 1) / eps) - np.exp(-1 / eps)) / (1 - np.exp(-1 / eps))
    residual = lambda u, x: -eps * u.xx + u.x - 1.0
    return pann.Problem(LINE, residual, [pann.Dirichlet(LINE.boundary)]), exact


@pytest.mark.parametrize("eps", [1e-3, 1e-6])
def test_a_layer_of_any_width(eps):
    problem, exact = layer(eps)
    solution = pann.solve(problem, pann.Elements(), progress=False)
    x = np.concatenate([np.linspace(0, 1, 500), 1 - eps * np.linspace(0, 30, 500)])
    error = np.max(np.abs(solution(x=x) - exact(x)))
    assert error < 1e-10
    assert solution.report.resolved
    assert error <= solution.report.error_estimate < 1e-9
    assert solution.model.num_terms < 400


def test_by_default_elements_take_over_from_one_polynomial():
    problem, exact = layer(1e-5)
    solution = pann.solve(problem, progress=False)
    x = 1 - 1e-5 * np.linspace(0, 30, 500)
    assert np.max(np.abs(solution(x=x) - exact(x))) < 1e-9
    assert isinstance(solution.method, pann.Elements)
    assert solution.report.resolved
    again = pann.solve(problem, solution.method, progress=False)
    assert np.allclose(again(x=x), solution(x=x), atol=1e-11)


def test_a_tolerance_is_met_on_elements():
    problem, exact = layer(1e-5)
    solution = pann.solve(problem, tolerance=1e-6, progress=False)
    x = np.concatenate([np.linspace(0, 1, 500), 1 - 1e-5 * np.linspace(0, 30, 500)])
    assert solution.report.met
    assert np.max(np.abs(solution(x=x) - exact(x))) < 1e-6


def test_two_layers_of_a_nonlinear_equation():
    # u = -eps log(cosh(x / eps) / cosh(1 / eps)), by the substitution of Hopf and Cole.
    eps, box = 0.01, pann.Box(x=(-1.0, 1.0))
    problem = pann.Problem(
        box, lambda u, x: u.x**2 - eps * u.xx - 1, [pann.Dirichlet(box.boundary)]
    )
    solution = pann.solve(problem, pann.Elements(), progress=False)
    x = np.concatenate([np.linspace(-1, 1, 400), 0.05 * np.linspace(-1, 1, 400)])
    log_cosh = lambda z: np.logaddexp(z, -z)
    exact = -eps * (log_cosh(x / eps) - log_cosh(1 / eps))
    assert np.max(np.abs(solution(x=x) - exact)) < 1e-10
    assert solution.report.resolved


def test_more_and_more_of_the_nonlinear_terms_lead_to_the_same_solution():
    # u' + 100 e^u = C, so that v = e^-u has v' = 100 - C v; u(1) = 3 gives C = 100 e^3.
    problem = pann.Problem(
        LINE,
        lambda u: u.xx + 100 * jnp.exp(u.value) * u.x,
        [pann.Dirichlet(LINE.face("x", "lower")), pann.Dirichlet(LINE.face("x", "upper"), 3.0)],
    )
    tree = cut(Tree.whole([0.0], [1.0], [20]), {0: [Cut(0, 0.5**k) for k in range(1, 14)]})
    system = ElementSystem(checked(problem), ElementBasis(LINE, tree))
    zero, whole = np.zeros((len(system.basis), 1)), np.zeros((len(tree.elements), 1), bool)
    options = {"enough": 1e-9, "report": lambda step, size: None}
    assert not newton(system, zero, whole, patience=2, **options).has_ended
    found = solved_gradually(system, zero, whole, **options)
    x = np.concatenate([np.linspace(0, 1, 200), np.linspace(0, 0.01, 200)])
    exact = -np.log(np.exp(-3) + (1 - np.exp(-3)) * np.exp(-100 * np.exp(3) * x))
    assert np.max(np.abs(system.basis.evaluate(x[:, None], found.b)[:, 0] - exact)) < 1e-6
    # From there on the factors of one step serve for another.
    at = system.linearize(found.b)
    step, solved = system.step(found.b, at)
    assert np.allclose(system.step_by(found.b, at, solved), step, atol=1e-9)


EXACT = {
    "neumann and robin": (
        lambda u, x: u.xx + 100 * jnp.sin(10 * x),
        [
            pann.Neumann(LINE.face("x", "lower"), -10.0),
            pann.Robin(
                LINE.face("x", "upper"), 2.0, 1.0, lambda x: 2 * np.sin(10) + 10 * np.cos(10)
            ),
        ],
        lambda x: np.sin(10 * x),
    ),
    "a beam": (
        lambda u, x: u.xxxx - 10_000 * jnp.sin(10 * x),
        [
            pann.Dirichlet(LINE.boundary, lambda x: np.sin(10 * x)),
            pann.Neumann(LINE.face("x", "lower"), -10.0),
            pann.Neumann(LINE.face("x", "upper"), lambda x: 10 * np.cos(10)),
        ],
        lambda x: np.sin(10 * x),
    ),
    "an interface": (
        lambda u, x: jnp.where(x < 0.3, 1.0, 10.0) * u.xx,
        [
            pann.Dirichlet(LINE.face("x", "lower"), 0.0),
            pann.Dirichlet(LINE.face("x", "upper"), 1.0),
            pann.Interface("x", 0.3, lambda x: jnp.where(x < 0.3, 1.0, 10.0)),
        ],
        # The flux is 1 / (0.3 / 1 + 0.7 / 10) everywhere.
        lambda x: np.where(x < 0.3, x, 0.3 + 0.1 * (x - 0.3)) / 0.37,
    ),
}


@pytest.mark.parametrize("name", EXACT)
def test_conditions_of_all_kinds(name):
    residual, conditions, exact = EXACT[name]
    problem = pann.Problem(LINE, residual, conditions)
    solution = pann.solve(problem, pann.Elements(degree=10, highest_degree=12), progress=False)
    x = np.linspace(0, 1, 201)
    assert np.max(np.abs(solution(x=x) - exact(x))) < 1e-8


def test_a_ring_and_a_mean():
    ring = pann.Box(x=(0.0, 2 * np.pi), periodic="x")
    source = lambda x: jnp.exp(jnp.sin(x)) * (jnp.cos(x) ** 2 - jnp.sin(x))
    problem = pann.Problem(ring, lambda u, x: u.xx - source(x), [pann.Integral(0.0)])
    solution = pann.solve(problem, pann.Elements(degree=8, highest_degree=10), progress=False)
    x = np.linspace(0, 2 * np.pi, 300, endpoint=False)
    mean = np.mean(np.exp(np.sin(x)))
    assert np.max(np.abs(solution(x=x) - np.exp(np.sin(x)) + mean)) < 1e-8


def test_a_flow_has_its_pressure():
    box = pann.Box(x=(0.0, 1.0), y=(0.0, 0.5))
    # Kovasznay's flow at Re = 40.
    re = 40.0
    k = re / 2 - np.sqrt(re**2 / 4 + 4 * np.pi**2)
    u = lambda x, y: 1 - jnp.exp(k * x) * jnp.cos(2 * np.pi * y)
    v = lambda x, y: k / (2 * np.pi) * jnp.exp(k * x) * jnp.sin(2 * np.pi * y)
    residual = lambda u, v, p: (
        u * u.x + v * u.y + p.x - u.laplacian / re,
        u * v.x + v * v.y + p.y - v.laplacian / re,
        u.x + v.y,
    )
    problem = pann.Problem(
        box,
        residual,
        [
            pann.Dirichlet(box.boundary, u, "u"),
            pann.Dirichlet(box.boundary, v, "v"),
            pann.Integral(0.0, field="p"),
        ],
        fields=("u", "v", "p"),
    )
    solution = pann.solve(
        problem, pann.Elements(degree=9, highest_degree=12, tail=1e-4), progress=False
    )
    x, y = np.random.default_rng(0).uniform(size=(2, 300)) * np.array([[1.0], [0.5]])
    found = solution(x=x, y=y)
    assert np.max(np.abs(found[0] - u(x, y))) < 1e-3
    assert np.max(np.abs(found[1] - v(x, y))) < 1e-3
    p = -0.5 * np.exp(2 * k * x)
    mean = -0.25 * (np.exp(2 * k) - 1) / k
    assert np.max(np.abs(found[2] - (p - mean))) < 1e-2


def test_windows_of_time_pass_on_a_wave():
    box = pann.Box(x=(0.0, 1.0), t=(0.0, 0.5), time="t")
    problem = pann.Problem(
        box,
        lambda u, x, t: u.tt - u.xx,
        [
            pann.Dirichlet(box.boundary),
            pann.Initial(lambda x: jnp.sin(np.pi * x)),
            pann.Initial(0.0, order=1),
        ],
    )
    solution = pann.solve(problem, pann.Elements(degree=8, windows=2), progress=False)
    x, t = np.random.default_rng(0).uniform(size=(2, 300)) * np.array([[1.0], [0.5]])
    assert np.max(np.abs(solution(x=x, t=t) - np.sin(np.pi * x) * np.cos(np.pi * t))) < 1e-7
    assert "2 windows of time" in solution.report.how


def test_the_same_after_a_stop(tmp_path):
    problem, _ = layer(1e-4)
    whole = pann.solve(problem, pann.Elements(), progress=False)
    few = pann.Elements()

    def stop(progress):
        if progress.what.startswith("elements") and progress.step == 2:
            raise KeyboardInterrupt

    first = pann.solve(problem, few, out=tmp_path, progress=stop)
    assert first.report.stopped == "Ctrl-C"
    assert not first.report.resolved
    assert "finer elements" in first.report.stop
    rest = pann.solve(problem, few, out=tmp_path, resume=True, progress=False)
    x = np.linspace(0, 1, 100)
    assert np.array_equal(rest(x=x), whole(x=x))


def test_what_is_not_resolved_says_so():
    problem, exact = layer(1e-6)
    solution = pann.solve(problem, pann.Elements(max_unknowns=100), progress=False)
    assert not solution.report.resolved
    assert "more than 100 unknowns" in solution.report.stop
    assert "NOT RESOLVED" in str(solution)
    x = 1 - 1e-6 * np.linspace(0, 30, 500)
    assert np.max(np.abs(solution(x=x) - exact(x))) > 1e-3


def test_a_file_holds_the_elements(tmp_path):
    problem, _ = layer(1e-3)
    solution = pann.solve(problem, pann.Elements(), progress=False)
    solution.save(tmp_path / "layer.pann")
    loaded = pann.load(tmp_path / "layer.pann")
    x = np.linspace(0, 1, 50)
    assert np.array_equal(loaded(x=x), solution(x=x))
    assert loaded.method == solution.method


@pytest.mark.parametrize(
    "change, words",
    [
        ({"axis": [0, -1, -1, -1, -1]}, "no tree"),
        ({"axis": [5, 0, -1, -1, -1]}, "no tree"),
        ({"children": [[1, 2], [0, 4], [-1, -1], [-1, -1], [-1, -1]]}, "no tree"),
        ({"at": [3.0, 0.2, 0.0, 0.0, 0.0]}, "outside of the node"),
        ({"degrees": [[3], [3], [-2], [3], [3]]}, "degrees of elements"),
    ],
)
def test_trees_that_are_none_are_refused(change, words):
    tree = Tree.whole((0.0,), (1.0,), (3,)).cut({0: (0, 0.5)}).cut({0: (0, 0.2)})
    tree.check()
    arrays = {name: np.array(value) for name, value in change.items()}
    with pytest.raises(ValueError, match=words):
        dataclasses.replace(tree, **arrays).check()
    assert issubclass(FileError, Exception)


OPEN = {
    "no conditions at one end": [pann.Dirichlet(LINE.face("x", "lower"))],
    "none": [pann.Interface("x", 0.5)],
}


@pytest.mark.parametrize("name", OPEN)
def test_what_conditions_leave_open_is_not_resolved(name):
    problem = pann.Problem(LINE, lambda u, x: u.xx - jnp.cos(np.pi * x), OPEN[name])
    solution = pann.solve(problem, pann.Elements(), progress=False)
    assert not solution.report.resolved
    assert "conditions are missing" in solution.report.notes[0]


def test_a_constant_that_is_free_has_mean_zero():
    problem = pann.Problem(
        LINE, lambda u, x: u.xx - jnp.cos(np.pi * x), [pann.Neumann(LINE.boundary)]
    )
    solution = pann.solve(problem, pann.Elements(), progress=False)
    assert solution.report.resolved
    assert "mean zero" in solution.report.notes[0]
    x = np.linspace(0, 1, 11)
    np.testing.assert_allclose(solution(x=x), -np.cos(np.pi * x) / np.pi**2, atol=1e-10)


def corner(x, y):
    """r^(2/3) sin(2 angle / 3), of a corner of 3 pi / 2 that the square does not have."""
    angle = jnp.arctan2(y, x)
    return (x**2 + y**2 + 1e-300) ** (1 / 3) * jnp.sin(2 / 3 * angle)


def test_elements_are_graded_to_a_point_where_the_solution_is_not_smooth():
    """Harmonic with values like r^(2/3) on the boundary: the error in l2 is that of the tail."""
    square = pann.Box(x=(0, 1), y=(0, 1))
    problem = pann.Problem(square, lambda u: u.laplacian, [pann.Dirichlet(square.boundary, corner)])
    solution = pann.solve(problem, pann.Elements(), progress=False)
    assert solution.report.resolved
    (note,) = solution.report.notes
    assert "not smooth at (0, 0)" in note
    assert solution.report.not_smooth
    x, y = np.random.default_rng(0).uniform(0, 1, (2, 2_000))
    error = solution(x=x, y=y) - corner(x, y)
    assert np.sqrt(np.mean(error**2)) < 1e-6
    assert np.sqrt(np.mean(error**2)) < solution.report.error_estimate


SQUARE_1 = pann.Box(x=(0, 1), y=(0, 1))


def test_layers_of_two_widths_are_graded_across_and_where_they_meet():
    """u = h(x) h(y) and v likewise, -eps h'' + h = 1: as many elements as the layers ask for."""

    def h(library, x, eps):
        root = np.sqrt(eps)
        ends = library.exp(-x / root) + library.exp((x - 1) / root)
        return 1 - ends / (1 + np.exp(-1 / root))

    def residual(u, v, x, y):
        found = []
        for own, eps, field, other in ((u, 1e-5, u - v / 2, 1e-3), (v, 1e-3, v - u / 2, 1e-5)):
            a, b = h(jnp, x, eps), h(jnp, y, eps)
            source = a + b - a * b - h(jnp, x, other) * h(jnp, y, other) / 2
            found.append(-eps * own.laplacian + field - source)
        return found

    names = ("u", "v")
    conditions = [pann.Dirichlet(SQUARE_1.boundary, field=name) for name in names]
    problem = pann.Problem(SQUARE_1, residual, conditions, fields=names)
    solution = pann.solve(problem, pann.Elements(tail=1e-4), progress=False)
    x, y = np.random.default_rng(0).uniform(0, 1, (2, 2_000)) ** 3
    for found, eps in zip(solution(x=x, y=y), (1e-5, 1e-3), strict=True):
        assert np.max(np.abs(found - h(np, x, eps) * h(np, y, eps))) < 1e-3
    assert len(solution.model.basis.tree.elements) < 200


def cone(x, y):
    return jnp.sqrt(x**2 + y**2)


def test_the_estimate_of_the_error_asks_for_finer_elements_at_a_point():
    """All elements are soon below the tail in l2; what the corner does elsewhere is not known."""
    problem = pann.Problem(
        SQUARE_1,
        lambda u, x, y: u.laplacian - 1 / cone(x, y),
        [pann.Dirichlet(SQUARE_1.boundary, cone)],
    )
    solution = pann.solve(problem, pann.Elements(), progress=False)
    assert solution.report.resolved
    assert solution.report.error_estimate < 1e-6
    x, y = np.random.default_rng(0).uniform(0, 1, (2, 2_000))
    assert np.max(np.abs(solution(x=x, y=y) - np.hypot(x, y))) < 1e-8


def test_a_line_where_the_solution_is_singular_is_approached_by_quarters():
    power = 0.6
    problem = pann.Problem(
        SQUARE_1,
        lambda u, x, y: u.laplacian - power * (power - 1) * x ** (power - 2),
        [pann.Dirichlet(SQUARE_1.boundary, lambda x, y: x**power + 0 * y)],
    )
    solution = pann.solve(problem, pann.Elements(degree=6, tail=5e-2), progress=False)
    tree = solution.model.basis.tree
    widths = tree.corners[:, 1] - tree.corners[:, 0]
    assert np.min(widths[:, 0]) < 0.1 * np.min(widths[:, 1])
    x, y = np.random.default_rng(0).uniform(0, 1, (2, 2_000))
    assert np.max(np.abs(solution(x=x, y=y) - x**power)) < 3e-4


def test_a_front_that_nothing_holds_is_not_resolved():
    """The place of the front changes the residual by exp(-d / eps): any place is as good."""
    eps = 0.02
    line = pann.Box(x=(-1, 1))
    problem = pann.Problem(
        line,
        lambda u: eps**2 * u.xx + u - u**3,
        [pann.Dirichlet(line.boundary, lambda x: jnp.tanh((x - 0.2) / (np.sqrt(2) * eps)))],
    )
    solution = pann.solve(problem, pann.Elements(tail=1e-6), progress=False)
    assert not solution.report.resolved
    assert "hardly determines" in solution.report.notes[0]


def test_time_is_kept_in_the_first_round_in_space():
    cube = pann.Box(x=(0, 1), y=(0, 1), z=(0, 1))

    def source(x, y, z):
        r2 = (x - 0.4) ** 2 + (y - 0.55) ** 2 + (z - 0.6) ** 2
        return (4e6 * r2 - 6e3) * jnp.exp(-1e3 * r2)

    problem = pann.Problem(
        cube, lambda u, x, y, z: u.laplacian - source(x, y, z), [pann.Dirichlet(cube.boundary)]
    )
    begin = time.monotonic()
    solution = pann.solve(problem, pann.Elements(), time_limit=2, progress=False)
    # A round takes half a minute.
    assert time.monotonic() - begin < 12
    assert solution.report.stopped
    assert not solution.report.resolved


REFUSED = {
    "hard": (
        lambda: pann.Problem(LINE, lambda u: u.xx, [pann.Dirichlet(LINE.boundary, hard=True)]),
        "leave hard out",
    ),
    "dimensions": (
        lambda: pann.Problem.manufactured(
            pann.Box.cube(4), lambda u: u.laplacian, lambda x1, x2, x3, x4: x1
        ),
        "at most 3 dimensions",
    ),
    "parameters": (
        lambda: pann.Problem(
            LINE,
            lambda u, k: u.xx + k,
            [pann.Dirichlet(LINE.boundary), pann.Data([[0.5]], [0.1])],
            parameters={"k": 1.0},
        ),
        "unknown parameters",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_elements_cannot_do_is_refused_with_a_way_out(name):
    make, words = REFUSED[name]
    with pytest.raises(ValueError, match=words):
        pann.solve(make(), pann.Elements())


def test_options_are_checked():
    with pytest.raises(ValueError, match="highest_degree=5 is below degree=8"):
        pann.Elements(degree=8, highest_degree=5)
    with pytest.raises(ValueError, match="elements go without trials"):
        pann.solve(layer(1e-2)[0], pann.Elements(), trials=2)
    solved = pann.solve(layer(1e-2)[0], pann.Elements(), progress=False)
    with pytest.raises(ValueError, match="nothing else goes on from"):
        pann.solve(layer(1e-2)[0], pann.Hybrid(), start_from=solved, progress=False)


def test_elements_are_no_finer_than_memory_allows(monkeypatch):
    line = pann.Box(x=(0, 1))
    problem = pann.Problem(
        line, lambda u: -1e-3 * u.xx + u.x - 1, [pann.Dirichlet(line.boundary, 0.0)]
    )
    monkeypatch.setattr("pann.solvers.elements.method.available_memory", lambda: 100_000)
    solution = pann.solve(problem, pann.Elements(degree=8))
    assert "of memory, of which 0.0 are free" in str(solution)
    assert solution.model.basis.num_terms < 200

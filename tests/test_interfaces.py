"""Coefficients that jump: interface conditions against solutions worked out by hand."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

import pann
from pann.basis import PiecewiseLegendre, make_basis
from pann.domain import Box
from pann.model.architecture import Architecture
from pann.model.pann import trainable
from pann.network import activation_named
from pann.pde import Data, Dirichlet, Initial, Interface, Neumann, Problem
from pann.pde.checks import checked
from pann.pde.collocation import make_block
from pann.pde.evaluation import block_channels, network_channels
from pann.pde.placing import place_conditions, place_inside, points_inside, points_per_axis_of
from pann.problems import darcy_across
from pann.solvers.levenberg import State, network_jacobian
from pann.solvers.newton import start
from pann.solvers.polynomial import degrees_to_try
from pann.training.gauss_newton import network_only

LINE = Box(x=(1, 3))
SQUARE = Box(x=(0, 2), y=(-1, 1))


# ---- One dimension: -(k u')' = 1, u(1) = u(3) = 0, k = 1 left of 2.2 and 50 right of it ----

PLACE, LEFT, RIGHT = 2.2, 1.0, 50.0


def two_layers():
    k = lambda x: jnp.where(x < PLACE, LEFT, RIGHT)
    return Problem(
        LINE,
        lambda u, x: -k(x) * u.xx - 1,
        [Dirichlet(LINE.boundary, 0.0), Interface("x", PLACE, coefficient=k)],
    )


def two_layers_by_hand(x):
    """-k u' = x - c, so that u = (c (x-1) - (x^2-1)/2) / k on the left; c from u(3) = 0."""
    of_c = (PLACE - 1) / LEFT + (3 - PLACE) / RIGHT
    of_source = (PLACE**2 - 1) / 2 / LEFT + (9 - PLACE**2) / 2 / RIGHT
    c = of_source / of_c
    left = (c * (x - 1) - (x**2 - 1) / 2) / LEFT
    right = ((x**2 - 9) / 2 - c * (x - 3)) / -RIGHT
    return np.where(x < PLACE, left, right)


@pytest.fixture(scope="module")
def layers():
    return pann.solve(two_layers())


def test_two_layers_are_solved_to_round_off_without_options(layers):
    x = np.linspace(1, 3, 501)
    expected = two_layers_by_hand(x)
    np.testing.assert_allclose(layers(x=x), expected, atol=1e-13)
    assert layers.residual < 1e-12
    assert layers.model.num_units == 0
    (family,) = layers.model.basis.families
    assert isinstance(family, PiecewiseLegendre)
    np.testing.assert_allclose(family.breaks, 0.2, rtol=1e-15 / 0.2)


def test_the_flux_is_continuous_and_the_slope_is_not(layers):
    below, above = (layers.derivative({"x": 1}, x=x) for x in (PLACE - 1e-9, PLACE))
    assert LEFT * below == pytest.approx(RIGHT * above, rel=1e-7)
    assert abs(below) > 10 * abs(above)


def test_a_solution_with_interfaces_is_drawn_saved_and_loaded(layers, tmp_path):
    layers.plot(tmp_path / "u.png")
    assert (tmp_path / "u.png").stat().st_size > 1000
    layers.save(tmp_path / "u.pann")
    loaded = pann.load(tmp_path / "u.pann")
    x = np.linspace(1, 3, 101)
    np.testing.assert_array_equal(loaded(x=x), layers(x=x))
    assert loaded.model.basis == layers.model.basis
    loaded.plot()


# ---- Two dimensions, with jumps of value and flux ----


def by_pieces(below, above, axis, at):
    """A function of x and y that is one of two, by the side of a plane."""
    return lambda x, y: jnp.where({"x": x, "y": y}[axis] < at, below(x, y), above(x, y))


BELOW = lambda x, y: jnp.sin(2 * x) * jnp.exp(y)
ABOVE = lambda x, y: jnp.cos(x + 2 * y) + 3.0
CONDUCTIVITY = (lambda x, y: 2.0 + y + x, lambda x, y: 10.0 * jnp.exp(y / 2) + 0 * x)


def jumping(axis="x", at=0.7, **changes):
    """-div(k grad u) = f with everything different on both sides; f and jumps from derivatives."""
    index = "xy".index(axis)
    k = by_pieces(*CONDUCTIVITY, axis, at)
    u = by_pieces(BELOW, ABOVE, axis, at)

    def source(u, k):
        flux = lambda n: lambda x, y: k(x, y) * jax.grad(u, n)(x, y)
        return lambda x, y: -jax.grad(flux(0), 0)(x, y) - jax.grad(flux(1), 1)(x, y)

    f = by_pieces(
        *(jax.vmap(source(*pair)) for pair in zip((BELOW, ABOVE), CONDUCTIVITY, strict=True)),
        axis,
        at,
    )
    k_x, k_y = (
        by_pieces(*(jax.vmap(jax.grad(one, n)) for one in CONDUCTIVITY), axis, at) for n in (0, 1)
    )

    def flux_jump(x, y):
        slopes = [jax.vmap(jax.grad(one, index))(x, y) for one in (BELOW, ABOVE)]
        return CONDUCTIVITY[1](x, y) * slopes[1] - CONDUCTIVITY[0](x, y) * slopes[0]

    jump = lambda x, y: ABOVE(x, y) - BELOW(x, y)
    return Problem(
        SQUARE,
        lambda u, x, y: -k(x, y) * (u.xx + u.yy) - k_x(x, y) * u.x - k_y(x, y) * u.y - f(x, y),
        [
            Dirichlet(SQUARE.boundary, u),
            Interface(axis, at, coefficient=k, jump=jump, flux_jump=flux_jump, **changes),
        ],
        u,
    )


@pytest.mark.parametrize("axis, at", [("x", 0.7), ("y", -0.25)])
@pytest.mark.slow
def test_jumps_of_value_and_flux_are_met_to_round_off(axis, at):
    solution = pann.solve(jumping(axis, at))
    assert solution.rel_l2 < 1e-11
    assert solution.residual < 1e-10


def test_the_jumps_are_needed():
    """Without them the same equation has another solution: the test above can fail."""
    problem = jumping()
    boundary, interface = problem.conditions
    for lost in ({"jump": 0.0}, {"flux_jump": 0.0}, {"coefficient": 1.0}):
        changed = [boundary, dataclasses.replace(interface, **lost)]
        other = pann.solve(
            dataclasses.replace(problem, conditions=changed), pann.Polynomial(degree=10)
        )
        assert other.rel_l2 > 1e-2


@pytest.mark.parametrize("sampling", ["uniform", "equispaced", "gauss"])
def test_points_by_a_sampler_serve_too(sampling):
    """Equispaced ones lie on the interface in the middle, where a coefficient may be either."""
    solution = pann.solve(
        jumping(at=1.0),
        pann.Polynomial(degree=12, collocation=pann.Collocation(points=31**2, sampling=sampling)),
    )
    assert solution.rel_l2 < 1e-6


def test_points_of_the_users_own_may_lie_on_an_interface():
    points = pann.points.from_array(LINE, np.array([1.1, 1.5, 1.9, PLACE, 2.5, 2.9]))
    solution = pann.solve(
        two_layers(), pann.Polynomial(degree=3, collocation=pann.Collocation(points=points))
    )
    x = np.linspace(1, 3, 50)
    np.testing.assert_allclose(solution(x=x), two_layers_by_hand(x), atol=1e-13)


def test_a_basis_of_the_users_own_is_used_as_it_is():
    basis = make_basis(LINE, 20)
    solution = pann.solve(two_layers(), pann.Polynomial(basis=basis))
    assert solution.model.basis == basis


def test_a_large_coefficient_does_not_hide_the_residual_of_the_other_piece():
    """Harmonic on both sides, k = 1 and 1e6: over all points the residual would look like 4e-11."""
    box = Box(x=(0, 1), y=(0, 1))
    k = lambda x, y: jnp.where(x < 0.5, 1.0, 1e6)
    height, slope = np.sinh(np.pi / 2), np.cosh(np.pi / 2) / 1e6
    right = lambda s: slope * jnp.sinh(jnp.pi * s) + height * jnp.cosh(jnp.pi * s)
    exact = lambda x, y: (
        jnp.sin(jnp.pi * y) * jnp.where(x < 0.5, jnp.sinh(jnp.pi * x), right(x - 0.5))
    )
    problem = Problem(
        box,
        lambda u, x, y: k(x, y) * (u.xx + u.yy),
        [Dirichlet(box.boundary, exact), Interface("x", 0.5, k)],
        exact,
    )
    coarse, fine = (pann.solve(problem, pann.Polynomial(degree=degree)) for degree in (8, 22))
    assert coarse.residual > coarse.rel_l2 > 1e-6
    assert fine.rel_l2 < 1e-11
    assert fine.residual < 1e-10


# ---- Interfaces along both axes ----


def test_interfaces_along_two_axes():
    """u = s(x) t(y) with k = a(x) b(y): both factors have kinks, fluxes are continuous."""
    box = Box(x=(0, 1), y=(0, 1))
    a, b = lambda x: jnp.where(x < 0.3, 1.0, 4.0), lambda y: jnp.where(y < 0.6, 5.0, 0.5)
    # (a s')' = 0 and (b t')' = 0 by hand: slopes 1/a and 1/b.
    s = lambda x: jnp.where(x < 0.3, x, 0.3 + (x - 0.3) / 4.0)
    t = lambda y: jnp.where(y < 0.6, y / 5.0, 0.12 + (y - 0.6) / 0.5)
    exact = lambda x, y: s(x) * t(y) + 1
    k = lambda x, y: a(x) * b(y)
    problem = Problem(
        box,
        lambda u, x, y: k(x, y) * (u.xx + u.yy),
        [
            Dirichlet(box.boundary, exact),
            Interface("x", 0.3, coefficient=k),
            Interface("y", 0.6, coefficient=k),
        ],
        exact,
    )
    solution = pann.solve(problem)
    assert solution.rel_l2 < 1e-12
    assert [family.num_pieces for family in solution.model.basis.families] == [2, 2]
    smooth = dataclasses.replace(problem, conditions=problem.conditions[:1])
    assert pann.solve(smooth, pann.Polynomial(degree=8)).rel_l2 > 1e-2


# ---- Several fields, time, a network ----


def test_fields_without_an_interface_are_smooth_across_it():
    """-(k u')' = v, v'' = -v: only u has a kink, and the basis, which both share, breaks there."""
    line = Box(x=(0, 2))
    k = lambda x: jnp.where(x < 1, 1.0, 3.0)
    # u' = (cos x - c) / k and u(0) = u(2) = 0.
    c = (np.sin(1) + (np.sin(2) - np.sin(1)) / 3) / (1 + 1 / 3)
    at_one = np.sin(1) - c
    u = lambda x: jnp.where(
        x < 1, jnp.sin(x) - c * x, at_one + (jnp.sin(x) - np.sin(1) - c * (x - 1)) / 3
    )
    problem = Problem(
        line,
        lambda u, v, x: (-k(x) * u.xx - v, v.xx + v),
        [
            Dirichlet(line.boundary, 0.0, field="u"),
            Dirichlet(line.boundary, lambda x: jnp.sin(x), field="v"),
            Interface("x", 1, coefficient=k, field="u"),
        ],
        lambda x: (u(x), jnp.sin(x)),
        fields=("u", "v"),
    )
    solution = pann.solve(problem)
    assert solution.rel_l2 < 1e-12
    placed = {block.name: block for block in place_conditions(problem, 4)}
    assert placed["v across x = 1"].orders == ((0,), (1,))


def test_every_field_may_have_interfaces_of_its_own():
    """Two uncoupled equations, their kinks at different places."""
    line = Box(x=(0, 1))
    kinked = lambda at, x: jnp.where(x < at, 2 * x, 2 * at + (x - at))
    problem = Problem(
        line,
        lambda u, v: (u.xx, v.xx),
        [
            Dirichlet(line.boundary, lambda x: kinked(0.25, x), field="u"),
            Dirichlet(line.boundary, lambda x: kinked(0.75, x), field="v"),
            Interface("x", 0.25, coefficient=lambda x: jnp.where(x < 0.25, 1.0, 2.0), field="u"),
            Interface("x", 0.75, flux_jump=-1.0, field="v"),
        ],
        lambda x: (kinked(0.25, x), kinked(0.75, x)),
        fields=("u", "v"),
    )
    solution = pann.solve(problem)
    assert solution.rel_l2 < 1e-13
    assert solution.model.basis.families[0].num_pieces == 3


def test_layers_that_warm_up():
    """u_t = (k u_x)_x: cosines of equal decay on both sides of x = 1, where the flux is zero."""
    box = Box(x=(0, 2), t=(0, 0.1), time="t")
    k = lambda x, t: jnp.where(x < 1, 4.0, 1.0)
    fast, slow = lambda x: jnp.cos(jnp.pi * x), lambda x: jnp.cos(2 * jnp.pi * x)
    # k wave^2 = 4 pi^2 on both sides; -1 left of the plane, 1 right of it.
    exact = lambda x, t: jnp.exp(-4 * jnp.pi**2 * t) * jnp.where(x < 1, fast(x), slow(x))
    problem = Problem(
        box,
        lambda u, x, t: u.t - k(x, t) * u.xx,
        [
            Neumann(box.boundary, 0.0),
            Initial(lambda x, t: exact(x, 0.0)),
            Interface("x", 1.0, k, jump=lambda x, t: 2 * jnp.exp(-4 * jnp.pi**2 * t)),
        ],
        exact,
    )
    assert pann.solve(problem, pann.Polynomial(degree=18)).rel_l2 < 1e-8


@pytest.mark.slow
def test_a_network_stands_beside_the_pieces():
    """A front within a layer that degree 8 does not resolve."""
    front = lambda x: jnp.tanh(15 * (x - 0.4))
    exact = lambda x: jnp.where(x < 0, 0.2 * x - 1.0, front(x))
    line = Box(x=(-1, 1))
    slope = 15 * (1 - np.tanh(6.0) ** 2)
    problem = Problem(
        line,
        lambda u, x: u.xx - jnp.where(x < 0, 0.0, -2 * 15**2 * front(x) * (1 - front(x) ** 2)),
        [
            Dirichlet(line.boundary, exact),
            Interface("x", 0.0, jump=1 - np.tanh(6.0), flux_jump=slope - 0.2),
        ],
        exact,
    )
    where = pann.Collocation(points=200, sampling="equispaced")
    alone = pann.solve(problem, pann.Polynomial(degree=8, collocation=where))
    network = pann.MLP(width=6, depth=1)
    both = pann.solve(
        problem, pann.Hybrid(degree=8, network=network, iterations=60, collocation=where)
    )
    assert both.model.num_units == 6
    assert both.rel_l2 < 1e-2 * alone.rel_l2


# ---- Darcy flow across strips ----


@pytest.fixture(scope="module")
def across():
    return pann.solve(darcy_across())


def test_darcy_flow_across_strips_is_solved_to_round_off_without_options(across):
    assert across.rel_l2 <= 1e-11
    # The first degree resolves it, the second shows that the problem is as stable there.
    assert across.report.degree == 14
    drops = 0.2 / np.array([16, 6, 1, 10, 2])
    pressures = 1 - np.cumsum([0, *drops]) / np.sum(drops)
    x = np.linspace(0, 1, 201)
    expected = np.interp(x, [0, 0.2, 0.4, 0.6, 0.8, 1], pressures)
    for y in (0.0, 0.3, 1.0):
        np.testing.assert_allclose(across(x=x, y=y), expected, atol=1e-11)


def test_the_pressure_of_strips_is_drawn(across, tmp_path):
    across.plot(tmp_path / "p.png")
    across.save(tmp_path / "p.pann")
    assert pann.load(tmp_path / "p.pann")(x=0.31, y=0.2) == across(x=0.31, y=0.2)


# ---- Where the points are ----


def test_points_count_by_piece_and_none_lies_on_a_break():
    problem = darcy_across()
    basis = make_basis(problem.domain, 7, families=problem.pieces)
    per_axis = points_per_axis_of(problem, basis)
    # Three more than functions, and an even number.
    assert per_axis == 8 + 4
    inside = points_inside(problem, per_axis)
    assert inside.shape == (5 * 12 * 12, 2)
    placed = [place_inside(problem, inside, ((2, 0),)), *place_conditions(problem, per_axis)]
    for block in placed:
        for points in (block.points, block.minus):
            if points is not None:
                assert np.abs(points[:, :1] - np.array([0.2, 0.4, 0.6, 0.8])).min() > 0
    counts, _ = np.histogram(inside[:, 0], np.linspace(0, 1, 6))
    np.testing.assert_array_equal(counts, 144)
    assert points_per_axis_of(problem, basis, num_points=5 * 20**2) == 20


def test_points_on_a_plane_along_one_axis_avoid_the_breaks_of_the_other():
    """An odd number of Gauss points on the whole of y would have one in the middle."""
    problem = Problem(
        SQUARE,
        lambda u: u.xx + u.yy,
        [Dirichlet(SQUARE.boundary, 0.0), Interface("x", 0.5), Interface("y", 0.0)],
    )
    for block in place_conditions(problem, 5):
        if "interface 2" in block.name:
            assert len(block.points) == 10
            assert np.all(block.points[:, 1] != 0)


@pytest.mark.parametrize("low, high", [(0, 1), (-1, 1), (1000, 1001), (-1e-6, 2e-6), (5, 1e6)])
@pytest.mark.parametrize("share", [0.1, 1 / 3, 0.5, 0.7])
def test_the_sides_of_a_plane_are_told_apart_at_any_scale(low, high, share):
    line = Box(x=(low, high))
    at = low + share * (high - low)
    problem = Problem(line, lambda u: u.xx, [Interface("x", at)])
    value, _ = place_conditions(problem, 3)
    basis = make_basis(line, 0, families=problem.pieces)
    jumps = basis.table(value.points) - basis.table(value.minus)
    np.testing.assert_allclose(jumps, [[0.0, 1.0]], atol=1e-14)
    assert (value.points[0, 0] - value.minus[0, 0]) / (high - low) < 1e-10


def test_planes_that_differ_by_rounding_are_one():
    line = Box(x=(0, 1))
    problem = Problem(
        line,
        lambda u, v: (u.xx, v.xx),
        [Interface("x", 0.1 + 0.2, field="u"), Interface("x", 0.3, field="v")],
        fields=("u", "v"),
    )
    checked(problem)
    assert problem.pieces["x"].num_pieces == 2


def test_the_flux_row_is_the_difference_of_both_sides():
    """Against the basis's own tables, with different coefficients."""
    problem = jumping()
    basis = make_basis(SQUARE, 3, families=problem.pieces)
    with jax.enable_x64(True):
        flux = place_conditions(problem, 4)[2]
        block = make_block(flux, problem, basis, "float64")
        above, below = (
            np.asarray(k(*points.T))[:, None] * basis.table(points, (1, 0))
            for k, points in zip(CONDUCTIVITY[::-1], (flux.points, flux.minus), strict=True)
        )
        # Over the largest coefficient, that of the upper side where y is largest.
        unit = np.max(CONDUCTIVITY[1](*flux.points.T))
        np.testing.assert_allclose(block.tables[0], (above - below) / unit, atol=1e-12)
        jump = problem.conditions[1].flux_jump(*flux.points.T)
        np.testing.assert_allclose(block.target[:, 0], jump / unit, atol=1e-12)
        assert np.abs(above - below).max() > 1


def test_the_networks_part_of_the_rows_and_its_jacobian_have_both_coefficients():
    """Against the network's derivatives on either side, and automatic differentiation of them."""
    problem = jumping()
    basis = make_basis(SQUARE, 2, families=problem.pieces)
    tanh = activation_named("tanh")
    architecture = Architecture((4, 3), tanh, None, 0.0, None, False, "float64")
    with jax.enable_x64(True):
        parameters = architecture.start(2, 0, 1, key=jax.random.key(0))
        unknowns = start(basis.num_terms, 1, {}, "float64")
        moving, fixed = eqx.partition(network_only(parameters), trainable(parameters))
        flat, unravel = ravel_pytree(moving)
        for placed in place_conditions(problem, 4)[1:]:
            block = make_block(placed, problem, basis, "float64")
            is_flux = "flux" in placed.name
            above, below = CONDUCTIVITY[::-1] if is_flux else (lambda x, y: 1 + 0 * x,) * 2

            def channels(flat, placed=placed, block=block, above=above, below=below):
                whole = eqx.combine(unravel(flat), fixed)
                upper, lower = (
                    network_channels(whole, x, block.orders, SQUARE)[0, :, 0]
                    for x in (block.x, block.x_minus)
                )
                unit = jnp.max(above(*placed.points.T))
                return (above(*placed.points.T) * upper - below(*placed.minus.T) * lower) / unit

            @eqx.filter_jit
            def by_the_network(state, block=block):
                own = block_channels(block, state.parameters, SQUARE)
                return own, network_jacobian(block, own, state, SQUARE)

            own, jacobian = by_the_network(State(parameters, unknowns))
            value, slopes = jax.jit(
                lambda flat, channels=channels: (channels(flat), jax.jacfwd(channels)(flat))
            )(flat)
            np.testing.assert_allclose(own[0, :, 0], value, atol=1e-12)
            expected = block.weights[:, None] * slopes
            np.testing.assert_allclose(jacobian, expected, atol=1e-12)
            assert not is_flux or np.abs(expected).max() > 1e-3


def test_the_ladder_ends_before_the_bases_of_many_pieces_are_too_large():
    assert degrees_to_try(two_layers()) == (8, 16, 32, 64, 128, 256, 512, 1024)
    assert degrees_to_try(darcy_across()) == (8, 14, 22, 32)


# ---- Mistakes ----

PERIODIC = Box(x=(0, 1), y=(0, 1), periodic="y")
TIME = Box(x=(0, 1), t=(0, 1), time="t")


def posed(domain, *interfaces, residual=lambda u: u.xx, **more):
    conditions = [Data(np.array([[0.5] * domain.dimension]), np.array([1.0])), *interfaces]
    return Problem(domain, residual, conditions, **more)


@pytest.mark.parametrize(
    "problem, message",
    [
        (posed(PERIODIC, Interface("z", 0.5)), "names axis 'z', .* its axes are x, y"),
        (posed(PERIODIC, Interface("y", 0.5)), "axis 'y', which is periodic; make the box without"),
        (posed(TIME, Interface("t", 0.5)), "axis 't', which is time; solve one interval after"),
        (posed(TIME, Interface("x", 1.0)), r"at x = 1\.0, which must lie inside \(0, 1\)"),
        (posed(TIME, Interface("x", -3.0)), r"at x = -3\.0, which must lie inside \(0, 1\)"),
        (posed(TIME, Interface("x", np.nan)), r"at x = nan, which must lie inside \(0, 1\)"),
        (
            posed(TIME, Interface("x", 0.5), Interface("x", 0.5, field="u")),
            r"two conditions Interface at x = 0\.5 for the same field; put jump and flux_jump",
        ),
        (
            posed(TIME, Interface("x", 0.5, coefficient=np.nan)),
            r"Interface at x = 0\.5, coefficient: a given value is not finite at",
        ),
        (
            posed(TIME, Interface("x", 0.5, coefficient=lambda x, t: jnp.sqrt(x - 0.5))),
            r"Interface at x = 0\.5, coefficient: a given value is not finite at",
        ),
        (posed(TIME, Interface("x", 0.5, field="v")), "Interface names field 'v'; there are u"),
        (
            posed(TIME, Interface("x", 0.5), residual=lambda u: u.xxxx),
            "enough for equations of second order; this one is of order 4 along 'x'",
        ),
    ],
)
def test_mistakes_are_found_before_anything_is_compiled(problem, message):
    with pytest.raises(ValueError, match=message) as caught:
        checked(problem)
    assert "\n" not in str(caught.value)


def test_two_fields_may_share_a_plane_and_a_field_may_have_several():
    two = {"residual": lambda u, v: (u.xx, v.xx), "fields": ("u", "v")}
    interfaces = [Interface("x", at, field=field) for at in (0.5, 0.6) for field in ("u", "v")]
    data = Data(np.zeros((1, 2)), np.zeros(1), field="u")
    assert checked(Problem(TIME, conditions=[data, *interfaces], **two)).asked.orders == ((2, 0),)

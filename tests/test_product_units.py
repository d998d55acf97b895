"""Products of splines: against SciPy's splines, and functions that are products or are not."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracles import make_task, random_parameters, random_rows, stack
from scipy.interpolate import BSpline

import pann
from pann import io
from pann.io import model_from_state, model_state
from pann.network import ProductUnits
from pann.training import PRODUCTS, AddProducts
from pann.training.spline_products import Sample, Spline, find_products, stacked

SQUARE = pann.Box(x1=(-1, 1), x2=(-1, 1))


def random_spline(generator, num_cells):
    inner = np.sort(generator.uniform(-1, 1, num_cells - 1))
    return Spline(np.array([-1.0, *inner, 1.0]), generator.normal(size=num_cells + 3))


def by_scipy(spline, x):
    knots = np.array([*[-1.0] * 3, *spline.breaks, *[1.0] * 3])
    return BSpline(knots, spline.coefficients, 3)(np.clip(x, -1, 1))


def rough(points):
    """Not smooth, and a product: what neither a polynomial nor a few units follow."""
    return np.prod(np.abs(points) * np.sin(1 / np.where(points == 0, 1.0, points)), axis=1)


def rows_of(function, num_points, seed):
    points = np.random.default_rng(seed).uniform(-1, 1, (num_points, 2))
    return points, function(points)


def relative_error(model, function):
    points, truth = rows_of(function, 20_000, 99)
    return np.linalg.norm(model(points) - truth) / np.linalg.norm(truth)


# ---- The units ----


def test_units_are_products_of_splines():
    """Of different numbers of cells; beyond the domain as at its end; at the breaks as well."""
    generator = np.random.default_rng(0)
    sizes = [(3, 7, 1), (5, 2, 4)]
    products = [tuple(random_spline(generator, n) for n in axes) for axes in sizes]
    points = generator.uniform(-1.2, 1.2, (200, 3))
    points[:4, 0] = products[0][0].breaks
    points[4:8] = 1.0
    with jax.enable_x64(True):
        units = stacked([tuple(products)], "float64")
        one = ProductUnits(units.breaks[0], units.coefficients[0])
        values = np.asarray(jax.vmap(one.features)(jnp.asarray(points)))
    for unit, product in enumerate(products):
        expected = np.prod([by_scipy(s, points[:, i]) for i, s in enumerate(product)], axis=0)
        np.testing.assert_allclose(values[:, unit], expected, rtol=1e-11, atol=1e-12)


def test_a_spline_with_halved_cells_is_the_same_function():
    generator = np.random.default_rng(1)
    spline = random_spline(generator, 9)
    finer = spline.refined(generator.uniform(size=9) < 0.5)
    assert len(finer.breaks) > len(spline.breaks)
    x = generator.uniform(-1, 1, 300)
    np.testing.assert_allclose(by_scipy(finer, x), by_scipy(spline, x), rtol=0, atol=1e-12)


# ---- The search ----


def sample_of(function, num_points, noise=0.0, seed=0):
    """As many points to fit, and a fifth of that held out."""
    generator = np.random.default_rng(seed)
    x = generator.uniform(-1, 1, (num_points + num_points // 5, 2))
    target = function(x) + noise * generator.normal(size=len(x))
    return Sample(x, np.ones(len(x)), target, num_points)


def monomials(x):
    return np.stack([x[:, 0] ** i * x[:, 1] ** j for i in range(4) for j in range(4 - i)], axis=1)


def test_a_product_next_to_a_polynomial_is_found():
    generator = np.random.default_rng(2)
    splines = [Spline(np.linspace(-1, 1, 17), generator.normal(size=19)) for _ in range(2)]
    product = lambda x: by_scipy(splines[0], x[:, 0]) * by_scipy(splines[1], x[:, 1])
    function = lambda x: product(x) + 3 * x[:, 0] * x[:, 1] ** 2 - x[:, 0]
    sample = sample_of(function, 1500)
    found = find_products(sample, monomials(sample.x), 1, 0.2, np.random.default_rng(0))
    assert found.error < 1e-2 * np.linalg.norm(sample.target[1500:])


def test_no_product_is_found_in_noise():
    sample = sample_of(lambda x: x[:, 0] ** 3, 1000, noise=0.1)
    random = np.random.default_rng(0)
    assert find_products(sample, monomials(sample.x), 4, 0.05, random).products == ()


# ---- The stage ----


def test_products_follow_what_the_polynomial_cannot():
    """And take nothing from a smooth part that is no product."""
    function = lambda x: rough(x) + np.sin(3 * x[:, 0] * x[:, 1] + x[:, 0])
    points, values = rows_of(function, 2000, 3)
    fitted = pann.fit(points, values, pann.Products(degree=12), domain=SQUARE)
    polynomial = pann.fit(points, values, pann.Polynomial(degree=12), domain=SQUARE)
    assert fitted.model.num_products > 0
    assert relative_error(fitted, function) < 0.15 * relative_error(polynomial, function)
    assert "products of splines" in str(fitted)


def test_rows_without_weight_do_not_count_and_no_polynomial_is_needed():
    points, values = rows_of(rough, 1000, 5)
    counts = np.arange(1000) % 8 > 0
    fitted = pann.fit(
        points,
        np.where(counts, values + 2, 7.0),
        pann.Training(stages=PRODUCTS[1:], degree=None),
        domain=SQUARE,
        sample_weight=counts.astype(float),
    )
    assert relative_error(fitted, lambda x: rough(x) + 2) < 0.01


@pytest.mark.parametrize(
    ("num_outputs", "held_out", "message"),
    [(1, False, "without held-out rows"), (2, True, "one output, and there are 2")],
)
def test_what_hinders_products_is_said(num_outputs, held_out, message):
    with jax.enable_x64(True):
        rows = random_rows(0, 60, num_outputs)
        task = make_task(rows, held_out=random_rows(1, 30, num_outputs) if held_out else None)
        trials = stack(*(random_parameters(seed, num_outputs=num_outputs) for seed in range(2)))
        same, outcome = AddProducts().run(task, trials)
    assert same is trials
    assert message in outcome.notes[0]


@pytest.mark.parametrize("options", [{"limit": 0}, {"gain": 1.0}, {"gain": -0.1}])
def test_impossible_options_are_refused(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        AddProducts(**options)


# ---- Files ----


@pytest.fixture(scope="module")
def model():
    points, values = rows_of(rough, 400, 6)
    return pann.fit(
        points, values, pann.Training(stages=PRODUCTS, degree=4), domain=SQUARE, trials=2
    ).model


def test_a_model_with_products_comes_back(model, tmp_path):
    path = tmp_path / "model.pann"
    io.save(path, model)
    points, _ = rows_of(rough, 500, 7)
    np.testing.assert_array_equal(io.load(path)(points), model(points))


def test_products_of_a_wrong_shape_are_refused(model):
    header, arrays = model_state(model)
    for key, value in (("num_units", 0), ("num_cells", header["products"]["num_cells"] + 1)):
        broken = json.loads(json.dumps(header))
        broken["products"][key] = value
        with pytest.raises(io.FileError):
            model_from_state(broken, arrays)

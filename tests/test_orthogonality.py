"""The weak constraints against their definition: full arrays in NumPy, SVD, finite differences."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pann.training.constraints import CONSTRAINTS, Half, constraint_norm

POINTS, UNITS, TERMS = 50, 6, 8
NORMS = ("frobenius", "spectral")


@pytest.fixture(autouse=True)
def double_precision():
    with jax.enable_x64(True), jax.default_matmul_precision("highest"):
        yield


def random_half(generator, functions, outputs, pruned=()):
    kept = ~np.isin(np.arange(functions), pruned)
    coefficients = generator.normal(size=(functions, outputs)) * kept[:, None]
    # Functions with a common share: the first singular value then stands out.
    values = 0.7 + generator.normal(size=(POINTS, functions))
    return Half(jnp.asarray(values), jnp.asarray(coefficients), jnp.asarray(kept))


def random_halves(outputs, pruned=False):
    generator = np.random.default_rng(5)
    network = random_half(generator, UNITS, outputs, (0, 4) if pruned else ())
    return network, random_half(generator, TERMS, outputs, (1, 2, 7) if pruned else ())


# The matrices as the paper defines them, for one output: entry (i, j, k) belongs to point i,
# unit j and term k; a constraint that sums over units or terms has one column there.
DEFINITIONS = {
    "A": lambda a, b, psi, phi: np.einsum("ij,j,ik,k->i", psi, a, phi, b),
    "B": lambda a, b, psi, phi: np.einsum("ij,j,ik,k->ik", psi, a, phi, b),
    "C": lambda a, b, psi, phi: np.einsum("ij,j,ik->ik", psi, a, phi),
    "D": lambda a, b, psi, phi: np.einsum("ij,j,k->ik", psi, a, b),
    "E": lambda a, b, psi, phi: np.einsum("ij,j,ik,k->ij", psi, a, phi, b),
    "F": lambda a, b, psi, phi: np.einsum("ij,ik,k->ij", psi, phi, b),
    "G": lambda a, b, psi, phi: np.einsum("j,ik,k->ij", a, phi, b),
    "H": lambda a, b, psi, phi: np.einsum("ij,j,ik,k->ijk", psi, a, phi, b),
}


def naive_matrix(name, network, polynomial):
    """All of C, its columns flattened, the rows of several outputs one below another."""
    (psi, a), (phi, b) = (
        (np.asarray(half.functions)[:, half.kept], np.asarray(half.coefficients)[half.kept])
        for half in (network, polynomial)
    )
    blocks = [
        DEFINITIONS[name](a[:, output], b[:, output], psi, phi).reshape(POINTS, -1)
        for output in range(a.shape[1])
    ]
    return np.concatenate(blocks)


@functools.cache
def compiled(name, norm):
    return jax.jit(
        jax.value_and_grad(
            lambda network, polynomial: constraint_norm(name, network, polynomial, norm=norm),
            argnums=(0, 1),
            allow_int=True,
        )
    )


@pytest.mark.parametrize("norm, order", [("frobenius", "fro"), ("spectral", 2)])
@pytest.mark.parametrize("name", CONSTRAINTS)
def test_norms_equal_those_of_the_full_matrix(name, norm, order):
    for pruned in (False, True):
        halves = random_halves(3, pruned)
        expected = np.linalg.norm(naive_matrix(name, *halves), order)
        value, _ = compiled(name, norm)(*halves)
        np.testing.assert_allclose(value, expected, rtol=1e-12 if norm == "frobenius" else 1e-9)


def test_the_two_norms_and_all_constraints_differ_on_this_data():
    """Otherwise the tests above could not tell one from another."""
    values = [
        np.linalg.norm(naive_matrix(name, *random_halves(3)), order)
        for name, order in itertools.product(CONSTRAINTS, ("fro", 2))
        if (name, order) != ("A", 2)  # a single column has one norm
    ]
    assert np.min(np.diff(np.sort(values))) > 1e-3


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("name", CONSTRAINTS)
def test_gradients_equal_finite_differences(name, norm):
    halves = random_halves(outputs=3)
    function = compiled(name, norm)
    _, gradients = function(*halves)
    generator = np.random.default_rng(0)
    for half, field in itertools.product((0, 1), ("functions", "coefficients")):
        array = getattr(halves[half], field)
        direction = generator.normal(size=array.shape)

        def moved(step, half=half, field=field, array=array, direction=direction):
            changed = list(halves)
            changed[half] = halves[half]._replace(**{field: array + step * direction})
            return float(function(*changed)[0])

        step = 1e-5
        expected = (moved(step) - moved(-step)) / (2 * step)
        actual = np.sum(np.asarray(getattr(gradients[half], field)) * direction)
        assert actual == pytest.approx(expected, rel=1e-6, abs=1e-6 * moved(0))


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("name", CONSTRAINTS)
@pytest.mark.parametrize("zeros", [(0,), (1,), (0, 1)])
def test_gradients_are_zero_where_coefficients_make_the_norm_zero(name, norm, zeros):
    halves = list(random_halves(outputs=3))
    for half in zeros:
        halves[half] = halves[half]._replace(coefficients=jnp.zeros_like(halves[half].coefficients))
    value, gradients = compiled(name, norm)(*halves)
    vanishes = not np.any(naive_matrix(name, *halves))
    assert (value == 0) == vanishes
    for half in gradients:
        for gradient in half[:2]:
            assert np.all(np.isfinite(gradient))
            assert not vanishes or not np.any(gradient)


def all_sizes(jaxpr):
    """The size of every array that a program makes, also inside of its inner programs."""
    for equation in jaxpr.eqns:
        yield from (variable.aval.size for variable in equation.outvars)
        for value in jax.tree.leaves(
            list(equation.params.values()), is_leaf=lambda leaf: hasattr(leaf, "eqns")
        ):
            inner = getattr(value, "jaxpr", value)
            if hasattr(inner, "eqns"):
                yield from all_sizes(inner)


def largest_array(function, *arguments):
    return max(all_sizes(jax.make_jaxpr(function)(*arguments).jaxpr))


@pytest.mark.parametrize("norm", NORMS)
def test_constraint_h_never_holds_an_array_of_points_times_units_times_terms(norm):
    halves = random_halves(1)
    assert largest_array(compiled("H", norm), *halves) == POINTS * max(UNITS, TERMS)


def test_an_array_of_that_size_would_be_seen():
    def naive(network, polynomial):
        left = network.functions * network.coefficients[:, 0]
        right = polynomial.functions * polynomial.coefficients[:, 0]
        return jnp.linalg.norm(left[:, :, None] * right[:, None, :])

    halves = random_halves(1)
    assert largest_array(jax.jit(naive), *halves) == POINTS * UNITS * TERMS

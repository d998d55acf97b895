"""Products of many rows: the same values and derivatives in blocks as at once."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pann.runtime import matmul
from pann.runtime.platform import on_cpu


@pytest.fixture(autouse=True)
def double_precision():
    with jax.enable_x64(True):
        yield


@pytest.fixture
def on_a_gpu(monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    monkeypatch.setattr(matmul, "ROWS_PER_BLOCK", 16)


def make_rows(count, columns):
    rng = np.random.default_rng(3)
    return jnp.asarray(rng.normal(size=(count, 7))), jnp.asarray(rng.normal(size=(7, columns)))


# 102 rows are six blocks; 103 need padding; 20 are one block.
@pytest.mark.parametrize("count", [102, 103, 20])
@pytest.mark.parametrize("columns", [2, 5])
@pytest.mark.parametrize("multiply", [matmul.product, matmul.combine])
def test_values_and_derivatives_are_those_of_a_matrix_product(count, columns, multiply, on_a_gpu):
    rows, matrix = make_rows(count, columns)
    size = lambda multiply: lambda rows, matrix: jnp.sum(jnp.sin(multiply(rows, matrix)))
    ours, theirs = size(multiply), size(jnp.matmul)
    all_of = lambda f: jax.jit(
        lambda *x: (
            f(*x),
            jax.grad(f, (0, 1))(*x),
            jax.jacfwd(f, (0, 1))(*x),
            jax.hessian(f, 1)(*x),
        )
    )
    found, expected = all_of(ours)(rows, matrix), all_of(theirs)(rows, matrix)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-12), found, expected)


def test_trials_are_mapped(on_a_gpu):
    rows, matrix = make_rows(102, 5)
    several = jnp.stack([matrix, 2 * matrix])
    slope = lambda multiply: jax.grad(lambda m: jnp.sum(jnp.sin(multiply(rows, m))))
    found = jax.vmap(slope(matmul.product))(several)
    np.testing.assert_allclose(found, jax.vmap(slope(jnp.matmul))(several), atol=1e-12)


def test_the_gradient_is_summed_in_blocks(on_a_gpu):
    rows, matrix = make_rows(102, 5)
    slope = jax.grad(lambda m: jnp.sum(jnp.sin(matmul.product(rows, m))))
    shapes = [
        step.outvars[0].aval.shape
        for step in jax.make_jaxpr(slope)(matrix).eqns
        if step.primitive.name == "dot_general"
    ]
    assert (6, 5, 7) in shapes
    assert (5, 7) not in shapes


@pytest.mark.parametrize("count", [64, 61])
def test_half_of_a_symmetric_product(count, on_a_gpu, monkeypatch):
    monkeypatch.setattr(matmul, "LARGE", 32)
    rows, _ = make_rows(count, 1)
    found = np.tril(matmul.lower_gram(rows))
    np.testing.assert_allclose(found, np.tril(np.asarray(rows) @ np.asarray(rows).T), atol=1e-12)


def test_the_default_device_decides_before_the_backend(monkeypatch):
    assert on_cpu()
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert not on_cpu()
    with jax.default_device(jax.devices("cpu")[0]):
        assert on_cpu()
    with jax.default_device("cpu"):
        assert on_cpu()
    assert not on_cpu()

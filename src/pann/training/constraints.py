"""The weak orthogonality constraints C_A ... C_H between the two halves (paper, section 3.2).

Each constraint is a matrix C with a row for every training point; the loss gets lambda_c |C|.
With N = Psi a and P = Phi b the Frobenius norms have closed forms of cost O(N (w + m)):

    |C_A|^2 = sum_i N_i^2 P_i^2
    |C_B|^2 = sum_i N_i^2 sum_k b_k^2 phi_k^2        |C_E|^2 = sum_i P_i^2 sum_j a_j^2 psi_j^2
    |C_C|^2 = sum_i N_i^2 sum_k phi_k^2              |C_F|^2 = sum_i P_i^2 sum_j psi_j^2
    |C_D|^2 = sum_i N_i^2 sum_k b_k^2                |C_G|^2 = sum_i P_i^2 sum_j a_j^2
    |C_H|^2 = sum_i (sum_j a_j^2 psi_j^2) (sum_k b_k^2 phi_k^2)

so that the N x w x m array of C_H is never formed. Every C is a row-wise product of a factor
from the network (N, psi_j, a_j psi_j or a_j) and one from the polynomial, which is how the
spectral norm, too, is computed: by power iteration with products of the factors.
"""

from collections.abc import Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from pann.runtime.matmul import combine

CONSTRAINTS = ("A", "B", "C", "D", "E", "F", "G", "H")
POWER_ITERATIONS = 100

Scalar = Float[Array, ""]


class Half(NamedTuple):
    """One half at the training points: its functions, coefficients, and which are not pruned.

    The coefficients of pruned functions must be zero.
    """

    functions: Float[Array, "points functions"]
    coefficients: Float[Array, "functions outputs"]
    kept: Bool[Array, " functions"]


def constraint_norm(
    name: str, network: Half, polynomial: Half, *, norm: str = "frobenius"
) -> Scalar:
    """|C_name| in the Frobenius or the spectral norm; for several outputs, of all rows together."""
    if norm == "frobenius":
        return root(squared_norm(name, network, polynomial))
    network_form, polynomial_form = _FORMS[name]
    outputs = range(network.coefficients.shape[1])
    return _spectral_norm(
        jnp.concatenate([_factor(network_form, network, output) for output in outputs]),
        jnp.concatenate([_factor(polynomial_form, polynomial, output) for output in outputs]),
    )


def squared_norm(name: str, network: Half, polynomial: Half) -> Scalar:
    """|C_name|^2 in the Frobenius norm, a sum over the points."""
    network_form, polynomial_form = _FORMS[name]
    return jnp.sum(
        _squared_rows(network_form, network) * _squared_rows(polynomial_form, polynomial)
    )


def weighed_squares(weights: Mapping[str, Scalar], network: Half, polynomial: Half) -> Scalar:
    """sum_n w_n |C_n|^2 over the constraints with a weight; each form of a half is made once."""
    forms = [_FORMS[name] for name in weights]
    of_network = {form: _squared_rows(form, network) for form, _ in forms}
    of_polynomial = {form: _squared_rows(form, polynomial) for _, form in forms}
    squares = [jnp.sum(of_network[one] * of_polynomial[other]) for one, other in forms]
    return jnp.stack(list(weights.values())) @ jnp.stack(squares)


# Which form each half takes in a constraint: its sum, its functions, its coefficients, or its
# terms (coefficient times function).
_FORMS = {
    "A": ("sum", "sum"),
    "B": ("sum", "terms"),
    "C": ("sum", "functions"),
    "D": ("sum", "coefficients"),
    "E": ("terms", "sum"),
    "F": ("functions", "sum"),
    "G": ("coefficients", "sum"),
    "H": ("terms", "terms"),
}


def _squared_rows(form: str, half: Half) -> Float[Array, "points outputs"]:
    """Squared length of each row of a half's factor, for each output."""
    functions, coefficients = half.functions, half.coefficients
    match form:
        case "sum":
            return combine(functions, coefficients) ** 2
        case "functions":
            kept = half.kept.astype(coefficients.dtype)[:, None]
            return combine(functions**2, jnp.broadcast_to(kept, coefficients.shape))
        case "coefficients":
            shape = (functions.shape[0], coefficients.shape[1])
            return jnp.broadcast_to(jnp.sum(coefficients**2, axis=0), shape)
        case _:
            return combine(functions**2, coefficients**2)


def _factor(form: str, half: Half, output: int) -> Float[Array, "points columns"]:
    coefficients = half.coefficients[:, output]
    match form:
        case "sum":
            return (half.functions @ coefficients)[:, None]
        case "functions":
            return half.functions * half.kept
        case "coefficients":
            return jnp.broadcast_to(coefficients, half.functions.shape)
        case _:
            return half.functions * coefficients


def _spectral_norm(left: Float[Array, "points p"], right: Float[Array, "points q"]) -> Scalar:
    """Largest singular value of C[i, (j, k)] = left[i, j] right[i, k], by power iteration.

    Its gradient is that of u . C v at the fixed leading pair (u, v), so nothing is
    differentiated through the iteration.
    """

    def apply(v: Float[Array, "p q"]) -> Float[Array, " points"]:
        return jnp.sum((left @ v) * right, axis=1)

    fixed_left, fixed_right = jax.lax.stop_gradient((left, right))

    def step(_: Int[Array, ""], v: Float[Array, "p q"]) -> Float[Array, "p q"]:
        u = jnp.sum((fixed_left @ v) * fixed_right, axis=1)
        v = fixed_left.T @ (u[:, None] * fixed_right)
        return v / jnp.maximum(jnp.linalg.norm(v), jnp.finfo(v.dtype).tiny)

    # Start from the row of the largest norm: it is in the row space and not orthogonal to v.
    largest = jnp.argmax(jnp.sum(fixed_left**2, axis=1) * jnp.sum(fixed_right**2, axis=1))
    start = jnp.outer(fixed_left[largest], fixed_right[largest])
    v = jax.lax.fori_loop(0, POWER_ITERATIONS, step, start)
    u = jnp.sum((fixed_left @ v) * fixed_right, axis=1)
    u = u / jnp.maximum(jnp.linalg.norm(u), jnp.finfo(u.dtype).tiny)
    return u @ apply(v)


def root(square: Scalar) -> Scalar:
    """The square root with gradient 0, not NaN, at 0."""
    positive = square > 0
    return jnp.where(positive, jnp.sqrt(jnp.where(positive, square, 1.0)), 0.0)

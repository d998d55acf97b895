"""Matrix products in forms that keep a GPU busy.

Many rows times a matrix of few columns: the gradient by the matrix is rows^T g, few entries, each a
sum as long as there are rows. cuBLAS may leave an entry to one multiprocessor from the first row to
the last, with most of the others idle. Here the sums are taken in blocks of rows, side by side, and
then added. For a column or two a matrix product would write and read the rows for nothing: sums of
products are one kernel with what makes the rows. Of a symmetric product one half is enough.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jax.custom_derivatives import SymbolicZero
from jaxtyping import Array, Float

ROWS_A_BLOCK = 512
# So many columns are summed one by one.
FEW_COLUMNS = 4
# A symmetric product of at least so many rows is taken in panels, this many.
LARGE, PANELS = 1024, 8


def combine(
    functions: Float[Array, "rows functions"], coefficients: Float[Array, "functions columns"]
) -> Float[Array, "rows columns"]:
    """functions @ coefficients."""
    if coefficients.shape[1] > FEW_COLUMNS or jax.default_backend() == "cpu":
        return product(functions, coefficients)
    return jnp.stack([jnp.sum(functions * column, axis=1) for column in coefficients.T], axis=1)


@jax.custom_jvp
def product(
    rows: Float[Array, "rows inner"], matrix: Float[Array, "inner outer"]
) -> Float[Array, "rows outer"]:
    """rows @ matrix."""
    return rows @ matrix


def _change(primals: Any, tangents: Any) -> tuple[Any, Any]:
    (rows, matrix), (of_rows, of_matrix) = primals, tangents
    value = rows @ matrix
    change = jnp.zeros_like(value)
    if not isinstance(of_rows, SymbolicZero):
        change = change + of_rows @ matrix
    if not isinstance(of_matrix, SymbolicZero):
        change = change + _in_blocks(rows, of_matrix)
    return value, change


product.defjvp(_change, symbolic_zeros=True)


def _in_blocks(
    rows: Float[Array, "rows inner"], matrix: Float[Array, "inner outer"]
) -> Float[Array, "rows outer"]:
    """rows @ matrix, each block with a matrix of its own, in which its gradient is summed."""
    count, inner = rows.shape
    num_blocks = count // ROWS_A_BLOCK
    if num_blocks < 2 or jax.default_backend() == "cpu":
        return rows @ matrix
    # Without padding, where the rows allow it.
    fewer = range(num_blocks, num_blocks // 2, -1)
    num_blocks = next((n for n in fewer if count % n == 0), num_blocks)
    filled = jnp.pad(rows, ((0, -count % num_blocks), (0, 0)))
    blocks = filled.reshape(num_blocks, -1, inner)
    each = blocks @ jnp.broadcast_to(matrix, (num_blocks, *matrix.shape))
    return each.reshape(-1, matrix.shape[1])[:count]


def lower_gram(rows: Float[Array, "rows inner"]) -> Float[Array, "rows rows"]:
    """rows @ rows^T, right on and below the diagonal; what is above it is not to be read."""
    count = len(rows)
    if count < LARGE or jax.default_backend() == "cpu":
        return rows @ rows.T
    size = -(-count // PANELS)
    panels = [
        jnp.pad(rows[begin:] @ rows[begin : begin + size].T, ((begin, 0), (0, 0)))
        for begin in range(0, count, size)
    ]
    return jnp.concatenate(panels, axis=1)

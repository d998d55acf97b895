"""Matrix products in forms that keep a GPU busy.

Many rows times a matrix of few columns: the gradient by the matrix is rows^T g, few entries, each a
sum over all rows. cuBLAS may leave an entry to one multiprocessor from the first row to the last,
while most of the others are idle. Here the sums are computed in blocks of rows, in parallel, and
then added. For one or two columns a matrix product would write and read the rows for nothing: sums
of products form one kernel with the computation of the rows. Of a symmetric product one half is
enough.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jax.custom_derivatives import SymbolicZero
from jaxtyping import Array, Float

from pann.runtime.platform import on_cpu

ROWS_PER_BLOCK = 512
# Up to this number of columns, each is summed by itself.
FEW_COLUMNS = 4
# A symmetric product of at least LARGE rows is computed in PANELS panels.
LARGE, PANELS = 1024, 8


def combine(
    functions: Float[Array, "rows functions"], coefficients: Float[Array, "functions columns"]
) -> Float[Array, "rows columns"]:
    """functions @ coefficients."""
    if coefficients.shape[1] > FEW_COLUMNS or on_cpu():
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
    """rows @ matrix; each block has its own copy of the matrix, in which its gradient is summed."""
    count, inner = rows.shape
    num_blocks = count // ROWS_PER_BLOCK
    if num_blocks < 2 or on_cpu():
        return rows @ matrix
    # Without padding, where the rows allow it.
    fewer = range(num_blocks, num_blocks // 2, -1)
    num_blocks = next((n for n in fewer if count % n == 0), num_blocks)
    filled = jnp.pad(rows, ((0, -count % num_blocks), (0, 0)))
    blocks = filled.reshape(num_blocks, -1, inner)
    each = blocks @ jnp.broadcast_to(matrix, (num_blocks, *matrix.shape))
    return each.reshape(-1, matrix.shape[1])[:count]


def lower_gram(rows: Float[Array, "rows inner"]) -> Float[Array, "rows rows"]:
    """rows @ rows^T, correct on and below the diagonal; entries above it must not be read."""
    count = len(rows)
    if count < LARGE or on_cpu():
        return rows @ rows.T
    size = -(-count // PANELS)
    panels = [
        jnp.pad(rows[begin:] @ rows[begin : begin + size].T, ((begin, 0), (0, 0)))
        for begin in range(0, count, size)
    ]
    return jnp.concatenate(panels, axis=1)

"""Points in chunks: what is large is made for one chunk, added up, and forgotten.

An array of points becomes one of shape (chunks, size, ...), the last chunk filled up with
repetitions of the last point, which must not count: whoever sums gives them weight zero. A
gradient makes each chunk again instead of keeping what it was made of, so that memory depends on
the size of a chunk alone; it is the gradient of the sum, to rounding.

Least-squares problems are not summed but compressed: the rows [J r] of a chunk are put below the
triangular factor of those before, and factorized again. The result has all the inner products of
the columns, so it serves in the place of the rows, and J^T J, which would square their condition,
is never made.
"""

import dataclasses
import math
import re
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PyTree, Shaped

from pann import devices

UNITS = {"": 1, "B": 1} | {
    f"{prefix}{middle}B": base**power
    for middle, base in (("", 10**3), ("I", 2**10))
    for power, prefix in enumerate("KMGT", start=1)
}


def parse_bytes(size: int | float | str) -> int:
    """A number of bytes: 2000000, "2MB" or "1.5 GiB"."""
    match = re.fullmatch(r"\s*([0-9]*\.?[0-9]+(?:E[0-9]+)?)\s*([A-Z]*)\s*", str(size).upper())
    number = 0 if match is None or isinstance(size, bool) else float(match[1])
    if match is None or match[2] not in UNITS or not 1 <= number * UNITS[match[2]] < math.inf:
        raise ValueError(f"memory is a size such as '2GB' or a number of bytes, got {size!r}")
    return int(number * UNITS[match[2]])


@dataclasses.dataclass(frozen=True)
class Chunking:
    """How many points there are, and how many of them are in a chunk."""

    count: int
    size: int

    @property
    def num_chunks(self) -> int:
        return -(-self.count // self.size)

    @property
    def padded(self) -> int:
        return self.num_chunks * self.size

    def split(self, array: Shaped[np.ndarray, "points *rest"]) -> Shaped[Array, "c s *rest"]:
        """The array in chunks, over all devices."""
        rest = np.broadcast_to(array[-1:], (self.padded - len(array), *array.shape[1:]))
        whole = np.concatenate([array, rest]) if len(rest) else array
        return devices.spread(whole.reshape(self.num_chunks, self.size, *array.shape[1:]))

    def pad(self, weights: Float[np.ndarray, " points"]) -> Float[np.ndarray, " padded"]:
        """Weights of all points, zero for those that fill up the last chunk."""
        return np.pad(weights, (0, self.padded - self.count))

    def is_point(self, number: Int[Array, ""]) -> Bool[Array, " size"]:
        """Which points of the chunk of this number are no repetitions."""
        return number * self.size + jnp.arange(self.size) < self.count


def chunking(count: int, largest: int | float) -> Chunking:
    """Chunks of at most so many points, as even as can be, multiples of the number of devices."""
    num_chunks = math.ceil(count / largest)
    each = -(-count // num_chunks)
    num_devices = jax.device_count()
    return Chunking(count, -(-each // num_devices) * num_devices)


def total(function: Callable[[PyTree, Int[Array, ""]], PyTree], chunks: PyTree) -> PyTree:
    """The sum of function(chunk, number of the chunk) over all chunks."""
    num_chunks = jax.tree.leaves(chunks)[0].shape[0]
    numbered = (chunks, jnp.arange(num_chunks))
    first = jax.tree.map(lambda array: array[0], numbered)
    if num_chunks == 1:
        return function(*first)
    shapes = jax.eval_shape(function, *first)
    zeros = jax.tree.map(lambda shape: jnp.zeros(shape.shape, shape.dtype), shapes)
    again = jax.checkpoint(function)
    add = lambda sums, part: (jax.tree.map(jnp.add, sums, again(*part)), None)
    return jax.lax.scan(add, zeros, numbered)[0]


def each(function: Callable[[PyTree], Array], chunks: PyTree) -> Array:
    """function(chunk), a row for each point, for all points one after another."""
    rows = jax.lax.map(function, chunks)
    return rows.reshape(-1, *rows.shape[2:])


def compressed(
    function: Callable[[PyTree, PyTree], Float[Array, "rows columns"]], chunks: PyTree, same: PyTree
) -> Float[Array, "few columns"]:
    """A matrix with the inner products of the columns of all function(chunk, same) together."""

    def of_device(chunks: PyTree, same: PyTree) -> Float[Array, "few columns"]:
        first = jax.tree.map(lambda array: array[0], chunks)
        shape = jax.eval_shape(function, first, same)
        upper = jnp.zeros((shape.shape[1], shape.shape[1]), shape.dtype)

        def put_below(upper: Array, chunk: PyTree) -> tuple[Array, None]:
            rows = jnp.concatenate([upper, function(chunk, same)])
            return jnp.linalg.qr(rows, mode="r"), None

        return jax.lax.scan(put_below, upper, chunks)[0]

    return devices.on_each_device(of_device, chunks, same)


def take(tree: PyTree, numbers: Int[Array, " chosen"]) -> PyTree:
    """The points of these numbers from a tree in chunks."""
    size = jax.tree.leaves(tree)[0].shape[1]
    return jax.tree.map(lambda array: array[numbers // size, numbers % size], tree)

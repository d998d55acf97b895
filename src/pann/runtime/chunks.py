"""Points over all devices that JAX sees, of this process and of others; parameters on each.

With one device nothing here does anything. With several, arrays of points in chunks are
split along the points of each chunk, XLA adds up what the devices found, and the
triangular factors of Gauss-Newton are made on each device for its own points. Several processes
start with `jax.distributed.initialize()`: see docs/devices.md.
"""

import dataclasses
import functools
import math
import re
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, Bool, Float, Int, PyTree, Shaped

AXIS = "points"
OVER_POINTS = PartitionSpec(None, AXIS)


def several() -> bool:
    """Whether there is more than one device."""
    return jax.device_count() > 1


def chosen() -> object:
    """The device that the user chose for new arrays, by `jax.default_device` for instance."""
    return jax.config.jax_default_device  # type: ignore[attr-defined]


def spread(array: np.ndarray) -> Array:
    """An array (chunks, points of a chunk, ...) with the points of each chunk over all devices."""
    if not several():
        return jnp.asarray(array)
    # Each process hands over what its own devices hold.
    sharding = NamedSharding(_mesh(), OVER_POINTS)
    return jax.make_array_from_callback(array.shape, sharding, lambda index: array[index])


def on_each_device(
    function: Callable[[PyTree, PyTree], Float[Array, "rows columns"]], chunks: PyTree, same: PyTree
) -> Float[Array, "all_rows columns"]:
    """function(own share of the chunks, same) on every device, the rows one below the other."""
    if not several():
        return function(chunks, same)
    specs = OVER_POINTS, PartitionSpec()
    mapped = jax.shard_map(
        function, mesh=_mesh(), in_specs=specs, out_specs=PartitionSpec(AXIS), check_vma=False
    )
    return jax.lax.with_sharding_constraint(
        mapped(chunks, same), NamedSharding(_mesh(), PartitionSpec())
    )


@functools.cache
def _mesh() -> Mesh:
    return jax.make_mesh((jax.device_count(),), (AXIS,), axis_types=(AxisType.Auto,))


# ---- Points in chunks: what is large is made for one chunk, added up, and forgotten ----


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
        return spread(whole.reshape(self.num_chunks, self.size, *array.shape[1:]))

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

    return on_each_device(of_device, chunks, same)


def take(tree: PyTree, numbers: Int[Array, " chosen"]) -> PyTree:
    """The points of these numbers from a tree in chunks."""
    size = jax.tree.leaves(tree)[0].shape[1]
    return jax.tree.map(lambda array: array[numbers // size, numbers % size], tree)


# ---- A sum over points, part by part, so that a gradient's way back finds all it needs in t ----


# What the part of this number adds to the sum: of the parameters, and of data that stay the same.
PartSum = Callable[[PyTree, PyTree, Int[Array, ""]], Float[Array, ""]]


@eqx.filter_custom_vjp
def total_parts(
    parameters: PyTree, data: PyTree, of_part: PartSum, num_parts: int
) -> Float[Array, ""]:
    """The sum of of_part(parameters, data, number) over all parts."""
    return _add_up(lambda number: of_part(parameters, data, number), num_parts)


@total_parts.def_fwd
def _total_and_gradient(
    perturbed: PyTree, parameters: PyTree, data: PyTree, of_part: PartSum, num_parts: int
) -> tuple[Float[Array, ""], PyTree]:
    moving, fixed = eqx.partition(parameters, perturbed)

    def both(number: Int[Array, ""]) -> tuple[Float[Array, ""], PyTree]:
        value = lambda moving: of_part(eqx.combine(moving, fixed), data, number)
        return jax.value_and_grad(value)(moving)

    return _add_up(both, num_parts)


@total_parts.def_bwd
def _scaled_gradient(
    gradient: PyTree,
    cotangent: Float[Array, ""],
    perturbed: PyTree,
    parameters: PyTree,
    data: PyTree,
    of_part: PartSum,
    num_parts: int,
) -> PyTree:
    return jax.tree.map(lambda leaf: cotangent * leaf, gradient)


def _add_up(of_part: Callable[[Int[Array, ""]], PyTree], num_parts: int) -> PyTree:
    shapes = jax.eval_shape(of_part, jnp.zeros((), int))
    zeros = jax.tree.map(lambda shape: jnp.zeros(shape.shape, shape.dtype), shapes)
    add = lambda number, sums: jax.tree.map(jnp.add, sums, of_part(number))
    return jax.lax.fori_loop(0, num_parts, add, zeros)

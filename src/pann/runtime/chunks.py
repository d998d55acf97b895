"""Sums, gradients and factorizations over points in chunks, on one device or on several.

A chunk is a set of points of which everything large (tables, derivatives, rows of a Jacobian) is
made, used and forgotten before the next one. Chunks serve three ends: points whose tables do not
fit in memory, a gradient whose backward pass finds all it needs in the cache of a CPU, and points
over all devices that JAX sees. Arrays in chunks have the shape (chunks, points of a chunk, ...).
With several devices the points of each chunk are split over them, XLA adds up what the devices
found, and the triangular factors of Gauss-Newton are made on each device for its own points.
Several processes start with `jax.distributed.initialize()`: see docs/devices.md.
"""

import dataclasses
import functools
import math
import re
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, Bool, Float, Int, PyTree, Shaped

AXIS = "points"
OVER_POINTS = PartitionSpec(None, AXIS)

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


def several() -> bool:
    """Whether there is more than one device."""
    return jax.device_count() > 1


def chosen() -> object:
    """The device that the user chose for new arrays, by `jax.default_device` for instance."""
    return jax.config.jax_default_device  # type: ignore[attr-defined]


@functools.cache
def _mesh() -> Mesh:
    return jax.make_mesh((jax.device_count(),), (AXIS,), axis_types=(AxisType.Auto,))


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
        """The array in chunks, over all devices; the last point fills up the last chunk."""
        rest = np.broadcast_to(array[-1:], (self.padded - len(array), *array.shape[1:]))
        whole = np.concatenate([array, rest]) if len(rest) else array
        chunks = whole.reshape(self.num_chunks, self.size, *array.shape[1:])
        if not several():
            return jnp.asarray(chunks)
        # Each process hands over what its own devices hold.
        sharding = NamedSharding(_mesh(), OVER_POINTS)
        return jax.make_array_from_callback(chunks.shape, sharding, lambda index: chunks[index])

    def pad(self, weights: Float[np.ndarray, " points"]) -> Float[np.ndarray, " padded"]:
        """Weights of all points, zero for those that fill up the last chunk."""
        return np.pad(weights, (0, self.padded - self.count))

    def is_point(self, number: Int[Array, ""]) -> Bool[Array, " size"]:
        """Which points of the chunk of this number are not repetitions."""
        return number * self.size + jnp.arange(self.size) < self.count


def chunking(count: int, largest: int | float) -> Chunking:
    """Chunks of at most so many points, as even as can be, multiples of the number of devices."""
    num_chunks = math.ceil(count / largest)
    each = -(-count // num_chunks)
    num_devices = jax.device_count()
    return Chunking(count, -(-each // num_devices) * num_devices)


class InChunks(eqx.Module):
    """Rows at points in chunks: `complete` makes of one chunk the rows with all their tables."""

    points: Any
    chunking: Chunking = eqx.field(static=True)
    complete: Callable[[Any], Any] = eqx.field(static=True)

    @property
    def num_points(self) -> int:
        return self.chunking.count

    @property
    def name(self) -> str:
        return self.points.name

    @property
    def x(self) -> Float[Array, "points d"]:
        """The reference points, one after another."""
        return self.points.x.reshape(-1, self.points.x.shape[2])[: self.num_points]

    def chunk(self, number: Int[Array, ""]) -> Any:
        """The rows of one chunk."""
        return self.complete(jax.tree.map(lambda array: array[number], self.points))

    def total(self, function: Callable[[Any], PyTree]) -> PyTree:
        """The sum of function(rows) over all chunks."""
        of_chunk = lambda number: function(self.chunk(number))
        return _sum_again(of_chunk, self.chunking.num_chunks)

    def each(self, function: Callable[[Any], Array]) -> Shaped[Array, "padded *rest"]:
        """function(rows), one entry per point, with those that fill up the last chunk."""
        found = jax.lax.map(lambda chunk: function(self.complete(chunk)), self.points)
        return found.reshape(-1, *found.shape[2:])

    def at_points(self, function: Callable[[Any], Array]) -> Shaped[Array, "points *rest"]:
        """function(rows), one entry per point."""
        return self.each(function)[: self.num_points]

    def columns(
        self, function: Callable[[Any, PyTree], tuple[Array, ...]], same: PyTree
    ) -> tuple[Array, ...]:
        """Few rows with the inner products of all columns of function(rows, same)."""
        widths: list[int] = []

        def joined(chunk: Any, same: PyTree) -> Float[Array, "rows columns"]:
            groups = function(self.complete(chunk), same)
            widths[:] = [group.shape[1] for group in groups]
            return jnp.concatenate(groups, axis=1)

        few = compressed(joined, self.points, same)
        return tuple(jnp.split(few, np.cumsum(widths)[:-1].tolist(), axis=1))

    def take(self, numbers: Int[Array, " chosen"]) -> Any:
        """The rows of the points of these numbers."""
        return self.complete(take(self.points, numbers))


def take(tree: PyTree, numbers: Int[Array, " chosen"]) -> PyTree:
    """The points of these numbers from a tree in chunks."""
    size = jax.tree.leaves(tree)[0].shape[1]
    return jax.tree.map(lambda array: array[numbers // size, numbers % size], tree)


# What the chunk of this number adds to some sums: of the parameters, and of data that are constant.
OfChunk = Callable[[PyTree, PyTree, Int[Array, ""]], PyTree]


def sum_over(of_chunk: OfChunk, num_chunks: int, parameters: PyTree, data: PyTree) -> PyTree:
    """The sum of of_chunk(parameters, data, number) over all chunks.

    The gradient of a single number is found along with it, chunk by chunk, nothing of it twice; for
    several numbers each chunk is computed a second time. In the former case `of_chunk` must have
    all of its arrays from its arguments.
    """
    number = jnp.zeros((), int)
    if num_chunks == 1:
        return of_chunk(parameters, data, number)
    leaves, structure = jax.tree.flatten(jax.eval_shape(of_chunk, parameters, data, number))
    if [leaf.shape for leaf in leaves] == [()]:
        one = _sum_with_gradient(parameters, data, of_chunk, num_chunks)
        return jax.tree.unflatten(structure, [one])
    return _sum_again(lambda number: of_chunk(parameters, data, number), num_chunks)


def _sum_again(of_chunk: Callable[[Int[Array, ""]], PyTree], num_chunks: int) -> PyTree:
    """The sum, whose gradient computes each chunk a second time."""
    return _add_up(jax.checkpoint(of_chunk), num_chunks)


@eqx.filter_custom_vjp
def _sum_with_gradient(
    parameters: PyTree, data: PyTree, of_chunk: OfChunk, num_chunks: int
) -> Float[Array, ""]:
    return _add_up(lambda number: _only(of_chunk(parameters, data, number)), num_chunks)


@_sum_with_gradient.def_fwd
def _sum_and_gradient(
    perturbed: PyTree, parameters: PyTree, data: PyTree, of_chunk: OfChunk, num_chunks: int
) -> tuple[Float[Array, ""], PyTree]:
    moving, fixed = eqx.partition(parameters, perturbed)

    def both(number: Int[Array, ""]) -> tuple[Float[Array, ""], PyTree]:
        value = lambda moving: _only(of_chunk(eqx.combine(moving, fixed), data, number))
        return jax.value_and_grad(value)(moving)

    return _add_up(both, num_chunks)


@_sum_with_gradient.def_bwd
def _scaled_gradient(gradient: PyTree, cotangent: Float[Array, ""], *_: Any) -> PyTree:
    return jax.tree.map(lambda leaf: cotangent * leaf, gradient)


def _add_up(of_chunk: Callable[[Int[Array, ""]], PyTree], num_chunks: int) -> PyTree:
    shapes = jax.eval_shape(of_chunk, jnp.zeros((), int))
    zeros = jax.tree.map(lambda shape: jnp.zeros(shape.shape, shape.dtype), shapes)
    add = lambda number, sums: jax.tree.map(jnp.add, sums, of_chunk(number))
    return jax.lax.fori_loop(0, num_chunks, add, zeros)


def _only(tree: PyTree) -> Float[Array, ""]:
    (leaf,) = jax.tree.leaves(tree)
    return leaf


def compressed(
    function: Callable[[PyTree, PyTree], Float[Array, "rows columns"]], chunks: PyTree, same: PyTree
) -> Float[Array, "few columns"]:
    """A matrix with the inner products of the columns of all function(chunk, same) together.

    Each device adds one chunk after the other to the triangular factor of its own points.
    """

    def of_device(chunks: PyTree, same: PyTree) -> Float[Array, "few columns"]:
        first = jax.tree.map(lambda array: array[0], chunks)
        shape = jax.eval_shape(function, first, same)
        upper = jnp.zeros((shape.shape[1], shape.shape[1]), shape.dtype)

        def put_below(upper: Array, chunk: PyTree) -> tuple[Array, None]:
            rows = jnp.concatenate([upper, function(chunk, same)])
            return jnp.linalg.qr(rows, mode="r"), None

        return jax.lax.scan(put_below, upper, chunks)[0]

    if not several():
        return of_device(chunks, same)
    mapped = jax.shard_map(
        of_device,
        mesh=_mesh(),
        in_specs=(OVER_POINTS, PartitionSpec()),
        out_specs=PartitionSpec(AXIS),
        check_vma=False,
    )
    everywhere = NamedSharding(_mesh(), PartitionSpec())
    return jax.lax.with_sharding_constraint(mapped(chunks, same), everywhere)

"""Points over all devices that JAX sees, of this process and of others; parameters on each.

With one device nothing here does anything. With several, arrays of points in chunks (see
`pann.chunks`) are split along the points of each chunk, XLA adds up what the devices found, and the
triangular factors of Gauss-Newton are made on each device for its own points. Several processes
start with `jax.distributed.initialize()`: see docs/devices.md.
"""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, Float, PyTree

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

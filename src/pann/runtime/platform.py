"""Where programs run: one answer for all code that has one form for a CPU and one for a GPU."""

import jax


def on_cpu() -> bool:
    """Whether new arrays and programs go to a CPU.

    `jax.default_device` decides where it is set, as on a machine with a GPU that is to stay idle;
    otherwise the backend does. JAX traces again where the default device is another.
    """
    device = jax.config.jax_default_device  # type: ignore[attr-defined]
    if device is None:
        return jax.default_backend() == "cpu"
    return (device if isinstance(device, str) else device.platform) == "cpu"

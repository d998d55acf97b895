"""Units that are products of functions of one coordinate each."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int


class ProductUnits(eqx.Module):
    """s_1(x_1) ... s_d(x_d) for each unit: a sum of them is a separable function.

    The functions are piecewise cubic on [-1, 1], beyond it as at its end. `breaks` are the ends of
    their cells, the last one repeated where a function has fewer cells than another;
    `coefficients` those of s^3, s^2, s and 1 in a cell, with s from 0 to 1 across it.

    Their own stage, `AddProducts`, fits them; the other stages move only their coefficients a in
    the model.
    """

    breaks: Float[Array, "*trials units d ends"]
    coefficients: Float[Array, "*trials units d cells 4"]

    @property
    def width(self) -> int:
        return self.breaks.shape[-3]

    def features(self, x: Float[Array, " d"]) -> Float[Array, " units"]:
        """The units at one point."""
        inside = jnp.clip(x, -1, 1)
        along_axes = jax.vmap(_piecewise_cubic)
        unit = lambda breaks, coefficients: jnp.prod(along_axes(breaks, coefficients, inside))
        return jax.vmap(unit)(self.breaks, self.coefficients)

    def select(self, kept: Int[np.ndarray, " kept"]) -> "ProductUnits":
        """Only these units."""
        with jax.enable_x64(True):
            return ProductUnits(
                jax.device_put(np.asarray(self.breaks)[kept]),
                jax.device_put(np.asarray(self.coefficients)[kept]),
            )


def _piecewise_cubic(
    breaks: Float[Array, " ends"], coefficients: Float[Array, "cells 4"], x: Float[Array, ""]
) -> Float[Array, ""]:
    # From the left: the right end belongs to the last cell that has a length.
    cell = jnp.searchsorted(breaks[1:-1], x, side="left")
    left, right = breaks[cell], breaks[cell + 1]
    return jnp.polyval(coefficients[cell], (x - left) / (right - left))

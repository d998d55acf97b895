"""The polynomial half by itself: as a model, and carried from one basis to another."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from pann.basis import Basis
from pann.domain import Box
from pann.model.pann import PANN, Parameters
from pann.runtime import chunks
from pann.solvers.newton import Unknowns
from pann.solvers.solution import Solution


def carried(before: Solution, basis: Basis, unknowns: Unknowns) -> Unknowns:
    """The coefficients of an earlier solution in a larger basis."""
    place = {tuple(index): k for k, index in enumerate(basis.indices.tolist())}
    b = np.asarray(unknowns.b).copy()
    old = np.asarray(before.model.parameters.b)
    for k, index in enumerate(before.model.basis.indices.tolist()):
        if tuple(index) in place:
            b[place[tuple(index)]] = old[k]
    parameters = {
        name: jnp.asarray(before.parameters.get(name, value), b.dtype)
        for name, value in unknowns.parameters.items()
    }
    return Unknowns(jnp.asarray(b), parameters)


def polynomial_model(domain: Box, basis: Basis, unknowns: Unknowns, precision: str) -> PANN:
    """A model without a network."""
    num_terms, num_fields = unknowns.b.shape
    filled = _filled(num_terms, num_fields, precision, unknowns.b.dtype, chunks.chosen())
    parameters = Parameters(network=None, b=unknowns.b, bias=None, **filled)
    return PANN(domain, basis, parameters, precision, None if num_fields == 1 else num_fields)


@functools.lru_cache(maxsize=16)
def _filled(
    num_terms: int, num_fields: int, precision: str, dtype: np.dtype, device: object
) -> dict[str, Any]:
    """The parameters that all models of a size without a network share; `device` has them."""
    # Arrays of NumPy are only moved: JAX would compile a program to fill one of every size.
    return jax.device_put(
        {
            "a": np.zeros((0, num_fields), precision),
            "keep_a": np.ones(0, bool),
            "keep_b": np.ones(num_terms, bool),
            "overlap": np.zeros((num_terms, num_fields), dtype),
        }
    )

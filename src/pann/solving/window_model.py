"""All windows as one model: polynomials in pieces of time, in the functions of the finest axes."""

import jax
import numpy as np
from jaxtyping import Float

from pann.basis import Basis, Family, Legendre, PiecewiseLegendre
from pann.domain import Box
from pann.model import PANN, Parameters
from pann.pde.problem import Problem
from pann.pde.windows.solved import Solved
from pann.pde.windows.space_axis import SpaceAxis


def joined(problem: Problem, windows: list[Solved]) -> PANN:
    """The windows in the functions of the finest axes, which hold those of all others."""
    domain = _up_to(problem.domain, windows[-1].end)
    axes = windows[-1].axes
    families = {axis.name: _plain(axis.family) for axis in axes}
    edges = np.array([window.begin for window in windows])
    number = domain.names.index(str(domain.time))
    breaks = 2.0 * (edges[1:] - domain.lower[number]) / domain.widths[number] - 1.0
    family: Family = PiecewiseLegendre(tuple(breaks.tolist())) if len(breaks) else Legendre()
    families[str(domain.time)] = family
    tensor = _in_steps(family, np.stack([_on(axes, window) for window in windows], axis=-1))
    # To the order of the domain's axes, with the fields last.
    tensor = np.moveaxis(np.moveaxis(tensor, -1, 1 + number), 0, -1)
    kept = np.any(tensor != 0, axis=-1)
    basis = Basis(
        domain, tuple(families[name] for name in domain.names), np.argwhere(kept).astype(np.int64)
    )
    b, num_fields = tensor[kept], len(problem.fields)
    # Arrays of NumPy are only moved: JAX would compile a program to fill one of every size.
    parameters = Parameters(
        network=None,
        a=jax.device_put(np.zeros((0, num_fields))),
        b=jax.device_put(b),
        bias=None,
        keep_a=jax.device_put(np.ones(0, bool)),
        keep_b=jax.device_put(np.ones(len(b), bool)),
        overlap=jax.device_put(np.zeros_like(b)),
    )
    return PANN(domain, basis, parameters, "float64", None if num_fields == 1 else num_fields)


def _up_to(domain: Box, end: float) -> Box:
    """The domain as far as the windows go."""
    number = domain.names.index(str(domain.time))
    if abs(end - domain.upper[number]) <= 1e-9 * domain.widths[number]:
        return domain
    ends = {
        name: (low, end if name == domain.time else high)
        for name, low, high in zip(domain.names, domain.lower, domain.upper, strict=True)
    }
    return Box(periodic=domain.periodic, time=domain.time, **ends)


def _plain(family: Family) -> Family:
    """One piece is the whole axis."""
    one = isinstance(family, PiecewiseLegendre) and family.num_pieces == 1
    return Legendre() if one else family


def _on(axes: tuple[SpaceAxis, ...], window: Solved) -> Float[np.ndarray, "fields ... degrees"]:
    """A window's coefficients in the functions of other axes."""
    coefficients = window.coefficients
    if axes == window.axes:
        return coefficients
    for old, new in zip(window.axes, axes, strict=True):
        coefficients = np.tensordot(coefficients, new.transfer_from(old), axes=(1, 1))
    # The degrees have come to stand behind the fields.
    coefficients = np.moveaxis(coefficients, 1, -1)
    return np.where(np.abs(coefficients) > 1e-18 * np.max(np.abs(coefficients)), coefficients, 0.0)


def _in_steps(
    family: Family, tensor: Float[np.ndarray, "fields ... degrees windows"]
) -> Float[np.ndarray, "fields ... functions"]:
    """Coefficients of the functions of time: degree by degree all windows, degree 0 in steps."""
    if isinstance(family, PiecewiseLegendre):
        middles = 0.5 * np.convolve([-1.0, *family.breaks, 1.0], [1.0, 1.0], "valid")
        steps = family.table(middles, family.num_pieces)
        level_0 = tensor[..., 0, :]
        solved = np.linalg.solve(steps, level_0.reshape(-1, family.num_pieces).T).T
        tensor = np.concatenate(
            [solved.reshape(level_0.shape)[..., None, :], tensor[..., 1:, :]], axis=-2
        )
    return tensor.reshape(*tensor.shape[:-2], -1)

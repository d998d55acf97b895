"""An ansatz as plain values and arrays, and back, with the same suspicion as a model's."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from pann.files.checks import FileError, check_list, check_object, shown
from pann.files.model_state import basis_from, basis_sizes, basis_state, check_arrays
from pann.model import PANN
from pann.pde.ansatz import ALLOWED_POWERS, Ansatz, Powers

_PREFIX = "lift."
_INDICES, _COEFFICIENTS = f"{_PREFIX}indices", f"{_PREFIX}coefficients"

Arrays = dict[str, np.ndarray]


def split_arrays(arrays: Mapping[str, np.ndarray]) -> tuple[Arrays, Arrays]:
    """The arrays of an ansatz, and the others."""
    own = {name: array for name, array in arrays.items() if name.startswith(_PREFIX)}
    return own, {name: array for name, array in arrays.items() if name not in own}


def ansatz_state(ansatz: Ansatz | None) -> tuple[dict[str, Any] | None, Arrays]:
    """A header of JSON's types and plain arrays; None and nothing where no condition is hard."""
    if ansatz is None:
        return None, {}
    header = {
        "basis": basis_state(ansatz.basis),
        "powers": [[list(powers) for powers in axes] for axes in ansatz.powers],
    }
    return header, {_INDICES: ansatz.basis.indices, _COEFFICIENTS: ansatz.coefficients}


def ansatz_from_state(header: Any, arrays: Arrays, model: PANN) -> Ansatz | None:
    """The ansatz that belongs to a model, or a `FileError` that says what does not fit."""
    if header is None:
        check_arrays(arrays, "float64", {}, {}, {})
        return None
    check_object(header, "the ansatz", ("basis", "powers"))
    num_terms, num_axes = basis_sizes(header["basis"])
    fields = check_list(header["powers"], "the powers of the ansatz")
    num_fields = model.num_outputs or 1
    if len(fields) != num_fields:
        raise FileError(f"the ansatz has powers for {len(fields)} fields, the model {num_fields}")
    check_arrays(
        arrays,
        "float64",
        {_COEFFICIENTS: (num_terms, num_fields)},
        {},
        {_INDICES: (num_terms, num_axes)},
    )
    return Ansatz(
        basis_from(header["basis"], model.domain, arrays[_INDICES]),
        arrays[_COEFFICIENTS],
        tuple(_powers_from(axes, model.domain.dimension) for axes in fields),
    )


def _powers_from(axes: Any, dimension: int) -> tuple[Powers, ...]:
    if len(check_list(axes, "the powers of a field")) != dimension:
        raise FileError(f"a field of the ansatz has powers for {len(axes)} axes, not {dimension}")
    for powers in axes:
        pair = check_list(powers, "the powers along an axis")
        if not all(type(power) is int for power in pair) or tuple(pair) not in ALLOWED_POWERS:
            raise FileError(
                f"the powers along an axis must be one of {', '.join(map(str, ALLOWED_POWERS))}, "
                f"but are {shown(powers)}"
            )
    return tuple((low, high) for low, high in axes)

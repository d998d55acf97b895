"""Product units as plain values and arrays, and back."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Array

from pann.files.checks import check_integer, check_object
from pann.files.network_state import MAX_SIZE, Header, Shapes
from pann.network import ProductUnits

_BREAKS, _COEFFICIENTS = "product_breaks", "product_coefficients"


def products_state(products: ProductUnits) -> tuple[Header, dict[str, np.ndarray]]:
    """Everything that makes the units."""
    header = {"num_units": products.width, "num_cells": products.coefficients.shape[-2]}
    arrays = {_BREAKS: products.breaks, _COEFFICIENTS: products.coefficients}
    return header, {name: np.asarray(array) for name, array in arrays.items()}


def product_shapes(state: Any, dimension: int) -> tuple[int, Shapes]:
    """How many units there are, and the shapes of their arrays."""
    check_object(state, "the products", ("num_units", "num_cells"))
    units, cells = (
        check_integer(state[key], f"'{key}' of the products", 1, MAX_SIZE)
        for key in ("num_units", "num_cells")
    )
    return units, {
        _BREAKS: (units, dimension, cells + 1),
        _COEFFICIENTS: (units, dimension, cells, 4),
    }


def products_from_state(arrays: Mapping[str, Array]) -> ProductUnits:
    """The units of arrays that have the shapes of `product_shapes`."""
    return ProductUnits(arrays[_BREAKS], arrays[_COEFFICIENTS])

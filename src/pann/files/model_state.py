"""A model as plain values and arrays, and back: what is said in the header decides every shape.

Nothing is run that a file brings along. Names are looked up among what pann has, and the arrays
must be those that the header's sizes imply, by name, type and shape.
"""

import os
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from pann.architecture import PRECISIONS
from pann.basis import Basis, Family, PiecewiseLegendre
from pann.basis.families import FAMILIES
from pann.domain import Box
from pann.files.checks import (
    FileError,
    check_bool,
    check_integer,
    check_list,
    check_number,
    check_object,
    check_text,
    look_up,
    shown,
    told,
)
from pann.files.container import read, write
from pann.files.network_state import (
    MAX_SIZE,
    Header,
    Shapes,
    network_from_state,
    network_shapes,
    network_state,
)
from pann.files.product_state import product_shapes, products_from_state, products_state
from pann.model import PANN, Parameters

KIND = "model"
MAX_FUNCTIONS = 1_000_000  # of one variable, over all axes
MAX_BREAKS = 1_000
PIECEWISE = "piecewise_legendre"
_SCALINGS = ("plain", "orthonormal")
_KEYS = ("domain", "basis", "network", "bias", "precision", "num_outputs")
# Keys only of models that have them.
_PRODUCTS, _ERROR = "products", "relative_error"


def save(path: str | os.PathLike[str], model: PANN, about: Mapping[str, Any] | None = None) -> None:
    """Write a model to a `.pann` file; `about` takes notes of your own, in JSON's types."""
    header, arrays = model_state(model)
    write(path, KIND, {"model": header, "about": dict(about or {})}, arrays)


def load(path: str | os.PathLike[str]) -> PANN:
    """The model in a `.pann` file, which predicts to the last bit what the saved one did."""
    kind, header, arrays = read(path)
    try:
        if kind != KIND:
            raise FileError(f"it holds {shown(kind)}, not a model; open it with what wrote it")
        check_object(header, "the header", ("model", "about"))
        if not isinstance(header["about"], dict):
            raise FileError(f"'about' must be an object, but is {shown(header['about'])}")
        return model_from_state(header["model"], arrays)
    except FileError as error:
        raise FileError(f"cannot load {os.fspath(path)!r}: {error}") from error


def model_state(model: PANN) -> tuple[Header, dict[str, np.ndarray]]:
    """Everything that makes the model, as a header of JSON's types and plain arrays."""
    if model.basis.domain != model.domain:
        raise FileError("the model's basis lives on another domain than the model; make them agree")
    parameters = model.parameters
    arrays: dict[str, Any] = {
        "indices": model.basis.indices,
        "a": parameters.a,
        "b": parameters.b,
        "keep_a": parameters.keep_a,
        "keep_b": parameters.keep_b,
        "overlap": parameters.overlap,
    }
    if parameters.bias is not None:
        arrays["bias"] = parameters.bias
    network = None
    if parameters.network is not None:
        network, network_arrays = network_state(parameters.network)
        arrays |= network_arrays
    header: Header = {
        "domain": _domain_state(model.domain),
        "basis": basis_state(model.basis),
        "network": network,
        "bias": parameters.bias is not None,
        "precision": model.precision,
        "num_outputs": None if model.num_outputs is None else int(model.num_outputs),
    }
    if parameters.products is not None:
        header[_PRODUCTS], product_arrays = products_state(parameters.products)
        arrays |= product_arrays
    if model.relative_error is not None:
        header[_ERROR] = float(model.relative_error)
    state = {name: np.asarray(array) for name, array in arrays.items()}
    # What could not be loaded is refused now, while the model still exists.
    model_from_state(header, state)
    return header, state


def model_from_state(header: Any, arrays: Mapping[str, np.ndarray]) -> PANN:
    """The model of a header and arrays, or a `FileError` that says what does not fit."""
    extra = [key for key in (_PRODUCTS, _ERROR) if isinstance(header, dict) and key in header]
    check_object(header, "the model", (*_KEYS, *extra))
    has_products, relative_error = _PRODUCTS in extra, None
    if _ERROR in extra:
        relative_error = check_number(header[_ERROR], "the relative error")
    precision = look_up(header["precision"], "the precision", {p: p for p in PRECISIONS})
    domain = _domain_from(header["domain"])
    num_outputs = header["num_outputs"]
    if num_outputs is not None:
        check_integer(num_outputs, "the number of outputs", 1, MAX_SIZE)
    num_terms, num_axes = basis_sizes(header["basis"])
    bias = check_bool(header["bias"], "'bias' of the model")
    network, layers, width = header["network"], {}, 0
    if network is not None:
        layers = network_shapes(network, domain.dimension)
        width = network["widths"][-1]
    if has_products:
        num_products, shapes = product_shapes(header[_PRODUCTS], domain.dimension)
        layers, width = layers | shapes, width + num_products

    outputs = num_outputs or 1
    floats: Shapes = layers | {
        "a": (width, outputs),
        "b": (num_terms, outputs),
        "overlap": (num_terms, outputs),
        **({"bias": (outputs,)} if bias else {}),
    }
    masks: Shapes = {"keep_a": (width,), "keep_b": (num_terms,)}
    check_arrays(arrays, precision, floats, masks, {"indices": (num_terms, num_axes)})

    basis = basis_from(header["basis"], domain, arrays["indices"])
    with jax.enable_x64(True):
        on_device = {name: jax.device_put(np.asarray(arrays[name])) for name in floats | masks}
    parameters = Parameters(
        network=None if network is None else network_from_state(network, on_device),
        a=on_device["a"],
        b=on_device["b"],
        bias=on_device["bias"] if bias else None,
        keep_a=on_device["keep_a"],
        keep_b=on_device["keep_b"],
        overlap=on_device["overlap"],
        products=products_from_state(on_device) if has_products else None,
    )
    return PANN(domain, basis, parameters, precision, num_outputs, relative_error)


def check_arrays(
    arrays: Mapping[str, np.ndarray], precision: str, floats: Shapes, masks: Shapes, whole: Shapes
) -> None:
    """The arrays must be exactly these, with finite numbers."""
    expected = {name: (precision, shape) for name, shape in floats.items()}
    expected |= {name: ("bool", shape) for name, shape in masks.items()}
    expected |= {name: ("int64", shape) for name, shape in whole.items()}
    for name in arrays:
        if name not in expected:
            raise FileError(f"the model has no place for an array {shown(name)}")
    for name, (dtype, shape) in expected.items():
        if name not in arrays:
            raise FileError(f"the model's array '{name}' is missing")
        array = arrays[name]
        if array.dtype != dtype or array.shape != shape:
            raise FileError(
                f"the model's array '{name}' must be {dtype} of shape {shown(shape)}, but is "
                f"{array.dtype} of shape {shown(array.shape)}"
            )
        if not np.isfinite(array).all():
            raise FileError(
                f"the model's array '{name}' has numbers that are NaN or infinite, so that it "
                "cannot predict; train it again"
            )


# ---- Domain and basis ----


def _domain_state(domain: Box) -> Header:
    bounds = zip(domain.names, domain.lower, domain.upper, strict=True)
    return {
        "axes": [{"name": name, "lower": low, "upper": high} for name, low, high in bounds],
        "periodic": list(domain.periodic),
        "time": domain.time,
    }


def _domain_from(state: Any) -> Box:
    check_object(state, "the domain", ("axes", "periodic", "time"))
    axes: dict[str, Any] = {}
    for axis in check_list(state["axes"], "the list of axes"):
        check_object(axis, "an axis", ("name", "lower", "upper"))
        name = check_text(axis["name"], "the name of an axis")
        if name in axes or name in ("self", "periodic", "time"):
            raise FileError(f"{shown(name)} cannot name an axis, or names two")
        axes[name] = tuple(
            check_number(axis[end], f"'{end}' of axis {shown(name)}") for end in ("lower", "upper")
        )
    periodic = [
        check_text(name, "a periodic axis")
        for name in check_list(state["periodic"], "the list of periodic axes")
    ]
    time = None if state["time"] is None else check_text(state["time"], "the time axis")
    try:
        return Box(periodic=periodic, time=time, **axes)
    except ValueError as error:
        raise FileError(f"the domain is wrong: {told(error)}") from None


def basis_state(basis: Basis) -> Header:
    return {
        "axes": list(basis.axes),
        "families": [_family_state(family) for family in basis.families],
        "scaling": basis.scaling,
        "num_terms": basis.num_terms,
    }


def _family_state(family: Family) -> Any:
    """A name, or an object where the family has numbers of its own."""
    if isinstance(family, PiecewiseLegendre):
        return {"name": PIECEWISE, "breaks": list(family.breaks)}
    names = {type(known): name for name, known in FAMILIES.items()}
    if type(family) not in names:
        raise FileError(
            f"the family {shown(family)} cannot be saved, for it is not one of pann's: "
            f"{', '.join((*FAMILIES, PIECEWISE))}"
        )
    return names[type(family)]


def _family_from(state: Any) -> Family:
    if not isinstance(state, dict):
        return look_up(state, "a family of the basis", FAMILIES)
    check_object(state, "a family of the basis", ("name", "breaks"))
    look_up(state["name"], "the name of a family with breaks", {PIECEWISE: PIECEWISE})
    breaks = check_list(state["breaks"], "the list of breaks")
    if len(breaks) > MAX_BREAKS:
        raise FileError(
            f"a family of the basis has {len(breaks):,} breaks, more than the {MAX_BREAKS:,} "
            "allowed; use fewer pieces"
        )
    places = tuple(check_number(place, "a break") for place in breaks)
    try:
        return PiecewiseLegendre(places)
    except ValueError as error:
        raise FileError(f"a family of the basis is wrong: {told(error)}") from None


def basis_sizes(state: Any) -> tuple[int, int]:
    check_object(state, "the basis", ("axes", "families", "scaling", "num_terms"))
    num_terms = check_integer(state["num_terms"], "the number of terms", 0, MAX_SIZE)
    return num_terms, len(check_list(state["axes"], "the list of the basis's axes"))


def basis_from(state: Header, domain: Box, indices: np.ndarray) -> Basis:
    if not state["axes"]:
        raise FileError("the basis must see at least one axis")
    axes = tuple(check_text(name, "an axis of the basis") for name in state["axes"])
    families = tuple(
        _family_from(family) for family in check_list(state["families"], "the list of families")
    )
    scaling = look_up(state["scaling"], "the scaling of the basis", {s: s for s in _SCALINGS})
    # Tables are as wide as the largest index, and one number in a file can make it anything.
    num_functions = sum(int(column.max(initial=0)) + 1 for column in indices.T)
    if num_functions > MAX_FUNCTIONS:
        raise FileError(
            f"the basis asks for {num_functions:,} functions of one variable, more than the "
            f"{MAX_FUNCTIONS:,} allowed; lower its degree"
        )
    try:
        return Basis(domain, families, indices, scaling, axes)
    except ValueError as error:
        raise FileError(f"the basis is wrong: {told(error)}") from None

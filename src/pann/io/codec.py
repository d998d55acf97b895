"""A network as plain values and arrays, and back: widths, activation and embedding."""

import dataclasses
import os
from collections.abc import Mapping
from typing import Any, TypeAlias, TypeVar

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array

from pann.basis import Basis, Family, PiecewiseLegendre
from pann.basis.families import FAMILIES
from pann.domain import Box
from pann.io.container import (
    FileError,
    check_bool,
    check_integer,
    check_list,
    check_number,
    check_object,
    check_text,
    look_up,
    read,
    shown,
    told,
    write,
)
from pann.model.architecture import PRECISIONS
from pann.model.pann import PANN, Parameters
from pann.network import (
    MLP,
    Activation,
    AxisEmbedding,
    CircleEmbedding,
    Embedding,
    ModifiedMLP,
    Network,
    PeriodicEmbedding,
    ProductUnits,
    RandomFourierFeatures,
    RePU,
    check_gated_widths,
)
from pann.network.activations import ACTIVATIONS

MAX_SIZE = 2**40  # of anything counted: only arrays that are there can have such shapes
MAX_POWER = 100

Header: TypeAlias = dict[str, Any]
Shapes: TypeAlias = dict[str, tuple[int, ...]]
Module = TypeVar("Module", bound=eqx.Module)

# The arrays of an embedding are its fields, under their names with this before them.
_PREFIX = "embedding_"
_EMBEDDINGS: dict[str, type[Embedding]] = {
    "random_fourier": RandomFourierFeatures,
    "periodic": PeriodicEmbedding,
    "axis_units": AxisEmbedding,
    "circles": CircleEmbedding,
}
_EMBEDDING_KEYS = {
    "random_fourier": ("name", "num_frequencies"),
    "periodic": ("name", "num_frequencies", "size", "rectified"),
    "axis_units": ("name", "num_units", "num_inputs", "activation"),
    "circles": ("name", "num_inputs", "axes"),
}


_NETWORK_KEYS = ("widths", "activation", "dropout", "embedding")
_MODIFIED_KEYS = (*_NETWORK_KEYS, "kind", "kept")


def network_state(network: Network) -> tuple[Header, dict[str, np.ndarray]]:
    """Everything that makes the network."""
    embedding, arrays = _embedding_state(network.embedding)
    for layer, (weight, bias) in enumerate(zip(network.weights, network.biases, strict=True)):
        arrays |= {f"weights_{layer}": np.asarray(weight), f"biases_{layer}": np.asarray(bias)}
    header = {
        "widths": [bias.shape[0] for bias in network.biases],
        "activation": _activation_state(network.activation),
        "dropout": float(network.dropout),
        "embedding": embedding,
    }
    if isinstance(network, ModifiedMLP):
        encoders = zip(network.encoder_weights, network.encoder_biases, strict=True)
        for encoder, (weight, bias) in enumerate(encoders):
            arrays[f"encoder_weights_{encoder}"] = np.asarray(weight)
            arrays[f"encoder_biases_{encoder}"] = np.asarray(bias)
        header["kind"] = "modified"
        header["kept"] = None if network.kept is None else np.asarray(network.kept).tolist()
    return header, arrays


def network_shapes(state: Any, dimension: int) -> Shapes:
    """The arrays of the network, each of the shape that chains it to the ones before."""
    modified = isinstance(state, dict) and "kind" in state
    check_object(state, "the network", _MODIFIED_KEYS if modified else _NETWORK_KEYS)
    widths = check_list(state["widths"], "the list of widths")
    if not widths:
        raise FileError("the network has no layers; where there is no network, write null")
    for width in widths:
        check_integer(width, "the width of a layer", 1, MAX_SIZE)
    inputs, shapes = _embedding_shapes(state["embedding"], dimension)
    for layer, (before, width) in enumerate(zip([inputs, *widths[:-1]], widths, strict=True)):
        shapes |= {f"weights_{layer}": (width, before), f"biases_{layer}": (width,)}
    if modified:
        _check_gates(state)
        for encoder in range(2):
            shapes[f"encoder_weights_{encoder}"] = (widths[0], inputs)
            shapes[f"encoder_biases_{encoder}"] = (widths[0],)
    return shapes


def _check_gates(state: Header) -> None:
    """All layers as wide as the first one, the last before its units were selected."""
    look_up(state["kind"], "the kind of the network", {"modified": ModifiedMLP})
    widths, kept = list(state["widths"]), state["kept"]
    if kept is not None:
        for unit in check_list(kept, "the list of kept units"):
            check_integer(unit, "a kept unit", 0, widths[0] - 1)
        if len(set(kept)) < len(kept) or len(kept) != widths[-1]:
            raise FileError(f"the last layer has {widths[-1]} units, and each must be kept once")
        widths[-1] = widths[0]
    try:
        check_gated_widths(widths)
    except ValueError as error:
        raise FileError(told(error)) from error


def network_from_state(state: Header, arrays: Mapping[str, Array]) -> Network:
    """The network of a header and arrays that have the shapes of `network_shapes`."""
    dropout = check_number(state["dropout"], "the dropout")
    if not 0 <= dropout < 1:
        raise FileError(f"the dropout must be a rate in [0, 1), but is {dropout}")
    layers = range(len(state["widths"]))
    fields: dict[str, Any] = {
        "embedding": _embedding_from_state(state["embedding"], arrays),
        "weights": [arrays[f"weights_{layer}"] for layer in layers],
        "biases": [arrays[f"biases_{layer}"] for layer in layers],
        "activation": _activation_from_state(state["activation"]),
    }
    if "kind" not in state:
        return _module(MLP, **fields, dropout=dropout)
    if dropout != 0:
        raise FileError(f"the dropout of a modified network must be 0, but is {dropout}")
    return _module(
        ModifiedMLP,
        **fields,
        encoder_weights=[arrays[f"encoder_weights_{encoder}"] for encoder in range(2)],
        encoder_biases=[arrays[f"encoder_biases_{encoder}"] for encoder in range(2)],
        kept=_kept_units(state["kept"]),
    )


def _kept_units(kept: list[int] | None) -> Array | None:
    if kept is None:
        return None
    with jax.enable_x64(True):
        return jax.device_put(np.array(kept))


# ---- Activations ----


def _activation_state(activation: Activation) -> Header:
    names = {type(known): name for name, known in ACTIVATIONS.items()}
    state: Header = {"name": names.get(type(activation))}
    if isinstance(activation, RePU):
        state["power"] = int(activation.power)
    if state["name"] is None or _activation_from_state(state) != activation:
        raise FileError(
            f"the activation {shown(activation)} cannot be saved, for it is not one of pann's: "
            f"{', '.join(ACTIVATIONS)}"
        )
    return state


def _activation_from_state(state: Any) -> Activation:
    is_repu = isinstance(state, dict) and state.get("name") == "repu"
    check_object(state, "an activation", ("name", "power") if is_repu else ("name",))
    activation = look_up(state["name"], "the name of an activation", ACTIVATIONS)
    if not is_repu:
        return activation
    return RePU(check_integer(state["power"], "the power of RePU", 1, MAX_POWER))


# ---- Embeddings ----


def _embedding_state(
    embedding: Embedding | None,
) -> tuple[Header | None, dict[str, np.ndarray]]:
    if embedding is None:
        return None, {}
    names = {kind: name for name, kind in _EMBEDDINGS.items()}
    if type(embedding) not in names:
        raise FileError(
            f"the embedding {shown(embedding)} cannot be saved, for it is not one of pann's: "
            f"{', '.join(_EMBEDDINGS)}"
        )
    state: Header = {"name": names[type(embedding)]}
    if isinstance(embedding, RandomFourierFeatures):
        state["num_frequencies"] = embedding.frequencies.shape[0]
    elif isinstance(embedding, PeriodicEmbedding):
        state["num_frequencies"] = embedding.frequencies.shape[1]
        state["size"] = embedding.biases.shape[1]
        state["rectified"] = embedding.rectified
    elif isinstance(embedding, CircleEmbedding):
        state["num_inputs"] = int(embedding.num_inputs)
        state["axes"] = [int(axis) for axis in embedding.axes]
        if embedding.waves is not None:
            state["num_frequencies"] = embedding.waves.frequencies.shape[0]
            return state, {f"{_PREFIX}frequencies": np.asarray(embedding.waves.frequencies)}
    else:
        state["num_units"] = embedding.num_outputs
        state["num_inputs"] = int(embedding.num_inputs)
        state["activation"] = _activation_state(embedding.activation)
    fields = {field.name: getattr(embedding, field.name) for field in dataclasses.fields(embedding)}
    arrays = {
        f"{_PREFIX}{name}": np.asarray(value)
        for name, value in fields.items()
        if eqx.is_array(value)
    }
    return state, arrays


def _embedding_shapes(state: Any, dimension: int) -> tuple[int, Shapes]:
    """How many numbers the first layer gets, and the shapes of the embedding's own arrays."""
    if state is None:
        return dimension, {}
    name = state.get("name") if isinstance(state, dict) else None
    keys = look_up(name, "the name of an embedding", _EMBEDDING_KEYS)
    if name == "circles" and "num_frequencies" in state:
        keys = (*keys, "num_frequencies")
    check_object(state, "the embedding", keys)
    counts = {
        key: check_integer(state[key], f"'{key}' of the embedding", 1, MAX_SIZE)
        for key in keys
        if key not in ("name", "rectified", "activation", "axes")
    }
    if name == "random_fourier":
        frequencies = counts["num_frequencies"]
        return 2 * frequencies, {f"{_PREFIX}frequencies": (frequencies, dimension)}
    if name == "periodic":
        frequencies, size = counts["num_frequencies"], counts["size"]
        return dimension * (size + 1), {
            f"{_PREFIX}frequencies": (dimension, frequencies),
            f"{_PREFIX}weights": (dimension, size, 2 * frequencies),
            f"{_PREFIX}biases": (dimension, size),
        }
    if counts["num_inputs"] != dimension:
        raise FileError(
            f"the embedding has {counts['num_inputs']} inputs, but the domain {dimension} axes"
        )
    if name == "circles":
        num_circles = dimension + len(_circle_axes(state["axes"], dimension))
        if "num_frequencies" not in counts:
            return num_circles, {}
        frequencies = counts["num_frequencies"]
        return 2 * frequencies, {f"{_PREFIX}frequencies": (frequencies, num_circles)}
    units = (counts["num_units"],)
    return counts["num_units"], {f"{_PREFIX}slopes": units, f"{_PREFIX}centers": units}


def _circle_axes(axes: Any, dimension: int) -> tuple[int, ...]:
    for axis in check_list(axes, "'axes' of the embedding"):
        check_integer(axis, "an axis of the embedding", 0, dimension - 1)
    if not axes or len(set(axes)) < len(axes):
        raise FileError("the embedding needs at least one axis, and none twice")
    return tuple(axes)


def _embedding_from_state(state: Header | None, arrays: Mapping[str, Array]) -> Embedding | None:
    if state is None:
        return None
    fields: dict[str, Any] = {
        name.removeprefix(_PREFIX): array
        for name, array in arrays.items()
        if name.startswith(_PREFIX)
    }
    if state["name"] == "periodic":
        fields["rectified"] = check_bool(state["rectified"], "'rectified' of the embedding")
    if state["name"] == "circles":
        fields["num_inputs"] = state["num_inputs"]
        fields["axes"] = _circle_axes(state["axes"], state["num_inputs"])
        fields["waves"] = None
        if "num_frequencies" in state:
            frequencies = fields.pop("frequencies")
            fields["waves"] = _module(RandomFourierFeatures, frequencies=frequencies)
    if state["name"] == "axis_units":
        fields["num_inputs"] = state["num_inputs"]
        fields["activation"] = _activation_from_state(state["activation"])
    return _module(_EMBEDDINGS[state["name"]], **fields)


def _module(kind: type[Module], **fields: Any) -> Module:
    """An Equinox module from its fields; its `__init__` would draw random numbers for them."""
    module = object.__new__(kind)
    for field in dataclasses.fields(kind):
        object.__setattr__(module, field.name, fields[field.name])
    return module


# ---- Product units as plain values and arrays, and back ----


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


# ---- A model as plain values and arrays, and back ----


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

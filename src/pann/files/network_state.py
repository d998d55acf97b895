"""A network as plain values and arrays, and back: widths, activation and embedding."""

import dataclasses
from collections.abc import Mapping
from typing import Any, TypeAlias, TypeVar

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array

from pann.files.checks import (
    FileError,
    check_bool,
    check_integer,
    check_list,
    check_number,
    check_object,
    look_up,
    shown,
    told,
)
from pann.network import (
    MLP,
    Activation,
    AxisEmbedding,
    CircleEmbedding,
    Embedding,
    ModifiedMLP,
    Network,
    PeriodicEmbedding,
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

"""How models lie in files: a record for each class that a model is made of."""

import math
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from pann.basis import Basis, ElementBasis, PiecewiseLegendre, ShapeBasis, Singular, Tree
from pann.basis.elements import CURVE_SIZE
from pann.basis.families import FAMILIES
from pann.basis.on_shapes import Made, Step
from pann.basis.singular import FIELDS
from pann.domain import Box
from pann.errors import FileError
from pann.io.checks import (
    check_bool,
    check_dict,
    check_list,
    check_number,
    check_text,
    integer,
    one_of,
    shown,
)
from pann.io.codec import (
    Arrays,
    Codec,
    Listed,
    OneOf,
    Optional,
    Plain,
    Prefixed,
    Record,
    Shapes,
    Source,
    Values,
    decode,
    encode,
    naming,
    on_device,
)
from pann.io.container import read, write
from pann.io.shapes import AXIS, TREE, axes_of, check_bounds, named_axes
from pann.model.architecture import PRECISIONS
from pann.model.pann import PANN, Parameters
from pann.network import (
    MLP,
    AxisEmbedding,
    CircleEmbedding,
    LevelSets,
    ModifiedMLP,
    PeriodicEmbedding,
    PolynomialEmbedding,
    ProductUnits,
    RandomFourierFeatures,
    RePU,
    check_gated_widths,
)
from pann.network.activations import ACTIVATIONS
from pann.network.embeddings import MAX_POLYNOMIAL_DEGREE, total_degree_indices

MAX_FUNCTIONS = 1_000_000  # of one variable, over all axes of a basis
MAX_BREAKS = 1_000
MAX_NODES, MAX_ELEMENT_TERMS = 1_000_000, 100_000_000
MAX_SHAPE_DEGREE, MAX_SHAPE_TERMS = 300, 100_000
MAX_POWER = 100
MAX_LEVEL_SET_INPUTS = 6

SIZE = Plain(integer(1))
TEXT = Plain(check_text)
NUMBER = Plain(check_number, float)
FLAG = Plain(check_bool)
DEGREE = Plain(integer(0, MAX_POLYNOMIAL_DEGREE))
NAMES = Listed(TEXT)


# ---- Domain ----


def _box(values: Values) -> Box:
    box = Box(periodic=values.periodic, time=values.time, **named_axes(values.axes))
    if values.shape is None:
        return box
    if box.periodic:
        raise FileError("a shape repeats along no axis, but the domain is periodic")
    check_bounds(box, values.shape)
    return box.filled_by(values.shape)


def _split_box(box: Box) -> dict[str, Any]:
    own = {"axes": axes_of(box), "periodic": box.periodic, "time": box.time}
    return own if box.shape is None else own | {"shape": box.shape}


DOMAIN = Record(
    Box,
    "the domain",
    {
        "axes": Listed(AXIS),
        "periodic": NAMES,
        "time": Optional(TEXT),
        "shape": Prefixed("shape_", TREE),
    },
    split=_split_box,
    build=_box,
    optional=("shape",),
)


# ---- Basis ----


def _breaks(value: Any, what: str) -> tuple[float, ...]:
    if len(check_list(value, what)) > MAX_BREAKS:
        raise FileError(
            f"{what} has {len(value):,} breaks, more than the {MAX_BREAKS:,} allowed; use fewer "
            "elements"
        )
    return tuple(check_number(each, "a break") for each in value)


def _basis(values: Values) -> Basis:
    if not values.axes:
        raise FileError("the basis must see at least one axis")
    # Tables are as wide as the largest index, and one number in a file can make it anything.
    num_functions = sum(int(column.max(initial=0)) + 1 for column in values.indices.T)
    if num_functions > MAX_FUNCTIONS:
        raise FileError(
            f"the basis asks for {num_functions:,} functions of one variable, more than the "
            f"{MAX_FUNCTIONS:,} allowed; lower its degree"
        )
    return Basis(values.domain, values.families, values.indices, values.scaling, values.axes)


_FAMILY = "a family of the basis"
FAMILY = OneOf(
    _FAMILY,
    {
        **{name: Record(type(family), _FAMILY, {}) for name, family in FAMILIES.items()},
        "piecewise_legendre": Record(PiecewiseLegendre, _FAMILY, {"breaks": Plain(_breaks, list)}),
    },
    short=True,
)
GLOBAL_BASIS = Record(
    Basis,
    "the basis",
    {
        "axes": NAMES,
        "families": Listed(FAMILY),
        "scaling": Plain(one_of(("plain", "orthonormal"))),
        "num_terms": Plain(integer(0)),
    },
    shapes=lambda values: {"indices": ("int64", (values.num_terms, len(values.axes)))},
    derived={"num_terms": lambda basis: basis.num_terms},
    # The domain is that of the model.
    split=lambda basis: {
        key: getattr(basis, key) for key in ("axes", "families", "scaling", "indices")
    },
    build=_basis,
)


def _element_basis(values: Values) -> ElementBasis:
    tree = Tree(
        values.domain.lower,
        values.domain.upper,
        values.axis,
        values.at,
        values.children,
        values.degrees,
        values.curve,
        values.curves,
    )
    tree.check()
    basis = ElementBasis(values.domain, tree)
    if tree.num_terms > MAX_ELEMENT_TERMS:
        raise FileError(
            f"the elements have {tree.num_terms:,} terms, more than the {MAX_ELEMENT_TERMS:,} "
            "allowed; use fewer"
        )
    return basis


ELEMENTS = Record(
    ElementBasis,
    "the basis of elements",
    {"num_nodes": Plain(integer(1, MAX_NODES)), "num_curves": Plain(integer(0, MAX_NODES))},
    shapes=lambda values: {
        "axis": ("int64", (values.num_nodes,)),
        "at": ("float64", (values.num_nodes,)),
        "children": ("int64", (values.num_nodes, 2)),
        "degrees": ("int64", (values.num_nodes, values.domain.dimension)),
        "curve": ("int64", (values.num_nodes,)),
        "curves": ("float64", (values.num_curves, CURVE_SIZE ** min(values.domain.dimension, 3))),
    },
    derived={
        "num_nodes": lambda basis: len(basis.tree.axis),
        "num_curves": lambda basis: len(basis.tree.curves),
    },
    # The box of the tree is the domain of the model.
    split=lambda basis: {
        key: getattr(basis.tree, key)
        for key in ("axis", "at", "children", "degrees", "curve", "curves")
    },
    build=_element_basis,
)


def _shape_basis_shapes(values: Values) -> Shapes:
    dimension = values.domain.dimension
    sizes = [math.comb(n + dimension - 1, dimension - 1) for n in range(values.degree + 1)]
    steps = range(values.degree)
    return {
        "singular": ("float64", (values.num_functions, len(FIELDS))),
        "mix": [("float64", (dimension * sizes[n], sizes[n + 1])) for n in steps],
        "last": [("float64", (sizes[n], sizes[n + 1])) for n in steps],
        "before": [("float64", (sizes[n - 1], sizes[n + 1])) for n in steps[1:]],
        "shared": ("float64", (sum(sizes), values.num_functions)),
        "mixed": ("float64", (values.num_functions, values.num_others)),
    }


def _check_shape_basis(values: Values) -> None:
    if values.domain.shape is None:
        raise FileError("the basis is one of shapes, but the domain is a box")
    terms = math.comb(values.degree + values.domain.dimension, values.domain.dimension)
    if terms > MAX_SHAPE_TERMS:
        raise FileError(f"the basis has {terms:,} polynomials, more than {MAX_SHAPE_TERMS:,}")
    if values.num_functions and len(values.domain.space) != 2:
        raise FileError("singular functions live in the plane, the domain does not")


def _shape_basis(values: Values) -> ShapeBasis:
    # Before the first step there is nothing.
    first = [np.zeros((0, values.mix[0].shape[1]))] if values.degree else []
    steps = map(Step, values.mix, values.last, [*first, *values.before])
    made = Made(tuple(steps), values.shared, values.mixed)
    return ShapeBasis(values.domain, values.degree, Singular(values.singular), made)


def _split_shape_basis(basis: ShapeBasis) -> dict[str, Any]:
    made = basis.made
    own = {"degree": basis.degree, "singular": basis.singular.numbers, "shared": made.shared}
    steps = {name: [getattr(step, name) for step in made.steps] for name in Step._fields}
    return {**own, **steps, "mixed": made.mixed, "before": steps["before"][1:]}


ON_SHAPE = Record(
    ShapeBasis,
    "the basis of a shape",
    {
        "degree": Plain(integer(0, MAX_SHAPE_DEGREE)),
        "num_functions": Plain(integer(0, MAX_FUNCTIONS)),
        "num_others": Plain(integer(0, MAX_FUNCTIONS)),
    },
    _shape_basis_shapes,
    derived={
        "num_functions": lambda basis: len(basis.singular),
        "num_others": lambda basis: basis.made.mixed.shape[1],
    },
    check=_check_shape_basis,
    split=_split_shape_basis,
    build=_shape_basis,
)
BASIS = OneOf(
    "the basis",
    {"elements": ELEMENTS, "shape": ON_SHAPE},
    tag="kind",
    untagged=GLOBAL_BASIS,
)


# ---- Networks: activation, embedding, layers ----

_ACTIVATION, _EMBEDDING = "the activation", "the embedding"
ACTIVATION = OneOf(
    _ACTIVATION,
    {
        **{name: Record(type(each), _ACTIVATION, {}) for name, each in ACTIVATIONS.items()},
        "repu": Record(RePU, _ACTIVATION, {"power": Plain(integer(1, MAX_POWER), int)}),
    },
)


def _check_inputs(values: Values) -> None:
    inputs, axes = values.num_inputs, values.domain.dimension
    if inputs != axes:
        raise FileError(f"the embedding has {inputs} inputs, but the domain {axes} axes")


def _check_circles(values: Values) -> None:
    _check_inputs(values)
    for axis in values.axes:
        integer(0, values.domain.dimension - 1)(axis, "an axis of the embedding")
    if not values.axes or len(set(values.axes)) < len(values.axes):
        raise FileError("the embedding needs at least one axis, and none twice")


def _split_circles(embedding: CircleEmbedding) -> dict[str, Any]:
    values: dict[str, Any] = {"num_inputs": embedding.num_inputs, "axes": embedding.axes}
    if embedding.waves is not None:
        frequencies = embedding.waves.frequencies
        values |= {"num_frequencies": frequencies.shape[0], "frequencies": frequencies}
    return values


def _circle_shapes(values: Values) -> Shapes:
    if values.num_frequencies is None:
        return {}
    num_circles = values.num_inputs + len(values.axes)
    return {"frequencies": (values.precision, (values.num_frequencies, num_circles))}


def _circles(values: Values) -> CircleEmbedding:
    has_waves = values.num_frequencies is not None
    waves = RandomFourierFeatures(values.frequencies) if has_waves else None
    return CircleEmbedding(values.axes, values.num_inputs, waves)


EMBEDDING = OneOf(
    _EMBEDDING,
    {
        "random_fourier": Record(
            RandomFourierFeatures,
            _EMBEDDING,
            {"num_frequencies": SIZE},
            lambda of: {"frequencies": (of.precision, (of.num_frequencies, of.domain.dimension))},
            derived={"num_frequencies": lambda embedding: embedding.frequencies.shape[0]},
        ),
        "periodic": Record(
            PeriodicEmbedding,
            _EMBEDDING,
            {"num_frequencies": SIZE, "size": SIZE, "rectified": FLAG},
            lambda of: {
                "frequencies": (of.precision, (of.domain.dimension, of.num_frequencies)),
                "weights": (of.precision, (of.domain.dimension, of.size, 2 * of.num_frequencies)),
                "biases": (of.precision, (of.domain.dimension, of.size)),
            },
            derived={
                "num_frequencies": lambda embedding: embedding.frequencies.shape[1],
                "size": lambda embedding: embedding.biases.shape[1],
            },
        ),
        "axis_units": Record(
            AxisEmbedding,
            _EMBEDDING,
            {"num_units": SIZE, "num_inputs": SIZE, "activation": ACTIVATION},
            lambda of: {name: (of.precision, (of.num_units,)) for name in ("slopes", "centers")},
            derived={"num_units": lambda embedding: embedding.num_outputs},
            check=_check_inputs,
        ),
        "circles": Record(
            CircleEmbedding,
            _EMBEDDING,
            {"num_inputs": SIZE, "axes": Listed(Plain(integer(0))), "num_frequencies": SIZE},
            _circle_shapes,
            check=_check_circles,
            split=_split_circles,
            build=_circles,
            optional=("num_frequencies",),
        ),
        "polynomial": Record(
            PolynomialEmbedding,
            _EMBEDDING,
            {"num_inputs": SIZE, "degree": DEGREE},
            check=_check_inputs,
        ),
    },
)


def _widths(value: Any, what: str) -> list[int]:
    if not check_list(value, what):
        raise FileError("the network has no layers; where there is no network, write null")
    return [integer(1)(width, "the width of a layer") for width in value]


def _check_dropout(values: Values) -> None:
    if not 0 <= values.dropout < 1:
        raise FileError(f"the dropout must be a rate in [0, 1), but is {values.dropout}")


def _kept_units(value: Any, what: str) -> Any:
    units = [integer(0)(unit, "a kept unit") for unit in check_list(value, what)]
    return on_device(np.array(units, np.int64))


def _check_gates(values: Values) -> None:
    """All layers must be as wide as the first one, the last before its units were selected."""
    if values.dropout != 0:
        raise FileError(f"the dropout of a modified network must be 0, but is {values.dropout}")
    widths = list(values.widths)
    if values.kept is not None:
        kept = np.asarray(values.kept).tolist()
        for unit in kept:
            integer(0, widths[0] - 1)(unit, "a kept unit")
        if len(set(kept)) < len(kept) or len(kept) != widths[-1]:
            raise FileError(f"the last layer has {widths[-1]} units, and each must be kept once")
        widths[-1] = widths[0]
    check_gated_widths(widths)


def _layer_shapes(values: Values) -> dict[str, Any]:
    """Each layer has the shape that chains it to the one before."""
    embedding, widths, dtype = values.embedding, values.widths, values.precision
    inputs = values.domain.dimension if embedding is None else embedding.num_outputs
    before = [inputs, *widths[:-1]]
    return {
        "weights": [(dtype, shape) for shape in zip(widths, before, strict=True)],
        "biases": [(dtype, (width,)) for width in widths],
    }


def _gated_shapes(values: Values) -> dict[str, Any]:
    shapes = _layer_shapes(values)
    # The two encoders see what the first layer sees.
    encoders = {f"encoder_{name}": [of_layers[0]] * 2 for name, of_layers in shapes.items()}
    return shapes | encoders


def _check_level_sets(values: Values) -> None:
    _check_inputs(values)
    if values.kept is not None:
        kept = np.asarray(values.kept).tolist()
        amplitudes = len(total_degree_indices(values.num_inputs, values.amplitude_degree))
        for unit in kept:
            size = values.num_units * (values.num_derivatives + 1) * amplitudes
            integer(0, size - 1)(unit, "a kept unit")
        if len(set(kept)) < len(kept):
            raise FileError("each unit must be kept once")


def _level_set_shapes(values: Values) -> Shapes:
    # One number in a file can make the products of many inputs anything.
    if values.num_inputs > MAX_LEVEL_SET_INPUTS:
        raise FileError(f"level sets have at most {MAX_LEVEL_SET_INPUTS} inputs")
    terms = len(total_degree_indices(values.num_inputs, values.degree))
    return {"weights": (values.precision, (values.num_units, terms))}


_LAYERS = {
    "widths": Plain(_widths),
    "activation": ACTIVATION,
    "dropout": NUMBER,
    "embedding": Optional(Prefixed("embedding_", EMBEDDING)),
}
_LAYER_WIDTHS = {"widths": lambda network: [bias.shape[0] for bias in network.biases]}
NETWORK = OneOf(
    "the network",
    {
        "modified": Record(
            ModifiedMLP,
            "the network",
            {
                **_LAYERS,
                "kept": Optional(Plain(_kept_units, lambda kept: np.asarray(kept).tolist())),
            },
            _gated_shapes,
            derived={**_LAYER_WIDTHS, "dropout": lambda network: network.dropout},
            check=_check_gates,
        ),
        "level_sets": Record(
            LevelSets,
            "the network",
            {
                "activation": ACTIVATION,
                "num_units": SIZE,
                "num_inputs": SIZE,
                "degree": DEGREE,
                "amplitude_degree": DEGREE,
                "num_derivatives": Plain(integer(0, MAX_POLYNOMIAL_DEGREE)),
                "kept": Optional(Plain(_kept_units, lambda kept: np.asarray(kept).tolist())),
            },
            _level_set_shapes,
            derived={"num_units": lambda network: network.weights.shape[0]},
            check=_check_level_sets,
        ),
    },
    tag="kind",
    untagged=Record(
        MLP, "the network", _LAYERS, _layer_shapes, derived=_LAYER_WIDTHS, check=_check_dropout
    ),
)
PRODUCTS = Record(
    ProductUnits,
    "the products",
    {"num_units": SIZE, "num_cells": SIZE},
    lambda of: {
        "breaks": (of.precision, (of.num_units, of.domain.dimension, of.num_cells + 1)),
        "coefficients": (of.precision, (of.num_units, of.domain.dimension, of.num_cells, 4)),
    },
    derived={
        "num_units": lambda products: products.width,
        "num_cells": lambda products: products.coefficients.shape[-2],
    },
)


# ---- Models ----

_ARRAYS = ("a", "b", "keep_a", "keep_b", "overlap")


class _Bias(Codec):
    """An array that may be missing: the entry says whether it is there."""

    def encode(self, value: Any) -> tuple[Any, Arrays]:
        return value is not None, {} if value is None else {"bias": np.asarray(value)}

    def decode(self, value: Any, what: str, source: Source, known: Values) -> Any:
        if not check_bool(value, what):
            return None
        return on_device(source.take("bias", known.precision, (known.num_outputs or 1,)))


def _split_model(model: PANN) -> dict[str, Any]:
    if model.basis.domain != model.domain:
        raise FileError("the model's basis lives on another domain than the model; make them agree")
    of_model = {key: getattr(model, key) for key in ("precision", "domain", "basis", "num_outputs")}
    of_parameters = {key: getattr(model.parameters, key) for key in ("network", "bias", *_ARRAYS)}
    rare = {"products": model.parameters.products, "relative_error": model.relative_error}
    given = {key: value for key, value in rare.items() if value is not None}
    return of_model | of_parameters | given


def _model_shapes(values: Values) -> Shapes:
    width = sum(units.width for units in (values.network, values.products) if units is not None)
    terms, outputs = values.basis.num_terms, values.num_outputs or 1
    return {
        "a": (values.precision, (width, outputs)),
        "b": (values.precision, (terms, outputs)),
        "overlap": (values.precision, (terms, outputs)),
        "keep_a": ("bool", (width,)),
        "keep_b": ("bool", (terms,)),
    }


def _model(values: Values) -> PANN:
    arrays: dict[str, Any] = {name: on_device(getattr(values, name)) for name in _ARRAYS}
    parameters = Parameters(
        network=values.network, bias=values.bias, products=values.products, **arrays
    )
    return PANN(
        values.domain,
        values.basis,
        parameters,
        values.precision,
        values.num_outputs,
        values.relative_error,
    )


MODEL = Record(
    PANN,
    "the model",
    {
        "precision": Plain(one_of(PRECISIONS)),
        "domain": DOMAIN,
        "num_outputs": Optional(Plain(integer(1), int)),
        "basis": BASIS,
        "network": Optional(NETWORK),
        "products": Prefixed("product_", PRODUCTS),
        "bias": _Bias(),
        "relative_error": NUMBER,
    },
    _model_shapes,
    split=_split_model,
    build=_model,
    optional=("products", "relative_error"),
)


def model_state(model: PANN) -> tuple[dict[str, Any], Arrays]:
    """Everything that makes the model, as a description of JSON's types and plain arrays."""
    return encode(MODEL, model)


def model_from_state(description: Any, arrays: Mapping[str, np.ndarray]) -> PANN:
    """The model of a description and arrays, or a `FileError` that says what does not fit."""
    return decode(MODEL, description, arrays)


# ---- Files of one model ----

KIND = "model"
FILE = Record(
    dict,
    "the description",
    {"model": MODEL, "about": Plain(check_dict)},
    split=dict,
    build=lambda values: values.model,
)


def save(path: str | os.PathLike[str], model: PANN, about: Mapping[str, Any] | None = None) -> None:
    """Write a model to a `.pann` file; `about` takes notes of your own, in JSON's types."""
    write(path, KIND, *encode(FILE, {"model": model, "about": dict(about or {})}))


def load(path: str | os.PathLike[str]) -> PANN:
    """The model in a `.pann` file, which predicts to the last bit what the saved one did."""
    contents = read(path)
    with naming(path):
        if contents.kind != KIND:
            raise FileError(
                f"it holds {shown(contents.kind)}, not a model; open it with what wrote it"
            )
        return decode(FILE, contents.description, contents.arrays)

"""How models lie in files: a record for each class that a model is made of."""

import dataclasses
import itertools
import math
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from pann.basis import (
    Basis,
    ElementBasis,
    EvolvingBasis,
    PiecewiseLegendre,
    ShapeBasis,
    Singular,
    Tree,
)
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
    Listed,
    OneOf,
    Optional,
    Plain,
    Prefixed,
    Record,
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
    Power,
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
MAX_WINDOWS, MAX_DEGREE_IN_TIME = 100_000, 200
MAX_POWER = 100
MAX_LEVEL_SET_INPUTS = 6

SIZE, COUNT = Plain(integer(1)), Plain(integer(0, MAX_FUNCTIONS))
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
BREAKS = Listed(NUMBER, each="a break", most=MAX_BREAKS)
FAMILY = OneOf(
    _FAMILY,
    {
        **{name: Record(type(family), _FAMILY, {}) for name, family in FAMILIES.items()},
        "piecewise_legendre": Record(PiecewiseLegendre, _FAMILY, {"breaks": BREAKS}),
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
    {"indices": "int64 num_terms axes"},
    build=_basis,
)


_NODES = {
    "axis": "int64 num_nodes",
    "at": "float64 num_nodes",
    "children": "int64 num_nodes 2",
    "degrees": "int64 num_nodes domain.dimension",
    "curve": "int64 num_nodes",
    "curves": "float64 num_curves curve_size",
}


def _element_basis(values: Values) -> ElementBasis:
    nodes = {name: getattr(values, name) for name in _NODES}
    # The box of the tree is the domain of the model.
    tree = Tree(values.domain.lower, values.domain.upper, **nodes)
    tree.check()
    if tree.num_terms > MAX_ELEMENT_TERMS:
        raise FileError(
            f"the elements have {tree.num_terms:,} terms, more than the {MAX_ELEMENT_TERMS:,} "
            "allowed; use fewer"
        )
    return ElementBasis(values.domain, tree)


ELEMENTS = Record(
    ElementBasis,
    "the basis of elements",
    {"num_nodes": Plain(integer(1, MAX_NODES)), "num_curves": Plain(integer(0, MAX_NODES))},
    _NODES,
    sizes=lambda of: {"curve_size": CURVE_SIZE ** min(of.domain.dimension, 3)},
    split=lambda basis: {name: getattr(basis.tree, name) for name in _NODES},
    build=_element_basis,
)


def _recurrence(values: Values) -> dict[str, list[str]]:
    """The matrices of each step from the polynomials of one degree to those of the next."""
    dimension = values.domain.dimension
    sizes = [math.comb(n + dimension - 1, dimension - 1) for n in range(values.degree + 1)]
    steps = list(itertools.pairwise(sizes))
    return {
        "mix": [f"float64 {dimension * size} {after}" for size, after in steps],
        "last": [f"float64 {size} {after}" for size, after in steps],
        # Before the first step there is nothing.
        "before": [
            f"float64 {size} {after}" for size, after in zip(sizes, sizes[2:], strict=False)
        ],
    }


def _num_polynomials(values: Values) -> int:
    return math.comb(values.degree + values.domain.dimension, values.domain.dimension)


def _check_shape_basis(values: Values) -> None:
    if values.domain.shape is None:
        raise FileError("the basis is one of shapes, but the domain is a box")
    if (terms := _num_polynomials(values)) > MAX_SHAPE_TERMS:
        raise FileError(f"the basis has {terms:,} polynomials, more than {MAX_SHAPE_TERMS:,}")
    if values.num_functions and len(values.domain.space) != 2:
        raise FileError("singular functions live in the plane, the domain does not")


def _shape_basis(values: Values) -> ShapeBasis:
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
        "num_functions": COUNT,
        "num_others": COUNT,
    },
    {
        "singular": f"float64 num_functions {len(FIELDS)}",
        "mix": lambda of: _recurrence(of)["mix"],
        "last": lambda of: _recurrence(of)["last"],
        "before": lambda of: _recurrence(of)["before"],
        "shared": "float64 num_polynomials num_functions",
        "mixed": "float64 num_functions num_others",
    },
    check=_check_shape_basis,
    sizes=lambda of: {"num_polynomials": _num_polynomials(of)},
    split=_split_shape_basis,
    build=_shape_basis,
)


def _in_space(domain: Box) -> Box:
    """The shape of an evolution problem, without its time."""
    if domain.shape is None or domain.time is None:
        raise FileError("the basis is one of windows on a shape, but the domain is another")
    axes: dict[str, Any] = {
        domain.names[axis]: (domain.lower[axis], domain.upper[axis]) for axis in domain.space
    }
    return Box(**axes).filled_by(domain.shape)


def _evolving_basis(values: Values) -> EvolvingBasis:
    edges, ends = values.edges, values.whole.times
    if any(after <= before for before, after in itertools.pairwise(edges)):
        raise FileError(f"the times of windows must ascend, but are {shown(edges)}")
    if (edges[0], edges[-1]) != ends:
        raise FileError(f"windows begin and end with the domain, {ends}, but at {shown(edges)}")
    return EvolvingBasis(values.whole, values.space, edges, values.degree_in_time)


EVOLVING = Record(
    EvolvingBasis,
    "the basis of windows on a shape",
    {
        "space": ON_SHAPE,
        "edges": Listed(NUMBER, least=2, most=MAX_WINDOWS),
        "degree_in_time": Plain(integer(1, MAX_DEGREE_IN_TIME)),
    },
    build=_evolving_basis,
    context=lambda known: {"whole": known.domain, "domain": _in_space(known.domain)},
)
BASIS = OneOf(
    "the basis",
    {"elements": ELEMENTS, "shape": ON_SHAPE, "evolving": EVOLVING},
    tag="kind",
    untagged=GLOBAL_BASIS,
)


# ---- Networks: activation, embedding, layers ----

_ACTIVATION, _EMBEDDING = "the activation", "the embedding"


def _check_power(value: Any, what: str) -> float:
    power = check_number(value, what)
    if not 0 < power <= MAX_POWER:
        raise FileError(f"{what} must be above 0 and at most {MAX_POWER}, but is {power:g}")
    return power


ACTIVATION = OneOf(
    _ACTIVATION,
    {
        **{name: Record(type(each), _ACTIVATION, {}) for name, each in ACTIVATIONS.items()},
        "power": Record(Power, _ACTIVATION, {"power": Plain(_check_power, float)}),
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


def _wave_shape(values: Values) -> str | None:
    if values.num_frequencies is None:
        return None
    return f"precision num_frequencies {values.num_inputs + len(values.axes)}"


def _circles(values: Values) -> CircleEmbedding:
    has_waves = values.frequencies is not None
    waves = RandomFourierFeatures(values.frequencies) if has_waves else None
    return CircleEmbedding(values.axes, values.num_inputs, waves)


EMBEDDING = OneOf(
    _EMBEDDING,
    {
        "random_fourier": Record(
            RandomFourierFeatures,
            _EMBEDDING,
            {"num_frequencies": SIZE},
            {"frequencies": "precision num_frequencies domain.dimension"},
        ),
        "periodic": Record(
            PeriodicEmbedding,
            _EMBEDDING,
            {"num_frequencies": SIZE, "size": SIZE, "rectified": FLAG},
            {
                "frequencies": "precision domain.dimension num_frequencies",
                "weights": "precision domain.dimension size num_sines",
                "biases": "precision domain.dimension size",
            },
            sizes=lambda of: {"num_sines": 2 * of.num_frequencies},
        ),
        "axis_units": Record(
            AxisEmbedding,
            _EMBEDDING,
            {"num_units": SIZE, "num_inputs": SIZE, "activation": ACTIVATION},
            {"slopes": "precision num_units", "centers": "precision num_units"},
            check=_check_inputs,
        ),
        "circles": Record(
            CircleEmbedding,
            _EMBEDDING,
            {"num_inputs": SIZE, "axes": Listed(Plain(integer(0))), "num_frequencies": SIZE},
            {"frequencies": _wave_shape},
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


def _check_dropout(values: Values) -> None:
    if not 0 <= values.dropout < 1:
        raise FileError(f"the dropout must be a rate in [0, 1), but is {values.dropout}")


def _kept_units(value: Any, what: str) -> Any:
    units = [integer(0)(unit, "a kept unit") for unit in check_list(value, what)]
    return on_device(np.array(units, np.int64))


def _check_kept(kept: Any, size: int, count: int) -> None:
    units = np.asarray(kept).tolist()
    for unit in units:
        integer(0, size - 1)(unit, "a kept unit")
    if len(set(units)) < len(units) or len(units) != count:
        raise FileError(f"the last layer has {count} units, and each must be kept once")


def _check_gates(values: Values) -> None:
    """All layers must be as wide as the first one, the last before its units were selected."""
    if values.dropout != 0:
        raise FileError(f"the dropout of a modified network must be 0, but is {values.dropout}")
    widths = list(values.widths)
    if values.kept is not None:
        _check_kept(values.kept, widths[0], widths[-1])
        widths[-1] = widths[0]
    check_gated_widths(widths)


def _chained(values: Values) -> list[str]:
    """Each layer has the shape that chains it to the one before."""
    embedding, widths = values.embedding, values.widths
    inputs = values.domain.dimension if embedding is None else embedding.num_outputs
    pairs = zip(widths, [inputs, *widths], strict=False)
    return [f"precision {after} {before}" for after, before in pairs]


def _split_layers(network: MLP | ModifiedMLP) -> dict[str, Any]:
    names = [field.name for field in dataclasses.fields(network)]
    widths = [len(bias) for bias in network.biases]
    own = {name: getattr(network, name) for name in (*names, "dropout")}
    return own | {"widths": widths}


def _check_level_sets(values: Values) -> None:
    _check_inputs(values)
    # One number in a file can make the products of many inputs anything.
    if values.num_inputs > MAX_LEVEL_SET_INPUTS:
        raise FileError(f"level sets have at most {MAX_LEVEL_SET_INPUTS} inputs")
    if values.kept is not None:
        amplitudes = len(total_degree_indices(values.num_inputs, values.amplitude_degree))
        size = values.num_units * (values.num_derivatives + 1) * amplitudes
        _check_kept(values.kept, size, len(values.kept))


_NETWORK = "the network"
_LAYERS = {
    "widths": Listed(SIZE, each="the width of a layer", least=1),
    "activation": ACTIVATION,
    "dropout": NUMBER,
    "embedding": Optional(Prefixed("embedding_", EMBEDDING)),
}
_CHAINED = {
    "weights": _chained,
    "biases": lambda of: [f"precision {width}" for width in of.widths],
}
# What the first layer sees, the two encoders see too.
_ENCODERS = {
    "encoder_weights": lambda of: _chained(of)[:1] * 2,
    "encoder_biases": lambda of: [f"precision {of.widths[0]}"] * 2,
}
KEPT = Optional(Plain(_kept_units, lambda kept: np.asarray(kept).tolist()))
NETWORK = OneOf(
    _NETWORK,
    {
        "modified": Record(
            ModifiedMLP,
            _NETWORK,
            {**_LAYERS, "kept": KEPT},
            {**_CHAINED, **_ENCODERS},
            _check_gates,
            split=_split_layers,
        ),
        "level_sets": Record(
            LevelSets,
            _NETWORK,
            {
                "activation": ACTIVATION,
                "num_units": SIZE,
                "num_inputs": SIZE,
                "degree": DEGREE,
                "amplitude_degree": DEGREE,
                "num_derivatives": DEGREE,
                "kept": KEPT,
            },
            {"weights": "precision num_units num_terms"},
            _check_level_sets,
            lambda of: {"num_terms": len(total_degree_indices(of.num_inputs, of.degree))},
        ),
    },
    tag="kind",
    untagged=Record(MLP, _NETWORK, _LAYERS, _CHAINED, _check_dropout, split=_split_layers),
)
PRODUCTS = Record(
    ProductUnits,
    "the products",
    {"num_units": SIZE, "num_cells": SIZE},
    {
        "breaks": "precision num_units domain.dimension num_breaks",
        "coefficients": "precision num_units domain.dimension num_cells 4",
    },
    sizes=lambda of: {"num_breaks": of.num_cells + 1},
)


# ---- Models ----

_OF_MODEL = ("precision", "domain", "basis", "num_outputs")
_ARRAYS: dict[str, Any] = {
    "a": "precision width outputs",
    "b": "precision basis.num_terms outputs",
    "keep_a": "bool width",
    "keep_b": "bool basis.num_terms",
    "overlap": "precision basis.num_terms outputs",
    "bias": lambda of: "precision outputs" if of.bias else None,
}


def _split_model(model: PANN) -> dict[str, Any]:
    if model.basis.domain != model.domain:
        raise FileError("the model's basis lives on another domain than the model; make them agree")
    of_model = {key: getattr(model, key) for key in _OF_MODEL}
    of_parameters = {key: getattr(model.parameters, key) for key in ("network", *_ARRAYS)}
    rare = {"products": model.parameters.products, "relative_error": model.relative_error}
    given = {key: value for key, value in rare.items() if value is not None}
    return of_model | of_parameters | given


def _model_sizes(values: Values) -> dict[str, int]:
    units = (values.network, values.products)
    return {
        "width": sum(each.width for each in units if each is not None),
        "outputs": values.num_outputs or 1,
    }


def _model(values: Values) -> PANN:
    given = {name: getattr(values, name) for name in _ARRAYS}
    arrays: dict[str, Any] = {n: None if a is None else on_device(a) for n, a in given.items()}
    parameters = Parameters(network=values.network, products=values.products, **arrays)
    return PANN(
        parameters=parameters,
        **{name: getattr(values, name) for name in (*_OF_MODEL, "relative_error")},
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
        "bias": Plain(check_bool, lambda bias: bias is not None),
        "relative_error": NUMBER,
    },
    _ARRAYS,
    sizes=_model_sizes,
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

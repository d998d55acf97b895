"""How shapes lie in files: a list, each shape after those that it is made of.

Functions of users do not go into files: curves that they describe, and those around implicit
shapes, are saved as points, through which goes the same curve (`pann.shapes.plain`). Meshes are
saved as their triangles.
"""

import itertools
from typing import Any

import numpy as np

from pann.domain import Box
from pann.errors import FileError
from pann.io.checks import (
    check_bool,
    check_dict,
    check_integer,
    check_list,
    check_number,
    check_string,
    check_text,
    integer,
    one_line,
    one_of,
    shown,
)
from pann.io.codec import Arrays, Codec, Listed, OneOf, Plain, Record, Source, Values
from pann.shapes import (
    Ball,
    Curve,
    Disk,
    Ellipse,
    Extruded,
    Mesh,
    Polygon,
    Rectangle,
    Revolved,
    Shape,
)
from pann.shapes.arcs import Affine
from pann.shapes.curves import Through
from pann.shapes.plain import MOST_SAMPLES, Sampled, inner_shapes, plain
from pann.shapes.shape import Combination, Moved, Renamed

MAX_SHAPES = 500  # that one is made of
MAX_VERTICES, MAX_ARCS, MAX_TRIANGLES = 5_000, 200, 2_000_000
MAX_NUMBERS = 20  # of a point
# Bounding boxes are computed anew, of curves through points.
SAME_BOX = 1e-9

NUMBER, TEXT = Plain(check_number, float), Plain(check_text)
NAMES = Listed(TEXT)
AXIS = Record(
    tuple,
    "an axis",
    {"name": TEXT, "lower": NUMBER, "upper": NUMBER},
    split=lambda axis: dict(zip(("name", "lower", "upper"), axis, strict=True)),
    build=lambda values: (values.name, (values.lower, values.upper)),
)


def named_axes(axes: Any) -> dict[str, Any]:
    """Axes by name, none of them twice or with a name that boxes do not take."""
    names = [name for name, _ in axes]
    for name in names:
        if names.count(name) > 1 or name in ("self", "periodic", "time"):
            raise FileError(f"{shown(name)} cannot name an axis, or names two")
    return dict(axes)


def axes_of(box: Box) -> Any:
    return zip(box.names, box.lower, box.upper, strict=True)


# ---- Each shape for itself ----


def _corners(value: Any, what: str) -> tuple[float, ...]:
    given = check_list(value, what, 0, MAX_ARCS)
    corners = tuple(check_number(each, f"each of {what}") for each in given)
    if any(second <= first for first, second in itertools.pairwise(corners)):
        raise FileError(f"{what} must ascend, but are {shown(value)}")
    return corners


def _renaming(value: Any, what: str) -> tuple[str, str]:
    old, new = check_list(value, what, 2, 2)
    return check_string(old, "a name"), check_text(new, "a name")


def _polygon(values: Values) -> Polygon:
    polygon = Polygon(tuple(map(tuple, values.vertices.tolist())), values.names)
    if len(polygon.vertices) < values.count:
        raise FileError("a polygon has its first vertex at the end once more")
    return polygon


def _inner(values: Values, number: int) -> Shape:
    if number >= len(values.of):
        raise FileError(f"a shape is made of at least {number + 1} others, but of {len(values.of)}")
    shape: Shape = values.of[number]
    return shape


def _placed(values: Values) -> Moved:
    shape = _inner(values, 0)
    size = shape.dimension
    matrix = np.asarray([row for row in values.matrix if len(row) == size])
    if matrix.shape != (size, size) or len(values.shift) != size:
        raise FileError("the map of a moved shape has another dimension than the shape")
    if not 0 < abs(np.linalg.det(matrix)) < np.inf:
        raise FileError("the map of a moved shape has no inverse")
    return Moved(shape, Affine(values.matrix, values.shift))


def _extruded(values: Values) -> Extruded:
    named_axes([(values.axis, ())])
    return Extruded(_inner(values, 0), values.axis, values.low, values.high)


def _mesh(values: Values) -> Mesh:
    faces = np.arange(3 * values.count).reshape(-1, 3)
    mesh = Mesh(values.corners.reshape(-1, 3), faces, values.names)
    if not np.array_equal(mesh.surface.corners, values.corners):
        raise FileError(
            "a mesh has vertices that nearly agree, triangles without area, or its inside outside"
        )
    return mesh


def _loop(values: Values) -> Sampled:
    if values.is_loop and len(values.arcs) > 1:
        raise FileError("a curve without corners has one arc")
    return Sampled.of(values.arcs, is_loop=values.is_loop)


_WHAT = "a shape"
NUMBERS, PAIR = Listed(NUMBER, most=MAX_NUMBERS), Listed(NUMBER, least=2, most=2)
COUNT = Plain(integer(3, MAX_VERTICES))
COUNTS = Listed(Plain(integer(2, MOST_SAMPLES)), least=1, most=MAX_ARCS)
CURVE = OneOf(
    "a curve",
    {
        "sampled": Record(
            Sampled,
            "a curve",
            {"is_loop": Plain(check_bool), "counts": COUNTS},
            {"arcs": lambda of: [f"float64 {count} 2" for count in of.counts]},
            split=lambda curve: {
                "is_loop": curve.is_loop,
                "counts": [len(arc) for arc in curve.arcs],
                "arcs": list(curve.arcs),
            },
            build=_loop,
        ),
        "through": Record(
            Through,
            "a curve",
            {"count": COUNT},
            {"points": "float64 count 2"},
            build=lambda of: Through(tuple(map(tuple, of.points.tolist()))),
        ),
    },
    tag="kind",
)
SINGLE = OneOf(
    _WHAT,
    {
        "rectangle": Record(
            Rectangle,
            _WHAT,
            {"axes": Listed(AXIS)},
            split=lambda shape: {"axes": axes_of(shape.domain)},
            build=lambda of: Rectangle(**named_axes(of.axes)),
        ),
        "disk": Record(Disk, _WHAT, {"center": PAIR, "radius": NUMBER, "names": NAMES}),
        "ellipse": Record(
            Ellipse, _WHAT, {"center": PAIR, "radii": PAIR, "angle": NUMBER, "names": NAMES}
        ),
        "polygon": Record(
            Polygon,
            _WHAT,
            {"names": NAMES, "count": COUNT},
            {"vertices": "float64 count 2"},
            build=_polygon,
        ),
        "curve": Record(
            Curve,
            _WHAT,
            {"name": TEXT, "names": NAMES, "corners_at": Plain(_corners, list), "function": CURVE},
            build=lambda of: Curve(of.function, of.corners_at, of.name, of.names),
        ),
        "ball": Record(Ball, _WHAT, {"center": NUMBERS, "radius": NUMBER, "names": NAMES}),
        "mesh": Record(
            Mesh,
            _WHAT,
            {"names": NAMES, "count": Plain(integer(4, MAX_TRIANGLES))},
            {"corners": "float64 count 3 3"},
            split=lambda mesh: {
                "names": mesh.names,
                "count": len(mesh.surface.corners),
                "corners": mesh.surface.corners,
            },
            build=_mesh,
        ),
        "extruded": Record(
            Extruded,
            _WHAT,
            {"axis": TEXT, "low": NUMBER, "high": NUMBER},
            build=_extruded,
        ),
        "revolved": Record(
            Revolved,
            _WHAT,
            {"axis": TEXT, "third": TEXT},
            build=lambda of: Revolved(_inner(of, 0), of.axis, of.third),
        ),
        "moved": Record(
            Moved,
            _WHAT,
            {"matrix": Listed(NUMBERS), "shift": NUMBERS},
            split=lambda shape: {"matrix": shape.by.matrix, "shift": shape.by.shift},
            build=_placed,
        ),
        "renamed": Record(
            Renamed,
            _WHAT,
            {"pairs": Listed(Plain(_renaming, list))},
            build=lambda of: Renamed(_inner(of, 0), of.pairs),
        ),
        "combination": Record(
            Combination,
            _WHAT,
            {"operation": Plain(one_of(("-", "|", "&")))},
            build=lambda of: Combination(of.operation, _inner(of, 0), _inner(of, 1)),
        ),
    },
    tag="kind",
)


# ---- Shapes made of others ----


class _Tree(Codec):
    """A list of shapes; the entry "of" has the numbers of those that one is made of."""

    def encode(self, value: Any) -> tuple[Any, Arrays]:
        descriptions: list[Any] = []
        arrays: Arrays = {}

        def add(shape: Shape) -> int:
            of = [add(each) for each in inner_shapes(shape)]
            own, found = SINGLE.encode(shape)
            arrays.update({f"{len(descriptions)}_{key}": each for key, each in found.items()})
            descriptions.append({**own, "of": of} if of else own)
            return len(descriptions) - 1

        add(plain(value))
        return descriptions, arrays

    def decode(self, value: Any, what: str, source: Source, known: Values) -> Shape:
        left: dict[int, Shape] = {}
        for number, description in enumerate(check_list(value, what, 1, MAX_SHAPES)):
            node = dict(check_dict(description, _WHAT))
            of = check_list(node.pop("of", []), "what a shape is made of")
            numbers = [check_integer(each, "the number of a shape", 0, number) for each in of]
            if len(set(numbers)) < len(numbers) or not set(numbers) <= set(left):
                raise FileError(f"{what} uses a shape twice, or before it is there")
            inner = Values(**{**vars(known), "of": [left.pop(each) for each in numbers]})
            left[number] = self._made(node, source.within(f"{number}_"), inner)
        if len(left) > 1:
            raise FileError(f"{what} has shapes that nothing is made of")
        return left.popitem()[1]

    def _made(self, node: Any, source: Source, known: Values) -> Shape:
        try:
            with np.errstate(all="ignore"):
                shape = SINGLE.decode(node, _WHAT, source, known)
                if len(known.of) != len(inner_shapes(shape)):
                    raise FileError("a shape is made of others that it has no place for")
                ends = np.array([shape.lower, shape.upper])
        except (IndexError, ArithmeticError, RuntimeWarning) as error:
            raise FileError(f"a shape is wrong: {one_line(error)}") from None
        if not np.isfinite(ends).all():
            raise FileError("a shape is not bounded")
        return shape


TREE = _Tree()


def check_bounds(box: Box, shape: Shape) -> None:
    """Refuse a shape that does not fill the box along all axes but time."""
    own = [(name, number) for number, name in enumerate(box.names) if name != box.time]
    ends = np.array([box.lower, box.upper])[:, [number for _, number in own]]
    found = np.array([shape.lower, shape.upper])
    if tuple(name for name, _ in own) != shape.names or not np.allclose(
        ends, found, rtol=0.0, atol=SAME_BOX * shape.size
    ):
        raise FileError("the domain is not the bounding box of its shape")

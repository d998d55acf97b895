"""Solutions as unstructured grids of VTK, for ParaView: triangles, or tetrahedra, with fields.

The file is XML with arrays of numbers in base64, as VTK has described it since 2002.
"""

import base64
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING
from xml.sax.saxutils import quoteattr

import numpy as np
import scipy  # its submodules are loaded when first used
from jaxtyping import Float, Int, Shaped

from pann.domain import Box
from pann.pde.evaluation import evaluate_solution
from pann.points import tensor_grid
from pann.runtime.atomic import check_writable, write_atomically
from pann.shapes import Shape

if TYPE_CHECKING:
    from pann.solvers.solution import Solution

# The numbers that VTK gives to cells, by their corners.
CELLS = {3: 5, 4: 10}
TYPES = {"f": "Float64", "i": "Int64", "u": "UInt8"}
# Cells with less than this share of the volume of a step are flat, and dropped.
FLAT = 1e-6

Points = Float[np.ndarray, "points d"]


def to_vtk(
    solution: "Solution",
    path: str | os.PathLike[str],
    resolution: int,
    times: Mapping[str, float | int],
) -> None:
    """Write the fields of a solution, at a time if it has time."""
    domain = solution.model.domain
    path = os.fspath(path)
    if resolution < 2:
        raise ValueError(f"resolution is a number of points of at least 2, got {resolution}")
    if not path.lower().endswith(".vtu"):
        raise ValueError(f"the name of an unstructured grid of VTK ends in .vtu, got '{path}'")
    check_writable(path)
    if set(times) - {domain.time}:
        raise ValueError(f"a time is given by the name of its axis, got {', '.join(times)}")
    if domain.time is not None and not times:
        raise ValueError(
            f"a file has the solution at one time: give {domain.time}, "
            f"to_vtk({path!r}, {domain.time}={domain.times[1]:g})"
        )
    dimension = len(domain.space)
    if dimension not in (2, 3):
        raise ValueError(f"VTK shows two or three axes of space, and here they are {dimension}")
    points, cells = _triangulated(domain, resolution)
    at = points
    for name, time in times.items():
        at = np.insert(points, domain.names.index(name), time, axis=1)
    values = evaluate_solution(solution.model, solution.ansatz, at)
    fields = dict(zip(solution.fields, values.T, strict=True))
    content = _xml(np.pad(points, ((0, 0), (0, 3 - dimension))), cells, fields)

    def write(temporary: str) -> None:
        with open(temporary, "w", encoding="ascii") as file:
            file.write(content)

    write_atomically(path, write)


def _triangulated(domain: Box, resolution: int) -> tuple[Points, Int[np.ndarray, "cells corners"]]:
    """Points inside and on the boundary, and cells between them."""
    low, high = np.array([domain.lower, domain.upper])[:, domain.space]
    shape = domain.shape
    step = float((high - low).max()) / (resolution - 1)
    # Along a box to both ends; in a shape no point is nearer to the boundary than half a step.
    counts = np.maximum(np.ceil((high - low) / step - 1e-9).astype(int), 1) + 1
    points = tensor_grid(*(np.linspace(*each) for each in zip(low, high, counts, strict=True)))
    if isinstance(shape, Shape):
        count = round(shape.boundary.length / step ** (len(low) - 1)) + 8
        ends = [part.ends for part in shape.arcs if not part.is_closed]
        around = np.concatenate([shape.boundary.points(count)[0], *ends])
        around = np.unique(around.round(12), axis=0)
        inside = points[shape.inside(points)]
        gaps, _ = scipy.spatial.cKDTree(around).query(inside)
        points = np.concatenate([inside[gaps > 0.5 * step], around])
    cells = scipy.spatial.Delaunay(points, qhull_options="QJ").simplices
    volumes = np.linalg.det(points[cells[:, 1:]] - points[cells[:, :1]])
    cells[volumes < 0, :2] = cells[volumes < 0, 1::-1]
    keeps = abs(volumes) > FLAT * step ** len(low)
    if isinstance(shape, Shape):
        keeps &= shape.inside(points[cells].mean(axis=1))
    return points, cells[keeps].astype(np.int64)


def _xml(
    points: Float[np.ndarray, "points 3"],
    cells: Int[np.ndarray, "cells corners"],
    fields: Mapping[str, Float[np.ndarray, " points"]],
) -> str:
    corners = cells.shape[1]
    offsets = corners * np.arange(1, len(cells) + 1)
    types = np.full(len(cells), CELLS[corners], np.uint8)
    lines = [
        '<?xml version="1.0"?>',
        '<VTKFile type="UnstructuredGrid" version="0.1" byte_order="LittleEndian">',
        "<UnstructuredGrid>",
        f'<Piece NumberOfPoints="{len(points)}" NumberOfCells="{len(cells)}">',
        "<Points>",
        _array("points", points, 3),
        "</Points>",
        "<Cells>",
        _array("connectivity", cells),
        _array("offsets", offsets),
        _array("types", types),
        "</Cells>",
        "<PointData>",
        *(_array(name, np.ascontiguousarray(values)) for name, values in fields.items()),
        "</PointData>",
        "</Piece>",
        "</UnstructuredGrid>",
        "</VTKFile>",
    ]
    return "\n".join(lines)


def _array(name: str, values: Shaped[np.ndarray, "..."], components: int = 1) -> str:
    """Their bytes behind the number of these, in base64."""
    content = values.astype(values.dtype.newbyteorder("<")).tobytes()
    text = base64.b64encode(len(content).to_bytes(4, "little") + content).decode()
    return (
        f'<DataArray type="{TYPES[values.dtype.kind]}" Name={quoteattr(name)} '
        f'NumberOfComponents="{components}" format="binary">{text}</DataArray>'
    )

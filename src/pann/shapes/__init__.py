"""Shapes: regions of the plane and of space, their boundaries by name, and points on them."""

from pann.shapes.arcs import Part
from pann.shapes.boundary import Boundary
from pann.shapes.curves import Curve
from pann.shapes.implicit import Implicit
from pann.shapes.loops import Corner, Hole, junctions
from pann.shapes.mesh import Mesh
from pann.shapes.patches import Patch
from pann.shapes.plane import Disk, Ellipse, Polygon, Rectangle
from pann.shapes.shape import Shape
from pann.shapes.space import Ball, Cuboid, Cylinder, Extruded, Revolved

__all__ = [
    "Ball",
    "Boundary",
    "Corner",
    "Cuboid",
    "Curve",
    "Cylinder",
    "Disk",
    "Ellipse",
    "Extruded",
    "Hole",
    "Implicit",
    "Mesh",
    "Part",
    "Patch",
    "Polygon",
    "Rectangle",
    "Revolved",
    "Shape",
    "junctions",
]

"""Shapes: regions of the plane and of space, their boundaries by name, and points on them."""

from pann.shapes.boundary import Boundary
from pann.shapes.curves import Curve
from pann.shapes.implicit import Implicit
from pann.shapes.loops import Corner, Hole
from pann.shapes.plane import Disk, Ellipse, Polygon, Rectangle
from pann.shapes.shape import Shape

__all__ = [
    "Boundary",
    "Corner",
    "Curve",
    "Disk",
    "Ellipse",
    "Hole",
    "Implicit",
    "Polygon",
    "Rectangle",
    "Shape",
]

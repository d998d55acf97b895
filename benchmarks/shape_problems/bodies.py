"""Equations in space: a ball, a cube less four balls, a closed mesh."""

from typing import Any

import numpy as np

from benchmarks.shape_problems.plane import manufactured
from benchmarks.sharp_problems.case import Case
from pann.shapes import Ball, Cuboid, Mesh, Shape


def smooth(library: Any, x: Any, y: Any, z: Any) -> Any:
    return library.sin(2 * x + 1) * library.exp(y) * library.cos(z * x)


def cube_less_balls() -> Shape:
    """PINNacle's Poisson3d-CG has this domain."""
    shape: Any = Cuboid(x=(0, 1), y=(0, 1), z=(0, 1))
    for x, y, z, r in (
        (0.4, 0.3, 0.6, 0.2),
        (0.6, 0.7, 0.6, 0.2),
        (0.2, 0.8, 0.7, 0.1),
        (0.6, 0.2, 0.3, 0.1),
    ):
        shape = shape - Ball(center=(x, y, z), radius=r)
    return shape


def octahedron() -> Shape:
    """A closed mesh of eight triangles."""
    axes = np.concatenate([np.eye(3), -np.eye(3)])
    faces = [
        [a, b, c] if np.linalg.det(axes[[a, b, c]]) > 0 else [a, c, b]
        for a in (0, 3)
        for b in (1, 4)
        for c in (2, 5)
    ]
    return Mesh(axes, np.array(faces))


def poisson(name: str, shape: Shape, goal: float) -> Case:
    words = "lap u = f, u = sin(2x + 1) exp(y) cos(zx)"
    return manufactured(f"Poisson, {name}", words, shape, lambda u: u.laplacian, smooth, goal, 120)


CASES = [
    poisson("ball", Ball(radius=1), 1e-8),
    poisson("cube less four balls", cube_less_balls(), 1e-5),
    poisson("closed mesh", octahedron(), 1e-6),
]

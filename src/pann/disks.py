"""Poisson disks: random points of the unit cube that keep their distance and leave no holes."""

import numpy as np
import scipy  # its parts, of which some take half a second, are loaded when first used
from jaxtyping import Bool, Float

from pann.array_cache import cache_folder, load_array, store_array

# To be raised with every change of the points that a seed gives, so that no old file is read.
_POISSON_DISK_VERSION = 1
# The distance darts start with, relative to the densest packing's: about what random darts can
# fill a box with, so that the holes left have room for the points still missing.
_FIRST_DISTANCE = {2: 0.80, 3: 0.84}


def in_the_unit_cube(
    dimension: int, num_points: int, generator: np.random.Generator, seed: int | None
) -> Float[np.ndarray, "points d"]:
    """Drawn by the generator; with a seed, which names a file, read from disk if drawn before."""
    folder = None if seed is None else cache_folder()
    file = None if folder is None else folder / _file_name(dimension, num_points, seed)
    unit = None if file is None else load_array(file, (num_points, dimension))
    if unit is None or not np.all((unit >= 0.0) & (unit <= 1.0)):
        draw = _jittered if dimension == 1 else _poisson_disk
        unit = draw(dimension, num_points, generator)
        if file is not None:
            store_array(file, unit)
    return unit


def _file_name(dimension: int, num_points: int, seed: int | None) -> str:
    return f"poisson_disk-v{_POISSON_DISK_VERSION}-{dimension}d-n{num_points}-s{seed}.npy"


def _poisson_disk(
    dimension: int, num_points: int, generator: np.random.Generator
) -> Float[np.ndarray, "points d"]:
    """Throw darts until few land, then put the missing points into the largest holes.

    Darts alone would need ever more throws for ever smaller gaps; the Delaunay triangulation
    knows where the gaps are. The distance asked for shrinks as the holes of that size are filled.
    """
    packing = {2: 2.0 / 3.0**0.5 / num_points, 3: 2.0**0.5 / num_points}[dimension]
    packing **= 1.0 / dimension
    distance = _FIRST_DISTANCE[dimension] * packing
    points, landed = np.empty((0, dimension)), num_points
    while landed > 0.01 * num_points and len(points) < num_points:
        darts = generator.random((num_points, dimension))
        if len(points) > 0:
            nearest, _ = scipy.spatial.cKDTree(points).query(darts, distance_upper_bound=distance)
            darts = darts[np.isinf(nearest)]
        darts = darts[_keep_apart(darts, distance)][: num_points - len(points)]
        landed = len(darts)
        points = np.concatenate([points, darts])
    while len(points) < num_points:
        centers = _hole_centers(points, margin=2.0 * packing)
        sizes, _ = scipy.spatial.cKDTree(points).query(centers)
        distance = min(distance, sizes.max())
        # Largest first: where holes overlap, the first in line is filled.
        order = np.argsort(-sizes, kind="stable")
        centers = centers[order[sizes[order] >= distance]]
        centers = centers[_keep_apart(centers, distance)][: num_points - len(points)]
        points = np.concatenate([points, centers])
        distance *= 0.97
    return points


def _jittered(
    dimension: int, num_points: int, generator: np.random.Generator
) -> Float[np.ndarray, "points d"]:
    """One point in the middle fifth of each of N equal cells: neighbors are 0.8 / N apart."""
    cells = np.arange(num_points)[:, None]
    return (cells + 0.4 + 0.2 * generator.random((num_points, dimension))) / num_points


def _keep_apart(
    candidates: Float[np.ndarray, "candidates d"], distance: float
) -> Bool[np.ndarray, " candidates"]:
    """Which candidates stay if they are taken in order, each if none taken before is too close."""
    tree = scipy.spatial.cKDTree(candidates)
    pairs = np.sort(tree.query_pairs(distance, output_type="ndarray"), axis=1)
    stays = np.ones(len(candidates), bool)
    # All that have no rival in front of them are taken at once and their rivals dropped. The pairs
    # left are a smaller problem of the same kind: a few passes replace the loop over candidates.
    while len(pairs) > 0:
        first, second = pairs.T
        has_rival_in_front = np.zeros(len(candidates), bool)
        has_rival_in_front[second] = True
        stays[second[~has_rival_in_front[first]]] = False
        pairs = pairs[stays[first] & stays[second]]
    return stays


def _hole_centers(
    points: Float[np.ndarray, "points d"], margin: float
) -> Float[np.ndarray, "holes d"]:
    """Centers of the largest empty balls: the Voronoi vertices in the unit cube.

    Points closer than `margin` to a face are mirrored at it, so that the holes at the faces, edges
    and corners are Voronoi vertices too.
    """
    mirrored, dimension = points, points.shape[1]
    for axis in range(dimension):
        left = mirrored[mirrored[:, axis] < margin]
        right = mirrored[mirrored[:, axis] > 1.0 - margin]
        left[:, axis] *= -1.0
        right[:, axis] = 2.0 - right[:, axis]
        mirrored = np.concatenate([mirrored, left, right])
    triangulation = scipy.spatial.Delaunay(mirrored)
    # Qhull lifts the points to z = scale |x|^2; a facet there with the normal (n, n_z) is a simplex
    # with the circumcenter -n / (2 scale n_z), with no linear systems that flat simplices break.
    normals, heights = np.split(triangulation.equations[:, :-1], [dimension], axis=1)
    centers = -normals / (2.0 * triangulation.paraboloid_scale * heights)
    # Centers on a face lie on either side of it by rounding.
    inside = np.all((centers > -1e-6) & (centers < 1.0 + 1e-6), axis=1)
    return centers[inside].clip(0.0, 1.0)

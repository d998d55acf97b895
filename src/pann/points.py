"""Sets of points in a box: samplers that all have one interface, and checks of users' points."""

import dataclasses
import functools
import inspect
import math
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import scipy  # its submodules, some of which take half a second, are loaded when first used
from jaxtyping import Bool, Float, Int, Shaped

from pann.domain import Box
from pann.numerics.quadrature import gauss_legendre
from pann.runtime.cache import kept_array

TAGS = ("inside", "boundary")
# Points of a boundary as users compute them are no farther outside than this, relative to its size.
EDGE = 1e-9
# Numbers of points in the bounding box of a shape before it counts as too thin.
_MOST_SIZES = 12
# Shares of points that are denser toward the boundary and the corners of a shape, the largest
# distances from them, relative to its size, and how many decades smaller the least ones are.
_AT_BOUNDARY, _AT_CORNERS = 0.3, 0.2
_WIDEST, _BOUNDARY_DECADES, _CORNER_DECADES = 0.3, 2.5, 5.0


# Compared by identity: comparing arrays entry by entry has no single truth value.
@dataclasses.dataclass(frozen=True, eq=False)
class Points:
    """Points of a box in physical coordinates, with weights where they form a quadrature rule.

    The weights are those of a probability measure: they sum to 1, so `weights @ values` is a mean.
    `tags` say of each point whether it lies `inside`, for the equation, or on the `boundary`, for
    the conditions; without them all are inside. The arrays are read-only copies.
    """

    coordinates: Float[np.ndarray, "points d"]
    weights: Float[np.ndarray, " points"] | None = None
    tags: np.ndarray | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "coordinates", _read_only(self.coordinates))
        if self.tags is not None:
            tags = _read_only(self.tags, str)
            object.__setattr__(self, "tags", tags)
            if tags.shape != (len(self),):
                raise ValueError(f"each of {len(self)} points needs a tag, got {tags.size} tags")
            unknown = sorted(set(tags.tolist()) - set(TAGS))
            if unknown:
                raise ValueError(f"a tag is {' or '.join(TAGS)}, got '{unknown[0]}'")
        if self.weights is None:
            return
        object.__setattr__(self, "weights", _read_only(self.weights))
        if len(self.weights) != len(self):
            raise ValueError(
                f"each point needs a weight, got {len(self.weights)} weights for {len(self)} points"
            )

    def __len__(self) -> int:
        return len(self.coordinates)

    @property
    def dimension(self) -> int:
        return self.coordinates.shape[1]

    def tagged(self, tag: str) -> Float[np.ndarray, "some d"]:
        """The points with a tag; without tags all are `inside`."""
        if self.tags is None:
            return self.coordinates[: len(self) if tag == "inside" else 0]
        return self.coordinates[self.tags == tag]


def tensor_grid(*axes_nodes: Float[np.ndarray, " _"]) -> Float[np.ndarray, "points d"]:
    """All combinations of the axes' nodes, one per row; the last axis varies fastest."""
    return np.stack(np.meshgrid(*axes_nodes, indexing="ij"), axis=-1).reshape(-1, len(axes_nodes))


def tensor_rule(
    rules: Sequence[tuple[Float[np.ndarray, " _"], Float[np.ndarray, " _"]]],
) -> tuple[Float[np.ndarray, "points d"], Float[np.ndarray, " points"]]:
    """The product of one-dimensional quadrature rules: points of a `tensor_grid`, and weights."""
    nodes, weights = zip(*rules, strict=True)
    return tensor_grid(*nodes), functools.reduce(np.multiply.outer, weights).ravel()


def equispaced(domain: Box, num_points: int) -> Points:
    """A tensor grid of equispaced nodes with both ends, but for the right end of periodic axes.

    Of a shape, so many of the points of such a grid that lie in it.
    """
    if domain.shape is not None:
        grid = lambda box, count: equispaced(
            box, round(count ** (1 / box.dimension)) ** box.dimension
        )
        return _of_shape(domain, num_points, grid)
    nodes_per_axis = _nodes_per_axis("equispaced", domain, num_points, minimum=2)
    return _grid_with_ends(domain, np.linspace(0.0, 1.0, nodes_per_axis))


def chebyshev(domain: Box, num_points: int) -> Points:
    """A tensor grid of Chebyshev-Gauss-Lobatto nodes x_k = -cos(pi k / (n - 1)), k < n, with ends.

    Along periodic axes the nodes are equispaced: both ends are the same point there, and no part
    of the axis asks for more points than another.
    """
    _check_whole("chebyshev", domain)
    nodes_per_axis = _nodes_per_axis("chebyshev", domain, num_points, minimum=2)
    # (1 - cos(2 angle)) / 2 as a square, which does not cancel near the left end.
    angles = np.linspace(0.0, 0.5 * np.pi, nodes_per_axis)
    return _grid_with_ends(domain, np.sin(angles) ** 2)


def gauss(domain: Box, num_points: int) -> Points:
    """The tensor Gauss-Legendre rule with equally many nodes along each axis; see `gauss_grid`."""
    nodes_per_axis = _nodes_per_axis("gauss", domain, num_points, minimum=1)
    return gauss_grid(domain, [nodes_per_axis] * domain.dimension)


def gauss_grid(domain: Box, nodes_per_axis: Sequence[int]) -> Points:
    """The tensor Gauss-Legendre rule, exact for degree 2n - 1 along an axis with n nodes.

    Along periodic axes it is the trapezoid rule on equispaced nodes, which is the Gauss rule of
    trigonometric polynomials: exact for all frequencies below n.
    """
    if len(nodes_per_axis) != domain.dimension:
        raise ValueError(
            f"nodes_per_axis needs one count for each of the axes {', '.join(domain.names)}, "
            f"got {len(nodes_per_axis)} counts"
        )
    _check_whole("gauss", domain)
    rules = []
    for name, given in zip(domain.names, nodes_per_axis, strict=True):
        count = _count(f"the number of nodes along '{name}'", given)
        if name in domain.periodic:
            rules.append((_periodic_nodes(count), np.full(count, 1.0 / count)))
        else:
            nodes, weights = gauss_legendre(count)
            rules.append((0.5 * (1.0 + nodes), weights))
    unit, weights = tensor_rule(rules)
    return Points(domain.filled(lambda _: unit, len(unit)), weights)


def uniform(domain: Box, num_points: int, seed: int = 0) -> Points:
    """Independent points, uniformly distributed."""
    num_points, generator = _count("num_points", num_points), _generator(seed)
    return Points(domain.filled(lambda n: generator.random((n, domain.dimension)), num_points))


def sobol(domain: Box, num_points: int, seed: int = 0) -> Points:
    """The first points of a scrambled Sobol sequence, best where their number is a power of two."""
    num_points = _count("num_points", num_points)
    sequence = scipy.stats.qmc.Sobol(domain.dimension, scramble=True, rng=_generator(seed))
    # Drawn as a power of two and cut: the same points as a direct draw, without SciPy's warning.
    draw = lambda count: sequence.random(1 << (count - 1).bit_length())[:count]
    return Points(domain.filled(draw, num_points))


def graded(domain: Box, num_points: int, seed: int = 0) -> Points:
    """Points of a shape, the half of them denser toward its boundary and its corners.

    Their distances from these are equally likely in each decade: functions about holes and corners
    live there. The other half are those of `sobol`.
    """
    shape = domain.shape
    if shape is None:
        return sobol(domain, num_points, seed)
    generator = _generator(seed)
    size = float(np.max(domain.widths[domain.space]))
    corners = shape.corners
    at_corners = round(_AT_CORNERS * num_points) if corners else 0
    at_boundary = round(_AT_BOUNDARY * num_points)

    def decades(count: int, lowest: float) -> Float[np.ndarray, "count 1"]:
        return size * _WIDEST * 10.0 ** (-lowest * generator.random((count, 1)))

    def near_boundary(count: int) -> Float[np.ndarray, "count d"]:
        points, normals, _ = shape.boundary.points(count, "uniform", seed)
        return points - decades(len(points), _BOUNDARY_DECADES) * normals

    def near_corners(count: int) -> Float[np.ndarray, "count d"]:
        which = generator.integers(len(corners), size=count)
        first, angle = np.array([(each.direction, each.angle) for each in corners])[which].T
        theta = first + angle * generator.random(count)
        rays = np.stack([np.cos(theta), np.sin(theta)], axis=1)
        centers = np.array([each.point for each in corners])[which]
        return centers + decades(count, _CORNER_DECADES) * rays

    def kept(draw: Callable[[int], Float[np.ndarray, "points _"]], count: int) -> np.ndarray:
        found = np.zeros((0, len(domain.space)))
        for _ in range(_MOST_SIZES):
            if len(found) >= count:
                break
            drawn = draw(2 * count)
            found = np.concatenate([found, drawn[shape.inside(drawn)]])
        found = generator.permutation(found)[:count]
        if domain.time is None:
            return found
        times = generator.uniform(*domain.times, len(found))
        return np.insert(found, domain.time_number, times, axis=1)

    near = [kept(near_boundary, at_boundary)]
    if at_corners:
        near.append(kept(near_corners, at_corners))
    rest = sobol(domain, num_points - sum(map(len, near)), seed).coordinates
    return Points(np.concatenate([rest, *near]))


def poisson_disk(domain: Box, num_points: int, seed: int = 0, cache: bool = True) -> Points:
    """Random points that keep their distance and leave no holes, in one to three dimensions.

    Distances are those of the box scaled to the unit cube. No two points are closer than 0.7 of
    the densest packing's distance: sqrt(2 / (sqrt(3) N)) in 2D, (sqrt(2) / N)^(1/3) in 3D, 1 / N
    in 1D. Some points lie on the box's faces.

    With `cache`, points drawn once are read from disk afterwards: from the folder PANN_CACHE of
    the environment, else $XDG_CACHE_HOME/pann, else ~/.cache/pann.
    """
    num_points, dimension = _count("num_points", num_points), domain.dimension
    if dimension > 3:
        raise ValueError(f"poisson_disk needs 1 to 3 dimensions, got {dimension}; use sobol there")
    generator = _generator(seed)
    if domain.shape is not None:
        return _of_shape(domain, num_points, lambda box, n: poisson_disk(box, n, seed, cache))
    draw = lambda: _poisson_disk(dimension, num_points, generator)
    name = f"poisson_disk-v{_POISSON_DISK_VERSION}-{dimension}d-n{num_points}-s{seed}.npy"
    is_valid = lambda unit: bool(np.all((unit >= 0.0) & (unit <= 1.0)))
    unit = kept_array(name, (num_points, dimension), draw, is_valid) if cache else draw()
    return Points(domain.filled(lambda _: unit, num_points))


def from_array(
    domain: Box, array: npt.ArrayLike, tags: Sequence[str] | np.ndarray | None = None
) -> Points:
    """Your own points: an array of shape (points, d), or (points,) in one dimension."""
    given, coordinates = np.asarray(array), checked_coordinates(domain, array)
    check_inside(domain, coordinates, given.dtype)
    return Points(
        coordinates.clip(domain.lower, domain.upper),
        tags=None if tags is None else np.asarray(tags),
    )


def checked_coordinates(domain: Box, array: npt.ArrayLike) -> Float[np.ndarray, "points d"]:
    """Finite coordinates for the axes of a domain, inside of it or not."""
    given, dimension = np.asarray(array), domain.dimension
    if given.dtype.kind not in "iuf":
        raise ValueError(
            f"points must be an array of real numbers, got the type {given.dtype}; "
            "convert them with numpy.asarray(points, float)"
        )
    if given.size == 0:
        raise ValueError(f"there must be at least one point, got an array of shape {given.shape}")
    return check_points(domain, given[:, None] if given.ndim == dimension == 1 else given)


def check_points(domain: Box, points: Shaped[np.ndarray, "..."]) -> Float[np.ndarray, "points d"]:
    """The points as finite floats with one column for each axis of the domain."""
    coordinates = np.asarray(points, float)
    if coordinates.ndim != 2 or coordinates.shape[1] != domain.dimension:
        raise ValueError(
            f"points need the shape (points, {domain.dimension}), a column for each of the axes "
            f"{', '.join(domain.names)}; got {coordinates.shape}"
        )
    broken = ~np.isfinite(coordinates).all(axis=1)
    if broken.any():
        raise ValueError(
            f"{broken.sum()} of {len(coordinates)} points have a NaN or infinite coordinate, "
            f"the first is point {broken.argmax()}; remove them first"
        )
    return coordinates


def sample(name: str, domain: Box, num_points: int, seed: int = 0) -> Points:
    """Draw points by the name of the sampler; those that draw no random numbers ignore the seed."""
    if name not in SAMPLERS:
        raise ValueError(f"no sampler is called {name!r}; choose one of {', '.join(SAMPLERS)}")
    sampler = SAMPLERS[name]
    if "seed" in inspect.signature(sampler).parameters:
        return sampler(domain, num_points, seed=seed)
    return sampler(domain, num_points)


SAMPLERS: dict[str, Callable[..., Points]] = {
    "equispaced": equispaced,
    "poisson_disk": poisson_disk,
    "sobol": sobol,
    "graded": graded,
    "uniform": uniform,
    "gauss": gauss,
    "chebyshev": chebyshev,
}


def subsample(num_rows: int, largest: int) -> Int[np.ndarray, " chosen"]:
    """Numbers of at most `largest` rows, in order: all, or a random choice that is always the same.

    Every k-th row would alias with rows in grid order, and the first rows with sorted ones.
    """
    if num_rows <= largest:
        return np.arange(num_rows)
    return np.sort(np.random.default_rng(0).permutation(num_rows)[:largest])


def _of_shape(domain: Box, num_points: int, draw: Callable[[Box, int], Points]) -> Points:
    """So many points of a shape, from those of a sampler in its bounding box."""
    num_points, whole = _count("num_points", num_points), domain.filled_by(None)
    count = num_points
    for _ in range(_MOST_SIZES):
        points = draw(whole, count).coordinates
        inside = points[domain.inside(points)]
        if len(inside) >= num_points:
            return Points(inside[subsample(len(inside), num_points)])
        count = max(math.ceil(1.1 * count * num_points / max(len(inside), 1)), count + 1)
    raise ValueError(f"{domain.shape} is too thin for this sampler; use uniform or sobol")


def _check_whole(sampler: str, domain: Box) -> None:
    if domain.shape is not None:
        raise ValueError(
            f"{sampler} is a grid that ends at the faces of a box, which {domain.shape} does not "
            "have; use sobol, uniform, poisson_disk or equispaced"
        )


def _grid_with_ends(domain: Box, nodes: Float[np.ndarray, " n"]) -> Points:
    """The tensor grid of the nodes, or of equally many equispaced ones along periodic axes."""
    periodic = _periodic_nodes(len(nodes))
    axes_nodes = (periodic if name in domain.periodic else nodes for name in domain.names)
    unit = tensor_grid(*axes_nodes)
    return Points(domain.filled(lambda _: unit, len(unit)))


def _periodic_nodes(count: int) -> Float[np.ndarray, " n"]:
    return np.arange(count) / count


def _nodes_per_axis(sampler: str, domain: Box, num_points: int, minimum: int) -> int:
    """The n with n^d = num_points."""
    num_points, dimension = _count("num_points", num_points), domain.dimension
    nodes_per_axis = round(num_points ** (1.0 / dimension))
    if nodes_per_axis >= minimum and nodes_per_axis**dimension == num_points:
        return nodes_per_axis
    below = max(minimum, nodes_per_axis - (nodes_per_axis**dimension > num_points))
    raise ValueError(
        f"{sampler} is a tensor grid and needs n^{dimension} points with n at least {minimum} in "
        f"{dimension}D, got num_points={num_points}; use num_points={below**dimension} or "
        f"num_points={(below + 1) ** dimension}"
    )


def _count(what: str, given: object) -> int:
    if not isinstance(given, int | np.integer) or given < 1:
        raise ValueError(f"{what} must be an integer of at least 1, got {given!r}; use 1 or more")
    return int(given)


def _generator(seed: object) -> np.random.Generator:
    if not isinstance(seed, int | np.integer) or seed < 0:
        raise ValueError(f"seed must be an integer of at least 0, got {seed!r}; use seed=0")
    return np.random.default_rng(seed)


def _read_only(array: np.ndarray, dtype: type = float) -> np.ndarray:
    copy: np.ndarray = np.array(array, dtype)
    copy.flags.writeable = False
    return copy


def check_inside(
    domain: Box, coordinates: Float[np.ndarray, "points d"], given: np.dtype, what: str = "points"
) -> None:
    """Refuse points outside; `given` is the type they had before they became floats."""
    if domain.shape is None:
        _check_in_box(domain, coordinates, given, what)
        return
    _check_times(domain, coordinates, given, what)
    precision = np.finfo(given).eps if given.kind == "f" else 0.0
    outside = np.flatnonzero(~domain.inside(coordinates, max(EDGE, precision)))
    if len(outside):
        space = coordinates[:, domain.space]
        distances = domain.shape.distance(space[outside])
        worst = outside[np.argmax(distances)]
        named = zip(domain.shape.names, space[worst].tolist(), strict=True)
        where = ", ".join(f"{name} = {value:.9g}" for name, value in named)
        raise ValueError(
            f"{len(outside)} of {len(coordinates)} {what} lie outside of {domain.shape}; the worst "
            f"is point {worst} at {where}, {np.max(distances):.2g} away from it; remove them"
        )


def where_inside(
    domain: Box,
    points: Float[np.ndarray, "points d"],
    values: Callable[[Float[np.ndarray, "some d"]], Float[np.ndarray, "kinds some columns"]],
    sizes: tuple[int, int],
    dtype: str = "float64",
) -> Float[np.ndarray, "kinds points columns"]:
    """Values at points, which for points outside of a shape are NaN; `sizes` are those of others.

    Points at times that are not those of the domain are refused.
    """
    if domain.shape is None:
        return values(points)
    _check_times(domain, points, points.dtype, "points")
    inside = domain.inside(points, EDGE)
    if inside.all():
        return values(points)
    found = np.full((sizes[0], len(points), sizes[1]), np.nan, dtype)
    if inside.any():
        found[:, inside] = values(points[inside])
    return found


def _check_times(
    domain: Box, coordinates: Float[np.ndarray, "points d"], given: np.dtype, what: str
) -> None:
    if domain.time is not None:
        column = coordinates[:, [domain.time_number]]
        _check_in_box(Box(**{domain.time: domain.times}), column, given, what)  # type: ignore[arg-type]


def _check_in_box(
    domain: Box, coordinates: Float[np.ndarray, "points d"], given: np.dtype, what: str
) -> None:
    lower, upper = np.asarray(domain.lower), np.asarray(domain.upper)
    excess = np.maximum(lower - coordinates, coordinates - upper)
    # A box's end, rounded to the precision the points came in, is not outside.
    precision = np.finfo(given).eps if given.kind == "f" else 0.0
    rounding = 1e-12 * domain.widths + precision * np.maximum(np.abs(lower), np.abs(upper))
    outside = (excess > rounding).any(axis=1)
    if outside.any():
        point, axis = np.unravel_index(np.argmax(excess / domain.widths), excess.shape)
        raise ValueError(
            f"{outside.sum()} of {len(coordinates)} {what} lie outside of the box; the worst is "
            f"point {point} with {domain.names[axis]} = {coordinates[point, axis]}, which must be "
            f"in [{lower[axis]}, {upper[axis]}]; remove them or use a larger box"
        )


# ---- Poisson disks: random points of the unit cube, well apart and without holes ----


# To be raised with every change of the points that a seed gives, so that no old file is read.
_POISSON_DISK_VERSION = 1
# The distance that darts start with, relative to the densest packing's: about what random darts can
# fill a box with, so that the holes left have room for the points still missing.
_FIRST_DISTANCE = {2: 0.80, 3: 0.84}


def _poisson_disk(
    dimension: int, num_points: int, generator: np.random.Generator
) -> Float[np.ndarray, "points d"]:
    """Throw darts until few land, then put the missing points into the largest holes.

    Darts alone would need ever more throws for ever smaller gaps; the Delaunay triangulation
    knows where the gaps are. The distance asked for shrinks as the holes of that size are filled.
    In one dimension each of N equal cells has a point in its middle fifth: neighbors are 0.8 / N
    apart.
    """
    if dimension == 1:
        cells = np.arange(num_points)[:, None]
        return (cells + 0.4 + 0.2 * generator.random((num_points, 1))) / num_points
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

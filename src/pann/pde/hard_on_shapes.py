"""Hard conditions on a shape: lift and bump as polynomials of its bounding box.

The bump is the product of what vanishes on the hard parts: 1 - |w|^2 where they lie on a circle or
an ellipse, w in the coordinates in which it is the unit circle, and the distance from a line where
they are straight. It is smooth, and grows from the boundary like the distance, as long as none of
these curves comes back into the shape. The lift is a polynomial through the given values, of the
smallest coefficients.
"""

import dataclasses
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from pann.basis import Basis, make_basis
from pann.domain import Box
from pann.pde.conditions import Dirichlet, Values, values_at
from pann.pde.problem import Problem
from pann.points import uniform
from pann.shapes import Boundary, Part
from pann.shapes.arcs import Circle, Plane

DEGREES = (0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
MOST_FACTORS = 12  # of a bump
NUM_ON_PART, NUM_INSIDE = 200, 2_000
# How closely values are met, relative to their size, and factors vanish, relative to the shape.
TOLERANCE, VANISHED = 1e-12, 1e-9


class HardPart(NamedTuple):
    """A part of the boundary and what a field is there."""

    part: Part
    value: Values


def hard_parts(problem: Problem, field: str) -> list[HardPart]:
    """The parts of a shape's boundary on which a field has hard conditions."""
    found: list[HardPart] = []
    for condition in problem.conditions:
        if not isinstance(condition, Dirichlet) or not condition.hard:
            continue
        faces = condition.faces
        if (condition.field or problem.fields[0]) != field or not isinstance(faces, Boundary):
            continue
        for part in faces.parts:
            if not isinstance(part, Part) or problem.domain.time is not None:
                raise ValueError(
                    "conditions can be hard on shapes of the plane, without time; use hard=False"
                )
            found.append(HardPart(part, condition.value))
    return found


def series_on_shape(
    problem: Problem,
) -> tuple[Basis, Float[np.ndarray, "terms fields"], Float[np.ndarray, "terms fields"]] | None:
    """A basis with lift and bump of each field, None where no condition on a shape is hard."""
    each = [hard_parts(problem, field) for field in problem.fields]
    if not any(each):
        return None
    bumps = [
        _Bump.of(problem.domain, field, of) for field, of in zip(problem.fields, each, strict=True)
    ]
    lifts = [
        _lift(problem.domain, field, of) for field, of in zip(problem.fields, each, strict=True)
    ]
    degree = max(*(bump.degree for bump in bumps), *(degree for degree, _ in lifts))
    basis = make_basis(problem.domain, degree, index_set="total_degree")
    numbers = {tuple(index): number for number, index in enumerate(basis.indices.tolist())}
    lift, weights = np.zeros((2, len(numbers), len(each)))
    for field, (own, coefficients) in enumerate(lifts):
        smaller = make_basis(problem.domain, own, index_set="total_degree")
        places = [numbers[tuple(index)] for index in smaller.indices.tolist()]
        lift[places, field] = coefficients
    for field, bump in enumerate(bumps):
        weights[:, field] = bump.series(basis)
    return basis, lift, weights


@dataclasses.dataclass(frozen=True)
class _Bump:
    """The curves on which a field is hard, each with the side on which the shape is."""

    domain: Box
    curves: list[Part]

    @staticmethod
    def of(domain: Box, field: str, hard: list[HardPart]) -> "_Bump":
        inside = uniform(domain, NUM_INSIDE, seed=1).coordinates
        curves: list[Part] = []
        for part, _ in hard:
            if not part.is_straight and not isinstance(part.path, Circle):
                raise ValueError(
                    f"the part '{part.name}', where '{field}' has a hard condition, is no line and "
                    "no arc of a circle or an ellipse, and the distance from it is not smooth; use "
                    "hard=False for it"
                )
            own = _factor(part, inside)
            if not any(np.allclose(own, _factor(each, inside), 1e-9, 1e-12) for each in curves):
                curves.append(part)
        others = [
            part for part in domain.boundary.parts if part not in [each.part for each in hard]
        ]
        t = (np.arange(NUM_ON_PART) + 0.5) / NUM_ON_PART
        beside = [part.point(t) for part in others if isinstance(part, Part)]
        on_hard = np.concatenate([np.zeros((0, 2)), *(each.part.point(t) for each in hard)])
        for curve in curves:
            free = np.concatenate([inside, *beside])
            wrong = free[_factor(curve, free) <= VANISHED]
            wrong = np.concatenate([wrong, on_hard[_factor(curve, on_hard) < -VANISHED]])
            if len(wrong):
                x, y = wrong[0]
                raise ValueError(
                    f"the line or circle of the part '{curve.name}', where '{field}' has a hard "
                    f"condition, goes on into the shape or along another part of its boundary, as "
                    f"at ({x:.4g}, {y:.4g}), where nothing should be fixed; use hard=False for it"
                )
        bump = _Bump(domain, curves)
        if bump.degree > MOST_FACTORS:
            raise ValueError(
                f"'{field}' has hard conditions on {len(curves)} lines and circles, whose product "
                f"is of degree {bump.degree}, more than {MOST_FACTORS}; use hard=False for some"
            )
        return bump

    @property
    def degree(self) -> int:
        return sum(1 if curve.is_straight else 2 for curve in self.curves)

    def series(self, basis: Basis) -> Float[np.ndarray, " terms"]:
        """The product, about 1 at most within the shape, as a series."""
        inside = uniform(self.domain, NUM_INSIDE, seed=1).coordinates
        scale = float(np.max(self._product(inside)))
        # A polynomial is known from enough points of the box, inside and outside.
        nodes = np.cos(np.pi * (np.arange(2 * self.degree + 2) + 0.5) / (2 * self.degree + 2))
        grid = np.stack(np.meshgrid(nodes, nodes), axis=-1).reshape(-1, 2)
        points = self.domain.from_reference(grid)
        columns = np.flatnonzero(basis.indices.sum(axis=1) <= self.degree)
        plain = Basis(self.domain.filled_by(None), basis.families, basis.indices[columns])
        found = np.zeros(basis.num_terms)
        values = self._product(points) / scale
        found[columns] = np.linalg.lstsq(plain.table(points), values, rcond=None)[0]
        return found

    def _product(self, points: Plane) -> Float[np.ndarray, " points"]:
        return np.prod([np.ones(len(points)), *(_factor(c, points) for c in self.curves)], axis=0)


def _factor(part: Part, points: Plane) -> Float[np.ndarray, " points"]:
    """Zero on the line or the circle of an arc, positive on the side on which the shape is."""
    middle = np.array([0.5])
    (at,), (normal,) = part.point(middle), part.normal(middle)
    if part.is_straight:
        return (at - points) @ normal / part.measure
    outward = np.sum((at - np.asarray(part.map.shift)) * normal)
    return np.sign(outward) * 0.5 * (1.0 - np.sum(part.map.inverse(points) ** 2, axis=1))


def _lift(domain: Box, field: str, hard: list[HardPart]) -> tuple[int, Float[np.ndarray, " terms"]]:
    """The lowest degree of a polynomial with the given values, and its coefficients."""
    if not hard:
        return 0, np.zeros(1)
    t = 0.5 * (1.0 - np.cos(np.pi * (np.arange(NUM_ON_PART) + 0.5) / NUM_ON_PART))
    seen, checked = (
        np.concatenate([part.point(at) for part, _ in hard]) for at in (t, np.append(0.0, t**1.1))
    )
    given, wanted = (
        np.concatenate([values_at(value, domain, part.point(at)) for part, value in hard])
        for at in (t, np.append(0.0, t**1.1))
    )
    size = max(float(np.max(np.abs(wanted))), 1e-300)
    for degree in DEGREES:
        basis = make_basis(domain.filled_by(None), degree, index_set="total_degree")
        # Of all polynomials with these values one that has little of high degrees: what is solved
        # for has to make up for the rest.
        share = 0.5 ** basis.indices.sum(axis=1)
        solved = np.linalg.lstsq(basis.table(seen) * share, given, rcond=1e-15)[0]
        misses = np.abs(basis.table(checked) @ (share * solved) - wanted)
        if misses.max() <= TOLERANCE * size:
            return degree, share * solved
    x, y = checked[misses.argmax()]
    raise ValueError(
        f"the hard values of '{field}' are not those of a polynomial: degree {DEGREES[-1]} misses "
        f"them by {misses.max() / size:.1e} of their size at ({x:.4g}, {y:.4g}); they may jump or "
        "have a kink there: use hard=False"
    )

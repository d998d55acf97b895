"""From a domain and a degree to a basis."""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from pann.basis.basis import Basis
from pann.basis.checks import check_axes
from pann.basis.families import Family, family_by_name
from pann.basis.index_sets import INDEX_SETS, MAX_TERMS
from pann.domain import Box

FamilyChoice: TypeAlias = str | Family


def make_basis(
    domain: Box,
    degree: int,
    *,
    index_set: str = "total_degree",
    families: FamilyChoice | Mapping[str, FamilyChoice] | None = None,
    weights: Sequence[float] | Mapping[str, float] | None = None,
    scaling: str = "plain",
    axes: Sequence[str] | None = None,
    max_terms: int = MAX_TERMS,
) -> Basis:
    """All products of at most the given degree (paper, section 2.2).

    Families are Fourier along the domain's periodic axes and Legendre elsewhere, unless one name
    is given for all axes or a mapping from axes to names for some. A weight of 2 along an axis
    lets the degree along it go twice as far.
    """
    axes = domain.names if axes is None else (axes,) if isinstance(axes, str) else tuple(axes)
    check_axes(domain, axes)
    if not axes:
        raise ValueError(f"a basis needs at least one axis of {', '.join(domain.names)}")
    if index_set not in INDEX_SETS:
        raise ValueError(f"'{index_set}' is not an index set; use one of {', '.join(INDEX_SETS)}")
    chosen = _choose_families(domain, axes, families)
    indices = INDEX_SETS[index_set](
        chosen, degree, weights=_weights_by_axis(axes, weights), max_terms=max_terms
    )
    return Basis(domain, chosen, indices, scaling, axes)


def _choose_families(
    domain: Box,
    axes: tuple[str, ...],
    families: FamilyChoice | Mapping[str, FamilyChoice] | None,
) -> tuple[Family, ...]:
    if isinstance(families, str | Family):
        choices: Mapping[str, FamilyChoice] = dict.fromkeys(axes, families)
    else:
        choices = families or {}
    _check_keys("families", choices, axes)
    defaults = {axis: "fourier" if axis in domain.periodic else "legendre" for axis in axes}
    return tuple(
        choice if isinstance(choice, Family) else family_by_name(choice)
        for choice in (choices.get(axis, defaults[axis]) for axis in axes)
    )


def _weights_by_axis(
    axes: tuple[str, ...], weights: Sequence[float] | Mapping[str, float] | None
) -> Sequence[float] | None:
    if isinstance(weights, Mapping):
        _check_keys("weights", weights, axes)
        return [weights.get(axis, 1.0) for axis in axes]
    return weights


def _check_keys(what: str, given: Mapping[str, object], axes: tuple[str, ...]) -> None:
    for name in given:
        if name not in axes:
            raise ValueError(
                f"{what} names '{name}', which the basis does not see; its axes are "
                f"{', '.join(axes)}"
            )

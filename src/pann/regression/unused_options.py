"""Options of `fit` that have no effect with the others are refused: somebody expects one."""

from typing import Any

from pann.basis import Basis
from pann.training import LBFGS, Adam, KeepIfBetter, Race, Recipe
from pann.training.constraints import CONSTRAINTS
from pann.training.loss import CONSTRAINT_NAMES, Loss

WEAK = tuple(name for name in CONSTRAINT_NAMES if name in CONSTRAINTS)
WEIGHTED = (*WEAK, "l1")
OF_THE_NETWORK = ("depth", "activation", "embedding", "dropout", "initialization")


def check_network_options(width: int | tuple[int, ...], given: dict[str, Any]) -> None:
    """Refuse options of a network that is not there; those not given are None."""
    if width == 0:
        for name in OF_THE_NETWORK:
            if given[name] is not None:
                raise ValueError(
                    f"{name} has no effect without a network, and width=0 leaves it out; leave "
                    f"{name} out, or give a width"
                )
    if isinstance(width, tuple) and given["depth"] is not None:
        raise ValueError(
            f"depth has no effect with a width for each hidden layer, {width}; leave depth out"
        )


def check_degree(degree: Any, basis: Basis | None) -> None:
    if basis is not None and degree not in ("auto", None):
        raise ValueError(
            f"degree={degree!r} has no effect with a basis of your own; leave degree out, or give "
            "make_basis that degree"
        )


def check_constraint_options(loss: Loss, given: dict[str, Any]) -> None:
    """Refuse the weight or the norm of a constraint that has none; those not given are None."""
    for name, goes_with in {"constraint_weight": WEIGHTED, "norm": WEAK}.items():
        if given[name] is not None and loss.constraint not in goes_with:
            raise ValueError(
                f"{name} has no effect with the constraint '{loss.constraint}'; leave it out, or "
                f"give a constraint of {', '.join(goes_with)}"
            )


def check_constraint(constraint: str | None, recipe: Recipe) -> None:
    """Refuse a constraint that no stage reads."""
    if constraint in WEIGHTED and not _follows_gradients(recipe):
        raise ValueError(
            f"the constraint '{constraint}' has no effect: no stage of this recipe follows "
            "gradients of the loss; give recipe='paper' or stages Adam and LBFGS, or "
            "constraint='exact'"
        )


def _follows_gradients(recipe: Recipe) -> bool:
    for stage in recipe:
        inner: tuple[Recipe, ...] = ()
        if isinstance(stage, KeepIfBetter):
            inner = (stage.stages,)
        elif isinstance(stage, Race):
            inner = stage.branches
        if isinstance(stage, Adam | LBFGS) or any(map(_follows_gradients, inner)):
            return True
    return False

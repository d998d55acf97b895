"""Which stages can train on rows in chunks, without the whole table."""

from collections.abc import Sequence

from pann.basis import Basis
from pann.basis.in_program import check_in_program, is_in_program
from pann.loss import Loss
from pann.training.descent import GradientStage
from pann.training.prune import Prune
from pann.training.ridge import Ridge
from pann.training.stage import Stage

CHUNKABLE = GradientStage | Ridge | Prune


def can_chunk(stages: Sequence[Stage], loss: Loss, basis: Basis) -> bool:
    """Whether neither a stage nor the loss nor the basis needs all rows at once."""
    return _is_sum(loss) and not needs_whole_table(stages) and is_in_program(basis)


def _is_sum(loss: Loss) -> bool:
    return loss.constraint != "exact" and loss.norm != "spectral"


def needs_whole_table(recipe: str | Sequence[Stage] | None) -> bool:
    """Whether a recipe of the user's has stages that need all rows at once."""
    stages = () if recipe is None else recipe
    return any(not isinstance(stage, CHUNKABLE) for stage in stages)


def check_chunks(stages: Sequence[Stage], loss: Loss, basis: Basis) -> None:
    """Refuse what needs the whole table, where that is larger than the memory given."""
    cure = "lower the degree, or give more memory"
    for stage in stages:
        if not isinstance(stage, CHUNKABLE):
            raise ValueError(
                f"the table is larger than the memory given, and {type(stage).__name__} needs all "
                f"of it; train with Adam, LBFGS, Prune or Ridge alone, {cure}"
            )
    if not _is_sum(loss):
        what = "exact constraint" if loss.constraint == "exact" else "spectral norm"
        raise ValueError(
            f"the table is larger than the memory given, and the {what} needs all of it; use "
            f"another, {cure}"
        )
    check_in_program(basis)

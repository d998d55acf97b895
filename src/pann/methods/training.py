"""Both halves by gradient stages, as in the paper: Adam, L-BFGS and pruning."""

import dataclasses
from typing import Any

from pann.methods.collocation import Collocation
from pann.methods.mlp import MLP
from pann.methods.options import (
    Choice,
    Flag,
    Instance,
    Real,
    Texts,
    documented,
    group,
    option,
)
from pann.methods.polynomial import SOLVE, OptionsOfBothVerbs, collocation_option
from pann.pde.rows import Causal
from pann.training import GradNorm, Recipe, Stage
from pann.training.loss import CONSTRAINT_NAMES, NORMS, REDUCTIONS

WEIGHTINGS: dict[str, Any] = {"gradnorm": GradNorm(), "causal": Causal()}


@documented
@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class Training(OptionsOfBothVerbs):
    """Stages one after another on both halves together; `Training.paper()` is the paper's way."""

    stages: Recipe | None = option(
        None,
        "tuple of stages such as (Adam(1000), LBFGS(100), Prune(1e-4)); None: the paper's",
        Instance((tuple,)),
    )
    network: MLP | None = group(MLP(), MLP, "the network; None leaves it out")
    constraint: str = option(
        "none",
        "between the halves: none, the paper's A to H, l1, or (with data) exact",
        Choice(CONSTRAINT_NAMES),
    )
    constraint_weight: float | None = option(
        None, "weight of the constraint in the loss, 1e-3 by default", Real(least=0.0)
    )
    norm: str | None = option(
        None, "norm of the constraint's matrix, frobenius by default", Choice(NORMS), verbs=("fit",)
    )
    reduction: str = option("mean", "of squares over the points of a term", Choice(REDUCTIONS))
    preconditioner: bool = option(
        False, "Christoffel weights K(x) = sqrt(m / sum_k phi_k(x)^2) on the rows", Flag()
    )
    weighting: tuple[Any, ...] = option(
        (),
        "of the loss's terms: gradnorm, causal, or both; fixed by default",
        Texts(tuple(WEIGHTINGS), (GradNorm, Causal)),
        verbs=SOLVE,
    )
    collocation: Collocation = collocation_option()

    def __post_init__(self) -> None:
        if self.stages is not None:
            object.__setattr__(self, "stages", tuple(self.stages))
            for stage in self.stages:
                if not isinstance(stage, Stage):
                    raise ValueError(
                        f"stages are a tuple of stages, but it contains {stage!r}; write for "
                        "instance (Adam(1000), LBFGS(100))"
                    )
        super().__post_init__()
        kinds = [type(WEIGHTINGS.get(each, each)) for each in self.weighting]
        if len(set(kinds)) < len(kinds):
            raise ValueError(f"the same weighting is given twice: {self.weighting}")

    @classmethod
    def paper(cls, **changes: Any) -> "Training":
        """Adam, pruning, L-BFGS, pruning; constraint E and the preconditioner, unless changed."""
        return cls(**{"constraint": "E", "preconditioner": True, **changes})

"""Options of a fit to a table: those of `PANNRegressor`, of `pann fit` and of sweeps of tables."""

import dataclasses
from typing import Any

from pann.basis.index_sets import INDEX_SETS
from pann.methods.options import (
    Choice,
    Flag,
    Instance,
    Real,
    Size,
    Whole,
    Widths,
    check_options,
    documented,
    option,
)
from pann.methods.run import PRECISIONS
from pann.network import Activation, EmbeddingOptions
from pann.network.activations import ACTIVATIONS
from pann.training.loss import CONSTRAINT_NAMES
from pann.training.recipes import NAMES, Recipe

AUTO = "auto"
FEWEST_ROWS_FOR_NETWORK = 100


@documented
@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class Options:
    """What the user asked for; "auto" means: choose."""

    degree: int | str | None = option(
        AUTO, "degree of the polynomial, None for no polynomial", Whole(words=(AUTO,), none=True)
    )
    index_set: str = option(AUTO, "terms of the polynomial", Choice((AUTO, *INDEX_SETS)))
    width: Any = option(
        AUTO, "units of each hidden layer, a number (0: no network) or one for each", Widths()
    )
    depth: int = option(3, "number of hidden layers, where width is a number", Whole(1))
    activation: str | Activation = option(
        AUTO, "activation of the network", Choice((AUTO, *ACTIVATIONS), (Activation,))
    )
    embedding: EmbeddingOptions | str | None = option(
        AUTO,
        "what the network sees of the features; None: the features themselves",
        Instance((EmbeddingOptions,), none=True),
    )
    dropout: float | str = option(AUTO, "rate of dropout", Real(least=0.0, below=1.0))
    constraint: str = option(
        AUTO,
        "orthogonality between the halves: none, weak (A to H, l1) or exact",
        Choice((AUTO, *CONSTRAINT_NAMES)),
    )
    preconditioner: bool = option(False, "Christoffel weights on the rows", Flag())
    recipe: str | Recipe = option(
        AUTO,
        "training: auto, default, paper, products, or stages",
        Choice((AUTO, *NAMES), (tuple,)),
    )
    trials: int = option(1, "networks trained from different starts, whose mean predicts", Whole(1))
    held_out: float = option(
        0.1, "fraction of the rows that training does not see", Real(least=0.0, below=1.0)
    )
    precision: str = option(AUTO, "of the model", Choice((AUTO, *PRECISIONS)))
    memory: int | str = option(
        2 * 2**30,
        "budget for the table of the polynomial and its copies; a larger table is evaluated in "
        "chunks or minibatches of rows, and the degree is bounded where a recipe, or ridge "
        "regression on 50,000 rows, needs more",
        Size(),
    )
    seed: int = option(0, "for all random choices", Whole(0))

    def __post_init__(self) -> None:
        check_options(self)
        if self.degree is None and self.width == 0:
            raise ValueError("degree=None and width=0 leave nothing to fit; give one of them")

    def get(self, name: str, default: Any) -> Any:
        """The option, or the default where the user left the choice."""
        value = getattr(self, name)
        return default if isinstance(value, str) and value == AUTO else value

    def wants_network(self, num_rows: int) -> bool:
        enough = self.degree is None or num_rows >= FEWEST_ROWS_FOR_NETWORK
        return enough if self.width == AUTO else self.width != 0

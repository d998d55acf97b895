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
from pann.model.architecture import PRECISIONS
from pann.network import Activation, EmbeddingOptions
from pann.network.activations import ACTIVATIONS
from pann.training.loss import CONSTRAINT_NAMES
from pann.training.recipes import NAMES

AUTO = "auto"
FEWEST_ROWS_FOR_NETWORK = 100


@dataclasses.dataclass(kw_only=True, eq=False, repr=False)
class TableOptions:
    """What users ask for, of `PANNRegressor` and of `pann fit`; "auto" means: choose."""

    degree: Any = option(
        AUTO, "degree of the polynomial, None for no polynomial", Whole(words=(AUTO,), none=True)
    )
    index_set: Any = option(AUTO, "terms of the polynomial", Choice((AUTO, *INDEX_SETS)))
    width: Any = option(
        AUTO, "units of each hidden layer, a number (0: no network) or one for each", Widths()
    )
    depth: Any = option(3, "number of hidden layers, where width is a number", Whole(1))
    activation: Any = option(
        AUTO, "activation of the network", Choice((AUTO, *ACTIVATIONS), (Activation,))
    )
    embedding: Any = option(
        AUTO,
        "what the network sees of the features; None: the features themselves",
        Instance((EmbeddingOptions,), none=True),
    )
    dropout: Any = option(AUTO, "rate of dropout", Real(least=0.0, below=1.0))
    constraint: Any = option(
        AUTO,
        "orthogonality between the halves: none, weak (A to H, l1) or exact",
        Choice((AUTO, *CONSTRAINT_NAMES)),
    )
    preconditioner: Any = option(False, "Christoffel weights on the rows", Flag())
    recipe: Any = option(
        AUTO,
        "training: auto, default, paper, products, or stages",
        Choice((AUTO, *NAMES), (tuple,)),
    )
    trials: Any = option(1, "networks trained from different starts, whose mean predicts", Whole(1))
    precision: Any = option(AUTO, "of the model", Choice((AUTO, *PRECISIONS)))
    memory: Any = option(
        "2GB",
        "budget for the table of the polynomial and its copies; a larger table is evaluated in "
        "chunks or minibatches of rows, and the degree is bounded where a recipe, or ridge "
        "regression on 50,000 rows, needs more",
        Size(),
    )


@documented
@dataclasses.dataclass(kw_only=True, repr=False)
class Options(TableOptions):
    """The same, checked, for the candidates of a fit."""

    held_out: float = option(
        0.1, "fraction of the rows that training does not see", Real(least=0.0, below=1.0)
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

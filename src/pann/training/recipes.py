"""Recipes: tuples of stages with names.

`paper` is what the paper did. `default` depends on the sizes: Levenberg-Marquardt where its
Jacobian and normal matrix are affordable, minibatch Adam between two linear solves where not.
"""

import dataclasses
from collections.abc import Sequence

import jax

from pann.basis import Basis
from pann.basis.in_program import check_in_program, is_in_program
from pann.training.gauss_newton import GaussNewton
from pann.training.gradient import LBFGS, Adam, Cosine, GradientStage
from pann.training.guard import KeepIfBetter, Race
from pann.training.linear import LeastSquares
from pann.training.loss import Loss
from pann.training.place import Place
from pann.training.prune import DropPolynomial, Prune
from pann.training.ridge import Ridge
from pann.training.spline_products import AddProducts
from pann.training.task import Stage

Recipe = tuple[Stage, ...]

PAPER: Recipe = (Adam(20_000, Cosine(1e-3)), Prune(1e-4), LBFGS(400), Prune(1e-4))

# Steep units along the axes for rough functions, gentle ones in all directions for smooth ones: a
# few iterations tell which.
STEEP: Recipe = (Place(), LeastSquares("both"), GaussNewton(20))
GENTLE: Recipe = (Place((1.0, 5.0), aligned=0.0), LeastSquares("both"), GaussNewton(20))
SECOND_ORDER: Recipe = (Race((STEEP, GENTLE)), GaussNewton(), LeastSquares("both"))

# Polynomial and products of splines, without training a network: seconds instead of minutes.
PRODUCTS: Recipe = (
    LeastSquares("polynomial", alone=True),
    AddProducts(),
    Prune(1e-12, relative=True),
)

# Coefficients below this share of the largest are rounding, not signal.
ROUND_OFF_SHARE = {"float64": 1e-12, "float32": 1e-5}


@dataclasses.dataclass(frozen=True)
class Sizes:
    """What the choice of a recipe depends on."""

    num_points: int
    num_terms: int
    num_network_parameters: int
    num_outputs: int = 1
    dropout: bool = False
    precision: str = "float64"
    batch_limit: int = 1024

    @property
    def newton_operations(self) -> float:
        """Floating-point operations of one Levenberg-Marquardt iteration."""
        rows, count = self.num_points * self.num_outputs, self.num_network_parameters
        smaller = min(rows, count)
        return 2.0 * rows * count * (smaller + 2 * self.num_terms) + smaller**3 / 3

    @property
    def newton_bytes(self) -> float:
        """Memory of one Levenberg-Marquardt iteration: some Jacobians and normal matrices."""
        rows, count = self.num_points * self.num_outputs, self.num_network_parameters
        item = 8 if self.precision == "float64" else 4
        return item * (4.0 * rows * count + 3.0 * min(rows, count) ** 2)


# One iteration in a few seconds: 4e11 operations on two CPU cores, a hundred times that on a GPU.
NEWTON_OPERATIONS = {"cpu": 4e11, "gpu": 4e13}
NEWTON_BYTES = {"cpu": 8e9, "gpu": 6e10}


def default_recipe(sizes: Sizes) -> tuple[Recipe, str]:
    """The recipe for these sizes, and a sentence that says why."""
    prune = Prune(ROUND_OFF_SHARE[sizes.precision], relative=True)
    if sizes.num_network_parameters == 0:
        return (LeastSquares("polynomial"), prune), "no network: the polynomial is solved for"
    first = () if sizes.num_terms == 0 else (LeastSquares("polynomial", alone=True),)
    platform = "cpu" if jax.default_backend() == "cpu" else "gpu"
    affordable = (
        sizes.newton_operations <= NEWTON_OPERATIONS[platform]
        and sizes.newton_bytes <= NEWTON_BYTES[platform]
    )
    counts = f"{sizes.num_network_parameters:,} network parameters on {sizes.num_points:,} points"
    if affordable and not sizes.dropout:
        # Where the points are too few for the terms, which shows late, the network alone is
        # better. A race of one keeps the keys: the network alone is then trained the same way.
        alone: Recipe = (DropPolynomial(), *SECOND_ORDER)
        ways = (SECOND_ORDER, alone) if sizes.num_terms > 1 else (SECOND_ORDER,)
        network: Recipe = (Race(ways),)
        why = f"second order: {counts} are {sizes.newton_operations:.1e} operations an iteration"
    else:
        batch = sizes.batch_limit if sizes.num_points > 2 * sizes.batch_limit else None
        adam = Adam(20_000, Cosine(2e-3), batch_size=batch, patience=4_000)
        network = (Place(), LeastSquares("both"), adam, LeastSquares("both"))
        why = f"gradient: {counts} are too many for Levenberg-Marquardt on this device"
        if sizes.dropout:
            why = "gradient: dropout needs it"
    return (*first, KeepIfBetter(network), prune), why


def describe(recipe: Recipe) -> str:
    """A recipe as one would type it, a stage a line."""
    return "(\n" + "".join(f"    {stage!r},\n" for stage in recipe) + ")"


NAMES = ("default", "paper", "products")


def recipe_named(recipe: str | Recipe, sizes: Sizes) -> tuple[Recipe, str]:
    """A recipe by name, or as given, with a sentence that says why these stages."""
    if isinstance(recipe, str):
        if recipe not in NAMES:
            raise ValueError(
                f"there is no recipe '{recipe}'; choose one of {', '.join(NAMES)}, or give a tuple "
                "of stages such as (Adam(1000), LBFGS(100))"
            )
        if recipe == "products":
            return PRODUCTS, "products of splines beside the polynomial"
        return (PAPER, "as in the paper") if recipe == "paper" else default_recipe(sizes)
    stages = tuple(recipe)
    for stage in stages:
        if not isinstance(stage, Stage):
            raise ValueError(
                f"a recipe is a tuple of stages, but it contains {stage!r}; write for instance "
                "(Adam(1000), LBFGS(100))"
            )
    return stages, "as given"


# ---- Which stages can train on rows in chunks, without the whole table ----


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

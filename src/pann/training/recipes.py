"""Recipes: tuples of stages with names.

`paper` is what the paper did, `default` depends on the sizes, `products` trains no network.
"""

import dataclasses
from collections.abc import Sequence

from pann.basis import Basis
from pann.basis.basis import check_in_program
from pann.runtime.platform import on_cpu
from pann.training.gauss_newton import GaussNewton
from pann.training.gradient import LBFGS, Adam, Cosine, GradientStage, Stepwise
from pann.training.guard import KeepIfBetter, Race
from pann.training.linear import LeastSquares, Ridge
from pann.training.loss import Loss
from pann.training.place import Place
from pann.training.prune import DropPolynomial, Prune
from pann.training.spline_products import AddProducts
from pann.training.task import Stage

Recipe = tuple[Stage, ...]

# What the paper did: for data, and for equations.
PAPER: Recipe = (Adam(20_000, Cosine(1e-3)), Prune(1e-4), LBFGS(400), Prune(1e-4))
# The paper does not say how many iterations of L-BFGS. With 400 calls of at most 20 each and a
# history of 100, which the usual library makes by default, polynomials have its errors.
PAPER_EQUATIONS: Recipe = (
    Adam(100_000, Stepwise(1e-3, 0.9, 2_000), record_every=500),
    Prune(1e-4),
    LBFGS(8_000, memory=100, record_every=100),
    Prune(1e-4),
)

# Polynomial and products of splines, without training a network: seconds instead of minutes.
PRODUCTS: Recipe = (
    LeastSquares("polynomial", alone=True),
    AddProducts(),
    Prune(1e-12, relative=True),
)

# Coefficients below this fraction of the largest are rounding, not signal.
ROUND_OFF_FRACTION = {"float64": 1e-12, "float32": 1e-5}
# One iteration in a few seconds: 4e11 operations on two CPU cores, a hundred times that on a GPU.
NEWTON_OPERATIONS = {"cpu": 4e11, "gpu": 4e13}
NEWTON_BYTES = {"cpu": 8e9, "gpu": 6e10}


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


def default_recipe(sizes: Sizes) -> tuple[Recipe, str]:
    """The recipe for these sizes, and a sentence that says why.

    1. Solve for the polynomial alone.
    2. Train a network together with it, by second order where that is affordable (`second_order`)
       and by gradients where not (`gradient`). Take the result only if it is better.
    3. Prune coefficients that are rounding.
    """
    polynomial: Recipe = (LeastSquares("polynomial", alone=True),)
    prune = Prune(ROUND_OFF_FRACTION[sizes.precision], relative=True)
    if sizes.num_network_parameters == 0:
        return (LeastSquares("polynomial"), prune), "no network: the polynomial is solved for"
    if sizes.num_terms == 0:
        polynomial = ()
    platform = "cpu" if on_cpu() else "gpu"
    is_affordable = (
        sizes.newton_operations <= NEWTON_OPERATIONS[platform]
        and sizes.newton_bytes <= NEWTON_BYTES[platform]
    )
    counts = f"{sizes.num_network_parameters:,} network parameters on {sizes.num_points:,} points"
    if sizes.dropout:
        network, why = gradient(sizes), "gradient: dropout needs it"
    elif is_affordable:
        network, why = second_order(sizes), f"second order: {counts} are "
        why += f"{sizes.newton_operations:.1e} operations per iteration"
    else:
        network = gradient(sizes)
        why = f"gradient: {counts} are too many for Levenberg-Marquardt on this device"
    return (*polynomial, KeepIfBetter(network), prune), why


def second_order(sizes: Sizes) -> Recipe:
    """Levenberg-Marquardt from the better of two starts, with the polynomial and without it."""
    # Steep units along the axes for rough functions, gentle ones in all directions for smooth
    # ones: a few iterations tell which.
    steep: Recipe = (Place(), LeastSquares("both"), GaussNewton(20))
    gentle: Recipe = (Place((1.0, 5.0), aligned=0.0), LeastSquares("both"), GaussNewton(20))
    together: Recipe = (Race((steep, gentle)), GaussNewton(), LeastSquares("both"))
    # Where the points are too few for the terms, which shows late, the network alone is better. A
    # race of one keeps the keys: the network alone is then trained the same way.
    alone: Recipe = (DropPolynomial(), *together)
    return (Race((together, alone) if sizes.num_terms > 1 else (together,)),)


def gradient(sizes: Sizes) -> Recipe:
    """Adam, in minibatches where rows are many, between two linear solves."""
    batch = sizes.batch_limit if sizes.num_points > 2 * sizes.batch_limit else None
    adam = Adam(20_000, Cosine(2e-3), batch_size=batch, patience=4_000)
    return (Place(), LeastSquares("both"), adam, LeastSquares("both"))


def describe(recipe: Recipe) -> str:
    """A recipe as one would type it, one stage per line."""
    return "(\n" + "".join(f"    {stage!r},\n" for stage in recipe) + ")"


NAMED = {
    "paper": (PAPER, "as in the paper"),
    "products": (PRODUCTS, "products of splines together with the polynomial"),
}
NAMES = ("default", *NAMED)


def recipe_named(recipe: str | Recipe, sizes: Sizes) -> tuple[Recipe, str]:
    """A recipe by name, or as given, with a sentence that says why these stages."""
    if not isinstance(recipe, str):
        return recipe, "as given"
    return default_recipe(sizes) if recipe == "default" else NAMED[recipe]


# ---- Training on rows in chunks, without the whole table ----

CHUNKABLE = GradientStage | Ridge | Prune


def needs_whole_table(recipe: str | Sequence[Stage] | None) -> bool:
    """Whether a recipe of the user's has stages that need all rows at once."""
    return any(not isinstance(stage, CHUNKABLE) for stage in recipe or ())


def can_chunk(stages: Sequence[Stage], loss: Loss, basis: Basis) -> bool:
    """Whether neither a stage nor the loss nor the basis needs all rows at once."""
    try:
        check_chunks(stages, loss, basis)
    except ValueError:
        return False
    return True


def check_chunks(stages: Sequence[Stage], loss: Loss, basis: Basis) -> None:
    """Refuse what needs the whole table, where that is larger than the memory given."""
    larger = "the table is larger than the memory given, and"
    cure = "lower the degree, or give more memory"
    for stage in stages:
        if not isinstance(stage, CHUNKABLE):
            raise ValueError(
                f"{larger} {type(stage).__name__} needs all of it; train with Adam, LBFGS, Prune "
                f"or Ridge alone, {cure}"
            )
    if loss.constraint == "exact" or loss.norm == "spectral":
        what = "exact constraint" if loss.constraint == "exact" else "spectral norm"
        raise ValueError(f"{larger} the {what} needs all of it; use another, {cure}")
    check_in_program(basis)


def follows_gradients(recipe: Recipe) -> bool:
    """Whether a stage, or one inside of it, reads gradients of the loss."""
    for stage in recipe:
        inner: tuple[Recipe, ...] = ()
        if isinstance(stage, KeepIfBetter):
            inner = (stage.stages,)
        elif isinstance(stage, Race):
            inner = stage.branches
        if isinstance(stage, Adam | LBFGS) or any(map(follows_gradients, inner)):
            return True
    return False

"""Training: stages, recipes made of them, and the linear algebra that they share."""

from pann.training.gauss_newton import GaussNewton
from pann.training.gradient import LBFGS, Adam, Constant, Cosine, GradNorm, Rate, Stepwise
from pann.training.guard import KeepIfBetter, Race, run_recipe
from pann.training.linear import LeastSquares
from pann.training.place import Place
from pann.training.prune import DropPolynomial, Prune
from pann.training.recipes import (
    PAPER,
    PRODUCTS,
    Recipe,
    Sizes,
    default_recipe,
    describe,
    recipe_named,
)
from pann.training.ridge import Ridge
from pann.training.spline_products import AddProducts
from pann.training.task import Outcome, Stage, Task

__all__ = [
    "LBFGS",
    "PAPER",
    "PRODUCTS",
    "Adam",
    "AddProducts",
    "Constant",
    "Cosine",
    "DropPolynomial",
    "GaussNewton",
    "GradNorm",
    "KeepIfBetter",
    "LeastSquares",
    "Outcome",
    "Place",
    "Prune",
    "Race",
    "Rate",
    "Recipe",
    "Ridge",
    "Sizes",
    "Stage",
    "Stepwise",
    "Task",
    "default_recipe",
    "describe",
    "recipe_named",
    "run_recipe",
]

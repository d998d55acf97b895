"""Training: stages, recipes made of them, and the linear algebra that they share."""

from pann.training.gauss_newton import GaussNewton
from pann.training.gradient import LBFGS, Adam, Constant, Cosine, GradNorm, Rate, Stepwise
from pann.training.guard import KeepIfBetter, Race, run_recipe
from pann.training.linear import LeastSquares, Ridge
from pann.training.loss import Loss, Rows
from pann.training.place import Place
from pann.training.prune import DropPolynomial, Prune
from pann.training.recipes import (
    PAPER,
    PAPER_EQUATIONS,
    PRODUCTS,
    Recipe,
    Sizes,
    default_recipe,
    describe,
    recipe_named,
)
from pann.training.spline_products import AddProducts
from pann.training.task import Outcome, Stage, Task

__all__ = [
    "LBFGS",
    "PAPER",
    "PAPER_EQUATIONS",
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
    "Loss",
    "Outcome",
    "Place",
    "Prune",
    "Race",
    "Rate",
    "Recipe",
    "Ridge",
    "Rows",
    "Sizes",
    "Stage",
    "Stepwise",
    "Task",
    "default_recipe",
    "describe",
    "recipe_named",
    "run_recipe",
]

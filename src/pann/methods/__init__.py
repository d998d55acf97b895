"""Methods as data: how `pann.fit` and `pann.solve` go about it, one frozen dataclass per file.

A method's fields are its options. `METHODS` has them by the names that the command line and sweep
files use; a new method is a file, a line here, and a case in the verbs that run it.
"""

from collections.abc import Callable, Mapping
from typing import Any

from pann.methods.collocation import Collocation
from pann.methods.description import describe, restore
from pann.methods.elements import Elements
from pann.methods.hybrid import Hybrid
from pann.methods.mlp import MLP
from pann.methods.options import (
    Option,
    check_names,
    check_verb,
    choose,
    flat_options,
    given_options,
    grouped,
)
from pann.methods.polynomial import Polynomial
from pann.methods.products import Products
from pann.methods.run import RunOptions
from pann.methods.training import Training
from pann.methods.windows import Windows

FitMethod = Polynomial | Hybrid | Training | Products
SolveMethod = Polynomial | Hybrid | Training | Windows | Elements
Method = FitMethod | SolveMethod

METHODS: dict[str, type] = {
    "polynomial": Polynomial,
    "hybrid": Hybrid,
    "paper": Training,
    "windows": Windows,
    "elements": Elements,
    "products": Products,
}
OF_VERB: dict[str, tuple[str, ...]] = {
    "fit": ("polynomial", "hybrid", "paper", "products"),
    "solve": ("polynomial", "hybrid", "paper", "windows", "elements"),
}
FACTORIES: dict[str, Callable[..., Any]] = {"paper": Training.paper}


def method_named(name: str, given: Mapping[str, Any], verb: str) -> Any:
    """A method by its name with flat options, `method_named("hybrid", {"width": 8}, "solve")`."""
    owner = METHODS[choose("method", name, OF_VERB[verb])]
    check_names(owner, given, verb)
    return FACTORIES.get(name, owner)(**grouped(owner, given))


def name_of(method: Method) -> str:
    """The name under which a method is known to the command line."""
    return next(name for name, owner in METHODS.items() if isinstance(method, owner))


def method_description(method: Method) -> dict[str, Any] | None:
    """A method as plain values for a file; None if it holds arrays or classes of your own."""
    return describe(method, name_of(method))


def method_from_description(value: Any, what: str) -> Any:
    """The method that a file describes."""
    return restore(METHODS, value, what)


__all__ = [
    "METHODS",
    "MLP",
    "OF_VERB",
    "Collocation",
    "Elements",
    "FitMethod",
    "Hybrid",
    "Method",
    "Option",
    "Polynomial",
    "Products",
    "RunOptions",
    "SolveMethod",
    "Training",
    "Windows",
    "check_verb",
    "flat_options",
    "given_options",
    "method_description",
    "method_from_description",
    "method_named",
    "name_of",
]

"""Users' functions get the arguments that they name: fields, axes and parameters."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def check_arguments(function: Callable[..., Any], known: Mapping[str, Any], what: str) -> None:
    """Refuse a function that asks for something else, unless that has a default value."""
    for name, parameter in _parameters(function).items():
        if name not in known and parameter.default is inspect.Parameter.empty:
            raise ValueError(
                f"{what} asks for '{name}', which is not among {', '.join(known)}; name its "
                f"arguments so, or give '{name}' a default value: {name}=..."
            )


def call_by_name(function: Callable[..., Any], given: Mapping[str, Any]) -> Any:
    """The function of those of the given arguments that it names, or of all where it takes any.

    What has a default value and is not given keeps it: `lambda u, x, nu=nu: ...`.
    """
    if isinstance(function, np.ufunc):
        # It has no names of ours: as many as it takes, in order.
        return function(*list(given.values())[: function.nin])
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # of C, without names
        return function(*given.values())
    if any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters):
        return function(**given)
    if any(each.kind is inspect.Parameter.VAR_POSITIONAL for each in parameters):
        return function(*given.values())
    return function(**{name: given[name] for name in _parameters(function) if name in given})


def _parameters(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return {}
    return {name: each for name, each in parameters.items() if each.kind in _NAMED}

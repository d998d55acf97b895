"""Checks of the shapes and types in signatures that take a third of the time of jaxtyping's own.

jaxtyping binds the arguments of each call to their names, for its messages, and checks them in
one function that beartype writes and once more, with the result, in another. Here beartype checks
the function itself, and where its signature has shapes jaxtyping's memory holds the sizes of the
call.
"""

import functools
import inspect
import sys
import types
import typing
from collections.abc import Callable
from typing import Any, NamedTuple

import jaxtyping

by_jaxtyping = jaxtyping.jaxtyped
sizes_of_a_call = by_jaxtyping("context")


class Written(NamedTuple):
    """What beartype makes of a function."""

    function: Any
    has_shapes: bool


# By the code of a function and its hints: equal shapes are not the same object.
written: dict[tuple[types.CodeType, str], Written] = {}


def install() -> None:
    """To be called after jaxtyping's hook is installed, before what it checks is imported."""
    sys.modules[by_jaxtyping.__module__].jaxtyped = jaxtyping.jaxtyped = checked


def checked(function: Any = None, *, typechecker: Callable[[Any], Any]) -> Any:
    """The decorator that jaxtyping's hook writes above each function and class."""
    if function is None:
        return functools.partial(checked, typechecker=typechecker)
    # Of a class it checks __init__, of a property what it holds: by this function again.
    if not isinstance(function, types.FunctionType) or inspect.isgeneratorfunction(function):
        return by_jaxtyping(function, typechecker=typechecker)
    if not function.__annotations__:
        return function
    with_types, has_shapes = type_checked(function, typechecker)

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        if jaxtyping.config.jaxtyping_disable:
            return function(*args, **kwargs)
        if not has_shapes:
            return with_types(*args, **kwargs)
        with sizes_of_a_call:
            return with_types(*args, **kwargs)

    return wrapped


def type_checked(function: types.FunctionType, typechecker: Callable[[Any], Any]) -> Written:
    """By beartype; functions within a function, which each call makes anew, share what it writes.

    It takes half a millisecond to write, a tenth of the time of many tests.
    """
    key = function.__code__, str(function.__annotations__)
    if key not in written:
        written[key] = newly_checked(function, typechecker)
    first, has_shapes = written[key]
    if first.__code__ is function.__code__:  # there is nothing to check
        return Written(function, has_shapes)
    options = first.__kwdefaults__ or {}
    if "__beartype_func" not in options:
        return newly_checked(function, typechecker)
    again = types.FunctionType(first.__code__, first.__globals__)
    again.__kwdefaults__ = {**options, "__beartype_func": function}
    return Written(again, has_shapes)


def newly_checked(function: types.FunctionType, typechecker: Callable[[Any], Any]) -> Written:
    hints = function.__annotations__
    read = {name: read_hint(hint, function.__globals__) for name, hint in hints.items()}
    function.__annotations__ = read
    try:
        return Written(typechecker(function), any(map(is_shape, read.values())))
    finally:
        function.__annotations__ = hints


def read_hint(hint: Any, names: dict[str, Any]) -> Any:
    """Text is read, if it names what is known already, and not to type checkers alone."""
    try:
        one = types.SimpleNamespace(__annotations__={"hint": hint})
        return typing.get_type_hints(one, names, include_extras=True)["hint"]
    except (AttributeError, NameError):
        return Any


def is_shape(hint: Any) -> bool:
    """Whether there may be names of sizes in it."""
    is_own = isinstance(hint, type) and hint.__module__ == "jaxtyping"
    return is_own or any(map(is_shape, typing.get_args(hint)))

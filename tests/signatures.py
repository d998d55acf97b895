"""Checks of the shapes and types in signatures that take a third of the time of jaxtyping's own.

jaxtyping binds the arguments of each call to their names, for its messages, and checks them in
one function that beartype writes and once more, with the result, in another. Here beartype checks
the function itself, and where its signature has shapes jaxtyping's memory holds the sizes of the
call.
"""

import functools
import inspect
import types
import typing
from collections.abc import Callable
from typing import Any, NamedTuple

import jaxtyping
from jaxtyping import _decorator, _storage
from jaxtyping._decorator import _destring_annotation as read_hint

by_jaxtyping = jaxtyping.jaxtyped


class Written(NamedTuple):
    """What beartype makes of a function."""

    function: Any
    has_shapes: bool


# By the code of a function and its hints: equal shapes are not the same object.
written: dict[tuple[types.CodeType, str], Written] = {}


def install() -> None:
    """To be called after jaxtyping's hook is installed, before what it checks is imported."""
    jaxtyping.jaxtyped = _decorator.jaxtyped = checked


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
        _storage.push_shape_memo({})
        try:
            return with_types(*args, **kwargs)
        finally:
            _storage.pop_shape_memo()

    return wrapped


def type_checked(function: types.FunctionType, typechecker: Callable[[Any], Any]) -> Written:
    """By beartype; functions within a function, which each call makes anew, share what it writes.

    It takes half a millisecond to write, a tenth of the time of many tests.
    """
    key = function.__code__, str(function.__annotations__)
    if key not in written:
        written[key] = newly_checked(function, typechecker)
    first = written[key]
    options = first.function.__kwdefaults__ or {}
    original = options.get("__beartype_func")
    if original is None:  # no wrapper, as there is nothing to check
        return newly_checked(function, typechecker)
    again = types.FunctionType(first.function.__code__, first.function.__globals__)
    again.__kwdefaults__ = {**options, "__beartype_func": function}
    return Written(again, first.has_shapes)


def newly_checked(function: types.FunctionType, typechecker: Callable[[Any], Any]) -> Written:
    """With hints that are text read; what they name may be known to type checkers alone."""
    hints = function.__annotations__
    read = {name: read_hint(hint, function.__globals__) for name, hint in hints.items()}
    function.__annotations__ = read
    try:
        return Written(typechecker(function), any(map(is_shape, read.values())))
    finally:
        function.__annotations__ = hints


def is_shape(hint: Any) -> bool:
    """Whether there may be names of sizes in it."""
    is_own = isinstance(hint, type) and hint.__module__ == "jaxtyping"
    return is_own or any(map(is_shape, typing.get_args(hint)))

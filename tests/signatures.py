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
from typing import Any

import jaxtyping
from jaxtyping import _decorator, _storage

by_jaxtyping = jaxtyping.jaxtyped
# What beartype has written for the code of a function and its hints.
written: dict[Any, Any] = {}


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
    hints = function.__annotations__.values()
    if not hints:
        return function
    with_types = type_checked(function, typechecker)
    has_shapes = any(map(is_shape, hints))

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


def type_checked(function: Any, typechecker: Callable[[Any], Any]) -> Any:
    """By beartype; functions within a function, which each call makes anew, share what it writes.

    It takes half a millisecond to write, a tenth of the time of many tests.
    """
    key = function.__code__, str(function.__annotations__)  # equal shapes are not the same
    if key not in written:
        written[key] = typechecker(function)
    first = written[key]
    options = first.__kwdefaults__ or {}
    if options.get("__beartype_func", function) is function:
        return first
    again = types.FunctionType(first.__code__, first.__globals__, function.__name__)
    again.__kwdefaults__ = {**options, "__beartype_func": function}
    return again


def is_shape(hint: Any) -> bool:
    """Whether there may be names of sizes in it."""
    if isinstance(hint, str):  # read only when the function is called
        return True
    is_own = isinstance(hint, type) and hint.__module__ == "jaxtyping"
    return is_own or any(map(is_shape, typing.get_args(hint)))

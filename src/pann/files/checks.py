"""What is demanded of values that come from a file: each failure is one sentence."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

Value = TypeVar("Value")

MAX_DEPTH = 32  # of nested lists and objects in a header
MAX_INTEGER = 2**64  # in a header; Python would read, slowly, any
AGAIN = "get a fresh copy of the file, or save the model again"


class FileError(ValueError):
    """A file that cannot be opened or written, with the reason."""


def shown(value: object) -> str:
    """The value as it would be typed, cut to a length that can be read."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def told(error: Exception) -> str:
    """What an error says, in one line that any terminal can print."""
    text = str(error) or type(error).__name__
    line = "".join(c if c.isprintable() else repr(c)[1:-1] for c in text[:200])
    return line if len(text) <= 200 else f"{line}..."


def check_object(value: Any, what: str, keys: Sequence[str]) -> dict[str, Any]:
    """An object with exactly these keys."""
    if not isinstance(value, dict):
        raise FileError(f"{what} must be an object with {', '.join(keys)}, but is {shown(value)}")
    for key in keys:
        if key not in value:
            raise FileError(f"{what} has no '{key}'")
    for key in value:
        if key not in keys:
            raise FileError(f"{what} has {shown(key)}, but may only have {', '.join(keys)}")
    return value


def check_list(value: Any, what: str) -> list[Any]:
    if not isinstance(value, list):
        raise FileError(f"{what} must be a list, but is {shown(value)}")
    return value


def check_text(value: Any, what: str) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= 1000:
        raise FileError(f"{what} must be a text of 1 to 1000 characters, but is {shown(value)}")
    if any("\ud800" <= character <= "\udfff" for character in value):
        raise FileError(f"{what} is {shown(value)}, which has characters that Unicode lacks")
    return value


def check_integer(value: Any, what: str, low: int, high: int) -> int:
    # A bool is an int of Python's, and no number of anything here.
    if type(value) is not int or not low <= value <= high:
        raise FileError(f"{what} must be an integer from {low} to {high}, but is {shown(value)}")
    return value


def check_number(value: Any, what: str) -> float:
    if type(value) is int and abs(value) <= 2**53:
        return float(value)
    if not isinstance(value, float) or not math.isfinite(value):
        raise FileError(f"{what} must be a finite number, but is {shown(value)}")
    return value


def check_bool(value: Any, what: str) -> bool:
    if not isinstance(value, bool):
        raise FileError(f"{what} must be true or false, but is {shown(value)}")
    return value


def look_up(value: Any, what: str, choices: Mapping[str, Value]) -> Value:
    """What the name stands for; a file chooses among what is here and brings nothing along."""
    if not isinstance(value, str) or value not in choices:
        raise FileError(f"{what} must be one of {', '.join(choices)}, but is {shown(value)}")
    return choices[value]


def check_plain(value: Any, what: str, depth: int = 0) -> None:
    """Refuse what JSON cannot give back as it was: other types, NaN, keys that are not text."""
    if depth > MAX_DEPTH:
        raise FileError(f"{what} is nested deeper than {MAX_DEPTH} levels; flatten it")
    if isinstance(value, dict):
        for key, inner in value.items():
            if not isinstance(key, str):
                raise FileError(f"{what} has the key {shown(key)}; keys must be text")
            check_plain(inner, what, depth + 1)
    elif isinstance(value, list | tuple):
        for inner in value:
            check_plain(inner, what, depth + 1)
    elif isinstance(value, float) and not math.isfinite(value):
        raise FileError(f"{what} holds {value}, which JSON does not have; use null")
    elif isinstance(value, int) and abs(value) > MAX_INTEGER:
        raise FileError(f"{what} holds an integer beyond 64 bits; write it as text")
    elif value is not None and not isinstance(value, bool | int | float | str):
        raise FileError(
            f"{what} holds {shown(value)} of type {type(value).__name__}; use text, numbers, "
            "booleans, lists and dictionaries, and put arrays among the arrays"
        )

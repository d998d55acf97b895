"""What is demanded of values that come from a file: each failure is one sentence."""

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Never, TypeAlias, TypeVar

import numpy as np

from pann.errors import FileError

Value = TypeVar("Value")
Check: TypeAlias = Callable[[Any, str], Any]

MAX_DEPTH = 32  # of nested lists and objects in a description
MAX_INTEGER = 2**64  # in a description; Python would read, slowly, any
MAX_DIMENSIONS = 32  # of an array
MAX_SIZE = 2**40  # of anything counted: only arrays that are there can have such shapes
METADATA = "__metadata__"  # which safetensors keeps for itself
# By the names of safetensors: little-endian, whatever the machine, and no objects.
DTYPES: dict[str, np.dtype[Any]] = {
    "F64": np.dtype("<f8"),
    "I64": np.dtype("<i8"),
    "F32": np.dtype("<f4"),
    "I32": np.dtype("<i4"),
    "U8": np.dtype("|u1"),
    "BOOL": np.dtype("|b1"),
}
NAME = re.compile(r"[A-Za-z0-9_]([.-]?[A-Za-z0-9_]){0,99}")
AGAIN = "get a fresh copy of the file, or save the model again"


class Contents(NamedTuple):
    """What a `.pann` file holds, of whatever format version; the arrays are read-only."""

    kind: str
    description: dict[str, Any]
    arrays: dict[str, np.ndarray]
    pann_version: str
    format_version: int


def shown(value: object) -> str:
    """The value as it would be typed, cut to a length that can be read."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def one_line(error: Exception) -> str:
    """The message of an error, in one line that any terminal can print."""
    text = str(error) or type(error).__name__
    line = "".join(c if c.isprintable() else repr(c)[1:-1] for c in text[:200])
    return line if len(text) <= 200 else f"{line}..."


# ---- Values ----


def check_object(
    value: Any, what: str, keys: Sequence[str], optional: Sequence[str] = ()
) -> dict[str, Any]:
    """An object with all of these keys, perhaps the optional ones, and no other."""
    if not isinstance(value, dict):
        raise FileError(f"{what} must be an object with {', '.join(keys)}, but is {shown(value)}")
    for key in keys:
        if key not in value:
            raise FileError(f"{what} has no '{key}'")
    allowed = (*keys, *optional)
    for key in value:
        if key not in allowed:
            raise FileError(f"{what} has {shown(key)}, but may only have {', '.join(allowed)}")
    return value


def of_type(kind: type, name: str) -> Check:
    """The check of a value of one type."""

    def check(value: Any, what: str) -> Any:
        if not isinstance(value, kind):
            raise FileError(f"{what} must be {name}, but is {shown(value)}")
        return value

    return check


check_dict, check_string = of_type(dict, "an object"), of_type(str, "a text")
check_bool = of_type(bool, "true or false")


def check_list(value: Any, what: str, least: int = 0, most: int = MAX_SIZE) -> list[Any]:
    if not isinstance(value, list):
        raise FileError(f"{what} must be a list, but is {shown(value)}")
    if not least <= len(value) <= most:
        bound = f"fewer than the {least:,} needed"
        bound = f"more than the {most:,} allowed" if len(value) > most else bound
        raise FileError(f"{what} has {len(value):,} entries, {bound}")
    return value


def check_text(value: Any, what: str) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= 1000:
        raise FileError(f"{what} must be a text of 1 to 1000 characters, but is {shown(value)}")
    if any("\ud800" <= character <= "\udfff" for character in value):
        raise FileError(f"{what} is {shown(value)}, which has characters that Unicode lacks")
    return value


def check_integer(value: Any, what: str, low: int, high: int) -> int:
    # In Python a bool is an int; here it is no number.
    if type(value) is not int or not low <= value <= high:
        raise FileError(f"{what} must be an integer from {low} to {high}, but is {shown(value)}")
    return value


def integer(low: int, high: int = MAX_SIZE) -> Check:
    """The check of an integer between bounds."""
    return lambda value, what: check_integer(value, what, low, high)


def check_number(value: Any, what: str) -> float:
    if type(value) is int and abs(value) <= 2**53:
        return float(value)
    if not isinstance(value, float) or not math.isfinite(value):
        raise FileError(f"{what} must be a finite number, but is {shown(value)}")
    return value


def look_up(value: Any, what: str, choices: Mapping[str, Value]) -> Value:
    """What the name stands for; a file chooses among what is here and brings nothing along."""
    if not isinstance(value, str) or value not in choices:
        raise FileError(f"{what} must be one of {', '.join(choices)}, but is {shown(value)}")
    return choices[value]


def one_of(choices: Sequence[str]) -> Check:
    """The check of a name among some."""
    return lambda value, what: look_up(value, what, {name: name for name in choices})


def check_name(value: Any) -> str:
    """The name of an array, in a file or on its way there."""
    if not isinstance(value, str) or not NAME.fullmatch(value) or value == METADATA:
        raise FileError(
            f"{shown(value)} cannot name an array; use letters, digits and underscores, with "
            f"single dots or hyphens between them, and not {METADATA}"
        )
    return value


def check_shape(value: Any, name: str) -> tuple[int, ...]:
    """The shape that a file declares for an array."""
    shape = check_list(value, f"the shape of array '{name}'")
    if len(shape) > MAX_DIMENSIONS:
        raise FileError(
            f"array '{name}' has {len(shape)} dimensions, more than the {MAX_DIMENSIONS} allowed"
        )
    what = f"each length in the shape of array '{name}'"
    lengths = tuple(check_integer(length, what, 0, 2**48) for length in shape)
    # An empty array may still have lengths that overflow when NumPy multiplies them.
    if math.prod(max(length, 1) for length in lengths) > 2**56:
        raise FileError(f"array '{name}' declares the impossible shape {shown(lengths)}")
    return lengths


def exactly(read: Callable[[int], bytes], num_bytes: int) -> bytes:
    """The next bytes of a file, all of them."""
    try:
        data = read(num_bytes)
    except MemoryError:
        raise FileError(f"{num_bytes:,} bytes do not fit into this machine's memory") from None
    if len(data) < num_bytes:
        raise FileError(f"it was cut short while it was read; {AGAIN}")
    return data


def as_stored(numbers: np.ndarray, shape: tuple[int, ...], name: str) -> np.ndarray:
    """The array of this shape that nobody may write to, of its numbers in a file."""
    if numbers.dtype == bool and numbers.view(np.uint8).max(initial=0) > 1:
        raise FileError(f"array '{name}' holds a bool that is neither 0 nor 1; {AGAIN}")
    # A copy only where another writer did not align it, or bytes come in another order.
    aligned = numbers if numbers.flags.aligned else numbers.copy()
    array = aligned.astype(numbers.dtype.newbyteorder("="), copy=False).reshape(shape)
    array.flags.writeable = False
    return array


# ---- JSON ----


def plain(value: Any) -> Any:
    """The same for JSON: numbers of Python in the place of NumPy's, null for those of no value."""
    if isinstance(value, Mapping):
        return {key: plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    if getattr(value, "ndim", None) == 0:
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value


def check_plain(value: Any, what: str, keys: tuple[str | int, ...] = ()) -> None:
    """Refuse what JSON cannot give back as it was: other types, NaN, keys that are not text.

    `keys` say where in `what` the value is. A ValueError, for the value may be an argument.
    """
    if fault := _fault(value, len(keys)):
        where = f"{shown('.'.join(map(str, keys)))} of {what}" if keys else what
        raise ValueError(f"{where} {fault}")
    if isinstance(value, dict | list | tuple):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            check_plain(inner, what, (*keys, key))


def _fault(value: Any, depth: int) -> str | None:
    """Why JSON cannot give this value back, apart from what is in it."""
    match value:
        case _ if depth > MAX_DEPTH:
            return f"is nested deeper than {MAX_DEPTH} levels; flatten it"
        case dict() if odd := [key for key in value if not isinstance(key, str)]:
            return f"has the key {shown(odd[0])}; keys must be text"
        case float() if not math.isfinite(value):
            return f"is {value}, which JSON does not have; use null or text"
        case int() if abs(value) > MAX_INTEGER:
            return "is an integer beyond 64 bits; write it as text"
        case None | bool() | int() | float() | str() | list() | tuple() | dict():
            return None
    return (
        f"is {shown(value)} of type {type(value).__name__}; use text, numbers, booleans, null, "
        "lists and dictionaries, and put arrays among the arrays of a file"
    )


def parse_json(text: bytes | str, what: str) -> Any:
    """The value of a text in JSON, as strictly as `check_plain`, and without repeated keys."""

    def refuse_constant(name: str) -> Never:
        raise FileError(f"{what} holds {name}, which is no number of JSON")

    def finite(digits: str) -> float:
        number = float(digits)
        if not math.isfinite(number):
            raise FileError(f"{what} holds {digits[:20]}, which is beyond every float64")
        return number

    def short(digits: str) -> int:
        if len(digits) > 21:
            raise FileError(f"{what} holds an integer of {len(digits):,} digits, beyond 64 bits")
        return int(digits)

    def without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        content = dict(pairs)
        if len(content) < len(pairs):
            keys = [key for key, _ in pairs]
            twice = next(key for key in keys if keys.count(key) > 1)
            raise FileError(f"{what} says {shown(twice)} twice in one object")
        return content

    try:
        content = json.loads(
            text if isinstance(text, str) else text.decode("utf-8"),
            parse_constant=refuse_constant,
            parse_float=finite,
            parse_int=short,
            object_pairs_hook=without_repeats,
        )
    except FileError:
        raise
    except RecursionError:
        raise FileError(f"{what} is nested deeper than {MAX_DEPTH} levels") from None
    except ValueError as error:
        raise FileError(f"{what} is not valid JSON ({error}); {AGAIN}") from None
    try:
        check_plain(content, what)
    except ValueError as error:
        raise FileError(str(error)) from None
    return content

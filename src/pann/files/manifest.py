"""The text of `pann.json`: what a file says of itself, before any of its arrays is touched."""

import dataclasses
import functools
import importlib.metadata
import json
import math
import re
from typing import Any, Never

import numpy as np

from pann.files.checks import (
    AGAIN,
    MAX_DEPTH,
    FileError,
    check_integer,
    check_list,
    check_object,
    check_plain,
    check_text,
    look_up,
    shown,
)

FORMAT = "pann"
FORMAT_VERSION = 1
MAX_TEXT_BYTES = 16 * 2**20
MAX_DIMENSIONS = 32

# Little-endian, whatever the machine; nothing that NumPy would need to unpickle.
DTYPES: dict[str, np.dtype[Any]] = {
    "float64": np.dtype("<f8"),
    "float32": np.dtype("<f4"),
    "int64": np.dtype("<i8"),
    "int32": np.dtype("<i4"),
    "uint8": np.dtype("|u1"),
    "bool": np.dtype("|b1"),
}
_NAME = re.compile(r"[A-Za-z0-9_]([.-]?[A-Za-z0-9_]){0,99}")
_KEYS = ("format", "format_version", "pann_version", "kind", "header", "arrays")


@dataclasses.dataclass(frozen=True)
class Declared:
    """An array as `pann.json` announces it."""

    name: str
    dtype: str
    shape: tuple[int, ...]

    @property
    def member(self) -> str:
        return f"arrays/{self.name}.npy"

    @property
    def num_bytes(self) -> int:
        """Of its numbers alone; exact, since Python's integers do not overflow."""
        return math.prod(self.shape) * DTYPES[self.dtype].itemsize


@dataclasses.dataclass(frozen=True)
class Manifest:
    kind: str
    header: dict[str, Any]
    arrays: tuple[Declared, ...]


def declare(name: str, array: np.ndarray) -> Declared:
    """Announce an array that is to be written."""
    _check_name(name)
    if array.dtype.name not in DTYPES:
        raise FileError(
            f"array '{name}' has dtype {array.dtype}, but a .pann file holds "
            f"{', '.join(DTYPES)}; convert it first"
        )
    return Declared(name, array.dtype.name, tuple(array.shape))


def encode(manifest: Manifest) -> bytes:
    """The text of `pann.json`."""
    check_text(manifest.kind, "the kind")
    check_plain(manifest.header, "the header", depth=1)
    content = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "pann_version": _pann_version(),
        "kind": manifest.kind,
        "header": manifest.header,
        "arrays": [dataclasses.asdict(array) for array in manifest.arrays],
    }
    text = json.dumps(content, indent=1, allow_nan=False).encode("ascii")
    if len(text) > MAX_TEXT_BYTES:
        raise FileError(
            f"the header takes {len(text) / 2**20:.1f} MiB, more than the "
            f"{MAX_TEXT_BYTES >> 20} MiB that pann.json may have; put large data among the arrays"
        )
    return text


def decode(text: bytes) -> Manifest:
    """The manifest in the text of `pann.json`, or a `FileError` that says what is wrong with it."""
    content = _parse(text)
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise FileError("pann.json does not say that this is a pann file")
    version = content.get("format_version")
    if type(version) is not int or version != FORMAT_VERSION:
        raise FileError(
            f"it has format version {shown(version)}, but this pann reads version "
            f"{FORMAT_VERSION}; open it with the pann that wrote it"
        )
    check_object(content, "pann.json", _KEYS)
    check_text(content["pann_version"], "'pann_version' of pann.json")
    if not isinstance(content["header"], dict):
        raise FileError(f"'header' must be an object, but is {shown(content['header'])}")
    arrays = tuple(
        _declared(entry) for entry in check_list(content["arrays"], "'arrays' of pann.json")
    )
    names = set()
    for array in arrays:
        if array.name in names:
            raise FileError(f"pann.json declares array '{array.name}' twice")
        names.add(array.name)
    kind = check_text(content["kind"], "'kind' of pann.json")
    return Manifest(kind, content["header"], arrays)


def _declared(entry: Any) -> Declared:
    check_object(entry, "an array in pann.json", ("name", "dtype", "shape"))
    name = check_text(entry["name"], "the name of an array")
    _check_name(name)
    look_up(entry["dtype"], f"the dtype of array '{name}'", DTYPES)
    shape = check_list(entry["shape"], f"the shape of array '{name}'")
    if len(shape) > MAX_DIMENSIONS:
        raise FileError(
            f"array '{name}' has {len(shape)} dimensions, more than the {MAX_DIMENSIONS} allowed"
        )
    what = f"each length in the shape of array '{name}'"
    lengths = tuple(check_integer(length, what, 0, 2**48) for length in shape)
    # An empty array may still have lengths that overflow when NumPy multiplies them.
    if math.prod(max(length, 1) for length in lengths) > 2**56:
        raise FileError(f"array '{name}' declares the impossible shape {shown(lengths)}")
    return Declared(name, entry["dtype"], lengths)


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise FileError(
            f"{shown(name)} cannot name an array; use letters, digits and underscores, with "
            "single dots or hyphens between them"
        )


def _parse(text: bytes) -> Any:
    try:
        content = json.loads(
            text.decode("utf-8"),
            parse_constant=_refuse_constant,
            parse_float=_finite,
            parse_int=_short,
            object_pairs_hook=_without_repeats,
        )
    except FileError:
        raise
    except RecursionError:
        raise FileError(f"pann.json is nested deeper than {MAX_DEPTH} levels") from None
    except ValueError as error:
        raise FileError(f"pann.json is not valid JSON ({error}); {AGAIN}") from None
    check_plain(content, "pann.json")
    return content


def _refuse_constant(name: str) -> Never:
    raise FileError(f"pann.json holds {name}, which is no number of JSON")


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise FileError(f"pann.json holds {digits[:20]}, which is beyond every float64")
    return number


def _short(digits: str) -> int:
    if len(digits) > 21:
        raise FileError(f"pann.json holds an integer of {len(digits):,} digits, beyond 64 bits")
    return int(digits)


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content: dict[str, Any] = {}
    for key, value in pairs:
        if key in content:
            raise FileError(f"pann.json says {shown(key)} twice in one object")
        content[key] = value
    return content


@functools.cache
def _pann_version() -> str:
    try:
        return importlib.metadata.version("pann")
    except importlib.metadata.PackageNotFoundError:  # run from a checkout
        return "unknown"

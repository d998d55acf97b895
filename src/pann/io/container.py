"""`.pann` files: a description in JSON and plain arrays, in the layout of safetensors.

    8 bytes     the length of the header, little-endian
    header      JSON, padded with blanks so that the arrays are aligned
    arrays      their numbers one after another, little-endian, in C order

The header maps the name of an array to its dtype, shape and place, {"dtype": "F64", "shape":
[2, 3], "data_offsets": [0, 48]}. Its "__metadata__" maps text to text: what kind of object the
file holds, the versions, the description (JSON in a text) and a checksum of all that. Every reader
of safetensors opens such a file (https://github.com/huggingface/safetensors). Nothing in it is
code, and every number in it is checked before it is used.

Format versions: `write` writes version 2. `read` finds the reader of a file by its first bytes:
version 1 was a zip (`pann.io.zip_format`). A third version begins in `read`, with a reader of its
own that returns `Contents`; files of the old ones stay readable (tests/files).
"""

import functools
import importlib.metadata
import json
import math
import os
import stat
import zlib
from collections.abc import Mapping
from typing import IO, Any, NamedTuple

import numpy as np

from pann.errors import FileError
from pann.io.checks import (
    AGAIN,
    DTYPES,
    METADATA,
    Contents,
    as_stored,
    check_dict,
    check_integer,
    check_list,
    check_name,
    check_object,
    check_plain,
    check_shape,
    check_string,
    check_text,
    exactly,
    look_up,
    parse_json,
    shown,
)
from pann.io.zip_format import ZIP_MAGIC, read_zip
from pann.runtime.atomic import reason, write_atomically

FORMAT, FORMAT_VERSION = "pann", 2
MAX_BYTES = 8 * 2**30
MAX_HEADER_BYTES = 16 * 2**20
_METADATA_KEYS = ("format", "format_version", "pann_version", "kind", "description", "crc32")
_LENGTH_BYTES = 8
_NAMES = {dtype.name: name for name, dtype in DTYPES.items()}


class Declared(NamedTuple):
    """An array as the header declares it."""

    name: str
    dtype: str
    shape: tuple[int, ...]


def declare(name: str, array: np.ndarray) -> Declared:
    """The declaration of an array that is to be written."""
    check_name(name)
    if array.dtype.name not in _NAMES:
        raise FileError(
            f"array '{name}' has dtype {array.dtype}, but a .pann file holds "
            f"{', '.join(_NAMES)}; convert it first"
        )
    return Declared(name, _NAMES[array.dtype.name], tuple(array.shape))


# ---- Writing ----


def write(
    path: str | os.PathLike[str],
    kind: str,
    description: dict[str, Any],
    arrays: Mapping[str, np.ndarray],
) -> None:
    """Write a `.pann` file at once: whoever looks sees the old file or the whole new one."""
    try:
        declared = [declare(name, array) for name, array in arrays.items()]
        # Wide types first, so that each array begins at a multiple of the size of its numbers.
        declared.sort(key=lambda entry: -DTYPES[entry.dtype].itemsize)
        plain = {
            entry.name: np.asarray(arrays[entry.name], DTYPES[entry.dtype], order="C")
            for entry in declared
        }
        header = _header(kind, description, declared, plain)

        def write_file(temporary: str) -> None:
            with open(temporary, "xb") as file:
                file.write(len(header).to_bytes(_LENGTH_BYTES, "little"))
                file.write(header)
                for array in plain.values():
                    file.write(array.data)

        write_atomically(path, write_file)
    except ValueError as error:
        if isinstance(error.__cause__, OSError):
            raise  # it names the file
        raise FileError(f"cannot write {os.fspath(path)!r}: {error}") from error


def _header(
    kind: str, description: dict[str, Any], declared: list[Declared], plain: dict[str, np.ndarray]
) -> bytes:
    check_text(kind, "the kind")
    check_plain(description, "the header", ("description",))
    metadata = {
        "format": FORMAT,
        "format_version": str(FORMAT_VERSION),
        "pann_version": version_of("pann"),
        "kind": kind,
        "description": _dump(description),
    }
    metadata["crc32"] = checksum(metadata, declared, plain)
    header: dict[str, Any] = {METADATA: metadata}
    end = 0
    for name, dtype, shape in declared:
        begin, end = end, end + plain[name].nbytes
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}
    text = _dump(header).encode("ascii")
    if len(text) > MAX_HEADER_BYTES:
        raise FileError(
            f"the description takes {len(text) / 2**20:.1f} MiB, more than the "
            f"{MAX_HEADER_BYTES >> 20} MiB of a header; put large data among the arrays"
        )
    return text + b" " * (-len(text) % _LENGTH_BYTES)


def _dump(value: Any) -> str:
    return json.dumps(value, allow_nan=False, separators=(",", ":"))


def checksum(
    metadata: Mapping[str, str], declared: list[Declared], arrays: Mapping[str, np.ndarray]
) -> str:
    """A CRC-32 of the contents, by name, so that files that differ in their order alone agree."""
    in_order = sorted(declared)
    texts = sorted((key, text) for key, text in metadata.items() if key != "crc32")
    crc = zlib.crc32(_dump([texts, in_order]).encode("ascii"))
    for entry in in_order:
        crc = zlib.crc32(arrays[entry.name].data, crc)
    return f"{crc:08x}"


@functools.cache
def version_of(package: str) -> str:
    """The version of an installed package."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:  # run from a checkout
        return "unknown"


# ---- Reading ----


def read(path: str | os.PathLike[str], *, max_bytes: int = MAX_BYTES) -> Contents:
    """The contents of a `.pann` file; one that would take more than `max_bytes` is refused."""
    try:
        # Asked before opening: to open a pipe is to wait for someone to write to it.
        mode = os.stat(path).st_mode
        if stat.S_ISDIR(mode):
            raise FileError("it is a folder; name a file in it")
        if not stat.S_ISREG(mode):
            raise FileError("it is not a regular file")
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            # Nothing unpacks: what a file takes is what it has.
            if size > max_bytes:
                raise FileError(
                    f"it would take {size:,} bytes, more than max_bytes = {max_bytes:,}; raise "
                    "max_bytes if you trust the file"
                )
            magic = file.read(len(ZIP_MAGIC))
            file.seek(0)
            # As the length of a header these bytes would be far beyond what is allowed.
            return (read_zip if magic == ZIP_MAGIC else _read_safetensors)(file, size)
    except (OSError, ValueError) as error:
        why = reason(error) if isinstance(error, OSError) else str(error)
        if isinstance(error, FileNotFoundError):
            why = "there is no such file; check the name and the folder"
        raise FileError(f"cannot open {os.fspath(path)!r}: {why}") from error


def _read_safetensors(file: IO[bytes], size: int) -> Contents:
    start = file.read(_LENGTH_BYTES)
    length = int.from_bytes(start, "little")
    num_bytes = size - _LENGTH_BYTES - length
    if len(start) < _LENGTH_BYTES or length > MAX_HEADER_BYTES:
        raise FileError(
            f"it is not a .pann file, for its first {_LENGTH_BYTES} bytes are not the length of a "
            f"header of at most {MAX_HEADER_BYTES:,} bytes; check the name"
        )
    if num_bytes < 0:
        raise FileError(f"it was cut short: its header alone has {length:,} bytes; {AGAIN}")
    metadata, places = _parse_header(exactly(file.read, length))
    _check_places(places, num_bytes)
    data = exactly(file.read, num_bytes)
    arrays = {
        entry.name: np.frombuffer(data, DTYPES[entry.dtype], math.prod(entry.shape), begin)
        for entry, (begin, _) in places.items()
    }
    if metadata["crc32"] != checksum(metadata, list(places), arrays):
        raise FileError(f"it is damaged: its checksum is another one; {AGAIN}")
    what = "the description"
    return Contents(
        kind=check_text(metadata["kind"], "the kind"),
        description=check_dict(parse_json(metadata["description"], what), what),
        arrays={name: as_stored(arrays[name], shape, name) for name, _, shape in places},
        pann_version=check_text(metadata["pann_version"], "the version of pann"),
        format_version=FORMAT_VERSION,
    )


def _parse_header(text: bytes) -> tuple[dict[str, str], dict[Declared, tuple[int, int]]]:
    """The metadata, and the place of every array, by what the header says of them."""
    header = parse_json(text, "the header")
    # Other readers demand the brace in the first place, too.
    metadata = header.pop(METADATA, None) if text.startswith(b"{") else None
    if not isinstance(metadata, dict) or metadata.get("format") != FORMAT:
        raise FileError("its header does not say that this is a pann file")
    if metadata.get("format_version") != str(FORMAT_VERSION):
        raise FileError(
            f"it has format version {shown(metadata.get('format_version'))}, but this pann reads "
            f"versions 1 and {FORMAT_VERSION}; open it with the pann that wrote it"
        )
    check_object(metadata, "the metadata", _METADATA_KEYS)
    for key, value in metadata.items():
        check_string(value, f"'{key}' of the metadata")
    places = {}
    for name, entry in header.items():
        check_name(name)
        check_object(entry, f"array '{name}'", ("dtype", "shape", "data_offsets"))
        look_up(entry["dtype"], f"the dtype of array '{name}'", DTYPES)
        offsets = check_list(entry["data_offsets"], f"the offsets of array '{name}'")
        for offset in offsets:
            check_integer(offset, f"each offset of array '{name}'", 0, 2**62)
        if len(offsets) != 2:
            raise FileError(f"array '{name}' must have 2 offsets, but has {len(offsets)}")
        shape = check_shape(entry["shape"], name)
        places[Declared(name, entry["dtype"], shape)] = tuple(offsets)
    return metadata, places


def _check_places(places: dict[Declared, tuple[int, int]], num_bytes: int) -> None:
    """The arrays must follow one another, without gap or overlap, from the header to the end."""
    last = 0
    for entry, (begin, end) in sorted(places.items(), key=lambda item: item[1]):
        # Exact, since Python's integers do not overflow.
        own = math.prod(entry.shape) * DTYPES[entry.dtype].itemsize
        if end - begin != own:
            raise FileError(
                f"array '{entry.name}' takes {own:,} bytes for its shape {shown(entry.shape)}, "
                f"but its offsets are {begin:,} and {end:,}; {AGAIN}"
            )
        if begin != last:
            fault = "overlaps another one" if begin < last else "leaves a gap"
            raise FileError(f"array '{entry.name}' {fault} at byte {begin:,}; {AGAIN}")
        last = end
    if last != num_bytes:
        raise FileError(
            f"it was {'cut short' if num_bytes < last else 'added to'}: its arrays take {last:,} "
            f"bytes, but {num_bytes:,} are there; {AGAIN}"
        )

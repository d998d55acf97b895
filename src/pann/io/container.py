"""What is demanded of values that come from a file: each failure is one sentence."""

import contextlib
import dataclasses
import functools
import importlib.metadata
import json
import math
import os
import re
import secrets
import stat
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import IO, Any, NamedTuple, Never, TypeVar

import numpy as np

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


# ---- The text of `pann.json` ----


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


# ---- The container: a zip of `pann.json` and one `.npy` for each array, read with suspicion ----


MAX_BYTES = 8 * 2**30
TEXT_MEMBER = "pann.json"
_TEMPORARY = ".pann-", ".tmp"
# Honest numbers do not shrink two hundredfold; below a mebibyte it does no harm.
_MAX_RATIO = 200
_RATIO_MATTERS_FROM = 2**20
_MAX_DIRECTORY_BYTES = 16 * 2**20
_ENCRYPTED = 0x1 | 0x40 | 0x2000

# The header that NumPy writes for a plain array in version 1.0 of its format. Matching it, where
# NumPy's own reader evaluates a Python literal, leaves a hostile header nothing to play with.
_NPY_MAGIC = b"\x93NUMPY\x01\x00"
_NPY_PREFIX = len(_NPY_MAGIC) + 2
_NPY_HEADER = re.compile(
    rb"\{'descr': '([^']{1,20})', 'fortran_order': (True|False), "
    rb"'shape': \(((?:\d{1,19}, ?){0,64}(?:\d{1,19})?)\), \} *\n"
)

# All that zipfile and zlib are known to raise when fed with damaged files.
_ZIP_ERRORS = (
    zipfile.BadZipFile,
    RuntimeError,
    EOFError,
    OSError,
    OverflowError,
    MemoryError,
    ValueError,
    struct.error,
    zlib.error,
)


class Contents(NamedTuple):
    """What a `.pann` file holds; the arrays are read-only."""

    kind: str
    header: dict[str, Any]
    arrays: dict[str, np.ndarray]


def write(
    path: str | os.PathLike[str],
    kind: str,
    header: dict[str, Any],
    arrays: Mapping[str, np.ndarray],
) -> None:
    """Write a `.pann` file all at once: whoever looks sees the old file or the whole new one."""
    try:
        declared = tuple(declare(name, array) for name, array in arrays.items())
        text = encode(Manifest(kind, header, declared))
        target = os.path.realpath(path)  # a link stays a link, and what it points to is replaced
        name = f"{_TEMPORARY[0]}{secrets.token_hex(8)}{_TEMPORARY[1]}"
        temporary = os.path.join(os.path.dirname(target), name)
        try:
            with open(temporary, "xb") as file:
                _write_zip(file, text, declared, arrays)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, target)
        finally:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise FileError(
            f"cannot write {os.fspath(path)!r}: {reason}; check the folder, its permissions and "
            "the space on its disk"
        ) from error
    except ValueError as error:
        raise FileError(f"cannot write {os.fspath(path)!r}: {error}") from error


def remove_leftovers(folder: str | os.PathLike[str]) -> None:
    """Remove what a writer that was killed half-way left in a folder."""
    before, after = _TEMPORARY
    for entry in os.scandir(folder):
        if entry.name.startswith(before) and entry.name.endswith(after):
            with contextlib.suppress(OSError):
                os.unlink(entry.path)


def read(path: str | os.PathLike[str], *, max_bytes: int = MAX_BYTES) -> Contents:
    """The contents of a `.pann` file; one that would take more than `max_bytes` is refused."""
    try:
        with _opened(path) as file:
            size = os.fstat(file.fileno()).st_size
            with _damage("the zip directory"):
                _check_end(file, size)
                archive = zipfile.ZipFile(file)
            with archive:
                return _read_zip(archive, size, max_bytes)
    except FileError as error:
        raise FileError(f"cannot open {os.fspath(path)!r}: {error}") from error


# ---- Writing ----


def _write_zip(
    file: IO[bytes],
    text: bytes,
    declared: tuple[Declared, ...],
    arrays: Mapping[str, np.ndarray],
) -> None:
    # `ZipInfo` has a fixed date, so that equal contents make equal files.
    with zipfile.ZipFile(file, "w") as archive:
        # A long text may shrink beyond what `read` believes; it is stored as it is.
        small = len(text) <= _RATIO_MATTERS_FROM
        compression = zipfile.ZIP_DEFLATED if small else zipfile.ZIP_STORED
        archive.writestr(zipfile.ZipInfo(TEXT_MEMBER), text, compression)
        for entry in declared:
            member = zipfile.ZipInfo(entry.member)
            member.file_size = entry.num_bytes + 2**16  # tells zipfile whether it needs zip64
            array = np.asarray(arrays[entry.name], DTYPES[entry.dtype], order="C")
            with archive.open(member, "w") as out:
                np.lib.format.write_array(out, array, version=(1, 0), allow_pickle=False)


# ---- Reading ----


@contextlib.contextmanager
def _damage(what: str) -> Iterator[None]:
    """Whatever zipfile and zlib raise becomes one sentence."""
    try:
        yield
    except FileError:
        raise
    except MemoryError:
        raise FileError(f"{what} does not fit into the memory of this machine") from None
    except _ZIP_ERRORS as error:
        raise FileError(f"{what} is damaged ({told(error)}); {AGAIN}") from error


def _opened(path: str | os.PathLike[str]) -> IO[bytes]:
    try:
        # Asked before opening: to open a pipe is to wait for someone to write to it.
        mode = os.stat(path).st_mode
        if stat.S_ISDIR(mode):
            raise FileError("it is a folder; name a file in it")
        if not stat.S_ISREG(mode):
            raise FileError("it is not a regular file")
        return open(path, "rb")
    except FileNotFoundError:
        raise FileError("there is no such file; check the name and the folder") from None
    except OSError as error:
        raise FileError((error.strerror or str(error)).lower()) from error
    except FileError:
        raise
    except ValueError as error:  # a zero byte in the name
        raise FileError(str(error)) from None


def _check_end(file: IO[bytes], size: int) -> None:
    """Refuse what does not end as a zip does, or has a directory too long to be read."""
    file.seek(0)
    starts_as_zip = file.read(4) == b"PK\x03\x04"
    file.seek(max(0, size - 98))
    tail = file.read(98).rjust(98, b"\0")
    if tail[76:80] != b"PK\x05\x06":
        if starts_as_zip:
            raise FileError(f"it was cut short or added to; {AGAIN}")
        raise FileError("it is not a .pann file, for it is not a zip; check the name")
    (directory_size,) = struct.unpack("<L", tail[88:92])
    if tail[:4] == b"PK\x06\x06":  # the same in zip64
        directory_size = max(directory_size, *struct.unpack("<Q", tail[40:48]))
    if directory_size > min(_MAX_DIRECTORY_BYTES, size):
        raise FileError(
            f"it announces a zip directory of {directory_size:,} bytes in a file of {size:,}; "
            f"at most {_MAX_DIRECTORY_BYTES:,} are read"
        )


def _read_zip(archive: zipfile.ZipFile, size: int, max_bytes: int) -> Contents:
    members = _checked_members(archive, size, max_bytes)
    manifest = decode(_read_text(archive, members))
    announced = {entry.member for entry in manifest.arrays}
    for name in members:
        if name != TEXT_MEMBER and name not in announced:
            raise FileError(f"it holds {name}, which its pann.json does not announce")
    for entry in manifest.arrays:
        if entry.member not in members:
            raise FileError(f"its pann.json announces {entry.member}, which is missing; {AGAIN}")
        _check_length(entry, members[entry.member], max_bytes)
    arrays = {
        entry.name: _read_array(archive, members[entry.member], entry) for entry in manifest.arrays
    }
    return Contents(manifest.kind, manifest.header, arrays)


def _checked_members(
    archive: zipfile.ZipFile, size: int, max_bytes: int
) -> dict[str, zipfile.ZipInfo]:
    """The members by name, after all that can be told without reading one of them."""
    members: dict[str, zipfile.ZipInfo] = {}
    for member in archive.infolist():
        name = member.orig_filename  # `filename` is cut at a zero byte
        if name != TEXT_MEMBER and not re.fullmatch(r"arrays/[\w.-]{1,300}\.npy", name, re.ASCII):
            raise FileError(f"it holds {shown(name)}, which is no name of a pann file's member")
        if name in members:
            raise FileError(f"it holds {name} twice")
        if member.flag_bits & _ENCRYPTED:
            raise FileError(f"{name} is encrypted; save the model without a password")
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise FileError(
                f"{name} is compressed in a way that pann does not read; store or deflate it"
            )
        ratio = member.file_size / max(member.compress_size, 1)
        if member.file_size > _RATIO_MATTERS_FROM and ratio > _MAX_RATIO:
            raise FileError(
                f"{name} would grow {ratio:,.0f}-fold when unpacked, beyond the {_MAX_RATIO}-fold "
                "of any honest file; store it uncompressed"
            )
        members[name] = member
    # Members that share their bytes would let a small file unpack to a large one.
    packed = sum(member.compress_size for member in members.values())
    if packed > size:
        raise FileError(f"its members take {packed:,} bytes, but the file has {size:,}; {AGAIN}")
    unpacked = sum(member.file_size for member in members.values())
    if unpacked > max_bytes:
        raise FileError(
            f"it would take {unpacked:,} bytes, more than max_bytes = {max_bytes:,}; raise "
            "max_bytes if you trust the file"
        )
    return members


def _read_text(archive: zipfile.ZipFile, members: dict[str, zipfile.ZipInfo]) -> bytes:
    if TEXT_MEMBER not in members:
        raise FileError("it is not a .pann file, for it has no pann.json; check the name")
    member = members[TEXT_MEMBER]
    if member.file_size > MAX_TEXT_BYTES:
        raise FileError(
            f"its pann.json has {member.file_size:,} bytes; at most {MAX_TEXT_BYTES:,} are read"
        )
    with _damage(TEXT_MEMBER), archive.open(member) as stream:
        return _exactly(stream.read, member.file_size)


def _check_length(entry: Declared, member: zipfile.ZipInfo, max_bytes: int) -> None:
    """Compare what the array announces with what is there, before any of it is allocated."""
    if entry.num_bytes > max_bytes:
        raise FileError(
            f"array '{entry.name}' announces {entry.num_bytes:,} bytes, more than max_bytes = "
            f"{max_bytes:,}; raise max_bytes if you trust the file"
        )
    if not 0 < member.file_size - entry.num_bytes <= _NPY_PREFIX + 0xFFFF:
        raise FileError(
            f"array '{entry.name}' announces {entry.num_bytes:,} bytes for its shape "
            f"{entry.shape}, but {member.file_size:,} are there; {AGAIN}"
        )


def _read_array(archive: zipfile.ZipFile, member: zipfile.ZipInfo, entry: Declared) -> np.ndarray:
    with _damage(entry.member), archive.open(member) as stream:
        prefix = _exactly(stream.read, _NPY_PREFIX)
        if not prefix.startswith(_NPY_MAGIC):
            raise FileError(f"{entry.member} does not begin as version 1.0 of NumPy's .npy does")
        (length,) = struct.unpack("<H", prefix[-2:])
        if _NPY_PREFIX + length + entry.num_bytes != member.file_size:
            raise FileError(
                f"{entry.member} is {member.file_size:,} bytes long, which its header of {length} "
                f"and its {entry.num_bytes:,} of numbers do not add up to; {AGAIN}"
            )
        _check_header(_exactly(stream.read, length), entry)
        data = _exactly(stream.read, entry.num_bytes)
    if entry.dtype == "bool" and np.frombuffer(data, np.uint8).max(initial=0) > 1:
        raise FileError(f"array '{entry.name}' holds a bool that is neither 0 nor 1; {AGAIN}")
    array = np.frombuffer(data, DTYPES[entry.dtype]).reshape(entry.shape)
    return array.astype(entry.dtype, copy=False)  # a copy only where bytes come in another order


def _check_header(header: bytes, entry: Declared) -> None:
    match = _NPY_HEADER.fullmatch(header)
    if match is None:
        raise FileError(f"{entry.member} has a header that NumPy would not write for plain numbers")
    descr, fortran_order, lengths = match[1].decode("latin1"), match[2], match[3]
    shape = tuple(int(length) for length in re.findall(rb"\d+", lengths))
    if descr != DTYPES[entry.dtype].str:
        raise FileError(
            f"{entry.member} has dtype {shown(descr)}, but pann.json says {entry.dtype}; {AGAIN}"
        )
    if shape != entry.shape:
        raise FileError(
            f"{entry.member} has shape {shown(shape)}, but pann.json says {entry.shape}; {AGAIN}"
        )
    if fortran_order == b"True":
        raise FileError(f"{entry.member} is in Fortran order; write it in C order")


def _exactly(source: Callable[[int], bytes], num_bytes: int) -> bytes:
    data = source(num_bytes)
    if len(data) < num_bytes:
        raise EOFError(f"{num_bytes:,} bytes are needed, {len(data):,} are there")
    return data

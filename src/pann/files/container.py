"""The container: a zip of `pann.json` and one `.npy` for each array, read with suspicion.

A file may come from anywhere. Its sizes are checked against the limits and against one another
before anything is allocated, nothing in it is ever run or unpickled, nothing is extracted to disk,
and whatever is wrong with it is a `FileError`.
"""

import contextlib
import os
import re
import secrets
import stat
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import IO, Any, NamedTuple

import numpy as np

from pann.files.checks import AGAIN, FileError, shown, told
from pann.files.manifest import DTYPES, MAX_TEXT_BYTES, Declared, Manifest, declare, decode, encode

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

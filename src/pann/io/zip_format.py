"""Format version 1, which pann 0.1 wrote and all later ones read: a zip of NumPy's arrays.

`pann.json` holds the kind, the versions, the description and the declarations of the arrays; each
array is a member `arrays/NAME.npy`, stored and not compressed. Nothing is believed: sizes are
compared before anything is unpacked, the header of a `.npy` is compared and not evaluated, and
there is no pickle.
"""

import contextlib
import io
import math
import struct
import zipfile
import zlib
from collections.abc import Iterator
from typing import IO, Any

import numpy as np

from pann.errors import FileError
from pann.io.checks import (
    AGAIN,
    DTYPES,
    Contents,
    as_stored,
    check_dict,
    check_list,
    check_name,
    check_object,
    check_shape,
    check_text,
    exactly,
    look_up,
    one_line,
    parse_json,
    shown,
)

ZIP_MAGIC = b"PK\x03\x04"
FORMAT, FORMAT_VERSION = "pann", 1
TEXT_MEMBER = "pann.json"
MAX_TEXT_BYTES = MAX_DIRECTORY_BYTES = 16 * 2**20
MAX_DEFLATED_BYTES = 2**20  # a longer text was stored as it is
NPY_PREFIX = 10  # bytes: magic, version, and the length of the header
_KEYS = ("format", "format_version", "pann_version", "kind", "header", "arrays")
_BY_NAME = {dtype.name: dtype for dtype in DTYPES.values()}
# All that zipfile and zlib are known to raise when fed with damaged files.
_ZIP_ERRORS = (
    zipfile.BadZipFile,
    RuntimeError,
    EOFError,
    OSError,
    OverflowError,
    ValueError,
    struct.error,
    zlib.error,
)


def read_zip(file: IO[bytes], size: int) -> Contents:
    """The contents of a file of version 1."""
    with _damage("the zip directory"):
        _check_end(file, size)
        archive = zipfile.ZipFile(file)
    with archive:
        members = _checked_members(archive, size)
        content = _read_text(archive, members.pop(TEXT_MEMBER, None))
        arrays: dict[str, np.ndarray] = {}
        for entry in check_list(content["arrays"], "'arrays' of pann.json"):
            check_object(entry, "an array in pann.json", ("name", "dtype", "shape"))
            name = check_name(entry["name"])
            member = members.pop(f"arrays/{name}.npy", None)
            if member is None:
                raise FileError(f"pann.json announces array {shown(name)}, which is missing")
            dtype = look_up(entry["dtype"], f"the dtype of array '{name}'", _BY_NAME)
            arrays[name] = _read_array(archive, member, dtype, check_shape(entry["shape"], name))
    for name in members:
        raise FileError(f"it holds {shown(name)}, which its pann.json does not announce")
    return Contents(
        kind=check_text(content["kind"], "'kind' of pann.json"),
        description=check_dict(content["header"], "'header' of pann.json"),
        arrays=arrays,
        pann_version=check_text(content["pann_version"], "'pann_version' of pann.json"),
        format_version=FORMAT_VERSION,
    )


@contextlib.contextmanager
def _damage(what: str) -> Iterator[None]:
    """Turn whatever zipfile and zlib raise into one sentence."""
    try:
        yield
    except FileError:
        raise
    except MemoryError:
        raise FileError(f"{what} does not fit into the memory of this machine") from None
    except _ZIP_ERRORS as error:
        raise FileError(f"{what} is damaged ({one_line(error)}); {AGAIN}") from error


def _check_end(file: IO[bytes], size: int) -> None:
    """Refuse what does not end as a zip does, or has a directory too long to be read."""
    file.seek(max(0, size - 98))
    tail = file.read(98).rjust(98, b"\0")
    if tail[76:80] != b"PK\x05\x06":
        raise FileError(f"it was cut short or added to; {AGAIN}")
    (directory_size,) = struct.unpack("<L", tail[88:92])
    if tail[:4] == b"PK\x06\x06":  # the same in zip64
        directory_size = max(directory_size, *struct.unpack("<Q", tail[40:48]))
    if directory_size > min(MAX_DIRECTORY_BYTES, size):
        raise FileError(
            f"it announces a zip directory of {directory_size:,} bytes in a file of {size:,}; "
            f"at most {MAX_DIRECTORY_BYTES:,} are read"
        )


def _checked_members(archive: zipfile.ZipFile, size: int) -> dict[str, zipfile.ZipInfo]:
    """The members by name, after all checks that need not read one of them."""
    members: dict[str, zipfile.ZipInfo] = {}
    for member in archive.infolist():
        name = member.orig_filename  # `filename` is cut at a zero byte
        if name in members:
            raise FileError(f"it holds {shown(name)} twice")
        if member.flag_bits:
            raise FileError(f"{shown(name)} is encrypted, or not as pann wrote it; {AGAIN}")
        if member.compress_type == zipfile.ZIP_DEFLATED and name == TEXT_MEMBER:
            limit = MAX_DEFLATED_BYTES
        elif member.compress_type == zipfile.ZIP_STORED:
            limit = member.compress_size
        else:
            raise FileError(f"{shown(name)} is compressed, which pann did not do; store it")
        if member.file_size > limit:
            raise FileError(
                f"{shown(name)} would unpack to {member.file_size:,} bytes, more than the "
                f"{limit:,} of an honest file; store it uncompressed"
            )
        members[name] = member
    # Members that share their bytes would let a small file make many arrays.
    packed = sum(member.compress_size for member in members.values())
    if packed > size:
        raise FileError(f"its members take {packed:,} bytes, but the file has {size:,}; {AGAIN}")
    return members


def _read_text(archive: zipfile.ZipFile, member: zipfile.ZipInfo | None) -> dict[str, Any]:
    if member is None:
        raise FileError("it is not a .pann file, for it has no pann.json; check the name")
    if member.file_size > MAX_TEXT_BYTES:
        raise FileError(
            f"its pann.json has {member.file_size:,} bytes; at most {MAX_TEXT_BYTES:,} are read"
        )
    with _damage(TEXT_MEMBER), archive.open(member) as stream:
        content = parse_json(exactly(stream.read, member.file_size), TEXT_MEMBER)
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise FileError("pann.json does not say that this is a pann file")
    version = content.get("format_version")
    if type(version) is not int or version != FORMAT_VERSION:
        raise FileError(f"a zip has format version {FORMAT_VERSION}, but its is {shown(version)}")
    return check_object(content, TEXT_MEMBER, _KEYS)


def _read_array(
    archive: zipfile.ZipFile,
    member: zipfile.ZipInfo,
    dtype: np.dtype[Any],
    shape: tuple[int, ...],
) -> np.ndarray:
    """The numbers after a header that must be NumPy's for this dtype and shape."""
    name, num_bytes = member.orig_filename, math.prod(shape) * dtype.itemsize
    expected = io.BytesIO()
    said = {"descr": dtype.str, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(expected, said)
    with _damage(name), archive.open(member) as stream:
        prefix = exactly(stream.read, NPY_PREFIX)
        length = int.from_bytes(prefix[-2:], "little")
        if NPY_PREFIX + length + num_bytes != member.file_size:
            raise FileError(
                f"{name} is {member.file_size:,} bytes long, which its header of {length} and "
                f"{num_bytes:,} bytes of numbers of shape {shown(shape)} do not add up to; {AGAIN}"
            )
        header = prefix[:-2] + exactly(stream.read, length)
        # Versions of NumPy differ in their blanks.
        good = expected.getvalue()[: NPY_PREFIX - 2] + expected.getvalue()[NPY_PREFIX:]
        if header.split() != good.split():
            raise FileError(
                f"{name} does not begin as NumPy's array of {dtype.name}, shape {shown(shape)}, in "
                f"C order does; {AGAIN}"
            )
        data = exactly(stream.read, num_bytes)
    return as_stored(np.frombuffer(data, dtype), shape, name)

"""All records of a store in one file: JSON lines, one record per line, compressed by xz.

`xzcat records.jsonl.xz` shows the records as they are in the store, with their arrays under
`packed`. An array of more than 1,024 finite floats, such as a map that is only looked at, is
rounded to 65,535 equal steps between its lowest and highest value, an error of at most 8e-6 of its
range. The differences of neighboring steps along every axis are stored as text, which compresses
well where the map is smooth. Other arrays are stored exactly, as little-endian bytes in base64.
"""

import base64
import dataclasses
import json
import lzma
import os
import pathlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from pann.io import FileError
from pann.runs.row import Row
from pann.runtime.atomic import write_atomically

if TYPE_CHECKING:
    from pann.runs.store import Store

SUFFIX = ".jsonl.xz"
EXACT_SIZE = 1024
STEPS = 2**16 - 1
ARRAYS = "packed"


@dataclasses.dataclass(frozen=True)
class Archive:
    """The records of a packed store by their identities, and their arrays as they were packed."""

    records: Mapping[str, dict[str, Any]]
    packed: Mapping[str, dict[str, Any]]

    def arrays(self, identity: str) -> dict[str, np.ndarray]:
        return {name: _unpacked(entry) for name, entry in self.packed[identity].items()}


def pack(store: "Store", path: str | os.PathLike[str]) -> int:
    """Write all records of a store to one file, all at once; how many these are."""
    target = pathlib.Path(path)
    if not target.name.endswith(SUFFIX):
        raise ValueError(f"a packed store is called *{SUFFIX}, got '{target}'")
    # By experiment, so that neighbors in the file are alike and compress well.
    records = sorted(store.records(), key=lambda record: record["experiment"])

    def write(new: str) -> None:
        with lzma.open(new, "wt", encoding="ascii") as file:
            for record in records:
                row = Row(record["experiment"], record["configuration"])
                arrays = store.arrays(row) if record["arrays"] else {}
                line = {**record, ARRAYS: {name: _packed(each) for name, each in arrays.items()}}
                file.write(json.dumps(line, separators=(",", ":"), allow_nan=False) + "\n")

    write_atomically(target, write)
    return len(records)


def read_archive(path: pathlib.Path) -> Archive:
    """The content of a packed store; arrays are decoded when they are asked for."""
    records: dict[str, dict[str, Any]] = {}
    packed: dict[str, dict[str, Any]] = {}
    try:
        with lzma.open(path, "rt", encoding="ascii") as file:
            for line in file:
                record = json.loads(line)
                packed[record["identity"]] = record.pop(ARRAYS)
                records[record["identity"]] = record
    except FileNotFoundError:
        raise FileError(f"there is no packed store '{path}'") from None
    except (OSError, EOFError, lzma.LZMAError, ValueError, TypeError, KeyError) as error:
        raise FileError(f"'{path}' is no packed store, or is damaged ({error})") from error
    return Archive(records, packed)


def _packed(array: np.ndarray) -> dict[str, Any]:
    dtype = array.dtype.newbyteorder("<")
    entry = {"dtype": dtype.str, "shape": list(array.shape)}
    is_map = array.dtype.kind == "f" and array.size > EXACT_SIZE and np.isfinite(array).all()
    if not is_map:
        content = np.ascontiguousarray(array, dtype).tobytes()
        return {**entry, "bytes": base64.b64encode(content).decode("ascii")}
    values = np.asarray(array, float)
    low, high = float(values.min()), float(values.max())
    steps = np.rint((values - low) / (high - low or 1.0) * STEPS).astype(np.int64)
    for axis in range(steps.ndim):
        steps = np.diff(steps, axis=axis, prepend=0)
    text = " ".join(map(str, steps.ravel().tolist()))
    return {**entry, "low": low, "high": high, "steps": text}


def _unpacked(entry: Mapping[str, Any]) -> np.ndarray:
    dtype, shape = np.dtype(entry["dtype"]), tuple(entry["shape"])
    if dtype.hasobject:
        raise FileError(f"a packed array has the dtype {dtype}; use numbers")
    if "bytes" in entry:
        return np.frombuffer(base64.b64decode(entry["bytes"]), dtype).reshape(shape)
    steps = np.array(entry["steps"].split(), np.int64).reshape(shape)
    for axis in range(steps.ndim):
        steps = np.cumsum(steps, axis=axis)
    low, high = entry["low"], entry["high"]
    return np.asarray(low + (high - low) * (steps / STEPS), dtype)

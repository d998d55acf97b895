"""Arrays kept on disk between runs; the cache is never a reason to fail."""

import collections
import contextlib
import os
import pathlib
import tempfile
import threading
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

import numpy as np


def cache_folder() -> pathlib.Path | None:
    """The one that PANN_CACHE names, or that of the user; None if there is none."""
    if own := os.environ.get("PANN_CACHE"):
        return pathlib.Path(own)
    if shared := os.environ.get("XDG_CACHE_HOME"):
        return pathlib.Path(shared) / "pann"
    try:
        return pathlib.Path.home() / ".cache" / "pann"
    except RuntimeError:  # There is no home folder.
        return None


def load_array(file: pathlib.Path, shape: tuple[int, ...]) -> np.ndarray | None:
    """The floats in the file, or None if there are none or they are not of that shape."""
    try:
        with file.open("rb") as stream:
            array = np.lib.format.read_array(stream, allow_pickle=False)
    except Exception:  # Bytes of a broken file can raise about anything.
        return None
    return array if array.shape == shape and array.dtype == float else None


def store_array(file: pathlib.Path, array: np.ndarray) -> None:
    """Write to a temporary file and rename it: a reader sees all of the array or nothing."""
    with contextlib.suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(suffix=".tmp", dir=file.parent)
        try:
            with os.fdopen(descriptor, "wb") as stream:
                np.save(stream, array, allow_pickle=False)
            os.replace(temporary, file)
        except BaseException:
            os.unlink(temporary)
            raise


# ---- Arrays kept in memory for the next call that asks for the same, as many as fit into a  ----


Kept = TypeVar("Kept")


class BoundedCache(Generic[Kept]):
    """What was made last, by a key; those that were not asked for the longest time go first.

    The bound is on the bytes of all, as their makers count them. What is kept is shared: nobody may
    write to it.
    """

    def __init__(self, max_bytes: int):
        self.max_bytes = max_bytes
        self._kept: collections.OrderedDict[Hashable, tuple[Kept, int]] = collections.OrderedDict()
        self._num_bytes = 0
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, key: Callable[[], Hashable], num_bytes: int, make: Callable[[], Kept]) -> Kept:
        """What was made for an equal key, or make(); what is larger than the bound has no key."""
        if num_bytes > self.max_bytes:
            return make()
        own = key()
        with self._lock:
            if own in self._kept:
                self._kept.move_to_end(own)
                return self._kept[own][0]
        made = make()
        with self._lock:
            if own not in self._kept:
                self._kept[own] = made, num_bytes
                self._num_bytes += num_bytes
            while self._num_bytes > self.max_bytes:
                _, (_, oldest) = self._kept.popitem(last=False)
                self._num_bytes -= oldest
        return made

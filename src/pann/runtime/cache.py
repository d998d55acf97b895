"""Arrays kept for later: on disk between runs, and in memory between calls."""

import collections
import contextlib
import os
import pathlib
import threading
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

import numpy as np

from pann.errors import FileError
from pann.runtime.atomic import write_atomically


def cache_folder() -> pathlib.Path | None:
    """The folder that PANN_CACHE names, or the user's; None if there is none."""
    if own := os.environ.get("PANN_CACHE"):
        return pathlib.Path(own)
    if shared := os.environ.get("XDG_CACHE_HOME"):
        return pathlib.Path(shared) / "pann"
    try:
        return pathlib.Path.home() / ".cache" / "pann"
    except RuntimeError:  # There is no home folder.
        return None


def kept_array(
    name: str,
    shape: tuple[int, ...],
    make: Callable[[], np.ndarray],
    is_valid: Callable[[np.ndarray], bool],
) -> np.ndarray:
    """The array of floats in a file of the cache folder, or make(), which is then stored there.

    A file that is broken, of another shape or not valid is replaced. A cache that cannot be read or
    written is no error.
    """
    folder = cache_folder()
    if folder is None:
        return make()
    file = folder / name
    array = None
    # The bytes of a broken file can raise nearly anything.
    with contextlib.suppress(Exception), file.open("rb") as stream:
        array = np.lib.format.read_array(stream, allow_pickle=False)
    if array is None or array.shape != shape or array.dtype != float or not is_valid(array):
        array = made = make()
        with contextlib.suppress(OSError, FileError):
            file.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(file, lambda temporary: _save(temporary, made))
    return array


def _save(path: str, array: np.ndarray) -> None:
    with open(path, "xb") as stream:  # by its name, NumPy would append .npy
        np.save(stream, array, allow_pickle=False)


Kept = TypeVar("Kept")


class BoundedCache(Generic[Kept]):
    """Values by key, up to a number of bytes; the least recently used ones are dropped first.

    The bytes are those of the values, as their makers count them, and of the byte strings in the
    keys, such as whole sets of points: `functools.lru_cache` bounds neither. Values are shared:
    nobody may write to them.
    """

    def __init__(self, max_bytes: int):
        self.max_bytes = max_bytes
        self._kept: collections.OrderedDict[Hashable, tuple[Kept, int]] = collections.OrderedDict()
        self._num_bytes = 0
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, key: Callable[[], Hashable], num_bytes: int, make: Callable[[], Kept]) -> Kept:
        """The value of an equal key, or make(); a value beyond the bound needs no key."""
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
                self._kept[own] = made, num_bytes + _key_bytes(own)
                self._num_bytes += self._kept[own][1]
            while self._num_bytes > self.max_bytes:
                _, (_, oldest) = self._kept.popitem(last=False)
                self._num_bytes -= oldest
        return made


def _key_bytes(key: object) -> int:
    if isinstance(key, bytes):
        return len(key)
    return sum(map(_key_bytes, key)) if isinstance(key, tuple) else 0

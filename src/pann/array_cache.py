"""Arrays kept on disk between runs; the cache is never a reason to fail."""

import contextlib
import os
import pathlib
import tempfile

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

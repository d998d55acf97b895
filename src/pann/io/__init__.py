"""`.pann` files: models on disk, in a zip of plain numbers that is safe to open."""

from pann.io.codec import load, model_from_state, model_state, save
from pann.io.container import Contents, FileError, read, remove_leftovers, write

__all__ = [
    "Contents",
    "FileError",
    "load",
    "model_from_state",
    "model_state",
    "read",
    "remove_leftovers",
    "save",
    "write",
]

"""`.pann` files: models on disk, in a zip of plain numbers that is safe to open."""

from pann.files.checks import FileError
from pann.files.container import Contents, read, remove_leftovers, write
from pann.files.model_state import load, model_from_state, model_state, save

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

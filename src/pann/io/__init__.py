"""`.pann` files: models on disk, in the layout of safetensors, which is safe to open."""

from pann.errors import FileError
from pann.io.checkpoint import kept_in
from pann.io.checks import Contents
from pann.io.container import read, write
from pann.io.models import load, model_from_state, model_state, save

__all__ = [
    "Contents",
    "FileError",
    "kept_in",
    "load",
    "model_from_state",
    "model_state",
    "read",
    "save",
    "write",
]

"""Compiled programs kept on disk between runs, so that the second run need not compile."""

import os
import pathlib
import tempfile
import warnings

import jax


def use_compilation_cache(folder: pathlib.Path | None = None) -> pathlib.Path | None:
    """Turn on JAX's persistent cache for this process; None if no folder can be written to.

    By default it lies in the folder `xla` of the one that PANN_CACHE names, or of the user's cache
    folder. This changes JAX's global configuration: it is for programs, not for libraries.
    """
    folder = folder or _own_folder()
    if folder is None:
        return None
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError:
        return None
    # A full disk, or two processes that write one entry, are no concern of the user's.
    warnings.filterwarnings("ignore", message="Error (reading|writing) persistent compilation")
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", 0)
    return folder


def _own_folder() -> pathlib.Path | None:
    if own := os.environ.get("PANN_CACHE"):
        return pathlib.Path(own) / "xla"
    if shared := os.environ.get("XDG_CACHE_HOME"):
        return pathlib.Path(shared) / "pann" / "xla"
    try:
        return pathlib.Path.home() / ".cache" / "pann" / "xla"
    except RuntimeError:  # There is no home folder.
        return None

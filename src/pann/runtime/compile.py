"""How functions are compiled, where XLA's own way takes longer than it saves.

For each matrix product of gradient training in single precision XLA would compile and time kernels
of its own on a GPU, which takes seconds each, and cuBLAS's are as fast: those are taken at once.
What runs a few times at each size and spends its time in LAPACK and matrix products is compiled
for a CPU without the optimizations of the code around them, in half the time.
"""

import functools
import os
import pathlib
import tempfile
import warnings
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import equinox as eqx
import jax

OPTIONS = {"xla_gpu_enable_triton_gemm": False}
NOT_OPTIMIZED = {"xla_backend_optimization_level": 0}

Arguments = ParamSpec("Arguments")
Returned = TypeVar("Returned")


def compiled(function: Callable[Arguments, Returned]) -> Callable[Arguments, Returned]:
    # Equinox hands jax.jit's options on, but its types do not know of them.
    return eqx.filter_jit(function, compiler_options=OPTIONS)  # type: ignore


def for_few_runs(
    function: Callable[Arguments, Returned], **options: Any
) -> Callable[Arguments, Returned]:
    """`jax.jit` with its options, in less time on a CPU."""
    quickly = jax.jit(function, compiler_options=NOT_OPTIMIZED, **options)
    well = jax.jit(function, **options)

    @functools.wraps(function)
    def call(*arguments: Arguments.args, **named: Arguments.kwargs) -> Returned:
        chosen = quickly if jax.default_backend() == "cpu" else well
        return chosen(*arguments, **named)

    return call


# ---- Compiled programs kept on disk between runs, so that the second run need not compile ----


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

"""How functions are compiled, where XLA's defaults take longer than they save.

For each matrix product of gradient training in single precision XLA would compile and time its own
kernels on a GPU, which takes seconds each; cuBLAS's are as fast, and are used at once. A function
that runs a few times at each size and spends its time in LAPACK and matrix products is compiled for
a CPU without the optimization of the code around them, in half the time.
"""

import functools
import pathlib
import warnings
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import equinox as eqx
import jax

from pann.errors import FileError
from pann.runtime.atomic import check_folder
from pann.runtime.cache import cache_folder
from pann.runtime.platform import on_cpu

OPTIONS = {"xla_gpu_enable_triton_gemm": False}
NOT_OPTIMIZED = {"xla_backend_optimization_level": 0}

Arguments = ParamSpec("Arguments")
Returned = TypeVar("Returned")


def compiled(function: Callable[Arguments, Returned]) -> Callable[Arguments, Returned]:
    """`eqx.filter_jit` with cuBLAS's matrix products."""
    # Equinox passes jax.jit's options on, but its types do not know of them.
    return eqx.filter_jit(function, compiler_options=OPTIONS)  # type: ignore


def for_few_runs(
    function: Callable[Arguments, Returned], **options: Any
) -> Callable[Arguments, Returned]:
    """`jax.jit` with its options, compiled in less time on a CPU."""
    quickly = jax.jit(function, compiler_options=NOT_OPTIMIZED, **options)
    well = jax.jit(function, **options)

    @functools.wraps(function)
    def call(*arguments: Arguments.args, **named: Arguments.kwargs) -> Returned:
        return (quickly if on_cpu() else well)(*arguments, **named)

    return call


def use_compilation_cache(folder: pathlib.Path | None = None) -> pathlib.Path | None:
    """Turn on JAX's persistent cache of compiled programs; None if no folder can be written to.

    By default it lies in the folder `xla` of `cache_folder()`. This changes JAX's global
    configuration: it is for programs, not for libraries.
    """
    if folder is None and (own := cache_folder()) is not None:
        folder = own / "xla"
    if folder is None:
        return None
    try:
        check_folder(folder, create=True)
    except FileError:
        return None
    # A full disk, or two processes that write one entry, do not concern the user.
    warnings.filterwarnings("ignore", message="Error (reading|writing) persistent compilation")
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", 0)
    return folder

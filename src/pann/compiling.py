"""How functions are compiled that gradient training runs in single precision.

XLA would compile and time kernels of its own for each of their matrix products on a GPU, which
takes seconds each, and cuBLAS's are as fast: those are taken at once.
"""

from collections.abc import Callable
from typing import ParamSpec, TypeVar

import equinox as eqx

OPTIONS = {"xla_gpu_enable_triton_gemm": False}

Arguments = ParamSpec("Arguments")
Returned = TypeVar("Returned")


def compiled(function: Callable[Arguments, Returned]) -> Callable[Arguments, Returned]:
    # Equinox hands jax.jit's options on, but its types do not know of them.
    return eqx.filter_jit(function, compiler_options=OPTIONS)  # type: ignore

"""How functions are compiled, where XLA's own way takes longer than it saves.

For each matrix product of gradient training in single precision XLA would compile and time kernels
of its own on a GPU, which takes seconds each, and cuBLAS's are as fast: those are taken at once.
What runs a few times at each size and spends its time in LAPACK and matrix products is compiled
for a CPU without the optimizations of the code around them, in half the time.
"""

import functools
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

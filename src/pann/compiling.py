"""How pann's functions are compiled.

XLA would compile and time kernels of its own for every single-precision matrix product on a GPU,
which takes five seconds each, and cuBLAS's are as fast: those are taken at once.
"""

import functools

import equinox as eqx

compiled = functools.partial(eqx.filter_jit, compiler_options={"xla_gpu_enable_triton_gemm": False})

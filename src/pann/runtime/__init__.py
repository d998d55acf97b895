"""The machine: compilation, memory, chunks of points, devices, time limits, progress, caches."""

from pann.runtime.compile import use_compilation_cache

__all__ = ["use_compilation_cache"]

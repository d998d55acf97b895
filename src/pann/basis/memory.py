"""A table too large for the memory is refused and not attempted."""

from pann.system_memory import available_memory

# To ask the system takes longer than to fill so little.
ALWAYS_THERE = 2**24


def require_memory(num_bytes: int, what: str, cure: str) -> None:
    """Raise a MemoryError that names sizes and a cure if `num_bytes` are not available."""
    if num_bytes < ALWAYS_THERE:
        return
    available = available_memory()
    if available is not None and num_bytes > available:
        raise MemoryError(
            f"{what} needs {num_bytes / 2**30:,.1f} GiB but {available / 2**30:,.1f} GiB of memory "
            f"are available; {cure}"
        )

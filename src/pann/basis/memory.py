"""How much memory there is, so that a table too large for it is refused and not attempted."""

import os
from pathlib import Path

# To ask the system takes longer than to fill so little.
ALWAYS_THERE = 2**24


def available_memory() -> int | None:
    """Bytes that a program may still take, or None where the system does not say."""
    # MemAvailable counts caches the kernel would give up; the free pages of sysconf do not,
    # and would refuse tables on any machine that has been reading files.
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return 1024 * int(line.split()[1])
    except OSError:
        pass
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None


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

"""How many bytes there are: for this process, of the machine and of its control groups.

In a container the limit is that of a control group (cgroup), and the process is killed at it
however much memory the machine has. Groups are nested; each of them limits those inside it.
A table too large for the memory is refused instead of attempted.
"""

import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import jax

# Files with the limit and the use, and the entry for what the kernel gives up (caches of files).
V1 = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
V2 = ("memory.max", "memory.current", "inactive_file")
# The fraction of a device's memory that training may use: the compiler and others need the rest.
FRACTION = 0.6
# Arrays of the size of a layer's derivatives that a step holds, backward pass included. According
# to XLA its programs take between a third of that and all of it.
COPIES = 4.0
# Assumed where the system does not say how many bytes there are.
ASSUMED_BYTES = 8e9
# Asking the system takes longer than filling so few bytes.
ALWAYS_AVAILABLE = 2**24


def available_memory(root: Path = Path("/")) -> int | None:
    """Bytes that this process may still take, or None where the system does not say."""
    known = [
        number for number in (_of_machine(root), *_of_control_groups(root)) if number is not None
    ]
    return max(0, min(known)) if known else None


def _of_machine(root: Path) -> int | None:
    # MemAvailable counts caches the kernel would give up; the free pages of sysconf do not,
    # and would refuse tables on any machine that has been reading files.
    available = _entry(root / "proc/meminfo", "MemAvailable:")
    if available is not None:
        return 1024 * available
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None


def _of_control_groups(root: Path) -> Iterator[int]:
    """The bytes left in each group that this process is in."""
    mounted = root / "sys/fs/cgroup"
    for line in _text(root / "proc/self/cgroup").splitlines():
        number, controllers, path = line.split(":", 2)
        if "memory" in controllers.split(","):
            mounts, names = [mounted / "memory"], V1
        elif number == "0":
            mounts, names = [mounted, mounted / "unified"], V2
        else:
            continue
        inside = PurePosixPath(path.strip("/"))
        # A container may see the machine's path, with its own group mounted as the root.
        for mount in mounts:
            for group in (inside, *inside.parents):
                left = _left(mount / group, *names)
                if left is not None:
                    yield left


def _left(group: Path, limit: str, usage: str, caches: str) -> int | None:
    """Limit minus use of one group; None without a limit, which version 2 writes as `max`."""
    allowed, used = _text(group / limit).strip(), _text(group / usage).strip()
    if not allowed.isdecimal() or not used.isdecimal():
        return None
    return int(allowed) - int(used) + (_entry(group / "memory.stat", caches) or 0)


def _entry(path: Path, name: str) -> int | None:
    """The number after a name at the start of a line."""
    for line in _text(path).splitlines():
        words = line.split()
        if len(words) >= 2 and words[0] == name:
            return int(words[1])
    return None


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


def device_memory() -> float:
    """Bytes that training may use: of the device, or of the machine if that is the device."""
    stats = jax.devices()[0].memory_stats() or {}
    return FRACTION * float(stats.get("bytes_limit") or available_memory() or ASSUMED_BYTES)


def require_memory(num_bytes: int, what: str, cure: str) -> None:
    """Raise a MemoryError that names sizes and a cure if `num_bytes` are not available."""
    if num_bytes < ALWAYS_AVAILABLE:
        return
    available = available_memory()
    if available is not None and num_bytes > available:
        raise MemoryError(
            f"{what} needs {num_bytes / 2**30:,.1f} GiB but {available / 2**30:,.1f} GiB of memory "
            f"are available; {cure}"
        )

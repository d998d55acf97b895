"""Compiled programs take memory mappings, of which Linux gives a process 65,530 at most.

A sweep compiles programs for rows of ever new shapes; after some hundred the next one would fail.
"""

import pathlib

MAPPINGS = pathlib.Path("/proc/self/maps")
MOST_MAPPINGS = pathlib.Path("/proc/sys/vm/max_map_count")


def forget_programs_if_many() -> bool:
    """Let go of what was compiled when half of the mappings are taken, and say whether it was."""
    try:
        limit = int(MOST_MAPPINGS.read_text())
        with MAPPINGS.open("rb") as lines:
            taken = sum(1 for _ in lines)
    except (OSError, ValueError):  # not Linux
        return False
    if taken < limit / 2:
        return False
    import jax  # a sweep of other work may do without

    jax.clear_caches()
    return True

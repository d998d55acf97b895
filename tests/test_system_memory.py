"""Memory that is left, read from trees of files as kernels present them."""

import os
from pathlib import Path

import pytest

from pann.runtime import memory
from pann.runtime.memory import available_memory

KIB = 1024
UNLIMITED_V1 = "9223372036854771712"
MACHINE = {"proc/meminfo": "MemTotal: 9000 kB\nMemFree: 10 kB\nMemAvailable:    8000 kB\n"}


def tree(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def v2(group: str, limit: str, used: int, caches: int = 0) -> dict[str, str]:
    where = f"sys/fs/cgroup/{group}".rstrip("/")
    return {
        f"{where}/memory.max": f"{limit}\n",
        f"{where}/memory.current": f"{used}\n",
        f"{where}/memory.stat": f"anon 1\ninactive_file {caches}\nactive_file 7\n",
    }


def v1(group: str, limit: str, used: int, caches: int = 0) -> dict[str, str]:
    where = f"sys/fs/cgroup/memory/{group}".rstrip("/")
    return {
        f"{where}/memory.limit_in_bytes": f"{limit}\n",
        f"{where}/memory.usage_in_bytes": f"{used}\n",
        f"{where}/memory.stat": f"inactive_file 3\ntotal_inactive_file {caches}\n",
    }


OF_V2 = {"proc/self/cgroup": "0::/slice/job\n"}
OF_V1 = {"proc/self/cgroup": "5:cpu,cpuacct:/\n4:memory:/slice/job\n0::/\n"}
CASES = {
    "no groups": ({}, 8000 * KIB),
    "no limit": (OF_V2 | v2("slice/job", "max", 5), 8000 * KIB),
    "limit of the group": (OF_V2 | v2("slice/job", "1000000", 400_000), 600_000),
    "limit of an outer group": (
        OF_V2 | v2("slice/job", "1000000", 400_000) | v2("slice", "900000", 700_000),
        200_000,
    ),
    "caches can be given up": (OF_V2 | v2("slice/job", "1000000", 400_000, 100_000), 700_000),
    "over the limit": (OF_V2 | v2("slice/job", "1000", 2000), 0),
    "machine is smaller": (OF_V2 | v2("slice/job", "99000000000", 5), 8000 * KIB),
    # Without a namespace of its own a container sees the machine's path, which is not mounted.
    "group mounted as the root": (OF_V2 | v2("", "1000000", 400_000), 600_000),
    "version 1": (OF_V1 | v1("slice/job", "1000000", 400_000, 50_000), 650_000),
    "version 1, outer group": (
        OF_V1 | v1("slice/job", UNLIMITED_V1, 4) | v1("slice", "500000", 100_000),
        400_000,
    ),
    "version 1 without a limit": (OF_V1 | v1("slice/job", UNLIMITED_V1, 4), 8000 * KIB),
    "both versions": (
        OF_V1 | v1("slice/job", UNLIMITED_V1, 4) | v2("unified", "300000", 100_000),
        200_000,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_least_that_machine_and_groups_leave(tmp_path, name):
    files, expected = CASES[name]
    assert available_memory(tree(tmp_path, MACHINE | files)) == expected


def test_without_meminfo_the_physical_pages_count(tmp_path):
    physical = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert available_memory(tmp_path) == physical


def test_training_of_equations_counts_on_what_is_left(monkeypatch):
    monkeypatch.setattr(memory, "available_memory", lambda: 1000)
    assert memory.device_memory() == pytest.approx(memory.FRACTION * 1000)

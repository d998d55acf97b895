"""Keep the tests away from the user's cache and from any display."""

import gc
import os
import shutil
import signal
import tempfile
import zlib
from collections.abc import Iterator

import equinox as eqx
import jax
import numpy as np
import pytest
import signatures
from threadpoolctl import threadpool_limits

signatures.install()  # jaxtyping's own checks take half of the time of many tests

# Set here and not in a fixture: test modules may import matplotlib while they are collected.
os.environ["MPLBACKEND"] = "Agg"
# The programs of the tests are small and many: compiling them well takes longer than it saves.
jax.config.update("jax_disable_most_optimizations", True)
os.environ["JAX_DISABLE_MOST_OPTIMIZATIONS"] = "1"  # in the processes that they start, too
# XLA's newer emitters of fused loops take as long as all else together, and splitting programs for
# several threads takes 8 percent of tests/test_taylor.py. XLA refuses flags that it does not know:
# these are asked of a version that does.
QUICK_TO_COMPILE = "--xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"
if jax.__version_info__ == (0, 10, 2):
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {QUICK_TO_COMPILE}".strip()

# Most programs are small, and compiled by one test after another: they share them in a folder that
# the first process makes and removes. The environment is for the processes that tests start.
SHARED_PROGRAMS = {
    "jax_persistent_cache_min_compile_time_secs": 0,
    "jax_persistent_cache_min_entry_size_bytes": -1,
}

# A shell starts background jobs with Ctrl-C ignored, and the tests press it.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure(config: pytest.Config) -> None:
    if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
        os.environ["JAX_COMPILATION_CACHE_DIR"] = temporary_folder("pann-programs-", config)
    # Never the user's own: the first process makes it, and all find in it what one has computed.
    if not hasattr(config, "workerinput"):
        os.environ["PANN_CACHE"] = temporary_folder("pann-cache-", config)
    # Two processes that write one entry are no concern here.
    config.addinivalue_line("filterwarnings", "ignore:Error .* persistent compilation")
    for name, value in SHARED_PROGRAMS.items():
        jax.config.update(name, value)
        os.environ[name.upper()] = str(value)
    jax.config.update("jax_compilation_cache_dir", os.environ["JAX_COMPILATION_CACHE_DIR"])


def temporary_folder(prefix: str, config: pytest.Config) -> str:
    """One that is removed when the tests are done."""
    folder = tempfile.mkdtemp(prefix=prefix)
    config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))
    return folder


def pytest_collection_finish() -> None:
    """A tenth of the time of many tests goes into a search for garbage among what stays."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 20, 20)


@pytest.fixture(scope="session", autouse=True)
def one_thread_for_blas() -> Iterator[None]:
    """Two processes that each let OpenBLAS spin on all cores slow one another a hundredfold."""
    # SciPy's copy is the one that JAX calls; it must be loaded to be limited.
    import scipy.linalg  # noqa: F401

    with threadpool_limits(1):
        yield


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    """Random numbers of the test's own, whichever tests ran before it."""
    return np.random.default_rng(zlib.crc32(request.node.nodeid.encode()))


@pytest.fixture(scope="module", autouse=True)
def compiled_programs_are_released() -> Iterator[None]:
    """Each compiled program holds memory maps; thousands in one process end in a crash of XLA."""
    yield
    eqx.clear_caches()
    jax.clear_caches()
    signatures.written.clear()
    gc.collect()

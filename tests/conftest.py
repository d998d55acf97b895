"""Keep the tests away from the user's cache and from any display."""

import gc
import os
from collections.abc import Iterator

import equinox as eqx
import jax
import pytest
from threadpoolctl import threadpool_limits

# Set here and not in a fixture: test modules may import matplotlib while they are collected.
os.environ["MPLBACKEND"] = "Agg"
# The programs of the tests are small and many: compiling them well takes longer than it saves.
jax.config.update("jax_disable_most_optimizations", True)
os.environ["JAX_DISABLE_MOST_OPTIMIZATIONS"] = "1"  # in the processes that they start, too


@pytest.fixture(scope="session", autouse=True)
def one_thread_for_blas() -> Iterator[None]:
    """Two processes that each let OpenBLAS spin on all cores slow one another a hundredfold."""
    # SciPy's copy is the one that JAX calls; it must be loaded to be limited.
    import scipy.linalg  # noqa: F401

    with threadpool_limits(1):
        yield


@pytest.fixture(scope="session", autouse=True)
def temporary_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PANN_CACHE", str(tmp_path_factory.mktemp("pann-cache")))
        yield


@pytest.fixture(scope="module", autouse=True)
def compiled_programs_are_released() -> Iterator[None]:
    """Each compiled program holds memory maps; thousands in one process end in a crash of XLA."""
    yield
    eqx.clear_caches()
    jax.clear_caches()
    gc.collect()

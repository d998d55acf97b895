"""Keep the tests away from the user's cache and from any display."""

import os
from collections.abc import Iterator

import pytest

# Set here and not in a fixture: test modules may import matplotlib while they are collected.
os.environ["MPLBACKEND"] = "Agg"


@pytest.fixture(scope="session", autouse=True)
def temporary_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PANN_CACHE", str(tmp_path_factory.mktemp("pann-cache")))
        yield

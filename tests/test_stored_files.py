"""Files that versions of pann have written are read by this one, and say what they said."""

import json

import numpy as np
import pytest
from stored_files import CONFIGURATION, FOLDER

import pann
from pann.io import read
from pann.io.checkpoint import FILE_NAME, open_checkpoint
from pann.io.container import FORMAT_VERSION

FILES = sorted(FOLDER.glob("*/*.pann"))
KINDS = {"model", "solution", "regressor", "checkpoint"}


def predictions(path, points):
    if path.name == FILE_NAME:
        opened, finished = open_checkpoint(path.parent, CONFIGURATION, resume=True, interval=1e9)
        assert not finished
        saved = opened.within("trial 0").under_way()
        assert saved.notes == {"step": 7}
        return saved.arrays["values"]
    loaded = pann.load(path)
    if isinstance(loaded, pann.Solution):
        return loaded(x=points[:, 0], y=points[:, 1])
    return loaded.predict(points) if isinstance(loaded, pann.PANNRegressor) else loaded(points)


def test_this_version_has_stored_a_file_of_each_kind():
    written = {path.stem for path in FILES if path.parent.name == pann.__version__}
    assert written == KINDS


def test_each_format_version_has_a_stored_file_of_each_kind():
    """A new format version comes with files of its own: python tests/stored_files.py."""
    stored = {(read(path).format_version, path.stem) for path in FILES}
    assert stored == {(version, kind) for version in range(1, FORMAT_VERSION + 1) for kind in KINDS}


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_stored_file_has_the_values_it_was_stored_with(path):
    """Those of NumPy or of a closed form: tests/stored_files.py."""
    stored = json.loads((path.parent / "values.json").read_text())
    known = stored[path.stem]
    found = predictions(path, np.asarray(stored["points"]))
    np.testing.assert_allclose(found, known["values"], rtol=0, atol=known["tolerance"])

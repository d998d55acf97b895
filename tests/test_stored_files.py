"""Files that versions of pann have written are read by this one, and say what they said."""

import json

import numpy as np
import pytest
from stored_files import FOLDER

import pann

FILES = sorted(FOLDER.glob("*/*.pann"))


def predictions(path, points):
    loaded = pann.load(path)
    if isinstance(loaded, pann.Solution):
        return loaded(x=points[:, 0], y=points[:, 1])
    return loaded.predict(points) if isinstance(loaded, pann.PANNRegressor) else loaded(points)


def test_this_version_has_stored_a_file_of_each_kind():
    written = {path.stem for path in FILES if path.parent.name == pann.__version__}
    assert written == {"model", "solution", "regressor"}


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_stored_file_has_the_values_it_was_stored_with(path):
    """Those of NumPy or of a closed form: tests/stored_files.py."""
    stored = json.loads((path.parent / "values.json").read_text())
    known = stored[path.stem]
    found = predictions(path, np.asarray(stored["points"]))
    np.testing.assert_allclose(found, known["values"], rtol=0, atol=known["tolerance"])

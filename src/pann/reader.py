"""Open a `.pann` file, whatever it holds."""

import os
from typing import TYPE_CHECKING, Union

from pann.io import FileError, read
from pann.io import models as model_files
from pann.io.codec import decode, naming
from pann.model.pann import PANN
from pann.solvers import solution

if TYPE_CHECKING:
    from pann.regression.estimator import PANNRegressor


def load(path: str | os.PathLike[str]) -> Union[PANN, "PANNRegressor", solution.Solution]:
    """The model, regressor or solution in a `.pann` file. No code is run by opening one."""
    contents = read(path)
    with naming(path):
        if contents.kind == model_files.KIND:
            return decode(model_files.FILE, contents.description, contents.arrays)
        if contents.kind == solution.KIND:
            return solution.load(contents)
        if contents.kind == "regressor":
            from pann.regression import estimator

            return estimator.load(contents)
        raise FileError(f"it holds a '{contents.kind}', which this pann does not know")

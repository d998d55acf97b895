"""Open a `.pann` file, whatever it holds."""

import os
from typing import TYPE_CHECKING, Union

from pann.io import FileError, read
from pann.io import load as load_model
from pann.model.pann import PANN
from pann.solvers import solution

if TYPE_CHECKING:
    from pann.regression.estimator import PANNRegressor


def load(path: str | os.PathLike[str]) -> Union[PANN, "PANNRegressor", solution.Solution]:
    """The model, regressor or solution in a `.pann` file. No code is run by opening one."""
    contents = read(path)
    if contents.kind == "model":
        return load_model(path)
    if contents.kind == "regressor":
        from pann.regression import estimator

        return estimator.load(contents)
    if contents.kind == "solution":
        return solution.load(contents)
    raise FileError(f"{os.fspath(path)} holds a '{contents.kind}', which this pann does not know")

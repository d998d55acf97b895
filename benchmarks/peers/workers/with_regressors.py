"""The regressors that a user may try first: trees, RBF interpolation, nearest neighbors.

Training and test data come in the file that the job names.
"""

import time

import lightgbm
import numpy as np
import protocol
from scipy.interpolate import RBFInterpolator
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.neighbors import KNeighborsRegressor


def work(job: dict) -> dict:
    data = np.load(job["data"])
    begin = time.perf_counter()
    predict = METHODS[job["method"]](data["points"], data["values"])
    found = predict(data["test"])
    seconds = time.perf_counter() - begin
    return {"error": protocol.relative_l2(found, data["truth"]), "seconds": seconds}


METHODS = {
    "LightGBM": lambda x, y: (
        lightgbm.LGBMRegressor(
            n_estimators=5000, num_leaves=63, learning_rate=0.05, min_child_samples=5, verbose=-1
        )
        .fit(x, y)
        .predict
    ),
    "ExtraTrees, 300 trees": lambda x, y: (
        ExtraTreesRegressor(300, random_state=0, n_jobs=-1).fit(x, y).predict
    ),
    "RBF, 50 neighbors": lambda x, y: RBFInterpolator(x, y, neighbors=50),
    "RBF, 50 neighbors, cubic": lambda x, y: RBFInterpolator(x, y, neighbors=50, kernel="cubic"),
    "kNN by distance": lambda x, y: KNeighborsRegressor(5, weights="distance").fit(x, y).predict,
}

if __name__ == "__main__":
    protocol.answer(work)

"""The default estimator on up to a million rows of 8 features: time and memory grow with the rows.

Targets are a smooth function, a step and noise. Each size has a process of its own: the peak of
the resident memory is one for the whole life of a process.
"""

import json
import pathlib
import resource
import subprocess
import sys
import time
from collections.abc import Iterator

import numpy as np
from sklearn.metrics import root_mean_squared_error

from benchmarks.harness import Row
from pann import PANNRegressor

SIZES = (125_000, 250_000, 500_000, 1_000_000)
NUM_FEATURES = 8
NOISE = 0.1
NUM_TEST = 10_000
ROOT = pathlib.Path(__file__).resolve().parents[1]


def rows() -> Iterator[Row]:
    for num_rows in SIZES:
        command = [sys.executable, "-m", "benchmarks.large_table", str(num_rows)]
        done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        if done.returncode:
            yield {"rows": num_rows, "how": f"the process ended with {done.returncode}"}
        else:
            yield json.loads(done.stdout.splitlines()[-1])


def truth(features: np.ndarray) -> np.ndarray:
    """A smooth function of four features and a step in a fifth; three do not matter."""
    smooth = np.sin(np.pi * features[:, 0] * features[:, 1]) + features[:, 2] ** 2 * features[:, 3]
    return smooth + (features[:, 4] > 0.3)


def measure(num_rows: int) -> Row:
    random = np.random.default_rng(0)
    features = random.uniform(-1, 1, (num_rows, NUM_FEATURES))
    values = truth(features) + NOISE * random.standard_normal(num_rows)
    before = peak_memory()
    start = time.perf_counter()
    model = PANNRegressor(random_state=0).fit(features, values)
    seconds = time.perf_counter() - start
    peak = peak_memory()
    test = random.uniform(-1, 1, (NUM_TEST, NUM_FEATURES))
    # An epoch is a record; the first one's time includes the compiler's.
    ends = model.fit_.outcomes["gradient"][0].history["seconds"]
    an_epoch = (ends[-1] - ends[0]) / (len(ends) - 1) if len(ends) > 1 else ends[-1]
    return {
        "rows": num_rows,
        "seconds": seconds,
        "epochs": len(ends),
        "seconds an epoch": float(an_epoch),
        "peak memory, MB": peak,
        "before the fit, MB": before,
        "error (noise is 0.1)": float(root_mean_squared_error(truth(test), model.predict(test))),
        "how": model.how_,
    }


def peak_memory() -> float:
    """Of the resident memory, in MB.

    Linux's own figure where there is one: getrusage counts what the parent had when it started
    this process, too.
    """
    status = pathlib.Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) / 1024
    unit = 2**20 if sys.platform == "darwin" else 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


if __name__ == "__main__":
    print(json.dumps(measure(int(sys.argv[1]))))

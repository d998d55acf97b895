"""Ten million rows of 8 features through the estimator, and ten million points through `solve`.

One pass of minibatches over the rows, with a network of two layers of 32 units; three full-batch
steps on the points. Each size has a process of its own: the peak of the resident memory is one for
the whole life of a process. It counts the data, Python and JAX, too. Seconds are those of all
cores together, so that other work on the machine does not count.
"""

import json
import subprocess
import sys
import time
from collections.abc import Iterator

import numpy as np
from sklearn.metrics import root_mean_squared_error

import pann
from benchmarks.harness import Row
from benchmarks.large_table import NOISE, NUM_FEATURES, NUM_TEST, ROOT, peak_memory, truth
from pann import problems
from pann.training import Adam, Cosine

SIZES = (1_000_000, 3_000_000, 10_000_000)
MEMORY = "8GB"
STEPS = 3
BATCH = 1024


def rows() -> Iterator[Row]:
    for what in MEASURES:
        for size in SIZES:
            command = [sys.executable, "-m", "benchmarks.large_rows", what, str(size)]
            done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
            if done.returncode:
                yield {"what": what, "rows": size, "how": f"ended with {done.returncode}"}
            else:
                yield json.loads(done.stdout.splitlines()[-1])


def table(num_rows: int) -> Row:
    """Fit a table: a smooth function of four features, a step in a fifth, and noise."""
    random = np.random.default_rng(0)
    features = random.uniform(-1, 1, (num_rows, NUM_FEATURES))
    values = truth(features) + NOISE * random.standard_normal(num_rows)
    start = time.process_time()
    steps = num_rows // BATCH
    one_pass = Adam(steps, Cosine(2e-3), batch_size=BATCH, record_every=steps)
    model = pann.PANNRegressor(
        degree=2,
        width=32,
        depth=2,
        recipe=(one_pass,),
        precision="float32",
        memory=MEMORY,
        random_state=0,
    )
    model.fit(features, values)
    seconds = time.process_time() - start
    test = random.uniform(-1, 1, (NUM_TEST, NUM_FEATURES))
    error = float(root_mean_squared_error(truth(test), model.predict(test)))
    return figures(
        "PANNRegressor", num_rows, seconds, error, f"a pass of Adam, degree {model.degree_}"
    )


def poisson(num_points: int) -> Row:
    """Train both halves on Poisson's equation for a few steps with all points in each."""
    start = time.process_time()
    solution = pann.solve(
        problems.poisson(),
        pann.Training(
            stages=(Adam(STEPS, record_every=STEPS),),
            degree=12,
            network=pann.MLP(width=32, depth=2),
            collocation=pann.Collocation(points=num_points, sampling="sobol"),
        ),
        memory=MEMORY,
    )
    seconds = time.process_time() - start
    how = f"{STEPS} steps of Adam, 2x32, degree 12"
    return figures("solve", num_points, seconds, solution.rel_l2, how)


def figures(what: str, size: int, seconds: float, error: float | None, how: str) -> Row:
    return {
        "what": what,
        "rows": size,
        "memory": MEMORY,
        "CPU seconds": seconds,
        "CPU seconds a million": seconds / size * 1e6,
        "peak memory, MiB": peak_memory(),
        "error": error,
        "how": how,
    }


MEASURES = {"table": table, "poisson": poisson}

if __name__ == "__main__":
    print(json.dumps(MEASURES[sys.argv[1]](int(sys.argv[2]))))

"""The programs that users run: compiled by XLA with its optimizations, which other tests leave out.

They run in one process of their own, with the flags and the environment of a user.
"""

import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).parents[1]
OF_TESTS = ("JAX_DISABLE_MOST_OPTIMIZATIONS", "XLA_FLAGS")
X = np.linspace(-1, 1, 201)
FRONT = np.tanh(4 * X)
MISSED = FRONT - np.polynomial.Legendre.fit(X, FRONT, 4)(X)
TENTH = 0.1 * np.linalg.norm(MISSED) / np.linalg.norm(FRONT)

# Relative errors; a network must beat the polynomial beside it tenfold.
BOUNDS = {
    "fit": 3e-3,
    "linear equation": 1e-8,
    "nonlinear equation": 1e-11,
    "windows": 1e-10,
    "Levenberg-Marquardt in float32": TENTH,
    "Levenberg-Marquardt in float64": TENTH,
    "gradients": 1e-2,
}


@pytest.fixture(scope="module")
def found():
    environment = {name: value for name, value in os.environ.items() if name not in OF_TESTS}
    environment |= {"PYTHONPATH": str(ROOT / "src"), "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, str(ROOT / "tests" / "user_programs.py")]
    output = subprocess.check_output(command, env=environment, text=True, timeout=500)
    return json.loads(output.splitlines()[-1])


@pytest.mark.slow
def test_optimizations_are_on(found):
    assert found["optimized"]
    assert found["errors"].keys() == BOUNDS.keys()


@pytest.mark.slow
@pytest.mark.parametrize("name", BOUNDS)
def test_an_optimized_program_finds_what_is_known(found, name):
    assert found["errors"][name] < BOUNDS[name]

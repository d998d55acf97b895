"""Points over several devices, and over two processes: the same losses and steps as on one."""

import contextlib
import io
import json
import os
import pathlib
import socket
import subprocess
import sys

import pytest

# Points that no number of devices divides, in chunks that do not divide them either.
WORK = """
import json, sys
import jax
if len(sys.argv) > 1:
    jax.distributed.initialize(sys.argv[1], 2, int(sys.argv[2]))
import numpy as np, pann
from pann import problems
from pann.regression.fit import fit
from pann.training import Adam

sizes = dict(degree=4, collocation=pann.Collocation(points=331, sampling="sobol"))
stages = (Adam(4, record_every=2),)
training = pann.Training(stages=stages, network=pann.MLP(width=5, depth=1), constraint="E",
                         preconditioner=True, **sizes)
trained = pann.solve(problems.poisson(), training, memory="300KB")
solved = pann.solve(problems.poisson(), pann.Polynomial(**sizes))
x = np.random.default_rng(0).uniform(-1, 1, (203, 2))
method = pann.Training(stages=stages, degree=3, network=pann.MLP(width=4, depth=1))
fitted = fit(x, np.sin(3 * x[:, 0]), method)
print(json.dumps({
    "devices": jax.device_count(),
    "loss": trained.report.history["residual"],
    "squares": solved.report.history["sum of squares"],
    "value": float(solved(x=0.3, y=-0.2)),
    "data": fitted.outcomes[0].history["data"][0].tolist(),
    "held_out": fitted.outcomes[0].history["held_out"][0].tolist(),
}))
"""


def run(*arguments, devices=1):
    source = pathlib.Path(__file__).parent.parent / "src"
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={devices}"
    environment = os.environ | {
        "XLA_FLAGS": flags,
        "PYTHONPATH": str(source),
        "JAX_PLATFORMS": "cpu",
        "OPENBLAS_NUM_THREADS": "1",
    }
    command = [sys.executable, "-c", WORK, *arguments]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)


def figures(process):
    output, _ = process.communicate(timeout=500)
    assert process.returncode == 0
    return json.loads(output.splitlines()[-1])


@pytest.fixture(scope="module")
def alone():
    """In this process, which has one device."""
    printed = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(printed):
        patch.setattr(sys, "argv", ["-c"])
        exec(WORK, {})
    return json.loads(printed.getvalue().splitlines()[-1])


def assert_same(found, alone, num_devices):
    assert (found.pop("devices"), alone["devices"]) == (num_devices, 1)
    for name, values in found.items():
        assert values == pytest.approx(alone[name], rel=1e-10), name


@pytest.mark.slow
def test_eight_devices_find_what_one_finds(alone):
    assert_same(figures(run(devices=8)), alone, 8)


@pytest.mark.slow
def test_two_processes_find_what_one_finds(alone):
    with socket.socket() as free:
        free.bind(("localhost", 0))
        address = f"localhost:{free.getsockname()[1]}"
    processes = [run(address, str(number)) for number in range(2)]
    for process in processes:
        assert_same(figures(process), alone, 2)

"""Solve an equation on all devices, of this process or of several: see docs/devices.md.

python examples/many_devices.py                                  one process, its devices
srun --ntasks 4 python examples/many_devices.py --processes      Slurm: a task a process
mpirun -n 4 python examples/many_devices.py --processes          Open MPI
python examples/many_devices.py --processes localhost:5555 2 0   by hand: where, how many, which
"""

import sys

import jax
import numpy as np

import pann
from pann import problems
from pann.training import LBFGS, Adam


def connect(arguments: list[str]) -> None:
    """Join the other processes; under Slurm and Open MPI they find each other."""
    if not arguments:
        jax.distributed.initialize()
    else:
        address, count, number = arguments
        jax.distributed.initialize(address, int(count), int(number))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--processes"]:
        connect(sys.argv[2:])
    trained = pann.solve(
        problems.poisson(),
        pann.Training(
            stages=(Adam(20, record_every=10), LBFGS(5)),
            degree=10,
            network=pann.MLP(width=20, depth=2),
            constraint="E",
            preconditioner=True,
            collocation=pann.Collocation(points=1000, sampling="sobol"),
        ),
    )
    solved = pann.solve(
        problems.allen_cahn(),
        pann.Polynomial(degree=20, collocation=pann.Collocation(points=1000, sampling="sobol")),
    )
    if jax.process_index() == 0:
        print(f"{jax.device_count()} devices of {jax.process_count()} processes")
        print("loss      ", repr(np.asarray(trained.report.history["residual"]).tolist()))
        print("squares   ", repr(solved.report.history["sum of squares"]))
        print("error     ", repr(solved.rel_l2))

"""The environments of the peers, made when first needed, and jobs sent to their workers.

They lie in the folder that PANN_PEERS names, by default `.peers`.
"""

import dataclasses
import json
import os
import pathlib
import signal
import subprocess
import sys

WORKERS = pathlib.Path(__file__).parent / "workers"
TORCH = ("torch==2.13.0",)
OWN = "pann"


@dataclasses.dataclass(frozen=True)
class Peer:
    """Requirements are installed one group after another: PyTorch before what depends on it."""

    name: str
    worker: str
    requirements: tuple[tuple[str, ...], ...] = ()
    variables: tuple[tuple[str, str], ...] = ()
    modes: tuple[str, ...] = ("",)


EQUATIONS = (
    Peer(
        "deepxde-torch",
        "with_deepxde.py",
        (TORCH, ("deepxde==1.15.0",)),
        (("DDE_BACKEND", "pytorch"),),
        ("reverse",),
    ),
    Peer(
        "deepxde-jax",
        "with_deepxde.py",
        (("deepxde==1.15.0", "jax==0.10.2", "flax", "optax"),),
        (("DDE_BACKEND", "jax"),),
        ("forward",),
    ),
    Peer("pina", "with_pina.py", (TORCH, ("pina-mathlab==0.3.2.post2610",))),
    Peer("jinns", "with_jinns.py", (("jinns==1.10.2",),)),
)
# The environment of the first of these, another job.
DISK = dataclasses.replace(EQUATIONS[0], worker="with_deepxde_on_a_disk.py")
FINITE_ELEMENTS = Peer("scikit-fem", "with_scikit_fem.py", (("scikit-fem==12.0.2", "scipy"),))
REGRESSORS = Peer("regressors", "with_regressors.py", (("scikit-learn", "lightgbm", "scipy"),))
PANN = Peer(OWN, "with_pann.py")


def python_of(peer: Peer) -> str:
    """The interpreter of a peer's environment, which is set up if it is not there yet."""
    if peer.name == OWN:
        return sys.executable
    folder = pathlib.Path(os.environ.get("PANN_PEERS", ".peers")).resolve() / peer.name
    python, done = folder / "bin" / "python", folder / ".installed"
    if not done.exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        for group in peer.requirements:
            subprocess.run([str(python), "-m", "pip", "install", "-q", *group], check=True)
        done.touch()
    return str(python)


def ask(peer: Peer, job: dict, limit: float = 900.0, one_core: bool = False) -> dict:
    """The worker's answer; one that cannot be set up, fails or takes too long gives a reason."""
    cores = sorted(os.sched_getaffinity(0))
    try:
        finished = subprocess.run(
            [python_of(peer), str(WORKERS / peer.worker), json.dumps(job)],
            env=os.environ | dict(peer.variables),
            capture_output=True,
            text=True,
            timeout=limit,
            preexec_fn=lambda: os.sched_setaffinity(0, cores[-1:] if one_core else cores),
        )
        return json.loads(finished.stdout.strip().splitlines()[-1])
    except subprocess.CalledProcessError as problem:
        return {"reason": f"the environment could not be set up: {problem}"}
    except subprocess.TimeoutExpired:
        return {"reason": f"took longer than {limit:g} s"}
    except (IndexError, json.JSONDecodeError):
        if finished.returncode == -signal.SIGKILL:
            return {"reason": "killed by the system, which had no more memory for it"}
        return {"reason": (finished.stderr.strip().splitlines() or ["no answer"])[-1]}

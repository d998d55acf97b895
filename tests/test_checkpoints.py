"""Work that is interrupted goes on to the same bits, and nothing else is mistaken for it."""

import os
import pathlib
import random
import signal
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pann
from pann.io import FileError
from pann.io.checkpoint import (
    FILE_NAME,
    NOWHERE,
    Checkpoint,
    Saved,
    open_checkpoint,
    packed,
    unpacked,
)
from pann.methods import RunOptions
from pann.runtime.limits import Progress, Report
from pann.solvers.solve import solve_run
from pann.training import LBFGS, Adam, Prune

LINE = pann.Box(x=(-1, 1))
STRIP = pann.Box(x=(0, 1), t=(0, 1), time="t")


def front() -> pann.Problem:
    """A steep front, which a polynomial of low degree leaves to a network."""
    return pann.Problem.manufactured(LINE, lambda u, x: u.xx - u**3, lambda x: jnp.tanh(20 * x))


def heat() -> pann.Problem:
    exact = lambda x, t: jnp.exp(-t) * jnp.sin(3 * x)
    return pann.Problem.manufactured(STRIP, lambda u, x, t: u.t - u.xx / 9, exact)


def wave() -> pann.Problem:
    ring = pann.Box(x=(0, 2), t=(0, 1), periodic="x", time="t")
    start = pann.Initial(lambda x, t: jnp.sin(jnp.pi * x))
    return pann.Problem(ring, lambda u: u.t + u * u.x - 0.1 * u.xx, [start])


def reaction() -> pann.Problem:
    """On a disk, with steps whose factors are kept from window to window."""
    disk = pann.shapes.Disk().in_time(t=(0.0, 0.5))
    exact = lambda x, y, t: jnp.cos(t) * jnp.sin(x + y)
    return pann.Problem.manufactured(disk, lambda u: u.t - 0.05 * u.laplacian + u.value**3, exact)


FRONT, HEAT, WAVE, REACTION = (
    front(),
    heat(),
    wave(),
    reaction(),
)  # one each, so that every solve uses the same compiled programs
UNIFORM = pann.Collocation(points=64, sampling="uniform")
CASES = {
    "windows": (WAVE, None, {}),
    "windows on a shape": (REACTION, pann.Windows(tail=1e-7), {}),
    "second order": (
        FRONT,
        pann.Hybrid(degree=6, network=pann.MLP(width=6), iterations=12),
        {"trials": 2},
    ),
    "gradients": (
        HEAT,
        pann.Training(
            stages=(Adam(60, record_every=10), Prune(1e-3), LBFGS(6, record_every=2), Prune()),
            degree=4,
            network=pann.MLP(width=6, depth=2),
            constraint="E",
            preconditioner=True,
            weighting="causal",
            collocation=UNIFORM,
        ),
        {"trials": 2},
    ),
    "balanced": (
        HEAT,
        pann.Training(
            stages=(Adam(40, record_every=5, balance=pann.training.GradNorm(every=10)),),
            degree=3,
            network=pann.MLP(width=5),
            collocation=UNIFORM,
        ),
        {"precision": "float32"},
    ),
}


def numbers(solution: pann.Solution) -> list[np.ndarray]:
    return [np.asarray(leaf) for leaf in jax.tree.leaves(solution.model.parameters)]


def check_same(first: pann.Solution, second: pann.Solution) -> None:
    for one, other in zip(numbers(first), numbers(second), strict=True):
        np.testing.assert_array_equal(one, other)
    assert first.report.history == second.report.history
    assert first.report.residual == second.report.residual


def interrupt(name: str, out: pathlib.Path | pann.Folder, report: Report) -> None:
    """Solve a case as a program does that keeps Ctrl-C to itself, until the report raises it."""
    problem, method, options = CASES[name]
    with pytest.raises(KeyboardInterrupt):
        solve_run(problem, method, RunOptions(**options), out=out, progress=report, ctrl_c=False)


@pytest.fixture(scope="module", params=CASES)
def case(request: pytest.FixtureRequest) -> tuple[str, pann.Solution, int]:
    """A case, its undisturbed solution, and how often it tells of progress."""
    problem, method, options = CASES[request.param]
    steps: list[Progress] = []
    solution = pann.solve(problem, method, **options, progress=steps.append)
    return request.param, solution, len(steps)


def test_interrupted_anywhere_it_ends_the_same(
    case: tuple[str, pann.Solution, int], tmp_path: pathlib.Path
) -> None:
    name, undisturbed, count = case
    problem, method, options = CASES[name]
    for moment in sorted({1, count // 2, count}):
        told: list[Progress] = []

        def report(progress: Progress, told: list = told, moment: int = moment) -> None:
            told.append(progress)
            if len(told) == moment:
                raise KeyboardInterrupt

        folder = tmp_path / str(moment)
        interrupt(name, pann.Folder(folder, checkpoint_every=1e9), report)
        assert not (folder / "solution.pann").exists()
        resumed = pann.solve(problem, method, **options, out=folder, resume=True)
        check_same(resumed, undisturbed)
        log = (folder / "log.txt").read_text()
        assert "begun" in log
        assert "stopped by KeyboardInterrupt" in log
        assert log.rstrip().splitlines()[-1].split("  ")[1].startswith("finished after")


def test_what_was_done_is_not_done_again(
    case: tuple[str, pann.Solution, int], tmp_path: pathlib.Path
) -> None:
    name, undisturbed, count = case
    problem, method, options = CASES[name]
    told: list[Progress] = []

    def report(progress: Progress) -> None:
        told.append(progress)
        if len(told) == count - 1:
            raise KeyboardInterrupt

    interrupt(name, pann.Folder(tmp_path, checkpoint_every=0), report)
    again: list[Progress] = []
    resumed = {**options, "out": tmp_path, "resume": True}
    pann.solve(problem, method, **resumed, progress=again.append)
    # A rung of the ladder tells its residual again without being solved again.
    steps = [progress for progress in again if not progress.what.startswith("degree")]
    assert 1 <= len(steps) <= 2
    finished = pann.solve(problem, method, **resumed, progress=steps.append)
    assert len(steps) <= 2
    check_same(finished, undisturbed)
    assert finished.problem is not None


def test_another_configuration_is_refused_and_the_difference_named(tmp_path: pathlib.Path) -> None:
    method = pann.Polynomial(degree=4)
    pann.solve(HEAT, method, out=tmp_path)
    before = (tmp_path / FILE_NAME).read_bytes()
    steeper = pann.Problem.manufactured(
        STRIP, lambda u, x, t: u.t - u.xx / 8, lambda x, t: jnp.exp(-t) * jnp.sin(3 * x)
    )
    fewer = pann.Polynomial(degree=4, collocation=pann.Collocation(points=49))
    for problem, other, changed, message in (
        (HEAT, pann.Polynomial(degree=5), {}, "degree is 4 there and 5 here"),
        (HEAT, method, {"seed": 3}, "seed is 0 there and 3 here"),
        (HEAT, method, {"trials": 2}, "trials is 1 there and 2 here"),
        (HEAT, fewer, {}, r"points is .* there and 49 .* here"),
        (HEAT, method, {"precision": "float32"}, "precision is float64 there and float32 here"),
        (steeper, method, {}, "equation and conditions is"),
    ):
        with pytest.raises(ValueError, match=message):
            pann.solve(problem, other, **changed, out=tmp_path, resume=True)
    assert (tmp_path / FILE_NAME).read_bytes() == before


@pytest.mark.parametrize("options", [{}, {"tolerance": 1e-3}], ids=["sizes", "tolerance"])
def test_windows_that_were_chosen_are_not_taken_for_a_method_that_is_given(
    options: dict[str, float], tmp_path: pathlib.Path
) -> None:
    first = pann.solve(WAVE, **options, out=tmp_path)
    assert isinstance(first.method, pann.Windows)
    with pytest.raises(ValueError, match="method is windows, or hybrid there and hybrid here"):
        pann.solve(WAVE, pann.Hybrid(), **options, out=tmp_path, resume=True)
    check_same(pann.solve(WAVE, **options, out=tmp_path, resume=True), first)


def test_interrupted_work_is_not_overwritten_and_finished_work_is(tmp_path: pathlib.Path) -> None:
    problem, method, options = CASES["balanced"]

    def stop(progress: Progress) -> None:
        raise KeyboardInterrupt

    interrupt("balanced", tmp_path, stop)
    # Interrupted before its first checkpoint there is nothing to lose, nor to refuse.
    seen: list[Progress] = []

    def stop_later(progress: Progress) -> None:
        seen.append(progress)
        if len(seen) == 3:
            raise KeyboardInterrupt

    interrupt("balanced", tmp_path, stop_later)
    with pytest.raises(ValueError, match=r"holds work that was interrupted .* resume=True"):
        pann.solve(problem, method, **options, out=tmp_path)
    first = pann.solve(problem, method, **options, out=tmp_path, resume=True)
    check_same(pann.solve(problem, method, **options, out=tmp_path), first)


def test_resuming_needs_a_folder_and_a_sound_checkpoint(tmp_path: pathlib.Path) -> None:
    with pytest.raises(ValueError, match="name it by out"):
        pann.solve(HEAT, pann.Polynomial(degree=3), resume=True)
    (tmp_path / FILE_NAME).write_bytes(b"no checkpoint")
    with pytest.raises(FileError, match="cannot open"):
        pann.solve(HEAT, pann.Polynomial(degree=3), out=tmp_path, resume=True)
    (tmp_path / ".pann-0123456789abcdef.tmp").write_bytes(b"half a file")
    (tmp_path / FILE_NAME).unlink()
    pann.solve(HEAT, pann.Polynomial(degree=3), out=tmp_path, resume=True)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == [FILE_NAME, "log.txt", "solution.pann"]


def test_trees_come_back_with_their_bits_types_and_keys() -> None:
    with jax.enable_x64(True):
        tree = {
            "double": jnp.asarray([1 / 3, np.nan, -0.0]),
            "single": jnp.asarray([0.1], "float32"),
            "mask": jnp.asarray([True, False]),
            "count": jnp.asarray(7, "int32"),
            "keys": jax.random.split(jax.random.key(3), 2),
        }
        back = unpacked("tree", packed("tree", tree), jax.tree.map(jnp.zeros_like, tree))
        for name, leaf in tree.items():
            assert back[name].dtype == leaf.dtype
        np.testing.assert_array_equal(back["double"], tree["double"])
        np.testing.assert_array_equal(
            jax.random.key_data(back["keys"]), jax.random.key_data(tree["keys"])
        )
        with pytest.raises(FileError, match="does not fit this work"):
            unpacked("tree", packed("tree", tree), tree | {"mask": jnp.zeros(3, bool)})


def test_scopes_keep_units_apart_and_a_result_replaces_what_led_to_it(
    tmp_path: pathlib.Path,
) -> None:
    saved = lambda value: lambda: Saved({"value": np.asarray(value)}, {"told": str(value)})
    place, finished = open_checkpoint(tmp_path, {"a": "1"}, resume=False, interval=0.0)
    assert not finished
    place.within("one").within("inner").finish(saved(1))
    place.within("one").keep(saved(2))
    place.within("two").keep(saved(3))
    again, finished = open_checkpoint(tmp_path, {"a": "1"}, resume=True, interval=0.0)
    assert not finished
    assert _told(again.within("one").within("inner").done()) == "1"
    assert _told(again.within("one").under_way()) == "2"
    assert _told(again.within("two").under_way()) == "3"
    again.within("one").finish(saved(4))
    assert again.within("one").under_way() is None
    assert again.within("one").within("inner").done() is None
    assert _told(again.within("one").done()) == "4"
    again.close()
    assert open_checkpoint(tmp_path, {"a": "1"}, resume=True, interval=0.0)[1]
    nowhere: Checkpoint = NOWHERE.within("one")
    nowhere.keep(saved(5))
    assert nowhere.under_way() is None


def _told(saved: Saved | None) -> str:
    assert saved is not None
    assert str(saved.arrays["value"]) == saved.notes["told"]
    return saved.notes["told"]


# ---- Real processes, really killed ----

CHILD = """
import sys
sys.path.insert(0, sys.argv[1])
import test_checkpoints as cases
import pann

problem, method, options = cases.CASES[sys.argv[2]]
report = lambda progress: print(progress.what, progress.step, flush=True)
out = pann.Folder(sys.argv[3], checkpoint_every=0)
pann.solve(problem, method, **options, out=out, resume=True, progress=report)
"""


def killed_until_done(name: str, folder: pathlib.Path, rng: random.Random, kills: int) -> int:
    """Run a case in processes of its own, each killed at a random moment; how many were."""
    arguments = [sys.executable, "-c", CHILD, str(pathlib.Path(__file__).parent), name, str(folder)]
    environment = os.environ | {
        "PANN_CACHE": str(folder.parent / "cache"),
        # As conftest.py has it: programs compiled otherwise round otherwise.
        "JAX_DISABLE_MOST_OPTIMIZATIONS": "1",
    }
    done = 0
    while True:
        child = subprocess.Popen(
            arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
        )
        assert child.stdout is not None
        assert child.stderr is not None
        patience = rng.randrange(1, 8) if done < kills else 10**9
        while patience and child.stdout.readline():
            patience -= 1
        if not patience:
            # Not always right after a line: writing a checkpoint takes a few milliseconds.
            try:
                child.wait(rng.uniform(0, 0.03))
            except subprocess.TimeoutExpired:
                child.send_signal(signal.SIGKILL)
                done += 1
        errors = child.stderr.read()
        child.stdout.close()
        child.stderr.close()
        if child.wait() == 0:
            return done
        assert child.returncode == -signal.SIGKILL, errors


# Two ways of training are enough here: benchmarks/kills.py has all.
@pytest.mark.slow
@pytest.mark.parametrize("case", ["windows", "balanced"], indirect=True, scope="module")
def test_a_process_killed_again_and_again_ends_the_same(
    case: tuple[str, pann.Solution, int], tmp_path: pathlib.Path
) -> None:
    name, undisturbed, _ = case
    kills = killed_until_done(name, tmp_path / "run", random.Random(1), kills=2)
    assert kills >= 1
    loaded = pann.load(tmp_path / "run" / "solution.pann")
    assert isinstance(loaded, pann.Solution)
    check_same(loaded, undisturbed)

"""Stores of made-up runs for tests of the report: figures near the published ones, at once."""

import json
import pathlib
import zlib
from typing import Any

import numpy as np

from pann.io import write
from pann.runs import Row, Store
from reproduction.cells import printed_cells
from reproduction.experiments import EXPERIMENTS, MODES, Experiment

GRID = 48


def made_up_store(
    folder: pathlib.Path,
    experiments: tuple[Experiment, ...] = EXPERIMENTS,
    most: int | None = None,
) -> Store:
    """A record for every row of the full size, some failed, written without running anything.

    Of an experiment that has more than `most` rows in a mode, so many from all over its table.
    """
    store = Store(folder)
    for experiment in experiments:
        printed = [float(cell["mean"]) for cell in printed_cells(experiment)]
        typical = float(np.nanmedian(printed)) if printed else 0.1
        for mode in MODES:
            rows = experiment.rows("full", mode, None)
            step = 1 if most is None else max(1, len(rows) // most)
            for row in rows[::step]:
                add_record(store, row, typical * (1e-3 if mode == "default" else 1.0))
    return store


def add_record(
    store: Store, row: Row, typical: float, figures: dict[str, Any] | None = None
) -> None:
    """Record a row with these figures, or some about as large as is typical."""
    rng = np.random.default_rng(zlib.crc32(row.identity.encode()))
    may_fail = figures is None and row.experiment not in ("frequency", "landscape")
    failed = bool(may_fail and rng.uniform() < 0.02)
    arrays = {} if failed else arrays_of(row, rng)
    made_up = figures or figures_of(row, typical * 10 ** rng.normal(0, 0.5), rng)
    record: dict[str, Any] = {
        "identity": row.identity,
        "experiment": row.experiment,
        "status": "failed" if failed else "done",
        "configuration": dict(row.configuration),
        "figures": {} if failed else made_up,
        "arrays": sorted(arrays),
        "seconds": float(rng.uniform(1, 400)),
        "started": "2026-01-02T03:04:05.000000+00:00",
        "finished": "2026-01-02T03:10:05.000000+00:00",
        "versions": {"pann": "0.1.0", "jax": "0.10.2", "python": "3.11.7"},
        "git": {"commit": "0123456789abcdef", "dirty": False},
        "host": "nowhere",
        "device": "made up",
    }
    if failed:
        record |= {"reason": "ValueError: <b>made up</b> & not a number", "traceback": None}
    folder = pathlib.Path(store.folder) / "runs" / row.experiment
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{row.identity}.json").write_text(json.dumps(record))
    if arrays:
        header = {"identity": row.identity, "experiment": row.experiment}
        write(folder / f"{row.identity}.pann", "run", header, arrays)


def figures_of(row: Row, error: float, rng: np.random.Generator) -> dict[str, Any]:
    told = row.configuration
    if row.experiment == "basis_sizes":
        return {"num_terms": int(rng.integers(9, 1000))}
    if row.experiment == "tables":
        return {"seconds_with_tables": 0.01, "seconds_without_tables": 0.03, "ratio": 1 / 3}
    errors = [float(error * rng.uniform(0.8, 1.2)) for _ in range(told.get("trials", 1))]
    common = {"fit_seconds": 1.0, "pruned_network": 50.0, "pruned_polynomial": 99.0}
    if "problem" not in told:
        return {"errors": errors, **common}
    steps = np.arange(0, 100_001, 500)
    falling = lambda start: (start * np.exp(-steps / 2e4) * rng.uniform(0.8, 1.2, 201)).tolist()
    names = ("residual", "dirichlet 1", "constraint", "fresh residual", "error")
    history = {"step": steps.tolist()} | {name: falling(10.0) for name in names}
    fields = ("u", "v") if told["problem"] == "grey_scott" else ("u",)
    return {"errors": dict.fromkeys(fields, errors), "history": history, "solve_seconds": 3.0}


def arrays_of(row: Row, rng: np.random.Generator) -> dict[str, np.ndarray]:
    if row.experiment == "landscape":
        alphas = np.linspace(-0.5, 0.5, 61)
        loss = 1 + alphas[:, None] ** 2 + 30 * alphas**2
        return {"alphas": alphas, "loss": loss, "eigenvalues": np.array([60.0, 2.0])}
    if row.experiment == "frequency":
        x, y = np.meshgrid(*2 * [np.linspace(-1, 1, 128, endpoint=False)], indexing="ij")
        halves = {"network": np.sin(10 * (x + y)), "polynomial": x**2 + y**2}
        energies = np.exp(-np.arange(41.0))[:, None] * np.ones(2)
        return {"truth": sum(halves.values()), "energies": energies, **halves}
    if "problem" not in row.configuration:
        return {}
    axis = np.linspace(-1, 1, GRID, dtype=np.float32)
    x, y = np.meshgrid(axis, axis, indexing="ij")
    waves = np.sin(3 * x + rng.uniform(0, 3)) * np.cos(rng.uniform(1, 5) * y)
    halves = {"u_network": 0.1 * waves * x, "u_polynomial": waves}
    fields = {name: each.astype(np.float32) for name, each in halves.items()}
    return {"axis_1_x": axis, "axis_2_y": axis, "u": sum(fields.values()), **fields}

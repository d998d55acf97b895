"""Sweeps on a Dask cluster of real processes: workers killed, disks full, nothing lost or twice."""

import collections
import contextlib
import dataclasses
import importlib.util
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from pann.io import FileError
from pann.runs import Result, Row, Store, Summary, sweep
from pann.runs.cluster import check_threads
from pann.runs.locks import LOCK_NAME

TESTS = pathlib.Path(__file__).parent
needs_dask = pytest.mark.skipif(
    importlib.util.find_spec("distributed") is None,
    reason="the package distributed is not installed (pann[cluster])",
)
# A row may cost two workers, and is then given up.
ALLOWED_FAILURES = 1
# Each believes that it is on its own machine, where nobody can see that its process is dead.
WORKER = """
import os, pathlib, sys, time
import pann.runs.locks
from distributed.cli.dask_worker import main
pann.runs.locks.machine = lambda: f"machine {os.getpid()}"
gate = pathlib.Path(sys.argv.pop(1))
gate.with_name(f"{gate.name}-ready").touch()
while not gate.exists():
    time.sleep(0.02)
main()
"""


def started(*arguments, **environment):
    path = os.pathsep.join([os.fspath(TESTS), *filter(None, sys.path)])
    return subprocess.Popen(
        [sys.executable, *arguments],
        env={**os.environ, "PYTHONPATH": path, **environment},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def wait_for(condition, seconds=60.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.02)


@dataclasses.dataclass
class Cluster:
    """A scheduler, and workers that wait for a gate to open before they join."""

    folder: pathlib.Path
    scheduler: subprocess.Popen
    workers: list[subprocess.Popen] = dataclasses.field(default_factory=list)

    @property
    def file(self):
        return str(self.folder / "scheduler.json")

    def start_worker(self, gate):
        arguments = ["--scheduler-file", self.file, "--nthreads", "1", "--no-nanny"]
        folder = ["--local-directory", str(self.folder), "--no-dashboard"]
        worker = started("-c", WORKER, str(gate), *arguments, *folder)
        self.workers.append(worker)
        return worker

    def grow_to(self, number):
        """Have at least so many workers that live and have joined."""
        living = [worker for worker in self.workers if worker.poll() is None]
        for _ in range(number - len(living)):
            self.start_worker(self.folder)
        self.wait_for_workers(number)

    def client(self):
        from distributed import Client

        return Client(scheduler_file=self.file, set_as_default=False)

    def wait_for_workers(self, number):
        with self.client() as client:
            wait_for(lambda: len(client.nthreads()) >= number)

    def wait_for_rest(self):
        """Until the scheduler has noticed that nobody waits for rows any more."""
        with self.client() as client:
            wait_for(lambda: not any(client.processing().values()))


@contextlib.contextmanager
def running_cluster(folder):
    scheduler = started(
        *("-m", "distributed.cli.dask_scheduler", "--port", "0", "--host", "127.0.0.1"),
        *("--scheduler-file", str(folder / "scheduler.json"), "--no-dashboard"),
        DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES=str(ALLOWED_FAILURES),
    )
    cluster = Cluster(folder, scheduler)
    try:
        wait_for((folder / "scheduler.json").exists)
        yield cluster
    finally:
        for process in (*cluster.workers, scheduler):
            process.kill()
            process.wait()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with running_cluster(tmp_path_factory.mktemp("cluster")) as made:
        yield made


@pytest.fixture
def small_disk(tmp_path):
    """A file system of its own in memory, as small as is asked for."""
    folder = tmp_path / "disk"
    folder.mkdir()

    def mount(options):
        command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
        made = subprocess.run(command, capture_output=True, text=True, check=False)
        if made.returncode:
            pytest.skip(f"a file system of one's own cannot be mounted here: {made.stderr.strip()}")
        return folder

    def remount(options):
        command = ["mount", "-o", f"remount,{options}", str(folder)]
        # While a file is open to be written, the disk is busy.
        wait_for(lambda: subprocess.run(command, capture_output=True, check=False).returncode == 0)

    mount.again = remount
    yield mount
    subprocess.run(["umount", "--lazy", str(folder)], capture_output=True, check=False)


def rows_of(notes, num_rows, **settings):
    return [
        Row("squares", {"x": x, "notes": os.fspath(notes), **settings}) for x in range(num_rows)
    ]


def times_run(notes):
    return collections.Counter(map(int, notes.read_text().split()))


def check_records(store, rows):
    """Every row has one record, and the arrays are those of the same run."""
    records = store.records()
    assert sorted(record["identity"] for record in records) == sorted(r.identity for r in rows)
    for row in rows:
        x, length = row.configuration["x"], row.configuration.get("length", 3)
        assert store.record(row)["figures"]["square"] == x**2
        np.testing.assert_array_equal(store.arrays(row)["array"], np.full(length, float(x)))


def finished(store, rows):
    return [row for row in rows if store.record(row) is not None]


def leftovers(store):
    names = [path.name for path in (pathlib.Path(store.folder) / "claims").iterdir()]
    return [name for name in names if name != LOCK_NAME]


# ---- Workers that come and go ----


@needs_dask
@pytest.mark.slow
def test_killed_worker_loses_nothing_and_a_new_one_joins(cluster, tmp_path):
    notes, store, gate = tmp_path / "notes", Store(tmp_path / "store"), tmp_path / "gate"
    victim = Row("squares", {"x": 100, "notes": str(notes), "seconds": 2.0})
    rows = rows_of(notes, 24, seconds=0.2)
    rows.insert(6, victim)
    cluster.grow_to(2)
    late = cluster.start_worker(gate)
    wait_for((tmp_path / "gate-ready").exists)
    kinds = collections.Counter()

    def report(event):
        kinds[event.kind] += 1
        if event.kind == "begun" and event.row == victim and not gate.exists():
            wait_for(lambda: times_run(notes)[100])
            claim = json.loads((store.folder / f"claims/{victim.identity}.json").read_text())
            os.kill(claim["pid"], signal.SIGKILL)
            gate.touch()

    summary = sweep(rows, "run_works:noted", store, cluster=cluster.file, report=report)
    assert summary == Summary(done=25)
    check_records(store, rows)
    assert leftovers(store) == []
    # The row in whose course the worker was killed, and no other, was begun twice.
    assert times_run(notes) == {**dict.fromkeys(range(24), 1), 100: 2}
    assert kinds == {"begun": 26, "done": 25}
    processes = {record["figures"]["process"] for record in store.records()}
    assert late.pid in processes
    assert len(processes) == 3
    assert sweep(rows, "run_works:noted", store, cluster=cluster.file) == Summary(skipped=25)


@needs_dask
@pytest.mark.slow
def test_row_that_kills_its_workers_fails_and_those_behind_it_are_done(tmp_path):
    notes, store = tmp_path / "notes", Store(tmp_path / "store")
    killer = Row("squares", {"x": 100, "notes": str(notes), "seconds": 0.5, "kill": True})
    rows = rows_of(notes, 8)
    gates = [tmp_path / f"gate{number}" for number in range(ALLOWED_FAILURES + 2)]
    with running_cluster(tmp_path) as own:
        workers = [own.start_worker(gate) for gate in gates]

        def one_after_the_other():
            """So that a row that waits behind the killer is lost with every worker, too."""
            for worker, gate in zip(workers, gates[1:], strict=False):
                worker.wait()
                gate.touch()

        gates[0].touch()
        own.wait_for_workers(1)
        threading.Thread(target=one_after_the_other).start()
        summary = sweep([killer, *rows], "run_works:noted", store, cluster=own.file)
    assert summary == Summary(done=8, failed=1)
    record = store.record(killer)
    assert re.match(r"2 workers died with it, the last at tcp://.*; perhaps", record["reason"])
    assert times_run(notes)[100] == ALLOWED_FAILURES + 1
    assert [store.record(row)["status"] for row in rows] == ["done"] * 8
    assert leftovers(store) == []


@needs_dask
@pytest.mark.slow
def test_killed_client_leaves_the_rows_at_work_to_be_recorded(cluster, tmp_path):
    notes, store = tmp_path / "notes", Store(tmp_path / "store")
    rows = [*rows_of(notes, 4, seconds=1.0), *rows_of(notes, 8)[4:]]
    cluster.grow_to(1)
    script = (
        "import json, sys\n"
        "from pann.runs import Row, sweep\n"
        "store, cluster, rows = map(json.loads, sys.argv[1:])\n"
        "rows = [Row('squares', row) for row in rows]\n"
        "sweep(rows, 'run_works:noted', store, cluster=cluster)\n"
    )
    given = [str(store.folder), cluster.file, [dict(row.configuration) for row in rows]]
    client = started("-c", script, *map(json.dumps, given))
    wait_for(notes.exists)
    client.kill()
    client.wait()
    cluster.wait_for_rest()
    wait_for(lambda: store.records() and leftovers(store) == [])
    before = len(store.records())
    assert 1 <= before < 8
    mended = sweep(rows, "run_works:noted", store, cluster=cluster.file)
    assert mended == Summary(done=8 - before, skipped=before)
    assert times_run(notes) == collections.Counter(range(8))


@needs_dask
@pytest.mark.slow
def test_work_of_the_page_runs_as_printed(cluster, tmp_path, monkeypatch, capsys):
    page = (TESTS.parent / "docs" / "cluster.md").read_text(encoding="utf-8")
    slurm, work, script = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    compile(slurm, "slurm_cluster.py", "exec")
    (tmp_path / "powers.py").write_text(work)
    (tmp_path / "scheduler.json").write_bytes(pathlib.Path(cluster.file).read_bytes())
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    cluster.grow_to(1)
    names = {}
    exec(compile(script, "cluster.md", "exec"), names)
    assert names["summary"] == Summary(done=8)
    frame = Store("runs").frame()
    assert list(frame["power"]) == list(frame["base"] ** frame["exponent"])
    assert "exponent" in capsys.readouterr().out


# ---- Stores that cannot be used ----


@needs_dask
@pytest.mark.slow
def test_full_disk_is_one_sentence_and_the_rest_is_done_when_there_is_space(
    cluster, tmp_path, small_disk
):
    notes, rows = tmp_path / "notes", rows_of(tmp_path / "notes", 12, length=4096)
    store = Store(small_disk("size=256k") / "store")
    cluster.grow_to(1)
    with pytest.raises(
        FileError, match=r"cannot write .*: no space left on dev.*; check"
    ) as caught:
        sweep(rows, "run_works:noted", store, cluster=cluster.file)
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith("the same command goes on with the rest")
    check_records(store, finished(store, rows))
    small_disk.again("size=4m")
    # Another worker may have been running a row, and may have found space for it.
    cluster.wait_for_rest()
    wait_for(lambda: leftovers(store) == [])
    before = finished(store, rows)
    assert 0 < len(before) < 12
    summary = sweep(rows, "run_works:noted", store, cluster=cluster.file)
    assert summary == Summary(done=12 - len(before), skipped=len(before))
    check_records(store, rows)
    assert all(times_run(notes)[row.configuration["x"]] == 1 for row in before)


@needs_dask
@pytest.mark.slow
def test_disk_that_becomes_read_only_is_one_sentence_and_its_rows_go_on_later(
    cluster, tmp_path, small_disk
):
    notes = tmp_path / "notes"
    rows = rows_of(notes, 6, seconds=0.3)
    store = Store(small_disk("size=4m") / "store")
    cluster.grow_to(1)

    def report(event):
        if event.kind == "begun" and event.row == rows[3]:
            small_disk.again("ro")

    with pytest.raises(FileError, match=r"on .*: cannot write '.*': read-only file system; check"):
        sweep(rows, "run_works:noted", store, cluster=cluster.file, report=report)
    check_records(store, finished(store, rows))
    with pytest.raises(FileError, match=r"cannot write to the store .* read-only file system"):
        sweep(rows, "run_works:noted", store, cluster=cluster.file)
    small_disk.again("rw")
    cluster.wait_for_rest()
    wait_for(lambda: leftovers(store) == [])  # the worker still lives, and gives its row back
    before = len(finished(store, rows))
    assert 0 < before < 6
    summary = sweep(rows, "run_works:noted", store, cluster=cluster.file)
    assert summary == Summary(done=6 - before, skipped=before)
    check_records(store, rows)


def test_folder_of_the_same_name_is_not_taken_for_the_store(tmp_path):
    here, elsewhere = Store(tmp_path / "here"), Store(tmp_path / "elsewhere")
    for store in (here, elsewhere):
        store.prepare()
    identifier = here.make_id()
    assert here.make_id() == identifier
    here.check_id(identifier)
    for wrong in (elsewhere, Store(tmp_path / "nowhere")):
        with pytest.raises(FileError, match="is not the folder that the sweep was started with; k"):
            wrong.check_id(identifier)
    elsewhere.make_id()
    with pytest.raises(FileError, match="keep it where all machines see it by one path"):
        elsewhere.check_id(identifier)


# ---- Schedulers that cannot be used ----


@needs_dask
@pytest.mark.slow
def test_scheduler_that_dies_is_one_sentence(tmp_path):
    rows, store = rows_of(tmp_path / "notes", 3), Store(tmp_path / "store")
    with running_cluster(tmp_path) as lone:
        begun = pathlib.Path(store.folder) / "store.json"

        def kill():
            wait_for(begun.exists)
            lone.scheduler.kill()

        threading.Thread(target=kill).start()
        with (
            pytest.warns(UserWarning, match="no workers yet; the rows wait for the first"),
            pytest.raises(ValueError, match=r"the scheduler of the cluster is gone; what is done"),
        ):
            sweep(rows, "run_works:noted", store, cluster=lone.file)
    assert store.records() == []


@needs_dask
@pytest.mark.parametrize(
    "address, sentence",
    [
        ("127.0.0.1:1", r"no Dask scheduler at '127.0.0.1:1' \(connection refused\); start one"),
        ("somewhere", r"no Dask scheduler at 'somewhere' \(missing port"),
        (
            "none.json",
            r"no scheduler's file 'none.json'; start one with dask scheduler --scheduler",
        ),
        (3, "no Dask scheduler at '3'"),
    ],
)
def test_address_without_a_scheduler_is_refused(tmp_path, address, sentence):
    with pytest.raises(ValueError, match=sentence):
        sweep(rows_of("notes", 1), "run_works:noted", Store(tmp_path), cluster=address)
    assert Store(tmp_path).records() == []


def test_cluster_without_dask_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ValueError, match=r"needs the package distributed; install pann\[cluster\]"):
        sweep(rows_of("notes", 1), "run_works:noted", Store(tmp_path), cluster="127.0.0.1:1")
    # Nobody else needs it.
    assert sweep([Row("a", {})], lambda *_: Result({}), Store(tmp_path)) == Summary(done=1)


def test_worker_of_several_threads_is_refused():
    class Client:
        def nthreads(self):
            return {"tcp://node:1": 1, "tcp://node:2": 4}

    with pytest.raises(
        ValueError, match=r"tcp://node:2 has 4 threads, .* --nworkers 4 --nthreads 1"
    ):
        check_threads(Client())

"""A store of runs: each row done once, nothing half-written, whoever is killed in the middle."""

import collections
import concurrent.futures
import errno
import json
import multiprocessing
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import threading
import time

import jax
import numpy as np
import pandas as pd
import pytest
from run_works import noted, square
from typer.testing import CliRunner

from pann.io import FileError
from pann.runs import (
    Claims,
    Result,
    Row,
    Store,
    Summary,
    batch,
    copy_records,
    locks,
    pack,
    parse_shard,
    shard_of,
    sweep,
)
from pann.runs.provenance import provenance
from reproduction.cli import app

TESTS = pathlib.Path(__file__).parent


def broken(configuration, folder):
    raise RuntimeError("the loss is not finite")


def stopped(configuration, folder):
    if configuration["x"] == 1:
        raise KeyboardInterrupt
    return square(configuration, folder)


def rows_of(notes, num_rows, **settings):
    return [
        Row("squares", {"x": x, "notes": os.fspath(notes), **settings}) for x in range(num_rows)
    ]


def sweep_apart(store, rows, **options):
    """A sweep in another Python, which hears Ctrl-C also where the tests run in the background."""
    script = (
        "import json, signal, sys\n"
        "from pann.runs import Row, Store, sweep\n"
        "if __name__ == '__main__':\n"
        "    signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "    folder, rows, options = map(json.loads, sys.argv[1:])\n"
        "    rows = [Row('squares', row) for row in rows]\n"
        "    print('ready', flush=True)\n"
        "    sys.stdin.readline()\n"
        "    summary = sweep(rows, 'run_works:noted', Store(folder), **options)\n"
        "    print(json.dumps(vars(summary)))\n"
    )
    arguments = [os.fspath(store.folder), [dict(row.configuration) for row in rows], options]
    path = os.pathsep.join([os.fspath(TESTS), *filter(None, sys.path)])
    process = subprocess.Popen(
        [sys.executable, "-c", script, *map(json.dumps, arguments)],
        env={**os.environ, "PYTHONPATH": path},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "ready\n"
    return process


def begin(process):
    process.stdin.write("\n")
    process.stdin.flush()


def wait_for(condition, seconds=60.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.02)


def num_lines(path):
    return len(path.read_text().splitlines()) if path.exists() else 0


def files_in(folder):
    """All files but the empty one that is locked while others change."""
    names = [path.name for path in pathlib.Path(folder).rglob("*") if path.is_file()]
    return sorted(name for name in names if name != locks.LOCK_NAME)


# ---- Rows ----


def test_identity_does_not_depend_on_the_order_of_keys():
    one = Row("a", {"x": 1, "network": {"width": 3, "depth": 2}})
    other = Row("a", {"network": {"depth": 2, "width": 3}, "x": 1})
    assert one.identity == other.identity
    assert one == other
    assert len({one, other}) == 1


def test_identity_is_the_hash_that_other_tools_compute():
    import hashlib

    text = '{"configuration":{"c":0.003,"x":[1,2]},"experiment":"poisson"}'
    expected = hashlib.sha256(text.encode()).hexdigest()[:16]
    assert Row("poisson", {"x": (1, 2), "c": 0.003}).identity == expected


def test_different_values_and_types_have_different_identities():
    values = [1, 1.0, True, "1", [1], None, 0, 0.0, False, "", [], {}, {"x": 1}]
    rows = [Row("a", {"x": value}) for value in values] + [Row("b", {"x": 1}), Row("a", {"y": 1})]
    assert len({row.identity for row in rows}) == len(rows)


def test_row_keeps_its_configuration_when_the_caller_changes_his():
    configuration = {"widths": [1, 2]}
    row = Row("a", configuration)
    configuration["widths"].append(3)
    assert row.configuration == {"widths": [1, 2]}


@pytest.mark.parametrize(
    "configuration, sentence",
    [
        ({"c": float("nan")}, "'c' of the configuration is nan"),
        ({"a": {"b": [0.0, float("inf")]}}, r"'a\.b\.1' of the configuration is inf"),
        ({"a": {"width": np.int64(3)}}, r"'a\.width' of the configuration is .* of type int64"),
        ({"a": {3: 1}}, "'a' of the configuration has the key 3; keys must be text"),
        ({"a": {1, 2}}, "'a' of the configuration is .* of type set"),
        ({"seed": 2**70}, "'seed' of the configuration is an integer beyond 64 bits"),
    ],
)
def test_configuration_that_is_not_json_is_refused_by_name(configuration, sentence):
    with pytest.raises(ValueError, match=sentence):
        Row("a", configuration)


@pytest.mark.parametrize("name", ["", "..", "a/b", "a b", ".hidden", "a\n"])
def test_experiment_that_names_no_folder_is_refused(name):
    with pytest.raises(ValueError, match="cannot name an experiment"):
        Row(name, {})


# ---- Records ----


def test_record_can_be_read_with_plain_tools(tmp_path):
    row, store = Row("squares", {"x": 3}), Store(tmp_path)
    assert sweep([row], square, store) == Summary(done=1)
    record = json.loads((tmp_path / f"runs/squares/{row.identity}.json").read_text())
    assert record == store.record(row)
    assert record["configuration"] == {"x": 3}
    assert record["figures"] == {"square": 9}
    assert (record["status"], record["identity"]) == ("done", row.identity)
    assert set(record["versions"]) == {"pann", "jax", "python"}
    assert record["device"]
    assert record["host"]
    assert record["seconds"] >= 0
    assert record["started"] <= record["finished"]
    # No claims, no checkpoints, no temporary files are left.
    assert files_in(tmp_path) == [f"{row.identity}.json"]
    assert list((tmp_path / "work").iterdir()) == []


def test_git_state_is_that_of_a_checkout_and_missing_git_is_no_failure(monkeypatch):
    def fresh():
        provenance.cache_clear()
        return provenance()["git"]

    commit = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=TESTS, capture_output=True, text=True, check=False
    )
    state = fresh()
    if commit.returncode == 0 and state is not None:  # an installed package has none
        assert state["commit"] == commit.stdout.strip()
        assert state["dirty"] in (True, False)
    monkeypatch.setenv("PATH", "")
    assert fresh() is None
    provenance.cache_clear()


def test_arrays_and_figures_come_back(tmp_path):
    def work(configuration, folder):
        figures = {"error": np.float32(0.5), "steps": np.int64(7), "bad": float("nan"), "l": (1,)}
        return Result(figures, {"values": np.arange(4.0), "mask": np.array([True, False])})

    row, store = Row("a", {}), Store(tmp_path)
    sweep([row], work, store)
    assert store.record(row)["figures"] == {"error": 0.5, "steps": 7, "bad": None, "l": [1]}
    arrays = store.arrays(row)
    np.testing.assert_array_equal(arrays["values"], np.arange(4.0))
    np.testing.assert_array_equal(arrays["mask"], [True, False])
    with pytest.raises(ValueError, match="is not done; run it first"):
        store.arrays(Row("a", {"x": 1}))


def test_work_gets_a_folder_that_stays_until_it_is_done(tmp_path):
    seen = []

    def work(configuration, folder):
        seen.append((folder / "checkpoint").exists())
        (folder / "checkpoint").write_text("half-way")
        if len(seen) == 1:
            raise MemoryError
        return Result({})

    row, store = Row("a", {}), Store(tmp_path)
    sweep([row], work, store)
    sweep([row], work, store, retry=True)
    assert seen == [False, True]
    assert not store.scratch(row).joinpath("checkpoint").exists()


def test_record_of_another_configuration_is_refused(tmp_path):
    row, store = Row("squares", {"x": 3}), Store(tmp_path)
    sweep([row], square, store)
    path = tmp_path / f"runs/squares/{row.identity}.json"
    path.write_text(path.read_text().replace('"x": 3', '"x": 4'))
    with pytest.raises(FileError, match="record of another configuration"):
        store.record(row)
    path.write_text("{}")
    with pytest.raises(FileError, match="delete it to run its row again"):
        store.record(row)


# ---- Sweeps ----


def test_finished_rows_are_skipped_and_equal_rows_run_once(tmp_path):
    notes, store = tmp_path / "notes", Store(tmp_path / "store")
    rows = rows_of(notes, 3)
    assert sweep(rows[:2], noted, store) == Summary(done=2)
    assert sweep([*rows, *rows], noted, store) == Summary(done=1, skipped=2)
    assert num_lines(notes) == 3


def test_failures_are_recorded_stop_nothing_and_are_retried_only_on_request(tmp_path):
    rows, store = [Row("squares", {"x": x}) for x in (1, "two", 3)], Store(tmp_path)
    events = []
    assert sweep(rows, square, store, report=events.append) == Summary(done=2, failed=1)
    assert [event.kind for event in events] == ["begun", "done", "begun", "failed", "begun", "done"]
    record = store.record(rows[1])
    assert record["status"] == "failed"
    assert record["reason"].startswith("TypeError: unsupported operand")
    assert "in square" in record["traceback"]
    assert sweep(rows, square, store) == Summary(skipped=2, failed_before=1)
    assert sweep(rows, broken, store, retry=True) == Summary(skipped=2, failed=1)
    assert store.record(rows[1])["reason"] == "RuntimeError: the loss is not finite"
    mended = lambda configuration, folder: Result({})
    assert sweep(rows, mended, store, retry=True) == Summary(skipped=2, done=1)
    assert "reason" not in store.record(rows[1])
    assert sweep(rows, mended, store, retry=True) == Summary(skipped=3)


@pytest.mark.parametrize(
    "work, reason",
    [
        (lambda configuration, folder: 3, "TypeError: work must return a Result, got int"),
        (lambda configuration, folder: Result({"z": 1j}), "ValueError: 'z' of the figures is 1j"),
        (lambda c, folder: Result({}, {"z": np.ones(2, complex)}), "FileError: array 'z' has dty"),
        (lambda configuration, folder: sys.exit(3), "SystemExit: the work ended its process (3)"),
    ],
)
def test_result_that_cannot_be_kept_is_a_failure_of_its_row(tmp_path, work, reason):
    row, store = Row("a", {}), Store(tmp_path)
    assert sweep([row], work, store) == Summary(failed=1)
    assert store.record(row)["reason"].startswith(reason)


def test_work_cannot_change_the_record(tmp_path):
    def work(configuration, folder):
        configuration["widths"].append(3)
        return Result({})

    row, store = Row("a", {"widths": [1]}), Store(tmp_path)
    sweep([row], work, store)
    assert store.record(row)["configuration"] == {"widths": [1]}


def test_interrupt_keeps_what_is_finished_and_gives_the_row_back(tmp_path):
    rows, store = [Row("squares", {"x": x}) for x in range(3)], Store(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        sweep(rows, stopped, store)
    assert files_in(tmp_path) == [f"{rows[0].identity}.json"]
    assert sweep(rows, square, store) == Summary(done=2, skipped=1)


@pytest.mark.parametrize("num_rows, count", [(20, 16), (3, 5), (7, 1), (0, 2)])
def test_shards_partition_the_rows(num_rows, count):
    rows = [Row("a", {"x": x}) for x in range(num_rows)]
    shards = [shard_of(rows, (number, count)) for number in range(1, count + 1)]
    assert collections.Counter(row for shard in shards for row in shard) == collections.Counter(
        rows
    )
    assert max(map(len, shards)) - min(map(len, shards)) <= 1


def test_sweep_runs_its_shard_only(tmp_path):
    rows, store = [Row("squares", {"x": x}) for x in range(5)], Store(tmp_path)
    assert sweep(rows, square, store, shard=parse_shard("2/3")) == Summary(done=2)
    assert [row.configuration["x"] for row in rows if store.record(row)] == [1, 4]


@pytest.mark.parametrize(
    "text, sentence",
    [
        ("3", "a shard is written k/n, such as 3/16, got '3'"),
        ("3/", "a shard is written k/n"),
        ("-1/4", "a shard is written k/n"),
        ("0/4", "shard 0/4 does not exist; shards of n are numbered 1/n to n/n"),
        ("5/4", "shard 5/4 does not exist"),
        ("0/0", "shard 0/0 does not exist"),
    ],
)
def test_shard_that_does_not_exist_is_refused(text, sentence):
    with pytest.raises(ValueError, match=sentence):
        parse_shard(text)


@pytest.mark.parametrize(
    "work, options, sentence",
    [
        (square, {"workers": 2}, "the work is given by name, 'module:function'"),
        ("run_works:square", {"workers": 0}, "workers must be at least 1, got 0"),
        (square, {"cluster": "host:1"}, "the work is given by name, 'module:function'"),
        ("run_works:square", {"workers": 2, "cluster": "host:1"}, "a cluster brings its own wor"),
        ("square", {}, "work must be named 'module:function', got 'square'"),
        ("run_works:nothing", {}, "module 'run_works' has no function 'nothing'"),
        ("no_such_module:work", {}, "cannot import the work 'no_such_module:work'"),
        ("run_works:np", {}, "'run_works:np' is no function"),
    ],
)
def test_work_that_cannot_be_called_is_refused(tmp_path, work, options, sentence):
    with pytest.raises(ValueError, match=sentence):
        sweep([Row("a", {"x": 1})], work, Store(tmp_path / "store"), **options)


# ---- Claims ----


def test_claim_is_exclusive_until_it_is_released(tmp_path):
    claims = Claims(tmp_path)
    claim = claims.take("a")
    assert claims.take("a") is None
    assert claims.take("b") is not None
    claim.release()
    assert claims.take("a") is not None
    claim.release()  # of what is another's by now
    assert claims.take("a") is None


def test_heartbeat_keeps_a_claim_beyond_its_lifetime(tmp_path):
    claims = Claims(tmp_path, lifetime=0.4)
    with claims.take("a").kept():
        time.sleep(1.0)
        assert claims.take("a") is None
    assert claims.take("a") is not None
    time.sleep(0.6)
    assert claims.take("a") is not None  # nobody kept it


def test_age_of_a_claim_is_measured_by_the_folder_and_not_by_the_clock(tmp_path, monkeypatch):
    claims = Claims(tmp_path)
    claims.take("a")
    monkeypatch.setattr(time, "time", lambda: 1e12)
    assert claims.take("a") is None
    old = (tmp_path / "a.json").stat().st_mtime - 601
    os.utime(tmp_path / "a.json", (old, old))
    assert claims.take("a") is not None


def test_claim_of_a_dead_process_of_this_machine_is_free_at_once(tmp_path):
    claims = Claims(tmp_path)
    claims.take("a")
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    content = json.loads((tmp_path / "a.json").read_text())
    if content["machine"] is None:
        pytest.skip("this system does not distinguish machines")
    elsewhere = {**content, "pid": process.pid, "machine": "another boot"}
    (tmp_path / "a.json").write_text(json.dumps(elsewhere))
    assert claims.take("a") is None  # the number means nothing there
    (tmp_path / "a.json").write_text(json.dumps({**content, "pid": process.pid}))
    assert claims.take("a") is not None


def test_renewal_and_takeover_of_an_old_claim_exclude_each_other(tmp_path, monkeypatch):
    claims, clock = Claims(tmp_path), locks.clock
    mine = claims.take("a")
    renewed = []

    def late(folder):
        """The owner comes back after the other has looked at the age, and has to wait for it."""
        thread = threading.Thread(target=lambda: renewed.append(mine.renew()))
        thread.start()
        thread.join(0.2)
        assert thread.is_alive()
        return clock(folder)

    os.utime(mine.path, (1.0, 1.0))
    with monkeypatch.context() as patched:
        patched.setattr(locks, "clock", late)
        other = claims.take("a")
    wait_for(lambda: renewed)
    assert (other.is_held(), mine.is_held(), renewed) == (True, False, [False])
    os.utime(other.path, (1.0, 1.0))
    assert other.renew()
    assert claims.take("a") is None


def test_expired_claim_goes_to_one_of_many(tmp_path):
    claims, num_threads = Claims(tmp_path), 8
    barrier = threading.Barrier(num_threads)

    def take(identity):
        barrier.wait()
        return claims.take(identity)

    with concurrent.futures.ThreadPoolExecutor(num_threads) as pool:
        for identity in map(str, range(100)):
            os.utime(claims.take(identity).path, (1.0, 1.0))
            taken = [claim for claim in pool.map(take, [identity] * num_threads) if claim]
            assert [claim.is_held() for claim in taken] == [True]
    assert len(files_in(tmp_path)) == 100


def test_unreadable_claim_expires_too(tmp_path):
    claims = Claims(tmp_path, lifetime=0.2)
    (tmp_path / "a.json").write_bytes(b"")
    assert claims.take("a") is None
    time.sleep(0.4)
    assert claims.take("a") is not None


def test_late_loser_records_nothing(tmp_path, monkeypatch):
    row = Row("squares", {"x": 3})
    late, other = Store(tmp_path), Store(tmp_path)

    def slow(configuration, folder):
        """In its course the claim expires, and another takes the row and finishes it."""
        path = late.claims.folder / f"{row.identity}.json"
        os.utime(path, (1.0, 1.0))
        assert sweep([row], square, other) == Summary(done=1)
        return Result({"square": -1}, {"array": np.zeros(2)})

    assert sweep([row], slow, late) == Summary(claimed=1)
    assert late.record(row)["figures"] == {"square": 9}
    assert files_in(tmp_path) == [f"{row.identity}.json"]


def test_late_loser_leaves_the_claim_of_the_other_alone(tmp_path):
    row, store = Row("squares", {"x": 3}), Store(tmp_path)
    taken = []

    def slow(configuration, folder):
        os.utime(store.claims.folder / f"{row.identity}.json", (1.0, 1.0))
        taken.append(store.claims.take(row.identity))
        return Result({})

    assert sweep([row], slow, store) == Summary(claimed=1)
    assert taken[0].is_held()
    assert store.record(row) is None


def test_two_that_both_believe_to_hold_the_claim_record_once(tmp_path, monkeypatch):
    row, store = Row("squares", {"x": 3}), Store(tmp_path)
    monkeypatch.setattr("pann.runs.locks.Claim.confirm", lambda self: True)

    def slow(configuration, folder):
        shutil.rmtree(store.claims.folder)
        assert sweep([row], square, store) == Summary(done=1)
        return Result({"square": -1})

    assert sweep([row], slow, store) == Summary(claimed=1)
    assert store.record(row)["figures"] == {"square": 9}


def test_claim_of_one_who_was_given_up_goes_to_the_next_and_is_lost_to_him(tmp_path):
    row, store = Row("squares", {"x": 3}), Store(tmp_path)

    def slow(configuration, folder):
        """A scheduler believes its worker dead, and gives the row to another."""
        store.claims.revoke(row.identity, "other-")
        assert store.claims.take(row.identity) is None
        store.claims.revoke(row.identity, "sweep-")
        assert sweep([row], square, store) == Summary(done=1)
        return Result({"square": -1}, {"array": np.zeros(2)})

    events = []
    batch.run_unit([row], batch.Session(slow, store, events.append, token="sweep-1"))
    assert [event.kind for event in events] == ["begun", "claimed"]
    assert store.record(row)["figures"] == {"square": 9}
    assert files_in(tmp_path) == [f"{row.identity}.json"]


def test_claim_that_was_deleted_by_hand_does_not_cost_the_result(tmp_path):
    row, store = Row("squares", {"x": 3}), Store(tmp_path)

    def work(configuration, folder):
        (store.claims.folder / f"{row.identity}.json").unlink()
        return square(configuration, folder)

    assert sweep([row], work, store) == Summary(done=1)


def test_row_that_another_finished_meanwhile_is_not_run_again(tmp_path, monkeypatch):
    row, store = Row("squares", {"x": 3}), Store(tmp_path)
    take = Claims.take

    def late(self, identity, token=None):
        """The other finishes between the look at the record and the claim."""
        monkeypatch.setattr(Claims, "take", take)
        assert sweep([row], square, store) == Summary(done=1)
        return take(self, identity, token)

    monkeypatch.setattr(Claims, "take", late)
    assert sweep([row], broken, store) == Summary(skipped=1)


def test_file_system_without_hard_links_serves_too(tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "link", refuse)
    rows, store = [Row("squares", {"x": x}) for x in range(3)], Store(tmp_path)
    assert sweep(rows, square, store) == Summary(done=3)
    claim = store.claims.take("a")
    assert store.claims.take("a") is None
    assert claim.is_held()


# ---- Frames ----


def test_frame_has_a_line_a_run_and_a_column_a_setting(tmp_path):
    def work(configuration, folder):
        if configuration["seed"] == 2:
            raise ValueError("too bad")
        figures = {"error": 0.5 / (1 + configuration["seed"]), "best": float("nan"), "c": 1}
        return Result({**figures, "seconds": 3.0, "times": {"training": 2.5}})

    store = Store(tmp_path)
    rows = [
        Row("poisson", {"seed": seed, "c": 0.003, "shape": (8, 2), "network": {"width": 8}})
        for seed in range(3)
    ]
    sweep([*rows, Row("darcy", {"seed": 0})], work, store)
    frame = store.frame("poisson")
    assert list(frame["seed"]) == [0, 1, 2]
    assert list(frame["status"]) == ["done", "done", "failed"]
    # `c` is a setting and a figure, `seconds` a column of every run.
    assert list(frame["configuration.c"]) == [0.003] * 3
    assert frame["figures.c"].tolist()[:2] == [1, 1]
    assert frame["figures.seconds"].tolist()[:2] == [3.0, 3.0]
    assert (frame["seconds"] < 3.0).all()
    assert "c" not in frame
    assert list(frame["network.width"]) == [8] * 3
    assert frame["times.training"].tolist()[:2] == [2.5, 2.5]
    assert frame.groupby("shape").size().loc[[(8, 2)]].tolist() == [3]
    assert frame["reason"].tolist()[2] == "ValueError: too bad"
    assert pd.api.types.is_integer_dtype(frame["seed"])
    for column in ("error", "best", "seconds", "figures.c"):
        assert pd.api.types.is_float_dtype(frame[column]), column
    for column in ("started", "finished"):
        assert isinstance(frame[column].dtype, pd.DatetimeTZDtype)
    assert list(frame.columns[:3]) == ["experiment", "identity", "status"]
    assert len(store.frame()) == 4
    assert sorted(set(store.frame()["experiment"])) == ["darcy", "poisson"]


def test_names_joined_by_dots_do_not_hide_one_another(tmp_path):
    store = Store(tmp_path)
    sweep([Row("a", {"b.c": 1, "b": {"c": 2}})], lambda configuration, folder: Result({}), store)
    frame = store.frame()
    assert frame["b.c"].tolist() == [1]
    assert frame["b"].tolist() == [{"c": 2}]


def test_frame_of_an_empty_store_has_no_lines(tmp_path):
    frame = Store(tmp_path / "nothing").frame()
    assert len(frame) == 0
    assert "seconds" in frame


# ---- Packed stores ----


def mixed_store(folder):
    """Runs with and without arrays, and one that failed."""

    def work(configuration, folder):
        x = configuration["x"]
        if x == 2:
            raise ValueError("too bad")
        at = np.linspace(0.0, 1.0, 49)
        field = np.exp(np.outer(at, x * at)).astype(np.float32)
        arrays = {"u": field, "axis": at, "mask": at > 0.5, "gap": np.where(at > 0.5, np.nan, at)}
        return Result({"square": x**2}, arrays if x else {})

    store, rows = Store(folder), [Row("squares", {"x": x}) for x in range(4)]
    assert sweep(rows, work, store) == Summary(done=3, failed=1)
    return store, rows


def test_packed_store_has_the_same_records_and_arrays(tmp_path):
    store, rows = mixed_store(tmp_path / "store")
    path = tmp_path / "records.jsonl.xz"
    assert pack(store, path) == 4
    packed = Store(path)
    assert packed.records() == store.records()
    assert packed.records("squares") == store.records("squares")
    assert packed.records("other") == []
    pd.testing.assert_frame_equal(packed.frame(), store.frame())
    assert [packed.record(row) for row in rows] == [store.record(row) for row in rows]
    assert packed.record(Row("squares", {"x": 9})) is None
    assert packed.arrays(rows[0]) == {}
    before, after = store.arrays(rows[3]), packed.arrays(rows[3])
    assert {name: (a.dtype, a.shape) for name, a in after.items()} == {
        name: (a.dtype, a.shape) for name, a in before.items()
    }
    for name in ("axis", "mask", "gap"):
        np.testing.assert_array_equal(after[name], before[name])
    # A map is rounded to half of one of 65,535 steps, and to float32.
    tolerance = np.ptp(before["u"]) * (0.5 / 65535 + 1e-7)
    np.testing.assert_allclose(after["u"], before["u"], rtol=0, atol=tolerance)
    with pytest.raises(ValueError, match="is not done; run it first"):
        packed.arrays(rows[2])


def test_packed_store_is_read_only_and_goes_on_in_a_folder(tmp_path):
    store, rows = mixed_store(tmp_path / "store")
    path = tmp_path / "records.jsonl.xz"
    pack(store, path)
    with pytest.raises(FileError, match="is a packed store, which is only read; unpack it into a"):
        sweep(rows, square, Store(path))
    folder = Store(tmp_path / "folder")
    sweep(rows[:1], square, folder)
    assert copy_records(Store(path), folder) == 3
    more = [*rows, Row("squares", {"x": 4})]
    assert sweep(more, square, folder, retry=True) == Summary(done=2, skipped=3)
    again = tmp_path / "again.jsonl.xz"
    assert pack(folder, again) == 5
    for name, array in Store(path).arrays(rows[3]).items():
        np.testing.assert_array_equal(Store(again).arrays(rows[3])[name], array)


def test_damaged_or_missing_packed_store_is_one_sentence(tmp_path):
    path = tmp_path / "records.jsonl.xz"
    with pytest.raises(FileError, match="there is no packed store"):
        Store(path).records()
    path.write_bytes(b"nothing of the kind")
    with pytest.raises(FileError, match="is no packed store, or is damaged"):
        Store(path).records()
    pack(mixed_store(tmp_path / "store")[0], path)
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(FileError, match="is no packed store, or is damaged"):
        Store(path).records()
    with pytest.raises(ValueError, match=r"a packed store is called \*\.jsonl\.xz, got"):
        pack(Store(tmp_path / "store"), tmp_path / "records.zip")


def test_commands_pack_a_store_and_unpack_it(tmp_path):
    store, _ = mixed_store(tmp_path / "store")
    path, folder = tmp_path / "records.jsonl.xz", tmp_path / "folder"
    for command, source, target in (("pack", store.folder, path), ("unpack", path, folder)):
        arguments = [command, "--store", os.fspath(source), "--out", os.fspath(target)]
        result = CliRunner().invoke(app, arguments)
        assert result.exit_code == 0, result.output
    assert Store(folder).records() == store.records()
    refused = CliRunner().invoke(app, ["pack", "--store", str(path), "--out", str(tmp_path / "a")])
    assert refused.exit_code != 0
    assert "is called *.jsonl.xz" in refused.output


def test_packed_runs_of_the_paper_are_whole():
    store = Store(TESTS.parent / "results" / "paper" / "records.jsonl.xz")
    records = store.records()
    assert {"poisson", "kdv", "frequency"} <= {record["experiment"] for record in records}
    for record in records:
        row = Row(record["experiment"], record["configuration"])
        assert row.identity == record["identity"]
        if record["status"] == "done":
            assert sorted(store.arrays(row)) == record["arrays"]


# ---- Disks that fail ----


def test_folder_that_cannot_be_written_to_is_one_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    rows = [Row("squares", {"x": 1})]
    for folder in (tmp_path / "file", tmp_path / "file" / "store"):
        with pytest.raises(FileError, match="is not a folder; name one for the store"):
            sweep(rows, square, Store(folder))
    if pathlib.Path("/proc").is_dir():
        with pytest.raises(FileError, match=r"cannot write to the store '/proc/store': .*; check"):
            sweep(rows, square, Store("/proc/store"))


def test_full_disk_is_one_sentence_and_leaves_no_half_record(tmp_path, monkeypatch):
    rows, store = [Row("squares", {"x": x}) for x in range(3)], Store(tmp_path)
    fsync = os.fsync

    def full(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def work(configuration, folder):
        if configuration["x"] == 1:
            monkeypatch.setattr(os, "fsync", full)
        return Result({"x": configuration["x"]}, {"array": np.zeros(9)})

    with pytest.raises(FileError, match=rf"{rows[1].identity}\.json': no space left on device; ch"):
        sweep(rows, work, store)
    one = rows[0].identity
    assert files_in(tmp_path) == [f"{one}.json", f"{one}.pann"]
    monkeypatch.setattr(os, "fsync", fsync)
    assert sweep(rows, square, store) == Summary(done=2, skipped=1)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS])
def test_work_that_finds_the_disk_full_is_no_failure_of_its_row(tmp_path, number):
    rows, store = [Row("squares", {"x": x}) for x in range(3)], Store(tmp_path)

    def work(configuration, folder):
        if configuration["x"] == 1:
            try:
                raise OSError(number, os.strerror(number), str(folder / "checkpoint"))
            except OSError:
                raise ValueError("the checkpoint could not be written") from None
        return square(configuration, folder)

    reason = os.strerror(number).lower()
    with pytest.raises(FileError, match=rf"cannot write '.*checkpoint': {reason}; check"):
        sweep(rows, work, store)
    assert files_in(tmp_path) == [f"{rows[0].identity}.json"]
    assert sweep(rows, square, store) == Summary(done=2, skipped=1)


def test_claim_that_a_disk_keeps_is_released_when_it_can_be(tmp_path, monkeypatch):
    claims, unlink = Claims(tmp_path), pathlib.Path.unlink

    def refuse(*_):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    with claims.take("a").kept():
        monkeypatch.setattr(pathlib.Path, "unlink", refuse)
    assert claims.take("a") is None
    monkeypatch.setattr(pathlib.Path, "unlink", unlink)
    wait_for(lambda: files_in(tmp_path) == [], seconds=10)


def test_claim_that_cannot_be_written_leaves_no_file(tmp_path, monkeypatch):
    claims, dump = Claims(tmp_path), json.dump

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(json, "dump", full)
    with pytest.raises(FileError, match=r"cannot write '.*a\.json': no space left on device"):
        claims.take("a")
    assert files_in(tmp_path) == []
    monkeypatch.setattr(json, "dump", dump)
    assert claims.take("a").is_held()


def test_leftovers_of_killed_writers_are_removed_when_they_are_old(tmp_path):
    folder = tmp_path / "runs" / "squares"
    folder.mkdir(parents=True)
    for name in (".pann-1.tmp", ".pann-2.tmp", "mine"):
        (folder / name).write_text("")
    for name in (".pann-1.tmp", "mine"):
        os.utime(folder / name, (1.0, 1.0))
    Store(tmp_path).prepare()
    assert files_in(tmp_path) == [".pann-2.tmp", "mine"]


# ---- Several processes ----


@pytest.mark.slow
def test_two_processes_do_every_row_exactly_once(tmp_path):
    notes, store = tmp_path / "notes", Store(tmp_path / "store")
    rows = rows_of(notes, 20, seconds=0.02)
    processes = [sweep_apart(store, rows), sweep_apart(store, rows[::-1])]
    for process in processes:
        begin(process)
    summaries = [json.loads(process.communicate(timeout=60)[0]) for process in processes]
    assert sorted(map(int, notes.read_text().split())) == list(range(20))
    assert sum(summary["done"] for summary in summaries) == 20
    assert min(summary["done"] for summary in summaries) > 0
    assert [store.record(row)["status"] for row in rows] == ["done"] * 20
    assert files_in(store.folder / "claims") == []


def test_killed_process_leaves_complete_records_and_the_rest_is_done_by_the_next(tmp_path):
    notes, store = tmp_path / "notes", Store(tmp_path / "store")
    rows = rows_of(notes, 30, seconds=0.03)
    process = sweep_apart(store, rows)
    begin(process)
    wait_for(lambda: num_lines(notes) >= 10)
    process.kill()
    process.communicate()
    finished = store.records()
    assert 8 <= len(finished) < 30
    for record in finished:
        array = store.arrays(Row("squares", record["configuration"]))["array"]
        np.testing.assert_array_equal(array, record["configuration"]["x"])
    summary = sweep(rows, noted, store)
    assert summary.skipped == len(finished)
    if sys.platform == "linux":  # elsewhere the claim of the dead has to expire first
        assert summary == Summary(done=30 - len(finished), skipped=len(finished))
        times = collections.Counter(map(int, notes.read_text().split()))
        assert sorted(times) == list(range(30))
        assert sum(times.values()) <= 31  # the row in whose course it was killed


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="there are no such signals")
def test_worker_that_is_killed_fails_its_row_and_the_others_go_on(tmp_path):
    notes, store = tmp_path / "notes", Store(tmp_path / "store")
    rows = rows_of(notes, 6)
    killed = Row("squares", {"x": 100, "notes": str(notes), "kill": True})
    left = Row("squares", {"x": 200, "notes": str(notes), "leave": True})
    events = []
    summary = sweep(
        [killed, left, *rows], "run_works:noted", store, workers=2, report=events.append
    )
    assert summary == Summary(done=6, failed=2)
    assert store.record(killed)["reason"] == "the process was killed (signal 9)"
    assert store.record(left)["reason"] == "the process ended (status 0)"
    assert sorted(map(int, notes.read_text().split())) == [0, 1, 2, 3, 4, 5, 100, 200]
    assert collections.Counter(event.kind for event in events)["begun"] == 8
    assert files_in(store.folder / "claims") == []
    assert multiprocessing.active_children() == []
    # Asked again it is run again, and by this process if it is not killed.
    mended = lambda configuration, folder: Result({})
    assert sweep([killed], mended, store, retry=True) == Summary(done=1)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="there are no such signals")
def test_row_that_kills_its_process_kills_no_other(tmp_path):
    """Processes of the same sweep that have nothing to do leave its row to their parent."""
    notes, store = tmp_path / "notes", Store(tmp_path / "store")
    killers = rows_of(notes, 2, kill=True, seconds=0.2)
    summary = sweep([*killers, *killers], "run_works:noted", store, workers=3)
    assert summary == Summary(failed=2)
    assert num_lines(notes) == 2
    assert multiprocessing.active_children() == []


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="there are no such signals")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_workers_end_with_their_parent_and_give_their_rows_back(tmp_path, number):
    notes, store = tmp_path / "notes", Store(tmp_path / "store")
    quick, slow = rows_of(notes, 2), rows_of(notes, 2, seconds=300)
    process = sweep_apart(store, [*quick, *slow], workers=2)
    begin(process)
    wait_for(lambda: num_lines(notes) == 4)
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)  # its pipes are the workers' too: all have ended
    wait_for(lambda: files_in(store.folder / "claims") == [], seconds=5)
    assert [store.record(row) is not None for row in [*quick, *slow]] == [True, True, False, False]
    if number == signal.SIGINT:
        assert errors.count("KeyboardInterrupt") == 1
        assert all((store.scratch(row) / "checkpoint").exists() for row in slow)


def test_worker_reports_a_store_that_it_cannot_use(tmp_path, monkeypatch):
    rows, store = [Row("squares", {"x": 1})], Store(tmp_path)
    monkeypatch.setattr(Store, "prepare", lambda self: None)
    (tmp_path / "claims").write_text("a file where the folder should be")
    with pytest.raises(FileError, match=r"cannot write '.*': .*; check the folder"):
        sweep(rows, "run_works:square", store, workers=2)
    assert store.records() == []


def test_seconds_of_a_run_are_those_of_the_work(tmp_path):
    row, store = (
        Row("squares", {"x": 1, "notes": str(tmp_path / "n"), "seconds": 0.2}),
        Store(tmp_path),
    )
    events = []
    sweep([row], noted, store, report=events.append)
    assert 0.2 <= events[-1].seconds == store.record(row)["seconds"] < 2.0


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux counts mappings")
@pytest.mark.parametrize("limit, forgotten", [(1_000_000, False), (10, True)])
def test_programs_are_forgotten_when_mappings_run_short(tmp_path, monkeypatch, limit, forgotten):
    (tmp_path / "limit").write_text(str(limit))
    monkeypatch.setattr(batch, "MOST_MAPPINGS", tmp_path / "limit")
    cleared = []
    monkeypatch.setattr(jax, "clear_caches", lambda: cleared.append(True))
    sweep([Row("squares", {"x": 2})], square, tmp_path / "store")
    assert bool(cleared) == forgotten

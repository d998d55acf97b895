"""Rows that run as one: every row has its record, whatever becomes of the others."""

import collections
import multiprocessing
import os
import sys

import numpy as np
import pytest
from run_works import noted, several

from pann.runs import Result, Row, Store, Summary, Together, parse_shard, sweep, units_of
from pann.runs.batch import is_out_of_memory
from pann.runs.locks import LOCK_NAME


def color(row):
    return row.configuration.get("color")


TOGETHER = Together(color, "run_works:several")


def rows_of(notes, colors, **settings):
    return [
        Row("squares", {"x": x, "color": each, "notes": os.fspath(notes), **settings})
        for x, each in enumerate(colors)
    ]


def lines(path):
    return path.read_text().splitlines()


def files_in(folder):
    names = [path.name for path in folder.rglob("*") if path.is_file()]
    return sorted(name for name in names if name != LOCK_NAME)


def test_rows_of_one_key_are_one_unit_where_the_first_stands():
    rows = rows_of("notes", ["red", None, "blue", "red", None, "red"])
    units = units_of(rows, Together(color, "run_works:several", at_most=2))
    assert [[row.configuration["x"] for row in unit] for unit in units] == [
        [0, 3],
        [1],
        [2],
        [4],
        [5],
    ]
    assert units_of(rows, None) == [[row] for row in rows]


def test_records_are_those_of_rows_run_alone(tmp_path):
    notes = tmp_path / "notes"
    rows = rows_of(notes, ["red", "red", None, "red", "blue"])
    alone, together = Store(tmp_path / "alone"), Store(tmp_path / "together")
    sweep(rows, noted, alone)
    notes.unlink()
    events = []
    summary = sweep(rows, noted, together, together=TOGETHER, report=events.append)
    assert summary == Summary(done=5)
    assert lines(notes) == ["3 as one", "2", "4"]
    assert collections.Counter(event.kind for event in events) == {"begun": 5, "done": 5}
    for row in rows:
        one, other = alone.record(row), together.record(row)
        for key in ("identity", "experiment", "status", "configuration", "figures", "arrays"):
            assert one[key] == other[key]
        np.testing.assert_array_equal(alone.arrays(row)["array"], together.arrays(row)["array"])
    assert [together.record(row).get("together") for row in rows] == [3, 3, None, 3, None]
    shares = {together.record(row)["seconds"] for row in rows[:2] + rows[3:4]}
    assert len(shares) == 1
    assert list((together.folder / "work").iterdir()) == []
    assert sweep(rows, noted, together, together=TOGETHER) == Summary(skipped=5)


def test_rows_that_are_done_or_with_others_are_left_out(tmp_path):
    notes, store = tmp_path / "notes", Store(tmp_path / "store")
    rows = rows_of(notes, ["red"] * 5)
    sweep(rows[:1], noted, store)
    notes.unlink()
    claim = store.claims.take(rows[3].identity)
    summary = sweep(rows, noted, store, together=TOGETHER)
    assert summary == Summary(done=3, skipped=1, claimed=1)
    assert lines(notes) == ["3 as one"]
    assert claim.is_held()
    claim.release()
    assert sweep(rows, noted, store, together=TOGETHER) == Summary(done=1, skipped=4)
    assert lines(notes) == ["3 as one", "3"]


def test_rows_for_which_memory_is_too_small_are_halved_until_it_is_not(tmp_path):
    notes, store = tmp_path / "notes", Store(tmp_path / "store")
    rows = rows_of(notes, ["red"] * 7, most=2)
    with pytest.warns(UserWarning, match=r"rows did not run as one \(RuntimeError: RESOURCE"):
        summary = sweep(rows, noted, store, together=TOGETHER)
    assert summary == Summary(done=7)
    assert lines(notes) == ["7 as one", "3 as one", "0", "1", "2", "3 as one", "3", "4", "5", "6"]
    sizes = [store.record(row).get("together") for row in rows]
    assert sizes == [None] * 7


def test_pairs_run_as_one_where_four_do_not(tmp_path):
    notes, store = tmp_path / "notes", Store(tmp_path / "store")
    rows = rows_of(notes, ["red"] * 4, most=2)
    with pytest.warns(UserWarning, match="they are tried 2 at a time"):
        sweep(rows, noted, store, together=TOGETHER)
    assert lines(notes) == ["4 as one", "2 as one", "2 as one"]
    assert [store.record(row)["together"] for row in rows] == [2] * 4


def test_memory_says_how_many_are_tried(tmp_path):
    notes, store = tmp_path / "notes", Store(tmp_path / "store")
    rows = rows_of(notes, ["red"] * 7)
    limited = Together(color, "run_works:several", "run_works:room_for_three")
    sweep(rows, noted, store, together=limited)
    assert lines(notes) == ["3 as one", "3 as one", "6"]
    silent = Together(color, "run_works:several", "run_works:no_room")
    with pytest.warns(UserWarning, match="the device does not answer"):
        sweep(rows[:2], noted, Store(tmp_path / "other"), together=silent)
    assert lines(notes)[3:] == ["0", "1"]


def test_other_failures_are_those_of_each_row_alone(tmp_path):
    notes, store = tmp_path / "notes", Store(tmp_path / "store")
    rows = rows_of(notes, ["red"] * 3, broken=True)

    def second_fails(configuration, folder):
        if configuration["x"] == 1:
            raise RuntimeError("the loss is not finite")
        return noted(configuration, folder)

    with pytest.warns(UserWarning, match="these rows are not alike"):
        summary = sweep(rows, second_fails, store, together=TOGETHER)
    assert summary == Summary(done=2, failed=1)
    assert store.record(rows[1])["reason"] == "RuntimeError: the loss is not finite"
    assert files_in(store.folder / "claims") == []


def test_too_few_results_are_no_records(tmp_path, monkeypatch):
    notes, store = tmp_path / "notes", Store(tmp_path / "store")
    rows = rows_of(notes, ["red"] * 3)
    monkeypatch.setattr("run_works.several", lambda *_: [Result({"square": 0})])
    with pytest.warns(UserWarning, match="must return a Result for each of 3 rows"):
        sweep(rows, noted, store, together=TOGETHER)
    assert [store.record(row)["figures"]["square"] for row in rows] == [0, 1, 4]


def test_an_interrupt_gives_all_rows_back_and_the_next_goes_on(tmp_path):
    notes, store = tmp_path / "notes", Store(tmp_path / "store")
    rows = rows_of(notes, ["red"] * 3, interrupted=True)
    with pytest.raises(KeyboardInterrupt):
        sweep(rows, noted, store, together=TOGETHER)
    assert files_in(store.folder / "claims") == []
    assert files_in(store.folder / "runs") == []
    assert files_in(store.folder / "work") == ["checkpoint"]
    # `several` does not interrupt itself where it finds its checkpoint.
    assert sweep(rows, noted, store, together=TOGETHER) == Summary(done=3)
    assert list((store.folder / "work").iterdir()) == []


def test_a_row_that_was_begun_alone_goes_on_alone(tmp_path):
    notes, store = tmp_path / "notes", Store(tmp_path / "store")
    rows = rows_of(notes, ["red"] * 3)
    (store.scratch(rows[1]) / "checkpoint").write_text("half-way")
    assert sweep(rows, noted, store, together=TOGETHER) == Summary(done=3)
    assert lines(notes) == ["2 as one", "1"]


def test_shards_keep_units_whole(tmp_path):
    notes, store = tmp_path / "notes", Store(tmp_path / "store")
    rows = rows_of(notes, ["red", "blue", "green"] * 2)
    for shard in ("1/2", "2/2"):
        sweep(rows, noted, store, together=TOGETHER, shard=parse_shard(shard))
    assert lines(notes) == ["2 as one"] * 3
    assert [store.record(row)["together"] for row in rows] == [2] * 6


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="there are no such signals")
def test_workers_take_units_and_one_that_dies_leaves_halves(tmp_path):
    notes, store = tmp_path / "notes", Store(tmp_path / "store")
    rows = rows_of(notes, ["red"] * 4, most_alive=2)
    by_color = Together(lambda row: row.configuration["color"], "run_works:several")
    events = []
    summary = sweep(
        rows, "run_works:noted", store, workers=2, together=by_color, report=events.append
    )
    assert summary == Summary(done=4)
    assert lines(notes) == ["4 as one", "2 as one", "2 as one"]
    assert [store.record(row)["together"] for row in rows] == [2] * 4
    assert collections.Counter(event.kind for event in events) == {"begun": 8, "done": 4}
    assert files_in(store.folder / "claims") == []
    assert multiprocessing.active_children() == []


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="there are no such signals")
def test_rows_that_wait_behind_a_part_that_dies_are_done(tmp_path):
    notes, store = tmp_path / "notes", Store(tmp_path / "store")
    rows = rows_of(notes, ["red"] * 5, most_alive=2)
    parts = Together(color, "run_works:several", "run_works:room_for_three")
    summary = sweep(rows, "run_works:noted", store, workers=2, together=parts)
    assert summary == Summary(done=5)
    assert sorted(lines(notes)) == ["0", "2 as one", "2 as one", "3 as one"]
    assert files_in(store.folder / "claims") == []


def test_lack_of_memory_is_recognized_by_what_caused_an_error():
    assert is_out_of_memory(MemoryError())
    with pytest.raises(RuntimeError) as caught:
        several([{"notes": os.devnull, "x": 1}] * 17, None)
    later = ValueError("the step failed")
    later.__cause__ = caught.value
    assert is_out_of_memory(later)
    assert not is_out_of_memory(ValueError("no memory of this"))


def test_a_limit_below_one_is_refused():
    with pytest.raises(ValueError, match="at_most must be at least 1, got 0; 1 runs rows alone"):
        Together(color, "run_works:several", at_most=0)

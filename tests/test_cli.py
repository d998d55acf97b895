"""The command line for tables: fit, predict, info, and errors of one sentence."""

import io
import json
import os
import pathlib
import re
import subprocess
import sys
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import r2_score, root_mean_squared_error
from typer.testing import CliRunner, Result

import pann
from pann.cli import tables
from pann.cli.csv import write_csv
from pann.cli.main import app
from pann.io import save
from pann.regression.estimator import PANNRegressor

SOURCE = pathlib.Path(__file__).parent.parent / "src"
NUM_ROWS = 60


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def succeed(*arguments: object) -> str:
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


def make_frame() -> pd.DataFrame:
    """y = 2 P2(a) P1(b) + b exactly, and a second target; a and b fill [-1, 1]."""
    rng = np.random.default_rng(0)
    a, b = rng.uniform(-1, 1, (2, NUM_ROWS))
    a[:2], b[:2] = [-1, 1], [1, -1]
    y = (3 * a**2 - 1) * b + b
    return pd.DataFrame({"a": a, "flag": rng.random(NUM_ROWS) < 0.5, "b": b, "y": y, "z": a - 3})


@pytest.fixture
def folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """The current folder, with data.csv in it."""
    monkeypatch.chdir(tmp_path)
    make_frame().to_csv("data.csv", index=False)
    return tmp_path


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A model of two trials, which a polynomial alone has as well."""
    path = tmp_path_factory.mktemp("model")
    make_frame().to_csv(path / "data.csv", index=False)
    out = path / "model.pann"
    succeed("fit", path / "data.csv", "-t", "y", "--drop", "z", "-o", out, "--trials", 2)
    return out


# ---- What works ----


def test_fit_predict_and_info_on_one_table(folder: pathlib.Path) -> None:
    shown = succeed("fit", "data.csv", "--target", "y", "--drop", "z", "--drop", "flag")
    assert "60 rows, 2 features, target y" in shown
    assert "54 to fit, 6 to test" in shown
    assert "polynomial: ridge regression" in shown
    assert "network 0.0%, polynomial 100.0%" in shown
    assert "written   data.pann (fitted to 54 rows, without those of the test)" in shown
    predicted = pd.read_csv(io.StringIO(succeed("predict", "data.pann", "data.csv")))
    assert list(predicted) == ["y"]
    np.testing.assert_allclose(predicted["y"], make_frame()["y"], atol=1e-10)
    shown = succeed("info", "data.pann")
    assert "target    y" in shown
    assert "-1 to 1" in shown
    assert "polynomial: ridge regression" in shown


def test_leading_terms_have_sign_name_and_order(folder: pathlib.Path) -> None:
    shown = succeed("fit", "data.csv", "-t", "y", "--drop", "z,flag", "--test-fraction", 0)
    terms = [line.strip() for line in shown.splitlines() if line.startswith("  ")]
    assert terms == ["+2 * P2(a) P1(b)", "+1 * P1(b)"]


def test_json_holds_the_whole_report_and_its_figures(folder: pathlib.Path) -> None:
    printed = succeed("fit", "data.csv", "-t", "y", "--degree", 1, "--drop", "z,flag", "--json")
    report = json.loads(printed)
    assert printed.count("\n") == 1
    assert (report["command"], report["file"]) == ("fit", "data.pann")
    assert (report["rows"], report["rows_fitted"], report["rows_held_out"]) == (60, 54, 6)
    assert (report["features"], report["targets"]) == (["a", "b"], ["y"])
    assert (report["how"], report["degree"], report["terms"]) == ("polynomial", 1, 3)
    assert (report["share_network"], report["share_polynomial"]) == (0, 1)
    assert report["seconds"] > 0
    # The same figures from the written model, by scikit-learn.
    held_out = np.random.default_rng(0).permutation(NUM_ROWS)[:6]
    test = make_frame().iloc[held_out]
    predicted = pann.load("data.pann").predict(test[["a", "b"]])
    assert report["r2"] == pytest.approx(r2_score(test["y"], predicted))
    assert report["rmse"] == pytest.approx(root_mean_squared_error(test["y"], predicted))
    assert report["rel_l2"] == pytest.approx(pann.relative_l2(predicted, test["y"]))
    info = json.loads(succeed("info", "data.pann", "--json"))
    for key in ("how", "degree", "terms", "targets", "leading_terms"):
        assert info[key] == report[key]
    assert [feature["name"] for feature in info["features"]] == ["a", "b"]


def test_several_targets_each_have_their_column_and_error(folder: pathlib.Path) -> None:
    report = json.loads(succeed("fit", "data.csv", "-t", "y,z", "--drop", "flag", "--json"))
    assert report["targets"] == ["y", "z"]
    assert set(report["by_target"]) == {"y", "z"}
    assert report["rmse"] == pytest.approx(
        np.mean([errors["rmse"] for errors in report["by_target"].values()])
    )
    repeated = succeed("fit", "data.csv", "-t", "y", "-t", "z", "--drop", "flag")
    assert "y: R2" in repeated
    assert "z: R2" in repeated
    predicted = pd.read_csv(io.StringIO(succeed("predict", "data.pann", "data.csv")))
    assert list(predicted) == ["y", "z"]
    np.testing.assert_allclose(predicted, make_frame()[["y", "z"]], atol=1e-8)


def test_predict_goes_by_names_whatever_else_is_there(
    folder: pathlib.Path, model: pathlib.Path
) -> None:
    expected = pd.read_csv(io.StringIO(succeed("predict", model, "data.csv")))
    other = make_frame()[["b", "a", "flag"]].assign(note="text")
    other.to_csv("other.csv", index=False)
    succeed("predict", model, "other.csv", "-o", "out.csv")
    pd.testing.assert_frame_equal(pd.read_csv("out.csv"), expected)


def test_deviations_come_with_the_predictions(folder: pathlib.Path, model: pathlib.Path) -> None:
    rows = [
        json.loads(line)
        for line in succeed("predict", model, "data.csv", "--std", "--json").splitlines()
    ]
    assert len(rows) == NUM_ROWS
    assert set(rows[0]) == {"y", "y_std"}
    report = json.loads(succeed("predict", model, "data.csv", "--std", "-o", "o.csv", "--json"))
    assert report["columns"] == ["y", "y_std"]
    assert report["rows"] == NUM_ROWS
    assert list(pd.read_csv("o.csv")) == ["y", "y_std"]


def test_extrapolation_is_one_line_on_stderr(folder: pathlib.Path, model: pathlib.Path) -> None:
    make_frame().assign(a=50.0).to_csv("far.csv", index=False)
    result = run("predict", model, "far.csv")
    assert result.exit_code == 0
    assert result.stderr.startswith("pann: warning: 60 of 60 rows lie outside")
    assert result.stderr.count("\n") == 1
    assert result.stdout.startswith("y\n")


def test_a_dry_run_shows_sizes_and_writes_nothing(folder: pathlib.Path) -> None:
    before = set(folder.iterdir())
    shown = succeed("fit", "data.csv", "-t", "y", "--dry-run", "--degree", 2)
    assert "degree 2, 15 polynomial terms, no network" in shown
    assert "nothing was trained or written" in shown
    report = json.loads(
        succeed("fit", "data.csv", "-t", "y", "--dry-run", "--json", "--width", "4")
    )
    assert report["dry_run"] is True
    assert [way["how"] for way in report["ways"]] == ["polynomial", "gradient"]
    assert report["ways"][1]["widths"] == [4, 4, 4]
    assert report["bytes"] > 0
    assert set(folder.iterdir()) == before


def test_the_guess_of_time_depends_on_recipe_and_trials(folder: pathlib.Path) -> None:
    def seconds(*more: object) -> float:
        arguments = ("fit", "data.csv", "-t", "y", "--degree", 2, "--dry-run", "--json")
        return json.loads(succeed(*arguments, *more))["ways"][-1]["seconds"]

    assert 0 < seconds("--recipe", "default") < seconds("--recipe", "paper")
    assert seconds("--recipe", "paper") < seconds("--recipe", "paper", "--trials", 4)


def test_options_reach_the_regressor(folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, Any] = {}

    def look(self: PANNRegressor, *_: object) -> None:
        seen.update(self.get_params())
        raise ValueError("seen")

    monkeypatch.setattr(PANNRegressor, "fit", look)
    asked = {
        "--degree": "none",
        "--width": "64,32",
        "--depth": "2",
        "--activation": "relu",
        "--constraint": "E",
        "--recipe": "paper",
        "--trials": "3",
        "--precision": "float32",
        "--memory": "1GB",
        "--seed": "7",
    }
    run("fit", "data.csv", "-t", "y", *(part for pair in asked.items() for part in pair))
    expected = {"degree": None, "width": (64, 32), "depth": 2, "activation": "relu"}
    expected |= {"constraint": "E", "recipe": "paper", "trials": 3, "precision": "float32"}
    expected |= {"memory": 10**9, "random_state": 7}
    assert {name: seen[name] for name in expected} == expected


def test_shares_add_up_to_one_and_belong_to_their_half() -> None:
    rng = np.random.default_rng(0)
    network, polynomial = rng.normal(size=(2, 500, 2))
    shares = tables.variance_shares(network, polynomial)
    assert shares is not None
    assert sum(shares) == pytest.approx(1)
    # Independent halves with deviations 3 and 1 have 9/10 and 1/10 of the variance.
    rest = polynomial - polynomial.mean(0)
    apart = network - network.mean(0)
    apart -= rest * np.sum(apart * rest, 0) / np.sum(rest**2, 0)
    scaled = [half / np.std(half, axis=0) for half in (apart, rest)]
    assert tables.variance_shares(3 * scaled[0], scaled[1]) == pytest.approx((0.9, 0.1))
    assert tables.variance_shares(np.zeros((5, 1)), np.full((5, 1), 0.1)) is None


def test_a_model_without_names_predicts_by_position(folder: pathlib.Path) -> None:
    frame = make_frame()
    regressor = PANNRegressor(random_state=0)
    regressor.fit(frame[["a", "b"]].to_numpy(), frame[["y", "z"]].to_numpy()).save("plain.pann")
    write_csv(folder / "two.csv", frame[["a", "b"]])
    predicted = pd.read_csv(io.StringIO(succeed("predict", "plain.pann", "two.csv")))
    assert list(predicted) == ["prediction_1", "prediction_2"]
    np.testing.assert_allclose(predicted, frame[["y", "z"]], atol=1e-8)
    result = run("predict", "plain.pann", "data.csv")
    assert result.exit_code == 2
    assert "fitted to 2 columns without names" in result.stderr


def test_version_and_help() -> None:
    assert succeed("--version").strip() == pann.__version__
    for command in ("fit", "predict", "info"):
        assert command in succeed("--help")
        assert "--json" in succeed(command, "--help")


def test_names_from_files_cannot_write_to_the_terminal(folder: pathlib.Path) -> None:
    make_frame().rename(columns={"a": "\x1b[31m"}).to_csv("data.csv", index=False)
    assert "\x1b" not in succeed("fit", "data.csv", "-t", "y")
    assert "\x1b" not in succeed("info", "data.pann")
    assert "\x1b" not in run("fit", "data.csv", "-t", "none").output


# ---- What does not ----


def lines(*rows: str) -> str:
    return "\n".join(rows) + "\n"


GOOD = lines("a,b,y", *(f"{i},{i * i % 7},{i}" for i in range(20)))
WRONG_TABLES = {
    "unknown target": (GOOD, ["-t", "Y"], "no column 'Y' .*did you mean 'y'.*'a', 'b', 'y'"),
    "unknown drop": (GOOD, ["-t", "y", "--drop", "q"], "no column 'q'"),
    "no features": (GOOD, ["-t", "y", "--drop", "a,b"], "no column .* is left as feature"),
    "empty target": (GOOD, ["-t", ","], "no column .* is left as target"),
    "text": (lines("a,y", "1,2", "x,3"), ["-t", "y"], "'a' has 'x' in line 3 .*--drop a"),
    "text target": (lines("a,y", "1,2", "1,x"), ["-t", "y"], "'y' has 'x'.*another target"),
    "missing value": (lines("a,y", "1,2", ",3"), ["-t", "y"], "'a' has no value in line 3"),
    "infinity": (lines("a,y", "1,2", "inf,3"), ["-t", "y"], "'a' has an infinite value"),
    "empty file": ("", ["-t", "y"], "is empty"),
    "header only": ("a,y\n", ["-t", "y"], "no rows"),
    "one row": ("a,y\n1,2\n", ["-t", "y"], "has 1 row, of which 1 would be held out"),
    "two rows": ("a,y\n1,2\n3,4\n", ["-t", "y"], "has 2 rows, of which 1 would"),
    "ragged lines": (lines("a,y", "1,2", "1,2,3"), ["-t", "y"], "2 fields in line 3, saw 3"),
    "duplicate names": (lines("a,a,y", "1,2,3"), ["-t", "y"], "two columns named 'a'"),
    "binary junk": ("\x00\x01", ["-t", "y"], "contains zero bytes"),
}
WRONG_OPTIONS = {
    "activation": (["--activation", "tanhh"], "no activation 'tanhh' .did you mean tanh"),
    "constraint": (["--constraint", "Z"], "no constraint 'Z'; choose from auto, none, A"),
    "recipe": (["--recipe", "papr"], "no recipe 'papr' .did you mean paper"),
    "precision": (["--precision", "float16"], "no precision 'float16'.*float64, float32"),
    "degree": (
        ["--degree", "-1"],
        "--degree must be a whole number of at least 0, or 'auto', or None",
    ),
    "degree word": (["--degree", "many"], "got 'many'"),
    "width": (["--width", "wide"], "--width must be a whole number .*got 'wide'"),
    "widths": (["--width", "64,0"], "one of at least 1 for each layer"),
    "nothing to fit": (["--width", "0", "--degree", "none"], "leave nothing to fit"),
    "memory": (["--memory", "lots"], "memory is a size such as '2GB'"),
    "test fraction": (["--test-fraction", "1"], r"the test fraction is in \[0, 1\), got 1"),
    "degree beyond memory": (["--degree", "40", "--memory", "10KB"], "a degree of at most"),
    "degree beyond rows": (["--degree", "15"], "only 18 points"),
    "suffix of out": (["--out", "model.csv"], "ends in .pann"),
    "no folder": (["--out", "none/model.pann"], "there is no folder 'none'"),
    "out is a folder": (["--out", "full.pann"], "is a folder"),
    "unwritable folder": (["--out", "/proc/model.pann"], "cannot write to the folder '/proc'"),
}


def check_sentence(result: Result, message: str, code: int = 2) -> None:
    assert result.exit_code == code, result.output
    assert result.stdout == ""
    assert result.stderr.startswith("pann: ")
    assert result.stderr.count("\n") == 1
    assert re.search(message, result.stderr), result.stderr


@pytest.mark.parametrize("content, arguments, message", WRONG_TABLES.values(), ids=WRONG_TABLES)
@pytest.mark.parametrize("extra", [[], ["--dry-run"]], ids=["fit", "dry run"])
def test_a_wrong_table_is_one_sentence(
    content: str, arguments: list[str], message: str, extra: list[str], folder: pathlib.Path
) -> None:
    pathlib.Path("wrong.csv").write_text(content, encoding="utf-8")
    check_sentence(run("fit", "wrong.csv", *arguments, *extra), message)
    assert sorted(path.name for path in folder.iterdir()) == ["data.csv", "wrong.csv"]


@pytest.mark.parametrize("arguments, message", WRONG_OPTIONS.values(), ids=WRONG_OPTIONS)
def test_a_wrong_option_is_one_sentence(
    arguments: list[str], message: str, folder: pathlib.Path
) -> None:
    pathlib.Path("good.csv").write_text(GOOD, encoding="utf-8")
    (folder / "full.pann").mkdir()
    check_sentence(run("fit", "good.csv", "-t", "y", *arguments), message)
    assert len(list(folder.iterdir())) == 3


def test_the_place_for_the_model_is_checked_before_training(
    folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PANNRegressor, "fit", lambda *_: pytest.fail("trained"))
    check_sentence(run("fit", "data.csv", "-t", "y", "-o", "no/m.pann"), "there is no folder 'no'")


@pytest.mark.parametrize(
    "name, message",
    [
        ("none.csv", "there is no file 'none.csv'"),
        ("folder.csv", "is a folder"),
        ("data.xlsx", "the tables that pann reads"),
        ("latin.csv", "not text in UTF-8"),
        ("short.csv.gz", "not a complete gzip file"),
    ],
)
def test_a_wrong_file_is_one_sentence(name: str, message: str, folder: pathlib.Path) -> None:
    (folder / "folder.csv").mkdir()
    (folder / "latin.csv").write_bytes(b"a,y\n1,\xe9\n")
    (folder / "short.csv.gz").write_bytes(b"\x1f\x8b\x08")
    check_sentence(run("fit", name, "-t", "y"), message)


WRONG_MODELS = {
    "missing": ("none.pann", "there is no such file"),
    "folder": ("folder.pann", "it is a folder"),
    "no zip": ("text.pann", "not a .pann file"),
    "cut short": ("short.pann", "cut short"),
    "of points": ("points.pann", "holds a model of points, not of a table"),
    "another kind": ("other.pann", "which this pann does not know"),
}


@pytest.fixture
def wrong_models(folder: pathlib.Path, model: pathlib.Path) -> None:
    (folder / "folder.pann").mkdir()
    (folder / "text.pann").write_text("hello", encoding="utf-8")
    (folder / "short.pann").write_bytes(model.read_bytes()[:-100])
    points = np.random.default_rng(0).uniform(-1, 1, (20, 1))
    save(folder / "points.pann", pann.fit(points, points[:, 0], pann.Polynomial(degree=1)).model)
    pann.io.write(folder / "other.pann", "something else", {}, {})


@pytest.mark.parametrize("name, message", WRONG_MODELS.values(), ids=WRONG_MODELS)
@pytest.mark.parametrize("command", ["predict", "info"])
def test_a_wrong_model_is_one_sentence(
    command: str, name: str, message: str, wrong_models: None
) -> None:
    data = ["data.csv"] if command == "predict" else []
    check_sentence(run(command, name, *data), message)


WRONG_PREDICTIONS = {
    "column missing": (["few.csv"], "no column 'flag', 'b', which the model needs, in 'few.csv'"),
    "text": (["text.csv"], "'a' has 'x' in line 2 of 'text.csv'"),
    "no table": (["none.csv"], "there is no file"),
    "no folder": (["data.csv", "-o", "no/out.csv"], "there is no folder 'no'"),
    "overwrites": (["data.csv", "-o", "./data.csv"], "cannot be written"),
}


@pytest.mark.parametrize("arguments, message", WRONG_PREDICTIONS.values(), ids=WRONG_PREDICTIONS)
def test_a_wrong_prediction_is_one_sentence(
    arguments: list[str], message: str, folder: pathlib.Path, model: pathlib.Path
) -> None:
    make_frame()[["a"]].to_csv("few.csv", index=False)
    make_frame().assign(a="x").to_csv("text.csv", index=False)
    before = (folder / "data.csv").read_bytes()
    check_sentence(run("predict", model, *arguments), message)
    assert (folder / "data.csv").read_bytes() == before


def test_deviations_need_trials(folder: pathlib.Path) -> None:
    succeed("fit", "data.csv", "-t", "y")
    check_sentence(run("predict", "data.pann", "data.csv", "--std"), "fit it with --trials 5")


FAULTS = {
    "interrupted": (KeyboardInterrupt(), "pann: stopped", 130),
    "out of memory": (
        MemoryError("array of 1 TiB"),
        "out of memory .array of 1 TiB.; use fewer rows",
        2,
    ),
    "operating system": (OSError(28, "No space left on device", "x"), "'x': no space left", 2),
    "several lines": (ValueError("one\n  two"), "pann: one two", 2),
}


@pytest.mark.parametrize("fault, message, code", FAULTS.values(), ids=FAULTS)
def test_a_fault_while_training_leaves_nothing_behind(
    fault: BaseException,
    message: str,
    code: int,
    folder: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object) -> None:
        raise fault

    monkeypatch.setattr(PANNRegressor, "fit", fail)
    check_sentence(run("fit", "data.csv", "-t", "y"), message, code)
    assert [path.name for path in folder.iterdir()] == ["data.csv"]


@pytest.mark.parametrize("bug", [TypeError("bug"), RuntimeError("bug"), AssertionError()])
def test_a_bug_is_not_hidden(
    bug: Exception, folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise bug

    monkeypatch.setattr(PANNRegressor, "fit", fail)
    assert run("fit", "data.csv", "-t", "y").exception is bug


@pytest.mark.parametrize(
    "arguments", [["fit", "data.csv"], ["fit", "data.csv", "-t", "y", "--trials", "0"], ["predict"]]
)
def test_usage_errors_exit_with_two(arguments: list[str], folder: pathlib.Path) -> None:
    assert run(*arguments).exit_code == 2


# ---- Real processes ----


def in_shell(*arguments: str, folder: pathlib.Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), "OPENBLAS_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, "-m", "pann", *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_a_process_fits_silently_on_stderr(folder: pathlib.Path) -> None:
    done = in_shell("fit", "data.csv", "-t", "y", "--json", folder=folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["file"] == "data.pann"
    assert (folder / "data.pann").exists()


def test_a_process_fails_with_one_line(folder: pathlib.Path) -> None:
    done = in_shell("fit", "data.csv", "-t", "price", folder=folder)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("pann: there is no column 'price'")
    assert done.stderr.count("\n") == 1


def test_help_loads_no_heavy_library_and_a_bug_in_a_process_shows_its_traceback() -> None:
    script = (
        "import sys\nfrom pann.cli import main, solve\n"
        "try:\n    main.app(['fit', '--help'])\nexcept SystemExit:\n    pass\n"
        "print([m for m in ('sklearn', 'pandas', 'matplotlib', 'xarray') if m in sys.modules])\n"
        "solve.describe_file = lambda path: 1 / 0\n"
        "main.app(['info', 'x.pann'])"
    )
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True
    )
    assert done.stdout.splitlines()[-1] == "[]"
    assert done.returncode == 1
    assert "Traceback" in done.stderr
    assert "ZeroDivisionError" in done.stderr

"""Every example runs as printed, in an empty folder, and says what it promises."""

import pathlib
import runpy

import pytest

EXAMPLES = sorted((pathlib.Path(__file__).parent.parent / "examples").glob("*.py"))


# A fold of a cross-validation leaves out rows at the ends of the range.
@pytest.mark.filterwarnings("ignore:.* rows lie outside of the range of the training rows")
@pytest.mark.slow
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs(path, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(path), run_name="__main__")
    assert capsys.readouterr().out.strip()

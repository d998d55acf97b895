"""The README's example runs as printed."""

import pathlib
import re

import numpy as np
import pytest

README = pathlib.Path(__file__).parents[1] / "README.md"


@pytest.mark.slow
def test_the_example_runs_as_printed(capsys: pytest.CaptureFixture[str]) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.DOTALL)
    assert len(example.strip().splitlines()) <= 11
    names: dict = {}
    exec(compile(example, "README.md", "exec"), names)
    truth = np.sin(3 * names["new"][:, 0]) * names["new"][:, 1] + np.abs(names["new"][:, 0])
    assert np.max(np.abs(names["fit"](names["new"]) - truth)) < 0.05
    assert "polynomial terms" in capsys.readouterr().out

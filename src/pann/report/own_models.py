"""The section of a `.pann` file, whatever it holds."""

import pathlib

from pann.model.pann import PANN
from pann.reader import load
from pann.report.own_fits import model_parts, regressor_parts
from pann.report.own_solutions import solution_parts
from pann.report.page import Section
from pann.solvers.solution import Solution


def model_section(path: pathlib.Path, name: str, anchor: str) -> Section:
    """A section with that title and place in the page."""
    loaded = load(path)
    if isinstance(loaded, Solution):
        badge, (lead, blocks) = "solution", solution_parts(path, loaded)
    elif isinstance(loaded, PANN):
        badge, (lead, blocks) = "model", model_parts(loaded)
    else:
        badge, (lead, blocks) = "table", regressor_parts(path, loaded)
    return Section(anchor, name, lead, tuple(blocks), badge=badge, group="Models")

"""A page as HTML: one file with its styles, scripts and data.

The libraries, the plots, and the details that links open, lie in the page as compressed texts. The
browser unpacks the details, most of the data, when the first of them is opened. A policy in the
head of the page forbids it to load anything else.
"""

import base64
import functools
import gzip
import importlib
import json
import math
import os
import pathlib
from collections.abc import Callable
from importlib import resources
from typing import Any

from pann.plot.files import check_name
from pann.report.charts import Chart, Map, Panels
from pann.report.page import Page
from pann.report.plots import MAX_MAP, figure_of
from pann.runtime.atomic import write_atomically

NEEDED = {"jinja2": "Jinja2", "plotly": "Plotly", "itables": "itables"}
# Details have smaller plots, for there may be a thousand of them: points of a line, steps of a map,
# and values of all maps together.
DETAIL_POINTS, DETAIL_STEPS, DETAIL_VALUES = 60, 254, 3_000_000


def check_page(path: str | os.PathLike[str]) -> None:
    """Find out before the work whether a page can be made, and can have this name."""
    for module, name in NEEDED.items():
        try:
            importlib.import_module(module)
        except ModuleNotFoundError:
            raise ValueError(
                f"a report needs {name}, which is not installed; install it with "
                "pip install 'pann[report]'"
            ) from None
    check_name(path, ("html", "htm"), what="a page")


def write_page(page: Page, path: str | os.PathLike[str]) -> int:
    """Write the page, and return its number of bytes."""
    content = render(page).encode("utf-8")
    write_atomically(path, lambda temporary: pathlib.Path(temporary).write_bytes(content))
    return len(content)


def render(page: Page) -> str:
    """The text of the file."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("pann.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    plots: dict[str, Any] = {}
    inner_plots: dict[str, Any] = {}
    add_inner = _adder(
        inner_plots, "inner-plot", DETAIL_POINTS, detail_map_side(page), DETAIL_STEPS
    )
    detail = environment.get_template("detail.html")
    return environment.get_template("page.html").render(
        page=page,
        add_plot=_adder(plots, "plot"),
        plots=plots,
        details={
            each.identity: detail.render(detail=each, add_plot=add_inner) for each in page.details
        },
        inner_plots=inner_plots,
        libraries=_libraries,
        packed=_packed,
    )


def _adder(figures: dict[str, Any], prefix: str, *limits: int) -> Callable[[Chart], str]:
    """What templates call for a chart: its figure is kept, and the name of its element returned."""

    def add_plot(chart: Chart) -> str:
        name = f"{prefix}-{len(figures) + 1}"
        figures[name] = figure_of(chart, *limits)
        return name

    return add_plot


def detail_map_side(page: Page) -> int:
    """How many values each map of the details has along an axis."""
    panels = (block for each in page.details for block in each.blocks if isinstance(block, Panels))
    num_maps = sum(isinstance(chart, Map) for each in panels for chart in each.charts)
    return min(MAX_MAP, math.isqrt(DETAIL_VALUES // max(num_maps, 1)))


def _packed(data: dict[str, Any]) -> str:
    """Data as a compressed text, which the browser unpacks."""
    content = json.dumps(data, allow_nan=False, separators=(",", ":"))
    # The same runs give the same page: no time of day in the header.
    compressed = gzip.compress(content.encode("utf-8"), compresslevel=5, mtime=0)
    return base64.b64encode(compressed).decode("ascii")


@functools.cache
def _libraries() -> str:
    """Plotly, a script, and DataTables, a module."""
    from plotly.offline import get_plotlyjs

    datatables = resources.files("itables").joinpath("html", "dt_bundle.js").read_text("utf-8")
    return _packed({"plotly": get_plotlyjs(), "datatables": datatables})

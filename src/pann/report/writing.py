"""A page as HTML: one file with its styles, scripts and data, written at once.

The libraries, the plots, and the details that links open, lie in the page as compressed texts,
which the browser unpacks when the page is there, the details when the first of them is asked for. A
policy in its head forbids it to load anything else.
"""

import base64
import dataclasses
import functools
import gzip
import importlib
import json
import os
import pathlib
from importlib import resources
from typing import Any

from pann.plot.files import check_name, write_at_once
from pann.report.page import Page, Plot

NEEDED = {"jinja2": "Jinja2", "plotly": "Plotly", "itables": "itables"}
Archive = dict[str, Any]


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
    """Write the page, and tell how many bytes it has."""
    content = render(page).encode("utf-8")

    def save(temporary: str) -> None:
        pathlib.Path(temporary).write_bytes(content)

    write_at_once(path, save)
    return len(content)


def render(page: Page) -> str:
    """The text of the file."""
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=PackageLoader("pann.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    plots, inner = Plots(), Plots("inner-")
    body = environment.get_template("body.html").render(page=page, add_plot=plots.add)
    detail = environment.get_template("detail.html")
    details = {
        each.identity: detail.render(detail=each, add_plot=inner.add) for each in page.details
    }
    # Ours and the libraries': not to be escaped.
    parts = {
        "body": body,
        "style": _own("page.css"),
        "script": _own("page.js"),
        "libraries": _libraries(),
        "plots": _packed({"plots": plots.figures}),
        "details": _packed({"details": details, "plots": inner.figures}),
    }
    trusted = {name: Markup(part) for name, part in parts.items()}
    return environment.get_template("page.html").render(title=page.title, **trusted)


@dataclasses.dataclass(frozen=True)
class Plots:
    """The figures of a page by the ids that the template gives them."""

    prefix: str = ""
    figures: dict[str, dict[str, Any]] = dataclasses.field(default_factory=dict)

    def add(self, plot: Plot) -> str:
        name = f"{self.prefix}plot-{len(self.figures) + 1}"
        self.figures[name] = plot.figure
        return name


def unpack(text: str) -> Archive:
    """What `_packed` packed; the browser does the same."""
    return json.loads(gzip.decompress(base64.b64decode(text)))


def _packed(archive: Archive) -> str:
    content = json.dumps(archive, allow_nan=False, separators=(",", ":"))
    # The same runs give the same page: no time of day in the header.
    compressed = gzip.compress(content.encode("utf-8"), compresslevel=7, mtime=0)
    return base64.b64encode(compressed).decode("ascii")


def _own(name: str) -> str:
    return resources.files("pann.report").joinpath("templates", name).read_text("utf-8")


@functools.cache
def _libraries() -> str:
    """Plotly, a script, and DataTables, a module."""
    from plotly.offline import get_plotlyjs

    datatables = resources.files("itables").joinpath("html", "dt_bundle.js").read_text("utf-8")
    return _packed({"plotly": get_plotlyjs(), "datatables": datatables})

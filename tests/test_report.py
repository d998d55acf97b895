"""Reports: figures are those of the records, links lead somewhere, and a browser can use the page.

Where Chromium or its driver is absent the tests in the browser are skipped; the others always run.
"""

import base64
import dataclasses
import gzip
import html.parser
import itertools
import json
import math
import pathlib
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from browsers import look, open_browser, show, until, why_absent
from report_stores import add_record, made_up_store
from typer.testing import CliRunner, Result

import pann
from pann.cli.main import app
from pann.report import writing
from pann.report.page import Facts, Page, Section, Table, Value
from pann.report.plots import coarser, figure_of, in_steps
from pann.report.runs import make_details
from pann.report.writing import render, write_page
from pann.runs import Row, Store
from reproduction.cells import Cell, Measured, cells_of
from reproduction.cli import app as reproduction
from reproduction.experiments import EXPERIMENTS, experiment_named
from reproduction.report import ABOVE, BELOW, WITHIN, deviations, judge, paper_page

# Of the whole paper with all its rows; the bytes and seconds of that: python -m benchmarks report.
MOST_BYTES = 10_000_000


@dataclasses.dataclass(frozen=True)
class Written:
    """A page that was written, what it was made of, and what a parser finds in it."""

    path: pathlib.Path
    page: Page
    text: str
    found: "Parsed"

    @property
    def archive(self) -> dict[str, Any]:
        """The details, and the plots of the page and of the details."""
        plots, details = self.unpacked("plots"), self.unpacked("details")
        return {"details": details["details"], "plots": {**plots["plots"], **details["plots"]}}

    def unpacked(self, name: str) -> dict[str, Any]:
        match = re.search(rf'<script id="{name}"[^>]*>([^<]*)</script>', self.text)
        assert match is not None
        return json.loads(gzip.decompress(base64.b64decode(match[1])))


class Parsed(html.parser.HTMLParser):
    """The ids, links and sources of a page, and whether its tags are closed as they were opened."""

    VOID = ("meta", "link", "input", "br", "line", "path", "rect")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.sources: list[str] = []
        self.tags: list[str] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.tags.append(tag)
        if "id" in given:
            self.ids.append(given["id"])
        if "href" in given:
            self.links.append(given["href"])
        if "src" in given:
            self.sources.append(given["src"])
        assert not [name for name in given if name.startswith("on")], "a handler in the markup"
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag


def written(page: Page, path: pathlib.Path) -> Written:
    assert write_page(page, path) == path.stat().st_size
    text = path.read_text(encoding="utf-8")
    return Written(path, page, text, Parsed(text))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Written:
    """The page of all experiments at their full size, a part of the rows of each, made up."""
    folder = tmp_path_factory.mktemp("whole")
    store = made_up_store(folder / "runs", most=17)
    return written(paper_page(store), folder / "paper.html")


def run(*arguments: object) -> Result:
    """`python -m reproduction report`, or `pann report` with a place."""
    words = [str(argument) for argument in arguments]
    return CliRunner().invoke(reproduction if words[1].startswith("--") else app, words)


# ---- Verdicts ----


def of_error(error: float | None, mean: float = 0.4, deviation: float | None = 0.1) -> Cell:
    record = {"identity": "0" * 16, "seconds": 1.0, "figures": {}}
    published = {"mean": mean, "deviation": deviation}
    return Cell({}, "error", published, Measured(record, [error]), None)


@pytest.mark.parametrize(
    "error, symbol, shade",
    [
        (0.4, BELOW, 0),
        (0.3, BELOW, -1),
        (0.0399, BELOW, -2),
        (1e-9, BELOW, -3),
        (0.0, BELOW, -3),
        (0.599, WITHIN, 0),
        (0.601, ABOVE, 1),
        (4.1, ABOVE, 2),
        (1e9, ABOVE, 3),
    ],
)
def test_an_error_is_within_two_deviations_or_not(error: float, symbol: str, shade: int) -> None:
    verdict = judge(of_error(error), of_error(error).faithful)
    assert verdict is not None
    assert (verdict.symbol, verdict.shade) == (symbol, shade)
    assert verdict.amount == pytest.approx(error / 0.4)
    assert verdict.is_reached == (error <= 0.6)
    # Never by color alone.
    shown = verdict.value()
    assert shown.mark == symbol
    assert shown.note


def test_without_a_published_deviation_only_the_mean_counts() -> None:
    for deviation in (None, math.nan):
        verdict = judge(of_error(0.41, deviation=deviation), of_error(0.41).faithful)
        assert verdict is not None
        assert verdict.symbol == ABOVE
    assert judge(of_error(None), of_error(None).faithful) is None
    assert judge(dataclasses.replace(of_error(1.0), published=None), None) is None


def test_percentages_differ_by_points_and_counts_by_one() -> None:
    percent = dataclasses.replace(of_error(51.9, 50.0), quantity="percent")
    further = dataclasses.replace(of_error(52.1, 50.0), quantity="percent")
    count = dataclasses.replace(of_error(729, 792.0), quantity="terms")
    verdicts = [judge(cell, cell.faithful) for cell in (percent, further, count)]
    assert [v.symbol for v in verdicts if v is not None] == [WITHIN, ABOVE, BELOW]
    assert [v.is_reached for v in verdicts if v is not None] == [True, False, False]
    assert [v.amount for v in verdicts if v is not None] == pytest.approx([1.9, 2.1, -63])


# ---- Cells ----


def test_both_modes_of_a_regression_stand_in_one_line(tmp_path: pathlib.Path) -> None:
    experiment = experiment_named("alpha")
    cells = cells_of(experiment, made_up_store(tmp_path, (experiment,)), "full")
    pann = [cell for cell in cells if cell.settings["method"] == "PANN"]
    both = [cell for cell in pann if cell.faithful is not None and cell.default is not None]
    # Some of the made-up runs failed.
    assert len(pann) == 27
    assert len(both) > 20
    assert all(cell.published_mean is not None for cell in both)


def test_errors_are_not_compared_with_shares_that_were_pruned(tmp_path: pathlib.Path) -> None:
    experiment = experiment_named("constraints")
    store = made_up_store(tmp_path, (experiment,))
    cells = cells_of(experiment, store, "full")
    assert {cell.quantity for cell in cells} == {"error", "percent"}
    for cell in cells:
        assert cell.quantity == "percent" or cell.published is None
    (line,) = lines_of(section(paper_page(store), "overview"))
    assert line["best default"].text == ""
    assert "points" in line["median ratio"].text


def test_readings_are_distinguished_by_their_problem(tmp_path: pathlib.Path) -> None:
    experiment = experiment_named("readings")
    cells = cells_of(experiment, made_up_store(tmp_path, (experiment,)), "full")
    found = {
        cell.settings["problem"]: cell
        for cell in cells
        if (cell.settings["model"], cell.settings["reading"]) == ("PINN", "400 L-BFGS iterations")
        and cell.settings.get("field", "u") == "u"
    }
    assert set(found) == {"poisson", "allen_cahn", "kdv", "ks", "gray_scott"}
    # PINN 3x100 at N = 16384 on equispaced points, as printed.
    assert (found["kdv"].published_mean, found["kdv"].published_deviation) == (0.394, 0.18)
    assert found["ks"].published_mean == 0.98


# ---- The page of the paper ----


def section(page: Page, anchor: str) -> Section:
    (found,) = (each for each in page.sections if each.anchor == anchor)
    return found


def lines_of(part: Section) -> list[dict[str, Value]]:
    """The first table of a section; of two columns with one title the first."""
    table = next(block for block in part.blocks if isinstance(block, Table))
    titles = [column.title for column in table.columns]
    return [dict(reversed(list(zip(titles, row, strict=True)))) for row in table.rows]


def test_the_overview_counts_what_is_reached(tmp_path: pathlib.Path) -> None:
    """Three cells of KdV: half of, 1.9 and 2.1 deviations above the published mean."""
    experiment, store = experiment_named("kdv"), Store(tmp_path)
    rows = experiment.rows("full", "faithful", None)
    for row, place in zip(rows[:3], (None, 1.9, 2.1), strict=True):
        cell = published_cell(row)
        error = cell["mean"] / 2 if place is None else cell["mean"] + place * cell["deviation"]
        add_record(store, row, error, {"errors": {"u": [error]}})
    (default,) = experiment.rows("full", "default", None)
    add_record(store, default, 1e-9, {"errors": {"u": [1e-9]}})
    page = paper_page(store)
    (line,) = lines_of(section(page, "overview"))
    assert (line["runs"].text, line["cells"].text) == ("4 of 137", "136")
    assert (line["reached"].text, line["fraction"].text) == ("2 of 3", "67%")
    # The best published error of KdV is 0.101.
    ratio = line["best default"]
    assert ratio.order == pytest.approx(1e-9 / 0.101)
    assert (ratio.mark, ratio.run) == (BELOW, default.identity)
    lines = lines_of(section(page, "experiment-kdv"))
    assert len(lines) == 3
    assert {each["faithful"].run for each in lines} == {row.identity for row in rows[:3]}
    assert {each["default"].run for each in lines} == {default.identity}
    assert {each["ratio"].mark for each in lines} == {BELOW, WITHIN, ABOVE}
    assert "Not run yet" in str(section(page, "overview").blocks)


def published_cell(row: Row) -> dict[str, float]:
    from reproduction.published import load

    frame = load("kdv")
    for name in ("sampling", "model", "base", "width", "depth", "num_points"):
        frame = frame[frame[name] == row.configuration[name]]
    if "c" in row.configuration:
        frame = frame[np.isclose(frame["c"], row.configuration["c"])]
    (record,) = frame.to_dict("records")
    return record


def test_every_experiment_and_run_is_in_the_page(whole: Written) -> None:
    anchors = {part.anchor for part in whole.page.sections}
    assert {f"experiment-{each.name}" for each in EXPERIMENTS} <= anchors
    assert {"overview", "deviations", "environment", "failures"} <= anchors
    records = Store(whole.path.parent / "runs").records()
    assert len(records) > 300
    assert set(whole.archive["details"]) == {record["identity"] for record in records}


def test_the_page_is_well_formed_and_needs_no_network(whole: Written) -> None:
    assert whole.path.stat().st_size < MOST_BYTES
    assert whole.found.open == []
    assert whole.found.sources == []
    assert whole.found.tags.count("h1") == 1
    for link in whole.found.links:
        assert link.startswith(("#", "data:,"))
    assert "default-src 'none'" in whole.text
    # Libraries name addresses in their comments; ours must not.
    assert not re.search(r"https?://", re.sub(r"<script id[^>]*>[^<]*</script>", "", whole.text))
    assert "Plotly" in whole.unpacked("libraries")["plotly"][:50_000].replace("plotly", "Plotly")


def test_links_lead_to_ids_or_to_runs(whole: Written) -> None:
    ids = whole.found.ids
    assert len(ids) == len(set(ids))
    details = whole.archive["details"]
    to_runs = [link[5:] for link in whole.found.links if link.startswith("#run-")]
    others = [link[1:] for link in whole.found.links if link[:5] not in ("#run-", "data:")]
    assert len(to_runs) > 300
    assert set(to_runs) <= set(details)
    assert set(others) <= set(ids)


def test_every_plot_is_one_of_plotlys(whole: Written) -> None:
    """Plotly itself checks the names and values of all that it is given."""
    from plotly import graph_objects

    archive = whole.archive
    in_page = [name for name in whole.found.ids if name.startswith("plot-")]
    in_details = [
        re.findall(r'id="(inner-plot-\d+)"', each) for each in archive["details"].values()
    ]
    assert {*in_page, *itertools.chain(*in_details)} == set(archive["plots"])
    assert len(in_page) > 60
    for name in in_page:
        graph_objects.Figure(archive["plots"][name])


def test_a_plot_has_the_numbers_of_the_runs(tmp_path: pathlib.Path) -> None:
    experiment = experiment_named("reproduction")
    page = paper_page(made_up_store(tmp_path, (experiment,)))
    panels = section(page, "experiment-reproduction").blocks[0]
    chart = next(each for each in panels.charts if each.title == "relative l2 error, default, tanh")
    traces = figure_of(chart)["data"]
    (drawn,) = (each["y"] for each in traces if each["name"] == "PANN tanh, c = 0.001")
    wanted = {"mode": "default", "method": "PANN", "activation": "tanh", "c": 0.001}
    means = {
        record["configuration"]["num_points"]: np.mean(record["figures"]["errors"])
        for record in Store(tmp_path).records()
        if wanted.items() <= record["configuration"].items() and record["status"] == "done"
    }
    np.testing.assert_allclose(drawn, [means[n] for n in sorted(means)], rtol=1e-6)


def test_a_smoke_test_is_compared_with_nothing(tmp_path: pathlib.Path) -> None:
    experiment, store = experiment_named("poisson"), Store(tmp_path)
    for row in experiment.rows("smoke", "faithful", None):
        add_record(store, row, 1.0)
    part = section(paper_page(store), "experiment-poisson")
    assert "compared with nothing" in part.lead
    assert "published" not in lines_of(part)[0]


def test_deviations_concern_experiments_that_exist() -> None:
    names = {each.name for each in EXPERIMENTS}
    assert len(deviations()) > 20
    for each in deviations():
        assert set(each.experiments) <= names
        assert all((each.about, each.paper, each.here, each.why))


# ---- What comes from files is shown, not run ----

EVIL = "</script><script>document.title='run'</script><img src=x onerror=alert(1)>\"'@@{{ 7 * 7 }}"


def test_texts_of_a_store_are_escaped(tmp_path: pathlib.Path) -> None:
    store = Store(tmp_path / "evil")
    for number in range(2):
        row = Row("mine", {"note": f"{number}{EVIL}"[:50], EVIL[:30]: number})
        add_record(store, row, 1.0, {"errors": [0.1], EVIL: 1.0})
    result = run("report", tmp_path / "evil", "--out", tmp_path / "evil.html")
    assert result.exit_code == 0, result.output
    text = (tmp_path / "evil.html").read_text()
    found = Parsed(text)
    assert found.tags.count("script") == 4
    assert "img" not in found.tags
    (detail, *_) = Written(tmp_path, Page("", "", (), ()), text, found).archive["details"].values()
    assert not {"script", "img"} & set(Parsed(detail).tags)
    assert "{{ 7 * 7 }}" in detail


# ---- Numbers in the page ----


@pytest.mark.parametrize("size", [1e-9, 1.0, 1e7])
def test_a_map_in_steps_is_right_to_half_a_step(size: float) -> None:
    values = size * np.random.default_rng(0).normal(size=(7, 5))
    values[2, 3] = np.nan
    found = in_steps(values, 254)
    assert found[2][3] is None
    # So few digits that a thousand runs have room for their maps.
    assert max(len(repr(each)) for row in found for each in row) <= len("-123456789.0")
    found[2][3] = np.nan
    step = (np.nanmax(values) - np.nanmin(values)) / 254
    np.testing.assert_allclose(np.array(found, float), values, atol=step / 2 * 1.0001)


def test_coarser_keeps_the_ends() -> None:
    values = np.arange(63.0).reshape(9, 7)
    assert coarser(values, 4).shape == (4, 4)
    np.testing.assert_array_equal(coarser(values, 4)[[0, -1]][:, [0, -1]], [[0, 6], [56, 62]])
    np.testing.assert_array_equal(coarser(values, 50), values)


def test_many_runs_share_the_bytes_for_maps(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = made_up_store(tmp_path / "runs", (experiment_named("poisson"),), most=1)
    (record, *_) = (record for record in store.records() if record["arrays"])
    (detail,) = make_details([record], store)
    few = Page("few", "", (), (), [detail])
    assert _map_sides(few, tmp_path) == [48] * 3  # all that there is
    # Three maps of 10 by 10 for each of eight runs.
    monkeypatch.setattr(writing, "DETAIL_VALUES", 8 * 3 * 10**2)
    details = [dataclasses.replace(detail, identity=str(number)) for number in range(8)]
    assert _map_sides(dataclasses.replace(few, details=details), tmp_path) == [10] * 24


def _map_sides(page: Page, folder: pathlib.Path) -> list[int]:
    """The lengths of the maps in the details of a page."""
    plots = written(page, folder / "page.html").archive["plots"].values()
    return [len(plot["data"][0]["z"]) for plot in plots if "z" in plot["data"][0]]


# ---- The user's own ----


def test_a_folder_of_runs_and_models_becomes_a_page(tmp_path: pathlib.Path) -> None:

    square = pann.Box(x=(-1, 1), y=(-1, 1))
    exact = lambda x, y: x * y
    problem = pann.Problem(
        square, lambda u, x, y: u.xx + u.yy, [pann.Dirichlet(square.boundary, exact)], exact
    )
    pann.solve(problem, pann.Polynomial(degree=3), out=tmp_path / "mine" / "solved")
    rng = np.random.default_rng(0)
    x = rng.uniform(size=(60, 2))
    regressor = pann.PANNRegressor(degree=2, width=0).fit(x, x[:, 0] * x[:, 1])
    regressor.save(tmp_path / "mine" / "table.pann")
    fitted = pann.fit(2 * x - 1, 2 + x[:, 0], pann.Polynomial(degree=2), domain=square)
    pann.io.save(tmp_path / "mine" / "function.pann", fitted.model)
    (tmp_path / "mine" / "broken.pann").write_bytes(b"no zip")
    made_up_store(tmp_path / "mine" / "store", (experiment_named("norms"),))
    result = run("report", tmp_path / "mine", "--out", tmp_path / "page.html")
    assert result.exit_code == 0, result.output
    text = (tmp_path / "page.html").read_text()
    found = Parsed(text)
    assert found.open == []
    for name in ("solved/solution.pann", "table.pann", "function.pann", "norms", "broken.pann"):
        assert name in text
    assert "The log (" in text
    assert "checkpoint" not in text
    links = {link for link in found.links if link.startswith("#")}
    archive = Written(tmp_path, Page("", "", (), ()), text, found).archive
    assert {link[5:] for link in links if link.startswith("#run-")} == set(archive["details"])
    # Of the solved equation: x y on the diagonal of its map.
    (plot,) = (each for each in archive["plots"].values() if _is_map_of(each, 81))
    drawn = np.array(plot["data"][0]["z"])
    # In 2,000 steps and more from -1 to 1.
    np.testing.assert_allclose(np.diag(drawn), np.linspace(-1, 1, 81) ** 2, atol=5.001e-4)


def _is_map_of(figure: dict[str, Any], side: int) -> bool:
    z = figure["data"][0].get("z", [[]])
    diverges = figure["data"][0].get("zmin", 0) < 0
    return (len(z), len(z[0])) == (side, side) and diverges


def test_runs_of_ones_own_have_means_and_links(tmp_path: pathlib.Path) -> None:
    from pann.report.own import own_page

    store = Store(tmp_path)
    for width in (8, 16):
        row = Row("grid", {"width": width, "kind": "tanh"})
        add_record(store, row, 1.0, {"errors": [0.1 * width, 0.3 * width], "text": "no number"})
    page = own_page(tmp_path)
    part = section(page, "runs-grid-0")
    eight, sixteen = sorted(lines_of(part), key=lambda line: line["width"].order or 0)
    assert eight["errors"].order == pytest.approx(1.6)
    assert sixteen["errors"].order == pytest.approx(3.2)
    assert sixteen["errors"].text == "3.2 ± 1.6"
    assert "text" not in eight
    assert Facts("The same in all runs", [("kind", "tanh")]) in part.blocks
    assert {each.identity for each in page.details} == {eight["run"].run, sixteen["run"].run}


# ---- The command line ----


def test_the_report_of_the_paper_is_one_command(tmp_path: pathlib.Path) -> None:
    store = made_up_store(tmp_path / "runs", (experiment_named("basis_sizes"),))
    out = tmp_path / "page.html"
    result = run("report", "--store", store.folder, "--out", out, "--json")
    assert json.loads(result.stdout) == {"page": str(out), "bytes": out.stat().st_size}
    first = out.read_bytes()
    run("report", "--store", store.folder, "--out", out)
    assert out.read_bytes() == first


@pytest.mark.parametrize(
    "arguments, sentence",
    [
        (["report", "--store", "{}/none"], "has no runs of the paper; run some first"),
        (["report", "--out", "{}/page.pdf"], "the name of a page ends in .htm, .html"),
        (["report", "--out", "{}/none/page.html"], "there is no folder"),
        (["report", "{}/none"], "name a folder with runs or models"),
        (["report", "{}"], "there is nothing to report in"),
    ],
)
def test_what_cannot_be_reported_is_a_sentence(
    arguments: list[str], sentence: str, tmp_path: pathlib.Path
) -> None:
    given = [each.format(tmp_path) for each in arguments]
    if "--out" not in given:
        given += ["--out", str(tmp_path / "page.html")]
    result = run(*given)
    assert result.exit_code == 2
    assert sentence in " ".join(result.stderr.split())
    assert not list(tmp_path.glob("*.html"))


@pytest.mark.parametrize("module", ["jinja2", "plotly", "itables"])
def test_without_the_extra_the_message_has_the_cure(
    module: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    monkeypatch.setitem(sys.modules, module, None)
    result = run("report", tmp_path, "--out", tmp_path / "page.html")
    assert result.exit_code == 2
    assert "pip install 'pann[report]'" in result.stderr


def test_a_disk_that_refuses_leaves_the_old_page(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = Page("title", "lead", (), ())
    write_page(page, tmp_path / "page.html")
    before = (tmp_path / "page.html").read_bytes()

    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pathlib.Path, "write_bytes", refuse)
    with pytest.raises(ValueError, match="no space left on device; check the folder"):
        write_page(dataclasses.replace(page, title="other"), tmp_path / "page.html")
    monkeypatch.undo()
    assert (tmp_path / "page.html").read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == ["page.html"]
    assert "<title>title</title>" in render(page)


# ---- In a browser ----


ABSENT = why_absent()
in_browser = pytest.mark.skipif(ABSENT is not None, reason=str(ABSENT))


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    driver = open_browser()
    yield driver
    driver.quit()


@pytest.fixture
def shown(browser: Any, whole: Written) -> Any:
    """The whole page, wide and light, opened from disk once; whatever it logs is an error."""
    look(browser, 1280)
    if browser.current_url.partition("#")[0] != whole.path.as_uri():
        show(browser, whole.path)
    yield browser
    assert browser.get_log("browser") == []


@in_browser
def test_all_plots_of_the_page_are_drawn(shown: Any) -> None:
    count = shown.execute_script("return document.querySelectorAll('main .plot').length")
    assert count > 60
    shown.execute_script("document.querySelectorAll('main .plot').forEach(draw)")
    until(shown, f"document.querySelectorAll('main .plot .main-svg').length >= {count}")
    empty = shown.execute_script(
        "return [...document.querySelectorAll('main .plot')].filter((each) =>"
        " !each.querySelector('.scatterlayer .trace, .barlayer .trace, .heatmaplayer image,"
        " .contourlayer .contour'))"
        ".map((each) => each.ariaLabel)"
    )
    assert empty == []


@in_browser
def test_plots_come_when_they_are_scrolled_to(shown: Any, whole: Written) -> None:
    show(shown, whole.path)
    drawn = "document.querySelectorAll('#experiment-ks .main-svg').length"
    assert shown.execute_script(f"return {drawn}") == 0
    shown.execute_script("location.hash = '#experiment-ks'")
    until(shown, f"{drawn} > 0")


def arranged(browser: Any, anchor: str) -> None:
    """Go to the table of a section, and wait until it can be sorted."""
    table = f"document.querySelector('#{anchor} table')"
    browser.execute_script(f"{table}.scrollIntoView()")
    until(browser, f"{table}.matches('.dataTable')")


@in_browser
def test_a_table_is_sorted_by_a_click(shown: Any) -> None:
    from selenium.webdriver.common.by import By

    arranged(shown, "experiment-poisson")
    table = shown.find_element(By.CSS_SELECTOR, "#experiment-poisson table")
    headings = [each.text.split("\n")[0] for each in table.find_elements(By.TAG_NAME, "th")]
    column = headings.index("faithful")

    def values() -> list[float]:
        cells = shown.execute_script(
            "return [...arguments[0].tBodies[0].rows]"
            ".map((row) => row.cells[arguments[1]].dataset.order)",
            table,
            column,
        )
        return [float(each) for each in cells if each is not None]

    heading = table.find_elements(By.TAG_NAME, "th")[column]
    assert values() != sorted(values())
    heading.click()
    assert values() == sorted(values())
    assert heading.get_attribute("aria-sort") == "ascending"
    heading.click()
    assert values() == sorted(values(), reverse=True)


@in_browser
def test_a_filter_keeps_the_lines_with_all_its_words(shown: Any, whole: Written) -> None:
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys

    arranged(shown, "experiment-poisson")
    part = shown.find_element(By.ID, "experiment-poisson")
    box = part.find_element(By.CSS_SELECTOR, "input[type=search]")
    lines = "[...document.querySelectorAll('#experiment-poisson tbody tr')]"
    before = shown.execute_script(f"return {lines}.length")
    words = ("disk", "3x100")
    box.send_keys(" ".join(words))
    texts = [
        " ".join(value.text for value in line.values()).lower()
        for line in lines_of(section(whole.page, "experiment-poisson"))
    ]
    left = sum(all(word in text for word in words) for text in texts)
    assert 0 < left < before == len(texts)
    until(shown, f"{lines}.length === {left}")
    assert f"{left} lines of {before}" in part.find_element(By.CLASS_NAME, "dt-info").text
    box.send_keys(Keys.CONTROL, "a")
    box.send_keys(Keys.DELETE)
    until(shown, f"{lines}.length === {before}")


@in_browser
def test_a_cell_leads_to_its_run_and_back(shown: Any, whole: Written) -> None:
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys

    link = shown.find_element(By.CSS_SELECTOR, "#experiment-poisson td a[href^='#run-']")
    identity = link.get_attribute("href").partition("#run-")[2]
    shown.execute_script("arguments[0].scrollIntoView({block: 'center'})", link)
    link.click()
    dialog = shown.find_element(By.ID, "detail")
    assert dialog.is_displayed()
    until(shown, "document.querySelectorAll('#detail .heatmaplayer image').length == 3")
    text = dialog.text
    assert identity in text
    for word in ("Curves", "Solution and halves", "Configuration", "Adam steps", "100,000", "JAX"):
        assert word.lower() in text.lower()
    record = json.loads((whole.path.parent / f"runs/runs/poisson/{identity}.json").read_text())
    assert f"N = {record['configuration']['num_points']:,}" in text
    shown.find_element(By.TAG_NAME, "body").send_keys(Keys.ESCAPE)
    until(shown, "!document.getElementById('detail').open && location.hash === ''")
    # A link to a run opens it at once.
    show(shown, whole.path, f"#run-{identity}")
    until(shown, "document.getElementById('detail').open")
    shown.find_element(By.ID, "close-detail").click()
    until(shown, "!document.getElementById('detail').open")


@in_browser
def test_nothing_is_wider_than_the_screen(shown: Any) -> None:
    overflow = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    shown.execute_script("location.hash = '#experiment-kdv'")
    until(shown, "document.querySelectorAll('#experiment-kdv .main-svg').length > 0")
    for width in (360, 390, 820, 1280):
        look(shown, width)
        until(shown, f"innerWidth === {width}")
        until(shown, f"{overflow} === 0")


@in_browser
def test_dark_and_printed_pages_have_text_one_can_read(shown: Any) -> None:
    """Contrast of text and shades by the formula of WCAG 2, at least 4.5."""
    for dark in (False, True):
        look(shown, 1280, dark=dark)
        until(shown, f"matchMedia('(prefers-color-scheme: dark)').matches === {str(dark).lower()}")
        shades = [f"--{kind}{number}" for kind in ("below", "above") for number in (1, 2, 3)]
        ink = _luminance(_variable(shown, "--ink"))
        for name in ("--paper", "--raised", "--same", *shades):
            behind = _luminance(_variable(shown, name))
            contrast = (max(ink, behind) + 0.05) / (min(ink, behind) + 0.05)
            assert contrast >= 4.5, (name, dark)
    shown.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    assert _luminance(_variable(shown, "--paper")) == 1
    navigation = "return getComputedStyle(document.getElementById('contents')).display"
    assert shown.execute_script(navigation) == "none"
    shown.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})


def _variable(browser: Any, name: str) -> str:
    script = "return getComputedStyle(document.documentElement).getPropertyValue(arguments[0])"
    return browser.execute_script(script, name).strip()


def _luminance(color: str) -> float:
    digits = color.lstrip("#")
    digits = "".join(2 * d for d in digits) if len(digits) == 3 else digits
    parts = [int(digits[k : k + 2], 16) / 255 for k in (0, 2, 4)]
    linear = [p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@in_browser
def test_the_contents_unfold_on_a_phone(shown: Any) -> None:
    from selenium.webdriver.common.by import By

    look(shown, 390)
    contents, button = (shown.find_element(By.ID, each) for each in ("contents", "contents-button"))
    assert not contents.is_displayed()
    button.click()
    assert contents.is_displayed()
    contents.find_element(By.CSS_SELECTOR, "a[href='#deviations']").click()
    until(shown, "location.hash === '#deviations'")
    assert not contents.is_displayed()

"""The published figures are complete, and digit for digit those of the paper's LaTeX source.

Where the source is not at hand those comparisons are skipped, and the counts, grids and rules stay.
"""

import collections
import csv
import itertools
import math
import os
import pathlib
import re
from importlib import resources

import pytest

from pann.basis import make_basis
from pann.domain import Box
from pann.solvers.plan import degree_by_rule
from reproduction import EXHIBITS, degree_of, load, tables, terms_of
from reproduction.published import BOOLEANS, FLOATS, INTEGERS, stored_name

ROOT = pathlib.Path(__file__).parents[1]
PAPER = pathlib.Path(os.environ.get("PAPER_TEX", ROOT.parent / "shared" / "paper" / "paper.tex"))
needs_paper = pytest.mark.skipif(
    not PAPER.is_file(), reason=f"the paper's source is not at {PAPER}; set PAPER_TEX to it"
)

NUMBER = r"\d+(?:\.\d+)?(?:e[-+]?\d+)?"
CELLS = {"poisson": 136, "allen_cahn": 136, "kdv": 136, "ks": 136, "gray_scott": 102}
SHAPES = [("100", "3"), ("50", "3"), ("50", "5")]
STEADY_BASES = ["rff", "gradnorm", "modmlp"]
BASE_LABELS = {"rff": "RFF", "gradnorm": "GradNorm", "modmlp": "ModMLP", "causal": "Causal"}
NO_PRINTED_MEAN = {
    "conventional_high_dimensional": {
        ("Bagging", "3"),
        ("Bayesian ridge", "4"),
        ("Elastic Net", "4"),
        ("k neighbors", "3"),
    }
}
DEGREE_TABLES = {
    "degrees_reproduction": ("reproduction",),
    "degrees_non_smooth": ("non_smooth",),
    "degrees_poisson_allen_cahn": ("poisson", "allen_cahn"),
    "degrees_kdv_ks": ("kdv", "ks"),
    "degrees_gray_scott": ("gray_scott",),
}

Row = dict[str, str]


def read_raw(name: str) -> list[Row]:
    """The file as texts, so that 5.10e-06 stays what it is."""
    path = resources.files("reproduction").joinpath("data", f"{stored_name(name)}.csv")
    return list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))


def keys(name: str, *columns: str) -> list[tuple[str, ...]]:
    return [tuple(row[column] for column in columns) for row in read_raw(name)]


def assert_grid(given: list[tuple[str, ...]], expected: list[tuple[str, ...]]) -> None:
    """Every combination is there, and once."""
    assert collections.Counter(given) == collections.Counter(expected)
    assert len(set(given)) == len(given)


# ---- Complete ----


@pytest.mark.parametrize("name, count", CELLS.items())
def test_the_equations_have_so_many_errors(name: str, count: int) -> None:
    frame = load(name)
    assert len(frame) == count
    assert frame["mean"].notna().sum() == count
    assert frame["deviation"].notna().sum() == count


@pytest.mark.parametrize("name", CELLS)
def test_the_equations_have_every_model_at_every_number_of_points(name: str) -> None:
    is_steady = name in ("poisson", "allen_cahn")
    small, large = {
        "poisson": ("0.003", "0.004"),
        "allen_cahn": ("0.003", "0.004"),
        "kdv": ("0.0002", "0.0004"),
        "ks": ("0.0002", "0.0004"),
        "gray_scott": ("0.001", "0.002"),
    }[name]
    bases = STEADY_BASES if is_steady else [*STEADY_BASES, "causal"]
    models = [("PL", "", "", "", c) for c in (small, large) if is_steady]
    models += [("PINN", "plain", *shape, "") for shape in SHAPES]
    models += [("PANN", "plain", *shape, c) for c in (small, large) for shape in SHAPES]
    models += [("PINN", base, "100", "3", "") for base in bases]
    models += [("PANN", base, "100", "3", small) for base in bases]
    if name == "gray_scott":
        blocks = [("poisson_disk", "u"), ("poisson_disk", "v")]
        sizes = ["8192", "32768", "131072"]
    else:
        blocks = [("equispaced", "u"), ("poisson_disk", "u")]
        sizes = [str(4**power) for power in (range(3, 7) if is_steady else range(4, 8))]
    columns = ("sampling", "field", "model", "base", "width", "depth", "c", "num_points")
    expected = [
        (*block, *model, size) for block, model, size in itertools.product(blocks, models, sizes)
    ]
    assert_grid(keys(name, *columns), expected)
    with_seconds = load(name).dropna(subset=["seconds", "seconds_deviation"])
    assert len(with_seconds) == len(blocks) * len(models)
    assert set(with_seconds["num_points"]) == {int(sizes[-1])}


def test_the_regressions_have_every_row_and_column() -> None:
    activations = ("tanh", "repu", "relu")
    cs, alphas = ("0.001", "0.002", "0.003"), ("2", "1.5", "1")
    methods = [("DNN", each, "") for each in activations]
    methods += [("PANN", each, c) for each in activations for c in cs]
    methods += [(method, "", c) for method in ("PL", "L2") for c in cs]
    assert_grid(
        keys("alpha", "method", "activation", "c", "alpha"),
        [(*method, alpha) for method in methods for alpha in alphas],
    )
    # Constraint H is the one that this table leaves out.
    assert_grid(
        keys("pruning", "activation", "constraint", "part"),
        list(itertools.product(activations, [*"ABCDEFG", "l1", "none"], ("network", "polynomial"))),
    )
    assert_grid(
        keys("housing", "method", "constraint", "activation", "degree", "preconditioner"),
        [
            ("PANN", constraint, activation, "", with_k)
            for constraint in "ABCDEFGH"
            for activation in ("relu", "tanh")
            for with_k in ("False", "True")
        ]
        + [("DNN", "", activation, "", "False") for activation in ("relu", "tanh")]
        + [("PL", "", "", degree, "True") for degree in "246"],
    )


def test_the_conventional_regressors_have_every_row_and_column() -> None:
    sizes = ("64", "256", "1024", "4096", "16384")
    assert_grid(
        keys("conventional_reproduction", "method", "num_points"),
        list(itertools.product(("Bagging", "k neighbors"), sizes)),
    )
    methods = ("Bagging", "gradient boosting", "MLP", "nu-SVR", "SVR", "k neighbors")
    assert_grid(
        keys("conventional_non_smooth", "method", "num_points"),
        list(itertools.product(methods, sizes)),
    )
    methods = ("Bagging", "Bayesian ridge", "Elastic Net", "k neighbors")
    assert_grid(
        keys("conventional_high_dimensional", "method", "dimension"),
        list(itertools.product(methods, "234")),
    )
    assert len(set(keys("conventional_housing", "method"))) == 12


@pytest.mark.parametrize("name", [each for each in tables() if "mean" in read_raw(each)[0]])
def test_every_mean_is_positive_or_said_to_be_missing(name: str) -> None:
    missing = set()
    for row in read_raw(name):
        if row["mean"]:
            assert 0 < float(row["mean"]) < math.inf
        else:
            missing.add(tuple(row.values())[:2])
            assert row["doubt"] == "mean: not printed"
            assert row["deviation"] == ""
    assert missing == NO_PRINTED_MEAN.get(name, set())


def test_only_one_pair_of_percentages_is_missing() -> None:
    frame = load("pruning")
    missing = frame[frame["percent"].isna()]
    assert set(zip(missing["activation"], missing["constraint"], strict=True)) == {("relu", "F")}
    assert missing["doubt"].str.startswith("percent: not printed").all()
    assert frame["percent"].dropna().between(0, 100).all()


@pytest.mark.parametrize("name", tables())
def test_a_loaded_frame_has_the_figures_of_its_file(name: str) -> None:
    raw, frame = read_raw(name), load(name)
    assert list(frame.columns) == list(raw[0])
    assert frame.columns[-1] == "doubt"
    for column in frame.columns:
        if column in INTEGERS | FLOATS:
            assert [row[column] == "" for row in raw] == frame[column].isna().tolist()
        for printed, loaded in zip((row[column] for row in raw), frame[column], strict=True):
            if column in INTEGERS | FLOATS:
                assert frame[column].dtype == ("Int64" if column in INTEGERS else "float64")
                assert printed == "" or loaded == float(printed)
            elif column in BOOLEANS:
                assert loaded == {"True": True, "False": False}[printed]
            else:
                assert loaded == printed


def test_a_mistyped_name_is_told_what_there_is() -> None:
    with pytest.raises(ValueError, match=r"'posson' \(did you mean poisson\?\); there are .*kdv"):
        load("posson")
    assert load("Grey-Scott").equals(load("gray_scott"))


def test_names_of_exhibits_are_unique_and_every_file_is_one_of_theirs() -> None:
    names = [each.name for each in EXHIBITS]
    assert len(set(names)) == len(names)
    files = {each.name for each in resources.files("reproduction").joinpath("data").iterdir()}
    assert {f"{stored_name(name)}.csv" for name in tables()} == {
        each for each in files if each[-4:] == ".csv"
    }
    assert set(tables()) <= set(names)


# ---- Doubts ----


def test_every_doubt_names_a_column() -> None:
    for name in tables():
        for row in read_raw(name):
            for reason in filter(None, row["doubt"].split("; ")):
                assert reason.split(": ")[0] in row, (name, reason)


def doubted(name: str, word: str) -> list[Row]:
    return [row for row in read_raw(name) if word in row["doubt"]]


def test_the_figures_known_to_be_doubtful_are_marked() -> None:
    tenth = doubted("gray_scott", "mean: a tenth")
    assert [row["mean"] for row in tenth] == ["2.32e-02", "2.52e-02"]
    assert {(row["field"], row["c"]) for row in tenth} == {("u", "0.002")}
    swapped = doubted("kdv", "swaps")
    assert [(row["base"], row["mean"]) for row in swapped] == [
        ("rff", "1.05e-01"),
        ("rff", "1.01e-01"),
    ]
    aborted = doubted("allen_cahn", "aborted")
    assert len(aborted) == 16
    assert {float(row["seconds"]) // 1 for row in aborted if row["seconds"]} == {5}
    assert [row["num_terms"] for row in doubted("basis_sizes", "729")] == ["792"]


@pytest.mark.parametrize("name", ["ks", "gray_scott"])
def test_repeated_deviations_are_marked_and_most_are(name: str) -> None:
    rows = read_raw(name)
    times = collections.Counter(row["deviation"] for row in rows)
    for row in rows:
        mark = f"deviation: repeats in {times[row['deviation']]} cells"
        assert (mark in row["doubt"]) == (times[row["deviation"]] > 1)
    assert len(doubted(name, "deviation: repeats")) > 0.8 * len(rows)


@pytest.mark.parametrize("name", CELLS)
def test_a_deviation_that_five_positive_errors_cannot_have_is_marked(name: str) -> None:
    """One error of five that is not 0 has the largest: sqrt(5) times the mean."""
    for row in read_raw(name):
        if float(row["deviation"]) > math.sqrt(5) * float(row["mean"]):
            assert row["doubt"].startswith(("mean: a tenth", "deviation: too large"))
        else:
            assert "too large" not in row["doubt"]


@pytest.mark.parametrize("name", CELLS)
def test_a_constant_read_otherwise_than_printed_is_marked(name: str) -> None:
    for row in read_raw(name):
        if row["c"] != row["c_printed"]:
            assert f"c: printed as {row['c_printed']}" in row["doubt"]


# ---- Rules ----


@pytest.mark.parametrize("name, experiments", DEGREE_TABLES.items())
def test_the_degrees_follow_from_the_rules(name: str, experiments: tuple[str, ...]) -> None:
    exceptions = []
    for experiment, row in itertools.product(experiments, load(name).itertuples()):
        degree = degree_of(experiment, row.c, int(row.num_points))
        if (degree, terms_of(experiment, degree)) != (row.degree, row.num_terms):
            exceptions.append((experiment, row.c, row.num_points))
    assert exceptions == []


@pytest.mark.parametrize("name", CELLS)
def test_the_equations_use_cells_of_the_tables_of_degrees(name: str) -> None:
    (of_degrees,) = [table for table, experiments in DEGREE_TABLES.items() if name in experiments]
    used = {key for key in keys(name, "c", "num_points") if key[0]}
    assert used == set(keys(of_degrees, "c", "num_points"))


def test_the_rule_of_the_solver_is_that_of_the_elliptic_equations() -> None:
    for row in load("degrees_poisson_allen_cahn").itertuples():
        assert degree_by_rule(row.c, int(row.num_points)) == row.degree


def test_the_degree_of_an_experiment_without_a_rule_is_refused() -> None:
    with pytest.raises(ValueError, match="'housing' has no rule for its degree, which is 2"):
        degree_of("housing", 0.001, 15480)
    with pytest.raises(ValueError, match=r"did you mean poisson\?"):
        terms_of("posson", 8)


def test_the_sizes_of_bases_are_ours_but_for_the_misprint() -> None:
    wrong = []
    for row in load("basis_sizes").itertuples():
        basis = make_basis(Box.cube(int(row.dimension)), int(row.degree), index_set=row.index_set)
        if basis.num_terms != row.num_terms:
            wrong.append((row.index_set, row.dimension, row.num_terms, basis.num_terms))
    assert wrong == [("tensor_product", 3, 792, 729)]


# ---- The source ----


def environments() -> dict[str, str]:
    """The text of every table and figure, by each of its labels."""
    text = PAPER.read_text(encoding="utf-8")
    blocks = re.findall(r"\\begin\{(table|figure)\*?\}(.*?)\\end\{\1\*?\}", text, flags=re.DOTALL)
    return {label: block for _, block in blocks for label in re.findall(r"\\label\{(.*?)\}", block)}


def table_lines(name: str) -> list[list[str]]:
    """The cells of every line of the table's tabulars, without LaTeX's commands for looks."""
    (label,) = [each.label for each in EXHIBITS if each.name == name]
    block = environments()[label]
    body = "".join(re.findall(r"\\begin\{tabular\}(.*?)\\end\{tabular\}", block, flags=re.DOTALL))
    body = re.sub(
        r"\\(textbf|mathbf)|\\cellcolor\{\w+\}|\\(top|mid|bottom|h)?(rule|line)", "", body
    )
    body = re.sub(r"\[4pt\]|[{}$]", "", body)
    return [[cell.strip() for cell in line.split("&")] for line in body.split(r"\\")]


def printed_pairs(cells: list[str]) -> list[tuple[str, ...]]:
    """Mean and deviation of every cell that has them: 1.2 (0.1), or 1.2 plus or minus 0.1."""
    pattern = rf"({NUMBER})\s*(?:\\pm\s*({NUMBER})|\(({NUMBER})\))"
    found = [re.fullmatch(pattern, cell) for cell in cells]
    return [(each[1], each[2] or each[3]) for each in found if each]


@needs_paper
def test_the_exhibits_are_all_tables_and_figures_of_the_paper() -> None:
    listed = [each.label for each in EXHIBITS if each.kind != "text"]
    assert sorted(listed) == sorted(environments())
    for each in EXHIBITS:
        assert f"\\label{{{each.label}}}" in PAPER.read_text(encoding="utf-8")


@needs_paper
@pytest.mark.parametrize("name", CELLS)
def test_the_equations_are_those_of_the_source_line_by_line(name: str) -> None:
    """Block, section, label and figures of each line, in order; seconds come last in a line."""
    sampling, field = ("poisson_disk", "u") if name == "gray_scott" else ("equispaced", "u")
    sizes, section, theirs = [], "", []
    for cells in table_lines(name):
        if found := re.findall(r"N\s*=\s*(\d+)", " ".join(cells)):
            sizes = found
        elif heading := re.search(r"\\multicolumn[56]l(.*)", cells[0]):
            section = heading[1]
            sampling = "poisson_disk" if section == "Poisson Disk Points" else sampling
            field = "v" if section == "v Predictions" else field
        elif pairs := printed_pairs(cells):
            assert len(pairs) == len(cells) - 1
            # Allen-Cahn alone prints "PL (c=0.003)" and "w=100, d=3".
            label = re.sub(r"^PL \((.*)\)$", r"\1", cells[0].replace("=", "-"))
            theirs.append((sampling, field, *model_of(section), label, *pairs))
    rows, mine = read_raw(name), []
    for first in range(0, len(rows), len(sizes)):
        line = rows[first : first + len(sizes)]
        assert [row["num_points"] for row in line] == sizes
        pairs = [(row["mean"], row["deviation"]) for row in line]
        pairs += [(line[-1]["seconds"], line[-1]["seconds_deviation"])]
        # Each cell repeats what its line is.
        (identity,) = {
            (row["sampling"], row["field"], row["model"], *label_of(row)) for row in line
        }
        mine.append((*identity, *pairs))
    assert mine == theirs


def model_of(section: str) -> tuple[str, str]:
    """Model, and the c that a heading gives to all of its lines."""
    model = "PINN" if section.startswith("Baselines") else section.split()[0]
    constant = re.search(r"c=([\d.]+)", section)
    return model, constant[1] if constant else ""


def label_of(row: Row) -> tuple[str, str]:
    """The c of the heading, and the line's label."""
    if row["base"] in BASE_LABELS:
        return row["c_printed"], BASE_LABELS[row["base"]]
    parts = {"c": row["c_printed"], "w": row["width"], "d": row["depth"]}
    return "", ", ".join(f"{letter}-{value}" for letter, value in parts.items() if value)


@needs_paper
@pytest.mark.parametrize(
    "name", ["housing", *(each for each in tables() if each.startswith("conventional"))]
)
def test_means_and_deviations_are_those_of_the_source_in_order(name: str) -> None:
    theirs = [pair for cells in table_lines(name) for pair in printed_pairs(cells)]
    mine = []
    for row in read_raw(name):
        mine.append((row["mean"], row["deviation"]))
        if "seconds" in row:
            mine.append((row["seconds"], row["seconds_deviation"]))
    assert [pair for pair in mine if pair[0]] == theirs


@needs_paper
def test_alpha_is_that_of_the_source_in_order() -> None:
    """The projections have no deviation."""
    cells = [cell for line in table_lines("alpha") for cell in line[1:]]
    pattern = rf"({NUMBER})(?: \(({NUMBER})\))?"
    theirs = [each.groups(default="") for cell in cells if (each := re.fullmatch(pattern, cell))]
    assert keys("alpha", "mean", "deviation") == theirs


@needs_paper
def test_pruning_is_that_of_the_source_in_order() -> None:
    cells = [cell for line in table_lines("pruning") for cell in line[1:]]
    theirs = []
    for cell in cells:
        if found := re.fullmatch(rf"({NUMBER})/({NUMBER})", cell):
            theirs += found.groups()
        elif cell == "---":
            theirs += ["", ""]
    assert [row["percent"] for row in read_raw("pruning")] == theirs


@needs_paper
@pytest.mark.parametrize("name", DEGREE_TABLES)
def test_degrees_are_those_of_the_source_in_order(name: str) -> None:
    lines = [[c for c in cells[1:] if c.isdigit()] for cells in table_lines(name)]
    theirs = [line for line in lines if line]
    mine = [[row[each] for row in read_raw(name)] for each in ("num_points", "degree", "num_terms")]
    assert mine == theirs
    printed = re.findall(r"c=([\d.]+)", " ".join(itertools.chain(*table_lines(name))))
    assert list(dict.fromkeys(row["c"] for row in read_raw(name))) == printed


@needs_paper
def test_sizes_of_bases_are_those_of_the_source_in_order() -> None:
    theirs = re.findall(r"\((\d), (\d+)\)", environments()["fig:basisgen"])
    assert keys("basis_sizes", "dimension", "num_terms") == theirs


@needs_paper
def test_darcy_is_in_the_section_on_limits() -> None:
    text = PAPER.read_text(encoding="utf-8")
    section = text.split(r"\label{sec:limitations}")[1].split(r"\section{")[0]
    assert [row["mean"] for row in read_raw("darcy")] == re.findall(r"\$(\d\.\de-\d)\$", section)
    weights = re.findall(r"lambda_c=([\d.]+)", section)
    assert [row["constraint_weight"] for row in read_raw("darcy")] == ["", *weights]


@needs_paper
@pytest.mark.parametrize(
    "name, cell, text",
    [
        (
            "poisson",
            {"model": "PL", "c": "0.003", "sampling": "equispaced", "num_points": "64"},
            "82.447 (10.33)",
        ),
        (
            "poisson",
            {"model": "PANN", "base": "modmlp", "sampling": "poisson_disk", "num_points": "4096"},
            "5.02e-06 (2.00e-07)",
        ),
        (
            "allen_cahn",
            {"model": "PL", "c": "0.003", "sampling": "equispaced", "num_points": "64"},
            "1.99e+00 (3.40e-01)",
        ),
        (
            "allen_cahn",
            {"model": "PANN", "base": "modmlp", "sampling": "poisson_disk", "num_points": "4096"},
            "6.94e-02 (3.02e-03)",
        ),
        (
            "kdv",
            {
                "model": "PINN",
                "base": "plain",
                "width": "100",
                "sampling": "equispaced",
                "num_points": "256",
            },
            "6.89e-01 (8.94e-03)",
        ),
        (
            "kdv",
            {"model": "PANN", "base": "causal", "sampling": "poisson_disk", "num_points": "16384"},
            "2.41e-01 (6.88e-02)",
        ),
        (
            "ks",
            {
                "model": "PANN",
                "base": "plain",
                "width": "100",
                "c": "0.0004",
                "sampling": "poisson_disk",
                "num_points": "16384",
            },
            "6.95e-01 (9.85e-02)",
        ),
        (
            "ks",
            {"model": "PANN", "base": "causal", "sampling": "poisson_disk", "num_points": "16384"},
            "6.31e-01 (1.04e-01)",
        ),
        (
            "gray_scott",
            {"model": "PINN", "base": "plain", "width": "100", "field": "u", "num_points": "8192"},
            "3.88e-01 (1.86e-01)",
        ),
        (
            "gray_scott",
            {"model": "PANN", "base": "causal", "field": "v", "num_points": "131072"},
            "3.20e-01 (1.53e-01)",
        ),
        (
            "alpha",
            {"method": "PANN", "activation": "relu", "c": "0.003", "alpha": "1"},
            "0.069718 (0.000611)",
        ),
        (
            "housing",
            {"constraint": "E", "activation": "relu", "preconditioner": "True"},
            r"0.2118\pm0.005",
        ),
        ("conventional_housing", {"method": "k neighbors"}, r"0.255\pm0.001"),
        (
            "conventional_reproduction",
            {"method": "k neighbors", "num_points": "64"},
            r"1.064\pm0.000",
        ),
        (
            "conventional_non_smooth",
            {"method": "Bagging", "num_points": "64"},
            r"1.190\pm0.220",
        ),
        (
            "conventional_high_dimensional",
            {"method": "k neighbors", "dimension": "4"},
            r"0.479\pm0.035",
        ),
    ],
)
def test_cells_looked_up_by_hand(name: str, cell: Row, text: str) -> None:
    (row,) = [row for row in read_raw(name) if cell.items() <= row.items()]
    mean, deviation = row["mean"], row["deviation"]
    assert text in (f"{mean} ({deviation})", rf"{mean}\pm{deviation}")
    assert any(text in line_cell for line in table_lines(name) for line_cell in line)

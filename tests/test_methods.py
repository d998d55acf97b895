"""Methods as data: options are checked, described, typed and stored by their fields alone."""

import dataclasses
import inspect
import json

import numpy as np
import pytest
from typer.testing import CliRunner

import pann
from pann.cli.grid import read_grid
from pann.cli.options import choose_method, solve_parameters, with_parameters
from pann.methods import (
    METHODS,
    OF_VERB,
    RunOptions,
    flat_options,
    given_options,
    method_description,
    method_from_description,
    method_named,
)
from pann.methods.options import Real, Whole, check_options, documented, option
from pann.training import Adam

LINE = pann.Box(x=(0.0, 1.0))


def poisson() -> pann.Problem:
    return pann.Problem(
        LINE, lambda u, x: u.xx + 2.0, [pann.Dirichlet(LINE.boundary)], exact=lambda x: x * (1 - x)
    )


def test_the_verbs_have_at_most_ten_parameters_besides_what_and_how():
    for verb, what in (
        (pann.fit, ("points", "values", "method")),
        (pann.solve, ("problem", "method")),
    ):
        names = list(inspect.signature(verb).parameters)
        assert tuple(names[: len(what)]) == what
        assert len(names) - len(what) <= 10


@pytest.mark.parametrize("verb", ["fit", "solve"])
def test_options_of_a_run_are_parameters_of_the_verb(verb):
    parameters = inspect.signature(getattr(pann, verb)).parameters
    for name, each in flat_options(RunOptions, verb).items():
        assert parameters[name].default == each.default


@pytest.mark.parametrize("name", METHODS)
def test_every_option_is_documented_and_has_one_name(name):
    owner = METHODS[name]
    for option_name, each in flat_options(owner).items():
        assert each.help
        assert f"{option_name} : " in owner.__doc__ or each.name not in vars(owner)
    fields = [field.name for field in dataclasses.fields(owner)]
    groups = [each for each in fields if dataclasses.is_dataclass(getattr(owner(), each))]
    inner = [n for g in groups for n in given_names(getattr(owner(), g))]
    assert len(set(fields) | set(inner)) == len(fields) + len(inner)


def given_names(group: object) -> list[str]:
    return [field.name for field in dataclasses.fields(group)]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "make, sentence",
    [
        (lambda: pann.Polynomial(degree=-1), "degree must be a whole number of at least 0"),
        (lambda: pann.Polynomial(degree=2.5), "got 2.5"),
        (lambda: pann.Polynomial(degree=True), "got True"),
        (lambda: pann.Polynomial(degree=3, c=0.1), "both give the degree"),
        (lambda: pann.Hybrid(network=8), r"network must be MLP\(...\), got 8"),
        (lambda: pann.MLP(activation="tahn"), "did you mean tanh"),
        (lambda: pann.MLP(width=(8, 0)), "one of at least 1 for each layer"),
        (lambda: pann.MLP(width=0), r"use pann.Polynomial\(...\)"),
        (lambda: pann.MLP(width=(8, 8), depth=3), "depth=3 has no effect"),
        (lambda: pann.MLP(dropout=1.0), "a number of at least 0 below 1, got 1.0"),
        (lambda: pann.Products(degree=None), "next to a polynomial; give a degree"),
        (lambda: pann.Windows(windows=0), "windows must be a whole number of at least 1"),
        (lambda: pann.Windows(modes={"x": 0}), "modes must be"),
        (lambda: pann.Training(stages=(1,)), "it contains 1"),
        (lambda: pann.Training(weighting=("causal", "causal")), "given twice"),
        (lambda: pann.Training(constraint="Z"), "there is no constraint 'Z'"),
        (lambda: pann.Collocation(sampling="sobl"), "did you mean sobol"),
        (
            lambda: pann.Collocation(condition_weight=0),
            "condition_weight must be a positive number",
        ),
    ],
)
def test_a_wrong_option_is_one_sentence(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make()


def test_an_option_that_a_method_does_not_have_cannot_be_given():
    with pytest.raises(TypeError, match="width"):
        pann.Polynomial(width=3)


@pytest.mark.parametrize(
    "work, sentence",
    [
        (lambda: pann.solve(poisson(), pann.Hybrid(constraint="none")), "is an option for data"),
        (lambda: pann.solve(poisson(), pann.Training(network=pann.MLP(dropout=0.5))), "dropout"),
        (
            lambda: pann.solve(poisson(), pann.Training(constraint_weight=0.1)),
            "constraint_weight=0.1 has no effect without a constraint",
        ),
        (
            lambda: pann.fit([0.0, 1.0], [1.0, 2.0], pann.Hybrid(network=pann.MLP(gated=True))),
            r"gated layers are fitted to data by gradients; use pann.Training\(...\)",
        ),
        (
            lambda: pann.fit([0.0, 1.0], [1.0, 2.0], pann.Polynomial(axes=("x",))),
            "is an option for equations",
        ),
        (
            lambda: pann.fit(
                [0.0, 1.0], [1.0, 2.0], pann.Hybrid(collocation=pann.Collocation(points=9))
            ),
            "points=9 is an option for equations",
        ),
    ],
)
def test_an_option_of_the_other_verb_is_refused(work, sentence):
    with pytest.raises(ValueError, match=sentence):
        work()


def test_a_method_prints_as_it_is_typed():
    method = pann.Hybrid(degree=21, network=pann.MLP(width=24))
    assert repr(method) == "Hybrid(degree=21, network=MLP(width=24))"
    assert eval(repr(method), vars(pann)) == method
    assert repr(pann.Training.paper()) == "Training(constraint='E', preconditioner=True)"


def test_flat_options_make_the_method():
    made = method_named("hybrid", {"degree": 3, "width": [8, 8], "points": 50}, "solve")
    assert made == pann.Hybrid(
        degree=3, network=pann.MLP(width=(8, 8)), collocation=pann.Collocation(points=50)
    )
    assert given_options(made) == {"degree": 3, "width": (8, 8), "points": 50}
    with pytest.raises(ValueError, match="there is no option of Polynomial 'width'"):
        method_named("polynomial", {"width": 8}, "solve")
    with pytest.raises(ValueError, match=r"there is no method 'window'.*did you mean windows"):
        method_named("window", {}, "solve")
    assert method_named("paper", {"constraint": "none"}, "fit").preconditioner


def test_where_no_method_is_named_one_with_all_options_is_meant():
    assert choose_method(None, {}, "solve") is None
    assert choose_method(None, {"degree": 3}, "solve") == pann.Hybrid(degree=3)
    assert choose_method(None, {"modes": 8}, "solve") == pann.Windows(modes=8)
    with pytest.raises(ValueError, match="no method has all of these options: modes of windows"):
        choose_method(None, {"modes": 8, "width": 3}, "solve")


def test_the_solution_says_its_method_and_it_can_be_run_again():
    chosen = pann.solve(poisson())
    assert isinstance(chosen.method, pann.Polynomial)
    assert chosen.method.degree == chosen.report.degree
    again = pann.solve(poisson(), chosen.method)
    x = np.linspace(0, 1, 7)
    np.testing.assert_allclose(again(x=x), chosen(x=x), atol=1e-13)
    assert again.method == chosen.method


def test_the_fit_says_its_method_and_it_can_be_run_again():
    x = np.linspace(-1, 1, 60)
    first = pann.fit(x, np.exp(x), pann.Polynomial())
    assert first.method == pann.Polynomial(degree=8)
    again = pann.fit(x, np.exp(x), first.method)
    np.testing.assert_array_equal(again(x), first(x))


@pytest.mark.parametrize(
    "method",
    [
        pann.Polynomial(degree=4, axes=("x",)),
        pann.Hybrid(degree=3, network=pann.MLP(width=(3, 2), activation=pann.RePU(3), embedding=4)),
        pann.Training.paper(weighting=("gradnorm",), collocation=pann.Collocation(points=9)),
        pann.Training(stages=(Adam(3, pann.Cosine(0.1)), pann.LBFGS(2), pann.Prune(1e-3))),
        pann.Windows(modes={"x": 8}, tail=1e-6),
        pann.Products(degree=2),
    ],
    ids=repr,
)
def test_a_method_is_the_same_after_a_file(method):
    written = json.loads(json.dumps(method_description(method)))
    assert method_from_description(written, "the method") == method


def test_a_method_with_arrays_is_not_written():
    assert method_description(pann.Polynomial(basis=pann.make_basis(LINE, 2))) is None


@pytest.mark.parametrize(
    "value",
    [
        3,
        {},
        {"method": "none", "options": {}},
        {"method": "hybrid", "options": {"degree": -1}},
        {"method": "hybrid", "options": {"degree": {"type": "os.system", "command": "true"}}},
        {"method": "paper", "options": {"stages": [{"type": "Adam", "no": 1}]}},
    ],
    ids=repr,
)
def test_a_broken_description_is_refused(value):
    with pytest.raises(pann.FileError, match="the method is not the description of a method"):
        method_from_description(value, "the method")


# ---- Adding an option is one edit ----


@documented
@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class Shooting:
    """A method that this test adds."""

    degree: int = option(4, "degree of each arc", Whole(1))
    bend: float = option(0.5, "how far an arc may turn", Real(above=0.0))

    def __post_init__(self) -> None:
        check_options(self)


@pytest.fixture
def shooting(monkeypatch):
    monkeypatch.setitem(METHODS, "shooting", Shooting)
    monkeypatch.setitem(OF_VERB, "solve", (*OF_VERB["solve"], "shooting"))


@pytest.mark.usefixtures("shooting")
def test_a_field_is_an_option_everywhere(tmp_path):
    assert "bend : a positive number, default 0.5" in Shooting.__doc__
    assert "How far an arc may turn." in Shooting.__doc__
    import typer

    seen = {}

    def command(problem: str, **typed: object) -> None:
        seen.update(typed)

    app = typer.Typer()
    app.command()(with_parameters(solve_parameters)(command))
    shown = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "200"})
    assert "--bend" in shown.stdout
    assert "How far an arc may turn." in shown.stdout
    CliRunner().invoke(app, ["poisson", "--bend", "0.25"])
    assert seen["bend"] == "0.25"
    assert choose_method(None, {"bend": 0.25}, "solve") == Shooting(bend=0.25)
    grid = tmp_path / "grid.toml"
    grid.write_text('solve = "poisson"\n[fixed]\nmethod = "shooting"\n[grid]\nbend = [0.1, 0.2]\n')
    assert [row.configuration["bend"] for row in read_grid(grid).rows] == [0.1, 0.2]
    grid.write_text('solve = "poisson"\n[fixed]\nmethod = "shooting"\nbend = -1\n')
    with pytest.raises(ValueError, match="bend must be a positive number, got -1"):
        read_grid(grid)
    grid.write_text('solve = "poisson"\n[fixed]\nmethod = "polynomial"\nbend = 1\n')
    with pytest.raises(ValueError, match="there is no option of Polynomial 'bend'"):
        read_grid(grid)


def test_stages_are_kept_as_given():
    assert pann.Training(stages=[Adam(3)]).stages == (Adam(3),)

"""The command line: what is typed, what is shown, and errors as one sentence."""

import contextlib
import difflib
import json
import pathlib
import sys
import warnings
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console

app = typer.Typer(
    help="Polynomial-augmented neural networks: fit tables of data, predict, look inside.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_show_locals=False,
)

WRONG, INTERRUPTED = 2, 130
HOW = {
    "polynomial": "ridge regression",
    "second order": "Levenberg-Marquardt on a small tanh network",
    "gradient": "minibatch Adam on a network that sees ranks of the features",
    "as asked": "the recipe asked for",
}

Json = Annotated[bool, typer.Option("--json", help="Print JSON, one object a line.")]


@contextlib.contextmanager
def _plainly() -> Iterator[None]:
    """What a user can mend is told in one sentence; a bug keeps its traceback."""
    import jax

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        _tell(f"warning: {message}")

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", UserWarning)
            warnings.showwarning = show
            yield
    except KeyboardInterrupt:
        _fail("stopped", INTERRUPTED)
    except BrokenPipeError:  # `| head` has seen enough
        raise
    except MemoryError as error:
        _fail(f"out of memory ({error}); use fewer rows or a lower degree")
    except jax.errors.JaxRuntimeError as error:
        if "RESOURCE_EXHAUSTED" not in str(error):
            raise
        _fail("out of memory on the device; use fewer rows, a lower degree or a smaller network")
    except OSError as error:
        where = "" if error.filename is None else f" '{error.filename}'"
        _fail(f"cannot read or write{where}: {(error.strerror or str(error)).lower()}")
    except ValueError as error:
        _fail(str(error))


def _fail(sentence: str, code: int = WRONG) -> NoReturn:
    _tell(sentence)
    raise typer.Exit(code)


def _tell(sentence: str) -> None:
    typer.echo(_printable(f"pann: {' '.join(sentence.split())}"), err=True)


def _printable(text: str) -> str:
    """Names come from files: no control characters for the terminal."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def _show(report: dict[str, Any], lines: Sequence[str], *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(report, allow_nan=False))
        return
    for line in lines:
        print(_printable(line))


def _print_version(wanted: bool) -> bool:
    if wanted:
        version()
        raise typer.Exit
    return wanted


@app.callback()
def main(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    pass  # the help is that of `app`


# ---- Tables ----


@app.command()
def fit(
    data: Annotated[pathlib.Path, typer.Argument(help="A .csv, .csv.gz, .tsv or .parquet file.")],
    target: Annotated[
        list[str],
        typer.Option("--target", "-t", help="Column to predict; repeat it, or use commas."),
    ],
    drop: Annotated[
        list[str] | None, typer.Option("--drop", help="Column to leave out; repeat it.")
    ] = None,
    out: Annotated[
        pathlib.Path | None,
        typer.Option("--out", "-o", help="Model file (default: the table's name, with .pann)."),
    ] = None,
    degree: Annotated[str, typer.Option(help="Polynomial: number, auto or none.")] = "auto",
    width: Annotated[
        str, typer.Option(help="Units of a hidden layer: a number (0: no network), auto, or 64,32.")
    ] = "auto",
    depth: Annotated[int, typer.Option(min=1, help="Hidden layers, if width is a number.")] = 3,
    activation: Annotated[str, typer.Option(help="auto, tanh, relu, repu or sin.")] = "auto",
    constraint: Annotated[
        str, typer.Option(help="Between the halves: auto, none, A to H, l1 or exact.")
    ] = "auto",
    recipe: Annotated[str, typer.Option(help="Training: auto, default or paper.")] = "auto",
    trials: Annotated[int, typer.Option(min=1, help="Networks whose mean predicts.")] = 1,
    precision: Annotated[str, typer.Option(help="auto, float64 or float32.")] = "auto",
    memory: Annotated[str, typer.Option(help="For the polynomial; bounds its degree.")] = "2GB",
    test_fraction: Annotated[
        float, typer.Option(help="Share of the rows kept from the fit to test it; 0 for none.")
    ] = 0.1,
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="For all random choices.")] = 0,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only tell sizes, memory and rough time.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Fit a model to a table, test it on rows kept aside, and write it to a .pann file."""
    with _plainly():
        options = _options(degree, width, activation, constraint, recipe, precision)
        options |= {"depth": depth, "trials": trials, "memory": memory, "random_state": seed}
        from pann import table_commands

        source = table_commands.Source(data, target, drop or [], test_fraction, seed)
        if dry_run:
            report = table_commands.plan_fit(source, options)
            _show(report, _plan_lines(report), as_json=as_json)
        else:
            report = table_commands.fit_file(source, options | {"verbose": True}, out)
            _show(report, _fit_lines(report), as_json=as_json)


@app.command()
def predict(
    model: Annotated[pathlib.Path, typer.Argument(help="A .pann file that `pann fit` wrote.")],
    data: Annotated[pathlib.Path, typer.Argument(help="A table with the model's features.")],
    out: Annotated[
        pathlib.Path | None,
        typer.Option("--out", "-o", help="CSV file to write (default: to the screen)."),
    ] = None,
    std: Annotated[
        bool, typer.Option("--std", help="Also the deviation of the trials, if there are some.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Predict the rows of a table; columns are found by their names, others are ignored."""
    with _plainly():
        from pann import table_commands, tables

        if out is not None:
            tables.check_writable(out)
            for given in (model, data):
                if out.exists() and given.exists() and out.samefile(given):
                    raise ValueError(f"'{out}' is read and cannot be written; name another file")
        frame = table_commands.predict_file(model, data, std=std)
        if out is not None:
            tables.write_csv(out, frame)
            names = list(frame.columns)
            report = {"command": "predict", "model": str(model), "rows": len(frame)}
            report |= {"columns": names, "file": str(out)}
            line = f"written   {out} ({len(frame):,} rows of {', '.join(names)})"
            _show(report, [line], as_json=as_json)
        elif as_json:
            for row in frame.to_dict("records"):
                print(json.dumps(row, allow_nan=False))
        else:
            frame.to_csv(sys.stdout, index=False, lineterminator="\n")
            # Here, so that a closed pipe is noticed while it can be told.
            sys.stdout.flush()


@app.command()
def info(
    model: Annotated[pathlib.Path, typer.Argument(help="A .pann file that `pann fit` wrote.")],
    as_json: Json = False,
) -> None:
    """Tell what a .pann file holds: features, how it was trained, its error, leading terms."""
    with _plainly():
        from pann import table_commands

        report = table_commands.describe_file(model)
        _show(report, _info_lines(report), as_json=as_json)


def _options(
    degree: str, width: str, activation: str, constraint: str, recipe: str, precision: str
) -> dict[str, Any]:
    """The parameters of `PANNRegressor` that are typed as words."""
    from pann.architecture import PRECISIONS
    from pann.loss import CONSTRAINT_NAMES
    from pann.network.activations import ACTIVATIONS
    from pann.training.recipes import NAMES

    if degree == "none" and width == "0":
        raise ValueError("--degree none and --width 0 leave nothing to fit; give one of them")
    return {
        "degree": None if degree == "none" else _number("degree", degree, "auto or none"),
        "width": _widths(width),
        "activation": _choice("activation", activation, ("auto", *ACTIVATIONS)),
        "constraint": _choice("constraint", constraint, ("auto", *CONSTRAINT_NAMES)),
        "recipe": _choice("recipe", recipe, ("auto", *NAMES)),
        "precision": _choice("precision", precision, ("auto", *PRECISIONS)),
    }


def _number(option: str, text: str, words: str) -> int | str:
    if text == "auto":
        return text
    if not text.isdecimal():
        raise ValueError(f"--{option} is a number of at least 0, {words}, got '{text}'")
    return int(text)


def _widths(text: str) -> int | tuple[int, ...] | str:
    if "," not in text:
        return _number("width", text, "auto or one a layer such as 64,32")
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and int(part) > 0 for part in parts):
        raise ValueError(f"--width has one number of at least 1 a layer, as in 64,32, got '{text}'")
    return tuple(int(part) for part in parts)


def _choice(option: str, given: str, choices: Sequence[str]) -> str:
    if given not in choices:
        lower = {choice.lower(): choice for choice in choices}
        close = difflib.get_close_matches(given.lower(), lower, 1)
        meant = f" (did you mean {lower[close[0]]}?)" if close else ""
        raise ValueError(f"there is no {option} '{given}'{meant}; choose from {', '.join(choices)}")
    return given


# ---- What is shown ----


def _fit_lines(report: dict[str, Any]) -> list[str]:
    lines = [*_size_lines(report), _how_line("chosen", report), _model_line(report)]
    for target, errors in report["by_target"].items():
        name = f"{target}: " if len(report["targets"]) > 1 else ""
        figures = {"R2": errors["r2"], "RMSE": errors["rmse"], "relative l2": errors["rel_l2"]}
        lines.append(
            f"test      {name}{', '.join(f'{k} {_figure(v)}' for k, v in figures.items())}"
        )
    if report["share_network"] is not None:
        lines.append(
            f"shares    network {report['share_network']:.1%}, polynomial "
            f"{report['share_polynomial']:.1%} of the prediction's variance"
        )
    lines += _term_lines(report)
    lines.append(f"time      {_duration(report['seconds'])}")
    left_out = ", not to those of the test" if report["rows_held_out"] else ""
    lines.append(f"written   {report['file']} (fitted to {report['rows_fitted']:,} rows{left_out})")
    return lines


def _plan_lines(report: dict[str, Any]) -> list[str]:
    lines = _size_lines(report)
    for way in report["ways"]:
        layers = "-".join(str(width) for width in way["widths"])
        network = f"network {layers}" if layers else "no network"
        lines.append(
            f"try       {way['how']}: degree {way['degree']}, {way['terms']:,} polynomial terms, "
            f"{network}; about {_duration(max(way['seconds'], 1.0))}"
        )
    return [
        *lines,
        f"memory    about {max(report['bytes'] / 2**20, 1):,.0f} MiB besides the table and JAX",
        f"time      about {_duration(report['seconds'])} on two CPU cores, a rough guess",
        "nothing was trained or written (--dry-run)",
    ]


def _info_lines(report: dict[str, Any]) -> list[str]:
    width = max(len(feature["name"]) for feature in report["features"])
    lines = [
        f"{report['file']}: a regressor, written by pann {report['pann_version']} (file format "
        f"{report['format_version']})",
        f"target    {', '.join(report['targets'])}",
        f"features  {len(report['features'])}, with their range in training",
        *(
            f"  {feature['name']:{width}}  {feature['low']:.6g} to {feature['high']:.6g}"
            for feature in report["features"]
        ),
        _how_line("trained", report),
        _model_line(report),
    ]
    if report["held_out_error"] is not None:
        lines.append(
            f"error     RMSE {_figure(report['held_out_error'])} on rows that training held out to "
            "choose by"
        )
    if report["options"]:
        given = ", ".join(f"{name}={value}" for name, value in report["options"].items())
        lines.append(f"options   {given}")
    return lines + _term_lines(report)


def _size_lines(report: dict[str, Any]) -> list[str]:
    num_features = len(report["features"])
    features = f"{num_features} feature{'s' if num_features > 1 else ''}"
    return [
        f"table     {report['rows']:,} rows, {features}, target {', '.join(report['targets'])}",
        f"rows      {report['rows_fitted']:,} to fit, {report['rows_held_out']:,} to test",
    ]


def _how_line(title: str, report: dict[str, Any]) -> str:
    return f"{title:10}{report['how']}: {HOW.get(report['how'], report['how'])}"


def _model_line(report: dict[str, Any]) -> str:
    terms, units, trials = report["terms"], report["units"], report["trials"]
    polynomial = (
        f"degree {report['degree']}, {terms:,} polynomial terms" if terms else "no polynomial"
    )
    network = f"{units:,} units in the last layer" if units else "no network"
    return f"model     {polynomial}, {network}" + (f", {trials} trials" if trials > 1 else "")


def _term_lines(report: dict[str, Any]) -> list[str]:
    lines = ["terms     the leading ones, in features scaled to [-1, 1]:"]
    for term in report["leading_terms"]:
        signed = [f"{coefficient:+.3g}" for coefficient in term["coefficients"]]
        factor = signed[0] if len(signed) == 1 else f"({', '.join(signed)})"
        lines.append(f"  {factor}" if term["term"] == "1" else f"  {factor} * {term['term']}")
    return lines


def _figure(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.4g}"


def _duration(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 100 else f"{seconds / 60:,.0f} min"


# ---- The rest ----


@app.command()
def demo(
    out: Annotated[pathlib.Path, typer.Option(help="Folder for the figure.")] = pathlib.Path("out"),
) -> None:
    """Fit the paper's non-smooth function five ways; print a table and draw a figure."""
    with _plainly():
        from pann import demo as demonstration

        demonstration.run(out, Console())


@app.command()
def recipes() -> None:
    """Print the named training recipes."""
    from pann.training import PAPER, Sizes, default_recipe, describe

    console = Console(highlight=False, soft_wrap=True)
    console.print("paper =", describe(PAPER))
    for title, sizes in {
        "default, small network": Sizes(4_096, 253, 1_296),
        "default, large network": Sizes(500_000, 253, 100_000),
        "default, no network": Sizes(4_096, 253, 0),
    }.items():
        recipe, why = default_recipe(sizes)
        console.print(f"\n{title} ({why}) =", describe(recipe))


@app.command()
def version() -> None:
    """Print the version."""
    import pann

    print(pann.__version__)

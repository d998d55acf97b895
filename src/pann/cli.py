"""The command line."""

import pathlib
from typing import Annotated

import typer
from rich.console import Console

app = typer.Typer(
    help="Polynomial-augmented neural networks.", no_args_is_help=True, add_completion=False
)


@app.command()
def demo(
    out: Annotated[pathlib.Path, typer.Option(help="Folder for the figure.")] = pathlib.Path("out"),
) -> None:
    """Fit the paper's non-smooth function five ways; print a table and draw a figure."""
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

"""What all commands have in common: reports as text or JSON, and errors as one sentence."""

import contextlib
import json
import warnings
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, NoReturn

import typer

from pann.runtime.atomic import reason

WRONG, INTERRUPTED = 2, 130

STOPPED_SOLVE = "stopped; with --out DIR the work so far is kept, and --resume continues it"
STOPPED_SWEEP = "stopped; finished runs are in the store, and the same command does the rest"

Json = Annotated[bool, typer.Option("--json", help="Print JSON, one object per line.")]


@contextlib.contextmanager
def plainly(stopped: str = STOPPED_SOLVE) -> Iterator[None]:
    """Errors that a user can correct and Ctrl-C become one sentence; a bug keeps its traceback."""
    import jax

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        tell(f"warning: {message}")

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", UserWarning)
            warnings.showwarning = show
            yield
    except KeyboardInterrupt:
        fail(stopped, INTERRUPTED)
    except BrokenPipeError:  # `| head` has seen enough
        raise
    except MemoryError as error:
        fail(f"out of memory ({error}); use fewer rows or a lower degree")
    except jax.errors.JaxRuntimeError as error:
        if "RESOURCE_EXHAUSTED" not in str(error):
            raise
        fail("out of memory on the device; use fewer rows, a lower degree or a smaller network")
    except OSError as error:
        where = "" if error.filename is None else f" '{error.filename}'"
        fail(f"cannot read or write{where}: {reason(error)}")
    except ValueError as error:
        fail(str(error))


def fail(sentence: str, code: int = WRONG) -> NoReturn:
    tell(sentence)
    raise typer.Exit(code)


def tell(sentence: str) -> None:
    typer.echo(printable(f"pann: {' '.join(sentence.split())}"), err=True)


def printable(text: str) -> str:
    """Without control characters: names come from files, and could write to the terminal."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def show_report(report: dict[str, Any], lines: Sequence[str], *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(report, allow_nan=False))
        return
    for line in lines:
        print(printable(line))

"""A problem by its name, or from a Python file of the user, whose errors name its line."""

import contextlib
import pathlib
import sys
import traceback
from collections.abc import Iterator
from typing import Any

from pann.pde import Problem
from pann.problems import problem_named

SUFFIX = ".py"
NAME = "problem"


@contextlib.contextmanager
def opened(given: str, *, faithful: bool = False) -> Iterator[Problem]:
    """The problem of a name, `faithful` to the paper or not, or of a path. A file is executed.

    An error from the file is a ValueError that names its line, also inside the block: residuals
    and values are called only when the problem is solved.
    """
    path = pathlib.Path(given)
    if path.suffix != SUFFIX:
        yield problem_named(given, faithful=faithful)
        return
    if faithful:
        raise ValueError(f"faithful is for the paper's problems; '{given}' is a file of your own")
    if not path.is_file():
        raise ValueError(f"there is no file '{given}'; it should define {NAME} = pann.Problem(...)")
    with _errors_by_line(given), _importing_from(path.parent):
        yield _executed(path, given)


def _executed(path: pathlib.Path, given: str) -> Problem:
    namespace: dict[str, Any] = {"__name__": path.stem, "__file__": given}
    exec(compile(path.read_bytes(), given, "exec"), namespace)
    problem = namespace.get(NAME)
    if not isinstance(problem, Problem):
        found = f"has a {NAME} that is a {type(problem).__name__}"
        raise ValueError(
            f"'{given}' {found if NAME in namespace else f'defines no {NAME}'}; "
            f"write {NAME} = pann.Problem(...) in it"
        )
    return problem


@contextlib.contextmanager
def _importing_from(folder: pathlib.Path) -> Iterator[None]:
    """Files in the same folder can be imported, as when Python runs a file."""
    sys.path.insert(0, str(folder.resolve()))
    try:
        yield
    finally:
        sys.path.remove(str(folder.resolve()))


@contextlib.contextmanager
def _errors_by_line(given: str) -> Iterator[None]:
    try:
        yield
    except (Exception, SystemExit) as raised:
        cause: BaseException | None = raised
        while cause is not None and (line := _line(cause, given)) is None:
            cause = cause.__cause__
        if cause is None:
            raise
        # JAX explains its errors at length; what went wrong comes first.
        what = str(cause.msg if isinstance(cause, SyntaxError) else cause).strip().split("\n")[0]
        kind = type(cause).__name__
        raise ValueError(
            f"line {line} of '{given}': {kind}{': ' if what else ''}{what}"
        ) from raised


def _line(error: BaseException, given: str) -> int | None:
    """The last line of the file that the error went through, if any."""
    if isinstance(error, SyntaxError) and error.filename == given:
        return error.lineno
    frames = traceback.walk_tb(error.__traceback__)
    lines = [line for frame, line in frames if frame.f_code.co_filename == given]
    return lines[-1] if lines else None

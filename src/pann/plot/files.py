"""Pictures as files: a name that can be written, and all at once or not at all."""

import contextlib
import os
import pathlib
import secrets
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DOTS_PER_INCH = 130


def check_picture(path: str | os.PathLike[str]) -> None:
    """Find out before the work whether a picture can have this name."""
    from matplotlib.backend_bases import FigureCanvasBase

    check_name(path, FigureCanvasBase.get_supported_filetypes(), what="a picture")


def check_name(path: str | os.PathLike[str], formats: Iterable[str], *, what: str) -> None:
    """Refuse names with another ending, folders, and names in folders that are not there."""
    file = pathlib.Path(path)
    formats = sorted(formats)
    if file.is_dir():
        raise ValueError(f"'{file}' is a folder; name a file in it")
    if file.suffix[1:].lower() not in formats:
        raise ValueError(f"the name of {what} ends in .{', .'.join(formats)}, got '{file}'")
    if not file.parent.is_dir():
        raise ValueError(f"there is no folder '{file.parent}' to write to; create it first")


def write_picture(figure: "Figure", path: str | os.PathLike[str]) -> None:
    """Write a figure in the format that the name ends in."""
    write_at_once(path, lambda temporary: figure.savefig(temporary, dpi=DOTS_PER_INCH))


def write_at_once(path: str | os.PathLike[str], save: Callable[[str], None]) -> None:
    """Let `save` write a file beside the path and put it in its place; what fails leaves nothing.

    The temporary name has the ending of the path.
    """
    target = os.path.realpath(path)  # a link stays a link, and what it points to is replaced
    ending = pathlib.Path(path).suffix
    temporary = os.path.join(os.path.dirname(target), f".pann-{secrets.token_hex(8)}{ending}")
    try:
        save(temporary)
        os.replace(temporary, target)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise ValueError(
            f"cannot write '{os.fspath(path)}': {reason}; check the folder, its permissions and "
            "the space on its disk"
        ) from error
    finally:
        with contextlib.suppress(OSError):
            os.unlink(temporary)

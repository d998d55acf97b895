"""Pictures as files: names are checked before the work, and files are written atomically."""

import os
import pathlib
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from pann.runtime.atomic import write_atomically

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DOTS_PER_INCH = 130


def check_picture(path: str | os.PathLike[str]) -> None:
    """Refuse a name that a picture cannot have."""
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
    """`write_atomically` under a temporary name with the ending of the path."""
    write_atomically(path, save, suffix=pathlib.Path(path).suffix)

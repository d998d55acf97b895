"""Pictures as files: names are checked before the work, and files are written atomically."""

import os
import pathlib
from collections.abc import Iterable
from typing import TYPE_CHECKING

from pann.runtime.atomic import check_writable, write_atomically

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DOTS_PER_INCH = 130


def check_picture(path: str | os.PathLike[str]) -> None:
    """Refuse a name that a picture cannot have."""
    from matplotlib.backend_bases import FigureCanvasBase

    check_name(path, FigureCanvasBase.get_supported_filetypes(), what="a picture")


def check_name(path: str | os.PathLike[str], formats: Iterable[str], *, what: str) -> None:
    """Refuse names with another ending, and places where no file can be written."""
    file = pathlib.Path(path)
    formats = sorted(formats)
    if file.suffix[1:].lower() not in formats and not file.is_dir():
        raise ValueError(f"the name of {what} ends in .{', .'.join(formats)}, got '{file}'")
    check_writable(file)


def write_picture(figure: "Figure", path: str | os.PathLike[str]) -> None:
    """Write a figure in the format that the name ends in."""
    save = lambda temporary: figure.savefig(temporary, dpi=DOTS_PER_INCH)
    write_atomically(path, save, suffix=pathlib.Path(path).suffix)

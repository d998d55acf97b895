"""Files that appear as a whole or not at all, and folders that are checked before the work.

A file is written under a temporary name in the folder where it will lie and then renamed, which
file systems do in one step: a reader sees the old file or the whole new one, never half of one.
"""

import contextlib
import math
import os
import pathlib
import secrets
import tempfile
from collections.abc import Callable, Iterator

from pann.errors import FileError

# What a writer leaves that was killed is called so.
TEMPORARY = ".pann-{}.tmp"


@contextlib.contextmanager
def temporary_file(folder: str | os.PathLike[str], name: str = TEMPORARY) -> Iterator[pathlib.Path]:
    """The path of a file that does not outlive the block, unless it is renamed."""
    path = pathlib.Path(folder, name.format(secrets.token_hex(8)))
    try:
        yield path
    finally:
        with contextlib.suppress(OSError):
            path.unlink()


def write_atomically(
    path: str | os.PathLike[str], write: Callable[[str], object], *, suffix: str = ".tmp"
) -> None:
    """Let `write` create the file of a temporary name, and put that file in the place of `path`.

    Whatever fails leaves the old file and no other. A link stays a link: the file it points to is
    replaced. `suffix` ends the temporary name, for writers that choose a format by it.
    """
    target = os.path.realpath(path)
    name = TEMPORARY.removesuffix(".tmp") + suffix
    with disk_errors(path), temporary_file(os.path.dirname(target), name) as temporary:
        write(str(temporary))
        # Without it a crash of the machine could leave the new name with nothing in it.
        with open(temporary, "rb+") as file:
            os.fsync(file.fileno())
        os.replace(temporary, target)


def remove_leftovers(folder: str | os.PathLike[str], before: float = math.inf) -> None:
    """Remove what writers that were killed left in a folder, as far as it is that old."""
    for path in pathlib.Path(folder).glob(TEMPORARY.format("*")):
        with contextlib.suppress(OSError):
            if path.stat().st_mtime < before:
                path.unlink()


def check_writable(path: str | os.PathLike[str]) -> None:
    """Find out before the work whether a file can be written there."""
    file = pathlib.Path(path)
    if file.is_dir():
        raise FileError(f"'{file}' is a folder; name a file in it")
    check_folder(file.parent)


def check_folder(folder: str | os.PathLike[str], *, create: bool = False) -> pathlib.Path:
    """The folder, if files can be created in it; `create` makes it where there is none."""
    folder = pathlib.Path(folder)
    try:
        if create:
            folder.mkdir(parents=True, exist_ok=True)
        elif not folder.is_dir():
            raise FileError(f"there is no folder '{folder}' to write to; create it first")
        with tempfile.TemporaryFile(dir=folder):
            pass
    except (FileExistsError, NotADirectoryError):
        raise FileError(f"'{folder}' is a file, not a folder; name another folder") from None
    except OSError as error:
        raise FileError(f"cannot write to the folder '{folder}': {reason(error)}") from error
    return folder


@contextlib.contextmanager
def disk_errors(path: str | os.PathLike[str]) -> Iterator[None]:
    """Turn whatever the disk refuses into one sentence with its cure."""
    try:
        yield
    except OSError as error:
        raise FileError(
            f"cannot write {os.fspath(path)!r}: {reason(error)}; check the folder, its "
            "permissions and the space on its disk"
        ) from error


def reason(error: OSError) -> str:
    """Why the system refused, without its number."""
    return (error.strerror or str(error)).lower()

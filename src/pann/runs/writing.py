"""Files that appear and disappear at once, whoever else is at work in the same folder."""

import contextlib
import errno
import os
import pathlib
import secrets
from collections.abc import Callable, Iterator

from pann.io import FileError

_TEMPORARY = ".pann-", ".tmp"
# What a file system says that has no hard links.
_NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS}


@contextlib.contextmanager
def writing_to(path: pathlib.Path) -> Iterator[None]:
    """Whatever the disk refuses becomes one sentence."""
    try:
        yield
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise FileError(
            f"cannot write '{path}': {reason}; check the folder, its permissions and the space on "
            "its disk"
        ) from error


def temporary_path(folder: pathlib.Path) -> pathlib.Path:
    return folder / f"{_TEMPORARY[0]}{secrets.token_hex(8)}{_TEMPORARY[1]}"


def create_once(path: pathlib.Path, content: bytes) -> bool:
    """Create a file that is complete as soon as it is there; False if there is one already."""
    temporary = temporary_path(path.parent)
    try:
        with temporary.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        return _link(temporary, path)
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()


def _link(source: pathlib.Path, target: pathlib.Path) -> bool:
    """Give a file a second name, unless the name is taken."""
    try:
        os.link(source, target)
    except FileExistsError:
        # Over a network a link may be made and its confirmation lost; the second try finds it.
        return source.stat().st_nlink > 1
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        try:
            target.open("xb").close()  # takes the name, if only for an empty file
        except FileExistsError:
            return False
        os.replace(source, target)
    return True


def remove_if(path: pathlib.Path, is_meant: Callable[[pathlib.Path], bool]) -> bool:
    """Remove a file if it still is the one that is meant; of several who try one succeeds.

    A look followed by a removal could remove what came between. A file that was moved away first
    is nobody else's; if it is not the one, it gets its name back.
    """
    moved = temporary_path(path.parent)
    try:
        os.rename(path, moved)
    except FileNotFoundError:
        return False
    try:
        meant = is_meant(moved)
        if not meant:
            _link(moved, path)
        return meant
    finally:
        with contextlib.suppress(OSError):
            moved.unlink()


@contextlib.contextmanager
def alone(folder: pathlib.Path, name: str) -> Iterator[bool]:
    """Yield whether nobody else is within this of that name; who is killed there is a leftover."""
    lock = folder / f"{_TEMPORARY[0]}{name}{_TEMPORARY[1]}"
    try:
        lock.open("xb").close()
    except FileExistsError:
        yield False
        return
    try:
        yield True
    finally:
        with contextlib.suppress(OSError):
            lock.unlink()


def clock(folder: pathlib.Path) -> float:
    """The time by the clock that stamps the files of a folder, which may be another machine's."""
    probe = temporary_path(folder)
    try:
        probe.open("xb").close()
        return probe.stat().st_mtime
    finally:
        with contextlib.suppress(OSError):
            probe.unlink()


def remove_leftovers(folder: pathlib.Path, age: float) -> None:
    """Remove what killed writers left; what is younger may be in the hands of a living one."""
    now = clock(folder)
    before, after = _TEMPORARY
    for path in folder.glob(f"{before}*{after}"):
        with contextlib.suppress(OSError):
            if now - path.stat().st_mtime > age:
                path.unlink()

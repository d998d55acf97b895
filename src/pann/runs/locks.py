"""Claims: which process runs a row, kept as small files that change under one lock.

The owner of a claim touches its file four times per lifetime. A claim that was not touched for a
lifetime has lost its owner and may be taken over; so may, at once, the claim of a process of this
machine that has ended. Ages are measured against a file touched now in the same folder, so the
clocks of several hosts do not matter.

Every change of a claim or of a record takes milliseconds and happens under a `filelock.FileLock`.
A lock of `filelock` is not the claim itself, because three guarantees would be lost. A lock of the
operating system belongs to a living process, but a row must also be taken from a worker that a
scheduler has given up and that may still live. A lease of `filelock` is taken over only by one that
watched it for its whole duration, but a sweep that starts later must see at once that a claim is
old. And where locks do not reach other hosts (some network file systems), creating the claim file
exclusively still gives a row to one process.
"""

import contextlib
import dataclasses
import datetime
import functools
import json
import os
import pathlib
import secrets
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

from filelock import FileLock

from pann.io import FileError
from pann.runtime.atomic import disk_errors

LIFETIME = 600.0  # seconds
LOCK_NAME = ".lock"
_LOCK_SECONDS = 60.0  # to wait for the lock, which is held for milliseconds
_BEATS = 4  # per lifetime
_RELEASE_SECONDS = 1.0  # between attempts to release a claim on a disk that refuses


@dataclasses.dataclass(frozen=True)
class Claim:
    """The right to run one row, which lasts while the file holds the token."""

    path: pathlib.Path
    token: str
    claims: "Claims"

    def create(self) -> bool:
        """Create the file under the lock; False if there is one already."""
        content = {
            "token": self.token,
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "machine": machine(),
            "lifetime": self.claims.lifetime,
            "taken": datetime.datetime.now(datetime.UTC).isoformat(),
        }
        try:
            file = self.path.open("x", encoding="ascii")
        except FileExistsError:
            return False
        try:
            with file:
                json.dump(content, file)
        except BaseException:  # a full disk, or an interrupt: half a claim would be nobody's
            self.path.unlink(missing_ok=True)
            raise
        return True

    def is_held(self) -> bool:
        return _read(self.path).get("token") == self.token

    def confirm(self) -> bool:
        """Whether the claim still holds, under the lock; a file deleted by hand is made again."""
        return self.is_held() or self.create()

    def renew(self) -> bool:
        """Touch the file; False if the claim is now another's."""
        with self.claims.locked():
            if self.path.exists() and not self.is_held():
                return False
            with contextlib.suppress(FileNotFoundError):
                os.utime(self.path)
            return True

    def release(self) -> bool:
        """Give the row back; False if the disk refuses. A claim that is another's is left alone."""
        try:
            self.claims.revoke(self.path.stem, self.token)
        except FileError:
            return False
        return True

    @contextlib.contextmanager
    def kept(self) -> Iterator[None]:
        """Renew the claim regularly, and release it at the end."""
        stop = threading.Event()

        def renew_until_stopped() -> None:
            while not stop.wait(self.claims.lifetime / _BEATS):
                # A disk that does not answer now may answer the next time.
                with contextlib.suppress(OSError):
                    if not self.renew():
                        return

        def release_when_possible() -> None:
            end = time.monotonic() + self.claims.lifetime
            while not self.release() and time.monotonic() < end:
                time.sleep(_RELEASE_SECONDS)

        thread = threading.Thread(target=renew_until_stopped, name="claim", daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()
            if not self.release():
                threading.Thread(target=release_when_possible, daemon=True).start()


@dataclasses.dataclass(frozen=True)
class Claims:
    """The claims in one folder."""

    folder: pathlib.Path
    lifetime: float = LIFETIME

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the lock under which claims and records change; it is not reentrant."""
        self.folder.mkdir(parents=True, exist_ok=True)
        # Writable for all who may write to the folder.
        lock = FileLock(self.folder / LOCK_NAME, mode=0o666)
        with lock.acquire(_LOCK_SECONDS, poll_interval=0.01):
            yield

    def of(self, identity: str, token: str) -> Claim:
        """The claim with this token, whether it holds or not."""
        return Claim(self.folder / f"{identity}.json", token, self)

    def take(self, identity: str, token: str | None = None) -> Claim | None:
        """Claim a row, also from an owner that has ended; None if a living one has it."""
        claim = self.of(identity, token or secrets.token_hex(8))
        with disk_errors(claim.path), self.locked():
            if claim.path.exists() and self._is_over(claim.path):
                claim.path.unlink()
            return claim if claim.create() else None

    def revoke(self, identity: str, tokens: str) -> None:
        """Remove a claim whose token begins so: its owner ends, or is known to be given up."""
        path = self.folder / f"{identity}.json"
        with disk_errors(path):
            # Without the lock at first: most often there is nothing to remove.
            if path.exists():
                with self.locked():
                    if str(_read(path).get("token") or "").startswith(tokens):
                        path.unlink()

    def _is_over(self, path: pathlib.Path) -> bool:
        content = _read(path)
        is_here = machine() is not None and content.get("machine") == machine()
        if is_here and not _is_running(content.get("pid")):
            return True
        lifetime = content.get("lifetime")
        promised = lifetime if isinstance(lifetime, int | float) else self.lifetime
        return clock(self.folder) - path.stat().st_mtime > promised


def _read(path: pathlib.Path) -> dict[str, Any]:
    """The content of a claim; nothing if it is missing or damaged, and its age alone counts."""
    try:
        content = json.loads(path.read_bytes())
    except (FileNotFoundError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def clock(folder: pathlib.Path) -> float:
    """The time by the clock that stamps the files of a folder, perhaps another machine's."""
    lock = folder / LOCK_NAME
    lock.touch()
    return lock.stat().st_mtime


@functools.cache
def machine() -> str | None:
    """Where process numbers are comparable: the host, its boot, and the process namespace."""
    try:
        boot = pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{socket.gethostname()} {boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:  # not Linux: the lifetime alone counts
        return None


def _is_running(pid: Any) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, TypeError, OverflowError):  # another user's process, or no number at all
        return True
    return True

"""Claims: who is at work on a row; they expire, so that nobody waits for the dead.

A claim is a file that its owner touches four times in its lifetime. One that is older has lost its
owner and may be taken; so may, at once, one whose process on this very machine is no more. Ages
are told from a file touched now in the same folder: the clocks of several hosts do not matter.
Tokens "sweep.process" are those of processes with one parent, who sees to the dead among them: what
killed one of them is not taken up by the next.
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

from pann.runs.writing import alone, clock, create_once, remove_if, writing_to

LIFETIME = 600.0  # seconds
_BEATS = 4  # in a lifetime
_RELEASE_SECONDS = 1.0  # between tries to release a claim on a disk that refuses


@dataclasses.dataclass(frozen=True)
class Seen:
    """A claim as it was found; two that differ in time or token are two claims."""

    time: float
    content: dict[str, Any]

    @property
    def token(self) -> str | None:
        return self.content.get("token")


@dataclasses.dataclass(frozen=True)
class Claim:
    """The right to run one row, which lasts while the file holds the token."""

    path: pathlib.Path
    token: str
    lifetime: float = LIFETIME

    def create(self) -> bool:
        content = {
            "token": self.token,
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "machine": _machine(),
            "lifetime": self.lifetime,
            "taken": datetime.datetime.now(datetime.UTC).isoformat(),
        }
        return create_once(self.path, json.dumps(content).encode("ascii"))

    def is_held(self) -> bool:
        return self._is_at(self.path)

    def confirm(self) -> bool:
        """Whether the claim still holds; one that someone deleted is taken anew."""
        with writing_to(self.path):
            return self.is_held() or self.create()

    def release(self) -> bool:
        """Give the row back, which a disk may refuse; a claim that is another's is left alone."""
        try:
            if self.is_held():
                remove_if(self.path, self._is_at)
        except OSError:
            return False
        return True

    def _release_when_possible(self) -> None:
        """For a disk that can be written to again before the claim expires by itself."""
        end = time.monotonic() + self.lifetime
        while not self.release() and time.monotonic() < end:
            time.sleep(_RELEASE_SECONDS)

    def _is_at(self, path: pathlib.Path) -> bool:
        seen = look(path)
        return seen is not None and seen.token == self.token

    @contextlib.contextmanager
    def kept(self) -> Iterator[None]:
        """Keep the claim alive meanwhile, and release it in the end, however that comes."""
        stop = threading.Event()

        def beat() -> None:
            while not stop.wait(self.lifetime / _BEATS):
                # A disk that does not answer now may do so at the next beat.
                with contextlib.suppress(OSError):
                    seen = look(self.path)
                    if seen is not None and seen.token != self.token:
                        return
                    os.utime(self.path)

        thread = threading.Thread(target=beat, name="claim", daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()
            if not self.release():
                threading.Thread(target=self._release_when_possible, daemon=True).start()


@dataclasses.dataclass(frozen=True)
class Claims:
    """The claims in one folder."""

    folder: pathlib.Path
    lifetime: float = LIFETIME

    def of(self, identity: str, token: str) -> Claim:
        """The claim as its owner sees it, whether it holds or not."""
        return Claim(self.folder / f"{identity}.json", token, self.lifetime)

    def take(self, identity: str, token: str | None = None) -> Claim | None:
        """Claim a row, from a dead owner if need be; None if a living one has it."""
        claim = self.of(identity, token or secrets.token_hex(8))
        with writing_to(claim.path):
            self.folder.mkdir(parents=True, exist_ok=True)
            if claim.create():
                return claim
            seen = look(claim.path)
            if seen is not None and not self._is_over(seen, claim.token):
                return None
            # One thief at a time: what is moved away to be looked at is missing meanwhile, and a
            # third one would take the claim that a second has just made.
            with alone(self.folder, identity) as is_alone:
                if not is_alone:
                    return None
                if seen is not None and look(claim.path) == seen:
                    remove_if(claim.path, lambda moved: look(moved) == seen)
                return claim if claim.create() else None

    def take_from_dead(self, identity: str, tokens: str) -> None:
        """Remove a claim whose token begins so: the caller knows that its owner is given up."""
        path = self.folder / f"{identity}.json"

        def is_meant(path: pathlib.Path) -> bool:
            seen = look(path)
            return seen is not None and (seen.token or "").startswith(tokens)

        with writing_to(path):
            if is_meant(path):
                remove_if(path, is_meant)

    def _is_over(self, seen: Seen, token: str) -> bool:
        content = seen.content
        pid, machine = content.get("pid"), content.get("machine")
        is_mourned = _are_siblings(seen.token, token)
        if machine is not None and machine == _machine() and not (is_mourned or _is_running(pid)):
            return True
        lifetime = content.get("lifetime")
        promised = lifetime if isinstance(lifetime, int | float) else self.lifetime
        return clock(self.folder) - seen.time > promised


def _are_siblings(token: str | None, other: str) -> bool:
    sweep = other.rpartition(".")[0]
    return bool(sweep) and (token or "").rpartition(".")[0] == sweep


def look(path: pathlib.Path) -> Seen | None:
    """The claim at a path; one that cannot be read has no token, and its time alone counts."""
    try:
        with path.open("rb") as file:
            time, text = os.fstat(file.fileno()).st_mtime, file.read()
    except FileNotFoundError:
        return None
    try:
        content = json.loads(text)
    except ValueError:
        content = None
    return Seen(time, content if isinstance(content, dict) else {})


@functools.cache
def _machine() -> str | None:
    """What tells whether process numbers mean the same: the boot, and the space they count in."""
    try:
        boot = pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{socket.gethostname()} {boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:  # not Linux: there the lifetime alone counts
        return None


def _is_running(pid: Any) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, TypeError, OverflowError):  # another user's, or no number at all
        return True
    return True

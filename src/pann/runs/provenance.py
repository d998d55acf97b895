"""Where a result comes from: versions, device, host, and the state of the code."""

import functools
import os
import pathlib
import platform
import socket
import subprocess
from typing import Any

from pann.io.container import version_of

_PACKAGE = pathlib.Path(__file__).resolve().parent.parent
_GIT_SECONDS = 30.0


@functools.cache
def provenance() -> dict[str, Any]:
    """What all runs of a process share; called before the first of them."""
    return {
        "versions": {
            "pann": version_of("pann"),
            "jax": version_of("jax"),
            "python": platform.python_version(),
        },
        "git": _git_state(),
        "host": socket.gethostname(),
    }


def device_kind() -> str | None:
    """What JAX computes on; called after a run, so that nothing is initialized before it."""
    try:
        import jax

        return jax.devices()[0].device_kind
    except Exception:  # a device that fails must not cost the result
        return None


def _git_state() -> dict[str, Any] | None:
    """The commit of the package's code and whether files differ; None if git does not track it."""
    # Installed in a virtual environment, the package may lie in a checkout of something else.
    if _git("ls-files", "--error-unmatch", "__init__.py") is None:
        return None
    commit, changes = _git("rev-parse", "HEAD"), _git("status", "--porcelain", "--", ".")
    if commit is None or changes is None:
        return None
    return {"commit": commit.strip(), "dirty": bool(changes.strip())}


def _git(*arguments: str) -> str | None:
    """The output of git in the package's folder; None if it is missing or refuses."""
    # In a hook of git these point to the checkout that is being committed to.
    environment = {name: value for name, value in os.environ.items() if name[:4] != "GIT_"}
    try:
        return subprocess.run(
            ["git", "--no-optional-locks", *arguments],
            cwd=_PACKAGE,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=True,
            timeout=_GIT_SECONDS,
        ).stdout
    except (OSError, ValueError, subprocess.SubprocessError):
        return None

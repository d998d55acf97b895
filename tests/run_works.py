"""Works for tests of `pann.runs`, in a file that other processes import quickly."""

import os
import signal
import time

import numpy as np

from pann.runs import Result


def square(configuration, folder):
    return Result({"square": configuration["x"] ** 2})


def noted(configuration, folder):
    """Add a line to a file, so that it can be told how often every row was run."""
    with open(configuration["notes"], "a") as file:
        file.write(f"{configuration['x']}\n")
    try:
        time.sleep(configuration.get("seconds", 0.0))
    except KeyboardInterrupt:
        (folder / "checkpoint").write_text("half-way")
        raise
    if configuration.get("kill"):
        os.kill(os.getpid(), signal.SIGKILL)
    if configuration.get("leave"):
        os._exit(0)
    array = np.full(configuration.get("length", 3), configuration["x"], float)
    figures = {"square": configuration["x"] ** 2, "process": os.getpid()}
    return Result(figures, {"array": array})

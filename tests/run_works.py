"""Works for tests of `pann.runs`, in a file that other processes import quickly."""

import os
import signal
import time

import numpy as np

from pann.runs import Result


def square(configuration, folder):
    return Result({"square": configuration["x"] ** 2})


def noted(configuration, folder):
    """Add a line to a file, which shows how often every row was run."""
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


def several(configurations, folder):
    """Note how many rows came together, and give what `noted` gives for each of them."""
    first = configurations[0]
    with open(first["notes"], "a") as file:
        file.write(f"{len(configurations)} as one\n")
    if len(configurations) > first.get("most", 16):
        raise RuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 12345 bytes")
    if first.get("broken"):
        raise ValueError("these rows are not alike")
    if first.get("interrupted") and not (folder / "checkpoint").exists():
        (folder / "checkpoint").write_text("half-way")
        raise KeyboardInterrupt
    if len(configurations) > first.get("most_alive", 16):
        os.kill(os.getpid(), signal.SIGKILL)
    return [
        Result(
            {"square": each["x"] ** 2, "process": os.getpid()},
            {"array": np.full(3, each["x"], float)},
        )
        for each in configurations
    ]


def room_for_three(configuration):
    return 3


def no_room(configuration):
    raise OSError("the device does not answer")

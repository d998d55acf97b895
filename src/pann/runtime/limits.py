"""A time limit and Ctrl-C for a run that reports its progress: both end it with its result so far.

A run stops where it reports. `limited` wraps its report callback; once the time is up, or Ctrl-C
was pressed, every further report raises `Stopped`. Code that has a usable result catches it.
"""

import contextlib
import dataclasses
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import numpy as np


@dataclasses.dataclass(frozen=True)
class Progress:
    """The argument of a report: what is being done, how far it is, and the latest figures."""

    what: str
    step: int
    num_steps: int
    figures: dict[str, float]


Report = Callable[[Progress], None]


class Stopped(Exception):
    """Raised by a report: the run is to end with its result so far. The message says why.

    `by_user` is True for Ctrl-C: without a usable result, raise KeyboardInterrupt instead.
    """

    def __init__(self, why: str, *, by_user: bool = False):
        super().__init__(why)
        self.by_user = by_user


@contextlib.contextmanager
def limited(
    report: Callable[[Any], None],
    time_limit: float | int | None = None,
    *,
    ctrl_c: bool = True,
) -> Iterator[Callable[[Any], None]]:
    """Yield a report callback that calls `report`, and raises `Stopped` when the run is to end.

    The clock starts here; `time_limit` is in seconds. The first Ctrl-C after the first report stops
    the run at its next report; a second one, or one before any report, is a KeyboardInterrupt.
    `ctrl_c=False` leaves KeyboardInterrupt alone, for programs that make many runs.
    """
    start = time.monotonic()
    has_reported = is_interrupted = False

    def limited_report(progress: Any) -> None:
        nonlocal has_reported, is_interrupted
        has_reported = True
        try:
            report(progress)
        except KeyboardInterrupt:  # from a callback of the user's, or another handler of Ctrl-C
            if not ctrl_c:
                raise
            is_interrupted = True
        if is_interrupted:
            raise Stopped("Ctrl-C", by_user=True)
        if time_limit is not None and time.monotonic() - start >= time_limit:
            raise Stopped(f"the time limit of {time_limit:g} s")

    def interrupt(signal_number: int, frame: FrameType | None) -> None:
        nonlocal is_interrupted
        if is_interrupted or not has_reported:
            raise KeyboardInterrupt
        is_interrupted = True
        print(
            "\npann: stopping at the next report with its result; Ctrl-C again stops at once",
            file=sys.stderr,
        )

    # Unless the program handles it itself.
    is_ours = ctrl_c and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    with ctrl_c_handled(interrupt) if is_ours else contextlib.nullcontext():
        yield limited_report


def product_rate(size: int = 400) -> float:
    """Floating-point operations per second of a matrix product, measured in milliseconds."""
    matrix = np.random.default_rng(0).normal(size=(size, size))
    begin = time.perf_counter()
    _ = matrix @ matrix
    return 2 * size**3 / max(time.perf_counter() - begin, 1e-6)


@contextlib.contextmanager
def ctrl_c_handled(
    handler: Callable[[int, FrameType | None], None] | signal.Handlers,
) -> Iterator[None]:
    """Handle Ctrl-C so, where this is the main thread of the program."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.SIG_DFL if before is None else before)

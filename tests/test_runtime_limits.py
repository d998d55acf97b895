"""A time limit and Ctrl-C end a run with what it has; progress is shown where somebody looks."""

import contextlib
import io
import signal
import sys
import threading
import time

import jaxtyping
import numpy as np
import pytest

import pann
from pann.methods import RunOptions
from pann.regression.fit import Data, fit_run
from pann.runtime.limits import Progress, Stopped, limited
from pann.runtime.progress import display, progress_line, supervised

STEP = Progress("Adam", 5, 10, {"data": 0.125})
X = np.random.default_rng(0).uniform(-1, 1, (60, 2))
Y = np.exp(X[:, 0]) * np.abs(X[:, 1])
SQUARE = pann.Box.cube(2)
NETWORK = pann.MLP(width=4, depth=1)
POLYNOMIAL, HYBRID = pann.Polynomial(degree=2), pann.Hybrid(degree=2, network=NETWORK)


# ---- The limits alone ----


def test_reports_pass_through_until_the_time_is_up(monkeypatch):
    now, seen = [100.0], []
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    with limited(seen.append, 2) as report:
        report(1)
        now[0] = 101.9
        report(2)
        now[0] = 102.0
        for _ in range(2):  # and again: whoever goes on is stopped again
            with pytest.raises(Stopped, match="the time limit of 2 s") as caught:
                report(3)
    assert seen == [1, 2, 3, 3]
    assert not caught.value.by_user


def test_ctrl_c_stops_at_the_next_report_and_the_second_at_once(capsys):
    with limited(lambda progress: None) as report:
        report(1)
        signal.raise_signal(signal.SIGINT)
        assert "Ctrl-C again stops at once" in capsys.readouterr().err
        with pytest.raises(Stopped, match="Ctrl-C") as caught:
            report(2)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert caught.value.by_user
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_ctrl_c_before_any_report_is_a_keyboard_interrupt():
    with pytest.raises(KeyboardInterrupt), limited(lambda progress: None):
        signal.raise_signal(signal.SIGINT)


def test_a_program_may_keep_ctrl_c_to_itself():
    with limited(lambda progress: None, ctrl_c=False) as report:
        report(1)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


def test_a_handler_of_the_users_stays(monkeypatch):
    pressed = []
    before = signal.signal(signal.SIGINT, lambda *_: pressed.append(1))
    try:
        with limited(lambda progress: None) as report:
            report(1)
            signal.raise_signal(signal.SIGINT)
            report(2)
    finally:
        signal.signal(signal.SIGINT, before)
    assert pressed == [1]


def test_limits_work_in_a_thread_that_gets_no_signals():
    seen = []

    def work():
        with limited(seen.append, 60) as report:
            report(1)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [1]


# ---- What is shown ----


class Stream(io.TextIOWrapper):
    """A stream of text in memory, on a terminal or not."""

    name, mode = "memory", "w"  # all that typing.IO has

    def __init__(self, *, is_terminal: bool):
        super().__init__(io.BytesIO(), encoding="utf-8", newline="")
        self.is_terminal = is_terminal

    def isatty(self) -> bool:
        return self.is_terminal

    def text(self) -> str:
        self.flush()
        return self.buffer.getvalue().decode()


@pytest.mark.parametrize(
    "progress, is_terminal, shown",
    [
        (None, False, False),
        (None, True, True),
        (True, False, True),
        (True, True, True),
        (False, True, False),
    ],
)
def test_progress_is_shown_on_a_terminal_or_where_asked_for(
    monkeypatch, progress, is_terminal, shown
):
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", Stream(is_terminal=is_terminal))
    with display("fit", progress) as report:
        report(STEP)
    assert ("Adam" in sys.stderr.text()) == shown
    assert ("1.25e-01" in sys.stderr.text()) == shown


@pytest.fixture
def unchecked():
    """Turn off the checks of types that only the tests have: users meet the errors behind them."""
    before = jaxtyping.config.jaxtyping_disable
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", before)


def test_a_function_gets_every_progress_and_nothing_else_is_accepted(unchecked):
    seen = []
    with supervised("fit", seen.append) as report:
        report(STEP)
    assert seen == [STEP]
    with pytest.raises(ValueError, match="True, False, None or a function"), display("fit", "yes"):
        pass


def test_a_line_in_a_notebook_is_written_over_and_a_log_gets_one_per_stage(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    written = {in_place: Stream(is_terminal=False) for in_place in (True, False)}
    with contextlib.ExitStack() as stack:
        enter = lambda in_place: stack.enter_context(
            progress_line("fit", written[in_place], in_place=in_place)
        )
        lines = [enter(in_place) for in_place in written]
        for seconds, what in ((0, "Adam"), (1, "Adam"), (2, "LBFGS"), (20, "LBFGS")):
            now[0] = float(seconds)
            for line in lines:
                line(Progress(what, seconds, 30, {}))
    assert [line.split()[1:] for line in written[False].text().splitlines()] == [
        ["Adam", "0/30"],
        ["LBFGS", "2/30"],
        ["LBFGS", "20/30"],
    ]
    assert written[True].text().count("\r") == 4
    assert written[True].text().endswith("\n")


# ---- pann.fit ----


@pytest.mark.parametrize("wrong", [0, -1, float("nan"), float("inf"), True])
def test_a_wrong_time_limit_is_refused(unchecked, wrong):
    with pytest.raises(ValueError, match="time_limit must be a positive number, got"):
        pann.fit(X, Y, POLYNOMIAL, time_limit=wrong)


def training(*stages: pann.training.Stage) -> pann.Training:
    return pann.Training(stages=stages, degree=2, network=NETWORK)


def stopping_clock(monkeypatch, at: int) -> list[Progress]:
    """Let the time be up at the report with this number; the reports are returned."""
    seen: list[Progress] = []
    monkeypatch.setattr(
        "pann.runtime.limits.time.monotonic", lambda: 1e6 * (len(seen) >= at), raising=True
    )
    return seen


def test_a_time_limit_gives_the_best_state_so_far(monkeypatch):
    adam = pann.Adam(30, pann.Constant(0.01), record_every=10)
    method = training(adam, pann.Prune(), pann.LBFGS(5))
    options = {"domain": SQUARE, "held_out": 0.0}
    seen = stopping_clock(monkeypatch, at=2)
    stopped = pann.fit(X, Y, method, **options, progress=seen.append, time_limit=60)
    assert [(step.what, step.step) for step in seen] == [("Adam", 10), ("Adam", 20)]
    assert stopped.stop == (
        "the time limit of 60 s ended it during Adam, step 20; next would have come Prune, LBFGS"
    )
    assert stopped.outcomes[0].reasons == ("the time limit of 60 s ended it after 20 of 30 steps",)
    assert "stopped: the time limit" in str(stopped)
    # The rate is constant: these are the first 20 of the 30 steps.
    short = training(pann.Adam(20, pann.Constant(0.01), record_every=10))
    expected = pann.fit(X, Y, short, **options, progress=False)
    np.testing.assert_allclose(stopped(X), expected(X), rtol=1e-12)
    assert expected.stop == "all stages done"


@pytest.mark.parametrize("at", [1, 2, 3, 5])
def test_the_default_method_can_be_stopped_anywhere(monkeypatch, at):
    seen = stopping_clock(monkeypatch, at)
    stopped = pann.fit(X, Y, HYBRID, domain=SQUARE, progress=seen.append, time_limit=60)
    polynomial = pann.fit(X, Y, POLYNOMIAL, domain=SQUARE, held_out=0.1, progress=False)
    assert stopped.stop.startswith("the time limit of 60 s ended it")
    assert "Prune" in stopped.stop
    # Never worse than the polynomial that it began with.
    assert stopped.scores[0] <= polynomial.scores[0] * (1 + 1e-9)


def test_ctrl_c_during_training_gives_the_model_so_far():
    seen = []

    def press_once(progress):
        seen.append(progress)
        if len(seen) == 2:
            signal.raise_signal(signal.SIGINT)

    method = training(pann.Adam(30, record_every=10))
    stopped = pann.fit(X, Y, method, domain=SQUARE, progress=press_once)
    assert len(seen) == 2
    assert stopped.stop == "Ctrl-C ended it during Adam, step 20"
    assert np.all(np.isfinite(stopped(X)))


def test_a_program_that_makes_many_fits_is_interrupted_by_ctrl_c():
    def press(progress):
        signal.raise_signal(signal.SIGINT)

    method = training(pann.Adam(30, record_every=10))
    with pytest.raises(KeyboardInterrupt):
        fit_run(Data(X, Y, SQUARE), method, RunOptions(), press, ctrl_c=False)


def test_a_limit_that_comes_with_the_last_report_ended_nothing(monkeypatch):
    seen = stopping_clock(monkeypatch, at=3)
    made = pann.fit(X, Y, POLYNOMIAL, domain=SQUARE, progress=seen.append, time_limit=60)
    assert [step.what for step in seen] == ["LeastSquares", "LeastSquares", "Prune"]
    assert made.stop == "all stages done"

"""The command line, `pann`."""

from pann.cli.sweeps import event_line, event_report, summary_line, sweep_bar
from pann.cli.terminal import STOPPED_SWEEP, Json, plainly, show_report, tell
from pann.methods.options import choose as choice

__all__ = [
    "STOPPED_SWEEP",
    "Json",
    "choice",
    "event_line",
    "event_report",
    "plainly",
    "show_report",
    "summary_line",
    "sweep_bar",
    "tell",
]

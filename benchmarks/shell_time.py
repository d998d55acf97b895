"""Where the time of `pann solve poisson` goes: import, tracing, compiling, and the rest.

Each figure is from a process of its own, with an empty compilation cache and with a filled one.
Import and all are seconds of the process's own work, which others on the machine disturb little;
tracing and compiling are on the clock, as JAX tells them. `results/shell_time_before.csv` is from
before tables and residuals went into fewer programs.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator

from benchmarks.harness import Row

COMMANDS = ("poisson",)
MEASURE = """
import collections, json, sys, time
from jax import monitoring
seconds, counts = collections.Counter(), collections.Counter()
def note(event, duration, **_):
    seconds[event.split("/")[-1]] += duration
    counts[event.split("/")[-1]] += 1
monitoring.register_event_duration_secs_listener(note)
from pann.cli.main import app
imported = time.process_time()
sys.argv = ["pann", "solve", sys.argv[1], "--json"]
try:
    app()
except SystemExit:
    pass
print()
print(json.dumps({
    "import s": imported,
    "tracing s": seconds["jaxpr_trace_duration"] + seconds["jaxpr_to_mlir_module_duration"],
    "compiling s": seconds["backend_compile_duration"],
    "programs": counts["backend_compile_duration"],
    "all s": time.process_time(),
}))
"""


def rows() -> Iterator[Row]:
    for command in COMMANDS:
        with tempfile.TemporaryDirectory() as cache:
            for state in ("empty", "filled"):
                finished = subprocess.run(
                    [sys.executable, "-c", MEASURE, command],
                    env=os.environ | {"PANN_CACHE": cache},
                    capture_output=True,
                    text=True,
                    check=True,
                )
                figures = json.loads(finished.stdout.strip().splitlines()[-1])
                yield {"command": f"pann solve {command}", "cache": state, **figures}

"""A store of runs: rows of experiments, each done once, by any number of processes on one folder.

runs/<experiment>/<identity>.json   one finished or failed run, in plain JSON
runs/<experiment>/<identity>.pann   its arrays, if it has any
claims/<identity>.json              who is at work on a row
work/<identity>/                    the checkpoints of a run that is not finished
work/<identity>-<hash>/             those of several rows that run as one, named by the first
"""

from pann.runs.claims import LIFETIME, Claim, Claims
from pann.runs.result import Result
from pann.runs.row import Row
from pann.runs.store import Store
from pann.runs.sweep import Event, Summary, parse_shard, shard_of, sweep
from pann.runs.together import Together, units_of

__all__ = [
    "LIFETIME",
    "Claim",
    "Claims",
    "Event",
    "Result",
    "Row",
    "Store",
    "Summary",
    "Together",
    "parse_shard",
    "shard_of",
    "sweep",
    "units_of",
]

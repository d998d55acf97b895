"""A store of runs: rows of experiments, each done once, by any number of processes on one folder.

runs/<experiment>/<identity>.json   one finished or failed run, in plain JSON
runs/<experiment>/<identity>.pann   its arrays, if it has any
claims/<identity>.json              which process runs a row
work/<identity>/                    the checkpoints of a run that is not finished
work/<identity>-<hash>/             those of several rows that run as one, named by the first
"""

from pann.runs.archive import pack
from pann.runs.batch import Event, Together, units_of
from pann.runs.excerpt import fields_of, halves_of, history_of
from pann.runs.locks import LIFETIME, Claim, Claims
from pann.runs.row import Result, Row
from pann.runs.store import Store, copy_records
from pann.runs.sweep import Summary, parse_shard, shard_of, sweep

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
    "copy_records",
    "fields_of",
    "halves_of",
    "history_of",
    "pack",
    "parse_shard",
    "shard_of",
    "sweep",
    "units_of",
]

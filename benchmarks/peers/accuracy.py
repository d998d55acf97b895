"""Allen-Cahn: the error after a fixed time, and the time to a relative l2 error of 1e-6.

Every peer trains for `BUDGET` seconds by its documented recipes, float64, 4096 points and a network
of three layers: with the boundary as a term of the loss that weighs a hundred times the equation,
and with a network whose boundary values are exact. The one with the least error then gets `CAP`
seconds. pann is called without options, before and after, and its time includes compiling, as the
peers' does.
"""

import itertools
from collections.abc import Iterator

from benchmarks.harness import Row
from benchmarks.peers.environments import EQUATIONS, PANN, Peer, ask

TARGET, BUDGET, CAP = 1e-6, 60.0, 600.0
EXACT = "exact"
BOUNDARIES = ("weighted", EXACT)
WIDTHS = {"jinns": 30}  # its natural gradients solve a system as large as the network


def rows() -> Iterator[Row]:
    yield _row(PANN, ask(PANN, _job(PANN, BUDGET)), BUDGET)
    errors = {}
    for peer, boundary in itertools.product(EQUATIONS, BOUNDARIES):
        answer = ask(peer, _job(peer, BUDGET, boundary), 3 * BUDGET)
        errors[peer, boundary] = answer.get("error", float("inf"))
        yield _row(peer, answer, BUDGET, boundary)
    best, boundary = min(errors, key=lambda recipe: errors[recipe])
    answer = ask(best, _job(best, CAP, boundary), 2 * CAP)
    yield _row(best, answer, CAP, boundary)
    own = ask(PANN, _job(PANN, CAP))
    yield _row(PANN, own, CAP) | _share(own, answer)


def _job(peer: Peer, seconds: float, boundary: str = "") -> dict:
    return {
        "work": "train",
        "equation": "allen_cahn",
        "points": 4096,
        "precision": "float64",
        "width": WIDTHS.get(peer.name, 50),
        "mode": peer.modes[0] or "forward",
        "seconds": seconds,
        "target": TARGET,
        "exact boundary": boundary == EXACT,
    }


def _share(own: dict, peer: dict) -> Row:
    """Our time to the target over the peer's, or over the cap if it never got there."""
    if own.get("seconds to target") is None:
        return {}
    theirs = peer.get("seconds to target") or CAP
    return {"share of best peer's time": own["seconds to target"] / theirs}


def _row(peer: Peer, answer: dict, limit: float, boundary: str = "") -> Row:
    reached = answer.get("seconds to target")
    return {
        "library": peer.name,
        "boundary": boundary,
        "limit s": limit,
        "error": answer.get("error", ""),
        "seconds": answer.get("seconds", ""),
        "seconds to 1e-6": "not reached" if reached is None else reached,
        "peak MB": round(answer["peak MB"]) if "peak MB" in answer else "",
        "share of best peer's time": "",
        "reason": answer.get("reason", ""),
    }

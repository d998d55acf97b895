"""Allen-Cahn: the error after a fixed time, and the time to a relative l2 error of 1e-6.

Every peer trains for `BUDGET` seconds by its best documented recipe, float64, 4096 points and a
network of three layers; the one with the least error then gets `CAP` seconds. pann is called
without options, before and after, and its time includes compiling, as the peers' does.
"""

from collections.abc import Iterator

from benchmarks.harness import Row
from benchmarks.peers.environments import EQUATIONS, PANN, Peer, ask

TARGET, BUDGET, CAP = 1e-6, 60.0, 600.0
WIDTHS = {"jinns": 30}  # its natural gradients solve a system as large as the network


def rows() -> Iterator[Row]:
    yield _row(PANN, ask(PANN, _job(PANN, BUDGET)), BUDGET)
    errors = {}
    for peer in EQUATIONS:
        answer = ask(peer, _job(peer, BUDGET), 3 * BUDGET)
        errors[peer] = answer.get("error", float("inf"))
        yield _row(peer, answer, BUDGET)
    best = min(errors, key=lambda peer: errors[peer])
    answer = ask(best, _job(best, CAP), 2 * CAP)
    yield _row(best, answer, CAP)
    own = ask(PANN, _job(PANN, CAP))
    yield _row(PANN, own, CAP) | _share(own, answer)


def _job(peer: Peer, seconds: float) -> dict:
    return {
        "work": "train",
        "equation": "allen_cahn",
        "points": 4096,
        "precision": "float64",
        "width": WIDTHS.get(peer.name, 50),
        "mode": peer.modes[0] or "forward",
        "seconds": seconds,
        "target": TARGET,
    }


def _share(own: dict, peer: dict) -> Row:
    """Our time to the target over the peer's, or over the cap if it never got there."""
    if own.get("seconds to target") is None:
        return {}
    theirs = peer.get("seconds to target") or CAP
    return {"share of best peer's time": own["seconds to target"] / theirs}


def _row(peer: Peer, answer: dict, limit: float) -> Row:
    reached = answer.get("seconds to target")
    return {
        "library": peer.name,
        "limit s": limit,
        "error": answer.get("error", ""),
        "seconds": answer.get("seconds", ""),
        "seconds to 1e-6": "not reached" if reached is None else reached,
        "peak MB": round(answer["peak MB"]) if "peak MB" in answer else "",
        "share of best peer's time": "",
        "reason": answer.get("reason", ""),
    }

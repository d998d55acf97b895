"""Seconds an Adam step: full batch, three layers of 100 tanh units, 400 points on the boundary.

pann is timed before and after its peers, by `pann.solve`; a ratio is the mean of the two to the
peer, in seconds of work on one core, so that others on the machine count little: a library that
waits actively for its threads loses far more than they take. The least of some rounds counts; what
happens once, compilation above all, is apart.
"""

from collections.abc import Iterator

from benchmarks.harness import Row
from benchmarks.peers.environments import EQUATIONS, PANN, ask

CASES = (("poisson", 4096), ("kdv", 16_384), ("ks", 16_384))
SECONDS = 2.0


def rows() -> Iterator[Row]:
    for precision in ("float32", "float64"):
        for equation, points in CASES:
            job = {
                "work": "steps",
                "equation": equation,
                "points": points,
                "precision": precision,
                "width": 100,
                "seconds": SECONDS,
            }
            peers = [(peer, mode) for peer in EQUATIONS for mode in peer.modes]
            runs = [(PANN, ""), *peers, (PANN, "")]
            answers = [ask(peer, job | {"mode": mode}, one_core=True) for peer, mode in runs]
            own = [answers[end].get("CPU seconds a step", float("nan")) for end in (0, -1)]
            for (peer, mode), answer in zip(runs, answers, strict=True):
                yield _row(job, f"{peer.name} {mode}".strip(), answer, sum(own) / 2)


def _row(job: dict, name: str, answer: dict, own: float) -> Row:
    seconds = answer.get("CPU seconds a step")
    return {
        "equation": job["equation"],
        "points": job["points"],
        "precision": job["precision"],
        "library": name,
        "CPU ms a step": 1e3 * seconds if seconds else "",
        "ms a step": 1e3 * answer["seconds a step"] if seconds else "",
        "pann's share of it": own / seconds if seconds else "",
        "first step s": answer.get("first seconds", ""),
        "peak MB": round(answer["peak MB"]) if "peak MB" in answer else "",
        "reason": answer.get("reason", ""),
    }

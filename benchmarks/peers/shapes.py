"""Poisson's equation on shapes beside finite elements and a network of other libraries.

scikit-fem has elements of degree 4 on curved triangles; its row is the finest mesh that ends in the
seconds that pann took, imports left out on both sides. DeepXDE trains for a minute. The disk has
u = sin(3x + 1) exp(y) cos(4xy), and errors are the largest over the largest true value; the L has
u = x^2 on its boundary, and the error is that of u(0.99, 0.99) (Gopal and Trefethen, 2019), next to
its re-entrant corner, toward which the triangles are graded.
"""

from collections.abc import Iterator

from benchmarks.harness import Row
from benchmarks.peers.environments import DISK, FINITE_ELEMENTS, ask
from benchmarks.sharp import rows_of

DEEPXDE_SECONDS = 60.0
PROBLEMS = {"disk": "Poisson, disk", "l": "L-shape, x^2 on the boundary"}


def rows() -> Iterator[Row]:
    for short, name in PROBLEMS.items():
        (own,) = rows_of("benchmarks.shape_problems", (name,))
        seconds = float(own["seconds"])
        # The row of the L counts points all over the shape as well.
        error = own.get("at (0.99, 0.99)", own["error"])
        yield _row(name, "pann", {"error": error, "seconds": seconds, "what": own["method"]})
        job = {"problem": short, "seconds": seconds}
        yield _row(name, "scikit-fem", ask(FINITE_ELEMENTS, job))
        if short == "disk":
            yield _row(name, "DeepXDE", ask(DISK, {"seconds": DEEPXDE_SECONDS}))


def _row(problem: str, library: str, found: dict) -> Row:
    keys = ("error", "seconds", "unknowns", "what", "reason")
    return {"problem": problem, "library": library} | {key: found.get(key, "") for key in keys}

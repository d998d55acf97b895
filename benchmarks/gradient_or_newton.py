"""Adam against Levenberg-Marquardt: errors by network size when both are given the same time.

The non-smooth function with alpha=2, N=4096, degree 13, tanh networks of three layers. Adam starts
from pann import MLP, Training
from the same linear solve and placed units, and ends with the same linear solve.
"""

from collections.abc import Iterator

from benchmarks.harness import Row
from benchmarks.problems import square
from pann.problems import functions
from pann.regression.fit import fit, relative_l2
from pann.training import Adam, Cosine, GaussNewton, LeastSquares, Place, Recipe, Stage


def rows() -> Iterator[Row]:
    problem = square(functions.non_smooth(2.0), 4096)
    for width in (8, 16, 32):

        def timed(stage: Stage, width: int = width) -> tuple[float, float]:
            recipe: Recipe = (
                LeastSquares("polynomial", alone=True),
                Place(),
                LeastSquares("both"),
                stage,
                LeastSquares("both"),
            )
            method = Training(stages=recipe, degree=13, network=MLP(width=width))
            fitted = fit(problem.points, problem.values, method, domain=problem.domain)
            error = relative_l2(fitted(problem.test), problem.truth)
            return error, fitted.outcomes[3].seconds

        newton_error, newton_seconds = timed(GaussNewton(80, patience=80))
        # Calibrate, then give Adam as many steps as fit into the same time.
        _, trial_seconds = timed(Adam(300, Cosine(3e-3)))
        _, trial_seconds = timed(Adam(300, Cosine(3e-3)))
        steps = max(300, round(300 * newton_seconds / trial_seconds))
        adam_error, adam_seconds = timed(Adam(steps, Cosine(3e-3), record_every=500))
        yield {
            "width": width,
            "Levenberg-Marquardt": newton_error,
            "LM seconds": newton_seconds,
            "Adam": adam_error,
            "Adam steps": steps,
            "Adam seconds": adam_seconds,
        }

"""Fit values at points: `fit` builds the tables, trains the trials, and gives back a `Fit`."""

import dataclasses
import time

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from jaxtyping import Float, PRNGKeyArray

from pann.basis import Basis, make_basis, orthonormal_scales
from pann.domain import Box
from pann.loss import Loss, Rows
from pann.model import PANN, Parameters, initial_parameters, trainable
from pann.network import MLP, Activation, EmbeddingOptions, Initialization, activation_named
from pann.points import Points, from_array
from pann.training import (
    Outcome,
    Recipe,
    Sizes,
    Task,
    recipe_named,
    run_recipe,
)
from pann.training.stage import Report, figures

PRECISIONS = ("float64", "float32")


@dataclasses.dataclass(frozen=True)
class Fit:
    """What `fit` gives back: the chosen model, all trials, and how they were trained.

    `model` is the trial with the lowest held-out error, or the lowest training loss where no rows
    were held out.
    """

    model: PANN
    models: tuple[PANN, ...]
    outcomes: tuple[Outcome, ...]
    recipe: Recipe
    why: str
    scores: Float[np.ndarray, " trials"]
    seconds: float

    def __call__(self, points: npt.ArrayLike) -> Float[np.ndarray, "points *outputs"]:
        return self.model(points)

    def errors(self, points: npt.ArrayLike, values: npt.ArrayLike) -> Float[np.ndarray, " trials"]:
        """The relative l2 error |u - y| / |y| of every trial."""
        return np.array([relative_l2(model(points), np.asarray(values)) for model in self.models])

    def __str__(self) -> str:
        lines = [f"{self.model!r}", f"recipe: {self.why}"]
        for outcome in _flatten(self.outcomes):
            remark = "; ".join((*dict.fromkeys(outcome.reasons), *outcome.notes))
            lines.append(f"  {type(outcome.stage).__name__}: {remark} ({outcome.seconds:.1f} s)")
        terms = ", ".join(
            f"{float(term.coefficients[0]):+.3g} {term.name}" for term in self.model.terms()[:3]
        )
        if terms:
            lines.append(f"leading terms: {terms}")
        return "\n".join(lines)


def relative_l2(predicted: npt.ArrayLike, true: npt.ArrayLike) -> float:
    """|predicted - true| / |true| (the paper's measure of error)."""
    predicted, true = np.asarray(predicted, float), np.asarray(true, float)
    if predicted.shape != true.shape:
        raise ValueError(f"predictions of shape {predicted.shape} against values of {true.shape}")
    return float(np.linalg.norm(predicted - true) / np.linalg.norm(true))


def fit(
    points: npt.ArrayLike | Points,
    values: npt.ArrayLike,
    *,
    domain: Box | None = None,
    degree: int | None = 8,
    basis: Basis | None = None,
    width: int | tuple[int, ...] = 32,
    depth: int = 3,
    activation: str | Activation = "tanh",
    embedding: EmbeddingOptions | None = None,
    dropout: float = 0.0,
    initialization: Initialization | None = None,
    bias: bool | None = None,
    constraint: str | None = None,
    constraint_weight: float = 1e-3,
    norm: str = "frobenius",
    reduction: str = "mean",
    preconditioner: bool | None = None,
    recipe: str | Recipe = "default",
    trials: int = 1,
    held_out: float | None = None,
    sample_weight: npt.ArrayLike | None = None,
    precision: str = "float64",
    seed: int = 0,
    report: Report | None = None,
) -> Fit:
    """Fit u(x) = sum_j a_j psi_j(x) + sum_k b_k phi_k(x) to values at points.

    `degree=None` leaves the polynomial out, `width=0` the network; a tuple of widths gives each
    hidden layer its own, and `depth` is then not used. `values` has shape (N,) or
    (N, outputs). The domain is the points' bounding box unless given. Options that are None
    follow the recipe: `paper` uses constraint E, the preconditioner and no held-out rows;
    `default` the exact constraint, which costs nothing there; a recipe of your own, none. Without
    `paper` there is no preconditioner, and 10% of the rows are held out if there is a network. The
    output bias is on exactly where there is no polynomial.
    """
    start = time.perf_counter()
    paper = recipe == "paper"
    coordinates, domain = _check_points(points, domain)
    target, num_outputs = _check_values(values, len(coordinates))
    weights = _check_weights(sample_weight, len(coordinates))
    widths = _check_widths(width, depth)
    if not isinstance(trials, int | np.integer) or trials < 1:
        raise ValueError(f"trials must be an integer of at least 1, got {trials!r}")
    if not 0 <= dropout < 1:
        raise ValueError(f"dropout is a rate in [0, 1), got {dropout}")
    if precision not in PRECISIONS:
        raise ValueError(f"precision must be one of {', '.join(PRECISIONS)}, got '{precision}'")
    held_out = (0.0 if paper or not widths else 0.1) if held_out is None else held_out
    if not 0 <= held_out < 1:
        raise ValueError(f"held_out is a share of the rows in [0, 1), got {held_out}")
    loss = Loss(
        constraint=constraint or {"paper": "E", "default": "exact"}.get(str(recipe), "none"),
        constraint_weight=constraint_weight,
        norm=norm,
        reduction=reduction,
    )
    basis = _basis(domain, degree, basis)
    if not widths and basis.num_terms == 0:
        raise ValueError("width=0 and degree=None leave nothing to fit; give one of them")
    precondition = preconditioner if preconditioner is not None else paper
    bias = basis.num_terms == 0 if bias is None else bias
    chosen_activation = activation_named(activation)
    train, validation = _split(len(coordinates), held_out, seed)

    with jax.enable_x64(True), jax.default_matmul_precision("highest"):

        def start_trial(trial_key: PRNGKeyArray) -> Parameters:
            network_key, embedding_key, a_key = jax.random.split(trial_key, 3)
            network = None
            if widths:
                network = MLP(
                    domain.dimension,
                    widths,
                    chosen_activation,
                    key=network_key,
                    initialization=initialization,
                    embedding=None
                    if embedding is None
                    else embedding.build(
                        domain.dimension, chosen_activation, key=embedding_key, dtype=precision
                    ),
                    dropout=dropout,
                    dtype=precision,
                )
            return initial_parameters(
                network, basis.num_terms, target.shape[1], bias=bias, key=a_key, dtype=precision
            )

        # Shapes alone: what is refused below is refused before anything is compiled.
        num_network_parameters = eqx.filter_eval_shape(
            lambda seed: _count_network(start_trial(jax.random.key(seed))), 0
        )
        sizes = Sizes(
            num_points=len(train),
            num_terms=basis.num_terms,
            num_network_parameters=num_network_parameters,
            num_outputs=target.shape[1],
            dropout=dropout > 0,
            precision=precision,
        )
        stages, why = recipe_named(recipe, sizes)
        _check_enough_points(basis, len(train), may_be_fewer=paper and loss.constraint != "exact")

        def rows(chosen: np.ndarray) -> Rows:
            return Rows(
                x=jnp.asarray(domain.to_reference(coordinates[chosen]), precision),
                table=jnp.asarray(basis.table(coordinates[chosen]), precision),
                target=jnp.asarray(target[chosen], precision),
                weights=jnp.asarray(np.sqrt(weights[chosen]), precision),
            )

        train_rows, held_out_rows = rows(train), rows(validation) if len(validation) else None
        key, init_key = jax.random.split(jax.random.key(seed))
        starts = [start_trial(jax.random.fold_in(init_key, trial)) for trial in range(trials)]
        task = Task(
            rows=train_rows,
            held_out=held_out_rows,
            loss=loss,
            key=key,
            term_scales=jnp.asarray(orthonormal_scales(basis), precision) if precondition else None,
            report=report or (lambda progress: None),
        )
        stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *starts)
        trained, outcomes = run_recipe(stages, task, stacked)
        scores = _scores(task, trained)
        outputs = None if num_outputs is None else target.shape[1]
        models = tuple(
            PANN(domain, basis, parameters, precision, outputs).compact()
            for parameters in _unstack(trained, trials)
        )
    best = int(np.nanargmin(scores)) if np.any(np.isfinite(scores)) else 0
    return Fit(
        model=models[best],
        models=models,
        outcomes=outcomes,
        recipe=stages,
        why=why,
        scores=scores,
        seconds=time.perf_counter() - start,
    )


def _check_points(
    points: npt.ArrayLike | Points, domain: Box | None
) -> tuple[Float[np.ndarray, "points d"], Box]:
    array = np.asarray(points.coordinates if isinstance(points, Points) else points)
    if array.ndim == 1:
        array = array[:, None]
    if domain is None:
        if array.ndim != 2 or array.size == 0 or array.dtype.kind not in "iuf":
            raise ValueError(
                f"points must be numbers of shape (points, d), got {array.dtype} of {array.shape}"
            )
        # The box is that of the finite entries; points with others are refused below.
        finite = np.where(np.isfinite(array), array, 0)
        low, high = finite.min(axis=0), finite.max(axis=0)
        # A constant column gets an interval of its own.
        high = np.where(high > low, high, low + 1.0)
        domain = Box.from_bounds(low.tolist(), high.tolist())
    return from_array(domain, array).coordinates, domain


def _check_values(
    values: npt.ArrayLike, num_points: int
) -> tuple[Float[np.ndarray, "points outputs"], int | None]:
    """The targets as a matrix, and the number of outputs, None for a plain vector."""
    array = np.asarray(values)
    if array.dtype.kind not in "iuf" or array.ndim not in (1, 2) or array.size == 0:
        raise ValueError(
            f"values must be numbers of shape (points,) or (points, outputs), got {array.dtype} "
            f"of shape {array.shape}"
        )
    if len(array) != num_points:
        raise ValueError(f"there are {num_points} points but {len(array)} values; give one a point")
    broken = ~np.isfinite(array.reshape(num_points, -1)).all(axis=1)
    if broken.any():
        raise ValueError(
            f"{broken.sum()} of {num_points} values are NaN or infinite, the first is value "
            f"{broken.argmax()}; remove them first"
        )
    if not np.any(array):
        raise ValueError("all values are zero: there is nothing to fit")
    if array.ndim == 1:
        return array.astype(float)[:, None], None
    return array.astype(float), array.shape[1]


def _check_weights(sample_weight: npt.ArrayLike | None, num_points: int) -> np.ndarray:
    if sample_weight is None:
        return np.ones(num_points)
    weights = np.asarray(sample_weight)
    if (
        weights.shape != (num_points,)
        or weights.dtype.kind not in "iufb"
        or not np.all(np.isfinite(weights) & (weights >= 0))
        or not np.any(weights)
    ):
        raise ValueError(
            f"sample_weight needs {num_points} finite numbers of at least 0 and not all of them 0, "
            f"got {weights.dtype} of shape {weights.shape}"
        )
    return weights.astype(float)


def _check_widths(width: int | tuple[int, ...], depth: int) -> tuple[int, ...]:
    """The width of each hidden layer; none where there is no network."""
    if isinstance(width, int | np.integer):
        if width < 0:
            raise ValueError(f"width must be at least 0, got {width}; 0 leaves the network out")
        if not isinstance(depth, int | np.integer) or depth < 1:
            raise ValueError(f"depth must be an integer of at least 1, got {depth!r}")
        return (int(width),) * depth if width else ()
    widths = tuple(width)
    if not widths or any(not isinstance(w, int | np.integer) or w < 1 for w in widths):
        raise ValueError(f"width must be a number, or one of at least 1 a layer, got {width!r}")
    return widths


def _basis(domain: Box, degree: int | None, basis: Basis | None) -> Basis:
    if basis is not None:
        if basis.domain != domain:
            raise ValueError(
                f"the basis lives on {basis.domain}, the points on {domain}; make both with the "
                "same domain"
            )
        return basis
    whole = make_basis(domain, 0 if degree is None else degree)
    return whole.subset(np.arange(0)) if degree is None else whole


def _check_enough_points(basis: Basis, num_points: int, *, may_be_fewer: bool) -> None:
    if may_be_fewer or num_points >= basis.num_terms:
        return
    allowed = int(np.max(basis.degrees))
    while allowed > 0 and np.sum(basis.degrees <= allowed) > num_points:
        allowed -= 1
    raise ValueError(
        f"the basis has {basis.num_terms} terms but there are only {num_points} points to fit "
        f"them to; use a degree of at most {allowed}, more points, or recipe='paper'"
    )


def _split(num_points: int, share: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    order = np.random.default_rng(seed).permutation(num_points)
    count = round(share * num_points)
    return np.sort(order[count:]), np.sort(order[:count])


def _count_network(parameters: Parameters) -> int:
    if parameters.network is None:
        return 0
    moving = jax.tree.leaves(
        jax.tree.map(
            lambda leaf, moves: leaf.size if moves else 0, parameters, trainable(parameters)
        )
    )
    return int(sum(moving)) - parameters.b.size


def _unstack(trained: Parameters, count: int) -> list[Parameters]:
    leaves, structure = jax.tree.flatten(trained)
    return [jax.tree.unflatten(structure, [leaf[i] for leaf in leaves]) for i in range(count)]


def _scores(task: Task, trained: Parameters) -> np.ndarray:
    values = figures(task.loss, trained, task.rows, task.held_out, task.weights(trained))
    return np.asarray(values["data" if task.held_out is None else "held_out"])


def _flatten(outcomes: tuple[Outcome, ...]) -> list[Outcome]:
    return [each for outcome in outcomes for each in (*_flatten(outcome.inner), outcome)]

"""What `solve` gives back: a function with two halves, figures of its quality, pictures, a file."""

import dataclasses
import math
import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from pann.basis import WholeBasis
from pann.domain import Faces
from pann.io import Contents, FileError, write
from pann.io.checks import check_dict, check_number, check_string, one_line, shown
from pann.io.codec import Listed, Optional, Plain, Prefixed, Record, Values, decode, encode
from pann.io.models import MODEL
from pann.methods import (
    MLP,
    Elements,
    Hybrid,
    Polynomial,
    SolveMethod,
    Training,
    Windows,
    method_description,
    method_from_description,
)
from pann.model.architecture import Architecture
from pann.model.pann import PANN, Parts
from pann.network import Activation, LevelSets, ModifiedMLP
from pann.network.activations import ACTIVATIONS
from pann.pde.checks import has_integrals
from pann.pde.evaluation import evaluate_derivatives, evaluate_parts, evaluate_solution
from pann.pde.hard_conditions import ANSATZ, Ansatz
from pann.pde.problem import Problem
from pann.points import where_inside
from pann.runtime.limits import Progress
from pann.shapes import Boundary

if TYPE_CHECKING:
    import xarray

KIND = "solution"
# Tails on elements that are refined, relative to those before.
MORE_RESOLVED = 0.01


@dataclasses.dataclass(frozen=True)
class Report:
    """How a solution came about and how good it is, by which measure.

    `residual` is the root mean square residual at points that were used for nothing else, relative
    to the size of the equation's terms there, or that of a condition if it is larger; `rel_l2` the
    relative l2 error where the solution is known, `field_errors` that of every field. `trials` has
    the figures of every trial, with the residuals by which one was chosen, `parameter_deviations`
    the standard deviations of parameters found from noisy data.

    `resolved` says whether residual and error estimate are small enough to rely on the solution.
    `error_estimate` is relative in l2. With a tolerance it comes from the difference between two
    resolutions, and `met` says whether it and the residual are below it. Without one it is the
    residual over the `stability` of the equation with its conditions, where that was found: the
    least change of their rows by a function of mean square 1. `notes` are what else there is to
    know, and `stopped` is what ended the work before its time: a time limit, or Ctrl-C.
    `not_smooth` has the lower and the upper corner of boxes about points at which the solution is
    not smooth: so small that they do not count in l2, they are left out of the residual.
    """

    how: str
    degree: int
    num_points: int
    residual: float
    rel_l2: float | None
    stop: str
    seconds: float
    history: dict[str, list[float]]
    trials: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    field_errors: dict[str, float] = dataclasses.field(default_factory=dict)
    parameter_deviations: dict[str, float] = dataclasses.field(default_factory=dict)
    tolerance: float | None = None
    error_estimate: float | None = None
    met: bool | None = None
    resolved: bool | None = None
    stability: float | None = None
    notes: list[str] = dataclasses.field(default_factory=list)
    stopped: str | None = None
    not_smooth: list[list[list[float]]] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True)
class Solution:
    """Call it at coordinates, `solution(x=0.1, y=0.2)` or in the order of the axes,
    `solution(0.1, 0.2)`; numbers or arrays that broadcast.

    Where conditions are hard, `ansatz` makes u of the model, which then is the free factor v.
    `method` is how it was solved, with every choice filled in: `pann.solve(problem, method)`.
    """

    model: PANN
    fields: tuple[str, ...]
    parameters: Mapping[str, float]
    report: Report
    problem: Problem | None = None
    ansatz: Ansatz | None = None
    method: SolveMethod | None = None

    def __call__(self, *in_order: Any, **coordinates: Any) -> Any:
        """u, or a tuple of all fields, in the shape of the coordinates; NaN outside of a shape."""
        points, shape = self._points(self._named(in_order, coordinates))
        return self._shaped(evaluate_solution(self.model, self.ansatz, points), shape)

    def parts(self, **coordinates: Any) -> Parts:
        """The network's and the polynomial's share; for several fields tuples of them."""
        points, shape = self._points(coordinates)
        network, polynomial = evaluate_parts(self.model, self.ansatz, points)
        return Parts(self._shaped(network, shape), self._shaped(polynomial, shape))

    def derivative(self, orders: Mapping[str, int], **coordinates: Any) -> Any:
        """A derivative, `solution.derivative({"x": 2}, x=0.1, y=0.2)`."""
        unknown = set(orders) - set(self.model.domain.names)
        if unknown:
            raise ValueError(f"'{unknown.pop()}' is not an axis; the axes are {self._axes}")
        points, shape = self._points(coordinates)
        order = tuple(int(orders.get(name, 0)) for name in self.model.domain.names)
        derive = lambda inside: evaluate_derivatives(self.model, self.ansatz, inside, (order,))
        (values,) = where_inside(self.model.domain, points, derive, (1, len(self.fields)))
        return self._shaped(values, shape)

    @property
    def rel_l2(self) -> float | None:
        """The relative l2 error at random points, None where no solution is known."""
        return self.report.rel_l2

    @property
    def residual(self) -> float:
        """The relative residual at points that were not used."""
        return self.report.residual

    @property
    def parameter_deviations(self) -> Mapping[str, float]:
        """Standard deviations of the parameters by the noise of the data, where it shows."""
        return self.report.parameter_deviations

    def _named(self, in_order: tuple[Any, ...], coordinates: Mapping[str, Any]) -> dict[str, Any]:
        names = self.model.domain.names
        if len(in_order) > len(names) or set(names[: len(in_order)]) & set(coordinates):
            raise ValueError(
                f"give each of {self._axes} once, in this order or by name; given were "
                f"{len(in_order)} in order and {', '.join(coordinates) or 'none'} by name"
            )
        return {**dict(zip(names, in_order, strict=False)), **coordinates}

    def _points(self, coordinates: Mapping[str, Any]) -> tuple[np.ndarray, tuple[int, ...]]:
        names = self.model.domain.names
        if set(coordinates) != set(names):
            given = ", ".join(coordinates) or "none"
            raise ValueError(f"give every axis, {self._axes}; given were {given}")
        arrays = np.broadcast_arrays(*(np.asarray(coordinates[name], float) for name in names))
        return np.stack([array.ravel() for array in arrays], axis=1), arrays[0].shape

    @property
    def _axes(self) -> str:
        return ", ".join(self.model.domain.names)

    def _shaped(self, values: Float[np.ndarray, "points *fields"], shape: tuple[int, ...]) -> Any:
        columns = values.reshape(len(values), -1).T
        each = tuple(column.reshape(shape)[()] for column in columns)
        return each[0] if len(self.fields) == 1 else each

    def to_xarray(self, resolution: int = 101) -> "xarray.Dataset":
        """The fields and their halves on a grid of the domain, NaN outside of a shape."""
        import xarray

        domain = self.model.domain
        axes = [
            np.linspace(low, high, resolution)
            for low, high in zip(domain.lower, domain.upper, strict=True)
        ]
        grid = dict(zip(domain.names, np.meshgrid(*axes, indexing="ij"), strict=True))
        network, polynomial = self.parts(**grid)
        data: dict[str, Any] = {}
        halves = [half if len(self.fields) > 1 else (half,) for half in (network, polynomial)]
        for name, of_network, of_polynomial in zip(self.fields, *halves, strict=True):
            data[name] = (domain.names, of_network + of_polynomial)
            data[f"{name}_network"] = (domain.names, of_network)
            data[f"{name}_polynomial"] = (domain.names, of_polynomial)
        return xarray.Dataset(data, dict(zip(domain.names, axes, strict=True)))

    def to_vtk(
        self, path: str | os.PathLike[str], resolution: int = 101, **time: float | int
    ) -> None:
        """Write a .vtu file for ParaView, with so many points along the longest axis.

        With time, give it: `to_vtk("u.vtu", t=0.5)`.
        """
        from pann.solvers.vtk import to_vtk

        to_vtk(self, path, resolution, time)

    def integrate(
        self,
        function: Callable[..., Any] | None = None,
        over: Faces | Boundary | str | None = None,
        **times: Any,
    ) -> Any:
        """The integral over the domain, or along a part of its boundary, in space.

        The function names fields with their derivatives, coordinates, and on a boundary parts of
        the outward normal: `integrate(lambda u, nx, ny: u.x * nx + u.y * ny, over="disk")` is a
        flux. Without one the fields are integrated; a tuple gives a tuple. With time, give it:
        `integrate(t=0.5)`, or several times. In the plane and on boxes of up to three dimensions
        it is as accurate as the solution, on bodies and in more dimensions to about four digits.
        """
        from pann.solvers.integrals import integrate

        return integrate(self, function, over, times)

    def refine(
        self, problem: Problem, method: SolveMethod | None = None, **options: Any
    ) -> "Solution":
        """Go on from here: solve the problem, as `pann.solve` does, starting with this.

        Unless the method has a degree the basis stays as it is; a network that is there is trained
        further. A solution on elements is solved once more, with smaller tails.
        """
        from pann.solvers.solve import solve

        if isinstance(self.method, Elements) and method is None:
            tail = MORE_RESOLVED * float(self.method.tail or 0.0)
            return solve(problem, dataclasses.replace(self.method, tail=tail), **options)
        if not isinstance(method, Windows | Elements):
            method = continued(Hybrid() if method is None else method, self.model)
        return solve(problem, method, start_from=self, **options)

    def plot(self, path: str | os.PathLike[str] | None = None) -> Any:
        """Lines in one dimension, heat maps in two, slices through the middle beyond.

        Where there is time: over time and space, or snapshots if space has more dimensions.
        """
        from pann.plot import solution

        return solution.plot(self, path)

    def plot_history(self, path: str | os.PathLike[str] | None = None) -> Any:
        """Every term of the loss, and the residual at points not used, over the records."""
        from pann.plot import solution

        return solution.plot_history(self, path)

    def animate(
        self, path: str | os.PathLike[str], frames: int = 60, seconds: float | int = 6.0
    ) -> None:
        """Write a moving picture over time, a .gif: lines in one dimension of space, maps in two.

        It lasts that many seconds and begins again.
        """
        from pann.plot import animation

        animation.animate(self, path, frames, seconds)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a `.pann` file; `pann.load` opens it and needs no code of yours."""
        write(path, KIND, *encode(SOLUTION, self))

    def __str__(self) -> str:
        report = self.report
        lines = [
            verdict(report),
            repr(self.model),
            f"solved by {report.how}; {report.stop} ({report.seconds:.1f} s)",
        ]
        if report.rel_l2 is not None:
            lines.append(f"relative l2 error at random points: {report.rel_l2:.2e}")
        for name, value in self.parameters.items():
            deviation = self.parameter_deviations.get(name)
            noise = "" if deviation is None else f" +- {deviation:.2g}"
            lines.append(f"{name} = {value:.6g}{noise}")
        lines += [f"note: {note}" for note in report.notes]
        if not report.resolved:
            lines.append(f"to go on: {_next(self)}")
        return "\n".join(lines)


def verdict(report: Report) -> str:
    """One sentence: whether to rely on the solution, by which figures."""
    error, estimate = report.error_estimate, ""
    if error is not None:
        estimate = f", error estimate {f'{error:.1e}' if math.isfinite(error) else 'unknown'}"
    figures = f"relative residual {report.residual:.1e} at points used for nothing else{estimate}"
    if report.tolerance is not None:
        outcome = "met" if report.met else "NOT MET, this is the best there is"
        return f"tolerance {report.tolerance:g} {outcome}: {figures}"
    return f"{'resolved' if report.resolved else 'NOT RESOLVED'}: {figures}"


def _next(solution: Solution) -> str:
    """What may resolve a solution that is not, by the method that was used."""
    model, report = solution.model, solution.report
    if report.stopped:
        return "give more time"
    if isinstance(solution.method, Elements):
        if "unknowns" in report.stop:
            more = 10 * (solution.method.max_unknowns or 0)
            return f"give more unknowns, pann.Elements(max_unknowns={more:_})"
        return f"give a higher degree, pann.Elements(degree={(solution.method.degree or 0) + 4})"
    if solution.model.domain.shape is not None and isinstance(solution.method, Windows):
        return f"give a smaller tail, pann.Windows(tail={0.01 * (solution.method.tail or 1.0):g})"
    if "tail in time" in report.history:
        return "give a smaller tolerance, pann.solve(problem, tolerance=...), or more windows"
    if model.num_units and model.num_terms:
        return (
            f"give a higher degree than {report.degree}, a wider network than {model.num_units} "
            "units, or more trials"
        )
    if model.num_units:
        return f"give a wider network than {model.num_units} units, a degree, or more trials"
    if solution.problem is not None and has_integrals(solution.problem):
        return f"give a higher degree than {report.degree}"
    return (
        f"give a higher degree than {report.degree}, or a network, "
        "pann.Hybrid(network=pann.MLP(width=32))"
    )


def network_of(model: PANN) -> MLP | None:
    """The options that ask for the network that a model has."""
    network = model.parameters.network
    if network is None or isinstance(network, LevelSets):
        return None
    widths = tuple(bias.shape[0] for bias in network.biases)
    return _network(widths, network.activation, gated=isinstance(network, ModifiedMLP))


def _network(widths: tuple[int, ...], activation: Activation, *, gated: bool) -> MLP:
    names = {each: name for name, each in ACTIVATIONS.items()}
    name = names.get(activation, activation)
    if gated:
        return MLP(width=widths[0], depth=len(widths), activation=name, gated=True)
    return MLP(width=widths, activation=name)


def continued(
    method: Polynomial | Hybrid | Training, model: PANN
) -> Polynomial | Hybrid | Training:
    """A method with the basis and the network of a model, unless it has its own."""
    if method.degree == "auto" and method.c is None and method.basis is None:
        method = dataclasses.replace(method, basis=model.product_basis, axes=None)
    if isinstance(method, Polynomial):
        return method
    asked = method.network
    if asked is not None and asked.width is not None:
        return method
    own = network_of(model)
    if own is None:
        return (
            Polynomial(basis=method.basis, degree=method.degree, collocation=method.collocation)
            if isinstance(method, Hybrid)
            else dataclasses.replace(method, network=None)
        )
    asked = MLP() if asked is None else asked
    network = dataclasses.replace(asked, width=own.width, depth=own.depth, gated=own.gated)
    return dataclasses.replace(method, network=network)


def filled(
    method: SolveMethod,
    solution: Solution,
    ladder: Sequence[WholeBasis],
    architecture: Architecture,
) -> SolveMethod:
    """The method with the choices that led to a solution; trained bases may have been pruned."""
    if isinstance(method, Windows | Elements):
        return method
    model, trained = solution.model, isinstance(method, Training)
    basis = ladder[0] if trained else model.basis
    own: dict[str, Any] = {"degree": "auto", "c": None, "axes": None, "basis": basis}
    has_level_sets = isinstance(model.parameters.network, LevelSets)
    if method.basis is None and (basis in ladder or has_level_sets):
        degree = int(np.max(basis.degrees, initial=0))
        own = {"degree": degree, "c": None, "axes": method.axes, "basis": None}
    network = network_of(model)
    if isinstance(method, Hybrid) and network is None and not has_level_sets:
        return Polynomial(collocation=method.collocation, **own)
    if trained and architecture.widths:
        network = _network(architecture.widths, architecture.activation, gated=architecture.gated)
    if network is not None and not isinstance(method, Polynomial):
        embedding = None if method.network is None else method.network.embedding
        own["network"] = dataclasses.replace(network, embedding=embedding)
    return dataclasses.replace(method, **own)


def unsolved(model: PANN, problem: Problem) -> Solution:
    """A model made beforehand as what `solve` begins with."""
    num_fields = model.num_outputs or 1
    if model.domain != problem.domain or num_fields != len(problem.fields):
        raise ValueError(
            f"the model has {num_fields} outputs on {model.domain}, but the problem the fields "
            f"{', '.join(problem.fields)} on {problem.domain}; make it for this problem"
        )
    degree = int(np.max(model.basis.degrees, initial=0))
    report = Report("a model", degree, 0, np.inf, None, "not solved", 0.0, {})
    return Solution(model, problem.fields, dict(problem.parameters), report, problem)


def with_report(solution: Solution, **changes: Any) -> Solution:
    """The solution with other entries in its report."""
    return dataclasses.replace(solution, report=dataclasses.replace(solution.report, **changes))


def progress_of(solution: Solution, what: str, step: int, num_steps: int) -> Progress:
    """The progress report of a solution on the way to a better one."""
    figures = {"fresh residual": solution.residual}
    if solution.rel_l2 is not None:
        figures["error"] = solution.rel_l2
    return Progress(what, step, num_steps, figures)


def trial_figures(solution: Solution, seed: int) -> dict[str, Any]:
    """What a report says of one trial."""
    return {
        "seed": seed,
        "rel_l2": solution.rel_l2,
        "field_errors": solution.report.field_errors,
        "residual": solution.residual,
        "seconds": solution.report.seconds,
        "terms": solution.model.num_terms,
        "units": solution.model.num_units,
        "stop": solution.report.stop,
    }


# ---- Files ----


def _numbers(value: Any, what: str) -> dict[str, float]:
    return {name: check_number(each, what) for name, each in check_dict(value, what).items()}


def _report(value: Any, what: str) -> Report:
    try:
        report = Report(**_from_json(value))
    except TypeError as error:
        raise FileError(f"{what} is not complete: {one_line(error)}") from None
    if not isinstance(report.residual, float):
        raise FileError(f"{what} has no residual, but {shown(report.residual)}")
    return report


def _check_fields(values: Values) -> None:
    num_fields = values.model.num_outputs or 1
    if len(values.fields) != num_fields:
        raise FileError(f"{len(values.fields)} fields are named, but the model has {num_fields}")


def _to_json(value: Any) -> Any:
    """A report may have a loss that was not finite; JSON has no such numbers, so as text."""
    if isinstance(value, dict):
        return {key: _to_json(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_to_json(inner) for inner in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _from_json(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _from_json(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_from_json(inner) for inner in value]
    return float(value) if isinstance(value, str) and value in ("nan", "inf", "-inf") else value


# A file has the name of the problem alone: its functions are the user's code.
SOLUTION = Record(
    Solution,
    "the solution",
    {
        "model": MODEL,
        "ansatz": Optional(Prefixed("lift.", ANSATZ)),
        "fields": Listed(Plain(check_string)),
        "parameters": Plain(_numbers, dict),
        "report": Plain(_report, lambda report: _to_json(dataclasses.asdict(report))),
        "problem": Optional(Plain(check_string, lambda problem: problem.name)),
        "method": Optional(Plain(method_from_description, method_description)),
    },
    check=_check_fields,
    build=lambda of: Solution(
        of.model, of.fields, of.parameters, of.report, None, of.ansatz, of.method
    ),
    # Files of earlier versions may lack them.
    optional=("ansatz", "method"),
)


def load(contents: Contents) -> Solution:
    """The solution in a `.pann` file, without its problem."""
    return decode(SOLUTION, contents.description, contents.arrays)

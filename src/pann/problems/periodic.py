"""What the periodic problems in time share: domain, initial state, two forms of periodicity."""

from collections.abc import Callable
from typing import Any

from pann.domain import Box
from pann.pde import Condition, Initial, Periodic, Problem
from pann.reference import Equation, Evolution, PeriodicGrid


def periodic_problem(
    evolution: Evolution,
    residual: Callable[..., Any],
    initial: dict[str, Callable[..., Any]],
    *,
    order: int,
    faithful: bool,
    is_smooth: bool = True,
) -> Problem:
    """The problem whose solution the evolution computes, on first use.

    `initial` are functions of all coordinates by field; `order` is that of the equation in space.
    By default the axes are periodic and the initial state holds exactly, unless it is not smooth
    where the ends of an axis meet: no Fourier series does. If `faithful`, as in the paper, the axes
    are not periodic; value and derivatives up to order - 1 agree at both ends, and the initial
    state holds, in the least-squares sense.
    """
    *space, time = evolution.axes
    ends = zip(evolution.grid.lower, evolution.grid.upper, strict=True)
    axes: dict[str, Any] = dict(zip(space, ends, strict=True))
    axes[time] = (evolution.times[0], evolution.times[-1])
    domain = Box(periodic=() if faithful else space, time=time, **axes)
    is_hard = is_smooth and not faithful
    conditions: list[Condition] = [
        Initial(value, field=field, hard=is_hard) for field, value in initial.items()
    ]
    if faithful:
        conditions += [
            Periodic(axis, order=order - 1, field=field) for axis in space for field in initial
        ]
    return Problem(
        domain,
        residual,
        conditions,
        evolution.exact,
        fields=tuple(initial),
        name=evolution.name,
    )


def advective(symbol: Callable[[Any], Any], advection: float = 1.0) -> Equation:
    """u_t + advection u u_x = L u, where L multiplies the mode exp(i k x) by symbol(k)."""

    def equation(grid: PeriodicGrid) -> tuple[Any, Any]:
        (k,) = grid.wavenumbers()

        def nonlinear(modes: Any) -> Any:
            return -0.5j * advection * k * grid.to_modes(grid.to_values(modes) ** 2)

        return symbol(k[None]), nonlinear

    return equation

"""Which problems can be solved window by window, and why others cannot."""

from pann.pde.conditions import (
    Break,
    Condition,
    Data,
    Dirichlet,
    Initial,
    Integral,
    Interface,
    Neumann,
    Robin,
)
from pann.pde.problem import Problem
from pann.pde.windows.building import highest_order, is_joined, specs

MAX_TIME_ORDER = 2


def reason_against(problem: Problem) -> str | None:
    """A sentence that says what stands in the way of windows, or None."""
    domain = problem.domain
    if domain.time is None:
        return "windows need a time axis: Box(x=..., t=..., time='t')"
    if domain.time in domain.periodic:
        return f"windows go forward in time, but '{domain.time}' is periodic"
    if problem.parameters:
        return f"windows solve for the fields alone, not for {', '.join(problem.parameters)}"
    if problem.asked.has_integrals:
        return "windows solve equations without integrals"
    for condition in problem.conditions:
        if sentence := _against(problem, condition):
            return sentence
    orders = {field: highest_order(problem, domain.time, field) for field in problem.fields}
    if len(set(orders.values())) > 1 or not 1 <= next(iter(orders.values())) <= MAX_TIME_ORDER:
        found = ", ".join(f"{order} for {field}" for field, order in orders.items())
        return f"windows need the same order in time for all fields, 1 or 2; here it is {found}"
    return _against_counts(problem, next(iter(orders.values())))


def _against(problem: Problem, condition: Condition) -> str | None:
    if isinstance(condition, Break | Data | Integral | Interface):
        return f"windows do not take the condition {type(condition).__name__}"
    if isinstance(condition, Dirichlet | Neumann | Robin):
        if any(axis == problem.domain.time for axis, _ in condition.faces.sides):
            return (
                f"{type(condition).__name__} is on a face of the time axis; windows start from "
                "the condition Initial"
            )
        if any(axis in problem.domain.periodic for axis, _ in condition.faces.sides):
            return f"{type(condition).__name__} is on a face of a periodic axis"
    return None


def _against_counts(problem: Problem, order: int) -> str | None:
    """Initial states and conditions at the ends must be as many as the orders ask for."""
    for number, field in enumerate(problem.fields):
        given = sorted(
            condition.order
            for condition in problem.conditions
            if isinstance(condition, Initial) and problem.field_number(condition) == number
        )
        if given != list(range(order)):
            return (
                f"windows need Initial for '{field}' of the orders {list(range(order))}, one each; "
                f"given are {given}"
            )
        for axis in problem.domain.names:
            if axis == problem.domain.time or axis in problem.domain.periodic:
                continue
            wanted = highest_order(problem, axis, field)
            found = len(specs(problem, axis, field))
            if is_joined(problem, axis, field):
                if found:
                    return f"'{field}' is Periodic along '{axis}' and has conditions at its ends"
            elif found != wanted:
                return (
                    f"the equation is of order {wanted} for '{field}' along '{axis}' and needs as "
                    f"many conditions at its ends; given are {found}"
                )
    return None

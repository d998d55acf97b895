"""How much memory gradient training takes, and how much there is."""

from pann.network.jets import lower_set
from pann.solving.gradient import Case
from pann.solving.setup import NUM_FRESH
from pann.system_memory import COPIES


def case_bytes(case: Case) -> float:
    """Tables, and for every trial the derivatives of its layers, at all points."""
    item = 8 if case.architecture.precision == "float64" else 4
    setup, given = case.setup, case.setup.points
    inside = given if isinstance(given, int) else len(setup.placed(case.basis)[0].points)
    points = inside + (setup.condition_points or 0)
    tables = (points + NUM_FRESH) * case.basis.num_terms * (len(setup.orders) + 1)
    units = sum(case.architecture.widths) * case.trials
    layers = points * units * len(lower_set(setup.orders)) * COPIES
    return float(item * (tables + layers))

"""How much memory gradient training takes, and how much there is."""

import jax

from pann.network.jets import lower_set
from pann.solving.gradient import Case
from pann.solving.setup import NUM_FRESH
from pann.system_memory import available_memory

# Of a device's memory, what training may count on: the rest is the compiler's, and others'.
SHARE = 0.6
# Arrays of the size of a layer's derivatives that a step holds, backward pass included. XLA says of
# its programs that they take a third of that to all of it.
COPIES = 4.0
# Bytes of a machine that does not say how many it has.
UNTOLD = 8e9


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


def device_memory() -> float:
    """Bytes that training may use: of the device, or of the machine where that is the device."""
    stats = jax.devices()[0].memory_stats() or {}
    return SHARE * float(stats.get("bytes_limit") or available_memory() or UNTOLD)

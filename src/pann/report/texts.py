"""Numbers, settings and times as texts."""

import json
import math
from collections.abc import Mapping
from typing import Any

NOTHING = "-"
SHORT = 6  # letters of a number that is shown with all its digits
# How settings are called; others by their own names.
NAMES = {
    "num_points": "points",
    "index_set": "index set",
    "adam_steps": "Adam steps",
    "lbfgs_iterations": "L-BFGS iterations",
    "constraint_weight": "constraint weight",
    "preconditioner": "K",
    "signed": "signed test",
    "num_folds": "folds",
    "batch_size": "batch size",
}
VALUES = {
    "equispaced": "equispaced",
    "poisson_disk": "Poisson disk",
    "rff": "RFF",
    "gradnorm": "GradNorm",
    "modmlp": "ModMLP",
    "tensor_product": "tensor product",
    "total_degree": "total degree",
    "hyperbolic_cross": "hyperbolic cross",
    "relu": "ReLU",
    "repu": "RePU",
}


def name_of(setting: str) -> str:
    return NAMES.get(setting, setting.replace("_", " "))


def shown(value: Any) -> str:
    """A setting or figure in a few letters."""
    if value is None:
        return NOTHING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        plain = f"{value:g}"
        return plain if len(plain) <= SHORT else number(value)
    if isinstance(value, int):
        return f"{value:,}" if abs(value) >= 10_000 else str(value)
    if isinstance(value, list | tuple):
        return ", ".join(shown(each) for each in value)
    if isinstance(value, Mapping):
        return json.dumps(dict(value), ensure_ascii=False)
    return VALUES.get(str(value), str(value))


def number(value: float | int, digits: int = 3) -> str:
    """So many digits, in powers of ten where there would be many zeros."""
    if value == 0 or not math.isfinite(value):
        return "0" if value == 0 else "not finite"
    if 1e-3 <= abs(value) < 1e5:
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.{digits}g}"
    leading, power = f"{value:.{digits - 1}e}".split("e")
    return f"{leading}e{int(power)}"


def factor(ratio: float) -> str:
    """Two digits of a ratio."""
    return number(ratio, 2)


def with_spread(mean: float, deviation: float | None) -> str:
    """Mean and deviation."""
    return number(mean) if deviation is None else f"{number(mean)} ± {number(deviation, 2)}"


def duration(seconds: float) -> str:
    """Seconds, minutes or hours, whichever is short."""
    if seconds < 120:
        return f"{seconds:.3g} s"
    return f"{seconds / 60:.3g} min" if seconds < 7200 else f"{seconds / 3600:,.3g} h"


def counted(count: int, what: str) -> str:
    return f"{count:,} {what}" + ("" if count == 1 else "s")

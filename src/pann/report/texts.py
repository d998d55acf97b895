"""Numbers, settings and times as short texts."""

import json
import math
from collections.abc import Mapping
from typing import Any

NOTHING = "-"
MAX_PLAIN = 6  # letters of a number that is shown with all its digits
# Labels of settings and values; others are shown by their own names.
LABELS = {
    "num_points": "points",
    "adam_steps": "Adam steps",
    "lbfgs_iterations": "L-BFGS iterations",
    "preconditioner": "K",
    "signed": "signed test",
    "num_folds": "folds",
    "rel_l2": "relative l2 error",
    "error_estimate": "estimated error",
}
VALUES = {
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
    """The label of a setting."""
    return LABELS.get(setting, setting.replace("_", " "))


def shown(value: Any) -> str:
    """A setting or figure in a few letters."""
    match value:
        case None:
            return NOTHING
        case bool():
            return "yes" if value else "no"
        case float():
            plain = f"{value:g}"
            return plain if len(plain) <= MAX_PLAIN else number(value)
        case int():
            return f"{value:,}" if abs(value) >= 10_000 else str(value)
        case list() | tuple():
            return ", ".join(shown(each) for each in value)
        case Mapping():
            return json.dumps(dict(value), ensure_ascii=False)
    return VALUES.get(str(value), str(value))


def is_number(value: Any) -> bool:
    """Whether a setting can be sorted and drawn as a number."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def number(value: float | int, digits: int = 3) -> str:
    """That many digits, in powers of ten where there would be many zeros."""
    if value == 0 or not math.isfinite(value):
        return "0" if value == 0 else "not finite"
    if 1e-3 <= abs(value) < 1e5:
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.{digits}g}"
    leading, power = f"{value:.{digits - 1}e}".split("e")
    return f"{leading}e{int(power)}"


def with_spread(mean: float, deviation: float | None) -> str:
    """Mean and deviation."""
    return number(mean) if deviation is None else f"{number(mean)} ± {number(deviation, 2)}"


def duration(seconds: float) -> str:
    """Seconds, minutes or hours, whichever is short."""
    if seconds < 120:
        return f"{seconds:.3g} s"
    return f"{seconds / 60:.3g} min" if seconds < 7200 else f"{seconds / 3600:,.3g} h"


def counted(count: int, what: str) -> str:
    """A number of things: 1 run, 2 runs."""
    return f"{count:,} {what}" + ("" if count == 1 else "s")

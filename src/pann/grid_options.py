"""The options that a grid may set, by what they are for, each with a check of its values."""

from collections.abc import Callable, Mapping
from typing import Any

from pann.architecture import KINDS, PRECISIONS
from pann.command_options import choice
from pann.files.checks import shown
from pann.loss import CONSTRAINT_NAMES
from pann.network.activations import ACTIVATIONS
from pann.points import SAMPLERS
from pann.training.recipes import NAMES

# Gets the option's name and a value, and gives the value back or says what it should be.
Check = Callable[[str, Any], Any]

AUTO = "auto"


def _refuse(key: str, value: Any, wanted: str) -> ValueError:
    return ValueError(f"{key} must be {wanted}, got {shown(value)}")


def _whole(low: int, *words: str) -> Check:
    def check(key: str, value: Any) -> Any:
        if value in words and isinstance(value, str):
            return value
        if type(value) is not int or value < low:
            others = "".join(f', or "{word}"' for word in words)
            raise _refuse(key, value, f"a whole number of at least {low}{others}")
        return value

    return check


def _real(low: float, high: float | None = None) -> Check:
    def check(key: str, value: Any) -> float:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not low <= value or not (high is None or value < high):
            wanted = f"a number of at least {low:g}" + ("" if high is None else f", below {high:g}")
            raise _refuse(key, value, wanted)
        return float(value)

    return check


def _one_of(*choices: str) -> Check:
    def check(key: str, value: Any) -> str:
        if not isinstance(value, str):
            raise _refuse(key, value, f"one of {', '.join(choices)}")
        return choice(key, value, choices)

    return check


def _flag(key: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise _refuse(key, value, "true or false")
    return value


def _widths(key: str, value: Any) -> Any:
    layers = value if isinstance(value, list) and value else None
    if layers is not None and all(type(width) is int and width > 0 for width in layers):
        return layers
    if layers is not None or isinstance(value, list):
        raise _refuse(key, value, "a list of one whole number of at least 1 a layer")
    return _whole(0, AUTO)(key, value)


def _texts(key: str, value: Any) -> list[str]:
    given = [value] if isinstance(value, str) else value
    if not isinstance(given, list) or not all(isinstance(text, str) for text in given):
        raise _refuse(key, value, "a text, or a list of texts")
    return given


def _weighting(key: str, value: Any) -> list[str]:
    return [choice(key, text, ("gradnorm", "causal")) for text in _texts(key, value)]


def _memory(key: str, value: Any) -> int | str:
    if not isinstance(value, str) and (type(value) is not int or value < 1):
        raise _refuse(key, value, 'a size such as "2GB", or a number of bytes')
    return value


_SEED = _whole(0)
SOLVE: Mapping[str, Check] = {
    "faithful": _flag,
    "tolerance": _real(0.0),
    "degree": _whole(0, AUTO),
    "c": _real(0.0),
    "axes": _texts,
    "points": _whole(1),
    "sampling": _one_of(*SAMPLERS),
    "condition_points": _whole(1),
    "condition_sampling": _one_of(*SAMPLERS),
    "width": _widths,
    "depth": _whole(1),
    "activation": _one_of(*ACTIVATIONS),
    "network": _one_of(*KINDS),
    "fourier": _whole(1),
    "recipe": _one_of(*NAMES),
    "constraint": _one_of(*CONSTRAINT_NAMES),
    "constraint_weight": _real(0.0),
    "preconditioner": _flag,
    "weighting": _weighting,
    "trials": _whole(1),
    "iterations": _whole(0),
    "time_limit": _real(0.0),
    "windows": _whole(0, AUTO),
    "precision": _one_of(*PRECISIONS),
    "memory": _memory,
    "seed": _SEED,
}
FIT: Mapping[str, Check] = {
    "target": _texts,
    "drop": _texts,
    "test_fraction": _real(0.0, 1.0),
    "degree": _whole(0, AUTO, "none"),
    "width": _widths,
    "depth": _whole(1),
    "activation": _one_of(AUTO, *ACTIVATIONS),
    "constraint": _one_of(AUTO, *CONSTRAINT_NAMES),
    "recipe": _one_of(AUTO, *NAMES),
    "trials": _whole(1),
    "precision": _one_of(AUTO, *PRECISIONS),
    "memory": _memory,
    "seed": _SEED,
}
OPTIONS: Mapping[str, Mapping[str, Check]] = {"solve": SOLVE, "fit": FIT}

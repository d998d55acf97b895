"""Options that are typed as words: what they mean, or a sentence on what they may be."""

import difflib
from collections.abc import Sequence
from typing import Any


def table_options(
    degree: str, width: str, activation: str, constraint: str, recipe: str, precision: str
) -> dict[str, Any]:
    """The parameters of `PANNRegressor` that are typed as words."""
    from pann.model.architecture import PRECISIONS
    from pann.network.activations import ACTIVATIONS
    from pann.training.loss import CONSTRAINT_NAMES
    from pann.training.recipes import NAMES

    if degree == "none" and width == "0":
        raise ValueError("--degree none and --width 0 leave nothing to fit; give one of them")
    return {
        "degree": None if degree == "none" else number("degree", degree, "auto or none"),
        "width": widths(width),
        "activation": choice("activation", activation, ("auto", *ACTIVATIONS)),
        "constraint": choice("constraint", constraint, ("auto", *CONSTRAINT_NAMES)),
        "recipe": choice("recipe", recipe, ("auto", *NAMES)),
        "precision": choice("precision", precision, ("auto", *PRECISIONS)),
    }


def solve_options(
    degree: str,
    width: str,
    activation: str | None,
    points: int | None,
    sampling: str | None,
    precision: str | None,
    recipe: str,
    constraint: str | None,
) -> dict[str, Any]:
    """The arguments of `solve` that were given."""
    from pann.model.architecture import PRECISIONS
    from pann.network.activations import ACTIVATIONS
    from pann.points import SAMPLERS
    from pann.training.loss import CONSTRAINT_NAMES
    from pann.training.recipes import NAMES

    if sampling is not None and points is None:
        raise ValueError("--sampling needs --points, the number of points to sample")
    given: dict[str, Any] = {
        "degree": number("degree", degree, "or auto"),
        "width": widths(width),
        "activation": activation and choice("activation", activation, tuple(ACTIVATIONS)),
        "points": points,
        "sampling": sampling and choice("sampling", sampling, tuple(SAMPLERS)),
        "precision": precision and choice("precision", precision, PRECISIONS),
        "recipe": choice("recipe", recipe, NAMES),
        "constraint": constraint and choice("constraint", constraint, CONSTRAINT_NAMES),
    }
    return {name: value for name, value in given.items() if value not in (None, "auto")}


def number(option: str, text: str, words: str) -> int | str:
    if text == "auto":
        return text
    if not text.isdecimal():
        raise ValueError(f"--{option} is a number of at least 0, {words}, got '{text}'")
    return int(text)


def widths(text: str) -> int | tuple[int, ...] | str:
    if "," not in text:
        return number("width", text, "auto or one a layer such as 64,32")
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and int(part) > 0 for part in parts):
        raise ValueError(f"--width has one number of at least 1 a layer, as in 64,32, got '{text}'")
    return tuple(int(part) for part in parts)


def choice(option: str, given: str, choices: Sequence[str]) -> str:
    if given not in choices:
        lower = {choice.lower(): choice for choice in choices}
        close = difflib.get_close_matches(given.lower(), lower, 1)
        meant = f" (did you mean {lower[close[0]]}?)" if close else ""
        raise ValueError(f"there is no {option} '{given}'{meant}; choose from {', '.join(choices)}")
    return given

"""Options as data: a field of a method has its type, default, values and documentation once.

    degree: int | str = option("auto", "degree of the polynomial", Whole(words=("auto",)))

Everything else reads the fields: checks, the command line, sweep files, descriptions of runs, files
and the reference documentation. A field may hold options of its own (`network: MLP`); from outside
of Python these are given flat, by their names.
"""

import contextlib
import dataclasses
import difflib
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np

from pann.runtime.chunks import parse_bytes

VERBS = ("fit", "solve")

Owner = TypeVar("Owner")


@runtime_checkable
class Kind(Protocol):
    """What values an option takes, and how they are checked."""

    @property
    def wanted(self) -> str:
        """What it takes, in words."""

    def check(self, name: str, value: Any) -> Any:
        """The value, or a ValueError that says what it should be."""


@dataclasses.dataclass(frozen=True)
class Option:
    """One option: its documentation, its values, and the verbs that read it."""

    name: str
    default: Any
    help: str
    kind: Kind | None
    verbs: tuple[str, ...] = VERBS
    group: type | None = None

    @property
    def typed(self) -> bool:
        """Whether it can be given outside of Python: on the command line, in files."""
        return self.kind is not None and not (
            isinstance(self.kind, Instance) and self.kind.of_number is None
        )

    def check(self, value: Any) -> Any:
        """The value, if it is one that the option takes; the default always is."""
        if _same(value, self.default):
            return value
        return value if self.kind is None else self.kind.check(self.name, value)

    def parse(self, text: str) -> Any:
        """The value that is typed as a text."""
        takes_several = isinstance(self.kind, Widths | Texts | Levels)
        try:
            return self.check(_several(text) if takes_several else _number(text))
        except ValueError:
            return self.check(text)  # a name, or a sentence about what was typed


def _several(text: str) -> Any:
    """One value, a list of those between commas, or a mapping where they have names: x=32,y=16."""
    parts = [part.strip() for part in text.split(",")]
    if "=" in text:
        pairs = [part.partition("=") for part in parts]
        return {name.strip(): _number(value.strip()) for name, _, value in pairs}
    return [_number(part) for part in parts] if len(parts) > 1 else _number(text)


def _number(text: str) -> Any:
    for number in (int, float):
        with contextlib.suppress(ValueError):
            return number(text)
    return text


def option(
    default: Any, help: str, kind: Kind | None = None, *, verbs: tuple[str, ...] = VERBS
) -> Any:
    """A field of a method. Without a kind it can be given in Python only."""
    return dataclasses.field(
        default=default, metadata={"help": help, "kind": kind, "verbs": verbs, "group": None}
    )


def group(default: Any, kind: type, help: str, *, verbs: tuple[str, ...] = VERBS) -> Any:
    """A field that holds options of its own, an instance of the dataclass `kind`."""
    return dataclasses.field(
        default=default, metadata={"help": help, "kind": None, "verbs": verbs, "group": kind}
    )


def own_options(owner: type) -> Iterator[Option]:
    """The options of a dataclass in their order."""
    for field in dataclasses.fields(owner):
        if field.metadata:
            yield Option(field.name, field.default, **field.metadata)


def flat_options(owner: type, verb: str | None = None) -> dict[str, Option]:
    """All options by name, those of groups among them; those of one verb if it is named."""
    found: dict[str, Option] = {}
    for each in own_options(owner):
        if verb is not None and verb not in each.verbs:
            continue
        inner = {each.name: each} if each.group is None else flat_options(each.group, verb)
        found |= inner
    return found


def check_options(owner: Any) -> None:
    """Check every option of an instance; its `__post_init__` calls this."""
    for each in own_options(type(owner)):
        value = getattr(owner, each.name)
        if each.group is None:
            object.__setattr__(owner, each.name, each.check(value))
        elif value is not None and not isinstance(value, each.group):
            raise ValueError(
                f"{each.name} must be {each.group.__name__}(...), got {value!r}"
                + ("" if each.default is not None else ", or None")
            )


def given_options(owner: Any) -> dict[str, Any]:
    """The options that are not at their defaults, by their flat names."""
    given: dict[str, Any] = {}
    for each in own_options(type(owner)):
        value = getattr(owner, each.name)
        if each.group is not None:
            if value is not None:
                given |= given_options(value)
        elif not _same(value, each.default):
            given[each.name] = value
    return given


def check_verb(method: Any, verb: str) -> None:
    """Refuse options that only the other verb reads."""
    allowed = flat_options(type(method), verb)
    for name, value in given_options(method).items():
        if name not in allowed:
            what = "data" if verb == "solve" else "equations"
            raise ValueError(
                f"{name}={value!r} is an option for {what}, and pann.{verb} does not read it; "
                f"leave it out of {type(method).__name__}(...)"
            )


def grouped(owner: type, given: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of a dataclass from flat options: those of a group become one."""
    arguments: dict[str, Any] = {}
    for each in own_options(owner):
        if each.group is None:
            if each.name in given:
                arguments[each.name] = given[each.name]
            continue
        inner = {name: given[name] for name in flat_options(each.group) if name in given}
        if inner:
            arguments[each.name] = each.group(**grouped(each.group, inner))
    return arguments


def check_names(owner: type, given: Mapping[str, Any], verb: str | None = None) -> None:
    """Refuse names that are no options."""
    known = flat_options(owner, verb)
    for name in given:
        choose(f"option of {owner.__name__}", name, tuple(known))


def choose(what: str, given: str, choices: Sequence[str]) -> str:
    """The choice that was given, or a sentence with those that there are."""
    if given in choices:
        return given
    lower = {choice.lower(): choice for choice in choices}
    close = difflib.get_close_matches(str(given).lower(), lower, 1)
    meant = f" (did you mean {lower[close[0]]}?)" if close else ""
    raise ValueError(f"there is no {what} '{given}'{meant}; choose from {', '.join(choices)}")


def documented(owner: type[Owner]) -> type[Owner]:
    """Decorate a dataclass of options: its docstring lists them, its repr those that were given."""
    owner.__doc__ = (owner.__doc__ or "").rstrip() + "\n" + parameters_section(own_options(owner))
    owner.__repr__ = _repr  # type: ignore[method-assign]
    # Values are checked by their kinds, with a sentence, and not by a checker of annotations.
    owner.__no_type_check__ = True  # type: ignore[attr-defined]
    return owner


def parameters_section(options: Iterable[Option]) -> str:
    """The section of a docstring, in the style of NumPy, that documents options."""
    lines = ["", "    Parameters", "    ----------"]
    for each in options:
        wanted = "object" if each.kind is None else each.kind.wanted
        if each.group is not None:
            wanted = each.group.__name__
        only = "" if set(each.verbs) == set(VERBS) else f" Only in `pann.{each.verbs[0]}`."
        default = "" if each.group is not None else f", default {each.default!r}"
        text = f"{each.help[0].upper()}{each.help[1:]}.{only}"
        lines.append(f"    {each.name} : {wanted}{default}")
        lines += textwrap.wrap(text, 92, initial_indent=8 * " ", subsequent_indent=8 * " ")
    return "\n".join(lines) + "\n"


def _repr(self: Any) -> str:
    """What one would type: the options that are not at their defaults."""
    given = [
        f"{each.name}={getattr(self, each.name)!r}"
        for each in own_options(type(self))
        if not _same(getattr(self, each.name), each.default)
    ]
    return f"{type(self).__name__}({', '.join(given)})"


def _same(value: Any, default: Any) -> bool:
    return value is default or (type(value) is type(default) and bool(value == default))


def _refuse(name: str, wanted: str, value: Any) -> ValueError:
    shown = f"'{value}'" if isinstance(value, str) else repr(value)
    return ValueError(f"{name} must be {wanted}, got {shown}")


def _is_whole(value: Any, least: int) -> bool:
    is_whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    return bool(is_whole and value >= least)


# ---- Kinds of values ----


@dataclasses.dataclass(frozen=True)
class Whole:
    """A whole number of at least `least`, or one of some words; `none` allows None."""

    least: int = 0
    words: tuple[str, ...] = ()
    none: bool = False

    @property
    def wanted(self) -> str:
        words = "".join(f", or '{word}'" for word in self.words)
        return f"a whole number of at least {self.least}{words}{', or None' if self.none else ''}"

    def check(self, name: str, value: Any) -> Any:
        if self.none and (value is None or str(value).lower() == "none"):  # as it is typed
            return None
        if isinstance(value, str) and value in self.words:
            return value
        if not _is_whole(value, self.least):
            raise _refuse(name, self.wanted, value)
        return int(value)


@dataclasses.dataclass(frozen=True)
class Real:
    """A number above `above`, or of at least `least`, and below `below`."""

    least: float | None = None
    above: float | None = None
    below: float | None = None

    @property
    def wanted(self) -> str:
        if self.above == 0:
            low = "a positive number"
        elif self.above is not None:
            low = f"a number above {self.above:g}"
        else:
            low = "a number" if self.least is None else f"a number of at least {self.least:g}"
        return low + ("" if self.below is None else f" below {self.below:g}")

    def check(self, name: str, value: Any) -> float:
        is_number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
        if (
            not is_number
            or not np.isfinite(value)
            or (self.least is not None and value < self.least)
            or (self.above is not None and value <= self.above)
            or (self.below is not None and value >= self.below)
        ):
            raise _refuse(name, self.wanted, value)
        return float(value)


@dataclasses.dataclass(frozen=True)
class Choice:
    """One of some names; in Python also an instance of `types`."""

    names: tuple[str, ...]
    types: tuple[type, ...] = ()

    @property
    def wanted(self) -> str:
        more = "".join(f", or {kind.__name__}(...)" for kind in self.types)
        return f"one of {', '.join(self.names)}{more}"

    def check(self, name: str, value: Any) -> Any:
        if self.types and isinstance(value, self.types):
            return value
        if not isinstance(value, str):
            raise _refuse(name, self.wanted, value)
        return choose(name, value, self.names)


@dataclasses.dataclass(frozen=True)
class Flag:
    """True or False."""

    wanted: str = "True or False"

    def check(self, name: str, value: Any) -> bool:
        if not isinstance(value, bool | np.bool_):
            raise _refuse(name, self.wanted, value)
        return bool(value)


@dataclasses.dataclass(frozen=True)
class Widths:
    """Units of every hidden layer: one number for all of them, or one for each."""

    wanted: str = "a whole number of at least 0, or one of at least 1 for each layer"

    def check(self, name: str, value: Any) -> int | tuple[int, ...]:
        if _is_whole(value, 0):
            return int(value)
        is_list = isinstance(value, list | tuple) and len(value) > 0
        if not is_list or not all(_is_whole(each, 1) for each in value):
            raise _refuse(name, self.wanted, value)
        return tuple(int(each) for each in value)


@dataclasses.dataclass(frozen=True)
class Texts:
    """Some names, each one of `choices` where there are some; in Python also `types`."""

    choices: tuple[str, ...] = ()
    types: tuple[type, ...] = ()

    @property
    def wanted(self) -> str:
        of = f", each one of {', '.join(self.choices)}" if self.choices else ""
        return f"a name, or several{of}"

    def check(self, name: str, value: Any) -> tuple[Any, ...]:
        allowed = (str, *self.types)
        given = (value,) if isinstance(value, allowed) else value
        is_list = isinstance(given, list | tuple)
        if not is_list or not all(isinstance(each, allowed) for each in given):
            raise _refuse(name, self.wanted, value)
        for each in given:
            if isinstance(each, str) and self.choices:
                choose(name, each, self.choices)
        return tuple(given)


@dataclasses.dataclass(frozen=True)
class Levels:
    """A whole number, or one for each axis by name: {"x": 32, "y": 16}, typed x=32,y=16."""

    wanted: str = "a whole number of at least 1, or one for each axis by name"

    def check(self, name: str, value: Any) -> Any:
        if isinstance(value, Mapping) and value and all(isinstance(axis, str) for axis in value):
            return {axis: self.check(name, level) for axis, level in value.items()}
        if not _is_whole(value, 1):
            raise _refuse(name, self.wanted, value)
        return int(value)


@dataclasses.dataclass(frozen=True)
class Size:
    """A number of bytes, or a size such as "2GB"."""

    wanted: str = "a size such as '2GB', or a number of bytes"

    def check(self, name: str, value: Any) -> int:
        return parse_bytes(value)


@dataclasses.dataclass(frozen=True)
class Instance:
    """An object of some types; a whole number becomes an `of_number`; `none` allows None."""

    types: tuple[type, ...]
    of_number: type | None = None
    none: bool = False

    @property
    def wanted(self) -> str:
        names = " or ".join(f"{kind.__name__}(...)" for kind in self.types)
        number = "" if self.of_number is None else ", or a whole number of at least 1"
        return names + number + (", or None" if self.none else "")

    def check(self, name: str, value: Any) -> Any:
        if isinstance(value, self.types) or (value is None and self.none):
            return value
        if self.of_number is not None and _is_whole(value, 1):
            return self.of_number(int(value))
        raise _refuse(name, self.wanted, value)

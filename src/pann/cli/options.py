"""Options of methods and runs as they are typed: flags of the command line and values of files.

Everything is read from the fields of `pann.methods`: names, help, what values they take.
"""

import dataclasses
import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any

import typer

from pann.methods import METHODS, MLP, OF_VERB, Option, RunOptions, flat_options, method_named
from pann.methods.options import Choice, Flag, Real, Whole
from pann.regression.options import Options

# The method that is meant where options are given without its name, if it has all of them.
PREFERRED = ("hybrid", "polynomial")
AUTO = "auto"  # what an option does when it is left out


def method_options(verb: str) -> dict[str, Option]:
    """All options of the methods of a verb, by name."""
    found: dict[str, Option] = {}
    for name in OF_VERB[verb]:
        found = flat_options(METHODS[name], verb) | found
    return {name: each for name, each in found.items() if each.typed}


def methods_with(option: str, verb: str) -> list[str]:
    return [name for name in OF_VERB[verb] if option in flat_options(METHODS[name], verb)]


def table_options() -> dict[str, Option]:
    """Options of a fit to a table that can be typed, by name."""
    names = flat_options(Options)
    return {name: each for name, each in names.items() if each.typed and name != "held_out"}


def run_options(verb: str) -> dict[str, Option]:
    return flat_options(RunOptions, verb)


def choose_method(name: str | None, given: Mapping[str, Any], verb: str) -> Any:
    """The method with these options; where it is not named, one that has all of them.

    A width of 0 is no network, so that a sweep may cross it with others.
    """
    if given.get("width") == 0:
        return _without_network(name, {k: v for k, v in given.items() if k != "width"}, verb)
    if name is not None:
        return method_named(name, given, verb)
    if not given:
        return None
    for each in dict.fromkeys((*PREFERRED, *OF_VERB[verb])):
        if set(given) <= set(flat_options(METHODS[each], verb)):
            return method_named(each, given, verb)
    owners = "; ".join(f"{key} of {', '.join(methods_with(key, verb))}" for key in given)
    raise ValueError(f"no method has all of these options: {owners}; leave some out")


def _without_network(name: str | None, given: Mapping[str, Any], verb: str) -> Any:
    if unused := [key for key in given if key in flat_options(MLP)]:
        raise ValueError(f"width 0 is no network; leave out {', '.join(unused)}")
    if name == "paper":
        return dataclasses.replace(method_named(name, given, verb), network=None)
    return method_named("polynomial" if name in (None, "hybrid") else name, given, verb)


# ---- The command line ----


METAVARS = {Whole: "INTEGER", Real: "FLOAT", Choice: "NAME"}
METHOD_PANEL, RUN_PANEL = "Options of methods", "Options of the run"


def solve_parameters() -> Iterator[inspect.Parameter]:
    """Parameters of `pann solve`: options of the run and of the methods."""
    for option in run_options("solve").values():
        yield _parameter(option, RUN_PANEL)
    for name, option in method_options("solve").items():
        yield _parameter(option, METHOD_PANEL, f" \\[{', '.join(methods_with(name, 'solve'))}]")


def table_parameters() -> Iterator[inspect.Parameter]:
    """Parameters of `pann fit`: options of a fit to a table."""
    for option in table_options().values():
        yield _parameter(option, RUN_PANEL)


def _parameter(option: Option, panel: str, owners: str = "") -> inspect.Parameter:
    """The parameter of a Typer command for an option."""
    names = f" One of {', '.join(option.kind.names)}." if isinstance(option.kind, Choice) else ""
    flag = _flag(option.name)
    is_flag = isinstance(option.kind, Flag)
    return inspect.Parameter(
        option.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=None,
        annotation=Annotated[
            bool | None if is_flag else str | None,
            typer.Option(
                f"{flag}/--no-{flag[2:]}" if is_flag else flag,
                help=f"{option.help[0].upper()}{option.help[1:]}.{names}{owners}",
                metavar=None if is_flag else METAVARS.get(type(option.kind), "TEXT"),
                rich_help_panel=panel,
                show_default=False,
            ),
        ],
    )


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def with_parameters(make: Callable[[], Iterator[inspect.Parameter]]) -> Any:
    """Decorate a command that takes `**typed`: its signature gets these parameters."""

    def decorate(command: Any) -> Any:
        own = inspect.signature(command)
        plain = [p for p in own.parameters.values() if p.kind is not p.VAR_KEYWORD]
        parameters = [p.replace(kind=p.KEYWORD_ONLY) for p in plain] + list(make())
        command.__signature__ = own.replace(parameters=parameters)
        command.__annotations__ = {p.name: p.annotation for p in parameters}
        return command

    return decorate


def typed_values(typed: Mapping[str, Any], options: Mapping[str, Option]) -> dict[str, Any]:
    """The values that were typed, by name; errors name the flag."""
    values = {}
    for name, text in typed.items():
        if text is None or name not in options or text == AUTO:
            continue
        try:
            option = options[name]
            values[name] = option.check(text) if isinstance(text, bool) else option.parse(text)
        except ValueError as error:
            raise ValueError(re.sub(f"^{name}", _flag(name), str(error))) from None
    return values

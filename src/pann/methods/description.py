"""A method as plain values of JSON, for files, and back: only classes named here are made."""

import dataclasses
from typing import Any

from pann import training
from pann.errors import FileError
from pann.methods.options import given_options, grouped
from pann.network import embeddings, initialization
from pann.network.activations import ACTIVATIONS, RePU
from pann.pde.rows import Causal

TYPES: dict[str, type] = {
    name: kind
    for module in (training, embeddings, initialization)
    for name, kind in vars(module).items()
    if isinstance(kind, type) and dataclasses.is_dataclass(kind)
} | {kind.__name__: kind for kind in (Causal, RePU, *map(type, ACTIVATIONS.values()))}


def describe(method: Any, name: str) -> dict[str, Any] | None:
    """Name and options, or None if they hold what has no plain form, such as a basis."""
    try:
        options = {key: _plain(value) for key, value in given_options(method).items()}
    except TypeError:
        return None
    return {"method": name, "options": options}


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, tuple | list):
        return [_plain(each) for each in value]
    if isinstance(value, dict):
        return {"type": "dict", "value": {str(key): _plain(each) for key, each in value.items()}}
    kind: Any = TYPES.get(type(value).__name__)
    if kind is type(value):
        names = [each.name for each in dataclasses.fields(kind) if each.init]
        fields = {name: _plain(getattr(value, name)) for name in names}
        return {"type": kind.__name__} | fields
    raise TypeError(f"{type(value).__name__} has no plain form")


def restore(owners: dict[str, type], value: Any, what: str) -> Any:
    """The method that `describe` described; anything else is a `FileError`."""
    try:
        owner = owners[value["method"]]
        options = {key: _restored(each) for key, each in value["options"].items()}
        return owner(**grouped(owner, options))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise FileError(f"{what} is not the description of a method ({error})") from error


def _restored(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_restored(each) for each in value)
    if not isinstance(value, dict):
        return value
    if value.get("type") == "dict":
        return {key: _restored(each) for key, each in value["value"].items()}
    fields = {key: _restored(each) for key, each in value.items() if key != "type"}
    return TYPES[value["type"]](**fields)

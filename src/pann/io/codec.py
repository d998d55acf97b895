"""Objects as a description in JSON and arrays, and back, by declarations.

A `Record` declares how the objects of a class lie in a file: the entries of their description,
each with its own codec, and their arrays, each with its dtype and shape as a signature would have
them, "float64 num_nodes 2". Records nest. Encoding and decoding are written once, here, and a file
can make nothing but what is declared: an entry or array too many, one too few, and one of another
type or shape are refused with a sentence. To store a new class, declare a record; to add a field,
add an entry or an array.
"""

import abc
import contextlib
import dataclasses
import operator
import os
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import equinox as eqx
import jax
import numpy as np

from pann.errors import FileError
from pann.io.checks import MAX_SIZE, Check, check_list, check_object, look_up, one_line, shown

Arrays: TypeAlias = dict[str, np.ndarray]
# Values by name: the entries that are decoded, and what the objects around them made known.
Values: TypeAlias = types.SimpleNamespace
# The dtype of an array, or `precision` for that of the model, and its lengths: numbers, names of
# values that are numbers or lists, or `any`. A list for a list of arrays; None for no array.
Shape: TypeAlias = str | list[str] | None


@dataclasses.dataclass(frozen=True)
class Source:
    """The arrays of a file, each taken once by its name after a prefix."""

    left: Arrays
    prefix: str = ""

    def within(self, prefix: str) -> "Source":
        return Source(self.left, self.prefix + prefix)

    def take(self, name: str, dtype: str, shape: tuple[int | None, ...]) -> np.ndarray:
        """An array of this dtype and shape, with finite numbers."""
        name = self.prefix + name
        if name not in self.left:
            raise FileError(f"the array '{name}' is missing")
        array = self.left.pop(name)
        fits = len(array.shape) == len(shape) and all(
            wanted is None or length == wanted
            for length, wanted in zip(array.shape, shape, strict=True)
        )
        if array.dtype != dtype or not fits:
            wanted = "(" + ", ".join("any" if n is None else str(n) for n in shape) + ")"
            raise FileError(
                f"the array '{name}' must be {dtype} of shape {wanted[:60]}, but is "
                f"{array.dtype} of shape {shown(array.shape)}"
            )
        if not np.isfinite(array).all():
            raise FileError(
                f"the array '{name}' has numbers that are NaN or infinite, so that the model "
                "cannot predict; train it again"
            )
        return array


def on_device(array: np.ndarray) -> jax.Array:
    """The same numbers of the same type for JAX."""
    with jax.enable_x64(True):
        return jax.device_put(array)


class Codec(abc.ABC):
    """How a value becomes JSON and arrays, and comes back."""

    @abc.abstractmethod
    def encode(self, value: Any) -> tuple[Any, Arrays]: ...

    @abc.abstractmethod
    def decode(self, value: Any, what: str, source: Source, known: Values) -> Any:
        """The value, or a `FileError` that says what is wrong with `what`."""


def decode(codec: Codec, description: Any, arrays: Mapping[str, np.ndarray]) -> Any:
    """The object of a description and arrays, all of which must be used."""
    source = Source(dict(arrays))
    value = codec.decode(description, "the description", source, Values())
    for name in source.left:
        raise FileError(f"there is no place for an array {shown(name)}")
    return value


def encode(codec: Codec, value: Any) -> tuple[Any, Arrays]:
    """The description and arrays of an object.

    What could not be decoded is refused now, while the object still exists.
    """
    description, arrays = codec.encode(value)
    decode(codec, description, arrays)
    return description, arrays


@contextlib.contextmanager
def naming(path: str | os.PathLike[str]) -> Iterator[None]:
    """Name the file in the sentence that says why it does not load."""
    try:
        yield
    except FileError as error:
        raise FileError(f"cannot load {os.fspath(path)!r}: {error}") from error


@dataclasses.dataclass(frozen=True)
class Plain(Codec):
    """A value of JSON that passes a check; `plain` makes it one where it is not."""

    check: Check
    plain: Callable[[Any], Any] = lambda value: value

    def encode(self, value: Any) -> tuple[Any, Arrays]:
        return self.plain(value), {}

    def decode(self, value: Any, what: str, source: Source, known: Values) -> Any:
        return self.check(value, what)


@dataclasses.dataclass(frozen=True)
class Optional(Codec):
    """The value of another codec, or None."""

    codec: Codec

    def encode(self, value: Any) -> tuple[Any, Arrays]:
        return (None, {}) if value is None else self.codec.encode(value)

    def decode(self, value: Any, what: str, source: Source, known: Values) -> Any:
        return None if value is None else self.codec.decode(value, what, source, known)


@dataclasses.dataclass(frozen=True)
class Prefixed(Codec):
    """The value of another codec, whose arrays have a prefix in their names."""

    prefix: str
    codec: Codec

    def encode(self, value: Any) -> tuple[Any, Arrays]:
        description, arrays = self.codec.encode(value)
        return description, {self.prefix + name: array for name, array in arrays.items()}

    def decode(self, value: Any, what: str, source: Source, known: Values) -> Any:
        return self.codec.decode(value, what, source.within(self.prefix), known)


@dataclasses.dataclass(frozen=True)
class Listed(Codec):
    """A list of values of one codec; in the prefix of their arrays, {} stands for the number."""

    codec: Codec
    prefix: str = ""
    each: str = ""  # what an element is called in messages
    least: int = 0  # how many there must be
    most: int = MAX_SIZE

    def encode(self, value: Any) -> tuple[Any, Arrays]:
        encoded = [self._at(number).encode(element) for number, element in enumerate(value)]
        arrays = {name: array for _, own in encoded for name, array in own.items()}
        return [description for description, _ in encoded], arrays

    def decode(self, value: Any, what: str, source: Source, known: Values) -> Any:
        each = self.each or f"each of {what}"
        return tuple(
            self._at(number).decode(element, each, source, known)
            for number, element in enumerate(check_list(value, what, self.least, self.most))
        )

    def _at(self, number: int) -> Prefixed:
        return Prefixed(self.prefix.format(number), self.codec)


@dataclasses.dataclass(frozen=True)
class Record(Codec):
    """The objects of a class: entries of their description, then their arrays.

    Both are attributes of an object by their names; an entry that is not is a length of its arrays.
    An entry by the name of an array says whether it is there.
    A shape that needs more than names is a function of the values, which `check` has seen, with the
    `sizes` that follow from them. Where a class is not just its fields, `split` gives the values of
    an object by name and `build` makes it of such values. An entry of `optional` is left out where
    an object has none, and is then None. `context` makes values known to the entries beyond those
    before them. Modules of Equinox have their arrays on the device.
    """

    kind: type
    what: str
    entries: Mapping[str, Codec]
    arrays: Mapping[str, Shape | Callable[[Values], Shape]] = dataclasses.field(
        default_factory=dict
    )
    check: Callable[[Values], None] = lambda values: None
    sizes: Callable[[Values], dict[str, int]] = lambda values: {}
    split: Callable[[Any], dict[str, Any]] | None = None
    build: Callable[[Values], Any] | None = None
    optional: Sequence[str] = ()
    context: Callable[[Values], dict[str, Any]] = lambda known: {}

    def encode(self, value: Any) -> tuple[Any, Arrays]:
        names = [name for name in (*self.entries, *self.arrays) if hasattr(value, name)]
        values = self.split(value) if self.split else {n: getattr(value, n) for n in names}
        own: Arrays = {}
        for name, shape in self.arrays.items():
            array = values.get(name)
            if isinstance(array, list):
                own |= {f"{name}_{k}": np.asarray(each) for k, each in enumerate(array)}
            elif array is not None:
                own[name] = np.asarray(array)
                if isinstance(shape, str):
                    lengths = zip(shape.split()[1:], own[name].shape, strict=False)
                    values = {**dict(lengths), **values}
        description: dict[str, Any] = {}
        arrays: Arrays = {}
        for key, codec in self.entries.items():
            if key in values:
                description[key], inner = codec.encode(values[key])
                arrays |= inner
        return description, arrays | own

    def decode(self, value: Any, what: str, source: Source, known: Values) -> Any:
        required = [key for key in self.entries if key not in self.optional]
        check_object(value, self.what, required, self.optional)
        found = Values(**{**vars(known), **self.context(known)})
        for key, codec in self.entries.items():
            label = f"'{key}' of {self.what}"
            entry = codec.decode(value[key], label, source, found) if key in value else None
            setattr(found, key, entry)
        try:
            self.check(found)
            vars(found).update(self.sizes(found))
            for name, shape in self.arrays.items():
                declared = shape(found) if callable(shape) else shape
                setattr(found, name, self._take(source, name, declared, found))
            if self.build is not None:
                return self.build(found)
            fields = [field.name for field in dataclasses.fields(self.kind)]
            return self.kind(**{name: getattr(found, name) for name in fields})
        except FileError:
            raise
        except ValueError as error:
            raise FileError(f"{self.what} is wrong: {one_line(error)}") from None

    def _take(self, source: Source, name: str, shape: Shape, known: Values) -> Any:
        if isinstance(shape, list):
            return [self._take(source, f"{name}_{k}", s, known) for k, s in enumerate(shape)]
        if shape is None:
            return None
        dtype, *lengths = shape.split()
        dtype = known.precision if dtype == "precision" else dtype
        array = source.take(name, dtype, tuple(_length(each, known) for each in lengths))
        return on_device(array) if issubclass(self.kind, eqx.Module) else array


def _length(given: str, known: Values) -> int | None:
    if given == "any":
        return None
    value = int(given) if given.isdigit() else operator.attrgetter(given)(known)
    return value if isinstance(value, int) else len(value)


@dataclasses.dataclass(frozen=True)
class OneOf(Codec):
    """An object of one of several classes: the entry `tag` of its description names which.

    `untagged` is the class whose description has no such entry. With `short`, the description of
    an object without entries is its name alone.
    """

    what: str
    records: Mapping[str, Record]
    tag: str = "name"
    untagged: Record | None = None
    short: bool = False

    def encode(self, value: Any) -> tuple[Any, Arrays]:
        if self.untagged is not None and type(value) is self.untagged.kind:
            return self.untagged.encode(value)
        for name, record in self.records.items():
            if type(value) is record.kind:
                description, arrays = record.encode(value)
                is_name = self.short and not record.entries
                return name if is_name else {self.tag: name, **description}, arrays
        raise FileError(
            f"{shown(value)} cannot be saved as {self.what}, for it is not one of pann's: "
            f"{', '.join(self.records)}"
        )

    def decode(self, value: Any, what: str, source: Source, known: Values) -> Any:
        is_name = self.short and not isinstance(value, dict)
        entries = dict(value) if isinstance(value, dict) else {}
        if self.untagged is not None and self.tag not in entries:
            return self.untagged.decode(value, what, source, known)
        name = value if is_name else entries.pop(self.tag, None)
        choices = {
            key: record
            for key, record in self.records.items()
            if not self.short or is_name != bool(record.entries)
        }
        record = look_up(name, f"the {self.tag} of {self.what}", choices)
        return record.decode(entries, what, source, known)

"""Work that survives being killed: one file with finished results and the state of the rest.

Work is cut into units with names. A finished unit leaves its result, one under way the state from
which it resumes with the same bits. The file is replaced as a whole: a killed process loses what it
did since the last write, and nothing else.
"""

import contextlib
import dataclasses
import pathlib
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from pann.errors import FileError
from pann.io.checks import check_dict, check_number, check_object, check_string, shown
from pann.io.container import read, write
from pann.runtime.atomic import remove_leftovers

FILE_NAME = "checkpoint.pann"
KIND = "checkpoint"
# At most this many differences of configurations are shown: the first ones cause the others.
SHOWN = 3
UNDER_WAY, DONE = "under way", "done"

Tree = TypeVar("Tree", bound=PyTree)


class Saved(NamedTuple):
    """What a unit needs to resume: arrays by name, and notes that JSON can hold."""

    arrays: dict[str, np.ndarray]
    notes: dict[str, Any]


@dataclasses.dataclass
class _File:
    """The file, what it holds, and what waits to be written."""

    path: pathlib.Path
    configuration: dict[str, str]
    interval: float | int
    units: dict[str, Saved]
    seconds_before: float = 0.0
    start: float = dataclasses.field(default_factory=time.monotonic)
    written: float = dataclasses.field(default_factory=time.monotonic)
    waiting: tuple[str, Callable[[], Saved]] | None = None

    def write(self) -> None:
        if self.waiting is not None:
            name, make = self.waiting
            self.units[name] = make()
            self.waiting = None
        description = {
            "configuration": self.configuration,
            "units": {name: saved.notes for name, saved in self.units.items()},
            "seconds": self.seconds_before + time.monotonic() - self.start,
        }
        # Names of units may be any text, those of arrays not: they have the number of the unit.
        arrays = {
            f"u{number}.{key}": array
            for number, saved in enumerate(self.units.values())
            for key, array in saved.arrays.items()
        }
        write(self.path, KIND, description, arrays)
        self.written = time.monotonic()

    def write_if_due(self) -> None:
        if time.monotonic() - self.written >= self.interval:
            self.write()


@dataclasses.dataclass(frozen=True)
class Checkpoint:
    """Units of work in a file, or, without one, nowhere; scopes keep their names apart."""

    file: _File | None = None
    scope: str = ""

    def within(self, name: str) -> "Checkpoint":
        return Checkpoint(self.file, f"{self.scope}{name}/")

    def done(self) -> Saved | None:
        """The result of this scope's work, if it was finished before."""
        return None if self.file is None else self.file.units.get(self.scope + DONE)

    def under_way(self) -> Saved | None:
        """The state in which this scope's work was left."""
        return None if self.file is None else self.file.units.get(self.scope + UNDER_WAY)

    def keep(self, make: Callable[[], Saved]) -> None:
        """Note the state of the work; it is written if the last write is an interval ago."""
        if self.file is None:
            return
        self.file.waiting = self.scope + UNDER_WAY, make
        self.file.write_if_due()

    def finish(self, make: Callable[[], Saved]) -> None:
        """Note the result, in the place of all that led to it."""
        if self.file is None:
            return
        units = self.file.units
        for name in [name for name in units if name.startswith(self.scope)]:
            del units[name]
        self.file.waiting = None
        units[self.scope + DONE] = make()
        self.file.write_if_due()

    def flush(self) -> None:
        """Write what waits, whenever the last write was."""
        if self.file is not None and (self.file.waiting is not None or self.file.units):
            self.file.write()

    @property
    def seconds_before(self) -> float:
        """How long the work had taken when it was interrupted."""
        return 0.0 if self.file is None else self.file.seconds_before

    def close(self) -> None:
        """Keep only the configuration: all is done, and nothing is done again."""
        if self.file is not None:
            self.file.units.clear()
            self.file.waiting = None
            self.file.write()


NOWHERE = Checkpoint()


def open_checkpoint(
    folder: pathlib.Path, configuration: dict[str, str], *, resume: bool, interval: float | int
) -> tuple[Checkpoint, bool]:
    """The checkpoint in a folder, and whether all the work was finished before.

    Another configuration than that of the work there is refused; so is unfinished work where it
    is not to be resumed, for it would be lost.
    """
    path = folder / FILE_NAME
    remove_leftovers(folder)
    fresh = Checkpoint(_File(path, configuration, interval, {}))
    if not path.exists():
        return fresh, False
    before, units, seconds = _read(path)
    if not resume and not units:
        return fresh, False
    if not resume:
        raise ValueError(
            f"'{folder}' holds work that was interrupted after {seconds:,.0f} s; go on with it by "
            f"resume=True (--resume), name another folder, or delete {FILE_NAME} there"
        )
    differences = [
        f"{name} is {before.get(name)} there and {configuration.get(name)} here"
        for name in {**configuration, **before}
        if before.get(name) != configuration.get(name)
    ]
    if differences:
        raise ValueError(
            f"'{folder}' holds work of another configuration: {'; '.join(differences[:SHOWN])}; "
            "use the options it was begun with, or another folder"
        )
    return Checkpoint(_File(path, configuration, interval, units, seconds)), not units


@contextlib.contextmanager
def kept_in(
    folder: pathlib.Path, configuration: dict[str, str], interval: float | int = 30.0
) -> Iterator[Checkpoint]:
    """A checkpoint that resumes what the folder has, and is also written when the work stops."""
    checkpoint, _ = open_checkpoint(folder, configuration, resume=True, interval=interval)
    try:
        yield checkpoint
    except BaseException:
        with contextlib.suppress(FileError):
            checkpoint.flush()
        raise


def _read(path: pathlib.Path) -> tuple[dict[str, str], dict[str, Saved], float]:
    """The configuration, the units and the seconds that `_File.write` has written."""
    contents = read(path)
    try:
        what, keys = "the checkpoint", ("configuration", "units", "seconds")
        stored = check_object(contents.description, what, keys)
        configuration = check_dict(stored["configuration"], f"'configuration' of {what}")
        for text in configuration.values():
            check_string(text, f"'configuration' of {what}")
        units = {
            name: Saved({}, check_dict(notes, "a unit"))
            for name, notes in check_dict(stored["units"], f"'units' of {what}").items()
        }
        numbered = {f"u{number}": saved for number, saved in enumerate(units.values())}
        for name, array in contents.arrays.items():
            number, _, key = name.partition(".")
            if number not in numbered:
                raise FileError(f"there is no place for an array {shown(name)}")
            numbered[number].arrays[key] = array
        return configuration, units, check_number(stored["seconds"], f"'seconds' of {what}")
    except FileError as error:
        raise FileError(
            f"'{path}' is no usable checkpoint: {error}; delete it to start over"
        ) from error


def packed(name: str, tree: PyTree) -> dict[str, np.ndarray]:
    """The leaves of a tree of arrays, numbered; random keys as the integers they are made of."""
    return {f"{name}.{number}": _plain(leaf) for number, leaf in enumerate(jax.tree.leaves(tree))}


def unpacked(name: str, arrays: Mapping[str, np.ndarray], like: Tree) -> Tree:
    """A tree with the structure of `like` and the leaves that were packed."""
    leaves, structure = jax.tree.flatten(like)
    restored = []
    for number, leaf in enumerate(leaves):
        array = arrays.get(f"{name}.{number}")
        if array is None or array.shape != _plain(leaf).shape:
            raise FileError(
                f"the checkpoint does not fit this work ({name}, array {number}); delete "
                f"{FILE_NAME} to start over"
            )
        if _is_key(leaf):
            data = jnp.asarray(array.astype(np.uint32))
            restored.append(jax.random.wrap_key_data(data))
        else:
            restored.append(jnp.asarray(array, jnp.asarray(leaf).dtype))
    return jax.tree.unflatten(structure, restored)


def _is_key(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _plain(leaf: Any) -> np.ndarray:
    array = np.asarray(jax.random.key_data(leaf) if _is_key(leaf) else leaf)
    return array.astype(np.int64) if array.dtype == np.uint32 else array

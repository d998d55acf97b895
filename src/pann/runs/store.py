"""The store: a folder of records, each complete as soon as it exists; or one file of them, to read.

`Store(folder)` reads and writes. `Store("records.jsonl.xz")`, made by `pack` (see
`pann.runs.archive`), has the same records, and cannot be written to; `copy_records` copies it into
a folder for a sweep that extends it.
"""

import dataclasses
import functools
import hashlib
import json
import os
import pathlib
import secrets
import shutil
import tempfile
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from pann.io import FileError, read, write
from pann.runs.archive import SUFFIX, Archive, read_archive
from pann.runs.frame import make_frame
from pann.runs.locks import LIFETIME, Claim, Claims, clock
from pann.runs.row import Row, canonical
from pann.runtime.atomic import (
    disk_errors,
    reason,
    remove_leftovers,
    temporary_file,
    write_atomically,
)

if TYPE_CHECKING:
    import pandas as pd

DONE, FAILED = "done", "failed"
KIND = "run"  # of the files of arrays
ID_FILE = "store.json"
_KEYS = {"identity", "status", "configuration", "started", "finished"}


@dataclasses.dataclass(frozen=True)
class Store:
    """Runs in a folder; `lifetime` is that of the claims made here, in seconds."""

    folder: pathlib.Path | str
    lifetime: float = LIFETIME

    def __post_init__(self) -> None:
        if not self.lifetime > 0:
            raise ValueError(f"lifetime must be positive, got {self.lifetime}; it is in seconds")
        # An absolute path: workers, or the work itself, may change their folder.
        object.__setattr__(self, "folder", pathlib.Path(self.folder).absolute())

    @property
    def claims(self) -> Claims:
        return Claims(self._folder / "claims", self.lifetime)

    # ---- Reading ----

    def record(self, row: Row) -> dict[str, Any] | None:
        """What is known of a row: how it was done or failed; None if nothing is."""
        path = self._record_path(row)
        archive = self._archive
        record = _read_record(path) if archive is None else archive.records.get(row.identity)
        if record is not None and canonical(record["configuration"]) != canonical(
            dict(row.configuration)
        ):
            raise FileError(
                f"'{path}' is the record of another configuration; it was changed or moved by "
                "hand: restore or delete it"
            )
        return record

    def arrays(self, row: Row) -> dict[str, np.ndarray]:
        """The arrays of a row that is done; none if it gave none."""
        record = self.record(row)
        if record is None or record["status"] != DONE:
            raise ValueError(f"row {row.identity} of '{row.experiment}' is not done; run it first")
        if not record["arrays"]:
            return {}
        archive = self._archive
        return archive.arrays(row.identity) if archive else read(self._arrays_path(row)).arrays

    def records(self, experiment: str | None = None) -> list[dict[str, Any]]:
        """All records, or those of one experiment, in the order in which they began."""
        if self._archive is not None:
            every = self._archive.records.values()
            records = [r for r in every if experiment in (None, r["experiment"])]
        else:
            paths = (self._folder / "runs").glob(f"{experiment or '*'}/[!.]*.json")
            records = [record for path in paths if (record := _read_record(path)) is not None]
        return sorted(records, key=lambda record: (record["started"], record["identity"]))

    def frame(self, experiment: str | None = None) -> "pd.DataFrame":
        """A pandas frame with one line per run; see `pann.runs.frame` for its columns."""
        return make_frame(self.records(experiment))

    # ---- Writing ----

    def scratch(self, *rows: Row) -> pathlib.Path:
        """A folder for the checkpoints of one row, or of several that run as one program.

        It is removed when the first of the rows is done.
        """
        folder = self._folder / "work" / rows[0].identity
        if len(rows) > 1:
            digest = hashlib.sha256(" ".join(row.identity for row in rows).encode("ascii"))
            folder = folder.with_name(f"{folder.name}-{digest.hexdigest()[:8]}")
        with disk_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
        return folder

    def is_begun(self, row: Row) -> bool:
        """Whether a run of this row alone has left a checkpoint."""
        folder = self._folder / "work" / row.identity
        return folder.is_dir() and any(folder.iterdir())

    def add(
        self, row: Row, record: dict[str, Any], arrays: Mapping[str, np.ndarray], claim: Claim
    ) -> bool:
        """Record a run, arrays first; False if the claim was lost or there is a record already."""
        path = self._record_path(row)
        text = json.dumps(record, indent=1, allow_nan=False) + "\n"
        with disk_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            with temporary_file(path.parent) as new, temporary_file(path.parent) as new_arrays:
                if arrays:
                    _write_arrays(new_arrays, row, arrays)
                with new.open("x", encoding="ascii") as file:
                    file.write(text)
                    file.flush()
                    os.fsync(file.fileno())
                with self.claims.locked():
                    if not claim.confirm() or path.exists():
                        return False
                    if arrays:
                        os.replace(new_arrays, self._arrays_path(row))
                    os.replace(new, path)
        if record["status"] == DONE:
            for folder in (self._folder / "work").glob(f"{row.identity}*"):
                shutil.rmtree(folder, ignore_errors=True)
        return True

    def forget_failure(self, row: Row, finished: str) -> None:
        """Remove the record of the failure of that time, and no other."""
        path = self._record_path(row)
        with disk_errors(path), self.claims.locked():
            record = _read_record(path)
            if record is not None and is_failure(record, finished):
                path.unlink()

    def prepare(self) -> None:
        """Make the folders, and find out before the work whether they can be written to."""
        if self._archive is not None:
            raise FileError(
                f"'{self._folder}' is a packed store, which is only read; unpack it into a folder, "
                "and name that one"
            )
        try:
            for name in ("runs", "claims", "work"):
                (self._folder / name).mkdir(parents=True, exist_ok=True)
                with tempfile.TemporaryFile(dir=self._folder / name):
                    pass
            # Files of killed writers; younger ones may belong to a living writer.
            before = clock(self.claims.folder) - max(self.lifetime, LIFETIME)
            for folder in (self._folder / "runs").iterdir():
                remove_leftovers(folder, before)
        except (FileExistsError, NotADirectoryError):
            raise FileError(f"'{self._folder}' is not a folder; name one for the store") from None
        except OSError as error:
            raise FileError(
                f"cannot write to the store '{self._folder}': {reason(error)}; check its "
                "permissions and the space on its disk, or name another folder"
            ) from error

    def make_id(self) -> str:
        """An identifier in the store, made once, by which other machines recognize the folder."""
        path = self._folder / ID_FILE
        content = json.dumps({"id": secrets.token_hex(16)})
        with disk_errors(path), self.claims.locked():
            if not path.exists():
                write_atomically(path, lambda new: pathlib.Path(new).write_text(content))
        identifier = self._read_id()
        if identifier is None:
            raise FileError(f"'{path}' does not identify a store; delete it to make a new one")
        return identifier

    def check_id(self, identifier: str) -> None:
        """Refuse a folder that only has the same path: nobody would see what is written there."""
        if self._read_id() != identifier:
            raise FileError(
                f"the store '{self.folder}' is not the folder that the sweep was started with; "
                "keep it where all machines see it by one path"
            )

    def _read_id(self) -> str | None:
        try:
            return str(json.loads((self._folder / ID_FILE).read_bytes())["id"])
        except (OSError, ValueError, TypeError, KeyError):
            return None

    # ---- Paths ----

    @property
    def _folder(self) -> pathlib.Path:
        return pathlib.Path(self.folder)

    @functools.cached_property
    def _archive(self) -> Archive | None:
        is_archive = self._folder.name.endswith(SUFFIX) and not self._folder.is_dir()
        return read_archive(self._folder) if is_archive else None

    def _record_path(self, row: Row) -> pathlib.Path:
        return self._folder / "runs" / row.experiment / f"{row.identity}.json"

    def _arrays_path(self, row: Row) -> pathlib.Path:
        return self._record_path(row).with_suffix(".pann")


def copy_records(source: Store, target: Store) -> int:
    """Copy the records that a store does not have yet, with their arrays; how many these were."""
    target.prepare()
    count = 0
    for record in source.records():
        row = Row(record["experiment"], record["configuration"])
        claim = target.claims.take(row.identity)
        if claim is not None:
            with claim.kept():
                arrays = source.arrays(row) if record["arrays"] else {}
                count += target.add(row, record, arrays, claim)
    return count


def is_failure(record: dict[str, Any], finished: str | None) -> bool:
    """Whether a record is that of the failure of that time."""
    return record["status"] == FAILED and record["finished"] == finished


def _write_arrays(path: pathlib.Path, row: Row, arrays: Mapping[str, np.ndarray]) -> None:
    header = {"identity": row.identity, "experiment": row.experiment}
    try:
        write(path, KIND, {**header, "configuration": dict(row.configuration)}, arrays)
    except FileError as error:
        # The caller describes a full disk, because it knows the name of the record.
        raise error.__cause__ if isinstance(error.__cause__, OSError) else error from None


def _read_record(path: pathlib.Path) -> dict[str, Any] | None:
    try:
        record = json.loads(path.read_bytes())
        if not set(record) >= _KEYS:
            raise ValueError("parts of it are missing")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise FileError(f"cannot read '{path}': {reason(error)}") from error
    except (ValueError, TypeError) as error:
        raise FileError(
            f"'{path}' is no record of a run ({error}); delete it to run its row again"
        ) from error
    return dict(record)

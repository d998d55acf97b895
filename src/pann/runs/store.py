"""The store: a folder of records that are complete as soon as they are there."""

import contextlib
import dataclasses
import hashlib
import json
import os
import pathlib
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pann.io import FileError, read, write
from pann.runs.claims import LIFETIME, Claim, Claims
from pann.runs.frame import make_frame
from pann.runs.row import Row, canonical
from pann.runs.writing import create_once, remove_if, remove_leftovers, temporary_path, writing_to

if TYPE_CHECKING:
    import pandas as pd

DONE, FAILED = "done", "failed"
KIND = "run"  # of the files of arrays


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
        record = _read_record(self._record_path(row))
        if record is not None and canonical(record["configuration"]) != canonical(
            dict(row.configuration)
        ):
            raise FileError(
                f"'{self._record_path(row)}' is the record of another configuration; it was "
                "changed or moved by hand: restore or delete it"
            )
        return record

    def arrays(self, row: Row) -> dict[str, np.ndarray]:
        """The arrays of a row that is done; none if it gave none."""
        record, path = self.record(row), self._arrays_path(row)
        if record is None or record["status"] != DONE:
            raise ValueError(f"row {row.identity} of '{row.experiment}' is not done; run it first")
        return read(path).arrays if record["arrays"] else {}

    def records(self, experiment: str | None = None) -> list[dict[str, Any]]:
        """All records, or those of one experiment, in the order in which they began."""
        paths = (self._folder / "runs").glob(f"{experiment or '*'}/[!.]*.json")
        records = [record for path in paths if (record := _read_record(path)) is not None]
        return sorted(records, key=lambda record: (record["started"], record["identity"]))

    def frame(self, experiment: str | None = None) -> "pd.DataFrame":
        """A pandas frame with one line a run; see `pann.runs.frame` for its columns."""
        return make_frame(self.records(experiment))

    # ---- Writing ----

    def scratch(self, row: Row) -> pathlib.Path:
        """A folder for the checkpoints of a row; it is removed when the row is done."""
        folder = self._folder / "work" / row.identity
        with writing_to(folder):
            folder.mkdir(parents=True, exist_ok=True)
        return folder

    def scratch_together(self, rows: Sequence[Row]) -> pathlib.Path:
        """A folder for the checkpoints of several rows; it is removed when the first is done."""
        digest = hashlib.sha256(" ".join(row.identity for row in rows).encode("ascii"))
        folder = self._folder / "work" / f"{rows[0].identity}-{digest.hexdigest()[:8]}"
        with writing_to(folder):
            folder.mkdir(parents=True, exist_ok=True)
        return folder

    def is_begun(self, row: Row) -> bool:
        """Whether a run of this row alone has left something to go on from."""
        folder = self._folder / "work" / row.identity
        return folder.is_dir() and any(folder.iterdir())

    def add(
        self, row: Row, record: dict[str, Any], arrays: Mapping[str, np.ndarray], claim: Claim
    ) -> bool:
        """Record a run, arrays first; False if the claim was lost or there is a record already."""
        path = self._record_path(row)
        text = json.dumps(record, indent=1, allow_nan=False) + "\n"
        with writing_to(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            with self._arrays_written(path.parent, row, arrays) as written:
                # What takes long is done; between here and the record lie two system calls.
                if not claim.confirm() or path.exists():
                    return False
                if written is not None:
                    os.replace(written, self._arrays_path(row))
                if not create_once(path, text.encode("ascii")):
                    return False
        if record["status"] == DONE:
            for folder in (self._folder / "work").glob(f"{row.identity}*"):
                shutil.rmtree(folder, ignore_errors=True)
        return True

    def forget_failure(self, row: Row, finished: str) -> None:
        """Remove the record of the failure of that time, and no other."""

        def is_meant(path: pathlib.Path) -> bool:
            record = _read_record(path)
            return record is not None and is_failure(record, finished)

        with writing_to(self._record_path(row)):
            remove_if(self._record_path(row), is_meant)

    def prepare(self) -> None:
        """Make the folders, and find out before the work whether they can be written to."""
        try:
            for name in ("runs", "claims", "work"):
                (self._folder / name).mkdir(parents=True, exist_ok=True)
                with tempfile.TemporaryFile(dir=self._folder / name):
                    pass
            for folder in (self.claims.folder, *(self._folder / "runs").glob("*/")):
                remove_leftovers(folder, age=max(self.lifetime, LIFETIME))
        except (FileExistsError, NotADirectoryError):
            raise FileError(f"'{self._folder}' is not a folder; name one for the store") from None
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise FileError(
                f"cannot write to the store '{self._folder}': {reason}; check its permissions and "
                "the space on its disk, or name another folder"
            ) from error

    # ---- Paths ----

    @property
    def _folder(self) -> pathlib.Path:
        return pathlib.Path(self.folder)

    def _record_path(self, row: Row) -> pathlib.Path:
        return self._folder / "runs" / row.experiment / f"{row.identity}.json"

    def _arrays_path(self, row: Row) -> pathlib.Path:
        return self._record_path(row).with_suffix(".pann")

    @contextlib.contextmanager
    def _arrays_written(
        self, folder: pathlib.Path, row: Row, arrays: Mapping[str, np.ndarray]
    ) -> Iterator[pathlib.Path | None]:
        """The arrays in a file that has no name of its own yet."""
        if not arrays:
            yield None
            return
        path = temporary_path(folder)
        header = {"identity": row.identity, "experiment": row.experiment}
        try:
            try:
                write(path, KIND, {**header, "configuration": dict(row.configuration)}, arrays)
            except FileError as error:
                # Of a full disk the caller tells, who knows the file's name.
                raise error.__cause__ if isinstance(error.__cause__, OSError) else error from None
            yield path
        finally:
            with contextlib.suppress(OSError):
                path.unlink()


def is_failure(record: dict[str, Any], finished: str | None) -> bool:
    """Whether a record is that of the failure of that time."""
    return record["status"] == FAILED and record["finished"] == finished


def _read_record(path: pathlib.Path) -> dict[str, Any] | None:
    try:
        record = json.loads(path.read_bytes())
        if not {"identity", "status", "configuration", "started", "finished"} <= set(record):
            raise ValueError("parts of it are missing")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise FileError(
            f"cannot read '{path}': {(error.strerror or str(error)).lower()}"
        ) from error
    except (ValueError, TypeError) as error:
        raise FileError(
            f"'{path}' is no record of a run ({error}); delete it to run its row again"
        ) from error
    return record

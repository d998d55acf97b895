"""A mark in a store, by which several machines find out whether they see the same folder."""

import json
import pathlib
import secrets

from pann.io import FileError
from pann.runs.store import Store
from pann.runs.writing import create_once, writing_to

FILE_NAME = "store.json"


def make_mark(store: Store) -> str:
    """The mark of a store, made once."""
    path = pathlib.Path(store.folder) / FILE_NAME
    content = json.dumps({"mark": secrets.token_hex(16)})
    with writing_to(path):
        create_once(path, content.encode("ascii"))
    mark = _read(path)
    if mark is None:
        raise FileError(f"'{path}' is no mark of a store; delete it, and a new one is made")
    return mark


def check_mark(store: Store, mark: str) -> None:
    """Refuse a folder that only has the same path: what is written there nobody would see."""
    path = pathlib.Path(store.folder) / FILE_NAME
    if _read(path) != mark:
        raise FileError(
            f"the store '{store.folder}' is not the folder that the sweep was started with; keep "
            "it where all machines see it by one path"
        )


def _read(path: pathlib.Path) -> str | None:
    try:
        return str(json.loads(path.read_bytes())["mark"])
    except (OSError, ValueError, TypeError, KeyError):
        return None

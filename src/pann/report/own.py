"""The page of a user's own folder: a store of runs, solved equations, fitted tables."""

import dataclasses
import pathlib
from collections.abc import Sequence

from pann.io import FileError
from pann.io.checkpoint import FILE_NAME as CHECKPOINT
from pann.report.models import model_section
from pann.report.page import Folded, Page, Section, Tile
from pann.report.runs import environment_sections, make_details, run_section
from pann.report.texts import counted, duration
from pann.runs import Store
from pann.runs.archive import SUFFIX as PACKED

SUFFIX = ".pann"
# The folders of a store, whose files belong to its runs.
STORE_FOLDERS = ("runs", "claims", "work")
MAX_MODELS = 60


def own_page(place: pathlib.Path) -> Page:
    """The page of a folder, or of one `.pann` file; opening them runs no code of theirs."""
    if not place.exists():
        raise ValueError(f"there is no '{place}'; name a folder with runs or models, or a model")
    stores = _stores(place)
    records = {store: store.records() for store in stores}
    models, refused = _models(place, stores)
    every = [record for own in records.values() for record in own]
    if not models and not every:
        why = f" ({refused[0]})" if refused else ""
        raise ValueError(
            f"there is nothing to report in '{place}'{why}; name a folder that pann solve --out, "
            "pann fit or a sweep wrote to"
        )
    sections = [*models]
    for own in records.values():
        for name in dict.fromkeys(record["experiment"] for record in own):
            section = run_section(name, [each for each in own if each["experiment"] == name])
            anchor = f"{section.anchor}-{len(sections)}"  # two stores may have it
            sections.append(dataclasses.replace(section, anchor=anchor))
    if every:
        sections += environment_sections(every)
    if refused:
        blocks = [Folded(f"Why ({len(refused)})", refused)]
        sections.append(Section("refused", "What is not shown", "", blocks, group="About"))
    details = [make_details(own, store) for store, own in records.items()]
    return Page(
        f"Report of {place.resolve().name}",
        "Runs and models with their figures, halves and curves.",
        _tiles(models, every),
        sections,
        # The same run may be in two stores.
        list({each.identity: each for own in details for each in own}.values()),
        "Written by pann report.",
    )


def _stores(place: pathlib.Path) -> list[Store]:
    """The folder itself and those below that have records of runs."""
    if not place.is_dir():
        return [Store(place)] if place.name.endswith(PACKED) else []
    found = [place / "runs", *sorted(place.rglob("*/runs"))]
    folders = [Store(each.parent) for each in found if any(each.glob("*/*.json"))]
    return folders + [Store(each) for each in sorted(place.rglob(f"*{PACKED}"))]


def _models(place: pathlib.Path, stores: Sequence[Store]) -> tuple[list[Section], list[str]]:
    """A section for each file of a model, and why others are not shown."""
    models: list[Section] = []
    refused: list[str] = []
    paths = [place] if place.is_file() and not stores else sorted(place.rglob(f"*{SUFFIX}"))
    parts = [pathlib.Path(store.folder) / name for store in stores for name in STORE_FOLDERS]
    for path in paths:
        is_part = any(part in path.absolute().parents for part in parts)
        if is_part or path.name == CHECKPOINT or path.name.startswith("."):
            continue
        name = path.name if place.is_file() else str(path.relative_to(place))
        if len(models) == MAX_MODELS:
            refused.append(f"{name}: a page has at most {MAX_MODELS} models")
            continue
        try:
            models.append(model_section(path, name, f"model-{len(models) + 1}"))
        except FileError as error:
            refused.append(f"{name}: {error}")
    return models, refused


def _tiles(models: Sequence[Section], records: Sequence[dict]) -> list[Tile]:
    tiles = []
    if models:
        tiles.append(Tile(*counted(len(models), "model").split()))
    if records:
        failed = sum(record["status"] != "done" for record in records)
        seconds = sum(record["seconds"] for record in records)
        note = duration(seconds) + (f", {failed} failed" if failed else "")
        tiles.append(Tile(f"{len(records) - failed:,}", "runs", note))
        names = {record["experiment"] for record in records}
        tiles.append(Tile(str(len(names)), "experiments"))
    return tiles

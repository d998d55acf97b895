"""The shape of the code: lines, functions, import chains, and what a call passes through.

`python -m benchmarks structure` counts the tree it runs in. Files and functions of a call are those
of `pann` that a profiler enters, on the smallest inputs; seconds of the import are the least of
five fresh processes.
"""

import ast
import functools
import pathlib
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import pann
from benchmarks.harness import Row

SOURCE = pathlib.Path(pann.__file__).parent


def rows() -> Iterator[Row]:
    for what, figures in _measured():
        for name, value in figures.items():
            yield {"what": what, "figure": name, "value": value}


def _measured() -> Iterator[tuple[str, Row]]:
    yield "src/pann", _sizes(SOURCE)
    reproduction = SOURCE.parents[1] / "reproduction"
    if reproduction.exists():
        yield "reproduction", _sizes(reproduction)
    for name, call in _calls().items():
        yield name, passed_through(call)
    yield "import pann", {"seconds": _import_seconds()}


def _sizes(folder: pathlib.Path) -> Row:
    texts = {path: path.read_text(encoding="utf-8") for path in folder.rglob("*.py")}
    functions = [
        node.end_lineno - node.lineno + 1
        for text in texts.values()
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef) and node.end_lineno is not None
    ]
    top = [path for path in texts if path.parent == folder and path.name != "__init__.py"]
    return {
        "lines": sum(len(text.splitlines()) for text in texts.values()),
        "files": len(texts),
        "modules at the top": len(top),
        "functions": len(functions),
        "median function": statistics.median(functions),
        "longest function": max(functions),
        "longest import chain": _longest_chain(folder, texts),
    }


def _longest_chain(folder: pathlib.Path, texts: dict[pathlib.Path, str]) -> int:
    """The largest number of modules that import one another in a line, at import time."""
    parts = {path: path.relative_to(folder.parent).with_suffix("").parts for path in texts}
    names = {
        ".".join(each[:-1] if each[-1] == "__init__" else each): path
        for path, each in parts.items()
    }

    @functools.cache
    def depth(name: str) -> int:
        found = set()
        for node in ast.parse(texts[names[name]]).body:
            if isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                full = {f"{node.module}.{alias.name}" for alias in node.names}
                found |= {each if each in names else node.module for each in full}
        return 1 + max((depth(each) for each in (found & set(names)) - {name}), default=0)

    return max(depth(name) for name in names)


def _calls() -> dict[str, Callable[[], Any]]:
    x = np.random.default_rng(0).uniform(-1, 1, (60, 2))
    y = x[:, 0] + x[:, 1] ** 2
    poisson, kdv = pann.problems.poisson(), pann.problems.kdv()
    return {
        "fit": lambda: pann.fit(x, y, progress=False),
        "PANNRegressor.fit": lambda: pann.PANNRegressor().fit(x, y),
        "solve(poisson)": lambda: pann.solve(poisson, progress=False),
        "solve(kdv)": lambda: pann.solve(kdv, progress=False),
    }


def passed_through(call: Callable[[], Any]) -> Row:
    """How many files and functions of pann a call enters."""
    functions: set[tuple[str, str]] = set()

    def note(frame: Any, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(str(SOURCE)):
            functions.add((code.co_filename, code.co_qualname))

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    named = {(file, name) for file, name in functions if "<" not in name.rpartition(".")[2]}
    return {"files": len({file for file, _ in named}), "functions": len(named)}


def _import_seconds() -> float:
    seconds = []
    for _ in range(5):
        begin = time.perf_counter()
        subprocess.run([sys.executable, "-c", "import pann"], check=True)
        seconds.append(time.perf_counter() - begin)
    return round(min(seconds), 2)

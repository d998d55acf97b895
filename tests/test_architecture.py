"""The shape of the code: imports go one way, heavy ones are lazy, and nothing is unpickled.

The rules are functions from a module's source to the list of what is wrong with it, so that the
last tests can show each of them a bad source and see it caught.
"""

import ast
import dataclasses
import json
import pathlib
import subprocess
import sys

import pytest

SOURCE = pathlib.Path(__file__).parent.parent / "src"

# The way the data goes. A module imports from its own layer and from those before it.
LAYERS = (
    "errors",
    "domain",
    "system_memory",
    "compiling",
    "matrix_products",
    "array_cache",
    "bounded_cache",
    "disks",
    "quadrature",
    "points",
    "extrapolation",
    "samples",
    "devices",
    "chunks",
    "parts",
    "basis",
    "network",
    "model",
    "architecture",
    "files",
    "checkpoints",
    "orthogonality",
    "loss",
    "chunked_data",
    "runtime_limits",
    "training",
    "progress",
    "fitting",
    "unused_options",
    "regression",
    "pde",
    "pictures",
    "solution",
    "solving",
    "solve",
    "kept",
    "together",
    "fits_together",
    "reference",
    "problems",
    "scaling",
    "degrees",
    "tabular",
    "sensitivity",
    "table_files",
    "baselines",
    "targets",
    "runs",
    "plotting",
    "estimator",
    "loading",
    "tables",
    "table_commands",
    "table_reports",
    "command_options",
    "compilation_cache",
    "problem_files",
    "solve_commands",
    "grid_options",
    "grid_work",
    "grid_files",
    "demo",
    "paper",
    "report_page",
    "terminal",
    "equation_cli",
    "sweep_screen",
    "paper_cli",
    "sweep_cli",
    "cli",
    "__main__",
)
# Going on from a solution starts the line again.
STARTS_AGAIN = ("solution", "pann.solve.solve")
# Beyond the order: the spectral and the neural half know nothing of each other.
FORBIDDEN = {"basis": {"network"}, "network": {"basis"}}
# `pann/__init__.py` gathers the public names; only what stands where a user stands imports it.
FRONT = "__init__"
USERS_OF_FRONT = {"demo", "cli"}

HEAVY = ("sklearn", "matplotlib", "xarray", "pandas", "distributed")
PICKLERS = {"pickle", "_pickle", "cloudpickle", "dill", "shelve"}
MAX_LINES = 400


@dataclasses.dataclass(frozen=True)
class Module:
    """One source file: its dotted name, whether it is a package's `__init__.py`, and its text."""

    name: str
    is_package: bool
    text: str

    @property
    def layer(self) -> str:
        return layer_of(self.name)


def read_modules() -> list[Module]:
    modules = []
    for path in sorted((SOURCE / "pann").rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        is_package = parts[-1] == "__init__"
        name = ".".join(parts[:-1] if is_package else parts)
        modules.append(Module(name, is_package, path.read_text(encoding="utf-8")))
    assert modules, f"no source files under {SOURCE}"
    return modules


def layer_of(name: str) -> str:
    """The layer of a dotted name that begins with `pann`: pann.basis.families -> basis."""
    parts = name.split(".")
    return parts[1] if len(parts) > 1 else FRONT


def imported_names(module: Module) -> list[tuple[int, str]]:
    """(line, absolute dotted name) of every import, wherever in the file it stands."""
    names = []
    for node in ast.walk(ast.parse(module.text)):
        if isinstance(node, ast.Import):
            names += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                package = module.name.split(".")
                depth = len(package) - node.level + module.is_package
                base = ".".join([*package[:depth], *([base] if base else [])])
            names += [(node.lineno, f"{base}.{alias.name}") for alias in node.names]
    return names


def wrong_directions(module: Module) -> list[str]:
    """Imports that go against the order of the layers."""
    if module.layer not in LAYERS:  # the front may import all; the rest `unplaced` reports
        return []
    wrong = []
    for line, name in imported_names(module):
        if name.split(".")[0] != "pann":
            continue
        target = layer_of(name)
        if target not in LAYERS:  # `import pann`, or one of its public names
            allowed = module.layer in USERS_OF_FRONT
        else:
            allowed = LAYERS.index(target) <= LAYERS.index(module.layer)
            allowed &= target not in FORBIDDEN.get(module.layer, ())
            allowed |= (module.layer, name) == STARTS_AGAIN
        if not allowed:
            wrong.append(f"{module.name}, line {line}: {module.layer} must not import {name}")
    return wrong


def unplaced(module: Module) -> list[str]:
    if module.layer in (FRONT, *LAYERS):
        return []
    return [f"{module.name}: '{module.layer}' has no place in LAYERS; give it one"]


def pickling(module: Module) -> list[str]:
    """Ways to run code by opening a file: pickling modules, and NumPy's allow_pickle."""
    wrong = [
        f"{module.name}, line {line}: imports {name}"
        for line, name in imported_names(module)
        if name.split(".")[0] in PICKLERS
    ]
    wrong += [
        f"{module.name}, line {node.lineno}: allow_pickle is not False"
        for node in ast.walk(ast.parse(module.text))
        if isinstance(node, ast.keyword)
        and node.arg == "allow_pickle"
        and ast.unparse(node.value) != "False"
    ]
    return wrong


def too_long(module: Module) -> list[str]:
    lines = len(module.text.splitlines())
    return [f"{module.name}: {lines} lines, at most {MAX_LINES}"] if lines > MAX_LINES else []


def undocumented(module: Module) -> list[str]:
    documented = ast.get_docstring(ast.parse(module.text))
    return [] if documented else [f"{module.name}: a docstring should say its one idea"]


RULES = (unplaced, wrong_directions, pickling, too_long, undocumented)


def heavy_modules_after(statement: str) -> list[str]:
    """Which of HEAVY a fresh interpreter has loaded once it has run the statement."""
    script = f"{statement}; import json, sys; print(json.dumps([*sys.modules]))"
    loaded = json.loads(subprocess.check_output([sys.executable, "-c", script], text=True))
    return [name for name in HEAVY if name in loaded]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_source_keeps_the_rule(rule):
    assert [problem for module in read_modules() for problem in rule(module)] == []


def test_importing_pann_leaves_heavy_libraries_alone():
    assert heavy_modules_after("import pann") == []


@pytest.mark.parametrize(
    "rule, name, text",
    [
        (unplaced, "pann.misc", ""),
        (wrong_directions, "pann.points", "import pann.model"),
        (wrong_directions, "pann.points", "from pann.training.stages import Adam"),
        (wrong_directions, "pann.points", "from pann import model"),
        (wrong_directions, "pann.points", "from . import model"),
        (wrong_directions, "pann.points", "def late():\n    from .model import PANN"),
        (wrong_directions, "pann.points", "from pann import Box"),
        (wrong_directions, "pann.points", "import pann"),
        (wrong_directions, "pann.network.mlp", "from ..basis.families import Legendre"),
        (wrong_directions, "pann.network.mlp", "from .. import basis"),
        (wrong_directions, "pann.basis.basis", "from pann.network import MLP"),
        (pickling, "pann.model", "import pickle"),
        (pickling, "pann.model", "from pickle import loads"),
        (pickling, "pann.model", "np.load(path, allow_pickle=True)"),
        (too_long, "pann.model", "\n" * (MAX_LINES + 1)),
        (undocumented, "pann.model", "x = 1"),
    ],
)
def test_rule_catches_a_bad_source(rule, name, text):
    assert len(rule(Module(name, is_package=False, text=text))) == 1


def test_relative_import_in_a_package_starts_from_the_package():
    text = "from . import mlp\nfrom ..basis import families"
    problems = wrong_directions(Module("pann.network", is_package=True, text=text))
    assert problems == [
        "pann.network, line 2: network must not import pann.basis.families",
    ]


@pytest.mark.parametrize(
    "name, text",
    [
        ("pann.network.mlp", "from .activations import tanh\nfrom pann.domain import Box"),
        ("pann.model", "from pann.basis import Basis\nfrom pann.network import MLP"),
        ("pann.demo", "import pann\nfrom pann import Box"),
        ("pann.points", "import numpy.random\nfrom scipy.stats import qmc"),
        ("pann", "from pann.cli import app"),
    ],
)
def test_direction_allows_a_good_source(name, text):
    assert wrong_directions(Module(name, is_package=name == "pann", text=text)) == []


def test_heavy_library_is_noticed():
    assert heavy_modules_after("import matplotlib") == ["matplotlib"]

"""The shape of the code: imports go one way, heavy ones are lazy, and nothing is unpickled.

The rules are functions from sources to the list of what is wrong with them, so that the last tests
can show each of them a bad source and see it caught.
"""

import ast
import dataclasses
import graphlib
import json
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parent.parent

# A package, or a module at the top, imports only from itself and from those before it.
ORDER = [
    "errors",
    "arguments",
    "domain",
    "runtime",
    "numerics",
    "points",
    "shapes",
    "basis",
    "network",
    "model",
    "io",
    "training",
    "pde",
    "methods",
    "regression",
    "reference",
    "problems",
    "plot",
    "solvers",
    "baselines",
    "reader",
    "runs",
    "report",
    "cli",
    "__main__",
]
# Beyond the order: the spectral and the neural half know nothing of each other.
FORBIDDEN = {"basis": {"network"}, "network": {"basis"}}

HEAVY = ("sklearn", "matplotlib", "xarray", "pandas", "distributed")
PICKLERS = {"pickle", "_pickle", "cloudpickle", "dill", "shelve"}


@dataclasses.dataclass(frozen=True)
class Module:
    """One source file: its dotted name, whether it is a package's `__init__.py`, and its text."""

    name: str
    is_package: bool
    text: str

    @property
    def package(self) -> str:
        return package_of(self.name)


def read_modules(folder: pathlib.Path = ROOT / "src") -> list[Module]:
    modules = []
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(folder).with_suffix("").parts
        is_package = parts[-1] == "__init__"
        name = ".".join(parts[:-1] if is_package else parts)
        modules.append(Module(name, is_package, path.read_text(encoding="utf-8")))
    assert modules, f"no source files under {folder}"
    return modules


def package_of(name: str) -> str:
    """The package of a dotted name that begins with `pann`: pann.basis.families -> basis."""
    parts = name.split(".")
    return parts[1] if len(parts) > 1 else "__init__"


def imported_names(module: Module, *, at_import: bool = False) -> list[tuple[int, str]]:
    """(line, absolute dotted name) of every import, or of those that run with the module itself."""
    names = []
    tree = ast.parse(module.text)
    for node in tree.body if at_import else ast.walk(tree):
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
    """Imports that go against the order of the packages, and packages without a place in it."""
    if module.name == "pann":  # gathers the public names
        return []
    if module.package not in ORDER:
        return [f"{module.name}: '{module.package}' has no place in ORDER; give it one"]
    wrong = []
    for line, name in imported_names(module, at_import=True):
        if name.split(".")[0] != "pann":
            continue
        target = package_of(name)
        allowed = target in ORDER and ORDER.index(target) <= ORDER.index(module.package)
        if not allowed or target in FORBIDDEN.get(module.package, ()):
            wrong.append(f"{module.name}, line {line}: {module.package} must not import {name}")
    return wrong


def cycles(modules: list[Module]) -> list[str]:
    """A circle of modules that import each other, if there is one."""
    names = {module.name for module in modules}
    graph = {}
    for module in modules:
        found = [name for _, name in imported_names(module, at_import=True)]
        targets = {name if name in names else name.rpartition(".")[0] for name in found}
        graph[module.name] = (targets & names) - {module.name}
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        return [" -> ".join(error.args[1])]
    return []


def private_imports(module: Module) -> list[str]:
    """Names of other modules that begin with an underscore."""
    return [
        f"{module.name}, line {line}: {name} is private"
        for line, name in imported_names(module)
        if name.startswith("pann.") and name.rpartition(".")[2].startswith("_")
    ]


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


def undocumented(module: Module) -> list[str]:
    documented = ast.get_docstring(ast.parse(module.text))
    return [] if documented else [f"{module.name}: a docstring should say its one idea"]


RULES = (wrong_directions, private_imports, pickling, undocumented)


def heavy_modules_after(statement: str) -> list[str]:
    """Which of HEAVY a fresh interpreter has loaded once it has run the statement."""
    script = f"{statement}; import json, sys; print(json.dumps([*sys.modules]))"
    loaded = json.loads(subprocess.check_output([sys.executable, "-c", script], text=True))
    return [name for name in HEAVY if name in loaded]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_source_keeps_the_rule(rule):
    assert [problem for module in read_modules() for problem in rule(module)] == []


def test_no_modules_import_each_other():
    assert cycles(read_modules()) == []


def test_importing_pann_leaves_heavy_libraries_alone():
    assert heavy_modules_after("import pann") == []


@pytest.mark.parametrize(
    "rule, name, text",
    [
        (wrong_directions, "pann.misc", ""),
        (wrong_directions, "pann.points", "import pann.model"),
        (wrong_directions, "pann.points", "from pann.training.gradient import Adam"),
        (wrong_directions, "pann.points", "from pann import model"),
        (wrong_directions, "pann.points", "from . import model"),
        (wrong_directions, "pann.points", "from pann import Box"),
        (wrong_directions, "pann.points", "import pann"),
        (wrong_directions, "pann.network.mlp", "from ..basis.families import Legendre"),
        (wrong_directions, "pann.network.mlp", "from .. import basis"),
        (wrong_directions, "pann.basis.basis", "from pann.network import MLP"),
        (private_imports, "pann.model.pann", "from pann.basis.tables import _rows"),
        (private_imports, "pann.model.pann", "def f():\n    from pann.basis.tables import _rows"),
        (pickling, "pann.model", "import pickle"),
        (pickling, "pann.model", "from pickle import loads"),
        (pickling, "pann.model", "np.load(path, allow_pickle=True)"),
        (undocumented, "pann.model", "x = 1"),
    ],
)
def test_rule_catches_a_bad_source(rule, name, text):
    assert len(rule(Module(name, is_package=False, text=text))) == 1


def test_modules_that_import_each_other_are_noticed():
    texts = {"a": "from pann.b import f", "b": "import pann.c", "c": "from pann import a"}
    modules = [Module(f"pann.{name}", False, text) for name, text in texts.items()]
    assert len(cycles(modules)) == 1


def test_relative_import_in_a_package_starts_from_the_package():
    text = "from . import mlp\nfrom ..basis import families"
    problems = wrong_directions(Module("pann.network", is_package=True, text=text))
    assert problems == ["pann.network, line 2: network must not import pann.basis.families"]


@pytest.mark.parametrize(
    "name, text",
    [
        ("pann.network.mlp", "from .activations import tanh\nfrom pann.domain import Box"),
        ("pann.model.pann", "from pann.basis import Basis\nfrom pann.network import MLP"),
        ("pann.points", "import numpy.random\nfrom scipy.stats import qmc"),
        ("pann", "from pann.cli import app"),
    ],
)
def test_direction_allows_a_good_source(name, text):
    assert wrong_directions(Module(name, is_package=name == "pann", text=text)) == []


def test_heavy_library_is_noticed():
    assert heavy_modules_after("import matplotlib") == ["matplotlib"]

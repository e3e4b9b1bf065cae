"""Imports point only downward (docs/architecture.md), form no circle, and stand at the top of their module."""

import ast
import functools
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

# Layer: the layers that it may import, apart from itself and the standard library. A module belongs to the layer with
# the longest matching prefix; what is left of oxinp is the top, which may import everything.
BELOW_CORE = (
    "oxinp._driver",
    "oxinp._config",
    "oxinp._version",
    "oxinp._terminal",
    "oxinp._ptx",
    "oxinp._kernels",
    "oxinp._runtime",
    "numpy",
)
BELOW_API = (*BELOW_CORE, "oxinp._core", "scipy")
BELOW_MODULES = (*BELOW_API, "oxinp._api")
PACKAGES = (
    "oxinp.linalg",
    "oxinp.fft",
    "oxinp.sparse",
    "oxinp.random",
    "oxinp.polynomial",
    "oxinp.testing",
)
LAYERS = {
    "oxinp._driver": (),
    "oxinp._config": (),
    "oxinp._version": (),
    "oxinp._terminal": (),
    "oxinp._ptx": ("numpy",),
    "oxinp._kernels": ("oxinp._ptx", "numpy"),
    "oxinp._runtime": ("oxinp._driver", "oxinp._config", "oxinp._version", "oxinp._ptx", "numpy"),
    "oxinp._core": BELOW_CORE,
    "oxinp._api": BELOW_API,
    "oxinp._runner": (*BELOW_MODULES, *PACKAGES, "oxinp.cuda"),
    "oxinp._tune": (*BELOW_MODULES, *PACKAGES, "oxinp.cuda"),
    "oxinp.cuda": (
        "oxinp._driver",
        "oxinp._config",
        "oxinp._version",
        "oxinp._terminal",
        "oxinp._ptx",
        "oxinp._runtime",
        "numpy",
    ),
    **dict.fromkeys(PACKAGES, BELOW_MODULES),
    "oxinp.scipy": (*BELOW_MODULES, *PACKAGES),
    "oxinp.ma": (*BELOW_MODULES, "oxinp.testing"),
    "oxinp.array_api": (*BELOW_MODULES, *PACKAGES, "oxinp.scipy"),
}
TOP = (*BELOW_MODULES, *LAYERS, "oxinp")
# Loaded by the library that it is for, and only by it.
FOR_OTHERS = {"oxinp._dask": "dask"}
LAYERS |= {name: (*TOP, library) for name, library in FOR_OTHERS.items()}

MODULE_NAME = re.compile(r"oxinp(\.\w+)+")


@functools.cache
def modules():
    """Return {dotted name: path} of everything that ships."""
    paths = sorted((ROOT / "oxinp").rglob("*.py"))
    named = {".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in paths}
    return {name.removesuffix(".__init__"): path for name, path in named.items()}


def layer(name):
    """Return the layer of a module or of an import, or its top-level package if it is not ours."""
    matching = [key for key in LAYERS if name == key or name.startswith(key + ".")]
    if matching:
        return max(matching, key=len)
    return name.split(".", maxsplit=1)[0]


class Imports(ast.NodeVisitor):
    """The imports of one module.

    Attributes
    ----------
    now : set of str
        Done when the module is imported.
    types : set of str
        For type checkers only; part of a circle all the same: who reads one module has to read the others.
    later : set of str
        By `importlib.import_module`, or in a module's `__getattr__`: arrows, but no part of a circle.
    hidden : list of int
        Lines of import statements inside functions other than a module's `__getattr__`.
    """

    def __init__(self, name, source, *, is_package=False):
        self.package = name if is_package else name.rpartition(".")[0]
        self.now, self.types, self.later, self.hidden = set(), set(), set(), []
        self.target = self.now
        self.is_hidden = False
        tree = ast.parse(source)
        self.visit(tree)
        if "import_module" not in source:
            return
        nodes = list(ast.walk(tree))
        calls = {node.func.attr for node in nodes if isinstance(node, ast.Call) and hasattr(node.func, "attr")}
        if "import_module" in calls:
            texts = {node.value for node in nodes if isinstance(node, ast.Constant)}
            self.later |= {text for text in texts if isinstance(text, str) and MODULE_NAME.fullmatch(text)}

    def generic_visit(self, node):
        """Visit the statements inside; expressions import nothing."""
        for name in ("body", "orelse", "finalbody", "handlers", "cases"):
            for child in getattr(node, name, ()):
                self.visit(child)

    def visit_If(self, node):
        if not any("TYPE_CHECKING" in vars(part).values() for part in ast.walk(node.test)):
            self.generic_visit(node)
            return
        before, self.target = self.target, self.types
        for child in node.body:
            self.visit(child)
        self.target = before
        for child in node.orelse:
            self.visit(child)

    def visit_FunctionDef(self, node):
        before = self.target, self.is_hidden
        self.target, self.is_hidden = self.later, self.is_hidden or node.name != "__getattr__"
        self.generic_visit(node)
        self.target, self.is_hidden = before

    def visit_AsyncFunctionDef(self, node):
        self.visit_FunctionDef(node)

    def visit_Import(self, node):
        self.add(node, [alias.name for alias in node.names])

    def visit_ImportFrom(self, node):
        base = node.module or ""
        if node.level:
            parts = self.package.split(".")
            base = ".".join([*parts[: len(parts) - node.level + 1], *filter(None, [base])])
        # `from package import module` imports the module, `from module import name` does not: known at look-up.
        self.add(node, [f"{base}.{alias.name}" for alias in node.names])

    def add(self, node, names):
        if self.is_hidden:
            self.hidden.append(node.lineno)
        self.target.update(names)


def upward(name, imports):
    """Return the imports of a module that its layer does not allow."""
    own = layer(name)
    allowed = LAYERS.get(own, TOP)
    wrong = []
    for imported in sorted(imports.now | imports.types | imports.later):
        target = layer(imported)
        if target not in sys.stdlib_module_names and target != own and target not in allowed:
            wrong.append(imported)
    return wrong


def resolved(imported, known):
    """Return the module of ours that an import names, None if it is not ours."""
    if imported in known:
        return imported
    base = imported.rpartition(".")[0]
    return base if base in known else None


def circles(edges):
    """Return the sets of names that reach each other. `edges` is {name: set of names}; after Tarjan (1972)."""
    number, lowest, stack, found = {}, {}, [], []

    def walk(name):
        number[name] = lowest[name] = len(number)
        stack.append(name)
        for other in sorted(edges.get(name, ())):
            if other not in number:
                walk(other)
            if other in stack:
                lowest[name] = min(lowest[name], lowest[other])
        if lowest[name] == number[name]:
            members = stack[stack.index(name) :]
            del stack[-len(members) :]
            if len(members) > 1:
                found.append(frozenset(members))

    for name in sorted(edges):
        if name not in number:
            walk(name)
    return found


@functools.cache
def parse(name, path):
    return Imports(name, path.read_text(encoding="utf-8"), is_package=path.name == "__init__.py")


@functools.cache
def file_edges():
    """Return {module: modules that it imports}, for types or when it is imported itself."""
    known = modules()
    imports = {name: parse(name, path) for name, path in known.items()}
    return {
        name: frozenset({resolved(i, known) for i in found.now | found.types} - {None, name})
        for name, found in imports.items()
    }


def package_edges(edges, packages):
    """Return {package: packages beside it that its modules import}; `packages` are the dotted names of all."""
    found = {}
    for name, targets in edges.items():
        for target in targets:
            ours, theirs = ([part for part in packages if f"{one}.".startswith(f"{part}.")] for one in (name, target))
            beside = [
                (a, b) for a in ours for b in theirs if a != b and a.rpartition(".")[0] == b.rpartition(".")[0] != ""
            ]
            for a, b in beside:
                found.setdefault(a, set()).add(b)
    return found


def test_imports_point_downward():
    for name, path in modules().items():
        imports = parse(name, path)
        assert not upward(name, imports), f"{name} imports from above or beside its layer"
        assert not imports.hidden, f"{path}: import inside a function on line {imports.hidden}"


def test_no_circle_between_files():
    assert circles(file_edges()) == []


def test_no_circle_between_packages():
    packages = {name for name, path in modules().items() if path.name == "__init__.py"}
    assert circles(package_edges(file_edges(), packages)) == []


@pytest.mark.parametrize(
    ("name", "source", "wrong"),
    [
        ("oxinp._driver.api", "import numpy", ["numpy"]),
        ("oxinp._driver.api", "import ctypes, struct", []),
        ("oxinp._ptx.builder", "from oxinp._runtime import counters", ["oxinp._runtime.counters"]),
        ("oxinp._ptx.builder", "from .types import f32\nimport numpy as np", []),
        ("oxinp._kernels.choice", "from .._runtime.cuda import Cuda", ["oxinp._runtime.cuda.Cuda"]),
        ("oxinp._runtime.cuda", "if TYPE_CHECKING:\n    import oxinp._kernels.make", ["oxinp._kernels.make"]),
        (
            "oxinp._runtime.select",
            "M = 'oxinp._core.memory.storage'\nimportlib.import_module(M)",
            ["oxinp._core.memory.storage"],
        ),
        ("oxinp._core.lazy.expr", "def f():\n    from oxinp import ndarray", ["oxinp.ndarray"]),
        ("oxinp._core.lazy.expr", "from oxinp._api import creation", ["oxinp._api.creation"]),
        ("oxinp.cuda.stream", "from oxinp._core import ndarray", ["oxinp._core.ndarray"]),
        ("oxinp", "from oxinp._api import creation\nimport scipy", []),
        ("oxinp._config", "import cupy", ["cupy"]),
        ("oxinp.scipy.linalg._api", "from oxinp import linalg\nfrom oxinp.sparse import linalg", []),
        ("oxinp.linalg._api", "from oxinp.scipy import linalg", ["oxinp.scipy.linalg"]),
        ("oxinp._api.modules", "from oxinp import linalg", ["oxinp.linalg"]),
    ],
)
def test_a_wrong_arrow_is_seen(name, source, wrong):
    assert upward(name, Imports(name, source)) == wrong


def test_a_hidden_import_is_seen():
    assert Imports("m", "def f():\n    import os\n").hidden == [2]
    assert Imports("m", "class C:\n    def f(self):\n        from os import path\n").hidden == [3]
    assert Imports("m", "def __getattr__(name):\n    import os\n").hidden == []


def test_imports_for_types_are_told_from_those_by_name():
    imports = Imports("m", "import a\nif TYPE_CHECKING:\n    import b\nimportlib.import_module('oxinp.c')")
    assert (imports.now, imports.types, imports.later) == ({"a"}, {"b"}, {"oxinp.c"})


def test_a_circle_is_seen():
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == [{"b", "c"}]
    assert circles({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []
    assert circles({"a": {"b"}, "b": {"a", "c"}, "c": {"d"}, "d": {"c"}}) == [{"c", "d"}, {"a", "b"}]


def test_a_circle_between_packages_is_seen():
    packages = {"o", "o.a", "o.a.in", "o.b"}
    edges = {"o.a.x": {"o.b.y"}, "o.a.in.z": {"o.a.x"}, "o.b.w": {"o.a.in.z"}, "o.c": {"o.a.x"}}
    assert package_edges(edges, packages) == {"o.a": {"o.b"}, "o.b": {"o.a"}}
    assert circles(package_edges(edges, packages)) == [{"o.a", "o.b"}]

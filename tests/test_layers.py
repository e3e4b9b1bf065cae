"""Imports point only downward (docs/architecture.md), form no circle, and stand at the top of their module."""

import ast
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

# Layer: the layers that it may import, apart from itself and the standard library. A module belongs to the layer with
# the longest matching prefix; what is left of oxinp is the top, which may import everything.
BELOW_CORE = ("_driver", "oxinp._config", "oxinp._version", "oxinp._ptx", "oxinp._kernels", "oxinp._runtime", "numpy")
BELOW_API = (*BELOW_CORE, "oxinp._core", "scipy")
BELOW_MODULES = (*BELOW_API, "oxinp._api")
PACKAGES = ("oxinp.linalg", "oxinp.fft", "oxinp.sparse", "oxinp.random", "oxinp.polynomial")
LAYERS = {
    "_driver": (),
    "oxinp._config": (),
    "oxinp._version": (),
    "oxinp._ptx": ("numpy",),
    "oxinp._kernels": ("oxinp._ptx", "numpy"),
    "oxinp._runtime": ("_driver", "oxinp._config", "oxinp._version", "oxinp._ptx", "numpy"),
    "oxinp._core": BELOW_CORE,
    "oxinp._api": BELOW_API,
    "oxinp._runner": (*BELOW_MODULES, *PACKAGES, "oxinp.cuda"),
    "oxinp._tune": (*BELOW_MODULES, "oxinp.cuda"),
    "oxinp.cuda": ("_driver", "oxinp._config", "oxinp._version", "oxinp._ptx", "oxinp._runtime", "numpy"),
    **dict.fromkeys(PACKAGES, BELOW_MODULES),
    "oxinp.scipy": (*BELOW_MODULES, *PACKAGES),
}
TOP = (*BELOW_MODULES, *LAYERS, "oxinp")
# Loaded by the library that it is for, and only by it.
FOR_OTHERS = {"oxinp._dask": "dask"}
LAYERS |= {name: (*TOP, library) for name, library in FOR_OTHERS.items()}

MODULE_NAME = re.compile(r"(oxinp|_driver)(\.\w+)+")


def modules():
    """Return {dotted name: path} of everything that ships."""
    paths = [path for package in ("_driver", "oxinp") for path in sorted((ROOT / package).rglob("*.py"))]
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
    later : set of str
        For type checkers, or by `importlib.import_module`: arrows all the same, but no part of a circle.
    hidden : list of int
        Lines of import statements inside functions other than a module's `__getattr__`.
    """

    def __init__(self, name, source, *, is_package=False):
        self.package = name if is_package else name.rpartition(".")[0]
        self.now, self.later, self.hidden = set(), set(), []
        self.target = self.now
        self.is_hidden = False
        tree = ast.parse(source)
        self.visit(tree)
        calls = {node.func.attr for node in ast.walk(tree) if isinstance(node, ast.Call) and hasattr(node.func, "attr")}
        if "import_module" in calls:
            texts = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}
            self.later |= {text for text in texts if isinstance(text, str) and MODULE_NAME.fullmatch(text)}

    def visit_If(self, node):
        if "TYPE_CHECKING" not in ast.unparse(node.test):
            self.generic_visit(node)
            return
        before, self.target = self.target, self.later
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
    for imported in sorted(imports.now | imports.later):
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


def circle(edges):
    """Return a circle of imports, None if there is none. `edges` is {module: set of modules}."""
    done, path = set(), []

    def walk(name):
        if name in path:
            return [*path[path.index(name) :], name]
        if name in done:
            return None
        path.append(name)
        found = next((c for c in map(walk, sorted(edges.get(name, ()))) if c), None)
        path.pop()
        done.add(name)
        return found

    return next((c for c in map(walk, sorted(edges)) if c), None)


def parse(name, path):
    return Imports(name, path.read_text(encoding="utf-8"), is_package=path.name == "__init__.py")


@pytest.mark.parametrize(("name", "path"), modules().items(), ids=modules())
def test_imports_point_downward(name, path):
    imports = parse(name, path)
    assert not upward(name, imports), f"{name} imports from above or beside its layer"
    assert not imports.hidden, f"{path}: import inside a function on line {imports.hidden}"


def test_no_circle():
    known = modules()
    edges = {name: {resolved(i, known) for i in parse(name, path).now} - {None, name} for name, path in known.items()}
    assert circle(edges) is None


@pytest.mark.parametrize(
    ("name", "source", "wrong"),
    [
        ("_driver.api", "import numpy", ["numpy"]),
        ("_driver.api", "import ctypes, struct", []),
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


def test_a_circle_is_seen():
    assert circle({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c", "b"]
    assert circle({"a": {"b", "c"}, "b": {"c"}, "c": set()}) is None

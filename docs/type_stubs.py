"""Write the type stubs of the namespace, oxinp/**/*.pyi, from the tables: ``python docs/type_stubs.py``.

Type checkers read NumPy's own types under our names: a module that shows the names of one of NumPy's or SciPy's
re-exports them. What is ours alone is annotated where it is written; `oxinp/cuda/kernel.pyi` is written by hand.
"""

import ast
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import oxinp  # noqa: E402 - found by the line above
from oxinp._api.submodule_rows import SUBMODULES  # noqa: E402

HEAD = "# Written by docs/type_stubs.py from the tables; type checkers alone read it.\n"
UNTYPED = """from typing import Any

from {source} import *  # type: ignore[import-untyped] # SciPy has types where scipy-stubs is installed

def __getattr__(name: str) -> Any: ...
"""
NAMESPACE = """from numpy import *
from numpy import __version__ as __version__

{imports}

def show_versions() -> None: ...
"""


def imports():
    """Return the lines that import what the namespace has beside NumPy's names."""
    places = [("oxinp", name) for name in oxinp._PACKAGES]
    tree = ast.parse((ROOT / "oxinp" / "__init__.py").read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.ImportFrom):
            places += [(node.module, alias.name) for alias in node.names if alias.name in oxinp.__all__]
    places += [("oxinp._runner.notebook", name) for name in oxinp._IN_NOTEBOOKS]
    return [f"from {module} import {name} as {name}" for module, name in places]


def stubs():
    """Return the text of every stub, by its path in the tree."""
    package = ROOT / "oxinp"
    texts = {"oxinp/__init__.pyi": HEAD + NAMESPACE.format(imports="\n".join(imports()))}
    for path, row in SUBMODULES.items():
        place = package / path.replace(".", "/")
        if row.since or not place.parent.is_dir():  # a type checker has no name for what lies below a module
            continue
        file = place / "__init__.pyi" if place.is_dir() else place.with_suffix(".pyi")
        text = f"from {row.source} import *\n" if row.source.startswith("numpy.") else UNTYPED.format(source=row.source)
        texts[file.relative_to(ROOT).as_posix()] = HEAD + text
    return texts


if __name__ == "__main__":
    for path, text in stubs().items():
        (ROOT / path).write_text(text, encoding="utf-8")

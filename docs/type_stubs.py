"""Write the type stubs of the namespace, oxinp/**/*.pyi, from the tables: ``python docs/type_stubs.py``.

Type checkers read NumPy's own types under our names: a module that shows the names of one of NumPy's or SciPy's
re-exports them. NumPy's names are listed, for the stubs of NumPy 2.0 and 2.1 do not say what ``*`` means; those of
submodules are the installed version's, which the stubs name. What is ours alone is annotated where it is written;
`oxinp/cuda/kernel.pyi` is written by hand.
"""

import ast
import importlib
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "docs")]

import coverage_page  # noqa: E402 - found by the line above

import oxinp  # noqa: E402
from oxinp._api import coverage, modules  # noqa: E402
from oxinp._api.submodule_rows import SUBMODULES  # noqa: E402

BY_HAND = "oxinp/cuda/kernel.pyi"
HEAD = f"""# Written by docs/type_stubs.py from the tables and {coverage_page.versions()}; type checkers alone read it.
"""
UNTYPED = """from typing import Any

from {source} import *  # type: ignore[import-untyped] # SciPy has types where scipy-stubs is installed

def __getattr__(name: str) -> Any: ...
"""
TYPED = """from {source} import *
from {source} import (
{names}
)
"""
NAMESPACE = """{numpys}
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
    rows = [
        row for row in coverage.ROWS if not row.since and not row.until and row.name != "trapezoid"
    ]  # 2.0 forgot it
    numpys = [*(row.name for row in rows if not row.name.startswith("_")), "__version__"]
    texts = {"oxinp/__init__.pyi": NAMESPACE.format(numpys=typed("numpy", numpys), imports="\n".join(imports()))}
    for path, row in SUBMODULES.items():
        place = package / path.replace(".", "/")
        if row.since or not place.parent.is_dir():  # a type checker has no name for what lies below a module
            continue
        file = place / "__init__.pyi" if place.is_dir() else place.with_suffix(".pyi")
        if row.source.startswith("numpy."):
            text = typed(row.source, modules.public_names(importlib.import_module(row.source)))
        else:
            text = UNTYPED.format(source=row.source)
        texts[file.relative_to(ROOT).as_posix()] = text
    return {path: f"{HEAD}\n{text}" for path, text in texts.items()}


def typed(source, names):
    """Return the lines that re-export names of NumPy's."""
    listed = [f"    {name} as {name}," for name in sorted(names, key=sorting) if not name.startswith("test")]
    return TYPED.format(source=source, names="\n".join(listed))


def sorting(name):
    """Return the key of the order in which ruff wants imported names: constants, classes, the rest."""
    return (not name.isupper(), not name[0].isupper(), name)


if __name__ == "__main__":
    made = stubs()
    for left_over in {path.relative_to(ROOT).as_posix() for path in (ROOT / "oxinp").rglob("*.pyi")} - {*made, BY_HAND}:
        (ROOT / left_over).unlink()
    for path, text in made.items():
        (ROOT / path).write_text(text, encoding="utf-8")

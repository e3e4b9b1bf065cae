"""What a user's import of NumPy or SciPy gives: one table, read by the rewritten imports and by the dynamic ones.

Every public submodule of NumPy's and SciPy's has one of ours; what is not in the table stays theirs.
"""

from __future__ import annotations

import importlib
from typing import Any

from oxinp._api.submodule_rows import SUBMODULES

__all__ = ["BOUND", "bind", "is_bound"]

# THE BINDINGS: a module of NumPy's or SciPy's -> ours.
BOUND = {
    "numpy": "oxinp",
    **{
        path if path.partition(".")[0] == "scipy" else f"numpy.{path}": f"oxinp.{path}"
        for path, row in SUBMODULES.items()
        if path.startswith("scipy") or row.source.startswith("numpy.")
    },
}


def is_bound(name: str) -> bool:
    """Whether the import of a module is ours to answer."""
    return name.partition(".")[0] in BOUND


def bind(name: str) -> Any:
    """Return what ``import_module(name)`` gives the user.

    Parameters
    ----------
    name : str
        Dotted, of a module of NumPy's or SciPy's.

    Raises
    ------
    ImportError
        There is no such module; in Python's words.
    """
    return importlib.import_module(BOUND.get(name, name))

"""What a user's import of NumPy or SciPy gives: one table, read by the rewritten imports and by the dynamic ones.

Every public submodule of NumPy's has one of ours. SciPy's have one where `oxinp.scipy` has it, name by name: what is
not there is SciPy's own, which takes our arrays through `__array__`.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
from types import ModuleType
from typing import Any

from oxinp._api import modules

__all__ = ["NUMPYS", "bind", "from_scipy", "has_scipy", "is_bound", "ours_of_scipy"]

# THE BINDINGS OF NUMPY: a module of NumPy's -> ours. Submodules that are not here stay NumPy's own.
NUMPYS = {"numpy": "oxinp", **{f"numpy.{path}": f"oxinp.{path}" for path in modules.SUBMODULES}}


def is_bound(name: str) -> bool:
    """Whether the import of a module is ours to answer."""
    top = name.partition(".")[0]
    return top == "numpy" or (top == "scipy" and has_scipy())


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
    if name.partition(".")[0] == "scipy":
        return _scipys(name)
    return importlib.import_module(NUMPYS.get(name, name))


@functools.cache
def has_scipy() -> bool:
    """Whether there is a SciPy of ours."""
    return ours_of_scipy("scipy") is not None


@functools.cache
def ours_of_scipy(name: str) -> str | None:
    """Return the name of our module for one of SciPy's, None where we have none."""
    ours = f"oxinp.{name}"
    try:
        return ours if importlib.util.find_spec(ours) is not None else None
    except ModuleNotFoundError:  # its parent is not there
        return None


class Joined(ModuleType):
    """A module of SciPy's with ours in front: each name is ours where we have it.

    Parameters
    ----------
    name : str
        SciPy's, dotted.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name)
        theirs = importlib.import_module(name)
        self.__doc__ = theirs.__doc__
        self.__file__ = getattr(theirs, "__file__", None)
        self.__dict__["__path__"] = getattr(theirs, "__path__", [])

    def __getattr__(self, name: str) -> Any:
        value = self.__dict__[name] = self._find(name)
        return value

    def _find(self, name: str) -> Any:
        path = f"{self.__name__}.{name}"
        if ours_of_scipy(path) is not None:
            return _scipys(path)
        sides = [f"oxinp.{self.__name__}", self.__name__]
        ours, theirs = (importlib.import_module(side) for side in sides)
        return getattr(ours if hasattr(ours, name) else theirs, name)

    def __dir__(self) -> list[str]:
        return dir(importlib.import_module(self.__name__))

    def __reduce__(self) -> Any:
        return bind, (self.__name__,)


@functools.cache
def _scipys(name: str) -> Any:
    return importlib.import_module(name) if ours_of_scipy(name) is None else Joined(name)


def from_scipy(module: str, name: str) -> Any:
    """Return what ``from module import name`` gives the user, of a module of SciPy's.

    Raises
    ------
    ImportError
        In Python's words.
    """
    source = bind(module)
    try:
        return getattr(source, name)
    except AttributeError:
        pass
    try:
        return bind(f"{module}.{name}")
    except ModuleNotFoundError:
        where = getattr(source, "__file__", None) or "unknown location"
        raise ImportError(f"cannot import name {name!r} from {module!r} ({where})", name=module, path=where) from None

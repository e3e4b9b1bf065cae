"""NumPy's and SciPy's submodules under our name: ``oxinp.linalg``, ``oxinp.lib.stride_tricks``, ``oxinp.scipy.signal``.

A module of ours shows the names of its source, each made when it is first used: what a package of ours registers for
it, or the counted fallback, or the object as it is. Where there is a folder of ours (``oxinp/linalg/``), that is the
module, by `adopt`; otherwise the table's row alone makes one. Either is imported when it is first used, and its source
with it.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

import numpy as np

from oxinp._api import notes
from oxinp._api.coverage import HOST, NATIVE, OWN, REFUSED, CoverageRow
from oxinp._api.coverage import rows as numpys_rows
from oxinp._api.fronts import HostUfunc, host_function, refused
from oxinp._api.submodule_rows import ROWS, SUBMODULES
from oxinp._core.array import dispatch
from oxinp._core.errors.frames import call_as_user
from oxinp._core.host.fallback import OUT, Mutated

watchers: list[Callable[[Any, Any], Any]] = []
"""Called with what a name of SciPy's is to be and what it is made from; the name is what they return."""


class Namespace(ModuleType):
    """A module whose names are those of one of NumPy's or SciPy's."""

    def __getattr__(self, name: str) -> Any:
        path = self.__name__.removeprefix("oxinp.")
        below = SUBMODULES.get(f"{path}.{name}")
        if below is not None:
            try:
                return importlib.import_module(f"{self.__name__}.{name}")
            except ModuleNotFoundError as error:
                if error.name != below.source:
                    raise
                # The installed version has none.
                raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}") from error
        row = SUBMODULES[path]
        source = _source(path)
        value = getattr(source, name) if name in source.__dict__ else call_as_user(getattr, (source, name), {})
        if not (name.startswith("__") and name.endswith("__")):
            value = adapted(value, f"{_counted(row.source)}.{name}", row.kind)
            if name in source.__dict__:  # or it is deprecated, which is to be said each time
                self.__dict__[name] = value
        return value

    def __dir__(self) -> list[str]:
        theirs = dir(_source(self.__name__.removeprefix("oxinp.")))
        return [
            *theirs,
            *[name for name in self.__dict__.get("__all__", ()) if name in self.__dict__ and name not in theirs],
        ]

    def __reduce__(self) -> Any:
        return importlib.import_module, (self.__name__,)


def adopt(name: str) -> None:
    """Make a module of ours show the names of its source; called by packages of ours, with their ``__name__``."""
    module = sys.modules[name]
    source = _source(name.removeprefix("oxinp."))
    module.__class__ = Namespace
    module.__doc__ = source.__doc__
    listed = getattr(source, "__all__", None)
    module.__dict__["__all__"] = sorted(public_names(source)) if listed is None else list(listed)
    for each in dispatch.after_registering:
        each()


class _Finder:  # no `importlib.abc`, which would take milliseconds to import
    """Finds the modules of the table that have no folder, and those of NumPy's and SciPy's that are not in it."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:  # noqa: ARG002
        """See `importlib.abc.MetaPathFinder.find_spec`."""
        package, _, below = name.partition(".")
        if package != "oxinp":
            return None
        if below in SUBMODULES:
            return ModuleSpec(name, self, is_package=True)
        above, _, last = below.rpartition(".")
        if above not in SUBMODULES:
            return None
        source = f"{SUBMODULES[above].source}.{last}"
        try:
            importlib.import_module(source)
        except ModuleNotFoundError as error:
            if error.name != source:
                raise
            return None
        return ModuleSpec(name, _Theirs(source))

    def create_module(self, spec: ModuleSpec) -> None:  # Python makes it: `__path__` is not to be the source's
        """See `importlib.abc.Loader.create_module`."""

    def exec_module(self, module: ModuleType) -> None:
        """See `importlib.abc.Loader.exec_module`."""
        adopt(module.__name__)


class _Theirs:
    """Loads a module that has no row as it is: NumPy's or SciPy's own, below the name of one of ours.

    Parameters
    ----------
    source : str
        Its own name.
    """

    def __init__(self, source: str) -> None:
        self._source = source

    def create_module(self, spec: ModuleSpec) -> None:
        """See `importlib.abc.Loader.create_module`."""

    def exec_module(self, module: ModuleType) -> None:
        """See `importlib.abc.Loader.exec_module`."""
        sys.modules[module.__name__] = sys.modules[self._source]


def adapted(value: Any, name: str, kind: str = HOST) -> Any:
    """Return ours for an object of NumPy's or SciPy's: a function or class of ours, or the object as it is.

    Parameters
    ----------
    value : object
    name : str
        What it is counted as, see `fronts.find_theirs`.
    kind : str
        Of the module it is in.
    """
    row = ROWS.get(name)
    if (kind if row is None else row.kind) == OWN:
        return value
    ours = dispatch.functions.get(value) if _is_hashable(value) else None
    if ours is not None:
        if row is not None:
            notes.add(ours, value, row)
        return _watched(ours, value, name)
    if isinstance(value, np.ufunc):
        return HostUfunc.of(value, name if name.startswith("scipy.") else "")
    if row is None:
        return _hosted(value, name) if _is_function(value) else value
    if row.kind == REFUSED:
        front = refused(value, name, row.reason)
        notes.add(front, value, row)
        return front
    return _hosted(value, name)


# Function -> the one that goes through the fallback: one object for each, as in NumPy and SciPy.
_fronts: dict[Any, Any] = {}


def _hosted(value: Any, name: str) -> Any:
    front = _fronts.get(value)
    if front is None:
        name = _first_name(value, name)
        row = ROWS.get(name)
        front = host_function(value, name, row.mutates if row is not None and row.mutates else _written(value))
        notes.add(front, value, row or CoverageRow(name, "", HOST))
        front = _fronts.setdefault(value, _watched(front, value, name))
    return front


def _watched(front: Any, value: Any, name: str) -> Any:
    for watcher in watchers if name.startswith("scipy.") else ():
        front = watcher(front, value)
    return front


def _first_name(value: Any, name: str) -> str:
    """Return the name that a function with several is counted by: that in its own module, or the shortest."""
    parts = (name if name.startswith("scipy.") else f"numpy.{name}").split(".")
    packages = [".".join(parts[:n]) for n in range(2, len(parts))]
    for module in (getattr(value, "__module__", None), *packages):
        if module in dispatch.homes and getattr(sys.modules.get(module), parts[-1], None) is value:
            return f"{_counted(module)}.{parts[-1]}"
    return name


def _written(function: Any) -> tuple[Mutated, ...]:
    """Return what a function writes to, by the names of its parameters."""
    if _is_fortran(function):  # some versions of Python say that these take any arguments
        return ("*",)
    try:
        parameters = inspect.signature(function).parameters
    except (ValueError, TypeError):
        return OUT
    given = {name.lower(): name for name in parameters}
    found: list[Mutated] = [name for name in ("output", "distances", "indices") if name in parameters]
    for keyword in parameters:
        if keyword.startswith("overwrite_"):
            target = keyword.removeprefix("overwrite_")
            # ``overwrite_qr`` of several: Q and R.
            found += [
                (given[each], keyword, True) for each in ([target] if target in given else target) if each in given
            ]
    return (*found, *OUT) if found else OUT


def _is_function(value: Any) -> bool:
    return inspect.isroutine(value) or _is_fortran(value)


def _is_fortran(value: Any) -> bool:
    """Whether a function is of BLAS or LAPACK, as f2py shows them."""
    return type(value).__name__ == "fortran"


def _is_hashable(value: Any) -> bool:
    return getattr(type(value), "__hash__", None) is not None


def _source(path: str) -> Any:
    return importlib.import_module(SUBMODULES[path].source)


def _counted(module: str) -> str:
    """Return the name of a module as the functions in it are counted: NumPy's without ``numpy.``."""
    return module.removeprefix("numpy.")


def public_names(source: Any) -> set[str]:
    """Return the public names of a module of NumPy's or SciPy's: those it lists, and what it has of BLAS and LAPACK."""
    listed = getattr(source, "__all__", None)
    names = dir(source) if listed is None else [*listed, *(x for x in dir(source) if _is_fortran(vars(source).get(x)))]
    return {name for name in names if not name.startswith("_") or name in (listed or ())}


def rows(path: str) -> dict[str, CoverageRow]:
    """Return the rows of the coverage table for a submodule's public names, by name; its source is imported.

    Parameters
    ----------
    path : str
        Below ``oxinp``.
    """
    submodule = SUBMODULES[path]
    importlib.import_module(f"oxinp.{path}")  # which registers
    source, chapter = _source(path), _counted(submodule.source)
    found = {}
    for name in sorted(public_names(source)):
        row = ROWS.get(f"{chapter}.{name}")
        if row is None:
            below = SUBMODULES.get(f"{path}.{name}", submodule)
            if below.source.startswith("oxinp."):  # known by another name
                below = SUBMODULES[below.source.removeprefix("oxinp.")]
            kind = _kind(getattr(source, name)) if below is submodule and submodule.kind == HOST else below.kind
            row = CoverageRow(f"{chapter}.{name}", chapter, kind)
        found[name] = row
    return found


def _kind(value: Any) -> str:
    """Return what is made of an object of a submodule's that has no row."""
    if isinstance(value, np.ufunc):
        return NATIVE if value in dispatch.ufuncs and type(dispatch.ufuncs[value]) is not HostUfunc else HOST
    ours = dispatch.functions.get(value) if _is_hashable(value) else None
    if ours is not None:  # a function of another module's, which has it
        name = f"{ours.__module__}.{ours.__name__}".removeprefix("oxinp.")
        return ROWS[name].kind if name in ROWS else numpys_rows()[name].kind
    return HOST if _is_function(value) else OWN


def register() -> None:
    """Have Python's imports find the modules of the table, and NumPy's protocols what they register."""
    sys.meta_path.append(_Finder())
    for row in SUBMODULES.values():
        if row.kind == HOST:
            dispatch.homes.setdefault(row.source, f"oxinp.{row.path}")

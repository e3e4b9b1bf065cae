"""The namespace: ``oxinp.<name>`` for every public name of NumPy's, made when it is first used."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

# The chapters are imported for what they enter in `dispatch`.
from oxinp._api import (  # noqa: F401
    coverage,
    creation,
    indexing,
    linear_algebra,
    manipulation,
    mathematics,
    modules,
    notes,
    rebound,
    reductions,
    statistics,
)
from oxinp._api import files as _files  # noqa: F401
from oxinp._api import padding as _padding  # noqa: F401
from oxinp._api import placing as _placing  # noqa: F401
from oxinp._api import quantiles as _quantiles  # noqa: F401
from oxinp._api import repetition as _repetition  # noqa: F401
from oxinp._api import searching as _searching  # noqa: F401
from oxinp._api import sequences as _sequences  # noqa: F401
from oxinp._api import sets as _sets  # noqa: F401
from oxinp._api import splitting as _splitting  # noqa: F401
from oxinp._api.fronts import host_function, refused
from oxinp._api.submodule_rows import SUBMODULES
from oxinp._core.array import dispatch
from oxinp._core.array.flat import flatiter
from oxinp._core.array.ndarray import ndarray
from oxinp._core.errors.frames import call_as_user
from oxinp._core.host.fallback import OUT
from oxinp._core.ufunc.object import ufunc

_rows = coverage.rows()

# Names with an object of their own.
_OBJECTS: dict[str, Any] = {"flatiter": flatiter, "ndarray": ndarray, "ufunc": ufunc}
_CLASSES = dict.fromkeys(("broadcast", "ndenumerate", "nditer", "vectorize"), "oxinp._api.classes")
_UNLISTED = ("__array_api_version__", "__config__")  # names that NumPy's list of public ones lacks
_INDEXED = ("r_", "c_", "mgrid", "ogrid")

for _row in _rows.values():
    if _row.mutates:
        dispatch.mutates[getattr(np, _row.name)] = _row.mutates
modules.register()


def names() -> list[str]:
    """Return NumPy's public names, what ``from oxinp import *`` takes."""
    return [name for name in np.__all__ if name != "__version__"]


def is_lasting(name: str) -> bool:
    """Return whether a name may be kept once it is resolved: NumPy warns of each use of those that it will remove."""
    return name in np.__dict__ or name in np.__all__ or name in SUBMODULES


def resolve(name: str) -> Any:
    """Return what ``oxinp.<name>`` is.

    Raises
    ------
    AttributeError
        NumPy has no such name; in its words, which for a name it removed say what to use instead.
    """
    if name.startswith("__") and name not in _rows and name not in _UNLISTED:
        raise AttributeError(f"module 'oxinp' has no attribute {name!r}")
    row = _rows.get(name)
    if name in _OBJECTS:
        return _OBJECTS[name]
    if name in _CLASSES:
        value = getattr(importlib.import_module(_CLASSES[name]), name)
        if row is not None:
            notes.add(value, getattr(np, name), row)
        return value
    if name in _INDEXED:
        return importlib.import_module("oxinp._api.classes").Indexed(name)
    if name in SUBMODULES:
        return importlib.import_module(f"oxinp.{name}")
    try:
        numpys = getattr(np, name) if name in np.__dict__ else call_as_user(getattr, (np, name), {})
    except AttributeError as error:
        raise AttributeError(str(error).replace("module 'numpy'", "module 'oxinp'")) from None
    # No row: a NumPy that is newer than the table.
    if row is None:
        return modules.adapted(numpys, name)
    value = _MAKE[row.kind](numpys, row)
    if value is not numpys:
        notes.add(value, numpys, row)
    return value


def _entered(numpys: Any, row: coverage.CoverageRow) -> Any:
    return modules.adapted(numpys, row.name)


def _host(numpys: Any, row: coverage.CoverageRow) -> Any:
    if isinstance(numpys, np.ufunc):
        return modules.adapted(numpys, row.name)
    return host_function(numpys, row.name, (*row.mutates, *OUT) if row.mutates else OUT)


def _own(numpys: Any, row: coverage.CoverageRow) -> Any:  # noqa: ARG001 - one signature for all kinds
    return numpys


def _refused(numpys: Any, row: coverage.CoverageRow) -> Any:
    return refused(numpys, row.name, row.reason)


_MAKE: dict[str, Callable[[Any, coverage.CoverageRow], Any]] = {
    coverage.NATIVE: _entered,
    coverage.COMPOSED: _entered,
    coverage.HOST: _host,
    coverage.OWN: _own,
    coverage.REFUSED: _refused,
}

"""NumPy's submodules under our name: ``oxinp.linalg``, ``oxinp.lib.stride_tricks``.

A module here is made of NumPy's: its functions run on the host and are counted (``linalg.svd``), its classes and
constants are NumPy's own. Nothing is imported or made before it is used. A real package of ours, when there is one,
takes the place of its row.
"""

from __future__ import annotations

import importlib
import operator
import sys
from types import ModuleType
from typing import Any

import numpy as np

from oxinp._api.fronts import HostUfunc, enter_without_reading, host_function
from oxinp._core.array import dispatch
from oxinp._core.host.fallback import OUT, Mutated

HOST = "host"
OWN = "own"

# THE SUBMODULE TABLE: host (functions through the counted fallback) or own (NumPy's objects as they are: they compute
# nothing, or give classes of NumPy's that stay on the host).
SUBMODULES: dict[str, str] = {
    "char": HOST,
    "core": OWN,
    "ctypeslib": OWN,
    "dtypes": OWN,
    "emath": HOST,
    "exceptions": OWN,
    "f2py": OWN,
    "fft": HOST,
    "lib": HOST,
    "lib.array_utils": HOST,
    "lib.format": OWN,
    "lib.introspect": OWN,
    "lib.mixins": OWN,
    "lib.npyio": OWN,
    "lib.scimath": HOST,
    "lib.stride_tricks": HOST,
    "linalg": HOST,
    "ma": OWN,
    "ma.extras": OWN,
    "ma.core": OWN,
    "polynomial": HOST,
    "polynomial.chebyshev": HOST,
    "polynomial.hermite": HOST,
    "polynomial.hermite_e": HOST,
    "polynomial.laguerre": HOST,
    "polynomial.legendre": HOST,
    "polynomial.polynomial": HOST,
    "polynomial.polyutils": HOST,
    "random": HOST,
    "rec": HOST,
    "strings": HOST,
    "testing": OWN,
    "typing": OWN,
}

# Of host modules: what is a class or function of ours instead, by the module that holds it (imported when used) ...
_OURS = dict.fromkeys(("random.Generator", "random.RandomState", "random.default_rng"), "oxinp._api.random")
# ... what is ours alone ...
_ADDED = {"random.Philox4x32": "oxinp._api.philox"}
# ... and the functions that touch no array.
_OWN = {
    *("fft.test", "linalg.test", "polynomial.test", "polynomial.set_default_printstyle", "random.test", "lib.test"),
    *("lib.add_docstring", "lib.add_newdoc", "lib.array_utils.normalize_axis_index"),
    *("lib.array_utils.normalize_axis_tuple", "rec.format_parser", "rec.find_duplicate", "random.bytes", "random.seed"),
    *("random.get_state", "random.set_state", "random.get_bit_generator", "random.set_bit_generator"),
}
_MUTATES: dict[str, tuple[Mutated, ...]] = {"random.shuffle": (0, "x")}

# Views, made without reading an element.
for _name in ("as_strided", "sliding_window_view"):
    enter_without_reading(getattr(np.lib.stride_tricks, _name), f"lib.stride_tricks.{_name}")
for _name in ("diagonal", "matrix_transpose"):
    enter_without_reading(getattr(np.linalg, _name), f"linalg.{_name}")


class NumpyModule(ModuleType):
    """A module of NumPy's, adapted name by name when used.

    Parameters
    ----------
    path : str
        Its name below ``numpy``.
    kind : str
        host or own.
    """

    def __init__(self, path: str, kind: str) -> None:
        super().__init__(f"oxinp.{path}")
        self.__dict__["_path"] = path
        self.__dict__["_kind"] = kind
        self.__dict__["__path__"] = []

    def __getattr__(self, name: str) -> Any:
        added = _ADDED.get(f"{self._path}.{name}")
        if added is not None:
            return getattr(importlib.import_module(added), name)
        value = getattr(self._numpys, name)
        if not (name.startswith("__") and name.endswith("__")):
            value = adapted(value, f"{self._path}.{name}", self._kind)
            self.__dict__[name] = value
        return value

    @property
    def _numpys(self) -> Any:
        return operator.attrgetter(self._path)(np)

    def __dir__(self) -> list[str]:
        return [*dir(self._numpys), *(name.rpartition(".")[2] for name in _ADDED if name.startswith(f"{self._path}."))]

    def __reduce__(self) -> Any:
        return importlib.import_module, (self.__name__,)


def adapted(value: Any, name: str, kind: str = HOST) -> Any:
    """Return ours for an object of NumPy's: a submodule, a function, or the object as it is.

    Parameters
    ----------
    value : object
    name : str
        Its dotted name below ``numpy``.
    kind : str
        Of the module it is in.
    """
    if name in SUBMODULES:
        return sys.modules[f"oxinp.{name}"]
    if name in _OURS:
        return getattr(importlib.import_module(_OURS[name]), name.rpartition(".")[2])
    if kind == OWN or name in _OWN or not callable(value) or isinstance(value, type):
        return value
    if isinstance(value, np.ufunc):
        return HostUfunc.of(value)
    known = dispatch.functions.get(value) if _is_hashable(value) else None
    return host_function(value, name, _MUTATES.get(name, OUT)) if known is None else known


def _is_hashable(value: Any) -> bool:
    return getattr(type(value), "__hash__", None) is not None


def register() -> None:
    """Enter the submodules among Python's, so that ``import oxinp.linalg`` finds them."""
    for path, kind in SUBMODULES.items():
        sys.modules.setdefault(f"oxinp.{path}", NumpyModule(path, kind))

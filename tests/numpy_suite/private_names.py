"""NumPy's private modules, as its tests get them: what has a public name is ours there, too.

NumPy's tests import many functions from the private modules that define them, `numpy.minimum` from `numpy._core.umath`
say. That is the same object, so it is bound as the public name is. What no public name has stays NumPy's, but for the
casts that tests call by their loops: `_get_castingimpl` gives what casts one dtype to another, and over arrays of ours
its `_simple_strided_call`, which runs the loop over two arrays, is `oxinp.copyto`.
"""

import importlib
import sys
from types import ModuleType
from typing import Any

import numpy as np
from numpy._core._multiarray_umath import _get_castingimpl

import oxinp
from oxinp._core.array import dispatch

MODULES = (
    *("_core", "_core._multiarray_umath", "_core.fromnumeric", "_core.function_base", "_core.multiarray"),
    *("_core.numeric", "_core.shape_base", "_core.umath"),
    *("lib._arraypad_impl", "lib._function_base_impl", "lib._histograms_impl", "lib._index_tricks_impl"),
    *("lib._nanfunctions_impl", "lib._stride_tricks_impl", "lib._utils_impl", "linalg._linalg"),
)
"""The private modules that define public functions, below ``numpy``."""


class Private(ModuleType):
    """A private module of NumPy's with ours for what is public.

    Parameters
    ----------
    source : str
        Its name.
    """

    def __init__(self, source: str) -> None:
        super().__init__(f"private_{source.replace('.', '_')}")
        self._source = importlib.import_module(source)

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._source, name)
        if name.startswith("__"):
            return value
        if value is _get_castingimpl:
            return find_cast
        if getattr(np, name, None) is value:
            return getattr(oxinp, name)
        ours = dispatch.find(value) if callable(value) and not isinstance(value, type) else None
        return value if ours is None else ours


class Cast:
    """A cast between two dtypes: NumPy's in all but what moves elements.

    Parameters
    ----------
    theirs : object
        What NumPy has for it.
    """

    def __init__(self, theirs: Any) -> None:
        self._theirs = theirs

    def __getattr__(self, name: str) -> Any:
        return getattr(self._theirs, name)

    def _simple_strided_call(self, arrays: Any) -> Any:
        if type(arrays) is not tuple or not all(isinstance(array, oxinp.ndarray) for array in arrays):
            return self._theirs._simple_strided_call(arrays)
        # NumPy looks at dtypes and dimensions; lengths, and what may be written to, are for `copyto` to look at.
        self._theirs._simple_strided_call(tuple(np.empty((0,) * array.ndim, array.dtype) for array in arrays))
        given, written = arrays
        return oxinp.copyto(written, given, casting="unsafe")


def find_cast(source: type, target: type) -> Any:
    """Return what casts dtypes of one class to one of another, None where nothing does."""
    theirs = _get_castingimpl(source, target)
    return theirs if theirs is None else Cast(theirs)


def bound_modules() -> dict[str, str]:
    """Return the names of the modules that stand for NumPy's private ones, by theirs."""
    names = {}
    for path in MODULES:
        module = Private(f"numpy.{path}")
        sys.modules[module.__name__] = module
        names[f"numpy.{path}"] = module.__name__
    return names

"""Arrays without dimensions that stay arrays: what the standard has where NumPy gives scalars."""

from __future__ import annotations

from typing import Any

import numpy as np

from oxinp._core.array.ndarray import ndarray
from oxinp._core.lazy.handle import Handle
from oxinp._core.lazy.results import types
from oxinp._core.subclass import make, plain


class ZeroDimensionalArray(ndarray):
    """An array without dimensions, of which arithmetic gives another one where NumPy's rules give a scalar.

    What is computed of it and of an array with dimensions is a plain `oxinp.ndarray`.
    """

    __slots__ = ()

    def __array_finalize__(self, obj: Any, /) -> None:
        if self._layout.shape:
            self.__class__ = ndarray  # type: ignore[assignment] # of the same slots

    def __getitem__(self, key: Any) -> Any:
        return as_arrays(plain(self)[key])

    def __repr__(self) -> str:
        return repr(plain(self))


def as_arrays(value: Any) -> Any:
    """Return a result with arrays of ours for scalars, in tuples as well; those of the device stay pending."""
    kind = type(value)
    if kind is ndarray or type(kind) is types.scalar_type:
        return value if value._layout.shape else make(value, ZeroDimensionalArray, None)
    if isinstance(value, np.generic):
        return make(types.from_host(np.asarray(value)), ZeroDimensionalArray, None)
    if isinstance(value, tuple):
        parts = map(as_arrays, value)
        return kind._make(parts) if hasattr(kind, "_make") else kind(parts)
    return [as_arrays(part) for part in value] if kind is list else value


def as_plain(value: Any) -> Any:
    """Return an argument as the functions of `oxinp` are to have it: a plain array, in lists and tuples, too."""
    if isinstance(value, Handle):
        return plain(value)
    return type(value)(map(as_plain, value)) if type(value) in (list, tuple) else value

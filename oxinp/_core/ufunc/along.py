"""Methods of ufuncs along an axis, `reduce` and `accumulate`, of arrays that are on the host and belong there."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from oxinp._core.lazy import placement
from oxinp._core.lazy.inlining import compiled

_TEXT = """
def make(general, method, known):
    def along(self, array=MISSING, axis=0, *args, **kwargs):
        ufunc = self._numpys
        if type(array) is ndarray and type(axis) is int and not args and not kwargs and ufunc in known:
            x = seen(array) else return general(self, array, axis)
            nbytes = x.nbytes
            if 0 < nbytes and (nbytes < config.offload_threshold or is_host(nbytes)) and not REPORTS:
                result = heard(method, ufunc, x, axis) else return general(self, array, axis)
                return wrapped(result)
        if array is not MISSING:
            args = array, axis, *args
        return general(self, *args, **kwargs)
    return along
"""
_make = compiled("methods of ufuncs along an axis", _TEXT, may_warn=True, names={"is_host": placement.is_host})


def method_along(names: Iterable[str]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return what puts NumPy's method before one of ours, for what that leaves to NumPy, and is no fallback.

    Parameters
    ----------
    names : iterable of str
        Of ufuncs that have kernels for it.
    """
    known = frozenset([getattr(np, name) for name in names if hasattr(np, name)])

    def decorate(general: Callable[..., Any]) -> Callable[..., Any]:
        made: Callable[..., Any] = _make(general, getattr(np.ufunc, general.__name__), known)
        made.__name__, made.__qualname__ = general.__name__, general.__qualname__
        return made

    return decorate


__all__ = ["method_along"]

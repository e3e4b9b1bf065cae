"""Small draws, which are NumPy's wherever arrays are: by its own methods at once, with few functions around them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from math import inf
from typing import Any

import numpy as np

from oxinp._config import config
from oxinp._core.lazy.results import wrap_host
from oxinp.random.transformed import SCALARS

PLAIN = frozenset({type(None), bool, str, type, np.dtype, *(type(np.dtype(code)) for code in "?bhilBHILfd"), *SCALARS})
"""Types of arguments that NumPy takes as they are."""
_NumpyArray = np.ndarray
_WIDEST = 8  # bytes of a number


def _count(shape: tuple[Any, ...]) -> float:
    """Return how many elements a shape has; infinitely many of what is none."""
    count = 1
    for extent in shape:
        if type(extent) is not int or extent < 0:
            return inf
        count *= extent
    return count


def at_once(place: int, numpys: Callable[..., Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return what makes a method of generators draw small arrays by NumPy's.

    Parameters
    ----------
    place : int
        That of the argument `size` among those by position.
    numpys : callable
        NumPy's method.
    """

    def decorate(method: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(method)
        def drawn(self: Any, *args: Any, **kwargs: Any) -> Any:
            if args or kwargs:
                size = args[place] if len(args) > place else kwargs.get("size")
                given = (*args, *kwargs.values()) if kwargs else args
                if type(size) is tuple:
                    count = _count(size)
                    given = tuple([value for value in given if value is not size])
                else:
                    count = 0 if size is None else size if type(size) is int and size >= 0 else inf
                if (count and count * _WIDEST >= config.offload_threshold) or not PLAIN.issuperset(map(type, given)):
                    return method(self, *args, **kwargs)
            with self._mutex:
                if self._ending is not None:
                    self._settle()
                found = numpys(self, *args, **kwargs)
            return wrap_host(found) if type(found) is _NumpyArray else found

        return drawn

    return decorate


__all__ = ["PLAIN", "at_once"]

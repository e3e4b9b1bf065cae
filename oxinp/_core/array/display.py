"""repr and str: NumPy's own text, from only the elements that it shows."""

from __future__ import annotations

from collections.abc import Callable
from threading import get_ident
from typing import Any

import numpy as np

from oxinp._core.lazy.handle import Handle, fetch, host_view
from oxinp._core.lazy.results import types
from oxinp._core.ops.index import getitem


def _guarded(inside: str) -> Callable[[Callable[[Handle], str]], Callable[[Handle], str]]:
    """Have an array of objects that is one of its own elements shown by `inside` there, as NumPy's is."""

    def guard(show: Callable[[Handle], str]) -> Callable[[Handle], str]:
        def shown(array: Handle) -> str:
            if not array._layout.dtype.hasobject:
                return show(array)
            key = host_view(array).ctypes.data, get_ident()
            if key in _SHOWN:
                return inside.format(name=_name_of(array))
            _SHOWN.add(key)
            try:
                return show(array)
            finally:
                _SHOWN.discard(key)

        shown.__doc__ = show.__doc__
        return shown

    return guard


_SHOWN: set[tuple[int, int]] = set()
"""Arrays of objects that threads are at, by their addresses."""


def _name_of(array: Handle) -> str:
    """Return what NumPy calls an array: one of a user's class by its class."""
    return "array" if type(array) is types.ndarray else type(array).__name__


@_guarded("{name}(..., dtype=object)")
def to_repr(array: Handle) -> str:
    """Return what `numpy.array_repr` gives."""
    shown, cut = _shown(array)
    name = "array"
    if type(array) is not types.ndarray:  # NumPy calls an array of a user's class by its class
        name = type(array).__name__
        shown = shown.view(type(name, (np.ndarray,), {}))
    if not cut:
        return np.array_repr(shown)
    with np.printoptions(threshold=0):
        text = np.array_repr(shown)
    start = text.rfind("shape=")
    if start < 0:  # NumPy before 2.2
        return text
    body = text[:start].rstrip()
    extras = text[start:].replace(str(shown.shape), str(array._layout.shape), 1)
    # NumPy breaks the line before what would not fit on it, which is not as long for the elements that are shown.
    last_line = len(body) - (body.rfind("\n") + 1)
    fits = last_line + len(extras) + 1 <= np.get_printoptions()["linewidth"]
    return f"{body}{' ' if fits else _new_line(name)}{extras}"


def _new_line(name: str) -> str:
    return "\n" + " " * len(f"{name}(")


@_guarded("...")
def to_str(array: Handle) -> str:
    """Return what `numpy.array_str` gives."""
    shown, cut = _shown(array)
    if not cut:
        return np.array_str(shown)
    with np.printoptions(threshold=0):
        return np.array_str(shown)


def _shown(array: Handle) -> tuple[np.ndarray[Any, Any], bool]:
    """Return the elements that are printed, and whether others were cut out.

    NumPy summarises a dimension longer than twice `edgeitems` as its edges around dots; one more element between the
    edges makes the cut array be printed that way.
    """
    options = np.get_printoptions()
    layout = array._layout
    if layout.size <= options["threshold"] or array._storage.host is not None:
        return fetch(array), False
    edge = options["edgeitems"]
    return _corners(array, edge, 0), True


def _corners(array: Any, edge: int, axis: int) -> np.ndarray[Any, Any]:
    if axis == array._layout.ndim:
        return fetch(array)
    n = array._layout.shape[axis]
    if n <= 2 * edge + 1:
        return _corners(array, edge, axis + 1)
    before = (slice(None),) * axis
    ends = (getitem(array, (*before, slice(0, edge + 1))), getitem(array, (*before, slice(n - edge, n))))
    return np.concatenate([_corners(end, edge, axis + 1) for end in ends], axis)

"""Views: other layouts of the same storage. NumPy itself computes them, on arrays that are never read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from oxinp._core.lazy.handle import NOWHERE, Handle, base_of, host_and_view, host_view, is_writeable
from oxinp._core.lazy.results import types
from oxinp._core.memory.layout import Layout
from oxinp._core.memory.view_functions import VIEWS, ViewRow, fastest, view_layout

_new = object.__new__
NumpyArray = np.ndarray[Any, Any]


def view_at(base: Handle, layout: Layout, cache: tuple[Any, Any] = (None, None), *, writeable: bool = True) -> Any:
    """Return the view of `base` whose elements lie in `layout`."""
    seen = base._view
    kind = types.ndarray
    if type(base) is kind and writeable and (seen is None or type(seen) is kind):  # `_begin`, spelled out
        view: Any = next(types.bare)
        view._held = base._held or base._storage
        view._view = base if seen is None else seen
        view._at = NOWHERE
        view._known = layout
        view._host, view._seen = cache
        return view
    view = _begin(base, writeable)
    view._known = layout
    view._host, view._seen = cache
    return view if type(view) is types.ndarray else types.finalize(view, base)


def _begin(base: Handle, writeable: bool) -> Any:
    """Return a view of `base`, of its class, that lies nowhere yet."""
    view = _new(types.ndarray if type(type(base)) is types.scalar_type else type(base))
    view._held = base._held or base._storage
    # A view of a view is one of the array itself, unless that is of another class or lies in others' memory.
    whole = base_of(base)
    view._view = (whole if type(whole) is type(base) else base, writeable and is_writeable(base))
    return view


def view(base: Handle, make_view: Callable[[NumpyArray], NumpyArray], *, writeable: bool = True) -> Any:
    """Return ``make_view(base)`` for a NumPy operation that returns a view without reading elements."""
    if base._storage.host is not None and base._storage.value is None:
        host, seen = host_and_view(base)
        return host_part(base, host, make_view(seen), writeable=writeable)
    return view_at(base, base._layout.view(make_view), writeable=writeable)


def row_view(
    base: Handle, function: Callable[..., Any], row: ViewRow, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Return the view that a function of NumPy's in `VIEWS` makes of an array; None where NumPy is to be asked."""
    storage = base._held or base._storage
    if storage.host is None or storage.value is not None:
        layout = view_layout(row, base._known or base._layout, args, kwargs)
        return None if layout is None else view_at(base, layout, writeable=row.is_writeable)
    host, seen = host_and_view(base)
    if seen.dtype.hasobject:  # whose elements may be arrays
        return None
    part = function(seen, *args, **kwargs) if kwargs else fastest(row, function, args)(seen, *args)
    if type(part) is not np.ndarray:
        return None
    return base if part is seen else host_part(base, host, part, writeable=row.is_writeable)


def moved(base: Handle, function: Callable[..., Any], *args: Any) -> Any:
    """Return the view of any array of ours that a function of NumPy's in `VIEWS` makes."""
    row = VIEWS[function]
    make = fastest(row, function, args)
    storage = base._held or base._storage
    host = storage.host
    if host is None or storage.value is not None:
        layout = view_layout(row, base._known or base._layout, args, {})
        if layout is not None:
            return view_at(base, layout, writeable=row.is_writeable)
    else:
        seen = base._seen if base._host is host else host_view(base)
        return host_part(base, host, make(seen, *args), writeable=row.is_writeable)
    return view(base, lambda seen: make(seen, *args), writeable=row.is_writeable)


def part_views(base: Handle, make: Callable[[NumpyArray], Any], otherwise: Any) -> Any:
    """Return the views that a function makes of an array on the host, in a list or tuple.

    Parameters
    ----------
    base : Handle
    make : callable
        Makes them of NumPy's view of the array.
    otherwise : object
        What is returned where the array is not on the host alone, or anything else is made.
    """
    storage = base._held or base._storage
    host = storage.host
    if host is None or storage.value is not None or storage.has_objects or not is_writeable(base):
        return otherwise
    seen = base._seen if base._host is host else host_view(base)
    parts = make(seen)
    if type(parts) is not list and type(parts) is not tuple:
        return otherwise
    for part in parts:
        if type(part) is not np.ndarray or part is seen or not part.flags.writeable:
            return otherwise
        if part.base is not host and (part.base is None or part.base is not host.base):
            return otherwise
    return type(parts)([host_part(base, host, part) for part in parts])


def host_part(base: Handle, host: NumpyArray, part: NumpyArray, *, writeable: bool = True) -> Any:
    """Return the view of `base` that corresponds to `part`, a NumPy view of its host view; `host` is its storage's."""
    seen = base._view
    kind = types.ndarray
    view: Any
    if type(base) is kind and writeable and (seen is None or type(seen) is kind):  # `_begin`, spelled out
        view = next(types.bare)
        view._held = base._held or base._storage
        view._view = base if seen is None else seen
        view._at = NOWHERE
    else:
        view = _begin(base, writeable)
    view._known = None
    view._host = None if view._held.has_objects else host
    view._seen = part
    if type(view) is kind:
        return view
    view._known = view._layout
    return types.finalize(view, base)

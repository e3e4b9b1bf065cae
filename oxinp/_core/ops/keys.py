"""Keys of indexing: which are basic, as tuples of numbers, and as the layouts of the views that they select."""

from __future__ import annotations

from types import EllipsisType, NoneType
from typing import Any

import numpy as np

from oxinp._core.lazy.results import is_device_scalar, types
from oxinp._core.memory.layout import Layout
from oxinp._core.memory.parts import MAX_KEY, part_of

INTEGERS = {kind for kind in np.sctypeDict.values() if issubclass(kind, np.integer)}
BASIC = frozenset({int, slice, NoneType, EllipsisType, *INTEGERS})

_ONE = np.ones((), np.bool_)
_PLAIN = frozenset({int, NoneType, EllipsisType, object})
SLICE = object()  # what bounds follow in a plain key


def is_basic(key: Any) -> bool:
    """Whether a key is made of integers, slices, newaxis and ellipsis alone, so that it selects a view."""
    if type(key) is tuple:
        for part in key:  # noqa: SIM110 - `all` costs more than the rest of an access
            if type(part) not in BASIC:
                return False
        return True
    return type(key) in BASIC


def with_values(key: Any) -> Any:
    """Return a key with the values of scalars that are on the device; the key itself if there is none."""
    if type(key) is not tuple:
        return key[()] if is_device_scalar(key) else key
    for part in key:
        if type(type(part)) is types.scalar_type:  # `is_device_scalar`, spelled out
            return tuple([part[()] if is_device_scalar(part) else part for part in key])
    return key


def with_integers(key: Any) -> Any:
    """Return a key with numbers instead of arrays of one integer and no dimension; the key itself without them."""
    parts = key if type(key) is tuple else (key,)
    for part in parts:
        kind = type(part)
        if kind is types.ndarray:
            layout = part._known or part._layout
        elif kind is np.ndarray:
            layout = part
        else:
            continue
        if not layout.ndim and layout.dtype.kind in "iu":
            counted = tuple([int(part) if _is_single(part) else part for part in parts])
            return counted if type(key) is tuple else counted[0]
    return key


def _is_single(part: Any) -> bool:
    return (type(part) is np.ndarray or type(part) is types.ndarray) and not part.ndim and part.dtype.kind in "iu"


def with_numbers(key: Any) -> Any:
    """Return a key with Python's integers instead of NumPy's; the key itself without them."""
    if type(key) is not tuple:
        return int(key) if type(key) in INTEGERS else key
    if INTEGERS.isdisjoint(map(type, key)):
        return key
    return tuple([int(part) if type(part) in INTEGERS else part for part in key])


def as_view_key(key: Any) -> tuple[Any, ...]:
    """Return a basic key as a tuple that selects a view, also where the key selects one element."""
    parts = key if type(key) is tuple else (key,)
    for part in parts:
        if part is ...:
            return parts
    return (*parts, ...)


def flattened(key: Any) -> Any:
    """Return a key of slices, integers, newaxis and ellipsis as a tuple of numbers; None for anything else.

    Numbers that are equal may be of other types, which mean other things or nothing: so all are looked at.
    """
    plain: list[Any] = []
    for part in key if type(key) is tuple else (key,):
        if type(part) is slice:
            plain += (SLICE, part.start, part.stop, part.step)
        else:
            plain.append(part)
    return tuple(plain) if _PLAIN.issuperset(map(type, plain)) else None


def locate(layout: Layout, key: Any) -> tuple[Layout, bool]:
    """Return the layout of a basic index's view, and whether NumPy would give a scalar instead."""
    return part_of(layout, key) or _located(layout, key, flattened(key))


def located_part(layout: Layout, key: Any) -> tuple[Layout, bool] | None:
    """Return what `locate` does of a key that `part_of` leaves; None where it is not basic, or has others' numbers."""
    plain = flattened(key)
    if plain is not None:
        return _located(layout, key, plain)
    kinds = map(type, key) if type(key) is tuple else (type(key),)
    return None if INTEGERS.isdisjoint(kinds) else part_of(layout, with_numbers(key))


def _located(layout: Layout, key: Any, plain: Any) -> tuple[Layout, bool]:
    known = layout.parts
    if plain is None or known is None or (located := known.get(plain)) is None:
        located = _find_part(layout, key, plain)
    return located


def _find_part(layout: Layout, key: Any, plain: Any) -> tuple[Layout, bool]:
    """Return what `locate` does of a key that the layout does not know, by its `flattened` form; it keeps that."""
    parts = as_view_key(key)
    if len(parts) > MAX_KEY:
        np.broadcast_to(_ONE, layout.shape)[parts]  # NumPy's own error
    selected = layout.select(parts) or layout.view(lambda seen: seen[parts])
    located = selected, selects_element(key, parts, selected.ndim)
    if plain is not None:
        layout.keep_part(plain, located)
    return located


def selects_element(key: Any, parts: tuple[Any, ...], ndim: int) -> bool:
    """Whether a basic key selects one element, for which NumPy gives a scalar: no dimension left, and no ellipsis."""
    return ndim == 0 and parts is not key and key is not ...


__all__ = [
    "BASIC",
    "as_view_key",
    "flattened",
    "is_basic",
    "locate",
    "located_part",
    "selects_element",
    "with_integers",
    "with_numbers",
    "with_values",
]

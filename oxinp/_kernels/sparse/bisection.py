"""Bisection inside a kernel: a thread finds a place in what is sorted."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxinp._ptx import Builder
    from oxinp._ptx.memory import Pointer
    from oxinp._ptx.value import Value


def bisect(k: Builder, first: Value, last: Value, is_before: Callable[[Value], Value]) -> Value:
    """Return the first place from `first` on that is not before what is looked for; `last` where all below it are.

    Parameters
    ----------
    k : Builder
    first, last : Value
    is_before : callable
        Of a place below `last`; true of none behind one of which it is false.
    """
    low, high = k.var(first), k.var(last)
    with k.loop():
        k.break_if(low >= high)
        middle = low + k.shr(high - low, 1)
        is_below = is_before(middle)
        low.set(k.where(is_below, middle + 1, low))
        high.set(k.where(is_below, high, middle))
    return k.emit("mov", low)


def owner(k: Builder, through: Pointer, place: Value, first: Value, last: Value) -> Value:
    """Return who owns a place, from `first` to `last`: the first one with more places up to its end (`through`)."""
    return bisect(k, first, last, lambda middle: through[middle] <= place)


__all__ = ["bisect", "owner"]

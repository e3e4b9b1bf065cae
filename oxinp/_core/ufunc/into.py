"""Calls of ufuncs that say where the result goes, ``np.add(a, b, out=c)``, of an array that is on the device.

What has the dtype of that is recorded as an operator records it, and then stored. Everything else is left to the
general way, of whose questions some are answered here: operands are arrays of ours and numbers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from oxinp._core.errors.state import current, quiet
from oxinp._core.lazy import straight
from oxinp._core.lazy.balance import balance
from oxinp._core.lazy.calls import is_waiting
from oxinp._core.lazy.expr import Operation, Unsupported
from oxinp._core.lazy.handle import base_of, expression
from oxinp._core.lazy.inlining import MISSING
from oxinp._core.lazy.results import types
from oxinp._core.lazy.stores import apply_into, store
from oxinp._core.memory.dtypes import WEAK_TYPES
from oxinp._core.memory.layout import Layout
from oxinp._core.ufunc.operators import met_number

_NUMBERS = frozenset({*WEAK_TYPES, *np.sctypeDict.values()} - {np.object_, np.void, np.str_, np.bytes_})


def into_device(called: Any, operation: Operation, a: Any, b: Any, out: Any) -> Any:
    """Compute a call of a ufunc into an array that is on the device alone, and return that.

    NotImplemented, and nothing has been done, where there is more to it.

    Parameters
    ----------
    called : ufunc
    operation : Operation
        What it records.
    a, b : object
        The operands; of one alone, the second is `MISSING`.
    out : ndarray
    """
    kind, other, layout = type(a), type(b), out._known
    is_array = kind is types.ndarray
    if not layout or not (is_array or (other is types.ndarray and kind in _NUMBERS)):
        return NotImplemented
    if not (b is MISSING or other is types.ndarray or other in _NUMBERS):
        return NotImplemented
    operands = (a,) if b is MISSING else (a, b)
    view, first = out._view, a if is_array else b
    held, seen = first._held, first._known
    is_writeable = type(view) is not tuple or view[1]
    if is_writeable and is_array and b is not MISSING and view is not None and seen is layout and held is out._held:
        if straight.update(operation, out, met_number(out, b)):
            return out
    elif (
        is_writeable
        and (seen and seen.dtype is layout.dtype and held is not None and held.host is None)
        and not balance.limit
        and current() is quiet.state
    ):
        try:
            if _is_stored(called(*operands), out, layout):
                return out
        except (ValueError, TypeError, OverflowError):  # which are of the output, too
            return NotImplemented
    try:
        return apply_into(operation, called._numpys, called._numpys, operands, out)
    except Unsupported:
        return NotImplemented


def _is_stored(made: Any, out: Any, layout: Layout) -> bool:
    """Store what an operator has made, if it is on the device and of an array's dtype and shape; whether it was."""
    held = made._held if type(made) is types.ndarray else None
    if held is None or held.host is not None or (value := held.value) is None:
        return False
    given, base = made._known, base_of(out)
    if base is None:
        if given is not layout or value[0].layout is not layout:
            return False
        store(out, value)
        return True
    if not given or given.shape != layout.shape or given.dtype is not layout.dtype or not layout.is_injective:
        return False
    if not (type(base) is types.ndarray and base._held is out._held and straight.assign(base, layout, made)):
        value = expression(made)
        store(out, value, held if is_waiting(value) else None)
    return True


__all__ = ["into_device"]

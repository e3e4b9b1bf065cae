"""Operands: what a ufunc or an operator takes, what it converts, and what it declines, as NumPy's do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from oxinp._core.lazy.array_protocol import numpys
from oxinp._core.lazy.handle import Handle
from oxinp._core.lazy.results import is_device_scalar, types, wrap_host
from oxinp._core.memory.dtypes import WEAK_TYPES

_NumpyArray = np.ndarray


def other_side(value: Any) -> Any:
    """Return what an operator's other side is to `apply`, as `operand` does; NotImplemented to decline.

    An operator, unlike a ufunc, also leaves the operation to what claims priority.
    """
    kind = type(value)
    if kind in WEAK_TYPES or isinstance(value, Handle | np.generic):
        return operand(value)
    return NotImplemented if is_deferred_to(value) else operand(value)


def is_deferred_to(value: Any) -> bool:
    """Whether NumPy's operators leave the operation to the other side's: it forbids ufuncs, or claims priority.

    The latter, as SciPy's sparse arrays do, is NumPy's legacy protocol and counts without `__array_ufunc__` alone.
    """
    kind = type(value)
    if hasattr(kind, "__array_ufunc__"):
        return kind.__array_ufunc__ is None
    try:
        priority = getattr(value, "__array_priority__", 0)
    except Exception:  # noqa: BLE001 - which NumPy takes for one that claims nothing, whatever it is
        return False
    return isinstance(priority, int | float) and priority > 0


def operand(value: Any) -> Any:
    """Return what an operand is to `apply`: a handle or a scalar; NotImplemented to decline.

    Declined is what has a say of its own in ufuncs or wraps their results, or forbids them, subclasses of NumPy's array
    included.
    """
    kind = type(value)
    if kind in WEAK_TYPES or isinstance(value, Handle):
        return value
    if isinstance(value, np.generic):
        return value
    if kind is bool:
        return np.bool_(value)
    if kind is not _NumpyArray and (hasattr(kind, "__array_ufunc__") or hasattr(kind, "__array_wrap__")):
        return NotImplemented
    return types.from_host(numpys(value))


def of_sequence(value: Any) -> Any:
    """Return a list or tuple as an array, which is new."""
    try:
        return wrap_host(np.array(value))
    except ValueError:  # of arrays of ours, or what NumPy refuses
        return wrap_host(numpys(value))


def mask_operand(where: Any) -> Any:
    """Return what `where=` is to a call: arrays have to be of truth values, anything else is asked whether it is true.

    NotImplemented to decline, as `operand` does.
    """
    if is_device_scalar(where) and where._layout.dtype != np.bool_:
        where = np.asarray(where)[()]
    is_array = isinstance(where, Handle) or any(hasattr(type(where), name) for name in _ARRAY_LIKE)
    if is_array and not isinstance(where, np.generic):
        return operand(where)
    found = np.asarray(where, np.bool_)
    return operand(found) if found.ndim else found[()]


_ARRAY_LIKE = ("__array__", "__array_interface__", "__array_struct__", "__array_ufunc__")


def operand_in_place(value: Any) -> Any:
    """Return what `operand` does for an in-place operator, which takes arrays of NumPy's subclasses for their elements.

    It cannot leave the operation to them: whoever else has the array would not see what was computed.
    """
    found = other_side(value)
    if found is NotImplemented and getattr(type(value), "__array_ufunc__", None) is _NumpyArray.__array_ufunc__:
        return types.from_host(numpys(value))
    return found


def declined_in_place(ufunc: np.ufunc, a: Any, b: Any) -> Any:
    """Return what an in-place operator returns where `operand_in_place` declines: NumPy's ufunc asks the other side."""
    is_asked = hasattr(type(b), "__array_ufunc__") or not is_deferred_to(b)
    return ufunc(a, b, out=(a,)) if is_asked else NotImplemented


_MIRRORED = {"eq": "eq", "ne": "ne", "lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}


def declined(ufunc: np.ufunc, operator: Callable[..., Any] | None, a: Any, b: Any) -> Any:
    """Return what an operator returns where `other_side` declines one.

    That is what NumPy's ufunc, which asks it, returns; of what is deferred to, what its own operator does. One that
    does not know our arrays is given NumPy's.

    Parameters
    ----------
    ufunc : numpy.ufunc
    operator : callable or None
        Python's, ``operator.add``; None if a ufunc was called, which defers to nobody.
    a, b : object
        One of them ours.

    Returns
    -------
    object
        NotImplemented for subclasses of NumPy's array on the right of ours, so that Python asks their operators, and if
        a ufunc was called.
    """
    other = b if isinstance(a, Handle) else a
    kind = type(other)
    is_numpys = issubclass(kind, _NumpyArray)
    is_below = is_numpys and (type(a) is types.ndarray or is_device_scalar(a))
    if not (is_below or is_deferred_to(other) or (is_numpys and other is a)):
        return ufunc(a, b)
    if operator is None or is_below:
        return NotImplemented
    if other is b:  # else its operator has been tried
        name = operator.__name__.strip("_")
        reflected = getattr(kind, f"__{_MIRRORED.get(name, f'r{name}')}__", None)
        result = NotImplemented if reflected is None else reflected(b, a)
        if result is not NotImplemented:
            return result
    return types.fall_back(operator, (a, b), {}, name=ufunc.__name__)

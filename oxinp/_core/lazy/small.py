"""Views, copies and casts of small arrays on the host: what methods and functions of NumPy's begin with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from oxinp._core.lazy.inlining import compiled
from oxinp._core.memory.dtypes import DEVICE_TYPES

_VIEW_TEXT = """
def make(general):
    def front({parameters}):
        if {is_other}:
            return general({arguments})
        if type(self) is not ndarray:
            return general({arguments})
        storage = stored(self)
        host = storage.host
        if host is None or storage.value is not None:
            return general({arguments})
        seen = self._seen if self._host is host else host_view(self)
        found = {found}
        {unless_view}
        if storage.has_objects:
            host = None
        return part(found) of self at NOWHERE, known {known}
    return front
"""


_UNLESS_VIEW_TEXT = """\
owner = found.base
        if owner is not host and (owner is None or owner is not host.base):  # it is a copy
            return general({arguments})
"""


class _View(NamedTuple):
    """How a view is asked for: parameters, what is left to the general way, with which arguments, and the view.

    `known` is what is known of it, where the array's elements may be known to be few; `is_view` says that it never is
    a copy.
    """

    parameters: str
    is_other: str
    arguments: str
    found: str
    known: str = "FEW if self._known is FEW else None"
    is_view: bool = False

    def front(self, name: str, general: Callable[..., Any]) -> Callable[..., Any]:
        """Return what makes the view, or leaves it to the general way."""
        unless_view = "" if self.is_view else _UNLESS_VIEW_TEXT.format(arguments=self.arguments)
        text = _VIEW_TEXT.format(**self._asdict(), unless_view=unless_view)
        made: Callable[..., Any] = compiled(name, text)(general)
        return made


_METHODS: dict[str, _View] = {
    "reshape": _View(
        "self, *shape, order='C', copy=None",
        "order != 'C' or copy is not None or not shape",
        "self, *shape, order=order, copy=copy",
        "seen.reshape(shape[0] if len(shape) == 1 else shape)",
        "None",
    ),
    "ravel": _View("self, order='C'", "order != 'C'", "self, order", "seen.ravel()"),
    "transpose": _View("self, *axes", "axes", "self, *axes", "seen.T", is_view=True),
    "T": _View("self", "False", "self", "seen.T", is_view=True),
}
_FUNCTIONS: dict[Any, _View] = {
    np.flip: _View(
        "self=None, *args, **kwargs",
        "kwargs or args",
        "*((self, *args) if self is not None else ()), **kwargs",
        "seen[(slice(None, None, -1),) * seen.ndim] if seen.ndim else seen.copy()",
    ),
    np.reshape: _View(
        "self=None, *args, **kwargs",
        "kwargs or len(args) != 1",
        "*((self, *args) if self is not None else ()), **kwargs",
        "seen.reshape(args[0])",
        "None",
    ),
    np.ravel: _View(
        "self=None, *args, **kwargs",
        "kwargs or args",
        "*((self, *args) if self is not None else ()), **kwargs",
        "seen.ravel()",
    ),
    np.transpose: _View(
        "self=None, *args, **kwargs",
        "kwargs or args",
        "*((self, *args) if self is not None else ()), **kwargs",
        "seen.T",
        is_view=True,
    ),
}


def viewing_method(general: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method of arrays that makes views, by NumPy's own method where the array is on the host alone.

    Parameters
    ----------
    general : callable
        The method for every array.
    """
    name = general.__name__
    return _described(_METHODS[name].front(f"ndarray.{name}", general), general)


def viewing_function(general: Callable[..., Any], theirs: Any) -> Callable[..., Any]:
    """Return a function of NumPy's that makes views, by the method where the array is on the host alone."""
    row = _FUNCTIONS.get(theirs)
    return general if row is None else row.front(theirs.__name__, general)


_COPY_TEXT = """
def make(general, method):
    def copy(self, order=MISSING):
        if order is not MISSING:
            return general(self, order)
        x = seen(self) else return general(self)
        if self._known is FEW:
            result = called(method, x) else return general(self)
            return few_elements(result)
        if x.nbytes >= config.offload_threshold and not balance.takes(x.nbytes):
            return general(self)
        result = called(method, x) else return general(self)
        return wrapped(result)
    return copy
"""
_CAST_TEXT = """
def make(general, method, DTYPES):
    def astype(self, dtype=MISSING, *args, **kwargs):
        kind = type(dtype)
        if kwargs or args or not (kind is type or kind is str) or dtype not in DTYPES:
            if dtype is not MISSING:
                args = dtype, *args
            return general(self, *args, **kwargs)
        x = seen(self) else return general(self, dtype)
        known = self._known
        if known is not FEW:
            if x.size * 16 >= config.offload_threshold:
                return general(self, dtype)
            known = None
        if x.dtype.kind == "c":
            return general(self, dtype)
        result = called(method, x, dtype) else return general(self, dtype)
        return array_of(result, known)
    return astype
"""


def copying_method(general: Callable[..., Any]) -> Callable[..., Any]:
    """Return the method that copies arrays, with what it does to small ones on the host."""
    made = compiled("copies", _COPY_TEXT)(general, getattr(np.ndarray, general.__name__))
    return _described(made, general)


def casting_method(general: Callable[..., Any]) -> Callable[..., Any]:
    """Return the method that casts arrays, with what it does to small ones on the host."""
    return _described(compiled("casts", _CAST_TEXT, may_warn=True)(general, np.ndarray.astype, DTYPES), general)


_IN_PLACE_TEXT = """
def make(general, method):
    def in_place(self, {method}*args, **kwargs):
        if kwargs or type(self) is not ndarray or type(self._view) is tuple:
            return general(self, *args, **kwargs)
        for value in args:
            if type(value) is not int:
                return general(self, *args)
        x = seen(self) else return general(self, *args)
        if x.dtype not in DEVICE_TYPES or (self._known is not FEW and x.nbytes >= config.offload_threshold):
            return general(self, *args)
        if self._held is None:
            write called(method, x, *args) of self, x, and return None
        storage = self._held
        host = storage.host
        write called(method, x, *args) to storage and return None
        return general(self, *args)
    return in_place
"""


def in_place_method(general: Callable[..., Any], numpys: Callable[..., Any]) -> Callable[..., Any]:
    """Return what moves the elements of an array, which NumPy does itself where that is small and on the host.

    Parameters
    ----------
    general : callable
        What does so for every array, with integers and more.
    numpys : callable
        NumPy's, which warns of nothing and returns None.
    """
    return _in_place("in place", "", general, numpys)


def in_place_function(general: Callable[..., Any]) -> Callable[..., Any]:
    """Return the same, which is told by its second argument what NumPy's is."""
    return _in_place("in place by another", "method, ", general, None)


def _in_place(name: str, method: str, general: Callable[..., Any], numpys: Any) -> Callable[..., Any]:
    text = _IN_PLACE_TEXT.replace("{method}", method)
    made: Callable[..., Any] = compiled(name, text, names={"DEVICE_TYPES": DEVICE_TYPES})(general, numpys)
    return made


def _described(front: Callable[..., Any], general: Callable[..., Any]) -> Callable[..., Any]:
    front.__name__, front.__qualname__, front.__doc__ = general.__name__, general.__qualname__, general.__doc__
    front.__wrapped__ = general  # type: ignore[attr-defined] # whose signature it has
    return front


_NUMBERS = [kind for kind in np.sctypeDict.values() if issubclass(kind, np.number | np.bool_)]
DTYPES: dict[Any, int] = {
    key: dtype.itemsize
    for kind in (bool, int, float, complex, *_NUMBERS)
    for dtype in (np.dtype(kind),)
    for key in (kind, dtype.char, dtype.name, dtype.str[1:])
}
"""Names and classes of dtypes of numbers -> bytes of their elements."""

__all__ = [
    "DTYPES",
    "casting_method",
    "copying_method",
    "in_place_function",
    "in_place_method",
    "viewing_function",
    "viewing_method",
]

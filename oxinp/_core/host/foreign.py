"""Foreign arguments: classes of other libraries that have a say in NumPy's functions, and which functions ask them.

A function of ours takes arrays of ours, NumPy's arrays, numbers and sequences of them for itself. Where there is more
among its arguments, and NumPy's own function would ask it, that function is called: it dispatches by
`__array_function__`, calls a container's own method (``np.cumsum(series)``), wraps what it has computed for
``__array_wrap__``, or returns an array of a subclass.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from oxinp._core.host.exchange import PLAIN
from oxinp._core.host.fallback import positions
from oxinp._core.lazy.handle import Handle

KNOWN: set[Any] = {*PLAIN, *np.sctypeDict.values(), np.ndarray, range, FunctionType, type(np._NoValue)}
KNOWN.update(type(np.dtype(kind)) for kind in np.sctypeDict.values())  # each dtype has a class
"""Types without a say of their own; the classes of our arrays are entered where they are made."""

# Whether NumPy's function dispatches by NEP 18, which what makes arrays of anything (`asarray`) and SciPy's do not.
_Dispatcher = type(np.concatenate)

# What NumPy's functions call with their argument as it is: to have its own method or its `__array_ufunc__` do the work,
# or to wrap a result as the argument is.
_ASK = frozenset(
    {"_array_converter", "_makearray", "_ptp", "_wrapfunc", "_wrapit", "_wrapreduction", "_wrapreduction_any_all"}
)

_MAX_DEPTH = 4  # of lists in lists, as `block` takes


def dispatches(function: Any) -> bool:
    """Whether a function of NumPy's asks its arguments for `__array_function__`."""
    return type(function) is _Dispatcher


def are_known(values: Iterable[Any]) -> bool:
    """Whether no value has a say of its own: a quick look, before `foreigners`."""
    for value in values:
        kind = type(value)
        if kind not in KNOWN and not ((kind is tuple or kind is list) and KNOWN.issuperset(map(type, value))):
            return False
    return True


def foreigners(values: Iterable[Any], depth: int = _MAX_DEPTH) -> list[Any]:
    """Return the values, also in lists and tuples, that are of a class with a say of its own, perhaps."""
    found: list[Any] = []
    for value in values:
        kind = type(value)
        if kind in KNOWN or issubclass(kind, Handle):
            continue
        if kind is list or kind is tuple:
            if depth and not KNOWN.issuperset(map(type, value)):
                found += foreigners(value, depth - 1)
        else:
            found.append(value)
    return found


def dispatched_by(value: Any) -> Any:
    """Return the `__array_function__` of a value's class if it is neither NumPy's nor ours, else None."""
    kind = type(value)
    own = getattr(kind, "__array_function__", None)
    return None if own is np.ndarray.__array_function__ or issubclass(kind, Handle) else own


def knows_ours(value: Any) -> bool:
    """Whether the `__array_function__` of a value's class stands in a module that has ours by name."""
    names = getattr(dispatched_by(value), "__globals__", {})
    return any(isinstance(x, ModuleType) and x.__name__.partition(".")[0] == "oxinp" for x in names.values())


def is_wrapped(value: Any) -> bool:
    """Whether a ufunc's result gets the class of this operand: it is of a subclass of NumPy's, or wraps results."""
    kind = type(value)
    return (
        kind is not np.ndarray
        and hasattr(kind, "__array_wrap__")
        and not issubclass(kind, np.generic)
        and not isinstance(value, Handle)
    )


def is_left_to_numpy(
    function: Callable[..., Any], values: list[Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> bool:
    """Whether NumPy's function makes more of foreign arguments than arrays of their elements.

    An array in a file, `numpy.memmap`, is no more than its elements: what is computed of it may be on the device.

    Parameters
    ----------
    function : callable
        NumPy's, which dispatches.
    values : list
        What `foreigners` found.
    args, kwargs
        The arguments.
    """
    wraps = _wraps(function)
    for value in values:
        kind = type(value)
        if issubclass(kind, np.ndarray):
            if kind is not np.memmap:
                return True
        elif wraps and hasattr(kind, "__array_wrap__"):
            return True
    asked = _asked(function, args, kwargs)
    if not any(asked is value for value in values):
        return False
    computes = wraps and hasattr(type(asked), "__array_ufunc__")
    return computes or any(hasattr(asked, name) for name in methods_asked(function))


def _asked(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return the argument whose methods a function of NumPy's calls: its `a`, else the first."""
    position = positions(function).get("a", 0)
    return args[position] if position < len(args) else kwargs.get("a")


@functools.lru_cache(maxsize=1024)
def methods_asked(function: Callable[..., Any]) -> tuple[str, ...]:
    """Return the names of the methods of an argument that a function of NumPy's calls where it is no array."""
    code = _code(function)
    if code is None:
        return ()
    given = code.co_consts if _wraps(function) else ()
    own = [function.__name__] if function.__name__ in code.co_names else []  # `mean` calls its argument's by name
    return tuple(name for name in (*given, *own) if type(name) is str and hasattr(np.ndarray, name))


@functools.lru_cache(maxsize=1024)
def _wraps(function: Callable[..., Any]) -> bool:
    """Whether a function of NumPy's wraps what it returns as its argument is."""
    code = _code(function)
    return code is not None and not _ASK.isdisjoint(code.co_names)


def _code(function: Callable[..., Any]) -> Any:
    """Return the code of a function that is written in Python, None for others."""
    return getattr(inspect.unwrap(function), "__code__", None)

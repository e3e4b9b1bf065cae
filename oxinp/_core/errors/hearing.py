"""Operators on host arrays whose floating-point warnings name the user's line.

NumPy's loops warn from C, in the name of the line that called them. `attributed` has them called as if from the user's
line; where the user's state of errors is NumPy's default, which is nearly always, in less time than that takes: in a
context in which NumPy logs what it would warn of, and the log warns.

Where nothing is written to, it takes even less to compute first. Code whose globals are `REFUSING` cannot warn: Python
looks there for what has been warned of, finds no dictionary, and raises a TypeError with the arguments `REFUSED` in the
place of a warning. Who catches that has the same computed again, from the user's line.
"""

from __future__ import annotations

import builtins
import contextlib
import functools
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextvars import Context, ContextVar
from types import FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np
from numpy._core import umath

from oxinp._core.errors.frames import call_as_user, warn

state: ContextVar[Any] = umath._extobj_contextvar
"""Where NumPy keeps what `numpy.errstate` and `numpy.seterr` set: an object that is another after each change."""

_OBJECT = np.dtype(object)
_Array = np.ndarray
_PREFIX = "Warning: "
_ENTERED = "cannot enter context"
_MOST_HALF = 65504  # the largest number of half precision
_REAL, _NUMERIC = frozenset("biuf"), frozenset("biufc")  # kinds of dtypes; a cast from complex ones warns otherwise


class _Log:
    """What NumPy writes lines to in the place of warnings."""

    def write(self, text: str) -> None:
        warn(text.removeprefix(_PREFIX).rstrip("\n"), RuntimeWarning)


def _logging_context() -> Context:
    """Return a context with NumPy's default state, but that warnings are logged."""
    context = Context()
    logged: Any = {kind: "log" for kind, how in context.run(np.geterr).items() if how == "warn"}
    context.run(np.seterrcall, _Log())
    context.run(lambda: np.seterr(**logged))
    return context


current = state.get
run = _logging_context().run
# Filters of warnings may belong to the user's context: then there is no other one to run in.
default = object() if getattr(sys.flags, "context_aware_warnings", False) else Context().run(current)


REFUSING = {"__warningregistry__": 0}
"""What the globals of code have that is not to warn in its own name."""
REFUSED = ("'registry' must be a dict or None",)


def _refuses() -> bool:
    """Return whether this Python refuses as described."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            exec("f(x)", {"f": np.log, "x": np.full(1, -1.0), **REFUSING})  # noqa: S102
    except TypeError as error:
        return error.args == REFUSED
    return False


IS_REFUSING = Context().run(_refuses)


def casts_silently(value: Any, dtype: np.dtype[Any]) -> bool:
    """Whether a cast of a value to a dtype warns of nothing, as far as that is told in no time."""
    kind = type(value)
    if kind is int or kind is bool:
        return dtype.kind in "biu" or dtype.char == "d" or -_MOST_HALF <= value <= _MOST_HALF
    if kind is float:
        return dtype.char == "d"
    return getattr(value, "dtype", None) is dtype


def put(array: np.ndarray[Any, Any], key: Any, value: Any) -> None:
    """Write to an array of NumPy's; what a cast warns of names the user's line."""
    dtype = array.dtype
    if casts_silently(value, dtype):
        array[key] = value
    elif dtype.kind in _NUMERIC and type(value) is _Array and value.dtype.kind in _REAL:
        call_numerical(array.__setitem__, (key, value), {})
    else:
        call_as_user(array.__setitem__, (key, value), {})


_PUT = FunctionType(
    (lambda array, value: array.__setitem__(..., value)).__code__, {"__builtins__": builtins, **REFUSING}
)


def check_cast(value: Any, dtype: np.dtype[Any]) -> None:
    """Raise what NumPy raises of a number that a dtype cannot hold; who casts it is warned then."""
    try:
        with np.errstate(all="ignore"):
            _PUT(np.empty((), dtype), value)
    except TypeError as error:
        if error.args != REFUSED:
            raise


_KINDS = {"divide by zero": "divide", "overflow": "over", "underflow": "under", "invalid value": "invalid"}
"""What NumPy calls kinds of errors where it tells of them, in that order, and what its settings do."""
_AT_ONCE = {"call", "log", "print"}


def refused(function: Callable[..., Any], *args: Any) -> contextlib.AbstractContextManager[Any]:
    """Return a context in which to compute again what was not to warn, telling nothing twice."""
    how: dict[str, Any] = dict(np.geterr())
    if _AT_ONCE.isdisjoint(how.values()):
        return contextlib.nullcontext()
    found: set[str] = set()
    with np.errstate(all="call", call=lambda kind, _: found.add(_KINDS[kind])):
        function(*args)
    kinds = list(how)
    first = next((i for i, kind in enumerate(kinds) if kind in found and how[kind] == "warn"), 0)
    return np.errstate(**dict.fromkeys(kinds[:first], "ignore"))  # type: ignore[arg-type]


@functools.cache
def attributed(function: Callable[..., Any], num_operands: int) -> Callable[..., Any]:
    """Return an elementwise function of NumPy's or operator of Python's whose warnings name the user's line.

    Parameters
    ----------
    function : callable
        Of operands alone, arrays of NumPy's and scalars.
    num_operands : int
    """
    return {1: _unary, 2: _binary}.get(num_operands, _as_user)(function)


@functools.cache
def of_one(function: Callable[..., Any]) -> Callable[[Any], Any]:
    """Return what calls a function of NumPy's for one array alone as `call_quickly` does, in less time."""
    if function in _SILENT:
        return function
    if not (isinstance(function, np.ufunc) or function in _NUMERICAL):
        ask = call_again if is_repeatable(function) else call_as_user
        return lambda x: ask(function, (x,), {})

    def call(x: Any) -> Any:
        if current() is default and x.size and x.dtype is not _OBJECT:
            try:
                return run(function, x)
            except RuntimeError as error:
                raise_own(error)
        return call_as_user(function, (x,), {})

    return call


_SILENT = frozenset(
    home.__dict__[name]
    for home in (np, np.ndarray)
    for name in (
        *("argmax", "argmin", "argsort", "array", "copy", "empty_like", "nonzero", "ones_like", "ravel", "repeat"),
        *("sort", "take", "tobytes", "zeros_like"),
    )
    if name in home.__dict__
)
"""Functions that warn of nothing, whatever the elements of their arrays are."""

_NUMERICAL = frozenset(
    home.__dict__[name]
    for home in (np, np.ndarray, np.linalg)
    for name in (
        *("sum", "prod", "mean", "max", "min", "amax", "amin", "argmax", "argmin", "any", "all", "cumsum", "cumprod"),
        *("ptp", "trace", "dot", "vdot", "inner", "outer", "tensordot", "take", "sort", "argsort", "searchsorted"),
        *("clip", "round", "diff", "where", "concatenate", "stack", "repeat", "reshape", "ravel", "copy", "nonzero"),
        *("hstack", "vstack", "dstack", "column_stack", "triu", "tril", "diag", "tile", "roll", "einsum", "kron"),
        *("norm", "argwhere", "flatnonzero", "count_nonzero", "interp", "bincount", "unravel_index"),
        *("allclose", "isclose", "array_equal", "append", "cross", "trapezoid", "digitize", "ravel_multi_index"),
    )
    if name in home.__dict__
)
_HARMLESS = frozenset({"axis", "dtype", "keepdims", "minlength"})
"""Keywords with which these warn of nothing else."""
_STABLE = {"kind": "stable"}


def call_quickly(
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    *,
    has_elements: bool,
    is_read: bool = False,
) -> Any:
    """Call a function of NumPy's so that its warnings name the user's line, in the least time.

    `has_elements`: of what is not empty, some functions warn of floating-point errors alone. `is_read`: it writes to
    none of its arguments, and calls nothing of the user's.
    """
    if function in _NUMERICAL:
        is_numerical = has_elements and (not kwargs or _HARMLESS.issuperset(kwargs) or kwargs == _STABLE)
    else:
        is_numerical = isinstance(function, np.ufunc)
    if is_numerical:
        return call_numerical(function, args, kwargs)
    return (call_again if is_read and is_repeatable(function) else call_as_user)(function, args, kwargs)


def is_repeatable(function: Callable[..., Any]) -> bool:
    """Whether a function that writes to nothing may be called twice: one of NumPy's that draws no random numbers."""
    # What is bound to an object may call what that holds, as `vectorize` does, and is not to be kept.
    return type(function) is not MethodType and _is_repeatable(function)


@functools.lru_cache(maxsize=2048)
def _is_repeatable(function: Callable[..., Any]) -> bool:
    if getattr(function, "__objclass__", None) is _Array:
        return True
    module = getattr(function, "__module__", None) or ""
    owner = getattr(function, "__self__", None)
    is_bound = owner is not None and not isinstance(owner, ModuleType)
    return module.partition(".")[0] == "numpy" and not module.startswith("numpy.random") and not is_bound


_CALL = FunctionType(
    (lambda function, args, kwargs: function(*args, **kwargs)).__code__, {"__builtins__": builtins, **REFUSING}
)


def call_again(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Call a function that may be called twice: in the name of the user's line if it warns, where it costs more."""
    if IS_REFUSING and current() is default:
        for x in args:
            if type(x) is _Array and x.dtype is _OBJECT:  # whose methods may be the user's
                break
        else:
            try:
                return _CALL(function, args, kwargs)
            except TypeError as error:
                if error.args != REFUSED:
                    raise
    return call_as_user(function, args, kwargs)


def call_numerical(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Call a function of NumPy's that warns of floating-point errors alone, in the name of the user's line.

    It is `call_as_user` in less time, for ufuncs, their methods, and what Python writes in terms of them.
    """
    if current() is default and "where" not in kwargs:
        for x in (*args, *kwargs.values()) if kwargs else args:
            if type(x) is _Array and x.dtype is _OBJECT:
                break
        else:
            try:
                return run(function, *args, **kwargs)
            except RuntimeError as error:
                raise_own(error)
    return call_as_user(function, args, kwargs)


def _unary(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(x: Any) -> Any:
        # Of objects, Python computes with what the user's context says.
        if current() is default and not (type(x) is _Array and x.dtype is _OBJECT):
            try:
                return run(function, x)
            except RuntimeError as error:
                raise_own(error)
        return call_as_user(function, (x,), {})

    return call


def _binary(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(x: Any, y: Any) -> Any:
        if (
            current() is default
            and not (type(x) is _Array and x.dtype is _OBJECT)
            and not (type(y) is _Array and y.dtype is _OBJECT)
        ):
            try:
                return run(function, x, y)
            except RuntimeError as error:
                raise_own(error)
        return call_as_user(function, (x, y), {})

    return call


def _as_user(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *operands: call_as_user(function, operands, {})


def raise_own(error: RuntimeError) -> None:
    """Raise what a function raised; nothing if it was not called, since another thread is in the context."""
    if not str(error).startswith(_ENTERED):
        raise error


__all__ = [
    "IS_REFUSING",
    "REFUSED",
    "REFUSING",
    "attributed",
    "call_again",
    "call_numerical",
    "call_quickly",
    "casts_silently",
    "check_cast",
    "current",
    "default",
    "is_repeatable",
    "of_one",
    "put",
    "raise_own",
    "refused",
    "run",
    "state",
]

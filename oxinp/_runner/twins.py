"""Which functions and methods of ours have a twin in NumPy, and calling both where one is called."""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np

from oxinp import random
from oxinp._api import modules, namespace
from oxinp._api.fronts import HostUfunc
from oxinp._config import config
from oxinp._core.array import dispatch
from oxinp._core.lazy.results import types
from oxinp._core.ufunc.objects import ufunc
from oxinp._runner.shadow import Unchecked

__all__ = ["install", "once", "shown"]

Function = Callable[..., Any]
CallBoth = Callable[[Function, Function, tuple[Any, ...], dict[str, Any]], Any]

# Functions without a twin: what they give is not determined, or they act on more than arrays.
_WITHOUT = {
    *("array2string", "array_repr", "array_str", "empty", "empty_like", "errstate", "format_float_positional"),
    *("format_float_scientific", "frombuffer", "fromfile", "fromregex", "from_dlpack", "frompyfunc", "genfromtxt"),
    *("get_include", "getbufsize", "geterr", "geterrcall", "get_printoptions", "info", "load", "loadtxt"),
    *("may_share_memory", "memmap", "nested_iters", "printoptions", "save", "savetxt", "savez", "savez_compressed"),
    *("set_printoptions", "setbufsize", "seterr", "seterrcall", "shares_memory", "show_config", "show_runtime"),
    *("test", "get_state", "set_state", "get_bit_generator", "set_bit_generator", "default_rng", "spawn"),
}
_METHODS_WITHOUT = {
    *("__array_finalize__", "__array_namespace__", "__array_wrap__", "__class_getitem__", "__del__", "__dir__"),
    *("__dlpack__", "__dlpack_device__", "__getattr__", "__getattribute__", "__getstate__", "__hash__"),
    *("__init__", "__iter__", "__len__", "__new__", "__reduce__", "__reduce_ex__", "__setattr__"),
    *("__setstate__", "__sizeof__", "__delitem__", "dump", "dumps", "resize", "setflags", "to_device"),
    *("tobytes", "tofile", "tostring", "__array_ufunc__", "__array_function__", "__subclasshook__"),
}
_SHOWN = {"__format__", "__repr__", "__str__"}
_ASSIGNED_PROPERTIES = ("flat", "imag", "real")
_UFUNC_METHODS = ("__call__", "reduce", "accumulate", "reduceat", "outer", "at")


def install(call_both: CallBoth) -> None:
    """Let `call_both` answer for every function, ufunc and method of ours that has a twin, until the process ends.

    Parameters
    ----------
    call_both : callable(ours, numpys, args, kwargs)
        Returns what the program gets.
    """
    config.machine_code = False  # which does not ask the methods
    paired: dict[int, Any] = {}  # one object per function, as in NumPy

    def pair(ours: Function, numpys: Function) -> Function:
        if id(ours) not in paired:
            paired[id(ours)] = _both(call_both, ours, numpys), ours
        front: Function = paired[id(ours)][0]
        return front

    package = importlib.import_module("oxinp")
    _pair_module(package, np, set(namespace.names()), pair)
    for row in modules.SUBMODULES.values():
        if row.kind == modules.HOST and row.source.startswith("numpy."):
            numpys = importlib.import_module(row.source)
            names = modules.public_names(numpys) & vars(numpys).keys()  # the others are deprecated, and warn
            _pair_module(importlib.import_module(f"oxinp.{row.path}"), numpys, names, pair)

    def pair_scipys(ours: Any, scipys: Any) -> Any:
        if type(ours) is not FunctionType:
            return ours
        # What SciPy computes is called once: some of it draws random numbers.
        return pair(ours, scipys if scipys in dispatch.functions else once)

    modules.watchers.append(pair_scipys)  # when a name is first used
    for name in vars(types.dressed):
        if name not in _METHODS_WITHOUT and type(vars(types.dressed)[name]) is FunctionType:
            setattr(types.dressed, name, pair(vars(types.dressed)[name], _method(name)))
    for cls in (types.ndarray, types.scalar):
        for name in dir(cls):
            if name not in _METHODS_WITHOUT and type(inspect.getattr_static(cls, name)) is FunctionType:
                setattr(cls, name, pair(getattr(cls, name), shown if name in _SHOWN else _method(name)))
        for name in _ASSIGNED_PROPERTIES:
            _pair_assignment(cls, name, pair)
        cls.__array_ufunc__ = pair(cls.__array_ufunc__, _array_ufunc)
        cls.__array_function__ = pair(cls.__array_function__, _array_function)
    for name in _UFUNC_METHODS:
        for cls in (ufunc, HostUfunc):
            if name in vars(cls):
                setattr(cls, name, pair(vars(cls)[name], _method(name)))
    for cls in (random.Generator, random.RandomState):
        for name in dir(cls):
            if not name.startswith("_") and type(inspect.getattr_static(cls, name)) is FunctionType and name != "spawn":
                setattr(cls, name, pair(getattr(cls, name), _method(name)))


def _pair_assignment(cls: Any, name: str, pair: Callable[[Function, Function], Function]) -> None:
    """Pair what assigns to elements by a property of arrays."""
    ours: Any = inspect.getattr_static(cls, name, None)
    if isinstance(ours, property) and ours.fset is not None:
        setattr(cls, name, ours.setter(pair(ours.fset, functools.partial(_assign, name))))


def _assign(name: str, array: Any, value: Any) -> None:
    setattr(array, name, value)


def _pair_module(ours: Any, numpys: Any, names: set[str], pair: Callable[[Function, Function], Function]) -> None:
    """Pair the functions of a module with those of NumPy's."""
    for name in sorted(names - _WITHOUT):
        function: Any = getattr(ours, name, None)
        twin: Any = getattr(numpys, name, None)
        if type(function) is not FunctionType or function is twin or name.startswith("_"):
            continue
        if numpys is np.random:
            function, twin = _replayed(function, twin)
        setattr(ours, name, pair(function, twin))


def _both(call_both: CallBoth, ours: Function, numpys: Function) -> Function:
    @functools.wraps(ours)
    def both(*args: Any, **kwargs: Any) -> Any:
        return call_both(ours, numpys, args, kwargs)

    return both


def _replayed(ours: Function, numpys: Any) -> tuple[Function, Function]:
    """Return a function of `numpy.random`, and its twin on the state of the global generator before it."""
    before: list[Any] = [None]
    get_state, set_state = np.random.get_state, np.random.set_state

    @functools.wraps(ours)
    def drawn(*args: Any, **kwargs: Any) -> Any:
        before[0] = get_state(legacy=False)
        return ours(*args, **kwargs)

    def again(*args: Any, **kwargs: Any) -> Any:
        after = get_state(legacy=False)
        set_state(before[0])
        try:
            return numpys(*args, **kwargs)
        finally:
            set_state(after)

    return drawn, again


def shown(self: Any, *args: Any) -> str:  # noqa: ARG001 - a method
    """Stand for NumPy's text of an array, which need not be the same: it is the array that is compared."""
    raise Unchecked


def once(*args: Any, **kwargs: Any) -> Any:  # noqa: ARG001 - of any function
    """Stand for what is not to be called a second time."""
    raise Unchecked


def _method(name: str) -> Function:
    """Return NumPy's method of that name, of whatever stands for self."""

    def twin(self: Any, *args: Any, **kwargs: Any) -> Any:
        numpys = getattr(type(self), name, None)
        if numpys is None:
            raise Unchecked
        return numpys(self, *args, **kwargs)

    return twin


def _array_ufunc(self: Any, numpys: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:  # noqa: ARG001 - a method
    return getattr(numpys, method)(*inputs, **kwargs)


def _array_function(self: Any, numpys: Any, kinds: Any, args: Any, kwargs: Any) -> Any:  # noqa: ARG001 - a method
    return numpys(*args, **kwargs)

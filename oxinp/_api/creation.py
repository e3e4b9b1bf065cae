"""Array creation."""

from __future__ import annotations

import importlib
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from oxinp._api.fronts import as_ours, implements
from oxinp._core.array import dispatch
from oxinp._core.host.exchange import StandIns, holds_arrays, is_array
from oxinp._core.host.sharing import adopt_host
from oxinp._core.lazy.expr import Unsupported
from oxinp._core.lazy.record import is_hosted
from oxinp._core.lazy.results import types, wrap_host
from oxinp._core.manipulation.copy import astype, has_order, order_of
from oxinp._core.manipulation.copy import copy as copy_array
from oxinp._core.manipulation.shape import ravel, reshape
from oxinp._core.memory.dtypes import is_dtype_class
from oxinp._core.ops import creation, made_like
from oxinp._core.ops.creation import refuse_copy


def _check(device: str | None, like: Any = None) -> None:
    """Let NumPy judge the device's name; a `like` of another library's is its business."""
    if device is not None:
        np.empty(0, device=device)  # type: ignore[call-arg] # the stubs are of one version
    if like is not None and not is_array(like) and type(like) is not np.ndarray:
        raise Unsupported("`like` names another library's array")


def _is_subclass(value: Any) -> bool:
    return isinstance(value, np.ndarray) and type(value) is not np.ndarray


_COPIES = {np._CopyMode.ALWAYS: True, np._CopyMode.IF_NEEDED: None, np._CopyMode.NEVER: False}


@implements("array")
def array(
    object: Any,
    dtype: Any = None,
    *,
    copy: bool | None = True,
    order: str | None = "K",
    subok: bool = False,
    ndmin: int = 0,
    ndmax: int | None = None,
    like: Any = None,
) -> Any:
    """See `numpy.array`."""
    if like is not None:
        _check(None, like)
    if type(copy) is not bool and copy is not None:
        np.array(np.empty(0), copy=copy if type(copy) is not np._CopyMode else None)  # refuses text
        copy = _COPIES[copy] if type(copy) is np._CopyMode else bool(copy)
    if ndmin > 1:
        np.array(0, ndmin=ndmin)  # refuses more than there may be
    if ndmax is not None or (subok and _is_subclass(object)):
        raise Unsupported("ndmax, or a subclass to pass through")
    made = _converted(object, dtype, order, copy=copy)
    missing = ndmin - made._layout.ndim if ndmin else 0
    return reshape(made, (1,) * missing + made._layout.shape) if missing > 0 else made


def _stacked(value: Any) -> Any:
    """Return a list of arrays on the device as one array."""
    if not all(type(x) is types.ndarray for x in value) or is_hosted(value):
        raise Unsupported("lists of arrays on the host, or of arrays and something else")
    first = value[0]._layout
    if not first.ndim or any(x._layout.shape != first.shape or x._layout.dtype != first.dtype for x in value):
        raise Unsupported("lists of numbers, or of arrays of several shapes or dtypes")
    return dispatch.functions[np.stack](value)


def _converted(value: Any, dtype: Any, order: str | None, *, copy: bool | None) -> Any:
    if is_array(dtype):
        np.dtype(np.empty(0))  # raises
    if not is_array(value):
        if holds_arrays(value):
            refuse_copy(copy)
            return _converted(_stacked(value), dtype, order, copy=None)
        return creation.asarray(value, dtype, order, copy_wanted=copy)
    layout = value._layout
    made = value
    order = order_of(order, "K")
    if layout.dtype.kind == "T" and dtype is not None and np.dtype(dtype) is not layout.dtype:
        raise Unsupported("text that lies in another place, though of an equal dtype")
    if dtype is not None and (is_dtype_class(dtype) or layout.dtype != np.dtype(dtype)):
        refuse_copy(copy)
        if layout.dtype.hasobject:  # for text NumPy finds another length here than by `astype`
            raise Unsupported("objects to cast")
        made = astype(value, dtype, order)
    is_in_order = has_order(made._layout, order)
    if made is value and not is_in_order:
        refuse_copy(copy)
    if (made is value and copy) or not is_in_order:
        made = copy_array(made, order)
    return made


@implements("asarray", is_hosted=False)
def asarray(
    a: Any,
    dtype: Any = None,
    order: str | None = None,
    *,
    device: str | None = None,
    copy: bool | None = None,
    like: Any = None,
) -> Any:
    """See `numpy.asarray`; NumPy arrays are copied."""
    if type(a) is types.ndarray and dtype is None and order is None and not copy and device is None and like is None:
        return a
    _check(device, like)
    return _converted(a, dtype, order, copy=copy)


@implements("from_dlpack", is_hosted=False)
def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Any:
    """See `numpy.from_dlpack`; memory on the GPU is used there."""
    return importlib.import_module("oxinp._core.interop.imports").from_dlpack(x, device=device, copy=copy)


@implements("frombuffer", is_hosted=False)
def frombuffer(buffer: Any, dtype: Any = float, count: int = -1, offset: int = 0, *, like: Any = None) -> Any:
    """See `numpy.frombuffer`; the elements are the buffer's own, on the host."""
    _check(None, like)
    return adopt_host(np.frombuffer(buffer, dtype, count, offset))


@implements("asanyarray", is_hosted=False)
def asanyarray(
    a: Any,
    dtype: Any = None,
    order: str | None = None,
    *,
    device: str | None = None,
    copy: bool | None = None,
    like: Any = None,
) -> Any:
    """See `numpy.asanyarray`; subclasses of NumPy's array pass through."""
    _check(device, like)
    if _is_subclass(a):
        raise Unsupported("a subclass to pass through")
    return _converted(a, dtype, order, copy=copy)


@implements("ascontiguousarray", is_hosted=False)
def ascontiguousarray(a: Any, dtype: Any = None, *, like: Any = None) -> Any:
    """See `numpy.ascontiguousarray`."""
    return array(a, dtype, copy=None, order="C", ndmin=1, like=like)


@implements("asfortranarray", is_hosted=False)
def asfortranarray(a: Any, dtype: Any = None, *, like: Any = None) -> Any:
    """See `numpy.asfortranarray`."""
    return array(a, dtype, copy=None, order="F", ndmin=1, like=like)


@implements("copy")
def copy(a: Any, order: str = "K", subok: bool = False) -> Any:
    """See `numpy.copy`."""
    return array(a, order=order, subok=subok, copy=True)


@implements("zeros", is_hosted=False)
def zeros(shape: Any, dtype: Any = None, order: str = "C", *, device: str | None = None, like: Any = None) -> Any:
    """See `numpy.zeros`."""
    if device is not None or like is not None:
        _check(device, like)
    return creation.zeros(shape, dtype, order)


@implements("ones", is_hosted=False)
def ones(shape: Any, dtype: Any = None, order: str = "C", *, device: str | None = None, like: Any = None) -> Any:
    """See `numpy.ones`."""
    if device is not None or like is not None:
        _check(device, like)
    return creation.ones(shape, dtype, order)


@implements("empty", is_hosted=False)
def empty(shape: Any, dtype: Any = None, order: str = "C", *, device: str | None = None, like: Any = None) -> Any:
    """See `numpy.empty`."""
    if device is not None or like is not None:
        _check(device, like)
    return creation.uninitialised(shape, dtype, order)


@implements("full", is_hosted=False)
def full(
    shape: Any, fill_value: Any, dtype: Any = None, order: str = "C", *, device: str | None = None, like: Any = None
) -> Any:
    """See `numpy.full`."""
    if device is not None or like is not None:
        _check(device, like)
    return creation.full(shape, fill_value, dtype, order)


def _made_like(
    make: Callable[[Any, Any], Any], fill: Callable[..., Any], a: Any, dtype: Any, order: str, subok: bool, shape: Any
) -> Any:
    """Make an array with the shape, dtype and order that NumPy's ``*_like`` functions find.

    `make` fills one in C order wherever placement puts it, `fill` a NumPy one in another order.
    """
    if type(a) is types.ndarray and dtype is None and shape is None and order == "K":  # nearly always
        layout = a._known or a._layout
        if layout.is_contiguous:
            return made_like.made(make, layout)
    if subok and _is_subclass(a):
        raise Unsupported("a subclass to pass through")
    prototype = np.empty_like(StandIns().give(a), dtype, order, False, shape)  # type: ignore[call-overload]
    if prototype.flags.c_contiguous:
        return make(prototype.shape, prototype.dtype)
    return wrap_host(fill(prototype))


def _ahead(make: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """Return what makes an array like one of the device, if that alone is given and its like has been; else None."""

    def ahead(a: Any, *others: Any, **options: Any) -> Any:
        return None if others or options else made_like.again(make, a)

    return ahead


@implements("zeros_like", ahead=_ahead(creation.zeros))
def zeros_like(
    a: Any, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None, *, device: str | None = None
) -> Any:
    """See `numpy.zeros_like`."""
    _check(device)
    return _made_like(creation.zeros, np.zeros_like, a, dtype, order, subok, shape)


@implements("ones_like", ahead=_ahead(creation.ones))
def ones_like(
    a: Any, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None, *, device: str | None = None
) -> Any:
    """See `numpy.ones_like`."""
    _check(device)
    return _made_like(creation.ones, np.ones_like, a, dtype, order, subok, shape)


@implements("empty_like", ahead=_ahead(creation.uninitialised))
def empty_like(
    prototype: Any,
    /,
    dtype: Any = None,
    order: str = "K",
    subok: bool = True,
    shape: Any = None,
    *,
    device: str | None = None,
) -> Any:
    """See `numpy.empty_like`."""
    _check(device)
    return _made_like(creation.uninitialised, np.empty_like, prototype, dtype, order, subok, shape)


@implements("full_like")
def full_like(
    a: Any,
    fill_value: Any,
    dtype: Any = None,
    order: str = "K",
    subok: bool = True,
    shape: Any = None,
    *,
    device: str | None = None,
) -> Any:
    """See `numpy.full_like`."""
    _check(device)
    if is_array(fill_value):
        raise Unsupported("an array to fill with")

    def make(shape: Any, dtype: Any) -> Any:
        return creation.full(shape, fill_value, dtype)

    def fill(prototype: Any) -> Any:
        return np.full_like(prototype, fill_value)

    return _made_like(make, fill, a, dtype, order, subok, shape)


@implements("arange", is_hosted=False)
def arange(
    start_or_stop: Any,
    /,
    stop: Any = None,
    step: Any = 1,
    *extra: Any,
    dtype: Any = None,
    device: str | None = None,
    like: Any = None,
    **named: Any,
) -> Any:
    """See `numpy.arange`."""
    if device is not None or like is not None:
        _check(device, like)
    if extra or named:
        raise Unsupported("what only some versions of NumPy take")
    return creation.arange(start_or_stop, stop, step, dtype)


@implements("eye")
def eye(
    N: Any,
    M: Any = None,
    k: Any = 0,
    dtype: Any = float,
    order: str = "C",
    *,
    device: str | None = None,
    like: Any = None,
) -> Any:
    """See `numpy.eye`: zeros, then one strided write."""
    _check(device, like)
    if order != "C" or is_array(k):
        raise Unsupported("another order")
    made = creation.zeros((N, N if M is None else M), dtype)
    rows, columns = made._layout.shape
    k = operator.index(k)
    if -rows < k < columns:
        start = k if k >= 0 else -k * columns
        reshape(made, -1)[start : max(0, columns - k) * columns : columns + 1] = 1
    return made


@implements("diagflat")
def diagflat(v: Any, k: int = 0) -> Any:
    """See `numpy.diagflat`: zeros, then one strided write."""
    if _is_subclass(v):
        raise Unsupported("a subclass to pass through")
    v = ravel(as_ours(v))
    size = v._layout.size + abs(k)
    made = creation.zeros((size, size), v._layout.dtype)
    start = k if k >= 0 else -k * size
    reshape(made, -1)[start : start + v._layout.size * (size + 1) : size + 1] = v
    return made


_diagonal = dispatch.without_reading(np.diag, "diag")


@implements("diag", is_hosted=False)
def diag(v: Any, k: int = 0) -> Any:
    """See `numpy.diag`."""
    if type(v) is types.ndarray and v.ndim == 2:
        return v.diagonal(k)
    return diagflat(v, k) if np.ndim(v) == 1 and not _is_subclass(v) else _diagonal(v, k)


@implements("identity")
def identity(n: Any, dtype: Any = None, *, like: Any = None) -> Any:
    """See `numpy.identity`."""
    return eye(n, dtype=float if dtype is None else dtype, like=like)


@implements("linspace")
def linspace(
    start: Any,
    stop: Any,
    num: Any = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: Any = None,
    axis: Any = 0,
    *,
    device: str | None = None,
) -> Any:
    """See `numpy.linspace`, whose formula this is: ``arange(num) * step + start``, then the last value set."""
    _check(device)
    if not all(isinstance(x, int | float) for x in (start, stop)):
        raise Unsupported("ends other than Python's numbers")
    dtype = np.dtype(float if dtype is None else dtype)
    if dtype.kind != "f":
        raise Unsupported("integers, which are rounded down")
    num = operator.index(num)
    if num < 2 or axis not in (0, -1):
        raise Unsupported("no step, or another axis than the one there is")
    step = (float(stop) - float(start)) / (num - 1 if endpoint else num)
    if step == 0:
        raise Unsupported("ends so close that NumPy takes another formula")
    made = creation.arange(0, num, dtype=float)
    made *= step
    made += float(start)
    if endpoint:
        made[-1] = float(stop)
    made = astype(made, dtype, copy_wanted=False)
    return (made, np.float64(step)) if retstep else made


@implements("astype")
def _astype(x: Any, dtype: Any, /, *, copy: bool = True, device: str | None = None) -> Any:
    """See `numpy.astype`."""
    if not is_array(x):
        raise Unsupported("NumPy's astype takes arrays alone")
    _check(device)
    return astype(as_ours(x), dtype, copy_wanted=copy)

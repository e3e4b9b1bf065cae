"""New arrays: filled on the device from a size on where that has a kernel, by NumPy on the host below it."""

from __future__ import annotations

import importlib
import math
import sys
from collections.abc import Iterable
from functools import cache, lru_cache
from typing import Any

import numpy as np

from oxinp import _runtime
from oxinp._config import config
from oxinp._core.errors.frames import call_as_user
from oxinp._core.host.exchange import MAX_DEPTH
from oxinp._core.host.sharing import adopt_host
from oxinp._core.lazy import placement
from oxinp._core.lazy.array_protocol import REFUSAL, given_by, numpys
from oxinp._core.lazy.chains import on_device
from oxinp._core.lazy.expr import Graph, Node, Structure, Unsupported, graph_of, structure_of
from oxinp._core.lazy.handle import Handle, fetch
from oxinp._core.lazy.record import COPY, express
from oxinp._core.lazy.results import is_device_scalar, types, wrap, wrap_host, wrap_pending
from oxinp._core.lazy.views import view
from oxinp._core.manipulation.copy import astype, copy, has_order, order_of
from oxinp._core.memory.dtypes import DEVICE_TYPES, FLOAT16, FLOAT32, is_dtype_class
from oxinp._core.memory.host_side import host_bytes, host_layout, is_dense
from oxinp._core.memory.layout import Layout
from oxinp._core.ops.addressed import are_scalars, gathered
from oxinp._runtime import here
from oxinp._terminal import Progress

MIN_CHUNKED, CHUNK_NBYTES = 1 << 30, 256 << 20  # of arrays on the host that go to the device in parts, and of these


def full(shape: Any, fill_value: Any, dtype: Any = None, order: str = "C") -> Any:
    """Return an array of `shape` filled with one value."""
    if isinstance(fill_value, Handle):
        fill_value = fetch(fill_value)
        fill_value = fill_value[()] if fill_value.ndim == 0 else fill_value
    if dtype is not None and _is_small(shape, dtype := _dtype_of(dtype)):
        return wrap_host(np.full(shape, fill_value, dtype, order))  # type: ignore[call-overload]
    value = np.asarray(fill_value)
    dtype = value.dtype if dtype is None else dtype
    layout = None if _is_small(shape, dtype) else _device_layout(shape, dtype, order)
    if layout is None or value.ndim:
        return wrap_host(np.full(shape, fill_value, dtype, order))  # type: ignore[call-overload]
    return _filled(layout, value if value.dtype is dtype else np.full((), fill_value, dtype))


def _filled(layout: Layout, value: np.ndarray[Any, Any]) -> Any:
    """Return an array that begins on the device and is filled with the only element of one of its dtype."""
    return wrap_pending(express(COPY, (value[()],), layout), as_array=True)


def zeros(shape: Any, dtype: Any = float, order: str = "C") -> Any:
    """Return an array of `shape` filled with zeros."""
    dtype = _dtype_of(dtype)
    layout = None if _is_small(shape, dtype) else _device_layout(shape, dtype, order)
    if layout is None:
        return wrap_host(np.zeros(shape, dtype, order))  # type: ignore[call-overload]
    return _filled(layout, np.zeros((), dtype))


def ones(shape: Any, dtype: Any = None, order: str = "C") -> Any:
    """Return an array of `shape` filled with ones."""
    dtype = _dtype_of(dtype)
    layout = None if _is_small(shape, dtype) else _device_layout(shape, dtype, order)
    if layout is None:
        return wrap_host(np.ones(shape, dtype, order))  # type: ignore[call-overload]
    return _filled(layout, np.array(1, dtype))


def empty(shape: Any, dtype: Any = float, order: str = "C") -> Any:
    """Return an array of `shape` whose elements are whatever was in memory."""
    dtype = _dtype_of(dtype)
    layout = None if _is_small(shape, dtype) else _device_layout(shape, dtype, order)
    if layout is None:
        return wrap_host(np.empty(shape, dtype, order))  # type: ignore[call-overload]
    buffer = placement.device().allocate(layout.nbytes)
    return wrap(on_device(layout, buffer), layout)


def empty_there(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    """Return what `empty` does, on the device whatever its size: where that will write all of it."""
    layout = Layout.of(dtype, shape)
    if dtype not in DEVICE_TYPES or not layout.size or here.are_several or _runtime.current() is None:
        return empty(shape, dtype)
    return wrap(on_device(layout, placement.device().allocate(layout.nbytes)), layout)


def uninitialised(shape: Any, dtype: Any = float, order: str = "C") -> Any:
    """Return what `empty` does for a program: it may read, and compute with, elements whose values it does not use."""
    made = empty(shape, dtype, order)
    value = made._storage.value
    if value is not None:
        placement.device().let_be_read(value[1][0].ptr, made._layout.nbytes)
    return made


def _dtype_of(dtype: Any) -> np.dtype[Any]:
    found: np.dtype[Any] = np.dtype(dtype)
    if found.char == "O" and is_dtype_class(dtype):
        raise Unsupported("a class of dtypes, of which NumPy takes the right one")
    return found


def _device_layout(shape: Any, dtype: np.dtype[Any], order: str) -> Layout | None:
    """Return the layout of a new array that begins on the device; None for one that NumPy makes."""
    if order != "C" or dtype not in DEVICE_TYPES:
        return None
    layout = Layout.of(dtype, np.empty(shape, _NOTHING).shape)
    is_possible = 0 < layout.nbytes < _MOST  # of more NumPy says that it is too much
    return layout if is_possible and placement.starts_on_device(layout.nbytes) else None


def _is_small(shape: Any, dtype: np.dtype[Any]) -> bool:
    """Whether a shape is an integer, or a tuple, of few elements; what else it may be is for NumPy to say."""
    kind = type(shape)
    if kind is int:
        return bool(shape * dtype.itemsize < config.offload_threshold)
    if kind is not tuple:
        return False
    try:
        return bool(math.prod(shape) * dtype.itemsize < config.offload_threshold)
    except TypeError:
        return False


_NOTHING = np.dtype([])  # of no bytes
_MOST = 1 << 56


def _iota(dtype: np.dtype[Any]) -> Any:
    """Return the lowering of ``start + i * step`` in `dtype`; float16 counts in float32, as NumPy does."""
    type_ = DEVICE_TYPES[dtype]

    def lower(k: Any, index: Any, start: Any, step: Any) -> Any:
        return k.cast(start + k.cast(index, start.type) * step, type_)

    lower.wants_index = True  # type: ignore[attr-defined]
    lower.__name__ = "arange"
    return lower


_numpys_arange: Any = np.arange  # its overloads know no scalar of unknown type
_IOTAS = {dtype: _iota(dtype) for dtype in DEVICE_TYPES if dtype.kind in "iuf"}


def _counted(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return FLOAT32 if dtype == FLOAT16 else dtype


_OF_PYTHON = frozenset({int, float})
_LARGEST = int(np.iinfo(int).max)
_WIDE_NUMBERS = frozenset({np.float64, np.int64})


def _dtype_of_range(start: Any, stop: Any, step: Any) -> np.dtype[Any]:
    """Return the dtype that NumPy finds for a range of numbers."""
    kinds = {type(start), type(stop), type(step)}
    if kinds <= _OF_PYTHON and -_LARGEST <= min(start, stop, step) <= max(start, stop, step) <= _LARGEST:
        return np.dtype(float if float in kinds else int)
    dtype: np.dtype[Any] = np.result_type(np.arange(start, start, step), np.arange(stop, stop))
    return dtype


def _distance(first: Any, second: Any) -> Any:
    """Return the difference of two numbers of a dtype, which may overflow."""
    if type(first) in _WIDE_NUMBERS and -_LARGEST <= (found := second.item() - first.item()) <= _LARGEST:
        return found
    with np.errstate(over="ignore"):
        return (second - first).item()


@lru_cache(1 << 8)
def _graph_of_range(layout: Layout) -> Graph:
    """Return what computes a range of a layout: one graph, which is planned once, however many ranges there are."""
    structure = _structure_of_range(layout.dtype, layout.dtype.num)
    return graph_of(structure, layout, structure.kinds)


@cache
def _structure_of_range(dtype: np.dtype[Any], number: int) -> Structure:  # noqa: ARG001 - see `Layout.of`
    kind = _counted(dtype)
    return structure_of((kind, kind), (False, False), (Node(_IOTAS[dtype], dtype, (0, 1)),), 2)


def arange(start: Any, stop: Any = None, step: Any = None, dtype: Any = None) -> Any:
    """Return evenly spaced values, as NumPy computes them: ``first + i * (second - first)`` in the result's dtype."""
    is_count = type(start) is int and stop is None and (step is None or (type(step) is int and step == 1))
    if is_count and start * 16 < config.offload_threshold:
        return wrap_host(_numpys_arange(start, dtype=dtype))
    given = start, stop, step = [fetch(x)[()] if isinstance(x, Handle) else x for x in (start, stop, step)]
    if stop is None:
        start, stop = 0, start
    if step is None:
        step = 1
    if (
        type(start) is int
        and type(stop) is int
        and type(step) is int
        and abs(stop - start) * 16 < config.offload_threshold
    ):
        return wrap_host(_numpys_arange(start, stop, step, dtype))
    are_numbers = all(
        isinstance(x, int | np.integer) or (isinstance(x, float | np.floating) and math.isfinite(x))
        for x in (start, stop, step)
    )
    if not are_numbers or np.timedelta64 in map(type, (start, stop, step)) or step == 0:
        # What is not given is left out: NumPy would take it for a date or a difference of dates.
        if type(step) is int and step == 1:
            given.pop()
        while len(given) > 1 and given[-1] is None:
            given.pop()
        return wrap_host(call_as_user(_numpys_arange, tuple(given), {} if dtype is None else {"dtype": dtype}))
    if dtype is None:
        dtype = _dtype_of_range(start, stop, step)
    layout = Layout.of(np.dtype(dtype), (max(0, math.ceil((stop - start) / step)),))
    is_possible = layout.size > 1 and layout.nbytes <= sys.maxsize  # else NumPy says why not
    if layout.dtype not in _IOTAS or not is_possible or not placement.starts_on_device(layout.nbytes):
        return wrap_host(_numpys_arange(start, stop, step, dtype))
    first, second = np.array([start, start + step], layout.dtype).astype(_counted(layout.dtype))
    made = wrap_pending((_graph_of_range(layout), (first.item(), _distance(first, second)), 0))
    if layout.dtype.kind == "f" and first == 0 and math.copysign(1.0, first) < 0:
        made[:1] = first.item()  # to which adding no steps would give its sign
    return made


def asarray(value: Any, dtype: Any = None, order: str | None = None, *, copy_wanted: bool | None = None) -> Any:
    """Return `value` as an array of ours.

    What has a buffer, an array interface or `__array__` shares its memory, which pins it to the host for good. NumPy's
    arrays, which would all be pinned, are copied, but for files mapped for writing; so is what `__array__` gives as
    read-only, as pandas does.

    Raises
    ------
    ValueError
        ``copy_wanted`` is False and a copy cannot be avoided.
    """
    if type(value) is list or type(value) is tuple:
        refuse_copy(copy_wanted)
        if are_scalars(value, dtype):
            return gathered(value)
        try:
            made = _on_host(_plain(value), dtype, order)
        except ValueError as error:
            if str(error) != REFUSAL:
                raise
            made = numpys(value, dtype, order)
        return _own(made)
    if isinstance(value, Handle) and not is_device_scalar(value):
        if dtype is not None and (is_dtype_class(dtype) or value._layout.dtype != np.dtype(dtype)):
            refuse_copy(copy_wanted)
            return astype(value, dtype)
        if copy_wanted:
            return copy(value)
        return value
    if is_device_scalar(value):
        refuse_copy(copy_wanted)
        view = wrap(*_same_storage(value))
        return astype(view, dtype) if dtype is not None else view
    if isinstance(value, list | tuple):
        refuse_copy(copy_wanted)
        return _own(numpys(_plain(value), dtype, order))
    interface = None if type(value) in NUMPYS else getattr(value, "__cuda_array_interface__", None)
    if isinstance(interface, dict):  # not what an object says of any name that it is asked for
        foreign = importlib.import_module("oxinp._core.interop.imports").from_cuda_array_interface(value, interface)
        return asarray(foreign, dtype, order, copy_wanted=copy_wanted)
    if type(value) in NUMPYS or (isinstance(value, np.ndarray) and not _is_mapped(value)):
        refuse_copy(copy_wanted)
        return from_host(_on_host(value, dtype, order))
    try:
        given: list[Any] = [np.array(value, dtype, copy=copy_wanted, order=order)]  # type: ignore[arg-type] # text
    except ValueError as error:
        if str(error) != REFUSAL:
            raise
        ours, is_copied = given_by(value, copy_wanted) if hasattr(type(value), "__array__") else (None, False)
        if ours is not None:
            made = asarray(ours, dtype, copy_wanted=is_copied or (None if copy_wanted else copy_wanted))
            return made if has_order(made._layout, order_of(order, "K")) else copy(made, order)
        given = [numpys(value, dtype, order, copy=copy_wanted)]
    if _is_new(given):
        return _own(given[0])
    if copy_wanted is None and not given[0].flags.writeable and hasattr(type(value), "__array__"):
        return from_host(given[0])
    return adopt_host(given[0])


_WIDE: Any = (None, bool, float, complex, object, np.float64, np.complex128, np.bool_)


def _on_host(value: Any, dtype: Any, order: Any) -> Any:
    """Return NumPy's array of a value; where a cast may warn of elements, as if from the user's line."""
    if any([dtype is wide for wide in _WIDE]):  # noqa: C419 - in half the time
        return np.asarray(value, dtype, order)
    return call_as_user(np.asarray, (value, dtype, order), {})


def _is_mapped(array: np.ndarray[Any, Any]) -> bool:
    return isinstance(array, np.memmap) and array.flags.writeable


def _references(held: list[Any]) -> int:
    return sys.getrefcount(held[0])


_OF_ONE_LIST = _references([np.empty(0)])


def _is_new(held: list[np.ndarray[Any, Any]]) -> bool:
    """Whether nobody but a list holds the array in it, nor the memory."""
    if _references(held) > _OF_ONE_LIST:
        return False
    bases = [held[0].base]
    if bases[0] is None:
        return held[0].flags.owndata
    # What is transposed, say, of a new one.
    is_new = type(bases[0]) is np.ndarray and bases[0].base is None and bases[0].flags.owndata
    return is_new and _references(bases) <= _OF_ONE_LIST + 1


def array(value: Any, dtype: Any = None, *, copy: bool | None = True, order: str = "K", ndmin: int = 0) -> Any:
    """Return a new array; see `numpy.array`."""
    result = asarray(value, dtype, None if order == "K" else order, copy_wanted=copy)
    if ndmin > result._layout.ndim:
        result = view(result, lambda seen: seen.reshape((1,) * (ndmin - seen.ndim) + seen.shape))
    return result


NUMPYS = frozenset({np.ndarray, bool, int, float, complex, np.float64, np.int64})  # and Python's own


def refuse_copy(copy_wanted: bool | None) -> None:
    if copy_wanted is False:
        np.array([], copy=False)  # raises


def _same_storage(value: Handle) -> Any:
    held = fetch(value)
    return None, host_layout(held), held


_NUMBERS = frozenset({bool, int, float, complex, str})


def _plain(value: Any, depth: int = 0) -> Any:
    """Return nested lists with our arrays as NumPy's; a list without any is itself, since an array may hold it."""
    if type(value) in (list, tuple):
        if _NUMBERS.issuperset(map(type, value)) or depth > MAX_DEPTH:
            return value
        parts = [_plain(part, depth + 1) for part in value]
        return type(value)(parts) if any(a is not b for a, b in zip(parts, value, strict=True)) else value
    return fetch(value)[()] if isinstance(value, Handle) else value


def from_host(array: np.ndarray[Any, Any]) -> Any:
    """Return a copy of a NumPy array as ours: on the device from the threshold on, else on the host."""
    return _own(array) if _belongs_on_device(array) else wrap_host(np.array(array, subok=False))


def from_pickle(reduced: tuple[Any, ...]) -> Any:
    """Return as ours what `numpy.ndarray.__reduce__` gave."""
    make, args, state = reduced
    array = make(*args)
    array.__setstate__(state)
    return from_host(array)


def _own(array: np.ndarray[Any, Any]) -> Any:
    """Return a NumPy array that nobody else will write to as ours, on the side that `from_host` says."""
    if not _belongs_on_device(array):
        return wrap_host(array)
    if not is_dense(array):
        array = np.array(array)
    layout, bytes_ = host_layout(array), host_bytes(array)
    if layout.nbytes < MIN_CHUNKED:
        return _brought(layout, [bytes_])
    chunks = [bytes_[begin : begin + CHUNK_NBYTES] for begin in range(0, layout.nbytes, CHUNK_NBYTES)]
    with Progress("to the device", layout.nbytes) as progress:  # a file that is mapped is read meanwhile
        return _brought(layout, progress.counted(chunks))


def from_chunks(dtype: np.dtype[Any], shape: tuple[int, ...], chunks: Iterable[np.ndarray[Any, Any]]) -> Any:
    """Return an array on the device in C order, of consecutive parts of its bytes."""
    return _brought(Layout.of(dtype, shape), chunks)


def _brought(layout: Layout, chunks: Iterable[np.ndarray[Any, Any]]) -> Any:
    buffer, place = placement.device().allocate(layout.nbytes), 0
    for chunk in chunks:
        placement.device().upload(buffer.ptr + place, chunk)
        place += chunk.nbytes
    return wrap(on_device(layout, buffer), layout)


def _belongs_on_device(array: np.ndarray[Any, Any]) -> bool:
    dtype = array.dtype
    return bool(
        array.nbytes >= config.offload_threshold  # first: most are small
        and dtype in DEVICE_TYPES
        and dtype.isnative
        and array.size
        and placement.starts_on_device(array.nbytes)
    )


types.from_host = from_host

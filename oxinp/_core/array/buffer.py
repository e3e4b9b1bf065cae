"""The buffer protocol, the array interface and DLPack: an array's memory for those who ask for memory alone.

The first two give the memory itself, which from then on is on the host: with a buffer as long as the buffer is held,
with the array interface, which gives an address away, for good. A scalar's buffer is a copy, which may be written to:
NumPy makes arrays of it.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
import sys
import threading
from opcode import opmap
from types import FrameType
from typing import Any
from weakref import ref

import numpy as np

from oxinp._core.host import fallback
from oxinp._core.host.sharing import lend
from oxinp._core.lazy.handle import Handle
from oxinp._core.lazy.results import is_device_scalar
from oxinp._core.memory.storage import is_shared

HAS_PROTOCOL = sys.version_info >= (3, 12)  # in Python, PEP 688; before that only in C


# The dtypes that each protocol describes in full, by their letters; for others NumPy asks the next, `__array__` last.
_IN_BUFFERS = frozenset("?bhilqBHILQefdgFDGSUVO")
_IN_STRUCTS = _IN_BUFFERS - {*"VO"}
_IN_INTERFACES = _IN_BUFFERS | {*"Mm"}
_FORMAT = 4  # ``PyBUF_FORMAT``: whoever asks wants to know the elements' dtype


def _lent(array: Any, *, forever: bool = False) -> Any:
    if is_shared(array._storage):
        raise BufferError("this array's memory is on the device, shared with another library; copy the array")
    fallback.count("__array__")  # which way NumPy takes depends on Python's version
    return lend(array, forever=forever)


def export(self: Any, flags: int, /) -> memoryview:
    """Return a memoryview of the elements; see `numpy.ndarray.__buffer__`, which checks the flags.

    The elements are on the host as long as it is held.
    """
    exported: memoryview = _exported(self, flags).__buffer__(flags)
    return exported


class _Failed(threading.local):
    """What kept an array of this thread's from being lent as a buffer."""

    array: Any = None
    error: BaseException | None = None


_failed = _Failed()


def _exported(array: Any, flags: int) -> Any:
    if is_device_scalar(array):
        return np.array(array[()])
    dtype = array._layout.dtype
    if flags & _FORMAT and (dtype.char not in _IN_BUFFERS or (dtype.char == "V" and not _is_told(dtype))):
        memoryview(np.empty(1, dtype))  # type: ignore[arg-type] # raises for a dtype that has no format; others say too little
        raise BufferError(f"cannot include dtype {dtype} in a buffer")
    try:
        return _lent(array)
    except BufferError:
        raise
    except BaseException as error:
        # NumPy takes every error for "no buffer" and asks for the structure next: it is raised again there.
        _failed.array, _failed.error = ref(array), error.with_traceback(None)
        raise


@functools.lru_cache(maxsize=256)
def _is_told(dtype: np.dtype[Any]) -> bool:
    """Whether NumPy makes the same dtype of fields of the format that it gives a buffer of them."""
    if dtype.names is None or dtype.hasobject:
        return False
    try:
        return bool(np.asarray(np.empty(1, dtype).data).dtype == dtype)
    except (ValueError, RuntimeError):  # of arrays in fields, and of some paddings
        return False


@functools.lru_cache(maxsize=256)
def _is_listed(dtype: np.dtype[Any]) -> bool:
    """Whether NumPy makes the same dtype of the list of fields that is in the array interface."""
    try:
        return dtype.names is None or bool(np.dtype(dtype.descr) == dtype)
    except ValueError:  # of fields that overlap or stand in another order
        return False


def array_interface(self: Any) -> dict[str, Any]:
    """Where the elements are, which from now on is on the host for good; see `numpy.ndarray.__array_interface__`."""
    name = "__array_interface__"
    described: dict[str, Any] = _addressed(self, name, _IN_INTERFACES, sys._getframe(1)).__array_interface__
    return described


def array_struct(self: Any) -> Any:
    """Where the elements are, for programs in C, as a capsule that holds the memory; see `array_interface`."""
    failed, error = _failed.array, _failed.error
    if failed is not None:
        _failed.array = _failed.error = None
        if failed() is self and error is not None:
            raise error
    return _addressed(self, "__array_struct__", _IN_STRUCTS, sys._getframe(1)).__array_struct__


def _reads_attribute(frame: FrameType) -> bool:
    """Whether what a frame is at is an attribute that its code reads, not a call of a function in C that reads one."""
    code, at = frame.f_code.co_code, frame.f_lasti
    while code[at] == opmap["CACHE"]:
        at -= 2
    return code[at] == opmap["LOAD_ATTR"]


def _addressed(array: Any, name: str, described: frozenset[str], caller: FrameType) -> Any:
    # NumPy asks in the order of its protocols, and shall not take one that says too little; programs ask for this one.
    dtype = array._layout.dtype
    if (dtype.char not in described or not _is_listed(dtype)) and not _reads_attribute(caller):
        raise AttributeError(f"{name} does not describe dtype {dtype}")
    try:
        return _lent(array, forever=True)
    except BufferError as error:  # an attribute that is not there
        raise AttributeError(str(error)) from None


# -- before Python 3.12 ------------------------------------------------------------------------------------------------


def _interop() -> Any:
    return importlib.import_module("oxinp._core.interop.imports")


def dlpack(
    self: Any, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: bool | None = None
) -> Any:
    """Export the elements to another library without a copy, from where they are; see `numpy.ndarray.__dlpack__`."""
    return _interop().export(self, stream=stream, max_version=max_version, dl_device=dl_device, copy=copy)


def dlpack_device(self: Any) -> Any:
    """Return kind and number of the device that `__dlpack__` exports from."""
    return _interop().dlpack_device(self)


class _BufferProcs(ctypes.Structure):
    """``PyBufferProcs`` of CPython."""

    _fields_ = (("getbuffer", ctypes.c_void_p), ("releasebuffer", ctypes.c_void_p))


class _Type(ctypes.Structure):
    """``PyTypeObject`` of CPython up to the buffer's slot: the header's words, then those of the type."""

    _fields_ = (
        ("head", ctypes.c_ssize_t * (object.__basicsize__ // ctypes.sizeof(ctypes.c_ssize_t) + 1)),
        ("before", ctypes.c_void_p * 17),
        ("as_buffer", ctypes.POINTER(_BufferProcs)),
    )


_GetBuffer = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_void_p, ctypes.c_int)


def _fill(array: Any, view: int, flags: int) -> int:
    """Fill a ``Py_buffer`` with what NumPy's array over the same memory exports; that array is its exporter."""
    try:
        lent = _exported(array, flags)
        ctypes.pythonapi.PyObject_GetBuffer(ctypes.py_object(lent), ctypes.c_void_p(view), ctypes.c_int(flags))
    except BaseException:  # noqa: BLE001 - a callback can say that it failed, but not why: Python raises SystemError
        return -1
    return 0


_get_buffer = _GetBuffer(_fill)  # for as long as the types are there


def offer(kind: type[Handle]) -> None:
    """Give a class and those made of it later the buffer protocol; from Python 3.12 on `export` does that by itself.

    Before, CPython asks a slot of the type, which no Python class can fill: it is filled here.
    """
    if HAS_PROTOCOL or sys.implementation.name != "cpython":
        return
    procs = _Type.from_address(id(kind)).as_buffer
    address = ctypes.addressof(procs.contents) if procs else 0
    if not id(kind) < address < id(kind) + type(kind).__basicsize__:  # the slots lie in the class itself
        return
    procs.contents.getbuffer = ctypes.cast(_get_buffer, ctypes.c_void_p).value

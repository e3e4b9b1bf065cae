"""DLPack: its structures, and the capsules that pass them between libraries of one process.

A capsule is made around a structure in memory of its own, which the consumer gives back by calling its deleter. That
may happen in any thread, and after the interpreter has ended: when it ends, what is still out gets a deleter that is
plain C.
"""

from __future__ import annotations

import atexit
import ctypes
import sys
from typing import Any, NamedTuple

from oxinp._runtime.memory import last_references

CPU = 1
CUDA = 2
CUDA_MANAGED = 13

READ_ONLY = 1
IS_COPIED = 2

_VERSION = (1, 1)
_NAMES = {False: b"dltensor", True: b"dltensor_versioned"}  # by whether the structure says its version
_USED = {False: b"used_dltensor", True: b"used_dltensor_versioned"}

# THE TABLE OF TYPE CODES: NumPy's kind -> DLPack's code.
CODES = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}
KINDS = {code: kind for kind, code in CODES.items()}


class _DLTensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class _Managed(ctypes.Structure):
    _fields_ = (("tensor", _DLTensor), ("manager", ctypes.c_void_p), ("deleter", ctypes.c_void_p))


class _ManagedVersioned(ctypes.Structure):
    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("manager", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _DLTensor),
    )


_STRUCTURES: dict[bool, Any] = {False: _Managed, True: _ManagedVersioned}
_Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


def _python(name: str, result: Any, *arguments: Any) -> Any:
    function = ctypes.pythonapi[name]  # an object of its own: others' prototypes are theirs
    function.restype = result
    function.argtypes = arguments
    return function


_allocate = _python("PyMem_RawMalloc", ctypes.c_void_p, ctypes.c_size_t)
_free = _python("PyMem_RawFree", None, ctypes.c_void_p)
_new_capsule = _python("PyCapsule_New", ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
_is_valid = _python("PyCapsule_IsValid", ctypes.c_int, ctypes.py_object, ctypes.c_char_p)
_pointer = _python("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
_set_name = _python("PyCapsule_SetName", ctypes.c_int, ctypes.py_object, ctypes.c_char_p)

_FREE_ADDRESS = ctypes.cast(_free, ctypes.c_void_p).value


class Tensor(NamedTuple):
    """An array in memory, as DLPack describes it.

    Attributes
    ----------
    address : int
        Of the first element.
    shape : tuple of int
    strides : tuple of int
        In elements.
    code, bits : int
        The element's type, see `CODES`.
    device : (int, int)
        Kind and number of the device.
    flags : int
        `READ_ONLY` and `IS_COPIED`.
    """

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    code: int
    bits: int
    device: tuple[int, int]
    flags: int = 0


class _Export(NamedTuple):
    owner: Any  # what keeps the memory
    deleter: int  # address of the structure's field


# Both by the address of the structure. A capsule that nobody consumed cannot tell of its end: its destructor may run
# while an exception is on its way, when no Python code may. So it is held here, and looked for now and then.
_exports: dict[int, _Export] = {}
_capsules: dict[int, Any] = {}


def _delete(address: int) -> None:
    """Let go of an exported tensor; runs in any thread."""
    _capsules.pop(address, None)
    if _exports.pop(address, None) is not None:
        _free(address)


def sweep() -> None:
    """Let go of the tensors of capsules that nobody consumed and nobody holds."""
    for address in list(_capsules):
        capsule = _capsules.get(address)
        if sys.getrefcount(capsule) > _REFERENCES_OF_OURS:
            continue  # first: whoever holds it may consume it, and let go of it, at any time
        if any(_is_valid(capsule, name) for name in _NAMES.values()):
            del capsule
            _delete(address)
        else:
            _capsules.pop(address, None)  # consumed: the deleter will be called


_REFERENCES_OF_OURS = 3  # the table's, the variable's, and the argument that asks

_c_delete = _Deleter(_delete)
_DELETE_ADDRESS = ctypes.cast(_c_delete, ctypes.c_void_p).value


@atexit.register
def _leave_to_c() -> None:
    """Let what is still out be freed without Python, which is about to end."""
    for export in list(_exports.values()):
        ctypes.c_void_p.from_address(export.deleter).value = _FREE_ADDRESS


def make_capsule(tensor: Tensor, owner: Any, *, is_versioned: bool) -> Any:
    """Return a capsule of a tensor.

    Parameters
    ----------
    tensor : Tensor
    owner : object
        Kept until the consumer lets go, or, if nobody consumes the capsule, the first `sweep` after its end.
    is_versioned : bool
        Whether the structure says its version, and with it the tensor's flags.
    """
    sweep()
    structure = _STRUCTURES[is_versioned]
    ndim = len(tensor.shape)
    size = ctypes.sizeof(structure)
    address = _allocate(size + 16 * ndim)
    if not address:
        raise MemoryError("no memory for a DLPack structure")
    managed = structure.from_address(address)
    ctypes.memset(address, 0, size)
    lengths = (ctypes.c_int64 * ndim).from_address(address + size)
    steps = (ctypes.c_int64 * ndim).from_address(address + size + 8 * ndim)
    lengths[:], steps[:] = list(tensor.shape), list(tensor.strides)
    described = managed.tensor
    described.data = tensor.address
    described.device_type, described.device_id = tensor.device
    described.ndim = ndim
    described.code, described.bits, described.lanes = tensor.code, tensor.bits, 1
    described.shape = ctypes.cast(lengths, ctypes.POINTER(ctypes.c_int64))
    described.strides = ctypes.cast(steps, ctypes.POINTER(ctypes.c_int64))
    managed.deleter = _DELETE_ADDRESS
    if is_versioned:
        managed.major, managed.minor = _VERSION
        managed.flags = tensor.flags
    _exports[address] = _Export(owner, address + structure.deleter.offset)
    capsule = _capsules[address] = _new_capsule(address, _NAMES[is_versioned], None)
    return capsule


class Consumed:
    """Somebody's tensor, ours to use until this object goes, or its heir where it is part of a cycle: see `Buffer`.

    Parameters
    ----------
    address : int
        Of the managed structure.
    deleter : int or None
        Of the function that gives it back.
    """

    __slots__ = ("_address", "_deleter", "_heir")

    def __init__(self, address: int, deleter: int | None) -> None:
        self._address = address
        self._deleter = deleter

    def __del__(
        self,
        is_finalizing: Any = sys.is_finalizing,
        deleter_type: Any = _Deleter,
        references: Any = sys.getrefcount,
        last: int = last_references(),
    ) -> None:
        # While the interpreter ends, its owner may be gone already; then so is the need to free.
        if not self._deleter or is_finalizing():
            return
        if references(self) > last:
            self._heir = __class__(self._address, self._deleter)  # type: ignore[name-defined]
        else:
            deleter_type(self._deleter)(self._address)


def consume(capsule: Any) -> tuple[Tensor, Consumed]:
    """Take the tensor out of a capsule.

    Raises
    ------
    BufferError
        It is none, was taken out before, or has a version or elements unknown here.
    """
    is_versioned = bool(_is_valid(capsule, _NAMES[True]))
    if not is_versioned and not _is_valid(capsule, _NAMES[False]):
        raise BufferError("no DLPack capsule, or one that was consumed before")
    address = _pointer(capsule, _NAMES[is_versioned])
    managed = _STRUCTURES[is_versioned].from_address(address)
    if is_versioned and managed.major != _VERSION[0]:
        raise BufferError(f"DLPack {managed.major}.{managed.minor} is not known here, only {_VERSION[0]}.x")
    held = managed.tensor
    ndim = held.ndim
    shape = tuple(held.shape[:ndim])
    if held.strides:
        strides = tuple(held.strides[:ndim])
    else:
        steps = [1]
        for length in reversed(shape[1:]):
            steps.append(steps[-1] * length)
        strides = tuple(reversed(steps)) if ndim else ()
    if held.lanes != 1 or held.code not in KINDS:
        raise BufferError(f"elements of DLPack type {held.code}, {held.bits} bits, {held.lanes} lanes are unknown here")
    tensor = Tensor(
        (held.data or 0) + held.byte_offset,
        shape,
        strides,
        held.code,
        held.bits,
        (held.device_type, held.device_id),
        managed.flags if is_versioned else 0,
    )
    _set_name(capsule, _USED[is_versioned])
    return tensor, Consumed(address, managed.deleter)

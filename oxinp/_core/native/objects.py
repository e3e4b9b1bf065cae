"""Where things lie in the objects of CPython and NumPy, found and checked when this is imported.

What a type's slots hold is C functions; `slot` reads and writes them. Nothing here is used where a check has failed.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
import platform
import sys
from typing import Any

import numpy as np

_WORD = ctypes.sizeof(ctypes.c_void_p)
TYPE = _WORD  # of every object: where its type lies
SIZE = 2 * _WORD  # of tuples, lists, dictionaries: how many items
TUPLE_ITEMS = 3 * _WORD
LIST_ITEMS = 3 * _WORD  # where their address lies
BYTES_ITEMS = 4 * _WORD
ARRAY_DATA, ARRAY_NDIM, ARRAY_SHAPE, ARRAY_STRIDES, ARRAY_BASE, ARRAY_DTYPE, ARRAY_FLAGS = (
    i * _WORD for i in range(2, 9)
)
SLICE_START, SLICE_STOP, SLICE_STEP = (i * _WORD for i in range(2, 5))
DTYPE_ITEMSIZE = 5 * _WORD
NUMBER_VALUE = 2 * _WORD  # of floats, and of NumPy's numbers

CELL_VALUE = 2 * _WORD  # of variables that functions share
POINTED = 2 * _WORD  # of arrays of `ctypes`: where their items lie

INT_TAG = 2 * _WORD  # of integers: how many digits, and their sign
POSITIVE, ZERO, NEGATIVE = (8, 1, 10) if sys.version_info >= (3, 12) else (1, 0, -1)  # of one digit of 30 bits
INT_DIGIT = 3 * _WORD  # of integers from 0 up to 2**30: their value, of 32 bits

_OF_TYPES = {
    "dealloc": 48,
    "number": 96,
    "sequence": 104,
    "mapping": 112,
    "call": 128,
    "compare": 200,
    "alloc": 304,
    "finalize": 392,
}
TYPE_FLAGS = 168  # where types have which kinds of Python's they are, of 32 bits
TUPLE_SUBCLASS = 1 << 26
ALLOC = _OF_TYPES["alloc"]  # where types have what makes an object
FREE = 320  # where types have what frees an object
_WEAK_REFERENCES = 208  # where types have where objects have these
_OF_NUMBERS = {
    "add": 0,
    "subtract": 8,
    "multiply": 16,
    "remainder": 24,
    "power": 40,
    "negative": 48,
    "absolute": 64,
    "invert": 80,
    "lshift": 88,
    "rshift": 96,
    "and": 104,
    "xor": 112,
    "or": 120,
    "inplace_add": 152,
    "inplace_subtract": 160,
    "inplace_multiply": 168,
    "inplace_remainder": 176,
    "inplace_lshift": 192,
    "inplace_rshift": 200,
    "inplace_and": 208,
    "inplace_xor": 216,
    "inplace_or": 224,
    "floor_divide": 232,
    "true_divide": 240,
    "inplace_floor_divide": 248,
    "inplace_true_divide": 256,
    "matrix_multiply": 272,
}
_OF_SEQUENCES = {"length": 0}
_OF_MAPPINGS = {"subscript": 8, "ass_subscript": 16}


HAS_IMMORTALS = sys.version_info >= (3, 12)
"""Whether there are objects whose references are not counted."""


def place(kind: type, name: str) -> int:
    """Return where a type has a slot."""
    for table, offsets in (("number", _OF_NUMBERS), ("sequence", _OF_SEQUENCES), ("mapping", _OF_MAPPINGS)):
        if name in offsets:
            methods = ctypes.c_void_p.from_address(id(kind) + _OF_TYPES[table]).value
            assert methods
            return methods + offsets[name]
    return id(kind) + _OF_TYPES[name]


def slot(kind: type, name: str) -> Any:
    """Return a type's slot, as a pointer whose `value` is the C function's address."""
    return ctypes.c_void_p.from_address(place(kind, name))


def offset(descriptor: Any) -> int:
    """Return where an object has one of its ``__slots__``, by the class's descriptor of it."""
    member = ctypes.c_void_p.from_address(id(descriptor) + 5 * _WORD).value  # `d_member`
    assert member
    return ctypes.c_ssize_t.from_address(member + 2 * _WORD).value


UFUNC_LOOPS = (4 * _WORD, 5 * _WORD)
"""Where ufuncs have the addresses of their loops, and of what is passed on to them."""
_OF_NUMPYS = {"PyArray_NewFromDescr": 94, "PyArray_Scalar": 60}


@functools.cache
def numpys_address(function: str) -> int:
    """Return where a function of NumPy's C API lies, by the table that extensions import; 0 if there is no such."""
    try:
        table = importlib.import_module("numpy._core._multiarray_umath")._ARRAY_API
    except (ImportError, AttributeError):
        return 0
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.argtypes, get.restype = (ctypes.py_object, ctypes.c_char_p), ctypes.c_void_p
    return ctypes.c_void_p.from_address(get(table, None) + _WORD * _OF_NUMPYS[function]).value or 0


def weak_references(kind: type) -> int:
    """Return where objects of a class have the list of their weak references."""
    return ctypes.c_ssize_t.from_address(id(kind) + _WEAK_REFERENCES).value


@functools.cache
def address(function: str) -> int:
    """Return where a function of Python's C API lies."""
    found = ctypes.cast(getattr(ctypes.pythonapi, function), ctypes.c_void_p).value
    assert found
    return found


class _Slotted:
    __slots__ = ("first", "second")

    second: object

    def __add__(self, other: object) -> object:
        return self

    def __getitem__(self, key: object) -> object:
        return self


class _Finalised:
    def __del__(self) -> None: ...


def _holds_as_known() -> bool:
    """Whether offsets of `__slots__` and of types lead to what lies there."""
    made, value = _Slotted(), object()
    made.second = value
    there = ctypes.c_void_p.from_address(id(made) + offset(_Slotted.__dict__["second"])).value
    if there != id(value) or ctypes.c_void_p.from_address(id(made) + TYPE).value != id(_Slotted):
        return False
    # Who defines an operator has it in the slot, and nobody else; NumPy's functions do what they are called.
    if not slot(_Slotted, "add").value or slot(_Slotted, "subtract").value or not slot(_Slotted, "subscript").value:
        return False
    if slot(_Slotted, "finalize").value or not slot(_Finalised, "finalize").value:
        return False
    x, two = np.arange(6.0).reshape(2, 3), ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object, ctypes.py_object)
    negated = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object)(slot(np.ndarray, "negative").value)(x)
    is_known = np.array_equal(negated, -x) and two(slot(np.ndarray, "subscript").value)(x, (1, 2)) == 5.0
    integers = np.arange(1, 7).reshape(2, 3)
    for name, left, right, expected in (
        ("add", x, integers, x + integers),
        ("or", integers, integers[::-1], integers | integers[::-1]),
        ("true_divide", x, integers, x / integers),
        ("matrix_multiply", x, x.T, x @ x.T),
    ):
        is_known = is_known and np.array_equal(two(slot(np.ndarray, name).value)(left, right), expected)
    items, item, number, part = [x, x], (x,), 123456, x[1:]
    bounds, named, words = slice(x, integers, None), {"x": x}, np.dtype("U7")
    return is_known and (
        ctypes.c_int.from_address(id(x) + ARRAY_NDIM).value == 2
        and ctypes.c_void_p.from_address(id(x) + ARRAY_DTYPE).value == id(x.dtype)
        and ctypes.c_ssize_t.from_address(ctypes.c_void_p.from_address(id(x) + ARRAY_SHAPE).value or 0).value == 2
        and ctypes.c_ssize_t.from_address(ctypes.c_void_p.from_address(id(x) + ARRAY_STRIDES).value or 0).value == 24
        and ctypes.c_void_p.from_address(id(part) + ARRAY_BASE).value == id(part.base)
        and ctypes.c_ssize_t.from_address(id(items) + SIZE).value == 2
        and ctypes.c_void_p.from_address(ctypes.c_void_p.from_address(id(items) + LIST_ITEMS).value or 0).value == id(x)
        and ctypes.c_void_p.from_address(id(item) + TUPLE_ITEMS).value == id(x)
        and [ctypes.c_int.from_address(id(kind) + TYPE_FLAGS).value & TUPLE_SUBCLASS for kind in (tuple, list)]
        == [TUPLE_SUBCLASS, 0]
        and ctypes.c_int.from_address(id(number) + INT_DIGIT).value == number
        and ctypes.c_ssize_t.from_address(id(named) + SIZE).value == 1
        and ctypes.c_ssize_t.from_address(id(words) + DTYPE_ITEMSIZE).value == 28
        and [ctypes.c_void_p.from_address(id(bounds) + at).value for at in (SLICE_START, SLICE_STOP, SLICE_STEP)]
        == [id(x), id(integers), id(None)]
    )


def _place_of_vectorcall() -> int | None:
    """Return where functions have what calls them; None where that may not be set."""
    if not hasattr(ctypes.pythonapi, "PyFunction_SetVectorcall"):
        return None

    def function() -> None: ...

    words = range(2 * _WORD, sys.getsizeof(function), _WORD)
    before = [ctypes.c_void_p.from_address(id(function) + at).value for at in words]
    set_vectorcall(function, 8)  # nobody calls it
    found = [at for at in words if ctypes.c_void_p.from_address(id(function) + at).value == 8]
    if len(found) != 1:
        return None
    set_vectorcall(function, before[words.index(found[0])] or 0)
    return found[0]


def _places_of_variables() -> tuple[int, int]:
    """Return where functions that Python wrote have their code and their variables of others; 0 where none is found."""
    variable = object()

    def function() -> object:
        return variable

    (cell,) = closure = function.__closure__ or ()
    numbers = (ctypes.c_float * 3)()
    if ctypes.c_void_p.from_address(id(cell) + CELL_VALUE).value != id(variable) or ctypes.c_void_p.from_address(
        id(numbers) + POINTED
    ).value != ctypes.addressof(numbers):
        return 0, 0
    places = range(2 * _WORD, sys.getsizeof(function), _WORD)
    words = {ctypes.c_void_p.from_address(id(function) + at).value: at for at in places}
    return words.get(id(function.__code__), 0), words.get(id(closure), 0)


@functools.cache
def _set_vectorcall() -> Any:
    change = ctypes.pythonapi.PyFunction_SetVectorcall
    change.argtypes, change.restype = (ctypes.py_object, ctypes.c_void_p), None
    return change


def set_vectorcall(function: Any, address: int) -> None:
    """Let a function that Python wrote be called by other code."""
    _set_vectorcall()(function, address)


def vectorcall(function: Any) -> int:
    """Return the address of what calls a function that Python wrote."""
    assert VECTORCALL is not None
    found = ctypes.c_void_p.from_address(id(function) + VECTORCALL).value
    assert found
    return found


def _are_known() -> bool:
    is_usual = (
        sys.implementation.name == "cpython"
        and (3, 11) <= sys.version_info < (3, 14)
        and sys.platform == "linux"
        and platform.machine() in ("x86_64", "AMD64")
        and _WORD == 8
        and not sys.abiflags  # builds for free threads and for debugging have other objects
    )
    return is_usual and _holds_as_known()


ARE_KNOWN = _are_known()
"""Whether this is a Python whose objects are laid out as here."""
VECTORCALL = _place_of_vectorcall() if ARE_KNOWN else None
"""Where functions that Python wrote have the address of what calls them; None where that cannot be told."""
FUNCTION_CODE, FUNCTION_CLOSURE = _places_of_variables() if ARE_KNOWN else (0, 0)
FUNCTIONS_ARE_KNOWN = bool(FUNCTION_CODE and FUNCTION_CLOSURE)
"""Whether it is known where functions that Python wrote have what."""

__all__ = [
    "ARE_KNOWN",
    "FUNCTIONS_ARE_KNOWN",
    "VECTORCALL",
    "address",
    "numpys_address",
    "offset",
    "place",
    "set_vectorcall",
    "slot",
    "vectorcall",
    "weak_references",
]

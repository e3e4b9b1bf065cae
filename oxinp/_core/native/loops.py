"""NumPy's own loops over elements, called without what NumPy does around them.

At each call a ufunc of NumPy's finds out anew, by the types of its operands, which of its loops is theirs and how to
go through them. Of arrays of one dtype that is known beforehand: so functions in machine code make the array of the
results and call the loop, with the same addresses and strides as NumPy. Where a loop sets one of the flags of
arithmetic that NumPy may warn of, what it has made is dropped, and NumPy computes it again, and warns: not where it is
the flag of underflows alone, which nobody is told of who has not asked for it.
"""

from __future__ import annotations

import ctypes
import functools
import struct
from contextvars import Context
from typing import Any

import numpy as np

from oxinp._core.errors.hearing import state
from oxinp._core.native import objects
from oxinp._core.native.frame import ROOM
from oxinp._core.native.function import Function
from oxinp._core.native.objects import (
    ARRAY_DTYPE,
    ARRAY_FLAGS,
    BYTES_ITEMS,
    NUMBER_VALUE,
    TYPE,
)

TYPES = (
    *(np.float64, np.int64, np.bool_, np.float32, np.int32, np.complex128),
    *(np.uint8, np.int8, np.int16, np.uint16, np.uint32, np.uint64),
)
"""Types of elements whose loops are called, in the order in which they are looked for."""
_DTYPES = tuple(map(np.dtype, TYPES))
_MAY_RAISE = (np.power,)  # of negative powers of integers
_IN_ROWS = frozenset(
    getattr(np, name)
    for name in (
        *("add", "subtract", "multiply", "divide", "negative", "absolute", "square", "sqrt", "maximum", "minimum"),
        *("less", "less_equal", "equal", "not_equal", "greater", "greater_equal", "floor", "ceil", "rint"),
        *("logical_and", "logical_or", "logical_not", "bitwise_and", "bitwise_or", "bitwise_xor", "invert"),
    )
)
"""Those whose results are the same, bit for bit, however many elements are computed at once."""

# What is known of a loop, a word each.
INPUT, _LOOP, _PASSED, OUTPUT, INPUT_NBYTES, OUTPUT_NBYTES, _NUMBER, _KIND, IS_IN_ROWS, _LEAST, _MOST = (
    8 * i for i in range(11)
)
_ROW = struct.Struct("9Q2q")
_FLOATS, _INTEGERS, _SHORT, _SINGLE, _OTHERS = range(5)  # of 64 bits, shorter ones, and others
_KINDS = {"d": _FLOATS, "l": _INTEGERS, "f": _SINGLE}
_MOST_EXACT, _MOST_SINGLE = 2**53, 2**24  # up to which integers are floats, too
_SINGLE_EXPONENT = 0x7F800000  # of what is not finite

CONTIGUOUS, FORTRAN, OWNER, ALIGNED, WRITEABLE = 0x1, 0x2, 0x4, 0x100, 0x400
"""Flags of arrays; `OWNER` is of what has its own memory."""
# Flags of arithmetic: invalid, division by zero, overflow, underflow; and with others; and the last of these.
_RAISED, _ALL_RAISED, _UNDERFLOW = 0x1D, 0x3F, 0x10
_PAIR_NBYTES = 16  # of two words, as calls want the stack
_FRESH = Context()
_USUAL: Any = _FRESH.run(state.get) if _FRESH.run(np.geterr)["under"] == "ignore" else None
"""What NumPy has for errors where nobody has said anything: it tells of all that it may tell of, but for underflows."""

# Where on the stack there is what a loop is called with.
POINTERS, STRIDES, COUNT, _VALUE, STATUS, TIMES, STEPS = (ROOM + at for at in (0, 24, 48, 56, 64, 72, 80))
STACK = ROOM + 80 + 24 + 8
"""Bytes of the stack that a function which calls loops needs."""
MOST = 32768
"""Elements up to which loops are called: Python's lock is kept meanwhile, which NumPy gives back."""
MOST_IN_PLACE = 2048
MEMMOVE = ctypes.cast(ctypes.memmove, ctypes.c_void_p).value or 0
results = ctypes.create_string_buffer(16 * MOST_IN_PLACE)  # on their way to where they belong


def _loops(ufunc: np.ufunc) -> dict[str, tuple[str, int, int]]:
    """Return what a ufunc's loops make, their addresses, and those of what is passed on to them, by what they take."""
    loops, passed = (
        (ctypes.c_void_p * ufunc.ntypes).from_address(ctypes.c_void_p.from_address(id(ufunc) + at).value or 0)
        for at in objects.UFUNC_LOOPS
    )
    known: dict[str, tuple[str, int, int]] = {}
    num = ufunc.nin
    for i, types in enumerate(ufunc.types):
        if loops[i]:
            known.setdefault(types[:num], (types[num + 2 :], loops[i] or 0, passed[i] or 0))  # 2 for the arrow
    return known


def _bounds(dtype: np.dtype[Any]) -> tuple[int, int]:
    """Return the least and the largest integer of Python's that a dtype of integers holds, of 64 bits."""
    if dtype.kind not in "iu":
        return 0, 0
    held = np.iinfo(dtype)
    return int(held.min), min(int(held.max), 2**63 - 1)


_OPERANDS = [
    (
        *(dtype.char, dtype.kind in "iub"),
        (
            *(id(dtype), dtype.itemsize, id(dtype.type)),
            _KINDS.get(dtype.char, _SHORT if dtype.kind in "iu" else _OTHERS),
            *_bounds(dtype),
        ),
    )
    for dtype in _DTYPES
]
"""Of each dtype its character, whether it is of integers or truth values, and what all its rows have alike."""


@functools.cache
def rows(ufunc: np.ufunc) -> bytes:
    """Return what is known of the loops of a ufunc of one output over operands of one dtype, up to a row of zeros."""
    known = b""
    loops = _loops(ufunc) if objects.ARE_KNOWN and ufunc.nout == 1 else {}
    is_in_rows, may_raise, num = ufunc in _IN_ROWS, ufunc in _MAY_RAISE, ufunc.nin
    for char, is_integer, (address, nbytes, number, kind, low, high) in _OPERANDS:
        found = loops.get(char * num)
        if found is None or (may_raise and is_integer):
            continue
        made, loop, passed = found
        output = np.dtype(made)
        is_each_row = is_in_rows and char != "D"
        known += _ROW.pack(
            *(address, loop, passed, id(output), nbytes, output.itemsize, number, kind, is_each_row, low, high)
        )
    return known + bytes(_ROW.size)


def address_of(known: bytes) -> int:
    """Return where the rows of a ufunc lie."""
    return id(known) + BYTES_ITEMS


def place_number(function: Function, place: int, number: str, label: str) -> None:
    """Let the stack have the address of a number as an element, which does not change it."""
    code = function.code
    is_there, is_integer, is_placed, is_converted, is_real = (function.new_label() for _ in range(5))
    code.load("rax", number, TYPE)
    code.compare_with("r15", _NUMBER, "rax")
    code.jump(is_there, "e")
    code.set("rcx", id(complex))
    code.compare("rax", "rcx")
    code.jump(is_real, "ne")
    code.set("rax", id(np.complex128))
    code.compare_with("r15", _NUMBER, "rax")
    code.jump(label, "ne")
    code.jump(is_there)
    code.label(is_real)
    function.if_one_of("rax", (int,), is_integer)
    code.set("rcx", id(float))
    code.compare("rax", "rcx")
    code.jump(label, "ne")
    code.compare_number_with("r15", _KIND, _FLOATS)
    code.jump(is_there, "e")
    code.compare_number_with("r15", _KIND, _SINGLE)
    code.jump(label, "ne")
    code.store_single("rsp", _VALUE, number, NUMBER_VALUE)
    code.load_int("rax", "rsp", _VALUE)
    code.and_number("rax", _SINGLE_EXPONENT)
    code.compare_number("rax", _SINGLE_EXPONENT)
    code.jump(label, "e")
    code.compare_number("rax", 0)
    code.jump(is_converted, "ne")
    code.load("rax", number, NUMBER_VALUE)
    code.add_register("rax", "rax")  # without the sign
    code.compare_number("rax", 0)
    code.jump(label, "ne")  # of numbers that vanish functions of truth values see more
    code.jump(is_converted)
    code.label(is_there)
    code.move("rax", number)
    code.add("rax", NUMBER_VALUE)
    code.jump(is_placed)
    code.label(is_integer)
    _convert_integer(function, number, label)
    code.label(is_converted)
    code.move("rax", "rsp")
    code.add("rax", _VALUE)
    code.label(is_placed)
    code.store("rsp", POINTERS + 8 * place, "rax")
    code.set("rax", 0)
    code.store("rsp", STRIDES + 8 * place, "rax")


def _convert_integer(function: Function, number: str, label: str) -> None:
    """Let the stack have an integer as an element that has its very value; go to a label where there is none."""
    code = function.code
    done, is_float, is_single = (function.new_label() for _ in range(3))
    code.compare_number_with("r15", _KIND, _OTHERS)
    code.jump(label, "e")
    code.move("rdi", number)
    code.move("rsi", "rsp")
    code.add("rsi", STATUS)
    code.call(objects.address("PyLong_AsLongAndOverflow"))
    code.load_int("rcx", "rsp", STATUS)
    code.compare_number("rcx", 0)
    code.jump(label, "ne")
    code.store("rsp", _VALUE, "rax")
    code.compare_number_with("r15", _KIND, _INTEGERS)
    code.jump(done, "e")
    code.compare_number_with("r15", _KIND, _SHORT)
    code.jump(is_float, "ne")
    for place_of_bound, is_beyond in ((_LEAST, "g"), (_MOST, "l")):
        code.compare_with("r15", place_of_bound, "rax")
        code.jump(label, is_beyond)
    code.jump(done)
    code.label(is_float)
    code.compare_number_with("r15", _KIND, _SINGLE)
    code.jump(is_single, "e")
    _store_exact(function, _MOST_EXACT, label)
    code.jump(done)
    code.label(is_single)
    _store_exact(function, _MOST_SINGLE, label)
    code.store_single("rsp", _VALUE, "rsp", _VALUE)
    code.label(done)


def _store_exact(function: Function, most: int, label: str) -> None:
    """Let the stack have an integer, in `rax`, as a float; go to a label beyond a bound on either side."""
    code = function.code
    for bound, is_beyond in ((most, "g"), (-most, "l")):
        code.set("rcx", bound % 2**64)
        code.compare("rax", "rcx")
        code.jump(label, is_beyond)
    code.store_float("rsp", _VALUE, "rax")


def find_row(function: Function, array: str, label: str) -> None:
    """Let `r15`, which has the first of some rows, have that of the loop over an array's elements."""
    code, again, found = function.code, function.new_label(), function.new_label()
    code.load("rax", array, ARRAY_DTYPE)
    code.label(again)
    code.compare_with("r15", INPUT, "rax")
    code.jump(found, "e")
    code.compare_number_with("r15", INPUT, 0)
    code.jump(label, "e")
    code.add("r15", _ROW.size)
    code.jump(again)
    code.label(found)


def unless_weak(function: Function, number: str, label: str) -> None:
    """Go to a label unless a number of Python's has the dtype of any array beside it that the row in `r15` is for."""
    code, is_weak, is_float = function.code, function.new_label(), function.new_label()
    code.load("rax", number, TYPE)
    code.compare_number_with("r15", _KIND, _OTHERS)
    code.jump(label, "e")
    function.if_one_of("rax", (int, bool), is_weak)
    function.if_one_of("rax", (float,), is_float)
    code.jump(label)
    code.label(is_float)
    code.compare_number_with("r15", _KIND, _FLOATS)
    code.jump(is_weak, "e")
    code.compare_number_with("r15", _KIND, _SINGLE)
    code.jump(label, "ne")
    code.label(is_weak)


def require_aligned(function: Function, array: str, label: str) -> None:
    """Go to a label unless an array's elements lie where loops may read them."""
    function.code.test_with(array, ARRAY_FLAGS, ALIGNED)
    function.code.jump(label, "e")


def make_array(function: Function) -> None:
    """Let `r13` have a new array of the results of the row in `r15`, of `rdx` axes and with its shape where `rcx` says.

    Nothing else runs meanwhile: arrays of NumPy's are not the garbage collector's.
    """
    code = function.code
    code.load("rsi", "r15", OUTPUT)
    function.keep("rsi")
    code.set("rdi", id(np.ndarray))
    code.set("r8", 0)
    code.set("r9", 0)
    code.push("r8")
    code.push("r8")
    code.call(objects.numpys_address("PyArray_NewFromDescr"))
    code.add("rsp", 16)
    _let_result_be(function)


def make_number(function: Function, place: int) -> None:
    """Let `r13` have a number of NumPy's, which lies on the stack, of the results of the row in `r15`."""
    code = function.code
    code.move("rdi", "rsp")
    code.add("rdi", place)
    code.load("rsi", "r15", OUTPUT)
    code.set("rdx", 0)
    code.call(objects.numpys_address("PyArray_Scalar"))
    _let_result_be(function)


def _let_result_be(function: Function) -> None:
    """Let `r13` have the object that `rax` has; return if there is none."""
    is_made = function.new_label()
    function.code.move("r13", "rax")
    function.code.compare_number("rax", 0)
    function.code.jump(is_made, "ne")
    function.return_error()
    function.code.label(is_made)


def call_unchecked(function: Function, pointers: int, counts: int, strides: int) -> None:
    """Call the loop of the row in `r15` with what lies on the stack."""
    code = function.code
    for register, place in (("rdi", pointers), ("rsi", counts), ("rdx", strides)):
        code.move(register, "rsp")
        code.add(register, place)
    code.load("rcx", "r15", _PASSED)
    code.load("rax", "r15", _LOOP)
    code.call_register("rax")


def call(function: Function, pointers: int, counts: int, strides: int, status: int, flagged: str) -> None:
    """Call the loop of the row in `r15` with what lies on the stack; go to a label where NumPy might warn."""
    clear_flags(function, status)
    call_unchecked(function, pointers, counts, strides)
    unless_flagged(function, status, flagged)


def clear_flags(function: Function, status: int) -> None:
    """Clear the flags of arithmetic that NumPy may warn of."""
    code, is_clear, old_is_clear = function.code, function.new_label(), function.new_label()
    code.store_status("rsp", status)
    code.test_with("rsp", status, _RAISED)
    code.jump(is_clear, "e")
    code.clear_with("rsp", status, _ALL_RAISED)
    code.load_status("rsp", status)
    code.label(is_clear)
    code.load_old_status()
    code.test_number("rax", _RAISED)
    code.jump(old_is_clear, "e")
    code.clear_old_status()
    code.label(old_is_clear)


def unless_flagged(function: Function, status: int, label: str) -> None:
    """Go to a label where a flag of arithmetic is set that NumPy is to warn of; registers change as by a call."""
    code, is_done = function.code, function.new_label()
    code.store_status("rsp", status)
    code.load_int("rcx", "rsp", status)
    code.load_old_status()
    code.or_register("rax", "rcx")
    code.test_number("rax", _RAISED & ~_UNDERFLOW)
    code.jump(label, "ne")
    code.test_number("rax", _UNDERFLOW)
    code.jump(is_done, "e")
    _require_usual_errors(function, label)
    code.label(is_done)


def _require_usual_errors(function: Function, label: str) -> None:
    """Go to a label unless the calling thread is told of errors as ever, which is not of underflows."""
    code, is_known, is_usual = function.code, function.new_label(), function.new_label()
    code.add("rsp", -_PAIR_NBYTES)
    code.set("rdi", id(state))
    code.set("rsi", 0)
    code.move("rdx", "rsp")
    code.call(objects.address("PyContextVar_Get"))
    code.load("rcx", "rsp")
    code.add("rsp", _PAIR_NBYTES)
    code.compare_number("rcx", 0)
    code.jump(is_known, "ne")
    code.call(objects.address("PyErr_Clear"))
    code.jump(label)
    code.label(is_known)
    code.set("rax", id(_USUAL))
    code.compare("rcx", "rax")
    code.jump(is_usual, "e")
    function.drop("rcx")
    code.jump(label)
    code.label(is_usual)
    function.drop("rcx")


def _are_known() -> bool:
    """Whether loops are found where this looks for them, and do what NumPy does."""
    make = objects.ARE_KNOWN and objects.numpys_address("PyArray_NewFromDescr")
    if not make:
        return False
    word, one = ctypes.c_void_p, ctypes.py_object
    ctypes.pythonapi.Py_IncRef(one(np.dtype(np.float32)))
    made = ctypes.PYFUNCTYPE(one, one, one, ctypes.c_int, word, word, word, ctypes.c_int, word)(make)(
        np.ndarray, np.dtype(np.float32), 2, (ctypes.c_ssize_t * 2)(3, 4), None, None, 0, None
    )
    if type(made) is not np.ndarray or made.shape != (3, 4) or made.dtype != np.float32:
        return False
    a, b, found = np.linspace(1.0, 2.0, 5), np.linspace(-1.0, 3.0, 5), np.empty(5)
    for ufunc, operands in ((np.add, (a, b)), (np.sqrt, (a,)), (np.less, (a, b))):
        dtype, loop, passed, output, _, nbytes, *_ = _ROW.unpack_from(rows(ufunc))
        arrays = (*operands, found)
        if dtype != id(a.dtype):
            return False
        ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4)(loop)(
            (ctypes.c_void_p * 3)(*(each.ctypes.data for each in arrays)),
            (ctypes.c_ssize_t * 1)(5),
            (ctypes.c_ssize_t * 3)(*[8] * len(operands), nbytes),
            passed,
        )
        expected = ufunc(*operands)
        if expected.tobytes() != found.tobytes()[: expected.nbytes] or output != id(expected.dtype):
            return False
    return ctypes.c_double.from_address(id(np.float64(1.5)) + NUMBER_VALUE).value == 1.5


ARE_KNOWN = _are_known()
"""Whether NumPy's loops can be called."""

__all__ = [
    "ALIGNED",
    "ARE_KNOWN",
    "CONTIGUOUS",
    "COUNT",
    "FORTRAN",
    "INPUT",
    "INPUT_NBYTES",
    "IS_IN_ROWS",
    "MEMMOVE",
    "MOST",
    "MOST_IN_PLACE",
    "OUTPUT",
    "OUTPUT_NBYTES",
    "OWNER",
    "POINTERS",
    "STACK",
    "STATUS",
    "STEPS",
    "STRIDES",
    "TIMES",
    "TYPES",
    "WRITEABLE",
    "address_of",
    "call",
    "call_unchecked",
    "clear_flags",
    "find_row",
    "make_array",
    "make_number",
    "place_number",
    "require_aligned",
    "results",
    "rows",
    "unless_flagged",
    "unless_weak",
]

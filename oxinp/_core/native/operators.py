"""Operators of small arrays on the host, and calls of ufuncs, in machine code."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from oxinp._core.lazy import inlining
from oxinp._core.native import objects
from oxinp._core.native.function import FLOAT64, MOST, MOST_WRITTEN, NONE, Function, cells
from oxinp._core.native.objects import ARRAY_DTYPE, ARRAY_NDIM, ARRAY_SHAPE, INT_DIGIT, SIZE, TUPLE_ITEMS, TYPE
from oxinp._core.ufunc.objects import OF_TWO

_CALL = ctypes.create_string_buffer(b"__call__")
_NUMBERS = (np.float64, np.int64, np.float32, np.int32, np.complex128)
"""Types of numbers that stand next to arrays as they are."""
_MIDDLING = (np.float64, np.int64, np.float32, np.int32, np.bool_)
"""Types of elements of arrays that are the host's although they are not small: what these make has 8 bytes at most."""


def _look_up(
    function: Function, number: str, array: str, found: str, *, is_integer: str, is_plain: str, is_missing: str
) -> None:
    """Go to a label with an array of a number in `rax`, or by what it is; the general function keeps new ones."""
    code, of_floats, looked_up, is_float = (function.code, *(function.new_label() for _ in range(3)))
    code.load("rdx", array, ARRAY_DTYPE)
    code.set("rcx", id(float))
    code.compare("rax", "rcx")
    code.jump(is_float, "e")
    code.set("rcx", id(int))
    code.compare("rax", "rcx")
    code.jump("general", "ne")
    code.set("rcx", id(inlining.INT64))
    code.set("r15", id(inlining.INTEGERS))
    code.compare("rdx", "rcx")
    code.jump(looked_up, "e")
    code.set("rcx", id(FLOAT64))
    code.compare("rdx", "rcx")
    code.jump(of_floats, "e")
    code.jump(is_integer)
    code.label(is_float)
    code.set("rcx", id(FLOAT64))
    code.compare("rdx", "rcx")
    code.jump(is_plain, "ne")
    code.label(of_floats)
    code.set("r15", id(inlining.FLOATS))
    code.label(looked_up)
    function.call("PyDict_GetItem", "r15", number)
    code.compare_number("rax", 0)
    code.jump(found, "ne")
    function.call("PyObject_IsTrue", number)
    code.compare_number("rax", 0)
    code.jump(is_missing, "e")
    code.compare_number_with("r15", SIZE, inlining.MAX_CONSTANTS)
    code.jump("general", "l")


def _load_number(function: Function, number: str, array: str, target: str, *, is_kept: bool = True) -> None:
    """Let a register have a number as it stands next to an array of NumPy's: as an array of one element if it is kept.

    NumPy takes half the time for that, where it means the same: `is_kept` says so.
    """
    code = function.code
    is_plain, is_integer, is_missing, found, done = (function.new_label() for _ in range(5))
    code.load("rax", number, TYPE)
    for each in _NUMBERS:
        code.set("rcx", id(each))
        code.compare("rax", "rcx")
        code.jump(is_plain, "e")
    if is_kept:
        _look_up(function, number, array, found, is_integer=is_integer, is_plain=is_plain, is_missing=is_missing)
    else:
        code.set("rcx", id(float))
        code.compare("rax", "rcx")
        code.jump(is_plain, "e")
        code.set("rcx", id(int))
        code.compare("rax", "rcx")
        code.jump("general", "ne")
    code.label(is_missing)
    function.unless_type(number, int, is_plain)
    code.label(is_integer)  # one that most integer dtypes hold
    code.move("rsi", "rsp")
    code.add("rsi", 24)
    code.move("rdi", number)
    code.call(objects.address("PyLong_AsLongAndOverflow"))
    code.load_int("rcx", "rsp", 24)
    code.compare_number("rcx", 0)
    code.jump("general", "ne")
    code.compare_number("rax", inlining.PLAIN_INT)
    code.jump("general", "g")
    code.compare_number("rax", -inlining.PLAIN_INT)
    code.jump("general", "l")
    code.label(is_plain)
    code.move(target, number)
    code.jump(done)
    code.label(found)
    code.move(target, "rax")
    code.label(done)


def _load_operand(function: Function, handle: str, target: str, most: int | None, label: str = "general") -> None:
    """Let a register have the host's view of an operand of ours that is small; go to a label if it is not."""
    function.load_seen(target, handle, storage="r13")
    function.require_few(handle, target, label)
    if most is not None:
        function.unless_smaller(target, label, most)


def _load_other(
    function: Function,
    kind: type,
    other: str,
    array: str,
    target: str,
    most: int | None,
    label: str = "general",
    *,
    is_kept: bool = True,
) -> None:
    """Let a register have the second operand, of ours or a number."""
    code, is_number, is_loaded = function.code, function.new_label(), function.new_label()
    function.unless_type(other, kind, is_number)
    _load_operand(function, other, target, most, label)
    code.jump(is_loaded)
    code.label(is_number)
    _load_number(function, other, array, target, is_kept=is_kept)
    code.label(is_loaded)


def _compute(function: Function, numpys: int, *operands: str, is_few: bool = True) -> None:
    """Call a function of NumPy's and return what it makes, as ours."""
    code = function.code
    function.unless_reported()
    for each in operands:
        function.keep(each)
    code.load("rdx", "rsp", 0)  # what a comparison is
    function.call(numpys, *operands)
    code.move("r13", "rax")
    for each in operands:
        function.drop(each)
    is_made = function.new_label()
    code.compare_number("r13", 0)
    code.jump(is_made, "ne")
    function.return_error()
    code.label(is_made)
    function.wrap("r13", "r12", is_few=is_few)


def _require_middling(function: Function, array: str, reach: int) -> None:
    """Go to the general function unless an array is the host's by its bytes alone, of elements of 8 bytes or less."""
    code, is_known = function.code, function.new_label()
    code.set("rcx", ctypes.addressof(cells))
    code.compare_number_with("rcx", MOST, 0)  # of thresholds that let more be the device's
    code.jump("general", "e")
    code.load("rax", array, ARRAY_DTYPE)
    for dtype in _MIDDLING:
        code.set("rcx", id(np.dtype(dtype)))
        code.compare("rax", "rcx")
        code.jump(is_known, "e")
    code.jump("general")
    code.label(is_known)
    function.multiply_extents(array)
    code.compare_number("rax", 0)
    code.jump("general", "e")
    code.compare_number("rax", -(-2 * inlining.MOST_FEW * inlining.HEAVY // reach))
    code.jump("general", "ge")


def _compute_middling(function: Function, kind: type, numpys: int, reach: int, *, is_kept: bool = True) -> None:
    """Lay out ``middling``: two arrays of one shape that are not small, or one and a number."""
    code = function.code
    code.label("middling")
    function.unless_type("rbx", kind, "middling number first")
    function.load_seen("r12", "rbx", storage="r13")
    _require_middling(function, "r12", reach)
    function.unless_type("rbp", kind, "middling number")
    function.load_seen("r14", "rbp", storage="r13")
    _require_middling(function, "r14", reach)
    function.require_same_shape("r12", "r14")
    code.jump("compute middling")
    code.label("middling number")
    _require_real(function, "rbp")
    _load_number(function, "rbp", "r12", "r14", is_kept=is_kept)
    code.jump("compute middling")
    code.label("middling number first")
    function.load_seen("r14", "rbp", storage="r13")
    _require_middling(function, "r14", reach)
    _require_real(function, "rbx")
    _load_number(function, "rbx", "r14", "r12", is_kept=is_kept)
    code.label("compute middling")
    _compute(function, numpys, "r12", "r14", is_few=False)


def _require_real(function: Function, number: str) -> None:
    """Go to the general function where a number makes elements of 16 bytes."""
    function.code.set("rcx", id(np.complex128))
    function.code.compare_with(number, TYPE, "rcx")
    function.code.jump("general", "e")


def binary(kind: type, before: int, numpys: int, name: str, reach: int, *, is_kept: bool) -> bytes:
    """Return the code of an operator such as ``a + b``, either of which is ours, by its method's name.

    `reach` is what an element costs, `is_kept` whether an array of a number means the same.
    """
    function = Function(kind, before)
    code = function.code
    most = None if reach <= inlining.HEAVY else inlining.MOST_FEW * inlining.HEAVY // reach
    function.begin()
    function.unless_type("rbx", kind, "reflected")
    _load_operand(function, "rbx", "r12", most, "middling")
    _load_other(function, kind, "rbp", "r12", "r14", most, "middling", is_kept=is_kept)
    code.jump("compute")
    code.label("reflected")
    function.unless_type("rbp", kind, "general")
    _load_operand(function, "rbp", "r14", most, "middling")
    _load_number(function, "rbx", "r14", "r12", is_kept=is_kept)
    code.label("compute")
    _compute(function, numpys, "r12", "r14")
    _compute_middling(function, kind, numpys, reach, is_kept=is_kept)
    function.end_wrap("r13")
    function.end_of_two(getattr(kind, f"__{name}__"), getattr(kind, f"__r{name}__"))
    return code.assembled()


def compare(kind: type, before: int, numpys: int, reach: int) -> bytes:
    """Return the code of ``a < b`` and its kin."""
    function = Function(kind, before)
    function.begin()
    function.unless_type("rbx", kind, "general")
    _load_operand(function, "rbx", "r12", None, "middling")
    _load_other(function, kind, "rbp", "r12", "r14", None, "middling")
    _compute(function, numpys, "r12", "r14")
    _compute_middling(function, kind, numpys, reach)
    function.end_wrap("r13")
    function.end()
    return function.code.assembled()


def unary(kind: type, before: int, numpys: int) -> bytes:
    """Return the code of ``-a`` or ``abs(a)``."""
    function = Function(kind, before)
    function.begin()
    function.unless_type("rbx", kind, "general")
    _load_operand(function, "rbx", "r12", None)
    _compute(function, numpys, "r12")
    function.end_wrap("r13")
    function.end()
    return function.code.assembled()


def matrix_multiply(kind: type, before: int, numpys: int) -> bytes:
    """Return the code of ``a @ b``, of vectors and matrices of ours."""
    function = Function(kind, before)
    code = function.code
    function.begin()
    function.unless_type("rbx", kind, "general")
    function.unless_type("rbp", kind, "general")
    _load_operand(function, "rbx", "r12", None)
    _load_operand(function, "rbp", "r14", None)
    code.load_int("rax", "r12", ARRAY_NDIM)
    code.load_int("rdx", "r14", ARRAY_NDIM)
    for register in ("rax", "rdx"):
        code.compare_number(register, 2)
        code.jump("general", "g")
    code.compare("rax", "rdx")
    code.jump("compute", "ne")
    code.compare_number("rax", 2)
    code.jump("compute", "ne")
    code.load("rcx", "r12", ARRAY_SHAPE)
    code.load("rax", "rcx", 0)
    code.load("rcx", "r14", ARRAY_SHAPE)
    code.multiply("rax", "rcx", 8)
    code.set("rcx", ctypes.addressof(cells))
    code.compare_with("rcx", MOST, "rax")
    code.jump("general", "le")
    code.label("compute")
    _compute(function, numpys, "r12", "r14")
    function.end_wrap("r13")
    function.end_of_two(getattr(kind, "__matmul__"), getattr(kind, "__rmatmul__"))  # noqa: B009 - of any class
    return code.assembled()


def _load_two(function: Function, arrays: type) -> None:
    """Let `r12` and `r14` have both of a call's operands, arrays of ours or one and a number."""
    code = function.code
    code.load("r13", "rbp", TUPLE_ITEMS)
    function.unless_type("r13", arrays, "reflected")
    function.load_seen("r12", "r13", storage="r8")
    function.require_few("r13", "r12")
    code.load("r13", "rbp", TUPLE_ITEMS + 8)
    function.unless_type("r13", arrays, "number")
    function.load_seen("r14", "r13", storage="r8")
    function.require_few("r13", "r14")
    code.jump("compute")
    code.label("number")
    _load_number(function, "r13", "r12", "r14", is_kept=False)
    code.jump("compute")
    code.label("reflected")
    code.load("r13", "rbp", TUPLE_ITEMS + 8)
    function.unless_type("r13", arrays, "general")
    function.load_seen("r14", "r13", storage="r8")
    function.require_few("r13", "r14")
    code.load("r13", "rbp", TUPLE_ITEMS)
    _load_number(function, "r13", "r14", "r12", is_kept=False)


def call(kind: type, before: int, arrays: type) -> bytes:
    """Return the code of a call of a ufunc of ours, of class `kind`, with one or two operands."""
    function = Function(arrays, before)
    code = function.code
    arity, is_light, numpys, reach = (
        objects.offset(kind.__dict__[name]) for name in ("_arity", "_is_light", "_numpys", "_reach")
    )

    def require_light(array: str) -> None:
        function.multiply_extents(array)
        code.load("rcx", "rbx", reach)
        code.load_int("rcx", "rcx", INT_DIGIT)
        code.multiply_by("rax", "rcx")
        code.compare_number("rax", inlining.MOST_FEW * inlining.HEAVY)
        code.jump("general", "ge")

    function.begin()
    function.unless_type("rbx", kind, "general")
    code.compare_number("rdx", 0)  # keywords
    code.jump("general", "ne")
    code.load("rax", "rbp", SIZE)
    code.compare_number("rax", 1)
    code.jump("two", "ne")
    code.set("rcx", id(1))
    code.compare_with("rbx", arity, "rcx")
    code.jump("general", "ne")
    code.load("r13", "rbp", TUPLE_ITEMS)
    function.unless_type("r13", arrays, "general")
    function.load_seen("r12", "r13", storage="r8")
    function.require_few("r13", "r12")
    require_light("r12")
    code.set("r14", 0)
    code.jump("compute")
    code.label("two")
    code.compare_number("rax", 2)
    code.jump("general", "ne")
    code.set("rcx", id(2))
    code.compare_with("rbx", arity, "rcx")
    code.jump("general", "ne")
    code.set("rcx", id(True))
    code.compare_with("rbx", is_light, "rcx")
    code.jump("general", "ne")
    _load_two(function, arrays)
    code.label("compute")
    code.load("r13", "rbx", numpys)
    _call_ufunc(function, "r13", None)
    function.end()
    return code.assembled()


def array_ufunc(kind: type, method: Any) -> bytes:
    """Return the code of ``__array_ufunc__``, which NumPy calls for a number of its own beside an array of ours."""
    function = Function(kind, 0)
    code = function.code
    function.begin()
    code.compare_number("rdx", 0)
    code.jump("general", "ne")
    code.load("rax", "rbp", SIZE)
    code.compare_number("rax", 4)
    code.jump("general", "ne")
    code.load("rdi", "rbp", TUPLE_ITEMS + 8)
    code.set("rsi", ctypes.addressof(_CALL))
    code.call(objects.address("PyUnicode_CompareWithASCIIString"))
    code.store("rsp", 8, "rax")
    code.load_int("rax", "rsp", 8)
    code.compare_number("rax", 0)
    code.jump("general", "ne")
    function.unless_type("rbx", kind, "general")
    code.compare_with("rbp", TUPLE_ITEMS + 24, "rbx")
    code.jump("general", "ne")
    code.load("r12", "rbp", TUPLE_ITEMS + 16)
    code.load("rax", "r12", TYPE)
    for each in _NUMBERS:
        code.set("rcx", id(each))
        code.compare("rax", "rcx")
        code.jump("number", "e")
    code.jump("general")
    code.label("number")
    code.load("r13", "rbp", TUPLE_ITEMS)
    code.set("r15", id(OF_TWO))
    function.call("PyDict_GetItem", "r15", "r13")
    code.compare_number("rax", 0)
    code.jump("general", "e")
    code.load("rax", "rax", TUPLE_ITEMS)  # what an element costs at most
    code.load_int("rax", "rax", INT_DIGIT)
    code.compare_number("rax", inlining.HEAVY)
    code.jump("general", "g")
    function.load_seen("r14", "rbx", storage="r8")
    code.load("rax", "r14", ARRAY_DTYPE)
    for dtype in _MIDDLING:
        code.set("rcx", id(np.dtype(dtype)))
        code.compare("rax", "rcx")
        code.jump("known", "e")
    code.jump("general")
    code.label("known")
    function.require_few("rbx", "r14")
    _call_ufunc(function, "r13", 2)
    function.end_of_method(method)
    return code.assembled()


def _call_ufunc(function: Function, numpys: str, num_operands: int | None) -> None:
    """Call a ufunc of NumPy's with `r12` and `r14`, or only with the first as the tuple in `rbp` says; return ours."""
    code, is_made = function.code, function.new_label()
    function.unless_reported()
    code.store("rsp", 8, "r12")
    code.store("rsp", 16, "r14")
    function.keep("r12")
    function.keep("r14")
    code.move("rdi", numpys)
    code.move("rsi", "rsp")
    code.add("rsi", 8)
    if num_operands is None:
        code.load("rdx", "rbp", SIZE)
    else:
        code.set("rdx", num_operands)
    code.set("rcx", 0)
    code.call(objects.address("PyObject_Vectorcall"))
    code.move("r13", "rax")
    function.drop("r12")
    function.drop("r14")
    code.compare_number("r13", 0)
    code.jump(is_made, "ne")
    function.return_error()
    code.label(is_made)
    function.wrap("r13", "r12")
    function.end_wrap("r13")


def in_place(kind: type, before: int, numpys: int, *, is_kept: bool) -> bytes:
    """Return the code of an operator such as ``a += b``."""
    function = Function(kind, before)
    code = function.code
    function.begin()
    function.unless_type("rbx", kind, "general")
    _load_operand(function, "rbx", "r12", None)
    code.set("rcx", NONE)
    code.compare("r13", "rcx")
    code.jump("alone", "e")
    function.require_alone("r13")
    code.label("alone")
    function.require_writable("rbx")
    code.store("rsp", 8, "r13")  # which the other operand's takes the place of
    _load_other(function, kind, "rbp", "r12", "r14", None, is_kept=is_kept)
    code.load("r13", "rsp", 8)
    function.unless_reported()
    function.unless_smaller("r12", "long", MOST_WRITTEN + 1)
    function.keep("r12")
    function.keep("r14")
    function.call(numpys, "r12", "r14")
    code.store("rsp", 8, "rax")
    code.jump("written")
    code.label("long")  # other threads may run while NumPy computes
    function.provide_storage("rbx", "r12", "r13")
    function.require_alone("r13")
    function.begin_writing("r13")
    function.keep("r12")
    function.keep("r14")
    function.call(numpys, "r12", "r14")
    code.store("rsp", 8, "rax")
    function.end_writing("r13")
    code.label("written")
    function.drop("r14")
    code.load("r13", "rsp", 8)
    code.compare_number("r13", 0)
    code.jump("failed", "e")
    function.drop("r13")
    function.drop("r12")
    code.compare("r13", "r12")
    code.jump("general", "ne")
    function.keep("rbx")
    code.move("rax", "rbx")
    code.jump("return")
    code.label("failed")
    function.drop("r12")
    code.label("no storage")
    code.set("rax", 0)
    code.jump("return")
    function.end()
    return code.assembled()


__all__ = ["array_ufunc", "binary", "call", "compare", "in_place", "matrix_multiply", "unary"]

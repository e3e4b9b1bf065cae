"""Calls of ufuncs with small arrays on the host, in machine code: of ours, and of NumPy's with numbers of its own."""

from __future__ import annotations

import ctypes
from typing import Any

from oxinp._core.lazy import inlining
from oxinp._core.native import objects
from oxinp._core.native.function import Function
from oxinp._core.native.numbers import NUMBERS, load_number
from oxinp._core.native.objects import INT_DIGIT, SIZE, TUPLE_ITEMS, TYPE
from oxinp._core.native.operators import MIDDLING
from oxinp._core.ufunc.objects import OF_TWO

_CALL = ctypes.create_string_buffer(b"__call__")


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
    function.wrap("r13", "r12", is_marked=False)
    function.end_wrap("r13")


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
    function.if_one_of("rax", NUMBERS, "number")
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
    function.require_elements("r14", MIDDLING)
    function.require_small("rbx", "r14")
    _call_ufunc(function, "r13", 2)
    function.end_of_method(method)
    return code.assembled()


def _load_two(function: Function, arrays: type) -> None:
    """Let `r12` and `r14` have both of a call's operands, arrays of ours or one and a number."""
    code = function.code
    code.load("r13", "rbp", TUPLE_ITEMS)
    function.unless_type("r13", arrays, "reflected")
    function.load_seen("r12", "r13", storage="r8")
    function.require_small("r13", "r12")
    code.load("r13", "rbp", TUPLE_ITEMS + 8)
    function.unless_type("r13", arrays, "number")
    function.load_seen("r14", "r13", storage="r8")
    function.require_small("r13", "r14")
    function.require_small_together("r12", "r14")
    code.jump("compute")
    code.label("number")
    load_number(function, "r13", "r12", "r14", is_kept=False)
    code.jump("compute")
    code.label("reflected")
    code.load("r13", "rbp", TUPLE_ITEMS + 8)
    function.unless_type("r13", arrays, "general")
    function.load_seen("r14", "r13", storage="r8")
    function.require_small("r13", "r14")
    code.load("r13", "rbp", TUPLE_ITEMS)
    load_number(function, "r13", "r14", "r12", is_kept=False)


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
    function.unless_type("r13", arrays, "one number")
    function.load_seen("r12", "r13", storage="r8")
    function.require_small("r13", "r12")
    require_light("r12")
    code.set("r14", 0)
    code.jump("compute")
    code.label("one number")
    code.move("r12", "r13")
    code.set("r14", 0)
    code.load("rax", "r12", TYPE)
    function.if_one_of("rax", (float, *NUMBERS), "compute")
    code.jump("general")
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


__all__ = ["array_ufunc", "call"]

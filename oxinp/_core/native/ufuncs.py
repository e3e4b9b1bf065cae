"""Calls of ufuncs and of their methods with arrays on the host, in machine code.

They are ours, or NumPy's with numbers of its own.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np

from oxinp._core.lazy import inlining
from oxinp._core.native import elementwise, loops, objects
from oxinp._core.native.call import FLAGS, GIVEN, Call
from oxinp._core.native.function import MIDDLE, MIDDLING, MOST_LIGHT, MOST_WORK, NONE, WIDE, Function
from oxinp._core.native.numbers import NUMBERS, load_number
from oxinp._core.native.objects import BYTES_ITEMS, INT_DIGIT, SIZE, TUPLE_ITEMS, TYPE
from oxinp._core.reduction.table import BY_UFUNC, SCANS
from oxinp._core.ufunc.objects import OF_TWO
from oxinp._core.ufunc.table import UFUNCS

_CALL = ctypes.create_string_buffer(b"__call__")


_ROWS = {row.numpy: loops.rows(row.numpy) for row in UFUNCS}
"""NumPy's ufuncs -> what is known of their loops."""


def _compute(function: Function, *operands: str) -> None:
    """Return ours of what the ufunc of NumPy's that `r13` has makes of operands, by its loop or by a call of it."""
    code, is_made, is_numpys = function.code, function.new_label(), function.new_label()

    def load_rows() -> None:
        code.set("rdi", id(_ROWS))
        code.load("rsi", "rsp", 24)
        code.call(objects.address("PyDict_GetItem"))
        code.compare_number("rax", 0)
        code.jump(is_numpys, "e")
        code.move("r15", "rax")
        code.add("r15", BYTES_ITEMS)

    function.unless_reported()
    code.store("rsp", 24, "r13")
    elementwise.compute(function, load_rows, operands, is_numpys)
    code.jump(is_made)
    code.label(is_numpys)
    for place, each in enumerate(operands):
        code.store("rsp", 8 + 8 * place, each)
        function.keep(each)
    code.load("rdi", "rsp", 24)
    code.move("rsi", "rsp")
    code.add("rsi", 8)
    code.set("rdx", len(operands))
    code.set("rcx", 0)
    code.call(objects.address("PyObject_Vectorcall"))
    code.move("r13", "rax")
    for each in operands:
        function.drop(each)
    code.compare_number("r13", 0)
    code.jump(is_made, "ne")
    function.return_error()
    code.label(is_made)
    function.wrap("r13", "r12", is_few=False)


def array_ufunc(kind: type, method: Any) -> bytes:
    """Return the code of ``__array_ufunc__``, which NumPy calls for a number of its own beside an array of ours."""
    function = Function(kind, 0, loops.STACK)
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
    function.require_elements("r14", (*MIDDLING, WIDE))
    function.require_small("rbx", "r14")
    _compute(function, "r12", "r14")
    function.end_wrap("r13")
    function.end_of_method(method)
    return code.assembled()


def _load_two(function: Function, arrays: type) -> None:
    """Let `r12` and `r14` have a call's operands, arrays of ours or one and a number, and `rax` their count."""
    code = function.code
    code.load("r13", "rbp", TUPLE_ITEMS)
    function.unless_type("r13", arrays, "reflected")
    function.load_seen("r12", "r13", storage="r8")
    function.require_host("r13", "r12")
    code.load("r13", "rbp", TUPLE_ITEMS + 8)
    function.unless_type("r13", arrays, "number")
    function.load_seen("r14", "r13", storage="r8")
    function.require_host("r13", "r14")
    function.multiply_broadcast("r12", "r14")
    code.jump("counted")
    code.label("number")
    load_number(function, "r13", "r12", "r14", is_kept=False)
    function.multiply_extents("r12")
    code.jump("counted")
    code.label("reflected")
    code.load("r13", "rbp", TUPLE_ITEMS + 8)
    function.unless_type("r13", arrays, "general")
    function.load_seen("r14", "r13", storage="r8")
    function.require_host("r13", "r14")
    code.load("r13", "rbp", TUPLE_ITEMS)
    load_number(function, "r13", "r14", "r12", is_kept=False)
    function.multiply_extents("r14")
    code.label("counted")
    function.count_words("r12", "r14")


def call(kind: type, before: int, arrays: type) -> bytes:
    """Return the code of a call of a ufunc of ours, of class `kind`, with one or two operands."""
    function = Function(arrays, before, loops.STACK)
    code = function.code
    arity, numpys, reach = (objects.offset(kind.__dict__[name]) for name in ("_arity", "_numpys", "_reach"))

    def require_light() -> None:
        is_light = function.new_label()
        function.if_all_few(is_light)
        code.compare_number("rax", MOST_LIGHT)
        code.jump("general", "ge")
        code.load("rcx", "rbx", reach)
        code.load_int("rcx", "rcx", INT_DIGIT)
        code.multiply_by("rax", "rcx")
        code.compare_number("rax", MOST_WORK)
        code.jump("general", "ge")
        code.label(is_light)

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
    function.require_host("r13", "r12")
    function.multiply_extents("r12")
    function.count_words("r12")
    require_light()
    code.jump("compute one")
    code.label("one number")
    code.move("r12", "r13")
    code.load("rax", "r12", TYPE)
    function.if_one_of("rax", (float, *NUMBERS), "compute one")
    code.jump("general")
    code.label("compute one")
    code.load("r13", "rbx", numpys)
    _compute(function, "r12")
    code.label("two")
    code.compare_number("rax", 2)
    code.jump("general", "ne")
    code.set("rcx", id(2))
    code.compare_with("rbx", arity, "rcx")
    code.jump("general", "ne")
    _load_two(function, arrays)
    require_light()
    code.load("r13", "rbx", numpys)
    _compute(function, "r12", "r14")
    function.end_wrap("r13")
    function.end()
    return code.assembled()


def _load_numpys(called: Call, kind: type, *counts: int) -> None:
    """Let `r15` have NumPy's ufunc, of a method's call with so many arguments in all."""
    code = called.code
    called.begin_call(*counts)
    for count in counts:
        code.label(f"{count} arguments")
    code.load("rbx", "rbp", 0)
    called.unless_type("rbx", kind, "general")
    code.load("r15", "rbx", objects.offset(kind.__dict__["_numpys"]))


def _return_found(called: Call, method: object) -> None:
    """Return ours of what a method of NumPy's ufuncs makes of what lies on the stack, `r14` things."""
    code, is_made = called.code, called.new_label()
    called.unless_reported()
    for i in range(3):
        code.load("r12", "rsp", GIVEN + 8 * i)
        called.keep("r12")
    code.move("rdx", "r14")
    called.call_with_given(method)
    code.move("r13", "rax")
    for i in range(3):
        code.load("r12", "rsp", GIVEN + 8 * i)
        called.drop("r12")
    code.compare_number("r13", 0)
    code.jump(is_made, "ne")
    called.return_error()
    code.label(is_made)
    called.return_new("r13", "r12", is_few=False)


def along(kind: type, before: int | None, method: object, known: Iterable[np.ufunc], arrays: type) -> bytes:
    """Return the code of `reduce` or `accumulate`, of an array and an axis if one is given."""
    called = Call(arrays, before)
    code = called.code
    _load_numpys(called, kind, 2, 3)
    called.if_one_of("r15", known, "known")
    code.jump("general")
    code.label("known")
    code.store("rsp", GIVEN, "r15")
    called.load_array(1, "rbx", "r12", is_small=False)
    code.store("rsp", GIVEN + 8, "r12")
    called.multiply_extents("r12")
    code.compare_number("rax", 0)
    code.jump("general", "e")
    code.set("r14", 2)
    code.set("rax", NONE)
    code.store("rsp", GIVEN + 16, "rax")
    code.load("rdx", "rsp", FLAGS)
    code.add_register("rdx", "rdx")
    code.compare_number("rdx", 4)
    code.jump("given", "e")
    code.load("r12", "rbp", 16)
    called.unless_type("r12", int, "general")
    code.store("rsp", GIVEN + 16, "r12")
    code.set("r14", 3)
    code.label("given")
    _return_found(called, method)
    return code.assembled()


def outer(kind: type, before: int | None, arrays: type) -> bytes:
    """Return the code of `outer` of two arrays, by a ufunc that is not heavy."""
    called = Call(arrays, before)
    code = called.code
    _load_numpys(called, kind, 3)
    code.load("rcx", "rbx", objects.offset(kind.__dict__["_reach"]))
    code.load_int("rcx", "rcx", INT_DIGIT)
    code.compare_number("rcx", inlining.HEAVY)
    code.jump("general", "g")
    code.set("rcx", id(2))
    code.compare_with("rbx", objects.offset(kind.__dict__["_arity"]), "rcx")
    code.jump("general", "ne")
    code.store("rsp", GIVEN, "r15")
    for place, seen in ((1, "r12"), (2, "r14")):
        called.load_array(place, "rbx", seen, is_small=False)
        code.store("rsp", GIVEN + 8 * place, seen)
    called.multiply_extents("r14")
    code.move("r8", "rax")
    called.multiply_extents("r12")
    code.multiply_by("rax", "r8")
    code.compare_number("rax", 0)
    code.jump("general", "e")
    called.count_words("r12", "r14")
    called.require_below(MIDDLE, "rax")
    code.set("r14", 3)
    _return_found(called, np.ufunc.outer)
    return code.assembled()


def methods(arrays: type) -> dict[str, Callable[..., bytes]]:
    """Return what makes the code of the methods of ufuncs, by name."""
    made: dict[str, Callable[..., bytes]] = {"outer": partial(outer, arrays=arrays)}
    for name, table in (("reduce", BY_UFUNC), ("accumulate", SCANS)):
        known = [getattr(np, each) for each in table if hasattr(np, each)]
        made[name] = partial(along, method=getattr(np.ufunc, name), known=known, arrays=arrays)
    return made


__all__ = ["array_ufunc", "call", "methods"]

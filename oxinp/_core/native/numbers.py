"""Numbers beside arrays, as functions in machine code pass them on to NumPy."""

from __future__ import annotations

import numpy as np

from oxinp._core.lazy import inlining
from oxinp._core.native import objects
from oxinp._core.native.assembler import Assembler
from oxinp._core.native.function import FLOAT64, Function
from oxinp._core.native.objects import ARRAY_DTYPE, SIZE, TYPE

NUMBERS = (np.float64, np.int64, np.float32, np.int32, np.complex128, np.int8, np.uint8, np.bool_)
"""Types of numbers that stand next to arrays as they are."""


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


def load_number(function: Function, number: str, array: str, target: str, *, is_kept: bool = True) -> None:
    """Let a register have a number as it stands next to an array of NumPy's: as an array of one element if it is kept.

    NumPy takes half the time for that, where it means the same: `is_kept` says so.
    """
    code = function.code
    is_plain, is_integer, is_missing, found, done = (function.new_label() for _ in range(5))
    code.load("rax", number, TYPE)
    function.if_one_of("rax", (*NUMBERS, complex), is_plain)
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


def beside_array(kind: type, before: int, name: str) -> bytes:
    """Return the code of an operator of NumPy's numbers, which asks the array beside one at once, by its slot's name.

    NumPy would try to make its own array of that, find that it answers for itself, and ask it by ``__array_ufunc__``.
    """
    code = Assembler()
    code.set("rcx", id(kind))
    code.compare_with("rsi", TYPE, "rcx")
    code.jump("NumPy's", "ne")
    code.set("rax", objects.place(kind, name))
    code.load("rax", "rax")
    code.go_to_register("rax")
    code.label("NumPy's")
    code.go_to(before)
    return code.assembled()


__all__ = ["NUMBERS", "beside_array", "load_number"]

"""Functions that make arrays on the host, of a shape, of a range, of a list of numbers, in machine code."""

from __future__ import annotations

import ctypes
import sys
from typing import Any

import numpy as np

from oxinp._core.host.makers import EYES, MOST_ROWS
from oxinp._core.native import objects
from oxinp._core.native.call import FLAGS, GIVEN, REALS, Call
from oxinp._core.native.function import MIDDLE, MOST, cells
from oxinp._core.native.objects import (
    ARRAY_NDIM,
    LIST_ITEMS,
    NUMBER_VALUE,
    SIZE,
    TUPLE_ITEMS,
    TYPE,
)

_DTYPE = sys.intern("dtype")
_DTYPES: dict[type, np.dtype[Any]] = {each: np.dtype(each) for each in (float, bool, int, np.float64, np.int64)}
"""Types of numbers, and the dtypes of arrays that are full of one."""
ONE = 1.0
_MOST_LISTED = 64
_LISTED = float, int, np.float64, np.int64
_MOST_EXTENT = 1 << 20


def load_extent(call: Call, item: str, label: str) -> None:
    """Let `rax` have an integer of Python's that may be an extent of a small array; go to a label with any other."""
    code = call.code
    call.unless_type(item, int, label)
    code.move("rdi", item)
    code.move("rsi", "rsp")
    code.add("rsi", GIVEN)
    code.call(objects.address("PyLong_AsLongAndOverflow"))
    code.compare_number("rax", 0)  # what is too large is -1
    code.jump("general", "l")
    code.compare_number("rax", _MOST_EXTENT)
    code.jump("general", "g")


def _require_small_shape(call: Call) -> None:
    """Go to the general function unless the first argument is a shape of an array below the threshold."""
    code = call.code
    code.load("r14", "rbp", 0)
    code.set("r13", 1)
    load_extent(call, "r14", "of a tuple")
    code.move("r13", "rax")
    code.jump("counted")
    code.label("of a tuple")
    call.unless_type("r14", tuple, "general")
    code.load("r12", "r14", SIZE)
    code.label("next extent")
    code.add("r12", -1)
    code.jump("counted", "s")
    code.load("r15", "r14", TUPLE_ITEMS)
    code.add("r14", 8)
    load_extent(call, "r15", "general")
    code.multiply_by("r13", "rax")
    code.compare_number("r13", _MOST_EXTENT)
    code.jump("general", "g")
    code.jump("next extent")
    code.label("counted")
    call.require_below(MIDDLE, "r13")


def of_shape(kind: type, before: int | None, function: object) -> bytes:
    """Return the code of `zeros`, `ones` or `empty`, of a shape and a dtype if one is given."""
    call = Call(kind, before)
    code = call.code
    call.begin_call(1, 2, keywords="by keyword")
    code.label("by keyword")
    code.compare_number("rdx", 2)
    code.jump("general", "ne")
    code.compare_number_with("rcx", SIZE, 1)
    code.jump("general", "ne")
    code.load("rcx", "rcx", TUPLE_ITEMS)
    call.if_one_of("rcx", (_DTYPE,), "2 arguments")
    code.jump("general")
    code.label("2 arguments")
    code.load("r14", "rbp", 8)
    call.require_dtype("r14")
    code.label("1 arguments")
    _require_small_shape(call)
    call.unless_reported()
    call.call_as_given(function, "r13")
    call.return_new("r13", "r12", is_few=False)
    return code.assembled()


def _load_filling(call: Call) -> None:
    """Let `r14` have the second argument, a number, and `r15` the dtype of an array that is full of it."""
    code, is_known = call.code, call.new_label()
    code.load("r14", "rbp", 8)
    code.load("rax", "r14", TYPE)
    for number, dtype in _DTYPES.items():
        is_other = call.new_label()
        code.set("rcx", id(number))
        code.compare("rax", "rcx")
        code.jump(is_other, "ne")
        code.set("r15", id(dtype))
        code.jump("integer" if number is int else is_known)
        code.label(is_other)
    code.jump("general")
    code.label("integer")
    code.move("rdi", "r14")
    code.move("rsi", "rsp")
    code.add("rsi", GIVEN)
    code.call(objects.address("PyLong_AsLongAndOverflow"))
    code.load_int("rax", "rsp", GIVEN)
    code.compare_number("rax", 0)
    code.jump("general", "ne")
    code.label(is_known)


def filled(kind: type, before: int | None, *, value: float | None = None) -> bytes:
    """Return the code of `full` of a shape and a number, or, with a value, of a function of a shape alone."""
    call = Call(kind, before)
    code, count = call.code, 2 if value is None else 1
    call.begin_call(count)
    code.label(f"{count} arguments")
    _require_small_shape(call)
    call.unless_reported()
    if value is None:
        _load_filling(call)
    else:
        code.set("r14", id(value))
        code.set("r15", id(_DTYPES[type(value)]))
    code.load("r12", "rbp", 0)
    call.call_numpys(np.empty, "r12", "r15", result="r13")
    call.call_numpys(np.ndarray.fill, "r13", "r14", result="r15")
    call.drop("r15")
    call.return_new("r13", "r12", is_few=False)
    return code.assembled()


def _place_number(call: Call, place: int, at: int) -> None:
    """Let the stack have an argument as a float of 64 bits; go to the general function with what is no small number."""
    code, is_float, is_placed = call.code, call.new_label(), call.new_label()
    code.load("r14", "rbp", 8 * place)
    code.load("rax", "r14", TYPE)
    call.if_one_of("rax", (float, np.float64), is_float)
    call.unless_type("r14", int, "general")
    code.move("rdi", "r14")
    code.move("rsi", "rsp")
    code.add("rsi", GIVEN)
    code.call(objects.address("PyLong_AsLongAndOverflow"))
    code.store_float("rsp", at, "rax")
    code.load_int("rax", "rsp", GIVEN)
    code.compare_number("rax", 0)
    code.jump("general", "ne")
    code.jump(is_placed)
    code.label(is_float)
    code.move_float("rsp", at, "r14", NUMBER_VALUE)
    code.label(is_placed)


def ranged(kind: type, before: int | None) -> bytes:
    """Return the code of `arange` of one to three numbers, and a dtype if one is given by its name."""
    call = Call(kind, before)
    code = call.code
    start, stop, step = (GIVEN + 8 * i for i in (1, 2, 3))
    call.begin_arguments()
    code.compare_number("rcx", 0)
    code.jump("counted", "e")
    code.compare_number_with("rcx", SIZE, 1)
    code.jump("general", "ne")
    code.load("rcx", "rcx", TUPLE_ITEMS)
    call.if_one_of("rcx", (_DTYPE,), "of a dtype")
    code.jump("general")
    code.label("of a dtype")
    code.move("r14", "rdx")
    code.add_register("r14", "r14")
    code.add_register("r14", "r14")
    code.add_register("r14", "rbp")
    code.load("r14", "r14")
    call.require_dtype("r14")
    code.load("rdx", "rsp", FLAGS)
    code.add_register("rdx", "rdx")
    code.label("counted")
    for count in (1, 2, 3):
        code.compare_number("rdx", 2 * count)
        code.jump(f"{count} arguments", "e")
    code.jump("general")
    code.label("1 arguments")
    code.set("rax", 0)
    code.store_float("rsp", start, "rax")
    code.set("rax", 1)
    code.store_float("rsp", step, "rax")
    _place_number(call, 0, stop)
    code.jump("placed")
    code.label("3 arguments")
    _place_number(call, 2, step)
    code.jump("from start to stop")
    code.label("2 arguments")
    code.set("rax", 1)
    code.store_float("rsp", step, "rax")
    code.label("from start to stop")
    _place_number(call, 0, start)
    _place_number(call, 1, stop)
    code.label("placed")
    code.count_steps("rax", "rsp", start, stop, step)
    code.compare_number("rax", 0)
    code.jump("general", "l")
    call.require_below(MIDDLE, "rax")
    call.unless_reported()
    call.call_as_given(np.arange, "r13")
    call.return_new("r13", "r12", is_few=False)
    return code.assembled()


def _load_items(call: Call, listed: str, items: str, count: str, label: str) -> None:
    """Let registers have where the items of a short list or tuple are, and how many; go to a label with anything else.

    None are too many, too.
    """
    code, is_tuple, is_loaded = call.code, call.new_label(), call.new_label()
    code.load("rax", listed, TYPE)
    call.if_one_of("rax", (tuple,), is_tuple)
    call.unless_type(listed, list, label)
    code.load(items, listed, LIST_ITEMS)
    code.jump(is_loaded)
    code.label(is_tuple)
    code.move(items, listed)
    code.add(items, TUPLE_ITEMS)
    code.label(is_loaded)
    code.load(count, listed, SIZE)
    code.compare_number(count, 0)
    code.jump("general", "e")
    code.compare_number(count, _MOST_LISTED)
    code.jump("general", "g")


def of_list(kind: type, before: int | None, function: object) -> bytes:
    """Return the code of `array` of a list or tuple of numbers, or of such, and a dtype if one is given."""
    call = Call(kind, before)
    code, next_number = call.code, call.new_label()
    call.begin_call(1, 2, keywords="keywords")
    call.require_keyword(_DTYPE, 2)
    code.label("2 arguments")
    code.load("r14", "rbp", 8)
    call.require_dtype("r14")
    code.label("1 arguments")
    code.load("r14", "rbp", 0)
    _load_items(call, "r14", "r13", "r12", "general")
    code.label("next item")
    code.add("r12", -1)
    code.jump("listed", "s")
    code.load("r9", "r13")
    code.add("r13", 8)
    code.load("rax", "r9", TYPE)
    call.if_one_of("rax", _LISTED, "next item")
    _load_items(call, "r9", "r10", "r8", "general")
    code.label(next_number)
    code.add("r8", -1)
    code.jump("next item", "s")
    code.load("rax", "r10")
    code.add("r10", 8)
    code.load("rax", "rax", TYPE)
    call.if_one_of("rax", _LISTED, next_number)
    code.jump("general")
    code.label("listed")
    code.set("rcx", ctypes.addressof(cells))
    code.compare_number_with("rcx", MOST, _MOST_LISTED)
    code.jump("general", "le")
    call.unless_reported()
    call.call_as_given(function, "r13")
    call.require_elements("r13", (*REALS, np.complex128, np.complex64), "too large")
    code.load_int("rax", "r13", ARRAY_NDIM)
    code.compare_number("rax", 1)
    code.jump("rows", "ne")
    call.wrap("r13", "r12")
    code.label("rows")  # which may broadcast
    call.return_new("r13", "r12", is_few=False)
    return code.assembled()


def of_number(kind: type, before: int | None) -> bytes:
    """Return the code of `array` of a number of Python's."""
    call = Call(kind, before)
    code = call.code
    call.begin_call(1)
    code.label("1 arguments")
    code.load("r14", "rbp", 0)
    code.load("rax", "r14", TYPE)
    call.if_one_of("rax", (float, int, bool, complex), "number")
    code.jump("general")
    code.label("number")
    code.set("r13", 1)
    call.require_below(MIDDLE, "r13")
    call.unless_reported()
    call.call_as_given(np.array, "r13")
    call.require_elements("r13", (np.float64, np.int64, np.bool_, np.complex128), "too large")
    call.return_new("r13", "r12", is_few=False)
    return code.assembled()


def repeated(kind: type, before: int | None) -> bytes:
    """Return the code of `repeat` of all elements of an array, each so many times."""
    call = Call(kind, before)
    code = call.code
    call.begin_call(2)
    code.label("2 arguments")
    call.load_light(0, "rbx", "r12")
    code.load("r14", "rbp", 8)
    load_extent(call, "r14", "general")
    code.move("r15", "rax")
    call.multiply_extents("r12")
    code.multiply_by("rax", "r15")
    code.move("r15", "rax")
    call.require_below(MIDDLE, "r15")
    call.unless_reported()
    call.call_numpys(np.ndarray.repeat, "r12", "r14", result="r13")
    call.return_new("r13", "r12", is_few=False)
    return code.assembled()


def diagonal_ones(kind: type, before: int | None) -> bytes:
    """Return the code of `eye` of a few rows, which are copied from those that were asked for before."""
    call = Call(kind, before)
    code = call.code
    call.begin_call(1)
    code.label("1 arguments")
    code.load("r14", "rbp", 0)
    call.unless_type("r14", int, "general")
    code.set("rcx", ctypes.addressof(cells))
    code.compare_number_with("rcx", MOST, MOST_ROWS * MOST_ROWS)
    code.jump("general", "le")
    call.unless_reported()
    code.set("rdi", id(EYES))
    code.move("rsi", "r14")
    code.call(objects.address("PyDict_GetItem"))
    code.move("r14", "rax")
    code.compare_number("r14", 0)
    code.jump("general", "e")
    call.call_numpys(np.ndarray.copy, "r14", result="r13")
    call.return_new("r13", "r12", is_few=False)
    return code.assembled()


__all__ = ["ONE", "diagonal_ones", "filled", "load_extent", "of_list", "of_number", "of_shape", "ranged", "repeated"]

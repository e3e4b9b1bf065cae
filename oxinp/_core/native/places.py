"""Where single elements of arrays on the host lie: they are read and written in machine code, in place of NumPy."""

from __future__ import annotations

import numpy as np

from oxinp._core.native import loops, objects
from oxinp._core.native.function import FLOAT64, Function
from oxinp._core.native.objects import (
    ARRAY_DATA,
    ARRAY_DTYPE,
    ARRAY_FLAGS,
    ARRAY_NDIM,
    ARRAY_SHAPE,
    ARRAY_STRIDES,
    INT_DIGIT,
    INT_TAG,
    NEGATIVE,
    NUMBER_VALUE,
    POSITIVE,
    SIZE,
    TUPLE_ITEMS,
    TYPE,
    ZERO,
)

_INT64, _BOOL = np.dtype(np.int64), np.dtype(np.bool_)


def load_small(function: Function, target: str, integer: str, label: str) -> None:
    """Let a register have the value of an integer of one digit; go to a label for others."""
    code, is_positive, is_zero, loaded = function.code, *(function.new_label() for _ in range(3))
    code.load_int(target, integer, INT_DIGIT)
    code.load("rax", integer, INT_TAG)
    code.compare_number("rax", POSITIVE)
    code.jump(is_positive, "e")
    code.compare_number("rax", ZERO)
    code.jump(is_zero, "e")
    code.compare_number("rax", NEGATIVE)
    code.jump(label, "ne")
    code.negate(target)
    code.jump(loaded)
    code.label(is_zero)
    code.set(target, 0)
    code.label(loaded)
    code.label(is_positive)


def _add_axis(function: Function, integer: str, label: str) -> None:
    """Add to `r8` how far an index leads along the axis whose extent and stride lie where `r9` and `r10` say."""
    code, is_from_start, is_numpys, is_loaded = function.code, *(function.new_label() for _ in range(3))
    function.unless_type(integer, int, is_numpys)
    load_small(function, "rdi", integer, label)
    code.jump(is_loaded)
    code.label(is_numpys)
    code.load("rdi", integer, NUMBER_VALUE)
    code.label(is_loaded)
    code.compare_number("rdi", 0)
    code.jump(is_from_start, "ge")
    code.add_from("rdi", "r9", 0)
    code.compare_number("rdi", 0)
    code.jump(label, "l")
    code.label(is_from_start)
    code.compare_with("r9", 0, "rdi")
    code.jump(label, "le")
    code.multiply("rdi", "r10", 0)
    code.add_register("r8", "rdi")


def load_address(function: Function, label: str) -> None:
    """Let `r8` have where the element of the array in `r12` lies that the key in `rbp` is of; go to a label for others.

    The key is an integer, of a vector, or a tuple of nothing but integers and slices; NumPy's integers have 64 bits.
    """
    code, is_integer, next_axis, done = function.code, *(function.new_label() for _ in range(3))
    code.load("r8", "r12", ARRAY_DATA)
    code.load("r9", "r12", ARRAY_SHAPE)
    code.load("r10", "r12", ARRAY_STRIDES)
    code.load("rax", "rbp", TYPE)
    function.if_one_of("rax", (int, np.int64), is_integer)
    code.load_int("rdx", "r12", ARRAY_NDIM)
    code.compare_with("rbp", SIZE, "rdx")
    code.jump(label, "ne")
    code.move("r11", "rbp")
    code.add("r11", TUPLE_ITEMS)
    code.label(next_axis)
    code.load("rsi", "r11")
    _add_axis(function, "rsi", label)
    for each in ("r9", "r10", "r11"):
        code.add(each, 8)
    code.add("rdx", -1)
    code.jump(next_axis, "ne")
    code.jump(done)
    code.label(is_integer)
    _add_axis(function, "rbp", label)
    code.label(done)


def return_element(function: Function, label: str) -> None:
    """Return the element that a key in `rbp` is of, as NumPy's own code does once it knows where that lies."""
    code = function.code
    if not loops.ARE_KNOWN:
        code.jump(label)
    load_address(function, label)
    code.move("rdi", "r8")
    code.load("rsi", "r12", ARRAY_DTYPE)
    code.move("rdx", "r12")
    code.call(objects.numpys_address("PyArray_Scalar"))
    code.jump("return")


def write_element(function: Function, label: str) -> None:
    """Write a number in `r14` to the element that a key in `rbp` is of, and return; go to a label for other dtypes."""
    code, is_integer, is_truth, is_float, is_told = function.code, *(function.new_label() for _ in range(4))
    if not loops.ARE_KNOWN:
        code.jump(label)
    code.load_int("rax", "r12", ARRAY_FLAGS)
    code.and_number("rax", loops.WRITEABLE | loops.ALIGNED)
    code.compare_number("rax", loops.WRITEABLE | loops.ALIGNED)
    code.jump(label, "ne")
    load_address(function, label)
    code.load("rax", "r12", ARRAY_DTYPE)
    function.if_one_of("rax", (_INT64,), is_integer)
    function.if_one_of("rax", (_BOOL,), is_truth)
    code.set("rdx", id(FLOAT64))
    code.compare("rax", "rdx")
    code.jump(label, "ne")
    code.load("rax", "r14", TYPE)
    function.if_one_of("rax", (float, np.float64), is_float)
    function.unless_type("r14", int, label)
    load_small(function, "rdi", "r14", label)
    code.store_float("r8", 0, "rdi")
    _return_nothing(function)
    code.label(is_float)  # 8 bytes as they are
    code.load("rax", "r14", NUMBER_VALUE)
    code.store("r8", 0, "rax")
    _return_nothing(function)
    code.label(is_integer)
    code.load("rax", "r14", TYPE)
    function.if_one_of("rax", (np.int64,), is_float)
    function.unless_type("r14", int, label)
    load_small(function, "rdi", "r14", label)
    code.store("r8", 0, "rdi")
    _return_nothing(function)
    code.label(is_truth)
    for value, truths in ((1, (True, np.True_)), (0, (False, np.False_))):
        code.set("rdi", value)
        function.if_one_of("r14", truths, is_told)
    code.jump(label)
    code.label(is_told)
    code.store_byte("r8", 0, "rdi")
    _return_nothing(function)


def _return_nothing(function: Function) -> None:
    function.code.set("rax", 0)
    function.code.jump("return")


__all__ = ["load_address", "load_small", "return_element", "write_element"]

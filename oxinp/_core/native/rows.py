"""NumPy's loops over the rows of matrices that are parts of others, or that broadcast, called by machine code.

NumPy goes through the rows in the same order where every operand's rows lie further apart than its columns: its results
lie one row after the other then.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import numpy as np

from oxinp._core.native import loops
from oxinp._core.native.function import Function
from oxinp._core.native.loops import COUNT, POINTERS, STATUS, STEPS, STRIDES, TIMES
from oxinp._core.native.objects import ARRAY_DATA, ARRAY_DTYPE, ARRAY_NDIM, ARRAY_SHAPE, ARRAY_STRIDES


def _find_largest(function: Function, load_rows: Callable[[], None], operands: tuple[str, ...], label: str) -> None:
    """Let `r15` have the row of the loop, and `r13` the matrix whose shape the results have."""
    code, is_first, is_second, found = function.code, *(function.new_label() for _ in range(3))
    first, second = operands[0], operands[-1]
    load_rows()
    if first != second:
        function.unless_type(first, np.ndarray, is_second)
        function.unless_type(second, np.ndarray, is_first)
        code.load("rax", first, ARRAY_DTYPE)
        code.compare_with(second, ARRAY_DTYPE, "rax")
        code.jump(label, "ne")
        code.load_int("rax", first, ARRAY_NDIM)
        code.compare_number("rax", 2)
        code.jump(is_second, "ne")
        code.load("rdx", first, ARRAY_SHAPE)
        for axis in range(2):
            code.compare_number_with("rdx", 8 * axis, 1)
            code.jump(is_second, "e")
    code.label(is_first)
    function.unless_type(first, np.ndarray, label)
    code.move("r13", first)
    code.jump(found)
    code.label(is_second)
    function.unless_type(second, np.ndarray, label)
    code.move("r13", second)
    code.label(found)
    loops.find_row(function, "r13", label)
    code.compare_number_with("r15", loops.IS_IN_ROWS, 0)
    code.jump(label, "e")


def _count(function: Function, label: str) -> None:
    """Let the stack have how many rows and columns the matrix in `r13` has; few are for NumPy."""
    code = function.code
    code.load_int("rax", "r13", ARRAY_NDIM)
    code.compare_number("rax", 2)
    code.jump(label, "ne")
    function.multiply_extents("r13")
    code.compare_number("rax", loops.MOST)
    code.jump(label, "g")
    code.load("rdx", "r13", ARRAY_SHAPE)
    code.load("rsi", "r13", ARRAY_STRIDES)
    for axis, place in enumerate((TIMES, COUNT)):
        code.load("rax", "rdx", 8 * axis)
        code.compare_number("rax", 2)
        code.jump(label, "l")
        code.store("rsp", place, "rax")
        code.compare_number_with("rsi", 8 * axis, 0)
        code.jump(label, "le")


def _place_array(function: Function, place: int, array: str, label: str) -> None:
    """Let the stack have where an array's elements lie, and how far its rows and columns are apart: 0 if it has one."""
    code, is_matrix, placed, is_flat = function.code, *(function.new_label() for _ in range(3))
    loops.require_aligned(function, array, label)
    code.load("rdx", array, ARRAY_SHAPE)
    code.load("rsi", array, ARRAY_STRIDES)
    code.load("r8", "r13", ARRAY_SHAPE)
    code.load_int("rax", array, ARRAY_NDIM)
    code.compare_number("rax", 2)
    code.jump(is_matrix, "e")
    code.compare_number("rax", 1)
    code.jump(label, "ne")
    code.set("r10", 0)
    code.load("r11", "rsi")
    code.load("rcx", "rdx")
    code.compare_with("r8", 8, "rcx")
    code.jump(label, "ne")
    code.jump(placed)
    code.label(is_matrix)
    for axis, stride in enumerate(("r10", "r11")):
        is_whole = function.new_label()
        code.load("rcx", "rdx", 8 * axis)
        code.load(stride, "rsi", 8 * axis)
        code.compare_with("r8", 8 * axis, "rcx")
        code.jump(is_whole, "e")
        code.compare_number("rcx", 1)
        code.jump(label, "ne")
        code.set(stride, 0)
        code.label(is_whole)
    code.label(placed)
    for stride in ("r10", "r11"):
        code.compare_number(stride, 0)
        code.jump(label, "l")
    code.compare_number("r10", 0)
    code.jump(is_flat, "e")
    code.compare("r10", "r11")
    code.jump(label, "le")
    code.label(is_flat)
    code.store("rsp", STEPS + 8 * place, "r10")
    code.store("rsp", STRIDES + 8 * place, "r11")
    code.load("rax", array, ARRAY_DATA)
    code.store("rsp", POINTERS + 8 * place, "rax")


def _place_operands(function: Function, operands: tuple[str, ...], label: str) -> None:
    code = function.code
    for place, each in enumerate(operands):
        is_number, placed = function.new_label(), function.new_label()
        function.unless_type(each, np.ndarray, is_number)
        _place_array(function, place, each, label)
        code.jump(placed)
        code.label(is_number)
        loops.place_number(function, place, each, label)
        code.set("rax", 0)
        code.store("rsp", STEPS + 8 * place, "rax")
        code.label(placed)


def _place_results(function: Function, place: int) -> None:
    """Let results lie one row after the other where `rax` says."""
    code = function.code
    code.store("rsp", POINTERS + 8 * place, "rax")
    code.load("rax", "r15", loops.OUTPUT_NBYTES)
    code.store("rsp", STRIDES + 8 * place, "rax")
    code.multiply("rax", "rsp", COUNT)
    code.store("rsp", STEPS + 8 * place, "rax")


def _run(function: Function, num_operands: int, flagged: str) -> None:
    """Call the loop for each row; go to a label where NumPy might warn."""
    code, again = function.code, function.new_label()
    loops.clear_flags(function, STATUS)
    code.label(again)
    loops.call_unchecked(function, POINTERS, COUNT, STRIDES)
    for place in range(num_operands + 1):
        code.load("rax", "rsp", POINTERS + 8 * place)
        code.add_from("rax", "rsp", STEPS + 8 * place)
        code.store("rsp", POINTERS + 8 * place, "rax")
    code.decrement("rsp", TIMES)
    code.jump(again, "ne")
    loops.unless_flagged(function, STATUS, flagged)


def compute(function: Function, load_rows: Callable[[], None], operands: tuple[str, ...], label: str) -> None:
    """Let `r13` have a new array of NumPy's of what a loop makes of operands; go to a label if that needs more."""
    code, flagged, done = function.code, function.new_label(), function.new_label()
    _find_largest(function, load_rows, operands, label)
    _count(function, label)
    _place_operands(function, operands, label)
    code.set("rdx", 2)
    code.load("rcx", "r13", ARRAY_SHAPE)
    loops.make_array(function)
    code.load("rax", "r13", ARRAY_DATA)
    _place_results(function, len(operands))
    _run(function, len(operands), flagged)
    code.jump(done)
    code.label(flagged)
    function.drop("r13")
    code.jump(label)
    code.label(done)


def compute_into(function: Function, load_rows: Callable[[], None], operands: tuple[str, ...], label: str) -> None:
    """Write what a loop makes of operands to the first, a matrix; go to a label if that needs more.

    Nothing has been written then.
    """
    code, again = function.code, function.new_label()
    target = operands[0]
    _find_largest(function, load_rows, operands, label)
    code.compare("r13", target)
    code.jump(label, "ne")
    code.load("rax", "r15", loops.INPUT)
    code.compare_with("r15", loops.OUTPUT, "rax")
    code.jump(label, "ne")
    _count(function, label)
    code.load("rax", "rsp", TIMES)
    code.multiply("rax", "rsp", COUNT)
    code.compare_number("rax", loops.MOST_IN_PLACE)
    code.jump(label, "g")
    _place_operands(function, operands, label)
    code.load("rax", "rsp", STRIDES)
    code.compare_with("r15", loops.OUTPUT_NBYTES, "rax")
    code.jump(label, "ne")
    code.set("rax", ctypes.addressof(loops.results))
    _place_results(function, len(operands))
    _run(function, len(operands), label)
    # The first's pointer is behind its last row now, and so is the results'.
    code.load("rdx", target, ARRAY_SHAPE)
    code.load("rax", "rdx")
    code.store("rsp", TIMES, "rax")
    code.label(again)
    for place in (0, len(operands)):
        code.load("rax", "rsp", POINTERS + 8 * place)
        code.subtract_from("rax", "rsp", STEPS + 8 * place)
        code.store("rsp", POINTERS + 8 * place, "rax")
    code.load("rdi", "rsp", POINTERS)
    code.load("rsi", "rsp", POINTERS + 8 * len(operands))
    code.load("rdx", "rsp", STEPS + 8 * len(operands))
    code.call(loops.MEMMOVE)
    code.decrement("rsp", TIMES)
    code.jump(again, "ne")


__all__ = ["compute", "compute_into"]

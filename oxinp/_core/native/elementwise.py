"""Loops of NumPy's over all elements at once, called by machine code: of arrays of one shape, and of numbers.

The elements of each operand are as far apart as its stride says throughout: vectors, and arrays without gaps. Matrices
with gaps and such as broadcast are left to `rows`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import numpy as np

from oxinp._core.native import loops, rows
from oxinp._core.native.function import FLOAT64, Function
from oxinp._core.native.objects import (
    ARRAY_DATA,
    ARRAY_DTYPE,
    ARRAY_FLAGS,
    ARRAY_NDIM,
    ARRAY_SHAPE,
    ARRAY_STRIDES,
    TYPE,
)


class _LoopCall:
    """A call of a loop in a function under construction, of one array, of two, or of one and a number.

    Parameters
    ----------
    function : Function
        Which has `STACK` bytes of the stack.
    operands : tuple of str
        Registers, which calls leave alone, with arrays or numbers of NumPy's or Python's.
    label : str
        Where to go if a loop alone does not do it; then nothing has happened.
    """

    def __init__(self, function: Function, operands: tuple[str, ...], label: str) -> None:
        self.function = function
        self.code = function.code
        self.operands = operands
        self.label = label

    def find(self, load_rows: Callable[[], None]) -> None:
        """Let `r15` have the row of the loop, `r13` an array of the results' shape, and the stack the operands."""
        function, code = self.function, self.code
        first = self.operands[0]
        load_rows()
        if len(self.operands) == 1:
            function.unless_type(first, np.ndarray, self.label)
            self._find_row(first)
            self._place_array(0, first)
            return
        second = self.operands[1]
        first_is_number, second_is_number, placed = (function.new_label() for _ in range(3))
        function.unless_type(first, np.ndarray, first_is_number)
        self._find_row(first)
        function.unless_type(second, np.ndarray, second_is_number)
        code.load("rax", first, ARRAY_DTYPE)
        code.compare_with(second, ARRAY_DTYPE, "rax")
        code.jump(self.label, "ne")
        self._require_same_shape(first, second)
        self._place_array(0, first)
        self._place_array(1, second)
        code.jump(placed)
        code.label(second_is_number)
        self._place_array(0, first)
        loops.place_number(function, 1, second, self.label)
        code.jump(placed)
        code.label(first_is_number)
        function.unless_type(second, np.ndarray, self.label)
        self._find_row(second)
        self._place_array(1, second)
        loops.place_number(function, 0, first, self.label)
        code.label(placed)

    def _find_row(self, array: str) -> None:
        self.code.move("r13", array)
        loops.find_row(self.function, array, self.label)

    def _require_same_shape(self, one: str, other: str) -> None:
        code, again, done = self.code, self.function.new_label(), self.function.new_label()
        code.load_int("rcx", one, ARRAY_NDIM)
        code.load_int("rax", other, ARRAY_NDIM)
        code.compare("rax", "rcx")
        code.jump(self.label, "ne")
        code.load("rdx", one, ARRAY_SHAPE)
        code.load("rsi", other, ARRAY_SHAPE)
        code.label(again)
        code.add("rcx", -1)
        code.jump(done, "s")
        code.load("rax", "rdx")
        code.compare_with("rsi", 0, "rax")
        code.jump(self.label, "ne")
        code.add("rdx", 8)
        code.add("rsi", 8)
        code.jump(again)
        code.label(done)

    def _place_array(self, place: int, array: str) -> None:
        """Let the stack have the address of an array's elements and their stride, the same throughout."""
        code, is_vector, has_stride = self.code, self.function.new_label(), self.function.new_label()
        loops.require_aligned(self.function, array, self.label)
        code.load_int("rax", array, ARRAY_NDIM)
        code.compare_number("rax", 1)
        code.jump(is_vector, "e")
        code.jump(self.label, "b")
        code.test_with(array, ARRAY_FLAGS, loops.CONTIGUOUS)
        code.jump(self.label, "e")
        code.load("rax", "r15", loops.INPUT_NBYTES)
        code.jump(has_stride)
        code.label(is_vector)
        code.load("rax", array, ARRAY_STRIDES)
        code.load("rax", "rax")
        code.label(has_stride)
        code.store("rsp", loops.STRIDES + 8 * place, "rax")
        code.load("rax", array, ARRAY_DATA)
        code.store("rsp", loops.POINTERS + 8 * place, "rax")

    def count(self) -> None:
        """Let the stack have the number of elements; none are for NumPy."""
        self.function.multiply_extents("r13")
        self.code.compare_number("rax", 0)
        self.code.jump(self.label, "e")
        self.code.compare_number("rax", loops.MOST)
        self.code.jump(self.label, "g")
        self.code.store("rsp", loops.COUNT, "rax")

    def allocate(self) -> None:
        """Let `r13` have a new array for the results."""
        self.code.load_int("rdx", "r13", ARRAY_NDIM)
        self.code.load("rcx", "r13", ARRAY_SHAPE)
        loops.make_array(self.function)
        self.code.load("rax", "r13", ARRAY_DATA)
        self._place_results()

    def place_results(self) -> None:
        """Let results lie where they are on their way to elsewhere."""
        self.code.set("rax", ctypes.addressof(loops.results))
        self._place_results()

    def _place_results(self) -> None:
        """Let results lie one after the other where `rax` says."""
        place = 8 * len(self.operands)
        self.code.store("rsp", loops.POINTERS + place, "rax")
        self.code.load("rax", "r15", loops.OUTPUT_NBYTES)
        self.code.store("rsp", loops.STRIDES + place, "rax")

    def run(self, flagged: str) -> None:
        """Call the loop; go to a label where NumPy might warn."""
        loops.call(self.function, loops.POINTERS, loops.COUNT, loops.STRIDES, loops.STATUS, flagged)


_ELEMENTS = 8
"""Where on the stack the number of elements is meanwhile."""


def count_words(
    function: Function, load_rows: Callable[[], None], operands: tuple[str, ...], unknown: str | None = None
) -> None:
    """Let `rax`, the elements of what a ufunc makes of operands, have words of 8 bytes, or more.

    Where NumPy has a loop over the very dtype, it is by its operands and results; else words have 8 bytes, or 16. Where
    `load_rows` finds no loops it goes to a label, ``unknown``.
    """
    code, is_other, is_found, done = function.code, *(function.new_label() for _ in range(3))
    code.store("rsp", _ELEMENTS, "rax")
    load_rows()
    array, other = operands[0], operands[-1]
    if array != other:
        is_number, is_second, is_array = (function.new_label() for _ in range(3))
        function.unless_type(array, np.ndarray, is_second)
        function.unless_type(other, np.ndarray, is_number)
        code.load("rax", array, ARRAY_DTYPE)
        code.compare_with(other, ARRAY_DTYPE, "rax")
        code.jump(is_other, "ne")
        code.jump(is_array)
        for label, number, beside in ((is_second, array, other), (is_number, other, array)):
            code.label(label)
            function.unless_type(beside, np.ndarray, is_other)
            loops.find_row(function, beside, is_other)
            loops.unless_weak(function, number, is_other)
            code.jump(is_found)
        code.label(is_array)
    else:
        function.unless_type(array, np.ndarray, is_other)
    loops.find_row(function, array, is_other)
    code.label(is_found)
    is_largest = function.new_label()
    code.load("rax", "r15", loops.INPUT_NBYTES)
    code.load("rcx", "r15", loops.OUTPUT_NBYTES)
    code.compare("rax", "rcx")
    code.jump(is_largest, "ge")
    code.move("rax", "rcx")
    code.label(is_largest)
    code.multiply("rax", "rsp", _ELEMENTS)
    function.turn_into_words()
    code.jump(done)
    code.label(is_other)
    if unknown is not None:
        code.label(unknown)
    code.load("rax", "rsp", _ELEMENTS)
    function.count_words(*operands)
    code.label(done)


def compute(function: Function, load_rows: Callable[[], None], operands: tuple[str, ...], label: str) -> None:
    """Let `r13` have a new array of NumPy's of what a loop makes of operands; go to a label if that needs more."""
    code, has_gaps, flagged, done = function.code, *(function.new_label() for _ in range(3))
    if not loops.ARE_KNOWN:
        code.jump(label)
    made = _LoopCall(function, operands, has_gaps)
    made.find(load_rows)
    made.count()
    made.allocate()
    made.run(flagged)
    code.jump(done)
    code.label(flagged)
    function.drop("r13")
    code.jump(label)
    code.label(has_gaps)
    rows.compute(function, load_rows, operands, label)
    code.label(done)


def compute_numbers(function: Function, load_rows: Callable[[], None], operands: tuple[str, ...], label: str) -> None:
    """Let `r13` have what a loop makes of numbers, floats of 64 bits and integers beside one; else go to a label."""
    code, has_float = function.code, function.new_label()
    if not loops.ARE_KNOWN:
        code.jump(label)
    for number in operands:
        code.load("rax", number, TYPE)
        function.if_one_of("rax", (float, np.float64), has_float)
    code.jump(label)
    code.label(has_float)
    load_rows()
    code.set("rax", id(FLOAT64))
    code.compare_with("r15", loops.INPUT, "rax")  # these are the first
    code.jump(label, "ne")
    for place, number in enumerate(operands):
        loops.place_number(function, place, number, label)
    code.set("rax", 1)
    code.store("rsp", loops.COUNT, "rax")
    code.move("rax", "rsp")
    code.add("rax", loops.STEPS)
    code.store("rsp", loops.POINTERS + 8 * len(operands), "rax")
    code.load("rax", "r15", loops.OUTPUT_NBYTES)
    code.store("rsp", loops.STRIDES + 8 * len(operands), "rax")
    loops.call(function, loops.POINTERS, loops.COUNT, loops.STRIDES, loops.STATUS, label)
    loops.make_number(function, loops.STEPS)


def compute_into(function: Function, load_rows: Callable[[], None], operands: tuple[str, ...], label: str) -> None:
    """Write what a loop makes of operands to the first, an array; go to a label if that needs more.

    Nothing has been written then: results lie elsewhere until it is known that there is nothing to warn of.
    """
    code, has_gaps, is_straight, again, done = function.code, *(function.new_label() for _ in range(4))
    if not loops.ARE_KNOWN:
        code.jump(label)
    target = operands[0]
    code.test_with(target, ARRAY_FLAGS, loops.WRITEABLE)
    code.jump(label, "e")
    written = _LoopCall(function, operands, has_gaps)
    written.find(load_rows)
    code.load("rax", "r15", loops.INPUT)
    code.compare_with("r15", loops.OUTPUT, "rax")
    code.jump(label, "ne")
    written.count()
    code.compare_number("rax", loops.MOST_IN_PLACE)
    code.jump(label, "g")
    written.place_results()
    code.load("rax", "rsp", loops.STRIDES)
    code.compare_with("r15", loops.OUTPUT_NBYTES, "rax")
    code.jump(is_straight, "e")
    code.compare_number_with("r15", loops.OUTPUT_NBYTES, 8)
    code.jump(label, "ne")
    written.run(label)
    code.load("rdi", target, ARRAY_DATA)
    code.set("rsi", ctypes.addressof(loops.results))
    code.load("rcx", "rsp", loops.COUNT)
    code.load("rdx", "rsp", loops.STRIDES)
    code.label(again)
    code.load("rax", "rsi")
    code.store("rdi", 0, "rax")
    code.add("rsi", 8)
    code.add_register("rdi", "rdx")
    code.add("rcx", -1)
    code.jump(again, "ne")
    code.jump(done)
    code.label(is_straight)
    written.run(label)
    code.load("rdx", "rsp", loops.COUNT)
    code.multiply("rdx", "r15", loops.OUTPUT_NBYTES)
    code.load("rdi", target, ARRAY_DATA)
    code.set("rsi", ctypes.addressof(loops.results))
    code.call(loops.MEMMOVE)
    code.jump(done)
    code.label(has_gaps)
    rows.compute_into(function, load_rows, operands, label)
    code.label(done)


__all__ = ["compute", "compute_into", "compute_numbers", "count_words"]

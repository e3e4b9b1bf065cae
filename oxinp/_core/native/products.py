"""Products of vectors and matrices, by NumPy's own loop where they are small and on the host, in machine code."""

from __future__ import annotations

from functools import partial

import numpy as np

from oxinp._core.lazy.balance import LAUNCH
from oxinp._core.lazy.bringing import brought_vectors
from oxinp._core.native import loops
from oxinp._core.native.frame import ROOM
from oxinp._core.native.function import LIGHT, MIDDLE, MOST, MOST_LIGHT, Function
from oxinp._core.native.multiplying import multiply_on_device
from oxinp._core.native.objects import (
    ARRAY_DATA,
    ARRAY_DTYPE,
    ARRAY_NDIM,
    ARRAY_SHAPE,
    ARRAY_STRIDES,
)
from oxinp._core.native.operators import compute, load_operand
from oxinp._core.ops.matmul import FLOPS_PER_BYTE
from oxinp._core.ops.product import HOST_WEIGHT

# Where on the stack there is what the loop is called with: addresses; how many products, rows, elements of a sum and
# columns; strides from product to product, and of rows and columns; then the shape of the result.
_POINTERS, _COUNTS, _STRIDES, _SHAPE, _VALUE, _STATUS = (ROOM + at for at in (0, 24, 56, 128, 144, 160))
STACK = ROOM + 160 + 16
"""Bytes of the stack that a function which computes products needs, an odd number of words."""
_MOST_TERMS = 1 << 18  # products of elements up to which Python's lock is kept
_ROWS, _TERMS, _COLUMNS = (_COUNTS + 8 * i for i in range(1, 4))


def _place(function: Function, place: int, array: str, axes: tuple[int, int], vector: int, label: str) -> None:
    """Let the stack have where a vector or a matrix lies, its extents and its strides.

    `axes` are the places of a matrix's extents, `vector` is which of its axes a vector has: the other's extent is 1 and
    its stride 0, as those of all axes of length 1 are.
    """
    code, is_matrix, done = function.code, function.new_label(), function.new_label()

    def place_axis(axis: int, at: int) -> None:
        is_long = function.new_label()
        code.load("rcx", "rdx", at)
        code.load("rax", "rsi", at)
        code.compare_number("rcx", 1)
        code.jump(is_long, "g")
        code.jump(label, "l")
        code.set("rax", 0)
        code.label(is_long)
        code.store("rsp", _STRIDES + 24 + 16 * place + 8 * axis, "rax")
        if place and axes[axis] == _TERMS:
            code.compare_with("rsp", _TERMS, "rcx")
            code.jump(label, "ne")
        else:
            code.store("rsp", axes[axis], "rcx")

    code.load("rdx", array, ARRAY_SHAPE)
    code.load("rsi", array, ARRAY_STRIDES)
    code.load("rax", array, ARRAY_DATA)
    code.store("rsp", _POINTERS + 8 * place, "rax")
    code.load_int("rax", array, ARRAY_NDIM)
    code.compare_number("rax", 2)
    code.jump(is_matrix, "e")
    code.jump(label, "g")
    code.compare_number("rax", 0)
    code.jump(label, "e")
    place_axis(vector, 0)
    code.set("rax", 1)
    code.store("rsp", axes[1 - vector], "rax")
    code.set("rax", 0)
    code.store("rsp", _STRIDES + 24 + 16 * place + 8 * (1 - vector), "rax")
    code.jump(done)
    code.label(is_matrix)
    place_axis(0, 0)
    place_axis(1, 8)
    code.label(done)


def _place_results(function: Function) -> None:
    """Let the stack have the result's shape and strides, and `rdx` its number of axes."""
    code = function.code
    code.move("r8", "rsp")
    code.add("r8", _SHAPE)
    code.set("rdx", 0)
    code.load("r9", "r15", loops.OUTPUT_NBYTES)
    code.move("r10", "r9")
    code.multiply("r10", "rsp", _COLUMNS)  # the stride of rows
    for operand, extent, stride, place in (("r12", _ROWS, "r10", 0), ("r14", _COLUMNS, "r9", 1)):
        is_missing, has_stride = function.new_label(), function.new_label()
        code.set("r11", 0)
        code.load_int("rax", operand, ARRAY_NDIM)
        code.compare_number("rax", 1)
        code.jump(is_missing, "e")
        code.load("rcx", "rsp", extent)
        code.store("r8", 0, "rcx")
        code.add("r8", 8)
        code.add("rdx", 1)
        code.compare_number("rcx", 1)
        code.jump(has_stride, "e")
        code.move("r11", stride)
        code.label(has_stride)
        code.label(is_missing)
        code.store("rsp", _STRIDES + 56 + 8 * place, "r11")


def call_loop(function: Function, label: str) -> None:
    """Let `r13` have the product of NumPy's arrays in `r12` and `r14`; go to a label if that needs more than a loop."""
    code, is_scalar, flagged, done = (function.code, *(function.new_label() for _ in range(3)))
    if not loops.ARE_KNOWN:
        code.jump(label)
    code.set("r15", loops.address_of(loops.rows(np.matmul)))
    loops.find_row(function, "r12", label)
    code.load("rax", "r12", ARRAY_DTYPE)
    code.compare_with("r14", ARRAY_DTYPE, "rax")
    code.jump(label, "ne")
    for array in ("r12", "r14"):
        loops.require_aligned(function, array, label)
    _place(function, 0, "r12", (_ROWS, _TERMS), 1, label)
    _place(function, 1, "r14", (_TERMS, _COLUMNS), 0, label)
    code.set("rax", 1)
    code.store("rsp", _COUNTS, "rax")
    for extent in (_ROWS, _TERMS, _COLUMNS):
        code.multiply("rax", "rsp", extent)
        code.compare_number("rax", _MOST_TERMS)
        code.jump(label, "g")
    _place_results(function)
    code.compare_number("rdx", 0)
    code.jump(is_scalar, "e")
    code.move("rcx", "rsp")
    code.add("rcx", _SHAPE)
    loops.make_array(function)
    code.load("rax", "r13", ARRAY_DATA)
    code.store("rsp", _POINTERS + 16, "rax")
    loops.call(function, _POINTERS, _COUNTS, _STRIDES, _STATUS, flagged)
    code.jump(done)
    code.label(flagged)
    function.drop("r13")
    code.jump(label)
    code.label(is_scalar)
    code.move("rax", "rsp")
    code.add("rax", _VALUE)
    code.store("rsp", _POINTERS + 16, "rax")
    loops.call(function, _POINTERS, _COUNTS, _STRIDES, _STATUS, label)
    loops.make_number(function, _VALUE)
    code.label(done)


def require_small_product(function: Function, one: str, other: str) -> None:
    """Go to the general function unless the matrix product of two arrays of NumPy's is small, as stacks of it are.

    It has the elements of the first without its last axis times those of the second without its last but one, or fewer.
    """
    code, next_axis, is_contracted, done = (function.code, *(function.new_label() for _ in range(3)))
    code.load_int("rcx", one, ARRAY_NDIM)
    code.load_int("r8", other, ARRAY_NDIM)
    for count in ("rcx", "r8"):
        code.compare_number(count, 0)
        code.jump("general", "e")
    function.multiply_extents(one, but=1)
    code.compare_number("r8", 1)
    code.jump(done, "e")
    code.load("rdx", other, ARRAY_SHAPE)
    code.label(next_axis)
    code.compare_number("r8", 2)
    code.jump(is_contracted, "e")
    code.multiply("rax", "rdx", 0)
    code.label(is_contracted)
    code.add("rdx", 8)
    code.add("r8", -1)
    code.jump(next_axis, "ne")
    code.label(done)
    function.require_below(MOST, "rax")


def _require_middling_product(function: Function) -> None:
    """Go to the general function unless the product of two matrices, in `r12` and `r14`, is the host's by its work."""
    code = function.code
    code.load("rdx", "r12", ARRAY_SHAPE)
    code.load("rax", "rdx")
    code.load("rcx", "r14", ARRAY_SHAPE)
    code.multiply("rax", "rcx", 8)
    code.move("r8", "rax")
    function.require_below(MIDDLE, "r8")
    code.multiply("rax", "rdx", 8)
    code.compare_number("rax", FLOPS_PER_BYTE * 8 * MOST_LIGHT)
    code.jump("general", "ge")


def matrix_multiply(kind: type, before: int, numpys: int) -> bytes:
    """Return the code of ``a @ b``, of arrays of ours that are small, middling and of floats, or on the device."""
    function = Function(kind, before, STACK)
    code = function.code
    function.begin()
    code.label("start")
    function.unless_type("rbx", kind, "general")
    function.unless_type("rbp", kind, "general")
    load_operand(function, "rbx", "r12", None, "middling")
    load_operand(function, "rbp", "r14", None, "middling")
    require_small_product(function, "r12", "r14")
    compute(function, numpys, partial(call_loop, function), "r12", "r14")
    code.label("middling")
    function.load_seen("r12", "rbx", storage="r13")
    function.load_seen("r14", "rbp", storage="r13", label="on the device")
    code.load_int("rax", "r12", ARRAY_NDIM)
    code.load_int("rcx", "r14", ARRAY_NDIM)
    code.add_register("rax", "rcx")
    for count in (2, 3):
        code.compare_number("rax", count)
        code.jump("with a vector", "e")
    code.compare_number("rax", 4)
    code.jump("general", "ne")
    code.compare_number("rcx", 2)
    code.jump("general", "ne")
    _require_middling_product(function)
    for each in ("r12", "r14"):
        function.require_middle(each)
    code.jump("of floats")
    code.label("with a vector")
    function.multiply_extents("r12")
    code.move("r8", "rax")
    function.multiply_extents("r14")
    code.compare("rax", "r8")
    code.jump("has larger", "ge")
    code.move("rax", "r8")
    code.label("has larger")
    function.require_reach(LIGHT, is_bounded=False)
    function.count_learned(LIGHT, "start", HOST_WEIGHT, LAUNCH)
    code.label("of floats")
    for each in ("r12", "r14"):
        function.require_elements(each, (np.float64, np.float32))
    compute(function, numpys, partial(call_loop, function), "r12", "r14", is_few=False)
    function.end_with_bringing(brought_vectors, "rbx", "rbp", label="on the device")
    code.label("on the device")
    multiply_on_device(function, "rbx", "rbp")
    function.end_wrap("r13")
    function.end_of_two(*(id(getattr(kind, name)) for name in ("__matmul__", "__rmatmul__")))
    return code.assembled()


def require_vectors(function: Function, label: str) -> None:
    """Go to a label unless `dot` passes NumPy's arrays in `r12` and `r14` to the loop that `matmul` has for vectors."""
    code = function.code
    for array in ("r12", "r14"):
        function.require_elements(array, (np.float64, np.float32, np.complex128), label)
        code.load_int("rax", array, ARRAY_NDIM)
        code.compare_number("rax", 1)
        code.jump(label, "ne")
        code.load("rax", array, ARRAY_SHAPE)
        code.compare_number_with("rax", 0, 1)
        code.jump(label, "le")
        code.load("rax", array, ARRAY_STRIDES)
        code.compare_number_with("rax", 0, 0)
        code.jump(label, "le")  # `dot` copies those


__all__ = ["STACK", "call_loop", "matrix_multiply", "require_small_product", "require_vectors"]

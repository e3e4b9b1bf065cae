"""Sums, largest elements and their kin of a whole array, by NumPy's own loop where it is small, in machine code."""

from __future__ import annotations

import sys
from typing import NamedTuple

import numpy as np

from oxinp._core.native import loops, objects
from oxinp._core.native.call import GIVEN, MOST_GIVEN, Call
from oxinp._core.native.function import NONE
from oxinp._core.native.objects import (
    ARRAY_DATA,
    ARRAY_FLAGS,
    ARRAY_NDIM,
    ARRAY_SHAPE,
    ARRAY_STRIDES,
    SIZE,
    TUPLE_ITEMS,
    TYPE,
)

# Where on the stack there is what a loop is called with: the result is its first operand, too.
_POINTERS, _STRIDES, _COUNT, _VALUE, _STATUS = (GIVEN + 8 * (MOST_GIVEN + at) for at in (0, 3, 6, 7, 9))
_ROOM = _STATUS + 24  # an odd number of words


class Reduction(NamedTuple):
    """What machine code knows of a reduction.

    Attributes
    ----------
    ufunc : numpy.ufunc
        Whose loop combines two elements.
    kinds : str
        Kinds of elements of which NumPy computes it by a loop over their own dtype.
    initial : int or None
        The bits that it begins with; None where those are the first element's, of 64 bits.
    is_mean : bool
        Whether the result is divided by the number of elements.
    """

    ufunc: np.ufunc
    kinds: str
    initial: int | None
    is_mean: bool = False


_BEGINS_WITH_ZERO = not np.signbit(np.add.reduce(np.array([-0.0])))  # elsewhere with the first element
_SUMMED = "fc" if _BEGINS_WITH_ZERO else ""
REDUCTIONS = {
    "sum": Reduction(np.add, _SUMMED + "l", 0),
    "mean": Reduction(np.add, "d" if _SUMMED else "", 0, is_mean=True),
    "max": Reduction(np.maximum, "dl", None),
    "min": Reduction(np.minimum, "dl", None),
    "any": Reduction(np.logical_or, "?", 0),
    "all": Reduction(np.logical_and, "?", 1),
}
"""Names of methods, and what they are."""


def _place(call: Call, row: Reduction, label: str) -> None:
    """Let the stack have what the loop is called with, but the array's address."""
    code, is_vector, is_placed = call.code, call.new_label(), call.new_label()
    loops.require_aligned(call, "r12", label)
    code.load("rcx", "r15", loops.INPUT_NBYTES)
    code.load_int("rax", "r12", ARRAY_NDIM)
    code.compare_number("rax", 1)
    code.jump(is_vector, "e")
    code.jump(label, "b")
    code.test_with("r12", ARRAY_FLAGS, loops.CONTIGUOUS)
    code.jump(label, "e")
    code.jump(is_placed)
    code.label(is_vector)
    code.load("rcx", "r12", ARRAY_STRIDES)
    code.load("rcx", "rcx")
    code.compare_number("rcx", 0)
    code.jump(label, "le")  # which some versions of NumPy go through the other way round
    code.label(is_placed)
    code.store("rsp", _STRIDES + 8, "rcx")
    call.multiply_extents("r12")
    code.compare_number("rax", 0)
    code.jump(label, "e")
    code.compare_number("rax", loops.MOST)
    code.jump(label, "g")
    code.store("rsp", _COUNT, "rax")
    code.set("rax", row.initial or 0)
    code.store("rsp", _VALUE, "rax")
    code.set("rax", 0)
    code.store("rsp", _VALUE + 8, "rax")
    code.move("rax", "rsp")
    code.add("rax", _VALUE)
    for place, value in ((_POINTERS, "rax"), (_POINTERS + 16, "rax")):
        code.store("rsp", place, value)
    code.set("rax", 0)
    for place in (_STRIDES, _STRIDES + 16):
        code.store("rsp", place, "rax")


def _begin_with_first(call: Call, is_done: str) -> None:
    """Let the result be the first element, and leave the others to the loop; go to a label where there are none."""
    code = call.code
    code.load("rdx", "rsp", _POINTERS + 8)
    code.load("rax", "rdx")
    code.store("rsp", _VALUE, "rax")
    code.load("rax", "rsp", _STRIDES + 8)
    code.add_register("rdx", "rax")
    code.store("rsp", _POINTERS + 8, "rdx")
    code.decrement("rsp", _COUNT)
    code.jump(is_done, "e")


def call_loop(call: Call, row: Reduction, label: str) -> None:
    """Let `r13` have what a reduction makes of NumPy's array in `r12`; go to a label if that needs more than a loop."""
    code, is_done = call.code, call.new_label()
    if not loops.ARE_KNOWN:
        code.jump(label)
    call.require_elements("r12", [kind for kind in loops.TYPES if _is_of(kind, row.kinds)], label)
    code.set("r15", loops.address_of(loops.rows(row.ufunc)))
    loops.find_row(call, "r12", label)
    _place(call, row, label)
    code.load("rax", "r12", ARRAY_DATA)
    code.store("rsp", _POINTERS + 8, "rax")
    if row.initial is None:
        _begin_with_first(call, is_done)
    loops.call(call, _POINTERS, _COUNT, _STRIDES, _STATUS, label)
    if row.is_mean:
        code.load("rcx", "rsp", _COUNT)
        code.divide_float("rsp", _VALUE, "rcx")
        loops.unless_flagged(call, _STATUS, label)
    code.label(is_done)
    loops.make_number(call, _VALUE)


def _is_of(kind: type, kinds: str) -> bool:
    """Whether a type of elements is of some kinds, or one of some characters, of dtypes."""
    dtype = np.dtype(kind)
    return dtype.char in kinds or (dtype.kind in "fc" and dtype.kind in kinds)


def reduction(kind: type, before: int | None, name: str) -> bytes:
    """Return the code of a reduction of one array."""
    call, row = Call(kind, before, _ROOM), REDUCTIONS[name]
    call.begin_call(1)
    call.code.label("1 arguments")
    call.load_array(0, "rbx", "r12", is_small=False)
    call.unless_reported()
    call_loop(call, row, "general")
    call.return_new("r13", "r12")
    return call.code.assembled()


_KEYWORDS = tuple(map(sys.intern, ("axis", "keepdims")))
_UFUNC, _ARRAY, _AXIS, _DTYPE, _OUT, _KEEPDIMS = (GIVEN + 8 * i for i in range(6))
"""Where on the stack there is what NumPy's method `reduce` is called with."""


def _load_arguments(call: Call, axes: tuple[type, ...]) -> None:
    """Begin with an array and an axis, by position or keyword, and perhaps ``keepdims``, which the stack has then.

    Axes are of some types.
    """
    code, is_keyword, are_two = call.code, call.new_label(), call.new_label()
    call.begin_call(2, keywords=is_keyword)
    code.label(is_keyword)
    code.load("r8", "rcx", SIZE)
    code.load("r10", "rcx", TUPLE_ITEMS)
    code.set("r11", id(_KEYWORDS[0]))
    code.compare("r10", "r11")
    code.jump("axis by keyword", "e")
    code.compare_number("rdx", 4)
    code.jump("general", "ne")
    code.compare_number("r8", 1)
    code.jump("general", "ne")
    code.jump(are_two)
    code.label("axis by keyword")
    code.compare_number("rdx", 2)
    code.jump("general", "ne")
    code.compare_number("r8", 1)
    code.jump("2 arguments", "e")
    code.compare_number("r8", 2)
    code.jump("general", "ne")
    code.load("r10", "rcx", TUPLE_ITEMS + 8)
    code.label(are_two)
    code.set("r11", id(_KEYWORDS[1]))
    code.compare("r10", "r11")
    code.jump("general", "ne")
    code.load("rax", "rbp", 16)
    call.if_one_of("rax", (True, False), "keepdims")
    code.jump("general")
    code.label("2 arguments")
    code.set("rax", id(False))
    code.label("keepdims")
    code.store("rsp", _KEEPDIMS, "rax")
    code.load("r14", "rbp", 8)
    code.store("rsp", _AXIS, "r14")
    code.load("rax", "r14", TYPE)
    call.if_one_of("rax", axes, "has axis")
    code.jump("general")
    code.label("has axis")


def along(kind: type, before: int | None, name: str) -> bytes:
    """Return the code of a reduction of one array along an axis, by the method of NumPy's ufunc that it comes to."""
    call, row = Call(kind, before), REDUCTIONS[name]
    code, is_made = call.code, call.new_label()
    _load_arguments(call, (int,) if row.is_mean else (int, tuple))
    call.load_array(0, "rbx", "r12", is_small=False)
    call.unless_reported()
    if row.is_mean or row.kinds == "?":
        call.require_elements("r12", (np.float64,) if row.is_mean else (np.bool_,))
    call.multiply_extents("r12")
    code.compare_number("rax", 0)  # of nothing, some say something else
    code.jump("general", "e")
    if row.is_mean:
        code.load_int("rax", "r12", ARRAY_NDIM)
        code.compare_number("rax", 2)
        code.jump("general", "l")
    for place, value in ((_UFUNC, id(row.ufunc)), (_DTYPE, NONE), (_OUT, NONE)):
        code.set("rax", value)
        code.store("rsp", place, "rax")
    code.store("rsp", _ARRAY, "r12")
    call.keep("r12")
    code.set("rdx", 6)
    call.call_with_given(np.ufunc.reduce)
    code.move("r13", "rax")
    if row.is_mean:
        _divide_by_extent(call)
    call.drop("r12")
    code.compare_number("r13", 0)
    code.jump(is_made, "ne")
    call.return_error()
    code.label(is_made)
    call.return_new("r13", "r12", is_few=False)
    return code.assembled()


def _divide_by_extent(call: Call) -> None:
    """Divide the array in `r13`, if there is one, by the extent of that in `r12` along the axis in `r14`."""
    code, is_from_start, done, failed = call.code, *(call.new_label() for _ in range(3))
    code.compare_number("r13", 0)
    code.jump(done, "e")
    code.move("rdi", "r14")
    code.call(objects.address("PyLong_AsSsize_t"))  # an axis that there is
    code.compare_number("rax", 0)
    code.jump(is_from_start, "ge")
    code.load_int("rcx", "r12", ARRAY_NDIM)
    code.add_register("rax", "rcx")
    code.label(is_from_start)
    for _ in range(3):
        code.add_register("rax", "rax")
    code.load("rcx", "r12", ARRAY_SHAPE)
    code.add_register("rcx", "rax")
    code.load("rdi", "rcx")
    code.call(objects.address("PyLong_FromSsize_t"))
    code.move("r14", "rax")
    code.compare_number("rax", 0)
    code.jump(failed, "e")
    code.store("rsp", GIVEN, "r13")
    code.store("rsp", GIVEN + 8, "r14")
    code.store("rsp", GIVEN + 16, "r13")
    code.set("rdx", 3)
    call.call_with_given(np.true_divide)
    code.move("rbp", "rax")
    call.drop("r14")
    code.compare_number("rbp", 0)
    code.jump(failed, "e")
    call.drop("rbp")  # the same array
    code.jump(done)
    code.label(failed)
    call.drop("r13")
    code.set("r13", 0)
    code.label(done)


__all__ = ["REDUCTIONS", "along", "reduction"]

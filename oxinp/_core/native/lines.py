"""Operands of a kernel that are one or two loops, found in machine code: what `line_of` and `matrix_of` say."""

from __future__ import annotations

import importlib

from oxinp._core.lazy.chains import ELEMENTWISE
from oxinp._core.memory.layout import Layout
from oxinp._core.native import objects
from oxinp._core.native.call import ARGUMENTS
from oxinp._core.native.function import NONE
from oxinp._core.native.making import (
    COST,
    ENTRY,
    GIVEN_VALUE,
    GRID,
    KEPT,
    KEY,
    LAYOUT,
    LEAVES,
    NEW,
    NEW_GRAPH,
    NUMBER,
    PTR,
    RESULT,
    Making,
    offsets,
)
from oxinp._core.native.objects import DTYPE_ITEMSIZE, LIST_ITEMS, SIZE, TUPLE_ITEMS
from oxinp._core.native.places import load_small


def line_of(kind: type, before: int | None) -> bytes:
    """Return the code of a call of `chains.line_of` of a tuple."""
    call = Making(kind, before)
    code = call.code
    call.begin_making(1)
    code.load("rbx", "rbp", 0)
    _measure(call)
    code.load("r13", "rsp", KEY)
    code.load("r14", "rsp", LEAVES)
    call.make_tuple(NEW, "rbp", ("r12", LAYOUT["size"]), "r13", "r14")
    code.move("r14", "rbp")
    _end(call)
    return code.assembled()


def _end(call: Making) -> None:
    """Return what is in `r14`; lay out ``none``, where None is returned."""
    code = call.code
    code.jump("is found")
    code.label("none")
    code.set("r14", NONE)
    code.label("is found")
    call.end_making("r14")


def line_again(kind: type, before: int | None) -> bytes:
    """Return the code of a call of `chains.line_again`."""
    planners = importlib.import_module(ELEMENTWISE).Elementwise
    call = Making(kind, before)
    code = call.code
    call.begin_making(2)
    code.load("rbx", "rbp", 0)
    call.unless_type("rbx", planners, "general")
    code.load("rbx", "rbp", 8)
    _measure(call)
    code.load("rsi", "rsp", ARGUMENTS)
    code.load("rbx", "rsi")
    call.make_tuple(NEW, "r14", ("rsp", KEY), ("rsp", LEAVES))
    code.load("rdi", "rbx", offsets(planners, ("_met",))["_met"])
    code.move("rsi", "r14")
    code.call(objects.address("PyDict_GetItem"))
    code.compare_number("rax", 0)
    code.jump("undo", "e")
    code.move("rbx", "rax")
    call.keep_at(GIVEN_VALUE, "rbx")
    _divide(call)
    for place, target in ((ENTRY, "r14"), (PTR, "r13")):
        code.move("rdi", target)
        code.call(objects.address("PyLong_FromSsize_t"))
        call.made(place, target)
    call.make_tuple(NEW_GRAPH, "rsi", "r14", "r13")
    code.load("rdi", "rbx", _VALUES)
    code.call(objects.address("PySequence_Concat"))
    call.made(KEPT, "r13")
    code.move("rdi", "rbp")
    code.call(objects.address("PyLong_FromSsize_t"))
    call.made(COST, "rbp")
    code.set("r14", id(1))
    call.make_tuple(GRID, "r12", "rbp", "r14", "r14")
    call.make_tuple(RESULT, "r14", ("rbx", _KERNEL), "r12", "r13")
    _end(call)
    return code.assembled()


_MOST, _KERNEL, _VALUES, _VECTOR, _LENGTH = (TUPLE_ITEMS + 8 * place for place in range(5))
"""Where what is known of operands has what, see `KnownChains.plan_again`."""


def _divide(call: Making) -> None:
    """Let `r14` have the units of the size of the layout in `r12`, `r13` what is left, and `rbp` the blocks.

    What is known is in `rbx`; sizes for which it does not hold are left to Python.
    """
    code, is_less = call.code, call.new_label()
    code.load("rsi", "r12", LAYOUT["size"])
    load_small(call, "r12", "rsi", "undo")
    code.compare_number("r12", 1)
    code.jump("undo", "le")
    for place, target in ((_MOST, "rdi"), (_VECTOR, "rcx"), (_LENGTH, "rbp")):
        code.load("rsi", "rbx", place)
        load_small(call, target, "rsi", "undo")
    code.compare("r12", "rdi")
    code.jump("undo", "g")
    code.move("rax", "r12")
    code.divide("rcx")
    code.move("r14", "rax")
    code.move("r13", "rdx")
    code.divide("rbp")
    code.move("rbp", "rax")
    code.compare_number("rdx", 0)
    code.jump(is_less, "e")
    code.add("rbp", 1)
    code.label(is_less)
    code.compare_number("rbp", 0)
    code.jump("has blocks", "ne")
    code.set("rbp", 1)
    code.label("has blocks")


def _measure(call: Making) -> None:
    """Let the stack have the strides and alignments of the layouts in a tuple, in `rbx`, and `r12` the first one.

    Goes to ``none`` unless they are one loop.
    """
    code = call.code
    call.unless_type("rbx", tuple, "general")
    _find_layouts(call)
    for place in (KEY, LEAVES):
        code.load("rdi", "rsp", NUMBER)
        code.call(objects.address("PyTuple_New"))
        call.made(place, "r14")
    code.load("r13", "rsp", KEY)
    code.load("rbp", "rbx", SIZE)
    code.label("next to measure")
    code.compare_number("rbp", 0)
    code.jump("are measured", "e")
    code.add("rbp", -1)
    code.load("rsi", "rbx", TUPLE_ITEMS)
    code.add("rbx", 8)
    call.unless_type("rsi", Layout, "next to measure")
    code.set("rcx", id(True))
    code.compare_with("rsi", LAYOUT["is_aligned"], "rcx")
    code.jump("none", "ne")
    code.load("rdx", "rsi", LAYOUT["alignment"])
    call.put("r14", TUPLE_ITEMS, "rdx")
    code.set("rax", id(1))
    code.set("rcx", id(True))
    code.compare_with("rsi", LAYOUT["is_contiguous"], "rcx")
    code.jump("has step", "e")
    _make_step(call)
    code.label("has step")
    call.put("r13", TUPLE_ITEMS, "rax")
    for each in ("r13", "r14"):
        code.add(each, 8)
    code.jump("next to measure")
    code.label("are measured")
    code.load("rdx", "r12", LAYOUT["size"])
    call.if_one_of("rdx", (0, 1), "none")
    _require_line(call)


def _find_layouts(call: Making) -> None:
    """Let `r12` have the first layout of the tuple in `rbx`, and the stack how many; go on if there is one."""
    code = call.code
    code.set("r12", 0)
    code.set("rdx", 0)
    code.load("r14", "rbx", SIZE)
    code.move("r13", "rbx")
    code.label("next to count")
    code.compare_number("r14", 0)
    code.jump("are counted", "e")
    code.add("r14", -1)
    code.load("rsi", "r13", TUPLE_ITEMS)
    code.add("r13", 8)
    call.unless_type("rsi", Layout, "next to count")
    code.add("rdx", 1)
    code.compare_number("rdx", 1)
    code.jump("next to count", "ne")
    code.move("r12", "rsi")
    code.jump("next to count")
    code.label("are counted")
    code.store("rsp", NUMBER, "rdx")
    code.compare_number("r12", 0)
    code.jump("none", "e")


def _make_step(call: Making) -> None:
    """Let the tuple in `r13` have the stride in elements of the layout in `rsi`, of one dimension; go to the next."""
    code = call.code
    code.set("rcx", id(1))
    code.compare_with("rsi", LAYOUT["ndim"], "rcx")
    code.jump("none", "ne")
    code.load("rdx", "rsi", LAYOUT["strides"])
    code.load("rdx", "rdx", TUPLE_ITEMS)
    _make_quotient(call)
    code.store("r13", TUPLE_ITEMS, "rax")
    for each in ("r13", "r14"):
        code.add(each, 8)
    code.jump("next to measure")


def _make_quotient(call: Making) -> None:
    """Let `rax` have a new integer: that in `rdx` by the bytes of an element of the layout in `rsi`, a power of 2."""
    code, again, is_divided = call.code, call.new_label(), call.new_label()
    load_small(call, "rdi", "rdx", "undo")
    code.load("rdx", "rsi", LAYOUT["dtype"])
    code.load("rdx", "rdx", DTYPE_ITEMSIZE)
    code.label(again)
    code.compare_number("rdx", 1)
    code.jump(is_divided, "e")
    code.test_number("rdx", 1)
    code.jump("undo", "ne")
    code.halve("rdx")
    code.halve_signed("rdi")
    code.jump(again)
    code.label(is_divided)
    code.call(objects.address("PyLong_FromSsize_t"))
    code.compare_number("rax", 0)
    code.jump("undo", "e")


def matrix_of(kind: type, before: int | None) -> bytes:
    """Return the code of a call of `chains.matrix_of`."""
    call = Making(kind, before)
    code = call.code
    call.begin_making(1)
    code.load("rbx", "rbp", 0)
    call.unless_type("rbx", list, "general")
    code.load("r12", "rbx", SIZE)
    code.load("rbp", "rbx", LIST_ITEMS)
    for place, target in ((KEY, "r13"), (LEAVES, "r14")):
        code.move("rdi", "r12")
        code.call(objects.address("PyTuple_New"))
        call.made(place, target)
    code.label("next matrix")
    code.compare_number("r12", 0)
    code.jump("are measured", "e")
    code.add("r12", -1)
    code.load("rbx", "rbp")
    code.add("rbp", 8)
    call.unless_type("rbx", Layout, "undo")
    code.set("rcx", id(True))
    code.compare_with("rbx", LAYOUT["is_aligned"], "rcx")
    code.jump("none", "ne")
    code.load("rdx", "rbx", LAYOUT["strides"])
    code.compare_number_with("rdx", SIZE, 2)
    code.jump("undo", "ne")
    code.load("rdx", "rbx", LAYOUT["alignment"])
    call.put("r14", TUPLE_ITEMS, "rdx")
    code.set("rdi", 2)
    code.call(objects.address("PyTuple_New"))
    code.compare_number("rax", 0)
    code.jump("undo", "e")
    code.store("r13", TUPLE_ITEMS, "rax")
    for place in (TUPLE_ITEMS, TUPLE_ITEMS + 8):
        code.move("rsi", "rbx")
        code.load("rdx", "rsi", LAYOUT["strides"])
        code.load("rdx", "rdx", place)
        _make_quotient(call)
        code.load("rcx", "r13", TUPLE_ITEMS)
        code.store("rcx", place, "rax")
    for each in ("r13", "r14"):
        code.add(each, 8)
    code.jump("next matrix")
    code.label("are measured")
    code.load("r13", "rsp", KEY)
    code.load("r14", "rsp", LEAVES)
    call.make_tuple(NEW, "rbp", "r13", "r14")
    code.move("r14", "rbp")
    code.jump("is found")
    code.label("none")
    code.set("r14", NONE)
    code.label("is found")
    call.end_making("r14")
    return code.assembled()


def _require_line(call: Making) -> None:
    """Go on if the layout in `r12` has one dimension, or all steps in the tuple on the stack are 1."""
    code = call.code
    code.set("rcx", id(1))
    code.compare_with("r12", LAYOUT["ndim"], "rcx")
    code.jump("is line", "e")
    code.load("rsi", "rsp", KEY)
    code.load("rdx", "rsi", SIZE)
    code.label("next step")
    code.compare_number("rdx", 0)
    code.jump("is line", "e")
    code.add("rdx", -1)
    code.compare_with("rsi", TUPLE_ITEMS, "rcx")
    code.jump("none", "ne")
    code.add("rsi", 8)
    code.jump("next step")
    code.label("is line")


__all__ = ["line_again", "line_of", "matrix_of"]

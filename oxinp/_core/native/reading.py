"""An element of an array on the device, read in machine code: what `ops.index.getitem` does of it, as a rule.

So are accesses to such arrays counted, as `placement` has it. An element is one of real or complex numbers, of an array
that is not large and of which nothing speaks for the host yet. Where its like has been read before, and the array is
computed, nothing of it is Python's.
"""

from __future__ import annotations

import functools

import numpy as np

from oxinp._core.lazy.balance import balance
from oxinp._core.lazy.expr import Graph
from oxinp._core.lazy.placement import (
    ACCESSES_BEFORE_MIRROR,
    ACCESSES_OF_ANOTHER,
    MAX_IN_TURN,
    MIN_WINDOWED_NBYTES,
    SMALL_NBYTES,
    Singles,
    accesses,
    alike,
    followers,
    singles,
)
from oxinp._core.lazy.results import wrap_pending
from oxinp._core.memory.layout import Layout
from oxinp._core.memory.storage import SHARED, Storage
from oxinp._core.native import objects
from oxinp._core.native.call import Call
from oxinp._core.native.function import HELD, LIMIT, NONE, VALUE
from oxinp._core.native.given import ROOM, call_given, give
from oxinp._core.native.joining import ENTRIES_AT, GRAPH_AT, MASK_AT
from oxinp._core.native.leaves import load_number, make_entry, store_of_dtype
from oxinp._core.native.making import (
    COST,
    GIVEN_VALUE,
    GRAPH,
    KEPT,
    KEY,
    LAYOUT,
    LEAVES,
    NEW,
    NEW_GRAPH,
    NUMBER,
    RESULT,
    SCALAR_TYPE,
    STRUCTURE_OF,
    Making,
    offsets,
)
from oxinp._core.native.objects import SIZE, TUPLE_ITEMS
from oxinp._core.native.operand import require_usual
from oxinp._core.native.places import load_small
from oxinp._core.ops.index import element
from oxinp._runtime.memory import Buffer

_COPIES = {dtype: ("copy", dtype) for dtype in map(np.dtype, "fdFD")}
"""Dtypes of elements that are not fetched with the others of their array, see `scalars`, and what copies are known by
among the programs of their layouts."""
_NUM_USED = offsets(Singles, ("num_used",))["num_used"]
_COUNT_AT, _MASK_AT, _LEAST_AT, _USED_AT = (TUPLE_ITEMS + 8 * i for i in range(4))
"""Where what is known of accesses to an array has what, see `placement.wants_mirror`."""
_ARRAY, _LAYOUT, _COPY, _USED = 0, 8, SCALAR_TYPE, STRUCTURE_OF
"""Where on the stack there are the array and the layout of the element, what a copy of it is known by, and how many
elements had been used."""


@functools.cache
def counting_address(kind: type) -> int:
    """Return where the code lies that counts an access as `placement.wants_mirror` does; 0 if there is none.

    It is given a storage that is on the device only, and how many bytes of it are wanted, an integer of Python's.
    It returns 1 where that is all; and 0, with nothing counted, where Python is to find out what is wanted.
    """
    if objects.VECTORCALL is None:  # objects that are not counted come with this
        return 0
    call = Making(kind, None)
    code = call.code
    call.begin()
    call.begin_made()
    call.unless_type("rbx", Storage, "undo")
    call.unless_type("rbp", int, "undo")
    _load_value(call)
    _require_near(call)
    _make_count(call)
    code.set("rdi", id(accesses))
    code.load("rsi", "rsp", COST)
    code.load("rdx", "rsp", NEW)
    code.call(objects.address("PyDict_SetItem"))
    code.store("rsp", NUMBER, "rax")
    code.test_with("rsp", NUMBER, 1)
    code.jump("undo", "ne")
    code.set("r14", 1)
    code.jump("give back")
    return call.end_made()


def wants_mirror(kind: type, before: int | None) -> bytes:
    """Return the code of a call of `placement.wants_mirror`."""
    call, address = Call(kind, before), counting_address(kind)
    code = call.code
    call.begin_call(2, 3, keywords="keywords")
    call.require_keyword("is_given_result", 3)
    for count in (2, 3):
        code.label(f"{count} arguments")
    if not address:
        code.jump("general")
    for register, place in (("rdi", 0), ("rsi", 8)):
        code.load(register, "rbp", place)
    code.call(address)
    code.compare_number("rax", 0)
    code.jump("general", "e")
    code.set("rax", id(False))
    call.end_call()
    return code.assembled()


@functools.cache
def address_of(kind: type) -> int:
    """Return where the code lies that reads an element; 0 if there is none.

    It is given the array, one that is on the device only, and the layout of the element, and returns a new scalar; or 0
    where an error has been raised, and where Python is to do it, which nothing has been counted of then.
    """
    address = counting_address(kind)
    if not address:
        return 0
    call = Making(kind, None, ROOM)
    code = call.code
    call.begin()
    code.store("rsp", _ARRAY, "rbx")
    code.store("rsp", _LAYOUT, "rbp")
    call.begin_made()
    require_usual(call)
    _require_number(call)
    code.load("rbx", "rbx", HELD)
    code.compare_number("rbx", 0)
    code.jump("undo", "e")
    call.unless_type("rbx", Storage, "undo")
    _load_value(call)
    load_number(call, "rax", "r13", LAYOUT["nbytes"])
    code.compare_number("rax", MIN_WINDOWED_NBYTES)
    code.jump("undo", "ge")
    _load_graph(call)
    _make_value(call)
    code.label("is made")
    code.load("rdx", "rsp", _LAYOUT)
    code.load("rsi", "rdx", LAYOUT["nbytes"])
    code.move("rdi", "rbx")
    code.call(address)
    code.compare_number("rax", 0)
    code.jump("undo", "e")
    code.compare_number_with("rsp", RESULT, 0)
    code.jump("in Python", "e")
    give(call, ("rsp", RESULT))
    call_given(call, wrap_pending, 1)
    code.jump("is read")
    code.label("in Python")
    give(call, ("rsp", _ARRAY), ("rsp", _LAYOUT))
    call_given(call, element, 2)
    code.label("is read")
    code.move("r14", "rax")
    code.jump("give back")
    return call.end_made()


def _require_number(call: Making) -> None:
    """Go on with a layout, in `rbp`, of a real or complex number that kernels read where it lies."""
    code = call.code
    store_of_dtype(call, "rbp", _COPIES, _COPY)
    code.set("rcx", id(True))
    code.compare_with("rbp", LAYOUT["is_aligned"], "rcx")
    code.jump("undo", "ne")


def _load_value(call: Making) -> None:
    """Let `r14` have the value of the storage in `rbx`, which nobody shares, and `r13` the layout of that."""
    code = call.code
    code.load("r14", "rbx", VALUE)
    call.unless_type("r14", tuple, "undo")
    call.keep_at(GIVEN_VALUE, "r14")
    code.load("rdx", "r14", GRAPH_AT)
    call.unless_type("rdx", Graph, "undo")
    code.load("r13", "rdx", GRAPH["layout"])
    call.unless_type("r13", Layout, "undo")
    load_number(call, "rax", "r14", MASK_AT)
    code.shift_right("rax", SHARED.bit_length() - 1)
    code.compare_number("rax", 0)
    code.jump("undo", "ne")


def _require_near(call: Making) -> None:
    """Go on if an array, of the layout in `r13`, is not the host's by its size, nor followed, and few bytes are wanted.

    How many these are is in `rbp`.
    """
    code, is_unlimited = call.code, call.new_label()
    code.set("rax", id(followers))
    code.compare_number_with("rax", SIZE, 0)
    code.jump("undo", "ne")
    load_small(call, "rdx", "rbp", "undo")
    code.compare_number("rdx", SMALL_NBYTES)
    code.jump("undo", "g")
    code.set("rdx", id(balance))
    code.set("rcx", id(0))
    code.compare_with("rdx", LIMIT, "rcx")
    code.jump(is_unlimited, "e")
    load_number(call, "r15", "rdx", LIMIT)
    load_number(call, "rax", "r13", LAYOUT["nbytes"])
    code.compare("rax", "r15")
    code.jump("undo", "l")
    code.label(is_unlimited)


def _make_count(call: Making) -> None:
    """Let the stack have a reference to the storage, and what is known of accesses with this one; `rbx` changes."""
    code, is_least = call.code, call.new_label()
    code.move("rdi", "rbx")
    code.set("rsi", 0)
    code.call(objects.address("PyWeakref_NewRef"))
    call.made(COST, "rsi")
    code.set("rdi", id(accesses))
    code.call(objects.address("PyDict_GetItem"))
    code.set("rdx", id(singles))
    code.load("rdx", "rdx", _NUM_USED)
    code.store("rsp", _USED, "rdx")
    code.compare_number("rax", 0)
    code.jump("is known", "ne")
    code.set("rdx", id(accesses))
    code.compare_number_with("rdx", SIZE, MAX_IN_TURN)
    code.jump("undo", "ge")
    code.label("is first")
    code.set("rbx", id(1))
    call.make_tuple(NEW, "rdi", "rbx", ("r14", MASK_AT), "rbp", ("rsp", _USED))
    code.jump("is counted")
    code.label("is known")
    code.move("r12", "rax")
    call.keep_at(KEPT, "r12")
    code.load("rsi", "r12", _COUNT_AT)
    load_small(call, "rdx", "rsi", "undo")
    code.compare_number("rdx", 0)
    code.jump("undo", "e")
    code.store("rsp", NUMBER, "rdx")
    code.load("rdx", "r12", _MASK_AT)
    code.compare_with("r14", MASK_AT, "rdx")
    code.jump("is in turn", "e")
    load_number(call, "r13", "r12", _MASK_AT)
    load_number(call, "rax", "r14", MASK_AT)
    code.compare("rax", "r13")
    code.jump("is first", "ne")
    code.label("is in turn")
    code.load("rdi", "rsp", NUMBER)
    code.add("rdi", 1)
    code.compare_number("rdi", ACCESSES_BEFORE_MIRROR)
    code.jump("undo", "g")
    code.compare_number("rdi", ACCESSES_OF_ANOTHER)
    code.jump("is no other", "le")
    code.set("rax", id(alike))
    code.compare_number_with("rax", SIZE, 0)
    code.jump("undo", "ne")
    code.label("is no other")
    code.call(objects.address("PyLong_FromSsize_t"))
    call.made(KEY, "rax")
    code.load("rdx", "r12", _USED_AT)
    code.store("rsp", _USED, "rdx")
    load_number(call, "r13", "r12", _LEAST_AT)
    load_small(call, "rdx", "rbp", "undo")
    code.compare("rdx", "r13")
    code.jump(is_least, "l")
    code.load("rbp", "r12", _LEAST_AT)
    code.label(is_least)
    call.make_tuple(NEW, "rdi", ("rsp", KEY), ("r14", MASK_AT), "rbp", ("rsp", _USED))
    code.label("is counted")


def _load_graph(call: Making) -> None:
    """Let the stack have the graph that copies an element which lies so, as `chains.copying` has made it.

    Where there is none yet, and of an array that is to be computed first, go to ``is made``.
    """
    code = call.code
    code.load("rdx", "r14", GRAPH_AT)
    code.load("rdx", "rdx", GRAPH["nodes"])
    code.compare_number_with("rdx", SIZE, 0)
    code.jump("is made", "ne")
    code.load("rdx", "r14", ENTRIES_AT)
    code.load("rdx", "rdx", TUPLE_ITEMS)
    call.unless_type("rdx", Buffer, "is made")
    code.set("rcx", NONE)
    code.load("rdx", "rbp", LAYOUT["read"])
    code.compare("rdx", "rcx")
    code.jump("is made", "e")
    code.load("rdi", "rdx", GRAPH["programs"])
    code.compare("rdi", "rcx")
    code.jump("is made", "e")
    code.load("rsi", "rsp", _COPY)
    code.call(objects.address("PyDict_GetItem"))
    code.compare_number("rax", 0)
    code.jump("is made", "e")
    code.move("r15", "rax")
    call.keep_at(NEW_GRAPH, "r15")


def _make_value(call: Making) -> None:
    """Let the stack have the value of the scalar."""
    code = call.code
    code.load("r12", "r14", ENTRIES_AT)
    code.load("r13", "rbp", LAYOUT["offset"])
    code.set("rcx", id(0))
    code.compare("r13", "rcx")
    code.jump("has leaves", "e")
    code.load("rbp", "r12", TUPLE_ITEMS)
    make_entry(call)
    call.make_tuple(LEAVES, "r12", "r13")
    code.label("has leaves")
    code.load("r14", "rsp", GIVEN_VALUE)
    call.make_tuple(RESULT, "rdi", ("rsp", NEW_GRAPH), "r12", ("r14", MASK_AT))


__all__ = ["wants_mirror"]  # of which functions of Python's have the names

"""A whole array on the device that is updated in place, in machine code: what `operators._update_whole` says.

The array gets a new value, which is pending. Its lock is held from the last look at the old one on, so that nobody
computes that meanwhile; another thread that has it is not waited for.
"""

from __future__ import annotations

import functools

from oxinp._core.lazy import schedule
from oxinp._core.lazy.combining import NUMBERS
from oxinp._core.lazy.expr import Graph
from oxinp._core.lazy.results import types
from oxinp._core.memory.storage import Storage
from oxinp._core.native import joining, objects
from oxinp._core.native.binary import (
    FIRST,
    GIVEN_OPERATION,
    SECOND,
    begin_recording,
    join_masks,
    load_number_beside,
    load_value,
    require_record,
)
from oxinp._core.native.function import HELD, KNOWN, NONE, STALE, STORED_HOST, VALUE
from oxinp._core.native.joining import ENTRIES_AT, GRAPH_AT
from oxinp._core.native.locking import acquire, let_go
from oxinp._core.native.making import (
    COST,
    ENTRY,
    GIVEN_VALUE,
    GRAPH,
    GRID,
    KEPT,
    KEY,
    LEAVES,
    NEW_GRAPH,
    NUMBER,
    PTR,
    RECORD,
    Making,
    offsets,
)
from oxinp._core.native.objects import SIZE, TUPLE_ITEMS, TYPE
from oxinp._core.native.places import load_small

_IS_UPDATED = offsets(Storage, ("is_updated",))["is_updated"]


@functools.cache
def address_of(kind: type) -> int:
    """Return where the code lies that updates an array by an operation and an operand; 0 if there is none.

    It returns a new reference; or 0 where an error has been raised, and where Python is to do it.
    """
    if objects.VECTORCALL is None:  # see `updating`
        return 0
    call = Making(kind, None, joining.ROOM)
    begin_recording(call)
    _load_operand(call)
    _load_array(call)
    _join(call)
    joining.find_joined(call, GIVEN_OPERATION, is_in_place=True)
    _require_checked(call)
    _convert(call)
    _store(call)
    call.code.set("r14", id(True))
    call.code.jump("give back")
    return call.end_made()


def _load_operand(call: Making) -> None:
    """Let `r14` have the value of the operand, or of a number, which stands for itself."""
    code, is_scalar, is_device = call.code, call.new_label(), call.new_label()
    code.load("rbp", "rsp", SECOND)
    call.unless_type("rbp", call.kind, is_scalar)
    code.jump(is_device)
    code.label(is_scalar)
    code.load("rdx", "rbp", TYPE)
    call.unless_type("rdx", types.scalar_type, "is number")
    code.label(is_device)
    load_value(call, "rbp", KEPT, "r14", is_on_device=True)
    code.jump("has operand")
    code.label("is number")
    code.load("rbx", "rsp", FIRST)
    load_number_beside(call, "rbx", "rbp", NEW_GRAPH)
    for number in (float, int):
        is_other = call.new_label()
        call.unless_type("rbp", number, is_other)
        if number is int:
            load_small(call, "rax", "rbp", "undo")
        code.set("rbx", id(NUMBERS[number]))
        code.jump("has graph")
        code.label(is_other)
    code.jump("undo")
    code.label("has graph")
    call.make_tuple(GRID, "r12", "rbp")
    code.set("rbp", id(0))
    call.make_tuple(KEPT, "r14", "rbx", "r12", "rbp")
    code.label("has operand")


def _load_array(call: Making) -> None:
    """Let `r13` have the value of the array, which has all of it and is on the device alone."""
    code = call.code
    code.load("rbx", "rsp", FIRST)
    code.load("r12", "rbx", HELD)
    code.compare_number("r12", 0)
    code.jump("undo", "e")
    call.unless_type("r12", Storage, "undo")
    code.load("r13", "r12", VALUE)
    _require_unchanged(call, "undo")
    call.unless_type("r13", tuple, "undo")
    code.load("rdx", "r13", GRAPH_AT)
    call.unless_type("rdx", Graph, "undo")
    code.load("rax", "rbx", KNOWN)
    code.compare_with("rdx", GRAPH["layout"], "rax")
    code.jump("undo", "ne")
    call.keep_at(GIVEN_VALUE, "r13")


def _require_unchanged(call: Making, label: str) -> None:
    """Go to a label unless the storage in `r12` has the value in `r13`, and nothing else."""
    code = call.code
    code.set("rcx", NONE)
    for at in (STORED_HOST, STALE):
        code.compare_with("r12", at, "rcx")
        code.jump(label, "ne")
    code.compare_with("r12", VALUE, "r13")
    code.jump(label, "ne")


def _join(call: Making) -> None:
    """Let the stack have the leaves and the mask of both values, and what the operation has a record by."""
    code = call.code
    join_masks(call)
    code.compare_number("rbx", 0)
    code.jump("apart", "e")
    joining.join_leaves(call, "apart")
    code.load("rbx", "rsp", PTR)
    code.jump("has key")
    code.label("apart")
    code.load("rdi", "r13", ENTRIES_AT)
    code.load("rsi", "r14", ENTRIES_AT)
    code.call(objects.address("PySequence_Concat"))
    call.made(LEAVES, "rax")
    code.set("rbx", NONE)
    code.label("has key")
    code.load("rbp", "r13", GRAPH_AT)
    call.make_tuple(KEY, "rdi", "rbp", ("r14", GRAPH_AT), "rbx", ("rbp", GRAPH["layout"]))


def _require_checked(call: Making) -> None:
    """Go on if `r12` has the record of what NumPy lets be written to the array."""
    code = call.code
    require_record(call)
    code.set("rcx", id(True))
    code.compare_with("r12", RECORD["is_checked"], "rcx")
    code.jump("undo", "ne")
    code.load("rdx", "r12", RECORD["graph"])
    code.load("rdx", "rdx", GRAPH["nodes"])
    code.compare_number_with("rdx", SIZE, 0)
    code.jump("undo", "e")


def _convert(call: Making) -> None:
    """Let the last of the leaves, if it is a number, be what the operation takes it for."""
    code, is_converted = call.code, call.new_label()
    code.load("rdx", "r12", RECORD["scalars"])
    code.compare_number_with("rdx", SIZE, 0)
    code.jump(is_converted, "e")
    code.compare_number_with("rdx", SIZE, 1)
    code.jump("undo", "ne")
    code.load("rsi", "r14", GRAPH_AT)
    code.set("rcx", id(True))
    code.compare_with("rsi", GRAPH["is_scalar"], "rcx")
    code.jump("undo", "ne")
    code.load("rdx", "rdx", TUPLE_ITEMS)
    code.load("rdi", "rdx", TUPLE_ITEMS + 8)
    code.load("rsi", "r14", ENTRIES_AT)
    code.load("rsi", "rsi", TUPLE_ITEMS)
    code.call(objects.address("PyObject_CallOneArg"))
    code.compare_number("rax", 0)
    code.jump("undo", "e")
    code.load("rdx", "rsp", LEAVES)  # which are nobody else's
    code.load("rcx", "rdx", SIZE)
    code.load_at("r15", "rdx", "rcx", 8, TUPLE_ITEMS - 8)
    code.store_at("rdx", "rcx", "rax", 8, TUPLE_ITEMS - 8)
    call.drop("r15")
    code.label(is_converted)


def _store(call: Making) -> None:
    """Give the array what the record in `r12` has a graph of, and enter that among what is pending."""
    code = call.code
    call.make_tuple(ENTRY, "r14", ("r12", RECORD["graph"]), ("rsp", LEAVES), ("rsp", COST))
    code.load("rbx", "rsp", FIRST)
    code.load("r12", "rbx", HELD)
    code.move("rdi", "r12")
    code.set("rsi", 0)
    code.call(objects.address("PyWeakref_NewRef"))
    code.compare_number("rax", 0)
    code.jump("undo", "e")
    code.move("rbp", "rax")
    code.set("rdi", id(schedule.PENDING))
    code.move("rsi", "rbp")
    code.call(objects.address("PyList_Append"))
    code.store("rsp", NUMBER, "rax")
    call.drop("rbp")
    code.test_with("rsp", NUMBER, 1)
    code.jump("undo", "ne")
    acquire(call, "undo")
    _require_unchanged(call, "is changed")
    call.hand_over(ENTRY, "r12", VALUE)
    code.set("rax", id(True))  # which is not counted, nor is what may have been there
    code.store("r12", _IS_UPDATED, "rax")
    let_go(call)
    code.jump("is stored")
    code.label("is changed")
    let_go(call)
    code.jump("undo")
    code.label("is stored")


__all__ = ["address_of"]

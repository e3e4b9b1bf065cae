"""A part of an array that is updated in place, in machine code: what `straight.update` does with what it has met.

Of whole arrays see `whole`.
"""

from __future__ import annotations

import functools

import numpy as np

from oxinp._core.lazy.expr import Operation, Structure, leaf_structure
from oxinp._core.lazy.placement import SMALL_NBYTES, accesses, note_update
from oxinp._core.lazy.straight import NUMBERS
from oxinp._core.memory.layout import Layout
from oxinp._core.memory.storage import Storage
from oxinp._core.native import objects, whole, writing
from oxinp._core.native.function import FLOAT64, HELD, KNOWN, NONE, STORED_HOST, VIEW, Function
from oxinp._core.native.given import ROOM, call_given, give, require_returned, write_given
from oxinp._core.native.launching import COMPUTED, ENTRIES, MASK, SEEN
from oxinp._core.native.leaves import load_number
from oxinp._core.native.making import (
    COST,
    ENTRY,
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
    STRUCTURE,
    STRUCTURE_OF,
    Making,
    offsets,
)
from oxinp._core.native.objects import SIZE, TUPLE_ITEMS
from oxinp._core.native.operand import find_chain, require_usual

_OPERATION = offsets(Operation, ("alike", "checked"))
JOINED, SCALARS, _REASON = (TUPLE_ITEMS + 8 * place for place in (0, 3, 5))
"""Where a `Join` has what."""
_OPERAND, _GIVEN_OPERATION, _ARRAY = (8 * i for i in range(3))
"""Where on the stack there is what it is asked about."""


@functools.cache
def _address(kind: type) -> int:
    """Return where the code lies that updates an array by an operation and an operand; 0 if there is none.

    It returns a new reference; or 0 where an error has been raised, and where Python is to do it.
    """
    if objects.VECTORCALL is None:  # objects that are not counted come with this, and a collector that waits its turn
        return 0
    call = Making(kind, None, ROOM)
    code = call.code
    call.begin()
    code.store("rsp", _GIVEN_OPERATION, "rbx")
    code.store("rsp", _ARRAY, "rbp")
    call.begin_made()
    require_usual(call)
    _load_target(call)
    _load_operand(call)
    _find_join(call)
    _convert(call)
    _write(call)
    return call.end_made()


def _load_target(call: Making) -> None:
    """Let `r12` have the layout of the array, and `r13` the operand."""
    code, has_axes = call.code, call.new_label()
    code.load("r12", "rbp", KNOWN)
    code.compare_number("r12", 0)
    code.jump("undo", "e")
    call.unless_type("r12", Layout, "undo")
    code.load("rdx", "r12", LAYOUT["ndim"])
    call.if_one_of("rdx", (1, 2), has_axes)
    code.jump("undo")
    code.label(has_axes)
    code.load("r13", "rsp", _OPERAND)


def _load_operand(call: Making) -> None:
    """Let `r14` have the chain of the operand; a number of NumPy's own stands for Python's beside its dtype."""
    code, is_pythons = call.code, call.new_label()
    call.unless_type("r13", np.float64, is_pythons)
    code.set("rcx", id(FLOAT64))
    code.compare_with("r12", LAYOUT["dtype"], "rcx")
    code.jump("undo", "ne")
    code.move("rdi", "r13")
    code.call(objects.address("PyNumber_Float"))
    call.made(COST, "r13")
    code.store("rsp", _OPERAND, "r13")
    code.label(is_pythons)
    for number in (float, int):
        is_other = call.new_label()
        call.unless_type("r13", number, is_other)
        code.set("r14", id(NUMBERS[number]))
        code.jump("is number")
        code.label(is_other)
    find_chain(call)
    code.jump("has chain")
    code.label("is number")
    call.make_tuple(ENTRY, "rbp", "r13")
    code.set("rbx", id(0))
    code.set("r13", NONE)
    call.make_tuple(KEPT, "rdi", "r14", ("r14", STRUCTURE["kinds"]), "rbp", "rbx", "r13")
    code.move("r14", "rdi")
    code.label("has chain")


def _find_join(call: Making) -> None:
    """Let `rbx` have what the operation comes to by structures, which NumPy lets be written to the array's dtype."""
    code = call.code
    code.load("r13", "r12", LAYOUT["dtype"])
    call.select("r13", (STRUCTURE_OF, leaf_structure))
    call.make_tuple(LEAVES, "rdi", ("rsp", STRUCTURE_OF), ("r14", COMPUTED))
    code.move("rbp", "rdi")
    code.set("rbx", NONE)
    call.make_tuple(KEY, "rsi", "rbp", "rbx", "r13")
    code.load("rdi", "rsp", _GIVEN_OPERATION)
    code.load("rdi", "rdi", _OPERATION["alike"])
    code.call(objects.address("PyDict_GetItem"))
    code.compare_number("rax", 0)
    code.jump("undo", "e")
    code.move("rbx", "rax")
    call.keep_at(GRID, "rbx")
    code.load("rdx", "rbx", JOINED)
    call.unless_type("rdx", Structure, "undo")
    code.load("rdx", "rbx", _REASON)
    code.set("rcx", id(""))
    code.compare("rdx", "rcx")
    code.jump("undo", "ne")
    call.make_tuple(NEW_GRAPH, "rsi", "rbp", "r13")
    code.load("rdi", "rsp", _GIVEN_OPERATION)
    code.load("rdi", "rdi", _OPERATION["checked"])
    code.call(objects.address("PySet_Contains"))
    code.store("rsp", NUMBER, "rax")
    code.load_int("rax", "rsp", NUMBER)
    code.compare_number("rax", 1)
    code.jump("undo", "ne")


def _convert(call: Making) -> None:
    """Let `rbp` have the leaves that are added, a number as the operation takes it."""
    code = call.code
    code.load("rbp", "r14", ENTRIES)
    code.load("rdx", "rbx", SCALARS)
    code.compare_number_with("rdx", SIZE, 0)
    code.jump("is converted", "e")
    code.compare_number_with("rdx", SIZE, 1)
    code.jump("undo", "ne")
    code.load("rdx", "rdx", TUPLE_ITEMS)
    code.load("rdi", "rdx", TUPLE_ITEMS + 8)
    code.load("rsi", "rsp", _OPERAND)
    code.call(objects.address("PyObject_CallOneArg"))
    call.made(RESULT, "r13")
    call.make_tuple(PTR, "rbp", "r13")
    code.label("is converted")


def _write(call: Making) -> None:
    """Write what the operation comes to, and say whether that has been done."""
    code = call.code
    code.set("r13", NONE)
    call.make_tuple(NEW, "rdi", ("rbx", JOINED), ("r14", SEEN), "rbp", ("r14", MASK), "r13")
    code.load("rdx", "rsp", _ARRAY)
    give(call, ("rdx", HELD), "r12", "rdi", NONE, id(True))
    write_given(call, writing.address_of(call.kind))
    code.set("rcx", id(True))
    code.compare("rax", "rcx")
    code.jump("undo", "ne")
    _note_update(call)
    code.set("r14", id(True))
    code.jump("give back")


def _note_update(call: Making) -> None:
    """Note what a small part has been updated by, where accesses to such are counted."""
    code, is_noted = call.code, call.new_label()
    code.set("rax", id(accesses))
    code.compare_number_with("rax", SIZE, 0)
    code.jump(is_noted, "e")
    load_number(call, "rax", "r12", LAYOUT["nbytes"])
    code.compare_number("rax", SMALL_NBYTES)
    code.jump(is_noted, "g")
    code.load("rdx", "rsp", _ARRAY)
    give(call, ("rdx", HELD), ("r14", ENTRIES))
    call_given(call, note_update, 2)
    require_returned(call)
    code.label(is_noted)


def update_on_device(function: Function, operation: int, label: str) -> None:
    """Lay out a label: update the array in `rbx`, on the device, by what is in `rbp`, and return it."""
    code, address, of_whole = function.code, _address(function.kind), whole.address_of(function.kind)
    code.label(label)
    if not (address and of_whole):
        code.jump("general")
    code.load("r13", "rbx", HELD)
    code.compare_number("r13", 0)
    code.jump("general", "e")
    function.unless_type("r13", Storage, "general")
    code.set("rcx", NONE)
    code.compare_with("r13", STORED_HOST, "rcx")
    code.jump("general", "ne")
    code.set("rax", of_whole)
    code.compare_with("rbx", VIEW, "rcx")
    code.jump("is to be updated", "e")
    _require_writable_view(function)
    code.set("rax", address)
    code.label("is to be updated")
    code.set("rdi", operation)
    code.move("rsi", "rbx")
    code.move("rdx", "rbp")
    code.call_register("rax")
    code.move("r12", "rax")
    code.compare_number("r12", 0)
    code.jump("is not updated", "e")
    function.drop("r12")
    function.keep("rbx")
    code.move("rax", "rbx")
    code.jump("return")
    code.label("is not updated")
    code.call(objects.address("PyErr_Occurred"))
    code.compare_number("rax", 0)
    code.jump("general", "e")
    code.set("rax", 0)
    code.jump("return")


def _require_writable_view(function: Function) -> None:
    """Go to the general function unless the array in `rbx` is a view of one of ours."""
    code = function.code
    code.load("rdx", "rbx", VIEW)
    code.compare_number("rdx", 0)
    code.jump("general", "e")
    function.unless_type("rdx", function.kind, "general")


__all__ = ["JOINED", "SCALARS", "update_on_device"]

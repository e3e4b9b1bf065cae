"""Calls that record what they have recorded before, in machine code: shifts, and arrays that are filled like others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from oxinp._core.lazy import schedule
from oxinp._core.lazy.calls import Pending
from oxinp._core.lazy.expr import Graph
from oxinp._core.lazy.results import pending
from oxinp._core.memory.layout import Layout
from oxinp._core.memory.storage import SHARED, Storage
from oxinp._core.native import objects
from oxinp._core.native.binary import require_recording
from oxinp._core.native.function import HELD, KNOWN, NONE, STORED_HOST, VALUE
from oxinp._core.native.given import ROOM, call_given, give
from oxinp._core.native.joining import ENTRIES_AT, GRAPH_AT, MASK_AT
from oxinp._core.native.leaves import load_number
from oxinp._core.native.making import GIVEN_VALUE, GRAPH, KEY, LAYOUT, LEAVES, NEW, RESULT, Making
from oxinp._core.native.objects import SIZE, TUPLE_ITEMS, TYPE
from oxinp._core.native.operand import find_known
from oxinp._core.ops.made_like import FILLED
from oxinp._core.ops.roll import ASKED

_AXIS = ("axis",)
_FOUND_GRAPH, _FOUND_LEAVES = (TUPLE_ITEMS + 8 * i for i in range(2))
"""Where what has been recorded has what."""


def rolled(kind: type, before: int | None) -> bytes:
    """Return the code of a call of `roll` along one axis, of an array of the device: what `ops.roll.again` says."""
    call = Making(kind, before, ROOM)
    code = call.code
    call.begin_arguments()
    code.compare_number("rcx", 0)
    code.jump("axis by keyword", "ne")
    code.compare_number("rdx", 2 * 3)
    code.jump("general", "ne")
    code.jump("has arguments")
    code.label("axis by keyword")  # it comes behind the others all the same
    code.compare_number("rdx", 2 * 2)
    code.jump("general", "ne")
    code.compare_number_with("rcx", SIZE, 1)
    code.jump("general", "ne")
    code.load("rdx", "rcx", TUPLE_ITEMS)
    code.set("rax", id(_AXIS[0]))
    code.compare("rdx", "rax")
    code.jump("general", "ne")
    code.label("has arguments")
    for place in (8, 16):
        code.load("rdx", "rbp", place)
        call.unless_type("rdx", int, "general")
    _load_array(call)
    code.set("rcx", id(True))
    code.compare_with("r12", LAYOUT["is_contiguous"], "rcx")
    code.jump("undo", "ne")
    code.set("rcx", NONE)
    code.load("rdx", "r12", LAYOUT["_form"])
    code.compare("rdx", "rcx")
    code.jump("undo", "e")
    call.make_tuple(KEY, "rsi", ("r12", LAYOUT["_form"]), ("rbp", 8), ("rbp", 16))
    _find(call, ASKED)
    _compute(call)
    code.load("rdi", "r14", ENTRIES_AT)
    code.load("rsi", "r13", _FOUND_LEAVES)
    code.call(objects.address("PySequence_Concat"))
    call.made(LEAVES, "rax")
    give(call, ("r13", _FOUND_GRAPH), ("rsp", LEAVES), ("r14", MASK_AT))
    _return_pending(call)
    return code.assembled()


def filled_like(make: Callable[..., Any]) -> Callable[[type, int | None], bytes]:
    """Return what makes the code of a call of `zeros_like` or its kin, of an array of the device, by what fills it."""

    def code_of(kind: type, before: int | None) -> bytes:
        call = Making(kind, before, ROOM)
        call.begin_call(1)
        call.code.label("1 arguments")
        _load_array(call)
        call.keep_at(KEY, "r12")
        _find(call, FILLED[make])
        give(call, ("r13", _FOUND_GRAPH), ("r13", _FOUND_LEAVES), id(0))
        _return_pending(call)
        return call.code.assembled()

    return code_of


def _load_array(call: Making) -> None:
    """Let `rbx` have the storage of the first argument, an array that is on the device alone, and `r12` its layout."""
    code = call.code
    code.load("r12", "rbp", 0)
    call.unless_type("r12", call.kind, "general")
    code.load("rbx", "r12", HELD)
    code.compare_number("rbx", 0)
    code.jump("general", "e")
    call.unless_type("rbx", Storage, "general")
    code.set("rcx", NONE)
    code.compare_with("rbx", STORED_HOST, "rcx")
    code.jump("general", "ne")
    call.begin_made()
    require_recording(call)
    find_known(call, "r12")
    code.load("r12", "r12", KNOWN)
    call.unless_type("r12", Layout, "undo")


def _find(call: Making, table: dict[Any, Any]) -> None:
    """Let `r13` have what a table has for the key on the stack; leave to Python what is not there."""
    code = call.code
    code.set("rdi", id(table))
    code.load("rsi", "rsp", KEY)
    code.call(objects.address("PyDict_GetItem"))
    code.compare_number("rax", 0)
    code.jump("undo", "e")
    code.move("r13", "rax")
    call.keep_at(RESULT, "r13")


def _compute(call: Making) -> None:
    """Let `r14` have the value of the storage in `rbx`, with the layout in `r12`; what is pending is computed."""
    code = call.code
    code.load("r14", "rbx", VALUE)
    call.unless_type("r14", tuple, "undo")
    code.load("rdx", "r14", GRAPH_AT)
    call.unless_type("rdx", Graph, "undo")
    code.load("rdx", "rdx", GRAPH["nodes"])
    code.compare_number_with("rdx", SIZE, 0)
    code.jump("is pending", "ne")
    code.load("rdx", "r14", ENTRIES_AT)
    code.load("rdx", "rdx", TUPLE_ITEMS)
    code.load("rdx", "rdx", TYPE)
    call.if_one_of("rdx", (Pending,), "is pending")
    call.keep_at(GIVEN_VALUE, "r14")
    code.jump("is computed")
    code.label("is pending")
    give(call, "rbx")
    call_given(call, schedule.materialise, 1)
    call.made(GIVEN_VALUE, "r14")
    call.unless_type("r14", tuple, "undo")
    code.label("is computed")
    code.load("rdx", "r14", GRAPH_AT)
    code.compare_with("rdx", GRAPH["layout"], "r12")
    code.jump("undo", "ne")
    load_number(call, "rax", "r14", MASK_AT)
    code.shift_right("rax", SHARED.bit_length() - 1)
    code.compare_number("rax", 0)
    code.jump("undo", "ne")


def _return_pending(call: Making) -> None:
    """Return what is pending of a graph, leaves and a mask that have been given."""
    call_given(call, pending, 3)
    call.made(NEW, "r14")
    call.end_making("r14")


__all__ = ["filled_like", "rolled"]

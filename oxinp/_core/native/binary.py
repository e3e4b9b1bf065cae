"""An operation on arrays of the device, or one and a number, in machine code: what is recorded of it, as a rule.

That is what `operator_texts` says.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np

from oxinp._core.lazy import schedule
from oxinp._core.lazy.balance import balance
from oxinp._core.lazy.combining import renew_pair
from oxinp._core.lazy.expr import Graph, Operation, Record
from oxinp._core.lazy.handle import chain
from oxinp._core.lazy.results import pending
from oxinp._core.memory.dtypes import DEVICE_TYPES
from oxinp._core.memory.layout import Layout
from oxinp._core.memory.storage import SHARED, Storage
from oxinp._core.native import joining, objects
from oxinp._core.native.function import HELD, KNOWN, LIMIT, NONE, STORED_HOST, VALUE, Function
from oxinp._core.native.given import ROOM, call_given, give
from oxinp._core.native.joining import ENTRIES_AT, GRAPH_AT, MASK_AT
from oxinp._core.native.leaves import load_number
from oxinp._core.native.making import (
    COST,
    ENTRY,
    GIVEN_VALUE,
    GRAPH,
    KEPT,
    KEY,
    LAYOUT,
    LEAVES,
    NEW,
    PTR,
    RECORD,
    RESULT,
    Making,
    offsets,
)
from oxinp._core.native.objects import SIZE, TUPLE_ITEMS, TYPE
from oxinp._core.native.operand import find_known, require_usual, unless_ours
from oxinp._core.native.places import load_small

_PAIRS = offsets(Operation, ("pairs",))["pairs"]
SECOND, GIVEN_OPERATION, FIRST = (8 * i for i in range(3))
"""Where on the stack there is what it is asked about."""
_NUMBERS = (float, *(dtype.type for dtype in DEVICE_TYPES if dtype.kind in "biuf"))
"""Types of numbers that an operation may be recorded with, beside Python's integers, of which not all are plain."""


@functools.cache
def _address(kind: type) -> int:
    """Return where the code lies that records an operation on two operands; 0 if there is none.

    It returns a new reference; or 0 where an error has been raised, and where Python is to do it.
    """
    if objects.VECTORCALL is None:  # see `updating`
        return 0
    call = Making(kind, None, joining.ROOM)
    code = call.code
    begin_recording(call)
    code.load("rbx", "rsp", FIRST)
    code.load("rbp", "rsp", SECOND)
    unless_ours(call, "rbx", "number first")
    unless_ours(call, "rbp", "number last")
    record_two(call)
    _record_number(call, is_first=True)
    _record_number(call, is_first=False)
    code.label("has leaves")
    _return_pending(call, ("rsp", LEAVES))
    return call.end_made()


@functools.cache
def address_of_one(kind: type) -> int:
    """Return where the code lies that records an operation on one operand, as `_address` does on two."""
    if objects.VECTORCALL is None:
        return 0
    call = Making(kind, None, ROOM)
    code = call.code
    begin_recording(call)
    code.load("rbx", "rsp", FIRST)
    unless_ours(call, "rbx", "undo")
    load_value(call, "rbx", GIVEN_VALUE, "r13", is_on_device=True)
    load_number(call, "rax", "r13", MASK_AT)
    code.shift_right("rax", SHARED.bit_length() - 1)
    code.compare_number("rax", 0)
    code.jump("undo", "ne")
    call.make_tuple(KEY, "rdi", ("r13", GRAPH_AT))
    _find_record(call, "of one")
    code.load("r14", "r13", MASK_AT)
    _return_pending(call, ("r13", ENTRIES_AT))
    return call.end_made()


def begin_recording(call: Making) -> None:
    """Begin with an operation and what it is asked about, and go on where everything is as it usually is."""
    code = call.code
    call.begin()
    code.store("rsp", GIVEN_OPERATION, "rbx")
    code.store("rsp", FIRST, "rbp")
    call.begin_made()
    require_recording(call)


def require_recording(call: Making) -> None:
    """Go on where everything is as it usually is, and the device's whatever its size."""
    code = call.code
    require_usual(call)
    code.set("rax", id(schedule.PENDING))
    code.compare_number_with("rax", SIZE, schedule.MAX_PENDING)
    code.jump("undo", "ge")
    code.set("rax", id(balance))
    code.set("rcx", id(0))
    code.compare_with("rax", LIMIT, "rcx")
    code.jump("undo", "ne")


def _return_pending(call: Making, leaves: tuple[str, int]) -> None:
    """Return what is pending of the record in `r12`, on leaves that lie somewhere and with the mask in `r14`."""
    give(call, ("r12", RECORD["graph"]), leaves, "r14")
    call_given(call, pending, 3)
    call.code.move("r14", "rax")
    call.code.jump("give back")


def load_value(call: Making, array: str, place: int, target: str, *, is_on_device: bool) -> None:
    """Let a register have the value of what an array reads, a chain, and the stack, too."""
    code, is_whole, is_loaded = call.code, call.new_label(), call.new_label()
    code.load("rdx", array, HELD)
    code.compare_number("rdx", 0)
    code.jump("undo", "e")
    call.unless_type("rdx", Storage, "undo")
    if is_on_device:
        code.set("rcx", NONE)
        code.compare_with("rdx", STORED_HOST, "rcx")
        code.jump("undo", "ne")
    code.load(target, "rdx", VALUE)
    call.unless_type(target, tuple, "undo")
    code.load("rdx", target, GRAPH_AT)
    call.unless_type("rdx", Graph, "undo")
    code.load("rax", array, KNOWN)
    code.compare_with("rdx", GRAPH["layout"], "rax")
    code.jump(is_whole, "e")
    find_known(call, array)
    give(call, array)
    call_given(call, chain, 1)
    call.made(place, target)
    call.unless_type(target, tuple, "undo")
    code.jump(is_loaded)
    code.label(is_whole)
    call.keep_at(place, target)
    code.label(is_loaded)


def record_two(call: Making) -> None:
    """Let `r12` have what the operation comes to on two arrays, the stack the leaves, and `r14` the mask."""
    code = call.code
    load_value(call, "rbx", GIVEN_VALUE, "r13", is_on_device=True)
    load_value(call, "rbp", KEPT, "r14", is_on_device=False)
    join_masks(call)
    code.compare_number("rbx", 0)
    code.jump("apart", "e")
    _find_shared(call)
    code.label("apart")
    call.make_tuple(KEY, "rdi", ("r13", GRAPH_AT), ("r14", GRAPH_AT))
    code.load("rdi", "r13", ENTRIES_AT)
    code.load("rsi", "r14", ENTRIES_AT)
    code.call(objects.address("PySequence_Concat"))
    call.made(LEAVES, "rax")
    code.label("has key")
    _find_record(call, "of two")
    code.load("r14", "rsp", COST)
    code.jump("has leaves")


def join_masks(call: Making) -> None:
    """Let the stack have the mask of both values, in `r13` and `r14`, and `rbx` the bits that they have in common."""
    code = call.code
    load_number(call, "rbx", "r13", MASK_AT)
    load_number(call, "rbp", "r14", MASK_AT)
    code.move("rdi", "rbx")
    code.or_register("rdi", "rbp")
    code.move("rax", "rdi")
    code.shift_right("rax", SHARED.bit_length() - 1)
    code.compare_number("rax", 0)
    code.jump("undo", "ne")
    code.call(objects.address("PyLong_FromSsize_t"))
    call.made(COST, "rax")
    code.and_register("rbx", "rbp")


def _find_shared(call: Making) -> None:
    """Go to ``has key`` with the place in the key where the only leaf of the second is one of the first.

    Of more leaves that are shared go to ``has leaves`` with the record.
    """
    code, is_next = call.code, call.new_label()
    code.load("rdx", "r14", ENTRIES_AT)
    code.compare_number_with("rdx", SIZE, 1)
    code.jump("has several leaves", "ne")
    code.load("rdx", "rdx", TUPLE_ITEMS)
    code.load("rsi", "r13", ENTRIES_AT)
    code.load("rcx", "rsi", SIZE)
    code.set("rdi", 0)
    code.label(is_next)
    code.compare("rdi", "rcx")
    code.jump("apart", "e")
    code.load_at("rax", "rsi", "rdi", 8, TUPLE_ITEMS)
    code.add("rdi", 1)
    code.compare("rax", "rdx")
    code.jump(is_next, "ne")
    code.add("rdi", -1)
    code.call(objects.address("PyLong_FromSsize_t"))
    call.made(PTR, "rbx")
    call.make_tuple(KEY, "rdi", ("r13", GRAPH_AT), ("r14", GRAPH_AT), "rbx")
    code.load("rbx", "r13", ENTRIES_AT)
    call.keep_at(LEAVES, "rbx")
    code.jump("has key")
    code.label("has several leaves")
    joining.join_leaves(call, "apart")
    code.set("rbx", NONE)
    call.make_tuple(KEY, "rdi", ("r13", GRAPH_AT), ("r14", GRAPH_AT), ("rsp", PTR), "rbx")
    joining.find_joined(call, GIVEN_OPERATION, is_in_place=False)
    require_record(call)
    code.load("r14", "rsp", COST)
    code.jump("has leaves")


def load_number_beside(call: Making, array: str, number: str, place: int) -> None:
    """Let a register with a float of NumPy's beside an array of its dtype, which the stack keeps, have Python's.

    It means the same there.
    """
    code, is_other = call.code, call.new_label()
    for kind in (np.float64, np.float32):
        is_next = call.new_label()
        call.unless_type(number, kind, is_next)
        code.load("rdx", array, KNOWN)
        code.compare_number("rdx", 0)
        code.jump("undo", "e")
        call.unless_type("rdx", Layout, "undo")
        code.set("rcx", id(np.dtype(kind)))
        code.compare_with("rdx", LAYOUT["dtype"], "rcx")
        code.jump(is_other, "ne")
        code.move("rdi", number)
        code.call(objects.address("PyNumber_Float"))
        call.made(place, number)
        code.jump(is_other)
        code.label(is_next)
    code.label(is_other)


def _record_number(call: Making, *, is_first: bool) -> None:
    """Lay out ``number first`` or ``number last``: the same of an array and a number of Python's."""
    code, name = call.code, "first" if is_first else "last"
    array, number = ("rbp", "rbx") if is_first else ("rbx", "rbp")
    code.label(f"number {name}")
    call.unless_type(array, call.kind, "undo")
    is_known = call.new_label()
    load_number_beside(call, array, number, PTR)
    code.load("r12", number, TYPE)
    call.if_one_of("r12", _NUMBERS, is_known)
    call.unless_type(number, int, "undo")
    load_small(call, "rax", number, "undo")
    code.label(is_known)
    load_value(call, array, GIVEN_VALUE, "r13", is_on_device=True)
    load_number(call, "rax", "r13", MASK_AT)
    code.shift_right("rax", SHARED.bit_length() - 1)
    code.compare_number("rax", 0)
    code.jump("undo", "ne")
    parts: tuple[tuple[str, int] | str, ...] = ("r13", GRAPH_AT), "r12"
    call.make_tuple(KEY, "rdi", *(reversed(parts) if is_first else parts))
    _find_record(call, f"of number {name}")
    code.load("rdx", "r12", RECORD["convert"])
    call.unless_type("rdx", tuple, "undo")
    code.load("rdi", "rdx", TUPLE_ITEMS + 8 * (not is_first))
    code.move("rsi", number)
    code.call(objects.address("PyObject_CallOneArg"))
    call.made(NEW, "rdx")
    call.make_tuple(ENTRY, "rdi", ("rsp", NEW))
    code.load("rsi", "r13", ENTRIES_AT)
    if not is_first:
        code.move("rax", "rdi")
        code.move("rdi", "rsi")
        code.move("rsi", "rax")
    code.call(objects.address("PySequence_Concat"))
    call.made(LEAVES, "rax")
    code.load("r14", "r13", MASK_AT)
    code.jump("has leaves")


def _find_record(call: Making, label: str) -> None:
    """Let `r12` have the record that the operation has for a key on the stack, found or made."""
    code = call.code
    code.load("rdi", "rsp", GIVEN_OPERATION)
    code.load("rdi", "rdi", _PAIRS)
    code.load("rsi", "rsp", KEY)
    code.call(objects.address("PyDict_GetItem"))
    code.move("r12", "rax")
    code.compare_number("r12", 0)
    code.jump(f"{label} new", "e")
    call.keep_at(RESULT, "r12")
    code.jump(f"{label} found")
    code.label(f"{label} new")
    give(call, ("rsp", GIVEN_OPERATION), ("rsp", KEY))
    call_given(call, renew_pair, 2)
    call.made(RESULT, "r12")
    code.label(f"{label} found")
    require_record(call)


def require_record(call: Making) -> None:
    """Go on if `r12` has the record of what the device computes."""
    code = call.code
    call.unless_type("r12", Record, "undo")
    code.load("rdx", "r12", RECORD["graph"])
    call.unless_type("rdx", Graph, "undo")
    code.load("rdx", "r12", RECORD["layout"])
    call.unless_type("rdx", Layout, "undo")


def record_operation(function: Function, operation: int | Callable[[], None], *operands: str) -> None:
    """Return what is recorded of operands in registers; others are left to Python.

    The operation is an object, or what lets `rdi` have it.
    """
    code = function.code
    address = (address_of_one if len(operands) == 1 else _address)(function.kind)
    if not address:
        code.jump("general")
    if callable(operation):
        operation()
    else:
        code.set("rdi", operation)
    for target, operand in zip(("rsi", "rdx"), operands, strict=False):
        code.move(target, operand)
    code.call(address)
    function.return_or_go_on()
    code.jump("return")


__all__ = [
    "FIRST",
    "GIVEN_OPERATION",
    "SECOND",
    "address_of_one",
    "begin_recording",
    "join_masks",
    "load_number_beside",
    "load_value",
    "record_operation",
    "record_two",
    "require_record",
    "require_recording",
]

"""A part of an array on the device that is assigned to, in machine code: what `ops.index.setitem` does, as a rule.

That is a number, or an array that is on the device only, computed or not, whose like has been written before.
"""

from __future__ import annotations

import functools

import numpy as np

from oxinp._core.lazy.balance import balance
from oxinp._core.lazy.calls import CALLS, Pending
from oxinp._core.lazy.expr import MAX_NDIM, Graph, Structure, scalar
from oxinp._core.lazy.placement import SMALL_NBYTES, accesses, followers
from oxinp._core.lazy.record import COPY
from oxinp._core.lazy.results import types
from oxinp._core.lazy.straight import assign as _assign
from oxinp._core.memory.layout import Layout
from oxinp._core.memory.storage import Storage
from oxinp._core.native import objects, writing
from oxinp._core.native.apart import require_same
from oxinp._core.native.function import FLOAT64, HELD, KNOWN, LIMIT, NONE, STORED_HOST, VALUE, VIEW
from oxinp._core.native.given import ROOM, call_given, give, write_given
from oxinp._core.native.launching import COMPUTED, ENTRIES, STRUCTURE
from oxinp._core.native.leaves import PENDING, load_number
from oxinp._core.native.making import (
    COST,
    ENTRY,
    GRAPH,
    KEPT,
    KEY,
    LAYOUT,
    NEW_GRAPH,
    NUMBER,
    RESULT,
    Making,
)
from oxinp._core.native.making import STRUCTURE as PARTS
from oxinp._core.native.objects import SIZE, TUPLE_ITEMS, TYPE
from oxinp._core.native.operand import find_chain, require_usual
from oxinp._core.native.places import load_small
from oxinp._core.native.updating import JOINED, SCALARS

_VALUE, _ARRAY, _SOURCE = (8 * i for i in range(3))
"""Where on the stack there is what is assigned, the array, and the storage whose value is written."""
_FILLED = (scalar(FLOAT64).structure,), None, FLOAT64


@functools.cache
def address_of(kind: type, part: int) -> int:
    """Return where the code lies that writes to a part of an array; 0 if there is none.

    It is given the array, the key and the value, and returns None; True where the value is to be computed first; or 0
    where an error has been raised, and where Python is to do it. None of these is counted. At `part` lies the code that
    finds the layout of a part.
    """
    if objects.VECTORCALL is None:  # objects that are not counted come with this, and a collector that waits its turn
        return 0
    call = Making(kind, None, ROOM)
    code = call.code
    call.begin()
    code.store("rsp", _ARRAY, "rbx")
    call.begin_made()
    _load_part(call, part)
    code.load("r13", "rsp", _VALUE)
    code.load("rdx", "r13", TYPE)
    call.if_one_of("rdx", (float, int, np.float64), "number")
    _require_other(call)
    _require_plain(call)
    require_usual(call)
    _load_value(call)
    _write_chain(call)
    _assign_in_python(call)
    code.label("number")
    _require_plain(call)
    require_usual(call)
    _fill(call)
    code.label("done")
    code.set("r14", NONE)
    code.jump("give back")
    return call.end_made()


def _load_part(call: Making, part: int) -> None:
    """Let `r12` have the layout of the part, of an array in `rbx` that may be written to and is on the device only."""
    code, is_whole = call.code, call.new_label()
    code.load("rdx", "rbx", VIEW)
    code.set("rcx", NONE)
    code.compare("rdx", "rcx")
    code.jump(is_whole, "e")
    code.compare_number("rdx", 0)
    code.jump("undo", "e")
    call.unless_type("rdx", call.kind, "undo")
    code.label(is_whole)
    code.load("rdx", "rbx", HELD)
    code.compare_number("rdx", 0)
    code.jump("undo", "e")
    call.unless_type("rdx", Storage, "undo")
    code.set("rcx", NONE)
    code.compare_with("rdx", STORED_HOST, "rcx")
    code.jump("undo", "ne")
    code.load("rdi", "rbx", KNOWN)
    code.compare_number("rdi", 0)
    code.jump("undo", "e")
    call.unless_type("rdi", Layout, "undo")
    code.move("rsi", "rbp")
    code.call(part)
    call.made(NEW_GRAPH, "rdx")
    code.set("rcx", id(False))
    code.compare_with("rdx", TUPLE_ITEMS + 8, "rcx")
    code.jump("undo", "ne")
    code.load("r12", "rdx", TUPLE_ITEMS)
    code.load("rdx", "r12", LAYOUT["size"])
    call.if_one_of("rdx", (0, 1), "undo")
    code.load("rdx", "r12", LAYOUT["ndim"])
    call.if_one_of("rdx", range(1, MAX_NDIM + 1), "has axes")
    code.jump("undo")
    code.label("has axes")
    _require_part(call)


def _require_part(call: Making) -> None:
    """Go on if not all of the array is written."""
    code = call.code
    code.load("rdi", "rbx", KNOWN)
    load_number(call, "r14", "rdi", LAYOUT["size"])
    load_number(call, "rax", "r12", LAYOUT["size"])
    code.compare("rax", "r14")
    code.jump("undo", "e")


def _require_other(call: Making) -> None:
    """Go on with an array or a scalar that is on the device only, in `r13`; go to ``done`` with the very part."""
    code, is_array, is_other, is_another, is_elsewhere = call.code, *(call.new_label() for _ in range(4))
    call.unless_type("r13", call.kind, is_other)
    code.jump(is_array)
    code.label(is_other)
    call.unless_type("rdx", types.scalar_type, "undo")
    code.label(is_array)
    code.load("rdx", "r13", HELD)
    code.compare_number("rdx", 0)
    code.jump("undo", "e")
    call.unless_type("rdx", Storage, "undo")
    code.compare_with("rbx", HELD, "rdx")
    code.jump(is_elsewhere, "ne")
    code.load("rdi", "r13", KNOWN)
    code.compare("rdi", "r12")
    code.jump("done", "e")
    code.compare_number("rdi", 0)
    code.jump("undo", "e")
    call.unless_type("rdi", Layout, "undo")
    load_number(call, "r14", "rdi", LAYOUT["offset"])
    load_number(call, "rax", "r12", LAYOUT["offset"])
    code.compare("rax", "r14")
    code.jump(is_another, "ne")
    for name in ("shape", "strides"):
        code.load("rdi", "r13", KNOWN)
        require_same(call, "rdi", "r12", LAYOUT[name], is_another)
    code.load("rdi", "r13", KNOWN)
    code.load("rdx", "r12", LAYOUT["dtype"])
    code.compare_with("rdi", LAYOUT["dtype"], "rdx")
    code.jump("done", "e")
    code.jump("undo")
    code.label(is_another)
    code.load("rdx", "r13", HELD)
    code.label(is_elsewhere)
    code.set("rcx", NONE)
    code.compare_with("rdx", STORED_HOST, "rcx")
    code.jump("undo", "ne")


def _require_plain(call: Making) -> None:
    """Go on if nothing speaks for the host, as `setitem` has it: nothing is known, and the part is not small."""
    code = call.code
    code.set("rax", id(balance))
    code.set("rcx", id(0))
    code.compare_with("rax", LIMIT, "rcx")
    code.jump("undo", "ne")
    load_number(call, "rax", "r12", LAYOUT["nbytes"])
    code.compare_number("rax", SMALL_NBYTES)
    code.jump("undo", "le")
    for table in (accesses, followers):
        is_empty = call.new_label()
        code.set("rax", id(table))
        code.compare_number_with("rax", SIZE, 0)
        code.jump(is_empty, "e")
        code.load("rdi", "rbx", HELD)
        code.set("rsi", 0)
        code.call(objects.address("PyWeakref_NewRef"))
        call.made(COST, "rsi")
        code.set("rdi", id(table))
        code.call(objects.address("PyDict_Contains"))
        code.store("rsp", NUMBER, "rax")
        code.load("r15", "rsp", COST)
        code.set("rax", 0)
        code.store("rsp", COST, "rax")
        call.drop("r15")
        code.load_int("rax", "rsp", NUMBER)
        code.compare_number("rax", 0)
        code.jump("undo", "ne")
        code.label(is_empty)


def _load_value(call: Making) -> None:
    """Let `r14` have the chain of the value, and the stack the storage whose value it is, if it has to be computed.

    Go to ``with calls`` for what calls that wait may compute along rows.
    """
    code, has_source, is_free = call.code, call.new_label(), call.new_label()
    code.set("rax", id(CALLS))
    code.compare_number_with("rax", SIZE, 0)
    code.jump(is_free, "e")
    code.load("rdx", "r13", HELD)
    code.load("rdx", "rdx", VALUE)
    call.unless_type("rdx", tuple, "undo")
    code.load("rdx", "rdx", TUPLE_ITEMS)
    call.unless_type("rdx", Graph, "undo")
    code.load("rdx", "rdx", GRAPH["nodes"])
    code.compare_number_with("rdx", SIZE, 0)
    code.jump("with calls", "ne")
    code.label(is_free)
    find_chain(call)
    code.load("rbx", "rsp", _ARRAY)
    code.load("r13", "rsp", _VALUE)
    code.load("rsi", "r14", COMPUTED)
    code.load("rdx", "r12", LAYOUT["dtype"])
    code.compare_with("rsi", STRUCTURE["dtype"], "rdx")
    code.jump("undo", "ne")
    code.load("rdx", "r13", HELD)
    code.store("rsp", _SOURCE, "rdx")
    code.load("rdx", "rsi", PARTS["nodes"])
    code.compare_number_with("rdx", SIZE, 0)
    code.jump(has_source, "ne")
    code.set("rdx", NONE)
    code.store("rsp", _SOURCE, "rdx")
    code.load("rdx", "r14", ENTRIES)
    code.load("rdx", "rdx", TUPLE_ITEMS)
    call.unless_type("rdx", Pending, has_source)
    code.set("rcx", NONE)
    code.compare_with("rdx", PENDING["call"], "rcx")
    code.jump("undo", "ne")
    code.label(has_source)


def _write_chain(call: Making) -> None:
    """Write the chain in `r14`, unless it reads what would be written before."""
    code = call.code
    give(call, ("rbx", HELD), "r12", "r14", ("rsp", _SOURCE), id(False))
    write_given(call, writing.address_of(call.kind))
    code.set("rcx", NONE)
    code.compare("rax", "rcx")
    code.jump("done", "ne")
    code.compare_with("rsp", _SOURCE, "rcx")
    code.jump("undo", "e")
    code.set("r14", id(True))
    code.jump("give back")


def _assign_in_python(call: Making) -> None:
    """Lay out ``with calls``: Python writes the value, of which all that is to be found out first is known."""
    code = call.code
    code.label("with calls")
    give(call, "rbx", "r12", "r13")
    call_given(call, _assign, 3)
    code.compare_number("rax", 0)
    code.jump("raised", "e")
    code.set("rcx", id(True))
    code.compare("rax", "rcx")
    code.jump("undo", "ne")
    code.jump("done")


def _fill(call: Making) -> None:
    """Write a number to a part of an array of float64."""
    code = call.code
    code.set("rcx", id(FLOAT64))
    code.compare_with("r12", LAYOUT["dtype"], "rcx")
    code.jump("undo", "ne")
    call.unless_type("r13", int, "is float")
    load_small(call, "rax", "r13", "undo")
    code.label("is float")
    code.set("rdi", id(np.float64))
    code.move("rsi", "r13")
    code.call(objects.address("PyObject_CallOneArg"))
    call.made(KEY, "r13")
    code.set("rdi", id(COPY.joins))
    code.set("rsi", id(_FILLED))
    code.call(objects.address("PyDict_GetItem"))
    code.compare_number("rax", 0)
    code.jump("undo", "e")
    code.move("rbp", "rax")
    call.keep_at(KEPT, "rbp")
    code.load("r14", "rbp", JOINED)
    call.unless_type("r14", Structure, "undo")
    code.load("rdx", "rbp", SCALARS)
    code.compare_number_with("rdx", SIZE, 1)
    code.jump("undo", "ne")
    code.load("rdx", "rdx", TUPLE_ITEMS)
    code.load("rdi", "rdx", TUPLE_ITEMS + 8)
    code.move("rsi", "r13")
    code.call(objects.address("PyObject_CallOneArg"))
    call.made(ENTRY, "rdi")
    call.make_tuple(RESULT, "rbp", ("rsp", ENTRY))
    code.set("r13", id(0))
    code.set("rbx", NONE)
    call.make_tuple(COST, "rdi", "r14", ("r14", PARTS["kinds"]), "rbp", "r13", "rbx")
    code.load("rdx", "rsp", _ARRAY)
    give(call, ("rdx", HELD), "r12", "rdi", NONE, id(False))
    write_given(call, writing.address_of(call.kind))
    code.jump("done")


__all__ = ["address_of"]

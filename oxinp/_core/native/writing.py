"""A chain that is written to a part of an array on the device, in machine code: what `straight.write_part` does.

That is so where the like has run before, whose launch takes arithmetic, and of what has a launcher of its own; nothing
is called that runs Python's code but for what is computed first because it reads what is written. Before the launch
whatever else is not as usual is left to Python, which begins again. What that raises, and all from the launch on, is
raised.
"""

from __future__ import annotations

import functools

from oxinp._core.lazy.balance import balance
from oxinp._core.lazy.calls import CALLS, Call
from oxinp._core.lazy.chains import ByArithmetic, note_again
from oxinp._core.lazy.executor import Executable
from oxinp._core.lazy.expr import Graph, Structure
from oxinp._core.lazy.placement import followers, singles
from oxinp._core.lazy.writing import MAX_GONE, flush_readers, weigh_write
from oxinp._core.memory.layout import Layout
from oxinp._core.memory.recent import MEETINGS
from oxinp._core.memory.storage import SHARED, Storage
from oxinp._core.native import apart, objects
from oxinp._core.native.apart import HELD_BUFFER, INDEX, MET, READS, START
from oxinp._core.native.function import LIMIT, NONE, STALE, STORED_HOST, VALUE
from oxinp._core.native.given import ROOM, call_given, give, require_returned
from oxinp._core.native.launching import (
    ARGS,
    CHAIN_AT,
    COMPUTED,
    ENTRIES,
    GRAPH_OF,
    LATER,
    LAYOUT_AT,
    MASK,
    SEEN,
    SOURCE_AT,
    STORAGE_AT,
    STRUCTURE,
    find_launch,
    launch,
)
from oxinp._core.native.leaves import BUFFER_PTR, load_buffer, load_number
from oxinp._core.native.locking import answered, locked
from oxinp._core.native.making import GIVEN_VALUE, GRAPH, GRID, KEPT, LAYOUT, NEW, NUMBER, PTR, Making, offsets
from oxinp._core.native.objects import LIST_ITEMS, SIZE, TUPLE_ITEMS
from oxinp._core.native.places import load_small
from oxinp._core.native.reading_back import read_back
from oxinp._core.native.waiting import begin_pending, load_next_pending
from oxinp._core.native.weighing import tell_whether_due, weigh
from oxinp._runtime.memory import Buffer

_CALL = offsets(Call, ("leaves", "mask"))
_OWN_MASK = 16
"""Where on the stack there are the bits of what is written to, see `memory.storage`."""


@functools.cache
def _address(kind: type) -> int:
    """Return where the code lies that writes, given where the arguments are; 0 if the system forbids that.

    It returns a new reference; or 0 where an error has been raised, and where Python is to do it.
    """
    call = Making(kind, None, ROOM)
    code = call.code
    call.begin()
    code.store("rsp", ARGS, "rbx")
    code.move("rbp", "rbx")
    call.begin_made()
    _load_storage(call)
    _load_layout(call)
    _load_chain(call)
    _load_start(call)
    apart.require_apart(call, SEEN, ENTRIES, "meets itself")
    _load_program(call)
    _flush(call)
    find_launch(call)
    _make_value(call)
    launch(call)
    _note_written(call)
    _note_run(call)
    _count_single(call)
    _weigh(call)
    read_back(call)
    code.set("r14", id(True))
    code.jump("done")
    code.label("meets itself")
    code.set("r14", NONE)
    code.label("done")
    call.keep("r14")
    code.jump("give back")
    return call.end_made()


@functools.cache
def address_of(kind: type) -> int:
    """Return where the code lies that does that under the device's lock, unless another thread has it.

    0 if the system forbids that.
    """
    return locked(kind, _address(kind))


def write_part(kind: type, before: int | None) -> bytes:
    """Return the code of a call of `straight.write_part`."""
    return answered(kind, before, 5, address_of(kind))


def _load_storage(call: Making) -> None:
    """Let `rbx` have the storage, which is on the device alone, and `r14` its value, that of an array."""
    code = call.code
    code.load("rbx", "rbp", STORAGE_AT)
    call.unless_type("rbx", Storage, "undo")
    _require_device(call)
    code.load("r14", "rbx", VALUE)
    call.unless_type("r14", tuple, "undo")
    call.keep_at(GIVEN_VALUE, "r14")
    code.load("rdx", "r14", TUPLE_ITEMS)
    call.unless_type("rdx", Graph, "undo")
    code.load("rdx", "rdx", GRAPH["nodes"])
    code.compare_number_with("rdx", SIZE, 0)
    code.jump("undo", "ne")
    code.load("rdx", "r14", TUPLE_ITEMS + 8)
    call.unless_type("rdx", tuple, "undo")
    code.compare_number_with("rdx", SIZE, 1)
    code.jump("undo", "ne")
    code.load("rdi", "rdx", TUPLE_ITEMS)
    load_buffer(call, "rdi", "rsi", "undo")
    call.unless_type("rsi", Buffer, "undo")
    code.store("rsp", HELD_BUFFER, "rsi")


def _require_device(call: Making) -> None:
    code = call.code
    code.set("rcx", NONE)
    for at in (STORED_HOST, STALE):
        code.compare_with("rbx", at, "rcx")
        code.jump("undo", "ne")


def _load_layout(call: Making) -> None:
    """Let `r12` have the layout that is written, of elements of which none is another."""
    code, is_unlimited = call.code, call.new_label()
    code.load("r12", "rbp", LAYOUT_AT)
    call.unless_type("r12", Layout, "undo")
    code.set("rcx", id(True))
    code.compare_with("r12", LAYOUT["_injective"], "rcx")
    code.jump("undo", "ne")
    code.load("rdx", "r12", LAYOUT["size"])
    call.if_one_of("rdx", (0,), "undo")
    code.set("r15", id(balance))
    code.set("rcx", id(0))
    code.compare_with("r15", LIMIT, "rcx")
    code.jump(is_unlimited, "e")
    load_number(call, "r13", "r12", LAYOUT["nbytes"])
    load_number(call, "rax", "r15", LIMIT)
    code.compare("r13", "rax")
    code.jump("undo", "l")
    code.label(is_unlimited)


def _load_chain(call: Making) -> None:
    """Let `r13` have the chain, whose kernel is known, and the stack what of it may be read there."""
    code = call.code
    code.load("r13", "rbp", CHAIN_AT)
    call.unless_type("r13", tuple, "undo")
    code.load("rsi", "r13", COMPUTED)
    call.unless_type("rsi", Structure, "undo")
    code.set("rcx", id(False))
    code.compare_with("rsi", STRUCTURE["has_parts"], "rcx")
    code.jump("undo", "ne")
    code.load("rdx", "r12", LAYOUT["dtype"])
    code.compare_with("rsi", STRUCTURE["dtype"], "rdx")
    code.jump("undo", "ne")
    load_number(call, "r15", "r14", TUPLE_ITEMS + 16)
    code.store("rsp", _OWN_MASK, "r15")
    load_number(call, "rax", "r13", MASK)
    code.and_register("rax", "r15")
    code.store("rsp", READS, "rax")
    code.shift_right("r15", SHARED.bit_length() - 1)
    code.compare_number("r15", 0)
    code.jump("undo", "ne")


def _load_program(call: Making) -> None:
    """Let the stack have what has been planned for a chain that comes again; leave to Python what is to be planned."""
    code = call.code
    code.set("rcx", NONE)
    code.load("r15", "r13", GRAPH_OF)
    code.compare("r15", "rcx")
    code.jump("not planned", "e")
    call.unless_type("r15", Graph, "undo")
    code.set("rcx", NONE)
    code.compare_with("r15", GRAPH["programs"], "rcx")
    code.jump("has programs", "ne")
    code.label("not planned")
    code.load("rsi", "r13", COMPUTED)
    code.set("rcx", NONE)
    code.compare_with("rsi", STRUCTURE["planner"], "rcx")
    code.jump("undo", "e")
    code.set("rcx", id(1))
    code.compare_with("r12", LAYOUT["size"], "rcx")
    code.jump("by arithmetic", "ne")
    code.jump("undo")  # a single element takes a program
    code.label("has programs")
    code.load("rsi", "r12", LAYOUT["_form"])
    code.compare("rsi", "rcx")
    code.jump("is in form", "ne")
    code.move("rbx", "r12")
    call.find_form()
    code.label("has form")
    code.move("rsi", "r13")
    code.load("rbp", "rsp", ARGS)
    code.load("rbx", "rbp", STORAGE_AT)
    code.load("r13", "rbp", CHAIN_AT)
    code.load("r14", "rsp", GIVEN_VALUE)
    code.load("r15", "r13", GRAPH_OF)
    code.label("is in form")
    code.load("rdi", "r15", GRAPH["programs"])
    code.call(objects.address("PyDict_GetItem"))
    code.compare_number("rax", 0)
    code.jump("not planned", "e")
    code.move("r15", "rax")
    call.unless_type("r15", ByArithmetic, "is planned")
    code.set("rcx", NONE)
    code.compare_with("r15", LATER, "rcx")
    code.jump("not planned", "ne")
    code.jump("undo")
    code.label("is planned")
    call.unless_type("r15", Executable, "undo")
    call.keep_at(KEPT, "r15")
    code.label("by arithmetic")


def _load_start(call: Making) -> None:
    """Let the stack have the address that is written to."""
    code = call.code
    code.load("r15", "rsp", HELD_BUFFER)
    code.compare_number_with("r15", BUFFER_PTR, 0)
    code.jump("undo", "e")
    load_number(call, "rbp", "r15", BUFFER_PTR)
    load_number(call, "rax", "r12", LAYOUT["offset"])
    code.add_register("rax", "rbp")
    code.store("rsp", START, "rax")
    code.move("rdi", "rax")
    code.call(objects.address("PyLong_FromSsize_t"))
    call.made(PTR, "rax")


def _flush(call: Making) -> None:
    """Have what is pending computed that reads what is written, but for what is written itself.

    What is gone of `PENDING` is taken out; there is one device, and its lock is held.
    """
    code = call.code
    begin_pending(call)
    code.set("rax", 0)
    code.store("rsp", NUMBER, "rax")  # how many are not pending any more
    load_next_pending(call, gone="is gone", computed="is computed")
    code.load("rax", "rsp", ARGS)
    code.compare_with("rax", SOURCE_AT, "rbp")
    code.jump("next pending", "e")
    load_number(call, "rax", "rdx", TUPLE_ITEMS + 16)
    code.load("rcx", "rsp", _OWN_MASK)
    code.and_register("rax", "rcx")
    code.compare_number("rax", 0)
    code.jump("next pending", "e")
    _pass_what_is_written(call)
    code.label("is computed")
    code.increment("rsp", NUMBER)
    code.jump("next pending")
    code.label("is gone")
    code.load("rsi", "rsp", INDEX)
    code.move("rdx", "rsi")
    code.add("rdx", 1)
    code.move("rdi", "r15")
    code.set("rcx", 0)
    code.call(objects.address("PyList_SetSlice"))
    code.jump("next pending")
    code.label("are passed")
    code.compare_number_with("rsp", NUMBER, MAX_GONE)
    code.jump("flush", "g")
    _run_calls(call)
    code.jump("is flushed")
    _flush_in_python(call)


def _pass_what_is_written(call: Making) -> None:
    """Pass over a chain that reads what is written, if it is what is written and reads nothing that is; else flush."""
    code = call.code
    code.compare_number_with("rsp", MET, 0)
    code.jump("flush", "ne")
    code.load("rdx", "rbp", VALUE)
    code.load("rsi", "rdx", TUPLE_ITEMS)
    code.load("rsi", "rsi", GRAPH["leaves"])
    code.compare_with("r13", SEEN, "rsi")  # other layouts of the same leaves may be of what is written
    code.jump("flush", "ne")
    code.load("rdx", "rdx", TUPLE_ITEMS + 8)
    code.compare_with("r13", ENTRIES, "rdx")
    code.jump("next pending", "e")
    code.jump("flush")


def _run_calls(call: Making) -> None:
    """Run the calls that wait and read what is written, as `flush_readers` does; the storage has to stay as it was."""
    code, has_run = call.code, call.new_label()
    code.set("rdi", id(CALLS))
    code.compare_number_with("rdi", SIZE, 0)
    code.jump("is flushed", "e")
    code.call(objects.address("PyDict_Keys"))
    call.made(NEW, "r15")
    code.set("rax", 0)
    code.store("rsp", INDEX, "rax")
    code.label("next call")
    code.load("r15", "rsp", NEW)
    code.load("rax", "rsp", INDEX)
    code.compare_with("r15", SIZE, "rax")
    code.jump(has_run, "le")
    code.load("rdx", "r15", LIST_ITEMS)
    code.load_at("rdi", "rdx", "rax", 8)
    code.increment("rsp", INDEX)
    code.call(objects.address("PyWeakref_GetObject"))
    code.move("rbp", "rax")
    call.unless_type("rbp", Call, "next call")  # it is gone
    load_number(call, "rax", "rbp", _CALL["mask"])
    code.load("rcx", "rsp", _OWN_MASK)
    code.and_register("rax", "rcx")
    code.compare_number("rax", 0)
    code.jump("next call", "e")
    code.load("rdx", "rbp", _CALL["leaves"])
    call.unless_type("rdx", tuple, "next call")
    code.load("r8", "rdx", SIZE)
    code.label("next operand")
    code.add("r8", -1)
    code.jump("next call", "s")
    code.load_at("rdi", "rdx", "r8", 8, TUPLE_ITEMS)
    load_buffer(call, "rdi", "rsi", "next operand", "next operand")
    code.compare_with("rsp", HELD_BUFFER, "rsi")
    code.jump("next operand", "ne")
    call.keep_at(GRID, "rbp")
    give(call, "rbp")
    call_given(call, Call.run, 1)
    require_returned(call)
    call.release(GRID)
    code.jump("next call")
    code.label(has_run)
    call.release(NEW)
    _require_as_before(call)


def _require_as_before(call: Making) -> None:
    """Go on if the storage has the value in `r14` as before."""
    code = call.code
    code.compare_with("rbx", VALUE, "r14")
    code.jump("undo", "ne")
    _require_device(call)


def _flush_in_python(call: Making) -> None:
    """Lay out ``flush``: Python has that computed, and the storage stays; what it raises is raised."""
    code = call.code
    code.label("flush")
    code.load("rbp", "rsp", ARGS)
    give(call, "r14", ("rbp", SOURCE_AT), NONE, "r12")
    call_given(call, flush_readers, 4)
    require_returned(call)
    _require_as_before(call)
    code.label("is flushed")


def _make_value(call: Making) -> None:
    """Let the stack have a new value for the storage, of the same Buffer."""
    code, is_same = call.code, call.new_label()
    code.load("rbp", "r14", TUPLE_ITEMS + 8)
    code.load("rdx", "rsp", HELD_BUFFER)
    code.compare_with("rbp", TUPLE_ITEMS, "rdx")
    code.jump(is_same, "e")
    call.make_tuple(GRID, "rbp", ("rsp", HELD_BUFFER))
    code.label(is_same)
    call.make_tuple(NEW, "rdi", ("r14", TUPLE_ITEMS), "rbp", ("r14", TUPLE_ITEMS + 16))


def _note_written(call: Making) -> None:
    """Let the storage have its new value."""
    call.code.load("rbp", "rsp", NEW)
    call.set_attribute("rbx", VALUE, "rbp")
    call.code.set("rbp", NONE)
    for at in (STORED_HOST, STALE):
        call.set_attribute("rbx", at, "rbp")


def _note_run(call: Making) -> None:
    """Note that a chain that comes again has run by arithmetic."""
    code, is_again, is_noted = call.code, call.new_label(), call.new_label()
    code.compare_number_with("rsp", KEPT, 0)
    code.jump(is_noted, "ne")
    code.set("rcx", NONE)
    code.load("r15", "r13", GRAPH_OF)
    code.compare("r15", "rcx")
    code.jump(is_noted, "e")
    code.compare_with("r15", GRAPH["programs"], "rcx")
    code.jump(is_again, "ne")
    code.load("rsi", "r15", GRAPH["met"])
    load_small(call, "rdx", "rsi", is_again)
    code.compare_number("rdx", MEETINGS)
    code.jump(is_noted, "l")
    code.label(is_again)
    give(call, "r15", "r12")
    call_given(call, note_again, 2)
    require_returned(call)
    code.label(is_noted)


def _count_single(call: Making) -> None:
    """Count the elements that one is computed of, in a chain."""
    code, is_counted = call.code, call.new_label()
    code.set("rcx", id(1))
    code.compare_with("r12", LAYOUT["size"], "rcx")
    code.jump(is_counted, "ne")
    code.set("rcx", NONE)
    code.compare_with("r13", GRAPH_OF, "rcx")
    code.jump(is_counted, "e")
    give(call, id(singles), ("r13", GRAPH_OF), ("r13", ENTRIES))
    call_given(call, type(singles).count, 3)
    require_returned(call)
    code.label(is_counted)


def _weigh(call: Making) -> None:
    """Let placement know."""
    code = call.code
    code.set("rdi", id(followers))
    code.compare_number_with("rdi", SIZE, 0)
    code.jump("to weigh", "ne")
    code.load("rdx", "r14", TUPLE_ITEMS)
    code.load("r15", "rdx", GRAPH["layout"])
    weigh(call, "r13", ENTRIES, "to weigh", "is due")
    code.jump("is weighed")
    tell_whether_due(call, "to weigh", "is due")
    code.load("rdx", "r14", TUPLE_ITEMS)
    code.load("rdx", "rdx", GRAPH["layout"])
    code.load("r12", "rsp", ARGS)
    give(call, "rbx", ("r12", LAYOUT_AT), ("r13", COMPUTED), ("rdx", LAYOUT["nbytes"]), ("r13", ENTRIES), "rbp")
    call_given(call, weigh_write, 6)
    require_returned(call)
    code.label("is weighed")


__all__ = ["write_part"]  # of which functions of Python's have the names

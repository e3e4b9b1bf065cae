"""What is pending is computed, in machine code: what `schedule.materialise` does with a chain that has a program.

So it does with one that has none yet, and is a single loop whose like has run: its launch takes arithmetic. That is so
where nothing else is pending. Before the launch whatever is not as usual is left to Python, which begins
again. What is raised by the launch is raised, and the storage is pending as before.
"""

from __future__ import annotations

import functools

from oxinp._config import config
from oxinp._core.lazy import schedule
from oxinp._core.lazy.calls import CALLS
from oxinp._core.lazy.chains import ONCE, ByArithmetic, line_again
from oxinp._core.lazy.executor import Executable, addresses
from oxinp._core.lazy.expr import Graph
from oxinp._core.memory.layout import Layout
from oxinp._core.memory.storage import Storage, next_mask
from oxinp._core.native import objects
from oxinp._core.native.executing import allocate
from oxinp._core.native.function import NONE, VALUE
from oxinp._core.native.given import GIVEN, ROOM, call_given, give, require_returned
from oxinp._core.native.launchers import launch_given
from oxinp._core.native.launching import (
    LATER,
    STRUCTURE,
    VERSION,
    count_pushed,
    load_launcher,
    push,
    push_constants,
    push_entries,
    require_room,
)
from oxinp._core.native.leaves import BUFFER_PTR
from oxinp._core.native.locking import answered, locked
from oxinp._core.native.making import (
    COST,
    ENTRY,
    GIVEN_VALUE,
    GRAPH,
    GRID,
    KEPT,
    KEY,
    LAYOUT,
    LEAVES,
    NEW,
    PTR,
    RESULT,
    STRUCTURE_OF,
    Making,
    offsets,
)
from oxinp._core.native.objects import SIZE, TUPLE_ITEMS
from oxinp._core.native.operand import require_usual
from oxinp._core.native.waiting import begin_pending, load_next_pending
from oxinp._core.native.weighing import tell_whether_due, weigh

_PROGRAM = offsets(Executable, ("arguments", "launch", "version"))
_LATER = STRUCTURE_OF
"""Where on the stack there is what the graph has for a program after a run by arithmetic; 0 where it has a program."""
_ALLOCATE, _NAMED = "allocate", ("is_first",)
_MOST = 64
"""Entries of `PENDING` that are looked at."""


@functools.cache
def _address(kind: type) -> int:
    """Return where the code lies that computes a storage, given where the argument is; 0 if the system forbids that."""
    call = Making(kind, None, ROOM)
    code = call.code
    call.begin()
    call.begin_made()
    code.load("rbx", "rbx")
    require_usual(call)
    _load_chain(call)
    _load_program(call)
    _allocate(call)
    _make_value(call)
    _give(call)
    _empty_pending(call)
    _launch(call)
    _weigh(call)
    code.load("r14", "rsp", NEW)
    call.set_attribute("rbx", VALUE, "r14")
    call.keep("r14")
    code.jump("give back")
    return call.end_made()


def materialise(kind: type, before: int | None) -> bytes:
    """Return the code of a call of `schedule.materialise`."""
    return answered(kind, before, 1, locked(kind, _address(kind), schedule.append))


def _load_chain(call: Making) -> None:
    """Let `r14` have the value of the storage in `rbx`, `r13` its graph, and `r12` the layout of several elements."""
    code = call.code
    call.unless_type("rbx", Storage, "undo")
    code.load("r14", "rbx", VALUE)
    call.unless_type("r14", tuple, "undo")
    call.keep_at(GIVEN_VALUE, "r14")
    code.load("r13", "r14", TUPLE_ITEMS)
    call.unless_type("r13", Graph, "undo")
    code.load("rdx", "r13", GRAPH["nodes"])
    code.compare_number_with("rdx", SIZE, 0)
    code.jump("undo", "e")
    code.load("r12", "r13", GRAPH["layout"])
    call.unless_type("r12", Layout, "undo")
    code.set("rcx", id(1))
    code.compare_with("r12", LAYOUT["size"], "rcx")
    code.jump("undo", "e")
    code.set("rcx", NONE)
    code.compare_with("r12", LAYOUT["graph"], "rcx")
    code.jump("undo", "e")
    code.set("rdi", id(CALLS))
    code.compare_number_with("rdi", SIZE, 0)
    code.jump("undo", "ne")


def _load_program(call: Making) -> None:
    """Let the stack have what launches the kernel, and `rbp` who allocates memory for the result.

    That is the program, which takes its parameters as they come, or the backend of a launch by arithmetic.
    """
    code = call.code
    code.set("rax", 0)
    code.store("rsp", _LATER, "rax")
    code.load("rbp", "r13", GRAPH["program"])
    call.unless_type("rbp", Executable, "by arithmetic")
    code.set("rdx", id(config))
    code.load("rdx", "rdx", VERSION)
    code.compare_with("rbp", _PROGRAM["version"], "rdx")
    code.jump("undo", "ne")
    code.set("rcx", id(addresses))
    code.compare_with("rbp", _PROGRAM["arguments"], "rcx")
    code.jump("undo", "ne")
    code.load("r15", "rbp", _PROGRAM["launch"])
    code.jump("has program")
    code.label("by arithmetic")
    _load_later(call)
    _find_launch(call)
    code.label("has program")
    call.keep_at(COST, "r15")
    call.keep_at(KEPT, "rbp")


def _load_later(call: Making) -> None:
    """Let the stack have what the graph has for a program, in `rbp`, after one more run by arithmetic."""
    code = call.code
    code.set("rdx", id(ONCE))
    code.set("rcx", NONE)
    code.compare("rbp", "rcx")
    code.jump("is first", "e")
    call.unless_type("rbp", ByArithmetic, "undo")
    code.load("rdx", "rbp", LATER)
    code.set("rcx", NONE)
    code.compare("rdx", "rcx")
    code.jump("undo", "e")
    code.label("is first")
    code.store("rsp", _LATER, "rdx")


def _find_launch(call: Making) -> None:
    """Let `r15` have what launches a single loop, `rbp` the backend, and the stack kernel, grid and constants."""
    code = call.code
    code.load("rbp", "r13", GRAPH["structure"])
    code.load("rdx", "r12", LAYOUT["dtype"])
    code.compare_with("rbp", STRUCTURE["dtype"], "rdx")
    code.jump("undo", "ne")
    code.set("rcx", id(False))
    code.compare_with("rbp", STRUCTURE["has_parts"], "rcx")
    code.jump("undo", "ne")
    code.set("rcx", NONE)
    code.compare_with("rbp", STRUCTURE["planner"], "rcx")
    code.jump("undo", "e")
    call.make_tuple(NEW, "rdi", "r12")
    code.load("rsi", "r13", GRAPH["leaves"])
    code.call(objects.address("PySequence_Concat"))
    call.made(ENTRY, "rax")
    call.release(NEW)
    give(call, ("rbp", STRUCTURE["planner"]), ("rsp", ENTRY))
    call_given(call, line_again, 2)
    call.made(RESULT, "r15")
    load_launcher(call)
    code.load("rdi", "rsp", RESULT)
    require_room(call, ("rdi", TUPLE_ITEMS + 16), ("r14", TUPLE_ITEMS + 8))


def _allocate(call: Making) -> None:
    """Let `rbp` have memory for the result, the lack of which is raised; the storage has to stay as it is."""
    code = call.code
    code.move("rdi", "rbp")
    code.set("rsi", id(_ALLOCATE))
    code.call(objects.address("PyObject_GetAttr"))
    call.made(PTR, "rdi")
    code.load("rsi", "r12", LAYOUT["nbytes"])
    allocate(call, KEY)
    code.move("rbp", "rax")
    code.compare_with("rbx", VALUE, "r14")
    code.jump("undo", "ne")


def _make_value(call: Making) -> None:
    """Let the stack have the value that the storage is to have."""
    call_given(call, next_mask, 0)
    call.made(LEAVES, "rax")
    call.make_tuple(GRID, "rdi", "rbp")
    call.make_tuple(NEW, "rdi", ("r12", LAYOUT["graph"]), ("rsp", GRID), ("rsp", LEAVES))


def _give(call: Making) -> None:
    """Let the stack have the arguments of the launch: the grid, if it has to be told that, and the parameters."""
    code, has_grid = call.code, call.new_label()
    code.move("rsi", "rsp")
    code.add("rsi", GIVEN)
    code.load("rdi", "rsp", RESULT)
    code.compare_number("rdi", 0)
    code.jump(has_grid, "e")
    code.load("rdx", "rdi", TUPLE_ITEMS + 8)
    push(call, "rdx")
    code.label(has_grid)
    code.load("rdx", "rbp", BUFFER_PTR)
    push(call, "rdx")
    push_entries(call, "r14", TUPLE_ITEMS + 8)
    push_constants(call)
    count_pushed(call)


def _empty_pending(call: Making) -> None:
    """Go on where nothing else is pending, which nothing is then."""
    code = call.code
    begin_pending(call)
    code.compare_number("rax", _MOST)
    code.jump("undo", "g")
    load_next_pending(call, gone="next pending", computed="next pending")
    code.compare("rbp", "rbx")
    code.jump("next pending", "e")
    code.jump("undo")
    code.label("are passed")
    code.move("rdi", "r15")
    code.set("rsi", 0)
    code.load("rdx", "r15", SIZE)
    code.set("rcx", 0)
    code.call(objects.address("PyList_SetSlice"))


def _launch(call: Making) -> None:
    """Launch, with the grid, if it has to be told that."""
    code = call.code
    code.compare_number_with("rsp", RESULT, 0)
    code.jump("has no grid", "e")
    code.load("rdx", "rsp", _LATER)
    call.set_attribute("r13", GRAPH["program"], "rdx")
    launch_given(call, GIVEN)
    code.jump("has run")
    code.label("has no grid")
    launch_given(call, GIVEN, has_grid=False)
    code.label("has run")


def _weigh(call: Making) -> None:
    """Let placement know; `r12` has the layout of the result."""
    code, is_first = call.code, call.new_label()
    code.move("r15", "r12")
    weigh(call, "r14", TUPLE_ITEMS + 8, "to weigh", "is due")
    code.jump("is weighed")
    tell_whether_due(call, "to weigh", "is due")
    code.set("r15", id(True))
    code.set("rcx", id(ONCE))
    code.compare_with("rsp", _LATER, "rcx")
    code.jump(is_first, "e")
    code.set("r15", id(False))
    code.label(is_first)
    give(call, "r13", ("r14", TUPLE_ITEMS + 8), "rbp", "r15")
    call_given(call, schedule.weigh_chain, 4, _NAMED)
    require_returned(call)
    code.label("is weighed")


__all__ = ["materialise"]  # of which functions of Python's have the names

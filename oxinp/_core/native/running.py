"""A call that waits is run, in machine code: what `Call.run` does of one that has run before, with one result.

What it is applied to is computed first, where that waits, too. Whatever is not as usual is left to Python, which begins
again.
"""

from __future__ import annotations

import functools

from oxinp._core.lazy.calls import CALLS, Call, Pending
from oxinp._core.lazy.executor import Executable
from oxinp._core.lazy.op import BoundOp
from oxinp._core.lazy.steps import LaunchStep, MappedLaunchStep
from oxinp._core.native import objects
from oxinp._core.native.apart import INDEX
from oxinp._core.native.computing import allocate, give_operands, load_program
from oxinp._core.native.function import NONE
from oxinp._core.native.given import GIVEN, MOST_GIVEN, ROOM, call_given, give, require_returned
from oxinp._core.native.launchers import launch_given
from oxinp._core.native.launching import count_pushed, push, push_entries
from oxinp._core.native.leaves import BUFFER_NBYTES, BUFFER_PTR
from oxinp._core.native.locking import answered, locked
from oxinp._core.native.making import (
    COST,
    ENTRY,
    GIVEN_VALUE,
    GRID,
    KEPT,
    KEY,
    NEW,
    NEW_GRAPH,
    NUMBER,
    RESULT,
    Making,
    offsets,
)
from oxinp._core.native.objects import LIST_ITEMS, SIZE, TUPLE_ITEMS, TYPE
from oxinp._core.native.operand import require_usual
from oxinp._core.native.weighing import tell
from oxinp._runtime.memory import Buffer

_CALL = offsets(Call, ("_entry", "bound", "leaves", "results", "share"))
_BOUND = offsets(BoundOp, ("direct", "layouts", "told"))
_PENDING = offsets(Pending, ("_buffer", "call", "nbytes", "ptr"))
_EXECUTABLE = offsets(Executable, ("allocate", "flags", "is_silent", "scratch_nbytes", "steps"))
_STEP = offsets(LaunchStep, ("launch", "pick")) | offsets(MappedLaunchStep, ("calls",))
_run, _fail, _forget = Call.run, Call.fail, CALLS.pop


@functools.cache
def _address(kind: type) -> int:
    """Return where the code lies that runs a call, given where the argument is; 0 if the system forbids that."""
    call = Making(kind, None, ROOM)
    code = call.code
    call.begin()
    call.begin_made()
    code.load("rbx", "rbx")
    require_usual(call)
    _load_call(call)
    _run_operands(call)
    code.load("r15", "r13", _BOUND["direct"])
    load_program(call)
    allocate(call, _CALL["leaves"])
    _load_result(call)
    give(call, ("rbx", _CALL["_entry"]), NONE)
    call_given(call, _forget, 2)
    require_returned(call)
    code.load("r14", "rsp", KEPT)
    code.set("rcx", id(True))
    code.compare_with("r14", _EXECUTABLE["is_silent"], "rcx")
    code.jump("has steps", "e")
    give_operands(call, "rbx", _CALL["leaves"])
    launch_given(call, GIVEN, has_grid=False)
    code.jump("has run")
    _run_steps(call)
    code.label("has run")
    _settle(call)
    code.load("r14", "r13", _BOUND["layouts"])
    code.load("r14", "r14", TUPLE_ITEMS)
    tell(call, "r14", GIVEN_VALUE, RESULT)
    code.set("r14", NONE)
    call.keep("r14")
    code.jump("give back")
    return call.end_made()


def run(kind: type, before: int | None) -> bytes:
    """Return the code of a call of `Call.run`."""
    return answered(kind, before, 1, locked(kind, _address(kind), _fail))


def _load_call(call: Making) -> None:
    """Let `r13` have what is bound in the call in `rbx`, and `r14` the leaves; leave others to Python."""
    code, is_bound = call.code, call.new_label()
    call.unless_type("rbx", Call, "undo")
    code.load("r14", "rbx", _CALL["leaves"])
    call.unless_type("r14", tuple, "undo")
    call.keep_at(GIVEN_VALUE, "r14")
    code.compare_number_with("rbx", _CALL["share"], 0)
    code.jump("undo", "ne")
    code.load("rdx", "rbx", _CALL["results"])
    code.compare_number_with("rdx", SIZE, 1)
    code.jump("undo", "ne")
    code.load("r13", "rbx", _CALL["bound"])
    code.load("rdi", "r13", TYPE)
    call.if_one_of("rdi", (BoundOp,), is_bound)
    code.set("rsi", id(BoundOp))
    code.call(objects.address("PyType_IsSubtype"))
    code.store("rsp", NUMBER, "rax")
    code.test_with("rsp", NUMBER, 1)
    code.jump("undo", "e")
    code.label(is_bound)
    code.load("rdx", "r13", _BOUND["direct"])
    for each in (0, NONE):
        code.set("rcx", each)
        code.compare("rdx", "rcx")
        code.jump("undo", "e")
    code.load("rdx", "r13", _BOUND["told"])
    code.compare_number("rdx", 0)
    code.jump("undo", "e")
    call.keep_at(RESULT, "rdx")


def _run_operands(call: Making) -> None:
    """Have those leaves computed that other calls wait to; the call has to stay as it is meanwhile."""
    code = call.code
    code.load("rax", "r14", SIZE)
    code.store("rsp", INDEX, "rax")
    code.label("next leaf")
    code.compare_number_with("rsp", INDEX, 0)
    code.jump("are computed", "e")
    code.decrement("rsp", INDEX)
    code.load("rcx", "rsp", INDEX)
    code.load_at("rdi", "r14", "rcx", 8, TUPLE_ITEMS)
    call.unless_type("rdi", Pending, "next leaf")
    code.load("rdx", "rdi", _PENDING["call"])
    code.set("rcx", NONE)
    code.compare("rdx", "rcx")
    code.jump("next leaf", "e")
    call.keep_at(ENTRY, "rdx")
    give(call, "rdx")
    call_given(call, _run, 1)
    require_returned(call)
    call.release(ENTRY)
    code.jump("next leaf")
    code.label("are computed")
    code.compare_with("rbx", _CALL["leaves"], "r14")
    code.jump("undo", "ne")


def _load_result(call: Making) -> None:
    """Let the stack have what the result is to be told to; leave to Python what nobody has any more."""
    code = call.code
    code.load("rdi", "rbx", _CALL["results"])
    code.load("rdi", "rdi", TUPLE_ITEMS)
    code.call(objects.address("PyWeakref_GetObject"))
    code.move("r12", "rax")
    call.unless_type("r12", Pending, "undo")
    code.compare_number_with("r12", _PENDING["ptr"], 0)
    code.jump("undo", "ne")
    call.keep_at(ENTRY, "r12")


def _run_steps(call: Making) -> None:
    """Lay out ``has steps``: launch one step after the other of the Executable in `r14`."""
    code = call.code
    code.label("has steps")
    _make_values(call)
    code.set("rdx", NONE)
    call.keep_at(GRID, "rdx")
    code.set("rax", 0)
    code.store("rsp", INDEX, "rax")
    code.label("next step")
    code.load("rdx", "r14", _EXECUTABLE["steps"])
    code.load("rcx", "rsp", INDEX)
    code.compare_with("rdx", SIZE, "rcx")
    code.jump("has run", "e")
    code.increment("rsp", INDEX)
    code.load("rdx", "rdx", LIST_ITEMS)
    code.load_at("rbp", "rdx", "rcx", 8)
    call.unless_type("rbp", LaunchStep, "is mapped")
    _pick(call)
    call.unless_type("rax", tuple, "in Python")
    code.move("r8", "rax")
    code.add("r8", TUPLE_ITEMS)
    code.jump("is picked")
    code.label("is mapped")
    call.unless_type("rbp", MappedLaunchStep, "in Python")
    _pick(call)
    code.load("rdi", "rbp", _STEP["calls"])
    code.move("rsi", "rax")
    code.call(objects.address("PyDict_GetItem"))
    code.compare_number("rax", 0)
    code.jump("in Python", "e")
    code.move("rdx", "rax")
    _hold(call, GRID, "rdx")
    code.load("rax", "rsp", GRID)
    code.load("r8", "rax", LIST_ITEMS)
    code.label("is picked")
    _launch_step(call)
    code.jump("next step")
    code.label("in Python")
    give(call, ("rsp", NEW_GRAPH))
    _call_given(call, "rbp")
    require_returned(call)
    code.jump("next step")


def _make_values(call: Making) -> None:
    """Let the stack have a tuple of what steps are given: the result's address, workspace, flags and operands."""
    code = call.code
    code.set("rdx", id(0))
    code.compare_with("r14", _EXECUTABLE["scratch_nbytes"], "rdx")
    code.jump("has workspace", "e")
    give(call, ("r14", _EXECUTABLE["scratch_nbytes"]))
    code.load("rdi", "r14", _EXECUTABLE["allocate"])
    _call_given(call, "rdi")
    code.compare_number("rax", 0)
    code.jump("raised", "e")
    call.made(NEW, "rdx")
    call.unless_type("rdx", Buffer, "undo")
    code.load("rdx", "rdx", BUFFER_PTR)
    code.compare_number("rdx", 0)
    code.jump("undo", "e")
    code.label("has workspace")
    code.load("rbp", "rsp", KEY)
    code.move("rsi", "rsp")
    code.add("rsi", GIVEN)
    code.load("rax", "rbp", BUFFER_PTR)
    code.compare_number("rax", 0)
    code.jump("undo", "e")
    push(call, "rax")
    push(call, "rdx")
    code.load("rdx", "r14", _EXECUTABLE["flags"])
    push(call, "rdx")
    push_entries(call, "rbx", _CALL["leaves"])
    count_pushed(call)
    code.load("rdi", "rsp", NUMBER)
    code.call(objects.address("PyTuple_New"))
    call.made(NEW_GRAPH, "rdi")
    code.load("r9", "rsp", NUMBER)
    code.move("rsi", "rsp")
    code.add("rsi", GIVEN)
    code.label("next value")
    code.load("rdx", "rsi")
    code.store("rdi", TUPLE_ITEMS, "rdx")
    call.keep("rdx")
    for each in ("rsi", "rdi"):
        code.add(each, 8)
    code.add("r9", -1)
    code.jump("next value", "ne")


def _pick(call: Making) -> None:
    """Let `rax` and the stack have what the step in `rbp` picks of the values."""
    code = call.code
    give(call, ("rsp", NEW_GRAPH))
    code.load("rdi", "rbp", _STEP["pick"])
    _call_given(call, "rdi")
    code.compare_number("rax", 0)
    code.jump("raised", "e")
    code.store("rsp", NUMBER, "rax")
    call.release(GRID)
    code.load("rax", "rsp", NUMBER)
    code.store("rsp", GRID, "rax")


def _launch_step(call: Making) -> None:
    """Launch the step in `rbp` with as many parameters as what is in `rax` has, which lie where `r8` says."""
    code = call.code
    code.load("r9", "rax", SIZE)
    code.compare_number("r9", MOST_GIVEN - 3)
    code.jump("in Python", "g")
    code.move("rsi", "rsp")
    code.add("rsi", GIVEN)
    code.store("rsp", NUMBER, "r9")
    code.label("next parameter")
    code.compare_number("r9", 0)
    code.jump("has parameters", "e")
    code.add("r9", -1)
    code.load("rdx", "r8")
    code.add("r8", 8)
    push(call, "rdx")
    code.jump("next parameter")
    code.label("has parameters")
    code.load("rdx", "rbp", _STEP["launch"])
    _hold(call, COST, "rdx")
    launch_given(call, GIVEN, has_grid=False)


def _hold(call: Making, place: int, register: str) -> None:
    """Let a place on the stack have an object in place of the one that it has."""
    call.keep(register)
    call.code.load("r15", "rsp", place)
    call.code.store("rsp", place, register)
    call.drop("r15")


def _call_given(call: Making, function: str) -> None:
    """Let `rax` have what a register's function returns for the argument on the stack."""
    code = call.code
    code.move("rdi", function)
    code.move("rsi", "rsp")
    code.add("rsi", GIVEN)
    code.set("rdx", 1)
    code.set("rcx", 0)
    code.call(objects.address("PyObject_Vectorcall"))


def _settle(call: Making) -> None:
    """Let the call have run, and its result be in the Buffer that there is memory in."""
    code = call.code
    code.load("rbp", "rsp", KEY)
    code.load("r12", "rsp", ENTRY)
    code.set("rdx", NONE)
    for name in ("leaves", "_entry"):
        call.set_attribute("rbx", _CALL[name], "rdx")
        code.set("rdx", NONE)
    for name, at in (("ptr", BUFFER_PTR), ("nbytes", BUFFER_NBYTES)):
        code.load("rdx", "rbp", at)
        call.put("r12", _PENDING[name], "rdx")
    call.set_attribute("r12", _PENDING["_buffer"], "rbp")
    code.set("rdx", NONE)
    call.set_attribute("r12", _PENDING["call"], "rdx")


__all__ = ["run"]  # of which functions of Python's have the names

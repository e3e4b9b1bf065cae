"""An Executable is run into new Buffers, in machine code: what `Executable.run` and `run_all` do.

Calls that its operands still wait for are run first. Whatever is not as usual is left to Python, which begins again.
"""

from __future__ import annotations

import functools

from oxinp._core.lazy.calls import Call, Pending
from oxinp._core.lazy.executor import Executable, addresses
from oxinp._core.lazy.steps import LaunchStep, MappedLaunchStep
from oxinp._core.memory.storage import Leaf
from oxinp._core.native import objects
from oxinp._core.native.apart import INDEX
from oxinp._core.native.function import NONE
from oxinp._core.native.given import GIVEN, MOST_GIVEN, ROOM, call_given, give, require_returned
from oxinp._core.native.launchers import launch_given
from oxinp._core.native.launching import NUMBERS, count_pushed, push, push_entries, push_items
from oxinp._core.native.leaves import BUFFER_PTR
from oxinp._core.native.locking import answered
from oxinp._core.native.making import COST, ENTRY, GIVEN_VALUE, GRID, KEPT, KEY, NEW, NEW_GRAPH, NUMBER, Making, offsets
from oxinp._core.native.objects import LIST_ITEMS, SIZE, TUPLE_ITEMS, TYPE
from oxinp._core.native.operand import require_usual
from oxinp._runtime.memory import Buffer

_EXECUTABLE = offsets(
    Executable, ("allocate", "arguments", "flags", "is_silent", "launch", "nbytes", "scratch_nbytes", "sizes", "steps")
)
_PENDING_CALL = offsets(Pending, ("call",))["call"]
_STEP = offsets(LaunchStep, ("launch", "pick")) | offsets(MappedLaunchStep, ("calls",))


@functools.cache
def address_of(kind: type, *, are_several: bool = False) -> int:
    """Return where the code lies that runs an Executable for leaves, given where both are; 0 if the system forbids it.

    It returns the Buffer, or a list of them if there may be several; or 0 where an error has been raised, or Python is
    to do it.
    """
    call = Making(kind, None, ROOM)
    code = call.code
    call.begin()
    call.begin_made()
    code.load("r14", "rbx")
    code.load("r12", "rbx", 8)
    call.unless_type("r14", Executable, "undo")
    call.unless_type("r12", tuple, "undo")
    call.keep_at(KEPT, "r14")
    call.keep_at(GIVEN_VALUE, "r12")
    require_usual(call)
    code.set("rcx", id(addresses))
    code.compare_with("r14", _EXECUTABLE["arguments"], "rcx")
    code.jump("undo", "ne")
    code.load("rdx", "r14", _EXECUTABLE["launch"])
    call.keep_at(COST, "rdx")
    _run_operands(call)
    if are_several:
        _allocate_all(call)
    else:
        _allocate(call, "r14", _EXECUTABLE["nbytes"], KEY)
    code.set("rcx", id(True))
    code.compare_with("r14", _EXECUTABLE["is_silent"], "rcx")
    code.jump("has steps", "e")
    _give(call, is_of_steps=False, are_several=are_several)
    launch_given(call, GIVEN, has_grid=False)
    code.jump("has run")
    _run_steps(call, are_several=are_several)
    code.label("has run")
    code.load("r14", "rsp", KEY)
    call.keep("r14")
    code.jump("give back")
    return call.end_made()


def executable_run(kind: type, before: int | None) -> bytes:
    """Return the code of a call of `Executable.run`."""
    return answered(kind, before, 2, address_of(kind))


def executable_run_all(kind: type, before: int | None) -> bytes:
    """Return the code of a call of `Executable.run_all`."""
    return answered(kind, before, 2, address_of(kind, are_several=True))


def _allocate(call: Making, holder: str, at: int, place: int) -> None:
    """Let the stack have a Buffer, of as many bytes as lies at an offset from a register; `rax` has it, too."""
    call.code.load("rdi", "r14", _EXECUTABLE["allocate"])
    call.code.load("rsi", holder, at)
    allocate(call, place)


def allocate(call: Making, place: int) -> None:
    """Let the stack and `rax` have the Buffer that `rdi` makes of the bytes in `rsi`; the lack of memory is raised."""
    code = call.code
    code.call(objects.address("PyObject_CallOneArg"))
    code.compare_number("rax", 0)
    code.jump("raised", "e")
    call.made(place, "rax")
    call.unless_type("rax", Buffer, "undo")
    code.compare_number_with("rax", BUFFER_PTR, 0)
    code.jump("undo", "e")


def _allocate_all(call: Making) -> None:
    """Let the stack have a list of a Buffer for each output."""
    code = call.code
    code.load("rdi", "r14", _EXECUTABLE["sizes"])
    code.load("rdi", "rdi", SIZE)
    code.compare_number("rdi", 0)
    code.jump("undo", "e")
    code.load("rax", "r12", SIZE)
    code.add_register("rax", "rdi")
    code.compare_number("rax", MOST_GIVEN - 3)
    code.jump("undo", "g")
    code.call(objects.address("PyList_New"))
    call.made(KEY, "rax")
    code.set("rax", 0)
    code.store("rsp", INDEX, "rax")
    code.label("next output")
    code.load("rdx", "r14", _EXECUTABLE["sizes"])
    code.load("rcx", "rsp", INDEX)
    code.compare_with("rdx", SIZE, "rcx")
    code.jump("are allocated", "e")
    code.load_at("rbp", "rdx", "rcx", 8, TUPLE_ITEMS)
    code.store("rsp", NUMBER, "rbp")
    _allocate(call, "rsp", NUMBER, NEW)
    code.load("rdx", "rsp", KEY)
    code.load("rdx", "rdx", LIST_ITEMS)
    code.load("rcx", "rsp", INDEX)
    code.store_at("rdx", "rcx", "rax", 8)
    code.set("rax", 0)
    code.store("rsp", NEW, "rax")
    code.increment("rsp", INDEX)
    code.jump("next output")
    code.label("are allocated")


def _run_operands(call: Making) -> None:
    """Run the calls that leaves still wait for."""
    code = call.code
    code.load("rax", "r12", SIZE)
    code.store("rsp", INDEX, "rax")
    code.label("next leaf")
    code.compare_number_with("rsp", INDEX, 0)
    code.jump("are computed", "e")
    code.decrement("rsp", INDEX)
    code.load("rcx", "rsp", INDEX)
    code.load_at("rdi", "r12", "rcx", 8, TUPLE_ITEMS)
    code.load("rdx", "rdi", TYPE)
    call.if_one_of("rdx", (Buffer, Leaf, *NUMBERS), "next leaf")
    call.unless_type("rdi", Pending, "undo")
    code.load("rdx", "rdi", _PENDING_CALL)
    code.set("rcx", NONE)
    code.compare("rdx", "rcx")
    code.jump("next leaf", "e")
    call.keep_at(ENTRY, "rdx")
    give(call, "rdx")
    call_given(call, Call.run, 1)
    require_returned(call)
    call.release(ENTRY)
    code.jump("next leaf")
    code.label("are computed")


def _give(call: Making, *, is_of_steps: bool, are_several: bool) -> None:
    """Let the stack have what a launch is given: the results' addresses, what `rdx` has and the flags, and operands."""
    code = call.code
    code.load("rax", "rsp", KEY)
    code.move("rsi", "rsp")
    code.add("rsi", GIVEN)
    if are_several:
        again = call.new_label()
        code.load("r9", "rax", SIZE)
        code.load("r8", "rax", LIST_ITEMS)
        code.label(again)
        code.load("rax", "r8")
        code.load("rax", "rax", BUFFER_PTR)
        push(call, "rax")
        code.add("r8", 8)
        code.add("r9", -1)
        code.jump(again, "ne")
    else:
        code.load("rax", "rax", BUFFER_PTR)
        push(call, "rax")
    if is_of_steps:
        push(call, "rdx")
        code.load("rdx", "r14", _EXECUTABLE["flags"])
        push(call, "rdx")
    push_entries(call, "rsp", GIVEN_VALUE)
    count_pushed(call)


def _run_steps(call: Making, *, are_several: bool) -> None:
    """Lay out ``has steps``: launch one step after the other of the Executable in `r14`."""
    code = call.code
    code.label("has steps")
    _make_values(call, are_several=are_several)
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
    code.label("is picked")
    _launch_step(call)
    code.jump("next step")
    code.label("in Python")
    code.move("rdi", "rbp")
    code.load("rsi", "rsp", NEW_GRAPH)
    code.call(objects.address("PyObject_CallOneArg"))
    require_returned(call)
    code.jump("next step")


def _make_values(call: Making, *, are_several: bool) -> None:
    """Let the stack have a tuple of what steps are given: the results' addresses, workspace, flags and operands."""
    code = call.code
    code.set("rdx", id(0))
    code.compare_with("r14", _EXECUTABLE["scratch_nbytes"], "rdx")
    code.jump("has workspace", "e")
    _allocate(call, "r14", _EXECUTABLE["scratch_nbytes"], NEW)
    code.load("rdx", "rax", BUFFER_PTR)
    code.label("has workspace")
    _give(call, is_of_steps=True, are_several=are_several)
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
    code.load("rdi", "rbp", _STEP["pick"])
    code.load("rsi", "rsp", NEW_GRAPH)
    code.call(objects.address("PyObject_CallOneArg"))
    code.compare_number("rax", 0)
    code.jump("raised", "e")
    code.store("rsp", NUMBER, "rax")
    call.release(GRID)
    code.load("rax", "rsp", NUMBER)
    code.store("rsp", GRID, "rax")


def _launch_step(call: Making) -> None:
    """Launch the step in `rbp` with the parameters in the tuple in `GRID`; leave many to Python."""
    code = call.code
    code.load("rdx", "rsp", GRID)
    call.unless_type("rdx", tuple, "in Python")
    code.compare_number_with("rdx", SIZE, MOST_GIVEN - 3)
    code.jump("in Python", "g")
    code.move("rsi", "rsp")
    code.add("rsi", GIVEN)
    push_items(call, "rsp", GRID)
    count_pushed(call)
    code.load("rdx", "rbp", _STEP["launch"])
    _hold(call, COST, "rdx")
    launch_given(call, GIVEN, has_grid=False)


def _hold(call: Making, place: int, register: str) -> None:
    """Let a place on the stack have an object in place of the one that it has."""
    call.keep(register)
    call.code.load("r15", "rsp", place)
    call.code.store("rsp", place, register)
    call.drop("r15")


__all__ = ["executable_run", "executable_run_all"]  # of which functions of Python's have the names

"""Launches of chains of reductions along rows, in machine code: those that `lazy.row_launches` finds by one look-up.

That is so of one reduction, whose result nothing else needs. All else is left to Python.
"""

from __future__ import annotations

import functools

from oxinp._config import config
from oxinp._core.lazy.calls import CALLS, Call, Pending
from oxinp._core.lazy.expr import Graph, Structure
from oxinp._core.lazy.row_launches import (
    _KNOWN,
    ACCESS,
    LOOKED_UP,
    MAX_REUSED,
    NEARBY,
    ONE,
    Alike,
    RowLaunch,
    _launch,
    weigh_rows,
)
from oxinp._core.memory.layout import Layout
from oxinp._core.memory.storage import Storage
from oxinp._core.native import objects
from oxinp._core.native.function import NONE, VALUE
from oxinp._core.native.given import GIVEN, ROOM, call_given, give, require_returned
from oxinp._core.native.launchers import launch_given
from oxinp._core.native.launching import VERSION, count_pushed, push, push_entries, push_items, require_room
from oxinp._core.native.leaves import PENDING, load_number
from oxinp._core.native.locking import answered
from oxinp._core.native.making import (
    COST,
    ENTRY,
    GRAPH,
    GRID,
    KEPT,
    KEY,
    LAYOUT,
    LEAVES,
    NEW,
    NUMBER,
    Making,
    offsets,
)
from oxinp._core.native.objects import LIST_ITEMS, SIZE, TUPLE_ITEMS
from oxinp._core.native.places import load_small
from oxinp._core.native.weighing import tell_whether_due, weigh

_ALIKE = offsets(Alike, ("last", "order", "reused"))
_CALL = offsets(Call, ("bound", "leaves"))
_OWNER = offsets(Pending, ("owner",))["owner"]
_PLANS = offsets(Structure, ("plans",))["plans"]
_GRAPH, _ENTRIES, _TARGET, _OTHERS = (8 * i for i in range(4))
"""Where among the arguments of `row_launch` there is what;"""
_LAUNCH, _PTR, _CHAIN, _NBYTES = (8 * i for i in range(4))
"""among those of `run_rows`;"""
_VERSION, _KNOWN_RUN, _KNOWN_BACKEND, _KNOWN_CONSTANTS, _KNOWN_ALIKE = (TUPLE_ITEMS + 8 * i for i in range(5))
"""in what is known of a chain that has come again;"""
_FIELDS = {name: TUPLE_ITEMS + 8 * place for place, name in enumerate(RowLaunch._fields)}
"""and in a launch."""


def row_launch(kind: type, before: int | None) -> bytes:
    """Return the code of a call of `row_launches.row_launch`."""
    return answered(kind, before, 4, _finding_address(kind))


def run_rows(kind: type, before: int | None) -> bytes:
    """Return the code of a call of `row_launches.run_rows`."""
    return answered(kind, before, 4, _running_address(kind))


@functools.cache
def _finding_address(kind: type) -> int:
    """Return where the code lies that makes a launch of what has been found before, given where the arguments are."""
    if objects.VECTORCALL is None:  # objects that are not counted come with this
        return 0
    call = Making(kind, None, ROOM)
    call.begin()
    call.begin_made()
    _find_reduction(call)
    _look_up(call)
    _require_unneeded(call)
    _require_unused(call)
    _gather(call)
    _make_launch(call)
    call.code.jump("give back")
    return call.end_made()


def _find_reduction(call: Making) -> None:
    """Let `r14` have the chain, `r12` where it goes, and `rbp` and `r13` the only result that waits and its call.

    What is found by the number of rows alone is left to Python.
    """
    code, is_single, again, done = call.code, *(call.new_label() for _ in range(3))
    for register, at, of in (("r14", _GRAPH, Graph), ("r12", _TARGET, Layout)):
        code.load(register, "rbx", at)
        call.unless_type(register, of, "undo")
    code.load("rdx", "r12", LAYOUT["shape"])
    code.compare_number_with("rdx", SIZE, 0)
    code.jump(is_single, "e")
    code.load("rdi", "r14", GRAPH["structure"])
    code.load("rdi", "rdi", _PLANS)
    code.set("rsi", id(NEARBY))
    code.call(objects.address("PyDict_GetItem"))
    code.compare_number("rax", 0)
    code.jump("undo", "ne")
    code.label(is_single)
    code.load("r8", "rbx", _ENTRIES)
    call.unless_type("r8", tuple, "undo")
    code.load("r9", "r8", SIZE)
    code.set("r13", 0)
    code.label(again)
    code.add("r9", -1)
    code.jump(done, "s")
    code.load_at("rdx", "r8", "r9", 8, TUPLE_ITEMS)
    call.unless_type("rdx", Pending, again)
    code.load("rsi", "rdx", PENDING["call"])
    code.set("rcx", NONE)
    code.compare("rsi", "rcx")
    code.jump(again, "e")
    call.unless_type("rsi", Call, "undo")
    code.load("rdi", "rsi", _CALL["leaves"])
    call.unless_type("rdi", tuple, again)  # it runs, or has run
    code.compare_number("r13", 0)
    code.jump("undo", "ne")
    code.move("r13", "rsi")
    code.move("rbp", "rdx")
    code.jump(again)
    code.label(done)
    code.compare_number("r13", 0)
    code.jump("undo", "e")


def _look_up(call: Making) -> None:
    """Let `r15` have what is known of the chain, under the present settings."""
    code = call.code
    load_number(call, "rdi", "r12", LAYOUT["alignment"])
    code.and_number("rdi", ACCESS - 1)
    code.call(objects.address("PyLong_FromSsize_t"))
    code.store("rsp", NUMBER, "rax")  # which is not counted
    made_of = ("r12", LAYOUT["strides"]), ("rsp", NUMBER), ("r13", _CALL["bound"])
    call.make_tuple(KEY, "rsi", "r14", *made_of)
    code.set("rdi", id(_KNOWN))
    code.call(objects.address("PyDict_GetItem"))
    code.compare_number("rax", 0)
    code.jump("undo", "e")
    code.move("r15", "rax")
    call.keep_at(KEPT, "r15")
    code.set("rdx", id(config))
    code.load("rdx", "rdx", VERSION)
    code.compare_with("r15", _VERSION, "rdx")
    code.jump("undo", "ne")


def _require_unneeded(call: Making) -> None:
    """Go on if no array has the result in `rbp`, and nothing else that waits reads it."""
    code, is_free, again, next_leaf, done = call.code, *(call.new_label() for _ in range(4))
    code.load("rdi", "rbp", _OWNER)
    _load_referent(call, is_free)
    call.unless_type("rax", Storage, "undo")
    code.load("rdx", "rax", VALUE)
    code.set("rcx", NONE)
    code.compare("rdx", "rcx")
    code.jump(is_free, "e")
    call.unless_type("rdx", tuple, "undo")
    code.load("rsi", "rdx", TUPLE_ITEMS)
    code.load("rsi", "rsi", GRAPH["nodes"])
    code.compare_number_with("rsi", SIZE, 0)
    code.jump(is_free, "ne")
    code.load("rsi", "rdx", TUPLE_ITEMS + 8)
    code.compare_with("rsi", TUPLE_ITEMS, "rbp")
    code.jump("undo", "e")
    code.label(is_free)
    code.set("rdi", id(CALLS))
    code.compare_number_with("rdi", SIZE, 1)
    code.jump("undo", "g")
    code.load("rdi", "rbx", _OTHERS)
    call.unless_type("rdi", list, "undo")
    code.load("r8", "rdi", LIST_ITEMS)
    code.load("r9", "rdi", SIZE)
    code.label(again)
    code.add("r9", -1)
    code.jump(done, "s")
    code.load_at("rdi", "r8", "r9", 8)
    call.unless_type("rdi", Storage, "undo")
    code.load("rdx", "rdi", VALUE)
    code.set("rcx", NONE)
    code.compare("rdx", "rcx")
    code.jump(again, "e")
    call.unless_type("rdx", tuple, "undo")
    code.load("rsi", "rdx", TUPLE_ITEMS)
    code.load("rsi", "rsi", GRAPH["nodes"])
    code.compare_number_with("rsi", SIZE, 0)
    code.jump(again, "e")
    code.load("rsi", "rdx", TUPLE_ITEMS + 8)
    code.load("r10", "rsi", SIZE)
    code.label(next_leaf)
    code.add("r10", -1)
    code.jump(again, "s")
    code.load_at("rdi", "rsi", "r10", 8, TUPLE_ITEMS)
    code.compare("rdi", "rbp")
    code.jump(next_leaf, "ne")
    code.jump("undo")
    code.label(done)


def _load_referent(call: Making, label: str) -> None:
    """Let `rax` have what the weak reference in `rdi` leads to; go to a label where that is None, or gone."""
    code = call.code
    code.set("rcx", NONE)
    code.compare("rdi", "rcx")
    code.jump(label, "e")
    code.call(objects.address("PyWeakref_GetObject"))
    code.set("rcx", NONE)
    code.compare("rax", "rcx")
    code.jump(label, "e")


def _require_unused(call: Making) -> None:
    """Let `r14` have the chains that are alike, and go on if the results of their reductions have not been needed."""
    code, is_gone = call.code, call.new_label()
    code.load("r14", "r15", _KNOWN_ALIKE)
    call.unless_type("r14", Alike, "undo")
    code.load("rdi", "r14", _ALIKE["last"])
    _load_referent(call, is_gone)
    call.unless_type("rax", Call, "undo")
    code.set("rcx", NONE)
    code.compare_with("rax", _CALL["leaves"], "rcx")
    code.jump("undo", "e")
    code.label(is_gone)
    code.load("rsi", "r14", _ALIKE["reused"])
    load_small(call, "rdx", "rsi", "undo")
    code.compare_number("rdx", MAX_REUSED)
    code.jump("undo", "ge")


def _gather(call: Making) -> None:
    """Let the stack have what the kernel reads, of the leaves of the chain and those of the reduction."""
    code, again, done = call.code, call.new_label(), call.new_label()
    code.load("rdi", "rbx", _ENTRIES)
    code.load("rsi", "r13", _CALL["leaves"])
    code.call(objects.address("PySequence_Concat"))
    call.made(LEAVES, "rbp")
    code.load("r12", "r14", _ALIKE["order"])
    call.unless_type("r12", tuple, "undo")
    code.load("rdi", "r12", SIZE)
    code.call(objects.address("PyTuple_New"))
    call.made(NEW, "r10")
    code.load("r9", "r12", SIZE)
    code.label(again)
    code.add("r9", -1)
    code.jump(done, "s")
    code.load_at("rsi", "r12", "r9", 8, TUPLE_ITEMS)
    load_small(call, "rdx", "rsi", "undo")
    code.compare_with("rbp", SIZE, "rdx")
    code.jump("undo", "le")
    code.load_at("rsi", "rbp", "rdx", 8, TUPLE_ITEMS)
    call.keep("rsi")
    code.store_at("r10", "r9", "rsi", 8, TUPLE_ITEMS)
    code.jump(again)
    code.label(done)


def _make_launch(call: Making) -> None:
    """Let `r14`, which has the chains that are alike, have the launch."""
    code = call.code
    code.set("rdi", 0)
    code.call(objects.address("PyList_New"))
    call.made(ENTRY, "rdi")
    code.move("rsi", "r13")
    code.call(objects.address("PyList_Append"))
    code.store("rsp", NUMBER, "rax")
    code.test_with("rsp", NUMBER, 1)
    code.jump("undo", "ne")
    code.set("r12", id(ONE))
    code.load("r13", "rsp", KEPT)
    known = ("r13", _KNOWN_RUN), ("r13", _KNOWN_BACKEND), "r12", ("rsp", NEW), ("r13", _KNOWN_CONSTANTS)
    code.set("rbp", id(LOOKED_UP))
    call.make_tuple(GRID, "rsi", *known, "r14", ("rsp", ENTRY), "rbp")
    code.set("rdi", id(_launch))
    code.call(objects.address("PyObject_CallOneArg"))
    code.compare_number("rax", 0)
    code.jump("undo", "e")
    code.move("r14", "rax")


@functools.cache
def _running_address(kind: type) -> int:
    """Return where the code lies that runs a launch, given where the arguments are; it returns None."""
    if objects.VECTORCALL is None:
        return 0
    call = Making(kind, None, ROOM)
    code = call.code
    call.begin()
    call.begin_made()
    _give(call)
    launch_given(call, GIVEN)
    call.without_memory = "raised"
    _note_last(call)
    _weigh(call)
    code.set("r14", NONE)
    code.jump("give back")
    return call.end_made()


def _give(call: Making) -> None:
    """Let the stack have what launches, and its arguments, of the launch in `r13`, and `r12` the reductions."""
    code = call.code
    code.load("r13", "rbx", _LAUNCH)
    call.unless_type("r13", RowLaunch, "undo")
    code.load("r12", "r13", _FIELDS["calls"])
    call.unless_type("r12", list, "undo")
    code.compare_number_with("r12", SIZE, 0)
    code.jump("undo", "e")
    code.load("rdx", "r13", _FIELDS["alike"])
    call.unless_type("rdx", Alike, "undo")
    require_room(call, *(("r13", _FIELDS[name]) for name in ("entries", "constants")))
    code.load("rdx", "r13", _FIELDS["run"])
    call.keep_at(COST, "rdx")
    code.move("rsi", "rsp")
    code.add("rsi", GIVEN)
    for register, at in (("r13", _FIELDS["grid"]), ("rbx", _PTR)):
        code.load("rdx", register, at)
        push(call, "rdx")
    push_entries(call, "r13", _FIELDS["entries"])
    push_items(call, "r13", _FIELDS["constants"])
    count_pushed(call)


def _note_last(call: Making) -> None:
    """Let the chains that are alike know which reduction has not run."""
    code = call.code
    code.load("rdi", "r12", LIST_ITEMS)
    code.load("rdi", "rdi")
    code.set("rsi", 0)
    code.call(objects.address("PyWeakref_NewRef"))
    call.made(NEW, "rbp")
    code.load("r12", "r13", _FIELDS["alike"])
    call.set_attribute("r12", _ALIKE["last"], "rbp")


def _weigh(call: Making) -> None:
    """Let placement know."""
    code = call.code
    code.move("r15", "rbx")
    weigh(call, "r13", _FIELDS["entries"], "to weigh", "is due", _NBYTES)
    code.jump("is weighed")
    tell_whether_due(call, "to weigh", "is due")
    give(call, "r13", ("rbx", _CHAIN), ("rbx", _NBYTES), "rbp")
    call_given(call, weigh_rows, 4)
    require_returned(call)
    code.label("is weighed")


__all__ = ["row_launch", "run_rows"]  # of which functions of Python's have the names

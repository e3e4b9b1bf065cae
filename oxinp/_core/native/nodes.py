"""What is recorded of arrays on the device, in machine code: their layouts, the graphs of these, and pending arrays.

Each function here is one of Python's that makes a few objects and sets their attributes, which takes less than its
call; it makes the same ones, and enters them where Python does. Whatever is not as usual is left to Python: dtypes that
are not NumPy's own, tables that are full, and values that other code may change.
"""

from __future__ import annotations

from oxinp._core.lazy import schedule
from oxinp._core.lazy.calls import CALLS, Call, Pending, forget
from oxinp._core.lazy.expr import Graph, Record, Structure
from oxinp._core.lazy.op import BoundOp
from oxinp._core.lazy.results import types
from oxinp._core.memory.layout import Layout
from oxinp._core.memory.storage import SHARED, Storage, next_mask
from oxinp._core.native import objects
from oxinp._core.native.function import HAS_OBJECTS, HELD, HOST, KNOWN, NONE, SEEN, STALE, STORED_HOST, VALUE, VIEW
from oxinp._core.native.given import ROOM, call_given
from oxinp._core.native.leaves import load_number, make_entry
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
    NEW_GRAPH,
    NUMBER,
    PTR,
    RECORD,
    RESULT,
    SCALAR_TYPE,
    Making,
    offsets,
)
from oxinp._core.native.objects import SIZE, TUPLE_ITEMS, TYPE
from oxinp._core.native.operand import load_variable
from oxinp._core.native.places import load_small
from oxinp._core.ops.product import Product
from oxinp._core.ops.vector_product import InnerProduct, MatrixProduct, VectorProduct
from oxinp._runtime.memory import Buffer

_LAYOUTS = offsets(BoundOp, ("layouts",))["layouts"]
_CALL = offsets(Call, ("_entry", "bound", "buffers", "leaves", "mask", "results"))
_PENDING = offsets(Pending, ("_buffer", "call", "owner", "place"))
_BOUND = BoundOp, Product, VectorProduct, MatrixProduct, InnerProduct
"""Classes of operations, which say alike where their results lie."""


def reading(kind: type, before: int | None) -> bytes:
    """Return the code of a call of `expr.reading`."""
    call = Making(kind, before)
    call.begin_making(1)
    call.code.load("rbx", "rbp", 0)
    call.unless_type("rbx", Layout, "general")
    call.load_reading()
    call.end_making("r12")
    return call.code.assembled()


def leaf(kind: type, before: int | None) -> bytes:
    """Return the code of a call of `expr.leaf`."""
    call = Making(kind, before)
    call.begin_making(1)
    call.code.load("r13", "rbp", 0)
    call.unless_type("r13", Layout, "general")
    call.load_leaf()
    call.end_making("r12")
    return call.code.assembled()


def _begin_of_array(call: Making) -> None:
    """Begin with one argument, an array; let `rbx` have its layout, `r14` its storage's value and `r12` the graph."""
    code = call.code
    call.begin_making(1)
    code.load("rbx", "rbp", 0)
    call.unless_type("rbx", call.kind, "general")
    code.load("r12", "rbx", HELD)
    code.compare_number("r12", 0)
    code.jump("general", "e")
    call.unless_type("r12", Storage, "general")
    code.load("r14", "r12", VALUE)
    call.unless_type("r14", tuple, "general")
    code.load("rbx", "rbx", KNOWN)
    code.compare_number("rbx", 0)
    code.jump("general", "e")
    call.unless_type("rbx", Layout, "general")
    code.load("r12", "r14", TUPLE_ITEMS)
    call.unless_type("r12", Graph, "general")


def chain(kind: type, before: int | None) -> bytes:
    """Return the code of a call of `handle.chain` of an array that is computed, or whose value is a chain itself."""
    call = Making(kind, before)
    code = call.code
    _begin_of_array(call)
    call.keep_at(GIVEN_VALUE, "r14")
    code.compare_with("r12", GRAPH["layout"], "rbx")
    code.jump("is whole", "e")
    code.load("rdx", "r12", GRAPH["nodes"])
    code.compare_number_with("rdx", SIZE, 0)
    code.jump("undo", "ne")
    call.keep_at(KEPT, "rbx")
    call.load_reading()
    code.load("r14", "rsp", GIVEN_VALUE)
    code.load("rbp", "r14", TUPLE_ITEMS + 8)
    code.load("r13", "rbx", LAYOUT["offset"])
    code.set("rcx", id(0))
    code.compare("r13", "rcx")
    code.jump("is first", "e")
    _move_entry(call)
    code.load("r14", "rsp", GIVEN_VALUE)
    code.label("is first")
    call.make_tuple(NEW, "r13", "r12", "rbp", ("r14", TUPLE_ITEMS + 16))
    code.move("r14", "r13")
    code.label("is whole")
    call.end_making("r14")
    return code.assembled()


def _move_entry(call: Making) -> None:
    """Let `rbp`, a tuple of one Buffer, be one of what lies the bytes in `r13` further on."""
    code = call.code
    call.unless_type("rbp", tuple, "undo")
    code.compare_number_with("rbp", SIZE, 1)
    code.jump("undo", "ne")
    code.load("rbp", "rbp", TUPLE_ITEMS)
    make_entry(call)
    call.make_tuple(LEAVES, "rbp", "r13")


def entry_at(kind: type, before: int | None) -> bytes:
    """Return the code of a call of `chains.entry_at`."""
    call = Making(kind, before)
    code = call.code
    call.begin_making(2)
    code.load("r13", "rbp", 0)
    code.load("rbp", "rbp", 8)
    code.set("rcx", id(0))
    code.compare("r13", "rcx")
    code.jump("general", "e")
    call.unless_type("r13", int, "general")
    make_entry(call)
    call.end_making("r13")
    return code.assembled()


def operand(kind: type, before: int | None) -> bytes:
    """Return the code of a call of `vector_product.operand` of an array."""
    call = Making(kind, before)
    code = call.code
    _begin_of_array(call)
    code.load("rdx", "r12", GRAPH["nodes"])
    code.compare_number_with("rdx", SIZE, 0)
    code.jump("is pending", "ne")
    code.load("rbp", "r14", TUPLE_ITEMS + 8)
    call.unless_type("rbp", tuple, "general")
    code.compare_number_with("rbp", SIZE, 1)
    code.jump("general", "ne")
    code.load("rbp", "rbp", TUPLE_ITEMS)
    call.unless_type("rbp", Buffer, "is a result")
    call.keep_at(GIVEN_VALUE, "r14")
    code.load("r13", "rbx", LAYOUT["offset"])
    code.compare_with("r12", GRAPH["layout"], "rbx")
    code.jump("is first", "e")
    code.set("rcx", id(0))
    code.compare("r13", "rcx")
    code.jump("is first", "e")
    make_entry(call)
    code.load("r14", "rsp", GIVEN_VALUE)
    code.move("rbp", "r13")
    code.label("is first")
    call.make_tuple(NEW, "r13", "rbp", ("r14", TUPLE_ITEMS + 16))
    code.jump("is found")
    code.label("is a result")
    call.unless_type("rbp", Pending, "general")
    code.set("rcx", NONE)
    code.compare_with("rbp", _PENDING["call"], "rcx")
    code.jump("general", "e")
    code.label("is pending")
    code.set("r13", NONE)
    code.label("is found")
    call.end_making("r13")
    return code.assembled()


def _begin_graph(call: Making, count: int) -> None:
    """Let `r12` have a new graph of the first three arguments of so many."""
    code = call.code
    call.begin_making(count)
    code.load("rbx", "rbp", 0)
    call.unless_type("rbx", Structure, "general")
    code.load("r13", "rbp", 8)
    call.unless_type("r13", Layout, "general")
    code.load("r14", "rbp", 16)
    call.make(Graph, NEW_GRAPH, "r12")
    call.fill_graph("r12", "rbx", "r13", "r14")


def graph_of(kind: type, before: int | None) -> bytes:
    """Return the code of a call of `expr.graph_of`."""
    call = Making(kind, before)
    _begin_graph(call, 3)
    call.end_making("r12")
    return call.code.assembled()


def recorded(kind: type, before: int | None) -> bytes:
    """Return the code of a call of `expr.recorded`."""
    call = Making(kind, before)
    code = call.code
    _begin_graph(call, 5)
    call.make(Record, NEW, "r14")
    call.fill_record("r14", "r12", "r13")
    for name, place in (("convert", 24), ("scalars", 32)):
        code.load("rdx", "rbp", place)
        call.put("r14", RECORD[name], "rdx")
    call.end_making("r14")
    return code.assembled()


def pending(kind: type, before: int | None) -> bytes:
    """Return the code of a call of `results.pending`."""
    call = Making(kind, before)
    code = call.code
    call.begin_making(3)
    code.load("rbx", "rbp", 0)
    _load_layout(call)
    call.make_tuple(GIVEN_VALUE, "r12", *[("rbp", 8 * i) for i in range(3)])
    make_array(call)
    _append_pending(call)
    call.end_making("r14")
    return code.assembled()


def _append_pending(call: Making) -> None:
    """Enter the weak reference in `r13` among what is pending."""
    code = call.code
    code.set("rdi", id(schedule.PENDING))
    code.move("rsi", "r13")
    code.call(objects.address("PyList_Append"))
    code.store("rsp", NUMBER, "rax")
    code.test_with("rsp", NUMBER, 1)
    code.jump("undo", "ne")


def wrap_pending(kind: type, before: int | None) -> bytes:
    """Return the code of a call of `results.wrap_pending` where there is room, of what reads nobody else's memory."""
    call = Making(kind, before)
    code = call.code
    call.begin_making(1)
    code.load("r12", "rbp", 0)
    call.unless_type("r12", tuple, "general")
    code.compare_number_with("r12", SIZE, 3)
    code.jump("general", "ne")
    code.load("rbx", "r12", TUPLE_ITEMS)
    _load_layout(call)
    load_number(call, "r14", "r12", TUPLE_ITEMS + 16)
    code.set("rcx", SHARED)
    code.compare("r14", "rcx")
    code.jump("undo", "ge")
    _load_setting(call, "rdx", "room")
    code.set("rcx", id(schedule.PENDING))
    code.compare_with("rcx", SIZE, "rdx")
    code.jump("undo", "ge")
    make_array(call)
    _append_pending(call)
    call.end_making("r14")
    return code.assembled()


def _load_setting(call: Making, target: str, name: str) -> None:
    """Let a register have a small number that a variable of the scheduler's is."""
    load_variable(call, schedule, name)
    call.code.move("rsi", "rax")
    load_small(call, target, "rsi", "undo")


def wrap_result(kind: type, before: int | None) -> bytes:
    """Return the code of a call of `results.wrap_result`."""
    call = Making(kind, before)
    code = call.code
    call.begin_making(1)
    code.load("r12", "rbp", 0)
    call.unless_type("r12", tuple, "general")
    code.load("rbx", "r12", TUPLE_ITEMS)
    _load_layout(call)
    _return_result(call)
    return code.assembled()


def deferred(kind: type, before: int | None) -> bytes:
    """Return the code of a call of `results.deferred` of one result, of what reads nobody else's memory."""
    call = Making(kind, before, ROOM)
    code = call.code
    call.begin_making(3)
    _load_result(call)
    _require_room(call)
    call.load_leaf()
    call.keep_at(COST, "r12")
    _make_call(call)
    call.make_tuple(GRID, "rbp", "r12")
    call_given(call, next_mask, 0)
    call.made(RESULT, "rdx")
    call.make_tuple(GIVEN_VALUE, "r12", ("rsp", COST), "rbp", ("rsp", RESULT))
    code.move("rbx", "r13")
    _return_result(call)
    return code.assembled()


def _load_result(call: Making) -> None:
    """Let `rbx` have the operation, the first argument, and `r13` the layout of its only result."""
    code = call.code
    code.load("rbx", "rbp", 0)
    code.load("rdx", "rbx", TYPE)
    call.if_one_of("rdx", _BOUND, "is bound")
    code.jump("undo")
    code.label("is bound")
    code.load("rdx", "rbx", _LAYOUTS)
    code.compare_number("rdx", 0)
    code.jump("undo", "e")
    call.unless_type("rdx", tuple, "undo")
    code.compare_number_with("rdx", SIZE, 1)
    code.jump("undo", "ne")
    code.load("r13", "rdx", TUPLE_ITEMS)
    call.unless_type("r13", Layout, "undo")


def _require_room(call: Making) -> None:
    """Go on where a call more may wait, of which nobody is told, and which reads nobody else's memory."""
    code = call.code
    load_number(call, "r14", "rbp", 16)
    code.set("rcx", SHARED)
    code.compare("r14", "rcx")
    code.jump("undo", "ge")
    _load_setting(call, "r14", "MAX_CALLS")
    code.set("rax", id(CALLS))
    code.compare_with("rax", SIZE, "r14")
    code.jump("undo", "ge")
    _load_setting(call, "rdx", "room")
    code.compare_number("rdx", 0)
    code.jump("undo", "l")


def _make_call(call: Making) -> None:
    """Let `r12` have the result of a new call of the operation in `rbx`, which waits from then on."""
    code = call.code
    call.make(Call, KEPT, "r14")
    call.put("r14", _CALL["bound"], "rbx")
    for name, place in (("leaves", 8), ("mask", 16)):
        code.load("rdx", "rbp", place)
        call.put("r14", _CALL[name], "rdx")
    call.put("r14", _CALL["buffers"], NONE)
    call.make(Pending, PTR, "r12")
    call.put("r12", _PENDING["call"], "r14")
    call.put("r12", _PENDING["place"], id(0))
    for name in ("owner", "_buffer"):
        call.put("r12", _PENDING[name], NONE)
    _refer_to(call, GRID, "r12", 0)
    code.set("rdi", 1)
    code.call(objects.address("PyTuple_New"))
    call.made(RESULT, "rdi")
    call.hand_over(GRID, "rdi", TUPLE_ITEMS)
    call.hand_over(RESULT, "r14", _CALL["results"])
    _refer_to(call, GIVEN_VALUE, "r14", id(forget))
    code.set("rdx", NONE)
    call.enter(CALLS, "rdx", GIVEN_VALUE)
    call.hand_over(GIVEN_VALUE, "r14", _CALL["_entry"])


def _refer_to(call: Making, place: int, register: str, callback: int) -> None:
    """Let `rdx` and the stack have a new weak reference to an object, with what is called once that is gone."""
    code = call.code
    code.move("rdi", register)
    code.set("rsi", callback)
    code.call(objects.address("PyWeakref_NewRef"))
    call.made(place, "rdx")


def _return_result(call: Making) -> None:
    """Return a new array or scalar of the layout in `rbx` and the value in `r12`, whose result knows of it."""
    code = call.code
    make_array(call)
    code.load("rbp", "r12", TUPLE_ITEMS + 8)
    code.load("rbp", "rbp", TUPLE_ITEMS)
    call.unless_type("rbp", Pending, "has no owner")
    call.set_attribute("rbp", _PENDING["owner"], "r13")
    code.label("has no owner")
    call.end_making("r14")


def _load_layout(call: Making) -> None:
    """Let `rbx`, a graph, be its layout."""
    call.unless_type("rbx", Graph, "general")
    call.code.load("rbx", "rbx", GRAPH["layout"])
    call.unless_type("rbx", Layout, "general")


def make_array(call: Making) -> None:
    """Let `r14` have a new array or scalar of the layout in `rbx` and the value in `r12`, and `r13` a weak reference.

    That is to its storage.
    """
    code = call.code
    call.make(Storage, NEW, "r13")
    call.put("r13", HAS_OBJECTS, id(False))
    call.put("r13", VALUE, "r12")
    for at in (STORED_HOST, STALE):
        call.put("r13", at, NONE)
    code.set("rcx", id(0))
    code.compare_with("rbx", LAYOUT["ndim"], "rcx")
    code.jump("scalar", "e")
    call.make_array(ENTRY, "r14")
    code.jump("is made")
    code.label("scalar")
    code.load("rdx", "rbx", LAYOUT["dtype"])
    call.select("rdx", (SCALAR_TYPE, lambda dtype: dtype.type))
    code.set("rdi", id(types.scalars))
    code.load("rsi", "rsp", SCALAR_TYPE)
    code.call(objects.address("PyDict_GetItem"))
    code.compare_number("rax", 0)
    code.jump("undo", "e")
    code.move("rdi", "rax")
    code.set("rsi", 0)
    code.load("rax", "rdi", objects.ALLOC)
    code.call_register("rax")
    call.made(ENTRY, "r14")
    code.label("is made")
    call.put("r14", KNOWN, "rbx")
    call.put("r14", HELD, "r13")
    for at in (VIEW, HOST, SEEN):
        call.put("r14", at, NONE)
    _refer_to(call, KEY, "r13", 0)
    code.move("r13", "rdx")


__all__ = [
    "chain",
    "deferred",
    "entry_at",
    "graph_of",
    "leaf",
    "operand",
    "pending",
    "reading",
    "recorded",
    "wrap_pending",
    "wrap_result",
]

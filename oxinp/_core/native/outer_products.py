"""Outer products of two vectors, recorded in machine code: what `ops.outer` says where the like has been recorded.

Vectors that are on the host alone are uploaded first, if the products are the device's for their number.
"""

from __future__ import annotations

from oxinp._config import Config, config
from oxinp._core.lazy.expr import Graph, Structure, graph_of, remember
from oxinp._core.lazy.handle import chain, found, stored, upload_first
from oxinp._core.lazy.results import pending
from oxinp._core.memory.layout import Layout, dense_of, spread
from oxinp._core.memory.recent import MEETINGS, Recent
from oxinp._core.memory.storage import Leaf, Storage
from oxinp._core.native import objects
from oxinp._core.native.binary import join_masks, require_recording
from oxinp._core.native.function import HAS_OBJECTS, HELD, HOST, KNOWN, NONE, SEEN, STALE, STORED_HOST, VALUE, VIEW
from oxinp._core.native.given import ROOM, call_given, give
from oxinp._core.native.joining import ENTRIES_AT, GRAPH_AT
from oxinp._core.native.leaves import load_number
from oxinp._core.native.locking import acquire, let_go
from oxinp._core.native.loops import CONTIGUOUS
from oxinp._core.native.making import (
    COST,
    DTYPES,
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
    OLD,
    PTR,
    RESULT,
    Making,
    offsets,
)
from oxinp._core.native.objects import ARRAY_FLAGS, DTYPE_ITEMSIZE, SIZE, TUPLE_ITEMS
from oxinp._core.native.operand import find_known, load_layout_of, load_variable
from oxinp._core.native.places import load_small
from oxinp._core.ops.outer import GRAPHS, STRUCTURES
from oxinp._runtime import select

_CONFIG = offsets(Config, ("offload_threshold", "version"))
_NUM_PRODUCTS, _INDEX, _FILLED = (8 * i for i in range(19, 22))
"""Where on the stack there is how many products there are, and which leaf of how many is passed."""
_LAYOUTS, _VALUES = (ENTRY, PTR), (GIVEN_VALUE, KEPT)
"""Where there are those of the vectors."""
_WORD = 8
"""Bytes of an element at most that count against the threshold, see `loops.outer`."""


def recorded(kind: type, before: int | None) -> bytes:
    """Return the code of a call of `outer` of two vectors, of which the device has the products."""
    call = Making(kind, before, ROOM)
    code = call.code
    call.begin_call(2)
    code.label("2 arguments")
    call.begin_made()
    require_recording(call)
    for place, layout in enumerate(_LAYOUTS):
        _load_layout(call, 8 * place, layout)
    _require_matrix(call)
    _require_device(call)
    for place, layout, value in zip((0, 8), _LAYOUTS, _VALUES, strict=True):
        _load_factor(call, place, layout, value)
    for register, value in zip(("r13", "r14"), _VALUES, strict=True):
        code.load(register, "rsp", value)
    join_masks(call)
    _find_graph(call)
    code.load("rdi", "r13", ENTRIES_AT)
    code.load("rsi", "r14", ENTRIES_AT)
    code.call(objects.address("PySequence_Concat"))
    call.made(LEAVES, "rax")
    give(call, "rbx", ("rsp", LEAVES), ("rsp", COST))
    call_given(call, pending, 3)
    call.made(NEW, "r14")
    call.end_making("r14")
    return code.assembled()


def _load_layout(call: Making, place: int, kept: int) -> None:
    """Let `r12` have the layout of an argument, a vector whose elements lie at multiples of their size."""
    code, is_known, is_unknown, is_other = call.code, *(call.new_label() for _ in range(3))
    code.load("rbx", "rbp", place)
    call.unless_type("rbx", call.kind, "undo")
    find_known(call, "rbx")
    code.load("r12", "rbx", KNOWN)
    call.unless_type("r12", Layout, is_unknown)
    call.keep_at(kept, "r12")
    code.jump(is_known)
    code.label(is_unknown)
    _find_whole(call, kept, is_other)
    code.jump(is_known)
    code.label(is_other)
    give(call, "rbx")
    call_given(call, found, 1)
    call.made(kept, "r12")
    call.unless_type("r12", Layout, "undo")
    code.label(is_known)
    for name, value in (("ndim", 1), ("is_aligned", True)):
        code.set("rcx", id(value))
        code.compare_with("r12", LAYOUT[name], "rcx")
        code.jump("undo", "ne")


def _find_whole(call: Making, kept: int, label: str) -> None:
    """Let `r12` have the layout of the array in `rbx`, and that have a storage, if it is new and on the host alone.

    Go to a label for others, which `handle.found` and `handle.stored` know about.
    """
    code = call.code
    code.load("r12", "rbx", SEEN)
    code.set("rcx", NONE)
    for at in (HELD, VIEW):
        code.compare_with("rbx", at, "rcx")
        code.jump(label, "ne")
    for nothing in (0, NONE):
        code.set("rcx", nothing)
        code.compare("r12", "rcx")
        code.jump(label, "e")
    code.compare_with("rbx", HOST, "r12")
    code.jump(label, "ne")
    code.test_with("r12", ARRAY_FLAGS, CONTIGUOUS)
    code.jump(label, "e")
    call.require_elements("r12", [dtype.type for dtype in DTYPES], label)
    call.make(Storage, NEW, "r13")
    code.set("rcx", NONE)
    code.compare_with("rbx", HELD, "rcx")
    code.jump("undo", "ne")  # a finaliser, which allocating may call, has given it one
    for at, value in ((STORED_HOST, "r12"), (VALUE, NONE), (STALE, NONE), (HAS_OBJECTS, id(False))):
        call.put("r13", at, value)
    call.hand_over(NEW, "rbx", HELD)
    load_layout_of(call, "r12", kept, "r12")
    call.set_attribute("rbx", KNOWN, "r12")


def _require_matrix(call: Making) -> None:
    """Let the stack have how many products there are, in more than a row and a column, of vectors of one dtype."""
    code = call.code
    left, right = ("rbx", "r12")
    for register, layout in zip((left, right), _LAYOUTS, strict=True):
        code.load(register, "rsp", layout)
    code.load("rdx", left, LAYOUT["dtype"])
    code.compare_with(right, LAYOUT["dtype"], "rdx")
    code.jump("undo", "ne")
    for register, extent in ((left, "rdi"), (right, "rdx")):
        code.load("rsi", register, LAYOUT["size"])
        load_small(call, extent, "rsi", "undo")
        code.compare_number(extent, 1)
        code.jump("undo", "le")
    code.multiply_by("rdi", "rdx")
    code.store("rsp", _NUM_PRODUCTS, "rdi")


def _require_device(call: Making) -> None:
    """Go on where both vectors are on the device alone, or the products are the device's for their number."""
    code, is_small = call.code, call.new_label()
    code.set("rcx", NONE)
    for place in (0, 8):
        code.load("rdx", "rbp", place)
        code.load("rdx", "rdx", HELD)
        code.compare_number("rdx", 0)
        code.jump("undo", "e")
        code.compare("rdx", "rcx")
        code.jump("on the host", "e")
        code.compare_with("rdx", STORED_HOST, "rcx")
        code.jump("on the host", "ne")
    code.jump("is the device's")
    code.label("on the host")
    load_variable(call, select, "_decided")
    code.set("rdx", id(config))
    code.load("rdx", "rdx", _CONFIG["version"])
    code.compare_with("rax", TUPLE_ITEMS, "rdx")
    code.jump("undo", "ne")
    code.set("rcx", NONE)
    code.compare_with("rax", TUPLE_ITEMS + 8, "rcx")
    code.jump("undo", "e")
    code.set("rdx", id(config))
    load_number(call, "r13", "rdx", _CONFIG["offload_threshold"])
    code.load("rdx", "rsp", _LAYOUTS[0])
    code.load("rdx", "rdx", LAYOUT["dtype"])
    code.load("rdx", "rdx", DTYPE_ITEMSIZE)
    code.compare_number("rdx", _WORD)
    code.jump(is_small, "le")
    code.set("rdx", _WORD)
    code.label(is_small)
    code.multiply("rdx", "rsp", _NUM_PRODUCTS)
    code.compare("rdx", "r13")
    code.jump("undo", "l")
    code.label("is the device's")


def _load_factor(call: Making, place: int, layout: int, kept: int) -> None:
    """Let the stack have the value of an argument: a computed one, or a chain, which is light if its structure is met.

    `rbp` stays as it is.
    """
    code = call.code
    again, has_storage, is_there, is_chain, is_whole, done = (call.new_label() for _ in range(6))
    code.load("rbx", "rbp", place)
    code.load("r12", "rsp", layout)
    code.load("r13", "rbx", HELD)
    code.set("rcx", NONE)
    code.compare("r13", "rcx")
    code.jump(has_storage, "ne")
    give(call, "rbx")
    call_given(call, stored, 1)
    call.made(kept, "r13")  # which the array keeps, too
    code.set("rax", 0)
    code.store("rsp", kept, "rax")
    call.drop("r13")
    code.label(has_storage)
    call.unless_type("r13", Storage, "undo")
    code.label(again)
    code.load("r14", "r13", VALUE)
    code.set("rcx", NONE)
    code.compare("r14", "rcx")
    code.jump(is_there, "ne")
    _upload(call)
    code.jump(again)
    code.label(is_there)
    call.unless_type("r14", tuple, "undo")
    code.load("rdx", "r14", GRAPH_AT)
    call.unless_type("rdx", Graph, "undo")
    code.load("rsi", "rdx", GRAPH["nodes"])
    code.compare_number_with("rsi", SIZE, 0)
    code.jump(is_chain, "ne")
    code.compare_with("rdx", GRAPH["layout"], "r12")
    code.jump(is_whole, "e")
    give(call, "rbx")
    call_given(call, chain, 1)
    call.made(kept, "r14")
    call.unless_type("r14", tuple, "undo")
    code.jump(done)
    code.label(is_chain)
    code.compare_with("rdx", GRAPH["layout"], "r12")
    code.jump("undo", "ne")
    _require_no_parts(call)
    code.label(is_whole)
    call.keep_at(kept, "r14")
    code.label(done)


def _require_no_parts(call: Making) -> None:
    """Go on if the value in `r14` reads no parts of arrays, which may be what the products are written to."""
    code, again, done = call.code, call.new_label(), call.new_label()
    code.load("rdx", "r14", ENTRIES_AT)
    code.load("rsi", "rdx", SIZE)
    code.label(again)
    code.add("rsi", -1)
    code.jump(done, "s")
    code.load_at("rdi", "rdx", "rsi", 8, TUPLE_ITEMS)
    call.unless_type("rdi", Leaf, again)
    code.jump("undo")
    code.label(done)


def _upload(call: Making) -> None:
    """Upload what the storage in `r13` has on the host, which has a value then."""
    code, is_done = call.code, call.new_label()
    acquire(call, "undo")
    give(call, "r13")
    call_given(call, upload_first, 1)
    code.move("r14", "rax")
    code.compare_number("r14", 0)
    code.jump(is_done, "ne")
    code.call(objects.address("PyErr_Clear"))  # Python begins again
    code.label(is_done)
    let_go(call)
    code.compare_number("r14", 0)
    code.jump("undo", "e")
    call.drop("r14")  # which the storage keeps
    code.set("rcx", NONE)
    code.compare_with("r13", VALUE, "rcx")
    code.jump("undo", "e")


def _find_graph(call: Making) -> None:
    """Let `rbx` have the graph of the products of the values in `r13` and `r14`, which the stack keeps."""
    code = call.code
    call.make_tuple(KEY, "rdi", ("r13", GRAPH_AT), ("r14", GRAPH_AT))
    for table, label in ((id(GRAPHS), "is known"), (0, "undo")):
        code.set("rdi", id(GRAPHS))
        if not table:  # Python brings back what it has known before
            code.load("rdi", "rdi", OLD)
        code.load("rsi", "rsp", KEY)
        code.call(objects.address("PyDict_GetItem"))
        code.move("rbx", "rax")
        code.compare_number("rbx", 0)
        code.jump(label, "ne")
    _find_structure(call)
    _make_leaves(call)
    _make_graph(call)
    _enter(call)
    code.jump("has graph")
    code.label("is known")
    call.keep_at(RESULT, "rbx")
    code.label("has graph")


def _find_structure(call: Making) -> None:
    """Let `rbp` and the stack have the structure of the products, of structures that have been met."""
    code = call.code
    code.load("rbx", "r13", GRAPH_AT)
    code.load("rbp", "r14", GRAPH_AT)
    call.make_tuple(NEW, "rsi", ("rbx", GRAPH["structure"]), ("rbp", GRAPH["structure"]))
    code.set("rdi", id(STRUCTURES))
    code.call(objects.address("PyDict_GetItem"))
    code.compare_number("rax", 0)
    code.jump("undo", "e")
    code.move("rbp", "rax")
    call.release(NEW)
    call.unless_type("rbp", Structure, "undo")
    call.keep_at(NEW, "rbp")


def _make_leaves(call: Making) -> None:
    """Let the stack have the shape of the products, and the leaves of both vectors spread to it; `rbp` is kept."""
    code = call.code
    for register, layout in zip(("rbx", "r12"), _LAYOUTS, strict=True):
        code.load(register, "rsp", layout)
    call.make_tuple(GRID, "rdi", ("rbx", LAYOUT["size"]), ("r12", LAYOUT["size"]))
    for value, register in (("r13", "rbx"), ("r14", "r12")):
        code.load(register, value, GRAPH_AT)
        code.load(register, register, GRAPH["leaves"])
    code.load("rdi", "rbx", SIZE)
    code.add_from("rdi", "r12", SIZE)
    code.call(objects.address("PyTuple_New"))
    call.made(LEAVES, "r12")
    code.set("rax", 0)
    code.store("rsp", _FILLED, "rax")
    for axis, value in enumerate(("r13", "r14")):
        again, is_number, is_spread, done = (call.new_label() for _ in range(4))
        code.set("rax", 0)
        code.store("rsp", _INDEX, "rax")
        code.label(again)
        code.load("rbx", value, GRAPH_AT)
        code.load("rbx", "rbx", GRAPH["leaves"])
        code.load("rax", "rsp", _INDEX)
        code.compare_with("rbx", SIZE, "rax")
        code.jump(done, "le")
        code.load_at("rbx", "rbx", "rax", 8, TUPLE_ITEMS)
        call.unless_type("rbx", Layout, is_number)
        give(call, "rbx", ("rsp", GRID), id(axis))
        call_given(call, spread, 3)
        code.compare_number("rax", 0)
        code.jump("undo", "e")
        code.jump(is_spread)
        code.label(is_number)
        call.keep("rbx")
        code.move("rax", "rbx")
        code.label(is_spread)
        code.load("rcx", "rsp", _FILLED)
        code.store_at("r12", "rcx", "rax", 8, TUPLE_ITEMS)
        for count in (_INDEX, _FILLED):
            code.increment("rsp", count)
        code.jump(again)
        code.label(done)


def _make_graph(call: Making) -> None:
    """Let `rbx` and the stack have a new graph of the structure in `rbp` on the leaves in `r12`."""
    code, is_chain, is_like = call.code, call.new_label(), call.new_label()
    code.load("rbx", "r13", GRAPH_AT)
    code.load("rdx", "rbx", GRAPH["nodes"])
    code.compare_number_with("rdx", SIZE, 0)
    code.jump(is_chain, "ne")
    code.load("rbx", "r12", TUPLE_ITEMS)
    code.jump(is_like)
    code.label(is_chain)
    give(call, ("rsp", _LAYOUTS[0]), ("rsp", GRID), id(0))
    call_given(call, spread, 3)
    call.made(NEW_GRAPH, "rbx")
    code.label(is_like)
    give(call, "rbx")
    call_given(call, dense_of, 1)
    code.compare_number("rax", 0)
    code.jump("undo", "e")
    code.move("r15", "rax")
    call.drop("r15")  # which the layout in `rbx` keeps
    give(call, "rbp", ("rbx", LAYOUT["_dense"]), "r12")
    call_given(call, graph_of, 3)
    call.made(RESULT, "rbx")
    call.release(LEAVES)


def _enter(call: Making) -> None:
    """Enter the new graph in `rbx`, of the structure in `rbp`, if the like has come often enough, as `outer` does."""
    code, is_counted = call.code, call.new_label()
    for value in ("r13", "r14"):
        code.load("r12", value, GRAPH_AT)
        code.load("rsi", "r12", GRAPH["met"])
        load_small(call, "rdx", "rsi", "undo")
        code.compare_number("rdx", MEETINGS)
        code.jump("is new", "l")
    for register, layout in zip(("rbx", "r12"), _LAYOUTS, strict=True):
        code.load(register, "rsp", layout)
    sizes = [(register, LAYOUT[name]) for name in ("size", "strides") for register in ("rbx", "r12")]
    call.make_tuple(LEAVES, "rdi", "rbp", *sizes)
    give(call, id(GRAPHS), "rdi", ("r13", GRAPH_AT), ("r14", GRAPH_AT))
    call_given(call, Recent.has_met, 4)
    code.compare_number("rax", 0)
    code.jump("undo", "e")
    code.move("r12", "rax")  # which is not counted
    call.release(LEAVES)
    code.load("rbx", "rsp", RESULT)
    code.set("rcx", id(True))
    code.compare("r12", "rcx")
    code.jump(is_counted, "ne")
    give(call, id(GRAPHS), ("rsp", KEY), "rbx")
    call_given(call, remember, 3)
    code.compare_number("rax", 0)
    code.jump("undo", "e")
    code.set("rbp", id(MEETINGS))
    call.set_attribute("rbx", GRAPH["met"], "rbp")
    code.jump(is_counted)
    code.label("is new")
    for value in ("r13", "r14"):
        is_lasting = call.new_label()
        code.load("r12", value, GRAPH_AT)
        code.load("rsi", "r12", GRAPH["met"])
        load_small(call, "rdi", "rsi", "undo")
        code.compare_number("rdi", MEETINGS)
        code.jump(is_lasting, "ge")
        code.add("rdi", 1)
        code.call(objects.address("PyLong_FromSsize_t"))  # of few, which there always is
        code.store("r12", GRAPH["met"], "rax")
        code.label(is_lasting)
    code.label(is_counted)


__all__ = ["recorded"]

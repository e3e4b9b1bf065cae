"""What is recorded of arrays on the device, in machine code: their layouts, the graphs of these, and pending arrays.

Each function here is one of Python's that makes a few objects and sets their attributes, which takes less than its
call; it makes the same ones, and enters them where Python does. Whatever is not as usual is left to Python: dtypes that
are not NumPy's own, tables that are full, and values that other code may change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from oxinp._core.lazy import schedule
from oxinp._core.lazy.expr import Graph, Record, Structure, leaf_structure
from oxinp._core.memory import layout as layouts
from oxinp._core.memory.layout import Layout
from oxinp._core.memory.recent import Recent
from oxinp._core.memory.storage import Leaf, Storage
from oxinp._core.native import objects
from oxinp._core.native.call import Call
from oxinp._core.native.function import (
    HAS_OBJECTS,
    HELD,
    HOST,
    KNOWN,
    MIDDLING,
    NONE,
    SEEN,
    STALE,
    STORED_HOST,
    VALUE,
    VIEW,
    WIDE,
)
from oxinp._core.native.objects import DTYPE_ITEMSIZE, INT_DIGIT, INT_TAG, POSITIVE, SIZE, TUPLE_ITEMS
from oxinp._core.native.places import load_small
from oxinp._runtime.memory import Buffer

_DTYPES = [np.dtype(kind) for kind in (*MIDDLING, WIDE, np.complex64, np.float16)]
_LINES = {dtype: (dtype.itemsize,) for dtype in _DTYPES}
"""The strides of vectors without gaps."""
_LARGEST_ALIGNMENT = 256  # see `Layout.form`


def _offsets(kind: type, names: Iterable[str]) -> dict[str, int]:
    return {name: objects.offset(getattr(kind, name)) if objects.ARE_KNOWN else 0 for name in names}


_LAYOUT = _offsets(Layout, Layout.__slots__)
_GRAPH = _offsets(Graph, Graph.__slots__)
_RECORD = _offsets(Record, Record.__slots__)
_STRUCTURE = _offsets(Structure, ("nodes", "result"))
_LEAF = _offsets(Leaf, Leaf.__slots__)
_BUFFER_PTR = _offsets(Buffer, ("ptr",))["ptr"]
_OLD = _offsets(Recent, ("old",))["old"]

_NUMBER, _TYPE, _STRUCTURE_OF = (8 * i for i in range(5, 8))
_KEPT, _VALUE, _KEY, _NEW, _NEW_GRAPH, _LEAVES, _PTR, _ENTRY = (8 * i for i in range(8, 16))
_PLACES = _KEPT, _VALUE, _KEY, _NEW, _NEW_GRAPH, _LEAVES, _PTR, _ENTRY
_ROOM = 16 * 8 + 8  # an odd number of words
"""Where on the stack there is what: numbers and objects that nobody gives back, and such as have been taken or made."""


class _Making(Call):
    """A call that makes objects; what is made lies on the stack until it is handed over, and goes if something fails.

    Parameters are those of `Call`.
    """

    def __init__(self, kind: type, before: int | None) -> None:
        super().__init__(kind, before, _ROOM)

    def begin_making(self, count: int) -> None:
        """Begin with so many arguments, at `rbp`."""
        code = self.code
        self.begin_call(count)
        code.label(f"{count} arguments")
        code.set("rax", 0)
        for place in _PLACES:
            code.store("rsp", place, "rax")

    def end_making(self, result: str) -> None:
        """Return what a register has, with a reference of its own; lay out ``undo``, which leaves all to Python."""
        code = self.code
        self.keep(result)
        code.store("rsp", _NUMBER, result)
        self._drop_made()
        code.load("rax", "rsp", _NUMBER)
        code.jump("return")
        code.label("undo")
        self._drop_made()
        code.call(objects.address("PyErr_Clear"))
        code.jump("general")
        self.end_call()

    def _drop_made(self) -> None:
        for place in _PLACES:
            is_none = self.new_label()
            self.code.load("r12", "rsp", place)
            self.code.compare_number("r12", 0)
            self.code.jump(is_none, "e")
            self.drop("r12")
            self.code.label(is_none)

    def _made(self, place: int, target: str) -> None:
        """Let a register and the stack have what has been made, in `rax`."""
        self.code.compare_number("rax", 0)
        self.code.jump("undo", "e")
        self.code.store("rsp", place, "rax")
        self.code.move(target, "rax")

    def make(self, kind: type, place: int, target: str) -> None:
        """Make an object without any of its attributes."""
        code = self.code
        code.set("rdi", id(kind))
        code.set("rsi", 0)
        code.call(objects.slot(kind, "alloc").value)
        self._made(place, target)

    def make_array(self, place: int, target: str) -> None:
        """Make an array of ours without any of its attributes."""
        code = self.code
        code.set("rdi", id(self.kind))
        code.set("rsi", 0)
        code.set("rax", objects.place(self.kind, "alloc"))
        code.load("rax", "rax")
        code.call_register("rax")
        self._made(place, target)

    def make_tuple(self, place: int, target: str, *items: tuple[str, int] | str) -> None:
        """Make a tuple of what registers have, or lies at an offset from one."""
        code = self.code
        code.set("rdi", len(items))
        code.call(objects.address("PyTuple_New"))
        self._made(place, target)
        for i, item in enumerate(items):
            if isinstance(item, str):
                self.put(target, TUPLE_ITEMS + 8 * i, item)
            else:
                code.load("rdx", *item)
                self.put(target, TUPLE_ITEMS + 8 * i, "rdx")

    def hand_over(self, place: int, holder: str, at: int) -> None:
        """Let an object have what has been made, in place of what it has had."""
        code, is_none = self.code, self.new_label()
        code.load("rax", "rsp", place)
        code.load("r15", holder, at)
        code.store(holder, at, "rax")
        code.set("rax", 0)
        code.store("rsp", place, "rax")
        code.compare_number("r15", 0)
        code.jump(is_none, "e")
        self.drop("r15")
        code.label(is_none)

    def set_attribute(self, holder: str, at: int, value: str) -> None:
        """Let an object have what a register has, in place of what it has had."""
        code = self.code
        self.keep(value)
        code.load("r15", holder, at)
        code.store(holder, at, value)
        self.drop("r15")

    def copy(self, source: str, target: str, names: Iterable[str]) -> None:
        """Let a new layout have attributes of another one."""
        for name in names:
            self.code.load("rdx", source, _LAYOUT[name])
            self.put(target, _LAYOUT[name], "rdx")

    def put_all(self, target: str, table: dict[str, int], value: object, *names: str) -> None:
        """Let a new object have a value for several attributes."""
        for name in names:
            self.put(target, table[name], id(value))

    def keep_at(self, place: int, register: str) -> None:
        """Take a reference to an object until the end."""
        self.keep(register)
        self.code.store("rsp", place, register)

    def select(self, dtype: str, *of: tuple[int, Callable[[Any], object]]) -> None:
        """Let places on the stack have what belongs to the dtype in a register; leave others to Python."""
        code, is_found = self.code, self.new_label()
        for each in _DTYPES:
            is_other = self.new_label()
            code.set("rcx", id(each))
            code.compare(dtype, "rcx")
            code.jump(is_other, "ne")
            for place, value in of:
                code.set("rcx", id(value(each)))
                code.store("rsp", place, "rcx")
            code.jump(is_found)
            code.label(is_other)
        code.jump("undo")
        code.label(is_found)

    def look_up(self, table: Recent, room: int, target: str, found: str) -> None:
        """Let a register have what a table has for the key on the stack, and go to a label; go on where it is new."""
        code, is_young = self.code, self.new_label()
        code.set("rdi", id(table))
        code.load("rsi", "rsp", _KEY)
        code.call(objects.address("PyDict_GetItem"))
        code.move(target, "rax")
        code.compare_number("rax", 0)
        code.jump(found, "ne")
        code.set("rdx", id(table))
        code.compare_number_with("rdx", SIZE, room)
        code.jump("undo", "ge")
        code.load("rdi", "rdx", _OLD)
        code.compare_number_with("rdi", SIZE, 0)
        code.jump(is_young, "e")
        code.load("rsi", "rsp", _KEY)
        code.call(objects.address("PyDict_GetItem"))
        code.compare_number("rax", 0)
        code.jump("undo", "ne")
        code.label(is_young)

    def enter(self, table: Recent, made: str) -> None:
        """Enter what a register has into a table, by the key on the stack."""
        code = self.code
        code.set("rdi", id(table))
        code.load("rsi", "rsp", _KEY)
        code.move("rdx", made)
        code.call(objects.address("PyDict_SetItem"))
        code.store("rsp", _NUMBER, "rax")
        code.test_with("rsp", _NUMBER, 1)
        code.jump("undo", "ne")

    def fill_graph(self, graph: str, structure: str, layout: str, leaves: str) -> None:
        """Give a new graph its attributes, as `graph_of` does."""
        code = self.code
        for name, value in (("structure", structure), ("layout", layout), ("leaves", leaves)):
            self.put(graph, _GRAPH[name], value)
        for name in ("nodes", "result"):
            code.load("rdx", structure, _STRUCTURE[name])
            self.put(graph, _GRAPH[name], "rdx")
        code.load("rdx", layout, _LAYOUT["shape"])
        self.put(graph, _GRAPH["shape"], "rdx")
        self.put_all(graph, _GRAPH, None, "program", "programs", "views")
        self.put_all(graph, _GRAPH, False, "is_scalar", "is_copy")
        self.put(graph, _GRAPH["met"], id(0))

    def load_reading(self) -> None:
        """Let `r12` have the graph that `reading` returns of the layout in `rbx`; `r13` and `r14` change."""
        code = self.code
        code.load("r12", "rbx", _LAYOUT["read"])
        code.set("rcx", NONE)
        code.compare("r12", "rcx")
        code.jump("is read", "ne")
        code.load("r13", "rbx", _LAYOUT["_form"])
        code.compare("r13", "rcx")
        code.jump("has form", "ne")
        self._find_form()
        code.label("has form")
        code.load("r12", "r13", _LAYOUT["graph"])
        code.set("rcx", NONE)
        code.compare("r12", "rcx")
        code.jump("has leaf", "ne")
        code.load("r14", "r13", _LAYOUT["dtype"])
        self.select("r14", (_STRUCTURE_OF, leaf_structure))
        self.make_tuple(_LEAVES, "r14", "r13")
        self.make(Graph, _NEW_GRAPH, "r12")
        code.load("rsi", "rsp", _STRUCTURE_OF)
        self.fill_graph("r12", "rsi", "r13", "r14")
        self.hand_over(_NEW_GRAPH, "r13", _LAYOUT["graph"])
        code.label("has leaf")
        self.set_attribute("rbx", _LAYOUT["read"], "r12")
        code.label("is read")

    def _find_form(self) -> None:
        """Let `r13` have what `form_of` returns of the layout in `rbx`, and that have it."""
        code = self.code
        code.load("r14", "rbx", _LAYOUT["alignment"])
        load_small(self, "rdx", "r14", "undo")
        code.compare_number("rdx", _LARGEST_ALIGNMENT)
        code.jump("at 0", "e")
        code.load("rsi", "rbx", _LAYOUT["offset"])
        code.compare_number_with("rsi", INT_TAG, POSITIVE)
        code.jump("elsewhere", "ne")
        code.load_int("rax", "rsi", INT_DIGIT)
        code.compare("rax", "rdx")
        code.jump("elsewhere", "ne")
        code.set("rcx", id(0))
        code.compare_with("rbx", _LAYOUT["ndim"], "rcx")
        code.jump("elsewhere", "e")
        code.move("r13", "rbx")
        self.set_attribute("rbx", _LAYOUT["_form"], "r13")
        code.jump("has form")
        code.label("at 0")
        code.set("r14", id(0))
        code.label("elsewhere")
        code.load("r13", "rbx", _LAYOUT["dtype"])
        self.select("r13", (_TYPE, lambda dtype: dtype.type))
        items = "r13", ("rsp", _TYPE), ("rbx", _LAYOUT["shape"]), ("rbx", _LAYOUT["strides"]), "r14"
        self.make_tuple(_KEY, "rbp", *items)
        self.look_up(layouts.INTERNED, layouts.ROOM, "r13", "is interned")
        self.make(Layout, _NEW, "r13")
        same = "dtype", "shape", "strides", "ndim", "size", "nbytes", "is_aligned", "is_contiguous", "alignment"
        self.copy("rbx", "r13", (*same, "_extent", "_injective", "_dense"))
        self.put("r13", _LAYOUT["offset"], "r14")
        self.put("r13", _LAYOUT["met"], id(0))
        self.put_all("r13", _LAYOUT, None, "graph", "parts", "read", "_form", "_ghost")
        self.enter(layouts.INTERNED, "r13")
        self.hand_over(_NEW, "rbx", _LAYOUT["_form"])
        code.jump("has form")
        code.label("is interned")
        code.set("rcx", NONE)
        code.compare_with("r13", _LAYOUT["_dense"], "rcx")
        code.jump("is dense", "ne")
        code.load("r14", "rbx", _LAYOUT["_dense"])
        self.set_attribute("r13", _LAYOUT["_dense"], "r14")
        code.label("is dense")
        self.set_attribute("rbx", _LAYOUT["_form"], "r13")


def reading(kind: type, before: int | None) -> bytes:
    """Return the code of a call of `expr.reading`."""
    call = _Making(kind, before)
    call.begin_making(1)
    call.code.load("rbx", "rbp", 0)
    call.unless_type("rbx", Layout, "general")
    call.load_reading()
    call.end_making("r12")
    return call.code.assembled()


def chain(kind: type, before: int | None) -> bytes:
    """Return the code of a call of `handle.chain` of an array that is computed, or whose value is a chain itself."""
    call = _Making(kind, before)
    code = call.code
    call.begin_making(1)
    code.load("rbx", "rbp", 0)
    call.unless_type("rbx", kind, "general")
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
    call.keep_at(_VALUE, "r14")
    code.compare_with("r12", _GRAPH["layout"], "rbx")
    code.jump("is whole", "e")
    code.load("rdx", "r12", _GRAPH["nodes"])
    code.compare_number_with("rdx", SIZE, 0)
    code.jump("undo", "ne")
    call.keep_at(_KEPT, "rbx")
    call.load_reading()
    code.load("r14", "rsp", _VALUE)
    code.load("rbp", "r14", TUPLE_ITEMS + 8)
    code.load("r13", "rbx", _LAYOUT["offset"])
    code.set("rcx", id(0))
    code.compare("r13", "rcx")
    code.jump("is first", "e")
    _move_entry(call)
    code.label("is first")
    call.make_tuple(_NEW, "r13", "r12", "rbp", ("r14", TUPLE_ITEMS + 16))
    code.move("r14", "r13")
    code.label("is whole")
    call.end_making("r14")
    return code.assembled()


def _move_entry(call: _Making) -> None:
    """Let `rbp`, a tuple of one Buffer, be one of what lies the bytes in `r13` further on."""
    code = call.code
    call.unless_type("rbp", tuple, "undo")
    code.compare_number_with("rbp", SIZE, 1)
    code.jump("undo", "ne")
    code.load("rbp", "rbp", TUPLE_ITEMS)
    call.unless_type("rbp", Buffer, "undo")
    code.load("r14", "rbp", _BUFFER_PTR)
    for each in ("r13", "r14"):
        code.move("rdi", each)
        code.call(objects.address("PyLong_AsSsize_t"))
        code.compare_number("rax", 0)
        code.jump("undo", "l")
        if each == "r13":
            code.store("rsp", _NUMBER, "rax")
    code.load("r14", "rsp", _VALUE)
    code.move("rdi", "rax")
    code.add_from("rdi", "rsp", _NUMBER)
    code.call(objects.address("PyLong_FromSsize_t"))
    call._made(_PTR, "r13")
    call.make(Leaf, _ENTRY, "r13")
    code.load("rax", "rsp", _PTR)
    code.store("r13", _LEAF["ptr"], "rax")
    code.set("rax", 0)
    code.store("rsp", _PTR, "rax")
    call.put("r13", _LEAF["buffer"], "rbp")
    call.make_tuple(_LEAVES, "rbp", "r13")


def dense_of(kind: type, before: int | None) -> bytes:
    """Return the code of a call of `layout.dense_of` of a vector."""
    call = _Making(kind, before)
    code = call.code
    call.begin_making(1)
    code.load("rbx", "rbp", 0)
    call.unless_type("rbx", Layout, "general")
    for name, number, condition in (("ndim", 1, "ne"), ("size", 0, "e")):
        code.set("rcx", id(number))
        code.compare_with("rbx", _LAYOUT[name], "rcx")
        code.jump("general", condition)
    code.load("r13", "rbx", _LAYOUT["dtype"])
    call.select("r13", (_TYPE, lambda dtype: dtype.type), (_STRUCTURE_OF, _LINES.__getitem__))
    call.make_tuple(_KEY, "r14", "r13", ("rsp", _TYPE), ("rbx", _LAYOUT["shape"]))
    call.look_up(layouts.CONTIGUOUS, layouts.ROOM, "r13", "found")
    call.make(Layout, _NEW, "r13")
    call.copy("rbx", "r13", ("dtype", "shape", "ndim", "size", "nbytes"))
    code.load("rdx", "rsp", _STRUCTURE_OF)
    call.put("r13", _LAYOUT["strides"], "rdx")
    call.put_all("r13", _LAYOUT, 0, "offset", "met")
    call.put("r13", _LAYOUT["alignment"], id(_LARGEST_ALIGNMENT))
    call.put_all("r13", _LAYOUT, True, "is_contiguous", "is_aligned", "_injective")
    call.put_all("r13", _LAYOUT, None, "graph", "parts", "read", "_extent", "_form", "_ghost")
    call.put("r13", _LAYOUT["_dense"], "r13")
    call.enter(layouts.CONTIGUOUS, "r13")
    code.label("found")
    call.set_attribute("rbx", _LAYOUT["_dense"], "r13")
    call.end_making("r13")
    return code.assembled()


def _begin_graph(call: _Making, count: int) -> None:
    """Let `r12` have a new graph of the first three arguments of so many."""
    code = call.code
    call.begin_making(count)
    code.load("rbx", "rbp", 0)
    call.unless_type("rbx", Structure, "general")
    code.load("r13", "rbp", 8)
    call.unless_type("r13", Layout, "general")
    code.load("r14", "rbp", 16)
    call.make(Graph, _NEW_GRAPH, "r12")
    call.fill_graph("r12", "rbx", "r13", "r14")


def graph_of(kind: type, before: int | None) -> bytes:
    """Return the code of a call of `expr.graph_of`."""
    call = _Making(kind, before)
    _begin_graph(call, 3)
    call.end_making("r12")
    return call.code.assembled()


def recorded(kind: type, before: int | None) -> bytes:
    """Return the code of a call of `expr.recorded`."""
    call = _Making(kind, before)
    code = call.code
    _begin_graph(call, 5)
    call.make(Record, _NEW, "r14")
    call.put("r14", _RECORD["graph"], "r12")
    call.put("r14", _RECORD["layout"], "r13")
    call.put("r14", _RECORD["flush"], id(()))
    call.put("r14", _RECORD["reason"], id(_NOTHING))
    call.put("r14", _RECORD["is_checked"], id(False))
    for name, place in (("convert", 24), ("scalars", 32)):
        code.load("rdx", "rbp", place)
        call.put("r14", _RECORD[name], "rdx")
    call.end_making("r14")
    return code.assembled()


_NOTHING = ""


def pending(kind: type, before: int | None) -> bytes:
    """Return the code of a call of `results.pending` of what has dimensions."""
    call = _Making(kind, before)
    code = call.code
    call.begin_making(3)
    code.load("rbx", "rbp", 0)
    call.unless_type("rbx", Graph, "general")
    code.load("rbx", "rbx", _GRAPH["layout"])
    call.unless_type("rbx", Layout, "general")
    code.set("rcx", id(0))
    code.compare_with("rbx", _LAYOUT["ndim"], "rcx")
    code.jump("general", "e")
    call.make_tuple(_VALUE, "r12", *[("rbp", 8 * i) for i in range(3)])
    call.make(Storage, _NEW, "r13")
    call.put("r13", HAS_OBJECTS, id(False))
    call.put("r13", VALUE, "r12")
    for at in (STORED_HOST, STALE):
        call.put("r13", at, NONE)
    call.make_array(_ENTRY, "r14")
    call.put("r14", KNOWN, "rbx")
    call.put("r14", HELD, "r13")
    for at in (VIEW, HOST, SEEN):
        call.put("r14", at, NONE)
    code.move("rdi", "r13")
    code.set("rsi", 0)
    code.call(objects.address("PyWeakref_NewRef"))
    call._made(_KEY, "r13")
    code.set("rdi", id(schedule.PENDING))
    code.move("rsi", "r13")
    code.call(objects.address("PyList_Append"))
    code.store("rsp", _NUMBER, "rax")
    code.test_with("rsp", _NUMBER, 1)
    code.jump("undo", "ne")
    call.end_making("r14")
    return code.assembled()


def line_of(kind: type, before: int | None) -> bytes:
    """Return the code of a call of `chains.line_of` of a tuple."""
    call = _Making(kind, before)
    code = call.code
    call.begin_making(1)
    code.load("rbx", "rbp", 0)
    call.unless_type("rbx", tuple, "general")
    _find_layouts(call)
    for place in (_KEY, _LEAVES):
        code.load("rdi", "rsp", _NUMBER)
        code.call(objects.address("PyTuple_New"))
        call._made(place, "r14")
    code.load("r13", "rsp", _KEY)
    code.load("rbp", "rbx", SIZE)
    code.label("next to measure")
    code.compare_number("rbp", 0)
    code.jump("are measured", "e")
    code.add("rbp", -1)
    code.load("rsi", "rbx", TUPLE_ITEMS)
    code.add("rbx", 8)
    call.unless_type("rsi", Layout, "next to measure")
    code.set("rcx", id(True))
    code.compare_with("rsi", _LAYOUT["is_aligned"], "rcx")
    code.jump("none", "ne")
    code.load("rdx", "rsi", _LAYOUT["alignment"])
    call.put("r14", TUPLE_ITEMS, "rdx")
    code.set("rax", id(1))
    code.set("rcx", id(True))
    code.compare_with("rsi", _LAYOUT["is_contiguous"], "rcx")
    code.jump("has step", "e")
    _make_step(call)
    code.label("has step")
    call.put("r13", TUPLE_ITEMS, "rax")
    for each in ("r13", "r14"):
        code.add(each, 8)
    code.jump("next to measure")
    code.label("are measured")
    code.load("rdx", "r12", _LAYOUT["size"])
    call.if_one_of("rdx", (0, 1), "none")
    _require_line(call)
    code.load("r13", "rsp", _KEY)
    code.load("r14", "rsp", _LEAVES)
    call.make_tuple(_NEW, "rbp", ("r12", _LAYOUT["size"]), "r13", "r14")
    code.move("r14", "rbp")
    code.jump("is found")
    code.label("none")
    code.set("r14", NONE)
    code.label("is found")
    call.end_making("r14")
    return code.assembled()


def _find_layouts(call: _Making) -> None:
    """Let `r12` have the first layout of the tuple in `rbx`, and the stack how many there are; go on if there is one."""
    code = call.code
    code.set("r12", 0)
    code.set("rdx", 0)
    code.load("r14", "rbx", SIZE)
    code.move("r13", "rbx")
    code.label("next to count")
    code.compare_number("r14", 0)
    code.jump("are counted", "e")
    code.add("r14", -1)
    code.load("rsi", "r13", TUPLE_ITEMS)
    code.add("r13", 8)
    call.unless_type("rsi", Layout, "next to count")
    code.add("rdx", 1)
    code.compare_number("rdx", 1)
    code.jump("next to count", "ne")
    code.move("r12", "rsi")
    code.jump("next to count")
    code.label("are counted")
    code.store("rsp", _NUMBER, "rdx")
    code.compare_number("r12", 0)
    code.jump("none", "e")


def _make_step(call: _Making) -> None:
    """Let the tuple in `r13` have the stride in elements of the layout in `rsi`, of one dimension; go to the next."""
    code = call.code
    code.set("rcx", id(1))
    code.compare_with("rsi", _LAYOUT["ndim"], "rcx")
    code.jump("none", "ne")
    code.load("rdx", "rsi", _LAYOUT["strides"])
    code.load("rdx", "rdx", TUPLE_ITEMS)
    load_small(call, "rdi", "rdx", "undo")
    code.load("rdx", "rsi", _LAYOUT["dtype"])
    code.load("rdx", "rdx", DTYPE_ITEMSIZE)
    code.label("next power")
    code.compare_number("rdx", 1)
    code.jump("is divided", "e")
    code.test_number("rdx", 1)
    code.jump("undo", "ne")
    code.halve("rdx")
    code.halve_signed("rdi")
    code.jump("next power")
    code.label("is divided")
    code.call(objects.address("PyLong_FromSsize_t"))
    code.compare_number("rax", 0)
    code.jump("undo", "e")
    code.store("r13", TUPLE_ITEMS, "rax")
    for each in ("r13", "r14"):
        code.add(each, 8)
    code.jump("next to measure")


def _require_line(call: _Making) -> None:
    """Go on if the layout in `r12` has one dimension, or all steps in the tuple on the stack are 1."""
    code = call.code
    code.set("rcx", id(1))
    code.compare_with("r12", _LAYOUT["ndim"], "rcx")
    code.jump("is line", "e")
    code.load("rsi", "rsp", _KEY)
    code.load("rdx", "rsi", SIZE)
    code.label("next step")
    code.compare_number("rdx", 0)
    code.jump("is line", "e")
    code.add("rdx", -1)
    code.compare_with("rsi", TUPLE_ITEMS, "rcx")
    code.jump("none", "ne")
    code.add("rsi", 8)
    code.jump("next step")
    code.label("is line")


__all__ = ["chain", "dense_of", "graph_of", "line_of", "pending", "reading", "recorded"]

"""A call that makes objects of what is recorded of arrays on the device, under construction."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from oxinp._core.lazy.expr import Graph, Record, Structure, leaf_structure
from oxinp._core.memory import layout as layouts
from oxinp._core.memory.layout import ACCESS_NBYTES, Layout
from oxinp._core.memory.recent import Recent
from oxinp._core.native import objects
from oxinp._core.native.call import Call
from oxinp._core.native.function import MIDDLING, NONE, WIDE
from oxinp._core.native.objects import INT_DIGIT, INT_TAG, POSITIVE, SIZE, TUPLE_ITEMS
from oxinp._core.native.places import load_small

DTYPES = [np.dtype(kind) for kind in (*MIDDLING, *WIDE, np.float16)]
LARGEST_ALIGNMENT = 256  # see `Layout.alignment`


def offsets(kind: type, names: Iterable[str]) -> dict[str, int]:
    return {name: objects.offset(getattr(kind, name)) if objects.ARE_KNOWN else 0 for name in names}


LAYOUT = offsets(Layout, Layout.__slots__)
GRAPH = offsets(Graph, Graph.__slots__)
RECORD = offsets(Record, Record.__slots__)
STRUCTURE = offsets(Structure, ("kinds", "nodes", "result"))
OLD = offsets(Recent, ("old",))["old"]

NUMBER, SCALAR_TYPE, STRUCTURE_OF = (8 * i for i in range(5, 8))
KEPT, GIVEN_VALUE, KEY, NEW, NEW_GRAPH, LEAVES, PTR, ENTRY, COST, GRID, RESULT = (8 * i for i in range(8, 19))
_PLACES = KEPT, GIVEN_VALUE, KEY, NEW, NEW_GRAPH, LEAVES, PTR, ENTRY, COST, GRID, RESULT
_ROOM = 19 * 8  # an odd number of words
"""Where on the stack there is what: numbers and objects that nobody gives back, and such as have been taken or made."""


_NOTHING = ""


class Making(Call):
    """A call that makes objects; what is made lies on the stack until it is handed over, and goes if something fails.

    Parameters are those of `Call`.
    """

    def __init__(self, kind: type, before: int | None, room: int = _ROOM) -> None:
        super().__init__(kind, before, room)
        self.without_memory = "undo"
        """Where to go where something cannot be made."""

    def begin_making(self, count: int) -> None:
        """Begin with so many arguments, at `rbp`."""
        self.begin_call(count)
        self.code.label(f"{count} arguments")
        self.begin_made()

    def begin_made(self) -> None:
        """Note that nothing has been made."""
        self.code.set("rax", 0)
        for place in _PLACES:
            self.code.store("rsp", place, "rax")

    def end_making(self, result: str) -> None:
        """Return what a register has, with a reference of its own; lay out ``undo``, which leaves all to Python."""
        code = self.code
        self.keep(result)
        code.store("rsp", NUMBER, result)
        self.drop_made()
        code.load("rax", "rsp", NUMBER)
        code.jump("return")
        code.label("undo")
        self.drop_made()
        code.call(objects.address("PyErr_Clear"))
        code.jump("general")
        self.end_call()

    def end_body(self) -> None:
        """Return what is in `rax`, of code that no function of Python's is called by."""
        self._leave()
        self.code.ret()

    def end_made(self) -> int:
        """Return what is in `r14`, with a reference of its own, and give the rest back; return where the code lies.

        Lay out ``undo``, which leaves all to Python, ``raised`` and ``give back``. It is 0 if the system forbids code.
        """
        code = self.code
        code.label("undo")
        code.call(objects.address("PyErr_Clear"))
        code.label("raised")
        code.set("r14", 0)
        code.label("give back")
        self.drop_made()
        code.move("rax", "r14")
        self.end_body()
        return self.address()

    def drop_made(self) -> None:
        """Give back what has been made and not handed over."""
        for place in _PLACES:
            is_none = self.new_label()
            self.code.load("r12", "rsp", place)
            self.code.compare_number("r12", 0)
            self.code.jump(is_none, "e")
            self.drop("r12")
            self.code.label(is_none)

    def made(self, place: int, target: str) -> None:
        """Let a register and the stack have what has been made, in `rax`."""
        self.code.compare_number("rax", 0)
        self.code.jump(self.without_memory, "e")
        self.code.store("rsp", place, "rax")
        self.code.move(target, "rax")

    def make(self, kind: type, place: int, target: str) -> None:
        """Make an object without any of its attributes."""
        code = self.code
        code.set("rdi", id(kind))
        code.set("rsi", 0)
        code.call(objects.slot(kind, "alloc").value)
        self.made(place, target)

    def make_array(self, place: int, target: str) -> None:
        """Make an array of ours without any of its attributes."""
        code = self.code
        code.set("rdi", id(self.kind))
        code.set("rsi", 0)
        code.set("rax", objects.place(self.kind, "alloc"))
        code.load("rax", "rax")
        code.call_register("rax")
        self.made(place, target)

    def make_tuple(self, place: int, target: str, *items: tuple[str, int] | str) -> None:
        """Make a tuple of what registers have, or lies at an offset from one."""
        code = self.code
        code.set("rdi", len(items))
        code.call(objects.address("PyTuple_New"))
        self.made(place, target)
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
            self.code.load("rdx", source, LAYOUT[name])
            self.put(target, LAYOUT[name], "rdx")

    def put_all(self, target: str, table: dict[str, int], value: object, *names: str) -> None:
        """Let a new object have a value for several attributes."""
        for name in names:
            self.put(target, table[name], id(value))

    def keep_at(self, place: int, register: str) -> None:
        """Take a reference to an object until the end."""
        self.keep(register)
        self.code.store("rsp", place, register)

    def release(self, place: int) -> None:
        """Give back what the stack has, which it has no longer; `r15` changes."""
        code = self.code
        code.load("r15", "rsp", place)
        code.set("rax", 0)
        code.store("rsp", place, "rax")
        self.drop("r15")

    def select(self, dtype: str, *of: tuple[int, Callable[[Any], object]]) -> None:
        """Let places on the stack have what belongs to the dtype in a register; leave others to Python."""
        code, is_found = self.code, self.new_label()
        for each in DTYPES:
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

    def look_up(self, table: Recent, room: int, target: str, found: str, key: int = KEY) -> None:
        """Let a register have what a table has for a key on the stack, and go to a label; go on where it is new."""
        code, is_young = self.code, self.new_label()
        code.set("rdi", id(table))
        code.load("rsi", "rsp", key)
        code.call(objects.address("PyDict_GetItem"))
        code.move(target, "rax")
        code.compare_number("rax", 0)
        code.jump(found, "ne")
        code.set("rdx", id(table))
        code.compare_number_with("rdx", SIZE, room)
        code.jump("undo", "ge")
        code.load("rdi", "rdx", OLD)
        code.compare_number_with("rdi", SIZE, 0)
        code.jump(is_young, "e")
        code.load("rsi", "rsp", key)
        code.call(objects.address("PyDict_GetItem"))
        code.compare_number("rax", 0)
        code.jump("undo", "ne")
        code.label(is_young)

    def enter(self, table: dict[Any, Any], made: str, key: int = KEY) -> None:
        """Enter what a register has into a table, by a key on the stack."""
        code = self.code
        code.set("rdi", id(table))
        code.load("rsi", "rsp", key)
        code.move("rdx", made)
        code.call(objects.address("PyDict_SetItem"))
        code.store("rsp", NUMBER, "rax")
        code.test_with("rsp", NUMBER, 1)
        code.jump("undo", "ne")

    def fill_graph(self, graph: str, structure: str, layout: str, leaves: str) -> None:
        """Give a new graph its attributes, as `graph_of` does."""
        code = self.code
        for name, value in (("structure", structure), ("layout", layout), ("leaves", leaves)):
            self.put(graph, GRAPH[name], value)
        for name in ("nodes", "result"):
            code.load("rdx", structure, STRUCTURE[name])
            self.put(graph, GRAPH[name], "rdx")
        code.load("rdx", layout, LAYOUT["shape"])
        self.put(graph, GRAPH["shape"], "rdx")
        self.put_all(graph, GRAPH, None, "program", "programs", "views")
        self.put_all(graph, GRAPH, False, "is_scalar", "is_copy")
        self.put(graph, GRAPH["met"], id(0))

    def fill_record(self, record: str, graph: str, layout: str) -> None:
        """Give a new record what `recorded` gives it of itself."""
        self.put(record, RECORD["graph"], graph)
        self.put(record, RECORD["layout"], layout)
        self.put(record, RECORD["flush"], id(()))
        self.put(record, RECORD["reason"], id(_NOTHING))
        self.put(record, RECORD["is_checked"], id(False))

    def load_reading(self) -> None:
        """Let `r12` have the graph that `reading` returns of the layout in `rbx`; `r13` and `r14` change."""
        code = self.code
        code.load("r12", "rbx", LAYOUT["read"])
        code.set("rcx", NONE)
        code.compare("r12", "rcx")
        code.jump("is read", "ne")
        code.load("r13", "rbx", LAYOUT["_form"])
        code.compare("r13", "rcx")
        code.jump("has form", "ne")
        self.find_form()
        code.label("has form")
        self.load_leaf()
        self.set_attribute("rbx", LAYOUT["read"], "r12")
        code.label("is read")

    def load_leaf(self) -> None:
        """Let `r12` have the graph that `leaf` returns of the layout in `r13`; `r14` changes."""
        code = self.code
        code.load("r12", "r13", LAYOUT["graph"])
        code.set("rcx", NONE)
        code.compare("r12", "rcx")
        code.jump("has leaf", "ne")
        code.load("r14", "r13", LAYOUT["dtype"])
        self.select("r14", (STRUCTURE_OF, leaf_structure))
        self.make_tuple(LEAVES, "r14", "r13")
        self.make(Graph, NEW_GRAPH, "r12")
        code.load("rsi", "rsp", STRUCTURE_OF)
        self.fill_graph("r12", "rsi", "r13", "r14")
        self.hand_over(NEW_GRAPH, "r13", LAYOUT["graph"])
        code.label("has leaf")

    def find_form(self) -> None:
        """Let `r13` have what `form_of` returns of the layout in `rbx`, and that have it."""
        code, is_less, is_aligned = self.code, self.new_label(), self.new_label()
        code.load("rsi", "rbx", LAYOUT["offset"])
        code.set("r14", id(0))
        code.compare("rsi", "r14")
        code.jump("at its form", "e")
        code.load("r14", "rbx", LAYOUT["alignment"])
        load_small(self, "rdx", "r14", "undo")
        code.compare_number("rdx", ACCESS_NBYTES)
        code.jump(is_less, "le")
        code.set("rdx", ACCESS_NBYTES)
        code.set("r14", id(ACCESS_NBYTES))
        code.label(is_less)
        code.load("rsi", "rbx", LAYOUT["offset"])
        code.compare_number_with("rsi", INT_TAG, POSITIVE)
        code.jump("elsewhere", "ne")
        code.load_int("rax", "rsi", INT_DIGIT)
        code.compare("rax", "rdx")
        code.jump("elsewhere", "ne")
        code.label("at its form")
        code.set("rcx", id(0))
        code.compare_with("rbx", LAYOUT["ndim"], "rcx")
        code.jump("elsewhere", "e")
        code.move("r13", "rbx")
        self.set_attribute("rbx", LAYOUT["_form"], "r13")
        code.jump("has form")
        code.label("elsewhere")
        code.load("r13", "rbx", LAYOUT["dtype"])
        self.select("r13", (SCALAR_TYPE, lambda dtype: dtype.type))
        items = "r13", ("rsp", SCALAR_TYPE), ("rbx", LAYOUT["shape"]), ("rbx", LAYOUT["strides"]), "r14"
        self.make_tuple(KEY, "rbp", *items)
        self.look_up(layouts.INTERNED, layouts.ROOM, "r13", "is interned")
        self.make(Layout, NEW, "r13")
        same = "dtype", "shape", "strides", "ndim", "size", "nbytes", "is_aligned", "is_contiguous"
        self.copy("rbx", "r13", (*same, "_extent", "_injective", "_dense"))
        self.put("r13", LAYOUT["offset"], "r14")
        code.load("rdx", "rbx", LAYOUT["alignment"])
        code.set("rcx", id(0))
        code.compare("r14", "rcx")
        code.jump(is_aligned, "e")
        code.move("rdx", "r14")
        code.label(is_aligned)
        self.put("r13", LAYOUT["alignment"], "rdx")
        self.put("r13", LAYOUT["met"], id(0))
        self.put_all("r13", LAYOUT, None, "graph", "parts", "read", "_form", "_ghost")
        self.enter(layouts.INTERNED, "r13")
        self.hand_over(NEW, "rbx", LAYOUT["_form"])
        code.jump("has form")
        code.label("is interned")
        code.set("rcx", NONE)
        code.compare_with("r13", LAYOUT["_dense"], "rcx")
        code.jump("is dense", "ne")
        code.load("r14", "rbx", LAYOUT["_dense"])
        self.set_attribute("r13", LAYOUT["_dense"], "r14")
        code.label("is dense")
        self.set_attribute("rbx", LAYOUT["_form"], "r13")


__all__ = [
    "COST",
    "DTYPES",
    "ENTRY",
    "GIVEN_VALUE",
    "GRAPH",
    "GRID",
    "KEPT",
    "KEY",
    "LARGEST_ALIGNMENT",
    "LAYOUT",
    "LEAVES",
    "NEW",
    "NEW_GRAPH",
    "NUMBER",
    "OLD",
    "PTR",
    "RECORD",
    "RESULT",
    "SCALAR_TYPE",
    "STRUCTURE",
    "STRUCTURE_OF",
    "Making",
    "offsets",
]

"""Layouts found or made in machine code: those without gaps, as `Layout.of` and `dense_of` say, and spread vectors."""

from __future__ import annotations

from oxinp._core.memory import layout as layouts
from oxinp._core.memory.layout import Layout
from oxinp._core.native import objects
from oxinp._core.native.function import NONE
from oxinp._core.native.making import (
    DTYPES,
    ENTRY,
    KEY,
    LARGEST_ALIGNMENT,
    LAYOUT,
    LEAVES,
    NEW,
    NEW_GRAPH,
    NUMBER,
    PTR,
    SCALAR_TYPE,
    STRUCTURE_OF,
    Making,
)
from oxinp._core.native.objects import DTYPE_ITEMSIZE, SIZE, TUPLE_ITEMS
from oxinp._core.native.places import load_small

_LINES = {dtype: (dtype.itemsize,) for dtype in DTYPES}
"""The strides of vectors without gaps."""


def dense_of(kind: type, before: int | None) -> bytes:
    """Return the code of a call of `layout.dense_of` of a vector or a matrix, or of what its table has."""
    call = Making(kind, before)
    code = call.code
    call.begin_making(1)
    code.load("rbx", "rbp", 0)
    call.unless_type("rbx", Layout, "general")
    code.load("r13", "rbx", LAYOUT["dtype"])
    call.select("r13", (SCALAR_TYPE, lambda dtype: dtype.type), (STRUCTURE_OF, _LINES.__getitem__))
    call.make_tuple(KEY, "r14", "r13", ("rsp", SCALAR_TYPE), ("rbx", LAYOUT["shape"]))
    call.look_up(layouts.CONTIGUOUS, layouts.ROOM, "r13", "found")
    code.set("rcx", id(0))
    code.compare_with("rbx", LAYOUT["size"], "rcx")
    code.jump("undo", "e")
    code.load("r14", "rsp", STRUCTURE_OF)
    code.set("rbp", NONE)
    code.set("rcx", id(1))
    code.compare_with("rbx", LAYOUT["ndim"], "rcx")
    code.jump("is line", "e")
    _make_strides(call)
    call.make(Layout, NEW, "r13")
    code.move("rbp", "r13")
    call.enter(layouts.INTERNED, "r13", NEW_GRAPH)
    code.jump("is made")
    code.label("is line")
    call.make(Layout, NEW, "r13")
    code.label("is made")
    call.copy("rbx", "r13", ("dtype", "shape", "ndim", "size", "nbytes"))
    call.put("r13", LAYOUT["strides"], "r14")
    call.put("r13", LAYOUT["_form"], "rbp")
    _put_usual(call)
    call.enter(layouts.CONTIGUOUS, "r13")
    code.label("found")
    call.set_attribute("rbx", LAYOUT["_dense"], "r13")
    call.end_making("r13")
    return code.assembled()


def _make_strides(call: Making) -> None:
    """Let `r14`, the strides of a line, be those of the matrix in `rbx`, which is in neither of the tables."""
    code = call.code
    code.set("rcx", id(2))
    code.compare_with("rbx", LAYOUT["ndim"], "rcx")
    code.jump("undo", "ne")
    code.load("r14", "r14", TUPLE_ITEMS)
    code.load("rsi", "rbx", LAYOUT["shape"])
    code.load("rsi", "rsi", TUPLE_ITEMS + 8)
    load_small(call, "rdi", "rsi", "undo")
    load_small(call, "rdx", "r14", "undo")
    code.multiply_by("rdi", "rdx")
    code.call(objects.address("PyLong_FromSsize_t"))
    call.made(PTR, "r13")
    call.make_tuple(LEAVES, "rbp", "r13", "r14")
    code.move("r14", "rbp")
    code.load("r13", "rbx", LAYOUT["dtype"])
    code.set("rdx", id(0))
    code.store("rsp", NUMBER, "rdx")
    call.make_tuple(NEW_GRAPH, "rbp", "r13", ("rsp", SCALAR_TYPE), ("rbx", LAYOUT["shape"]), "r14", ("rsp", NUMBER))
    call.look_up(layouts.INTERNED, layouts.ROOM, "r13", "undo", NEW_GRAPH)


def _put_usual(call: Making) -> None:
    """Let the new layout in `r13` have what all without gaps have."""
    call.put_all("r13", LAYOUT, 0, "offset", "met")
    call.put("r13", LAYOUT["alignment"], id(LARGEST_ALIGNMENT))
    call.put_all("r13", LAYOUT, True, "is_contiguous", "is_aligned", "_injective")
    call.put_all("r13", LAYOUT, None, "graph", "parts", "read", "_extent", "_ghost")
    call.put("r13", LAYOUT["_dense"], "r13")


def layout_of(kind: type, before: int | None) -> bytes:
    """Return the code of a call of `Layout.of`, of a vector or of what its table has."""
    call = Making(kind, before)
    code = call.code
    call.begin_making(2)
    code.load("rbx", "rbp", 8)
    call.unless_type("rbx", tuple, "general")
    code.load("rbp", "rbp", 0)
    call.select("rbp", (SCALAR_TYPE, lambda dtype: dtype.type), (STRUCTURE_OF, _LINES.__getitem__))
    call.make_tuple(KEY, "r14", "rbp", ("rsp", SCALAR_TYPE), "rbx")
    call.look_up(layouts.CONTIGUOUS, layouts.ROOM, "r13", "found")
    code.compare_number_with("rbx", SIZE, 1)
    code.jump("undo", "ne")
    code.load("r12", "rbx", TUPLE_ITEMS)
    call.unless_type("r12", int, "undo")
    load_small(call, "rdi", "r12", "undo")
    code.compare_number("rdi", 0)
    code.jump("undo", "le")
    code.load("rsi", "rbp", DTYPE_ITEMSIZE)
    code.multiply_by("rdi", "rsi")
    code.call(objects.address("PyLong_FromSsize_t"))
    call.made(PTR, "r14")
    call.make(Layout, NEW, "r13")
    code.load("rdx", "rsp", STRUCTURE_OF)
    for name, source in (("dtype", "rbp"), ("shape", "rbx"), ("strides", "rdx"), ("size", "r12"), ("nbytes", "r14")):
        call.put("r13", LAYOUT[name], source)
    call.put("r13", LAYOUT["ndim"], id(1))
    call.put("r13", LAYOUT["_form"], NONE)
    _put_usual(call)
    call.enter(layouts.CONTIGUOUS, "r13")
    code.label("found")
    call.end_making("r13")
    return code.assembled()


def spread(kind: type, before: int | None) -> bytes:
    """Return the code of a call of `layout.spread` to a matrix of more than a row and a column."""
    call = Making(kind, before)
    code = call.code
    call.begin_making(3)
    code.load("rbx", "rbp", 0)
    code.load("r12", "rbp", 8)
    code.load("r13", "rbp", 16)
    call.unless_type("rbx", Layout, "general")
    call.unless_type("r12", tuple, "general")
    code.compare_number_with("r12", SIZE, 2)
    code.jump("general", "ne")
    for place, extent in enumerate(("rdi", "rdx")):
        code.load("rsi", "r12", TUPLE_ITEMS + 8 * place)
        call.unless_type("rsi", int, "general")
        load_small(call, extent, "rsi", "general")
        code.compare_number(extent, 1)
        code.jump("general", "le")
    code.multiply_by("rdi", "rdx")
    code.store("rsp", NUMBER, "rdi")
    code.call(objects.address("PyLong_FromSsize_t"))
    call.made(PTR, "r14")
    code.load("rsi", "rbx", LAYOUT["dtype"])
    code.load("rsi", "rsi", DTYPE_ITEMSIZE)
    code.load("rdi", "rsp", NUMBER)
    code.multiply_by("rdi", "rsi")
    code.call(objects.address("PyLong_FromSsize_t"))
    call.made(ENTRY, "rbp")
    _make_still(call)
    call.make(Layout, NEW, "r13")
    call.copy("rbx", "r13", ("dtype", "offset", "alignment", "is_aligned"))
    code.load("rdx", "rsp", KEY)
    for name, source in (("shape", "r12"), ("strides", "rdx"), ("size", "r14"), ("nbytes", "rbp")):
        call.put("r13", LAYOUT[name], source)
    call.put("r13", LAYOUT["ndim"], id(2))
    call.put("r13", LAYOUT["is_contiguous"], id(False))
    call.put("r13", LAYOUT["met"], id(0))
    call.put_all("r13", LAYOUT, None, "graph", "parts", "read", "_dense", "_extent", "_form", "_ghost", "_injective")
    call.end_making("r13")
    return code.assembled()


def _make_still(call: Making) -> None:
    """Let the stack have the strides of the vector in `rbx` along the axis in `r13` of a matrix, and 0 for the other.

    `r13` and `r15` change.
    """
    code = call.code
    code.load("r15", "rbx", LAYOUT["strides"])
    code.compare_number_with("r15", SIZE, 1)
    code.jump("undo", "ne")
    code.load("r15", "r15", TUPLE_ITEMS)
    code.set("rcx", id(0))
    code.compare("r13", "rcx")
    code.jump("down", "e")
    code.set("rcx", id(1))
    code.compare("r13", "rcx")
    code.jump("undo", "ne")
    code.move("r13", "r15")
    code.set("r15", id(0))
    code.label("down")
    call.make_tuple(KEY, "rsi", "r15", "r13")


__all__ = ["dense_of", "layout_of", "spread"]

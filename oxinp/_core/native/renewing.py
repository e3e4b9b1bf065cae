"""What an operator comes to on parts of arrays that are new, in machine code: what `combining.renew_pair` says.

That is so of one operand, of two of one shape, or one and a number, which are vectors, matrices in rows or lie without
gaps, and whose structures the operator has met; everything else is left to Python, and so is what comes so often that
it is to be entered.
"""

from __future__ import annotations

from oxinp._core.lazy.combining import SCALARS
from oxinp._core.lazy.expr import MAX_NDIM, Graph, Operation, Record, Structure
from oxinp._core.memory.layout import Layout
from oxinp._core.memory.recent import MEETINGS
from oxinp._core.native import objects
from oxinp._core.native.call import ARGUMENTS
from oxinp._core.native.function import NONE
from oxinp._core.native.making import (
    COST,
    ENTRY,
    GIVEN_VALUE,
    GRAPH,
    KEPT,
    KEY,
    LAYOUT,
    LEAVES,
    NEW,
    NEW_GRAPH,
    NUMBER,
    OLD,
    PTR,
    RECORD,
    STRUCTURE,
    Making,
    offsets,
)
from oxinp._core.native.objects import DTYPE_ITEMSIZE, SIZE, TUPLE_ITEMS
from oxinp._core.native.places import load_small

_OPERATION = offsets(Operation, ("alike", "pairs", "weight"))
_STRUCTURE, _LOOP, _SCALARS, _CONVERT = (TUPLE_ITEMS + 8 * place for place in (0, 2, 3, 4))
"""Where a `Join` has what."""
_OUTPUT = TUPLE_ITEMS + 8
"""Where a `Loop` has its dtype."""
_EQUAL = 2  # among Python's comparisons


def renew_pair(kind: type, before: int | None) -> bytes:
    """Return the code of a call of `combining.renew_pair`.

    In `rbx` is the operation, in `r12` and `r13` are the graphs, in `rbp` what they come to, in `r14` first the key and
    then the layout of the result.
    """
    call = Making(kind, before)
    code = call.code
    call.begin_making(2)
    code.load("rbx", "rbp", 0)
    code.load("r14", "rbp", 8)
    call.unless_type("rbx", Operation, "general")
    call.unless_type("r14", tuple, "general")
    _require_unknown(call)
    _load_graphs(call)
    _require_new(call)
    _find_join(call)
    _find_layout(call)
    _find_leaves(call)
    _find_cost(call)
    _count_meetings(call)
    code.load("r14", "rsp", ENTRY)
    call.make(Graph, NEW_GRAPH, "r12")
    code.load("rsi", "rbp", _STRUCTURE)
    code.load("rdi", "rsp", LEAVES)
    call.fill_graph("r12", "rsi", "r14", "rdi")
    call.make(Record, NEW, "r13")
    code.load("rdx", "rsp", COST)
    call.put("r13", RECORD["cost"], "rdx")
    for name, place in (("convert", _CONVERT), ("scalars", _SCALARS)):
        code.load("rdx", "rbp", place)
        call.put("r13", RECORD[name], "rdx")
    call.fill_record("r13", "r12", "r14")
    call.end_making("r13")
    return code.assembled()


def _require_unknown(call: Making) -> None:
    """Go on unless the operation has known the key before, which Python brings back."""
    code, is_unknown = call.code, call.new_label()
    code.load("rdi", "rbx", _OPERATION["pairs"])
    code.load("rdi", "rdi", OLD)
    code.compare_number_with("rdi", SIZE, 0)
    code.jump(is_unknown, "e")
    code.move("rsi", "r14")
    code.call(objects.address("PyDict_GetItem"))
    code.compare_number("rax", 0)
    code.jump("general", "ne")
    code.label(is_unknown)


def _load_graphs(call: Making) -> None:
    """Let `r12` and `r13` have the graphs of the operands in the key, of which one may be a number's, or be one."""
    code = call.code
    for register, place in (("r12", 0), ("r13", 1)):
        if register == "r13":
            code.move("r13", "r12")
            code.compare_number_with("r14", SIZE, 1)
            code.jump("are loaded", "e")
        is_other, is_loaded = call.new_label(), call.new_label()
        code.load(register, "r14", TUPLE_ITEMS + 8 * place)
        call.unless_type(register, Graph, is_other)
        code.jump(is_loaded)
        code.label(is_other)
        for number, graph in SCALARS.items():
            is_next = call.new_label()
            code.set("rcx", id(number))
            code.compare(register, "rcx")
            code.jump(is_next, "ne")
            code.set(register, id(graph))
            code.jump(is_loaded)
            code.label(is_next)
        code.jump("general")
        code.label(is_loaded)
    code.label("are loaded")


def _require_new(call: Making) -> None:
    """Go on unless both graphs have come so often by now that what they come to is to be entered."""
    code, is_new = call.code, call.new_label()
    for register in ("r12", "r13"):
        code.load("rsi", register, GRAPH["met"])
        load_small(call, "rdx", "rsi", "general")
        code.compare_number("rdx", MEETINGS - 1)
        code.jump(is_new, "l")
    code.jump("general")
    code.label(is_new)


def _find_join(call: Making) -> None:
    """Let `rbp` have what the operation comes to by structures, which the stack keeps."""
    code = call.code
    code.compare_number_with("r14", SIZE, 1)
    code.jump("alone in the key", "e")
    call.make_tuple(KEPT, "rbp", ("r12", GRAPH["structure"]), ("r13", GRAPH["structure"]))
    code.set("rsi", NONE)
    code.compare_number_with("r14", SIZE, 2)
    code.jump("apart", "e")
    code.compare_number_with("r14", SIZE, 3)
    code.jump("undo", "ne")
    code.load("rsi", "r14", TUPLE_ITEMS + 16)
    call.unless_type("rsi", int, "undo")
    load_small(call, "rdx", "rsi", "undo")
    code.load("rdi", "r12", GRAPH["leaves"])
    code.compare_number("rdx", 0)
    code.jump("undo", "l")
    code.compare_with("rdi", SIZE, "rdx")
    code.jump("undo", "le")
    for _ in range(3):
        code.add_register("rdx", "rdx")
    code.add_register("rdi", "rdx")
    code.load("rdx", "rdi", TUPLE_ITEMS)
    code.load("rdi", "r13", GRAPH["leaves"])
    code.compare_with("rdi", TUPLE_ITEMS, "rdx")
    code.jump("undo", "ne")
    code.jump("apart")
    code.label("alone in the key")
    call.make_tuple(KEPT, "rbp", ("r12", GRAPH["structure"]))
    code.set("rsi", NONE)
    code.label("apart")
    code.store("rsp", NUMBER, "rsi")
    code.set("rcx", NONE)
    code.set("rdi", 3)
    code.call(objects.address("PyTuple_New"))
    call.made(KEY, "r14")
    call.put("r14", TUPLE_ITEMS, "rbp")
    code.load("rdx", "rsp", NUMBER)
    call.put("r14", TUPLE_ITEMS + 8, "rdx")
    call.put("r14", TUPLE_ITEMS + 16, NONE)
    code.load("rdi", "rbx", _OPERATION["alike"])
    code.move("rsi", "r14")
    code.call(objects.address("PyDict_GetItem"))
    code.compare_number("rax", 0)
    code.jump("undo", "e")
    code.move("rbp", "rax")
    call.keep_at(GIVEN_VALUE, "rbp")
    code.load("rsi", "rbp", _STRUCTURE)
    call.unless_type("rsi", Structure, "undo")


def _find_layout(call: Making) -> None:
    """Let the stack have the layout of the result, and go on if both graphs are of one shape, or one is a number's."""
    code = call.code
    code.set("rcx", id(True))
    code.compare_with("r12", GRAPH["is_scalar"], "rcx")
    code.jump("number first", "e")
    code.load("rbx", "r12", GRAPH["layout"])
    code.compare_with("r13", GRAPH["is_scalar"], "rcx")
    code.jump("one vector", "e")
    code.load("r14", "r13", GRAPH["layout"])
    _require_dense(call, "r13", "r14")
    _require_dense(call, "r12", "rbx")
    _require_same_shape(call)
    code.load("rdi", "r14", LAYOUT["dtype"])
    code.load("rdi", "rdi", DTYPE_ITEMSIZE)
    code.load("r14", "r14", LAYOUT["_dense"])
    code.jump("vectors")
    code.label("number first")
    code.compare_with("r13", GRAPH["is_scalar"], "rcx")
    code.jump("undo", "e")
    code.load("rbx", "r13", GRAPH["layout"])
    _require_dense(call, "r13", "rbx")
    code.jump("alone")
    code.label("one vector")
    _require_dense(call, "r12", "rbx")
    code.label("alone")
    code.set("rdi", 0)
    code.set("r14", NONE)
    code.label("vectors")
    _note_widest(call)
    _load_dense(call)


def _require_same_shape(call: Making) -> None:
    """Go on if the layouts in `rbx` and `r14` have one shape."""
    code, is_same = call.code, call.new_label()
    code.load("rdi", "rbx", LAYOUT["shape"])
    code.load("rsi", "r14", LAYOUT["shape"])
    code.compare("rdi", "rsi")
    code.jump(is_same, "e")
    code.set("rdx", _EQUAL)
    code.call(objects.address("PyObject_RichCompareBool"))
    code.store("rsp", NUMBER, "rax")
    code.load_int("rax", "rsp", NUMBER)
    code.compare_number("rax", 1)
    code.jump("undo", "ne")
    code.label(is_same)


def _require_dense(call: Making, graph: str, layout: str) -> None:
    """Go on if a graph is of a vector, a matrix in rows or what has no gaps, and its elements are computed or aligned.

    Elements by themselves are left to Python.
    """
    code, is_aligned, is_line = call.code, call.new_label(), call.new_label()
    for name, number in (("ndim", 0), ("size", 0)):
        code.set("rcx", id(number))
        code.compare_with(layout, LAYOUT[name], "rcx")
        code.jump("undo", "e")
    code.set("rcx", id(1))
    code.compare_with(layout, LAYOUT["ndim"], "rcx")
    code.jump(is_line, "e")
    code.load("rdi", layout, LAYOUT["ndim"])
    load_small(call, "rdx", "rdi", "undo")
    code.compare_number("rdx", MAX_NDIM)
    code.jump("undo", "g")
    code.set("rcx", id(True))
    code.compare_with(layout, LAYOUT["is_contiguous"], "rcx")
    code.jump(is_line, "e")
    _require_rows(call, layout)
    code.label(is_line)
    code.load("rsi", graph, GRAPH["nodes"])
    code.compare_number_with("rsi", SIZE, 0)
    code.jump(is_aligned, "ne")
    code.set("rcx", id(True))
    code.compare_with(layout, LAYOUT["is_aligned"], "rcx")
    code.jump("undo", "ne")
    code.label(is_aligned)


def _require_rows(call: Making, layout: str) -> None:
    """Go on if a layout is a matrix's of which `is_in_rows` holds."""
    code = call.code
    code.set("rcx", id(2))
    code.compare_with(layout, LAYOUT["ndim"], "rcx")
    code.jump("undo", "ne")
    for name, least in (("shape", 1), ("strides", 0)):
        code.load("rdi", layout, LAYOUT[name])
        for register, place in (("rdx", 0), ("rcx", 1)):
            code.load("rsi", "rdi", TUPLE_ITEMS + 8 * place)
            load_small(call, register, "rsi", "undo")
            code.compare_number(register, least)
            code.jump("undo", "le")
    code.compare("rdx", "rcx")
    code.jump("undo", "l")


def _note_widest(call: Making) -> None:
    """Let the stack have the bytes of the largest elements, of `rdi`, of the layout in `rbx` and of the result."""
    code = call.code
    code.load("rsi", "rbx", LAYOUT["dtype"])
    code.load("rdx", "rbp", _LOOP)
    code.load("rdx", "rdx", _OUTPUT)
    for dtype in ("rsi", "rdx"):
        is_less = call.new_label()
        code.load("rcx", dtype, DTYPE_ITEMSIZE)
        code.compare("rcx", "rdi")
        code.jump(is_less, "le")
        code.move("rdi", "rcx")
        code.label(is_less)
    code.store("rsp", NUMBER, "rdi")


def _load_dense(call: Making) -> None:
    """Let the stack have the dense layout of the result, whose shape is that of the layout in `rbx`.

    It is that one's, or that of another one, which may be in `r14`, if they have the dtype.
    """
    code = call.code
    code.load("rdx", "rbp", _LOOP)
    code.load("rdx", "rdx", _OUTPUT)
    code.load("rsi", "rbx", LAYOUT["_dense"])
    code.set("rcx", NONE)
    code.compare("rsi", "rcx")
    code.jump("its own", "ne")
    code.compare("r14", "rcx")
    code.jump("is dense", "ne")
    code.jump("of dtype")
    code.label("its own")
    code.move("r14", "rsi")
    code.label("is dense")
    call.unless_type("r14", Layout, "undo")
    code.compare_with("r14", LAYOUT["dtype"], "rdx")
    code.jump("of dtype", "ne")
    call.keep_at(ENTRY, "r14")
    code.jump("is kept")
    code.label("of dtype")
    code.set("rdi", id(Layout.of))
    code.move("rsi", "rdx")
    code.load("rdx", "rbx", LAYOUT["shape"])
    code.set("rcx", 0)
    code.call(objects.address("PyObject_CallFunctionObjArgs"))
    call.made(ENTRY, "r14")
    call.unless_type("r14", Layout, "undo")
    code.load("rdx", "rbx", LAYOUT["dtype"])
    code.compare_with("r14", LAYOUT["dtype"], "rdx")
    code.jump("is kept", "ne")
    call.set_attribute("rbx", LAYOUT["_dense"], "r14")
    code.label("is kept")


def _find_leaves(call: Making) -> None:
    """Let the stack have the leaves of both graphs, or of the one that they share those of."""
    code = call.code
    code.load("rsi", "rbp", _STRUCTURE)
    code.load("r14", "rsi", STRUCTURE["kinds"])
    code.set("rcx", id(True))
    code.compare_with("r12", GRAPH["is_scalar"], "rcx")
    code.jump("number before", "e")
    code.compare_with("r13", GRAPH["is_scalar"], "rcx")
    code.jump("number behind", "e")
    code.load("rdi", "r12", GRAPH["leaves"])
    code.load("rsi", "rsp", KEY)
    code.set("rcx", NONE)
    code.load("rdx", "rsp", KEPT)
    code.compare_number_with("rdx", SIZE, 1)
    code.jump("shared", "e")
    code.compare_with("rsi", TUPLE_ITEMS + 8, "rcx")
    code.load("rsi", "r13", GRAPH["leaves"])
    code.jump("joined", "e")
    code.label("shared")
    call.keep_at(LEAVES, "rdi")
    code.jump("has leaves")
    code.label("number before")
    call.make_tuple(PTR, "rsi", ("r14", TUPLE_ITEMS))
    code.move("rdi", "rsi")
    code.load("rsi", "r13", GRAPH["leaves"])
    code.jump("joined")
    code.label("number behind")
    code.load("rdx", "r14", SIZE)
    for _ in range(3):
        code.add_register("rdx", "rdx")
    code.add_register("r14", "rdx")
    call.make_tuple(PTR, "rsi", ("r14", TUPLE_ITEMS - 8))
    code.load("rdi", "r12", GRAPH["leaves"])
    code.label("joined")
    code.call(objects.address("PySequence_Concat"))
    call.made(LEAVES, "r14")
    code.label("has leaves")


def _find_cost(call: Making) -> None:
    """Let the stack have what the record is to say that it costs; `rbx` and `r14` change."""
    code = call.code
    code.load("rdi", "rsp", NUMBER)
    code.call(objects.address("PyLong_FromSsize_t"))
    code.compare_number("rax", 0)
    code.jump("undo", "e")
    code.move("r14", "rax")
    code.load("rdi", "rsp", ARGUMENTS)
    code.load("rdi", "rdi")
    code.load("rdi", "rdi", _OPERATION["weight"])
    code.load("rsi", "rsp", ENTRY)
    code.load("rsi", "rsi", LAYOUT["size"])
    code.call(objects.address("PyNumber_Multiply"))
    code.move("rbx", "rax")
    code.compare_number("rbx", 0)
    code.jump("no cost", "e")
    call.call("PyNumber_Multiply", "rbx", "r14")
    code.store("rsp", COST, "rax")
    call.drop("rbx")
    code.label("no cost")
    call.drop("r14")
    code.compare_number_with("rsp", COST, 0)
    code.jump("undo", "e")


def _count_meetings(call: Making) -> None:
    """Note that both graphs have been met."""
    code, is_one = call.code, call.new_label()
    for register in ("r12", "r13"):
        code.load("rsi", register, GRAPH["met"])
        load_small(call, "rdi", "rsi", "undo")
        code.add("rdi", 1)
        code.call(objects.address("PyLong_FromSsize_t"))
        code.compare_number("rax", 0)
        code.jump("undo", "e")
        code.load("r15", register, GRAPH["met"])
        code.store(register, GRAPH["met"], "rax")
        call.drop("r15")
        if register == "r12":
            code.compare("r12", "r13")
            code.jump(is_one, "e")
    code.label(is_one)


__all__ = ["renew_pair"]

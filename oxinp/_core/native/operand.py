"""An operand of a statement on a part of an array, in machine code: the chain that `straight` has it for."""

from __future__ import annotations

from oxinp._core.errors.hearing import state
from oxinp._core.errors.state import quiet
from oxinp._core.lazy import schedule
from oxinp._core.lazy.expr import Graph, Structure
from oxinp._core.lazy.handle import NOWHERE
from oxinp._core.lazy.results import types
from oxinp._core.memory.layout import Layout
from oxinp._core.memory.parts import part_of
from oxinp._core.memory.storage import SHARED, Storage
from oxinp._core.native import objects
from oxinp._core.native.apart import require_same
from oxinp._core.native.function import AT, HELD, KNOWN, NONE, VALUE, VIEW
from oxinp._core.native.given import call_given, give
from oxinp._core.native.leaves import load_number, make_entry
from oxinp._core.native.making import (
    COST,
    GIVEN_VALUE,
    GRAPH,
    GRID,
    KEPT,
    LAYOUT,
    LEAVES,
    NEW,
    NUMBER,
    RESULT,
    Making,
    offsets,
)
from oxinp._core.native.objects import ARRAY_DTYPE, INT_TAG, NEGATIVE, SIZE, TUPLE_ITEMS, TYPE
from oxinp._core.native.places import load_small
from oxinp._runtime import here

_IS_FLAGGED = offsets(Structure, ("is_flagged",))["is_flagged"]
_QUIET = offsets(type(quiet), ("state",))["state"]
_SEEN, _ENTRIES, _OF = (8 * i for i in range(19, 22))
"""Where on the stack there are the layouts and the leaves of the operand, and its graph or None."""
_LAYOUT_OF, _SHAPE = "_layout", "shape"
_UNKNOWN = "_dense", "_extent", "_form", "_ghost", "_injective"


def key_of(module: object, name: str) -> int:
    """Return the address of what a module's attribute is kept by."""
    return next(id(key) for key in vars(module) if key == name)


def load_variable(call: Making, module: object, name: str) -> None:
    """Let `rax` have what a variable of a module is, which nobody counts."""
    code = call.code
    code.set("rdi", id(vars(module)))
    code.set("rsi", key_of(module, name))
    code.call(objects.address("PyDict_GetItem"))
    code.compare_number("rax", 0)
    code.jump("undo", "e")


def load_layout_of(call: Making, array: str, place: int, target: str) -> None:
    """Let a register and the stack have the layout of a NumPy array in a register."""
    code = call.code
    code.move("rdi", array)
    code.set("rsi", id(_SHAPE))
    code.call(objects.address("PyObject_GetAttr"))
    call.made(NEW, "rdi")
    give(call, (array, ARRAY_DTYPE), "rdi")
    call_given(call, Layout.of, 2)
    call.made(place, target)
    call.release(NEW)


def require_usual(call: Making) -> None:
    """Go on where there is one stream, nobody watches, and no floating-point errors are told of."""
    code = call.code
    call.unless_reported("undo")
    for module, name in ((here, "are_several"), (schedule, "room")):
        load_variable(call, module, name)
        if name == "are_several":
            code.set("rcx", id(False))
            code.compare("rax", "rcx")
            code.jump("undo", "ne")
        else:
            code.compare_number_with("rax", INT_TAG, NEGATIVE)
            code.jump("undo", "e")
    code.set("rdi", id(state))
    code.set("rsi", 0)
    code.move("rdx", "rsp")
    code.add("rdx", NUMBER)
    code.store("rsp", NUMBER, "rsi")
    code.call(objects.address("PyContextVar_Get"))
    code.load("r15", "rsp", NUMBER)
    code.compare_number("r15", 0)
    code.jump("undo", "e")
    call.drop("r15")  # which `quiet` has, too, if it is the same
    code.set("rax", id(quiet))
    code.compare_with("rax", _QUIET, "r15")
    code.jump("undo", "ne")


def unless_ours(call: Making, register: str, label: str) -> None:
    """Go to a label where an object is neither an array nor a scalar of the device's; `rdx` changes."""
    code, is_array, is_other = call.code, call.new_label(), call.new_label()
    call.unless_type(register, call.kind, is_other)
    code.jump(is_array)
    code.label(is_other)
    code.load("rdx", register, TYPE)
    call.unless_type("rdx", types.scalar_type, label)
    code.label(is_array)


def find_chain(call: Making) -> None:
    """Let `r14` have the chain of the array or scalar in `r13`, broadcast to the layout in `r12`; the stack keeps it.

    All other registers change.
    """
    code = call.code
    unless_ours(call, "r13", "undo")
    code.load("r14", "r13", HELD)
    code.compare_number("r14", 0)
    code.jump("undo", "e")
    call.unless_type("r14", Storage, "undo")
    code.load("r14", "r14", VALUE)
    call.unless_type("r14", tuple, "undo")
    call.keep_at(GIVEN_VALUE, "r14")
    load_number(call, "rax", "r14", TUPLE_ITEMS + 16)
    code.shift_right("rax", SHARED.bit_length() - 1)
    code.compare_number("rax", 0)
    code.jump("undo", "ne")
    _load_known(call)
    code.load("rbp", "r14", TUPLE_ITEMS)
    call.unless_type("rbp", Graph, "undo")
    _find_leaves(call)
    _broadcast(call)
    _make_chain(call)


def find_known(call: Making, array: str) -> None:
    """Let an array know its layout that is known for a part of a whole one by its key, see `handle`; `r15` changes."""
    code, is_known, is_unknown = call.code, call.new_label(), call.new_label()
    code.load("rdi", array, KNOWN)
    code.compare_number("rdi", 0)
    code.jump("undo", "e")
    call.unless_type("rdi", Layout, is_unknown)
    code.jump(is_known)
    code.label(is_unknown)
    code.load("rsi", array, VIEW)
    code.load("rdx", array, AT)
    for register in ("rsi", "rdx"):
        code.compare_number(register, 0)
        code.jump(is_known, "e")
    call.unless_type("rsi", call.kind, is_known)
    call.if_one_of("rdx", (NOWHERE,), is_known)
    code.set("rcx", NONE)
    code.compare_with("rsi", VIEW, "rcx")
    code.jump(is_known, "ne")
    code.load("rax", "rsi", HELD)
    code.compare_with(array, HELD, "rax")
    code.jump(is_known, "ne")
    code.load("rdi", "rsi", KNOWN)
    code.compare_number("rdi", 0)
    code.jump(is_known, "e")
    call.unless_type("rdi", Layout, is_known)
    give(call, "rdi", "rdx")
    call_given(call, part_of, 2)
    code.compare_number("rax", 0)
    code.jump("undo", "e")
    code.store("rsp", NUMBER, "rax")
    call.unless_type("rax", tuple, is_known)  # None, which is not counted
    code.load("rdx", "rax", TUPLE_ITEMS)
    call.set_attribute(array, KNOWN, "rdx")
    code.load("r15", "rsp", NUMBER)
    call.drop("r15")
    code.label(is_known)


def _load_known(call: Making) -> None:
    """Let `rbx` have the layout of the operand."""
    code, is_known, is_unknown = call.code, call.new_label(), call.new_label()
    find_known(call, "r13")
    code.load("rbx", "r13", KNOWN)
    call.unless_type("rbx", Layout, is_unknown)
    code.jump(is_known)
    code.label(is_unknown)
    code.move("rdi", "r13")
    code.set("rsi", id(_LAYOUT_OF))
    code.call(objects.address("PyObject_GetAttr"))
    call.made(COST, "rbx")
    call.unless_type("rbx", Layout, "undo")
    code.label(is_known)


def _find_leaves(call: Making) -> None:
    """Let the stack have the layouts and the leaves of the value in `r14`, whose graph is in `rbp`."""
    code = call.code
    code.set("rax", NONE)
    code.store("rsp", _OF, "rax")
    code.load("rdx", "r14", TUPLE_ITEMS + 8)
    code.store("rsp", _ENTRIES, "rdx")
    code.load("rdx", "rbp", GRAPH["nodes"])
    code.compare_number_with("rdx", SIZE, 0)
    code.jump("has no nodes", "e")
    code.load("rdx", "rbp", GRAPH["structure"])
    code.set("rcx", id(False))
    code.compare_with("rdx", _IS_FLAGGED, "rcx")
    code.jump("undo", "ne")
    code.compare_with("rbp", GRAPH["layout"], "rbx")
    code.jump("undo", "ne")
    code.store("rsp", _OF, "rbp")
    code.load("rdx", "rbp", GRAPH["leaves"])
    code.store("rsp", _SEEN, "rdx")
    code.jump("has leaves")
    code.label("has no nodes")
    call.make_tuple(LEAVES, "rdi", "rbx")
    code.store("rsp", _SEEN, "rdi")
    code.compare_with("rbp", GRAPH["layout"], "rbx")
    code.jump("has leaves", "e")
    code.load("r13", "rbx", LAYOUT["offset"])
    code.set("rcx", id(0))
    code.compare("r13", "rcx")
    code.jump("has leaves", "e")
    code.load("rbp", "rsp", _ENTRIES)
    code.load("rbp", "rbp", TUPLE_ITEMS)
    make_entry(call)
    call.make_tuple(RESULT, "rdi", "r13")
    code.store("rsp", _ENTRIES, "rdi")
    code.load("r14", "rsp", GIVEN_VALUE)
    code.load("rbp", "r14", TUPLE_ITEMS)
    code.label("has leaves")


def _broadcast(call: Making) -> None:
    """Let the layouts on the stack have the shape of that in `r12`, if they are no chain, but a row or an element."""
    code = call.code
    require_same(call, "rbx", "r12", LAYOUT["shape"], "of another shape")
    code.jump("is broadcast")
    code.label("of another shape")
    code.set("rcx", NONE)
    code.compare_with("rsp", _OF, "rcx")
    code.jump("undo", "ne")
    code.load("rdx", "rbx", LAYOUT["shape"])
    code.compare_number_with("rdx", SIZE, 0)
    code.jump("is single", "e")
    code.compare_number_with("rdx", SIZE, 1)
    code.jump("undo", "ne")
    code.load("rsi", "r12", LAYOUT["shape"])
    code.compare_number_with("rsi", SIZE, 2)
    code.jump("undo", "ne")
    load_number(call, "r13", "rdx", TUPLE_ITEMS)
    code.load("rsi", "r12", LAYOUT["shape"])
    load_number(call, "rax", "rsi", TUPLE_ITEMS + 8)
    code.compare("rax", "r13")
    code.jump("undo", "ne")
    _make_row(call)
    code.jump("is spread")
    code.label("is single")
    give(call, "rbx", ("r12", LAYOUT["shape"]))
    call_given(call, Layout.broadcast, 2)
    code.label("is spread")
    call.made(KEPT, "r13")
    call.unless_type("r13", Layout, "undo")
    code.load("rdi", "rsp", LEAVES)  # a new tuple, of one item
    code.load("r15", "rdi", TUPLE_ITEMS)
    code.store("rdi", TUPLE_ITEMS, "r13")
    code.set("rax", 0)
    code.store("rsp", KEPT, "rax")
    call.drop("r15")
    code.label("is broadcast")


def _make_row(call: Making) -> None:
    """Let `rax` have a new layout of the matrix in `r12` whose rows are all the vector of that in `rbx`."""
    code = call.code
    for layout in ("rbx", "r12"):
        code.load("rdx", layout, LAYOUT["dtype"])
        code.compare_with("r12", LAYOUT["dtype"], "rdx")
        code.jump("undo", "ne")
    code.load("rdx", "r12", LAYOUT["shape"])
    code.load("rdx", "rdx", TUPLE_ITEMS)
    call.if_one_of("rdx", (0, 1), "undo")  # of one row it may have no gaps
    code.set("r13", id(0))
    code.load("rdx", "rbx", LAYOUT["strides"])
    code.load("rax", "rdx", TUPLE_ITEMS)
    code.store("rsp", NUMBER, "rax")
    call.make_tuple(GRID, "rdi", "r13", ("rsp", NUMBER))
    code.move("r13", "rdi")
    call.make(Layout, KEPT, "rdi")
    call.copy("rbx", "rdi", ("dtype", "offset", "alignment", "is_aligned"))
    call.copy("r12", "rdi", ("shape", "ndim", "size", "nbytes"))
    call.put("rdi", LAYOUT["strides"], "r13")
    call.put_all("rdi", LAYOUT, False, "is_contiguous")
    call.put_all("rdi", LAYOUT, 0, "met")
    call.put_all("rdi", LAYOUT, None, "graph", "parts", "read", *_UNKNOWN)
    code.set("rcx", 0)
    code.store("rsp", KEPT, "rcx")
    code.move("rax", "rdi")


def _make_chain(call: Making) -> None:
    """Let `r14` have the chain of what the stack has, and the graph know that it has been met."""
    code, is_counted = call.code, call.new_label()
    code.load("rbx", "rbp", GRAPH["nodes"])
    code.compare_number_with("rbx", SIZE, 0)
    code.jump(is_counted, "e")
    code.load("rsi", "rbp", GRAPH["met"])
    load_small(call, "rdi", "rsi", "undo")
    code.add("rdi", 1)
    code.call(objects.address("PyLong_FromSsize_t"))
    code.compare_number("rax", 0)
    code.jump("undo", "e")
    code.load("r15", "rbp", GRAPH["met"])
    code.store("rbp", GRAPH["met"], "rax")
    call.drop("r15")
    code.label(is_counted)
    parts = ("rbp", GRAPH["structure"]), ("rsp", _SEEN), ("rsp", _ENTRIES), ("r14", TUPLE_ITEMS + 16), ("rsp", _OF)
    call.make_tuple(KEPT, "rdi", *parts)
    code.move("r14", "rdi")


__all__ = ["find_chain", "find_known", "load_variable", "require_usual"]

"""Products of arrays on the device, in machine code: what `ops.matmul` does where the like has been multiplied.

Layouts that have been met often are looked up with what multiplies them. Of a vector and a matrix of other extents than
before the product is launched by what is kept of those that lie alike, as `vector_product.at_once` says. Whatever is
not as usual is left to Python, which begins again before anything has been asked for.
"""

from __future__ import annotations

import functools

from oxinp._config import config
from oxinp._core.lazy import schedule
from oxinp._core.lazy.building import Missing
from oxinp._core.lazy.calls import Pending
from oxinp._core.lazy.expr import Unsupported, leaf
from oxinp._core.lazy.handle import found
from oxinp._core.lazy.results import deferred
from oxinp._core.memory.layout import Layout
from oxinp._core.memory.storage import SHARED, Storage, next_mask
from oxinp._core.native import objects
from oxinp._core.native.apart import require_same
from oxinp._core.native.binary import require_recording
from oxinp._core.native.executing import allocate
from oxinp._core.native.function import HELD, KNOWN, NONE, STORED_HOST, VALUE, Function
from oxinp._core.native.given import GIVEN, ROOM, call_given, give, require_returned
from oxinp._core.native.launchers import launch_given
from oxinp._core.native.launching import VERSION, count_pushed, push, push_items, require_room
from oxinp._core.native.leaves import BUFFER_NBYTES, BUFFER_PTR, load_number, load_ptr
from oxinp._core.native.locking import locked
from oxinp._core.native.making import (
    COST,
    ENTRY,
    GIVEN_VALUE,
    GRID,
    KEPT,
    KEY,
    LAYOUT,
    LEAVES,
    NEW,
    NEW_GRAPH,
    NUMBER,
    PTR,
    RESULT,
    Making,
    offsets,
)
from oxinp._core.native.nodes import make_array
from oxinp._core.native.objects import TUPLE_ITEMS
from oxinp._core.native.operand import find_known
from oxinp._core.native.weighing import tell_whether_due, weigh
from oxinp._core.ops.matmul import BY_LAYOUTS, contract, launch, of_new, of_vectors
from oxinp._core.ops.near_products import columns_launch, columns_read
from oxinp._core.ops.product import Product
from oxinp._core.ops.vector_product import (
    EARLY_NBYTES,
    MatrixProduct,
    VectorProduct,
    inner,
    multiply,
    operand,
    weigh_columns,
)

FIRST, SECOND = 8, 16
"""Where on the stack there are the operands."""
_LEFT, _RIGHT = KEPT, GIVEN_VALUE
"""And their layouts."""
_ALLOCATE, _FLAGS = "allocate", "flags"
_NO_MEMORY = MemoryError, Missing
_VERSIONS = {kind: offsets(kind, ("version",))["version"] for kind in (Product, VectorProduct, MatrixProduct)}
_PENDING = offsets(Pending, ("_buffer", "call", "nbytes", "owner", "place", "ptr"))
_LAUNCH, _BACKEND, _GRID, _SCRATCH, _CONSTANTS = (TUPLE_ITEMS + 8 * i for i in range(5))
"""Where in what `columns_launch` returns there is what;"""
_FOUND, _VECTOR, _MATRIX, _RESULT, _MULTIPLIED = (8 * i for i in range(5))
"""among what a launch is given: that, both leaves, the layout of the result and that of the matrix."""


def multiply_on_device(function: Function, one: str, other: str) -> None:
    """Return the product of operands in registers that are on the device; others are left to Python."""
    code, address = function.code, _address(function.kind)
    if not address:
        code.jump("general")
    code.move("rdi", one)
    code.move("rsi", other)
    code.call(address)
    function.return_or_go_on()
    code.jump("return")


@functools.cache
def _address(kind: type) -> int:
    """Return where the code lies that multiplies two operands; 0 if there is none.

    It returns a new reference; or 0 where an error has been raised, and where Python is to do it.
    """
    if objects.VECTORCALL is None:  # see `updating`
        return 0
    launching = locked(kind, _launching_address(kind))
    call = Making(kind, None, ROOM)
    code = call.code
    call.begin()
    code.store("rsp", FIRST, "rbx")
    code.store("rsp", SECOND, "rbp")
    call.begin_made()
    for register in ("rbx", "rbp"):
        call.unless_type(register, kind, "undo")
    require_recording(call)
    _require_device(call)
    _load_layout(call, "rbx", "r12", _LEFT)
    _load_layout(call, "rbp", "r13", _RIGHT)
    _multiply_vectors(call)
    _look_up(call)
    _multiply_new(call, launching)
    code.label("failed")
    code.set("rdi", id(Unsupported))  # Python asks NumPy
    code.call(objects.address("PyErr_ExceptionMatches"))
    code.store("rsp", NUMBER, "rax")
    code.test_with("rsp", NUMBER, 1)
    code.jump("raised", "e")
    return call.end_made()


def _require_device(call: Making) -> None:
    """Go on unless both operands, in `rbx` and `rbp`, are on the host."""
    code, is_there = call.code, call.new_label()
    for array, storage in (("rbx", "r12"), ("rbp", "r13")):
        code.load(storage, array, HELD)
        code.compare_number(storage, 0)
        code.jump("undo", "e")
        call.unless_type(storage, Storage, "undo")
    code.set("rcx", NONE)
    code.compare_with("r12", STORED_HOST, "rcx")
    code.jump(is_there, "e")
    code.compare_with("r13", STORED_HOST, "rcx")
    code.jump("undo", "ne")
    code.label(is_there)


def _load_layout(call: Making, array: str, target: str, place: int) -> None:
    """Let a register and the stack have the layout of an array."""
    code, is_unknown, is_known = call.code, call.new_label(), call.new_label()
    find_known(call, array)
    code.load(target, array, KNOWN)
    call.unless_type(target, Layout, is_unknown)
    call.keep_at(place, target)
    code.jump(is_known)
    code.label(is_unknown)
    give(call, array)
    call_given(call, found, 1)
    call.made(place, target)
    call.unless_type(target, Layout, "undo")
    code.label(is_known)


def _return_if_any(call: Making, label: str) -> None:
    """Return what a function has returned, in `rax`, unless that is None: then go to a label."""
    code = call.code
    code.compare_number("rax", 0)
    code.jump("failed", "e")
    code.set("rcx", NONE)  # which is not counted
    code.compare("rax", "rcx")
    code.jump(label, "e")
    code.move("r14", "rax")
    code.jump("give back")
    code.label(label)


def _multiply_vectors(call: Making) -> None:
    """Return the product of two vectors of one dtype and length, as `matmul` does; go on with others."""
    code, others = call.code, call.new_label()
    code.set("rcx", id(1))
    code.compare_with("r12", LAYOUT["ndim"], "rcx")
    code.jump(others, "ne")
    code.load("rdx", "r12", LAYOUT["dtype"])
    code.compare_with("r13", LAYOUT["dtype"], "rdx")
    code.jump(others, "ne")
    code.set("rcx", id(0))
    code.compare_with("r12", LAYOUT["size"], "rcx")
    code.jump(others, "e")
    require_same(call, "r12", "r13", LAYOUT["shape"], others)
    give(call, "rbx", "rbp")
    call_given(call, inner, 2)
    _return_if_any(call, "to contract")
    give(call, "rbx", "rbp", id(-1))
    call_given(call, contract, 3)
    _return_if_any(call, "is none")
    code.jump("undo")
    code.label(others)


def _look_up(call: Making) -> None:
    """Return the product of operands whose layouts have both been met; go to ``is new`` with others."""
    code, is_product = call.code, call.new_label()
    code.set("rcx", id(0))
    for layout in ("r12", "r13"):
        code.compare_with(layout, LAYOUT["met"], "rcx")
        code.jump("is new", "e")
    code.set("r14", NONE)
    call.make_tuple(KEY, "rsi", "r12", "r13", "r14")
    code.set("rdi", id(BY_LAYOUTS))
    code.call(objects.address("PyDict_GetItem"))
    code.compare_number("rax", 0)
    code.jump("undo", "e")
    code.move("r14", "rax")
    call.keep_at(ENTRY, "r14")
    code.set("rax", id(config))
    code.load("rax", "rax", VERSION)
    for kind, at in _VERSIONS.items():
        is_other, label = call.new_label(), is_product if kind is Product else "is vectors'"
        call.unless_type("r14", kind, is_other)
        code.compare_with("r14", at, "rax")
        code.jump(label, "e")
        code.jump("undo")
        code.label(is_other)
    code.jump("undo")
    code.label(is_product)
    give(call, "r14", "rbx", "rbp")
    call_given(call, launch, 3)
    _return_if_any(call, "is no product")
    code.jump("undo")
    code.label("is vectors'")
    _put_vector_first(call)
    _record_vectors(call)
    code.label("is more to do")
    give(call, ("rsp", ENTRY), "rbx", "rbp")
    call_given(call, multiply, 3)
    _return_if_any(call, "to be fused")
    give(call, ("rsp", _LEFT), ("rsp", _RIGHT), ("rsp", FIRST), ("rsp", SECOND))
    call_given(call, of_vectors, 4)
    _return_if_any(call, "is not fused")
    code.jump("undo")


def _put_vector_first(call: Making) -> None:
    """Let `rbx` have the vector and `rbp` the matrix, and `r12` and `r13` their layouts."""
    code, is_ordered = call.code, call.new_label()
    code.set("rcx", id(1))
    code.compare_with("r12", LAYOUT["ndim"], "rcx")
    code.jump(is_ordered, "e")
    for one, other in (("rbx", "rbp"), ("r12", "r13")):
        code.move("rax", one)
        code.move(one, other)
        code.move(other, "rax")
    code.label(is_ordered)


def _record_vectors(call: Making) -> None:
    """Return a product of a vector and a matrix that has been met, which lie on the device, as `multiply` does."""
    code, is_right, has_leaves = call.code, call.new_label(), call.new_label()
    label = "is more to do"
    load_number(call, "rax", "r13", LAYOUT["nbytes"])
    code.compare_number("rax", EARLY_NBYTES)
    code.jump(label, "ge")
    give(call, "rbp")
    call_given(call, operand, 1)
    _load_if_any(call, PTR, "rax", label)
    _find_vector(call, label)
    code.load("r12", "rsp", LEAVES)
    code.load("r13", "rsp", PTR)
    load_number(call, "r14", "r12", TUPLE_ITEMS + 8)
    load_number(call, "rdi", "r13", TUPLE_ITEMS + 8)
    code.or_register("rdi", "r14")
    code.call(objects.address("PyLong_FromSsize_t"))
    call.made(COST, "rax")
    code.load("rdx", "rsp", ENTRY)
    call.unless_type("rdx", MatrixProduct, is_right)
    call.make_tuple(NEW, "rdi", ("r13", TUPLE_ITEMS), ("r12", TUPLE_ITEMS))
    code.jump(has_leaves)
    code.label(is_right)
    call.make_tuple(NEW, "rdi", ("r12", TUPLE_ITEMS), ("r13", TUPLE_ITEMS))
    code.label(has_leaves)
    give(call, ("rsp", ENTRY), ("rsp", NEW), ("rsp", COST))
    call_given(call, deferred, 3)
    code.move("r14", "rax")
    code.compare_number("r14", 0)
    code.jump("failed", "e")
    code.jump("give back")


def _multiply_new(call: Making, launching: int) -> None:
    """Lay out ``is new``: return the product of a vector and a matrix, of layouts that are not met often."""
    code, is_known = call.code, call.new_label()
    code.label("is new")
    if not launching:
        code.jump("undo")
    give(call, "r12", "r13")
    call_given(call, columns_read, 2)
    _load_if_any(call, PTR, "r14")
    give(call, ("r14", TUPLE_ITEMS), ("r14", TUPLE_ITEMS + 8))
    call_given(call, columns_launch, 2)
    _load_if_any(call, RESULT, "r15")
    _put_vector_first(call)
    give(call, "rbp")
    call_given(call, operand, 1)
    _load_if_any(call, ENTRY, "rax")
    _find_vector(call)
    _require_own(call)
    code.load("r14", "rsp", PTR)
    code.load("r14", "r14", TUPLE_ITEMS + 8)
    call.make_tuple(NEW, "rdi", ("r14", TUPLE_ITEMS + 8))
    give(call, ("r13", LAYOUT["dtype"]), ("rsp", NEW))
    call_given(call, Layout.of, 2)
    call.made(NEW_GRAPH, "rax")
    code.load("rdx", "rsp", LEAVES)
    code.load("rsi", "rsp", ENTRY)
    give(call, ("rsp", RESULT), ("rdx", TUPLE_ITEMS), ("rsi", TUPLE_ITEMS), ("rsp", NEW_GRAPH), "r13")
    code.move("rdi", "rsp")
    code.add("rdi", GIVEN)
    code.call(launching)
    code.move("r14", "rax")
    code.compare_number("r14", 0)
    code.jump("give back", "ne")
    code.set("rdi", id(_NO_MEMORY))
    code.call(objects.address("PyErr_ExceptionMatches"))
    code.store("rsp", NUMBER, "rax")
    code.test_with("rsp", NUMBER, 1)
    code.jump("undo", "ne")
    code.call(objects.address("PyErr_Occurred"))
    code.compare_number("rax", 0)
    code.jump("raised", "ne")
    code.jump("undo")
    code.label("is to wait")
    give(call, ("rsp", _LEFT), ("rsp", _RIGHT), ("rsp", FIRST), ("rsp", SECOND))
    call_given(call, of_new, 4)
    _return_if_any(call, is_known)
    code.jump("undo")


def _load_if_any(call: Making, place: int, target: str, label: str = "is to wait") -> None:
    """Let a register and the stack have what a function has returned; go to a label where that is None."""
    code = call.code
    code.compare_number("rax", 0)
    code.jump("failed", "e")
    code.set("rcx", NONE)
    code.compare("rax", "rcx")
    code.jump(label, "e")
    code.store("rsp", place, "rax")
    code.move(target, "rax")


def _find_vector(call: Making, label: str = "is to wait") -> None:
    """Let the stack have where the vector lies that is in `rbx`, computed now if it is pending; else go to a label."""
    code, is_found = call.code, call.new_label()
    code.load("r14", "rbx", HELD)
    code.compare_number("r14", 0)
    code.jump("undo", "e")
    code.set("rcx", NONE)
    code.compare_with("r14", VALUE, "rcx")
    code.jump(label, "e")
    give(call, "rbx")
    call_given(call, operand, 1)
    code.compare_number("rax", 0)
    code.jump("failed", "e")
    code.set("rcx", NONE)
    code.compare("rax", "rcx")
    code.jump(is_found, "ne")
    call.keep_at(COST, "r14")
    give(call, "r14")
    call_given(call, schedule.materialise, 1)
    code.compare_number("rax", 0)
    code.jump("raised", "e")
    code.move("r15", "rax")
    call.drop("r15")
    call.release(COST)
    give(call, "rbx")
    call_given(call, operand, 1)
    code.label(is_found)
    _load_if_any(call, LEAVES, "rax", label)


def _require_own(call: Making) -> None:
    """Go on where nobody else may change what the operands read."""
    code = call.code
    for place in (LEAVES, ENTRY):
        code.load("rdx", "rsp", place)
        load_number(call, "rax", "rdx", TUPLE_ITEMS + 8)
        code.shift_right("rax", SHARED.bit_length() - 1)
        code.compare_number("rax", 0)
        code.jump("is to wait", "ne")


@functools.cache
def _launching_address(kind: type) -> int:
    """Return where the code lies that launches a product and returns it, given where the arguments are."""
    if objects.VECTORCALL is None:
        return 0
    call = Making(kind, None, ROOM)
    code = call.code
    call.begin()
    call.begin_made()
    code.load("r12", "rbx", _FOUND)
    call.unless_type("r12", tuple, "undo")
    require_room(call, ("r12", _CONSTANTS))
    code.load("rdx", "r12", _LAUNCH)
    call.keep_at(COST, "rdx")
    _load_operands(call)
    _allocate(call)
    _make_value(call)
    _give(call)
    launch_given(call, GIVEN)
    call.without_memory = "raised"
    _weigh(call)
    code.load("rbx", "rbx", _RESULT)
    code.load("r12", "rsp", RESULT)
    make_array(call)
    call.keep("r14")
    code.jump("give back")
    return call.end_made()


def _load_operands(call: Making) -> None:
    """Let the stack have a tuple of both leaves, which have addresses."""
    code = call.code
    for at in (_VECTOR, _MATRIX):
        code.load("rdi", "rbx", at)
        load_ptr(call, "rdi", "rdx", "undo")
    call.make_tuple(LEAVES, "rdi", ("rbx", _VECTOR), ("rbx", _MATRIX))


def _allocate(call: Making) -> None:
    """Let `r13` and the stack have a Buffer for the result, and the stack one for the workspace, and flags, if any."""
    code, has_workspace = call.code, call.new_label()
    code.load("rdi", "r12", _BACKEND)
    code.set("rsi", id(_ALLOCATE))
    code.call(objects.address("PyObject_GetAttr"))
    call.made(PTR, "rdi")
    code.load("rsi", "rbx", _RESULT)
    code.load("rsi", "rsi", LAYOUT["nbytes"])
    allocate(call, NEW_GRAPH)
    code.move("r13", "rax")
    code.set("rcx", id(0))
    code.compare_with("r12", _SCRATCH, "rcx")
    code.jump(has_workspace, "e")
    code.load("rdi", "rsp", PTR)
    code.load("rsi", "r12", _SCRATCH)
    allocate(call, KEPT)
    code.load("rdi", "r12", _BACKEND)
    code.set("rsi", id(_FLAGS))
    code.call(objects.address("PyObject_GetAttr"))
    call.made(GIVEN_VALUE, "rax")
    code.label(has_workspace)


def _make_value(call: Making) -> None:
    """Let the stack have the value of the product, see `calls.result_in`."""
    code = call.code
    call.make(Pending, GRID, "rbp")
    for name in ("call", "owner"):
        call.put("rbp", _PENDING[name], NONE)
    call.put("rbp", _PENDING["place"], id(0))
    call.put("rbp", _PENDING["_buffer"], "r13")
    for name, at in (("ptr", BUFFER_PTR), ("nbytes", BUFFER_NBYTES)):
        code.load("rdx", "r13", at)
        call.put("rbp", _PENDING[name], "rdx")
    call.make_tuple(KEY, "rdi", "rbp")
    call.release(GRID)
    give(call, ("rbx", _RESULT))
    call_given(call, leaf, 1)
    call.made(ENTRY, "rax")
    call_given(call, next_mask, 0)
    call.made(GRID, "rax")
    call.make_tuple(RESULT, "rdi", ("rsp", ENTRY), ("rsp", KEY), ("rsp", GRID))
    for place in (ENTRY, KEY, GRID):
        call.release(place)


def _give(call: Making) -> None:
    """Let the stack have what the launch is given: the grid, the result, operands and constants."""
    code, has_none = call.code, call.new_label()
    code.move("rsi", "rsp")
    code.add("rsi", GIVEN)
    for holder, at in (("r12", _GRID), ("r13", BUFFER_PTR)):
        code.load("rdx", holder, at)
        push(call, "rdx")
    code.load("rdx", "rsp", KEPT)
    code.compare_number("rdx", 0)
    code.jump(has_none, "e")
    code.load("rdx", "rdx", BUFFER_PTR)
    push(call, "rdx")
    code.load("rdx", "rsp", GIVEN_VALUE)
    push(call, "rdx")
    code.label(has_none)
    for at in (_VECTOR, _MATRIX):
        code.load("rdi", "rbx", at)
        load_ptr(call, "rdi", "rdx", "undo")
        push(call, "rdx")
    push_items(call, "r12", _CONSTANTS)
    count_pushed(call)


def _weigh(call: Making) -> None:
    """Let placement know, as `vector_product.weigh_columns` does."""
    code = call.code
    code.load("r15", "rbx", _RESULT)
    weigh(call, "rsp", LEAVES, "to weigh", "is due")
    code.jump("is weighed")
    tell_whether_due(call, "to weigh", "is due")
    code.load("r12", "rbx", _RESULT)
    code.load("r13", "rbx", _MULTIPLIED)
    give(call, ("r12", LAYOUT["nbytes"]), ("rsp", LEAVES), ("r13", LAYOUT["nbytes"]), "rbp")
    call_given(call, weigh_columns, 4)
    require_returned(call)
    code.label("is weighed")


__all__ = ["multiply_on_device"]

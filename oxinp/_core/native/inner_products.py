"""Products of two vectors on the device, and norms of one, in machine code: those of which the like has been recorded.

They are what `vector_product.inner` and `linalg.norm` say. What is large is left to these, and what waits for a product
of a matrix is run by `vector_product.run_operand`.
"""

from __future__ import annotations

import numpy as np

from oxinp._core.lazy.results import deferred
from oxinp._core.memory.layout import Layout
from oxinp._core.memory.storage import Storage
from oxinp._core.native import objects
from oxinp._core.native.binary import address_of_one, require_recording
from oxinp._core.native.function import HELD, KNOWN, NONE, STORED_HOST
from oxinp._core.native.given import ROOM, call_given, give
from oxinp._core.native.leaves import load_number
from oxinp._core.native.making import COST, ENTRY, GRID, KEY, LAYOUT, LEAVES, NEW, RESULT, Making
from oxinp._core.native.objects import TUPLE_ITEMS
from oxinp._core.native.operand import find_known
from oxinp._core.ops import vector_product
from oxinp._core.ops.vector_product import INNER_PRODUCTS, MAX_READ_TWICE, operand, run_operand
from oxinp._core.ufunc.objects import UFUNC_OBJECTS

_ROOT = UFUNC_OBJECTS["sqrt"].operations[0]
_REALS = np.dtype(np.float64), np.dtype(np.float32)


def inner(kind: type, before: int | None) -> bytes:
    """Return the code of a call of `vector_product.inner`."""
    call = Making(kind, before, ROOM)
    code = call.code
    call.begin_making(2)
    require_recording(call)
    _load_layout(call, 0, "rbx", "r12")
    _load_layout(call, 8, "r14", "r13")
    load_number(call, "rax", "r12", LAYOUT["nbytes"])
    code.compare_number("rax", MAX_READ_TWICE)
    code.jump("undo", "g")
    call.make_tuple(KEY, "rsi", "r12", "r13")
    code.set("rdi", id(INNER_PRODUCTS))
    code.call(objects.address("PyDict_GetItem"))
    code.compare_number("rax", 0)
    code.jump("undo", "e")
    code.move("rdx", "rax")
    call.keep_at(ENTRY, "rdx")
    for array, place in (("rbx", NEW), ("r14", GRID)):
        is_found = call.new_label()
        give(call, array)
        call_given(call, operand, 1)
        _unless_none(call, is_found)
        give(call, array)
        call_given(call, run_operand, 1)
        _unless_none(call, is_found)
        code.move("r14", "rax")  # which is not counted
        code.jump("is done")
        code.label(is_found)
        call.made(place, "r12")
    code.load("r13", "rsp", NEW)
    call.make_tuple(LEAVES, "rdi", ("r13", TUPLE_ITEMS), ("r12", TUPLE_ITEMS))
    load_number(call, "rbx", "r13", TUPLE_ITEMS + 8)
    load_number(call, "rax", "r12", TUPLE_ITEMS + 8)
    code.move("rdi", "rax")
    code.or_register("rdi", "rbx")
    code.call(objects.address("PyLong_FromSsize_t"))
    call.made(COST, "rax")
    give(call, ("rsp", ENTRY), ("rsp", LEAVES), ("rsp", COST))
    call_given(call, deferred, 3)
    call.made(RESULT, "r14")
    code.label("is done")
    call.end_making("r14")
    return code.assembled()


def norm(kind: type, before: int | None) -> bytes:
    """Return the code of a call of `linalg.norm` of a vector that is on the device alone."""
    call = Making(kind, before, ROOM)
    code, is_real = call.code, call.new_label()
    call.begin_making(1)
    require_recording(call)
    _load_layout(call, 0, "rbx", "r12")
    code.load("rdx", "rbx", HELD)
    call.unless_type("rdx", Storage, "undo")
    code.set("rcx", NONE)
    code.compare_with("rdx", STORED_HOST, "rcx")
    code.jump("undo", "ne")
    code.load("rdx", "r12", LAYOUT["dtype"])
    call.if_one_of("rdx", _REALS, is_real)
    code.jump("undo")
    code.label(is_real)
    give(call, "rbx", "rbx")
    call_given(call, vector_product.inner, 2)
    is_found = call.new_label()
    _unless_none(call, is_found)
    code.jump("undo")
    code.label(is_found)
    call.made(NEW, "rsi")
    root = address_of_one(kind)
    if not root:
        code.jump("undo")
    code.set("rdi", id(_ROOT))
    code.call(root)
    call.made(RESULT, "r14")
    call.end_making("r14")
    return code.assembled()


def _load_layout(call: Making, place: int, array: str, layout: str) -> None:
    """Let registers have an argument that is an array, and its layout, a vector's."""
    code = call.code
    code.load(array, "rbp", place)
    call.unless_type(array, call.kind, "undo")
    code.load("rdx", array, HELD)
    code.compare_number("rdx", 0)
    code.jump("undo", "e")
    find_known(call, array)
    code.load(layout, array, KNOWN)
    call.unless_type(layout, Layout, "undo")
    code.set("rcx", id(1))
    code.compare_with(layout, LAYOUT["ndim"], "rcx")
    code.jump("undo", "ne")


def _unless_none(call: Making, label: str) -> None:
    """Go to a label if a function has returned something, or failed; go on if that is None, which is not counted."""
    call.code.set("rcx", NONE)
    call.code.compare("rax", "rcx")
    call.code.jump(label, "ne")


__all__ = ["inner"]  # of which functions of Python's have the names

"""Leaves of what is recorded, in machine code: the Buffers that they read, and from where on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oxinp._core.lazy.calls import Pending
from oxinp._core.memory.storage import Leaf
from oxinp._core.native import objects
from oxinp._core.native.function import NONE
from oxinp._core.native.making import ENTRY, LAYOUT, NUMBER, PTR, Making, offsets
from oxinp._runtime.memory import Buffer

if TYPE_CHECKING:
    from collections.abc import Mapping

LEAF = offsets(Leaf, Leaf.__slots__)
BUFFER_PTR, BUFFER_NBYTES = offsets(Buffer, ("ptr", "nbytes")).values()
PENDING = offsets(Pending, ("_buffer", "call", "ptr"))


def load_number(call: Making, target: str, base: str, at: int, label: str = "undo") -> None:
    """Let a register have the value of an integer of one word that lies at an offset from one; else go to a label."""
    code, is_known, is_one = call.code, call.new_label(), call.new_label()
    code.load("rdi", base, at)
    call.unless_type("rdi", int, label)
    code.call(objects.address("PyLong_AsSsize_t"))
    code.compare_number("rax", -1)
    code.jump(is_known, "ne")
    code.call(objects.address("PyErr_Occurred"))
    code.compare_number("rax", 0)
    code.jump(is_one, "e")
    code.call(objects.address("PyErr_Clear"))
    code.jump(label)
    code.label(is_one)
    code.set("rax", 2**64 - 1)
    code.label(is_known)
    code.move(target, "rax")


def store_of_dtype(call: Making, layout: str, known: Mapping[Any, Any], place: int, label: str = "undo") -> None:
    """Let the stack have what is known of the dtype of a layout; go to a label where nothing is."""
    code, done = call.code, call.new_label()
    code.load("rdx", layout, LAYOUT["dtype"])
    for dtype, value in known.items():
        is_other = call.new_label()
        code.set("rcx", id(dtype))
        code.compare("rdx", "rcx")
        code.jump(is_other, "ne")
        code.set("rcx", id(value))
        code.store("rsp", place, "rcx")
        code.jump(done)
        code.label(is_other)
    code.jump(label)
    code.label(done)


def load_buffer(call: Making, entry: str, target: str, number: str, waiting: str = "undo") -> None:
    """Let a register have the Buffer that a leaf reads; go to labels for a number and for what a call waits for."""
    code, is_loaded, is_other, may_wait = call.code, *(call.new_label() for _ in range(3))
    code.move(target, entry)
    call.unless_type(entry, Buffer, is_other)
    code.jump(is_loaded)
    code.label(is_other)
    call.unless_type(entry, Leaf, may_wait)
    code.load(target, entry, LEAF["buffer"])
    code.jump(is_loaded)
    code.label(may_wait)
    call.unless_type(entry, Pending, number)
    code.set("rcx", NONE)
    code.compare_with(entry, PENDING["call"], "rcx")
    code.jump(waiting, "ne")
    code.load(target, entry, PENDING["_buffer"])
    code.label(is_loaded)


def load_ptr(call: Making, entry: str, target: str, number: str) -> None:
    """Let a register have the address that a leaf reads from, an object; go to a label where it has none."""
    code, is_loaded, is_other, is_pending = call.code, *(call.new_label() for _ in range(3))
    for kind, at, label in (
        (Buffer, BUFFER_PTR, is_other),
        (Leaf, LEAF["ptr"], is_pending),
        (Pending, PENDING["ptr"], number),
    ):
        call.unless_type(entry, kind, label)
        code.load(target, entry, at)
        code.jump(is_loaded)
        if label is not number:
            code.label(label)
    code.label(is_loaded)
    code.compare_number(target, 0)
    code.jump("undo", "e")


def make_entry(call: Making) -> None:
    """Let `r13`, a number of bytes, be what lies so far on in the Buffer in `rbp`."""
    code = call.code
    call.unless_type("rbp", Buffer, "undo")
    code.load("r14", "rbp", BUFFER_PTR)
    for each in ("r13", "r14"):
        code.move("rdi", each)
        code.call(objects.address("PyLong_AsSsize_t"))
        code.compare_number("rax", 0)
        code.jump("undo", "l")
        if each == "r13":
            code.store("rsp", NUMBER, "rax")
    code.move("rdi", "rax")
    code.add_from("rdi", "rsp", NUMBER)
    code.call(objects.address("PyLong_FromSsize_t"))
    call.made(PTR, "r13")
    call.make(Leaf, ENTRY, "r13")
    code.load("rax", "rsp", PTR)
    code.store("r13", LEAF["ptr"], "rax")
    code.set("rax", 0)
    code.store("rsp", PTR, "rax")
    call.put("r13", LEAF["buffer"], "rbp")


__all__ = [
    "BUFFER_NBYTES",
    "BUFFER_PTR",
    "PENDING",
    "load_buffer",
    "load_number",
    "load_ptr",
    "make_entry",
    "store_of_dtype",
]

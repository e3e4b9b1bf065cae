"""Whether a chain reads elements that are written before, in machine code: what `writing.is_direct` says."""

from __future__ import annotations

from oxinp._core.lazy.expr import Structure
from oxinp._core.memory.layout import Layout
from oxinp._core.native import objects
from oxinp._core.native.leaves import load_buffer, load_number, load_ptr
from oxinp._core.native.making import LAYOUT, Making, offsets
from oxinp._core.native.objects import DTYPE_ITEMSIZE, SIZE, TUPLE_ITEMS

WANTS_POINTER = offsets(Structure, ("wants_pointer",))["wants_pointer"]

HELD_BUFFER, START, READS, INDEX = (8 * i for i in range(19, 23))
"""Where on the stack there is the Buffer that is written to, from which address on, and the bits of what may be read
there; and at which leaf we are, in words of 8 bytes."""
_DISTANCE, _LOW, _HIGH, _FIRST, _LAST, _AXIS, _EXTENT, _PITCH, _CANDIDATE, _STEP = (8 * i for i in range(23, 33))
END = 8 * 33
FOUND, MET = 24, 32
"""Where there is 0 where no leaf reads what is written to, and where none reads an element that is written."""
_EQUAL = 2  # among Python's comparisons


def require_same(call: Making, one: str, other: str, at: int, label: str) -> None:
    """Go to a label unless the tuples of integers that two objects have at an offset are equal."""
    code, is_same = call.code, call.new_label()
    code.load("rdi", one, at)
    code.load("rsi", other, at)
    code.compare("rdi", "rsi")
    code.jump(is_same, "e")
    code.set("rdx", _EQUAL)
    code.call(objects.address("PyObject_RichCompareBool"))
    code.store("rsp", _AXIS, "rax")
    code.load_int("rax", "rsp", _AXIS)
    code.compare_number("rax", 1)
    code.jump(label, "ne")
    code.label(is_same)


def require_apart(call: Making, seen: int, entries: int, label: str) -> None:
    """Go on if every read of what is written is of the very element that is written, or of bytes that are not.

    The layout that is written is in `r12`, what is computed in the tuple in `r13`, which has the layouts and the leaves
    at two offsets. What the stack has is said above. `rbp` and `r15` change.
    """
    code = call.code
    code.set("rax", 0)
    for place in (FOUND, MET):
        code.store("rsp", place, "rax")
    code.compare_number_with("rsp", READS, 0)
    code.jump("is apart", "e")
    code.load("rdx", "r13", TUPLE_ITEMS)
    code.set("rcx", id(False))
    code.compare_with("rdx", WANTS_POINTER, "rcx")
    code.jump("undo", "ne")
    code.set("rax", 0)
    code.store("rsp", INDEX, "rax")
    code.label("next leaf")
    code.load("rdx", "r13", entries)
    code.load("rax", "rdx", SIZE)
    for _ in range(3):
        code.add_register("rax", "rax")
    code.compare_with("rsp", INDEX, "rax")
    code.jump("is apart", "ge")
    code.load("rax", "rsp", INDEX)
    code.add_register("rdx", "rax")
    code.load("rbp", "rdx", TUPLE_ITEMS)
    code.load("rdx", "r13", seen)
    code.add_register("rdx", "rax")
    code.load("r15", "rdx", TUPLE_ITEMS)
    code.add("rax", 8)
    code.store("rsp", INDEX, "rax")
    load_buffer(call, "rbp", "rdi", "next leaf", "next leaf")  # what waits will be elsewhere
    code.compare_with("rsp", HELD_BUFFER, "rdi")
    code.jump("next leaf", "ne")
    code.store("rsp", FOUND, "rdi")
    call.unless_type("r15", Layout, "undo")
    load_ptr(call, "rbp", "rdi", "undo")
    code.call(objects.address("PyLong_AsSsize_t"))
    code.subtract_from("rax", "rsp", START)
    code.store("rsp", _DISTANCE, "rax")
    code.compare_number("rax", 0)
    code.jump("is elsewhere", "ne")
    _if_same(call)
    _if_they_meet_in_themselves(call)
    code.jump("is elsewhere")
    code.label("meets there")
    code.increment("rsp", MET)
    code.jump("next leaf")
    code.label("is elsewhere")
    _if_beside(call)
    _if_between(call)
    _if_beside_in_pitch(call)
    code.jump(label)
    code.label("is apart")


def _if_same(call: Making) -> None:
    """Go to the next leaf where the layouts in `r12` and `r15` are of the same elements."""
    code, is_other = call.code, call.new_label()
    code.load("rdx", "r15", LAYOUT["dtype"])
    code.compare_with("r12", LAYOUT["dtype"], "rdx")
    code.jump(is_other, "ne")
    for name in ("strides", "shape"):
        require_same(call, "r12", "r15", LAYOUT[name], is_other)
    code.jump("meets there")
    code.label(is_other)


def _if_they_meet_in_themselves(call: Making) -> None:
    """Go to the next leaf where lines that begin with the same element meet nowhere else."""
    code, is_other = call.code, call.new_label()
    code.set("rcx", id(1))
    for layout in ("r12", "r15"):
        code.compare_with(layout, LAYOUT["ndim"], "rcx")
        code.jump(is_other, "ne")
    _load_itemsize(call, "r15", "rdx")
    _load_itemsize(call, "r12", "rax")
    code.compare("rax", "rdx")
    code.jump(is_other, "ne")
    for layout, place in (("r12", _LOW), ("r15", _HIGH)):
        code.load("rdx", layout, LAYOUT["strides"])
        load_number(call, "rdi", "rdx", TUPLE_ITEMS)
        _make_positive(call, "rdi")
        code.store("rsp", place, "rdi")
        code.move("rax", "rdi")
        _load_itemsize(call, "r12", "rcx")
        code.divide("rcx")
        code.compare_number("rdx", 0)
        code.jump(is_other, "ne")
    code.compare_number_with("rsp", _HIGH, 0)
    code.jump(is_other, "e")
    load_number(call, "rdi", "r12", LAYOUT["size"])
    for one, other in ((_LOW, _HIGH), (_HIGH, _LOW)):
        code.load("rax", "rsp", one)
        code.multiply_by("rax", "rdi")
        code.compare_with("rsp", other, "rax")
        code.jump("meets there", "ge")
    code.label(is_other)


def _make_positive(call: Making, register: str) -> None:
    code, is_positive = call.code, call.new_label()
    code.compare_number(register, 0)
    code.jump(is_positive, "ge")
    code.negate(register)
    code.label(is_positive)


def _load_itemsize(call: Making, layout: str, target: str) -> None:
    call.code.load(target, layout, LAYOUT["dtype"])
    call.code.load(target, target, DTYPE_ITEMSIZE)


def _for_axes(call: Making, layout: str) -> tuple[str, str]:
    """Begin a loop over the axes of a layout; let `rax` have a stride, and the stack one less than the extent.

    Returns the labels of the next axis and of the end.
    """
    code, again, done = call.code, call.new_label(), call.new_label()
    code.load("rdx", layout, LAYOUT["shape"])
    code.load("rax", "rdx", SIZE)
    code.store("rsp", _AXIS, "rax")
    code.label(again)
    code.compare_number_with("rsp", _AXIS, 0)
    code.jump(done, "e")
    code.decrement("rsp", _AXIS)
    for name in ("shape", "strides"):
        code.load("rcx", "rsp", _AXIS)
        for _ in range(3):
            code.add_register("rcx", "rcx")
        code.load("rdx", layout, LAYOUT[name])
        code.add_register("rdx", "rcx")
        load_number(call, "rax", "rdx", TUPLE_ITEMS)
        if name == "shape":
            code.add("rax", -1)
            code.store("rsp", _EXTENT, "rax")
    return again, done


def _measure(call: Making, layout: str, low: int, high: int) -> None:
    """Let the stack have the first byte and the one past the last byte that a layout is of, from its first element."""
    code = call.code
    code.set("rax", 0)
    code.store("rsp", low, "rax")
    _load_itemsize(call, layout, "rax")
    code.store("rsp", high, "rax")
    (again, done), is_positive = _for_axes(call, layout), call.new_label()
    code.multiply("rax", "rsp", _EXTENT)
    code.compare_number("rax", 0)
    code.jump(is_positive, "ge")
    code.add_from("rax", "rsp", low)
    code.store("rsp", low, "rax")
    code.jump(again)
    code.label(is_positive)
    code.add_from("rax", "rsp", high)
    code.store("rsp", high, "rax")
    code.jump(again)
    code.label(done)


def _if_beside(call: Making) -> None:
    """Go to the next leaf where what is read ends before what is written begins, or begins behind it."""
    code = call.code
    _measure(call, "r12", _LOW, _HIGH)
    _measure(call, "r15", _FIRST, _LAST)
    code.load("rax", "rsp", _DISTANCE)
    code.add_from("rax", "rsp", _LAST)
    code.compare_with("rsp", _LOW, "rax")
    code.jump("next leaf", "ge")
    code.load("rax", "rsp", _DISTANCE)
    code.add_from("rax", "rsp", _FIRST)
    code.compare_with("rsp", _HIGH, "rax")
    code.jump("next leaf", "le")


def _if_between(call: Making) -> None:
    """Go to the next leaf where what is read lies between what is written, as columns of a matrix do."""
    code, is_other = call.code, call.new_label()
    code.set("rax", 0)
    code.store("rsp", _PITCH, "rax")
    for layout in ("r12", "r15"):
        again, done = _for_axes(call, layout)
        _make_positive(call, "rax")
        _divide_in_common(call)
        code.jump(again)
        code.label(done)
    code.load("rcx", "rsp", _PITCH)
    code.compare_number("rcx", 0)
    code.jump(is_other, "e")
    code.load("rax", "rsp", _DISTANCE)
    _load_remainder(call)
    _load_itemsize(call, "r12", "rax")
    code.compare("rdx", "rax")
    code.jump(is_other, "l")
    _load_itemsize(call, "r15", "rax")
    code.add_register("rdx", "rax")
    code.compare("rdx", "rcx")
    code.jump("next leaf", "le")
    code.label(is_other)


def _if_beside_in_pitch(call: Making) -> None:
    """Go to the next leaf where what is read lies beside what is written in each pitch, as some columns and others."""
    code = call.code
    for layout in ("r12", "r15"):
        again, done = call.new_label(), call.new_label()
        code.load("rdx", layout, LAYOUT["shape"])
        code.load("rax", "rdx", SIZE)
        code.store("rsp", _CANDIDATE, "rax")
        code.label(again)
        code.compare_number_with("rsp", _CANDIDATE, 0)
        code.jump(done, "e")
        code.decrement("rsp", _CANDIDATE)
        code.load("rcx", "rsp", _CANDIDATE)
        code.load("rdx", layout, LAYOUT["strides"])
        for _ in range(3):
            code.add_register("rcx", "rcx")
        code.add_register("rdx", "rcx")
        load_number(call, "rax", "rdx", TUPLE_ITEMS)
        _make_positive(call, "rax")
        code.compare_number("rax", 0)
        code.jump(again, "e")
        code.store("rsp", _PITCH, "rax")
        _measure_within(call, "r12", _LOW, _HIGH)
        _measure_within(call, "r15", _FIRST, _LAST)
        code.load("rax", "rsp", _DISTANCE)
        code.add_from("rax", "rsp", _FIRST)
        code.subtract_from("rax", "rsp", _LOW)
        code.load("rcx", "rsp", _PITCH)
        _load_remainder(call)
        code.compare_with("rsp", _HIGH, "rdx")
        code.jump(again, "g")
        code.add_from("rdx", "rsp", _LAST)
        code.compare("rdx", "rcx")
        code.jump("next leaf", "le")
        code.jump(again)
        code.label(done)


def _load_remainder(call: Making) -> None:
    """Let `rdx` have what `rax` is beyond a multiple of the positive number in `rcx`, as Python's ``%`` has it."""
    code, done = call.code, call.new_label()
    code.move("rdi", "rax")
    _make_positive(call, "rax")
    code.divide("rcx")
    code.compare_number("rdi", 0)
    code.jump(done, "ge")
    code.compare_number("rdx", 0)
    code.jump(done, "e")
    code.negate("rdx")
    code.add_register("rdx", "rcx")
    code.label(done)


def _measure_within(call: Making, layout: str, low: int, width: int) -> None:
    """Let the stack have from where on and how far elements go but for whole pitches, see `writing`."""
    code = call.code
    code.set("rax", 0)
    code.store("rsp", low, "rax")
    _load_itemsize(call, layout, "rax")
    code.store("rsp", width, "rax")
    again, done = _for_axes(call, layout)
    code.store("rsp", _STEP, "rax")
    _make_positive(call, "rax")
    code.move("rdi", "rax")
    code.load("rcx", "rsp", _PITCH)
    code.divide("rcx")
    code.compare_number("rdx", 0)
    code.jump(again, "e")
    code.multiply("rdi", "rsp", _EXTENT)
    code.move("rax", "rdi")
    code.add_from("rax", "rsp", width)
    code.store("rsp", width, "rax")
    code.compare_number_with("rsp", _STEP, 0)
    code.jump(again, "ge")
    code.load("rax", "rsp", low)
    code.negate("rdi")
    code.add_register("rax", "rdi")
    code.store("rsp", low, "rax")
    code.jump(again)
    code.label(done)


def _divide_in_common(call: Making) -> None:
    """Let the pitch on the stack be the largest number that divides it and `rax`."""
    code, again, done = call.code, call.new_label(), call.new_label()
    code.load("rcx", "rsp", _PITCH)
    code.label(again)
    code.compare_number("rcx", 0)
    code.jump(done, "e")
    code.divide("rcx")
    code.move("rax", "rcx")
    code.move("rcx", "rdx")
    code.jump(again)
    code.label(done)
    code.store("rsp", _PITCH, "rax")


__all__ = ["END", "FOUND", "HELD_BUFFER", "INDEX", "MET", "READS", "START", "require_apart", "require_same"]

"""Parts of arrays that are on the device only, by integers and slices: what `memory.parts` says, in machine code.

A part that a layout keeps is found, and one that it does not is made and kept, by the same place and with the same
attributes. Whatever is not as usual is left to Python, which alone says what is right: many axes, numbers of more than
30 bits, elements whose size is no power of 2, and a layout that has no room for more parts.
"""

from __future__ import annotations

import functools

from oxinp._core.lazy import rewriting
from oxinp._core.lazy.balance import balance
from oxinp._core.lazy.expr import Graph
from oxinp._core.lazy.placement import SMALL_NBYTES, accesses
from oxinp._core.lazy.schedule import materialise
from oxinp._core.memory.layout import MAX_NESTED_PARTS, Layout
from oxinp._core.memory.parts import PART
from oxinp._core.memory.storage import Storage
from oxinp._core.native import objects, reading
from oxinp._core.native.assigning import address_of
from oxinp._core.native.call import Call
from oxinp._core.native.function import AT, HELD, HOST, KNOWN, LIMIT, NONE, SEEN, STORED_HOST, VALUE, VIEW, Function
from oxinp._core.native.objects import (
    DTYPE_ITEMSIZE,
    INT_DIGIT,
    INT_TAG,
    POSITIVE,
    SIZE,
    SLICE_START,
    SLICE_STEP,
    SLICE_STOP,
    TUPLE_ITEMS,
    ZERO,
)
from oxinp._core.native.places import load_small
from oxinp._core.ops.index import getitem, setitem

_MOST_AXES = 4
_MOST_OFFSET, _MOST_SIZE, _MOST_ITEMSIZE = 1 << 47, 1 << 32, 1 << 16
_MOST_ALIGNED = 256
_HIGHEST, _LOWEST = 2**63 - 1, 2**63  # of 64 bits with a sign

_AT = {name: objects.offset(Layout.__dict__[name]) if objects.ARE_KNOWN else 0 for name in Layout.__slots__}
_GRAPH_LAYOUT = objects.offset(Graph.__dict__["layout"]) if objects.ARE_KNOWN else 0

_RESULT, _KEY, _START, _STOP, _STEP = (8 * i for i in range(1, 6))
_OFFSET, _NUM_NBYTES, _SIZE, _NBYTES, _GAPS, _ODD = (8 * i for i in range(6, 12))
_END, _ALL, _INJECTIVE, _LENGTHS = 96, 104, 112, 120
_STEPS = _LENGTHS + 8 * _MOST_AXES
_MADE = _PLACE, _NEW_SHAPE, _NEW_STRIDES, _NEW, _LOCATED = tuple(_STEPS + 8 * (_MOST_AXES + i) for i in range(5))
_GIVEN = 16
_ROOM = _LOCATED + 8 + (_LOCATED + 8 + 8) % 16
"""Where on the stack there is what, see `_PartCode`; an odd number of words."""


class _PartCode(Function):
    """What finds or makes the part of a layout, in `rbx`, that a key in `rbp` selects, as `Layout.parts` has it.

    It returns a new reference to that, or 0 where Python is to be asked. Nothing is called that runs Python's code but
    for what the garbage collector does.

    On the stack lie, of the axis at hand, the numbers of the slice and the stride; of the part, its offset, its size,
    whether there are gaps between its elements, what of it is no multiple of an element's size, and for each of its
    axes the length and the stride; how far the axes go that the key is of, all axes and those of the part, in words of
    8 bytes; and what has been made so far, to be given back at the end.
    """

    def end_asked(self) -> None:
        """Return what is in `r14`, or 0, once what has been made is given back."""
        code = self.code
        code.label("failed")
        code.call(objects.address("PyErr_Clear"))
        code.label("general")
        code.set("r14", 0)
        code.label("found")
        for place in _MADE:
            is_none = self.new_label()
            code.load("r12", "rsp", place)
            code.compare_number("r12", 0)
            code.jump(is_none, "e")
            self.drop("r12")
            code.label(is_none)
        code.move("rax", "r14")
        self._leave()
        code.ret()

    def require_made(self) -> None:
        """Leave it to Python where there was no memory for what `rax` should have."""
        self.code.compare_number("rax", 0)
        self.code.jump("failed", "e")

    def require_done(self) -> None:
        """Leave it to Python where a function that returns 0 or -1, of 32 bits, has failed."""
        self.code.store("rsp", _RESULT, "rax")
        self.code.test_with("rsp", _RESULT, 1)
        self.code.jump("failed", "ne")

    def load_integer(self, target: str, integer: str) -> None:
        """Let a register have the value of an object that is to be an integer of one digit."""
        self.unless_type(integer, int, "general")
        load_small(self, target, integer, "general")

    def begin_axes(self) -> None:
        """Let `r13` have where the parts of the key lie, and `r12` and `r15` that there is none yet, of it and of axes.

        Goes to the end unless there are axes for all, and few.
        """
        code = self.code
        code.set("rax", 0)
        for place in _MADE:
            code.store("rsp", place, "rax")
        self.unless_type("rbp", tuple, "single")
        code.move("r13", "rbp")
        code.add("r13", TUPLE_ITEMS)
        code.load("rax", "rbp", SIZE)
        code.jump("keys")
        code.label("single")
        code.store("rsp", _KEY, "rbp")
        code.move("r13", "rsp")
        code.add("r13", _KEY)
        code.set("rax", 1)
        code.label("keys")
        code.load("rcx", "rbx", _AT["shape"])
        code.load("rcx", "rcx", SIZE)
        code.compare_number("rax", 0)
        code.jump("general", "e")
        code.compare_number("rcx", _MOST_AXES)
        code.jump("general", "g")
        code.compare("rax", "rcx")
        code.jump("general", "g")
        for register, place in (("rax", _END), ("rcx", _ALL)):
            for _ in range(3):
                code.add_register(register, register)
            code.store("rsp", place, register)
        code.load("r12", "rbx", _AT["offset"])
        _load_number(self, "r12", "general")
        code.store("rsp", _OFFSET, "rax")
        code.set("rcx", _MOST_OFFSET)
        code.compare("rax", "rcx")
        code.jump("general", "a")  # or negative
        code.set("r12", 0)
        code.set("r15", 0)

    def load_axis(self) -> None:
        """Let `r8` and `r9` have the length and the stride of the axis that `r12` says."""
        code = self.code
        for name, register in (("shape", "r8"), ("strides", "r9")):
            code.load("rdx", "rbx", _AT[name])
            code.add_register("rdx", "r12")
            code.load("rdi", "rdx", TUPLE_ITEMS)
            self.load_integer(register, "rdi")

    def add_axis(self, length: str, step: str) -> None:
        """Let the part have one axis more."""
        code = self.code
        code.move("rcx", "rsp")
        code.add_register("rcx", "r15")
        code.store("rcx", _LENGTHS, length)
        code.store("rcx", _STEPS, step)
        code.add("r15", 8)

    def add_offset(self, start: str, step: str) -> None:
        """Let the part begin so many strides further on; the first register changes."""
        code = self.code
        code.multiply_by(start, step)
        code.add_from(start, "rsp", _OFFSET)
        code.store("rsp", _OFFSET, start)

    def select_axes(self) -> None:
        """Go through the key; then ``selected`` comes."""
        code, is_positive = self.code, self.new_label()
        code.label("next axis")
        code.compare_with("rsp", _END, "r12")
        code.jump("selected", "e")
        self.load_axis()
        code.move("rdx", "r13")
        code.add_register("rdx", "r12")
        code.load("rdi", "rdx")
        code.add("r12", 8)
        self.unless_type("rdi", int, "slice")
        load_small(self, "r10", "rdi", "general")
        code.compare_number("r10", 0)
        code.jump(is_positive, "ge")
        code.add_register("r10", "r8")
        code.compare_number("r10", 0)
        code.jump("general", "l")
        code.label(is_positive)
        code.compare("r10", "r8")
        code.jump("general", "ge")
        code.store("rsp", _START, "r10")
        self.add_offset("r10", "r9")
        code.jump("next axis")
        self.select_by_slice()
        code.jump("next axis")
        code.label("selected")

    def select_by_slice(self) -> None:
        """Lay out ``slice``: let the part have the axis that `r8` and `r9` say, as the slice in `rdi` has it."""
        code, is_counted, has_elements = self.code, self.new_label(), self.new_label()
        code.label("slice")
        self.unless_type("rdi", slice, "general")
        code.store("rsp", _STEP, "r9")
        code.set("r14", 1)
        code.load("rsi", "rdi", SLICE_STEP)
        code.set("rcx", NONE)
        code.compare("rsi", "rcx")
        code.jump(is_counted, "e")
        self.load_integer("r14", "rsi")
        code.compare_number("r14", 0)
        code.jump("general", "e")
        code.label(is_counted)
        self._load_bound(SLICE_START, _START, forward=0, backward=_HIGHEST)
        self._load_bound(SLICE_STOP, _STOP, forward=_HIGHEST, backward=_LOWEST)
        code.move("rdi", "r8")
        for register, place in (("rsi", _START), ("rdx", _STOP)):
            code.move(register, "rsp")
            code.add(register, place)
        code.move("rcx", "r14")
        code.call(objects.address("PySlice_AdjustIndices"))
        code.load("rsi", "rsp", _START)
        code.compare_number("rax", 0)
        code.jump(has_elements, "ne")
        code.set("rsi", 0)
        code.set("r14", 1)
        code.label(has_elements)
        code.load("rdx", "rsp", _STEP)
        self.add_offset("rsi", "rdx")
        code.multiply_by("rdx", "r14")
        self.add_axis("rax", "rdx")

    def _load_bound(self, at: int, place: int, *, forward: int, backward: int) -> None:
        """Keep a bound of the slice in `rdi`, or what None means by the sign of its step, in `r14`."""
        code, is_none, is_loaded = self.code, self.new_label(), self.new_label()
        code.load("rsi", "rdi", at)
        code.set("rcx", NONE)
        code.compare("rsi", "rcx")
        code.jump(is_none, "e")
        self.load_integer("rdx", "rsi")
        code.jump(is_loaded)
        code.label(is_none)
        code.set("rdx", forward)
        code.compare_number("r14", 0)
        code.jump(is_loaded, "g")
        code.set("rdx", backward)
        code.label(is_loaded)
        code.store("rsp", place, "rdx")

    def make_integer(self, source: str | int) -> None:
        """Let `rax` have a new integer, of a register or of what lies on the stack."""
        if isinstance(source, str):
            self.code.move("rdi", source)
        else:
            self.code.load("rdi", "rsp", source)
        self.code.call(objects.address("PyLong_FromSsize_t"))
        self.require_made()

    def make_tuple(self, place: int, count: int = 0) -> None:
        """Let `r14` have a new tuple of so many items, or of as many as the part has axes if not said."""
        code = self.code
        if count:
            code.set("rdi", count)
        else:
            code.move("rdi", "r15")
            for _ in range(3):
                code.halve("rdi")
        code.call(objects.address("PyTuple_New"))
        self.require_made()
        code.store("rsp", place, "rax")
        code.move("r14", "rax")

    def fill_tuple(self, numbers: int) -> None:
        """Let items from `r13` on be the numbers on the stack, as many as the part has axes."""
        code, again, done = self.code, self.new_label(), self.new_label()
        code.set("r12", 0)
        code.label(again)
        code.compare("r12", "r15")
        code.jump(done, "e")
        code.move("rcx", "rsp")
        code.add_register("rcx", "r12")
        code.load("rdi", "rcx", numbers)
        self.make_integer("rdi")
        code.store("r13", TUPLE_ITEMS, "rax")
        for each in ("r12", "r13"):
            code.add(each, 8)
        code.jump(again)
        code.label(done)

    def make_place(self) -> None:
        """Let `r14` have that by which the layout keeps the part."""
        code = self.code
        self.unless_type("rbp", int, "by numbers")
        self.make_integer(_START)
        code.store("rsp", _PLACE, "rax")
        code.move("r14", "rax")
        code.jump("placed")
        code.label("by numbers")
        code.move("rdi", "r15")  # two numbers for each axis of 8 bytes
        code.halve("rdi")
        code.halve("rdi")
        code.add("rdi", 3)
        code.call(objects.address("PyTuple_New"))
        self.require_made()
        code.store("rsp", _PLACE, "rax")
        code.move("r14", "rax")
        code.set("r12", id(PART))
        code.store("r14", TUPLE_ITEMS, "r12")
        self.keep("r12")
        code.load("rdi", "rsp", _END)
        for _ in range(3):
            code.halve("rdi")
        self.make_integer("rdi")
        code.store("r14", TUPLE_ITEMS + 8, "rax")
        self.make_integer(_OFFSET)
        code.store("r14", TUPLE_ITEMS + 16, "rax")
        code.move("r13", "r14")
        code.add("r13", 24)
        self.fill_tuple(_LENGTHS)
        self.fill_tuple(_STEPS)
        code.label("placed")

    def look_up(self) -> None:
        """Go to ``found`` with the part that is kept by what `r14` has; leave it to Python where there is no room."""
        code = self.code
        code.load("r12", "rbx", _AT["parts"])
        code.set("rcx", NONE)
        code.compare("r12", "rcx")
        code.jump("new", "e")
        self.unless_type("r12", dict, "general")
        self.call("PyDict_GetItem", "r12", "r14")
        code.compare_number("rax", 0)
        code.jump("unknown", "e")
        code.move("r14", "rax")
        self.keep("r14")
        code.jump("found")
        code.label("unknown")
        code.test_with("r12", SIZE, MAX_NESTED_PARTS - 1)
        code.jump("general", "e")
        code.label("new")

    def load_injective(self) -> None:
        """Note what the part is to know of whether its elements overlap; leave it to Python to find out."""
        code, is_known = self.code, self.new_label()
        code.load("rax", "rbx", _AT["_injective"])
        code.set("rcx", id(True))
        code.compare("rax", "rcx")
        code.jump(is_known, "e")
        code.set("rcx", id(False))
        code.compare("rax", "rcx")
        code.jump("general", "ne")
        code.set("rax", NONE)
        code.label(is_known)
        code.store("rsp", _INJECTIVE, "rax")

    def measure_part(self) -> None:
        """Find out what there is to know of the part by its numbers, once it has the axes that the key is not of.

        `r13` has the bytes of an element.
        """
        code = self.code
        code.load("r12", "rsp", _END)
        code.label("next rest")
        code.compare_with("rsp", _ALL, "r12")
        code.jump("no rest", "e")
        self.load_axis()
        self.add_axis("r8", "r9")
        code.add("r12", 8)
        code.jump("next rest")
        code.label("no rest")
        code.store("rsp", _NUM_NBYTES, "r15")
        code.load("rcx", "rbx", _AT["dtype"])
        code.load("r13", "rcx", DTYPE_ITEMSIZE)
        code.compare_number("r13", 1)
        code.jump("general", "l")
        code.compare_number("r13", _MOST_ITEMSIZE)
        code.jump("general", "g")
        code.move("r10", "r13")
        code.add("r10", -1)
        code.move("rax", "r10")
        code.and_register("rax", "r13")
        code.compare_number("rax", 0)
        code.jump("general", "ne")
        self._measure_axes()
        code.store("rsp", _SIZE, "rdi")
        code.multiply_by("rdi", "r13")
        code.store("rsp", _NBYTES, "rdi")
        code.store("rsp", _GAPS, "r9")
        code.and_register("r8", "r10")
        code.store("rsp", _ODD, "r8")

    def _measure_axes(self) -> None:
        """Let `rdi` have the size of the part, `r9` whether there are gaps, and `r8` all bits of offset and strides."""
        code, again, is_dense, done, has_elements = self.code, *(self.new_label() for _ in range(4))
        code.set("rdi", 1)
        code.move("rsi", "r13")  # the stride without gaps
        code.load("r8", "rsp", _OFFSET)
        code.set("r9", 0)
        code.set("r11", _MOST_SIZE)
        code.move("r12", "r15")
        code.label(again)
        code.compare("rdi", "r11")
        code.jump("general", "g")
        code.compare_number("r12", 0)
        code.jump(done, "e")
        code.add("r12", -8)
        code.move("rcx", "rsp")
        code.add_register("rcx", "r12")
        code.load("rax", "rcx", _LENGTHS)
        code.load("rdx", "rcx", _STEPS)
        code.or_register("r8", "rdx")
        code.multiply_by("rdi", "rax")
        code.compare_number("rax", 1)
        code.jump(is_dense, "e")
        code.compare("rdx", "rsi")
        code.jump(is_dense, "e")
        code.set("r9", 1)
        code.label(is_dense)
        code.multiply_by("rsi", "rax")
        code.jump(again)
        code.label(done)
        code.compare_number("rdi", 0)
        code.jump(has_elements, "ne")
        code.set("r9", 0)
        code.label(has_elements)

    def make_part(self) -> None:
        """Let `r14` have the part's layout, with all its attributes."""
        code = self.code
        for place, numbers in ((_NEW_SHAPE, _LENGTHS), (_NEW_STRIDES, _STEPS)):
            self.make_tuple(place)
            code.move("rbp", "r13")  # the key has done its work
            code.move("r13", "r14")
            self.fill_tuple(numbers)
            code.move("r13", "rbp")
        code.set("rdi", id(Layout))
        code.set("rsi", 0)
        code.call(objects.slot(Layout, "alloc").value)
        self.require_made()
        code.store("rsp", _NEW, "rax")
        code.move("r14", "rax")
        for name, source in (("offset", _OFFSET), ("size", _SIZE), ("nbytes", _NBYTES)):
            self.make_integer(source)
            code.store("r14", _AT[name], "rax")
        for name, place in (("shape", _NEW_SHAPE), ("strides", _NEW_STRIDES)):
            self.hand_over(place, _AT[name])
        code.move("rdi", "r15")
        for _ in range(3):
            code.halve("rdi")
        self.make_integer("rdi")
        code.store("r14", _AT["ndim"], "rax")
        self._put_alignment()
        code.load("r12", "rbx", _AT["dtype"])
        self.put("r14", _AT["dtype"], "r12")
        for name, place in (("is_contiguous", _GAPS), ("is_aligned", _ODD)):
            self._put_truth(name, place)
        for name in ("graph", "parts", "read", "_extent", "_form", "_ghost"):
            self.put("r14", _AT[name], NONE)
        self.put("r14", _AT["met"], id(0))
        code.load("r12", "rsp", _INJECTIVE)
        self.put("r14", _AT["_injective"], "r12")
        self._put_dense()

    def hand_over(self, place: int, at: int) -> None:
        """Let the object in `r14` have what lies on the stack."""
        self.code.load("rax", "rsp", place)
        self.code.store("r14", at, "rax")
        self.code.set("rax", 0)
        self.code.store("rsp", place, "rax")

    def _put_alignment(self) -> None:
        code, is_far, is_known = self.code, self.new_label(), self.new_label()
        code.load("rdi", "rsp", _OFFSET)
        code.move("rax", "rdi")
        code.negate("rax")
        code.and_register("rdi", "rax")
        code.compare_number("rdi", 0)
        code.jump(is_far, "e")
        code.compare_number("rdi", _MOST_ALIGNED)
        code.jump(is_known, "l")
        code.label(is_far)
        code.set("rdi", _MOST_ALIGNED)
        code.label(is_known)
        self.make_integer("rdi")
        code.store("r14", _AT["alignment"], "rax")

    def _put_truth(self, name: str, place: int) -> None:
        """Let an attribute of the part be whether there is 0 on the stack."""
        code, is_true = self.code, self.new_label()
        code.set("r12", id(True))
        code.compare_number_with("rsp", place, 0)
        code.jump(is_true, "e")
        code.set("r12", id(False))
        code.label(is_true)
        self.put("r14", _AT[name], "r12")

    def _put_dense(self) -> None:
        """Let a vector at the beginning without gaps know that it is dense."""
        code, is_found, is_unknown = self.code, self.new_label(), self.new_label()
        code.compare_number_with("rsp", _NUM_NBYTES, 8)
        code.jump(is_unknown, "ne")
        for place, condition in ((_OFFSET, "ne"), (_LENGTHS, "e")):
            code.compare_number_with("rsp", place, 0)
            code.jump(is_unknown, condition)
        code.compare_with("rsp", _STEPS, "r13")
        code.jump(is_unknown, "ne")
        code.move("r12", "r14")
        code.jump(is_found)
        code.label(is_unknown)
        code.set("r12", NONE)
        code.label(is_found)
        self.put("r14", _AT["_dense"], "r12")

    def keep_part(self) -> None:
        """Let `r14` have what the layout keeps of the part in it, from now on."""
        code, has_parts, is_element, is_first = self.code, *(self.new_label() for _ in range(3))
        self.make_tuple(_LOCATED, 2)
        self.hand_over(_NEW, TUPLE_ITEMS)
        code.set("r12", id(True))
        code.compare_number_with("rsp", _NUM_NBYTES, 0)
        code.jump(is_element, "e")
        code.set("r12", id(False))
        code.label(is_element)
        self.put("r14", TUPLE_ITEMS + 8, "r12")
        code.load("r12", "rbx", _AT["parts"])
        code.set("rcx", NONE)
        code.compare("r12", "rcx")
        code.jump(has_parts, "ne")
        code.call(objects.address("PyDict_New"))
        self.require_made()
        code.move("r12", "rax")
        code.set("rcx", NONE)
        code.compare_with("rbx", _AT["parts"], "rcx")
        code.jump(is_first, "e")
        self.drop("r12")  # a finaliser, which allocating may call, has asked for a part
        code.jump("general")
        code.label(is_first)
        code.store("rbx", _AT["parts"], "r12")
        code.set("r13", NONE)
        self.drop("r13")
        code.label(has_parts)
        self.unless_type("r12", dict, "general")
        code.load("r13", "rsp", _PLACE)
        self.call("PyDict_SetItem", "r12", "r13", "r14")
        self.require_done()
        code.set("rax", 0)
        code.store("rsp", _LOCATED, "rax")
        code.jump("found")


@functools.cache
def _address(kind: type) -> int:
    """Return where the code lies that `_PartCode` describes; 0 if the system forbids that."""
    code = _PartCode(kind, None, _ROOM)
    code.begin()
    code.begin_axes()
    code.select_axes()
    code.make_place()
    code.look_up()
    code.load_injective()
    code.measure_part()
    code.make_part()
    code.keep_part()
    code.end_asked()
    return code.address()


def part_of(kind: type, before: int | None) -> bytes:
    """Return the code of a call of the function `memory.parts.part_of`."""
    call = Call(kind, before)
    code, address = call.code, _address(kind)
    call.begin_call(2)
    code.label("2 arguments")
    if not address:
        code.jump("general")
    code.load("rdi", "rbp", 0)
    code.load("rsi", "rbp", 8)
    call.unless_type("rdi", Layout, "general")
    code.call(address)
    code.compare_number("rax", 0)
    code.jump("general", "e")
    call.end_call()
    return code.assembled()


def require_on_device(function: Function) -> None:
    """Let `r13` have the storage of the array in `rbx`; go to the general function unless it has no host side."""
    code = function.code
    code.load("r13", "rbx", HELD)
    code.compare_number("r13", 0)
    code.jump("general", "e")
    function.unless_type("r13", Storage, "general")
    code.set("rcx", NONE)
    code.compare_with("r13", STORED_HOST, "rcx")
    code.jump("general", "ne")


def call_python(function: Function, python: object, *operands: str) -> None:
    """Let `rax` have what a function in Python returns for what registers have, at most three of them.

    It is what the method calls that the slot is for, of arrays on the device only, and nothing else.
    """
    code = function.code
    for i, each in enumerate(operands):
        code.store("rsp", _GIVEN + 8 * i, each)
    code.set("rdi", id(python))
    code.move("rsi", "rsp")
    code.add("rsi", _GIVEN)
    code.set("rdx", len(operands))
    code.set("rcx", 0)
    code.call(objects.address("PyObject_Vectorcall"))


def return_device_part(function: Function, label: str) -> None:
    """Lay out a label: return the part that a key, in `rbp`, selects of an array, in `rbx`, that is on the device only.

    A view is made of one that is large enough for nobody to ask where it had better be, see `wants_mirror`.
    """
    code, address = function.code, _address(function.kind)
    code.label(label)
    if not address:
        code.jump("general")
    require_on_device(function)
    code.load("r12", "rbx", KNOWN)
    code.compare_number("r12", 0)
    code.jump("general", "e")
    function.unless_type("r12", Layout, "general")
    function.require_writable("rbx")
    for register in ("r12", "r13"):
        function.keep(register)
    function.call(address, "r12", "rbp")
    code.move("r14", "rax")
    function.drop("r12")
    code.compare_number("r14", 0)
    code.jump("no part", "e")
    code.load("r12", "r14", TUPLE_ITEMS)
    function.keep("r12")
    code.load("r15", "r14", TUPLE_ITEMS + 8)
    function.drop("r14")
    code.move("r14", "r12")
    code.set("rcx", id(False))
    code.compare("r15", "rcx")
    code.jump("one element", "ne")
    _require_more(function, _AT["nbytes"], SMALL_NBYTES, "small part")
    _require_unasked(function, "asked")
    code.label("unasked")
    _return_view(function)
    _count_small(function)
    _return_element(function)
    code.label("asked")
    function.drop("r14")
    code.label("no part")
    function.drop("r13")
    call_python(function, getitem, "rbx", "rbp")
    code.jump("return")


def _count_small(function: Function) -> None:
    """Lay out ``small part``: go to ``unasked`` where it is only to be counted, as `reading` does."""
    code, address = function.code, reading.counting_address(function.kind)
    code.label("small part")
    if address:
        code.load("r12", "r14", _AT["nbytes"])
        function.call(address, "r13", "r12")
        code.compare_number("rax", 0)
        code.jump("unasked", "ne")
    code.jump("asked")


def _return_element(function: Function) -> None:
    """Lay out ``one element``: return that of the layout in `r14` by the code that `reading` describes, or go on."""
    code, is_read, address = function.code, function.new_label(), reading.address_of(function.kind)
    code.label("one element")
    if not address:
        return
    function.call(address, "rbx", "r14")
    code.move("r15", "rax")
    code.compare_number("r15", 0)
    code.jump(is_read, "ne")
    code.call(objects.address("PyErr_Occurred"))
    code.compare_number("rax", 0)
    code.jump("asked", "e")
    code.label(is_read)
    for register in ("r14", "r13"):
        function.drop(register)
    code.move("rax", "r15")
    code.jump("return")


def write_device_part(function: Function, label: str) -> None:
    """Lay out a label: write what is in `r14` to what a key selects of an array that is on the device only."""
    code, failed, address = function.code, function.new_label(), address_of(function.kind, _address(function.kind))
    code.label(label)
    if address:
        _write_straight(function, address, failed)
    require_on_device(function)
    call_python(function, setitem, "rbx", "rbp", "r14")
    code.compare_number("rax", 0)
    code.jump(failed, "e")
    code.move("r12", "rax")
    function.drop("r12")
    code.label("written")
    code.set("rax", 0)
    code.jump("return")
    code.label(failed)
    code.set("rax", 2**64 - 1)
    code.jump("return")


def _write_straight(function: Function, address: int, failed: str) -> None:
    """Write by the code that `assigning` describes, twice where the value is computed first, not all rewritten."""
    code, is_left = function.code, function.new_label()
    for is_computed in (False, True):
        function.call(address, "rbx", "rbp", "r14")
        code.compare_number("rax", 0)
        code.jump(is_left, "e")
        code.set("rcx", NONE)
        code.compare("rax", "rcx")
        code.jump("written", "e")
        if not is_computed:
            call_python(function, rewriting.assign, "rbx", "rbp", "r14")
            code.compare_number("rax", 0)
            code.jump(failed, "e")
            code.set("rcx", id(True))  # neither is counted
            code.compare("rax", "rcx")
            code.jump("written", "e")
            code.load("r12", "r14", HELD)
            call_python(function, materialise, "r12")
            code.compare_number("rax", 0)
            code.jump(failed, "e")
            code.move("r12", "rax")
            function.drop("r12")
    code.label(is_left)
    code.call(objects.address("PyErr_Occurred"))
    code.compare_number("rax", 0)
    code.jump(failed, "ne")


def _require_more(function: Function, at: int, number: int, label: str) -> None:
    """Go to a label where an attribute of what `r14` has, an integer that is not negative, is at most a number."""
    code, is_more = function.code, function.new_label()
    code.load("rdi", "r14", at)
    function.unless_type("rdi", int, label)
    code.compare_number_with("rdi", INT_TAG, ZERO)
    code.jump(label, "e")
    code.compare_number_with("rdi", INT_TAG, POSITIVE)
    code.jump(is_more, "ne")
    code.load_int("rax", "rdi", INT_DIGIT)
    code.compare_number("rax", number)
    code.jump(label, "le")
    code.label(is_more)


def _require_unasked(function: Function, label: str) -> None:
    """Go to a label where it is to be asked whether the storage in `r13` had better be on the host.

    Of accesses to a large one that were counted nothing is left after this.
    """
    code, is_unasked, has_failed, is_known = function.code, *(function.new_label() for _ in range(3))
    code.set("rax", id(accesses))
    code.compare_number_with("rax", SIZE, 0)
    code.jump(is_unasked, "e")
    code.load("r12", "r13", VALUE)
    for kind, at in ((tuple, TUPLE_ITEMS), (Graph, _GRAPH_LAYOUT), (Layout, _AT["nbytes"])):
        function.unless_type("r12", kind, label)
        code.load("r12", "r12", at)
    _load_number(function, "r12", label)
    code.move("r15", "rax")
    code.set("r12", id(balance))
    code.load("r12", "r12", LIMIT)
    _load_number(function, "r12", label)
    code.compare("r15", "rax")
    code.jump(label, "l")
    code.move("rdi", "r13")
    code.set("rsi", 0)
    code.call(objects.address("PyWeakref_NewRef"))
    code.move("r12", "rax")
    code.compare_number("r12", 0)
    code.jump(has_failed, "e")
    code.set("r15", id(accesses))
    function.call("PyDict_Contains", "r15", "r12")
    code.store("rsp", _RESULT, "rax")
    code.load_int("rax", "rsp", _RESULT)
    code.compare_number("rax", 1)
    code.jump(is_known, "ne")
    function.call("PyDict_DelItem", "r15", "r12")
    code.store("rsp", _RESULT, "rax")
    code.label(is_known)
    function.drop("r12")
    code.load_int("rax", "rsp", _RESULT)
    code.compare_number("rax", 0)
    code.jump(is_unasked, "e")
    code.label(has_failed)
    code.call(objects.address("PyErr_Clear"))
    code.jump(label)
    code.label(is_unasked)


def _load_number(function: Function, integer: str, label: str) -> None:
    """Let `rax` have the value of an object that is to be an integer of 64 bits."""
    code = function.code
    function.unless_type(integer, int, label)
    code.move("rdi", integer)
    code.move("rsi", "rsp")
    code.add("rsi", _RESULT)
    code.call(objects.address("PyLong_AsLongAndOverflow"))
    code.test_with("rsp", _RESULT, 1)
    code.jump(label, "ne")


def _return_view(function: Function) -> None:
    """Return the view of the array in `rbx` whose storage and layout are in `r13` and `r14`, and handed over."""
    code, is_made, is_whole = function.code, function.new_label(), function.new_label()
    code.set("rdi", id(function.kind))
    code.set("rsi", 0)
    code.set("rax", objects.place(function.kind, "alloc"))
    code.load("rax", "rax")
    code.call_register("rax")
    code.move("r12", "rax")
    code.compare_number("r12", 0)
    code.jump(is_made, "ne")
    for register in ("r13", "r14"):
        function.drop(register)
    code.set("rax", 0)
    code.jump("return")
    code.label(is_made)
    code.store("r12", HELD, "r13")
    code.store("r12", KNOWN, "r14")
    for at in (HOST, SEEN):
        function.put("r12", at, NONE)
    function.put("r12", AT, "rbp")
    code.load("r13", "rbx", VIEW)
    code.set("rcx", NONE)
    code.compare("r13", "rcx")
    code.jump(is_whole, "ne")
    code.move("r13", "rbx")
    code.label(is_whole)
    function.put("r12", VIEW, "r13")
    code.move("rax", "r12")
    code.jump("return")


__all__ = ["part_of", "return_device_part", "write_device_part"]

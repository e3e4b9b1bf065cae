"""What the slots of `ndarray` do where an array is small and on the host: what the texts of `inlining` do, as code.

Each function does what it is sure of, and goes on in the slot's C function of before for everything else, which calls
the method that Python wrote: so these functions leave something out, and never do it another way. What they are sure
of is told by the attributes that those texts look at: `_seen` is valid where nothing is stored or the storage's host
side is `_host`; `FEW` marks small ones.

NumPy's own functions are called in the user's frame, so that what they warn of or raise names the user's line.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import numpy as np

from oxinp._core.lazy.balance import HEAVY as HEAVY_WEIGHT
from oxinp._core.lazy.balance import RECORDED, SAMPLED, balance
from oxinp._core.lazy.explain import REPORTS
from oxinp._core.lazy.handle import Handle, end_writing
from oxinp._core.lazy.inlining import ALL_FEW, HEAVY, MOST_FEW
from oxinp._core.lazy.placement import MAX_WORK
from oxinp._core.memory.storage import WRITING, Storage, drop_copy
from oxinp._core.native import objects
from oxinp._core.native.frame import Frame
from oxinp._core.native.objects import (
    ARRAY_DTYPE,
    ARRAY_NDIM,
    ARRAY_SHAPE,
    DTYPE_ITEMSIZE,
    INT_DIGIT,
    INT_TAG,
    POSITIVE,
    SIZE,
    TUPLE_ITEMS,
    TYPE,
)

AT, HELD, HOST, KNOWN, SEEN, VIEW = (
    (objects.offset(getattr(Handle, name)) for name in ("_at", "_held", "_host", "_known", "_seen", "_view"))
    if objects.ARE_KNOWN
    else (0,) * 6
)
STORED_HOST, STALE, VALUE, HAS_OBJECTS = (
    (objects.offset(getattr(Storage, name)) for name in ("host", "stale", "value", "has_objects"))
    if objects.ARE_KNOWN
    else (0,) * 4
)
FLOAT64 = np.dtype(np.float64)
NONE, ELLIPSIS = id(None), id(...)
MIDDLING = (
    *(np.float64, np.int64, np.float32, np.int32, np.bool_),
    *(np.uint8, np.int8, np.int16, np.uint16, np.uint32, np.uint64),
)
"""Types of elements of arrays that are the host's although they are not small: what these make has 8 bytes at most."""
WIDE = np.complex128, np.complex64
"""Those of elements which may be so, too, and may make some of 16 bytes; each counts twice."""

_USUAL = MOST_FEW * HEAVY  # the threshold
MOST_LIGHT, MOST_WORK = _USUAL // 8, 2 * MAX_WORK * _USUAL
"""Elements of 8 bytes, and what they cost together, that are too many to be light, see `is_light`."""
MOST_WRITTEN = 500
"""Elements up to which NumPy keeps Python's lock while it writes, so that no other thread sees anything between."""
cells = (ctypes.c_int64 * 5)(0, 0, SAMPLED, 0, SAMPLED)
"""What changes while programs run.

`FEW`, how many elements are too many for that, views until one is weighed, how many elements of 8 bytes are no longer
the host's by their bytes alone, and operations on arrays that are its by what has been learned until one is weighed.
"""
FEW, MOST, COUNT, MIDDLE, LEARNED = 0, 8, 16, 24, 32
LIMIT, PERIOD = (
    objects.offset(type(balance).__dict__[name]) if objects.ARE_KNOWN else 0 for name in ("limit", "period")
)


LIGHT = 16
"""What an element of 16 bytes costs, of operations that do no more than move it, see `reach_of`."""
_MOST_SAMPLED = 4 * _USUAL // 8
"""Elements of 8 bytes from which on an operation that may be the host's counts as several, until one is weighed."""
_COUNTED = 8
_WEIGHERS: dict[tuple[float, float], Any] = {}  # what weighs, by weight and price, see `Balance.takes`


def _weigh(weight: float, price: float, nbytes: int) -> None:
    balance.takes(nbytes, weight, price, SAMPLED if nbytes < 8 * _MOST_SAMPLED else SAMPLED / _COUNTED)


def _most_light(reach: int) -> int:
    """Return how many words are too many to be the host's wherever larger arrays belong, see `is_light`.

    That is so of the usual threshold.
    """
    return min(MOST_LIGHT, -(-MOST_WORK // reach))


_TAKEN = 16
"""Where on the stack there is what has been raised, until it is raised again."""


class Function(Frame):
    """What functions ask of arrays and storages, and what they make of results."""

    def load_seen(self, target: str, handle: str, *, storage: str, label: str = "general") -> None:
        """Let registers have an array's view on the host and its storage or None; go to a label if it is not valid."""
        code, is_valid = self.code, self.new_label()
        code.load(target, handle, SEEN)
        code.set("rcx", NONE)
        code.compare(target, "rcx")
        code.jump(label, "e")
        code.compare_number(target, 0)
        code.jump(label, "e")
        code.load(storage, handle, HELD)
        code.compare(storage, "rcx")
        code.jump(is_valid, "e")
        code.compare_number(storage, 0)
        code.jump(label, "e")
        code.load("rax", storage, STORED_HOST)
        code.compare_with(handle, HOST, "rax")
        code.jump(label, "ne")
        code.label(is_valid)

    def end_with_bringing(self, bring: Callable[..., bool], *operands: str, label: str = "general") -> None:
        """Lay out ``elsewhere``: what is not on the host is fetched if it belongs there, and all begins at ``start``.

        Operands are in registers, or in a tuple in `rbp` if none are given. The label is where to go where nothing that
        is on the device belongs to the host.
        """
        code, is_called = self.code, self.new_label()
        code.label("elsewhere")
        code.set("rax", id(balance))
        code.load("rax", "rax", LIMIT)
        code.set("rcx", id(0))
        code.compare("rax", "rcx")
        code.jump(label, "e")
        self.unless_reported()
        for place, each in enumerate(operands):
            code.store("rsp", 8 + 8 * place, each)
        code.set("rdi", id(bring))
        if operands:
            code.move("rsi", "rsp")
            code.add("rsi", 8)
            code.set("rdx", len(operands))
            code.set("rcx", 0)
            code.call(objects.address("PyObject_Vectorcall"))
        else:
            code.move("rsi", "rbp")
            code.set("rdx", 0)
            code.call(objects.address("PyObject_Call"))
        code.move("r15", "rax")
        code.compare_number("rax", 0)
        code.jump(is_called, "ne")
        code.call(objects.address("PyErr_Clear"))
        code.jump("general")  # where it is raised again
        code.label(is_called)
        self.drop("r15")
        code.set("rcx", id(True))
        code.compare("r15", "rcx")
        code.jump("start", "e")
        code.jump("general")

    def load_few(self, target: str) -> None:
        """Let a register have what marks small arrays."""
        self.code.set("rax", ctypes.addressof(cells))
        self.code.load(target, "rax", FEW)

    def unless_few(self, handle: str, label: str) -> None:
        """Go to a label where an array is not known to be small."""
        self.load_few("rcx")
        self.code.compare_with(handle, KNOWN, "rcx")
        self.code.jump(label, "ne")

    def require_few(self, handle: str, seen: str, label: str = "general") -> None:
        """Go to a label unless an array is small, by its view on the host; mark it where nothing is known.

        Matrices that broadcast, with an axis of length 1, do not count, for what two arrays make of each other has more
        elements than either only where one of them is such a matrix.
        """
        code, done, unmarked = self.code, self.new_label(), self.new_label()
        self.unless_few(handle, unmarked)
        code.jump(done)
        code.label(unmarked)
        self.unless_whole(seen, label)
        self.unless_smaller(seen, label)
        code.set("rcx", NONE)
        code.compare_with(handle, KNOWN, "rcx")
        code.jump(done, "ne")
        self.load_few("r15")
        code.store(handle, KNOWN, "r15")
        self.keep("r15")
        code.set("r15", NONE)
        self.drop("r15")
        code.label(done)

    def unless_whole(self, array: str, label: str) -> None:
        """Go to a label where an array of NumPy's of two dimensions or more broadcasts, with an axis of length 1."""
        code, again, done = self.code, self.new_label(), self.new_label()
        code.load_int("rcx", array, ARRAY_NDIM)
        code.load("rdx", array, ARRAY_SHAPE)
        code.compare_number("rcx", 2)
        code.jump(done, "l")
        code.label(again)
        code.compare_number_with("rdx", 0, 1)
        code.jump(label, "e")
        code.add("rdx", 8)
        code.add("rcx", -1)
        code.compare_number("rcx", 0)
        code.jump(again, "g")
        code.label(done)

    def require_small(self, handle: str, seen: str) -> None:
        """Go to the general function unless an array is small, though it may broadcast."""
        done, may_broadcast = self.new_label(), self.new_label()
        self.require_few(handle, seen, may_broadcast)
        self.code.jump(done)
        self.code.label(may_broadcast)
        self.unless_smaller(seen, "general")
        self.code.label(done)

    def require_host(self, handle: str, seen: str, *, is_learned: bool = False, share: int = 1) -> None:
        """Go to the general function unless an array is small, or below the threshold and of numbers.

        Above it arrays are taken that are the host's by what has been learned, where that is said: `count_learned` is
        to follow. `share` is how many times the threshold counts, a power of 2.
        """
        done, may_be_larger = self.new_label(), self.new_label()
        self.require_few(handle, seen, may_be_larger)
        self.code.jump(done)
        self.code.label(may_be_larger)
        self.require_elements(seen, (*MIDDLING, *WIDE))
        self.count_own(seen)
        if is_learned:
            self.require_reach(LIGHT)
        else:
            for _ in range(share.bit_length() - 1):
                self.code.halve("rax")
            self.require_below(MIDDLE, "rax")
        self.code.label(done)

    def require_reach(self, reach: int, label: str = "general", *, is_bounded: bool = True) -> None:
        """Go to a label where so many words as `rax` has, of 8 bytes, are not the host's by their bytes.

        They are below the threshold, or by what has been learned; `reach` is what elements of 16 bytes cost. Where it
        `is_bounded`, so many that the general function weighs each operation are left to that.
        """
        code, is_light = self.code, self.new_label()
        code.set("rcx", ctypes.addressof(cells))
        code.compare_number_with("rcx", MOST, 0)  # of thresholds that let more be the device's
        code.jump(label, "e")
        code.compare_number("rax", _most_light(reach))
        code.jump(is_light, "l")
        self.if_all_few(is_light)
        if reach >= 16 * HEAVY_WEIGHT:
            code.jump(label)
        self.require_learned(label, is_bounded=is_bounded)
        code.label(is_light)

    def require_learned(self, label: str = "general", *, is_bounded: bool = True) -> None:
        """Go to a label where so many words as `rax` has are not the host's by what has been learned."""
        code = self.code
        if is_bounded:
            code.compare_number("rax", _MOST_SAMPLED)
            code.jump(label, "ge")
        code.set("rdx", id(balance))
        code.load("rdx", "rdx", LIMIT)
        code.compare_number_with("rdx", INT_TAG, POSITIVE)
        code.jump(label, "ne")
        code.load_int("rdx", "rdx", INT_DIGIT)
        code.move("rcx", "rax")
        for _ in range(3):
            code.add_register("rcx", "rcx")
        code.compare("rcx", "rdx")
        code.jump(label, "ge")

    def count_learned(self, reach: int, again: str, weight: float | None = None, price: float = RECORDED) -> None:
        """Let one operation in so many on `rax` words be weighed that are the host's by what has been learned.

        Then go to a label where all begins again: other threads may have run. For `weight` and `price` see
        `Balance.takes`.
        """
        weights = reach / 16 if weight is None else weight, price
        code = self.code
        is_known, is_weighed, is_one, is_again_one = (self.new_label() for _ in range(4))
        code.compare_number("rax", _most_light(reach))
        code.jump(is_known, "l")
        self.if_all_few(is_known)
        code.set("rcx", ctypes.addressof(cells))
        code.load("rdx", "rcx", LEARNED)
        code.compare_number("rax", _MOST_SAMPLED)
        code.jump(is_one, "l")
        code.add("rdx", 1 - _COUNTED)
        code.label(is_one)
        code.add("rdx", -1)
        code.store("rcx", LEARNED, "rdx")
        code.compare_number("rdx", 0)
        code.jump(is_known, "g")
        code.add("rdx", SAMPLED + 1)  # and what is over, or a loop of three would have the same one weighed each time
        code.compare_number("rax", _MOST_SAMPLED)
        code.jump(is_again_one, "l")
        code.add("rdx", _COUNTED - 1)
        code.label(is_again_one)
        code.store("rcx", LEARNED, "rdx")
        code.move("rdi", "rax")
        for _ in range(3):
            code.add_register("rdi", "rdi")
        code.call(objects.address("PyLong_FromSsize_t"))
        code.compare_number("rax", 0)
        code.jump("general", "e")
        code.move("r12", "rax")
        code.set("rdi", id(_WEIGHERS.setdefault(weights, partial(_weigh, *weights))))
        code.move("rsi", "r12")
        code.call(objects.address("PyObject_CallOneArg"))
        code.move("r14", "rax")
        self.drop("r12")
        code.compare_number("r14", 0)
        code.jump(is_weighed, "ne")
        code.call(objects.address("PyErr_Clear"))
        code.jump("general")
        code.label(is_weighed)
        self.drop("r14")
        code.jump(again)
        code.label(is_known)

    def multiply_broadcast(self, one: str, other: str) -> None:
        """Let `rax` have the number of elements of what two arrays of NumPy's broadcast to, or more."""
        code, again = self.code, self.new_label()
        code.set("rax", 1)
        for array, count, end in ((one, "rcx", "rdx"), (other, "r8", "r9")):
            code.load_int(count, array, ARRAY_NDIM)
            code.move("r10", count)
            for _ in range(3):
                code.add_register("r10", "r10")
            code.load(end, array, ARRAY_SHAPE)
            code.add_register(end, "r10")
        code.label(again)
        code.set("r10", 1)
        code.set("r11", 1)
        for count, end, extent in (("rcx", "rdx", "r10"), ("r8", "r9", "r11")):
            is_over = self.new_label()
            code.compare_number(count, 0)
            code.jump(is_over, "e")
            code.add(count, -1)
            code.add(end, -8)
            code.load(extent, end)
            code.label(is_over)
        is_greater = self.new_label()
        code.compare("r10", "r11")
        code.jump(is_greater, "ge")
        code.move("r10", "r11")
        code.label(is_greater)
        code.multiply_by("rax", "r10")
        code.move("r10", "rcx")
        code.add_register("r10", "r8")
        code.compare_number("r10", 0)
        code.jump(again, "g")

    def unless_reported(self, label: str = "general") -> None:
        """Go to a label where somebody watches what is done."""
        self.code.set("rax", id(REPORTS))
        self.code.compare_number_with("rax", SIZE, 0)
        self.code.jump(label, "ne")

    def multiply_extents(self, array: str, *, but: int = 0) -> None:
        """Let `rax` have the number of elements of an array of NumPy's, or of one without so many of its last axes."""
        code, again, done = self.code, self.new_label(), self.new_label()
        code.set("rax", 1)
        code.load_int("rcx", array, ARRAY_NDIM)
        if but:
            code.add("rcx", -but)
        code.load("rdx", array, ARRAY_SHAPE)
        code.label(again)
        code.add("rcx", -1)
        code.jump(done, "s")
        code.multiply("rax", "rdx", 0)
        code.add("rdx", 8)
        code.jump(again)
        code.label(done)

    def count_words(self, *operands: str) -> None:
        """Let `rax`, the elements of what some arrays of NumPy's and numbers make, have words of 8 bytes, or more."""
        code, is_wide, done = self.code, self.new_label(), self.new_label()
        for operand in operands:
            is_array, is_narrow = self.new_label(), self.new_label()
            code.load("r8", operand, TYPE)
            self.if_one_of("r8", (np.ndarray,), is_array)
            self.if_one_of("r8", (complex, *WIDE), is_wide)
            code.jump(is_narrow)
            code.label(is_array)
            code.load("r8", operand, ARRAY_DTYPE)
            self.if_one_of("r8", [np.dtype(kind) for kind in WIDE], is_wide)
            code.label(is_narrow)
        code.jump(done)
        code.label(is_wide)
        code.add_register("rax", "rax")
        code.label(done)

    def count_own(self, array: str) -> None:
        """Let `rax` have how many words of 8 bytes the elements of an array of NumPy's take."""
        self.multiply_extents(array)
        self.code.load("rdx", array, ARRAY_DTYPE)
        self.code.multiply("rax", "rdx", DTYPE_ITEMSIZE)
        self.turn_into_words()

    def turn_into_words(self) -> None:
        """Let `rax`, a number of bytes, have words of 8 of them."""
        self.code.add("rax", 7)
        for _ in range(3):
            self.code.halve("rax")

    def unless_smaller(self, array: str, label: str, most: int | None = None) -> None:
        """Go to a label where an array of NumPy's has too many elements to be `FEW`, or at least a number of them."""
        code = self.code
        self.multiply_extents(array)
        if most is not None:
            code.compare_number("rax", most)
            code.jump(label, "ge")
        self.require_below(MOST, "rax", label)

    def require_middle(self, array: str, label: str = "general") -> None:
        """Go to a label where an array of NumPy's has more elements than are the host's by their bytes alone."""
        self.multiply_extents(array)
        self.require_below(MIDDLE, "rax", label)

    def if_all_few(self, label: str) -> None:
        """Go to a label where everything is the host's."""
        self.code.set("rcx", ctypes.addressof(cells))
        self.code.compare_number_with("rcx", MOST, ALL_FEW)
        self.code.jump(label, "e")

    def require_below(self, cell: int, count: str, label: str = "general") -> None:
        """Go to a label unless a number of elements is below one of those that change, `MOST` or `MIDDLE`."""
        self.code.set("rcx", ctypes.addressof(cells))
        self.code.compare_with("rcx", cell, count)
        self.code.jump(label, "le")

    def require_elements(self, array: str, kinds: Iterable[Any], label: str = "general") -> None:
        """Go to a label unless an array of NumPy's has elements of one of some types."""
        is_known = self.new_label()
        self.code.load("rax", array, ARRAY_DTYPE)
        self.if_one_of("rax", map(np.dtype, kinds), is_known)
        self.code.jump(label)
        self.code.label(is_known)

    def require_same_count(self, one: str, other: str, label: str) -> None:
        """Go to a label unless two arrays of NumPy's have as many elements, and those are of one dtype."""
        code = self.code
        code.load("rax", one, ARRAY_DTYPE)
        code.compare_with(other, ARRAY_DTYPE, "rax")
        code.jump(label, "ne")
        self.multiply_extents(one)
        code.move("r8", "rax")
        self.multiply_extents(other)
        code.compare("rax", "r8")
        code.jump(label, "ne")

    def make_handle(self, seen: str, target: str) -> None:
        """Let a register have a new array whose `_seen` takes over the reference; go to ``no handle`` if it fails."""
        code = self.code
        code.set("rdi", id(self.kind))
        code.set("rsi", 0)
        code.set("rax", objects.place(self.kind, "alloc"))
        code.load("rax", "rax")
        code.call_register("rax")
        code.compare_number("rax", 0)
        code.jump("no handle", "e")
        code.move(target, "rax")
        code.store(target, SEEN, seen)

    def put(self, handle: str, offset: int, value: str | int) -> None:
        """Set an attribute that has not been set, to what a register has or to an object by its address."""
        register = "r15"
        if isinstance(value, int):
            self.code.set(register, value)
        else:
            self.code.move(register, value)
        self.code.store(handle, offset, register)
        self.keep(register)

    def wrap(self, found: str, made: str, *, is_few: bool = True, is_marked: bool = True) -> None:
        """Return ours of a new array of NumPy's, or a scalar as it is; where it is to be small, others are dropped.

        What may broadcast is not to be marked as small.
        """
        code = self.code
        is_array = self.new_label()
        code.set("rcx", id(np.ndarray))
        code.compare_with(found, TYPE, "rcx")
        code.jump(is_array, "e")
        code.move("rax", found)
        code.jump("return")
        code.label(is_array)
        if is_few:
            self.unless_smaller(found, "too large")
        self.make_handle(found, made)
        self.put(made, HOST, found)
        self.put(made, HELD, NONE)
        self.put(made, VIEW, NONE)
        if is_few and is_marked:
            self.load_few("r15")
            self.put(made, KNOWN, "r15")
        else:
            self.put(made, KNOWN, NONE)
        code.move("rax", made)
        code.jump("return")

    def end_wrap(self, found: str) -> None:
        """Lay out what `wrap` and `make_handle` go to."""
        code = self.code
        code.label("too large")
        self.drop(found)
        code.jump("general")
        code.label("no handle")
        self.drop(found)
        code.set("rax", 0)
        code.jump("return")

    def provide_storage(self, handle: str, seen: str, storage: str) -> None:
        """Let an array that owns its elements have a storage, and the register with None for it, too.

        Goes to ``no storage`` where there is no memory for one.
        """
        code, is_there, is_first = self.code, self.new_label(), self.new_label()
        code.set("rcx", NONE)
        code.compare(storage, "rcx")
        code.jump(is_there, "ne")
        code.set("rdi", id(Storage))
        code.set("rsi", 0)
        code.call(objects.slot(Storage, "alloc").value)
        code.compare_number("rax", 0)
        code.jump("no storage", "e")
        code.move(storage, "rax")
        code.set("rcx", NONE)
        code.compare_with(handle, HELD, "rcx")
        code.jump(is_first, "e")
        self.drop(storage)  # a finaliser, which allocating may call, has given it one
        code.jump("general")
        code.label(is_first)
        self.put(storage, STORED_HOST, seen)
        self.put(storage, VALUE, NONE)
        self.put(storage, STALE, NONE)
        self.put(storage, HAS_OBJECTS, id(False))
        code.store(handle, HELD, storage)
        code.set("r15", NONE)
        self.drop("r15")
        code.label(is_there)

    def begin_writing(self, storage: str) -> None:
        """Mark a storage that has nothing but its host side: from now on other threads may run."""
        self.code.set("r15", id(WRITING))
        self.code.store(storage, STALE, "r15")
        self.keep("r15")
        self.keep(storage)
        self.code.set("r15", NONE)
        self.drop("r15")

    def end_writing(self, storage: str) -> None:
        """Take the mark away, or tell who has put another in its place; what was raised meanwhile stays so."""
        code, is_elsewhere, failed, done = (self.code, *(self.new_label() for _ in range(3)))
        code.set("r15", id(WRITING))
        code.compare_with(storage, STALE, "r15")
        code.jump(is_elsewhere, "ne")
        code.set("r15", NONE)
        code.store(storage, STALE, "r15")
        self.keep("r15")
        code.set("r15", id(WRITING))
        self.drop("r15")
        code.jump(done)
        code.label(is_elsewhere)
        self.take_error(_TAKEN)
        code.set("rdi", id(end_writing))
        code.move("rsi", storage)
        code.call(objects.address("PyObject_CallOneArg"))
        code.compare_number("rax", 0)
        code.jump(failed, "e")
        code.move("r15", "rax")
        self.drop("r15")
        code.label(failed)
        self.raise_taken(_TAKEN)
        code.label(done)
        self.drop(storage)

    def classify_key(
        self,
        key: str,
        seen: str,
        *,
        element: str,
        view: str,
        new: str = "general",
        mixed: str = "general",
        listed: str = "general",
    ) -> None:
        """Go to a label by whether a key is of a single element, of a part by integers and slices, or has new axes.

        One that has arrays or lists beside others is mixed. What is none of all these is perhaps a list.
        """
        code = self.code
        is_integer, is_tuple = self.new_label(), self.new_label()
        code.load_int("rdx", seen, ARRAY_NDIM)
        code.load("rax", key, TYPE)
        self._go_by_type("rax", {int: is_integer, np.int64: is_integer})
        code.compare_number("rdx", 0)
        code.jump("general", "e")
        self._go_by_type("rax", {slice: view, type(None): new, tuple: is_tuple})
        code.jump(listed)
        code.label(is_tuple)
        self._classify_tuple(key, element, view, new, mixed)
        code.label(is_integer)
        code.compare_number("rdx", 1)
        code.jump(element, "e")
        code.compare_number("rdx", 0)
        code.jump("general", "e")
        code.jump(view)

    def _classify_tuple(self, key: str, element: str, view: str, new: str, mixed: str) -> None:
        """Go to a label by what a tuple is a key of; `rdx` has how many axes there are."""
        code = self.code
        again, is_integer, is_other, counted = (self.new_label() for _ in range(4))
        code.load("r8", key, SIZE)
        code.set("r9", 0)  # integers
        code.set("r11", 0)  # new axes
        code.move("r10", key)
        code.label(again)
        code.add("r8", -1)
        code.jump(counted, "s")
        code.load("rdi", "r10", TUPLE_ITEMS)
        code.add("r10", 8)
        code.load("rax", "rdi", TYPE)
        self._go_by_type("rax", {slice: again, int: is_integer, np.int64: is_integer})
        self._go_by_type("rax", {type(None): is_other, type(...): is_other, self.kind: mixed, list: mixed})
        code.jump("general")
        code.label(is_integer)
        code.add("r9", 1)
        code.jump(again)
        code.label(is_other)
        code.add("r11", 1)
        code.jump(again)
        code.label(counted)
        code.compare_number("r11", 0)
        code.jump(new, "ne")
        code.compare("r9", "rdx")
        code.jump(element, "e")
        code.jump(view)

    def _go_by_type(self, register: str, labels: Mapping[type, str]) -> None:
        for kind, label in labels.items():
            self.if_one_of(register, (kind,), label)

    def require_writable(self, handle: str) -> None:
        """Go to the general function where an array is a view that may not be written to, or of something else."""
        code, is_whole = self.code, self.new_label()
        code.load("rdx", handle, VIEW)
        code.set("rcx", NONE)
        code.compare("rdx", "rcx")
        code.jump(is_whole, "e")
        code.compare_number("rdx", 0)
        code.jump("general", "e")
        self.unless_type("rdx", self.kind, "general")
        code.label(is_whole)

    def let_be_alone(self, storage: str, again: str, label: str = "general") -> None:
        """Go to a label unless a storage has nothing but its host side; of few elements a device copy is let go first.

        Then all begins again: other threads may have run. `r15` changes.
        """
        code, is_copied, done, is_dropped = self.code, *(self.new_label() for _ in range(3))
        self.require_alone(storage, is_copied)
        code.jump(done)
        code.label(is_copied)
        code.load("r15", storage, STORED_HOST)
        self.unless_type("r15", np.ndarray, label)
        self.unless_smaller("r15", label)
        self.keep(storage)
        code.set("rdi", id(drop_copy))
        code.move("rsi", storage)
        code.call(objects.address("PyObject_CallOneArg"))
        code.move("r15", "rax")
        self.drop(storage)
        code.compare_number("r15", 0)
        code.jump(is_dropped, "ne")
        code.call(objects.address("PyErr_Clear"))
        code.jump(label)
        code.label(is_dropped)
        self.drop("r15")
        code.set("rcx", id(True))
        code.compare("r15", "rcx")
        code.jump(again, "e")
        code.jump(label)
        code.label(done)

    def require_alone(self, storage: str, label: str = "general") -> None:
        """Go to a label where a storage has more than its host side."""
        code = self.code
        code.set("rcx", NONE)
        code.compare_with(storage, VALUE, "rcx")
        code.jump(label, "ne")
        code.compare_with(storage, STALE, "rcx")
        code.jump(label, "ne")


__all__ = [
    "AT",
    "COUNT",
    "ELLIPSIS",
    "FEW",
    "FLOAT64",
    "HELD",
    "HOST",
    "KNOWN",
    "LIGHT",
    "LIMIT",
    "MIDDLE",
    "MIDDLING",
    "MOST",
    "MOST_LIGHT",
    "MOST_WORK",
    "MOST_WRITTEN",
    "NONE",
    "PERIOD",
    "SEEN",
    "STALE",
    "STORED_HOST",
    "VALUE",
    "VIEW",
    "WIDE",
    "Function",
    "cells",
]

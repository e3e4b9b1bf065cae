"""Functions and methods that Python wrote, answered in machine code where their arrays are small and on the host.

From 3.12 on CPython lets a function be called by other code than its own (`PyFunction_SetVectorcall`). It stays what
it is, with its signature, documentation and attributes; the code here answers calls that it is sure of, by NumPy's own
functions in C, and goes on to the function itself for everything else.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np

from oxinp._core.lazy.handle import NOWHERE
from oxinp._core.lazy.small import DTYPES
from oxinp._core.native import objects
from oxinp._core.native.elements import return_part
from oxinp._core.native.function import HOST, MIDDLE, MOST, NONE, SEEN, VALUE, Function, cells
from oxinp._core.native.objects import (
    ARRAY_BASE,
    ARRAY_NDIM,
    ARRAY_SHAPE,
    LIST_ITEMS,
    SIZE,
    TUPLE_ITEMS,
    TYPE,
)
from oxinp._core.native.operators import MIDDLING, require_small_product

_FLAGS, _MARK, _CALLABLE, _ARGUMENTS, _KEYWORDS, _GIVEN = 0, 8, 16, 24, 32, 40
"""Where on the stack there is what a function is called with, and room for the arguments of NumPy's."""
_MOST_GIVEN = 4
_ROOM = _GIVEN + 8 * (_MOST_GIVEN + 2)  # an odd number of words
_DTYPE, _TRANSPOSED = sys.intern("dtype"), sys.intern("T")
_REALS = (*MIDDLING, np.uint8, np.int8, np.int16, np.float16)
_MOST_LISTED, _MOST_JOINED = 64, 8
_MOST_EXTENT = 1 << 20


class _Call(Function):
    """A function that is called with a vector of arguments."""

    def __init__(self, kind: type, before: int) -> None:
        super().__init__(kind, before, _ROOM)

    def begin_call(self, *counts: int, keywords: str = "general") -> None:
        """Begin with so many positional arguments, at `rbp`; go to a label where there are others by keyword."""
        code = self.code
        self.begin()
        code.store("rsp", _CALLABLE, "rdi")
        code.store("rsp", _ARGUMENTS, "rsi")
        code.store("rsp", _KEYWORDS, "rcx")
        code.add_register("rdx", "rdx")  # the highest bit does not count
        code.compare_number("rcx", 0)
        code.jump(keywords, "ne")
        for count in counts:
            code.compare_number("rdx", 2 * count)
            code.jump(f"{count} arguments", "e")
        code.jump("general")

    def end_call(self) -> None:
        """Return what is in `rax`; lay out the way to the function itself."""
        code = self.code
        code.label("return")
        self._leave()
        code.ret()
        code.label("general")
        for register, place in (("rdi", _CALLABLE), ("rsi", _ARGUMENTS), ("rdx", _FLAGS), ("rcx", _KEYWORDS)):
            code.load(register, "rsp", place)
        self._leave()
        code.go_to(self._before)

    def load_array(self, place: int, handle: str, seen: str) -> None:
        """Let registers have an argument that is a small array of ours, its host's view, and in `r13` its storage."""
        self.code.load(handle, "rbp", 8 * place)
        self.unless_type(handle, self._kind, "general")
        self.load_seen(seen, handle, storage="r13")
        self.require_small(handle, seen)

    def call_numpys(self, function: object, *given: str, result: str) -> None:
        """Call a function of NumPy's with objects that nobody gives back meanwhile; go on where it does not raise."""
        code, is_made = self.code, self.new_label()
        for i, each in enumerate(given):
            self.keep(each)
            code.store("rsp", _GIVEN + 8 * i, each)
        code.set("rdx", len(given))
        self.call_with_given(function)
        code.move(result, "rax")
        for each in given:
            self.drop(each)
        code.compare_number(result, 0)
        code.jump(is_made, "ne")
        self.return_error()
        code.label(is_made)

    def call_with_given(self, function: object) -> None:
        """Call a function with as many of the arguments on the stack as `rdx` says."""
        code = self.code
        code.set("rdi", id(function))
        code.move("rsi", "rsp")
        code.add("rsi", _GIVEN)
        code.set("rcx", 0)
        code.call(objects.address("PyObject_Vectorcall"))

    def call_as_given(self, function: object, result: str) -> None:
        """Call a function of NumPy's with the very arguments, none of them an array; go on where it does not raise."""
        code, is_made = self.code, self.new_label()
        code.set("rdi", id(function))
        for register, place in (("rsi", _ARGUMENTS), ("rdx", _FLAGS), ("rcx", _KEYWORDS)):
            code.load(register, "rsp", place)
        code.call(objects.address("PyObject_Vectorcall"))
        code.move(result, "rax")
        code.compare_number(result, 0)
        code.jump(is_made, "ne")
        self.return_error()
        code.label(is_made)

    def return_new(self, found: str, made: str, *, is_marked: bool = False) -> None:
        """Return ours of what NumPy has made."""
        self.wrap(found, made, is_marked=is_marked)
        self.end_wrap(found)
        self.end_call()

    def require_dtype(self, register: str) -> None:
        """Go to the general function unless an object is a class or a name of a dtype of numbers, or one itself."""
        code, is_key, is_dtype = self.code, self.new_label(), self.new_label()
        self.if_one_of(register, map(np.dtype, _REALS), is_dtype)
        code.load("rax", register, TYPE)
        self.if_one_of("rax", (type, str), is_key)
        code.jump("general")
        code.label(is_key)
        code.set("rdi", id(DTYPES))
        code.move("rsi", register)
        code.call(objects.address("PyDict_GetItem"))
        code.compare_number("rax", 0)
        code.jump("general", "e")
        code.label(is_dtype)


def itself(kind: type, before: int) -> bytes:
    """Return the code of `asarray` of an array."""
    call = _Call(kind, before)
    call.begin_call(1)
    call.code.label("1 arguments")
    call.code.load("rbx", "rbp", 0)
    call.unless_type("rbx", kind, "general")
    call.keep("rbx")
    call.code.move("rax", "rbx")
    call.end_call()
    return call.code.assembled()


def of_array(kind: type, before: int, function: object) -> bytes:
    """Return the code of what makes something new of one array."""
    call = _Call(kind, before)
    call.begin_call(1)
    call.code.label("1 arguments")
    call.load_array(0, "rbx", "r12")
    call.unless_reported()
    call.call_numpys(function, "r12", result="r13")
    call.return_new("r13", "r12")
    return call.code.assembled()


def cast(kind: type, before: int) -> bytes:
    """Return the code of `astype` of real numbers."""
    call = _Call(kind, before)
    code = call.code
    call.begin_call(2)
    code.label("2 arguments")
    call.load_array(0, "rbx", "r12")
    code.load("r14", "rbp", 8)
    call.require_dtype("r14")
    call.require_elements("r12", _REALS)
    call.unless_reported()
    call.call_numpys(np.ndarray.astype, "r12", "r14", result="r13")
    call.return_new("r13", "r12")
    return code.assembled()


def product(kind: type, before: int, function: object) -> bytes:
    """Return the code of `dot`."""
    call = _Call(kind, before)
    call.begin_call(2)
    call.code.label("2 arguments")
    call.load_array(0, "rbx", "r12")
    call.load_array(1, "rbx", "r14")
    require_small_product(call, "r12", "r14")
    call.unless_reported()
    call.call_numpys(function, "r12", "r14", result="r13")
    call.return_new("r13", "r12")
    return call.code.assembled()


def outer(kind: type, before: int, function: object) -> bytes:
    """Return the code of `outer` of two vectors."""
    call = _Call(kind, before)
    code = call.code
    call.begin_call(2)
    code.label("2 arguments")
    call.load_array(0, "rbx", "r12")
    call.load_array(1, "rbx", "r14")
    for each in ("r12", "r14"):
        code.load_int("rax", each, ARRAY_NDIM)
        code.compare_number("rax", 1)
        code.jump("general", "ne")
    code.load("rcx", "r12", ARRAY_SHAPE)
    code.load("rax", "rcx", 0)
    code.load("rcx", "r14", ARRAY_SHAPE)
    code.multiply("rax", "rcx", 0)
    call.require_below(MIDDLE, "rax")
    for each in ("r12", "r14"):
        call.require_elements(each, MIDDLING)
    call.unless_reported()
    call.call_numpys(function, "r12", "r14", result="r13")
    call.wrap("r13", "r12", is_few=False)
    call.end_wrap("r13")
    call.end_call()
    return code.assembled()


def _load_extent(call: _Call, item: str, label: str) -> None:
    """Let `rax` have an integer of Python's that may be an extent of a small array; go to a label with any other."""
    code = call.code
    call.unless_type(item, int, label)
    code.move("rdi", item)
    code.move("rsi", "rsp")
    code.add("rsi", _GIVEN)
    code.call(objects.address("PyLong_AsLongAndOverflow"))
    code.compare_number("rax", 0)  # what is too large is -1
    code.jump("general", "l")
    code.compare_number("rax", _MOST_EXTENT)
    code.jump("general", "g")


def _require_small_shape(call: _Call) -> None:
    """Go to the general function unless the first argument is a shape of few elements."""
    code = call.code
    code.load("r14", "rbp", 0)
    code.set("r13", 1)
    _load_extent(call, "r14", "of a tuple")
    code.move("r13", "rax")
    code.jump("counted")
    code.label("of a tuple")
    call.unless_type("r14", tuple, "general")
    code.load("r12", "r14", SIZE)
    code.label("next extent")
    code.add("r12", -1)
    code.jump("counted", "s")
    code.load("r15", "r14", TUPLE_ITEMS)
    code.add("r14", 8)
    _load_extent(call, "r15", "general")
    code.multiply_by("r13", "rax")
    code.compare_number("r13", _MOST_EXTENT)
    code.jump("general", "g")
    code.jump("next extent")
    code.label("counted")
    call.require_below(MOST, "r13")


def of_shape(kind: type, before: int, function: object) -> bytes:
    """Return the code of `zeros` or `empty`, of a shape and a dtype if one is given."""
    call = _Call(kind, before)
    code = call.code
    call.begin_call(1, 2, keywords="by keyword")
    code.label("by keyword")
    code.compare_number("rdx", 2)
    code.jump("general", "ne")
    code.compare_number_with("rcx", SIZE, 1)
    code.jump("general", "ne")
    code.load("rcx", "rcx", TUPLE_ITEMS)
    call.if_one_of("rcx", (_DTYPE,), "2 arguments")
    code.jump("general")
    code.label("2 arguments")
    code.load("r14", "rbp", 8)
    call.require_dtype("r14")
    code.label("1 arguments")
    _require_small_shape(call)
    call.unless_reported()
    call.call_as_given(function, "r13")
    call.return_new("r13", "r12")
    return code.assembled()


def integers(kind: type, before: int, function: object) -> bytes:
    """Return the code of `arange` of one or two integers from 0 on."""
    call = _Call(kind, before)
    code = call.code
    call.begin_call(1, 2)
    code.label("1 arguments")
    code.set("r13", 0)
    code.load("r14", "rbp", 0)
    code.jump("stop")
    code.label("2 arguments")
    code.load("r14", "rbp", 0)
    _load_extent(call, "r14", "general")
    code.move("r13", "rax")
    code.load("r14", "rbp", 8)
    code.label("stop")
    _load_extent(call, "r14", "general")
    code.set("rcx", ctypes.addressof(cells))
    code.load("rcx", "rcx", MOST)
    code.add_register("rcx", "r13")
    code.compare("rax", "rcx")
    code.jump("general", "ge")
    call.unless_reported()
    call.call_as_given(function, "r13")
    call.return_new("r13", "r12", is_marked=True)
    return code.assembled()


def chosen(kind: type, before: int, function: object) -> bytes:
    """Return the code of `where` of an array, and two arrays or numbers."""
    call = _Call(kind, before)
    code = call.code
    call.begin_call(3)
    code.label("3 arguments")
    views = "r12", "r14", "r15"
    for place in range(len(views)):
        is_number, is_loaded = f"number {place}", call.new_label()
        code.load("rbx", "rbp", 8 * place)
        call.unless_type("rbx", kind, is_number if place else "general")
        call.load_seen("r12", "rbx", storage="r13")
        call.require_small("rbx", "r12")
        code.jump(is_loaded)
        if place:
            code.label(is_number)
            code.move("r12", "rbx")
            code.load("rax", "r12", TYPE)
            call.if_one_of("rax", (float, int, np.float64), is_loaded)
            code.jump("general")
        code.label(is_loaded)
        code.store("rsp", _GIVEN + 8 * place, "r12")
    for place, each in enumerate(views):
        code.load(each, "rsp", _GIVEN + 8 * place)
    for one, other in combinations(views, 2):
        are_alone = call.new_label()
        for each in (one, other):
            call.unless_type(each, np.ndarray, are_alone)
        call.require_small_together(one, other)
        code.label(are_alone)
    call.unless_reported()
    call.call_numpys(function, *views, result="r13")
    call.return_new("r13", "r12")
    return code.assembled()


def joined(kind: type, before: int, function: object) -> bytes:
    """Return the code of `concatenate` of a few arrays in a tuple or a list, along their first axis."""
    call = _Call(kind, before)
    code, is_made = call.code, call.new_label()
    call.begin_call(1)
    code.label("1 arguments")
    code.load("rbx", "rbp", 0)
    code.move("rbp", "rbx")  # the items, 8 bytes each
    code.add("rbp", TUPLE_ITEMS)
    code.load("rax", "rbx", TYPE)
    call.if_one_of("rax", (tuple,), "listed")
    call.unless_type("rbx", list, "general")
    code.load("rbp", "rbx", LIST_ITEMS)
    code.label("listed")
    for is_last in (False, True):  # nothing is made before all are known to be small
        code.load("r14", "rbx", SIZE)
        if is_last:
            call.unless_reported()
            code.move("rdi", "r14")
            code.call(objects.address("PyTuple_New"))
            code.compare_number("rax", 0)
            code.jump("return", "e")
            code.store("rsp", _GIVEN, "rax")
        else:
            code.compare_number("r14", 0)
            code.jump("general", "e")
            code.compare_number("r14", _MOST_JOINED)
            code.jump("general", "g")
        code.label(f"next {is_last}")
        code.add("r14", -1)
        code.jump(f"all {is_last}", "s")
        code.move("rax", "r14")
        for _ in range(3):
            code.add_register("rax", "rax")
        code.store("rsp", _MARK, "rax")
        code.add_register("rax", "rbp")
        code.load("r12", "rax", 0)
        if is_last:
            code.load("r12", "r12", SEEN)
            call.keep("r12")
            code.load("rax", "rsp", _GIVEN)
            code.load("rcx", "rsp", _MARK)
            code.add_register("rax", "rcx")
            code.store("rax", TUPLE_ITEMS, "r12")
        else:
            call.unless_type("r12", kind, "general")
            call.load_seen("r15", "r12", storage="r13")
            call.unless_smaller("r15", "general")
        code.jump(f"next {is_last}")
        code.label(f"all {is_last}")
    code.set("rdx", 1)
    call.call_with_given(function)
    code.move("r13", "rax")
    code.load("r12", "rsp", _GIVEN)
    call.drop("r12")
    code.compare_number("r13", 0)
    code.jump(is_made, "ne")
    call.return_error()
    code.label(is_made)
    call.return_new("r13", "r12")
    return code.assembled()


def of_list(kind: type, before: int) -> bytes:
    """Return the code of `array` of a list of Python's numbers."""
    call = _Call(kind, before)
    code = call.code
    call.begin_call(1)
    code.label("1 arguments")
    code.load("r14", "rbp", 0)
    call.unless_type("r14", list, "general")
    code.load("r12", "r14", SIZE)
    code.compare_number("r12", 0)
    code.jump("general", "e")
    code.compare_number("r12", _MOST_LISTED)
    code.jump("general", "g")
    code.load("r13", "r14", LIST_ITEMS)
    code.label("next item")
    code.add("r12", -1)
    code.jump("listed", "s")
    code.load("rax", "r13", 0)
    code.add("r13", 8)
    code.load("rax", "rax", TYPE)
    call.if_one_of("rax", (float, int), "next item")
    code.jump("general")
    code.label("listed")
    code.set("rcx", ctypes.addressof(cells))
    code.compare_number_with("rcx", MOST, _MOST_LISTED)
    code.jump("general", "le")
    call.unless_reported()
    call.call_numpys(np.array, "r14", result="r13")
    call.require_elements("r13", (np.float64, np.int64), "too large")
    call.return_new("r13", "r12", is_marked=True)
    return code.assembled()


def _begin_view(call: _Call) -> None:
    """Let `rbx`, `r12` and `r13` have an array, its host's view, and its storage, which has nothing else."""
    call.load_array(0, "rbx", "r12")
    call.provide_storage("rbx", "r12", "r13")
    call.code.set("rcx", NONE)
    call.code.compare_with("r13", VALUE, "rcx")
    call.code.jump("general", "ne")
    call.require_writable("rbx")


def _end_view(call: _Call) -> None:
    """Return ours of NumPy's array in `r14`, if it is a view."""
    code, is_view = call.code, call.new_label()
    call.unless_type("r14", np.ndarray, "no view")
    code.load("rcx", "rbx", HOST)
    code.load("rax", "r14", ARRAY_BASE)
    code.compare("rax", "rcx")
    code.jump(is_view, "e")
    code.compare_number("rax", 0)
    code.jump("no view", "e")
    code.compare_with("rcx", ARRAY_BASE, "rax")
    code.jump("no view", "ne")
    code.label(is_view)
    code.set("rbp", id(NOWHERE))
    return_part(call)
    code.label("no view")
    call.drop("r14")
    code.jump("general")
    code.label("no handle")
    call.drop("r14")
    code.label("no storage")
    code.set("rax", 0)
    call.end_call()


def view(kind: type, before: int, function: object) -> bytes:
    """Return the code of what makes a view by a method of NumPy's without arguments."""
    call = _Call(kind, before)
    call.begin_call(1)
    call.code.label("1 arguments")
    _begin_view(call)
    call.call_numpys(function, "r12", result="r14")
    _end_view(call)
    return call.code.assembled()


def transposed(kind: type, before: int) -> bytes:
    """Return the code of the attribute `T`."""
    call = _Call(kind, before)
    code, is_made = call.code, call.new_label()
    call.begin_call(1)
    code.label("1 arguments")
    _begin_view(call)
    call.keep("r12")
    code.set("r14", id(_TRANSPOSED))
    call.call("PyObject_GetAttr", "r12", "r14")
    code.move("r14", "rax")
    call.drop("r12")
    code.compare_number("r14", 0)
    code.jump(is_made, "ne")
    call.return_error()
    code.label(is_made)
    _end_view(call)
    return code.assembled()


def reshaped(kind: type, before: int) -> bytes:
    """Return the code of `reshape` to integers, or a tuple."""
    call = _Call(kind, before)
    code = call.code
    counts = range(2, _MOST_GIVEN + 1)
    call.begin_call(*counts)
    for count in counts:
        code.label(f"{count} arguments")
        for i in range(1, count):
            code.load("rax", "rbp", 8 * i)
            code.store("rsp", _GIVEN + 8 * i, "rax")
            code.load("rax", "rax", TYPE)
            call.if_one_of("rax", (int, tuple) if count == 2 else (int,), f"extent {i} of {count}")
            code.jump("general")
            code.label(f"extent {i} of {count}")
        code.set("r14", count)
        code.jump("given")
    code.label("given")
    _begin_view(call)
    call.keep("r12")
    code.store("rsp", _GIVEN, "r12")
    code.move("rdx", "r14")
    call.call_with_given(np.ndarray.reshape)
    code.move("r14", "rax")
    call.drop("r12")
    is_made = call.new_label()
    code.compare_number("r14", 0)
    code.jump(is_made, "ne")
    code.call(objects.address("PyErr_Clear"))
    code.jump("general")  # where it is raised again
    code.label(is_made)
    _end_view(call)
    return code.assembled()


def _in_c(function: Any) -> Any:
    """Return a function of NumPy's that asks no classes for theirs."""
    return getattr(function, "_implementation", function)


_Maker = Callable[[type, int], bytes]
FUNCTIONS: dict[Any, _Maker] = {
    np.arange: partial(integers, function=np.arange),
    np.array: of_list,
    np.asarray: itself,
    np.concatenate: partial(joined, function=_in_c(np.concatenate)),
    np.dot: partial(product, function=_in_c(np.dot)),
    np.empty: partial(of_shape, function=np.empty),
    np.empty_like: partial(of_array, function=_in_c(np.empty_like)),
    np.outer: partial(outer, function=np.multiply.outer),
    np.where: partial(chosen, function=_in_c(np.where)),
    np.zeros: partial(of_shape, function=np.zeros),
}
"""Functions of NumPy's -> what makes the code of ours."""
METHODS: dict[str, _Maker] = {
    **{name: partial(of_array, function=getattr(np.ndarray, name)) for name in ("argmax", "argmin", "argsort", "copy")},
    "astype": cast,
    "ravel": partial(view, function=np.ndarray.ravel),
    "reshape": reshaped,
    "transpose": partial(view, function=np.ndarray.transpose),
}
"""Methods -> what makes the code of ours."""

__all__ = ["FUNCTIONS", "METHODS", "transposed"]

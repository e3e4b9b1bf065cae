"""What the slots of `ndarray` do where an array is small and on the host: what the texts of `inlining` do, as code.

Each function does what it is sure of, and goes on in the slot's C function of before for everything else, which calls
the method that Python wrote: so these functions leave something out, and never do it another way. What they are sure
of is told by the attributes that those texts look at: `_seen` is valid where nothing is stored or the storage's host
side is `_host`; `FEW` marks small ones.

NumPy's own functions are called in the user's frame, so that what they warn of or raise names the user's line.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from oxinp._core.lazy import inlining
from oxinp._core.lazy.balance import SAMPLED, balance
from oxinp._core.lazy.explain import REPORTS
from oxinp._core.lazy.handle import NOWHERE, Handle
from oxinp._core.memory.storage import WRITING, Storage
from oxinp._core.native import objects
from oxinp._core.native.assembler import Assembler
from oxinp._core.native.objects import (
    ARRAY_DTYPE,
    ARRAY_NDIM,
    ARRAY_SHAPE,
    SIZE,
    TUPLE_ITEMS,
    TYPE,
)

_AT, _HELD, _HOST, _KNOWN, _SEEN, _VIEW = (
    (objects.offset(getattr(Handle, name)) for name in ("_at", "_held", "_host", "_known", "_seen", "_view"))
    if objects.ARE_KNOWN
    else (0,) * 6
)
_STORED_HOST, _STALE, _VALUE = (
    (objects.offset(getattr(Storage, name)) for name in ("host", "stale", "value")) if objects.ARE_KNOWN else (0,) * 3
)
_SAVED = ("rbx", "rbp", "r12", "r13", "r14", "r15")
_FLOAT64 = np.dtype(np.float64)
_NONE, _ELLIPSIS = id(None), id(...)

cells = (ctypes.c_int64 * 3)(0, 0, SAMPLED)
"""What changes while programs run: `FEW`, the elements from which on an array is not that, views until one is weighed."""
_FEW, _MOST, _COUNT = 0, 8, 16


class Function:
    """A slot's function under construction; its first two operands are in `rbx` and `rbp` throughout.

    Parameters
    ----------
    kind : type
        The class of arrays.
    before : int
        The C function that the slot has had.
    """

    def __init__(self, kind: type, before: int) -> None:
        self.code = Assembler()
        self._kind = kind
        self._before = before
        self._num_labels = 0

    def new_label(self) -> str:
        self._num_labels += 1
        return f"label {self._num_labels}"

    def begin(self) -> None:
        code = self.code
        for register in _SAVED:
            code.push(register)
        code.add("rsp", -40)  # which leaves the stack as calls want it; a function's third operand lies at its end
        code.move("rbx", "rdi")
        code.move("rbp", "rsi")
        code.store("rsp", 0, "rdx")

    def _leave(self) -> None:
        self.code.add("rsp", 40)
        for register in reversed(_SAVED):
            self.code.pop(register)

    def end(self) -> None:
        """Return what is in `rax`; lay out the way to the general function."""
        code = self.code
        code.label("return")
        self._leave()
        code.ret()
        code.label("general")
        code.move("rdi", "rbx")
        code.move("rsi", "rbp")
        code.load("rdx", "rsp", 0)
        self._leave()
        code.go_to(self._before)

    def end_of_two(self, method: Any, reflected: Any) -> None:
        """Return what is in `rax`; lay out the way to the methods, which Python's own function would not call.

        Of two operands that looks whether it is in the slot before it calls the method of the class.
        """
        code = self.code
        code.label("return")
        self._leave()
        code.ret()
        code.label("general")
        for operand, other, called, label in (("rbx", "rbp", method, "is not first"), ("rbp", "rbx", reflected, "is none")):
            self.unless_type(operand, self._kind, label)
            code.store("rsp", 8, operand)
            code.store("rsp", 16, other)
            code.set("rdi", id(called))
            code.move("rsi", "rsp")
            code.add("rsi", 8)
            code.set("rdx", 2)
            code.set("rcx", 0)
            code.call(objects.address("PyObject_Vectorcall"))
            code.jump("return")
            code.label(label)
        code.move("rdi", "rbx")
        code.move("rsi", "rbp")
        self._leave()
        code.go_to(self._before)

    def call(self, function: str | int, *operands: str) -> None:
        """Call a function of Python's C API, or at an address, with what registers have that calls leave alone."""
        for target, source in zip(("rdi", "rsi", "rdx"), operands, strict=False):
            self.code.move(target, source)
        self.code.call(objects.address(function) if isinstance(function, str) else function)

    def keep(self, register: str) -> None:
        """Take a reference to an object."""
        self.call("Py_IncRef", register)

    def drop(self, register: str) -> None:
        """Give a reference back."""
        self.call("Py_DecRef", register)

    def unless_type(self, register: str, kind: type, label: str) -> None:
        """Go to a label where an object is not of a type."""
        self.code.set("rcx", id(kind))
        self.code.compare_with(register, TYPE, "rcx")
        self.code.jump(label, "ne")

    def load_seen(self, target: str, handle: str, *, storage: str) -> None:
        """Let registers have an array's view on the host, if it is valid, and its storage or None."""
        code, is_valid = self.code, self.new_label()
        code.load(target, handle, _SEEN)
        code.set("rcx", _NONE)
        code.compare(target, "rcx")
        code.jump("general", "e")
        code.compare_number(target, 0)
        code.jump("general", "e")
        code.load(storage, handle, _HELD)
        code.compare(storage, "rcx")
        code.jump(is_valid, "e")
        code.compare_number(storage, 0)
        code.jump("general", "e")
        code.load("rax", storage, _STORED_HOST)
        code.compare_with(handle, _HOST, "rax")
        code.jump("general", "ne")
        code.label(is_valid)

    def unless_few(self, handle: str, label: str) -> None:
        """Go to a label where an array is not known to be small."""
        self.code.set("rax", ctypes.addressof(cells))
        self.code.load("rcx", "rax", _FEW)
        self.code.compare_with(handle, _KNOWN, "rcx")
        self.code.jump(label, "ne")

    def unless_reported(self, label: str = "general") -> None:
        """Go to a label where somebody watches what is done."""
        self.code.set("rax", id(REPORTS))
        self.code.compare_number_with("rax", SIZE, 0)
        self.code.jump(label, "ne")

    def multiply_extents(self, array: str) -> None:
        """Let `rax` have the number of elements of an array of NumPy's."""
        code, again, done = self.code, self.new_label(), self.new_label()
        code.set("rax", 1)
        code.load_int("rcx", array, ARRAY_NDIM)
        code.load("rdx", array, ARRAY_SHAPE)
        code.label(again)
        code.add("rcx", -1)
        code.jump(done, "s")
        code.multiply("rax", "rdx", 0)
        code.add("rdx", 8)
        code.jump(again)
        code.label(done)

    def unless_smaller(self, array: str, label: str, most: int | None = None) -> None:
        """Go to a label where an array of NumPy's has too many elements to be `FEW`, or at least a number of them."""
        code = self.code
        self.multiply_extents(array)
        if most is not None:
            code.compare_number("rax", most)
            code.jump(label, "ge")
        code.set("rcx", ctypes.addressof(cells))
        code.compare_with("rcx", _MOST, "rax")
        code.jump(label, "le")

    def make_handle(self, seen: str, target: str) -> None:
        """Let a register have a new array whose `_seen` takes over the reference; go to ``no handle`` if it fails."""
        code = self.code
        code.set("rdi", id(self._kind))
        code.set("rsi", 0)
        code.call(objects.slot(self._kind, "alloc").value)
        code.compare_number("rax", 0)
        code.jump("no handle", "e")
        code.move(target, "rax")
        code.store(target, _SEEN, seen)

    def put(self, handle: str, offset: int, value: str | int) -> None:
        """Set an attribute that has not been set, to what a register has or to an object by its address."""
        register = "r15"
        if isinstance(value, int):
            self.code.set(register, value)
        else:
            self.code.move(register, value)
        self.code.store(handle, offset, register)
        self.keep(register)

    def wrap(self, found: str, made: str) -> None:
        """Return ours of a new array of NumPy's that is small, or a scalar as it is; what is too large is dropped."""
        code = self.code
        is_array = self.new_label()
        code.set("rcx", id(np.ndarray))
        code.compare_with(found, TYPE, "rcx")
        code.jump(is_array, "e")
        code.move("rax", found)
        code.jump("return")
        code.label(is_array)
        self.unless_smaller(found, "too large")
        self.make_handle(found, made)
        self.put(made, _HOST, found)
        self.put(made, _HELD, _NONE)
        self.put(made, _VIEW, _NONE)
        code.set("rax", ctypes.addressof(cells))
        code.load("r15", "rax", _FEW)
        self.put(made, _KNOWN, "r15")
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

    def classify_key(self, key: str, seen: str, *, element: str, view: str) -> None:
        """Go to a label by whether a key is of a single element, or of a part by integers and slices."""
        code = self.code
        is_integer, is_tuple, again, is_next, counted = (self.new_label() for _ in range(5))
        code.load_int("rdx", seen, ARRAY_NDIM)
        code.load("rax", key, TYPE)
        code.set("rcx", id(int))
        code.compare("rax", "rcx")
        code.jump(is_integer, "e")
        code.compare_number("rdx", 0)
        code.jump("general", "e")
        code.set("rsi", id(slice))
        code.compare("rax", "rsi")
        code.jump(view, "e")
        code.set("rdi", id(tuple))
        code.compare("rax", "rdi")
        code.jump("general", "ne")
        code.label(is_tuple)
        code.load("r8", key, SIZE)
        code.compare("r8", "rdx")
        code.jump("general", "g")
        code.set("r9", 0)  # integers
        code.move("r10", key)
        code.label(again)
        code.add("r8", -1)
        code.jump(counted, "s")
        code.load("rdi", "r10", TUPLE_ITEMS)
        code.add("r10", 8)
        code.load("rax", "rdi", TYPE)
        code.compare("rax", "rsi")
        code.jump(again, "e")
        code.compare("rax", "rcx")
        code.jump("general", "ne")
        code.label(is_next)
        code.add("r9", 1)
        code.jump(again)
        code.label(counted)
        code.compare("r9", "rdx")
        code.jump(element, "e")
        code.jump(view)
        code.label(is_integer)
        code.compare_number("rdx", 1)
        code.jump(element, "e")
        code.compare_number("rdx", 0)
        code.jump("general", "e")
        code.jump(view)

    def require_writable(self, handle: str) -> None:
        """Go to the general function where an array is a view that may not be written to, or of something else."""
        code, is_whole = self.code, self.new_label()
        code.load("rdx", handle, _VIEW)
        code.set("rcx", _NONE)
        code.compare("rdx", "rcx")
        code.jump(is_whole, "e")
        code.compare_number("rdx", 0)
        code.jump("general", "e")
        self.unless_type("rdx", self._kind, "general")
        code.label(is_whole)

    def require_alone(self, storage: str) -> None:
        """Go to the general function where a storage has more than its host side."""
        code = self.code
        code.set("rcx", _NONE)
        code.compare_with(storage, _VALUE, "rcx")
        code.jump("general", "ne")
        code.compare_with(storage, _STALE, "rcx")
        code.jump("general", "ne")


def subscript(kind: type, before: int) -> bytes:
    """Return the code of ``array[key]``, for integers and slices."""
    function = Function(kind, before)
    code, numpys = function.code, objects.slot(np.ndarray, "subscript").value
    function.begin()
    function.unless_type("rbx", kind, "general")
    function.load_seen("r12", "rbx", storage="r13")
    function.classify_key("rbp", "r12", element="element", view="view")
    code.label("element")
    function.keep("r12")
    function.call(numpys, "r12", "rbp")
    code.move("r14", "rax")
    function.drop("r12")
    code.move("rax", "r14")
    code.jump("return")
    code.label("view")
    code.set("rcx", _NONE)
    code.compare("r13", "rcx")
    code.jump("general", "e")  # which gives it a storage
    function.unless_few("rbx", "large")
    code.jump("part")
    code.label("large")  # one view in so many is weighed: that goes the general way
    code.set("rax", id(balance))
    code.load("rax", "rax", objects.offset(type(balance).limit))
    code.set("rcx", id(0))
    code.compare("rax", "rcx")
    code.jump("part", "e")
    code.set("rax", ctypes.addressof(cells))
    code.decrement("rax", _COUNT)
    code.jump("part", "ne")
    code.set("rcx", SAMPLED)
    code.store("rax", _COUNT, "rcx")
    code.jump("general")
    code.label("part")
    function.require_writable("rbx")
    function.keep("r12")
    function.call(numpys, "r12", "rbp")
    code.move("r14", "rax")
    function.drop("r12")
    code.move("rax", "r14")
    code.compare_number("r14", 0)
    code.jump("return", "e")
    code.set("rcx", id(np.ndarray))
    code.compare_with("r14", TYPE, "rcx")
    code.jump("return", "ne")
    function.make_handle("r14", "r12")
    function.put("r12", _HELD, "r13")
    code.load("r15", "rbx", _HOST)
    function.put("r12", _HOST, "r15")
    code.load("r13", "rbx", _VIEW)
    code.set("rcx", _NONE)
    code.compare("r13", "rcx")
    code.jump("of view", "ne")
    function.put("r12", _VIEW, "rbx")
    function.put("r12", _AT, "rbp")
    code.jump("size")
    code.label("of view")
    function.put("r12", _VIEW, "r13")
    function.put("r12", _AT, id(NOWHERE))
    code.label("size")
    function.unless_few("rbx", "unknown")
    code.jump("few")
    code.label("unknown")
    function.unless_smaller("r14", "many")
    code.label("few")
    code.set("rax", ctypes.addressof(cells))
    code.load("r15", "rax", _FEW)
    function.put("r12", _KNOWN, "r15")
    code.move("rax", "r12")
    code.jump("return")
    code.label("many")
    function.put("r12", _KNOWN, _NONE)
    code.move("rax", "r12")
    code.jump("return")
    code.label("no handle")
    function.drop("r14")
    code.set("rax", 0)
    code.jump("return")
    function.end()
    return code.assembled()


_REALS = (float, np.float64, int, np.int64, bool, np.bool_, np.float32, np.int32, np.uint8)
_INTEGERS = (int, np.int64, bool, np.bool_, np.int32, np.uint8)
_FITTING: dict[Any, tuple[type, ...]] = {
    np.float64: _REALS,
    **dict.fromkeys((np.int64, np.int32, np.uint8, np.bool_, np.int16, np.int8), _INTEGERS),
    np.complex128: (complex, np.complex128, *_REALS),
    np.float32: (np.float32, bool, np.bool_, np.uint8),
}
"""Types of elements -> types of single values that are written as they are: none warns, nor runs code of the user's."""
_NUMBERS = (np.float64, np.int64, np.float32, np.int32, np.complex128)
"""Types of numbers that stand next to arrays as they are."""
MOST_WRITTEN = 500
"""Elements up to which NumPy keeps Python's lock while it writes, so that no other thread sees anything between."""


def _require_small_writes(function: Function, array: str) -> None:
    function.unless_smaller(array, "general", MOST_WRITTEN + 1)


def ass_subscript(kind: type, before: int) -> bytes:
    """Return the code of ``array[key] = value``, for integers and slices, and numbers or arrays of the same dtype."""
    function = Function(kind, before)
    code, numpys = function.code, objects.slot(np.ndarray, "ass_subscript").value
    function.begin()
    code.move("r14", "rdx")
    code.compare_number("r14", 0)
    code.jump("general", "e")
    function.unless_type("rbx", kind, "general")
    function.load_seen("r12", "rbx", storage="r13")
    function.unless_type("r14", kind, "number")
    # Of `a[key] += b`: the part has been written to.
    code.load("rax", "r14", _HELD)
    code.compare_with("rbx", _HELD, "rax")
    code.jump("another", "ne")
    code.compare_with("r14", _VIEW, "rbx")
    code.jump("another", "ne")
    code.set("rcx", _NONE)
    code.compare_with("rbx", _VIEW, "rcx")
    code.jump("another", "ne")
    code.compare_with("r14", _AT, "rbp")
    code.jump("another", "ne")
    code.set("rax", 0)
    code.jump("return")
    code.label("another")
    function.load_seen("r15", "r14", storage="r8")
    code.move("r14", "r15")
    code.load("rax", "r12", ARRAY_DTYPE)
    code.compare_with("r14", ARRAY_DTYPE, "rax")
    code.jump("general", "ne")
    code.jump("value")
    code.label("number")
    code.load("rax", "r14", TYPE)
    code.load("rdx", "r12", ARRAY_DTYPE)
    for dtype, kinds in _FITTING.items():
        code.set("rcx", id(np.dtype(dtype)))
        code.compare("rdx", "rcx")
        code.jump(f"not {dtype}", "ne")
        for each in kinds:
            code.set("rcx", id(each))
            code.compare("rax", "rcx")
            code.jump("value", "e")
        code.jump("general")
        code.label(f"not {dtype}")
    code.jump("general")
    code.label("value")
    function.require_writable("rbx")
    code.set("rcx", _NONE)
    code.compare("r13", "rcx")
    code.jump("key", "e")
    function.require_alone("r13")
    code.label("key")
    code.set("rcx", _ELLIPSIS)
    code.compare("rbp", "rcx")
    code.jump("part", "e")
    function.classify_key("rbp", "r12", element="element", view="part")
    code.label("element")
    code.set("rcx", id(np.ndarray))
    code.compare_with("r14", TYPE, "rcx")
    code.jump("general", "e")
    code.label("write")
    function.keep("r12")
    function.keep("r14")
    function.call(numpys, "r12", "rbp", "r14")
    code.move("r13", "rax")
    function.drop("r12")
    function.drop("r14")
    code.move("rax", "r13")
    code.jump("return")
    code.label("part")
    function.unless_reported()
    function.unless_few("rbx", "large")
    function.unless_smaller("r12", "large", MOST_WRITTEN + 1)
    code.jump("write")
    code.label("large")  # the part alone is asked for its size
    code.set("rcx", _NONE)
    code.compare("r13", "rcx")
    code.jump("general", "e")
    function.call(objects.slot(np.ndarray, "subscript").value, "r12", "rbp")
    code.compare_number("rax", 0)
    code.jump("failed", "e")
    code.move("r13", "rax")
    code.set("rcx", id(np.ndarray))
    code.compare_with("r13", TYPE, "rcx")
    code.jump("not a part", "ne")
    function.unless_smaller("r13", "not a part", MOST_WRITTEN + 1)
    code.set("r15", _ELLIPSIS)
    function.keep("r14")
    function.call(numpys, "r13", "r15", "r14")
    code.move("r15", "rax")
    function.drop("r13")
    function.drop("r14")
    code.move("rax", "r15")
    code.jump("return")
    code.label("not a part")
    function.drop("r13")
    code.jump("general")
    code.label("failed")
    code.set("rax", 2**64 - 1)
    code.jump("return")
    function.end()
    return code.assembled()


def _load_number(function: Function, number: str, array: str, target: str) -> None:
    """Let a register have a number as it stands next to an array of NumPy's: as an array of one element if it is kept.

    NumPy takes half the time for that. Everything else goes to the general function, which keeps new numbers.
    """
    code = function.code
    is_plain, of_floats, looked_up, found, full, other = (function.new_label() for _ in range(6))
    code.load("rax", number, TYPE)
    for each in _NUMBERS:
        code.set("rcx", id(each))
        code.compare("rax", "rcx")
        code.jump(is_plain, "e")
    code.load("rdx", array, ARRAY_DTYPE)
    code.set("rcx", id(_FLOAT64))
    code.compare("rdx", "rcx")
    code.jump(of_floats, "e")
    code.set("rcx", id(float))  # beside other dtypes a float is what it is, and an integer is kept beside some
    code.compare("rax", "rcx")
    code.jump(is_plain, "e")
    code.set("rcx", id(int))
    code.compare("rax", "rcx")
    code.jump("general", "ne")
    code.set("rcx", id(inlining.INT64))
    code.compare("rdx", "rcx")
    code.jump("general", "ne")
    code.set("r15", id(inlining.INTEGERS))
    code.jump(looked_up)
    code.label(of_floats)
    code.set("r15", id(inlining.FLOATS))
    code.set("rcx", id(float))
    code.compare("rax", "rcx")
    code.jump(looked_up, "e")
    code.set("rcx", id(int))
    code.compare("rax", "rcx")
    code.jump("general", "ne")
    code.label(looked_up)
    function.call("PyDict_GetItem", "r15", number)
    code.compare_number("rax", 0)
    code.jump(found, "ne")
    function.call("PyObject_IsTrue", number)
    code.compare_number("rax", 0)
    code.jump(is_plain, "e")
    code.compare_number_with("r15", SIZE, inlining.MAX_CONSTANTS)
    code.jump(full, "ge")
    code.jump("general")
    code.label(full)
    code.set("rcx", id(float))
    code.compare_with(number, TYPE, "rcx")
    code.jump("general", "ne")
    code.label(is_plain)
    code.move(target, number)
    code.jump(other)
    code.label(found)
    code.move(target, "rax")
    code.label(other)


def _load_operand(function: Function, kind: type, handle: str, target: str, most: int | None) -> None:
    """Let a register have the host's view of an operand of ours that is small."""
    function.load_seen(target, handle, storage="r13")
    function.unless_few(handle, "general")
    if most is not None:
        function.unless_smaller(target, "general", most)


def _load_other(function: Function, kind: type, other: str, array: str, target: str, most: int | None) -> None:
    """Let a register have the second operand, of ours or a number."""
    code, is_number, is_loaded = function.code, function.new_label(), function.new_label()
    function.unless_type(other, kind, is_number)
    _load_operand(function, kind, other, target, most)
    code.jump(is_loaded)
    code.label(is_number)
    _load_number(function, other, array, target)
    code.label(is_loaded)


def _compute(function: Function, numpys: int, *operands: str) -> None:
    """Call a function of NumPy's and return what it makes, as ours."""
    code = function.code
    function.unless_reported()
    for each in operands:
        function.keep(each)
    code.load("rdx", "rsp", 0)  # what a comparison is
    function.call(numpys, *operands)
    code.move("r13", "rax")
    for each in operands:
        function.drop(each)
    code.move("rax", "r13")
    code.compare_number("r13", 0)
    code.jump("return", "e")
    function.wrap("r13", "r12")
    function.end_wrap("r13")


def binary(kind: type, before: int, numpys: int, name: str, most: int | None = None) -> bytes:
    """Return the code of an operator such as ``a + b``, either of which is ours, by its method's name."""
    function = Function(kind, before)
    code = function.code
    function.begin()
    function.unless_type("rbx", kind, "reflected")
    _load_operand(function, kind, "rbx", "r12", most)
    _load_other(function, kind, "rbp", "r12", "r14", most)
    code.jump("compute")
    code.label("reflected")
    function.unless_type("rbp", kind, "general")
    _load_operand(function, kind, "rbp", "r14", most)
    _load_number(function, "rbx", "r14", "r12")
    code.label("compute")
    _compute(function, numpys, "r12", "r14")
    function.end_of_two(getattr(kind, f"__{name}__"), getattr(kind, f"__r{name}__"))
    return code.assembled()


def compare(kind: type, before: int, numpys: int) -> bytes:
    """Return the code of ``a < b`` and its kin."""
    function = Function(kind, before)
    function.begin()
    function.unless_type("rbx", kind, "general")
    _load_operand(function, kind, "rbx", "r12", None)
    _load_other(function, kind, "rbp", "r12", "r14", None)
    _compute(function, numpys, "r12", "r14")
    function.end()
    return function.code.assembled()


def unary(kind: type, before: int, numpys: int) -> bytes:
    """Return the code of ``-a`` or ``abs(a)``."""
    function = Function(kind, before)
    function.begin()
    function.unless_type("rbx", kind, "general")
    _load_operand(function, kind, "rbx", "r12", None)
    _compute(function, numpys, "r12")
    function.end()
    return function.code.assembled()


def matrix_multiply(kind: type, before: int, numpys: int) -> bytes:
    """Return the code of ``a @ b``, of vectors and matrices of ours."""
    function = Function(kind, before)
    code = function.code
    function.begin()
    function.unless_type("rbx", kind, "general")
    function.unless_type("rbp", kind, "general")
    _load_operand(function, kind, "rbx", "r12", None)
    _load_operand(function, kind, "rbp", "r14", None)
    code.load_int("rax", "r12", ARRAY_NDIM)
    code.load_int("rdx", "r14", ARRAY_NDIM)
    for register in ("rax", "rdx"):
        code.compare_number(register, 2)
        code.jump("general", "g")
    code.compare("rax", "rdx")
    code.jump("compute", "ne")
    code.compare_number("rax", 2)
    code.jump("compute", "ne")
    code.load("rcx", "r12", ARRAY_SHAPE)
    code.load("rax", "rcx", 0)
    code.load("rcx", "r14", ARRAY_SHAPE)
    code.multiply("rax", "rcx", 8)
    code.set("rcx", ctypes.addressof(cells))
    code.compare_with("rcx", _MOST, "rax")
    code.jump("general", "le")
    code.label("compute")
    _compute(function, numpys, "r12", "r14")
    function.end_of_two(kind.__matmul__, kind.__rmatmul__)  # type: ignore[attr-defined]
    return code.assembled()


def in_place(kind: type, before: int, numpys: int) -> bytes:
    """Return the code of an operator such as ``a += b``."""
    function = Function(kind, before)
    code = function.code
    function.begin()
    function.unless_type("rbx", kind, "general")
    _load_operand(function, kind, "rbx", "r12", MOST_WRITTEN + 1)
    code.set("rcx", _NONE)
    code.compare("r13", "rcx")
    code.jump("alone", "e")
    function.require_alone("r13")
    code.label("alone")
    function.require_writable("rbx")
    _load_other(function, kind, "rbp", "r12", "r14", None)
    function.unless_reported()
    function.keep("r12")
    function.keep("r14")
    function.call(numpys, "r12", "r14")
    code.move("r13", "rax")
    function.drop("r12")
    function.drop("r14")
    code.move("rax", "r13")
    code.compare_number("r13", 0)
    code.jump("return", "e")
    function.drop("r13")
    code.compare("r13", "r12")
    code.jump("general", "ne")
    function.keep("rbx")
    code.move("rax", "rbx")
    code.jump("return")
    function.end()
    return code.assembled()


__all__ = ["ass_subscript", "binary", "cells", "compare", "in_place", "matrix_multiply", "subscript", "unary"]

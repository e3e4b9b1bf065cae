"""Operands that the interpreter alone holds, such as ``a + b`` in ``(a + b) * 2``: results may take their place.

NumPy does so as well. An operand whose only reference is on the interpreter's stack is given back as soon as the
operator has returned, so that nobody sees it change. But functions in C may hold the only reference to what they call
an operator on, and go on with it. Who calls is told by where the operator's function returns to: in the function of
Python's that applies operators, and, so many words further up the stack, at the one place where the interpreter calls
that. These are found once for each operator, by a class whose operator copies the stack.
"""

from __future__ import annotations

import ctypes
import functools
import operator
import sys
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from oxinp._core.native import objects, pages
from oxinp._core.native.assembler import Assembler, stand_ins
from oxinp._core.native.function import HELD, HOST, NONE, VIEW, Function
from oxinp._core.native.loops import ALIGNED, MOST, OWNER, WRITEABLE
from oxinp._core.native.objects import ARRAY_BASE, ARRAY_DTYPE, ARRAY_FLAGS, ARRAY_NDIM, TYPE

_NUM_WORDS = 32
_Range = tuple[int, int]


class Caller(NamedTuple):
    """Where an operator's function returns to if the interpreter applies the operator.

    Attributes
    ----------
    of_first, of_second, of_both : int
        Where it returns to if it is asked for its first operand's class, for its second one's, or for that of both.
    depth : int
        Bytes from there on the stack to where Python's function for operators returns to.
    interpreter : int
        Where that is.
    """

    of_first: int
    of_second: int
    of_both: int
    depth: int
    interpreter: int


UNKNOWN = Caller(0, 0, 0, 0, 0)
"""No function returns to there."""
_OF_FIRST, _OF_SECOND, _OF_BOTH, _DEPTH, _INTERPRETER, _UFUNC = stand_ins(6)
_OWN = OWNER | ALIGNED | WRITEABLE
_INEXACT = tuple(np.dtype(each) for each in (np.float64, np.float32, np.complex128))
_INTEGERS = tuple(np.dtype(each) for each in (np.int64, np.int32))
"""Types of elements of which operators make more of the same, but for quotients of integers."""
_NUM_REFERENCES = 2
"""Those of an array's view on the host that holds nothing else: as `_seen` and as `_host`."""
_SYMBOLS = {"add": ("+", operator.add), "subtract": ("-", operator.sub)}
_SYMBOLS |= {"multiply": ("*", operator.mul), "true_divide": ("/", operator.truediv)}
"""Slots of operators whose results may take a temporary's place."""
_IS_KNOWN = objects.ARE_KNOWN and sys.implementation.name == "cpython" and (3, 12) <= sys.version_info < (3, 14)
"""Later the interpreter itself borrows references."""


class _Probe:
    """Whose operators are replaced by a function that copies the stack."""

    def __add__(self, other: object) -> object:
        return NotImplemented

    __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = __add__


def _copying(words: ctypes.Array[ctypes.c_uint64]) -> bytes:
    """Return the code of an operator that copies the stack, from where it returns to."""
    code = Assembler()
    code.set("rdx", ctypes.addressof(words))
    for i in range(_NUM_WORDS):
        code.load("rcx", "rsp", 8 * i)
        code.store("rdx", 8 * i, "rcx")
    code.set("rax", id(NotImplemented))
    code.ret()
    return code.assembled()


def _interpreter() -> _Range:
    """Return where the code begins and ends that the interpreter is part of; zeros where that is unknown."""
    at = objects.address("_PyEval_EvalFrameDefault")
    with open("/proc/self/maps") as maps:  # noqa: PTH123 - to import `pathlib` takes as long as all code of slots
        lines = maps.read().splitlines()
    for line in lines:
        where, flags, *_ = line.split()
        start, end = (int(each, 16) for each in where.split("-"))
        if start <= at < end and "x" in flags:
            return start, end
    return 0, 0


def _follows_call(address: int) -> bool:
    """Whether code at an address is what a call returns to."""
    before = ctypes.string_at(address - 7, 7)
    return before[2] == 0xE8 or any(before[-n] == 0xFF for n in (2, 3, 6, 7))


def _stack(words: ctypes.Array[ctypes.c_uint64], apply: Callable[[object], object]) -> list[int]:
    """Return what has been on the stack when an operator was applied."""
    try:
        apply(_Probe())
    except TypeError:  # no class knows how
        return list(words)
    raise AssertionError


@functools.cache
def caller(name: str) -> Caller:
    """Find who calls the operator of a slot if the interpreter applies it."""
    if not _IS_KNOWN or name not in _SYMBOLS:
        return UNKNOWN
    words = (ctypes.c_uint64 * _NUM_WORDS)()
    places = pages.mapped([_copying(words)])
    if places is None:
        return UNKNOWN
    slot = objects.slot(_Probe, name)
    before = slot.value
    slot.value = places[0]
    try:
        return _find(words, *_SYMBOLS[name])
    except OSError:  # there is nothing to read about memory
        return UNKNOWN
    finally:
        slot.value = before


def _find(words: ctypes.Array[ctypes.c_uint64], symbol: str, applied: Callable[[object, object], object]) -> Caller:
    first = eval(f"lambda x: x {symbol} 1")  # noqa: S307 - a symbol of the table's
    nested = eval(f"lambda x: [y {symbol} 2.0 for y in (x,)]")  # noqa: S307
    second = eval(f"lambda x: 1 {symbol} x")  # noqa: S307
    both = eval(f"lambda x: x {symbol} x")  # noqa: S307
    start, end = _interpreter()
    one, other, reflected, alike = (_stack(words, each) for each in (first, nested, second, both))
    in_c = _stack(words, lambda x: applied(x, 1))
    for i in range(1, _NUM_WORDS):
        address = one[i]
        is_common = one[i] == other[i] == reflected[i] == alike[i] != in_c[i]
        if is_common and start + 7 <= address < end and _follows_call(address):
            found = one[0], reflected[0], alike[0]
            if one[0] == other[0] == in_c[0] and all(start <= each < end for each in found):
                return Caller(*found, 8 * i, address)
            break
    return UNKNOWN


def numbers(found: Caller, ufunc: np.ufunc) -> dict[int, int]:
    """Return what the stand-ins of `reuse` stand for in an operator's code, by who calls it and what computes it."""
    return dict(zip((_OF_FIRST, _OF_SECOND, _OF_BOTH, _DEPTH, _INTERPRETER, _UFUNC), (*found, id(ufunc)), strict=True))


def reuse(function: Function, handle: str, operands: tuple[str, str], place: int, label: str) -> None:
    """Return an operand that the interpreter alone holds, with an operator's result; go to a label if it is not so.

    Parameters
    ----------
    function : Function
    handle : str
        A register with the operand, an array of ours.
    operands : tuple of str
        Registers with both operands: the array's view on the host, and another array of NumPy's or a number.
    place : int
        Of that operand.
    label : str
    """
    array, other = operands[place], operands[1 - place]
    function.multiply_extents(array)
    function.code.compare_number("rax", MOST)  # of fewer a loop alone makes new ones sooner than NumPy writes to these
    function.code.jump(label, "le")
    code, is_done = function.code, function.new_label()
    _require_one_reference(function, handle, array, label)
    _require_alike(function, array, other, label)
    _require_interpreter(function, label)
    for i, given in enumerate((*operands, array)):
        code.store("rsp", 8 + 8 * i, given)
        function.keep(given)
    code.set("rdi", _UFUNC)
    code.move("rsi", "rsp")
    code.add("rsi", 8)
    code.set("rdx", 3)
    code.set("rcx", 0)
    code.call(objects.address("PyObject_Vectorcall"))
    code.move("r13", "rax")
    for given in (*operands, array):
        function.drop(given)
    code.compare_number("r13", 0)
    code.jump(is_done, "ne")
    code.set("rax", 0)
    code.jump("return")
    code.label(is_done)
    function.drop("r13")
    function.keep(handle)
    code.move("rax", handle)
    code.jump("return")


def _require_one_reference(function: Function, handle: str, array: str, label: str) -> None:
    """Go to a label unless one reference leads to an array of ours, and its elements are its own."""
    code = function.code
    code.load_int("rax", handle)
    code.compare_number("rax", 1)
    code.jump(label, "ne")
    code.compare_number_with(handle, objects.weak_references(function.kind), 0)
    code.jump(label, "ne")
    code.set("rcx", NONE)
    for attribute in (HELD, VIEW):
        code.compare_with(handle, attribute, "rcx")
        code.jump(label, "ne")
    code.compare_with(handle, HOST, array)
    code.jump(label, "ne")
    code.load_int("rax", array)
    code.compare_number("rax", _NUM_REFERENCES)
    code.jump(label, "ne")
    code.compare_number_with(array, ARRAY_BASE, 0)
    code.jump(label, "ne")
    code.load_int("rax", array, ARRAY_FLAGS)
    code.and_number("rax", _OWN)
    code.compare_number("rax", _OWN)
    code.jump(label, "ne")


def _require_alike(function: Function, array: str, other: str, label: str) -> None:
    """Go to a label unless what is made of an array of NumPy's and another, or a number, has its dtype and shape."""
    code, is_alike = function.code, function.new_label()
    code.load("rax", array, ARRAY_DTYPE)
    for dtypes, numbers in ((_INEXACT, (float, int)), (_INTEGERS, (int,))):
        is_fit, is_number, is_other = (function.new_label() for _ in range(3))
        function.if_one_of("rax", dtypes, is_fit)
        code.jump(is_other)
        code.label(is_fit)
        if dtypes is _INTEGERS:
            _require_closed(function, label)
        function.unless_type(other, np.ndarray, is_number)
        code.compare_with(other, ARRAY_DTYPE, "rax")
        code.jump(label, "ne")
        _require_shape(function, array, other, label)
        code.jump(is_alike)
        code.label(is_number)
        code.load("rax", other, TYPE)
        function.if_one_of("rax", numbers, is_alike)
        code.jump(label)
        code.label(is_other)
    code.jump(label)
    code.label(is_alike)


def _require_closed(function: Function, label: str) -> None:
    """Go to a label where integers give no integers."""
    code = function.code
    code.set("rcx", _UFUNC)
    code.set("rdx", id(np.true_divide))
    code.compare("rcx", "rdx")
    code.jump(label, "e")


def _require_shape(function: Function, array: str, other: str, label: str) -> None:
    """Go to a label unless what two arrays of NumPy's broadcast to has the first one's shape."""
    code = function.code
    code.load_int("rax", other, ARRAY_NDIM)
    code.load_int("rcx", array, ARRAY_NDIM)
    code.compare("rax", "rcx")
    code.jump(label, "g")
    function.multiply_broadcast(array, other)
    code.move("r13", "rax")
    function.multiply_extents(array)
    code.compare("rax", "r13")
    code.jump(label, "ne")


def _require_interpreter(function: Function, label: str) -> None:
    """Go to a label unless the interpreter applies the operator."""
    code, is_called = function.code, function.new_label()
    code.load("rax", "rsp", function.depth_of_return())
    for place in (_OF_FIRST, _OF_SECOND, _OF_BOTH):
        code.set("rcx", place)
        code.compare("rax", "rcx")
        code.jump(is_called, "e")
    code.jump(label)
    code.label(is_called)
    code.set("rcx", _DEPTH)
    code.add_register("rcx", "rsp")
    code.load("rax", "rcx", function.depth_of_return())
    code.set("rcx", _INTERPRETER)
    code.compare("rax", "rcx")
    code.jump(label, "ne")


__all__ = ["UNKNOWN", "Caller", "caller", "numbers", "reuse"]

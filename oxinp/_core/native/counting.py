"""Stubs: what stands in a slot, in front of its function, until that has been called often enough.

A stub counts a call and goes on in the function. Once the count is out it calls into Python first, which is to put
something better into the slot. All stubs run the same code, with a record of what each is of.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

from oxinp._core.native import objects
from oxinp._core.native.assembler import Assembler
from oxinp._core.native.objects import TYPE
from oxinp._core.native.pages import mapped

NEVER = 2**62
"""A count that no program comes to the end of."""


class Counted(NamedTuple):
    """What a stub is of.

    Attributes
    ----------
    before : int
        The address of the function that it stands in front of.
    failed : int
        What the function returns where something is raised.
    methods : tuple of object
        The method and the reflected one that are called in place of the function, which would ask for itself in the
        slot; none where it does not.
    has_third : bool
        Whether there is a third operand, which these are not given: with one, the function is called after all.
    """

    before: int
    failed: int = 0
    methods: tuple[Any, ...] = ()
    has_third: bool = False


_LEFT, _NEXT, _OUT, _FAILED, _BEFORE, _METHOD, _REFLECTED, _RECORD_NBYTES = (8 * i for i in range(8))
"""Where a record has how many calls are left, where the stub goes on, and what else it is of; and how long it is."""
_RECORD = "r11"  # the register that has its address, which no function takes an argument in
_ARGUMENTS = ("rdi", "rsi", "rdx", "rcx", _RECORD)  # an odd number, which leaves the stack as calls want it
_STUB = struct.Struct("<2sQBix")  # the record's address to its register, and a jump


def _go_on(code: Assembler, place: int) -> None:
    code.load("rax", _RECORD, place)
    code.go_to_register("rax")


def _counting() -> bytes:
    """Return the code that all stubs go to."""
    code = Assembler()
    code.decrement(_RECORD, _LEFT)
    code.jump("is out", "e")
    _go_on(code, _NEXT)
    code.label("is out")
    for register in _ARGUMENTS:
        code.push(register)
    code.load("rdi", _RECORD, _OUT)
    code.call(objects.address("PyObject_CallNoArgs"))
    code.compare_number("rax", 0)
    code.jump("failed", "e")
    code.move("rdi", "rax")
    code.call(objects.address("Py_DecRef"))
    for register in reversed(_ARGUMENTS):
        code.pop(register)
    _go_on(code, _NEXT)
    code.label("failed")
    for register in reversed(_ARGUMENTS):
        code.pop(register)
    code.load("rax", _RECORD, _FAILED)
    code.ret()
    return code.assembled()


def _of_three() -> bytes:
    """Return the code of what comes before `_of_two` where there may be a third operand that is not None."""
    code = Assembler()
    code.set("rcx", id(None))
    code.compare("rdx", "rcx")
    code.jump("is none", "e")
    _go_on(code, _BEFORE)
    code.label("is none")
    return code.assembled()


def _of_two(kind: type) -> bytes:
    """Return the code that calls the methods of an operator, as `Frame.end_of_two` does."""
    code = Assembler()
    for operand, other, method in (("rdi", "rsi", _METHOD), ("rsi", "rdi", _REFLECTED)):
        label = f"not by {method}"
        code.set("rcx", id(kind))
        code.compare_with(operand, TYPE, "rcx")
        code.jump(label, "ne")
        code.add("rsp", -24)
        code.store("rsp", 0, operand)
        code.store("rsp", 8, other)
        code.load("rdi", _RECORD, method)
        code.move("rsi", "rsp")
        code.set("rdx", 2)
        code.set("rcx", 0)
        code.call(objects.address("PyObject_Vectorcall"))
        code.add("rsp", 24)
        code.ret()
        code.label(label)
    _go_on(code, _BEFORE)
    return code.assembled()


def stubs(
    kind: type, counted: Sequence[tuple[Counted, Callable[[], object]]], count: int
) -> list[tuple[int, ctypes.c_int64]] | None:
    """Return the addresses of stubs, and how many calls each has left; None if the system forbids code.

    Parameters
    ----------
    kind : type
        That of arrays.
    counted : sequence of (Counted, callable)
        What each stub is of, and what is called when the count is out; what that raises the caller of the slot is told.
    count : int
        Which is counted down from.
    """
    common = (_counting(), _of_three(), _of_two(kind))
    to_counting, to_three, to_two, first = accumulate(map(len, common), initial=0)
    records = (ctypes.c_int64 * (len(counted) * _RECORD_NBYTES // 8))()
    places = range(ctypes.addressof(records), ctypes.addressof(records) + ctypes.sizeof(records), _RECORD_NBYTES)
    ends = range(first + _STUB.size - 1, first + len(counted) * _STUB.size, _STUB.size)
    jumps = [_STUB.pack(b"\x49\xbb", place, 0xE9, to_counting - end) for place, end in zip(places, ends, strict=True)]
    found = mapped([b"".join((*common, *jumps))])
    if found is None:
        return None
    address = found[0]
    words: list[int] = []
    for each, out in counted:
        methods = map(id, each.methods or (None, None))
        asked = address + (to_three if each.has_third else to_two)
        words += (count, asked if each.methods else each.before, id(out), each.failed, each.before, *methods)
    struct.pack_into(f"{len(words)}q", records, 0, *words)
    ctypes.pythonapi.Py_IncRef(
        ctypes.py_object((records, counted))
    )  # for good: other threads may be in a stub at the end
    return [(address + first + i * _STUB.size, ctypes.c_int64.from_address(place)) for i, place in enumerate(places)]


__all__ = ["NEVER", "Counted", "stubs"]

"""Functions that write to a small array on the host, which NumPy is to compute, in machine code.

What `host.fallback.first_written` does, and what `placed_on_host` does of an array called ``out``, of which this is the
case that most calls are: each array is passed on as its host's view, numbers, lists of numbers and their kin as they
are. NumPy's functions that are in C are called in the user's frame.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from oxinp._core.native import objects
from oxinp._core.native.anew import BEFORE, FUNCTION, KEYWORDS_ANEW, NUM_PASSED, ROOM, PassingCall
from oxinp._core.native.assembler import filled
from oxinp._core.native.call import ARGUMENTS, CALLABLE, KEYWORDS
from oxinp._core.native.objects import SIZE, TUPLE_ITEMS

_STORAGE, _RESULT, _HANDLE, *_GIVEN = (ROOM + 8 * i for i in range(6))
_ROOM = ROOM + 8 * 6
_OUT = sys.intern("out")
_OF_FIRST = tuple(map(sys.intern, ("casting", "mode", "where")))
_OF_OUT = (*KEYWORDS_ANEW, _OUT)
_MOST = 4


def into(kind: type, before: int | None, function: Callable[..., Any]) -> bytes:
    """Return the code of a function in C that writes to its first argument and returns nothing."""
    return _filled(_code(kind, is_last=before is not None), before, function)


def into_out(kind: type, before: int | None, function: Callable[..., Any]) -> bytes:
    """Return the code of a function that writes to what is given last, as ``out``, and returns that."""
    return _filled(_code_of_out(kind, is_last=before is not None), before, function)


def _filled(code: bytes, before: int | None, function: Callable[..., Any]) -> bytes:
    return filled(code, {FUNCTION: id(function)} | ({} if before is None else {BEFORE: before}))


class _Writing(PassingCall):
    """A call of a function of NumPy's that writes to one of its arguments."""

    def load_target(self, *, is_first: bool) -> None:
        """Let `r12` have the array that is written to, `rbx` its host's view and `r13` its storage."""
        code = self.code
        code.load("rax", "rsp", ARGUMENTS)
        if is_first:
            code.load("r12", "rax")
        else:
            code.load("rcx", "rsp", NUM_PASSED)  # twice as many as there are, which take 8 bytes each
            code.add_register("rcx", "rcx")
            code.add_register("rcx", "rcx")
            code.add_register("rax", "rcx")
            code.load("r12", "rax", -8)
        self.unless_type("r12", self.kind, "general")
        self.load_seen("rbx", "r12", storage="r13")

    def write(self, *, is_first: bool) -> None:
        """Let NumPy write, and `r13` have what it returns or 0; what raises is raised when the writing has ended."""
        code = self.code
        self.load_target(is_first=is_first)
        self.provide_storage("r12", "rbx", "r13")  # nothing else runs from here to where references are taken
        self.require_known(1, 0.0)
        self.unless_reported()
        if not self.is_telling:
            self.require_default_state()
        self.load_target(is_first=is_first)
        self.require_writable("r12")
        self.let_be_alone("r13", "general")
        self.begin_writing("r13")
        code.store("rsp", _STORAGE, "r13")
        code.store("rsp", _HANDLE, "r12")
        for place, given in zip(_GIVEN, (CALLABLE, ARGUMENTS, KEYWORDS), strict=True):  # which errors may lie upon
            code.load("rax", "rsp", given)
            code.store("rsp", place, "rax")
        self.pass_on()
        self.call_with_all()
        code.store("rsp", _RESULT, "r13")
        code.load("r13", "rsp", _STORAGE)
        self.end_writing("r13")
        for place, given in zip(_GIVEN, (CALLABLE, ARGUMENTS, KEYWORDS), strict=True):
            code.load("rax", "rsp", place)
            code.store("rsp", given, "rax")
        code.load("r13", "rsp", _RESULT)

    def end_writing_call(self) -> None:
        """Lay out the rest."""
        self.code.label("no storage")
        self.code.set("rax", 0)
        self.end_call()


@functools.cache
def _code(kind: type, *, is_last: bool) -> bytes:
    """Return the code of all functions that write to their first argument, with numbers for what differs."""
    call = _Writing(kind, BEFORE if is_last else None, is_telling=True, room=_ROOM, keywords=_OF_FIRST)
    call.begin_any(_MOST)
    call.write(is_first=True)
    call.code.move("rax", "r13")
    call.code.jump("return")
    call.end_writing_call()
    return call.code.assembled()


@functools.cache
def _code_of_out(kind: type, *, is_last: bool) -> bytes:
    """Return the code of all functions that write to ``out``, with numbers for what differs."""
    call = _Writing(kind, BEFORE if is_last else None, is_telling=False, room=_ROOM, keywords=_OF_OUT)
    code = call.code
    call.begin_any(_MOST)
    code.load("rcx", "rsp", KEYWORDS)
    code.compare_number("rcx", 0)
    code.jump("general", "e")
    code.load("rax", "rcx", SIZE)
    for _ in range(3):
        code.add_register("rax", "rax")
    code.add_register("rcx", "rax")
    code.set("rax", id(_OUT))
    code.compare_with("rcx", TUPLE_ITEMS - 8, "rax")
    code.jump("general", "ne")
    call.write(is_first=False)
    code.compare_number("r13", 0)
    code.jump("raised", "e")
    call.unless_type("r13", np.ndarray, "is returned")  # a number, where an array has no axes
    code.load("r12", "rsp", _HANDLE)
    call.drop("r13")
    call.keep("r12")
    code.move("r13", "r12")
    code.label("is returned")
    code.move("rax", "r13")
    code.jump("return")
    code.label("raised")
    code.set("rdi", id(RuntimeError))  # that of a context which another thread is in: nothing has been called
    code.call(objects.address("PyErr_ExceptionMatches"))
    code.store("rsp", _RESULT, "rax")
    code.load_int("rax", "rsp", _RESULT)
    code.compare_number("rax", 0)
    code.jump("no storage", "e")
    code.call(objects.address("PyErr_Clear"))
    code.jump("general")
    call.end_writing_call()
    return code.assembled()


__all__ = ["into", "into_out"]

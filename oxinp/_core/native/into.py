"""Functions that write to their first argument, a small array on the host, which NumPy is to compute, in machine code.

What `host.fallback.first_written` does, of which this is the case that most calls are: each array is passed on as its
host's view, numbers, lists of numbers and their kin as they are. NumPy's functions are those in C, which are called in
the user's frame.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

from oxinp._core.native.anew import BEFORE, FUNCTION, ROOM, PassingCall
from oxinp._core.native.assembler import filled
from oxinp._core.native.call import ARGUMENTS

_STORAGE, _RESULT = ROOM, ROOM + 8
_KEYWORDS = tuple(map(sys.intern, ("casting", "mode", "where")))
_MOST = 4


def into(kind: type, before: int | None, function: Callable[..., Any]) -> bytes:
    """Return the code of a function that writes to its first argument and returns nothing."""
    code = _code(kind, is_last=before is not None)
    return filled(code, {FUNCTION: id(function)} | ({} if before is None else {BEFORE: before}))


def _load_target(call: PassingCall) -> None:
    """Let `r12` have the first argument, an array of ours, `rbx` its host's view and `r13` its storage."""
    call.code.load("rax", "rsp", ARGUMENTS)
    call.code.load("r12", "rax")
    call.unless_type("r12", call.kind, "general")
    call.load_seen("rbx", "r12", storage="r13")


@functools.cache
def _code(kind: type, *, is_last: bool) -> bytes:
    """Return the code of all such functions, with numbers that stand for what differs."""
    call = PassingCall(kind, BEFORE if is_last else None, is_telling=True, room=ROOM + 16, keywords=_KEYWORDS)
    code = call.code
    call.begin_any(_MOST)
    _load_target(call)
    call.provide_storage("r12", "rbx", "r13")  # nothing else runs from here to where references are taken
    call.require_known(1, 0.0)
    call.unless_reported()
    _load_target(call)
    call.require_writable("r12")
    call.let_be_alone("r13", "general")
    call.begin_writing("r13")
    code.store("rsp", _STORAGE, "r13")
    call.pass_on()
    call.call_with_all()
    code.store("rsp", _RESULT, "r13")
    code.load("r13", "rsp", _STORAGE)
    call.end_writing("r13")
    code.load("rax", "rsp", _RESULT)
    code.jump("return")
    code.label("no storage")
    code.set("rax", 0)
    call.end_call()
    return code.assembled()


__all__ = ["into"]

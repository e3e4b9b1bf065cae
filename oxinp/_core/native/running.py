"""A call that waits is run, in machine code: what `Call.run` does of one that has run before, with one result.

Whatever is not as usual is left to Python, which begins again.
"""

from __future__ import annotations

import functools

from oxinp._config import config
from oxinp._core.lazy.calls import CALLS, Call, Pending
from oxinp._core.lazy.executor import Executable
from oxinp._core.lazy.op import BoundOp
from oxinp._core.native import objects
from oxinp._core.native.executing import address_of
from oxinp._core.native.function import NONE
from oxinp._core.native.given import ROOM, call_given, give, require_returned, write_given
from oxinp._core.native.launching import VERSION
from oxinp._core.native.leaves import BUFFER_NBYTES, BUFFER_PTR
from oxinp._core.native.locking import answered, locked
from oxinp._core.native.making import ENTRY, GIVEN_VALUE, KEY, NUMBER, RESULT, Making, offsets
from oxinp._core.native.objects import SIZE, TUPLE_ITEMS, TYPE
from oxinp._core.native.operand import require_usual
from oxinp._core.native.weighing import tell

_CALL = offsets(Call, ("_entry", "bound", "leaves", "results", "share"))
_BOUND = offsets(BoundOp, ("direct", "layouts", "told"))
_PENDING = offsets(Pending, ("_buffer", "call", "nbytes", "ptr"))
_VERSION = offsets(Executable, ("version",))["version"]
_fail, _forget = Call.fail, CALLS.pop


@functools.cache
def _address(kind: type) -> int:
    """Return where the code lies that runs a call, given where the argument is; 0 if the system forbids that."""
    call = Making(kind, None, ROOM)
    code = call.code
    call.begin()
    call.begin_made()
    code.load("rbx", "rbx")
    require_usual(call)
    _load_call(call)
    _load_result(call)
    give(call, ("rbx", _CALL["_entry"]), NONE)
    call_given(call, _forget, 2)
    require_returned(call)
    give(call, ("r13", _BOUND["direct"]), "r14")
    write_given(call, address_of(kind))
    call.made(KEY, "rbp")
    code.set("r14", NONE)
    code.compare_with("rbx", _CALL["leaves"], "r14")
    code.jump("has run", "e")  # to free memory for this very Buffer
    _settle(call)
    code.load("r14", "r13", _BOUND["layouts"])
    code.load("r14", "r14", TUPLE_ITEMS)
    tell(call, "r14", GIVEN_VALUE, RESULT)
    code.label("has run")
    code.set("r14", NONE)
    call.keep("r14")
    code.jump("give back")
    return call.end_made()


def call_run(kind: type, before: int | None) -> bytes:
    """Return the code of a call of `Call.run`."""
    return answered(kind, before, 1, locked(kind, _address(kind), _fail))


def forget(kind: type, before: int | None) -> bytes:
    """Return the code of a call of `calls.forget`."""
    call = Making(kind, before, ROOM)
    code = call.code
    call.begin_making(1)
    give(call, ("rbp", 0), NONE)
    call_given(call, _forget, 2)
    call.made(KEY, "rax")
    code.set("r14", NONE)
    call.end_making("r14")
    return code.assembled()


def _load_call(call: Making) -> None:
    """Let `r13` have what is bound in the call in `rbx`, and `r14` the leaves; leave others to Python."""
    code, is_bound = call.code, call.new_label()
    call.unless_type("rbx", Call, "undo")
    code.load("r14", "rbx", _CALL["leaves"])
    call.unless_type("r14", tuple, "undo")
    call.keep_at(GIVEN_VALUE, "r14")
    code.compare_number_with("rbx", _CALL["share"], 0)
    code.jump("undo", "ne")
    code.load("rdx", "rbx", _CALL["results"])
    code.compare_number_with("rdx", SIZE, 1)
    code.jump("undo", "ne")
    code.load("r13", "rbx", _CALL["bound"])
    code.load("rdi", "r13", TYPE)
    call.if_one_of("rdi", (BoundOp,), is_bound)
    code.set("rsi", id(BoundOp))
    code.call(objects.address("PyType_IsSubtype"))
    code.store("rsp", NUMBER, "rax")
    code.test_with("rsp", NUMBER, 1)
    code.jump("undo", "e")
    code.label(is_bound)
    code.load("rdx", "r13", _BOUND["direct"])
    code.compare_number("rdx", 0)
    code.jump("undo", "e")
    call.unless_type("rdx", Executable, "undo")
    code.set("rax", id(config))
    code.load("rax", "rax", VERSION)
    code.compare_with("rdx", _VERSION, "rax")
    code.jump("undo", "ne")
    code.load("rdx", "r13", _BOUND["told"])
    code.compare_number("rdx", 0)
    code.jump("undo", "e")
    call.keep_at(RESULT, "rdx")


def _load_result(call: Making) -> None:
    """Let the stack have the `Pending` that stands for the result; leave to Python one that is gone."""
    code = call.code
    code.load("rdi", "rbx", _CALL["results"])
    code.load("rdi", "rdi", TUPLE_ITEMS)
    code.call(objects.address("PyWeakref_GetObject"))
    code.move("r12", "rax")
    call.unless_type("r12", Pending, "undo")
    code.compare_number_with("r12", _PENDING["ptr"], 0)
    code.jump("undo", "ne")
    call.keep_at(ENTRY, "r12")


def _settle(call: Making) -> None:
    """Let the call have run, and its result be in the Buffer in `rbp`."""
    code = call.code
    code.load("r12", "rsp", ENTRY)
    code.set("rdx", NONE)
    for name in ("leaves", "_entry"):
        call.set_attribute("rbx", _CALL[name], "rdx")
        code.set("rdx", NONE)
    for name, at in (("ptr", BUFFER_PTR), ("nbytes", BUFFER_NBYTES)):
        code.load("rdx", "rbp", at)
        call.put("r12", _PENDING[name], "rdx")
    call.set_attribute("r12", _PENDING["_buffer"], "rbp")
    code.set("rdx", NONE)
    call.set_attribute("r12", _PENDING["call"], "rdx")


__all__ = ["call_run", "forget"]  # of which functions of Python's have the names

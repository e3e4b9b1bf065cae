"""The value of an operation on two arrays or scalars of the device, in machine code: what `record.paired` says.

What it does not find as it usually is it leaves to that.
"""

from __future__ import annotations

import functools

from oxinp._core.lazy.expr import Operation
from oxinp._core.native import joining, objects
from oxinp._core.native.binary import FIRST, GIVEN_OPERATION, SECOND, record_two, require_recording
from oxinp._core.native.locking import answered
from oxinp._core.native.making import ENTRY, LEAVES, RECORD, Making
from oxinp._core.native.operand import unless_ours


def paired(kind: type, before: int | None) -> bytes:
    """Return the code of a call of `record.paired`."""
    return answered(kind, before, 3, _pairing_address(kind))


@functools.cache
def _pairing_address(kind: type) -> int:
    """Return where the code lies that returns the value of an operation on two operands, given where these are."""
    if objects.VECTORCALL is None:
        return 0
    call = Making(kind, None, joining.ROOM)
    code = call.code
    call.begin()
    for at, place in enumerate((GIVEN_OPERATION, FIRST, SECOND)):
        code.load("rdx", "rbx", 8 * at)
        code.store("rsp", place, "rdx")
    call.begin_made()
    code.load("rdi", "rsp", GIVEN_OPERATION)
    call.unless_type("rdi", Operation, "undo")
    require_recording(call)
    code.load("rbx", "rsp", FIRST)
    code.load("rbp", "rsp", SECOND)
    for register in ("rbx", "rbp"):
        unless_ours(call, register, "undo")
    record_two(call)
    code.label("has leaves")
    call.make_tuple(ENTRY, "rdi", ("r12", RECORD["graph"]), ("rsp", LEAVES), "r14")
    code.load("r14", "rsp", ENTRY)
    call.keep("r14")
    code.jump("give back")
    return call.end_made()


__all__ = ["paired"]

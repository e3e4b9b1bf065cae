"""Calls of functions with arguments on the stack, of what is written to parts of arrays, in machine code."""

from __future__ import annotations

from oxinp._core.native import apart, objects
from oxinp._core.native.making import Making

GIVEN = apart.END
"""Where on the stack there are the arguments of functions, behind what `making` and `apart` say."""
MOST_GIVEN = 40
ROOM = GIVEN + 8 * (MOST_GIVEN + (GIVEN // 8 + MOST_GIVEN + 1) % 2)  # an odd number of words


def call_given(call: Making, function: object, count: int, names: tuple[str, ...] | None = None) -> None:
    """Let `rax` have what a function returns for so many arguments on the stack, the last of them named."""
    code = call.code
    code.set("rdi", id(function))
    code.move("rsi", "rsp")
    code.add("rsi", GIVEN)
    code.set("rdx", count - len(names or ()))
    code.set("rcx", 0 if names is None else id(names))
    code.call(objects.address("PyObject_Vectorcall"))


def write_given(call: Making, address: int) -> None:
    """Let `rax` have what the code at an address, see `writing.address_of`, returns for arguments on the stack.

    What is raised is raised, and what is left to Python is so.
    """
    code, is_done = call.code, call.new_label()
    code.move("rdi", "rsp")
    code.add("rdi", GIVEN)
    code.call(address)
    code.compare_number("rax", 0)
    code.jump(is_done, "ne")
    code.call(objects.address("PyErr_Occurred"))
    code.compare_number("rax", 0)
    code.jump("raised", "ne")
    code.jump("undo")
    code.label(is_done)


def give(call: Making, *values: str | tuple[str, int] | int) -> None:
    """Let the stack have arguments: what registers have, or lies at an offset from one, or objects by their address."""
    code = call.code
    for place, value in enumerate(values):
        if isinstance(value, str):
            code.store("rsp", GIVEN + 8 * place, value)
            continue
        if isinstance(value, tuple):
            code.load("rax", *value)
        else:
            code.set("rax", value)
        code.store("rsp", GIVEN + 8 * place, "rax")


def require_returned(call: Making) -> None:
    """Go on where what has been called returned something, in `rax`; what it raised is raised."""
    call.code.compare_number("rax", 0)
    call.code.jump("raised", "e")
    call.code.move("r15", "rax")
    call.drop("r15")


__all__ = ["GIVEN", "MOST_GIVEN", "ROOM", "call_given", "give", "require_returned", "write_given"]

"""What is done under the device's lock, in machine code, and the calls of functions of Python's that it answers."""

from __future__ import annotations

from collections.abc import Callable

from oxinp._core.lazy.building import Missing, is_part
from oxinp._core.native import objects
from oxinp._core.native.given import ROOM, call_given, give
from oxinp._core.native.making import KEPT, Making
from oxinp._runtime.backend import FIRST_LOCK

_acquire, _release = FIRST_LOCK.acquire, FIRST_LOCK.release
_AT_ONCE = (False,)


def locked(kind: type, address: int, failed: Callable[..., object] | None = None) -> int:
    """Return where the code lies that runs other code under the device's lock, unless another thread has it.

    It is given where the arguments are, and returns a new reference; or 0 where an error has been raised, and where
    Python is to do it, which is so, too, where something is to be built first; but for what is a part of what does so.

    Parameters
    ----------
    kind : type
        The class of arrays.
    address : int
        Where the other code lies. It is 0 if the system forbids code; so is what is returned then.
    failed : callable, optional
        Called with the first argument where an error has been raised.
    """
    if not address:
        return 0
    call = Making(kind, None, ROOM)
    code = call.code
    call.begin()
    acquire(call, "not at once")
    code.move("rdi", "rbx")
    code.call(address)
    code.move("r12", "rax")
    code.compare_number("r12", 0)
    code.jump("not done", "e")
    code.label("let go")
    let_go(call)
    code.move("rax", "r12")
    code.jump("return")
    code.label("not done")
    code.call(objects.address("PyErr_Occurred"))
    code.compare_number("rax", 0)
    code.jump("let go", "e")
    call.take_error(KEPT)
    if failed is not None:
        give(call, ("rbx", 0))
        call_given(call, failed, 1)  # returns None, which is not counted
    let_go(call)
    code.set("r12", id(True))
    code.set("rcx", id(Missing))
    code.compare_with("rsp", KEPT, "rcx")
    code.jump("is known", "ne")
    code.set("rdi", id(is_part))
    code.call(objects.address("PyObject_CallNoArgs"))
    code.move("r12", "rax")  # which nobody counts
    code.label("is known")
    call.raise_taken(KEPT)
    code.set("rcx", id(True))
    code.compare("r12", "rcx")
    code.jump("not at once", "ne")  # it is to be built first
    code.set("rax", 0)
    code.jump("return")
    code.label("not at once")  # another thread has the lock, or there was no memory
    code.call(objects.address("PyErr_Clear"))
    code.set("rax", 0)
    code.label("return")
    call.end_body()
    return call.address()


def answered(kind: type, before: int | None, count: int, address: int) -> bytes:
    """Return the code of a call of a function with so many arguments, for which what lies at an address is run."""
    call = Making(kind, before)
    code = call.code
    call.begin_call(count)
    code.label(f"{count} arguments")
    if not address:
        code.jump("general")
    code.move("rdi", "rbp")
    code.call(address)
    call.return_or_go_on()
    call.end_call()
    return code.assembled()


def acquire(call: Making, label: str) -> None:
    """Take the device's lock; go to a label where another thread has it, or there is no memory."""
    code = call.code
    code.set("rdi", id(_acquire))
    code.set("rsi", id(_AT_ONCE))
    code.set("rdx", 0)
    code.call(objects.address("PyObject_Call"))
    code.set("rcx", id(True))
    code.compare("rax", "rcx")
    code.jump(label, "ne")


def let_go(call: Making) -> None:
    """Let go of the lock, which this thread has."""
    call.code.set("rdi", id(_release))
    call.code.call(objects.address("PyObject_CallNoArgs"))  # returns None, which is not counted


__all__ = ["acquire", "answered", "let_go", "locked"]

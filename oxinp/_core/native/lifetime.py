"""How arrays come and go: the memory of a few that are gone is kept for the next ones, in machine code.

A loop over parts of an array makes an object of ours each time and lets it go. Python finds memory for each, and at its
end asks its class, and every class that this derives from, what there is to do.
"""

from __future__ import annotations

import ctypes

from oxinp._core.lazy.handle import Handle
from oxinp._core.native import objects
from oxinp._core.native.frame import Frame
from oxinp._core.native.function import AT, HELD, HOST, KNOWN, SEEN, VIEW
from oxinp._core.native.objects import FREE, TYPE

_MOST = 128
_FIRST, _COUNT = 0, 8
_kept = (ctypes.c_int64 * 2)(0, 0)
"""The first of the arrays that are gone, each of which has the next one in a slot of its own, and how many are."""
_NEXT = SEEN


def can_be_kept(kind: type) -> bool:
    """Whether an array is nothing but its slots."""
    own = {name for each in kind.__mro__ for name in getattr(each, "__slots__", ())}
    return own == set(Handle.__slots__) and not hasattr(kind, "__del__") and not kind.__dictoffset__


def allocate(kind: type, before: int) -> bytes:
    """Return the code of what makes an array without any of its attributes."""
    function = Frame(kind, before)
    code = function.code
    function.begin()
    code.set("rcx", id(kind))
    code.compare("rbx", "rcx")
    code.jump("general", "ne")
    code.set("r12", ctypes.addressof(_kept))
    code.load("r13", "r12", _FIRST)
    code.compare_number("r13", 0)
    code.jump("general", "e")
    code.load("rax", "r13", _NEXT)
    code.store("r12", _FIRST, "rax")
    code.decrement("r12", _COUNT)
    code.set("rax", 0)
    code.store("r13", _NEXT, "rax")
    code.set("rax", 1)
    code.store("r13", 0, "rax")  # the count of references
    function.call("PyObject_GC_Track", "r13")
    code.move("rax", "r13")
    code.jump("return")
    function.end()
    return code.assembled()


def deallocate(kind: type, before: int) -> bytes:
    """Return the code of what is done when there is no reference to an array any more, of this class or derived."""
    function = Frame(kind, before)
    code, weak = function.code, objects.weak_references(kind)
    function.begin()
    function.call("PyObject_GC_UnTrack", "rbx")
    code.compare_number_with("rbx", weak, 0)
    code.jump("alone", "e")
    function.call("PyObject_ClearWeakRefs", "rbx")
    code.label("alone")
    for at in (AT, HELD, HOST, KNOWN, SEEN, VIEW):
        is_unset = function.new_label()
        code.load("r12", "rbx", at)
        code.compare_number("r12", 0)
        code.jump(is_unset, "e")
        code.set("rax", 0)
        code.store("rbx", at, "rax")
        function.drop("r12")
        code.label(is_unset)
    function.unless_type("rbx", kind, "free")
    code.set("r12", ctypes.addressof(_kept))
    code.compare_number_with("r12", _COUNT, _MOST)
    code.jump("free", "ge")
    code.load("rax", "r12", _FIRST)
    code.store("rbx", _NEXT, "rax")
    code.store("r12", _FIRST, "rbx")
    code.increment("r12", _COUNT)
    code.jump("return")
    code.label("free")  # of classes derived from this, Python leaves the rest to it
    code.load("r12", "rbx", TYPE)
    code.move("rdi", "rbx")
    code.load("rax", "r12", FREE)
    code.call_register("rax")
    function.drop("r12")
    code.jump("return")
    function.end()
    return code.assembled()


__all__ = ["allocate", "can_be_kept", "deallocate"]

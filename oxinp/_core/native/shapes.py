"""Methods and functions that make views of arrays on the host, in other shapes or transposed, in machine code."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

import numpy as np

from oxinp._core.lazy.handle import NOWHERE
from oxinp._core.native import names, objects
from oxinp._core.native.call import GIVEN, MARK, MOST_GIVEN, Call
from oxinp._core.native.elements import return_part
from oxinp._core.native.function import HELD, HOST, KNOWN, NONE, VALUE, VIEW
from oxinp._core.native.loops import OWNER
from oxinp._core.native.objects import (
    ARRAY_BASE,
    ARRAY_FLAGS,
    ARRAY_NDIM,
    TUPLE_ITEMS,
    TYPE,
)

_BACKWARDS = tuple((slice(None, None, -1),) * ndim for ndim in range(1, 4))
COMPLEX = np.complex128, np.complex64
_ATTRIBUTES = {name: sys.intern(name) for name in names.ATTRIBUTES}


def _begin_view(call: Call) -> None:
    """Let `rbx`, `r12` and `r13` have an array, its host's view, and its storage, which has nothing else."""
    call.code.load("rbx", "rbp", 0)
    call.unless_type("rbx", call.kind, "general")
    call.load_seen("r12", "rbx", storage="r13")
    call.provide_storage("rbx", "r12", "r13")
    call.code.set("rax", 0)
    call.code.store("rsp", MARK, "rax")  # where there is to be what a view is of, if that is new
    call.code.set("rcx", NONE)
    call.code.compare_with("r13", VALUE, "rcx")
    call.code.jump("general", "ne")
    call.require_writable("rbx")


def _end_view(call: Call, *, is_writeable: bool = True) -> None:
    """Return ours of NumPy's array in `r14`, if it is a view, or of a copy that nobody else has."""
    code, is_view, is_of_old, is_other = call.code, call.new_label(), call.new_label(), call.new_label()
    code.compare("r14", "r12")
    code.jump(is_other, "ne")
    call.drop("r14")  # the same array, and so must be ours
    call.keep("rbx")
    code.move("rax", "rbx")
    code.jump("return")
    code.label(is_other)
    call.unless_type("r14", np.ndarray, "dropped")
    code.load("rcx", "rbx", HOST)
    code.load("rax", "r14", ARRAY_BASE)
    code.compare("rax", "rcx")
    code.jump(is_view, "e")
    code.compare_number("rax", 0)
    code.jump("no view", "e")
    code.compare_with("rcx", ARRAY_BASE, "rax")
    code.jump("no view", "ne")
    code.label(is_view)
    code.set("rbp", id(NOWHERE))
    return_part(call, end="with part")
    code.label("with part")
    code.move("r12", "rax")
    if not is_writeable:
        _make_read_only(call)
    code.load("rbx", "rsp", MARK)
    code.compare_number("rbx", 0)
    code.jump(is_of_old, "e")
    call.drop("rbx")
    code.label(is_of_old)
    code.move("rax", "r12")
    code.jump("return")
    _take_copy(call, is_view)
    code.label("dropped")
    call.drop("r14")
    code.jump("general")
    code.label("no handle")
    call.drop("r14")
    code.label("no storage")
    code.set("rax", 0)
    call.end_call()


def _make_read_only(call: Call) -> None:
    """Let nobody write to the view in `r12`, which is one of another array of ours."""
    code, is_made = call.code, call.new_label()
    code.set("rdi", 2)
    code.call(objects.address("PyTuple_New"))
    code.compare_number("rax", 0)
    code.jump(is_made, "ne")
    call.drop("r12")
    code.jump("no storage")
    code.label(is_made)
    code.load("rcx", "r12", VIEW)  # whose reference the tuple takes
    code.store("rax", TUPLE_ITEMS, "rcx")
    code.set("rcx", id(False))
    code.store("rax", TUPLE_ITEMS + 8, "rcx")
    code.store("r12", VIEW, "rax")


def _take_copy(call: Call, is_view: str) -> None:
    """Lay out ``no view``: return ours of a copy, or let it be in `rbx`, and its storage in `r13`, for a view of it."""
    code = call.code
    code.label("no view")
    code.load("r12", "r14", ARRAY_BASE)
    code.compare_number("r12", 0)
    code.jump("copy", "e")
    call.unless_type("r12", np.ndarray, "dropped")
    code.compare_number_with("r12", 0, 1)  # references
    code.jump("dropped", "ne")
    code.test_with("r12", ARRAY_FLAGS, OWNER)
    code.jump("dropped", "e")
    call.make_handle("r12", "rbx")
    call.keep("r12")
    call.put("rbx", HOST, "r12")
    for at in (HELD, VIEW, KNOWN):
        call.put("rbx", at, NONE)
    code.store("rsp", MARK, "rbx")
    code.set("r13", NONE)
    call.provide_storage("rbx", "r12", "r13")
    code.jump(is_view)
    code.label("copy")
    code.test_with("r14", ARRAY_FLAGS, OWNER)
    code.jump("dropped", "e")
    call.wrap("r14", "r12", is_few=False)


def view(kind: type, before: int | None, function: object, kinds: Iterable[Any] = ()) -> bytes:
    """Return the code of what makes a view by a function of NumPy's of an array, of elements of some types if given."""
    call = Call(kind, before)
    call.begin_call(1)
    call.code.label("1 arguments")
    _begin_view(call)
    if kinds:
        call.require_elements("r12", kinds)
    call.call_numpys(function, "r12", result="r14")
    _end_view(call)
    return call.code.assembled()


def attribute(kind: type, before: int | None, name: str) -> bytes:
    """Return the code of an attribute that is a view: `T`, and the parts of complex numbers."""
    call = Call(kind, before)
    code, is_made = call.code, call.new_label()
    call.begin_call(1)
    code.label("1 arguments")
    _begin_view(call)
    if name != "T":
        call.require_elements("r12", COMPLEX)
    call.keep("r12")
    code.set("r14", id(_ATTRIBUTES[name]))
    call.call("PyObject_GetAttr", "r12", "r14")
    code.move("r14", "rax")
    call.drop("r12")
    code.compare_number("r14", 0)
    code.jump(is_made, "ne")
    call.return_error()
    code.label(is_made)
    _end_view(call)
    return code.assembled()


def view_by(
    kind: type,
    before: int | None,
    function: object,
    counts: Iterable[int],
    keyword: str | None = None,
    *,
    is_writeable: bool = True,
) -> bytes:
    """Return the code of what makes a view by a function of an array and integers, or a tuple, so many in all.

    The second one may be given by a keyword. `is_writeable`: NumPy lets the view be written to.
    """
    call = Call(kind, before)
    code = call.code
    call.begin_call(*counts, keywords="general" if keyword is None else "keywords")
    if keyword is not None:
        call.require_keyword(keyword, 2)
    for count in counts:
        code.label(f"{count} arguments")
        for i in range(1, count):
            code.load("rax", "rbp", 8 * i)
            code.store("rsp", GIVEN + 8 * i, "rax")
            code.load("rax", "rax", TYPE)
            call.if_one_of("rax", (int, tuple) if count == 2 else (int,), f"extent {i} of {count}")
            code.jump("general")
            code.label(f"extent {i} of {count}")
        code.set("r14", count)
        code.jump("given")
    code.label("given")
    _begin_view(call)
    call.keep("r12")
    code.store("rsp", GIVEN, "r12")
    code.move("rdx", "r14")
    call.call_with_given(function)
    code.move("r14", "rax")
    call.drop("r12")
    is_made = call.new_label()
    code.compare_number("r14", 0)
    code.jump(is_made, "ne")
    code.call(objects.address("PyErr_Clear"))
    code.jump("general")  # where it is raised again
    code.label(is_made)
    _end_view(call, is_writeable=is_writeable)
    return code.assembled()


def flipped(kind: type, before: int | None) -> bytes:
    """Return the code of `flip` of all axes."""
    call = Call(kind, before)
    code = call.code
    call.begin_call(1)
    code.label("1 arguments")
    _begin_view(call)
    code.load_int("rax", "r12", ARRAY_NDIM)
    for ndim, key in enumerate(_BACKWARDS, 1):
        code.set("rbp", id(key))
        code.compare_number("rax", ndim)
        code.jump("has key", "e")
    code.jump("general")
    code.label("has key")
    call.call_keeping(objects.slot(np.ndarray, "subscript").value, "r12", "rbp", result="r14")
    code.compare_number("r14", 0)
    code.jump("no storage", "e")
    _end_view(call)
    return code.assembled()


def reshaped(kind: type, before: int | None) -> bytes:
    """Return the code of the method `reshape`."""
    return view_by(kind, before, np.ndarray.reshape, range(2, MOST_GIVEN + 1))


__all__ = ["COMPLEX", "attribute", "flipped", "reshaped", "view", "view_by"]

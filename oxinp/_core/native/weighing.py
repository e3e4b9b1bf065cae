"""What placement is told of launches, in machine code: what `Balance.ran` does of most."""

from __future__ import annotations

from oxinp._core.lazy.balance import _SELECTED, NUM_SIZES, Balance, balance, is_sampled
from oxinp._core.lazy.crossings import Crossings
from oxinp._core.native import objects
from oxinp._core.native.given import call_given, give, require_returned
from oxinp._core.native.leaves import BUFFER_NBYTES, load_buffer, load_number
from oxinp._core.native.making import LAYOUT, LEAVES, NEW, NUMBER, PTR, Making, offsets
from oxinp._core.native.objects import NUMBER_VALUE, SIZE, TUPLE_ITEMS, TYPE
from oxinp._core.native.places import load_small
from oxinp._runtime.memory import Buffer

_BALANCE = offsets(
    Balance, ("_beyond", "_crossings", "_last", "_rest", "_unit", "_upload", "each", "has_waited", "reach")
)
_NO_UPLOAD = 0.0
"""What is left of uploads where they have been for what is not weighed."""
_MOST = 8
"""Launches that are noted together."""
_note, _told = balance.note_launches, balance.told
_SELF, _NBYTES, _LEAVES = (8 * i for i in range(3))
"""Where among the arguments of `Balance.ran` there is what."""
_LAST_CROSSED = offsets(Crossings, ("last",))["last"]


def balance_ran(kind: type, before: int | None) -> bytes:
    """Return the code of a call of `Balance.ran` where the launch is like the last, or not weighed as that is not."""
    call = Making(kind, before)
    code, is_less = call.code, call.new_label()
    call.begin_making(3)
    code.move("rbx", "rbp")
    code.set("r12", id(balance))
    code.compare_with("rbx", _SELF, "r12")
    code.jump("general", "ne")
    code.load("rdx", "rbx", _LEAVES)
    call.unless_type("rdx", tuple, "general")
    load_number(call, "rbp", "rbx", _NBYTES)
    load_number(call, "rax", "r12", _BALANCE["reach"])
    code.store("rsp", NUMBER, "rax")
    code.compare("rbp", "rax")
    code.jump(is_less, "l")
    _require_noted(call, "undo")
    _count_beyond(call, "undo")
    code.set("r14", id(NUM_SIZES))
    code.jump("has size")
    code.label("raised")
    code.set("rax", 0)
    code.jump("return")
    code.label(is_less)
    _find_largest(call, "rbx", _LEAVES, "undo", other="is other")
    code.compare_with("rsp", NUMBER, "rbp")
    code.jump("undo", "le")
    _require_last(call, "undo")
    code.move("rdi", "r8")
    code.call(objects.address("PyLong_FromSsize_t"))
    call.made(NEW, "r14")
    code.label("has size")
    call.end_making("r14")
    return code.assembled()


def weigh(
    call: Making,
    holder: str,
    at: int,
    python: str,
    due: str,
    nbytes_at: int = LAYOUT["nbytes"],
    *,
    unlike: str | None = None,
    told: int = 0,
) -> None:
    """Do what `Balance.ran` does of a launch for the layout in `r15` and the leaves in a tuple, and sample it.

    Parameters
    ----------
    call : Making
        Of which `rbp` and `r12` change; what is raised is raised.
    holder, at
        A register, and at which offset from what it has the tuple is.
    python : str
        Where to go where Python is to do all of that.
    due : str
        And where the launch is to be weighed, too.
    nbytes_at : int
        At which offset from what `r15` has the bytes of the result are.
    unlike : str, optional
        Where to go, in place of `python`, with the bytes of the largest array in `rbp`, if it is not like the last.
    told : int, optional
        Where on the stack there is what it is told by, see `BoundOp.told`, if that is known.
    """
    code, is_less, is_done = call.code, call.new_label(), call.new_label()
    unlike = unlike or python
    load_number(call, "rbp", "r15", nbytes_at, python)
    code.set("r12", id(balance))
    load_number(call, "rax", "r12", _BALANCE["reach"], python)
    code.store("rsp", NUMBER, "rax")
    code.compare("rbp", "rax")
    code.jump(is_less, "l")
    _require_noted(call, unlike)
    _count_beyond(call, unlike)
    code.jump(is_done)
    code.label(is_less)
    _find_largest(call, holder, at, python)
    code.compare_with("rsp", NUMBER, "rbp")
    code.jump(unlike, "le")
    if told:  # what weighs much is weighed each time
        code.load("rax", "rsp", told)
        code.set("rcx", id(1))
        code.compare_with("rax", TUPLE_ITEMS + 8, "rcx")
        code.jump(unlike, "e")
    _require_last(call, unlike)
    code.set("rdi", id(is_sampled))
    code.call(objects.address("PyObject_CallNoArgs"))
    code.compare_number("rax", 0)
    code.jump("raised", "e")
    code.set("rcx", id(True))
    code.compare("rax", "rcx")
    code.jump(due, "e")
    code.label(is_done)


def tell_whether_due(call: Making, python: str, due: str, target: str = "rbp") -> None:
    """Lay out the labels of `weigh`; let a register have whether the launch is due."""
    code, is_told = call.code, call.new_label()
    code.label(due)
    code.set(target, id(True))
    code.jump(is_told)
    code.label(python)
    code.set(target, id(False))
    code.label(is_told)


def tell(call: Making, layout: str, leaves: int, told: int) -> None:
    """Let placement know of a launch for the layout in a register and the leaves in a tuple on the stack.

    Where it is not like the last it is noted with others, at the next look at them.

    Parameters
    ----------
    call : Making
        Of which `rbp`, `r12` and `r15` change; what is raised is raised.
    layout : str
        Not one of those.
    leaves, told : int
        Where on the stack these are, see `BoundOp.told`.
    """
    code = call.code
    code.move("r15", layout)
    weigh(call, "rsp", leaves, "to tell", "is due", unlike="to note", told=told)
    code.jump("is told")
    tell_whether_due(call, "to note", "is due", "r12")
    _append(call, told)
    code.jump("is told")
    code.label("to tell")
    give(call, (layout, LAYOUT["nbytes"]), ("rsp", leaves), ("rsp", told))
    call_given(call, _told, 3)
    require_returned(call)
    code.label("is told")


def _append(call: Making, told: int) -> None:
    """Let the launches to be noted be one more, on `rbp` bytes, and have many noted; `r12` says whether it is due."""
    code = call.code
    code.move("rdi", "rbp")
    code.call(objects.address("PyLong_FromSsize_t"))
    call.made(PTR, "rbp")
    call.make_tuple(LEAVES, "rdi", "rbp", ("rsp", told), "r12")
    code.set("rdi", id(balance.launches))
    code.load("rsi", "rsp", LEAVES)
    code.call(objects.address("PyList_Append"))
    code.set("rdi", id(balance.launches))
    code.compare_number_with("rdi", SIZE, _MOST)
    code.jump("is told", "l")
    code.set("rdi", id(_note))
    code.call(objects.address("PyObject_CallNoArgs"))
    require_returned(call)


def _count_beyond(call: Making, label: str) -> None:
    """Count a launch after others that are not weighed for their sizes either; go to a label for others."""
    code = call.code
    code.load("rdi", "r12", _BALANCE["_crossings"])
    code.set("rcx", id(NUM_SIZES))
    code.compare_with("rdi", _LAST_CROSSED, "rcx")
    code.jump(label, "ne")
    code.load("rsi", "r12", _BALANCE["_beyond"])
    load_small(call, "rdi", "rsi", label)
    code.add("rdi", 1)
    code.load("rsi", "r12", _BALANCE["_rest"])
    load_small(call, "rdx", "rsi", label)
    code.compare("rdi", "rdx")
    code.jump(label, "ge")
    code.call(objects.address("PyLong_FromSsize_t"))
    code.compare_number("rax", 0)
    code.jump("raised", "e")
    code.load("r15", "r12", _BALANCE["_beyond"])
    code.store("r12", _BALANCE["_beyond"], "rax")
    call.drop("r15")
    for name, value in (("_last", NUM_SIZES), ("has_waited", False), ("_upload", _NO_UPLOAD)):
        code.set("rbp", id(value))
        call.set_attribute("r12", _BALANCE[name], "rbp")


def _find_largest(call: Making, holder: str, at: int, label: str, other: str | None = None) -> None:
    """Let `rbp` have the bytes of the largest Buffer that is read, if they are more; go to a label for others.

    What is no leaf is a number, unless there is another label, which is laid out and at which it has to be one.
    """
    code, again, is_done = call.code, call.new_label(), call.new_label()
    code.set("rdi", id(_SELECTED))
    code.compare_number_with("rdi", SIZE, 0)
    code.jump(label, "ne")
    code.load("r8", holder, at)
    code.load("r9", "r8", SIZE)
    code.label(again)
    code.add("r9", -1)
    code.jump(is_done, "s")
    code.load("rdi", "r8", TUPLE_ITEMS)
    code.add("r8", 8)
    load_buffer(call, "rdi", "rsi", other or again, label)
    call.unless_type("rsi", Buffer, label)
    code.load("rdi", "rsi", BUFFER_NBYTES)
    load_small(call, "rdx", "rdi", label)
    code.compare("rdx", "rbp")
    code.jump(again, "le")
    code.move("rbp", "rdx")
    code.jump(again)
    if other is not None:
        code.label(other)
        code.load("rdx", "rdi", TYPE)
        call.if_one_of("rdx", (float, int), again)
        code.jump(label)
    code.label(is_done)


def _require_noted(call: Making, label: str) -> None:
    """Go on where no launches are still to be noted."""
    call.code.set("rdi", id(balance.launches))
    call.code.compare_number_with("rdi", SIZE, 0)
    call.code.jump(label, "ne")


def _require_last(call: Making, label: str) -> None:
    """Go on where so many bytes as `rbp` says have the size of the last launch, since which nothing has been noted."""
    code, again, is_found = call.code, call.new_label(), call.new_label()
    _require_noted(call, label)
    code.load("rsi", "r12", _BALANCE["_unit"])
    load_small(call, "r9", "rsi", label)
    code.compare_number("r9", 0)
    code.jump(label, "le")
    code.move("rax", "rbp")
    code.divide("r9")
    code.set("r8", 0)
    code.label(again)
    code.compare_number("rax", 0)
    code.jump(is_found, "e")
    code.halve("rax")
    code.add("r8", 1)
    code.jump(again)
    code.label(is_found)
    for holder, at, is_another in (("r12", _BALANCE["_last"], "l"), ("rdi", _LAST_CROSSED, "ne")):
        code.load("rdi", "r12", _BALANCE["_crossings"])
        code.load("rsi", holder, at)
        load_small(call, "rdx", "rsi", label)
        code.compare("rdx", "r8")
        code.jump(label, is_another)
    for name, value in (("has_waited", False), ("each", 0)):
        code.set("rcx", id(value))
        code.compare_with("r12", _BALANCE[name], "rcx")
        code.jump(label, "ne")
    code.load("rdi", "r12", _BALANCE["_upload"])
    call.unless_type("rdi", float, label)
    code.compare_number_with("rdi", NUMBER_VALUE, 0)
    code.jump(label, "ne")


__all__ = ["balance_ran", "tell", "tell_whether_due", "weigh"]

"""What launches a kernel with any grid, in machine code: what `Launcher.anywhere` does, whose variables this changes.

The driver is called as Python calls it, without Python's lock.
"""

from __future__ import annotations

from types import CodeType, FunctionType

from oxinp._core.native import objects
from oxinp._core.native.leaves import load_number
from oxinp._core.native.making import COST, NUMBER, Making, offsets
from oxinp._core.native.objects import CELL_VALUE, FUNCTION_CLOSURE, FUNCTION_CODE, POINTED, SIZE, TUPLE_ITEMS
from oxinp._core.native.places import load_small
from oxinp._driver.launch import MAX_GRID, Launcher
from oxinp._runtime.counters import Stats
from oxinp._runtime.launches import Launching

_CODE = next(
    each
    for each in Launcher._prepare.__code__.co_consts
    if isinstance(each, CodeType) and each.co_name == "launch_anywhere"
)
_CELLS = {name: TUPLE_ITEMS + 8 * place for place, name in enumerate(_CODE.co_freevars)}
_LAUNCHES = offsets(Stats, ("launches",))["launches"]
_STREAM = offsets(Launching, ("stream",))["stream"]


def launch_given(call: Making, given: int) -> None:
    """Launch by a function, on the stack, with arguments of which `NUMBER` says how many, the first of them the grid.

    What is raised is raised; `rbp` and `r15` change.
    """
    code = call.code
    _require_usual(call)
    _put_grid(call, given)
    code.load("rax", "rsp", COST)
    code.load("r15", "rax", FUNCTION_CLOSURE)
    _load(call, "rdi", "pack")
    code.move("rsi", "rsp")
    code.add("rsi", given + 8)
    code.load("rdx", "rsp", NUMBER)
    code.add("rdx", -1)
    code.set("rcx", 0)
    code.call(objects.address("PyObject_Vectorcall"))  # returns None, which is not counted
    code.compare_number("rax", 0)
    code.jump("raised", "e")
    _load(call, "rdi", "call")
    code.call(objects.address("PyObject_CallNoArgs"))
    code.compare_number("rax", 0)
    code.jump("raised", "e")
    code.set("rcx", id(0))
    code.compare("rax", "rcx")
    code.jump("has launched", "e")
    _fail(call, given)
    code.label("has launched")
    _count(call)
    code.jump("is launched")
    code.label("in Python")
    code.load("rdi", "rsp", COST)
    code.move("rsi", "rsp")
    code.add("rsi", given)
    code.load("rdx", "rsp", NUMBER)
    code.set("rcx", 0)
    code.call(objects.address("PyObject_Vectorcall"))
    code.compare_number("rax", 0)
    code.jump("raised", "e")
    code.move("r15", "rax")
    call.drop("r15")
    code.label("is launched")


def _load(call: Making, target: str, name: str) -> None:
    """Let a register have what a variable of the function's has, whose cells are in `r15`."""
    call.code.load(target, "r15", _CELLS[name])
    call.code.load(target, target, CELL_VALUE)


def _require_usual(call: Making) -> None:
    """Go on where it is such a function, that is not at it, on the stream of before."""
    code = call.code
    if not objects.FUNCTIONS_ARE_KNOWN:
        code.jump("in Python")
    code.load("rdi", "rsp", COST)
    call.unless_type("rdi", FunctionType, "in Python")
    code.set("rcx", id(_CODE))
    code.compare_with("rdi", FUNCTION_CODE, "rcx")
    code.jump("in Python", "ne")
    code.load("r15", "rdi", FUNCTION_CLOSURE)
    for name, value in (("is_at_it", False), ("after", None)):
        _load(call, "rax", name)
        code.set("rcx", id(value))
        code.compare("rax", "rcx")
        code.jump("in Python", "ne")
    _load(call, "rax", "counter")
    call.unless_type("rax", Stats, "in Python")
    _load(call, "rax", "current")
    call.unless_type("rax", Launching, "in Python")
    code.load("rax", "rax", _STREAM)
    _load(call, "rdx", "stream")
    code.compare("rax", "rdx")
    code.jump("in Python", "ne")


def _put_grid(call: Making, given: int) -> None:
    """Let the driver be told the grid, and the function know of it."""
    code = call.code
    code.load("rbp", "rsp", given)
    call.unless_type("rbp", tuple, "in Python")
    code.compare_number_with("rbp", SIZE, len(MAX_GRID))
    code.jump("in Python", "ne")
    for place, most in enumerate(MAX_GRID):
        code.load("rsi", "rbp", TUPLE_ITEMS + 8 * place)
        call.unless_type("rsi", int, "in Python")
        load_small(call, "rdx", "rsi", "in Python")
        code.compare_number("rdx", 0)
        code.jump("in Python", "le")
        code.compare_number("rdx", most)
        code.jump("in Python", "g")
    _load(call, "rdi", "extents")
    code.load("rdi", "rdi", POINTED)
    for place in range(len(MAX_GRID)):
        code.load("rsi", "rbp", TUPLE_ITEMS + 8 * place)
        load_small(call, "rdx", "rsi", "in Python")
        code.store_int("rdi", 4 * place, "rdx")
    code.load("rdi", "r15", _CELLS["shape"])
    call.set_attribute("rdi", CELL_VALUE, "rbp")


def _fail(call: Making, given: int) -> None:
    """Have the function say what has gone wrong, or try again."""
    code = call.code
    code.store("rsp", given, "rax")
    _load(call, "rdi", "call")
    code.store("rsp", given + 8, "rdi")
    _load(call, "rdi", "fail")
    code.move("rsi", "rsp")
    code.add("rsi", given)
    code.set("rdx", 2)
    code.set("rcx", 0)
    code.call(objects.address("PyObject_Vectorcall"))
    code.load("rbp", "rsp", given)
    code.store("rsp", NUMBER, "rax")
    call.drop("rbp")
    code.compare_number_with("rsp", NUMBER, 0)
    code.jump("raised", "e")


def _count(call: Making) -> None:
    """Count the launch, and let the function know which it was."""
    code = call.code
    _load(call, "rbp", "counter")
    load_number(call, "rdi", "rbp", _LAUNCHES, "is launched")
    code.add("rdi", 1)
    code.call(objects.address("PyLong_FromSsize_t"))
    code.compare_number("rax", 0)
    code.jump("raised", "e")
    code.store("rsp", NUMBER, "rax")
    code.load("rdi", "r15", _CELLS["number"])
    code.load("rdx", "rsp", NUMBER)
    call.set_attribute("rdi", CELL_VALUE, "rdx")
    code.load("rdx", "rsp", NUMBER)
    code.load("r15", "rbp", _LAUNCHES)
    code.store("rbp", _LAUNCHES, "rdx")
    call.drop("r15")


__all__ = ["launch_given"]

"""Calls of the driver, in machine code: what a function of `Driver` does where it is called in the one context."""

from __future__ import annotations

from types import CodeType, FunctionType

from oxinp._core.native import objects
from oxinp._core.native.given import GIVEN
from oxinp._core.native.making import Making
from oxinp._core.native.objects import CELL_VALUE, FUNCTION_CLOSURE, FUNCTION_CODE, SIZE, TUPLE_ITEMS
from oxinp._driver.driver import Driver

_CODE = next(each for each in Driver.__getattr__.__code__.co_consts if isinstance(each, CodeType))
_CELLS = {name: TUPLE_ITEMS + 8 * place for place, name in enumerate(_CODE.co_freevars)}
"""Where such a function has its variables."""


def call_driver(call: Making, holder: str, at: int, count: int, failed: str) -> None:
    """Call what lies at an offset from a register with so many arguments on the stack; go to a label if it raises.

    The function of C is called as Python calls it, without Python's lock. `r14` and `r15` change.
    """
    code, in_python, is_done = call.code, call.new_label(), call.new_label()
    code.load("r14", holder, at)
    if not objects.FUNCTIONS_ARE_KNOWN:
        code.jump(in_python)
    call.unless_type("r14", FunctionType, in_python)
    code.set("rcx", id(_CODE))
    code.compare_with("r14", FUNCTION_CODE, "rcx")
    code.jump(in_python, "ne")
    code.load("r15", "r14", FUNCTION_CLOSURE)
    _load(call, "rdi", "ends")
    call.unless_type("rdi", list, in_python)
    code.compare_number_with("rdi", SIZE, 0)
    code.jump(in_python, "ne")
    _load(call, "rdi", "contexts")
    call.unless_type("rdi", set, in_python)
    code.call(objects.address("PySet_Size"))
    code.compare_number("rax", 1)
    code.jump(in_python, "g")
    _load(call, "rdi", "raw")
    _call(call, count)
    code.compare_number("rax", 0)
    code.jump(failed, "e")
    code.set("rcx", id(0))
    code.compare("rax", "rcx")
    code.jump(is_done, "e")
    code.move("r15", "rax")
    call.drop("r15")
    code.label(in_python)  # which says what is wrong, or enters the context and tries again
    code.move("rdi", "r14")
    _call(call, count)
    code.compare_number("rax", 0)
    code.jump(failed, "e")
    code.move("r15", "rax")
    call.drop("r15")
    code.label(is_done)


def _load(call: Making, target: str, name: str) -> None:
    """Let a register have what a variable of the function's has, whose cells are in `r15`."""
    call.code.load(target, "r15", _CELLS[name])
    call.code.load(target, target, CELL_VALUE)


def _call(call: Making, count: int) -> None:
    """Call what `rdi` has with so many arguments on the stack."""
    code = call.code
    code.move("rsi", "rsp")
    code.add("rsi", GIVEN)
    code.set("rdx", count)
    code.set("rcx", 0)
    code.call(objects.address("PyObject_Vectorcall"))


__all__ = ["call_driver"]

"""Small draws of random numbers, by NumPy's own functions, in machine code."""

from __future__ import annotations

import sys

import numpy as np

from oxinp._core.host.draws import Draw
from oxinp._core.native import objects
from oxinp._core.native.call import ARGUMENTS, FLAGS, GIVEN, KEYWORDS, MARK, Call
from oxinp._core.native.function import MIDDLE
from oxinp._core.native.makers import load_extent
from oxinp._core.native.objects import SIZE, TUPLE_ITEMS, TYPE

_PASSED = (float, type(None), bool, type, np.float64)
"""Types of arguments that say nothing of how many numbers are drawn."""
_MOST = 1 << 20
_ACQUIRE, _RELEASE, _ENDING, _MUTEX = map(sys.intern, ("acquire", "release", "_ending", "_mutex"))


def _multiply_extents(call: _Drawn) -> None:
    """Let `r14` have how many numbers are drawn, as far as it is said by the `rbx` arguments at `rbp`.

    What may be something else goes to the general function; `r15` counts arguments, and the stack has, twice, how many
    come by position.
    """
    code = call.code
    code.label("next argument")
    code.compare_number("rbx", 0)
    code.jump("counted", "e")
    code.load("r12", "rbp")
    code.load("rax", "r12", TYPE)
    call.if_one_of("rax", _PASSED, "passed")
    call.if_one_of("rax", (tuple,), "extents")
    call.unless_type("r12", int, "general")
    _unless_size(call, "passed")
    _multiply(call)
    code.label("passed")
    code.add("rbp", 8)
    code.add("r15", 2)
    code.add("rbx", -2)
    code.jump("next argument")
    code.label("extents")
    _unless_size(call, "general")
    code.move("r13", "r12")
    code.load("rax", "r13", SIZE)
    code.store("rsp", GIVEN + 8, "rax")
    code.label("next extent")
    code.compare_number_with("rsp", GIVEN + 8, 0)
    code.jump("passed", "e")
    code.decrement("rsp", GIVEN + 8)
    code.load("r12", "r13", TUPLE_ITEMS)
    code.add("r13", 8)
    _multiply(call)
    code.jump("next extent")
    code.label("counted")


def _multiply(call: Call) -> None:
    load_extent(call, "r12", "general")
    call.code.multiply_by("r14", "rax")
    call.code.compare_number("r14", _MOST)
    call.code.jump("general", "g")


def _unless_size(call: _Drawn, label: str) -> None:
    """Go to a label where an argument by position is not the one that says how many numbers are drawn."""
    if call.place is None:
        return
    code, is_size = call.code, call.new_label()
    code.compare_with("rsp", MARK, "r15")
    code.jump(is_size, "be")  # it is given by keyword
    code.compare_number("r15", 2 * call.place)
    code.jump(label, "ne")
    code.label(is_size)


class _Drawn(Call):
    """A draw.

    Attributes
    ----------
    place : int or None
        That of the size among the arguments by position, all of them counted.
    """

    def __init__(self, kind: type, before: int, draw: Draw) -> None:
        super().__init__(kind, before)
        self.place = None if draw.place is None else draw.place + draw.is_method
        self._draw = draw

    def call_method(self, name: str, *given: object) -> None:
        """Let `rax` have what a method of the generator's lock, in `r12`, returns."""
        code = self.code
        code.store("rsp", GIVEN, "r12")
        for i, each in enumerate(given):
            code.set("rax", id(each))
            code.store("rsp", GIVEN + 8 * (i + 1), "rax")
        code.set("rdi", id(name))
        code.move("rsi", "rsp")
        code.add("rsi", GIVEN)
        code.set("rdx", 1 + len(given))
        code.set("rcx", 0)
        code.call(objects.address("PyObject_VectorcallMethod"))

    def lock(self) -> None:
        """Let `r12` have the generator's lock, which is held from here on, or go to the general function."""
        code, has_lock, is_held, is_settled = self.code, *(self.new_label() for _ in range(3))
        code.load("rbp", "rsp", ARGUMENTS)
        code.load("rbp", "rbp")
        code.set("r13", id(_MUTEX))
        self.call("PyObject_GetAttr", "rbp", "r13")
        code.move("r12", "rax")
        code.compare_number("r12", 0)
        code.jump(has_lock, "ne")
        code.label("is raised")
        code.call(objects.address("PyErr_Clear"))
        code.jump("general")
        code.label(has_lock)
        self.call_method(_ACQUIRE, False)
        code.compare_number("rax", 0)
        code.jump("no lock", "e")
        code.set("rcx", id(True))
        code.compare("rax", "rcx")
        code.jump(is_held, "e")
        self.drop("r12")
        code.jump("general")
        code.label("no lock")
        self.drop("r12")
        code.jump("is raised")
        code.label(is_held)
        code.set("r13", id(_ENDING))
        self.call("PyObject_GetAttr", "rbp", "r13")
        code.move("r13", "rax")
        code.set("rcx", id(None))
        code.compare("r13", "rcx")
        code.jump(is_settled, "e")
        code.compare_number("r13", 0)
        code.jump("no ending", "e")
        self.drop("r13")
        code.label("unsettled")
        self.unlock()
        code.jump("general")
        code.label("no ending")
        code.call(objects.address("PyErr_Clear"))
        code.jump("unsettled")
        code.label(is_settled)

    def unlock(self) -> None:
        """Give the lock in `r12` back."""
        code, is_done = self.code, self.new_label()
        self.call_method(_RELEASE)
        code.compare_number("rax", 0)
        code.jump(is_done, "ne")
        code.call(objects.address("PyErr_Clear"))
        code.label(is_done)
        self.drop("r12")

    def draw(self) -> None:
        """Let `r13` have what NumPy draws; return where it raises something."""
        code, is_drawn = self.code, self.new_label()
        code.set("rdi", id(self._draw.numpys))
        for register, place in (("rsi", ARGUMENTS), ("rdx", FLAGS), ("rcx", KEYWORDS)):
            code.load(register, "rsp", place)
        code.call(objects.address("PyObject_Vectorcall"))
        code.move("r13", "rax")
        if not self._draw.is_method:
            code.compare_number("r13", 0)
            code.jump("return", "e")
            return
        code.compare_number("r13", 0)
        code.jump(is_drawn, "ne")
        self.take_error(_ERROR)
        self.unlock()
        self.raise_taken(_ERROR)
        code.set("rax", 0)
        code.jump("return")
        code.label(is_drawn)
        self.unlock()


_ERROR = GIVEN + 16
"""Where what was raised waits on the stack, behind the arguments of the lock's methods."""


def drawn(kind: type, before: int, draw: Draw) -> bytes:
    """Return the code of a function or method of a generator that draws few numbers, or one."""
    call = _Drawn(kind, before, draw)
    code, has_none = call.code, call.new_label()
    call.begin_arguments()
    code.store("rsp", MARK, "rdx")
    code.move("rbx", "rdx")
    code.compare_number("rcx", 0)
    code.jump(has_none, "e")
    code.load("rax", "rcx", SIZE)
    code.add_register("rax", "rax")
    code.add_register("rbx", "rax")
    code.label(has_none)
    code.set("r14", 1)
    code.set("r15", 0)
    if draw.is_method:
        code.compare_number("rdx", 0)
        code.jump("general", "e")
        code.add("rbp", 8)
        code.add("rbx", -2)
        code.set("r15", 2)
    _multiply_extents(call)
    call.require_below(MIDDLE, "r14")
    if draw.is_method:
        call.lock()
    call.draw()
    call.return_new("r13", "r12", is_few=False)
    return code.assembled()


__all__ = ["drawn"]

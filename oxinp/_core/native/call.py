"""A call of a function that Python wrote, under construction: how it begins, calls a function of NumPy's and ends."""

from __future__ import annotations

import sys

import numpy as np

from oxinp._core.lazy.small import DTYPES
from oxinp._core.native import objects
from oxinp._core.native.function import LIGHT, MIDDLING, Function
from oxinp._core.native.objects import SIZE, TUPLE_ITEMS, TYPE

FLAGS, MARK, CALLABLE, ARGUMENTS, KEYWORDS, GIVEN = 0, 8, 16, 24, 32, 40
"""Where on the stack there is what a function is called with, and room for the arguments of NumPy's."""
MOST_GIVEN = 4
_ROOM = GIVEN + 8 * (MOST_GIVEN + 2)  # an odd number of words
REALS = (*MIDDLING, np.float16)


class Call(Function):
    """A function that is called with a vector of arguments."""

    def __init__(self, kind: type, before: int | None, room: int = _ROOM) -> None:
        super().__init__(kind, before, room)

    def begin_arguments(self) -> None:
        """Begin with the arguments at `rbp`, twice their number by position in `rdx`, and others' names in `rcx`."""
        code = self.code
        self.begin()
        code.store("rsp", CALLABLE, "rdi")
        code.store("rsp", ARGUMENTS, "rsi")
        code.store("rsp", KEYWORDS, "rcx")
        code.add_register("rdx", "rdx")  # the highest bit does not count

    def begin_call(self, *counts: int, keywords: str = "general") -> None:
        """Begin with so many positional arguments, at `rbp`; go to a label where there are others by keyword."""
        code = self.code
        self.begin_arguments()
        code.compare_number("rcx", 0)
        code.jump(keywords, "ne")
        for count in counts:
            code.compare_number("rdx", 2 * count)
            code.jump(f"{count} arguments", "e")
        code.jump("general")

    def require_keyword(self, name: str, count: int) -> None:
        """Lay out ``keywords``: so many arguments, the last one alone by a keyword, are as good as by position."""
        code = self.code
        code.label("keywords")
        code.compare_number("rdx", 2 * (count - 1))
        code.jump("general", "ne")
        code.compare_number_with("rcx", SIZE, 1)
        code.jump("general", "ne")
        code.set("rax", id(sys.intern(name)))
        code.compare_with("rcx", TUPLE_ITEMS, "rax")
        code.jump("general", "ne")
        code.jump(f"{count} arguments")

    def end_call(self) -> None:
        """Return what is in `rax`; lay out the way to the function itself."""
        code = self.code
        code.label("return")
        self._leave()
        code.ret()
        code.label("general")
        for register, place in (("rdi", CALLABLE), ("rsi", ARGUMENTS), ("rdx", FLAGS), ("rcx", KEYWORDS)):
            code.load(register, "rsp", place)
        self._leave()
        self._go_on()

    def load_array(self, place: int, handle: str, seen: str, *, is_small: bool = True) -> None:
        """Let registers have an argument that is an array of ours, its host's view, and in `r13` its storage.

        It is small, or at least below the threshold.
        """
        self.code.load(handle, "rbp", 8 * place)
        self.unless_type(handle, self.kind, "general")
        self.load_seen(seen, handle, storage="r13")
        (self.require_small if is_small else self.require_host)(handle, seen)

    def load_light(self, place: int, handle: str, seen: str) -> None:
        """Let registers have an argument that is an array of ours, which is only moved, and its host's view."""
        self.code.load(handle, "rbp", 8 * place)
        self.unless_type(handle, self.kind, "general")
        self.load_seen(seen, handle, storage="r13")
        self.require_host(handle, seen, is_learned=True)
        self.count_own(seen)
        self.count_learned(LIGHT, "general")

    def call_numpys(self, function: object, *given: str, result: str) -> None:
        """Call a function of NumPy's with objects that nobody gives back meanwhile; go on where it does not raise."""
        code, is_made = self.code, self.new_label()
        for i, each in enumerate(given):
            self.keep(each)
            code.store("rsp", GIVEN + 8 * i, each)
        code.set("rdx", len(given))
        self.call_with_given(function)
        code.move(result, "rax")
        for each in given:
            self.drop(each)
        code.compare_number(result, 0)
        code.jump(is_made, "ne")
        self.return_error()
        code.label(is_made)

    def call_with_given(self, function: object) -> None:
        """Call a function with as many of the arguments on the stack as `rdx` says."""
        code = self.code
        code.set("rdi", id(function))
        code.move("rsi", "rsp")
        code.add("rsi", GIVEN)
        code.set("rcx", 0)
        code.call(objects.address("PyObject_Vectorcall"))

    def call_as_given(self, function: object, result: str) -> None:
        """Call a function of NumPy's with the very arguments, none of them an array; go on where it does not raise."""
        code, is_made = self.code, self.new_label()
        code.set("rdi", id(function))
        for register, place in (("rsi", ARGUMENTS), ("rdx", FLAGS), ("rcx", KEYWORDS)):
            code.load(register, "rsp", place)
        code.call(objects.address("PyObject_Vectorcall"))
        code.move(result, "rax")
        code.compare_number(result, 0)
        code.jump(is_made, "ne")
        self.return_error()
        code.label(is_made)

    def return_new(self, found: str, made: str, *, is_marked: bool = False, is_few: bool = True) -> None:
        """Return ours of what NumPy has made."""
        self.wrap(found, made, is_marked=is_marked, is_few=is_few)
        self.end_wrap(found)
        self.end_call()

    def require_dtype(self, register: str) -> None:
        """Go to the general function unless an object is a class or a name of a dtype of numbers, or one itself."""
        code, is_key, is_dtype = self.code, self.new_label(), self.new_label()
        self.if_one_of(register, map(np.dtype, REALS), is_dtype)
        code.load("rax", register, TYPE)
        self.if_one_of("rax", (type, str), is_key)
        code.jump("general")
        code.label(is_key)
        code.set("rdi", id(DTYPES))
        code.move("rsi", register)
        code.call(objects.address("PyDict_GetItem"))
        code.compare_number("rax", 0)
        code.jump("general", "e")
        code.label(is_dtype)


__all__ = ["ARGUMENTS", "CALLABLE", "FLAGS", "GIVEN", "KEYWORDS", "MARK", "MOST_GIVEN", "REALS", "Call"]

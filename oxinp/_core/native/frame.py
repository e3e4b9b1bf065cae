"""How functions in machine code begin, call others and end."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from oxinp._core.native import objects
from oxinp._core.native.assembler import END, Assembler
from oxinp._core.native.objects import TYPE
from oxinp._core.native.pages import mapped

ROOM = 40
"""Bytes of the stack for what functions keep there, an odd number of words."""
_SAVED = ("rbx", "rbp", "r12", "r13", "r14", "r15")
_ERROR = "rdi", "rsi", "rdx"
"""What says where the parts of an error lie, or are passed on."""


class Frame:
    """A slot's function under construction: how it begins, calls others, and ends.

    Its first two operands are in `rbx` and `rbp` throughout, its third at the end of the stack.

    Parameters
    ----------
    kind : type
        The class of arrays.
    before : int or None
        The C function that the slot has had; None for the code that comes next.
    room : int
        Bytes of the stack for what is kept there, an odd number of words.
    """

    def __init__(self, kind: type, before: int | None, room: int = ROOM) -> None:
        self.code = Assembler()
        self.kind = kind
        self._before = before
        self._room = room
        self._num_labels = 0

    def new_label(self) -> str:
        self._num_labels += 1
        return f"label {self._num_labels}"

    def begin(self) -> None:
        code = self.code
        for register in _SAVED:
            code.push(register)
        code.add("rsp", -self._room)  # which leaves the stack as calls want it; the third operand lies at its end
        code.move("rbx", "rdi")
        code.move("rbp", "rsi")
        code.store("rsp", 0, "rdx")

    def address(self) -> int:
        """Return where the code lies, which is executed there from now on; 0 if the system forbids that."""
        found = mapped([self.code.assembled()])
        return found[0] if found else 0

    def depth_of_return(self) -> int:
        """Return how many bytes up the stack it says where the function returns to."""
        return self._room + 8 * len(_SAVED)

    def _leave(self) -> None:
        self.code.add("rsp", self._room)
        for register in reversed(_SAVED):
            self.code.pop(register)

    def _go_on(self) -> None:
        if self._before is None:
            self.code.jump(END)
        else:
            self.code.go_to(self._before)

    def end(self) -> None:
        """Return what is in `rax`; lay out the way to the general function."""
        code = self.code
        code.label("return")
        self._leave()
        code.ret()
        code.label("general")
        code.move("rdi", "rbx")
        code.move("rsi", "rbp")
        code.load("rdx", "rsp", 0)
        self._leave()
        self._go_on()

    def end_of_two(self, method: int, reflected: int) -> None:
        """Return what is in `rax`; lay out calls of ``__add__`` and ``__radd__``, or whatever is at two addresses.

        Python's slot function for operators of two operands calls them only while it is in the slot itself.
        """
        code = self.code
        code.label("return")
        self._leave()
        code.ret()
        code.label("general")
        for operand, other, called, label in (
            ("rbx", "rbp", method, "is not first"),
            ("rbp", "rbx", reflected, "is none"),
        ):
            self.unless_type(operand, self.kind, label)
            code.store("rsp", 8, operand)
            code.store("rsp", 16, other)
            code.set("rdi", called)
            code.move("rsi", "rsp")
            code.add("rsi", 8)
            code.set("rdx", 2)
            code.set("rcx", 0)
            code.call(objects.address("PyObject_Vectorcall"))
            code.jump("return")
            code.label(label)
        code.move("rdi", "rbx")
        code.move("rsi", "rbp")
        code.load("rdx", "rsp", 0)  # of `pow` the third operand
        self._leave()
        self._go_on()

    def end_of_method(self, method: Any) -> None:
        """Return what is in `rax`; lay out the way to a method in Python, with a tuple and keywords or none."""
        code = self.code
        code.label("return")
        self._leave()
        code.ret()
        code.label("general")
        code.set("rdi", id(method))
        code.move("rsi", "rbx")
        code.call(objects.address("PyMethod_New"))
        code.compare_number("rax", 0)
        code.jump("return", "e")
        code.move("r12", "rax")
        code.load("r13", "rsp", 0)
        self.call("PyObject_Call", "r12", "rbp", "r13")
        code.move("r13", "rax")
        self.drop("r12")
        code.move("rax", "r13")
        code.jump("return")

    def call(self, function: str | int, *operands: str) -> None:
        """Call a function of Python's C API, or at an address, with what registers have that calls leave alone."""
        for target, source in zip(("rdi", "rsi", "rdx"), operands, strict=False):
            self.code.move(target, source)
        self.code.call(objects.address(function) if isinstance(function, str) else function)

    def call_keeping(self, function: int, *operands: str, result: str) -> None:
        """Call a function with objects that nobody gives back meanwhile; let a register have what it returns."""
        for each in operands:
            self.keep(each)
        self.code.load("rdx", "rsp", 0)  # what a comparison is; other functions of two operands do not look at it
        self.call(function, *operands)
        self.code.move(result, "rax")
        for each in operands:
            self.drop(each)

    def return_or_go_on(self) -> None:
        """Return what code has returned, in `rax`, if it is no 0; go to ``general`` if nothing has been raised either.

        What comes next returns 0, which `rax` has.
        """
        code = self.code
        code.compare_number("rax", 0)
        code.jump("return", "ne")
        code.call(objects.address("PyErr_Occurred"))
        code.compare_number("rax", 0)
        code.jump("general", "e")
        code.set("rax", 0)

    def keep(self, register: str) -> None:
        """Take a reference to an object; `rax` changes."""
        code, done = self.code, self.new_label()
        if objects.HAS_IMMORTALS:  # whose counts are never written, and have all bits above set that others have not
            code.load_int("rax", register)
            code.add_int("rax", 1)
            code.jump(done, "e")
            code.store_int(register, 0, "rax")
        else:
            code.increment(register)
        code.label(done)

    def drop(self, register: str) -> None:
        """Give a reference back."""
        code, done = self.code, self.new_label()
        if objects.HAS_IMMORTALS:
            code.load_int("rax", register)
            code.test_number("rax", 1 << 31)
            code.jump(done, "ne")
        code.decrement(register)
        code.jump(done, "ne")
        self.call("_Py_Dealloc", register)
        code.label(done)

    def unless_type(self, register: str, kind: type, label: str) -> None:
        """Go to a label where an object is not of a type."""
        self.code.set("rcx", id(kind))
        self.code.compare_with(register, TYPE, "rcx")
        self.code.jump(label, "ne")

    def if_one_of(self, register: str, given: Iterable[object], label: str) -> None:
        """Go to a label where a register has one of some objects."""
        for each in given:
            self.code.set("rcx", id(each))
            self.code.compare(register, "rcx")
            self.code.jump(label, "e")

    def take_error(self, place: int) -> None:
        """Let three places of the stack have what has been raised, which is no longer."""
        for number, register in enumerate(_ERROR):
            self.code.move(register, "rsp")
            self.code.add(register, place + 8 * number)
        self.code.call(objects.address("PyErr_Fetch"))

    def raise_taken(self, place: int) -> None:
        """Raise what `take_error` has taken."""
        for number, register in enumerate(_ERROR):
            self.code.load(register, "rsp", place + 8 * number)
        self.code.call(objects.address("PyErr_Restore"))

    def return_error(self) -> None:
        """Return what was raised; a TypeError may be the refusal of code of ours to warn, see `hearing`.

        Then the general function computes it again, so that the warning names the user's line.
        """
        code = self.code
        code.set("rdi", id(TypeError))
        code.call(objects.address("PyErr_ExceptionMatches"))
        code.move("r13", "rax")
        code.set("rax", 0)
        code.compare("r13", "rax")
        code.jump("return", "e")
        code.call(objects.address("PyErr_Clear"))
        code.jump("general")


__all__ = ["ROOM", "Frame"]

"""What launches a kernel, in machine code: what a prepared `Launcher` does, whose variables this changes.

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

_CODES = {
    has_grid: next(
        each for each in Launcher._prepare.__code__.co_consts if isinstance(each, CodeType) and each.co_name == name
    )
    for has_grid, name in ((True, "launch_anywhere"), (False, "launch_with"))
}
_CELLS = {
    has_grid: {name: TUPLE_ITEMS + 8 * place for place, name in enumerate(code.co_freevars)}
    for has_grid, code in _CODES.items()
}
"""Where what launches has its variables, if it is told the grid and if it is not."""
_LAUNCHES = offsets(Stats, ("launches",))["launches"]
_STREAM = offsets(Launching, ("stream",))["stream"]


class _Given:
    """A launch by a function, on the stack, under construction.

    Parameters
    ----------
    call : Making
    given : int
        Where on the stack there are arguments, of which `NUMBER` says how many.
    has_grid : bool
        The first of them is the grid.
    """

    def __init__(self, call: Making, given: int, *, has_grid: bool) -> None:
        self._call = call
        self._given = given
        self._has_grid = has_grid
        self._cells = _CELLS[has_grid]
        self._in_python, self._is_launched, self._has_launched = (call.new_label() for _ in range(3))

    def write(self) -> None:
        call, code, num_others = self._call, self._call.code, int(self._has_grid)
        self._require_usual()
        if self._has_grid:
            self._put_grid()
        code.load("rax", "rsp", COST)
        code.load("r15", "rax", FUNCTION_CLOSURE)
        self._load("rdi", "pack")
        code.move("rsi", "rsp")
        code.add("rsi", self._given + 8 * num_others)
        code.load("rdx", "rsp", NUMBER)
        code.add("rdx", -num_others)
        code.set("rcx", 0)
        code.call(objects.address("PyObject_Vectorcall"))  # returns None, which is not counted
        code.compare_number("rax", 0)
        code.jump("raised", "e")
        self._load("rdi", "call")
        code.call(objects.address("PyObject_CallNoArgs"))
        code.compare_number("rax", 0)
        code.jump("raised", "e")
        code.set("rcx", id(0))
        code.compare("rax", "rcx")
        code.jump(self._has_launched, "e")
        self._fail()
        code.label(self._has_launched)
        self._count()
        code.jump(self._is_launched)
        code.label(self._in_python)
        code.load("rdi", "rsp", COST)
        code.move("rsi", "rsp")
        code.add("rsi", self._given)
        code.load("rdx", "rsp", NUMBER)
        code.set("rcx", 0)
        code.call(objects.address("PyObject_Vectorcall"))
        code.compare_number("rax", 0)
        code.jump("raised", "e")
        code.move("r15", "rax")
        call.drop("r15")
        code.label(self._is_launched)

    def _load(self, target: str, name: str) -> None:
        """Let a register have what a variable of the function's has, whose cells are in `r15`."""
        self._call.code.load(target, "r15", self._cells[name])
        self._call.code.load(target, target, CELL_VALUE)

    def _require_usual(self) -> None:
        """Go on where it is such a function, that is not at it, on the stream of before."""
        call, code = self._call, self._call.code
        if not objects.FUNCTIONS_ARE_KNOWN:
            code.jump(self._in_python)
        code.load("rdi", "rsp", COST)
        call.unless_type("rdi", FunctionType, self._in_python)
        code.set("rcx", id(_CODES[self._has_grid]))
        code.compare_with("rdi", FUNCTION_CODE, "rcx")
        code.jump(self._in_python, "ne")
        code.load("r15", "rdi", FUNCTION_CLOSURE)
        for name, value in (("is_at_it", False), ("after", None)):
            self._load("rax", name)
            code.set("rcx", id(value))
            code.compare("rax", "rcx")
            code.jump(self._in_python, "ne")
        self._load("rax", "counter")
        call.unless_type("rax", Stats, self._in_python)
        self._load("rax", "current")
        call.unless_type("rax", Launching, self._in_python)
        code.load("rax", "rax", _STREAM)
        self._load("rdx", "stream")
        code.compare("rax", "rdx")
        code.jump(self._in_python, "ne")

    def _put_grid(self) -> None:
        """Let the driver be told the grid, and the function know of it."""
        call, code = self._call, self._call.code
        code.load("rbp", "rsp", self._given)
        call.unless_type("rbp", tuple, self._in_python)
        code.compare_number_with("rbp", SIZE, len(MAX_GRID))
        code.jump(self._in_python, "ne")
        for place, most in enumerate(MAX_GRID):
            code.load("rsi", "rbp", TUPLE_ITEMS + 8 * place)
            call.unless_type("rsi", int, self._in_python)
            load_small(call, "rdx", "rsi", self._in_python)
            code.compare_number("rdx", 0)
            code.jump(self._in_python, "le")
            code.compare_number("rdx", most)
            code.jump(self._in_python, "g")
        self._load("rdi", "extents")
        code.load("rdi", "rdi", POINTED)
        for place in range(len(MAX_GRID)):
            code.load("rsi", "rbp", TUPLE_ITEMS + 8 * place)
            load_small(call, "rdx", "rsi", self._in_python)
            code.store_int("rdi", 4 * place, "rdx")
        code.load("rdi", "r15", self._cells["shape"])
        call.set_attribute("rdi", CELL_VALUE, "rbp")

    def _fail(self) -> None:
        """Have the function say what has gone wrong, or try again."""
        call, code = self._call, self._call.code
        code.store("rsp", self._given, "rax")
        self._load("rdi", "call")
        code.store("rsp", self._given + 8, "rdi")
        self._load("rdi", "fail")
        code.move("rsi", "rsp")
        code.add("rsi", self._given)
        code.set("rdx", 2)
        code.set("rcx", 0)
        code.call(objects.address("PyObject_Vectorcall"))
        code.load("rbp", "rsp", self._given)
        code.store("rsp", NUMBER, "rax")
        call.drop("rbp")
        code.compare_number_with("rsp", NUMBER, 0)
        code.jump("raised", "e")

    def _count(self) -> None:
        """Count the launch, and let the function know which it was."""
        call, code = self._call, self._call.code
        self._load("rbp", "counter")
        load_number(call, "rdi", "rbp", _LAUNCHES, self._is_launched)
        code.add("rdi", 1)
        code.call(objects.address("PyLong_FromSsize_t"))
        code.compare_number("rax", 0)
        code.jump("raised", "e")
        code.store("rsp", NUMBER, "rax")
        code.load("rdi", "r15", self._cells["number"])
        code.load("rdx", "rsp", NUMBER)
        call.set_attribute("rdi", CELL_VALUE, "rdx")
        code.load("rdx", "rsp", NUMBER)
        code.load("r15", "rbp", _LAUNCHES)
        code.store("rbp", _LAUNCHES, "rdx")
        call.drop("r15")


def launch_given(call: Making, given: int, *, has_grid: bool = True) -> None:
    """Launch by a function, on the stack, with arguments of which `NUMBER` says how many, the first of them the grid.

    Without a grid it is the one of before. What is raised is raised; `rbp` and `r15` change.
    """
    _Given(call, given, has_grid=has_grid).write()


__all__ = ["launch_given"]

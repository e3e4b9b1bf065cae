"""The launch of a chain that is written to a part of an array, in machine code: what it is, and that it is made."""

from __future__ import annotations

from oxinp._config import Config, config
from oxinp._core.lazy import executor
from oxinp._core.lazy.chains import ByArithmetic, launch_of, line_again
from oxinp._core.lazy.executor import Executable
from oxinp._core.lazy.expr import Structure
from oxinp._core.native import objects
from oxinp._core.native.function import MIDDLING, NONE
from oxinp._core.native.given import GIVEN, MOST_GIVEN, call_given, give
from oxinp._core.native.launchers import launch_given
from oxinp._core.native.leaves import load_ptr
from oxinp._core.native.making import COST, ENTRY, KEPT, LEAVES, NUMBER, PTR, RESULT, Making, offsets
from oxinp._core.native.matrices import find_matrix
from oxinp._core.native.objects import SIZE, TUPLE_ITEMS, TYPE

STRUCTURE = offsets(Structure, ("dtype", "has_parts", "planner"))
_PROGRAM = offsets(Executable, ("launch", "version"))
LATER = offsets(ByArithmetic, ("later",))["later"]
VERSION = offsets(Config, ("version",))["version"]
COMPUTED, SEEN, ENTRIES, MASK, GRAPH_OF = (TUPLE_ITEMS + 8 * i for i in range(5))
"""Where a chain has what, see `straight`."""
STORAGE_AT, LAYOUT_AT, CHAIN_AT, SOURCE_AT, IS_UPDATE_AT = (8 * i for i in range(5))
"""Where among the arguments of `straight.write_part` there is what."""
ARGS = 8
"""Where on the stack there is where these lie."""

_NAMED = ("is_looked_for",)
NUMBERS = (float, int, bool, *MIDDLING)


def find_launch(call: Making) -> None:
    """Let `r15` have what launches, and the stack the kernel, grid and constants, if it has to be told these."""
    code = call.code
    code.load("r15", "rsp", KEPT)
    code.compare_number("r15", 0)
    code.jump("to look for", "e")
    code.set("rdx", id(config))
    code.load("rdx", "rdx", VERSION)
    code.compare_with("r15", _PROGRAM["version"], "rdx")
    code.jump("undo", "ne")
    code.load("r15", "r15", _PROGRAM["launch"])
    code.jump("has launch")
    code.label("to look for")
    _make_entries(call)
    code.load("rsi", "r13", COMPUTED)
    give(call, ("rsi", STRUCTURE["planner"]), ("rsp", ENTRY))
    call_given(call, line_again, 2)
    call.made(RESULT, "r15")
    code.set("rcx", NONE)
    code.compare("r15", "rcx")
    code.jump("is line", "ne")
    find_matrix(call, "ask for matrices")
    code.jump("is line")
    code.label("ask for matrices")
    _ask_for_matrices(call)
    code.label("is line")
    load_launcher(call)
    code.label("has launch")
    call.keep_at(COST, "r15")


def load_launcher(call: Making) -> None:
    """Let `r15` have what launches the kernel of the launch there, which is ready, and `rbp` the backend."""
    code = call.code
    call.unless_type("r15", tuple, "undo")
    code.load("rsi", "r15", TUPLE_ITEMS)
    code.set("rdi", id(executor._ANYWHERE))
    code.call(objects.address("PyDict_GetItem"))
    code.compare_number("rax", 0)
    code.jump("undo", "e")
    code.move("r15", "rax")
    code.set("rdx", id(config))
    code.load("rdx", "rdx", VERSION)
    code.compare_with("r15", TUPLE_ITEMS, "rdx")
    code.jump("undo", "ne")
    code.load("rbp", "r15", TUPLE_ITEMS + 16)
    code.load("r15", "r15", TUPLE_ITEMS + 8)
    code.set("rcx", NONE)
    code.compare("r15", "rcx")
    code.jump("undo", "e")


def _make_entries(call: Making) -> None:
    """Let the stack have a tuple of the layouts of the result, of the part, if it is updated, and of all leaves."""
    code, is_counted = call.code, call.new_label()
    code.load("rsi", "r13", SEEN)
    call.unless_type("rsi", tuple, "undo")
    code.load("rdi", "rsi", SIZE)
    code.add("rdi", 1)
    code.load("rbp", "rsp", ARGS)
    code.set("rcx", id(True))
    code.compare_with("rbp", IS_UPDATE_AT, "rcx")
    code.jump(is_counted, "ne")
    code.add("rdi", 1)
    code.label(is_counted)
    code.store("rsp", NUMBER, "rdi")
    code.call(objects.address("PyTuple_New"))
    call.made(ENTRY, "r15")
    code.load("rdi", "rsp", NUMBER)
    code.load("rsi", "r13", SEEN)
    code.load("rdx", "rsi", SIZE)
    code.label("next own")
    code.store("r15", TUPLE_ITEMS, "r12")
    call.keep("r12")
    code.load("rbp", "r13", SEEN)
    code.add("r15", 8)
    code.add("rdi", -1)
    code.compare("rdi", "rdx")
    code.jump("next own", "ne")
    code.label("next seen")
    code.compare_number("rdx", 0)
    code.jump("are entered", "e")
    code.add("rdx", -1)
    code.load("rsi", "rbp", TUPLE_ITEMS)
    code.store("r15", TUPLE_ITEMS, "rsi")
    call.keep("rsi")
    for each in ("rbp", "r15"):
        code.add(each, 8)
    code.jump("next seen")
    code.label("are entered")


def _ask_for_matrices(call: Making) -> None:
    """Let `r15` have the kernel, grid and constants for a matrix, which the stack keeps; leave others to Python."""
    code = call.code
    code.load("rdi", "rsp", ENTRY)
    code.set("rsi", 1)
    code.load("rdx", "rdi", SIZE)
    code.call(objects.address("PyTuple_GetSlice"))
    call.made(LEAVES, "rax")
    give(call, ("r13", COMPUTED), "r12", ("rsp", LEAVES), id(False))
    call_given(call, launch_of, 4, _NAMED)
    call.made(RESULT, "r15")  # in place of None, which is not counted


def launch(call: Making) -> None:
    """Launch, with the grid, if it has to be told that, the address, parameters and constants."""
    code, has_grid = call.code, call.new_label()
    code.move("rsi", "rsp")
    code.add("rsi", GIVEN)
    code.load("rdi", "rsp", RESULT)
    code.compare_number("rdi", 0)
    code.jump(has_grid, "e")
    require_room(call, ("rdi", TUPLE_ITEMS + 16), ("r13", ENTRIES))
    code.load("rdx", "rdi", TUPLE_ITEMS + 8)
    push(call, "rdx")
    code.load("rbp", "rsp", ARGS)
    code.set("rcx", id(True))
    code.compare_with("rbp", IS_UPDATE_AT, "rcx")
    code.jump(has_grid, "ne")
    code.load("rdx", "rsp", PTR)
    push(call, "rdx")
    code.label(has_grid)
    code.load("rdx", "rsp", PTR)
    push(call, "rdx")
    push_entries(call, "r13", ENTRIES)
    push_constants(call)
    count_pushed(call)
    code.compare_number_with("rsp", RESULT, 0)
    code.jump("has no grid", "e")
    launch_given(call, GIVEN)
    code.jump("has run")
    code.label("has no grid")
    launch_given(call, GIVEN, has_grid=False)
    code.label("has run")


def require_room(call: Making, *tuples: tuple[str, int]) -> None:
    """Go on if tuples, at offsets from registers, have no more items than can be arguments; `rdx` changes."""
    code = call.code
    code.set("rax", 0)
    for holder, at in tuples:
        code.load("rdx", holder, at)
        code.add_from("rax", "rdx", SIZE)
    code.compare_number("rax", MOST_GIVEN - 3)
    code.jump("undo", "g")


def count_pushed(call: Making) -> None:
    """Let the stack have how many arguments there are, the last of which ends where `rsi` says."""
    code = call.code
    code.move("rdx", "rsi")
    code.move("rax", "rsp")
    code.add("rax", GIVEN)
    code.negate("rax")
    code.add_register("rdx", "rax")
    for _ in range(3):
        code.halve("rdx")
    code.store("rsp", NUMBER, "rdx")


def push_entries(call: Making, holder: str, at: int) -> None:
    """Let arguments more be the addresses of leaves, and numbers, of a tuple at an offset from a register."""
    code, again, is_number, is_plain, are_given = call.code, *(call.new_label() for _ in range(4))
    code.load("r8", holder, at)
    code.load("r9", "r8", SIZE)
    code.compare_number("r9", MOST_GIVEN - 3)
    code.jump("undo", "g")
    code.label(again)
    code.compare_number("r9", 0)
    code.jump(are_given, "e")
    code.add("r9", -1)
    code.load("rdi", "r8", TUPLE_ITEMS)
    code.add("r8", 8)
    load_ptr(call, "rdi", "rdx", is_number)
    push(call, "rdx")
    code.jump(again)
    code.label(is_number)
    code.load("rdx", "rdi", TYPE)
    call.if_one_of("rdx", NUMBERS, is_plain)
    code.jump("undo")
    code.label(is_plain)
    push(call, "rdi")
    code.jump(again)
    code.label(are_given)


def push_constants(call: Making) -> None:
    """Let arguments more be the constants, where there are any."""
    code, has_none = call.code, call.new_label()
    code.load("rdi", "rsp", RESULT)
    code.compare_number("rdi", 0)
    code.jump(has_none, "e")
    push_items(call, "rdi", TUPLE_ITEMS + 16)
    code.label(has_none)


def push_items(call: Making, holder: str, at: int) -> None:
    """Let arguments more be the items of a tuple at an offset from a register."""
    code, again, done = call.code, call.new_label(), call.new_label()
    code.load("r8", holder, at)
    code.load("r9", "r8", SIZE)
    code.label(again)
    code.compare_number("r9", 0)
    code.jump(done, "e")
    code.add("r9", -1)
    code.load("rdx", "r8", TUPLE_ITEMS)
    code.add("r8", 8)
    push(call, "rdx")
    code.jump(again)
    code.label(done)


def push(call: Making, register: str) -> None:
    """Let an argument more, where `rsi` says, be what a register has."""
    call.code.store("rsi", 0, register)
    call.code.add("rsi", 8)


__all__ = [
    "ARGS",
    "CHAIN_AT",
    "COMPUTED",
    "ENTRIES",
    "GRAPH_OF",
    "LATER",
    "LAYOUT_AT",
    "MASK",
    "NUMBERS",
    "SEEN",
    "SOURCE_AT",
    "STORAGE_AT",
    "STRUCTURE",
    "VERSION",
    "count_pushed",
    "find_launch",
    "launch",
    "load_launcher",
    "push",
    "push_constants",
    "push_entries",
    "push_items",
    "require_room",
]

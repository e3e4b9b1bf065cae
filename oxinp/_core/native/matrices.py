"""The launch of a chain on matrices, in machine code: what `KnownChains.matrix_again` says."""

from __future__ import annotations

import importlib

from oxinp._core.lazy.chains import ELEMENTWISE, line_of, matrix_of
from oxinp._core.lazy.expr import Structure
from oxinp._core.memory.layout import Layout
from oxinp._core.native import objects
from oxinp._core.native.function import NONE
from oxinp._core.native.given import call_given, give
from oxinp._core.native.leaves import load_number
from oxinp._core.native.making import ENTRY, GRID, KEY, LAYOUT, LEAVES, NEW, NEW_GRAPH, RESULT, Making, offsets
from oxinp._core.native.objects import SIZE, TUPLE_ITEMS
from oxinp._core.native.places import load_small
from oxinp._kernels.choice import MIN_TUNED_NBYTES
from oxinp._kernels.elementwise.access import MAX_VECTOR
from oxinp._kernels.elementwise.known import MIN_FILL, _Alike, _Loops
from oxinp._kernels.elementwise.staging import MAX_REPEATS
from oxinp._kernels.nest import MAX_INDEX_32, magic

_PLANNER = offsets(Structure, ("planner",))["planner"]
_ROWS, _COLUMNS, _ACROSS, _BELOW, _TILES, _COUNT = (8 * i for i in range(22, 28))
"""Where on the stack there is what, once `apart` has done its work."""
_LOOPS = {name: TUPLE_ITEMS + 8 * place for place, name in enumerate(_Loops._fields)}
_ALIKE = {name: TUPLE_ITEMS + 8 * place for place, name in enumerate(_Alike._fields)}
"""Where what is kept of matrices that lie, or move, alike has what."""
_THOUSANDTHS = int(1000 * MIN_FILL)
_IS_FILLED, _IS_NOT = _THOUSANDTHS + 1, _THOUSANDTHS - 1  # of a tile, beyond any doubt of arithmetic on floats


def find_matrix(call: Making, label: str) -> None:
    """Let `r15` have the kernel, grid and constants for the layouts in the tuple on the stack, which keeps them.

    Go to a label where Python is to be asked. The layout of the result is in `r12`, and the chain in `r13`; `rbp`
    changes.
    """
    planners = importlib.import_module(ELEMENTWISE).Elementwise
    code = call.code
    code.set("rcx", id(2))
    code.compare_with("r12", LAYOUT["ndim"], "rcx")
    code.jump(label, "ne")
    give(call, ("rsp", ENTRY))
    call_given(call, line_of, 1)
    code.set("rcx", NONE)
    code.compare("rax", "rcx")
    code.jump("is no line", "e")
    call.made(NEW, "rax")
    code.jump("undo")
    code.label("is no line")
    _list_layouts(call)
    give(call, ("rsp", NEW))
    call_given(call, matrix_of, 1)
    call.made(NEW_GRAPH, "rbp")
    _give_back(call, NEW)
    code.set("rcx", NONE)
    code.compare("rbp", "rcx")
    code.jump(label, "e")
    _load_extents(call, label)
    code.load("rdi", "rsp", _COLUMNS)
    code.and_number("rdi", MAX_VECTOR - 1)
    code.call(objects.address("PyLong_FromSsize_t"))
    code.store("rsp", _COUNT, "rax")  # which is not counted
    call.make_tuple(KEY, "rsi", ("rbp", TUPLE_ITEMS), ("rbp", TUPLE_ITEMS + 8), ("rsp", _COUNT))
    code.load("rdi", "r13", TUPLE_ITEMS)
    code.load("rdi", "rdi", _PLANNER)
    call.unless_type("rdi", planners, label)
    code.load("rdi", "rdi", offsets(planners, ("_loops",))["_loops"])
    code.call(objects.address("PyDict_GetItem"))
    code.compare_number("rax", 0)
    code.jump(label, "e")
    code.move("r15", "rax")
    _require_indices(call, label)
    _divide(call, label)
    _require_kernel(call, "kernel", label)
    _make_constants(call, (_COLUMNS, _ROWS, _ACROSS, None, None, _BELOW, None, None))
    _make_result(call, "kernel")
    code.jump("is matrix")
    code.label("few in tiles")
    _divide_in_units(call, label)
    _require_kernel(call, "plain", label)
    _make_constants(call, (_ACROSS, _BELOW, _ROWS, None, None))
    _make_result(call, "plain")
    code.label("is matrix")


def _require_kernel(call: Making, name: str, label: str) -> None:
    """Go on where a kernel has been made."""
    code = call.code
    code.set("rcx", NONE)
    code.load("rdx", "r15", _LOOPS["alike"])
    code.compare_with("rdx", _ALIKE[name], "rcx")
    code.jump(label, "e")


def _give_back(call: Making, place: int) -> None:
    """Give back what has been made at a place; `r15` changes."""
    code = call.code
    code.load("r15", "rsp", place)
    code.set("rax", 0)
    code.store("rsp", place, "rax")
    call.drop("r15")


def _list_layouts(call: Making) -> None:
    """Let the stack have a list of the layouts in the tuple there."""
    code, again, done = call.code, call.new_label(), call.new_label()
    code.set("rdi", 0)
    code.call(objects.address("PyList_New"))
    call.made(NEW, "rbp")
    code.set("rax", 0)
    code.store("rsp", _COUNT, "rax")
    code.label(again)
    code.load("rdx", "rsp", ENTRY)
    code.load("rcx", "rsp", _COUNT)
    code.compare_with("rdx", SIZE, "rcx")
    code.jump(done, "e")
    code.load_at("rsi", "rdx", "rcx", 8, TUPLE_ITEMS)
    code.increment("rsp", _COUNT)
    call.unless_type("rsi", Layout, again)
    code.move("rdi", "rbp")
    code.call(objects.address("PyList_Append"))
    code.jump(again)
    code.label(done)


def _load_extents(call: Making, label: str) -> None:
    """Let the stack have rows and columns, at least two of each."""
    code = call.code
    code.load("rdx", "r12", LAYOUT["shape"])
    for place, to in enumerate((_ROWS, _COLUMNS)):
        code.load("rsi", "rdx", TUPLE_ITEMS + 8 * place)
        load_small(call, "rdi", "rsi", label)
        code.compare_number("rdi", 2)
        code.jump(label, "l")
        code.store("rsp", to, "rdi")


def _require_indices(call: Making, label: str) -> None:
    """Go on where 32-bit indices reach all elements, and the matrices are no single loop, nor rows to be repeated."""
    code, is_long = call.code, call.new_label()
    code.compare_number_with("rsp", _ROWS, MAX_REPEATS)
    code.jump(is_long, "g")
    code.set("rcx", id(True))
    code.load("rdx", "r15", _LOOPS["alike"])
    code.compare_with("rdx", _ALIKE["is_row"], "rcx")
    code.jump(label, "e")
    code.label(is_long)
    load_number(call, "rax", "r15", _LOOPS["whole"], label)
    code.compare_with("rsp", _COLUMNS, "rax")
    code.jump(label, "e")
    load_number(call, "rbp", "r15", _LOOPS["down"], label)
    code.multiply("rbp", "rsp", _ROWS)
    load_number(call, "rax", "r15", _LOOPS["along"], label)
    code.multiply("rax", "rsp", _COLUMNS)
    code.add_register("rbp", "rax")
    code.compare_number("rbp", MAX_INDEX_32)
    code.jump(label, "ge")
    code.load("rax", "rsp", _ROWS)
    code.multiply("rax", "rsp", _COLUMNS)
    code.compare_number("rax", MAX_INDEX_32)
    code.jump(label, "ge")


def _divide(call: Making, label: str) -> None:
    """Let the stack have how many tiles there are across, below and in all; others go on at ``few in tiles``."""
    code = call.code
    code.load("rbp", "r15", _LOOPS["alike"])
    code.load("rbp", "rbp", _ALIKE["extents"])
    code.set("rax", 1)
    code.store("rsp", _TILES, "rax")
    code.store("rsp", _COUNT, "rax")  # elements of all tiles
    for place, (extent, to) in enumerate(((_COLUMNS, _ACROSS), (_ROWS, _BELOW))):
        code.load("rsi", "rbp", TUPLE_ITEMS + 8 * place)
        load_small(call, "rcx", "rsi", label)
        code.load("rax", "rsp", extent)
        code.add_register("rax", "rcx")
        code.add("rax", -1)
        code.divide("rcx")
        code.store("rsp", to, "rax")
        code.multiply_by("rcx", "rax")
        code.multiply("rcx", "rsp", _COUNT)
        code.store("rsp", _COUNT, "rcx")
        code.multiply("rax", "rsp", _TILES)
        code.store("rsp", _TILES, "rax")
    code.load("rax", "rsp", _ROWS)
    code.multiply("rax", "rsp", _COLUMNS)
    code.set("rdx", 1000)
    code.multiply_by("rax", "rdx")
    for least, where, is_so in ((_IS_NOT, "few in tiles", "le"), (_IS_FILLED, label, "l")):
        code.set("rcx", least)
        code.multiply("rcx", "rsp", _COUNT)
        code.compare("rax", "rcx")
        code.jump(where, is_so)


def _divide_in_units(call: Making, label: str) -> None:
    """Let the stack have how many units, elements beyond these, units of a row, and blocks there are without tiles.

    That is of matrices for which nothing else may have been measured to be faster.
    """
    code, has_blocks = call.code, call.new_label()
    code.load("rbp", "r15", _LOOPS["alike"])
    code.load("rbp", "rbp", _ALIKE["nbytes"])
    for place, to in ((0, _ACROSS), (2, _BELOW)):
        code.load("rsi", "rbp", TUPLE_ITEMS + 8 * place)
        load_small(call, "rdx", "rsi", label)
        code.multiply("rdx", "rsp", _COLUMNS)
        code.store("rsp", to, "rdx")
        code.load("rsi", "rbp", TUPLE_ITEMS + 8 * (place + 1))
        load_small(call, "rdx", "rsi", label)
        code.add_from("rdx", "rsp", to)
        code.store("rsp", to, "rdx")
    code.load("rdx", "rsp", _ACROSS)
    code.multiply("rdx", "rsp", _ROWS)
    code.add_from("rdx", "rsp", _BELOW)
    code.compare_number("rdx", MIN_TUNED_NBYTES)
    code.jump(label, "ge")
    code.load("rbp", "r15", _LOOPS["alike"])
    code.load("rbp", "rbp", _ALIKE["units"])
    code.load("rsi", "rbp", TUPLE_ITEMS)
    load_small(call, "rcx", "rsi", label)
    code.load("rax", "rsp", _ROWS)
    code.multiply("rax", "rsp", _COLUMNS)
    code.divide("rcx")
    code.store("rsp", _ACROSS, "rax")
    code.store("rsp", _BELOW, "rdx")
    code.load("rax", "rsp", _COLUMNS)
    code.divide("rcx")
    code.store("rsp", _ROWS, "rax")
    code.compare_number("rax", 0)
    code.jump(label, "e")
    code.load("rsi", "rbp", TUPLE_ITEMS + 8)
    load_small(call, "rcx", "rsi", label)
    code.load("rax", "rsp", _ACROSS)
    code.add_register("rax", "rcx")
    code.add("rax", -1)
    code.divide("rcx")
    code.compare_number("rax", 0)
    code.jump(has_blocks, "ne")
    code.set("rax", 1)
    code.label(has_blocks)
    code.store("rsp", _TILES, "rax")


def _make_constants(call: Making, numbers: tuple[int | None, ...]) -> None:
    """Let the stack have the constants: those of strides, numbers that it has, and after some what divides by them."""
    code = call.code
    code.set("rdi", len(numbers))
    code.call(objects.address("PyTuple_New"))
    call.made(LEAVES, "rbp")
    for place, number in enumerate(numbers):
        if number is None:
            continue
        code.load("rdi", "rsp", number)
        code.call(objects.address("PyLong_FromSsize_t"))
        code.compare_number("rax", 0)
        code.jump("undo", "e")
        code.store("rbp", TUPLE_ITEMS + 8 * place, "rax")
    for place in range(1, len(numbers) - 1):
        if numbers[place] is not None or numbers[place - 1] is None:
            continue
        code.set("rdi", id(magic))
        code.load("rsi", "rbp", TUPLE_ITEMS + 8 * (place - 1))
        code.call(objects.address("PyObject_CallOneArg"))
        code.compare_number("rax", 0)
        code.jump("undo", "e")
        code.store("rsp", _COUNT, "rax")
        for each in range(2):
            code.load("rcx", "rsp", _COUNT)
            code.load("rdx", "rcx", TUPLE_ITEMS + 8 * each)
            code.store("rbp", TUPLE_ITEMS + 8 * (place + each), "rdx")
            call.keep("rdx")
        code.load("rsi", "rsp", _COUNT)
        call.drop("rsi")
    code.load("rdi", "r15", _LOOPS["values"])
    code.move("rsi", "rbp")
    code.call(objects.address("PySequence_Concat"))
    code.compare_number("rax", 0)
    code.jump("undo", "e")
    code.load("rdi", "rsp", LEAVES)
    code.store("rsp", LEAVES, "rax")
    code.move("rbp", "rdi")
    call.drop("rbp")


def _make_result(call: Making, kernel: str) -> None:
    """Let `r15` have the kernel, the grid and the constants, which the stack keeps."""
    code = call.code
    code.load("rdx", "r15", _LOOPS["alike"])
    code.load("rdx", "rdx", _ALIKE[kernel])
    code.store("rsp", _COUNT, "rdx")
    code.load("rdi", "rsp", _TILES)
    code.call(objects.address("PyLong_FromSsize_t"))
    call.made(NEW, "rax")
    code.set("rbp", id(1))
    call.make_tuple(GRID, "rdi", ("rsp", NEW), "rbp", "rbp")
    call.make_tuple(RESULT, "rbp", ("rsp", _COUNT), ("rsp", GRID), ("rsp", LEAVES))
    for place in (NEW, GRID):
        _give_back(call, place)
    code.move("r15", "rbp")


__all__ = ["find_matrix"]

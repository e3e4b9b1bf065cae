"""Calls of ufuncs and of their methods with arrays on the host, in machine code.

They are ours, or NumPy's with numbers of its own.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np

from oxinp._core.lazy import inlining
from oxinp._core.lazy.balance import RECORDED, balance
from oxinp._core.lazy.bringing import brought
from oxinp._core.native import elementwise, loops, objects
from oxinp._core.native.binary import record_operation
from oxinp._core.native.call import GIVEN, Call
from oxinp._core.native.elements import require_listed
from oxinp._core.native.function import LIGHT, MIDDLING, MOST, MOST_LIGHT, MOST_WORK, NONE, WIDE, Function, cells
from oxinp._core.native.numbers import NUMBERS, load_number
from oxinp._core.native.objects import BYTES_ITEMS, INT_DIGIT, SIZE, TUPLE_ITEMS, TYPE
from oxinp._core.ops.updates import REDUCED_AT
from oxinp._core.reduction.table import BY_UFUNC, SCANS
from oxinp._core.ufunc.object import WARNING_OF_OUTPUTS
from oxinp._core.ufunc.objects import OF_TWO
from oxinp._core.ufunc.table import UFUNCS

_CALL = ctypes.create_string_buffer(b"__call__")


_OUT, _WHERE = map(sys.intern, ("out", "where"))
_BY_NAME = (_OUT,), (_OUT, _WHERE)
_IS_WEIGHED = 32
"""Where on the stack it says whether a call has been weighed."""
_HANDLE, _COUNT, _GIVEN, _MASK = loops.COUNT, loops.STATUS, loops.POINTERS, loops.TIMES
"""Where on the stack there is an array to write to, how many things NumPy is given, and these; and a mask, or 0."""
_ROWS = {row.numpy: loops.rows(row.numpy) for row in UFUNCS}
"""NumPy's ufuncs -> what is known of their loops."""


def _load_rows(function: Function, place: tuple[str, int], label: str) -> None:
    """Let `r15` have the first row of the loops of a ufunc of NumPy's; go to a label where none are known."""
    code = function.code
    code.set("rdi", id(_ROWS))
    code.load("rsi", *place)
    code.call(objects.address("PyDict_GetItem"))
    code.compare_number("rax", 0)
    code.jump(label, "e")
    code.move("r15", "rax")
    code.add("r15", BYTES_ITEMS)


def _compute(function: Function, *operands: str, are_numbers: bool = False) -> None:
    """Return ours of what the ufunc of NumPy's that `r13` has makes of operands, by its loop or by a call of it."""
    code, is_made, is_numpys = function.code, function.new_label(), function.new_label()
    function.unless_reported()
    code.store("rsp", 24, "r13")
    compute = elementwise.compute_numbers if are_numbers else elementwise.compute
    compute(function, partial(_load_rows, function, ("rsp", 24), is_numpys), operands, is_numpys)
    code.jump(is_made)
    code.label(is_numpys)
    for place, each in enumerate(operands):
        code.store("rsp", 8 + 8 * place, each)
        function.keep(each)
    code.load("rdi", "rsp", 24)
    code.move("rsi", "rsp")
    code.add("rsi", 8)
    code.set("rdx", len(operands))
    code.set("rcx", 0)
    code.call(objects.address("PyObject_Vectorcall"))
    code.move("r13", "rax")
    for each in operands:
        function.drop(each)
    code.compare_number("r13", 0)
    code.jump(is_made, "ne")
    function.return_error()
    code.label(is_made)
    function.wrap("r13", "r12", is_few=False)


def array_ufunc(kind: type, method: Any) -> bytes:
    """Return the code of ``__array_ufunc__``, which NumPy calls for a number of its own beside an array of ours."""
    function = Function(kind, 0, loops.STACK)
    code = function.code
    function.begin()
    code.compare_number("rdx", 0)
    code.jump("general", "ne")
    code.load("rax", "rbp", SIZE)
    code.compare_number("rax", 4)
    code.jump("general", "ne")
    code.load("rdi", "rbp", TUPLE_ITEMS + 8)
    code.set("rsi", ctypes.addressof(_CALL))
    code.call(objects.address("PyUnicode_CompareWithASCIIString"))
    code.store("rsp", 8, "rax")
    code.load_int("rax", "rsp", 8)
    code.compare_number("rax", 0)
    code.jump("general", "ne")
    function.unless_type("rbx", kind, "general")
    code.compare_with("rbp", TUPLE_ITEMS + 24, "rbx")
    code.jump("general", "ne")
    code.load("r12", "rbp", TUPLE_ITEMS + 16)
    code.load("rax", "r12", TYPE)
    function.if_one_of("rax", NUMBERS, "number")
    code.jump("general")
    code.label("number")
    code.load("r13", "rbp", TUPLE_ITEMS)
    code.set("r15", id(OF_TWO))
    function.call("PyDict_GetItem", "r15", "r13")
    code.compare_number("rax", 0)
    code.jump("general", "e")
    code.load("rax", "rax", TUPLE_ITEMS)  # what an element costs at most
    code.load_int("rax", "rax", INT_DIGIT)
    code.compare_number("rax", inlining.HEAVY)
    code.jump("general", "g")
    function.load_seen("r14", "rbx", storage="r8")
    function.require_elements("r14", (*MIDDLING, *WIDE))
    function.require_small("rbx", "r14")
    _compute(function, "r12", "r14")
    function.end_wrap("r13")
    function.end_of_method(method)
    return code.assembled()


def _load_two(function: Function, arrays: type) -> None:
    """Let `r12` and `r14` have a call's operands, arrays of ours or one and a number, and `rax` their count."""
    code = function.code
    code.load("r13", "rbp", TUPLE_ITEMS)
    function.unless_type("r13", arrays, "reflected")
    function.load_seen("r12", "r13", storage="r8", label="elsewhere")
    function.require_host("r13", "r12", is_learned=True)
    code.load("r13", "rbp", TUPLE_ITEMS + 8)
    function.unless_type("r13", arrays, "number")
    function.load_seen("r14", "r13", storage="r8", label="elsewhere")
    function.require_host("r13", "r14", is_learned=True)
    function.multiply_broadcast("r12", "r14")
    code.jump("counted")
    code.label("number")
    load_number(function, "r13", "r12", "r14", is_kept=False)
    function.multiply_extents("r12")
    code.jump("counted")
    code.label("reflected")
    code.load("r13", "rbp", TUPLE_ITEMS + 8)
    function.unless_type("r13", arrays, "two numbers")
    function.load_seen("r14", "r13", storage="r8", label="elsewhere")
    function.require_host("r13", "r14", is_learned=True)
    code.load("r13", "rbp", TUPLE_ITEMS)
    load_number(function, "r13", "r14", "r12", is_kept=False)
    function.multiply_extents("r14")
    code.label("counted")


def _compute_two(function: Function, numpys: int) -> None:
    """Compute what a ufunc makes of operands in `r12` and `r14`, or of a call's that are no arrays: ``two numbers``."""
    code = function.code
    code.jump("compute two")
    code.label("two numbers")
    for place, number in enumerate(("r12", "r14")):
        is_number = function.new_label()
        code.load(number, "rbp", TUPLE_ITEMS + 8 * place)
        code.load("rax", number, TYPE)
        function.if_one_of("rax", (float, int, *NUMBERS), is_number)
        code.jump("on the device")  # or neither here nor there
        code.label(is_number)
    code.load("r13", "rbx", numpys)
    _compute(function, "r12", "r14", are_numbers=True)
    code.label("compute two")
    code.load("r13", "rbx", numpys)
    _compute(function, "r12", "r14")


def _weigh(ours: Any, nbytes: int) -> None:
    """Note a call that is the host's by what has been learned, of a ufunc that costs much; see `Balance.takes`."""
    balance.takes(nbytes, ours._row.weight, RECORDED)


def _require_light(function: Function, reach: int, again: str) -> None:
    """Go to the general function unless so many words as `rax` has are the host's, by what a ufunc in `rbx` costs.

    What is so by what has been learned is weighed, and all begins again: other threads may have run.
    """
    code = function.code
    is_light, is_more, is_heavy = (function.new_label() for _ in range(3))
    function.if_all_few(is_light)
    code.load("r8", "rbx", reach)
    code.load_int("r8", "r8", INT_DIGIT)
    code.compare_number("rax", MOST_LIGHT)
    code.jump(is_more, "ge")
    code.move("rcx", "r8")
    code.multiply_by("rcx", "rax")
    code.compare_number("rcx", MOST_WORK)
    code.jump(is_light, "l")
    code.label(is_more)
    code.compare_number("r8", LIGHT)
    code.jump(is_heavy, "ne")
    function.require_reach(LIGHT)
    function.count_learned(LIGHT, "general")
    code.jump(is_light)
    code.label(is_heavy)
    code.set("rcx", ctypes.addressof(cells))
    code.compare_number_with("rcx", MOST, 0)  # of thresholds that let more be the device's
    code.jump("general", "e")
    function.require_learned()
    code.compare_number_with("rsp", _IS_WEIGHED, 0)
    code.jump(is_light, "ne")
    code.set("rcx", 1)
    code.store("rsp", _IS_WEIGHED, "rcx")
    code.move("rdi", "rax")
    for _ in range(3):
        code.add_register("rdi", "rdi")
    code.call(objects.address("PyLong_FromSsize_t"))
    code.compare_number("rax", 0)
    code.jump("general", "e")
    code.move("r12", "rax")
    code.store("rsp", 8, "rbx")
    code.store("rsp", 16, "r12")
    code.set("rdi", id(_weigh))
    code.move("rsi", "rsp")
    code.add("rsi", 8)
    code.set("rdx", 2)
    code.set("rcx", 0)
    code.call(objects.address("PyObject_Vectorcall"))
    code.move("r14", "rax")
    function.drop("r12")
    code.compare_number("r14", 0)
    code.jump("not weighed", "e")
    function.drop("r14")
    code.jump(again)
    code.label(is_light)


def call(kind: type, before: int, arrays: type) -> bytes:
    """Return the code of a call of a ufunc of ours, of class `kind`, with one or two operands."""
    function = Function(arrays, before, loops.STACK)
    code = function.code
    arity, numpys, reach = (objects.offset(kind.__dict__[name]) for name in ("_arity", "_numpys", "_reach"))

    require_light = partial(_require_light, function, reach, "start")

    def count_words(*operands: str) -> None:
        unknown = function.new_label()
        elementwise.count_words(function, partial(_load_rows, function, ("rbx", numpys), unknown), operands, unknown)

    function.begin()
    code.set("rax", 0)
    code.store("rsp", _IS_WEIGHED, "rax")
    function.unless_type("rbx", kind, "general")
    code.compare_number("rdx", 0)
    code.jump("keywords", "ne")
    code.label("start")
    code.load("rax", "rbp", SIZE)
    code.compare_number("rax", 1)
    code.jump("two", "ne")
    code.set("rcx", id(1))
    code.compare_with("rbx", arity, "rcx")
    code.jump("general", "ne")
    code.load("r13", "rbp", TUPLE_ITEMS)
    function.unless_type("r13", arrays, "one number")
    function.load_seen("r12", "r13", storage="r8", label="elsewhere")
    function.require_host("r13", "r12", is_learned=True)
    function.multiply_extents("r12")
    count_words("r12")
    require_light()
    code.jump("compute one")
    code.label("one number")
    code.move("r12", "r13")
    code.load("rax", "r12", TYPE)
    function.if_one_of("rax", (float, int, *NUMBERS), "compute one number")
    code.jump("general")
    code.label("compute one number")
    code.load("r13", "rbx", numpys)
    _compute(function, "r12", are_numbers=True)
    code.label("compute one")
    code.load("r13", "rbx", numpys)
    _compute(function, "r12")
    code.label("two")
    code.compare_number("rax", 2)
    code.jump("by position", "ne")
    code.set("rcx", id(2))
    code.compare_with("rbx", arity, "rcx")
    code.jump("by position", "ne")
    _load_two(function, arrays)
    count_words("r12", "r14")
    require_light()
    _compute_two(function, numpys)
    _call_into(function, arrays, arity, numpys, partial(_require_light, function, reach, "into"))
    function.end_with_bringing(brought, label="on the device")
    _record(function, objects.offset(kind.__dict__["operations"]))
    code.label("not weighed")
    code.call(objects.address("PyErr_Clear"))
    code.jump("general")
    function.end_wrap("r13")
    function.end()
    return code.assembled()


def _record(function: Function, operations: int) -> None:
    """Lay out ``on the device``: return what is recorded for a call of a ufunc, which says where its operations are."""
    code = function.code

    def load_operation() -> None:
        code.load("rdi", "rbx", operations)
        code.load("rdi", "rdi", TUPLE_ITEMS)

    code.label("on the device")
    code.load("r13", "rbp", TUPLE_ITEMS)
    code.compare_number_with("rbp", SIZE, 1)
    code.jump("two on the device", "ne")
    record_operation(function, load_operation, "r13")
    code.label("two on the device")
    code.load("r14", "rbp", TUPLE_ITEMS + 8)
    record_operation(function, load_operation, "r13", "r14")


def _load_output(function: Function, arrays: type, numpys: int) -> None:
    """Let the stack have where the result goes, by keyword or last, the mask beside that, and how many operands."""
    code, has_mask = function.code, function.new_label()
    code.label("into")
    code.compare_number_with("rsp", 0, 0)
    code.jump("by position", "e")
    code.label("keywords")
    code.load("r13", "rsp", 0)
    function.unless_type("r13", dict, "general")
    code.set("rax", 0)
    code.compare_number_with("r13", SIZE, 1)
    code.jump(has_mask, "e")
    code.compare_number_with("r13", SIZE, 2)
    code.jump("general", "ne")
    code.set("r12", id(_WHERE))
    function.call("PyDict_GetItem", "r13", "r12")
    code.compare_number("rax", 0)
    code.jump("general", "e")
    code.label(has_mask)
    code.store("rsp", _MASK, "rax")
    code.set("r12", id(_OUT))
    function.call("PyDict_GetItem", "r13", "r12")
    code.compare_number("rax", 0)
    code.jump("general", "e")
    code.load("rcx", "rbp", SIZE)
    code.jump("has output")
    code.label("by position")
    code.load("rcx", "rbp", SIZE)
    code.add("rcx", -1)
    code.jump("general", "le")
    code.load("rax", "rbx", numpys)
    function.if_one_of("rax", WARNING_OF_OUTPUTS, "general")
    code.load("rcx", "rbp", SIZE)
    code.add("rcx", -1)
    code.move("rax", "rbp")
    for _ in range(8):
        code.add_register("rax", "rcx")
    code.load("rdx", "rax", TUPLE_ITEMS)
    code.set("rax", 0)
    code.store("rsp", _MASK, "rax")
    code.move("rax", "rdx")
    code.label("has output")
    code.store("rsp", _COUNT, "rcx")
    code.store("rsp", _HANDLE, "rax")
    function.unless_type("rax", arrays, "general")


def _load_into(function: Function, arrays: type, arity: int, numpys: int) -> None:
    """Let the stack have operands, as many as a ufunc has, and where the result goes."""
    code = function.code
    _load_output(function, arrays, numpys)
    code.move("r12", "rax")
    function.load_seen("r14", "r12", storage="r13")
    function.provide_storage("r12", "r14", "r13")  # nothing else runs from here to where references are taken
    code.load("rax", "rsp", _COUNT)
    for count in (1, 2):
        code.compare_number("rax", count)
        code.jump(f"{count} operands", "e")
    code.jump("general")
    for count in (1, 2):
        code.label(f"{count} operands")
        code.set("rcx", id(count))
        code.compare_with("rbx", arity, "rcx")
        code.jump("general", "ne")
        for place in range(count):
            _place_operand(function, arrays, place)
        code.set("rax", count + 1)
        code.store("rsp", _COUNT, "rax")
        code.compare_number_with("rsp", _MASK, 0)
        code.jump("placed", "e")
        code.load("r13", "rsp", _MASK)
        function.unless_type("r13", arrays, "general")
        function.load_seen("r12", "r13", storage="r8")
        function.require_host("r13", "r12", is_learned=True)
        function.require_elements("r12", (np.bool_,))
        code.store("rsp", _GIVEN + 8 * (count + 1), "r12")
        code.jump("placed")
    code.label("placed")


def _call_into(function: Function, arrays: type, arity: int, numpys: int, require_light: Callable[[], None]) -> None:
    """Lay out ``keywords`` and ``by position``: NumPy writes to an array on the host."""
    code, failed, is_known = function.code, function.new_label(), function.new_label()
    _load_into(function, arrays, arity, numpys)
    code.load("r12", "rsp", _HANDLE)
    function.load_seen("r14", "r12", storage="r13")
    function.require_elements("r14", (*MIDDLING, *WIDE))
    function.count_own("r14")
    require_light()
    function.unless_reported()
    function.require_writable("r12")
    function.let_be_alone("r13", "into")
    function.begin_writing("r13")
    code.load("rdx", "rsp", _COUNT)
    code.move("rax", "rsp")
    for _ in range(8):
        code.add_register("rax", "rdx")
    code.store("rax", _GIVEN - 8, "r14")
    code.set("rcx", id(_BY_NAME[0]))
    code.compare_number_with("rsp", _MASK, 0)
    code.jump(is_known, "e")
    code.add("rdx", 1)
    code.store("rsp", _COUNT, "rdx")
    code.set("rcx", id(_BY_NAME[1]))
    code.label(is_known)
    code.store("rsp", _HANDLE, "rcx")
    _keep_given(function, is_kept=True)
    code.load("rdi", "rbx", numpys)
    code.move("rsi", "rsp")
    code.add("rsi", _GIVEN)
    code.load("rcx", "rsp", _HANDLE)
    code.load("rdx", "rsp", _COUNT)
    code.subtract_from("rdx", "rcx", SIZE)  # by position
    code.call(objects.address("PyObject_Vectorcall"))
    code.store("rsp", 8, "rax")
    _keep_given(function, is_kept=False)
    function.end_writing("r13")
    code.load("r13", "rsp", 8)
    code.compare_number("r13", 0)
    code.jump(failed, "e")
    function.drop("r13")
    function.keep("r12")
    code.move("rax", "r12")
    code.jump("return")
    code.label(failed)
    code.label("no storage")
    code.set("rax", 0)
    code.jump("return")


def _place_operand(function: Function, arrays: type, place: int) -> None:
    """Let the stack have an operand as NumPy is given it: an array's view on the host, or a number."""
    code, is_number, is_placed = function.code, function.new_label(), function.new_label()
    code.load("r13", "rbp", TUPLE_ITEMS + 8 * place)
    function.unless_type("r13", arrays, is_number)
    function.load_seen("r12", "r13", storage="r8")
    function.require_host("r13", "r12", is_learned=True)
    code.jump(is_placed)
    code.label(is_number)
    code.move("r12", "r13")
    code.load("rax", "r12", TYPE)
    function.if_one_of("rax", (float, int, *NUMBERS), is_placed)
    code.jump("general")
    code.label(is_placed)
    code.store("rsp", _GIVEN + 8 * place, "r12")


def _keep_given(function: Function, *, is_kept: bool) -> None:
    """Take references to what NumPy is given, or give them back."""
    code, again, done = function.code, function.new_label(), function.new_label()
    code.load("rbp", "rsp", _COUNT)
    code.label(again)
    code.add("rbp", -1)
    code.jump(done, "s")
    code.move("rax", "rsp")
    for _ in range(8):
        code.add_register("rax", "rbp")
    code.load("r14", "rax", _GIVEN)
    if is_kept:
        function.keep("r14")
    else:
        function.drop("r14")
    code.jump(again)
    code.label(done)


def _load_numpys(called: Call, kind: type, *counts: int, keyword: str | None = None) -> None:
    """Let `r15` have NumPy's ufunc, of a method's call with so many arguments in all, and `r14` how many there are.

    The last one may be given by a keyword.
    """
    code, begun = called.code, called.new_label()
    called.begin_call(*counts, keywords="general" if keyword is None else "keywords")
    if keyword is not None:
        called.require_keyword(keyword, counts[-1])
    for count in counts:
        code.label(f"{count} arguments")
        code.set("r14", count)
        code.jump(begun)
    code.label(begun)
    code.load("rbx", "rbp", 0)
    called.unless_type("rbx", kind, "general")
    code.load("r15", "rbx", objects.offset(kind.__dict__["_numpys"]))


def _return_found(called: Call, method: object, most: int = 3) -> None:
    """Return ours of what a method of NumPy's ufuncs makes of what lies on the stack, `r14` things of so many."""
    code, is_made = called.code, called.new_label()
    called.unless_reported()
    for i in range(most):
        code.load("r12", "rsp", GIVEN + 8 * i)
        called.keep("r12")
    code.move("rdx", "r14")
    called.call_with_given(method)
    code.move("r13", "rax")
    for i in range(most):
        code.load("r12", "rsp", GIVEN + 8 * i)
        called.drop("r12")
    code.compare_number("r13", 0)
    code.jump(is_made, "ne")
    called.return_error()
    code.label(is_made)
    called.return_new("r13", "r12", is_few=False)


def _place_axis(called: Call, place: int) -> None:
    """Let the stack have an axis, which is None unless so many arguments and one more are given, as `r14` says."""
    code, is_placed = called.code, called.new_label()
    code.set("r12", NONE)
    code.compare_number("r14", place)
    code.jump(is_placed, "e")
    code.load("r12", "rbp", 8 * place)
    called.unless_type("r12", int, "general")
    code.label(is_placed)
    code.store("rsp", GIVEN + 8 * place, "r12")


def along(kind: type, before: int | None, method: object, known: Iterable[np.ufunc], arrays: type) -> bytes:
    """Return the code of `reduce` or `accumulate`, of an array and an axis if one is given."""
    called = Call(arrays, before)
    code = called.code
    _load_numpys(called, kind, 2, 3, keyword="axis")
    called.if_one_of("r15", known, "known")
    code.jump("general")
    code.label("known")
    code.store("rsp", GIVEN, "r15")
    called.load_array(1, "rbx", "r12", is_small=False)
    code.store("rsp", GIVEN + 8, "r12")
    called.multiply_extents("r12")
    code.compare_number("rax", 0)
    code.jump("general", "e")
    _place_axis(called, 2)
    _return_found(called, method)
    return code.assembled()


def _load_indices(called: Call) -> None:
    """Let `r12` have the third argument, indices: a small array's view on the host, or a short list of integers."""
    code, is_loaded = called.code, called.new_label()
    code.load("rbx", "rbp", 16)
    called.unless_type("rbx", called.kind, "listed")
    called.load_array(2, "rbx", "r12")
    code.jump(is_loaded)
    code.label("listed")
    called.unless_type("rbx", list, "general")
    code.move("r12", "rbx")
    require_listed(called, "r12", is_loaded)
    code.label(is_loaded)


def reduceat(kind: type, before: int | None, arrays: type) -> bytes:
    """Return the code of `reduceat` of a small array, indices, and an axis if one is given."""
    called = Call(arrays, before)
    code = called.code
    _load_numpys(called, kind, 3, 4, keyword="axis")
    called.if_one_of("r15", [getattr(np, each) for each in REDUCED_AT], "known")
    code.jump("general")
    code.label("known")
    code.store("rsp", GIVEN, "r15")
    called.load_array(1, "rbx", "r12")
    code.store("rsp", GIVEN + 8, "r12")
    called.multiply_extents("r12")
    code.compare_number("rax", 0)
    code.jump("general", "e")
    _load_indices(called)
    code.store("rsp", GIVEN + 16, "r12")
    _place_axis(called, 3)
    _return_found(called, np.ufunc.reduceat, 4)
    return code.assembled()


def outer(kind: type, before: int | None, arrays: type) -> bytes:
    """Return the code of `outer` of two arrays, by a ufunc that is not heavy."""
    called = Call(arrays, before)
    code = called.code
    _load_numpys(called, kind, 3)
    code.load("rcx", "rbx", objects.offset(kind.__dict__["_reach"]))
    code.load_int("rcx", "rcx", INT_DIGIT)
    code.compare_number("rcx", inlining.HEAVY)
    code.jump("general", "g")
    code.set("rcx", id(2))
    code.compare_with("rbx", objects.offset(kind.__dict__["_arity"]), "rcx")
    code.jump("general", "ne")
    code.store("rsp", GIVEN, "r15")
    for place, seen in ((1, "r12"), (2, "r14")):
        called.load_array(place, "rbx", seen, is_small=False)
        code.store("rsp", GIVEN + 8 * place, seen)
    called.multiply_extents("r14")
    code.move("r8", "rax")
    called.multiply_extents("r12")
    code.multiply_by("rax", "r8")
    code.compare_number("rax", 0)
    code.jump("general", "e")
    called.count_words("r12", "r14")
    called.require_reach(LIGHT)
    called.count_learned(LIGHT, "general")
    code.set("r14", 3)
    _return_found(called, np.ufunc.outer)
    return code.assembled()


def methods(arrays: type) -> dict[str, Callable[..., bytes]]:
    """Return what makes the code of the methods of ufuncs, by name."""
    made: dict[str, Callable[..., bytes]] = {
        "outer": partial(outer, arrays=arrays),
        "reduceat": partial(reduceat, arrays=arrays),
    }
    for name, table in (("reduce", BY_UFUNC), ("accumulate", SCANS)):
        known = [getattr(np, each) for each in table if hasattr(np, each)]
        made[name] = partial(along, method=getattr(np.ufunc, name), known=known, arrays=arrays)
    return made


__all__ = ["array_ufunc", "call", "methods"]

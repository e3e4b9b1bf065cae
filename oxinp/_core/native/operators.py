"""Operators of small arrays on the host, and of middling ones that few bytes are made of, in machine code."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from functools import partial

import numpy as np

from oxinp._core.lazy import inlining
from oxinp._core.lazy.bringing import brought
from oxinp._core.native import elementwise, loops, temporaries
from oxinp._core.native.assembler import filled, stand_ins
from oxinp._core.native.binary import record_operation
from oxinp._core.native.function import MIDDLING, MOST_WRITTEN, NONE, WIDE, Function
from oxinp._core.native.numbers import load_number
from oxinp._core.native.objects import TYPE
from oxinp._core.native.updating import update_on_device
from oxinp._core.ufunc.objects import UFUNC_OBJECTS

_BEFORE, _NUMPYS, _LOOPS, _METHOD, _REFLECTED, _OPERATION = stand_ins(6)
_CallLoop = Callable[..., None]  # (label) lets `r13` have the results, or goes to the label
_COMPARED = (ctypes.c_uint64 * 6)(
    *map(
        loops.address_of,
        map(loops.rows, (np.less, np.less_equal, np.equal, np.not_equal, np.greater, np.greater_equal)),
    )
)
"""Where there is what is known of comparisons' loops, in Python's order of them."""
_COMPARISONS = ("less", "less_equal", "equal", "not_equal", "greater", "greater_equal")
_COMPARING = (ctypes.c_uint64 * 6)(*[id(UFUNC_OBJECTS[name].operations[0]) for name in _COMPARISONS])
"""Where there is what is recorded for them."""


def load_operand(function: Function, handle: str, target: str, most: int | None, label: str = "general") -> None:
    """Let a register have the host's view of an operand of ours that is small; go to a label if it is not.

    ``elsewhere`` is where to go if it is not on the host.
    """
    is_few = function.new_label()
    function.load_seen(target, handle, storage="r13", label="elsewhere")
    function.require_few(handle, target, label)
    if most is not None:
        function.if_all_few(is_few)
        function.unless_smaller(target, label, most)
    function.code.label(is_few)


def _load_other(function: Function, kind: type, target: str, most: int | None) -> None:
    """Let a register have the second operand, of ours or a number."""
    code, is_number, is_loaded = function.code, function.new_label(), function.new_label()
    function.unless_type("rbp", kind, is_number)
    load_operand(function, "rbp", target, most, "middling")
    code.jump(is_loaded)
    code.label(is_number)
    code.move(target, "rbp")
    code.label(is_loaded)


def compute(
    function: Function,
    numpys: int,
    call_loop: _CallLoop,
    *operands: str,
    is_kept: bool | None = None,
    is_few: bool = True,
    reuse: Callable[[], None] | None = None,
) -> None:
    """Return what a loop of NumPy's makes of operands, or else a function of NumPy's, as ours.

    `is_kept` is whether an array of a number means the same; None where numbers stand for themselves. `reuse` lays out
    what lets the function's results take the place of an operand.
    """
    code, is_made, is_numpys = function.code, function.new_label(), function.new_label()
    function.unless_reported()
    call_loop(is_numpys)
    code.jump(is_made)
    code.label(is_numpys)
    if reuse is not None:
        reuse()
    numbers = () if is_kept is None else zip(operands, ("rbx", "rbp"), reversed(operands), strict=True)
    for operand, given, array in numbers:
        is_array = function.new_label()
        code.set("rcx", id(np.ndarray))
        code.compare_with(operand, TYPE, "rcx")
        code.jump(is_array, "e")
        load_number(function, given, array, operand, is_kept=bool(is_kept))
        code.label(is_array)
    function.call_keeping(numpys, *operands, result="r13")
    code.compare_number("r13", 0)
    code.jump(is_made, "ne")
    function.return_error()
    code.label(is_made)
    function.wrap("r13", "r12", is_few=is_few)


def _require_middling(function: Function, array: str, reach: int) -> None:
    """Go to the general function unless an array of numbers is the host's by its bytes; `rax` has its words."""
    function.require_elements(array, (*MIDDLING, *WIDE))
    function.count_own(array)
    function.code.compare_number("rax", 0)
    function.code.jump("general", "e")
    function.require_reach(reach, is_bounded=False)


def _compute_middling(
    function: Function,
    kind: type,
    numpys: int,
    load_rows: Callable[[], None],
    reach: int,
    *,
    is_kept: bool = True,
    reuse: Callable[[], None] | None = None,
) -> None:
    """Lay out ``middling``: two arrays that are not small, or that broadcast, or one and a number; see `compute`."""
    code = function.code
    code.label("middling")
    function.unless_type("rbx", kind, "middling number first")
    function.load_seen("r12", "rbx", storage="r13")
    _require_middling(function, "r12", reach)
    function.unless_type("rbp", kind, "middling number")
    function.load_seen("r14", "rbp", storage="r13")
    _require_middling(function, "r14", reach)
    function.multiply_broadcast("r12", "r14")
    code.jump("sized middling")
    code.label("middling number")
    code.move("r14", "rbp")
    function.multiply_extents("r12")
    code.jump("sized middling")
    code.label("middling number first")
    function.load_seen("r14", "rbp", storage="r13")
    _require_middling(function, "r14", reach)
    code.move("r12", "rbx")
    function.multiply_extents("r14")
    code.label("sized middling")
    elementwise.count_words(function, load_rows, ("r12", "r14"))
    function.require_reach(reach, is_bounded=False)
    function.count_learned(reach, "start")
    function.unless_reported()
    call_loop = partial(elementwise.compute, function, load_rows, ("r12", "r14"))
    compute(function, numpys, call_loop, "r12", "r14", is_kept=is_kept, is_few=False, reuse=reuse)


def _reuse_temporaries(function: Function, kind: type) -> None:
    """Return an operand that the interpreter alone holds, with the result, if there is one."""
    for place, handle in enumerate(("rbx", "rbp")):
        is_needed = function.new_label()
        function.unless_type(handle, kind, is_needed)
        temporaries.reuse(function, handle, ("r12", "r14"), place, is_needed)
        function.code.label(is_needed)


def binary(
    kind: type, before: int, numpys: int, slot: str, method: str, ufunc: np.ufunc, reach: int, *, is_kept: bool
) -> bytes:
    """Return the code of an operator such as ``a + b``, either of which is ours, by its slot and its method's name.

    `reach` is what an element costs, `is_kept` whether an array of a number means the same.
    """
    caller = temporaries.caller(slot)
    may_reuse = caller is not temporaries.UNKNOWN
    methods = {_METHOD: id(getattr(kind, f"__{method}__")), _REFLECTED: id(getattr(kind, f"__r{method}__"))}
    others = temporaries.numbers(caller, ufunc) if may_reuse else {}
    code = _binary(kind, reach, is_kept=is_kept, may_reuse=may_reuse)
    return filled(code, _numbers(before, numpys, ufunc) | methods | others | _operation(ufunc))


def _operation(ufunc: np.ufunc) -> dict[int, int]:
    return {_OPERATION: id(UFUNC_OBJECTS[ufunc.__name__].operations[0])}


def _numbers(before: int, numpys: int, ufunc: np.ufunc) -> dict[int, int]:
    return {_BEFORE: before, _NUMPYS: numpys, _LOOPS: loops.address_of(loops.rows(ufunc))}


@functools.cache
def _binary(kind: type, reach: int, *, is_kept: bool, may_reuse: bool) -> bytes:
    """Return the code of all such operators, with numbers that stand for what differs."""
    function = Function(kind, _BEFORE, loops.STACK)
    code, numpys = function.code, _NUMPYS
    load_rows = partial(code.set, "r15", _LOOPS)
    call_loop = partial(elementwise.compute, function, load_rows, ("r12", "r14"))
    most = None if reach <= inlining.HEAVY else inlining.MOST_FEW * inlining.HEAVY // reach
    function.begin()
    code.label("start")
    function.unless_type("rbx", kind, "reflected")
    load_operand(function, "rbx", "r12", most, "middling")
    _load_other(function, kind, "r14", most)
    code.jump("compute")
    code.label("reflected")
    function.unless_type("rbp", kind, "general")
    load_operand(function, "rbp", "r14", most, "middling")
    code.move("r12", "rbx")
    code.label("compute")
    reuse = partial(_reuse_temporaries, function, kind) if may_reuse else None
    compute(function, numpys, call_loop, "r12", "r14", is_kept=is_kept, reuse=reuse)
    _compute_middling(function, kind, numpys, load_rows, reach, is_kept=is_kept, reuse=reuse)
    function.end_with_bringing(brought, "rbx", "rbp", label="on the device")
    code.label("on the device")
    record_operation(function, _OPERATION, "rbx", "rbp")
    function.end_wrap("r13")
    function.end_of_two(_METHOD, _REFLECTED)
    return code.assembled()


def compare(kind: type, before: int, numpys: int, reach: int) -> bytes:
    """Return the code of ``a < b`` and its kin."""
    function = Function(kind, before, loops.STACK)
    code = function.code

    def load_its(target: str, table: ctypes.Array[ctypes.c_uint64]) -> None:
        code.load("rax", "rsp", 0)
        code.set(target, ctypes.addressof(table))
        code.load_at(target, target, "rax", 8)

    load_rows = partial(load_its, "r15", _COMPARED)
    call_loop = partial(elementwise.compute, function, load_rows, ("r12", "r14"))
    function.begin()
    code.label("start")
    function.unless_type("rbx", kind, "general")
    load_operand(function, "rbx", "r12", None, "middling")
    _load_other(function, kind, "r14", None)
    compute(function, numpys, call_loop, "r12", "r14", is_kept=True)
    _compute_middling(function, kind, numpys, load_rows, reach)
    function.end_with_bringing(brought, "rbx", "rbp", label="on the device")
    code.label("on the device")
    record_operation(function, partial(load_its, "rdi", _COMPARING), "rbx", "rbp")
    function.end_wrap("r13")
    function.end()
    return function.code.assembled()


def unary(kind: type, before: int, numpys: int, ufunc: np.ufunc, reach: int) -> bytes:
    """Return the code of ``-a`` or ``abs(a)``."""
    return filled(_unary(kind, reach), _numbers(before, numpys, ufunc) | _operation(ufunc))


@functools.cache
def _unary(kind: type, reach: int) -> bytes:
    function = Function(kind, _BEFORE, loops.STACK)
    code, numpys = function.code, _NUMPYS
    call_loop = partial(elementwise.compute, function, partial(code.set, "r15", _LOOPS), ("r12",))
    function.begin()
    code.label("start")
    function.unless_type("rbx", kind, "general")
    load_operand(function, "rbx", "r12", None, "middling")
    compute(function, numpys, call_loop, "r12")
    code.label("middling")
    function.load_seen("r12", "rbx", storage="r13")
    _require_middling(function, "r12", reach)
    function.count_learned(reach, "start")
    compute(function, numpys, call_loop, "r12", is_few=False)
    function.end_with_bringing(brought, "rbx", label="on the device")
    code.label("on the device")
    record_operation(function, _OPERATION, "rbx")
    function.end_wrap("r13")
    function.end()
    return function.code.assembled()


def power(kind: type, before: int, numpys: int, reach: int) -> bytes:
    """Return the code of ``a ** 2`` and of other powers that are numbers."""
    function = Function(kind, before, loops.STACK)
    code = function.code
    load_rows = partial(code.set, "r15", loops.address_of(loops.rows(np.square)))
    call_loop = partial(elementwise.compute, function, load_rows, ("r12",))
    function.begin()
    code.label("start")
    code.set("rcx", NONE)
    code.compare_with("rsp", 0, "rcx")
    code.jump("with a modulus", "ne")
    function.unless_type("rbx", kind, "general")
    code.set("rcx", id(2))
    code.compare("rbp", "rcx")
    code.jump("of another", "ne")
    load_operand(function, "rbx", "r12", None, "middling")
    compute(function, numpys, call_loop, "r12", "rbp")
    code.label("middling")
    function.load_seen("r12", "rbx", storage="r13")
    _require_middling(function, "r12", 16)
    function.count_learned(16, "start")
    compute(function, numpys, call_loop, "r12", "rbp", is_few=False)
    code.label("of another")
    code.load("rax", "rbp", TYPE)
    function.if_one_of("rax", (float, int, np.float64), "of a number")
    code.jump("general")
    code.label("of a number")
    function.load_seen("r12", "rbx", storage="r13")
    function.require_elements("r12", MIDDLING)
    function.multiply_extents("r12")
    function.require_reach(reach)
    compute(function, numpys, code.jump, "r12", "rbp", is_few=False)
    function.end_with_bringing(brought, "rbx", label="squared on the device")
    code.label("squared on the device")  # as `Power` has it, whatever the dtype
    record_operation(function, id(UFUNC_OBJECTS["square"].operations[0]), "rbx")
    code.label("with a modulus")
    code.set("r12", id(NotImplemented))
    function.keep("r12")
    code.move("rax", "r12")
    code.jump("return")
    function.end_wrap("r13")
    function.end_of_two(*(id(getattr(kind, name)) for name in ("__pow__", "__rpow__")))
    return code.assembled()


def _write_as_numpy(function: Function, numpys: int, *, is_kept: bool) -> None:
    """Lay out ``NumPy's``: let its function write to an array in place, and go to ``done``."""
    code = function.code
    code.label("NumPy's")
    code.set("rcx", id(np.ndarray))
    code.compare_with("r14", TYPE, "rcx")
    code.jump("is array", "e")
    load_number(function, "rbp", "r12", "r14", is_kept=is_kept)
    code.label("is array")
    code.load("r13", "rsp", 8)
    function.unless_smaller("r12", "long", MOST_WRITTEN + 1)
    function.keep("r12")
    function.keep("r14")
    function.call(numpys, "r12", "r14")
    code.store("rsp", 8, "rax")
    code.jump("written")
    code.label("long")  # other threads may run while NumPy computes
    function.provide_storage("rbx", "r12", "r13")
    function.require_alone("r13")
    function.begin_writing("r13")
    function.keep("r12")
    function.keep("r14")
    function.call(numpys, "r12", "r14")
    code.store("rsp", 8, "rax")
    function.end_writing("r13")
    code.label("written")
    function.drop("r14")
    code.load("r13", "rsp", 8)
    code.compare_number("r13", 0)
    code.jump("failed", "e")
    function.drop("r13")
    function.drop("r12")
    code.compare("r13", "r12")
    code.jump("general", "ne")
    code.jump("done")
    code.label("failed")
    function.drop("r12")
    code.label("no storage")
    code.set("rax", 0)
    code.jump("return")


def in_place(kind: type, before: int, numpys: int, ufunc: np.ufunc, reach: int, *, is_kept: bool) -> bytes:
    """Return the code of an operator such as ``a += b``."""
    return filled(_in_place(kind, reach, is_kept=is_kept), _numbers(before, numpys, ufunc) | _operation(ufunc))


@functools.cache
def _in_place(kind: type, reach: int, *, is_kept: bool) -> bytes:
    function = Function(kind, _BEFORE, loops.STACK)
    code, numpys = function.code, _NUMPYS
    function.begin()
    code.label("start")
    function.unless_type("rbx", kind, "general")
    function.load_seen("r12", "rbx", storage="r13", label="on the device")
    function.require_few("rbx", "r12", "middling")
    code.jump("sized")
    code.label("middling")
    _require_middling(function, "r12", reach)
    function.count_learned(reach, "start")
    code.label("sized")
    code.set("rcx", NONE)
    code.compare("r13", "rcx")
    code.jump("alone", "e")
    function.let_be_alone("r13", "start")
    code.label("alone")
    function.require_writable("rbx")
    code.store("rsp", 8, "r13")  # which the other operand's takes the place of
    function.unless_type("rbp", kind, "number")
    function.load_seen("r14", "rbp", storage="r13", label="elsewhere")
    function.require_middle("r14", "as large")  # it may broadcast: no more is written than the first has
    code.jump("loaded")
    code.label("as large")
    _require_middling(function, "r14", reach)
    code.jump("loaded")
    code.label("number")
    code.move("r14", "rbp")
    code.label("loaded")
    function.unless_reported()
    load_rows = partial(code.set, "r15", _LOOPS)
    elementwise.compute_into(function, load_rows, ("r12", "r14"), "NumPy's")
    code.jump("done")
    _write_as_numpy(function, numpys, is_kept=is_kept)
    function.end_with_bringing(brought, "rbx", "rbp")
    update_on_device(function, _OPERATION, "on the device")
    code.label("done")
    function.keep("rbx")
    code.move("rax", "rbx")
    code.jump("return")
    function.end()
    return code.assembled()


__all__ = ["binary", "compare", "compute", "in_place", "load_operand", "power", "unary"]

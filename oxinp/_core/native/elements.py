"""Elements and parts of small arrays on the host: ``array[key]`` and ``array[key] = value`` in machine code.

Keys are integers and slices, and arrays of ours of integers or of truth.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from oxinp._core.lazy import inlining
from oxinp._core.lazy.balance import LAUNCH, balance
from oxinp._core.lazy.handle import NOWHERE
from oxinp._core.memory.storage import Stale
from oxinp._core.native import loops, masks, objects
from oxinp._core.native.function import (
    AT,
    COUNT,
    ELLIPSIS,
    FLOAT64,
    HELD,
    HOST,
    KNOWN,
    LIGHT,
    LIMIT,
    MIDDLE,
    MOST_WRITTEN,
    NONE,
    PERIOD,
    SEEN,
    STALE,
    STORED_HOST,
    VALUE,
    VIEW,
    Function,
    cells,
)
from oxinp._core.native.objects import (
    ARRAY_BASE,
    ARRAY_DTYPE,
    ARRAY_FLAGS,
    ARRAY_NDIM,
    ARRAY_SHAPE,
    ARRAY_STRIDES,
    INT_DIGIT,
    LIST_ITEMS,
    SIZE,
    TUPLE_ITEMS,
    TYPE,
)
from oxinp._core.native.parts import return_device_part, write_device_part
from oxinp._core.native.places import return_element, write_element

_STALE_RANGE = {name: objects.offset(Stale.__dict__[name]) if objects.ARE_KNOWN else 0 for name in ("low", "high")}
_REALS = (float, np.float64, int, np.int64, bool, np.bool_, np.float32, np.int32, np.uint8)
_INTEGERS = (int, np.int64, bool, np.bool_, np.int32, np.uint8)
_FITTING: dict[Any, tuple[type, ...]] = {
    np.float64: _REALS,
    **dict.fromkeys((np.int64, np.int32, np.uint8, np.bool_, np.int16, np.int8), _INTEGERS),
    np.complex128: (complex, np.complex128, *_REALS),
    np.float32: (np.float32, bool, np.bool_, np.uint8),
}
"""Types of elements -> types of single values that are written as they are: none warns, nor runs code of the user's."""
_WHOLE = (np.bool_, np.uint8, np.int8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64)
_CAST: dict[Any, tuple[type, ...]] = {
    np.float64: (*_WHOLE, np.float32),
    np.complex128: (np.float64, *_WHOLE, np.float32),
    np.float32: (*_WHOLE, np.float64),
    **{kind: (*(other for other in _WHOLE if other is not kind), np.float64, np.float32) for kind in _WHOLE},
}
"""Types of elements -> those of arrays whose elements are written as they are: where such a cast warns, of an overflow
say, all has been written, and the frame that is warned of is the user's."""
_PLACE, _TUPLE = 24, 32  # on the stack, of what is gone through
_KEYS = (np.bool_, np.int64, np.int32)
"""Types of the elements of arrays that are keys."""


def _load_advanced(function: Function, target: str) -> None:
    """Let a register have the host's view of a key, in `rbp`, that is a small or middling array of ours."""
    function.load_seen(target, "rbp", storage="r8")
    _require_key(function, target)
    function.unless_reported()


def _require_key(function: Function, array: str) -> None:
    """Go to the general function unless an array of NumPy's is a small or middling key."""
    function.require_elements(array, _KEYS)
    function.code.load_int("rax", array, ARRAY_NDIM)  # of one number NumPy makes a view
    function.code.compare_number("rax", 0)
    function.code.jump("general", "e")
    function.count_own(array)
    function.require_below(MIDDLE, "rax")


def require_listed(function: Function, integers: str, label: str) -> None:
    """Go to the general function unless there is a list of a few integers, else to a label."""
    code, again, is_integer = function.code, function.new_label(), function.new_label()
    code.load("r8", integers, SIZE)
    code.compare_number("r8", 0)
    code.jump("general", "e")
    code.compare_number("r8", MOST_WRITTEN)
    code.jump("general", "g")
    code.load("rdx", integers, LIST_ITEMS)
    code.label(again)
    code.load("rax", "rdx")
    code.load("rax", "rax", TYPE)
    function.if_one_of("rax", (int, np.int64), is_integer)
    code.jump("general")
    code.label(is_integer)
    code.add("rdx", 8)
    code.add("r8", -1)
    code.jump(again, "ne")
    code.jump(label)


def _require_indexed(function: Function, key: str | None) -> None:
    """Go to the general function unless an array that is indexed, in `r12`, is small, or the host's by its bytes.

    So it is by what has been learned, too: that is weighed, unless a register has a key of few elements.
    """
    code, is_larger, is_weighed, done = function.code, *(function.new_label() for _ in range(3))
    function.count_own("r12")
    function.require_below(MIDDLE, "rax", is_larger)
    code.jump(done)
    code.label(is_larger)
    function.require_reach(LIGHT, is_bounded=False)
    if key is not None:
        function.unless_smaller(key, is_weighed)
        code.jump(done)
        code.label(is_weighed)
        function.count_own("r12")
    function.count_learned(LIGHT, "start", 1.0, LAUNCH)
    code.label(done)


def _load_mixed(function: Function, target: str) -> None:
    """Let a register have a new tuple, like the key in `rbp`, of what stands for arrays of ours on the host.

    All are small or middling; beside them there are integers, slices and their kin, and lists of integers. Goes to
    ``no storage`` where there is no memory for it.
    """
    code = function.code
    function.unless_reported()
    for is_last in (False, True):  # nothing is made before all is known
        again, is_array, is_list, is_found, done = (function.new_label() for _ in range(5))
        if is_last:
            code.load("rdi", "rbp", SIZE)
            code.call(objects.address("PyTuple_New"))
            code.compare_number("rax", 0)
            code.jump("no storage", "e")
            code.store("rsp", _TUPLE, "rax")
        code.set("rax", 0)
        code.store("rsp", _PLACE, "rax")
        code.label(again)
        code.load("rcx", "rsp", _PLACE)
        code.compare_with("rbp", SIZE, "rcx")
        code.jump(done, "e")
        for _ in range(3):
            code.add_register("rcx", "rcx")
        code.add_register("rcx", "rbp")
        code.load("rdi", "rcx", TUPLE_ITEMS)
        code.increment("rsp", _PLACE)
        code.load("rax", "rdi", TYPE)
        if is_last:
            function.if_one_of("rax", (function.kind,), is_array)
            code.jump(is_found)
            code.label(is_array)
            code.load("rdi", "rdi", SEEN)
            code.label(is_found)
            function.keep("rdi")
            code.load("rcx", "rsp", _PLACE)
            for _ in range(3):
                code.add_register("rcx", "rcx")
            code.load("rax", "rsp", _TUPLE)
            code.add_register("rcx", "rax")
            code.store("rcx", TUPLE_ITEMS - 8, "rdi")
        else:
            function.if_one_of("rax", (int, slice, type(None), type(...), np.int64), again)
            function.if_one_of("rax", (list,), is_list)
            function.unless_type("rdi", function.kind, "general")
            function.load_seen(target, "rdi", storage="r8")
            _require_key(function, target)
        code.jump(again)
        if not is_last:
            code.label(is_list)
            require_listed(function, "rdi", again)
        code.label(done)
    code.load(target, "rsp", _TUPLE)


def _return_chosen(function: Function, numpys: int) -> None:
    """Lay out ``advanced``, ``listed`` and ``mixed``: a new array of the elements that a key chooses."""
    code, is_made, is_new = function.code, function.new_label(), function.new_label()
    code.label("listed")
    function.unless_type("rbp", list, "general")
    function.unless_reported()
    _require_indexed(function, None)
    code.move("r14", "rbp")
    require_listed(function, "rbp", "of numbers")
    code.label("mixed")
    _require_indexed(function, None)
    _load_mixed(function, "r14")
    function.call_keeping(numpys, "r12", "r14", result="r13")
    function.drop("r14")
    code.jump("found")
    code.label("advanced")
    _load_advanced(function, "r14")
    _require_indexed(function, "r14")
    masks.read(function, "of numbers")
    code.jump(is_made)
    code.label("of numbers")
    function.call_keeping(numpys, "r12", "r14", result="r13")
    code.label("found")
    code.compare_number("r13", 0)
    code.jump(is_made, "ne")
    code.call(objects.address("PyErr_Clear"))
    code.jump("general")  # where it is raised again
    code.label(is_made)
    code.move("r14", "r13")
    function.unless_type("r14", np.ndarray, "chosen")
    function.count_own("r14")
    function.require_reach(LIGHT, "too large", is_bounded=False)
    code.test_with("r14", ARRAY_FLAGS, loops.OWNER)
    code.jump("chosen", "ne")
    code.load("rcx", "r14", ARRAY_BASE)  # its axes may be in another order than those of what has its elements
    code.compare_number("rcx", 0)
    code.jump("too large", "e")
    code.compare_number_with("rcx", 0, 1)  # references
    code.jump("too large", "ne")
    for flag in (loops.CONTIGUOUS, loops.FORTRAN):
        code.test_with("r14", ARRAY_FLAGS, flag)
        code.jump(is_new, "ne")
    code.move("r13", "rcx")
    function.unless_type("r13", np.ndarray, "too large")
    code.test_with("r13", ARRAY_FLAGS, loops.OWNER)
    code.jump("too large", "e")
    function.require_same_count("r13", "r14", "too large")
    code.label(is_new)
    code.label("chosen")
    function.wrap("r14", "r12", is_few=False)
    code.label("too large")
    function.drop("r14")
    code.jump("general")


def return_part(function: Function, end: str = "return") -> None:
    """Return ours of NumPy's view of a part, in `r14`, of the array whose storage is in `r13`; `rbp` is the key.

    `end` is the label to go to with it in `rax`.
    """
    code = function.code
    function.make_handle("r14", "r12")
    function.put("r12", HELD, "r13")
    code.load("r15", "rbx", HOST)
    function.put("r12", HOST, "r15")
    code.load("r13", "rbx", VIEW)
    code.set("rcx", NONE)
    code.compare("r13", "rcx")
    code.jump("of view", "ne")
    function.put("r12", VIEW, "rbx")
    function.put("r12", AT, "rbp")
    code.jump("size")
    code.label("of view")
    function.put("r12", VIEW, "r13")
    function.put("r12", AT, id(NOWHERE))
    code.label("size")
    function.unless_whole("r14", "many")
    function.unless_few("rbx", "unknown")
    code.jump("few")
    code.label("unknown")
    function.unless_smaller("r14", "many")
    code.label("few")
    function.load_few("r15")
    function.put("r12", KNOWN, "r15")
    code.move("rax", "r12")
    code.jump(end)
    code.label("many")
    function.put("r12", KNOWN, NONE)
    code.move("rax", "r12")
    code.jump(end)


def _count_views(function: Function) -> None:
    """Go to the general function, which weighs it, with one view of a large array in so many; else to ``part``."""
    code = function.code
    code.set("rax", id(balance))
    code.load("rax", "rax", LIMIT)
    code.set("rcx", id(0))
    code.compare("rax", "rcx")
    code.jump("part", "e")
    code.set("rax", ctypes.addressof(cells))
    code.decrement("rax", COUNT)
    code.jump("part", "ne")
    code.set("rcx", id(balance))
    code.load("rcx", "rcx", PERIOD)
    code.load_int("rcx", "rcx", INT_DIGIT)
    code.store("rax", COUNT, "rcx")
    code.jump("general")


def subscript(kind: type, before: int) -> bytes:
    """Return the code of ``array[key]``, for integers and slices."""
    function = Function(kind, before)
    code, numpys = function.code, objects.slot(np.ndarray, "subscript").value
    function.begin()
    code.label("start")
    function.unless_type("rbx", kind, "general")
    function.load_seen("r12", "rbx", storage="r13", label="elsewhere")
    function.unless_type("rbp", kind, "basic")
    code.jump("advanced")
    code.label("basic")
    function.classify_key("rbp", "r12", element="element", view="view", new="view", mixed="mixed", listed="listed")
    code.label("element")
    return_element(function, "element by NumPy")
    code.label("element by NumPy")
    function.call_keeping(numpys, "r12", "rbp", result="r14")
    code.move("rax", "r14")
    code.jump("return")
    code.label("view")
    function.provide_storage("rbx", "r12", "r13")
    function.unless_few("rbx", "large")
    code.jump("part")
    code.label("large")  # one view in so many is weighed: that goes the general way
    _count_views(function)
    code.label("part")
    function.require_writable("rbx")
    function.call_keeping(numpys, "r12", "rbp", result="r14")
    code.move("rax", "r14")
    code.compare_number("r14", 0)
    code.jump("return", "e")
    code.set("rcx", id(np.ndarray))
    code.compare_with("r14", TYPE, "rcx")
    code.jump("return", "ne")
    return_part(function)
    code.label("no handle")
    function.drop("r14")
    code.label("no storage")
    code.set("rax", 0)
    code.jump("return")
    _return_chosen(function, numpys)
    return_device_part(function, "elsewhere")
    function.end()
    return code.assembled()


def length(kind: type, before: int) -> bytes:
    """Return the code of ``len(array)``."""
    function = Function(kind, before)
    code = function.code
    function.unless_type("rdi", kind, "other")
    code.load("rax", "rdi", KNOWN)
    function.if_one_of("rax", (None, *inlining.MARKS), "unknown")
    code.jump("other")
    code.label("unknown")
    code.load("rax", "rdi", SEEN)
    code.set("rcx", NONE)
    code.compare("rax", "rcx")
    code.jump("other", "e")
    code.compare_number("rax", 0)
    code.jump("other", "e")
    code.load_int("rcx", "rax", ARRAY_NDIM)
    code.compare_number("rcx", 0)
    code.jump("other", "e")
    code.load("rax", "rax", ARRAY_SHAPE)
    code.load("rax", "rax", 0)
    code.ret()
    code.label("other")
    code.go_to(before)
    return code.assembled()


def _return_from_part(function: Function, label: str) -> None:
    """Return at once where ``a[key] += b`` has written to the part; else go to a label."""
    code = function.code
    code.load("rax", "r14", HELD)
    code.compare_with("rbx", HELD, "rax")
    code.jump(label, "ne")
    code.compare_with("r14", VIEW, "rbx")
    code.jump(label, "ne")
    code.set("rcx", NONE)
    code.compare_with("rbx", VIEW, "rcx")
    code.jump(label, "ne")
    code.compare_with("r14", AT, "rbp")
    code.jump(label, "ne")
    code.set("rax", 0)
    code.jump("return")


def _require_fitting(function: Function) -> None:
    """Go to ``value`` where a number, in `r14`, fits an array of NumPy's in `r12`."""
    code = function.code
    code.load("rax", "r14", TYPE)
    code.load("rdx", "r12", ARRAY_DTYPE)
    for dtype, kinds in _FITTING.items():
        code.set("rcx", id(np.dtype(dtype)))
        code.compare("rdx", "rcx")
        code.jump(f"not {dtype}", "ne")
        function.if_one_of("rax", kinds, "value")
        code.jump("general")
        code.label(f"not {dtype}")
    code.jump("general")


def _require_cast(function: Function) -> None:
    """Go to ``value`` where an array of NumPy's, in `r14`, is cast to the dtype of that in `r12` without a word."""
    code = function.code
    code.load("rax", "r14", ARRAY_DTYPE)
    code.load("rdx", "r12", ARRAY_DTYPE)
    code.compare("rax", "rdx")
    code.jump("value", "e")
    for kind, others in _CAST.items():
        code.set("rcx", id(np.dtype(kind)))
        code.compare("rdx", "rcx")
        code.jump(f"no {kind}", "ne")
        function.if_one_of("rax", map(np.dtype, others), "value")
        code.jump("general")
        code.label(f"no {kind}")
    code.jump("general")


def _write_part(function: Function, numpys: int) -> None:
    """Lay out ``large``: the part alone is asked for its size, and written to while the storage is marked."""
    code = function.code
    code.label("large")
    function.provide_storage("rbx", "r12", "r13")
    function.call(objects.slot(np.ndarray, "subscript").value, "r12", "rbp")
    code.compare_number("rax", 0)
    code.jump("no storage", "e")
    code.move("r12", "rax")
    code.set("rcx", id(np.ndarray))
    code.compare_with("r12", TYPE, "rcx")
    code.jump("not a part", "ne")
    function.count_own("r12")
    function.require_reach(LIGHT, "not a part")
    function.require_alone("r13", "not a part")
    code.load("rax", "r13", STORED_HOST)
    code.compare_with("rbx", HOST, "rax")
    code.jump("not a part", "ne")
    function.begin_writing("r13")
    function.keep("r14")
    code.set("r15", ELLIPSIS)
    function.call(numpys, "r12", "r15", "r14")
    code.store("rsp", 8, "rax")
    function.drop("r12")
    function.drop("r14")
    function.end_writing("r13")
    code.load("rax", "rsp", 8)
    code.jump("return")
    code.label("not a part")
    function.drop("r12")
    code.jump("general")
    code.label("no storage")
    code.set("rax", 2**64 - 1)
    code.jump("return")


def _write_chosen(function: Function, numpys: int) -> None:
    """Lay out ``advanced``, ``listed`` and ``mixed``: what a key chooses is written to while the storage is marked."""
    code = function.code
    code.label("listed")
    function.unless_type("rbp", list, "general")
    function.unless_reported()
    function.count_own("r12")
    function.require_reach(LIGHT)
    function.provide_storage("rbx", "r12", "r13")
    function.require_alone("r13")
    require_listed(function, "rbp", "by numbers")
    for label, load_key in (("mixed", _load_mixed), ("advanced", _load_advanced)):
        code.label(label)
        function.count_own("r12")
        function.require_reach(LIGHT, is_bounded=label == "advanced")  # which may be masks of as many elements
        function.provide_storage("rbx", "r12", "r13")
        function.require_alone("r13")
        load_key(function, "r15")
        code.move("rbp", "r15")
        if label == "mixed":
            code.jump("chosen")
    masks.write(function, "by numbers")
    code.label("by numbers")
    function.keep("rbp")
    code.label("chosen")
    function.begin_writing("r13")
    for each in ("r12", "r14"):
        function.keep(each)
    function.call(numpys, "r12", "rbp", "r14")
    code.store("rsp", 8, "rax")
    for each in ("r12", "rbp", "r14"):
        function.drop(each)
    function.end_writing("r13")
    code.load("rax", "rsp", 8)
    code.jump("return")


def _outdate(function: Function) -> None:
    """Lay out ``copied``: an element of 8 bytes is written, and the range of it outdated in the device's copy."""
    code = function.code
    code.label("copied")
    code.set("rcx", NONE)
    code.compare_with("r13", VALUE, "rcx")
    code.jump("general", "ne")
    code.compare_with("rbx", VIEW, "rcx")  # a view's place in the storage is not known here
    code.jump("general", "ne")
    code.set("rcx", id(np.ndarray))
    code.compare_with("r14", TYPE, "rcx")
    code.jump("general", "e")
    code.load("r15", "r13", STALE)
    function.unless_type("r15", Stale, "general")
    code.load("rax", "r12", ARRAY_DTYPE)
    code.set("rcx", id(FLOAT64))
    code.compare("rax", "rcx")
    code.jump("general", "ne")
    function.classify_key("rbp", "r12", element="place", view="general")
    code.label("place")
    code.set("rax", 0)
    code.store("rsp", 8, "rax")
    code.load("rax", "rbp", TYPE)
    function.if_one_of("rax", (int, np.int64), "vector")
    code.load("rax", "rbp", SIZE)
    code.compare_number("rax", 2)
    code.jump("general", "ne")
    for axis in range(2):
        _add_place(function, axis, "rbp", TUPLE_ITEMS + 8 * axis)
    code.jump("range")
    code.label("vector")
    _add_place(function, 0, "rbp", None)
    code.label("range")
    for name, condition, extent in (("low", "ge", 0), ("high", "le", 8)):
        at, is_covered = _STALE_RANGE[name], function.new_label()
        code.load("rdi", "r15", at)
        code.call(objects.address("PyLong_AsSsize_t"))
        code.load("rdi", "rsp", 8)
        code.add("rdi", extent)
        code.compare("rdi", "rax")
        code.jump(is_covered, condition)
        code.call(objects.address("PyLong_FromSsize_t"))
        code.compare_number("rax", 0)
        code.jump("no storage", "e")
        code.load("rcx", "r15", at)
        code.store("r15", at, "rax")
        code.store("rsp", 16, "rcx")
        code.load("rdi", "rsp", 16)
        code.call(objects.address("Py_DecRef"))
        code.label(is_covered)
    code.jump("write")


def _add_place(function: Function, axis: int, key: str, item: int | None) -> None:
    """Add to ``[rsp + 8]`` how far an index along an axis leads; one from the end goes to the general function."""
    code = function.code
    if item is None:
        code.move("rdi", key)
    else:
        code.load("rdi", key, item)
    code.move("rsi", "rsp")
    code.add("rsi", 16)
    code.call(objects.address("PyLong_AsLongAndOverflow"))
    code.load_int("rcx", "rsp", 16)
    code.compare_number("rcx", 0)
    code.jump("general", "ne")
    code.compare_number("rax", 0)
    code.jump("general", "l")
    code.load("rcx", "r12", ARRAY_SHAPE)
    code.compare_with("rcx", 8 * axis, "rax")
    code.jump("general", "le")
    code.load("rcx", "r12", ARRAY_STRIDES)
    code.multiply("rax", "rcx", 8 * axis)
    code.load("rcx", "rsp", 8)
    code.add_register("rax", "rcx")
    code.store("rsp", 8, "rax")
    code.compare_number("rax", 0)
    code.jump("general", "l")


def ass_subscript(kind: type, before: int) -> bytes:
    """Return the code of ``array[key] = value``, for integers and slices, and numbers or arrays of dtypes that fit."""
    function = Function(kind, before, loops.STACK)
    code, numpys = function.code, objects.slot(np.ndarray, "ass_subscript").value
    function.begin()
    code.label("start")
    code.load("r14", "rsp", 0)
    code.compare_number("r14", 0)
    code.jump("general", "e")
    function.unless_type("rbx", kind, "general")
    function.load_seen("r12", "rbx", storage="r13", label="elsewhere")
    function.unless_type("r14", kind, "number")
    _return_from_part(function, "another")
    code.label("another")
    function.load_seen("r15", "r14", storage="r8")
    code.move("r14", "r15")
    _require_cast(function)
    code.label("number")
    _require_fitting(function)
    code.label("value")
    function.require_writable("rbx")
    code.set("rcx", NONE)
    code.compare("r13", "rcx")
    code.jump("key", "e")
    function.let_be_alone("r13", "start", "copied")
    code.label("key")
    function.unless_type("rbp", kind, "basic")
    code.jump("advanced")
    code.label("basic")
    code.set("rcx", ELLIPSIS)
    code.compare("rbp", "rcx")
    code.jump("part", "e")
    function.classify_key("rbp", "r12", element="element", view="part", mixed="mixed", listed="listed")
    code.label("element")
    code.set("rcx", id(np.ndarray))
    code.compare_with("r14", TYPE, "rcx")
    code.jump("general", "e")
    write_element(function, "write")
    code.label("write")
    function.keep("r12")
    function.keep("r14")
    function.call(numpys, "r12", "rbp", "r14")
    code.move("r13", "rax")
    function.drop("r12")
    function.drop("r14")
    code.move("rax", "r13")
    code.jump("return")
    code.label("part")
    function.unless_reported()
    function.unless_few("rbx", "large")
    function.unless_smaller("r12", "large", MOST_WRITTEN + 1)
    code.jump("write")
    _write_part(function, numpys)
    _write_chosen(function, numpys)
    _outdate(function)
    code.label("elsewhere")
    function.unless_type("r14", kind, "on the device")
    _return_from_part(function, "on the device")
    write_device_part(function, "on the device")
    function.end()
    return code.assembled()


__all__ = ["ass_subscript", "length", "require_listed", "return_part", "subscript"]

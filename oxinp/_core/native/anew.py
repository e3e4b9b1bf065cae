"""Functions of NumPy's that make something new of small arrays, which NumPy is to compute, in machine code.

What `host.fallback.on_hosts` does, of which this is the case that most calls are: each array is passed on as its host's
view, numbers and their kin as they are, and what comes back is an array that shares no memory with any argument. NumPy
computes it in the context of `errors.hearing`, so that what it warns of names the user's line.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from oxinp._core.errors import hearing
from oxinp._core.lazy.balance import LAUNCH
from oxinp._core.native import objects
from oxinp._core.native.assembler import filled, stand_ins
from oxinp._core.native.call import ARGUMENTS, FLAGS, GIVEN, KEYWORDS, REALS, Call
from oxinp._core.native.function import LIGHT, SEEN
from oxinp._core.native.loops import ALIGNED, CONTIGUOUS, OWNER, WRITEABLE
from oxinp._core.native.numbers import NUMBERS
from oxinp._core.native.objects import ARRAY_BASE, ARRAY_DTYPE, ARRAY_FLAGS, LIST_ITEMS, SIZE, TUPLE_ITEMS, TYPE

_MOST = 6
_PASSED_ON = GIVEN + 8  # behind the function
_COUNT, _HAS_ARRAYS, _IS_ARGUMENT, _ITEMS, _LEFT = (_PASSED_ON + 8 * (_MOST + i) for i in range(5))
_STATE = _LEFT
_ROOM = _LEFT + 8
_KEYWORDS = tuple(
    map(sys.intern, ("axes", "axis", "decimals", "dtype", "k", "keepdims", "minlength", "order", "shift"))
)
"""Names of arguments that may be given by them: with these, functions warn of floating-point errors alone."""
_FUNCTION, _BEFORE = stand_ins(2)
_PASSED = (int, float, bool, str, type(None), type, np.dtype, *NUMBERS)
"""Types of what NumPy is given as it is."""
_RETURNED = (*NUMBERS, np.int16, np.uint16, np.uint32, np.uint64, np.float16, np.complex64, bool, int, float, list)
"""Types of results that are no arrays."""
_KINDS = (*REALS, np.complex128, np.complex64)
_IS_OWN, _IS_PLAIN = OWNER | ALIGNED | WRITEABLE, CONTIGUOUS | ALIGNED | WRITEABLE  # flags


class _Anew(Call):
    def begin_any(self, most: int) -> None:
        """Begin with up to so many positional arguments, at `rbp`, and any by keyword; `r14` has how many."""
        code, is_alone = self.code, self.new_label()
        self.begin_arguments()
        code.compare_number("rdx", 2 * most)
        code.jump("general", "g")
        code.move("rbx", "rdx")
        code.move("r14", "rdx")
        code.compare_number("rcx", 0)
        code.jump(is_alone, "e")
        code.load("r8", "rcx", SIZE)
        code.add("rcx", TUPLE_ITEMS)
        code.label("next keyword")
        code.load("r9", "rcx")
        code.set("r10", id(_KEYWORDS) + TUPLE_ITEMS)
        for i in range(len(_KEYWORDS)):
            code.compare_with("r10", 8 * i, "r9")
            code.jump("known keyword", "e")
        code.jump("general")
        code.label("known keyword")
        code.add("r14", 2)
        code.add("rcx", 8)
        code.add("r8", -1)
        code.jump("next keyword", "ne")
        code.label(is_alone)
        code.compare_number("r14", 2 * _MOST)
        code.jump("general", "g")
        code.store("rsp", _COUNT, "r14")
        code.compare_number("r14", 0)
        code.jump("general", "e")
        code.set("rax", 0)
        code.store("rsp", _HAS_ARRAYS, "rax")
        code.store("rsp", _IS_ARGUMENT, "rax")

    def require_array(self, share: int, weight: float) -> None:
        """Go to the general function unless `r12` has an array of the host's, given by position."""
        code = self.code
        code.compare_number("rbx", 0)
        code.jump("general", "le")
        self.load_seen("r13", "r12", storage="r8")
        self.require_host("r12", "r13", share=share, is_learned=bool(weight))
        self.require_elements("r13", _KINDS)
        if weight:
            self.count_own("r13")
            self.count_learned(LIGHT, "general", weight, LAUNCH)
        self.multiply_extents("r13")
        code.compare_number("rax", 0)  # of nothing, some warn in other words
        code.jump("general", "e")
        code.set("rax", 1)
        code.store("rsp", _HAS_ARRAYS, "rax")

    def require_known(self, share: int, weight: float) -> None:
        """Go to the general function unless NumPy may be given all arguments; nothing happens otherwise."""
        code = self.code
        code.label("next argument")
        code.load("r12", "rbp")
        code.load("rax", "r12", TYPE)
        self.if_one_of("rax", _PASSED, "known")
        self.if_one_of("rax", (self.kind,), "array")
        self.if_one_of("rax", (tuple,), "tuple")
        self.if_one_of("rax", (list,), "list")
        code.jump("general")
        code.label("array")
        self.require_array(share, weight)
        code.jump("known")
        code.label("list")  # of arrays only: NumPy takes other lists for something else than tuples
        code.load("rdx", "r12", LIST_ITEMS)
        code.load("rcx", "r12", SIZE)
        code.compare_number("rcx", 0)
        code.jump("general", "e")
        code.load("rax", "rdx")
        code.load("rax", "rax", TYPE)
        self.if_one_of("rax", (self.kind,), "items")
        code.jump("general")
        code.label("tuple")
        code.move("rdx", "r12")
        code.add("rdx", TUPLE_ITEMS)
        code.label("items")
        code.store("rsp", _ITEMS, "rdx")
        code.load("rcx", "r12", SIZE)
        code.store("rsp", _LEFT, "rcx")
        code.label("next item")
        code.compare_number_with("rsp", _LEFT, 0)
        code.jump("known", "e")
        code.decrement("rsp", _LEFT)
        self.load_item()
        code.load("rax", "r12", TYPE)
        self.if_one_of("rax", (int, type(None), np.int64), "next item")
        self.unless_type("r12", self.kind, "general")
        self.require_array(share, weight)
        code.jump("next item")
        code.label("known")
        code.add("rbp", 8)
        code.add("rbx", -2)
        code.add("r14", -2)
        code.jump("next argument", "ne")
        code.compare_number_with("rsp", _HAS_ARRAYS, 0)
        code.jump("general", "e")

    def load_item(self) -> None:
        """Let `r12` have the next item of a tuple or a list."""
        code = self.code
        code.load("rdx", "rsp", _ITEMS)
        code.load("r12", "rdx")
        code.add("rdx", 8)
        code.store("rsp", _ITEMS, "rdx")

    def let_be_view(self) -> None:
        """Let `r12` have what stands for it: of an array its host's view; take a reference."""
        code, is_other = self.code, self.new_label()
        self.unless_type("r12", self.kind, is_other)
        code.load("r12", "r12", SEEN)
        code.label(is_other)
        self.keep("r12")

    def pass_on(self) -> None:
        """Let the stack have what NumPy is given, with a reference each."""
        code = self.code
        code.load("rbp", "rsp", ARGUMENTS)
        code.load("r14", "rsp", _COUNT)
        code.move("rbx", "rsp")
        code.add("rbx", _PASSED_ON)
        code.label("pass next")
        code.load("r12", "rbp")
        code.load("rax", "r12", TYPE)
        code.load("rdx", "r12", LIST_ITEMS)
        self.if_one_of("rax", (list,), "pass items")
        code.move("rdx", "r12")
        code.add("rdx", TUPLE_ITEMS)
        self.if_one_of("rax", (tuple,), "pass items")
        self.let_be_view()
        code.jump("passed")
        code.label("pass items")
        code.store("rsp", _ITEMS, "rdx")
        code.load("rdi", "r12", SIZE)
        code.store("rsp", _LEFT, "rdi")
        code.call(objects.address("PyTuple_New"))
        code.move("r15", "rax")
        code.compare_number("rax", 0)
        code.jump("no tuple", "e")
        code.move("r13", "r15")
        code.add("r13", TUPLE_ITEMS)
        code.label("pass next item")
        code.compare_number_with("rsp", _LEFT, 0)
        code.jump("are passed", "e")
        code.decrement("rsp", _LEFT)
        self.load_item()
        self.let_be_view()
        code.store("r13", 0, "r12")
        code.add("r13", 8)
        code.jump("pass next item")
        code.label("are passed")
        code.move("r12", "r15")
        code.label("passed")
        code.store("rbx", 0, "r12")
        code.add("rbx", 8)
        code.add("rbp", 8)
        code.add("r14", -2)
        code.jump("pass next", "ne")

    def require_same_count(self, one: str, other: str, label: str) -> None:
        """Go to a label unless two arrays of NumPy's have as many elements, and those are of one dtype."""
        code = self.code
        code.load("rax", one, ARRAY_DTYPE)
        code.compare_with(other, ARRAY_DTYPE, "rax")
        code.jump(label, "ne")
        self.multiply_extents(one)
        code.move("r8", "rax")
        self.multiply_extents(other)
        code.compare("rax", "r8")
        code.jump(label, "ne")

    def require_default_state(self) -> None:
        """Go to the general function where the user has changed what NumPy does of floating-point errors."""
        code = self.code
        code.set("rdi", id(hearing.state))
        code.set("rsi", 0)
        code.move("rdx", "rsp")
        code.add("rdx", _STATE)
        code.call(objects.address("PyContextVar_Get"))
        code.load("r12", "rsp", _STATE)
        code.compare_number("r12", 0)
        code.jump("general", "e")
        self.drop("r12")
        code.set("rcx", id(hearing.default))
        code.compare("r12", "rcx")
        code.jump("general", "ne")

    def call_with_all(self) -> None:
        """Let `r13` have what NumPy returns or 0, and give everything back."""
        code = self.code
        code.set("rax", _FUNCTION)
        code.store("rsp", GIVEN, "rax")
        code.set("rdi", id(hearing.run))
        code.move("rsi", "rsp")
        code.add("rsi", GIVEN)
        code.load("rdx", "rsp", FLAGS)
        code.add_register("rdx", "rdx")
        code.halve("rdx")
        code.add("rdx", 1)
        code.load("rcx", "rsp", KEYWORDS)
        code.call(objects.address("PyObject_Vectorcall"))
        code.move("r13", "rax")
        code.jump("give back")
        code.label("no tuple")
        code.set("r13", 0)
        code.label("give back")  # what lies below `rbx`, from the last on
        code.label("next back")
        code.move("rax", "rsp")
        code.add("rax", _PASSED_ON)
        code.compare("rbx", "rax")
        code.jump("given back", "e")
        code.add("rbx", -8)
        code.load("r12", "rbx")
        code.compare("r12", "r13")
        code.jump("is another", "ne")
        code.store("rsp", _IS_ARGUMENT, "r12")
        code.label("is another")
        self.drop("r12")
        code.jump("next back")
        code.label("given back")


def _require_new(call: _Anew, label: str) -> None:
    """Go to a label unless the array in `r13` has memory of its own, or all of that of one that nobody else has."""
    code = call.code
    for flags, found in ((_IS_OWN, "is owner"), (_IS_PLAIN, "is plain")):
        code.load_int("rax", "r13", ARRAY_FLAGS)
        code.and_number("rax", flags)
        code.compare_number("rax", flags)
        code.jump(found, "e")
    code.jump(label)
    code.label("is plain")
    code.load("r12", "r13", ARRAY_BASE)
    code.compare_number("r12", 0)
    code.jump(label, "e")
    call.unless_type("r12", np.ndarray, label)
    code.compare_number_with("r12", 0, 1)  # references
    code.jump(label, "ne")
    code.test_with("r12", ARRAY_FLAGS, OWNER)
    code.jump(label, "e")
    call.require_same_count("r12", "r13", label)
    code.label("is owner")


def anew(kind: type, before: int, function: Callable[..., Any], most: int, share: int, weight: float) -> bytes:
    """Return the code of a function of up to so many positional arguments, none of which it writes to.

    Arrays are the host's up to `share` times the threshold, or by what has been learned if there is a weight, see
    `Op.host_weight`.
    """
    return filled(_code(kind, most, share, weight), {_FUNCTION: id(function), _BEFORE: before})


@functools.cache
def _code(kind: type, most: int, share: int, weight: float) -> bytes:
    """Return the code of all such functions, with numbers that stand for what differs."""
    call = _Anew(kind, _BEFORE, _ROOM)
    code = call.code
    call.begin_any(most)
    call.require_known(share, weight)
    call.unless_reported()
    call.require_default_state()
    call.pass_on()
    call.call_with_all()
    code.compare_number("r13", 0)
    code.jump("returned", "ne")
    code.set("rdi", id(Exception))
    code.call(objects.address("PyErr_ExceptionMatches"))
    code.store("rsp", _STATE, "rax")
    code.load_int("rcx", "rsp", _STATE)
    code.set("rax", 0)
    code.compare_number("rcx", 0)
    code.jump("return", "e")
    code.call(objects.address("PyErr_Clear"))
    code.jump("general")  # which raises it again, or finds another way
    code.label("returned")
    code.load("rax", "r13", TYPE)
    call.if_one_of("rax", _RETURNED, "is new")
    call.unless_type("r13", np.ndarray, "too large")
    code.compare_number_with("rsp", _IS_ARGUMENT, 0)
    code.jump("too large", "ne")
    _require_new(call, "too large")
    call.require_elements("r13", _KINDS, "too large")
    code.label("is new")
    call.return_new("r13", "r12", is_few=False)
    return code.assembled()


def most_positional(function: Callable[..., Any]) -> int:
    """Return how many arguments come before the one that a function may write to."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except ValueError:  # of functions in C, before NumPy 2.4
        return 1
    places = [i for i, each in enumerate(parameters) if each.name == "out" and each.kind is not each.KEYWORD_ONLY]
    return min(*places, _MOST, _MOST)


__all__ = ["anew", "most_positional"]

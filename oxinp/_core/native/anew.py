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
from oxinp._core.native.function import HELD, HOST, KNOWN, LIGHT, NONE, SEEN, VIEW
from oxinp._core.native.loops import ALIGNED, CONTIGUOUS, OWNER, WRITEABLE
from oxinp._core.native.numbers import NUMBERS
from oxinp._core.native.objects import (
    ARRAY_BASE,
    ARRAY_FLAGS,
    LIST_ITEMS,
    SIZE,
    TUPLE_ITEMS,
    TUPLE_SUBCLASS,
    TYPE,
    TYPE_FLAGS,
)

_MOST = 6
_PASSED_ON = GIVEN + 8  # behind the function
NUM_PASSED, _HAS_ARRAYS, _IS_ARGUMENT, _ITEMS, _LEFT = (_PASSED_ON + 8 * (_MOST + i) for i in range(5))
_STATE = _LEFT
ROOM = _LEFT + 8
KEYWORDS_ANEW = tuple(
    map(
        sys.intern,
        (
            *("a_max", "a_min", "axes", "axis", "bins", "ddof", "decimals", "dtype", "dx", "k", "keepdims", "kind"),
            *("left", "minlength", "mode", "n", "order", "rcond", "return_counts", "return_index", "return_inverse"),
            *("right", "rowvar", "shift", "side", "weights"),
        ),
    )
)
"""Names of arguments that may be given by them: with these, functions warn of floating-point errors alone."""
FUNCTION, BEFORE = stand_ins(2)
_PASSED = (int, float, bool, str, type(None), type, np.dtype, *NUMBERS)
"""Types of what NumPy is given as it is."""
_RETURNED = (*NUMBERS, np.int16, np.uint16, np.uint32, np.uint64, np.float16, np.complex64, bool, int, float, list)
"""Types of results that are no arrays."""
_DTYPES = tuple({type(np.dtype(each)) for each in np.sctypeDict.values()})
_TOLD = (*_RETURNED, type, *_DTYPES)
"""Types of what functions tell of arrays that make none."""
_KINDS = (*REALS, np.complex128, np.complex64)
_IS_OWN, _IS_PLAIN = OWNER | ALIGNED | WRITEABLE, CONTIGUOUS | ALIGNED | WRITEABLE  # flags


class PassingCall(Call):
    """A call of a function of NumPy's with whatever this one is given, host's views for arrays.

    Parameters
    ----------
    kind, before, room
        See `Call`.
    is_telling : bool
        Whether NumPy's function is in C and makes no arrays: then it is called in the user's context.
    keywords : tuple of str
        Names of arguments that may be given by them.
    """

    def __init__(
        self,
        kind: type,
        before: int | None,
        *,
        is_telling: bool,
        room: int = ROOM,
        keywords: tuple[str, ...] = KEYWORDS_ANEW,
    ) -> None:
        super().__init__(kind, before, room)
        self.is_telling = is_telling
        self.keywords = keywords

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
        code.set("r10", id(self.keywords) + TUPLE_ITEMS)
        for i in range(len(self.keywords)):
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
        code.store("rsp", NUM_PASSED, "r14")
        code.compare_number("r14", 0)
        code.jump("general", "e")
        code.set("rax", 0)
        code.store("rsp", _HAS_ARRAYS, "rax")
        code.store("rsp", _IS_ARGUMENT, "rax")

    def require_array(self, share: int, weight: float) -> None:
        """Go to the general function unless `r12` has an array of the host's, with elements unless it is told of."""
        code = self.code
        self.load_seen("r13", "r12", storage="r8")
        self.require_host("r12", "r13", share=share, is_learned=bool(weight))
        self.require_elements("r13", _KINDS)
        if weight:
            self.count_own("r13")
            self.count_learned(LIGHT, "general", weight, LAUNCH)
        if not self.is_telling:
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
        self.if_one_of("rax", (*_PASSED, *_DTYPES) if self.is_telling else _PASSED, "known")
        self.if_one_of("rax", (self.kind,), "array")
        self.if_one_of("rax", (tuple,), "tuple")
        self.if_one_of("rax", (list,), "list")
        code.jump("general")
        code.label("array")
        self.require_array(share, weight)
        code.jump("known")
        code.label("list")
        self.if_arrays_listed("items")
        self.require_numbers("known")
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
        self.if_one_of("rax", (list,), "list in tuple")
        self.unless_type("r12", self.kind, "general")
        self.require_array(share, weight)
        code.jump("next item")
        code.label("list in tuple")
        self.if_arrays_listed("general")
        self.require_numbers("next item")
        code.label("known")
        code.add("rbp", 8)
        code.add("rbx", -2)
        code.add("r14", -2)
        code.jump("next argument", "ne")
        if not self.is_telling:
            code.compare_number_with("rsp", _HAS_ARRAYS, 0)
            code.jump("general", "e")

    def if_arrays_listed(self, label: str) -> None:
        """Go to a label where the list in `r12` begins with an array of ours; to the general function if it is empty.

        NumPy takes lists of arrays for the same as tuples of them, and other lists not.
        """
        code = self.code
        code.load("rdx", "r12", LIST_ITEMS)
        code.load("r8", "r12", SIZE)
        code.compare_number("r8", 0)
        code.jump("general", "e")
        code.load("rax", "rdx")
        code.load("rax", "rax", TYPE)
        self.if_one_of("rax", (self.kind,), label)

    def require_numbers(self, done: str) -> None:
        """Go to a label, unless any of the `r8` objects at `rdx` is something else than a number."""
        code, again, is_number = self.code, self.new_label(), self.new_label()
        code.label(again)
        code.load("rax", "rdx")
        code.load("rax", "rax", TYPE)
        self.if_one_of("rax", (int, float, *NUMBERS), is_number)
        code.jump("general")
        code.label(is_number)
        code.add("rdx", 8)
        code.add("r8", -1)
        code.jump(again, "ne")
        code.jump(done)

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
        code.load("r14", "rsp", NUM_PASSED)
        code.move("rbx", "rsp")
        code.add("rbx", _PASSED_ON)
        code.label("pass next")
        code.load("r12", "rbp")
        code.load("rax", "r12", TYPE)
        self.if_one_of("rax", (list,), "pass list")
        code.move("rdx", "r12")
        code.add("rdx", TUPLE_ITEMS)
        self.if_one_of("rax", (tuple,), "pass items")
        code.label("pass as it is")
        self.let_be_view()
        code.jump("passed")
        code.label("pass list")
        code.load("rdx", "r12", LIST_ITEMS)
        code.load("rax", "rdx")
        self.unless_type("rax", self.kind, "pass as it is")
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
        code.set("rax", FUNCTION)
        code.store("rsp", GIVEN, "rax")
        code.move("rsi", "rsp")
        code.load("rdx", "rsp", FLAGS)
        code.add_register("rdx", "rdx")
        code.halve("rdx")
        if self.is_telling:
            code.move("rdi", "rax")
            code.add("rsi", _PASSED_ON)
        else:
            code.set("rdi", id(hearing.run))
            code.add("rsi", GIVEN)
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


def _require_new(call: PassingCall, array: str, label: str) -> None:
    """Go to a label unless an array has memory of its own, or all of that of one nobody else has; `r12` changes."""
    code, is_plain, is_new = call.code, call.new_label(), call.new_label()
    for flags, found in ((_IS_OWN, is_new), (_IS_PLAIN, is_plain)):
        code.load_int("rax", array, ARRAY_FLAGS)
        code.and_number("rax", flags)
        code.compare_number("rax", flags)
        code.jump(found, "e")
    code.jump(label)
    code.label(is_plain)
    code.load("r12", array, ARRAY_BASE)
    code.compare_number("r12", 0)
    code.jump(label, "e")
    call.unless_type("r12", np.ndarray, label)
    code.compare_number_with("r12", 0, 1)  # references
    code.jump(label, "ne")
    code.test_with("r12", ARRAY_FLAGS, OWNER)
    code.jump(label, "e")
    call.require_same_count("r12", array, label)
    code.label(is_new)


def _wrap_items(call: PassingCall, *, are_columns: bool) -> None:
    """Let the tuple in `r13`, which nobody else has, have ours for NumPy's arrays, all of which are to be new.

    Those that share a new array, whose columns they are, are copied.
    """
    code = call.code
    code.compare_number_with("r13", 0, 1)  # references
    code.jump("too large", "ne")
    code.move("rbx", "r13")
    code.load("r14", "r13", SIZE)
    code.label("wrap next")
    code.add("r14", -1)
    code.jump("are wrapped", "s")
    code.load("rbp", "rbx", TUPLE_ITEMS)
    code.add("rbx", 8)
    code.load("rax", "rbp", TYPE)
    call.if_one_of("rax", _RETURNED, "wrap next")
    call.unless_type("rbp", np.ndarray, "too large")
    call.require_elements("rbp", _KINDS, "too large")
    code.compare_number_with("rbp", 0, 1)
    code.jump("too large", "ne")
    _require_new(call, "rbp", "copy item" if are_columns else "too large")
    code.label("wrap item")
    call.make_handle("rbp", "r12")
    call.put("r12", HOST, "rbp")
    for attribute in (HELD, VIEW, KNOWN):
        call.put("r12", attribute, NONE)
    code.store("rbx", TUPLE_ITEMS - 8, "r12")
    code.jump("wrap next")
    if are_columns:
        code.label("copy item")
        code.set("rdi", id(np.ndarray.copy))
        code.move("rsi", "rbp")
        code.call(objects.address("PyObject_CallOneArg"))
        code.compare_number("rax", 0)
        code.jump("no handle", "e")
        code.store("rbx", TUPLE_ITEMS - 8, "rax")
        call.drop("rbp")
        code.load("rbp", "rbx", TUPLE_ITEMS - 8)
        code.jump("wrap item")
    code.label("are wrapped")
    code.move("rax", "r13")
    code.jump("return")


def anew(
    kind: type,
    before: int | None,
    function: Callable[..., Any],
    most: int,
    *,
    share: int = 1,
    weight: float = 0.0,
    are_columns: bool = False,
) -> bytes:
    """Return the code of a function of up to so many positional arguments, none of which it writes to.

    Arrays are the host's up to `share` times the threshold, or by what has been learned if there is a weight, see
    `Op.host_weight`. In a tuple it may return the columns of a new array.
    """
    code = _code(kind, most, share, weight, are_columns, is_last=before is not None)
    return filled(code, {FUNCTION: id(function)} | ({} if before is None else {BEFORE: before}))


def telling(kind: type, before: int | None, function: Callable[..., Any], most: int = _MOST) -> bytes:
    """Return the code of a function that tells something of arrays, and of what else it is given, and warns of nothing.

    It returns numbers, dtypes and types.
    """
    code = _telling_code(kind, most, is_last=before is not None)
    return filled(code, {FUNCTION: id(function)} | ({} if before is None else {BEFORE: before}))


def _return_unless_exception(call: PassingCall) -> None:
    """Go on where NumPy has returned something; to the general function where it has raised an exception."""
    code = call.code
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


@functools.cache
def _telling_code(kind: type, most: int, *, is_last: bool) -> bytes:
    """Return the code of all functions that tell something of arrays."""
    call = PassingCall(kind, BEFORE if is_last else None, is_telling=True)
    code = call.code
    call.begin_any(most)
    call.require_known(1, 0.0)
    call.unless_reported()
    call.pass_on()
    call.call_with_all()
    _return_unless_exception(call)
    code.load("rax", "r13", TYPE)
    call.if_one_of("rax", _TOLD, "is told")
    code.jump("too large")
    code.label("is told")
    code.move("rax", "r13")
    code.jump("return")
    call.end_wrap("r13")
    call.end_call()
    return code.assembled()


@functools.cache
def _code(kind: type, most: int, share: int, weight: float, are_columns: bool, *, is_last: bool) -> bytes:
    """Return the code of all such functions, with numbers that stand for what differs."""
    call = PassingCall(kind, BEFORE if is_last else None, is_telling=False)
    code = call.code
    call.begin_any(most)
    call.require_known(share, weight)
    call.unless_reported()
    call.require_default_state()
    call.pass_on()
    call.call_with_all()
    _return_unless_exception(call)
    code.load("rax", "r13", TYPE)
    call.if_one_of("rax", _RETURNED, "is new")
    call.unless_type("r13", np.ndarray, "is no array")
    code.compare_number_with("rsp", _IS_ARGUMENT, 0)
    code.jump("too large", "ne")
    _require_new(call, "r13", "too large")
    call.require_elements("r13", _KINDS, "too large")
    code.label("is new")
    call.wrap("r13", "r12", is_few=False)
    code.label("is no array")
    code.load("rax", "r13", TYPE)
    code.test_with("rax", TYPE_FLAGS, TUPLE_SUBCLASS)
    code.jump("too large", "e")
    _wrap_items(call, are_columns=are_columns)
    call.end_wrap("r13")
    call.end_call()
    return code.assembled()


def most_positional(function: Callable[..., Any]) -> int:
    """Return how many arguments come before the one that a function may write to."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except ValueError:  # of functions in C, before NumPy 2.4
        return 1
    places = [i for i, each in enumerate(parameters) if each.name == "out" and each.kind is not each.KEYWORD_ONLY]
    return min(*places, _MOST, _MOST)


__all__ = [
    "BEFORE",
    "FUNCTION",
    "KEYWORDS_ANEW",
    "NUM_PASSED",
    "ROOM",
    "PassingCall",
    "anew",
    "most_positional",
    "telling",
]

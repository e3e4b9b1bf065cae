"""Leaves that two chains have in common, in machine code: what `record.join_two` and `record.joined` say."""

from __future__ import annotations

from oxinp._core.lazy.combining import renew
from oxinp._core.lazy.expr import MAX_LEAVES, Operation
from oxinp._core.native import given, objects
from oxinp._core.native.apart import require_same
from oxinp._core.native.function import NONE
from oxinp._core.native.given import GIVEN, call_given, give
from oxinp._core.native.making import GRAPH, GRID, KEY, LEAVES, NEW, NEW_GRAPH, PTR, RESULT, Making, offsets
from oxinp._core.native.objects import SIZE, TUPLE_ITEMS

_RECORDS = offsets(Operation, ("records",))["records"]

GRAPH_AT, ENTRIES_AT, MASK_AT = (TUPLE_ITEMS + 8 * i for i in range(3))
"""Where a value has what."""
_MOST = 2 * MAX_LEAVES
_ENTRY, _LAYOUT, _PLACE = (given.ROOM + 8 * _MOST * i for i in range(3))
"""Where on the stack there are the leaves and their layouts, each once, and where each chain's stand among these."""
_COUNT, _IS_PLAIN = (given.ROOM + 8 * (_MOST * 3 + i) for i in range(2))
ROOM = _IS_PLAIN + 8
"""Bytes of the stack, an odd number of words."""


def join_leaves(call: Making, apart: str) -> None:
    """Let the stack have the leaves of the values in `r13` and `r14`, and the places of both in `PTR`.

    Go to a label where they have none in common. All registers change but these two.
    """
    code = call.code
    code.set("r8", 0)
    code.set("r9", 0)
    code.set("rcx", 0)
    code.store("rsp", _IS_PLAIN, "rcx")
    _pass_leaves(call, "r13")
    code.compare("r8", "r9")
    code.jump("is not plain", "ne")
    code.increment("rsp", _IS_PLAIN)
    code.label("is not plain")
    _pass_leaves(call, "r14")
    code.compare("r8", "r9")
    code.jump(apart, "e")
    code.store("rsp", _COUNT, "r8")
    code.set("rbx", 0)
    for value, place in (("r13", NEW_GRAPH), ("r14", GRID)):
        _make_places(call, value, place)
    call.make_tuple(PTR, "rdi", ("rsp", NEW_GRAPH), ("rsp", GRID))
    _make_leaves(call)


def _pass_leaves(call: Making, value: str) -> None:
    """Enter the leaves of a value among the `r8` ones that are known, and the places of all `r9` ones."""
    code = call.code
    each, search, next_known, is_new, is_known, done = (call.new_label() for _ in range(6))
    code.load("rdx", value, ENTRIES_AT)
    code.load("rsi", value, GRAPH_AT)
    code.load("rsi", "rsi", GRAPH["leaves"])
    code.load("rcx", "rdx", SIZE)
    code.compare_number("rcx", MAX_LEAVES)
    code.jump("undo", "g")
    code.set("rdi", 0)
    code.label(each)
    code.compare("rdi", "rcx")
    code.jump(done, "e")
    code.load_at("r10", "rdx", "rdi", 8, TUPLE_ITEMS)
    code.load_at("r11", "rsi", "rdi", 8, TUPLE_ITEMS)
    code.set("rax", 0)
    code.label(search)
    code.compare("rax", "r8")
    code.jump(is_new, "e")
    code.load_at("r15", "rsp", "rax", 8, _ENTRY)
    code.compare("r15", "r10")
    code.jump(next_known, "ne")
    code.load_at("r15", "rsp", "rax", 8, _LAYOUT)
    code.compare("r15", "r11")
    code.jump(is_known, "e")
    code.label(next_known)
    code.add("rax", 1)
    code.jump(search)
    code.label(is_new)
    code.store_at("rsp", "r8", "r10", 8, _ENTRY)
    code.store_at("rsp", "r8", "r11", 8, _LAYOUT)
    code.add("r8", 1)
    code.label(is_known)
    code.store_at("rsp", "r9", "rax", 8, _PLACE)
    code.add("r9", 1)
    code.add("rdi", 1)
    code.jump(each)
    code.label(done)


def _make_places(call: Making, value: str, place: int) -> None:
    """Let the stack have where a value's leaves stand, as a tuple; the first is that at `rbx`, which goes on."""
    code, each, done = call.code, call.new_label(), call.new_label()
    code.load("rbp", value, ENTRIES_AT)
    code.load("rbp", "rbp", SIZE)
    code.move("rdi", "rbp")
    code.call(objects.address("PyTuple_New"))
    call.made(place, "r12")
    code.add_register("rbp", "rbx")
    code.label(each)
    code.compare("rbx", "rbp")
    code.jump(done, "e")
    code.load_at("rdi", "rsp", "rbx", 8, _PLACE)
    code.call(objects.address("PyLong_FromSsize_t"))  # of few, which there always is
    code.store("r12", TUPLE_ITEMS, "rax")
    code.add("r12", 8)
    code.add("rbx", 1)
    code.jump(each)
    code.label(done)


def _make_leaves(call: Making) -> None:
    """Let the stack have the joined leaves: those of the first value if each is there once and there are no others."""
    code = call.code
    each, are_new, are_own, are_made = (call.new_label() for _ in range(4))
    code.load("rbp", "rsp", _COUNT)
    code.load("rdx", "r13", ENTRIES_AT)
    code.compare_number_with("rsp", _IS_PLAIN, 0)
    code.jump(are_new, "e")
    code.compare_with("rdx", SIZE, "rbp")
    code.jump(are_own, "e")
    code.label(are_new)
    code.move("rdi", "rbp")
    code.call(objects.address("PyTuple_New"))
    call.made(LEAVES, "r12")
    code.set("rbx", 0)
    code.label(each)
    code.load_at("rdx", "rsp", "rbx", 8, _ENTRY)
    code.store_at("r12", "rbx", "rdx", 8, TUPLE_ITEMS)
    call.keep("rdx")
    code.add("rbx", 1)
    code.compare("rbx", "rbp")
    code.jump(each, "ne")
    code.jump(are_made)
    code.label(are_own)
    call.keep_at(LEAVES, "rdx")
    code.label(are_made)


def find_joined(call: Making, operation: int, *, is_in_place: bool) -> None:
    """Let `r12` have the record that an operation on the stack has for a key there, of the values in `r13` and `r14`.

    One that is new is made where the places say no more than which leaves of the second are the first's; there are none
    where none are shared. In place the result has the first one's layout.
    """
    code, is_found, are_apart, is_known = call.code, *(call.new_label() for _ in range(3))
    code.load("rdi", "rsp", operation)
    code.load("rdi", "rdi", _RECORDS)
    code.load("rsi", "rsp", KEY)
    code.call(objects.address("PyDict_GetItem"))
    code.move("r12", "rax")
    code.compare_number("r12", 0)
    code.jump("is recorded", "ne")
    code.load("rbx", "r13", GRAPH_AT)
    code.load("rbp", "r14", GRAPH_AT)
    call.make_tuple(NEW, "rdi", "rbx", "rbp")
    code.load("rdi", "rsp", operation)
    give(call, "rdi", ("rdi", _RECORDS), ("rsp", KEY), ("rsp", NEW), ("rsp", GRID), NONE)
    if is_in_place:
        code.load("rax", "rbx", GRAPH["layout"])
        code.store("rsp", GIVEN + 8 * 5, "rax")
    code.compare_number_with("rsp", PTR, 0)
    code.jump(are_apart, "e")
    code.compare_number_with("rsp", _IS_PLAIN, 0)
    code.jump("undo", "e")
    require_same(call, "rbx", "rbp", GRAPH["shape"], "undo")
    code.jump(is_known)
    code.label(are_apart)
    code.set("rax", NONE)
    code.store("rsp", GIVEN + 8 * 4, "rax")
    code.label(is_known)
    call_given(call, renew, 6)
    call.made(RESULT, "r12")
    code.jump(is_found)
    code.label("is recorded")
    call.keep_at(RESULT, "r12")
    code.label(is_found)


__all__ = ["ENTRIES_AT", "GRAPH_AT", "MASK_AT", "ROOM", "find_joined", "join_leaves"]

"""Chains that wait to be computed, in machine code: `schedule.PENDING`, from the last one to the first."""

from __future__ import annotations

from oxinp._core.lazy import schedule
from oxinp._core.memory.storage import Storage
from oxinp._core.native import objects
from oxinp._core.native.apart import INDEX
from oxinp._core.native.function import NONE, VALUE
from oxinp._core.native.making import GRAPH, Making
from oxinp._core.native.objects import LIST_ITEMS, SIZE, TUPLE_ITEMS


def begin_pending(call: Making) -> None:
    """Let `r15` have the list, `rax` how many entries it has, and the stack that none has been looked at."""
    code = call.code
    code.set("r15", id(schedule.PENDING))
    code.load("rax", "r15", SIZE)
    code.store("rsp", INDEX, "rax")


def load_next_pending(call: Making, *, gone: str, computed: str) -> None:
    """Lay out ``next pending``: let `rbp` have the storage of the next entry, and `rdx` its value.

    Go to labels where it is gone, and where it has been computed; to ``are passed`` where there is none left.
    """
    code = call.code
    code.label("next pending")
    code.compare_number_with("rsp", INDEX, 0)
    code.jump("are passed", "e")
    code.decrement("rsp", INDEX)
    code.load("rcx", "rsp", INDEX)
    code.load("rdx", "r15", LIST_ITEMS)
    code.load_at("rdi", "rdx", "rcx", 8)
    code.call(objects.address("PyWeakref_GetObject"))
    code.set("rcx", NONE)
    code.compare("rax", "rcx")
    code.jump(gone, "e")
    code.move("rbp", "rax")
    call.unless_type("rbp", Storage, "undo")
    code.load("rdx", "rbp", VALUE)
    call.unless_type("rdx", tuple, computed)
    code.load("rsi", "rdx", TUPLE_ITEMS)
    code.load("rsi", "rsi", GRAPH["nodes"])
    code.compare_number_with("rsi", SIZE, 0)
    code.jump(computed, "e")


__all__ = ["begin_pending", "load_next_pending"]

"""What has been written over its own operands and is read where it has gone, in machine code: `writing.read_back`."""

from __future__ import annotations

import numpy as np

from oxinp._core.lazy import writing
from oxinp._core.lazy.chains import copy_structure
from oxinp._core.lazy.expr import Graph
from oxinp._core.memory.recent import MEETINGS
from oxinp._core.memory.storage import Storage
from oxinp._core.native import objects
from oxinp._core.native.apart import FOUND, HELD_BUFFER, INDEX, START
from oxinp._core.native.function import NONE, VALUE
from oxinp._core.native.given import call_given, give, require_returned
from oxinp._core.native.launching import ARGS, ENTRIES, LAYOUT_AT, SOURCE_AT
from oxinp._core.native.leaves import make_entry, store_of_dtype
from oxinp._core.native.making import GRAPH, GRID, LAYOUT, LEAVES, NEW, NEW_GRAPH, Making
from oxinp._core.native.objects import SIZE, TUPLE_ITEMS
from oxinp._core.native.places import load_small

_STRUCTURES = {
    dtype: copy_structure(dtype, dtype.num, dtype, dtype.num)
    for dtype in map(np.dtype, ("f8", "f4", "i8", "i4", "c16"))
}
_KEYS = {dtype: ("copy", dtype) for dtype in _STRUCTURES}
"""By which there is a graph that copies elements of a dtype as they are, see `chains.copying`."""
_SOURCE, _STRUCTURE = START, INDEX
"""Where on the stack there is what, in place of what has done its work."""


def read_back(call: Making) -> None:
    """Let the storage whose value was written read it, where it cannot be computed again; what is raised is raised.

    In `rbx` is the storage that has been written to. Nothing that was made before is needed any more.
    """
    code = call.code
    call.without_memory = "raised"
    code.compare_number_with("rsp", FOUND, 0)
    code.jump("is read back", "e")
    code.load("rbp", "rsp", ARGS)
    code.load("r14", "rbp", SOURCE_AT)
    code.load("r12", "rbp", LAYOUT_AT)
    code.set("rcx", NONE)
    code.compare("r14", "rcx")
    code.jump("is read back", "e")
    _load_structure(call)
    code.store("rsp", _SOURCE, "r14")
    call.drop_made()
    call.begin_made()
    _make_graph(call)
    code.label("has copying graph")
    _make_value(call)
    code.jump("is read back")
    code.label("has come often")
    _find_graph(call)
    code.jump("has copying graph")
    code.label("read back in Python")
    code.load("rbp", "rsp", ARGS)
    give(call, "r14", "rbx", ("rbp", LAYOUT_AT), ("r13", ENTRIES))
    call_given(call, writing.read_back, 4)
    require_returned(call)
    code.label("is read back")


def _load_structure(call: Making) -> None:
    """Let the stack have the structure of a copy, of the value of the storage in `r14`, unless that has come often."""
    code = call.code
    call.unless_type("r14", Storage, "read back in Python")
    code.load("rdx", "r14", VALUE)
    call.unless_type("rdx", tuple, "read back in Python")
    code.load("rdx", "rdx", TUPLE_ITEMS)
    call.unless_type("rdx", Graph, "read back in Python")
    code.load("rsi", "rdx", GRAPH["nodes"])
    code.compare_number_with("rsi", SIZE, 0)
    code.jump("read back in Python", "e")
    code.load("rsi", "rdx", GRAPH["met"])
    load_small(call, "rdi", "rsi", "read back in Python")
    code.compare_number("rdi", MEETINGS)
    code.jump("has come often", "ge")
    store_of_dtype(call, "r12", _STRUCTURES, _STRUCTURE, "read back in Python")


def _make_graph(call: Making) -> None:
    """Let the stack have the graph of its own that copies, see `chains.copy_of`; `r12` has the layout that is read."""
    code = call.code
    code.load("rbp", "rsp", ARGS)
    code.load("r12", "rbp", LAYOUT_AT)
    call.make_tuple(LEAVES, "r13", "r12")
    call.make(Graph, NEW_GRAPH, "rbp")
    code.load("rdi", "r14", VALUE)
    code.load("rdi", "rdi", TUPLE_ITEMS)
    code.load("rdi", "rdi", GRAPH["layout"])
    code.load("rsi", "rsp", _STRUCTURE)
    call.fill_graph("rbp", "rsi", "rdi", "r13")
    code.set("rax", id(True))
    code.store("rbp", GRAPH["is_copy"], "rax")  # in place of False, which is not counted


def _find_graph(call: Making) -> None:
    """Let the stack have the graph, which there is, that copies the layout in `r12`, as `chains.copying` has it."""
    code = call.code
    code.load("rbp", "r12", LAYOUT["read"])
    call.unless_type("rbp", Graph, "read back in Python")
    code.load("rbp", "rbp", GRAPH["programs"])
    call.unless_type("rbp", dict, "read back in Python")
    store_of_dtype(call, "r12", _KEYS, _STRUCTURE, "read back in Python")
    code.move("rdi", "rbp")
    code.load("rsi", "rsp", _STRUCTURE)
    code.call(objects.address("PyDict_GetItem"))
    code.compare_number("rax", 0)
    code.jump("read back in Python", "e")
    code.move("rbp", "rax")
    call.unless_type("rbp", Graph, "read back in Python")
    call.keep("rbp")
    code.store("rsp", _SOURCE, "r14")
    call.drop_made()
    call.begin_made()
    code.store("rsp", NEW_GRAPH, "rbp")
    code.load("rdx", "rsp", ARGS)
    code.load("r12", "rdx", LAYOUT_AT)


def _make_value(call: Making) -> None:
    """Let the storage have its new value."""
    code = call.code
    code.load("rbp", "rsp", HELD_BUFFER)
    code.load("r13", "r12", LAYOUT["offset"])
    code.set("rcx", id(0))
    code.compare("r13", "rcx")
    code.jump("is somewhere", "ne")
    code.move("r13", "rbp")
    code.jump("has entry")
    code.label("is somewhere")
    make_entry(call)
    code.label("has entry")
    call.make_tuple(GRID, "rdi", "r13")
    code.load("r14", "rbx", VALUE)
    call.make_tuple(NEW, "rbp", ("rsp", NEW_GRAPH), ("rsp", GRID), ("r14", TUPLE_ITEMS + 16))
    code.load("rdx", "rsp", _SOURCE)
    call.set_attribute("rdx", VALUE, "rbp")


__all__ = ["read_back"]

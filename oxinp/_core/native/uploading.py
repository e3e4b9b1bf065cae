"""Small arrays go to the device in machine code: what `handle.upload_first` and `BriefUploads.upload` do.

Whatever is not as usual is left to Python, which begins again.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from oxinp._config import Config, config
from oxinp._core.lazy.balance import balance
from oxinp._core.lazy.expr import leaf
from oxinp._core.lazy.handle import give_up
from oxinp._core.lazy.placement import note_uploaded, returned
from oxinp._core.memory.dtypes import DEVICE_TYPES
from oxinp._core.memory.layout import Layout
from oxinp._core.memory.storage import SIDES, Stale, Storage, next_mask
from oxinp._core.native import objects
from oxinp._core.native.driver_calls import call_driver
from oxinp._core.native.executing import allocate
from oxinp._core.native.function import NONE, STALE, STORED_HOST, VALUE
from oxinp._core.native.given import GIVEN, ROOM, call_given, give
from oxinp._core.native.leaves import BUFFER_PTR, load_number
from oxinp._core.native.locking import answered
from oxinp._core.native.loops import CONTIGUOUS, MEMMOVE
from oxinp._core.native.making import (
    COST,
    ENTRY,
    GIVEN_VALUE,
    GRID,
    KEPT,
    KEY,
    LAYOUT,
    LEAVES,
    NEW,
    NEW_GRAPH,
    NUMBER,
    PTR,
    RESULT,
    Making,
    offsets,
)
from oxinp._core.native.objects import ARRAY_DATA, ARRAY_FLAGS, SIZE, TUPLE_ITEMS
from oxinp._core.native.operand import load_layout_of, load_variable
from oxinp._core.native.places import load_small
from oxinp._runtime import here, select
from oxinp._runtime.brief_uploads import ALIGNMENT, MOST_NBYTES, BriefUploads
from oxinp._runtime.counters import Stats, stats

_STALE = offsets(Stale, Stale.__slots__)
_VERSION = offsets(Config, ("version",))["version"]
_UPLOADS = offsets(BriefUploads, ("_acquire", "_at", "_end", "_left", "_release", "_upload_async"))
_MOVED = offsets(Stats, ("h2d_bytes",))["h2d_bytes"]
_acquire, _release, _uploaded = SIDES.acquire, SIDES.release, balance.uploaded
_AT_ONCE = (False,)
_ALLOCATE, _UPLOAD, _UPLOAD_BRIEF, _COUNTED = "allocate", "upload", "upload_brief", "h2d_bytes"


def upload_first(kind: type, before: int | None) -> bytes:
    """Return the code of a call of `handle.upload_first`."""
    return answered(kind, before, 1, _first(kind))


def briefuploads_upload(kind: type, before: int | None) -> bytes:
    """Return the code of a call of `BriefUploads.upload`."""
    return answered(kind, before, 4, _brief(kind))


def _first(kind: type) -> int:
    """Return where the code lies that uploads a storage, given where the argument is; 0 if the system forbids that."""
    call = Making(kind, None, ROOM)
    code = call.code
    call.begin()
    call.begin_made()
    code.load("rbx", "rbx")
    _load_backend(call)
    _load_host(call)
    _make_value(call)
    _note(call)
    _upload(call)
    _finish(call)
    code.jump("give back")
    _raise_after(call, _give_up)
    code.label("let go")
    _release_sides(call)
    code.jump("undo")
    return call.end_made()


def _load_backend(call: Making) -> None:
    """Let `rbp` and the stack have the backend, where there is one stream and nobody watches."""
    code = call.code
    call.unless_reported("undo")
    _require_one_stream(call, "undo")
    load_variable(call, select, "_decided")
    code.set("rdx", id(config))
    code.load("rdx", "rdx", _VERSION)
    code.compare_with("rax", TUPLE_ITEMS, "rdx")
    code.jump("undo", "ne")
    code.load("rbp", "rax", TUPLE_ITEMS + 8)
    code.set("rcx", NONE)
    code.compare("rbp", "rcx")
    code.jump("undo", "e")
    call.keep_at(KEPT, "rbp")


def _require_one_stream(call: Making, label: str) -> None:
    """Go to a label where there are several."""
    load_variable(call, here, "are_several")
    call.code.set("rcx", id(False))
    call.code.compare("rax", "rcx")
    call.code.jump(label, "ne")


def _load_host(call: Making) -> None:
    """Let `r12` have what the storage in `rbx` has on the host, which is to be whole, and `r13` its layout."""
    code = call.code
    call.unless_type("rbx", Storage, "undo")
    code.load("r12", "rbx", STORED_HOST)
    call.unless_type("r12", np.ndarray, "undo")
    call.keep_at(GIVEN_VALUE, "r12")
    _require_new(call, "undo")
    call.require_elements("r12", [dtype.type for dtype in DEVICE_TYPES], "undo")
    load_layout_of(call, "r12", ENTRY, "r13")
    call.unless_type("r13", Layout, "undo")
    code.set("rcx", id(0))
    code.compare_with("r13", LAYOUT["nbytes"], "rcx")
    code.jump("undo", "e")


def _require_new(call: Making, label: str) -> None:
    """Go on where the storage in `rbx` is on the host alone, as `r12` has it, and nothing is known of a copy."""
    code = call.code
    code.compare_with("rbx", STORED_HOST, "r12")
    code.jump(label, "ne")
    code.test_with("r12", ARRAY_FLAGS, CONTIGUOUS)
    code.jump(label, "e")
    code.set("rcx", NONE)
    for at in (VALUE, STALE):
        code.compare_with("rbx", at, "rcx")
        code.jump(label, "ne")


def _make_value(call: Making) -> None:
    """Let the stack have the value that the storage is to have, of memory that is new, and what notes writes."""
    code, has_leaf, is_made = call.code, call.new_label(), call.new_label()
    code.load("rdx", "r13", LAYOUT["graph"])
    code.set("rcx", NONE)
    code.compare("rdx", "rcx")
    code.jump(has_leaf, "ne")
    give(call, "r13")
    call_given(call, leaf, 1)
    call.made(NEW_GRAPH, "rdx")
    code.jump(is_made)
    code.label(has_leaf)
    call.keep_at(NEW_GRAPH, "rdx")
    code.label(is_made)
    _load_attribute(call, _ALLOCATE, PTR)
    code.load("rdi", "rsp", PTR)
    code.load("rsi", "r13", LAYOUT["nbytes"])
    allocate(call, KEY)
    code.move("r14", "rax")
    call_given(call, next_mask, 0)
    call.made(LEAVES, "rax")
    call.make_tuple(GRID, "rdi", "r14")
    call.make_tuple(RESULT, "rdi", ("rsp", NEW_GRAPH), ("rsp", GRID), ("rsp", LEAVES))
    call.make(Stale, NEW, "r14")
    call.put_all("r14", _STALE, None, "buffer", "lines")
    call.put_all("r14", _STALE, 0, "high", "num_writes")
    call.put_all("r14", _STALE, True, "is_uploading")
    code.load("rdx", "r13", LAYOUT["nbytes"])
    call.put("r14", _STALE["low"], "rdx")
    _load_attribute(call, _UPLOAD_BRIEF, COST)


def _load_attribute(call: Making, name: str, place: int) -> None:
    """Let the stack have an attribute of the backend in `rbp`, in place of nothing."""
    code = call.code
    code.move("rdi", "rbp")
    code.set("rsi", id(name))
    code.call(objects.address("PyObject_GetAttr"))
    call.made(place, "rax")


def _note(call: Making) -> None:
    """Let the storage have what notes writes, in `r14`: from here on nobody writes to the host side without that."""
    code = call.code
    code.set("rdi", id(_acquire))
    code.set("rsi", id(_AT_ONCE))
    code.set("rdx", 0)
    code.call(objects.address("PyObject_Call"))
    code.set("rcx", id(True))
    code.compare("rax", "rcx")
    code.jump("undo", "ne")
    _require_new(call, "let go")
    _require_one_stream(call, "let go")
    call.set_attribute("rbx", STALE, "r14")
    _release_sides(call)


def _release_sides(call: Making) -> None:
    """Let others write to the host's side again."""
    call.code.set("rdi", id(_release))
    call.code.call(objects.address("PyObject_CallNoArgs"))  # returns None, which is not counted


def _upload(call: Making) -> None:
    """Upload the array in `r12`, and let placement know."""
    code, is_uploaded, is_known = call.code, call.new_label(), call.new_label()
    code.load("rdx", "rsp", KEY)
    give(call, ("rdx", BUFFER_PTR), "r12", ("r13", LAYOUT["nbytes"]))
    _call_held(call, COST, 3)
    code.set("rcx", id(True))
    code.compare("rax", "rcx")
    code.jump(is_uploaded, "e")
    code.move("rdi", "rbp")
    code.set("rsi", id(_UPLOAD))
    code.call(objects.address("PyObject_GetAttr"))
    code.compare_number("rax", 0)
    code.jump("failed", "e")
    code.load("r15", "rsp", COST)
    code.store("rsp", COST, "rax")
    call.drop("r15")
    code.load("rdx", "rsp", KEY)
    give(call, ("rdx", BUFFER_PTR), "r12")
    _call_held(call, COST, 2)
    code.label(is_uploaded)
    give(call, ("r13", LAYOUT["nbytes"]), ("r13", LAYOUT["nbytes"]))
    call_given(call, _uploaded, 2)
    code.compare_number("rax", 0)
    code.jump("failed", "e")
    code.set("rdx", id(returned))
    code.compare_number_with("rdx", SIZE, 0)
    code.jump(is_known, "e")
    give(call, "rbx")
    call_given(call, note_uploaded, 1)
    code.compare_number("rax", 0)
    code.jump("failed", "e")
    code.label(is_known)


def _call_held(call: Making, place: int, count: int) -> None:
    """Let `rax` have the constant, which nobody counts, that what the stack has returns for arguments there."""
    code = call.code
    code.load("rdi", "rsp", place)
    code.move("rsi", "rsp")
    code.add("rsi", GIVEN)
    code.set("rdx", count)
    code.set("rcx", 0)
    code.call(objects.address("PyObject_Vectorcall"))
    code.compare_number("rax", 0)
    code.jump("failed", "e")


def _finish(call: Making) -> None:
    """Let the storage have the value, if it has not been written to or pinned since, and `r14` have that to return."""
    code, is_another = call.code, call.new_label()
    code.set("rdi", id(_acquire))
    code.call(objects.address("PyObject_CallNoArgs"))
    code.compare_number("rax", 0)
    code.jump("failed", "e")
    code.compare_with("rbx", STALE, "r14")
    code.jump(is_another, "ne")
    for name, value in (("high", 0), ("lines", None)):
        code.set("rcx", id(value))
        code.compare_with("r14", _STALE[name], "rcx")
        code.jump("is outdated", "ne")
    code.load("rdx", "rsp", RESULT)
    call.set_attribute("rbx", VALUE, "rdx")
    code.label("is outdated")
    code.set("rdx", NONE)
    call.set_attribute("rbx", STALE, "rdx")
    code.label(is_another)
    _release_sides(call)
    code.load("r14", "rsp", RESULT)
    call.keep("r14")


def _give_up(call: Making) -> None:
    """Let the storage be as before."""
    give(call, "rbx", "r14")
    call_given(call, give_up, 2)  # returns None, which is not counted


def _raise_after(call: Making, tidy: Callable[[Making], None]) -> None:
    """Lay out ``failed``: what has been raised is raised once all is tidy."""
    code = call.code
    code.label("failed")
    call.take_error(NUMBER)
    tidy(call)
    call.raise_taken(NUMBER)
    code.jump("raised")


def _brief(kind: type) -> int:
    """Return where the code lies that queues a copy, given where the arguments are; 0 if the system forbids that."""
    call = Making(kind, None, ROOM)
    code = call.code
    call.begin()
    call.begin_made()
    code.load("r12", "rbx")
    call.unless_type("r12", BriefUploads, "undo")
    code.set("rcx", id(0))
    code.compare_with("r12", _UPLOADS["_left"], "rcx")
    code.jump("undo", "ne")
    code.set("rdx", id(stats))
    call.unless_type("rdx", Stats, "undo")  # else somebody is told of what is counted
    code.load("r13", "rbx", 16)
    call.unless_type("r13", np.ndarray, "undo")
    code.test_with("r13", ARRAY_FLAGS, CONTIGUOUS)
    code.jump("undo", "e")
    code.load("rsi", "rbx", 24)
    call.unless_type("rsi", int, "undo")
    load_small(call, "r14", "rsi", "undo")
    code.compare_number("r14", 0)
    code.jump("undo", "le")
    code.compare_number("r14", MOST_NBYTES)
    code.jump("undo", "g")
    code.load("rdi", "r12", _UPLOADS["_acquire"])
    code.set("rsi", id(_AT_ONCE))
    code.set("rdx", 0)
    code.call(objects.address("PyObject_Call"))
    code.set("rcx", id(True))
    code.compare("rax", "rcx")
    code.jump("undo", "ne")
    call.without_memory = "let go"
    _take(call)
    give(call, ("rbx", 8), ("rsp", KEY), ("rbx", 24), id(0))
    call_driver(call, "r12", _UPLOADS["_upload_async"], 4, "failed")
    _release_uploads(call)
    call.without_memory = "raised"
    code.set("r12", id(stats))
    code.load("rdi", "r12", _MOVED)
    code.load("rsi", "rbx", 24)
    code.call(objects.address("PyNumber_Add"))
    call.made(NEW, "rdx")
    code.set("rdi", id(stats))  # of another class by now, if somebody has begun to watch while the driver was called
    code.set("rsi", id(_COUNTED))
    code.call(objects.address("PyObject_SetAttr"))
    code.store("rsp", NUMBER, "rax")
    code.test_with("rsp", NUMBER, 1)
    code.jump("raised", "ne")
    code.set("r14", id(True))
    call.keep("r14")
    code.jump("give back")
    _raise_after(call, _release_uploads)
    code.label("let go")
    _release_uploads(call)
    code.jump("undo")
    return call.end_made()


def _take(call: Making) -> None:
    """Copy the array in `r13`, of `r14` bytes, to what is free of the part in use, if that is enough.

    The stack has where it lies then.
    """
    code = call.code
    load_number(call, "rbp", "r12", _UPLOADS["_at"], "let go")
    load_number(call, "rax", "r12", _UPLOADS["_end"], "let go")
    code.move("rdx", "rbp")
    code.add_register("rdx", "r14")
    code.compare("rdx", "rax")
    code.jump("let go", "g")
    code.load("rdx", "r12", _UPLOADS["_at"])
    call.keep_at(KEY, "rdx")
    code.move("rdi", "r14")
    code.add("rdi", ALIGNMENT - 1)
    code.and_number("rdi", -ALIGNMENT)
    code.add_register("rdi", "rbp")
    code.call(objects.address("PyLong_FromSsize_t"))
    call.made(PTR, "rdx")
    call.set_attribute("r12", _UPLOADS["_at"], "rdx")
    code.move("rdi", "rbp")
    code.load("rsi", "r13", ARRAY_DATA)
    code.move("rdx", "r14")
    code.call(MEMMOVE)


def _release_uploads(call: Making) -> None:
    """Let others upload what is small."""
    call.code.load("rdi", "r12", _UPLOADS["_release"])
    call.code.call(objects.address("PyObject_CallNoArgs"))  # returns None, which is not counted


__all__ = ["briefuploads_upload", "upload_first"]  # of which functions of Python's have the names

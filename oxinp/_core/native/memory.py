"""Memory of devices that is handed out again, in machine code.

That is what `Stock.allocate` does with what a list has, and what becomes of the block of a Buffer that is gone.
"""

from __future__ import annotations

from oxinp._core.native import objects
from oxinp._core.native.frame import Frame
from oxinp._core.native.making import KEPT, KEY, NEW, NUMBER, PTR, Making, offsets
from oxinp._core.native.objects import LIST_ITEMS, SIZE
from oxinp._runtime.memory import Block, Buffer
from oxinp._runtime.pool import Pool
from oxinp._runtime.stock import UNIT_BITS, Stock

_STOCK = offsets(Stock, ("by_request", "pool"))
_POOL = offsets(Pool, ("peak_nbytes", "used_nbytes"))
_BLOCK = offsets(Block, ("home", "nbytes", "pool", "ptr"))
_BUFFER = offsets(Buffer, ("_block", "nbytes", "ptr"))


def stock_allocate(kind: type, before: int | None) -> bytes:
    """Return the code of a call of `Stock.allocate`.

    Nothing that it calls before the block is taken runs other code, which might take it, too.
    """
    call = Making(kind, before)
    code = call.code
    call.begin_making(2)
    code.load("rbx", "rbp", 0)
    call.unless_type("rbx", Stock, "general")
    code.load("r12", "rbx", _STOCK["pool"])
    call.unless_type("r12", Pool, "general")
    code.load("rbp", "rbp", 8)
    call.unless_type("rbp", int, "general")
    _find_list(call)
    code.load("rdx", "r13", SIZE)
    code.compare_number("rdx", 0)
    code.jump("undo", "e")
    code.load("rsi", "r13", LIST_ITEMS)
    for _ in range(3):
        code.add_register("rdx", "rdx")
    code.add_register("rsi", "rdx")
    code.load("r14", "rsi", -8)
    call.unless_type("r14", Block, "undo")
    call.keep_at(KEPT, "r14")
    _make_used(call)
    code.load("rdx", "r13", SIZE)
    code.move("rdi", "r13")
    code.move("rsi", "rdx")
    code.add("rsi", -1)
    code.set("rcx", 0)
    code.call(objects.address("PyList_SetSlice"))
    code.store("rsp", NUMBER, "rax")
    code.test_with("rsp", NUMBER, 1)
    code.jump("undo", "ne")
    _count_used(call)
    call.make(Buffer, NEW, "r13")
    call.put("r13", _BUFFER["_block"], "r14")
    call.put("r13", _BUFFER["nbytes"], "rbp")
    code.load("rdx", "r14", _BLOCK["ptr"])
    call.put("r13", _BUFFER["ptr"], "rdx")
    call.end_making("r13")
    return code.assembled()


def _find_list(call: Making) -> None:
    """Let `r13` have the free list that serves so many bytes as `rbp` says."""
    code = call.code
    code.move("rdi", "rbp")
    code.call(objects.address("PyLong_AsSsize_t"))
    code.compare_number("rax", 0)
    code.jump("undo", "le")
    code.move("rdi", "rax")
    code.add("rdi", -1)
    for _ in range(UNIT_BITS):
        code.halve("rdi")
    code.call(objects.address("PyLong_FromSsize_t"))
    call.made(KEY, "rsi")
    code.load("rdi", "rbx", _STOCK["by_request"])
    code.call(objects.address("PyDict_GetItem"))
    code.compare_number("rax", 0)
    code.jump("undo", "e")
    code.move("r13", "rax")
    call.unless_type("r13", list, "undo")


def _make_used(call: Making) -> None:
    """Let the stack have how many bytes of the pool in `r12` are used, with those of the block in `r14`."""
    code = call.code
    code.load("rdi", "r12", _POOL["used_nbytes"])
    code.call(objects.address("PyLong_AsSsize_t"))
    code.store("rsp", NUMBER, "rax")
    code.load("rdi", "r14", _BLOCK["nbytes"])
    code.call(objects.address("PyLong_AsSsize_t"))
    code.move("rdi", "rax")
    code.add_from("rdi", "rsp", NUMBER)
    code.call(objects.address("PyLong_FromSsize_t"))
    call.made(PTR, "rbx")


def _count_used(call: Making) -> None:
    """Let the pool in `r12` have what the stack and `rbx` have, as the peak, too, if it is one."""
    code, is_less = call.code, call.new_label()
    call.set_attribute("r12", _POOL["used_nbytes"], "rbx")
    code.move("rdi", "rbx")
    code.call(objects.address("PyLong_AsSsize_t"))
    code.store("rsp", NUMBER, "rax")
    code.load("rdi", "r12", _POOL["peak_nbytes"])
    code.call(objects.address("PyLong_AsSsize_t"))
    code.compare_with("rsp", NUMBER, "rax")
    code.jump(is_less, "le")
    call.set_attribute("r12", _POOL["peak_nbytes"], "rbx")
    code.label(is_less)


def finalize(kind: type, before: int) -> bytes:
    """Return the code of what is done when there is no reference to a Buffer any more, as `Buffer.__del__` has it.

    What the garbage collector finalises, which others refer to still, is left to that, and so is everything while
    something has been raised.
    """
    function = Frame(kind, before)
    code = function.code
    function.begin()
    code.load_int("rax", "rbx")
    code.compare_number("rax", 1)
    code.jump("general", "ne")
    code.call(objects.address("PyErr_Occurred"))
    code.compare_number("rax", 0)
    code.jump("general", "ne")
    for target, holder, at, of in (
        ("r12", "rbx", _BUFFER["_block"], Block),
        ("r13", "r12", _BLOCK["pool"], Pool),
        ("r14", "r12", _BLOCK["home"], list),
        ("rbp", "r12", _BLOCK["nbytes"], int),
        ("r15", "r13", _POOL["used_nbytes"], int),
    ):
        code.load(target, holder, at)
        code.compare_number(target, 0)
        code.jump("general", "e")
        function.unless_type(target, of, "general")
    function.call("PyLong_AsSsize_t", "rbp")
    code.compare_number("rax", 0)
    code.jump("not a size", "l")
    code.move("rbp", "rax")
    function.call("PyLong_AsSsize_t", "r15")
    code.compare("rax", "rbp")
    code.jump("not a size", "l")
    code.negate("rbp")
    code.add_register("rbp", "rax")
    function.call("PyLong_FromSsize_t", "rbp")
    code.compare_number("rax", 0)
    code.jump("not a size", "e")
    code.store("r13", _POOL["used_nbytes"], "rax")  # before the block can be found, so that the peak is never too high
    function.drop("r15")
    function.call("PyList_Append", "r14", "r12")
    code.call(objects.address("PyErr_Clear"))  # there was no memory for the list, which goes without the block
    code.jump("return")
    code.label("not a size")
    code.call(objects.address("PyErr_Clear"))
    code.jump("general")
    function.end()
    return code.assembled()


__all__ = ["stock_allocate"]  # of which functions of Python's have the names

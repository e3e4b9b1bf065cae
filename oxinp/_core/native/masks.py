"""Elements that a mask chooses, of arrays on the host: read and written in machine code, in place of NumPy.

NumPy branches on each element of a mask, which is mispredicted where masks follow no pattern. Here the indices of the
elements that a mask chooses are found first, a block of them at a time and without a branch for each; then these are
moved. Other elements are not written to: other threads may be at work on them.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from oxinp._core.native import loops
from oxinp._core.native.function import Function
from oxinp._core.native.objects import (
    ARRAY_DATA,
    ARRAY_DTYPE,
    ARRAY_FLAGS,
    ARRAY_NDIM,
    ARRAY_SHAPE,
    DTYPE_ITEMSIZE,
    TYPE,
)

_BLOCK = 256
_NUMBERS_NBYTES = 4 * _BLOCK
_LIKE_THEM = loops.rows(np.maximum)
"""Of each type of elements that are moved: what computes others of the same dtype."""
WORD = 8
_SIZES = (1, 2, 4, WORD, 2 * WORD)
_LONG, _ELEMENTS_PER_CHANGE = 512, 10
"""Elements from which on a mask is looked at, and for each change from what is chosen to what is not, or back, as many
as NumPy goes over in the time that it takes for the change."""
_SAMPLED = 8
_EACH_BYTE = 0x0101010101010101
_COUNT = 16
"""Where on the stack there is how many elements are chosen."""


def require_flags(function: Function, array: str, flags: int, label: str) -> None:
    """Go to a label unless an array of NumPy's has some flags."""
    code = function.code
    code.load_int("rax", array, ARRAY_FLAGS)
    code.and_number("rax", flags)
    code.compare_number("rax", flags)
    code.jump(label, "ne")


def require_shape(function: Function, array: str, label: str) -> None:
    """Go to a label unless an array of NumPy's has the shape of that in `r12`."""
    code, again, done = function.code, function.new_label(), function.new_label()
    code.load_int("rcx", "r12", ARRAY_NDIM)
    code.load_int("rdx", array, ARRAY_NDIM)
    code.compare("rcx", "rdx")
    code.jump(label, "ne")
    code.load("rsi", "r12", ARRAY_SHAPE)
    code.load("rdi", array, ARRAY_SHAPE)
    code.label(again)
    code.compare_number("rcx", 0)
    code.jump(done, "e")
    code.load("rax", "rsi")
    code.compare_with("rdi", 0, "rax")
    code.jump(label, "ne")
    for each in ("rsi", "rdi"):
        code.add(each, 8)
    code.add("rcx", -1)
    code.jump(again)
    code.label(done)


def _require_mask(function: Function, mask: str, label: str) -> None:
    """Go to a label unless one array of NumPy's is a mask of another one, in `r12`, and both lie in order."""
    function.require_elements(mask, (np.bool_,), label)
    require_flags(function, mask, loops.CONTIGUOUS, label)
    require_flags(function, "r12", loops.CONTIGUOUS | loops.ALIGNED, label)
    require_shape(function, mask, label)
    function.code.load("rsi", mask, ARRAY_DATA)
    _require_scattered(function, mask, label)


def _require_scattered(function: Function, mask: str, label: str) -> None:
    """Go to a label where a long mask, at `rsi`, changes so seldom that NumPy's branches are predicted well."""
    code, again, told, done = function.code, *(function.new_label() for _ in range(3))
    function.multiply_extents(mask)
    code.compare_number("rax", _LONG)
    code.jump(done, "l")
    code.move("rdx", "rax")
    code.add("rdx", -WORD)
    for register, number in (("r8", 0), ("r9", 0), ("r10", _EACH_BYTE), ("r11", _EACH_BYTE >> WORD)):
        code.set(register, number)
    code.label(again)  # in a word of a few, a byte for each of seven elements: whether the next one is another
    code.compare("r8", "rdx")
    code.jump(told, "g")
    code.move("rcx", "rsi")
    code.add_register("rcx", "r8")
    code.load("rax", "rcx")
    code.move("rcx", "rax")
    code.shift_right("rcx", WORD)
    code.exclude_register("rax", "rcx")
    code.and_register("rax", "r11")
    code.multiply_by("rax", "r10")
    code.shift_right("rax", 7 * WORD)
    code.add_register("r9", "rax")
    code.add("r8", _SAMPLED * WORD)
    code.jump(again)
    code.label(told)
    code.set("rax", _SAMPLED * _ELEMENTS_PER_CHANGE)
    code.multiply_by("r9", "rax")
    code.compare("r9", "rdx")
    code.jump(label, "l")
    code.label(done)


def _count(function: Function, mask: str) -> None:
    """Let `rax` have how many elements a mask chooses, `rsi` where it lies and `rdx` how many it has."""
    code, again, done = function.code, function.new_label(), function.new_label()
    function.multiply_extents(mask)
    code.move("rdx", "rax")
    code.load("rsi", mask, ARRAY_DATA)
    code.set("rax", 0)
    code.set("r8", 0)
    code.label(again)
    code.compare("r8", "rdx")
    code.jump(done, "ge")
    code.compare_byte_at("rsi", "r8", 1)
    code.count_unless_below("rax")
    code.add("r8", 1)
    code.jump(again)
    code.label(done)


def _for_each(function: Function, visit: Callable[[], None], nbytes: int) -> None:
    """Do something with the index, in `rax`, of each element that the mask at `rsi` of `rdx` elements chooses.

    `r9` counts them; `rdi`, `rcx` and `r15` are left to that. Indices and counts are of words where elements have 16
    bytes.
    """
    code = function.code
    block, is_whole, again, chosen, next_block, done = (function.new_label() for _ in range(6))
    code.add("rsp", -_NUMBERS_NBYTES)
    code.set("r8", 0)
    code.set("r9", 0)
    code.label(block)
    code.compare("r8", "rdx")
    code.jump(done, "ge")
    code.move("r10", "r8")
    code.add("r10", _BLOCK)
    code.compare("r10", "rdx")
    code.jump(is_whole, "le")
    code.move("r10", "rdx")
    code.label(is_whole)
    code.set("r11", 0)
    code.label(again)
    code.store_at("rsp", "r11", "r8", 4)
    code.compare_byte_at("rsi", "r8", 1)
    code.count_unless_below("r11")
    code.add("r8", 1)
    code.compare("r8", "r10")
    code.jump(again, "ne")
    code.set("r10", 0)
    code.label(chosen)
    code.compare("r10", "r11")
    code.jump(next_block, "ge")
    code.load_at("rax", "rsp", "r10", 4)
    if nbytes > WORD:
        code.add_register("rax", "rax")
    visit()
    code.add("r9", max(1, nbytes // WORD))
    code.add("r10", 1)
    code.jump(chosen)
    code.label(next_block)
    code.jump(block)
    code.label(done)
    code.add("rsp", _NUMBERS_NBYTES)


def _move(function: Function, end: str, *, is_read: bool) -> None:
    """Move elements as large as those of the array in `r12`, and go to a label.

    What the mask at `rsi`, of `rdx` elements, chooses of `rdi` is where those at `rcx` go to, which lie side by side;
    or it comes from `rcx` to `rdi` where it `is_read`.
    """
    code = function.code
    code.load("rax", "r12", ARRAY_DTYPE)
    for nbytes in _SIZES:
        another = function.new_label()
        code.compare_number_with("rax", DTYPE_ITEMSIZE, nbytes)
        code.jump(another, "ne")
        source, target = ("rax", "r9") if is_read else ("r9", "rax")

        def visit(nbytes: int = nbytes, source: str = source, target: str = target) -> None:
            for place in range(0, nbytes, WORD):
                code.load_at("r15", "rcx", source, min(nbytes, WORD), place)
                code.store_at("rdi", target, "r15", min(nbytes, WORD), place)

        _for_each(function, visit, nbytes)
        code.jump(end)
        code.label(another)
    code.jump(end)


def _require_apart(function: Function, start: str, nbytes: str, label: str) -> None:
    """Go to a label where bytes may be those of the elements of the array in `r12`; `rdi`, `rax` and `r8` change."""
    code, is_apart = function.code, function.new_label()
    code.load("rdi", "r12", ARRAY_DATA)
    code.move("rax", start)
    code.add_register("rax", nbytes)
    code.compare("rax", "rdi")
    code.jump(is_apart, "be")
    code.load("r8", "r12", ARRAY_DTYPE)
    code.load("rax", "r8", DTYPE_ITEMSIZE)
    code.multiply_by("rax", "rdx")
    code.add_register("rax", "rdi")
    code.compare("rax", start)
    code.jump(label, "a")
    code.label(is_apart)


def read(function: Function, label: str) -> None:
    """Let `r13` have a new array of what a mask, in `r14`, chooses of that in `r12`; go to a label for other keys."""
    code, done = function.code, function.new_label()
    if not loops.ARE_KNOWN:
        code.jump(label)
    _require_mask(function, "r14", label)
    code.set("r15", loops.address_of(_LIKE_THEM))
    loops.find_row(function, "r12", label)
    _count(function, "r14")
    code.store("rsp", _COUNT, "rax")
    code.set("rdx", 1)
    code.move("rcx", "rsp")
    code.add("rcx", _COUNT)
    loops.make_array(function)
    function.multiply_extents("r14")
    code.move("rdx", "rax")
    code.load("rdi", "r13", ARRAY_DATA)
    code.load("rsi", "r14", ARRAY_DATA)
    code.load("rcx", "r12", ARRAY_DATA)
    _move(function, done, is_read=True)
    code.label(done)


def write(function: Function, label: str) -> None:
    """Write a number, or the elements of a vector, in `r14`, where a mask in `rbp` is true to the array in `r12`.

    Then return; go to a label for other keys and values. Room on the stack is that of loops.
    """
    code, is_array, written = function.code, function.new_label(), function.new_label()
    if not loops.ARE_KNOWN:
        code.jump(label)
    code.test_with("r12", ARRAY_FLAGS, loops.WRITEABLE)
    code.jump(label, "e")
    _require_mask(function, "rbp", label)
    code.set("rax", id(np.ndarray))
    code.compare_with("r14", TYPE, "rax")
    code.jump(is_array, "e")
    code.set("r15", loops.address_of(_LIKE_THEM))
    loops.find_row(function, "r12", label)
    loops.place_number(function, 0, "r14", label)
    function.multiply_extents("rbp")
    code.move("rdx", "rax")
    code.load("rsi", "rbp", ARRAY_DATA)
    _require_apart(function, "rsi", "rdx", label)
    code.load("r8", "rsp", loops.POINTERS)
    code.load("rax", "r12", ARRAY_DTYPE)
    for nbytes in _SIZES:
        another = function.new_label()
        code.compare_number_with("rax", DTYPE_ITEMSIZE, nbytes)
        code.jump(another, "ne")
        code.load("rcx", "r8")  # of a number that is shorter, too, there are 8 bytes
        if nbytes > WORD:
            code.load("r15", "r8", 8)

        def visit(nbytes: int = nbytes) -> None:
            for place, half in zip(range(0, nbytes, WORD), ("rcx", "r15"), strict=False):
                code.store_at("rdi", "rax", half, min(nbytes, WORD), place)

        _for_each(function, visit, nbytes)
        code.jump(written)
        code.label(another)
    code.jump(label)
    code.label(is_array)
    function.require_elements("r12", loops.TYPES, label)
    code.load("rax", "r12", ARRAY_DTYPE)
    code.compare_with("r14", ARRAY_DTYPE, "rax")
    code.jump(label, "ne")
    code.load_int("rax", "r14", ARRAY_NDIM)
    code.compare_number("rax", 1)
    code.jump(label, "ne")
    code.load_int("rax", "r14", ARRAY_FLAGS)
    code.and_number("rax", loops.CONTIGUOUS | loops.ALIGNED)
    code.compare_number("rax", loops.CONTIGUOUS | loops.ALIGNED)
    code.jump(label, "ne")
    _count(function, "rbp")
    code.load("r8", "r14", ARRAY_SHAPE)
    code.compare_with("r8", 0, "rax")
    code.jump(label, "ne")
    code.load("r8", "r12", ARRAY_DTYPE)
    code.load("rcx", "r8", DTYPE_ITEMSIZE)
    code.multiply_by("rcx", "rax")
    code.load("r9", "r14", ARRAY_DATA)
    _require_apart(function, "r9", "rcx", label)
    _require_apart(function, "rsi", "rdx", label)
    code.move("rcx", "r9")
    _move(function, written, is_read=False)
    code.label(written)
    code.set("rax", 0)
    code.jump("return")


__all__ = ["read", "require_flags", "require_shape", "write"]

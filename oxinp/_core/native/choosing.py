"""Elements of one of two arrays, as a mask says, of what is on the host: in machine code, in place of NumPy.

NumPy branches on each element of a mask, which is mispredicted where masks follow no pattern. Here both elements are
read, and one of them is written.
"""

from __future__ import annotations

import numpy as np

from oxinp._core.native import loops
from oxinp._core.native.function import Function
from oxinp._core.native.masks import require_flags, require_shape
from oxinp._core.native.objects import ARRAY_DATA, ARRAY_DTYPE, ARRAY_NDIM, ARRAY_SHAPE

_LIKE_THEM = loops.rows(np.maximum)
"""Of each type of elements: what computes others of the same dtype."""
_SIZES = (8, 1, 4, 2)
_UNROLLED = 4
ROOM = loops.STACK
"""Bytes of the stack that this needs."""


def choose(function: Function, label: str) -> None:
    """Let `r13` have a new array of the elements of that in `r14` where the mask in `r12` is true, else of `r15`.

    One of these may be a number. Go to a label, with `r12` and `r14` as they were, unless the arrays are as long as the
    mask and all lie in order; see `ROOM`.
    """
    code, done = function.code, function.new_label()
    if not loops.ARE_KNOWN:
        code.jump(label)
        return
    code.move("rbx", "r15")
    function.require_elements("r12", (np.bool_,), label)
    require_flags(function, "r12", loops.CONTIGUOUS, label)
    function.multiply_extents("r12")
    code.add("rax", -1)
    code.compare_number("rax", loops.MOST)
    code.jump(label, "ae")  # of no elements, too
    is_number, is_other_number = function.new_label(), function.new_label()
    function.unless_type("r14", np.ndarray, is_number)
    function.unless_type("rbx", np.ndarray, is_other_number)
    code.load("rax", "r14", ARRAY_DTYPE)
    code.compare_with("rbx", ARRAY_DTYPE, "rax")
    code.jump(label, "ne")
    for arrays, begin in ((("r14", "rbx"), None), (("r14", None), is_other_number), ((None, "rbx"), is_number)):
        if begin is not None:
            code.label(begin)
        _choose_of(function, arrays, label, done)
    code.label(done)


def _choose_of(function: Function, arrays: tuple[str | None, str | None], label: str, done: str) -> None:
    """Do what `choose` does of two arrays, or of one and the number that is in the other one's register."""
    code = function.code
    held = [each for each in arrays if each is not None]
    if len(held) == 1:
        function.unless_type(held[0], np.ndarray, label)
    for each in held:
        require_flags(function, each, loops.CONTIGUOUS | loops.ALIGNED, label)
        require_shape(function, each, label)
    code.set("r15", loops.address_of(_LIKE_THEM))
    loops.find_row(function, held[0], label)
    code.compare_number_with("r15", loops.INPUT_NBYTES, max(_SIZES))
    code.jump(label, "g")
    for place, number in enumerate(("r14", "rbx")):
        if arrays[place] is None:
            loops.unless_weak(function, number, label)
            loops.place_number(function, place, number, label)
    code.load_int("rdx", "r12", ARRAY_NDIM)
    code.load("rcx", "r12", ARRAY_SHAPE)
    loops.make_array(function)
    function.multiply_extents("r12")
    code.move("rdx", "rax")
    code.load("rdi", "r13", ARRAY_DATA)
    code.load("rsi", "r12", ARRAY_DATA)
    for place, (array, register) in enumerate(zip(arrays, ("r9", "r10"), strict=True)):
        if array is not None:
            code.load(register, array, ARRAY_DATA)
        else:  # of a number that is shorter, too, there are 8 bytes
            code.load(register, "rsp", loops.POINTERS + 8 * place)
            code.load(register, register)
    for nbytes in _SIZES:
        another = function.new_label()
        code.compare_number_with("r15", loops.INPUT_NBYTES, nbytes)
        code.jump(another, "ne")
        _go_over(function, nbytes, arrays[0] is not None, arrays[1] is not None)
        code.jump(done)
        code.label(another)


def _go_over(function: Function, nbytes: int, is_array: bool, is_other_array: bool) -> None:
    """Write `rdx` elements to `rdi`: those at `r9` where the mask at `rsi` is true, else those at `r10`.

    What is no array is an element, in the register itself.
    """
    code, again, rest, done = function.code, *(function.new_label() for _ in range(3))

    def choose_one(place: int) -> None:
        if is_array:
            code.load_at("rax", "r9", "r8", nbytes, place * nbytes)
        else:
            code.move("rax", "r9")
        if is_other_array:
            code.load_at("rcx", "r10", "r8", nbytes, place * nbytes)
        code.compare_byte_at("rsi", "r8", 1, place)
        code.move_if_below("rax", "rcx" if is_other_array else "r10")
        code.store_at("rdi", "r8", "rax", nbytes, place * nbytes)

    code.set("r8", 0)
    code.move("r11", "rdx")
    code.add("r11", 1 - _UNROLLED)
    code.label(again)
    code.compare("r8", "r11")
    code.jump(rest, "ge")
    for place in range(_UNROLLED):
        choose_one(place)
    code.add("r8", _UNROLLED)
    code.jump(again)
    code.label(rest)
    code.compare("r8", "rdx")
    code.jump(done, "ge")
    choose_one(0)
    code.add("r8", 1)
    code.jump(rest)
    code.label(done)


__all__ = ["ROOM", "choose"]

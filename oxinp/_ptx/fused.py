"""Fused multiply-adds of f64 by the processor's own instruction, which NumPy has no function for.

Where there is none (on other processors and systems than x86-64 under Linux) `oxinp._ptx.reference` computes them from
sums and products, which takes four times as long.
"""

from __future__ import annotations

import ctypes
import functools
import mmap
import os
import sys
from typing import Any, TypeAlias

import numpy as np

from oxinp._ptx.truths import any_of

Array: TypeAlias = Any

_DATA = 16  # where an array, as an object, has the address of its elements
# void f(result, a, b, c, ssize_t n) of arrays as objects. These are replaced by where their elements lie: mov rdi,
# [rdi + 16], and rsi, rdx and rcx alike. test r8, r8; je the end; xor eax, eax; then for each element vmovsd xmm0,
# [rsi + rax * 8]; vmovsd xmm1, [rdx + rax * 8]; vfmadd213sd xmm0, xmm1, [rcx + rax * 8]; vmovsd [rdi + rax * 8],
# xmm0; inc rax; cmp rax, r8; jb the next element. ret.
_CODE = bytes.fromhex(
    "488b7f10 488b7610 488b5210 488b4910 4d85c0 741f 31c0"
    "c5fb1004c6 c5fb100cc2 c4e2f1a904c1 c5fb1104c7 48ffc0 4c39c0 72e3 c3"
)


def multiply_add(a: Array, b: Array, c: Array) -> Array | None:
    """``a * b + c`` with one rounding, of arrays of f64; None where it is not computed here.

    That is where there is no such instruction, and where a NaN comes out: which one is for NumPy to say.
    """
    run = _function()
    if run is None:
        return None
    result = a * b + c
    if type(result) is not np.ndarray or not result.flags.c_contiguous or any_of(np.isnan(result)):
        return None
    shape = result.shape
    operands = (x if x.shape == shape and x.flags.c_contiguous else np.full(shape, x) for x in (a, b, c))
    run(result, *operands, result.size)
    return result


@functools.cache
def _function() -> Any:
    """Return the code as a function; None where it cannot be run."""
    array = np.zeros(1)
    is_known = sys.platform == "linux" and os.uname().machine == "x86_64"
    if not is_known or ctypes.c_void_p.from_address(id(array) + _DATA).value != array.ctypes.data:
        return None
    try:
        with open("/proc/cpuinfo", encoding="ascii", errors="replace") as lines:  # noqa: PTH123 - NumPy has no pathlib
            has_instruction = " fma " in lines.read()
        pages = mmap.mmap(-1, mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except (OSError, ValueError):
        return None
    pages.write(_CODE)
    first = ctypes.addressof(ctypes.c_char.from_buffer(pages))
    protect = ctypes.CDLL(None).mprotect
    protect.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    if not has_instruction or protect(first, len(pages), mmap.PROT_READ | mmap.PROT_EXEC):
        return None
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(pages))  # other threads may be in it at the very end
    return ctypes.PYFUNCTYPE(None, *[ctypes.py_object] * 4, ctypes.c_ssize_t)(first)


__all__ = ["multiply_add"]

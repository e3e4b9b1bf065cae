"""Memory that code is executed in: it is no longer written to by then."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Sequence
from itertools import accumulate

_ALIGNMENT = 64
_next = 0
"""Where in its first page the next code begins: where the last has ended, for in the processor's caches there is little
room for what lies at the same places of many pages."""


def mapped(parts: Sequence[bytes]) -> list[int] | None:
    """Return where parts of code may be executed, for good; None if the system forbids that."""
    global _next
    code = bytes(_next) + b"".join(part + bytes(-len(part) % _ALIGNMENT) for part in parts)
    try:
        pages = mmap.mmap(-1, len(code) or 1, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except (OSError, ValueError):
        return None
    pages.write(code)
    first = ctypes.addressof(ctypes.c_char.from_buffer(pages))
    protect = ctypes.CDLL(None).mprotect
    protect.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    if protect(first, len(pages), mmap.PROT_READ | mmap.PROT_EXEC):
        return None
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(pages))  # other threads may be in it at the very end
    places = list(accumulate((len(part) + -len(part) % _ALIGNMENT for part in parts), initial=first + _next))
    _next = len(code) % mmap.PAGESIZE
    return places[:-1]


__all__ = ["mapped"]

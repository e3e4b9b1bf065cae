"""Memory that code is executed in: it is no longer written to by then."""

from __future__ import annotations

import ctypes
import mmap

_next = 0
"""Where in its pages the next code begins: where the one before has ended, for in processors' caches, what lies at the
same places of all pages drives each other out."""


def mapped(code: bytes) -> int | None:
    """Return where code may be executed, for good; None if the system forbids that."""
    global _next
    first = _next
    try:
        pages = mmap.mmap(-1, first + len(code), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except (OSError, ValueError):
        return None
    pages.seek(first)
    pages.write(code)
    address = ctypes.addressof(ctypes.c_char.from_buffer(pages))
    protect = ctypes.CDLL(None).mprotect
    protect.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    if protect(address, first + len(code), mmap.PROT_READ | mmap.PROT_EXEC):
        return None
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(pages))  # other threads may be in it at the very end
    _next = -(-(first + len(code)) // _ALIGNMENT) * _ALIGNMENT % mmap.PAGESIZE
    return address + first


_ALIGNMENT = 64

__all__ = ["mapped"]

"""The host's heap: memory that is freed stays with the process, up to a setting, and is used again.

What an expression of NumPy's makes on its way is freed at once. glibc gives blocks of 128 KB or more back to the
system, which hands out new pages for the next ones and clears them: that takes several times as long as adding two
arrays of some hundred kilobytes. It learns to keep them, up to 32 MB, but no longer once a limit has been set. A
program that has asked for limits of its own, by the environment variables of glibc, keeps them.
"""

from __future__ import annotations

import ctypes
import os
import sys
from functools import cache
from typing import Any

from oxinp._config import before_change, config

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # glibc's numbers for `mallopt`
_MOST_MMAP = 32 << 20
"""Bytes of the largest blocks that glibc lets lie in its heap, as it does by itself once such ones have been freed."""
_USUAL = 128 << 10
_MOST = 2**31 - 1
_OWN = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TOP_PAD_", "MALLOC_ARENA_TEST", "GLIBC_TUNABLES")


@cache
def _mallopt() -> Any:
    """Return what sets limits of glibc's heap; None elsewhere, and where somebody else has set them."""
    if not sys.platform.startswith("linux") or any(name in os.environ for name in _OWN):
        return None
    library = ctypes.CDLL(None)
    if not hasattr(library, "gnu_get_libc_version"):
        return None
    found = library.mallopt
    found.argtypes, found.restype = (ctypes.c_int, ctypes.c_int), ctypes.c_int
    return found


def _keep(nbytes: int) -> None:
    """Let so many bytes that are freed stay with the process."""
    change = _mallopt()
    if change is not None:
        change(_MMAP_THRESHOLD, min(max(nbytes, _USUAL), _MOST_MMAP))
        change(_TRIM_THRESHOLD, min(max(nbytes, _USUAL), _MOST))


def follow_setting() -> None:
    """Let the heap follow the setting `host_memory_kept` from now on."""
    before_change.setdefault("host_memory_kept", []).append(_keep)
    if config.host_memory_kept:
        _keep(config.host_memory_kept)


__all__ = ["follow_setting"]

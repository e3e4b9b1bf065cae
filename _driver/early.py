"""An early start: the driver takes a tenth of a second to wake up, in which a program may do its imports."""

from __future__ import annotations

import contextlib
import ctypes
import sys
from threading import Thread

__all__ = ["FILE_NAMES", "start"]

FILE_NAMES = {
    "linux": ("libcuda.so.1", "libcuda.so", "/usr/lib/wsl/lib/libcuda.so.1"),
    "win32": ("nvcuda.dll",),
}
"""What the library is called, by `sys.platform`, in the order tried."""


def start() -> bool:
    """Let the driver initialise itself in a thread of its own; False where there is none.

    What becomes of it is for `driver.start` to say, which asks again and waits where it has to.
    """
    for name in FILE_NAMES.get(sys.platform, ()):
        with contextlib.suppress(OSError, AttributeError):
            Thread(target=ctypes.CDLL(name).cuInit, args=(0,), name="cuInit", daemon=True).start()
            return True
    return False

"""An early start: the driver takes tenths of a second to wake up, in which a program may do its imports."""

from __future__ import annotations

import contextlib
import ctypes
import sys
from threading import Thread
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["FILE_NAMES", "start"]

FILE_NAMES = {
    "linux": ("libcuda.so.1", "libcuda.so", "/usr/lib/wsl/lib/libcuda.so.1"),
    "win32": ("nvcuda.dll",),
}
"""What the library is called, by `sys.platform`, in the order tried."""

_CC_MAJOR_ATTRIBUTE = 75


def start(minimum_major: int) -> Callable[[], None] | None:
    """Let the driver start, in a thread of its own, and make the first device's primary context.

    Parameters
    ----------
    minimum_major : int
        Compute capability that the device must have, or it is left alone.

    Returns
    -------
    Callable or None
        Waits for that and lets go of the context: for those to call who have retained it themselves, or do not want it.
        None where there is no driver. What has gone wrong is for `driver.start` to say, which asks again.
    """
    for name in FILE_NAMES.get(sys.platform, ()):
        with contextlib.suppress(OSError):
            return _Start(name, minimum_major).finish
    return None


class _Start:
    def __init__(self, name: str, minimum_major: int) -> None:
        self._library = ctypes.CDLL(name)
        # Calls that return at once keep the interpreter: from a thread that imports it is had back after 5 ms only.
        self._at_once = ctypes.PyDLL(name)
        self._minimum_major = minimum_major
        self._device = ctypes.c_int()
        self._has_context = False
        self._thread = Thread(target=self._run, name="CUDA start", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        library, at_once, major, context = self._library, self._at_once, ctypes.c_int(), ctypes.c_void_p()
        self._has_context = not (
            library.cuInit(0)
            or at_once.cuDeviceGet(ctypes.byref(self._device), 0)
            or at_once.cuDeviceGetAttribute(ctypes.byref(major), _CC_MAJOR_ATTRIBUTE, self._device)
            or major.value < self._minimum_major
            or library.cuDevicePrimaryCtxRetain(ctypes.byref(context), self._device)
        )

    def finish(self) -> None:
        self._thread.join()
        if self._has_context:
            self._library.cuDevicePrimaryCtxRelease_v2(self._device)

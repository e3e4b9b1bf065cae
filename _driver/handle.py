"""What streams, events, modules and contexts have in common: a driver object that lives as long as the Python one."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING, ClassVar

from _driver import errors

if TYPE_CHECKING:
    from collections.abc import Callable

    from _driver.driver import Driver

__all__ = ["Handle"]


class Handle:
    """A driver object, destroyed with the last reference to this one or by `close`.

    Attributes
    ----------
    handle : int
        What the driver calls it; 0 after `close`.
    driver : Driver
        Functions that work in the object's context, from any thread.
    """

    __slots__ = ("__weakref__", "driver", "handle")

    destroyer: ClassVar[str]
    """The driver function that takes the handle back."""

    def __init__(self, driver: Driver, handle: int) -> None:
        self.driver = driver
        self.handle = handle

    def close(self) -> None:
        """Destroy the driver object; once is enough, more does nothing."""
        handle, self.handle = self.handle, 0
        if handle:
            self._destroy(handle)

    def _destroy(self, handle: int) -> None:
        getattr(self.driver, self.destroyer)(handle)

    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        # At exit the driver takes everything back by itself; `sys` may be gone by then, so its function came along.
        # Otherwise nobody is there to hear of a failure, and there is one whenever the context is already lost.
        if getattr(self, "handle", 0) and not is_finalizing():
            with contextlib.suppress(errors.CudaError):
                self.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.handle:#x}>"

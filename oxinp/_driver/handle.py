"""What streams, events, modules and contexts have in common: a driver object that lives as long as the Python one."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING, ClassVar

from oxinp._driver import errors

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

    from oxinp._driver.driver import Driver

__all__ = ["Handle", "watchers"]

watchers: list[Callable[[Handle], object]] = []
"""Called with each driver object as it is made: `debug` finds leaks by it."""


class Handle:
    """A driver object, destroyed with the last reference to this one, by `close`, or at the end of a `with` block.

    Attributes
    ----------
    handle : int
        What the driver calls it.
    driver : Driver
        Functions that work in the object's context, from any thread.

    Raises
    ------
    InvalidHandle
        From every use after `close`.
    """

    __slots__ = ("__weakref__", "_handle", "driver")

    destroyer: ClassVar[str]
    """The driver function that takes the handle back."""

    def __init__(self, driver: Driver, handle: int) -> None:
        self.driver = driver
        self._handle: int | None = handle
        for watch in watchers:
            watch(self)

    @property
    def handle(self) -> int:
        """The driver's handle of the object."""
        handle = self._handle
        if handle is None:
            raise errors.InvalidHandle(f"this {type(self).__name__} is closed: make a new one, or close it later")
        return handle

    @property
    def is_closed(self) -> bool:
        """Whether the object has been destroyed."""
        return self._handle is None

    def close(self) -> None:
        """Destroy the driver object; once is enough, more does nothing."""
        handle, self._handle = self._handle, None
        if handle is not None:
            self._destroy(handle)

    def _destroy(self, handle: int) -> None:
        getattr(self.driver, self.destroyer)(handle)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        # At exit the driver takes everything back by itself; `sys` may be gone by then, so its function came along.
        # Otherwise nobody is there to hear of a failure, and there is one whenever the context is already lost.
        if getattr(self, "_handle", None) is not None and not is_finalizing():
            with contextlib.suppress(errors.CudaError):
                self.close()

    def __repr__(self) -> str:
        name = type(self).__name__
        return f"<{name}, closed>" if self._handle is None else f"<{name} {self._handle:#x}>"

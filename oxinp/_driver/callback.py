"""Python functions that the driver calls, in a stream's order or as a node of a graph.

The driver gets one C function for all of them, which lives as long as the process, and a number each to call it with.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["ENTRY", "HostFunction", "once"]

_functions: dict[int, Callable[[], object]] = {}
_numbers = itertools.count(1)


def _call(number: int) -> None:
    _functions[number]()


_entry = ctypes.CFUNCTYPE(None, ctypes.c_size_t)(_call)

ENTRY = ctypes.cast(_entry, ctypes.c_void_p).value or 0
"""Address of the C function, a CUhostFn; its argument is the `number` of a HostFunction."""


class HostFunction:
    """A Python function as the driver takes it, until `close` or until this object goes.

    Parameters
    ----------
    function : Callable
        It runs in a thread of the driver's and must not call the driver. What it raises goes to `sys.unraisablehook`.

    Attributes
    ----------
    number : int
        What the driver hands to `ENTRY`.
    """

    __slots__ = ("number",)

    def __init__(self, function: Callable[[], object]) -> None:
        self.number = next(_numbers)
        _functions[self.number] = function

    def close(self) -> None:
        """Forget the function; it is not called any more."""
        _functions.pop(self.number, None)

    def __del__(self, functions: dict[int, Callable[[], object]] = _functions) -> None:
        functions.pop(self.number, None)  # at exit this module's names may be gone: the table came along


@contextlib.contextmanager
def once(function: Callable[[], object]) -> Iterator[int]:
    """Give the number of a function that is called once and forgotten; now, if the block that asks for it fails."""
    number = next(_numbers)

    def call() -> None:
        del _functions[number]
        function()

    _functions[number] = call
    try:
        yield number
    except BaseException:
        _functions.pop(number, None)
        raise

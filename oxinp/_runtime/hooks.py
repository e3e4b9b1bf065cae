"""What the layers above want done at certain moments; they append, this layer calls.

The lists are read each time, in order. A callable takes no argument and its result is ignored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["before_out_of_memory", "before_synchronize"]

before_synchronize: list[Callable[[], object]] = []
"""Called before a backend waits for the device: pending work is launched here."""

before_out_of_memory: list[Callable[[], object]] = []
"""Called before a failed allocation is given up: pending work that holds on to memory is launched here.

No lock of this layer is held. A callable that needs memory itself and does not get it may let the MemoryError pass: the
next one is called, and none is called again from inside.
"""

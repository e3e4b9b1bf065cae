"""The garbage collector, kept from running where a finaliser's work on the device would become part of other work."""

from __future__ import annotations

import contextlib
import gc
from threading import RLock
from typing import TYPE_CHECKING

from oxinp._runtime.forking import free_in_children

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["paused"]

_lock = free_in_children(RLock())
_num_pauses = 0
_was_on = False


@contextlib.contextmanager
def paused() -> Iterator[None]:
    """Let no collection begin inside a `with` block, in any thread; the block is to be short."""
    global _num_pauses, _was_on
    with _lock:
        if not _num_pauses:
            _was_on = gc.isenabled()
            gc.disable()
        _num_pauses += 1
    try:
        yield
    finally:
        with _lock:
            _num_pauses -= 1
            if _was_on and not _num_pauses:
                gc.enable()

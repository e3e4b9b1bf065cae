"""Host memory that large arrays of the device are fetched into: once they are freed, it is used again.

New memory is memory that the system has to find and clear, page by page, and that the bus cannot write to: the
processor copies what it brings. A block that serves a second array is pinned, so that the bus fills it by itself from
then on. That takes longer than one fetch, and so do blocks that nobody wants again: those are not.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any
from weakref import ref

import numpy as np

from oxinp._config import config
from oxinp._runtime import hooks

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxinp._runtime.backend import Backend

__all__ = ["empty", "trim"]

MIN_NBYTES = 2 << 20
"""Smaller arrays come from the host's heap, which keeps what is freed itself, and are copied at once."""
_PAGE = 4096
MAX_WASTE = 8
"""A block serves arrays that take all of it but such a part."""

Bytes = np.ndarray[Any, np.dtype[np.uint8]]


class _Loan:
    """The first bytes of some memory, as something that is no array.

    Of an array over an array, or over its buffer, views keep the memory's owner alive and not what they are views of.
    """

    __slots__ = ("__array_interface__", "memory")

    def __init__(self, memory: Bytes, nbytes: int) -> None:
        self.memory = memory
        self.__array_interface__ = {
            "shape": (nbytes,),
            "typestr": "|u1",
            "data": (memory.ctypes.data, False),
            "version": 3,
        }


class _Block:
    """A piece of host memory, which serves one array at a time.

    Attributes
    ----------
    memory : numpy.ndarray, (n,), uint8
    pin : object or None
        It is pinned as long as that lives.
    """

    __slots__ = ("_user", "memory", "pin")

    def __init__(self, nbytes: int) -> None:
        whole = -(-nbytes // _PAGE) * _PAGE
        memory = np.empty(whole + _PAGE, np.uint8)
        start = -memory.ctypes.data % _PAGE  # so that no page is pinned with something else in it
        self.memory = memory[start : start + whole]
        self.pin: Any = None
        self._user: ref[Any] | None = None

    def lend(self, nbytes: int) -> Bytes:
        """Return its first bytes; when nobody sees them any more, the block is free."""
        lent: Bytes = np.asarray(_Loan(self.memory, nbytes))
        self._user = ref(lent, self._end)
        _lent.add(self)
        return lent

    def _end(self, _: Any, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        """Keep it for the next array, in the place of those that have waited longest; a finaliser calls this."""
        if is_finalizing():  # nobody wants it any more, and names of this module may mean nothing
            return
        self._user = None
        _lent.discard(self)
        _free.append(self)
        while _free and sum([block.memory.nbytes for block in _free]) > config.host_memory_kept:
            _drop(_free[0])


_free: list[_Block] = []
"""Blocks that nobody uses, the longest idle first. Threads append and remove, either of which is one step."""
_lent: set[_Block] = set()


def empty(nbytes: int, backend: Backend) -> Bytes:
    """Return host memory for what a device is about to send."""
    if nbytes < MIN_NBYTES or not config.host_memory_kept:
        return np.empty(nbytes, np.uint8)
    fitting = [block for block in tuple(_free) if 0 <= block.memory.nbytes - nbytes <= nbytes // MAX_WASTE]
    for block in sorted(fitting, key=lambda block: block.memory.nbytes):
        if not _drop(block, is_freed=False):
            continue
        if block.pin is None and _num_pinned_nbytes() + block.memory.nbytes <= config.host_memory_kept:
            block.pin = backend.pin(block.memory)
        return block.lend(nbytes)
    return _Block(nbytes).lend(nbytes)


def _drop(block: _Block, *, is_freed: bool = True) -> bool:
    """Take a block from those that are free; False where another thread has."""
    try:
        _free.remove(block)
    except ValueError:
        return False
    if is_freed:
        block.pin = None  # before its memory goes
    return True


def _num_pinned_nbytes() -> int:
    return sum([block.memory.nbytes for block in (*_free, *_lent.copy()) if block.pin is not None])


def trim() -> None:
    """Give the memory that is kept for reuse back to the system."""
    for block in tuple(_free):
        _drop(block)


def _unpin_all() -> None:
    """Let what is pinned be ordinary memory: the process is about to fork, and what is written then is copied."""
    for block in (*_free, *_lent.copy()):
        block.pin = None


hooks.before_fork.append(_unpin_all)

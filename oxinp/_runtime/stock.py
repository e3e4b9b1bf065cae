"""The stock of a stream: its free blocks, from which memory is handed out on the path of every launch."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from oxinp._runtime.memory import Buffer

if TYPE_CHECKING:
    from oxinp._runtime.arena import Arena
    from oxinp._runtime.memory import Block, Source
    from oxinp._runtime.timeline import Timeline

__all__ = ["Stock"]

_new = object.__new__
UNIT_BITS = 9
_MAX_CUTS = 16


class Stock:
    """The memory that a stream allocates from.

    Attributes
    ----------
    pool : Pool
    arena : Arena or None
        Where blocks are cut from.
    by_request : dict of int to list of Block
        The free list that serves a size, for the sizes asked for lately: by the number of the last unit of 512 bytes,
        of which all blocks are multiples.
    classes : dict of int to list of Block
        All free lists, by the size of their blocks.
    cuts : deque of (list of Block, int, Block, Block)
        The latest blocks that were cut in two: the free list and the bytes of the whole, and both parts; see
        `Pool.shrink`.
    timeline : Timeline or None
        The stream, where streams are told apart.
    """

    __slots__ = ("arena", "by_request", "classes", "cuts", "pool", "timeline")

    def __init__(self, pool: Source, arena: Arena | None) -> None:
        self.pool = pool
        self.arena = arena
        self.by_request: dict[int, list[Block]] = {}
        self.classes: dict[int, list[Block]] = {}
        self.cuts: deque[tuple[list[Block], int, Block, Block]] = deque(maxlen=_MAX_CUTS)
        self.timeline: Timeline | None = None

    def allocate(self, nbytes: int) -> Buffer:
        """Return memory of at least `nbytes` bytes, contents undefined.

        Raises
        ------
        MemoryError
            The device has none left, after cached blocks and what pending work held were given back.
        """
        pool = self.pool
        try:
            block = self.by_request[nbytes - 1 >> UNIT_BITS].pop()
        except (KeyError, IndexError):
            block = pool.find(nbytes, self)
        used = pool.used_nbytes = pool.used_nbytes + block.nbytes
        if used > pool.peak_nbytes:  # noqa: PLR1730 - a call to max() costs as much as all of the rest
            pool.peak_nbytes = used
        buffer = _new(Buffer)
        buffer._block = block
        buffer.nbytes = nbytes
        buffer.ptr = block.ptr
        return buffer

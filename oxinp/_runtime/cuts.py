"""Blocks that are cut in two, of which only the first part is still used, and joined again when both are free.

So a program that allocates for the most there can be, and then finds out how much it is, again and again, always gets
the same memory, without a search for what is free.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Protocol

from oxinp._runtime.memory import Block, Source
from oxinp._runtime.timeline import settle

if TYPE_CHECKING:
    from oxinp._runtime.stock import Stock
    from oxinp._runtime.timeline import Timeline

__all__ = ["cut", "joined"]


class Owner(Source, Protocol):
    """A pool whose blocks are cut: a `Pool`."""

    cut_nbytes: int
    lock: Any

    def free_list(self, stock: Stock, size: int, /) -> list[Block]:
        """Return the free list of blocks of a size."""
        ...

    def enter(self, block: Block, timeline: Timeline | None, /) -> Block:
        """Count a new block."""
        ...

    def forget(self, block: Block, /) -> None:
        """Let a block be none any more."""
        ...


def cut(pool: Owner, stock: Stock, block: Block, nbytes: int) -> None:
    """Leave a block its first bytes; the others become a free block of their own."""
    whole, rest = block.home, block.nbytes - nbytes
    block.nbytes, block.home = nbytes, pool.free_list(stock, nbytes)
    pool.cut_nbytes -= rest  # until it is entered
    other = pool.enter(Block(block.ptr + nbytes, rest, pool.free_list(stock, rest), pool), stock.timeline)
    stock.cuts.append((whole, nbytes + rest, block, other))
    other.home.append(other)


def joined(pool: Owner, stock: Stock, home: list[Block]) -> Block | None:
    """Return a block that belongs to a free list and was cut in two, both of which are free; None for none."""
    for entry in tuple(stock.cuts):
        whole, nbytes, block, other = entry
        if whole is not home or block.nbytes + other.nbytes != nbytes:  # one of them has been cut as well
            continue
        if block not in block.home or other not in other.home:
            continue
        with pool.lock as is_first:
            if not is_first:  # a finaliser amid its own thread's work
                return None
            if not _is_taken(block):
                continue
            if not _is_taken(other):
                block.home.append(block)
                continue
            if block.nbytes + other.nbytes != nbytes:  # another thread has cut one meanwhile, and given it back
                block.home.append(block)
                other.home.append(other)
                continue
            with contextlib.suppress(ValueError):  # newer ones have taken its place
                stock.cuts.remove(entry)
            if other.uses is not None:
                settle(other.uses, stock.timeline)
            pool.forget(other)
            block.nbytes, block.home = block.nbytes + other.nbytes, home
            pool.cut_nbytes += other.nbytes
            return block
    return None


def _is_taken(block: Block) -> bool:
    """Take a block from its free list; False where another thread was faster."""
    try:
        block.home.remove(block)
    except ValueError:
        return False
    return True

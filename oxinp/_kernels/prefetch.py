"""What a later block reads, fetched into the L2 cache meanwhile: the memory has work while blocks compute and wait.

Blocks of an ordinary grid begin in the order of their numbers, as many at a time as fit. One that begins asks for what
the block so many further will load, which then waits for the cache alone; nobody waits for what is fetched.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from oxinp._ptx.async_copy import BULK_ALIGN, bulk_prefetch

if TYPE_CHECKING:
    from oxinp._ptx import Builder
    from oxinp._ptx.memory import Pointer
    from oxinp._ptx.value import Value

PIECE = 2048  # bytes that a thread asks for


def fetch(k: Builder, source: Pointer, count: Value, most: int) -> None:
    """Have the L2 cache fetch consecutive elements, piece by piece (sm_90); all threads of a block call it.

    Parameters
    ----------
    k : Builder
    source : Pointer
        In global memory.
    count : Value
        Elements, u32; what lies in their first and last 16 bytes may be left out.
    most : int
        Elements at most.
    """
    most_nbytes, nbytes = most * source.type.nbytes, count * source.type.nbytes
    address = source.address()
    aligned = (address + (BULK_ALIGN - 1)) / BULK_ALIGN * BULK_ALIGN
    for first in range(0, most_nbytes, PIECE * k.block[0]):
        offset = k.tid * PIECE + first if first else k.tid * PIECE
        with k.when((offset < most_nbytes) & (offset + BULK_ALIGN < nbytes)):
            whole = (nbytes - k.cast(aligned - address, offset.type)) / BULK_ALIGN * BULK_ALIGN
            with k.when(offset < whole):
                bulk_prefetch(k, aligned + k.cast(offset, aligned.type), k.min(whole - offset, PIECE))


__all__ = ["fetch"]

"""Take what earlier tests have left free in the memory pool, so that a limit leaves exactly the room that it says."""

from __future__ import annotations

import gc

from oxinp import _runtime
from oxinp._runtime.memory import Buffer

SMALL = 1 << 14
"""Bytes that stay free, for what is none of a test's arrays."""


def fill(nbytes: int) -> list[Buffer]:
    """Return Buffers that leave no room for as much as `nbytes` in what the pool of the current device holds.

    What is still used lies anywhere in the ranges that a pool has from the driver, so that what is free between may be
    in pieces, and a limit for all of them would leave room for more or fewer arrays each time.

    Parameters
    ----------
    nbytes : int
        What a test's arrays take each.

    Returns
    -------
    list of Buffer
        They have to be kept as long as the limit.
    """
    gc.collect()
    pool = _runtime.current().pool
    pool.trim()
    small = pool.owner.allocate(SMALL)
    filling = []
    while nbytes >= SMALL:
        held = pool.held_nbytes
        piece = pool.owner.allocate(nbytes)
        if pool.held_nbytes == held:
            filling.append(piece)
        else:  # there was none of that size
            del piece
            pool.trim()
            nbytes //= 2
    del small
    return filling

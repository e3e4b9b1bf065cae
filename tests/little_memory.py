"""Limit a device's memory to what is in use and exactly as much more as a test asks for."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

import oxinp as np
from oxinp import _runtime
from oxinp._runtime.memory import Buffer

SMALL = 1 << 14
"""Bytes that stay free, for what is none of a test's arrays."""


@contextmanager
def limited(room: float, nbytes: int, num_others: int = 0) -> Iterator[None]:
    """Let there be so many bytes of room, in a `with` block.

    Parameters
    ----------
    room : float
    nbytes : int
        What a test's arrays take each.
    num_others : int
        How many of that size others hold meanwhile, whatever happens.
    """
    pool = _runtime.current().pool
    filling = _fill(nbytes) + [pool.owner.allocate(nbytes) for _ in range(num_others)]
    pool.limit_nbytes = pool.held_nbytes + int(room)
    try:
        yield
    finally:
        filling.clear()
        pool.limit_nbytes = None
        pool.notes_uses = False  # from when memory was short
        np.config.renew()  # what was loaded meanwhile notes which memory it uses


def _fill(nbytes: int) -> list[Buffer]:
    """Return Buffers that leave no room for as much as `nbytes` in what the pool of the current device holds.

    What is still used lies anywhere in the ranges that a pool has from the driver, so that what is free between may be
    in pieces, and a limit for all of them would leave room for more or fewer arrays each time.
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

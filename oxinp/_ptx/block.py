"""Reductions over a thread block."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from oxinp._ptx import warp
from oxinp._ptx.value import Value

if TYPE_CHECKING:
    from oxinp._ptx.builder import Builder


def reduce(k: Builder, value: Value, combine: Callable[[Value, Value], Value]) -> Value:
    """Combine `value` over all threads of a block whose size is a power of two; every thread gets the result.

    Each warp reduces by butterfly, lane 0 leaves the partial in shared memory, and every warp reduces the partials
    the same way: a fixed tree, so the same input gives the same bits. All threads have to take part. The barrier at
    the end lets the shared memory be used again.
    """
    num_threads = k.block[0] * k.block[1] * k.block[2]
    if num_threads & (num_threads - 1):
        raise ValueError(f"block_reduce needs a power-of-two number of threads, not {num_threads}")
    value = warp.reduce(k, value, combine, min(num_threads, warp.WARP))
    num_warps = num_threads // warp.WARP
    if num_warps <= 1:
        return value
    thread = k.thread_index()
    partials = k.shared(value.type, num_warps)
    with k.when((thread & (warp.WARP - 1)) == 0):
        partials[thread >> 5] = value
    k.barrier()
    value = warp.reduce(k, partials[thread & (num_warps - 1)], combine, num_warps)
    k.barrier()
    return value

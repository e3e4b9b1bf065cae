"""How the blocks of a cluster share a row, and combine what each has to the bits that other kernels give (sm_90).

What a reduction of the row alone would do decides: there is one way for each that `reduce.plan` has for long rows.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING

from oxinp._kernels.reduce.accumulate import Running, gather, tree
from oxinp._kernels.reduce.rows import WARP
from oxinp._ptx import block_reduce, warp_reduce
from oxinp._ptx.cluster import cluster_barrier, in_block

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from oxinp._kernels.problem import Element
    from oxinp._kernels.rowwise.program import RowReduction
    from oxinp._ptx import Builder
    from oxinp._ptx.memory import Pointer
    from oxinp._ptx.value import Value

# Who would reduce the row alone, and what a block of the cluster has of it.
BATCHES = "batches"  # a block of 256 threads: some of the batches of each
CHUNKS = "chunks"  # a block for each chunk of the row: a chunk, whose results are then combined one by one
THREADS = "threads"  # a block of 1024 threads: 256 of them


def join_batches(
    k: Builder,
    items: Sequence[RowReduction],
    batches: Sequence[Sequence[list[Element]]],
    cluster: int,
    is_there: Callable[[int, int, RowReduction], Value | None],
) -> list[Running]:
    """Combine the batches of all blocks, in the order in which one thread would.

    Parameters
    ----------
    items : sequence of RowReduction
    batches : sequence of sequences of lists of Element
        Those of a thread of this block, for every reduction.
    cluster : int
    is_there : callable
        ``is_there(rank, batch, item)``: whether the thread has any unit of a block's batch; None where all have.
    """
    left: list[Pointer] = []
    for item, own in zip(items, batches, strict=True):
        memory = k.shared(item.op.acc, (len(own), k.block[0]))
        for i, elements in enumerate(own):
            memory[i * k.block[0] + k.tid] = gather(k, item.op, elements)
        left.append(memory)
    cluster_barrier(k)
    runnings = []
    for item, memory, own in zip(items, left, batches, strict=True):
        running = Running(k, item.op)
        for rank in range(cluster):
            there = in_block(k, memory, rank)
            for i in range(len(own)):
                condition = is_there(rank, i, item)
                with nullcontext() if condition is None else k.when(condition):
                    running.join(there[i * k.block[0] + k.tid])
        runnings.append(running)
    return runnings


def join_chunks(k: Builder, items: Sequence[RowReduction], totals: Sequence[Value], cluster: int) -> list[Value]:
    """Combine the accumulators of threads to those of chunks, and these as the second pass over chunks does."""
    left = []
    for item, total in zip(items, totals, strict=True):
        memory = k.shared(item.op.acc, 1)
        chunk = block_reduce(k, total, _combine(k, item))
        with k.when(k.tid == 0):
            memory[0] = chunk
        left.append(memory)
    cluster_barrier(k)
    joined = []
    for item, memory in zip(items, left, strict=True):
        parts = [in_block(k, memory, rank)[0] for rank in range(cluster)]
        num_full = cluster // item.join * item.join
        running = Running(k, item.op)
        for i in range(0, num_full, item.join):
            running.join(tree(k, item.op.combine, parts[i : i + item.join]))
        for part in parts[num_full:]:
            running.join(part)
        joined.append(running.total())
    return joined


def join_threads(k: Builder, items: Sequence[RowReduction], totals: Sequence[Value], cluster: int) -> list[Value]:
    """Combine the accumulators of threads over warps, and these over the cluster, as `block_reduce` does."""
    num_warps = k.block[0] // WARP
    assert num_warps * cluster == WARP
    left = []
    for item, total in zip(items, totals, strict=True):
        memory = k.shared(item.op.acc, num_warps)
        value = warp_reduce(k, total, _combine(k, item))
        with k.when(k.lane == 0):
            memory[k.warp] = value
        left.append(memory)
    cluster_barrier(k)
    joined = []
    for item, memory in zip(items, left, strict=True):
        part = in_block(k, memory, k.lane / num_warps)[k.lane % num_warps]
        joined.append(warp_reduce(k, part, _combine(k, item)))
    return joined


def _combine(k: Builder, item: RowReduction) -> Callable[[Value, Value], Value]:
    def combine(a: Value, b: Value) -> Value:
        value: Value = item.op.combine(k, a, b)
        return value

    return combine

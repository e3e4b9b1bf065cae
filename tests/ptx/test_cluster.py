"""Clusters of blocks on the emulator: their barrier, and reads of each other's shared memory."""

import numpy as np
import pytest

from oxinp._ptx import Builder
from oxinp._ptx.cluster import cluster_barrier, in_block
from oxinp._ptx.emulator.faults import AccessError, DeadlockError
from oxinp._ptx.types import f64, u32
from tests.ptx.launch import launch

BLOCK = 48  # not a multiple of a warp


def exchange(cluster):
    """Every thread stores what the thread of its number has in the next block of its cluster, and those in all."""
    k = Builder("exchange", block=BLOCK, cluster=cluster, target="sm_90")
    after, total = k.pointer("after", f64, "w"), k.pointer("total", f64, "w")
    own = k.shared(f64, BLOCK)
    i = k.ctaid * BLOCK + k.tid
    own[k.tid] = k.cast(i, f64)
    cluster_barrier(k)
    rank = k.special("cluster_ctarank")
    after[i] = in_block(k, own, (rank + 1) % cluster)[k.tid]
    parts = [in_block(k, own, other).at(k.tid)[0] for other in range(cluster)]
    total[i] = sum(parts[1:], parts[0])
    cluster_barrier(k)
    return k.build()


@pytest.mark.parametrize("cluster", [1, 2, 4, 8])
@pytest.mark.parametrize("count", [1, 3])
def test_blocks_read_of_each_other(cluster, count):
    shape = (count, cluster, BLOCK)
    after, total = np.zeros(shape), np.zeros(shape)
    launch(exchange(cluster), after, total, grid=count * cluster)
    numbers = np.arange(after.size, dtype=np.float64).reshape(shape)
    np.testing.assert_array_equal(after, np.roll(numbers, -1, axis=1))
    np.testing.assert_array_equal(total, np.broadcast_to(numbers.sum(axis=1, keepdims=True), shape))


def test_what_nobody_has_written_yet_is_noticed():
    k = Builder("early", block=32, cluster=2, target="sm_90")
    out, own = k.pointer("out", u32, "w"), k.shared(u32, 32)
    rank = k.special("cluster_ctarank")
    with k.when(rank == 0):
        own[k.tid] = k.tid + 0
    out[k.ctaid * 32 + k.tid] = in_block(k, own, 1)[k.tid]
    with pytest.raises(AccessError, match="uninitialised"):
        launch(k.build(), np.zeros(64, np.uint32), grid=2)


def test_a_barrier_that_not_all_reach():
    k = Builder("stuck", block=32, cluster=2, target="sm_90")
    out = k.pointer("out", u32, "w")
    with k.when(k.special("cluster_ctarank") == 0):
        cluster_barrier(k)
    out[k.ctaid * 32 + k.tid] = k.tid + 0
    with pytest.raises(DeadlockError, match="cannot go on"):
        launch(k.build(), np.zeros(64, np.uint32), grid=2)

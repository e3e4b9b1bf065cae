"""Stores into the shared memory of other blocks of a cluster, counted by the receiver."""

import numpy as np
import pytest

from oxinp._ptx import Builder
from oxinp._ptx.cluster import cluster_barrier
from oxinp._ptx.cluster_store import WORDS, ClusterStores
from oxinp._ptx.emulator.faults import DeadlockError
from oxinp._ptx.types import c64, f64, u32
from tests.ptx.launch import launch

BLOCK, ROUNDS = 40, 5  # not a multiple of a warp


def told(cluster, type_, nbytes=None):
    """Every block tells all others of the cluster, round by round; the sums over blocks of what they told."""
    k = Builder("told", block=BLOCK, cluster=cluster, target="sm_90")
    total, words = k.pointer("total", type_, "w"), k.pointer("words", u32, "w")
    came, marks = k.shared(type_, 2 * cluster * BLOCK), k.shared(u32, 2 * cluster * WORDS)
    stores, rank = ClusterStores(k), k.special("cluster_ctarank")
    cluster_barrier(k)
    for number in range(ROUNDS):
        half = number % 2 * cluster
        with k.when(k.tid == 0):
            stores.expect(number, nbytes or cluster * (BLOCK * type_.nbytes + 4 * WORDS))
        value = k.cast(k.ctaid * BLOCK + k.tid + number, type_.parts[0])
        value = k.compound(type_, value, -value) if type_.is_complex else value
        for other in range(cluster):
            stores.store(number, came, (half + rank) * BLOCK + k.tid, value, other)
        with k.when(k.tid < cluster):
            mark = [rank + (number + i) for i in range(WORDS)]
            stores.store_words(number, marks, (half + rank) * WORDS, mark, k.tid % cluster)
        stores.wait(number)
        parts = [came[(half + other) * BLOCK + k.tid] for other in range(cluster)]
        place = (k.ctaid * ROUNDS + number) * BLOCK + k.tid
        total[place] = sum(parts[1:], parts[0])
        words[place] = marks[(half + cluster - 1) * WORDS + k.tid % WORDS]
        k.barrier()
    return k.build()


@pytest.mark.parametrize("type_", [f64, c64], ids=str)
@pytest.mark.parametrize("cluster", [1, 4])
def test_blocks_tell_each_other(cluster, type_):
    count, dtype = 2 * cluster, np.dtype("f8" if type_ is f64 else "c8")
    total, words = np.zeros((count, ROUNDS, BLOCK), dtype), np.zeros((count, ROUNDS, BLOCK), np.uint32)
    launch(told(cluster, type_), total, words, grid=count)
    blocks = np.arange(count)[:, None, None] * BLOCK + np.arange(BLOCK) + np.arange(ROUNDS)[:, None]
    sums = blocks.reshape(2, cluster, ROUNDS, BLOCK).sum(axis=1).repeat(cluster, axis=0)
    np.testing.assert_array_equal(total, sums * (1 - 1j if type_ is c64 else 1))
    marks = cluster - 1 + np.arange(ROUNDS)[:, None] + np.arange(BLOCK) % WORDS
    np.testing.assert_array_equal(words, np.broadcast_to(marks, words.shape))


def test_bytes_that_do_not_come():
    total, words = np.zeros((2, ROUNDS, BLOCK)), np.zeros((2, ROUNDS, BLOCK), np.uint32)
    with pytest.raises(DeadlockError, match="cannot go on"):
        launch(told(2, f64, nbytes=8), total, words, grid=2)

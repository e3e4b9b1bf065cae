"""Runs of K: every step of every tile is added up once, in the same order whoever comes last.

The sums of these kernels are made without tensor cores, so that they run on the emulator.
"""

import numpy as np
import pytest

from oxinp._kernels.gemm.sm90_wgmma.scheduler import NUM_CONSUMERS, TILE_M
from oxinp._kernels.gemm.sm90_wgmma.split_k import SerialSplitK, SplitKScheduler, split_ranges
from oxinp._ptx import Builder
from oxinp._ptx.types import f32, i64, u32
from oxinp._ptx.wgmma import WARPGROUP
from tests.ptx.launch import launch

WIDTH = 16
REGISTERS = WIDTH // 2
BIG = 2.0**24


class Sums:
    """Registers as an `Accumulator` has them."""

    def __init__(self, k):
        self.registers = [k.var(0, f32) for _ in range(REGISTERS)]


def kernel_of(*, is_batched):
    """For every step of K a thread adds the step's number plus its own, times `scale` if the step is the first."""
    k = Builder("runs", block=NUM_CONSUMERS * WARPGROUP)
    out, left = k.pointer("out", f32, "w"), k.pointer("left", f32)
    flags, scale = k.pointer("flags", u32), k.scalar("scale", f32)
    tiles = SplitKScheduler(k, 1, WIDTH, is_batched=is_batched, shared="b")
    warpgroup, thread = k.tid >> 7, k.tid & (WARPGROUP - 1)
    split_k_tile = SerialSplitK(k, tiles, left, flags, warpgroup, thread)
    sums = Sums(k)
    with tiles.each_sliced() as (number, row, column):
        for register in sums.registers:
            register.set(0)
        with k.range(*tiles.depth_range(number)) as step:
            value = k.cast(step + 1, f32) * k.where(step == 0, scale, 1.0)
            for i, register in enumerate(sums.registers):
                register.set(register.get() + value + k.cast(k.tid + i, f32))

        def store(own):
            tile = (row / TILE_M) * tiles.num_n + column / WIDTH
            if number is not None:
                tile = tile + number * (tiles.num_m * tiles.num_n)
            place = out.at(k.cast((tile * (NUM_CONSUMERS * WARPGROUP) + k.tid) * REGISTERS, i64))
            for i, register in enumerate(own.registers):
                place[i] = register.get()

        split_k_tile.store(sums, store)
    return k.build()


def run(num_m, num_n, num_k, num_parts, blocks, *, num_slices=1, scale=1.0):
    """What every thread stored of every tile, and the flags after."""
    num_tiles = num_m * num_n * num_slices
    num_parts, length = split_ranges(num_k, num_parts)
    num_runs = num_tiles * num_parts
    out = np.full((num_tiles, NUM_CONSUMERS * WARPGROUP, REGISTERS), np.nan, np.float32)
    left = np.full((num_runs, TILE_M * WIDTH), np.nan, np.float32)
    flags = np.zeros(NUM_CONSUMERS * num_runs, np.uint32)
    slices = () if num_slices == 1 else (num_slices, 1, num_k, 1, 1)
    launch(
        kernel_of(is_batched=num_slices > 1),
        out,
        left,
        flags,
        scale,
        num_m,
        num_n,
        num_k,
        *slices,
        num_parts,
        length,
        grid=min(blocks, num_runs),
    )
    return out, flags


@pytest.mark.parametrize(
    ("num_m", "num_n", "num_k", "num_parts", "blocks"),
    [
        (1, 1, 1, 1, 4),
        (1, 1, 7, 4, 4),
        (2, 1, 5, 3, 6),
        (3, 2, 5, 2, 5),  # more ranges of K than blocks
        (2, 2, 4, 1, 4),
        (1, 2, 4, 3, 8),  # two parts
        (2, 1, 3, 2, 1),
    ],
)
def test_every_step_is_added_once(num_m, num_n, num_k, num_parts, blocks):
    for num_slices in (1, 2):
        out, flags = run(num_m, num_n, num_k, num_parts, blocks, num_slices=num_slices)
        own = np.arange(NUM_CONSUMERS * WARPGROUP)[:, None] + np.arange(REGISTERS)
        want = num_k * (num_k + 1) // 2 + num_k * own
        np.testing.assert_array_equal(out, np.broadcast_to(want, out.shape))
        assert not flags.any()


def test_sums_are_added_in_the_order_of_k():
    # The first partial sum of a tile is so large that the order of additions shows.
    own = (np.arange(NUM_CONSUMERS * WARPGROUP)[:, None] + np.arange(REGISTERS)).astype(np.float32)
    multicast = []
    for part in range(4):
        total = np.zeros_like(own)
        for step in range(3 * part, 3 * part + 3):
            total = total + np.float32((step + 1) * (BIG if step == 0 else 1)) + own
        multicast.append(total)
    want = ((multicast[0] + multicast[1]) + multicast[2]) + multicast[3]
    assert not np.array_equal(want, multicast[0] + (multicast[1] + (multicast[2] + multicast[3])))
    for blocks in (1, 3, 8):
        out, _ = run(1, 2, 12, 4, blocks, scale=BIG)
        np.testing.assert_array_equal(out, np.broadcast_to(want, out.shape))


@pytest.mark.parametrize("num_k", [1, 2, 4, 63, 172])
@pytest.mark.parametrize("num_parts", [1, 2, 3, 4, 7])
def test_all_parts_have_steps(num_k, num_parts):
    num, length = split_ranges(num_k, num_parts)
    assert num <= num_parts
    assert (num - 1) * length < num_k <= num * length

"""What waits: barriers, spinning on memory, warp instructions that lanes reach apart, and deadlocks."""

import operator

import numpy as np
import pytest

from oxinp._ptx import Builder, block_reduce, emulate
from oxinp._ptx.emulate import DeadlockError, DivergenceError, RaceError
from oxinp._ptx.emulator.program import Program
from oxinp._ptx.synchronize import GRID_WAIT, follow
from oxinp._ptx.types import f32, u32
from tests.comparator import assert_same
from tests.ptx.launch import launch


def zeros(num):
    return np.zeros(num, np.uint32)


# -- barriers


def test_barrier_in_a_loop_with_trips_by_block():
    """Blocks leave the loop after different numbers of rounds."""
    k = Builder("rounds", block=64)
    out = k.pointer("out", u32, "w")
    tile = k.shared(u32, 64)
    tile[k.tid] = k.tid
    with k.range(0, k.ctaid + 1):
        k.barrier()
        value = tile[(k.tid + 1) % 64]
        k.barrier()
        tile[k.tid] = value
    out[k.ctaid * 64 + k.tid] = tile[k.tid]
    result = zeros(4 * 64)
    launch(k.build(), result, grid=4)
    assert result.reshape(4, 64).tolist() == [[(i + b + 1) % 64 for i in range(64)] for b in range(4)]


def test_scan_by_doubling():
    """Barriers around a branch that only part of the block takes."""
    k = Builder("scan", block=128)
    x = k.pointer("x", u32)
    tile = k.shared(u32, 128)
    i = k.ctaid * 128 + k.tid
    tile[k.tid] = x[i]
    distance = k.var(1, u32)
    with k.loop():
        k.break_if(distance >= 128)
        k.barrier()
        other = k.var(0, u32)
        with k.when(k.tid >= distance):
            other.set(tile[k.tid - distance])
        k.barrier()
        tile[k.tid] = tile[k.tid] + other
        distance <<= 1
    x[i] = tile[k.tid]
    values = np.random.default_rng(0).integers(0, 100, 256).astype("u4")
    result = values.copy()
    launch(k.build(), result, grid=2)
    assert_same(result, values.reshape(2, 128).cumsum(axis=1, dtype="u4").reshape(-1))


def test_lanes_that_part_take_what_is_needed_behind():
    """What is computed for one address alone is not; what both sides and what follows read is."""
    k = Builder("parted", block=64)
    x, out = k.pointer("x", u32), k.pointer("out", u32, "w")
    value = x[(k.tid * 3 + 1) * 5 % 64]
    total = k.var(value, u32)
    with k.when(k.tid < 32):
        k.barrier(1, 64)
        total.set(total + value)
    with k.otherwise():
        total.set(total * value)
        k.barrier(1, 64)
    out[k.tid] = total + value
    kernel = k.build()
    carried = Program(kernel).carried
    assert {value.index, total.index} <= set(carried)
    assert 2 < len(carried) < kernel.num_registers - 4
    values, result = np.arange(64, dtype="u4") + 1, zeros(64)
    launch(kernel, values, result)
    picked = values[(np.arange(64) * 3 + 1) * 5 % 64]
    assert_same(result, np.where(np.arange(64) < 32, picked + picked, picked * picked) + picked)


def test_warps_with_different_roles():
    """Two warps produce and two consume over named barriers; the halves run different code."""
    k = Builder("roles", block=128)
    out = k.pointer("out", u32)
    tile = k.shared(u32, 64)
    is_producer = k.tid < 64
    with k.when(is_producer), k.range(0, k.const(5, u32)) as j:
        k.barrier(2, 128)  # empty
        tile[k.tid] = j * 100 + k.tid
        k.barrier_arrive(1, 128, types=())  # full
    with k.otherwise():
        total = k.var(0, u32)
        with k.range(0, 5):
            k.barrier_arrive(2, 128, types=())
            k.barrier(1, 128)
            total += tile[127 - k.tid]
        out[k.tid - 64] = total
    result = zeros(64)
    launch(k.build(), result)
    assert result.tolist() == [5 * (63 - i) + 1000 for i in range(64)]


def test_barrier_by_run_time_number():
    k = Builder("pairs", block=128)
    out = k.pointer("out", u32, "w")
    tile = k.shared(u32, 128)
    tile[k.tid] = k.tid
    k.barrier(k.warp / 2 + 1, 64)
    out[k.tid] = tile[k.tid ^ 32]
    result = zeros(128)
    launch(k.build(), result)
    assert result.tolist() == [i ^ 32 for i in range(128)]


def test_reading_across_the_halves_without_a_barrier_is_a_race():
    k = Builder("pairs", block=128)
    out = k.pointer("out", u32, "w")
    tile = k.shared(u32, 128)
    tile[k.tid] = k.tid
    out[k.tid] = tile[k.tid ^ 64]
    with pytest.raises(RaceError):
        launch(k.build(), zeros(128))


def test_block_reduction_inside_a_branch_of_whole_blocks():
    k = Builder("chosen", block=64)
    out = k.pointer("out", f32)
    with k.when(k.ctaid % 2 == 1):
        total = block_reduce(k, k.cast(k.tid, f32), operator.add)
        with k.when(k.tid == 0):
            out[k.ctaid] = total
    result = np.zeros(5, "f4")
    launch(k.build(), result, grid=5)
    assert result.tolist() == [0, 2016, 0, 2016, 0]


# -- spinning


def look_back(k, out, state, total):
    """Running totals over blocks: each waits for its predecessor's and publishes its own."""
    before = k.var(0, u32)
    with k.when(k.tid == 0):
        with k.when(k.ctaid > 0):
            seen = k.var(0, u32)
            with k.loop():
                seen.set(state.load(k.ctaid * 2 - 2, order="acquire.gpu")[0])
                k.break_if(seen == 1)
            before.set(state[k.ctaid * 2 - 1])
        state[k.ctaid * 2 + 1] = before + total
        state.store(k.ctaid * 2, [k.const(1, u32)], order="release.gpu")
        out[k.ctaid] = before + total


def test_blocks_wait_for_their_predecessors():
    k = Builder("look_back", block=32)
    out, state = k.pointer("out", u32, "w"), k.pointer("state", u32)
    look_back(k, out, state, k.ctaid + 1)
    result = zeros(20)
    launch(k.build(), result, zeros(40), grid=20)
    assert_same(result, np.arange(1, 21).cumsum(dtype="u4"))


def test_last_block_finishes():
    """The block that counts last adds up what the others left, in a fixed order."""
    k = Builder("last", block=64)
    out, partials = k.pointer("out", f32), k.pointer("partials", f32)
    counter = k.pointer("counter", u32)
    is_last = k.shared(u32, 1)
    total = block_reduce(k, k.cast(k.ctaid * 64 + k.tid, f32), operator.add)
    with k.when(k.tid == 0):
        partials[k.ctaid] = total
        k.fence()
        is_last[0] = counter.atomic("add", 0, 1)
    k.barrier()
    with k.when(is_last[0] == k.nctaid - 1):
        k.fence()
        with k.when(k.tid < k.nctaid):
            value = partials[k.tid]
            out.atomic("add", 0, value)
    result = np.zeros(1, "f4")
    launch(k.build(), result, np.zeros(8, "f4"), zeros(1), grid=8)
    assert result[0] == np.arange(512).sum()


def test_kernels_that_may_begin_early_run_one_after_the_other():
    k = Builder("early", block=32, target="sm_90")
    x = k.pointer("x", u32)
    follow(k)
    x[k.tid] = x[k.tid] * 2 + 1
    kernel = k.build()
    assert kernel.ptx.index(GRID_WAIT) < kernel.ptx.index("launch_dependents") < kernel.ptx.index("ld.global")
    result = zeros(32)
    launch(kernel, result)
    launch(kernel, result)
    assert (result == 3).all()


def test_lock():
    """Every thread takes a lock in turn; lanes of one warp too."""
    k = Builder("lock", block=32)
    lock, count = k.pointer("lock", u32), k.pointer("count", u32)
    done = k.var(0, u32)
    with k.loop():
        k.break_if(done == 1)
        taken = lock.atomic("cas", 0, 1, compare=0, order="acquire.gpu")
        with k.when(taken == 0):
            count[0] = count[0] + 1
            lock.store(0, [k.const(0, u32)], order="release.gpu")
            done.set(1)
    total = zeros(1)
    launch(k.build(), zeros(1), total, grid=3)
    assert total[0] == 96


# -- warp instructions reached apart


def test_lanes_come_together_for_a_shuffle():
    """Lanes leave a spinning loop one after the other, and meet again at the shuffle."""
    k = Builder("meet", block=64)
    out, ticket = k.pointer("out", u32, "w"), k.pointer("ticket", u32)
    with k.loop():
        now = ticket.load(k.warp, order="relaxed.gpu")[0]
        with k.when(now == k.lane):
            ticket.store(k.warp, [now + 1], order="relaxed.gpu")
        k.break_if(now >= k.lane)
    out[k.tid] = k.shfl_bfly(k.tid, 31)
    result = zeros(64)
    launch(k.build(), result, zeros(2))
    assert result.tolist() == [i ^ 31 for i in range(64)]


# -- deadlocks


def test_barrier_that_part_of_the_block_misses():
    k = Builder("missed", block=64)
    with k.when(k.tid < 32):
        k.barrier()
    with pytest.raises(DeadlockError) as caught:
        launch(k.build(), grid=2)
    assert "kernel missed cannot go on" in str(caught.value)
    assert "64 threads, among them thread (0, 0, 0) of block (0, 0, 0): waits at `barrier.sync.aligned 0;`" in str(
        caught.value
    )


def test_crossed_barriers():
    k = Builder("crossed", block=64)
    with k.when(k.tid < 32):
        k.barrier(1, 64)
        k.barrier(2, 64)
    with k.otherwise():
        k.barrier(2, 64)
        k.barrier(1, 64)
    with pytest.raises(DeadlockError, match=r"barrier.sync.aligned 1, 64.*barrier.sync.aligned 2, 64"):
        launch(k.build())


def test_spinning_for_nobody():
    k = Builder("forlorn", block=32)
    flag = k.pointer("flag", u32)
    with k.loop():
        k.break_if(flag.load(0, order="acquire.gpu")[0] == 1)
    with pytest.raises(DeadlockError, match=r"spins.*ld.acquire.gpu"):
        launch(k.build(), zeros(1))


def test_waiting_for_a_later_block_in_a_cycle():
    k = Builder("cycle", block=32)
    flags = k.pointer("flags", u32)
    with k.loop():
        k.break_if(flags.load(1 - k.ctaid, order="acquire.gpu")[0] == 1)
    flags.store(k.ctaid, [k.const(1, u32)], order="release.gpu")
    with pytest.raises(DeadlockError):
        launch(k.build(), zeros(2), grid=2)


def test_shuffle_that_a_lane_never_reaches():
    k = Builder("absent", block=32)
    flag = k.pointer("flag", u32)
    with k.when(k.lane > 0):
        flag.load(0, order="acquire.gpu")
        with k.loop():
            k.break_if(flag.load(0, order="acquire.gpu")[0] == 0)
            k.shfl_bfly(k.lane, 1)
    with pytest.raises(DeadlockError, match=r"31 threads.*waits for the rest of its warp.*shfl.sync"):
        launch(k.build(), np.ones(1, "u4"))


def test_too_many_arrivals():
    k = Builder("crowd", block=64)
    k.barrier(1, 32)
    with pytest.raises(DivergenceError, match="more threads arrive than the 32"):
        launch(k.build())


def test_unsynchronised_flag_is_a_race():
    k = Builder("plain_flag", block=32)
    flag, data = k.pointer("flag", u32), k.pointer("data", u32)
    with k.when((k.ctaid == 0) & (k.tid == 0)):
        data[0] = 1
    with k.when((k.ctaid == 1) & (k.tid == 0)):
        flag[0] = data[0]
    with pytest.raises(RaceError, match="read after write"):
        launch(k.build(), zeros(1), zeros(1), grid=2)


def test_errors_have_one_root():
    assert all(
        issubclass(e, emulate.EmulationError) for e in (DeadlockError, DivergenceError, RaceError, emulate.AccessError)
    )

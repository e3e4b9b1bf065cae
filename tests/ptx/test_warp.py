"""Shuffles, votes, matches and reductions, whole warps and parts of them."""

import functools
import operator

import numpy as np
import pytest

from oxinp._ptx import Builder, block_reduce, warp_reduce
from oxinp._ptx.emulate import DivergenceError
from oxinp._ptx.types import ALL, bf16, f32, f64, i32, i64, pred, u16, u32, u64
from tests.comparator import assert_same
from tests.ptx.launch import launch
from tests.ptx.specimens import specimens


def run(body, values, type, out_type=None, block=64):
    """Run ``body(k, value) -> value`` over one block."""
    k = Builder("trial", block=block)
    out, x = k.pointer("out", out_type or type, "w"), k.pointer("x", type, "r")
    out[k.tid] = body(k, x[k.tid])
    result = np.zeros(block, (out_type or type).dtype)
    launch(k.build(), result, values)
    return result


def source_lane(mode, lane, operand, width):
    """Lane that shfl reads, by the words of the CUDA guide."""
    start = lane // width * width
    if mode == "up":
        return lane - operand if lane - operand >= start else lane
    if mode == "down":
        return lane + operand if lane + operand < start + width else lane
    if mode == "bfly":
        other = lane ^ operand
        return other if other < start + width else lane
    return start + operand % width


@pytest.mark.parametrize("mode", ["up", "down", "bfly", "idx"])
@pytest.mark.parametrize("width", [32, 16, 4, 1])
@pytest.mark.parametrize("operand", [0, 1, 3, 17, 31])
def test_shuffles(mode, width, operand):
    values = np.arange(64, dtype=np.uint32) * 10
    got = run(lambda k, v: getattr(k, f"shfl_{mode}")(v, operand, width), values, u32)
    wanted = [10 * (i // 32 * 32 + source_lane(mode, i % 32, operand, width)) for i in range(64)]
    assert got.tolist() == wanted


@pytest.mark.parametrize("type", ALL, ids=repr)
def test_shuffles_of_every_type(type):
    values = specimens(type)[:64]
    assert_same(run(lambda k, v: k.shfl_bfly(v, 1), values, type), values.reshape(-1, 2)[:, ::-1].reshape(-1))


def test_shuffle_by_lane_dependent_index():
    values = np.arange(64, dtype=np.int32)
    got = run(lambda k, v: k.shfl_idx(v, (k.lane * 7 + 3) & 31), values, i32)
    assert got.tolist() == [i // 32 * 32 + (i % 32 * 7 + 3) % 32 for i in range(64)]


def test_votes():
    values = np.zeros(96, bool)
    values[[1, 5, 40]] = True
    values[64:] = True

    def body(k, p):
        return k.ballot(p) ^ k.where(k.any(p), k.const(1 << 20, u32), 0) ^ k.where(k.all(p), k.const(1 << 21, u32), 0)

    got = run(body, values, pred, u32, block=96)
    assert got.tolist() == [34 ^ 1 << 20] * 32 + [256 ^ 1 << 20] * 32 + [0xFFFFFFFF ^ 1 << 20 ^ 1 << 21] * 32


@pytest.mark.parametrize("name", ["add", "min", "max", "and", "or", "xor"])
@pytest.mark.parametrize("type", [i32, u32], ids=repr)
def test_redux(name, type):
    if type is i32 and name in ("and", "or", "xor"):
        with pytest.raises(TypeError, match="no instruction redux"):
            run(lambda k, v: k.redux(name, v), np.zeros(64, np.int32), type)
        return
    function = {
        "add": np.add,
        "min": np.minimum,
        "max": np.maximum,
        "and": np.bitwise_and,
        "or": np.bitwise_or,
        "xor": np.bitwise_xor,
    }[name]
    values = specimens(type)[:64]
    got = run(lambda k, v: k.redux(name, v), values, type)
    assert_same(got, np.repeat(function.reduce(values.reshape(2, 32), axis=1, dtype=type.dtype), 32))


def test_match_any():
    values = (np.arange(64) * 7 % 5).astype(np.uint64) << 40
    got = run(lambda k, v: k.match_any(v, 0xFFFFFFFF), values, u64, u32)
    for i in range(64):
        warp = values[i // 32 * 32 :][:32]
        assert int(got[i]) == sum(1 << j for j in range(32) if warp[j] == values[i])


def test_part_of_a_warp():
    """Lanes outside the mask are not touched, and membership is the mask's."""
    k = Builder("part", block=64)
    out = k.pointer("out", u32, "w")
    with k.when(k.lane < 16):
        out[k.tid] = k.shfl_bfly(k.tid, 1, members=0xFFFF) * 1000 + k.redux("add", k.lane, 0xFFFF)
    with k.otherwise():
        out[k.tid] = k.ballot(k.lane > 20, 0xFFFF0000) + k.activemask(types=())
    result = np.zeros(64, np.uint32)
    launch(k.build(), result)
    high = sum(1 << j for j in range(21, 32)) + 0xFFFF0000
    wanted = [(i ^ 1) * 1000 + 120 if i % 32 < 16 else high & 0xFFFFFFFF for i in range(64)]
    assert result.tolist() == wanted


def test_block_that_is_no_multiple_of_a_warp():
    values = np.arange(40, dtype=np.uint32)
    got = run(lambda k, v: k.ballot(v >= 0), values, u32, block=40)
    assert got.tolist() == [0xFFFFFFFF] * 32 + [0xFF] * 8


def test_missing_member_is_reported():
    k = Builder("missing", block=32)
    out = k.pointer("out", u32, "w")
    with k.when(k.tid < 20):
        out[k.tid] = k.shfl_bfly(k.tid, 1)
    with pytest.raises(DivergenceError, match=r"shfl.sync.bfly.*names lanes 0xfff00000 of its warp"):
        launch(k.build(), np.zeros(32, np.uint32))


def test_reading_an_inactive_lane_is_reported():
    k = Builder("inactive", block=32)
    out = k.pointer("out", u32, "w")
    with k.when(k.tid < 16):
        out[k.tid] = k.shfl_idx(k.tid, 20, members=0xFFFF)
    with pytest.raises(DivergenceError, match="reads lane 20, which is not active"):
        launch(k.build(), np.zeros(32, np.uint32))


# -- reductions


def tree_sum(values):
    """Sum of lanes by butterfly: what every lane ends with, in floating point."""
    num = len(values)
    values = values.copy()
    stride = num // 2
    while stride:
        values = values + values[np.arange(num) ^ stride]
        stride //= 2
    return values


@pytest.mark.parametrize("width", [1, 2, 8, 32])
def test_warp_reduction_is_a_fixed_tree(width):
    values = np.random.default_rng(0).random(64).astype("f4")
    got = run(lambda k, v: warp_reduce(k, v, operator.add, width), values, f32)
    assert_same(got, np.concatenate([tree_sum(part) for part in values.reshape(-1, width)]))


@pytest.mark.parametrize("block", [1, 2, 16, 32, 64, 256, 1024, (8, 4, 4)])
@pytest.mark.parametrize("type", [f32, f64, i32, i64, u32], ids=repr)
def test_block_reduction(block, type):
    k = Builder("total", block=block)
    threads = int(np.prod(block))
    out, x = k.pointer("out", type, "w"), k.pointer("x", type, "r")
    i = k.ctaid * threads + k.thread_index()
    out[i] = block_reduce(k, x[i], operator.add)
    values = np.random.default_rng(1).integers(-100, 100, 3 * threads).astype(type.dtype)
    if type.is_float:
        values = values / type.dtype.type(7)
    result = np.zeros_like(values)
    launch(k.build(), result, values, grid=3)
    for got, part in zip(result.reshape(3, -1), values.reshape(3, -1), strict=True):
        warps = part.reshape(-1, min(threads, 32))
        total = tree_sum(np.asarray([tree_sum(w)[0] for w in warps]))[0]
        assert_same(got, np.full(threads, total, type.dtype))


def test_two_block_reductions_in_a_row():
    values = np.random.default_rng(2).random(256)
    got = run(lambda k, v: block_reduce(k, v, k.max) - block_reduce(k, v, k.min), values, f64, block=256)
    assert_same(got, np.full(256, values.max() - values.min()))


def test_block_reduction_in_a_loop():
    """The shared memory of one round is free for the next."""
    k = Builder("rounds", block=64)
    out = k.pointer("out", u32, "w")
    total = k.var(0, u32)
    with k.range(0, k.const(4, u32)) as j:
        total.set(total * 10 + block_reduce(k, k.tid * 0 + j, k.max))
    out[k.tid] = total
    result = np.zeros(64, np.uint32)
    launch(k.build(), result)
    assert set(result.tolist()) == {123}


def test_block_reduction_of_predicates():
    values = np.arange(128) == 77
    assert run(lambda k, p: block_reduce(k, p, operator.or_), values, pred, block=128).all()
    assert not run(lambda k, p: block_reduce(k, p, operator.and_), values, pred, block=128).any()


def test_block_reduction_of_half_words():
    values = specimens(bf16, num=128)

    def either(k, a, b):
        return k.bitcast(k.bitcast(a, u16) | k.bitcast(b, u16), bf16)

    got = run(lambda k, v: block_reduce(k, v, functools.partial(either, k)), values, bf16, block=128)
    assert_same(got, np.full(128, np.bitwise_or.reduce(values)))


def test_block_reduction_needs_a_power_of_two():
    k = Builder("odd", block=96)
    with pytest.raises(ValueError, match="power-of-two number of threads, not 96"):
        block_reduce(k, k.tid, operator.add)

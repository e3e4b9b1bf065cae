"""Branches, loops and variables: by hand, and random programs against a one-lane interpreter."""
# ruff: noqa: ARG001  (the bodies of trials share one signature)

import numpy as np
import pytest

from oxinp._ptx import Builder
from oxinp._ptx.types import f32, f64, i32, i64, u8, u32, u64
from tests.comparator import assert_same
from tests.ptx import one_lane
from tests.ptx.launch import launch

LANES = 64


def run_over_lanes(body, is_walked, num=LANES, grid=1, type=i32):
    """Run ``body(k, lane number) -> value`` and collect what each lane got.

    `is_walked` puts something that may block beside it, so that lanes part instead of being masked.
    """
    k = Builder("trial", block=num // grid)
    out = k.pointer("out", type, "w")
    flag = k.pointer("flag", u32)
    i = k.ctaid * k.ntid + k.tid

    def pause():
        if is_walked:
            flag.load(0, order="relaxed.gpu")

    out[i] = body(k, k.cast(i, i32), pause)
    built = k.build()
    result = np.zeros(num, type.dtype)
    launch(built, result, np.zeros(1, np.uint32), grid=grid)
    return result


walked = pytest.mark.parametrize("is_walked", [False, True], ids=["masked", "walked"])


@walked
def test_when_and_otherwise(is_walked):
    def body(k, i, pause):
        v = k.var(-1, i32)
        with k.when(i % 3 == 0):
            pause()
            v.set(i * 10)
        with k.otherwise():
            with k.when(i % 3 == 1):
                pause()
                v.set(i * 100)
            v += 1
        return v

    wanted = [10 * i if i % 3 == 0 else 100 * i + 1 if i % 3 == 1 else 0 for i in range(LANES)]
    assert run_over_lanes(body, is_walked).tolist() == wanted


@walked
def test_range_with_divergent_bounds(is_walked):
    def body(k, i, pause):
        total = k.var(0, i32)
        with k.range(0, i % 7) as j:
            pause()
            total += j * j + 1
        return total

    assert run_over_lanes(body, is_walked).tolist() == [sum(j * j + 1 for j in range(i % 7)) for i in range(LANES)]


@walked
def test_break_and_continue(is_walked):
    def body(k, i, pause):
        total = k.var(0, i32)
        with k.range(i, 40, 3) as j:
            pause()
            k.continue_if(j % 2 == 0)
            with k.when(j > 30):
                k.break_if(i % 2 == 1)
                total += 1000
            total += j
        return total

    def reference(i):
        total = 0
        for j in range(i, 40, 3):
            if j % 2 == 0:
                continue
            if j > 30:
                if i % 2 == 1:
                    break
                total += 1000
            total += j
        return total

    assert run_over_lanes(body, is_walked).tolist() == [reference(i) for i in range(LANES)]


@walked
def test_nested_loops(is_walked):
    def body(k, i, pause):
        n, total = k.var(i), k.var(0, i32)
        with k.loop():
            k.break_if(n == 0)
            with k.range(n) as j:
                k.break_if(j > 4)
                pause()
                total += j
            n.set(n / 2)
        return total

    def reference(n):
        total = 0
        while n:
            total += sum(range(min(n, 5)))
            n //= 2
        return total

    assert run_over_lanes(body, is_walked).tolist() == [reference(i) for i in range(LANES)]


@walked
def test_continue_in_a_bare_loop(is_walked):
    def body(k, i, pause):
        n, total = k.var(i), k.var(0, i32)
        with k.loop():
            k.break_if(n == 0)
            n -= 1
            pause()
            with k.when(n % 2 == 0):
                k.continue_if(n % 3 == 0)
                total += 100
            total += n
        return total

    def reference(i):
        return sum(0 if n % 6 == 0 else n + 100 * (n % 2 == 0) for n in range(i))

    assert run_over_lanes(body, is_walked).tolist() == [reference(i) for i in range(LANES)]


@walked
@pytest.mark.parametrize(
    ("start", "stop", "step"), [(0, 10, 1), (10, 0, -1), (3, 20, 7), (20, 3, -7), (5, 5, 1), (7, 2, 3)]
)
def test_range_is_pythons(start, stop, step, is_walked):
    def body(k, i, pause):
        total = k.var(0, i32)
        with k.range(start, stop, step) as j:
            pause()
            total.set(total * 31 + j)
        return total

    wanted = 0
    for j in range(start, stop, step):
        wanted = wanted * 31 + j
    wanted = (wanted + 2**31) % 2**32 - 2**31
    assert set(run_over_lanes(body, is_walked).tolist()) == {wanted}


@pytest.mark.parametrize(
    ("start", "stop", "step"), [(2**32 - 10, 2**32 - 1, 4), (2**32 - 10, 2**32 - 1, 1), (9, 0, -4), (8, 0, -4)]
)
def test_unsigned_range_does_not_wrap(start, stop, step):
    def body(k, i, pause):
        count = k.var(0, i32)
        with k.range(k.const(start, u32), stop, step):
            count += 1
        return count

    assert set(run_over_lanes(body, is_walked=False).tolist()) == {len(range(start, stop, step))}


@pytest.mark.parametrize("type", [u32, u64, i32, i64])
@pytest.mark.parametrize("n", [0, 1, 63, 64, 65, 1000])
def test_grid_stride_visits_each_once(type, n):
    k = Builder("visit", block=32)
    count = k.pointer("count", u32)
    size = k.scalar("n", type)
    with k.grid_stride(size) as i:
        count[i] = count[i] + 1
    visits = np.zeros(max(n, 1), np.uint32)
    launch(k.build(), visits, n, grid=2)
    assert visits.tolist() == ([1] * n or [0])


def test_two_dimensional_coordinates():
    k = Builder("axes", block=(4, 3, 2))
    out = k.pointer("out", u32, "w")
    place = k.var(0, u32)
    for extent, coordinate in (
        (2, k.ctaid.z),
        (5, k.ctaid.y),
        (3, k.ctaid.x),
        (2, k.tid.z),
        (3, k.tid.y),
        (4, k.tid.x),
    ):
        place.set(place * extent + coordinate)
    out[place] = (k.ntid.z * 100 + k.ntid.y * 10 + k.ntid.x) * 1000 + k.nctaid.z * 100 + k.nctaid.y * 10 + k.nctaid.x
    result = np.zeros(2 * 5 * 3 * 2 * 3 * 4, np.uint32)
    launch(k.build(), result, grid=(3, 5, 2))
    assert set(result.tolist()) == {234253}


def test_a_copy_of_a_variable_stays():
    def body(k, i, pause):
        v = k.var(i)
        before = v.get()
        v += 5
        return before * 1000 + v

    assert run_over_lanes(body, is_walked=False).tolist() == [i * 1000 + i + 5 for i in range(LANES)]


def test_every_assigning_operator():
    def body(k, i, pause):
        v = k.var(i)
        v += 7
        v *= 3
        v -= 1
        v <<= 2
        v >>= 1
        v |= 64
        v &= 0xFFF
        v ^= 5
        return v

    assert run_over_lanes(body, is_walked=False).tolist() == [
        ((((i + 7) * 3 - 1) * 4 >> 1 | 64) & 0xFFF) ^ 5 for i in range(LANES)
    ]


def test_reflected_operators():
    def body(k, i, pause):
        x = i + 1
        return (100 - x) + (100 / x) + (100 % x) + (3 * x) + (7 & x) + (8 | x) + (5 ^ x) + (1 + x)

    def reference(x):
        return (100 - x) + (100 // x) + (100 % x) + 3 * x + (7 & x) + (8 | x) + (5 ^ x) + (1 + x)

    assert run_over_lanes(body, is_walked=False).tolist() == [reference(i + 1) for i in range(LANES)]


def test_bytes_wrap():
    k = Builder("bytes", block=256)
    out, x = k.pointer("out", u8, "w"), k.pointer("x", u8, "r")
    out[k.tid] = k.where(x[k.tid] * 3 > 100, x[k.tid] * 3 + 200, -x[k.tid])
    values = np.arange(256, dtype=np.uint8)
    result = np.zeros_like(values)
    launch(k.build(), result, values)
    tripled = values * np.uint8(3)
    assert_same(result, np.where(tripled > 100, tripled + np.uint8(200), -values))


@pytest.mark.parametrize("type", [f32, f64], ids=repr)
def test_maximum_is_numpys(type):
    values = np.array([0.0, 1, -1, np.nan, np.inf, -np.inf, 3, 2], type.dtype)
    x, y = np.repeat(values, 8), np.tile(values, 8)
    k = Builder("extrema", block=64)
    low, high = k.pointer("low", type, "w"), k.pointer("high", type, "w")
    a, b = k.pointer("a", type, "r"), k.pointer("b", type, "r")
    low[k.tid], high[k.tid] = k.min_nan(a[k.tid], b[k.tid]), k.max_nan(a[k.tid], b[k.tid])
    lows, highs = np.zeros_like(x), np.zeros_like(x)
    launch(k.build(), lows, highs, x, y)
    assert_same(lows, np.minimum(x, y))
    assert_same(highs, np.maximum(x, y))


@pytest.mark.parametrize("seed", range(40))
def test_random_programs(seed):
    """Masked, walked, in one block or several: each lane gets what it gets alone."""
    wanted = None
    for is_walked, grid in ((False, 1), (True, 1), (True, 4)):
        rng = np.random.default_rng(seed)

        def body(k, i, pause, rng=rng):
            return one_lane.random_body(k, i, pause, rng)

        result = run_over_lanes(body, is_walked=is_walked, grid=grid)
        if wanted is None:
            wanted = result
            k = Builder("alone", block=LANES)
            rng = np.random.default_rng(seed)
            value = one_lane.random_body(k, k.cast(k.tid, i32), lambda: None, rng)
            built = k.build()
            alone = [one_lane.run(built, {"tid.x": lane}, value) for lane in range(LANES)]
            assert result.tolist() == alone
        assert result.tolist() == wanted.tolist()

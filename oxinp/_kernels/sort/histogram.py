"""What a radix sort finds out before it moves anything: the digits' histograms, and which passes there have to be.

Data layout: rows of keys, one after the other; per row and digit `NUM_BINS` counters, one after the other. Who owns
what: a block of `histogram` a share of a row, a block of `route` a row. Algorithm: `histogram` counts in shared memory,
in as many copies as fit, which lanes take in turns, so that lanes of one digit seldom meet; `route` turns counts into
the number of keys in the bins before, and leaves out the digits that all keys of a row share. Bytes per key: the key,
once.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from oxinp._kernels.problem import MAX_KERNELS
from oxinp._kernels.sort.keys import NUM_BINS, all_digits, carrier, num_digits
from oxinp._ptx import Builder, Kernel
from oxinp._ptx.frozen import Frozen
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.types import Type, i64, u32, u64
from oxinp._ptx.warp import WARP

if TYPE_CHECKING:
    from oxinp._ptx.memory import Pointer
    from oxinp._ptx.value import Value

BLOCK = 256
SHARED_NBYTES = 32 * 1024
MAX_COPIES = 8
NBYTES_IN_FLIGHT = 64  # of keys per thread

# A route: what a pass has to do for a row.
RUNS, IS_FIRST, IS_LAST, IS_SECOND_TARGET, IS_ODD = (1 << i for i in range(5))


class HistogramSpec(Frozen):
    """The kernel that counts all digits of keys.

    Attributes
    ----------
    type : Type
        Of elements.
    bits : int
        Of counters: 32 where a row has less than 2**30 keys, else 64.
    is_descending : bool
        The greatest elements come first, NaNs last.
    """

    type: Type
    bits: int
    is_descending: bool = False


class RouteSpec(Frozen):
    """The kernel that makes starts of counts, and finds the way of rows through the passes.

    Attributes
    ----------
    num_digits : int
    bits : int
        Of counters.
    """

    num_digits: int
    bits: int


@lru_cache(MAX_KERNELS)
@retraceable
def make(spec: HistogramSpec | RouteSpec) -> Kernel:
    """Build the kernel of a Spec."""
    return _histogram(spec) if isinstance(spec, HistogramSpec) else _route(spec)


def counter(bits: int) -> Type:
    """Return the type of counters and of places in a row."""
    return u32 if bits == u32.bits else u64


def num_in_flight(type_: Type) -> int:
    """Return how many keys a thread of `histogram` loads at a time."""
    return NBYTES_IN_FLIGHT // max(type_.nbytes, 4)


def _histogram(spec: HistogramSpec) -> Kernel:
    k = Builder("sort_histogram", block=BLOCK)
    place = counter(spec.bits)
    keys, counts = k.pointer("keys", carrier(spec.type), "r"), k.pointer("counts", place)
    length, share = (k.scalar(name, place) for name in ("length", "share"))
    blocks_per_row = k.scalar("blocks_per_row", u32)
    count, copies = num_digits(spec.type), MAX_COPIES
    while copies * count * NUM_BINS * u32.nbytes > SHARED_NBYTES:
        copies //= 2
    bins = k.dynamic_shared(u32, count * NUM_BINS * copies)
    total = count * NUM_BINS * copies
    for i in range(0, total, BLOCK):
        bins[k.tid + i] = 0
    k.barrier()
    row = k.ctaid / blocks_per_row
    source = keys.at(k.cast(row, i64) * k.cast(length, i64))
    first = k.cast(k.ctaid - row * blocks_per_row, place) * share
    end = k.min(length, first + share)
    each = num_in_flight(spec.type)
    position = k.var(first + k.cast(k.tid, place))
    own = bins.at(k.lane % copies)
    with k.loop():
        k.break_if(position + (each - 1) * BLOCK >= end)
        for key in [source[position + i * BLOCK] for i in range(each)]:
            _count(k, own, key, spec, copies)
        position.set(position + each * BLOCK)
    with k.range(position.get(), end, BLOCK) as last:
        _count(k, own, source[last], spec, copies)
    k.barrier()
    target = counts.at(k.cast(row, i64) * (count * NUM_BINS))
    for i in range(count):
        here = k.tid + i * NUM_BINS
        values = bins.load(here * copies, copies)
        found = values[0]
        for value in values[1:]:
            found = found + value
        with k.when(found != 0):
            target.atomic("add", here, k.cast(found, place))
    return k.build()


def _count(k: Builder, own: Pointer, key: Value, spec: HistogramSpec, copies: int) -> None:
    for i, digit in enumerate(all_digits(k, key, spec.type, spec.is_descending)):
        own.at(i * NUM_BINS * copies).atomic("add", digit * copies, 1, order="relaxed.cta")


def _route(spec: RouteSpec) -> Kernel:
    k = Builder("sort_route", block=NUM_BINS)
    place = counter(spec.bits)
    counts, routes = k.pointer("counts", place), k.pointer("routes", u32, "w")
    length = k.scalar("length", place)
    num_warps = NUM_BINS // WARP
    totals = k.shared(place, (spec.num_digits, num_warps))
    shared = k.shared(u32, (spec.num_digits, num_warps))
    row = counts.at(k.cast(k.ctaid, i64) * (spec.num_digits * NUM_BINS))
    loaded = [row[k.tid + i * NUM_BINS] for i in range(spec.num_digits)]
    through = []
    for i, count in enumerate(loaded):
        value, distance = count, 1
        while distance < WARP:
            value = value + k.where(k.lane >= distance, k.shfl_up(value, distance), k.const(0, place))
            distance *= 2
        through.append(value)
        is_one_bin = k.any(count == length)
        with k.when(k.lane == WARP - 1):
            totals[i, k.warp] = value
            shared[i, k.warp] = k.cast(is_one_bin, u32)
    k.barrier()
    for i, (count, value) in enumerate(zip(loaded, through, strict=True)):
        before = k.const(0, place)
        for w in range(num_warps - 1):
            before = before + k.where(k.warp > w, totals[i, w], k.const(0, place))
        row[k.tid + i * NUM_BINS] = before + value - count
    with k.when(k.tid == 0):
        runs = []
        for i in range(spec.num_digits):
            is_shared = shared[i, 0]
            for w in range(1, num_warps):
                is_shared = is_shared | shared[i, w]
            runs.append(is_shared ^ 1)
        _store_routes(k, routes.at(k.cast(k.ctaid, i64) * spec.num_digits), runs)
    return k.build()


def _store_routes(k: Builder, routes: Pointer, runs: list[Value]) -> None:
    """Store the routes of a row, given which passes run: the first one, if no other does."""
    total = runs[0]
    for run in runs[1:]:
        total = total + run
    runs = [runs[0] | k.cast(total == 0, u32), *runs[1:]]
    total = k.max(total, 1)
    number = k.const(0, u32)
    for i, run in enumerate(runs):
        left = total - 1 - number
        route = (
            k.where(number == 0, k.const(RUNS | IS_FIRST, u32), k.const(RUNS, u32))
            | k.where(left == 0, k.const(IS_LAST, u32), k.const(0, u32))
            | k.where((left & 1) == 0, k.const(0, u32), k.const(IS_SECOND_TARGET, u32))
            | k.where((number & 1) == 0, k.const(0, u32), k.const(IS_ODD, u32))
        )
        routes[i] = k.where(run == 0, k.const(0, u32), route)
        number = number + run


__all__ = [
    "BLOCK",
    "IS_FIRST",
    "IS_LAST",
    "IS_ODD",
    "IS_SECOND_TARGET",
    "RUNS",
    "HistogramSpec",
    "RouteSpec",
    "counter",
    "make",
    "num_in_flight",
]

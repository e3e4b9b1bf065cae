"""Counts: how many elements fall into each bin, by number (`numpy.bincount`) or between edges (`numpy.histogram`).

Data layout: elements; a counter of 64 bits per bin, zeros before; where there are edges, one more than bins. Who owns
what: a block every grid's worth of elements, `ITEMS` of a thread loaded before the first is counted. Algorithm: blocks
count in shared memory, in as many copies as fit, which lanes take in turns, so that lanes of one bin seldom meet; more
bins than fit are counted in memory. Between equidistant edges a product says which edge is the nearest, and how far it
is; only elements as near to it as the product may be off are compared with the edge, after all others that a thread has
at a time have been counted without a branch; between other edges bins are searched.
Counts are integers: whoever is first, the same input gives the same result. Bytes per element: the element, once.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from oxinp._kernels.plan import Argument, Fill, Launch, Plan, Work
from oxinp._kernels.problem import MAX_KERNELS
from oxinp._ptx import Builder, Kernel
from oxinp._ptx.frozen import Frozen
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.types import UNSIGNED, Type, f32, f64, i64, u32, u64

if TYPE_CHECKING:
    from oxinp._kernels.choice import Device
    from oxinp._ptx.memory import Pointer
    from oxinp._ptx.value import Value

BLOCK = 256
ITEMS, FEWER_ITEMS = 8, 4  # of a thread; fewer are estimated in f64
MAX_COPIES = 16
COPIES_NBYTES = 32 * 1024
MAX_SHARED_NBYTES = 64 * 1024
BLOCKS_PER_SM = 6
MIN_BITS = 7  # counters, as a power of two
MIN_BLOCKS, MIN_BLOCKS_OF_ESTIMATES = 4, 6
ROUNDING = {f32: 2.0**23, f64: 2.0**52}
"""What, added to a number below it, leaves no bits for a fraction."""
MAX_ESTIMATED = {4: 1 << 22, 8: 1 << 31}  # bins, by bytes of an edge


class CountSpec(Frozen):
    """One kernel of the family.

    Attributes
    ----------
    type : Type
        Of elements: integers where they are numbers of bins.
    edge : Type or None
        f32 or f64: of edges, which elements are compared with as such; None where elements are numbers of bins.
    is_uniform : bool
        Edges have equal distances, but for rounding; behind them is their `deviation`.
    copies : int
        Of counters in shared memory, a power of two; 0: in memory.
    room : int
        For how many counters there is shared memory.
    """

    type: Type
    edge: Type | None
    is_uniform: bool
    copies: int
    room: int

    @property
    def items(self) -> int:
        """Elements that a thread loads before it counts the first."""
        return FEWER_ITEMS if self.is_uniform and self.edge is f64 else ITEMS


def spec_of(num_bins: int, type_: Type, edge: Type | None, device: Device, *, is_uniform: bool) -> CountSpec:
    """Return the Spec for a number of bins."""
    room = 1 << max(MIN_BITS, (num_bins - 1 + is_uniform).bit_length())  # one more, for what is in no bin
    if room * u32.nbytes > min(MAX_SHARED_NBYTES, device.max_shared_nbytes):
        return CountSpec(type_, edge, is_uniform, 0, 0)
    copies = 1
    while copies < MAX_COPIES and 2 * copies * room * u32.nbytes <= COPIES_NBYTES:
        copies *= 2
    return CountSpec(type_, edge, is_uniform, copies, copies * room)


def count(
    size: int, num_bins: int, type_: Type, edge: Type | None, device: Device, *, is_uniform: bool = False
) -> Plan:
    """Return the plan that counts the elements of input 0, between the edges of input 1 if there are any.

    Elements that are numbers of bins have to be from 0 to ``num_bins - 1``: nobody looks. Equidistant edges are
    followed by their `deviation`.
    """
    spec = spec_of(num_bins, type_, edge, device, is_uniform=is_uniform)
    blocks = min(-(-size // (BLOCK * spec.items)), BLOCKS_PER_SM * device.num_sms)
    out = Argument("out0")
    arguments = (out, Argument("in0"), *(() if edge is None else (Argument("in1"),)))
    work = Work(nbytes=size * type_.nbytes)
    launch = Launch(make(spec), (blocks, 1, 1), arguments, (size, num_bins), work)
    return Plan((Fill(out, num_bins * u64.nbytes, 0), launch))


def deviation(edges: np.ndarray[Any, Any]) -> float | None:
    """Return how far from their numbers the kernel finds equidistant edges; None if it had better search.

    The number that it computes never falls where elements rise: beyond the deviation it is on the right side of an
    edge.
    """
    count = edges.size - 1
    if count > MAX_ESTIMATED[edges.dtype.itemsize]:
        return None
    with np.errstate(all="ignore"):
        numbers = (edges - edges[0]) * (edges.dtype.type(count) / (edges[-1] - edges[0]))
        result = float(np.abs(numbers - np.arange(count + 1)).max())
    return result if result < 0.5 else None  # nearer to this edge than to others


@lru_cache(MAX_KERNELS)
@retraceable
def make(spec: CountSpec) -> Kernel:
    """Build the kernel of a Spec."""
    return _Count(spec).build()


class _Count:
    """The kernel while it is built."""

    def __init__(self, spec: CountSpec) -> None:
        self.spec = spec
        min_blocks = MIN_BLOCKS_OF_ESTIMATES if spec.is_uniform else MIN_BLOCKS
        self.k = k = Builder("count", block=BLOCK, min_blocks=min_blocks)
        self.out, self.elements = k.pointer("out", u64), k.pointer("elements", spec.type, "r")
        self.edges = None if spec.edge is None else k.pointer("edges", spec.edge, "r")
        self.size, self.num_bins = k.scalar("size", i64), k.scalar("num_bins", u32)
        self.counters = k.dynamic_shared(u32, spec.room) if spec.copies else None
        if self.counters is not None:
            self.own = self.counters.at(k.lane & (spec.copies - 1))

    def build(self) -> Kernel:
        k, spec = self.k, self.spec
        if self.counters is not None:
            with k.range(k.tid, (self.num_bins + spec.is_uniform) * spec.copies, BLOCK) as at_start:
                self.counters[at_start] = 0
            k.barrier()
        if self.edges is not None:
            self.first = self.edges[0]
            self.scale = k.cast(self.num_bins, self.first.type) / (self.edges[self.num_bins] - self.first)
            if spec.is_uniform:
                self.half = self.half_apart()
        step = BLOCK * spec.items
        at = k.var(k.cast(k.ctaid, i64) * step + k.cast(k.tid, i64))
        with k.loop():
            k.break_if(at + (step - BLOCK) >= self.size)
            self.take_all([self.elements[at + i * BLOCK] for i in range(spec.items)])
            at.set(at + k.cast(k.nctaid, i64) * step)
        with k.range(at.get(), self.size, BLOCK) as last:
            self.take(self.elements[last])
        if self.counters is not None:
            k.barrier()
            with k.range(k.tid, self.num_bins, BLOCK) as bin_:
                found = k.const(0, u32)
                for i in range(spec.copies):  # lanes begin at different copies, which are in different banks
                    found = found + self.counters[bin_ * spec.copies + ((k.lane + i) & (spec.copies - 1))]
                with k.when(found != 0):
                    self.out.atomic("add", bin_, k.cast(found, u64))
        return k.build()

    def half_apart(self) -> Value:
        """How near an element's number is to the middle of a bin, at most, so that no rounding matters."""
        k, edges, float_ = self.k, self.edges, self.first.type
        assert edges is not None
        unit = 2.0**-22 if float_ is f32 else 2.0**-51
        return (0.5 - unit) - (edges[self.num_bins + 1] + k.cast(self.num_bins, float_) * unit)

    def take_all(self, values: list[Value]) -> None:
        """Count elements: those that are clearly inside a bin at once, then the others one by one, if there are any.

        The number of an element's bin is its distance from the first edge in bins, less a half, rounded. It is right
        where what is rounded off is less than `half_apart`.
        """
        k = self.k
        if not self.spec.is_uniform:
            for value in values:
                self.take(value)
            return
        are_clear = [self.take_clear(value) for value in values]
        all_clear = are_clear[0]
        for is_clear in are_clear[1:]:
            all_clear = all_clear & is_clear
        with k.when(~all_clear):
            for value, is_clear in zip(values, are_clear, strict=True):
                with k.when(~is_clear):
                    self.take(value)

    def take_clear(self, value: Value) -> Value:
        """Count an element if it is clearly inside a bin, or else in the counter behind all; return whether it is."""
        k, float_ = self.k, self.first.type
        magic = 1.5 * ROUNDING[float_]  # negative numbers are rounded to integers, too
        number = k.fma(k.cast(value, float_) - self.first, self.scale, -0.5)
        rounded = number + magic
        is_clear = k.abs(number - (rounded - magic)) < self.half
        bits = k.bitcast(rounded, UNSIGNED[float_.bits])
        bin_ = bits - int(np.array(magic, float_.dtype).view(f"u{float_.nbytes}"))
        num_bins = k.cast(self.num_bins, bin_.type)
        if self.spec.copies:
            self.add(k.where(is_clear, k.cast(k.min(bin_, num_bins), u32), self.num_bins))
        else:
            with k.when(is_clear & (bin_ < num_bins)):
                self.add(k.cast(bin_, u32))
        return is_clear

    def take(self, value: Value) -> None:
        """Count an element."""
        k = self.k
        if self.edges is None:
            self.add(k.cast(value, u32))
            return
        x = k.cast(value, self.first.type)
        with k.when((x >= self.first) & (x <= self.edges[self.num_bins])):
            self.add(
                estimated(k, self.edges, self.first, self.scale, self.num_bins, x)
                if self.spec.is_uniform
                else self.searched(x)
            )

    def add(self, bin_: Value) -> None:
        """Count an element of a bin."""
        k = self.k
        if self.counters is None:
            self.out.atomic("add", bin_, k.const(1, u64))
        else:
            self.own.atomic("add", bin_ * self.spec.copies, 1, order="relaxed.cta")

    def searched(self, x: Value) -> Value:
        """The last bin that begins at or before an element; of bins without width the last one."""
        k, edges = self.k, self.edges
        assert edges is not None
        begin, left = k.var(0, u32), k.var(self.num_bins)
        with k.loop():
            k.break_if(left <= 1)
            half = left.get() >> 1
            begin.set(k.where(edges[begin + half] <= x, begin + half, begin))
            left.set(left - half)
        return begin.get()


def estimated(k: Builder, edges: Pointer, first: Value, scale: Value, num_bins: Value, x: Value) -> Value:
    """Return the bin between equidistant edges: the side of the nearest edge, which is looked at where that is close.

    Parameters
    ----------
    k : Builder
    edges : Pointer
        Followed by their `deviation`.
    first, scale : Value
        The first edge, and bins per distance.
    num_bins : Value
    x : Value
        From the first edge to the last one.
    """
    float_ = first.type
    number = (x - first) * scale
    rounded = number + ROUNDING[float_]  # the last bits are the nearest integer
    bits = k.bitcast(rounded, UNSIGNED[float_.bits])
    nearest = k.unpack(bits)[0] if float_ is f64 else bits & (int(ROUNDING[f32]) - 1)
    distance = number - (rounded - ROUNDING[float_])
    is_below = k.var(k.cast(distance < 0, u32))
    with k.when(k.abs(distance) <= edges[num_bins + 1]):
        is_below.set(k.cast(x < edges[nearest], u32))
    return k.min(nearest - is_below, num_bins - 1)


__all__ = ["CountSpec", "count", "deviation", "estimated", "make", "spec_of"]

"""Convolutions of vectors by their definition: every element of the result is a sum of products.

Data layout: two vectors, the longer one and the taps; a range of their full convolution. Who owns what: a block
``BLOCK * outputs`` neighbouring elements of the result, a thread `outputs` of them, an odd number, so that threads read
different banks. Algorithm: for each `CHUNK` taps a block loads these and the elements that they meet into shared
memory; a thread keeps as many of these as it has outputs in registers, which move on by one with every tap: per tap it
loads an element and a tap and adds `outputs` products. Products of a chunk are added one after the other, then the sums
of chunks; integers are as exact as in NumPy, float16 is added up in float32. What lies beyond the ends of the longer
vector takes no part, so that infinities stay where they are. Bytes: the elements once per chunk.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from oxinp._kernels.plan import Argument, Launch, Plan, Work
from oxinp._kernels.problem import MAX_KERNELS
from oxinp._ptx import Builder, Kernel
from oxinp._ptx.frozen import Frozen
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.types import Type, f16, f32, f64, i32, i64, u32

if TYPE_CHECKING:
    from oxinp._ptx.memory import Pointer
    from oxinp._ptx.value import Value

BLOCK = 128
CHUNK = 256
STEP = 8  # taps whose products are written out
OUTPUTS = {4: 15, 8: 9, 16: 5}
"""Of a thread, by the bytes of what it adds up."""


class ConvolveSpec(Frozen):
    """The kernel.

    Attributes
    ----------
    type : Type
        Of both vectors and of the result; no truth values.
    """

    type: Type

    @property
    def total(self) -> Type:
        """Of sums."""
        if self.type is f16:
            return f32
        return self.type if self.type.nbytes >= i32.nbytes else i32 if self.type.kind == "i" else u32

    @property
    def outputs(self) -> int:
        """Elements of the result per thread."""
        return OUTPUTS[self.total.nbytes]


def convolve(size: int, num_taps: int, start: int, count: int, type_: Type) -> Plan:
    """Return the plan of some elements of the full convolution of a vector, input 0, and taps, input 1.

    Parameters
    ----------
    size, num_taps : int
        At least 1 each.
    start, count : int
        The first element, and how many.
    type_ : Type
    """
    spec = ConvolveSpec(type_)
    grid = (-(-count // (BLOCK * spec.outputs)), 1, 1)
    arguments = (Argument("out0"), Argument("in0"), Argument("in1"))
    flops = 2 * min(size, num_taps, count) * count * (4 if type_.is_complex else 1)
    work = Work(flops, (size + num_taps + count) * type_.nbytes)
    return Plan((Launch(make(spec), grid, arguments, (size, num_taps, start, count), work),))


@lru_cache(MAX_KERNELS)
@retraceable
def make(spec: ConvolveSpec) -> Kernel:
    """Build the kernel of a Spec."""
    return _Convolve(spec).build()


class _Convolve:
    """The kernel while it is built."""

    def __init__(self, spec: ConvolveSpec) -> None:
        self.spec = spec
        self.k = k = Builder("convolve", block=BLOCK)
        self.out = k.pointer("out", spec.type, "w")
        self.elements, self.taps = k.pointer("elements", spec.type, "r"), k.pointer("taps", spec.type, "r")
        self.size, self.num_taps = k.scalar("size", i64), k.scalar("num_taps", i64)
        self.start, self.count = k.scalar("start", i64), k.scalar("count", i64)
        self.tile = BLOCK * spec.outputs
        self.own_taps = k.dynamic_shared(spec.type, CHUNK)
        self.own = k.dynamic_shared(spec.type, self.tile + CHUNK)

    def build(self) -> Kernel:
        k, spec = self.k, self.spec
        origin = k.cast(k.ctaid, i64) * self.tile
        begin = origin + self.start  # of the block, in the full convolution
        zero = self.zero()
        totals = [k.var(zero) for _ in range(spec.outputs)]
        # Taps that meet no element of the vector are left out, in whole chunks.
        tap = k.var(k.max(begin - (self.size - 1), 0) / CHUNK * CHUNK)
        end = k.min(begin + self.tile, self.num_taps)
        with k.loop():
            k.break_if(tap >= end)
            length = k.cast(k.min(end - tap, CHUNK), i32)
            first = begin - tap - k.cast(length - 1, i64)  # the element that the block's first output meets last
            k.barrier()
            self.load(tap.get(), length, first, zero)
            k.barrier()
            is_inside = (first >= 0) & (first + k.cast(length - 1, i64) + self.tile <= self.size)
            with k.when(is_inside):
                self.add(totals, length, zero, None)
            with k.otherwise():
                self.add(totals, length, zero, first)
            tap.set(tap + CHUNK)
        k.barrier()
        for i, total in enumerate(totals):
            self.own[k.tid * spec.outputs + i] = k.cast(total.get(), spec.type)
        k.barrier()
        for i in range(spec.outputs):
            here = k.tid + i * BLOCK
            with k.when(origin + k.cast(here, i64) < self.count):
                self.out[origin + k.cast(here, i64)] = self.own[here]
        return k.build()

    def zero(self) -> Any:
        """Zero, of the type of sums."""
        k, total = self.k, self.spec.total
        return k.compound(total, *[k.const(0, part) for part in total.parts]) if total.is_complex else k.const(0, total)

    def load(self, tap: Value, length: Value, first: Value, zero: Any) -> None:
        """Load a chunk of taps and the elements that it meets; zeros where there are none."""
        k, spec = self.k, self.spec
        with k.range(k.cast(k.tid, i32), length, BLOCK) as number:
            self.own_taps[number] = self.taps[tap + k.cast(number, i64)]
        with k.range(k.cast(k.tid, i32), length + (self.tile - 1), BLOCK) as number:
            place = first + k.cast(number, i64)
            found = self.elements[k.max(k.min(place, self.size - 1), 0)]
            self.own[number] = k.where((place >= 0) & (place < self.size), found, k.cast(zero, spec.type))

    def add(self, totals: list[Any], length: Value, zero: Any, first: Value | None) -> None:
        """Add the products of a chunk to the sums, where elements may be beyond the ends those that are not."""
        k, spec = self.k, self.spec
        sums = [k.var(zero) for _ in range(spec.outputs)]
        begin = k.cast(k.tid, i32) * spec.outputs
        # The elements that the next tap meets, of output 0 first; that of output 0 itself is loaded with the tap.
        window = [k.var(self.element(self.own, begin + (length - 1) + i)) for i in range(1, spec.outputs)]
        number = k.var(0, i32)
        for step in (STEP, 1):
            with k.loop():
                k.break_if(number + step > length)
                held = [each.get() for each in window]
                at = begin + (length - 1) - number
                values = [each.get() for each in sums]
                for i in range(step):
                    held.insert(0, self.element(self.own, at - i if i else at))
                    tap = self.element(self.own_taps, number + i if i else number.get())
                    for j in range(spec.outputs):
                        added = self.product(held[j], tap, values[j])
                        if first is not None:
                            place = first + k.cast(at + (j - i), i64)
                            added = k.where((place >= 0) & (place < self.size), added, values[j])
                        values[j] = added
                    held.pop()
                for variable, value in zip((*window, *sums), (*held, *values), strict=True):
                    variable.set(value)
                number.set(number + step)
        for total, value in zip(totals, sums, strict=True):
            total.set(total + value)

    def element(self, own: Pointer, place: Value) -> Value:
        """An element in shared memory, in the type of sums."""
        value: Value = self.k.cast(own[place], self.spec.total)
        return value

    def product(self, a: Value, b: Value, c: Value) -> Value:
        """The product of two, and a third added."""
        value: Value = self.k.fma(a, b, c) if self.spec.total in (f32, f64) else a * b + c
        return value


__all__ = ["ConvolveSpec", "convolve", "make"]

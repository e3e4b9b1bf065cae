"""The step between a complex transform of half the length and a real one, where that is longer than a block holds.

Data layout: the workspace has a complex transform after the other; the halved side has any strides. Who owns what: a
thread owns one pair (k, n / 2 - k), see `real`. Bytes per element: both sides once.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from oxinp._kernels.elementwise.chain import Divisor, Splitter
from oxinp._kernels.fft.compensated import butterfly, two_sum
from oxinp._kernels.fft.roots import Circle
from oxinp._kernels.fft.spec import SCALAR, SPLIT, STRIDED
from oxinp._kernels.fft.tile import End, Place, evaluate
from oxinp._kernels.fft.traced import traced
from oxinp._kernels.problem import MAX_KERNELS
from oxinp._ptx import Builder, Kernel
from oxinp._ptx.frozen import Frozen
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.types import i32, i64, u32

if TYPE_CHECKING:
    from oxinp._kernels.fft.codelets import Number
    from oxinp._kernels.fft.spec import Fused
    from oxinp._ptx.types import Type
    from oxinp._ptx.value import Value

BLOCK = 256


class PairsSpec(Frozen):
    """One kernel of the family.

    Attributes
    ----------
    type : Type
        c64 or c128.
    halved : Type
        Of the elements of the halved side.
    part : str
        `SPLIT` or `MERGE` of `spec`.
    num_outer : int
        Loops of the batch, at least 1.
    bits : int
        32 where every distance in elements fits, else 64.
    fused : Fused or None
        What elements of the halved side are made of, or what is made of them before they are written.
    stored : Type or None
        What the latter makes; None without.
    """

    type: Type
    halved: Type
    part: str
    num_outer: int
    bits: int
    fused: Fused | None = None
    stored: Type | None = None


def constants(spec: PairsSpec, half: int, extents: tuple[int, ...], size: int) -> tuple[float, ...]:
    """Return the constants that both kernels have; strides and scales follow."""
    count = half // 2 + 1
    splitter = Splitter.constants(extents, spec.bits)
    return (*Divisor.constants(count, spec.bits), count * size, half, *splitter, *Circle.constants(2 * half))


@lru_cache(MAX_KERNELS)
@retraceable
@traced
def make(spec: PairsSpec) -> Kernel:
    """Build the kernel of a Spec; parameters are the workspace, the halved side, then the constants."""
    return _Pairs(spec).build()


class _Pairs:
    """The kernel while it is built."""

    def __init__(self, spec: PairsSpec) -> None:
        self.spec = spec
        self.is_split = spec.part == SPLIT
        self.k = k = Builder(f"fft_{spec.part}", block=BLOCK)
        self.index, self.part = i32 if spec.bits == 32 else i64, spec.type.parts[0]
        self.rows = k.pointer("rows", spec.type, "r" if self.is_split else "w")
        operands = () if spec.fused is None else spec.fused.operands
        written = ((spec.stored or spec.halved, STRIDED),) if self.is_split else ()
        self.target = End(k, "target", written, "w")
        self.source = End(k, "source", operands or (() if self.is_split else ((spec.halved, STRIDED),)), "r")
        self.along = Divisor(k, "along", self.index)
        self.count, self.half = k.scalar("count", self.index), k.scalar("half", self.index)
        self.outer = Splitter(k, "outer", spec.num_outer, self.index)
        self.circle = Circle(k, "circle", self.part)
        for end in (self.target, self.source):
            end.declare_steps(spec.num_outer + 1, self.index)
        if self.is_split:
            self.scales = [k.scalar(name, self.part) for name in ("real_scale", "imag_scale")]
        else:
            self.sign, self.num_valid = k.scalar("sign", self.part), k.scalar("num_valid", self.index)

    def build(self) -> Kernel:
        """Build the kernel."""
        k = self.k
        number = k.cast(k.ctaid, self.index) * BLOCK + k.cast(k.tid, self.index)
        with k.when(number < self.count):
            row, place = self.along.divide(number)
            loops = self.outer.split(row)
            ends = [self._first(end, loops) for end in (self.target, self.source)]
            (self._split if self.is_split else self._merge)(row * self.half, place, *ends)
        return k.build()

    def _first(self, end: End, loops: list[Value]) -> Place:
        """The first element of a row on the halved side."""
        places = []
        for kind, steps, pointer in zip(end.kinds, end.steps, end.origins, strict=True):
            if kind == SCALAR:
                places.append(pointer)
                continue
            strided = steps[-1] * 0
            for loop, step in zip(loops, steps, strict=False):
                strided = strided + loop * step
            places.append(pointer.at(strided))
        return Place(end, places)

    def _root(self, place: Value) -> Number:
        real, imag = self.circle.root(self.k.cast(place, u32))
        return self.k.cast(real, self.part), self.k.cast(imag, self.part)

    def _split(self, origin: Value, place: Value, target: Place, beside: Place) -> None:
        """Two elements of a real sequence's transform."""
        k, spec = self.k, self.spec
        mirrored = self.half - place
        one = self.rows[origin + place].parts
        other = self.rows[origin + k.where(place == 0, k.const(0, self.index), mirrored)].parts
        even = two_sum(one[0], other[0]), two_sum(one[1], -other[1])
        odd = two_sum(one[1], other[1]), two_sum(other[0], -one[0])
        results = butterfly(k, even, odd, self._root(place))
        for at, (real, imag) in zip((place, mirrored), results, strict=True):
            value: Value = k.compound(spec.type, real * self.scales[0], imag * self.scales[1])
            if spec.fused is not None:
                value = evaluate(k, spec.fused, [value, *beside.moved(at).load()])
            target.moved(at).pointer.store(0, (value,))

    def _element(self, source: Place, at: Value) -> Value:
        """An element of the halved side, 0 beyond the last valid one."""
        k, spec = self.k, self.spec
        found = k.var(k.const(0, spec.halved))
        with k.when(at < self.num_valid):
            loaded = source.moved(at).load()
            found.set(loaded[0] if spec.fused is None else evaluate(k, spec.fused, loaded))
        return found.get()

    def _merge(self, origin: Value, place: Value, target: Place, source: Place) -> None:
        """Two elements of what is transformed back."""
        del target
        k, spec = self.k, self.spec
        mirrored, zero = self.half - place, k.const(0, self.part)
        ends = []
        for at in (place, mirrored):
            value = self._element(source, at)
            real, imag = value.parts if spec.halved.is_complex else (value, zero)
            # The ends of a real sequence's transform are real: what else they have does not count.
            imag = k.where(place == 0, zero, k.cast(imag, self.part) * self.sign)
            ends.append((k.cast(real, self.part), imag))
        one, other = ends
        even = two_sum(one[0], other[0]), two_sum(one[1], -other[1])
        # What is odd, times 1j.
        odd = two_sum(-one[1], -other[1]), two_sum(one[0], -other[0])
        cos, minus_sin = self._root(place)
        first, second = butterfly(k, even, odd, (cos, -minus_sin))
        self.rows[origin + place] = k.compound(spec.type, *first)
        with k.when((place != 0) & (place != mirrored)):
            self.rows[origin + mirrored] = k.compound(spec.type, *second)


__all__ = ["BLOCK", "PairsSpec", "constants", "make"]

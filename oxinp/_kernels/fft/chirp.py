"""Products with a chirp, of Bluestein's convolutions that are too long for a block.

Data layout: the workspace has a convolution after the other; source and target have any strides. Who owns what: a
thread owns one element, numbered along the transforms. The chirp's roots of unity are computed where they are needed,
their exponents, squares modulo twice the length, in integers. Bytes per element: read and written once.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING

from oxinp._kernels.elementwise.chain import Divisor, Splitter
from oxinp._kernels.fft.codelets import multiply
from oxinp._kernels.fft.roots import Circle
from oxinp._kernels.fft.traced import traced
from oxinp._kernels.problem import MAX_KERNELS
from oxinp._ptx import Builder, Kernel
from oxinp._ptx.frozen import Frozen
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.types import i32, i64, u32, u64

if TYPE_CHECKING:
    from oxinp._kernels.fft.codelets import Number
    from oxinp._ptx.types import Type
    from oxinp._ptx.value import Value

BLOCK = 256
# What a kernel does.
FILTER = "filter"  # write the chirp's conjugate to both sides
MODULATE = "modulate"  # write the source times the chirp, and zeros
CONVOLVE = "convolve"  # multiply by the transformed filter and conjugate, in place
DEMODULATE = "demodulate"  # write the conjugate times the chirp


class ChirpSpec(Frozen):
    """One kernel of the family.

    Attributes
    ----------
    type : Type
        c64 or c128.
    source, target : Type
        Of what is read and written; of a real target the real part.
    part : str
        One of the constants above.
    num_outer : int
        Loops of the batch, at least 1.
    is_half : bool
        As of `TransformSpec`.
    bits : int
        32 where every distance in elements fits, else 64.
    """

    type: Type
    source: Type
    target: Type
    part: str
    num_outer: int
    is_half: bool
    bits: int


@lru_cache(MAX_KERNELS)
@retraceable
@traced
def make(spec: ChirpSpec) -> Kernel:
    """Build the kernel of a Spec; parameters are target, source where there is one, filter, then the constants."""
    return _Chirp(spec).build()


def constants(spec: ChirpSpec, along: int, lengths: tuple[int, int], extents: tuple[int, ...]) -> tuple[float, ...]:
    """Return the constants that all kernels have; strides and scales follow.

    Parameters
    ----------
    spec : ChirpSpec
    along : int
        Elements of a transform that the kernel visits.
    lengths : tuple of int
        Of the transform and of the convolution.
    extents : tuple of int
        Of the batch's loops.
    """
    count = along if spec.part == FILTER else along * math.prod(extents)
    splitter = Splitter.constants(extents, spec.bits)
    return (*Divisor.constants(along, spec.bits), count, *lengths, *splitter, *Circle.constants(2 * lengths[0]))


class _Chirp:
    """The kernel while it is built."""

    def __init__(self, spec: ChirpSpec) -> None:
        self.spec = spec
        self.k = k = Builder(f"fft_chirp_{spec.part}", block=BLOCK)
        self.part = spec.type.parts[0]
        self.index = i32 if spec.bits == 32 else i64
        self.target = k.pointer("target", spec.target, "rw" if spec.part == CONVOLVE else "w")
        if spec.part in (MODULATE, DEMODULATE):
            self.source = k.pointer("source", spec.source, "r")
        if spec.part == CONVOLVE:
            self.filter = k.pointer("filter", spec.type, "r")
        self.along = Divisor(k, "along", self.index)
        self.count, self.length, self.convolution = (
            k.scalar(name, self.index) for name in ("count", "length", "convolution")
        )
        self.outer = Splitter(k, "outer", spec.num_outer, self.index)
        self.circle = Circle(k, "circle", self.part)

    def build(self) -> Kernel:
        k, spec = self.k, self.spec
        number = k.cast(k.ctaid, self.index) * BLOCK + k.cast(k.tid, self.index)
        given = self._parameters()
        with k.when(number < self.count):
            row, place = self.along.divide(number)
            {FILTER: self._write_filter, MODULATE: self._modulate, CONVOLVE: self._convolve}.get(
                spec.part, self._demodulate
            )(number, row, place, given)
        return k.build()

    def _parameters(self) -> list[Value]:
        k, spec = self.k, self.spec
        if spec.part == MODULATE:
            names = [f"source_step{i}" for i in range(spec.num_outer + 1)]
            return [*[k.scalar(name, self.index) for name in (*names, "num_valid")], k.scalar("sign", self.part)]
        if spec.part == DEMODULATE:
            steps = [k.scalar(f"target_step{i}", self.index) for i in range(spec.num_outer + 1)]
            return [*steps, *[k.scalar(name, self.part) for name in ("real_scale", "imag_scale")]]
        return []

    def _chirp(self, place: Value) -> Number:
        """exp(-1j * pi * place**2 / length)."""
        k = self.k
        wide = k.cast(k.cast(place, i64), u64)
        root = self.circle.root(k.cast((wide * wide) % (k.cast(k.cast(self.length, i64), u64) * 2), u32))
        return k.cast(root[0], self.part), k.cast(root[1], self.part)

    def _write_filter(self, number: Value, row: Value, place: Value, given: list[Value]) -> None:
        del row, given
        k = self.k
        distance = k.min(place, self.convolution - place)
        real, imag = self._chirp(distance)
        is_inside = distance < self.length
        zero = k.const(0, self.part)
        real, imag = (k.where(is_inside, part, zero) for part in (real, -imag))
        self.target[number] = k.compound(self.spec.type, real, imag)

    def _modulate(self, number: Value, row: Value, place: Value, given: list[Value]) -> None:
        k, spec = self.k, self.spec
        *steps, num_valid, sign = given
        where = place
        if spec.is_half:
            mirrored = self.length - place
            sign = k.where(place > mirrored, -sign, sign)
            where = k.min(place, mirrored)
        source = where * steps[-1]
        for loop, step in zip(self.outer.split(row), steps, strict=False):
            source = source + loop * step
        result = k.var(k.const(0, spec.type))
        with k.when((where < num_valid) & (place < self.length)):
            value = self.source[source]
            if spec.source.is_complex:
                number_read = k.cast(value.parts[0], self.part), k.cast(value.parts[1], self.part) * sign
            else:
                number_read = k.cast(value, self.part), k.const(0, self.part)
            result.set(k.compound(spec.type, *multiply(k, number_read, self._chirp(place))))
        self.target[number] = result.get()

    def _convolve(self, number: Value, row: Value, place: Value, given: list[Value]) -> None:
        del row, given
        k = self.k
        value, factor = self.target[number], self.filter[place]
        real, imag = multiply(k, value.parts, factor.parts)  # type: ignore[arg-type]
        self.target[number] = k.compound(self.spec.type, real, -imag)

    def _demodulate(self, number: Value, row: Value, place: Value, given: list[Value]) -> None:
        del number
        k, spec = self.k, self.spec
        *steps, real_scale, imag_scale = given
        target = place * steps[-1]
        for loop, step in zip(self.outer.split(row), steps, strict=False):
            target = target + loop * step
        real, imag = self.source[row * self.convolution + place].parts
        real, imag = multiply(k, (real, -imag), self._chirp(place))
        if spec.target.is_complex:
            self.target[target] = k.compound(spec.type, real * real_scale, imag * imag_scale)
        else:
            self.target[target] = real * real_scale


__all__ = ["BLOCK", "CONVOLVE", "DEMODULATE", "FILTER", "MODULATE", "ChirpSpec", "constants", "make"]

"""The step between a complex transform of half the length and a real one, where that is longer than a block holds.

Data layout: the workspace has a complex transform after the other; the halved side has any strides. Who owns what: a
thread owns one pair (k, n / 2 - k), see `real`. Bytes per element: both sides once.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from oxinp._kernels.elementwise.chain import Divisor, Splitter
from oxinp._kernels.fft.codelets import multiply
from oxinp._kernels.fft.roots import Circle
from oxinp._kernels.fft.spec import SPLIT
from oxinp._kernels.problem import MAX_KERNELS
from oxinp._ptx import Builder, Kernel
from oxinp._ptx.frozen import Frozen
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.types import i32, i64, u32

if TYPE_CHECKING:
    from oxinp._kernels.fft.codelets import Number
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
        `SPLIT` or `MERGE` of `block`.
    num_outer : int
        Loops of the batch, at least 1.
    bits : int
        32 where every distance in elements fits, else 64.
    """

    type: Type
    halved: Type
    part: str
    num_outer: int
    bits: int


def constants(spec: PairsSpec, half: int, extents: tuple[int, ...], size: int) -> tuple[float, ...]:
    """Return the constants that both kernels have; strides and scales follow."""
    count = half // 2 + 1
    splitter = Splitter.constants(extents, spec.bits)
    return (*Divisor.constants(count, spec.bits), count * size, half, *splitter, *Circle.constants(2 * half))


@lru_cache(MAX_KERNELS)
@retraceable
def make(spec: PairsSpec) -> Kernel:
    """Build the kernel of a Spec; parameters are target, source, then the constants."""
    k = Builder(f"fft_{spec.part}", block=BLOCK)
    index, part, is_split = i32 if spec.bits == 32 else i64, spec.type.parts[0], spec.part == SPLIT
    target = k.pointer("target", spec.type, "w")
    source = k.pointer("source", spec.type if is_split else spec.halved, "r")
    along = Divisor(k, "along", index)
    count, half = k.scalar("count", index), k.scalar("half", index)
    outer = Splitter(k, "outer", spec.num_outer, index)
    circle = Circle(k, "circle", part)
    steps = [k.scalar(f"step{i}", index) for i in range(spec.num_outer + 1)]
    scales = [k.scalar(name, part) for name in ("real_scale", "imag_scale")] if is_split else []
    sign, num_valid = (None, None) if is_split else (k.scalar("sign", part), k.scalar("num_valid", index))
    number = k.cast(k.ctaid, index) * BLOCK + k.cast(k.tid, index)

    def root_of(place: Value) -> Number:
        real, imag = circle.root(k.cast(place, u32))
        return k.cast(real, part), k.cast(imag, part)

    with k.when(number < count):
        row, place = along.divide(number)
        mirrored = half - place
        origin = row * half
        strided = steps[-1] * 0
        for loop, step in zip(outer.split(row), steps, strict=False):
            strided = strided + loop * step
        ends = (place, mirrored)
        if is_split:
            one = source[origin + place].parts
            other = source[origin + k.where(place == 0, k.const(0, index), mirrored)].parts
            turned = multiply(k, (one[1] + other[1], other[0] - one[0]), root_of(place))
            even = one[0] + other[0], one[1] - other[1]
            results = (even[0] + turned[0], even[1] + turned[1]), (even[0] - turned[0], turned[1] - even[1])
            for at, (real, imag) in zip(ends, results, strict=True):
                value = k.compound(spec.type, real * scales[0], imag * scales[1])
                target[strided + at * steps[-1]] = value
        else:
            assert sign is not None
            assert num_valid is not None
            read = []
            for at in ends:
                found = k.var(k.const(0, spec.type))
                with k.when(at < num_valid):
                    given = source[strided + at * steps[-1]]
                    parts = given.parts if spec.halved.is_complex else (given, k.const(0, part))
                    found.set(k.compound(spec.type, k.cast(parts[0], part), k.cast(parts[1], part)))
                real, imag = found.parts
                # The ends of a real sequence's transform are real: what else they have does not count.
                read.append((real, k.where(place == 0, k.const(0, part), imag * sign)))
            one, other = read
            even = one[0] + other[0], one[1] - other[1]
            cos, minus_sin = root_of(place)
            odd = multiply(k, (one[0] - other[0], one[1] + other[1]), (cos, -minus_sin))
            target[origin + place] = k.compound(spec.type, even[0] - odd[1], even[1] + odd[0])
            with k.when((place != 0) & (place != mirrored)):
                target[origin + mirrored] = k.compound(spec.type, even[0] + odd[1], odd[0] - even[1])
    return k.build()


__all__ = ["BLOCK", "PairsSpec", "constants", "make"]

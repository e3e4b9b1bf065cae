"""Bluestein's convolutions that are too long for a block, as plans.

A convolution of length ``n1 * n2`` is three passes over the workspace: transforms of n1 elements that lie n2 apart, of
the source times the chirp; rows of n2, each transformed, multiplied by its part of the transformed filter, and
transformed back; and n1 elements n2 apart again, whose results are multiplied by the chirp. Nothing is transposed: the
second half of the transform back goes through the steps of the first in reverse, and the filter lies as the rows want
it. Where no two lengths fit, each part is a kernel of its own around two transforms.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING

from oxinp._kernels.fft import chirp
from oxinp._kernels.fft.batch import Batch
from oxinp._kernels.fft.chirp import ChirpSpec
from oxinp._kernels.fft.codelets import multiply
from oxinp._kernels.fft.radices import NUM_REGISTERS, cut, largest_prime, registers
from oxinp._kernels.fft.sides import Chained, Loop, Positions, Side
from oxinp._kernels.fft.tiling import CLUSTER_SEGMENT, RESIDENT, SEGMENT, columns_of, is_large
from oxinp._kernels.nest import MAX_INDEX_32
from oxinp._kernels.plan import Launch, Work
from oxinp._kernels.problem import Instr
from oxinp._ptx.types import c64, c128

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from oxinp._kernels.choice import Device
    from oxinp._kernels.plan import Argument, Scratch
    from oxinp._ptx import Builder
    from oxinp._ptx.value import Value

    Inner = Callable[[int, Argument, Argument, int, float], list[Launch]]

COLUMNS = tuple(1 << i for i in range(1, 12))  # lengths of the first and last pass
EVEN_ROWS = 32  # bytes that divide those of a row
MAX_CHOSEN_PRIME = 7  # factor of lengths of convolutions
EVEN = 256  # what divides the length of one in many kernels
MEMORY_COST = 10.0  # of a pass over memory, in visits of an element; see `radices.STAGE_COST`
BESIDE_CHIRP = 16  # registers of convolutions, in their cost
LARGE_COST = 2.0  # of a block twice as large as those of which a multiprocessor holds `RESIDENT`


@lru_cache(1 << 10)
def lengths_of(length: int, nbytes: int, room: int) -> tuple[int, int] | None:
    """Return the lengths of columns and rows of the convolution that transforms a length; None if none fit.

    Parameters
    ----------
    length : int
        Of the transform.
    nbytes : int
        Of a number.
    room : int
        Bytes of shared memory.
    """
    best, least = None, math.inf
    for n1 in COLUMNS:
        even = EVEN_ROWS // nbytes
        n2 = next(
            n
            for n in range(-(-2 * length // (n1 * even)) * even, 4 * length, even)
            if largest_prime(n) <= MAX_CHOSEN_PRIME
        )
        columns = columns_of(n1, nbytes, 1 << 20, room, is_mixed=True)
        if columns * nbytes < CLUSTER_SEGMENT:
            continue
        has_own = is_large(n2, nbytes)
        if not columns_of(n2, nbytes, 1, room, is_mixed=False, is_convolved=has_own):
            continue
        first, rows = cut(n1, nbytes), cut(n2, nbytes, is_convolved=has_own)
        assert first is not None, f"no pass of length {n1}"
        assert rows is not None, f"no pass of length {n2}"
        if len(rows.radices) == 1:
            continue
        used = rows.threads * (registers(rows.held, nbytes) + BESIDE_CHIRP * nbytes // 8) / NUM_REGISTERS
        large = [math.log2(RESIDENT * each) for each in (n1 * SEGMENT / room, max(n2 * nbytes / room, used))]
        cost = n1 * n2 * (first.cost + rows.cost + MEMORY_COST + LARGE_COST * sum(max(0.0, each) for each in large))
        if cost < least:
            best, least = (n1, n2), cost
    return best


def launches(whole: Batch, inner: Inner, device: Device, scratch: Scratch) -> list[Launch]:
    """Return the launches of a transform by Bluestein's convolution, by way of the workspace.

    Parameters
    ----------
    whole : Batch
        The transform as a single pass.
    inner : callable
        Gives the launches of so many transforms of a length, from one array of the workspace to another, times a scale.
    device : Device
    scratch : Scratch
    """
    lengths = lengths_of(whole.length, whole.type.nbytes, device.max_shared_nbytes)
    if lengths is None:
        return _by_kernels(whole, inner, scratch)
    return _Passes(whole, lengths, scratch).launches(device)


def _num_valid(whole: Batch) -> int:
    """Elements of the source beyond which there are zeros."""
    return min(whole.valid.number, whole.length) if whole.valid else whole.length


def _num_stored(whole: Batch) -> int:
    """Elements of the result that are wanted."""
    return whole.stored.number if whole.stored else whole.length


def _times(k: Builder, value: Value, factor: Value) -> Value:
    """A product with an element of the filter."""
    return _product(k, value, factor.parts[0], factor.parts[1])


def _times_chirp(k: Builder, value: Value, factor: Value) -> Value:
    """A product with the chirp, the filter's conjugate."""
    return _product(k, value, factor.parts[0], -factor.parts[1])


def _product(k: Builder, value: Value, real: Value, imag: Value) -> Value:
    part = real.type
    parts = [k.cast(each, part) for each in (value.parts if value.type.is_complex else (value,))]
    number = (parts[0] * real, parts[0] * imag) if len(parts) == 1 else multiply(k, (parts[0], parts[1]), (real, imag))
    product: Value = k.compound({4: c64, 8: c128}[part.nbytes], *number)
    return product


def _real_of(k: Builder, value: Value) -> Value:
    """The real part."""
    del k
    real: Value = value.parts[0]
    return real


class _Passes:
    """The three passes, and those that transform the filter.

    Parameters
    ----------
    whole : Batch
    lengths : tuple of int
        Of columns and rows.
    scratch : Scratch
    """

    def __init__(self, whole: Batch, lengths: tuple[int, int], scratch: Scratch) -> None:
        self.whole, (self.n1, self.n2) = whole, lengths
        self.size = math.prod(loop.extent for loop in whole.loops)
        self.length = self.n1 * self.n2
        nbytes = self.length * whole.type.nbytes
        self.factors, self.factor = scratch.take(nbytes), scratch.take(nbytes)
        self.rows = scratch.take(self.size * nbytes)
        # A transform backwards is one of conjugates: its chirp is the filter.
        self.product = _times_chirp if whole.sign > 0 else _times

    def launches(self, device: Device) -> list[Launch]:
        """Return all launches."""
        whole = self.whole
        # First, as its kernel takes longest to compile: what is traced meanwhile costs no time.
        rows = self._rows(self.rows, self.size, filter=self.factor).launch(device)
        made = self._filter(device)
        if whole.whole > 0:  # sources of which a part is mirrored
            steps = [*([loop.source for loop in whole.loops] or [0]), whole.source.step]
            own = (*steps, _num_valid(whole), float(whole.sign))
            made.append(_chirp_launch(whole, chirp.MODULATE, (self.rows, whole.source.buffer), self.length, own))
            first = self._columns(self.rows, self.rows, (Loop(self.size, self.length, self.length),))
        else:
            first = self._first()
        return [*made, first.launch(device), rows, self._last().launch(device)]

    def _filter(self, device: Device) -> list[Launch]:
        """Launches that leave the transformed filter."""
        passes = self._columns(self.factors, self.factor, ()), self._rows(self.factor, 1, scale=1 / self.length)
        made = _chirp_launch(self.whole, chirp.FILTER, (self.factors,), self.length)
        return [made, *(each.launch(device) for each in passes)]

    def _columns(self, source: Argument, target: Argument, loops: tuple[Loop, ...]) -> Batch:
        """The transforms of elements that lie n2 apart, between arrays of the workspace."""
        type_, column = self.whole.type, Loop(self.n2, 1, 1)
        sides = Side(source, self.n2), Side(target, self.n2)
        return Batch(self.n1, type_, type_, type_, *sides, (*loops, column), column, self.length)

    def _rows(
        self,
        rows: Argument,
        size: int,
        scale: float = 1.0,
        filter: Argument | None = None,
    ) -> Batch:
        """The transforms of rows in place; with a filter, there and back."""
        type_, row = self.whole.type, Loop(self.n1, self.n2, self.n2)
        loops = (Loop(size, self.length, self.length), row)
        turn = row if filter else None
        return Batch(
            self.n2,
            type_,
            type_,
            type_,
            Side(rows, 1),
            Side(rows, 1),
            loops,
            turn,
            self.length,
            scales=(scale, scale),
            filter=filter,
        )

    def _places(self) -> list[int]:
        """Elements of the workspace from one transform of each loop to the next."""
        places, place = [], self.size * self.length
        for loop in self.whole.loops:
            place //= loop.extent
            places.append(place)
        return places

    def _first(self) -> Batch:
        """The transforms of columns of the source times the chirp."""
        whole, n2 = self.whole, self.n2
        step = whole.source.step
        loops = [
            Loop(loop.extent, loop.source, place, (loop.source, 0))
            for loop, place in zip(whole.loops, self._places(), strict=True)
        ]
        column = Loop(n2, step, 1, (step, 1))
        chain = Chained(
            (whole.source_type, whole.type),
            (whole.source.buffer, self.factors),
            (True, True),
            (Instr(self.product, whole.type, (0, 1)),),
            2,
            whole.type,
        )
        return Batch(
            self.n1,
            whole.type,
            whole.type,
            whole.type,
            Side(whole.source.buffer, n2 * step, whole.source.alignment, (n2 * step, n2)),
            Side(self.rows, n2),
            (*loops, column),
            column,
            self.length,
            sign=whole.sign,
            valid=Positions(_num_valid(whole), n2, ((column, 1),)),
            prologue=chain,
        )

    def _last(self) -> Batch:
        """The transforms of columns of conjugates, times the chirp."""
        whole, n2 = self.whole, self.n2
        step, scale = whole.target.step, whole.scales[0]
        loops = [
            Loop(loop.extent, place, loop.target, (), (0,))
            for loop, place in zip(whole.loops, self._places(), strict=True)
        ]
        column = Loop(n2, 1, step, (), (1,))
        instrs = [Instr(self.product, whole.type, (0, 1))]
        if not whole.target_type.is_complex:
            instrs.append(Instr(_real_of, whole.target_type, (2,)))
        chain = Chained((whole.type,), (self.factors,), (True,), tuple(instrs), 1 + len(instrs), whole.target_type)
        return Batch(
            self.n1,
            whole.type,
            whole.type,
            whole.type,
            Side(self.rows, n2),
            Side(whole.target.buffer, n2 * step, whole.target.alignment, (n2,)),
            (*loops, column),
            order=self.length,
            scales=(scale, -whole.sign * scale),
            stored=Positions(_num_stored(whole), n2, ((column, 1),)),
            epilogue=chain,
        )


def _chirp_launch(
    whole: Batch, part: str, arguments: tuple[Argument, ...], length: int, own: Sequence[float] = ()
) -> Launch:
    """The launch of a kernel with the chirp, of a convolution of a length."""
    extents = tuple(loop.extent for loop in whole.loops) or (1,)
    size, num_stored = math.prod(extents), _num_stored(whole)
    source = whole.source_type if part == chirp.MODULATE else whole.type
    target = whole.target_type if part == chirp.DEMODULATE else whole.type
    bits = 64 if max(size * length, *(_reach(whole, i) for i in (1, 2))) >= MAX_INDEX_32 else 32
    spec = ChirpSpec(whole.type, source, target, part, len(extents), whole.whole > 0 and part == chirp.MODULATE, bits)
    elements = {chirp.FILTER: length, chirp.DEMODULATE: num_stored * size}.get(part, size * length)
    along = num_stored if part == chirp.DEMODULATE else length
    given = chirp.constants(spec, along, (whole.length, length), extents)
    work = Work(nbytes=elements * (source.nbytes + target.nbytes))
    return Launch(chirp.make(spec), (-(-elements // chirp.BLOCK), 1, 1), arguments, (*given, *own), work)  # type: ignore[arg-type]


def _reach(whole: Batch, side: int) -> int:
    """Elements that source (1) or target (2) spans."""
    step = (whole.source, whole.target)[side - 1].step
    return (whole.length - 1) * abs(step) + sum((loop.extent - 1) * abs(loop.step(side)) for loop in whole.loops)


def _by_kernels(whole: Batch, inner: Inner, scratch: Scratch) -> list[Launch]:
    """Launches of kernels around transforms of any length."""
    nbytes = whole.type.nbytes
    length = next(
        m
        for m in range(-(-2 * whole.length // EVEN) * EVEN, 4 * whole.length, EVEN)
        if largest_prime(m) <= MAX_CHOSEN_PRIME
    )
    size = math.prod(loop.extent for loop in whole.loops)
    rows, factors = scratch.take(size * length * nbytes), scratch.take(length * nbytes)
    transformed, factor = scratch.take(size * length * nbytes), scratch.take(length * nbytes)
    steps = [[loop.step(i) for loop in whole.loops] or [0] for i in (1, 2)]
    given = (*steps[0], whole.source.step, _num_valid(whole), float(whole.sign))
    made = (*steps[1], whole.target.step, *whole.scales)
    return [
        _chirp_launch(whole, chirp.FILTER, (factors,), length),
        *inner(length, factors, factor, 1, 1 / length),
        _chirp_launch(whole, chirp.MODULATE, (rows, whole.source.buffer), length, given),
        *inner(length, rows, transformed, size, 1.0),
        _chirp_launch(whole, chirp.CONVOLVE, (transformed, factor), length),
        *inner(length, transformed, rows, size, 1.0),
        _chirp_launch(whole, chirp.DEMODULATE, (whole.target.buffer, rows), length, made),
    ]


__all__ = ["launches", "lengths_of"]

"""Transforms along one axis as plans: which passes a length takes.

A length that fits a block is one pass. A longer one is split, ``n = n1 * n2``: transforms of n1 elements that lie n2
apart, times roots of unity, then transforms of n2 elements that are next to each other, whose results go n1 apart
(Gentleman and Sande's four steps, with both transpositions in the addresses). The second may be split again. Primes
that have no codelets are passes of sums (see `prime`), as far as these go; lengths with other ones are convolved, in a
block or, where they are too long for that, by way of the workspace.
"""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING

from oxinp._kernels.fft import convolved, pairs
from oxinp._kernels.fft.batch import Batch
from oxinp._kernels.fft.bluestein import chirp_of
from oxinp._kernels.fft.pairs import PairsSpec
from oxinp._kernels.fft.passes import Passes
from oxinp._kernels.fft.prime import MAX_SUMMED, MIN_SUMMED
from oxinp._kernels.fft.rader import MIN_PRIME
from oxinp._kernels.fft.radices import convolution_length, cut, largest_prime
from oxinp._kernels.fft.sides import Loop, Positions, Side
from oxinp._kernels.fft.spec import MERGE, RADER, SPLIT, SUMMED, TWIN_MERGE, TWIN_SPLIT
from oxinp._kernels.fft.splitting import fits_block, has_passes, split
from oxinp._kernels.fft.tiling import columns_of
from oxinp._kernels.nest import MAX_INDEX_32
from oxinp._kernels.plan import Launch, Plan, Scratch, Work

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from oxinp._kernels.choice import Device
    from oxinp._kernels.plan import Argument
    from oxinp._ptx.types import Type

# Ways of a transform: by one of half the length in a block, or with its pairs apart; one or more passes; Bluestein's
# convolution in a block, or by way of the workspace; sums of all elements, of primes; a pass of sums per larger prime
# factor, and the passes of the rest; of odd real lengths, two sequences at a time in a block.
HALVED, PAIRED, DIRECT, CONVOLVED, CONVOLVED_APART = "halved", "paired", "direct", "convolved", "convolved apart"
SUMS, FACTORED, TWIN = "sums", "factored", "twin"
BY_POWERS = "by powers"  # of primes, as Rader's convolution
MAX_FACTORED = 3  # passes
# Factors of convolutions: 5003, of factors 61, 41 and 2, takes 0.69 ms, about as long primes by Bluestein's 0.27.
MAX_RADER_FACTOR = 31
# Of real sequences, up to which pocketfft sums up, and errs less than by convolutions, and the one beyond that it does.
MAX_REAL_SUMMED, LAST_REAL_SUMMED = 241, 269
# Elements from which on two real sequences go as one: shorter ones do little work, and err less. Primes with codelets
# err no more, as nothing is added to be taken apart again, see `twins`; those with factors from 29 on err most.
FEWEST_TWINS, FEWEST_PRIME_TWINS, FEWEST_LARGE_TWINS = 100, 15, 400


class Transform(Passes):
    """A transform along one axis, for every index of the other loops, of any length."""

    def way(self, device: Device) -> str:
        """How it is computed: one of the constants above."""
        nbytes = self.type.nbytes
        if self._real() and has_passes(self.length // 2, nbytes, device):
            if fits_block(self.length // 2, nbytes, self.is_apart(), device):
                return HALVED
            if self._lies_in_pairs():
                return PAIRED
        if self._twins(device):
            return TWIN
        if self._is_summed():
            return SUMS
        if self._is_rader(device):
            return BY_POWERS
        if has_passes(self.length, nbytes, device):
            return DIRECT
        if self._factors(device):
            return FACTORED
        return CONVOLVED if self._convolution(device) else CONVOLVED_APART

    def is_fusible(self, device: Device) -> bool:
        """Whether its kernels take the chains that it has."""
        way = self.way(device)
        if way == CONVOLVED_APART:
            return self.prologue is None and self.epilogue is None
        if way == PAIRED:  # the other side is seen as complex numbers
            return (self.prologue if self._real() == SPLIT else self.epilogue) is None
        # Halves of sequences are read at places that one step reaches.
        return self.prologue is None or not self.is_half or way == HALVED

    def _is_rader(self, device: Device) -> bool:
        """Whether a block computes the convolution of the length less one: of primes without codelets, in rows."""
        nbytes, room = self.type.nbytes, device.max_shared_nbytes
        if self.length < MIN_PRIME or cut(self.length, nbytes) is not None or largest_prime(self.length) != self.length:
            return False
        if largest_prime(self.length - 1) > MAX_RADER_FACTOR:
            return False
        return self.batch.is_stageable and columns_of(self.length - 1, nbytes, 1, room, is_mixed=False) > 0

    def _is_summed(self) -> bool:
        """Whether a block adds up the results: of primes, all elements of which are there."""
        is_real = self.is_half or not self.source_type.is_complex
        most = MAX_REAL_SUMMED if is_real else MIN_PRIME - 1
        is_fitting = MIN_SUMMED <= self.length <= most or (is_real and self.length == LAST_REAL_SUMMED)
        is_fitting &= cut(self.length, self.type.nbytes) is None or not self.batch.is_staged
        return is_fitting and largest_prime(self.length) == self.length

    def _factors(self, device: Device) -> tuple[int, ...]:
        """The lengths of passes, of which primes without codelets are sums; () where there are no such."""
        nbytes, rest, primes = self.type.nbytes, self.length, []
        while not has_passes(rest, nbytes, device):
            prime = largest_prime(rest)
            if not MIN_SUMMED <= prime <= MAX_SUMMED:
                return ()
            primes.append(prime)
            rest //= prime
        lengths = (*primes, *(split(rest, nbytes, self.is_apart(), device) if rest > 1 else ()))
        return lengths if 1 < len(lengths) <= MAX_FACTORED else ()

    def _convolution(self, device: Device) -> int:
        """The length of the convolution in a block; 0 for none."""
        nbytes = self.type.nbytes
        return convolution_length(self.length, nbytes, device.max_shared_nbytes * 8 // 9 // nbytes)

    def launches(self, device: Device, scratch: Scratch) -> list[Launch]:
        """The launches that compute it."""
        way = self.way(device)
        if way == HALVED:
            return [self.halved().launch(device)]
        if way == TWIN:
            return self._by_twins(device, scratch)
        if way == PAIRED:
            return self._by_pairs(device, scratch)
        if way == SUMS:
            return [self.batch.replace(real=SUMMED).launch(device)]
        if way == BY_POWERS:
            return [self.batch.replace(length=self.length - 1, real=RADER).launch(device)]
        if way == CONVOLVED_APART:
            return convolved.launches(self.batch, partial(self._rows, device, scratch), device, scratch)
        if way == CONVOLVED:
            convolution = self._convolution(device)
            tables, chirp = chirp_of(self.type, self.length, convolution, device, scratch)
            return [tables, self.batch.replace(length=convolution, chirp=chirp).launch(device)]
        if way == FACTORED:
            return [each.launch(device) for each in self.passes(self._factors(device), scratch)]
        return self.direct(device, scratch)

    def parts(self, count: int, device: Device) -> Iterator[Transform]:
        """Yield transforms of consecutive parts of a loop, at most so many; all in one that need no workspace."""
        own = Scratch()
        self.launches(device, own)
        if not own.nbytes or not self.loops:
            yield self
            return
        place = max(range(len(self.loops)), key=lambda i: self.loops[i].extent)
        loop = self.loops[place]
        size = -(-loop.extent // count)
        made = self.target_type if self.epilogue is None else self.epilogue.made
        for start in range(0, loop.extent, size):
            loops = list(self.loops)
            loops[place] = loop._replace(extent=min(size, loop.extent - start))
            yield self.replace(
                loops=tuple(loops),
                source=_moved(self.source, start * loop.source * self.source_type.nbytes),
                target=_moved(self.target, start * loop.target * made.nbytes),
                prologue=None if self.prologue is None else self.prologue.moved([start * x for x in loop.reads]),
                epilogue=None if self.epilogue is None else self.epilogue.moved([start * x for x in loop.writes]),
            )

    def followed_by(self, other: Transform, axes: Sequence[int], device: Device) -> Launch | None:
        """One launch of this transform and the next one, along `axes`, where each is one pass; None elsewhere."""
        is_plain = self._is_alone(device) and other._is_alone(device)
        return self.with_next(other, axes, device) if is_plain else None

    def _is_alone(self, device: Device) -> bool:
        """Whether it is a single pass without clusters."""
        return self.way(device) == DIRECT and len(self._lengths(device)) == 1

    def _real(self) -> str:
        """`SPLIT` or `MERGE` where a complex transform of half the length is enough, else ""."""
        half, is_odd = divmod(self.length, 2)
        if is_odd or self.is_rotated or self.is_source_rotated:  # of two elements, the half has both frequencies
            return ""
        if not self.source_type.is_complex and self.target_type.is_complex and self.num_stored == half + 1:
            return SPLIT
        is_merge = self.is_half and not self.target_type.is_complex and self.num_stored in (0, self.length)
        return MERGE if is_merge else ""

    def halved(self) -> Batch:
        """The pass of half the length that computes a real transform."""
        half, is_split, whole = self.length // 2, self._real() == SPLIT, self.batch
        real, imag = whole.scales
        return whole.replace(
            length=half,
            real=self._real(),
            scales=(real / 2, imag / 2) if is_split else whole.scales,
            valid=None if self.num_valid >= (self.length if is_split else half + 1) else Positions(self.num_valid, 1),
            stored=None,
            whole=0,
        )

    def _twins(self, device: Device) -> str:
        """One of `TWINS` where two sequences of an odd length are transformed as one, else ""."""
        half, is_odd = divmod(self.length, 2)
        largest = largest_prime(self.length)
        fewest = FEWEST_LARGE_TWINS if largest >= MIN_SUMMED else FEWEST_TWINS
        if (
            not is_odd
            or self.length < (FEWEST_PRIME_TWINS if largest == self.length else fewest)
            or self.prologue
            or self.epilogue
            or all(loop.extent < 2 for loop in self.loops)
        ):
            return ""
        nbytes, is_real = self.type.nbytes, not self.source_type.is_complex
        is_split = is_real and self.target_type.is_complex and self.num_stored == half + 1
        is_merge = self.is_half and not self.target_type.is_complex and self.num_stored in (0, self.length)
        if not (is_split or is_merge) or self.num_valid < (self.length if is_split else half + 1):
            return ""
        if not has_passes(self.length, nbytes, device):
            return ""
        is_whole = fits_block(self.length, nbytes, self.is_apart(), device)
        return "" if not is_whole else TWIN_SPLIT if is_split else TWIN_MERGE

    def _by_twins(self, device: Device, scratch: Scratch) -> list[Launch]:
        """The launch of all pairs of neighbours along a loop, and those of what is left where their number is odd."""
        kind, loops = self._twins(device), list(self.loops)
        place = max(range(len(loops)), key=lambda i: (loops[i].extent % 2 == 0, loops[i].extent))
        loop = loops[place]
        loops[place] = Loop(loop.extent // 2, 2 * loop.source, 2 * loop.target)
        real, imag = self.batch.scales
        pairs_of_all = self.batch.replace(
            loops=tuple(loops),
            real=kind,
            scales=(real / 2, imag / 2) if kind == TWIN_SPLIT else (real, imag),
            valid=None,
            stored=None,
            whole=0,
            twins=(loop.source, loop.target),
        )
        launches = [pairs_of_all.launch(device)]
        if loop.extent % 2:
            loops[place] = loop._replace(extent=1)
            ends = [
                _moved(self.source, (loop.extent - 1) * loop.source * self.source_type.nbytes),
                _moved(self.target, (loop.extent - 1) * loop.target * self.target_type.nbytes),
            ]
            launches += self.replace(loops=tuple(loops), source=ends[0], target=ends[1]).launches(device, scratch)
        return launches

    def _lies_in_pairs(self) -> bool:
        """Whether the real side can be seen as complex numbers."""
        is_split = self._real() == SPLIT
        side, type_ = (self.source, self.source_type) if is_split else (self.target, self.target_type)
        steps = [loop.step(1 if is_split else 2) for loop in self.loops if loop.extent > 1]
        is_whole = not is_split or (self.num_valid >= self.length)
        is_aligned = side.step == 1 and side.alignment % self.type.nbytes == 0 and all(step % 2 == 0 for step in steps)
        return is_whole and is_aligned and type_ is self.type.parts[0]

    def _by_pairs(self, device: Device, scratch: Scratch) -> list[Launch]:
        """Launches by way of a complex transform of half the length, and of its pairs."""
        half, is_split = self.length // 2, self._real() == SPLIT
        extents = tuple(loop.extent for loop in self.loops) or (1,)
        size = math.prod(extents)
        rows = Side(scratch.take(size * half * self.type.nbytes), 1)
        inner, side = [], 1 if is_split else 2
        place = half * size
        for loop in self.loops:
            place //= loop.extent
            inner.append(
                Loop(loop.extent, loop.source // 2, place) if is_split else Loop(loop.extent, place, loop.target // 2)
            )
        given, made = (self.source, rows) if is_split else (rows, self.target)
        scale = 1.0 if is_split else self.scale
        whole = Transform(
            half, self.type, self.type, self.type, given, made, tuple(inner), is_split, scale, num_valid=half
        )
        chain, halved = (self.epilogue, self.target) if is_split else (self.prologue, self.source)
        beside = [loop.writes if is_split else loop.reads for loop in self.loops] or [(0,) * len(halved.steps)]
        # Steps along the loops and the transform, of the halved side if it is an array, then of the chain's arrays.
        steps = [[*(loop.step(3 - side) for loop in self.loops)] or [0], *map(list, zip(*beside, strict=True))]
        for own, step in zip(steps, (halved.step, *halved.steps), strict=True):
            own.append(step)
        steps = steps if is_split or chain is None else steps[1:]
        spans = [n - 1 for n in (*extents, half + 1)]
        reach = max(sum(n * abs(step) for n, step in zip(spans, own, strict=True)) for own in steps)
        spec = PairsSpec(
            self.type,
            self.target_type if is_split else self.source_type,
            self._real(),
            len(extents),
            64 if max(size * half, reach) >= MAX_INDEX_32 else 32,
            None if chain is None else chain.fused((0,) * len(halved.steps)),
            None if chain is None or not is_split else chain.made,
        )
        last: tuple[float, ...] = (-float(self.batch.sign), self.num_valid)
        if is_split:
            last = self.scale / 2, self.scale / 2 * self.batch.sign
        constants = (*pairs.constants(spec, half, extents, size), *[step for own in steps for step in own], *last)
        read = (self.source.buffer,) if chain is None else chain.arguments
        arguments = (rows.buffer, *((self.target.buffer,) if is_split else read))
        if is_split and chain is not None:
            arguments += chain.arguments
        work = Work(nbytes=2 * size * half * self.type.nbytes)
        grid = (-(-size * (half // 2 + 1) // pairs.BLOCK), 1, 1)
        step_of_pairs = Launch(pairs.make(spec), grid, arguments, constants, work)
        launches = whole.launches(device, scratch)
        return [*launches, step_of_pairs] if is_split else [step_of_pairs, *launches]

    def _rows(
        self, device: Device, scratch: Scratch, length: int, source: Argument, target: Argument, size: int, scale: float
    ) -> list[Launch]:
        """Launches of transforms of another length, one after the other in arrays of the workspace."""
        ends, loops = (Side(source, 1), Side(target, 1)), (Loop(size, length, length),)
        made = Transform(length, self.type, self.type, self.type, *ends, loops, scale=scale, num_valid=length)
        return made.launches(device, scratch)


def _moved(side: Side, nbytes: int) -> Side:
    """An end that begins some bytes further."""
    return side._replace(buffer=side.buffer.at(nbytes), alignment=min(side.alignment, nbytes & -nbytes or 256))


def rotates(length: int, type_: Type, device: Device, *, at_both_ends: bool = False) -> bool:
    """Whether the kernels of complex transforms of a length can store, or read, elements rotated by half of it."""
    nbytes = type_.nbytes
    if length % 2 or not has_passes(length, nbytes, device):
        return False
    # The first radix has to be even to read so, and the last one to store so; likewise with lengths of passes.
    alone = cut(length, nbytes)
    factors = [
        split(length, nbytes, is_apart, device, is_shared=is_shared)
        for is_apart, is_shared in ((False, False), (True, False), (True, True))
    ]
    factors = [each for each in factors if len(each) > 1] + ([] if alone is None else [alone.radices])
    return not at_both_ends or all(len(each) == 1 or sum(n % 2 == 0 for n in each) > 1 for each in factors)


def plan(transform: Transform, device: Device) -> Plan:
    """Return the plan of a transform along one axis; see `Transform`."""
    scratch = Scratch()
    if not math.prod(loop.extent for loop in transform.loops):
        return Plan(())
    return scratch.plan(transform.launches(device, scratch))


__all__ = ["DIRECT", "HALVED", "Transform", "plan", "rotates"]

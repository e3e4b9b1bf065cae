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
from itertools import pairwise
from typing import TYPE_CHECKING

from oxinp._kernels.elementwise.plan import MAX_INDEX_32
from oxinp._kernels.fft import convolved, pairs, slabs
from oxinp._kernels.fft.batch import Batch, Chained, Loop, Positions, Side
from oxinp._kernels.fft.pairs import PairsSpec
from oxinp._kernels.fft.prime import MAX_SUMMED, MIN_SUMMED
from oxinp._kernels.fft.rader import MIN_PRIME
from oxinp._kernels.fft.radices import convolution_length, cut, largest_prime
from oxinp._kernels.fft.spec import MERGE, RADER, SPLIT, SUMMED, TWIN_MERGE, TWIN_SPLIT, WARP
from oxinp._kernels.fft.splitting import fits_block, has_passes, split, split_twice
from oxinp._kernels.fft.tiling import CLUSTER_SEGMENT, MOST_TAKEN, columns_of
from oxinp._kernels.plan import Launch, Plan, Scratch, Work
from oxinp._ptx.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Iterator

    from oxinp._kernels.choice import Device
    from oxinp._kernels.plan import Argument
    from oxinp._ptx.types import Type

# Ways of a transform: by one of half the length in a block, or with its pairs apart; one or more passes; Bluestein's
# convolution in a block, or by way of the workspace; sums of all elements, of primes; a pass of sums per larger prime
# factor, and the passes of the rest; of odd real lengths, two sequences at a time in a block.
HALVED, PAIRED, DIRECT, CONVOLVED, CONVOLVED_APART = "halved", "paired", "direct", "convolved", "convolved apart"
SUMS, FACTORED, TWIN = "sums", "factored", "twin"
BY_POWERS = "by powers"  # of primes, as Rader's convolution
FEWEST_FACTORED = 512  # elements from which on two passes over memory cost less than a convolution in a block
MAX_FACTORED = 3  # passes
SLAB_COLUMNS = (64, 32, 16)  # neighbouring transforms of a slab
FEWEST_TWINS = 15  # elements from which on two real sequences go as one: shorter ones do little work, and err less


class Transform(Frozen):
    """A transform along one axis, for every index of the other loops.

    Attributes
    ----------
    length : int
        Of what is transformed; the source has `num_valid` elements, beyond which are zeros.
    type, source_type, target_type : Type
        c64 or c128, and what is read; of a real target the real parts.
    source, target : Side
    loops : tuple of Loop
    is_forward : bool
    scale : float
    num_valid : int
    num_stored : int
        Elements of the result that are wanted; 0 for all.
    is_half : bool
        The source has the first half only of sequences whose second half is its conjugate reversed.
    prologue, epilogue : Chained or None
        What the source's elements are made of, and what is made of the results; see `is_fusible`.
    is_rotated, is_source_rotated : bool
        Results are stored, or elements read, half of the length further, cyclically; see `rotates`.
    order : int
        Of roots of unity by which results of more than one pass are multiplied, to the power of the element's number
        times the last loop's index; 1 for none.
    """

    length: int
    type: Type
    source_type: Type
    target_type: Type
    source: Side
    target: Side
    loops: tuple[Loop, ...]
    is_forward: bool = True
    scale: float = 1.0
    num_valid: int = 0
    num_stored: int = 0
    is_half: bool = False
    prologue: Chained | None = None
    epilogue: Chained | None = None
    is_rotated: bool = False
    is_source_rotated: bool = False
    order: int = 1

    @property
    def batch(self) -> Batch:
        """The transform as a single pass."""
        sign = 1 if self.is_forward else -1
        valid = None if self.num_valid >= self.length and not self.is_half else Positions(self.num_valid, 1)
        stored = Positions(self.num_stored, 1) if 0 < self.num_stored < self.length else None
        return Batch(
            self.length,
            self.type,
            self.source_type,
            self.target_type,
            self.source,
            self.target,
            self.loops,
            sign=sign,
            scales=(self.scale, sign * self.scale),
            valid=valid,
            stored=stored,
            whole=self.length if self.is_half else 0,
            prologue=self.prologue,
            epilogue=self.epilogue,
            is_rotated=self.is_rotated,
            is_source_rotated=self.is_source_rotated,
        )

    def way(self, device: Device) -> str:
        """How it is computed: one of the constants above."""
        nbytes = self.type.nbytes
        if self._real() and has_passes(self.length // 2, nbytes, device):
            if fits_block(self.length // 2, nbytes, self._is_apart(), device):
                return HALVED
            if self._lies_in_pairs():
                return PAIRED
        if self._twins(device):
            return TWIN
        if self._is_rader(device):
            return BY_POWERS
        if self._is_summed(device):
            return SUMS
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
        return self.batch.is_stageable and columns_of(self.length - 1, nbytes, 1, room, is_mixed=False) > 0

    def _is_summed(self, device: Device) -> bool:
        """Whether a block adds up the results: of primes, all elements of which are there."""
        room = device.max_shared_nbytes // (2 * (WARP + 1) * self.type.nbytes)
        is_fitting = MIN_SUMMED <= self.length <= min(MAX_SUMMED, room) and not self.is_half
        is_fitting &= cut(self.length, self.type.nbytes) is None or not self.batch.is_staged
        return is_fitting and largest_prime(self.length) == self.length

    def _factors(self, device: Device) -> tuple[int, ...]:
        """The lengths of passes, of which primes without codelets are sums; () where there are no such."""
        nbytes, rest, primes = self.type.nbytes, self.length, []
        most = min(MAX_SUMMED, device.max_shared_nbytes // (2 * (WARP + 1) * nbytes))
        while not has_passes(rest, nbytes, device):
            prime = largest_prime(rest)
            if not MIN_SUMMED <= prime <= most:
                return ()
            primes.append(prime)
            rest //= prime
        lengths = (*primes, *(split(rest, nbytes, self._is_apart(), device) if rest > 1 else ()))
        is_long = self.length >= FEWEST_FACTORED or not self._convolution(device)
        return lengths if is_long and not self.is_half and len(lengths) <= MAX_FACTORED else ()

    def _convolution(self, device: Device) -> int:
        """The length of the convolution in a block; 0 for none."""
        nbytes = self.type.nbytes
        return convolution_length(self.length, nbytes, device.max_shared_nbytes * 8 // 9 // nbytes)

    def launches(self, device: Device, scratch: Scratch) -> list[Launch]:
        """The launches that compute it."""
        way = self.way(device)
        if way == HALVED:
            return [self._halved().launch(device)]
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
            return [self.batch.replace(length=self._convolution(device), chirp=self.length).launch(device)]
        if way == FACTORED:
            return [each.launch(device) for each in self._passes(self._factors(device), scratch)]
        lengths = self._lengths(device)
        launch = self._by_slabs(lengths, device, scratch) if len(lengths) > 1 else None
        if launch is not None:
            return [launch]
        is_large = len(lengths) > 2 or max(lengths) * CLUSTER_SEGMENT > device.max_shared_nbytes * MOST_TAKEN
        if len(lengths) > 1 and is_large:
            both = self._by_stripes(device, scratch)
            if both is not None:
                return both
        lengths = self._lengths(device, is_shared=self._is_strided())
        if len(lengths) == 1:
            return [self.batch.launch(device)]
        return [each.launch(device) for each in self._passes(lengths, scratch)]

    def _lengths(self, device: Device, *, is_shared: bool = False) -> tuple[int, ...]:
        """Lengths of the passes; see `split`."""
        lengths = split(self.length, self.type.nbytes, self._is_apart(), device, is_shared=is_shared)
        is_odd = (self.is_rotated and lengths[-1] % 2) or (self.is_source_rotated and lengths[0] % 2)
        if len(lengths) == 1 or not is_odd:
            return lengths
        even = [n for n in lengths if n % 2 == 0]
        # The first pass reads and the last stores: one even length is enough for one of them.
        first, last = (even[:-1], even[-1:]) if self.is_rotated else (even, [])
        return (*first, *[n for n in lengths if n % 2], *last)

    def _by_stripes(self, device: Device, scratch: Scratch) -> list[Launch] | None:
        """Two launches of four passes: stripes of columns, and of rows, whose workspace stays in the cache each."""
        whole, n = self.batch, self.length
        is_whole = whole.valid is whole.stored is None and not (
            whole.whole or self.is_rotated or self.is_source_rotated
        )
        lengths = split_twice(n, self.type.nbytes, device) if is_whole and not self._is_apart() else None
        if lengths is None:
            return None
        n1, n2 = map(math.prod, lengths)
        own = scratch.copy()
        between = own.take(n * math.prod(loop.extent for loop in self.loops) * self.type.nbytes)
        places = [n * math.prod(each.extent for each in self.loops[i + 1 :]) for i in range(len(self.loops))]
        column = Loop(n2, whole.source.step, 1, whole.source.steps)
        columns = self.replace(
            length=n1,
            target_type=self.type,
            source=Side(whole.source.buffer, n2 * whole.source.step, steps=whole.source.times(n2)),
            target=Side(between, n2),
            loops=(
                *[loop._replace(target=place, writes=()) for loop, place in zip(self.loops, places, strict=True)],
                column,
            ),
            num_valid=n1,
            num_stored=n1,
            epilogue=None,
            order=n,
        )
        rows = self.replace(
            length=n2,
            source_type=self.type,
            source=Side(between, 1),
            target=Side(whole.target.buffer, n1 * whole.target.step, steps=whole.target.times(n1)),
            loops=(
                *[loop._replace(source=place, reads=()) for loop, place in zip(self.loops, places, strict=True)],
                Loop(n1, n2, whole.target.step, (), whole.target.steps),
            ),
            is_forward=True,
            num_valid=n2,
            num_stored=n2,
            prologue=None,
        )
        used, made = own.nbytes, []
        for each, own_lengths, scales in ((columns, lengths[0], (1.0, 1.0)), (rows, lengths[1], whole.scales)):
            part = Scratch()
            part.nbytes = used
            launch = each._by_slabs(own_lengths, device, part, scales)
            if launch is None:
                return None
            made.append(launch)
            own.nbytes = max(own.nbytes, part.nbytes)
        scratch.nbytes = own.nbytes
        return made

    def _by_slabs(
        self, lengths: tuple[int, ...], device: Device, scratch: Scratch, scales: tuple[float, float] | None = None
    ) -> Launch | None:
        """One launch of all passes, of some transforms that lie side by side at a time; see `slabs`."""
        for inner, loops in self._slabs():
            own = scratch.copy()
            passes = self.replace(loops=inner)._passes(lengths, own)
            if scales is not None:
                passes[-1] = passes[-1].replace(scales=scales)
            slab = self.length * math.prod(loop.extent for loop in inner)
            launch = slabs.launch(passes, loops, slab, device, own)
            if launch is not None:
                scratch.nbytes = own.nbytes
                return launch
        return None

    def followed_by(self, other: Transform, device: Device) -> Launch | None:
        """One launch of this transform and one along another axis, of a part of the array at a time; see `slabs`.

        Each is one pass, in place between them; loops are in the order of the axes, without the own one.
        """
        if not self._is_alone(device) or not other._is_alone(device):
            return None
        own = next((loop for loop in self.loops if loop.target == other.source.step), None)
        others = next((loop for loop in other.loops if loop.source == self.target.step), None)
        outside = [loop for loop in self.loops if loop is not own], [loop for loop in other.loops if loop is not others]
        if own is None or others is None or not outside[0] or self.target.buffer != other.source.buffer:
            return None
        pairs_of_loops = list(zip(*outside, strict=True))
        if any(first.target != second.source or first.extent != second.extent for first, second in pairs_of_loops):
            return None
        is_even = all(a.target == b.target * b.extent for a, b in pairwise(outside[0]))
        if not is_even or outside[0][-1].target < (slab := own.extent * other.length):
            return None
        loops = [
            Loop(first.extent, first.source, second.target, first.reads, second.writes)
            for first, second in pairs_of_loops
        ]
        passes = [self.replace(loops=(own,)).batch, other.replace(loops=(others,)).batch]
        return slabs.launch(passes, loops, slab, device, Scratch(), outside[0][-1].target)

    def _is_alone(self, device: Device) -> bool:
        """Whether it is a single pass without clusters."""
        return self.way(device) == DIRECT and len(self._lengths(device)) == 1

    def _slabs(self) -> Iterator[tuple[tuple[Loop, ...], tuple[Loop, ...]]]:
        """Yield the loops within slabs, and those of slabs."""
        if not self._is_apart():
            yield (), self.loops
            return
        several = [loop for loop in self.loops if loop.extent > 1]
        nearest = min(several, key=lambda loop: abs(loop.target) or math.inf)
        if abs(nearest.target) > abs(self.target.step):  # in the source only
            return
        others = tuple([loop for loop in self.loops if loop is not nearest])
        for width in SLAB_COLUMNS:
            if nearest.extent % width == 0:
                outer, inner = nearest.split(width)
                yield (inner,), (*others, outer)

    def _real(self) -> str:
        """`SPLIT` or `MERGE` where a complex transform of half the length is enough, else ""."""
        half, is_odd = divmod(self.length, 2)
        if is_odd:
            return ""
        if not self.source_type.is_complex and self.target_type.is_complex and self.num_stored == half + 1:
            return SPLIT
        is_merge = self.is_half and not self.target_type.is_complex and self.num_stored in (0, self.length)
        return MERGE if is_merge else ""

    def _halved(self) -> Batch:
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
        if (
            not is_odd
            or self.length < FEWEST_TWINS
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
        is_whole = fits_block(self.length, nbytes, self._is_apart(), device)
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
                side._replace(buffer=side.buffer.at(nbytes), alignment=min(side.alignment, nbytes & -nbytes or 256))
                for side, nbytes in (
                    (self.source, (loop.extent - 1) * loop.source * self.source_type.nbytes),
                    (self.target, (loop.extent - 1) * loop.target * self.target_type.nbytes),
                )
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

    def _is_inside(self, loop: Loop) -> bool:
        """Whether transforms of a loop lie closer to each other than elements of one, in source and target."""
        return all(0 < abs(loop.step(i)) < abs(side.step) for i, side in ((1, self.source), (2, self.target)))

    def _is_apart(self) -> bool:
        """Whether a loop's transforms lie closer to each other than the elements of one."""
        return any(
            loop.extent > 1
            and (0 < abs(loop.source) < abs(self.source.step) or 0 < abs(loop.target) < abs(self.target.step))
            for loop in self.loops
        )

    def _is_strided(self) -> bool:
        """Whether the transforms of a loop lie closer to each other than the elements of one, in source and target."""
        return any(loop.extent > 1 and self._is_inside(loop) for loop in self.loops)

    def _passes(self, lengths: tuple[int, ...], scratch: Scratch) -> list[Batch]:
        """Passes through one array of the workspace, whose axes are the batch's, then those of the split length."""
        whole = self.batch
        sizes = [loop.extent for loop in self.loops]
        # Loops in the workspace keep the target's order: what lies close there does so here.
        order = sorted(range(len(sizes)), key=lambda i: (abs(self.loops[i].target), sizes[i]))
        inner = [i for i in order if self._is_inside(self.loops[i])]
        steps, step = [0] * len(sizes), 1
        for i in inner:
            steps[i], step = step, step * sizes[i]
        element = step
        step *= self.length
        for i in order:
            if i not in inner:
                steps[i], step = step, step * sizes[i]
        space = scratch.take(step * self.type.nbytes)
        batch_in = tuple(
            Loop(loop.extent, loop.source, own, loop.reads) for loop, own in zip(self.loops, steps, strict=True)
        )
        batch_own = tuple(Loop(loop.extent, own, own) for loop, own in zip(self.loops, steps, strict=True))
        batch_out = tuple(
            Loop(loop.extent, own, loop.target, (), loop.writes) for loop, own in zip(self.loops, steps, strict=True)
        )
        passes = []
        rest, done = self.length, 1
        before: list[tuple[int, int, int, tuple[int, ...]]] = []
        places: list[int] = []
        for number, length in enumerate(lengths):
            is_first, is_last = number == 0, number == len(lengths) - 1
            rest //= length
            apart = rest * element
            source = target = Side(space, apart)
            if is_first:
                source = Side(whole.source.buffer, rest * whole.source.step, steps=whole.source.times(rest))
            if is_last:
                target = Side(whole.target.buffer, done * whole.target.step, steps=whole.target.times(done))
            batch = batch_in if is_first else batch_out if is_last else batch_own
            # Axes that are transformed already: in the workspace outside this one, in the result inside.
            finished = [
                Loop(n, own, result, (), writes) if is_last else Loop(n, own, own) for n, own, result, writes in before
            ]
            loops = [*batch, *finished]
            column = None
            spread = done if is_last and self.order > 1 else 0
            if spread:
                column = batch[-1]
            if not is_last:
                column = Loop(rest, element, element)
                if is_first:
                    column = Loop(rest, whole.source.step, element, whole.source.steps)
                loops.append(column)
            position = whole.valid if is_first else None
            if position is not None:
                position = Positions(position.number, rest, () if column is None else ((column, 1),))
            stored = whole.stored if is_last else None
            if stored is not None:
                kept = tuple((loop, step) for loop, step in zip(finished, places, strict=True))
                stored = Positions(stored.number, done, kept)
            passes.append(
                Batch(
                    length,
                    self.type,
                    self.source_type if is_first else self.type,
                    self.target_type if is_last else self.type,
                    source,
                    target,
                    tuple(loops),
                    column,
                    self.order if spread else length * rest,
                    sign=whole.sign if is_first else 1,
                    scales=whole.scales if is_last else (1.0, 1.0),
                    valid=position,
                    stored=stored,
                    whole=whole.whole if is_first else 0,
                    real="" if cut(length, self.type.nbytes) else SUMMED,
                    prologue=self.prologue if is_first else None,
                    epilogue=self.epilogue if is_last else None,
                    is_rotated=self.is_rotated and is_last,
                    is_source_rotated=self.is_source_rotated and is_first,
                    spread=spread,
                )
            )
            before.append((length, apart, done * whole.target.step, whole.target.times(done)))
            places.append(done)
            done *= length
        return passes


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
    if transform.length == 0 or not math.prod(loop.extent for loop in transform.loops):
        return Plan(())
    return scratch.plan(transform.launches(device, scratch))


__all__ = ["Transform", "plan", "rotates"]

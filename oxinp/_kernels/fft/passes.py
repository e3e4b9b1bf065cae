"""Transforms along one axis of lengths that have codelets, as passes; see `plan`.

Passes that follow each other are one launch where the cache can hold what is between them: of many transforms, or along
two axes of parts of an array; see `slabs`.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from oxinp._kernels.fft import slabs
from oxinp._kernels.fft.batch import Batch
from oxinp._kernels.fft.radices import cut
from oxinp._kernels.fft.sides import Chained, Loop, Positions, Side
from oxinp._kernels.fft.spec import SUMMED
from oxinp._kernels.fft.splitting import split
from oxinp._kernels.plan import Launch, Scratch
from oxinp._ptx.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Sequence

    from oxinp._kernels.choice import Device
    from oxinp._ptx.types import Type

# Lengths of three passes of which the last two are one launch, and bytes of neighbouring columns that all of them take.
JOINED: dict[int, tuple[tuple[int, int, int], int]] = {1 << 26: ((1024, 256, 256), 128)}


class Passes(Frozen):
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
    is_signed, is_scaled : bool
        Whether what is read is conjugated where the transform goes backwards, and what is stored is again, and scaled:
        between transforms along several axes neither is.
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
    is_signed: bool = True
    is_scaled: bool = True

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
            sign=sign if self.is_signed else 1,
            scales=(self.scale, sign * self.scale) if self.is_scaled else (1.0, 1.0),
            valid=valid,
            stored=stored,
            whole=self.length if self.is_half else 0,
            prologue=self.prologue,
            epilogue=self.epilogue,
            is_rotated=self.is_rotated,
            is_source_rotated=self.is_source_rotated,
            is_signed=self.is_signed,
            is_scaled=self.is_scaled,
        )

    def direct(self, device: Device, scratch: Scratch) -> list[Launch]:
        """The launches that compute it, of a length that `has_passes`."""
        lengths = self._lengths(device, is_shared=self._is_strided())
        if len(lengths) == 1:
            return [self.batch.launch(device)]
        if self.is_apart():
            return [each.launch(device) for each in self.passes(lengths, scratch)]
        launch = self._by_slabs(lengths, device, scratch)
        if launch is not None:
            return [launch]
        return self._joined_at_end(device, scratch) or [each.launch(device) for each in self.passes(lengths, scratch)]

    def _lengths(self, device: Device, *, is_shared: bool = False) -> tuple[int, ...]:
        """Lengths of the passes; see `split`."""
        lengths = split(self.length, self.type.nbytes, self.is_apart(), device, is_shared=is_shared)
        is_odd = (self.is_rotated and lengths[-1] % 2) or (self.is_source_rotated and lengths[0] % 2)
        if len(lengths) == 1 or not is_odd:
            return lengths
        even = [n for n in lengths if n % 2 == 0]
        # The first pass reads and the last stores: one even length is enough for one of them.
        first, last = (even[:-1], even[-1:]) if self.is_rotated else (even, [])
        return (*first, *[n for n in lengths if n % 2], *last)

    def lengths_alone(self, device: Device) -> tuple[int, ...]:
        """Lengths of the passes where no cluster shares them."""
        return self._lengths(device)

    def is_single(self, device: Device) -> bool:
        """Whether it is one pass, by clusters too."""
        return len(self._lengths(device, is_shared=self._is_strided())) == 1

    def _by_slabs(self, lengths: tuple[int, ...], device: Device, scratch: Scratch) -> Launch | None:
        """One launch of all passes, of a transform after the other; see `slabs`."""
        own = scratch.copy()
        launch = slabs.launch(self.replace(loops=()).passes(lengths, own), self.loops, self.length, device, own)
        if launch is not None:
            scratch.nbytes = own.nbytes
        return launch

    def _joined_at_end(self, device: Device, scratch: Scratch) -> list[Launch]:
        """The first of three passes, and the others as one launch, of neighbouring results of the first at a time.

        [] where lengths are others than those that this was measured to be faster of.
        """
        if self.length not in JOINED or self.is_rotated or self.is_source_rotated or self.loops:
            return []
        lengths, segment = JOINED[self.length]
        own = scratch.copy()
        first, second, third = self.passes(lengths, own)
        if third.stored is not None:
            return []
        columns = segment // self.type.nbytes
        loop = third.loops[0]
        size = columns * loop.source
        ring = own.take(size * self.type.nbytes)
        slab = Loop(
            lengths[0] // columns, size, columns * loop.target, (), tuple([columns * step for step in loop.writes])
        )
        second = second.replace(
            loops=(second.loops[0]._replace(extent=columns, target=loop.source), *second.loops[1:]),
            target=second.target._replace(buffer=ring),
        )
        third = third.replace(
            loops=(loop._replace(extent=columns), *third.loops[1:]), source=third.source._replace(buffer=ring)
        )
        first = first.replace(is_streaming=True)
        found = cut(lengths[0], self.type.nbytes)
        assert found is not None, f"no pass of length {lengths[0]}"
        if lengths[0] * segment * 9 // 8 <= device.max_shared_nbytes:
            first = first.replace(shape=(found.threads, columns))
        joined = slabs.launch([second, third], [slab], size, device, own)
        if joined is None:
            return []
        scratch.nbytes = own.nbytes
        return [first.launch(device), joined]

    def with_next(self, other: Passes, axes: Sequence[int], device: Device) -> Launch | None:
        """One launch of this transform and the next one, of a part of the array at a time; see `slabs`.

        Each is one pass, in place between them; `axes` are those of both, and loops the others in their order.
        """
        here, there = axes
        own, others = self.loops[there - (there > here)], other.loops[here - (here > there)]
        outside = [
            [loop for loop in each if loop is not within and loop.extent > 1]
            for each, within in ((self.loops, own), (other.loops, others))
        ]
        is_even = all(a.target == b.target * b.extent for a, b in pairwise(outside[0]))
        if not outside[0] or not is_even or outside[0][-1].target < (slab := others.extent * other.length):
            return None
        loops = [
            Loop(first.extent, first.source, second.target, first.reads, second.writes)
            for first, second in zip(*outside, strict=True)
        ]
        passes = [self.replace(loops=(own,)).batch, other.replace(loops=(others,)).batch]
        return slabs.launch(passes, loops, slab, device, Scratch(), outside[0][-1].target)

    def is_apart(self) -> bool:
        """Whether a loop's transforms lie closer to each other than the elements of one."""
        return any(
            loop.extent > 1
            and (0 < abs(loop.source) < abs(self.source.step) or abs(loop.target) < abs(self.target.step))
            for loop in self.loops
        )

    def _is_strided(self) -> bool:
        """Whether the transforms of a loop lie closer to each other than the elements of one, in source and target."""
        own = self.source.step, self.target.step
        return any(
            loop.extent > 1 and all(0 < abs(loop.step(i)) < abs(step) for i, step in enumerate(own, 1))
            for loop in self.loops
        )

    def passes(self, lengths: tuple[int, ...], scratch: Scratch) -> list[Batch]:
        """Passes through one array of the workspace, whose axes are the batch's, then those of the split length."""
        whole = self.batch
        sizes = [loop.extent for loop in self.loops]
        # Loops in the workspace keep the target's order: what lies close there does so here.
        order = sorted(range(len(sizes)), key=lambda i: (abs(self.loops[i].target), sizes[i]))
        inner = [i for i in order if 0 < abs(self.loops[i].target) < abs(self.target.step)]
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
            column = position = None
            if is_first:
                column = Loop(rest, whole.source.step, element, whole.source.steps)
                position = whole.valid and Positions(whole.valid.number, rest, ((column, 1),))
            elif not is_last:
                column = Loop(rest, element, element)
            loops = [*batch, *finished] if column is None else [*batch, *finished, column]
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
                    length * rest,
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
                    is_signed=self.is_signed and is_first,
                    is_scaled=self.is_scaled and is_last,
                )
            )
            before.append((length, apart, done * whole.target.step, whole.target.times(done)))
            places.append(done)
            done *= length
        return passes


__all__ = ["Passes"]

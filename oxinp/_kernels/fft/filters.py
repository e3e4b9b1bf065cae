"""Transforms, a chain of elementwise operations on what they give, and the transforms back, as one plan.

The last transform there and the first one back are along the same axis, with the chain between them: what one's last
pass leaves in a block, the other's first pass takes there. Of a length ``n1 * n2 * n3``, passes there leave element
``k1 + n1 * k2 + n1 * n2 * k3`` of the transform in row (k1, k2); the chain reads its arrays in that order, so that
nothing is put in order between: the passes back are those there in reverse, each in place. Five passes over memory do
what six would, three what four, one what two.

Source: W. M. Gentleman and G. Sande, Fast Fourier transforms: for fun and profit, AFIPS 1966 (results in another order
there, taken in that order back).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from oxinp._kernels.fft.axes import COMPLEX, HALF, Array, Problem, transforms
from oxinp._kernels.fft.batch import Batch
from oxinp._kernels.fft.plan import DIRECT, HALVED, Transform
from oxinp._kernels.fft.sides import Between, Chained, Loop, Side
from oxinp._kernels.fft.spec import SPLIT_MERGE
from oxinp._kernels.fft.tiling import MIN_SEGMENT, columns_of, is_large
from oxinp._kernels.plan import Argument, Launch, Plan, Scratch

if TYPE_CHECKING:
    from oxinp._kernels.choice import Device
    from oxinp._ptx.types import Type

MOST_PASSES = 3  # of a length there


class Filter(NamedTuple):
    """What is computed.

    Attributes
    ----------
    there, back : Problem
        Of the transforms, along the same axes, in opposite directions.
    chain : Chained
        What is made of what those there give, which has the shape of what those back take.
    others : tuple of tuple of int
        Of the chain's arrays, steps along all axes.
    """

    there: Problem
    back: Problem
    chain: Chained
    others: tuple[tuple[int, ...], ...]


class _Joined(NamedTuple):
    """The transform there and the one back that become one, the elements between in steps of the chain's arrays."""

    there: Transform
    back: Transform
    chain: Chained
    loops: tuple[tuple[int, ...], ...]  # per loop of the batch
    steps: tuple[int, ...]

    def lengths(self, device: Device) -> tuple[int, ...]:
        """The lengths of the passes there; () where they cannot become one with those back, or are better not."""
        there, back = self.there, self.back
        if there.length != back.length:
            return ()
        if self._is_halved(device):
            return (there.length // 2,)
        if back.num_valid != back.length or any(each.way(device) != DIRECT or each.is_half for each in (there, back)):
            return ()
        whole = self.whole()
        lengths = whole.lengths_alone(device)
        if len(lengths) > (2 if whole.is_apart() else MOST_PASSES):
            return ()
        # Rows that are staged, and columns that a cluster shares, are faster as two transforms.
        if whole.batch.is_staged if len(lengths) == 1 else whole.is_single(device):
            return ()
        n, nbytes = lengths[-1], there.type.nbytes
        columns = columns_of(
            n, nbytes, 1 << 20, device.max_shared_nbytes, is_mixed=True, is_convolved=is_large(n, nbytes)
        )
        return lengths if columns * nbytes >= (MIN_SEGMENT if len(lengths) > 1 or whole.is_apart() else 1) else ()

    def _is_halved(self, device: Device) -> bool:
        """Whether both are real transforms in a block."""
        there, back = self.there, self.back
        is_real = all(each.way(device) == HALVED for each in (there, back)) and there.is_forward
        return is_real and back.num_valid == back.length // 2 + 1

    def whole(self) -> Transform:
        """The transform there, to where the one back leaves its results."""
        there, back = self.there, self.back
        loops = [
            loop._replace(target=other.target, writes=other.writes)
            for loop, other in zip(there.loops, back.loops, strict=True)
        ]
        return there.replace(target=back.target, target_type=back.target_type, loops=tuple(loops), num_stored=0)

    def launches(self, device: Device, scratch: Scratch) -> list[Launch]:
        """The launches of all passes."""
        lengths, whole, there, back = self.lengths(device), self.whole(), self.there, self.back
        if len(lengths) == 1:
            is_halved = self._is_halved(device)
            own = there.halved() if is_halved else whole.batch
            loops = [loop._replace(between=steps) for loop, steps in zip(whole.loops, self.loops, strict=True)]
            between = self._between(1)
            if is_halved:  # what the chain takes is computed twice as large
                ends = {"target": back.target, "target_type": back.target_type}
                own = own.replace(real=SPLIT_MERGE, **ends)
                between = between._replace(scale=there.scale / 2)
            joined = own.replace(loops=tuple(loops), scales=back.batch.scales, epilogue=back.epilogue, between=between)
            return [joined.launch(device)]
        *before, last = whole.passes(lengths, scratch)
        passes = [*before, self._middle(lengths, last), *self._after(lengths, last)]
        return [each.launch(device) for each in passes]

    def _between(self, apart: int) -> Between:
        """The chain, of elements `apart` that follow each other in a pass."""
        there = self.there
        return Between(self.chain, tuple([apart * step for step in self.steps]), there.batch.sign, there.scale)

    def _middle(self, lengths: tuple[int, ...], last: Batch) -> Batch:
        """The pass that has the chain between its transforms; `last` is the last one of those there alone."""
        count, done, loops = len(self.loops), 1, []
        for loop, steps in zip(last.loops[:count], self.loops, strict=True):
            loops.append(Loop(loop.extent, loop.source, loop.source, between=steps))
        for loop in last.loops[count:]:  # of what is transformed already
            loops.append(Loop(loop.extent, loop.source, loop.source, between=self._between(done).steps))
            done *= loop.extent
        finished = loops[count:]
        type_ = self.there.type
        return Batch(
            lengths[-1],
            type_,
            type_,
            type_,
            last.source,
            last.source,
            tuple(loops),
            finished[-1],
            self.there.length,
            between=self._between(done),
            # Neighbours of what the chain reads, but where elements of the workspace lie apart.
            column=finished[0] if last.source.step == 1 else None,
        )

    def _after(self, lengths: tuple[int, ...], last: Batch) -> list[Batch]:
        """The passes back behind the middle one."""
        whole, back, count = self.there, self.back, len(self.loops)
        type_, side, passes = whole.type, last.source, []
        rest = lengths[-1]
        for number in range(len(lengths) - 2, -1, -1):
            is_last, own = number == 0, last.loops[count + number]
            batch = [
                Loop(loop.extent, loop.source, loop.target, (), loop.writes)
                if is_last
                else Loop(loop.extent, loop.source, loop.source)
                for loop in last.loops[:count]
            ]
            source = target = Side(side.buffer, own.source)
            column = Loop(rest, side.step, side.step)
            outside = last.loops[count : count + number]
            turn = None
            if is_last:
                target = Side(
                    back.target.buffer, rest * back.target.step, back.target.alignment, back.target.times(rest)
                )
                column = Loop(rest, side.step, back.target.step, (), back.target.steps)
            else:
                outside = tuple([Loop(loop.extent, loop.source, loop.source) for loop in outside])
                turn = outside[-1]
            passes.append(
                Batch(
                    lengths[number],
                    type_,
                    type_,
                    back.target_type if is_last else type_,
                    source,
                    target,
                    (*batch, *outside, column),
                    turn,
                    math.prod(lengths[: number + 1]),
                    scales=back.batch.scales if is_last else (1.0, 1.0),
                    epilogue=back.epilogue if is_last else None,
                )
            )
            rest *= lengths[number]
        return passes


def _parts(
    source: Array, target: Array, type_: Type, wanted: Filter, scratch: Scratch
) -> tuple[list[Transform], _Joined, list[Transform]]:
    """The transforms before those that become one, these, and the transforms behind."""
    first = wanted.there.axes[0]
    between = target
    if wanted.there.kind != COMPLEX or target.chain is not None:
        shape = list(target.shape)
        if wanted.back.kind == HALF:
            shape[wanted.back.axes[-1]] = wanted.back.length // 2 + 1
        steps = tuple([math.prod(shape[i + 1 :]) for i in range(len(shape))])
        place = Argument("between")
        if len(wanted.there.axes) > 1:
            place = scratch.take(math.prod(shape) * type_.nbytes)
        between = Array(place, type_, tuple(shape), steps)
    there = transforms(source, between, type_, wanted.there, scratch)
    back = transforms(between, target, type_, wanted.back, scratch, is_ascending=True)
    loops = [tuple([own[i] for own in wanted.others]) for i in range(len(target.shape)) if i != first]
    steps = tuple([own[first] for own in wanted.others])
    return there[:-1], _Joined(there[-1], back[0], wanted.chain, tuple(loops), steps), back[1:]


def is_filter(source: Array, target: Array, type_: Type, wanted: Filter, device: Device) -> bool:
    """Whether transforms there and back become one; see `plan_filter`."""
    before, joined, after = _parts(source, target, type_, wanted, Scratch())
    is_fusible = all(each.is_fusible(device) for each in (*before, joined.there, joined.back, *after))
    return is_fusible and bool(joined.lengths(device))


def plan_filter(source: Array, target: Array, type_: Type, wanted: Filter, device: Device) -> Plan:
    """Return the plan of transforms, a chain, and the transforms back, for which `is_filter` holds.

    Parameters
    ----------
    source, target : Array
        As of `plan_axes`.
    type_ : Type
        c64 or c128, in which everything is computed.
    wanted : Filter
    device : Device
    """
    scratch = Scratch()
    before, joined, after = _parts(source, target, type_, wanted, scratch)
    launches: list[Launch] = []
    used = scratch.nbytes
    steps: list[Transform | _Joined] = [*before, joined, *after]
    for each in steps:
        # Passes through the workspace follow each other: each axis may have all of it.
        own = Scratch()
        own.nbytes = used
        launches += each.launches(device, own)
        scratch.nbytes = max(scratch.nbytes, own.nbytes)
    return scratch.plan(launches)


__all__ = ["Filter", "is_filter", "plan_filter"]

"""The part of `segments` that ends slow segments, and finds out which of them start at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oxinp._kernels.random.counting import ALL, WARP, Counting
from oxinp._kernels.random.lcg import Wide
from oxinp._kernels.random.variates import Outcome
from oxinp._ptx.types import pred, u32

if TYPE_CHECKING:
    from oxinp._ptx.value import Value

MAX_REACH = 64  # of a segment into the next tile


class Starting(Counting):
    """The part of the kernel that goes through slow segments."""

    def end(self, tile: Value) -> tuple[Outcome, Value, Value]:
        """End the listed segments, one per thread, and put them in order."""
        k, spec = self.k, self.spec
        listed = self.turn[1]
        with k.when((listed > spec.capacity) & (k.tid == 0)):
            self.fail(1)
        count = k.min(listed, spec.capacity)
        is_listed = k.tid < count
        outcome = Outcome(k.var(1, u32), k.var(0, u32), k.var(0, self.variate.type))
        at = k.var(0, u32)
        with k.when(is_listed):
            at.set(self.listed_at[k.tid])
            low, high = self.listed.load((k.tid, 0), 2)
            reader = _Reader(self, tile, at.get(), Wide(low, high))
            first = reader.next()
            assert self.variate.slow is not None
            self.variate.slow(k, first, reader.next, self.parameters, outcome)
            place = k.var(0, u32)
            with k.range(count) as other:
                place.set(place + k.cast(self.listed_at[other] < at, u32))
            # The top bit: the segment gives nothing.
            self.ends.store((place, 0), [at | ((outcome.is_accepted ^ 1) << 31), at + outcome.length])
        return outcome, at.get(), is_listed

    def resolve(self, tile: Value) -> None:
        """Find out which listed segments start, clear what gives nothing, pass on how far the last one reaches."""
        k, spec = self.k, self.spec
        positions = spec.positions
        count = k.min(self.turn[1], spec.capacity)
        first_start = self.pieces // 2 if spec.is_shifted else 0
        start = k.var(k.where(tile == 0, k.const(first_start, u32), k.const(0, u32)))
        has_reached, is_published = k.var(tile == 0, pred), k.var(False, pred)
        with k.loop():
            reach, is_fixed = self.go_through(start.get(), count)
            beyond = k.max(reach, positions) - positions
            with k.when((is_fixed | has_reached) & ~is_published):
                is_published.set(k.const(True, pred))
                with k.when(self.lane == 0):
                    self.reaches.store(tile, [beyond + 1], order="relaxed.gpu")
            k.break_if(has_reached)
            found = k.var(0, u32)
            with k.loop():
                found.set(self.reaches.load(tile - 1, order="relaxed.gpu")[0])
                k.break_if(found != 0)
            k.warp_sync()
            has_reached.set(k.const(True, pred))
            start.set(found - 1)
            with k.when((start > MAX_REACH) & (self.lane == 0)):
                self.fail(2)
            k.break_if((start == 0) & is_published)
            with k.range(self.lane, self.rows * self.pieces, WARP) as word:
                self.emits.view(u32).at(word).store(0, [k.const(ALL, u32)])
            k.warp_sync()

    def go_through(self, start: Value, count: Value) -> tuple[Value, Value]:
        """Go through the listed segments where the first position that starts one is `start`.

        Returns
        -------
        reach : Value
            How far the last segment reaches, u32.
        is_fixed : Value
            Any other `start`, up to `MAX_REACH`, comes to the same.
        """
        k, positions = self.k, self.spec.positions
        with k.range(self.lane, start, WARP) as covered:
            self.clear(covered)
        reach, longest, leader = k.var(start), k.var(0, u32), k.var(0, u32)
        with k.range(k.const(0, u32), count, WARP) as begin:
            number = begin + self.lane
            is_valid = number < count
            word, end = self.ends.load((k.min(number, count - 1), 0), 2)
            at = k.where(is_valid, word & 0x7FFFFFFF, k.const(0x7FFFFFFF, u32))
            end = k.where(is_valid, end, k.const(0, u32))
            through = end
            for distance in (1, 2, 4, 8, 16):
                other = k.shfl_up(through, distance)
                through = k.where(self.lane >= distance, k.max(through, other), through)
            before = k.where(self.lane == 0, k.const(0, u32), k.shfl_up(through, 1))
            before = k.max(before, longest)
            leads = is_valid & (before <= at)
            leader.set(k.max(leader, k.redux("max", k.where(leads, at, k.const(0, u32)))))
            longest.set(k.max(longest, k.redux("max", through)))
            is_start = k.var(at >= start, pred)
            overlap = k.any(is_valid & (k.max(before, reach) > at))
            with k.when(overlap):
                turns = k.range(k.const(0, u32), k.const(WARP, u32))
                with turns as turn:
                    turn_at, turn_end = k.shfl_idx(at, turn), k.shfl_idx(end, turn)
                    starts = turn_at >= reach
                    reach.set(k.where(starts, k.max(reach, turn_end), reach))
                    is_start.set(k.where(self.lane == turn, starts, is_start))
            with k.otherwise():
                reach.set(k.max(reach, k.redux("max", end)))
            with (
                k.when(is_start & is_valid),
                k.range(at + (1 - (word >> 31)), k.min(end, positions)) as covered,
            ):
                self.clear(covered)
        k.warp_sync()
        return reach.get(), (longest <= positions) | (leader >= MAX_REACH)


class _Reader:
    """The pieces of the stream from a position on."""

    def __init__(self, kernel: Starting, tile: Value, at: Value, state: Wide) -> None:
        self._kernel = kernel
        k = kernel.k
        self._low, self._high = k.var(state.low), k.var(state.high)
        self._piece = k.var(at % kernel.pieces if kernel.pieces > 1 else k.const(0, u32))
        self._is_given = k.var((tile == 0) & (at == 1), pred) if kernel.given is not None else None

    def next(self) -> tuple[Value, ...]:
        """The next piece."""
        kernel, k = self._kernel, self._kernel.k
        low, high = kernel.lcg.output(k, Wide(self._low.get(), self._high.get()))
        if kernel.pieces == 1:
            self._step()
            return low, high
        is_high = self._piece != 0
        half = k.where(is_high, high, low)
        if self._is_given is not None:
            assert kernel.given is not None
            half = k.where(self._is_given, kernel.given, half)
            self._is_given.set(k.const(False, pred))
        with k.when(is_high):
            self._step()
        self._piece.set(self._piece ^ 1)
        return (half,)

    def _step(self) -> None:
        kernel = self._kernel
        following = kernel.increment.jumped(Wide(self._low.get(), self._high.get()), 1)
        self._low.set(following.low)
        self._high.set(following.high)


__all__ = ["MAX_REACH", "Starting"]

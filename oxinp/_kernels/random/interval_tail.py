"""The last draws of a shuffle, see `interval`: those of one block, and how it settles which words are accepted.

A window is the words that the block has at a time: thread t of a warp has every 32nd word of the warp's. Which of them
are accepted is a fixed point: from a guess of how many were accepted before each, acceptance gives these counts anew
until nothing changes, which a prefix of the window at least one word longer has settled every time; three times are
usual.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oxinp._ptx import Builder, Kernel
from oxinp._ptx.types import i32, u32

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxinp._ptx.memory import Pointer
    from oxinp._ptx.value import Value

BLOCK, WARP, ITEMS = 256, 32, 4
NUM_WARPS = BLOCK // WARP
WINDOW = BLOCK * ITEMS
UNKNOWN = 0xFFFFFFFF  # a position that no launch has left


class Window:
    """What a block settles at a time: which of `WINDOW` words are accepted.

    Parameters
    ----------
    k : Builder

    Attributes
    ----------
    indices : list of Value
        Of the thread's words in the window.
    """

    def __init__(self, k: Builder) -> None:
        self.k = k
        self.lane, self.warp = k.lane, k.tid >> 5
        self.indices = [self.warp * (WARP * ITEMS) + (self.lane + WARP * item) for item in range(ITEMS)]
        self.totals = k.shared(u32, (2, NUM_WARPS))
        self.parity = k.var(0, u32)
        self.below = (k.const(1, u32) << self.lane) - 1

    def settle(
        self, accepts: Callable[[int, Value], Value], guess: Callable[[Value], Value]
    ) -> tuple[list[Value], list[Value], Value]:
        """Find which words are accepted; all threads call this.

        Parameters
        ----------
        accepts : callable
            ``accepts(item, rank)``: whether a word is accepted if so many before it in the window are, u32.
        guess : callable
            ``guess(index)``: how many are expected to be.

        Returns
        -------
        accepted : list of Value
        ranks : list of Value
            How many are before each, u32.
        total : Value
        """
        k = self.k
        ranks = [k.var(guess(index)) for index in self.indices]
        words = [k.var(0, u32) for _ in ranks]
        total, is_first = k.var(0, u32), k.var(1 << 31, u32)
        with k.loop():
            found = [k.ballot(accepts(item, rank.get())) for item, rank in enumerate(ranks)]
            changes = found[0] ^ words[0]
            for word, before in zip(found[1:], words[1:], strict=True):
                changes = changes | (word ^ before)
            for word, var in zip(found, words, strict=True):
                var.set(word)
            flag = k.where(changes != 0, k.const(1 << 31, u32), is_first.get())
            is_first.set(k.const(0, u32))
            sums = self._ranked(found, flag)
            for rank, value in zip(ranks, sums[0], strict=True):
                rank.set(value)
            total.set(sums[1] & 0x7FFFFFFF)
            k.break_if((sums[1] >> 31) == 0)
        lane_bit = self.below + 1
        return [(word.get() & lane_bit) != 0 for word in words], [rank.get() for rank in ranks], total.get()

    def ranked(self, flags: list[Value]) -> tuple[list[Value], Value]:
        """How many flags are set before each of the thread's, and how many in all; all threads call this."""
        return self._ranked([self.k.ballot(flag) for flag in flags], self.k.const(0, u32))

    def _ranked(self, words: list[Value], flag: Value) -> tuple[list[Value], Value]:
        """The same of ballots; the highest bit of the sum is set where any thread's flag is."""
        k = self.k
        counts = [k.popc(word) for word in words]
        in_warp = counts[0]
        for count in counts[1:]:
            in_warp = in_warp + count
        with k.when(self.lane == 0):
            self.totals[self.parity, self.warp] = in_warp | flag
        k.barrier()
        each = [self.totals[self.parity, number] for number in range(NUM_WARPS)]
        self.parity.set(self.parity ^ 1)
        before, total, any_flag = k.const(0, u32), k.const(0, u32), k.const(0, u32)
        for number, value in enumerate(each):
            count = value & 0x7FFFFFFF
            before = before + k.where(self.warp > number, count, k.const(0, u32))
            total, any_flag = total + count, any_flag | value
        ranks = []
        for word, count in zip(words, counts, strict=True):
            ranks.append(before + k.popc(word & self.below))
            before = before + count
        return ranks, total | (any_flag & (1 << 31))


def _share(k: Builder, i: Value, bits: Value) -> Callable[[Value], Value]:
    """How many of the first words of a window are accepted, as expected from i at its start."""
    share = k.cast(k.max(i, 1), u32) << (k.const(32, u32) - bits)
    return lambda index: k.mulhi(index, share)


class _Words:
    """The thread's words of one window after the other, those of the next on their way while one is settled."""

    def __init__(self, k: Builder, pieces: Pointer, window: Window, first: Value, limit: Value) -> None:
        self.k, self.pieces, self.window, self.limit = k, pieces, window, limit
        self._at = k.var(first)
        self._held = [k.var(0, u32) for _ in window.indices]
        self._load()

    def _load(self) -> None:
        for word, index in zip(self._held, self.window.indices, strict=True):
            word.set(self.pieces[self.k.min(self._at + index, self.limit - 1)])

    def next(self) -> tuple[list[Value], list[Value]]:
        """The words of a window, and which of them are there."""
        words = [word.get() for word in self._held]
        is_there = [self._at + index < self.limit for index in self.window.indices]
        self._at.set(self._at + WINDOW)
        self._load()
        return words, is_there


def tail() -> Kernel:
    """Build the kernel that draws all numbers up to one, and leaves the position after these."""
    k = Builder("interval_tail", block=BLOCK)
    numbers, end = k.pointer("numbers", u32, "w"), k.pointer("end", u32, "w")
    pieces, start = k.pointer("pieces", u32, "r"), k.pointer("start", u32, "r")
    limit, bits, highest = k.scalar("limit", u32), k.scalar("bits", u32), k.scalar("highest", i32)
    window = Window(k)
    i, first, at = k.var(highest), start[0], k.var(0, u32)
    given = _Words(k, pieces, window, first, limit)
    with k.loop():
        k.break_if((i < 1) | (first + at >= limit))
        words, is_there = given.next()
        here = i.get()

        def value(item: int, rank: Value, *, words: Any = words, i: Value = here) -> tuple[Value, Value]:
            most = k.max(i - k.cast(rank, i32), 1)
            return words[item] & (k.const(UNKNOWN, u32) >> k.emit("clz", k.cast(most, u32))), most

        def accepts(item: int, rank: Value, *, there: Any = is_there, i: Value = here, value: Any = value) -> Value:
            number, most = value(item, rank)
            accepted: Value = there[item] & (i - k.cast(rank, i32) >= 1) & (k.cast(number, i32) <= most)
            return accepted

        accepted, ranks, total = window.settle(accepts, _share(k, here, bits))
        for item, (is_accepted, rank) in enumerate(zip(accepted, ranks, strict=True)):
            with k.when(is_accepted):
                number, most = value(item, rank)
                numbers[most - 1] = number
                with k.when(most == 1):
                    end[0] = first + at + window.indices[item] + 1
        i.set(here - k.cast(total, i32))
        at.set(at + WINDOW)
    return k.build()


__all__ = ["BLOCK", "ITEMS", "NUM_WARPS", "UNKNOWN", "WARP", "WINDOW", "tail"]

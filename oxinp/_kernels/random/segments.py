"""Draws that take as many words as it needs: ziggurats, and integers by rejection.

Data layout: the result is contiguous. The stream is cut into tiles of ``BLOCK * items`` words, numbered in order; a
word is one position, or several where variates take less than a word. A first launch leaves the state that every tile
starts from. Who owns what: blocks take tiles in turns; thread t owns words t, t + BLOCK, ... of a tile, so that a warp
has 32 words that follow each other, whose predicates are a ballot.

Algorithm: every position is looked at as if a segment (see `variates`) started there. What is not done with one piece,
a hundredth, is listed and ended by as many threads at once. Only these segments are longer than one position, so that
a position starts a segment unless one of those covers it that starts one itself: the first warp goes through the list
in order, in turns only where listed segments overlap. How far the last one reaches into the next tile is published; it
does not depend on what reaches into this one, but for a chance that is as good as none, and then it is published
later. What counts gives the places of results: decoupled look-back (Merrill and Garland 2016) joins the counts of the
tiles. Bytes per element: itself, once. Work per word: about 60 instructions.

Blocks wait for tiles that others took before, which run: turns are taken by those that run. Every word of memory that
blocks wait for holds all they need, so that no fence is asked for.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from oxinp._kernels.plan import Launch, Plan, Scratch, inputs, outputs
from oxinp._kernels.problem import MAX_KERNELS
from oxinp._kernels.random import tiles as tiles_kernel
from oxinp._kernels.random.counting import ALL, BLOCK, NUM_WARPS, SegmentsSpec
from oxinp._kernels.random.lcg import Addend, Wide, addend, factor, multiply_add
from oxinp._kernels.random.starting import Starting
from oxinp._kernels.random.tiles import NUM_TILE_BITS, TilesSpec
from oxinp._kernels.random.variates import VARIATES, Outcome
from oxinp._ptx import Kernel
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.types import i64, pred, u32, u64

if TYPE_CHECKING:
    from oxinp._kernels.choice import Device
    from oxinp._ptx.value import Value

ITEMS = 8
CAPACITY = BLOCK  # of the list: of 4,096 positions 61 +- 8 are slow for normals, 91 +- 9 for exponentials
BLOCKS_PER_SM = 5
SIGMAS = 12  # of what is drawn, for what is expected


def items_of(name: str) -> int:
    """Return how many words of a tile a thread has, so that its variates are no more than registers hold."""
    return ITEMS * 2 // max(2, VARIATES[name].pieces)


def num_tiles(size: int, expected: float, positions: int) -> int:
    """Return how many tiles hold the variates, with as good as certainty."""
    spread = SIGMAS * math.sqrt(size * expected * (expected - 1) * 4 + 64)
    return max(1, -(-math.ceil(size * expected + spread + 8) // positions))


def plan(
    generator: str,
    name: str,
    size: int,
    device: Device,
    *,
    is_shifted: bool = False,
    expected: float = 0,
    items: int = 0,
    capacity: int = CAPACITY,
) -> Plan:
    """Return the plan of `size` variates from a state on.

    The inputs are the halves of state and increment, low ones first, as scalars of u64; if shifted, the half word as
    u32; the table of a ziggurat; the parameters of the variate. The outputs are the variates and two words of i64: how
    many pieces were taken, counted from the word before where that was shifted, and a status. Where the status is not
    0, or the first word is negative, which has never been seen, the variates are not valid.

    Parameters
    ----------
    generator, name : str
    size : int
    device : Device
    is_shifted : bool
    expected : float
        Pieces per variate, where the variate does not know.
    items, capacity : int
        See `SegmentsSpec`; 0 for the usual items.
    """
    variate = VARIATES[name]
    spec = SegmentsSpec(generator, name, is_shifted, items or items_of(name), capacity)
    tiles = num_tiles(size, variate.expected or expected, spec.positions)
    if tiles >> NUM_TILE_BITS:
        raise ValueError(f"{size} variates are too many for one draw")
    scratch = Scratch()
    states, counts, reaches, control = (scratch.take(n) for n in (tiles * 16, tiles * 8, tiles * 4, 8))
    out, result = outputs(2)
    state = inputs(4)
    prepare = Launch(
        tiles_kernel.make(TilesSpec(generator, is_shifted, BLOCK * spec.items)),
        (-(-tiles // BLOCK), 1, 1),
        (states, counts, reaches, control, result, *state),
        (tiles,),
    )
    others = inputs(is_shifted + variate.has_table + len(variate.parameters), 4)
    draw = Launch(
        make(spec),
        (min(tiles, BLOCKS_PER_SM * device.num_sms), 1, 1),
        (out, states, counts, reaches, control, result, *state, *others),
        (size, tiles),
    )
    return scratch.plan((prepare, draw))


@lru_cache(MAX_KERNELS)
@retraceable
def make(spec: SegmentsSpec) -> Kernel:
    """Build the kernel of a Spec."""
    return _Segments(spec).build()


class _Segments(Starting):
    """The kernel while it is built."""

    def build(self) -> Kernel:
        k, spec, tid = self.k, self.spec, self.k.tid
        # In memory, for registers are what there is least of
        offsets = k.shared(u64, (BLOCK, 2))
        offsets.store((tid, 0), self.jump_of_thread())
        power, total = self.lcg.jump(1)
        ahead = factor(k, power - 1)
        start = addend(k, self.increment.constant(1))
        power, total = self.lcg.jump(BLOCK)
        stride = factor(k, power)
        with k.loop():
            with k.when(tid == 0):
                self.turn[0] = self.control.atomic("add", 0, k.const(1, u32))
                self.turn[1] = k.const(0, u32)
            k.barrier()
            tile = self.turn[0]
            k.break_if(tile >= self.num_tiles)
            low, high = self.states.load(k.cast(tile, i64) * 2, 2)
            base, offset = Wide(low, high), Wide(*offsets.load((tid, 0), 2))
            first = multiply_add(k, multiply_add(k, base, ahead, start), factor(k, offset), addend(k, base))
            step = addend(k, self.increment.constant(total))
            values, slow_bits = self.look(tile, first, stride, step)
            k.barrier()
            if self.has_slow:
                outcome, at, is_listed = self.end(tile)
                k.barrier()
            with k.when(self.warp == 0):
                if self.has_slow:
                    self.resolve(tile)
                self.count(tile)
            k.barrier()
            start_of_tile = self.base[0]
            left = self.size - start_of_tile
            with k.when(left > 0):
                limit = k.cast(k.min(left, spec.positions), u32)
                self.store(tile, start_of_tile, limit, values, slow_bits)
                if self.has_slow:
                    with k.when(is_listed):
                        self.store_slow(tile, start_of_tile, limit, outcome, at)
        return k.build()

    def jump_of_thread(self) -> Wide:
        """The G of as many steps as the thread's number."""
        k = self.k
        low, high = k.var(0, u64), k.var(0, u64)
        for bit in range(BLOCK.bit_length() - 1):
            power, total = self.lcg.jump(1 << bit)
            plus = Addend((k.const(total & ALL, u64), k.const(total >> 32 & ALL, u64)), k.const(total >> 64, u64))
            with k.when((k.tid & (1 << bit)) != 0):
                following = multiply_add(k, Wide(low.get(), high.get()), factor(k, power), plus)
                low.set(following.low)
                high.set(following.high)
        return Wide(low.get(), high.get())

    # -- every position

    def look(self, tile: Value, first: Wide, stride: Any, step: Addend) -> tuple[list[list[Value]], Value | None]:
        """Begin a segment everywhere; return the values, and as bits which segments are slow."""
        k, spec = self.k, self.spec
        state = first
        slow_bits = k.var(0, u32)
        every = []
        for item in range(spec.items):
            low, high = self.lcg.output(k, state)
            if self.given is not None and item == 0:
                high = k.where((tile == 0) & (k.tid == 0), self.given, high)
            row = self.warp + item * NUM_WARPS
            begun = [self.variate.begin(k, piece, self.parameters) for piece in self.pieces_of(low, high)]
            for piece, one in enumerate(begun):
                if one.is_slow is None:
                    word = k.ballot(one.is_done)
                    with k.when(self.lane == 0):
                        self.emits[row, piece] = word
                    continue
                with k.when(self.lane == 0):
                    self.emits[row, piece] = k.const(ALL, u32)
                with k.when(one.is_slow):
                    bit = 1 << (item * self.pieces + piece)
                    slow_bits.set(slow_bits | bit)
                    place = self.turn.atomic("add", 1, k.const(1, u32), order="relaxed.cta")
                    with k.when(place < spec.capacity):
                        self.listed.store((place, 0), state)
                        self.listed_at[place] = (k.tid + item * BLOCK) * self.pieces + piece
            every.append([one.value for one in begun])
            if item + 1 < spec.items:
                state = multiply_add(k, state, stride, step)
        if spec.is_shifted and not self.has_slow:
            # What comes before the half word that is given
            with k.when((tile == 0) & (k.tid == 0)):
                for piece in range(self.pieces // 2):
                    self.emits.atomic("and", (0, piece), k.const(ALL - 1, u32), order="relaxed.cta")
        return every, slow_bits if self.has_slow else None

    # -- results

    def store(self, tile: Value, base: Value, limit: Value, values: list[list[Value]], slow_bits: Value | None) -> None:
        """Store what segments of one position give."""
        k = self.k
        target = self.out.at(base)
        below = (k.const(1, u32) << self.lane) - 1
        including = below + below + 1
        left = self.size - base
        for item, pieces in enumerate(values):
            row = self.warp + item * NUM_WARPS
            words = self.emits.load((row, 0), self.pieces)
            place = self.places[row]
            befores = [k.popc(word & below) for word in words]
            throughs = [k.popc(word & including) for word in words[:-1]]
            for piece, value in enumerate(pieces):
                rank = place
                for other in range(self.pieces):
                    rank = rank + (throughs[other] if other < piece else befores[other])
                gives = ((words[piece] >> self.lane) & 1) != 0
                if slow_bits is not None:
                    gives = gives & ((slow_bits & (1 << (item * self.pieces + piece))) == 0)
                with k.when(gives & (rank < limit)):
                    target[rank] = value
                    with k.when(k.cast(rank, i64) + 1 == left):
                        at = (k.tid + item * BLOCK) * self.pieces + piece
                        self.say_end(tile, at + 1)

    def store_slow(self, tile: Value, base: Value, limit: Value, outcome: Outcome, at: Value) -> None:
        """Store what a listed segment gives."""
        k = self.k
        row, piece, lane = self.place_of(at)
        words = self.emits.load((row, 0), self.pieces)
        below = (k.const(1, u32) << lane) - 1
        rank, gives = self.places[row], k.var(False, pred)
        for other, word in enumerate(words):
            mask = below + k.where(piece > other, below + 1, k.const(0, u32))
            rank = rank + k.popc(word & mask)
            gives.set(gives | ((piece == other) & (((word >> lane) & 1) != 0)))
        with k.when(gives & (rank < limit)):
            self.out.at(base)[rank] = outcome.value.get()
            with k.when(k.cast(rank, i64) + 1 == self.size - base):
                self.say_end(tile, at + outcome.length)

    def say_end(self, tile: Value, at: Value) -> None:
        """Leave where the last variate's segment ends."""
        k = self.k
        self.result[0] = k.cast(tile, i64) * self.spec.positions + k.cast(at, i64)


__all__ = ["BLOCK", "CAPACITY", "SegmentsSpec", "items_of", "make", "num_tiles", "plan"]

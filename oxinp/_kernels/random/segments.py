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
from oxinp._kernels.random.lcg import GENERATORS, Addend, Increment, Wide, addend, factor, multiply_add
from oxinp._kernels.random.variates import STRIPS, VARIATES, Outcome, Strips
from oxinp._ptx import Builder, Kernel
from oxinp._ptx.frozen import Frozen
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.types import f64, i64, pred, u32, u64

if TYPE_CHECKING:
    from oxinp._kernels.choice import Device
    from oxinp._ptx.memory import Pointer
    from oxinp._ptx.value import Value, Var

BLOCK = 256
WARP = 32
NUM_WARPS = BLOCK // WARP
ITEMS = 8
CAPACITY = BLOCK  # of the list: of 4,096 positions 61 +- 8 are slow for normals, 91 +- 9 for exponentials
BLOCKS_PER_SM = 5
MAX_REACH = 64  # of a segment into the next tile
NUM_TILE_BITS = 26
SIGMAS = 12  # of what is drawn, for what is expected

COUNTED, SUMMED = 1, 2  # states of a tile's count, above 62 bits: its own, and with all before it
COUNT_BITS = 62
ALL = 0xFFFFFFFF


class SegmentsSpec(Frozen):
    """The kernel of variates.

    Attributes
    ----------
    generator : str
        A key of `lcg.GENERATORS`.
    variate : str
        A key of `variates.VARIATES`.
    is_shifted : bool
        The first half word is given.
    items : int
        Words of a thread in a tile.
    capacity : int
        Of the list of slow segments: one that is too long makes the draw fail, with the status that says so.
    """

    generator: str
    variate: str
    is_shifted: bool
    items: int
    capacity: int

    @property
    def positions(self) -> int:
        """Positions of a tile."""
        return BLOCK * self.items * VARIATES[self.variate].pieces


class TilesSpec(Frozen):
    """The kernel that leaves the states of tiles, and zeros where the other one counts."""

    generator: str
    is_shifted: bool
    words: int


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
    items: int = ITEMS,
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
        See `SegmentsSpec`.
    """
    variate = VARIATES[name]
    spec = SegmentsSpec(generator, name, is_shifted, items, capacity)
    tiles = num_tiles(size, variate.expected or expected, spec.positions)
    if tiles >> NUM_TILE_BITS:
        raise ValueError(f"{size} variates are too many for one draw")
    scratch = Scratch()
    states, counts, reaches, control = (scratch.take(n) for n in (tiles * 16, tiles * 8, tiles * 4, 8))
    out, result = outputs(2)
    state = inputs(4)
    prepare = Launch(
        make_tiles(TilesSpec(generator, is_shifted, BLOCK * items)),
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
def make_tiles(spec: TilesSpec) -> Kernel:
    """Build the kernel of a Spec."""
    k = Builder("random_tiles", block=BLOCK)
    states = k.pointer("states", u64, "w")
    counts, reaches = k.pointer("counts", u64, "w"), k.pointer("reaches", u32, "w")
    control, result = k.pointer("control", u32, "w"), k.pointer("result", i64, "w")
    lcg = GENERATORS[spec.generator]
    increment = Increment(k, lcg)
    size = k.scalar("num_tiles", u32)
    tile = k.ctaid * BLOCK + k.tid
    with k.when(tile < size):
        at = increment.jumped_by(increment.state, tile, spec.words, NUM_TILE_BITS)
        if lcg.lead != spec.is_shifted:
            at = increment.jumped(at, lcg.lead - spec.is_shifted)
        states.store(tile * 2, at)
        counts[tile] = k.const(0, u64)
        reaches[tile] = k.const(0, u32)
    with k.when(tile == 0):
        control[0] = k.const(0, u32)
        result.store(0, [k.const(-1, i64), k.const(0, i64)])
    return k.build()


@lru_cache(MAX_KERNELS)
@retraceable
def make(spec: SegmentsSpec) -> Kernel:
    """Build the kernel of a Spec."""
    return _Segments(spec).build()


class _Segments:
    """The kernel while it is built."""

    def __init__(self, spec: SegmentsSpec) -> None:
        self.spec = spec
        self.lcg, self.variate = GENERATORS[spec.generator], VARIATES[spec.variate]
        self.k = k = Builder("random_segments", block=BLOCK)
        self.out = k.pointer("out", self.variate.type, "w")
        self.states = k.pointer("states", u64, "r")
        self.counts, self.reaches = k.pointer("counts", u64), k.pointer("reaches", u32)
        self.control, self.result = k.pointer("control", u32), k.pointer("result", i64)
        self.increment = Increment(k, self.lcg)
        self.given = k.scalar("given", u32) if spec.is_shifted else None
        table = k.pointer("table", u64, "r") if self.variate.has_table else None
        self.parameters: Any = tuple(k.scalar(f"parameter{i}", t) for i, t in enumerate(self.variate.parameters))
        self.size, self.num_tiles = k.scalar("size", i64), k.scalar("num_tiles", u32)
        self.pieces, self.rows = self.variate.pieces, spec.items * NUM_WARPS
        self.turn = k.shared(u32, 2)  # the tile; how many segments are listed
        self.emits = k.shared(u32, (self.rows, self.pieces))
        self.places = k.shared(u32, self.rows)
        self.base = k.shared(i64, 1)
        self.has_slow = self.variate.slow is not None
        if self.has_slow:
            self.listed = k.shared(u64, (spec.capacity, 2))
            self.listed_at = k.shared(u32, spec.capacity)
            self.ends = k.shared(
                u32, (spec.capacity, 2)
            )  # in order: where segments start, how far they reach; see _end
        if table is not None:
            word = u64 if self.variate.type is f64 else u32
            edges = k.shared(word, 2 * STRIPS)
            for i in range(0, 2 * STRIPS, BLOCK):
                edges[k.tid + i] = k.cast(table[k.tid + i], word)
            self.parameters = Strips(edges, table.at(2 * STRIPS))
        self.lane, self.warp = k.lane, k.tid >> 5

    def build(self) -> Kernel:
        k, spec, tid = self.k, self.spec, self.k.tid
        offset = self.jump_of_thread()
        power, total = self.lcg.jump(1)
        ahead = factor(k, power - 1)
        start = addend(k, self.increment.constant(1))
        offset_factor = factor(k, offset)
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
            base = Wide(low, high)
            first = multiply_add(k, multiply_add(k, base, ahead, start), offset_factor, addend(k, base))
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

    def pieces_of(self, low: Value, high: Value) -> list[tuple[Value, ...]]:
        """The pieces of a word, in order."""
        if self.pieces == 1:
            return [(low, high)]
        bits = 64 // self.pieces
        each = [(half >> shift if shift else half) for half in (low, high) for shift in range(0, 32, bits)]
        return [(part,) if bits == 32 else (part & ((1 << bits) - 1),) for part in each]

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

    # -- slow segments

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
            with k.when(k.any(is_valid & (k.max(before, reach) > at))):
                with k.range(k.const(0, u32), k.const(WARP, u32)) as turn:
                    turn_at, turn_end = k.shfl_idx(at, turn), k.shfl_idx(end, turn)
                    starts = turn_at >= reach
                    reach.set(k.where(starts, k.max(reach, turn_end), reach))
                    is_start.set(k.where(self.lane == turn, starts, is_start))
            with k.otherwise():
                reach.set(k.max(reach, k.redux("max", end)))
            with k.when(is_start & is_valid):
                with k.range(at + (1 - (word >> 31)), k.min(end, positions)) as covered:
                    self.clear(covered)
        k.warp_sync()
        return reach.get(), (longest <= positions) | (leader >= MAX_REACH)

    def place_of(self, at: Value) -> tuple[Value, Value, Value]:
        """Row, piece and lane of a position."""
        word = at / self.pieces if self.pieces > 1 else at
        piece = at % self.pieces if self.pieces > 1 else self.k.const(0, u32)
        return word >> 5, piece, word & 31

    def clear(self, at: Value) -> None:
        """Let a position give nothing."""
        row, piece, lane = self.place_of(at)
        self.emits.atomic("and", (row, piece), ~(self.k.const(1, u32) << lane), order="relaxed.cta")

    def fail(self, status: int) -> None:
        """Leave a status that says that the result is not valid."""
        self.result.atomic("max", 1, self.k.const(status, i64))

    # -- places of results

    def count(self, tile: Value) -> None:
        """Count what a tile gives, and find out what those before it give; the first warp does."""
        k = self.k
        per_lane = max(1, self.rows // WARP)
        rows = [self.lane * per_lane + i for i in range(per_lane)]
        has_rows = self.lane < self.rows // per_lane
        counts = []
        for row in rows:
            words = self.emits.load((k.where(has_rows, row, k.const(0, u32)), 0), self.pieces)
            total = k.popc(words[0])
            for word in words[1:]:
                total = total + k.popc(word)
            counts.append(k.where(has_rows, total, k.const(0, u32)))
        own = counts[0]
        for each in counts[1:]:
            own = own + each
        through = own
        for distance in (1, 2, 4, 8, 16):
            other = k.shfl_up(through, distance)
            through = k.where(self.lane >= distance, through + other, through)
        place = through - own
        for row, each in zip(rows, counts, strict=True):
            with k.when(has_rows):
                self.places[row] = place
            place = place + each
        total = k.cast(k.shfl_idx(through, WARP - 1), u64)
        self.look_back(tile, total)

    def look_back(self, tile: Value, total: Value) -> None:
        """Publish a count, and leave the sum of those before it."""
        k = self.k
        summed = k.const(SUMMED << COUNT_BITS, u64)
        before = k.var(0, u64)
        with k.when(tile > 0):
            with k.when(self.lane == 0):
                self.counts.store(tile, [total | (COUNTED << COUNT_BITS)], order="relaxed.gpu")
            last = k.var(tile)  # the tile after those that are looked at
            with k.loop():
                is_there = self.lane < last
                at = k.where(is_there, last - 1 - self.lane, k.const(0, u32))
                word = k.var(0, u64)
                with k.loop():
                    word.set(self.counts.load(at, order="relaxed.gpu")[0])
                    k.break_if((word >> COUNT_BITS) != 0)
                k.warp_sync()
                value = k.where(is_there, word, summed)
                sums = k.ballot(value >= summed)
                # Lanes up to the first one whose count holds all before it
                nearest = k.where(sums == 0, k.const(WARP, u32), k.bfind(sums & (k.const(0, u32) - sums)))
                part = k.where(self.lane <= nearest, value & ((1 << COUNT_BITS) - 1), k.const(0, u64))
                for distance in (16, 8, 4, 2, 1):
                    part = part + k.shfl_bfly(part, distance)
                before.set(before + part)
                k.break_if(sums != 0)
                last.set(last - WARP)
        with k.when(self.lane == 0):
            self.counts.store(tile, [(before + total) | summed], order="relaxed.gpu")
            self.base[0] = k.cast(before, i64)

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


class _Reader:
    """The pieces of the stream from a position on."""

    def __init__(self, kernel: _Segments, tile: Value, at: Value, state: Wide) -> None:
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


__all__ = ["SegmentsSpec", "TilesSpec", "make", "make_tiles", "num_tiles", "plan"]

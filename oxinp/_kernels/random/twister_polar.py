"""Large draws of polar normals from MT19937: points that are accepted, apart from what is made of them.

The words of a draw are cut into streams, see `twister_draw`, whose blocks store the points that they accept one after
the other, 16 bytes each, and how many these are; another launch makes the normals, of which a block has some points of
a stream: where its results go is the sum of the counts before that. So no word is made twice, and no thread waits for
logarithms between two barriers. Where the draw may end, which its size tells to a few turns of a state's worth of
words, blocks leave the states that turns begin with in place of points, and kernels as those of `twister_draw` have a
turn each, one of which finds the end. Who owns what: a thread of the second launch has every `BLOCK`-th point of its
block's, and one in sixteen goes to a list, as its logarithm is another one (see `libm`). Bytes per result: 24, of which
8 are its own. Instructions: about 90 per pair of words, 150 per point.

Source: NumPy's src/mt19937 and src/legacy.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from oxinp._kernels.problem import MAX_KERNELS
from oxinp._kernels.random import libm
from oxinp._kernels.random.twister import N
from oxinp._kernels.random.twister_draw import BLOCK, NUM_WARPS, WARP, Place, sum_of
from oxinp._kernels.random.twister_fill import BLOCK as MAKERS
from oxinp._kernels.random.twister_fill import STEP, STEPS, Stream
from oxinp._kernels.random.twister_formats import FORMATS, coordinate, polar_values, tempered
from oxinp._ptx import Builder, Kernel
from oxinp._ptx.frozen import Frozen
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.types import f64, i64, u32

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxinp._ptx.memory import Pointer
    from oxinp._ptx.value import Value

FORMAT = "polar_f64"
POINTS, ENDS, VALUES = "points", "ends", "values"
TURN = STEP * STEPS  # words
PER_WARP = -(-TURN // (4 * MAKERS)) * WARP  # points of a warp in a turn
assert TURN % 4 == 0
CHUNK = 8 * BLOCK  # points of a block


class PolarSpec(Frozen):
    """One kernel of the family.

    Attributes
    ----------
    part : str
        What it leaves: `POINTS` of streams; results of turns, of which one is the last (`ENDS`); `VALUES` of points.
    is_given : bool
        The first result is given.
    """

    part: str
    is_given: bool = False


@lru_cache(MAX_KERNELS)
@retraceable
def make(spec: PolarSpec) -> Kernel:
    """Build the kernel of a Spec."""
    if spec.part == POINTS:
        return _Points().build()
    if spec.part == ENDS:
        return _Ends(FORMAT, is_given=spec.is_given).build()
    return _Values(is_given=spec.is_given).build()


class _Points:
    """Store a stream's points, or from some turn on the states of turns and what they accept.

    A block makes the words of a turn, and then looks at all of its points at once: a warp at `PER_WARP` that follow
    each other, so that a turn has one barrier for their ranks.
    """

    def __init__(self) -> None:
        self.k = k = Builder("twister_points", block=MAKERS)
        self.points, self.states = k.pointer("points", f64, "w"), k.pointer("states", u32, "w")
        self.counts = k.pointer("counts", i64, "w")
        self.windows = k.pointer("windows", u32, "r")
        self.length, self.size = k.scalar("length", i64), k.scalar("size", i64)
        self.words, self.totals = Stream(k), k.shared(u32, MAKERS // WARP)

    def build(self) -> Kernel:
        k, words = self.k, self.words
        first, turns = k.scalar("first", u32), k.scalar("turns", u32)
        words.load(self.windows.at(k.cast(k.ctaid, i64) * N))
        k.barrier()
        points = self.points.at(k.cast(k.ctaid, i64) * (self.length >> 1))
        total, turn, left = k.var(0, u32), k.var(k.ctaid * turns), k.var(self.length >> 2)
        with k.loop():
            may_end, place = turn >= first, turn - first
            with k.when(may_end):
                words.leave(self.states.at(k.cast(place, i64) * N), k.const(0, u32))
            words.make_all()
            here = k.cast(k.min(left, TURN // 4), u32)
            count = self.look(points.at(total * 2), here, ~may_end)
            with k.when(~may_end):
                total.set(total + count)
            with k.when(may_end & (k.tid == 0)):
                self.counts[k.nctaid + place] = k.cast(count, i64)
            k.break_if(left <= TURN // 4)
            words.turn()
            turn.set(turn + 1)
            left.set(left - TURN // 4)
        with k.when(k.tid == 0):
            self.counts[k.ctaid] = k.cast(total.get(), i64)
        return k.build()

    def look(self, points: Pointer, here: Value, stores: Value) -> Value:
        """Store those of a turn's first points that are accepted; return how many. There is a barrier in it."""
        k, lane, warp = self.k, self.k.lane, self.k.tid >> 5
        found: list[tuple[Value, list[Value]]] = []
        ballots: list[Value] = []
        for number in range(PER_WARP // WARP):
            at = warp * PER_WARP + number * WARP + lane
            held = self.words.words.load(k.min(at, TURN // 4 - 1) * 4, 4)
            outputs = [tempered(word) for word in held]
            point = [coordinate(k, *outputs[:2]), coordinate(k, *outputs[2:])]
            accepted = FORMATS[FORMAT].make(k, point, ()).is_accepted
            assert accepted is not None
            found.append((accepted & (at < here), point))
            ballots.append(k.ballot(found[-1][0]))
        in_warp = k.popc(ballots[0])
        for ballot in ballots[1:]:
            in_warp = in_warp + k.popc(ballot)
        with k.when(lane == 0):
            self.totals[warp] = in_warp
        k.barrier()
        place, total = k.const(0, u32), k.const(0, u32)
        for number in range(MAKERS // WARP):
            each = self.totals[number]
            place = place + k.where(warp > number, each, k.const(0, u32))
            total = total + each
        below = (k.const(1, u32) << lane) - 1
        for (accepted, point), ballot in zip(found, ballots, strict=True):
            with k.when(accepted & stores):
                points.store((place + k.popc(ballot & below)) * 2, point)
            place = place + k.popc(ballot)
        return total


class _Ends(Place):
    """Store what turns accept, one per block, up to the last result."""

    name = "twister_ends"

    def build(self) -> Kernel:
        self.constants = [self.k.scalar(name, u32) for name in ("num_streams", "first", "turns")]
        return super().build()

    def sum_before(self) -> Value:
        return sum_of(self.k, self.counts, self.constants[0] + self.k.ctaid, self.sums)

    def extent(self) -> tuple[Value, Value]:
        k = self.k
        _, first, turns = self.constants
        turn = first + k.ctaid
        start = k.cast(turn % turns, i64) * TURN
        return k.cast(turn / turns, i64) * self.length + start, k.min(self.length - start, TURN)


class _Values:
    """Store the results of some points of a stream."""

    def __init__(self, *, is_given: bool) -> None:
        self.is_given = is_given
        self.k = k = Builder("twister_normals", block=BLOCK)
        self.out, self.points = k.pointer("out", f64, "w"), k.pointer("points", f64, "r")
        self.counts = k.pointer("counts", i64, "r")
        self.length, self.size = k.scalar("length", i64), k.scalar("size", i64)

    def build(self) -> Kernel:
        k = self.k
        sums, num_near, near = k.shared(i64, NUM_WARPS), k.shared(u32, 1), k.shared(u32, CHUNK)
        stream, start = k.ctaid.y, k.ctaid * CHUNK
        count = k.cast(self.counts[stream], u32)
        with k.when(start < count):
            with k.when(k.tid == 0):
                num_near[0] = k.const(0, u32)
            self.rank = sum_of(k, self.counts, stream, sums) + k.cast(start, i64)
            points = self.points.at(k.cast(stream, i64) * (self.length >> 1) + k.cast(start, i64) * 2)
            end = k.min(count - start, CHUNK)
            held = [k.var(part) for part in points.load(k.min(k.tid, end - 1) * 2, 2)]
            with k.range(k.tid, end, BLOCK) as number:
                x, y = (part.get() for part in held)
                # The next point is on its way while this one is computed with.
                for var, part in zip(held, points.load(k.min(number + BLOCK, end - 1) * 2, 2), strict=True):
                    var.set(part)
                square = x * x + y * y
                is_near = libm.is_near_1(k, square)
                with k.when(is_near):
                    near[num_near.atomic("add", 0, k.const(1, u32), order="relaxed.cta")] = number
                with k.otherwise():
                    self.store(number, x, y, libm.log_far)
            k.barrier()
            with k.range(k.tid, num_near[0], BLOCK) as place:
                number = near[place]
                x, y = points.load(number * 2, 2)
                self.store(number, x, y, libm.log_near)
        return k.build()

    def store(self, number: Value, x: Value, y: Value, log: Callable[[Builder, Value], Value]) -> None:
        """Store the results of a point; the first results of turns that follow are others' to store."""
        k = self.k
        values = polar_values(k, x, y, x * x + y * y, log)
        at = (self.rank + k.cast(number, i64)) * 2 + int(self.is_given)
        with k.when(at + 1 < self.size):
            if not self.is_given:
                self.out.store(at, values)
            else:
                for i, value in enumerate(values):
                    self.out[at + i] = value


__all__ = ["CHUNK", "ENDS", "FORMAT", "POINTS", "TURN", "VALUES", "PolarSpec", "make"]

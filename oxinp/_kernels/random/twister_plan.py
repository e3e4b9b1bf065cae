"""How a draw from MT19937 is cut into streams, and the plan that makes their states and draws from them.

Measured on the H200 for 2**28 words in 512 streams: jumps 0.33 ms, of which the last round is 0.24; they take as long
as there are streams. Expected of the words of 2**27 numbers of f64: 0.3 ms, see `twister_fill`. On the H100, 2**27
polar normals take 2.09 ms in 261 streams, 2.14 in 373, 2.17 in 522, and 2.22 in 435; rounds that make 16 times as many
streams in place of 32 take 0.01 to 0.04 ms longer.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from oxinp._kernels.plan import Copy, Fill, Launch, Plan, Scratch, inputs, outputs
from oxinp._kernels.random import twister_draw, twister_fill, twister_jump, twister_polar
from oxinp._kernels.random.twister import COEFFICIENT_WORDS, DEGREE, N, Words, coefficients, multiple
from oxinp._kernels.random.twister_draw import DrawSpec
from oxinp._kernels.random.twister_fill import TwisterFillSpec
from oxinp._kernels.random.twister_formats import FORMATS, RESULT_WORDS
from oxinp._kernels.random.twister_jump import JUMP_WARPS, SEQUENCE, JumpSpec
from oxinp._kernels.random.twister_polar import PolarSpec

if TYPE_CHECKING:
    from collections.abc import Iterator

    from oxinp._kernels.choice import Device
    from oxinp._kernels.plan import Argument, Step
    from oxinp._kernels.random.twister_formats import Cutting

FEWEST_WORDS = 1 << 14  # of a stream
FEWEST_OF_POINTS = 64  # streams, whose polar normals are made of points that wait in global memory
RADIX_BITS = 5  # of how many times as many streams a round makes as there are
SIGMAS = 12  # of what is drawn, for what is expected


class Streams(NamedTuple):
    """How a draw is cut.

    Attributes
    ----------
    odd, exponent : int
        A stream has ``odd * 2**exponent`` words.
    number : int
        How many there are.
    """

    odd: int
    exponent: int
    number: int

    @property
    def length(self) -> int:
        """Words of a stream."""
        return self.odd << self.exponent

    def rounds(self) -> Iterator[tuple[int, int, int]]:
        """Yield what every round of jumps begins with: streams that are there, those that it makes, an exponent."""
        sources, exponent = 1, self.exponent
        while sources < self.number:
            yield sources, min(self.number, sources << RADIX_BITS) - sources, exponent
            sources, exponent = sources << RADIX_BITS, exponent + RADIX_BITS


def streams(num_words: int, cutting: Cutting) -> Streams:
    """Return how a draw of some words is cut, see `streams_of`."""
    least = max(FEWEST_WORDS, -(-num_words // cutting.most))
    length, odd, exponent = min(
        (odd << e, odd, e) for odd in cutting.odds for e in [max(2, ((least + odd - 1) // odd - 1).bit_length())]
    )
    return Streams(odd, exponent, max(1, -(-num_words // length)))


def streams_of(name: str, size: int, chance: float = 1.0) -> Streams:
    """Return how a draw of some results is cut; `chance` is that an attempt is accepted, where parameters say that."""
    return streams(words_for(name, size, chance), FORMATS[name].cutting)


@lru_cache(16)
def polynomials(cut: Streams) -> Words:
    """Return the polynomials of all rounds, an input of `plan`; rows that are not needed are zeros."""
    rounds = list(cut.rounds())
    table = np.zeros((len(rounds), (1 << RADIX_BITS) - 1, COEFFICIENT_WORDS), np.uint32)
    for rows, (sources, targets, exponent) in zip(table, rounds, strict=True):
        for times in range(1, -(-targets // sources) + 1):
            rows[times - 1] = coefficients(multiple(cut.odd, exponent, times))
    return table.reshape(-1)


def words_for(name: str, size: int, chance: float = 1.0) -> int:
    """Return how many words hold some results, where attempts are rejected with as good as certainty."""
    made = FORMATS[name]
    attempts = -(-size // made.gives)
    if made.rejects:
        chance = math.pi / 4 if made.gives == 2 else chance
        attempts = math.ceil(attempts / chance + SIGMAS * math.sqrt(attempts * (1 - chance)) / chance) + 64
    return attempts * made.words


def plan(name: str, size: int, device: Device, *, cut: Streams, is_given: bool = False) -> Plan:
    """Return the plan of `size` results.

    The inputs are the 624 words from where the draw begins; where there are several streams, their `polynomials`; the
    result that is given; the parameters. The outputs are the results, `RESULT_WORDS` words of i64, of which the first
    is negative if something went wrong, and 624 words.
    """
    made = FORMATS[name]
    scratch = Scratch()
    windows = scratch.take(cut.number * N * 4)
    (window,), number = inputs(1), 1
    steps: list[Step] = []
    if cut.number > 1:
        steps.append(Fill(windows, cut.number * N * 4, 0))
    steps.append(Copy(windows, window, N * 4))
    if cut.number > 1:
        (polynomials,) = inputs(1, 1)
        number = 2
        steps += _jumps(cut, windows, scratch, polynomials, device.num_sms)
    out, result, left = outputs(3)
    steps.append(Fill(result, RESULT_WORDS * 8, 0xFF))
    given, parameters = inputs(is_given, number), inputs(len(made.parameters), number + is_given)
    constants = (cut.length, size)
    if name == twister_polar.FORMAT and cut.number >= FEWEST_OF_POINTS:
        steps += _points(cut, windows, scratch, given, size)
        return scratch.plan(steps)
    if made.rejects:
        counts = scratch.take(cut.number * 8)
        count = twister_draw.make(DrawSpec(name, counts=True, is_given=False))
        steps.append(Launch(count, (cut.number, 1, 1), (counts, windows, *parameters), constants))
        arguments = (out, result, left, counts, windows, *given, *parameters)
        kernel = twister_draw.make(DrawSpec(name, counts=False, is_given=is_given))
    else:
        arguments = (out, result, left, windows)
        kernel = twister_fill.make(TwisterFillSpec(name))
    steps.append(Launch(kernel, (cut.number, 1, 1), arguments, constants))
    return scratch.plan(steps)


def _points(cut: Streams, windows: Argument, scratch: Scratch, given: tuple[Argument, ...], size: int) -> list[Launch]:
    """The launches of `twister_polar`."""
    is_given = len(given)
    chance, attempts = math.pi / 4, (size - is_given + 1) // 2
    least = int((attempts - SIGMAS * math.sqrt(attempts * (1 - chance))) / chance) - 64  # that the draw takes
    stream, start = divmod(max(0, least * 4), cut.length)
    turns = -(-cut.length // twister_polar.TURN)  # of a stream
    first = stream * turns + start // twister_polar.TURN
    num_ends = cut.number * turns - first
    points, states = scratch.take(cut.number * cut.length * 4), scratch.take(num_ends * N * 4)
    counts = scratch.take((cut.number + num_ends) * 8)
    out, result, left = outputs(3)
    constants = (cut.length, size)
    polar = twister_polar.make(PolarSpec(twister_polar.POINTS))
    ends = twister_polar.make(PolarSpec(twister_polar.ENDS, bool(is_given)))
    values = twister_polar.make(PolarSpec(twister_polar.VALUES, bool(is_given)))
    chunks = -(-(cut.length // 4) // twister_polar.CHUNK)
    return [
        Launch(polar, (cut.number, 1, 1), (points, states, counts, windows), (*constants, first, turns)),
        Launch(
            ends,
            (num_ends, 1, 1),
            (out, result, left, counts, states, *given),
            (*constants, cut.number, first, turns),
        ),
        Launch(values, (chunks, cut.number, 1), (out, points, counts), constants),
    ]


def _jumps(cut: Streams, windows: Argument, scratch: Scratch, polynomials: Argument, num_sms: int) -> Iterator[Launch]:
    """The rounds that make the states of streams."""
    rounds = list(cut.rounds())
    num_blocks = twister_jump.JUMP_BLOCKS_PER_SM * num_sms  # a few more would run alone at the end
    sequences = scratch.take(rounds[-1][0] * SEQUENCE * 4)
    nums_words = [min(DEGREE - 1, cut.odd * -(-targets // sources) << e) // 32 + 1 for sources, targets, e in rounds]
    # Whole windows, and those that the last coefficients need
    count = min(SEQUENCE, -(-(max(nums_words) * 32 + N) // N) * N + N)
    known = 0
    for number, (sources, targets, _) in enumerate(rounds):
        num_words = nums_words[number]
        sequence = twister_jump.make(JumpSpec(is_sequence=True))
        yield Launch(sequence, (sources - known, 1, 1), (windows, sequences), (known, count))
        fewest = -(-num_words // (JUMP_WARPS * twister_jump.MOST_PER_WARP))
        splits = max(fewest, min(num_words, num_blocks // targets))
        per_warp = -(-num_words // (JUMP_WARPS * splits))
        yield Launch(
            twister_jump.make(JumpSpec(is_sequence=False)),
            (-(-num_words // (JUMP_WARPS * per_warp)), targets, 1),
            (windows, sequences, polynomials.at(number * ((1 << RADIX_BITS) - 1) * COEFFICIENT_WORDS * 4)),
            (sources, per_warp, num_words),
        )
        known = sources


__all__ = ["Streams", "plan", "polynomials", "streams", "streams_of", "words_for"]

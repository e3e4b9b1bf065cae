"""Draws that take as many words as they need from words that lie in memory, of Philox and of MT19937.

Philox makes a word from its number alone, so that the kernel that finds variates makes the words that it looks at, and
leaves them for the one that places variates: of 2**27 normals of f64 on the H100, 0.61 ms in place of 0.96 for words
that are stored first and 0.43 for what looks at them. Words are stored first where they come from many streams, as
those of MT19937 do; where the first half of one is left over from a draw before; and for variates without slow
segments.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from oxinp._kernels.plan import Fill, Launch, Plan, Scratch, inputs, outputs
from oxinp._kernels.random import philox, twister_leave, twister_plan
from oxinp._kernels.random.segments import Draw, found_and_placed, num_groups, tiled
from oxinp._kernels.random.twister import N
from oxinp._kernels.random.twister_formats import OF_FIXED, RESULT_WORDS
from oxinp._kernels.random.twister_leave import LeaveSpec
from oxinp._kernels.random.twister_plan import Streams
from oxinp._kernels.random.variates import VARIATES
from oxinp._kernels.random.words import BLOCK

if TYPE_CHECKING:
    from collections.abc import Sequence

    from oxinp._kernels.choice import Device
    from oxinp._kernels.plan import Argument, Step
    from oxinp._kernels.random.find import FindSpec

SLACK = 64  # words after the last tile, where its segments may end


def kind_of(name: str) -> str:
    """Return what `stored.DOUBLES` calls words that are stored first; where f64 have slow segments, MT19937's alone."""
    variate = VARIATES[name]
    return "twisted" if variate.pieces == 1 and variate.slow is not None else "stored"


def _format(name: str) -> str:
    return "words" if VARIATES[name].pieces == 1 else "halves"


def num_words(finds: FindSpec, tiles: int) -> int:
    """Return how many words of 64 bits tiles take."""
    return BLOCK * finds.items * tiles + SLACK


def _variates(
    scratch: Scratch, finds: FindSpec, tiles: int, size: int, results: Sequence[Argument], rest: tuple[Argument, ...]
) -> tuple[Argument, list[Step]]:
    """Where the words are to be stored, and the steps after that."""
    words = scratch.take((BLOCK + num_words(finds, tiles)) * 8)
    groups, launches = found_and_placed(scratch, finds, tiles, size, results, (words, *rest))
    result = results[1]
    before = Fill(words, BLOCK * 8, 0)
    fills = [before, Fill(groups, num_groups(tiles) * 8, 0), Fill(result, 8, 0xFF), Fill(result.at(8), 8, 0)]
    return words.at(BLOCK * 8), [*fills, *launches]


def plan(draw: Draw, device: Device) -> Plan:
    """Return the plan of variates of a generator of `philox.VARIANTS`.

    The inputs are those of `philox.plan`, then the table of a ziggurat, then the parameters of the variate. The outputs
    are those of `segments.plan`; pieces are counted from the half word on, if there is one.
    """
    is_counted = VARIATES[draw.name].slow is not None and not draw.is_shifted
    return (counted_plan if is_counted else filled_plan)(draw, device)


def filled_plan(draw: Draw, device: Device) -> Plan:
    """Return the same plan by words that are stored first."""
    generator, name, size, is_shifted, skip, *_ = draw
    variant, variate = philox.VARIANTS[generator], VARIATES[name]
    finds, tiles = tiled(_stored(draw, "stored"), device)
    scratch, format_ = Scratch(), _format(name)
    rest = inputs(variate.has_table + len(variate.parameters), variant.num_counters + variant.num_keys + is_shifted)
    words, steps = _variates(scratch, finds, tiles, size, outputs(2), rest)
    count = num_words(finds, tiles) * (1 if format_ == "words" else 2)
    made = philox.plan(generator, format_, count, 256, device, skip=skip, is_shifted=is_shifted)
    return scratch.plan((*made.on(out0=words), *steps))


def counted_plan(draw: Draw, device: Device) -> Plan:
    """Return the same plan by words that the kernel makes that finds variates, see `counted`; no half word is given."""
    variant, variate = philox.VARIANTS[draw.generator], VARIATES[draw.name]
    finds, tiles = tiled(draw, device)
    scratch, result = Scratch(), outputs(2)[1]
    words = scratch.take(BLOCK * (finds.items + 2) * tiles * 8)
    start = inputs(variant.num_counters + variant.num_keys)
    rest = inputs(variate.has_table + len(variate.parameters), len(start))
    lead = draw.skip * (variate.pieces // 2 or 1)
    groups, launches = found_and_placed(
        scratch, finds, tiles, draw.size, outputs(2), (words, *start, *rest), (words, *rest), lead
    )
    fills = [Fill(groups, num_groups(tiles) * 8, 0), Fill(result, 8, 0xFF), Fill(result.at(8), 8, 0)]
    return scratch.plan((*fills, *launches))


def _stored(draw: Draw, kind: str) -> Draw:
    """Return a draw from words that have been stored, which begin where it does."""
    return draw._replace(generator=kind, is_shifted=False, skip=0)


def twisted_cut(draw: Draw, device: Device) -> Streams:
    """Return how the words of a draw from MT19937 are cut, see `twister_plan.Streams`."""
    count = num_words(*tiled(_stored(draw, "stored"), device))
    return twister_plan.streams(2 * count, OF_FIXED)


def twisted_plan(draw: Draw, device: Device, cut: Streams) -> Plan:
    """Return the plan of variates of MT19937.

    The inputs are the 624 words from where the draw begins; where there are several streams, their polynomials; the
    table of a ziggurat; the parameters of the variate. The outputs are those of `twister_plan.plan`.
    """
    name, variate = draw.name, VARIATES[draw.name]
    finds, tiles = tiled(_stored(draw, kind_of(name)), device)
    scratch, format_ = Scratch(), _format(name)
    out, result, left = outputs(3)
    taken = scratch.take(16)
    rest = inputs(variate.has_table + len(variate.parameters), 1 + (cut.number > 1))
    words, steps = _variates(scratch, finds, tiles, draw.size, (out, taken), rest)
    count = num_words(finds, tiles) * (1 if format_ == "words" else 2)
    made = twister_plan.plan(format_, count, device, cut=cut)
    ignored = scratch.take(RESULT_WORDS * 8), scratch.take(N * 4)
    before = made.on(out0=words, out1=ignored[0], out2=ignored[1], scratch=scratch.take(made.scratch_nbytes))
    leave = twister_leave.make(LeaveSpec(variate.pieces))
    last = Launch(leave, (1, 1, 1), (result, left, taken, words), ())
    return scratch.plan((*before, *steps, last))


__all__ = ["SLACK", "counted_plan", "filled_plan", "kind_of", "num_words", "plan", "twisted_cut", "twisted_plan"]

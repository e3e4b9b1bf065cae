"""Draws that take as many words as they need: ziggurats, and integers by rejection.

Two launches make all words each: `find` leaves which positions of the stream give a variate, `place` stores them; a
launch before these leaves the state of every tile. Making a word twice costs about 22 instructions; what it saves is
that a block would wait for the ends of slow segments and for the counts of other blocks while it keeps its values in
registers. Measured for 2**27 normals of f64 on the H200: find 0.30 ms, three fifths of it the words and the rest their
candidates; place 0.32 ms, of which storing alone would take 0.26; tiles and launches 0.01 ms.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from oxinp._kernels.plan import Launch, Plan, Scratch, inputs, outputs
from oxinp._kernels.random import find, place
from oxinp._kernels.random import tiles as tiles_kernel
from oxinp._kernels.random.find import GROUP, FindSpec
from oxinp._kernels.random.libm_log1p import OWN
from oxinp._kernels.random.philox import VARIANTS
from oxinp._kernels.random.place import PlaceSpec
from oxinp._kernels.random.tiles import NUM_TILE_BITS, TilesSpec
from oxinp._kernels.random.variates import VARIATES
from oxinp._kernels.random.words import BLOCK

if TYPE_CHECKING:
    from collections.abc import Sequence

    from oxinp._kernels.choice import Device
    from oxinp._kernels.plan import Argument

ITEMS, ITEMS_OF_FEW = 30, 6
COUNTED_ITEMS, COUNTED_ITEMS_OF_FEW = 28, 4  # multiples of the words of a block of Philox
CAPACITY = 512  # of the list: of 15,360 positions 228 +- 15 are candidates for normals, 341 +- 18 for exponentials
TILES_PER_SM = 4  # of fewer a tile is made smaller
SIGMAS = 12  # of what is drawn, for what is expected


def num_tiles(size: int, expected: float, positions: int) -> int:
    """Return how many tiles hold the variates, with as good as certainty."""
    spread = SIGMAS * math.sqrt(size * expected * (expected - 1) * 4 + 64)
    return max(1, -(-math.ceil(size * expected + spread + 8) // positions))


def items_of(generator: str, name: str, size: int, num_sms: int) -> int:
    """Return how many words of a tile a thread has."""
    items, of_few = (COUNTED_ITEMS, COUNTED_ITEMS_OF_FEW) if generator in VARIANTS else (ITEMS, ITEMS_OF_FEW)
    per_tile = BLOCK * items * VARIATES[name].pieces
    return items if size > TILES_PER_SM * num_sms * per_tile else of_few


class Draw(NamedTuple):
    """What is drawn, and how.

    Attributes
    ----------
    generator, name : str
        Of `philox.VARIANTS`, the 128-bit congruential ones, or ``"stored"`` words; of `VARIATES`.
    size : int
    is_shifted : bool
        The draw begins with the half word that is left of the word before.
    skip : int
        Words of Philox's first block that have been taken.
    expected : float
        Pieces per variate, where the variate does not know.
    items, capacity : int
        See `FindSpec`; 0 for the usual items.
    log1p : str
        See `FindSpec`: the C library's form.
    """

    generator: str
    name: str
    size: int
    is_shifted: bool = False
    skip: int = 0
    expected: float = 0
    items: int = 0
    capacity: int = CAPACITY
    log1p: str = OWN


def plan(draw: Draw, device: Device) -> Plan:
    """Return the plan of variates from a state on.

    The inputs are the halves of state and increment, low ones first, as scalars of u64; if shifted, the half word as
    u32; the table of a ziggurat; the parameters of the variate. The outputs are the variates and two words of i64: how
    many pieces were taken, counted from the word before where that was shifted, and a status. Where the status is not
    0, or the first word is negative, which has never been seen, the variates are not valid.
    """
    finds, tiles = tiled(draw, device)
    variate, scratch = VARIATES[draw.name], Scratch()
    states = scratch.take(tiles * 16)
    state = inputs(4)
    rest = inputs(draw.is_shifted + variate.has_table + len(variate.parameters), 4)
    groups, launches = found_and_placed(scratch, finds, tiles, draw.size, outputs(2), (states, *state, *rest))
    prepare = Launch(
        tiles_kernel.make(TilesSpec(draw.generator, draw.is_shifted, BLOCK * finds.items, BLOCK)),
        (-(-tiles // tiles_kernel.BLOCK), 1, 1),
        (states, groups, outputs(2)[1], *state),
        (tiles, num_groups(tiles)),
    )
    return scratch.plan((prepare, *launches))


def tiled(draw: Draw, device: Device) -> tuple[FindSpec, int]:
    """Return the kernel that finds variates, and how many tiles it looks at."""
    generator, name, size, is_shifted, _, expected, items, capacity, log1p = draw
    variate = VARIATES[name]
    capacity = 0 if variate.slow is None else capacity
    form = "" if variate.tail is None else log1p
    finds = FindSpec(
        generator, name, is_shifted, items or items_of(generator, name, size, device.num_sms), capacity, form
    )
    tiles = num_tiles(size, variate.expected or expected, finds.positions)
    if tiles >> NUM_TILE_BITS:
        raise ValueError(f"{size} variates are too many for one draw")
    return finds, tiles


def num_groups(tiles: int) -> int:
    """Return how many groups tiles are joined in."""
    return -(-tiles // GROUP)


def found_and_placed(
    scratch: Scratch,
    finds: FindSpec,
    tiles: int,
    size: int,
    results: Sequence[Argument],
    source: tuple[Argument, ...],
    placed: tuple[Argument, ...] | None = None,
    lead: int = 0,
) -> tuple[Argument, list[Launch]]:
    """Return where the counts of groups are, which are to be zeros before, and the launches.

    Parameters
    ----------
    scratch : Scratch
    finds, tiles
        See `tiled`.
    size : int
    results : sequence of Argument
        The variates and the two words, which are -1 and 0 before.
    source : tuple of Argument
        What words are made of or where they lie, the table, parameters.
    placed : tuple of Argument, optional
        The same for `place`, where `find` stores the words that it makes.
    lead : int
        Positions of the first tile that come before the draw, see `FindSpec.leads`.
    """
    counts, groups, num_own = (scratch.take(n) for n in (tiles * 4, num_groups(tiles) * 8, tiles * 4))
    own, bits = scratch.take(tiles * finds.most_own * 16), scratch.take(tiles * finds.row_words * 4)
    out, result = results
    left = (bits, counts, groups, *((num_own, own) if finds.capacity else ()), result)
    generator = finds.generator if placed is None else "stored"
    spec = PlaceSpec(generator, finds.variate, finds.is_shifted, finds.items, finds.most_own, finds.leads)
    leads, read = (lead,) if finds.leads else (), source if placed is None else placed
    found = Launch(find.make(finds), (tiles, 1, 1), (*left, *source), leads)
    return groups, [found, Launch(place.make(spec), (tiles, 1, 1), (out, *left, *read), (size, *leads))]


__all__ = [
    "CAPACITY",
    "COUNTED_ITEMS",
    "COUNTED_ITEMS_OF_FEW",
    "ITEMS",
    "ITEMS_OF_FEW",
    "Draw",
    "found_and_placed",
    "items_of",
    "num_groups",
    "num_tiles",
    "plan",
    "tiled",
]

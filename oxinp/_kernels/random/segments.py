"""Draws that take as many words as they need: ziggurats, and integers by rejection.

Two launches: one leaves the state of every tile, the other draws in one pass (see `place`).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from oxinp._kernels.plan import Launch, Plan, Scratch, inputs, outputs
from oxinp._kernels.random import place
from oxinp._kernels.random import tiles as tiles_kernel
from oxinp._kernels.random.place import VariatesSpec
from oxinp._kernels.random.tiles import NUM_TILE_BITS, TilesSpec
from oxinp._kernels.random.variates import VARIATES
from oxinp._kernels.random.words import BLOCK

if TYPE_CHECKING:
    from oxinp._kernels.choice import Device

TILE_NBYTES = 160 * BLOCK  # of values in shared memory: four blocks fit a multiprocessor
FEWER = {"exponential_f32": 18, "lemire_u8": 18}  # words of a thread, of which lists or bits take more room
ITEMS_OF_FEW = 8
TILES_PER_SM = 4  # of fewer a tile is made smaller
SIGMAS = 12  # of what is drawn, for what is expected


def num_tiles(size: int, expected: float, positions: int) -> int:
    """Return how many tiles hold the variates, with as good as certainty."""
    spread = SIGMAS * math.sqrt(size * expected * (expected - 1) * 4 + 64)
    return max(1, -(-math.ceil(size * expected + spread + 8) // positions))


def most_items(name: str) -> int:
    """Return how many words of a tile a thread has at most."""
    fit = TILE_NBYTES // (BLOCK * VARIATES[name].pieces * VARIATES[name].type.nbytes)
    return min(fit, FEWER.get(name, fit))


def items_of(name: str, size: int, num_sms: int) -> int:
    """Return how many words of a tile a thread has."""
    most = most_items(name)
    return most if size > TILES_PER_SM * num_sms * BLOCK * most * VARIATES[name].pieces else ITEMS_OF_FEW


def capacity_of(name: str, positions: int) -> int:
    """Return the room for candidates among some positions, of which two thirds of what is expected beyond one are."""
    variate = VARIATES[name]
    if variate.slow is None:
        return 0
    mean = (variate.expected - 1) * (2 / 3) * positions
    return -(-math.ceil(mean + SIGMAS * math.sqrt(mean) + 16) // 32) * 32


def plan(
    generator: str,
    name: str,
    size: int,
    device: Device,
    *,
    is_shifted: bool = False,
    expected: float = 0,
    items: int = 0,
    capacity: int = 0,
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
        See `VariatesSpec`; 0 for the usual ones.
    """
    variate = VARIATES[name]
    items = items or items_of(name, size, device.num_sms)
    capacity = capacity or capacity_of(name, BLOCK * items * variate.pieces)
    spec = VariatesSpec(generator, name, is_shifted, items, capacity)
    tiles = num_tiles(size, variate.expected or expected, spec.positions)
    if tiles >> NUM_TILE_BITS:
        raise ValueError(f"{size} variates are too many for one draw")
    scratch = Scratch()
    states, said = scratch.take(tiles * 16), scratch.take((tiles + 1) * 8)
    out, result = outputs(2)
    state = inputs(4)
    rest = inputs(is_shifted + variate.has_table + len(variate.parameters), 4)
    prepare = Launch(
        tiles_kernel.make(TilesSpec(generator, is_shifted, BLOCK * items, BLOCK)),
        (-(-(tiles + 1) // tiles_kernel.BLOCK), 1, 1),
        (states, said, result, *state),
        (tiles, tiles + 1),
    )
    blocks = min(tiles, place.BLOCKS_PER_SM * device.num_sms)
    drawn = Launch(place.make(spec), (blocks, 1, 1), (out, said, result, states, *state, *rest), (size, tiles))
    return scratch.plan((prepare, drawn))


__all__ = ["ITEMS_OF_FEW", "SIGMAS", "capacity_of", "items_of", "most_items", "num_tiles", "plan"]

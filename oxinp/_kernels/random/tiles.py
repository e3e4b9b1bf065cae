"""The tiles that a stream is cut into: the state that each starts from, and zeros where other kernels count."""

from __future__ import annotations

from functools import lru_cache

from oxinp._kernels.problem import MAX_KERNELS
from oxinp._kernels.random.lcg import GENERATORS, Increment
from oxinp._ptx import Builder, Kernel
from oxinp._ptx.frozen import Frozen
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.types import i64, u32, u64

BLOCK = 256
NUM_TILE_BITS = 26


class TilesSpec(Frozen):
    """One kernel of the family.

    Attributes
    ----------
    generator : str
        A key of `lcg.GENERATORS`.
    is_shifted : bool
        Tiles begin one word earlier, at the one that a half is left of.
    words : int
        Of a tile.
    before : int
        The states are those of so many words before the tiles.
    """

    generator: str
    is_shifted: bool
    words: int
    before: int = 0


@lru_cache(MAX_KERNELS)
@retraceable
def make(spec: TilesSpec) -> Kernel:
    """Build the kernel of a Spec."""
    k = Builder("random_tiles", block=BLOCK)
    states, counts = k.pointer("states", u64, "w"), k.pointer("counts", u64, "w")
    result = k.pointer("result", i64, "w")
    lcg = GENERATORS[spec.generator]
    increment = Increment(k, lcg)
    size, num_counts = k.scalar("num_tiles", u32), k.scalar("num_counts", u32)
    tile = k.ctaid * BLOCK + k.tid
    with k.when(tile < size):
        at = increment.jumped_by(increment.state, tile, spec.words, NUM_TILE_BITS)
        steps = lcg.lead - spec.is_shifted - spec.before
        states.store(tile * 2, increment.jumped(at, steps) if steps else at)
    with k.when(tile < num_counts):
        counts[tile] = k.const(0, u64)
    with k.when(tile == 0):
        result.store(0, [k.const(-1, i64), k.const(0, i64)])
    return k.build()


__all__ = ["BLOCK", "NUM_TILE_BITS", "TilesSpec", "make"]

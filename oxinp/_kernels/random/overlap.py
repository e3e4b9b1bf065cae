"""Blocks that find variates beside blocks that place those that were found before, in one launch.

What finds is bound by instructions, what places by the memory: on one multiprocessor either does what the other leaves
free. Tiles are cut into parts; a launch finds those of a part and places those of the part before, so that no block
waits for another. Blocks of the two kinds take turns, and change places after as many blocks as there are
multiprocessors, as these get blocks in turn. Data layout, and bytes: those of `find` and `place`.
"""

from __future__ import annotations

from functools import lru_cache

from oxinp._kernels.problem import MAX_KERNELS
from oxinp._kernels.random.find import BLOCK, Find, FindSpec, blocks_per_sm
from oxinp._kernels.random.place import Place, PlaceSpec
from oxinp._ptx import Builder, Kernel
from oxinp._ptx.frozen import Frozen
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.types import u32


class OverlapSpec(Frozen):
    """One kernel of the family.

    Attributes
    ----------
    finds : FindSpec
        Of words that are made by both kinds of blocks.
    places : PlaceSpec
    """

    finds: FindSpec
    places: PlaceSpec


@lru_cache(MAX_KERNELS)
@retraceable
def make(spec: OverlapSpec) -> Kernel:
    """Build the kernel of a Spec."""
    k = Builder("random_overlap", block=BLOCK, min_blocks=blocks_per_sm(spec.finds))
    find, place = Find(k, spec.finds), Place(k, spec.places, "placed_")
    first_found, num_found, first_placed, num_placed, turn = (
        k.scalar(name, u32) for name in ("first_found", "num_found", "first_placed", "num_placed", "turn")
    )
    pairs = k.min(num_found, num_placed)
    is_paired = k.ctaid < pairs * 2
    number = k.where(is_paired, k.ctaid >> 1, k.ctaid - pairs)
    is_first = ((k.ctaid ^ (k.ctaid / turn)) & 1) == 0  # `turn` is even, so that it keeps pairs together
    finds = (is_paired & is_first) | (~is_paired & (num_found > num_placed))
    with k.when(finds):
        find.write(first_found + number)
    with k.otherwise():
        place.write(first_placed + number)
    return k.build()


__all__ = ["OverlapSpec", "make"]

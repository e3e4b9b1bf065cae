"""Where the words of variates come from, by what a Spec calls their generator."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oxinp._kernels.random.counted import Counted, CountedWalk
from oxinp._kernels.random.lcg import GENERATORS
from oxinp._kernels.random.philox import VARIANTS
from oxinp._kernels.random.stored import Stored, StoredWalk
from oxinp._kernels.random.words import Walk, Words

if TYPE_CHECKING:
    from oxinp._ptx import Builder

Source = Words | Stored | Counted
SourceWalk = Walk | StoredWalk | CountedWalk


def words_of(
    k: Builder, generator: str, pieces: int, items: int, *, is_shifted: bool, is_apart: bool = False
) -> Source:
    """Return the words that a kernel makes or reads.

    Parameters
    ----------
    k : Builder
    generator : str
        A key of `lcg.GENERATORS`, of `philox.VARIANTS`, or of `stored.DOUBLES`.
    pieces, items : int
    is_shifted, is_apart : bool
        See `Words` and `Stored`.
    """
    if generator in GENERATORS:
        return Words(k, generator, pieces, items, is_shifted=is_shifted)
    if generator in VARIANTS:
        return Counted(k, generator, pieces, items)
    return Stored(k, generator, pieces, items, is_apart=is_apart)


__all__ = ["Source", "SourceWalk", "words_of"]

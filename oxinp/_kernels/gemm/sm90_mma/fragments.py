"""DMMA fragments of real and complex operands, as lanes load them from tiles in shared memory (see `warps`).

A complex product is a real one: A as M x 2 K, with real and imaginary parts side by side, times a 2 K x 2 N matrix that
has the parts of an element of B in one row, and those of i times the element in the next one. C comes out with its
parts side by side, too. That matrix exists only in registers: a lane that has loaded an element has two of K of a line
of A, or two of K of two columns of B.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from oxinp._kernels.gemm.sm90_mma.spec import DMMA_K
from oxinp._ptx.memory import Pointer
from oxinp._ptx.tma import SWIZZLE_NBYTES
from oxinp._ptx.types import Type, c128, f64, u32, u64

if TYPE_CHECKING:
    from collections.abc import Sequence

    from oxinp._ptx import Builder
    from oxinp._ptx.mbarrier import Buffer
    from oxinp._ptx.tile import OperandTile
    from oxinp._ptx.value import Value

EIGHT_ROWS_NBYTES = 8 * SWIZZLE_NBYTES
SIGN = 1 << 63  # bit of an f64


class Index(NamedTuple):
    """An index along M or N in a warp's tile, ``first + distance``, of which no bit is one of both."""

    first: Value
    distance: int


class DmmaOperand:
    """A lane's loads of the tiles of an operand.

    Lane l, r = l / 4 and q = l % 4, takes line s(r) of 8 lines, or the 16-byte chunk s(r) of 8 chunks along M or N, and
    along K the places 2 q and 2 q + 1 of 8. With s(r) = r / 2 ^ 5 (r % 2), quarters of a warp read different banks.

    Attributes
    ----------
    height : int
        Rows or columns that a load of the warp covers.
    ahead : int
        Left fragments of the next step that are loaded before the DMMAs of this one, rather than among them, where few
        warps share a multiprocessor.
    """

    height, ahead = 16, 0
    rows_per_lane, beside = 2, 1  # of tiles along M or N: a lane's rows of 8 of K, and the distance of two

    def __init__(self, k: Builder, tile: OperandTile, first: Value) -> None:
        self.builder, self.tile = k, tile
        high, low = k.lane >> 2, k.lane & 3
        self.order = ordered(high)
        self.is_k_major = tile.major == "k"
        if self.is_k_major:
            place = tile.address(k.const(0, u32)) + (first + self.order) * SWIZZLE_NBYTES + ((low ^ self.order) << 4)
            self.places = [(place, 0), (place ^ (4 << 4), 0)]
        else:
            row = self.rows_per_lane * low if self.rows_per_lane > 1 else low
            place = (
                tile.address(k.const(0, u32))
                + first * SWIZZLE_NBYTES
                + row * SWIZZLE_NBYTES
                + ((self.order ^ row) << 4)
            )
            self.places = [(place, 0), (place ^ (self.beside << 4), self.beside * SWIZZLE_NBYTES)]

    def at(self, buffer: Buffer) -> list[Pointer]:
        """Return pointers to the lane's elements in a buffer: the first, and one four chunks or some rows on."""
        start, offset = buffer.offsets(self.tile.nbytes)
        return [
            Pointer(self.builder, place + start, f64, "shared", "r", (), own + offset) for place, own in self.places
        ]

    def pairs(self, places: list[Pointer], number: int, step: int) -> list[tuple[Value, ...]]:
        """Return the lane's two pairs of neighbours of a 16 of M or N with this number, from `step` along K on.

        Of a K-major operand: one pair of the upper eight, one of the lower eight. Else: one pair per element of K.
        """
        if self.is_k_major:
            place = places[step // DMMA_K].offset_bytes(number * 2 * EIGHT_ROWS_NBYTES)
            return [place.offset_bytes(i * EIGHT_ROWS_NBYTES).load(0, 2) for i in range(2)]
        offset = (number * 2 * DMMA_K + step) * SWIZZLE_NBYTES
        return [place.offset_bytes(offset).load(0, 2) for place in places]

    def left(self, places: list[Pointer], number: int, step: int) -> list[list[Value]]:
        """Load the left fragments of `height` rows: one."""
        pairs = self.pairs(places, number, step)
        return [[x for pair in (zip(*pairs, strict=True) if self.is_k_major else pairs) for x in pair]]

    def right(self, places: list[Pointer], number: int, step: int) -> list[list[Value]]:
        """Load the right fragments of `height` columns: two."""
        pairs = self.pairs(places, number, step)
        return [list(pair) for pair in (pairs if self.is_k_major else zip(*pairs, strict=True))]

    def fragment(self, loaded: list[Value]) -> list[Value]:
        """Return the left fragment made of what `left` has loaded."""
        return loaded

    def line(self, index: Value) -> Value:
        """Return the index along M or N of the `index`-th of the first 8."""
        place = ordered(index)
        return place if self.is_k_major else 2 * place

    def distance(self, eight: int) -> int:
        """Return how much larger indices are of the eight with this number."""
        return 8 * eight if self.is_k_major else eight // 2 * 16 + eight % 2

    def lines(self, number: int) -> list[tuple[int, tuple[int, ...]]]:
        """Return the lines of a left fragment: their `distance`, and their halves of the sums."""
        return [(self.distance(2 * number + half), (half,)) for half in range(2)]

    def total(self, parts: Sequence[Value]) -> Value:
        """Return an element of C, given its parts."""
        return parts[0]


class ComplexDmmaOperand(DmmaOperand):
    """A lane's loads of the tiles of a complex operand: of 8 of M or N, one of 4 elements along K each."""

    height, ahead = 8, 1
    rows_per_lane, beside = 1, 4

    def right(self, places: list[Pointer], number: int, step: int) -> list[list[Value]]:
        """Load the right fragments of `height` columns: one, whose parts are two of K."""
        return [list(places[step // DMMA_K].offset_bytes(number * EIGHT_ROWS_NBYTES).load(0, 2))]

    left = right

    def fragment(self, loaded: list[Value]) -> list[Value]:
        """Return the left fragment: the element, then i times the element."""
        k = self.builder
        real, imag = loaded
        return [real, imag, k.bitcast(k.bitcast(imag, u64) ^ SIGN, f64), real]

    def line(self, index: Value) -> Value:
        """Return the index along M or N of the `index`-th of the first 8."""
        return ordered(index)

    def distance(self, eight: int) -> int:
        """Return how much larger indices are of the eight with this number."""
        return 8 * eight

    def lines(self, number: int) -> list[tuple[int, tuple[int, ...]]]:
        """Return the lines of a left fragment: their `distance`, and their halves of the sums."""
        return [(self.distance(number), (0, 1))]

    def total(self, parts: Sequence[Value]) -> Value:
        """Return an element of C, given its parts."""
        return self.builder.compound(c128, *parts)


def ordered(index: Value) -> Value:
    """Return s(r), the order in which lanes take lines; see `DmmaOperand`."""
    return (index >> 1) ^ ((index & 1) * 5)


DMMA_OPERANDS: dict[Type, type[DmmaOperand]] = {f64: DmmaOperand, c128: ComplexDmmaOperand}

__all__ = ["DMMA_OPERANDS", "DmmaOperand", "Index", "ordered"]

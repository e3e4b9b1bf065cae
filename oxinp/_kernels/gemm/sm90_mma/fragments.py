"""What the warps of `sm90_mma` load of tiles for the tensor cores' f64: numbers, or complex numbers.

For tiles see `warps`. A product of complex numbers is one of reals: A with the parts of its numbers side by
side, M x 2 K, by a matrix 2 K x 2 N that has the parts of B's numbers in one row, and those of i times B's in the next
one. C comes out with parts side by side, too. That matrix exists nowhere but in registers: a lane that has loaded a
number has two of K of a line of A, or two of K of two columns of B.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

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
SIGN = 1 << 63  # of f64


class DmmaOperand:
    """What lanes load of an operand's tiles.

    Lane l, r = l / 4 and q = l % 4, takes line s(r) of 8 lines, or the 16-byte chunk s(r) of 8 chunks along M or N, and
    along K the places 2 q and 2 q + 1 of 8. With s(r) = r / 2 ^ 5 (r % 2), quarters of a warp read different banks.

    Attributes
    ----------
    height : int
        Of M or N that loads belong to.
    ahead : int
        How many left fragments of the next step are loaded before the products of this one, rather than among them,
        where few warps take turns.
    """

    height, ahead = 16, 0
    rows_per_lane, beside = 2, 1  # of tiles along M or N, of 8 of K: a lane's, and from the first of two to the other

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
        """Where the lane's elements lie in a buffer of the ring: the first, and four chunks or some rows further on."""
        start, offset = buffer.offsets(self.tile.nbytes)
        return [
            Pointer(self.builder, place + start, f64, "shared", "r", (), own + offset) for place, own in self.places
        ]

    def pairs(self, places: list[Pointer], number: int, step: int) -> list[tuple[Value, ...]]:
        """Of the 16 of M or N with this number and the two of K that a lane has from `step` on, neighbours.

        Along K: of the upper eight, of the lower eight. Along M or N: of the first of K, of the second.
        """
        if self.is_k_major:
            place = places[step // DMMA_K].offset_bytes(number * 2 * EIGHT_ROWS_NBYTES)
            return [place.offset_bytes(i * EIGHT_ROWS_NBYTES).load(0, 2) for i in range(2)]
        offset = (number * 2 * DMMA_K + step) * SWIZZLE_NBYTES
        return [place.offset_bytes(offset).load(0, 2) for place in places]

    def left(self, places: list[Pointer], number: int, step: int) -> list[list[Value]]:
        """What is loaded for the fragments of `height` as left operands: one."""
        pairs = self.pairs(places, number, step)
        return [[x for pair in (zip(*pairs, strict=True) if self.is_k_major else pairs) for x in pair]]

    def right(self, places: list[Pointer], number: int, step: int) -> list[list[Value]]:
        """The fragments of `height` as right operands: two."""
        pairs = self.pairs(places, number, step)
        return [list(pair) for pair in (pairs if self.is_k_major else zip(*pairs, strict=True))]

    def fragment(self, loaded: list[Value]) -> list[Value]:
        """The left fragment of what was loaded."""
        return loaded

    def line(self, index: Value, eight: int) -> Value:
        """Which of M or N the `index`-th of the 8 is, of the eight with this number."""
        place = ordered(index)
        return place + 8 * eight if self.is_k_major else 2 * place + (eight // 2 * 16 + eight % 2)

    def lines(self, index: Value, number: int) -> list[tuple[Value, tuple[int, ...]]]:
        """Of the left fragment with this number: what `index` stands for, and the halves of the sums that are its."""
        return [(self.line(index, 2 * number + half), (half,)) for half in range(2)]

    def total(self, parts: Sequence[Value]) -> Value:
        """A number of C."""
        return parts[0]


class ComplexDmmaOperand(DmmaOperand):
    """What lanes load of an operand's tiles of complex numbers: of 8 of M or N one of K each, q of 4."""

    height, ahead = 8, 1
    rows_per_lane, beside = 1, 4

    def right(self, places: list[Pointer], number: int, step: int) -> list[list[Value]]:
        """The fragments of `height` as right operands: one, of which the parts are two of K."""
        return [list(places[step // DMMA_K].offset_bytes(number * EIGHT_ROWS_NBYTES).load(0, 2))]

    left = right

    def fragment(self, loaded: list[Value]) -> list[Value]:
        """The left fragment: of the columns of both parts, the number, then i times the number."""
        k = self.builder
        real, imag = loaded
        return [real, imag, k.bitcast(k.bitcast(imag, u64) ^ SIGN, f64), real]

    def line(self, index: Value, eight: int) -> Value:
        """Which of M or N the `index`-th of the 8 is, of the eight with this number."""
        return ordered(index) + 8 * eight

    def lines(self, index: Value, number: int) -> list[tuple[Value, tuple[int, ...]]]:
        """Of the left fragment with this number: what `index` stands for, and the halves of the sums that are its."""
        return [(self.line(index, number), (0, 1))]

    def total(self, parts: Sequence[Value]) -> Value:
        """A number of C."""
        return self.builder.compound(c128, *parts)


def ordered(index: Value) -> Value:
    """The order in which lanes take lines; see `DmmaOperand`."""
    return (index >> 1) ^ ((index & 1) * 5)


DMMA_OPERANDS: dict[Type, type[DmmaOperand]] = {f64: DmmaOperand, c128: ComplexDmmaOperand}

__all__ = ["DMMA_OPERANDS", "DmmaOperand", "ordered"]

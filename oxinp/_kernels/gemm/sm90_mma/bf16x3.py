"""bf16x3: f32 products on the tensor cores, as exact as multiply-adds; consumer warps with mma.sync.

An f32 is exactly the sum of three bf16 terms, x = x1 + x2 + x3, each of which is the rest rounded to eight bits. Of the
nine products of terms, six are computed: the others are less than a quarter of the rounding error of the product. The
tensor cores truncate sums instead of rounding them, so they get 16 of K at a time, the small products apart from the
large one, and the results are added to f32 accumulators.

This does not hold near the ends of the range of f32: see `bf16x3_fixup`.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

from oxinp._kernels.gemm.sm90_mma.bf16x3_fixup import FixupSums
from oxinp._kernels.gemm.sm90_mma.fragments import ordered
from oxinp._kernels.gemm.sm90_mma.spec import BOX_LINES, MMA_K, MMA_M, MMA_N, NUM_TERMS, VECTOR, WARP
from oxinp._kernels.gemm.sm90_mma.warps import CHUNK_SHIFT, FMA_BOX_NBYTES
from oxinp._ptx.memory import Pointer
from oxinp._ptx.mma import multiply
from oxinp._ptx.tile import ATOM_NBYTES
from oxinp._ptx.tma import SWIZZLE_NBYTES
from oxinp._ptx.types import bf16, f32, u32

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from oxinp._kernels.gemm.sm90_mma.bf16x3_fixup import FixupChains
    from oxinp._kernels.gemm.sm90_mma.spec import MmaSpec
    from oxinp._ptx import Builder
    from oxinp._ptx.mbarrier import Buffer
    from oxinp._ptx.tile import OperandTile
    from oxinp._ptx.value import Value, Var

Pair = tuple[Any, Any]  # neighbours along K
SWAPPED = 0x1032  # prmt selector that swaps the halves of a word
SMALL_TERMS = ((2, 0), (0, 2), (1, 1), (1, 0), (0, 1))  # products of terms but x1 y1, the smallest first
AT_ONCE = 8  # independent MMAs in a row: each waits for the one before it on the same accumulators


def split(k: Builder, low: Value, high: Value) -> list[Value]:
    """Return the three terms of two f32, as pairs of bf16."""
    words: list[Value] = []
    for number in range(NUM_TERMS):
        if number:
            low = low - k.bitcast(words[-1] << 16, f32)
            high = high - k.bitcast(words[-1] & 0xFFFF0000, f32)
        words.append(k.emit("cvt_pair", high, low, types=()))
    return words


def note_least(k: Builder, least: Var, values: Iterable[Value]) -> None:
    """Update the least magnitude seen: twice the bits less one, so that zero counts as large."""
    for x in values:
        least.set(k.min(least, (k.bitcast(x, u32) << 1) - 1))


class Bf16x3Operand:
    """A lane's loads of the tiles of an operand; lines come in eights.

    Lane l, r = l / 4 and q = l % 4, has of every eight lines one, and of 16 along K the pairs from 2 q and 2 q + 8 on.
    Lines along K are the s(r)-th of neighbours, with s(r) = 2 (r % 4) + r / 4; those along M or N are of four eights
    the neighbours from 4 r on. So quarters or halves of a warp read different banks.

    Attributes
    ----------
    num_right : int
        Right fragments that are made of eight lines.
    """

    num_right = 1

    def __init__(self, k: Builder, tile: OperandTile, first: Value, extent: int) -> None:
        self.builder, self.tile, self.num_eights = k, tile, extent // MMA_N
        self.is_k_major = tile.major == "k"
        row, quarter = k.lane >> 2, k.lane & 3
        start = tile.address(k.const(0, u32)) + first * SWIZZLE_NBYTES
        if self.is_k_major:
            line = _ordered(row)
            self.place = (
                start
                + line * SWIZZLE_NBYTES
                + (((quarter >> 1) ^ line) << CHUNK_SHIFT)
                + (quarter & 1) * 2 * f32.nbytes
            )
        else:
            self.place = start + 2 * quarter * SWIZZLE_NBYTES + ((row ^ 2 * quarter) << CHUNK_SHIFT)
        self.least: Var = k.var(k.const(0xFFFFFFFF, u32))

    def load(self, buffer: Buffer, step: Value | int) -> list[list[Pair]]:
        """Return, of every eight lines, the two pairs of a lane in 16 of K."""
        start, offset = buffer.offsets(self.tile.nbytes)
        place = self.place + start
        eights: list[list[Pair]] = []
        if self.is_k_major:
            place = place ^ (step << (CHUNK_SHIFT + 2))
            pointers = [self.pointer(place, offset), self.pointer(place ^ (2 << CHUNK_SHIFT), offset)]
            for number in range(self.num_eights):
                at = number * ATOM_NBYTES
                eights.append([self.pair(pointer.offset_bytes(at).load(0, 2)) for pointer in pointers])
            return eights
        place = place + step * (MMA_K * SWIZZLE_NBYTES)
        pointers = [self.pointer(place, offset), self.pointer(place ^ (1 << CHUNK_SHIFT), offset + SWIZZLE_NBYTES)]
        for box in range(self.num_eights // VECTOR):
            halves = []
            for half in range(2):
                at = box * FMA_BOX_NBYTES + half * ATOM_NBYTES
                halves.append([pointer.offset_bytes(at).load(0, VECTOR) for pointer in pointers])
            eights += [[self.pair((low[i], high[i])) for low, high in halves] for i in range(VECTOR)]
        return eights

    def pointer(self, place: Value, offset: int = 0) -> Pointer:
        """Return a pointer to f32 in shared memory."""
        return Pointer(self.builder, place, f32, "shared", "r", (), offset)

    def pair(self, pair: tuple[Value, ...]) -> Pair:
        """Return two elements, and update the least magnitude."""
        note_least(self.builder, self.least, pair)
        low, high = pair
        return low, high

    def line(self, eight: int, index: Value) -> Value:
        """Return the index along M or N of the `index`-th of eight lines."""
        if self.is_k_major:
            return _ordered(index) + eight * MMA_N
        return index * VECTOR + (eight // VECTOR * BOX_LINES + eight % VECTOR)

    def right(self, eight: list[Pair]) -> list[list[tuple[Value, ...]]]:
        """Return the right fragments of eight lines: of each term, both pairs."""
        return [list(zip(*[split(self.builder, *pair) for pair in eight], strict=True))]


class ComplexBf16x3Operand(Bf16x3Operand):
    """A lane's loads of tiles of complex numbers that run along N: two eights of reals are eight numbers.

    Of 8 rows, lane l has q and q + 4. A pair along K is a part of a number, and the same part of i times the number.
    """

    num_right = 2

    def __init__(self, k: Builder, tile: OperandTile, first: Value, extent: int) -> None:
        super().__init__(k, tile, first, extent)
        row, quarter = k.lane >> 2, k.lane & 3
        start = tile.address(k.const(0, u32)) + first * (SWIZZLE_NBYTES // 2)
        self.place = start + quarter * SWIZZLE_NBYTES + ((ordered(row) ^ quarter) << CHUNK_SHIFT)

    def load(self, buffer: Buffer, step: Value | int) -> list[list[Pair]]:
        """Return, of every eight numbers, the two of a lane in 8 rows."""
        start, offset = buffer.offsets(self.tile.nbytes)
        place = self.place + start + step * ATOM_NBYTES
        second = self.pointer(place ^ (4 << CHUNK_SHIFT), offset + 4 * SWIZZLE_NBYTES)
        pointers = [self.pointer(place, offset), second]
        eights: list[list[Pair]] = []
        for box in range(self.num_eights // VECTOR):
            halves = [pointer.offset_bytes(box * FMA_BOX_NBYTES // 2).load(0, VECTOR) for pointer in pointers]
            eights += [[self.pair(half[i : i + 2]) for half in halves] for i in (0, 2)]
        return eights

    def line(self, eight: int, index: Value) -> Value:
        """Return the index along N of the `index`-th of eight lines."""
        return ordered(index) * VECTOR + (eight // VECTOR * BOX_LINES + eight % VECTOR)

    def right(self, eight: list[Pair]) -> list[list[tuple[Value, ...]]]:
        """Return the right fragments of real parts of C (imaginary parts negated) and of imaginary ones (swapped)."""
        k = self.builder
        words = [split(k, *pair) for pair in eight]
        real = [[word ^ (1 << 31) for word in own] for own in words]
        imag = [[k.emit("prmt", word, word, SWAPPED, types=()) for word in own] for own in words]
        return [list(zip(*pairs, strict=True)) for pairs in (real, imag)]


def _ordered(index: Value) -> Value:
    """Return s(r), the order in which lanes take neighbours; see `Bf16x3Operand`."""
    return ((index & 3) << 1) | (index >> 2)


class Bf16x3Consumer(FixupSums):
    """A consumer warp's tile of C by mma.sync in bf16x3; groups along K take every other 16 of K."""

    def __init__(
        self,
        k: Builder,
        spec: MmaSpec,
        tiles: tuple[OperandTile, OperandTile],
        place: tuple[Value, Value],
        group: Value,
        chains: FixupChains,
    ) -> None:
        super().__init__(k, spec, place, k.tid - (spec.block - spec.num_warps * WARP), chains)
        self.group = group
        a, b = tiles
        self.sides = (
            Bf16x3Operand(k, a, place[0], spec.warp_m),
            (ComplexBf16x3Operand if spec.is_complex else Bf16x3Operand)(k, b, place[1], spec.warp_n),
        )
        self.steps = (group,) if spec.num_k_groups > 1 else tuple(range(BOX_LINES // MMA_K))
        zero = k.const(0.0, f32)
        rows, columns = spec.warp_m // MMA_M, spec.warp_n // MMA_N
        self.sums = [[[k.var(zero) for _ in range(4)] for _ in range(columns)] for _ in range(rows)]

    def reset(self) -> None:
        """Clear the accumulators."""
        k = self.builder
        for line in self.sums:
            for totals in line:
                for total in totals:
                    total.set(k.const(0.0, f32))
        for side in self.sides:
            side.least.set(k.const(0xFFFFFFFF, u32))

    def begin(self, buffer: Buffer) -> None:
        """Load the fragments of the first step, which are held from one k-block to the next."""
        var = self.builder.var
        loaded = self._load(buffer, self.steps[0])
        self.held = [[[(var(x), var(y)) for x, y in eight] for eight in side] for side in loaded]

    def promote(self) -> None:
        """Do nothing: every sum of 16 of K is added to the totals."""

    def multiply(self, buffer: Buffer, advance: Callable[[], Buffer]) -> None:
        """Add the products of a k-block; `advance` returns the buffer of the next one, any if there is none."""
        fragments = [[[(x.get(), y.get()) for x, y in eight] for eight in side] for side in self.held]
        for step in self.steps[1:]:
            following = self._load(buffer, step)
            self.multiply_step(*fragments)
            fragments = following
        following = self._load(advance(), self.steps[0])
        self.multiply_step(*fragments)
        for variables, values in zip(chain(*self.held), chain(*following), strict=True):
            for variable, value in zip(chain(*variables), chain(*values), strict=True):
                variable.set(value)

    def _load(self, buffer: Buffer, step: Value | int) -> list[list[list[Pair]]]:
        """The lane's pairs of A and of B in 16 of K."""
        return [side.load(buffer, step) for side in self.sides]

    def multiply_step(self, above: list[list[Pair]], beside: list[list[Pair]]) -> None:
        """Add the products of 16 of K: split into terms, multiply, add."""
        k = self.builder
        left = []
        for upper, lower in zip(above[::2], above[1::2], strict=True):
            words = [split(k, *pair) for pairs in zip(upper, lower, strict=True) for pair in pairs]
            left.append(list(zip(*words, strict=True)))
        side = self.sides[1]
        width = max(side.num_right, AT_ONCE // len(left))
        for start in range(0, len(self.sums[0]), width):
            eights = beside[start // side.num_right : (start + width) // side.num_right]
            right = [fragment for eight in eights for fragment in side.right(eight)]
            squares = [
                (own, other, totals)
                for own, line in zip(left, self.sums, strict=True)
                for other, totals in zip(right, line[start : start + width], strict=True)
            ]
            for first in range(0, len(squares), AT_ONCE):
                self._add(squares[first : first + AT_ONCE])

    def _add(self, squares: list[tuple[list[tuple[Value, ...]], list[tuple[Value, ...]], list[Var]]]) -> None:
        """Add the products of terms to the accumulators of some squares of C."""
        k = self.builder
        zeros = (k.const(0.0, f32),) * 4
        small: list[tuple[Value, ...]] = [zeros for _ in squares]
        for i, j in SMALL_TERMS:
            small = [
                multiply(k, bf16, left[i], right[j], own) for own, (left, right, _) in zip(small, squares, strict=True)
            ]
        large = [multiply(k, bf16, left[0], right[0], zeros) for left, right, _ in squares]
        for rest, whole, (_, _, totals) in zip(small, large, squares, strict=True):
            for total, x, y in zip(totals, whole, rest, strict=True):
                total.set(total + (x + y))

    def write(self) -> list[Value]:
        """Write the sums to shared memory; returns the least magnitudes of A and of B that the thread has seen."""
        k, spec = self.builder, self.spec
        high, low = k.lane >> 2, 2 * (k.lane & 3)
        above, beside = self.sides
        first = self.shared.at((self.group * spec.tile_m + self.place[0]) * self.pitch + self.place[1])
        # Neighbours along N: of four eights, or of none.
        width = 1 if beside.is_k_major else VECTOR
        for i, line in enumerate(self.sums):
            for half in range(2):
                row = first.at(above.line(2 * i + half, high) * self.pitch)
                for index in range(2):
                    for j in range(0, len(line), width):
                        values = [line[j + x][2 * half + index].get() for x in range(width)]
                        row.at(beside.line(j, low + index if index else low)).store(0, values)
        return [side.least.get() for side in self.sides]


__all__ = ["Bf16x3Consumer", "Bf16x3Operand", "note_least", "split"]

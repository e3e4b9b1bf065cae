"""Epilogues of the wgmma kernels on sums in registers, and direct stores from registers.

A thread has pairs of neighbouring sums in two rows (see `wgmma.Accumulator`); the epilogue reads its inputs for those.
Where a tile sticks out of C, it reads the inputs of the last row or column again, and the results are not stored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from oxinp._ptx.types import i64

if TYPE_CHECKING:
    from oxinp._kernels.elementwise.chain import Position
    from oxinp._kernels.gemm.epilogue import BoundEpilogue
    from oxinp._kernels.gemm.sm90_wgmma.cluster_split_k import ReducedSums
    from oxinp._ptx import Builder
    from oxinp._ptx.memory import Pointer
    from oxinp._ptx.tile import Pair, PairEpilogue
    from oxinp._ptx.types import Type
    from oxinp._ptx.value import Value
    from oxinp._ptx.wgmma import Accumulator, Totals


def place_of(thread: Value) -> tuple[Value, Value]:
    """Return row and column of a thread's first sum among those of a warpgroup."""
    return (thread >> 5) * 16 + ((thread >> 2) & 7), (thread & 3) * 2


class FragmentEpilogue:
    """An epilogue on the sums of a warpgroup, in registers.

    Parameters
    ----------
    epilogue : BoundEpilogue
    out : Type
        Of C.
    extents : tuple of Value
        Rows and columns of C.
    thread : Value
        This thread's number in its warpgroup.
    width : int
        Elements of an input that are read at a time: 2, if the columns of C are even in number, or 1.
    """

    def __init__(
        self, epilogue: BoundEpilogue, out: Type, extents: tuple[Value, ...], thread: Value, width: int
    ) -> None:
        self.epilogue, self.out, self.extents, self.width = epilogue, out, extents, width
        self._row, self._column = place_of(thread)

    def at(self, row: Value, column: Value, outer: tuple[Value, ...]) -> FragmentVisitor:
        """Return the visitor of 64 rows of sums, the first of which is element (`row`, `column`)."""
        k = self.epilogue.k
        last_row, last = self.extents[0] - 1, self.extents[1] - self.width
        own = row + self._row
        matrix, loop = self.epilogue.at(outer), len(outer)
        rows = [k.cast(k.min(place, last_row), i64) for place in (own, own + 8)]
        lines = [matrix.moved(loop, place).held() for place in rows]
        return FragmentVisitor(self, lines, loop + 1, column + self._column, last)


class FragmentVisitor:
    """Applies an epilogue to the pairs of one tile; a `tile.PairEpilogue`.

    Inputs are read in two `lines` from a column on, none behind the `last`, and box by box: the driver's linker ignores
    setmaxnreg, and would spill more than the inputs of a box beside the sums.
    """

    def __init__(
        self, epilogue: FragmentEpilogue, lines: list[Position], loop: int, column: Value, last: Value
    ) -> None:
        self.epilogue, self.lines, self.loop, self.column, self.last = epilogue, lines, loop, column, last

    def __call__(self, pairs: list[Pair]) -> list[Pair]:
        """Return the results of pairs; all inputs are read before the first pair is computed."""
        epilogue, out = self.epilogue.epilogue, self.epilogue.out
        read: dict[tuple[int, int], list[Value]] = {}
        loaded = [self._loaded(i, j, read) for i, j, *_ in pairs]
        apply: list[Pair] = []
        for (i, j, *totals), inputs in zip(pairs, loaded, strict=True):
            first, second = epilogue.apply(totals, inputs, out)
            apply.append((i, j, first, second))
        return apply

    def _loaded(self, i: int, j: int, read: dict[tuple[int, int], list[Value]]) -> list[list[Value]]:
        """The inputs of a pair, read as pairs or one by one; inputs that both lines share are read once."""
        k, width = self.epilogue.epilogue.k, self.epilogue.width
        shifts = range(8 * j, 8 * j + 2, width)
        columns = [k.cast(k.min(self.column + shift if shift else self.column, self.last), i64) for shift in shifts]
        inputs = []
        for spot in self.lines[i].inputs:
            if (id(spot), j) not in read:
                read[id(spot), j] = [value for x in columns for value in spot.moved(self.loop, x).load(width)]
            inputs.append(read[id(spot), j])
        return inputs


class DirectTile:
    """Stores from registers to matrices by rows or by columns, at any address; the interface of `tile.ResultTile`."""

    def __init__(self, k: Builder, extents: tuple[Value, ...], thread: Value, *, is_column_major: bool = False) -> None:
        self.builder, (self.m, self.n), self.is_column_major = k, extents, is_column_major
        self._row, self._column = place_of(thread)

    def store(
        self,
        c: Pointer,
        accumulator: Accumulator | Totals | ReducedSums,
        row: Value,
        column: Value,
        outer: tuple[Value, ...] = (),
        epilogue: PairEpilogue | None = None,
    ) -> None:
        """Apply the epilogue to 64 rows of sums, convert them, and store what is inside C from (`row`, `column`) on."""
        k = self.builder
        m, n = (k.cast(extent, i64) for extent in (self.m, self.n))
        base = c.at(k.cast(outer[0], i64) * m * n) if outer else c
        row_step, column_step = (1, m) if self.is_column_major else (n, 1)
        pairs = accumulator.pairs()
        for half in range(2):
            own_row = row + self._row + 8 * half
            line = base.at(k.cast(own_row, i64) * row_step).at(k.cast(column + self._column, i64) * column_step)
            room = self.n - k.min(column + self._column, self.n)
            with k.when(own_row < self.m):
                own = [pair for pair in pairs if pair[0] == half]
                for _, j, *values in own if epilogue is None else epilogue(own):
                    for shift, value in enumerate(values):
                        with k.when(room > 8 * j + shift):
                            line.store(column_step * (8 * j + shift), [k.cast(value, c.type)])

    def close(self) -> None:
        """Do nothing: no store is asynchronous."""


__all__ = ["DirectTile", "FragmentEpilogue"]

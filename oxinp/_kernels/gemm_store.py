"""The way of sums out of the registers of the kernels for Hopper: what finishes them, and what stores them anywhere.

Rows that begin at multiples of 16 bytes are stored by bulk copies, `ResultTile`. A thread has pairs of neighbours, two
rows of them (see `wgmma.Accumulator`); an epilogue reads its inputs for those. Where a tile sticks out of C, it reads
the inputs of the last row or column again: what comes of that is not stored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from oxinp._ptx.types import i64

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxinp._kernels.chain import Position
    from oxinp._kernels.epilogue import BoundEpilogue
    from oxinp._kernels.gemm_parts import Joined
    from oxinp._ptx import Builder
    from oxinp._ptx.memory import Pointer
    from oxinp._ptx.tile import Pair
    from oxinp._ptx.types import Type
    from oxinp._ptx.value import Value
    from oxinp._ptx.wgmma import Accumulator, Totals

    Finish = Callable[[list[Pair]], list[Pair]]


def place_of(thread: Value) -> tuple[Value, Value]:
    """Row and column of a thread's first sum among those of a warpgroup."""
    return (thread >> 5) * 16 + ((thread >> 2) & 7), (thread & 3) * 2


class Finisher:
    """An epilogue over the sums of a warpgroup.

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
        Elements that are read at a time: 2, for which the columns of C are an even number, or 1.
    """

    def __init__(
        self, epilogue: BoundEpilogue, out: Type, extents: tuple[Value, ...], thread: Value, width: int
    ) -> None:
        self.epilogue, self.out, self.extents, self.width = epilogue, out, extents, width
        self._row, self._column = place_of(thread)

    def at(self, row: Value, column: Value, outer: tuple[Value, ...]) -> Finish:
        """Return what finishes pairs of the 64 rows of sums whose first is that of element (`row`, `column`)."""
        k = self.epilogue.k
        last_row, last = self.extents[0] - 1, self.extents[1] - self.width
        own, first = row + self._row, column + self._column
        lines = [self.epilogue.at((*outer, k.min(own + 8 * i if i else own, last_row))).held() for i in range(2)]

        def finish(pairs: list[Pair]) -> list[Pair]:
            loaded = [self._load(lines[i], len(outer) + 1, first + 8 * j, last) for i, j, *_ in pairs]
            return [
                (i, j, *self._finished(totals, inputs)) for (i, j, *totals), inputs in zip(pairs, loaded, strict=True)
            ]

        return finish

    def _load(self, line: Position, loop: int, column: Value, last: Value) -> list[list[Value]]:
        """The inputs of a pair: of both at once, or of one after the other."""
        k = self.epilogue.k
        places = [k.min(column + shift if shift else column, last) for shift in range(0, 2, self.width)]
        parts = [line.moved(loop, k.cast(place, i64)).load(self.width) for place in places]
        return [[value for values in parts_of_one for value in values] for parts_of_one in zip(*parts, strict=True)]

    def _finished(self, totals: list[Value], loaded: list[list[Value]]) -> tuple[Value, Value]:
        first, second = self.epilogue.finished(totals, loaded, self.out)
        return first, second


class Direct:
    """The way of an accumulator's rows out to matrices in C order, or in that of columns, at any address."""

    def __init__(self, k: Builder, extents: tuple[Value, ...], thread: Value, *, is_by_columns: bool = False) -> None:
        self.builder, (self.m, self.n), self.is_by_columns = k, extents, is_by_columns
        self._row, self._column = place_of(thread)

    def store(
        self,
        c: Pointer,
        accumulator: Accumulator | Totals | Joined,
        row: Value,
        column: Value,
        outer: tuple[Value, ...] = (),
        finish: Finish | None = None,
    ) -> None:
        """Finish and convert 64 rows of sums, and store what is inside C from element (`row`, `column`) on."""
        k = self.builder
        m, n = (k.cast(extent, i64) for extent in (self.m, self.n))
        base = c.at(k.cast(outer[0], i64) * m * n) if outer else c
        row_step, column_step = (1, m) if self.is_by_columns else (n, 1)
        pairs = accumulator.pairs()
        for half in range(2):
            own_row = row + self._row + 8 * half
            line = base.at(k.cast(own_row, i64) * row_step).at(k.cast(column + self._column, i64) * column_step)
            room = self.n - k.min(column + self._column, self.n)
            with k.when(own_row < self.m):
                own = [pair for pair in pairs if pair[0] == half]
                for _, j, *values in own if finish is None else finish(own):
                    for shift, value in enumerate(values):
                        with k.when(room > 8 * j + shift):
                            line.store(column_step * (8 * j + shift), [k.cast(value, c.type)])

    def close(self) -> None:
        """Nothing is under way."""


__all__ = ["Direct", "Finisher"]

"""Long epilogues of the wgmma kernels: row by row in shared memory.

An epilogue in registers is compiled for each of the up to 128 sums of a thread. Here sums go to shared memory as they
are, 32 columns to a box, and a loop over rows applies the epilogue there: a warp has 16 rows of its own, one after the
other, a lane one or two elements of each. Then TMA stores the box.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oxinp._kernels.elementwise.chain import LINE
from oxinp._ptx.memory import Pointer
from oxinp._ptx.tile import ATOM_NBYTES, WARPGROUP, ResultTile
from oxinp._ptx.tma import SWIZZLE_NBYTES, TensorMap, commit_stores, publish_shared, wait_stores
from oxinp._ptx.types import Type, i64, u32

if TYPE_CHECKING:
    from collections.abc import Sequence

    from oxinp._kernels.gemm.epilogue import BoundEpilogue
    from oxinp._kernels.gemm.sm90_wgmma.cluster_split_k import ReducedSums
    from oxinp._ptx import Builder
    from oxinp._ptx.value import Value
    from oxinp._ptx.wgmma import Accumulator, Totals

WARP, WARP_ROWS = 32, 16
ELEMENTS = 2  # of a lane at a time
NBYTES = (2, 4)  # of elements of C


class RowEpilogue:
    """An epilogue on rows of sums in shared memory; parameters as of `FragmentEpilogue`."""

    def __init__(self, epilogue: BoundEpilogue, out: Type, extents: tuple[Value, ...]) -> None:
        self.epilogue, self.out, self.extents = epilogue, out, extents

    def at(self, row: Value, column: Value, outer: tuple[Value, ...]) -> RowVisitor:
        """Return the visitor of rows of sums, the first of which is element (`row`, `column`)."""
        return RowVisitor(self, row, column, outer)


class RowVisitor:
    """Applies an epilogue to the rows of one tile."""

    def __init__(self, epilogue: RowEpilogue, row: Value, column: Value, outer: tuple[Value, ...]) -> None:
        self.epilogue, self.k = epilogue, epilogue.epilogue.k
        self.row, self.column, self.loop = row, column, len(outer)
        self.matrix = epilogue.epilogue.at(outer)
        self.width = 0
        self.place: Any = None  # the column that is read, at most the last
        self.lines: dict[int, Sequence[Value]] = {}  # inputs that are the same for all rows, by number

    def begin(self, shift: Value, width: int) -> None:
        """Set the column of the tile from which on elements are computed."""
        self.width = width
        last = self.epilogue.extents[1] - width
        self.place = self.k.cast(self.k.min(self.column + shift, last), i64)
        self.lines = {
            number: spot.moved(self.loop + 1, self.place).load(width)
            for number, spot in enumerate(self.matrix.inputs)
            if spot.operand.spec.kind == LINE
        }

    @property
    def moving(self) -> list[int]:
        """Numbers of the inputs that are read for every row."""
        return [
            number
            for number, spot in enumerate(self.matrix.inputs)
            if isinstance(spot.place, Pointer) and number not in self.lines
        ]

    def load(self, row: Value) -> list[Sequence[Value]]:
        """Return the inputs of this thread's elements of a row of the tile, at most the last row of C."""
        place = self.k.cast(self.k.min(self.row + row, self.epilogue.extents[0] - 1), i64)
        position = self.matrix.moved(self.loop, place)
        return [
            self.lines.get(number) or spot.moved(self.loop + 1, self.place).load(self.width)
            for number, spot in enumerate(position.inputs)
        ]

    def apply(self, totals: Sequence[Value], loaded: list[Sequence[Value]]) -> list[Value]:
        """Return the results of sums."""
        return self.epilogue.epilogue.apply(totals, loaded, self.epilogue.out)


class RowsTile(ResultTile):
    """A `ResultTile` with a loop over rows that applies the epilogue in shared memory."""

    def __init__(self, k: Builder, type: Type, num_warpgroups: int, warpgroup: Value, thread: Value) -> None:
        super().__init__(k, type, num_warpgroups, warpgroup, thread)
        self._width = self._columns // WARP  # elements of a row that a lane takes
        row_in_atom = (thread >> 2) & 7
        row = self._start + (thread >> 5) * (2 * ATOM_NBYTES) + row_in_atom * SWIZZLE_NBYTES
        lane = ((thread & 3) * 8) ^ (row_in_atom << 4)
        self._staged = [row + (lane ^ (j * WARP) if j else lane) for j in range(4)]

    def store(  # type: ignore[override] # another kind of visitor
        self,
        tensor_map: TensorMap,
        accumulator: Accumulator | Totals | ReducedSums,
        row: Value,
        column: Value,
        outer: tuple[Value, ...],
        visitor: RowVisitor,
    ) -> None:
        """Apply the epilogue to 64 rows of sums, and store what is inside the array from (`row`, `column`) on."""
        k, per_box = self.builder, self._columns // 8
        pairs = accumulator.pairs()
        is_first, first = self._thread == 0, (self._thread & (WARP - 1)) * self._width
        for number in range(pairs[-1][1] // per_box + 1):
            with k.when(is_first):
                wait_stores(k, 0)
            k.barrier(self._barrier, WARPGROUP)
            for i, j, *values in pairs:
                if j // per_box == number:
                    buffer, group = divmod(j % per_box, 4)
                    place = Pointer(k, self._staged[group], values[0].type, "shared")
                    place.offset_bytes(buffer * self._box_nbytes + i * ATOM_NBYTES).store(0, values)
            k.warp_sync()
            visitor.begin(first + number * self._columns if number else first, self._width)
            self._apply_rows(first, pairs[0][2].type, visitor)
            publish_shared(k)
            k.barrier(self._barrier, WARPGROUP)
            with k.when(is_first):
                position = (*outer, row, column + number * self._columns if number else column)
                tensor_map.store(position, self._start)
                commit_stores(k)

    def _apply_rows(self, first: Value, sums: Type, visitor: RowVisitor) -> None:
        """Apply the epilogue to this warp's rows in place; a lane's elements begin at column `first` of the box."""
        k, width = self.builder, self._width
        of_warp = (self._thread >> 5) * WARP_ROWS
        source = self._start + (first >> 5) * self._box_nbytes  # 32 columns of sums to a buffer
        count = ELEMENTS // width  # of rows at a time

        def rows_from(start: Value) -> list[Value]:
            return [of_warp + start + i if i else of_warp + start for i in range(count)]

        loaded = [visitor.load(row) for row in rows_from(k.const(0, u32))]
        held = {(i, number): [k.var(x) for x in loaded[i][number]] for i in range(count) for number in visitor.moving}
        with k.range(k.const(0, u32), WARP_ROWS, count) as start:
            rows = rows_from(start)
            swizzles = [(row & 7) << 4 for row in rows]
            totals = [
                Pointer(k, source + row * SWIZZLE_NBYTES + (((first & 31) * 4) ^ swizzle), sums, "shared").load(
                    0, width=width
                )
                for row, swizzle in zip(rows, swizzles, strict=True)
            ]
            for place, variables in held.items():
                loaded[place[0]][place[1]] = [variable.get() for variable in variables]
            following = [visitor.load(row) for row in rows_from(start + count)] if held else []
            k.warp_sync()  # a row of C takes the place of sums of other lanes
            for row, swizzle, own, inputs in zip(rows, swizzles, totals, loaded, strict=True):
                address = self._start + row * SWIZZLE_NBYTES + ((first * self.type.nbytes) ^ swizzle)
                Pointer(k, address, self.type, "shared").store(0, visitor.apply(own, inputs))
            for (i, number), variables in held.items():
                for variable, value in zip(variables, following[i][number], strict=True):
                    variable.set(value)


__all__ = ["NBYTES", "RowEpilogue", "RowsTile"]

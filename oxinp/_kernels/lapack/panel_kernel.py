"""What kernels that factor panels have in common: rows in shared memory; of LU also exchanges and the status."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oxinp._ptx.async_copy import AsyncCopies
from oxinp._ptx.types import Type, i64, u32, u64

if TYPE_CHECKING:
    from oxinp._ptx import Builder
    from oxinp._ptx.memory import Pointer
    from oxinp._ptx.value import Value

WARP = 32
WIDTHS = {4: 32, 8: 32, 16: 16}  # columns of a panel, by the bytes of an element
NOWHERE = 0xFFFFFFFF
UNROLL = 4


class PanelRows:
    """How the rows of a block come into shared memory, in a kernel that factors panels of LU or of QR.

    Attributes
    ----------
    k : Builder
    type : Type
    height, width, line : int
        Rows of a block, columns of a panel, elements from one row to the next in shared memory.
    top, num_rows, num_columns, pitch : Value
        The block's first row in the panel; what the panel has; elements from one row to the next.
    a, tile : Pointer
        The panel, and the rows in shared memory.
    """

    k: Builder
    type: Type
    height: int
    width: int
    line: int
    top: Value
    num_rows: Value
    num_columns: Value
    pitch: Value
    a: Pointer
    tile: Pointer

    def copy_in(self) -> None:
        """Let the block's rows come in, zeros where there are none."""
        k, copies, nbytes, block = self.k, AsyncCopies(self.k), self.type.nbytes, self.k.block[0]
        total = self.height * self.width
        with k.range(k.tid, total, block * UNROLL) as start:
            for i in range(UNROLL):
                number = start + i * block if i else start
                row, column = number / self.width, number % self.width
                is_present = (self.top + row < self.num_rows) & (column < self.num_columns)
                place = k.cast(self.top + row, i64) * self.pitch + k.cast(column, i64)
                source = self.a.at(k.where(is_present, place, k.const(0, i64)))
                valid = k.where(is_present, k.const(nbytes, u32), 0)
                copies.start(self.tile.at(row * self.line + column), source, nbytes, valid)
        copies.commit()
        copies.wait()
        k.barrier()


class PanelKernel(PanelRows):
    """What kernels of panels have in common, while one is built: its rows in shared memory, exchanges, the status.

    Parameters
    ----------
    k : Builder
    type : Type
    height : int
        Rows of a block.
    """

    def __init__(self, k: Builder, type: Type, height: int) -> None:
        self.k, self.type, self.height = k, type, height
        self.width, self.real = WIDTHS[type.nbytes], type.parts[0]
        self.a, self.pivots = k.pointer("a", type), k.pointer("pivots", u32, "w")
        self.exchanges, self.status = k.pointer("exchanges", u32, "w"), k.pointer("status", u64)
        self.line = self.width + 1

    def take(self) -> None:
        """Take the scalar parameters, and shared memory for the rows."""
        k = self.k
        names = ("num_rows", "num_columns", "num_blocks", "first", "epoch", "order", "start")
        self.num_rows, self.num_columns, self.num_blocks, self.first, self.epoch, self.order, self.start = (
            k.scalar(name, u32) for name in names
        )
        self.pitch, self.move, self.pivots_move = (k.scalar(name, i64) for name in ("pitch", "move", "pivots_move"))
        self.tile = k.dynamic_shared(self.type, self.height * self.line)
        self.matrix = k.ctaid / self.num_blocks
        self.rank = k.ctaid - self.matrix * self.num_blocks
        wide = k.cast(self.matrix, i64)
        self.a = self.a.at(wide * self.move)
        self.pivots = self.pivots.at(wide * self.pivots_move)
        self.exchanges = self.exchanges.at(self.matrix * (3 * self.width))
        self.top = self.rank * self.height  # this block's first row in the panel
        self.begin_lists()
        self.first_zero = k.var(NOWHERE, u32)
        self.is_noting = (self.rank == 0) & (k.warp == k.block[0] // WARP - 1)

    # -- memory

    def copy_out(self) -> None:
        """Store the block's rows."""
        k = self.k
        with k.range(k.tid, self.height * self.width, k.block[0]) as number:
            row, column = number / self.width, number % self.width
            with k.when((self.top + row < self.num_rows) & (column < self.num_columns)):
                place = k.cast(self.top + row, i64) * self.pitch + k.cast(column, i64)
                self.a[place] = self.tile[row * self.line + column]

    # -- exchanges

    def begin_lists(self) -> None:
        """Begin a panel's lists: every row on top is where it was."""
        k = self.k
        self.lists = k.var(k.lane + k.const(0, u32)), k.var(NOWHERE, u32), k.var(NOWHERE, u32)
        self.winners = k.var(0, u32)  # of the column of the lane's number

    def note_pivot(self, column: Any, pivot: Value) -> None:
        """Keep the first column whose pivot is zero."""
        k = self.k
        is_zero = pivot == k.const(0, self.type)
        self.first_zero.set(k.where(is_zero, k.min(self.first_zero, column), self.first_zero))

    def note(self, column: Any, winner: Value) -> None:
        """Keep the exchange of two rows: the first block's last warp, a lane for each row on top and each below."""
        k = self.k
        top, positions, sources = self.lists
        with k.when(self.is_noting):
            lane = k.lane
            same = k.ballot(positions.get() == winner)
            is_on_top, is_known = winner < self.width, same != 0
            place = k.where(is_known, k.bfind(same & (k.const(0, u32) - same)), column)
            from_top = k.shfl_idx(top.get(), winner % WARP)
            from_below = k.where(is_known, k.shfl_idx(sources.get(), place), winner)
            upper = k.shfl_idx(top.get(), column)
            with k.when(is_on_top & (lane == winner)):
                top.set(upper)
            with k.when(~is_on_top & (lane == place)):
                positions.set(winner)
                sources.set(upper)
            with k.when(lane == column):
                top.set(k.where(is_on_top, from_top, from_below))
            self.winners.set(k.where(lane == column, winner, self.winners))

    def report(self, start: Value | int = 0, lists: Value | int = 0) -> None:
        """Write exchanges and pivots; take the minimum of the status and the number of the first pivot that is zero.

        Of the panel that begins at a column, of several that are factored together; and where its lists begin.
        """
        k, column = self.k, self.k.lane + start
        with k.when(self.is_noting & (k.lane < self.width)):
            for i, values in enumerate(self.lists):
                self.exchanges[k.lane + lists + i * self.width] = values.get()
            with k.when(column < self.num_columns):
                self.pivots[column] = self.first + start + self.winners
            with k.when((k.lane == 0) & (self.first_zero != NOWHERE)):
                wide = [k.cast(x, u64) for x in (self.start + self.matrix, self.order, self.first + self.first_zero)]
                self.status.atomic("min", 0, wide[0] * wide[1] + wide[2])


def magnitude(k: Builder, value: Value) -> Value:
    """The sum of the magnitudes of a value's parts; infinity for NaN."""
    total = k.abs(value.parts[0])
    for part in value.parts[1:]:
        total = total + k.abs(part)
    return k.where(k.isnan(total), k.const(float("inf"), value.parts[0].type), total)


__all__ = ["NOWHERE", "WARP", "WIDTHS", "PanelKernel", "PanelRows", "magnitude"]

"""What reductions of matrices that lie alike have in common, so that the launch of each takes a few integers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from oxinp._kernels.problem import MIN_COLUMNS
from oxinp._kernels.reduce.columns import NUM_WARPS
from oxinp._kernels.reduce.known import KnownPasses
from oxinp._kernels.reduce.loops import MAX_VECTOR
from oxinp._kernels.reduce.passes import BLOCKS_PER_SM, MAX_COLUMN_ROUNDS, MAX_SERIAL
from oxinp._kernels.reduce.rows import BLOCK, WARP

if TYPE_CHECKING:
    from oxinp._kernels.reduce.known import Alike, Near

_KINDS = (1, False, False), (NUM_WARPS, False, False), (NUM_WARPS, True, True)


class NearColumns(NamedTuple):
    """Matrices that lie alike and that `KnownPasses.columns_again` reduces in one launch, into a dense vector.

    Attributes
    ----------
    alike : Alike
    nbytes : int
        Of an accumulator.
    step : int
        Rows that a block goes through at once.
    most : int
        Rows up to which they are not cut in chunks.
    serial, per_tile : int
        Columns of a tile, where one thread goes down all rows and where warps share them.
    num_blocks : int
        How many chunks are to give.
    most_serial : int
        Rows up to which one thread goes down them.
    kinds : tuple
        What `Walk.kernels` is by: where one thread goes down all rows, where warps share them, and chunks of them.
    """

    alike: Alike
    nbytes: int
    step: int
    most: int
    serial: int
    per_tile: int
    num_blocks: int
    most_serial: int
    kinds: tuple[Any, Any, Any]


class NearPasses(KnownPasses):
    """The passes of a reduction, and what those of matrices that lie alike share; parameters as of `Passes`.

    Attributes
    ----------
    block : int
        Threads that go through rows together, at least.
    """

    __slots__ = ()

    block = BLOCK

    def near_columns(
        self, width: int, steps: tuple[tuple[int, int], ...], alignments: tuple[int, ...], num_sms: int
    ) -> NearColumns | None:
        """Return what a matrix that `columns_again` has just had a launch for has in common with others.

        They have at least `MIN_COLUMNS`, as many beyond a multiple of the widest access. None where there is more to
        find out for each.
        """
        alike = self._alike.get((0, steps, alignments, 1, width % MAX_VECTOR))
        if alike is None or alike.votes is None or alike.whole or self.is_joining or not self.has_flags:
            return None
        elements, rows, columns, others = alike.votes
        if min(elements, columns, others) < 0 or elements * MIN_COLUMNS + rows <= 0:  # for some lanes go otherwise
            return None
        walk = alike.walk
        step, per_tile = NUM_WARPS * walk.unroll, WARP * walk.vector
        sizes = step, MAX_COLUMN_ROUNDS * step, per_tile * NUM_WARPS, per_tile
        return NearColumns(alike, self.op.acc.nbytes, *sizes, BLOCKS_PER_SM * num_sms, MAX_SERIAL, _KINDS)

    def near_rows(self, steps: tuple[tuple[int, int], ...], alignments: tuple[int, ...]) -> Alike | None:
        """Return what a matrix that `rows_again` has just had a launch for has in common with others.

        None where lanes may go along the columns, or there is more to find out for each.
        """
        alike = self._alike.get((1, steps, alignments, 1, 0))
        return None if alike is None or alike.votes is not None or alike.whole else alike

    def near_line(self, size: int, steps: tuple[int, ...], alignments: tuple[int, ...], num_sms: int) -> Near | None:
        """Return what vectors that `line_again` has just had a launch for have in common with others.

        None where that is nothing, or one goes backwards.
        """
        if min(steps) < 0:
            return None
        near = self._near.get((steps, alignments, 0, num_sms))
        return near if near is not None and near.least <= size <= near.most else None


__all__ = ["NearColumns", "NearPasses"]

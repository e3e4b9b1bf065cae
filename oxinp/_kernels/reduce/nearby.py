"""What reductions of matrices of nearby extents have in common, so that the launch of each takes a few integers."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from oxinp._kernels.choice import MIN_TUNED_NBYTES
from oxinp._kernels.elementwise.access import MAX_INDEX_32
from oxinp._kernels.plan import NUM_FLAGS
from oxinp._kernels.problem import MIN_COLUMNS
from oxinp._kernels.reduce.columns import NUM_WARPS
from oxinp._kernels.reduce.known import KnownPasses, Near
from oxinp._kernels.reduce.loops import MAX_VECTOR
from oxinp._kernels.reduce.passes import BLOCKS_PER_SM, MAX_COLUMN_ROUNDS, MAX_SERIAL, UNITS_PER_LANE
from oxinp._kernels.reduce.rows import BLOCK, WARP

if TYPE_CHECKING:
    from oxinp._kernels.choice import Device
    from oxinp._ptx import Kernel

_NO_KERNEL = None, None, None


class NearColumns(NamedTuple):
    """Matrices that `KnownPasses.columns_again` reduces by one kernel, in one launch, into a dense vector.

    Attributes
    ----------
    fewest, largest : int
        Rows.
    most : int
        Columns.
    whole : int
        But not so many.
    kernel : Kernel
    per_tile : int
        Columns of a tile.
    chunk : int
        Rows of a chunk, if each tile's are combined by way of the flags; 0 where a tile is all rows.
    nbytes : int
        Of an accumulator.
    values : tuple of int
        Constants before those of the extents.
    """

    fewest: int
    largest: int
    most: int
    whole: int
    kernel: Kernel
    per_tile: int
    chunk: int
    nbytes: int
    values: tuple[int, ...]


class NearRows(NamedTuple):
    """Matrices that `KnownPasses.rows_again` reduces by one kernel, in one launch, into a dense vector.

    Attributes
    ----------
    fewest, largest : int
        Rows.
    least, most : int
        Columns.
    whole : int
        But not so many.
    kernel : Kernel
    per_block : int
        Rows of a block.
    vector : int
        Elements of a unit.
    values : tuple of int
        Constants before those of the extents.
    """

    fewest: int
    largest: int
    least: int
    most: int
    whole: int
    kernel: Kernel
    per_block: int
    vector: int
    values: tuple[int, ...]


class NearPasses(KnownPasses):
    """The passes of a reduction, and what those of nearby extents have in common; parameters as of `Passes`."""

    __slots__ = ()

    def near_columns(
        self, shape: tuple[int, int], steps: tuple[tuple[int, int], ...], alignments: tuple[int, ...], device: Device
    ) -> NearColumns | None:
        """Return what a matrix that `columns_again` has just had a launch for has in common with others.

        They have as many columns beyond a multiple of the widest access, and as many bits in both extents. None where
        there is more to find out for each.
        """
        length, width = shape
        alike = self._alike.get((0, steps, alignments, 1, width % MAX_VECTOR))
        if alike is None or alike.votes is None or width < MIN_COLUMNS:
            return None
        elements, rows, columns, others = alike.votes
        if min(elements, columns, others) < 0 or elements * MIN_COLUMNS + rows <= 0:  # for some lanes go otherwise
            return None
        walk = alike.walk
        fewest, largest = _of_as_many_bits(length)
        most = _of_as_many_bits(width)[1]
        down, chunk = 1, 0
        if length > MAX_SERIAL:
            down = NUM_WARPS
            step = down * walk.unroll
            fewest = max(fewest, MAX_SERIAL + 1)
            if length <= MAX_COLUMN_ROUNDS * step:
                largest = min(largest, MAX_COLUMN_ROUNDS * step)
            else:  # chunks are the shortest: two iterations
                fewest, chunk = max(fewest, MAX_COLUMN_ROUNDS * step + 1), 2 * step
        else:
            largest = min(largest, MAX_SERIAL)
        per_tile = WARP * walk.vector * (NUM_WARPS // down)
        if chunk:
            if not self.has_flags or self.is_joining:
                return None
            most = min(most, per_tile * min(NUM_FLAGS, BLOCKS_PER_SM * device.num_sms // max(2, -(-largest // chunk))))
        elements, rows, columns, others = alike.nbytes
        most = min(most, (MIN_TUNED_NBYTES - 1 - others - largest * rows) // (largest * elements + columns or 1))
        kernel = walk.kernels.get((down, chunk > 0, chunk > 0 and self.has_flags), _NO_KERNEL)[1]
        if most < width or kernel is None or alike.down * largest + alike.across * most >= MAX_INDEX_32:
            return None
        values = (*alike.values, 1, 0)
        return NearColumns(fewest, largest, most, alike.whole, kernel, per_tile, chunk, self.op.acc.nbytes, values)

    def near_rows(
        self, shape: tuple[int, int], steps: tuple[tuple[int, int], ...], alignments: tuple[int, ...], device: Device
    ) -> NearRows | None:
        """Return what a matrix that `rows_again` has just had a launch for has in common with others.

        They have as many bits in both extents. None where there is more to find out for each.
        """
        num_rows, length = shape
        along = self._alike.get((1, steps, alignments, 1, 0))
        if along is None:
            return None
        _, vector, unroll, kernels = along.walk
        num_units = length // vector
        if not num_units:
            return None
        found = self._group_rows(num_rows, num_units, unroll, device.num_sms)
        group, count, at_once, chunk = found
        if chunk < num_units:
            return None
        if at_once:
            units = group * count // 2 + 1, group * count
        else:
            share = num_units // group
            least = group << (share.bit_length() - 1) if share else WARP * UNITS_PER_LANE + 1
            units = least, (group << share.bit_length()) - 1
        fewest, largest = _of_as_many_bits(num_rows)
        if not self._are_grouped((fewest, largest), units, unroll, found, device.num_sms):
            fewest = largest = num_rows
            if not self._are_grouped((num_rows,), units, unroll, found, device.num_sms):
                return None
        if along.votes is not None and largest >= MIN_COLUMNS:
            return None
        elements, rows, columns, others = along.nbytes
        most = (MIN_TUNED_NBYTES - 1 - others - largest * rows) // (largest * elements + columns or 1)
        most = min(most, units[1] * vector + vector - 1)
        kernel = kernels.get((group, count, at_once, False), _NO_KERNEL)[1]
        if most < length or kernel is None or along.down * largest + along.across * most >= MAX_INDEX_32:
            return None
        per_block = max(1, at_once) * max(group, BLOCK) // group
        values = (*along.values, 1, 0)
        least = max(2, units[0] * vector)
        return NearRows(fewest, largest, least, most, along.whole, kernel, per_block, vector, values)

    def near_line(self, size: int, steps: tuple[int, ...], alignments: tuple[int, ...], num_sms: int) -> Near | None:
        """Return what vectors that `line_again` has just had a launch for have in common with others.

        None where that is nothing, or one goes backwards.
        """
        if min(steps) < 0:
            return None
        near = self._near.get((steps, alignments, 0, num_sms))
        return near if near is not None and near.least <= size <= near.most else None

    def _are_grouped(
        self,
        rows: tuple[int, ...],
        units: tuple[int, int],
        unroll: int,
        found: tuple[int, int, int, int],
        num_sms: int,
    ) -> bool:
        """Whether matrices of so many rows and units, and so those between, are gone through like one, in one chunk."""
        group, count, at_once, _ = found
        return all(
            self._group_rows(each, n, unroll, num_sms) == (group, count, at_once, n) for each in rows for n in units
        )


def _of_as_many_bits(extent: int) -> tuple[int, int]:
    """Return the least and the largest extent, of at least 2, of as many bits as one."""
    bits = extent.bit_length()
    return max(2, 1 << (bits - 1)), (1 << bits) - 1


__all__ = ["NearColumns", "NearPasses", "NearRows"]

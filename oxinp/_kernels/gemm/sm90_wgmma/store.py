"""How the wgmma kernels store C: by TMA or straight from registers, in rows or in columns.

A thread of a consumer warpgroup has pairs of neighbouring sums in two rows (see `wgmma.Accumulator`). TMA stores boxes
from shared memory, and needs rows (or columns) of C that begin at multiples of 16 bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from oxinp._kernels.gemm.sm90_wgmma import epilogue_rows
from oxinp._kernels.gemm.sm90_wgmma.epilogue import DirectTile, FragmentEpilogue
from oxinp._kernels.gemm.sm90_wgmma.epilogue_rows import RowEpilogue, RowsTile
from oxinp._kernels.gemm.sm90_wgmma.scheduler import DEPTH_NBYTES, ROWS
from oxinp._ptx.fragments import TransposedResultTile
from oxinp._ptx.tile import ColumnsTile, ResultTile
from oxinp._ptx.types import Type, f16

if TYPE_CHECKING:
    from oxinp._kernels.gemm.epilogue import BoundEpilogue
    from oxinp._ptx import Builder
    from oxinp._ptx.value import Value


class Store:
    """A way to store C.

    Attributes
    ----------
    is_bulk : bool
        By TMA: the kernel takes a tensor map of C, else a pointer.
    is_column_major : bool
        C is stored by columns, that is along M.
    ways : tuple of str
        Parts of the kernel's name: for direct stores, columns, and a rolled epilogue.
    """

    is_bulk: ClassVar[bool] = True
    is_column_major: ClassVar[bool] = False
    ways: ClassVar[tuple[str, str, str]] = ("", "", "")

    @classmethod
    def check(cls, out: Type, tile_n: int, *, has_epilogue: bool) -> None:
        """Raise ValueError if tiles of `tile_n` columns of a type cannot be stored like this."""
        raise NotImplementedError

    @classmethod
    def box(cls, out: Type, tile_n: int) -> tuple[int, int]:
        """Return the box of a TMA store: lines, and elements per line."""
        del tile_n
        return ResultTile.box(out)

    @classmethod
    def shared_nbytes(cls, out: Type, tile_n: int) -> int:
        """Return the shared memory of a consumer warpgroup for its boxes."""
        del out, tile_n
        return ResultTile.NUM_BUFFERS * ROWS * DEPTH_NBYTES if cls.is_bulk else 0

    @classmethod
    def tile(
        cls,
        k: Builder,
        out: Type,
        tile_n: int,
        extents: tuple[Value, ...],
        warpgroups: tuple[int, Value],
        thread: Value,
    ) -> Any:
        """Return what stores the sums of a warpgroup.

        Parameters
        ----------
        k : Builder
        out : Type
        tile_n : int
        extents : tuple of Value
            Rows and columns of C, for who needs them.
        warpgroups : (int, Value)
            How many store, and the number of this one.
        thread : Value
            This thread's number in its warpgroup.
        """
        raise NotImplementedError

    @classmethod
    def epilogue(
        cls, epilogue: BoundEpilogue, out: Type, extents: tuple[Value, ...], thread: Value
    ) -> FragmentEpilogue | RowEpilogue:
        """Return what applies an epilogue before the store."""
        return FragmentEpilogue(epilogue, out, extents, thread, 1)


class BulkRows(Store):
    """Rows by TMA."""

    @classmethod
    def check(cls, out: Type, tile_n: int, *, has_epilogue: bool) -> None:
        """Raise ValueError if rows of a tile are no whole boxes."""
        del has_epilogue
        if tile_n * out.nbytes % DEPTH_NBYTES:
            raise ValueError(f"rows of tile_n = {tile_n} {out} are no multiples of 128 bytes, as bulk stores need them")

    @classmethod
    def tile(
        cls,
        k: Builder,
        out: Type,
        tile_n: int,
        extents: tuple[Value, ...],
        warpgroups: tuple[int, Value],
        thread: Value,
    ) -> Any:
        """Return what stores the sums of a warpgroup."""
        del tile_n, extents
        return ResultTile(k, out, *warpgroups, thread)

    @classmethod
    def epilogue(
        cls, epilogue: BoundEpilogue, out: Type, extents: tuple[Value, ...], thread: Value
    ) -> FragmentEpilogue | RowEpilogue:
        """Return what applies an epilogue, whose inputs are read in pairs."""
        return FragmentEpilogue(epilogue, out, extents, thread, 2)


class RolledRows(BulkRows):
    """Rows by TMA, after a loop over rows in shared memory that applies a long epilogue; see `epilogue_rows`."""

    ways = ("", "", "_rolled")

    @classmethod
    def check(cls, out: Type, tile_n: int, *, has_epilogue: bool) -> None:
        """Raise ValueError if there is no epilogue, or if it cannot be rolled for the type."""
        super().check(out, tile_n, has_epilogue=has_epilogue)
        if not has_epilogue or out.nbytes not in epilogue_rows.NBYTES:
            raise ValueError(f"no epilogue goes over rows of {out}")

    @classmethod
    def tile(
        cls,
        k: Builder,
        out: Type,
        tile_n: int,
        extents: tuple[Value, ...],
        warpgroups: tuple[int, Value],
        thread: Value,
    ) -> Any:
        """Return what stores the sums of a warpgroup."""
        del tile_n, extents
        return RowsTile(k, out, *warpgroups, thread)

    @classmethod
    def epilogue(
        cls, epilogue: BoundEpilogue, out: Type, extents: tuple[Value, ...], thread: Value
    ) -> FragmentEpilogue | RowEpilogue:
        """Return what applies an epilogue row by row."""
        del thread
        return RowEpilogue(epilogue, out, extents)


class BulkColumns16(Store):
    """Columns of a 16-bit type by TMA."""

    is_column_major = True
    ways = ("", "_columns", "")

    @classmethod
    def check(cls, out: Type, tile_n: int, *, has_epilogue: bool) -> None:
        """Raise ValueError if the type is no 16-bit one."""
        del tile_n, has_epilogue
        if out.nbytes != f16.nbytes:
            raise ValueError(f"columns of {out} are stored directly")

    @classmethod
    def box(cls, out: Type, tile_n: int) -> tuple[int, int]:
        """Return the box of a TMA store: lines, and elements per line."""
        return ColumnsTile.columns_box(out, tile_n)

    @classmethod
    def shared_nbytes(cls, out: Type, tile_n: int) -> int:
        """Return the shared memory of a consumer warpgroup for its boxes."""
        return ResultTile.NUM_BUFFERS * cls.box(out, tile_n)[0] * DEPTH_NBYTES

    @classmethod
    def tile(
        cls,
        k: Builder,
        out: Type,
        tile_n: int,
        extents: tuple[Value, ...],
        warpgroups: tuple[int, Value],
        thread: Value,
    ) -> Any:
        """Return what stores the sums of a warpgroup."""
        del extents
        return ColumnsTile(k, out, tile_n, *warpgroups, thread)


class BulkColumns32(Store):
    """Columns of f32 by TMA, of sums in the order in which A comes through registers."""

    is_column_major = True
    ways = ("", "_columns", "")

    @classmethod
    def check(cls, out: Type, tile_n: int, *, has_epilogue: bool) -> None:
        """Raise ValueError if tiles are no whole boxes, or if there is an epilogue."""
        del out
        if tile_n % 64:
            raise ValueError(f"tile_n = {tile_n} is no multiple of 64, as operands that come through registers need it")
        if has_epilogue:
            raise ValueError("a product whose operand comes through registers has no epilogue")

    @classmethod
    def box(cls, out: Type, tile_n: int) -> tuple[int, int]:
        """Return the box of a TMA store: lines, and elements per line."""
        del out, tile_n
        return TransposedResultTile.box()

    @classmethod
    def tile(
        cls,
        k: Builder,
        out: Type,
        tile_n: int,
        extents: tuple[Value, ...],
        warpgroups: tuple[int, Value],
        thread: Value,
    ) -> Any:
        """Return what stores the sums of a warpgroup."""
        del out, tile_n, extents
        return TransposedResultTile(k, *warpgroups, thread)


class DirectRows(Store):
    """Rows from registers, at any alignment."""

    is_bulk = False
    ways = ("_direct", "", "")
    max_tile_n: ClassVar[int] = 192  # beyond, the code takes long to compile

    @classmethod
    def check(cls, out: Type, tile_n: int, *, has_epilogue: bool) -> None:
        """Raise ValueError if tiles are too wide."""
        del out, has_epilogue
        if tile_n > cls.max_tile_n:
            raise ValueError(f"tiles of {tile_n} columns are not stored directly")

    @classmethod
    def tile(
        cls,
        k: Builder,
        out: Type,
        tile_n: int,
        extents: tuple[Value, ...],
        warpgroups: tuple[int, Value],
        thread: Value,
    ) -> Any:
        """Return what stores the sums of a warpgroup."""
        del out, tile_n, warpgroups
        return DirectTile(k, extents, thread, is_column_major=cls.is_column_major)


class DirectColumns(DirectRows):
    """Columns from registers, at any alignment."""

    is_column_major = True
    ways = ("_direct", "_columns", "")
    max_tile_n = 128


AnyStore = type[Store]

__all__ = [
    "AnyStore",
    "BulkColumns16",
    "BulkColumns32",
    "BulkRows",
    "DirectColumns",
    "DirectRows",
    "RolledRows",
    "Store",
]

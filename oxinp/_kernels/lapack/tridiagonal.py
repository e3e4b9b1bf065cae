"""How panels of tridiagonal reductions are cut into blocks and tiles, and their launches."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from oxinp._kernels.lapack.resident import VECTOR_NBYTES, WARP, WIDTH
from oxinp._kernels.lapack.tridiagonal_panel import make
from oxinp._kernels.lapack.tridiagonal_tiles import MAX_TILES, ROWS_AT_ONCE, PanelSpec
from oxinp._kernels.plan import Argument, Launch, Scratch, Work
from oxinp._ptx.types import Type

if TYPE_CHECKING:
    from oxinp._kernels.choice import Device

MIN_ROWS = 8  # of a block, one a warp
# Of a block of matrices whose tiles lie in shared memory even so: fewer blocks wait for each other, and read less of
# what all tell.
FEW_BLOCKS_ORDER, FEW_BLOCKS_ROWS = 1024, 28
SPARED_NBYTES = 48 << 10  # of shared memory, left to the L1 cache where a tile does not fit
SECTOR_NBYTES = 32  # in which tiles begin
ALONE = 512  # rows up to which each of many matrices is one block


class Cut(NamedTuple):
    """How many rows of a matrix a block has, and how many matrices are reduced at a time."""

    height: int
    at_once: int


def cut(type: Type, count: int, order: int, device: Device) -> Cut:
    """Return how matrices are cut into blocks: as many as multiprocessors, unless there are many matrices."""
    if count > 1 and order <= ALONE and spec_of(type, order, order, order, device) is not None:
        return Cut(order, count)
    least = FEW_BLOCKS_ROWS if order <= FEW_BLOCKS_ORDER else MIN_ROWS
    blocks = max(1, min(device.num_sms, -(-order // least)))
    height = -(-order // blocks)
    return Cut(height, max(1, device.num_sms // -(-order // height)))


class Tiling(NamedTuple):
    """How the upper triangle of what is left of a matrix is cut: into `tiles` rows of tiles of `side` rows each."""

    tiles: int
    side: int


def tiling(type: Type, rows: int, num_blocks: int) -> Tiling:
    """Return how blocks cut a triangle: one tile each at most."""
    tiles = min(MAX_TILES, (math.isqrt(8 * num_blocks + 1) - 1) // 2)
    unit = max(1, SECTOR_NBYTES // type.nbytes)
    side = -(-rows // (tiles * unit)) * unit
    return Tiling(-(-rows // side), side)


def spec_of(type: Type, order: int, rows: int, height: int, device: Device) -> PanelSpec | None:
    """Return the kernel for what is left of a matrix; None where shared memory is too small.

    Parameters
    ----------
    type : Type
    order, rows : int
        Of the matrix, and what is left of them.
    height : int
        Rows of a block, of the whole matrix.
    device : Device
    """
    blocks = -(-order // height)
    vector = VECTOR_NBYTES // type.nbytes
    is_wide = order % vector == 0
    side = tiling(type, rows, _shared_out(rows, blocks)[1]).side
    tiles = 1 if blocks == 1 else MAX_TILES
    # With more loads of a row than its columns take, sums of columns may lie where v did: that is smaller.
    specs = (
        PanelSpec(type, _power(order), _power_of(height), is_wide, tiles, chunks)
        for chunks in ROWS_AT_ONCE
        if chunks * WARP * (vector if is_wide else 1) >= side
    )
    spec = next((each for each in specs if each.shared_nbytes <= device.max_shared_nbytes), None)
    if spec is None:
        return None
    if blocks == 1:  # others lie on its multiprocessor
        return spec
    room, kept = device.max_shared_nbytes - spec.shared_nbytes, spec.side**2
    if kept * type.nbytes > room:
        kept = max(0, room - SPARED_NBYTES) // type.nbytes // WARP * WARP
    return spec._replace(kept=kept)


def is_possible(type: Type, count: int, order: int, device: Device) -> bool:
    """Whether there is a kernel for matrices of an order."""
    return spec_of(type, order, order, cut(type, count, order, device).height, device) is not None


def _shared_out(rows: int, blocks: int) -> tuple[int, int]:
    """Return how many rows a block has, and how many blocks have some."""
    height = -(-rows // blocks)
    return height, -(-rows // height)


def _power(order: int) -> int:
    return 1 << max(5, (order - 1).bit_length())


class Board(NamedTuple):
    """Where blocks tell each other, in the workspace."""

    column: Argument
    parts: Argument
    squares: Argument
    sums: Argument
    flags: Argument
    flags_nbytes: int


def board(scratch: Scratch, type: Type, count: int, order: int, division: Cut) -> Board:
    """Return where the blocks of matrices tell each other."""
    at_once = min(count, division.at_once)
    blocks = at_once * -(-order // division.height)
    tiles = MAX_TILES if blocks > at_once else 1
    most = tiles * (order + tiles * SECTOR_NBYTES)
    return Board(
        scratch.take(count * order * type.nbytes),
        scratch.take(at_once * most * type.nbytes),
        scratch.take(blocks * type.nbytes),
        scratch.take(blocks * 2 * WIDTH * type.nbytes),
        scratch.take(blocks * 4),
        blocks * 4,
    )


class Reduction(NamedTuple):
    """A panel of some matrices.

    Attributes
    ----------
    type : Type
    order, first, width : int
        Rows of the matrices; the first column, and how many.
    strides, v_strides : (int, int)
        Elements from one row, and from one matrix, to the next of A, and of the matrix of all reflectors.
    start, count : int
        Number of the first matrix, and how many.
    epoch : int
        How often blocks have waited, of this launch's flags.
    """

    type: Type
    order: int
    first: int
    width: int
    strides: tuple[int, int]
    v_strides: tuple[int, int]
    start: int
    count: int  # type: ignore[assignment]  # instead of the method of tuples
    epoch: int


def launch(panel: Reduction, division: Cut, places: dict[str, Argument], told: Board, device: Device) -> Launch:
    """Return the launch that reduces a panel.

    Parameters
    ----------
    panel : Reduction
    division : Cut
    places : dict
        The arrays of the module's data layout: ``a``, ``p``, ``q``, ``v``, ``d``, ``e``, ``tau``.
    told : Board
    device : Device
    """
    rows = panel.order - panel.first
    height, num_blocks = _shared_out(rows, -(-panel.order // division.height))
    tiles = tiling(panel.type, rows, num_blocks)
    spec = spec_of(panel.type, panel.order, rows, division.height, device)
    assert spec is not None
    kernel = make(spec)
    at = places | told._asdict()
    names = [param.name for param in kernel.params if param.is_pointer]
    constants = (panel.order, panel.first, panel.width, height, num_blocks, panel.epoch, panel.start, *tiles)
    strides = (*panel.strides, *panel.v_strides)
    work = Work(
        (16 if panel.type.is_complex else 4) * panel.width * rows * rows * panel.count,
        panel.width * rows * rows * panel.type.nbytes // 2,
    )
    grid = (num_blocks * panel.count, 1, 1)
    return Launch(kernel, grid, tuple(at[name] for name in names), (*constants, *strides), work)


def _power_of(height: int) -> int:
    return 1 << max(3, (height - 1).bit_length())


__all__ = ["WIDTH", "Board", "Cut", "PanelSpec", "Reduction", "board", "cut", "is_possible", "launch", "make"]

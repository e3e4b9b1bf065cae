"""Elementwise kernels that compute tiles of the two innermost loops: transposed inputs, stencils, long rows.

Data layout: the innermost loop gives columns, in units of `vector`, the loop before it rows; a tile is 32 * `units`
units of columns by 8 * `rows` rows. Who owns what: a block computes a tile, a warp every eighth row of it, a
lane every 32nd unit of a row. Algorithm: finding the tile takes a few divisions per block and none per element; a
thread issues all its loads before it uses the first. Neighbouring rows and columns that several inputs read (shifted
views of one array) are hits in the L1 cache. An input that is contiguous along the rows' loop is first copied to shared
memory, lanes along that loop; the pitch of columns there is an odd number of words, so that neither direction has bank
conflicts. Bytes per element: those of every operand, once; those of shifted views of one array, about once together.
"""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import product
from typing import TYPE_CHECKING

from oxinp._kernels.elementwise.chain import (
    MAX_GATHERED,
    STAGED,
    BoundChain,
    Chain,
    Divisor,
    Position,
    Splitter,
    locate,
)
from oxinp._kernels.problem import MAX_KERNELS
from oxinp._ptx import Builder, Kernel
from oxinp._ptx.frozen import Frozen
from oxinp._ptx.kernel import retraceable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from oxinp._kernels.nest import Nest
    from oxinp._kernels.plan import Grid
    from oxinp._ptx.memory import Pointer
    from oxinp._ptx.types import Type
    from oxinp._ptx.value import Value

WARP = 32
NUM_WARPS = 8
BLOCK = WARP * NUM_WARPS


class TileSpec(Frozen):
    """One kernel of the family.

    Attributes
    ----------
    chain : Chain
        At least two loops.
    vector : int
        Elements per unit; 1 if an input is STAGED.
    units : int
        Units per thread in each of its rows, 32 apart.
    rows : int
        Rows per thread; a multiple of 4 if an input is STAGED.
    """

    chain: Chain
    vector: int
    units: int
    rows: int

    @property
    def width(self) -> int:
        """Columns of a tile."""
        return WARP * self.vector * self.units

    @property
    def height(self) -> int:
        """Rows of a tile."""
        return NUM_WARPS * self.rows


def pitch(height: int, type_: Type) -> int:
    """Elements between columns in shared memory: an odd number of words, or of 8-byte elements."""
    return height + max(1, 4 // type_.nbytes)


def shared_nbytes(width: int, height: int, type_: Type) -> int:
    """Shared memory of one transposed input."""
    return width * pitch(height, type_) * type_.nbytes


@lru_cache(MAX_KERNELS)
@retraceable
def make(spec: TileSpec) -> Kernel:
    """Build the kernel of a Spec."""
    return _Tile(spec).build()


class _Tile:
    """The kernel while it is built."""

    def __init__(self, spec: TileSpec) -> None:
        self.spec = spec
        chain, type_ = spec.chain, spec.chain.index_type
        self.column_loop, self.row_loop = chain.ndim - 1, chain.ndim - 2
        # min_blocks: without it ptxas spills a register or two to reach a rounder number of blocks
        self.k = k = Builder("elementwise_tile", block=BLOCK, min_blocks=1)
        self.bound = BoundChain(k, chain)
        self.num_columns, self.num_rows = k.scalar("num_columns", type_), k.scalar("num_rows", type_)
        self.across, self.down = Divisor(k, "tiles_across", type_), Divisor(k, "tiles_down", type_)
        self.outer = Splitter(k, "outer", max(1, chain.ndim - 2), type_)
        self.staged: dict[int, Pointer] = {
            i: k.shared(operand.type, spec.width * pitch(spec.height, operand.type))
            for i, operand in enumerate(chain.inputs)
            if operand.kind in STAGED
        }

    def build(self) -> Kernel:
        k, spec, type_ = self.k, self.spec, self.spec.chain.index_type
        number, across = self.across.divide(k.cast(k.ctaid, type_))
        number, down = self.down.divide(number)
        first_column, first_row = across * spec.width, down * spec.height
        outer = self.outer.split(number)[: spec.chain.ndim - 2]
        corner = locate(self.bound.origin(), range(spec.chain.ndim - 2), outer)
        corner = corner.moved(self.row_loop, first_row).moved(self.column_loop, first_column)
        columns_left, rows_left = self.num_columns - first_column, self.num_rows - first_row
        is_full = (columns_left >= spec.width) & (rows_left >= spec.height)
        if self.staged:
            self.stage(corner, is_full, columns_left, rows_left)
            k.barrier()
        warp, column = k.cast(k.warp, type_), k.cast(k.lane, type_) * spec.vector
        start = corner.moved(self.row_loop, warp).moved(self.column_loop, column)
        with k.when(is_full):
            self.compute(start)
        with (
            k.otherwise(),
            k.range(warp, k.min(rows_left, spec.height), NUM_WARPS) as row,
            k.range(column, k.min(columns_left, spec.width), WARP * spec.vector) as first,
        ):
            place = start.moved(self.row_loop, row - warp).moved(self.column_loop, first - column)
            place.compute(self.load(place, row - warp, first - column), spec.vector)
        return k.build()

    def compute(self, start: Position) -> None:
        """Compute all of a thread's units in a full tile, as many at a time as its registers hold."""
        spec = self.spec
        steps = list(product(range(0, spec.height, NUM_WARPS), range(0, spec.width, WARP * spec.vector)))
        at_once = max(1, MAX_GATHERED // max(1, spec.vector * spec.chain.words))
        for i in range(0, len(steps), at_once):
            gathered = []
            for row, column in steps[i : i + at_once]:
                place = start.moved(self.row_loop, row).moved(self.column_loop, column)
                gathered.append((place, self.load(place, row, column)))
            for place, values in gathered:
                place.compute(values, spec.vector)

    def stage(self, corner: Position, is_full: Value, columns_left: Value, rows_left: Value) -> None:
        """Copy the tile of transposed inputs to shared memory, lanes along the rows' loop, a warp every 8th column."""
        k, spec, type_ = self.k, self.spec, self.spec.chain.index_type
        row, column = k.cast(k.lane, type_), k.cast(k.warp, type_)
        steps = list(product(range(0, spec.width, NUM_WARPS), range(0, spec.height, WARP)))
        for i, tile in self.staged.items():
            start = corner.inputs[i].moved(self.row_loop, row).moved(self.column_loop, column)
            length = pitch(spec.height, tile.type)
            to = tile.at(k.warp * length + k.lane)
            with k.when(is_full):
                loaded = [start.moved(self.column_loop, c).moved(self.row_loop, r).load(1) for c, r in steps]
                for (c, r), values in zip(steps, loaded, strict=True):
                    to.store(c * length + r, values)
            with (
                k.otherwise(),
                k.range(column, k.min(columns_left, spec.width), NUM_WARPS) as this_column,
                k.range(row, k.min(rows_left, spec.height), WARP) as this_row,
            ):
                across, down = this_column - column, this_row - row
                values = start.moved(self.column_loop, across).moved(self.row_loop, down).load(1)
                to.store(across * length + down, values)

    def load(self, place: Position, row: Value | int, column: Value | int) -> list[Sequence[Value]]:
        """Inputs at one of a thread's places, `row` rows and `column` columns from its first."""
        k, loaded = self.k, []
        for i, spot in enumerate(place.inputs):
            tile = self.staged.get(i)
            if tile is None:
                loaded.append(spot.load(self.spec.vector))
            else:
                length = pitch(self.spec.height, tile.type)
                loaded.append(tile.at(k.lane * length + k.warp).at(column * length).load(row))
        return loaded


def geometry(spec: TileSpec, nest: Nest) -> tuple[Grid, tuple[int, ...]]:
    """Return grid and constants for a nest, whose innermost extent is a multiple of `vector`."""
    bits = spec.chain.index_bits
    *outer, num_rows, num_columns = nest.shape
    across, down = -(-num_columns // spec.width), -(-num_rows // spec.height)
    constants = (
        *spec.chain.constants(nest),
        num_columns,
        num_rows,
        *Divisor.constants(across, bits),
        *Divisor.constants(down, bits),
        *Splitter.constants(tuple(outer) or (1,), bits),
    )
    return (across * down * math.prod(outer), 1, 1), constants

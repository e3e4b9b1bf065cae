"""Tiles of a Hermitian matrix of which one triangle is read: each multiplied with a vector, and its adjoint as well.

What `tridiagonal_panel` multiplies A with v by, see there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from oxinp._kernels.gemm.multistage.warp_mma import multiply_add
from oxinp._kernels.lapack.resident import (
    BLOCK,
    NUM_WARPS,
    VECTOR_NBYTES,
    WARP,
    WIDTH,
    ResidentPanel,
    share_of,
)
from oxinp._ptx.types import Type, f32, i64, u32
from oxinp._ptx.warp import reduce as warp_reduce

if TYPE_CHECKING:
    from oxinp._ptx.memory import Pointer
    from oxinp._ptx.value import Value, Var

MAX_TILES = 16  # in a row of them
ROWS_AT_ONCE = {1: 8, 2: 8, 3: 6, 4: 5, 5: 4, 9: 2, 18: 1, 36: 1}
"""Rows of a tile that a warp has loads of at a time, by the loads of a row."""
LOOSE = 5  # of these loads, up to which sums of columns have room beside v
LAST = WIDTH - 1  # where v^H A v is told: of the panel's columns, at most so many are before the current one


class PanelSpec(NamedTuple):
    """One kernel of the family.

    Attributes
    ----------
    type : Type
    rows : int
        Most rows of the matrix, a power of two.
    height : int
        Most rows of a block.
    is_wide : bool
        Rows of A are multiples of 16 bytes, in which they are loaded.
    tiles : int
        Most tiles in a row.
    chunks : int
        Loads of a warp in which it has a row of a tile; of `ROWS_AT_ONCE`.
    kept : int
        Elements of a tile in shared memory: of its first rows.
    """

    type: Type
    rows: int
    height: int
    is_wide: bool = False
    tiles: int = 1
    chunks: int = 1
    kept: int = 0

    @property
    def share(self) -> int:
        """Lanes that have a row of the panel's columns together."""
        return share_of(self.height)

    @property
    def vector(self) -> int:
        """Elements of A in a load."""
        return VECTOR_NBYTES // self.type.nbytes if self.is_wide else 1

    @property
    def side(self) -> int:
        """Most columns of a tile."""
        return self.chunks * WARP * self.vector

    @property
    def is_tight(self) -> bool:
        """Sums of a tile's columns lie where v did."""
        return self.tiles > 1 and self.chunks > LOOSE

    @property
    def columns(self) -> int:
        """Sums of a tile's columns, of all warps; a tile alone lies on the diagonal, and has none."""
        return NUM_WARPS * self.side if self.tiles > 1 else 0

    @property
    def elements(self) -> int:
        """Of v, or of the sums of columns in its place."""
        return max(self.rows, self.columns) if self.is_tight else self.rows

    @property
    def shared_nbytes(self) -> int:
        """Of a block, and some more."""
        elements = self.elements + self.height * (2 * (WIDTH + 1) + 2) + 8 * WIDTH + NUM_WARPS * 2 * WIDTH
        elements += self.kept + (0 if self.is_tight else self.columns)
        return elements * self.type.nbytes + 1024


class TiledPanel(ResidentPanel):
    """A kernel while it is built.

    Attributes
    ----------
    spec : PanelSpec
    tiles, side : Value
        Tiles in a row, and rows of each.
    parts : Pointer
        What tiles give to rows of the product.
    kept_rows, columns : Pointer
        In shared memory: the first rows of this block's tile, and sums of its columns by warps.
    """

    spec: PanelSpec
    tiles: Value
    side: Value
    parts: Pointer
    kept_rows: Pointer
    columns: Pointer

    def find_tile(self) -> None:
        """Find this block's tile, one of those above the diagonal or on it, by columns; an empty one, if any."""
        k = self.k
        root = k.sqrt(k.cast(self.rank * 8 + 1, f32))
        self.tile_column = k.cast((root - 1) * 0.5, u32)
        self.tile_row = self.rank - self.tile_column * (self.tile_column + 1) / 2
        self.is_above = self.tile_row < self.tile_column
        self.low = k.min(self.first + self.tile_row * self.side, self.order)
        self.left = k.min(self.first + self.tile_column * self.side, self.order)
        self.high = k.where(self.tile_column < self.tiles, k.min(self.low + self.side, self.order), self.low)
        self.across = k.where(
            self.tile_column < self.tiles, k.min(self.side, self.order - self.left), k.const(self.spec.vector, u32)
        )
        self.corner = self.a.at(k.cast(self.low, i64) * self.pitch + k.cast(self.left, i64))
        self.kept_to = k.min(self.low + k.const(self.spec.kept, u32) / self.side, self.high)
        # Lanes beyond the last column load it once more.
        vector = self.spec.vector
        self.places = [k.lane * vector + i * WARP * vector for i in range(self.spec.chunks)]
        self.held = [k.min(place, self.across - vector) for place in self.places]

    def keep_rows(self) -> None:
        """Put the first rows of this block's tile into shared memory."""
        k, spec = self.k, self.spec
        if not spec.kept:
            return
        with k.range(self.low + k.warp, self.kept_to, NUM_WARPS) as row:
            local = row - self.low
            line = self.corner.at(k.cast(local, i64) * self.pitch)
            for place, elements in zip(self.places, [line.load(x, spec.vector) for x in self.held], strict=True):
                with k.when(place < self.across):
                    self.kept_rows.store(local * self.side + place, elements)

    def multiply(self, j: Value) -> None:  # noqa: ARG002
        """Multiply this block's tile with v, and v^H with it; leave v^H A v by warps, and sums of columns too."""
        k, spec = self.k, self.spec
        quadratic = k.var(self.none)
        columns = [[k.var(self.zero) for _ in range(spec.vector)] for _ in range(spec.chunks)]
        if spec.kept:
            self.multiply_rows(self.low, self.kept_to, self.kept_rows, columns, quadratic)
        self.multiply_rows(self.kept_to, self.high, None, columns, quadratic)
        k.warp_sync()
        factor = k.where(self.is_above, k.const(2, self.real), k.const(1, self.real))
        with k.when(k.lane == 0):
            self.partials[k.warp * (2 * WIDTH) + LAST] = self.whole(quadratic.get() * factor)
        if spec.columns:
            if spec.is_tight:
                k.barrier()
            for place, totals in zip(self.places, columns, strict=True):
                self.columns.store(k.warp * spec.side + place, [total.get() for total in totals])

    def multiply_rows(
        self, start: Value, stop: Value, held: Pointer | None, columns: list[list[Var]], quadratic: Var
    ) -> None:
        """Do so with some rows, of shared memory or of A."""
        k, spec = self.k, self.spec
        at_once, left = ROWS_AT_ONCE[spec.chunks], self.left - self.first
        parts = self.parts.at(k.cast((self.tile_row * self.tiles + self.tile_column) * self.side, i64))
        with k.range(start + k.warp * at_once, stop, NUM_WARPS * at_once) as row:
            rows = [k.min(row + i, stop - 1) if i else row for i in range(at_once)]
            if held is None:
                lines = [self.corner.at(k.cast(x - self.low, i64) * self.pitch) for x in rows]
            else:
                lines = [held.at((x - self.low) * self.side) for x in rows]
            own = [k.where(row + i < stop, self.x[x - self.first], self.zero) for i, x in enumerate(rows)]
            loaded = [[line.load(place, spec.vector) for line in lines] for place in self.held]
            sums = [[k.var(self.zero) for _ in range(spec.vector)] for _ in rows]
            for place, inside, elements, totals in zip(self.places, self.held, loaded, columns, strict=True):
                found = self.x.load(left + inside, spec.vector)
                factors = [k.where(place < self.across, x, self.zero) for x in found]
                for value, line_elements, line_sums in zip(own, elements, sums, strict=True):
                    for element, factor, line_sum, total in zip(line_elements, factors, line_sums, totals, strict=True):
                        line_sum.set(multiply_add(k, element, factor, line_sum.get()))
                        if spec.columns:
                            total.set(multiply_add(k, self.conjugate(element), value, total.get()))
            k.warp_sync()
            for i, (value, line_sums) in enumerate(zip(own, sums, strict=True)):
                both = line_sums[0].get()
                for line_sum in line_sums[1:]:
                    both = both + line_sum.get()
                whole = warp_reduce(k, both, lambda a, b: a + b)
                quadratic.set(self.inner(value, whole, quadratic.get()))
                with k.when((k.lane == 0) & (row + i < stop)):
                    parts[k.cast(row + i - self.low, i64)] = whole

    def tell_columns(self) -> None:
        """Tell the sums of this block's columns, after those of warps."""
        k, spec = self.k, self.spec
        parts = self.parts.at(k.cast((self.tile_column * self.tiles + self.tile_row) * self.side, i64))
        with k.when(self.is_above & (self.low < self.high)), k.range(k.tid + 0, self.across, BLOCK) as column:
            total = self.columns[column]
            for warp in range(1, NUM_WARPS):
                total = total + self.columns[column + warp * spec.side]
            parts[k.cast(column, i64)] = total

    def place_of(self, row: Value) -> Value:
        """Where the first of a row's parts is."""
        local = row - self.first
        tile = local / self.side
        return tile * (self.tiles - 1) * self.side + local

    def parts_of(self, place: Value) -> list[Value]:
        """Load an element of the product: what tiles have of it, by the lanes that share a row."""
        k = self.k
        return [self.parts[k.cast(place + k.min(x, self.tiles - 1) * self.side, i64)] for x in self.sharers()]

    def sharers(self) -> list[Value]:
        """Numbers of the tiles of which this lane has parts."""
        share = min(self.spec.share, self.spec.tiles)
        return [self.k.tid % share + start for start in range(0, self.spec.tiles, share)]

    def whole_of(self, parts: list[Value]) -> Value:
        """Add up what `parts_of` loaded."""
        k, total = self.k, self.zero
        for tile, part in zip(self.sharers(), parts, strict=True):
            total = total + k.where(tile < self.tiles, part, self.zero)
        return warp_reduce(k, total, lambda a, b: a + b, min(self.spec.share, self.spec.tiles))


__all__ = ["LAST", "MAX_TILES", "ROWS_AT_ONCE", "PanelSpec", "TiledPanel"]

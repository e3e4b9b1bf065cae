"""Warp MMA of the multistage kernels: multiply-adds of any type; tensor cores for f64 (DMMA) and 16-bit floats (HMMA).

A `WarpMma` is made for a warp's tile of C. It reads the operands' tiles from shared memory, a step of K at a time, and
holds the accumulators in registers.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Protocol

from oxinp._kernels.gemm.multistage.spec import MMA_SHAPES, WARP
from oxinp._ptx.mma import load_matrices, multiply, multiply_f64
from oxinp._ptx.types import u32

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from oxinp._kernels.gemm.multistage.panel import Panel
    from oxinp._kernels.gemm.multistage.spec import MultistageSpec
    from oxinp._ptx import Builder
    from oxinp._ptx.memory import Pointer
    from oxinp._ptx.value import Value, Var

Row = tuple[Any, list[tuple[Any, list[Any]]]]
VECTOR_NBYTES, MAX_VECTOR = 16, 4  # bytes and elements of a lane's loads, at most


class WarpMma(Protocol):
    """A warp's tile of C, and the instructions that add products to it.

    Attributes
    ----------
    height, width, step : int
        See `MmaShape`.
    """

    height: int
    width: int
    step: int

    @classmethod
    def num_held(cls, spec: MultistageSpec) -> int:
        """Return about how many elements of the operands a lane holds at a time."""

    def begin(self, stage: Value) -> None:
        """Prepare for the first k-block, which is in this buffer of the ring."""

    def multiply(self, stage: Var, advance: Callable[[], None]) -> None:
        """Add the products of the k-block in a buffer of the ring.

        `advance` waits for the next k-block and sets `stage` to its buffer; it is called once this one has been read.
        """

    def promote(self) -> None:
        """Add the accumulators to the totals, and clear them; only if the Spec has a promotion."""

    def rows(self) -> Iterator[Row]:
        """Yield what a lane holds of each row of C: the row and (first column, values), relative to the warp's tile.

        With a promotion, the values are the totals.
        """


class _Side:
    """A lane's fragment of one operand of `FmaWarpMma`: `count` of M or N, by vectors along the tile's contiguous axis.

    Attributes
    ----------
    along_depth : int
        Elements of K per vector; 1 where vectors go along M or N.
    groups : list of (int, int)
        Per vector along M or N: its distance from the lane's first element, and its length.
    """

    def __init__(self, k: Builder, panel: Panel, start: Value, lane: Value, lanes: int, count: int, depth: int) -> None:
        self.panel = panel
        vector = max(1, min(VECTOR_NBYTES // panel.spec.type.nbytes, MAX_VECTOR))
        if panel.is_k_major:
            self.along_depth, along = math.gcd(vector, depth), 1
        else:
            self.along_depth, along = 1, math.gcd(vector, count)
        self.groups = [(lanes * i, along) for i in range(0, count, along)]
        self.first = lane * along if along > 1 else lane
        self.place = panel.place(start + self.first, k.const(0, u32))

    def load(self, memory: Pointer, step: int, width: int) -> list[tuple[Value, ...]]:
        """Return the elements of `width` steps of K from `step` on: by M or N, then by K."""
        panel = self.panel
        if panel.is_k_major:
            return [memory.at(panel.offset(extent, step)).load(0, width) for extent, _ in self.groups]
        steps = [
            [
                value
                for extent, count in self.groups
                for value in memory.at(panel.offset(extent, step + i)).load(0, count)
            ]
            for i in range(width)
        ]
        return list(zip(*steps, strict=True))


class FmaWarpMma:
    """Multiply-adds by lanes as 4 x 8, each with vectors of rows and of columns.

    Neighbouring lanes share their rows, lanes two apart their columns: half a warp loads from shared memory at once.
    """

    height, width, step = MMA_SHAPES["fma"][1:4]

    def __init__(self, k: Builder, spec: MultistageSpec, a: Panel, b: Panel, row: Value, column: Value) -> None:
        self.k, self.spec = k, spec
        num_rows, num_columns = spec.warp_m // self.height, spec.warp_n // self.width
        lane_row, lane_column = (k.lane >> 1) & 3, (k.lane & 1) | (k.lane >> 3 << 1)
        self.a = _Side(k, a, row, lane_row, self.height, num_rows, spec.depth)
        self.b = _Side(k, b, column, lane_column, self.width, num_columns, spec.depth)
        start = k.const(0, spec.acc)
        self.sums = [[k.var(start) for _ in range(num_columns)] for _ in range(num_rows)]
        self.depth = max(self.a.along_depth, self.b.along_depth)
        self.vector = VECTOR_NBYTES // spec.acc.nbytes
        # With a promotion: places of the totals in shared memory, with the accumulators that are added there.
        self.totals: list[tuple[Pointer, list[Var]]] = []
        if spec.promotion:
            memory = k.dynamic_shared(spec.acc, (spec.tile_m * spec.tile_n,), align=VECTOR_NBYTES)
            flat = [total for line in self.sums for total in line]
            width = math.gcd(self.vector, len(flat))  # of small warp tiles lanes have less than a vector
            for i in range(0, len(flat), width):
                self.totals.append((memory.at(k.tid * width + i * spec.num_threads), flat[i : i + width]))

    @classmethod
    def num_held(cls, spec: MultistageSpec) -> int:
        """Return about how many elements of the operands a lane holds at a time."""
        return spec.warp_m // cls.height + spec.warp_n // cls.width

    def begin(self, stage: Value) -> None:
        """Clear the totals."""
        del stage
        zero = self.k.const(0, self.spec.acc)
        for place, sums in self.totals:
            place.store(0, [zero] * len(sums))

    def promote(self) -> None:
        """Add the accumulators to the totals, and clear them."""
        zero = self.k.const(0, self.spec.acc)
        for place, sums in self.totals:
            place.store(0, [total + own for total, own in zip(place.load(0, len(sums)), sums, strict=True)])
            for own in sums:
                own.set(zero)

    def multiply(self, stage: Var, advance: Callable[[], None]) -> None:
        """Add the products of the k-block in a buffer of the ring."""
        k, acc = self.k, self.spec.acc
        left, right = (side.place.at(stage * side.panel.size) for side in (self.a, self.b))
        for start in range(0, self.spec.depth, self.depth):
            x, y = self.a.load(left, start, self.depth), self.b.load(right, start, self.depth)
            for step in range(self.depth):
                rows, columns = ([k.cast(line[step], acc) for line in side] for side in (x, y))
                for i, (value, line) in enumerate(zip(rows, self.sums, strict=True)):
                    # Back and forth: the column that was used last is used first again.
                    pairs = list(zip(columns, line, strict=True))
                    for other, total in reversed(pairs) if i % 2 else pairs:
                        total.set(multiply_add(k, value, other, total))
        advance()

    def rows(self) -> Iterator[Row]:
        """Yield what a lane holds of each row of C."""
        for place, sums in self.totals:
            for own, total in zip(sums, place.load(0, len(sums)), strict=True):
                own.set(total)
        lines = iter(self.sums)
        for extent, count in self.a.groups:
            for i in range(count):
                totals = [total.get() for total in next(lines)]
                cells = []
                for shift, width in self.b.groups:
                    cells.append((self.b.first + shift, totals[:width]))
                    totals = totals[width:]
                yield self.a.first + (extent + i), cells


def multiply_add(k: Builder, a: Value, b: Value, c: Value) -> Value:
    """``a * b + c``: of floats rounded once, of complex numbers once per part and product."""
    if a.type.is_complex:
        (x, y), (u, v), (real, imag) = a.parts, b.parts, c.parts
        return k.compound(a.type, k.fma(-y, v, k.fma(x, u, real)), k.fma(y, u, k.fma(x, v, imag)))
    value: Value = k.fma(a, b, c) if a.type.is_float else k.mad(a, b, c)
    return value


class DmmaWarpMma:
    """DMMA m16n8k8; lane l holds row l / 4 and columns 2 (l % 4) of every 8 x 8.

    A complex product is four real products of the parts.
    """

    height, width, step = MMA_SHAPES["dmma"][1:4]

    def __init__(self, k: Builder, spec: MultistageSpec, a: Panel, b: Panel, row: Value, column: Value) -> None:
        self.k, self.spec, self.panels = k, spec, (a, b)
        self.high, self.low = k.lane >> 2, k.lane & 3
        self.places = a.place(row + self.high, self.low), b.place(column + self.high, self.low)
        num_rows, num_columns = spec.warp_m // self.height, spec.warp_n // 8
        start = k.const(0, spec.acc)
        num_sums = self.height * 8 // 32
        self.sums = [[[k.var(start) for _ in range(num_sums)] for _ in range(num_columns)] for _ in range(num_rows)]

    @classmethod
    def num_held(cls, spec: MultistageSpec) -> int:
        """Return about how many elements of the operands a lane holds; more, as seen, where both are K-major."""
        held = (spec.warp_m * cls.width + spec.warp_n * cls.height) // WARP
        return held + (spec.warp_n // 16 if spec.a_major == spec.b_major == "k" else 0)

    def fragments(self, stage: Value, step: int) -> tuple[list[list[Value]], list[list[Value]]]:
        """Return the fragments of one step: of A by rows, of B by columns."""
        a, b = self.panels
        left, right = (place.at(stage * panel.size) for place, panel in zip(self.places, self.panels, strict=True))
        halves = [(8 * i, 4 * j) for j in range(self.step // 4) for i in range(self.height // 8)]
        x = [
            [left[a.offset(self.height * i + extent, step + depth)] for extent, depth in halves]
            for i in range(len(self.sums))
        ]
        y = [
            [right[b.offset(8 * j, step + depth)] for depth in range(0, self.step, 4)] for j in range(len(self.sums[0]))
        ]
        return x, y

    def begin(self, stage: Value) -> None:
        """Load the first fragments."""
        self.held = [[[self.k.var(value) for value in line] for line in side] for side in self.fragments(stage, 0)]

    def multiply(self, stage: Var, advance: Callable[[], None]) -> None:
        """Add the products of the k-block in a buffer of the ring; fragments are loaded a step ahead."""
        here = stage.get()
        following: Any = [[[var.get() for var in line] for line in side] for side in self.held]
        for step in range(0, self.spec.depth, self.step):
            x, y = following
            if step + self.step < self.spec.depth:
                following = self.fragments(here, step + self.step)
            else:
                advance()
                following = self.fragments(stage.get(), 0)
            for left, line in zip(x, self.sums, strict=True):
                for factor, part, into in _terms(left):
                    for right, totals in zip(y, line, strict=True):
                        sums: Any = [total.parts[into] for total in totals]
                        values = self.product(factor, [value.parts[part] for value in right], sums)
                        for total, value in zip(sums, values, strict=True):
                            total.set(value)
        for side, held in zip(following, self.held, strict=True):
            for values, variables in zip(side, held, strict=True):
                for value, variable in zip(values, variables, strict=True):
                    variable.set(value)

    def product(self, left: list[Value], right: list[Value], totals: list[Var]) -> Sequence[Value]:
        """Return the accumulators with one more product."""
        return multiply_f64(self.k, left, right, totals)

    def rows(self) -> Iterator[Row]:
        """Yield what a lane holds of each row of C."""
        for i, line in enumerate(self.sums):
            for half in range(self.height // 8):
                cells = [
                    (self.low * 2 + 8 * j, [total.get() for total in totals[2 * half : 2 * half + 2]])
                    for j, totals in enumerate(line)
                ]
                yield self.high + (self.height * i + 8 * half), cells


def _terms(left: list[Value]) -> list[tuple[list[Value], int, int]]:
    """The real products of which a complex one consists: left factors, part of the right operand, part of the sums."""
    if not left[0].type.is_complex:
        return [(left, 0, 0)]
    real, imag = ([value.parts[part] for value in left] for part in range(2))
    return [(real, 0, 0), (real, 1, 1), ([-value for value in imag], 1, 0), (imag, 0, 1)]


class DmmaK4WarpMma(DmmaWarpMma):
    """DMMA m16n8k4: fragments take half as many registers."""

    step = MMA_SHAPES["dmma_k4"].step

    @classmethod
    def num_held(cls, spec: MultistageSpec) -> int:
        """Return about how many elements of the operands a lane holds."""
        return super().num_held(spec) // 2


class DmmaSm80WarpMma(DmmaWarpMma):
    """DMMA m8n8k4, which sm_80 has."""

    height, width, step = MMA_SHAPES["dmma_sm80"][1:4]


class HmmaWarpMma(DmmaWarpMma):
    """HMMA m16n8k16 of f16 or bf16 with f32 accumulators; fragments come by ldmatrix, 16 columns at a time."""

    height, width, step = MMA_SHAPES["hmma"][1:4]

    def __init__(self, k: Builder, spec: MultistageSpec, a: Panel, b: Panel, row: Value, column: Value) -> None:
        super().__init__(k, spec, a, b, row, column)
        # The ldmatrix row whose address this lane gives; lanes 8 to 15: further down in A, further along K in B.
        nearby, middle, far = k.lane & 7, (k.lane >> 3 & 1) * 8, (k.lane >> 4) * 8
        self.places = (
            a.place(row + middle + nearby, far) if a.is_k_major else a.place(row + middle, far + nearby),
            b.place(column + far + nearby, middle) if b.is_k_major else b.place(column + far, middle + nearby),
        )

    def fragments(self, stage: Value, step: int) -> tuple[list[list[Value]], list[list[Value]]]:
        """Return the fragments of one step: of A by rows, of B by columns."""
        counts = self.spec.warp_m // 16, self.spec.warp_n // 16
        x, y = (
            [
                list(
                    load_matrices(
                        self.k,
                        place.at(stage * panel.size).at(panel.offset(16 * i, step)).address(),
                        is_transposed=not panel.is_k_major,
                    )
                )
                for i in range(count)
            ]
            for panel, place, count in zip(self.panels, self.places, counts, strict=True)
        )
        return x, [words[start : start + 2] for words in y for start in (0, 2)]

    def product(self, left: list[Value], right: list[Value], totals: list[Var]) -> Sequence[Value]:
        """Return the accumulators with one more product."""
        return multiply(self.k, self.spec.type, left, right, totals)


WARP_MMAS: dict[str, Any] = {
    "fma": FmaWarpMma,
    "dmma": DmmaWarpMma,
    "dmma_k4": DmmaK4WarpMma,
    "dmma_sm80": DmmaSm80WarpMma,
    "hmma": HmmaWarpMma,
}

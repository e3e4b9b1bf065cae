"""What multiplies the tiles of `multistage`: fused multiply-adds of any type, or the tensor cores' f64 and halves.

A unit is made for a warp's part of C. It reads the operands' tiles from shared memory, `STEP` of K at a time, and holds
the sums in registers.
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
VECTOR_NBYTES, MAX_VECTOR = 16, 4  # of a lane's loads


class WarpMma(Protocol):
    """A warp's part of C.

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
        """Elements of the operands that a lane holds at a time, about."""

    def begin(self, stage: Value) -> None:
        """Prepare for the tiles in a buffer of the ring, the first ones."""

    def multiply(self, stage: Var, advance: Callable[[], None]) -> None:
        """Add the products of the tiles in a buffer of the ring.

        `advance` waits for the next tiles and lets `stage` be theirs; it is called when nothing more of the present
        ones will be read.
        """

    def promote(self) -> None:
        """Add the sums to the totals, and begin anew; only if the Spec says so."""

    def rows(self) -> Iterator[Row]:
        """Yield what a lane holds of a row of C: the row, and columns with values from there on, from the warp's.

        If there are totals, those; they are what a lane added itself.
        """


class _Side:
    """What a lane holds of one operand of `FmaWarpMma`: `count` of M or N, from vectors along its contiguous axis.

    Attributes
    ----------
    along_depth : int
        Of K per vector, 1 where vectors go along M or N.
    groups : list of (int, int)
        Of M or N: how far from the lane's first one each vector begins, and how many it has.
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
        """What `width` steps of K from `step` on need: by M or N, then by K."""
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
    """Multiply-adds: lanes as 4 x 8, each with vectors of rows and of columns.

    Lanes next to each other share their rows, those two apart their columns: the loads of half a warp are one.
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
        # Where totals lie, if there are any, and the sums that belong there.
        self.totals: list[tuple[Pointer, list[Var]]] = []
        if spec.promotion:
            memory = k.dynamic_shared(spec.acc, (spec.tile_m * spec.tile_n,), align=VECTOR_NBYTES)
            width = VECTOR_NBYTES // spec.acc.nbytes
            flat = [total for line in self.sums for total in line]
            for i in range(0, len(flat), width):
                self.totals.append((memory.at(k.tid * width + i * spec.num_threads), flat[i : i + width]))

    @classmethod
    def num_held(cls, spec: MultistageSpec) -> int:
        """Elements of the operands that a lane holds at a time, about."""
        return spec.warp_m // cls.height + spec.warp_n // cls.width

    def begin(self, stage: Value) -> None:
        """Begin with totals of zero."""
        del stage
        zero = self.k.const(0, self.spec.acc)
        for place, sums in self.totals:
            place.store(0, [zero] * len(sums))

    def promote(self) -> None:
        """Add the sums to the totals, and begin anew."""
        zero = self.k.const(0, self.spec.acc)
        for place, sums in self.totals:
            place.store(0, [total + own for total, own in zip(place.load(0, len(sums)), sums, strict=True)])
            for own in sums:
                own.set(zero)

    def multiply(self, stage: Var, advance: Callable[[], None]) -> None:
        """Add the products of the tiles in a buffer of the ring."""
        k, acc = self.k, self.spec.acc
        left, right = (side.place.at(stage * side.panel.size) for side in (self.a, self.b))
        for start in range(0, self.spec.depth, self.depth):
            x, y = self.a.load(left, start, self.depth), self.b.load(right, start, self.depth)
            for step in range(self.depth):
                rows, columns = ([k.cast(line[step], acc) for line in side] for side in (x, y))
                for i, (value, line) in enumerate(zip(rows, self.sums, strict=True)):
                    # There and back: what was read last is read first again.
                    pairs = list(zip(columns, line, strict=True))
                    for other, total in reversed(pairs) if i % 2 else pairs:
                        total.set(multiply_add(k, value, other, total))
        advance()

    def rows(self) -> Iterator[Row]:
        """Yield what a lane holds of each row."""
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
    """Tensor cores' f64, 16 x 8 x 8; lane l holds rows l / 4 and columns 2 (l % 4).

    Complex numbers are multiplied as four products of their parts.
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
        """Elements of the operands that a lane holds at a time, some more where both run along K: as seen."""
        held = (spec.warp_m * cls.width + spec.warp_n * cls.height) // WARP
        return held + (spec.warp_n // 16 if spec.a_major == spec.b_major == "k" else 0)

    def fragments(self, stage: Value, step: int) -> tuple[list[list[Value]], list[list[Value]]]:
        """What the lane feeds in for one step: of A by rows, of B by columns."""
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
        """Add the products of the tiles in a buffer of the ring; fragments are loaded a step ahead."""
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
        """The sums with one more product."""
        return multiply_f64(self.k, left, right, totals)

    def rows(self) -> Iterator[Row]:
        """Yield what a lane holds of each row."""
        for i, line in enumerate(self.sums):
            for half in range(self.height // 8):
                cells = [
                    (self.low * 2 + 8 * j, [total.get() for total in totals[2 * half : 2 * half + 2]])
                    for j, totals in enumerate(line)
                ]
                yield self.high + (self.height * i + 8 * half), cells


def _terms(left: list[Value]) -> list[tuple[list[Value], int, int]]:
    """Real products that make one: factors, part of the other operand, part of the sums."""
    if not left[0].type.is_complex:
        return [(left, 0, 0)]
    real, imag = ([value.parts[part] for value in left] for part in range(2))
    return [(real, 0, 0), (real, 1, 1), ([-value for value in imag], 1, 0), (imag, 0, 1)]


class DmmaK4WarpMma(DmmaWarpMma):
    """The tensor cores' f64, 16 x 8 x 4: half as many registers for what is multiplied."""

    step = MMA_SHAPES["dmma_k4"].step

    @classmethod
    def num_held(cls, spec: MultistageSpec) -> int:
        """Elements of the operands that a lane holds at a time."""
        return super().num_held(spec) // 2


class DmmaSm80WarpMma(DmmaWarpMma):
    """The tensor cores' f64 of sm_80, 8 x 8 x 4."""

    height, width, step = MMA_SHAPES["dmma_sm80"][1:4]


class HmmaWarpMma(DmmaWarpMma):
    """The tensor cores' halves with f32 sums, 16 x 8 x 16, from ldmatrix, which takes 16 columns of C at a time."""

    height, width, step = MMA_SHAPES["hmma"][1:4]

    def __init__(self, k: Builder, spec: MultistageSpec, a: Panel, b: Panel, row: Value, column: Value) -> None:
        super().__init__(k, spec, a, b, row, column)
        # The row of a matrix that this lane names; lanes 8 to 15 name those below in A, those further along K in B.
        nearby, middle, far = k.lane & 7, (k.lane >> 3 & 1) * 8, (k.lane >> 4) * 8
        self.places = (
            a.place(row + middle + nearby, far) if a.is_k_major else a.place(row + middle, far + nearby),
            b.place(column + far + nearby, middle) if b.is_k_major else b.place(column + far, middle + nearby),
        )

    def fragments(self, stage: Value, step: int) -> tuple[list[list[Value]], list[list[Value]]]:
        """What the lane feeds in for one step: of A by rows, of B by columns."""
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
        """The sums with one more product."""
        return multiply(self.k, self.spec.type, left, right, totals)


WARP_MMAS: dict[str, Any] = {
    "fma": FmaWarpMma,
    "dmma": DmmaWarpMma,
    "dmma_k4": DmmaK4WarpMma,
    "dmma_sm80": DmmaSm80WarpMma,
    "hmma": HmmaWarpMma,
}

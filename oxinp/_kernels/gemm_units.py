"""What multiplies the tiles of `gemm_any`: fused multiply-adds of any type, or the tensor cores' f64 and halves.

A unit is made for a warp's part of C. It reads the operands' tiles from shared memory, `STEP` of K at a time, and holds
the sums in registers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from oxinp._ptx.mma import load_matrices, multiply, multiply_f64

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from oxinp._kernels.gemm_any import AnyGemmSpec
    from oxinp._kernels.gemm_panel import Panel
    from oxinp._ptx import Builder
    from oxinp._ptx.value import Value, Var

Row = tuple[Any, list[tuple[Any, list[Any]]]]


class Unit(Protocol):
    """A warp's part of C.

    Attributes
    ----------
    target : str
        PTX target that it needs.
    pad_nbytes : int
        What rows of tiles are padded by, so that the lanes read different banks.
    height, width, step : int
        Rows and columns of C that one instruction of the warp computes, and how far along K.
    """

    target: str
    pad_nbytes: int
    height: int
    width: int
    step: int

    def begin(self, stage: Value) -> None:
        """Prepare for the tiles in a buffer of the ring, the first ones."""

    def multiply(self, stage: Var, advance: Callable[[], None]) -> None:
        """Add the products of the tiles in a buffer of the ring.

        `advance` waits for the next tiles and lets `stage` be theirs; it is called when nothing more of the present
        ones will be read.
        """

    def rows(self) -> Iterator[Row]:
        """Yield what a lane holds of a row of C: the row, and columns with values from there on, from the warp's."""


class FmaUnit:
    """Multiply-adds: lanes as 4 x 8, each every fourth row and every eighth column."""

    target = "sm_80"
    pad_nbytes = 16
    height, width, step = 4, 8, 1

    def __init__(self, k: Builder, spec: AnyGemmSpec, a: Panel, b: Panel, row: Value, column: Value) -> None:
        self.k, self.spec, self.panels = k, spec, (a, b)
        lane_row, lane_column = k.lane / self.width, k.lane % self.width
        self.lane = lane_row, lane_column
        zero = k.cast(lane_row, lane_row.type) & 0
        self.places = a.place(row + lane_row, zero), b.place(column + lane_column, zero)
        num_rows, num_columns = spec.warp_m // self.height, spec.warp_n // self.width
        start = k.const(0, spec.acc)
        self.sums = [[k.var(start) for _ in range(num_columns)] for _ in range(num_rows)]

    def begin(self, stage: Value) -> None:
        """Nothing is prepared."""

    def multiply(self, stage: Var, advance: Callable[[], None]) -> None:
        """Add the products of the tiles in a buffer of the ring."""
        k, acc = self.k, self.spec.acc
        a, b = self.panels
        left, right = (place.at(stage * panel.size) for place, panel in zip(self.places, self.panels, strict=True))
        for step in range(self.spec.depth):
            x = [k.cast(left[a.offset(self.height * i, step)], acc) for i in range(len(self.sums))]
            y = [k.cast(right[b.offset(self.width * j, step)], acc) for j in range(len(self.sums[0]))]
            for value, line in zip(x, self.sums, strict=True):
                for other, total in zip(y, line, strict=True):
                    total.set(multiply_add(k, value, other, total))
        advance()

    def rows(self) -> Iterator[Row]:
        """Yield what a lane holds of each row."""
        row, column = self.lane
        for i, line in enumerate(self.sums):
            cells = [(column + self.width * j, [total.get()]) for j, total in enumerate(line)]
            yield row + self.height * i, cells


def multiply_add(k: Builder, a: Value, b: Value, c: Value) -> Value:
    """``a * b + c``: of floats rounded once, of complex numbers once per part and product."""
    if a.type.is_complex:
        (x, y), (u, v), (real, imag) = a.parts, b.parts, c.parts
        return k.compound(a.type, k.fma(-y, v, k.fma(x, u, real)), k.fma(y, u, k.fma(x, v, imag)))
    value: Value = k.fma(a, b, c) if a.type.is_float else k.mad(a, b, c)
    return value


class TensorUnit:
    """Tensor cores' f64: 16 x 8 x 8 (sm_90) or 8 x 8 x 4 (sm_80); lane l holds rows l / 4 and columns 2 (l % 4)."""

    height, width, step = 16, 8, 8
    target = "sm_90"
    pad_nbytes = 32

    def __init__(self, k: Builder, spec: AnyGemmSpec, a: Panel, b: Panel, row: Value, column: Value) -> None:
        self.k, self.spec, self.panels = k, spec, (a, b)
        self.high, self.low = k.lane >> 2, k.lane & 3
        self.places = a.place(row + self.high, self.low), b.place(column + self.high, self.low)
        num_rows, num_columns = spec.warp_m // self.height, spec.warp_n // 8
        start = k.const(0, spec.acc)
        num_sums = self.height * 8 // 32
        self.sums = [[[k.var(start) for _ in range(num_sums)] for _ in range(num_columns)] for _ in range(num_rows)]

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
                for right, totals in zip(y, line, strict=True):
                    for total, value in zip(totals, self.product(left, right, totals), strict=True):
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


class SmallTensorUnit(TensorUnit):
    """The tensor cores' f64 of sm_80."""

    height, width, step = 8, 8, 4
    target = "sm_80"


class HalfTensorUnit(TensorUnit):
    """The tensor cores' halves with f32 sums, 16 x 8 x 16, from ldmatrix, which takes 16 columns of C at a time."""

    height, width, step = 16, 16, 16
    target = "sm_80"
    pad_nbytes = 16  # the 16-byte rows of a matrix then lie on different banks

    def __init__(self, k: Builder, spec: AnyGemmSpec, a: Panel, b: Panel, row: Value, column: Value) -> None:
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


UNITS: dict[str, Any] = {
    "fma": FmaUnit,
    "tensor": TensorUnit,
    "tensor_sm80": SmallTensorUnit,
    "tensor_halves": HalfTensorUnit,
}

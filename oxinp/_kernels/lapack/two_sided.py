"""Matrices multiplied in place by a small unitary matrix, from the left on some rows and from the right as columns.

H, of which rows and columns `low` to `high` are transformed by U, has beside that window the same rows to its right, to
be multiplied by U^H, and the same columns above it, to be multiplied by U, as those of Z are.

Data layout: H and Z row by row; U (size, size); `span`, the window's first row and how many it has; `bounds`, the first
row and the last column that are transformed.

Who owns what: a block has `LANES` columns right of the window, or rows above it, or rows of Z, and no other block
touches these; they lie in shared memory, transposed where they are rows. A warp has every eighth of what they become, a
lane one of them.

Flops: 2 size per element that is written.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from oxinp._kernels.gemm.multistage.warp_mma import multiply_add
from oxinp._kernels.problem import MAX_KERNELS
from oxinp._ptx import Builder, Kernel
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.types import Type, i32, i64

if TYPE_CHECKING:
    from oxinp._ptx.memory import Pointer
    from oxinp._ptx.value import Value

BLOCK, LANES = 256, 32
NUM_WARPS = BLOCK // LANES


class TwoSidedSpec(NamedTuple):
    """One kernel of the family.

    Attributes
    ----------
    type : Type
    size : int
        Most rows of U, a multiple of `NUM_WARPS`, and the rows that it is stored with.
    """

    type: Type
    size: int

    @property
    def shared_nbytes(self) -> int:
        """Of a block."""
        return self.size * (LANES + 1) * self.type.nbytes


@lru_cache(MAX_KERNELS)
@retraceable
def make(spec: TwoSidedSpec) -> Kernel:
    """The kernel of a Spec: of the grid a third each, or half, is for rows, for columns, and for Z."""
    return _Multiply(spec).build()


class _Multiply:
    """The kernel while it is built."""

    def __init__(self, spec: TwoSidedSpec) -> None:
        self.spec, self.type = spec, spec.type
        self.k = k = Builder("two_sided", block=BLOCK, target="sm_80")
        type_ = spec.type
        self.h, self.z, self.u = k.pointer("h", type_), k.pointer("z", type_), k.pointer("u", type_, "r")
        self.span, self.bounds = k.pointer("span", i32, "r"), k.pointer("bounds", i32, "r")
        self.order, self.tiles = k.scalar("order", i32), k.scalar("tiles", i32)
        self.x = k.dynamic_shared(type_, spec.size * (LANES + 1))

    def build(self) -> Kernel:
        k = self.k
        low, size = self.span[0], self.span[1]
        first, last = self.bounds[0], self.bounds[1]
        number = k.cast(k.ctaid, i32)
        part = number / self.tiles
        start = (number - part * self.tiles) * LANES
        pitch = k.cast(self.order, i64)
        wide, none = k.cast(low, i64), k.const(0, i32)
        with k.when((size > 0) & (part == 0)):
            rows = self.h.at(wide * pitch)
            self.multiply(rows, size, start, (low + size, last + 1), is_left=True)
        with k.when((size > 0) & (part == 1)):
            self.multiply(self.h.at(wide), size, start, (first, low), is_left=False)
        with k.when((size > 0) & (part == 2)):
            self.multiply(self.z.at(wide), size, start, (none, self.order), is_left=False)
        return k.build()

    def multiply(self, base: Pointer, size: Value, start: Value, limits: tuple[Value, Value], *, is_left: bool) -> None:
        """Multiply columns, or rows, from `start` on, as far as they are within limits."""
        k, spec = self.k, self.spec
        low, end = limits
        pitch = k.cast(self.order, i64)
        lane, warp = k.cast(k.lane, i32), k.cast(k.warp, i32)
        share = spec.size // NUM_WARPS
        with k.when((start < end) & (start + LANES > low)):
            # Consecutive lanes load consecutive elements: of a row of H, or of U's index.
            with k.range(k.cast(k.tid, i32), size * LANES if is_left else spec.size * LANES, BLOCK) as place:
                if is_left:
                    term = place / LANES
                    own = place - term * LANES
                    at = k.cast(term, i64) * pitch + k.cast(start + own, i64)
                else:
                    own = place / spec.size
                    term = place - own * spec.size
                    at = k.cast(start + own, i64) * pitch + k.cast(term, i64)
                with k.when((term < size) & (start + own >= low) & (start + own < end)):
                    self.x[term * (LANES + 1) + own] = base[at]
            k.barrier()
            is_mine = (start + lane >= low) & (start + lane < end)
            sums = [k.var(k.const(0, self.type)) for _ in range(share)]
            with k.when(is_mine):
                with k.range(k.const(0, i32), size) as term:
                    value = self.x[term * (LANES + 1) + lane]
                    factors = [self.u[k.cast(term * spec.size + warp * share + i, i64)] for i in range(share)]
                    for total, factor in zip(sums, factors, strict=True):
                        other = self.conjugate(factor) if is_left else factor
                        total.set(multiply_add(k, value, other, total.get()))
                for i, total in enumerate(sums):
                    column = warp * share + i
                    with k.when(column < size):
                        if is_left:
                            at = k.cast(column, i64) * pitch + k.cast(start + lane, i64)
                        else:
                            at = k.cast(start + lane, i64) * pitch + k.cast(column, i64)
                        base[at] = total.get()

    def conjugate(self, x: Value) -> Value:
        """The conjugate of complex values."""
        return self.k.compound(self.type, x.parts[0], -x.parts[1]) if self.type.is_complex else x


@lru_cache(MAX_KERNELS)
@retraceable
def make_window(type: Type, size: int) -> Kernel:
    """The kernel that writes a window of H, rows `span` by as many columns, and the element left of its first row.

    The window's rows follow each other, `size` elements each; the one element follows.
    """
    k = Builder("hessenberg_window", block=BLOCK, target="sm_80")
    h, window, span = k.pointer("h", type, "w"), k.pointer("window", type, "r"), k.pointer("span", i32, "r")
    order = k.scalar("order", i64)
    low, rows = k.cast(span[0], i64), span[1]
    with k.range(k.cast(k.tid, i32), size * size, BLOCK) as place:
        row = place / size
        column = place - row * size
        with k.when((row < rows) & (column < rows)):
            h[(low + k.cast(row, i64)) * order + low + k.cast(column, i64)] = window[k.cast(place, i64)]
    with k.when((k.tid == 0) & (low > 0)):
        h[low * order + low - 1] = window[size * size]
    return k.build()


__all__ = ["LANES", "NUM_WARPS", "TwoSidedSpec", "make", "make_window"]

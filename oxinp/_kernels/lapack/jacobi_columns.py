"""Small matrices in shared memory, column by column, as Jacobi's method wants them: scaled, and shifted if Hermitian.

Data layout and who owns what: see `jacobi`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from oxinp._kernels.gemm.multistage.warp_mma import multiply_add
from oxinp._kernels.lapack.scaling import FORMATS, power, upper_bits
from oxinp._ptx import Builder
from oxinp._ptx.types import Type, i64, u32, u64
from oxinp._ptx.warp import reduce as warp_reduce

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from oxinp._ptx.memory import Pointer
    from oxinp._ptx.value import Value

LANES = {4: 2, 8: 4, 16: 2, 32: 2, 48: 4, 64: 4, 96: 8, 128: 8}
"""Lanes of a group, by the most rows and columns that a matrix may have; twice as many of wide elements."""
WIDE_NBYTES, WIDE_SIDE = 16, 32
BLOCK = 64  # threads of a block of several matrices
EIGEN, SINGULAR = "eigen", "singular"


class JacobiSpec(NamedTuple):
    """One kernel of the family.

    Attributes
    ----------
    type : Type
    side : int
        A key of `LANES`.
    what : str
        `EIGEN` or `SINGULAR`.
    has_vectors : bool
    """

    type: Type
    side: int
    what: str
    has_vectors: bool

    @property
    def lanes(self) -> int:
        """Of a group."""
        is_wide = self.type.nbytes >= WIDE_NBYTES and self.side >= WIDE_SIDE
        return LANES[self.side] * (2 if is_wide else 1)

    @property
    def threads(self) -> int:
        """Of a matrix."""
        return self.side // 2 * self.lanes

    @property
    def per_block(self) -> int:
        """Matrices of a block."""
        return max(1, BLOCK // self.threads if self.threads < WIDE_SIDE else 1)

    @property
    def pitch(self) -> int:
        """Elements from one column to the next."""
        return self.side + self.lanes

    @property
    def has_right(self) -> bool:
        """Whether rotations are accumulated."""
        return self.has_vectors and self.what == SINGULAR

    @property
    def shared_nbytes(self) -> int:
        """Of a block, and some more."""
        columns = self.side + 1 + (self.side if self.has_right else 0)
        lists = (2 * self.type.parts[0].nbytes + 4) * self.side + 4 * self.threads
        return self.per_block * (columns * self.pitch * self.type.nbytes + lists + 64) + 128


class JacobiColumns:
    """A kernel while it is built.

    Parameters
    ----------
    spec : JacobiSpec
    """

    def __init__(self, spec: JacobiSpec) -> None:
        self.spec, self.type, self.real = spec, spec.type, spec.type.parts[0]
        block = spec.threads * spec.per_block
        self.k = k = Builder(f"jacobi_{spec.what}", block=block, target="sm_80", max_registers=min(255, 65536 // block))
        self.values, self.status = k.pointer("values", self.real, "w"), k.pointer("status", u64)
        self.left = k.pointer("left", spec.type, "w") if spec.has_vectors else None
        self.right = k.pointer("right", spec.type, "w") if spec.has_right else None
        self.a = k.pointer("a", spec.type, "r")
        self.rows, self.columns, self.padded, self.count = (
            k.scalar(name, u32) for name in ("rows", "columns", "padded", "count")
        )
        self.a_strides = [k.scalar(f"a_{name}", i64) for name in ("row", "column", "move")]
        self.out_strides = {
            side: [k.scalar(f"{side}_{name}", i64) for name in ("row", "column", "move")]
            for side, pointer in (("left", self.left), ("right", self.right))
            if pointer is not None
        }
        real, whole, per_block = self.real, (spec.side + 1) * spec.pitch, spec.per_block
        shared = k.dynamic_shared(spec.type, per_block * whole)
        turned = k.dynamic_shared(spec.type, per_block * spec.side * spec.pitch) if spec.has_right else None
        values, norms = (k.dynamic_shared(real, per_block * spec.side) for _ in range(2))
        order = k.dynamic_shared(u32, per_block * spec.side)
        words = k.dynamic_shared(u32, block)
        self.flags = k.dynamic_shared(u32, 2)
        segment = k.tid / spec.threads
        self.own = k.tid - segment * spec.threads
        self.slot, self.g = self.own / spec.lanes, self.own % spec.lanes
        self.number = k.ctaid * per_block + segment
        self.is_inside = self.number < self.count
        self.b = shared.at(segment * whole)
        self.turned = None if turned is None else turned.at(segment * (spec.side * spec.pitch))
        self.found, self.norms, self.order = (x.at(segment * spec.side) for x in (values, norms, order))
        self.words = words.at(segment * spec.threads)
        self.zero = k.const(0, spec.type)
        matrix = k.where(self.is_inside, self.number, k.const(0, u32))
        self.matrix = self.a.at(k.cast(matrix, i64) * self.a_strides[2])

    def mine(self, stop: Value | int) -> AbstractContextManager[Value]:
        """The numbers below one that are this thread's, of those of the matrix."""
        return self.k.range(self.own + 0, stop, self.spec.threads)

    def element(self, row: Value, column: Value) -> Value:
        """An element of A, of the Hermitian one by its lower triangle."""
        k, (down, along, _) = self.k, self.a_strides
        if self.spec.what == SINGULAR:
            return self.matrix[k.cast(row, i64) * down + k.cast(column, i64) * along]
        is_below = row >= column
        first, second = (k.cast(x, i64) for x in (k.max(row, column), k.min(row, column)))
        found = self.matrix[first * down + second * along]
        if not self.type.is_complex:
            return found
        real, imag = found.parts
        zero = k.const(0, self.real)
        return k.compound(self.type, real, k.where(row == column, zero, k.where(is_below, imag, -imag)))

    def load(self) -> None:
        """Copy A, scaled and shifted, into shared memory, with zeros around it."""
        k, spec = self.k, self.spec
        word = k.var(0, u32)
        with self.mine((spec.side + 1) * spec.side) as place:
            row, column = place / (spec.side + 1), place % (spec.side + 1)
            value = k.var(self.zero)
            with k.when(self.is_inside & (row < self.rows) & (column < self.columns)):
                value.set(self.element(row, column))
            for part in value.get().parts:
                word.set(k.max(word.get(), upper_bits(k, k.abs(part))))
            self.b[column * spec.pitch + row] = value.get()
        self.words[self.own] = word.get()
        with k.when(k.tid < 2):
            self.flags[k.tid] = k.const(0, u32)
        k.barrier()
        with k.range(k.const(0, u32), spec.threads) as other:
            word.set(k.max(word.get(), self.words[other]))
        shift, bias, _ = FORMATS[self.real.bits]
        exponent = word.get() >> shift
        self.is_ok = self.is_inside & (exponent <= 2 * bias)
        wanted = k.const(2 * bias, u32) - k.max(k.min(exponent, k.const(2 * bias - 1, u32)), k.const(1, u32))
        self.scale = power(k, wanted, self.real)
        self.back = power(k, k.const(2 * bias, u32) - wanted, self.real)
        with self.mine((spec.side + 1) * spec.side) as place:
            where = (place % (spec.side + 1)) * spec.pitch + place / (spec.side + 1)
            self.b[where] = self.scaled(self.b[where], self.scale)
        if self.turned is not None:
            with self.mine(spec.side * spec.side) as place:
                row, column = place % spec.side, place / spec.side
                self.turned[column * spec.pitch + row] = k.where(row == column, k.const(1, spec.type), self.zero)
        k.barrier()
        if spec.what == EIGEN:
            self.shift()

    def shift(self) -> None:
        """Add 5/4 of the fourth root of the sum of the eigenvalues' fourth powers to the diagonal, 1 to that of zeros.

        That sum is the square of the Frobenius norm of A^2.
        """
        k, spec = self.k, self.spec
        for column in self.halves():
            sums = [k.var(self.zero) for _ in range(spec.side // spec.lanes)]
            with k.range(k.const(0, u32), self.columns) as other:
                factor = self.b[column * spec.pitch + other]
                for total, element in zip(sums, self.held(self.b.at(other * spec.pitch + self.g)), strict=True):
                    total.set(multiply_add(k, element, factor, total.get()))
            square = self.square([total.get() for total in sums])
            with k.when((self.g == 0) & (column < spec.side)):
                self.found[column] = square
        k.barrier()
        whole = k.var(0, self.real)
        with k.range(k.const(0, u32), self.columns) as column:
            whole.set(whole.get() + self.found[column])
        one = k.const(1, self.real)
        sigma = k.where(whole.get() > 0, k.sqrt(k.sqrt(whole.get())) * 1.25, one)
        with self.mine(self.columns) as column:
            place = column * spec.pitch + column
            value = self.b[place]
            real, *imag = value.parts
            self.b[place] = k.compound(self.type, real + sigma, *imag) if imag else real + sigma
        k.barrier()

    def scaled(self, value: Value, scale: Value) -> Value:
        if not self.type.is_complex:
            return value * scale
        return self.k.compound(self.type, *[part * scale for part in value.parts])

    def divided(self, value: Value, divisor: Value) -> Value:
        if not self.type.is_complex:
            return value / divisor
        return self.k.compound(self.type, *[part / divisor for part in value.parts])

    def conjugate(self, value: Value) -> Value:
        if not self.type.is_complex:
            return value
        real, imag = value.parts
        return self.k.compound(self.type, real, -imag)

    def held(self, base: Pointer) -> list[Value]:
        """The elements of a column that a lane has."""
        lanes = self.spec.lanes
        return [base[e * lanes] for e in range(self.spec.side // lanes)]

    def summed(self, value: Value) -> Value:
        """Sums over a group."""
        return warp_reduce(self.k, value, lambda a, b: a + b, self.spec.lanes)

    def square(self, values: list[Value]) -> Value:
        """The square of the norm of a column."""
        k = self.k
        total = k.const(0, self.real)
        for value in values:
            for part in value.parts:
                total = k.fma(part, part, total)
        return self.summed(total)

    def halves(self) -> Iterator[Value]:
        """The columns that a group finishes: its own, and the one half the side further on."""
        k, side = self.k, self.spec.side
        for half in range(2):
            column = self.slot + half * (side // 2) if half else self.slot
            yield k.where(column < self.columns, column, k.const(side, u32))


__all__ = ["EIGEN", "LANES", "SINGULAR", "JacobiColumns", "JacobiSpec"]

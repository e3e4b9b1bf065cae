"""Fixup and store of bf16x3 (see `bf16x3`): elements that may be inexact are computed again by multiply-adds.

Operands that are too large leave an infinity or a NaN in the product. The least magnitude of the operands is recorded
while they are split into terms; where it was too small, elements of the product have to be larger than what may have
been lost. All other elements are computed again by chains of multiply-adds, with operands read from global memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from oxinp._kernels.gemm.sm90_mma.spec import PAD, VECTOR, WARP
from oxinp._ptx.types import f32, i64, u32

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from oxinp._kernels.gemm.sm90_mma.spec import MmaSpec
    from oxinp._ptx import Builder
    from oxinp._ptx.memory import Pointer
    from oxinp._ptx.value import Value

IN_FLIGHT = 4  # elements of K that a chain reads at a time
# Biased exponents of operands below which bits of terms are lost, and sums of two exponents below which bits of
# products are. The tensor cores take subnormal numbers as they are.
MIN_EXPONENT, MIN_EXPONENTS = 127 - 110, 2 * 127 - 116
LOST, LEAST_SIZE = 2.0**-107, 2.0**-12  # loss per term of K and magnitude of operands, which is at least the latter


class FixupChains:
    """Chains of multiply-adds along K, of operands in global memory.

    Parameters of the kernel: pointers to A and B; K and the pitches of A and of B in elements as u32; if batched, the
    distances of their matrices.
    """

    def __init__(self, k: Builder, spec: MmaSpec) -> None:
        self.builder, self.spec = k, spec
        self.majors = spec.a_major, spec.b_major
        self.matrices = [k.pointer(name, f32, "r") for name in "ab"]
        self.depth, *self.pitches = (k.scalar(name, u32) for name in ("depth", "a_pitch", "b_pitch"))
        self.distances = [k.scalar(name, i64) for name in ("a_distance", "b_distance")] if spec.is_batched else []
        self.selected = self.matrices

    def select_matrix(self, number: Value | None) -> None:
        """Select the matrices of a batch that are read from now on."""
        if number is not None:
            wide = self.builder.cast(number, i64)
            self.selected = [x.at(wide * step) for x, step in zip(self.matrices, self.distances, strict=True)]

    def at(self, operand: int, line: Value, along: Value) -> Pointer:
        """Return a pointer to an element of A or B, given its indices along M or N and along K."""
        if self.majors[operand] == "mn":
            line, along = along, line
        k = self.builder
        return self.selected[operand].at(k.cast(line, i64) * k.cast(self.pitches[operand], i64) + k.cast(along, i64))

    def multiply(self, row: Value, column: Value, n: Value) -> list[Value]:
        """Return elements of a row of the product, in neighbouring columns; those behind the last one are garbage."""
        k = self.builder
        sums = [k.var(k.const(0.0, f32)) for _ in range(VECTOR)]
        whole = self.depth / IN_FLIGHT * IN_FLIGHT
        for begin, end, step in ((k.const(0, u32), whole, IN_FLIGHT), (whole, self.depth, 1)):
            with k.range(begin, end, step) as along:
                loaded = [self._pair(row, column, n, along + i if i else along) for i in range(step)]
                for left, right in loaded:
                    for total, x in zip(sums, right, strict=True):
                        total.set(k.fma(left, x, total))
        return [total.get() for total in sums]

    def _pair(self, row: Value, column: Value, n: Value, along: Value) -> tuple[Value, tuple[Value, ...]]:
        """At one place along K, the element of a row of A and those of neighbouring columns of B."""
        k = self.builder
        left = self.at(0, row, along).load()[0]
        place = along >> 1 if self.spec.is_complex else along
        if self.spec.is_paired and self.majors[1] == "mn":
            right = self.at(1, column, place).load(0, VECTOR)
        else:
            right = tuple(self.at(1, k.min(column + i, n - 1), place).load()[0] for i in range(VECTOR))
        if self.spec.is_complex:  # odd places along K are those of i times B
            is_odd = (along & 1) != 0
            pairs = [right[i : i + 2] for i in range(0, VECTOR, 2)]
            right = tuple(k.where(is_odd, x, y) for re, im in pairs for x, y in ((-im, re), (re, im)))
        return left, right

    def largest_bits(self, operand: int, first: Value, extent: int, end: Value, warp: Value) -> Value:
        """Return the bits of the largest magnitude on some lines; a warp reads a part of them."""
        k, num_warps = self.builder, self.spec.num_warps
        found = k.var(k.const(0, u32))
        is_k_major = self.majors[operand] == "k"
        lines, alongs = k.min(end, first + extent), self.depth
        if self.spec.is_complex and operand:
            alongs = alongs / 2
        of_warp, of_lane = ((first, lines), (k.const(0, u32), alongs))[:: 1 if is_k_major else -1]
        with (
            k.range(of_warp[0] + warp, of_warp[1], num_warps) as i,
            k.range(of_lane[0] + k.lane, of_lane[1], WARP) as j,
        ):
            x = self.at(operand, *((i, j) if is_k_major else (j, i))).load()[0]
            found.set(k.max(found, k.bitcast(abs(x), u32)))
        return k.redux("max", found.get())


class FixupSums:
    """The sums of a block in shared memory: reduction over groups along K, check, fixup and store.

    Parameters
    ----------
    k : Builder
    spec : MmaSpec
    place : tuple of Value
        Row and column of the tile at which the sums of this warp begin.
    thread : Value
        This thread's number among those of consumer warps.
    chains : FixupChains
    """

    def __init__(
        self, k: Builder, spec: MmaSpec, place: tuple[Value, Value], thread: Value, chains: FixupChains
    ) -> None:
        self.builder, self.spec, self.place, self.thread, self.chains = k, spec, place, thread, chains
        self.num_threads = spec.num_warps * WARP
        self.pitch = spec.tile_n + PAD
        self.shared = k.dynamic_shared(f32, (spec.num_k_groups * spec.tile_m, self.pitch), align=16)
        self.sizes = k.dynamic_shared(u32, (spec.num_warps, 2), align=8)

    def write(self) -> list[Value]:
        """Write the sums to shared memory; returns the least magnitudes of A and of B that the thread has seen."""
        raise NotImplementedError

    def store(self, c: Pointer, row: Value, column: Value, m: Value, n: Value) -> None:
        """Add up the sums of the groups along K, fix elements that may be inexact, and store what is inside C."""
        k = self.builder
        consumers = (1, self.num_threads)
        row, column = row - self.place[0], column - self.place[1]
        self._note([k.redux("min", least) for least in self.write()])
        k.barrier(*consumers)
        least = self._threshold(row, column, m, n)
        with k.range(k.const(self._num_vectors(), u32)) as number:
            place, line, beside = self._vector(number)
            values = [k.var(x) for x in self._join(place)]
            is_inside = (row + line < m) & (column + beside < n)
            with k.when(is_inside & ~self._are_exact(values, least)):
                for own, value in zip(values, self.chains.multiply(row + line, column + beside, n), strict=True):
                    own.set(value)
            self._put(c, row + line, column + beside, m, n, [own.get() for own in values])
        k.barrier(*consumers)

    def _note(self, sizes: list[Value]) -> None:
        """Write two values of a warp to shared memory."""
        k = self.builder
        with k.when(k.lane == 0):
            self.sizes.at((self.thread >> 5) * 2).store(0, sizes)

    def _noted(self, combine: Callable[[Value, Value], Value]) -> list[Value]:
        """The two values of all warps, combined."""
        pairs = [self.sizes.at(2 * i).load(0, 2) for i in range(self.spec.num_warps)]
        result = list(pairs[0])
        for pair in pairs[1:]:
            result = [combine(x, y) for x, y in zip(result, pair, strict=True)]
        return result

    def _threshold(self, row: Value, column: Value, m: Value, n: Value) -> Value:
        """The magnitude from which on an element is exact; 0 where the operands were not too small."""
        k, spec = self.builder, self.spec
        # The recorded value is one less. That of nothing but zeros is the largest.
        exponents = [k.where(x == 0xFFFFFFFF, k.const(0xFF, u32), (x + 1) >> 24) for x in self._noted(k.min)]
        is_suspect = (k.min(*exponents) < MIN_EXPONENT) | (exponents[0] + exponents[1] < MIN_EXPONENTS)
        threshold = k.var(k.const(0.0, f32))
        with k.when(is_suspect):
            warp = self.thread >> 5
            k.barrier(1, self.num_threads)
            self._note(
                [
                    self.chains.largest_bits(0, row, spec.tile_m, m, warp),
                    self.chains.largest_bits(1, column, spec.tile_n, n, warp),
                ]
            )
            k.barrier(1, self.num_threads)
            largest = [k.bitcast(x, f32) for x in self._noted(k.max)]
            size = k.max(k.max(*largest), k.const(LEAST_SIZE, f32))
            threshold.set(size * (k.cast(self.chains.depth, f32) * LOST))
        return threshold.get()

    def _are_exact(self, values: Sequence[Value], least: Value) -> Value:
        """Whether no value is infinite, NaN or smaller than the threshold."""
        tests = [(abs(x) >= least) & (abs(x) < float("inf")) for x in values]
        result = tests[0]
        for test in tests[1:]:
            result = result & test
        return result

    def _num_vectors(self) -> int:
        """Vectors of a tile per thread."""
        return self.spec.tile_m * self.spec.tile_n // (VECTOR * self.num_threads)

    def _vector(self, number: Value | int) -> tuple[Pointer, Value, Value]:
        """A vector of a thread: its place in shared memory, row and first column of the tile."""
        index = self.thread + number * self.num_threads
        per_row = self.spec.tile_n // VECTOR
        line, beside = index / per_row, index % per_row * VECTOR
        return self.shared.at(line * self.pitch + beside), line, beside

    def _join(self, place: Pointer) -> list[Value]:
        """The sums of all groups."""
        values = list(place.load(0, VECTOR))
        for group in range(1, self.spec.num_k_groups):
            others = place.at(group * self.spec.tile_m * self.pitch).load(0, VECTOR)
            values = [x + y for x, y in zip(values, others, strict=True)]
        return values

    def _put(self, c: Pointer, row: Value, column: Value, m: Value, n: Value, values: list[Value]) -> None:
        """Store neighbours of a row of C, as far as they are inside."""
        k = self.builder
        width = VECTOR if self.spec.is_paired else 1
        with k.when(row < m):
            line = c.at(k.cast(row, i64) * k.cast(n, i64) + k.cast(column, i64))
            for i in range(0, VECTOR, width):
                with k.when(column + i < n):
                    line.store(i, values[i : i + width])


__all__ = ["FixupChains", "FixupSums"]

"""The way of sums of f32 in parts, see `bf16x3`, out of a block: what is not well is computed again.

Operands that are too large leave an infinity or a NaN in the product. Of the small ones, the least is noted as they are
split; where that was too small, elements of the product have to be larger than what may have been lost. All others are
computed by multiply-adds of operands read from global memory.
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

IN_FLIGHT = 4  # of K that is read at a time where elements are computed one by one
# Biased exponents of operands below which the last bits of parts are lost, and the sum of two below which those of
# products are: subnormal numbers are numbers like others to the tensor cores.
MIN_EXPONENT, MIN_EXPONENTS = 127 - 110, 2 * 127 - 116
LOST, LEAST_SIZE = 2.0**-107, 2.0**-12  # per product and size of operands: larger elements have lost nothing


class FixupChains:
    """The operands in global memory, of which elements of the product are computed one by one.

    Parameters of the kernel: pointers to A and B; the extent of K and the elements from one line of A and of B to the
    next as u32; if sliced, those from one matrix to the next.
    """

    def __init__(self, k: Builder, spec: MmaSpec) -> None:
        self.builder, self.spec = k, spec
        self.majors = spec.a_major, spec.b_major
        self.matrices = [k.pointer(name, f32, "r") for name in "ab"]
        self.depth, *self.pitches = (k.scalar(name, u32) for name in ("depth", "a_pitch", "b_pitch"))
        self.distances = [k.scalar(name, i64) for name in ("a_distance", "b_distance")] if spec.is_batched else []
        self.of_slice = self.matrices

    def turn_to(self, number: Value | None) -> None:
        """Read matrices of this number from now on."""
        if number is not None:
            wide = self.builder.cast(number, i64)
            self.of_slice = [x.at(wide * step) for x, step in zip(self.matrices, self.distances, strict=True)]

    def at(self, operand: int, line: Value, along: Value) -> Pointer:
        """To the element of A or B on a line of M or N, and along K."""
        if self.majors[operand] == "mn":
            line, along = along, line
        k = self.builder
        return self.of_slice[operand].at(k.cast(line, i64) * k.cast(self.pitches[operand], i64) + k.cast(along, i64))

    def multiply(self, row: Value, column: Value, n: Value) -> list[Value]:
        """Elements of a row of the product, in neighbouring columns; what is behind the last column is not it."""
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
        """Of one place along K, the element of a row of A and those of neighbouring columns of B."""
        k = self.builder
        left = self.at(0, row, along).load()[0]
        place = along >> 1 if self.spec.is_complex else along
        if self.spec.is_paired and self.majors[1] == "mn":
            right = self.at(1, column, place).load(0, VECTOR)
        else:
            right = tuple(self.at(1, k.min(column + i, n - 1), place).load()[0] for i in range(VECTOR))
        if self.spec.is_complex:  # of i times what there is
            is_odd = (along & 1) != 0
            pairs = [right[i : i + 2] for i in range(0, VECTOR, 2)]
            right = tuple(k.where(is_odd, x, y) for re, im in pairs for x, y in ((-im, re), (re, im)))
        return left, right

    def greatest(self, operand: int, first: Value, extent: int, end: Value, warp: Value) -> Value:
        """Largest of the elements on some lines, without their signs, as bits; a warp reads a part of them."""
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
    """Sums of a block's warps on their way out, and what they have to be for that.

    Parameters
    ----------
    k : Builder
    spec : MmaSpec
    place : tuple of Value
        Row and column of the tile from which on the sums of this warp are.
    thread : Value
        Of those that multiply, this one's number.
    chains : Chains
    """

    def __init__(
        self, k: Builder, spec: MmaSpec, place: tuple[Value, Value], thread: Value, chains: FixupChains
    ) -> None:
        self.builder, self.spec, self.place, self.thread, self.chains = k, spec, place, thread, chains
        self.num_threads = spec.num_warps * WARP
        self.pitch = spec.tile_n + PAD
        self.shared = k.dynamic_shared(f32, (spec.num_groups * spec.tile_m, self.pitch), align=16)
        self.sizes = k.dynamic_shared(u32, (spec.num_warps, 2), align=8)

    def write(self) -> list[Value]:
        """Write the sums to shared memory; returns what the least of A and of B is that the thread has seen."""
        raise NotImplementedError

    def store(self, c: Pointer, row: Value, column: Value, m: Value, n: Value) -> None:
        """Join the sums of groups, store what is inside C, and compute again what is not well."""
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
            with k.when(is_inside & ~self._are_well(values, least)):
                for own, value in zip(values, self.chains.multiply(row + line, column + beside, n), strict=True):
                    own.set(value)
            self._put(c, row + line, column + beside, m, n, [own.get() for own in values])
        k.barrier(*consumers)

    def _note(self, sizes: list[Value]) -> None:
        """Write a warp's two numbers to shared memory."""
        k = self.builder
        with k.when(k.lane == 0):
            self.sizes.at((self.thread >> 5) * 2).store(0, sizes)

    def _noted(self, combine: Callable[[Value, Value], Value]) -> list[Value]:
        """The two numbers of all warps."""
        pairs = [self.sizes.at(2 * i).load(0, 2) for i in range(self.spec.num_warps)]
        result = list(pairs[0])
        for pair in pairs[1:]:
            result = [combine(x, y) for x, y in zip(result, pair, strict=True)]
        return result

    def _threshold(self, row: Value, column: Value, m: Value, n: Value) -> Value:
        """How large an element has to be so that nothing was lost: 0 where operands were not too small."""
        k, spec = self.builder, self.spec
        # One more: what was noted is one less. That of nothing but zeros becomes the largest.
        exponents = [k.where(x == 0xFFFFFFFF, k.const(0xFF, u32), (x + 1) >> 24) for x in self._noted(k.min)]
        is_suspect = (k.min(*exponents) < MIN_EXPONENT) | (exponents[0] + exponents[1] < MIN_EXPONENTS)
        threshold = k.var(k.const(0.0, f32))
        with k.when(is_suspect):
            warp = self.thread >> 5
            k.barrier(1, self.num_threads)
            self._note(
                [
                    self.chains.greatest(0, row, spec.tile_m, m, warp),
                    self.chains.greatest(1, column, spec.tile_n, n, warp),
                ]
            )
            k.barrier(1, self.num_threads)
            largest = [k.bitcast(x, f32) for x in self._noted(k.max)]
            size = k.max(k.max(*largest), k.const(LEAST_SIZE, f32))
            threshold.set(size * (k.cast(self.chains.depth, f32) * LOST))
        return threshold.get()

    def _are_well(self, values: Sequence[Value], least: Value) -> Value:
        """Whether nothing is infinite, NaN or smaller than that."""
        tests = [(abs(x) >= least) & (abs(x) < float("inf")) for x in values]
        result = tests[0]
        for test in tests[1:]:
            result = result & test
        return result

    def _num_vectors(self) -> int:
        """Of a thread."""
        return self.spec.tile_m * self.spec.tile_n // (VECTOR * self.num_threads)

    def _vector(self, number: Value | int) -> tuple[Pointer, Value, Value]:
        """Where in shared memory four neighbours of a thread are, and of which row and columns of the tile."""
        index = self.thread + number * self.num_threads
        per_row = self.spec.tile_n // VECTOR
        line, beside = index / per_row, index % per_row * VECTOR
        return self.shared.at(line * self.pitch + beside), line, beside

    def _join(self, place: Pointer) -> list[Value]:
        """The sums of all groups."""
        values = list(place.load(0, VECTOR))
        for group in range(1, self.spec.num_groups):
            others = place.at(group * self.spec.tile_m * self.pitch).load(0, VECTOR)
            values = [x + y for x, y in zip(values, others, strict=True)]
        return values

    def _put(self, c: Pointer, row: Value, column: Value, m: Value, n: Value, values: list[Value]) -> None:
        """Store neighbours in a row of C, as far as they are inside."""
        k = self.builder
        width = VECTOR if self.spec.is_paired else 1
        with k.when(row < m):
            line = c.at(k.cast(row, i64) * k.cast(n, i64) + k.cast(column, i64))
            for i in range(0, VECTOR, width):
                with k.when(column + i < n):
                    line.store(i, values[i : i + width])


__all__ = ["FixupChains", "FixupSums"]

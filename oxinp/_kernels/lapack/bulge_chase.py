"""Shifts chased down the diagonal of Hessenberg matrices: a chain of small bulges, as many columns as a window has.

K. Braman, R. Byers and R. Mathias, The multishift QR algorithm, part I, 2002, as LAPACK's xLAQR5: two shifts make a
bulge, three columns apart from the next. The transformations of a window are accumulated in U, with which others
multiply what lies outside, see `two_sided`.

Data layout: H row by row; shifts, two per bulge; U, (size, size); `span`, the first row of the window and how many it
has; `bounds`, the first and the last row of the active block, and how many bulges there are. In shared memory the
window with one row and column around it, and U.

Who owns what: one block. A thread has a bulge's reflector; then, of some bulges, a column, to whose three rows it
applies the reflector; then a row of the window, and one of U, to whose three columns it does.

Algorithm, per step: all bulges move on by a column at a time, as their rows and columns are disjoint. A bulge begins
with the first column of (H - s1) (H - s2), divided by its norm.

Flops: 60 size bulges per step.
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

LANES = 128
SPACING = 3
WIDE = 8  # bytes of an element up to which a block has 1024 threads
RANGE = {32: (2.0**-50, 2.0**50, 2.0**64), 64: (2.0**-480, 2.0**480, 2.0**520)}
"""Magnitudes of which squares are sums that neither overflow nor vanish; by what others are multiplied or divided."""


class ChaseSpec(NamedTuple):
    """One kernel of the family.

    Attributes
    ----------
    type : Type
    bulges : int
        The most of a chain.
    steps : int
        Columns by which they move.
    """

    type: Type
    bulges: int
    steps: int

    @property
    def groups(self) -> int:
        """How often `LANES` threads a block has, each with every so many bulges: as registers allow."""
        return max(1, min(8 if self.type.nbytes <= WIDE else 4, self.bulges))

    @property
    def block(self) -> int:
        """Threads of a block."""
        return self.groups * LANES

    @property
    def size(self) -> int:
        """Most rows of a window."""
        return self.steps + SPACING * self.bulges

    @property
    def pitch(self) -> int:
        """Elements from one row to the next in shared memory, an odd number."""
        return (self.size + 2) | 1

    @property
    def shared_nbytes(self) -> int:
        """Of a block."""
        return ((2 * self.size + 2) * self.pitch + 3 * self.bulges) * self.type.nbytes + 1024


@lru_cache(MAX_KERNELS)
@retraceable
def make(spec: ChaseSpec) -> Kernel:
    """The kernel of a Spec."""
    return _Chase(spec).build()


class _Chase:
    """The kernel while it is built."""

    def __init__(self, spec: ChaseSpec) -> None:
        self.spec, self.type = spec, spec.type
        self.k = k = Builder("bulge_chase", block=spec.block, target="sm_80", min_blocks=1)
        type_ = spec.type
        self.real, self.is_complex = type_.parts[0], type_.is_complex
        self.h, self.u = k.pointer("h", type_), k.pointer("u", type_, "w")
        self.span = k.pointer("span", i32, "w")
        self.shifts, self.bounds = k.pointer("shifts", self.real, "r"), k.pointer("bounds", i32, "r")
        self.pitch, self.hop = k.scalar("pitch", i64), k.scalar("hop", i32)
        self.window = k.dynamic_shared(type_, (spec.size + 2) * spec.pitch)
        self.local_u = k.dynamic_shared(type_, spec.size * spec.pitch)
        self.taus, self.seconds, self.thirds = (k.dynamic_shared(type_, spec.bulges) for _ in range(3))
        self.zero, self.one = k.const(0, type_), k.const(1, type_)

    def build(self) -> Kernel:
        k, spec = self.k, self.spec
        self.top, self.bottom, self.count = (self.bounds[i] for i in range(3))
        begin = self.hop * spec.steps
        end = k.min(begin + spec.steps, self.bottom - self.top + SPACING * (self.count - 1))
        self.low = k.max(self.top, self.top + begin - SPACING * (self.count - 1))
        high = k.min(self.bottom, self.top + end + 1)
        self.size = high - self.low + 1
        self.tid = k.cast(k.tid, i32)
        with k.when(k.tid == 0):
            self.span[0] = self.low
            self.span[1] = k.where(begin < end, self.size, k.const(0, i32))
        with k.when(begin < end):
            self.load()
            k.barrier()
            with k.range(begin, end) as step:
                self.make_reflectors(step)
                k.barrier()
                self.apply_from_left(step)
                k.barrier()
                self.apply_from_right(step)
                k.barrier()
            self.store()
        return k.build()

    def elements(self, place: Value) -> tuple[Value, Value, Value]:
        """Row and column of the window in shared memory, and whether the element is one of the active block's."""
        row = place / (self.spec.size + 2)
        column = place - row * (self.spec.size + 2)
        is_row = (row >= 1) & (row <= self.size + 1) & (self.low - 1 + row <= self.bottom)
        return row, column, is_row & (column <= self.size) & (self.low - 1 + column >= self.top)

    def load(self) -> None:
        """Put the window into shared memory, zeros around the active block, and the identity."""
        k, spec = self.k, self.spec
        with k.range(self.tid + 0, (spec.size + 2) ** 2, spec.block) as place:
            row, column, is_within = self.elements(place)
            value = k.var(self.zero)
            with k.when(is_within):
                value.set(self.h[self.place(row, column)])
            self.window[row * spec.pitch + column] = value.get()
        with k.range(self.tid + 0, spec.size * spec.pitch, spec.block) as place:
            row = place / spec.pitch
            self.local_u[place] = k.where(place - row * spec.pitch == row, self.one, self.zero)

    def place(self, row: Value, column: Value) -> Value:
        """Where an element of the window is in H."""
        k = self.k
        return k.cast(self.low - 1 + row, i64) * self.pitch + k.cast(self.low - 1 + column, i64)

    def store(self) -> None:
        """Write the window and U."""
        k, spec = self.k, self.spec
        with k.range(self.tid + 0, (spec.size + 2) ** 2, spec.block) as place:
            row, column, is_within = self.elements(place)
            with k.when(is_within):
                self.h[self.place(row, column)] = self.window[row * spec.pitch + column]
        with k.range(self.tid + 0, spec.size * spec.size, spec.block) as place:
            row = place / spec.size
            self.u[k.cast(place, i64)] = self.local_u[row * spec.pitch + (place - row * spec.size)]

    def bulge(self, number: Value, step: Value) -> tuple[Value, Value, Value]:
        """The column, in the window, of which a bulge's reflector leaves one element; whether it does; if it begins."""
        behind = step - number * SPACING
        column = self.top - 1 + behind
        is_active = (number < self.count) & (behind >= 0) & (column <= self.bottom - 2)
        return column - (self.low - 1), is_active, behind == 0

    def at(self, row: Value, column: Value) -> Pointer:
        """An element of the window."""
        return self.window.at(row * self.spec.pitch + column)

    def magnitude(self, x: Value) -> Value:
        """The largest part of a number."""
        first, *rest = (self.k.abs(part) for part in x.parts)
        return self.k.max(first, rest[0]) if rest else first

    def make_reflectors(self, step: Value) -> None:
        """Make the reflector of every bulge, and leave of its column one element."""
        k, pitch = self.k, self.spec.pitch
        with k.when(self.tid < self.spec.bulges):
            column, is_active, is_first = self.bulge(self.tid, step)
            with k.when(is_active):
                found = [k.var(self.zero) for _ in range(3)]
                with k.when(is_first):
                    for x, value in zip(found, self.first_column(column + 1), strict=True):
                        x.set(value)
                with k.otherwise():
                    line = self.at(column + 1, column)
                    for i, x in enumerate(found):
                        x.set(line[i * pitch])
                tau, second, third, beta = self.reflector(*(x.get() for x in found))
                self.taus[self.tid], self.seconds[self.tid], self.thirds[self.tid] = tau, second, third
                with k.when(~is_first):
                    line = self.at(column + 1, column)
                    line[0], line[pitch], line[2 * pitch] = beta, self.zero, self.zero

    def number(self, real: Value, imag: Value) -> Value:
        """A complex number."""
        return self.k.compound(self.type, real, imag)

    def first_column(self, row: Value) -> tuple[Value, Value, Value]:
        """The first column of (H - s1) (H - s2), divided by a number, as LAPACK's xLAQR1."""
        k, pitch = self.k, self.spec.pitch
        line = self.at(row, row)
        h11, h12, h21 = line[0], line[1], line[pitch]
        h22, h32 = line[pitch + 1], line[2 * pitch + 1]
        parts = [self.shifts[k.cast(self.tid * 4 + i, i64)] for i in range(4)]
        if self.is_complex:
            s1, s2 = (self.number(*parts[i : i + 2]) for i in (0, 2))
            scale = self.magnitude(h11 - s2) + self.magnitude(h21)
        else:
            s1, s2 = parts[0], parts[2]
            scale = k.abs(h11 - s2) + k.abs(parts[3]) + k.abs(h21)
        safe = k.where(scale > 0, scale, k.const(1, self.real))
        h21 = self.over(h21, safe)
        first = (h11 - s1) * self.over(h11 - s2, safe) + h12 * h21
        if not self.is_complex:
            first = first - parts[1] * (parts[3] / safe)
        return first, h21 * (h11 + h22 - s1 - s2), h21 * h32

    def over(self, x: Value, divisor: Value) -> Value:
        """A number over a real one."""
        parts = [part / divisor for part in x.parts]
        return self.k.compound(self.type, *parts) if self.is_complex else parts[0]

    def scaled(self, x: Value, factor: Value) -> Value:
        """A number times a real one."""
        parts = [part * factor for part in x.parts]
        return self.k.compound(self.type, *parts) if self.is_complex else parts[0]

    def square(self, x: Value, total: Value) -> Value:
        """Add the square of a magnitude."""
        for part in x.parts:
            total = self.k.fma(part, part, total)
        return total

    def reflector(self, x: Value, y: Value, z: Value) -> tuple[Value, Value, Value, Value]:
        """Return tau, v below its one, and what is left of a column, as LAPACK's xLARFG."""
        k, none = self.k, self.k.const(0, self.real)
        least, most, power = RANGE[self.real.nbytes * 8]
        largest = k.max(self.magnitude(x), k.max(self.magnitude(y), self.magnitude(z)))
        one, large, small = (k.const(value, self.real) for value in (1, power, 1 / power))
        factor = k.where(largest > most, small, k.where(largest < least, large, one))
        back = k.where(largest > most, large, k.where(largest < least, small, one))
        x, y, z = (self.scaled(value, factor) for value in (x, y, z))
        rest = self.square(z, self.square(y, none))
        real, *imag = x.parts
        is_none = rest == 0
        for part in imag:
            is_none = is_none & (part == 0)
        beta = k.where(is_none, real, -k.copysign(real, k.sqrt(self.square(x, rest))))
        safe = k.where(is_none, k.const(1, self.real), beta)
        parts = [k.where(is_none, none, part / safe) for part in (beta - real, *(-part for part in imag))]
        tau = k.compound(self.type, *parts) if imag else parts[0]
        whole = k.compound(self.type, beta, none) if imag else beta
        inverse = k.where(is_none, self.zero, self.one / k.where(is_none, self.one, x - whole))
        left = beta * back
        return tau, y * inverse, z * inverse, k.compound(self.type, left, none) if imag else left

    def conjugate(self, x: Value) -> Value:
        """The conjugate of complex values."""
        return self.k.compound(self.type, x.parts[0], -x.parts[1]) if self.is_complex else x

    def apply(self, step: Value, targets: list[tuple[Pointer, int]], *, is_left: bool) -> None:
        """Apply reflectors to three elements each of what this thread has, of some bulges."""
        k, spec = self.k, self.spec
        lane, group = self.tid % LANES, self.tid / LANES
        for base, stride in targets:
            is_u = base is self.local_u
            for start in range(0, spec.bulges, spec.groups):
                number = group + start
                column, is_active, _ = self.bulge(number, step)
                if is_left:
                    is_mine = (lane > column) & (lane <= self.size)
                    line = base.at((column + 1) * spec.pitch + lane)
                elif is_u:
                    is_mine = lane < self.size
                    line = base.at(lane * spec.pitch + column)
                else:
                    is_mine = (lane >= 1) & (lane <= k.min(column + 4, self.size + 1))
                    line = base.at(lane * spec.pitch + column + 1)
                with k.when(is_active & is_mine):
                    tau, second, third = self.taus[number], self.seconds[number], self.thirds[number]
                    x, y, z = (line[i * stride] for i in range(3))
                    if is_left:
                        tau, inner = self.conjugate(tau), (self.conjugate(second), self.conjugate(third))
                        outer = second, third
                    else:
                        inner, outer = (second, third), (self.conjugate(second), self.conjugate(third))
                    total = multiply_add(k, z, inner[1], multiply_add(k, y, inner[0], x)) * tau
                    line[0] = x - total
                    line[stride] = multiply_add(k, -total, outer[0], y)
                    line[2 * stride] = multiply_add(k, -total, outer[1], z)

    def apply_from_left(self, step: Value) -> None:
        """Apply the adjoint reflectors to rows of the window."""
        self.apply(step, [(self.window, self.spec.pitch)], is_left=True)

    def apply_from_right(self, step: Value) -> None:
        """Apply reflectors to columns of the window and of U."""
        self.apply(step, [(self.window, 1), (self.local_u, 1)], is_left=False)


__all__ = ["SPACING", "ChaseSpec", "make"]

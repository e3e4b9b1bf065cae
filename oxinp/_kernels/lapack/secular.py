"""Secular equations of divide and conquer: 1 / rho + sum of z_i^2 / (d_i - x) = 0, its roots, and the vectors of these.

Data layout, who owns what, and the algorithm: see `divide`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from oxinp._ptx import Builder, Kernel
from oxinp._ptx.types import Type, i64, u32
from oxinp._ptx.warp import reduce as warp_reduce

if TYPE_CHECKING:
    from oxinp._ptx.value import Value

BLOCK, WARP = 256, 32
NUM_WARPS = BLOCK // WARP
MAX_STEPS = 80  # of the search for a root
EPSILON = {32: 2.0**-24, 64: 2.0**-53}


class _Merge:
    """What the kernels of a warp per item have in common: which merge, which item, and what `prepare` left."""

    def __init__(self, k: Builder, real: Type) -> None:
        self.k, self.real = k, real
        self.poles, self.z = k.pointer("poles", real, "r"), k.pointer("z", real, "r")
        self.counts, self.rho = k.pointer("counts", u32, "r"), k.pointer("rho", real, "r")
        self.order = k.scalar("order", u32)
        per_merge = (self.order + NUM_WARPS - 1) / NUM_WARPS
        self.merge = k.ctaid / per_merge
        self.item = (k.ctaid - self.merge * per_merge) * NUM_WARPS + k.warp
        self.number = k.cast(self.merge, i64)
        self.start = k.cast(self.merge * self.order, i64)
        self.kept = self.counts[self.number * 2]
        self.d, self.weights = self.poles.at(self.start), self.z.at(self.start)

    def summed(self, value: Value) -> Value:
        return warp_reduce(self.k, value, lambda a, b: a + b)


class _Roots:
    """Finds the roots of 1 / rho + sum of z_i^2 / (d_i - x), by their distance from the nearest pole."""

    def __init__(self, real: Type) -> None:
        self.real = real
        self.k = k = Builder("dc_roots", block=BLOCK, target="sm_80")
        self.shifts, self.origins = k.pointer("shifts", real, "w"), k.pointer("origins", u32, "w")
        self.m = _Merge(k, real)

    def build(self) -> Kernel:
        k, m = self.k, self.m
        with k.when(m.item < m.kept):
            self.find()
        return k.build()

    def terms(self, origin: Value, shift: Value, split: Value) -> tuple[Value, ...]:
        """The sums over poles up to a place and beyond, and over both their derivatives."""
        k, m = self.k, self.m
        zero = k.const(0, self.real)
        sums = [k.var(zero) for _ in range(3)]
        base = m.d[origin]
        with k.range(k.lane + 0, m.kept, WARP) as i:
            z = m.weights[i]
            ratio = z / ((m.d[i] - base) - shift)
            term = z * ratio
            is_left = i <= split
            sums[0].set(sums[0].get() + k.where(is_left, term, zero))
            sums[1].set(sums[1].get() + k.where(is_left, zero, term))
            sums[2].set(k.fma(ratio, ratio, sums[2].get()))
        k.warp_sync()
        return tuple(m.summed(x.get()) for x in sums)

    def find(self) -> None:
        k, m, real = self.k, self.m, self.real
        j = m.item
        is_last = j + 1 == m.kept
        right = k.where(is_last, j, j + 1)
        zero, one = k.const(0, real), k.const(1, real)
        rho = m.rho[m.number]
        level = one / rho
        total = k.var(zero)
        with k.range(k.lane + 0, m.kept, WARP) as i:
            total.set(k.fma(m.weights[i], m.weights[i], total.get()))
        k.warp_sync()
        # The last root is below the last pole and all that is added to it.
        gap = k.where(is_last, rho * m.summed(total.get()), m.d[right] - m.d[j])
        psi, phi, _ = self.terms(j, gap * 0.5, j)
        is_near_left = (level + psi + phi >= 0) | is_last
        origin = k.where(is_near_left, j, right)
        half = gap * 0.5
        is_below = level + psi + phi >= 0  # the root is in the lower half
        low = k.var(k.where(is_last, k.where(is_below, zero, half), k.where(is_near_left, zero, -half)))
        high = k.var(k.where(is_last, k.where(is_below, half, gap), k.where(is_near_left, half, zero)))
        shift = k.var((low.get() + high.get()) * 0.5)
        left_gap, right_gap = m.d[j] - m.d[origin], m.d[right] - m.d[origin]
        with k.range(k.const(0, u32), MAX_STEPS):
            psi, phi, slope = self.terms(origin, shift.get(), j)
            w = level + psi + phi
            size = level + k.abs(psi) + k.abs(phi)
            width = high.get() - low.get()
            small = k.max(k.abs(low.get()), k.abs(high.get())) * (2 * EPSILON[real.bits])
            k.break_if((k.abs(w) <= size * (8 * EPSILON[real.bits])) | ~(width > small))
            low.set(k.where(w <= 0, shift.get(), low.get()))
            high.set(k.where(w <= 0, high.get(), shift.get()))
            step = self.step(w, slope, left_gap - shift.get(), right_gap - shift.get(), is_last, is_near_left)
            found = shift.get() + step
            is_inside = (found > low.get()) & (found < high.get())
            shift.set(k.where(is_inside, found, (low.get() + high.get()) * 0.5))
        with k.when(k.lane == 0):
            self.shifts.at(m.start)[j] = shift.get()
            self.origins.at(m.start)[j] = origin

    def step(self, w: Value, slope: Value, left: Value, right: Value, is_last: Value, is_near_left: Value) -> Value:
        """The step to the root of a rational function with the same value and derivative, and the poles beside."""
        k, m, real = self.k, self.m, self.real
        j = m.item
        near, far = k.where(is_near_left, left, right), k.where(is_near_left, right, left)
        z = m.weights[k.where(is_near_left | is_last, j, j + 1)]
        ratio = z / near
        c = k.fma(far - near, ratio * ratio, w - far * slope)
        a = k.fma(left + right, w, -(left * right * slope))
        b = left * right * w
        root = k.sqrt(k.abs(k.fma(a, a, -(4 * b * c))))
        one = k.const(1, real)
        both = k.where(a <= 0, (a - root) / (2 * k.where(c == 0, one, c)), 2 * b / (a + root))
        # Beyond the last pole: the function with that pole alone.
        level = w - slope * left
        alone = left + left * left * slope / level
        found = k.where(is_last, alone, both)
        return k.where(w * found < 0, found, -w / slope)


def make_roots(real: Type) -> Kernel:
    """The kernel of the roots."""
    return _Roots(real).build()


def make_weights(real: Type) -> Kernel:
    """The kernel of the weights of which the roots that were found are the roots."""
    k = Builder("dc_weights", block=BLOCK, target="sm_80")
    exact, shifts, origins = (
        k.pointer("exact", real, "w"),
        k.pointer("shifts", real, "r"),
        k.pointer("origins", u32, "r"),
    )
    m = _Merge(k, real)
    shifts, origins = shifts.at(m.start), origins.at(m.start)
    i = m.item
    with k.when(i < m.kept):
        own = m.d[i]
        product = k.var(k.const(1, real))
        with k.range(k.lane + 0, m.kept, WARP) as j:
            distance = (m.d[origins[j]] - own) + shifts[j]
            other = k.where(j == i, k.const(1, real), m.d[j] - own)
            product.set(product.get() * (distance / other))
        k.warp_sync()
        whole = warp_reduce(k, product.get(), lambda a, b: a * b)
        with k.when(k.lane == 0):
            exact.at(m.start)[i] = k.copysign(m.weights[i], k.sqrt(k.abs(whole)))
    return k.build()


def make_vectors(real: Type) -> Kernel:
    """The kernel of the rows of S, in the order of the eigenvalues, and of these; S is zero before."""
    k = Builder("dc_vectors", block=BLOCK, target="sm_80")
    s, values = k.pointer("s", real, "w"), k.pointer("values", real, "w")
    shifts, origins = k.pointer("shifts", real, "r"), k.pointer("origins", u32, "r")
    sources = k.pointer("sources", u32, "r")
    m = _Merge(k, real)
    shifts, origins, sources = shifts.at(m.start), origins.at(m.start), sources.at(m.start)

    def value(place: Value) -> Value:
        """A root, or a pole that was deflated."""
        found = k.var(m.d[place])
        with k.when(place < m.kept):
            found.set(m.d[origins[place]] + shifts[place])
        return found.get()

    item = m.item
    with k.when(item < m.order):
        own = value(item)
        rank = k.var(0, u32)
        with k.range(k.lane + 0, m.order, WARP) as other:
            found = value(other)
            is_first = (found < own) | ((found == own) & (other < item))
            rank.set(rank.get() + k.where(is_first, k.const(1, u32), k.const(0, u32)))
        k.warp_sync()
        place = k.redux("add", rank.get())
        row = s.at(k.cast(m.merge * m.order + place, i64) * k.cast(m.order, i64))
        with k.when(k.lane == 0):
            values.at(m.start)[place] = own
        with k.when(item < m.kept):
            base, shift = m.d[origins[item]], shifts[item]
            square = k.var(k.const(0, real))
            with k.range(k.lane + 0, m.kept, WARP) as i:
                entry = m.weights[i] / ((m.d[i] - base) - shift)
                square.set(k.fma(entry, entry, square.get()))
            k.warp_sync()
            norm = k.sqrt(m.summed(square.get()))
            with k.range(k.lane + 0, m.kept, WARP) as i:
                row[sources[i]] = m.weights[i] / ((m.d[i] - base) - shift) / norm
        with k.otherwise(), k.when(k.lane == 0):
            row[sources[item]] = k.const(1, real)
    return k.build()


__all__ = ["BLOCK", "EPSILON", "NUM_WARPS", "make_roots", "make_vectors", "make_weights"]

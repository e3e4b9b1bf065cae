"""Eigenvalues and vectors of real symmetric tridiagonal matrices, by divide and conquer.

J. Cuppen, 1981; M. Gu and S. Eisenstat, 1995: as LAPACK's xSTEDC. Torn at every `leaf`-th row, matrices are small ones,
for Jacobi's method, and corrections of rank one; two neighbours are merged at a time.

Data layout: `d`, the eigenvalues of what has been merged, ascending, one node after the other; Q, the vectors, one
matrix in C order after the other. A merge of two nodes with `order` rows together has in the workspace: its poles,
ascending, their weights, and the column of Q that each belongs to, those that are kept in front and those that are
deflated behind; rotations; roots, as the pole next to each and the distance from it; and S, by which diag(Q1, Q2) is
multiplied, a root's vector a row.

Who owns what: `prepare` has a block per merge, of which one thread deflates, one pole after the other. A warp has a
root, in `roots`, or a pole, in `weights`, or a row of S, in `vectors`, and a lane every 32nd term of sums and products.
In `rotate` a thread has a row of S.

Algorithm of roots: rational interpolation through the two poles beside, with bounds (R. Li, LAPACK Working Note 89);
weights are then those of which the roots are exactly the roots, so that vectors are orthogonal whatever their distance.

Flops: 4/3 order^3 in products, and order^2 terms some ten times per merge.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from oxinp._kernels.lapack import secular
from oxinp._kernels.lapack.secular import BLOCK, EPSILON, NUM_WARPS
from oxinp._kernels.problem import MAX_KERNELS
from oxinp._ptx import Builder, Kernel
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.types import Type, i64, u32
from oxinp._ptx.warp import reduce as warp_reduce

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxinp._kernels.choice import Limits
    from oxinp._ptx.memory import Pointer
    from oxinp._ptx.value import Value


LEAF = 32
SPLIT, PREPARE, ROOTS, WEIGHTS, VECTORS, ROTATE = "split", "prepare", "roots", "weights", "vectors", "rotate"


class DivideSpec(NamedTuple):
    """One kernel of the family.

    Attributes
    ----------
    type : Type
    what : str
    order : int
        Of `PREPARE`: the most rows of a merge.
    """

    type: Type
    what: str
    order: int = 0

    @property
    def shared_nbytes(self) -> int:
        """Of a block, and some more."""
        return self.order * (2 * self.type.nbytes + 4) + 512


def most_rows(type: Type, limits: Limits) -> int:
    """Return the most rows of matrices that there are kernels for."""
    order = LEAF
    while DivideSpec(type, PREPARE, 2 * order).shared_nbytes <= limits.max_shared_nbytes:
        order *= 2
    return order


@lru_cache(MAX_KERNELS)
@retraceable
def make(spec: DivideSpec) -> Kernel:
    """The kernel of a Spec; see `plan`."""
    made: dict[str, Callable[[DivideSpec], Kernel]] = {
        SPLIT: _split,
        PREPARE: lambda spec: _Prepare(spec).build(),
        ROOTS: lambda spec: secular.make_roots(spec.type),
        WEIGHTS: lambda spec: secular.make_weights(spec.type),
        VECTORS: lambda spec: secular.make_vectors(spec.type),
        ROTATE: _rotate,
    }
    return made[spec.what](spec)


def _split(spec: DivideSpec) -> Kernel:
    """Tear matrices: dense ones of `leaf` rows, and more rows, decoupled, with eigenvalues above all others."""
    k = Builder("dc_split", block=BLOCK, target="sm_80")
    real = spec.type
    leaves, d, e = k.pointer("leaves", real, "w"), k.pointer("d", real, "r"), k.pointer("e", real, "r")
    order, padded, leaf = (k.scalar(name, u32) for name in ("order", "padded", "leaf"))
    partials = k.shared(real, NUM_WARPS)
    base = k.cast(k.ctaid * order, i64)
    d, e = d.at(base), e.at(base)
    zero = k.const(0, real)
    bound = k.var(zero)

    def coupling(row: Value) -> Value:
        """The element beside the diagonal, of a row and the next one."""
        found = k.var(zero)
        with k.when(row + 1 < order):
            found.set(e[row])
        return found.get()

    with k.range(k.tid + 0, order, BLOCK) as row:
        own = k.abs(d[row]) + k.abs(coupling(row)) * 2
        bound.set(k.max(bound.get(), own))
    most = warp_reduce(k, bound.get(), k.max)
    with k.when(k.lane == 0):
        partials[k.warp] = most
    k.barrier()
    for i in range(NUM_WARPS):
        bound.set(k.max(bound.get(), partials[i]))
    out = leaves.at(k.cast(k.ctaid * padded, i64) * k.cast(leaf, i64))
    with k.range(k.tid + 0, padded * leaf, BLOCK) as place:
        row = place / leaf
        column = place - row * leaf
        within = row % leaf
        value = k.var(zero)
        with k.when(within == column):
            value.set(k.where(bound.get() > 0, bound.get() * 1.0625, k.const(1, real)))
            with k.when(row < order):
                value.set(d[row])
            with k.when((within == 0) & (row > 0)):
                value.set(value.get() - k.abs(coupling(row - 1)))
            with k.when(within + 1 == leaf):
                value.set(value.get() - k.abs(coupling(row)))
        with k.when(within == column + 1):
            value.set(coupling(row - 1))
        out[place] = value.get()
    return k.build()


class _Prepare:
    """Sorts the poles of a merge, and deflates."""

    def __init__(self, spec: DivideSpec) -> None:
        self.spec, self.real = spec, spec.type
        self.k = k = Builder("dc_prepare", block=BLOCK, target="sm_80")
        real = spec.type
        self.poles, self.weights = k.pointer("poles", real), k.pointer("weights", real)
        self.sources, self.counts = k.pointer("sources", u32), k.pointer("counts", u32)
        self.turns, self.places = k.pointer("turns", real), k.pointer("places", u32)
        self.rho = k.pointer("rho", real)
        self.d, self.e, self.q = (k.pointer(name, real, "r") for name in ("d", "e", "q"))
        # Rows of a merge, of the padded matrix, of the matrix; merges of a matrix.
        self.order, self.padded, self.rows, self.merges = (
            k.scalar(name, u32) for name in ("order", "padded", "rows", "merges")
        )
        self.sorted_d, self.sorted_z = (k.dynamic_shared(real, spec.order) for _ in range(2))
        self.sorted_from = k.dynamic_shared(u32, spec.order)

    def build(self) -> Kernel:
        k, real = self.k, self.real
        half, merge = self.order / 2, k.ctaid
        matrix = merge / self.merges
        cut = (merge - matrix * self.merges) * self.order + half - 1
        coupling = k.var(k.const(0, real))
        with k.when(cut + 1 < self.rows):
            coupling.set(self.e[k.cast(matrix * self.rows + cut, i64)])
        start = k.cast(merge * self.order, i64)
        d, wide = self.d.at(start), k.cast(half, i64)
        q = self.q.at(k.cast(merge * 2, i64) * wide * wide)
        root = k.const(math.sqrt(0.5), real)
        with k.range(k.tid + 0, self.order, BLOCK) as place:
            is_second = place >= half
            own, within = d[place], k.where(is_second, place - half, place)
            # The last row of the first node's vectors, the first row of the second's.
            row = k.where(is_second, wide * wide, (wide - 1) * wide)
            z = q[row + k.cast(within, i64)] * root
            z = k.where(is_second & (coupling.get() < 0), -z, z)
            rank = within + self.count(d, own, half, is_second)
            self.sorted_d[rank] = own
            self.sorted_z[rank] = z
            self.sorted_from[rank] = place
        k.barrier()
        with k.when(k.tid == 0):
            self.deflate(k.abs(coupling.get()) * 2, start)
        return k.build()

    def count(self, d: Pointer, own: Value, half: Value, is_second: Value) -> Value:
        """How many of the other node's values come before one: less, or equal where it is of the second node."""
        k = self.k
        low, high = k.var(0, u32), k.var(half)
        first = k.where(is_second, k.const(0, u32), half)
        with k.loop():
            k.break_if(low.get() >= high.get())
            middle = (low.get() + high.get()) / 2
            other = d[first + middle]
            is_before = (other < own) | (is_second & (other == own))
            low.set(k.where(is_before, middle + 1, low.get()))
            high.set(k.where(is_before, high.get(), middle))
        return low.get()

    def deflate(self, rho: Value, start: Value) -> None:
        """Keep poles with weights that count, of two that are close one: the other is rotated out."""
        k = self.k
        d, z, sources = self.sorted_d, self.sorted_z, self.sorted_from
        poles, weights, own = self.poles.at(start), self.weights.at(start), self.sources.at(start)
        turns, places = self.turns.at(start * 2), self.places.at(start * 2)
        last = self.order - 1
        largest = k.max(k.max(k.abs(d[0]), k.abs(d[last])), rho)
        tolerance = largest * (8 * EPSILON[self.real.bits])
        nowhere = k.const(0xFFFFFFFF, u32)
        kept, end, rotated = k.var(0, u32), k.var(self.order), k.var(0, u32)
        before = k.var(nowhere)

        def drop(place: Value, value: Value) -> None:
            end.set(end.get() - 1)
            poles[end.get()] = value
            own[end.get()] = sources[place]

        def keep(place: Value) -> None:
            poles[kept.get()] = d[place]
            weights[kept.get()] = z[place]
            own[kept.get()] = sources[place]
            kept.set(kept.get() + 1)

        with k.range(k.const(0, u32), self.order) as j:
            weight = z[j]
            with k.when(~(rho * k.abs(weight) > tolerance)):
                drop(j, d[j])
            with k.otherwise():
                with k.when(before.get() != nowhere):
                    i = before.get()
                    x, y, gap = z[i], weight, d[j] - d[i]
                    square = k.fma(x, x, y * y)
                    with k.when(k.abs(gap * x * y) <= tolerance * square):
                        norm = k.sqrt(square)
                        c, s = y / norm, -x / norm
                        z[j] = norm
                        lower, upper = d[i], d[j]
                        drop(i, k.fma(lower, c * c, upper * (s * s)))
                        d[j] = k.fma(lower, s * s, upper * (c * c))
                        turns[rotated.get() * 2] = c
                        turns[rotated.get() * 2 + 1] = s
                        places[rotated.get() * 2] = sources[i]
                        places[rotated.get() * 2 + 1] = sources[j]
                        rotated.set(rotated.get() + 1)
                    with k.otherwise():
                        keep(i)
                before.set(j)
        with k.when(before.get() != nowhere):
            keep(before.get())
        merge = k.cast(k.ctaid + 0, i64)
        self.counts[merge * 2] = kept.get()
        self.counts[merge * 2 + 1] = rotated.get()
        self.rho[merge] = rho


def _rotate(spec: DivideSpec) -> Kernel:
    """The rotations of deflation, in the reverse order, of the columns of S."""
    k = Builder("dc_rotate", block=BLOCK, target="sm_80")
    real = spec.type
    s, turns, places = k.pointer("s", real), k.pointer("turns", real, "r"), k.pointer("places", u32, "r")
    counts, order = k.pointer("counts", u32, "r"), k.scalar("order", u32)
    per_merge = (order + BLOCK - 1) / BLOCK
    merge = k.ctaid / per_merge
    row = (k.ctaid - merge * per_merge) * BLOCK + k.tid
    start = k.cast(merge * order, i64)
    turns, places = turns.at(start * 2), places.at(start * 2)
    rotated = counts[k.cast(merge, i64) * 2 + 1]
    with k.when(row < order):
        line = s.at(k.cast(merge * order + row, i64) * k.cast(order, i64))
        with k.range(k.const(0, u32), rotated) as number:
            at = (rotated - 1 - number) * 2
            c, sine, first, second = turns[at], turns[at + 1], places[at], places[at + 1]
            x, y = line[first], line[second]
            line[first] = k.fma(c, x, -(sine * y))
            line[second] = k.fma(sine, x, c * y)
    return k.build()


__all__ = ["LEAF", "DivideSpec", "make", "most_rows"]

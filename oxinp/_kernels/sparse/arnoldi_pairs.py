"""Steps of the Arnoldi method two at a time: vectors are read twice for two products with a CSR matrix, not for one.

Data layout: that of `arnoldi`, with the vectors' inner products in a square matrix beside. Who owns what: `vectors`.
Algorithm, of two steps from the last vector v: w1 is the product of the matrix and v, w2 that of the matrix and w1. One
launch leaves partial sums of the inner products of all vectors, w1 and w2 with v, the vector before, w1 and w2. One
block adds them, and finds c1 and c2, the components along the vectors, and the Cholesky factor of what is left of w1
and w2, whose inner products follow from Pythagoras. One launch makes the two next vectors of that.

Vectors that are not made orthogonal a second time lose it: errors grow tenfold a step. Here their inner products G are
known, so that h, those of the vectors with w, become components ``2 h - G h``, which are right up to the square of the
errors: vectors stay orthonormal to about 1e-13. What is left of w1 has to be at least `LEFT` of its square, of w2
`SECOND_LEFT`, or the pair is marked, and the caller takes `arnoldi`. Bytes of two steps: the matrix twice, and the
vectors twice.

Components are those of w1 and, below, of w2, from which the caller gets those of the product of the matrix and the
first of the new vectors, ``A v1 = (w2 - A V c1) / r11``.

Source: the s-step method of A. Chronopoulos and C. Gear, J. Comput. Appl. Math. 25, 1989, with s = 2; delayed
reorthogonalisation after K. Swirydowicz et al., Low synchronization Gram-Schmidt and GMRES algorithms, Numer. Linear
Algebra Appl. 28, 2021.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from oxinp._kernels.plan import Argument, Copy, Fill, Launch, Plan, Scratch, inputs, outputs
from oxinp._kernels.problem import MAX_KERNELS
from oxinp._kernels.sparse.types import BLOCK
from oxinp._kernels.sparse.vectors import UNROLL, add, each
from oxinp._ptx import Builder, Kernel, block_reduce, warp_reduce
from oxinp._ptx.frozen import Frozen
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.types import Type, f64, i64, u32
from oxinp._ptx.warp import WARP

if TYPE_CHECKING:
    from oxinp._kernels.plan import Step
    from oxinp._ptx.memory import Pointer
    from oxinp._ptx.value import Value

MAX_BLOCKS = 256
MAX_VECTORS = 128
DOT_ELEMENTS, DOT_ROWS = 4, 4
"""Elements of a thread for inner products, and vectors whose elements are on their way at a time."""
ROWS = 4
"""Vectors whose elements are on their way at a time, to be subtracted."""
AHEAD = 8
"""Partial sums of a lane that are."""
NUM_WARPS = BLOCK // WARP
COLUMNS = 4
"""What every vector is multiplied with: the last two, w1 and w2."""
SUM_BLOCK = 512
LEFT, SECOND_LEFT = 0.01, 0.0005


class PairDotsSpec(Frozen):
    """The kernel of inner products."""

    value: Type


class PairSumsSpec(Frozen):
    """The kernel of components, one block."""

    value: Type


class PairUpdateSpec(Frozen):
    """The kernel of the two next vectors."""

    value: Type


def plan(size: int, count: int, matvec: Plan, value: Type) -> Plan:
    """Return the plan of `count` steps, an even number, with one matrix.

    Outputs are the vectors, (count + 1, size), and the components, (count, count + 2), whose last column marks pairs of
    which too little was left. Inputs are indptr, indices, data, and the first vector. `matvec` is the plan of a
    product; its last input is the vector.
    """
    num_blocks = min(MAX_BLOCKS, -(-size // (BLOCK * UNROLL)))
    scratch, row = Scratch(), size * value.nbytes
    w1, w2 = (scratch.take(row) for _ in range(2))
    workspace = scratch.take(matvec.scratch_nbytes)
    partial = scratch.take(count * COLUMNS * num_blocks * value.nbytes)
    gram = scratch.take(count * count * value.nbytes)
    factors = scratch.take((2 * count + len(_FACTOR)) * value.nbytes)
    vectors, components = outputs(2)
    *parts, given = inputs(4)
    names = {f"in{i}": part for i, part in enumerate(parts)}
    grid = (num_blocks, 1, 1)
    steps: list[Step] = [Copy(vectors, given, row), Fill(components, count * (count + 2) * value.nbytes, 0)]
    for column in range(0, count, 2):
        known = column + 1
        last = Argument(vectors.buffer, vectors.offset + column * row)
        steps += [
            *matvec.on(**names, in3=last, out0=w1, scratch=workspace),
            *matvec.on(**names, in3=w1, out0=w2, scratch=workspace),
            Launch(make(PairDotsSpec(value)), grid, (partial, vectors, w1, w2), (size, known)),
            Launch(
                make(PairSumsSpec(value)), (1, 1, 1), (components, factors, gram, partial), (known, count, num_blocks)
            ),
            Launch(make(PairUpdateSpec(value)), grid, (vectors, factors, w1, w2), (size, known, count)),
        ]
    return scratch.plan(steps)


@lru_cache(MAX_KERNELS)
@retraceable
def make(spec: PairDotsSpec | PairSumsSpec | PairUpdateSpec) -> Kernel:
    """Build the kernel of a Spec."""
    if isinstance(spec, PairDotsSpec):
        return _dots(spec)
    return _sums(spec) if isinstance(spec, PairSumsSpec) else _update(spec)


def _added(k: Builder, totals: list[Value]) -> Value:
    """Return the sums over a warp of the values of each lane, a power of two; value i is that of the i-th run of lanes.

    Lanes exchange half of what they have, so that this takes about one shuffle for each value, not five.
    """
    distance = WARP // 2
    while len(totals) > 1:
        half = len(totals) // 2
        is_upper = (k.lane & distance) != 0
        pairs = zip(totals[:half], totals[half:], strict=True)
        mine = [(k.where(is_upper, high, low), k.where(is_upper, low, high)) for low, high in pairs]
        totals = [kept + k.shfl_bfly(given, distance) for kept, given in mine]
        distance //= 2
    return warp_reduce(k, totals[0], add, 2 * distance)


class _Sums:
    """Sums of each warp, in shared memory: `COLUMNS` of a row."""

    def __init__(self, k: Builder, value: Type) -> None:
        self.k = k
        self.pointer = k.shared(value, (MAX_VECTORS + 1) * COLUMNS * NUM_WARPS)

    def clear(self, num_rows: Value) -> None:
        """Begin with zeros."""
        k = self.k
        with k.range(k.tid + 0, num_rows * (COLUMNS * NUM_WARPS), BLOCK) as slot:
            self.pointer[slot] = k.const(0, self.pointer.type)
        k.barrier()

    def note(self, first: Value, num_rows: Value, totals: list[Value]) -> None:
        """Add the sums over the warp of some rows' columns, of those rows that there are."""
        k = self.k
        total, lanes = _added(k, totals), WARP // len(totals)
        column = first * COLUMNS + k.lane / lanes
        with k.when((k.lane % lanes == 0) & (column < num_rows * COLUMNS)):
            slot = column * NUM_WARPS + k.warp
            self.pointer[slot] = self.pointer[slot] + total

    def leave(self, num_rows: Value, partial: Pointer) -> None:
        """Store the sums of the block."""
        k = self.k
        k.barrier()
        with k.range(k.tid + 0, num_rows * COLUMNS, BLOCK) as slot:
            total = self.pointer[slot * NUM_WARPS]
            for i in range(1, NUM_WARPS):
                total = total + self.pointer[slot * NUM_WARPS + i]
            partial[slot * k.nctaid + k.ctaid] = total


def _dots(spec: PairDotsSpec) -> Kernel:
    value = spec.value
    k = Builder("arnoldi_pair_dots", block=BLOCK, max_registers=128)  # alone ptxas takes fewer
    partial = k.pointer("partial", value, "w")
    vectors, w1, w2 = (k.pointer(name, value, "r") for name in ("vectors", "w1", "w2"))
    size, known = k.scalar("size", i64), k.scalar("known", u32)
    sums, nothing = _Sums(k, value), k.const(0, value)
    sums.clear(known + 1)
    run = BLOCK * DOT_ELEMENTS
    last = [k.cast(k.max(known, n) - n, i64) * size for n in (2, 1)]
    with k.range(k.cast(k.ctaid, i64) * run, size, k.cast(k.nctaid, i64) * run) as begin:
        wanted = [begin + k.cast(k.tid, i64) + i * BLOCK for i in range(DOT_ELEMENTS)]
        places = [k.min(place, size - 1) for place in wanted]
        mine = [[vectors[start + place] for place in places] for start in last]
        mine += [[w[place] for place in places] for w in (w1, w2)]
        mine = [
            [k.where(place < size, each, nothing) for place, each in zip(wanted, column, strict=True)]
            for column in mine
        ]
        sums.note(known, known + 1, [_dot(k, mine[i], mine[j]) for i, j in ((2, 2), (2, 3), (3, 3), (3, 3))])
        with k.range(k.const(0, u32), known, DOT_ROWS) as first:
            starts = [k.cast(k.min(first + i, known - 1), i64) * size for i in range(DOT_ROWS)]
            rows = [[vectors[start + place] for place in places] for start in starts]
            sums.note(first, known, [_dot(k, row, column) for row in rows for column in mine])
    sums.leave(known + 1, partial)
    return k.build()


def _dot(k: Builder, a: list[Value], b: list[Value]) -> Value:
    """Return the inner product of a thread's elements."""
    total = a[0] * b[0]
    for one, other in zip(a[1:], b[1:], strict=True):
        total = k.fma(one, other, total)
    return total


_FACTOR = ("r11", "r12", "r22", "is_enough")
"""What follows the components of w1 and w2 among the factors."""


def _sums(spec: PairSumsSpec) -> Kernel:
    value = spec.value
    k = Builder("arnoldi_pair_sums", block=SUM_BLOCK)
    components, factors = k.pointer("components", value, "w"), k.pointer("factors", value, "w")
    gram, partial = k.pointer("gram", value), k.pointer("partial", value, "r")
    known, count, num_blocks = (k.scalar(name, u32) for name in ("known", "count", "num_blocks"))
    sums = k.shared(value, (MAX_VECTORS + 1) * COLUMNS)
    _add_partial_sums(k, sums, partial, (known + 1) * COLUMNS, num_blocks)
    k.barrier()
    row = k.tid
    has_row = row < known
    with k.when(has_row):
        for column in (0, 1):
            which = k.max(known, 2 - column) - (2 - column)
            found = sums[row * COLUMNS + column]
            with k.when(row <= which):
                gram[which * count + row] = found
            with k.when(row < which):
                gram[row * count + which] = found
    k.barrier()
    line = components.at((known - 1) * (count + 2))
    nothing = k.const(0, value)
    left = []
    for i in (0, 1):
        near = k.min(row, known - 1)
        along = sums[near * COLUMNS + 2 + i]
        total = k.var(nothing)
        with k.range(k.const(0, u32), known) as other:
            total.set(total + gram[other * count + near] * sums[other * COLUMNS + 2 + i])
        component = k.where(has_row, along + along - total, nothing)
        with k.when(has_row):
            factors[row + i * count] = component
            line[row + i * (count + 2)] = component
        left += [k.where(has_row, sums[near * COLUMNS + 2 + j], nothing) * component for j in range(i + 1)]
    taken = [block_reduce(k, each, add) for each in left]  # of w1 w1, w1 w2 and w2 w2
    whole = [sums[known * COLUMNS + i] for i in range(3)]
    s11, s12, s22 = (a - b for a, b in zip(whole, taken, strict=True))
    r11 = k.sqrt(s11)
    r12 = s12 / r11
    second = s22 - r12 * r12
    is_enough = (s11 > whole[0] * LEFT) & (second > whole[2] * SECOND_LEFT)
    with k.when(k.tid == 0):
        made = [k.where(is_enough, each, nothing) for each in (r11, r12, k.sqrt(second))]
        mark = k.where(is_enough, k.const(1, value), nothing)
        for i, factor in enumerate((*made, mark)):
            factors[2 * count + i] = factor
        line[known], line[(count + 2) + known], line[(count + 2) + known + 1] = made
        line[count + 1] = k.const(1, value) - mark
    return k.build()


def _add_partial_sums(k: Builder, sums: Pointer, partial: Pointer, num_sums: Value, num_blocks: Value) -> None:
    """Add the partial sums of blocks, a warp each sum, in one fixed order."""
    value = sums.type
    with k.range(k.warp, num_sums, SUM_BLOCK // WARP) as which:
        total = k.var(k.const(0, value))
        with k.range(k.lane, num_blocks, WARP * AHEAD) as first:
            places = [first + i * WARP for i in range(AHEAD)]
            found = [partial[which * num_blocks + k.min(place, num_blocks - 1)] for place in places]
            for place, each_sum in zip(places, found, strict=True):
                total.set(total + k.where(place < num_blocks, each_sum, k.const(0, value)))
        k.warp_sync()
        whole = warp_reduce(k, k.emit("mov", total), add)
        with k.when(k.lane == 0):
            sums[which] = whole


def _update(spec: PairUpdateSpec) -> Kernel:
    value = spec.value
    k = Builder("arnoldi_pair_update", block=BLOCK, max_registers=96 if value is f64 else None)
    vectors, factors = k.pointer("vectors", value), k.pointer("factors", value, "r")
    ws = [k.pointer(name, value, "r") for name in ("w1", "w2")]
    size, known, count = k.scalar("size", i64), k.scalar("known", u32), k.scalar("count", u32)
    components = [k.shared(value, MAX_VECTORS) for _ in ws]
    with k.range(k.tid + 0, known, BLOCK) as row:
        for i, each_component in enumerate(components):
            each_component[row] = factors[row + i * count]
    r11, r12, r22, is_enough = (factors[2 * count + i] for i in range(len(_FACTOR)))
    k.barrier()
    nothing = k.const(0, value)

    def use(places: list[Value], valid: list[Value]) -> None:
        lefts = [[k.var(w[place]) for place in places] for w in ws]
        with k.range(k.const(0, u32), known, ROWS) as first:
            rows = [k.min(first + i, known - 1) for i in range(ROWS)]
            found = [[vectors[k.cast(row, i64) * size + place] for place in places] for row in rows]
            for i, (row, others) in enumerate(zip(rows, found, strict=True)):
                for left, each_component in zip(lefts, components, strict=True):
                    component = each_component[row]
                    factor = k.where(first + i < known, component, nothing) if i else component
                    for element, other in zip(left, others, strict=True):
                        element.set(k.fma(-factor, other, element.get()))
        start = k.cast(known, i64) * size
        for place, one, other, is_valid in zip(places, *lefts, valid, strict=True):
            first_made = one / r11
            second_made = (other - r12 * first_made) / r22
            with k.when(is_valid):
                vectors[start + place] = k.where(is_enough != 0, first_made, nothing)
                vectors[start + size + place] = k.where(is_enough != 0, second_made, nothing)

    each(k, size, use)
    return k.build()


__all__ = ["MAX_VECTORS", "PairDotsSpec", "PairSumsSpec", "PairUpdateSpec", "make", "plan"]

"""Steps of the Arnoldi method several at a time: vectors are read twice for s products with a CSR matrix, not for one.

Data layout: that of `arnoldi`, with the vectors' inner products in a square matrix beside; w1 to ws are the rows of a
matrix in the scratch memory. Who owns what: `vectors`. Algorithm, of s steps from the last vector v: w1 is the product
of the matrix and v, each further w that of the matrix and the one before. One launch leaves partial sums of the inner
products of all vectors with the newest ones and with w1 to ws, and of these with each other. One block adds them, and
finds the components along the vectors, and the Cholesky factor of what is left of w1 to ws, whose inner products follow
from Pythagoras. One launch makes the s next vectors of that.

Vectors that are not made orthogonal a second time lose it: errors grow tenfold a step. Here their inner products G are
known, so that h, those of the vectors with w, become components ``2 h - G h``, which are right up to the square of the
errors: vectors of a grid's Laplacian stay orthonormal to 2e-13 where s is 2, to 3e-12 where it is 3. What is left of
the i-th w has to be at least ``LEFT[i]`` of its square, or the steps are marked, and the caller takes fewer at a time.
Bytes of s steps: the matrix s times, and the vectors twice.

Components are those of w1 and, below, of the other ws, from which the caller gets those of the product of the matrix
and each of the new vectors.

Source: the s-step method of A. Chronopoulos and C. Gear, J. Comput. Appl. Math. 25, 1989; delayed reorthogonalisation
after K. Swirydowicz et al., Low synchronization Gram-Schmidt and GMRES algorithms, Numer. Linear Algebra Appl. 28,
2021.
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
from oxinp._ptx.types import Type, i64, u32
from oxinp._ptx.warp import WARP

if TYPE_CHECKING:
    from oxinp._kernels.plan import Step
    from oxinp._ptx.memory import Pointer
    from oxinp._ptx.value import Value

MAX_BLOCKS = 264
MIN_ROOM, MAX_VECTORS = 32, 128
DOT_NBYTES = 112 << 10
"""Of a block's shared memory for inner products, so that a multiprocessor has two blocks."""
DOT_ELEMENTS = 4
"""Elements of a thread for inner products, at most."""
DOT_REGISTERS = 128
ROWS = 4
"""Vectors whose elements are on their way at a time, to be subtracted."""
UPDATE_REGISTERS = 128
AHEAD = 8
"""Partial sums of a lane that are."""
NUM_WARPS = BLOCK // WARP
SUM_BLOCK = 512
LEFT = (1e-2, 5e-4, 2e-4, 5e-5)
"""The share of the square of each w that has to be left."""


class SStepDotsSpec(Frozen):
    """The kernel of inner products.

    Attributes
    ----------
    value : Type
    steps : int
        Products with the matrix.
    newest : int
        Vectors whose inner products with the others are not known yet.
    room : int
        Vectors that there may be.
    elements : int
        Of a thread at a time.
    """

    value: Type
    steps: int
    newest: int
    room: int
    elements: int

    @property
    def columns(self) -> int:
        """What every vector is multiplied with: the newest ones, w1 to ws."""
        return self.newest + self.steps

    @property
    def rows(self) -> int:
        """Vectors that are multiplied at a time, with a lane for each sum, and so few that ptxas does not spill."""
        return min(4 if self.steps == 1 else 8, WARP // self.columns)

    @property
    def num_sums(self) -> int:
        """Sums of a warp, at most."""
        return self.room * self.columns + num_products(self.steps)

    @property
    def shared_nbytes(self) -> int:
        """Bytes of a block's shared memory."""
        return (self.columns * self.elements * BLOCK + self.num_sums * NUM_WARPS) * self.value.nbytes


class SStepSumsSpec(Frozen):
    """The kernel of components, one block; see `SStepDotsSpec`."""

    value: Type
    steps: int
    newest: int


class SStepUpdateSpec(Frozen):
    """The kernel of the next vectors, `steps` of them."""

    value: Type
    steps: int


def dots_spec(value: Type, steps: int, newest: int, count: int, max_shared_nbytes: int) -> SStepDotsSpec:
    """Return the kernel of inner products with `count` vectors at most, for a device of so much shared memory."""
    room = MIN_ROOM
    while room < count:
        room *= 2
    spec = SStepDotsSpec(value, steps, newest, room, DOT_ELEMENTS)
    while spec.shared_nbytes > min(DOT_NBYTES, max_shared_nbytes):
        spec = spec.replace(elements=spec.elements // 2)
    return spec


def plan(size: int, count: int, steps: int, matvec: Plan, value: Type, max_shared_nbytes: int) -> Plan:
    """Return the plan of `count` steps with one matrix, `steps` at a time, the last ones fewer.

    Outputs are the vectors, (count + 1, size), and the components, (count, count + 2), whose last column marks steps of
    which too little was left. Inputs are indptr, indices, data, and the first vector. `matvec` is the plan of a
    product; its last input is the vector.
    """
    num_blocks = min(MAX_BLOCKS, -(-size // (BLOCK * UNROLL)))
    scratch, row = Scratch(), size * value.nbytes
    ws = scratch.take(steps * row)
    workspace = scratch.take(matvec.scratch_nbytes)
    partial = scratch.take((count * 2 * steps + num_products(steps)) * num_blocks * value.nbytes)
    gram = scratch.take(count * count * value.nbytes)
    factors = scratch.take((steps * count + num_products(steps) + 1) * value.nbytes)
    vectors, components = outputs(2)
    *parts, given = inputs(4)
    names = {f"in{i}": part for i, part in enumerate(parts)}
    grid = (num_blocks, 1, 1)
    planned: list[Step] = [Copy(vectors, given, row), Fill(components, count * (count + 2) * value.nbytes, 0)]
    for first in range(0, count, steps):
        known, made = first + 1, min(steps, count - first)
        last = Argument(vectors.buffer, vectors.offset + first * row)
        for i in range(made):
            w = ws.at(i * row)
            planned += matvec.on(**names, in3=last, out0=w, scratch=workspace)
            last = w
        dots, sums = dots_spec(value, made, steps, count, max_shared_nbytes), SStepSumsSpec(value, made, steps)
        sizes = (known, count, num_blocks)
        planned += [
            Launch(make(dots), grid, (partial, vectors, ws), (size, known)),
            Launch(make(sums), (1, 1, 1), (components, factors, gram, partial), sizes),
            Launch(make(SStepUpdateSpec(value, made)), grid, (vectors, factors, ws), (size, known, count)),
        ]
    return scratch.plan(planned)


def num_products(steps: int) -> int:
    """Return how many inner products w1 to ws have with each other."""
    return steps * (steps + 1) // 2


@lru_cache(MAX_KERNELS)
@retraceable
def make(spec: SStepDotsSpec | SStepSumsSpec | SStepUpdateSpec) -> Kernel:
    """Build the kernel of a Spec."""
    if isinstance(spec, SStepDotsSpec):
        return _dots(spec)
    return _sums(spec) if isinstance(spec, SStepSumsSpec) else _update(spec)


def _added(k: Builder, totals: list[Value]) -> tuple[Value, int]:
    """Return the sums over a warp of the values of each lane, and lanes for each; value i is that of the i-th such run.

    Lanes exchange half of what they have, so that this takes about one shuffle for each value, not five.
    """
    size = 1
    while size < len(totals):
        size *= 2
    totals = totals + [k.const(0, totals[0].type)] * (size - len(totals))
    distance = WARP // 2
    while len(totals) > 1:
        half = len(totals) // 2
        is_upper = (k.lane & distance) != 0
        pairs = zip(totals[:half], totals[half:], strict=True)
        mine = [(k.where(is_upper, high, low), k.where(is_upper, low, high)) for low, high in pairs]
        totals = [kept + k.shfl_bfly(given, distance) for kept, given in mine]
        distance //= 2
    return warp_reduce(k, totals[0], add, 2 * distance), WARP // size


class _Sums:
    """Sums of each warp, in shared memory."""

    def __init__(self, k: Builder, value: Type, num_slots: int) -> None:
        self.k = k
        self.pointer = k.dynamic_shared(value, num_slots * NUM_WARPS)

    def clear(self, num_slots: Value) -> None:
        """Begin with zeros."""
        k = self.k
        with k.range(k.tid + 0, num_slots * NUM_WARPS, BLOCK) as slot:
            self.pointer[slot] = k.const(0, self.pointer.type)
        k.barrier()

    def note(self, first: Value, end: Value, totals: list[Value]) -> None:
        """Add the sums over the warp of values from the slot `first` on, of those before `end`."""
        k = self.k
        total, lanes = _added(k, totals)
        number = k.lane / lanes
        with k.when((k.lane % lanes == 0) & (number < len(totals)) & (first + number < end)):
            slot = (first + number) * NUM_WARPS + k.warp
            self.pointer[slot] = self.pointer[slot] + total

    def leave(self, num_slots: Value, partial: Pointer) -> None:
        """Store the sums of the block."""
        k = self.k
        k.barrier()
        with k.range(k.tid + 0, num_slots, BLOCK) as slot:
            total = self.pointer[slot * NUM_WARPS]
            for i in range(1, NUM_WARPS):
                total = total + self.pointer[slot * NUM_WARPS + i]
            partial[slot * k.nctaid + k.ctaid] = total


def _dots(spec: SStepDotsSpec) -> Kernel:
    """Each thread keeps its elements of the columns in shared memory, where none but itself reads them."""
    value, columns, elements = spec.value, spec.columns, spec.elements
    k = Builder("arnoldi_s_step_dots", block=BLOCK, max_registers=DOT_REGISTERS)  # alone ptxas takes fewer
    partial = k.pointer("partial", value, "w")
    vectors, ws = (k.pointer(name, value, "r") for name in ("vectors", "ws"))
    size, known = k.scalar("size", i64), k.scalar("known", u32)
    kept = k.dynamic_shared(value, columns * elements * BLOCK)
    sums, nothing = _Sums(k, value, spec.num_sums), k.const(0, value)
    num_sums = known * columns
    num_slots = num_sums + num_products(spec.steps)
    sums.clear(num_slots)
    run = BLOCK * elements
    starts = [vectors.at(k.cast(k.max(known, n) - n, i64) * size) for n in range(spec.newest, 0, -1)]
    starts += [ws.at(size * i if i else k.const(0, i64)) for i in range(spec.steps)]

    def mine(column: int, element: int) -> Value:
        return kept[k.tid + (column * elements + element) * BLOCK]

    with k.range(k.cast(k.ctaid, i64) * run, size, k.cast(k.nctaid, i64) * run) as begin:
        wanted = [begin + k.cast(k.tid, i64) + i * BLOCK for i in range(elements)]
        places = [k.min(place, size - 1) for place in wanted]
        for column, start in enumerate(starts):
            for i, (place, loaded) in enumerate(zip(wanted, [start[place] for place in places], strict=True)):
                kept[k.tid + (column * elements + i) * BLOCK] = k.where(place < size, loaded, nothing)
        pairs = [(i, j) for j in range(spec.newest, columns) for i in range(spec.newest, j + 1)]
        products = [k.const(0, value)] * len(pairs)
        for element in range(elements):
            found = [mine(column, element) for column in range(spec.newest, columns)]
            for which, (i, j) in enumerate(pairs):
                products[which] = k.fma(found[i - spec.newest], found[j - spec.newest], products[which])
        sums.note(num_sums, num_slots, products)
        with k.range(k.const(0, u32), known, spec.rows) as first:
            rows = [vectors.at(k.cast(k.min(first + i, known - 1), i64) * size) for i in range(spec.rows)]
            totals = [nothing] * (spec.rows * columns)
            for element, place in enumerate(places):
                others = [row[place] for row in rows]
                found = [mine(column, element) for column in range(columns)]
                for which in range(len(totals)):
                    row, column = divmod(which, columns)
                    totals[which] = k.fma(others[row], found[column], totals[which])
            sums.note(first * columns, num_sums, totals)
    sums.leave(num_slots, partial)
    return k.build()


def _sums(spec: SStepSumsSpec) -> Kernel:
    value, steps, newest = spec.value, spec.steps, spec.newest
    columns = newest + steps
    k = Builder("arnoldi_s_step_sums", block=SUM_BLOCK)
    components, factors = k.pointer("components", value, "w"), k.pointer("factors", value, "w")
    gram, partial = k.pointer("gram", value), k.pointer("partial", value, "r")
    known, count, num_blocks = (k.scalar(name, u32) for name in ("known", "count", "num_blocks"))
    sums = k.shared(value, MAX_VECTORS * columns + num_products(steps))
    _add_partial_sums(k, sums, partial, known * columns + num_products(steps), num_blocks)
    k.barrier()
    row, nothing = k.tid, k.const(0, value)
    has_row = row < known
    with k.when(has_row):
        for column in range(newest):
            which = k.max(known, newest - column) - (newest - column)
            found = sums[row * columns + column]
            with k.when(row <= which):
                gram[which * count + row] = found
            with k.when(row < which):
                gram[row * count + which] = found
    k.barrier()
    line = components.at((known - 1) * (count + 2))
    near = k.min(row, known - 1)
    alongs = [sums[near * columns + newest + i] for i in range(steps)]
    left: list[Value] = []  # of the inner products of w1 to ws, in rows of the lower triangle
    for i, along in enumerate(alongs):
        total = k.var(nothing)
        with k.range(k.const(0, u32), known) as other:
            total.set(k.fma(gram[other * count + near], sums[other * columns + newest + i], total.get()))
        component = k.where(has_row, along + along - total, nothing)
        with k.when(has_row):
            factors[row + i * count] = component
            line[row + i * (count + 2)] = component
        for j in range(i + 1):
            taken = block_reduce(k, k.where(has_row, alongs[j], nothing) * component, add)
            left.append(sums[known * columns + len(left)] - taken)
    factor, is_enough = _cholesky(k, left, [sums[known * columns + num_products(i + 1) - 1] for i in range(steps)])
    kept = [k.where(is_enough, each_factor, nothing) for each_factor in factor]
    mark = k.where(is_enough, k.const(1, value), nothing)
    with k.when(k.tid == 0):
        for number, each_kept in enumerate([*kept, mark]):
            factors[steps * count + number] = each_kept
        for i in range(steps):
            for j in range(i + 1):
                line[known + (count + 2) * i + j] = kept[num_products(i) + j]
        line[count + 1] = k.const(1, value) - mark
    return k.build()


def _cholesky(k: Builder, left: list[Value], squares: list[Value]) -> tuple[list[Value], Value]:
    """Return the factor of a matrix, both in rows of the lower triangle, and whether enough of squares is left."""
    factor: list[Value] = []
    is_enough = squares[0] > 0
    for i, square in enumerate(squares):
        for j in range(i + 1):
            total = left[num_products(i) + j]
            for n in range(j):
                total = total - factor[num_products(i) + n] * factor[num_products(j) + n]
            if j < i:
                factor.append(total / factor[num_products(j + 1) - 1])
            else:
                is_enough = is_enough & (total > square * LEFT[i])
                factor.append(k.sqrt(total))
    return factor, is_enough


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


def _update(spec: SStepUpdateSpec) -> Kernel:
    value, steps = spec.value, spec.steps
    k = Builder("arnoldi_s_step_update", block=BLOCK, max_registers=UPDATE_REGISTERS)
    vectors, factors = k.pointer("vectors", value), k.pointer("factors", value, "r")
    ws = k.pointer("ws", value, "r")
    size, known, count = k.scalar("size", i64), k.scalar("known", u32), k.scalar("count", u32)
    components = [k.shared(value, MAX_VECTORS) for _ in range(steps)]
    with k.range(k.tid + 0, known, BLOCK) as row:
        for i, each_component in enumerate(components):
            each_component[row] = factors[row + i * count]
    factor = [factors[steps * count + which] for which in range(num_products(steps))]
    is_enough = factors[steps * count + len(factor)] != 0
    k.barrier()
    nothing = k.const(0, value)
    sources = [ws.at(size * i if i else k.const(0, i64)) for i in range(steps)]

    def use(places: list[Value], valid: list[Value]) -> None:
        lefts = [[k.var(w[place]) for place in places] for w in sources]
        with k.range(k.const(0, u32), known, ROWS) as first:
            rows = [k.min(first + i, known - 1) for i in range(ROWS)]
            found = [[vectors[k.cast(row, i64) * size + place] for place in places] for row in rows]
            for i, (row, others) in enumerate(zip(rows, found, strict=True)):
                for left, each_component in zip(lefts, components, strict=True):
                    component = each_component[row]
                    taken = k.where(first + i < known, component, nothing) if i else component
                    for element, other in zip(left, others, strict=True):
                        element.set(k.fma(-taken, other, element.get()))
        start = k.cast(known, i64) * size
        for at, (place, is_valid) in enumerate(zip(places, valid, strict=True)):
            made: list[Value] = []
            for i, left in enumerate(lefts):
                total = left[at].get()
                for j, other in enumerate(made):
                    total = total - factor[num_products(i) + j] * other
                made.append(total / factor[num_products(i + 1) - 1])
            with k.when(is_valid):
                for i, each_made in enumerate(made):
                    vectors[(start + size * i if i else start) + place] = k.where(is_enough, each_made, nothing)

    each(k, size, use)
    return k.build()


__all__ = [
    "MAX_VECTORS",
    "SStepDotsSpec",
    "SStepSumsSpec",
    "SStepUpdateSpec",
    "dots_spec",
    "make",
    "num_products",
    "plan",
]

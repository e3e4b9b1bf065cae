"""Few right-hand sides of a large upper triangular system: one launch, whose blocks pass on what they find.

Data layout: U and X row by row in memory, X in the place of the right-hand sides. In shared memory a block has its
block on the diagonal, and a block row of X. Flags, in the workspace, say which block rows of X are there.

Who owns what: a block has a block row of `length` rows, or some, the last one first. A warp has some of its rows, and a
lane every 32nd column of these.

Algorithm: the block multiplies its blocks of U, from the right, with the block rows of X as soon as these are there;
elements of U are on their way while it waits. What is left is solved by substitution, 32 rows at a time, a lane each.
Blocks wait for those of smaller numbers alone, which begin before them. Sums are added in the order of columns.

Reads U once; per block row one way from block to block, and a substitution.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from oxinp._kernels.gemm.multistage.warp_mma import multiply_add
from oxinp._kernels.plan import Argument, Fill, Launch, Work
from oxinp._ptx import Builder, Kernel
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.synchronize import follow
from oxinp._ptx.types import Type, i64, u32

if TYPE_CHECKING:
    from oxinp._kernels.choice import Device
    from oxinp._kernels.plan import Step
    from oxinp._ptx.value import Value

BLOCK, WARP = 256, 32
NUM_WARPS = BLOCK // WARP
MOST_COLUMNS, FEWEST_ROWS = 2, 256
LENGTHS = (128, 64)  # rows of a block
MOST_NBYTES = 8  # of what it has of a row of X where it has more than the fewest
FAR = {32: 100, 64: 1000}  # powers of two between which the reciprocals of pivots are as good as divisions


class BackSubstitutionSpec(NamedTuple):
    """One kernel of the family.

    Attributes
    ----------
    type : Type
    length : int
        Rows of a block row.
    columns : int
        Right-hand sides.
    follows : bool
        It may begin before the kernel before it has ended (sm_90).
    """

    type: Type
    length: int
    columns: int
    follows: bool = False

    @property
    def shared_nbytes(self) -> int:
        """Of a block, and some more."""
        elements = self.length * (self.length + 1 + WARP + 1 + self.columns)
        return elements * self.type.nbytes + 256


def choose(type: Type, order: int, columns: int, device: Device) -> BackSubstitutionSpec | None:
    """Return the kernel for a system; None where there is none, or it has too little to do."""
    if columns > MOST_COLUMNS or order < FEWEST_ROWS:
        return None
    lengths = LENGTHS if columns * type.nbytes <= MOST_NBYTES else LENGTHS[-1:]
    specs = (BackSubstitutionSpec(type, length, columns, device.cc >= (9, 0)) for length in lengths)
    return next((spec for spec in specs if spec.shared_nbytes <= device.max_shared_nbytes), None)


@cache
@retraceable
def make(spec: BackSubstitutionSpec) -> Kernel:
    """The kernel of a Spec; see `steps`."""
    return _Substitution(spec).build()


class _Substitution:
    """The kernel while it is built."""

    def __init__(self, spec: BackSubstitutionSpec) -> None:
        self.spec, self.type, self.real = spec, spec.type, spec.type.parts[0]
        target = "sm_90" if spec.follows else "sm_80"
        self.k = k = Builder("back_substitution", block=BLOCK, target=target, min_blocks=1)
        self.a, self.x, self.flags = k.pointer("a", spec.type, "r"), k.pointer("x", spec.type), k.pointer("flags", u32)
        self.order, self.num_rows = k.scalar("order", u32), k.scalar("num_rows", u32)
        self.pitch = k.scalar("pitch", i64)
        self.zero, self.one = k.const(0, spec.type), k.const(1, spec.type)
        self.line = spec.length + 1
        self.tile = k.dynamic_shared(spec.type, spec.length * self.line)  # the block on the diagonal
        self.parts = k.dynamic_shared(spec.type, spec.length * (WARP + 1))  # sums of lanes
        self.right = k.dynamic_shared(spec.type, spec.columns * spec.length)  # a block row of X, column by column
        self.steps, self.rows = spec.length // WARP, spec.length // NUM_WARPS
        if spec.follows:
            follow(k)

    def build(self) -> Kernel:
        k = self.k
        # Block rows are counted from the last one on.
        with k.range(k.ctaid, self.num_rows, k.nctaid) as number:
            own = self.num_rows - 1 - number
            first = own * self.spec.length
            self.diagonal_in(first)
            self.subtract(first, self.products(first, number))
            self.solve()
            self.store(first)
            k.barrier()
            with k.when(k.tid == 0):
                self.flags.store(k.cast(own, i64), [k.const(1, u32)], order="release.gpu")
        return k.build()

    def diagonal_in(self, first: Value) -> None:
        """Load the block on the diagonal, that of the identity where the matrix ends."""
        k = self.k
        last = self.order - 1
        with k.range(k.warp + 0, k.const(self.spec.length, u32), NUM_WARPS) as local:
            row = first + local
            line = self.a.at(k.cast(k.min(row, last), i64) * self.pitch)
            columns = [k.lane + i * WARP for i in range(self.steps)]
            found = [line[k.cast(k.min(first + column, last), i64)] for column in columns]
            for column, value in zip(columns, found, strict=True):
                is_there = (row < self.order) & (first + column < self.order)
                diagonal = k.where(column == local, self.one, self.zero)
                self.tile[local * self.line + column] = k.where(is_there, value, diagonal)

    def products(self, first: Value, number: Value) -> list[list[Value]]:
        """Return, of each of this warp's rows, its lanes' sums of products with what is found of X."""
        k, columns = self.k, self.spec.columns
        sums = [[k.var(self.zero) for _ in range(columns)] for _ in range(self.rows)]
        lines = [self.a.at(k.cast(first + k.warp * self.rows + i, i64) * self.pitch) for i in range(self.rows)]
        with k.range(k.const(0, u32), number) as before:
            other = self.num_rows - 1 - before
            places = [other * self.spec.length + k.lane + i * WARP for i in range(self.steps)]
            inside = [k.cast(k.min(place, self.order - 1), i64) for place in places]
            elements = [[line[place] for place in inside] for line in lines]
            with k.when(k.tid == 0), k.loop():
                k.break_if(self.flags.load(k.cast(other, i64), order="acquire.gpu")[0] != 0)
            k.barrier()
            found = [[self.x[place * self.pitch + i] for place in inside] for i in range(columns)]
            for i, column in enumerate(found):
                factors = [k.where(x < self.order, value, self.zero) for x, value in zip(places, column, strict=True)]
                for line_sums, line_elements in zip(sums, elements, strict=True):
                    for element, factor in zip(line_elements, factors, strict=True):
                        line_sums[i].set(multiply_add(k, element, factor, line_sums[i].get()))
        return [[total.get() for total in line_sums] for line_sums in sums]

    def subtract(self, first: Value, sums: list[list[Value]]) -> None:
        """Take what lanes have summed up off the right-hand sides."""
        k, length = self.k, self.spec.length
        for i in range(self.spec.columns):
            for local, line_sums in enumerate(sums):
                self.parts[(k.warp * self.rows + local) * (WARP + 1) + k.lane] = line_sums[i]
            k.barrier()
            with k.when(k.tid < length):
                row, own = first + k.tid, self.parts.at(k.tid * (WARP + 1))
                place = k.cast(k.min(row, self.order - 1), i64) * self.pitch
                given = k.where(row < self.order, self.x[place + i], self.zero)
                totals = [own[lane] for lane in range(WARP)]
                while len(totals) > 1:
                    totals = [x + y for x, y in zip(totals[::2], totals[1::2], strict=True)]
                self.right[k.tid + i * length] = given - totals[0]
            k.barrier()

    def solve(self) -> None:
        """Solve with the block on the diagonal, 32 rows at a time: a warp has a right-hand side, a lane a row."""
        k, length = self.k, self.spec.length
        with k.range(k.const(0, u32), self.steps) as number:
            start = (self.steps - 1 - number) * WARP
            with k.when(k.warp < self.spec.columns):
                place = k.warp * length + start + k.lane
                self.right[place] = self.solved(start, self.right[place])
            k.barrier()
            with k.when(k.tid < start):
                line = self.tile.at(k.tid * self.line + start)
                for i in range(self.spec.columns):
                    right = self.right.at(i * length)
                    value = right[k.tid]
                    for column in range(WARP):
                        value = multiply_add(k, -line[column], right[start + column], value)
                    right[k.tid] = value
            k.barrier()

    def solved(self, start: Value, value: Value) -> Value:
        """Return an element of X per lane, of 32 rows from one on."""
        k, far = self.k, FAR[self.real.bits]
        line = self.tile.at((start + k.lane) * self.line + start)
        diagonal, left, found = line[k.lane], k.var(value), k.var(self.zero)
        size = k.abs(diagonal.parts[0])
        for part in diagonal.parts[1:]:
            size = k.max(size, k.abs(part))
        is_plain = (size > k.const(2.0**-far, self.real)) & (size < k.const(2.0**far, self.real))
        is_plain = k.ballot(is_plain) == 0xFFFFFFFF
        inverse = self.one / k.where(is_plain, diagonal, self.one)
        for column in reversed(range(WARP)):
            quotient = k.var(left.get() * inverse)
            with k.when(~is_plain):
                quotient.set(left.get() / diagonal)
            element = k.shfl_idx(quotient.get(), column)
            found.set(k.where(k.lane == column, element, found.get()))
            left.set(multiply_add(k, -line[column], element, left.get()))
        return found.get()

    def store(self, first: Value) -> None:
        """Store the block row of X."""
        k = self.k
        row = first + k.tid
        with k.when((k.tid < self.spec.length) & (row < self.order)):
            line = self.x.at(k.cast(row, i64) * self.pitch)
            for i in range(self.spec.columns):
                line[i] = self.right[k.tid + i * self.spec.length]


def steps(
    spec: BackSubstitutionSpec, order: int, pitch: int, places: tuple[Argument, Argument, Argument], device: Device
) -> tuple[Step, ...]:
    """Return the steps that solve in place.

    Parameters
    ----------
    spec : BackSubstitutionSpec
        What `choose` gives.
    order, pitch : int
        Rows, and elements from one row to the next of both matrices.
    places : tuple of Argument
        U, the right-hand sides, and a word per `spec.length` rows in the workspace.
    device : Device
    """
    num_rows = -(-order // spec.length)
    work = Work(order**2 * spec.columns, order**2 // 2 * spec.type.nbytes)
    grid = (min(num_rows, device.num_sms), 1, 1)
    launch = Launch(make(spec), grid, places, (order, num_rows, pitch), work)
    return Fill(places[2], num_rows * u32.nbytes, 0), launch


__all__ = ["BackSubstitutionSpec", "choose", "make", "steps"]

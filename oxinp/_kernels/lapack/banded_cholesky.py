"""Cholesky factors of many bands, as LAPACK's xPBTF2: one thread a matrix.

Data layout: bands (count, 1 + band, order) as LAPACK stores triangles by diagonals, lower ones or upper ones, and the
factors likewise; what is stored beyond the last row, or before the first, stays. A word, u64, with all bits before: the
first matrix that is not positive definite.

Who owns what: a thread has a matrix, of which it holds the last columns of the factor in registers.

Algorithm: column by column, each less its products with those before it, divided by the root of its diagonal.

Per column: band^2 / 2 multiply-adds; bands are read and written once, a lane's elements by way of the L1 cache.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from oxinp._kernels.gemm.multistage.warp_mma import multiply_add
from oxinp._kernels.lapack.diagonal import STATUS_NBYTES
from oxinp._kernels.plan import Argument, Fill, Launch, Plan, Read, Scratch, Work
from oxinp._kernels.problem import MAX_KERNELS
from oxinp._ptx import Builder, Kernel
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.types import Type, i64, u32, u64

if TYPE_CHECKING:
    from oxinp._ptx.value import Value

BLOCK = 32
MAX_BAND = {4: 12, 8: 7, 16: 4}  # elements beside the diagonal, by the bytes of an element: columns of them are held


class BandedCholeskySpec(NamedTuple):
    """One kernel of the family.

    Attributes
    ----------
    type : Type
    band : int
        Elements beside the diagonal.
    is_lower : bool
        Which triangles are stored.
    """

    type: Type
    band: int
    is_lower: bool


def is_possible(type: Type, band: int) -> bool:
    """Whether the columns that a thread holds fit into registers."""
    return band <= MAX_BAND[type.nbytes]


@lru_cache(MAX_KERNELS)
@retraceable
def make(spec: BandedCholeskySpec) -> Kernel:
    """The kernel of a Spec; see `plan`."""
    type_, band = spec.type, spec.band
    k = Builder("banded_cholesky", block=BLOCK, target="sm_80")
    out, a, failed = k.pointer("out", type_, "w"), k.pointer("a", type_, "r"), k.pointer("failed", u64)
    count, order = k.scalar("count", u32), k.scalar("order", u32)
    matrix = k.ctaid * BLOCK + k.tid
    real, zero = type_.parts[0], k.const(0, type_)
    none = k.const(0, real)
    with k.when(matrix < count):
        offset = k.cast(matrix, i64) * (k.cast(order, i64) * (band + 1))
        a, out = a.at(offset), out.at(offset)

        def mirrored(value: Value) -> Value:
            if not type_.is_complex:
                return value
            first, second = value.parts
            return k.compound(type_, first, -second)

        def place(column: Value, below: int) -> Value:
            """Where the element so far below the diagonal lies; of upper triangles what mirrors it."""
            row, column = (below, column) if spec.is_lower else (band - below, column + below)
            return k.cast(order, i64) * row + k.cast(column, i64)

        # Of the columns before, the last one first: the diagonal and what is below it.
        held = [[k.var(zero) for _ in range(band + 1)] for _ in range(band)]
        with k.range(k.const(0, u32), order) as column:
            last = order - 1
            made: list[Value] = []
            for below in range(band + 1):
                # Beyond the last row an element is the diagonal's, and not used.
                is_inside = column <= last - below if below == 0 else column + below <= last
                loaded = a[k.where(is_inside, place(column, below), place(column, 0))]
                value = loaded if spec.is_lower or not below else mirrored(loaded)
                for before in range(band - below):
                    factor = mirrored(held[before][before + 1].get())
                    value = multiply_add(k, -factor, held[before][before + 1 + below].get(), value)
                made.append(k.where(is_inside, value, zero))
            square = made[0].parts[0]
            with k.when(~(square > none)):
                failed.atomic("min", 0, k.cast(matrix, u64))
            root = k.sqrt(square)
            scaled = [[part / root for part in value.parts] for value in made[1:]]
            factors = [k.compound(type_, *parts) if type_.is_complex else parts[0] for parts in scaled]
            factors.insert(0, k.compound(type_, root, none) if type_.is_complex else root)
            for below, value in enumerate(factors):
                with k.when(column + below < order):
                    out[place(column, below)] = value if spec.is_lower or not below else mirrored(value)
            for before in reversed(range(band)):
                newer = factors if before == 0 else [x.get() for x in held[before - 1]]
                for variable, value in zip(held[before], newer, strict=True):
                    variable.set(value)
    return k.build()


def plan(spec: BandedCholeskySpec, count: int, order: int, copied: Plan) -> Plan:
    """Return the launches of the factors, and the read of the word, -1 if all matrices are positive definite.

    Parameters
    ----------
    spec : BandedCholeskySpec
    count, order : int
        Of matrices, and of each.
    copied : Plan
        Of what is stored to where factors are to be, in C order.
    """
    scratch = Scratch()
    failed = scratch.take(STATUS_NBYTES)
    nbytes = count * order * (spec.band + 1) * spec.type.nbytes
    flops = (4 if spec.type.is_complex else 1) * count * order * (spec.band + 1) ** 2
    arguments = (Argument("out0"), Argument("in0"), failed)
    launch = Launch(make(spec), (-(-count // BLOCK), 1, 1), arguments, (count, order), Work(flops, 2 * nbytes))
    return scratch.plan((*copied.steps, Fill(failed, STATUS_NBYTES, 0xFF), launch, Read(failed)))


__all__ = ["BandedCholeskySpec", "is_possible", "make", "plan"]

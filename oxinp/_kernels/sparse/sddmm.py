"""Sampled dense-dense products (SDDMM): elements of X Y at the places of a CSR matrix' elements, times these.

Data layout: elements with the numbers of their rows and columns; X by rows and Y by columns, so that both lie along the
inner index. Who owns what: a warp owns 32 elements, however long rows are, and goes along some of them at a time; its
lanes share the inner index. Sums of lanes are in the order of the inner index, then a tree: the same bits every
time. Bytes: the matrix, X, and per element a column of Y from the caches.
"""

from __future__ import annotations

from functools import lru_cache

from oxinp._kernels.plan import Launch, Plan, Work, inputs, outputs
from oxinp._kernels.problem import MAX_KERNELS
from oxinp._kernels.sparse.types import BLOCK, ProductTypes
from oxinp._ptx import Builder, Kernel, warp_reduce
from oxinp._ptx.frozen import Frozen
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.types import i64, u32
from oxinp._ptx.warp import WARP

UNROLL = 4
MAX_NBYTES = 8
"""Of elements; wider ones would not leave registers for as many at a time."""


class SddmmSpec(Frozen):
    """One kernel; `value` of the types is the matrix', `operand` that of X and Y."""

    types: ProductTypes


def plan(count: int, depth: int, types: ProductTypes) -> Plan:
    """Return the plan of a sampled product of `count` elements with an inner dimension of `depth`.

    The output is the elements; inputs are their rows, columns and data, X, and Y with its columns one after the other.
    """
    nbytes = count * (2 * types.index.nbytes + types.value.nbytes + types.result.nbytes + depth * types.operand.nbytes)
    work = Work(2 * count * depth, nbytes)
    launch = Launch(make(SddmmSpec(types)), (-(-count // BLOCK), 1, 1), (*outputs(1), *inputs(5)), (count, depth), work)
    return Plan((launch,))


@lru_cache(MAX_KERNELS)
@retraceable
def make(spec: SddmmSpec) -> Kernel:
    """Build the kernel of a Spec."""
    types = spec.types
    unroll = UNROLL if types.result.nbytes <= MAX_NBYTES else 1
    k = Builder("sparse_sddmm", block=BLOCK)
    out = k.pointer("out", types.result, "w")
    rows, columns = (k.pointer(name, types.index, "r") for name in ("rows", "columns"))
    data = k.pointer("data", types.value, "r")
    x, y = k.pointer("x", types.operand, "r"), k.pointer("y", types.operand, "r")
    count, depth = k.scalar("count", i64), k.scalar("depth", i64)
    start = k.cast(k.ctaid, i64) * BLOCK + k.cast(k.warp * WARP, i64)
    lane = k.cast(k.lane, i64)
    mine = k.min(start + lane, count - 1)
    ends = rows[mine], columns[mine]
    kept = k.var(k.const(0, types.result))
    with k.when(start < count):
        with k.range(k.const(0, u32), WARP, unroll) as first:
            lefts, rights = ([k.cast(k.shfl_idx(each, first + i), i64) * depth for i in range(unroll)] for each in ends)
            sums = [k.var(k.const(0, types.result)) for _ in rights]
            with k.range(lane, depth, WARP) as t:
                pairs = [
                    (x[left + t], y.load(right + t, 1, "nc")[0]) for left, right in zip(lefts, rights, strict=True)
                ]
                for total, (a, b) in zip(sums, pairs, strict=True):
                    total.set(total + k.cast(a, types.result) * k.cast(b, types.result))
            k.warp_sync()
            for i, total in enumerate(sums):
                whole = warp_reduce(k, k.emit("mov", total), lambda a, b: a + b)
                kept.set(k.where(k.lane == first + i, whole, kept.get()))
        with k.when(start + lane < count):
            out[mine] = k.cast(data[mine], types.result) * kept
    return k.build()


__all__ = ["SddmmSpec", "make", "plan"]

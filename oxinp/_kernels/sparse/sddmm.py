"""Sampled dense-dense products (SDDMM): elements of X Y at the places of a CSR matrix' elements, times these.

Data layout: CSR; X by rows and Y by columns, so that both lie along the inner index. Who owns what: a warp owns a row
of the matrix and goes along `UNROLL` of its elements at a time; its lanes share the inner index. Sums of lanes are in
the order of the inner index, then a tree: the same bits every time. Bytes: the matrix, X, and per element a column of
Y from the caches.
"""

from __future__ import annotations

from functools import lru_cache

from oxinp._kernels.plan import Launch, Plan, Work, inputs, outputs
from oxinp._kernels.problem import MAX_KERNELS
from oxinp._kernels.sparse.types import BLOCK, ProductTypes
from oxinp._ptx import Builder, Kernel, warp_reduce
from oxinp._ptx.frozen import Frozen
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.types import i64
from oxinp._ptx.warp import WARP

UNROLL = 4


class SddmmSpec(Frozen):
    """One kernel; `value` of the types is the matrix', `operand` that of X and Y."""

    types: ProductTypes


def plan(num_rows: int, count: int, depth: int, types: ProductTypes) -> Plan:
    """Return the plan of a sampled product with an inner dimension of `depth`.

    The output is the elements; inputs are indptr, indices and data, X, and Y with its columns one after the other.
    """
    grid = (-(-num_rows // (BLOCK // WARP)), 1, 1)
    nbytes = count * (types.index.nbytes + types.value.nbytes + types.result.nbytes + depth * types.operand.nbytes)
    work = Work(2 * count * depth, nbytes + num_rows * depth * types.operand.nbytes)
    return Plan((Launch(make(SddmmSpec(types)), grid, (*outputs(1), *inputs(5)), (num_rows, depth), work),))


@lru_cache(MAX_KERNELS)
@retraceable
def make(spec: SddmmSpec) -> Kernel:
    """Build the kernel of a Spec."""
    types = spec.types
    k = Builder("sparse_sddmm", block=BLOCK)
    out = k.pointer("out", types.result, "w")
    indptr, indices = (k.pointer(name, types.index, "r") for name in ("indptr", "indices"))
    data, x, y = (
        k.pointer("data", types.value, "r"),
        k.pointer("x", types.operand, "r"),
        k.pointer("y", types.operand, "r"),
    )
    num_rows, depth = k.scalar("num_rows", types.index), k.scalar("depth", i64)
    row = k.cast(k.ctaid, types.index) * (BLOCK // WARP) + k.cast(k.warp, types.index)
    with k.when(row < num_rows):
        end = indptr[row + 1]
        left, lane = k.cast(row, i64) * depth, k.cast(k.lane, i64)
        with k.range(indptr[row], end, UNROLL) as first:
            places = [k.min(first + i, end - 1) for i in range(UNROLL)]
            rights = [k.cast(indices[place], i64) * depth for place in places]
            sums = [k.var(k.const(0, types.result)) for _ in places]
            with k.range(lane, depth, WARP) as t:
                scale = k.cast(x[left + t], types.result)
                found = [y.load(right + t, 1, "nc")[0] for right in rights]
                for total, each in zip(sums, found, strict=True):
                    total.set(total + scale * k.cast(each, types.result))
            k.warp_sync()
            for i, (place, total) in enumerate(zip(places, sums, strict=True)):
                whole = warp_reduce(k, k.emit("mov", total), lambda a, b: a + b)
                with k.when((k.lane == i) & (first + i < end)):
                    out[place] = k.cast(data[place], types.result) * whole
    return k.build()


__all__ = ["SddmmSpec", "make", "plan"]

"""How fast elements of a matrix meet those of a vector: ``python -m asv_benchmarks.kernels.sparse_gathers [--quick]``.

The skewed matrix of `spmv_limits`, 60M elements, times a vector of 4M, f64, without the rows' sums: each warp adds up
an even share of the products. That bounds what any product takes that loads the elements so. A line per way: elements
in their order; the share of each warp by columns, as if a block kept the sums of its rows in shared memory, one block
or two to a multiprocessor; the columns that are used most in tables in the shared memory of the blocks of a cluster.
Milliseconds, and whether the sum is right; ends with status 1 if one is not.
"""

import argparse
import sys

import numpy as np

import oxinp
from asv_benchmarks.kernels.sparse import Ours, milliseconds
from asv_benchmarks.kernels.spmv_limits import NUM_ROWS, matrices
from oxinp._core.memory.layout import Layout
from oxinp._core.ops import sparse as ops
from oxinp._core.ops.perform import perform_on_device
from oxinp._kernels.plan import Launch, Plan, inputs, outputs
from oxinp._ptx import Builder
from oxinp._ptx.cluster import cluster_barrier, in_block
from oxinp._ptx.types import f64, i32
from oxinp._ptx.warp import WARP

REPETITIONS = 10
UNROLL = 8
TABLE = 1 << 14
"""Elements of the vector in a block's table."""

# WAYS. Name -> threads of a block, blocks, bytes of a block's shared memory, blocks of a cluster that have tables, and
# whether shares are by columns.
WAYS = {
    "in order": (1024, 264, 0, 0, False),
    "in order, 256 threads": (256, 1056, 0, 0, False),
    "by columns": (1024, 264, 0, 0, True),
    "by columns, 121 KB of sums": (1024, 264, 121 << 10, 0, True),
    "by columns, 60 KB of sums": (512, 528, 60 << 10, 0, True),
    "tables of 8 blocks": (1024, 128, 0, 8, False),
    "tables of 16 blocks": (1024, 112, 0, 16, False),
    "tables of 4 blocks": (1024, 132, 0, 4, False),
    "a table of each block": (1024, 132, 0, 1, False),
}


def kernel(num_threads, nbytes, num_tables):
    """Return the kernel of a way: partial sums of threads."""
    cluster = num_tables if num_tables > 1 else None
    k = Builder("sparse_gathers", block=num_threads, cluster=cluster, target="sm_90")
    out, indices = k.pointer("out", f64, "w"), k.pointer("indices", i32, "r")
    data, x = k.pointer("data", f64, "r"), k.pointer("x", f64, "r")
    share, count = k.scalar("share", i32), k.scalar("count", i32)
    table = None
    if num_tables:
        table = k.dynamic_shared(f64, TABLE)
        rank = k.cast(k.ctaid % num_tables, i32)
        with k.range(k.cast(k.tid, i32), k.const(TABLE, i32), num_threads) as place:
            table[place] = x[place * num_tables + rank]
        cluster_barrier(k) if cluster else k.barrier()
    elif nbytes:
        k.dynamic_shared(f64, nbytes // 8)[k.tid] = k.const(0, f64)
    warp = k.cast(k.ctaid, i32) * (num_threads // WARP) + k.cast(k.warp, i32)
    begin = warp * share
    end = k.min(begin + share, count)
    total = k.var(k.const(0, f64))
    with k.range(begin + k.cast(k.lane, i32), end, WARP * UNROLL) as first:
        wanted = [first + i * WARP for i in range(UNROLL)]
        places = [k.min(place, end - 1) for place in wanted]
        columns = [indices.load(place, 1, "cs")[0] for place in places]
        elements = [data.load(place, 1, "cs")[0] for place in places]
        found = [k.var(k.const(0, f64)) for _ in places]
        for column, value in zip(columns, found, strict=True):
            if table is None:
                value.set(x.load(column, 1, "nc")[0])
                continue
            with k.when(column < TABLE * num_tables):
                held = in_block(k, table, k.cast(column % num_tables, table.address().type)) if cluster else table
                value.set(held[column / num_tables])
            with k.otherwise():
                value.set(x.load(column, 1, "nc")[0])
        for place, element, value in zip(wanted, elements, found, strict=True):
            total.set(total + k.where(place < end, element * value, k.const(0, f64)))
    out[k.cast(k.ctaid, i32) * num_threads + k.cast(k.tid, i32)] = total.get()
    if cluster:
        cluster_barrier(k)
    return k.build()


def operation(name, way):
    """Return the operation of a way: operands indices, elements and the vector."""
    num_threads, num_blocks, nbytes, num_tables, _ = way

    def infer(layouts, parameters):  # noqa: ARG001
        return (Layout.of(np.dtype(float), (num_threads * num_blocks,)),)

    def plan(layouts, parameters):  # noqa: ARG001
        count = layouts[0].size
        made = kernel(num_threads, nbytes, num_tables)
        arguments = (*outputs(1), *inputs(3))
        return Plan((Launch(made, (num_blocks, 1, 1), arguments, (share_of(count, way), count)),))

    return ops.row(f"gathers, {name}", plan, infer)


def share_of(count, way):
    """Return how many elements a warp has."""
    num_threads, num_blocks, *_ = way
    return -(-count // (num_threads // WARP * num_blocks))


def by_columns(indices, data, share):
    """Return the elements with every share of them by columns."""
    places = oxinp.arange(indices.size, dtype=np.int64)
    order = oxinp.argsort((places // share) * NUM_ROWS + indices)
    return indices[order], data[order]


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition(":")[0])
    parser.add_argument("--quick", action="store_true", help="a 256th of the elements")
    options = parser.parse_args()
    _, indices, data = matrices(())["skewed"]
    if options.quick:
        indices, data = indices[: indices.size // 256], data[: data.size // 256]
    x = oxinp.random.default_rng(2).random(NUM_ROWS)
    expected = float((data * x[indices]).sum())
    is_right = True
    for name, way in WAYS.items():
        given = by_columns(indices, data, share_of(indices.size, way)) if way[-1] else (indices, data)
        op = operation(name, way)
        taken, found = milliseconds(Ours, lambda op=op, given=given: perform_on_device(op, (*given, x)), REPETITIONS)
        is_same = abs(float(found.sum()) - expected) < 1e-9 * expected
        is_right &= is_same
        print(f"{name:28} {taken:9.3f} ms{'' if is_same else ' WRONG'}", flush=True)
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main())

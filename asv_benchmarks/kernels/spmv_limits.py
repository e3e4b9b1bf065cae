"""What limits products of a sparse matrix and a vector: ``python -m asv_benchmarks.kernels.spmv_limits [--peer]``.

A matrix of 4M rows of power-law lengths and 60M elements, f64, times vectors: columns drawn from the first 1, 16K, ...,
4M alike, and, skewed and ascending in each row, as in the cases of `sparse`. A line per way in which the elements are
dealt out and loaded (`VARIANTS`), milliseconds; CuPy's last (``--peer``).
"""

import argparse
import importlib
from functools import partial

import numpy as np

import oxinp
import oxinp.sparse
from asv_benchmarks.kernels.sparse import Ours, host, milliseconds
from asv_benchmarks.kernels.sparse_matrices import power_law_lengths
from oxinp._core.ops import sparse as ops
from oxinp._core.ops.perform import perform_on_device
from oxinp._kernels.sparse import merge

NUM_ROWS = 4 * 10**6
FOOTPRINTS = (1, 1 << 14, 1 << 18, 1 << 20, 1 << 21, NUM_ROWS)
REPETITIONS = 20

# Items of a thread, blocks per multiprocessor, how the matrix is loaded.
VARIANTS = {
    "as shipped": (merge.ITEMS, merge.MIN_BLOCKS, merge.STREAMED),
    "matrix in L1": (merge.ITEMS, merge.MIN_BLOCKS, "nc"),
    "evicted first": (merge.ITEMS, merge.MIN_BLOCKS, "cs"),
    "5 items, 6 blocks": (5, 6, merge.STREAMED),
    "7 items, 6 blocks": (7, 6, merge.STREAMED),
    "11 items, 4 blocks": (11, 4, merge.STREAMED),
    "5 items, 8 blocks": (5, 8, merge.STREAMED),
}


def matrices():
    """Return the matrices by names, their parts as arrays of oxinp's."""
    lengths = power_law_lengths(NUM_ROWS, 15, np.random.default_rng(0))
    indptr = np.zeros(NUM_ROWS + 1, np.int32)
    np.cumsum(lengths, out=indptr[1:])
    rng, count = oxinp.random.default_rng(1), int(indptr[-1])
    data, pointers, drawn = rng.random(count), oxinp.array(indptr), rng.random(count)
    found = {f"{n}": (pointers, (drawn * n).astype(np.int32), data) for n in FOOTPRINTS}
    rows = oxinp.array(np.repeat(np.arange(NUM_ROWS, dtype=np.int32), lengths))
    coo = oxinp.sparse.coo_matrix((data, (rows, (drawn * drawn * NUM_ROWS).astype(np.int32))), shape=(NUM_ROWS,) * 2)
    skewed = coo.tocsr()
    return {**found, "skewed": (skewed.indptr, skewed.indices, skewed.data)}


def variant(name, items, min_blocks, streamed):
    """Return the operation of a variant."""

    def plan(layouts, parameters):
        (indptr, indices, data, x), _ = layouts, parameters
        kept = merge.ITEMS, merge.TILE, merge.MIN_BLOCKS, merge.STREAMED
        merge.ITEMS, merge.TILE, merge.MIN_BLOCKS, merge.STREAMED = items, merge.BLOCK * items, min_blocks, streamed
        merge.make.cache_clear()
        try:
            return merge.plan(indptr.size - 1, data.size, ops.product_types(indices, data, x))
        finally:
            merge.ITEMS, merge.TILE, merge.MIN_BLOCKS, merge.STREAMED = kept
            merge.make.cache_clear()

    return ops.row(f"matvec, {name}", plan, ops.MATVEC.infer)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition(":")[0])
    parser.add_argument("--peer", action="store_true")
    options = parser.parse_args()
    x, made = oxinp.random.default_rng(2).random(NUM_ROWS), matrices()
    print(f"{'':20}" + "".join(f"{name:>9}" for name in made))
    expected = {name: host(perform_on_device(ops.MATVEC, (*parts, x), (NUM_ROWS,))) for name, parts in made.items()}
    for name, constants in VARIANTS.items():
        op, line = variant(name, *constants), []
        for which, parts in made.items():
            taken, found = milliseconds(Ours, partial(perform_on_device, op, (*parts, x), (NUM_ROWS,)), REPETITIONS)
            np.testing.assert_allclose(host(found), expected[which], rtol=1e-11)
            line.append(f"{taken:9.3f}")
        print(f"{name:20}" + "".join(line), flush=True)
    if options.peer:
        cupy, sparse = importlib.import_module("cupy"), importlib.import_module("cupyx.scipy.sparse")
        line, v = [], cupy.asarray(host(x))
        for indptr, indices, data in made.values():
            parts = tuple(cupy.asarray(host(each)) for each in (data, indices, indptr))
            a = sparse.csr_matrix(parts, shape=(NUM_ROWS, NUM_ROWS))
            start, end = cupy.cuda.Event(), cupy.cuda.Event()
            a @ v
            start.record()
            for _ in range(REPETITIONS):
                a @ v
            end.record()
            end.synchronize()
            line.append(f"{cupy.cuda.get_elapsed_time(start, end) / REPETITIONS:9.3f}")
        print(f"{'CuPy':20}" + "".join(line))


if __name__ == "__main__":
    main()

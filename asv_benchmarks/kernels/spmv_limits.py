"""What limits products of a sparse matrix and a vector: ``python -m asv_benchmarks.kernels.spmv_limits [--kinds]``.

A matrix of 4M rows of power-law lengths and 60M elements, f64, times vectors: columns drawn from the first 1, 16K, ...,
4M alike, and, skewed and ascending in each row, as in the cases of `sparse`. A line per way in which the elements are
dealt out and loaded (`VARIANTS`), milliseconds; CuPy's last (``--peer``). With ``--kinds`` the ten kinds of matrices of
`sparse`, by every kernel.
"""

import argparse
import importlib
from functools import partial

import numpy as np

import oxinp
import oxinp.sparse
from asv_benchmarks.kernels.sparse import Ours, host, milliseconds
from asv_benchmarks.kernels.sparse_matrices import TEN_KINDS, Matrices, power_law_lengths
from oxinp._core.ops import sparse as ops
from oxinp._core.ops.perform import perform_on_device
from oxinp._kernels.sparse import merge, spmv

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


def kinds():
    """Return the ten kinds of matrices by names, as the cases of `sparse` have them."""
    made = Matrices(1)
    return {name: tuple(map(oxinp.array, _parts(made.kind(name, 10**6)))) for name in TEN_KINDS}


def _parts(matrix):
    return matrix.indptr, matrix.indices, matrix.data


def operation(name, make, **constants):
    """Return the operation that a plan of a kernel family computes, with constants of `merge` set."""

    def plan(layouts, parameters):
        (indptr, indices, data, x), _ = layouts, parameters
        kept = {key: getattr(merge, key) for key in constants}
        try:
            for key, value in constants.items():
                setattr(merge, key, value)
            merge.make.cache_clear()
            return make(indptr.size - 1, data.size, ops.product_types(indices, data, x))
        finally:
            for key, value in kept.items():
                setattr(merge, key, value)
            merge.make.cache_clear()

    return ops.row(f"matvec, {name}", plan, ops.MATVEC.infer)


def variants():
    """Return operations that deal a matrix out by elements, by names."""
    return {
        name: operation(name, merge.plan, ITEMS=items, TILE=merge.BLOCK * items, MIN_BLOCKS=blocks, STREAMED=streamed)
        for name, (items, blocks, streamed) in VARIANTS.items()
    }


def methods():
    """Return operations that deal a matrix out in every way there is, by names."""
    found = {"by elements": operation("by elements", merge.plan), "stream": operation("stream", spmv.stream)}
    for lanes in (2, 4, 8, 16, 32):
        found[f"{lanes} lanes"] = operation(f"{lanes} lanes", partial(spmv.rows, lanes=lanes))
    return found


def cupy_times(made):
    """Return the milliseconds of CuPy's products."""
    cupy, sparse = importlib.import_module("cupy"), importlib.import_module("cupyx.scipy.sparse")
    found = []
    for indptr, indices, data in made.values():
        parts = tuple(cupy.asarray(host(each)) for each in (data, indices, indptr))
        a = sparse.csr_matrix(parts, shape=(indptr.size - 1, NUM_ROWS))
        v = cupy.ones(NUM_ROWS)
        start, end = cupy.cuda.Event(), cupy.cuda.Event()
        a @ v
        start.record()
        for _ in range(REPETITIONS):
            a @ v
        end.record()
        end.synchronize()
        found.append(cupy.cuda.get_elapsed_time(start, end) / REPETITIONS)
    return found


def show(made, operations, *, peer):
    """Print the table: a line per operation, a column per matrix."""
    x = oxinp.random.default_rng(2).random(NUM_ROWS)
    print(f"{'':20}" + "".join(f"{name[-12:]:>13}" for name in made))
    expected = {name: host(perform_on_device(ops.MATVEC, (*parts, x), (NUM_ROWS,))) for name, parts in made.items()}
    for name, op in operations.items():
        line = []
        for which, parts in made.items():
            taken, found = milliseconds(Ours, partial(perform_on_device, op, (*parts, x), (NUM_ROWS,)), REPETITIONS)
            np.testing.assert_allclose(host(found), expected[which], rtol=1e-11)
            line.append(taken)
        print(f"{name:20}" + "".join(f"{taken:13.3f}" for taken in line), flush=True)
    if peer:
        print(f"{'CuPy':20}" + "".join(f"{taken:13.3f}" for taken in cupy_times(made)))


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition(":")[0])
    parser.add_argument("--peer", action="store_true")
    parser.add_argument("--kinds", action="store_true")
    options = parser.parse_args()
    if options.kinds:
        show(kinds(), methods(), peer=options.peer)
    else:
        show(matrices(), variants(), peer=options.peer)


if __name__ == "__main__":
    main()

"""What limits products of a sparse matrix and a vector: ``python -m asv_benchmarks.kernels.spmv_limits [OPTION]``.

A matrix of 4M rows of power-law lengths and 60M elements, f64, times vectors: columns drawn from the first 1, 16K, ...,
4M alike, and, skewed and ascending in each row, as in the cases of `sparse`; at last these with the columns that are
used most replaced by one, which bounds what tables of theirs in shared memory could gain. A line per way in which the
elements are dealt out and loaded (`VARIANTS`), milliseconds; CuPy's last (``--peer``). With ``--kinds`` the ten kinds
of matrices of `sparse`, by every kernel; with ``--free`` the skewed matrix and what tables could gain, as shipped.
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
from oxinp._kernels.sparse import merge, spmv, types

NUM_ROWS = 4 * 10**6
FOOTPRINTS = (1, 1 << 14, 1 << 18, 1 << 20, 1 << 21, NUM_ROWS)
FREE = (24 << 10, 400 << 10)
"""Columns whose elements of the vector a multiprocessor's shared memory holds, and a cluster's of 16."""
REPETITIONS = 20

PAST_L1, FIRST = "nc.L1::no_allocate", "cs"

# Items of a thread, blocks per multiprocessor, how the matrix is loaded, the result stored, and the vector loaded.
VARIANTS = {
    "as shipped": (7, 4, FIRST, FIRST, "nc"),
    "matrix past L1": (7, 4, PAST_L1, FIRST, "nc"),
    "result not streamed": (7, 4, FIRST, "", "nc"),
    "5 items, 5 blocks": (5, 5, FIRST, FIRST, "nc"),
    "vector evicted last": (7, 4, FIRST, FIRST, "nc.L1::evict_last"),
    "vector past L1": (7, 4, FIRST, FIRST, PAST_L1),
}


def matrices(footprints=FOOTPRINTS):
    """Return the matrices by names, their parts as arrays of oxinp's; of columns drawn alike those of `footprints`."""
    lengths = power_law_lengths(NUM_ROWS, 15, np.random.default_rng(0))
    indptr = np.zeros(NUM_ROWS + 1, np.int32)
    np.cumsum(lengths, out=indptr[1:])
    rng, count = oxinp.random.default_rng(1), int(indptr[-1])
    data, pointers, drawn = rng.random(count), oxinp.array(indptr), rng.random(count)
    found = {f"{n}": (pointers, (drawn * n).astype(np.int32), data) for n in footprints}
    rows = oxinp.array(np.repeat(np.arange(NUM_ROWS, dtype=np.int32), lengths))
    coo = oxinp.sparse.coo_matrix((data, (rows, (drawn * drawn * NUM_ROWS).astype(np.int32))), shape=(NUM_ROWS,) * 2)
    skewed = coo.tocsr()
    indptr, indices, data = skewed.indptr, skewed.indices, skewed.data
    found["skewed"] = indptr, indices, data
    for n in FREE:  # as if the columns that are used most cost nothing
        found[f"{n} free"] = indptr, oxinp.where(indices < n, np.int32(0), indices), data
    return found


def kinds():
    """Return the ten kinds of matrices by names, as the cases of `sparse` have them."""
    made = Matrices(1)
    return {name: tuple(map(oxinp.array, _parts(made.kind(name, 10**6)))) for name in TEN_KINDS}


def _parts(matrix):
    return matrix.indptr, matrix.indices, matrix.data


def operation(name, module, make, **constants):
    """Return the operation that a plan of a kernel family computes, with constants of its module and of `types` set."""

    def plan(layouts, parameters):
        (indptr, indices, data, x), _ = layouts, parameters
        kept = {(each, key): getattr(each, key) for key in constants for each in (module, types) if hasattr(each, key)}
        try:
            for each, key in kept:
                setattr(each, key, constants[key])
            module.make.cache_clear()
            return make(indptr.size - 1, data.size, ops.product_types(indices, data, x))
        finally:
            for (each, key), value in kept.items():
                setattr(each, key, value)
            module.make.cache_clear()

    return ops.row(f"matvec, {name}", plan, ops.MATVEC.infer)


def variants():
    """Return operations that deal a matrix out by elements, by names."""
    names = ("ITEMS", "MIN_BLOCKS", "STREAMED", "STORED", "GATHERED")
    made = {name: dict(zip(names, constants, strict=True)) for name, constants in VARIANTS.items()}
    return {
        name: operation(name, merge, merge.plan, TILE=merge.BLOCK * constants["ITEMS"], **constants)
        for name, constants in made.items()
    }


def methods():
    """Return operations that deal a matrix out in every way there is, by names."""
    found = {"by elements": operation("by elements", merge, merge.plan)}
    for name, cache in (("", FIRST), (", past L1", PAST_L1)):
        found[f"stream{name}"] = operation(f"stream{name}", spmv, spmv.stream, STREAMED=cache)
    for lanes in (4, 8, 16):
        for unroll in (4, 8):
            which = f"{lanes} lanes, {unroll} elements"
            found[which] = operation(which, spmv, partial(spmv.rows, lanes=lanes), UNROLL=unroll)
    which = "8 lanes, vector evicted last"
    found[which] = operation(which, spmv, partial(spmv.rows, lanes=8), GATHERED="nc.L1::evict_last")
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


def is_uneven(indptr):
    """Return whether a matrix is dealt out by elements, which others would take far too long with."""
    return ops.is_uneven(indptr.size - 1, int(indptr[-1]), int(np.diff(indptr).max()))


def show(made, operations, by_elements, *, peer):
    """Print the table: a line per operation, a column per matrix; uneven ones for operations of some names alone."""
    x = oxinp.random.default_rng(2).random(NUM_ROWS)
    print(f"{'':28}" + "".join(f"{name[-12:]:>13}" for name in made))
    expected = {name: host(perform_on_device(ops.MATVEC, (*parts, x), (NUM_ROWS,))) for name, parts in made.items()}
    even = [name for name, (indptr, *_) in made.items() if not is_uneven(host(indptr))]
    for name, op in operations.items():
        line = []
        for which, parts in made.items():
            if which not in even and op.name not in by_elements:
                line.append(np.nan)
                continue
            taken, found = milliseconds(Ours, partial(perform_on_device, op, (*parts, x), (NUM_ROWS,)), REPETITIONS)
            np.testing.assert_allclose(
                host(found), expected[which], rtol=1e-11, atol=1e-12 * np.abs(expected[which]).max()
            )
            line.append(taken)
        print(f"{name:28}" + "".join(f"{taken:13.3f}" for taken in line), flush=True)
    if peer:
        print(f"{'CuPy':28}" + "".join(f"{taken:13.3f}" for taken in cupy_times(made)))


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition(":")[0])
    parser.add_argument("--peer", action="store_true")
    parser.add_argument("--kinds", action="store_true")
    parser.add_argument("--free", action="store_true")
    options = parser.parse_args()
    if options.kinds:
        show(kinds(), methods(), {"sparse.matvec, by elements"}, peer=options.peer)
    else:
        found = dict(list(variants().items())[: 1 if options.free else None])
        show(matrices(() if options.free else FOOTPRINTS), found, {op.name for op in found.values()}, peer=options.peer)


if __name__ == "__main__":
    main()

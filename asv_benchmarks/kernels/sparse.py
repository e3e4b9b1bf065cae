"""Sparse matrices on a GPU, right and how fast: ``python -m asv_benchmarks.kernels.sparse [REGEX] [--peer] [--quick]``.

Prints a line per case, the most important first: milliseconds per call of a run of calls, from the first one's start to
the device's idleness, warm; CuPy's (``--peer``, if it is installed), the ratio, and the share of the time that the
bytes of matrix and vectors take at the rate of a copy in the same run. Every result is compared with SciPy's: products
as they are, those of matrices, sums and conversions by their products with a vector, solvers by their iterate after a
few steps. ``--quick`` divides sizes by 16. Ends with status 1 if anything is wrong.
"""

import argparse
import importlib
import re
import sys
import time

import numpy as np
import scipy.sparse as sp

import oxinp
import oxinp.cuda
import oxinp.sparse
import oxinp.sparse.csgraph
import oxinp.sparse.linalg
from oxinp import _terminal

COPY_NBYTES = 1 << 30
TOLERANCE = 1e-10


# -- matrices, of NumPy's arrays ---------------------------------------------------------------------------------------


def laplacian(side, dimensions=2):
    """Return the 5- or 7-point Laplacian of a grid."""
    n = side**dimensions
    place = np.arange(n, dtype=np.int32)
    columns, values = [place], [np.full(n, 2.0 * dimensions)]
    for axis in range(dimensions):
        step = side**axis
        at = place // step % side
        columns[:0] = [np.where(at > 0, place - step, -1)]
        columns.append(np.where(at < side - 1, place + step, -1))
        values[:0] = [np.full(n, -1.0)]
        values.append(np.full(n, -1.0))
    table, values = np.stack(columns, 1), np.stack(values, 1)
    keep = table >= 0
    indptr = np.zeros(n + 1, np.int32)
    np.cumsum(keep.sum(1), out=indptr[1:])
    return sp.csr_matrix((values[keep], table[keep], indptr), shape=(n, n))


def from_lengths(lengths, width, rng, skew=1.0):
    """Return a matrix with rows of some lengths, before duplicates are added, and columns skewed towards the first."""
    rows = np.repeat(np.arange(lengths.size, dtype=np.int32), lengths)
    columns = np.minimum((width * rng.random(rows.size) ** skew).astype(np.int32), width - 1)
    made = oxinp.sparse.coo_matrix(
        (oxinp.array(rng.random(rows.size)), (oxinp.array(rows), oxinp.array(columns))), shape=(lengths.size, width)
    )
    return made.tocsr().get()


def power_law(n, mean, rng):
    lengths = np.minimum(n // 4, (mean * 0.32 * rng.pareto(1.5, n) + mean * 0.36).astype(np.int64))
    return from_lengths(lengths, n, rng, 2.0)


def banded(n, width):
    offsets = np.arange(-(width // 2), width // 2 + 1)
    return sp.diags([np.full(n - abs(k), 1.0 / (1 + abs(k))) for k in offsets], offsets, format="csr")


def ten_kinds(n, rng):
    """Return matrices of ten kinds, a few million elements each."""
    side = int(n**0.5)
    block = from_lengths(np.full(n // 16, 3), n // 16, rng)
    heavy = from_lengths(np.where(np.arange(n) == n // 3, n // 2, 8), n, rng)
    return {
        "laplacian 2-D": laplacian(side),
        "laplacian 3-D": laplacian(round(n ** (1 / 3)), 3),
        "random": from_lengths(np.full(n, 16), n, rng),
        "power-law": power_law(n, 12, rng),
        "banded": banded(n, 15),
        "block": sp.csr_matrix(sp.kron(block, np.ones((8, 8)))),
        "long rows": from_lengths(np.full(n // 64, 1024), n // 4, rng),
        "empty rows": from_lengths(np.where(np.arange(n) % 8, 0, 64), n, rng),
        "dense row": heavy,
        "rectangular": from_lengths(np.full(n // 4, 32), 2 * n, rng),
    }


# -- sides -------------------------------------------------------------------------------------------------------------


class Ours:
    """oxinp."""

    name, xp = "oxinp", oxinp
    sparse, linalg, csgraph = oxinp.sparse, oxinp.sparse.linalg, oxinp.sparse.csgraph

    @staticmethod
    def start(result):
        """Enqueue what is pending of a result, which would not run if nobody looked at it."""
        parts = result._arrays() if oxinp.sparse.issparse(result) else result if type(result) is tuple else (result,)
        oxinp.evaluate(*parts)

    @staticmethod
    def wait():
        oxinp.evaluate()
        oxinp.cuda.synchronize()


class CuPy:
    """CuPy."""

    name = "cupy"

    def __init__(self):
        self.xp = importlib.import_module("cupy")
        self.sparse = importlib.import_module("cupyx.scipy.sparse")
        self.linalg = importlib.import_module("cupyx.scipy.sparse.linalg")
        self.csgraph = importlib.import_module("cupyx.scipy.sparse.csgraph")

    def start(self, result):
        """Nothing: what it is asked for runs."""

    def wait(self):
        self.xp.cuda.Device().synchronize()


def moved(side, matrix, format_="csr"):
    """Return a matrix of SciPy's on a side's device."""
    if format_ == "coo":
        parts = (side.xp.asarray(matrix.data), (side.xp.asarray(matrix.row), side.xp.asarray(matrix.col)))
    else:
        parts = tuple(side.xp.asarray(part) for part in (matrix.data, matrix.indices, matrix.indptr))
    return getattr(side.sparse, f"{format_}_matrix")(parts, shape=matrix.shape)


def host(x):
    """Return an array of either side's as NumPy's."""
    return x.get() if hasattr(x, "get") else np.asarray(x)


def milliseconds(side, run, repetitions):
    """Return the time of a call in a run of them, the least of three runs, and what the last call gave."""
    result = run()
    side.wait()
    times = []
    for _ in range(3):
        start = time.perf_counter()
        for _ in range(repetitions):
            result = run()
            side.start(result)
        side.wait()
        times.append((time.perf_counter() - start) * 1e3 / repetitions)
    return min(times), result


# -- cases -------------------------------------------------------------------------------------------------------------


class Case:
    """One row: what runs on a side, the vector that it is judged by, the bytes that have to be moved.

    Parameters
    ----------
    name : str
    prepare : callable
        ``prepare(side)`` -> a callable without arguments.
    judge : callable
        ``judge(result)`` -> a vector of NumPy's.
    expected : callable
        SciPy's vector.
    nbytes : int
    repetitions : int
    """

    def __init__(self, name, prepare, judge, expected, nbytes=0, repetitions=20):
        self.name, self.prepare, self.judge, self.expected = name, prepare, judge, expected
        self.nbytes, self.repetitions = nbytes, repetitions


def nbytes_of(*parts):
    total = 0
    for part in parts:
        total += part.data.nbytes + part.indices.nbytes + part.indptr.nbytes if sp.issparse(part) else part.nbytes
    return total


def matvec_case(name, matrix, *, transposed=False):
    x = np.random.default_rng(5).random(matrix.shape[0 if transposed else 1])

    def prepare(side):
        a, v = moved(side, matrix), side.xp.asarray(x)
        return (lambda: a.T @ v) if transposed else (lambda: a @ v)

    expected = (lambda: matrix.T @ x) if transposed else (lambda: matrix @ x)
    return Case(name, prepare, host, expected, nbytes_of(matrix, x) + matrix.shape[0] * 8, 50)


def matmat_case(name, matrix, columns):
    b = np.random.default_rng(6).random((matrix.shape[1], columns))

    def prepare(side):
        a, dense = moved(side, matrix), side.xp.asarray(b)
        return lambda: a @ dense

    return Case(name, prepare, lambda c: host(c)[::97], lambda: matrix[::97] @ b, nbytes_of(matrix, b, b), 10)


def by_product(width):
    """Return what judges a sparse result by its product with a vector."""
    x = np.random.default_rng(7).random(width)

    def judge(result):
        made = result.get()
        return made @ x

    return judge, x


def sparse_case(name, compute, expected, width, nbytes, repetitions=5, **formats):
    """Return the case of a function of matrices; `formats` are the matrices, or (matrix, format)."""
    judge, x = by_product(width)

    def prepare(side):
        given = {key: moved(side, *(m if isinstance(m, tuple) else (m,))) for key, m in formats.items()}
        return lambda: compute(**given)

    return Case(name, prepare, judge, lambda: expected(x), nbytes, repetitions)


def solver_case(name, solver, matrix, options, repetitions=1):
    """Return the case of a fixed number of iterations; judged by the iterate after a few, which is to be SciPy's."""
    b = np.random.default_rng(8).random(matrix.shape[0])
    few = {**options, "maxiter": 1, "restart": 5} if "restart" in options else {**options, "maxiter": 10}

    def prepare(side):
        a, right = moved(side, matrix), side.xp.asarray(b)
        return lambda: getattr(side.linalg, solver)(a, right, **options)[0]

    def judge(x):
        assert np.isfinite(host(x)).all()
        return host(getattr(Ours.linalg, solver)(moved(Ours, matrix), Ours.xp.asarray(b), **few)[0])

    return Case(
        name,
        prepare,
        judge,
        lambda: getattr(importlib.import_module("scipy.sparse.linalg"), solver)(matrix, b, **few)[0],
        0,
        repetitions,
    )


def graph_case(name, run, expected, graph):
    def prepare(side):
        a = moved(side, graph)
        return lambda: run(side.csgraph, a)

    return Case(name, prepare, lambda result: host(result).astype(float), expected, nbytes_of(graph), 3)


def picker(matrix, rows):
    def prepare(side):
        a, numbers = moved(side, matrix), side.xp.asarray(rows)
        return lambda: a[numbers]

    return prepare


def cases(scale):
    """Yield the cases, the most important first; matrices are made when they are reached."""
    rng = np.random.default_rng(0)
    side = int((4 * 10**6 // scale) ** 0.5)
    a = laplacian(side)
    yield matvec_case("SpMV Laplacian 4M", a)
    yield sparse_case(
        "SpGEMM Laplacian 4M squared", lambda a: a @ a, lambda x: a @ (a @ x), a.shape[1], 864e6 / scale, a=a
    )
    yield solver_case("CG 1000 iterations, Laplacian 4M", "cg", a, {"rtol": 1e-30, "maxiter": 1000})
    graph = power_law(4 * 10**6 // scale, 15, rng)
    yield matvec_case("SpMV power-law 4M, 60M", graph)
    yield matvec_case("SpMV power-law transposed", graph, transposed=True)
    yield matvec_case("SpMV banded 4M", banded(4 * 10**6 // scale, 9))
    order = rng.permutation(graph.nnz)
    coo = graph.tocoo()
    coo = sp.coo_matrix((coo.data[order], (coo.row[order], coo.col[order])), shape=coo.shape)
    width, nbytes = graph.shape[1], 2 * nbytes_of(graph)
    yield sparse_case(
        "COO unsorted 60M to CSR", lambda a: a.tocsr(), lambda x: graph @ x, width, nbytes, 2, a=(coo, "coo")
    )
    del coo, order
    yield sparse_case("CSR to CSC 60M", lambda a: a.tocsc(), lambda x: graph @ x, width, nbytes, 2, a=graph)
    yield sparse_case(
        "A + A.T, Laplacian 4M", lambda a: a + a, lambda x: 2 * (a @ x), a.shape[1], 3 * nbytes_of(a), a=a
    )
    rows = rng.integers(0, graph.shape[0], graph.shape[0] // 2)
    picked = graph[rows]
    yield Case(
        "rows of power-law by numbers",
        picker(graph, rows),
        lambda result: np.array([result.nnz, float(result.data.sum())]),
        lambda: np.array([picked.nnz, picked.data.sum()]),
        2 * nbytes_of(picked),
        3,
    )
    for columns in (32, 128):
        yield matmat_case(f"SpMM Laplacian, {columns} columns", laplacian(side // 2), columns)
    yield solver_case("GMRES(30), 10 cycles", "gmres", a, {"rtol": 1e-30, "restart": 30, "maxiter": 10})
    yield solver_case("BiCGSTAB 200 iterations", "bicgstab", a, {"rtol": 1e-30, "maxiter": 200})
    coarse = np.arange(a.shape[0], dtype=np.int32) // 4
    p = sp.csr_matrix((np.ones(a.shape[0]), coarse, np.arange(a.shape[0] + 1, dtype=np.int32)))
    r = p.T.tocsr()
    yield sparse_case(
        "AMG triple product", lambda a, p, r: r @ (a @ p), lambda x: r @ (a @ (p @ x)), p.shape[1],
        2 * nbytes_of(a), a=a, p=p, r=r,
    )  # fmt: skip
    web = power_law(10**6 // scale, 6, rng)
    yield sparse_case("SpGEMM power-law 1M", lambda a: a @ a, lambda x: web @ (web @ x), web.shape[1], 0, 2, a=web)
    for name, matrix in ten_kinds(10**6 // scale, rng).items():
        yield matvec_case(f"ten kinds: SpMV {name}", matrix)
        left, right = (matrix, matrix) if matrix.shape[0] == matrix.shape[1] else (matrix, matrix.T.tocsr()[:, ::64])
        if name in ("long rows", "rectangular"):
            continue
        yield sparse_case(
            f"ten kinds: SpGEMM {name}", lambda a, b: a @ b, lambda x, a=left, b=right: a @ (b @ x), right.shape[1],
            0, 2, a=left, b=right,
        )  # fmt: skip
    connected = importlib.import_module("scipy.sparse.csgraph").connected_components
    yield graph_case(
        "connected components, 4M, 60M",
        lambda module, g: module.connected_components(g, directed=False)[1],
        lambda: connected(graph, directed=False)[1],
        graph,
    )


# -- running -----------------------------------------------------------------------------------------------------------


def copy_rate():
    """Return the bytes that a copy reads and writes per millisecond."""
    x = oxinp.ones(COPY_NBYTES // 8)
    taken, _ = milliseconds(Ours, x.copy, 10)
    return 2 * COPY_NBYTES / taken


def time_case(case, side):
    """Return the milliseconds of a side, None where it has no such function, and whether the result is right."""
    try:
        run = case.prepare(side)
    except AttributeError:
        return None, None
    try:
        taken, result = milliseconds(side, run, case.repetitions)
    except AttributeError:
        return None, None
    return taken, case.judge(result)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition(":")[0])
    parser.add_argument("regex", nargs="?", default="")
    parser.add_argument("--peer", action="store_true")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    peer = CuPy() if options.peer else None
    rate = copy_rate()
    wrong, ratios = 0, {}
    drawn = _terminal.Columns([44, 10, 10, 8, 9, 5], width=_terminal.columns(), right=range(1, 5), text=[])
    print(drawn.draw(["case", "oxinp ms", "cupy ms", "ratio", "of copy", ""]))
    for case in cases(16 if options.quick else 1):
        if not re.search(options.regex, case.name):
            continue
        ours, found = time_case(case, Ours)
        expected = case.expected()
        is_right = np.allclose(found, expected, rtol=TOLERANCE, atol=TOLERANCE * np.abs(expected).max())
        wrong += not is_right
        theirs = time_case(case, peer)[0] if peer else None
        ratio = "" if theirs is None else f"{theirs / ours:.2f}"
        share = f"{case.nbytes / rate / ours:.0%}" if case.nbytes else ""
        shown = "" if theirs is None else f"{theirs:.3f}"
        verdict = "" if is_right else "WRONG"
        print(drawn.draw([case.name, f"{ours:.3f}", shown, ratio, share, verdict]), flush=True)
        if theirs is not None and case.name.startswith("ten kinds"):
            ratios.setdefault(case.name.split()[2], []).append(theirs / ours)
    for name, values in ratios.items():
        mean, least = np.exp(np.mean(np.log(values))), min(values)
        print(f"ten kinds, {name}: geometric mean {mean:.2f}, least {least:.2f}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

"""Sparse matrices on a GPU, right and how fast: ``python -m asv_benchmarks.kernels.sparse [REGEX] [--peer] [...]``.

Prints a line per case, the most important first: milliseconds per call of a run of calls, from the first one's start to
the device's idleness, warm; CuPy's (``--peer``, if it is installed), the ratio, and the share of the time that the
bytes of matrix and vectors take at the rate of a copy in the same run. Every result is compared with SciPy's: products
as they are, those of matrices, sums and conversions by their products with a vector, solvers by their iterate after a
few steps or by what they say it solves. Functions that CuPy has not, or lacks another library for, are timed beside
SciPy's on the host, once, and say so.
``--quick`` divides sizes by 16, ``--steps`` prints what each kernel of a call takes. Ends with status 1 if anything is
wrong.
"""

import argparse
import importlib
import re
import sys
import time

import numpy as np
import scipy.sparse as sp
import scipy.sparse.csgraph
import scipy.sparse.linalg

import oxinp
import oxinp.cuda
import oxinp.sparse
import oxinp.sparse.csgraph
import oxinp.sparse.linalg
from asv_benchmarks.kernels.sparse_matrices import TEN_KINDS, Matrices, banded, laplacian
from oxinp import _terminal

COPY_NBYTES = 1 << 30
TOLERANCE = 1e-10
LACKS = re.compile("is not available$")
"""What CuPy says of a function that it leaves to a library which is not installed."""


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
    """Return the time of a call in a run of them, the least of three runs, and what the last call gave.

    What takes long runs once, after the first time, which compiles kernels.
    """
    result = run()
    side.start(result)
    side.wait()
    times = []
    for _ in range(3 if repetitions > 1 else 1):
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
    prepare : callable
        ``prepare(side)`` -> a callable without arguments.
    judge : callable
        ``judge(result)`` -> a vector of NumPy's.
    expected : callable
        SciPy's vector.
    nbytes : int
    repetitions : int
    tolerance : float
        Relative to the largest element.
    host : bool
        `expected` is what SciPy computes of the same: its time counts where there is no other.
    peer : bool
        The peer does it itself; else it asks SciPy, which takes as long.
    """

    def __init__(
        self, prepare, judge, expected, nbytes=0, repetitions=20, tolerance=TOLERANCE, *, host=False, peer=True
    ):
        self.prepare, self.judge, self.expected, self.nbytes = prepare, judge, expected, nbytes
        self.repetitions, self.tolerance, self.is_host_timed, self.has_peer = repetitions, tolerance, host, peer


def nbytes_of(*parts):
    total = 0
    for part in parts:
        total += part.data.nbytes + part.indices.nbytes + part.indptr.nbytes if sp.issparse(part) else part.nbytes
    return total


def matvec_case(matrix, *, transposed=False):
    x = np.random.default_rng(5).random(matrix.shape[0 if transposed else 1])

    def prepare(side):
        a, v = moved(side, matrix), side.xp.asarray(x)
        return (lambda: a.T @ v) if transposed else (lambda: a @ v)

    expected = (lambda: matrix.T @ x) if transposed else (lambda: matrix @ x)
    return Case(prepare, host, expected, nbytes_of(matrix, x) + matrix.shape[0] * 8, 50)


def matmat_case(matrix, columns):
    b = np.random.default_rng(6).random((matrix.shape[1], columns))

    def prepare(side):
        a, dense = moved(side, matrix), side.xp.asarray(b)
        return lambda: a @ dense

    return Case(prepare, lambda c: host(c)[::97], lambda: matrix[::97] @ b, nbytes_of(matrix, b, b), 10)


def by_product(width):
    """Return what judges a sparse result by its product with a vector."""
    x = np.random.default_rng(7).random(width)
    return lambda result: result.get() @ x, x


def sparse_case(compute, expected, width, nbytes, repetitions=5, **formats):
    """Return the case of a function of matrices; `formats` are the matrices, or (matrix, format)."""
    judge, x = by_product(width)

    def prepare(side):
        given = {key: moved(side, *(m if isinstance(m, tuple) else (m,))) for key, m in formats.items()}
        return lambda: compute(**given)

    return Case(prepare, judge, lambda: expected(x), nbytes, repetitions)


def product_case(a, b, nbytes=0, repetitions=5):
    return sparse_case(lambda a, b: a @ b, lambda x: a @ (b @ x), b.shape[1], nbytes, repetitions, a=a, b=b)


def kind_product_case(matrix):
    """Return the case of a square matrix squared, of another one times some columns of its transpose."""
    is_square = matrix.shape[0] == matrix.shape[1]
    return product_case(matrix, matrix if is_square else sp.csr_matrix(matrix[::64].T), 0, 2)


def solver_case(solver, matrix, options):
    """Return the case of a fixed number of iterations; judged by the iterate after a few, which is to be SciPy's."""
    b = np.random.default_rng(8).random(matrix.shape[0])
    few = {**options, "maxiter": 1, "restart": 6} if "restart" in options else {**options, "maxiter": 10}

    def prepare(side):
        a, right = moved(side, matrix), side.xp.asarray(b)
        mine = options
        if side is not Ours and "restart" in options:  # CuPy counts steps, not cycles
            mine = {**options, "maxiter": options["maxiter"] * options["restart"]}
        return lambda: getattr(side.linalg, solver)(a, right, **mine)[0]

    def judge(x):
        assert np.isfinite(host(x)).all()
        return host(getattr(Ours.linalg, solver)(moved(Ours, matrix), Ours.xp.asarray(b), **few)[0])

    return Case(prepare, judge, lambda: getattr(scipy.sparse.linalg, solver)(matrix, b, **few)[0], 0, 1)


def preconditioned_case(name, matrix):
    """Return the case of a system solved to 1e-8 by CG with a preconditioner of ours, whose making counts."""
    b = np.random.default_rng(9).random(matrix.shape[0])

    def prepare(side):
        make = getattr(side.linalg, name) if name else (lambda _: None)
        a, right = moved(side, matrix), side.xp.asarray(b)
        return lambda: side.linalg.cg(a, right, M=make(a), rtol=1e-8)[0]

    return Case(prepare, lambda x: matrix @ host(x), lambda: b, 0, 1, 1e-4)


def made_case(name, matrix):
    """Return the case of a preconditioner's making, judged by an application; of what multigrid solves, by little."""
    b = np.random.default_rng(9).random(matrix.shape[0])

    def prepare(side):
        a = moved(side, matrix)
        return lambda: getattr(side.linalg, name)(a)

    def judge(made):
        if not hasattr(made, "L"):
            return matrix @ host(Ours.linalg.cg(moved(Ours, matrix), oxinp.array(b), M=made, rtol=1e-8)[0])
        lower, upper = made.L.get(), made.U.get()
        found = host(made @ oxinp.array(b))
        return lower @ (upper @ found)

    return Case(prepare, judge, lambda: b, 0, 1, TOLERANCE if name != "smoothed_aggregation" else 1e-4)


def triangular_case(matrix, columns=0, *, is_new=False):
    """Return the case of triangular systems; `is_new` if nothing is known of the matrix, which is copied each time."""
    lower = sp.csr_matrix(sp.tril(matrix))
    b = np.random.default_rng(10).random((matrix.shape[0], columns) if columns else matrix.shape[0])

    def prepare(side):
        a, right = moved(side, lower), side.xp.asarray(b)
        return lambda: side.linalg.spsolve_triangular(a.copy() if is_new else a, right, lower=True)

    return Case(prepare, lambda x: lower @ host(x), lambda: b, nbytes_of(lower, b, b), 2)


def filled_case(n):
    """Return the case of a system of a graph without small separators, whose factors fill in, beside SciPy's."""
    graph = sp.random_array((n, n), density=5 / n, rng=0) + 10 * sp.eye_array(n)
    matrix, b = sp.csc_matrix(graph), np.random.default_rng(14).random(n)

    def prepare(side):
        a, right = moved(side, matrix, "csc"), side.xp.asarray(b)
        return lambda: side.linalg.spsolve(a, right)

    return Case(prepare, host, lambda: scipy.sparse.linalg.spsolve(matrix, b), 0, 3, host=True)


def factored_case(matrix, *, is_new):
    """Return the case of factors of a matrix and a system; `is_new` if nothing is known of it, beside SciPy's.

    CuPy has SciPy factorise it.
    """
    matrix, b = sp.csc_matrix(matrix), np.random.default_rng(15).random(matrix.shape[0])

    def prepare(side):
        a, right = moved(side, matrix, "csc"), side.xp.asarray(b)
        return lambda: side.linalg.splu(a.copy() if is_new else a).solve(right)

    def expected():
        return scipy.sparse.linalg.splu(matrix).solve(b)

    if is_new:
        return Case(prepare, host, expected, 0, 1, 1e-8, host=True, peer=False)
    return Case(prepare, lambda x: matrix @ host(x), lambda: b, 0, 1, 1e-8, peer=False)


def eigenvalue_case(solver, matrix, **options):
    def prepare(side):
        a = moved(side, matrix)
        return lambda: getattr(side.linalg, solver)(a, **options)

    def expected():
        return np.sort(getattr(scipy.sparse.linalg, solver)(matrix, **options))

    return Case(prepare, lambda w: np.sort(host(w)), expected, 0, 1, 1e-8)


def lobpcg_case(matrix):
    start = np.random.default_rng(11).random((matrix.shape[0], 10))
    options = {"largest": True, "maxiter": 30, "tol": 1e-30}

    def prepare(side):
        a, x = moved(side, matrix), side.xp.asarray(start)
        return lambda: side.linalg.lobpcg(a, x, **options)[0]

    return Case(
        prepare,
        lambda w: np.sort(host(w)),
        lambda: np.sort(scipy.sparse.linalg.eigsh(matrix, 10, which="LA", return_eigenvectors=False)),
        0,
        1,
        1e-2,
    )


def sampled_case(matrix, depth):
    rng = np.random.default_rng(12)
    x, y = rng.random((matrix.shape[0], depth)), rng.random((depth, matrix.shape[1]))

    def prepare(side):
        a, left, right = moved(side, matrix), side.xp.asarray(x), side.xp.asarray(y.T.copy())
        return lambda: side.sparse.sddmm(a, left, right.T)

    rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    some = np.arange(0, matrix.nnz, 101)

    def expected():
        return matrix.data[some] * np.einsum("ij,ij->i", x[rows[some]], y.T[matrix.indices[some]])

    return Case(prepare, lambda made: host(made.data)[some], expected, nbytes_of(matrix, matrix, x, y), 10)


def graph_case(run, graph):
    """Return the case of a function of graphs, timed beside SciPy's; `run` gets the module and the graph."""

    def prepare(side):
        a = moved(side, graph)
        return lambda: run(side.csgraph, a)

    def judge(result):
        found = np.asarray(result.get() if hasattr(result, "get") else result, float)
        return np.where(np.isfinite(found), found, -1)

    return Case(prepare, judge, lambda: judge(run(scipy.sparse.csgraph, graph)), nbytes_of(graph), 1, host=True)


def pick_case(matrix):
    rows = np.random.default_rng(13).integers(0, matrix.shape[0], matrix.shape[0] // 2)
    picked = matrix[rows]

    def prepare(side):
        a, numbers = moved(side, matrix), side.xp.asarray(rows)
        return lambda: a[numbers]

    return Case(
        prepare,
        lambda result: np.array([result.nnz, float(result.data.sum())]),
        lambda: np.array([picked.nnz, picked.data.sum()]),
        2 * nbytes_of(picked),
        3,
    )


def cases(scale):
    """Return the cases by name, the most important first; each is made by a call, and its matrices with it."""
    m = Matrices(scale)
    n = 4 * 10**6 // scale
    found = {
        "SpMV Laplacian 4M": lambda: matvec_case(m.laplacian),
        "SpGEMM Laplacian 4M squared": lambda: product_case(m.laplacian, m.laplacian, 864e6 / scale),
        "AMG triple product": lambda: sparse_case(
            lambda a, p, r: r @ (a @ p),
            lambda x: m.prolongator.T @ (m.laplacian @ (m.prolongator @ x)),
            m.prolongator.shape[1],
            2 * nbytes_of(m.laplacian),
            a=m.laplacian,
            p=m.prolongator,
            r=m.prolongator.T.tocsr(),
        ),
        "SpGEMM power-law 1M": lambda: product_case(m.web, m.web, 0, 2),
        "SpGEMM dense result, 2,000 columns": lambda: product_case(m.dense_product, m.dense_product, 0, 2),
        "CG 1000 iterations, Laplacian 4M": lambda: solver_case("cg", m.laplacian, {"rtol": 1e-30, "maxiter": 1000}),
        "SpMV power-law 4M, 60M": lambda: matvec_case(m.graph),
        "SpMV power-law transposed": lambda: matvec_case(m.graph, transposed=True),
        "SpMV banded 4M": lambda: matvec_case(banded(n, 9)),
        "A + A, Laplacian 4M": lambda: sparse_case(
            lambda a: a + a,
            lambda x: 2 * (m.laplacian @ x),
            m.laplacian.shape[1],
            3 * nbytes_of(m.laplacian),
            a=m.laplacian,
        ),
        "COO unsorted 60M to CSR": lambda: sparse_case(
            lambda a: a.tocsr(), lambda x: m.graph @ x, n, 2 * nbytes_of(m.graph), 2, a=(m.shuffled, "coo")
        ),
        "CSR to CSC 60M": lambda: sparse_case(
            lambda a: a.tocsc(), lambda x: m.graph @ x, n, 2 * nbytes_of(m.graph), 2, a=m.graph
        ),
        "rows of power-law by numbers": lambda: pick_case(m.graph),
        "SpMM Laplacian 1M, 32 columns": lambda: matmat_case(m.small_laplacian, 32),
        "SpMM Laplacian 1M, 128 columns": lambda: matmat_case(m.small_laplacian, 128),
        "SDDMM power-law 1M, depth 64": lambda: sampled_case(m.web, 64),
        "triangular solve, Laplacian 4M": lambda: triangular_case(m.laplacian),
        "triangular solve, a new matrix": lambda: triangular_case(m.laplacian, is_new=True),
        "triangular solve, Laplacian 1M, 32 columns": lambda: triangular_case(m.small_laplacian, 32),
        "GMRES(30), 10 cycles": lambda: solver_case(
            "gmres", m.laplacian, {"rtol": 1e-30, "restart": 30, "maxiter": 10}
        ),
        "BiCGSTAB 200 iterations": lambda: solver_case("bicgstab", m.laplacian, {"rtol": 1e-30, "maxiter": 200}),
        "ILU(0) of Laplacian 4M": lambda: made_case("ilu0", m.laplacian),
        "IC(0) of Laplacian 4M": lambda: made_case("ic0", m.laplacian),
        "multigrid of Laplacian 1M": lambda: made_case("smoothed_aggregation", m.small_laplacian),
        "CG to 1e-8, Laplacian 1M": lambda: preconditioned_case("", m.small_laplacian),
        "CG to 1e-8, Laplacian 1M, IC(0)": lambda: preconditioned_case("ic0", m.small_laplacian),
        "CG to 1e-8, Laplacian 1M, multigrid": lambda: preconditioned_case("smoothed_aggregation", m.small_laplacian),
        "eigsh, 10 of 250,000": lambda: eigenvalue_case("eigsh", m.symmetric, k=10, return_eigenvectors=False),
        "svds, 10 of 250,000": lambda: eigenvalue_case("svds", m.symmetric, k=10, return_singular_vectors=False),
        "lobpcg, 10 of 250,000": lambda: lobpcg_case(m.symmetric),
        "spsolve of a random graph, 2,000": lambda: filled_case(2000),
        "splu, Laplacian 250,000": lambda: factored_case(laplacian(int((250_000 // scale) ** 0.5)), is_new=True),
        "splu, Laplacian 250,000, again": lambda: factored_case(
            laplacian(int((250_000 // scale) ** 0.5)), is_new=False
        ),
        "splu, 3-D Laplacian 15,625": lambda: factored_case(
            laplacian(round((15_625 // scale) ** (1 / 3)), 3), is_new=True
        ),
        "connected components, 4M, 60M": lambda: graph_case(
            lambda module, g: module.connected_components(g, directed=False)[1], m.graph
        ),
        "breadth-first order, 4M, 60M": lambda: graph_case(
            lambda module, g: module.breadth_first_order(g, 0, return_predecessors=False), m.graph
        ),
        "shortest paths, 1M": lambda: graph_case(lambda module, g: module.dijkstra(g, indices=0), m.web),
    }
    for name in TEN_KINDS:
        found[f"ten kinds: SpMV {name}"] = lambda name=name: matvec_case(m.kind(name, 10**6))
    for name in TEN_KINDS:
        found[f"ten kinds: SpGEMM {name}"] = lambda name=name: kind_product_case(m.kind(name, 250_000))
    return found


# -- running -----------------------------------------------------------------------------------------------------------


def copy_rate():
    """Return the bytes that a copy reads and writes per millisecond."""
    x = oxinp.ones(COPY_NBYTES // 8)
    taken, _ = milliseconds(Ours, x.copy, 10)
    return 2 * COPY_NBYTES / taken


def time_case(case, side):
    """Return the milliseconds of a side, None where it has no such function, and the vector that it is judged by."""
    try:
        taken, result = milliseconds(side, case.prepare(side), case.repetitions)
    except (AttributeError, NotImplementedError, TypeError, RuntimeError) as error:
        if side is Ours or (type(error) is RuntimeError and not LACKS.search(str(error))):
            raise
        return None, None
    return taken, case.judge(result) if side is Ours else None


def print_steps(case):
    """Print the time of every kernel of a call, by names in the order of their first launches, and of all of it."""
    run = case.prepare(Ours)
    Ours.start(run())
    Ours.wait()
    with oxinp.cuda.profiler.profile() as profile:
        Ours.start(run())
        Ours.wait()
    kernels = [span for span in profile.spans if span.kind == "kernel"]
    for name in dict.fromkeys(span.name for span in kernels):
        taken = [span.seconds * 1e3 for span in kernels if span.name == name]
        print(f"    {name:40} {len(taken):4} {sum(taken):9.3f}")
    whole = max(span.begin + span.seconds for span in kernels) - min(span.begin for span in kernels)
    print(f"    {'from the first to the last, profiled':40} {len(kernels):4} {whole * 1e3:9.3f}", flush=True)


def run_case(case, peer):
    """Return the milliseconds of ours and of the other's, whether the result is right, and whether SciPy's are those.

    The other is the peer; SciPy on the host, where it computes the same, if there is no peer or it lacks the function.
    """
    ours, found = time_case(case, Ours)
    start = time.perf_counter()
    expected = case.expected()
    on_host = (time.perf_counter() - start) * 1e3 if case.is_host_timed else None
    is_right = found.shape == expected.shape and np.allclose(
        found, expected, rtol=case.tolerance, atol=case.tolerance * np.abs(expected).max()
    )
    theirs = time_case(case, peer)[0] if peer is not None and case.has_peer else None
    is_host = theirs is None and on_host is not None
    return ours, on_host if is_host else theirs, is_right, is_host


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition(":")[0])
    parser.add_argument("regex", nargs="?", default="")
    parser.add_argument("--peer", action="store_true")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--steps", action="store_true")
    options = parser.parse_args()
    peer = CuPy() if options.peer else None
    rate = copy_rate()
    wrong, ratios = 0, {}
    drawn = _terminal.Columns([44, 10, 10, 8, 9, 12], width=_terminal.columns(), right=range(1, 5), text=[])
    print(drawn.draw(["case", "oxinp ms", "other ms", "ratio", "of copy", ""]))
    for name, make in cases(16 if options.quick else 1).items():
        if not re.search(options.regex, name):
            continue
        case = make()
        ours, theirs, is_right, is_host = run_case(case, peer)
        wrong += not is_right
        ratio = "" if theirs is None else f"{theirs / ours:.2f}"
        share = f"{case.nbytes / rate / ours:.0%}" if case.nbytes else ""
        shown = "" if theirs is None else f"{theirs:.3f}"
        verdict = "" if is_right else "WRONG"
        verdict += " SciPy" if is_host else ""
        print(drawn.draw([name, f"{ours:.3f}", shown, ratio, share, verdict]), flush=True)
        if options.steps:
            print_steps(case)
        if theirs is not None and name.startswith("ten kinds"):
            ratios.setdefault(name.split()[2], []).append(theirs / ours)
    for name, values in ratios.items():
        mean, least = np.exp(np.mean(np.log(values))), min(values)
        print(f"ten kinds, {name}: geometric mean {mean:.2f}, least {least:.2f}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

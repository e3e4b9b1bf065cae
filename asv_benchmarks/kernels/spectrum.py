"""Eigenvalues and singular values on a GPU: right by LAPACK's test ratios, and how fast.

``python -m asv_benchmarks.kernels.spectrum [--quick] [--peer] [--steps] [--alternatives] [--cases REGEX]`` prints a
line per case: the median of device-event times over random data as one graph, of lines that begin with oxinp wall times
of the public function; the ratios of the residual and of orthogonality, of which LAPACK's own tests demand that they be
at most 30, over a part of the matrices; with ``--peer`` CuPy and PyTorch, where these are installed, of kernels the
faster one; with ``--steps`` the time of every kernel; and with ``--alternatives`` the graph's with other constants.
Ends with status 1 if anything is wrong.
"""

import argparse
import importlib
import importlib.util
import re
import statistics
import sys
import time

import numpy as np

from asv_benchmarks.kernels.lapack import RATIO, Bound, constants
from asv_benchmarks.kernels.plans import milliseconds, write
from oxinp._kernels.elementwise.plan import contiguous_strides
from oxinp._kernels.lapack import spectrum, tridiagonal_cluster
from oxinp._kernels.problem import Operand
from oxinp._ptx.types import from_dtype
from oxinp._runtime.cuda import open_backend

NUM_CHECKED = 40  # matrices of a stack
NUM_REPETITIONS = 5
LONG = 1500  # milliseconds, after which functions are not repeated

# name, matrices, rows, columns, dtype
QUICK = (
    ("eigh", 100, 5, 5, "f8"),
    ("eigh", 50, 32, 32, "f8"),
    ("eigh", 20, 32, 32, "c16"),
    ("eigh", 5, 100, 100, "f8"),
    ("eigh", 20, 40, 40, "f4"),
    ("svd", 100, 3, 3, "f4"),
    ("svd", 50, 32, 32, "f8"),
    ("svd", 20, 20, 30, "c8"),
    ("svd", 5, 90, 70, "f8"),
    ("eigh", 1, 150, 150, "f8"),
    ("eigh", 1, 700, 700, "f8"),
    ("eigh", 7, 140, 140, "f4"),
    ("eigh", 1, 400, 400, "c16"),
    ("eigh", 3, 200, 200, "c8"),
)
QUICK_COMPOSED = (
    ("svd", (150, 150), "f8", None),
    ("svd", (300, 50), "f4", None),
    ("lstsq", (1000, 20), "f8", (1000, 1)),
    ("qr", (40_000, 40), "f8", None),
    ("hessenberg", (300, 300), "f8", None),
    ("eig", (300, 300), "f8", None),
    ("pivoted qr", (300, 200), "f8", None),
)
CASES = (
    ("eigh", 10000, 32, 32, "f8"),
    ("svd", 10000, 32, 32, "f8"),
    ("eigvalsh", 10000, 32, 32, "f8"),
    ("svdvals", 10000, 32, 32, "f8"),
    ("eigh", 10000, 32, 32, "f4"),
    ("svd", 10000, 32, 32, "f4"),
    ("eigh", 100000, 8, 8, "f8"),
    ("svd", 100000, 8, 8, "f8"),
    ("eigh", 1000, 64, 64, "f8"),
    ("svd", 1000, 64, 64, "f8"),
    ("eigh", 1000, 128, 128, "f8"),
    ("svd", 1000, 96, 96, "f8"),
    ("eigh", 1000, 32, 32, "c16"),
    ("svd", 1000, 32, 32, "c16"),
    ("eigh", 1, 128, 128, "f8"),
    ("svd", 1, 96, 96, "f8"),
    ("eigh", 1, 256, 256, "f8"),
    ("eigh", 1, 512, 512, "f8"),
    ("eigh", 1, 1024, 1024, "f8"),
    ("eigh", 1, 4096, 4096, "f8"),
    ("eigvalsh", 1, 4096, 4096, "f8"),
    ("eigh", 1000, 256, 256, "f8"),
    ("eigh", 1, 1024, 1024, "c16"),
)
# Functions that are made of several operations, and wait for the device between: name, shape, dtype, another operand's.
COMPOSED = (
    ("svd", (1024, 1024), "f8", None),
    ("svd", (4096, 4096), "f8", None),
    ("svdvals", (1024, 1024), "f8", None),
    ("svdvals", (4096, 4096), "f8", None),
    ("svd", (100, 256, 256), "f8", None),
    ("svd", (1000, 256, 256), "f8", None),
    ("svdvals", (100, 256, 256), "f8", None),
    ("qr", (1_000_000, 64), "f8", None),
    ("lstsq", (1_000_000, 32), "f8", (1_000_000, 1)),
    ("pinv", (2048, 2048), "f8", None),
    ("det", (4096, 4096), "f8", None),
    ("expm", (1024, 1024), "f8", None),
    ("hessenberg", (2048, 2048), "f8", None),
    ("eig", (2048, 2048), "f8", None),
    ("eigvals", (2048, 2048), "f8", None),
    ("eig", (1024, 1024), "c16", None),
    ("pivoted qr", (2048, 2048), "f8", None),
    ("pivoted qr", (4096, 1024), "f8", None),
    ("solve_banded", (5, 100_000), "f8", (100_000, 512)),
    ("solve_banded", (3, 20_000), "f8", (20_000, 4096)),
)
# Of cases: constants of modules in the place of which others are measured beside the usual ones.
ALTERNATIVES = {
    f"eigh {dtype} 1x{n}x{n}": (
        {(tridiagonal_cluster, "HEIGHTS"): {8: (), 16: ()}},
        {(tridiagonal_cluster, "HEIGHTS"): {8: (20,), 16: (20,)}},
        {(tridiagonal_cluster, "NUM_THREADS"): 512},
        {(tridiagonal_cluster, "NUM_BLOCKS"): 8},
    )
    for dtype in ("f8", "c16")
    for n in (256, 512, 1024)
}
OF_SCIPY = {
    "hessenberg": lambda linalg: linalg.hessenberg,
    "solve_banded": lambda linalg: lambda a, b: linalg.solve_banded((len(a) // 2, len(a) // 2), a, b),
    "pivoted qr": lambda linalg: lambda a: linalg.qr(a, mode="economic", pivoting=True),
}
"""Functions that the peers on GPUs have not."""
HOSTED_PEERS = ("eig", "eigvals", *OF_SCIPY)
"""Functions of which NumPy, or SciPy, on the host is a peer."""


def adjoint(a):
    """Conjugate transposes."""
    return a.conj().swapaxes(-1, -2)


class Problem:
    """Matrices on the device, and what finds their spectrum."""

    def __init__(self, backend, rng, name, count, rows, columns, dtype):
        self.backend, self.name, self.has_vectors = backend, name, name in ("eigh", "svd")
        shape, real = (count, rows, columns), np.dtype(dtype.lower().replace("c16", "f8").replace("c8", "f4"))
        self.a = rng.standard_normal(shape).astype(dtype)
        if self.a.dtype.kind == "c":
            self.a += 1j * rng.standard_normal(shape)
        self.is_hermitian = name.startswith("eig")
        if self.is_hermitian:
            self.a = self.a + adjoint(self.a)
        depth = min(rows, columns)
        values, status = np.empty((count, depth), real), np.zeros(2, np.int64)
        if not self.has_vectors:
            self.outputs = [values, status]
        elif self.is_hermitian:
            self.outputs = [values, np.empty_like(self.a), status]
        else:
            u, vh = np.empty((count, rows, depth), dtype), np.empty((count, depth, columns), dtype)
            self.outputs = [u, values, vh, status]
        self.held = [backend.allocate(x.nbytes) for x in (*self.outputs, self.a)]
        backend.upload(self.held[-1].ptr, self.a)
        operand = Operand(from_dtype(self.a.dtype), contiguous_strides(shape))
        self.operand = operand
        self.bind()

    def bind(self):
        """Plan, and bind the plan."""
        plan = (spectrum.plan_eigh if self.is_hermitian else spectrum.plan_svd)(
            self.a.shape, self.operand, self.backend.capability, has_vectors=self.has_vectors
        )
        pointers = [buffer.ptr for buffer in self.held]
        self.bound = Bound(self.backend, plan, pointers[:-1], pointers[-1:])

    def ratio(self):
        """The larger of residual and orthogonality over what LAPACK's are of; of values, their error."""
        for buffer, array in zip(self.held, self.outputs, strict=False):
            self.backend.upload(buffer.ptr, np.full_like(array, 77))
        self.bound.graphed()
        self.backend.synchronize()
        for buffer, array in zip(self.held, self.outputs, strict=False):
            self.backend.download(array, buffer.ptr)
        if self.outputs[-1].tolist() != [-1, 0]:  # what failed, and vectors that are zero
            return float("inf")
        chosen = np.unique(np.linspace(0, len(self.a) - 1, NUM_CHECKED).astype(int))
        a, found = self.a[chosen], [x[chosen] for x in self.outputs[:-1]]
        eps = max(a.shape[-2:]) * np.finfo(a.dtype).eps
        if not self.has_vectors:
            right = np.linalg.eigvalsh(a) if self.is_hermitian else np.linalg.svdvals(a)
            return float(np.max(np.abs(right - found[0]) / np.abs(right).max(axis=-1, keepdims=True)) / eps)
        if self.is_hermitian:
            w, v = found
            difference, bases = a @ v - v * w[:, None], [v]
            is_ordered = (np.diff(w) >= 0).all()
        else:
            u, s, vh = found
            difference, bases = a - u * s[:, None] @ vh, [u, adjoint(vh)]
            is_ordered = (np.diff(s) <= 0).all()
        ratios = [np.max(_norm(difference) / (eps * _norm(a)))]
        ratios += [np.max(_norm(adjoint(q) @ q - np.eye(q.shape[-1]))) / eps for q in bases]
        return float(max(ratios)) if is_ordered else float("inf")


def _norm(array):
    return np.linalg.norm(array, 1, axis=(-2, -1))


def measure_peer(package, problem):
    """Milliseconds of a peer's function on the same data; NaN where it refuses."""
    module = importlib.import_module(package)
    if package == "cupy":
        a, event = module.asarray(problem.a), module.cuda.Event
        wait = module.cuda.get_elapsed_time
    else:
        a, event = module.from_numpy(problem.a).cuda(), lambda: module.cuda.Event(enable_timing=True)
        wait = lambda begin, end: begin.elapsed_time(end)  # noqa: E731
    name = problem.name
    functions = {
        "eigh": module.linalg.eigh,
        "eigvalsh": module.linalg.eigvalsh,
        "svd": lambda x: module.linalg.svd(x, full_matrices=False),
        "svdvals": lambda x: module.linalg.svd(x, compute_uv=False) if package == "cupy" else module.linalg.svdvals(x),
    }
    times = []
    while len(times) < NUM_REPETITIONS and (not times or sum(times) < LONG):
        begin, end = event(), event()
        begin.record()
        functions[name](a)
        end.record()
        end.synchronize()
        times.append(wait(begin, end))
    return statistics.median(times[len(times) // 2 :])


def composed(package, name):
    """The function of a package: of SciPy's names those of its own kind, where it has them."""
    module = importlib.import_module(package)
    if name == "svd":
        return lambda a: module.linalg.svd(a, full_matrices=False)
    if name == "svdvals" and package == "cupy":
        return lambda a: module.linalg.svd(a, compute_uv=False)
    if name == "lstsq":
        return (lambda a, b: module.linalg.lstsq(a, b, rcond=None)) if package != "torch" else module.linalg.lstsq
    if name == "expm":
        paths = {"oxinp": "oxinp.scipy.linalg", "cupy": "cupyx.scipy.linalg", "torch": "torch.linalg"}
        functions = importlib.import_module(paths[package])
        return functions.matrix_exp if package == "torch" else functions.expm
    if name in OF_SCIPY:
        return OF_SCIPY[name](importlib.import_module("oxinp.scipy.linalg" if package == "oxinp" else "scipy.linalg"))
    return getattr(module.linalg, name)


def wall_milliseconds(package, name, arrays):
    """Median of a function's time from the call to the end of the device's work, and the last result."""
    module = importlib.import_module(package)
    if package == "torch":
        given, wait = [module.from_numpy(x).cuda() for x in arrays], module.cuda.synchronize
    elif package == "numpy":
        given, wait = arrays, lambda: None
    else:
        given = [module.asarray(x) for x in arrays]
        wait = module.cuda.synchronize if package == "oxinp" else module.cuda.Device().synchronize
    function, times = composed(package, name), []
    if package == "oxinp":
        module.evaluate(*given)
        result = function(*given)  # kernels are compiled
        module.evaluate(*(result if isinstance(result, tuple) else (result,)))
    while len(times) < NUM_REPETITIONS and (not times or sum(times) < LONG):
        wait()
        start = time.perf_counter()
        result = function(*given)
        if package == "oxinp":
            module.evaluate(*(result if isinstance(result, tuple) else (result,)))
        wait()
        times.append((time.perf_counter() - start) * 1e3)
    return statistics.median(times[len(times) // 2 :]), result


def composed_ratio(name, arrays, result):
    """LAPACK's ratio of what oxinp gave; 0 for functions whose own tests say enough."""
    a = arrays[0]
    eps = max(a.shape[-2:]) * np.finfo(a.dtype).eps
    if name == "svd":
        u, s, vh = (np.asarray(x) for x in result)
        ratios = [_norm(a - u * s[..., None, :] @ vh) / _norm(a)]
        ratios += [_norm(adjoint(q) @ q - np.eye(q.shape[-1])) for q in (u, adjoint(vh))]
        return float(max(np.max(x) for x in ratios) / eps)
    if name in ("qr", "pivoted qr"):
        q, r, *columns = (np.asarray(x) for x in result)
        a = a[:, columns[0]] if columns else a
        is_upper = not np.tril(r, -1).any()
        ratios = [_norm(a - q @ r) / _norm(a), _norm(adjoint(q) @ q - np.eye(q.shape[-1]))]
        return float(max(ratios) / eps) if is_upper else float("inf")
    if name == "eig":
        w, v = (np.asarray(x) for x in result)
        return float(np.max(_norm(a @ v - v * w)) / (np.max(_norm(a)) * eps))
    if name in ("eigvals", "hessenberg"):
        made = np.asarray(result)
        traces = [np.sum(made), np.trace(a)] if name == "eigvals" else [np.trace(made), np.trace(a)]
        return float(abs(traces[0] - traces[1]) / (np.linalg.norm(a) * eps))
    if name == "svdvals":
        right = np.linalg.svdvals(a)
        return float(np.max(np.abs(right - np.asarray(result))) / right.max() / eps)
    if name == "solve_banded":
        x, half = np.asarray(result)[:, :4], len(a) // 2
        difference, size = arrays[1][:, :4].copy(), 0
        for i in range(-half, half + 1):  # of every diagonal: A[row, row + i]
            rows = slice(max(0, -i), min(len(x), len(x) - i))
            terms = a[half - i, rows.start + i : rows.stop + i, None] * x[rows.start + i : rows.stop + i]
            difference[rows] -= terms
            size = max(size, np.abs(terms).max())
        return float(np.abs(difference).max() / (size * len(a) * np.finfo(a.dtype).eps))
    if name == "lstsq":
        left = adjoint(a) @ (arrays[1] - a @ np.asarray(result[0]))
        return float(np.linalg.norm(left) / (np.linalg.norm(a) ** 2 * np.linalg.norm(np.asarray(result[0])) * eps))
    return 0.0


def main(arguments):
    """Check, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small cases only")
    parser.add_argument("--peer", action="store_true", help="measure CuPy and PyTorch as well")
    parser.add_argument("--steps", action="store_true", help="say which kernels take how long")
    parser.add_argument("--alternatives", action="store_true", help="measure other values of constants as well")
    parser.add_argument("--cases", default="", help="a regular expression of the lines that are wanted")
    options = parser.parse_args(arguments)
    backend, rng, is_right = open_backend(), np.random.default_rng(), True
    known = [name for name in ("cupy", "torch") if options.peer and importlib.util.find_spec(name) is not None]
    for name, count, rows, columns, dtype in QUICK if options.quick else CASES:
        title = f"{name} {dtype} {count}x{rows}x{columns}"
        if not re.search(options.cases, title):
            continue
        problem = Problem(backend, rng, name, count, rows, columns, dtype)
        ratio = problem.ratio()
        is_right &= ratio <= RATIO
        whole = milliseconds(backend, problem.bound.graphed, 5)
        line = f"{title:28s} {whole:9.3f} ms of {len(problem.bound.calls)} steps, ratio {ratio:.3g}"
        times = {package: measure_peer(package, problem) for package in known}
        if times:
            best = min(times, key=times.get)
            line += f"; {best} {times[best]:9.3f} ms, {times[best] / whole:5.2f}x"
        write(line)
        if options.steps:
            write("    " + problem.bound.by_kernel())
        for changes in ALTERNATIVES.get(title, ()) if options.alternatives else ():
            with constants(changes) as told:
                problem.bind()
            ratio = problem.ratio()
            is_right &= ratio <= RATIO
            write(f"    {milliseconds(backend, problem.bound.graphed, 5):9.3f} ms, ratio {ratio:.3g}: {told}")
        del problem
    for name, shape, dtype, other in QUICK_COMPOSED if options.quick else COMPOSED:
        title = f"oxinp {name} {dtype} {'x'.join(map(str, shape))}"
        if not re.search(options.cases, title):
            continue
        scale = 1 / np.sqrt(shape[-1]) if name in ("expm", "det") else 1
        arrays = [(rng.standard_normal(given) * scale).astype(dtype) for given in (shape, other) if given is not None]
        whole, result = wall_milliseconds("oxinp", name, arrays)
        ratio = composed_ratio(name, arrays, result)
        is_right &= ratio <= RATIO
        line = f"{title:32s} {whole:9.3f} ms, ratio {ratio:.3g}"
        others = [x for x in known if name not in OF_SCIPY and (x, name[:3]) != ("cupy", "eig")]
        others += ["numpy"] if known and name in HOSTED_PEERS else []
        times = {package: wall_milliseconds(package, name, arrays)[0] for package in others}
        line += "".join(f"; {package} {found:9.3f} ms, {found / whole:5.2f}x" for package, found in times.items())
        write(line)
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

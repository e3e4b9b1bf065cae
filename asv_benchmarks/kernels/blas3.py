"""Products with their own transpose and triangular systems on a GPU: right, and how fast.

``python -m asv_benchmarks.kernels.blas3 [--peer] [--sizes N ...] [--types f8 ...]`` prints a line per operation, type
and size: the median of device-event times over random data as a rate (of the operations that a triangle needs), the
largest difference from the whole product or residual in units of what rounding may leave, and with ``--peer`` the rate
of cuBLAS through CuPy, if that is installed. Ends with status 1 if anything is wrong.
"""

import argparse
import importlib
import statistics
import sys

import numpy as np

from asv_benchmarks.kernels.plans import Prepared, milliseconds, write
from oxinp._kernels.blas3 import plan as blas3
from oxinp._kernels.blas3.plan import TriangularSystem
from oxinp._kernels.gemm.operand import TRIANGULAR, Form, Matrices
from oxinp._ptx.types import from_dtype
from oxinp._runtime.cuda import open_backend

LOWER = Form(TRIANGULAR, is_lower=True)
NUM_ROWS = 16  # of a result that are checked


def flops(name, n, dtype):
    """Operations of one problem of n x n matrices."""
    whole = 2 * n**3 * (4 if dtype.kind == "c" else 1)
    return whole if name == "gram" else whole / 2


class Problem:
    """Operands on the device, launches, and the check of what they leave."""

    def __init__(self, backend, name, n, dtype, rng):
        self.backend, self.name, self.n, self.dtype = backend, name, n, dtype
        a, b = (self.draw(rng) for _ in range(2))
        if name == "trsm":
            a = a / n + np.eye(n, dtype=dtype)
        self.a, self.b = a.astype(dtype), b
        self.buffers = [backend.allocate(a.nbytes) for _ in range(3)]
        self.upload()
        matrices, capability = Matrices(from_dtype(dtype), (n, 1), 256), backend.capability
        c, left, right = (buffer.ptr for buffer in self.buffers)
        if name == "trsm":
            plan = blas3.plan_solve(TriangularSystem((n, n), matrices, LOWER, True, n, 256), capability)
            self.launch = Prepared(backend, plan, [c], [left])
            return
        is_mirrored = name == "gram"
        plan = blas3.plan_rank_k((n, n), n, matrices, capability, is_lower=True, is_mirrored=is_mirrored)
        self.launch = Prepared(backend, plan, [c], [left, right])

    def draw(self, rng):
        x = rng.standard_normal((self.n, self.n), np.float32)
        return (x + 1j * rng.standard_normal(x.shape, np.float32) if self.dtype.kind == "c" else x).astype(self.dtype)

    def upload(self):
        for buffer, array in zip(self.buffers[:3], (self.b, self.a, self.b), strict=True):
            self.backend.upload(buffer.ptr, array)

    def worst(self, rng):
        """Largest error in units of what is allowed, of some rows."""
        self.upload()
        self.launch()
        self.backend.synchronize()
        found = np.empty_like(self.b)
        self.backend.download(found, self.buffers[0].ptr)
        rows = rng.choice(self.n, NUM_ROWS, replace=False)
        wide = np.complex128 if self.dtype.kind == "c" else np.float64
        a, other = self.a, found if self.name == "trsm" else self.b
        if self.name == "trsm":
            left, counts = np.tril(a)[rows], True
        else:
            left, other, counts = a[rows], a.T, self.name == "gram" or np.arange(self.n) <= rows[:, None]
        exact = left.astype(wide) @ other.astype(wide)
        bound = np.abs(left).astype(np.float64) @ np.abs(other) * np.finfo(self.dtype).eps * np.sqrt(self.n) * 4
        result = self.b[rows] if self.name == "trsm" else found[rows]
        return float((np.abs(np.where(counts, result - exact, 0)) / bound).max())


def measure_peer(name, n, dtype):
    """Milliseconds of cuBLAS."""
    cupy = importlib.import_module("cupy")
    cublas, linalg = importlib.import_module("cupy.cublas"), importlib.import_module("cupyx.scipy.linalg")
    real = np.dtype(dtype.char.lower())
    a, b = (cupy.random.standard_normal((n, n)).astype(real) for _ in range(2))
    if dtype.kind == "c":
        a, b = a + 1j * b, b + 1j * a
    if name == "trsm":
        a, b = cupy.asfortranarray(a / n + cupy.eye(n, dtype=dtype)), cupy.asfortranarray(b)
    work = {
        "syrk": lambda: cublas.syrk("N", a, lower=True),
        "trsm": lambda: linalg.solve_triangular(a, b, lower=True, overwrite_b=True, check_finite=False),
        "gram": lambda: a @ a.T,
    }[name]
    times = []
    for _ in range(13):
        begin, end = (cupy.cuda.Event() for _ in range(2))
        begin.record()
        work()
        end.record()
        end.synchronize()
        times.append(cupy.cuda.get_elapsed_time(begin, end))
    return statistics.median(times[3:])


def main(arguments):
    """Check, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--peer",
        action="store_true",
        help="measure CuPy as well (A @ A.T beside gram, which counts whole)",
    )
    parser.add_argument("--sizes", type=int, nargs="+", default=[1024, 4096, 8192])
    parser.add_argument("--types", nargs="+", default=["f8", "f4", "c16", "c8"])
    parser.add_argument("--names", nargs="+", default=["gram", "syrk", "trsm"])
    options = parser.parse_args(arguments)
    backend, rng, is_right = open_backend(), np.random.default_rng(), True
    for dtype in map(np.dtype, options.types):
        for name in options.names:
            for n in options.sizes:
                problem = Problem(backend, name, n, dtype, rng)
                worst = problem.worst(rng)
                is_right &= worst <= 1
                rate = flops(name, n, dtype) / milliseconds(backend, problem.launch, 5) * 1e-9
                count = len(problem.launch.launches)
                line = f"{name} {dtype} {n:6d}: {rate:7.2f} TFLOP/s, {count} launches, error {worst:.3f}"
                if options.peer:
                    line += f"; cuBLAS {flops(name, n, dtype) / measure_peer(name, n, dtype) * 1e-9:7.2f}"
                write(line)
                del problem
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

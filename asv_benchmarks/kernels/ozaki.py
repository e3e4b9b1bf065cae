"""Checks and times products by the Ozaki scheme on a GPU: ``python -m asv_benchmarks.kernels.ozaki [--peer]``.

First, for data of every kind, it prints the largest error of `matmul`, in units of 2**-53 |A| |B|, beside that of
chains of fused multiply-adds; two runs have to give the same bits. Then rates, from device events around all launches
of a product of random operands. ``--peer`` adds CuPy's, ``--workspaces`` compares sizes of the workspace instead. It
exits with status 1 if an error is above that of multiply-adds, or if the guard chose the wrong kernel.
"""

import argparse
import importlib
import sys
import time
from collections import Counter
from functools import partial

import numpy as np

from asv_benchmarks.kernels.fp16x2 import Run
from asv_benchmarks.kernels.multistage import measure_peer
from asv_benchmarks.kernels.plans import milliseconds, write
from oxinp._kernels.gemm import select
from oxinp._kernels.gemm.ozaki import cost as ozaki_cost
from oxinp._ptx.types import from_dtype
from oxinp._runtime.cuda import open_backend
from tests.kernels.gemm.ozaki.case import CASES, FIT, UNFIT, Reference, draw

SHAPE = (1100, 1031, 1909)
SIZES = {np.float64: [2048, 3072, 4096, 6144, 8192, 16384], np.complex128: [1024, 2048, 4096, 8192]}
WORKSPACES = [4 << 30, 1 << 30, 1 << 28]
DEEP = (2048, 2048, 1 << 17)
FLAG, COUNT = 0, 64  # words of the workspace


class OzakiRun(Run):
    """One product on the device, its launches prepared."""

    def __init__(self, backend, a, b, transposed=(False, False), workspace_nbytes=4 << 30):
        self.plan = partial(select.plan_ozaki, workspace_nbytes=workspace_nbytes)
        super().__init__(backend, a, b, transposed)


def read(run):
    """The flag, and the number of moduli."""
    words = np.empty(COUNT + 1, np.int32)
    run.backend.synchronize()
    run.backend.download(words, run.launch.scratch.ptr)
    return int(words[FLAG]), int(words[COUNT])


def check(backend, case, transposed, rng, cupy, dtype=np.float64):
    """Print a line; whether all is well."""
    a, b = draw(case, rng, *SHAPE, dtype)
    run = OzakiRun(backend, a, b, transposed)
    results = []
    for _ in range(2):
        run.fetch()
        run.launch()
        results.append(run.fetch())
    is_unfit, count = read(run)
    name = case.__name__
    run.launch_chain()
    reference = Reference(a, b, slice(None, None, 37), slice(None, None, 31))
    error, fallback = reference.error(results[0]), reference.error(run.fetch())
    peer = ""
    if cupy is not None:
        peer = f", cupy {reference.error(cupy.asnumpy(cupy.asarray(a) @ cupy.asarray(b))):8.3f}"
    is_right = np.array_equal(*results, equal_nan=True)
    is_right &= error <= max(fallback, 1)
    is_right &= not (is_unfit and name in FIT) and not (not is_unfit and name in UNFIT)
    way = "fallback" if is_unfit else f"{count} moduli"
    majors = "".join("nt"[x] for x in transposed)
    verdict = "" if is_right else "  WRONG"
    write(
        f"{a.dtype!s:10s} {name:12s} {SHAPE!s:18s} {majors} {way:9s}: {error:8.3f}, multiply-adds {fallback:8.3f}{peer}"
        f"{verdict}"
    )
    return is_right


def measure(backend, size, transposed, rng, dtype=np.float64):
    """Print a line; whether some elements are right."""
    a, b = draw(CASES[0], rng, size, size, size, dtype)
    run = OzakiRun(backend, a, b, transposed)
    flops = (8 if a.dtype.kind == "c" else 2) * size**3
    rate = flops / milliseconds(backend, run.launch, 7) * 1e-9
    result = run.fetch()
    fallback = flops / milliseconds(backend, run.launch_multistage, 3) * 1e-9
    reference = Reference(a, b, *[np.sort(rng.choice(size, num, replace=False)) for num in (16, 64)])
    error, other = reference.error(result), reference.error(run.fetch())
    parts = Counter()
    for name, launch in run.launches:
        parts[name] += milliseconds(backend, launch, 3) * 1e3
    expected = ozaki_cost.expected_gain(from_dtype(dtype), size, size, size, 4 << 30)
    listed = ", ".join(f"{name} {microseconds:.0f}" for name, microseconds in parts.items())
    majors = "".join("nt"[x] for x in transposed)
    write(
        f"{a.dtype!s:10s} {size:5d} {majors}: {rate:6.1f} TFLOP/s, multiply-adds {fallback:5.1f}, "
        f"gain {rate / fallback:.2f} ({expected:.2f} expected); errors {error:.3f}, {other:.3f}; "
        f"workspace {run.workspace:.2f} of the operands; us: {listed}"
    )
    return error <= other


def measure_workspaces(backend, shape, rng, cupy, dtype):
    """Print a line for each size of the workspace; whether all of it is right, and the same."""
    a, b = draw(CASES[0], rng, *shape, dtype)
    m, n, depth = shape
    flops = (8 if a.dtype.kind == "c" else 2) * m * n * depth
    reference = Reference(
        a, b, *[np.sort(rng.choice(extent, num, replace=False)) for extent, num in ((m, 16), (n, 32))]
    )
    first, is_right = None, True
    for nbytes in WORKSPACES:
        run = OzakiRun(backend, a, b, workspace_nbytes=nbytes)
        run.fetch()
        rate = flops / milliseconds(backend, run.launch, 5) * 1e-9
        result = run.fetch()
        first = result if first is None else first
        is_same = np.array_equal(first, result)
        taken = run.launch.scratch.nbytes
        is_right &= is_same and taken <= nbytes
        config, gain = (
            f(from_dtype(dtype), *shape, nbytes) for f in (ozaki_cost.best_block_sizes, ozaki_cost.expected_gain)
        )
        verdict = "same bits" if is_same else "OTHER BITS"
        write(
            f"{a.dtype!s:10s} {shape!s:22s} {nbytes >> 20:5d} MiB: {rate:6.1f} TFLOP/s (expected gain {gain:.2f}), "
            f"{len(run.launches)} launches, blocks of {tuple(config)}, {taken / nbytes:.3f} taken, {verdict}"
        )
    fallback = flops / milliseconds(backend, run.launch_multistage, 2) * 1e-9
    error, other = reference.error(first), reference.error(run.fetch())
    peer = ""
    if cupy is not None:
        run = None
        x, y = cupy.asarray(a), cupy.asarray(b)
        peer = f", cupy {flops / peer_ms(cupy, x, y) * 1e-9:.1f}, error {reference.error((x @ y).get()):.3f}"
    write(f"{a.dtype!s:10s} {shape!s:22s} error {error:.3f}; multiply-adds {fallback:.1f}, error {other:.3f}{peer}")
    return is_right and error <= other


def peer_ms(cupy, a, b, num=3):
    """Return the milliseconds of CuPy's product, the least of some."""
    out = a @ b
    times = []
    for _ in range(num):
        begin, end = cupy.cuda.Event(), cupy.cuda.Event()
        begin.record()
        cupy.matmul(a, b, out=out)
        end.record()
        end.synchronize()
        times.append(cupy.cuda.get_elapsed_time(begin, end))
    return min(times)


def check_deep(backend, rng):
    """Whether a product of integers is exact where sums of bytes' products would leave 32 bits; prints a line."""
    shape, depth = (1100, 1060), 140_001
    a, b = (rng.integers(-(2**14), 2**15, extents) for extents in ((shape[0], depth), (depth, shape[1])))
    run = OzakiRun(backend, a.astype(np.float64), b.astype(np.float64))
    run.fetch()
    run.launch()
    rows, columns = slice(None, None, 97), slice(None, None, 89)
    is_right = np.array_equal(run.fetch()[rows, columns], a[rows] @ b[:, columns])
    write(f"integers {shape}, K {depth}, {read(run)[1]} moduli: {'exact' if is_right else 'WRONG'}")
    return is_right


def peer_rate(dtype, size):
    """CuPy's, in TFLOP/s."""
    rate = measure_peer(dtype, size)
    return 4 * rate if np.dtype(dtype).kind == "c" else rate


def main(arguments):
    """Check, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peer", action="store_true", help="measure CuPy as well")
    parser.add_argument("--dtypes", nargs="*", default=[dtype.__name__ for dtype in SIZES], help="float64, complex128")
    parser.add_argument("--least", type=int, default=1, help="the smallest size that is measured")
    parser.add_argument("--most", type=int, default=1 << 20, help="the largest size that is measured")
    parser.add_argument("--workspaces", action="store_true", help="only compare sizes of the workspace, and large K")
    options = parser.parse_args(arguments)
    backend, rng = open_backend(), np.random.default_rng(11)
    cupy = importlib.import_module("cupy") if options.peer else None
    begin = time.perf_counter()
    select.MIN_OZAKI_GAIN = 0
    is_right = True
    if options.workspaces:
        is_right &= check_deep(backend, rng)
        for shape, dtype in ((8192,) * 3, np.float64), (DEEP, np.float64), ((4096,) * 3, np.complex128):
            is_right &= measure_workspaces(backend, shape, rng, cupy, dtype)
        SIZES.clear()
    for dtype, sizes in SIZES.items():
        if dtype.__name__ not in options.dtypes:
            continue
        for number, case in enumerate(CASES):
            is_right &= check(backend, case, (bool(number & 1), bool(number & 2)), rng, cupy, dtype)
        write(f"checked in {time.perf_counter() - begin:.1f} s")
        for size in sizes:
            if options.least <= size <= options.most:
                is_right &= measure(backend, size, (False, False), rng, dtype)
                if options.peer:
                    write(f"cupy {size}: {peer_rate(dtype, size):.1f} TFLOP/s")
        is_right &= measure(backend, 4096, (True, True), rng, dtype)
    write(f"{'right' if is_right else 'WRONG'}, {time.perf_counter() - begin:.1f} s")
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

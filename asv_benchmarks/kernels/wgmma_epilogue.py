"""Epilogues of the wgmma kernels on a GPU: right, and what they cost.

``python -m asv_benchmarks.kernels.wgmma_epilogue [--peer]``

First every recipe of `tests.kernels.gemm.sm90_wgmma.epilogue_case` over several shapes. Then the time of float16
products, of those with an epilogue, and with ``--peer`` of PyTorch's: alternating, the median of several rounds.
"""

import argparse
import functools
import importlib
import statistics
import sys
import time

import numpy as np

from asv_benchmarks.kernels.plans import Prepared, milliseconds, write
from oxinp._kernels.gemm import select
from oxinp._kernels.gemm.operand import Matrices
from oxinp._ptx.types import f16
from oxinp._runtime.cuda import open_backend
from tests.kernels.gemm.sm90_wgmma.epilogue_case import RECIPES, operands

# (m, n, K, matrices): tiles in part, rows that are not stored in bulk, stacks, several tiles per block.
SHAPES = [(200, 264, 80, 1), (67, 77, 48, 1), (130, 136, 64, 3), (1100, 2312, 144, 1), (4104, 4360, 208, 1)]
SIZES = (2048, 4096, 8192)
TIMED = ("bias and relu", "bias and relu as NumPy", "alpha and beta", "alpha, beta and bias along columns")
NUM_ROUNDS, AT_ONCE = 5, 10


def planned(backend, type, out, shape, epilogue=None, alignment=256):
    """Launches of A @ B.T."""
    m, n, depth, count = shape
    batch = (count,) if count > 1 else ()
    a, b = (
        Matrices(type, (*((extent * depth,) if batch else ()), *strides), alignment)
        for extent, strides in ((m, (depth, 1)), (n, (1, depth)))
    )
    return select.plan_steps((*batch, m, n), depth, a, b, out, backend.capability, "tf32", 0, epilogue)


def check(backend, recipe, shape, rng):
    """Largest error in ulp; None where the product would be split along K."""
    m, n, depth, count = shape
    a, b, sums = operands(recipe.type, rng, m, n, depth, count)
    held = recipe.draw(rng, m, n, count)
    plan = planned(backend, recipe.type, recipe.out, shape, recipe.epilogue(m, n, count))
    if plan is None:
        return None
    expected = recipe.expected(sums, held)
    buffers = [backend.allocate(x.nbytes) for x in (expected, a, b, *held)]
    for buffer, x in zip(buffers[1:], (a, b, *held), strict=True):
        backend.upload(buffer.ptr, np.ascontiguousarray(x).reshape(-1).view(np.uint8))
    c, *inputs = (buffer.ptr for buffer in buffers)
    inputs += [type.dtype.type(x).item() for type, x in recipe.scalars]
    Prepared(backend, plan, [c], inputs)()
    backend.synchronize()
    got = np.empty_like(expected)
    backend.download(got.reshape(-1).view(np.uint8), c)
    if expected.dtype.kind != "f":
        return float((got != expected).sum())
    wrong = ~((got == expected) | (np.isnan(got) & np.isnan(expected)))
    if not wrong.any():
        return 0.0
    with np.errstate(all="ignore"):
        errors = np.abs(got.astype(np.float64) - expected.astype(np.float64))[wrong] / np.spacing(
            np.abs(expected[wrong])
        )
    return float(np.nan_to_num(errors, nan=np.inf).max())


@functools.lru_cache(1)
def drawn(size, dtype):
    """Two random matrices."""
    rng = np.random.default_rng(size)
    return [rng.standard_normal((size, size), np.float32).astype(dtype) for _ in range(2)]


def runner(backend, type, out, size, recipe=None):
    """What multiplies once, operands random."""
    rng = np.random.default_rng(size)
    epilogue = None if recipe is None else recipe.epilogue(size, size)
    written = out if recipe is None else recipe.written
    plan = planned(backend, type, out, (size, size, size, 1), epilogue)
    values = drawn(size, type.dtype)
    held = [] if recipe is None else recipe.draw(rng, size, size)
    buffers = [backend.allocate(x.nbytes) for x in (*values, *held)]
    for buffer, x in zip(buffers, (*values, *held), strict=True):
        backend.upload(buffer.ptr, x.reshape(-1).view(np.uint8))
    c = backend.allocate(size * size * written.nbytes)
    scalars = [] if recipe is None else [type.dtype.type(x).item() for type, x in recipe.scalars]
    run = Prepared(backend, plan, [c.ptr], [*(buffer.ptr for buffer in buffers), *scalars])
    return lambda: (run(), buffers, c)[0]


def peers(size):
    """PyTorch's product, and those with bias and ReLU."""
    torch = importlib.import_module("torch")
    a, b = (torch.randn(size, size, device="cuda", dtype=torch.float16) for _ in range(2))
    bias = torch.randn(size, device="cuda", dtype=torch.float16)
    c = torch.randn(size, size, device="cuda", dtype=torch.float16)
    ways = {
        "matmul": lambda: torch.matmul(a, b.T),
        "addmm of a matrix": lambda: torch.addmm(c, a, b.T, beta=-2.0, alpha=0.5),
        "addmm": lambda: torch.addmm(bias, a, b.T),
        "addmm and relu in one": lambda: torch._addmm_activation(bias, a, b.T),
        "linear, relu": lambda: torch.relu(torch.nn.functional.linear(a, b, bias)),
    }

    def timed(way):
        times = []
        for _ in range(3):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            way()
            begin.record()
            for _ in range(AT_ONCE):
                way()
            end.record()
            end.synchronize()
            times.append(begin.elapsed_time(end) / AT_ONCE)
        return statistics.median(times)

    return {f"torch {name}": lambda way=way: timed(way) for name, way in ways.items()}


def main(arguments):
    """Check, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peer", action="store_true", help="measure PyTorch as well")
    parser.add_argument("--sizes", type=int, nargs="*", default=SIZES)
    options = parser.parse_args(arguments)
    backend, rng, is_right = open_backend(), np.random.default_rng(1), True
    for name, recipe in RECIPES.items():
        begin = time.perf_counter()
        errors = [check(backend, recipe, shape, rng) for shape in SHAPES]
        is_right &= all(error is None or error <= recipe.ulp for error in errors)
        write(f"{name:40s} errors {errors} ({time.perf_counter() - begin:.1f} s)")
    for size in options.sizes:
        ways = {"plain": runner(backend, f16, f16, size)}
        ways |= {name: runner(backend, RECIPES[name].type, RECIPES[name].out, size, RECIPES[name]) for name in TIMED}
        timed = {name: lambda way=way: milliseconds(backend, way, 3, AT_ONCE) for name, way in ways.items()}
        if options.peer:
            timed |= peers(size)
        times = {name: [] for name in timed}
        for _ in range(NUM_ROUNDS):
            for name, way in timed.items():
                times[name].append(way())
        plain = statistics.median(times["plain"])
        for name, each in times.items():
            median = statistics.median(each)
            write(
                f"{size}: {name:40s} {median:.4f} ms, {2 * size**3 / median * 1e-9:.0f} TFLOP/s, {median / plain:.3f}"
            )
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

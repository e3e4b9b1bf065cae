"""The `multistage` kernels on a GPU: right, and how fast. ``python -m asv_benchmarks.kernels.multistage [--peer]``.

Prints one line per kernel and shape; ends with status 1 if any result is wrong. Rates are the median of device-event
times over operands of random data; ``--peer`` adds CuPy's rate for the same product, if it is installed.
Other tile configs, and batches, are timed by ``python -m oxinp tune --family matmul``.
"""

import argparse
import importlib
import statistics
import sys

import numpy as np

from asv_benchmarks.kernels.plans import Prepared, milliseconds, write
from oxinp._kernels.gemm.multistage.kernel import plan
from oxinp._kernels.gemm.multistage.spec import MultistageSpec
from oxinp._ptx.types import c64, c128, f32, f64
from oxinp._runtime.cuda import open_backend


def tensor(tile_m, tile_n, warp_m, warp_n, depth, stages, a="k", b="mn", type=f64, mma="dmma"):
    """A Spec of the tensor cores' f64."""
    return MultistageSpec(type, type, type, a, b, 16, 16, mma, tile_m, tile_n, warp_m, warp_n, depth, stages)


def fma(tile_m, tile_n, warp_m, warp_n, depth, stages, a="k", b="mn", type=f32, transposed=False, promotion=0):
    """A Spec of multiply-adds."""
    plain = MultistageSpec(type, type, type, a, b, 16, 16, "fma", tile_m, tile_n, warp_m, warp_n, depth, stages)
    return plain.replace(is_smem_transposed=transposed, promotion=promotion)


TIMED = [
    (tensor(128, 128, 64, 32, 16, 4), (1024, 2048, 4096, 8192)),
    (tensor(64, 64, 32, 16, 32, 3), (512, 1024)),
    (tensor(32, 32, 16, 16, 32, 6), (256, 512)),
    (fma(128, 128, 64, 64, 8, 4, transposed=True), (2048, 4096, 8192)),
    (fma(128, 128, 64, 64, 8, 4, "mn", "mn"), (4096,)),
    (fma(128, 128, 64, 64, 8, 4, "k", "k", transposed=True), (4096,)),
    (fma(64, 64, 32, 32, 16, 4, transposed=True), (512, 1024)),
    (fma(64, 64, 32, 32, 16, 4, transposed=True, promotion=256), (512, 1024)),
    (fma(64, 64, 32, 32, 8, 4, type=c64, transposed=True), (1024, 2048, 4096, 8192)),
    (fma(64, 64, 32, 32, 8, 4, "k", "k", type=c64, transposed=True), (4096,)),
    (tensor(128, 64, 32, 32, 8, 4, type=c128, mma="dmma_k4"), (1024, 2048, 4096)),
    (tensor(64, 64, 32, 32, 8, 4, type=c128, mma="dmma_k4"), (1024,)),
    (tensor(64, 32, 32, 16, 8, 4, type=c128, mma="dmma_k4"), (512,)),
    (tensor(32, 32, 16, 16, 16, 4, type=c128, mma="dmma_k4"), (256, 512)),
]
PEERS = (("float64", 8192), ("float32", 8192), ("complex64", 8192), ("complex128", 4096))  # the largest sides


def draw(dtype, *shape, rng):
    """Normal deviates, of both parts of complex numbers."""
    values = rng.standard_normal(shape)
    return (values + 1j * rng.standard_normal(shape) if np.dtype(dtype).kind == "c" else values).astype(dtype)


def flops_of(dtype, size):
    """Operations on reals of a product of squares."""
    return (8 if np.dtype(dtype).kind == "c" else 2) * size**3


def measure(backend, spec, size, rng):
    """Rate in TFLOP/s and largest error in units of what rounding every partial sum may bring."""
    dtype = spec.type.dtype
    a, b = (draw(dtype, size, size, rng=rng) for _ in range(2))
    buffers = [backend.allocate(x.nbytes) for x in (a, a, b)]
    for buffer, array in zip(buffers[1:], (a, b), strict=True):
        backend.upload(buffer.ptr, array)
    out, *inputs = (x.ptr for x in buffers)
    run = Prepared(backend, plan(spec, (size,) * 3, (size,) * 3), [out], inputs)
    rate = flops_of(dtype, size) / milliseconds(backend, run) * 1e-9
    result = np.empty_like(a)
    backend.synchronize()
    backend.download(result, buffers[0].ptr)
    rows, columns = (rng.choice(size, count, replace=False) for count in (8, 64))
    wide = np.clongdouble if dtype.kind == "c" else np.longdouble
    left = (a if spec.a_major == "k" else a.T)[rows].astype(wide)
    right = (b if spec.b_major == "mn" else b.T)[:, columns].astype(wide)
    bound = np.abs(left) @ np.abs(right) * np.finfo(dtype).eps * 4
    return rate, float((np.abs(result[rows][:, columns] - left @ right) / bound).max())


def measure_peer(dtype, size):
    """CuPy's rate for the same product."""
    cupy = importlib.import_module("cupy")
    rng = np.random.default_rng(size)
    a, b = (cupy.asarray(draw(dtype, size, size, rng=rng)) for _ in range(2))
    times = []
    for _ in range(23):
        begin, end = (cupy.cuda.Event() for _ in range(2))
        begin.record()
        a @ b
        end.record()
        end.synchronize()
        times.append(cupy.cuda.get_elapsed_time(begin, end))
    return flops_of(dtype, size) / statistics.median(times[3:]) * 1e-9


def main(arguments):
    """Check, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peer", action="store_true", help="measure CuPy as well")
    options = parser.parse_args(arguments)
    backend, rng = open_backend(), np.random.default_rng()
    is_right = True
    for spec, sizes in TIMED:
        for size in sizes:
            rate, worst = measure(backend, spec, size, rng)
            is_right &= worst <= 1
            name = f"{spec.mma} {spec.type} {spec.a_major}{spec.b_major} {spec.tile_m}x{spec.tile_n}x{spec.depth} "
            name += f"warp {spec.warp_m}x{spec.warp_n} s{spec.num_stages}" + " promoted" * bool(spec.promotion)
            write(f"{name:55s} {size:6d}: {rate:6.2f} TFLOP/s, error / bound {worst:.3f}")
    if options.peer:
        for dtype, largest in PEERS:
            for size in [size for size in (256, 512, 1024, 2048, 4096, 8192) if size <= largest]:
                write(f"cupy {dtype} {size}: {measure_peer(dtype, size):.2f} TFLOP/s")
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

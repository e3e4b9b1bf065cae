"""The `gemm_any` kernels on a GPU: right, and how fast. ``python -m tests.kernels.gemm_any_gpu [--peer]``.

Prints one line per kernel and shape; ends with status 1 if any result is wrong. Rates are the median of device-event
times over operands of random data; ``--peer`` adds CuPy's rate for the same product, if it is installed.
Other tilings, and batches, are timed by ``python -m oxinp tune --family matmul``.
"""

import argparse
import importlib
import statistics
import sys

import numpy as np

from oxinp._kernels.gemm_any import AnyGemmSpec, plan
from oxinp._ptx.types import f32, f64
from oxinp._runtime.cuda import open_backend
from tests.kernels.gemm_gpu import time_ms, write


def tensor(tile_m, tile_n, warp_m, warp_n, depth, stages, a="k", b="mn"):
    """A Spec of the tensor cores' f64."""
    return AnyGemmSpec(f64, f64, f64, a, b, 16, 16, "tensor", tile_m, tile_n, warp_m, warp_n, depth, stages)


def fma(tile_m, tile_n, warp_m, warp_n, depth, stages):
    """A Spec of f32 multiply-adds."""
    return AnyGemmSpec(f32, f32, f32, "k", "mn", 16, 16, "fma", tile_m, tile_n, warp_m, warp_n, depth, stages)


TIMED = [
    (tensor(128, 128, 64, 32, 16, 4), (1024, 2048, 4096, 8192)),
    (tensor(128, 128, 32, 64, 16, 4), (4096, 8192)),
    (tensor(128, 128, 64, 32, 32, 3), (4096, 8192)),
    (tensor(128, 64, 32, 32, 32, 4), (1024, 2048, 8192)),
    (tensor(64, 64, 32, 32, 32, 3), (1024, 2048, 8192)),
    (tensor(64, 64, 32, 16, 32, 3), (512, 1024)),
    (tensor(64, 32, 32, 16, 32, 4), (512, 1024)),
    (tensor(32, 32, 16, 16, 32, 6), (256, 512, 1024)),
]


def measure(backend, spec, size, rng):
    """Rate in TFLOP/s and largest error in units of what rounding every partial sum may bring."""
    a, b = (rng.standard_normal((size, size)).astype(spec.type.dtype) for _ in range(2))
    buffers = [backend.allocate(x.nbytes) for x in (a, a, b)]
    for buffer, array in zip(buffers[1:], (a, b), strict=True):
        backend.upload(buffer.ptr, array)
    launch = plan(spec, (size,) * 3, (size,) * 3)
    run = backend.launcher(launch.kernel, launch.grid, 3, launch.constants)
    rate = 2 * size**3 / time_ms(backend, lambda: run(*[x.ptr for x in buffers])) * 1e-9
    result = np.empty_like(a)
    backend.synchronize()
    backend.download(result, buffers[0].ptr)
    rows = rng.choice(size, 8, replace=False)
    left = (a if spec.a_major == "k" else a.T)[rows].astype(np.longdouble)
    right = (b if spec.b_major == "mn" else b.T).astype(np.longdouble)
    columns = rng.choice(size, 64, replace=False)
    exact = left @ right[:, columns]
    bound = np.abs(left) @ np.abs(right[:, columns]) * np.finfo(spec.type.dtype).eps * 4
    return rate, float((np.abs(result[rows][:, columns] - exact) / bound).max())


def measure_peer(dtype, size):
    """CuPy's rate for the same product."""
    cupy = importlib.import_module("cupy")
    a, b = (cupy.random.standard_normal((size, size)).astype(dtype) for _ in range(2))
    times = []
    for _ in range(23):
        begin, end = (cupy.cuda.Event() for _ in range(2))
        begin.record()
        a @ b
        end.record()
        end.synchronize()
        times.append(cupy.cuda.get_elapsed_time(begin, end))
    return 2 * size**3 / statistics.median(times[3:]) * 1e-9


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
            name = f"{spec.unit} {spec.type} {spec.a_major}{spec.b_major} {spec.tile_m}x{spec.tile_n}x{spec.depth} "
            name += f"warp {spec.warp_m}x{spec.warp_n} s{spec.num_stages}"
            write(f"{name:45s} {size:6d}: {rate:6.2f} TFLOP/s, error / bound {worst:.3f}")
    if options.peer:
        for dtype in ("float64", "float32"):
            for size in (256, 512, 1024, 2048, 4096, 8192):
                write(f"cupy {dtype} {size}: {measure_peer(dtype, size):.2f} TFLOP/s")
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

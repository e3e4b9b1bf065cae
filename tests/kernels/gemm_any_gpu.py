"""The `gemm_any` kernels on a GPU: right, and how fast. ``python -m tests.kernels.gemm_any_gpu [--peer] [--batched]``.

Prints one line per kernel and shape; ends with status 1 if any result is wrong. Rates are the median of device-event
times over operands of random data; ``--peer`` adds CuPy's rate for the same product, if it is installed. ``--batched``
times candidates for `_kernels.matmul`'s tilings instead: batches of small matrices, and squares that fill few waves.
"""

import argparse
import importlib
import math
import statistics
import sys
from dataclasses import replace

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


# Of `_kernels.matmul`, to be: (batch, side), then tiles, warps, depth and stages.
BATCHED = [
    (tensor, (4096, 64), [
        (64, 64, 32, 16, 32, 3), (64, 64, 32, 16, 32, 2), (64, 64, 32, 32, 32, 2), (64, 64, 32, 32, 32, 3),
        (64, 64, 16, 32, 32, 2), (64, 64, 32, 32, 16, 2), (64, 64, 32, 32, 16, 3), (64, 64, 32, 32, 16, 4),
        (64, 64, 32, 16, 16, 3), (64, 64, 32, 16, 16, 4), (64, 64, 64, 32, 16, 3), (64, 64, 64, 16, 16, 3),
        (64, 64, 32, 64, 16, 3), (64, 64, 32, 32, 8, 4), (64, 64, 32, 32, 8, 6), (64, 32, 32, 16, 32, 2),
        (64, 32, 32, 16, 32, 3), (64, 32, 32, 32, 32, 2), (32, 64, 32, 16, 32, 2), (32, 32, 32, 16, 32, 3),
    ]),
    (fma, (16384, 32), [
        (32, 32, 8, 16, 32, 3), (32, 32, 8, 16, 32, 2), (32, 32, 16, 16, 32, 2), (32, 32, 16, 32, 32, 2),
        (32, 32, 32, 16, 32, 2), (32, 32, 32, 32, 32, 2), (32, 32, 32, 32, 32, 3), (32, 32, 32, 32, 16, 2),
        (32, 32, 32, 32, 16, 3), (32, 32, 16, 32, 16, 3), (32, 32, 16, 16, 16, 3), (32, 32, 32, 32, 8, 4),
        (32, 32, 32, 32, 8, 5), (32, 32, 16, 32, 8, 4), (32, 32, 8, 32, 32, 2), (32, 32, 16, 16, 32, 3),
    ]),
    (tensor, (1, 512), [
        (32, 32, 16, 16, 32, 6), (32, 32, 16, 16, 32, 4), (32, 32, 16, 16, 64, 3), (32, 32, 16, 8, 32, 6),
        (64, 32, 32, 16, 32, 4), (64, 32, 16, 16, 32, 4), (64, 32, 16, 16, 64, 3), (64, 64, 32, 16, 32, 3),
        (64, 64, 16, 16, 32, 3), (48, 48, 16, 24, 32, 4),
    ]),
    (tensor, (1, 1024), [
        (64, 64, 32, 16, 32, 3), (64, 64, 32, 32, 32, 3), (64, 64, 16, 16, 32, 3), (64, 64, 32, 16, 32, 4),
        (64, 64, 32, 16, 16, 4), (128, 64, 32, 32, 32, 3), (128, 64, 32, 32, 32, 4), (128, 64, 32, 16, 32, 3),
        (96, 96, 48, 24, 32, 3), (96, 96, 32, 48, 16, 4), (64, 128, 32, 32, 32, 3),
    ]),
    (tensor, (1, 2048), [
        (128, 128, 64, 32, 32, 3), (128, 128, 64, 32, 16, 4), (128, 64, 32, 32, 32, 4), (128, 64, 64, 32, 16, 4),
        (64, 64, 32, 16, 32, 3), (64, 64, 32, 32, 32, 3), (96, 128, 48, 32, 16, 4), (128, 96, 64, 24, 16, 4),
        (192, 128, 64, 32, 16, 3),
    ]),
    (fma, (1, 512), [
        (64, 64, 32, 32, 16, 4), (64, 64, 16, 32, 16, 4), (64, 32, 16, 32, 16, 4), (64, 32, 16, 16, 32, 3),
        (32, 32, 8, 16, 32, 3), (32, 32, 16, 16, 32, 3), (32, 32, 16, 16, 32, 4), (32, 32, 16, 32, 32, 3),
        (64, 32, 32, 16, 16, 4),
    ]),
    (fma, (1, 1024), [
        (128, 128, 32, 64, 16, 3), (128, 64, 32, 32, 16, 3), (128, 64, 32, 64, 16, 3), (64, 64, 32, 32, 16, 4),
        (64, 64, 16, 32, 16, 4), (64, 64, 32, 32, 32, 3), (96, 96, 48, 48, 16, 3), (64, 128, 32, 64, 16, 3),
    ]),
    (fma, (1, 2048), [
        (128, 128, 32, 64, 16, 3), (128, 128, 64, 32, 16, 3), (128, 128, 32, 64, 8, 4), (128, 128, 64, 64, 16, 3),
        (128, 64, 32, 64, 16, 3), (128, 64, 32, 32, 16, 4), (64, 64, 32, 32, 16, 4), (256, 64, 64, 32, 16, 3),
    ]),
]  # fmt: skip


def measure_batched(backend, spec, count, size, rng):
    """Milliseconds of a batch, whether every result checked is right, and the rate that fits `matmul`'s model."""
    a, b = (rng.standard_normal((count, size, size)).astype(spec.type.dtype) for _ in range(2))
    buffers = [backend.allocate(x.nbytes) for x in (a, a, b)]
    for buffer, array in zip(buffers[1:], (a, b), strict=True):
        backend.upload(buffer.ptr, array)
    batch, steps = ((count,), ((size * size,),) * 3) if count > 1 else ((), ((), (), ()))
    launch = plan(replace(spec, num_batch=len(batch)), (size,) * 3, (size,) * 3, batch, steps)
    run = backend.launcher(launch.kernel, launch.grid, 3, launch.constants)
    ms = time_ms(backend, lambda: run(*[x.ptr for x in buffers]))
    result = np.empty_like(a)
    backend.synchronize()
    backend.download(result, buffers[0].ptr)
    chosen = rng.choice(count, min(count, 64), replace=False)
    bound = np.abs(a[chosen]) @ np.abs(b[chosen]) * np.finfo(spec.type.dtype).eps * size
    exact = a[chosen].astype(np.float64) @ b[chosen].astype(np.float64)
    tiles = launch.grid[0]
    work = spec.tile_m * spec.tile_n * (-(-size // spec.depth) + spec.num_stages) * spec.depth
    rate = math.ceil(tiles / backend.capability.num_sms) * work / ms * 1e3
    return ms, bool((np.abs(result[chosen] - exact) <= bound).all()), rate


def measure_peer_batched(dtype, count, size):
    """CuPy's milliseconds for the same batch."""
    cupy = importlib.import_module("cupy")
    a, b = (cupy.random.standard_normal((count, size, size)).astype(dtype) for _ in range(2))
    times = []
    for _ in range(23):
        begin, end = (cupy.cuda.Event() for _ in range(2))
        begin.record()
        a @ b
        end.record()
        end.synchronize()
        times.append(cupy.cuda.get_elapsed_time(begin, end))
    return statistics.median(times[3:])


def run_batched(backend, rng, *, has_peer):
    """Time the candidates; whether all were right."""
    is_right = True
    for make, (count, size), tilings in BATCHED:
        results = []
        for tiling in tilings:
            spec = make(*tiling)
            if spec.shared_nbytes > backend.capability.max_shared_nbytes:
                continue
            ms, is_close, rate = measure_batched(backend, spec, count, size, rng)
            is_right &= is_close
            results.append((ms, tiling, rate, is_close, spec.num_threads, spec.shared_nbytes))
        for ms, tiling, rate, is_close, num_threads, nbytes in sorted(results):
            flops = 2 * count * size**3 / ms * 1e-9
            write(
                f"{spec.type} {count} x {size}^3 {tiling!s:28s} {num_threads:4d} threads {nbytes // 1024:4d} KiB: "
                f"{ms:8.4f} ms {flops:6.2f} TFLOP/s, rate {rate / 1e12:.3f}e12 {'right' if is_close else 'WRONG'}"
            )
        if has_peer:
            write(f"cupy {spec.type} {count} x {size}^3: {measure_peer_batched(spec.type.dtype, count, size):.4f} ms")
    return is_right


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
    parser.add_argument("--batched", action="store_true", help="time candidates for small and batched products")
    options = parser.parse_args(arguments)
    backend, rng = open_backend(), np.random.default_rng()
    if options.batched:
        return 0 if run_batched(backend, rng, has_peer=options.peer) else 1
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

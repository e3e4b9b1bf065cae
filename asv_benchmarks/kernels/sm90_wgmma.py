"""Checks the wgmma kernels against float64 on a GPU, and times them: ``python -m asv_benchmarks.kernels.sm90_wgmma``.

It prints one line per kernel and shape, and exits with status 1 if a result is wrong. Rates are medians of device-event
times on random operands; ``--peer`` adds PyTorch's rate for the same product, if it is installed.
"""

import argparse
import functools
import importlib
import statistics
import sys
import time

import numpy as np

from asv_benchmarks.kernels.plans import milliseconds, write
from oxinp._driver.launch import Launcher
from oxinp._driver.module import Module
from oxinp._kernels.gemm.sm90_wgmma.kernel import plan
from oxinp._kernels.gemm.sm90_wgmma.sharing import ClusterSplitK, MulticastA, Single
from oxinp._kernels.gemm.sm90_wgmma.spec import WgmmaSpec
from oxinp._kernels.gemm.sm90_wgmma.store import BulkColumns16, BulkColumns32, BulkRows, DirectColumns, DirectRows
from oxinp._ptx.types import bf16, e4m3, e5m2, f16, f32, i8, i32, pred, u8
from oxinp._runtime.cuda import open_backend
from tests.kernels.gemm.sm90_wgmma.case import draw
from tests.kernels.machine import parameters

# Tile counts even and odd, smaller than a tile, K ending inside a tile.
CHECKED_SHAPES = [
    (8, 8, 8),
    (128, 256, 64),
    (200, 264, 72),
    (72, 88, 40),
    (384, 776, 1000),
    (1160, 2312, 136),
    (2056, 1288, 4104),
]
# Rows of A need no alignment where they run along K.
CHECKED_ROWS = [(67, 88, 40), (1031, 520, 72)]
CHECKED_SPECS = [
    WgmmaSpec(bf16, bf16),
    WgmmaSpec(bf16, f32, b_major="k"),
    WgmmaSpec(f16, f16, a_major="mn"),
    WgmmaSpec(f16, f32, sharing=Single),
    WgmmaSpec(bf16, bf16, tile_n=128, num_stages=6),
    WgmmaSpec(f16, f32, a_major="mn", b_major="k", tile_n=192, sharing=Single),
    WgmmaSpec(f16, f16, tile_n=64, num_stages=8, sharing=Single),
    WgmmaSpec(bf16, bf16, b_major="k", tile_n=192),
    WgmmaSpec(f16, f32, b_major="k", tile_n=64, num_stages=8),
    WgmmaSpec(f32, f32, b_major="k"),
    WgmmaSpec(f32, f32, b_major="k", tile_n=128, sharing=Single),
    WgmmaSpec(f16, f32, tile_n=128, num_stages=6, is_promoted=True),
    WgmmaSpec(f16, f16, tile_n=64, num_stages=8, sharing=MulticastA),
    WgmmaSpec(bf16, f32, a_major="mn", b_major="k", tile_n=128, num_stages=6, sharing=MulticastA),
    WgmmaSpec(e4m3, f32, b_major="k", tile_n=128, num_stages=6, is_promoted=True),
    WgmmaSpec(e4m3, f16, b_major="k"),
    WgmmaSpec(e5m2, bf16, b_major="k", tile_n=128, sharing=Single),
    WgmmaSpec(i8, i32, b_major="k"),
    WgmmaSpec(i8, i8, b_major="k"),
    WgmmaSpec(u8, i32, b_major="k", tile_n=128, sharing=Single),
    WgmmaSpec(u8, u8, b_major="k", tile_n=128),
    WgmmaSpec(u8, pred, b_major="k", tile_n=128, sharing=Single),
    # Split-K within a cluster.
    WgmmaSpec(f16, f16, tile_n=128, sharing=ClusterSplitK),
    WgmmaSpec(f16, f32, "mn", "k", tile_n=64, is_promoted=True, sharing=ClusterSplitK),
    WgmmaSpec(bf16, bf16, b_major="k", tile_n=64, num_stages=8, sharing=ClusterSplitK, store=DirectRows),
    WgmmaSpec(i8, i32, b_major="k", tile_n=128, sharing=ClusterSplitK),
    # Few columns, stored as rows.
    WgmmaSpec(f16, f16, "mn", "k", 16, 11, sharing=ClusterSplitK, store=DirectColumns),
    WgmmaSpec(f16, f16, "mn", "mn", 64, 8),
    WgmmaSpec(bf16, f32, "k", "k", 32, 8, is_promoted=True, store=DirectColumns),
    WgmmaSpec(u8, i32, "k", "k", 32, 9, sharing=ClusterSplitK, store=DirectColumns),
    # f32 operands that come through registers.
    WgmmaSpec(f32, f32, "mn", "k", 192, store=BulkColumns32),
    WgmmaSpec(f32, f32, "mn", "k", 256, sharing=Single, store=BulkColumns32),
    WgmmaSpec(f32, f32, "mn", "k", 128, sharing=ClusterSplitK, store=BulkColumns32),
    WgmmaSpec(f32, f32, "mn", "k", 64, 8, sharing=MulticastA, store=BulkColumns32),
    # Few columns, stored as rows in bulk.
    WgmmaSpec(f16, f16, "mn", "k", 16, 12, sharing=ClusterSplitK, store=BulkColumns16),
    WgmmaSpec(bf16, bf16, "k", "mn", 64, 8, sharing=Single, store=BulkColumns16),
    # Serial split-K.
    WgmmaSpec(f16, f16, tile_n=128, num_stages=6, is_serial_split_k=True),
    WgmmaSpec(bf16, bf16, "mn", "k", 160, 5, is_serial_split_k=True, sharing=MulticastA, store=BulkColumns16),
    WgmmaSpec(f16, f16, "mn", "k", 256, 4, is_serial_split_k=True, sharing=Single, store=BulkColumns16),
    WgmmaSpec(f16, f32, "k", "k", 128, 6, is_promoted=True, is_serial_split_k=True, sharing=Single, store=DirectRows),
    WgmmaSpec(i8, i32, b_major="k", tile_n=64, num_stages=8, is_serial_split_k=True, sharing=Single),
    WgmmaSpec(f32, f32, "mn", "k", 128, 6, is_serial_split_k=True, store=BulkColumns32),
]
TIMED = [
    (WgmmaSpec(bf16, bf16), 8192),
    (WgmmaSpec(bf16, bf16, b_major="k"), 8192),
    (WgmmaSpec(bf16, bf16, sharing=Single), 8192),
    (WgmmaSpec(bf16, bf16), 4096),
    (WgmmaSpec(bf16, bf16, tile_n=128, num_stages=6), 4096),
    (WgmmaSpec(f16, f16), 8192),
    (WgmmaSpec(bf16, f32), 8192),
    (WgmmaSpec(f32, f32, b_major="k"), 8192),
    (WgmmaSpec(e4m3, bf16, b_major="k"), 8192),
    (WgmmaSpec(e4m3, bf16, b_major="k", tile_n=128, num_stages=6, is_promoted=True), 8192),
    (WgmmaSpec(i8, i32, b_major="k"), 8192),
    (WgmmaSpec(i8, i8, b_major="k"), 8192),
]


def shapes_of(spec):
    """Shapes to check a kernel with: the axes along which operands run have to be multiples of 16 bytes."""
    shapes = CHECKED_SHAPES + (CHECKED_ROWS if spec.a_major == "k" and spec.store is BulkRows else [])
    shapes = [shape for shape in shapes if spec.sharing is not ClusterSplitK or shape[2] > spec.depth]
    if spec.type.nbytes > 1:
        return shapes
    return [(m, n if spec.out.nbytes > 1 else 2 * n, 2 * depth) for m, n, depth in shapes]


class Run:
    """One multiplication on the device: memory, tensor maps and the prepared launch."""

    def __init__(self, backend, spec, case, *, linked=False, split_k=1):
        self.backend, self.case = backend, case
        arrays = (case.c, case.a, case.b)
        self.buffers = [backend.allocate(array.nbytes) for array in arrays]
        for buffer, array in zip(self.buffers, arrays, strict=True):
            backend.upload(buffer.ptr, array)
        strides_nbytes = tuple(array.strides[0] for array in arrays)
        planned = plan(spec, *case.shape, backend.capability.num_sms, strides_nbytes, split_k=split_k)
        named = dict(zip(("out0", "in0", "in1"), [buffer.ptr for buffer in self.buffers], strict=True))
        if planned.scratch_nbytes:
            self.buffers.append(backend.allocate(planned.scratch_nbytes))
            named |= {"scratch": self.buffers[-1].ptr, "flags": backend.flags}
        launch = planned.launch
        self.launch = prepare(backend, launch, parameters(backend, launch, named), linked)

    def fetch(self):
        result = np.empty_like(self.case.c)
        self.backend.synchronize()
        self.backend.download(result, self.buffers[0].ptr)
        return result


def prepare(backend, launch, values, linked):
    """Return the launch, of the kernel compiled as a whole or through the driver's linker (and its cubin kept)."""
    kernel, bound = launch.kernel, (*values, *launch.constants)
    if linked:
        return backend.launcher(kernel, launch.grid, 0, bound)
    function = whole(backend.context, kernel)
    return Launcher(
        function,
        launch.grid,
        kernel.block,
        kernel.shared_nbytes,
        kernel.param_format,
        0,
        bound,
        cluster=kernel.cluster,
    ).launch


@functools.cache
def whole(context, kernel):
    """Return the function compiled by `cuModuleLoadDataEx`, where setmaxnreg is not ignored."""
    return Module.from_ptx(context, kernel.ptx).function(kernel.name)


def check(backend, spec, shape, rng):
    """Largest error in units of what is allowed."""
    case = draw(spec, *shape, rng)
    worst = 0.0
    for linked in (False, True):
        results = []
        for split_k in (3, 2, 3) if spec.is_serial_split_k else (1,):
            run = Run(backend, spec, case, linked=linked, split_k=split_k)
            run.launch()
            results.append(run.fetch())
            worst = max(worst, case.worst(results[-1], spec.out))
        if spec.is_serial_split_k and results[0].tobytes() != results[-1].tobytes():
            worst = float("inf")  # bits depend on the order in which blocks come
    return worst


def measure(backend, spec, size, rng):
    """Rates in TFLOP/s, compiled as a whole and linked, and the error of 16 rows in units of what is allowed."""
    rows = np.sort(rng.choice(size, 16, replace=False))
    case = draw(spec, size, size, size, rng, rows)
    rates, worst = [], 0.0
    for linked in (False, True):
        run = Run(backend, spec, case, linked=linked)
        rates.append(2 * size**3 / milliseconds(backend, run.launch) * 1e-9)
        worst = max(worst, case.worst(run.fetch()[rows], spec.out))
    return rates, worst


def measure_peer(spec, size):
    """PyTorch's rate for the same product."""
    torch = importlib.import_module("torch")
    torch.backends.cuda.matmul.allow_tf32 = True
    dtype = {bf16: torch.bfloat16, f16: torch.float16, f32: torch.float32, i8: torch.int8}[spec.type]
    scale = 60 if spec.type is i8 else 1
    a, b = ((torch.randn(size, size, device="cuda") * scale).to(dtype) for _ in range(2))
    b = b if spec.b_major == "mn" else b.T
    multiply = torch._int_mm if spec.type is i8 else torch.matmul
    times = []
    for _ in range(23):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        multiply(a, b)
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end))
    return 2 * size**3 / statistics.median(times[3:]) * 1e-9


def main(arguments):
    """Check, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peer", action="store_true", help="measure PyTorch as well")
    options = parser.parse_args(arguments)
    backend, rng = open_backend(), np.random.default_rng()
    is_right = True
    for spec in CHECKED_SPECS:
        begin = time.perf_counter()
        errors = [check(backend, spec, shape, rng) for shape in shapes_of(spec)]
        is_right &= max(errors) <= 1
        listed = " ".join(f"{error:.3f}" for error in errors)
        write(f"{spec.name:45s} errors / bound: {listed}  ({time.perf_counter() - begin:.1f} s)")
    for spec, size in TIMED:
        (rate, linked_rate), worst = measure(backend, spec, size, rng)
        is_right &= worst <= 1
        peer = f", torch {measure_peer(spec, size):.0f}" if options.peer else ""
        write(f"{spec.name:45s} {size}: {rate:.0f} TFLOP/s (linked {linked_rate:.0f}{peer}), error / bound {worst:.3f}")
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Checks and times the mma.sync kernels of f64, c128 and f32 on a Hopper GPU.

``python -m asv_benchmarks.kernels.sm90_mma [--peer] [--check] [--planned]`` prints one line per kernel and shape, and
exits with status 1 if a result is wrong; with ``--planned`` it times the planned kernels instead. Times are medians
over rounds of back-to-back launches, which alternate with those of `oxinp.matmul` and, on request, CuPy and PyTorch:
first on rotating operands that are larger than the L2 cache, then on one pair.
"""

import argparse
import importlib
import math
import statistics
import sys

import numpy as np

import oxinp
from asv_benchmarks.kernels.multistage import flops_of
from asv_benchmarks.kernels.plans import Prepared, write
from oxinp._config import config
from oxinp._kernels.gemm import select
from oxinp._kernels.gemm.operand import Matrices, StridedBatch, contiguous
from oxinp._kernels.gemm.sm90_mma import kernel as mma_kernel
from oxinp._kernels.gemm.sm90_mma import stacked
from oxinp._kernels.gemm.sm90_mma.spec import MmaSpec
from oxinp._kernels.gemm.sm90_mma.stacked import StackedSpec
from oxinp._ptx.types import c128, f32, from_dtype
from oxinp.cuda import current

CHECKED_SHAPES = [
    *[(1, 2, 2), (64, 64, 16), (67, 130, 45), (200, 264, 72), (129, 1030, 1000), (1160, 712, 134)],
    *[(200, 264, 192), (1160, 712, 256)],  # for unrolled k-blocks
]
MULTIPLY_ADDS = MmaSpec(f32, warp_n=64, num_stages=6, num_k_groups=2, promotion=256)
COMPLEX = MmaSpec(c128, tile_m=32, tile_n=64, warp_m=16, warp_n=8)
CHECKED_SPECS = [
    COMPLEX,
    COMPLEX._replace(a_major="mn", b_major="k", cluster=1),
    COMPLEX._replace(b_major="k", tile_m=48, tile_n=96, warp_m=24, warp_n=24),
    COMPLEX._replace(a_major="mn", tile_n=32, blocks_per_sm=2, num_stages=6),
    MULTIPLY_ADDS,
    MULTIPLY_ADDS._replace(a_major="mn", b_major="k", cluster=1),
    MULTIPLY_ADDS._replace(num_k_groups=1, warp_n=32, promotion=0),
    MULTIPLY_ADDS._replace(a_major="mn", num_k_groups=1, num_stages=8),
    MULTIPLY_ADDS._replace(b_major="k", tile_n=64, blocks_per_sm=2, num_stages=4),
    MmaSpec(),
    MmaSpec(a_major="mn", b_major="k"),
    MmaSpec(a_major="k", b_major="k"),
    MmaSpec(a_major="mn", b_major="mn"),
    MmaSpec(tile_n=64, num_stages=6, cluster=1, blocks_per_sm=2),
]
REPEATED_SHAPES = [(1024, 1024, 1024), (1000, 1352, 520)]
SMALL_SHAPES = [(32, 32, 32), (1, 4, 4), (17, 12, 28), (31, 28, 8)]
ROTATED_NBYTES = 1 << 28
ROUND_MS = 3.0
NUM_ROUNDS = 7
NUM_CHAINED, NUM_REPEATED = 20, 8
TINY = MmaSpec(tile_m=32, tile_n=32, warp_m=16, warp_n=16, num_stages=8, cluster=1, blocks_per_sm=3)
SQUARES = {
    256: [TINY, TINY._replace(blocks_per_sm=1, num_stages=16)],
    512: [
        TINY._replace(tile_n=64, warp_n=16, blocks_per_sm=1, num_stages=16, cluster=2),
        TINY._replace(tile_n=64, warp_n=16, blocks_per_sm=2, num_stages=8, cluster=2),
        TINY,
    ],
    768: [
        TINY._replace(tile_n=64, warp_n=16, blocks_per_sm=2, num_stages=8, cluster=2),
        TINY._replace(tile_m=64, tile_n=96, warp_m=32, warp_n=32, blocks_per_sm=1, num_stages=8),
        TINY._replace(tile_m=64, tile_n=96, warp_m=32, warp_n=48, blocks_per_sm=1, num_stages=8),
        TINY._replace(tile_m=64, tile_n=64, warp_m=32, warp_n=32, blocks_per_sm=2, num_stages=6),
    ],
    1024: [
        MmaSpec(),
        MmaSpec(num_stages=4),
        MmaSpec(num_stages=4, cluster=1),
        MmaSpec(tile_m=128, tile_n=64, num_stages=4),
        MmaSpec(tile_n=64, cluster=1, blocks_per_sm=2, num_stages=4),
        MmaSpec(tile_n=64, cluster=2, blocks_per_sm=2, num_stages=6),
    ],
    2048: [
        MmaSpec(),
        MmaSpec(tile_m=128, tile_n=64, num_stages=8),
    ],
    4096: [
        MmaSpec(),
    ],
}
C128_SQUARES = {
    256: [COMPLEX._replace(tile_m=16, tile_n=32, warp_m=8)],
    384: [COMPLEX._replace(tile_m=24, tile_n=48, warp_m=8), COMPLEX._replace(tile_n=48)],
    512: [COMPLEX, COMPLEX._replace(warp_n=16)],
    768: [COMPLEX._replace(tile_m=48, tile_n=96, warp_m=24, warp_n=16)],
    1024: [COMPLEX._replace(tile_m=64, warp_m=32, warp_n=16), COMPLEX._replace(tile_m=64, warp_n=16)],
}
SMALL_TERMS = MmaSpec(tile_n=64, num_stages=6, cluster=1, blocks_per_sm=2, is_batched=True)
HALF = SMALL_TERMS._replace(tile_m=32, tile_n=32, warp_m=16, warp_n=16, num_stages=12)
F32_SQUARES = {
    512: [
        MULTIPLY_ADDS._replace(tile_n=64, blocks_per_sm=2, num_stages=4, cluster=1),
        MULTIPLY_ADDS._replace(tile_m=32, tile_n=64, blocks_per_sm=2, num_stages=6, cluster=1),
    ],
    1024: [
        MULTIPLY_ADDS,
        MULTIPLY_ADDS._replace(tile_n=64, blocks_per_sm=2, num_stages=4, cluster=2),
        MULTIPLY_ADDS._replace(tile_n=64, blocks_per_sm=2, num_stages=4, cluster=2, promotion=0),
    ],
    1536: [MULTIPLY_ADDS, MULTIPLY_ADDS._replace(tile_m=128, num_k_groups=1, num_stages=4)],
}
BATCHES = {
    (4096, 64): [
        SMALL_TERMS,
        SMALL_TERMS._replace(num_stages=4),
        SMALL_TERMS._replace(warp_m=16, warp_n=32, num_stages=13, blocks_per_sm=1),
    ],
    (16384, 32): [StackedSpec(7, 2, 2), StackedSpec(4, 2, 3), StackedSpec(12, 2, 1)],
    (8192, 32): [HALF, HALF._replace(num_stages=8, blocks_per_sm=3), HALF._replace(num_stages=6, blocks_per_sm=4)],
}


PLANNED = {
    np.float64: [
        *[(1, n, n, n) for n in (256, 320, 384, 448, 512, 768, 1024, 1536, 2048)],
        *[(4096, 64, 64, 64), (16384, 32, 32, 32), (512, 128, 128, 128), (1024, 100, 100, 100), (100, 256, 256, 64)],
    ],
    np.complex128: [
        *[(1, n, n, n) for n in (96, 128, 192, 256, 384, 512, 640, 768, 1024)],
        *[(1024, 64, 64, 64), (4096, 32, 32, 32), (16, 128, 128, 128)],
    ],
}


def random(rng, shape, dtype):
    """Random numbers around 0, with random parts."""
    *outer, last = shape
    parts = 2 if dtype.kind == "c" else 1
    return (rng.random((*outer, last * parts), np.finfo(dtype).dtype) - np.finfo(dtype).dtype.type(0.5)).view(dtype)


def operands(backend, spec, shape, count, num_sets, rng):
    """Random operands as a Spec reads them, and memory for the product."""
    m, n, depth = shape
    sets = []
    is_small = isinstance(spec, StackedSpec)
    dtype = np.dtype(np.float32) if is_small else spec.type.dtype
    for _ in range(num_sets):
        a = random(rng, (count, m, depth) if is_small or spec.a_major == "k" else (count, depth, m), dtype)
        b = random(rng, (count, depth, n) if is_small or spec.b_major == "mn" else (count, n, depth), dtype)
        arrays = np.empty((count, m, n), dtype), *(_padded(x) for x in (a, b))
        buffers = [backend.allocate(x.nbytes) for x in arrays]
        for buffer, x in zip(buffers[1:], arrays[1:], strict=True):
            backend.upload(buffer.ptr, x)
        sets.append((arrays, buffers))
    return sets


class Run:
    """Products on the device, of operands in turn."""

    def __init__(self, backend, spec, shape, sets):
        spec = spec.fitted(shape[2]) if isinstance(spec, MmaSpec) else spec
        self.backend, self.spec, self.shape, self.sets = backend, spec, shape, sets
        self.launches = []
        for (c, a, b), buffers in sets:
            is_small = isinstance(spec, StackedSpec)
            batch = StridedBatch(len(c), a.strides[0], b.strides[0]) if is_small or spec.is_batched else None
            plan = (stacked if is_small else mma_kernel).plan(
                spec, shape, backend.capability.num_sms, (a.strides[1], b.strides[1]), batch
            )
            out, *inputs = (x.ptr for x in buffers)
            self.launches.append(Prepared(backend, plan, [out], inputs))

    def worst(self, *, is_whole=False):
        """Largest error in units of what rounding every partial sum may bring."""
        (c, a, b), buffers = self.sets[0]
        c[...] = np.nan
        self.backend.upload(buffers[0].ptr, c)
        self.launches[0]()
        self.backend.synchronize()
        self.backend.download(c, buffers[0].ptr)
        m, n, depth = self.shape
        eps = np.finfo(c.dtype).eps / 2
        if isinstance(self.spec, MmaSpec):
            a = a[:, :, :depth] if self.spec.a_major == "k" else a[:, :, :m].transpose(0, 2, 1)
            b = b[:, :, :n] if self.spec.b_major == "mn" else b[:, :, :depth].transpose(0, 2, 1)
        if m * n * depth * len(a) > 1 << 28 and not is_whole:
            rows, matrices = slice(None, None, max(1, m // 16)), slice(None, None, max(1, len(a) // 16))
            a, b, c = a[matrices, rows], b[matrices], c[matrices, rows]
        a, b = (x.astype(np.result_type(x, np.float64)) for x in (a, b))
        bound = np.abs(a) @ np.abs(b) * (eps * math.sqrt(depth) * 4)
        return float((np.abs(c - a @ b) / bound).max())


def repeated(backend, spec, shape):
    """Error of a product in units of what is allowed, all of it, and how often it was another one when repeated."""
    run = Run(backend, spec, shape, operands(backend, spec, shape, 1, 1, np.random.default_rng(2)))
    worst = run.worst(is_whole=True)
    (c, _, _), buffers = run.sets[0]
    first, num_others = c.copy(), 0
    for _ in range(NUM_REPEATED):
        c[...] = np.nan
        backend.upload(buffers[0].ptr, c)
        for _ in range(3):
            run.launches[0]()
        backend.synchronize()
        backend.download(c, buffers[0].ptr)
        num_others += not np.array_equal(c, first)
    return worst, num_others


def chained(backend, spec, size):
    """How many of three equal chains of products X @ B @ B ... are not finite or not as the first one."""
    rng = np.random.default_rng(2)
    a, b = (rng.standard_normal((1, size, size)).astype(spec.type.dtype) for _ in range(2))
    b /= 2 * math.sqrt(size)
    matrices = [backend.allocate(x.nbytes) for x in (a, a, b)]
    there, back = (
        Run(backend, spec, (size,) * 3, [((a, a, b), [*pair, matrices[2]])]).launches[0]
        for pair in ((matrices[1], matrices[0]), (matrices[0], matrices[1]))
    )
    results = []
    for _ in range(3):
        for buffer, x in zip(matrices, (a, a, b), strict=True):
            backend.upload(buffer.ptr, x)
        for _ in range(NUM_CHAINED):
            there()
            back()
        results.append(np.empty_like(a))
        backend.synchronize()
        backend.download(results[-1], matrices[0].ptr)
    return sum(not (np.array_equal(x, results[0]) and np.isfinite(x).all()) for x in results)


def _padded(x):
    """Rows of a multiple of 16 bytes, zeros behind them."""
    return np.ascontiguousarray(np.pad(x, ((0, 0), (0, 0), (0, -x.shape[-1] % (16 // x.itemsize)))))


def timed(record, launches, num_calls):
    """Device time of a launch."""
    begin = record()
    for i in range(num_calls):
        launches[i % len(launches)]()
    return begin, record(), num_calls


def side_of(backend, launches):
    """What `compare` takes, of our own launches."""
    return backend.record_event, launches, lambda x, y: x.elapsed_ms(y)


def compare(backend, sides):
    """Median milliseconds of each, in turn."""
    calls, times = [], [[] for _ in sides]
    for record, launches, elapsed in sides:
        begin, end, number = timed(record, launches, 3 * len(launches))
        backend.synchronize()
        calls.append(max(1, math.ceil(ROUND_MS / (elapsed(begin, end) / number))))
    for _ in range(NUM_ROUNDS):
        for (record, launches, elapsed), number, own in zip(sides, calls, times, strict=True):
            begin, end, number = timed(record, launches, number)  # noqa: PLW2901
            backend.synchronize()
            own.append(elapsed(begin, end) / number)
    return [statistics.median(own) for own in times]


def cupy_of(sets):
    """CuPy's product of the same operands."""
    cupy = importlib.import_module("cupy")
    operands = [[cupy.asarray(x if len(x) > 1 else x[0]) for x in (a, b)] for (_, a, b), _ in sets]

    def record():
        event = cupy.cuda.Event()
        event.record()
        return event

    def elapsed(x, y):
        y.synchronize()
        return cupy.cuda.get_elapsed_time(x, y)

    return record, [lambda a=a, b=b: cupy.matmul(a, b) for a, b in operands], elapsed


def torch_of(sets):
    """PyTorch's product of the same operands."""
    torch = importlib.import_module("torch")
    operands = [[torch.asarray(x if len(x) > 1 else x[0], device="cuda") for x in (a, b)] for (_, a, b), _ in sets]

    def record():
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def elapsed(x, y):
        y.synchronize()
        return x.elapsed_time(y)

    return record, [lambda a=a, b=b: torch.matmul(a, b) for a, b in operands], elapsed


def problem_of(sets):
    """What planning asks for first: the shape of C, the depth and the matrices."""
    (c, a, b), _ = sets[0]
    shape = c.shape if len(c) > 1 else c.shape[1:]
    return shape, a.shape[-1], *(Matrices(from_dtype(x.dtype), contiguous(x.shape)[-len(shape) :], 256) for x in (a, b))


def any_of(backend, sets):
    """What `multistage` does with the same operands."""
    problem = problem_of(sets)
    type_ = problem[-1].type
    return prepared_of(backend, select.plan(*problem, type_, type_, backend.capability), sets)


def prepared_of(backend, plan, sets):
    """The side of a plan, of every set of operands."""
    pointers = [[x.ptr for x in buffers] for _, buffers in sets]
    return side_of(backend, [Prepared(backend, plan, own[:1], own[1:]) for own in pointers])


def planned_of(backend, sets):
    """What is planned for the same operands, one launch; its name, and its side."""
    problem = problem_of(sets)
    plan = select.plan_steps(*problem, problem[-1].type, backend.capability, "auto", 1 << 30)
    return plan.launch.kernel.name, prepared_of(backend, plan, sets)


def measure_planned(backend, rng, *, has_peer):
    """Print a line per product: what is planned, `multistage` and the peer, in microseconds."""
    for dtype, sizes in PLANNED.items():
        type_ = from_dtype(np.dtype(dtype))
        for count, *shape in sizes:
            nbytes = count * (shape[0] * shape[1] + shape[2] * (shape[0] + shape[1])) * type_.nbytes
            num_sets = max(1, min(8, ROTATED_NBYTES // nbytes))
            sets = operands(backend, MmaSpec(type_), shape, count, num_sets, rng)
            name, planned = planned_of(backend, sets)
            sides = [planned, any_of(backend, sets), *([torch_of(sets)] if has_peer else [])]
            times = " ".join(f"{ms * 1e3:8.2f}" for ms in compare(backend, sides))
            write(f"{count:5} x {'x'.join(map(str, shape)):14s} {name:55s} {times}")


def own_of(backend, sets):
    """Return the side of `oxinp.matmul` on the same operands."""
    pairs = [[oxinp.asarray(x if len(x) > 1 else x[0]) for x in (a, b)] for (_, a, b), _ in sets]
    return side_of(backend, [lambda a=a, b=b: oxinp.evaluate(oxinp.matmul(a, b)) for a, b in pairs])


def main(arguments):
    """Check, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peer", action="store_true", help="measure CuPy and PyTorch as well")
    parser.add_argument("--check", action="store_true", help="check only")
    parser.add_argument("--planned", action="store_true", help="time the planned kernels, multistage and PyTorch only")
    options = parser.parse_args(arguments)
    backend, rng = current.cuda_backend(), np.random.default_rng(5)
    if options.planned:
        measure_planned(backend, rng, has_peer=options.peer)
        return 0
    config.matmul = "native"
    is_right = True
    for spec in CHECKED_SPECS:
        errors = []
        for shape in CHECKED_SHAPES:
            for count in (1, 3):
                here = spec._replace(is_batched=count > 1, is_paired=shape[1] * spec.type.nbytes % 16 == 0)
                errors.append(Run(backend, here, shape, operands(backend, here, shape, count, 1, rng)).worst())
        is_right &= max(errors) <= 1
        write(f"{spec.name:45s} errors / bound: {' '.join(f'{error:.3f}' for error in errors)}")
    for spec in dict.fromkeys([*CHECKED_SPECS, TINY, SQUARES[512][0], SQUARES[768][2]]):
        found = [repeated(backend, spec, shape) for shape in REPEATED_SHAPES]
        others = [chained(backend, spec, size) for size in (256, 1024)] if spec.a_major + spec.b_major == "kmn" else []
        is_right &= all(worst <= 1 and not others for worst, others in found) and not any(others)
        write(f"{spec.name:50s} error / bound, others of {NUM_REPEATED}: {found}; of 3 chains {others}")
    for spec in BATCHES[16384, 32][:2]:
        errors = [
            Run(backend, spec, shape, operands(backend, spec, shape, count, 1, rng)).worst()
            for shape in SMALL_SHAPES
            for count in (1, 3, 5000)
        ]
        is_right &= max(errors) <= 1
        write(f"{spec.name:45s} errors / bound: {' '.join(f'{error:.3f}' for error in errors)}")
    squares = [((1, size), specs) for group in (SQUARES, C128_SQUARES, F32_SQUARES) for size, specs in group.items()]
    for (count, size), specs in [] if options.check else [*squares, *BATCHES.items()]:
        dtype = np.dtype(np.float32) if isinstance(specs[0], StackedSpec) else specs[0].type.dtype
        num_sets = max(1, min(8, ROTATED_NBYTES // (count * size * size * 3 * dtype.itemsize)))
        sets = operands(backend, specs[0], (size,) * 3, count, num_sets, rng)
        sides = {}
        for spec in specs:
            run = Run(backend, spec, (size,) * 3, sets)
            is_right &= run.worst() <= 1
            sides[spec.name] = side_of(backend, run.launches)
        sides |= {"multistage": any_of(backend, sets), "oxinp.matmul": own_of(backend, sets)}
        if options.peer:
            sides |= {"cupy": cupy_of(sets), "torch": torch_of(sets)}
        # Finally one set of operands, repeatedly.
        chosen = [list(sides.values()), [(record, own[:1], elapsed) for record, own, elapsed in sides.values()]]
        times = list(zip(*(compare(backend, each) for each in chosen), strict=True))
        for name, (ms, warm_ms) in zip(sides, times, strict=True):
            rate = count * flops_of(dtype, size) / ms * 1e-9
            speed = sum(x.nbytes for x in sets[0][0]) / ms * 1e-6
            ratios = f"{times[-1][0] / ms:.3f} {times[-1][1] / warm_ms:.3f}"
            write(
                f"{count} x {size} {name:45s} {ms:.4f} {warm_ms:.4f} ms {rate:6.2f} TFLOP/s {speed:5.0f} GB/s {ratios}"
            )
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

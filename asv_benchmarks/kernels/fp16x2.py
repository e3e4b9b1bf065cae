"""Checks and times f32 and c64 products by fp16x2 on a GPU: ``python -m asv_benchmarks.kernels.fp16x2 [--peer]``.

First, for data of every kind, it prints the largest error of `matmul`, in units of 2**-24 |A| |B|, beside that of
chains of fused multiply-adds; then rates, from device events around all launches of a product of random operands.
``--peer`` adds CuPy's. It exits with status 1 if an error is above that of multiply-adds (or, overflow apart, above K;
where the device chose multiply-adds, if the root mean square is above theirs by a twentieth), or if the guard chose the
wrong kernel.
"""

import argparse
import importlib
import sys
import time

import numpy as np

from asv_benchmarks.kernels.multistage import flops_of, measure_peer
from asv_benchmarks.kernels.plans import Prepared, milliseconds, write
from oxinp._kernels.gemm import select
from oxinp._kernels.gemm.multistage import kernel as multistage
from oxinp._kernels.gemm.multistage.spec import MultistageSpec
from oxinp._kernels.gemm.operand import Matrices
from oxinp._ptx.types import from_dtype
from oxinp._runtime.cuda import open_backend
from tests.kernels.gemm.fp16x2.case import CASES, FIT, UNFIT, Reference, draw

MAJORS = ("k", "mn")  # of A; of B the other way round
SHAPES = [(1024, 1024, 2048), (1100, 1031, 1909)]
SIZES = {np.float32: [1024, 1536, 2048, 4096, 8192], np.complex64: [512, 768, 1024, 1536, 2048, 4096, 8192]}


class Run:
    """One product on the device, its launches prepared."""

    plan = staticmethod(select.plan_fp16x2)
    is_guarded = True  # the device may choose multiply-adds, and then says so

    def __init__(self, backend, a, b, transposed=(False, False)):
        m, depth, n = *a.shape, b.shape[1]
        self.backend, self.shape, self.dtype = backend, (m, n), a.dtype
        type_ = from_dtype(a.dtype)
        stored = [
            np.ascontiguousarray(x.T if is_transposed else x)
            for x, is_transposed in zip((a, b), transposed, strict=True)
        ]
        self.c = backend.allocate(a.itemsize * m * n)
        self.operands, matrices = [], []
        for array, is_transposed in zip(stored, transposed, strict=True):
            self.operands.append(backend.allocate(array.nbytes))
            backend.upload(self.operands[-1].ptr, array)
            strides = (1, array.shape[1]) if is_transposed else (array.shape[1], 1)
            matrices.append(Matrices(type_, strides, 256))
        plan = self.plan((m, n), depth, *matrices, backend.capability)
        self.launch_multistage = self.prepare(select.plan((m, n), depth, *matrices, type_, type_, backend.capability))
        self.launch = self.launch_multistage if plan is None else self.prepare(plan)
        self.workspace = 0.0 if plan is None else plan.scratch_nbytes / (a.nbytes + b.nbytes)
        self.launches = [] if plan is None else self.launch.launches
        majors = [MAJORS[is_transposed != is_right] for is_right, is_transposed in enumerate(transposed)]
        chain = MultistageSpec(
            type_, type_, type_, *majors, 0, 0, "fma", 64, 64, 32, 32, 8, 3, is_smem_transposed=a.itemsize <= 8
        )
        pitches = [x.shape[1] for x in stored]
        self.launch_chain = self.prepare(multistage.plan(chain, (m, n, depth), (n, *pitches)))

    def prepare(self, plan):
        return Prepared(self.backend, plan, [self.c.ptr], [x.ptr for x in self.operands])

    def fetch(self):
        result = np.empty(self.shape, self.dtype)
        self.backend.synchronize()
        self.backend.download(result, self.c.ptr)
        self.backend.upload(self.c.ptr, np.full(self.shape, np.nan, self.dtype))
        return result

    def is_unfit(self):
        if not self.is_guarded:
            return False
        flag = np.empty(1, np.uint32)
        self.backend.synchronize()
        self.backend.download(flag, self.launch.scratch.ptr)
        return bool(flag[0])


def spread(errors):
    """Return their root mean square."""
    return np.sqrt(np.square(errors).mean()) if errors.size else 0.0


def check(backend, case, shape, transposed, rng, cupy, dtype=np.float32, kind=Run):
    """Print a line; whether all is well."""
    a, b = draw(case, rng, *shape, dtype)
    run = kind(backend, a, b, transposed)
    run.fetch()
    run.launch()
    result, is_unfit = run.fetch(), run.is_unfit()
    run.launch_chain()
    reference = Reference(a, b)
    errors, errors_of_chain = reference.errors(result), reference.errors(run.fetch())
    error, chain = errors.max(initial=0), errors_of_chain.max(initial=0)
    peer = ""
    if cupy is not None:
        peer = f", cupy {reference.error(cupy.asnumpy(cupy.asarray(a) @ cupy.asarray(b))):8.3f}"
    name = case.__name__
    # The same arithmetic in another order: the largest of a million errors is chance, what they spread is not. Nor is
    # it where elements are of one product each.
    is_like = (is_unfit or name == "sparse") and spread(errors) <= 1.05 * spread(errors_of_chain)
    # What is the sum of two products is rounded twice, unless it is a chain.
    least = 2 if name == "identity" and a.dtype.kind == "c" and not run.is_guarded else 0.5
    is_no_worse = is_like or (not is_unfit and error <= max(chain, least))
    is_right = is_no_worse and (name == "overflowing" or error <= reference.depth)
    is_right &= not run.is_guarded or (not (is_unfit and name in FIT) and not (not is_unfit and name in UNFIT))
    way = "multiply-adds" if is_unfit else "tensor cores"
    verdict = "" if is_right else "  WRONG"
    majors = "".join("nt"[x] for x in transposed)
    write(
        f"{a.dtype!s:9s} {name:12s} {shape!s:18s} {majors} {way:13s}: {error:8.3f}, one chain {chain:8.3f}"
        f"{peer}{verdict}"
    )
    return is_right


def measure(backend, size, transposed, rng, cupy, dtype=np.float32):
    """Print a line; whether 8 rows are right."""
    a, b = draw(CASES[0], rng, size, size, size, dtype)
    run = Run(backend, a, b, transposed)
    flops = flops_of(dtype, size)
    rate = flops / milliseconds(backend, run.launch) * 1e-9
    result = run.fetch()
    multiply_adds = flops / milliseconds(backend, run.launch_multistage, 5) * 1e-9
    reference = Reference(a, b, np.sort(rng.choice(size, 8, replace=False)))
    error, other = reference.error(result), reference.error(run.fetch())
    peer = ""
    if cupy is not None:
        found = cupy.asnumpy(cupy.asarray(a) @ cupy.asarray(b))
        peer = f" (cupy {measure_peer(dtype, size):.1f}, error {reference.error(found):.3f})"
    parts = [(name, milliseconds(backend, launch, 5, at_once=8) * 1e3) for name, launch in run.launches]
    listed = ", ".join(f"{name} {microseconds:.0f}" for name, microseconds in parts)
    majors = "".join("nt"[x] for x in transposed)
    write(
        f"{a.dtype!s:9s} {size:5d} {majors}: {rate:6.1f} TFLOP/s, multiply-adds {multiply_adds:5.1f}{peer}; "
        f"errors {error:.3f}, {other:.3f}; workspace {run.workspace:.3f} of the operands; us: {listed}"
    )
    return error <= other


def main(arguments):
    """Check, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peer", action="store_true", help="measure CuPy as well")
    options = parser.parse_args(arguments)
    backend, rng = open_backend(), np.random.default_rng(11)
    cupy = importlib.import_module("cupy") if options.peer else None
    begin = time.perf_counter()
    is_right = True
    for dtype, sizes in SIZES.items():
        for number, case in enumerate(CASES):
            for shape in SHAPES:
                transposed = (bool(number & 1), bool(number & 2))
                is_right &= check(backend, case, shape, transposed, rng, cupy, dtype)
        for transposed in ((True, False), (False, True), (True, True)):
            is_right &= check(backend, CASES[0], SHAPES[1], transposed, rng, cupy, dtype)
        write(f"checked in {time.perf_counter() - begin:.1f} s")
        for size in sizes:
            is_right &= measure(backend, size, (False, False), rng, cupy, dtype)
        is_right &= measure(backend, 4096, (True, False), rng, None, dtype)
        is_right &= measure(backend, 4096, (False, True), rng, None, dtype)
    write(f"{'right' if is_right else 'WRONG'}, {time.perf_counter() - begin:.1f} s")
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

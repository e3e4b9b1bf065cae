"""Checks and times f32 and c64 products in bf16x3 on a GPU: ``python -m asv_benchmarks.kernels.bf16x3 [--peer]``.

First, for data of every kind, it prints the largest error, in units of 2**-24 |A| |B|, beside that of chains of fused
multiply-adds; then medians of times, on rotating operands that are larger than the L2 cache, and on one pair. It exits
with status 1 if an error is above that of multiply-adds.
"""

import argparse
import importlib
import sys
import traceback
from itertools import product

import numpy as np

from asv_benchmarks.kernels import sm90_mma as mma_program
from asv_benchmarks.kernels.fp16x2 import Run as Fp16x2Run
from asv_benchmarks.kernels.fp16x2 import check
from asv_benchmarks.kernels.plans import write
from asv_benchmarks.kernels.sm90_mma import Run, any_of, compare, cupy_of, operands, own_of, side_of, torch_of
from oxinp._kernels.gemm.select import plan_steps
from oxinp._kernels.gemm.sm90_mma import plan as sm90_mma
from oxinp._kernels.gemm.sm90_mma.spec import MmaSpec
from oxinp._ptx.types import f32
from oxinp.cuda import current
from tests.kernels.gemm.fp16x2.case import CASES

SHAPES = {
    np.float32: [(1024, 1024, 1024), (1100, 1032, 520)],
    np.complex64: [(512, 512, 512), (480, 516, 520)],
}
MAJORS = [("k", "mn"), ("mn", "k"), ("k", "k"), ("mn", "mn")]
SIZES = (256, 384, 512, 640, 768, 896, 1024, 1152, 1280, 1536)


class Bf16x3Run(Fp16x2Run):
    """One product on the device in bf16x3, and by multiply-adds."""

    is_guarded = False

    @staticmethod
    def plan(shape, depth, a, b, device):
        """Return the plan, which has to be one in bf16x3."""
        plan = plan_steps(shape, depth, a, b, a.type, device, "auto", 1 << 30)
        assert [x.kernel.name.count("parts") for x in plan.steps] == [1], [x.kernel.name for x in plan.steps]
        return plan


def measure(backend, size, rng, *, has_peer):
    """Print lines for squares of a size; whether all is right."""
    is_right, lines = True, []
    for num_sets in (8, 1):
        sets = operands(backend, MmaSpec(f32), (size,) * 3, 1, num_sets, rng)
        configs = [x.config for x in sm90_mma.MEASURED[f32] if x.config.is_bf16x3 or size == 1024]
        specs = [MmaSpec(f32, "k", "mn", *config, promotion=0 if config.is_bf16x3 else 256) for config in configs]
        runs = [Run(backend, spec, (size,) * 3, sets) for spec in specs]
        worst = [run.worst() for run in runs]
        is_right &= max(worst) <= 1
        sides = [*[side_of(backend, run.launches) for run in runs], any_of(backend, sets), own_of(backend, sets)]
        sides += [cupy_of(sets), torch_of(sets)] if has_peer else []
        names = [
            *[spec.name[len("gemm_native_f32_km_") :] for spec in specs],
            "multistage",
            "oxinp.matmul",
            "cupy",
            "torch",
        ]
        lines.append(
            " ".join(f"{name} {ms * 1e3:.1f}" for name, ms in zip(names, compare(backend, sides), strict=False))
        )
    write(f"{size} us cold: {lines[0]}\n{size} us warm: {lines[1]}")
    return is_right


def main(arguments):
    """Check, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peer", action="store_true", help="measure CuPy as well")
    parser.add_argument("--check", action="store_true", help="check errors only")
    options = parser.parse_args(arguments)
    backend, rng = current.cuda_backend(), np.random.default_rng(11)
    cupy = importlib.import_module("cupy") if options.peer else None
    is_right = True
    for dtype, (number, case) in product((np.float32, np.complex64), enumerate(CASES)):
        # Of complex matrices those in C order.
        transposed = (bool(number & 1), bool(number & 2)) if dtype is np.float32 else (False, False)
        shape = SHAPES[dtype][number % 3 == 2]
        try:
            is_right &= check(backend, case, shape, transposed, rng, cupy, dtype, Bf16x3Run)
        except Exception:  # noqa: BLE001
            traceback.print_exc()
            is_right = False
    for config in (
        [] if options.check else [option.config for option in sm90_mma.MEASURED[f32] if option.config.is_bf16x3]
    ):
        for majors in MAJORS:
            spec = MmaSpec(f32, *majors, *config)
            try:
                spec.check()
            except ValueError:
                continue
            worst = [
                Run(backend, here, shape, operands(backend, here, shape, count, 1, rng)).worst()
                for shape in mma_program.CHECKED_SHAPES
                for count in (1, 3)
                for here in [spec._replace(is_batched=count > 1, is_paired=shape[1] % 4 == 0)]
            ]
            found = [mma_program.repeated(backend, spec, shape) for shape in mma_program.REPEATED_SHAPES]
            is_right &= max(worst) <= 1 and all(x <= 1 and not others for x, others in found)
            write(f"{spec.name} errors / bound {max(worst):.3f}, repeated {found}")
    for size in () if options.check else SIZES:
        is_right &= measure(backend, size, rng, has_peer=options.peer)
    write("right" if is_right else "WRONG")
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""f32 and c64 products by fp16x2: conversions and guard on the emulator, the wgmma kernel simulated.

The whole, on the GPU, is `asv_benchmarks.kernels.fp16x2`'s.
"""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest

from asv_benchmarks.kernels import fp16x2 as program
from oxinp._kernels.gemm import select
from oxinp._kernels.gemm.fp16x2 import plan as fp16x2
from oxinp._kernels.gemm.fp16x2.convert import padded
from oxinp._kernels.gemm.fp16x2.kernel import DEPTH
from oxinp._kernels.gemm.operand import Matrices, Source
from oxinp._kernels.plan import ALIGNMENT, Plan
from oxinp._ptx.types import c64, f32, from_dtype
from tests.kernels.gemm.fp16x2.case import CASES, FIT, UNFIT, Reference, draw, embedded
from tests.kernels.gemm.guarded_case import H200_SHARED_NBYTES, GuardedPlan, fixture_of
from tests.kernels.machine import machine
from tests.thinned import thinned

DEVICE = SimpleNamespace(num_sms=4, cc=(9, 0), max_shared_nbytes=H200_SHARED_NBYTES, tuned=lambda _: None)
SHAPES = {np.float32: (23, 37, 1030), np.complex64: (23, 19, 515)}
TYPES = pytest.mark.parametrize("dtype", SHAPES, ids=lambda dtype: dtype.__name__)
MAJORS = list(itertools.product(("k", "mn"), repeat=2))


def scales(x, axis):
    """Exponents of what brings the largest magnitudes along an axis to [2**14, 2**15)."""
    largest = np.abs(x).max(axis=axis, keepdims=True).astype(np.float64)
    return np.where(largest > 0, 15 - np.frexp(largest)[1], 0)


def hi_and_lo(x, axis):
    """What the passes leave: hi and lo of the scaled matrix."""
    scaled = (x.astype(np.float64) * 2.0 ** scales(x, axis)).astype(np.float32)
    high = scaled.astype(np.float16)
    return high, (scaled - high.astype(np.float32)).astype(np.float16)


class Fp16x2Plan(GuardedPlan):
    """A product by fp16x2, but for the wgmma kernel."""

    def __init__(self, a, b, majors, alignment=256):
        super().__init__(machine(), a, b, majors, alignment)

    def planned(self, fallback):
        return fp16x2.plan(*self.sources, fallback, DEVICE)

    def hi_and_lo(self):
        """Return hi and lo of A, then of B, with their padding: imaginary parts behind real ones along M or N."""
        (step,) = [step for step in self.plan.steps if step.kernel.target == "sm_90a"]
        found = []
        for x, source in zip(step.arguments[-4:], [self.sources[0]] * 2 + [self.sources[1]] * 2, strict=True):
            lines, run, parts = source.lines, padded(source.run), len(source.type.parts)
            found.append(
                self.read(x, np.float16, (lines * parts, run) if source.major == "k" else (lines, run * parts))
            )
        return found


planned = fixture_of(Fp16x2Plan)


@pytest.mark.parametrize(
    ("layout", "case"),
    thinned(
        list(itertools.product(MAJORS, SHAPES)),
        [*((case, 256) for case in ("normal", "graded", "subnormal", "empty_lines")), ("decades", 4)],
    ),
    ids=str,
)
def test_conversions_store_hi_and_lo(planned, layout, case):
    (majors, dtype), (name, alignment) = layout, case
    case = next(each for each in CASES if each.__name__ == name)
    a, b = draw(case, np.random.default_rng(3), *SHAPES[dtype], dtype)
    plan = planned(a, b, majors, alignment * np.dtype(dtype).itemsize // 4 if alignment < 256 else alignment)
    plan.run()
    found = plan.hi_and_lo()
    # Both parts of an element are scaled as one: as if they were a row (column) of twice the length.
    expected = [
        np.split(half, len(source.type.parts), axis)
        for source, x, axis in zip(plan.sources, (a, b), (1, 0), strict=True)
        for half in hi_and_lo(np.concatenate([x.real, x.imag][: len(source.type.parts)], axis), axis)
    ]
    for source, stored, parts in zip([plan.sources[0]] * 2 + [plan.sources[1]] * 2, found, expected, strict=True):
        planes = np.split(stored, len(source.type.parts), axis=0 if source.major == "k" else 1)
        for plane, part in zip(planes, parts, strict=True):
            lines = part if (source.buffer == "in0") == (source.major == "k") else part.T
            assert np.array_equal(plane[:, : source.run], lines)
            if source.major == "k":
                assert not plane[:, source.run :].any()


@pytest.mark.parametrize(("case", "dtype"), thinned(CASES, list(SHAPES)), ids=lambda each: each.__name__)
def test_guard_and_multiply_adds(planned, case, dtype):
    a, b = draw(case, np.random.default_rng(4), *SHAPES[dtype], dtype)
    plan = planned(a, b, ("k", "mn"))
    plan.run()
    plan.check_guard(case.__name__, FIT, UNFIT)
    result = plan.result
    if plan.is_unfit:
        reference = Reference(a, b)
        assert reference.error(result) <= reference.depth
    else:
        assert np.isnan(result).all(), "multiply-adds worked although the guard is 0"


@pytest.mark.parametrize("shape", [(1024, 1024, 1024), (1031, 1100, 1909), (1024, 60000, 2048), (8192,) * 3], ids=str)
@pytest.mark.parametrize("majors", MAJORS, ids=str)
@TYPES
def test_workspace_is_the_operands_and_twelve_bytes_per_line(shape, majors, dtype):
    m, n, depth = shape
    type_ = from_dtype(np.dtype(dtype))
    sources = [
        Source(buffer, type_, major, *((lines, depth) if major == "k" else (depth, lines)), 1 << 16, 0, 1, 256)
        for buffer, major, lines in zip(("in0", "in1"), majors, (m, n), strict=True)
    ]
    device = SimpleNamespace(num_sms=132, cc=(9, 0), max_shared_nbytes=H200_SHARED_NBYTES, tuned=lambda _: None)
    plan = fp16x2.plan(*sources, Plan(()), device)
    operands = sum(x.lines * (-(-x.run // 8) * 8) * type_.nbytes for x in sources)
    assert plan.scratch_nbytes <= operands + 12 * (m + n) + 9 * ALIGNMENT


def truncated(x, unit):
    """Multiples of a power of two, towards zero."""
    return np.trunc(x / unit) * unit


def tensor_sums(total, a, b):
    """16 products and the sum so far: truncated 25 bits below the largest of them, the result at 24 bits of its own.

    The arithmetic of Hopper's units as measured by microsoft/MMA-Sim.
    """
    terms = np.concatenate([a[:, None, :] * b.T[None, :, :], total[:, :, None]], axis=2)
    largest = np.frexp(np.abs(terms).max(axis=2))[1]
    total = truncated(terms, np.ldexp(1.0, largest - 1 - 25)[:, :, None]).sum(axis=2)
    return truncated(total, np.ldexp(1.0, np.frexp(total)[1] - 24))


def simulated(a, b, period=DEPTH):
    """The product as the wgmma kernel makes it."""
    pairs = [[x.astype(np.float64) for x in hi_and_lo(operand, axis)] for operand, axis in ((a, 1), (b, 0))]
    (a_hi, a_lo), (b_hi, b_lo) = pairs
    totals = np.zeros((len(a), b.shape[1]), np.float32)
    for start in range(0, a.shape[1], period):
        sums = np.zeros(totals.shape)
        for x, y in ((a_lo, b_hi), (a_hi, b_lo), (a_hi, b_hi)):
            for step in range(start, min(start + period, a.shape[1]), 16):
                sums = tensor_sums(sums, x[:, step : step + 16], y[step : step + 16])
        totals += sums.astype(np.float32)
    with np.errstate(over="ignore", under="ignore"):
        return (totals * 2.0 ** -(scales(a, 1) + scales(b, 0)).astype(np.float64)).astype(np.float32)


def chained(a, b):
    """The product by fused multiply-adds, one after the other."""
    total = np.zeros((len(a), b.shape[1]), np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        for k in range(a.shape[1]):
            total = (a[:, k : k + 1].astype(np.float64) * b[k].astype(np.float64) + total).astype(np.float32)
    return total


def is_unfit(a, b):
    """What the guard says, in NumPy."""
    small, tiny = 0, 0
    for x, axis in ((a, 1), (b, 0)):
        scaled = np.abs(x.astype(np.float64)) * 2.0 ** scales(x, axis)
        counts = np.abs(x).max(axis=axis) > 0
        small += ((scaled < 2**3).sum(axis=axis) * counts).max()
        tiny += (((scaled < 2**-2) & (x != 0)).sum(axis=axis) * counts).max()
    depth = a.shape[1]
    return tiny * 2**-10 > depth * 2**-25 * 2**6 * max(depth - small, 0) or small > depth * 7 / 8


FINITE = [case for case in CASES if case.__name__ not in ("infinite", "nan", "overflowing")]


@pytest.mark.parametrize("case", FINITE, ids=lambda case: case.__name__)
@TYPES
def test_simulated_errors_are_below_those_of_multiply_adds(case, dtype):
    num_parts = np.dtype(dtype).itemsize // 4
    a, b = embedded(*draw(case, np.random.default_rng(5), 24, 24 // num_parts, 1024 // num_parts, dtype))
    if is_unfit(a, b):
        assert case.__name__ not in FIT
        return
    reference = Reference(a, b)
    error = reference.error(simulated(a, b))
    assert error <= max(reference.error(chained(a, b)), 0.5)
    assert error <= 84  # what the module's proof gives for this depth


def test_without_promotion_errors_grow():
    a, b = draw(CASES[1], np.random.default_rng(6), 8, 8, 4096)
    reference = Reference(a, b)
    assert reference.error(simulated(a, b, 4096)) > 8 * reference.error(simulated(a, b))


def test_problems_that_the_guard_refuses_would_be_wrong():
    a, b = draw(next(case for case in CASES if case.__name__ == "identity"), np.random.default_rng(7), 24, 24, 1024)
    assert is_unfit(a, b)
    reference = Reference(a, b)
    assert reference.error(simulated(a, b)) > 1024


@pytest.mark.hopper
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
@TYPES
def test_against_float64(case, dtype):
    rng = np.random.default_rng(8)
    for shape, transposed in zip(program.SHAPES, ((False, False), (True, True)), strict=True):
        assert program.check(machine().backend, case, shape, transposed, rng, None, dtype)


H200 = SimpleNamespace(num_sms=132, cc=(9, 0), max_shared_nbytes=H200_SHARED_NBYTES, tuned=lambda _: None)


@pytest.mark.parametrize("type_", [f32, c64], ids=str)
def test_workspace_is_that_of_the_operands(type_):
    matrices = Matrices(type_, (4096, 1), 256)
    plan = select.plan_fp16x2((4096, 4096), 4096, matrices, matrices, H200)
    assert plan.scratch_nbytes <= 2 * 4096**2 * type_.nbytes * 1.001


@pytest.mark.parametrize(
    ("shape", "depth", "cc"),
    [
        ((1008, 2048), 2048, (9, 0)),
        ((2048, 2048), 1023, (9, 0)),
        ((2048, 2048), 2048, (10, 0)),
        ((2, 2048, 2048), 2048, (9, 0)),
    ],
)
def test_other_problems_have_no_fp16x2_plan(shape, depth, cc):
    batch = (0,) * (len(shape) - 2)
    a, b = Matrices(f32, (*batch, depth, 1), 256), Matrices(f32, (*batch, shape[-1], 1), 256)
    device = SimpleNamespace(num_sms=132, cc=cc, max_shared_nbytes=H200_SHARED_NBYTES, tuned=lambda _: None)
    assert select.plan_fp16x2(shape, depth, a, b, device) is None

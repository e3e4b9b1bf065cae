"""Kernels of representative problems assemble for every architecture that is claimed, and keep their registers."""

import math
from types import SimpleNamespace

import pytest

from oxinp._kernels.fft.axes import COMPLEX, HALF, REAL, Array, Problem, plan_axes
from oxinp._kernels.fft.batch import Chained
from oxinp._kernels.fft.codelets import multiply
from oxinp._kernels.fft.cosine_plan import plan_cosine
from oxinp._kernels.fft.spec import TRIGONOMETRIC
from oxinp._kernels.plan import Argument
from oxinp._kernels.problem import Instr
from oxinp._ptx.types import c64, c128
from tests.kernels.assembled import check_assembled
from tests.kernels.test_catalog import renamed
from tests.ptx.assembler import sampled

DEVICE = SimpleNamespace(num_sms=132, cc=(9, 0), max_shared_nbytes=232448, tuned=lambda _: None)
# By what is in the name or text of a kernel: roots of unity that it computes, of doubles above all, and the products of
# convolutions take registers that numbers need as well.
SPILLED_NBYTES = {"circle": 16, "fft_merge": 16, "fft_split": 16, "fft_d": 16, "fft_staged": 16, "_by_": 64}
PROBLEMS = [
    (type_, kind, shape, axes)
    for type_ in (c64, c128)
    for kind, shape, axes in (
        *((COMPLEX, (1 << 24,), (0,)), (COMPLEX, (1 << 26,), (0,)), (COMPLEX, (8192, 8192), (0, 1))),
        *((COMPLEX, (1000, n), (1,)) for n in (13, 16, 31, 64, 100, 360, 1024, 4095, 4096, 6561, 8192, 10000)),
        *((COMPLEX, (1000, n), (1,)) for n in (37, 1009, 4099, 10007)),
        *((COMPLEX, (n, 1000), (0,)) for n in (16, 31, 512, 1000, 1009)),
        *((kind, (1000, n), (1,)) for kind in (REAL, HALF) for n in (20, 99, 2048, 4098)),
        *((kind, (1 << 25,), (0,)) for kind in (REAL, HALF)),
    )
]


def kernels_of(type_, kind, shape, axes):
    half = (*shape[:-1], shape[-1] // 2 + 1)
    real = type_.parts[0]
    own = [
        (half if kind == HALF else shape, real if kind == REAL else type_),
        (half if kind == REAL else shape, real if kind == HALF else type_),
    ]
    arrays = [
        Array(Argument(name), x, extents, tuple(math.prod(extents[i + 1 :]) for i in range(len(extents))), 256)
        for name, (extents, x) in zip(("in0", "out0"), own, strict=True)
    ]
    return [step.kernel for step in plan_axes(*arrays, type_, Problem(kind, axes, shape[axes[-1]]), DEVICE).steps]


SIZES = (c64, 60, 1), (c64, 8192, 0), (c64, 8192, 1), (c128, 60, 1), (c128, 4096, 0)
COSINES = [(type_, part, n, axis) for part in TRIGONOMETRIC for type_, n, axis in SIZES]


def cosines_of(type_, part, n, axis):
    shape = (n, 1000) if axis == 0 else (1000, n)
    arrays = [Array(Argument(name), type_.parts[0], shape, (shape[1], 1), 256) for name in ("in0", "out0")]
    return [step.kernel for step in plan_cosine(*arrays, type_, part, axis, (1.0, 1.0), DEVICE).steps]


def _product(k, a, b):
    return k.compound(a.type, *multiply(k, a.parts, b.parts))


def _real_product(k, a, b):
    del k
    return a * b


def _square(k, a):
    del k
    return a * a


def _power(k, a):
    real, imag = a.parts
    return k.fma(real, real, imag * imag)


# Times a filter before, squares of absolute values after, as long and short transforms and real ones have them.
FUSED = [
    (type_, kind, shape, axis, is_before)
    for type_ in (c64, c128)
    for kind, shape, axis in (
        *((COMPLEX, (1 << 24,), 0), (COMPLEX, (1000, 4096), 1), (COMPLEX, (1000, 64), 1), (COMPLEX, (1000, 9), 1)),
        *((COMPLEX, (1000, 1009), 1), (COMPLEX, (512, 1000), 0), (REAL, (1000, 4096), 1), (HALF, (1000, 4096), 1)),
    )
    for is_before in (False, True)
]


def fused_of(type_, kind, shape, axis, is_before):
    half = (*shape[:-1], shape[-1] // 2 + 1)
    real = type_.parts[0]
    arrays = [
        (half if kind == HALF else shape, real if kind == REAL else type_),
        (half if kind == REAL else shape, real if kind == HALF else type_),
    ]
    steps = [tuple(math.prod(own[i + 1 :]) for i in range(len(own))) for own, _ in arrays]
    given = [
        Array(Argument(name), x, own, step, 256)
        for name, (own, x), step in zip(("in0", "out0"), arrays, steps, strict=True)
    ]
    if is_before:
        x = given[0].type
        instr = Instr(_product if x.is_complex else _real_product, x, (0, 1))
        arguments = Argument("in0"), Argument("in1")
        chain = Chained((x, x), arguments, (True, True), (instr,), 2, x)
        beside = tuple(0 if i != axis else 1 for i in range(len(shape)))
        given[0] = given[0]._replace(chain=chain, others=(steps[0], beside))
    else:
        x = given[1].type
        instr = Instr(_power if x.is_complex else _square, real, (0,))
        given[1] = given[1]._replace(chain=Chained((), (), (), (instr,), 1, real))
    return [step.kernel for step in plan_axes(*given, type_, Problem(kind, (axis,), shape[axis]), DEVICE).steps]


@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
def test_kernels_assemble_without_spills(target):
    kernels = {kernel for problem in sampled(PROBLEMS) for kernel in kernels_of(*problem)}
    kernels |= {kernel for problem in sampled(COSINES) for kernel in cosines_of(*problem)}
    kernels |= {kernel for problem in sampled(FUSED) for kernel in fused_of(*problem)}
    entries = [renamed(kernel, i, target) for i, kernel in enumerate(sorted(kernels, key=lambda kernel: kernel.ptx))]
    allowed = {
        entry.name: max((most for what, most in SPILLED_NBYTES.items() if what in entry.ptx), default=0)
        for entry in entries
    }
    check_assembled(entries, allowed)

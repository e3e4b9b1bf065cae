"""Substitution with banded factors on the emulator, and that kernels keep their registers."""

import numpy as np
import pytest
import scipy.linalg

from oxinp._kernels.lapack import banded
from oxinp._kernels.lapack.banded import BandedSpec
from oxinp._kernels.plan import Argument, Copy, Plan
from oxinp._ptx.types import c64, c128, f32, f64, from_dtype
from oxinp.scipy.linalg._banded import _factored, _lu
from tests.kernels.lapack.case import RATIO, draw, run
from tests.kernels.lapack.spills import check_assembled
from tests.kernels.machine import machine


def solution(b, lower, upper, *places):
    spec = BandedSpec(from_dtype(b.dtype), lower.shape[1] - 1, upper.shape[1] - 1, bool(places))
    copied = Plan((Copy(Argument("out0"), Argument("in0"), b.nbytes),))
    plan = banded.plan(spec, *b.shape, copied)
    (x,) = run(machine(), plan, [np.full_like(b, np.nan)], (b, lower, upper, *places))
    return x


def whole(ab, lower, upper):
    """The matrix of a stored band."""
    n = ab.shape[1]
    a = np.zeros((n, n), ab.dtype)
    for i in range(n):
        for j in range(max(0, i - lower), min(n, i + upper + 1)):
            a[i, j] = ab[upper + i - j, j]
    return a


@pytest.mark.parametrize(
    ("n", "lower", "upper", "dtype"),
    [(1, 0, 0, "f8"), (9, 1, 1, "f8"), (23, 2, 3, "c8"), (30, 3, 0, "f4"), (17, 0, 2, "f8"), (5, 7, 9, "f8")],
)
def test_lapacks_solutions(n, lower, upper, dtype):
    rng = np.random.default_rng(n)
    ab, b = draw(rng, dtype, lower + upper + 1, n), draw(rng, dtype, n, 35)
    lower, upper = min(lower, n - 1), min(upper, n - 1)
    ab = ab[: lower + upper + 1]
    x = solution(b, *_lu(ab, lower, upper))
    a = whole(ab, lower, upper)
    scale = n * np.finfo(b.dtype).eps * np.linalg.norm(a, 1) * np.linalg.norm(x, 1)
    assert np.linalg.norm(b - a @ x, 1) <= RATIO * scale
    expected = scipy.linalg.solve_banded((lower, upper), ab, b)
    assert np.allclose(x, expected, rtol=0, atol=1e3 * np.finfo(b.dtype).eps * np.abs(expected).max())


@pytest.mark.parametrize("is_lower", [True, False])
@pytest.mark.parametrize("dtype", ["f8", "c16"])
def test_definite_bands(is_lower, dtype):
    rng = np.random.default_rng(1)
    ab, b = draw(rng, dtype, 3, 19), draw(rng, dtype, 19, 33)
    ab[0 if is_lower else -1] = 9
    x = solution(b, *_factored(ab, is_lower=is_lower))
    assert np.allclose(x, scipy.linalg.solveh_banded(ab, b, lower=is_lower), atol=1e-12)


def test_kernels_assemble_without_spills():
    specs = [
        *(BandedSpec(type_, 1, 2, True) for type_ in (f32, f64, c64, c128)),
        *(BandedSpec(type_, 5, 10, True) for type_ in (f64, c128)),
        BandedSpec(f64, 16, 16, True),
        BandedSpec(c128, 16, 16, False),
        BandedSpec(f64, 0, 0, False),
    ]
    check_assembled([banded.make(spec) for spec in specs])

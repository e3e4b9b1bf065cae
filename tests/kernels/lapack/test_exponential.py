"""Exponentials: powers with norms, the polynomial with its squares, and no spills."""

from types import SimpleNamespace

import numpy as np
import pytest
import scipy.linalg

from oxinp._kernels.lapack import exponential
from oxinp._kernels.lapack.exponential import TermsSpec
from oxinp._kernels.plan import Launch
from oxinp._ptx.types import c64, c128, f32, f64, from_dtype
from tests.kernels.lapack.case import RATIO, draw, run
from tests.kernels.lapack.spills import check_assembled
from tests.kernels.machine import machine

DEVICE = SimpleNamespace(num_sms=3, cc=(8, 0), max_shared_nbytes=160 * 1024, tuned=lambda _: None)
HOPPER = SimpleNamespace(num_sms=132, cc=(9, 0), max_shared_nbytes=232448, tuned=lambda _: None)
NATIVE = ("native", 0)


def powers_of(a):
    """The outputs of the first plan, of a stack."""
    plan = exponential.plan_powers(a.shape, from_dtype(a.dtype), DEVICE, NATIVE)
    return run(machine(), plan, [*(np.full_like(a, np.nan) for _ in range(3)), np.full(4, np.nan)], [a])


@pytest.mark.parametrize("num_squares", [0, 1, 2])
@pytest.mark.parametrize(("shape", "dtype"), [((35, 35), "f8"), ((2, 6, 6), "f4"), ((3, 3), "c16"), ((2, 4, 4), "c8")])
def test_exponentials(shape, dtype, num_squares):
    a = draw(np.random.default_rng(2), dtype, *shape)
    *powers, norms = powers_of(a)
    wanted = [np.linalg.matrix_power(a, i) for i in (1, 2, 3, 6)]
    eps = np.finfo(dtype).eps
    for power, right in zip(powers, wanted[1:], strict=True):
        assert np.abs(power - right).max() <= RATIO * eps * np.abs(right).max()
    expected = [np.linalg.norm(x, 1, axis=(-2, -1)).max() for x in wanted]
    np.testing.assert_allclose(norms, expected, rtol=50 * eps)
    scale = num_squares + 1
    plan = exponential.plan_polynomial(shape, from_dtype(a.dtype), DEVICE, scale + 2, num_squares, NATIVE)
    (found,) = run(machine(), plan, [np.full_like(a, np.nan)], [a, *powers])
    right = scipy.linalg.expm(a.astype("D" if a.dtype.kind == "c" else "d") / 8)
    assert np.abs(found - right).max() <= RATIO * shape[-1] * eps * np.abs(right).max()


@pytest.mark.parametrize("number", [np.nan, np.inf, 1e300])
def test_norms_of_what_is_not_finite(number):
    a = np.eye(5)
    a[2, 3] = a[3, 3] = number
    *_, norms = powers_of(a)
    assert not np.isfinite(norms[1:]).all()


def test_launches_of_a_large_matrix():
    """Five products, and as many more as there are squares; what is between them are four launches."""
    shape = (1024, 1024)
    plans = (
        exponential.plan_powers(shape, f64, HOPPER, NATIVE),
        exponential.plan_polynomial(shape, f64, HOPPER, 3, 2, NATIVE),
    )
    names = [step.kernel.name for plan in plans for step in plan.steps if isinstance(step, Launch)]
    assert sum(name.startswith("gemm") for name in names) == 7
    assert len(names) == 7 + 4


def test_kernels_assemble_without_spills():
    specs = [(f64, 1, 2), (f64, 1, 1), (f64, 2, 2), (f32, 1, 4), (f32, 1, 1), (f32, 2, 4)]
    kernels = [exponential.make_norms(type_) for type_ in (f32, f64, c64, c128)]
    check_assembled([*kernels, *(exponential.make_terms(TermsSpec(*spec)) for spec in specs)])

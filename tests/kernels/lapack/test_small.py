"""Many small matrices: solved, inverted and factored as LAPACK's ratios demand, and without spills."""

import itertools

import numpy as np
import pytest

from oxinp._kernels.lapack import diagonal, small, small_inverse
from oxinp._kernels.lapack.small import CHOLESKY, SOLVE, SmallSpec
from oxinp._ptx.types import c64, c128, f32, f64
from tests.kernels.lapack.case import RATIO, draw, run, stack_of, status
from tests.kernels.lapack.spills import check_assembled
from tests.kernels.machine import machine
from tests.ptx.assembler import sampled
from tests.thinned import thinned

DTYPES = ["f4", "f8", "c8", "c16"]
ORDERS = [1, 3, 7, 16, 32]


def norms(*arrays):
    return [np.linalg.norm(x, 1, axis=(-2, -1)) for x in arrays]


def solve(a, b):
    strides = (b.shape[-2] * b.shape[-1], b.shape[-1], 1)
    plan = small.plan(SOLVE, stack_of(a), stack_of(b), strides)
    return run(machine(), plan, (np.full_like(b, np.nan), status()), (a, b))


def run_on(a, plan):
    return run(machine(), plan, (np.full_like(a, np.nan), status()), (a,))


def factor(a):
    return run_on(a, small.plan(CHOLESKY, stack_of(a), stack_of(a)))


def invert(a):
    return run_on(a, small_inverse.plan(stack_of(a), stack_of(a)))


@pytest.mark.parametrize(("case", "columns"), thinned(list(itertools.product(ORDERS, DTYPES)), [1, 3, 35]))
def test_systems(case, columns):
    n, dtype = case
    rng = np.random.default_rng(n)
    a, b = draw(rng, dtype, 5, n, n), draw(rng, dtype, 5, n, columns)
    x, word = solve(a, b)
    assert word == diagonal.NO_ZERO
    residual, left, right = norms(b - a @ x, a, x)
    assert (residual <= RATIO * n * np.finfo(dtype).eps * left * right).all()


@pytest.mark.parametrize(("n", "dtype"), thinned(ORDERS, DTYPES))
def test_inverses(n, dtype):
    a = draw(np.random.default_rng(n), dtype, 3, n, n)
    x, word = invert(a)
    assert word == diagonal.NO_ZERO
    residual, left, right = norms(a @ x - np.eye(n), a, x)
    assert (residual <= RATIO * n * np.finfo(dtype).eps * left * right).all()


def test_inverses_of_what_is_ill_conditioned_have_residuals_of_systems():
    a = np.stack([1 / (np.arange(1, 33)[:, None] + np.arange(32) + shift) for shift in (0.0, 0.5, 40.0)])
    x, _ = invert(a)
    residual, left, right = norms(a @ x - np.eye(32), a, x)
    assert (residual <= RATIO * 32 * np.finfo("f8").eps * left * right).all()


@pytest.mark.parametrize(("n", "dtype"), thinned(ORDERS, DTYPES))
def test_cholesky(n, dtype):
    a = draw(np.random.default_rng(n), dtype, 5, n, n)
    a = a @ a.conj().swapaxes(-1, -2) + np.eye(n, dtype=dtype)
    lower, word = factor(np.where(np.tri(n, dtype=bool), a, np.nan))
    assert word == diagonal.NO_ZERO
    assert not np.triu(lower, 1).any()
    residual, whole = norms(a - lower @ lower.conj().swapaxes(-1, -2), a)
    assert (residual <= RATIO * n * np.finfo(dtype).eps * whole).all()


@pytest.mark.parametrize(("case", "step"), thinned([(32, "f8"), (19, "f8"), (32, "f4"), (27, "c16")], [4, 8]))
def test_inverses_in_loops(case, step, monkeypatch):
    """With pivots that change places, and one that is zero."""
    n, dtype = case
    a = draw(np.random.default_rng(2), dtype, 3, n, n)
    a[1] = np.eye(n)[np.random.default_rng(1).permutation(n)]
    monkeypatch.setattr(small_inverse, "STEP", step)
    found, word = invert(a)
    assert word == diagonal.NO_ZERO
    assert np.array_equal(found[1], a[1].T)
    residual, left, right = norms(a @ found - np.eye(n), a, found)
    assert (residual <= RATIO * n * np.finfo(dtype).eps * left * right).all()
    a[1, :, n // 2] = 0
    assert invert(a)[1] == n + n // 2


@pytest.mark.parametrize("n", [3, 8, 20])
def test_rows_that_have_to_change_places(n):
    rng = np.random.default_rng(1)
    a = np.stack([np.eye(n)[rng.permutation(n)] for _ in range(4)])
    assert np.array_equal(invert(a)[0], a.swapaxes(-1, -2))
    graded = rng.standard_normal((4, n, n)) * 10.0 ** -np.arange(n)[::-1, None]
    b = rng.standard_normal((4, n, 1))
    residual, left, right = norms(b - graded @ solve(graded, b)[0], graded, solve(graded, b)[0])
    assert (residual <= RATIO * n * np.finfo("f8").eps * left * right).all()


@pytest.mark.parametrize(("n", "column"), [(1, 0), (6, 5), (32, 20)])
def test_the_first_pivot_that_will_not_do(n, column):
    a = np.eye(n)
    a[column, column] = 0
    stack = np.stack([np.eye(n), np.eye(n), a, np.zeros((n, n))])
    assert invert(stack)[1] == 2 * n + column
    assert factor(stack)[1] == 2 * n + column
    assert solve(stack, np.ones((4, n, 1)))[1] == 2 * n + column


SPECS = [
    *(SmallSpec(type_, side, CHOLESKY) for type_ in (f32, f64, c64, c128) for side in small.SIDES),
    *(
        SmallSpec(type_, side, SOLVE, columns)
        for type_ in (f32, f64, c64, c128)
        for side in small.SIDES
        for most in (small.most_columns(type_, side),)
        for columns in (1, most)
    ),
]  # fmt: skip


@pytest.mark.slow
def test_kernels_assemble_without_spills():
    shapes = [*((side, 0) for side in small.SIDES if side < 32), (32, 4), (32, 8)]
    inverses = [small_inverse.InverseSpec(type_, *shape) for type_ in (f32, f64, c64, c128) for shape in shapes]
    kernels = [small.make(spec) for spec in sampled(SPECS)]
    check_assembled([*kernels, *map(small_inverse.make, sampled(inverses))])

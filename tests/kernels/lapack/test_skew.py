"""Kernels whose blocks wait for each other give the same bits whichever warps are ahead."""

from types import SimpleNamespace

import numpy as np
import pytest

from oxinp._kernels.lapack import (
    back_substitution,
    cholesky,
    hessenberg,
    ldl,
    lu,
    lu_cluster,
    lu_strips,
    pivoted,
    symmetric,
    tridiagonal,
)
from oxinp._kernels.lapack import plan as lapack
from oxinp._kernels.plan import Launch, in_order
from tests.kernels.lapack.case import draw, operand_of, run, stack_of, status
from tests.kernels.lapack.skew import skew
from tests.kernels.lapack.test_cholesky import tiled
from tests.kernels.machine import REQUIRE_GPU, machine

slow = pytest.mark.slow
pytestmark = pytest.mark.skipif(REQUIRE_GPU, reason="of the emulator")

BLOCKS = SimpleNamespace(num_sms=3, cc=(8, 0), max_shared_nbytes=160 * 1024, tuned=lambda _: None)
PAIR_OF_BLOCKS = SimpleNamespace(**vars(BLOCKS) | {"num_sms": 2})
CLUSTERS = SimpleNamespace(num_sms=132, cc=(9, 0), max_shared_nbytes=227 * 1024, tuned=lambda _: None)
AHEAD = {"width": 128, "group": 128, "looks_ahead": True}
PAIRS = SimpleNamespace(**vars(CLUSTERS) | {"tuned": lambda choice: AHEAD if choice.family == "lu/outer" else None})


def words(*shape):
    """Numbers of rows or columns."""
    return np.full(shape, 9999, np.uint32)


def numbers(a, *shape):
    """Elements of a matrix's dtype."""
    return np.full(shape, np.nan, a.dtype)


def factored(a, device):
    return lu.plan_factor(stack_of(a), device), [a, words(min(a.shape)), words(len(a)), status()], ()


def orthogonal(a, device):
    return lapack.plan_qr(a.shape, operand_of(a), device), [numbers(a, *a.shape), numbers(a, *[a.shape[1]] * 2)], [a]


def spectrum(a, device):
    a = a + a.conj().T
    plan = symmetric.plan(a.shape, operand_of(a), device, has_vectors=False)
    return plan, [np.zeros(len(a), a.real.dtype), np.full(1, -1)], [a]


def hessenberg_form(a, device):
    shapes = a.shape, hessenberg.reflectors_shape(len(a)), (len(a),)
    return hessenberg.plan_reduce(len(a), operand_of(a), device), [numbers(a, *shape) for shape in shapes], [a]


def with_pivoting(a, device):
    return pivoted.plan(a.shape, operand_of(a), device, "r"), [words(a.shape[1]), numbers(a, *a.shape)], [a]


def indefinite(a, device):
    a = a + a.conj().T
    outputs = [numbers(a, *a.shape), numbers(a, len(a)), numbers(a, len(a)), words(len(a))]
    return ldl.plan(ldl.Problem(len(a), True, False), operand_of(a), device), outputs, [a]


def solution(a, device):
    b = a[:, :1].copy()
    return lapack.plan_solve(b.shape, operand_of(a), operand_of(b), device), [numbers(b, *b.shape), status()], [a, b]


def tiles(a, device):
    a = a @ a.conj().T + len(a) * np.eye(len(a), dtype=a.dtype)
    return lapack.plan_cholesky(a.shape, operand_of(a), device), [numbers(a, *a.shape), status()], [a]


@pytest.mark.parametrize(
    ("planned", "kernel", "device", "shape", "dtype"),
    [
        (factored, "lu_cluster_panel", PAIRS, (70, 40), "f8"),
        pytest.param(factored, "lu_cluster_panel", PAIRS, (140, 70), "f4", marks=slow),
        pytest.param(factored, "lu_cluster_panel", PAIRS, (33, 33), "c16", marks=slow),
        pytest.param(factored, "lu_panel", BLOCKS, (140, 20), "f8", marks=slow),
        (orthogonal, "qr_cluster_panel", CLUSTERS, (140, 5), "f8"),
        pytest.param(orthogonal, "qr_panel", BLOCKS, (140, 9), "f8", marks=slow),
        pytest.param(spectrum, "tridiagonal_cluster", CLUSTERS, (12, 12), "f8", marks=slow),
        pytest.param(spectrum, "tridiagonal_panel", BLOCKS, (17, 17), "f8", marks=slow),
        pytest.param(hessenberg_form, "hessenberg_panel", BLOCKS, (17, 17), "f8", marks=slow),
        pytest.param(with_pivoting, "pivoted_qr_panel", BLOCKS, (17, 17), "f8", marks=slow),
        pytest.param(indefinite, "ldl_panel", BLOCKS, (17, 17), "f8", marks=slow),
        (solution, "back_substitution", BLOCKS, (150, 150), "f8"),
        (solution, "lu_strips", PAIR_OF_BLOCKS, (70, 70), "f8"),
        (tiles, "cholesky_tiles", tiled(256, (8, 0)), (130, 130), "f8"),
    ],
)
def test_same_bits_whichever_warps_are_ahead(planned, kernel, device, shape, dtype, monkeypatch):
    monkeypatch.setattr(lu_cluster, "SHAPES", ((32, 2), (64, 4)))
    monkeypatch.setattr(back_substitution, "FEWEST_ROWS", 1)
    if kernel != "lu_strips":
        monkeypatch.setattr(lu_strips, "SHAPES", ())
    monkeypatch.setattr(cholesky, "TILED_WIDTHS", (128, 256))
    monkeypatch.setattr(tridiagonal, "FEW_BLOCKS_ROWS", tridiagonal.MIN_ROWS)
    a = draw(np.random.default_rng(shape[0]), dtype, *shape)
    plan, outputs, inputs = planned(a, device)
    launches = [step for step in in_order(plan.steps) if isinstance(step, Launch) and step.kernel.name == kernel]
    assert launches
    assert any(step.grid[0] > 1 for step in launches)
    usual = run(machine(), plan, outputs, inputs)
    skew(monkeypatch, kernel, seed=len(kernel))
    for found, wanted in zip(run(machine(), plan, outputs, inputs), usual, strict=True):
        assert np.array_equal(found, wanted)

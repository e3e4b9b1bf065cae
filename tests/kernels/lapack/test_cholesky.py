"""Cholesky: LAPACK's ratios, only half of the matrix used, matrices that are not positive definite, no spills."""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest

from oxinp._kernels.lapack import cholesky, cholesky_tiles, diagonal
from oxinp._kernels.lapack.cholesky import CholeskySpec
from oxinp._kernels.lapack.cholesky_tiles import TilesSpec
from oxinp._ptx.types import c64, c128, f32, f64
from tests.kernels.lapack.case import RATIO, cholesky_of, draw, lower_of, small_cholesky_of
from tests.kernels.lapack.spills import check_assembled
from tests.kernels.machine import machine

DTYPES = ["f4", "f8", "c8", "c16"]
DEVICE = SimpleNamespace(num_sms=2, cc=(8, 6), max_shared_nbytes=99 * 1024, tuned=lambda _: None)


def positive_definite(rng, dtype, *shape):
    a = draw(rng, dtype, *shape)
    return a @ a.conj().swapaxes(-1, -2) + np.eye(shape[-1], dtype=dtype)


def check_factor(lower, a):
    """Compare with what LAPACK's test of ``||A - L L^H||`` allows."""
    n = a.shape[-1]
    residual = np.linalg.norm(a - lower @ lower.conj().swapaxes(-1, -2), 1, axis=(-2, -1))
    assert (residual <= RATIO * n * np.finfo(a.dtype).eps * np.linalg.norm(a, 1, axis=(-2, -1))).all()
    assert not np.diagonal(lower, axis1=-2, axis2=-1).imag.any()


def hidden(a):
    """The matrix with nothing above the diagonal that could be used."""
    return np.where(np.tri(a.shape[-1], dtype=bool), a, np.nan)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(1, 1), (16, 16), (50, 50), (3, 64, 64)], ids=str)
def test_matrices_of_one_block(shape, dtype):
    a = positive_definite(np.random.default_rng(1), dtype, *shape)
    lower, status = small_cholesky_of(machine(), hidden(a))
    assert status == diagonal.NO_ZERO
    assert not np.triu(lower, 1).any()
    check_factor(lower, a)


@pytest.mark.parametrize(
    ("dtype", "shape"),
    [
        ("f4", (2, 70, 70)),
        ("f8", (150, 150)),
        ("c8", (65, 65)),
        pytest.param("c16", (200, 200), marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_matrices_of_several_blocks(dtype, shape):
    a = positive_definite(np.random.default_rng(2), dtype, *shape)
    found, status = cholesky_of(machine(), DEVICE, hidden(a))
    assert status == diagonal.NO_ZERO
    assert not np.triu(found[..., : cholesky.LENGTH, : cholesky.LENGTH], 1).any()
    check_factor(np.tril(found), a)


def test_several_block_columns():
    narrow = SimpleNamespace(**vars(DEVICE) | {"tuned": lambda _: {"width": 128}})
    a = positive_definite(np.random.default_rng(3), "f4", 200, 200)
    found, status = cholesky_of(machine(), narrow, hidden(a))
    assert status == diagonal.NO_ZERO
    assert np.isnan(found[0, 64:]).all()
    check_factor(np.tril(found), a)


@pytest.mark.parametrize(("n", "row"), [(5, 0), (40, 39), (90, 70)])
def test_matrices_that_are_not_positive_definite(n, row):
    a = np.eye(n)
    a[row, row] = 0
    stack = np.stack([np.eye(n), a, -np.eye(n)])
    assert cholesky_of(machine(), DEVICE, stack)[1] == n + row
    if n <= cholesky.LENGTH:
        assert small_cholesky_of(machine(), stack)[1] == n + row


def tiled(width, cc=(9, 0)):
    """A device on which one launch factors a block column of a width."""
    answer = {"width": width, "resident": 2}
    return SimpleNamespace(num_sms=2, cc=cc, max_shared_nbytes=160 * 1024, tuned=lambda _: answer)


@pytest.fixture
def narrow_tiles(monkeypatch):
    monkeypatch.setattr(cholesky, "TILED_WIDTHS", (128, 256))


@pytest.mark.usefixtures("narrow_tiles")
@pytest.mark.parametrize(
    ("n", "width", "cc"),
    [
        (66, 256, (8, 0)),
        (130, 128, (9, 0)),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in ((192, 128, (9, 0)), (200, 256, (8, 0)), (250, 128, (9, 0)))
        ),
    ],
)
def test_block_columns_by_one_launch(n, width, cc):
    a = positive_definite(np.random.default_rng(4), "f8", n, n)
    lower, status = lower_of(machine(), tiled(width, cc), hidden(a))
    assert status == diagonal.NO_ZERO
    assert not np.triu(lower, 1).any()
    check_factor(lower, a)
    again, _ = lower_of(machine(), tiled(width, cc), hidden(a), is_transposed=True)
    np.testing.assert_array_equal(again, lower)


@pytest.mark.usefixtures("narrow_tiles")
@pytest.mark.parametrize("row", [pytest.param(63, marks=pytest.mark.slow), 130])
def test_tiles_that_are_not_positive_definite(row):
    a = np.eye(140)
    a[row, row] = -1
    a[row + 1 :, row + 1 :] -= np.eye(140 - row - 1)
    assert lower_of(machine(), tiled(128), a)[1] == row


@pytest.mark.usefixtures("narrow_tiles")
def test_graded_matrices_by_one_launch():
    rng = np.random.default_rng(5)
    q, _ = np.linalg.qr(rng.standard_normal((130, 130)))
    a = (q * np.logspace(0, -14, 130)) @ q.T
    a = np.tril(a) + np.tril(a, -1).T
    lower, status = lower_of(machine(), tiled(256), a)
    assert status == diagonal.NO_ZERO
    residual, exact = (np.linalg.norm(a - x @ x.T, 1) for x in (lower, np.linalg.cholesky(a)))
    assert residual <= 3 * max(exact, np.finfo(a.dtype).eps * np.linalg.norm(a, 1))


TYPES = (f32, f64, c64, c128)
SPECS = [CholeskySpec(*spec) for spec in itertools.product(TYPES, (1, 2, 3, 4), (False, True))]
SPECS += [CholeskySpec(type_, 4, is_out_of_place=True, has_rows=True) for type_ in TYPES]


@pytest.mark.slow
def test_kernels_assemble_without_spills():
    check_assembled([cholesky.make(spec) for spec in SPECS])
    check_assembled([cholesky_tiles.make(TilesSpec(8))])
    check_assembled([cholesky_tiles.make(TilesSpec(16))], {"sm_90": "7.8"})

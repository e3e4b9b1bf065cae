"""Where matrices are factored: on the side that was measured to be faster, composed functions as a whole."""

import numpy as np
import pytest
import scipy.linalg

import oxinp
from oxinp import _runtime
from oxinp._core.lazy.balance import balance
from oxinp._core.ops import crossover
from oxinp._core.ops.crossover import Crossover

A = np.random.default_rng(3).standard_normal((100, 100))  # 80 kB: more than what NumPy computes without being asked


def scipy_of(namespace):
    return scipy if namespace is np else oxinp.scipy


@pytest.fixture
def placed_by(config):
    """Set what was measured of every routine, on the device in use."""
    config.backend = "emulator"
    backend = _runtime.current()
    before = backend.capability

    def set_to(found):
        backend.capability = before.replace(tuned=lambda _: found._asdict())

    yield set_to
    backend.capability = before


@pytest.mark.parametrize(
    "call",
    [  # of a namespace and a matrix
        lambda np, a: np.linalg.inv(a),
        lambda np, a: np.linalg.svd(a)[1],
        lambda np, a: np.linalg.svd(a[:, :60], full_matrices=True)[0],
        lambda np, a: np.linalg.lstsq(a, a[0], rcond=None)[0],
        lambda np, a: scipy_of(np).linalg.lu(a)[2],
        lambda np, a: scipy_of(np).linalg.solve(a, a[0]),
        lambda np, a: scipy_of(np).linalg.expm(a),
    ],
)
def test_below_the_crossover_lapack_computes(call, placed_by, stats, config):
    placed_by(Crossover(101, 1, 32))
    with config.override(fallback="error"):
        ours = call(oxinp, A)
    assert not stats().launches
    assert not stats().fallbacks
    assert isinstance(ours, oxinp.ndarray)
    assert np.array_equal(np.asarray(ours), call(np, A))


@pytest.mark.parametrize(("resident", "is_fetched"), [(9, True), (8, False)])
def test_what_is_on_the_device_is_fetched_where_that_pays(resident, is_fetched, placed_by, stats, config):
    placed_by(Crossover(1, resident, 32))
    small = A[:8, :8]
    with config.override(offload_threshold=0):
        a = oxinp.asarray(small) + 0
        oxinp.evaluate(a)
    before = stats()
    values = np.asarray(oxinp.linalg.eigvalsh(a))
    assert (stats().launches == before.launches) == is_fetched
    assert np.allclose(values, np.linalg.eigvalsh(small))


def test_what_has_been_learned_of_smaller_arrays_has_no_larger_ones_fetched(placed_by, stats):
    """As of ``T + 3 * n * np.eye(n)``, whose matrix of floats is smaller than that of complex numbers."""
    placed_by(Crossover(98, 98, 32))
    a = oxinp.asarray(A) + 0
    oxinp.evaluate(a)
    balance._settle(1)
    try:
        balance.limit = A.nbytes  # which the matrix is not below
        before = stats()
        found = np.asarray(oxinp.linalg.solve(a, a[:, :2]))
        assert stats().launches > before.launches
        assert stats().d2h_bytes - before.d2h_bytes < A.nbytes
    finally:
        balance.begin(65536, is_adaptive=True)
    assert np.allclose(found, np.linalg.solve(A, A[:, :2]))


def test_lapack_has_no_permission_to_write(placed_by):
    placed_by(Crossover(101, 1, 32))
    a = np.asfortranarray(A)
    oxinp.scipy.linalg.lu_factor(a, True)
    oxinp.scipy.linalg.inv(a, overwrite_a=True)
    assert np.array_equal(a, A)


def test_from_the_crossover_on_the_device_does(placed_by, stats):
    placed_by(Crossover(8, 1, 32))
    assert np.allclose(np.asarray(oxinp.linalg.det(A[:8, :8])), np.linalg.det(A[:8, :8]))
    assert stats().launches


def test_stacks_go_by_their_number(placed_by, stats):
    placed_by(Crossover(512, 1, 64))
    few, many = np.tile(np.eye(5) + 1, (9, 40, 1, 1)), np.tile(np.eye(5) + 1, (40, 40, 1, 1))
    oxinp.evaluate(oxinp.linalg.inv(few))
    assert not stats().launches
    oxinp.evaluate(oxinp.linalg.inv(many))
    assert stats().launches


def test_no_device_is_started_to_ask_it(monkeypatch):
    monkeypatch.setattr(crossover.select, "opened", list)
    monkeypatch.setattr(crossover.select, "current", pytest.fail)
    assert crossover.crossover("inv", np.dtype("f8")) == crossover.DEFAULTS["inv"]

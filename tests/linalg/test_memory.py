"""Matrices where the device's memory is short: stacks in parts, less workspace, the message where that is no help."""

import numpy as np
import pytest

import oxinp
import oxinp.scipy.linalg
from oxinp import _runtime
from oxinp._core.ops import factorise, spectral, stacks
from oxinp._kernels.lapack import jacobi
from oxinp._runtime import hooks

pytestmark = pytest.mark.usefixtures("on_device")

LEAST = 1 << 20  # pieces of memory that are smaller hold no result of these tests


def drawn(count, *shape):
    """A stack; a GPU's memory comes in larger pieces than the emulator's."""
    count *= 1 if _runtime.current().name == "emulator" else 4096
    return np.random.default_rng(0).standard_normal((count, *shape))


@pytest.fixture
def plans(monkeypatch):
    """Plans as they are made, with the operations."""
    made, planned = [], stacks.planned

    def keeping(bound, *arguments, **options):
        made.append((planned(bound, *arguments, **options), bound, options["is_short"]))
        return made[-1][0]

    for module in (stacks, factorise, spectral):
        monkeypatch.setattr(module, "planned", keeping)
    return made


def taken():
    """Have the pending work of other tests done, and take what the pool then has free but cannot give back."""
    for hook in hooks.before_out_of_memory:
        hook()
    oxinp.cuda.trim()
    oxinp.cuda.limit_memory(0)
    backend, held = _runtime.current(), []
    size = 1 << oxinp.cuda.memory_stats().cached_nbytes.bit_length()
    with backend.pool.keeping_arrays:
        while size >= LEAST:
            try:
                held.append(backend.allocate(size))
            except MemoryError:
                size //= 2
    return held


def limited(nbytes, function, *arrays):
    """Return what a function gives where the device has room for so many bytes beside its operands."""
    given = [oxinp.asarray(x) * 1 for x in arrays]
    oxinp.evaluate(*given)
    try:
        held = taken()
        stats = oxinp.cuda.memory_stats()
        oxinp.cuda.limit_memory(stats.used_nbytes + stats.cached_nbytes + nbytes)
        oxinp.cuda.reset_stats()
        with oxinp.config.override(fallback="error"):
            found = function(*given)
            oxinp.evaluate(found)
        assert not oxinp.cuda.stats().evicted_bytes
        return found
    finally:
        oxinp.cuda.limit_memory(None)
        del held


def test_stacks_go_in_parts(plans):
    a = drawn(2, 40, 40)
    room = a.nbytes * 11 // 4  # the inverses, and workspace of one matrix, or a little more
    found = limited(room, oxinp.linalg.inv, a)
    np.testing.assert_allclose(np.asarray(found), np.linalg.inv(a), atol=1e-11)
    at_once, in_parts = (plan for plan, *_ in plans)
    assert in_parts.scratch_nbytes <= room - a.nbytes < at_once.scratch_nbytes
    assert [plan.steps[-1].count for plan in (at_once, in_parts)] == [
        1,
        min(len(a), stacks.PARTS),
    ]  # a status for each part
    a[-1] = 0
    with pytest.raises(np.linalg.LinAlgError, match="Singular"):
        limited(room, oxinp.linalg.inv, a)


def rebuilt_by_qr(factors):
    q, r = factors
    return q @ r


def rebuilt_by_lu(factors):
    p, lower, upper = factors
    return p @ lower @ upper


def hessenberg(a):
    h, q = oxinp.scipy.linalg.hessenberg(a, calc_q=True)
    return q @ h @ q.T


def with_pivoting(a):
    q, r, order = oxinp.scipy.linalg.qr(a, pivoting=True)
    return (q @ r)[:, oxinp.argsort(order)]


def of_spectrum(a):
    w, v = oxinp.linalg.eigh(a + a.T)
    return v * w @ v.T


def of_singular_values(a):
    u, s, vh = oxinp.linalg.svd(a)
    return u * s @ vh


def least_squares(a):
    """Of a matrix so tall that R of it is decomposed."""
    tall = oxinp.concatenate([a, a[:, ::-1]])
    return oxinp.linalg.lstsq(tall, tall @ a)[0]


SINGLE = {
    "inv": (oxinp.linalg.inv, np.linalg.inv),
    "solve": (lambda a: oxinp.linalg.solve(a, a), lambda a: np.eye(len(a))),
    "qr": (lambda a: rebuilt_by_qr(oxinp.linalg.qr(a)), lambda a: a),
    "slogdet": (lambda a: oxinp.linalg.slogdet(a)[1], lambda a: np.linalg.slogdet(a)[1]),
    "lu": (lambda a: rebuilt_by_lu(oxinp.scipy.linalg.lu(a)), lambda a: a),
    "hessenberg": (hessenberg, lambda a: a),
    "pivoted qr": (with_pivoting, lambda a: a),
    "eigh": (of_spectrum, lambda a: a + a.T),
    "svd": (of_singular_values, lambda a: a),
    "svdvals": (oxinp.linalg.svdvals, np.linalg.svdvals),
    "lstsq": (least_squares, lambda a: a),
}
"""What is computed of one matrix, and what NumPy makes of it."""
SPECTRAL = ("eigh", "svd", "svdvals", "lstsq")
SLOW = ("eigh", "svd", "svdvals")  # on the emulator, and parts of others


@pytest.fixture
def few_lanes(monkeypatch):
    """Let blocks hold matrices of at most 32 rows: the emulator is slow for those that none would hold otherwise."""
    if _runtime.current().name == "emulator":
        monkeypatch.setattr(jacobi, "LANES", {rows: lanes for rows, lanes in jacobi.LANES.items() if rows <= 32})


@pytest.mark.usefixtures("few_lanes")
@pytest.mark.parametrize("name", [pytest.param(x, marks=pytest.mark.slow if x in SLOW else ()) for x in SINGLE])
def test_single_matrices_take_less_workspace(plans, monkeypatch, name):
    """The first way has no memory for its workspace, which another one gets, with room for what that needs."""
    order = (33 if name in SPECTRAL else 72) if _runtime.current().name == "emulator" else 1024
    a = np.random.default_rng(1).standard_normal((order, order)) + 3 * np.eye(order)
    ours, numpys = SINGLE[name]
    backend, refused = _runtime.current(), []
    allocate = backend.allocate

    def allocate_little(nbytes):
        plan, _, is_short = plans[-1] if plans else (None, None, True)
        if not is_short and nbytes == plan.scratch_nbytes:
            refused.append(nbytes)
            raise MemoryError("no room for the workspace")
        return allocate(nbytes)

    with oxinp.config.override(fallback="error"):
        given = oxinp.asarray(a)
        monkeypatch.setattr(backend, "allocate", allocate_little)
        found = ours(given)
        oxinp.evaluate(found)
    np.testing.assert_allclose(oxinp.asnumpy(found), numpys(a), atol=1e-11 * order)
    short = [plan for plan, _, is_short in plans if is_short]
    assert refused
    assert short
    assert all(plan.scratch_nbytes <= nbytes for plan, nbytes in zip(short, refused, strict=False))


def test_stacks_of_spectra_go_in_parts(plans):
    a = drawn(16, 3, 8, 8)  # matrices at various distances are copied first
    seen = a[:, :2]
    room = seen.nbytes * 5 // 8
    w = limited(room, lambda x: oxinp.linalg.eigvalsh(x[:, :2]), a)
    np.testing.assert_allclose(np.asarray(w), np.linalg.eigvalsh(seen), atol=1e-12)
    at_once, in_parts = (plan for plan, *_ in plans)
    assert 4 * in_parts.scratch_nbytes < seen.nbytes <= at_once.scratch_nbytes


def test_what_was_needed_is_said(monkeypatch):
    monkeypatch.setattr(hooks, "to_evict", [])  # arrays that other tests have left would make room
    a = drawn(2, 40, 40)
    with pytest.raises(MemoryError, match="asked for"):
        limited(a.nbytes // 4, oxinp.linalg.inv, a)

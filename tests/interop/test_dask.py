"""Dask with blocks of ours: arrays made of ours, and the array backend "oxinp"."""

import importlib
import pickle
import tomllib
from pathlib import Path

import numpy as np
import pytest

import oxinp

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
backends = pytest.importorskip("dask.array.backends")
tokenize = pytest.importorskip("dask.base").tokenize

pytestmark = [
    pytest.mark.usefixtures("offload_threshold"),
    pytest.mark.filterwarnings("ignore::PendingDeprecationWarning"),
]
ROOT = Path(__file__).resolve().parents[2]
VALUES = np.random.default_rng(2).normal(size=(200, 200))


@pytest.fixture
def pair():
    """Return the same Dask array with blocks of ours and of NumPy's."""
    return [da.from_array(xp.asarray(VALUES), chunks=(100, 50)) for xp in (oxinp, np)]


@pytest.fixture
def backend():
    """Let Dask make arrays of ours, also where the package is not installed and its entry point not known."""
    entry_points = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["entry-points"]
    module, name = entry_points["dask.array.backends"]["oxinp"].split(":")
    entry_point = getattr(importlib.import_module(module), name)
    backends.array_creation_dispatch.register_backend("oxinp", entry_point())
    with dask.config.set({"array.backend": "oxinp"}):
        yield entry_point


def same(compute, ours, numpys):
    computed, expected = compute(ours).compute(), compute(numpys).compute()
    if np.ndim(expected):
        assert type(computed) is oxinp.ndarray
    assert np.allclose(np.asarray(computed), expected)


@pytest.mark.parametrize(
    "compute",
    [
        lambda a: a,
        lambda a: da.sin(a) * 2 + a.T,
        lambda a: a.sum(),
        lambda a: a.sum(axis=0),
        lambda a: a.mean(axis=1),
        lambda a: a.std(),
        lambda a: a.var(axis=0),
        lambda a: a.max(axis=0),
        lambda a: a.argmax(axis=1),
        lambda a: a.cumsum(axis=0),
        lambda a: da.nanmean(a, axis=0),
        lambda a: a @ a,
        lambda a: da.tensordot(a, a, 1),
        lambda a: da.einsum("ij,jk->ik", a, a),
        lambda a: a[::2, 3:],
        lambda a: a[[1, 5, 2]],
        lambda a: a[a > 0],
        lambda a: a.map_blocks(lambda block: block + 1),
        lambda a: a.map_overlap(lambda block: block * 2, 1, boundary="none"),
        lambda a: da.concatenate([a, a]),
        lambda a: da.stack([a, a]),
        lambda a: a.rechunk((50, 200)),
        lambda a: da.where(a > 0, a, 0),
        lambda a: abs(da.linalg.svd(a[:, :5].rechunk((100, 5)))[1]),
        lambda a: da.histogram(a, bins=[-1, 0, 1])[0],
        lambda a: da.topk(a, 3),
    ],
)
def test_arrays_of_ours(pair, compute):
    same(compute, *pair)


def test_blocks_are_ours(pair):
    kinds = []
    array = pair[0].map_blocks(lambda block: kinds.append(type(block)) or block)
    array.compute(scheduler="threads")
    assert set(kinds) == {oxinp.ndarray}
    assert type(array._meta) is oxinp.ndarray


def test_tokens_are_of_the_values():
    x = oxinp.asarray(VALUES)
    assert tokenize(x) == tokenize(x.copy())
    assert tokenize(x) != tokenize(x + 1)
    assert da.from_array(x).name == da.from_array(x.copy()).name


def test_graphs_can_be_sent(pair):
    again = pickle.loads(pickle.dumps(pair[0].sum(axis=0)))  # noqa: S301 - its own
    assert np.allclose(np.asarray(again.compute()), VALUES.sum(0))


@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize(
    "make",
    [
        lambda: da.ones((300, 300), chunks=150),
        lambda: da.zeros(5),
        lambda: da.full((3, 2), 7),
        lambda: da.arange(2, 90, 3, chunks=10),
        lambda: da.ones_like(da.zeros(4)),
        lambda: da.ones((300, 300), chunks=150) + da.arange(300, chunks=100),
        lambda: da.concatenate([da.ones(5), da.zeros(3)]),
        lambda: da.percentile(da.arange(100.0, chunks=50), [1, 50]),
        lambda: da.median(da.ones((6, 6), chunks=3), axis=0),
        lambda: da.pad(da.ones((6, 6), chunks=3), 1),
        lambda: da.random.default_rng(0).normal(size=(5, 5)),
        lambda: da.random.RandomState(3).normal(size=5),
    ],
)
def test_creation(make):
    ours = make()
    with dask.config.set({"array.backend": "numpy"}):
        numpys = make()
    assert type(ours._meta) is oxinp.ndarray
    same(lambda array: array, ours, numpys)
    assert ours.dtype == numpys.dtype


@pytest.mark.usefixtures("backend")
def test_empty():
    made = da.empty((3, 2))
    assert type(made._meta) is oxinp.ndarray
    assert type(made.compute()) is oxinp.ndarray
    assert made.compute().shape == (3, 2)


@pytest.mark.usefixtures("backend")
def test_to_and_from_the_backend():
    there = da.from_array(VALUES, chunks=100).to_backend("oxinp")
    assert type(there.compute()) is oxinp.ndarray
    assert there.to_backend("oxinp") is there
    back = there.to_backend("numpy").compute()
    assert type(back) is np.ndarray
    assert np.array_equal(back, VALUES)

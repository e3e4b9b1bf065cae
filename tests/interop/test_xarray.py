"""xarray around our arrays: what it computes stays ours."""

import numpy as np
import pytest

import oxinp

xarray = pytest.importorskip("xarray")
pytestmark = pytest.mark.usefixtures("offload_threshold")

VALUES = np.random.default_rng(1).normal(size=(100, 200))


@pytest.fixture
def pair():
    """Return the same data array over ours and over NumPy's."""
    return [xarray.DataArray(xp.asarray(VALUES), dims=("u", "v"), coords={"u": np.arange(100)}) for xp in (oxinp, np)]


@pytest.mark.parametrize(
    "compute",
    [
        lambda a: a * 2 + a.T,
        np.sin,
        lambda a: a.sum("v"),
        lambda a: a.mean("u"),
        lambda a: a.std("u"),
        lambda a: a.cumsum("u"),
        lambda a: a.argmax("u"),
        lambda a: a.isel(u=3),
        lambda a: a.sel(u=slice(3, 9)),
        lambda a: a.where(a > 0),
        lambda a: a.transpose("v", "u"),
        lambda a: xarray.concat([a, a], "u"),
        lambda a: a.groupby(a.u % 3).mean(),
        lambda a: a.rolling(u=2).mean(),
        lambda a: a.coarsen(u=2).sum(),
        lambda a: a @ a.rename(v="w").isel(w=0, drop=True),
        lambda a: xarray.Dataset({"q": a}).sum("v").q,
        lambda a: xarray.apply_ufunc(np.hypot, a, a),
        lambda a: a.fillna(0).clip(0, 1).astype("f4"),
    ],
)
def test_stays_ours(pair, compute):
    ours, numpys = map(compute, pair)
    assert type(ours.data) is oxinp.ndarray
    assert ours.dims == numpys.dims
    assert np.allclose(np.asarray(ours.data), numpys.data, equal_nan=True)


def test_shown_and_loaded(pair):
    ours, numpys = pair
    assert repr(ours).split("\n")[0] == repr(numpys).split("\n")[0]
    assert ours.sel(u=3).sum().item() == pytest.approx(numpys.sel(u=3).sum().item())
    assert type(ours.values) is np.ndarray
    assert ours.to_series().shape == (20_000,)

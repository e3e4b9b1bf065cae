"""pandas takes our arrays, and its objects give them back."""

import numpy as np
import pytest

import oxinp

pandas = pytest.importorskip("pandas")
pytestmark = pytest.mark.usefixtures("offload_threshold")


def test_series():
    x = oxinp.arange(20_000.0)
    series = pandas.Series(x * 2)
    assert series.sum() == np.arange(20_000.0).sum() * 2
    assert series.dtype == "f8"
    x += 1
    assert series[0] == 0


def test_frame_of_columns_and_of_a_matrix():
    x = oxinp.arange(6.0)
    frame = pandas.DataFrame({"a": x, "b": x * x})
    assert frame.b.tolist() == [0, 1, 4, 9, 16, 25]
    frame["c"] = oxinp.sqrt(x * x)
    assert frame.c.tolist() == frame.a.tolist()
    frame = pandas.DataFrame(x.reshape(3, 2), columns=list("ab"))
    assert frame.mean().tolist() == [2, 3]


def test_index_and_selection():
    series = pandas.Series([1, 2, 3], index=pandas.Index(oxinp.array([7, 8, 9])))
    assert series[8] == 2
    assert series.iloc[oxinp.array([0, 2])].tolist() == [1, 3]
    assert pandas.to_datetime(oxinp.array(["2001-01-01"], "M8[ns]")).year.tolist() == [2001]
    assert pandas.cut(oxinp.arange(9.0), 3).categories.size == 3


def test_arithmetic_is_pandas_business():
    series = pandas.Series([1.0, 2, 3])
    for result in (series + oxinp.ones(3), oxinp.ones(3) + series, np.add(oxinp.ones(3), series)):
        assert type(result) is pandas.Series
        assert result.tolist() == [2, 3, 4]


def test_back():
    series = pandas.Series([1.0, 2, 3])
    assert type(oxinp.asarray(series)) is oxinp.ndarray
    assert oxinp.asarray(series).tolist() == [1, 2, 3]
    assert oxinp.sum(series) == 6
    assert type(oxinp.concatenate([oxinp.ones(2), series.to_numpy()])) is oxinp.ndarray


def test_masks_and_keys():
    series, mask = pandas.Series([10.0, 20, 30]), oxinp.array([False, False, True])
    frame = pandas.DataFrame({"a": series, "b": series})
    for selected in (series[mask], series.iloc[mask], series.loc[mask], frame[mask].a, frame.loc[mask, "b"]):
        assert selected.tolist() == [30]
    frame.loc[mask, "a"] = 0
    assert frame.a.tolist() == [10, 20, 0]
    assert series.groupby(oxinp.array([1, 1, 2])).sum().tolist() == [30, 30]
    assert pandas.unique(oxinp.array([2, 1, 2])).tolist() == [2, 1]
    assert pandas.factorize(oxinp.array([2, 1, 2]))[0].tolist() == [0, 1, 0]
    assert series.isin(oxinp.array([10.0])).tolist() == [True, False, False]


def test_functions_are_the_containers_own():
    series, frame = pandas.Series([1.0, 2], index=["a", "b"]), pandas.DataFrame({"a": [1.0, 2]})
    for result in (oxinp.cumsum(series), oxinp.round(series), oxinp.clip(series, 0, 1), oxinp.mean(frame, axis=0)):
        assert type(result) is pandas.Series
    assert oxinp.hypot(oxinp.ones(2), series).tolist() == [2**0.5, 5**0.5]
    x = alias = oxinp.ones(2)
    x += series
    assert alias.tolist() == [2, 3]

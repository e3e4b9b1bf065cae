"""Autocovariances of several series at once, lag by lag."""

import numpy as np

SIZES = {"tiny": (20, 3, 6), "small": (1000, 16, 200), "medium": (8000, 24, 900), "large": (50_000, 40, 1500)}


def make(rng, n, m, lags):
    return rng.standard_normal((n, m)), lags


def run(series, lags):
    n, m = series.shape
    series = series - series.mean(axis=0)
    covariances = np.empty((lags, m))
    for k in range(lags):
        covariances[k] = (series[k:] * series[: n - k]).sum(axis=0) / n
    return covariances, covariances / covariances[0]

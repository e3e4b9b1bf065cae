"""Engines of low-discrepancy points: SciPy's, of which Sobol' and Halton make large numbers of points on the device."""

from __future__ import annotations

import inspect
import warnings
from typing import Any

import numpy as np
import scipy.stats.qmc

from oxinp._core.array import dispatch
from oxinp._core.lazy.placement import starts_on_device
from oxinp._core.lazy.results import wrap_host
from oxinp._core.ops import quasi

MOST_POINTS = 1 << 32  # that kernels number
_UNEVEN = "The balance properties of Sobol' points require n to be a power of 2."


class _Engine:
    """What the engines have in common: SciPy's arguments, and points that are our arrays."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{name: _numpys(value) for name, value in kwargs.items()})

    def random(self, n: Any = 1, *, workers: Any = 1) -> Any:
        """See `scipy.stats.qmc.QMCEngine.random`."""
        sample = super().random(n, workers=workers)  # type: ignore[misc]
        return wrap_host(sample) if type(sample) is np.ndarray else sample

    def _is_on_device(self, n: Any) -> bool:
        """Whether the device is to make the next `n` points."""
        own: Any = self
        if type(n) is not int or n < 2 or own.optimization_method is not None:
            return False
        return bool(own.num_generated + n <= MOST_POINTS and starts_on_device(n * own.d * 8))


def _numpys(value: Any) -> Any:
    """A generator of NumPy's for one of ours, with the same bit generator."""
    return np.random.Generator(value.bit_generator) if isinstance(value, np.random.Generator) else value


class Sobol(_Engine, scipy.stats.qmc.Sobol):  # type: ignore[misc]
    """See `scipy.stats.qmc.Sobol`."""

    def _random(self, n: Any = 1, *, workers: Any = 1) -> Any:
        if not self._is_on_device(n) or self.num_generated + n > self.maxn:
            return super()._random(n, workers=workers)
        if self.num_generated == 0 and n & (n - 1):
            warnings.warn(_UNEVEN, stacklevel=4)
        points = quasi.sobol(self._sv, self._shift, self.num_generated, n, self._scale)
        last = self.num_generated + n - 1
        gray = last ^ (last >> 1)
        bits = [bit for bit in range(gray.bit_length()) if gray >> bit & 1]
        self._quasi = np.bitwise_xor.reduce(self._sv[:, bits], axis=1) ^ self._shift
        return points


class Halton(_Engine, scipy.stats.qmc.Halton):  # type: ignore[misc]
    """See `scipy.stats.qmc.Halton`."""

    def _random(self, n: Any = 1, *, workers: Any = 1) -> Any:
        if not self._is_on_device(n):
            return super()._random(n, workers=workers)
        permutations = list(self._permutations) if self.scramble else None
        counts = [len(each) for each in permutations] if permutations is not None else [None] * self.d
        weights = [_weights(base, count) for base, count in zip(self.base, counts, strict=True)]
        return quasi.halton(self.base, weights, permutations, self.num_generated, n)


def _weights(base: int, count: int | None) -> list[float]:
    """What the digits of a number count, as SciPy computes it; as long as that makes a difference to 1."""
    weights: list[float] = []
    weight = 1.0 / base
    while len(weights) < count if count is not None else 1.0 - weight < 1.0:
        weights.append(weight)
        weight /= base
    return weights


class LatinHypercube(_Engine, scipy.stats.qmc.LatinHypercube):  # type: ignore[misc]
    """See `scipy.stats.qmc.LatinHypercube`."""


for _ours in (Sobol, Halton, LatinHypercube):
    _theirs = getattr(scipy.stats.qmc, _ours.__name__)
    _ours.__module__ = "oxinp.scipy.stats.qmc"
    _ours.__doc__ = _theirs.__doc__
    _ours.__signature__ = inspect.signature(_theirs)
    dispatch.register(_theirs, _ours)

__all__ = ["Halton", "LatinHypercube", "Sobol"]

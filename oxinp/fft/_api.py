"""Functions of `numpy.fft` on the device: orders of frequencies.

They are written in Python by NumPy, in terms of functions that we have; shifts of a transform that nothing else has
asked for are done as it is stored, and those before a transform as it reads.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Any

import numpy as np

from oxinp._api.fronts import implements
from oxinp._api.rebound import rebound
from oxinp._core.array.ndarray import ndarray
from oxinp._core.ops.fft import shift, shifted


def _shift(name: str) -> Callable[..., Any]:
    numpys = rebound(getattr(np.fft, name))

    def function(x: Any, axes: Any = None) -> Any:
        along = range(x.ndim) if axes is None and type(x) is ndarray else (axes,) if type(axes) is int else axes
        if type(x) is ndarray and type(along) in (range, tuple) and all(type(axis) is int for axis in along):
            places = [axis % x.ndim for axis in along if -x.ndim <= axis < x.ndim]
            if len(set(places)) == len(along):
                moved = tuple([axis for axis in places if x.shape[axis] > 1])
                found = shifted(x, moved) if moved else None
                if found is None and moved:
                    found = shift(x, moved)
                if found is not None:
                    return found
        return numpys(x, axes)

    return function


for _name in ("fftshift", "ifftshift"):  # which are the same along axes of even lengths
    implements(f"fft.{_name}")(_shift(_name))


def _length(args: tuple[Any, ...]) -> float:
    """Return how many frequencies there are at most."""
    return args[0] if args and type(args[0]) is int else inf


for _name in ("fftfreq", "rfftfreq"):
    implements(f"fft.{_name}", most=_length)(rebound(getattr(np.fft, _name)))

"""Requests of Fourier transforms: what NumPy's and SciPy's functions are asked for, and what that comes to."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from oxinp._core.lazy.expr import Unsupported

COMPLEX, REAL, HALF = "complex", "real", "half"
MAX_LENGTH = 1 << 30
MAX_HALF = 65519  # that float16 does not round to infinity: NumPy's factors of longer transforms of float16 are zero


class Kind(NamedTuple):
    """What one of NumPy's functions computes."""

    kind: str
    is_forward: bool


# By the names of the functions, without the number of axes.
KINDS = {
    "fft": Kind(COMPLEX, True),
    "ifft": Kind(COMPLEX, False),
    "rfft": Kind(REAL, True),
    "irfft": Kind(HALF, False),
    "hfft": Kind(HALF, True),
    "ihfft": Kind(REAL, False),
}
NORMS = ("backward", "ortho", "forward")


class Request(NamedTuple):
    """A transform of an array: the parameters of the operation.

    Attributes
    ----------
    library : str
        ``"numpy"`` or ``"scipy"``, whose function computes on the host.
    name : str
        Of that function.
    lengths : tuple of int or None
        Along the axes; None where the caller gave none.
    axes : tuple of int or None
        None where the caller gave none.
    norm : str or None
    rotated, given_rotated : tuple of int
        Axes along which the result is, or the array before it, shifted as `numpy.fft.fftshift` does.
    """

    library: str
    name: str
    lengths: tuple[int, ...] | None
    axes: tuple[int, ...] | None
    norm: str | None
    rotated: tuple[int, ...] = ()
    given_rotated: tuple[int, ...] = ()

    @property
    def kind(self) -> Kind:
        """What is computed along the last axis."""
        return KINDS[self.name.rstrip("2n")]

    def function(self) -> Callable[..., Any]:
        """The library's function."""
        function: Callable[..., Any] = getattr(importlib.import_module(f"{self.library}.fft"), self.name)
        return function

    def on_host(self, x: Any) -> Any:
        """Call the library's function."""
        if self.rotated or self.given_rotated:
            plain = self._replace(rotated=(), given_rotated=())
            return np.fft.fftshift(plain.on_host(np.fft.fftshift(x, self.given_rotated)), self.rotated)
        if self.name[-1] in "2n":
            given: dict[str, Any] = {} if self.axes is None else {"axes": self.axes}
            return self.function()(x, self.lengths, norm=self.norm, **given)
        (length,) = self.lengths or (None,)
        (axis,) = self.axes or (-1,)
        return self.function()(x, length, axis, self.norm)


class Resolved(NamedTuple):
    """A transform of a layout: axes and lengths that the caller may have left out."""

    axes: tuple[int, ...]
    lengths: tuple[int, ...]
    shape: tuple[int, ...]
    dtype: np.dtype[Any]


@lru_cache(1 << 12)
def resolve(request: Request, shape: tuple[int, ...], dtype: np.dtype[Any], most: int = MAX_LENGTH) -> Resolved:
    """Return axes, lengths, which are `most` at most, shape and dtype of the result.

    Raises
    ------
    Unsupported
        The device has no kernel, or the library refuses the arguments and says why.
    """
    axes, lengths, ndim = request.axes, request.lengths, len(shape)
    if axes is None:
        count = ndim if lengths is None else len(lengths)
        axes = tuple(range(ndim - count, ndim)) if request.name[-1] == "n" else (-2, -1)[-_num_axes(request) :]
    if not axes or not all(-ndim <= axis < ndim for axis in axes):
        raise Unsupported("no axes, or axes that the array has not")
    axes = tuple([axis % ndim for axis in axes])
    kind = request.kind.kind
    if lengths is None:
        own = [shape[axis] for axis in axes]
        if kind == HALF:
            own[-1] = 2 * (own[-1] - 1)
        lengths = tuple(own)
    is_even = len(lengths) == len(axes) == len(set(axes))
    if is_even and request.name[-1] in "2n":
        lengths = tuple([shape[axis] if n == -1 else n for n, axis in zip(lengths, axes, strict=True)])
    if not is_even or not all(0 < n <= most for n in lengths) or request.norm not in (None, *NORMS):
        raise Unsupported("lengths, axes or a norm that the library refuses or treats in a way of its own")
    result = list(shape)
    for axis, n in zip(axes, lengths, strict=True):
        result[axis] = n
    if kind == REAL:
        result[axes[-1]] = lengths[-1] // 2 + 1
    made = result_dtype(request.library, request.name, dtype, 1 if len(axes) == 1 and request.name[-1] == "n" else 2)
    is_padded = 0 in shape and 0 not in result  # to what is all zeros
    if is_padded or made not in (np.dtype(x) for x in "fdFD"):
        raise Unsupported("no elements, or a dtype that has no kernels")
    return Resolved(axes, lengths, tuple(result), made)


def _num_axes(request: Request) -> int:
    return 2 if request.name[-1] == "2" else 1


@lru_cache(256)
def result_dtype(library: str, name: str, dtype: np.dtype[Any], ndim: int = 2) -> np.dtype[Any]:
    """Return the dtype of the result, which the library is asked for, in so many dimensions.

    Raises
    ------
    Unsupported
        The library refuses the dtype.
    """
    probe = Request(library, name, None, None, None)
    try:
        found: np.dtype[Any] = probe.on_host(np.zeros((2,) * ndim, dtype)).dtype
    except (TypeError, ValueError):
        raise Unsupported("a dtype that the library refuses") from None
    return found


def scale_of(request: Request, lengths: tuple[int, ...], dtype: np.dtype[Any]) -> float:
    """Return what the results of an operand of a dtype are multiplied by."""
    norm = request.norm or "backward"
    if norm != "ortho" and (norm == "forward") != request.kind.is_forward:
        return 1.0
    root: Callable[[Any], Any] = np.sqrt if norm == "ortho" else np.asarray
    size = math.prod(lengths)
    if request.library != "numpy" or dtype != np.float16:
        return float(1 / root(float(size)))
    # NumPy computes the factor of the axis that it begins with in half precision.
    n = lengths[0 if request.kind.kind == HALF else -1]
    return 0.0 if n > MAX_HALF else float(1 / root(float(size // n))) * float(1 / root(np.float16(n)))


def unscaled(request: Request) -> Request:
    """Return the request of a transform's sums alone, which no factor multiplies."""
    return request._replace(norm="backward" if request.kind.is_forward else "forward")


__all__ = [
    "COMPLEX",
    "HALF",
    "MAX_LENGTH",
    "NORMS",
    "REAL",
    "Request",
    "Resolved",
    "resolve",
    "result_dtype",
    "scale_of",
    "unscaled",
]

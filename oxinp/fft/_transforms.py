"""Discrete Fourier transforms: the functions of `numpy.fft`."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from oxinp._api.fronts import as_ours, implements
from oxinp._core.errors.frames import call_as_user
from oxinp._core.host.exchange import is_array
from oxinp._core.lazy.expr import Unsupported
from oxinp._core.lazy.results import types
from oxinp._core.lazy.stores import check_writeable
from oxinp._core.manipulation.copy import assign
from oxinp._core.ops.fft import transform, transform_on_host
from oxinp._core.ops.fft_again import again, transform_again
from oxinp._core.ops.fft_parts import in_parts
from oxinp._core.ops.fft_request import Request
from oxinp._core.ops.filtered import filtered
from oxinp._core.ops.overwriting import take_over

Function = Callable[..., Any]


def request(
    library: str, name: str, lengths: Sequence[Any] | None, axes: Sequence[Any] | None, norm: str | None
) -> Request:
    """Return a transform's request.

    Raises
    ------
    Unsupported
        Lengths or axes are no integers, of which the library says why it refuses them.
    """
    try:
        n = None if lengths is None else tuple(map(operator.index, lengths))
        places = None if axes is None else tuple(map(operator.index, axes))
    except TypeError:
        raise Unsupported("lengths or axes that are no integers") from None
    if not (norm is None or isinstance(norm, str)):
        raise Unsupported("a norm that is no text")
    if any(type(each) is bool for each in lengths or ()):
        raise Unsupported("truth values, which some functions take for lengths")
    return Request(library, name, n, places, norm)


def request_along(library: str, name: str, n: Any, axis: Any, norm: Any) -> Request:
    """Return the request of a transform along one axis: that of an earlier call with the same arguments, if any."""
    try:
        return _asked_before(library, name, n, axis, norm)
    except TypeError:  # an argument that has no hash
        return request(library, name, (n,), (axis,), norm)


@lru_cache(1 << 10, typed=True)
def _asked_before(library: str, name: str, n: Any, axis: Any, norm: Any) -> Request:
    return request(library, name, None if n is None else (n,), (axis,), norm)


def apply(a: Any, wanted: Request, out: Any = None, *, is_overwritable: bool = False) -> Any:
    """Transform an array, into `out` if there is one; its elements may be overwritten if that saves memory."""
    is_plain = type(a) is types.ndarray and out is None and not is_overwritable
    if is_plain and (known := transform_again(a, wanted)) is not None:
        return known
    is_ours = is_array(a)
    if not is_ours and isinstance(a, np.ndarray) and type(a) is not np.ndarray:
        raise Unsupported("a subclass to pass through")
    is_array_like = is_ours or type(a) is np.ndarray
    if out is None and type(a) is np.ndarray and (hosted := transform_on_host(a, wanted)) is not None:
        return hosted
    result = in_parts(a, wanted, is_overwritable=is_overwritable) if is_array_like else None
    if result is None:
        x = a if is_ours else as_ours(a)
        result = filtered(x, wanted)
        if result is None:
            result = transform(x, wanted)
    if out is None:
        if is_overwritable and is_ours and (result.dtype, result.shape) == (a.dtype, a.shape):
            return _overwritten(a, result)
        return result
    if not is_array(out) or (out.dtype, out.shape) != (result.dtype, result.shape):
        raise Unsupported("an array to write to that NumPy casts to, or refuses")
    check_writeable(out)
    if not take_over(out, result):
        assign(out, result)
    return out


def _overwritten(a: Any, result: Any) -> Any:
    """The result, in the memory of the array, where that is the device's and all of it."""
    return a[...] if a.flags.writeable and take_over(a, result) else result


def _one_axis(name: str) -> tuple[Function, Function]:
    def function(a: Any, n: Any = None, axis: Any = -1, norm: Any = None, out: Any = None) -> Any:
        return apply(a, request_along("numpy", name, n, axis, norm), out)

    def request_of(n: Any = None, axis: Any = -1, norm: Any = None, out: Any = None) -> Request | None:
        return request_along("numpy", name, n, axis, norm) if out is None else None

    return function, request_of


def _warn_of_no_axes(numpys: Function, lengths: Any) -> None:
    """Let NumPy warn of lengths without axes, by a transform of few elements."""
    if isinstance(lengths, tuple | list) and lengths:
        call_as_user(numpys, (np.zeros((2,) * len(lengths)), (2,) * len(lengths), None), {})


def _several_axes(name: str, usual: tuple[int, ...] | None) -> tuple[Function, Function]:
    numpys = getattr(np.fft, name)

    def function(a: Any, s: Any = None, axes: Any = usual, norm: Any = None, out: Any = None) -> Any:
        if axes is None and s is not None:
            _warn_of_no_axes(numpys, s)
        return apply(a, request("numpy", name, s, axes, norm), out)

    def request_of(s: Any = None, axes: Any = usual, norm: Any = None, out: Any = None) -> Request | None:
        is_warned_of = axes is None and s is not None
        return None if out is not None or is_warned_of else request("numpy", name, s, axes, norm)

    return function, request_of


_MAKERS: dict[str, Callable[[str], tuple[Function, Function]]] = {
    **dict.fromkeys(("fft", "ifft", "rfft", "irfft", "hfft", "ihfft"), _one_axis),
    **dict.fromkeys(("fft2", "ifft2", "rfft2", "irfft2"), lambda name: _several_axes(name, (-2, -1))),
    **dict.fromkeys(("fftn", "ifftn", "rfftn", "irfftn"), lambda name: _several_axes(name, None)),
}
for _name, _maker in _MAKERS.items():
    _function, _request_of = _maker(_name)
    implements(f"fft.{_name}", ahead=again(_request_of))(_function)


__all__ = ["apply", "request", "request_along"]

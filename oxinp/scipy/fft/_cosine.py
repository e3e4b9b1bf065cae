"""Discrete cosine and sine transforms of types I to IV: `scipy.fft.dct`, `dst`, their inverses and n-D forms.

Types II and III of even lengths that a block holds are one kernel (`_core.ops.cosine`). The others are compositions of
a real or complex transform with what is elementwise before and after it.

Source: J. Makhoul, A fast cosine transform in one and two dimensions, IEEE Trans. ASSP 28, 1980; G. Bi and Y. Zeng,
Transforms and Fast Algorithms for Signal Analysis and Representations, 2004 (type IV).
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from oxinp._api.fronts import as_ours, implements
from oxinp._core.host.exchange import is_array
from oxinp._core.lazy.expr import Unsupported
from oxinp._core.manipulation.copy import astype, copy
from oxinp._core.ops import creation
from oxinp._core.ops.cosine import Cosine, has_kernel, transform
from oxinp._core.ops.creation import asarray
from oxinp._kernels.fft.roots import table
from oxinp.fft._transforms import apply, request
from oxinp.scipy.fft._transforms import check_permissions, listed

Function = Callable[..., Any]

CODES = "?bBhHiIlLqQefdFD"  # of dtypes that the device reads


def _roots(numerators: Any, denominator: int, dtype: np.dtype[Any]) -> Any:
    """exp(-2j * pi * numerators / denominator), as an array of the complex dtype that a real one goes with."""
    return asarray(table(denominator, numerators, np.result_type(dtype, np.complex64)))


def _real_transform(x: Any) -> Any:
    return apply(x, request("scipy", "rfft", None, (-1,), None))


def _joined(parts: list[Any]) -> Any:
    """Parts one after the other along the last axis."""
    return np.concatenate(parts, axis=-1)


def _first(x: Any, *, is_sine: bool) -> Any:
    """Type I: the real transform of the sequence continued with its mirror image."""
    n = x.shape[-1]
    if not is_sine:
        return _real_transform(_joined([x, x[..., -2:0:-1]])).real.copy()
    zero = creation.zeros((*x.shape[:-1], 1), x.dtype)
    return -_real_transform(_joined([zero, x, zero, -x[..., ::-1]])).imag[..., 1 : n + 1]


def _alternating(n: int, dtype: np.dtype[Any]) -> Any:
    return asarray((1 - 2 * (np.arange(n) % 2)).astype(dtype))


def _second(x: Any, *, is_sine: bool) -> Any:
    """Type II: the real transform of even elements, then odd ones backwards; parts of it, turned."""
    n = x.shape[-1]
    odd = x[..., 1::2][..., ::-1]
    half = _real_transform(_joined([x[..., ::2], -odd if is_sine else odd]))
    half = half * _roots(np.arange(n // 2 + 1), 4 * n, x.dtype)
    found = _joined([half.real * 2, half.imag[..., 1 : (n + 1) // 2][..., ::-1] * -2])
    return found[..., ::-1] if is_sine else found


def _third(x: Any, *, is_sine: bool) -> Any:
    """Type III: type II backwards."""
    n = x.shape[-1]
    if is_sine:
        x = x[..., ::-1]
    count = n // 2 + 1
    mirrored = _joined([creation.zeros((*x.shape[:-1], 1), x.dtype), x[..., n - 1 : n - count : -1]])
    half = (x[..., :count] - 1j * mirrored) * _roots(-np.arange(count), 4 * n, x.dtype)
    whole = apply(half, request("scipy", "irfft", (n,), (-1,), "forward"))
    found = creation.empty(x.shape, x.dtype)
    odd = whole[..., (n + 1) // 2 :][..., ::-1]
    found[..., ::2] = whole[..., : (n + 1) // 2]
    found[..., 1::2] = -odd if is_sine else odd
    return found


def _fourth(x: Any, *, is_sine: bool) -> Any:
    """Type IV: a complex transform of half the length between two rotations; of twice the length where that is odd."""
    n = x.shape[-1]
    if is_sine:
        x = x[..., ::-1]
    if n % 2:
        turned = x * _roots(np.arange(n), 4 * n, x.dtype)
        whole = apply(turned, request("scipy", "fft", (2 * n,), (-1,), None))[..., :n]
        found = (whole * _roots(2 * np.arange(n) + 1, 8 * n, x.dtype)).real * 2
    else:
        roots = _roots(8 * np.arange(n // 2) + 1, 16 * n, x.dtype)
        pairs = (x[..., ::2] + 1j * x[..., ::-2]) * roots
        half = apply(pairs, request("scipy", "fft", None, (-1,), None)) * roots
        found = creation.empty(x.shape, x.dtype)
        found[..., ::2] = half.real * 2
        found[..., ::-2] = half.imag * -2
    return found * _alternating(n, x.dtype) if is_sine else found


_TYPES = {1: _first, 2: _second, 3: _third, 4: _fourth}


def _resized(x: Any, n: int) -> Any:
    """The first n elements along the last axis, continued with zeros."""
    size = x.shape[-1]
    if n <= size:
        return x[..., :n]
    return _joined([x, creation.zeros((*x.shape[:-1], n - size), x.dtype)])


def _ends(wanted: Cosine) -> Any:
    """Elements that an orthogonal transform of a type weights: of types I and III before, of I and II after."""
    if wanted.type == 1:
        return [] if wanted.is_sine else [0, -1]
    return -1 if wanted.is_sine else 0


def _weighted(x: Any, weights: Any) -> Any:
    """The array times weights along its last axis."""
    if (weights == weights[0]).all():
        return x if weights[0] == 1 else x * float(weights[0])
    return x * asarray(weights.astype(x.dtype))


def _composed(x: Any, wanted: Cosine) -> Any:
    """The transform by way of others, along the last axis."""
    before, after = np.ones(wanted.n), np.full(wanted.n, wanted.scale)
    if wanted.is_orthogonal and wanted.type in (1, 3):
        before[_ends(wanted)] *= np.sqrt(2)
    if wanted.is_orthogonal and wanted.type in (1, 2):
        after[_ends(wanted)] *= np.sqrt(0.5)
    return _weighted(_TYPES[wanted.type](_weighted(_resized(x, wanted.n), before), is_sine=wanted.is_sine), after)


def _along(x: Any, wanted: Cosine, axis: int) -> Any:
    """The transform of a real array along an axis."""
    if has_kernel(x, wanted, axis):
        return transform(x, wanted, axis)
    if axis == x.ndim - 1:
        return _composed(x, wanted)
    return copy(_composed(x.swapaxes(axis, -1), wanted).swapaxes(axis, -1))


def _resolved(x: Any, lengths: Any, axes: Any, *, is_nd: bool) -> list[tuple[int, int]]:
    """Axes and lengths along them that the caller may have left out.

    Raises
    ------
    Unsupported
        SciPy refuses them and says why.
    """
    try:
        lengths, axes = (None if each is None else tuple(map(operator.index, listed(each))) for each in (lengths, axes))
    except TypeError:
        raise Unsupported("lengths or axes that are no integers") from None
    if axes is None:
        axes = tuple(range(x.ndim - (x.ndim if lengths is None else len(lengths)), x.ndim))
    if not axes or not all(-x.ndim <= axis < x.ndim for axis in axes):
        raise Unsupported("no axes, or axes that the array has not")
    axes = tuple([axis % x.ndim for axis in axes])
    if lengths is None:
        lengths = tuple([x.shape[axis] for axis in axes])
    if not len(lengths) == len(axes) == len(set(axes)):
        raise Unsupported("as many lengths as axes, each once")
    if is_nd:
        lengths = tuple([x.shape[axis] if n == -1 else n for n, axis in zip(lengths, axes, strict=True)])
    return list(zip(axes, lengths, strict=True))


def _transformed(name: str, x: Any, kind: Any, places: tuple[Any, Any], norm: Any, orthogonalize: Any) -> Any:
    """Transform an array; `places` are lengths and axes."""
    if isinstance(x, np.ndarray) and type(x) is not np.ndarray and not is_array(x):
        raise Unsupported("a subclass to pass through")
    x = as_ours(x)
    is_type = isinstance(kind, int | np.integer) and kind in _TYPES
    if x.dtype.char not in CODES or not is_type or norm not in (None, "backward", "ortho", "forward"):
        raise Unsupported("a dtype without kernels, or a type or norm that SciPy refuses")
    resolved = _resolved(x, *places, is_nd=name[-1] == "n")
    fewest = 2 if kind == 1 and "dct" in name else 1
    if not x.size or any(n < fewest for _, n in resolved):
        raise Unsupported("lengths that SciPy refuses, or no elements")
    wanted = [(axis, Cosine.of(name.rstrip("n"), kind, n, norm, orthogonalize)) for axis, n in resolved]
    if x.dtype.char not in "fdFD":
        x = astype(x, np.dtype("f") if x.dtype.char == "e" else np.dtype("d"))
    for axis, each in wanted:
        if x.dtype.kind == "c":
            x = _along(x.real, each, axis) + 1j * _along(x.imag, each, axis)
        else:
            x = _along(x, each, axis)
    return x


def _one_axis(name: str) -> Function:
    def function(
        x: Any,
        type: Any = 2,
        n: Any = None,
        axis: Any = -1,
        norm: Any = None,
        overwrite_x: Any = False,  # noqa: ARG001 - a permission, of which no use is made
        workers: Any = None,
        orthogonalize: Any = None,
    ) -> Any:
        check_permissions(workers)
        if axis is None:
            raise Unsupported("no axis, which SciPy refuses")
        return _transformed(name, x, type, (n, axis), norm, orthogonalize)

    return function


def _several_axes(name: str) -> Function:
    def function(
        x: Any,
        type: Any = 2,
        s: Any = None,
        axes: Any = None,
        norm: Any = None,
        overwrite_x: Any = False,  # noqa: ARG001
        workers: Any = None,
        orthogonalize: Any = None,
    ) -> Any:
        check_permissions(workers)
        return _transformed(name, x, type, (s, axes), norm, orthogonalize)

    return function


def _keyword_only(function: Function) -> Function:
    """Several axes, of the function of which SciPy takes `orthogonalize` by name alone."""

    def named(
        x: Any,
        type: Any = 2,
        s: Any = None,
        axes: Any = None,
        norm: Any = None,
        overwrite_x: Any = False,
        workers: Any = None,
        *,
        orthogonalize: Any = None,
    ) -> Any:
        return function(x, type, s, axes, norm, overwrite_x, workers, orthogonalize)

    return named


for _name in ("dct", "idct", "dst", "idst"):
    implements(f"scipy.fft.{_name}")(_one_axis(_name))
for _name in ("idctn", "dstn", "idstn"):
    implements(f"scipy.fft.{_name}")(_several_axes(_name))
implements("scipy.fft.dctn")(_keyword_only(_several_axes("dctn")))

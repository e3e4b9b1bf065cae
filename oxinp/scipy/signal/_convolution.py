"""Convolutions and correlations: `fftconvolve`, `oaconvolve`, `convolve`, `correlate`.

By transforms, or directly as sums over the windows of the larger array, whichever SciPy chooses: the direct way is
exact for integers, and keeps what is not finite to where it belongs.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.fft import next_fast_len
from scipy.signal import choose_conv_method
from scipy.special import lambertw

from oxinp._api.fronts import implements
from oxinp._core.lazy.expr import Unsupported
from oxinp.fft._transforms import apply, request
from oxinp.scipy.signal._operands import axis_of, operand

MODES = ("full", "same", "valid")


def _operands(in1: Any, in2: Any, mode: Any) -> tuple[Any, Any]:
    a, b = operand(in1), operand(in2)
    if a.ndim != b.ndim or mode not in MODES:
        raise Unsupported("a mode or dimensions that SciPy refuses")
    return a, b


def _is_swapped(mode: str, s1: tuple[int, ...], s2: tuple[int, ...], axes: list[int]) -> bool:
    """Whether the second array is the larger one where only whole overlaps count."""
    if mode != "valid":
        return False
    is_first, is_second = (all(x[i] >= y[i] for i in axes) for x, y in ((s1, s2), (s2, s1)))
    if not (is_first or is_second):
        raise Unsupported("shapes that SciPy refuses")
    return not is_first


def _resolved(a: Any, b: Any, mode: str, axes: Any) -> tuple[Any, Any, list[int]]:
    """The operands, the larger one first where only whole overlaps count, and the axes that are convolved."""
    given = range(a.ndim) if axes is None else [axes] if isinstance(axes, int) else list(axes)
    places = [axis_of(axis, a.ndim) for axis in given]
    if not places or len(set(places)) != len(places):
        raise Unsupported("no axes, or one twice")
    s1, s2 = a.shape, b.shape
    found = [axis for axis in places if s1[axis] != 1 and s2[axis] != 1]
    if any(s1[i] != s2[i] and 1 not in (s1[i], s2[i]) for i in range(a.ndim) if i not in found):
        raise Unsupported("shapes that SciPy refuses")
    return (b, a, found) if _is_swapped(mode, s1, s2, found) else (a, b, found)


def _fast_length(n: int, *, is_halved: bool) -> int:
    """A length from n on that is a product of small factors, even along the axis whose transform is halved."""
    return 2 * int(next_fast_len(-(-n // 2), real=True)) if is_halved else int(next_fast_len(n, real=True))


def _multiplied(a: Any, b: Any, axes: list[int], lengths: list[int], *, is_complex: bool) -> Any:
    """The inverse transform of the product of transforms."""
    names = ("fftn", "ifftn") if is_complex else ("rfftn", "irfftn")
    one, other = (apply(x, request("scipy", names[0], lengths, axes, None)) for x in (a, b))
    return apply(one * other, request("scipy", names[1], lengths, axes, None))


def _part(result: Any, s1: tuple[int, ...], s2: tuple[int, ...], mode: str, axes: list[int], whole: int) -> Any:
    """What a mode keeps of all sums, which are among `whole` elements in memory."""
    shape = result.shape
    if mode == "same":
        shape = s1
    elif mode == "valid":
        shape = tuple([n if i not in axes else s1[i] - s2[i] + 1 for i, n in enumerate(result.shape)])
    starts = [(n - m) // 2 for n, m in zip(result.shape, shape, strict=True)]
    part = result[tuple([slice(i, i + m) for i, m in zip(starts, shape, strict=True)])]
    # A view spares a pass over memory; a small one would keep what is large.
    return part if 2 * part.size > whole else part.copy()


def _by_transforms(a: Any, b: Any, mode: str, axes: Any) -> Any:
    a, b, axes = _resolved(a, b, mode, axes)
    if not axes:
        return _part(a * b, a.shape, b.shape, mode, axes, 0)
    is_complex = "c" in (a.dtype.kind, b.dtype.kind)
    sums = [a.shape[i] + b.shape[i] - 1 for i in axes]
    lengths = [_fast_length(n, is_halved=not is_complex and i == len(axes) - 1) for i, n in enumerate(sums)]
    whole = _multiplied(a, b, axes, lengths, is_complex=is_complex)
    key = [slice(None)] * a.ndim
    for axis, n in zip(axes, sums, strict=True):
        key[axis] = slice(n)
    return _part(whole[tuple(key)], a.shape, b.shape, mode, axes, whole.size)


@implements("scipy.signal.fftconvolve")
def fftconvolve(in1: Any, in2: Any, mode: Any = "full", axes: Any = None) -> Any:
    """See `scipy.signal.fftconvolve`."""
    return _by_transforms(*_operands(in1, in2, mode), mode, axes)


def _block_length(larger: int, smaller: int) -> int:
    """The length of transforms that cost least per sum, of blocks of the larger array; 0 for all of it at once."""
    if smaller == 1 or smaller >= larger / 2:
        return 0
    overlap = smaller - 1
    best = -overlap * lambertw(-1 / (2 * math.e * overlap), k=-1).real
    length = _fast_length(math.ceil(best), is_halved=True)
    return length if length < larger else 0


def _blocks(x: Any, axis: int, step: int) -> Any:
    """The array with an axis split into blocks of `step` elements, zeros behind the last."""
    n = x.shape[axis]
    count = -(-n // step)
    if count * step != n:
        widths = [(0, 0)] * x.ndim
        widths[axis] = (0, count * step - n)
        x = np.pad(x, widths)
    return x.reshape((*x.shape[:axis], count, step, *x.shape[axis + 1 :]))


def _added_up(blocks: Any, axis: int, step: int) -> Any:
    """Blocks along an axis whose sums run along the next, joined: what exceeds `step` belongs to the next block."""
    count, overlap = blocks.shape[axis], blocks.shape[axis + 1] - step
    widths = [(0, 0)] * blocks.ndim
    widths[axis] = (0, 1)
    before = [slice(None)] * (axis + 1)
    joined = np.pad(blocks[(*before, slice(step))], widths)
    joined[(*before[:-1], slice(1, count + 1), slice(overlap))] += blocks[(*before, slice(step, None))]
    shape = joined.shape
    return joined.reshape((*shape[:axis], shape[axis] * step, *shape[axis + 2 :]))


@implements("scipy.signal.oaconvolve")
def oaconvolve(in1: Any, in2: Any, mode: Any = "full", axes: Any = None) -> Any:
    """See `scipy.signal.oaconvolve`."""
    a, b = _operands(in1, in2, mode)
    first, second, found = _resolved(a, b, mode, axes)
    s1, s2 = first.shape, second.shape
    # Blocks along the axis along which the arrays differ most: along the others the transforms are whole.
    ratios = {axis: max(s1[axis], s2[axis]) / min(s1[axis], s2[axis]) for axis in found}
    axis = max(found, key=ratios.__getitem__, default=-1)
    length = _block_length(max(s1[axis], s2[axis]), min(s1[axis], s2[axis])) if found else 0
    if not length:
        return _by_transforms(a, b, mode, axes)
    larger, smaller = (first, second) if s1[axis] > s2[axis] else (second, first)
    step = length - smaller.shape[axis] + 1
    is_complex = "c" in (a.dtype.kind, b.dtype.kind)
    # The axis of blocks is one more; that of their elements goes last, where the transform is halved.
    split = [*(i + (i > axis) for i in found if i != axis), axis + 1]
    lengths = [
        _fast_length(s1[i] + s2[i] - 1, is_halved=False) if i != axis else length
        for i in [*(i for i in found if i != axis), axis]
    ]
    blocks = _blocks(larger, axis, step)
    whole = _multiplied(blocks, np.expand_dims(smaller, axis), split, lengths, is_complex=is_complex)
    result = _added_up(whole, axis, step)
    key = [slice(None)] * result.ndim
    for i in found:
        key[i] = slice(s1[i] + s2[i] - 1)
    return _part(result[tuple(key)], s1, s2, mode, found, result.size)


def _direct(a: Any, b: Any, mode: str) -> Any:
    """The sums over the windows of the larger array, of any shapes."""
    dtype = np.result_type(a.dtype, b.dtype)
    if dtype.kind == "b":
        raise Unsupported("truth values, of which sums are no numbers")
    if dtype == np.float16 and a.ndim > 1:
        raise Unsupported("half precision in several dimensions, which SciPy refuses")
    full = tuple([n + m - 1 for n, m in zip(a.shape, b.shape, strict=True)])
    shape = {
        "full": full,
        "same": a.shape,
        "valid": tuple([n - m + 1 for n, m in zip(a.shape, b.shape, strict=True)]),
    }[mode]
    larger, smaller = (a, b) if a.size >= b.size else (b, a)
    padded = np.pad(larger, [(m - 1, m - 1) for m in smaller.shape])
    windows = np.lib.stride_tricks.sliding_window_view(padded, smaller.shape)
    key = [slice((n - m) // 2, (n - m) // 2 + m) for n, m in zip(full, shape, strict=True)]
    reversed_ = smaller[(slice(None, None, -1),) * a.ndim]
    wide = np.dtype(np.float32) if dtype == np.float16 else dtype
    products = windows[tuple(key)].astype(wide) * reversed_.astype(wide)
    return products.sum(axis=tuple(range(a.ndim, 2 * a.ndim)), dtype=wide).astype(dtype)


def _method(a: Any, b: Any, mode: str) -> str:
    """The way that SciPy chooses, which for integers depends on the largest."""
    if a.dtype.kind == b.dtype.kind == "b":
        return "direct"
    if "i" in a.dtype.kind + b.dtype.kind or "u" in a.dtype.kind + b.dtype.kind:
        largest = [max(abs(int(x.max())), abs(int(x.min()))) for x in (a, b)]
        if largest[0] * largest[1] * min(a.size, b.size) > 2 ** np.finfo(np.float64).nmant - 1:
            return "direct"
    stand_ins = [np.broadcast_to(np.empty(()), x.shape) for x in (a, b)]
    chosen: str = choose_conv_method(*stand_ins, mode=mode)
    return chosen


def _convolved(a: Any, b: Any, mode: str, method: str) -> Any:
    if method not in ("auto", "fft", "direct"):
        raise Unsupported("a method that SciPy refuses")
    if _is_swapped(mode, a.shape, b.shape, list(range(a.ndim))):
        a, b = b, a
    if method == "auto":
        method = _method(a, b, mode)
    if method == "direct":
        return _direct(a, b, mode)
    result, dtype = _by_transforms(a, b, mode, None), np.result_type(a.dtype, b.dtype)
    return (np.round(result) if dtype.kind in "iu" else result).astype(dtype, copy=False)


@implements("scipy.signal.convolve")
def convolve(in1: Any, in2: Any, mode: Any = "full", method: Any = "auto") -> Any:
    """See `scipy.signal.convolve`.

    Notes
    -----
    There is no warning of results that are not finite: it would wait for them.
    """
    return _convolved(*_operands(in1, in2, mode), mode, method)


@implements("scipy.signal.correlate")
def correlate(in1: Any, in2: Any, mode: Any = "full", method: Any = "auto") -> Any:
    """See `scipy.signal.correlate`, and `convolve`."""
    a, b = _operands(in1, in2, mode)
    mirrored = b[(slice(None, None, -1),) * b.ndim]
    return _convolved(a, mirrored.conj() if b.dtype.kind == "c" else mirrored, mode, method)

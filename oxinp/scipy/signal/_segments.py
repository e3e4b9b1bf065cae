"""Overlapping segments of sequences: views of them, their transforms, and sequences added up from segments."""

from __future__ import annotations

from typing import Any

import numpy as np

from oxinp._core.lazy.expr import Unsupported
from oxinp._core.ops import creation
from oxinp.scipy.signal._operands import table, transformed

MAX_OVERLAPS = 256
"""Segments that have an element, of those that are added up: each is a term."""


def segments(x: Any, length: int, step: int) -> Any:
    """Return a view of the segments along the last axis, (..., number, length)."""
    return np.lib.stride_tricks.sliding_window_view(x, length, axis=-1)[..., ::step, :]


def detrended(x: Any, kind: str | None) -> Any:
    """Return segments less their mean (``"constant"``) or less the straight line that fits them best (``"linear"``)."""
    if kind is None:
        return x
    mean = x.mean(axis=-1, keepdims=True)
    if kind == "constant":
        return x - mean
    n = x.shape[-1]
    places = np.arange(n) - (n - 1) / 2
    line = table(places, mean.dtype)
    total = (places**2).sum()
    slope = (x * line).sum(axis=-1, keepdims=True) * (1 / total if total else 0.0)
    return x - (mean + slope * line)


def spectra(x: Any, window: Any, n: int, *, is_onesided: bool) -> Any:
    """Return the transforms of length n of segments times a window: one kernel, where a block transforms them."""
    return transformed("rfft" if is_onesided else "fft", x * table(window, x.dtype), n)


def added_up(parts: Any, step: int) -> Any:
    """Return the sequences of segments (..., number, length) that begin `step` elements apart, overlaps added up."""
    *batch, number, length = parts.shape
    count = -(-length // step)
    if count > MAX_OVERLAPS:
        raise Unsupported(f"more than {MAX_OVERLAPS} segments that overlap")
    # Rows of `step` elements; a row of the result has one row each of `count` segments, or of the zeros around them.
    rows = number + count - 1
    spread = creation.zeros((*batch, rows + count - 1, count * step), parts.dtype)
    spread[..., count - 1 : count - 1 + number, :length] = parts
    spread = spread.reshape((*batch, rows + count - 1, count, step))
    total = spread[..., count - 1 : count - 1 + rows, 0, :]
    for j in range(1, count):
        total = total + spread[..., count - 1 - j : count - 1 - j + rows, j, :]
    return total.reshape((*batch, rows * step))[..., : (number - 1) * step + length]


def overlap_sums(weights: Any, number: int, step: int) -> tuple[Any, Any, Any]:
    """Return what `added_up` gives for `number` segments of the same weights: head, period, and tail.

    All but the head and the tail is the period again and again, from a multiple of `step` on.
    """
    length = len(weights)
    count = -(-length // step)
    few = min(number, count)
    total = np.zeros((few - 1) * step + length, weights.dtype)
    for i in range(few):
        total[i * step : i * step + length] += weights
    if few == number:
        return total, total[:0], total[:0]
    start = (count - 1) * step
    period = np.zeros(count * step, weights.dtype)
    period[:length] = weights
    return total[:start], period.reshape(count, step).sum(0), total[start + step :]


def repeated(parts: tuple[Any, Any, Any], size: int, dtype: np.dtype[Any]) -> Any:
    """Return head, period as often as it takes, and tail as an array of ours."""
    head, period, tail = parts
    if not len(period):
        return creation.asarray(head.astype(dtype))
    result = creation.empty((size,), dtype)
    result[: len(head)] = creation.asarray(head.astype(dtype))
    middle = result[len(head) : size - len(tail)]
    middle.reshape((-1, len(period)))[...] = creation.asarray(period.astype(dtype))
    if len(tail):
        result[size - len(tail) :] = creation.asarray(tail.astype(dtype))
    return result


__all__ = ["added_up", "detrended", "overlap_sums", "repeated", "segments", "spectra"]

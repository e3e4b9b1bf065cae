"""Multishift QR iterations with aggressive early deflation: LAPACK's xLAQR0, with sweeps on the device.

K. Braman, R. Byers and R. Mathias, The multishift QR algorithm, 2002, parts I and II. Windows in the last rows of an
active block, of which eigenvalues are deflated and shifts are taken, and small blocks are LAPACK's on the host.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.linalg import LinAlgError

from oxinp._api.fronts import as_ours
from oxinp._core.lazy.handle import fetch
from oxinp._core.ops import hessenberg
from oxinp.linalg import _qr_iterations

ORDER = 512  # from which sweeps on the device take less time than LAPACK's
MAX_SWEEPS = 30  # per eigenvalue
NIBBLE = 14  # percent of a window's eigenvalues, of which more deflated than that ask for another window at once
STUCK = 6  # sweeps in which nothing was deflated, after which shifts are exceptional


class Schur(NamedTuple):
    """H = Z T Z^H.

    Attributes
    ----------
    values : ndarray, (N,), complex
    t, z : ndarray, (N, N), or None
        On the device; quasi-triangular for real matrices.
    """

    values: np.ndarray[Any, Any]
    t: Any
    z: Any


class _Iterations:
    """A Hessenberg matrix while it becomes a triangular one.

    Attributes
    ----------
    h, z : ndarray
        On the device.
    diagonal, below : ndarray
        Of H, on the host, as of the last sweep; the first element of `below` is no matrix element.
    """

    def __init__(self, h: Any, *, has_vectors: bool) -> None:
        self.order, self.dtype, self.has_vectors = len(h), h.dtype, has_vectors
        self.spec = hessenberg.chain(h.dtype)
        self.deflation = 3 * self.spec.bulges  # rows of its windows, LAPACK's three shifts in two
        self.h = h
        self.z = np.eye(self.order, dtype=h.dtype, like=h) if has_vectors else np.zeros((1, 1), h.dtype, like=h)
        self.values = np.zeros(self.order, np.result_type(h.dtype, np.complex64))
        self.keep_band(np.stack([np.diagonal(h), np.concatenate([np.zeros_like(h[:1, 0]), np.diagonal(h, -1)])]))

    def keep_band(self, band: Any) -> None:
        """Fetch the diagonal, and what is below it."""
        self.diagonal, self.below = fetch(as_ours(band))

    def first_row(self, bottom: int, top: int) -> int:
        """Return where the active block that ends with a row begins: behind an element that is negligible."""
        info = np.finfo(self.dtype)
        size = np.abs(self.diagonal[top : bottom + 1])
        beside = np.abs(self.below[top + 1 : bottom + 1])
        is_small = beside <= np.maximum(info.tiny * self.order / info.eps, info.eps / 2 * (size[1:] + size[:-1]))
        found = np.flatnonzero(is_small)
        return top + 1 + int(found[-1]) if len(found) else top

    def bounds(self, block: tuple[int, int], count: int, window: tuple[int, int]) -> Any:
        """Return what kernels are told of rows."""
        outside = (0, self.order - 1) if self.has_vectors else block
        return as_ours(np.array([*block, count, *outside, *window, 0], np.int32))

    def fetch(self, first: int, last: int) -> np.ndarray[Any, Any]:
        """Return rows, and as many columns, in Fortran order: no more of H goes to the host."""
        return fetch(self.h[first : last + 1, first : last + 1].T).T

    def put(self, block: tuple[int, int], low: int, window: Any, u: Any, spike: Any) -> None:
        """Put a window that U has transformed in its place, with the element left of it."""
        rows, size = len(window), self.spec.size
        given = np.zeros((2 * size + 1, size), self.dtype)
        given[:rows, :rows], given[size : size + rows, :rows], given[2 * size, 0] = u, window, spike
        bounds = self.bounds(block, 0, (low, rows))
        self.h, self.z = hessenberg.put_window(self.h, self.z, as_ours(given), bounds, has_vectors=self.has_vectors)
        self.diagonal[low : low + rows] = np.diagonal(window)
        self.below[low] = spike
        self.below[low + 1 : low + rows] = np.diagonal(window, -1)

    def finish(self, top: int, bottom: int) -> None:
        """Reduce a small block to triangular form."""
        block = self.fetch(top, bottom)
        found = _qr_iterations.iterate(block, (0, bottom - top), has_vectors=True)
        self.values[top : bottom + 1] = found.values
        self.put((top, bottom), top, found.t, found.z, 0)

    def deflate(self, top: int, bottom: int) -> tuple[int, np.ndarray[Any, Any]]:
        """Deflate eigenvalues of a window in the last rows; return how many, and the others, to be shifts."""
        low = bottom + 1 - self.deflation
        start = max(low - 1, top)
        count, values, corner, u = _qr_iterations.deflate(self.fetch(start, bottom), self.deflation)
        inner = low - start
        spike = corner[inner, 0] if inner else 0
        self.values[bottom + 1 - count : bottom + 1] = values[len(values) - count :]
        self.put((top, bottom), low, corner[inner:, inner:], u[inner:, inner:], spike)
        return count, values[: len(values) - count]

    def exceptional(self, top: int, bottom: int) -> np.ndarray[Any, Any]:
        """Return shifts for blocks of which nothing converges, as LAPACK's."""
        rows = np.arange(bottom, max(top + 1, bottom - 2 * self.spec.bulges), -1)
        beside = np.abs(self.below[rows]) + np.abs(self.below[rows - 1])
        if self.dtype.kind == "c":
            return self.diagonal[rows] + 0.75 * beside
        real, product = 0.75 * beside[::2] + self.diagonal[rows[::2]], 0.4375 * beside[::2]
        imag = np.sqrt(product * beside[::2])
        return np.stack([real + 1j * imag, real - 1j * imag], axis=-1).reshape(-1)

    def sweep(self, top: int, bottom: int, shifts: np.ndarray[Any, Any]) -> None:
        """Chase pairs of shifts, (K, 2), through a block, as many at a time as a chain has."""
        bulges = self.spec.bulges
        planner = hessenberg.iterations()
        for start in range(0, len(shifts), bulges):
            chosen = shifts[start : start + bulges]
            parts = np.zeros((bulges, 2, 2), self.diagonal.real.dtype)
            parts[: len(chosen), :, 0], parts[: len(chosen), :, 1] = chosen.real, chosen.imag
            hops = planner.num_hops(bottom - top + 1, len(chosen), self.spec)
            bounds = self.bounds((top, bottom), len(chosen), (0, 0))
            self.h, self.z, band = hessenberg.sweep(
                self.h, self.z, as_ours(parts), bounds, hops, has_vectors=self.has_vectors
            )
        self.keep_band(band)

    def run(self, first: int, last: int) -> None:
        """Iterate on rows that are not triangular already.

        Raises
        ------
        LinAlgError
            They did not converge.
        """
        bottom, num_stuck, num_left = last, 0, MAX_SWEEPS * max(10, self.order)
        while bottom >= first:
            top = self.first_row(bottom, first)
            if bottom - top < self.spec.size:
                self.finish(top, bottom)
                bottom, num_stuck = top - 1, 0
                continue
            count, values = self.deflate(top, bottom)
            bottom -= count
            num_stuck = 0 if count else num_stuck + 1
            if 100 * count > NIBBLE * self.deflation or bottom - top < self.spec.size:
                continue
            if num_stuck and num_stuck % STUCK == 0:
                values = self.exceptional(top, bottom)
            self.sweep(top, bottom, paired(values, 2 * self.spec.bulges))
            num_left -= 1
            if not num_left:
                raise LinAlgError("Eigenvalues did not converge")


def paired(values: np.ndarray[Any, Any], most: int) -> np.ndarray[Any, Any]:
    """Return shifts in pairs, (K, 2), the least of them: complex conjugates together, or two that are real.

    Parameters
    ----------
    values : ndarray, (N,), complex
        Of a real matrix conjugates follow each other.
    most : int
        Even.
    """
    if not len(values):
        return np.zeros((1, 2), values.dtype)
    real, upper = values[values.imag == 0], values[values.imag > 0]
    lower = values[values.imag < 0]
    is_conjugate = len(upper) == len(lower) and np.array_equal(np.sort_complex(upper), np.sort_complex(lower.conj()))
    if is_conjugate:
        real = real[np.argsort(np.abs(real), kind="stable")]
        real = np.concatenate([real, real[-1:]]) if len(real) % 2 else real
        pairs = np.concatenate([real.reshape(-1, 2), np.stack([upper, upper.conj()], axis=-1)])
    else:
        ordered = values[np.argsort(np.abs(values), kind="stable")]
        ordered = np.concatenate([ordered, ordered[-1:]]) if len(ordered) % 2 else ordered
        pairs = ordered.reshape(-1, 2)
    size = np.abs(pairs).max(axis=-1)
    return pairs[np.argsort(size, kind="stable")[: most // 2]]


def iterate(h: Any, active: tuple[int, int], *, has_vectors: bool) -> Schur:
    """Return eigenvalues of a Hessenberg matrix on the device, and its Schur form and vectors; see `_qr_iterations`."""
    state = _Iterations(h, has_vectors=has_vectors)
    first, last = active
    outside = np.r_[0:first, last + 1 : state.order]
    state.values[outside] = state.diagonal[outside]
    state.run(first, last)
    return Schur(state.values, state.h if has_vectors else None, state.z if has_vectors else None)


__all__ = ["ORDER", "Schur", "iterate", "paired"]

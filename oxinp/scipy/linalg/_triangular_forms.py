"""Schur forms of `scipy.linalg` made complex, functions of matrices by them, and real forms of complex eigenvalues."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.linalg

from oxinp._api.crossovers import placed
from oxinp._api.fronts import as_ours, implements
from oxinp._core.lazy.expr import Unsupported
from oxinp._core.lazy.handle import fetch, host_view
from oxinp._core.ops import factorise, parlett
from oxinp.linalg import _eig
from oxinp.linalg._spectral import adjoint
from oxinp.scipy.linalg._given import each_of_stacks, finite_matrix, given, matrices, or_scipy

EPSILON = float(np.finfo(np.float64).eps)
"""Below which SciPy neglects what is below a diagonal, whatever the precision."""
INACCURATE = 1000  # rounding units from which SciPy prints that a function may be inaccurate
_PRINTS = inspect.signature(scipy.linalg.funm).parameters["disp"].default is True
"""Whether `disp` says if that is printed; else SciPy warns of `disp`."""


class Rotations:
    """Unitary combinations of pairs of rows, no two of which share one: R A and A R^H for a matrix.

    Parameters
    ----------
    first : ndarray, (K,), int
        The first row of each pair.
    blocks : ndarray, (K, 2, 2)
        What R has there; elsewhere it is the identity.
    order : int
    """

    def __init__(self, first: np.ndarray[Any, Any], blocks: np.ndarray[Any, Any], order: int) -> None:
        partner, own, other = np.arange(order), np.ones(order, blocks.dtype), np.zeros(order, blocks.dtype)
        partner[first], partner[first + 1] = first + 1, first
        own[first], own[first + 1] = blocks[:, 0, 0], blocks[:, 1, 1]
        other[first], other[first + 1] = blocks[:, 0, 1], blocks[:, 1, 0]
        self.partner, self.own, self.other = map(as_ours, (partner, own, other))

    def rows(self, a: Any) -> Any:
        """Return R A."""
        return a * self.own[:, None] + a[self.partner] * self.other[:, None]

    def columns(self, a: Any) -> Any:
        """Return A R^H."""
        return a * np.conjugate(self.own) + a[:, self.partner] * np.conjugate(self.other)


def blocks_of(first: np.ndarray[Any, Any], diagonals: tuple[np.ndarray[Any, Any], ...]) -> np.ndarray[Any, Any]:
    """Return blocks of two rows, (K, 2, 2), of a matrix's diagonal, and what is below and above it."""
    diagonal, below, above = diagonals
    rows = [np.stack([diagonal[first], above[first]], -1), np.stack([below[first], diagonal[first + 1]], -1)]
    return np.stack(rows, -2)


def fetch_diagonals(t: Any) -> tuple[np.ndarray[Any, Any], ...]:
    """Return a matrix's diagonal, and what is below and above it, as NumPy's arrays."""
    order = len(t)
    found = fetch(np.concatenate([np.diagonal(t), np.diagonal(t, -1), np.diagonal(t, 1)]))
    return tuple(np.split(found, [order, 2 * order - 1]))


def complex_form(t: Any, z: Any) -> tuple[Any, Any]:
    """Return the triangular form that rotations make of a quasi-triangular one, and its vectors.

    Eigenvalues of the blocks on the diagonal, which are of two rows, are found on the host.

    Raises
    ------
    Unsupported
        Blocks have more rows than two, or there is more below them.
    """
    diagonals = fetch_diagonals(t)
    diagonal, beside, _ = diagonals
    is_block = np.abs(beside) > EPSILON * (np.abs(diagonal[:-1]) + np.abs(diagonal[1:]))
    if (is_block[1:] & is_block[:-1]).any() or bool(np.tril(t, -2).any()):
        raise Unsupported("a form that is not quasi-triangular")
    first = np.flatnonzero(is_block)
    if len(first):
        values = np.linalg.eigvals(blocks_of(first, diagonals).astype("D"))
        distance = values[:, 0] - diagonal[first + 1]
        size = np.hypot(np.abs(distance), np.abs(beside[first]))
        c, s = distance / size, beside[first] / size
        turns = np.stack([np.stack([c.conj(), s], -1), np.stack([-s, c], -1)], -2)
        rotations = Rotations(first, turns.astype(t.dtype), len(t))
        t, z = rotations.columns(rotations.rows(t)), rotations.columns(z)
    return np.triu(t), z


@implements("scipy.linalg.rsf2csf")
@placed("hessenberg", scipy.linalg.rsf2csf)
@each_of_stacks(scipy.linalg.rsf2csf, T=2, Z=2)
def rsf2csf(T: Any, Z: Any, check_finite: bool = True) -> Any:
    """See `scipy.linalg.rsf2csf`: all rotations at once."""
    t, z = matrices(T, Z, check_finite=check_finite, are_square=True)
    if t.ndim != 2 or z.ndim != 2 or t.shape != z.shape:
        raise Unsupported("what SciPy refuses")
    dtype = np.result_type(factorise.result_dtype(t, z), np.complex64)
    return complex_form(t.astype(dtype, copy=False), z.astype(dtype, copy=False))


@implements("scipy.linalg.funm")
@placed("eig", scipy.linalg.funm)
@or_scipy
@each_of_stacks(scipy.linalg.funm, A=2)
def funm(A: Any, func: Callable[[Any], Any], disp: Any = True) -> Any:
    """See `scipy.linalg.funm`: the Schur form, partly on the host, and Parlett's recurrence by diagonals."""
    if not _PRINTS and disp is not True:
        raise Unsupported("what SciPy warns of")
    a: Any = factorise.prepared(finite_matrix(A, check_finite=True, are_square=True))[0]
    t, z = _eig.schur(a, "scipy.linalg.funm")
    dtype = np.result_type(t.dtype, np.complex64)
    t, z = complex_form(t.astype(dtype, copy=False), z.astype(dtype, copy=False))
    diagonal = np.diagonal(t).copy()
    of_diagonal = as_ours(func(diagonal)).astype(dtype)
    if of_diagonal.shape != diagonal.shape:
        raise Unsupported("a function that makes other shapes")
    found = z @ parlett.recur(t, of_diagonal) @ adjoint(z)
    unit = float(np.finfo(dtype).eps)
    if a.dtype.kind != "c" and bool(np.allclose(found.imag, 0.0, atol=unit * (1e3 if dtype.char == "F" else 1e6))):
        found = found.real.copy()
    error = _error(t, unit)
    if not bool(np.isfinite(found).any()):
        error = np.inf
    if not disp:
        return found, error
    if error > INACCURATE * unit:
        print("funm result may be inaccurate, approximate err =", error)  # noqa: T201 - as SciPy does
    return found


def _error(t: Any, unit: float) -> float:
    """Return SciPy's estimate: by the least distance of two eigenvalues, and the first one's."""
    diagonal = host_view(as_ours(np.diagonal(t).copy()))
    least = min(abs(diagonal[0]), _least_distance(diagonal)) or unit
    above = float(np.abs(np.triu(t, 1)).sum(axis=0).max())
    return min(1, max(unit, unit / float(least) * above))


def _least_distance(values: np.ndarray[Any, Any]) -> float:
    """Return the least distance of two of some numbers, by those that follow each other by their real parts."""
    ordered, least = values[np.argsort(values.real, kind="stable")], np.inf
    for step in range(1, len(ordered)):
        later, earlier = ordered[step:], ordered[:-step]
        if not (later.real - earlier.real < least).any():
            break
        least = min(least, float(np.abs(later - earlier).min()))
    return least


@implements("scipy.linalg.cdf2rdf")
def cdf2rdf(w: Any, v: Any) -> Any:
    """See `scipy.linalg.cdf2rdf`: which eigenvalues are pairs is found on the host."""
    w, v = given(w, v, check_finite=True)
    count = w.shape[-1] if w.ndim else 0
    if (
        not count
        or v.shape != (*w.shape, count)
        or not v.size
        or w.dtype.char not in "fdFD"
        or v.dtype.char not in "fdFD"
    ):
        raise Unsupported("what SciPy refuses, or converts")
    is_complex = fetch(w).imag != 0
    if (is_complex.sum(axis=-1) % 2).any():
        raise Unsupported("what SciPy refuses")
    *stacked, place = np.nonzero(is_complex)
    partner = np.broadcast_to(np.arange(count), w.shape).copy()
    first, second = slice(None, None, 2), slice(1, None, 2)
    for one, other in ((first, second), (second, first)):
        partner[(*(x[one] for x in stacked), place[one])] = place[other]
    pairs, own = as_ours(partner), np.arange(count, like=v)
    zero = w.real.dtype.type(0)
    beside = np.where(pairs[..., None] == own, w.imag[..., None], zero)
    form = np.where(own[:, None] == own, w.real[..., None], beside)
    v = v.astype("D", copy=False)
    others = np.take_along_axis(v, np.broadcast_to(pairs[..., None, :], v.shape), axis=-1)
    is_later, is_earlier = ((pairs < own)[..., None, :], (pairs > own)[..., None, :])
    half = np.where(is_earlier, others.imag - v.imag, v.real + others.real) * 0.5
    return form, np.where(is_later | is_earlier, half, v.real)


__all__ = ["Rotations", "blocks_of", "cdf2rdf", "complex_form", "fetch_diagonals", "funm", "rsf2csf"]

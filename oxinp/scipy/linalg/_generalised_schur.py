"""Generalised Schur forms, as `scipy.linalg.qz` and `ordqz`: of the Schur form of one matrix, where that is accurate.

Of C = A B^-1 = Q S Q^H, and Q^H B = T Z^H with a triangle T, the pencil is (Q S T Z^H, Q T Z^H). B is the best of some
rotated pairs, whose forms have the same vectors; how far both matrices are from being triangular in the end says
whether this was as accurate as LAPACK's QZ iterations, which compute where it was not. QR iterations on C are partly
on the host, as those of `scipy.linalg.schur`, and so is what reorders the form.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
from numpy.linalg import LinAlgError

from oxinp._api.crossovers import placed
from oxinp._api.fronts import as_ours, implements
from oxinp._core.host.fallback import call
from oxinp._core.lazy.expr import Unsupported
from oxinp._core.lazy.handle import fetch
from oxinp._core.ops import factorise
from oxinp.linalg import _eig
from oxinp.linalg._pencils import ROTATIONS, scale_of
from oxinp.linalg._spectral import adjoint
from oxinp.scipy.linalg._given import each_of_stacks, finite_matrix, or_scipy
from oxinp.scipy.linalg._matrix_functions import norm
from oxinp.scipy.linalg._triangular_forms import Rotations, blocks_of, fetch_diagonals

ALLOWED = 6.0
"""Rounding units, by the root of the order, that what is below a triangle may be over the norm: LAPACK's are 2 to 5."""


class _Form(NamedTuple):
    """A = Q S Z^H and B = Q T Z^H."""

    s: Any
    t: Any
    q: Any
    z: Any


def _best(a: Any, b: Any) -> tuple[Any, Any]:
    """Return a rotated pair whose second matrix is the farthest from singular, and C of it."""
    found: tuple[float, Any, Any] | None = None
    for c, s in (map(a.real.dtype.type, rotation) for rotation in ROTATIONS):
        one, other = (a * c + b * s, b * c - a * s) if s else (a, b)
        try:
            inverse = factorise.inv(other)
        except LinAlgError:
            continue
        condition = norm(other) * norm(inverse)
        if math.isfinite(condition) and (found is None or condition < found[0]):
            found = condition, one, other
    if found is None:
        raise Unsupported("a pencil that is singular, or nearly")
    _, one, other = found
    return other, factorise.solve(other.T, one.T).T


def _triangular(x: Any, is_below: Any) -> Any:
    """Return what a form has where it is triangular.

    Raises
    ------
    Unsupported
        What it has elsewhere is more than rounding makes of it.
    """
    rest = np.where(is_below, x, x.dtype.type(0))
    limit = ALLOWED * math.sqrt(len(x)) * float(np.finfo(x.dtype).eps)
    if not norm(rest) <= limit * norm(x):
        raise Unsupported("a form that LAPACK finds more accurately")
    return x - rest


def _form(a: Any, b: Any, name: str) -> _Form:
    """Return the form of a pencil: blocks of two rows of T diagonal, and its diagonal not negative."""
    real = a.real.dtype.type
    scales = scale_of(a), scale_of(b)
    a, b = a * real(1 / scales[0]), b * real(1 / scales[1])
    other, quotient = _best(a, b)
    s, q = _eig.schur(quotient, name)
    back, _ = factorise.qr(adjoint((adjoint(q) @ other)[::-1, ::-1]), "complete")
    z = back[::-1, ::-1]
    number = np.arange(len(a), like=a)
    first = np.flatnonzero(fetch(np.diagonal(s, -1).copy()) != 0) if a.dtype.kind != "c" else np.zeros(0, int)
    begins = np.zeros(len(a), bool)
    begins[first] = True
    is_below = (number[:, None] > number) & ~((number[:, None] == number + 1) & as_ours(begins))
    left = adjoint(q)
    s, t = (_triangular(left @ x @ z, is_below) for x in (a, b))
    if len(first):
        u, _, vh = np.linalg.svd(blocks_of(first, fetch_diagonals(t)))
        rows, columns = Rotations(first, u.swapaxes(-1, -2), len(a)), Rotations(first, vh, len(a))
        s, t = (columns.columns(rows.rows(x)) for x in (s, t))
        q, z = rows.columns(q), columns.columns(z)
        # Blocks of T are diagonal but for rounding, and what is above their diagonals too.
        is_beside = np.abs(number[:, None] - number) == 1
        in_block = np.minimum(number[:, None], number)
        t = np.where(is_beside & as_ours(begins)[in_block], t.dtype.type(0), t)
    diagonal = np.diagonal(t)
    size = np.abs(diagonal)
    is_zero = size == 0
    one = t.dtype.type(1)
    turn = factorise.conjugate(np.where(is_zero, one, diagonal / np.where(is_zero, size.dtype.type(1), size)))
    s, t, z = (x * turn for x in (s, t, z))
    if t.dtype.kind == "c":
        is_diagonal = number[:, None] == number
        t = np.where(is_diagonal, t.real.astype(t.dtype), t)
    return _Form(s * real(scales[0]), t * real(scales[1]), q, z)


def _pair(a: Any, b: Any, output: str, *, check_finite: bool) -> tuple[Any, Any]:
    """Return matrices of one dtype, complex where that is asked for."""
    if output not in ("real", "complex", "r", "c"):
        raise Unsupported("what SciPy refuses")
    found = [finite_matrix(x, check_finite=check_finite, are_square=True) for x in (a, b)]
    if found[0].shape != found[1].shape:
        raise Unsupported("what SciPy refuses")
    a, b = factorise.prepared(*found)
    if output in ("complex", "c"):
        wide = np.result_type(a.dtype, np.complex64)
        a, b = a.astype(wide, copy=False), b.astype(wide, copy=False)
    return a, b


@implements("scipy.linalg.qz")
@placed("eig", scipy.linalg.qz)
@or_scipy
@each_of_stacks(scipy.linalg.qz, A=2, B=2)
def qz(
    A: Any,
    B: Any,
    output: str = "real",
    lwork: Any = None,  # noqa: ARG001
    sort: Any = None,
    overwrite_a: bool = False,  # noqa: ARG001 - a permission, of which no use is made
    overwrite_b: bool = False,  # noqa: ARG001
    check_finite: bool = True,
) -> Any:
    """See `scipy.linalg.qz`."""
    if sort is not None:
        raise Unsupported("what SciPy refuses")
    return tuple(_form(*_pair(A, B, output, check_finite=check_finite), "scipy.linalg.qz"))


def _quotient(x: np.ndarray[Any, Any], y: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return x / y where y is not zero, and where that is."""
    is_finite = y != 0
    return x / np.where(is_finite, y, 1), is_finite


def _in_half(sign: float) -> Callable[..., Any]:
    def is_wanted(x: np.ndarray[Any, Any], y: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        w, is_finite = _quotient(x, y)
        return is_finite & (w.real * sign > 0)

    return is_wanted


def _inside(x: np.ndarray[Any, Any], y: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    w, is_finite = _quotient(x, y)
    return is_finite & (np.abs(w) < 1)


def _outside(x: np.ndarray[Any, Any], y: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    w, is_finite = _quotient(x, y)
    return np.where(is_finite, np.abs(w) > 1, x != 0)


SORTS = {"lhp": _in_half(-1.0), "rhp": _in_half(1.0), "iuc": _inside, "ouc": _outside}
"""Which eigenvalues x / y come first, by SciPy's names."""


def _numbers(s: Any, t: Any) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return alpha and beta of a form: of a block of two rows those of both, of one size."""
    of_s, of_t = fetch_diagonals(s), fetch_diagonals(t)
    alpha, beta = of_s[0].astype(np.result_type(s.dtype, np.complex64)), of_t[0].copy()
    first = np.flatnonzero(of_s[1] != 0)
    if len(first):
        sizes = np.stack([beta[first], beta[first + 1]], -1)
        values = np.linalg.eigvals(blocks_of(first, of_s) / sizes[..., None])
        values = np.sort_complex(values)[:, ::-1]  # LAPACK's: the upper one first
        shared = np.sqrt(sizes[:, 0] * sizes[:, 1])
        for i in range(2):
            alpha[first + i], beta[first + i] = values[:, i] * shared, shared
    return alpha, beta


def _reordered(select: Any, *form: np.ndarray[Any, Any]) -> tuple[Any, ...]:
    """Return a form with chosen eigenvalues first, alpha and beta in parts, and what LAPACK says."""
    (tgsen,) = importlib.import_module("scipy.linalg.lapack").get_lapack_funcs(("tgsen",), form[:2])
    num_work = 4 * len(select) + 16 if tgsen.typecode in "sd" else 1
    s, t, *numbers, q, z, _, _, _, _, info = tgsen(select, *form, ijob=0, lwork=num_work, liwork=1)
    alpha = numbers[0] if len(numbers) == 2 else numbers[0] + numbers[1] * np.result_type(s.dtype, "F").type(1j)
    return s, t, alpha, numbers[-1], q, z, info


@implements("scipy.linalg.ordqz")
@placed("eig", scipy.linalg.ordqz)
@or_scipy
@each_of_stacks(scipy.linalg.ordqz, A=2, B=2)
def ordqz(
    A: Any,
    B: Any,
    sort: Any = "lhp",
    output: str = "real",
    overwrite_a: bool = False,  # noqa: ARG001
    overwrite_b: bool = False,  # noqa: ARG001
    check_finite: bool = True,
) -> Any:
    """See `scipy.linalg.ordqz`: LAPACK reorders, on the host."""
    chosen = sort if callable(sort) else SORTS.get(sort)
    if chosen is None:
        raise Unsupported("what SciPy refuses")
    form = _form(*_pair(A, B, output, check_finite=check_finite), "scipy.linalg.ordqz")
    select = np.asarray(chosen(*_numbers(form.s, form.t)))
    *found, info = call(lambda *form: _reordered(select, *form), tuple(form), {}, name="scipy.linalg.ordqz: order")
    if info:
        raise Unsupported("an order of which SciPy says what is wrong")
    return tuple(map(as_ours, found))


__all__ = ["ordqz", "qz"]

"""Factorisations of symmetric and Hermitian matrices that need not be definite, as `scipy.linalg.ldl`."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg
from numpy.exceptions import ComplexWarning

from oxinp._api.crossovers import placed
from oxinp._api.fronts import implements
from oxinp._core.errors.frames import warn
from oxinp._core.ops import factorise
from oxinp._core.ops import ldl as _ldl
from oxinp.linalg._spectral import adjoint
from oxinp.scipy.linalg._given import each_of_stacks, finite_matrix

IMAGINARY = (
    "scipy.linalg.ldl():\nThe imaginary parts of the diagonal"
    'are ignored. Use "hermitian=False" for factorization of'
    "complex symmetric arrays."
)
"""SciPy's words."""


@implements("scipy.linalg.ldl")
@placed("ldl", scipy.linalg.ldl)
@each_of_stacks(scipy.linalg.ldl, A=2)
def ldl(
    A: Any,
    lower: bool = True,
    hermitian: bool = True,
    overwrite_a: bool = False,  # noqa: ARG001 - a permission, of which no use is made
    check_finite: bool = True,
) -> Any:
    """See `scipy.linalg.ldl`: pivots are LAPACK's."""
    a: Any = factorise.prepared(finite_matrix(A, check_finite=check_finite, are_square=True))[0]
    is_hermitian = bool(hermitian) and a.dtype.kind == "c"
    if is_hermitian and bool((np.diagonal(a).imag != 0).any()):
        warn(IMAGINARY, ComplexWarning)
    a = a if lower else a[::-1, ::-1]
    below = np.tril(a, -1)
    whole = np.tril(a) + (adjoint(below) if is_hermitian else below.T)
    factor, diagonal, beside, order = _ldl.ldl(whole, is_hermitian=is_hermitian, is_reversed=not lower)
    mirrored = factorise.conjugate(beside) if is_hermitian else beside
    places, last = order.astype(np.intp), len(a) - 1
    if lower:
        return factor[np.argsort(places)], _blocks(diagonal, beside, mirrored), places
    places = last - places[::-1]
    outer = factor[last - np.argsort(places)][:, ::-1].copy()
    return outer, _blocks(diagonal[::-1], mirrored[-2::-1], beside[-2::-1]), places


def _blocks(diagonal: Any, below: Any, above: Any) -> Any:
    """Return the tridiagonal matrix of a diagonal and what is beside it."""
    order = len(diagonal)
    made = np.zeros_like(diagonal, shape=order * order)
    made[:: order + 1] = diagonal
    made[order :: order + 1] = below[: order - 1]
    made[1 :: order + 1] = above[: order - 1]
    return made.reshape(order, order)


__all__ = ["ldl"]

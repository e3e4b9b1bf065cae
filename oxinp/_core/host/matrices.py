"""Small square matrices on the host, by the loops of LAPACK that NumPy's functions call, without what these do around.

A loop says by the flag of invalid operations that a matrix is singular, or not positive definite; then NumPy's function
is asked, which raises.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.linalg import _umath_linalg

from oxinp._core.lazy.inlining import compiled

_ONE_TEXT = """
def make(general, function):
    def front(a=MISSING, /, *args, **kwargs):
        if type(a) is not ndarray or args or kwargs or REPORTS or current() is not default:
            return general(*args, **kwargs) if a is MISSING else general(a, *args, **kwargs)
        x = seen(a) else return general(a)
        if (x.dtype is not FLOAT64 and x.dtype is not COMPLEX128) or x.ndim != 2:
            return general(a)
        m, n = x.shape
        if m != n or not 0 < x.nbytes < config.offload_threshold:
            return general(a)
        result = called(function, x) else return general(a)
        return array_of(result, FEW if a._known is FEW else None)
    return front
"""
_SYSTEM_TEXT = """
def make(general, of_matrix, of_vector):
    def front(a=MISSING, b=MISSING, /, *args, **kwargs):
        if type(a) is not ndarray or type(b) is not ndarray or args or kwargs or REPORTS or current() is not default:
            if b is not MISSING:
                return general(a, b, *args, **kwargs)
            return general(*args, **kwargs) if a is MISSING else general(a, *args, **kwargs)
        x = seen(a) else return general(a, b)
        y = seen(b) else return general(a, b)
        dtype = x.dtype
        if y.dtype is not dtype or (dtype is not FLOAT64 and dtype is not COMPLEX128) or x.ndim != 2:
            return general(a, b)
        m, n = x.shape
        threshold = config.offload_threshold
        if m != n or not (0 < x.nbytes < threshold and 0 < y.nbytes < MOST * threshold):
            return general(a, b)
        if not 0 < y.ndim < 3 or y.shape[0] != m:
            return general(a, b)
        function = of_vector if y.ndim == 1 else of_matrix
        result = called(function, x, y) else return general(a, b)
        return wrapped(result)
    return front
"""
_ONE: dict[Any, Any] = {
    np.linalg.cholesky: _umath_linalg.cholesky_lo,
    np.linalg.det: _umath_linalg.det,
    np.linalg.inv: _umath_linalg.inv,
}
"""NumPy's functions of a matrix -> their loops."""
MOST = 16
"""Thresholds below which right-hand sides are solved for like that: it is by the matrix that a system is LAPACK's."""
_NAMES = {"COMPLEX128": np.dtype(np.complex128), "MOST": MOST}
_one = compiled("functions of small matrices", _ONE_TEXT, may_warn=True, names=_NAMES)
_system = compiled("numpy.linalg.solve", _SYSTEM_TEXT, may_warn=True, names=_NAMES)


def of_small_matrices(general: Callable[..., Any], theirs: Any) -> Callable[..., Any]:
    """Return a function of NumPy's by the loop that it calls, for small matrices of float64 or complex128.

    Parameters
    ----------
    general : callable
        Ours.
    theirs : callable
        NumPy's.
    """
    made: Callable[..., Any] = general
    if theirs in _ONE:
        made = _one(general, _ONE[theirs])
    elif theirs is np.linalg.solve:
        made = _system(general, _umath_linalg.solve, _umath_linalg.solve1)
    return made


__all__ = ["of_small_matrices"]

"""Functions of `scipy.sparse.linalg` over our arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse.linalg
from numpy.linalg import LinAlgError

from oxinp._api.fronts import implements
from oxinp._core.array import dispatch
from oxinp._core.host import fallback
from oxinp._core.lazy.expr import Unsupported
from oxinp._core.lazy.handle import fetch
from oxinp._core.lazy.results import types
from oxinp._core.manipulation.copy import astype
from oxinp._core.reduction.reduce import reduce
from oxinp._core.reduction.table import ANY
from oxinp.sparse import _compressed, _rows
from oxinp.sparse._base import COMPRESSED, is_ours, is_small
from oxinp.sparse._executed import composed, executed
from oxinp.sparse.linalg import (
    _factors,  # noqa: F401 - for what it registers
    _gmres,
    _krylov,
    _lanczos,
    _lobpcg,
)

try:
    _INTERFACE: Any = executed("scipy.sparse.linalg._interface")
except Unsupported:  # of a SciPy that is newer than this: its operators, on the host
    _INTERFACE = scipy.sparse.linalg
LinearOperator = _INTERFACE.LinearOperator
if _INTERFACE is not scipy.sparse.linalg:
    LinearOperator.__module__ = "oxinp.scipy.sparse.linalg"
    dispatch.register(scipy.sparse.linalg.LinearOperator, LinearOperator)

# THE FUNCTIONS that are SciPy's own code over our arrays, by the module that defines them.
_COMPOSED = {
    "_interface": "aslinearoperator",
    "_isolve.iterative": "bicg bicgstab cg cgs gmres qmr",
    "_isolve.lgmres": "lgmres",
    "_isolve._gcrotmk": "gcrotmk",
    "_isolve.minres": "minres",
    "_isolve.tfqmr": "tfqmr",
    "_isolve.lsqr": "lsqr",
    "_isolve.lsmr": "lsmr",
    "_norm": "norm",
    "_onenormest": "onenormest",
    "_expm_multiply": "expm_multiply",
    "_matfuncs": "expm inv matrix_power",
    "_eigen.lobpcg.lobpcg": "lobpcg",
}
_FASTER = {
    "gmres": _gmres.gmres,
    "lobpcg": _lobpcg.lobpcg,
    **{name: getattr(_krylov, name) for name in ("bicgstab", "cg", "cgs")},
}
for _module, _names in _COMPOSED.items():
    for _name in _names.split():
        composed(f"scipy.sparse.linalg.{_name}", f"scipy.sparse.linalg.{_module}", _FASTER.get(_name))


# -- ARPACK and PROPACK, which ask for products with vectors of the host's ---------------------------------------------


def _on_device(A: Any) -> Any:
    """Return an operator of SciPy's whose products with NumPy's vectors are computed on the device.

    Raises
    ------
    Unsupported
        The matrix is small, or not sparse: SciPy works with itself.
    """
    if not is_ours(A) or is_small(A) or A.dtype.char not in "fdFD":
        raise Unsupported("a small matrix, or an operator")
    adjoint = A.conj().T

    def through(matrix: Any) -> Callable[[Any], Any]:
        return lambda x: fetch(matrix @ types.from_host(np.ascontiguousarray(x)))

    forward, backward = through(A), through(adjoint)
    return scipy.sparse.linalg.LinearOperator(
        A.shape, matvec=forward, rmatvec=backward, matmat=forward, rmatmat=backward, dtype=A.dtype
    )


def _with_operator(name: str) -> None:
    """Register a function that the device computes, or that has products with a large matrix done there."""
    theirs = getattr(scipy.sparse.linalg, name)
    on_device = getattr(_lanczos, name, None)

    def function(A: Any, *args: Any, **kwargs: Any) -> Any:
        if on_device is not None:
            try:
                return on_device(A, *args, **kwargs)
            except Unsupported:  # what it is not for, or did not converge with
                pass
        if any(kwargs.get(key) is not None for key in ("M", "sigma", "OPinv", "Minv")):
            raise Unsupported("systems to solve")
        operator = _on_device(A)
        fallback.count(f"scipy.sparse.linalg.{name}")
        return fallback.placed_on_host(theirs, (operator, *args), kwargs)

    function.__wrapped__ = theirs  # type: ignore[attr-defined] # whose signature it has
    implements(f"scipy.sparse.linalg.{name}")(function)


for _name in ("eigs", "eigsh", "svds"):
    _with_operator(_name)

# -- where the elements are --------------------------------------------------------------------------------------------


def _places(A: Any) -> tuple[Any, Any]:
    """Return the row and the column of each stored element.

    Raises
    ------
    Unsupported
        SciPy looks at other formats itself, and at what has no elements.
    """
    if not is_ours(A) or A.format not in (*COMPRESSED, "coo") or A.ndim != 2 or not A.nnz:
        raise Unsupported("a format that is not looked at on the device, or no elements")
    rows, columns = A.tocoo().coords
    return rows, columns


@implements("scipy.sparse.linalg.spbandwidth")
def spbandwidth(A: Any) -> tuple[int, int]:
    """See `scipy.sparse.linalg.spbandwidth`."""
    rows, columns = _places(A)
    beside = columns - rows
    return max(-int(beside.min()), 0), max(int(beside.max()), 0)


@implements("scipy.sparse.linalg.is_sptriangular")
def is_sptriangular(A: Any) -> tuple[bool, bool]:
    """See `scipy.sparse.linalg.is_sptriangular`."""
    rows, columns = _places(A)
    return not bool(reduce(ANY, columns > rows)), not bool(reduce(ANY, columns < rows))


# -- triangular systems ------------------------------------------------------------------------------------------------


@implements("scipy.sparse.linalg.spsolve_triangular")
def spsolve_triangular(
    A: Any,
    b: Any,
    lower: bool = True,
    overwrite_A: bool = False,  # noqa: ARG001 - permissions, of which no use is made
    overwrite_b: bool = False,  # noqa: ARG001
    unit_diagonal: bool = False,
) -> Any:
    """See `scipy.sparse.linalg.spsolve_triangular`; elements in the other triangle do not count."""
    if not is_ours(A) or is_small(A, b) or A.format not in COMPRESSED or A.shape[0] != A.shape[1]:
        raise Unsupported("a small matrix, one to convert, or what SciPy refuses")
    right = dispatch.functions[np.asarray](b)
    if right.ndim not in (1, 2) or right.shape[0] != A.shape[0]:
        raise Unsupported("what SciPy refuses")
    dtype = np.promote_types(np.promote_types(A.dtype, np.float32), right.dtype)
    if dtype.char not in "fdFD" or not right.size:
        raise Unsupported("no elements, or a dtype without kernels")
    rows = _compressed.canonical_rows(A)
    if not unit_diagonal and bool(reduce(ANY, _rows.diagonal(rows, 0) == 0)):
        raise LinAlgError("A is singular: zero entry on diagonal.")
    rows, right = rows._replace(data=astype(rows.data, dtype, copy_wanted=False)), astype(right, dtype)
    parts, is_lower = ("indptr", "indices"), bool(lower)
    order = A._cached(f"order {is_lower}", parts, lambda: _rows.order_of(rows, is_lower=is_lower))
    return _rows.solve_triangular(rows, right, order, is_lower=is_lower, has_unit_diagonal=bool(unit_diagonal))


__all__ = ["LinearOperator"]

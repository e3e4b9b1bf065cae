"""Factors of sparse matrices by SciPy on the host; systems with many right-hand sides are solved on the device."""

from __future__ import annotations

import contextlib
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse
import scipy.sparse.linalg

from oxinp._api.fronts import implements
from oxinp._core.array import dispatch
from oxinp._core.host import exchange, fallback
from oxinp._core.host.exchange import is_array
from oxinp._core.lazy.expr import Unsupported
from oxinp._core.lazy.results import types
from oxinp._core.manipulation.copy import astype
from oxinp._core.memory.dtypes import FLOAT64
from oxinp._core.ops import gather
from oxinp.sparse import _compressed, _rows
from oxinp.sparse._base import as_ours, is_ours, is_small
from oxinp.sparse._rows import Rows
from oxinp.sparse.linalg._dense_factors import DenseFactorisation
from oxinp.sparse.linalg._multifrontal import FrontalFactorisation

MIN_RIGHT = 32
"""Right-hand sides from which on they are solved for on the device; fewer wait for each other's rows, one by one."""


class Factorisation:
    """The factors of a sparse matrix, on the host; see `scipy.sparse.linalg.SuperLU`.

    Parameters
    ----------
    theirs : scipy.sparse.linalg.SuperLU

    Notes
    -----
    Systems with `MIN_RIGHT` and more right-hand sides that are large are solved on the device, where the factors are
    kept from then on; others by SciPy, counted.
    """

    def __init__(self, theirs: Any) -> None:
        self._theirs = theirs

    def solve(self, rhs: Any, trans: str = "N") -> Any:
        """Return the solution of linear systems.

        Parameters
        ----------
        rhs : array_like, (n,) or (n, k)
        trans : {'N', 'T', 'H'}
            Whether the systems are those of the matrix, of its transpose or of its conjugate transpose.

        Returns
        -------
        ndarray
            Of the shape of `rhs`.

        Raises
        ------
        ValueError
            As SciPy's.
        """
        if self._is_for_device(rhs) and trans in ("N", "T", "H"):
            return self._solved(rhs, trans)
        return fallback.call(self._theirs.solve, (rhs, trans), {}, name="scipy.sparse.linalg.SuperLU.solve")

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._theirs, name)
        return exchange.Exchange().take(value)

    def _is_for_device(self, rhs: Any) -> bool:
        if not is_array(rhs) or is_small(rhs) or rhs.ndim != 2 or rhs.shape[1] < MIN_RIGHT:
            return False
        return rhs.shape[0] == self._theirs.shape[0] and np.can_cast(rhs.dtype, self._theirs.U.dtype)

    @cached_property
    def _factors(self) -> dict[str, tuple[Rows, Any, bool]]:
        """What is on the device: rows of L, U and their transposes, their orders, and whether they are lower ones."""
        made = {}
        for name, is_lower in (("L", True), ("U", False)):
            factor = as_ours(getattr(self._theirs, name))
            for suffix, each, below in (("", factor, is_lower), (".T", factor.T, not is_lower)):
                rows = _compressed.canonical_rows(each)
                made[name + suffix] = rows, _rows.order_of(rows, is_lower=below), below
        return made

    @cached_property
    def _orders(self) -> tuple[tuple[Any, Any], ...]:
        """The permutations of rows and columns, int64, each with its inverse."""
        orders = [np.asarray(each, np.int64) for each in (self._theirs.perm_r, self._theirs.perm_c)]
        made = [(types.from_host(each), types.from_host(np.argsort(each))) for each in orders]
        return tuple(made)

    def _solved(self, rhs: Any, trans: str) -> Any:
        """Solve by both factors; row i of the matrix is row ``perm_r[i]`` of their product, columns likewise."""
        rows, columns = self._orders
        x = astype(rhs, self._theirs.U.dtype, copy_wanted=False)
        is_conjugated = trans == "H" and x.dtype.kind == "c"
        x = x.conj() if is_conjugated else x
        before, after = (rows[1], columns[0]) if trans == "N" else (columns[1], rows[0])
        x = gather.take(x, before, axis=0, is_checked=False)
        for name in ("L", "U") if trans == "N" else ("U.T", "L.T"):
            factor, order, is_lower = self._factors[name]
            x = _rows.solve_triangular(factor, x, order, is_lower=is_lower, has_unit_diagonal=name[0] == "L")
        x = gather.take(x, after, axis=0, is_checked=False)
        return x.conj() if is_conjugated else x


def _by_scipy(A: Any) -> Factorisation:
    return Factorisation(fallback.call(scipy.sparse.linalg.splu, (A,), {}, name="scipy.sparse.linalg.splu"))


def _on_device(A: Any) -> Any:
    """Return factors that the device computes: dense ones, or those of fronts.

    Raises
    ------
    Unsupported
        SciPy is to factorise it.
    """
    try:
        return DenseFactorisation(A)
    except Unsupported:
        return FrontalFactorisation(A, _by_scipy)


def _factored(name: str) -> None:
    theirs = getattr(scipy.sparse.linalg, name)

    def function(A: Any, *args: Any, **kwargs: Any) -> Any:
        if name != "spilu" and not args and not kwargs:
            with contextlib.suppress(Unsupported):
                made = _on_device(A)
                return made if name == "splu" else made.solve
        made = fallback.call(theirs, (A, *args), kwargs, name=f"scipy.sparse.linalg.{name}")
        if not callable(made):
            return Factorisation(made)
        if isinstance(getattr(made, "__self__", None), scipy.sparse.linalg.SuperLU):
            return Factorisation(made.__self__).solve
        return lambda b: fallback.call(made, (b,), {}, name=f"scipy.sparse.linalg.{name}")

    function.__wrapped__ = theirs  # type: ignore[attr-defined] # whose signature it has
    implements(f"scipy.sparse.linalg.{name}", is_hosted=False)(function)


for _name in ("splu", "spilu", "factorized"):
    _factored(_name)


@implements("scipy.sparse.linalg.spsolve")
def spsolve(A: Any, b: Any, permc_spec: Any = None, use_umfpack: bool = True) -> Any:  # noqa: ARG001 - SciPy's
    """See `scipy.sparse.linalg.spsolve`: with dense factors on the device, where the matrix fills in."""
    if permc_spec is not None or not is_ours(A) or scipy.sparse.issparse(b) or is_ours(b):
        raise Unsupported("an order of columns, or what is not sparse, or a sparse right-hand side")
    right = dispatch.functions[np.asarray](b)
    if right.ndim not in (1, 2) or right.shape[0] != A.shape[0] or right.dtype.kind not in "biufc":
        raise Unsupported("what SciPy refuses")
    dtype = np.promote_types(A.dtype if A.dtype.char in "fdFD" else FLOAT64, right.dtype)
    if dtype.char not in "fdFD":
        raise Unsupported("a dtype without kernels")
    x = _on_device(A.astype(dtype, copy=False)).solve(right)
    return x.ravel() if right.ndim == 2 and right.shape[1] == 1 else x


__all__ = ["Factorisation"]

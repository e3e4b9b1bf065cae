"""Routines of BLAS and LAPACK as `scipy.linalg.blas` and `scipy.linalg.lapack` name and call them: the tables below.

A routine takes matrices of its own dtype. Where it is permitted to overwrite one, converts one, queries workspace, or
is to tell in ``info`` that a matrix is singular or not positive definite, SciPy computes.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from oxinp._api.fronts import as_ours, find_theirs, implements
from oxinp._core.array import dispatch
from oxinp._core.lazy.expr import Unsupported
from oxinp._core.ops import factorise, spectral
from oxinp._core.ops.lu import lu
from oxinp._core.ops.triangular import Triangle, solve_triangular
from oxinp.linalg import _spectral
from oxinp.linalg._spectral import adjoint
from oxinp.scipy.linalg._given import given, or_scipy
from oxinp.scipy.linalg._systems import cho_solve, lu_solve

DTYPES = {"s": np.dtype("f4"), "d": np.dtype("f8"), "c": np.dtype("c8"), "z": np.dtype("c16")}


def _transposed(a: Any, trans: int) -> Any:
    return (a, a.swapaxes(-1, -2), adjoint(a))[trans]


def _plus(made: Any, beta: Any, c: Any) -> Any:
    """Return a product, with what is added to it."""
    if c is None or beta == 0:
        return made
    if c.shape != made.shape:
        raise Unsupported("shapes of which SciPy says what is wrong")
    return made + c * c.dtype.type(beta)


def _other_triangle(a: Any, *, lower: bool) -> Any:
    return np.triu(a, 1) if lower else np.tril(a, -1)


# -- BLAS --------------------------------------------------------------------------------------------------------------


def _gemm(alpha: Any, a: Any, b: Any, beta: Any = 0.0, c: Any = None, trans_a: int = 0, trans_b: int = 0) -> Any:
    a, b = _transposed(a, trans_a), _transposed(b, trans_b)
    if a.shape[1] != b.shape[0]:
        raise Unsupported("shapes of which SciPy says what is wrong")
    return _plus((a @ b) * a.dtype.type(alpha), beta, c)


def _rank_k(transposed: int) -> Callable[..., Any]:
    """Return what updates a triangle by a matrix and its transpose, 1, or its adjoint, 2."""

    def update(alpha: Any, a: Any, beta: Any = 0.0, c: Any = None, trans: int = 0, lower: int = 0) -> Any:
        if trans not in (0, transposed) or (transposed == 2 and c is not None):
            raise Unsupported("what BLAS refuses, or of which it takes the diagonal's real parts alone")
        first, second = _transposed(a, transposed if trans else 0), _transposed(a, 0 if trans else transposed)
        made = _plus((first @ second) * a.dtype.type(alpha), beta, c)
        made = np.tril(made) if lower else np.triu(made)
        return made if c is None else made + _other_triangle(c, lower=bool(lower))

    return update


def _trsm(alpha: Any, a: Any, b: Any, side: int = 0, lower: int = 0, trans_a: int = 0, diag: int = 0) -> Any:
    kind = Triangle(trans_a, bool(lower), bool(diag))
    if not side:
        x = solve_triangular(a, b, kind)
    elif trans_a == 2:  # X A^H = B
        x = adjoint(solve_triangular(a, adjoint(b), kind._replace(trans=0)))
    else:
        x = solve_triangular(a, b.swapaxes(-1, -2), kind._replace(trans=1 - trans_a)).swapaxes(-1, -2)
    return x * a.dtype.type(alpha)


def _whole(a: Any, *, lower: int, is_hermitian: bool) -> Any:
    """Return the matrix of which one triangle counts: its own transpose, or adjoint, whose diagonal is real."""
    stored = np.tril(a, -1) if lower else np.triu(a, 1)
    other = adjoint(stored) if is_hermitian else stored.swapaxes(-1, -2)
    diagonal = np.tril(np.triu(a))
    return stored + other + (diagonal.real.astype(a.dtype) if is_hermitian else diagonal)


def _symmetric_product(*, is_hermitian: bool) -> Callable[..., Any]:
    """Return what multiplies a matrix by one of which a triangle counts."""

    def multiply(alpha: Any, a: Any, b: Any, beta: Any = 0.0, c: Any = None, side: int = 0, lower: int = 0) -> Any:
        whole = _whole(a, lower=lower, is_hermitian=is_hermitian)
        return _plus((b @ whole if side else whole @ b) * a.dtype.type(alpha), beta, c)

    return multiply


def _symmetric_vector(*, is_hermitian: bool) -> Callable[..., Any]:
    """Return what multiplies a vector by a matrix of which a triangle counts."""

    def multiply(alpha: Any, a: Any, x: Any, beta: Any = 0.0, y: Any = None, *, lower: int = 0) -> Any:
        if len(a) != len(x):
            raise Unsupported("shapes of which SciPy says what is wrong")
        return _plus((_whole(a, lower=lower, is_hermitian=is_hermitian) @ x) * a.dtype.type(alpha), beta, y)

    return multiply


def _triangle(a: Any, *, lower: int, diag: int) -> Any:
    """Return a triangle, perhaps with ones on its diagonal."""
    if not diag:
        return np.tril(a) if lower else np.triu(a)
    return (np.tril(a, -1) if lower else np.triu(a, 1)) + np.eye(len(a), dtype=a.dtype, like=a)


def _trmm(alpha: Any, a: Any, b: Any, side: int = 0, lower: int = 0, trans_a: int = 0, diag: int = 0) -> Any:
    factor = _transposed(_triangle(a, lower=lower, diag=diag), trans_a)
    return (b @ factor if side else factor @ b) * a.dtype.type(alpha)


def _trmv(a: Any, x: Any, *, lower: int = 0, trans: int = 0, diag: int = 0) -> Any:
    return _transposed(_triangle(a, lower=lower, diag=diag), trans) @ x


def _trsv(a: Any, x: Any, *, lower: int = 0, trans: int = 0, diag: int = 0) -> Any:
    return solve_triangular(a, x, Triangle(trans, bool(lower), bool(diag)))


def _rank_2k(transposed: int) -> Callable[..., Any]:
    """Return what updates a triangle by two matrices and their transposes, 1, or their adjoints, 2."""

    def update(alpha: Any, a: Any, b: Any, beta: Any = 0.0, c: Any = None, trans: int = 0, lower: int = 0) -> Any:
        if trans not in (0, transposed) or a.shape != b.shape or (transposed == 2 and c is not None):
            raise Unsupported("what BLAS refuses, or of which it takes the diagonal's real parts alone")
        left, right = (transposed, 0) if trans else (0, transposed)
        made = (_transposed(a, left) @ _transposed(b, right)) * a.dtype.type(alpha)
        made = _plus(made + _transposed(made, transposed), beta, c)
        made = np.tril(made) if lower else np.triu(made)
        return made if c is None else made + _other_triangle(c, lower=bool(lower))

    return update


def _gemv(alpha: Any, a: Any, x: Any, beta: Any = 0.0, y: Any = None, *, trans: int = 0) -> Any:
    a = _transposed(a, trans)
    if a.shape[1] != len(x):
        raise Unsupported("shapes of which SciPy says what is wrong, or longer vectors")
    return _plus((a @ x) * a.dtype.type(alpha), beta, y)


def _outer(*, is_conjugate: bool) -> Callable[..., Any]:
    def multiply(alpha: Any, x: Any, y: Any) -> Any:
        return np.outer(x * x.dtype.type(alpha), factorise.conjugate(y) if is_conjugate else y)

    return multiply


def _inner(*, is_conjugate: bool) -> Callable[..., Any]:
    def multiply(x: Any, y: Any) -> Any:
        if len(x) != len(y):
            raise Unsupported("vectors of which SciPy takes the first elements, or which it refuses")
        return ((factorise.conjugate(x) if is_conjugate else x) @ y).item()

    return multiply


# -- LAPACK ------------------------------------------------------------------------------------------------------------


def _potrf(a: Any, lower: int = 0, clean: int = 1) -> Any:
    c = factorise.cholesky(a, upper=not lower)
    return c if clean else c + _other_triangle(a, lower=bool(lower)), 0


def _potrs(c: Any, b: Any, lower: int = 0) -> Any:
    return cho_solve((c, bool(lower)), b, check_finite=False), 0


def _posv(a: Any, b: Any, lower: int = 0) -> Any:
    c, _ = _potrf(a, lower, 0)
    return (c, *_potrs(c, b, lower))


def _getrf(a: Any) -> Any:
    factors, pivots, _ = lu(a)
    return factors, pivots, 0


def _getrs(lu: Any, piv: Any, b: Any, trans: int = 0) -> Any:
    return lu_solve((lu, piv), b, trans, check_finite=False), 0


def _gesv(a: Any, b: Any) -> Any:
    factors, pivots, _ = _getrf(a)
    return (factors, pivots, *_getrs(factors, pivots, b))


def _getri(lu: Any, piv: Any, lwork: Any = None) -> Any:
    if lwork is not None:
        raise Unsupported("workspace, of which SciPy says how much there must be")
    return _getrs(lu, piv, np.eye(len(lu), dtype=lu.dtype, like=lu))


def _geqrf(a: Any, lwork: Any = None) -> Any:
    if lwork is not None:
        raise Unsupported("workspace, of which SciPy says how much there must be")
    turned, tau = factorise.qr(a, "raw")
    num_work = max(3 * a.shape[1], 1)
    return turned.swapaxes(-1, -2), tau, as_ours(np.full(num_work, num_work, a.dtype)), 0


def _trtrs(a: Any, b: Any, lower: int = 0, trans: int = 0, unitdiag: int = 0) -> Any:
    return solve_triangular(a, b, Triangle(trans, bool(lower), bool(unitdiag))), 0


def _evd(a: Any, compute_v: int = 1, lower: int = 0) -> Any:
    if not compute_v:
        raise Unsupported("what LAPACK leaves in the place of vectors")
    return (*spectral.eigh(a, is_upper=not lower), 0)


def _geqp3(a: Any, lwork: Any = None) -> Any:
    if lwork is not None:
        raise Unsupported("workspace, of which SciPy says how much there must be")
    order, factors, tau = factorise.pivoted_qr(a, "raw")
    num_work = max(3 * (a.shape[1] + 1), 1)
    return factors, order + order.dtype.type(1), tau, as_ours(np.full(num_work, num_work, a.dtype)), 0


def _inverse(c: Any, lower: int, unitdiag: int = 0) -> Any:
    """Return the inverse of a triangle."""
    eye = np.eye(len(c), dtype=c.dtype, like=c)
    return solve_triangular(c, eye, Triangle(0, bool(lower), bool(unitdiag)))


def _in_triangle(made: Any, c: Any, lower: int) -> Any:
    """Return a triangle of what was made, and the other one as it was."""
    return (np.tril(made) if lower else np.triu(made)) + _other_triangle(c, lower=bool(lower))


def _trtri(c: Any, lower: int = 0, unitdiag: int = 0) -> Any:
    made = _in_triangle(_inverse(c, lower, unitdiag), c, lower)
    if unitdiag:
        made = made + np.tril(np.triu(c)) - np.eye(len(c), dtype=c.dtype, like=c)
    return made, 0


def _of_cholesky(c: Any) -> None:
    """Raise `Unsupported` for a triangle whose diagonal is not real, of which LAPACK takes parts."""
    if c.dtype.kind == "c" and bool(np.diagonal(c).imag.any()):
        raise Unsupported("what is no Cholesky factor")


def _potri(c: Any, lower: int = 0) -> Any:
    _of_cholesky(c)
    inverse = _inverse(c, lower)
    return _in_triangle(adjoint(inverse) @ inverse if lower else inverse @ adjoint(inverse), c, lower), 0


def _lauum(c: Any, lower: int = 0) -> Any:
    _of_cholesky(c)
    factor = _triangle(c, lower=lower, diag=0)
    return _in_triangle(adjoint(factor) @ factor if lower else factor @ adjoint(factor), c, lower), 0


def _lange(norm: str, a: Any) -> Any:
    size = np.abs(a)
    if norm in "1OoIi":
        return size.sum(axis=int(norm in "Ii")).max().item()
    largest = size.max()
    if norm in "Mm":
        return largest.item()
    scale = largest if bool(largest > 0) and bool(np.isfinite(largest)) else size.dtype.type(1)
    return (np.sqrt(((size / scale) ** 2).sum()) * scale).item()


def _gesdd(a: Any, compute_uv: int = 1, full_matrices: int = 1) -> Any:
    if not compute_uv:
        raise Unsupported("what LAPACK leaves in the place of vectors")
    return (*_spectral.svd(a, full_matrices=bool(full_matrices)), 0)


REAL, COMPLEX, EVERY = "sd", "cz", "sdcz"
BLAS: tuple[tuple[str, str, Callable[..., Any]], ...] = (
    ("gemm", EVERY, _gemm),
    ("syrk", EVERY, _rank_k(1)),
    ("herk", COMPLEX, _rank_k(2)),
    ("trsm", EVERY, _trsm),
    ("symm", EVERY, _symmetric_product(is_hermitian=False)),
    ("hemm", COMPLEX, _symmetric_product(is_hermitian=True)),
    ("trmm", EVERY, _trmm),
    ("syr2k", EVERY, _rank_2k(1)),
    ("her2k", COMPLEX, _rank_2k(2)),
    ("gemv", EVERY, _gemv),
    ("symv", REAL, _symmetric_vector(is_hermitian=False)),
    ("hemv", COMPLEX, _symmetric_vector(is_hermitian=True)),
    ("trmv", EVERY, _trmv),
    ("trsv", EVERY, _trsv),
    ("ger", REAL, _outer(is_conjugate=False)),
    ("geru", COMPLEX, _outer(is_conjugate=False)),
    ("gerc", COMPLEX, _outer(is_conjugate=True)),
    ("dot", REAL, _inner(is_conjugate=False)),
    ("dotu", COMPLEX, _inner(is_conjugate=False)),
    ("dotc", COMPLEX, _inner(is_conjugate=True)),
)
"""Names without their first letters, these, and what computes them: arguments are SciPy's, in their order."""
LAPACK: tuple[tuple[str, str, Callable[..., Any]], ...] = (
    ("potrf", EVERY, _potrf),
    ("potrs", EVERY, _potrs),
    ("posv", EVERY, _posv),
    ("getrf", EVERY, _getrf),
    ("getrs", EVERY, _getrs),
    ("gesv", EVERY, _gesv),
    ("getri", EVERY, _getri),
    ("geqrf", EVERY, _geqrf),
    ("trtrs", EVERY, _trtrs),
    ("syevd", REAL, _evd),
    ("heevd", COMPLEX, _evd),
    ("gesdd", EVERY, _gesdd),
    ("gesvd", EVERY, _gesdd),
    ("syev", REAL, _evd),
    ("heev", COMPLEX, _evd),
    ("geqp3", EVERY, _geqp3),
    ("trtri", EVERY, _trtri),
    ("potri", EVERY, _potri),
    ("lauum", EVERY, _lauum),
    ("lange", EVERY, _lange),
)
"""As `BLAS`."""
MATRICES = frozenset({"a", "b", "c", "lu"})
VECTORS = frozenset({"x", "y"})
SQUARE = frozenset(
    {
        *("potrf", "potrs", "posv", "potri", "getrs", "gesv", "getri", "trtrs", "trtri", "lauum"),
        *("syevd", "heevd", "syev", "heev", "symm", "hemm", "symv", "hemv", "trmm", "trmv", "trsm", "trsv"),
    }
)
"""Routines whose first matrix is."""
_NUMBERS = ((int, float, np.integer, np.floating), (complex, np.complexfloating))
NORMS = frozenset("MmOo1IiFfEe")
CHOICES = {"trans": 3, "trans_a": 3, "trans_b": 3}
"""Arguments that are numbers below another one than two."""


def _checked(name: str, dtype: np.dtype[Any], arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a routine, with matrices as ours.

    Raises
    ------
    Unsupported
        SciPy converts them, or says what is wrong.
    """
    made, order = {}, None
    for key, value in arguments.items():
        if key in MATRICES and value is not None:
            (x,) = given(value, check_finite=False)
            if x.ndim != 2 or x.dtype != dtype or not x.size:
                raise Unsupported("what SciPy converts, or refuses")
            if order is None and name in SQUARE and x.shape[0] != x.shape[1]:
                raise Unsupported("shapes of which SciPy says what is wrong")
            order = len(x) if order is None else order
            made[key] = x
        elif key in VECTORS and value is not None:
            (x,) = given(value, check_finite=False)
            if x.ndim != 1 or x.dtype != dtype or not x.size:
                raise Unsupported("what SciPy converts, or refuses")
            made[key] = x
        elif key in ("alpha", "beta"):
            if not isinstance(value, _NUMBERS[: 2 if dtype.kind == "c" and name != "herk" else 1]):
                raise Unsupported("what SciPy converts, or refuses")
            made[key] = value
        elif key in ("lwork", "piv") or value is None or (key == "norm" and isinstance(value, str) and value in NORMS):
            made[key] = value
        elif isinstance(value, int) and 0 <= value < CHOICES.get(key, 2):
            made[key] = int(value)
        else:
            raise Unsupported("what SciPy refuses")
    x = made.get("x")
    if x is not None and name in SQUARE and len(x) != order:
        raise Unsupported("vectors that SciPy refuses, or of which it takes the first elements")
    if "piv" in made and (order is None or np.shape(made["piv"]) != (order,)):
        raise Unsupported("pivots that SciPy refuses")
    b = made.get("b")
    if b is not None and name in SQUARE and b.shape[1 if made.get("side") else 0] != order:
        raise Unsupported("shapes of which SciPy says what is wrong")
    return made


def _front(name: str, dtype: np.dtype[Any], function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a routine of a dtype."""
    signature = inspect.signature(function)

    @or_scipy
    def routine(*args: Any, **kwargs: Any) -> Any:
        kept = {key: value for key, value in kwargs.items() if not key.startswith("overwrite_") or value}
        try:
            bound = signature.bind(*args, **kept)
        except TypeError:
            raise Unsupported("arguments that SciPy refuses, or has more of") from None
        return function(**_checked(name, dtype, bound.arguments))

    return routine


for _module, _table in (("blas", BLAS), ("lapack", LAPACK)):
    for _name, _letters, _function in _table:
        for _letter in _letters:
            _path = f"scipy.linalg.{_module}.{_letter}{_name}"
            implements(_path)(_front(_name, DTYPES[_letter], _function))
            dispatch.mutates[find_theirs(_path)] = ("*",)  # what SciPy is permitted to overwrite

__all__ = ["BLAS", "LAPACK"]

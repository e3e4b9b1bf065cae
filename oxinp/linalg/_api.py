"""Functions of `numpy.linalg` on the device: products, norms, systems and factorisations."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.linalg import _linalg as numpys

from oxinp._api.crossovers import placed
from oxinp._api.fronts import as_ours, enter_without_reading, implements
from oxinp._api.rebound import product_of_sizes, rebound, replace
from oxinp._core.lazy.balance import balance
from oxinp._core.lazy.expr import Unsupported
from oxinp._core.lazy.results import types, wrap_pending
from oxinp._core.manipulation import shape
from oxinp._core.memory.storage import SHARED
from oxinp._core.ops import factorise, spectral
from oxinp._core.ops.gufuncs import GUFUNC_OBJECTS
from oxinp._core.ops.matmul import contract
from oxinp._core.ops.vector_product import inner
from oxinp._core.ufunc.objects import UFUNC_OBJECTS
from oxinp.linalg import _eig, _spectral

# Written in Python by NumPy, in terms of functions that we have. The result of these may be larger than their arrays,
for _name in ("matmul", "pinv", "tensorinv", "tensorsolve"):
    implements(f"linalg.{_name}", is_hosted=False)(rebound(getattr(np.linalg, _name)))


def _largest_product(args: tuple[Any, ...]) -> float:
    """Return how many elements the products of neighbours have at most, of whichever of some matrices in a list."""
    arrays = args[0] if args and isinstance(args[0], list | tuple) else ()
    shapes: list[Any] = [getattr(x, "shape", ()) for x in arrays]
    if not shapes or not all(shapes):
        return math.inf
    return float(max([shape[0] for shape in shapes]) * max([shape[-1] for shape in shapes]))


implements("linalg.multi_dot", most=_largest_product)(rebound(np.linalg.multi_dot))
# that of these no larger than the product of their sizes,
for _name in ("cross", "outer", "tensordot", "vecdot"):
    implements(f"linalg.{_name}", most=product_of_sizes)(rebound(getattr(np.linalg, _name)))
# and that of these is not. Norms that are singular values ask `svd` for them.
for _name in ("matrix_norm", "matrix_power", "matrix_rank", "trace", "vector_norm"):
    implements(f"linalg.{_name}")(rebound(getattr(np.linalg, _name)))
# Views.
for _name in ("diagonal", "matrix_transpose"):
    enter_without_reading(getattr(np.linalg, _name), f"linalg.{_name}")


_numpys_norm = rebound(np.linalg.norm)
_root, _roots = UFUNC_OBJECTS["sqrt"].methods[0], UFUNC_OBJECTS["sqrt"].operations[0].pairs


def _norm_of_all(x: Any, *others: Any, **options: Any) -> Any:
    """Return the Euclidean norm of all elements of an array on the device; None for anything else."""
    layout = x._known or x._layout
    if others or options or not layout.ndim or layout.dtype.char not in "fd":
        return None
    if layout.ndim > 1:
        x = shape.flat(x) if layout.is_contiguous else shape.ravel(x, "K")
    if balance.limit or not layout.size:
        return UFUNC_OBJECTS["sqrt"](GUFUNC_OBJECTS["matmul"].of_two(x, x))
    total = inner(x, x)
    if total is None:
        return UFUNC_OBJECTS["sqrt"](contract(x, x, -1))  # as `matmul` has it
    graph, leaves, mask = total._held.value  # the root's own operator, spelled out
    record = None if mask & SHARED else _roots.get((graph,))
    return _root(total) if record is None or record.graph is None else wrap_pending((record.graph, leaves, mask))


@implements("linalg.norm", ahead=_norm_of_all)
def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: Any = False) -> Any:
    """See `numpy.linalg.norm`, whose code does all but the Euclidean norm of all elements on the device."""
    return _numpys_norm(x, ord, axis, keepdims)


def _checked(*arrays: Any) -> tuple[Any, ...]:
    for x in arrays:
        if type(x) is not types.ndarray:
            break
    else:
        return arrays
    if any(isinstance(x, np.ndarray) and type(x) is not np.ndarray for x in arrays):
        raise Unsupported("a subclass to pass through")
    return tuple(as_ours(x) for x in arrays)


@implements("linalg.cholesky")
@placed("cholesky", np.linalg.cholesky)
def cholesky(a: Any, /, *, upper: bool = False) -> Any:
    """See `numpy.linalg.cholesky`."""
    return factorise.cholesky(*_checked(a), upper=upper)


@implements("linalg.inv")
@placed("inv", np.linalg.inv)
def inv(a: Any) -> Any:
    """See `numpy.linalg.inv`."""
    return factorise.inv(*_checked(a))


@implements("linalg.solve")
@placed("solve", np.linalg.solve)
def solve(a: Any, b: Any) -> Any:
    """See `numpy.linalg.solve`."""
    return factorise.solve(*_checked(a, b))


@implements("linalg.det")
@placed("slogdet", np.linalg.det)
def det(a: Any) -> Any:
    """See `numpy.linalg.det`."""
    return factorise.det(*_checked(a))


@implements("linalg.slogdet")
@placed("slogdet", np.linalg.slogdet)
def slogdet(a: Any) -> Any:
    """See `numpy.linalg.slogdet`."""
    sign, logarithm = factorise.slogdet(*_checked(a))
    return numpys.SlogdetResult(sign, logarithm)


@implements("linalg.qr")
@placed("qr", np.linalg.qr)
def qr(a: Any, mode: str = "reduced") -> Any:
    """See `numpy.linalg.qr`."""
    if mode not in ("reduced", "complete", "r", "raw"):
        raise Unsupported("a mode that NumPy refuses, or deprecates")
    (a,) = _checked(a)
    result = factorise.qr(a, mode)
    return result if mode in ("r", "raw") else numpys.QRResult(*result)


def _is_upper(uplo: str) -> bool:
    """Whether upper triangles are read, as `UPLO` says."""
    if uplo.upper() not in ("L", "U"):
        raise ValueError("UPLO argument must be 'L' or 'U'")
    return uplo.upper() == "U"


@implements("linalg.eigh")
@placed("eigh", np.linalg.eigh)
def eigh(a: Any, UPLO: str = "L") -> Any:
    """See `numpy.linalg.eigh`. Signs of vectors are those of the rotations; the same input gives the same ones."""
    is_upper = _is_upper(UPLO)
    return numpys.EighResult(*spectral.eigh(*_checked(a), is_upper=is_upper))


@implements("linalg.eigvalsh")
@placed("eigvalsh", np.linalg.eigvalsh)
def eigvalsh(a: Any, UPLO: str = "L") -> Any:
    """See `numpy.linalg.eigvalsh`."""
    is_upper = _is_upper(UPLO)
    return spectral.eigh(*_checked(a), is_upper=is_upper, has_vectors=False)[0]


def _each(function: Callable[[Any], Any], a: Any) -> tuple[Any, ...]:
    """Return what a function makes of every matrix of a stack; arrays, as stacks."""
    (a,) = factorise.prepared(*_checked(a))
    parts = [function(a[place]) for place in np.ndindex(a.shape[:-2])]
    return tuple(np.stack(part).reshape(*a.shape[:-2], *part[0].shape) for part in zip(*parts, strict=True))


def _general(a: Any) -> tuple[Any, Any]:
    """Return a matrix in double precision, as NumPy computes, and the dtype of its results where these are complex."""
    (a,) = factorise.prepared(*_checked(a))
    _eig.refused(a)
    return a.astype("D" if a.dtype.kind == "c" else "d", copy=False), np.dtype("F" if a.dtype.char in "fF" else "D")


@implements("linalg.eigvals")
@placed("eigvals", np.linalg.eigvals)
def eigvals(a: Any) -> Any:
    """See `numpy.linalg.eigvals`. The device reduces and sweeps; windows of QR iterations are LAPACK's on the host."""
    if np.ndim(a) > 2:
        return _each(lambda x: (eigvals(x),), a)[0]
    a, dtype = _general(a)
    w = _eig.eigvals(a, "linalg.eigvals")
    if a.dtype.kind != "c" and not bool(w.imag.any()):
        w, dtype = w.real, np.dtype(dtype.char.lower())
    return w.astype(dtype, copy=False)


@implements("linalg.eig")
@placed("eig", np.linalg.eig)
def eig(a: Any) -> Any:
    """See `numpy.linalg.eig`. The device reduces, sweeps and multiplies; windows of QR iterations are LAPACK's."""
    if np.ndim(a) > 2:
        return numpys.EigResult(*_each(eig, a))
    a, dtype = _general(a)
    w, v = _eig.eig(a, "linalg.eig")
    if a.dtype.kind != "c" and v.dtype.kind != "c":
        w, dtype = w.real, np.dtype(dtype.char.lower())
    return numpys.EigResult(w.astype(dtype, copy=False), v.astype(dtype, copy=False))


@implements("linalg.svd")
@placed("svd", np.linalg.svd)
def svd(a: Any, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False) -> Any:
    """See `numpy.linalg.svd`. Signs of vectors are those of the rotations; the same input gives the same ones."""
    (a,) = _checked(a)
    if not hermitian:
        found = _spectral.svd(a, full_matrices=full_matrices) if compute_uv else _spectral.svdvals(a)
        return numpys.SVDResult(*found) if compute_uv else found
    a = _spectral.hermitian(a)
    try:
        found = _spectral.svd(a, full_matrices=full_matrices) if compute_uv else _spectral.svdvals(a)
    except np.linalg.LinAlgError:
        raise np.linalg.LinAlgError("Eigenvalues did not converge") from None  # which NumPy makes them of
    return numpys.SVDResult(*found) if compute_uv else found


@implements("linalg.svdvals")
@placed("svdvals", np.linalg.svdvals)
def svdvals(x: Any, /) -> Any:
    """See `numpy.linalg.svdvals`."""
    return _spectral.svdvals(*_checked(x))


@implements("linalg.lstsq")
@placed("svd", np.linalg.lstsq)
def lstsq(a: Any, b: Any, rcond: Any = None) -> Any:
    """See `numpy.linalg.lstsq`."""
    a, b = _checked(a, b)
    if a.ndim != 2 or b.ndim not in (1, 2) or len(a) != len(b) or not b.size:
        raise Unsupported("shapes of which NumPy says what is wrong, or without elements")
    dtype = factorise.result_dtype(a, b)
    # As NumPy, which asks for the rank in double precision whatever the arrays' dtype.
    wide, real = ("D" if dtype.kind == "c" else "d"), np.dtype(dtype.char.lower())
    epsilon = np.finfo(wide).eps
    limit = epsilon * max(a.shape) if rcond is None else epsilon if rcond < 0 else rcond
    right = b[:, None] if b.ndim == 1 else b
    try:
        x, residuals, rank, s = _spectral.lstsq(a.astype(wide, copy=False), right.astype(wide, copy=False), limit)
    except np.linalg.LinAlgError as error:
        raise np.linalg.LinAlgError(f"{error} in Linear Least Squares") from None
    x, s = x.astype(dtype, copy=False), s.astype(real, copy=False)
    residuals = as_ours(np.zeros(0, real)) if residuals is None else residuals.astype(real, copy=False)
    return x[:, 0] if b.ndim == 1 else x, residuals, np.int32(rank), s


def _finite_svdvals(x: Any) -> Any:
    """Return singular values, of which NumPy's are NaN where a matrix is not finite."""
    try:
        return svdvals(x)
    except np.linalg.LinAlgError:
        raise Unsupported("a matrix that is not finite, of a stack perhaps") from None


if hasattr(numpys, "_cond_svdvals"):  # from NumPy 2.5 on `cond` has singular values of its own
    replace(numpys, "_cond_svdvals", _finite_svdvals)
_spectral_cond = rebound(np.linalg.cond)


@implements("linalg.cond")
def cond(x: Any, p: Any = None) -> Any:
    """See `numpy.linalg.cond`."""
    (x,) = _checked(x)
    if p is None or p in {2, -2} or not x.size or x.ndim < 2 or x.shape[-1] != x.shape[-2]:
        return _spectral_cond(x, p)
    try:
        inverse = factorise.inv(x)
    except np.linalg.LinAlgError:
        raise Unsupported("a matrix without an inverse, of a stack perhaps") from None
    found = np.linalg.norm(x, p, axis=(-2, -1)) * np.linalg.norm(inverse, p, axis=(-2, -1))
    # As NumPy, which has NaN for matrices with NaN alone.
    return np.where(np.isnan(found) & ~np.isnan(x).any(axis=(-2, -1)), found.dtype.type(np.inf), found)[()]

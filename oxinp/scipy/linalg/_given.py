"""What the functions of `scipy.linalg` are given: arrays, finite where that is checked, of dtypes with kernels."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

from oxinp._api.fronts import as_ours
from oxinp._core.lazy.expr import Unsupported
from oxinp._core.reduction.reduce import reduce
from oxinp._core.reduction.table import ALL
from oxinp._core.ufunc.objects import UFUNC_OBJECTS

LAPACK = "fdFDilqILQ"
"""dtypes of which SciPy's LAPACK computes in their own precision, or in double."""


def given(*arrays: Any, check_finite: bool) -> tuple[Any, ...]:
    """Return arrays as ours.

    Raises
    ------
    ValueError
        There are infinities or NaNs, and `check_finite`.
    Unsupported
        One is of a subclass.
    """
    if any(isinstance(x, np.ndarray) and type(x) is not np.ndarray for x in arrays):
        raise Unsupported("a subclass")
    ours = tuple(map(as_ours, arrays))
    if check_finite:
        for x in ours:
            if not _is_finite(x):
                raise ValueError("array must not contain infs or NaNs")
    return ours


def _is_finite(x: Any) -> bool:
    """Whether an array is without infinities and NaNs."""
    return x.dtype.kind not in "fc" or not x.size or bool(reduce(ALL, UFUNC_OBJECTS["isfinite"](x)))


def matrices(*arrays: Any, check_finite: bool, are_square: bool = False) -> tuple[Any, ...]:
    """Return stacks of matrices with elements, of dtypes that SciPy computes in, or in double.

    Raises
    ------
    ValueError
        There are infinities or NaNs, and `check_finite`.
    Unsupported
        They are not: SciPy says what is wrong, or computes.
    """
    ours = given(*arrays, check_finite=False)
    for x in ours:
        if x.ndim < 2 or not x.size or x.dtype.char not in LAPACK or (are_square and x.shape[-1] != x.shape[-2]):
            raise Unsupported("shapes or dtypes of which SciPy says what is wrong, or computes")
    return given(*ours, check_finite=check_finite)


def finite_matrix(a: Any, *, check_finite: bool, are_square: bool = False) -> Any:
    """Return one matrix, see `matrices`; of infinities and NaNs that are not refused, LAPACK says what becomes."""
    (a,) = matrices(a, check_finite=check_finite, are_square=are_square)
    if a.ndim != 2:
        raise Unsupported("stacks")
    if not check_finite and not _is_finite(a):
        raise Unsupported("infinities or NaNs, of which LAPACK says what becomes")
    return a


def each_of_stacks(theirs: Callable[..., Any], *names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Let a function of matrices take stacks of them, which are broadcast, as SciPy's `_apply_over_batch` does.

    Parameters
    ----------
    theirs : callable
        SciPy's, which refuses stacks where it is not decorated.
    *names : str
        Its first parameters, which are matrices, or None.
    """
    has_stacks = hasattr(theirs, "__wrapped__")

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            given = (*args[: len(names)], *(kwargs.get(name) for name in names[len(args) :]))
            if not any(np.ndim(x) > 2 for x in given if x is not None):
                return function(*args, **kwargs)
            ours = [None if x is None else as_ours(x) for x in given]
            shapes = [x.shape for x in ours if x is not None]
            if not has_stacks or any(len(shape) < 2 or 0 in shape for shape in shapes):
                raise Unsupported("stacks that SciPy refuses")
            batch = np.broadcast_shapes(*(shape[:-2] for shape in shapes))
            wide = [None if x is None else np.broadcast_to(x, (*batch, *x.shape[-2:])) for x in ours]
            rest = {name: value for name, value in kwargs.items() if name not in names}
            found = [
                function(*(None if x is None else x[place] for x in wide), *args[len(names) :], **rest)
                for place in np.ndindex(batch)
            ]
            if not isinstance(found[0], tuple):
                return _stacked(found, batch)
            return tuple(_stacked(list(part), batch) for part in zip(*found, strict=True))

        return wrapped

    return decorate


def _stacked(found: list[Any], batch: tuple[int, ...]) -> Any:
    """Return results of matrices as a stack."""
    made = np.stack([as_ours(x) for x in found])
    return made.reshape(*batch, *made.shape[1:])


def or_scipy(function: Callable[..., Any]) -> Callable[..., Any]:
    """Let SciPy say in its words, on the host, that a matrix is singular, or not positive definite."""

    @wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except np.linalg.LinAlgError as error:
            raise Unsupported(str(error)) from None

    return wrapped


__all__ = ["each_of_stacks", "finite_matrix", "given", "matrices", "or_scipy"]

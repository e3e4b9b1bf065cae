"""What the functions of `scipy.linalg` are given: arrays, finite where that is checked, of dtypes with kernels."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np
import scipy

from oxinp._api.fronts import as_ours
from oxinp._core.lazy import placement
from oxinp._core.lazy.expr import Unsupported
from oxinp._core.reduction.reduce import reduce
from oxinp._core.reduction.table import ALL
from oxinp._core.ufunc.objects import UFUNC_OBJECTS

LAPACK = "fdFDilqILQ"
"""dtypes of which SciPy's LAPACK computes in their own precision, or in double."""
VECTORS = 0
"""The dimensions of what is one vector, or some as columns of a matrix."""
SCIPY = tuple(map(int, scipy.__version__.split(".")[:2]))
HAS_STACKS = SCIPY >= (1, 16)
"""Whether SciPy's functions take stacks, with or without its decorator."""


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


def in_double(a: Any) -> Any:
    """Return an array of floats or complex numbers in double precision."""
    return a.astype("D" if a.dtype.kind == "c" else "d", copy=False)


def each_of_stacks(theirs: Callable[..., Any], **cores: int) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Let a function of matrices take stacks of them, which are broadcast, as SciPy's `_apply_over_batch` does.

    One after the other: where each is too small to be worth a launch, SciPy's function on the host takes less time.

    Parameters
    ----------
    theirs : callable
        SciPy's, which refuses stacks before SciPy 1.16 where it is not decorated.
    **cores : int
        Its first parameters, and of how many dimensions what they name is one of: `VECTORS` where of one or two. They
        may be None.
    """
    has_stacks = HAS_STACKS or hasattr(theirs, "__wrapped__")
    names = tuple(cores)

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            given = (*args[: len(names)], *(kwargs.get(name) for name in names[len(args) :]))
            found = [
                (None, 0) if x is None else (as_ours(x), _core_of(x, core))
                for x, core in zip(given, cores.values(), strict=True)
            ]
            if not any(x.ndim > core for x, core in found if x is not None):
                return function(*args, **kwargs)
            batches = [x.shape[: max(0, x.ndim - core)] for x, core in found if x is not None]
            if not has_stacks or any(x.ndim < core or not x.size for x, core in found if x is not None):
                raise Unsupported("stacks that SciPy refuses")
            sizes = [x.itemsize * math.prod(x.shape[x.ndim - core :]) for x, core in found if x is not None]
            if placement.is_host(max(sizes)):
                raise Unsupported("small matrices, one after the other")
            batch = np.broadcast_shapes(*batches)
            wide = [None if x is None else np.broadcast_to(x, (*batch, *x.shape[x.ndim - core :])) for x, core in found]
            rest = {name: value for name, value in kwargs.items() if name not in names}
            made = [
                function(*(None if x is None else x[place] for x in wide), *args[len(names) :], **rest)
                for place in np.ndindex(batch)
            ]
            if not isinstance(made[0], tuple):
                return _stacked(made, batch)
            return several(theirs, tuple(_stacked(list(part), batch) for part in zip(*made, strict=True)))

        return wrapped

    return decorate


def several(theirs: Callable[..., Any], results: tuple[Any, ...]) -> Any:
    """Return several results of stacks as SciPy's function does: in a list where it is decorated."""
    return list(results) if hasattr(theirs, "__wrapped__") else results


def _core_of(x: Any, core: int) -> int:
    """Return how many dimensions an array's matrices or vectors have."""
    return min(2, max(1, np.ndim(x))) if core == VECTORS else core


def _stacked(found: list[Any], batch: tuple[int, ...]) -> Any:
    """Return results of matrices as a stack; None where there are none."""
    if all(x is None for x in found):
        return None
    found = [np.stack([as_ours(part) for part in x]) if isinstance(x, tuple) else as_ours(x) for x in found]
    if any(x.shape != found[0].shape for x in found):
        raise Unsupported("results of various sizes")
    made = np.stack(found)
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


__all__ = [
    "HAS_STACKS",
    "VECTORS",
    "each_of_stacks",
    "finite_matrix",
    "given",
    "in_double",
    "matrices",
    "or_scipy",
    "several",
]

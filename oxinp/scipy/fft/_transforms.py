"""Discrete Fourier transforms: the functions of `scipy.fft`."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from oxinp._api.fronts import implements
from oxinp._core.lazy.expr import Unsupported
from oxinp.fft._transforms import apply, request, request_along

Function = Callable[..., Any]


def check_permissions(workers: Any, plan: Any = None) -> None:
    """Leave to SciPy what it refuses: a plan, or a number of threads that is none.

    Raises
    ------
    Unsupported
        SciPy says why it refuses them, or counts negative threads from the host's last.
    """
    try:
        is_valid = workers is None or operator.index(workers) > 0
    except TypeError:
        is_valid = False
    if plan is not None or not is_valid:
        raise Unsupported("a plan, or a number of threads that SciPy judges")


def listed(value: Any) -> Any:
    """Return a list of one where SciPy takes an integer for that."""
    return (value,) if isinstance(value, int | np.integer) else value


def _one_axis(name: str) -> Function:
    def function(
        x: Any,
        n: Any = None,
        axis: Any = -1,
        norm: Any = None,
        overwrite_x: Any = False,
        workers: Any = None,
        *,
        plan: Any = None,
    ) -> Any:
        check_permissions(workers, plan)
        wanted = request_along("scipy", name, n, axis, norm)
        return apply(x, wanted, is_overwritable=bool(overwrite_x))

    return function


def _several_axes(name: str, usual: tuple[int, ...] | None) -> Function:
    def function(
        x: Any,
        s: Any = None,
        axes: Any = usual,
        norm: Any = None,
        overwrite_x: Any = False,
        workers: Any = None,
        *,
        plan: Any = None,
    ) -> Any:
        check_permissions(workers, plan)
        wanted = request("scipy", name, listed(s), listed(axes), norm)
        return apply(x, wanted, is_overwritable=bool(overwrite_x))

    return function


_NAMES = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
for _name in _NAMES:
    implements(f"scipy.fft.{_name}")(_one_axis(_name))
    implements(f"scipy.fft.{_name}2")(_several_axes(f"{_name}2", (-2, -1)))
    implements(f"scipy.fft.{_name}n")(_several_axes(f"{_name}n", None))


__all__ = ["check_permissions", "listed"]

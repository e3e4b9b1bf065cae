"""Calls of NumPy's own ufuncs with arrays of ours: mostly of operators that have a number of NumPy's on their left.

Of comparisons NumPy makes that an array without dimensions.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from oxinp._core.lazy.inlining import MISSING, NUMBERS, compiled
from oxinp._core.lazy.results import types
from oxinp._core.ufunc.objects import OF_TWO, WITH_NUMBERS

_TEXT = """
def make():
    def __array_ufunc__(self, ufunc, method, a, b=MISSING, /, *others, **kwargs):
        if type(b) is ndarray and method == "__call__":
            kind = type(a)
            if kind is NumpyArray and not a.ndim and a.dtype.kind in "biufc":
                kind = a.dtype.type
            if kind in NUMBERS and ufunc in OF_TWO and not others and not kwargs and not REPORTS:
                x = seen(b) else return general_ufunc(self, ufunc, method, a, b)
                reach, itemsizes, is_equality = OF_TWO[ufunc]
                if is_equality and x.dtype.kind not in "biufc":  # texts do not just differ
                    return general_ufunc(self, ufunc, method, a, b)
                known = b._known
                if known is not FEW or reach > HEAVY:
                    if x.size * reach >= config.offload_threshold and not takes(x, reach, itemsizes, kind):
                        return general_ufunc(self, ufunc, method, a, b)
                    if known is not FEW:
                        known = None
                result = called(ufunc, a, x) else return general_ufunc(self, ufunc, method, a, b)
                return array_of(result, known)
        return general_ufunc(self, ufunc, method, a, b, *others, **kwargs)
    return __array_ufunc__
"""


def _general(
    self: Any,  # noqa: ARG001 - NumPy says whom it asks
    ufunc: np.ufunc,
    method: str,
    a: Any,
    b: Any = MISSING,
    /,
    *others: Any,
    **kwargs: Any,
) -> Any:
    if type(a) in NUMBERS and type(b) is types.ndarray and not others and not kwargs:
        ours = WITH_NUMBERS.get(ufunc)
        if ours is not None and method == "__call__":
            result = ours(b, a)
            if result is not NotImplemented:
                return result
    inputs = (a,) if b is MISSING else (a, b, *others)
    return types.array_ufunc(ufunc, method, inputs, kwargs)


array_ufunc: Any = compiled(
    "ndarray.__array_ufunc__",
    _TEXT,
    may_warn=True,
    names={"OF_TWO": OF_TWO, "general_ufunc": _general},
)()


__all__ = ["array_ufunc"]

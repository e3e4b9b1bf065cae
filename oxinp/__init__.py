"""NumPy on the GPU by changing one import: ``import oxinp as np``."""

from typing import Any

import numpy

from oxinp._config import config
from oxinp._core import dispatch, fallback
from oxinp._core.evaluate import evaluate
from oxinp._core.explain import explain
from oxinp._core.ndarray import ndarray
from oxinp._core.ops import creation as _creation
from oxinp._core.ufuncs import UFUNC_OBJECTS as _UFUNCS

_native = {
    **_UFUNCS,
    **{n: getattr(_creation, n) for n in ("zeros", "ones", "full", "empty", "arange", "asarray", "array")},
}


def __getattr__(name: str) -> Any:
    if name in _native:
        return _native[name]
    value = getattr(numpy, name)
    if callable(value) and not isinstance(value, type):

        def function(*args: Any, **kwargs: Any) -> Any:
            return (
                dispatch.array_function(value, (), args, kwargs)
                if not isinstance(value, numpy.ufunc)
                else fallback.call(value, args, kwargs, name=name)
            )

        return function
    return value


__all__ = ["config", "evaluate", "explain", "ndarray"]

"""NumPy's private module of C code, as the tests get it: casts that they call by their loops are ours.

`_get_castingimpl` gives what casts one dtype to another, and its `_simple_strided_call` runs the loop over two arrays.
NumPy's own loops take NumPy's arrays; over arrays of ours the same cast is `oxinp.copyto`.
"""

from typing import Any

import numpy as np
from numpy._core import _multiarray_umath

import oxinp


class Cast:
    """A cast between two dtypes: NumPy's in all but what moves elements.

    Parameters
    ----------
    theirs : object
        What NumPy has for it.
    """

    def __init__(self, theirs: Any) -> None:
        self._theirs = theirs

    def __getattr__(self, name: str) -> Any:
        return getattr(self._theirs, name)

    def _simple_strided_call(self, arrays: Any) -> Any:
        if type(arrays) is not tuple or not all(isinstance(array, oxinp.ndarray) for array in arrays):
            return self._theirs._simple_strided_call(arrays)
        # NumPy looks at dtypes and dimensions; lengths, and what may be written to, are for `copyto` to look at.
        self._theirs._simple_strided_call(tuple(np.empty((0,) * array.ndim, array.dtype) for array in arrays))
        given, written = arrays
        return oxinp.copyto(written, given, casting="unsafe")


def _get_castingimpl(source: Any, target: Any) -> Any:
    theirs = _multiarray_umath._get_castingimpl(source, target)
    return theirs if theirs is None else Cast(theirs)


def __getattr__(name: str) -> Any:
    return getattr(_multiarray_umath, name)

"""`ndarray.flat`: NumPy's iterator over the elements of an array, which are on the host as long as it is there."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from oxinp._core.documentation import stand_for
from oxinp._core.errors.frames import call_as_user
from oxinp._core.errors.hearing import casts_silently
from oxinp._core.host.sharing import lend
from oxinp._core.lazy.handle import Handle
from oxinp._core.lazy.results import wrap_host
from oxinp._core.manipulation.copy import asnumpy


def _compared(compare: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def method(self: Any, other: Any) -> Any:
        return compare(self.copy(), other)

    return method


class flatiter:  # noqa: N801 - NumPy's name
    """Iterator over the elements of an array in C order; see `numpy.flatiter`.

    Parameters
    ----------
    array : ndarray
    """

    __slots__ = ("_array", "_iterator")

    def __init__(self, array: Any) -> None:
        self._array = array
        self._iterator = lend(array).flat

    @property
    def base(self) -> Any:
        """The array whose elements these are."""
        return self._array

    @property
    def coords(self) -> tuple[int, ...]:
        """Where the next element is, by axis."""
        return tuple(self._iterator.coords)

    @property
    def index(self) -> int:
        """Number of the next element."""
        return self._iterator.index

    def copy(self, /) -> Any:
        """Return the elements as a new array of one dimension."""
        return wrap_host(self._iterator.copy())

    def __array__(self, dtype: Any = None, /, *, copy: bool | None = None) -> np.ndarray[Any, Any]:
        return np.array(self._iterator.__array__(), dtype, copy=copy)

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        return next(self._iterator)

    def __len__(self) -> int:
        return len(self._iterator)

    def __getitem__(self, key: Any) -> Any:
        return wrap_host(self._iterator[asnumpy(key) if isinstance(key, Handle) else key])

    def __setitem__(self, key: Any, value: Any) -> None:
        key, value = (asnumpy(each) if isinstance(each, Handle) else each for each in (key, value))
        if casts_silently(value, self._iterator.base.dtype):
            self._iterator[key] = value
        else:
            call_as_user(self._iterator.__setitem__, (key, value), {})

    def __delitem__(self, key: Any) -> None:
        del self._iterator[key]  # type: ignore[attr-defined] # raises

    __eq__ = _compared(operator.eq)
    __ne__ = _compared(operator.ne)
    __lt__ = _compared(operator.lt)
    __le__ = _compared(operator.le)
    __gt__ = _compared(operator.gt)
    __ge__ = _compared(operator.ge)
    __hash__ = None  # type: ignore[assignment]


stand_for(flatiter, np.flatiter, "The elements are on the host as long as the iterator is there.")

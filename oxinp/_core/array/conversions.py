"""What an array becomes outside of the library: NumPy's array, Python's numbers, lists, text, copies and pickles."""

from __future__ import annotations

import importlib
from types import FunctionType
from typing import TYPE_CHECKING, Any

import numpy as np

from oxinp._core.array import display
from oxinp._core.host import fallback
from oxinp._core.host.sharing import lend
from oxinp._core.lazy.handle import Handle, fetch, host_view
from oxinp._core.lazy.results import wrap_host
from oxinp._core.manipulation.copy import asnumpy, copy
from oxinp._core.memory.storage import is_shared
from oxinp._core.ops import creation


class Conversions(Handle):
    """The methods of `ndarray` that give something else than an array of ours, and those of `copy` and `pickle`."""

    __slots__ = ()

    if TYPE_CHECKING:
        T: Any

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """Where the elements are on the GPU, for libraries that read them there; AttributeError if they are not."""
        described: dict[str, Any] = importlib.import_module("oxinp._core.interop.imports").cuda_array_interface(self)
        return described

    def item(self, *args: Any) -> Any:
        """Return one element as a Python scalar; see `numpy.ndarray.item`."""
        if self._storage.host is not None and args and {*map(type, args)} == {int}:
            return host_view(self).item(*args)
        if not args and self._layout.size == 1:
            return fetch(self).item()
        return fallback.call(np.ndarray.item, (self, *args), {}, name="ndarray.item")

    def tolist(self) -> Any:
        """Return the elements as nested lists of Python scalars."""
        return fetch(self).tolist() if self._storage.host is None else host_view(self).tolist()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        fallback.count("__array__")
        is_same = dtype is None or np.dtype(dtype) == self._layout.dtype
        if is_same and not copy and not (copy is False and is_shared(self._storage)):
            return lend(self)
        if copy is False:
            msg = "Unable to avoid copy while creating an array as requested."
            raise ValueError(msg)
        return asnumpy(self).astype(self._layout.dtype if dtype is None else dtype, copy=False)

    def __bool__(self) -> bool:
        return bool(self._for_scalar())

    def __int__(self) -> int:
        return int(self._for_scalar())

    def __float__(self) -> float:
        return float(self._for_scalar())

    def __complex__(self) -> complex:
        return complex(self._for_scalar())

    def __index__(self) -> int:
        return self._for_scalar().__index__()  # type: ignore[no-any-return]

    def _for_scalar(self) -> Any:
        """Return a NumPy array that converts, or raises, as this one should, without moving more than one element."""
        return fetch(self) if self._layout.size <= 1 else np.empty(self._layout.shape, np.bool_)

    def __bytes__(self) -> bytes:
        return bytes(fetch(self) if self._storage.host is None else host_view(self))

    def __copy__(self) -> Any:
        return copy(self, "K")

    def __deepcopy__(self, memo: Any) -> Any:
        return wrap_host(host_view(self).__deepcopy__(memo)) if self._layout.dtype.hasobject else copy(self, "K")

    def __reduce__(self) -> Any:
        layout = self._layout
        low, high = layout.byte_bounds
        if high - low != layout.nbytes or min(layout.strides, default=0) < 0:
            return creation.from_pickle, (fetch(self).__reduce__(),)  # which no protocol hands over out of band
        in_order = fetch(self.T).T if layout.is_fortran and not layout.is_contiguous else fetch(self)
        return creation.from_host, (in_order,)

    def __repr__(self) -> str:
        return display.to_repr(self)

    def __str__(self) -> str:
        return display.to_str(self)

    def __format__(self, spec: str) -> str:
        if self._layout.ndim == 0:
            return format(fetch(self)[()], spec)
        return object.__format__(self, spec)


for _name, _method in vars(Conversions).items():
    if isinstance(_method, FunctionType):
        _method.__qualname__ = f"ndarray.{_name}"  # what Python's messages call it

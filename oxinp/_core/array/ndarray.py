"""`ndarray`: NumPy's array, with its elements on the host or on the device, computed when needed."""

from __future__ import annotations

import builtins
import importlib
import operator
import sys
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from oxinp._core.array import buffer, elements, numpys_calls, slots
from oxinp._core.array.array_type import OWN_NAME, ArrayType
from oxinp._core.array.conversions import Conversions
from oxinp._core.array.dispatch import after_registering, functions
from oxinp._core.array.flags import Flags
from oxinp._core.array.methods import array_methods, describe
from oxinp._core.array.scalar import SCALARS, DeviceScalar, ScalarType
from oxinp._core.errors.frames import call_as_user
from oxinp._core.errors.hearing import casts_silently
from oxinp._core.host.foreign import KNOWN
from oxinp._core.host.nominal import INSISTING, reported_class
from oxinp._core.host.sharing import adopt_host, lend
from oxinp._core.lazy import inlining
from oxinp._core.lazy.handle import Handle, base_of, fetch, host_view, is_writeable
from oxinp._core.lazy.masked import shaped
from oxinp._core.lazy.parted import layout_of
from oxinp._core.lazy.results import types, wrap_host
from oxinp._core.lazy.small import casting_method, copying_method, viewing_method
from oxinp._core.lazy.views import moved, view, view_at
from oxinp._core.manipulation import shape
from oxinp._core.manipulation.copy import astype, copy, order_of, own
from oxinp._core.memory.host_side import seen_at
from oxinp._core.memory.layout import Layout
from oxinp._core.ops import creation
from oxinp._core.ops.gufuncs import operator_methods as product_methods
from oxinp._core.reduction.methods import reduction_methods
from oxinp._core.subclass import SUBCLASSES, dressed_methods, make, plain
from oxinp._core.ufunc.objects import operator_methods
from oxinp._runtime import host_heap

_NumpyArray = np.ndarray
_OWN_CLASS: Any = object.__dict__["__class__"]


if TYPE_CHECKING:
    _Operators = Handle
else:
    # The special methods of the ufunc table's rows and the reductions, over methods that NumPy computes.
    # By a class of NumPy's module among an object's classes, some programs (SymPy) tell arrays from what is none.
    _HostMethods = type("_HostMethods", (Handle,), {"__slots__": (), "__module__": "numpy", **array_methods()})
    _Operators = type(
        "_Operators",
        (_HostMethods,),
        {"__slots__": (), **operator_methods(), **product_methods(), **reduction_methods()},
    )

_ATTRIBUTES_ARE_FIXED = np.lib.NumpyVersion(np.__version__) >= "2.5.0"
"""Whether NumPy warns where an array's shape is set."""


class ndarray(Conversions, _Operators, metaclass=ArrayType):  # noqa: N801 - NumPy's name
    """An n-dimensional array; see `numpy.ndarray`.

    Parameters
    ----------
    shape : int or tuple of int
    dtype : dtype
    buffer : object exposing a buffer, optional
        The array's elements are its own, on the host.
    offset : int
        Bytes into the buffer.
    strides : tuple of int, optional
        Bytes.
    order : {'C', 'F'}
    """

    __slots__ = ()

    __array_priority__ = 0.0

    def __new__(
        cls,
        shape: Any,
        dtype: Any = float,
        buffer: Any = None,
        offset: int = 0,
        strides: Any = None,
        order: Any = None,
    ) -> Any:
        if buffer is None and strides is None and not offset and np.dtype(dtype).itemsize:
            made = creation.uninitialised(shape, dtype, "F" if order_of(order, "C") == "F" else "C")
        elif isinstance(buffer, Handle):
            made = view(plain(buffer), lambda seen: np.ndarray(shape, dtype, seen, offset, strides, order))
        else:
            held = np.ndarray(shape, dtype, buffer, offset, strides, order)
            made = wrap_host(held) if buffer is None else adopt_host(held, buffer)
        return made if cls is ndarray else make(made, cls, None)

    # -- what it is ----------------------------------------------------------------------------------------------------

    @property
    def __class__(self) -> Any:
        frame = sys._getframe(1)
        return reported_class(type(self), frame) if frame.f_code.co_name in INSISTING else type(self)

    @__class__.setter
    def __class__(self, new: Any) -> None:
        _OWN_CLASS.__set__(self, new)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Data type of the elements."""
        return (
            self._known or (self._layout if self._seen is None else self._seen)
        ).dtype  # of the layout, or what it is found by

    @dtype.setter
    def dtype(self, new: Any) -> None:
        if _ATTRIBUTES_ARE_FIXED:
            warnings.warn(
                "Setting the dtype on a NumPy array has been deprecated in NumPy 2.5.\nInstead of changing the dtype "
                "on an array x, create a new array with x.view(new_dtype)",
                DeprecationWarning,
                stacklevel=2,
            )
        self._set_dtype(new)

    def _set_dtype(self, new: Any) -> None:
        """Let this very array be its view with another dtype; from NumPy 2.5 on users' classes may have their own."""
        self._lie_at(view(self, lambda seen: seen.view(new))._layout)

    @property
    def shape(self) -> tuple[int, ...]:
        """Lengths of the dimensions."""
        return (self._known or (shaped(self) if self._seen is None else self._seen)).shape

    @shape.setter
    def shape(self, new: Any) -> None:
        if _ATTRIBUTES_ARE_FIXED:
            warnings.warn(
                "Setting the shape on a NumPy array has been deprecated in NumPy 2.5.\nAs an alternative, you can "
                "create a new view using np.reshape (with copy=False if needed).",
                DeprecationWarning,
                stacklevel=2,
            )
        self._set_shape(new)

    def _set_shape(self, new: Any) -> None:
        """Let this very array be its view with another shape."""
        target = shape.resolve_shape(self._layout.size, new)
        try:
            reshaped = shape.reshape(self, target, copy_wanted=False)
        except ValueError:
            raise AttributeError(
                "Incompatible shape for in-place modification. Use `.reshape()` to make a copy with the desired shape."
            ) from None
        self._lie_at(reshaped._layout)

    @property
    def strides(self) -> tuple[int, ...]:
        """Bytes from one element to the next, per dimension."""
        return self._layout.strides

    @strides.setter
    def strides(self, new: Any) -> None:
        seen = seen_at(np.empty(layout_of(self._storage).nbytes, np.uint8), self._layout)
        call_as_user(setattr, (seen, "strides", new), {})  # NumPy warns, and looks at the memory there is
        self._lie_at(Layout.at(seen.dtype, seen.shape, seen.strides, self._layout.offset))

    def _lie_at(self, layout: Layout) -> None:
        """Let this very array be another view of its storage."""
        self._held = self._storage
        self._view = base_of(self), is_writeable(self)  # no part at a key any more
        self._known = layout
        self._host = self._seen = None

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return (self._known or (shaped(self, is_counted=False) if self._seen is None else self._seen)).ndim

    @property
    def size(self) -> int:
        """Number of elements."""
        return (self._known or (shaped(self) if self._seen is None else self._seen)).size

    @property
    def itemsize(self) -> int:
        """Bytes per element."""
        return self._layout.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return (self._known or (shaped(self) if self._seen is None else self._seen)).nbytes

    @property
    def base(self) -> Any:
        """The array whose storage this one views, or None."""
        return base_of(self)

    @property
    def flags(self) -> Flags:
        """Contiguity, ownership and writeability."""
        return Flags(self)

    @property
    @viewing_method
    def T(self) -> Any:
        """The transposed view."""
        return moved(self, np.transpose)

    @property
    def mT(self) -> Any:
        """The view with the last two dimensions exchanged."""
        return moved(self, np.matrix_transpose) if self._layout.ndim > 1 else view(self, lambda seen: seen.mT)

    @property
    def real(self) -> Any:
        """The real part: this array itself where it is real."""
        dtype = self._layout.dtype
        if dtype.hasobject:  # those of its elements, where NumPy is that new
            return types.fall_back(operator.attrgetter("real"), (self,), {}, name="ndarray.real")
        return view(self, lambda seen: seen.real) if dtype.kind == "c" else self

    @real.setter
    def real(self, value: Any) -> None:
        view(self, lambda seen: seen.real)[...] = value

    def __len__(self) -> int:
        known = self._known or shaped(self) if self._seen is None else self._known
        if not known:
            return len(self._seen)  # which also says that there are none
        if not known.shape:
            raise TypeError("len() of unsized object")
        return known.shape[0]

    # -- elements ------------------------------------------------------------------------------------------------------

    __getitem__ = elements.getitem
    __setitem__ = elements.setitem
    __iter__ = elements.iterate

    def __contains__(self, value: Any) -> bool:
        return bool((self == value).any())

    # -- NumPy's functions ---------------------------------------------------------------------------------------------

    __array_ufunc__ = numpys_calls.array_ufunc

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return _array_function(func, types, args, kwargs)

    # -- copies and shapes ---------------------------------------------------------------------------------------------

    @copying_method
    def copy(self, order: str = "C") -> Any:
        """Return a copy; see `numpy.ndarray.copy`."""
        return copy(self, order)

    @casting_method
    def astype(
        self,
        dtype: Any,
        order: str = "K",
        casting: str = "unsafe",
        subok: bool = True,  # noqa: ARG002 - results are ndarrays, whatever it says
        copy: Any = True,
    ) -> Any:
        """Return the array cast to `dtype`; see `numpy.ndarray.astype`."""
        if copy is not True and copy is not False:
            np.empty(0).astype("d", copy=copy)  # refuses more than what is no truth value
            copy = bool(copy)
        return astype(self, dtype, order, casting, copy_wanted=copy)

    @viewing_method
    def reshape(self, *shape_: Any, order: str = "C", copy: bool | None = None) -> Any:
        """Return the array with another shape; see `numpy.ndarray.reshape`."""
        if not shape_:
            np.ndarray.reshape(np.empty(0))  # type: ignore[call-overload] # raises
        return shape.reshape(self, shape_[0] if len(shape_) == 1 else shape_, order, copy_wanted=copy)

    @viewing_method
    def ravel(self, order: str = "C") -> Any:
        """Return the elements in one dimension, a view where possible; see `numpy.ndarray.ravel`."""
        return shape.ravel(self, order)

    @copying_method
    def flatten(self, order: str = "C") -> Any:
        """Return a copy in one dimension; see `numpy.ndarray.flatten`."""
        return own(shape.reshape(copy(self), -1)) if order == "C" else copy(shape.ravel(self, order))

    @viewing_method
    def transpose(self, *axes: Any) -> Any:
        """Return the view with dimensions permuted; see `numpy.ndarray.transpose`."""
        return moved(self, np.transpose, *(axes if len(axes) <= 1 else (axes,)))

    def swapaxes(self, axis1: int, axis2: int) -> Any:
        """Return the view with two dimensions exchanged; see `numpy.ndarray.swapaxes`."""
        return moved(self, np.swapaxes, axis1, axis2)

    def squeeze(self, axis: Any = None) -> Any:
        """Return the view without dimensions of length 1; see `numpy.ndarray.squeeze`."""
        stays = 1 not in self._layout.shape if axis is None else type(axis) is tuple and not axis
        return self if stays else moved(self, np.squeeze, axis)

    def view(self, dtype: Any = None, type: Any = None) -> Any:
        """Return a view, with another dtype if given; see `numpy.ndarray.view`."""
        if isinstance(dtype, builtins.type) and issubclass(dtype, _NumpyArray | Handle):
            dtype, type = None, dtype
        if type is None:
            return view_at(self, self._layout) if dtype is None else self._seen_as(dtype)
        if not isinstance(type, builtins.type) or not issubclass(type, _NumpyArray | Handle):
            np.empty(0).view(type=type)  # raises
        if type is not _NumpyArray and issubclass(type, _NumpyArray):
            lent = lend(self)  # which that keeps on the host, where it is read and written
            return lent.view(type) if dtype is None else lent.view(dtype, type)
        seen = view_at(plain(self), self._layout)
        if dtype is not None:
            seen = view(seen, lambda array: array.view(dtype))
        seen._view = (self, is_writeable(seen))
        return make(seen, type, self) if type in SUBCLASSES else seen

    def _seen_as(self, dtype: Any) -> Any:
        """Return a view with another dtype; a user's class that sets dtypes in its own way does so."""
        kind = type(self)
        setter = getattr(kind.__dict__.get("dtype"), "fset", None) if kind in SUBCLASSES else None
        if setter is None:
            return view(self, lambda seen: seen.view(dtype))
        if _ATTRIBUTES_ARE_FIXED and kind._set_dtype is ndarray._set_dtype:
            warnings.warn(
                "numpy.ndarray.view() used a custom `dtype` setter to change the dtype of the view.  Subclasses should "
                "implement `_set_dtype` instead. (Deprecated NumPy 2.5)",
                DeprecationWarning,
                stacklevel=3,
            )
        seen = view_at(self, self._layout)
        setter(seen, np.dtype(dtype))
        return seen

    def fill(self, value: Any) -> None:
        """Set all elements to one value."""
        if type(value) is float:
            self[...] = value
            return
        if not is_writeable(self):
            raise ValueError("assignment destination is read-only")
        if isinstance(value, Handle) and not value._layout.ndim and not self._layout.dtype.hasobject:
            self[...] = value
            return
        if self._layout.dtype.hasobject:  # never anywhere but on the host
            host_view(self).fill(fetch(value) if isinstance(value, Handle) else value)
            return
        element = np.empty(1, self._layout.dtype)
        value = fetch(value) if isinstance(value, Handle) else value
        if casts_silently(value, element.dtype):
            element.fill(value)
        else:
            call_as_user(element.fill, (value,), {})
        self[...] = element[0]

    __hash__ = None  # type: ignore[assignment]


def _finalize(array: Any, source: Any) -> Any:
    """Let a user's class have its say about a new array of its; return the array."""
    hook = type(array).__array_finalize__
    if hook is not None:
        hook(array, source)
    return array


KNOWN.add(ndarray)
buffer.offer(ndarray)
slots.match_like(ndarray, np.ndarray)
describe(ndarray)
OWN_NAME.__set__(ndarray, "numpy.ndarray")  # what Python's messages call it, as NumPy's


def _array_function(function: Any, kinds: Any, args: Any, kwargs: Any) -> Any:
    for name, value, kind in (("args", args, tuple), ("kwargs", kwargs, dict)):
        if not isinstance(value, kind):
            raise TypeError(f"{name} must be a {kind.__name__}.")
    return types.array_function(function, kinds, args, kwargs)


def _begin() -> None:
    """Do what is to be done before the first array is made."""
    host_heap.follow_setting()
    native = importlib.import_module("oxinp._core.native.install")  # late: a program may make no array
    native.follow_setting(ndarray, functions)
    after_registering.append(native.call_more)


inlining.enter_class(ndarray, before_first=_begin)
types.scalar, types.scalar_type, types.scalars = DeviceScalar, ScalarType, SCALARS
types.finalize = _finalize
types.dressed = Dressed = ArrayType("Dressed", (ndarray,), dressed_methods(ndarray))

"""NumPy with one rule broken: what the fuzzer must find.

Each bug is a subclass of `numpy.ndarray`, and a namespace in which every array is one of that class. The bugs are those
that a lazy array library with views is prone to.
"""

import functools
import os
import weakref
from typing import Any

import numpy as np


def _as_class(value: Any, array_type: type) -> Any:
    """Return a result with its arrays of a class; an array that owns its bytes still does."""
    if isinstance(value, (list, tuple)):
        items = [_as_class(item, array_type) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    if type(value) is not np.ndarray:
        return value
    array = value.view(array_type)
    return array.copy(order="K") if value.base is None else array


class Sound(np.ndarray):
    """No bug: the harness itself must not differ from NumPy."""

    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
        if isinstance(array, type(self)):
            return array
        return array[()] if return_scalar else _as_class(array, type(self))

    def __array_function__(self, function: Any, types: Any, arguments: Any, options: Any) -> Any:
        result = super().__array_function__(function, types, arguments, options)
        return _as_class(result, type(self))

    def __setitem__(self, key: Any, value: Any) -> None:
        # Of a subclass without dimensions NumPy takes the number, which may not fit, where it casts its own arrays.
        if isinstance(value, np.ndarray) and not value.ndim:
            value = value.view(np.ndarray)
        super().__setitem__(key, value)

    def __repr__(self) -> str:
        return repr(self.view(np.ndarray))


class CopyingInPlace(Sound):
    """`a += b` makes a new array: other names and views keep the old values."""

    def __iadd__(self, other: Any) -> Any:
        return self + other


class ForwardCopy(Sound):
    """Overlapping assignment runs element by element, without a temporary."""

    def __setitem__(self, key: Any, value: Any) -> None:
        target = np.ndarray.__getitem__(self, key).view(np.ndarray) if _is_basic(key) else None
        if target is None or not isinstance(value, np.ndarray) or not np.shares_memory(target, value):
            np.ndarray.__setitem__(self, key, value)
            return
        source = np.broadcast_to(value.view(np.ndarray), target.shape)
        for i in np.ndindex(target.shape):
            target[i] = source[i]


class CopyingTranspose(Sound):
    """`a.T` is a copy."""

    @property
    def T(self) -> Any:
        return np.ndarray.transpose(self).copy()


class CopyingReverse(Sound):
    """A slice with a negative step is a copy."""

    def __getitem__(self, key: Any) -> Any:
        view = np.ndarray.__getitem__(self, key)
        return view.copy() if isinstance(view, np.ndarray) and min(view.strides, default=0) < 0 else view


class LateReader(Sound):
    """A sum recorded before a partial write reads what was written after."""

    def __add__(self, other: Any) -> Any:
        result = np.ndarray.__add__(self, other)
        if isinstance(result, np.ndarray):
            _READERS.setdefault(id(self), []).append((weakref.ref(self), weakref.ref(result), other))
        return result

    def __setitem__(self, key: Any, value: Any) -> None:
        np.ndarray.__setitem__(self, key, value)
        for operand, result, other in _READERS.pop(id(self), []):
            if operand() is self and result() is not None:
                np.add(self, other, out=result(), casting="unsafe")


_READERS: dict[int, list[tuple[Any, Any, Any]]] = {}


class UnsafeInPlace(Sound):
    """In-place operators cast anything to anything."""

    def __imul__(self, other: Any) -> Any:
        return np.multiply(self, other, out=self, casting="unsafe")


class PositiveZero(Sound):
    """-0.0 becomes 0.0 in a product."""

    def __mul__(self, other: Any) -> Any:
        return np.ndarray.__mul__(self, other) + False


class StrongScalar(Sound):
    """A Python float takes part in promotion as a float64."""

    def __mul__(self, other: Any) -> Any:
        return np.ndarray.__mul__(self, np.float64(other) if type(other) is float else other)


class WrappingInteger(Sound):
    """A Python int that does not fit raises another exception than OverflowError."""

    def __add__(self, other: Any) -> Any:
        if type(other) is int and self.dtype == np.int32 and abs(other) >= 2**31:
            raise ValueError(other)
        return np.ndarray.__add__(self, other)


class NarrowSum(Sound):
    """Sums of int32 stay int32."""

    def sum(self, axis: Any = None, dtype: Any = None, out: Any = None, **options: Any) -> Any:
        return np.ndarray.sum(self, axis, dtype or (self.dtype if self.dtype == np.int32 else None), out, **options)


class NanlessMax(Sound):
    """The maximum skips NaN."""

    def max(self, axis: Any = None, out: Any = None, **options: Any) -> Any:
        return np.fmax.reduce(self, axis=axis, out=out, **options)


class LostWrite(Sound):
    """After 16 element writes the next one goes to a mirror that is never uploaded."""

    def __array_finalize__(self, obj: Any) -> None:
        self.writes = 0

    def __setitem__(self, key: Any, value: Any) -> None:
        self.writes += 1
        if self.writes != 17:
            np.ndarray.__setitem__(self, key, value)


class WritableBroadcast(Sound):
    """Views made by `broadcast_to` can be written, all their elements at once."""

    def __array_finalize__(self, obj: Any) -> None:
        if obj is not None and not obj.flags.writeable and self.base is not None and 0 in self.strides:
            self.flags.writeable = True


class MutableScalar(Sound):
    """An element read without a check is a 0-d view of the array."""

    def __getitem__(self, key: Any) -> Any:
        value = np.ndarray.__getitem__(self, key)
        return value if isinstance(value, np.ndarray) or value.dtype != np.float64 else np.asarray(value)


class WrongAxisOrder(Sound):
    """A reduction over a negative axis of a view takes the wrong one."""

    def sum(self, axis: Any = None, *arguments: Any, **options: Any) -> Any:
        if type(axis) is int and axis < 0 and self.base is not None:
            axis = -axis - 1
        return np.ndarray.sum(self, axis, *arguments, **options)


BUGS = tuple(bug for bug in list(globals().values()) if isinstance(bug, type) and issubclass(bug, Sound))[1:]


class Crashing(Sound):
    """`a *= b` ends the process, as a fault in a driver may."""

    def __imul__(self, other: Any) -> Any:
        os._exit(3)


def _is_basic(key: Any) -> bool:
    keys = key if isinstance(key, tuple) else (key,)
    return all(item is None or item is Ellipsis or isinstance(item, (int, slice)) for item in keys)


# NumPy's own would make a plain view of an array that they return as it is.
PASSING_SUBCLASSES = {
    "asarray": np.asanyarray,
    "array": functools.partial(np.array, subok=True),
    "asfortranarray": functools.partial(np.array, subok=True, copy=None, order="F", ndmin=1),
    "ascontiguousarray": functools.partial(np.array, subok=True, copy=None, order="C", ndmin=1),
}


class Planted:
    """NumPy's namespace, in which every array is of one class.

    Parameters
    ----------
    array_type : type
        Subclass of `numpy.ndarray`.
    """

    def __init__(self, array_type: type) -> None:
        self.ndarray = array_type

    def __getattr__(self, name: str) -> Any:
        attribute = PASSING_SUBCLASSES.get(name) or getattr(np, name)
        return (
            Function(attribute, self.ndarray) if callable(attribute) and not isinstance(attribute, type) else attribute
        )


class Function:
    """One of NumPy's functions, whose arrays are of one class.

    Parameters
    ----------
    function : callable
        NumPy's.
    array_type : type
        Subclass of `numpy.ndarray`.
    """

    def __init__(self, function: Any, array_type: type) -> None:
        self._function = function
        self._array_type = array_type

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        name = getattr(self._function, "__name__", "")
        if name in ("sum", "max") and isinstance(arguments[0], self._array_type):
            # Reductions reach the class's methods, as ours do.
            return getattr(arguments[0], name)(*arguments[1:], **options)
        return _as_class(self._function(*arguments, **options), self._array_type)

    def __getattr__(self, name: str) -> Any:
        return Function(getattr(self._function, name), self._array_type)


# For the command line: `--namespace tests.fuzz.planted:late_reader`.
sound = Planted(Sound)
late_reader = Planted(LateReader)
crashing = Planted(Crashing)

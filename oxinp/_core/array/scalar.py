"""DeviceScalar: what device work returns where NumPy returns a scalar.

It is immutable and lazy, reports NumPy's scalar type as its class, and becomes that scalar for everything but
arithmetic with arrays: so a loop that only feeds scalars back into array expressions never waits for the device.
"""

from __future__ import annotations

import copyreg
import math
import operator
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from oxinp._core.array import buffer
from oxinp._core.array.methods import array_namespace
from oxinp._core.array.slots import forbid_iteration
from oxinp._core.host.foreign import KNOWN
from oxinp._core.lazy.balance import balance
from oxinp._core.lazy.handle import Handle
from oxinp._core.lazy.record import paired
from oxinp._core.lazy.results import types, wrap_pending
from oxinp._core.lazy.scalars import bring, on_host, value_of
from oxinp._core.ufunc.objects import ROWS, UFUNC_OBJECTS

# Types of C of which NumPy has two dtypes of one width, the second ones: `longlong` where `long` has 64 bits.
SECOND = frozenset(
    c for c in np.typecodes["AllInteger"] + np.typecodes["AllFloat"] if np.dtype(np.dtype(c).str).char != c
)

_PYTHONS = frozenset({int, float})
_NUMPYS = frozenset({np.float32, np.float64})
"""NumPy's numbers that arithmetic on real ones is recorded with: it gives what arithmetic on arrays does."""
MAX_RECORDED = 4
"""Pending operations up to which one with such a number is recorded: sums of elements would stay there for good."""


def _is_recorded_with(scalar: Any, other: Any) -> bool:
    """Whether arithmetic on a scalar that is still on the device waits for nothing where the other side is a number."""
    storage, kind = scalar._held or scalar._storage, type(other)
    if storage.host is not None or kind in _PYTHONS:
        return storage.host is None
    if kind not in _NUMPYS or scalar.dtype.kind != "f":
        return False
    value = storage.value
    return value is not None and len(value[0].nodes) <= MAX_RECORDED


def _lazy(name: str, index: int) -> Callable[..., Any]:
    """Arithmetic: recorded if the other side is an array of ours, a number, or a scalar that is still on the device.

    Parameters
    ----------
    name : str
        Of the ufunc.
    index : int
        0 for the plain operator, 1 for the reflected one.
    """
    row = ROWS[name]
    record = UFUNC_OBJECTS[name].methods[index]
    operation = UFUNC_OBJECTS[name].operations[0]
    compute = row.on_host

    def is_of_scalars(self: Any, other: Any) -> bool:
        """Whether NumPy's scalars give another value than its arrays, whose complex products fuse, or another dtype."""
        is_scalar = type(type(other)) is ScalarType
        if self.dtype.char in SECOND or (is_scalar and other.dtype.char in SECOND):
            return is_scalar or not isinstance(other, Handle)
        if self.dtype.kind != "c" or name not in {"multiply", "power"}:
            return False
        return (is_scalar and other.dtype.kind == "c") or (name == "power" and not isinstance(other, Handle))

    def unary(self: Any) -> Any:
        return record(self) if self._storage.host is None else compute(value_of(self))

    def binary(self: Any, other: Any) -> Any:
        if type(other) in _PYTHONS and self._is_plain and (self._held or self._storage).host is None:
            return record(self, other)
        if (  # as `record` does, in fewer steps
            (type(other) is type(self) or type(other) is types.ndarray)
            and self._is_plain
            and (self._held or self._storage).host is (other._held or other._storage).host is None
        ):
            value = paired(operation, *((self, other) if index == 0 else (other, self)))
            if value is not None and value[0].layout.nbytes >= balance.limit:
                return wrap_pending(value)
        if isinstance(other, Handle) or _is_recorded_with(self, other):
            if not is_of_scalars(self, other):
                return record(self, other)
            other = value_of(other) if isinstance(other, Handle) else other
        value = value_of(self)
        return compute(value, other) if index == 0 else compute(other, value)

    return unary if row.numpy.nin == 1 else binary


def _eager(compute: Callable[[Any, Any], Any], *, reflected: bool = False) -> Callable[[Any, Any], Any]:
    def method(self: Any, other: Any) -> Any:
        storage = self._held or self._storage  # `value_of`, spelled out
        if storage.host is None:
            bring(self, storage)
        value = storage.host[()]
        if type(type(other)) is ScalarType:
            other = value_of(other)
        return compute(other, value) if reflected else compute(value, other)

    return method


def _of_value(compute: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def method(self: Any) -> Any:
        return compute(value_of(self))

    return method


if TYPE_CHECKING:
    _Operators = Handle
else:
    # Lazy operators of the ufunc table's rows.
    _Operators = type(
        "_Operators",
        (Handle,),
        {
            "__slots__": (),
            "__module__": "numpy",  # by which some programs (SymPy) tell NumPy's scalars from what is none
            **{
                special: _lazy(name, index)
                for name, row in ROWS.items()
                for index, special in enumerate(row.operators[:2])
                if special and row.numpy.nout == 1
            },
        },
    )


_REFLECTED: dict[np.ufunc, Callable[[Any, Any], Any]] = {
    row.numpy: UFUNC_OBJECTS[name].methods[1]
    for name, row in ROWS.items()
    if row.numpy.nin == 2 and row.numpy.nout == 1 and len(row.operators) > 1 and row.operators[1]
}


def _round(self: Any, ndigits: int | None = None) -> Any:
    return round(value_of(self)) if ndigits is None else round(value_of(self), ndigits)


on_host.update({ROWS[name].lowerings[0]["i"]: ROWS[name].numpy for name in ("add", "subtract", "multiply")})


class ScalarType(type):
    """Makes the classes of device scalars, one per dtype: what programs ask of ``type(s)`` is answered as by NumPy's.

    It equals NumPy's class, and has that one's names and `dtype`; calling it makes NumPy's scalar.
    """

    def __new__(cls, name: str, bases: tuple[type, ...], body: dict[str, Any]) -> Any:
        made: type = super().__new__(cls, name, bases, {"__slots__": (), **body})
        forbid_iteration(made)
        return made

    def __setattr__(cls, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name == "__getitem__":
            classes: list[type] = [cls, *cls.__subclasses__()]
            for each in classes:
                forbid_iteration(each)

    @property
    def __name__(cls) -> str:  # type: ignore[override] # C names the class in messages by what it was made with, which has the module's name
        return cls.__qualname__

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        return cls.dtype.type(*args, **kwargs)  # type: ignore[attr-defined]

    def __eq__(cls, other: object) -> bool:
        return cls is other or (cls is not DeviceScalar and other is cls.dtype.type)  # type: ignore[attr-defined]

    # Not that of NumPy's class: sets of classes, as those of abstract classes are, know the two as two.
    __hash__ = type.__hash__


def _numpys(value: Any) -> Any:
    """Return NumPy's scalar for one of ours, also in a tuple, as outputs come; anything else as it is."""
    if type(value) is tuple:
        return tuple(map(_numpys, value))
    return value_of(value) if type(type(value)) is ScalarType else value


class DeviceScalar(_Operators, metaclass=ScalarType):
    """A scalar whose value is on the device, or still pending there; its class is one below, of its dtype."""

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        return self.dtype.type

    dtype: np.dtype[Any]
    _is_plain: bool  # its arithmetic gives what that on arrays does
    shape = ()
    ndim = 0
    size = 1

    def __getattr__(self, name: str) -> Any:
        return getattr(value_of(self), name)

    def __getitem__(self, key: Any) -> Any:
        return value_of(self)[key]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        return np.array(value_of(self), dtype)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        other = inputs[0]
        if inputs[-1] is self and type(other) in _NUMPYS and method == "__call__" and not kwargs:
            reflected = _REFLECTED.get(ufunc)  # the operator of one of NumPy's numbers is this
            if reflected is not None and self._is_plain and _is_recorded_with(self, other):
                return reflected(self, other.item() if type(other) is self.dtype.type else other)
        if any(type(x) is types.ndarray for x in (*inputs, *kwargs.get("out", ()))):
            return types.array_ufunc(ufunc, method, inputs, kwargs)
        keywords = {name: _numpys(value) for name, value in kwargs.items()}
        return getattr(ufunc, method)(*map(_numpys, inputs), **keywords)

    def __array_function__(self, func: Any, kinds: Any, args: Any, kwargs: Any) -> Any:
        return types.array_function(func, kinds, args, kwargs)

    def __array_namespace__(self, /, *, api_version: str | None = None) -> Any:
        return array_namespace(self, api_version=api_version)

    def __reduce__(self) -> Any:
        return value_of(self).__reduce__()

    def __conform__(self, protocol: Any) -> Any:
        """Return what sqlite3 binds, which is what it makes of NumPy's scalar."""
        return sys.modules["sqlite3"].adapt(value_of(self), protocol, value_of(self))

    __buffer__ = buffer.export

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, memo: Any) -> Any:
        return self

    __repr__ = _of_value(repr)
    __str__ = _of_value(str)
    __hash__ = _of_value(hash)
    __bool__ = _of_value(bool)
    __int__ = _of_value(int)
    __float__ = _of_value(float)

    def __format__(self, spec: str) -> str:
        return format(value_of(self), spec)

    __eq__ = _eager(operator.eq)
    __ne__ = _eager(operator.ne)
    __lt__ = _eager(operator.lt)
    __le__ = _eager(operator.le)
    __gt__ = _eager(operator.gt)
    __ge__ = _eager(operator.ge)
    __divmod__, __rdivmod__ = _eager(divmod), _eager(divmod, reflected=True)
    __pow__, __rpow__ = _eager(operator.pow), _eager(operator.pow, reflected=True)


# What only some of NumPy's classes have, and programs look for.
_OF_SOME = {
    "__complex__": _of_value(complex),
    "__index__": _of_value(operator.index),
    "__trunc__": _of_value(math.trunc),
    "__round__": _round,
}


class _Scalars(dict[type, ScalarType]):
    """NumPy's class of a scalar -> ours of device scalars, made when it is first asked for."""

    def __missing__(self, numpys: type) -> ScalarType:
        own = {name: method for name, method in _OF_SOME.items() if hasattr(numpys, name)}
        dtype = np.dtype(numpys)
        body = own | {"__module__": numpys.__module__, "__qualname__": numpys.__qualname__, "dtype": dtype}
        body["_is_plain"] = dtype.kind != "c" and dtype.char not in SECOND
        made = self.setdefault(numpys, ScalarType(f"{numpys.__module__}.{numpys.__name__}", (DeviceScalar,), body))
        KNOWN.add(made)
        return made


def _reduce_class(kind: Any) -> Any:
    """Pickle the class of the device scalars of a dtype as NumPy's."""
    return getattr, (kind.dtype, "type")


buffer.offer(DeviceScalar)
SCALARS = _Scalars()
copyreg.pickle(ScalarType, _reduce_class)

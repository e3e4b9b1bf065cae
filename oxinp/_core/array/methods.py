"""THE METHOD TABLE: one row per attribute of `numpy.ndarray`, saying who provides it.

``own`` attributes are written in the class `ndarray` or come from the tables of ufuncs and reductions. The rest is made
here, from the row: what NumPy computes on the host (counted as fallback), what is a view, and what says that it does
not exist.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable
from types import FunctionType, GenericAlias
from typing import Any, NamedTuple

import numpy as np

from oxinp._core.array import buffer, dispatch
from oxinp._core.array.flags import setflags
from oxinp._core.array.flat import flatiter
from oxinp._core.array.resizing import resize
from oxinp._core.documentation import ON_THE_HOST, appended, stand_for
from oxinp._core.errors.hearing import of_one
from oxinp._core.host.fallback import NOT_DONE, OUT, Mutated, call, count, on_host, placed_on_host
from oxinp._core.host.sharing import lend
from oxinp._core.host.spellings import with_spelling
from oxinp._core.lazy.explain import REPORTS
from oxinp._core.lazy.handle import is_writeable
from oxinp._core.lazy.results import types, wrap_host
from oxinp._core.lazy.small import in_place_method
from oxinp._core.lazy.views import moved, view
from oxinp._core.memory.dtypes import DEVICE_TYPES
from oxinp._core.memory.storage import is_shared
from oxinp._core.ops import creation
from oxinp._core.subclass import make, plain
from oxinp._core.ufunc.objects import UFUNC_OBJECTS
from oxinp._core.ufunc.table import UFUNCS

OWN = "own"
HOST = "host"
FUNCTION = "function"
VIEW = "view"
REFUSED = "refused"


class MethodRow(NamedTuple):
    """One attribute of `numpy.ndarray`.

    Attributes
    ----------
    name : str
    kind : str
        own, host (through the fallback), function (what NumPy's function of that name is to us), view (no element
        moves) or refused.
    mutates : tuple
        What a host method writes to, self being argument 0 (see `fallback.Mutated`); its `out` by position, since
        methods tell `inspect` nothing.
    counted : str
        What a host method is counted as, if not ``ndarray.<name>``.
    make : callable or None
        () -> the attribute, where it is neither the plain fallback nor own.
    reason : str
        Why it is refused.
    until : str
        The last NumPy version that has it, if any is.
    since : str
        The first one.
    """

    name: str
    kind: str
    mutates: tuple[Mutated, ...] = OUT
    counted: str = ""
    make: Callable[[], Any] | None = None
    reason: str = ""
    since: str = "2.0"
    until: str = ""


def method(row: MethodRow) -> Callable[..., Any]:
    """Return the method of a host row."""
    numpys = getattr(np.ndarray, row.name)
    counted = row.counted or f"ndarray.{row.name}"
    mutates = row.mutates
    call_numpy = of_one(numpys)

    def fall_back(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not args and not kwargs and mutates is OUT and type(self) is types.ndarray:
            count(counted)
            result = on_host(call_numpy, self)
            return placed_on_host(numpys, (self,), {}) if result is NOT_DONE else result
        return call(numpys, (self, *args), kwargs, name=counted, mutates=mutates)

    return _as_numpys(fall_back, row.name)


def function_method(row: MethodRow) -> Callable[..., Any]:
    """Return the method of a function row."""
    numpys = getattr(np, row.name)
    call_numpy = of_one(getattr(np.ndarray, row.name))

    def function(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not (args or kwargs or REPORTS) and type(self) is types.ndarray:
            result = on_host(call_numpy, self)
            if result is not NOT_DONE:
                return result
        return dispatch.functions[numpys](self, *args, **kwargs)

    return _as_numpys(with_spelling(function, getattr(np.ndarray, row.name)), row.name)


def _as_numpys(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    function.__name__ = name
    function.__qualname__ = f"ndarray.{name}"
    function.__doc__ = getattr(np.ndarray, name).__doc__
    return function


# -- what needs more than a row ----------------------------------------------------------------------------------------


def _imag(self: Any) -> Any:
    """Return the imaginary part; see `numpy.ndarray.imag`."""
    if self._layout.dtype.kind == "c":
        return view(self, lambda seen: seen.imag)
    if self._layout.dtype.hasobject:  # those of its elements, where NumPy is that new
        return call(operator.attrgetter("imag"), (self,), {}, name="ndarray.imag")
    layout = self._layout
    made = creation.zeros(layout.shape, layout.dtype, "F" if layout.is_fortran and not layout.is_contiguous else "C")
    setflags(made, write=False)
    return made


def _set_imag(self: Any, value: Any) -> None:
    if self._layout.dtype.kind != "c":
        np.empty((), self._layout.dtype).imag = 0  # NumPy's own error
    view(self, lambda seen: seen.imag)[...] = value


def _clip(self: Any, min: Any = None, max: Any = None, out: Any = None, **kwargs: Any) -> Any:
    """Return the elements, between limits; see `numpy.ndarray.clip`."""
    return dispatch.functions[np.clip](self, min, max, out, **kwargs)


def _choose(self: Any, *choices: Any, out: Any = None, mode: Any = "raise") -> Any:
    """Return elements of the arrays that the elements number; see `numpy.ndarray.choose`."""
    return dispatch.functions[np.choose](self, choices[0] if len(choices) == 1 else choices, out=out, mode=mode)


def _compress(self: Any, condition: Any, axis: Any = None, out: Any = None) -> Any:
    """Return the elements that a condition chooses along an axis; see `numpy.ndarray.compress`."""
    return dispatch.functions[np.compress](condition, self, axis, out)


def _flat(self: Any) -> Any:
    """An iterator over the elements, which are kept on the host as long as it is there; see `numpy.ndarray.flat`."""
    return flatiter(self)


def _set_flat(self: Any, value: Any) -> None:
    call(_assign_flat, (self, value), {}, name="ndarray.flat", mutates=(0,))


def _assign_flat(array: Any, value: Any) -> None:
    array.flat = value


def _data(self: Any) -> Any:
    """Return a buffer of the elements, which are kept on the host as long as it is there; see `numpy.ndarray.data`."""
    return lend(self).data


def _ctypes(self: Any) -> Any:
    """Return the elements' address for `ctypes`; from then on they stay on the host; see `numpy.ndarray.ctypes`."""
    if is_shared(self._storage):
        raise BufferError("this array's memory is on the device, shared with another library; copy the array")
    return lend(self, forever=True).ctypes


def _diagonal(self: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    """Return a read-only view of a diagonal; see `numpy.ndarray.diagonal`."""
    return moved(self, np.diagonal, offset, axis1, axis2)


def _getfield(self: Any, dtype: Any, offset: int = 0) -> Any:
    """Return a view of part of every element; see `numpy.ndarray.getfield`."""
    return view(self, lambda seen: seen.getfield(dtype, offset))


def _conjugate(self: Any, *args: Any) -> Any:
    """Return the complex conjugate, the array itself where it is real; see `numpy.ndarray.conjugate`."""
    kind = self._layout.dtype.kind
    if not args and kind in "biuf":
        return self
    if kind == "c":
        return UFUNC_OBJECTS["conjugate"](self, *args)
    return call(np.ndarray.conjugate, (self, *args), {}, name="conjugate", mutates=(1,))


def _to_device(self: Any, device: str, /, *, stream: Any = None) -> Any:
    """Return the array itself; "cpu", NumPy's name for its only device, is the only one there is."""
    np.empty(0).to_device(device, stream=stream)  # type: ignore[arg-type] # NumPy's own errors
    return self


def array_namespace(self: Any, /, *, api_version: str | None = None) -> Any:  # noqa: ARG001 - a method
    """Return the namespace of the array API standard's functions, `oxinp.array_api`."""
    namespace = sys.modules["oxinp"].array_api
    if api_version != namespace.__array_api_version__:
        np.empty(0).__array_namespace__(api_version=api_version)  # type: ignore[arg-type] # NumPy's own errors
    return namespace


def _array_wrap(self: Any, array: Any, context: Any = None, return_scalar: bool = False) -> Any:  # noqa: ARG001
    """Return a NumPy array as ours, or another one of ours in this one's class; see `numpy.ndarray.__array_wrap__`."""
    ours = types.from_host(array) if isinstance(array, np.ndarray) else plain(array)
    if type(self) is types.ndarray:
        return ours[()] if return_scalar and not ours._layout.shape else ours
    return make(view(ours, lambda seen: seen[...]) if ours is array else ours, type(self), self)


def _setstate(self: Any, state: Any) -> None:
    """Become what NumPy pickled; see `numpy.ndarray.__setstate__`."""
    held = np.empty(0)
    held.__setstate__(state)
    made = wrap_host(held)
    self._held, self._known, self._view = made._storage, made._layout, None
    self._host = self._seen = None


def _array_finalize(self: Any, obj: Any, /) -> None:
    """Do nothing: what users' classes inherit; see `numpy.ndarray.__array_finalize__`."""


def _class_getitem(kind: type, item: Any, /) -> GenericAlias:
    """Return a parametrized class for annotations; see `numpy.ndarray.__class_getitem__`."""
    np.ndarray.__class_getitem__(item)  # NumPy's own errors
    return GenericAlias(kind, item)


def _delitem(self: Any, key: Any) -> None:  # noqa: ARG001 - a method
    raise ValueError("cannot delete array elements")


def _sizeof(self: Any) -> int:
    """Return the bytes of the handle, and those of the elements if it owns them."""
    return object.__sizeof__(self) + (self._layout.nbytes if self._view is None else 0)


def _refused(row: MethodRow) -> Any:
    """Return an attribute that is not there, and says why."""

    def absent(self: Any) -> Any:  # noqa: ARG001 - a property
        raise AttributeError(f"oxinp arrays have no attribute {row.name!r}: {row.reason}")

    return property(absent)


def in_place(name: str) -> Callable[..., Any]:
    """Return the method that gives an array the elements that NumPy's function of that name returns."""
    numpys = getattr(np.ndarray, name)
    function = getattr(np, name)

    def method_of(self: Any, *args: Any, **kwargs: Any) -> None:
        is_open = is_writeable(self)
        axis = kwargs.get("axis", args[name == "partition"] if len(args) > (name == "partition") else -1)
        if type(self) is types.ndarray and is_open and axis is not None and self._layout.dtype in DEVICE_TYPES:
            result = dispatch.functions[function](self, *args, **kwargs)
            if type(result) is types.ndarray:
                self[...] = result
                return
        call(numpys, (self, *args), kwargs, name=f"ndarray.{name}", mutates=(0,))

    return _as_numpys(in_place_method(method_of, numpys), name)


# -- the table ---------------------------------------------------------------------------------------------------------


def _own(names: str) -> list[MethodRow]:
    return [MethodRow(name, OWN) for name in names.split()]


def _host(names: str, *mutates: Mutated) -> list[MethodRow]:
    return [MethodRow(name, HOST, (*mutates, *OUT) if mutates else OUT) for name in names.split()]


def _made(name: str, kind: str, attribute: Any, **more: Any) -> MethodRow:
    return MethodRow(name, kind, make=lambda: attribute, **more)


_FUNCTIONS = "argpartition argsort dot nonzero repeat round searchsorted take trace"

ROWS: tuple[MethodRow, ...] = (
    *_own("T mT base dtype flags itemsize nbytes ndim real shape size strides"),
    *_own("__array__ __array_function__ __array_priority__ __array_ufunc__ __bool__ __complex__ __contains__ __copy__"),
    *_own("__deepcopy__ __doc__ __float__ __format__ __getitem__ __hash__ __index__ __int__ __iter__ __len__ __new__"),
    *_own("__reduce__ __repr__ __setitem__ __str__ astype copy fill flatten item ravel reshape squeeze swapaxes"),
    *_own("tolist transpose view"),
    *_own("__imatmul__ __matmul__ __rmatmul__"),
    *_own(" ".join(special for row in UFUNCS for special in row.operators)),
    *_own("all any argmax argmin cumprod cumsum max mean min prod std sum var"),
    _made("choose", FUNCTION, _choose),
    _made("compress", FUNCTION, _compress),
    *_host("dump dumps tobytes tofile"),
    *_host("setfield", 0),
    MethodRow("put", FUNCTION),
    _made("sort", FUNCTION, in_place("sort")),
    _made("partition", FUNCTION, in_place("partition")),
    MethodRow("byteswap", HOST, ((0, "inplace", True),)),
    *[MethodRow(name, FUNCTION) for name in _FUNCTIONS.split()],
    _made("clip", FUNCTION, _clip),
    _made("imag", VIEW, property(_imag, _set_imag)),
    _made("flat", HOST, property(_flat, _set_flat)),
    _made("data", HOST, property(_data)),
    _made("ctypes", HOST, property(_ctypes)),
    _made("conj", HOST, _conjugate),
    _made("conjugate", HOST, _conjugate),
    _made("resize", HOST, resize),
    _made("__dlpack__", HOST, buffer.dlpack),
    _made("__dlpack_device__", HOST, buffer.dlpack_device),
    _made("__setstate__", HOST, _setstate),
    _made("diagonal", VIEW, _diagonal),
    _made("getfield", VIEW, _getfield),
    _made("setflags", VIEW, setflags),
    _made("device", VIEW, property(lambda self: "cpu")),  # noqa: ARG005 - what NumPy says
    _made("to_device", VIEW, _to_device),
    _made("__array_namespace__", VIEW, array_namespace),
    _made("__array_wrap__", VIEW, _array_wrap),
    _made("__array_finalize__", VIEW, _array_finalize),
    _made("__delitem__", VIEW, _delitem),
    _made("__sizeof__", VIEW, _sizeof),
    _made("__class_getitem__", VIEW, classmethod(_class_getitem)),
    _made("__array_interface__", HOST, property(buffer.array_interface)),
    _made("__array_struct__", HOST, property(buffer.array_struct)),
    _made("__buffer__", HOST, buffer.export, since="2.0" if buffer.HAS_PROTOCOL else "2.5"),
    MethodRow("_set_dtype", OWN, since="2.5"),
    MethodRow("_set_shape", OWN, since="2.5"),
    MethodRow("tostring", HOST, until="2.2"),
    MethodRow("itemset", REFUSED, reason="NumPy 2.0 removed it; use x[index] = value", until="2.3"),
    MethodRow("newbyteorder", REFUSED, reason="NumPy 2.0 removed it; use x.view(dtype)", until="2.3"),
    MethodRow("ptp", REFUSED, reason="NumPy 2.0 removed it; use numpy.ptp(x)", until="2.3"),
)


def array_methods() -> dict[str, Any]:
    """Return the attributes of all rows that are not own and that this NumPy has, by name, for the class body."""
    attributes = {}
    for row in ROWS:
        if row.kind == OWN or not hasattr(np.ndarray, row.name):
            continue
        if row.kind == REFUSED:
            if not row.name.startswith("_"):
                attributes[row.name] = _refused(row)
        elif row.make is not None:
            attributes[row.name] = row.make()
        elif row.kind == FUNCTION:
            attributes[row.name] = function_method(row)
        else:
            attributes[row.name] = method(row)
    return attributes


_SAID = {
    HOST: ON_THE_HOST,
    FUNCTION: "Computed as the function of that name is; see `oxinp.{}`.",
    VIEW: "No element is read.",
    OWN: "",
}


def _refuse_to_set(name: str) -> Callable[[Any, Any], None]:
    def refuse(self: Any, value: Any) -> None:  # noqa: ARG001 - a property
        setattr(np.empty(0), name, value)  # NumPy's own error

    return refuse


def describe(array: type) -> None:
    """Give the methods and attributes of an array class NumPy's documentation, with ours after it, and signatures."""
    stand_for(
        array,
        np.ndarray,
        "The elements lie on the host or on the device, and are computed when they are needed; only the clock tells. "
        "`oxinp.explain` says where an operation ran and why.",
    )
    for row in ROWS:
        numpys = getattr(np.ndarray, row.name, None)
        ours = next((vars(kind)[row.name] for kind in array.__mro__ if row.name in vars(kind)), None)
        if isinstance(ours, FunctionType):
            ours.__wrapped__ = numpys  # type: ignore[attr-defined] # whose signature it has
            ours.__module__ = "oxinp"
        elif not isinstance(ours, property):
            continue
        elif ours.fset is None:
            ours = property(ours.fget, _refuse_to_set(row.name))
            setattr(array, row.name, ours)
        said = "" if row.kind == HOST and row.make is not None else _SAID.get(row.kind, row.reason)
        ours.__doc__ = appended(numpys.__doc__, *filter(None, [said.format(row.name)]))

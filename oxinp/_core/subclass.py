"""Users' classes that inherit from `ndarray`: what is computed from them is of their class again, as in NumPy.

Arrays that are plain pay nothing: `ArrayType` puts `Dressed`, whose methods dress what those of `ndarray` return,
between a user's class and `ndarray`, and functions ask for users' classes only if there are any.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from oxinp._core.host.foreign import methods_asked
from oxinp._core.lazy.handle import Handle, base_of, is_writeable
from oxinp._core.lazy.results import is_device_scalar, types
from oxinp._core.lazy.views import view_at

_new = object.__new__

SUBCLASSES: set[type] = set()
"""Every class of a user's."""

# THE TABLE OF EXCEPTIONS. Functions of NumPy's whose results are plain arrays unless `subok=True` says otherwise, and
# those that give an array of the user's class where others give a scalar.
_PLAIN_RESULTS = set(
    map(
        np.__dict__.get,
        """
        append argwhere array asarray ascontiguousarray asfortranarray bincount block broadcast_arrays broadcast_to
        column_stack concatenate convolve copy correlate cov corrcoef cross digitize dstack einsum flatnonzero histogram
        histogram2d hstack interp isin lexsort nonzero outer pad polyfit ravel_multi_index searchsorted select
        stack tensordot tril triu unravel_index unwrap vstack where
        """.split(),  # noqa: SIM905 - readable as it is
    )
) | {np.lib.stride_tricks.as_strided, np.lib.stride_tricks.sliding_window_view}
_ARRAY_RESULTS = set(
    map(
        np.__dict__.get,
        """
        all amax amin any average fix max mean median min nanmax nanmean nanmedian nanmin nanprod nanstd nansum nanvar
        prod ptp std sum var
        """.split(),  # noqa: SIM905 - readable as it is
    )
)

# Those that write elements as text, which they ask the class for.
_READ_ELEMENTS = {np.array2string, np.array_repr, np.array_str}

# Those of which only the first argument's class counts: the others are indices, counts and the like.
_LED_BY_FIRST = set(
    map(
        np.__dict__.get,
        """
        array_split delete diff insert nanpercentile nanquantile percentile piecewise quantile repeat roll split take
        take_along_axis tile
        """.split(),  # noqa: SIM905 - readable as it is
    )
)

# Those of which each result is of one argument, whose class it gets.
_OF_EACH = {np.atleast_1d, np.atleast_2d, np.atleast_3d, np.broadcast_arrays, np.ix_, np.meshgrid}


def make(array: Any, kind: type, source: Any) -> Any:
    """Return an array of a user's class in place of a plain one that nobody else holds, finalised."""
    made: Any = _new(kind)
    made._known = array._layout  # for it is never one of those that are known to be few
    made._held = array._storage
    made._view = None if array._view is None else (base_of(array), is_writeable(array))
    made._host, made._seen = array._host, array._seen
    return types.finalize(made, source)


def plain(value: Any) -> Any:
    """Return a plain view of an instance of a user's class; anything else as it is."""
    if type(value) not in SUBCLASSES:
        return value
    view = _new(types.ndarray)
    view._known = value._known
    view._held = value._storage
    view._host, view._seen = value._host, value._seen
    view._view = (value, is_writeable(value))
    return view


def leader(values: Iterable[Any]) -> Any:
    """Return the value whose class results get: the first one of the highest priority of users' classes, or None."""
    found = None
    for value in values:
        if type(value) in SUBCLASSES and (found is None or value.__array_priority__ > found.__array_priority__):
            found = value
    return found


class Undressing:
    """The arguments of one call without users' classes, and its results with them."""

    __slots__ = ("_context", "_originals", "leader")

    def __init__(self, first: Any, context: tuple[Any, tuple[Any, ...]] | None = None) -> None:
        self.leader = first
        self._context = context
        self._originals: dict[int, tuple[Any, Any]] = {}

    def undress(self, value: Any) -> Any:
        """Return a value with plain arrays for those of users' classes, also in lists, tuples and dicts."""
        if type(value) in (list, tuple):
            parts = [self.undress(part) for part in value]
            return type(value)(parts) if any(a is not b for a, b in zip(parts, value, strict=True)) else value
        if type(value) is dict:
            return {key: self.undress(part) for key, part in value.items()}
        undressed = plain(value)
        if isinstance(value, Handle):
            self._originals[id(undressed)] = undressed, value
        return undressed

    def dress(self, result: Any, place: int = 0, *, is_plain: bool = False, is_ufunc: bool = False) -> Any:
        """Return a result of the leader's class, or the very argument that it is."""
        if type(result) in (list, tuple):
            parts = [self.dress(part, i, is_plain=is_plain, is_ufunc=is_ufunc) for i, part in enumerate(result)]
            return type(result)(parts)
        if isinstance(result, Handle) and self._originals and result._layout.dtype.char == "O":
            self._put_back(result)
        original = self._originals.get(id(result))
        context = None if self._context is None else (*self._context, place)
        if original is not None and (not is_plain or original[0] is original[1]):
            given = original[1]
            if context is not None and type(given) in SUBCLASSES and overrides(type(given), "__array_wrap__"):
                return given.__array_wrap__(given, context, False)
            return given
        return result if is_plain else dressed(result, self.leader, context, is_ufunc=is_ufunc)

    def dress_each(self, results: Any, sources: Iterable[Any], *, is_plain: bool) -> Any:
        """Return results of which each gets the class of what it was made of."""
        made = []
        for result, self.leader in zip(results, sources, strict=True):
            made.append(self.dress(result, is_plain=is_plain or type(self.leader) not in SUBCLASSES))
        return type(results)(made)

    def _put_back(self, array: Any) -> None:
        """Let an array of objects hold what was given, not what stood for it."""
        for i, element in enumerate(flat := np.asarray(array).flat):
            if id(element) in self._originals:
                flat[i] = self._originals[id(element)][1]


def dressed(result: Any, source: Any, context: Any = None, *, is_ufunc: bool = False) -> Any:
    """Return a result in the class of `source`, if it is an array or, of a ufunc, a scalar.

    `context`, where it is known, is the ufunc, its arguments and the result's place: what `__array_wrap__` is told.
    """
    if is_ufunc and is_device_scalar(result):
        result = make(result, types.ndarray, None)  # still pending, if it is
    elif is_ufunc and isinstance(result, np.generic):
        result = types.from_host(np.asarray(result))
    if type(result) is not types.ndarray:
        return result
    wrap = type(source).__array_wrap__
    if is_ufunc and wrap is not types.ndarray.__array_wrap__:
        return source.__array_wrap__(result, context, False)
    return make(result, type(source), source)


def overrides(kind: type, name: str) -> bool:
    """Whether a user's class has a method of its own."""
    inherited = types.dressed if name in types.dressed.__dict__ else types.ndarray
    return getattr(kind, name) is not getattr(inherited, name)


def _asks_method(function: Callable[..., Any], args: tuple[Any, ...]) -> bool:
    """Whether a function of NumPy's calls a method of its argument that a user's class has changed."""
    kind = type(args[0]) if args else object
    if kind not in SUBCLASSES:
        return False
    names = methods_asked(function) if function not in _READ_ELEMENTS else ("__getitem__",)
    return bool(names) and (overrides(kind, "__array_ufunc__") or any(overrides(kind, name) for name in names))


def call_function(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a function of NumPy's for arguments that may be of users' classes; NotImplemented if none is."""
    values = [*args, *kwargs.values()]
    first = leader([part for value in values for part in (value if type(value) in (list, tuple) else (value,))])
    if first is None:
        return NotImplemented
    if overrides(type(first), "__array_function__"):
        return function(*args, **kwargs)  # NumPy asks it
    return types.array_function(function, (type(first),), args, kwargs)


def compute(
    function: Callable[..., Any], computed: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Do what `function` of NumPy's does by `computed`, on plain arrays; NotImplemented if no class is a user's."""
    values = [*args, *kwargs.values()]
    first = leader([part for value in values for part in (value if type(value) in (list, tuple) else (value,))])
    if first is None:
        return NotImplemented
    if _asks_method(function, args):
        return inspect.unwrap(function)(*args, **kwargs)
    outs = kwargs.get("out")
    outs = outs if type(outs) is tuple else (outs,)
    given = (*args, *(() if all(out is None for out in outs) else outs))
    call = Undressing(first, (types.find(function) or function, given) if isinstance(function, np.ufunc) else None)
    result = computed(*map(call.undress, args), **call.undress(kwargs))
    is_ufunc = isinstance(function, np.ufunc) or function in _ARRAY_RESULTS
    is_plain = not kwargs.get("subok", function not in _PLAIN_RESULTS and not _is_led_by_plain(function, args))
    if function is np.require:
        wishes = inspect.signature(np.require).bind(*args, **kwargs).arguments.get("requirements") or ()
        is_plain = not {"E", "ENSUREARRAY"}.isdisjoint(str(wish).upper() for wish in wishes)
    if function in _OF_EACH and type(result) in (list, tuple):
        return call.dress_each(result, args, is_plain=is_plain)
    return call.dress(result, is_plain=is_plain, is_ufunc=is_ufunc)


def _is_led_by_plain(function: Callable[..., Any], args: tuple[Any, ...]) -> bool:
    """Whether a function's results have the class of its first argument, which is no user's."""
    return bool(args) and isinstance(args[0], Handle) and type(args[0]) not in SUBCLASSES and function in _LED_BY_FIRST


# -- what users' classes inherit ---------------------------------------------------------------------------------------

_UNARY = "neg pos abs invert"
_BINARY = "add sub mul truediv floordiv mod divmod pow matmul and or xor lshift rshift"
_OPERATORS = [
    *(f"__{name}__" for name in f"{_UNARY} {_BINARY} eq ne lt le gt ge".split()),
    *(f"__{prefix}{name}__" for name in _BINARY.split() for prefix in "ri" if prefix + name != "idivmod"),
]
_REDUCTIONS = ["sum", "prod", "mean", "std", "var", "min", "max", "any", "all"]
# Methods that NumPy computes by ufuncs, which ask a class for `__array_ufunc__` -> a function of the array and the
# method's arguments that does so; packages above enter theirs.
by_ufuncs: dict[str, Callable[..., Any]] = {}
_METHODS = """
argmax argmin argpartition argsort byteswap choose clip compress conj conjugate copy cumprod cumsum diagonal dot
flatten ravel repeat reshape round squeeze take trace __copy__ __deepcopy__
""".split()  # noqa: SIM905


def _operator(name: str, base: Callable[..., Any]) -> Callable[..., Any]:
    numpys = getattr(NDArrayOperatorsMixin, name, None)

    def operate(self: Any, *other: Any) -> Any:
        first = leader((self, *other))
        if numpys is not None and any(
            overrides(type(x), "__array_ufunc__") for x in (self, *other) if type(x) in SUBCLASSES
        ):
            return numpys(self, *other)  # by way of NumPy's ufunc, which asks them
        result = base(self, *map(plain, other))
        return result if result is self or result is NotImplemented else _each(result, first, is_ufunc=True)

    return operate


def _method(name: str, base: Callable[..., Any], *, is_ufunc: bool = False) -> Callable[..., Any]:
    def dress(self: Any, *args: Any, **kwargs: Any) -> Any:
        if name in by_ufuncs and overrides(type(self), "__array_ufunc__"):
            return by_ufuncs[name](self, *args, **kwargs)
        result = base(self, *args, **kwargs)
        given = (*args, *kwargs.values())
        return result if any(result is value for value in given) else _each(result, self, is_ufunc=is_ufunc)

    return dress


def _cast(base: Callable[..., Any]) -> Callable[..., Any]:
    def astype(
        self: Any, dtype: Any, order: Any = "K", casting: Any = "unsafe", subok: bool = True, copy: Any = True
    ) -> Any:
        if not subok:  # a plain array, and so a new one
            return base(self, dtype, order, casting)
        result = base(self, dtype, order, casting, subok, copy)
        return result if result is self else dressed(result, self)

    return astype


def _select(base: Callable[..., Any]) -> Callable[..., Any]:
    def part(self: Any, key: Any) -> Any:
        found = base(self, key)
        if type(found) is not types.ndarray:
            return found
        if found._storage is not self._storage and self._layout.dtype.hasobject and _is_of_element(self, key):
            return found  # an object like any other
        if found._view is None:  # of an advanced key: the class's array is a view of a plain one
            found._view = (None, True)
            found = view_at(found, found._layout)
        return make(found, type(self), self)

    return part


def _is_of_element(array: Any, key: Any) -> bool:
    places = key if type(key) is tuple else (key,)
    return len(places) == array.ndim and all(isinstance(place, int | np.integer) for place in places)


def _part_of_complex(name: str, base: Any) -> property:
    def part(self: Any) -> Any:
        found = getattr(base, name).fget(self)
        return found if found is self else dressed(found, self, is_ufunc=self._layout.dtype.hasobject)

    return property(part, getattr(base, name).fset, doc=getattr(base, name).__doc__)


def _each(result: Any, source: Any, *, is_ufunc: bool) -> Any:
    if type(result) is tuple:
        return tuple(dressed(part, source, is_ufunc=is_ufunc) for part in result)
    return dressed(result, source, is_ufunc=is_ufunc)


def _reduce(self: Any) -> Any:
    """Return what `numpy.ndarray.__reduce__` does, whose state `__setstate__` takes."""
    reduced: Any = np.asarray(self).__reduce__()
    return _reconstruct, (type(self), *reduced[1][1:]), reduced[2]


def _reconstruct(kind: Any, shape: Any, code: Any) -> Any:
    return types.ndarray.__new__(kind, shape, code)


def dressed_methods(base: Any) -> dict[str, Any]:
    """Return the body of the class between `ndarray` and users' classes."""
    body: dict[str, Any] = {"__slots__": (), "__reduce__": _reduce, "__hash__": None}
    groups = (
        {name: _operator(name, getattr(base, name)) for name in _OPERATORS},
        {name: _method(name, getattr(base, name), is_ufunc=True) for name in _REDUCTIONS},
        {name: _method(name, getattr(base, name)) for name in _METHODS},
        {"astype": _cast(base.astype), "__getitem__": _select(base.__getitem__)},
    )
    body |= {name: _part_of_complex(name, base) for name in ("real", "imag")}
    for methods in groups:
        for name, method in methods.items():
            numpys = getattr(base, name)
            method.__name__, method.__qualname__, method.__doc__ = name, f"ndarray.{name}", numpys.__doc__
            body[name] = method
    return body

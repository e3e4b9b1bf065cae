"""The registry of functions, and NumPy's functions called on our arrays: NEP 13 and NEP 18.

Functions, ufuncs and classes of NumPy's and SciPy's are keyed by their object (SciPy has a `cbrt` of its own), and the
layers above `register` ours for them. `__array_ufunc__` and `__array_function__` look there, and so does what makes the
names of our modules. What is not registered NumPy computes on the host.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import sys
from collections.abc import Callable, Iterable
from math import inf
from typing import Any

import numpy as np

from oxinp._core.errors.hearing import of_one
from oxinp._core.host.exchange import PLAIN, StandIns, Unread, holds_arrays, is_array
from oxinp._core.host.fallback import (
    NOT_DONE,
    OUT,
    Mutated,
    call,
    name_of,
    on_host,
    on_hosts,
    placed_on_host,
    positions,
)
from oxinp._core.host.foreign import (
    KNOWN,
    are_known,
    dispatched_by,
    dispatches,
    foreigners,
    is_left_to_numpy,
    is_wrapped,
    knows_ours,
)
from oxinp._core.host.leaner import FIRST, NUMERICAL
from oxinp._core.host.spellings import with_spelling
from oxinp._core.host.weights import WEIGHTS
from oxinp._core.lazy.explain import REPORTS
from oxinp._core.lazy.expr import Placed, Unsupported
from oxinp._core.lazy.handle import Handle
from oxinp._core.lazy.results import types
from oxinp._core.lazy.small import viewing_function
from oxinp._core.lazy.views import part_views, row_view
from oxinp._core.memory.view_functions import VIEWS
from oxinp._core.ops.gufuncs import GUFUNC_OBJECTS, GUFUNCS
from oxinp._core.subclass import SUBCLASSES, call_function, compute
from oxinp._core.ufunc.objects import ROWS, UFUNC_OBJECTS

Function = Callable[..., Any]

# THE REGISTRY. Function or class of NumPy's or SciPy's -> ours, which takes the same arguments ...
functions: dict[Any, Function] = {}
# ... and ufunc -> ours.
ufuncs: dict[Any, Any] = {
    **{row.numpy: UFUNC_OBJECTS[name] for name, row in ROWS.items()},
    **{row.numpy: GUFUNC_OBJECTS[name] for name, row in GUFUNCS.items()},
}
# Function without one of ours -> the arguments it writes to, beside `out`, and the name it is counted by.
mutates: dict[Any, tuple[Mutated, ...]] = {}
names: dict[Any, str] = {}
# Module of NumPy's or SciPy's -> the module of ours that registers what it has for its functions when it is imported.
homes: dict[str, str] = {}
# Called when a module has registered what it has.
after_registering: list[Callable[[], object]] = []

MAX_ARGUMENTS = 32  # of a call
_METHODS_THAT_WRITE: dict[str, tuple[Mutated, ...]] = {"at": (0,)}


def register(theirs: Any, ours: Any) -> Any:
    """Enter ours for a function, ufunc or class of NumPy's or SciPy's; return it, or what was entered before it.

    Parameters
    ----------
    theirs : callable
        The object itself, whatever names it has.
    ours : callable
        Takes the same arguments.
    """
    table = ufuncs if isinstance(theirs, np.ufunc) else functions
    return table.setdefault(theirs, ours)


def find(theirs: Any) -> Any:
    """Return ours for a function or ufunc, None without; the module of ours that registers it is imported first."""
    is_ufunc = isinstance(theirs, np.ufunc)
    table = ufuncs if is_ufunc else functions
    ours = table.get(theirs)
    if ours is not None:
        return ours
    home = homes.get(_module_of_ufunc(theirs) if is_ufunc else getattr(theirs, "__module__", ""))
    if home is not None and (is_ufunc or home not in sys.modules):
        module = importlib.import_module(home)
        return getattr(module, theirs.__name__) if is_ufunc else table.get(theirs)
    return None


def _module_of_ufunc(theirs: np.ufunc) -> str:
    """Return the module that a ufunc, which does not say, is found in."""
    loaded = (name for name in homes if name in sys.modules)
    return next((name for name in loaded if getattr(sys.modules[name], theirs.__name__, None) is theirs), "")


def array_ufunc(ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Compute a ufunc, or a method of one, that NumPy was called for; what `__array_ufunc__` returns.

    Other classes with a say of their own are asked first; if none of them knows our arrays, they get NumPy's.
    """
    out = kwargs.get("out", ())
    others = [x for x in (*inputs, *out, kwargs.get("where")) if not _is_known(type(x))]
    for x in others:
        result = type(x).__array_ufunc__(x, ufunc, method, *inputs, **kwargs)
        if result is not NotImplemented:
            return result
    if others:
        return _by_numpy(ufunc, method, inputs, kwargs)
    if SUBCLASSES:

        def computed(*inputs: Any, **kwargs: Any) -> Any:
            return array_ufunc(ufunc, method, inputs, kwargs)

        given = {key: value if key != "out" or len(value) > 1 else value[0] for key, value in kwargs.items()}
        result = compute(ufunc, lambda *inputs, **kwargs: computed(*inputs, **_with_outputs(kwargs)), inputs, given)
        if result is not NotImplemented:
            return result
    ours = find(ufunc)
    is_ours = ours is not None and method != "at" and not any(map(is_wrapped, (*inputs, kwargs.get("where"))))
    if is_ours and all(isinstance(x, Handle) for x in out):
        return (ours if method == "__call__" else getattr(ours, method))(*inputs, **kwargs)
    return _by_numpy(ufunc, method, inputs, kwargs)


def _by_numpy(ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    ours = find(ufunc)
    function = ufunc if method == "__call__" else getattr(ufunc, method)
    name = getattr(ours, "counted_name", ufunc.__name__)
    name = name if method == "__call__" else f"{name}.{method}"
    return call(function, inputs, kwargs, name=name, mutates=_METHODS_THAT_WRITE.get(method, OUT))


def array_function(function: Function, kinds: Iterable[type], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Compute a function of NumPy's that was called with arrays of ours; what `__array_function__` returns.

    Other classes with a say of their own are asked first; if none of them knows our arrays, they get NumPy's.
    """
    given = (*args, *kwargs.values())
    others = [] if KNOWN.issuperset(map(type, given)) else foreigners(given)
    for x in others:
        ask = dispatched_by(x)
        if ask is not None and type(x) in kinds:
            result = ask(x, function, kinds, args, kwargs)
            if result is not NotImplemented:
                return result
    if not {*map(type, others)}.issuperset(kind for kind in kinds if not issubclass(kind, Handle | np.ndarray)):
        return NotImplemented  # what is hidden in other ways than these has to be asked by NumPy
    if SUBCLASSES:
        kinds = (Handle,)
        result = compute(function, lambda *args, **kwargs: array_function(function, kinds, args, kwargs), args, kwargs)
        if result is not NotImplemented:
            return result
    ours = find(function)
    if ours is not None and not (any(map(dispatched_by, others)) or is_left_to_numpy(function, others, args, kwargs)):
        return ours(*args, **kwargs)
    name = names.get(function) or name_of(function)
    return call(function, args, kwargs, name=name, mutates=mutates.get(function, OUT))


def _with_outputs(kwargs: dict[str, Any]) -> dict[str, Any]:
    if "out" in kwargs and type(kwargs["out"]) is not tuple:
        kwargs["out"] = (kwargs["out"],)
    return kwargs


_NUMPYS = (None, np.ndarray.__array_ufunc__)


def _is_known(kind: type) -> bool:
    """Whether a class leaves ufuncs to us: it is ours or NumPy's, or says nothing about them."""
    return issubclass(kind, Handle) or getattr(kind, "__array_ufunc__", None) in _NUMPYS


_EXTENTS = frozenset({"M", "N", "m", "n", "num", "reps"})
"""Names of arguments that say how large a result is, by which few programs give them."""
_MAKING = {"array", "eye", "full_like", "identity", "linspace", "pad", "repeat", "tile"}
"""Functions of which numbers alone may make large arrays, or which say by themselves what they make of lists."""


def with_fallback(
    function: Function,
    numpy_function: Function,
    name: str,
    *,
    is_hosted: bool = True,
    most: Callable[[tuple[Any, ...]], float] | None = None,
    ahead: Callable[..., Any] | None = None,
    of_lists: bool = False,
) -> Function:
    """Return `function`, with NumPy's for what is small and on the host, and for where it raises `Unsupported`.

    Parameters
    ----------
    function, numpy_function : callable
    name : str
        What a fallback is counted as.
    is_hosted : bool
        NumPy may compute on what is small and on the host without asking the function.
    most : callable, optional
        Of positional arguments, how many elements results have at most, where these may be larger than arguments.
    ahead : callable, optional
        What is asked first, with all arguments, where the first one is an array that is on the device alone, or any of
        ours where nothing is hosted; None where it leaves them to the function, as what may be another class's.
    of_lists : bool
        `ahead` is asked where the first argument is a list or tuple instead, of whatever.
    """
    asks = dispatches(numpy_function)
    lean = NUMERICAL.get(name)
    call_numpy = of_one(numpy_function)
    weight = WEIGHTS.get(name)

    def undecided(*args: Any, **kwargs: Any) -> Any:
        if SUBCLASSES and (result := call_function(numpy_function, args, kwargs)) is not NotImplemented:
            return result
        if (asks or "like" in kwargs) and not (are_known(args) and (not kwargs or are_known(kwargs.values()))):
            result = delegated(numpy_function, args, kwargs, name)
            if result is not NOT_DONE:
                return result
        try:
            return function(*args, **kwargs)
        except Placed:
            return placed_on_host(numpy_function, args, kwargs, mutates.get(numpy_function, OUT))
        except Unsupported:
            pass
        except TypeError as error:
            if error.__traceback__ is None or error.__traceback__.tb_next is not None:
                raise
            # Arguments that ours does not take, which are NumPy's to refuse.
        return call(numpy_function, args, kwargs, name=name, mutates=mutates.get(numpy_function, OUT))

    if not is_hosted:
        made = undecided if ahead is None else _asked_first(ahead, undecided, of_hosts=True)
        return viewing_function(with_spelling(made, numpy_function), numpy_function)
    makes = name in _MAKING
    last = -1  # position of the last argument that is certainly not written to, found at the first call

    def dispatched(*args: Any, **kwargs: Any) -> Any:
        nonlocal last
        if SUBCLASSES and (result := call_function(numpy_function, args, kwargs)) is not NotImplemented:
            return result
        if last == -1:
            last = 0 if numpy_function in mutates else positions(numpy_function).get("out", MAX_ARGUMENTS)
        is_one = len(args) == 1 and type(args[0]) is types.ndarray and not kwargs
        if is_one and (held := args[0]._held) is not None and held.host is None:
            return undecided(*args)
        is_read = len(args) <= last or (lean is not None and len(args) == 1 and not kwargs)
        if is_read and "out" not in kwargs and not REPORTS:
            room = 0 if most is None else inf if not _EXTENTS.isdisjoint(kwargs) else most(args) * 16
            result = (
                on_host(call_numpy, args[0], weight)
                if is_one and not room and lean is None
                else on_hosts(
                    numpy_function,
                    args,
                    kwargs,
                    is_placed=True,
                    weight=weight,
                    room=room,
                    needs_array=makes,
                    lean=lean,
                )
            )
            if result is not NOT_DONE:
                return result
        return undecided(*args, **kwargs)

    made = dispatched if ahead is None else _asked_first(ahead, dispatched, of_lists=of_lists)
    made = made if name not in FIRST else _tried_first(FIRST[name], made)
    return viewing_function(with_spelling(made, numpy_function), numpy_function)


def _asked_first(
    ahead: Callable[..., Any], general: Function, *, of_hosts: bool = False, of_lists: bool = False
) -> Function:
    """Return a function that asks another one first of an array on the device, of the host as well, or of a list."""

    def front(*args: Any, **kwargs: Any) -> Any:
        kind = type(args[0]) if args else None
        if of_lists:
            is_asked = kind is list or kind is tuple
        else:
            is_asked = kind is types.ndarray and (
                of_hosts or ((storage := args[0]._held) is not None and storage.host is None)
            )
        if is_asked:
            try:
                if (result := ahead(*args, **kwargs)) is not None:
                    return result
            except Unsupported:  # which the general function says as well, where NumPy is called for it
                pass
        return general(*args, **kwargs)

    return front


def _tried_first(first: Callable[..., Any], general: Function) -> Function:
    """Return a function that tries another one first where all arguments are given by position."""

    def front(*args: Any, **kwargs: Any) -> Any:
        found = first(*args) if not kwargs else NotImplemented
        return general(*args, **kwargs) if found is NotImplemented else found

    return front


def ask_like(numpy_function: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Ask the class of ``like`` for a function of ours that makes arrays, if it knows ours; else `NOT_DONE`."""
    like = kwargs.get("like")
    if like is None or isinstance(like, Handle) or not knows_ours(like):
        return NOT_DONE
    with contextlib.suppress(ValueError):  # of functions in C that tell no signature, before NumPy 2.4
        inspect.signature(numpy_function).bind(*args, **kwargs)  # raises TypeError
    given = {key: value for key, value in kwargs.items() if key != "like"}
    result = dispatched_by(like)(like, _front(numpy_function), (type(like),), args, given)
    if result is NotImplemented:
        raise TypeError(
            f"no implementation found for '{numpy_function.__module__}.{numpy_function.__name__}' on types that "
            f"implement __array_function__: [{type(like)}]"
        )
    return result


def _ask_with_ours(numpy_function: Function, args: tuple[Any, ...], kwargs: dict[str, Any], others: list[Any]) -> Any:
    """By our function ask those who did not know NumPy's: a class written with ``np`` of ours looks for ours."""
    knowing = [x for x in others if dispatched_by(x) is not None and knows_ours(x)]
    kinds = tuple(dict.fromkeys(map(type, knowing)))
    for x in knowing:
        result = dispatched_by(x)(x, _front(numpy_function), kinds, args, kwargs)
        if result is not NotImplemented:
            return result
    return NotImplemented


def _front(numpy_function: Function) -> Any:
    module = sys.modules["oxinp" + numpy_function.__module__.removeprefix("numpy")]
    return getattr(module, numpy_function.__name__)


def delegated(numpy_function: Function, args: tuple[Any, ...], kwargs: dict[str, Any], name: str) -> Any:
    """Call NumPy's function where foreign arguments have a say in it; `NOT_DONE` where there are none."""
    result = ask_like(numpy_function, args, kwargs)
    if result is not NOT_DONE:
        return result
    others = foreigners((*args, *kwargs.values())) if dispatches(numpy_function) else []
    if any(map(dispatched_by, others)):
        try:
            result = numpy_function(*args, **kwargs)  # which asks them, and us
        except TypeError as error:
            if not str(error).startswith("no implementation found for"):
                raise
            result = _ask_with_ours(numpy_function, args, kwargs, others)
            if result is NotImplemented:
                raise
        is_new = type(result) is np.ndarray and not any(result is value for value in (*args, *kwargs.values()))
        return types.from_host(result) if is_new else result
    if others and is_left_to_numpy(numpy_function, others, args, kwargs):
        return call(numpy_function, args, kwargs, name=name, mutates=mutates.get(numpy_function, OUT))
    return NOT_DONE


def _viewed_on_host(function: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return what a function that reads nothing makes of an array on the host and of what is plain, or `NOT_DONE`.

    That is a list or tuple of views of the array, or something that is plain.
    """
    if not args or type(args[0]) is not types.ndarray:
        return NOT_DONE
    base = args[0]
    for value in args[1:]:
        if type(value) not in PLAIN:
            return NOT_DONE
    for value in kwargs.values():
        if type(value) not in PLAIN:
            return NOT_DONE
    return part_views(base, lambda seen: function(seen, *args[1:], **kwargs), NOT_DONE)


def without_reading(numpy_function: Function, name: str, *, all_arguments: bool = False) -> Function:
    """Return a function of NumPy's that looks at shapes and dtypes and makes views, done without moving elements.

    Where it has to read elements after all (for a copy, or indices that are an array), it is a fallback.

    Parameters
    ----------
    numpy_function : callable
    name : str
        What a fallback is counted as.
    all_arguments : bool
        Whether it only looks at every positional argument, or at the first alone and reads the others.
    """
    row = VIEWS.get(numpy_function)
    asks = dispatches(numpy_function)

    def looked(*args: Any, **kwargs: Any) -> Any:
        if row is not None and args and type(args[0]) is types.ndarray:
            made = row_view(args[0], numpy_function, row, args[1:], kwargs)
            if made is not None:
                return made
        if SUBCLASSES and (result := call_function(numpy_function, args, kwargs)) is not NotImplemented:
            return result
        if asks and not (are_known(args) and (not kwargs or are_known(kwargs.values()))):
            result = delegated(numpy_function, args, kwargs, name)
            if result is not NOT_DONE:
                return result
        made = _viewed_on_host(numpy_function, args, kwargs)
        if made is not NOT_DONE:
            return made
        read = [*([] if all_arguments else args[1:]), *kwargs.values()]
        if not any(is_array(value) or holds_arrays(value) for value in read):
            stand_ins = StandIns()
            try:
                return stand_ins.take(numpy_function(*map(stand_ins.give, args), **kwargs))
            except Unread:
                pass
        return call(numpy_function, args, kwargs, name=name)

    return viewing_function(looked, numpy_function)


types.array_ufunc = array_ufunc
types.array_function = array_function
types.find = find

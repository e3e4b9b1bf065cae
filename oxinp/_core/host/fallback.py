"""Fallback: NumPy does, on the host, what has no kernel. The one way there, and the count of what went it.

Only our own decisions lead here (a row of the coverage table that says `host`, or `Unsupported`, raised before anything
is written), never an exception of NumPy's. A call is counted by NumPy's name for the function in
`oxinp.cuda.stats().fallbacks`; `config.fallback` says whether the user is warned or stopped as well.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from types import MethodType
from typing import Any

import numpy as np

from oxinp._config import config
from oxinp._core.errors.frames import Line, call_as_user, user_frame
from oxinp._core.errors.hearing import call_numerical, call_quickly, current, default
from oxinp._core.host.exchange import MAX_DEPTH, PLAIN, Exchange, NeedsMirror, is_array, kept_as, numbers_in
from oxinp._core.lazy import explain
from oxinp._core.lazy.array_protocol import REFUSAL, accepted_as_argument
from oxinp._core.lazy.handle import begin_writing, end_writing, host_view, is_writeable
from oxinp._core.lazy.placement import is_host
from oxinp._core.lazy.results import types, wrap_host
from oxinp._core.lazy.views import host_part
from oxinp._core.memory.host_side import is_dense
from oxinp._runtime.counters import stats

# An argument that a function writes to: its name, or its position, or (name, keyword, value) where it does so only if
# that keyword has that value. "*": every array, since the function calls back a function of the user's with views.
# KEPT: every array, and later, too, since what the function returns keeps them.
Mutated = str | int | tuple[str | int, str, bool]

OUT: tuple[Mutated, ...] = ("out",)

KEPT = "**"


class FallbackError(RuntimeError):
    """NumPy would have to do the work on the host, and `config.fallback` is "error"."""

    __module__ = "oxinp"  # where users find it


class FallbackWarning(UserWarning):
    """NumPy did the work on the host, and `config.fallback` is "warn"."""

    __module__ = "oxinp"


def call(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    *,
    name: str,
    mutates: tuple[Mutated, ...] = OUT,
) -> Any:
    """Let NumPy compute on the host, and count it.

    Parameters
    ----------
    function : callable
        NumPy's.
    args, kwargs
        Its arguments, with our arrays and scalars anywhere in them, also inside lists, tuples and dicts.
    name : str
        What it is counted as.
    mutates : tuple
        The arguments it writes to (see `Mutated`); an argument called ``out`` always is.

    Returns
    -------
    object
        What the function returned, with our arrays for NumPy's: the same array where it returned an argument, a view
        where it returned a view of one.

    Raises
    ------
    FallbackError
        Where `config.fallback` is "error".
    """
    count(name)
    return placed_on_host(function, args, kwargs, mutates)


def placed_on_host(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], mutates: tuple[Mutated, ...] = OUT
) -> Any:
    """Let NumPy compute, as `call` does, where placement has chosen the host: that is no fallback and not counted."""
    if KEPT in mutates:
        return _exchanged(Exchange(whole=True, keeps=True), function, args, kwargs)
    if are_plain(args, kwargs):
        return of_plain(function, args, kwargs)
    if len(mutates) == 1 and not kwargs and _is_first(function, mutates[0]):
        result = first_written(function, args)
        if result is not NOT_DONE:
            return result
    written = _written(function, args, kwargs, mutates)
    if not written:
        result = on_hosts(function, args, kwargs)
        if result is not NOT_DONE:
            return result
        try:
            return _exchanged(Exchange(), function, args, kwargs)
        except NeedsMirror:
            pass
    return _exchanged(Exchange(written, whole=True), function, args, kwargs)


def are_plain(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether no argument holds an array."""
    for value in args:
        if type(value) not in PLAIN:
            return False
    return not kwargs or PLAIN.issuperset(map(type, kwargs.values()))


def of_plain(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Let NumPy compute with what holds no array, as `placed_on_host` does."""
    result = call_as_user(function, args, kwargs)
    found = _of_new(result, ())
    return Exchange(whole=True).take(result) if found is NOT_DONE else found


def first_written(function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    """Let NumPy write to the first argument, as `placed_on_host` does, in less time.

    Returns
    -------
    object
        The result, or `NOT_DONE` where an argument is not on the host, or is more than a plain array or a plain value.
    """
    target, *others = args
    kind = types.ndarray
    if type(target) is not kind or not is_writeable(target):
        return NOT_DONE
    storage = target._held or target._storage
    if storage.host is None or storage.has_objects or storage.value is not None or storage.stale is not None:
        return NOT_DONE
    for value in others:
        if type(value) is kind:
            held = value._held or value._storage
            if held.host is None or held.has_objects or not is_writeable(value):
                return NOT_DONE
        elif type(value) is list:
            if numbers_in(value) is None:  # which NumPy may convert otherwise, to a dtype that it is for
                return NOT_DONE
        elif not (type(value) in PLAIN or (type(value) is tuple and PLAIN.issuperset(map(type, value)))):
            return NOT_DONE
    given: list[Any] = [begin_writing(target)]
    try:
        given += [host_view(value) if type(value) is kind else value for value in others]
        result = call_quickly(function, given, {}, has_elements=False)
    finally:
        end_writing(storage)
    if result is None:
        return None
    exchange = Exchange(whole=True)
    for value in args:
        exchange.give(value)
    return exchange.take(result)


def _exchanged(exchange: Exchange, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    give = exchange.give
    try:
        host_args = [give(value) for value in args]
        host_kwargs = {key: give(value) for key, value in kwargs.items()} if kwargs else kwargs
        try:
            result = call_quickly(function, host_args, host_kwargs, has_elements=False)
        except ValueError as error:
            if str(error) != REFUSAL:
                raise
            taken = {key: accepted_as_argument(value) for key, value in host_kwargs.items()}
            result = call_quickly(function, [*map(accepted_as_argument, host_args)], taken, has_elements=False)
    finally:
        exchange.settle()
    return exchange.take(result)


_NumpyArray = np.ndarray
_Generic = np.generic
_OBJECT = np.dtype(object)

NOT_DONE: Any = object()
"""What `on_hosts` returns where it did nothing."""


def on_hosts(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    *,
    is_placed: bool = False,
    weight: float | None = None,
    room: float = 0,
    needs_array: bool = True,
    lean: Callable[..., Any] | None = None,
) -> Any:
    """Let NumPy compute on arrays that are all valid on the host, as `call` does, in less time.

    Parameters
    ----------
    function : callable
        NumPy's; it writes to none of its arguments.
    args, kwargs
        Its arguments.
    is_placed : bool
        Whether one of them has to be an array, and all be as small as is the host's; else any will do.
    weight : float or None
        How much longer the function takes than adding its largest array, where it is the host's by what has been
        learned as well.
    room : float
        The most bytes of a result, where that may be larger than the arguments.
    needs_array : bool
        Whether numbers and lists of numbers alone are left to the caller where `is_placed`.
    lean : callable or None
        What does the same as the function, see `leaner.NUMERICAL`.

    Returns
    -------
    object
        The result, or `NOT_DONE` where an argument is larger, not on the host, or more than an array, several or plain.
    """
    kind = types.ndarray
    nbytes = -1
    listed = 0
    has_parts = False
    given: list[Any] = []
    owned: list[Any] = []  # arrays that objects consist of
    has_plain_keywords = not kwargs or PLAIN.issuperset(map(type, kwargs.values()))
    for value in args if has_plain_keywords else (*args, *kwargs.values()):
        if type(value) is kind:
            host = (value._held or value._storage).host
            view = value._view
            if host is None or (type(view) is tuple and not view[1]):
                return NOT_DONE
            seen = value._seen if value._host is host else host_view(value)
            size = seen.nbytes
            if size > nbytes:  # noqa: PLR1730 - `max` takes as long as the rest
                nbytes = size
            given.append(seen)
        elif type(value) in PLAIN:
            given.append(value)
        elif type(value) in kept_as and (theirs := kept_as[type(value)](value)) is not None:
            nbytes = max(nbytes, 0)
            given.append(theirs)
            owned += [part for part in vars(theirs).values() if type(part) is _NumpyArray]
        elif type(value) is not tuple and type(value) is not list:
            return NOT_DONE
        elif type(value) is tuple and PLAIN.issuperset(map(type, value)):
            listed = max(listed, len(value) * _WIDEST)
            given.append(value)
        elif value and type(value[0]) is not kind and (size := listed_nbytes(value)) >= 0:
            listed = max(listed, size)
            has_parts = True
            given.append(value if lean is None or value is not args[0] else np.array(value))
        else:
            parts: list[Any] = []
            size = _see_parts(value, parts)
            if size < 0:
                return NOT_DONE
            nbytes += size
            has_parts = True
            given.append(parts if type(value) is list else tuple(parts))
    if is_placed:
        if nbytes < 0:
            if needs_array:
                return NOT_DONE
            nbytes = listed or _WIDEST
        size = max(nbytes, listed, room)
        if size >= config.offload_threshold and (weight is None or not is_host(size, weight)):
            return NOT_DONE
    keywords, operands = kwargs, given
    if not has_plain_keywords:
        keywords, operands = dict(zip(kwargs, given[len(args) :], strict=True)), given[: len(args)]
    result = NotImplemented
    if lean is not None and nbytes > 0 and current() is default:
        result = call_numerical(lean, operands, keywords)
    if result is NotImplemented:
        result = call_quickly(function, operands, keywords, has_elements=nbytes > 0, is_read=True)
    found = _of_new(result, [*given, *owned] if owned else given)
    if found is not NOT_DONE:
        if has_parts and type(result) not in PLAIN:
            for each in result if type(result) is tuple else (result,):
                if getattr(each, "dtype", None) is _OBJECT:
                    return NOT_DONE  # it holds what stood for ours
        return found
    exchange = Exchange(whole=True)
    for value in (*args, *kwargs.values()):
        exchange.give(value)
    return exchange.take(result)


def _see_parts(values: Sequence[Any], parts: list[Any], depth: int = 0) -> int:
    """Append host views of the arrays in a list, also of those in lists in it, and what is plain; return their bytes.

    It is -1 where an array is not on the host or what else is there is neither plain nor a list.
    """
    kind = types.ndarray
    nbytes = 0
    for part in values:
        if type(part) is kind:
            host = (part._held or part._storage).host
            view = part._view
            if host is None or (type(view) is tuple and not view[1]):
                return -1
            seen = part._seen if part._host is host else host_view(part)
            nbytes += seen.nbytes
            parts.append(seen)
        elif type(part) in PLAIN:
            parts.append(part)
        elif (type(part) is list or type(part) is tuple) and depth < MAX_DEPTH:
            inner: list[Any] = []
            size = _see_parts(part, inner, depth + 1)
            if size < 0:
                return -1
            nbytes += size
            parts.append(inner if type(part) is list else tuple(inner))
        else:
            return -1
    return nbytes


_SCALARS = frozenset({bool, int, float, complex, *(np.dtype(code).type for code in "?bBhHiIlLqQefdFD")})
_WIDEST = 8  # bytes of a real number
_NUMBERS = frozenset({bool, int, float, complex, np.bool_, np.int32, np.int64, np.float32, np.float64, np.complex128})


def listed_nbytes(value: Any) -> int:
    """Return the bytes of numbers in a list, or in lists of one list or tuple; -1 of anything else."""
    if (type(value) is not list and type(value) is not tuple) or not value:
        return -1
    if _NUMBERS.issuperset(map(type, value)):
        return len(value) * _WIDEST
    total = 0
    for row in value:
        if (type(row) is not list and type(row) is not tuple) or not row or not _NUMBERS.issuperset(map(type, row)):
            return -1
        total += len(row) * _WIDEST
    return total


def _of_new(result: Any, given: Sequence[Any]) -> Any:
    """Return ours for a result that is new, or a tuple of such; `NOT_DONE` where arguments may have its memory."""
    kind = type(result)
    if kind is _NumpyArray:
        flags = result.flags
        is_plain = flags.behaved and (flags.forc or is_dense(result))
        return wrap_host(result) if is_plain and is_new(result, given) else NOT_DONE
    if kind in PLAIN or isinstance(result, _Generic):
        return result
    if kind is not tuple and not hasattr(kind, "_make"):
        return NOT_DONE
    if _SCALARS.issuperset(map(type, result)):
        return result
    if len(result) > 1 and any(type(part) is _NumpyArray and part.base is not None for part in result):
        columns = _columns(result, given)
        if columns is None:
            return NOT_DONE  # they may share what they are views of
        result = columns
    parts = [_of_new(part, given) for part in result]
    if any(part is NOT_DONE for part in parts):
        return NOT_DONE
    arrays = [id(part) for part in result if type(part) is _NumpyArray]
    if len({*arrays}) < len(arrays):
        return NOT_DONE
    return tuple(parts) if kind is tuple else kind._make(parts)


def _columns(parts: tuple[Any, ...], given: Sequence[Any]) -> tuple[Any, ...] | None:
    """Return copies of what are the columns of a new matrix, as results of `nonzero` are; None of others."""
    matrix = parts[0].base if type(parts[0]) is _NumpyArray else None
    if type(matrix) is not _NumpyArray or matrix.ndim != 2 or matrix.shape[1] != len(parts):
        return None
    rows, strides = matrix.shape[:1], matrix.strides[:1]
    for part in parts:
        if type(part) is not _NumpyArray or part.base is not matrix or (part.shape, part.strides) != (rows, strides):
            return None
    if len({part.__array_interface__["data"][0] for part in parts}) < len(parts) and matrix.size:
        return None
    return tuple([part.copy() for part in parts]) if is_new(matrix, given) and matrix.flags.owndata else None


def is_new(result: np.ndarray[Any, Any], given: Sequence[Any]) -> bool:
    """Whether an array of NumPy's is, or views all of, memory that no argument has."""
    owner = result.base
    if owner is None:
        owner = result
    elif type(owner) is not _NumpyArray or not owner.flags.owndata or owner.nbytes != result.nbytes:
        return False
    for value in given:
        kind = type(value)
        if kind is _NumpyArray:
            if value is owner or value.base is owner:
                return False
        elif (kind is list or kind is tuple) and not is_new(result, value):
            return False
    return True


def on_host(call_numpy: Callable[[Any], Any], array: Any, weight: float | None = None) -> Any:
    """Do what `on_hosts` does for one array of ours that is placed and nothing else, which most calls have.

    What calls NumPy's function is of `hearing.of_one`.
    """
    storage = array._held or array._storage
    host = storage.host
    view = array._view
    if host is None or (type(view) is tuple and not view[1]):
        return NOT_DONE
    seen = array._seen if array._host is host else host_view(array)
    if seen.nbytes >= config.offload_threshold and (weight is None or not is_host(seen.nbytes, weight)):
        return NOT_DONE
    result = call_numpy(seen)
    if type(result) is _NumpyArray:
        if result.base is None and result is not seen and result.flags.carray:
            return wrap_host(result)
    elif isinstance(result, _Generic):
        return result
    found = _part_of(array, seen, result)
    if found is NOT_DONE:
        found = _of_new(result, (seen,))
    if found is not NOT_DONE:
        return found
    exchange = Exchange(whole=True)
    exchange.give(array)
    return exchange.take(result)


def _part_of(array: Any, seen: np.ndarray[Any, Any], result: Any) -> Any:
    """Return ours for a view of the only array that a function was given, whose host's view is `seen`; `NOT_DONE` else.

    Of an array that is on the device, too, it is for `Exchange` to say.
    """
    storage = array._held or array._storage
    host = storage.host
    if type(result) is not _NumpyArray or array._host is not host or storage.value is not None or storage.has_objects:
        return NOT_DONE
    if result is seen:
        return array
    owner = result.base
    if owner is None or (owner is not host and owner is not host.base) or not result.flags.writeable:
        return NOT_DONE
    return host_part(array, host, result)


# -- what is written ---------------------------------------------------------------------------------------------------

# NumPy functions that tell nothing of their parameters to `inspect` before NumPy 2.4, and where those that are written
# to stand.
_POSITIONS: dict[Any, dict[str, int]] = {
    np.busday_count: {"out": 5},
    np.busday_offset: {"out": 6},
    np.concatenate: {"out": 2},
    np.copyto: {"dst": 0},
    np.dot: {"out": 2},
    np.is_busday: {"out": 4},
    np.ndarray.byteswap: {"inplace": 1},
    np.putmask: {"a": 0},
}


def positions(function: Callable[..., Any]) -> dict[str, int]:
    """Return where a function's parameters stand, by name; of a ufunc, ``out`` is the first of its outputs."""
    if type(function) is MethodType:  # another object each time that it is asked for, which is not to be kept
        return _positions_bound(function.__func__)
    return _positions(function)


@functools.lru_cache(maxsize=256)
def _positions_bound(function: Callable[..., Any]) -> dict[str, int]:
    return {name: place - 1 for name, place in _positions(function).items() if place}


@functools.lru_cache(maxsize=2048)
def _positions(function: Callable[..., Any]) -> dict[str, int]:
    if isinstance(function, np.ufunc):
        return {"out": function.nin}
    if function in _POSITIONS:
        return _POSITIONS[function]
    try:
        parameters = inspect.signature(function).parameters.values()
    except (ValueError, TypeError):
        return {}
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return {p.name: i for i, p in enumerate(parameters) if p.kind in positional}


def _written(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], mutates: tuple[Mutated, ...]
) -> list[Any]:
    """Return the arrays, ours and NumPy's, that a call may write to."""
    if mutates is OUT and "out" not in kwargs and len(args) <= positions(function).get("out", len(args)):
        return []
    found: list[Any] = []
    for entry in (*mutates, *OUT):
        if entry == "*":
            found += [*args, *kwargs.values()]
        elif isinstance(entry, tuple):
            name, keyword, value = entry
            if bool(_argument(function, args, kwargs, keyword, not value)) == value:
                found.append(_argument(function, args, kwargs, name))
        else:
            found.append(_argument(function, args, kwargs, entry))
    if isinstance(function, np.ufunc):
        found += args[function.nin :]
    return [value for entry in found for value in _flat(entry) if is_array(value) or isinstance(value, np.ndarray)]


def _is_first(function: Callable[..., Any], entry: Mutated) -> bool:
    """Whether what a function writes to is its first argument."""
    return entry == 0 or (type(entry) is str and positions(function).get(entry) == 0)


def _argument(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], name: str | int, default: Any = None
) -> Any:
    position = name if isinstance(name, int) else positions(function).get(name, len(args))
    if position < len(args):
        return args[position]
    return kwargs.get(name, default) if isinstance(name, str) else default


def _flat(value: Any) -> Iterable[Any]:
    return value if isinstance(value, list | tuple) else (value,)


# -- what is counted ---------------------------------------------------------------------------------------------------

_warned: set[tuple[str, int]] = set()


def count(name: str) -> None:
    """Count a fallback by NumPy's name; warn of it, once per line of the user's, or refuse it, as the setting says."""
    stats.count_fallback(name)
    if explain.REPORTS:
        explain.note("fallback", name, "it has no kernel")
    if config.fallback != "silent":
        _tell(name)


def _tell(name: str) -> None:
    if config.fallback == "error":
        raise FallbackError(
            f"{_dotted(name)} has no kernel here and would run on the host, which oxinp.config.fallback = 'error' "
            "forbids; set it to 'warn' or 'silent' to allow that"
        )
    frame = user_frame()
    line = frame.f_code.co_filename, frame.f_lineno
    if line not in _warned:
        _warned.add(line)
        Line(frame).warn(f"{_dotted(name)} ran on the host: it has no kernel", FallbackWarning)


def _dotted(name: str) -> str:
    """Return the full name of what is counted as `name`: NumPy's functions are counted without ``numpy.``."""
    return name if name.startswith("scipy.") else f"numpy.{name}"


def name_of(function: Callable[..., Any]) -> str:
    """Return NumPy's name for a function of its: ``cumsum``, ``linalg.svd``, ``ndarray.sort``."""
    module = getattr(function, "__module__", None) or ""
    name = str(getattr(function, "__qualname__", None) or getattr(function, "__name__", function))
    chapter = module.removeprefix("numpy").removeprefix(".")
    return f"{chapter}.{name}" if chapter and not chapter.startswith("_") else name


types.fall_back = call

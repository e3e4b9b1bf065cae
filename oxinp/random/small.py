"""Small draws, which are NumPy's wherever arrays are: by its own methods at once, with few functions around them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from math import inf
from typing import Any

import numpy as np

from oxinp._config import config
from oxinp._core.host.draws import DRAWS, Draw
from oxinp._core.host.fallback import NOT_DONE, first_written, on_hosts
from oxinp._core.host.fallback import count as count_fallback
from oxinp._core.lazy.inlining import compiled
from oxinp._core.lazy.results import types, wrap_host
from oxinp._core.lazy.small import in_place_function
from oxinp.random.transformed import SCALARS

PLAIN = frozenset({type(None), bool, str, type, np.dtype, *(type(np.dtype(code)) for code in "?bhilBHILfd"), *SCALARS})
"""Types of arguments that NumPy takes as they are."""
_NumpyArray = np.ndarray
_WIDEST = 8  # bytes of a number


def _count(shape: tuple[Any, ...]) -> float:
    """Return how many elements a shape has; infinitely many of what is none."""
    count = 1
    for extent in shape:
        if type(extent) is not int or extent < 0:
            return inf
        count *= extent
    return count


def is_small(args: tuple[Any, ...], kwargs: dict[str, Any], place: int | None, plain: frozenset[type] = PLAIN) -> bool:
    """Whether what is drawn is one number, or so few that arrays of them are the host's, and of plain arguments.

    Parameters
    ----------
    args, kwargs
        Arguments of which there are some.
    place : int or None
        That of the argument `size` among those by position; None where all of these are its extents.
    plain : frozenset
        Types of arguments.
    """
    size = args if place is None else args[place] if len(args) > place else kwargs.get("size")
    if size is not None:
        count = size if type(size) is int else _count(size) if type(size) is tuple else inf
        if count < 0 or (count and count * _WIDEST >= config.offload_threshold):
            return False
    for value in args:
        if type(value) not in plain and value is not size:
            return False
    for value in kwargs.values():  # noqa: SIM110 - `all` costs more than the rest
        if type(value) not in plain and value is not size:
            return False
    return True


_DRAWN_TEXT = """
def make(method, numpys, is_small, place, plain):
    def drawn(self, *args, **kwargs):
        if (args or kwargs) and not is_small(args, kwargs, place, plain):
            return method(self, *args, **kwargs)
        with self._mutex:
            if self._ending is not None:
                self._settle()
            found = numpys(self, *args, **kwargs) if kwargs else numpys(self, *args)
        return wrapped(found)
    return drawn
"""


def at_once(
    place: int | None, numpys: Callable[..., Any], plain: frozenset[type] = PLAIN
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return what makes a method of generators draw small arrays by NumPy's.

    Parameters
    ----------
    place, plain
        See `is_small`.
    numpys : callable
        NumPy's method.
    """

    def decorate(method: Callable[..., Any]) -> Callable[..., Any]:
        made = compiled("draws", _DRAWN_TEXT)(method, numpys, is_small, place, plain)
        DRAWS[made] = Draw(numpys, place, is_method=True)
        return functools.wraps(method)(made)

    return decorate


_SHARED_TEXT = """
def make(general, numpys, is_small, place, plain):
    num_parameters = place or 0
    def drawn(*args, **kwargs):
        if kwargs or len(args) > num_parameters:
            if not is_small(args, kwargs, place, plain):
                return general(*args, **kwargs)
            found = numpys(*args, **kwargs) if kwargs else numpys(*args)
            return wrapped(found)
        for value in args:
            if type(value) not in plain:
                return general(*args)
        return numpys(*args)  # one number
    return drawn
"""


def shared_at_once(
    general: Callable[..., Any], place: int | None, numpys: Callable[..., Any], plain: frozenset[type]
) -> Callable[..., Any]:
    """Return a function of the state that all share, which draws small arrays by NumPy's; parameters as `at_once`."""
    made: Callable[..., Any] = compiled("shared draws", _SHARED_TEXT)(general, numpys, is_small, place, plain)
    DRAWS[made] = Draw(numpys, place, is_method=False)
    return made


def of_elements(numpys: Callable[..., Any], args: tuple[Any, ...], name: str) -> Any:
    """Return what NumPy draws of the elements of a small array on the host, or of so many numbers.

    Parameters
    ----------
    numpys : callable
        NumPy's function, or a method of a generator of its own, whose lock is held.
    args : tuple
        An array or a list first, or how many numbers; a size second, if any.
    name : str
        What a fallback is counted as.

    Returns
    -------
    object
        `NOT_DONE` for all other arguments.
    """
    kind = type(args[0]) if args else None
    if config.fallback != "silent" or (kind is not types.ndarray and kind is not int and kind is not list):
        return NOT_DONE
    size = args[1] if len(args) > 1 else None
    count = 0 if size is None else size if type(size) is int else _count(size) if type(size) is tuple else inf
    if kind is int:
        count = max(count, args[0])
    are_few = count * _WIDEST < config.offload_threshold
    is_plain = kind is int or (kind is list and PLAIN.issuperset(map(type, args[0])))
    if is_plain and are_few and PLAIN.issuperset(map(type, args[2:])):
        found = numpys(*args)
        return wrap_host(found.copy() if found.base is not None else found) if type(found) is _NumpyArray else found

    def draw(*args: Any) -> Any:
        found = numpys(*args)  # which may be a part of more, or, without elements, what was given
        is_part = type(found) is _NumpyArray and found.base is not None and found is not args[0]
        return found.copy() if is_part else found

    found = on_hosts(draw, args, {}, is_placed=True, room=count * _WIDEST, needs_array=False)
    if found is not NOT_DONE:
        count_fallback(name)
    return found


_shuffle = in_place_function(lambda *_: NOT_DONE)


def shuffled(numpys: Callable[..., Any], args: tuple[Any, ...], name: str) -> bool:
    """Have NumPy shuffle a small array on the host, or what is none of ours; False, and nothing done, of all else."""
    if len(args) != 1:
        return False
    (x,) = args
    if type(x) is list or type(x) is _NumpyArray:
        numpys(x)  # whatever a list holds: it is to be in another order itself
        return True
    if config.fallback != "silent" or type(x) is not types.ndarray:
        return False
    if _shuffle(x, numpys) is NOT_DONE:
        is_small = x.nbytes < config.offload_threshold
        if not is_small or first_written(numpys, args) is not None:
            return False
    count_fallback(name)
    return True


__all__ = ["PLAIN", "at_once", "of_elements", "shared_at_once", "shuffled"]

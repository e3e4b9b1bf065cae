"""NumPy's methods as ours: with our arrays, and after the end of a draw on the device is known."""

from __future__ import annotations

import contextlib
import operator
import threading
from collections.abc import Callable
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from oxinp._core.host.fallback import OUT, Mutated, are_plain, call, count, of_plain
from oxinp._core.lazy.placement import device, starts_on_device
from oxinp._runtime import hooks
from oxinp._runtime.forking import free_in_children

# What a method writes to, self being argument 0; `out` by position, since methods tell `inspect` nothing everywhere.
MUTATES: dict[str, tuple[Mutated, ...]] = {
    "Generator.permuted": (3, *OUT),
    "Generator.random": (3, *OUT),
    "Generator.shuffle": (1, "x"),
    "Generator.standard_exponential": (4, *OUT),
    "Generator.standard_gamma": (4, *OUT),
    "Generator.standard_normal": (3, *OUT),
    "RandomState.shuffle": (1, "x"),
}
MOST_ADDRESSED = 1 << 47  # bytes of an array that NumPy may find room for
# What gives no arrays.
STATE = {"bit_generator", "spawn", "seed", "get_state", "set_state", "bytes"}


def _method(kind: type, name: str) -> Callable[..., Any]:
    numpys = getattr(kind, name)
    qualified = f"{kind.__name__}.{name}"
    mutates = MUTATES.get(qualified, OUT)

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        with self._mutex:
            settle(self)
            if mutates is OUT and are_plain(args, kwargs):
                count(f"random.{qualified}")
                return of_plain(numpys, (self, *args), kwargs)
            return call(numpys, (self, *args), kwargs, name=f"random.{qualified}", mutates=mutates)

    method.__name__ = name
    method.__qualname__ = qualified
    method.__doc__ = numpys.__doc__
    return method


_REENTRANT = type(free_in_children(threading.RLock()))


def mutex_of(bit_generator: Any) -> Any:
    """Return the lock that a generator of ours is used under, on the host as on the device.

    It is the bit generator's own, so that whoever holds that may draw, too; before NumPy 2.4, whose lock cannot be
    taken twice, one that is taken before it.
    """
    lock = free_in_children(bit_generator.lock)
    return lock if isinstance(lock, _REENTRANT) else free_in_children(threading.RLock())


def settle(generator: Any) -> None:
    """Bring the bit generator of one of our generators to where the last draw on the device ended.

    The caller holds the generator's mutex.
    """
    if generator._ending is not None:
        generator._settle()


# By their ids, those that have drawn on the device.
_HAVE_DRAWN: WeakValueDictionary[int, Any] = WeakValueDictionary()


def keep(generator: Any, ending: Any) -> None:
    """Have a generator end where a draw on the device does, which is read when needed, see `settle`."""
    generator._ending = ending
    _HAVE_DRAWN[id(generator)] = generator


def _settle_all() -> None:
    """Settle before a fork: a child draws on from here, and cannot read the device."""
    for reference in _HAVE_DRAWN.valuerefs():
        generator = reference()
        if generator is None or generator._ending is None:
            continue
        with contextlib.suppress(Exception), generator._mutex:  # its ending stays, and raises where it is asked for
            settle(generator)


hooks.before_fork.append(_settle_all)


def methods(kind: type) -> dict[str, Any]:
    """Return what a class of ours has that NumPy's methods are taken from: all that give arrays."""
    names = [name for name in dir(kind) if not name.startswith("_") and name not in STATE]
    return {name: _method(kind, name) for name in names} | {"_ending": None}  # where a draw ends, see `settle`


class TakesNumpys(type):
    """The class of our classes of generators: NumPy's generators are instances of them, as its arrays are of ours."""

    _numpys: type

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, vars(cls).get("_numpys", ())) or super().__instancecheck__(instance)


def bit_generator_of(given: Any) -> Any:
    """Return a bit generator, for its name, which old pickles have, a new one."""
    return getattr(np.random, given)() if isinstance(given, str) else given


def is_drawn_on_device(nbytes: int, times: int = 1, room: float | None = 1.25) -> bool:
    """Whether a draw is the device's: it is large enough, and there may be room for it.

    NumPy draws what is larger, or says that there is no room, while the state is what it was.

    Parameters
    ----------
    nbytes : int
        Of the result.
    times : int
        How many times the bytes have to be drawn for the device to be the place.
    room : float or None
        Bytes that are needed for one of the result; None where a reduction of it may store nothing, and where the state
        after it is known without it.
    """
    if not starts_on_device(nbytes // times):
        return False
    return nbytes <= MOST_ADDRESSED if room is None else nbytes * room <= device().capability.total_nbytes


def shape_of(size: Any) -> tuple[int, ...] | None:
    """The shape that a size says; None for one element, and for what NumPy has to judge."""
    if size is None or type(size) is bool:
        return None
    try:
        shape = tuple([operator.index(n) for n in size]) if isinstance(size, tuple | list) else (operator.index(size),)
    except TypeError:
        return None
    return shape if all(n >= 0 for n in shape) else None


__all__ = [
    "MUTATES",
    "TakesNumpys",
    "bit_generator_of",
    "is_drawn_on_device",
    "keep",
    "methods",
    "mutex_of",
    "settle",
    "shape_of",
]

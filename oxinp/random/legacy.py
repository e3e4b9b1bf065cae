"""The legacy generator: `RandomState`, and the functions of `numpy.random` on the state that all share.

Large draws of what is a function of uniforms, of polar normals or of masked words come from the device, where they are
NumPy's words; all else is NumPy's, on the host.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from oxinp._api.fronts import describe
from oxinp._core.array import dispatch
from oxinp._core.array.ndarray import ndarray
from oxinp._core.host.fallback import NOT_DONE, OUT, call
from oxinp._core.lazy.handle import Handle, fetch
from oxinp._core.lazy.results import as_array
from oxinp._core.manipulation.shape import reshape
from oxinp._core.ops import twister
from oxinp._core.ops.creation import asarray
from oxinp._core.ops.twister import Twist, TwistEnding
from oxinp._core.ufunc.object import OBJECTS
from oxinp._runtime.forking import free_in_children
from oxinp.random import shuffling
from oxinp.random.choosing import choose
from oxinp.random.methods import (
    TakesNumpys,
    bit_generator_of,
    is_drawn_on_device,
    keep,
    methods,
    mutex_of,
    settle,
    shape_of,
)
from oxinp.random.small import at_once, of_elements, shared_at_once, shuffled
from oxinp.random.transformed import (
    EXP,
    FLOAT64,
    INTEGERS,
    LOG,
    POWER,
    SCALARS,
    TRANSFORMATIONS,
    Transformation,
    log1p_of_uniforms,
    quotients,
)

_NUMPYS: Any = np.random.RandomState
_RandomStateMethods: Any = type("_RandomStateMethods", (np.random.RandomState,), methods(np.random.RandomState))
# How many times the bytes have to be drawn for the device to be the place: jumps take a tenth of a millisecond.
_TIMES = 8
_ROOM = 3  # bytes for one of the result: points of normals wait in memory
UINT32 = np.dtype(np.uint32)
NOTHING = object()  # what a method that returns nothing has drawn
_JUDGE = _NUMPYS(0)  # raises where parameters are wrong


class RandomState(_RandomStateMethods, metaclass=TakesNumpys):  # type: ignore[misc]
    """See `numpy.random.RandomState`."""

    _numpys = _NUMPYS
    _ending: TwistEnding | None

    def __init__(self, seed: Any = None) -> None:
        super().__init__(fetch(seed) if isinstance(seed, Handle) else seed)
        self._is_own = not isinstance(seed, np.random.BitGenerator)
        self._mutex = mutex_of(self._bit_generator)

    def _settle(self) -> None:
        if self._ending is not None:
            _NUMPYS.set_state(self, self._ending.position().numpys())
            self._ending = None

    def _read(self) -> dict[str, Any]:
        settle(self)
        state: dict[str, Any] = _NUMPYS.get_state(self, legacy=False)
        return state

    def _end(self, ending: TwistEnding) -> None:
        if self._is_own:
            keep(self, ending)
        else:
            _NUMPYS.set_state(self, ending.position().numpys())

    def get_state(self, legacy: bool = True) -> Any:
        """See `numpy.random.RandomState.get_state`."""
        with self._mutex:
            settle(self)
            return super().get_state(legacy=legacy)

    def set_state(self, state: Any) -> None:
        """See `numpy.random.RandomState.set_state`."""
        with self._mutex:
            settle(self)
            super().set_state(state)

    def seed(self, seed: Any = None) -> None:
        """See `numpy.random.RandomState.seed`."""
        with self._mutex:
            super().seed(fetch(seed) if isinstance(seed, Handle) else seed)
            self._ending = None  # wherever the last draw ends

    def bytes(self, length: int) -> bytes:
        """See `numpy.random.RandomState.bytes`."""
        if type(length) is int and length > 0:
            halves = _drawn(self, "halves", UINT32, (-(-length // 4),))
            if halves is not None:
                return fetch(halves).tobytes()[:length]
        with self._mutex:
            settle(self)
            drawn: bytes = super().bytes(length)
        return drawn

    def __reduce__(self) -> Any:
        state = self.get_state(legacy=False)
        return _unpickled, (self._bit_generator,), state


def _unpickled(bit_generator: Any) -> RandomState:
    return RandomState(bit_generator_of(bit_generator))


class _Shared:
    """The state that the functions of `numpy.random` share, which NumPy's own may use at any time."""

    def __init__(self) -> None:
        self._mutex = contextlib.nullcontext()  # NumPy's lock is what its functions know
        free_in_children(self._bit_generator.lock)

    @property
    def _bit_generator(self) -> Any:
        return np.random.mtrand._rand._bit_generator  # another after `numpy.random.set_bit_generator`

    def _read(self) -> dict[str, Any]:
        state: dict[str, Any] = np.random.get_state(legacy=False)  # noqa: NPY002
        return state

    def _end(self, ending: TwistEnding) -> None:
        np.random.set_state(ending.position().numpys())  # noqa: NPY002


def _drawn(
    owner: Any,
    name: str,
    dtype: np.dtype[Any],
    shape: tuple[int, ...] | None,
    parameters: Any = (),
    chance: float = 1.0,
) -> Any:
    """Numbers from the device, see `twister.draw`; None where NumPy is to draw them."""
    if shape is None or 0 in shape or not is_drawn_on_device(math.prod(shape) * dtype.itemsize, _TIMES, _ROOM):
        return None

    def draw(position: Twist) -> Any:
        if position.gauss is not None and math.prod(shape) == 1:
            return None  # the normal that was left over, if normals are drawn
        return twister.draw(position, name, dtype, shape, parameters, chance)

    return _taken(owner, draw)


def _taken(owner: Any, draw: Callable[[Twist], Any]) -> Any:
    """What ``draw(position)`` gives from where the state is, which ends where that does; None where it is unknown."""
    with owner._mutex, owner._bit_generator.lock:  # from the state to the one after it
        position = Twist.of(owner._read())
        drawn = None if position is None else draw(position)
        if drawn is None:
            return None
        array, ending = drawn
        owner._end(ending)
    return array


def _order(owner: Any, size: int) -> Any:
    """Positions in a shuffled order, from the device; None where NumPy is to draw them."""
    if not shuffling.is_placed(size, _TIMES):
        return None
    return _taken(owner, lambda position: shuffling.permutation(position, size))


def _permutation(owner: Any, x: Any) -> Any:
    return shuffling.permuted_copy(x, 0, lambda size: _order(owner, size))


def _shuffle(owner: Any, x: Any) -> Any:
    return NOTHING if shuffling.shuffle(x, 0, lambda size: _order(owner, size)) else None


def _standard(owner: Any, kind: str, shape: tuple[int, ...] | None) -> Any:
    """Uniforms, those that are not 0, normals or exponentials from the device."""
    if kind != "exponential":
        return _drawn(owner, {"normal": "polar_f64"}.get(kind, f"{kind}_f64"), FLOAT64, shape)
    uniform = _drawn(owner, "uniform_f64", FLOAT64, shape)
    return None if uniform is None else -LOG(1.0 - uniform)


def _sized(kind: str) -> Callable[..., Any]:
    def draw(owner: Any, size: Any = None) -> Any:
        numbers = _standard(owner, kind, shape_of(size))
        return None if numbers is None else as_array(numbers)

    return draw


def _cauchy(owner: Any, size: Any = None) -> Any:
    return quotients(lambda shape: _standard(owner, "normal", shape), shape_of(size))


def _extents(kind: str) -> Callable[..., Any]:
    return lambda owner, *extents: _standard(owner, kind, shape_of(extents) if extents else None)


def _randint(owner: Any, low: Any, high: Any = None, size: Any = None, dtype: Any = int) -> Any:
    if high is None:
        low, high = 0, low
    shape = shape_of(size)
    if shape is None or type(low) not in INTEGERS or type(high) not in INTEGERS:
        return None
    try:
        wanted = np.dtype(dtype)
    except TypeError:
        return None
    if wanted.kind not in "iu" or wanted.itemsize < 4 or not wanted.isnative:
        return None
    low, high, bounds = int(low), int(high) - 1, np.iinfo(wanted)
    largest = high - low
    if not bounds.min <= low < high <= bounds.max or largest >= (1 << 32) - 1:
        return None
    mask, bits = (1 << largest.bit_length()) - 1, wanted.itemsize * 8
    parameters = (mask, largest, low & ((1 << bits) - 1))
    return _drawn(owner, f"masked_u{bits}", wanted, shape, parameters, (largest + 1) / (mask + 1))


def _chosen_once(owner: Any, a: Any, size: Any) -> Any:
    """The first of all elements in a shuffled order."""
    is_array = isinstance(a, ndarray | np.ndarray) and a.dtype.kind in "biufc"
    shape, extent = shape_of(size), a if type(a) is int else len(a) if is_array else 0
    if shape is None or math.prod(shape) > extent or 0 in shape:
        return None
    drawn = _permutation(owner, extent)
    if drawn is None:
        return None
    index = reshape(drawn[: math.prod(shape)], shape)
    return index if type(a) is int else asarray(a)[index]


def _choice(owner: Any, a: Any, size: Any = None, replace: Any = True, p: Any = None) -> Any:
    if getattr(a, "ndim", 1) != 1:
        return None
    if replace is False and p is None:
        return _chosen_once(owner, a, size)
    if replace is not True:
        return None
    return choose(
        a,
        size,
        p,
        0,
        places=lambda extent, shape: _randint(owner, 0, extent, shape),
        uniforms=lambda shape: _standard(owner, "uniform", shape),
        judge=lambda extent, p: _JUDGE.choice(extent, 0, p=p),
    )


def _pareto(x: Any, a: Any) -> Any:
    return EXP(x / a) - 1.0


def _power(x: Any, a: Any) -> Any:
    return POWER(1.0 - EXP(-x), 1.0 / a)


def _rayleigh(u: Any, scale: Any) -> Any:
    return OBJECTS["sqrt"](log1p_of_uniforms(-u) * -2.0) * scale


# The standard distribution, and the function of its numbers, where the legacy generator has others.
_DIFFERENT = {
    "pareto": ("exponential", _pareto),
    "power": ("exponential", _power),
    "rayleigh": ("uniform", _rayleigh),
}


def _transformed(name: str, row: Transformation) -> Callable[..., Any]:
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    pairs = [*row.parameters.items(), ("size", None)]
    signature = inspect.Signature([inspect.Parameter(word, kind, default=default) for word, default in pairs])
    numpys = getattr(_JUDGE, name)
    standard, function = _DIFFERENT.get(name, (row.standard, row.function))

    def draw(owner: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError:
            return None
        bound.apply_defaults()
        *values, size = bound.args
        if shape_of(size) is None or not all(type(value) in SCALARS for value in values):
            return None
        numpys(*values, size=0)
        if name == "weibull" and values[0] <= 0:
            return None
        numbers = _standard(owner, standard, shape_of(size))
        return None if numbers is None else as_array(function(numbers, *map(float, values)))

    return draw


# Name -> ``draw(owner, *args, **kwargs)``: None where NumPy is to draw, or to say what is wrong.
_DRAWS: dict[str, Callable[..., Any]] = {
    "rand": _extents("uniform"),
    "randn": _extents("normal"),
    **dict.fromkeys(("random", "random_sample", "ranf", "sample"), _sized("uniform")),
    "standard_normal": _sized("normal"),
    "standard_exponential": _sized("exponential"),
    "standard_cauchy": _cauchy,
    "choice": _choice,
    "permutation": _permutation,
    "shuffle": _shuffle,
    "randint": _randint,
    **{name: _transformed(name, row) for name, row in TRANSFORMATIONS.items()},
}
# Name -> where the argument `size` is by position; None where all are its extents, see `small.is_small`. Of
# `permutation` it is how many numbers are permuted.
_PLACES: dict[str, int | None] = {
    **dict.fromkeys(("rand", "randn"), None),
    **dict.fromkeys(("random", "random_sample", "ranf", "sample"), 0),
    **dict.fromkeys(("standard_normal", "standard_exponential", "standard_cauchy"), 0),
    "choice": 1,
    "permutation": 0,
    "randint": 2,
    **{name: len(row.parameters) for name, row in TRANSFORMATIONS.items()},
}
_QUIET = frozenset({type(None), type, *SCALARS})
"""Types of arguments of which NumPy warns of nothing."""


def _checked(draw: Callable[..., Any]) -> Callable[..., Any]:
    """The same, which leaves it to NumPy to judge arguments that do not fit."""
    signature = inspect.signature(draw)

    def attempt(owner: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        try:
            signature.bind(owner, *args, **kwargs)
        except TypeError:
            return None
        return draw(owner, *args, **kwargs)

    return attempt


def _choice_of(numpys: Callable[..., Any]) -> Callable[..., Any]:
    """A method of NumPy's, whose code asks ours for one integer, and makes an array of that."""

    @functools.wraps(numpys)
    def choice(self: Any, a: Any, size: Any = None, *args: Any, **kwargs: Any) -> Any:
        found = numpys(self, a, size, *args, **kwargs)
        return int(found) if size is None and type(a) in INTEGERS else found

    return choice


def _method(name: str, draw: Callable[..., Any]) -> Callable[..., Any]:
    hosted, attempt, numpys = getattr(_RandomStateMethods, name), _checked(draw), getattr(_NUMPYS, name)
    if name == "choice":
        hosted, numpys = _choice_of(hosted), _choice_of(numpys)

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        if name in _OF_ELEMENTS:
            with self._mutex:
                settle(self)
                found = _of_elements(name, numpys.__get__(self), args, kwargs, f"random.RandomState.{name}")
            if found is not NOT_DONE:
                return found
        drawn = attempt(self, args, kwargs)
        return hosted(self, *args, **kwargs) if drawn is None else None if drawn is NOTHING else drawn

    method.__name__ = name
    method.__qualname__ = f"RandomState.{name}"
    method.__doc__ = hosted.__doc__
    return at_once(_PLACES[name], numpys, _QUIET)(method) if name in _PLACES else method


SHARED = _Shared()
_WRITTEN: dict[str, tuple[Any, ...]] = {"shuffle": (0, "x")}  # what a function writes to
_OF_CHOICE = ("size", "replace", "p")
_OF_ELEMENTS = ("choice", "permutation", "shuffle")


def _of_elements(
    name: str, numpys: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], counted: str
) -> Any:
    """What NumPy draws of a small array on the host, see `small`; `NOT_DONE` of others."""
    if kwargs:
        words = _OF_CHOICE[len(args) - 1 :] if name == "choice" and args else ()
        if not kwargs.keys() <= {*words}:
            return NOT_DONE
        args = *args, *[kwargs.get(word, word == "replace" or None) for word in words]
    if name in _WRITTEN:
        return None if shuffled(numpys, args, counted) else NOT_DONE
    return of_elements(numpys, args, counted)


def _function(name: str, draw: Callable[..., Any]) -> Callable[..., Any]:
    numpys, attempt = getattr(np.random, name), _checked(draw)
    counted = f"random.{name}"

    def function(*args: Any, **kwargs: Any) -> Any:
        if name in _OF_ELEMENTS and (found := _of_elements(name, numpys, args, kwargs, counted)) is not NOT_DONE:
            return found
        drawn = attempt(SHARED, args, kwargs)
        if drawn is None:
            return call(numpys, args, kwargs, name=counted, mutates=_WRITTEN.get(name, OUT))
        return None if drawn is NOTHING else drawn

    made = shared_at_once(function, _PLACES[name], numpys, _QUIET) if name in _PLACES else function
    return describe(made, numpys, counted)  # type: ignore[no-any-return]


for _name, _draw in _DRAWS.items():
    dispatch.register(getattr(np.random, _name), _function(_name, _draw))
    if hasattr(_NUMPYS, _name):
        setattr(RandomState, _name, _method(_name, _draw))
dispatch.register(np.random.RandomState, RandomState)

__all__ = ["RandomState"]

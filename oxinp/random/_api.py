"""Random numbers: NumPy's generators with our arrays, small draws on the host, large ones on the device.

Both draw from one state, NumPy's bit generator, so that any sequence of calls gives NumPy's numbers. What the device
has kernels for is drawn there from the threshold on; what is a function of such numbers, as NumPy computes it, follows
as a chain of elementwise operations, within the accuracy of these. All else is NumPy's, on the host.
"""

from __future__ import annotations

import inspect
import math
import operator
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from oxinp._api.fronts import describe
from oxinp._core.array import dispatch
from oxinp._core.array.ndarray import ndarray
from oxinp._core.host.fallback import OUT, Mutated, call
from oxinp._core.lazy.placement import starts_on_device
from oxinp._core.lazy.record import check_writeable, store_result, wrap_host
from oxinp._core.ops import draws
from oxinp._core.ops.draws import Counter, Ending, Position
from oxinp._runtime.forking import free_in_children
from oxinp.random import philox
from oxinp.random.philox import Philox4x32
from oxinp.random.transformed import FLOAT64, INTEGERS, SCALARS, TRANSFORMATIONS, Transformation, broadcast

# What a method writes to, self being argument 0; `out` by position, since methods tell `inspect` nothing everywhere.
_MUTATES: dict[str, tuple[Mutated, ...]] = {
    "Generator.permuted": (3, *OUT),
    "Generator.random": (3, *OUT),
    "Generator.shuffle": (1, "x"),
    "Generator.standard_exponential": (4, *OUT),
    "Generator.standard_gamma": (4, *OUT),
    "Generator.standard_normal": (3, *OUT),
    "RandomState.shuffle": (1, "x"),
}
# What gives no arrays.
STATE = {"bit_generator", "spawn", "seed", "get_state", "set_state", "bytes"}

FLOAT32 = np.dtype(np.float32)
_KINDS = {FLOAT32: "f32", FLOAT64: "f64"}


def _method(kind: type, name: str) -> Callable[..., Any]:
    numpys = getattr(kind, name)
    qualified = f"{kind.__name__}.{name}"
    mutates = _MUTATES.get(qualified, OUT)

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        settle(self)
        return call(numpys, (self, *args), kwargs, name=f"random.{qualified}", mutates=mutates)

    method.__name__ = name
    method.__qualname__ = qualified
    method.__doc__ = numpys.__doc__
    return method


def settle(generator: Any) -> None:
    """Bring the bit generator of one of our generators to where the last draw on the device ended."""
    if generator._ending is not None:
        generator._settle()


def _methods(kind: type) -> dict[str, Any]:
    names = [name for name in dir(kind) if not name.startswith("_") and name not in STATE]
    return {name: _method(kind, name) for name in names} | {"_ending": None}  # where a draw ends, see `settle`


_GeneratorMethods: Any = type("_GeneratorMethods", (np.random.Generator,), _methods(np.random.Generator))
_RandomStateMethods: Any = type("_RandomStateMethods", (np.random.RandomState,), _methods(np.random.RandomState))
_NUMPYS: Any = np.random.Generator
# Where a state is, by the bit generator; those of variates that take as many words as they need.
_POSITIONS: dict[type, Callable[[dict[str, Any]], Position | Counter | None]] = {
    np.random.PCG64: Position.of,
    np.random.PCG64DXSM: Position.of,
    np.random.Philox: Counter.of,
    Philox4x32: philox.position,
}
_REJECTING = {np.random.PCG64, np.random.PCG64DXSM}


def _shape_of(size: Any) -> tuple[int, ...] | None:
    """The shape that a size says; None for one element, and for what NumPy has to judge."""
    if size is None:
        return None
    try:
        shape = tuple([operator.index(n) for n in size]) if isinstance(size, tuple | list) else (operator.index(size),)
    except TypeError:
        return None
    return shape if all(n >= 0 for n in shape) else None


class Generator(_GeneratorMethods):  # type: ignore[misc]  # made above
    """See `numpy.random.Generator`."""

    _is_own = False  # nobody else has the bit generator
    _ending: Ending | None

    def __init__(self, bit_generator: Any) -> None:
        super().__init__(bit_generator)
        self._mutex = free_in_children(threading.RLock())

    @property
    def bit_generator(self) -> Any:
        """See `numpy.random.Generator.bit_generator`."""
        settle(self)
        self._is_own = False
        return _NUMPYS.bit_generator.__get__(self)

    def _settle(self) -> None:
        with self._mutex:
            if self._ending is not None:
                _NUMPYS.bit_generator.__get__(self).state = self._ending.position().numpys()
                self._ending = None

    def _draw(
        self, shape: tuple[int, ...], nbytes: int, ask: Callable[[Any], tuple[Any, Any]], *, rejects: bool
    ) -> Any:
        """Draw on the device where that is the place to; None where it is not.

        Parameters
        ----------
        shape : tuple of int
        nbytes : int
            Of an element.
        ask : callable
            ``ask(position)`` -> the numbers, and the `Position` or the `Ending` after them.
        rejects : bool
            It takes as many words as it needs.
        """
        bit_generator = _NUMPYS.bit_generator.__get__(self)
        kind = type(bit_generator)
        has_kernels = kind in (_REJECTING if rejects else _POSITIONS)
        if not has_kernels or not starts_on_device(math.prod(shape) * nbytes):
            return None
        with self._mutex:
            settle(self)
            with bit_generator.lock:
                position = _POSITIONS[kind](bit_generator.state)
                if position is None:
                    return None
                array, after = ask(position)
                if isinstance(after, Ending):
                    if self._is_own:
                        self._ending = after
                        return array
                    after = after.position()
                bit_generator.state = after.numpys()
        return array

    def _standard(self, name: str, size: Any, dtype: Any, out: Any = None) -> Any:
        """Standard numbers from the device; None where NumPy is to draw them, or to say what is wrong."""
        shape = _shape_of(size)
        if out is not None:
            if type(out) is not ndarray or (shape is not None and shape != out.shape):
                return None
            shape = out.shape
        kind = _KINDS.get(dtype if isinstance(dtype, np.dtype) else np.dtype(dtype))
        if shape is None or kind is None:
            return None
        wanted = np.dtype(dtype)
        if out is not None and (out.dtype != wanted or not out._layout.is_contiguous or not out.flags.writeable):
            return None
        rejects = name != "uniform"
        make: Any = draws.variates if rejects else draws.fill
        array = self._draw(
            shape, wanted.itemsize, lambda at: make(at, f"{name}_{kind}", wanted, shape), rejects=rejects
        )
        if array is None or out is None:
            return array
        check_writeable(out)
        store_result(out, array._storage.value)
        return out

    def random(self, size: Any = None, dtype: Any = np.float64, out: Any = None) -> Any:
        """See `numpy.random.Generator.random`."""
        drawn = self._standard("uniform", size, dtype, out)
        return self._on_host("random", (size, dtype, out)) if drawn is None else drawn

    def standard_normal(self, size: Any = None, dtype: Any = np.float64, out: Any = None) -> Any:
        """See `numpy.random.Generator.standard_normal`."""
        drawn = self._standard("normal", size, dtype, out)
        return self._on_host("standard_normal", (size, dtype, out)) if drawn is None else drawn

    def standard_exponential(
        self, size: Any = None, dtype: Any = np.float64, method: str = "zig", out: Any = None
    ) -> Any:
        """See `numpy.random.Generator.standard_exponential`."""
        drawn = self._standard("exponential", size, dtype, out) if method == "zig" else None
        return self._on_host("standard_exponential", (size, dtype, method, out)) if drawn is None else drawn

    def integers(
        self, low: Any, high: Any = None, size: Any = None, dtype: Any = np.int64, endpoint: bool = False
    ) -> Any:
        """See `numpy.random.Generator.integers`."""
        drawn = self._integers(low, high, _shape_of(size), dtype, endpoint)
        return self._on_host("integers", (low, high, size, dtype, endpoint)) if drawn is None else drawn

    def _integers(self, low: Any, high: Any, shape: tuple[int, ...] | None, dtype: Any, endpoint: bool) -> Any:
        """Integers from the device; None where NumPy is to draw them, or to say what is wrong."""
        if high is None:
            low, high = 0, low
        if shape is None or type(low) not in INTEGERS or type(high) not in INTEGERS:
            return None
        try:
            wanted = np.dtype(dtype)
        except TypeError:
            return None
        if wanted.kind not in "iu" or not wanted.isnative:
            return None
        low, high, bounds = int(low), int(high) - (not endpoint), np.iinfo(wanted)
        if not bounds.min <= low < high <= bounds.max:
            return None
        bits, largest = wanted.itemsize * 8, high - low
        rejects, ask = _asked(bits, largest, low & ((1 << bits) - 1), wanted, shape)
        return self._draw(shape, wanted.itemsize, ask, rejects=rejects)

    def _transformed(self, name: str, row: Transformation, values: list[Any], size: Any) -> Any:
        """Numbers of a distribution from the device; None where NumPy is to draw them, or to say what is wrong."""
        shape = _shape_of(size)
        numpys = getattr(_NUMPYS, name)
        if all(type(value) in SCALARS for value in values):
            if shape is None:
                return None
            numpys(self, *values, size=0)  # raises where the parameters are wrong
            ready, least = [float(value) for value in values], values[0]
        else:
            found = broadcast(values, size, shape)
            if found is None:
                return None
            ready, shape = found
            if not starts_on_device(math.prod(shape) * FLOAT64.itemsize):
                return None
            extremes = [tuple(map(float, numbers)) for numbers in row.extremes(*ready)]
            if any(math.isnan(number) for numbers in extremes for number in numbers):
                return None
            for numbers in extremes:
                numpys(self, *numbers, size=0)
            least = extremes[0][0]
        if name == "weibull" and least <= 0:
            return None
        numbers = self._standard(row.standard, shape, FLOAT64)
        return None if numbers is None else row.function(numbers, *ready)

    def _on_host(self, name: str, args: tuple[Any, ...]) -> Any:
        """NumPy's own method: with numbers alone as what small draws do, with arrays as a fallback."""
        if all(type(x) in _PLAIN or (type(x) is tuple and all(type(n) is int for n in x)) for x in args):
            settle(self)
            return wrap_host(getattr(_NUMPYS, name)(self, *args))
        return getattr(_GeneratorMethods, name)(self, *args)

    def bytes(self, length: int) -> bytes:
        """See `numpy.random.Generator.bytes`."""
        settle(self)
        drawn: bytes = super().bytes(length)
        return drawn

    def spawn(self, n_children: int) -> list[Any]:
        """See `numpy.random.Generator.spawn`."""
        return [Generator(child.bit_generator) for child in super().spawn(n_children)]

    def __reduce__(self) -> Any:
        return Generator, (self.bit_generator,)


def _asked(bits: int, largest: int, low: int, dtype: np.dtype[Any], shape: tuple[int, ...]) -> tuple[bool, Any]:
    """Whether numbers are rejected, and what `Generator._draw` asks for.

    That is integers of `bits` bits from `low` to ``low + largest``, as NumPy draws them.
    """
    words = 32 if bits == 64 and largest < 1 << 32 else bits
    if words >= 32 and largest == (1 << words) - 1:
        return False, _whole_range(bits, words, low, dtype, shape)
    count = largest + 1
    threshold = (1 << words) % count
    expected = 1 / (1 - threshold / (1 << words))
    name = f"lemire_u{words}" if words == bits else f"lemire_u{words}_as_u{bits}"
    return True, lambda at: draws.variates(at, name, dtype, shape, (count, threshold, low), expected)


def _whole_range(bits: int, words: int, low: int, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Any:
    """The same where every word is a number."""
    unsigned = np.dtype(f"u{words // 8}")

    def ask(at: Position | Counter) -> tuple[Any, Position | Counter]:
        drawn, after = draws.fill(at, "words" if words == 64 else "halves", unsigned, shape)
        wide = drawn if words == bits else drawn.astype(f"u{bits // 8}")
        return (wide + np.dtype(f"u{bits // 8}").type(low) if low else wide).view(dtype), after

    return ask


_PLAIN = {type(None), bool, str, type, np.dtype, *(type(np.dtype(code)) for code in "?bhilBHILfd"), *SCALARS}


def _derived(name: str, row: Transformation) -> Callable[..., Any]:
    """The method of a distribution."""
    numpys = getattr(_NUMPYS, name)
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    pairs = [*row.parameters.items(), ("size", None)]
    signature = inspect.Signature([inspect.Parameter(word, kind, default=default) for word, default in pairs])

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError:
            return numpys(self, *args, **kwargs)  # which raises as well
        bound.apply_defaults()
        *values, size = bound.args
        drawn = self._transformed(name, row, values, size)
        return self._on_host(name, tuple(bound.args)) if drawn is None else drawn

    method.__name__ = name
    method.__qualname__ = f"Generator.{name}"
    method.__doc__ = numpys.__doc__
    method.__signature__ = signature  # type: ignore[attr-defined]
    return method


for _name, _row in TRANSFORMATIONS.items():
    setattr(Generator, _name, _derived(_name, _row))


class RandomState(_RandomStateMethods):  # type: ignore[misc]
    """See `numpy.random.RandomState`."""

    def __reduce__(self) -> Any:
        return RandomState, (), self.get_state(legacy=False)


def default_rng(seed: Any = None) -> Any:
    """See `numpy.random.default_rng`."""
    if isinstance(seed, Generator):
        return seed
    generator = Generator(np.random.default_rng(seed).bit_generator)
    generator._is_own = not isinstance(seed, np.random.BitGenerator | np.random.Generator)
    return generator


for _theirs, _ours in ((np.random.Generator, Generator), (np.random.RandomState, RandomState)):
    dispatch.register(_theirs, _ours)
dispatch.register(np.random.default_rng, describe(default_rng, np.random.default_rng, "random.default_rng"))

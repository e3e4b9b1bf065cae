"""Random numbers: NumPy's generators with our arrays, small draws on the host, large ones on the device.

Both draw from one state, NumPy's bit generator, so that any sequence of calls gives NumPy's numbers. What the device
has kernels for is drawn there from the threshold on; what is a function of such numbers, as NumPy computes it, follows
as a chain of elementwise operations, within the accuracy of these. All else is NumPy's, on the host.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from oxinp._api.fronts import describe
from oxinp._core.array import dispatch
from oxinp._core.array.ndarray import ndarray
from oxinp._core.host.fallback import NOT_DONE
from oxinp._core.lazy.handle import Handle
from oxinp._core.lazy.placement import starts_on_device
from oxinp._core.lazy.results import as_array, wrap_host
from oxinp._core.lazy.stores import check_writeable, store_result
from oxinp._core.manipulation.copy import asnumpy
from oxinp._core.ops import draws, twister
from oxinp._core.ops.draws import Counter, Ending, Position
from oxinp._core.ops.twister import Twist, TwistEnding
from oxinp.random import philox, shuffling
from oxinp.random.between import between
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
from oxinp.random.philox import Philox4x32
from oxinp.random.small import PLAIN, at_once, of_elements, shuffled
from oxinp.random.transformed import (
    FLOAT64,
    INTEGERS,
    SCALARS,
    TRANSFORMATIONS,
    Transformation,
    broadcast,
    inverted,
    quotients,
)

FLOAT32 = np.dtype(np.float32)
_KINDS = {FLOAT32: "f32", FLOAT64: "f64"}


_GeneratorMethods: Any = type("_GeneratorMethods", (np.random.Generator,), methods(np.random.Generator))
_NUMPYS: Any = np.random.Generator
# Where a state is, by the bit generator.
_POSITIONS: dict[type, Callable[[dict[str, Any]], Position | Counter | Twist | None]] = {
    np.random.PCG64: Position.of,
    np.random.PCG64DXSM: Position.of,
    np.random.Philox: Counter.of,
    Philox4x32: philox.position,
    np.random.MT19937: Twist.of,
}
_POSITIONED = {np.random.PCG64, np.random.PCG64DXSM, np.random.Philox}  # those of a state that words lead to
_ARRAYS = (ndarray, np.ndarray)
# What MT19937 has kernels of its own for, of what takes as many words as it needs.
_OF_TWISTS = {"lemire_u32", "lemire_u32_as_u64", "positive_f64"}
# How many times the bytes have to be drawn for the device to be the place: jumps take a tenth of a millisecond.
_TIMES = {np.random.MT19937: 8}
_ROOM = {np.random.PCG64: 1.25, np.random.PCG64DXSM: 1.25}  # bytes for one of the result; for others words wait as well
_MOST_ROOM = 3


def fill(at: Any, name: str, dtype: np.dtype[Any], shape: tuple[int, ...]) -> tuple[Any, Any]:
    """Draw what takes a fixed number of words; see `draws.fill`."""
    return twister.draw(at, name, dtype, shape) if isinstance(at, Twist) else draws.fill(at, name, dtype, shape)


def variates(
    at: Any, name: str, dtype: np.dtype[Any], shape: tuple[int, ...], parameters: Any = (), expected: float = 1
) -> tuple[Any, Any]:
    """Draw what takes as many words as it needs; see `draws.variates`."""
    if isinstance(at, Twist):
        if name in _OF_TWISTS:
            return twister.draw(at, name, dtype, shape, parameters, 1 / expected)
        return twister.variates(at, name, dtype, shape, parameters, expected)
    return draws.variates(at, name, dtype, shape, parameters, expected)


class Generator(_GeneratorMethods, metaclass=TakesNumpys):  # type: ignore[misc]  # made above
    """See `numpy.random.Generator`."""

    _numpys = _NUMPYS
    _is_own = False  # nobody else has the bit generator
    _ending: Ending | TwistEnding | None

    def __init__(self, bit_generator: Any) -> None:
        super().__init__(bit_generator)
        self._mutex = mutex_of(_NUMPYS.bit_generator.__get__(self))

    @property
    def bit_generator(self) -> Any:
        """See `numpy.random.Generator.bit_generator`."""
        with self._mutex:
            settle(self)
            self._is_own = False
        return _NUMPYS.bit_generator.__get__(self)

    def _settle(self) -> None:
        if self._ending is not None:
            _NUMPYS.bit_generator.__get__(self).state = self._ending.position().numpys()
            self._ending = None

    def _draw(
        self,
        shape: tuple[int, ...],
        nbytes: int,
        ask: Callable[[Any], tuple[Any, Any] | None],
        *,
        is_fixed: bool = False,
    ) -> Any:
        """Draw on the device where that is the place to; None where it is not.

        Parameters
        ----------
        shape : tuple of int
        nbytes : int
            Of an element.
        ask : callable
            ``ask(position)`` -> the numbers, and the `Position` or the `Ending` after them; None for NumPy to draw.
        is_fixed : bool
            The draw takes a fixed number of words.
        """
        bit_generator = _NUMPYS.bit_generator.__get__(self)
        kind = type(bit_generator)
        if kind not in _POSITIONS or 0 in shape:
            return None
        room = None if is_fixed and kind is not np.random.MT19937 else _ROOM.get(kind, _MOST_ROOM)
        if not is_drawn_on_device(math.prod(shape) * nbytes, _TIMES.get(kind, 1), room):
            return None
        with self._mutex:
            settle(self)
            with bit_generator.lock:
                position = _POSITIONS[kind](bit_generator.state)
                if position is None:
                    return None
                asked = ask(position)
                if asked is None:
                    return None
                array, after = asked
                if isinstance(after, Ending | TwistEnding):
                    if self._is_own:
                        keep(self, after)
                        return array
                    after = after.position()
                bit_generator.state = after.numpys()
        return array

    def _standard(self, name: str, size: Any, dtype: Any, out: Any = None) -> Any:
        """Standard numbers from the device; None where NumPy is to draw them, or to say what is wrong."""
        shape = shape_of(size)
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
        named = f"{name}_{kind}"
        make = fill if name == "uniform" else variates
        array = self._draw(
            shape, wanted.itemsize, lambda at: make(at, named, wanted, shape), is_fixed=name == "uniform"
        )
        if array is None or out is None:
            return array
        check_writeable(out)
        store_result(out, array._storage.value)
        return out

    @at_once(0, _NUMPYS.random)
    def random(self, size: Any = None, dtype: Any = np.float64, out: Any = None) -> Any:
        """See `numpy.random.Generator.random`."""
        drawn = self._standard("uniform", size, dtype, out)
        return self._on_host("random", (size, dtype, out)) if drawn is None else drawn

    @at_once(0, _NUMPYS.standard_normal)
    def standard_normal(self, size: Any = None, dtype: Any = np.float64, out: Any = None) -> Any:
        """See `numpy.random.Generator.standard_normal`."""
        drawn = self._standard("normal", size, dtype, out)
        return self._on_host("standard_normal", (size, dtype, out)) if drawn is None else drawn

    @at_once(0, _NUMPYS.standard_exponential)
    def standard_exponential(
        self, size: Any = None, dtype: Any = np.float64, method: str = "zig", out: Any = None
    ) -> Any:
        """See `numpy.random.Generator.standard_exponential`."""
        drawn = None
        if method == "zig":
            drawn = self._standard("exponential", size, dtype, out)
        elif method == "inv" and out is None:
            uniforms = self._standard("uniform", size, dtype)
            drawn = None if uniforms is None else inverted(uniforms)
        return self._on_host("standard_exponential", (size, dtype, method, out)) if drawn is None else drawn

    def standard_cauchy(self, size: Any = None) -> Any:
        """See `numpy.random.Generator.standard_cauchy`."""
        drawn = quotients(lambda shape: self._standard("normal", shape, FLOAT64), shape_of(size))
        return self._on_host("standard_cauchy", (size,)) if drawn is None else drawn

    @at_once(2, _NUMPYS.integers)
    def integers(
        self, low: Any, high: Any = None, size: Any = None, dtype: Any = np.int64, endpoint: bool = False
    ) -> Any:
        """See `numpy.random.Generator.integers`."""
        drawn = self._integers(low, high, shape_of(size), dtype, endpoint)
        if drawn is None and (isinstance(low, _ARRAYS) or isinstance(high, _ARRAYS)):
            drawn = self._between(low, high, size, dtype, endpoint=endpoint)
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
        return self._draw(shape, wanted.itemsize, _asked(bits, largest, low & ((1 << bits) - 1), wanted, shape))

    def _between(self, low: Any, high: Any, size: Any, dtype: Any, *, endpoint: bool) -> Any:
        """Integers between bounds that are arrays, see `between`."""
        if high is None:
            low, high = 0, low
        shape, wanted = shape_of(size), np.dtype(dtype)
        has_position = type(_NUMPYS.bit_generator.__get__(self)) in _POSITIONED
        if not has_position or (size is not None and shape is None) or wanted.kind not in "iu" or wanted.itemsize < 4:
            return None
        return between(
            low, high, shape, wanted, lambda shape, ask: self._draw(shape, wanted.itemsize, ask), endpoint=endpoint
        )

    def _transformed(self, name: str, row: Transformation, values: list[Any], size: Any) -> Any:
        """Numbers of a distribution from the device; None where NumPy is to draw them, or to say what is wrong."""
        shape = shape_of(size)
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
            if size is None and not shape:
                return None  # a float
            if not starts_on_device(math.prod(shape) * FLOAT64.itemsize):
                return None
            extremes = [tuple(map(float, numbers)) for numbers in row.extremes(*ready)]
            if any(math.isnan(number) for numbers in extremes for number in numbers):
                return None
            for numbers in extremes:
                numpys(self, *[np.full(1, number) for number in numbers], size=0)  # says what it does of arrays
            least = extremes[0][0]
        if name == "weibull" and least <= 0:
            return None
        numbers = self._standard(row.standard, shape, FLOAT64)
        return None if numbers is None else as_array(row.function(numbers, *ready))

    def choice(
        self, a: Any, size: Any = None, replace: bool = True, p: Any = None, axis: int = 0, shuffle: bool = True
    ) -> Any:
        """See `numpy.random.Generator.choice`."""
        is_plain = replace is True and p is None and axis == 0 and type(a) is int and a > 0
        if is_plain and (size is None or type(size) is int):
            found = self.integers(0, a, size)  # as NumPy's code does
            return int(found) if size is None else found
        found = self._of_elements("choice", (a, size, replace, p, axis, shuffle))
        if found is not NOT_DONE:
            return found
        drawn = None
        if replace is True:
            drawn = choose(
                a,
                size,
                p,
                axis,
                places=lambda extent, shape: self._integers(0, extent, shape, np.int64, endpoint=False),
                uniforms=lambda shape: self._standard("uniform", shape, FLOAT64),
                judge=lambda extent, p: _NUMPYS.choice(self, extent, 0, p=p),
            )
        if drawn is None:
            drawn = _GeneratorMethods.choice(self, a, size, replace, p, axis, shuffle)
            if size is None and type(a) in INTEGERS:  # NumPy's code asks us for one integer, and makes it an array
                return int(drawn)
        return drawn

    def _of_elements(self, name: str, args: tuple[Any, ...]) -> Any:
        """What NumPy's method draws of the elements of a small array, see `small.of_elements`."""
        with self._mutex:
            if self._ending is not None:
                self._settle()
            numpys = _NUMPYS(_NUMPYS.bit_generator.__get__(self))  # whose own code does not ask us
            return of_elements(getattr(numpys, name), args, f"random.Generator.{name}")

    def _order(self, size: int) -> Any:
        """Positions in a shuffled order, from the device; None where NumPy is to draw them."""
        if not shuffling.is_placed(size, _TIMES.get(type(_NUMPYS.bit_generator.__get__(self)), 1)):
            return None
        return self._draw((size,), FLOAT64.itemsize, lambda at: shuffling.permutation(at, size))

    def permutation(self, x: Any, axis: Any = 0) -> Any:
        """See `numpy.random.Generator.permutation`."""
        if axis == 0 and (found := self._of_elements("permutation", (x,))) is not NOT_DONE:
            return found
        drawn = shuffling.permuted_copy(x, axis, self._order)
        return _GeneratorMethods.permutation(self, x, axis) if drawn is None else drawn

    def shuffle(self, x: Any, axis: Any = 0) -> None:
        """See `numpy.random.Generator.shuffle`."""
        if axis == 0:
            with self._mutex:
                if self._ending is not None:
                    self._settle()
                if shuffled(_NUMPYS.shuffle.__get__(self), (x,), "random.Generator.shuffle"):
                    return
        if not shuffling.shuffle(x, axis, self._order):
            _GeneratorMethods.shuffle(self, x, axis)

    def permuted(self, x: Any, *, axis: Any = None, out: Any = None) -> Any:
        """See `numpy.random.Generator.permuted`."""
        drawn = shuffling.permuted(x, axis, out, self._order)
        return _GeneratorMethods.permuted(self, x, axis=axis, out=out) if drawn is None else drawn

    def _on_host(self, name: str, args: tuple[Any, ...]) -> Any:
        """NumPy's own method: with numbers alone as what small draws do, with arrays as a fallback."""
        if all(type(x) in PLAIN or (type(x) is tuple and all(type(n) is int for n in x)) for x in args):
            with self._mutex:
                if self._ending is not None:
                    self._settle()
                return wrap_host(getattr(_NUMPYS, name)(self, *args))
        return getattr(_GeneratorMethods, name)(self, *args)

    def bytes(self, length: int) -> bytes:
        """See `numpy.random.Generator.bytes`."""
        if type(length) is int and length > 0:
            halves = self._integers(0, (1 << 32) - 1, (-(-length // 4),), np.uint32, endpoint=True)
            if halves is not None:
                return asnumpy(halves).tobytes()[:length]
        with self._mutex:
            settle(self)
            drawn: bytes = super().bytes(length)
        return drawn

    def spawn(self, n_children: int) -> list[Any]:
        """See `numpy.random.Generator.spawn`."""
        return [Generator(child.bit_generator) for child in super().spawn(n_children)]

    def __reduce__(self) -> Any:
        return _unpickled, (self.bit_generator,), None


def _unpickled(bit_generator: Any) -> Generator:
    return Generator(bit_generator_of(bit_generator))


def _asked(bits: int, largest: int, low: int, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Any:
    """What `Generator._draw` asks for.

    That is integers of `bits` bits from `low` to ``low + largest``, as NumPy draws them.
    """
    words = 32 if bits == 64 and largest < 1 << 32 else bits
    if words >= 32 and largest == (1 << words) - 1:
        return _whole_range(bits, words, low, dtype, shape)
    count = largest + 1
    threshold = (1 << words) % count
    expected = 1 / (1 - threshold / (1 << words))
    name = f"lemire_u{words}" if words == bits else f"lemire_u{words}_as_u{bits}"
    return lambda at: variates(at, name, dtype, shape, (count, threshold, low), expected)


def _whole_range(bits: int, words: int, low: int, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Any:
    """The same where every word is a number."""
    unsigned = np.dtype(f"u{words // 8}")

    def ask(at: Any) -> tuple[Any, Any]:
        drawn, after = fill(at, "words" if words == 64 else "halves", unsigned, shape)
        wide = drawn if words == bits else drawn.astype(f"u{bits // 8}")
        return (wide + np.dtype(f"u{bits // 8}").type(low) if low else wide).view(dtype), after

    return ask


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
    return at_once(len(row.parameters), numpys)(method)


for _name, _row in TRANSFORMATIONS.items():
    setattr(Generator, _name, _derived(_name, _row))


def default_rng(seed: Any = None) -> Any:
    """See `numpy.random.default_rng`."""
    if isinstance(seed, _GeneratorMethods):
        return seed
    generator = Generator(np.random.default_rng(asnumpy(seed)[()] if isinstance(seed, Handle) else seed).bit_generator)
    generator._is_own = not isinstance(seed, np.random.BitGenerator | np.random.Generator)
    return generator


dispatch.register(np.random.Generator, Generator)
dispatch.register(np.random.default_rng, describe(default_rng, np.random.default_rng, "random.default_rng"))

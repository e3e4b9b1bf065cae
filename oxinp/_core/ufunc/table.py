"""THE UFUNC TABLE: one row per ufunc that the device computes.

A row creates the namespace entry, the operators, fusion, the tests and the benchmark of its ufunc. Loops, result types
and identities are NumPy's own (`numpy.ufunc.resolve_dtypes`, asked once per combination of operands).
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.introspect import opt_func_info

from oxinp._core.errors.hearing import attributed
from oxinp._core.ufunc import exceptions
from oxinp._ptx import math
from oxinp._ptx.math import choose, complex_inverse, complex_power, division, integers, parts
from oxinp._ptx.math import complex as complex_math
from oxinp._ptx.types import i64, pred, u64

Lowering = Callable[..., Any]  # (builder, *values) -> value

SCALAR_WEIGHT, VECTOR_WEIGHT = 8.0, 3.0
"""How much longer than an addition NumPy takes for an elementary function: by scalar and by vector instructions."""
_LONG = ("sin", "cos", "arccosh")  # by vector instructions, too
_LOOPS = opt_func_info()


class UfuncRow(NamedTuple):
    """What the device knows of a ufunc.

    Attributes
    ----------
    numpy : numpy.ufunc
        Whose loops, casting and errors ours are.
    lowering : dict of str to callable, or tuple of these
        By the dtype of a loop's first input, its name or its kind: (builder, values of the loop's dtypes) -> value.
        That of kind "f" serves float16 too, in float32 and rounded, as NumPy does it. A ufunc of several outputs has
        one dict for each.
    python : callable or None
        The fastest spelling on host arrays (`operator.add` beats `numpy.add`).
    operators : tuple of str
        Special methods: the plain, the reflected and the in-place one; "" where there is none. One of a single operand.
    ulp : float
        Bound against the true value; 0 is bit-identical to NumPy.
    numpy_ulp : float
        NumPy's own bound against the true value, where it does not round correctly.
    complex_ulp : float
        The same for complex loops, in units of the larger part; 0 is bit-identical to NumPy on a CPU with FMA.
    weight : float
        Cost of an element, in additions, for placement.
    takes_any_integer : bool
        Python integers beyond the loop's dtype are no error.
    either_zero : bool
        Of zeros of either sign NumPy itself gives now the one, now the other.
    """

    numpy: np.ufunc
    lowering: dict[str, Lowering] | tuple[dict[str, Lowering], ...]
    python: Callable[..., Any] | None = None
    operators: tuple[str, ...] = ()
    ulp: float = 0.0
    numpy_ulp: float = 0.0
    complex_ulp: float = 0.0
    weight: float = 1.0
    takes_any_integer: bool = False
    either_zero: bool = False

    def weight_of(self, kind: str) -> float:
        """Return the weight of a loop by the kind of its first input: NumPy has no vector loops of complex numbers."""
        return SCALAR_WEIGHT if kind == "c" and self.weight == VECTOR_WEIGHT else self.weight

    @property
    def name(self) -> str:
        """NumPy's name."""
        return self.numpy.__name__

    @property
    def may_warn(self) -> bool:
        """Whether there are elements that NumPy warns of."""
        return self.numpy in exceptions.OF_UFUNCS

    @property
    def on_host(self) -> Callable[..., Any]:
        """What NumPy's operator computes host arrays with, warning in the name of the user's line."""
        return self._attributed(self.python or self.numpy)

    @property
    def ufunc_on_host(self) -> Callable[..., Any]:
        """What NumPy's ufunc does; operators know simpler powers."""
        return self._attributed(self.numpy)

    def _attributed(self, compute: Callable[..., Any]) -> Callable[..., Any]:
        return attributed(compute, self.numpy.nin) if self.may_warn else compute

    @property
    def lowerings(self) -> tuple[dict[str, Lowering], ...]:
        """One dict per output."""
        return self.lowering if isinstance(self.lowering, tuple) else (self.lowering,)


def _kinds(kinds: str, lower: Lowering) -> dict[str, Lowering]:
    return dict.fromkeys(kinds, lower)


def _of_values(name: str, function: Callable[..., Any]) -> Lowering:
    """Return the lowering that is an operation of values, which needs no builder; `name` is what `explain` calls it."""

    def lower(k: Any, *values: Any) -> Any:  # noqa: ARG001 - every lowering takes the builder
        return function(*values)

    lower.__name__ = name
    return lower


def _magnitude(name: str) -> Lowering:
    """Return the lowering that clears the sign of floats, of NaN too, of which the machine's ``abs`` may leave it."""

    def lower(k: Any, a: Any) -> Any:
        return parts.copysign(k, a, k.const(1, a.type))

    lower.__name__ = name
    return lower


def _always(name: str, *, value: bool) -> Lowering:
    def lower(k: Any, a: Any) -> Any:  # noqa: ARG001
        return k.const(value, pred)

    lower.__name__ = name
    return lower


def _of_parts(function: Lowering, operation: Callable[[Any, Any], Any]) -> Lowering:
    """What holds for one part of a complex number or (and) for the other."""

    def lower(k: Any, a: Any) -> Any:
        return operation(function(k, a.real), function(k, a.imag))

    lower.__name__ = function.__name__
    return lower


def _itself(a: Any) -> Any:
    return a


def _times(factor: str) -> Lowering:
    """Multiply by a constant, computed as NumPy does in the loop's own precision."""

    def lower(k: Any, a: Any) -> Any:  # noqa: ARG001
        return a * _FACTORS[factor](a.type.dtype.type)

    lower.__name__ = factor
    return lower


_FACTORS: dict[str, Callable[[Any], Any]] = {
    "deg2rad": lambda real: real(np.pi) / real(180),
    "rad2deg": lambda real: real(180) / real(np.pi),
}


def _sqrt(k: Any, a: Any) -> Any:
    return k.sqrt(a)


def _three(stem: str) -> tuple[str, ...]:
    return (f"__{stem}__", f"__r{stem}__", f"__i{stem}__")


def _of_integers(operation: Callable[[Any, Any], Any]) -> Callable[[Any, Any, Any], Any]:
    """Comparison of integers, also of signed with unsigned ones (NumPy has loops for 64 bits)."""

    def lower(k: Any, a: Any, b: Any) -> Any:
        if a.type is b.type:
            return operation(a, b)
        # Negative numbers are below 0; the others are the same in both types.
        is_negative = (a if a.type is i64 else b) < 0
        below = operation(0, 1) if a.type is i64 else operation(1, 0)
        same = operation(k.cast(a, u64), k.cast(b, u64))
        return is_negative | same if below else ~is_negative & same

    lower.__name__ = operation.__name__
    return lower


def _native(lower: Lowering) -> dict[str, Lowering]:
    """Of floats, where float16 has bits or rules of its own."""
    return {"f": lower, "float16": lower}


def _comparison(ufunc: np.ufunc, operation: Callable[[Any, Any], Any], on_bool: Callable[..., Any]) -> UfuncRow:
    """Comparisons have no in-place form, and Python reflects them itself."""
    name = ufunc.__name__
    lowering = _kinds("fc", _of_values(name, operation)) | _kinds("iu", _of_integers(operation))
    lowering["b"] = _of_values(name, on_bool)
    return UfuncRow(ufunc, lowering, operation, (f"__{operation.__name__}__", "", ""), takes_any_integer=True)


def _logical(ufunc: np.ufunc, operation: Callable[..., Any]) -> UfuncRow:
    def lower(k: Any, *values: Any) -> Any:
        return operation(*[k.cast(value, pred) for value in values])

    lower.__name__ = ufunc.__name__
    return UfuncRow(ufunc, _kinds("biufc", lower))


def _bitwise(ufunc: np.ufunc, operation: Callable[..., Any], stem: str) -> UfuncRow:
    operators = _three(stem) if ufunc.nin == 2 else (f"__{stem}__",)
    return UfuncRow(ufunc, _kinds("biu", _of_values(ufunc.__name__, operation)), operation, operators)


def _rounding(ufunc: np.ufunc, lower: Lowering) -> UfuncRow:
    return UfuncRow(ufunc, _kinds("biu", _of_values(ufunc.__name__, _itself)) | {"f": lower})


def _choice(ufunc: np.ufunc, lower: Lowering, on_bool: Callable[..., Any], **more: Any) -> UfuncRow:
    return UfuncRow(ufunc, _kinds("iuc", lower) | _native(lower) | {"b": _of_values(ufunc.__name__, on_bool)}, **more)


def _elementary_weight(name: str) -> float:
    """Return the weight of an elementary function by what NumPy runs on this processor."""
    loops = _LOOPS.get(name, {})
    used = [loops[kinds]["current"] for kinds in ("dd", "ddd") if kinds in loops]  # of float64
    is_vector = any(not instructions.startswith("baseline") for instructions in used)
    return VECTOR_WEIGHT if is_vector and name not in _LONG else SCALAR_WEIGHT


def _elementary(ufunc: np.ufunc) -> UfuncRow:
    """Functions of `oxinp._ptx.math`; NumPy's own are within 4 ulp, those of its vector loops for float32."""
    lowering = {"f": getattr(math, ufunc.__name__)}
    modules = (complex_math, complex_inverse) if "D->D" in ufunc.types else ()
    of_complex = next((found for module in modules if (found := getattr(module, ufunc.__name__, None))), None)
    if of_complex is not None:
        lowering["c"] = of_complex
    weight = _elementary_weight(ufunc.__name__)
    return UfuncRow(ufunc, lowering, ulp=1.0, numpy_ulp=4.0, complex_ulp=6.0 * ("c" in lowering), weight=weight)


UFUNCS: tuple[UfuncRow, ...] = (
    # arithmetic
    UfuncRow(
        np.add,
        _kinds("iufc", _of_values("add", operator.add)) | {"b": _of_values("add", operator.or_)},
        operator.add,
        _three("add"),
    ),
    UfuncRow(np.subtract, _kinds("iufc", _of_values("subtract", operator.sub)), operator.sub, _three("sub")),
    UfuncRow(
        np.multiply,
        _kinds("iufc", _of_values("multiply", operator.mul)) | {"b": _of_values("multiply", operator.and_)},
        operator.mul,
        _three("mul"),
    ),
    UfuncRow(
        np.true_divide,
        _kinds("fc", _of_values("divide", operator.truediv)),
        operator.truediv,
        _three("truediv"),
        weight=2.0,
    ),
    UfuncRow(
        np.floor_divide,
        _kinds("iu", integers.floor_divide) | {"f": division.floor_divide},
        operator.floordiv,
        _three("floordiv"),
        weight=8.0,
    ),
    UfuncRow(
        np.remainder,
        _kinds("iu", integers.remainder) | {"f": division.remainder},
        operator.mod,
        _three("mod"),
        weight=8.0,
    ),
    UfuncRow(
        np.divmod,
        (
            _kinds("iu", integers.floor_divide) | {"f": division.floor_divide},
            _kinds("iu", integers.remainder) | {"f": division.remainder},
        ),
        divmod,
        ("__divmod__", "__rdivmod__", ""),
        weight=8.0,
    ),
    UfuncRow(np.fmod, _kinds("iu", integers.fmod) | {"f": division.fmod}, weight=8.0),
    UfuncRow(
        np.power,
        _kinds("iu", integers.power) | {"f": math.power, "c": complex_power.power},
        operator.pow,
        _three("pow"),
        ulp=1.0,
        numpy_ulp=1.0,
        complex_ulp=6.0,
        weight=8.0,
    ),
    UfuncRow(
        np.float_power,
        {"f": math.power, "c": complex_power.power},
        ulp=1.0,
        numpy_ulp=1.0,
        complex_ulp=6.0,
        weight=8.0,
    ),
    UfuncRow(np.negative, _kinds("iufc", _of_values("negative", operator.neg)), operator.neg, ("__neg__",)),
    UfuncRow(np.positive, _kinds("iufc", _of_values("positive", _itself)), operator.pos, ("__pos__",)),
    UfuncRow(
        np.absolute,
        _kinds("iuc", _of_values("absolute", abs))
        | {"f": _magnitude("absolute")}
        | {"b": _of_values("absolute", _itself)},
        abs,
        ("__abs__",),
        complex_ulp=1.0,
    ),
    UfuncRow(np.fabs, {"f": _magnitude("fabs")}),
    UfuncRow(np.sign, _kinds("iu", integers.sign) | {"f": parts.sign, "c": complex_math.sign}, complex_ulp=2.0),
    UfuncRow(np.square, _kinds("iufc", _of_values("square", lambda a: a * a))),
    UfuncRow(np.conjugate, _kinds("iuf", _of_values("conjugate", _itself)) | {"c": complex_math.conjugate}),
    UfuncRow(
        np.reciprocal,
        _kinds("iu", integers.reciprocal)
        | {"f": _of_values("reciprocal", lambda a: 1.0 / a), "c": complex_math.reciprocal},
        weight=2.0,
    ),
    UfuncRow(np.sqrt, _kinds("fc", _sqrt), complex_ulp=1.0, weight=2.0),
    UfuncRow(np.gcd, _kinds("iu", integers.gcd), weight=16.0),
    UfuncRow(np.lcm, _kinds("iu", integers.lcm), weight=16.0),
    # the parts of floats
    UfuncRow(np.copysign, _native(parts.copysign)),
    UfuncRow(np.signbit, _native(parts.signbit)),
    UfuncRow(np.nextafter, _native(parts.nextafter)),
    UfuncRow(np.spacing, _native(parts.spacing)),
    UfuncRow(np.heaviside, {"f": parts.heaviside}),
    UfuncRow(np.ldexp, {"f": parts.ldexp}),
    UfuncRow(np.frexp, ({"f": parts.frexp_mantissa}, {"f": parts.frexp_exponent})),
    UfuncRow(np.modf, ({"f": parts.modf_fraction}, {"f": parts.trunc})),
    UfuncRow(
        np.isnan,
        {"f": parts.isnan, "c": _of_parts(parts.isnan, operator.or_)} | _kinds("biu", _always("isnan", value=False)),
    ),
    UfuncRow(
        np.isinf,
        {"f": parts.isinf, "c": _of_parts(parts.isinf, operator.or_)} | _kinds("biu", _always("isinf", value=False)),
    ),
    UfuncRow(
        np.isfinite,
        {"f": parts.isfinite, "c": _of_parts(parts.isfinite, operator.and_)}
        | _kinds("biu", _always("isfinite", value=True)),
    ),
    UfuncRow(np.deg2rad, {"f": _times("deg2rad")}),
    UfuncRow(np.radians, {"f": _times("deg2rad")}),
    UfuncRow(np.rad2deg, {"f": _times("rad2deg")}),
    UfuncRow(np.degrees, {"f": _times("rad2deg")}),
    # rounding
    UfuncRow(np.rint, {"f": parts.rint, "c": complex_math.rint}),
    _rounding(np.floor, parts.floor),
    _rounding(np.ceil, parts.ceil),
    _rounding(np.trunc, parts.trunc),
    # choices
    _choice(np.minimum, choose.minimum, operator.and_),
    _choice(np.maximum, choose.maximum, operator.or_),
    _choice(np.fmin, choose.fmin, operator.and_, either_zero=True),
    _choice(np.fmax, choose.fmax, operator.or_, either_zero=True),
    _choice(np._core.umath.clip, choose.clip, lambda a, low, high: (a | low) & high),  # type: ignore[attr-defined]
    # elementary functions
    *map(_elementary, (np.exp, np.exp2, np.expm1, np.log, np.log2, np.log10, np.log1p)),
    *map(_elementary, (np.sin, np.cos, np.tan, np.sinh, np.cosh, np.tanh)),
    *map(_elementary, (np.arcsin, np.arccos, np.arctan, np.arcsinh, np.arccosh, np.arctanh)),
    *map(_elementary, (np.arctan2, np.hypot, np.cbrt, np.logaddexp, np.logaddexp2)),
    # bits
    _bitwise(np.bitwise_and, operator.and_, "and"),
    _bitwise(np.bitwise_or, operator.or_, "or"),
    _bitwise(np.bitwise_xor, operator.xor, "xor"),
    _bitwise(np.invert, operator.invert, "invert"),
    UfuncRow(np.left_shift, _kinds("iu", integers.left_shift), operator.lshift, _three("lshift")),
    UfuncRow(np.right_shift, _kinds("iu", integers.right_shift), operator.rshift, _three("rshift")),
    UfuncRow(np.bitwise_count, _kinds("iu", integers.bitwise_count)),
    # truth
    _logical(np.logical_and, operator.and_),
    _logical(np.logical_or, operator.or_),
    _logical(np.logical_xor, operator.xor),
    _logical(np.logical_not, operator.invert),
    _comparison(np.equal, operator.eq, lambda a, b: ~(a ^ b)),
    _comparison(np.not_equal, operator.ne, lambda a, b: a ^ b),
    _comparison(np.less, operator.lt, lambda a, b: ~a & b),
    _comparison(np.less_equal, operator.le, lambda a, b: ~a | b),
    _comparison(np.greater, operator.gt, lambda a, b: a & ~b),
    _comparison(np.greater_equal, operator.ge, lambda a, b: a | ~b),
)

"""Distributions that are functions of standard ones, as NumPy computes them: of uniforms, normals or exponentials."""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from oxinp._core.array.ndarray import ndarray
from oxinp._core.lazy.balance import balance
from oxinp._core.lazy.results import as_array
from oxinp._core.ops.c_library import form_of
from oxinp._core.ops.creation import asarray
from oxinp._core.ufunc.object import OBJECTS, ufunc
from oxinp._kernels.random import libm, libm_exp, libm_expm1, libm_log1p, libm_pow

FLOAT64 = np.dtype(np.float64)
INTEGERS = {int, *(np.dtype(code).type for code in "bBhHiIlLqQ")}
SCALARS = {float, np.float64, np.float32, *INTEGERS}


def _of_libm(name: str, lowering: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function as NumPy's generators compute it, by the C library; they tell nothing of what is not finite.

    It is computed on the device: on the host NumPy's ufunc would be, whose last bit is another one.
    """
    row = OBJECTS[name]._row
    assert isinstance(row.lowering, dict)
    function = ufunc(row._replace(lowering=row.lowering | {"float64": lowering}))
    function.operations[0].raises = None

    def apply(*operands: Any) -> Any:
        with balance.suspended():
            return function(*operands)

    return apply


LOG, EXP = _of_libm("log", libm.log), _of_libm("exp", libm_exp.exp)
POWER = _of_libm("power", libm_pow.power)
_OF_FORMS = {"log1p": libm_log1p.log1p, "expm1": libm_expm1.expm1}


@functools.cache
def _of_form(name: str) -> Callable[..., Any]:
    form, function = form_of(f"{name}_f8"), _OF_FORMS[name]

    def lower(k: Any, x: Any) -> Any:
        return function(k, x, form)

    lower.__name__ = name
    return _of_libm(name, lower)


def log1p_of_uniforms(x: Any) -> Any:
    """``log1p`` of the negatives of uniform numbers."""
    return _of_form("log1p")(x)


def expm1(x: Any) -> Any:
    """``expm1`` as NumPy's generators compute it."""
    return _of_form("expm1")(x)


def inverted(uniforms: Any) -> Any:
    """Exponentials of uniform numbers by inversion, which NumPy computes those of f32 in f64 for."""
    return as_array((-log1p_of_uniforms(-uniforms.astype(FLOAT64))).astype(uniforms.dtype))


def quotients(draw: Callable[[tuple[int, ...]], Any], shape: tuple[int, ...] | None) -> Any:
    """Cauchy numbers: quotients of normals that follow each other, of ``draw(shape)``; None where that is."""
    normals = None if shape is None else draw((*shape, 2))
    return None if normals is None else as_array(normals[..., 0] / normals[..., 1])


class Transformation(NamedTuple):
    """A distribution that is a function of a standard one's numbers, as NumPy computes it.

    Attributes
    ----------
    standard : str
        ``"uniform"``, ``"normal"`` or ``"exponential"``; ``"positive"``, uniforms of which NumPy draws 0 again.
    parameters : dict
        Names and defaults; `inspect.Parameter.empty` where there is none.
    function : callable
        ``function(numbers, *parameters)``, the latter as floats, or as arrays of f64.
    extremes : callable
        ``extremes(*parameters)``, of which some are arrays: tuples of numbers of which one is wrong if any of the
        parameters are, with NumPy's reason.
    """

    standard: str
    parameters: dict[str, Any]
    function: Callable[..., Any]
    extremes: Callable[..., tuple[tuple[Any, ...], ...]] = lambda *values: (tuple(map(_least, values)),)


def _least(value: Any) -> Any:
    return value if isinstance(value, float) else value.min()


def _ends(low: Any, high: Any) -> tuple[tuple[Any, ...], ...]:
    """A range must be finite and not negative."""
    width = high - low
    return (0.0, width.min()), (0.0, width.max())


def _sides(left: Any, mode: Any, right: Any) -> tuple[tuple[Any, ...], ...]:
    """Three places must be in order, the outer ones apart."""
    return (
        (0.0, _least(mode - left), math.inf),
        (-math.inf, 0.0, _least(right - mode)),
        (0.0, 0.0, _least(right - left)),
    )


def broadcast(values: list[Any], size: Any, shape: tuple[int, ...] | None) -> Any:
    """Parameters as floats and arrays of f64, and the shape of the draw; None for what NumPy has to judge."""
    if size is not None and shape is None:
        return None
    if not all(type(value) in SCALARS or isinstance(value, ndarray | np.ndarray) for value in values):
        return None
    ready = [float(value) if type(value) in SCALARS else asarray(value) for value in values]
    arrays = [value for value in ready if isinstance(value, ndarray)]
    if not all(array.dtype.kind in "biuf" and array.size for array in arrays):
        return None
    try:
        joined = np.broadcast_shapes(*[array.shape for array in arrays], *(() if shape is None else (shape,)))
    except ValueError:
        return None
    if shape not in (None, joined):
        return None
    ready = [value.astype(FLOAT64) if isinstance(value, ndarray) else value for value in ready]
    return ready, joined


def _logistic(u: Any, loc: float, scale: float) -> Any:
    return LOG(u / (1.0 - u)) * scale + loc


def _laplace(u: Any, loc: float, scale: float) -> Any:
    return np.where(u >= 0.5, loc - LOG(2.0 - u - u) * scale, LOG(u + u) * scale + loc)


def _triangular(u: Any, left: float, mode: float, right: float) -> Any:
    base, left_base, sqrt = right - left, mode - left, OBJECTS["sqrt"]
    is_left = u <= left_base / base
    return np.where(is_left, sqrt(u * (left_base * base)) + left, right - sqrt((1.0 - u) * ((right - mode) * base)))


_NONE = inspect.Parameter.empty
_LOCATED = {"loc": 0.0, "scale": 1.0}
TRANSFORMATIONS = {
    "uniform": Transformation("uniform", {"low": 0.0, "high": 1.0}, lambda u, low, high: u * (high - low) + low, _ends),
    "normal": Transformation("normal", _LOCATED, lambda x, loc, scale: x * scale + loc),
    "lognormal": Transformation("normal", {"mean": 0.0, "sigma": 1.0}, lambda x, mean, sigma: EXP(x * sigma + mean)),
    "exponential": Transformation("exponential", {"scale": 1.0}, lambda x, scale: x * scale),
    "rayleigh": Transformation("exponential", {"scale": 1.0}, lambda x, scale: OBJECTS["sqrt"](x * 2.0) * scale),
    "pareto": Transformation("exponential", {"a": _NONE}, lambda x, a: expm1(x / a)),
    "weibull": Transformation("exponential", {"a": _NONE}, lambda x, a: POWER(x, 1.0 / a)),
    "power": Transformation("exponential", {"a": _NONE}, lambda x, a: POWER(-expm1(-x), 1.0 / a)),
    "logistic": Transformation("positive", _LOCATED, _logistic),
    "laplace": Transformation("positive", _LOCATED, _laplace),
    "gumbel": Transformation("positive", _LOCATED, lambda u, loc, scale: loc - LOG(-LOG(1.0 - u)) * scale),
    "triangular": Transformation("uniform", dict.fromkeys(("left", "mode", "right"), _NONE), _triangular, _sides),
}

__all__ = [
    "EXP",
    "FLOAT64",
    "INTEGERS",
    "LOG",
    "POWER",
    "SCALARS",
    "TRANSFORMATIONS",
    "Transformation",
    "broadcast",
    "inverted",
    "log1p_of_uniforms",
    "quotients",
]

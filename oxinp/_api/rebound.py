"""Functions that NumPy itself writes in Python, in terms of others: its own code, over our arrays.

NumPy's functions come to us by themselves when they are called with our arrays (NEP 13, NEP 18). What does not are
those that make arrays, and classes; so its code is bound to ours for these, module by module and when first used.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import Any

import numpy as np
from numpy._core import _methods, shape_base
from numpy._core._multiarray_umath import _array_converter

from oxinp._api.fronts import implements
from oxinp._core.array import dispatch
from oxinp._core.array.ndarray import ndarray
from oxinp._core.host.exchange import StandIns, is_array
from oxinp._core.lazy.results import types
from oxinp._core.subclass import by_ufuncs

_MAKE_ARRAYS = (
    "arange array asanyarray asarray ascontiguousarray copy empty empty_like eye full full_like identity indices "
    "linspace ones ones_like zeros zeros_like"
)
# THE ROWS. The result of these is as large as their arrays ...
_OF_ARRAYS = (
    "allclose angle append apply_over_axes array_equal array_equiv asarray_chkfinite average block corrcoef cov cross "
    "delete diag_indices_from fix gradient histogram2d histogram_bin_edges histogramdd imag iscomplex "
    "isclose isneginf isposinf isreal nan_to_num polyadd polyder polyfit polyint polysub polyval "
    "real_if_close require roots setxor1d sinc sort_complex trapezoid tril_indices_from trim_zeros "
    "triu_indices_from unwrap"
)
# ... of these at most as large as the product of their arrays' sizes ...
_OF_PRODUCTS = "kron meshgrid"
# ... of these as large as an integer says, or as the product of all that do ...
_OF_LENGTHS = "bartlett blackman geomspace hamming hanning kaiser logspace vander"
# ... and that of these may be larger.
_GROWING = "cumulative_prod cumulative_sum diag_indices fromfunction indices mask_indices resize"
_OF_SQUARES = "tri tril_indices triu_indices"

# These make views, which are of what they are given only where that is ours.
_OF_VIEWS = "ix_"

_bound: dict[int, dict[str, Any]] = {}  # by the id of a module's globals
_replaced: dict[tuple[str, str], Any] = {}  # by a module's name and a function's


def replace(module: ModuleType, name: str, function: Callable[..., Any]) -> None:
    """Have a private function of NumPy's replaced in what is rebound: what does the work behind its own checks."""
    getattr(module, name)  # there it is, or NumPy has changed
    _replaced[module.__name__, name] = function


class _Bound:
    """A module of NumPy's whose functions that make arrays are ours."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        value = _ours(getattr(self._module, name))
        setattr(self, name, value)
        return value


def _broadcast(*arrays: Any) -> Any:
    """Return what `numpy.broadcast` says of shapes, on stand-ins: it would read the arrays."""
    return np.broadcast(*map(StandIns().give, arrays))


class _Converter:
    """What NumPy's private `_array_converter` does, of ours: arrays of arguments, and results of their kind."""

    def __init__(self, *values: Any) -> None:
        self._arrays = tuple([dispatch.functions[np.asanyarray](value) for value in values])

    def as_arrays(self, subok: bool = True, pyscalars: str = "convert") -> tuple[Any, ...]:  # noqa: ARG002 - NumPy's
        """Return the arrays."""
        return self._arrays

    def wrap(self, array: Any, /, to_scalar: Any = None) -> Any:  # noqa: ARG002 - NumPy's
        """Return a result as it is."""
        return array


_CLASSES: dict[Any, Any] = {np.ndarray: ndarray, np.broadcast: _broadcast, _array_converter: _Converter}


def _atleast_2d(*values: Any) -> Any:
    """See `numpy.atleast_2d`: of lists of our arrays, too."""
    stack, make = dispatch.functions[np.stack], dispatch.functions[np.asanyarray]
    given = [stack(x) if type(x) in (list, tuple) and any(map(is_array, x)) else make(x) for x in values]
    return np.atleast_2d(*given)


def _ours(value: Any) -> Any:
    if value is np.atleast_2d:
        return _atleast_2d
    if isinstance(value, type):
        return _CLASSES.get(value, value)
    if isinstance(value, np.ufunc):  # NumPy's does not tell us of `out=...`
        return dispatch.ufuncs.get(value, value)
    if isinstance(value, ModuleType):
        return _Bound(value) if value.__name__.partition(".")[0] == "numpy" else value
    if type(value) is FunctionType and value.__module__ == _POLYNOMIALS:
        return _with_globals(value, _names_of(value.__globals__))
    name = getattr(value, "__name__", "")
    return dispatch.functions[value] if name in _made and value is getattr(np, name) else value


_POLYNOMIALS = "numpy.polynomial.polyutils"  # what the modules of bases share
_made = set(_MAKE_ARRAYS.split())


def _names_of(module: dict[str, Any]) -> dict[str, Any]:
    """Return a module's globals with what makes arrays replaced, and its own functions bound to these globals."""
    names = _bound.get(id(module))
    if names is None:
        made: dict[str, Any] = {}
        for name, value in module.items():
            is_its_own = type(value) is FunctionType and value.__globals__ is module
            ours = _replaced.get((module["__name__"], name))
            made[name] = ours or (_with_globals(value, made) if is_its_own else _ours(value))
        names = _bound.setdefault(id(module), made)  # whole: other threads use it from here on
    return names


def _with_globals(function: FunctionType, names: dict[str, Any]) -> FunctionType:
    copied = FunctionType(function.__code__, names, function.__name__, function.__defaults__, function.__closure__)
    copied.__kwdefaults__ = function.__kwdefaults__
    return copied


def _wrapped(result: Any) -> Any:
    """Return ours for NumPy's arrays: what its code makes of scalars by ways that are not bound to ours."""
    if type(result) is tuple:
        return tuple(map(_wrapped, result))
    return types.from_host(result) if type(result) is np.ndarray else result


def rebound(numpys: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of NumPy's that is written in Python, over our arrays."""
    bound: list[Callable[..., Any]] = []

    def function(*args: Any, **kwargs: Any) -> Any:
        if not bound:
            source = inspect.unwrap(numpys)
            bound.append(_with_globals(source, _names_of(source.__globals__)))  # type: ignore[arg-type]
        return _wrapped(bound[0](*args, **kwargs))

    function.__wrapped__ = numpys  # type: ignore[attr-defined] # whose signature it has
    return function


def product_of_sizes(args: tuple[Any, ...]) -> float:
    """Return the product of the sizes of arrays and of the lengths of lists among arguments."""
    return math.prod(x.size if is_array(x) else len(x) for x in args if is_array(x) or isinstance(x, list | tuple))


def _square(args: tuple[Any, ...]) -> float:
    """Return the number of elements of a square, or of a rectangle, that integers say; infinity for anything else."""
    return max(args) ** 2 if args and all(type(n) is int for n in args) else math.inf


_DEFAULT_LENGTH = 50  # of `logspace` and its kin


def _lengths(args: tuple[Any, ...]) -> float:
    """Return the product of the sizes of arrays, twice of one that is alone, and of integers that may be lengths."""
    known = 1
    for x in args:
        if type(x) is int:
            known *= x if x > 0 else 1
        elif type(x) is ndarray:
            known *= x.size
        elif type(x) is list or type(x) is tuple:
            known *= len(x)
    return known * (known if len(args) == 1 else _DEFAULT_LENGTH if len(args) == 2 else 1)


replace(shape_base, "_concatenate", np.concatenate)  # not what is behind its dispatch
for _listed, _said in (
    (_OF_ARRAYS, {}),
    (_OF_PRODUCTS, {"most": product_of_sizes}),
    (_OF_SQUARES, {"most": _square}),
    (_OF_LENGTHS, {"most": _lengths}),
    (_GROWING, {"is_hosted": False}),
    (_OF_VIEWS, {"is_hosted": False}),
):
    for _name in filter(np.__all__.__contains__, _listed.split()):  # what this version has
        implements(_name, **_said)(rebound(getattr(np, _name)))


# Methods of users' classes with an `__array_ufunc__` of their own, by NumPy's code, which calls ufuncs.
_METHODS = {name: f"_{name}" for name in ("all", "any", "clip", "mean", "prod", "std", "sum", "var")}
_METHODS |= {"max": "_amax", "min": "_amin"}
by_ufuncs.update({name: rebound(getattr(_methods, private)) for name, private in _METHODS.items()})


def _accumulating(ufunc: np.ufunc) -> Callable[..., Any]:
    def accumulate(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
        return ufunc.accumulate(a.ravel() if axis is None else a, axis or 0, dtype, out)

    return accumulate


by_ufuncs.update({"cumsum": _accumulating(np.add), "cumprod": _accumulating(np.multiply)})

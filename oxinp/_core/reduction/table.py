"""THE REDUCTION TABLE: one row per reduction that the device computes.

A row is what NumPy's functions, methods and `numpy.ufunc.reduce` of that reduction run. Result dtypes and errors are
NumPy's own.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from oxinp._core.lazy.expr import Unsupported
from oxinp._core.memory.dtypes import BOOL, DEVICE_TYPES
from oxinp._kernels.problem import ReduceOp
from oxinp._kernels.reduce import operators
from oxinp._ptx import math as math_of
from oxinp._ptx.frozen import Frozen
from oxinp._ptx.math import choose
from oxinp._ptx.types import f16, f32, f64

DType = np.dtype[Any]


def _no_parameters(count: int, ddof: float) -> tuple[float, ...]:  # noqa: ARG001 - the rows' one signature
    return ()


def _degrees(count: int, ddof: float) -> tuple[float, ...]:
    return (max(count - ddof, 0),)


def _ddof(count: int, ddof: float) -> tuple[float, ...]:  # noqa: ARG001
    return (ddof,)


class Arguments:
    """What a function of NumPy's takes after the array.

    Parameters
    ----------
    names : str
        In NumPy's order.
    num_positional : int
        How many of them may be given by position.
    """

    __slots__ = ("known", "names", "num_positional")

    def __init__(self, names: str, num_positional: int) -> None:
        self.names = tuple(names.split())
        self.known = frozenset(self.names)
        self.num_positional = num_positional

    def given(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """Return by name what is given; raise `Unsupported` for what NumPy refuses."""
        given = dict(zip(self.names, args, strict=False), **kwargs) if args else kwargs
        is_clear = len(given) == len(args) + len(kwargs) and len(args) <= self.num_positional
        if not is_clear or not self.known.issuperset(given):
            raise Unsupported("arguments that NumPy refuses")
        return given


class ReductionRow(Frozen, eq=False):
    """A reduction the device computes.

    Attributes
    ----------
    name : str
    numpy : callable
        NumPy's own, for the host, for result dtypes and for errors.
    op : callable
        (dtype of the elements, dtype that is accumulated, whether there is a mask) -> how elements are combined; None
        for dtypes without a kernel.
    ufunc : numpy.ufunc or None
        Whose loops say which dtype is accumulated; None where elements are taken as they are.
    is_average : bool
        NumPy accumulates integers in float64, float16 in float32.
    has_identity : bool
        A mask may leave no elements.
    skips_nan : bool
        Elements that are NaN do not count.
    takes_one_axis : bool
        NumPy takes one axis, or None.
    parameters : callable
        (elements per result, ddof) -> parameters of the op's `finish`, as far as it has them; float64.
    about : ReductionRow or None
        What reduces squared deviations from a mean that is given.
    arguments : Arguments or None
        What its method takes; None where it is a ufunc's `reduce` alone, or no function of its own.
    aliases : tuple of str
        Further names of its function.
    is_product : bool
        Elements are products of a matrix's and a vector's, which NumPy leaves to BLAS.
    """

    name: str
    numpy: Callable[..., Any]
    op: Callable[[DType, DType, bool], ReduceOp | None]
    ufunc: np.ufunc | None = None
    is_average: bool = False
    has_identity: bool = True
    skips_nan: bool = False
    takes_one_axis: bool = False
    parameters: Callable[[int, float], tuple[float, ...]] = _no_parameters
    about: Any = None
    arguments: Arguments | None = None
    aliases: tuple[str, ...] = ()
    is_product: bool = False


# -- how elements are combined -----------------------------------------------------------------------------------------

Lowering = Callable[..., Any]


def _multiply(k: Any, a: Any, b: Any) -> Any:  # noqa: ARG001 - every lowering takes the builder
    return a * b


def _or(k: Any, a: Any, b: Any) -> Any:  # noqa: ARG001
    return a | b


def _and(k: Any, a: Any, b: Any) -> Any:  # noqa: ARG001
    return a & b


def _xor(k: Any, a: Any, b: Any) -> Any:  # noqa: ARG001
    return a ^ b


def _add_op(source: DType, dtype: DType, is_masked: bool) -> ReduceOp | None:  # noqa: ARG001 - the rows' one signature
    acc = DEVICE_TYPES[dtype]
    if dtype == BOOL:
        return ReduceOp("sum", acc, identity=False, combine=_or)
    if dtype.kind in "fc":
        return operators.compensated_sum(f32 if acc is f16 else acc)
    if source.kind in "biu" and source.itemsize < 4 <= dtype.itemsize:
        return operators.narrow_sum(acc)
    return ReduceOp("sum", acc, 0, operators.add)


def _multiply_op(source: DType, dtype: DType, is_masked: bool) -> ReduceOp | None:  # noqa: ARG001
    acc = DEVICE_TYPES[dtype]
    if dtype == BOOL:
        return ReduceOp("prod", acc, identity=True, combine=_and)
    if dtype.kind == "f":
        return operators.product(f32 if acc is f16 else acc)
    return ReduceOp("prod", acc, 1, _multiply)


def _bounds(dtype: DType) -> tuple[Any, Any]:
    """Return the least and the greatest value of a dtype."""
    if dtype == BOOL:
        return False, True
    if dtype.kind == "c":
        return complex(-math.inf, -math.inf), complex(math.inf, math.inf)
    if dtype.kind == "f":
        return -math.inf, math.inf
    return int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)


def _extremum(name: str, on_bool: Lowering, *, is_max: bool, takes_number: bool = False) -> Any:
    """Return the `op` of a maximum or minimum; with `takes_number` NaN only where there is nothing else."""
    lowering = name if takes_number else f"{name}_nan"

    def on_floats(k: Any, a: Any, b: Any) -> Any:
        return getattr(k, lowering)(a, b)

    def on_integers(k: Any, a: Any, b: Any) -> Any:
        return getattr(k, name)(a, b)

    def on_complex(k: Any, a: Any, b: Any) -> Any:
        if not takes_number:
            return on_floats(k, a, b)
        chosen = (choose.fmax if is_max else choose.fmin)(k, a, b)
        return k.where(k.isnan(a.real) & k.isnan(a.imag), b, chosen)  # before the identity comes any other NaN

    def op(source: DType, dtype: DType, is_masked: bool) -> ReduceOp | None:  # noqa: ARG001
        identity = _bounds(dtype)[0 if is_max else 1]
        if takes_number and dtype.kind in "fc":
            identity = math.nan if dtype.kind == "f" else complex(math.nan, math.nan)
        combine = {"b": on_bool, "f": on_floats, "c": on_complex}.get(dtype.kind, on_integers)
        if combine is on_integers and dtype.itemsize == 1:
            return operators.extremum_of_bytes(DEVICE_TYPES[dtype], identity, is_max=is_max)
        return ReduceOp(name, DEVICE_TYPES[dtype], identity, combine)

    return op


def _is_true(k: Any, value: Any) -> Any:
    return k.cast(value, DEVICE_TYPES[BOOL])


def _truth(name: str, *, identity: bool, combine: Lowering) -> Any:
    def op(source: DType, dtype: DType, is_masked: bool) -> ReduceOp | None:  # noqa: ARG001
        return ReduceOp(name, DEVICE_TYPES[BOOL], identity, combine, lift=_is_true)

    return op


def _bitwise(name: str, combine: Lowering, *, all_ones: bool = False) -> Any:
    """Return the `op` of a bitwise reduction, whose identity is no bits, or all of them."""

    def op(source: DType, dtype: DType, is_masked: bool) -> ReduceOp | None:  # noqa: ARG001
        if dtype == BOOL:
            return ReduceOp(name, DEVICE_TYPES[dtype], all_ones, combine)
        ones = -1 if dtype.kind == "i" else _bounds(dtype)[1]
        return ReduceOp(name, DEVICE_TYPES[dtype], ones if all_ones else 0, combine)

    return op


def _log_of_sum(lowering: Lowering) -> Any:
    """Return the `op` of the logarithm of a sum of powers."""

    def op(source: DType, dtype: DType, is_masked: bool) -> ReduceOp | None:  # noqa: ARG001
        if dtype.kind != "f":
            return None
        acc = DEVICE_TYPES[dtype]
        return ReduceOp(lowering.__name__, f32 if acc is f16 else acc, -math.inf, lowering)

    return op


def _mean_op(source: DType, dtype: DType, is_masked: bool) -> ReduceOp | None:  # noqa: ARG001
    acc = DEVICE_TYPES[dtype]
    return operators.mean(f32 if acc is f16 else acc, is_masked=is_masked)


def _root_mean_op(source: DType, dtype: DType, is_masked: bool) -> ReduceOp | None:
    return None if dtype.kind == "c" else _rooted(_mean_op(source, dtype, is_masked))


@cache
def _rooted(op: ReduceOp) -> ReduceOp:
    """Return `op` with the root of its result."""
    assert op.finish is not None
    first = op.finish

    def finish(k: Any, total: Any, *parameters: Any) -> Any:
        return k.sqrt(first(k, total, *parameters))

    return op.replace(finish=finish)


def _variance(k: Any, count: Any, squares: Any, ddof: Any) -> Any:
    return squares / k.max(count - ddof, 0.0)


def _variance_or_nan(k: Any, count: Any, squares: Any, ddof: Any) -> Any:
    freedom = count - ddof
    return k.where(freedom > 0, squares / freedom, k.const(math.nan, f64))


def _var_op(source: DType, dtype: DType, is_masked: bool) -> ReduceOp | None:  # noqa: ARG001
    return operators.moments(_variance, len(DEVICE_TYPES[dtype].parts))


def _nanvar_op(source: DType, dtype: DType, is_masked: bool) -> ReduceOp | None:
    """Where nothing can be NaN, NumPy does what `numpy.var` does."""
    if source.kind in "biu":
        return _var_op(source, dtype, is_masked)
    return operators.moments(_variance_or_nan, len(DEVICE_TYPES[dtype].parts))


def _std_op(source: DType, dtype: DType, is_masked: bool) -> ReduceOp | None:
    op = _var_op(source, dtype, is_masked)
    return None if op is None else _rooted(op)


def _nanstd_op(source: DType, dtype: DType, is_masked: bool) -> ReduceOp | None:
    op = _nanvar_op(source, dtype, is_masked)
    return None if op is None else _rooted(op)


def _extremum_at(*, is_max: bool) -> Any:
    def op(source: DType, dtype: DType, is_masked: bool) -> ReduceOp | None:  # noqa: ARG001
        return operators.extremum_at(DEVICE_TYPES[source], _bounds(source)[0 if is_max else 1], is_max=is_max)

    return op


@cache
def with_initial(op: ReduceOp) -> ReduceOp:
    """Return `op` with a value to start from as one more parameter, of the accumulated dtype."""
    op = operators.starting(op)
    first = op.finish

    def finish(k: Any, total: Any, *parameters: Any) -> Any:
        *own, initial = parameters
        total = op.combine(k, total, k.cast(initial, op.acc) if op.lift is None else op.lift(k, initial))
        return total if first is None else first(k, total, *own)

    return op.replace(finish=finish, num_parameters=op.num_parameters + 1)


# -- the table ---------------------------------------------------------------------------------------------------------

_SUMMED = Arguments("axis dtype out keepdims initial where", 6)
_CHOSEN = Arguments("axis out keepdims initial where", 5)
_AVERAGED = Arguments("axis dtype out keepdims where", 4)
_SPREAD = Arguments("axis dtype out ddof keepdims where mean", 5)
_FOUND = Arguments("axis out keepdims", 2)
SCANNED = Arguments("axis dtype out", 3)
"""What cumulative functions and methods take."""

SUM = ReductionRow("sum", np.add.reduce, _add_op, np.add, arguments=_SUMMED)
PRODUCTS = SUM.replace(arguments=None, is_product=True)
PROD = ReductionRow("prod", np.multiply.reduce, _multiply_op, np.multiply, arguments=_SUMMED)
MAX = ReductionRow(
    "max",
    np.maximum.reduce,
    _extremum("max", _or, is_max=True),
    np.maximum,
    has_identity=False,
    arguments=_CHOSEN,
    aliases=("amax",),
)
MIN = ReductionRow(
    "min",
    np.minimum.reduce,
    _extremum("min", _and, is_max=False),
    np.minimum,
    has_identity=False,
    arguments=_CHOSEN,
    aliases=("amin",),
)
FMAX = ReductionRow(
    "fmax", np.fmax.reduce, _extremum("max", _or, is_max=True, takes_number=True), np.fmax, has_identity=False
)
FMIN = ReductionRow(
    "fmin", np.fmin.reduce, _extremum("min", _and, is_max=False, takes_number=True), np.fmin, has_identity=False
)
ANY = ReductionRow("any", np.any, _truth("any", identity=False, combine=_or), arguments=_AVERAGED)
ALL = ReductionRow("all", np.all, _truth("all", identity=True, combine=_and), arguments=_AVERAGED)
LOGICAL_XOR = ReductionRow("logical_xor", np.logical_xor.reduce, _truth("logical_xor", identity=False, combine=_xor))
BITWISE_AND = ReductionRow(
    "bitwise_and", np.bitwise_and.reduce, _bitwise("bitwise_and", _and, all_ones=True), np.bitwise_and
)
BITWISE_OR = ReductionRow("bitwise_or", np.bitwise_or.reduce, _bitwise("bitwise_or", _or), np.bitwise_or)
BITWISE_XOR = ReductionRow("bitwise_xor", np.bitwise_xor.reduce, _bitwise("bitwise_xor", _xor), np.bitwise_xor)
MEAN = ReductionRow("mean", np.mean, _mean_op, np.add, is_average=True, parameters=_degrees, arguments=_AVERAGED)
_VAR_ABOUT = MEAN.replace(name="var", numpy=np.var, arguments=None)
_STD_ABOUT = MEAN.replace(name="std", numpy=np.std, op=_root_mean_op, arguments=None)
VAR = ReductionRow("var", np.var, _var_op, is_average=True, parameters=_ddof, about=_VAR_ABOUT, arguments=_SPREAD)
STD = ReductionRow("std", np.std, _std_op, is_average=True, parameters=_ddof, about=_STD_ABOUT, arguments=_SPREAD)
ARGMAX = ReductionRow("argmax", np.argmax, _extremum_at(is_max=True), takes_one_axis=True, arguments=_FOUND)
ARGMIN = ReductionRow("argmin", np.argmin, _extremum_at(is_max=False), takes_one_axis=True, arguments=_FOUND)
NANSUM = SUM.replace(name="nansum", numpy=np.nansum, skips_nan=True)
NANPROD = PROD.replace(name="nanprod", numpy=np.nanprod, skips_nan=True)
NANMAX = FMAX.replace(name="nanmax", numpy=np.nanmax, arguments=_CHOSEN)
NANMIN = FMIN.replace(name="nanmin", numpy=np.nanmin, arguments=_CHOSEN)
NANMEAN = MEAN.replace(name="nanmean", numpy=np.nanmean, skips_nan=True)
NANVAR = VAR.replace(name="nanvar", numpy=np.nanvar, op=_nanvar_op, skips_nan=True, about=None)
NANSTD = STD.replace(name="nanstd", numpy=np.nanstd, op=_nanstd_op, skips_nan=True, about=None)
NANARGMAX = ARGMAX.replace(name="nanargmax", numpy=np.nanargmax, skips_nan=True)
NANARGMIN = ARGMIN.replace(name="nanargmin", numpy=np.nanargmin, skips_nan=True)

REDUCTIONS = tuple([row for row in tuple(globals().values()) if type(row) is ReductionRow and row.arguments])
"""Those that are functions, and methods where NumPy's arrays have one of that name."""

BY_UFUNC = {
    "add": SUM,
    "multiply": PROD,
    "maximum": MAX,
    "minimum": MIN,
    "fmax": FMAX,
    "fmin": FMIN,
    "logical_or": ANY,
    "logical_and": ALL,
    "logical_xor": LOGICAL_XOR,
    "bitwise_and": BITWISE_AND,
    "bitwise_or": BITWISE_OR,
    "bitwise_xor": BITWISE_XOR,
}
"""By the name of the ufunc whose `reduce` it is."""


class ScanRow(Frozen, eq=False):
    """What the device computes of a ufunc's `accumulate`.

    Attributes
    ----------
    name : str
    numpy : callable
        NumPy's own, of (array, axis, dtype, out).
    reduction : ReductionRow
        Says how elements are combined.
    missing : float or None
        What stands for NaN, where that is left out.
    """

    name: str
    numpy: Callable[..., Any]
    reduction: ReductionRow
    missing: float | None = None


SCANS = {
    name: ScanRow(f"{name}.accumulate", getattr(np, name).accumulate, reduction) for name, reduction in BY_UFUNC.items()
}
SCANS |= {
    name: ScanRow(f"{name}.accumulate", getattr(np, name).accumulate, ReductionRow(name, getattr(np, name).reduce, op))
    for name, op in (("logaddexp", _log_of_sum(math_of.logaddexp)), ("logaddexp2", _log_of_sum(math_of.logaddexp2)))
}
"""By the name of the ufunc whose `accumulate` it is."""
CUMSUM = ScanRow("cumsum", np.cumsum, SUM)
CUMPROD = ScanRow("cumprod", np.cumprod, PROD)
NANCUMSUM = ScanRow("nancumsum", np.nancumsum, SUM, missing=0.0)
NANCUMPROD = ScanRow("nancumprod", np.nancumprod, PROD, missing=1.0)

"""The elementary functions of `oxinp._ptx.math`: what is true of each, and how far a result is from the true value."""

import math as libm
from collections.abc import Callable
from typing import NamedTuple

import mpmath
import numpy as np

from oxinp._ptx import Builder, math
from oxinp._ptx.types import from_dtype

mpmath.mp.prec = 200

BLOCK = 256


class Elementary(NamedTuple):
    """One function: NumPy's name, the exact one, CUDA's in double precision, arguments worth a closer look.

    The result of one that `cancels` may be far smaller than its larger argument, whose last place counts then.
    """

    name: str
    exact: Callable
    cuda: str
    anchors: tuple = ()
    num_args: int = 1
    cancels: bool = False

    @property
    def numpy(self):
        """NumPy's ufunc."""
        return getattr(np, self.name)

    def unit(self, args):
        """Numbers whose last places count, besides those of results."""
        return np.abs(np.fmax(*args)).astype(np.float64) if self.cancels else np.zeros(len(args[0]))

    @property
    def ours(self):
        """The function in the kernel language."""
        return getattr(math, self.name)

    def kernel(self, type, block=BLOCK, target="sm_80"):
        """Kernel of one thread per element."""
        k = Builder(f"{self.name}_{type}", block=block, target=target)
        out = k.pointer("out", type, "w")
        inputs = [k.pointer(f"in{i}", type, "r") for i in range(self.num_args)]
        n = k.scalar("n", from_dtype(np.uint32))
        i = k.ctaid * k.ntid + k.tid
        with k.when(i < n):
            out[i] = self.ours(k, *[pointer[i] for pointer in inputs])
        return k.build()


LN2 = libm.log(2)
EXP_ENDS = (88.72284, -87.33655, -103.972084, -103.27893, 709.782712893384, -708.3964185322641, -745.1332191019412)
HYPERBOLIC_ENDS = (0.55, 89.415985, 710.4758600739439, 7.9767, 18.37)
# where polynomials change places
SEAMS = (0.42, 17.5, 0.75, 1.5)

# far out, and next to multiples of pi / 2: Kahan's worst case of f64, that of f32, and where the reductions meet
ANGLES = (
    5.319372648326541e255,
    16367173 * 2.0**72,
    1e5,
    1e9,
    *(n * libm.pi / 2 for n in (1e3, 65537, 1e6, 123456789, 1e12, 1e15)),
    *(2.0**e for e in range(30, 1024, 31)),
)


def exact_power(x, y):
    """x**y of numbers that have one, but for the size where every result overflows or vanishes."""
    exponent = y * mpmath.log(abs(x), 2)
    value = mpmath.power(2, max(min(exponent, 5000), -5000))
    return -value if x < 0 and mpmath.fmod(y, 2) != 0 else value


def exact_logaddexp(x, y):
    """The larger one, and what the smaller one adds."""
    return max(x, y) + mpmath.log1p(mpmath.exp(-abs(x - y)))


def exact_logaddexp2(x, y):
    """The same to base 2."""
    return max(x, y) + mpmath.log1p(mpmath.power(2, -abs(x - y))) / mpmath.log(2)


def exact_cbrt(x):
    """The real cube root."""
    return mpmath.sign(x) * mpmath.cbrt(abs(x))


CUDA_LOGADDEXP = "(x == y ? x + 0.6931471805599453 : fmax(x, y) + log1p(exp(-fabs(x - y))))"
CUDA_LOGADDEXP2 = "(x == y ? x + 1 : fmax(x, y) + log1p(exp2(-fabs(x - y))) * 1.4426950408889634)"

FUNCTIONS = (
    Elementary("exp", mpmath.exp, "exp(x)", (*EXP_ENDS, LN2 / 2)),
    Elementary("exp2", lambda x: mpmath.power(2, x), "exp2(x)", (-126, -149, -150, 128, -1022, -1074, -1075, 1024)),
    Elementary("expm1", mpmath.expm1, "expm1(x)", (*EXP_ENDS, LN2 / 2, -17.32868, -37.42994775)),
    Elementary("log", mpmath.log, "log(x)"),
    Elementary("log2", lambda x: mpmath.log(x, 2), "log2(x)"),
    Elementary("log10", mpmath.log10, "log10(x)"),
    Elementary("log1p", mpmath.log1p, "log1p(x)", (-1, -0.5)),
    Elementary("sin", mpmath.sin, "sin(x)", ANGLES),
    Elementary("cos", mpmath.cos, "cos(x)", ANGLES),
    Elementary("tan", mpmath.tan, "tan(x)", ANGLES),
    Elementary("sinh", mpmath.sinh, "sinh(x)", HYPERBOLIC_ENDS),
    Elementary("cosh", mpmath.cosh, "cosh(x)", HYPERBOLIC_ENDS),
    Elementary("tanh", mpmath.tanh, "tanh(x)", (0.55, 9.0109, 19.0615)),
    Elementary("power", exact_power, "pow(x, y)", num_args=2),
    Elementary("arcsin", mpmath.asin, "asin(x)", (0.38268343, 0.70710678, 0.92387953)),
    Elementary("arccos", mpmath.acos, "acos(x)", (0.38268343, 0.70710678, 0.92387953, 0.99999999303)),
    Elementary("arctan", mpmath.atan, "atan(x)", (0.41421356, 2.41421356, 2.0**30, 2.0**60)),
    Elementary("arctan2", mpmath.atan2, "atan2(x, y)", num_args=2),
    Elementary("hypot", mpmath.hypot, "hypot(x, y)", num_args=2),
    Elementary("logaddexp", exact_logaddexp, CUDA_LOGADDEXP, num_args=2, cancels=True),
    Elementary("logaddexp2", exact_logaddexp2, CUDA_LOGADDEXP2, num_args=2, cancels=True),
    Elementary("arcsinh", mpmath.asinh, "asinh(x)", (2.0**14, 2.0**30, 2.904258)),
    Elementary("arccosh", mpmath.acosh, "acosh(x)", (1, 2.0**14, 2.0**30)),
    Elementary("arctanh", mpmath.atanh, "atanh(x)", (1,)),
    Elementary("cbrt", exact_cbrt, "cbrt(x)", (2.0**-60, 2.0**-900)),
)


def points(function, dtype, num, seed=0):
    """Arguments: special values, their neighbours and those of the function's seams, random bits, moderate numbers."""
    rng = np.random.default_rng(seed)
    info, unsigned = np.finfo(dtype), np.dtype(f"u{np.dtype(dtype).itemsize}")
    special = [0, info.smallest_subnormal, info.tiny, info.max, np.inf, np.nan, info.eps, info.eps / 2]
    anchors = np.array([*function.anchors, *SEAMS, *[2.0**e for e in range(-14, 25)], *[10.0**e for e in range(23)]])
    anchors = np.concatenate([anchors, np.arange(1, 20) * (libm.pi / 4), np.arange(1, 20) * (LN2 / 2)])
    with np.errstate(all="ignore"):
        anchors = np.concatenate([np.array(special, dtype), anchors.astype(dtype)])
    steps = np.arange(-4, 5).astype(unsigned)
    near = (np.abs(anchors).view(unsigned)[:, None] + steps).reshape(-1).view(dtype)
    bits = rng.integers(0, 256, num * unsigned.itemsize, dtype=np.uint8).view(dtype)
    moderate = np.exp2(rng.uniform(-20, 12, num)).astype(dtype)
    values = np.concatenate([near, moderate])
    values = np.concatenate([values, -values, bits])
    values[np.isnan(values)] = np.nan  # signalling ones are no values
    return values


def arguments(function, dtype, num, seed=0):
    """Arguments of a function: `points`; for two in any order, and special values crossed, and moderate numbers."""
    first = points(function, dtype, num, seed)
    if function.num_args == 1:
        return (first,)
    rng = np.random.default_rng(seed + 1)
    special = np.array([0, 1, 2, 3, 0.5, 1.5, 2.0**24 - 1, 2.0**53 - 1, 1e30, 1e-30, np.inf, np.nan])
    with np.errstate(over="ignore"):
        special = special.astype(dtype)
    special = np.concatenate([special, -special, first[:8]])
    crossed = np.meshgrid(special, special)
    moderate = rng.uniform(-30, 30, (2, num)).astype(dtype)
    near = (1 + np.exp2(rng.uniform(-24, 0, num))).astype(dtype)
    return (
        np.concatenate([first, crossed[0].ravel(), np.abs(moderate[0]), near]),
        np.concatenate([rng.permutation(first), crossed[1].ravel(), moderate[1], moderate[1] * 30]),
    )


def exact_values(function, *args):
    """True results as mpf; where the arguments or NumPy's result are zero, infinite or NaN: NumPy's own, as float."""
    with np.errstate(all="ignore"):
        numpys = function.numpy(*[arg.astype(np.float64) for arg in args])
    plain = np.isfinite(numpys) | np.isinf(numpys)
    for arg in args:
        plain &= np.isfinite(arg) & ((arg != 0) | function.cancels)
    result = [float(value) for value in numpys]
    for i in np.flatnonzero(plain):
        if numpys[i] == 0 and not function.exact(*[mpmath.mpf(float(arg[i])) for arg in args]):
            continue
        if not _is_pole(numpys[i], args, i):
            result[i] = function.exact(*[mpmath.mpf(float(arg[i])) for arg in args])
    return result


def _is_pole(value, args, i):
    return np.isinf(value) and all(abs(float(arg[i])) == 1 for arg in args)


def distance(got, exact, dtype, unit=0.0):
    """Units in the last place of `dtype`, at the true value or `unit`, between a result and the true one."""
    info = np.finfo(dtype)
    if isinstance(exact, float) and (exact == 0 or not libm.isfinite(exact)):
        return 0.0 if same_special(got, exact) else libm.inf
    if libm.isnan(got) or (np.signbit(got) != (exact < 0) and not unit):
        return libm.inf
    exponent = int(mpmath.floor(mpmath.log(max(abs(exact), unit), 2)))
    beyond = mpmath.mpf(2) ** info.maxexp
    if abs(exact) >= beyond:
        exact = mpmath.sign(exact) * beyond
    value = mpmath.sign(exact) * beyond if libm.isinf(got) else mpmath.mpf(float(got))
    last = min(max(exponent, info.minexp), info.maxexp - 1) - info.nmant
    return float(abs(value - exact) / mpmath.mpf(2) ** last)


def same_special(got, wanted):
    """Whether two numbers are the same zero, infinity or both NaN."""
    return (libm.isnan(got) and libm.isnan(wanted)) or (got == wanted and np.signbit(got) == np.signbit(wanted))


def distances32(got, args, function):
    """`distance` of f32 (or f16) results, from NumPy's f64 function."""
    info = np.finfo(got.dtype)
    with np.errstate(all="ignore"):
        exact = function.numpy(*[arg.astype(np.float64) for arg in args])
        special = np.isnan(exact) | np.isinf(exact) | (exact == 0)
        same = (np.isnan(got) & np.isnan(exact)) | ((got == exact) & (np.signbit(got) == np.signbit(exact)))
        beyond = 2.0**info.maxexp
        wide = got.astype(np.float64)
        value = np.where(np.isinf(wide), np.copysign(beyond, wide), wide)
        capped = np.copysign(np.minimum(np.abs(exact), beyond), exact)
        unit = function.unit(args)
        exponent = np.clip(np.frexp(np.maximum(np.abs(exact), unit))[1] - 1, info.minexp, info.maxexp - 1)
        error = np.abs(value - capped) / np.exp2(exponent - float(info.nmant))
        error[(np.signbit(got) != np.signbit(exact)) & (unit == 0)] = np.inf
        error[np.isnan(got)] = np.inf
    return np.where(special, np.where(same, 0, np.inf), error)


def off_by(ref, error, a):
    """What an approximate instruction with this relative error may give, `ref` being its exact meaning."""
    return ref(a) * a.dtype.type(1 + error)

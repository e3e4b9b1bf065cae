"""How far off a product of f64 matrices is, and what residues its kernels have to leave."""

import numpy as np

from oxinp._kernels.gemm.ozaki.moduli import MODULI
from oxinp._kernels.gemm.ozaki.residues import padded
from tests.kernels.gemm.fp16x2.case import CASES

UNIT = 2.0**-53
_SPLITTER = 2.0**27 + 1


def subnormal(rng, m, n, depth):
    a, b = rng.standard_normal((m, depth)), rng.standard_normal((depth, n))
    a[::2] *= 1e-310
    return a, b


def vanishing(rng, m, n, depth):
    return rng.standard_normal((m, depth)) * 1e-170, rng.standard_normal((depth, n)) * 1e-171


def overflowing(rng, m, n, depth):
    return rng.random((m, depth)) * 1e153, rng.random((depth, n)) * 1e153 * (1 + np.arange(n) % 2 * 100)


def far_apart(rng, m, n, depth):
    a, b = rng.standard_normal((m, depth)), rng.standard_normal((depth, n))
    return a * np.geomspace(1e-90, 1e90, m)[:, None], b * np.geomspace(1e80, 1e-80, n)


_OF_F64 = {case.__name__: case for case in (subnormal, vanishing, overflowing)}
CASES = (*(_OF_F64.get(case.__name__, case) for case in CASES), far_apart)
FIT = {"normal", "uniform", "constant", "integers", "graded", "rectified", "empty_lines", "far_apart"}
"""Of these the guard has to think well."""
UNFIT = {"identity", "sparse", "permuted", "spikes", "infinite", "nan", "opposite", "subnormal", "vanishing"}
UNFIT |= {"overflowing"}
"""Of these it must not."""


def draw(case, rng, m, n, depth, dtype=np.float64):
    """Operands as f64, or as c128 whose parts are two of the case."""
    with np.errstate(under="ignore"):
        drawn = [case(rng, m, n, depth) for _ in range(2 if np.dtype(dtype).kind == "c" else 1)]
    return tuple(
        np.ascontiguousarray(np.stack(parts, axis=-1), np.float64).view(dtype)[..., 0]
        for parts in zip(*drawn, strict=True)
    )


def embedded(a, b):
    """Real matrices whose product is that of complex ones, real parts beside imaginary ones."""
    if a.dtype.kind != "c":
        return a, b
    return np.hstack([a.real, a.imag]), np.block([[b.real, b.imag], [-b.imag, b.real]])


def _halves(x):
    high = x * _SPLITTER
    high = high - (high - x)
    return high, x - high


def product(a, b):
    """The product as the unevaluated sum of two f64 arrays, of finite numbers far from the ends of the range."""
    total, rest = np.zeros((2, len(a), b.shape[1]))
    (a_high, a_low), (b_high, b_low) = _halves(a), _halves(b)
    for k in range(a.shape[1]):
        x, x_high, x_low = a[:, k : k + 1], a_high[:, k : k + 1], a_low[:, k : k + 1]
        term = x * b[k]
        error = ((x_high * b_high[k] - term) + x_high * b_low[k] + x_low * b_high[k]) + x_low * b_low[k]
        before, total = total, total + term
        part = total - before
        rest += ((before - (total - part)) + (term - part)) + error
    return total, rest


class Reference:
    """The product of chosen rows and columns, in about twice the precision; complex ones as the parts of it."""

    def __init__(self, a, b, rows=slice(None), columns=slice(None)):
        left, right = embedded(a[rows], b[:, columns])
        self.rows, self.columns, self.depth = rows, columns, left.shape[1]
        with np.errstate(invalid="ignore", over="ignore", under="ignore"):
            self.plain = left @ right
            # Powers of two keep what the sums are made of away from the ends of the range.
            scales = [np.abs(x).max(axis=axis, keepdims=True) for x, axis in ((left, 1), (right, 0))]
            self.exponents = [np.where(np.isfinite(s) & (s > 0), -np.frexp(s)[1], 0) for s in scales]
            left, right = (np.ldexp(x, e) for x, e in zip((left, right), self.exponents, strict=True))
            self.high, self.low = product(left, right)
            self.scale = np.abs(left) @ np.abs(right)

    def error(self, result):
        """Largest error in units of u |A| |B|; infinite where something is not finite and should be, or the reverse.

        Halves of the smallest subnormal are what any result may be off by.
        """
        found = result[self.rows][:, self.columns]
        found = np.hstack([found.real, found.imag]) if found.dtype.kind == "c" else found
        is_finite = np.isfinite(self.plain)
        if not np.array_equal(np.where(is_finite, 0, self.plain), np.where(is_finite, 0, found), equal_nan=True):
            return np.inf
        exponents = self.exponents[0] + self.exponents[1]
        with np.errstate(invalid="ignore", over="ignore", under="ignore"):
            # In two steps: the power of two alone may be out of range.
            half = exponents // 2
            distance = np.abs((np.ldexp(np.ldexp(found, half), exponents - half) - self.high) - self.low)
            distance = np.maximum(distance - np.ldexp(1.0, np.minimum(exponents, 2000) - 1075), 0)
        scale = self.scale[is_finite]
        return float((distance[is_finite] / np.where(scale > 0, scale, 1) / UNIT).max(initial=0))


def order(depth):
    """Which element of K each byte of a line is."""
    at = np.arange(padded(depth))
    return at // 128 * 128 + at % 4 * 32 + at % 128 // 4


def signed_residues(numbers, p):
    """The residues -128 to p - 129 of Python integers or i64 (of 256: those of a signed byte, the same)."""
    return ((numbers + 128) % p - 128).astype(np.int8)


def multiply(a, b, num_lines, p):
    """What the tensor units leave: 0 to p - 1 of the products of A's lines and of B's, which are spread."""
    lines = np.arange(num_lines)
    within = lines % 64
    places = lines - within + ((within & 14) << 2) + ((within >> 4) << 1) + (within & 1)
    return ((a.astype(np.float64) @ b[places].astype(np.float64).T).astype(np.int64) % p).astype(np.uint8)


__all__ = ["CASES", "FIT", "MODULI", "UNFIT", "Reference", "draw", "multiply", "order", "signed_residues"]

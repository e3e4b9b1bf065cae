"""f32 matrices of every kind on which fp16x2 has to be accurate, and the errors of their products."""

import numpy as np

UNIT = 2.0**-24


def normal(rng, m, n, depth):
    return rng.standard_normal((m, depth)), rng.standard_normal((depth, n))


def uniform(rng, m, n, depth):
    return rng.random((m, depth)), rng.random((depth, n))


def constant(rng, m, n, depth):
    del rng
    return np.full((m, depth), 1 / 3), np.full((depth, n), 0.7)


def integers(rng, m, n, depth):
    return rng.integers(-8, 9, (m, depth)), rng.integers(-8, 9, (depth, n))


def lognormal(rng, m, n, depth):
    return np.exp(2 * rng.standard_normal((m, depth))), np.exp(2 * rng.standard_normal((depth, n)))


def graded(rng, m, n, depth):
    a, b = normal(rng, m, n, depth)
    return a * np.geomspace(1e-18, 1e18, m)[:, None], b * np.geomspace(1e15, 1e-15, n)


def decades(rng, m, n, depth):
    a, b = normal(rng, m, n, depth)
    return a * 10.0 ** rng.uniform(-12, 0, a.shape), b * 10.0 ** rng.uniform(-12, 0, b.shape)


def opposite(rng, m, n, depth):
    a, b = normal(rng, m, n, depth)
    return a * np.geomspace(1e-10, 1, depth), b * np.geomspace(1, 1e-10, depth)[:, None]


def same_way(rng, m, n, depth):
    a, b = normal(rng, m, n, depth)
    return a * np.geomspace(1e-10, 1, depth), b * np.geomspace(1e-10, 1, depth)[:, None]


def identity(rng, m, n, depth):
    return rng.standard_normal((m, depth)) * 10.0 ** rng.uniform(-12, 0, (m, depth)), np.eye(depth, n)


def spikes(rng, m, n, depth):
    a, b = normal(rng, m, n, depth)
    a[:, 0] = 1e6
    b[0] = 0
    return a, b


def rectified(rng, m, n, depth):
    a, b = normal(rng, m, n, depth)
    return np.maximum(a, 0), b


def sparse(rng, m, n, depth):
    a, b = normal(rng, m, n, depth)
    return a * (rng.random(a.shape) < 0.01), b * (rng.random(b.shape) < 0.01)


def permuted(rng, m, n, depth):
    return rng.uniform(1, 2, (m, depth)), np.eye(depth)[:, rng.permutation(depth)[:n]]


def empty_lines(rng, m, n, depth):
    a, b = normal(rng, m, n, depth)
    a[::3], b[:, ::5] = 0, 0
    return a, b


def subnormal(rng, m, n, depth):
    a, b = normal(rng, m, n, depth)
    a[::2] *= 1e-42
    return a, b * 1e20


def vanishing(rng, m, n, depth):
    a, b = normal(rng, m, n, depth)
    return a * 1e-20, b * 1e-21


def overflowing(rng, m, n, depth):
    a, b = uniform(rng, m, n, depth)
    return a * 1e19, b * 1e19 * (1 + np.arange(n) % 2 * 100)


def infinite(rng, m, n, depth):
    a, b = normal(rng, m, n, depth)
    a[3, 5], b[7, 2] = np.inf, -np.inf
    return a, b


def nan(rng, m, n, depth):
    a, b = normal(rng, m, n, depth)
    a[5, 3] = np.nan
    return a, b


CASES = (
    *(normal, uniform, constant, integers, lognormal, graded, decades, opposite, same_way, identity, spikes),
    *(rectified, sparse, permuted, empty_lines, subnormal, vanishing, overflowing, infinite, nan),
)
FIT = {"normal", "uniform", "constant", "integers", "graded", "rectified", "empty_lines", "subnormal"}
"""Cases that the guard has to accept: fp16x2 is for such."""
FIT |= {"vanishing", "overflowing"}
UNFIT = {"identity", "sparse", "permuted", "spikes", "infinite", "nan", "opposite"}
"""Of these it must not."""


def draw(case, rng, m, n, depth, dtype=np.float32):
    """Operands as f32, or as c64 whose parts are two of the case."""
    num_parts = 1 if np.dtype(dtype).kind == "f" else 2
    with np.errstate(under="ignore"):
        drawn = [case(rng, m, n, depth) for _ in range(num_parts)]
        return tuple(
            np.ascontiguousarray(np.stack(parts, axis=-1), np.float32).view(dtype)[..., 0]
            for parts in zip(*drawn, strict=True)
        )


def embedded(a, b):
    """Real matrices whose product is that of complex ones, real parts beside imaginary ones."""
    if a.dtype.kind != "c":
        return a, b
    return np.hstack([a.real, a.imag]), np.block([[b.real, b.imag], [-b.imag, b.real]])


class Reference:
    """The product in float64, of chosen rows; of complex matrices its real parts beside its imaginary ones.

    Attributes
    ----------
    exact : numpy.ndarray
        In f32, infinite where that overflows.
    """

    def __init__(self, a, b, rows=slice(None)):
        left, right = (x.astype(np.float64) for x in embedded(a[rows], b))
        self.rows, self.depth = rows, left.shape[1]
        with np.errstate(invalid="ignore", over="ignore"):
            self.product = left @ right
            self.scale = np.abs(left) @ np.abs(right)
            self.exact = self.product.astype(np.float32)

    def errors(self, result):
        """Errors of finite elements in units of u |A| |B|; one infinite one where what is not finite differs.

        Halves of the smallest subnormal are what any result in f32 may be off by.
        """
        found = result[self.rows]
        found = np.hstack([found.real, found.imag]) if found.dtype.kind == "c" else found
        is_finite = np.isfinite(self.exact)
        if not np.array_equal(np.where(is_finite, 0, self.exact), np.where(is_finite, 0, found), equal_nan=True):
            return np.array([np.inf])
        distance = np.maximum(np.abs(found[is_finite] - self.product[is_finite]) - 2.0**-150, 0)
        scale = self.scale[is_finite]
        return distance / np.where(distance == 0, 1, np.maximum(scale, 2.0**-1000)) / UNIT

    def error(self, result):
        """Largest of the `errors`."""
        return float(self.errors(result).max(initial=0))

"""Scans, counts and searches on a GPU: right, and how fast.

``python -m asv_benchmarks.kernels.scans_and_counts [REGEX] [--scale N] [--peer] [--kernels]`` calls NumPy's functions
as users do, on random data of full size (divided by ``--scale``), and prints a line per case: the median time of a call
whose result is waited for, that of CuPy and PyTorch (``--peer``, as far as they are installed), the ratio to the faster
one, and the share of the time that reading the input and writing the result once takes at the rate of a copy; with
``--kernels`` also a line per kernel. Results are compared with NumPy's, and those of a second call with the first
one's, bit for bit. Ends with status 1 if anything is wrong.
"""

import sys
from functools import partial
from typing import NamedTuple

import numpy as np

from asv_benchmarks.kernels.calls import run

EXACT, ROUNDED = "exact", "rounded"


class Case(NamedTuple):
    """A call: its name, the arrays' size, what makes them, the call for NumPy and its like, and for PyTorch."""

    name: str
    size: int
    make: object
    call: object
    torch: object
    check: str = EXACT


def floats(dtype, source, size):
    return (source.standard_normal(size, dtype),)


def numbers(high, dtype, source, size):
    return (source.integers(0, high, size).astype(dtype),)


def sorted_and_wanted(source, size):
    return source.sort(source.random(max(1, size // 16))), source.random(size)


def cumsum(xp, x):
    return xp.cumsum(x)


def columns(draw, num_columns, source, size):
    return tuple([x.reshape(-1, num_columns) for x in draw(source, size // num_columns * num_columns)])


def cumsum_down(xp, x):
    return xp.cumsum(x, 0)


def select(xp, x):
    del xp
    return x[x > 0.5]


def unique(xp, x):
    return xp.unique(x)


def bincount(xp, x):
    return xp.bincount(x)


def histogram(xp, x):
    return xp.histogram(x, 100, (-4, 4))[0]


def searchsorted(xp, x, wanted):
    return xp.searchsorted(x, wanted)


CASES = [
    Case("cumsum f4 2^27", 2**27, partial(floats, "f4"), cumsum, lambda t, x: t.cumsum(x, 0), ROUNDED),
    Case("cumsum f8 2^26", 2**26, partial(floats, "f8"), cumsum, lambda t, x: t.cumsum(x, 0), ROUNDED),
    Case("cumsum i8 2^26", 2**26, partial(numbers, 9, "i8"), cumsum, lambda t, x: t.cumsum(x, 0)),
    *[
        Case(
            f"cumsum 0 {name}", 2**log2, partial(columns, draw, width), cumsum_down, lambda t, x: t.cumsum(x, 0), check
        )
        for name, log2, draw, width, check in (
            ("f4 2^13 x 2^14", 27, partial(floats, "f4"), 2**14, ROUNDED),
            ("f8 2^13 x 2^13", 26, partial(floats, "f8"), 2**13, ROUNDED),
            ("f4 2^20 x 64", 26, partial(floats, "f4"), 64, ROUNDED),
            ("i8 2^16 x 1000", 26, partial(numbers, 9, "i8"), 1000, EXACT),
        )
    ],
    Case("x[x > 0.5] f4 2^27", 2**27, partial(floats, "f4"), select, lambda _, x: x[x > 0.5]),
    Case("unique i8 2^24", 2**24, partial(numbers, 2**20, "i8"), unique, lambda t, x: t.unique(x)),
    Case("unique i4 2^24", 2**24, partial(numbers, 2**20, "i4"), unique, lambda t, x: t.unique(x)),
    Case("bincount 2^24 into 2^20", 2**24, partial(numbers, 2**20, "i8"), bincount, lambda t, x: t.bincount(x)),
    Case("bincount 2^24 into 100", 2**24, partial(numbers, 100, "i8"), bincount, lambda t, x: t.bincount(x)),
    Case("histogram f4 2^27", 2**27, partial(floats, "f4"), histogram, lambda t, x: t.histc(x, 100, -4, 4)),
    Case("searchsorted 2^24 in 2^20", 2**24, sorted_and_wanted, searchsorted, lambda t, x, w: t.searchsorted(x, w)),
]


def is_right(case, found, arrays):
    """Whether a result is NumPy's, a sum of floats the rounded exact one."""
    if case.check == EXACT:
        return np.array_equal(found, case.call(np, *arrays))
    x = arrays[0]
    exact = np.cumsum(x, 0, dtype=np.longdouble)
    allowed = np.finfo(x.dtype).eps * 0.51 * np.abs(exact) + np.cumsum(np.abs(x), 0, dtype=np.float64) * 1e-15
    return bool((np.abs(found - exact) <= allowed).all())


if __name__ == "__main__":
    sys.exit(run(CASES, is_right, __doc__, width=28))

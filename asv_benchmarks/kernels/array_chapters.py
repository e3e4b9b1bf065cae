"""Indexing, sorting, counting, scans and building on a GPU in one run, and the geometric mean of what they reach.

``python -m asv_benchmarks.kernels.array_chapters [REGEX] [--scale N] [--peer] [--kernels] [--unchecked] [--set ...]``
does with its rows what `calls.run` does: the median time of a call whose result is waited for, beside CuPy and PyTorch,
the ratio to the faster one, and the share of the rate of a copy. ``--set scan.chained.SUM_BLOCKS=8`` runs with another
value of a constant of a kernel family. `indexing` and `scans_and_counts` have more rows of their own.
Ends with status 1 if anything is wrong.
"""

import sys
from functools import partial

import numpy as np

from asv_benchmarks.kernels import indexing, scans_and_counts
from asv_benchmarks.kernels.calls import run
from asv_benchmarks.kernels.indexing import Case, doubles, few, floats

MIXED = (0x2C1B3C6D, 0x297A2D39)  # odd multipliers


def permutation(source, size):
    """Return the numbers below a power of two in an order without a pattern, sooner than a generator does."""
    bits, numbers = size.bit_length() - 1, source.arange(size, dtype=np.int64)
    for factor in MIXED:
        numbers ^= numbers >> (bits // 2)
        numbers *= factor
        numbers &= size - 1
    return numbers ^ (numbers >> (bits // 2))


def permuted(source, size):
    return source.random(size, "f4"), permutation(source, size)


def written(source, size):
    x, index = permuted(source, size)
    return source.zeros(size, "f4"), index, x


def rows(width, source, size):
    return (source.standard_normal((size // width, width), "f4"),)


def two(source, size):
    return source.random(size // 2, "f4"), source.random(size // 2, "f4")


def with_places(source, size):
    return source.random(size, "f4"), source.sort(source.integers(0, size, 1000))


def pairs(dtype, source, size):
    real = {"c8": "f4", "c16": "f8"}[dtype]
    return ((4 * source.random(2 * size, real) - 2).view(dtype),)


def _function(name, xp, x):
    return getattr(xp, name)(x)


def sort(xp, x):
    return xp.sort(x)


def argsort(xp, x):
    return xp.take(x, xp.argsort(x))


def concatenate(xp, x, y):
    return xp.concatenate((x, y))


def roll(xp, x):
    return xp.roll(x, 12345)


def roll_rows(xp, x):
    return xp.roll(x, (7, 9), (0, 1))


def pad(xp, x):
    return xp.pad(x, ((3, 5), (2, 9)))


def repeat(xp, x):
    return xp.repeat(x, 3)


def repeat_rows(xp, x):
    return xp.repeat(x, 2, 0)


def tile(xp, x):
    return xp.tile(x, 3)


def insert(xp, x):
    return xp.insert(x, 1001, 3)


def delete(xp, x):
    return xp.delete(x, 1001)


def insert_many(xp, x, places):
    return xp.insert(x, places, 3)


def delete_many(xp, x, places):
    return xp.delete(x, places)


BUILDING = [
    Case("concatenate f4 2 x 2^26", 2**27, two, concatenate, lambda t, x, y: t.cat((x, y))),
    Case("roll f4 2^27", 2**27, floats, roll, lambda t, x: t.roll(x, 12345)),
    Case("tile f4 2^25 x 3", 2**25, floats, tile, lambda t, x: t.tile(x, (3,))),
    Case("repeat f4 2^25 x 3", 2**25, floats, repeat, lambda t, x: t.repeat_interleave(x, 3)),
    Case("insert f4 2^27", 2**27, floats, insert),
    Case("delete f4 2^27", 2**27, floats, delete),
    Case("roll f4 2^13 x 2^14", 2**27, partial(rows, 2**14), roll_rows, lambda t, x: t.roll(x, (7, 9), (0, 1))),
    Case(
        "pad f4 2^13 x 2^14", 2**27, partial(rows, 2**14), pad, lambda t, x: t.nn.functional.pad(x, (2, 9, 3, 5))
    ),
    Case(
        "repeat 0 f4 2^12 x 2^13", 2**25, partial(rows, 2**13), repeat_rows,
        lambda t, x: t.repeat_interleave(x, 2, 0),
    ),
    Case("insert 1000 f4 2^27", 2**27, with_places, insert_many),
    Case("delete 1000 f4 2^27", 2**27, with_places, delete_many),
]  # fmt: skip
SORTS = [
    Case("sort f4 2^27", 2**27, floats, sort, lambda t, x: t.sort(x)[0]),
    Case("sort f8 2^26", 2**26, doubles, sort, lambda t, x: t.sort(x)[0]),
    Case("argsort, take f8 2^26", 2**26, doubles, argsort, lambda t, x: x[t.argsort(x)]),
    Case("sort f4 10^6 x 32", 10**6 * 32, partial(rows, 32), sort, lambda t, x: t.sort(x)[0]),
    Case("sort f4 10^4 x 4096", 10**4 * 4096, partial(rows, 4096), sort, lambda t, x: t.sort(x)[0]),
]
ELEMENTS = [
    Case("x[permutation] f4 2^27", 2**27, permuted, indexing.read, lambda _, x, i: x[i]),
    Case("a[permutation] = v f4 2^27", 2**27, written, indexing.assign, lambda _, a, i, v: a.index_copy_(0, i, v)),
    Case("a[2^19] = v f4 2^27", 2**27, few, indexing.assign, lambda _, a, i, v: a.index_copy_(0, i, v)),
]
NEAR, ULP = "near", 8
COMPLEX = [
    Case(
        f"{name} {dtype} 2^26", 2**26, partial(pairs, dtype), partial(_function, name), partial(_function, torch), NEAR
    )
    for dtype in ("c8", "c16")
    for name, torch in (("exp", "exp"), ("arcsin", "asin"), ("arccosh", "acosh"), ("arctanh", "atanh"))
]
_ELSEWHERE = {case.name: case for case in (*indexing.CASES, *scans_and_counts.CASES)}
_WANTED = (
    "median f4 2^27", "percentile f4 2^27", "partition f4 2^27", "cumsum f4 2^27", "cumsum f8 2^26",
    "x[x > 0.5] f4 2^27", "histogram f4 2^27", "take_along_axis f4 2^26", "take_along_axis 0 f4 2^26",
    "x[2^24] f4 2^26", "x[rows] f4 2^18 x 256", "add.at i4 2^24 into 2^20", "add.at f4 2^24 into 2^20",
    "add.at f4 2^24 in order", "add.at f4 2^24 into one", "bincount 2^24 into 2^20",
    "bincount, weights 2^24 into 2^20", "unique i8 2^24", "unique i4 2^24", "searchsorted 2^24 in 2^20",
)  # fmt: skip
CASES = [*BUILDING, *SORTS, *ELEMENTS, *[_ELSEWHERE[name] for name in _WANTED], *COMPLEX]


def is_right(case, found, arrays):
    """Whether a result is NumPy's, as the module of the case says; of functions nearly."""
    if case.check == NEAR:
        expected = case.call(np, *arrays)
        return bool((np.abs(found - expected) <= ULP * np.finfo(found.dtype).eps * np.abs(expected)).all())
    module = scans_and_counts if case in scans_and_counts.CASES else indexing
    return module.is_right(case, found, arrays)


if __name__ == "__main__":
    sys.exit(run(CASES, is_right, __doc__, width=34, min_size=1 << 18))

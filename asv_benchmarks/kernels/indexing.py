"""Reads, writes and sums by index on a GPU, order statistics and convolutions: right, and how fast.

``python -m asv_benchmarks.kernels.indexing [REGEX] [--scale N] [--peer] [--kernels]`` calls NumPy's functions as users
do, with data of full size (divided by ``--scale``), and prints a line per case: the median time of a call whose result
is waited for, that of CuPy and PyTorch (``--peer``, as far as they are installed and have it), the ratio to the faster
one, and the share of the time that reading the operands and writing the result once takes at the rate of a copy; with
``--kernels`` also a line per kernel. Results are compared with NumPy's, sums of floats with a bound, and those of a
second run with the first one's, bit for bit. Ends with status 1 if anything is wrong.
"""

import sys
from functools import partial
from typing import NamedTuple

import numpy as np

from asv_benchmarks.kernels.calls import run

EXACT, ROUNDED, AT_RANK = "exact", "rounded", "at rank"
BINS = 16  # elements per bin, on average


class Case(NamedTuple):
    """A call: its name, the arrays' size, what makes them, the call for NumPy and its like, and for PyTorch.

    A call that writes to its first array returns that.
    """

    name: str
    size: int
    make: object
    call: object
    torch: object = None
    check: str = EXACT


def permuted(source, size):
    return source.random(size, "f4"), source.permutation(size)


def sampled(source, size):
    return source.random(size, "f4"), source.integers(0, size, size // 4)


def with_values(source, size):
    return source.zeros(size, "f4"), source.permutation(size), source.random(size, "f4")


def repeated(source, size):
    return source.zeros(size, "f4"), source.integers(0, size, size), source.random(size, "f4")


def few(source, size):
    return source.zeros(size, "f4"), source.integers(0, size, size // 256), source.random(size // 256, "f4")


def binned(dtype, source, size):
    return (
        source.zeros(size // BINS, dtype),
        source.integers(0, size // BINS, size),
        (source.random(size) * 9).astype(dtype),
    )


def one_bin(dtype, source, size):
    return source.zeros(size // BINS, dtype), source.full(size, 7), (source.random(size) * 9).astype(dtype)


def skewed(dtype, source, size):
    bins = size // BINS
    return (
        source.zeros(bins, dtype),
        source.minimum(source.zipf(1.2, size), bins) - 1,
        (source.random(size) * 9).astype(dtype),
    )


def in_order(dtype, source, size):
    a, index, values = binned(dtype, source, size)
    return a, source.sort(index), values


def rows_of(source, size):
    return source.random((size // 256, 256), "f4"), source.permutation(size // 256)


def along(source, size):
    x = source.random((size // 1024, 1024), "f4")
    return x, source.argsort(x, axis=1)


def across(source, size):
    x = source.random((1024, size // 1024), "f4")
    return x, source.integers(0, 1024, x.shape)


def doubles(source, size):
    return (source.standard_normal(size),)


def floats(source, size):
    return (source.standard_normal(size, "f4"),)


def filtered(dtype, source, size):
    return source.integers(-9, 9, size).astype(dtype), source.integers(-9, 9, min(size, 1000)).astype(dtype)


def read(xp, x, i):
    del xp
    return x[i]


def read_scaled(xp, x, i):
    del xp
    return x[i] * 2 + 1


def assign(xp, a, i, v):
    del xp
    a[i] = v
    return a


def fill(xp, a, i, v):
    del xp, v
    a[i] = 3
    return a


def add_at(xp, a, i, v):
    xp.add.at(a, i, v)
    return a


def take_along_axis(xp, x, i):
    return xp.take_along_axis(x, i, 1)


def take_across(xp, x, i):
    return xp.take_along_axis(x, i, 0)


def bincount(xp, a, i, v):
    return xp.bincount(i, v, a.size)


def partition(xp, x):
    return xp.partition(x, x.size // 3)


def argpartition(xp, x):
    return xp.take(x, xp.argpartition(x, x.size // 3))


def convolve(xp, x, taps):
    return xp.convolve(x, taps)


def median(xp, x):
    return xp.median(x)


def percentile(xp, x):
    return xp.percentile(x, 90)


def torch_convolve(torch, x, taps):
    found = torch.nn.functional.conv1d(x[None, None], taps.flip(0)[None, None], padding=taps.numel() - 1)
    return found[0, 0]


def index_add(torch, a, i, v):
    del torch
    return a.index_add_(0, i, v)


CASES = [
    Case("x[permutation] f4 2^27", 2**27, permuted, read, lambda _, x, i: x[i]),
    Case("x[permutation] * 2 + 1 f4 2^27", 2**27, permuted, read_scaled, lambda _, x, i: x[i] * 2 + 1),
    Case("x[2^24] f4 2^26", 2**26, sampled, read, lambda _, x, i: x[i]),
    Case("a[permutation] = v f4 2^27", 2**27, with_values, assign, lambda _, a, i, v: a.index_copy_(0, i, v)),
    Case("a[repeated] = v f4 2^27", 2**27, repeated, assign),
    Case("a[idx] = 3 f4 2^27", 2**27, repeated, fill, lambda _, a, i, v: a.index_fill_(0, i, 3)),  # noqa: ARG005
    Case("a[2^19] = v f4 2^27", 2**27, few, assign),
    Case("add.at i4 2^24 into 2^20", 2**24, partial(binned, "i4"), add_at, index_add),
    Case("add.at f4 2^24 into 2^20", 2**24, partial(binned, "f4"), add_at, index_add, ROUNDED),
    Case("add.at f8 2^24 into 2^20", 2**24, partial(binned, "f8"), add_at, index_add, ROUNDED),
    Case("add.at i8 2^24 into 2^20", 2**24, partial(binned, "i8"), add_at, index_add),
    Case("add.at i4 2^24 into one", 2**24, partial(one_bin, "i4"), add_at, index_add),
    Case("add.at f4 2^24 into one", 2**24, partial(one_bin, "f4"), add_at, index_add, ROUNDED),
    Case("add.at f8 2^24 skewed", 2**24, partial(skewed, "f8"), add_at, index_add, ROUNDED),
    Case("add.at f4 2^24 in order", 2**24, partial(in_order, "f4"), add_at, index_add, ROUNDED),
    Case("bincount, weights 2^24 into 2^20", 2**24, partial(binned, "f8"), bincount, None, ROUNDED),
    Case("x[rows] f4 2^18 x 256", 2**26, rows_of, read, lambda _, x, i: x[i]),
    Case("take_along_axis f4 2^26", 2**26, along, take_along_axis, lambda t, x, i: t.gather(x, 1, i)),
    Case("take_along_axis 0 f4 2^26", 2**26, across, take_across, lambda t, x, i: t.gather(x, 0, i)),
    Case("partition f4 2^27", 2**27, floats, partition, None, AT_RANK),
    Case("argpartition, take f8 2^26", 2**26, doubles, argpartition, None, AT_RANK),
    Case("convolve f4 2^21 * 1000", 2**21, partial(filtered, "f4"), convolve, torch_convolve),
    Case("convolve f8 2^21 * 1000", 2**21, partial(filtered, "f8"), convolve),
    Case("median f4 2^27", 2**27, floats, median, lambda t, x: t.sort(x)[0][x.numel() // 2]),
    Case("percentile f4 2^27", 2**27, floats, percentile),
]


def is_right(case, found, arrays):
    """Whether a result is NumPy's; a sum within the rounding of as many additions; a partition in its three parts."""
    if case.check == AT_RANK:
        rank, x = arrays[0].size // 3, arrays[0]
        at = np.partition(x, rank)[rank]
        is_split = (found[:rank] <= at).all() and (found[rank:] >= at).all() and found[rank] == at
        return bool(is_split) and np.array_equal(np.sort(found), np.sort(x))
    expected = case.call(np, *[x.copy() for x in arrays])
    if case.check == EXACT:
        return np.array_equal(found, expected)
    index, values = arrays[1:]
    exact = np.bincount(index, values.astype("f8"), expected.size)
    counts = np.bincount(index, minlength=expected.size)
    allowed = np.finfo(found.dtype).eps * counts * np.abs(exact)
    return bool((np.abs(found - exact) <= allowed).all())


if __name__ == "__main__":
    sys.exit(run(CASES, is_right, __doc__, width=34, min_size=1024 * BINS))

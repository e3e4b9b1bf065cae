"""Reads, writes and sums by index on a GPU, and order statistics: right, and how fast.

``python -m asv_benchmarks.kernels.indexing [REGEX] [--scale N] [--peer]`` calls NumPy's functions as users do, with
data of full size (divided by ``--scale``), and prints a line per case: the median time of a call whose result is waited
for, that of CuPy and PyTorch (``--peer``, as far as they are installed and have it), the ratio to the faster one, and
the share of the time that reading the operands and writing the result once takes at the rate of a copy. Results are
compared with NumPy's, sums of floats with a bound, and those of a second run with the first one's, bit for bit. Ends
with status 1 if anything is wrong.
"""

import argparse
import importlib
import re
import sys
from functools import partial
from typing import NamedTuple

import numpy as np

import oxinp
from asv_benchmarks.kernels.plans import write
from asv_benchmarks.kernels.scans_and_counts import copy_rate, median_ms
from oxinp._terminal import Columns, columns

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


def permuted(rng, size):
    return rng.random(size, "f4"), rng.permutation(size)


def with_values(rng, size):
    return np.zeros(size, "f4"), rng.permutation(size), rng.random(size, "f4")


def repeated(rng, size):
    return np.zeros(size, "f4"), rng.integers(0, size, size), rng.random(size, "f4")


def few(rng, size):
    return np.zeros(size, "f4"), rng.integers(0, size, size // 256), rng.random(size // 256, "f4")


def binned(dtype, rng, size):
    return np.zeros(size // BINS, dtype), rng.integers(0, size // BINS, size), (rng.random(size) * 9).astype(dtype)


def rows_of(rng, size):
    return rng.random((size // 256, 256), "f4"), rng.permutation(size // 256)


def along(rng, size):
    x = rng.random((size // 1024, 1024), "f4")
    return x, np.argsort(x, axis=1)


def floats(rng, size):
    return (rng.standard_normal(size, "f4"),)


def read(xp, x, i):
    del xp
    return x[i]


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


def bincount(xp, a, i, v):
    return xp.bincount(i, v, a.size)


def partition(xp, x):
    return xp.partition(x, x.size // 3)


def median(xp, x):
    return xp.median(x)


def percentile(xp, x):
    return xp.percentile(x, 90)


def index_add(torch, a, i, v):
    del torch
    return a.index_add_(0, i, v)


CASES = [
    Case("x[permutation] f4 2^27", 2**27, permuted, read, lambda _, x, i: x[i]),
    Case("a[permutation] = v f4 2^27", 2**27, with_values, assign, lambda _, a, i, v: a.index_copy_(0, i, v)),
    Case("a[repeated] = v f4 2^27", 2**27, repeated, assign),
    Case("a[idx] = 3 f4 2^27", 2**27, repeated, fill, lambda _, a, i, v: a.index_fill_(0, i, 3)),  # noqa: ARG005
    Case("a[2^19] = v f4 2^27", 2**27, few, assign),
    Case("add.at i4 2^24 into 2^20", 2**24, partial(binned, "i4"), add_at, index_add),
    Case("add.at f4 2^24 into 2^20", 2**24, partial(binned, "f4"), add_at, index_add, ROUNDED),
    Case("add.at f8 2^24 into 2^20", 2**24, partial(binned, "f8"), add_at, index_add, ROUNDED),
    Case("bincount, weights 2^24 into 2^20", 2**24, partial(binned, "f8"), bincount, None, ROUNDED),
    Case("x[rows] f4 2^18 x 256", 2**26, rows_of, read, lambda _, x, i: x[i]),
    Case("take_along_axis f4 2^26", 2**26, along, take_along_axis, lambda t, x, i: t.gather(x, 1, i)),
    Case("partition f4 2^27", 2**27, floats, partition, None, AT_RANK),
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


def times_of_peers(case, arrays):
    """Return how long the others take, by their names, those that are installed and have it."""
    times = {}
    for name in ("cupy", "torch"):
        if name == "torch" and case.torch is None:
            continue
        try:
            module = importlib.import_module(name)
        except ImportError:
            continue
        if name == "cupy":
            theirs = [module.asarray(x) for x in arrays]
            call, synchronize = partial(case.call, module, *theirs), module.cuda.Device().synchronize
            release = module.get_default_memory_pool().free_all_blocks
        else:
            theirs = [module.from_numpy(x.copy()).cuda() for x in arrays]
            call, synchronize = partial(case.torch, module, *theirs), module.cuda.synchronize
            release = module.cuda.empty_cache
        times[name] = median_ms(call, synchronize)
        del theirs, call
        release()
    return times


def main():
    """Run the cases."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pattern", nargs="?", default="")
    parser.add_argument("--scale", type=int, default=1)
    parser.add_argument("--peer", action="store_true")
    options = parser.parse_args()
    rng, all_right = np.random.default_rng(0), True
    rate = copy_rate(2**27 // options.scale)
    write(f"copy {rate / 1e9:.2f} TB/s")
    drawn = Columns([34, 9, 22, 6, 6, 5], width=columns(), right=range(1, 5), text=[])
    write(drawn.draw(["case", "ours", "peers", "ratio", "floor", ""]))
    for case in CASES:
        if not re.search(options.pattern, case.name):
            continue
        arrays = case.make(rng, max(1024 * BINS, case.size // options.scale))
        results = [np.asarray(case.call(oxinp, *[oxinp.array(x) for x in arrays])) for _ in range(2)]
        right = results[0].tobytes() == results[1].tobytes() and is_right(case, results[0], arrays)
        all_right &= right
        ours = [oxinp.array(x) for x in arrays]

        def call(case=case, ours=ours):
            return oxinp.evaluate(case.call(oxinp, *ours))

        taken = median_ms(call, oxinp.cuda.synchronize)
        others = times_of_peers(case, arrays) if options.peer else {}
        told = " ".join(f"{name} {other:.3f}" for name, other in others.items())
        ratio = f"{min(others.values()) / taken:6.2f}" if others else ""
        share = (sum(x.nbytes for x in arrays) + results[0].nbytes) / rate / taken
        write(drawn.draw([case.name, f"{taken:.3f}", told, ratio, f"{share:.2f}", "" if right else "WRONG"]))
        del ours, results, call
    return 0 if all_right else 1


if __name__ == "__main__":
    sys.exit(main())

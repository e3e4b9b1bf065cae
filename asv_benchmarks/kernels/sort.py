"""Sorts on a GPU: right, and how fast: ``python -m asv_benchmarks.kernels.sort [REGEX] [--quick] [--peer] [--sweep]``.

Prints a line per case: the median of device-event times over random data, that of CuPy and PyTorch (``--peer``, as far
as they are installed), the ratio to the faster one, and the share of the time that the bytes of the passes take at the
rate of a copy in the same run. Results are compared with NumPy's, of one long row by their order and a sum of all
bits. ``--launches`` prints the time of each step, too. ``--sweep`` times the candidates for how a pass is cut instead;
``--set sort.bitonic.MAX_BITS=0`` does without the network in shared memory. Ends with status 1 if anything is wrong.
"""

import argparse
import importlib
import itertools
import re
import sys

import numpy as np

from asv_benchmarks.kernels import settings
from asv_benchmarks.kernels.plans import Prepared, milliseconds, write
from oxinp._kernels.sort import plan
from oxinp._kernels.sort.keys import num_digits
from oxinp._kernels.sort.rank import BALLOT, MATCH
from oxinp._ptx.types import from_dtype
from oxinp._runtime.cuda import open_backend
from oxinp._terminal import Columns, columns

COPY_NBYTES = 1 << 30
MAX_SORTED = 2**22  # elements that are sorted on the host, too, to compare
SAMPLED_ROWS = 100
SORT, ARGSORT = "sort", "argsort"
CASES = [
    # what, dtype, rows, length
    (SORT, "f4", 1, 2**27),
    (SORT, "f8", 1, 2**26),
    (ARGSORT, "f8", 1, 2**26),
    (SORT, "i4", 1, 2**27),
    (ARGSORT, "f4", 1, 2**27),
    (SORT, "i8", 1, 2**26),
    (SORT, "u1", 1, 2**27),
    (SORT, "f2", 1, 2**27),
    (SORT, "c8", 1, 2**24),
    (SORT, "f4", 10**6, 32),
    (ARGSORT, "f4", 10**6, 32),
    (SORT, "f8", 10**6, 32),
    (SORT, "f4", 10**5, 200),
    (SORT, "f4", 10**4, 1000),
    (SORT, "f4", 10**4, 4096),
    (ARGSORT, "f4", 10**4, 4096),
    (SORT, "f8", 10**4, 4096),
    (SORT, "f8", 1, 5000),
    (ARGSORT, "f8", 1, 5000),
    (SORT, "f8", 1000, 8192),
    (ARGSORT, "f8", 1000, 8192),
    (SORT, "f4", 100, 10**6),
    (SORT, "f4", 1, 2**20),
    (SORT, "f4", 1, 2**16),
]
TILES = {
    SORT: [
        plan.Tile(block, items, min_blocks, matching)
        for block, items, min_blocks in (
            (256, 16, 4), (256, 18, 4), (256, 20, 4), (256, 22, 4), (256, 24, 3), (256, 12, 5), (256, 10, 5),
            (256, 14, 4), (384, 10, 3), (384, 14, 3), (384, 18, 3), (384, 20, 2), (384, 23, 2), (512, 12, 2),
            (512, 16, 2), (512, 20, 2), (512, 23, 2),
        )
        for matching in (MATCH, BALLOT)
    ],
    ARGSORT: [
        plan.Tile(block, items, min_blocks, matching)
        for block, items, min_blocks in (
            (256, 8, 4), (256, 10, 4), (256, 12, 3), (256, 14, 3), (256, 16, 2), (384, 8, 3), (384, 10, 2),
            (384, 12, 2), (384, 14, 2), (512, 8, 2), (512, 10, 2), (512, 12, 2),
        )
        for matching in (MATCH, BALLOT)
    ],
}  # fmt: skip


def drawn(rng, dtype, size):
    """Return random elements, all bits of integers, normal floats."""
    if dtype.kind in "iu":
        return rng.integers(0, 256, size * dtype.itemsize, np.uint8).view(dtype)
    if dtype.kind == "c":
        return rng.standard_normal(2 * size, f"f{dtype.itemsize // 2}").view(dtype)
    return rng.standard_normal(size, "f4" if dtype.itemsize <= 4 else "f8").astype(dtype)


def name_of(what, dtype, rows, length):
    """Return the name that patterns are searched in."""
    return f"{what} {dtype} {rows} x {length}"


class Case:
    """Elements on the device, and what sorts them."""

    def __init__(self, backend, what, dtype, rows, length, rng):
        self.backend, self.what, self.dtype, self.shape = backend, what, np.dtype(dtype), (rows, length)
        self.host = drawn(rng, self.dtype, rows * length).reshape(rows, length)
        self.result = np.dtype(np.int64) if what == ARGSORT else self.dtype
        self.buffers = [backend.allocate(self.host.size * d.itemsize) for d in (self.result, self.dtype)]
        backend.upload(self.buffers[1].ptr, self.host.reshape(-1))
        self.made = None
        self.name = name_of(what, dtype, rows, length)

    def prepare(self, tile=None):
        make = plan.argsort if self.what == ARGSORT else plan.sort
        self.made = make(*self.shape, from_dtype(self.dtype), self.backend.capability, tile)
        return Prepared(self.backend, self.made, [self.buffers[0].ptr], [self.buffers[1].ptr])

    def is_right(self):
        """Whether what the last launch left is what NumPy's stable sort leaves."""
        found = np.empty(self.shape, self.result)
        self.backend.download(found.reshape(-1).view(np.uint8), self.buffers[0].ptr)
        if self.what == ARGSORT:
            rows = range(0, self.shape[0], max(1, self.shape[0] // SAMPLED_ROWS))
            return all(self._is_order(found[row], self.host[row]) for row in rows)
        if self.host.size <= MAX_SORTED or self.shape[0] > 1:
            rows = slice(None, None, max(1, self.host.size // MAX_SORTED))
            return np.array_equal(found[rows], np.sort(self.host[rows], axis=1))
        return bool((found[0, 1:] >= found[0, :-1]).all()) and self._sum(found) == self._sum(self.host)

    @staticmethod
    def _sum(x):
        """Return a sum of all elements' bits, mixed, in any order."""
        bits = x.reshape(-1).view(f"u{min(x.itemsize, 8)}").astype(np.uint64)
        bits ^= bits >> np.uint64(31)
        bits *= np.uint64(0x9E3779B97F4A7C15)
        bits ^= bits >> np.uint64(29)
        bits *= np.uint64(0xBF58476D1CE4E5B9)
        return int(bits.sum())

    @staticmethod
    def _is_order(order, x):
        """Whether an order is the stable one: no descent, and equal elements by their places; all places are there."""
        seen = np.zeros(x.size, np.bool_)
        seen[order] = True
        y = x[order]
        rises = (y[1:] > y[:-1]) | ((y[1:] == y[:-1]) & (order[1:] > order[:-1]))
        return bool(seen.all() and rises.all())

    def floor_nbytes(self):
        """Bytes that the passes move; once in and out where a block or a warp sorts alone."""
        key, size = self.dtype.itemsize, self.host.size
        if len(self.made.steps) <= 2:
            return size * (key + self.result.itemsize)
        passes = num_digits(from_dtype(self.dtype))
        if self.what == SORT:
            return size * key * (1 + 2 * passes)
        return size * (key * 2 * passes + 8 * (passes - 1) + self.result.itemsize)


def peers():
    """Return CuPy and PyTorch, those that are there."""
    found = {}
    for name in ("cupy", "torch"):
        try:
            found[name] = importlib.import_module(name)
        except ImportError:
            continue
    return found


def milliseconds_of_peers(case, modules, repetitions):
    """Return how long the others take, by their names."""
    times = {}
    for name, module in modules.items():
        if name == "torch":
            if case.dtype.kind == "c":
                continue
            x = module.from_numpy(case.host).cuda()

            def run(x=x, module=module):
                return module.argsort(x, stable=True) if case.what == ARGSORT else module.sort(x, stable=True).values

            record = lambda module=module: _recorded(module.cuda.Event(enable_timing=True))  # noqa: E731
            elapsed = lambda a, b, module=module: (module.cuda.synchronize(), a.elapsed_time(b))[1]  # noqa: E731
        else:
            x = module.asarray(case.host)

            def run(x=x, module=module):
                return module.argsort(x, axis=1) if case.what == ARGSORT else module.sort(x, axis=1)

            record = lambda module=module: _recorded(module.cuda.Event())  # noqa: E731
            elapsed = lambda a, b, module=module: (b.synchronize(), module.cuda.get_elapsed_time(a, b))[1]  # noqa: E731
        taken = []
        for _ in range(repetitions + 1):
            begin = record()
            run()
            taken.append(elapsed(begin, record()))
        times[name] = float(np.median(taken[1:]))
        del x, run
        if name == "cupy":
            module.get_default_memory_pool().free_all_blocks()
        else:
            module.cuda.empty_cache()
    return times


def _recorded(event):
    event.record()
    return event


def copy_rate(backend):
    """Return the bytes that a copy on the device reads and writes per millisecond."""
    a, b = (backend.allocate(COPY_NBYTES) for _ in range(2))
    backend.fill(a.ptr, 1, COPY_NBYTES)
    return 2 * COPY_NBYTES / milliseconds(backend, lambda: backend.copy(b.ptr, a.ptr, COPY_NBYTES))


def times_of_steps(backend, prepared, repetitions=5):
    """Return the name and the median time of each step, which runs behind those before it."""
    times = []
    for _ in range(repetitions):
        events = [backend.record_event()]
        for _, enqueue in prepared.launches:
            enqueue()
            events.append(backend.record_event())
        backend.synchronize()
        times.append([a.elapsed_ms(b) for a, b in itertools.pairwise(events)])
    names = [name for name, _ in prepared.launches]
    return list(zip(names, np.median(times, axis=0), strict=True))


def sweep(backend, case):
    """Print how long each candidate takes, the fastest first; whether all are right."""
    times, is_right = [], True
    for tile in TILES[case.what]:
        try:
            launch = case.prepare(tile)
        except Exception as error:  # noqa: BLE001 - one that does not fit the device is reported, and the next one tried
            write(f"    {tuple(tile)}: {error}")
            continue
        times.append((milliseconds(backend, launch, 5), tile))
        if not case.is_right():
            is_right = False
            write(f"    {tuple(tile)}: WRONG")
    for time, tile in sorted(times)[:12]:
        write(f"    {time:8.3f} ms {tuple(tile)}")
    return is_right


def main():
    """Run the cases."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pattern", nargs="?", default="")
    for option in ("--quick", "--peer", "--sweep", "--launches"):
        parser.add_argument(option, action="store_true")
    settings.add_option(parser)
    options = parser.parse_args()
    settings.apply(options.set)
    backend, rng, is_right = open_backend(), np.random.default_rng(0), True
    rate, repetitions = copy_rate(backend), 5 if options.quick else 15
    modules = peers() if options.peer else {}
    write(f"copy {rate / 1e9:.2f} TB/s")
    drawn = Columns([26, 9, 22, 6, 6, 5], width=columns(), right=range(1, 5), text=[])
    write(drawn.draw(["case", "ours", "peers", "ratio", "floor", ""]))
    for what, dtype, rows, length in CASES:
        scale = 8 if options.quick and length > 2**22 else 1
        if not re.search(options.pattern, name_of(what, dtype, rows, length // scale)):
            continue
        case = Case(backend, what, dtype, rows, length // scale, rng)
        if options.sweep:
            write(case.name)
            is_right &= sweep(backend, case)
            continue
        launch = case.prepare()
        time = milliseconds(backend, launch, repetitions)
        ok = case.is_right()
        is_right &= ok
        others = milliseconds_of_peers(case, modules, repetitions)
        told = " ".join(f"{name} {other:.3f}" for name, other in others.items())
        ratio = f"{min(others.values()) / time:6.2f}" if others else ""
        share = case.floor_nbytes() / rate / time
        write(drawn.draw([case.name, f"{time:.3f}", told, ratio, f"{share:.2f}", "" if ok else "WRONG"]))
        if options.launches:
            for name, each in times_of_steps(backend, launch):
                write(f"    {name:20} {each:8.3f}")
        del case, launch
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main())

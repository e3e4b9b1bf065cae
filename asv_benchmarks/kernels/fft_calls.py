"""What calls of Fourier transforms take on the host: ``python -m asv_benchmarks.kernels.fft_calls [PART ...]``.

Parts, all unless given: ``found``, a transform of a shape that has been seen: what asking for it takes, its plan found
again, in microseconds, and with its launch; ``new``, the first transform of a length, of which nothing is kept on disk:
planning, tracing and compiling, and that of other numbers of rows, which want one kernel more at most (4111 elements
share the kernel of 4099); ``scipy``, of one array from 2^10 to 2^26 beside `scipy.fft.fft` with one worker and
with all, of arrays on the device and of arrays on the host, whose results come back there, placed as placement finds;
``parts``, transforms with so little memory that they are computed in parts. Ends with status 1 where a plan takes 10 us
to find, a length 150 ms, device arrays from 2^20 on are less than 20 times as fast as SciPy, host arrays are slower, or
parts differ from the whole.
"""

import os
import sys
import tempfile
import time

import numpy as np
import scipy.fft

import oxinp
from asv_benchmarks.kernels.plans import write
from oxinp import _runtime
from oxinp._core.lazy.expr import leaf
from oxinp._core.ops.fft import FFT
from oxinp._core.ops.fft_request import Request
from oxinp._core.ops.overwriting import bind_overwriting

MOST_US, MOST_MS, LEAST_RATIO, FEWEST = 10.0, 150.0, 20.0, 1 << 20
SLOWER = 1.1  # times SciPy's time that a host array may take: what times differ by from run to run
NEW = (729, 1000, 2000, 4095, 4096, 8192, 16384, 1009, 4099, 4111, 10007, 100003, 65536, 1 << 20, 1 << 22)
ASKED = 300  # times
MOST_IN_BLOCK, LONG = 2, 1 << 15  # kernels of a length that a block transforms, and lengths that none does
OTHER_ROWS, MOST_ELEMENTS = (1, 2, 3, 5, 9, 70, 500, 4000), 1 << 22
LIMITED = 1 << 24  # elements of what has as much memory as itself


class Watch:
    """The kernels that a backend loads."""

    def __init__(self, backend):
        self.times, self.load = [], backend.loader.load_module
        self.loader = backend.loader
        self.loader.load_module = self._timed

    def _timed(self, kernel):
        begin = time.perf_counter()
        module = self.load(kernel)
        self.times.append(1e3 * (time.perf_counter() - begin))
        return module

    def end(self):
        """Leave the loader as it was."""
        self.loader.load_module = self.load


def found():
    """Print what a call of a shape that has been seen takes; return whether that is little."""
    is_right = True
    for shape in ((1024,), (64, 1000), (1 << 16,)):
        x = oxinp.asarray(np.ones(shape, "F"))
        oxinp.evaluate(x + 0)
        times = {"asked": [], "launched": [], "found": []}
        for _ in range(ASKED):
            begin = time.perf_counter()
            result = oxinp.fft.fft(x)
            asked = time.perf_counter()
            oxinp.evaluate(result)
            times["asked"].append(asked - begin)
            times["launched"].append(time.perf_counter() - begin)
            oxinp.cuda.synchronize()
            begin = time.perf_counter()
            bind_overwriting(FFT, leaf(x._layout), Request("numpy", "fft", None, (-1,), None)).executable()
            times["found"].append(time.perf_counter() - begin)
        asked, launched, planned = (1e6 * float(np.median(each)) for each in times.values())
        is_right &= planned < MOST_US
        write(
            f"found  {shape!s:12s} plan {planned:6.2f} us, asked for in {asked:6.2f} us, launched in {launched:6.2f} us"
        )
    return is_right


def first_of(backend, watch, shape):
    """Milliseconds of the first transform of a shape, kernels that are loaded, and what that takes of it."""
    x = oxinp.asarray(np.ones(shape, "F"))
    oxinp.evaluate(x * 2)
    backend.synchronize()
    watch.times.clear()
    begin = time.perf_counter()
    oxinp.evaluate(oxinp.fft.fft(x))
    return 1e3 * (time.perf_counter() - begin), len(watch.times), sum(watch.times)


def new():
    """Print what the first transform of a length takes; return whether it is not long, and others need few kernels."""
    is_right, backend = True, _runtime.current()
    float(oxinp.ones(4096).sum())  # loads the compiler
    watch = Watch(backend)
    try:
        for n in NEW:
            taken, count, loaded = first_of(backend, watch, (max(1, (1 << 16) // n), n))
            is_right &= taken < MOST_MS
            others = [first_of(backend, watch, (rows, n)) for rows in OTHER_ROWS if rows * n <= MOST_ELEMENTS]
            rest = max(others)[0] if others else 0.0
            kernels = sum(other[1] for other in others)
            is_right &= n >= LONG or count > MOST_IN_BLOCK or kernels <= 1
            write(
                f"new    {n:8d} {taken:7.1f} ms, {count} kernels, loaded in {loaded:7.1f} ms; {len(others)} other "
                f"numbers of rows {rest:7.1f} ms at most, {kernels} kernels"
            )
    finally:
        watch.end()
    return is_right


def best(call, repetitions):
    """The least time of a call in milliseconds, of which the first teach placement."""
    times = []
    for _ in range(repetitions + 3):
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return 1e3 * min(times[3:])


def times_of(n, cores):
    """Times of SciPy with one worker and with all, of a device array, and of a host array, all of the same numbers."""
    x = np.random.default_rng(0).standard_normal((n, 2), np.float32).view("F")[:, 0]
    repetitions = 30 if n < FEWEST else 3
    scipys = [best(lambda workers=workers: scipy.fft.fft(x, workers=workers), repetitions) for workers in (1, cores)]
    host = best(lambda: np.asarray(oxinp.scipy.fft.fft(x)), repetitions)
    given = oxinp.asarray(x) * 1

    def compute():
        oxinp.evaluate(oxinp.scipy.fft.fft(given))
        oxinp.cuda.synchronize()

    return *scipys, best(compute, repetitions), host


def beside_scipy():
    """Print times of one transform beside SciPy's; return whether they are as wanted."""
    is_right, cores = True, os.cpu_count()
    for power in range(10, 27, 2):
        one, every, device, host = times_of(1 << power, cores)
        scipys = min(one, every)
        is_slow = host > SLOWER * scipys or (1 << power >= FEWEST and scipys < LEAST_RATIO * device)
        is_right &= not is_slow
        write(
            f"scipy  2^{power:<2d} SciPy {one:9.4f} ms, {cores} workers {every:9.4f}; on the device {device:8.4f}, "
            f"{scipys / device:7.1f}x; of a host array {host:9.4f}, {scipys / host:5.2f}x{' SLOW' if is_slow else ''}"
        )
    return is_right


def parts():
    """Print what transforms take that the memory does not hold; return whether they are right."""
    is_right, rng = True, np.random.default_rng(0)
    for name, shape in (("many", (LIMITED >> 13, 1 << 13)), ("one", (LIMITED,))):
        x = rng.standard_normal((*shape, 2), np.float32).view("F")[..., 0]
        began = time.perf_counter()
        whole = np.asarray(oxinp.scipy.fft.fft(x))
        fitting = time.perf_counter() - began
        oxinp.cuda.trim()
        oxinp.cuda.limit_memory(x.nbytes)
        try:
            with oxinp.explain() as report:
                began = time.perf_counter()
                found = np.asarray(oxinp.scipy.fft.fft(x))
                taken = time.perf_counter() - began
        finally:
            oxinp.cuda.limit_memory(None)
        error = float(abs(found - whole).max() / abs(whole).max())
        count = sum(entry.what.startswith("part of") for entry in report.entries)
        is_right &= error < 1e-6 and count > 1
        write(
            f"parts  {name:4s} {x.nbytes >> 20} MB with as much memory: {taken:6.2f} s in {count} parts, with enough "
            f"{fitting:6.2f} s; they differ by {error:.1e}"
        )
    return is_right


def main(arguments):
    """Print the parts; 1 where one is not as wanted."""
    os.environ["CUDA_CACHE_DISABLE"] = "1"  # the driver would keep what it has compiled in earlier runs
    parts_of_it = {"found": found, "new": new, "scipy": beside_scipy, "parts": parts}
    results = []
    for name in arguments or parts_of_it:
        settings = {"scipy": {}}.get(name, {"offload_threshold": 0})
        with tempfile.TemporaryDirectory() as folder, oxinp.config.override(cache_dir=folder, **settings):
            results.append(parts_of_it[name]())
    write("right" if all(results) else "WRONG")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Draws that are reduced as they are made, on a GPU: NumPy's results, and how fast.

``python -m asv_benchmarks.kernels.reduced_draws [--peer]`` counts draws below a number and points inside a circle
(Monte Carlo pi, 2^30 points), compares the count of 10**7 with NumPy's, says how many kernels
were launched, and prints a line per case: the median of wall times, with ``--peer`` that of CuPy's own
stream beside it. Ends with status 1 if anything is wrong.
"""

import argparse
import importlib
import statistics
import sys
import time

import numpy as np

import oxinp
from asv_benchmarks.kernels.plans import write

CHECKED = 10_000_000
SEED = 20_26


def below(rng, n):
    """How many draws are below a quarter."""
    return (rng.random(n) < 0.25).sum()


def inside(rng, n):
    """How many points are inside a circle."""
    x, y = rng.random(n), rng.random(n)
    return (x * x + y * y < 1).sum()


def average(rng, n):
    """The mean of uniform numbers of f32."""
    return (rng.random(n, dtype=np.float32) < np.float32(0.5)).mean()


CASES = {
    "count below, 2^27": (below, 2**27),
    "points inside, 2^30": (inside, 2**30),
    "f32 mean, 2^27": (average, 2**27),
}


def seconds(rng, case, size, synchronize):
    """Median time of a case."""
    times = []
    for _ in range(8):
        synchronize()
        begin = time.perf_counter()
        float(case(rng, size))
        times.append(time.perf_counter() - begin)
    return statistics.median(times[2:])


def main(arguments):
    """Check, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peer", action="store_true", help="measure CuPy as well")
    options = parser.parse_args(arguments)
    is_right = True
    for name, (case, size) in CASES.items():
        found = int(CHECKED * float(case(oxinp.random.default_rng(SEED), CHECKED)))
        expected = int(CHECKED * float(case(np.random.default_rng(SEED), CHECKED)))
        is_right &= found == expected
        rng = oxinp.random.default_rng(SEED)
        float(case(rng, size))
        before = oxinp.cuda.stats().launches
        float(case(rng, size))
        launches = oxinp.cuda.stats().launches - before
        own = seconds(rng, case, size, oxinp.cuda.synchronize)
        line = f"{name}: {own * 1e3:8.4f} ms, {launches} launches; {'as NumPy' if found == expected else 'WRONG'}"
        if options.peer:
            cupy = importlib.import_module("cupy")
            cupys = cupy.random.default_rng(SEED)
            other = seconds(cupys, case, size, cupy.cuda.Device().synchronize)
            line += f"; cupy {other * 1e3:.4f} ({other / own:.2f}x)"
        write(line)
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

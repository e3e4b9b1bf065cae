"""What it costs to tell of floating-point errors: ``python -m asv_benchmarks.kernels.floating_point_errors [REGEX]``.

Prints a line per elementwise case: the median of device-event times and of host times per call with nothing checked
(``ignore``), with what NumPy's default asks for (``warn``: division by zero, overflow, invalid), and the ratio of the
two; then the geometric means, which decide whether ``warn`` may be the default of `config.floating_point_errors`:
device times may lose 3 %. The values of both are compared bit for bit, at full size, and every case is run once more
with an operand that raises, which has to be told of. ``--scale N`` divides sizes. Ends with status 1 if anything is
wrong.
"""

import argparse
import math
import re
import statistics
import sys
import time
import warnings

import numpy as np

import oxinp
from asv_benchmarks.kernels.plans import write

REPETITIONS = 15
SIZE = 1 << 26


def fused(n, x, y, z):
    return n.sqrt(x * x + y * y) / (z + 1)


def sine(n, x, y, z):
    return n.sqrt(x * x + y * y) * n.sin(z)


def polynomial(n, x, y, z):
    del n
    return ((x * 0.5 + y) * x - z) * x + 1.5


def stencil(n, x, y, z):
    del n, y, z
    u = x[: x.size // 8192 * 8192].reshape(-1, 8192)
    inside = u[1:-1, 1:-1]
    return inside + 0.2 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4 * inside)


INF, NAN = np.inf, np.nan
# Name, dtype, what is computed of three arrays, and an element of each that raises.
CASES = [
    ("a+b f4", "f4", lambda _n, x, y, _z: x + y, (INF, -INF, 1)),
    ("a*b+c f4", "f4", lambda _n, x, y, z: x * y + z, (INF, 0, 1)),
    ("a/b f4", "f4", lambda _n, x, _y, z: x / z, (1, 1, 0)),
    ("sqrt(xx+yy)/(z+1) f4", "f4", fused, (1, 1, -1)),
    ("sqrt(xx+yy)*sin(z) f4", "f4", sine, (1, 1, INF)),
    ("polynomial f4", "f4", polynomial, (INF, 1, INF)),
    ("exp f4", "f4", lambda n, _x, _y, z: n.exp(z), (1, 1, 1e4)),
    ("log f4", "f4", lambda n, _x, _y, z: n.log(z), (1, 1, 0)),
    ("a+b f8", "f8", lambda _n, x, y, _z: x + y, (INF, -INF, 1)),
    ("a*b+c f8", "f8", lambda _n, x, y, z: x * y + z, (INF, 0, 1)),
    ("exp f8", "f8", lambda n, _x, _y, z: n.exp(z), (1, 1, 1e4)),
    ("power f8", "f8", lambda _n, _x, y, z: z**y, (1, 0.5, -1)),
    ("stencil f8", "f8", stencil, (INF, 1, 1)),
    ("astype f8 to f4", "f8", lambda _n, _x, _y, z: z.astype("f4"), (1, 1, 1e300)),
    ("astype f4 to i4", "f4", lambda _n, _x, _y, z: z.astype("i4"), (1, 1, NAN)),
    ("a+b f2", "f2", lambda _n, x, y, _z: x + y, (INF, -INF, 1)),
    ("a*b c8", "c8", lambda _n, x, y, _z: x * y, (INF, 0, 1)),
]
AT_ONCE = 4
STATES = ("ignore", "numpy")


def arrays(dtype, size):
    """Return three arrays of numbers between 1/2 and 2, which raise nothing."""
    rng = np.random.default_rng(7)
    made = [oxinp.asarray((rng.random(size, np.float32) * 1.5 + 0.5).astype(dtype)) for _ in range(3)]
    oxinp.evaluate(*made)
    return made


def times_of(run):
    """Return the median milliseconds of a call that follows others, on the device, and the host's microseconds."""
    device, host = [], []
    for _ in range(REPETITIONS + 3):
        begin, end = oxinp.cuda.Event(), oxinp.cuda.Event()
        oxinp.cuda.synchronize()
        begin.record()
        started = time.perf_counter()
        for _ in range(AT_ONCE):
            oxinp.evaluate(run())
        host.append(1e6 * (time.perf_counter() - started) / AT_ONCE)
        end.record()
        oxinp.cuda.synchronize()
        device.append(begin.elapsed_ms(end) / AT_ONCE)
    return statistics.median(device[3:]), statistics.median(host[3:])


def is_told(compute, operands, values):
    """Whether an element that raises is warned of, at the next wait."""
    changed = []
    for x, value in zip(operands, values, strict=True):
        x = x + 0  # noqa: PLW2901 - the numbers that are timed stay
        x[x.size // 2 + 99] = value
        changed.append(x)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        oxinp.evaluate(compute(oxinp, *changed))
        oxinp.cuda.synchronize()
    return bool(caught)


def measured(case, operands):
    """Return (device ms, host us) with nothing checked and with NumPy's default, and whether all is right."""
    _, _, compute, raising = case
    found, values = [], []
    for state in STATES:
        with oxinp.config.override(floating_point_errors=state):
            found.append(times_of(lambda: compute(oxinp, *operands)))
            values.append(oxinp.asnumpy(compute(oxinp, *operands)))
            is_silent = state == "numpy" and not is_told(compute, operands, raising)
    return found, values[0].tobytes() == values[1].tobytes() and not is_silent


def main():
    """Run the cases that a pattern selects; return whether anything is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pattern", nargs="?", default="")
    parser.add_argument("--scale", type=int, default=1)
    options = parser.parse_args()
    warnings.simplefilter("error")  # nothing is to be told of the numbers that are timed
    is_wrong = False
    ratios, host_ratios = [], []
    kept = {}
    write(f"{'case':<24}{'ignore ms':>11}{'warn ms':>10}{'ratio':>8}{'ignore us':>11}{'warn us':>9}")
    for case in CASES:
        if not re.search(options.pattern, case[0]):
            continue
        dtype = np.dtype(case[1])
        size = max(1 << 15, SIZE * 4 // max(4, dtype.itemsize) // options.scale)
        if dtype not in kept:
            kept.clear()
            kept[dtype] = arrays(dtype, size)
        ((plain, plain_us), (told, told_us)), is_right = measured(case, kept[dtype])
        is_wrong |= not is_right
        ratios.append(told / plain)
        host_ratios.append(told_us / plain_us)
        verdict = "" if is_right else "  WRONG"
        write(f"{case[0]:<24}{plain:>11.4f}{told:>10.4f}{told / plain:>8.3f}{plain_us:>11.1f}{told_us:>9.1f}{verdict}")
    for what, found in (("device", ratios), ("host", host_ratios)):
        if found:
            write(f"geometric mean, {what}: {math.exp(statistics.fmean(map(math.log, found))):.4f}")
    return is_wrong


if __name__ == "__main__":
    sys.exit(main())

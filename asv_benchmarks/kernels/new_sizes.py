"""Host time of statements on sizes that are new: `python -m asv_benchmarks.kernels.new_sizes`, beside NumPy.

Every statement runs on slices that grow by an element (a row) per iteration, after some that have its kernels compiled.
What the device does meanwhile is waited for before and after, not between: the figures are what asking for work costs.
Arrays stay on the device, whatever placement would learn. Results are compared with NumPy's.

With `--without-device` it runs over a driver that does nothing, on any machine, and only the thread's own time counts:
results are not compared, and Python's calls and the bytecodes of an iteration are counted, which no other load changes.
"""

# ruff: noqa: ICN001, ARG001 - oxinp or NumPy is np in statements, which all take the same

import argparse
import re
import statistics
import time
from functools import partial

import numpy

import oxinp
from asv_benchmarks.kernels import empty_driver
from oxinp._terminal import Columns, columns

WARM, ITERATIONS, BLOCK, COUNTED = 96, 600, 50, 15  # sizes before, measured, at a time, counted
LENGTH, SIDE, DEPTH = 1 << 15, 1100, 300


def chain(np, x, y, z, k):
    return x[:k] * x[:k] + 1.0


def named(np, x, y, z, k):
    square = x[:k] * x[:k]
    result = square + 1.0
    if np is oxinp:
        np.evaluate(result)
    return square


def stencil(np, x, y, z, k):
    z[1:-1] = 0.33 * (x[:-2] + x[1:-1] + x[2:])


def growing_stencil(np, x, y, z, k):
    z[1 : k - 1] = 0.33 * (x[: k - 2] + x[1 : k - 1] + x[2:k])


def total(np, x, y, z, k):
    return x[:k].sum()


def dot(np, x, y, z, k):
    return np.dot(np.flip(x[:k]), y[:k])


def loop(np, x, y, z, k):
    a = np.dot(np.flip(x[:k]), z[:k])
    z[:k] += a * np.flip(z[:k])


def product(np, x, y, z, k):
    return x[: (k - 11_900) * DEPTH].reshape(-1, DEPTH) @ y[: DEPTH * DEPTH].reshape(DEPTH, DEPTH)


def row_by_matrix(np, x, y, z, k):
    return x[:DEPTH] @ y.reshape(DEPTH, SIDE)[:, : k - 11_900]


def outer(np, x, y, z, k):
    z.reshape(DEPTH, SIDE)[:, : k - 11_900] -= np.outer(x[:DEPTH], y[: k - 11_900])


STATEMENTS = {
    "x[:k] * x[:k] + 1": (chain, numpy.float64, LENGTH),
    "s = x[:k] * x[:k]; r = s + 1": (named, numpy.float64, LENGTH),
    "z[1:-1] = 0.33 * (x[:-2] + x[1:-1] + x[2:])": (stencil, numpy.float64, LENGTH),
    "the same, of k elements": (growing_stencil, numpy.float64, LENGTH),
    "x[:k].sum()": (total, numpy.float64, LENGTH),
    "dot(flip(x[:k]), y[:k])": (dot, numpy.float64, LENGTH),
    "a = dot(flip(x[:k]), z[:k]); z[:k] += a * flip(z[:k])": (loop, numpy.float64, LENGTH),
    "x[:k] @ y, 300 x 300 f64": (product, numpy.float64, SIDE * DEPTH),
    "x[:k] @ y, 300 x 300 f32": (product, numpy.float32, SIDE * DEPTH),
    "x @ y[:, :k], 300 rows": (row_by_matrix, numpy.float64, SIDE * DEPTH),
    "z[:, :k] -= outer(x, y[:k]), 300 rows": (outer, numpy.float64, SIDE * DEPTH),
}


def run(np, body, arrays, k):
    """Return the result of an iteration, evaluated."""
    result = body(np, *arrays, k)
    if np is oxinp and result is not None:
        np.evaluate(result)
    return result


def microseconds(np, body, arrays, sizes, clock):
    """The least and the median time of an iteration, over blocks of them, and the last result."""
    times = []
    for start in range(0, len(sizes), BLOCK):
        begin = clock()
        for k in sizes[start : start + BLOCK]:
            result = run(np, body, arrays, k)
        times.append((clock() - begin) / BLOCK * 1e6)
    return min(times), statistics.median(times), result


def row(body, dtype, length, iterations, has_device):
    """Return the figures of a statement."""
    draw = numpy.random.default_rng(1)
    # Small, for the loop feeds its results back.
    given = [draw.standard_normal(length).astype(dtype) * 1e-3 for _ in range(3)]
    ours = [oxinp.asarray(x) for x in given]
    theirs = [x.copy() for x in given]
    warm, sizes = range(12_000 - WARM, 12_000), range(12_000, 12_000 + iterations)
    for k in warm:
        run(oxinp, body, ours, k)
        run(numpy, body, theirs, k)
    clock = time.perf_counter if has_device else time.thread_time
    oxinp.cuda.synchronize()
    least, median, found = microseconds(oxinp, body, ours, sizes, clock)
    oxinp.cuda.synchronize()
    _, numpys, wanted = microseconds(numpy, body, theirs, sizes, clock)
    cells = [f"{each:.1f}" for each in (least, median, numpys)]
    if not has_device:
        more = range(sizes.stop, sizes.stop + COUNTED)
        counts = empty_driver.calls_and_bytecodes(partial(run, oxinp, body, ours), more)
        return [*cells, *map(str, counts)]
    pairs = [(ours[2], theirs[2])] + ([] if wanted is None else [(found, wanted)])
    tolerance = 1e-9 if dtype is numpy.float64 else 1e-4
    is_same = all(
        numpy.allclose(numpy.asarray(a), b, rtol=tolerance, atol=tolerance * float(numpy.abs(b).max()))
        for a, b in pairs
    )
    return [*cells, "" if is_same else "WRONG"]


def main():
    """Print a row per statement."""
    parser = argparse.ArgumentParser(description=__doc__.partition(":")[0])
    parser.add_argument("pattern", nargs="?", default="", help="which statements, by a regular expression")
    parser.add_argument("--without-device", action="store_true", help="over a driver that does nothing")
    parser.add_argument("--iterations", type=int, default=ITERATIONS, help="sizes of each statement")
    options = parser.parse_args()
    if options.without_device:
        empty_driver.start()
    oxinp.config.adaptive_placement = False
    titles = ["statement", "least us", "median us", "NumPy us"]
    titles += ["calls", "bytecodes"] if options.without_device else [""]
    widths = [56, 8, 9, 8, *([6, 9] if options.without_device else [5])]
    drawn = Columns(widths, width=columns(), right=range(1, len(titles)), text=[])
    print(drawn.draw(titles))
    for name, statement in STATEMENTS.items():
        if re.search(options.pattern, name):
            cells = row(*statement, options.iterations, has_device=not options.without_device)
            print(drawn.draw([name, *cells]), flush=True)


if __name__ == "__main__":
    main()

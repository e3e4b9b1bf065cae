"""What placement reckons that the device gains with a statement, beside what it does gain.

``python -m asv_benchmarks.placement`` runs statements on arrays of several sizes in loops, with NumPy on the host and
with oxinp on the device, where all of them stay; it prints the microseconds that one takes, the difference, and the
difference by the prices of `oxinp._core.lazy.balance`. Arrays go to the host and back by those, so that a price that is
wrong shows here, by the kind of work that it is of.
"""

import argparse
import gc
import statistics
import time

import numpy as np

from asv_benchmarks import sides
from oxinp._core.lazy.balance import Balance, balance
from oxinp._terminal import Columns, columns

MICROSECONDS = 1e6
SIZES = (1 << 17, 1 << 19, 1 << 21, 1 << 23)
"""Bytes of a matrix."""
LENGTH, WARM, ROUNDS = 60, 6, 7
"""Statements of a round, rounds before those that are timed, and those that are."""

# `A`, `B`, `mask`: n by n, a third of it True; `v`, `w`: n; `h`: half of n; `idx`: n * n / 4 indices; `i`: from 1 to
# n - 1. All others are float64.
STATEMENTS = (
    *("A + B", "A += B", "A / B", "np.sqrt(A)", "np.exp(B)", "B**2", "np.where(mask, A, B)", "A.T + B", "A.copy()"),
    "A[1:-1, 1:-1] = 0.25 * (B[:-2, 1:-1] + B[2:, 1:-1] + B[1:-1, :-2] + B[1:-1, 2:])",
    *("A.sum()", "A.sum(axis=0)", "A.max(axis=1)", "np.maximum(A - B, 0.0).sum(axis=1)", "np.cumsum(A, axis=1)"),
    *("np.roll(A, 1, axis=0)", "A[:, ::-1] * 2.0", "A.ravel()[idx]", "A[mask]", "np.sort(A, axis=1)"),
    *("A @ v", "v @ A", "A[:i] @ v", "A[:i].T @ w[:i]", "w[:i] @ A[:i, :h]", "A[:h] @ B[:, :8]"),
    *("A[i] *= 0.5", "A[:, i] = B[:, i] * 0.5", "A[i, :i] @ v[:i]", "A[i:, i] @ B[i:, i]", "A[i:] * 0.5"),
    *("A[:i].sum(axis=0)", "A[i:, i:] -= np.outer(w[i:], v[i:])"),
)


def loop_of(statement, side, nbytes):
    """Return a function that runs a statement for each of some numbers, and how many there are."""
    n, rng = int((nbytes / 8) ** 0.5), np.random.default_rng(1)
    given = {
        "A": rng.random((n, n)) + 0.5,
        "B": rng.random((n, n)) + 0.5,
        "v": rng.random(n),
        "w": rng.random(n) * 1e-3,
    }
    given |= {"idx": rng.integers(0, n * n, n * n // 4), "mask": rng.random((n, n)) < 0.3}
    given = {name: side.asarray(value) for name, value in given.items()}
    if side.materialise is not None:
        side.materialise(*given.values())
    given |= {"np": side.xp, "h": n // 2, "compute": side.materialise or (lambda _: None)}
    text = statement if "=" in statement.replace("axis=", "") else f"compute({statement})"
    exec(f"def loop(numbers):\n    global A\n    for i in numbers:\n        {text}\n", given)  # noqa: S102 - one of the table's
    return given["loop"], n


def rounds(n, num):
    """Yield the numbers of so many rounds."""
    step = max(n // LENGTH, 1)
    for k in range(num):
        yield [1 + (k % step + step * j) % (n - 1) for j in range(LENGTH)]


def measured(statement, side, nbytes):
    """Return the median of the microseconds that a statement takes."""
    loop, n = loop_of(statement, side, nbytes)
    for numbers in rounds(n, WARM):
        loop(numbers)
        side.synchronize()
    times = []
    for numbers in rounds(n, ROUNDS):
        began = time.perf_counter()
        loop(numbers)
        side.synchronize()
        times.append((time.perf_counter() - began) / LENGTH)
    return MICROSECONDS * statistics.median(times)


def reckoned(statement, side, nbytes):
    """Return the microseconds that the device gains with a statement by the prices, once it is not new."""
    loop, n = loop_of(statement, side, nbytes)
    total, weigh = 0.0, Balance._weigh

    def note(self, size, microseconds):
        nonlocal total
        total += microseconds
        del self, size

    side.xp.config.adaptive_placement = True
    try:
        for k, numbers in enumerate(rounds(n, WARM + 2)):
            balance.begin(side.xp.config.offload_threshold, is_adaptive=True)
            if k == WARM:
                Balance._weigh = note
            balance.each = LENGTH * 100  # launches, all of which are weighed
            loop(numbers)
            side.synchronize()
    finally:
        Balance._weigh = weigh
        side.xp.config.adaptive_placement = False
    return total / (2 * LENGTH)


def main(arguments=None):
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m asv_benchmarks.placement", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--only", default="", help="statements that contain this text")
    options = parser.parse_args(arguments)
    ours, numpys = sides.load("oxinp"), sides.load("numpy")
    ours.xp.config.adaptive_placement = False
    heads = ["statement", "bytes", "numpy us", "device us", "gain", "reckoned"]
    drawn = Columns([56, 9, 9, 9, 9, 9], width=columns(), right=range(1, len(heads)))
    print(drawn.draw(heads))
    for statement in STATEMENTS:
        for nbytes in SIZES if options.only in statement else ():
            theirs, mine = measured(statement, numpys, nbytes), measured(statement, ours, nbytes)
            price = reckoned(statement, ours, nbytes)
            numbers = [f"{number:.1f}" for number in (theirs, mine, theirs - mine, price)]
            print(drawn.draw([statement, str(nbytes), *numbers]), flush=True)
            gc.collect()


if __name__ == "__main__":
    main()

"""What statements on parts of device arrays cost the host, at sizes that are new each time and at one size.

``python -m asv_benchmarks.statements`` runs each of the statements in a loop without waiting for the device, and prints
the microseconds of the host's time that one takes, for oxinp and for CuPy where that is installed, and the calls of
Python functions that ours makes, which no other load on the machine changes.
"""

import argparse
import math
import statistics
import sys
import time

from asv_benchmarks import sides
from oxinp._terminal import Columns, columns

MICROSECONDS = 1e6
N = 3000
FIRST, LENGTH, ROUNDS = 600, 40, 20
"""The first size that is timed, and how many statements a round has: those before let the library learn."""

# `i`: grows by one each time, or stays; `A`, `B`: N by N; `v`: N; `P`: N by 60; all float64, on the device.
STATEMENTS = (
    *("A[i:] * 0.5", "A[i, i:] + B[i, i:]", "np.exp(A[i:, i])", "P[i:] - P[i]", "A[i:, i:].sum(axis=1)"),
    *("A[i:, i:] @ v[i:]", "v[i:] @ A[i:, i:]", "np.linalg.norm(A[i:, i])"),
    *("A[i, i:] *= 0.5", "A[i:, i] -= B[i, i:]", "A[i:, i:] *= v[i:]", "A[i, i:] = 0.0", "A[i:, i] = A[i, i:]"),
    *("A[i, i:] = B[i, i:] * 0.5 + v[i:]", "A[i:, i:] -= np.outer(v[i:], v[i:] * 2.0)"),
    *("A[i, i:] = (A[i, i:] - A[i - 1, i:]) * 0.5", "v[1:-1] = 0.33 * (v[:-2] + v[1:-1] + v[2:])"),
    "A[1:-1, 1:-1] = 0.25 * (A[:-2, 1:-1] + A[2:, 1:-1] + A[1:-1, :-2] + A[1:-1, 2:])",
    # Whole matrices, numbers of the host, vectors that are new there, and what functions make of matrices.
    *("A[:] = 0.5 * (A + B)", "np.add(A, B, out=A)", "np.multiply(A[i:, i:], B[i:, i:], out=A[i:, i:])"),
    *("np.copyto(A[i:, i:], B[i:, i:])", "A[i, i] = 3.0", "A[i:, i:] -= v[i:] * 2.0", "A[i:, i:] = v[i:] * 2.0"),
    *("A[i:, i:] / (v[i:] + 1.0)[:, None]", "A[i:, i:] -= np.outer(A[i:, i], A[i, i:])", "np.exp(-A[i:, i:])"),
    *("np.sqrt(A[i:, i:] ** 2 + B[i:, i:] ** 2)", "np.maximum(A[i:, i:], 0.0)", "np.zeros((i, i))"),
    *("A[i:, i:] = np.where(B[i:, i:] > 0.4, A[i:, i:], 0.0)", "A[i], A[i + 1] = A[i + 1].copy(), A[i].copy()"),
    *("np.stack([A[i, i:], B[i, i:]])", "np.concatenate([A[i:, i:], B[i:, i:]])", "A[i:, i:].reshape(-1)"),
)


def loop_of(statement, side):
    """Return a function that runs a statement for each of some numbers."""
    xp = side.xp
    given = {"np": xp, "A": xp.ones((N, N)), "B": xp.ones((N, N)) * 0.5, "v": xp.ones(N) * 0.5, "P": xp.ones((N, 60))}
    if side.materialise is not None:
        side.materialise(*[each for name, each in given.items() if name != "np"])
    exec(f"def loop(numbers):\n    for i in numbers:\n        {statement}\n", given)  # noqa: S102 - one of the table's
    return given["loop"]


def measure(statement, side, *, is_new):
    """Return the median of the microseconds that the host takes for a statement."""
    loop = loop_of(statement, side)
    for begin in range(0, FIRST, LENGTH):
        loop(range(begin, begin + LENGTH) if is_new else [FIRST] * LENGTH)
        side.synchronize()
    times = []
    for k in range(ROUNDS):
        numbers = range(FIRST + k * LENGTH, FIRST + (k + 1) * LENGTH) if is_new else [FIRST] * LENGTH
        began = time.perf_counter()
        loop(numbers)
        times.append((time.perf_counter() - began) / LENGTH)
        side.synchronize()
    return MICROSECONDS * statistics.median(times)


def num_calls(statement, side):
    """Return the calls of Python functions that a statement of new sizes makes, on an average."""
    loop, count = loop_of(statement, side), 0
    loop(range(100))

    def note(frame, event, argument):
        nonlocal count
        del frame, argument
        count += event == "call"

    sys.setprofile(note)
    try:
        loop(range(100, 120))
    finally:
        sys.setprofile(None)
    return (count - 1) / 20


MOST = 20
"""Microseconds of the host that a statement is to take at most."""


def main(arguments=None):
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m asv_benchmarks.statements", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--peer", default="cupy", help="the other library, if it is installed")
    parser.add_argument("--only", default="", help="statements that contain this text")
    options = parser.parse_args(arguments)
    ours = sides.load("oxinp")
    try:
        peer = sides.load(options.peer)
    except sides.MissingError:
        peer = None
    heads = ["statement", "new us", "same us", "calls", *([f"{options.peer} new us", "same us"] if peer else [])]
    drawn = Columns([56, 7, 8, 6, *([12, 8] if peer else [])], width=columns(), right=range(1, len(heads)))
    print(drawn.draw(heads))
    ratios, times = [], []
    for statement in STATEMENTS:
        if options.only not in statement:
            continue
        calls = num_calls(statement, ours)
        new, same = (measure(statement, ours, is_new=is_new) for is_new in (True, False))
        times.append(new)
        row = [f"{new:.1f}", f"{same:.1f}", f"{calls:.0f}"]
        if peer:
            theirs = [measure(statement, peer, is_new=is_new) for is_new in (True, False)]
            row += [f"{each:.1f}" for each in theirs]
            ratios += [theirs[0] / new]
        print(drawn.draw([statement, *row]))
    num_within = sum(each <= MOST for each in times)
    print(f"within {MOST} us, of new sizes: {num_within} of {len(times)}")
    if ratios:
        mean = math.exp(statistics.fmean(map(math.log, ratios)))
        print(f"geometric mean of the peer's time by ours, of new sizes: {mean:.2f}")


if __name__ == "__main__":
    main()

"""The wave equation in two dimensions, with boundaries that absorb and a source that swings."""

import numpy as np

SIZES = {"tiny": (3, 10), "small": (60, 100), "medium": (100, 500), "large": (200, 3000)}


def make(rng, steps, n):
    return steps, 0.3 + 0.2 * rng.random((n, n))


def run(steps, speed):
    n = len(speed)
    before, now = np.zeros((n, n)), np.zeros((n, n))
    squared = speed[1:-1, 1:-1] ** 2
    share = (speed - 1.0) / (speed + 1.0)
    record = np.zeros(steps)
    for step in range(steps):
        after = np.empty_like(now)
        bent = now[2:, 1:-1] + now[:-2, 1:-1] + now[1:-1, 2:] + now[1:-1, :-2] - 4.0 * now[1:-1, 1:-1]
        after[1:-1, 1:-1] = 2.0 * now[1:-1, 1:-1] - before[1:-1, 1:-1] + squared * bent
        after[0, 1:-1] = now[1, 1:-1] + share[0, 1:-1] * (after[1, 1:-1] - now[0, 1:-1])
        after[-1, 1:-1] = now[-2, 1:-1] + share[-1, 1:-1] * (after[-2, 1:-1] - now[-1, 1:-1])
        after[:, 0] = now[:, 1] + share[:, 0] * (now[:, 1] - now[:, 0])
        after[:, -1] = now[:, -2] + share[:, -1] * (now[:, -2] - now[:, -1])
        after[n // 2, n // 3] += np.sin(0.2 * step)
        record[step] = after[n // 3, n // 2]
        before, now = now, after
    return now, record

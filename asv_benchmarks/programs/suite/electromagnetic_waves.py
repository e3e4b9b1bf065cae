"""Maxwell's equations in two dimensions by finite differences in time (FDTD)."""

SIZES = {"tiny": (3, 9, 11), "small": (40, 200, 220), "medium": (100, 500, 550), "large": (250, 1500, 1600)}


def make(rng, steps, nx, ny):
    return rng.random(steps), rng.random((nx, ny)), rng.random((nx, ny)), rng.random((nx, ny))


def run(source, ex, ey, hz):
    for t in range(len(source)):
        ey[0, :] = source[t]
        ey[1:, :] -= 0.5 * (hz[1:, :] - hz[:-1, :])
        ex[:, 1:] -= 0.5 * (hz[:, 1:] - hz[:, :-1])
        hz[:-1, :-1] -= 0.7 * (ex[:-1, 1:] - ex[:-1, :-1] + ey[1:, :-1] - ey[:-1, :-1])
    return ex, ey, hz

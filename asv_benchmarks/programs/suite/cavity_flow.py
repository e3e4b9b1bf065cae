"""Flow in a cavity: a pressure solver of many small steps inside each step in time."""

import numpy as np

SIZES = {"tiny": (2, 9, 3), "small": (10, 41, 20), "medium": (20, 101, 50), "large": (30, 301, 50)}


def make(rng, steps, n, inner):
    return steps, inner, np.zeros((n, n)), np.zeros((n, n)), 0.01 * rng.random((n, n))


def source(u, v, dt, d):
    b = np.zeros_like(u)
    ux, vy = (u[1:-1, 2:] - u[1:-1, :-2]) / (2 * d), (v[2:, 1:-1] - v[:-2, 1:-1]) / (2 * d)
    uy, vx = (u[2:, 1:-1] - u[:-2, 1:-1]) / (2 * d), (v[1:-1, 2:] - v[1:-1, :-2]) / (2 * d)
    b[1:-1, 1:-1] = (ux + vy) / dt - ux**2 - 2 * uy * vx - vy**2
    return b


def pressure(p, b, d, inner):
    for _ in range(inner):
        pn = p.copy()
        p[1:-1, 1:-1] = 0.25 * (pn[1:-1, 2:] + pn[1:-1, :-2] + pn[2:, 1:-1] + pn[:-2, 1:-1] - d * d * b[1:-1, 1:-1])
        p[:, -1] = p[:, -2]
        p[0, :] = p[1, :]
        p[:, 0] = p[:, 1]
        p[-1, :] = 0
    return p


def moved(w, u, v, gradient, dt, d):
    inner = w[1:-1, 1:-1]
    return (
        inner
        - u[1:-1, 1:-1] * dt / d * (inner - w[1:-1, :-2])
        - v[1:-1, 1:-1] * dt / d * (inner - w[:-2, 1:-1])
        - dt / (2 * d) * gradient
        + 0.1 * dt / d**2 * (w[1:-1, 2:] + w[1:-1, :-2] + w[2:, 1:-1] + w[:-2, 1:-1] - 4 * inner)
    )


def run(steps, inner, u, v, p):
    d = 2 / (len(u) - 1)
    dt = 0.1 * d * d
    for _ in range(steps):
        p = pressure(p, source(u, v, dt, d), d, inner)
        un, vn = u.copy(), v.copy()
        u[1:-1, 1:-1] = moved(un, un, vn, p[1:-1, 2:] - p[1:-1, :-2], dt, d)
        v[1:-1, 1:-1] = moved(vn, un, vn, p[2:, 1:-1] - p[:-2, 1:-1], dt, d)
        for w in (u, v):
            w[0, :] = w[:, 0] = w[:, -1] = w[-1, :] = 0
        u[-1, :] = 1
    return u, v, p

"""Random problems where planners have ways of their own that few shapes lead to: one statement after the other."""

from __future__ import annotations

from typing import Any

import numpy  # noqa: ICN001 - np is ours

import oxinp as np
from tests.fuzz.problem import Problem

NUMBERS = ("f2", "f4", "f8", "c8", "c16")
LAPACK = ("f4", "f8", "c8", "c16")


def convolutions(p: Problem) -> Any:
    """Return a convolution of every dtype with few taps."""
    dtype = p.dtype(("f2", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "f4", "f8", "c8", "c16"))
    x, taps = p.empty((p.choice((5000, 1 << 20, 3_000_001)),), dtype), p.empty((p.choice((2, 3, 9, 100)),), dtype)
    return p.call(("np.convolve(x, t)", "np.convolve(x, t, 'valid')", "np.correlate(x, t, 'same')"), x=x, t=taps)


def banded_systems(p: Problem) -> Any:
    """Return the solution of banded systems with many right-hand sides."""
    order, columns, dtype = p.choice((300, 2000, 10_000)), p.choice((64, 512, 3000)), p.dtype(LAPACK)
    low, high = p.choice((1, 2, 3)), p.choice((0, 1, 2))
    diagonals = numpy.ones((low + high + 1, order), dtype)
    diagonals[high] = 9
    b = p.empty((order, columns), dtype)
    linalg = np.scipy.linalg
    return p.call(
        (
            "linalg.solve_banded((low, high), d, b)",
            "linalg.solveh_banded(d[high:], b, lower=True)",
            "linalg.solve_banded((low, high), np.array(d), b * 2)",
        ),
        linalg=linalg,
        low=low,
        high=high,
        d=diagonals,
        b=b,
    )


def stacks_of_products(p: Problem) -> Any:
    """Return products of many matrices that are neither small nor large."""
    count, dtype = p.choice((500, 5000, 40_000)), p.dtype(("f4", "f4", "f8", "c8", "c16", "f2"))
    m, k, n = (p.choice((20, 33, 40, 48, 64, 100)) for _ in range(3))
    x, y = p.empty((count, m, k), dtype), p.empty((count, k, n), dtype)
    return p.call(("x @ y", "x @ y + 1", "x @ y * y[:, :1]", "x.swapaxes(1, 2) @ x", "x @ x.swapaxes(1, 2)"), x=x, y=y)


def large_writes(p: Problem) -> Any:
    """Write or add at many indices of vectors of every extent."""
    extent, count = (
        p.choice((100, 5000, 1 << 20, 50_000_000, (1 << 31) + 8)),
        p.choice((5000, 1 << 20, 1 << 24, 1 << 27)),
    )
    dtype = p.dtype(("f4", "f8", "c8", "c16", "i1", "i4", "i8", "f2", "u1"))
    x = p.empty((min(extent, 1 << 28) if dtype == "c16" else extent,), dtype)
    index = p.empty((count,), p.dtype(("i4", "i8", "u4")))
    values = p.empty((count,), dtype) if p.chance(70) else 1

    def write(into: Any, at: Any, given: Any) -> Any:
        into[at] = given
        return into

    return p.call(
        (
            "write(x, i, v)",
            "write(x, i, v)",
            "np.add.at(x, i, v)",
            "np.maximum.at(x, i, v)",
            "np.bincount(i, minlength=n)",
            "np.bincount(i, np.broadcast_to(np.asarray(v).real, i.shape).astype('f8'), n)",
            "np.put(x, i, v)",
            "x[i] + x[i[::-1]]",
            "np.take(x, i, mode='clip')",
        ),
        write=write,
        x=x,
        i=index,
        v=values,
        n=min(extent, 1 << 20),
    )


def large_factorisations(p: Problem) -> Any:
    """Return factorisations of orders at which panels are factored beside updates."""
    order, dtype = p.choice((40, 300, 1000, 2500, 4200, 8200)), p.dtype(LAPACK)
    a, s = p.empty((order, order), dtype), p.empty((order, max(order // 3, 2)), dtype)
    linalg = np.scipy.linalg
    return p.call(
        (
            "linalg.hessenberg(a, calc_q=True)",
            "linalg.hessenberg(a)",
            "linalg.qr(s, mode='raw', pivoting=True)",
            "linalg.qr(s, mode='r', pivoting=True)",
            "linalg.qr(a, mode='economic', pivoting=True)",
            "np.linalg.qr(a)",
            "np.linalg.qr(s, mode='raw')",
            "np.linalg.solve(a, s)",
            "np.linalg.inv(a)",
            "np.linalg.cholesky(a)",
            "linalg.cho_solve(linalg.cho_factor(a, lower=True), s)",
            "linalg.cholesky(a[::-1, ::-1], lower=True)",
            "np.linalg.eigh(a[:1000, :1000])",
            "np.linalg.slogdet(a)",
            "linalg.lu_factor(s)",
            "np.linalg.eigvals(a[:700, :700])",
        ),
        linalg=linalg,
        a=a,
        s=s,
    )


def long_passes(p: Problem) -> Any:
    """Return scans, counts and order statistics of what is long or has many columns."""
    dtype = p.dtype(("f2", "f4", "f8", "c8", "c16", "i1", "i4", "i8", "u8", "?"))
    shape = p.choice(
        ((1 << 24,), (100_003,), (3000, 5000), (3_000_001, 3), (5, 1 << 20), (40_000, 64), (100, 100, 1000))
    )
    x = p.empty(shape, dtype)
    if p.chance(30):
        x = x[..., ::-1]
    return p.call(
        (
            "np.cumsum(x, 0)",
            "np.cumsum(x, -1)",
            "np.cumprod(x, 0)",
            "np.nancumsum(x)",
            "np.maximum.accumulate(x.real, 0)",
            "np.histogram(x.real, 100)",
            "np.histogram(x.real.ravel(), np.linspace(0, 1, 3000))",
            "np.quantile(x.real.astype('f4'), 0.3)",
            "np.partition(x.real, 5, -1)",
            "np.searchsorted(np.sort(x.real.ravel()), x.real.ravel()[:100_000])",
            "np.unique(x)",
            "np.argmax(x.real, 0)",
            "np.argmin(x.real)",
            "np.sum(x, 0)",
            "np.prod(x)",
            "np.var(x, 0)",
            "np.std(x, -1)",
            "np.any(x, 0)",
            "x - x.mean(-1, keepdims=True)",
            "np.exp(x - x.real.max(0)) / x.sum(0)",
            "np.linalg.norm(x, axis=-1)",
        ),
        x=x,
    )


CORNERS = (convolutions, banded_systems, stacks_of_products, large_writes, large_factorisations, long_passes)


def corners(p: Problem) -> Any:
    """Ask for one of the above."""
    return p.choice(CORNERS)(p)

"""Random problems as large as it takes: planners have ways of their own from millions of elements on."""

from __future__ import annotations

from typing import Any

import numpy  # noqa: ICN001 - np is ours
import scipy.sparse as scipy_sparse

import oxinp as np
from tests.fuzz.problem import Problem

LAPACK = ("f4", "f8", "c8", "c16")
FACTORED = (37 * 41, 97 * 101, 37**2 * 64, 2 * 37**3, 211 * 512, 41 * 4096, 3 * 101**2)
PRIMES = (101, 211, 401, 1009, 2017, 4001, 4513, 6007, 8209, 10_007, 65_537, 100_003, 1_000_003)


def fourier_filters(p: Problem) -> Any:
    """Return transforms there and back, and something between them."""
    shape = p.choice(
        (
            (1 << 20,), (1 << 22,), (1 << 24,), (3_000_000,), (64, 4096), (5000, 1000), (300, 1 << 16), (2048, 2048),
            (1000, 1024), (16, 1 << 20), (1024, 100), (256, 256, 256), (100, 97), (1 << 26,), (8192, 40), (40, 60),
            (1 << 18, 6), (1 << 21, 3), (3**13, 5), (16_384, 200), (1009, 64), (64, 1009), (6, 1 << 24), (30_000, 512),
        )
    )  # fmt: skip
    dtype = p.dtype(("f4", "f8", "c8", "c16", "c8", "c16"))
    x, n = p.empty(shape, dtype), shape[-1]
    half = n // 2 + 1
    h = p.empty((n,) if p.chance(50) else shape, p.dtype((dtype, "f4", "f8")))
    column = p.empty((shape[0], *(1,) * (len(shape) - 1)), dtype)
    forms = (
        "fft.ifft(fft.fft(x) * h)",
        "fft.ifft(h * fft.fft(x)).real",
        "fft.ifft(fft.fft(x * 2) * h) + 1",
        "fft.ifft(fft.fft(x, axis=0) * c, axis=0)",
        "fft.ifft2(fft.fft2(x) * h)" if len(shape) > 1 else "fft.ifft(fft.fft(x).conj() * h)",
        "fft.ifftn(fft.fftn(x) * h)",
        "fft.irfft(fft.rfft(x.real) * h[..., :half], n)",
        "fft.irfft(fft.rfft(x.real) * 2, n) + 1",
        "fft.irfftn(fft.rfftn(x.real) * h[..., :half], x.shape)",
        "fft.fft(fft.ifft(x) * h, norm='ortho')",
        "abs(fft.ifft(fft.fft(x[::-1]) * h)) ** 2",
        "fft.ifft(fft.fft(x)[..., ::2] * h[..., ::2])",
        "fft.ifft(fft.fft(x) * h, n + n // 2)",
        "fft.ifft(fft.fft(x) * h, n - 3)",
        "fft.ifft(fft.fft(x, 2 * n) * 3)",
        "fft.irfft(fft.rfft(x.real) * h[..., :half], 2 * n)",
        "fft.irfft(fft.rfft(x.real, axis=0) * 2, x.shape[0], axis=0)",
        "fft.ifft(fft.rfft(x.real) * 2)",
        "fft.ifft(fft.fft(x, axis=0) * h, axis=-1)",
        "fft.ifftn(fft.fftn(x) * h) * 2 - x",
        "fft.irfftn(fft.rfftn(x.real) * h[..., :half], x.shape) + 1",
        "fft.ifft(fft.fft(x, axis=0) * c, axis=0) * 2 + 1",
        "fft.fft2(fft.ifft2(x) * 2)" if len(shape) > 1 else "fft.fft(fft.ifft(x) * 2) * h",
    )
    return p.call(forms, fft=np.fft, x=x, h=h, c=column, half=half, n=n)


def fourier_lengths(p: Problem) -> Any:
    """Return transforms of primes and of what no block holds, of rows and of columns."""
    length = p.choice((*PRIMES, *FACTORED, 1 << 13, 1 << 20, 6000, 30_030, 3**12, 1 << 26))
    count = min(p.choice((1, 3, 100, 3000, 40_000)), max(1, (1 << 27) // length))
    dtype = p.dtype(("f4", "f8", "c8", "c16", "f2"))
    is_column = p.chance(40)
    x = p.empty((length, count) if is_column else (count, length), dtype)
    names = {"fft": np.fft, "x": x, "axis": 0 if is_column else 1, "dct": np.scipy.fft}
    return p.call(
        (
            "fft.fft(x, axis=axis)",
            "fft.fft(x, axis=axis)",
            "fft.ifft(x * 2, axis=axis)",
            "fft.fft(x, axis=axis) * 2 + 1",
            "fft.rfft(x.real, axis=axis)",
            "fft.irfft(x, axis=axis)",
            "fft.irfft(x, x.shape[axis], axis=axis) - 1",
            "abs(fft.fft(x, axis=axis))",
            "fft.fft2(x)",
            "fft.rfft2(x.real)",
            "fft.fft(x.T)",
            "fft.fft(x[::2], axis=1)",
            "fft.fft(x[:, ::-1], axis=1)",
            "fft.fftshift(fft.fft(x, axis=axis), axis)",
            "dct.dct(x.real, axis=axis)",
            "dct.dst(x.real, 3, axis=axis)",
            "dct.idct(x.real, axis=axis) + 1",
        ),
        **names,
    )


def searches(p: Problem) -> Any:
    """Return the places of many values among few or many."""
    dtype = p.dtype(("f4", "f8", "i4", "i8", "u4", "u1", "c8", "i2", "f2"))
    a = p.empty((p.choice((100, 200, 5000, 1 << 17, 1 << 20, 3_000_001, 1 << 24)),), dtype)
    v = p.empty((p.choice((1000, 1 << 19, 1 << 21, 1 << 24)),), dtype)
    return p.call(
        (
            "np.searchsorted(a, v)",
            "np.searchsorted(a, v, 'right')",
            "np.searchsorted(a, v + 1)",
            "np.isin(v, a)",
            "np.digitize(v.real, np.arange(300.0))",
            "np.unique(v)",
            "np.unique(v, return_inverse=True)",
            "np.partition(v.real, 1000)",
            "np.partition(v.real, (5, 700))",
            "np.argpartition(v.real, v.size // 3)",
            "np.median(v.real)",
            "np.histogram(v.real, 5000)",
            "np.bincount(abs(v).astype('i8'), minlength=4000)",
        ),
        a=a,
        v=v,
    )


def updates(p: Problem) -> Any:
    """Add, multiply, write and read at many places."""
    extent = p.choice((10, 300, 5000, 100_003, 1 << 20, 1 << 24, 50_000_000, 400_000_000))
    count = p.choice((5000, 1 << 17, 1 << 20, 1 << 21, 3_000_001, 1 << 24, 1 << 27))
    dtype = p.dtype(("f4", "f8", "i4", "u4", "i8", "u8", "f2", "c8", "i1", "?"))
    x, i = p.empty((extent,), dtype), p.empty((count,), p.dtype(("i4", "i8", "u4")))
    v = p.empty((count,), dtype) if p.chance(60) else numpy.ones((), dtype)[()]
    return p.call(
        (
            "np.add.at(x, i, v)",
            "np.add.at(x, i, v)",
            "np.add.at(x[::2], i, v)",
            "np.multiply.at(x, i, v)",
            "np.maximum.at(x, i, v)",
            "np.logaddexp.at(x.astype('f4'), i, v)",
            "np.bincount(i, np.zeros(i.shape), x.size)",
            "np.bincount(i, np.zeros(i.shape, 'f4'), 1000)",
            "x.__setitem__(i, v)",
            "x.__setitem__(i, 1)",
            "x.reshape(-1, 2)[: x.size // 2].__setitem__(i[: 1 << 20], 1)" if extent % 2 == 0 else "np.put(x, i, v)",
            "np.histogram(x.real, 300, weights=x.real)",
            "x[i]",
            "x[::-2][i] * 2",
        ),
        x=x,
        i=i,
        v=v,
    )


def narrow_reductions(p: Problem) -> Any:
    """Return reductions of matrices of few columns, of few rows, and of what is selected."""
    dtype = p.dtype(("f2", "f4", "f8", "c8", "c16", "i1", "i4", "u8", "?"))
    shape = p.choice(((1 << 20, 3), (65_536, 2), (99_990, 7), (1 << 18, 16), (300, 30), (5, 1 << 20), (64, 3, 5000)))
    x = p.empty(shape, dtype)
    out = p.empty((shape[-1], 2), dtype)[:, 0]
    return p.call(
        (
            "x.sum(0)",
            "x.max(0)",
            "x.mean(0)",
            "x.mean(0, where=x > 1)",
            "x.sum(0, where=x[:1] > 1)",
            "x.mean()",
            "x.real.argmin(0)",
            "x.std(0)",
            "x.prod(-1)",
            "np.broadcast_to(x[:1], x.shape).sum(0)",
            "(x * x[:1]).sum(0)",
            "(x * 2 + x[..., :1]).mean(-1)",
            "np.add.reduce(x.T, -1)",
            "np.linalg.norm(x, axis=0)",
            "x.any(0)",
            "x.sum((0, -1))",
            "np.cumsum(x, 0)",
            "np.cumprod(x, -1)",
            "np.add.accumulate(x[::-1], 0)",
            "np.nanmean(x, 0)",
            "np.ptp(x.real, 0)",
            "np.add.reduce(x, tuple(range(x.ndim - 1)), out=out)",
        ),
        x=x,
        out=out,
    )


def rows_at_once(p: Problem) -> Any:
    """Return chains with reductions along rows in them."""
    dtype = p.dtype(("f2", "f4", "f8", "c8", "f4"))
    shape = p.choice(((1000, 5000), (7, 100_003), (40_000, 64), (3000, 33), (2, 1 << 22), (100, 20, 1024), (5000, 1)))
    x, row, column = p.empty(shape, dtype), p.empty(shape[-1:], dtype), p.empty((*shape[:-1], 1), dtype)
    if p.chance(25):
        x = x[..., ::-1] if p.chance(50) else p.empty((*shape[:-1], shape[-1] + 1), dtype)[..., 1:]
    return p.call(
        (
            "(e := np.exp(x - x.real.max(-1, keepdims=True))) / e.sum(-1, keepdims=True)",
            "(x - x.mean(-1, keepdims=True)) / x.std(-1, keepdims=True) * r + r",
            "x / x.sum(-1, keepdims=True)",
            "x * r - (x * r).sum(-1, keepdims=True) + c",
            "x / np.sqrt((x * x).mean(-1, keepdims=True)) * r",
            "(x - x.mean(0)) / x.std(0)",
            "x - x.mean(-1, keepdims=True, where=x.real > 0)",
            "[t := x.sum(-1, keepdims=True), x - t, x * t]",
            "np.where(x.real > x.real.mean(-1, keepdims=True), x, 0).sum(-1)",
            "np.scipy.special.softmax(x.real, -1)",
            "np.scipy.special.logsumexp(x.real, -1)",
            "x - x.sum(-1, keepdims=True) * x.real.max(-1, keepdims=True) * x.real.min(-1, keepdims=True)",
        ),
        x=x,
        r=row,
        c=column,
    )


def spectra(p: Problem) -> Any:
    """Return eigenvalues, singular values and solutions of matrices of every size, alone and stacked."""
    order, dtype = p.choice((3, 20, 33, 70, 100, 130, 300, 520, 700, 1100)), p.dtype(LAPACK)
    count = p.choice((0, 0, 0, 2, 40, 1000)) if order <= 130 else 0
    a = p.empty((*((count,) if count else ()), order, order), dtype)
    return p.call(
        (
            "np.linalg.eigvals(a)",
            "np.linalg.eig(a)",
            "np.linalg.eigh(a)",
            "np.linalg.eigvalsh(a)",
            "np.linalg.svd(a)",
            "np.linalg.svd(a[..., : a.shape[-1] // 2, :])",
            "np.linalg.svd(a[..., : a.shape[-1] // 2], full_matrices=False)",
            "np.linalg.svdvals(a)",
            "np.linalg.pinv(a)",
            "np.linalg.lstsq(a, a[..., :2])" if not count else "np.linalg.matrix_rank(a)",
            "np.linalg.eigh(a.swapaxes(-1, -2))",
            "np.linalg.eigh(a[..., ::-1, ::-1])",
            "np.linalg.cond(a)",
            "np.scipy.linalg.schur(a)" if not count else "np.linalg.det(a)",
            "np.scipy.linalg.eigh_tridiagonal(a[..., 0, :].real, a[..., 1, 1:].real)"
            if not count
            else "np.linalg.inv(a)",
            "np.linalg.qr(a, 'complete')",
        ),
        a=a,
    )


def large_systems(p: Problem) -> Any:
    """Return factors and solutions, of orders up to where block columns have block columns."""
    order, dtype = p.choice((32, 500, 1500, 3000, 4500, 9000)), p.dtype((*LAPACK, "f8"))
    a, b = p.empty((order, order), dtype), p.empty((order, p.choice((1, 16, 300))), dtype)
    if p.chance(25):
        a = p.empty((order, order + 1), dtype)[:, 1:]
    return p.call(
        (
            "np.linalg.cholesky(a)",
            "np.linalg.cholesky(a)",
            "np.linalg.cholesky(a, upper=True)",
            "np.linalg.solve(a, b)",
            "np.linalg.solve(a, b[:, 0])",
            "np.linalg.inv(a)",
            "np.linalg.qr(a[:, : a.shape[0] // 2])",
            "np.linalg.qr(a)",
            "np.linalg.det(a)",
            "np.scipy.linalg.lu_factor(a)",
            "np.scipy.linalg.cho_solve((a, True), b)",
            "np.scipy.linalg.solve_triangular(a, b, lower=True, unit_diagonal=True)",
            "np.scipy.linalg.solve_triangular(a, b)",
            "np.scipy.linalg.solve(a, b, assume_a='pos')",
        ),
        a=a,
        b=b,
    )


def chains_of_products(p: Problem) -> Any:
    """Return products that something is made of at once: scaled, added to, compared, cast."""
    m, k, n = (p.choice((1, 16, 100, 256, 500, 512, 1024, 1500, 2048, 4096, 8192)) for _ in range(3))
    dtype = p.dtype(("f2", "f4", "f8", "c8", "c16", "i1", "u1", "i4", "f4", "f8"))
    count = p.choice((0, 0, 0, 3, 50)) if m * k + k * n + m * n < 1 << 22 else 0
    lead = (count,) if count else ()
    a, b, c = p.empty((*lead, m, k), dtype), p.empty((*lead, k, n), dtype), p.empty((*lead, m, n), dtype)
    if p.chance(30):
        a = p.empty((*lead, k, m), dtype).swapaxes(-1, -2)
    if p.chance(30):
        b = p.empty((*lead, n, k), dtype).swapaxes(-1, -2)
    return p.call(
        (
            "a @ b",
            "a @ b + c",
            "a @ b * 2 + c",
            "c - a @ b",
            "np.maximum(a @ b + c[..., :1, :], 0)",
            "(a @ b).astype('f4')",
            "np.exp(a @ b * 0.5)",
            "a @ b + c * c - c[..., :1]",
            "(a @ b) * (a @ b)",
            "np.add(a @ b, c, out=c)",
            "np.matmul(a, b, dtype='f4')" if dtype == "f2" else "(a @ b).swapaxes(-1, -2) + 1",
            "a @ b + c.swapaxes(-1, -2)[..., : c.shape[-2], : c.shape[-1]]" if m == n else "a @ b > 1",
            "a @ b[..., 0]",
            "np.matmul(a, b, out=c)",
        ),
        a=a,
        b=b,
        c=c,
    )


def sparse_products(p: Problem) -> Any:
    """Return products of sparse matrices whose rows are short, long or full."""
    library, index = np.scipy.sparse, p.choice(("i4", "i8"))
    rows, each = p.choice(((100_003, 1), (100_003, 5), (5000, 40), (300, 250), (1000, 1)))
    dtype = p.dtype(("f4", "f8", "c8", "c16", "i4", "i8"))
    indptr = numpy.arange(rows + 1, dtype=index) * each
    indices = ((numpy.arange(rows * each) // each + numpy.arange(rows * each) % each * 7) % rows).astype(index)
    given = (numpy.ones(rows * each, dtype), indices, indptr)
    A = library.csr_array(scipy_sparse.csr_array(given, shape=(rows, rows)))
    x, y = p.empty((rows,), dtype), p.empty((rows, p.choice((2, 8, 33, 64))), dtype)
    return p.call(
        (
            "A @ A",
            "A @ A",
            "A.T @ A",
            "A @ A[:, :50]",
            "A @ y",
            "A @ y.copy('F')",
            "A @ x",
            "linalg.spsolve_triangular(A, x)",
            "linalg.spsolve_triangular(A, y, lower=False)",
            "A.T.tocsr()",
        ),
        A=A,
        x=x,
        y=y,
        linalg=library.linalg,
    )

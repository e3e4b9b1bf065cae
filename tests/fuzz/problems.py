"""Random problems for every planner, as programs ask for them: each family a function of the choices."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy  # noqa: ICN001 - np is ours

import oxinp as np
from tests.fuzz.draw import Draw

BOOL, INTEGERS = ("?",), ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8")
FLOATS, COMPLEX = ("f2", "f4", "f8"), ("c8", "c16")
DTYPES = (*BOOL, *INTEGERS, *FLOATS, *COMPLEX, "f4", "f8", "f4", "f8", "i4", "i8")
EXTENTS = (
    1,
    2,
    3,
    4,
    5,
    7,
    8,
    16,
    17,
    31,
    32,
    33,
    40,
    64,
    100,
    127,
    128,
    129,
    255,
    256,
    257,
    500,
    512,
    777,
    1000,
    1024,
    1500,
    2048,
    3000,
    4096,
    5000,
    10_000,
    65_535,
    65_536,
    100_003,
    1 << 20,
    3_000_001,
    1 << 24,
    50_000_000,
)
MAX_SIZE = 1 << 28
HUGE_SIZE = 1 << 33  # beyond what 32 bits index


def lying(array: Any) -> Any:
    """Return an array once it has been computed."""
    np.evaluate(array)
    return array


class Problem:
    """The choices of one problem.

    Parameters
    ----------
    draw : Draw
    """

    def __init__(self, draw: Draw) -> None:
        self.draw = draw
        self.choice, self.chance, self.integer = draw.choice, draw.chance, draw.integer

    def shape(self, ndim: int | None = None, most: int = MAX_SIZE, largest: int | None = None) -> tuple[int, ...]:
        """Return a random shape."""
        ndim = self.choice((1, 1, 2, 2, 2, 3, 4)) if ndim is None else ndim
        extents = [n for n in EXTENTS if largest is None or n <= largest]
        if most == MAX_SIZE and self.chance(4):
            most = HUGE_SIZE
        if self.chance(3):
            extents = [0, *extents]
        while True:
            shape = tuple(self.choice(extents) for _ in range(ndim))
            if math.prod(shape) <= most:
                return shape

    def dtype(self, dtypes: tuple[str, ...] = DTYPES) -> str:
        """Return a random dtype."""
        return self.choice(dtypes)

    def array(self, shape: tuple[int, ...], dtype: str) -> Any:
        """Return an array on the device of any layout: contiguous, in another order, in steps, reversed, broadcast."""
        form = self.integer(0, 9) if shape else 0
        if form == 4:
            order = list(range(len(shape)))
            order = [order.pop(self.integer(0, len(order) - 1)) for _ in shape]
            base = self.empty(tuple(shape[i] for i in order), dtype)
            return base.transpose([order.index(i) for i in range(len(shape))])
        if form == 5:
            return self.empty((*shape[:-1], shape[-1] + 3), dtype)[..., self.integer(0, 3) :][..., : shape[-1]]
        if form == 6:
            steps = tuple(slice(None, None, self.choice((1, 2, -1, 3))) for _ in shape)
            base = tuple(n * abs(s.step) for n, s in zip(shape, steps, strict=True))
            return self.empty(base, dtype)[steps] if math.prod(base) <= 4 * MAX_SIZE else self.empty(shape, dtype)
        if form == 7:
            kept = tuple(1 if self.chance(50) else n for n in shape)
            return np.broadcast_to(self.empty(kept, dtype), shape)
        if form == 8:
            return self.empty((shape[0] + 1, *shape[1:]), dtype)[1:]
        if form == 9:
            return self.empty(shape, dtype) + self.choice((1, 2))  # waits to be computed
        return self.empty(shape, dtype)

    def empty(self, shape: tuple[int, ...], dtype: str) -> Any:
        """Return an array that lies in memory."""
        return lying(np.zeros(shape, dtype))

    def axis(self, ndim: int) -> Any:
        """Return one axis, several or None."""
        if not ndim or self.chance(25):
            return None
        if self.chance(60):
            return self.integer(-ndim, ndim - 1)
        return tuple(self.draw.sample(range(ndim), self.integer(1, ndim)))

    def call(self, templates: tuple[str, ...], **names: Any) -> Any:
        """Compute what one of the templates says."""
        self.text = self.choice(templates)
        return eval(self.text, {"np": np, "numpy": numpy, **names})  # noqa: S307 - our own code


UNARY = (
    "np.sqrt({})",
    "np.abs({})",
    "np.negative({})",
    "np.floor({})",
    "({}) * 2",
    "1 - ({})",
    "np.exp({})",
    "({}) ** 2",
    "np.isnan({})",
    "({}).astype('f4')",
    "({}).astype('f8')",
    "({}).astype('i4')",
    "({}) > 1",
    "np.sin({})",
    "({}).astype('?')",
    "({}).astype('c8')",
    "np.clip({}, 1, 3)",
)
BINARY = (
    "({}) + ({})",
    "({}) * ({})",
    "({}) / ({})",
    "({}) - ({})",
    "np.maximum({}, {})",
    "({}) < ({})",
    "np.arctan2({}, {})",
    "np.where(({}) > 1, {}, 0)",
    "({}) // ({})",
    "np.hypot({}, {})",
)


def chain_code(p: Problem, names: list[str], depth: int) -> str:
    """Return the code of a random chain over operands."""
    if not depth or p.chance(10):
        return p.choice(names)
    if p.chance(50):
        return p.choice(UNARY).format(chain_code(p, names, depth - 1))
    return p.choice(BINARY).format(chain_code(p, names, depth - 1), chain_code(p, names, p.integer(0, depth - 1)))


def chain(p: Problem, shape: tuple[int, ...] | None = None) -> Any:
    """Return a chain over arrays that are broadcast."""
    shape = p.shape() if shape is None else shape
    names = {}
    for name in "abcd"[: p.integer(1, 4)]:
        own = tuple(1 if p.chance(15) else n for n in shape)
        names[name] = p.array(own[p.integer(0, len(own)) if p.chance(10) else 0 :], p.dtype())
    return p.call((chain_code(p, list(names), p.integer(1, 5)),), **names)


def chains(p: Problem) -> Any:
    """Chains, their results stored anywhere."""
    made = chain(p)
    if p.chance(30):
        out = p.array(made.shape, p.dtype())
        if out.flags.writeable:
            np.copyto(out, made, casting="unsafe")
            return out
    return made


def copies(p: Problem) -> Any:
    """Copies that rearrange, join and repeat."""
    a = p.array(p.shape(), p.dtype())
    return p.call(
        (
            "a.copy()",
            "a.T.copy()",
            "np.concatenate([a, a])",
            "np.stack([a, a], -1)",
            "np.flip(a).copy()",
            "np.roll(a, 3)",
            "np.repeat(a, 2, axis=0)",
            "np.tile(a, 2)",
            "a.ravel('F')",
            "np.pad(a, 1)",
            "np.asfortranarray(a)",
            "np.rot90(np.atleast_2d(a)).copy()",
            "np.triu(np.atleast_2d(a))",
            "np.concatenate([a, a], axis=-1)",
            "np.swapaxes(a, 0, -1).copy()",
            "np.diff(a)",
        ),
        a=a,
    )


def reductions(p: Problem) -> Any:
    """Reductions over any axes, of arrays and chains."""
    x = chain(p) if p.chance(40) else p.array(p.shape(), p.dtype())
    axis = p.axis(x.ndim)
    keepdims = p.chance(30)
    single = axis[0] if isinstance(axis, tuple) else axis
    return p.call(
        (
            "np.sum(x, axis, keepdims=k)",
            "np.max(x, axis, keepdims=k)",
            "np.prod(x, axis)",
            "np.any(x, axis)",
            "np.all(x, axis)",
            "np.mean(x, axis)",
            "np.var(x, axis)",
            "np.std(x, axis, keepdims=k)",
            "np.argmax(x, s)",
            "np.argmin(x, s, keepdims=k)",
            "np.count_nonzero(x, axis)",
            "np.nansum(x, axis)",
            "np.sum(x, axis, dtype='f8')",
            "np.ptp(x, s)",
            "np.linalg.norm(x, axis=s)",
            "np.sum(x, axis, where=x > 1)",
            "np.logical_xor.reduce(x, s)",
            "np.average(x, s)",
            "np.nanmax(x, axis)",
            "x.sum() + x.max()",
            "np.sum(x * x, s) + np.max(x, s)",
            "np.bitwise_or.reduce(x > 1, s)",
            "np.min(x, axis, initial=3)",
            "np.trace(np.atleast_2d(x))",
        ),
        x=x,
        axis=axis,
        k=keepdims,
        s=single,
    )


def rows(p: Problem) -> Any:
    """Row-wise chains: reductions along rows, and what is made of these and the rows."""
    x = p.array(p.shape(p.choice((1, 2, 2, 3))), p.dtype((*FLOATS, "f4", "i4", "c8")))
    return p.call(
        (
            "np.exp(x - x.max(-1, keepdims=True)) / np.exp(x - x.max(-1, keepdims=True)).sum(-1, keepdims=True)",
            "(x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1)",
            "x / np.sqrt((x * x).sum(-1, keepdims=True))",
            "x - x.min(-1, keepdims=True)",
            "(x > x.mean(-1, keepdims=True)).sum(-1)",
            "x / x.sum(-1, keepdims=True) + x.max(-1, keepdims=True)",
            "(x - x.mean(0)) / x.std(0)",
            "np.cumsum(x / x.sum(-1, keepdims=True), -1)",
        ),
        x=x,
    )


def scans(p: Problem) -> Any:
    """Scans along any axis."""
    x = chain(p) if p.chance(30) else p.array(p.shape(), p.dtype())
    axis = None if p.chance(20) or not x.ndim else p.integer(-x.ndim, x.ndim - 1)
    return p.call(
        (
            "np.cumsum(x, axis)",
            "np.cumprod(x, axis)",
            "np.maximum.accumulate(x, a)",
            "np.logical_or.accumulate(x, a)",
            "np.nancumsum(x, axis)",
            "np.cumsum(x, axis, dtype='f8')",
            "np.minimum.accumulate(x, a)",
            "np.cumsum(x > 1, axis)",
            "np.add.accumulate(x[..., ::-1], a)",
        ),
        x=x,
        axis=axis,
        a=axis or 0,
    )


def products(p: Problem) -> Any:
    """Matrix products of every shape, dtype and layout, with chains before and behind."""
    largest = p.choice((33, 300, 4096, 10_000))
    m, k, n = (p.choice([e for e in EXTENTS if e <= largest]) for _ in range(3))
    batch = p.choice(((), (), (), (3,), (1, 16), (100,)))
    dtype = p.dtype(("f4", "f8", "f2", "c8", "c16", "i4", "i8", "i1", "u1", "?", "f4", "f2", "f8"))
    second = dtype if p.chance(85) else p.dtype()
    x, y = p.array((*(batch if p.chance(80) else ()), m, k), dtype), p.array((*batch, k, n), second)
    if p.chance(25):
        x, y = (
            lying(np.swapaxes(x, -1, -2).copy()).swapaxes(-1, -2),
            lying(np.swapaxes(y, -1, -2).copy()).swapaxes(-1, -2),
        )
    return p.call(
        (
            "x @ y",
            "x @ y",
            "x @ y + 1",
            "np.maximum(x @ y, 0)",
            "(x + 1) @ y",
            "x @ y[..., 0]",
            "x[..., 0, :] @ y",
            "x @ np.swapaxes(x, -1, -2)",
            "np.swapaxes(x, -1, -2) @ x",
            "np.einsum('...ij,...jk->...ki', x, y)",
            "2 * (x @ y) + (x @ y)",
            "np.matmul(x, y, dtype='f8')",
            "np.vecdot(x, x)",
            "np.matvec(x, y[..., 0])",
            "np.einsum('...ij,...ij->...i', x, x)",
            "np.inner(x[..., :1, :], x)",
            "np.exp(x @ y) * (x @ y).shape[-1]",
            "np.tensordot(x, y, ((-1,), (-2,)))",
            "np.outer(x[..., 0], y[..., 0])",
            "np.dot(x, y)",
            "np.einsum('...ij,...jk,...kl->...il', x, y, y.swapaxes(-1, -2))",
            "np.sum(x @ y, -1)",
            "np.kron(x[..., :3], y[..., :2])",
            "x @ y / 2 + x[..., :1]",
        ),
        x=x,
        y=y,
    )


def gathers(p: Problem) -> Any:
    """Reads and writes by index and by mask, counts and searches."""
    a = p.array(p.shape(p.choice((1, 1, 2, 3)), most=1 << 26), p.dtype())
    i = p.array(p.shape(p.choice((1, 1, 2)), most=1 << 24), p.dtype(("i4", "i8", "i8", "u1", "i2")))
    return p.call(
        (
            "a[i]",
            "a[..., i]",
            "np.take(a, i)",
            "np.take(a, i, axis=-1, mode='wrap')",
            "a[i, 0]",
            "a[np.zeros(3, int), ..., [0, 0, 0]]",
            "a[a > 1]",
            "a.copy().__setitem__(i, 3)",
            "np.add.at(a.copy(), i, 1)",
            "np.put(a.copy(), i, 2)",
            "a.copy().__setitem__(a > 1, 0)",
            "np.nonzero(a)",
            "np.take_along_axis(a, np.zeros(a.shape, int), 0)",
            "np.where(a > 1)",
            "np.bincount(i.ravel(), minlength=5)",
            "np.compress(a.ravel() > 1, a)",
            "np.searchsorted(np.sort(a.ravel()), a)",
            "np.histogram(a, 10, (0, 3))",
            "np.flatnonzero(a)",
            "np.delete(a, 0, axis=0)",
            "np.insert(a, 0, 1, axis=0)",
            "np.choose(i % 2, [i, i])",
            "np.repeat(a, 3)",
            "np.argwhere(a)",
            "np.digitize(a, np.arange(5.0))",
            "np.maximum.at(a.copy(), i, 1)",
            "np.add.reduceat(a, [0, 0], axis=0)",
            "np.interp(a, np.arange(5.0), np.arange(5.0))",
            "np.isin(a, i)",
            "np.putmask(a.copy(), a > 1, a)",
            "np.extract(a > 1, a)",
            "np.bincount(i.ravel(), np.ones(i.size))",
            "np.copyto(a.copy(), 1, where=a > 1)",
            "a[i[..., None], [0]]",
        ),
        a=a,
        i=i,
    )


def sorts(p: Problem) -> Any:
    """Sorts, selections, and what is made of sorted elements."""
    a = p.array(p.shape(p.choice((1, 1, 2, 3)), most=1 << 27), p.dtype())
    axis = p.integer(-a.ndim, a.ndim - 1)
    return p.call(
        (
            "np.sort(a, axis)",
            "np.argsort(a, axis, kind='stable')",
            "np.sort(a, None)",
            "np.argsort(a, axis)",
            "np.partition(a, 0, axis)",
            "np.unique(a)",
            "np.median(a, axis)",
            "np.percentile(a, [10, 90], axis)",
            "np.quantile(a, 0.3)",
            "np.lexsort((a, a))",
            "np.argpartition(a, 0, axis)",
            "np.unique(a, return_inverse=True, return_counts=True)",
            "np.nanmedian(a, axis)",
            "np.union1d(a, a)",
            "np.sort(a + a, axis)",
            "np.nanquantile(a, 0.5, axis)",
            "np.unique(a, axis=0)",
            "np.sort_complex(a)",
            "np.median(a)",
            "np.setdiff1d(a, a[:1])",
            "np.partition(a, (0, -1), axis)",
            "np.unique_counts(a)",
        ),
        a=a,
        axis=axis,
    )


def transforms(p: Problem) -> Any:
    """Fourier, cosine and sine transforms of any length along any axis."""
    x = p.array(p.shape(p.choice((1, 1, 2, 2, 3)), most=1 << 26), p.dtype(("f4", "f8", "c8", "c16", "f2", "i4")))
    lengths = (None, None, None, 7, 37, 97, 256, 1009, 2187, 4096, 6000, 65_536, 65_537, 1 << 20, 1_000_003, 14_641)
    n, axis = p.choice(lengths), p.integer(-x.ndim, x.ndim - 1)
    fft = np.scipy.fft
    return p.call(
        (
            "np.fft.fft(x, n, axis)",
            "np.fft.ifft(x, n, axis)",
            "np.fft.rfft(x, n, axis)",
            "np.fft.irfft(x, n, axis)",
            "np.fft.fftn(x)",
            "np.fft.rfftn(x)",
            "np.fft.irfftn(x)",
            "np.fft.fft2(x)",
            "np.fft.hfft(x, n, axis)",
            "np.fft.ihfft(x, n, axis)",
            "fft.dct(x, n=n, axis=axis)",
            "fft.idct(x, 3, n, axis)",
            "fft.dst(x, 4, n, axis)",
            "fft.dctn(x)",
            "np.fft.fft(x * 2, n, axis)",
            "abs(np.fft.fft(x, n, axis)) ** 2",
            "fft.dct(x, 1, axis=axis)",
            "np.fft.ifft(np.fft.fft(x) * 2)",
            "np.scipy.signal.fftconvolve(x, x[..., :5], axes=-1)",
            "np.convolve(x.ravel(), x.ravel()[:100])",
            "fft.dst(x, 1, axis=axis)",
            "np.fft.fft(x, n, axis, norm='ortho')",
        ),
        x=x,
        n=n,
        axis=axis,
        fft=fft,
    )


def factorisations(p: Problem) -> Any:
    """Factorisations, systems, eigenvalues and singular values."""
    largest = p.choice((5, 33, 130, 700))
    m, n = (p.choice([e for e in EXTENTS if e <= largest]) for _ in range(2))
    batch = p.choice(((), (), (), (3,), (1000,), (2, 5)))
    dtype = p.dtype(("f4", "f8", "c8", "c16", "i4"))
    a, b, s = p.array((*batch, n, n), dtype), p.array((*batch, n, m), dtype), p.array((*batch, m, n), dtype)
    linalg = np.scipy.linalg
    return p.call(
        (
            "np.linalg.inv(a)",
            "np.linalg.solve(a, b)",
            "np.linalg.solve(a, b[..., 0])",
            "np.linalg.cholesky(a)",
            "np.linalg.qr(s)",
            "np.linalg.qr(s, mode='r')",
            "np.linalg.det(a)",
            "np.linalg.slogdet(a)",
            "np.linalg.svd(s)",
            "np.linalg.svd(s, full_matrices=False)",
            "np.linalg.svdvals(s)",
            "np.linalg.eigh(a)",
            "np.linalg.eigvalsh(a)",
            "np.linalg.pinv(s)",
            "np.linalg.lstsq(s, s, rcond=None)",
            "np.linalg.matrix_power(a, 5)",
            "np.linalg.qr(s, mode='complete')",
            "linalg.solve_triangular(a, b, lower=True)",
            "linalg.lu_factor(a)",
            "linalg.lu(a)",
            "linalg.cho_factor(a)",
            "linalg.solve_triangular(a, b, trans=1)",
            "np.linalg.norm(a, 2)",
            "linalg.solve_triangular(a, b, trans=2, unit_diagonal=True)",
            "np.linalg.matrix_rank(a)",
            "np.linalg.eigh(a, 'U')",
            "linalg.lu_solve(linalg.lu_factor(a), b)",
            "linalg.expm(a)",
            "np.linalg.cond(a)",
            "np.linalg.multi_dot([a, a, b])",
            "linalg.cho_solve((a, True), b)",
            "np.linalg.norm(a, 'nuc')",
            "linalg.qr(s, pivoting=False)",
        ),
        a=a,
        b=b,
        s=s,
        linalg=linalg,
    )


def sparse(p: Problem) -> Any:
    """Sparse matrices by vectors, by matrices and by each other."""
    S = np.scipy.sparse
    m, n = (p.choice([e for e in EXTENTS if 2 <= e <= 3_000_001]) for _ in range(2))
    count = p.choice((1, 100, 5000, 1 << 20))
    dtype, index = p.dtype(("f4", "f8", "c8", "c16", "i4", "i8")), p.dtype(("i4", "i8", "i4"))
    value, column = p.empty((count,), dtype), p.empty((count,), index)
    ends = p.empty((m + 1,), index)
    made = p.choice(("csr", "csc", "coo"))
    if made == "coo":
        A = S.coo_array((value, (column, column)), shape=(m, n))
    else:
        A = (S.csr_array if made == "csr" else S.csc_array)(
            (value, column, ends), shape=(m, n) if made == "csr" else (n, m)
        )
    x, y = p.empty((A.shape[1],), dtype), p.array((A.shape[1], p.choice((1, 3, 16, 64))), dtype)
    return p.call(
        (
            "A @ x",
            "A @ x",
            "A @ y",
            "A.T @ A",
            "A @ A.T",
            "A + A",
            "A.multiply(2)",
            "A.T.tocsr()",
            "A.tocsr()",
            "A.tocoo()",
            "A.sum(axis=0)",
            "A.sum(axis=1)",
            "A.tocsc()",
            "A.T @ A[:, :1].toarray()",
            "A.diagonal()",
            "A.sum()",
            "2 * A - A",
            "A.multiply(A)",
            "abs(A)",
            "A[:1]",
            "A.max(axis=1)",
            "np.scipy.sparse.linalg.cg(A @ A.T, A @ x, maxiter=2)",
            "np.scipy.sparse.hstack([A, A])",
            "np.scipy.sparse.linalg.spsolve_triangular(A.tocsr(), x)",
            "A.astype('f8') @ x",
            "x @ A.T",
            "np.scipy.sparse.csgraph.connected_components(A)",
            "A.tocsr().sort_indices()",
            "np.scipy.sparse.csgraph.breadth_first_order(A, 0)",
        ),
        A=A,
        x=x,
        y=y,
    )


def random_numbers(p: Problem) -> Any:
    """Random numbers of every generator."""
    bits = p.choice(("PCG64", "PCG64DXSM", "Philox", "MT19937"))
    g = np.random.Generator(getattr(np.random, bits)(3))
    old, shape = np.random.RandomState(3), p.shape()
    a = p.array(p.shape(1, most=1 << 22), p.dtype())
    return p.call(
        (
            "g.random(d)",
            "g.random(d, 'f4')",
            "g.integers(7, size=d)",
            "g.integers(2**40, size=d)",
            "g.integers(0, 99, d, 'u1')",
            "g.standard_normal(d)",
            "g.standard_normal(d, 'f4')",
            "g.standard_exponential(d)",
            "g.normal(1, 2, d)",
            "g.choice(9, d)",
            "g.choice(9, d, p=[0.1] * 8 + [0.2])",
            "g.uniform(0, 2, d) < 1",
            "old.random_sample(d)",
            "old.randn(*d)",
            "old.randint(0, 9, d)",
            "g.exponential(2, d)",
            "g.triangular(0, 1, 2, d)",
            "g.permutation(a)",
            "g.shuffle(a.copy())",
            "g.choice(a, 5)",
            "old.uniform(0, 1, d)",
            "old.standard_exponential(d)",
            "g.gumbel(0, 1, d)",
            "g.integers(0, 2**32, d, 'u4')",
            "np.random.Generator(np.random.Philox4x32(3)).random(d)",
            "g.integers(-2**63, 2**63 - 1, d)",
            "old.randint(0, 2**40, d)",
            "g.laplace(0, 1, d)",
            "old.choice(9, d)",
            "g.permutation(100_000)",
        ),
        g=g,
        old=old,
        d=shape,
        a=a,
    )


FAMILIES: dict[str, Callable[[Problem], Any]] = {
    function.__name__: function
    for function in (
        chains,
        copies,
        reductions,
        rows,
        scans,
        products,
        gathers,
        sorts,
        transforms,
        factorisations,
        sparse,
        random_numbers,
    )
}

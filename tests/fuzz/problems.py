"""Random problems for every planner, as programs ask for them: each family a function of the choices."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy  # noqa: ICN001 - np is ours
import scipy.sparse

import oxinp as np
from oxinp._core.memory.dtypes import DEVICE_TYPES
from oxinp._kernels.blas3 import plan as blas3
from oxinp._kernels.gemm.operand import HERMITIAN, SYMMETRIC, TRIANGULAR, Form, Matrices, contiguous
from oxinp._kernels.plan import ALIGNMENT
from tests.fuzz import planning
from tests.fuzz.draw import Draw

SCIPY_SPARSE = scipy.sparse

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


def computed(value: Any) -> None:
    """Have computed what is an array."""
    if isinstance(value, np.ndarray) and value.__class__ is not numpy.ndarray:
        np.evaluate(value)


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
        if most == MAX_SIZE and self.chance(8):
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


def sizes(p: Problem) -> Any:
    """The same operation on one size after the other, as a loop over what grows asks for it."""
    x, y = p.empty((6000,), p.dtype()), p.empty((6000,), p.dtype())
    m = p.empty((300, 300), p.dtype())
    code = p.choice(
        (
            "x[:n] * 2 + y[:n]",
            "x[n:0:-1] + y[:n]",
            "x[n - 1 :: -1] * 2",
            "x[: 3 * n : 3] * y[:n]",
            "x[n : 2 * n] + 1",
            "x[1 : n + 1] * y[:n]",
            "np.where(x[:n] > 0, x[:n], y[:n])",
            "x[:n].astype('f4') * y[n : 2 * n]",
            "x[:n].sum()",
            "x[:n].copy()",
            "np.cumsum(x[:n])",
            "np.sort(x[:n])",
            "m[:n, :n] @ m[:n, :n]",
            "m[:n] @ m",
            "m[:n] + x[:300]",
            "m[:n, ::2] * 2",
            "m.T[:n] + m[:n]",
            "m[:n] - m[:n].mean(-1, keepdims=True)",
            "m[:, :n].sum(0)",
            "m[:n].max(-1)",
            "np.add(x[:n], 1, out=y[:n], casting='unsafe')",
            "x[:n].fill(3)",
            "x[np.arange(n)]",
            "np.fft.fft(x[:n])",
        )
    )
    p.text = code
    compiled = compile(code, "<problem>", "eval")
    for _ in range(p.integer(2, 6)):
        n = p.choice((1, 2, 3, 5, 16, 17, 40, 100, 128, 200, 255, 256, 299))
        computed(eval(compiled, {"np": np, "x": x, "y": y, "m": m, "n": n}))  # noqa: S307 - our own code
    return None


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
            "np.hstack([a, a[..., ::-1]])",
            "np.column_stack([a.ravel(), a.ravel()])",
            "np.concatenate([a, a + 1, a * 2])",
            "np.block([[np.atleast_2d(a), np.atleast_2d(a)]])",
            "np.repeat(a, 3, axis=-1)",
            "a.astype('f4').T.copy()",
            "np.pad(a, 2, mode='edge')",
            "np.pad(a, 2, mode='reflect')",
            "np.roll(a, (1, 2), (0, -1))",
            "a.reshape(-1)[::-1].copy()",
            "np.broadcast_to(a, (3, *a.shape)).copy()",
            "np.meshgrid(a.ravel()[:1000], a.ravel()[:1000])",
            "np.moveaxis(a, 0, -1).copy('F')",
            "np.tril(np.atleast_2d(a), -1)",
            "np.diag(np.atleast_1d(a).ravel()[:5000])",
            "np.stack([a, a, a], 1)",
            "np.dstack([a, a])",
            "a.T.reshape(-1)",
            "np.gradient(a.astype('f8')) if min(a.shape) > 1 else a + 0",
            "np.ediff1d(a)",
            "np.kron(a.ravel()[:100], a.ravel()[:100])",
            "np.vander(a.ravel()[:100])",
            "np.unpackbits((a > 1).astype('u1').ravel())",
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
            "np.sum(x, axis, dtype='f4')",
            "np.sum(x, axis, dtype='i8')",
            "np.add.reduce(x, s, out=np.empty(np.sum(x, s).shape, x.dtype))",
            "np.nanmean(x, axis)",
            "np.nanvar(x, axis)",
            "np.nanargmax(x, s)",
            "np.nanprod(x, axis)",
            "np.logaddexp.reduce(x, s)",
            "np.logaddexp2.reduce(x, s)",
            "np.hypot.reduce(x, s)",
            "np.fmin.reduce(x, s)",
            "np.multiply.reduce(x, s, where=x > 1)",
            "np.bitwise_and.reduce(x > 1, s)",
            "np.gcd.reduce(x, s)",
            "np.subtract.reduce(x, s)",
            "np.logical_and.reduce(x, axis)",
            "np.cov(np.atleast_2d(x)[:40, :1000])",
            "np.corrcoef(np.atleast_2d(x)[:40, :1000])",
            "np.linalg.norm(x, 1, axis=s)",
            "np.linalg.norm(x, np.inf, axis=s)",
            "np.linalg.norm(x.ravel())",
            "np.vdot(x, x)",
            "np.allclose(x, x)",
            "np.array_equal(x, x)",
            "np.average(x, s, weights=abs(x))",
            "np.max(x, axis, where=x > 1, initial=0)",
            "np.argmax(x > 1, s)",
            "np.sum(x > 1, axis)",
            "x.sum(axis) - x.min(axis)",
            "np.mean(x, axis) * 2 + 1",
            "np.std(x, axis, ddof=1)",
            "(x * x).sum(axis) / x.size",
            "np.sum(abs(x), axis, keepdims=True) * x",
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
            "x - x.max(-1, keepdims=True) + x.argmax(-1, keepdims=True)",
            "np.where(x > x.mean(-1, keepdims=True), x, 0).max(-1)",
            "x.astype('f4') - x.astype('f4').mean(-1, keepdims=True)",
            "(x - x.mean(-1, keepdims=True)).sum(-1) * 2",
            "x / np.linalg.norm(x, axis=-1, keepdims=True)",
            "(np.cumsum(x, -1) / x.sum(-1, keepdims=True)).max(-1)",
            "np.sort(x - x.min(-1, keepdims=True), -1)",
            "(x - x.mean((-1, 0), keepdims=True)) * 3",
            "(x * x).sum(-1) + x.max(-1) - x.min(-1)",
            "x[..., ::-1] - x.mean(-1, keepdims=True)",
            "x.T - x.T.mean(-1, keepdims=True)",
            "np.logaddexp.reduce(x - x.max(-1, keepdims=True), -1)",
            "(x > 0).all(-1) | (x < x.max(-1, keepdims=True)).any(-1)",
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
            "np.cumsum(x * 2, axis) + 1",
            "np.cumsum(x, axis, out=np.empty(x.shape, x.dtype)) if axis is not None else np.cumsum(x)",
            "np.bitwise_xor.accumulate(x > 1, a)",
            "np.logical_and.accumulate(x, a)",
            "np.multiply.accumulate(x, a, dtype='f8')",
            "np.fmax.accumulate(x, a)",
            "np.cumsum(x.T, -1)",
            "np.cumulative_sum(x.ravel(), include_initial=True)",
            "np.logaddexp.accumulate(x, a)",
            "np.hypot.accumulate(x, a)",
            "np.subtract.accumulate(x, a)",
            "np.ediff1d(np.cumsum(x))",
            "np.trapezoid(x, axis=a)",
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
            "np.matmul(x, y, out=out)",
            "(x @ y).T + 1",
            "np.sqrt(abs(x @ y + y[..., :1, :]))",
            "np.matmul(x, y.astype(x.dtype)) * out",
            "(x @ y > 1) + out",
            "np.maximum(x @ y + out[..., :1, :], 0).astype('f4')",
        ),
        x=x,
        y=y,
        out=p.array((*batch, m, n), np.result_type(dtype, second).char),
    )


def large_products(p: Problem) -> Any:
    """Products that faster units than those of their type may make: large, in order, of one dtype, few at a time."""
    sides = (64, 128, 192, 256, 500, 512, 1000, 1024, 2048, 3000, 4096, 8192, 10_000)
    m, k, n = (p.choice(sides) for _ in range(3))
    if p.chance(40):
        m = k = n = p.choice(sides)
    dtype = p.dtype(("f4", "f8", "c8", "c16", "f2", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"))
    batch = p.choice(((), (), (), (), (2,), (16,), (3, 2)))
    transposed = p.chance(30), p.chance(30)
    x, y = (
        p.empty((*batch, *(shape[::-1] if is_transposed else shape)), dtype)
        for shape, is_transposed in zip(((m, k), (k, n)), transposed, strict=True)
    )
    x, y = (each.swapaxes(-1, -2) if flip else each for each, flip in zip((x, y), transposed, strict=True))
    row = p.array((n,), dtype)
    if p.chance(20):
        x = p.empty((m, k), dtype)
    if p.chance(10):
        x = p.empty((*batch, m, k + 1), dtype)[..., :k]
    np.config.matmul_workspace = p.choice((4 << 30, 4 << 30, 1 << 28, 1 << 24, 0))
    return p.call(
        (
            "x @ y",
            "x @ y",
            "x @ y",
            "x @ y + row",
            "np.maximum(x @ y + row, 0)",
            "2 * (x @ y)",
            "(x @ y).astype('f4')",
            "(x @ y) * (x @ y)",
            "np.einsum('...ij,...jk->...ik', x, y)",
            "x @ y[..., 0]",
            "x @ x.swapaxes(-1, -2)",
            "np.matmul(x, y)[..., ::2]",
            "np.exp(x @ y)",
            "np.tensordot(x, y[..., :], ((-1,), (-2,)))",
            "x @ y + row[:, None] if x.shape[-2] == row.size else x @ y",
            "np.where(x @ y > 0, x @ y, row)",
            "x @ y + x @ y",
        ),
        x=x,
        y=y,
        row=row,
    )


def symmetric_products(p: Problem) -> Any:
    """Products of which a triangle counts: nothing in the package asks for all of them, programs of kernels may."""
    type_ = DEVICE_TYPES[numpy.dtype(p.dtype(("f4", "f8", "c8", "c16")))]
    shape = tuple(p.choice((1, 5, 32, 100, 256, 1000, 4096)) for _ in range(2))
    shape = (*p.choice(((), (), (3,), (2, 2))), *shape)
    is_left = p.chance(50)
    order = shape[-2] if is_left else shape[-1]
    form = Form(
        p.choice((SYMMETRIC, HERMITIAN, TRIANGULAR)),
        is_lower=p.chance(50),
        has_unit_diagonal=p.chance(30),
        is_conjugated=p.chance(30) and type_.is_complex,
    )
    square = Matrices(type_, contiguous((*shape[:-2], order, order)), ALIGNMENT)
    other = Matrices(type_, contiguous(shape), ALIGNMENT)
    device = planning.backend().capability
    p.text = f"{type_} {shape} {form} is_left={is_left}"
    way = p.integer(0, 2)
    if way == 0:
        plan = blas3.plan_product(shape, square, form, other, device, is_left=is_left)
    elif way == 1:
        setting = p.choice(("auto", "native", "tf32"))
        plan = blas3.plan_expanded(shape, square, form, other, device, setting, 1 << 30, is_left=is_left)
    else:
        whole = (*shape[:-2], order, order)
        ways = {name: p.chance(50) for name in ("is_lower", "is_hermitian", "is_mirrored")}
        given = Matrices(type_, contiguous((*shape[:-2], order, shape[-1])), ALIGNMENT)
        plan = blas3.plan_rank_k(whole, shape[-1], given, device, **ways)
        return planning.backend().perform(plan, [math.prod(whole)], [math.prod(shape[:-2]) * order * shape[-1]], type_)
    sizes = [math.prod(shape[:-2]) * order**2, math.prod(shape)]
    return planning.backend().perform(plan, [math.prod(shape)], sizes if is_left else sizes[::-1], type_)


def gathers(p: Problem) -> Any:
    """Reads and writes by index and by mask, counts and searches."""
    a = p.array(p.shape(p.choice((1, 1, 2, 3)), most=p.choice((1 << 26, 1 << 26, 1 << 26, HUGE_SIZE))), p.dtype())
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
            "np.add.at(a.copy(), (i, 0), 1)",
            "np.minimum.at(a.copy(), i, a.ravel()[:1])",
            "np.multiply.at(a.copy(), i, 2)",
            "np.subtract.at(a.copy(), i, a[:1])",
            "np.logical_or.at(a.copy(), i, True)",
            "a.copy().__setitem__(i, a[:1])",
            "a.copy().__setitem__((..., i), a[..., :1])",
            "a.copy().__setitem__((i, slice(None, None, 2)), 1)",
            "a.copy().__setitem__(a > 1, a[a > 1])",
            "np.put_along_axis(a.copy(), np.zeros(a.shape, int), 5, 0)",
            "np.place(a.copy(), a > 1, [1, 2])",
            "np.put(a.copy(), i, a, mode='wrap')",
            "np.take(a, i, mode='clip')",
            "np.take(a, i, axis=0, out=np.empty((*i.shape, *a.shape[1:]), a.dtype))",
            "np.add.reduceat(a, np.arange(0, a.shape[-1], 3), axis=-1)",
            "np.maximum.reduceat(a, np.arange(0, a.shape[0], 7))",
            "np.add.reduceat(a, i.ravel() % a.shape[0])",
            "np.bincount(i.ravel(), a.ravel()[: i.size])",
            "np.lib.stride_tricks.sliding_window_view(a, 3, -1).max(-1)",
            "np.lib.stride_tricks.sliding_window_view(a, 5, 0).sum(-1)",
            "a[::2][i]",
            "a.T[i]",
            "(a * 2)[i]",
            "a[i] + 1",
            "np.ix_(i.ravel()[:3], i.ravel()[:3])",
            "a[..., i, None]",
            "a[i, ..., i]",
            "np.histogram(a, 10, weights=a)",
            "np.histogram(a, np.array([0.0, 1, 5]))",
            "np.nonzero(a > 1)",
            "np.packbits(a > 1)",
            "np.unpackbits(np.packbits(a > 1, axis=-1), axis=-1)",
            "np.piecewise(a, [a > 1], [7, 0])",
            "np.unravel_index(i, (1000, 1000))",
            "np.ravel_multi_index((i, i), (1000, 1000), mode='wrap')",
            "np.triu_indices_from(np.atleast_2d(a))",
            "np.compress(np.arange(a.shape[0]) % 2 == 0, a, axis=0)",
            "np.searchsorted(np.arange(9.0), a, side='right')",
        ),
        a=a,
        i=i,
    )


def sorts(p: Problem) -> Any:
    """Sorts, selections, and what is made of sorted elements."""
    a = p.array(p.shape(p.choice((1, 1, 2, 3)), most=p.choice((1 << 27, 1 << 27, 1 << 27, HUGE_SIZE))), p.dtype())
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
            "np.sort(a * 2, axis)",
            "np.argsort(a, axis)[..., :5]",
            "np.partition(a, a.shape[axis] // 2, axis)",
            "np.argpartition(a, (0, a.shape[axis] // 3), axis)",
            "np.quantile(a, [0.1, 0.5, 0.9], axis)",
            "np.quantile(a, 0.5, axis, method='lower')",
            "np.searchsorted(np.sort(a.ravel()), a, 'right')",
            "np.searchsorted(a.ravel(), a.ravel()[:5])",
            "np.lexsort((a.ravel(), a.ravel(), a.ravel()))",
            "np.unique(a, return_index=True)",
            "np.percentile(a, 50, axis, keepdims=True)",
            "np.sort(a[..., ::-1], axis)",
            "np.partition(a.ravel(), 5)[:5]",
            "np.histogram(a, 7)",
            "np.histogram(a, np.arange(9.0), weights=a)",
            "np.intersect1d(a, a)",
            "np.flip(np.sort(a, axis), axis)",
        ),
        a=a,
        axis=axis,
    )


def transforms(p: Problem) -> Any:
    """Fourier, cosine and sine transforms of any length along any axis."""
    most = p.choice((1 << 26, 1 << 26, 1 << 26, HUGE_SIZE))
    x = p.array(p.shape(p.choice((1, 1, 2, 2, 3)), most=most), p.dtype(("f4", "f8", "c8", "c16", "f2", "i4")))
    lengths = (
        None,
        None,
        None,
        7,
        37,
        74,
        97,
        256,
        1009,
        1922,
        2187,
        4096,
        6000,
        8192,
        30_030,
        65_536,
        65_537,
        1 << 17,
    )
    lengths += (1 << 20, 1_000_003, 14_641, 1 << 22, 7**7, 1 << 24, 3**14, 2 * 37**3)
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
            "np.fft.fftshift(np.fft.fft(x, n, axis), axis)",
            "np.fft.fftshift(np.fft.fft2(np.atleast_2d(x)))",
            "np.fft.fft(np.fft.ifftshift(x, axis), n, axis)",
            "np.fft.fftshift(np.fft.fft(np.fft.ifftshift(x)))",
            "np.fft.irfft(np.fft.rfft(x, axis=axis) * 2, axis=axis)",
            "np.fft.ifftn(np.fft.fftn(x) * x)",
            "abs(np.fft.rfft(x * 2, n, axis)) + 1",
            "np.fft.irfft(x * 3, n, axis) * 2",
            "np.fft.rfft2(np.atleast_2d(x))",
            "np.fft.irfft2(np.atleast_2d(x))",
            "np.fft.irfft(x, 2 * n if n else None, axis)",
            "np.fft.rfft(x[..., ::2], n, axis)",
            "np.fft.rfft(x.T, n)",
            "fft.idctn(x, 1)",
            "fft.dstn(x, 3)",
            "fft.idst(x, p2, n, axis)",
            "fft.dct(x, p2, n, axis, norm='ortho')",
            "fft.dct(x * 2, p2, n, axis) + 1",
            "fft.fht(x, 0.1, 0.5)",
            "signal.czt(x, n)",
            "signal.zoom_fft(x, [0.1, 0.4], n)",
            "signal.hilbert(x)",
            "signal.stft(x)[2]",
            "signal.oaconvolve(x, x[..., :33], axes=-1)",
            "signal.resample(x, n or 100, axis=axis)",
            "signal.welch(x)[1]",
            "np.correlate(x.ravel(), x.ravel()[:5])",
            "signal.convolve(x, x[..., :3])",
            "signal.correlate(x, x[:2])",
            "np.convolve(x.ravel(), x.ravel()[:3], 'same')",
            "x.real + np.fft.fft(x, axis=axis).real",
            "np.fft.fft(x, axis=axis)[..., ::2]",
            "np.fft.fft(x, axis=axis).astype('c8')",
            "np.fft.hfft(x * 2, n, axis) - 1",
        ),
        x=x,
        n=n,
        axis=axis,
        fft=fft,
        signal=np.scipy.signal,
        p2=p.integer(1, 4),
    )


def factorisations(p: Problem) -> Any:
    """Factorisations, systems, eigenvalues and singular values."""
    largest = p.choice((5, 33, 130, 700, 700, 3000))
    m, n = (p.choice([e for e in EXTENTS if e <= largest]) for _ in range(2))
    if p.chance(20):
        m = p.choice((5000, 65_536, 300_000))  # tall
        n = min(n, 64)
    batch = p.choice(((), (), (), (3,), (1000,), (2, 5)) if largest < 700 else ((), (), (3,)))
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
            "np.linalg.cholesky(a, upper=True)",
            "np.linalg.cholesky(a @ a.swapaxes(-1, -2))",
            "np.linalg.inv(a.swapaxes(-1, -2))",
            "np.linalg.solve(a, b) * 2",
            "np.linalg.qr(s.swapaxes(-1, -2), mode='raw')",
            "linalg.solve_triangular(a[..., ::-1, ::-1], b)",
            "linalg.eigh_tridiagonal(b.ravel()[:n].real.astype('f8'), b.ravel()[:n - 1].real.astype('f8'))",
            "linalg.polar(a)",
            "linalg.sqrtm(a)",
            "linalg.null_space(s)",
            "linalg.orth(s)",
            "linalg.solve(a, b, assume_a='pos')",
            "linalg.cholesky(a, lower=True)",
            "linalg.lu(s, permute_l=True)",
            "linalg.lu(s, p_indices=True)",
            "linalg.cosm(a)",
            "linalg.rq(s)",
            "np.linalg.svd(s.swapaxes(-1, -2), full_matrices=False)",
            "np.linalg.svd(a, hermitian=True)",
            "linalg.lstsq(s, s)",
            "np.linalg.eigh(a * 2)",
            "linalg.toeplitz(b.ravel()[:n])",
        ),
        a=a,
        b=b,
        s=s,
        n=n,
        linalg=linalg,
    )


def sparse(p: Problem) -> Any:
    """Sparse matrices by vectors, by matrices and by each other, and what solves and walks them."""
    library = np.scipy.sparse
    sizes = (5, 6, 33, 100, 777, 5000, 100_003)
    m, n = p.choice(sizes), p.choice(sizes)
    if p.chance(50):
        m = n
    count = min(m * n, p.choice((1, 100, 5000, 100_000)))
    dtype, index = p.dtype(("f4", "f8", "c8", "c16", "i4", "i8", "?", "f4", "f8")), p.dtype(("i4", "i8", "i4"))
    made = p.choice(("csr", "csr", "csc", "coo"))
    # The places of elements are known on the host: there they are looked at.
    numbers = numpy.random.default_rng(count).integers(0, m * n, count)
    if p.chance(20):
        numbers //= n  # rows of every length
    places = numpy.sort(numbers) // n, (numpy.sort(numbers) % n)
    elements = numpy.ones(count, dtype), tuple(each.astype(index) for each in places)
    A = getattr(library, f"{made}_array")(getattr(SCIPY_SPARSE, f"{made}_array")(elements, shape=(m, n)))
    columns = p.choice((1, 2, 3, 16, 64, 100))
    x, y = p.array((n,), dtype), p.array((n, columns), dtype)
    if p.chance(20):
        y = p.array((columns, n), dtype).T
    linalg, graph = library.linalg, library.csgraph
    return p.call(
        (
            "A @ x",
            "A @ x",
            "A @ y",
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
            "A.tocsr()[1:3, ::2]",
            "A.max(axis=1)",
            "A.maximum(A)",
            "A != A",
            "A > A * 2",
            "A.astype('f4') + A.astype('f8')",
            "linalg.cg(A, x, maxiter=2)",
            "linalg.cg(A, x, x, maxiter=3, rtol=1e-5)",
            "linalg.bicgstab(A, x, maxiter=2)",
            "linalg.cgs(A, x, maxiter=2)",
            "linalg.gmres(A, x, maxiter=2, restart=5)",
            "linalg.minres(A, x, maxiter=2)",
            "library.hstack([A, A])",
            "library.vstack([A, A])",
            "linalg.spsolve_triangular(A.tocsr(), x)",
            "linalg.spsolve_triangular(A.tocsr(), y, lower=False)",
            "linalg.spsolve_triangular(A.tocsr(), x, unit_diagonal=True)",
            "A.astype('f8') @ x",
            "x @ A.T",
            "graph.connected_components(A)",
            "graph.connected_components(A, connection='strong')",
            "A.tocsr().sort_indices()",
            "graph.breadth_first_order(A, 0)",
            "graph.shortest_path(A, indices=0)",
            "graph.shortest_path(A, indices=0, unweighted=True)",
            "graph.minimum_spanning_tree(A)",
            "graph.dijkstra(A, indices=[0, 1])",
            "graph.bellman_ford(A, indices=0)",
            "library.sddmm(A.tocsr(), y[: A.shape[0]], y)",
            "library.linalg.ilu0(A.tocsr()).solve(x)",
            "library.linalg.ic0(A.tocsr())",
            "library.linalg.eigsh(A, k=1, maxiter=2)",
            "library.kron(A, A[:2, :2])",
            "library.triu(A) + library.tril(A)",
            "A.power(2)",
            "A.tocsr()[[0, 1, 0]]",
            "A.mean(axis=0)",
            "A.T @ (A @ x)",
            "A.conj().T @ y[: A.shape[0]]",
            "A.argmax(axis=1)",
            "A.reshape(-1, 1)",
            "A.toarray()",
            "A.eliminate_zeros()",
            "A.tocsr().sum_duplicates()",
        ),
        A=A,
        x=x,
        y=y,
        library=library,
        linalg=linalg,
        graph=graph,
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
            "g.permutation(a.size)",
            "g.permuted(a)",
            "g.choice(a, 5, replace=False)",
            "g.integers(0, a.size + 1, d)",
            "g.integers(0, 99, d, 'u2')",
            "g.integers(0, 2**32 - 5, d, 'u4')",
            "g.integers(0, 200, d, 'i4', endpoint=True)",
            "g.integers(5, 5 + 2**63, d, 'u8')",
            "g.integers(0, 2, d, bool)",
            "g.lognormal(0, 1, d)",
            "g.rayleigh(2, d)",
            "g.weibull(2, d)",
            "g.logistic(0, 1, d)",
            "g.power(2, d)",
            "g.pareto(2, d)",
            "g.random(d) + g.standard_normal(d)",
            "old.shuffle(a.copy())",
            "old.permutation(a)",
            "old.bytes(17)",
            "old.normal(1, 2, d)",
            "old.random_integers(5, size=d)",
            "old.choice(a, 7)",
            "old.randint(0, 255, d, 'u1')",
            "old.randint(0, 60_000, d, 'u2')",
            "old.randint(0, 2, d, bool)",
            "old.randint(0, 2**32, d, 'u4')",
            "old.gumbel(0, 1, d)",
            "philox.standard_normal(d)",
            "philox.standard_normal(d, 'f4')",
            "philox.integers(0, 99, d)",
            "philox.integers(0, 2**40, d)",
            "philox.standard_exponential(d, 'f4')",
            "philox.random(d, 'f4')",
            "philox.integers(0, 99, d, 'u1')",
            "np.scipy.stats.qmc.Sobol(3, rng=3).random(64)",
            "np.scipy.stats.qmc.Halton(3, rng=3).random(100)",
            "[g.random(5), g.random(d), g.standard_normal(7), g.random(d, 'f4')]",
            "[g.integers(9, size=3), g.integers(9, size=d), g.random(d)]",
            "[old.random_sample(5), old.random_sample(d), old.randn(7), old.randint(0, 9, d)]",
        ),
        g=g,
        old=old,
        philox=np.random.Generator(np.random.Philox4x32(3)),
        d=shape,
        a=a,
    )


FAMILIES: dict[str, Callable[[Problem], Any]] = {
    function.__name__: function
    for function in (
        chains,
        sizes,
        copies,
        reductions,
        rows,
        scans,
        products,
        large_products,
        symmetric_products,
        gathers,
        sorts,
        transforms,
        factorisations,
        sparse,
        random_numbers,
    )
}

"""Random problems for the planners of chains, copies, reductions, rows and scans."""

from __future__ import annotations

from typing import Any

import oxinp as np
from tests.fuzz.problem import FLOATS, Problem, computed

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
    "({}).astype('u1')",
    "({}).astype('i8')",
    "({}).astype('u8')",
    "({}).astype('f2')",
    "np.log({})",
    "np.tan({})",
    "np.square({})",
    "np.reciprocal({})",
    "np.sqrt({0}, where=({0}) > 1)",
    "np.negative({0}, where=np.isnan({0}), out=np.ones(({0}).shape, ({0}).dtype))",
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
    "np.divide({0}, {1}, where=({1}) > 1)",
    "np.divmod({}, {})[1]",
    "({}) % ({})",
    "np.power({}, {})",
    "np.multiply({0}, {1}, where=({0}) != ({1}))",
    "np.logaddexp({}, {})",
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
            "m[:n, : n + 1].sum(0)",
            "(m[:n, : n + 1] * 2).max(0)",
            "(m[:n, : n + 1] * m[0, : n + 1]).sum(0)",
            "(m[:n, :1] * m[0, : n + 1]).sum(0)",
            "m[:n, ::2].sum(0)",
            "m.T[:n, : n + 1].sum(-1)",
            "m.T[:n, : n + 1].sum(0)",
            "m[n::-1, : n + 1].sum(0)",
            "m[:n, : n + 1].var(0)",
            "m[:n, : n + 1].argmax(0)",
            "x[:n] @ m[:n, : n + 1]",
            "m[: n + 1, :n].T @ x[: n + 1]",
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
            "np.tile(a, (2, 1, 3))",
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
    shape = p.shape(p.choice((1, 2, 2, 3)))
    if p.chance(50):
        shape = (p.choice((1, 2, 16, 100, 1000)), p.choice((4096, 8192, 16_384, 65_536, 100_000, 1 << 20)))
    x = p.array(shape, p.dtype((*FLOATS, "f4", "i4", "c8")))
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

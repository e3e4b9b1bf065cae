"""Random problems for the planners of products and factorisations."""

from __future__ import annotations

import math
from typing import Any

import numpy  # noqa: ICN001 - np is ours

import oxinp as np
from oxinp._core.memory.dtypes import DEVICE_TYPES
from oxinp._kernels.blas3 import plan as blas3
from oxinp._kernels.gemm.operand import TRIANGULAR, Form, Matrices, contiguous
from oxinp._kernels.plan import ALIGNMENT
from tests.fuzz import planning
from tests.fuzz.problem import EXTENTS, Problem, lying


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


def rank_k_products(p: Problem) -> Any:
    """Triangles of products with their own transpose: nothing in the package asks for all of them."""
    type_ = DEVICE_TYPES[numpy.dtype(p.dtype(("f4", "f8", "c8", "c16")))]
    order, depth = (p.choice((1, 5, 32, 100, 256, 1000, 4096)) for _ in range(2))
    batch = p.choice(((), (), (3,), (2, 2)))
    device = planning.backend().capability
    ways = {name: p.chance(50) for name in ("is_lower", "is_hermitian", "is_mirrored")}
    p.text = f"{type_} {batch} {order} x {depth} {ways}"
    whole = (*batch, order, order)
    given = Matrices(type_, contiguous((*batch, order, depth)), ALIGNMENT)
    plan = blas3.plan_rank_k(whole, depth, given, device, **ways)
    return planning.backend().perform(plan, [math.prod(whole)], [math.prod(batch) * order * depth], type_)


def triangular_systems(p: Problem) -> Any:
    """Systems of which a triangle counts, in every order of their memory."""
    type_ = DEVICE_TYPES[numpy.dtype(p.dtype(("f4", "f8", "c8", "c16")))]
    rows, columns = (p.choice((1, 5, 32, 33, 100, 300)) for _ in range(2))
    is_left, count = p.chance(50), p.choice((1, 1, 3, 64))
    order = rows if is_left else columns
    form = Form(TRIANGULAR, is_lower=p.chance(50), has_unit_diagonal=p.chance(30), is_conjugated=p.chance(30))
    matrices = Matrices(type_, (order, 1), p.choice((ALIGNMENT, type_.nbytes)))
    if p.chance(50):
        matrices, form = blas3.transposed(matrices, form, is_conjugated=p.chance(30))
    system = blas3.TriangularSystem(
        (rows, columns), matrices, form, is_left, columns, ALIGNMENT, count, order**2, rows * columns
    )
    p.text = f"{system}"
    plan = blas3.plan_solve(system, planning.backend().capability)
    return planning.backend().perform(plan, [count * rows * columns], [count * order**2], type_)


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
            "linalg.qr(s, pivoting=True)",
            "linalg.qr(s, mode='economic', pivoting=True)",
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
            "np.linalg.eig(a)",
            "np.linalg.eigvals(a)",
            "linalg.schur(a)",
            "linalg.hessenberg(a, calc_q=True)",
        ),
        a=a,
        b=b,
        s=s,
        n=n,
        linalg=linalg,
    )

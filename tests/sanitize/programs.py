"""What runs under the checkers: one small program for each family of kernels, the same under NumPy and under oxinp.

Together they reach every module of `oxinp._kernels` that makes kernels; `reached` says which they have. Sizes are odd,
so that tails and masks are met, and as small as a family allows, since checkers are slow.
"""

import importlib
import pkgutil
import warnings
from unittest import mock

import numpy  # noqa: ICN001 - `np` is either, in a program

import oxinp
import oxinp._kernels
from oxinp._core.lazy import placement, rowwise
from oxinp._core.ufunc.table import UFUNCS
from oxinp._kernels.gemm import select
from oxinp._kernels.index import grouped_take, scatter, sums
from tests.kernels.blas3.case import TRIANGULAR, Form, draw, full, grouped, solution
from tests.kernels.driven import Driven

DTYPES = ["?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "c8", "c16"]
NUMBERS = DTYPES[1:]
FLOATS = ["f2", "f4", "f8", "c8", "c16"]


def data(shape, dtype, seed=0):
    """Return small random numbers; integers are 0 to 6, floats between 0.5 and 1.5."""
    draw = numpy.random.default_rng(seed)
    kind = numpy.dtype(dtype).kind
    if kind in "biu":
        return draw.integers(0, 2 if kind == "b" else 7, shape).astype(dtype)
    values = draw.random(shape) + 0.5
    return (values + 1j * draw.random(shape) if kind == "c" else values).astype(dtype)


def elementwise(np):
    """Chains in every dtype, over contiguous, strided, misaligned, reversed and broadcast operands."""
    for dtype in NUMBERS:
        x, y = np.array(data(3001, dtype)), np.array(data(3001, dtype, 1))
        yield x + y * x
        yield x[1:2000] - x[2:2001]
        yield x[::3] + y[2000::-2]
        yield np.where(x[:-1] < y[1:], x[1:], y[:-1])
        rows = np.array(data((37, 53), dtype))
        yield rows[:, 5:41] * rows[3, 5:41] + rows[:, :1]
        yield rows.T + rows[::-1].T


def in_place(np):
    """Writes into views, overlapping ones, and into the operands of a chain."""
    for dtype in ("i2", "i4", "f4", "f8", "c16"):
        x = np.array(data(5001, dtype))
        x[1:] = x[:-1] + x[1:]
        x[::2] += x[1::2].sum()
        x[10:20] = 3
        yield x
        rows = np.array(data((67, 45), dtype))
        rows[1:-1, 1:-1] = rows[2:, 1:-1] + rows[:-2, 1:-1]
        rows[:, 3] = rows[:, 4]
        yield rows


def copies(np):
    """Transposes, tiles, reversals, joins, repeats and casts between all dtypes."""
    for dtype in ("?", "i2", "i4", "f8", "c16"):
        block = np.array(data((35, 66, 9), dtype))
        yield np.ascontiguousarray(block.transpose(2, 0, 1))
        yield np.ascontiguousarray(block.transpose(1, 0, 2))
        yield np.concatenate([block, block[::-1]], axis=1)
        yield block[::2, ::-3].copy()
        yield np.broadcast_to(block[:1], (5, 66, 9)).copy()
    for source in DTYPES:
        x = np.array(data(1025, source))
        for target in DTYPES[:12] if numpy.dtype(source).kind != "c" else FLOATS[3:]:
            yield x.astype(target)


def reductions(np):
    """Sums, products, extrema and their places, averages and truth, over everything, rows, columns and middles."""
    for dtype in NUMBERS:
        x = np.array(data((43, 5, 129), dtype))
        for axis in (None, 0, 1, 2, (0, 2)):
            yield x.sum(axis=axis)
            yield x.max(axis=axis)
        yield x.prod(axis=2)
        yield x.any(axis=0)
        yield x.all()
        yield x[:, ::2, 1:].min(axis=0)
        yield x.argmax(axis=2)
        yield x.argmin()
    for dtype in FLOATS[1:]:
        x = np.array(data((43, 700), dtype))
        yield x.mean(axis=1)
        yield x.var(axis=0)
        yield np.nansum(x * 2)
        yield (x * x + 1).sum()
    yield np.array(data(300_001, "f4")).sum()
    yield np.array(data((100_003, 3), "f8")).sum(axis=0)


def rows(np):
    """Reductions along rows and what is made of them, rows of every kind of group, and such as clusters share."""
    for dtype, shapes in (
        ("f4", [(300, 3), (37, 50), (9, 301), (2000, 1001), (40, 4000), (5, 7, 90)]),
        ("f8", [(33, 20), (2, 3000)]),
        ("c8", [(9, 130)]),
        ("i4", [(17, 45)]),
    ):
        for seed, shape in enumerate(shapes):
            x = np.array(data(shape, dtype, seed))
            yield x - x.max(axis=-1, keepdims=True)
            if dtype != "i4":
                e = np.exp(x - x.mean(axis=-1, keepdims=True))
                yield e / e.sum(axis=-1, keepdims=True)
                yield e
    for shape in ((700, 20_000), (200, 40_000), (3, 40_000)):
        x = np.array(data(shape, "f4"))
        e = np.exp(x - x.max(axis=-1, keepdims=True))
        yield (e / e.sum(axis=-1, keepdims=True))[::50, ::50]


def scans(np):
    """Cumulative sums and products over rows and columns."""
    for dtype in ("i4", "i8", "f4", "f8", "c16"):
        x = np.array(data((7, 3001), dtype))
        yield np.cumsum(x, axis=1)
        yield np.cumsum(x, axis=0)
        yield np.cumprod(x[:, :5], axis=1)
        yield np.cumsum(np.array(data((601, 70), dtype)), axis=0)
    yield np.cumsum(np.array(data(70_001, "f8")))


def functions_of(kinds):
    """Return the program of every ufunc of the table, in the dtypes of some kinds that it has a loop for."""

    def functions(np):
        for row in UFUNCS:
            for dtype in DTYPES:
                if numpy.dtype(dtype).kind not in kinds:
                    continue
                operands = [np.array(data(131, dtype, seed)) for seed in range(row.numpy.nin)]
                if row.numpy.nin == 2 and dtype[0] in "iu":
                    operands[1] = operands[1] + operands[1].dtype.type(1)
                try:
                    results = getattr(np, row.name)(*operands)
                except (TypeError, ValueError):
                    continue
                yield from results if isinstance(results, tuple) else (results,)

    functions.__name__ = f"functions_{kinds}"
    return functions


def products(np):
    """Products of matrices in every dtype, with vectors, in batches, in split K and by einsum."""
    for dtype in NUMBERS:
        a, b = np.array(data((67, 90), dtype)), np.array(data((90, 45), dtype, 1))
        yield a @ b
        yield b.T @ a.T
        yield a @ b[:, 0]
        yield np.dot(a[0], b[:, 1])
    for dtype in ("i4", "f4", "f8", "c16"):
        a, b = np.array(data((3, 33, 65), dtype)), np.array(data((3, 65, 17), dtype, 1))
        yield a @ b
        yield np.einsum("bij,bjk->ik", a, b)
        yield np.einsum("bij,bij->bi", a, a)
        yield np.array(data((17, 5000), dtype)) @ np.array(data((5000, 19), dtype))


def tensor_products(np):
    """Products on the tensor cores: of halves, finished or not, cut along K or not, of bytes, and tf32.

    The rows of their results are no multiples of 16 bytes: the warps store them.
    """
    yield from _tensor_products(np, slice(-3))


def stored_products(np):
    """The same with results that the copy engine stores."""
    yield from _tensor_products(np, slice(None))


def _tensor_products(np, columns):
    for dtype in ("f2", "i1", "u1"):
        yield np.array(data((300, 528), dtype)) @ np.array(data((528, 272), dtype, 1))[:, columns]
        yield np.array(data((2, 256, 128), dtype)) @ np.array(data((2, 128, 256), dtype, 1))[..., columns]
    a = np.array(data((300, 128), "f2", 2))
    b, row = (np.array(data(shape, "f2", 2))[..., columns] for shape in ((128, 272), (272,)))
    yield np.maximum(a @ b * 0.5 + row, 3)
    yield np.tanh(a @ b / 512)
    yield np.array(data((16, 2048), "f2")) @ np.array(data((2048, 1024), "f2", 1))[:, columns]
    with oxinp.config.override(matmul="tf32"):
        yield np.array(data((512, 512), "f4")) @ np.array(data((512, 512), "f4", 1))[:, columns]


def native_products(np):
    """Products of f64 and f32 in their own types, from tiles that the copy engine brings."""
    yield np.array(data((520, 528), "f8")) @ np.array(data((528, 520), "f8", 1))
    yield np.array(data((520, 528), "f8")).T @ np.array(data((520, 520), "f8", 1))
    yield np.array(data((600, 64, 64), "f8")) @ np.array(data((600, 64, 64), "f8", 1))
    with oxinp.config.override(matmul="native"):
        yield np.array(data((1000, 600), "f4")) @ np.array(data((600, 1000), "f4", 1))
    yield np.array(data((2200, 30, 32), "f4")) @ np.array(data((2200, 32, 28), "f4", 1))


def split_products(np):
    """Products of f32 and c64 as those of halves."""
    yield np.array(data((1300, 1300), "f4")) @ np.array(data((1300, 1300), "f4", 1))
    # Twelve decades: the guard has the other kernel compute it.
    scales = 10.0 ** numpy.linspace(-6, 6, 1300)
    yield np.array((data((1300, 1300), "f4") * scales).astype("f4")) @ np.array(data((1300, 1300), "f4", 1))
    yield np.array(data((1030, 1024), "c8")) @ np.array(data((1024, 1030), "c8", 1))


def residue_products(np):
    """Products of f64 and c128 as those of bytes; smaller workspaces have them made in parts and blocks."""
    with mock.patch.object(select, "MIN_OZAKI_GAIN", 0):
        for dtype, sizes in (("c16", (1 << 30, 1 << 26)), ("f8", (1 << 30, 1 << 25))):
            a, b = np.array(data((1030, 1100), dtype)), np.array(data((1100, 1024), dtype, 1))
            for workspace in sizes:
                with oxinp.config.override(matmul_workspace=workspace):
                    product = a @ b
                    if np is not numpy:
                        np.evaluate(product)
                    yield product


def triangular(np):
    """Products with their own transpose, triangular systems, and groups of products."""
    x = np.array(data((1030, 40), "f8"))
    yield x @ x.T
    rng = numpy.random.default_rng(0)
    here = Driven(placement.device())
    for dtype in ("f4", "f8", "c8", "c16"):
        a = draw(rng, dtype, 150, 150) / 150 + 2 * numpy.eye(150, dtype=dtype)
        b = draw(rng, dtype, 150, 37)
        for form in (Form(TRIANGULAR, is_lower=True), Form(TRIANGULAR, False, True, True)):
            whole = full(a, form)
            if np is numpy:
                yield numpy.linalg.solve(whole, b)
            else:
                yield solution(here, here.backend.capability, a, b, form)
    pairs = [[draw(rng, "f4", m, 33), draw(rng, "f4", 33, 2 * m)] for m in (70, 5)]
    yield from [x @ y for x, y in pairs] if np is numpy else grouped(here, here.backend.capability, pairs)


def gathers(np):
    """Elements by index and by mask, and masks filled."""
    for dtype in ("?", "i2", "i4", "f8", "c16"):
        x = np.array(data((501, 7), dtype))
        places = np.array(numpy.random.default_rng(2).integers(-501, 501, 777))
        mask = np.array(data((501, 7), "i4", 3) > 3)
        yield x[places]
        yield x[places % 7, places % 7]
        yield np.take(x, places, axis=0)
        yield x[mask]
        x[mask] = 1
        yield x
    with mock.patch.multiple(grouped_take, MIN_COUNT=1, MIN_ARRAY_NBYTES=1):
        for dtype, size in (("f4", 9001), ("f8", 3001)):
            places = numpy.random.default_rng(size).integers(-size, size, 9001)
            yield np.array(data(size, dtype))[::-1][np.array(places)]
            yield np.array(data(size, dtype))[np.array(numpy.sort(places))]


def updates(np):
    """Writes and sums at indices: at once, in order, sorted by region and grouped by bucket, and where all are one."""
    few = dict.fromkeys("iuf", 1)
    for dtype in ("i4", "i8", "f4", "f8"):
        for size, extent, names in (
            (2000, 701, {}),
            (2001, 701, few),
            (300, 9001, {}),
            (2002, 701, {}),
            (3000, 3, few),
        ):
            index = numpy.random.default_rng(size).integers(-extent, extent, size)
            places, values = np.array(index), np.array(data(size, dtype, size))
            with (
                mock.patch.object(sums, "MIN_COUNT", names or sums.MIN_COUNT),
                mock.patch.multiple(scatter, **dict.fromkeys(("MIN_SORTED", "MIN_SORTED_NBYTES"), size % 2 * 2**40)),
            ):
                x = np.array(data(extent, dtype))
                np.add.at(x, places, values)
                yield x
                x = np.array(data(extent, dtype))
                np.multiply.at(x[::-1], places[:90], values[:90])
                x[places] = values
                yield x


def sorts(np):
    """Sorts and orders of short rows, rows of a block and long ones, order statistics, searches and sets."""
    for dtype in ("i1", "u2", "i4", "f4", "f8", "c8"):
        for shape in ((7, 30), (3, 300), (2, 1100), (1, 9001)):
            x = np.array(data(shape, dtype, len(shape)))
            yield np.sort(x, axis=-1)
            yield np.argsort(x, axis=-1, kind="stable")
        x = np.array(data(9001, dtype))
        yield np.lexsort((x[::-1], x))
        yield np.unique(x)
        yield np.searchsorted(np.sort(x), x[:3001])
        yield np.sort(np.partition(x, 4000)[:4000])
    for dtype in ("i4", "f4", "f8"):
        x = np.array(data((3, 9001), dtype))
        yield np.median(x, axis=1)
        yield np.percentile(x, [3, 90])
    x = np.array(numpy.where(data(3000, "i4").reshape(2, -1) > 3, numpy.float32(-0.0), numpy.float32(0)))
    yield np.sort(x, axis=-1, kind="stable")


def counts(np):
    """Counts of integers, of few and of many, weighed or not, histograms, and elements between slices."""
    for size, bins in ((3001, 7), (70_001, 4000)):
        x = np.array(numpy.random.default_rng(size).integers(0, bins, size))
        yield np.bincount(x)
        yield np.bincount(x, np.array(data(size, "f8")), bins)
        yield np.unique(x, return_counts=True)[1]
        yield np.histogram(np.array(data(size, "f4")), bins)[0]
        yield np.histogram(np.array(data(size, "f8")), [0.5, 0.7, 0.75, 1.5])[0]
        yield np.repeat(x[:2000], x[:2000] % 3)
        yield np.insert(x, 5, 1)
        yield np.delete(x, [5, 70, 2000])
        yield np.tile(x, 3)
        yield np.logaddexp.accumulate(np.array(data(size, "f8")))
        yield np.add.reduceat(x, [0, 5, 2000, 7])


LAPACK = ["f4", "f8", "c8", "c16"]


def matrix(shape, dtype, seed=0):
    """Return random matrices that are far from singular."""
    return data(shape, dtype, seed) + numpy.eye(shape[-1], dtype=dtype) * shape[-1]


def factorisations(np):
    """Systems, inverses, determinants and factors: stacks of small matrices, and one of several panels."""
    scipy = importlib.import_module("oxinp.scipy.linalg" if np is oxinp else "scipy.linalg")
    for dtype in LAPACK:
        for shape in ((9, 5, 5), (3, 45, 45), (150, 150)):
            a, b = np.array(matrix(shape, dtype)), np.array(data((*shape[:-1], 3), dtype, 1))
            adjoint = a.conj().swapaxes(-1, -2)
            yield np.linalg.solve(a, b)
            yield np.linalg.inv(a)
            yield np.linalg.slogdet(a)[1]
            yield np.linalg.cholesky(a @ adjoint)
            q, r = np.linalg.qr(a)
            yield q @ r
            yield abs(r)
        a = np.array(matrix((101, 101), dtype))
        factors, pivots = scipy.lu_factor(a)
        yield scipy.lu_solve((factors, pivots), a[:, :2])
        yield scipy.solve_banded((1, 2), a[:4] + 9, a[:, :40])
        q, r, columns = scipy.qr(np.array(data((70, 101), dtype)), pivoting=True)
        yield q @ r
        yield columns.astype("i8")


def spectra(np):
    """Eigenvalues and singular values with what is made of their vectors, and Hessenberg forms."""
    scipy = importlib.import_module("oxinp.scipy.linalg" if np is oxinp else "scipy.linalg")
    for dtype in LAPACK:
        for shape in ((9, 5, 5), (3, 40, 40), (150, 150)):
            a = np.array(data(shape, dtype))
            w, v = np.linalg.eigh(a + a.conj().swapaxes(-1, -2))
            yield w
            yield (v * w[..., None, :]) @ v.conj().swapaxes(-1, -2)
            u, s, vh = np.linalg.svd(a)
            yield s
            yield (u * s[..., None, :]) @ vh
        a = np.array(data((101, 101), dtype))
        h, q = scipy.hessenberg(a, calc_q=True)
        yield abs(np.diagonal(h, -1))[:20]
        yield q @ h @ q.conj().T
        w, v = scipy.eig(a)
        yield abs(a @ v - v * w) < 1e-2


FAMILIES = [
    elementwise,
    in_place,
    gathers,
    updates,
    sorts,
    counts,
    copies,
    reductions,
    rows,
    scans,
    *map(functions_of, ("bi", "u", "f", "c")),
    products,
    tensor_products,
    stored_products,
    native_products,
    split_products,
    residue_products,
    triangular,
    factorisations,
    spectra,
]
# Of the largest element: what tells a wrong kernel from a right one, no more. How exact they are, other tests say.
ERRORS = {"e": 2e-2, "f": 1e-3, "d": 1e-9, "F": 1e-3, "D": 1e-9}


def check(family):
    """Run a program under both, raise where they differ; return how many results there were."""
    count = 0
    with (
        numpy.errstate(all="ignore"),
        warnings.catch_warnings(),
        oxinp.config.override(offload_threshold=0),
        mock.patch.object(rowwise, "is_patient", False),  # sizes are met once
    ):
        warnings.simplefilter("ignore")
        for ours, numpys in zip(family(oxinp), family(numpy), strict=True):
            x, y = numpy.asarray(ours), numpy.asarray(numpys)
            where = f"{family.__name__}, result {count}"
            assert (x.dtype, x.shape) == (y.dtype, y.shape), f"{where}: {x.dtype}{x.shape}, not {y.dtype}{y.shape}"
            error = ERRORS.get(y.dtype.char, 0)
            finite = numpy.abs(y[numpy.isfinite(y)]).max(initial=0) if error else 0
            numpy.testing.assert_allclose(x, y, rtol=error, atol=float(finite) * error, err_msg=where)
            count += 1
    return count


def reached():
    """Return the modules of kernels, and whether kernels of each were made in this process."""
    found = {}
    for module in pkgutil.walk_packages(oxinp._kernels.__path__, "oxinp._kernels."):
        make = getattr(importlib.import_module(module.name), "make", None)
        if hasattr(make, "cache_info"):
            found[module.name] = make.cache_info().misses > 0
    return found

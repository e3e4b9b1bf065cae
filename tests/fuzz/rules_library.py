"""Rules for random generators, Fourier transforms, linear algebra and sparse matrices."""

import numpy as np

from tests.fuzz import operands
from tests.fuzz.program import Normwise
from tests.fuzz.scope import Scope

BIT_GENERATORS = ("PCG64", "PCG64", "PCG64DXSM", "Philox", "MT19937", "SFC64")
# Drawn from a generator that one statement makes and later ones go on with; {d} is a shape, {a} an array.
DRAWS = (
    "_rng.random({d})", "_rng.random({d}, dtype=np.float32)", "_rng.integers(10, size={d})",
    "_rng.integers(-5, 1000, {d})", "_rng.integers(0, 200, {d}, dtype=np.uint8)", "_rng.integers(2**40, size={d})",
    "_rng.standard_normal({d})", "_rng.integers(0, 1, {d}, endpoint=True, dtype=np.bool_)", "_rng.uniform(-1, 2, {d})",
    "_rng.normal(1.0, 2.0, {d})", "_rng.standard_normal({d}, dtype=np.float32)", "_rng.standard_exponential({d})",
    "_rng.choice(7, {d})", "_rng.choice([1.5, 2.5, 4.0], {d}, p=[0.25, 0.5, 0.25])", "_rng.choice({a}, 3)",
    "_rng.choice({a}, 1, replace=False)", "_rng.permutation({a})", "_rng.permutation(9)", "_rng.permuted({a}, axis=0)",
    "_rng.exponential(2.0, {d})", "_rng.random({d}) < 0.5", "_rng.random() + {a}", "_rng.integers(5)",
    "_rng.random({d}) * 2 + 1", "_rng.poisson(3.0, {d})", "_rng.binomial(9, 0.5, {d})", "_rng.triangular(0, 1, 3, {d})",
    "_rng.multinomial(5, [0.5, 0.25, 0.25])", "_rng.bytes(5)", "_rng.bit_generator.random_raw()",
    "_rng.random(out=np.zeros({d}))", "_rng.shuffle({a})", "_rng.shuffle({a}, axis=-1)",
    "_rng.integers([1, 5, 9])", "_rng.random(-1)", "_rng.integers(5, 2)", "np.random.RandomState({n}).rand(3)",
    "np.random.RandomState({n}).randint(0, 9, {d})", "np.random.RandomState({n}).choice(5, {d})",
    "np.random.RandomState({n}).permutation({a})", "np.random.RandomState({n}).uniform(0, 2, {d})",
    "np.random.RandomState({n}).random_sample({d})", "np.random.seed({n}) or np.random.random({d})",
    "np.random.RandomState({n}).randn(4)", "_rng.gumbel(0, 1, {d})", "_rng.laplace(size={d})",
    "_rng.logistic(0, 1, {d})",
    "_rng.lognormal(0, 1, {d})", "_rng.pareto(2, {d})", "_rng.rayleigh(2, {d})", "_rng.weibull(2, {d})",
    "_rng.standard_cauchy({d})", "_rng.power(2, {d})", "np.random.default_rng({n}).random({d})",
    "np.random.RandomState({n}).gumbel(0, 1, {d})", "np.random.RandomState({n}).laplace(0, 1, {d})",
    "np.random.RandomState({n}).weibull(2, {d})", "np.random.RandomState({n}).standard_exponential({d})",
    "foreign.scipy(np, 'stats.qmc').Sobol(2, scramble=False).random(4)",
    "foreign.scipy(np, 'stats.qmc').Halton(2, scramble=False).random(5)",
)  # fmt: skip

TRANSFORMS = (
    "np.fft.fft({x})", "np.fft.ifft({x})", "np.fft.rfft({x})", "np.fft.irfft({x})", "np.fft.hfft({x})",
    "np.fft.ihfft({x})", "np.fft.fft({x}, axis=0)", "np.fft.fft({x}, 7)", "np.fft.rfft({x}, 4, axis=0)",
    "np.fft.irfft({x}, 5)", "np.fft.fft2({x})", "np.fft.fftn({x})", "np.fft.ifftn({x}, norm='ortho')",
    "np.fft.rfft2({x})", "np.fft.irfftn({x})", "np.fft.fft({x}, norm='forward')", "np.fft.fft({x} * 1j)",
    "np.fft.ifft(np.fft.fft({x}))", "np.fft.fftshift({x}) * 1.0", "np.fft.ifftshift({x}, axes=0) + 0.5",
    "np.fft.fft({x}[..., ::-1])", "np.fft.rfft({x}.T)", "np.fft.fft({x}).real", "abs(np.fft.fft({x})) ** 2",
    "np.fft.rfftn({x}, axes=(0,))", "foreign.scipy(np, 'fft').dct({x} * 1.0)", "foreign.scipy(np, 'fft').fft({x})",
    "foreign.scipy(np, 'fft').idst({x} * 1.0, type=3)", "foreign.scipy(np, 'signal').fftconvolve({x} * 1.0, {x} * 1.0)",
    "np.fft.rfft({x}, 33)", "np.fft.fft({x}, 64)", "np.fft.ifft2({x})", "np.fft.irfft2({x})", "np.fft.fftfreq(9, 0.1)",
    "np.fft.rfftfreq(8)", "{F}.dst({x} * 1.0)", "{F}.idct({x} * 1.0)", "{F}.dctn({x} * 1.0)", "{F}.idctn({x} * 1.0)",
    "{F}.dstn({x} * 1.0, type=3)", "{F}.idstn({x} * 1.0)", "{F}.hfftn({x})", "{F}.ihfftn({x} * 1.0)", "{F}.hfft2({x})",
    "{F}.ihfft2({x} * 1.0)", "{F}.ifft2({x})", "{F}.irfft2({x})", "{F}.rfftn({x} * 1.0)", "{F}.rfftfreq(7)",
    "{G}.hilbert({x} * 1.0)", "{G}.oaconvolve({x} * 1.0, {x} * 1.0)", "{G}.resample({x} * 1.0, 7)",
    "{G}.czt({x} * 1.0)",
    "{G}.periodogram({x} * np.float32(1))[1]", "{G}.zoom_fft({x} * 1.0, [0.1, 0.4])",
)  # fmt: skip
# The Hessenberg form of a matrix of low rank is unique as far as its first subdiagonal element that is no more than
# rounding errors; after that the reflections are theirs. What every such form has: it gives the matrix back, and its
# norm, by a basis that is orthonormal and begins with the first axis.
HESSENBERG = (
    "foreign.given_back(*{L}.hessenberg({m}, calc_q=True))",
    "foreign.given_back(np.eye({m}.shape[-1], dtype={m}.dtype), {L}.hessenberg({m}, calc_q=True)[1])",
    "{L}.hessenberg({m}, calc_q=True)[1][..., 0]", "np.linalg.norm({L}.hessenberg({m}))",
)  # fmt: skip
# {m} is a matrix with a large diagonal (or a stack of them), whose condition is below 2; {s} a symmetric one, {t}
# one of two dimensions, {d} and {e} are of double precision; {L} is scipy.linalg.
MATRIX_FUNCTIONS = (
    "np.linalg.inv({m})", "np.linalg.solve({m}, {m}[..., :1])", "np.linalg.solve({m}, {s})", "np.linalg.det({m})",
    "np.linalg.slogdet({m})[1]", "np.linalg.cholesky({s})", "np.linalg.eigvalsh({s})", "np.linalg.svdvals({m})",
    "np.linalg.svd({m}, compute_uv=False)", "abs(np.linalg.qr({m}, mode='r'))", "np.linalg.norm({m})",
    "np.linalg.pinv({m})", "np.linalg.norm({m}, axis=-1)", "np.linalg.norm({m}, 2, axis=(-2, -1))",
    "np.linalg.cond({m})", "np.linalg.matrix_power({m}, 3)", "np.linalg.norm({m}.ravel(), 1)",
    "np.linalg.lstsq({m}, {s}, rcond=None)[0]", "np.linalg.tensorinv({m}, 1)", "{m} @ np.linalg.inv({m})",
    "np.linalg.multi_dot([{m}, {s}, {m}])", "np.linalg.solve({m}, {m}[0, ...])", "np.linalg.eigh({s})[0]",
    "np.linalg.inv({m}.T)", "foreign.scipy(np, 'linalg').solve_triangular({m}, {s}, lower=True)",
    "foreign.scipy(np, 'linalg').lu_factor({m})[0]",
    "foreign.scipy(np, 'linalg').cho_solve((foreign.scipy(np, 'linalg').cholesky({s}), False), {m})",
    "np.linalg.matrix_norm({m})", "np.linalg.vector_norm({m}, axis=0)", "np.linalg.trace({m})",
    "np.linalg.outer({m}[0], {m}[0])", "np.linalg.det({m}[..., :1, :1])",  # the exponential of a logarithm
    "np.sort(abs(np.linalg.eigvals({m})))", "np.sort(abs(np.linalg.eig({m})[0]))", "np.linalg.tensorsolve({m}, {m}[0])",
    "{L}.lu({m})[2]", "{L}.ldl({s})[1]", *HESSENBERG, "{L}.expm({m} / 400)",
    "{L}.sqrtm({d})",
    "{L}.logm({d})", "{L}.cosm({m} / 400)", "{L}.sinhm({m} / 400)", "{L}.tanm({m} / 900)",
    "{L}.polar({m})[1]",
    "{L}.pinvh({s})", "{L}.toeplitz({m}[0])", "{L}.hankel({m}[0])", "{L}.circulant({m}[0])",
    "{L}.block_diag({m}, {s})", "{L}.solve_toeplitz({m}[0], {m}[0])", "{L}.solve_circulant({m}[0], {m}[0])",
    "{L}.solve_banded((0, 0), np.diagonal({m})[None], {m})", "{L}.solveh_banded(np.diagonal({m})[None], {m})",
    "{L}.lu_solve({L}.lu_factor({m}), {m})",
    "{L}.solve_sylvester({d}, {e}, {d})",
    "{L}.solve_continuous_lyapunov({d}, {e})",
    "{L}.eigh_tridiagonal(np.diagonal({m}), np.diagonal({m}, 1))[0]",
    "{L}.eigvalsh_tridiagonal(np.diagonal({m}), np.diagonal({m}, 1))", "{L}.matmul_toeplitz({m}[0], {m})",
    "{L}.convolution_matrix({m}[0], 4)", "{L}.fiedler({m}[0])", "{L}.khatri_rao({m}, {s})",
    "{L}.signm({d})",
    # Of equal eigenvalues rounding makes complex ones or not, and so the type of SciPy's power: these differ.
    "{L}.fractional_matrix_power({d} * (np.arange({d}.shape[-1]) + 1), 0.5)", "{L}.eigvals_banded({m}[:1])",
    "{L}.blas.dgemm(1.0, {t}, ({t} + {t}.T))",
    "{L}.blas.dgemv(1.0, {t}, {t}[0])", "{L}.blas.dtrsm(1.0, {t}, ({t} + {t}.T))", "{L}.blas.dsyrk(1.0, {t})",
    "{L}.lapack.dpotrf(({t} + {t}.T))[0]", "{L}.lapack.dgetrf({t})[0]", "{L}.lapack.dgesv({t}, ({t} + {t}.T))[2]",
    "{L}.expm_cond({d} / 400)", "{L}.matrix_balance({m})",
    "{L}.qr({m}, pivoting=True)[1].diagonal() ** 2",
)  # fmt: skip
EXACT_MATRIX_FUNCTIONS = (
    "np.linalg.matrix_rank({m})", "np.linalg.solve({m}[..., :-1], {m})", "np.linalg.inv({m}[..., :1])",
    "np.linalg.inv({m} * 0)", "np.linalg.cholesky(-{s})", "np.linalg.slogdet({m})[0]",
    "np.linalg.matrix_transpose({m})", "np.linalg.diagonal({m})", "np.linalg.inv({m}.ravel())",
    "np.linalg.svd({m})[0].shape", "np.linalg.qr({m})[1].shape", "{L}.bandwidth({m})", "{L}.issymmetric({s})",
    "{L}.ishermitian({m})", "{L}.null_space({m}).shape", "{L}.orth({m}).shape", "{L}.schur({m})[0].shape",
    "np.tril({L}.hessenberg({m}), -2)",
)  # fmt: skip
LARGEST_MATRIX = 9
NORMWISE = 300.0  # units of eps

# Of vertices: every path from every one, by Bellman and Ford's algorithm, takes steps of their fourth power.
LARGEST_GRAPH = 40

# {x} is a matrix of small integers, some zero, {v} a vector and {y} a matrix that fit, {g} the weights of a graph; {S}
# is scipy.sparse.
SPARSE = (
    "({S}.csr_array({x}) @ {v})", "({S}.csc_array({x}) @ {v})", "({S}.coo_array({x}) @ {v})",
    "({S}.csr_array({x}) @ {y})", "({S}.csr_array({x}) @ {S}.csr_array({y})).toarray()",
    "({S}.csr_array({x}) + {S}.csr_array({x})).toarray()", "{S}.csr_array({x}).T.toarray()",
    "{S}.csr_array({x}).multiply({x}).toarray()", "{S}.csr_array({x}).sum(axis=0)",
    "{S}.csr_array({x}).tocsc().indices", "{S}.csr_array({x}).data", "{S}.coo_array({x}).row",
    "{S}.csr_array({x})[:1].toarray()", "{S}.csr_array({x}).nnz", "{S}.csr_array({x}).diagonal()",
    "(2 * {S}.csr_array({x})).toarray()", "{S}.csr_array({x}).max(axis=1).toarray()",
    "({S}.csr_array({x}) - {S}.csc_array({x})).toarray()", "({S}.csr_array({x}) != 0).toarray()",
    "{S}.eye_array(3).toarray()", "{S}.hstack([{S}.csr_array({x}), {S}.csr_array({x})]).toarray()",
    "{S}.vstack([{S}.csr_array({x})] * 2).toarray()", "{S}.kron({S}.csr_array({x}), {S}.eye_array(2)).toarray()",
    "{S}.csr_array({x}).astype(np.float32).toarray()", "{S}.csr_array({x}).getrow(0).toarray()",
    "{S}.csr_array({x}).sum()", "abs({S}.csr_array({x})).toarray()", "{S}.csr_matrix({x}).dot({v})",
    "({S}.csr_array({x}).T @ {S}.csr_array({x})).toarray()", "{S}.csr_array({x}).copy().toarray()",
    "{S}.tril({S}.csr_array({x})).toarray()", "{S}.csr_array(({x})).power(2).toarray()",
    "{S}.issparse({S}.csr_array({x}))", "{S}.find({S}.csr_array({x}))[2]", "{S}.csr_array({x}).mean(axis=0)",
    "{S}.csr_array({x}).tocoo().col", "{S}.diags_array([1.0, 2.0, 3.0]).toarray()",
    "{S}.csr_array({x}) @ np.ones((1, 2, 3))", "{S}.csr_array({x}).argmax()", "({S}.bsr_array({x}) @ {v})",
    "({S}.dia_array({x}) @ {v})", "{S}.lil_array({x}).tocsr().toarray()", "{S}.dok_array({x}).toarray()",
    "{S}.isspmatrix_csr({S}.csr_matrix({x}))", "{S}.linalg.spbandwidth({S}.csr_array({x}))",
    "[bool(v) for v in {S}.linalg.is_sptriangular({S}.csr_array({x}))]",
    "{S}.block_diag([{S}.csr_array({x}), {x}]).toarray()",
    "{S}.block_array([[{S}.csr_array({x}), None], [None, {S}.csr_array({x})]]).toarray()",
    "{S}.kronsum({S}.csr_array({g}), {S}.eye_array(2)).toarray()", "{S}.diags([[1.0, 2.0], [3.0]], [0, 1]).toarray()",
    "{S}.csgraph.dijkstra({S}.csr_array({g}))", "{S}.csgraph.connected_components({S}.csr_array({g}))[0]",
    "{S}.csgraph.shortest_path({S}.csr_array({g}))", "{S}.csgraph.bellman_ford({S}.csr_array({g}))",
    "{S}.csgraph.laplacian({S}.csr_array({g})).toarray()", "{S}.csgraph.breadth_first_order({S}.csr_array({g}), 0)[0]",
    "{S}.csgraph.minimum_spanning_tree({S}.csr_array({g})).sum()", "{S}.csr_array({x}).todia().toarray()",
    "{S}.csgraph.breadth_first_tree({S}.csr_array({g}), 0).toarray()", "{S}.csr_array({g}).trace()",
)  # fmt: skip


def random_numbers(scope: Scope) -> None:
    """Draw random numbers, from a generator that goes on from statement to statement."""
    draw = scope.draw
    if "_rng" not in scope.values or draw.chance(20):
        made = f"np.random.Generator(np.random.{draw.choice(BIT_GENERATORS)}({draw.integer(0, 99)}))"
        scope.emit("random_numbers", f"_rng = {made}")
    names = [name for name in scope.arrays() if np.ndim(scope.values[name])]
    a = scope.pick(names) if names else "np.arange(5)"
    code = draw.choice(DRAWS).format(d=operands.shape(scope), a=a, n=draw.integer(0, 99))
    scope.emit("random_numbers", f"{scope.fresh()} = {code}")


def normwise(scope: Scope, kind: str, code: str) -> None:
    """Bind a result that is only compared, by the largest of its elements, to a new name."""
    record = Normwise(code, NORMWISE)
    value, has_value = scope.try_evaluate(code)
    target = scope.fresh("s")
    if not has_value:
        scope.emit(kind, f"{target} = {code}")
    elif isinstance(value, np.ndarray | np.generic) and record.has_bound(value):
        scope.emit(kind, f"{target} = {code}", (), ((target, record),))


def numbers(a: str) -> str:
    """Return small numbers made of an array: no NaN, and nothing beyond nine."""
    return f"np.clip(np.where({a} == {a}, {a}, 0), -9, 9)"


def real_arrays(scope: Scope, ndim: int) -> list[str]:
    """Return the names of small real arrays of at least so many dimensions."""
    values = scope.values
    return [
        name
        for name in scope.arrays()
        if values[name].dtype.kind in "iuf" and 0 < values[name].size <= MAX_ELEMENTS and values[name].ndim >= ndim
    ]


MAX_ELEMENTS = 2000


def transform(scope: Scope) -> None:
    """Bind a Fourier transform, or one of its kin."""
    names = real_arrays(scope, 1)
    if names:
        forms = {"x": numbers(scope.pick(names)), "F": "foreign.scipy(np, 'fft')", "G": "foreign.scipy(np, 'signal')"}
        normwise(scope, "transform", scope.draw.choice(TRANSFORMS).format(**forms))


def linear_algebra(scope: Scope) -> None:
    """Bind what linear algebra makes of a well-conditioned matrix made of an array."""
    draw = scope.draw
    names = real_arrays(scope, 2)
    if not names:
        return
    a = scope.pick(names)
    n = min(*np.shape(scope.values[a])[-2:], LARGEST_MATRIX)
    dtype = draw.choice(("np.float64", "np.float64", "np.float32"))
    m = scope.fresh()
    scope.emit(
        "linear_algebra",
        f"{m} = {numbers(a)}[..., :{n}, :{n}].astype({dtype}) + np.eye({n}, dtype={dtype}) * {40 * n}",
    )
    forms = {"m": m, "s": f"({m} + np.swapaxes({m}, -1, -2))", "t": f"{m}.reshape((-1, {n}, {n}))[0]"}
    forms |= {"d": f"{m}.astype(np.float64)", "e": f"{forms['s']}.astype(np.float64)"}
    forms["L"] = "foreign.scipy(np, 'linalg')"
    if draw.chance(20):
        scope.emit("linear_algebra", f"{scope.fresh('o')} = {draw.choice(EXACT_MATRIX_FUNCTIONS).format(**forms)}")
    else:
        normwise(scope, "linear_algebra", draw.choice(MATRIX_FUNCTIONS).format(**forms))


def sparse(scope: Scope) -> None:
    """Bind what is computed with a sparse matrix of small integers, in which every order of summation is exact."""
    draw = scope.draw
    values = scope.values
    names = [name for name in real_arrays(scope, 2) if values[name].ndim == 2]
    if not names:
        return
    x = f"np.floor({numbers(scope.pick(names))})"
    dtype = draw.choice(("np.float64", "np.float32", "np.int64", "np.int32"))
    x = f"({x} * ({x} > 0)).astype({dtype})"
    r = f"{x}[:{LARGEST_GRAPH}]"
    forms = {"x": x, "y": f"{x}.T", "v": f"{x}[0]", "g": f"({r} @ {r}.T)", "S": "foreign.scipy(np, 'sparse')"}
    code = draw.choice(SPARSE).format(**forms)
    if ".mean(" in code:
        normwise(scope, "sparse", code)  # SciPy divides each element first: the sum is of numbers that are rounded
    else:
        scope.emit("sparse", f"{scope.fresh('o')} = {code}")

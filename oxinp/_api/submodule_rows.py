"""THE SUBMODULE TABLES: the submodules of NumPy's and SciPy's that we have, and rows of the coverage table for them.

A submodule is a row of `SUBMODULES`. Of the names in it, `ROWS` has only those of which oxinp makes something else than
what the object itself says: a function is *host* (and what it writes to is read off its parameters), anything else is
*own*. So a name that a new version of NumPy or SciPy brings needs no row, and one that we implement needs one line.
"""

from __future__ import annotations

from typing import NamedTuple

from oxinp._api.coverage import COMPOSED, HOST, NATIVE, OWN, REFUSED, CoverageRow
from oxinp._api.host_parts import HOST_PARTS
from oxinp._core.host.fallback import KEPT


class Submodule(NamedTuple):
    """A module of ours that shows the names of one of NumPy's or SciPy's.

    Attributes
    ----------
    path : str
        Its name below ``oxinp``.
    source : str
        The module whose names it has: NumPy's, SciPy's, or one of ours that is known by two names.
    kind : str
        host (functions are ours or go through the counted fallback) or own (everything as it is: it computes nothing,
        or gives classes that stay on the host).
    since, until : str
        As a `CoverageRow`'s.
    """

    path: str
    source: str
    kind: str
    since: str = ""
    until: str = ""


def _of(package: str, **paths: str) -> list[Submodule]:
    """Return rows of submodules of a package's, from paths separated by spaces."""
    prefix = "scipy." if package == "scipy" else ""
    return [
        Submodule(f"{prefix}{path}", f"{package}.{path}", kind)
        for kind, listed in paths.items()
        for path in listed.split()
    ]


_SPARSE_FORMATS = ("bsr", "coo", "csc", "csr", "dia", "dok", "lil")
_SPARSE_CLASSES = [f"{name}_{kind}" for name in _SPARSE_FORMATS for kind in ("array", "matrix")]
_SPARSE_COMPOSED = (
    "block_array block_diag bmat diags diags_array expand_dims eye eye_array find hstack identity kron kronsum "
    "permute_dims rand random random_array spdiags swapaxes tril triu vstack"
)
_SOLVERS = (
    "LinearOperator aslinearoperator bicg bicgstab cg cgs eigs eigsh expm expm_multiply factorized gcrotmk gmres inv "
    "lgmres lobpcg lsmr lsqr matrix_power minres norm onenormest qmr spilu splu spsolve svds tfqmr"
)
# Distributions of generators that NumPy draws: what they take of a stream depends on what they reject.
_REJECTING = (
    "beta, binomial, chisquare, dirichlet, f, gamma, geometric, hypergeometric, logseries, multinomial, "
    "multivariate_normal, negative_binomial, noncentral_chisquare, noncentral_f, poisson, standard_gamma, standard_t, "
    "vonmises, wald, zipf"
)
_SPARSE = ("sparse", "sparse.csgraph", "sparse.linalg")

SUBMODULES: dict[str, Submodule] = {
    row.path: row
    for row in (
        *_of(
            "numpy",
            host="char fft lib lib.array_utils lib.recfunctions lib.scimath lib.stride_tricks linalg polynomial "
            "polynomial.chebyshev polynomial.hermite polynomial.hermite_e polynomial.laguerre polynomial.legendre "
            "polynomial.polynomial polynomial.polyutils random rec strings",
            own="core ctypeslib dtypes exceptions f2py lib.format lib.introspect lib.mixins lib.npyio ma ma.core "
            "ma.extras ma.testutils testing typing",
        ),
        Submodule("emath", "numpy.lib.scimath", HOST),
        Submodule("scipy", "scipy", HOST),
        *_of(
            "scipy",
            host="cluster cluster.hierarchy cluster.vq constants datasets fft fftpack integrate "
            "interpolate io io.matlab io.wavfile linalg linalg.blas linalg.interpolative linalg.lapack ndimage "
            "optimize signal signal.windows spatial spatial.distance spatial.transform special "
            "stats stats.contingency stats.distributions stats.mstats stats.qmc stats.sampling",
            own="io.arff linalg.cython_blas linalg.cython_lapack odr optimize.cython_optimize special.cython_special "
            "version",
        ),
        Submodule("scipy.differentiate", "scipy.differentiate", HOST, since="1.15"),
        Submodule("scipy.optimize.elementwise", "scipy.optimize.elementwise", HOST, since="1.15"),
        *[Submodule(path, f"scipy.{path}", HOST) for path in _SPARSE],
        *[Submodule(f"scipy.{path}", f"oxinp.{path}", OWN) for path in _SPARSE],
    )
}


def _row(name: str, kind: str, **more: object) -> CoverageRow:
    return CoverageRow(name, name.rpartition(".")[0], kind, **more)  # type: ignore[arg-type]


def _own(chapter: str, names: str) -> list[CoverageRow]:
    return [_row(f"{chapter}.{name}", OWN) for name in names.split()]


def _native(chapter: str, names: str) -> list[CoverageRow]:
    return [_row(f"{chapter}.{name}", NATIVE) for name in names.split()]


def _composed(chapter: str, names: str) -> list[CoverageRow]:
    return [_row(f"{chapter}.{name}", COMPOSED) for name in names.split()]


_MULTI_UFUNCS = (
    *("assoc_legendre_p", "assoc_legendre_p_all", "legendre_p", "legendre_p_all", "sph_harm_y", "sph_harm_y_all"),
    *("sph_legendre_p", "sph_legendre_p_all"),
)

_SIGNAL = (
    "ShortTimeFFT coherence convolve correlate csd czt fftconvolve hilbert istft oaconvolve periodogram resample "
    "spectrogram stft welch zoom_fft"
)

_BLAS = ("gemm", "gemv", "symm", "syr2k", "syrk", "trmm", "trmv", "trsm", "trsv")
_REAL_BLAS, _COMPLEX_BLAS = ("dot", "ger", "symv"), ("dotc", "dotu", "gerc", "geru", "hemm", "hemv", "her2k", "herk")
_LAPACK = (
    *("geqp3", "geqrf", "gesdd", "gesv", "gesvd", "getrf", "getri", "getrs", "lange", "lauum", "posv", "potrf"),
    *("potri", "potrs", "trtri", "trtrs"),
)

_BASES = (
    *(("chebyshev", "cheb"), ("hermite", "herm"), ("hermite_e", "herme"), ("laguerre", "lag"), ("legendre", "leg")),
    ("polynomial", "poly"),
)
_WORK = "der fit grid2d grid3d int mul roots val val2d val3d vander vander2d vander3d"
SERIES = [f"polynomial.{module}.{prefix}{work}" for module, prefix in _BASES for work in _WORK.split()]
"""Functions of `numpy.polynomial` that are NumPy's code over our arrays."""

# What compares values, by the module that has it.
ASSERTIONS = {
    "testing": "assert_allclose assert_almost_equal assert_approx_equal assert_array_almost_equal "
    "assert_array_almost_equal_nulp assert_array_compare assert_array_equal assert_array_less assert_array_max_ulp "
    "assert_equal build_err_msg print_assert_equal",
    "ma.testutils": "almost approx assert_almost_equal assert_array_almost_equal assert_array_approx_equal "
    "assert_array_compare assert_array_equal assert_array_less assert_close assert_equal assert_equal_records "
    "assert_mask_equal assert_not_equal fail_if_array_equal fail_if_equal",
}

# THE ROWS, by the name that a function is counted by: of NumPy's below ``numpy``, of SciPy's in full.
ROWS: dict[str, CoverageRow] = {
    row.name: row
    for row in (
        *_native("fft", "fft ifft rfft irfft hfft ihfft fft2 ifft2 rfft2 irfft2 fftn ifftn rfftn irfftn"),
        _row("fft.fftfreq", COMPOSED),
        _row("fft.fftshift", COMPOSED),
        _row("fft.ifftshift", COMPOSED),
        _row("fft.rfftfreq", COMPOSED),
        _row("lib.stride_tricks.as_strided", NATIVE),
        _row("lib.stride_tricks.sliding_window_view", NATIVE),
        *_native("linalg", "cholesky det eigh eigvalsh inv qr slogdet solve svd svdvals"),
        _row("linalg.cond", COMPOSED),
        _row("linalg.cross", COMPOSED),
        _row("linalg.diagonal", NATIVE),
        _row("linalg.eig", COMPOSED),
        _row("linalg.eigvals", COMPOSED),
        _row("linalg.matmul", COMPOSED),
        _row("linalg.matrix_norm", COMPOSED),
        _row("linalg.lstsq", COMPOSED),
        _row("linalg.matrix_power", COMPOSED),
        _row("linalg.matrix_rank", COMPOSED),
        _row("linalg.matrix_transpose", NATIVE),
        _row("linalg.multi_dot", COMPOSED),
        _row("linalg.norm", COMPOSED),
        _row("linalg.outer", COMPOSED),
        _row("linalg.pinv", COMPOSED),
        _row("linalg.tensordot", COMPOSED),
        _row("linalg.tensorinv", COMPOSED),
        _row("linalg.tensorsolve", COMPOSED),
        _row("linalg.trace", COMPOSED),
        _row("linalg.vecdot", COMPOSED),
        _row("linalg.vector_norm", COMPOSED),
        *[row for module, names in ASSERTIONS.items() for row in _composed(module, names)],
        _row("random.Generator", NATIVE, note=f"on the host: {_REJECTING}, multivariate_hypergeometric"),
        _row("random.RandomState", NATIVE, note=f"on the host: {_REJECTING}, random_integers, tomaxint"),
        _row("random.default_rng", NATIVE),
        *[
            _row(f"random.{name}", HOST)
            for name in ("MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64", "SeedSequence")
        ],
        _row("random.shuffle", NATIVE, mutates=(0, "x")),
        *_native("random", "permutation rand randint randn random random_sample ranf sample standard_normal uniform"),
        *_composed("random", "choice exponential gumbel laplace logistic lognormal normal pareto power rayleigh"),
        *_composed("random", "standard_cauchy standard_exponential triangular weibull"),
        _row("scipy.fft.fftfreq", COMPOSED),
        _row("scipy.fft.fftshift", COMPOSED),
        _row("scipy.fft.ifftshift", COMPOSED),
        _row("scipy.fft.rfftfreq", COMPOSED),
        *_native("scipy.fft", "fft ifft rfft irfft hfft ihfft fft2 ifft2 rfft2 irfft2 hfft2 ihfft2"),
        *_native("scipy.fft", "fftn ifftn rfftn irfftn hfftn ihfftn"),
        *_native("scipy.fft", "dct idct dst idst dctn idctn dstn idstn"),
        _row("scipy.fft.fht", COMPOSED),
        _row("scipy.fft.ifht", COMPOSED),
        *_native("scipy.linalg", "cholesky det eigh eigh_tridiagonal eigvalsh eigvalsh_tridiagonal inv lu lu_factor"),
        *_native("scipy.linalg", "hessenberg ldl qr solve_triangular svd svdvals"),
        *[
            _row(f"scipy.linalg.{name}", COMPOSED)
            for name in (
                *("cho_factor", "cho_solve", "cho_solve_banded", "circulant", "coshm", "cosm", "eig", "eigvals"),
                *("eig_banded", "eigvals_banded", "expm_frechet"),
                *("expm", "hankel", "lstsq", "lu_solve", "norm", "null_space", "orth", "pinv", "pinvh", "polar"),
                *("rq", "schur", "signm", "sinhm", "sinm", "solve", "solve_banded", "solveh_banded", "sqrtm"),
                *("subspace_angles", "tanhm", "tanm", "toeplitz"),
            )
        ],
        *_composed("scipy.linalg", "bandwidth block_diag companion convolution_matrix diagsvd fiedler"),
        *_composed("scipy.linalg", "ishermitian issymmetric leslie logm"),
        *_composed("scipy.linalg", "matmul_toeplitz orthogonal_procrustes qr_multiply solve_circulant"),
        _row("scipy.linalg.khatri_rao", COMPOSED),
        *_composed("scipy.linalg", "solve_continuous_are solve_continuous_lyapunov solve_discrete_are solve_sylvester"),
        *_composed(
            "scipy.linalg",
            "fractional_matrix_power matrix_balance solve_discrete_lyapunov solve_lyapunov solve_toeplitz "
            "cdf2rdf cholesky_banded expm_cond funm hadamard "
            "helmert hilbert ordqz qz rsf2csf",
        ),
        *_composed("scipy.linalg.blas", " ".join(f"{letter}{name}" for name in _BLAS for letter in "sdcz")),
        *_composed("scipy.linalg.blas", " ".join(f"{letter}{name}" for name in _REAL_BLAS for letter in "sd")),
        *_composed("scipy.linalg.blas", " ".join(f"{letter}{name}" for name in _COMPLEX_BLAS for letter in "cz")),
        *_composed("scipy.linalg.lapack", " ".join(f"{letter}{name}" for name in _LAPACK for letter in "sdcz")),
        *_composed("scipy.linalg.lapack", "ssyevd dsyevd cheevd zheevd ssyev dsyev cheev zheev"),
        *_composed("scipy.linalg.interpolative", "estimate_rank estimate_spectral_norm id_to_svd interp_decomp svd"),
        _row("scipy.linalg.interpolative.estimate_spectral_norm_diff", COMPOSED),
        *_composed("scipy.linalg.interpolative", "reconstruct_interp_matrix reconstruct_matrix_from_id"),
        *_composed("scipy.linalg.interpolative", "reconstruct_skel_matrix"),
        *[_row(f"scipy.signal.{name}", COMPOSED) for name in _SIGNAL.split()],
        *_native("scipy.stats.qmc", "Halton Sobol"),
        _row("scipy.stats.qmc.LatinHypercube", HOST),
        _row("scipy.test", REFUSED, reason="it runs SciPy's own tests; use scipy.test()"),
        # What they return keeps their arrays.
        _row("scipy.interpolate.make_interp_spline", HOST, mutates=(KEPT,)),
        _row("scipy.interpolate.make_lsq_spline", HOST, mutates=(KEPT,)),
        _row("scipy.interpolate.make_smoothing_spline", HOST, mutates=(KEPT,)),
        # Functions all the same, which are instances of a class.
        *[_row(f"scipy.special.{name}", HOST, since="1.15") for name in _MULTI_UFUNCS],
        # They touch no array.
        *_own("lib", "add_docstring add_newdoc"),
        *_own("lib.array_utils", "normalize_axis_index normalize_axis_tuple"),
        *_own("polynomial", "set_default_printstyle"),
        *[_row(name, COMPOSED) for name in SERIES],
        *_own("random", "bytes get_bit_generator get_state seed set_bit_generator set_state"),
        *_own("rec", "find_duplicate"),
        *_own("scipy", "show_config"),
        *_own("scipy.constants", "find precision unit value"),
        *_own("scipy.datasets", "clear_cache download_all"),
        *_own(
            "scipy.fft",
            "get_workers next_fast_len register_backend set_backend set_global_backend set_workers skip_backend",
        ),
        *_own("scipy.fftpack", "next_fast_len"),
        *_own("scipy.io", "hb_read mminfo whosmat"),
        *_own("scipy.io.matlab", "matfile_version whosmat"),
        *_own("scipy.linalg", "find_best_blas_type get_blas_funcs get_lapack_funcs"),
        *_own("scipy.linalg.blas", "find_best_blas_type get_blas_funcs"),
        *_own("scipy.linalg.lapack", "get_lapack_funcs"),
        *_own("scipy.optimize", "show_options"),
        *_native("scipy.sparse", " ".join(_SPARSE_CLASSES)),
        *_native("scipy.sparse", "sparray spmatrix issparse isspmatrix"),
        *_native("scipy.sparse", " ".join(f"isspmatrix_{name}" for name in _SPARSE_FORMATS)),
        *_composed("scipy.sparse", _SPARSE_COMPOSED),
        *_composed("scipy.sparse.csgraph", "laplacian"),
        *_native(
            "scipy.sparse.csgraph",
            "bellman_ford breadth_first_order breadth_first_tree connected_components dijkstra minimum_spanning_tree",
        ),
        *_native("scipy.sparse.csgraph", "shortest_path"),
        *_composed("scipy.sparse.linalg", _SOLVERS),
        _row("scipy.sparse.linalg.spsolve_triangular", NATIVE),
        *_own("scipy.sparse.linalg", "use_solver"),
        _row("scipy.fft.prev_fast_len", OWN, since="1.14"),
        _row("scipy.sparse.safely_cast_index_arrays", OWN, since="1.15"),
        _row("scipy.sparse.linalg.is_sptriangular", NATIVE, since="1.15"),
        _row("scipy.sparse.linalg.spbandwidth", NATIVE, since="1.15"),
        *_own("scipy.spatial.distance", "num_obs_dm num_obs_y"),
        *_own("scipy.special", "geterr seterr"),
    )
}
for _name, _note in HOST_PARTS.items():
    ROWS[_name] = ROWS.get(_name, _row(_name, HOST))._replace(note=_note)

"""What of linear algebra is on the host, and why: `help` and the coverage page say it."""

_ITERATIONS = "deflation and QR iterations on small matrices are LAPACK's on the host: steps of few rows, one by one"
_PROVEN = "SciPy computes on the host where a residual does not prove what products and inverses have given"
_BANDS = "a band is factored on the host, row by row; few right-hand sides, or wide bands, are SciPy's there"
_ILL = "SciPy computes, and warns of, what is ill-conditioned"
_ROTATIONS = "on the host: rotations of two rows, one after the other"

HOST_PARTS: dict[str, str] = {
    name: note
    for names, note in {
        "linalg.eig linalg.eigvals scipy.linalg.eig scipy.linalg.eigvals": _ITERATIONS,
        "scipy.linalg.funm": _ITERATIONS,
        "scipy.linalg.schur": f"{_ITERATIONS}; it reorders sorted forms",
        "scipy.linalg.qz": f"by schur; {_ITERATIONS}, and pencils for which that is too inaccurate",
        "scipy.linalg.ordqz": "as qz; LAPACK reorders on the host",
        "scipy.linalg.logm scipy.linalg.sqrtm scipy.linalg.signm scipy.linalg.fractional_matrix_power": _PROVEN,
        "scipy.linalg.solve_sylvester scipy.linalg.solve_continuous_lyapunov scipy.linalg.solve_lyapunov": _PROVEN,
        "scipy.linalg.solve_discrete_lyapunov": _PROVEN,
        "scipy.linalg.solve_continuous_are scipy.linalg.solve_discrete_are": _PROVEN,
        "scipy.linalg.solve_banded scipy.linalg.solveh_banded scipy.linalg.cho_solve_banded": _BANDS,
        "scipy.linalg.cholesky_banded": "a few narrow bands are LAPACK's on the host: nothing of them is parallel",
        "scipy.linalg.solve scipy.linalg.inv": _ILL,
        "scipy.linalg.solve_toeplitz": "less than 1024 rows in all are SciPy's recursion's on the host",
        "scipy.linalg.lstsq": 'of the driver "gelsy" the host estimates the rank of a triangle, row by row',
        "scipy.linalg.lu_solve": "pivots become a permutation on the host",
        "scipy.linalg.matrix_balance": "LAPACK permutes and scales on the host where there is anything to",
        "scipy.linalg.rsf2csf": "eigenvalues of blocks of two rows are found on the host",
        "scipy.linalg.cdf2rdf": "which eigenvalues are pairs is found on the host",
        "scipy.linalg.cossin": "on the host: LAPACK's simultaneous bidiagonalisation has no kernel",
        "scipy.linalg.qr_delete scipy.linalg.qr_insert scipy.linalg.qr_update": _ROTATIONS,
        "scipy.linalg.clarkson_woodruff_transform": "on the host: a sparse matrix of SciPy's random numbers",
        "scipy.linalg.pascal scipy.linalg.invpascal scipy.linalg.invhilbert": "on the host: integers of any size",
        "scipy.linalg.dft scipy.linalg.fiedler_companion": "on the host: tables that are only filled in",
        "scipy.linalg.interpolative.estimate_rank scipy.linalg.interpolative.interp_decomp": (
            "operators that are functions, and ranks of random samples, are SciPy's on the host"
        ),
    }.items()
    for name in names.split()
}
"""Functions -> what of them is on the host."""

HOST_REASONS: dict[str, str] = {
    "scipy.linalg.blas": "operations on single vectors, which a loop over memory does, and packed or banded storage",
    "scipy.linalg.lapack": (
        "packed, banded and tridiagonal storage, condition estimates, steps of algorithms that have kernels as wholes, "
        "and what works on few rows at a time"
    ),
}
"""Modules -> why those of their functions that are on the host are there."""

__all__ = ["HOST_PARTS", "HOST_REASONS"]

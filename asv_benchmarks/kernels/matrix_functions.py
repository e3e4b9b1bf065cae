"""Functions of `scipy.linalg` that no GPU library has, on a GPU: right by residuals, and how fast, beside SciPy.

``python -m asv_benchmarks.kernels.matrix_functions [--quick] [--peer] [--cases REGEX]`` prints a line per case: the
median wall time of the public function over random matrices that lie on the device, the residual over the order, the
norm and the rounding unit, of which LAPACK's own tests demand that it be at most 30, and with ``--peer`` SciPy's time
on the host. Ends with status 1 if a residual is larger.
"""

import argparse
import re
import statistics
import sys
import time

import numpy as np
import scipy.linalg

import oxinp
from asv_benchmarks.kernels.lapack import RATIO
from asv_benchmarks.kernels.plans import write

NUM_REPETITIONS = 5
LONG = 600  # milliseconds, after which functions are not repeated

ORDERS = {
    "ldl": (128, 256, 512, 1024, 4096),
    "ldl upper c16": (1024,),
    "eig pair": (128, 256, 512),
    "cholesky_banded": (20_000,),
    "cholesky_banded stack": (256,),
    "funm": (512,),
    "expm_cond": (24,),
    "rsf2csf": (512,),
    "qz": (128, 256),
}
QUICK = {name: orders[:1] for name, orders in ORDERS.items()}
BAND, STACK = 224, 64
"""Elements below the diagonal of a wide band, matrices of a stack of narrow ones: the least that the device takes."""


def _norm(a):
    return np.linalg.norm(a, 1)


def symmetric(rng, order):
    """A symmetric matrix."""
    a = rng.standard_normal((order, order))
    return (a + a.T,)


def hermitian(rng, order):
    """A Hermitian matrix."""
    a = rng.standard_normal((order, order)) + 1j * rng.standard_normal((order, order))
    return (a + a.conj().T,)


def general(rng, order):
    """A matrix of norm about one."""
    return (rng.standard_normal((order, order)) / np.sqrt(order),)


def pair(rng, order):
    """Two matrices, the second one far from singular."""
    a, b = rng.standard_normal((2, order, order)) / np.sqrt(order)
    return a, b + 3 * np.eye(order)


def schur_form(rng, order):
    """A Schur form and its vectors."""
    return scipy.linalg.schur(rng.standard_normal((order, order)))


def band(rng, order):
    """A wide band whose matrix is positive definite."""
    made = rng.standard_normal((BAND + 1, order))
    made[0] = 4 * BAND
    return (made,)


def bands(rng, order):
    """A stack of narrow bands."""
    made = rng.standard_normal((STACK, 3, order))
    made[:, 0] = 9
    return (made,)


def ldl_residual(given, found):
    """Of A - L D L^H."""
    outer, d, _ = found
    return _norm(given[0] - outer @ d @ outer.conj().T) / _norm(given[0])


def pair_residual(given, found):
    """Of beta A V - alpha B V."""
    (a, b), (w, v) = given, found
    beta = 1 / np.hypot(1, np.abs(w))
    return np.linalg.norm((a @ v) * beta - (b @ v) * (w * beta), axis=0).max() / max(map(_norm, given))


def qz_residual(given, found):
    """Of A - Q AA Z^H and B - Q BB Z^H."""
    *forms, q, z = found
    return max(_norm(a - q @ x @ z.conj().T) / _norm(a) for a, x in zip(given, forms, strict=True))


def exponential_residual(given, found):
    """Of the exponential."""
    expected = scipy.linalg.expm(given[0])
    return _norm(expected - found) / _norm(expected) / 1e3  # what Parlett's recurrence loses


def band_residual(given, found):
    """Of the first rows of A - L L^H."""
    rows = min(600, found.shape[-1])
    (a,), lower = given, found
    a, lower = (x[0] if x.ndim == 3 else x for x in (a, lower))
    dense = [sum(np.diag(x[i, : rows - i], -i) for i in range(min(len(x), rows))) for x in (a, lower)]
    whole = dense[0] + np.tril(dense[0], -1).T
    return _norm(whole - dense[1] @ dense[1].T) / _norm(whole)


def none(given, found):  # noqa: ARG001 - as the others
    """Of what the functions' own tests say enough."""
    return 0.0


CASES = {
    "ldl": (symmetric, "ldl", {}, ldl_residual),
    "ldl upper c16": (hermitian, "ldl", {"lower": False}, ldl_residual),
    "eig pair": (pair, "eig", {}, pair_residual),
    "qz": (pair, "qz", {}, qz_residual),
    "funm": (general, "funm", {"func": np.exp}, exponential_residual),
    "expm_cond": (general, "expm_cond", {}, none),
    "rsf2csf": (schur_form, "rsf2csf", {}, none),
    "cholesky_banded": (band, "cholesky_banded", {"lower": True}, band_residual),
    "cholesky_banded stack": (bands, "cholesky_banded", {"lower": True}, band_residual),
}
"""What draws matrices, the function, its options, and its residual."""


def milliseconds(function, given, options, wait):
    """Median of a function's time from the call to the end of the device's work, and the last result."""
    times = []
    while len(times) < NUM_REPETITIONS and (not times or sum(times) < LONG):
        start = time.perf_counter()
        result = function(*given, **options)
        wait(result)
        times.append((time.perf_counter() - start) * 1e3)
    return statistics.median(times), result


def evaluated(result):
    """Wait for arrays of ours."""
    oxinp.evaluate(*(result if isinstance(result, tuple) else (result,)))
    oxinp.cuda.synchronize()


def main(arguments):
    """Check, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="the smallest order of each")
    parser.add_argument("--peer", action="store_true", help="measure SciPy as well")
    parser.add_argument("--cases", default="", help="a regular expression of the lines that are wanted")
    options = parser.parse_args(arguments)
    rng, is_right = np.random.default_rng(), True
    for title, orders in (QUICK if options.quick else ORDERS).items():
        for order in orders:
            if not re.search(options.cases, f"{title} {order}"):
                continue
            draw, name, keywords, residual = CASES[title]
            given = draw(rng, order)
            held = [oxinp.asarray(x) for x in given]
            evaluated(tuple(held))
            function = getattr(oxinp.scipy.linalg, name)
            with oxinp.config.override(offload_threshold=0):
                evaluated(function(*held, **keywords))  # kernels are compiled
                oxinp.cuda.reset_stats()
                whole, found = milliseconds(function, held, keywords, evaluated)
                fallbacks = {key for key in oxinp.cuda.stats().fallbacks if "iterations" not in key}
            found = tuple(map(np.asarray, found)) if isinstance(found, tuple) else np.asarray(found)
            ratio = residual(given, found) / (order * np.finfo(np.float64).eps)
            is_right &= bool(ratio <= RATIO)
            line = f"{title} {order}".ljust(28) + f" {whole:9.2f} ms, ratio {ratio:.3g}"
            if options.peer:
                theirs, _ = milliseconds(getattr(scipy.linalg, name), given, keywords, lambda _: None)
                line += f"; scipy {theirs:9.2f} ms, {theirs / whole:6.2f}x"
            write(line + (f"; on the host: {', '.join(sorted(fallbacks))}" if fallbacks else ""))
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Eigenvalues and singular values of LAPACK's kinds of test matrices: its test ratios, beside those of LAPACK itself.

``python -m asv_benchmarks.kernels.spectrum_kinds [--order N] [--dtype f8]`` prints a line per kind and function: the
largest of the ratios that LAPACK's own tests demand to be at most 30, of oxinp on the device and of NumPy on the host.
Ends with status 1 if one is above 30, or above three times NumPy's and not below what rounding one result makes.
"""

import argparse
import sys

import numpy as np

import oxinp
from asv_benchmarks.kernels.lapack import RATIO
from asv_benchmarks.kernels.plans import write

WORSE = 3  # times NumPy's ratio
NEGLIGIBLE = 0.1  # as LAPACK's ratios of norms are over the order, too


def _values(order, dtype):
    """Eigenvalues and singular values of the kinds, by name: positive, of norm 1 where nothing else is said."""
    rng, eps, info = np.random.default_rng(order), np.finfo(dtype).eps, np.finfo(dtype)
    spread, half = np.linspace(0, 1, order), order // 2
    return {
        "random": rng.uniform(0.1, 1, order),
        "geometric to eps": eps**spread,
        "arithmetic to eps": 1 - spread * (1 - eps),
        "clustered at eps": np.where(np.arange(order) == 0, 1.0, eps),
        "clustered at 1": np.where(np.arange(order) == order - 1, eps, 1.0),
        "repeated": np.repeat([1.0, 0.5, 0.25, 0.125], -(-order // 4))[:order],
        "nearly repeated": 1 - 1e-13 * np.arange(order),
        "of half the rank": np.where(np.arange(order) < half, 1 - spread, 0.0),
        "condition 1e16": 1e-16**spread,
        "tiny": spread * np.sqrt(info.tiny) * 1e-3,
        "huge": spread * np.sqrt(info.max) * 1e3,
        "identity": np.ones(order),
        "zero": np.zeros(order),
    }


def _orthogonal(rng, order):
    return np.linalg.qr(rng.standard_normal((order, order)))[0]


def _norm(array):
    return float(np.linalg.norm(np.asarray(array, "f8"), 1))


def _ratio_of(a, difference, bases, dtype):
    """The largest of a residual over the norm of a matrix and of what bases lack, in units of rounding."""
    unit = len(a) * float(np.finfo(dtype).eps)
    largest = float(np.abs(a).max()) or 1.0
    ratios = [_norm(difference / largest) / (_norm(a / largest) or 1.0)]
    ratios += [_norm(q.T @ q - np.eye(len(q))) for q in bases]
    return max(ratios) / unit


def _eigh(xp, a):
    w, v = (np.asarray(x, "f8") for x in xp.linalg.eigh(xp.asarray(a)))
    return _ratio_of(a, a @ v - v * w, [v], a.dtype) if (np.diff(w) >= 0).all() else np.inf


def _svd(xp, a):
    u, s, vh = (np.asarray(x, "f8") for x in xp.linalg.svd(xp.asarray(a)))
    return _ratio_of(a, a - u * s @ vh, [u, vh.T], a.dtype) if (np.diff(s) <= 0).all() else np.inf


def _alone(function, of_vectors):
    """The ratio of values alone, beside those that come with vectors on the host in twice the precision, or NumPy's."""

    def ratio(xp, a):
        found = np.sort(np.asarray(getattr(xp.linalg, function)(xp.asarray(a)), "f8"))
        right = np.sort(of_vectors(np.asarray(a, "f8")))
        size = np.abs(right).max() or 1.0
        return float(np.abs(found / size - right / size).max() / (len(a) * np.finfo(a.dtype).eps))

    return ratio


def _eig(xp, a):
    w, v = (np.asarray(x) for x in xp.linalg.eig(xp.asarray(a)))
    largest = float(np.abs(a).max()) or 1.0
    difference = (a / largest) @ v - v * (w / largest)
    return float(np.linalg.norm(difference, 1) / (_norm(a / largest) or 1.0) / (len(a) * np.finfo(a.dtype).eps))


SYMMETRIC = {"eigh": _eigh, "eigvalsh": _alone("eigvalsh", lambda a: np.linalg.eigh(a)[0])}
GENERAL = {"svd": _svd, "svdvals": _alone("svdvals", lambda a: np.linalg.svd(a)[1]), "eig": _eig}


def main(arguments):
    """Check, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--order", type=int, default=400)
    parser.add_argument("--dtype", default="f8")
    options = parser.parse_args(arguments)
    rng, is_right = np.random.default_rng(7), True
    for kind, values in _values(options.order, options.dtype).items():
        left, right = (_orthogonal(rng, options.order) for _ in range(2))
        signs = rng.choice([-1.0, 1.0], options.order)
        symmetric = (left * (values * signs)) @ left.T
        matrices = ((SYMMETRIC, (symmetric + symmetric.T) / 2), (GENERAL, (left * values) @ right.T))
        for functions, matrix in matrices:
            a = matrix.astype(options.dtype)
            for name, ratio in functions.items():
                ours, theirs = ratio(oxinp, a), ratio(np, a)
                is_good = ours <= RATIO and (ours <= WORSE * theirs or ours <= NEGLIGIBLE)
                is_right &= is_good
                write(f"{name:10s} {kind:18s} {ours:9.3g}, NumPy {theirs:9.3g}{'' if is_good else '  !'}")
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

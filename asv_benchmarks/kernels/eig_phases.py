"""Where `eig` of one matrix spends its time, phase by phase: ``python -m asv_benchmarks.kernels.eig_phases [--peer]``.

A phase ends with the device's work that it has asked for: so the sum is more than the time without phases, which is
printed first.
"""

import argparse
import contextlib
import functools
import importlib
import sys
import time

import numpy as np

import oxinp
from asv_benchmarks.kernels.plans import write
from oxinp._core.ops import hessenberg
from oxinp.linalg import _eig, _multishift, _qr_iterations

RATIO = 30.0
PHASES = (
    (_eig, "balanced", "balancing"),
    (hessenberg, "reduce", "reduction to Hessenberg form"),
    (_multishift._Iterations, "fetch", "iterations: fetching windows"),
    (_qr_iterations, "deflate", "iterations: deflation, LAPACK"),
    (_qr_iterations, "iterate", "iterations: small blocks, LAPACK"),
    (_multishift._Iterations, "put", "iterations: putting windows"),
    (_multishift._Iterations, "sweep", "iterations: sweeps"),
    (_eig, "_triangular_vectors", "triangular vectors, LAPACK"),
    (hessenberg, "multiply", "products of vectors"),
    (_eig, "_normalised", "norms and phases of vectors"),
)


def evaluated(value):
    """Have what a phase returns computed."""
    arrays = value if isinstance(value, tuple) else (value,)
    oxinp.evaluate(*[x for x in arrays if isinstance(x, oxinp.ndarray)])
    oxinp.cuda.synchronize()
    return value


@contextlib.contextmanager
def timed(phases):
    """Note seconds and calls of phases while they run, by their titles."""
    found = {title: [0.0, 0] for _, _, title in phases}
    kept = [(owner, name, getattr(owner, name)) for owner, name, _ in phases]

    def watched(function, title):
        @functools.wraps(function)
        def wrapped(*args, **kwargs):
            oxinp.cuda.synchronize()
            start = time.perf_counter()
            result = evaluated(function(*args, **kwargs))
            found[title][0] += time.perf_counter() - start
            found[title][1] += 1
            return result

        return wrapped

    for (owner, name, function), (_, _, title) in zip(kept, phases, strict=True):
        setattr(owner, name, watched(function, title))
    try:
        yield found
    finally:
        for owner, name, function in kept:
            setattr(owner, name, function)


def seconds(function, a):
    """Seconds of a call and what it returns, evaluated."""
    start = time.perf_counter()
    result = evaluated(function(a))
    return time.perf_counter() - start, result


def ratio(a, result):
    """LAPACK's, of the residual."""
    w, v = (np.asarray(x) for x in result)
    eps = len(a) * np.finfo(a.dtype).eps
    return float(np.linalg.norm(a @ v - v * w, 1) / (np.linalg.norm(a, 1) * eps))


def peer(a):
    """PyTorch's seconds, which iterates on the host, and NumPy's."""
    torch = importlib.import_module("torch")
    given = torch.from_numpy(a).cuda()
    torch.linalg.eig(given[:64, :64])
    torch.cuda.synchronize()
    start = time.perf_counter()
    torch.linalg.eig(given)
    torch.cuda.synchronize()
    return time.perf_counter() - start, seconds(np.linalg.eig, a)[0]


def main(arguments):
    """Check, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--order", type=int, default=2048)
    parser.add_argument("--dtype", default="f8")
    parser.add_argument("--peer", action="store_true", help="measure PyTorch and NumPy as well")
    options = parser.parse_args(arguments)
    a = np.random.default_rng(5).standard_normal((options.order, options.order)).astype(options.dtype)
    given = oxinp.asarray(a) * 1
    oxinp.evaluate(given)
    first, _ = seconds(oxinp.linalg.eig, given)
    whole, result = seconds(oxinp.linalg.eig, given)
    error = ratio(a, result)
    write(f"{whole * 1e3:8.1f} ms, {first * 1e3:.1f} the first time, ratio {error:.3g}")
    with timed(PHASES) as found:
        seconds(oxinp.linalg.eig, given)
    for title, (time_s, count) in found.items():
        write(f"{time_s * 1e3:8.1f} ms in {count:4d} calls: {title}")
    if options.peer:
        torch_s, numpy_s = peer(a)
        write(f"torch {torch_s * 1e3:8.1f} ms, numpy {numpy_s * 1e3:.1f}")
    return 0 if error <= RATIO else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

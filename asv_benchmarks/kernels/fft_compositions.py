"""What is built on Fourier transforms, on a GPU: right, and how fast.

``python -m asv_benchmarks.kernels.fft_compositions [--small] [--peer] [REGEX]`` prints a line per case, most important
first: the median of device-event times of the public functions over random data, the launches, the largest error over
the largest result beside SciPy's, and with ``--peer`` the times of CuPy and PyTorch, where those are installed and have
the function, and the ratio to the faster one. ``--small`` takes sizes for the emulator. Ends with status 1 if anything
is wrong.
"""

import argparse
import importlib
import importlib.util
import math
import re
import statistics
import sys
from typing import Any, NamedTuple

import numpy as np
import scipy.fft
import scipy.signal

import oxinp
from asv_benchmarks.kernels.plans import write
from oxinp import cuda

REPETITIONS = 10


class Composition(NamedTuple):
    """A function of arrays.

    Attributes
    ----------
    code : str
        With ``xp``, ``fft`` and ``signal`` of a library, and arrays ``x``, ``h``.
    arrays : tuple of (str, tuple, tuple)
        dtypes and shapes of the arrays, on a GPU and small.
    error : float
        Largest, over the largest result.
    torch : str
        The code for PyTorch, "" where it has no such function.
    """

    code: str
    arrays: tuple[Any, ...]
    error: float
    torch: str = ""


N, M, K = 1 << 26, 8192, 4096
CASES = {
    "dct f32 8192^2": Composition("fft.dctn(x)", (("f", (M, M), (60, 60)),), 2e-6),
    "idct f32 8192^2": Composition("fft.idctn(x)", (("f", (M, M), (60, 60)),), 2e-6),
    "ifft(fft(x) * h) c64 2^26": Composition(
        "fft.ifft(fft.fft(x) * h)", (("F", (N,), (1 << 12,)),) * 2, 1e-6, "fft.ifft(fft.fft(x) * h)"
    ),
    "fftconvolve f32 4096^2": Composition("signal.fftconvolve(x, h)", (("f", (K, K), (20, 24)),) * 2, 1e-6),
    "ifft(fft(x) * h) c64 4096 rows": Composition(
        "fft.ifft(fft.fft(x) * h)", (("F", (K, K), (9, 400)),) * 2, 1e-6, "fft.ifft(fft.fft(x) * h)"
    ),
    "ifft2(fft2(x) * h) c64 4096^2": Composition(
        "fft.ifft2(fft.fft2(x) * h)", (("F", (K, K), (60, 60)),) * 2, 1e-6, "fft.ifft2(fft.fft2(x) * h)"
    ),
    "abs(fft(x)) ** 2 c64 2^26": Composition(
        "abs(fft.fft(x)) ** 2", (("F", (N,), (1 << 12,)),), 1e-6, "abs(fft.fft(x)) ** 2"
    ),
    "abs(fftshift(fft2(x))) c64 8192^2": Composition(
        "abs(fft.fftshift(fft.fft2(x)))", (("F", (M, M), (60, 60)),), 1e-6, "abs(fft.fftshift(fft.fft2(x)))"
    ),
    "fftshift(fft2(ifftshift(x))) c64 8192^2": Composition(
        "fft.fftshift(fft.fft2(fft.ifftshift(x)))",
        (("F", (M, M), (60, 60)),),
        1e-6,
        "fft.fftshift(fft.fft2(fft.ifftshift(x)))",
    ),
    "rfft f32 2^27": Composition("fft.rfft(x)", (("f", (2 * N,), (1 << 13,)),), 1e-6, "fft.rfft(x)"),
    "dct along rows f32 8192^2": Composition("fft.dct(x)", (("f", (M, M), (60, 60)),), 2e-6),
    "dct along columns f32 8192^2": Composition("fft.dct(x, axis=0)", (("f", (M, M), (60, 60)),), 2e-6),
    "dst type 4 f32 8192^2": Composition("fft.dst(x, 4)", (("f", (M, M), (60, 60)),), 2e-6),
    "welch f32 2^26": Composition("signal.welch(x, nperseg=1024)[1]", (("f", (N,), (5000,)),), 1e-4),
    "stft f32 2^24": Composition("signal.stft(x, nperseg=1024)[2]", (("f", (N // 4,), (5000,)),), 1e-5),
    "hilbert f64 2^24": Composition("signal.hilbert(x)", (("d", (N // 4,), (1 << 10,)),), 1e-13),
    "oaconvolve f32 2^26 with 1000": Composition(
        "signal.oaconvolve(x, h)", (("f", (N,), (4000,)), ("f", (1000,), (30,))), 2e-5
    ),
}


def arrays_of(case, *, is_small):
    """Return random arrays."""
    rng, made = np.random.default_rng(0), []
    for dtype, large, small in case.arrays:
        shape = small if is_small else large
        if dtype.isupper():
            x = rng.standard_normal((*shape, 2), dtype.lower()).view(dtype)[..., 0]
        else:
            x = rng.standard_normal(shape, dtype)
        made.append(x)
    return made


def names(xp, fft, signal, arrays):
    """Return what the code of a case may name."""
    return {"xp": xp, "fft": fft, "signal": signal, **dict(zip("xh", arrays, strict=False))}


def median_of(record, elapsed, compute):
    """Median of device-event times in milliseconds."""
    times = []
    for _ in range(REPETITIONS + 3):
        start = record()
        compute()
        stop = record()
        times.append(elapsed(start, stop))
    return statistics.median(times[3:])


def own(case, arrays):
    """Return time, launches and result."""
    given = [oxinp.asarray(x) for x in arrays]
    oxinp.evaluate(*[x + 0 for x in given])
    scope = names(oxinp, oxinp.scipy.fft, oxinp.scipy.signal, given)
    code = compile(case.code, "case", "eval")

    def compute():
        result = eval(code, scope)  # noqa: S307 - our own code
        oxinp.evaluate(result)
        return result

    compute()
    cuda.reset_stats()
    result = np.asarray(compute())
    launches = cuda.stats().launches
    return median_of(lambda: cuda.Event().record(), lambda a, b: a.elapsed_ms(b), compute), launches, result


def cupys(case, arrays):
    """Return CuPy's time; NaN where it is not installed or has no such function."""
    if importlib.util.find_spec("cupy") is None:
        return float("nan")
    cupy = importlib.import_module("cupy")
    fft, signal = (importlib.import_module(f"cupyx.scipy.{name}") for name in ("fft", "signal"))
    scope = names(cupy, fft, signal, [cupy.asarray(x) for x in arrays])

    def record():
        event = cupy.cuda.Event()
        event.record()
        return event

    def elapsed(start, stop):
        stop.synchronize()
        return cupy.cuda.get_elapsed_time(start, stop)

    try:
        return median_of(record, elapsed, lambda: eval(case.code, scope))  # noqa: S307
    except (AttributeError, NotImplementedError, ValueError):
        return float("nan")
    finally:
        scope.clear()
        cupy.get_default_memory_pool().free_all_blocks()
        cupy.fft.config.get_plan_cache().clear()


def torchs(case, arrays):
    """Return PyTorch's time; NaN where it is not installed or has no such function."""
    if importlib.util.find_spec("torch") is None or not case.torch:
        return float("nan")
    torch = importlib.import_module("torch")
    scope = names(torch, torch.fft, None, [torch.from_numpy(x).cuda() for x in arrays])

    def record():
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def elapsed(start, stop):
        stop.synchronize()
        return start.elapsed_time(stop)

    time = median_of(record, elapsed, lambda: eval(case.torch, scope))  # noqa: S307
    scope.clear()
    torch.cuda.empty_cache()
    return time


def main(arguments):
    """Check, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="sizes for the emulator")
    parser.add_argument("--peer", action="store_true", help="measure CuPy and PyTorch as well")
    parser.add_argument("pattern", nargs="?", default="", help="names of cases")
    options = parser.parse_args(arguments)
    is_right = True
    for name, case in CASES.items():
        if not re.search(options.pattern, name):
            continue
        arrays = arrays_of(case, is_small=options.small)
        time, launches, result = own(case, arrays)
        workers = scipy.fft.set_workers(-1)
        with workers:
            expected = eval(case.code, names(np, scipy.fft, scipy.signal, arrays))  # noqa: S307 - our own code
        error = float(abs(result - expected).max() / abs(expected).max())
        is_right &= error <= case.error and result.shape == expected.shape
        line = f"{name:30s} {time:8.3f} ms, {launches} launches, error {error:.1e}"
        if options.peer:
            peers = cupys(case, arrays), torchs(case, arrays)
            known = [each for each in peers if not math.isnan(each)]
            ratio = f", {min(known) / time:.2f}x" if known else ""
            line += f"; CuPy {peers[0]:.3f}, PyTorch {peers[1]:.3f}{ratio}"
        write(line)
    write("right" if is_right else "WRONG")
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

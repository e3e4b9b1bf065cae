"""Errors of Fourier transforms beside pocketfft's and cuFFT's on the same data.

``python -m asv_benchmarks.kernels.fft_errors [--small] [REGEX]`` prints per length and dtype the root-mean-square
errors over random data, in units of 0.6e-16 (complex128) and 0.6e-7 (complex64) times the root of log2 n, against
extended precision, and says where ours is above another one's. cuFFT is asked through CuPy, or PyTorch, where one is
installed. ``--small`` takes few lengths, for the emulator. Ends with status 1 where ours errs by more than another one,
beyond what the data's randomness explains.
"""

import argparse
import importlib
import importlib.util
import re
import sys

import numpy as np
import scipy.fft

import oxinp
from asv_benchmarks.kernels.plans import write

NUM_ELEMENTS = 1 << 15  # of all rows of a length, at least a row
UNITS = {"F": 0.6e-7, "D": 0.6e-16}
RANDOM = 1.02  # times another one's error that ours may seem
LENGTHS = (
    *(4, 16, 64, 256, 1024, 4096, 65536, 1 << 20, 27, 243, 6561, 25, 3125, 2401, 1331, 2197, 1000, 4095, 5040),
    *(17, 19, 31, 37, 58, 61, 97, 101, 109, 134, 202, 257, 302, 1009, 1990, 4099, 10007, 100003),
)
SMALL = (4, 27, 60, 101)


def error(found, exact):
    """Root-mean-square error, relative to the results."""
    return float(np.sqrt(np.mean(abs(found - exact) ** 2) / np.mean(abs(exact) ** 2)))


def cufft():
    """Return cuFFT's transform of a NumPy array along its rows; None where nothing has it."""
    if importlib.util.find_spec("cupy") is not None:
        cupy = importlib.import_module("cupy")
        return lambda x: cupy.asnumpy(cupy.fft.fft(cupy.asarray(x)))
    if importlib.util.find_spec("torch") is not None:
        torch = importlib.import_module("torch")
        return lambda x: torch.fft.fft(torch.from_numpy(x).cuda()).cpu().numpy()
    return None


def main(arguments):
    """Print a line per length and dtype; 1 where ours errs by more than another one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="few lengths, for the emulator")
    parser.add_argument("pattern", nargs="?", default="", help="lengths")
    options = parser.parse_args(arguments)
    rng, peer, above = np.random.default_rng(), None if options.small else cufft(), []
    write("length, ours, pocketfft, cuFFT in units of 0.6e-16 sqrt(log2 n) (complex128) and 0.6e-7 sqrt(log2 n)")
    for n in SMALL if options.small else LENGTHS:
        if not re.search(options.pattern, str(n)):
            continue
        line = f"{n:8d}"
        for code, unit in reversed(UNITS.items()):
            shape = (max(1, NUM_ELEMENTS // n), n)
            x = (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(code)
            exact = scipy.fft.fft(x.astype(np.clongdouble if code == "D" else np.complex128), workers=-1)
            results = [oxinp.scipy.fft.fft(oxinp.asarray(x) * 1), scipy.fft.fft(x), *([peer(x)] if peer else ())]
            ours, *others = (error(np.asarray(each), exact) / unit / np.sqrt(np.log2(n)) for each in results)
            line += f"   {code} {ours:5.2f} " + " ".join(f"{each:5.2f}" for each in others)
            above += [f"{n} {code}"] if ours > RANDOM * min(others) else []
        write(line)
    write(f"above another one's: {', '.join(above) or 'none'}")
    return 1 if above else 0


if __name__ == "__main__":
    with oxinp.config.override(offload_threshold=0):
        sys.exit(main(sys.argv[1:]))

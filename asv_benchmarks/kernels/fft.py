"""Fourier transforms on a GPU: right, and how fast.

``python -m asv_benchmarks.kernels.fft [--quick] [--peer] [--lengths] [--settings] [REGEX]`` prints a line per case: the
median of device-event times over random data, the shares of the time that one pass over memory takes and of all passes
of the plan, the root-mean-square error over that of one rounding and the root of the number of binary digits, and with
``--peer`` the times of cuFFT through CuPy and PyTorch, where those are installed, and ratios. With ``--settings`` the
cases are planned with other constants as well, and a line per different plan says what it is and takes. Ends with
status 1 if anything is wrong.
"""

import argparse
import importlib
import math
import re
import sys

import numpy as np
import scipy.fft

from asv_benchmarks.kernels.plans import Prepared, milliseconds, write
from oxinp._kernels.fft import batch, radices, splitting, tiling
from oxinp._kernels.fft.axes import COMPLEX, HALF, REAL, Array, Problem, plan_axes
from oxinp._kernels.fft.codelets import MAX_PRIME
from oxinp._kernels.fft.radices import largest_prime
from oxinp._kernels.plan import Argument
from oxinp._ptx.kernel import traced_with
from oxinp._ptx.types import from_dtype
from oxinp._runtime.cuda import open_backend

COPY_BYTES_PER_MS = 4.2e9
MAX_ERROR = 1.0  # in roundings, times the root of the number of binary digits
MAX_CONVOLVED_ERROR = 1.5  # of Bluestein's convolutions: two transforms of more than twice the length, three products
NUM_ROWS = 8  # that are checked
NUM_RANDOM = 1 << 27
MAX_DESCRIBED = 6  # launches of a plan

CASES = {
    "c64 2^26": ("F", (1 << 26,), (0,)),
    "c128 2^26": ("D", (1 << 26,), (0,)),
    "c64 65536 x 1024": ("F", (65536, 1024), (1,)),
    "c64 2^20 x 64": ("F", (1 << 20, 64), (1,)),
    "c64 4096 x 16384": ("F", (4096, 16384), (1,)),
    "c64 16384 x 4099": ("F", (16384, 4099), (1,)),
    "c128 16384 x 4095": ("D", (16384, 4095), (1,)),
    "fft2 c64 8192^2": ("F", (8192, 8192), (0, 1)),
    "axis 0 of c64 8192^2": ("F", (8192, 8192), (0,)),
    "fftn c64 512^3": ("F", (512, 512, 512), (0, 1, 2)),
    "rfft f32 2^27": ("f", (1 << 27,), (0,)),
    "irfft f32 2^27": ("F>f", (1 << 27,), (0,)),
    "rfft f32 65536 x 2048": ("f", (65536, 2048), (1,)),
    "irfft f32 65536 x 2048": ("F>f", (65536, 2048), (1,)),
    "rfft f32 65536 x 2187": ("f", (65536, 2187), (1,)),
    "irfft f32 65536 x 2187": ("F>f", (65536, 2187), (1,)),
    "rfft f32 262144 x 405": ("f", (1 << 18, 405), (1,)),
    "c64 2^10": ("F", (1 << 10,), (0,)),
    "c64 2^13": ("F", (1 << 13,), (0,)),
    "c64 2^16": ("F", (1 << 16,), (0,)),
}
# Powers of two, of other primes, mixed lengths, primes.
LENGTHS = (
    *(1 << k for k in range(4, 23)),
    *(27, 81, 243, 729, 2187, 6561, 19683, 177147, 25, 125, 625, 3125, 15625, 390625),
    *(49, 343, 2401, 16807, 117649),
    *(60, 100, 360, 480, 720, 1000, 1080, 1536, 2000, 3003, 4095, 5040, 10000, 30030, 100000, 1000000),
    *(17, 31, 37, 101, 257, 1009, 4099, 10007, 65537, 100003),
    *(592, 999, 1961, 3922, 37888, 606208),  # with larger primes
)
# Constants of planning, in place of those that it has.
SETTINGS = {
    "as shipped": {},
    "no clusters": {(tiling, "CLUSTERS"): (1,)},
    "clusters in passes": {(tiling, "MOST_IN_PASSES"): 8},
    "columns of 256 bytes": {(tiling, "SEGMENT"): 256, (splitting, "SEGMENT"): 256},
    "all roots are read": {(tiling, "LARGE_TABLE"): 1 << 20},
    "convolutions by more blocks": {(tiling, "BESIDE_CHIRP"): 14},
    "more blocks": {(tiling, "BUSY"): 2048},
    "fewer blocks": {(tiling, "BUSY"): 256},
    "rows not staged": {(batch, "MAX_STAGED"): 0, (batch, "MAX_STAGED_RAGGED"): 0},
    "ragged rows by few threads": {(radices, "RAGGED"): radices.USUAL},
    "large radices of shorter rows": {(radices, "MIN_LARGE"): 500},
}
QUICK = re.compile(r"65536 x 1024|16384 x 4095|2\^16|length (1024|1000|101)$")


def sweep():
    """Yield the cases of many lengths, batched to 2^24 numbers."""
    for n in LENGTHS:
        yield f"length {n}", ("F", ((1 << 24) // n, n), (1,))


class Case:
    """Arrays on the device, launches, and the check of what they leave."""

    def __init__(self, backend, numbers, buffers, dtype, shape, axes):
        given, _, made = dtype.partition(">")
        self.backend, self.dtype, self.axes = backend, np.dtype(made or given.upper()), axes
        half = (*shape[:-1], shape[-1] // 2 + 1)
        self.kind = HALF if made else COMPLEX if given.isupper() else REAL
        self.given_shape, self.shape = half if made else shape, half if self.kind == REAL else shape
        count = math.prod(self.given_shape) * (2 if given.isupper() else 1)
        self.host = np.resize(numbers, count).astype(given.lower(), copy=False).view(given).reshape(self.given_shape)
        self.nbytes = self.host.nbytes
        source, target = (
            Array(Argument(name), from_dtype(dtype), own, _steps(own), 256)
            for name, dtype, own in (("in0", self.host.dtype, self.given_shape), ("out0", self.dtype, self.shape))
        )
        self.source, self.target = (buffer.ptr for buffer in buffers)
        backend.upload(self.source, self.host)
        problem = Problem(self.kind, axes, shape[axes[-1]], self.kind != HALF)
        self.problem = source, target, from_dtype(np.dtype(given.upper())), problem, backend.capability
        self.prepare()

    def prepare(self):
        """Plan with the constants that there are."""
        self.plan = plan_axes(*self.problem)
        self.run = Prepared(self.backend, self.plan, [self.target], [self.source])

    def floors(self):
        """Milliseconds of one pass, and of all that the plan has."""
        moved = sum(launch.work.nbytes for launch in self.plan.steps)
        return 2 * self.nbytes / COPY_BYTES_PER_MS, moved / COPY_BYTES_PER_MS

    def error(self):
        """Root-mean-square error in roundings over the root of the number of binary digits."""
        found = self.result()
        x, wide = self.host, np.clongdouble
        if self.kind != COMPLEX:
            return self._real_error(found)
        if len(self.axes) == 1 and len(self.shape) == 2:
            (axis,) = self.axes
            x, found = (np.moveaxis(a, axis, 1) for a in (x, found))
            rows = np.unique(np.linspace(0, len(x) - 1, NUM_ROWS).astype(int))
            x, found = x[rows], found[rows]
            wide = np.complex128 if x.size > 1 << 19 and self.dtype == np.complex64 else wide
            exact = scipy.fft.fft(x.astype(wide), axis=1, workers=-1)
        else:
            wide = np.complex128 if x.size > 1 << 22 else wide
            exact = scipy.fft.fftn(x.astype(wide), axes=self.axes, workers=-1)
        size = math.prod(self.shape[axis] for axis in self.axes)
        error = np.sqrt(np.mean(abs(found - exact) ** 2) / np.mean(abs(exact) ** 2))
        return float(error / (np.finfo(self.dtype).eps / 2) / np.sqrt(max(1, np.log2(size))))

    def result(self):
        """What the plan leaves."""
        self.backend.fill(self.target, 0xFF, math.prod(self.shape) * self.dtype.itemsize)
        self.run()
        self.backend.synchronize()
        found = np.empty(self.shape, self.dtype)
        self.backend.download(found, self.target)
        return found

    def _real_error(self, found):
        """The same, of transforms of real arrays along the last axis, and back."""
        rows = np.unique(np.linspace(0, math.prod(self.shape[:-1]) - 1, NUM_ROWS).astype(int))
        x, found = (a.reshape(-1, a.shape[-1])[rows] for a in (self.host, found))
        if self.kind == REAL:
            exact = scipy.fft.rfft(x.astype(np.float64), workers=-1)
        else:
            exact = scipy.fft.irfft(x.astype(np.complex128), self.shape[-1], norm="forward", workers=-1)
        error = np.sqrt(np.mean(abs(found - exact) ** 2) / np.mean(abs(exact) ** 2))
        return float(error / (np.finfo(self.dtype).eps / 2) / np.sqrt(np.log2(self.shape[-1])))


def measure_settings(backend, case, name):
    """Measure a case under all settings, those whose plans were measured already excepted; return whether all agree."""
    first, seen, is_right = None, set(), True
    caches = (radices.cut, radices.convolution_length, splitting._split)
    for setting, values in SETTINGS.items():
        before = {(module, constant): getattr(module, constant) for module, constant in values}
        for (module, constant), value in values.items():
            setattr(module, constant, value)
        try:
            for cached in caches:
                cached.cache_clear()
            case.prepare()
        finally:
            for cached in caches:
                cached.cache_clear()
            for (module, constant), value in before.items():
                setattr(module, constant, value)
        specs = [traced_with(step.kernel)[0] for step in case.plan.steps]
        key = tuple(zip(specs, [step.grid for step in case.plan.steps], strict=True))
        if key in seen:
            continue
        seen.add(key)
        own = milliseconds(backend, case.run, 10, 20 if math.prod(case.shape) < 1 << 18 else 1)
        apart = [milliseconds(backend, launch, 5) for _, launch in case.run.launches]
        found = case.result().ravel()[::5]
        first = found if first is None else first
        distance = float(np.sqrt(np.mean(abs(found - first) ** 2) / np.mean(abs(first) ** 2)))
        is_right &= distance <= 8 * np.finfo(case.dtype).eps
        write(f"{name:22s} {setting:34s} {own:8.4f} ms in {len(apart)} launches, differs by {distance:.1e}")
        for time, spec in list(zip(apart, specs, strict=True))[:MAX_DESCRIBED]:
            write(f"{'':22s}   {time:8.4f} ms {_described(spec)}")
    return is_right


def _described(spec):
    """What of a kernel settings change."""
    if hasattr(spec, "passes"):
        return "; ".join(map(_described, spec.passes))
    if not hasattr(spec, "radices"):
        return type(spec).__name__
    words = f"{spec.radices}, {spec.threads} x {spec.columns} threads, {spec.loads} to {spec.stores}"
    return f"{words}, {spec.cluster} blocks, {spec.min_blocks} per multiprocessor, padding {spec.padding}"


def _steps(shape):
    return tuple(math.prod(shape[i + 1 :]) for i in range(len(shape)))


def peer_times(shape, axes, dtype, repetitions):
    """Milliseconds of cuFFT through CuPy and PyTorch; NaN where one is not installed."""
    times = []
    for name in ("cupy", "torch"):
        try:
            module = importlib.import_module(name)
        except ImportError:
            times.append(float("nan"))
            continue
        times.append({"cupy": _cupy_time, "torch": _torch_time}[name](module, shape, axes, dtype, repetitions))
    return times


def _cupy_time(cupy, shape, axes, dtype, repetitions):
    if dtype == "F>f":
        x = cupy.fft.rfft(cupy.random.standard_normal(shape, np.float32))
    elif dtype == "f":
        x = cupy.random.standard_normal(shape, np.float32)
    else:
        x = cupy.random.standard_normal((*shape, 2), np.dtype(dtype.lower())).view(dtype)[..., 0]
    at_once = 20 if x.size < 1 << 18 else 1

    def transform():
        if dtype in ("f", "F>f"):
            return cupy.fft.rfft(x) if dtype == "f" else cupy.fft.irfft(x, shape[-1])
        return cupy.fft.fftn(x, axes=axes) if len(axes) > 1 else cupy.fft.fft(x, axis=axes[0])

    return _median(cupy.cuda.Event, cupy.cuda.get_elapsed_time, transform, repetitions, at_once)


def _torch_time(torch, shape, axes, dtype, repetitions):
    kinds = {"F": torch.complex64, "D": torch.complex128, "f": torch.float32, "F>f": torch.float32}
    x = torch.randn(shape, dtype=kinds[dtype], device="cuda")
    if dtype == "F>f":
        x = torch.fft.rfft(x)
    at_once = 20 if x.numel() < 1 << 18 else 1

    def transform():
        if dtype in ("f", "F>f"):
            return torch.fft.rfft(x) if dtype == "f" else torch.fft.irfft(x, shape[-1])
        return torch.fft.fftn(x, dim=axes)

    def event():
        return torch.cuda.Event(enable_timing=True)

    return _median(event, lambda a, b: a.elapsed_time(b), transform, repetitions, at_once)


def _median(event, elapsed, work, repetitions, at_once):
    times = []
    for _ in range(repetitions + 3):
        begin, end = event(), event()
        begin.record()
        for _ in range(at_once):
            work()
        end.record()
        end.synchronize()
        times.append(elapsed(begin, end) / at_once)
    return float(np.median(times[3:]))


def main(arguments):
    """Check, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peer", action="store_true", help="measure CuPy and PyTorch as well")
    parser.add_argument("--quick", action="store_true", help="a few cases only")
    parser.add_argument("--lengths", action="store_true", help="a sweep of 66 lengths, in place of the cases")
    parser.add_argument("--settings", action="store_true", help="plans of other constants beside")
    parser.add_argument("pattern", nargs="?", default="", help="names of cases")
    options = parser.parse_args(arguments)
    backend, rng, is_right, ratios = open_backend(), np.random.default_rng(), True, []
    numbers = rng.standard_normal(NUM_RANDOM, np.float32)
    buffers = [backend.allocate(8 * NUM_RANDOM) for _ in range(2)]
    cases = dict(sweep()) if options.lengths else CASES
    for name, (dtype, shape, axes) in cases.items():
        if not re.search(options.pattern, name) or (options.quick and not QUICK.search(name)):
            continue
        case = Case(backend, numbers, buffers, dtype, shape, axes)
        error = case.error()
        is_convolved = any(largest_prime(shape[axis]) > MAX_PRIME for axis in axes)
        is_right &= error <= (MAX_CONVOLVED_ERROR if is_convolved else MAX_ERROR)
        repetitions = 10
        own = milliseconds(backend, case.run, repetitions, 20 if math.prod(shape) < 1 << 18 else 1)
        one, every = case.floors()
        passes = f"{every / own:.2f} of {len(case.plan.steps)}"
        line = f"{name:22s} {own:8.4f} ms, {one / own:.2f} of a pass, {passes} kernels, error {error:.3f}"
        if options.peer:
            cupy, torch = peer_times(shape, axes, dtype, repetitions)
            ratios.append(np.nanmin([cupy, torch]) / own)
            line += f"; cuFFT {cupy:.4f} (CuPy) {torch:.4f} (PyTorch), {ratios[-1]:.2f}x"
        write(line)
        if options.settings:
            is_right &= measure_settings(backend, case, name)
        del case
    if ratios:
        write(f"geometric mean of ratios {np.exp(np.mean(np.log(ratios))):.3f}, least {min(ratios):.3f}")
    write("right" if is_right else "WRONG")
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Fourier transforms on a GPU: right, and how fast.

``python -m asv_benchmarks.kernels.fft [--quick] [--peer] [--unchecked] [--lengths [PART]] [--settings[=REGEX]]
[REGEX]`` prints a line per case: the median of device-event times over random data, the shares of the time that one
pass over memory takes and of all passes of the plan, the root-mean-square error over that of one rounding and the
root of the number of binary digits, unless that is left out, and with ``--peer`` the times of cuFFT through CuPy and
PyTorch, where those are installed, and ratios. With ``--lengths`` the cases are 200 lengths, or a part of them such
as 2/3, and the means of ratios by classes come last (see `fft_lengths`). With ``--settings`` the cases are planned
with other constants as well, and a line per different plan says what it is and takes. Ends with status 1 if anything
is wrong.
"""

import argparse
import importlib
import math
import re
import sys
from functools import partial

import numpy as np
import scipy.fft

from asv_benchmarks.kernels import fft_lengths
from asv_benchmarks.kernels.plans import Prepared, milliseconds, write
from oxinp._kernels.fft import batch, halves, kernel, passes, plan, prefetch, prime, radices, slabs, splitting, tiling
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
NUM_ROWS, NUM_CHECKED = 8, 1 << 19  # rows that are checked, and their elements, of more than one row
NUM_PIECES, PIECE = 64, 1 << 15  # of results that are compared between settings, and elements of each
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
    "c64 166111 x 101": ("F", (166111, 101), (1,)),
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
# Constants of planning, in place of those that it has.
SETTINGS = {
    "as shipped": {},
    "threads within sectors": {(radices, "LINED"): radices.USUAL},
    "radix 7 of long rows": {(radices, "LARGEST"): {8: (), 16: ()}},
    "nothing fetched ahead": {(prefetch, "MAX_BLOCKS"): 0},
    "no clusters": {(tiling, "CLUSTERS"): ()},
    "clusters in passes": {(tiling, "MOST_IN_PASSES"): 8},
    "columns of 256 bytes": {(tiling, "SEGMENT"): 256, (splitting, "SEGMENT"): 256},
    "all roots are read": {(tiling, "LARGE_TABLE"): 1 << 20, (tiling, "LARGE_CHIRP"): {8: 1 << 20, 16: 1 << 20}},
    "convolutions by fewer blocks": {(tiling, "BESIDE_CHIRP"): 16},
    "more blocks": {(tiling, "BUSY"): 2048},
    "fewer blocks": {(tiling, "BUSY"): 256},
    "pairs of halves in a loop": {(halves, "MERGED_AT_ONCE"): 5},
    "pairs of results in no loop": {(halves, "SPLIT_AT_ONCE"): 32},
    "rows not staged": {(batch, "MAX_STAGED"): 0, (batch, "MAX_STAGED_RAGGED"): 0},
    "ragged rows by few threads": {(radices, "RAGGED"): radices.USUAL},
    "large radices of shorter rows": {(radices, "MIN_LARGE"): 500},
    "three launches": {(passes, "JOINED"): {}},
    "clusters of 8": {(tiling, "CLUSTERS"): ((64, 8),)},
    "primes from 101 by powers": {(plan, "MIN_PRIME"): 101},
    "sums of 4 loads": {(prime, "AT_ONCE"): {8: 4, 16: 4}},
    "sums of 8 loads": {(prime, "AT_ONCE"): {8: 8, 16: 8}},
}
QUICK = re.compile(r"65536 x 1024|16384 x 4095|2\^16|length (1024|1000|101)$")


def sweep(part):
    """Yield the cases of many lengths, batched to 2^24 numbers."""
    for n in fft_lengths.chosen(part):
        yield f"length {n}", ("F", (fft_lengths.NUM_ELEMENTS // n, n), (1,))


class Numbers:
    """Random numbers on the host and at the beginning of a buffer, uploaded again where other ones are wanted only."""

    def __init__(self, backend, numbers, buffer):
        self.backend, self.numbers, self.buffer, self.held = backend, numbers, buffer, numbers[:0]

    def of(self, dtype, shape):
        """Return an array of a dtype."""
        count = math.prod(shape)
        if self.held.dtype.char != dtype or self.held.size < count:
            parts = np.resize(self.numbers, count * (2 if dtype.isupper() else 1))
            self.held = parts.astype(dtype.lower(), copy=False).view(dtype)
            self.backend.upload(self.buffer.ptr, self.held)
        return self.held[:count].reshape(shape)


class Case:
    """Arrays on the device, launches, and the check of what they leave."""

    def __init__(self, backend, numbers, target, dtype, shape, axes):
        given, _, made = dtype.partition(">")
        self.backend, self.dtype, self.axes = backend, np.dtype(made or given.upper()), axes
        half = (*shape[:-1], shape[-1] // 2 + 1)
        self.kind = HALF if made else COMPLEX if given.isupper() else REAL
        self.given_shape, self.shape = half if made else shape, half if self.kind == REAL else shape
        self.host = numbers.of(given, self.given_shape)
        self.nbytes = self.host.nbytes
        source, target_array = (
            Array(Argument(name), from_dtype(dtype), own, _steps(own), 256)
            for name, dtype, own in (("in0", self.host.dtype, self.given_shape), ("out0", self.dtype, self.shape))
        )
        self.source, self.target = numbers.buffer.ptr, target.ptr
        problem = Problem(self.kind, axes, shape[axes[-1]], self.kind != HALF)
        self.problem = source, target_array, from_dtype(np.dtype(given.upper())), problem, backend.capability
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
        if self.kind != COMPLEX:
            return self._real_error(self.result())
        wide = np.complex128 if self.dtype == np.complex64 else np.clongdouble
        if len(self.axes) == 1 and len(self.shape) == 2:
            (axis,) = self.axes
            rows = np.linspace(0, self.shape[1 - axis] - 1, max(1, min(NUM_ROWS, NUM_CHECKED // self.shape[axis])))
            rows = np.unique(rows.astype(int))
            found = self._rows(rows) if axis else self.result().T[rows]
            x = np.moveaxis(self.host, axis, 1)[rows]
            exact = scipy.fft.fft(x.astype(wide), axis=1, workers=-1)
        else:
            found, x = self.result(), self.host
            wide = np.complex128 if x.size > 1 << 22 else wide
            exact = scipy.fft.fftn(x.astype(wide), axes=self.axes, workers=-1)
        size = math.prod(self.shape[axis] for axis in self.axes)
        error = np.sqrt(np.mean(abs(found - exact) ** 2) / np.mean(abs(exact) ** 2))
        return float(error / (np.finfo(self.dtype).eps / 2) / np.sqrt(max(1, np.log2(size))))

    def _compute(self):
        """Have the plan leave its results where there was rubbish."""
        self.backend.fill(self.target, 0xFF, math.prod(self.shape) * self.dtype.itemsize)
        self.run()
        self.backend.synchronize()

    def _rows(self, rows):
        """Some rows of what the plan leaves."""
        self._compute()
        found = np.empty((len(rows), self.shape[1]), self.dtype)
        for own, row in zip(found, rows, strict=True):
            self.backend.download(own, self.target + int(row) * own.nbytes)
        return found

    def result(self):
        """What the plan leaves."""
        self._compute()
        found = np.empty(self.shape, self.dtype)
        self.backend.download(found, self.target)
        return found

    def pieces(self):
        """Some of what the plan leaves, evenly spread."""
        self._compute()
        size = math.prod(self.shape)
        found = np.empty((NUM_PIECES, min(PIECE, size)), self.dtype)
        for own, start in zip(found, np.linspace(0, size - found.shape[1], NUM_PIECES).astype(int), strict=True):
            self.backend.download(own, self.target + int(start) * self.dtype.itemsize)
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


def measure_settings(backend, case, name, pattern):
    """Measure a case under settings, those whose plans were measured already excepted; return whether all agree."""
    first, seen, is_right = None, set(), True
    caches = (radices.cut, radices.convolution_length, splitting._split, tiling.with_padding, kernel.make, slabs.make)
    for setting, values in SETTINGS.items():
        if not re.search(f"as shipped|{pattern}", setting):
            continue
        before = {(module, constant): getattr(module, constant) for module, constant in values}
        for (module, constant), value in values.items():
            setattr(module, constant, value)
        try:
            for cached in caches:
                cached.cache_clear()
            case.prepare()
            texts = [step.kernel.ptx for step in case.plan.steps]
        finally:
            for cached in caches:
                cached.cache_clear()
            for (module, constant), value in before.items():
                setattr(module, constant, value)
        specs = [traced_with(step.kernel)[0] for step in case.plan.steps]
        launches = tuple((text, *step[1:]) for text, step in zip(texts, case.plan.steps, strict=True))
        if launches in seen:
            continue
        seen.add(launches)
        own = milliseconds(backend, case.run, 10, 20 if math.prod(case.shape) < 1 << 18 else 1)
        apart = [milliseconds(backend, launch, 5) for _, launch in case.run.launches]
        found = case.pieces()
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
    parser.add_argument("--unchecked", action="store_true", help="no errors, which take the host longest")
    parser.add_argument("--lengths", nargs="?", const="1/1", help="200 lengths, or a part, in place of the cases")
    parser.add_argument("--settings", nargs="?", const="", help="plans of other constants beside, or of some of them")
    parser.add_argument("pattern", nargs="?", default="", help="names of cases")
    options = parser.parse_args(arguments)
    backend, rng, is_right, ratios = open_backend(), np.random.default_rng(), True, {}
    source, target = (backend.allocate(8 * NUM_RANDOM) for _ in range(2))
    count = 2 * fft_lengths.NUM_ELEMENTS if options.lengths else NUM_RANDOM
    numbers = Numbers(backend, rng.standard_normal(count, np.float32), source)
    cases = dict(sweep(options.lengths)) if options.lengths else CASES
    for name, (dtype, shape, axes) in cases.items():
        if not re.search(options.pattern, name) or (options.quick and not QUICK.search(name)):
            continue
        case = Case(backend, numbers, target, dtype, shape, axes)
        error = float("nan") if options.unchecked else case.error()
        is_convolved = any(largest_prime(shape[axis]) > MAX_PRIME for axis in axes)
        is_right &= options.unchecked or error <= (MAX_CONVOLVED_ERROR if is_convolved else MAX_ERROR)
        repetitions = 10
        own = milliseconds(backend, case.run, repetitions, 20 if math.prod(shape) < 1 << 18 else 1)
        one, every = case.floors()
        passes = f"{every / own:.2f} of {len(case.plan.steps)}"
        line = f"{name:22s} {own:8.4f} ms, {one / own:.2f} of a pass, {passes} kernels, error {error:.3f}"
        if options.peer:
            cupy, torch = peer_times(shape, axes, dtype, repetitions)
            ratios[name] = np.nanmin([cupy, torch]) / own, np.nanmin([cupy, torch])
            line += f"; cuFFT {cupy:.4f} (CuPy) {torch:.4f} (PyTorch), {ratios[name][0]:.2f}x"
        write(line)
        if options.settings is not None:
            is_right &= measure_settings(backend, case, name, options.settings)
        del case
    if ratios:
        every = [ratio for ratio, _ in ratios.values()]
        write(f"geometric mean of ratios {np.exp(np.mean(np.log(every))):.3f}, least {min(every):.3f}")
    if ratios and options.lengths:
        nbytes = 8 * fft_lengths.NUM_ELEMENTS
        copy = milliseconds(backend, partial(backend.copy, target.ptr, source.ptr, nbytes))
        write(f"a copy {copy:.4f} ms")
        by_length = {int(name.split()[1]): times for name, times in ratios.items()}
        found = {n: ratio for n, (ratio, _) in by_length.items()}
        for line in fft_lengths.summary(found, {n: peer / copy for n, (_, peer) in by_length.items()}):
            write(line)
    write("right" if is_right else "WRONG")
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

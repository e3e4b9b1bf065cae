"""Random numbers on a GPU: NumPy's own, bit for bit, and how fast.

``python -m asv_benchmarks.kernels.random [--quick] [--peer] [--parts] [--only NAME] [--settings[=REGEX]]`` draws every
kind at full size, compares 2 * 10**7 of the numbers with NumPy's (``--quick``: 10**6), and prints a line per case: the
median of device-event times, the rate as a share of what the driver's fill writes per second, how many numbers differ
from NumPy's and by how many units in the last place, whether the end state is NumPy's, how many times as long NumPy
takes for as many; with ``--peer`` the time of CuPy's own stream and of PyTorch's, where those are installed, with the
ratio to ours; with ``--parts`` the time of every launch; with ``--only`` cases whose names have that in them; with
``--settings`` the time of each with other constants as well, in whose names REGEX is found, where these change what is
launched. Ends with status 1 if anything is wrong.
"""

import argparse
import importlib
import re
import statistics
import sys
import time
from contextlib import contextmanager
from functools import partial

import numpy as np

from asv_benchmarks.kernels.plans import Prepared, milliseconds, write
from oxinp._core.ops.c_library import form_of
from oxinp._kernels.plan import Launch, in_order
from oxinp._kernels.random import fill, find, philox, place, segments, shuffle, stored_plan
from oxinp._kernels.random.lcg import GENERATORS, MASK_64
from oxinp._kernels.random.variates import VARIATES, ziggurat_table
from oxinp._ptx.types import i64
from oxinp._runtime.cuda import open_backend

CHECKED, CHECKED_QUICK = 20_000_000, 1_000_000
SEED = 20_26
MOST_PARTS = 5  # that are printed of a setting
SAMPLED = 1 << 20  # elements that are compared with those of the usual constants
LARGE = 1 << 24  # elements of a draw whose settings are measured
SETTINGS = {
    "tiles of 24 words": {(segments, "ITEMS"): 24, (segments, "COUNTED_ITEMS"): 24},
}


@contextmanager
def changed(values, caches):
    """Constants of modules with other values, and nothing kept that was made with the usual ones."""
    before = {(module, constant): getattr(module, constant) for module, constant in values}
    for kept in caches:
        kept.cache_clear()
    for (module, constant), value in values.items():
        setattr(module, constant, value)
    try:
        yield
    finally:
        for (module, constant), value in before.items():
            setattr(module, constant, value)
        for kept in caches:
            kept.cache_clear()


def described(plans):
    """What is launched, as far as it changes how long that takes."""
    steps = [step for plan in plans for step in in_order(plan.steps) if isinstance(step, Launch)]
    return [(step.kernel.ptx, step.grid, step.constants) for step in steps]


def measure_settings(backend, settings, caches, make):
    """Measure a draw under settings that change what is launched; return whether all draw what is usually drawn.

    Parameters
    ----------
    backend : Backend
    settings : dict
        By name, values of constants of modules.
    caches : list
        What keeps what was made with constants.
    make : callable
        ``make()`` -> the draw.
    """
    draw = make()
    seen, usual, is_right = [described(draw.plans)], sample(backend, draw), True
    del draw
    for name, values in settings.items():
        with changed(values, caches):
            draw = make()
            launched = described(draw.plans)
            if launched in seen:
                continue
            seen.append(launched)
            ms = milliseconds(backend, draw, 10)
            times = parts(backend, draw)
            is_alike = sample(backend, draw) == usual
            del draw
            is_right &= is_alike
            longest = sorted(times.items(), key=lambda part: -part[1])[:MOST_PARTS]
            told = ", ".join(f"{kind} {each:.3f}" for kind, each in longest)
            write(f"    {name:32s} {ms:8.4f} ms, {'the same' if is_alike else 'OTHERS'}: {told}")
    return is_right


def sample(backend, draw):
    """Elements from a draw's start and from its middle, as bytes, and how many words it took."""
    draw()
    backend.synchronize()
    parts, taken = [], np.empty(1, np.int64)
    for start in (0, draw.size // 2):
        elements = np.empty(min(SAMPLED, draw.size // 2), draw.dtype)
        backend.download(elements, draw.out.ptr + start * elements.itemsize)
        parts.append(elements.tobytes())
    backend.download(taken, draw.ended.ptr)
    return parts, taken.item()


def parts(backend, draw, repetitions=7):
    """Median milliseconds of a draw's launches, each after those before it: of all of a kind together."""
    found = {}
    for _ in range(repetitions):
        events, times = [backend.record_event()], {}
        for _, launch in draw.prepared.launches:
            launch()
            events.append(backend.record_event())
        for (kind, _), begin, end in zip(draw.prepared.launches, events, events[1:], strict=False):
            times[kind] = times.get(kind, 0.0) + begin.elapsed_ms(end)
        for kind, ms in times.items():
            found.setdefault(kind, []).append(ms)
    return {kind: statistics.median(times) for kind, times in found.items()}


def write_parts(backend, draw):
    """Print a line for every kind of a draw's launches."""
    for kind, ms in parts(backend, draw).items():
        write(f"    {kind:20s} {ms:8.4f} ms")


class Case:
    """A draw: the plan's kind, its NumPy, and what peers do.

    Parameters
    ----------
    name : str
        A format of `fill`, or a variate.
    size : int
    numpys : callable
        ``numpys(generator, size)``.
    high : int, optional
        Of integers from 0 on.
    generator : str
    peers : dict
        By module: ``peer(module, size)`` draws.
    """

    fewest_checked = 0

    def __init__(self, name, size, numpys, high=None, generator="PCG64", peers=()):
        self.name, self.size, self.numpys, self.high, self.generator = name, size, numpys, high, generator
        self.peers = dict(peers)
        made = fill.FORMATS.get(name)
        self.is_fill = made is not None
        self.type = made.type if made is not None else VARIATES[name].type
        self.pieces = 2 // made.halves if made is not None else VARIATES[name].pieces

    def plan(self, device, size):
        is_counted = self.generator in philox.VARIANTS
        if self.is_fill:
            return (philox if is_counted else fill).plan(self.generator, self.name, size, 256, device)
        expected = 0
        if self.high is not None:
            expected = 1 / (1 - self.threshold / 2**self.bits)
        form = form_of(f"log1p_f{self.type.nbytes}") if VARIATES[self.name].tail is not None else ""
        draw = segments.Draw(self.generator, self.name, size, expected=expected, log1p=form)
        return (stored_plan if is_counted else segments).plan(draw, device)

    @property
    def bits(self):
        return 64 // self.pieces

    @property
    def threshold(self):
        return 2**self.bits % self.high

    def at(self, backend, size):
        """Return the case on the device, of another size."""
        return Draw(backend, self, size)

    def rest(self, backend):
        """Return inputs beside the state, and what keeps them."""
        if self.is_fill:
            return [], []
        kept, values = [], []
        if VARIATES[self.name].has_table:
            table = ziggurat_table(self.name)
            buffer = backend.allocate(table.nbytes)
            backend.upload(buffer.ptr, table)
            kept.append(buffer)
            values.append(buffer.ptr)
        if self.high is not None:
            values += [self.high, self.threshold, 0]
        return values, kept


class Permutation:
    """Permutations of a size: words, and the shuffle of them.

    Parameters
    ----------
    size : int
    """

    generator, name, type = "PCG64", "permutation", i64
    fewest_checked = 2**24  # so many that numbers are of several ranges

    def __init__(self, size):
        self.size = size
        self.peers = {
            "cupy": lambda cp, n: cp.random.permutation(n),
            "torch": lambda torch, n: torch.randperm(n, device="cuda"),
        }

    def at(self, backend, size):
        """Return the same of another size on the device."""
        return Permuted(backend, size)


class Permuted:
    """A permutation of some size on the device; called, it enqueues its words and the shuffle.

    Parameters
    ----------
    backend : Backend
    size : int
    """

    def __init__(self, backend, size):
        self.backend, self.size = backend, size
        self.numpys = np.random.default_rng(SEED)
        state = self.numpys.bit_generator.state["state"]
        values = [part for x in (state["state"], state["inc"]) for part in (x & MASK_64, x >> 64)]
        count = shuffle.num_words(size)
        self.words, self.out, self.ended = (backend.allocate(n) for n in (count * 4, size * 8, 16))
        self.dtype = np.dtype(np.int64)
        drawn = fill.plan("PCG64", "halves", count, 256, backend.capability)
        shuffled = shuffle.plan(size, count, backend.capability, is_shifted=False)
        self.plans = [drawn, shuffled]
        self.filled = Prepared(backend, drawn, [self.words.ptr], values)
        self.shuffled = Prepared(backend, shuffled, [self.out.ptr, self.ended.ptr], [self.words.ptr])
        self.launches = [*self.filled.launches, *self.shuffled.launches]

    @property
    def prepared(self):
        return self

    def __call__(self):
        self.filled()
        self.shuffled()

    def check(self):
        """Return how many numbers differ, the largest difference, and whether the end state is right."""
        self()
        self.backend.synchronize()
        ours, words = np.empty(self.size, np.int64), np.empty(2, np.int64)
        self.backend.download(ours, self.out.ptr)
        self.backend.download(words, self.ended.ptr)
        state = self.numpys.bit_generator.state["state"]
        begin = time.perf_counter()
        numpys = self.numpys.permutation(self.size)
        self.numpys_seconds = time.perf_counter() - begin
        different = int((ours != numpys).sum())
        taken, status = words.tolist()
        ended = GENERATORS["PCG64"].advanced(state["state"], state["inc"], -(-taken // 2))
        after = self.numpys.bit_generator.state
        ends_right = status == 0 and ended == after["state"]["state"] and after["has_uint32"] == taken % 2
        return different, float("inf") if different else 0.0, ends_right


class Draw:
    """A case of some size on the device."""

    def __init__(self, backend, case, size):
        self.backend, self.case, self.size = backend, case, size
        rest, self.kept = case.rest(backend)
        values = self.begin() + rest
        plan = case.plan(backend.capability, size)
        self.plans = [plan]
        self.out, self.ended = backend.allocate(size * case.type.nbytes), backend.allocate(16)
        self.dtype = case.type.dtype
        self.prepared = Prepared(backend, plan, [self.out.ptr, self.ended.ptr], values)

    def begin(self):
        """Return the inputs that say where the stream is."""
        generator = self.case.generator
        if generator in philox.VARIANTS:  # NumPy increments before the first block
            self.numpys = np.random.Generator(np.random.Philox(counter=-1 % 2**256, key=SEED))
            return [0] * philox.VARIANTS[generator].num_counters + [SEED, 0][: philox.VARIANTS[generator].num_keys]
        self.numpys = np.random.Generator(getattr(np.random, generator)(SEED))
        state = self.numpys.bit_generator.state["state"]
        self.state, self.increment = state["state"], state["inc"]
        return [part for x in (self.state, self.increment) for part in (x & MASK_64, x >> 64)]

    def __call__(self):
        self.prepared()

    def check(self):
        """Return how many numbers differ, the largest difference in ulp, and whether draw and end state are right."""
        self()
        self.backend.synchronize()
        ours = np.empty(self.size, self.case.type.dtype)
        self.backend.download(ours, self.out.ptr)
        begin = time.perf_counter()
        numpys = self.case.numpys(self.numpys, self.size)
        self.numpys_seconds = time.perf_counter() - begin
        different = np.nonzero(ours != numpys)[0]
        ulps = 0.0
        if len(different):
            a, b = ours[different], numpys[different]
            if ours.dtype.kind == "f":
                ulps = float((np.abs(a.astype(np.longdouble) - b) / np.spacing(np.abs(b))).max())
            else:
                ulps = float("inf")
        return len(different), ulps, self.ends_right()

    def ends_right(self):
        if self.case.generator in philox.VARIANTS:
            return True
        lcg, pieces = GENERATORS[self.case.generator], self.case.pieces
        taken = self.size
        if not self.case.is_fill:
            words = np.empty(2, np.int64)
            self.backend.download(words, self.ended.ptr)
            taken, status = words.tolist()
            if status:
                return False
        halves = -(-taken * 2 // pieces)
        after = self.numpys.bit_generator.state
        if pieces > 1 and after["has_uint32"] != halves % 2:
            return False
        return lcg.advanced(self.state, self.increment, -(-halves // 2)) == after["state"]["state"]


def counted_uniform(_, size):
    """Uniform numbers of f32 from Philox4x32 on the host."""
    parts = []
    for start in range(0, size, 2**22):
        halves = philox.VARIANTS["Philox4x32"].blocks(start // 4, SEED, 2**20)[: size - start]
        parts.append((halves >> 8) * np.float32(2.0**-24))
    return np.concatenate(parts)


def uniform(dtype):
    return {
        "cupy": lambda cp, n: cp.random.random(n, dtype=dtype),
        "torch": lambda torch, n: torch.rand(n, device="cuda", dtype=getattr(torch, dtype)),
    }


def normal(dtype):
    return {
        "cupy": lambda cp, n: cp.random.standard_normal(n, dtype=dtype),
        "torch": lambda torch, n: torch.randn(n, device="cuda", dtype=getattr(torch, dtype)),
    }


def exponential(dtype):
    return {
        "cupy": lambda cp, n: cp.random.standard_exponential(n, dtype=dtype),
        "torch": lambda torch, n: torch.empty(n, device="cuda", dtype=getattr(torch, dtype)).exponential_(),
    }


def integers(dtype, high):
    return {
        "cupy": lambda cp, n: cp.random.randint(0, high, n, dtype=dtype),
        "torch": lambda torch, n: torch.randint(0, high, (n,), device="cuda", dtype=getattr(torch, dtype)),
    }


N = 2**27
CASES = [
    Case("uniform_f64", N, lambda rng, n: rng.random(n), peers=uniform("float64")),
    Case("uniform_f32", N, lambda rng, n: rng.random(n, dtype="f4"), peers=uniform("float32")),
    Case("uniform_f64", N, lambda rng, n: rng.random(n), generator="PCG64DXSM", peers=uniform("float64")),
    Case("uniform_f64", N, lambda rng, n: rng.random(n), generator="Philox", peers=uniform("float64")),
    Case("uniform_f32", N, counted_uniform, generator="Philox4x32", peers=uniform("float32")),
    Case("uniform_f64", 2**20, lambda rng, n: rng.random(n), peers=uniform("float64")),
    Case("words", N, lambda rng, n: rng.bit_generator.random_raw(n)),
    Case("halves", N, lambda rng, n: rng.integers(0, 2**32, n, "u4")),
    Case("normal_f64", N, lambda rng, n: rng.standard_normal(n), peers=normal("float64")),
    Case("normal_f32", N, lambda rng, n: rng.standard_normal(n, "f4"), peers=normal("float32")),
    Case("normal_f64", 2**20, lambda rng, n: rng.standard_normal(n), peers=normal("float64")),
    Case("normal_f64", N, lambda rng, n: rng.standard_normal(n), generator="Philox", peers=normal("float64")),
    Case("exponential_f64", N, lambda rng, n: rng.standard_exponential(n), peers=exponential("float64")),
    Case("exponential_f32", N, lambda rng, n: rng.standard_exponential(n, "f4"), peers=exponential("float32")),
    Case(
        "lemire_u32_as_u64",
        N,
        lambda rng, n: rng.integers(0, 1000, n, "u8"),
        1000,
        peers=integers("int64", 1000),
    ),
    Case("lemire_u32", N, lambda rng, n: rng.integers(0, 1000, n, "u4"), 1000, peers=integers("int32", 1000)),
    Case("lemire_u64", N, lambda rng, n: rng.integers(0, 3 * 2**62, n, "u8"), 3 * 2**62),
    Permutation(2**26),
    Permutation(2**22),
    Permutation(2**18),
]


def write_rate(backend, nbytes=2**30):
    """Bytes that the driver's fill writes per millisecond."""
    buffer = backend.allocate(nbytes)
    return nbytes / milliseconds(backend, lambda: backend.fill(buffer.ptr, 1, nbytes))


def peer_milliseconds(name, draw, size):
    """Median time of a peer's draw; NaN where it is not installed or has none."""
    try:
        module = importlib.import_module(name)
    except ImportError:
        return float("nan")
    cuda = module.cuda
    times = []
    for _ in range(13):
        if name == "torch":
            begin, end = (cuda.Event(enable_timing=True) for _ in range(2))
        else:
            begin, end = cuda.Event(), cuda.Event()
        begin.record()
        draw(module, size)
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) if name == "torch" else cuda.get_elapsed_time(begin, end))
    return statistics.median(times[3:])


def chosen(settings, pattern):
    """Settings in whose names a pattern is found."""
    return {name: values for name, values in settings.items() if re.search(pattern, name)}


def main(arguments):
    """Check, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="compare fewer numbers")
    parser.add_argument("--numbers", type=int, default=CHECKED, help="how many are compared with NumPy's")
    parser.add_argument("--peer", action="store_true", help="measure CuPy and PyTorch as well")
    parser.add_argument("--parts", action="store_true", help="measure every launch of a draw")
    parser.add_argument("--only", default="", help="cases whose names have this in them")
    parser.add_argument("--settings", nargs="?", const="", help="with other constants as well, or with some of them")
    options = parser.parse_args(arguments)
    backend, is_right = open_backend(), True
    settings = {} if options.settings is None else chosen(SETTINGS, options.settings)
    caches = [find.make, place.make]
    rate = write_rate(backend)
    write(f"{backend.capability.device_name}: fill writes {rate * 1e-6:.0f} GB/s")
    for case in (case for case in CASES if options.only in case.name):
        wanted = CHECKED_QUICK if options.quick else options.numbers
        checked = min(case.size, max(wanted, case.fewest_checked)) - 1
        compared = case.at(backend, checked)
        different, ulps, ends_right = compared.check()
        numpys_ms = compared.numpys_seconds * 1e3 * case.size / checked
        del compared
        is_right &= ends_right and ulps <= 1
        draw = case.at(backend, case.size)
        ms = milliseconds(backend, draw)
        share = case.size * case.type.nbytes / rate / ms
        line = (
            f"{case.generator:10s} {case.name:18s} 2^{case.size.bit_length() - 1}: {ms:8.4f} ms, "
            f"{share:5.2f} of writing; {different} of {checked} differ, by {ulps:.0f} ulp; "
            f"end {'right' if ends_right else 'WRONG'}; NumPy {numpys_ms:.0f} ms ({numpys_ms / ms:.0f}x)"
        )
        if options.peer:
            for name, peer in case.peers.items():
                other = peer_milliseconds(name, peer, case.size)
                line += f"; {name} {other:.4f} ({other / ms:.2f}x)"
        write(line)
        if options.parts:
            write_parts(backend, draw)
        del draw
        if settings and case.size >= LARGE:
            is_right &= measure_settings(backend, settings, caches, partial(case.at, backend, case.size))
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""What `indexing` and `scans_and_counts` do with their cases: calls as users make them, beside CuPy and PyTorch."""

import argparse
import importlib
import re
import time
from functools import partial

import numpy as np

import oxinp
from asv_benchmarks.kernels import settings
from asv_benchmarks.kernels.plans import write
from oxinp._terminal import Columns, columns

REPETITIONS = 7


class Source:
    """What arrays are made by: the methods of a generator, and beside them the functions of its namespace.

    Parameters
    ----------
    xp : module
        NumPy, or oxinp, which draws the same numbers, and has them on the device.
    """

    def __init__(self, xp):
        self._xp, self._rng = xp, xp.random.default_rng(0)

    def __getattr__(self, name):
        return getattr(self._rng if hasattr(self._rng, name) else self._xp, name)


def median_ms(call, synchronize):
    """Return the median time of a call, warm."""
    times = []
    for _ in range(REPETITIONS + 2):
        synchronize()
        begin = time.perf_counter()
        call()
        synchronize()
        times.append(time.perf_counter() - begin)
    return 1e3 * float(np.median(times[2:]))


def host_ms(call, synchronize):
    """Return the median time until a call returns, warm."""
    times = []
    for _ in range(REPETITIONS):
        synchronize()
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return 1e3 * float(np.median(times))


def kernels_of(call):
    """Yield a line for how long a call takes to return, and one per kernel that it launches, with its time."""
    yield f"    {host_ms(call, oxinp.cuda.synchronize):8.4f} ms until it returns"
    with oxinp.cuda.profiler.profile() as profile:
        call()
    begin = None
    for span in profile.spans:
        if span.kind == "kernel":
            begin = span.begin if begin is None else begin
            yield f"    {1e3 * (span.begin - begin):8.4f} ms: {span.name:24s} {1e3 * span.seconds:8.4f} ms"


def copy_rate(size):
    """Return the bytes that a copy reads and writes per millisecond."""
    x = oxinp.ones(size, "f4")
    return 2 * x.nbytes / median_ms(lambda: oxinp.evaluate(x.copy()), oxinp.cuda.synchronize)


def times_of_peers(case, arrays):
    """Return how long the others take, by their names, those that are installed and have it."""
    times = {}
    for name in ("cupy", "torch"):
        if name == "torch" and case.torch is None:
            continue
        try:
            module = importlib.import_module(name)
        except ImportError:
            continue
        if name == "cupy":
            theirs = [module.array(x) for x in arrays]
            call, synchronize = partial(case.call, module, *theirs), module.cuda.Device().synchronize
            release = module.get_default_memory_pool().free_all_blocks
        else:
            theirs = [_tensor(module, x) for x in arrays]
            call, synchronize = partial(case.torch, module, *theirs), module.cuda.synchronize
            release = module.cuda.empty_cache
        try:
            times[name] = median_ms(call, synchronize)
        except AttributeError:  # a function that it does not have
            continue
        del theirs, call
        release()
    return times


def _tensor(torch, x):
    """Return a tensor of its own on the device."""
    return torch.from_numpy(x.copy()).cuda() if isinstance(x, np.ndarray) else torch.from_dlpack(x).clone()


def run(cases, is_right, description, *, width, min_size=1):
    """Run the cases that the command line asks for; return the exit status.

    Parameters
    ----------
    cases : sequence
        With the attributes `name`, `size`, `make`, `call` and `torch`: ``make(source, size)`` -> the arrays of a
        `Source`, and ``call(namespace, *arrays)`` -> the result, which may be the first array, written to.
    is_right : callable
        ``is_right(case, result, arrays)``.
    description : str
    width : int
        Of the column of names.
    min_size : int
        That `--scale` leaves.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("pattern", nargs="?", default="")
    parser.add_argument("--scale", type=int, default=1)
    parser.add_argument("--peer", action="store_true")
    parser.add_argument("--kernels", action="store_true", help="say how long each kernel takes, too")
    parser.add_argument("--unchecked", action="store_true", help="time only, where NumPy takes too long")
    settings.add_option(parser)
    options = parser.parse_args()
    settings.apply(options.set)
    source, all_right, made = Source(oxinp if options.unchecked else np), True, None  # what the last case was made of
    ratios = []
    rate = copy_rate(2**27 // options.scale)
    write(f"copy {rate / 1e9:.2f} TB/s")
    drawn = Columns([width, 9, 22, 6, 6, 5], width=columns(), right=range(1, 5), text=[])
    write(drawn.draw(["case", "ours", "peers", "ratio", "floor", ""]))
    for case in cases:
        if not re.search(options.pattern, case.name):
            continue
        size = max(min_size, case.size // options.scale)
        if made is None or made[:2] != (str(case.make), size):
            made = (str(case.make), size, case.make(source, size))
        arrays = made[2]
        results = [case.call(oxinp, *[oxinp.array(x) for x in arrays]) for _ in range(1 if options.unchecked else 2)]
        right = options.unchecked or (
            results[0].tobytes() == results[1].tobytes() and is_right(case, np.asarray(results[0]), arrays)
        )
        all_right &= right
        ours = [oxinp.array(x) for x in arrays]

        def call(case=case, ours=ours):
            return oxinp.evaluate(case.call(oxinp, *ours))

        taken = median_ms(call, oxinp.cuda.synchronize)
        others = times_of_peers(case, arrays) if options.peer else {}
        told = " ".join(f"{name} {other:.3f}" for name, other in others.items())
        ratio = f"{min(others.values()) / taken:6.2f}" if others else ""
        ratios += [min(others.values()) / taken] if others else []
        share = (sum(x.nbytes for x in arrays) + results[0].nbytes) / rate / taken
        write(drawn.draw([case.name, f"{taken:.3f}", told, ratio, f"{share:.2f}", "" if right else "WRONG"]))
        for line in kernels_of(call) if options.kernels else ():
            write(line)
        del ours, results, call
    if ratios:
        mean = np.exp(np.mean(np.log(ratios)))
        write(f"{len(ratios)} rows: the faster peer over ours {mean:.2f} (geometric mean), {min(ratios):.2f} at least")
    return 0 if all_right else 1

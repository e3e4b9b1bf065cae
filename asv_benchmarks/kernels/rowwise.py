"""Row-wise chains on a GPU: right, and how fast: ``python -m asv_benchmarks.kernels.rowwise [REGEX] [--peer]``.

Prints a line per case, most of 2**26 elements: launches, the median of device-event times over random data, that of the
same chain with a kernel per reduction (``apart``), that of CuPy and PyTorch (``--peer``, as far as they are installed),
the ratio to the faster one, and the share of the floor: one read and one write of the array at the rate of a copy in
the same run. Every element has to have the bits that the chain gives with a kernel per reduction, and sampled rows are
compared with NumPy's in f64. Ends with status 1 if anything is wrong.
"""

import argparse
import importlib
import re
import sys

import numpy as np

import oxinp
from asv_benchmarks.kernels.plans import write
from oxinp._core.lazy import rowwise
from oxinp._terminal import Columns, columns

NUM_ELEMENTS = 1 << 26
COPY_NBYTES = 1 << 29
REPETITIONS = 11
SAMPLED_ROWS = 16
TOLERANCES = {"f4": 2e-5, "f8": 1e-13}


def softmax(n, x, weight, bias):
    """Exponentials over their sum."""
    del weight, bias
    e = n.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def layer_norm(n, x, weight, bias):
    """Rows of mean 0 and variance 1, scaled and shifted."""
    spread = n.sqrt(x.var(axis=-1, keepdims=True) + 1e-5)
    return (x - x.mean(axis=-1, keepdims=True)) / spread * weight + bias


def less_greatest(n, x, weight, bias):
    """Elements less the greatest of their row."""
    del n, weight, bias
    return x - x.max(axis=-1, keepdims=True)


def by_norm(n, x, weight, bias):
    """Rows of norm 1."""
    del weight, bias
    return x / n.sqrt((x * x).sum(axis=-1, keepdims=True))


CASES = [
    # chain, dtype, length of a row (or rows and length): the most important first
    *((softmax, dtype, length) for length in (1024, 256, 8192, 32, 65536) for dtype in ("f4", "f8")),
    (layer_norm, "f4", 1024),
    (layer_norm, "f4", 8192),
    (less_greatest, "f4", 1024),
    (by_norm, "f4", 1024),
    (softmax, "f4", (300, 49152)),
    (softmax, "f4", (100, 65536)),
    (softmax, "f4", (256, 50257)),
    (layer_norm, "f4", 65536),
    (layer_norm, "f8", 1024),
]


def of_torch(torch, chain, x, weight, bias):
    """Return what PyTorch has for a chain."""
    if chain is softmax:
        return torch.softmax(x, -1)
    if chain is layer_norm:
        return torch.nn.functional.layer_norm(x, (x.shape[-1],), weight, bias)
    if chain is less_greatest:
        return x - x.amax(-1, keepdim=True)
    return torch.nn.functional.normalize(x, dim=-1)


def median(run, record, elapsed):
    """Return the median time of `run` in milliseconds."""
    times = []
    for _ in range(REPETITIONS + 2):
        begin = record()
        run()
        end = record()
        times.append(elapsed(begin, end))
    return float(np.median(times[2:]))


def recorded(event):
    """Return an event that has been recorded."""
    event.record()
    return event


def ours(run):
    """Return the median time and the launches of a function that returns an array of ours."""

    def elapsed(begin, end):
        end.synchronize()
        return begin.elapsed_ms(end)

    oxinp.evaluate(run())
    before = oxinp.cuda.stats().launches
    oxinp.evaluate(run())
    launches = oxinp.cuda.stats().launches - before
    return median(lambda: oxinp.evaluate(run()), lambda: recorded(oxinp.cuda.Event()), elapsed), launches


def apart(run):
    """Run a function with a kernel for each reduction."""
    compute, rowwise.compute = rowwise.compute, lambda *_: None
    try:
        result = run()
        if not isinstance(result, tuple):
            oxinp.evaluate(result)
        return result
    finally:
        rowwise.compute = compute


def is_right(chain, host, vectors, arrays):
    """Whether the result has the bits of the same with a kernel per reduction, and sampled rows are NumPy's."""
    found, expected = chain(oxinp, *arrays), apart(lambda: chain(oxinp, *arrays))
    oxinp.evaluate(found)
    same = bool((found == expected).all())
    step = max(1, len(host) // SAMPLED_ROWS)
    rows = np.asarray(found[::step])
    wanted = chain(np, host[::step].astype("f8"), *[v.astype("f8") for v in vectors])
    tolerance = TOLERANCES[host.dtype.str[1:]]
    return same and bool((abs(rows - wanted) <= tolerance * (1 + abs(wanted))).all())


def of_peers(chain, host, vectors, modules):
    """Return how long the others take, by their names."""
    times = {}
    if "cupy" in modules:
        cupy = modules["cupy"]
        x, *own = [cupy.asarray(a) for a in (host, *vectors)]

        def elapsed(begin, end):
            end.synchronize()
            return cupy.cuda.get_elapsed_time(begin, end)

        times["cupy"] = median(lambda: chain(cupy, x, *own), lambda: recorded(cupy.cuda.Event()), elapsed)
        del x, own
        cupy.get_default_memory_pool().free_all_blocks()
    if "torch" in modules:
        torch = modules["torch"]
        x, *own = [torch.from_numpy(a).cuda() for a in (host, *vectors)]

        def elapsed_of_torch(begin, end):
            torch.cuda.synchronize()
            return begin.elapsed_time(end)

        event = torch.cuda.Event
        run, record = lambda: of_torch(torch, chain, x, *own), lambda: recorded(event(enable_timing=True))
        times["torch"] = median(run, record, elapsed_of_torch)
        del x, own
        torch.cuda.empty_cache()
    return times


def main():
    """Run the cases."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pattern", nargs="?", default="")
    parser.add_argument("--peer", action="store_true")
    options = parser.parse_args()
    rowwise.is_patient = False  # the first result is checked
    modules = {}
    for name in ("cupy", "torch") if options.peer else ():
        try:
            modules[name] = importlib.import_module(name)
        except ImportError:
            write(f"{name} is not installed")
    rng, all_right = np.random.default_rng(0), True
    drawn = rng.standard_normal(NUM_ELEMENTS, "f4")
    copied = oxinp.zeros(COPY_NBYTES, "u1")
    rate = 2 * COPY_NBYTES / ours(copied.copy)[0]
    del copied
    write(f"copy {rate / 1e9:.2f} TB/s")
    drawn = Columns([26, 8, 9, 9, 30, 6, 6, 5], width=columns(), right=range(1, 7), text=[])
    write(drawn.draw(["case", "launches", "ours", "apart", "peers", "ratio", "floor", ""]))
    for chain, dtype, shape in CASES:
        rows, length = shape if isinstance(shape, tuple) else (NUM_ELEMENTS // shape, shape)
        name = f"{chain.__name__} {dtype} {rows} x {length}"
        if not re.search(options.pattern, name):
            continue
        host = drawn[: rows * length].astype(dtype).reshape(rows, length)
        vectors = [rng.standard_normal(length).astype(dtype) for _ in range(2)]
        arrays = [oxinp.asarray(a) for a in (host, *vectors)]
        oxinp.evaluate(*arrays)
        right = is_right(chain, host, vectors, arrays)
        all_right &= right
        taken, launches = ours(lambda chain=chain, arrays=arrays: chain(oxinp, *arrays))
        one_by_one, _ = apart(lambda chain=chain, arrays=arrays: ours(lambda: chain(oxinp, *arrays)))
        del arrays
        peers = of_peers(chain, host, vectors, modules)
        listed = " ".join([f"{peer} {time:.3f}" for peer, time in peers.items()])
        ratio = f"{min(peers.values()) / taken:.2f}" if peers else ""
        floor = 2 * host.nbytes / rate / taken
        times = [f"{each:.3f} ms" for each in (taken, one_by_one)]
        verdict = "" if right else "WRONG"
        write(drawn.draw([name, str(launches), *times, listed, ratio, f"{floor:.1%}", verdict]))
    sys.exit(not all_right)


if __name__ == "__main__":
    main()

"""How fast `oxinp.matmul` is on tensor cores: ``python -m asv_benchmarks.kernels.tensor_cores [ROW ...]``.

One line per kind and shape: the median of rounds, each the device time of a batch of products by events, ours and the
peer's in turn, so that clocks that drift drift for both. Operands are random; a few rows of every result are compared
with exact ones, and the command ends with status 1 if any is wrong. ``--peer`` adds PyTorch's rate for floats (int8:
its ``_int_mm``) and CuPy's for int64. ``--compile`` times compiling the kernels of these products instead.
"""

import argparse
import functools
import importlib
import statistics
import sys
import time
from typing import Any, NamedTuple

import numpy as np

import oxinp
from asv_benchmarks.kernels.plans import write
from oxinp._config import config
from oxinp._core.lazy.placement import device
from oxinp._core.ops import matmul
from oxinp._core.ops.product import Product
from oxinp._driver.link import link

SQUARES = (256, 512, 1024, 1536, 2048, 4096, 8192, 16384)
SKINNY = ((16, 8192, 8192), (128, 8192, 8192), (8192, 8192, 128), (8192, 128, 8192), (256, 256, 65536))
# A few hundred rows, as language models have at inference: (m, n, K).
ROWS_OF_MODELS = tuple(
    (m, n, depth)
    for depth, n in ((4096, 4096), (4096, 11008), (11008, 4096), (8192, 8192), (5000, 3000))
    for m in (16, 64, 128, 192, 256, 300, 384, 512)
)
BATCHES = ((4096, 64), (512, 256), (64, 1024))
ROUND_SECONDS = 4e-3
NUM_ROUNDS = 7
NUM_CHECKED = 8


class Row(NamedTuple):
    """A kind of product.

    Attributes
    ----------
    dtype : str
        Of the operands.
    loop : str or None
        What is asked for.
    setting : str
        ``config.matmul``.
    peer : str
    shapes : tuple
        Sizes, (m, n, K), or (count, size) of batches.
    tolerance : float or None
        Of the sum of magnitudes; None: exact.
    """

    dtype: str
    loop: Any
    setting: str
    peer: str
    shapes: tuple
    tolerance: Any


ROWS = {
    "f16": Row("f2", None, "auto", "torch", SQUARES, 2.0**-11),
    "f16_skinny": Row("f2", None, "auto", "torch", SKINNY, 2.0**-11),
    "f16_rows": Row("f2", None, "auto", "torch", ROWS_OF_MODELS, 2.0**-11),
    "f16_batch": Row("f2", None, "auto", "torch", BATCHES, 2.0**-11),
    "f16_in_f32": Row("f2", "f4", "auto", "", (1024, 4096, 8192), 2.0**-24),
    "tf32": Row("f4", None, "tf32", "torch", (1024, 2048, 4096, 8192, 16384), 2.0**-10),
    "i8": Row("i1", "i4", "auto", "torch", SQUARES[:-1], None),
    "i8_wrapping": Row("i1", None, "auto", "", (1024, 4096, 8192), None),
    "bool": Row("?", None, "auto", "", (1024, 4096, 8192), None),
    "i64": Row("i8", None, "auto", "cupy", (256, 512, 768, 1024, 2048, 4096), None),
    "i32": Row("i4", None, "auto", "cupy", (256, 512, 768, 1024, 2048, 4096), None),
    "f64": Row("f8", None, "auto", "cupy", (256, 512, 1024, 2048, 4096), 2.0**-46),
    "f32": Row("f4", None, "auto", "cupy", (256, 512, 1024), 2.0**-18),
}


def shapes_of(shape):
    """Shapes of A and B."""
    if isinstance(shape, int):
        return (shape, shape), (shape, shape)
    if len(shape) == 2:
        return (shape[0], shape[1], shape[1]), (shape[0], shape[1], shape[1])
    m, n, depth = shape
    return (m, depth), (depth, n)


@functools.lru_cache(2)
def draw(shape, dtype, seed):
    """Random values: the whole range of integers, normal floats."""
    rng = np.random.default_rng(seed)
    kind = np.dtype(dtype)
    if kind.kind == "f":
        return rng.standard_normal(shape, np.float32).astype(dtype)
    if kind.kind == "b":
        return rng.random(shape, np.float32) < 1e-3
    info = np.iinfo(kind)
    return rng.integers(info.min, info.max, shape, dtype, endpoint=True)


def is_right(row, a, b, result):
    """Whether a few rows of the first matrix's product are right."""
    if a.ndim == 3:
        a, b, result = a[0], b[0], result[0]
    rows = np.random.default_rng(0).choice(len(a), min(len(a), NUM_CHECKED), replace=False)
    columns = np.random.default_rng(1).choice(b.shape[1], min(b.shape[1], 64), replace=False)
    x, y, got = a[rows], b[:, columns], np.asarray(result)[rows][:, columns]
    if row.tolerance is None:
        return bool((got == np.matmul(x, y, dtype=got.dtype)).all())
    x, y = x.astype(np.float64), y.astype(np.float64)
    bound = (row.tolerance + 2.0**-21 * (x.shape[1] / 8 + 1)) * (np.abs(x) @ np.abs(y))
    return bool((np.abs(got - x @ y) <= bound).all())


def peer_of(row, a, b):
    """What multiplies the same elsewhere."""
    if row.peer == "cupy":
        cupy = importlib.import_module("cupy")
        left, right = cupy.asarray(a), cupy.asarray(b)
        return lambda: left @ right
    torch = importlib.import_module("torch")
    torch.backends.cuda.matmul.allow_tf32 = row.setting == "tf32"
    left, right = torch.from_numpy(a).cuda(), torch.from_numpy(b).cuda()
    if row.dtype == "i1":
        return lambda: torch._int_mm(left, right)
    return lambda: left @ right


def batch_ms(backend, body, count):
    """Device time per call."""
    begin = backend.record_event()
    for _ in range(count):
        body()
    end = backend.record_event()
    return begin.elapsed_ms(end) / count


def measure(backend, bodies):
    """Median milliseconds of every body."""
    counts = []
    for body in bodies:
        body()
        counts.append(max(1, min(100, int(1e3 * ROUND_SECONDS / max(batch_ms(backend, body, 3), 1e-4)))))
    rounds = [[batch_ms(backend, body, n) for body, n in zip(bodies, counts, strict=True)] for _ in range(NUM_ROUNDS)]
    return [statistics.median(times) for times in zip(*rounds, strict=True)]


def run(name, row, *, has_peer):
    """Print the lines of a row; whether all is right."""
    config.matmul = row.setting
    all_right, ratios = True, []
    for shape in row.shapes:
        a, b = (draw(each, row.dtype, seed) for seed, each in enumerate(shapes_of(shape)))
        x, y = oxinp.asarray(a), oxinp.asarray(b)
        options = {} if row.loop is None else {"dtype": row.loop}

        def ours(x=x, y=y, options=options):
            result = oxinp.matmul(x, y, **options)
            oxinp.evaluate(result)
            return result

        right = is_right(row, a, b, ours())
        all_right &= right
        bodies = [ours]
        if has_peer and row.peer:
            try:
                bodies.append(peer_of(row, a, b))
                bodies[-1]()
            except RuntimeError:  # PyTorch's int8 has no small products
                bodies.pop()
        times = measure(device(), bodies)
        products = 2 * a.size * b.shape[-1] * 1e-9
        line = f"{name:12s} {shape!s:20s} {times[0]:9.4f} ms {products / times[0]:8.1f} T/s"
        if len(times) > 1:
            ratios.append(times[1] / times[0])
            line += f" | {row.peer} {times[1]:9.4f} ms {products / times[1]:8.1f}: {times[1] / times[0]:.2f}x"
        write(line + ("" if right else " WRONG"))
    if len(ratios) > 1:
        write(f"{name:12s} geometric mean {statistics.geometric_mean(ratios):.3f}x, worst {min(ratios):.2f}x")
    config.matmul = "auto"
    return all_right


def run_compile():
    """Print how long it takes to compile every kernel of the products."""
    backend = device()
    kernels = {}
    for row in ROWS.values():
        config.matmul = row.setting
        for shape in row.shapes:
            layouts = [oxinp.empty(each, row.dtype)._layout for each in shapes_of(shape)]
            product = matmul.product_of(*layouts, None if row.loop is None else np.dtype(row.loop))
            plan = product.planned_by_steps() if isinstance(product, Product) else None
            for step in () if plan is None else plan.steps:
                if step.kernel.target == "sm_90a":
                    kernels[step.kernel.name] = step.kernel
    for name, kernel in sorted(kernels.items()):
        begin = time.perf_counter()
        link(backend.context, kernel.ptx)
        write(f"{name:60s} {1e3 * (time.perf_counter() - begin):.0f} ms")
    config.matmul = "auto"
    return True


def main(arguments):
    """Measure, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", nargs="*", help=f"of {', '.join(ROWS)}; all unless given")
    parser.add_argument("--peer", action="store_true", help="measure PyTorch and CuPy as well")
    parser.add_argument("--compile", action="store_true", help="time compiling instead")
    options = parser.parse_args(arguments)
    if options.compile:
        return 0 if run_compile() else 1
    results = [run(name, ROWS[name], has_peer=options.peer) for name in options.rows or ROWS]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Updates of factorisations, C -= A @ B in place, on a GPU: right, and how fast beside the product alone.

``python -m asv_benchmarks.kernels.updates [--configs] [--types f8 ...] [--cases REGEX]`` prints a line per shape: the
largest error of some rows in units of what rounding may leave, and in TFLOP/s the rate of the update as
`select.plan_update` plans it and as the multistage kernels compute it, and of the product without C as it is planned
and as the multistage kernels compute it. A, B and C are parts of one matrix of `PITCH` columns, as in LU. With
``--configs`` every config with an epilogue is timed as well. Ends with status 1 if anything is wrong.
"""

import argparse
import re
import sys

import numpy as np

from asv_benchmarks.kernels.plans import Prepared, milliseconds, write
from oxinp._kernels.gemm import select
from oxinp._kernels.gemm.epilogue import subtracted
from oxinp._kernels.gemm.operand import Matrices, sources
from oxinp._kernels.gemm.sm90_mma import plan as sm90_mma
from oxinp._kernels.gemm.sm90_mma.staged import staged
from oxinp._kernels.gemm.variant import Variant
from oxinp._ptx.types import from_dtype
from oxinp._runtime.cuda import open_backend

PITCH = 8208  # elements
# Rows, columns and K: trailing matrices, those of the halves of a block column, and those of its rows of U.
SHAPES = (
    *[(n, n, depth) for n in (7680, 4096, 2048) for depth in (512, 256, 128)],
    *[(8192, depth, depth) for depth in (256, 128)],
    (8192, 96, 32),
    *[(depth, 7680, depth) for depth in (256, 128, 64)],
)
NUM_ROWS = 16  # of a result that are checked


class Forced:
    """A device on which `config` is chosen of the kernels with an epilogue."""

    def __init__(self, device, config):
        self._device, self._config = device, config

    def __getattr__(self, name):
        return getattr(self._device, name)

    def tuned(self, choice):
        is_asked = choice.family == "matmul/mma" and "epilogue" in choice.key
        return self._config._asdict() if is_asked else self._device.tuned(choice)


class Problem:
    """A matrix on the device, of which A is on the left of C and B above it, and a product of its own."""

    def __init__(self, backend, whole, shape):
        dtype = whole.dtype
        self.backend, self.shape, self.dtype = backend, shape, dtype
        m, n, depth = shape
        self.whole = whole[: depth + m]
        self.buffer = backend.allocate(self.whole.nbytes)
        self.alone = backend.allocate(m * n * dtype.itemsize)
        place = lambda row, column: (row * PITCH + column) * dtype.itemsize  # noqa: E731
        self.offsets = [place(depth, 0), place(0, depth), place(depth, depth)]
        type_ = from_dtype(dtype)
        self.parts = [Matrices(type_, (PITCH, 1), min(256, offset & -offset)) for offset in self.offsets]

    def update(self, plan):
        """Return the launch of an update."""
        a, b, c = (self.buffer.ptr + offset for offset in self.offsets)
        return Prepared(self.backend, plan, [c], [a, b, c])

    def product(self, plan):
        """Return the launches of a product."""
        a, b, _ = (self.buffer.ptr + offset for offset in self.offsets)
        return Prepared(self.backend, plan, [self.alone.ptr], [a, b])

    def plans(self):
        """Names and plans: updates, then products."""
        (m, n, depth), (a, b, c), device = self.shape, self.parts, self.backend.capability
        given = ((m, n), depth, a, b)
        variant = Variant(epilogue=subtracted(c.type, c.strides, c.alignment), c_strides=c.strides)
        updates = {
            "update": select.plan_update(*given, c, device),
            "update, multistage": select.plan(*given, c.type, c.type, device, variant),
        }
        alone = select.plan(*given, c.type, c.type, device)
        return updates, {"product": select.plan_native(*given, device), "product, multistage": alone}

    def configured(self):
        """Names and plans of an update by every config."""
        (m, n, depth), (a, b, c), device = self.shape, self.parts, self.backend.capability
        own = staged(subtracted(c.type, c.strides, c.alignment), c.strides, ())
        for option in sm90_mma.WITH_EPILOGUE.get(c.type, ()):
            forced = Forced(device, option.config)
            plan = sm90_mma.plan(*sources((m, n), depth, a, b)[0], forced, epilogue=own)
            if plan is not None:
                yield "x".join(map(str, option.config[:7])), plan

    def worst(self, plan):
        """Largest error of an update in units of what is allowed, of some rows."""
        m, n, depth = self.shape
        self.backend.upload(self.buffer.ptr, self.whole)
        self.update(plan)()
        self.backend.synchronize()
        rows = depth + np.r_[-1, 0, m - 1, np.random.default_rng(1).integers(m, size=NUM_ROWS)]
        found = np.empty((len(rows), PITCH), self.dtype)
        for i, row in enumerate(rows):  # the first one is the last of B
            self.backend.download(found[i], self.buffer.ptr + int(row) * found[i].nbytes)
        before, columns = self.whole[rows], slice(depth, depth + n)
        changed = found != before
        changed[1:, columns] = False
        a, b = before[1:, :depth], self.whole[:depth, columns]
        difference = found[1:, columns] - (before[1:, columns] - a @ b)
        bound = np.abs(before[1:, columns]) + np.abs(a) @ np.abs(b)
        error = float((np.abs(difference) / bound).max() / np.finfo(self.dtype).eps)
        return float("inf") if changed.any() or not error <= 1 else error

    def rate(self, launch):
        """TFLOP/s of launches."""
        m, n, depth = self.shape
        flops = (8 if self.dtype.kind == "c" else 2) * m * n * depth
        return flops / milliseconds(self.backend, launch, 7) * 1e-9


def draw(rng, dtype, shapes):
    """Return a matrix that is large enough for some shapes."""
    num_rows = max(m + depth for m, _, depth in shapes)
    parts = rng.random((num_rows, PITCH * (1 + (dtype.kind == "c"))), np.float32) - np.float32(0.5)
    return parts.astype(np.dtype(dtype.char.lower())).view(dtype)


def main(arguments):
    """Check, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--configs", action="store_true", help="time every config with an epilogue")
    parser.add_argument("--types", nargs="+", default=["f8", "c16"])
    parser.add_argument(
        "--cases", default="", help="a regular expression of the shapes that are wanted, as 4096x4096x512"
    )
    options = parser.parse_args(arguments)
    backend, rng, is_right = open_backend(), np.random.default_rng(), True
    for dtype in map(np.dtype, options.types):
        shapes = [shape for shape in SHAPES if re.search(options.cases, "x".join(map(str, shape)))]
        whole = draw(rng, dtype, shapes)
        for shape in shapes:
            title = "x".join(map(str, shape))
            problem = Problem(backend, whole, shape)
            updates, products = problem.plans()
            worst = problem.worst(updates["update"])
            is_right &= worst <= 1
            line = f"{dtype} {title:15s} error {worst:.2g}, {updates['update'].launch.kernel.name[12:]}; TFLOP/s:"
            for name, plan in updates.items():
                line += f" {name} {problem.rate(problem.update(plan)):.1f},"
            for name, plan in products.items():
                line += f" {name} {problem.rate(problem.product(plan)):.1f},"
            if options.configs:
                rates = [f"{name} {problem.rate(problem.update(plan)):.1f}" for name, plan in problem.configured()]
                line += "; " + ", ".join(rates)
            write(line)
            del problem
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

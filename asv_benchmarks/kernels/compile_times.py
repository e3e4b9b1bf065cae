"""How long kernels of products take to trace and to compile: ``python -m asv_benchmarks.kernels.compile_times``.

Arguments are dtypes, all unless given. Prints, per kernel that the planner takes for products of many dtypes, sizes
and layouts, how long it took to trace and to compile, with no cache, and what the compiler made of it. Exits with 1
where one takes longer than 250 ms or spills.
"""

import sys
import time

import numpy as np

import oxinp
from oxinp import _runtime

LIMIT_MS = 250
DTYPES = ("f8", "f4", "f2", "c8", "c16", "i1", "u1", "i2", "i4", "i8", "?")
SHAPES = ((96, 96, 96), (256, 256, 256), (512, 512, 512), (1024, 1024, 1024), (2048, 2048, 2048), (96, 8192, 96))
BATCHES = ((4096, 32), (2048, 64))


class Watch:
    """The kernels that a backend loads, and how long each took."""

    def __init__(self, backend):
        self.loaded = []
        self.backend, self.load = backend, backend.loader.load_module
        backend.loader.load_module = self.timed

    def timed(self, kernel):
        began = time.perf_counter()
        module = self.load(kernel)
        function = module.function(kernel.name)
        spilled = function.attribute("local_nbytes"), function.attribute("num_registers")
        self.loaded.append((kernel, time.perf_counter() - began, *spilled))
        return module


def products(dtype):
    """Yield names and pairs of matrices."""
    for m, depth, n in SHAPES:
        for transposed in ((0, 0), (1, 1), (1, 0), (0, 1)) if m == 512 else ((0, 0),):
            a, b = (
                np.ones(x[::-1] if t else x, dtype) for x, t in zip(((m, depth), (depth, n)), transposed, strict=True)
            )
            a, b = (oxinp.asarray(x) for x in (a, b))
            name = "".join("nt"[t] for t in transposed)
            yield f"{m}x{depth}x{n} {name}", a.T if transposed[0] else a, b.T if transposed[1] else b
    for count, side in BATCHES:
        x = oxinp.asarray(np.ones((count, side, side), dtype))
        yield f"{count} of {side}", x, x


def main(dtypes):
    """Print a row per kernel; 1 where one is beyond the limit."""
    worst = 0.0
    with oxinp.config.override(cache_dir="", offload_threshold=0, backend="cuda"):
        backend = _runtime.current()
        float(oxinp.ones(4096).sum())  # loads the compiler
        watch = Watch(backend)
        for dtype in dtypes or DTYPES:
            for name, a, b in products(dtype):
                watch.loaded.clear()
                began = time.perf_counter()
                oxinp.evaluate(a @ b)
                seconds = time.perf_counter() - began
                backend.synchronize()
                traced = seconds - sum(each[1] for each in watch.loaded)
                for kernel, loaded, local, registers in watch.loaded:
                    worst = max(worst, 1e3 * loaded, LIMIT_MS + 1 if local else 0)
                    sys.stdout.write(
                        f"{dtype:4} {name:22} {kernel.name:20} {kernel.num_threads:5} threads {registers:4} registers "
                        f"{local:5} B spilled {kernel.ptx.count(chr(10)):6} lines  compiled {1e3 * loaded:6.0f} ms, "
                        f"all of it traced {1e3 * traced:6.0f} ms\n"
                    )
                    sys.stdout.flush()
    sys.stdout.write(f"longest {worst:.0f} ms\n")
    return int(worst > LIMIT_MS)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Factorisations on a GPU: right by LAPACK's test ratios, and how fast.

``python -m asv_benchmarks.kernels.lapack [--quick] [--peer] [--steps] [--width N] [--resident N] [--group N] [--ahead]
[--alternatives] [--cases REGEX]`` prints a line per case: the median of device-event times over random data, launch by
launch and as one graph, the rate of the graph as a share of what the device's f64 units reach in products, the ratio
that LAPACK's own tests demand to be at most 30, with ``--peer`` the faster of CuPy and PyTorch, where these are
installed, with ``--steps`` the time and the rate of every kernel, and with ``--alternatives`` the graph's with other
constants. A factorisation that works in place has its copy timed with it. Ends with status 1 if anything is wrong.
"""

import argparse
import contextlib
import ctypes
import importlib
import importlib.util
import math
import re
import statistics
import sys
from functools import partial

import numpy as np

from asv_benchmarks.kernels.plans import milliseconds, write
from oxinp._driver.enums import LaunchAttributeId
from oxinp._driver.event import Event
from oxinp._driver.graph import Graph
from oxinp._driver.launch import LaunchAttribute, Launcher
from oxinp._kernels.elementwise.plan import contiguous_strides
from oxinp._kernels.lapack import back_substitution, lu, lu_cluster, rows, small_inverse
from oxinp._kernels.lapack import plan as lapack
from oxinp._kernels.plan import Beside, Launch, in_order
from oxinp._kernels.problem import Operand
from oxinp._ptx.synchronize import GRID_WAIT
from oxinp._ptx.types import from_dtype
from oxinp._runtime.branch import Branch
from oxinp._runtime.cuda import open_backend
from tests.kernels.machine import parameters

RATIO = 30
PEAK = {"f8": 60e12, "f4": 60e12, "c16": 60e12, "c8": 60e12}  # flop/s of products, complex ones counted as four
NUM_PROBES = 4
MOST_CHECKED = 8192  # order up to which ratios are found with other constants as well
HIGHEST = -5  # priority of streams
NAMES = ("solve", "cholesky", "inv", "qr")

# name, matrices, order, columns of B, dtype
QUICK = (
    ("solve", 1, 1024, 1, "f8"),
    ("cholesky", 1, 1024, 0, "f8"),
    ("inv", 1, 1024, 0, "f8"),
    ("solve", 1, 1000, 5, "f4"),
    ("solve", 1, 500, 2, "c16"),
    ("cholesky", 1, 700, 0, "c8"),
    ("qr", 1, 1024, 0, "f8"),
    ("qr", 1, 500, 0, "c8"),
    ("solve", 1000, 32, 1, "f8"),
    ("cholesky", 1000, 32, 0, "f8"),
    ("inv", 1000, 32, 0, "f8"),
    ("solve", 20, 256, 1, "f8"),
    ("cholesky", 20, 256, 0, "f8"),
    ("inv", 20, 256, 0, "f8"),
)
CASES = (
    ("solve", 1, 60, 60, "f8"),
    ("solve", 1, 150, 150, "f8"),
    ("solve", 1, 500, 500, "f8"),
    ("solve", 1, 1000, 1000, "f8"),
    ("solve", 1, 150, 150, "c16"),
    ("solve", 1, 500, 500, "c16"),
    ("solve", 1, 1000, 1000, "c16"),
    ("solve", 1, 500, 500, "f4"),
    ("solve", 1, 1024, 1, "f8"),
    ("solve", 1, 2048, 1, "f8"),
    ("solve", 1, 4096, 1, "f8"),
    ("solve", 1, 8192, 1, "f8"),
    ("cholesky", 1, 4096, 0, "f8"),
    ("cholesky", 1, 16384, 0, "f8"),
    ("inv", 1, 8192, 0, "f8"),
    ("qr", 1, 4096, 0, "f8"),
    ("qr", 1, 8192, 0, "f8"),
    ("qr", 1, 8192, 0, "f4"),
    ("solve", 1, 4096, 1, "f4"),
    ("solve", 1, 8192, 1, "f4"),
    ("solve", 1, 4096, 1, "c8"),
    ("cholesky", 1, 8192, 0, "f4"),
    ("solve", 1, 4096, 1, "c16"),
    ("solve", 1, 16384, 1, "f8"),
    ("solve", 10000, 32, 1, "f8"),
    ("cholesky", 10000, 32, 0, "f8"),
    ("inv", 10000, 32, 0, "f8"),
    ("solve", 1000, 256, 1, "f8"),
    ("cholesky", 1000, 256, 0, "f8"),
    ("inv", 1000, 256, 0, "f8"),
)


# Of cases with a name: constants of modules in the place of which others are measured beside the usual ones.
ALTERNATIVES = {
    "solve f8": (
        {},
        {(lu_cluster, "MOST_PANELS"): 1},
        {(lu, "FILLS_AHEAD"): 1 << 20},
        {(rows, "FEWEST_KEPT"): 1 << 20},
        {(back_substitution, "LENGTHS"): (64,)},
        {(back_substitution, "MOST_COLUMNS"): 0},
    ),
    "solve f4": ({}, {(lapack, "WIDENED"): 1 << 20}),
    "inv f8": ({}, {(small_inverse, "STEP"): 4}, {(lu, "FILLS_AHEAD"): 1 << 20}),
}


@contextlib.contextmanager
def constants(changes):
    """Have constants of modules at other values."""
    before = {key: getattr(*key) for key in changes}
    for (module, name), value in changes.items():
        setattr(module, name, value)
    try:
        yield ", ".join(f"{name} {value}" for (_, name), value in changes.items())
    finally:
        for (module, name), value in before.items():
            setattr(module, name, value)


def flops(name, count, n, columns, dtype):
    """Operations of a case, complex ones counted as four."""
    each = {
        "solve": 2 / 3 * n**3 + 2 * n**2 * columns,
        "cholesky": n**3 / 3,
        "inv": 2 * n**3,
        "qr": 8 / 3 * n**3,
    }[name]
    return count * each * (4 if np.dtype(dtype).kind == "c" else 1)


class Bound:
    """A plan bound to addresses: called, it enqueues every step; `graphed` is the same as one graph.

    Steps that run beside others go to a stream of their own, which the others wait for at their end.
    """

    def __init__(self, backend, plan, outputs, inputs=()):
        self.backend, self.branch = backend, Branch(backend.context, 0)
        self.scratch = backend.allocate(max(plan.scratch_nbytes, 1))
        self.buffers = {f"out{i}": x for i, x in enumerate(outputs)} | {f"in{i}": x for i, x in enumerate(inputs)}
        self.buffers["scratch"] = self.scratch.ptr
        # Names, operations of products, streams and what enqueues a step there.
        self.calls, self.graph = [], Graph(backend.context)
        self.steps = plan.steps
        self.add(plan.steps, 0, [])
        self.executable = self.graph.instantiate()

    def add(self, steps, stream, after, *, is_beside=False):
        """Add steps on a stream, behind nodes of the graph; return the nodes to wait for."""
        for step in steps:
            if isinstance(step, Beside):
                assert not stream
                side = self.branch.stream.handle
                self.calls.append(("", 0, 0, self.branch.fork))
                urgent = self.add(step.urgent, side, after, is_beside=True)
                after = [*self.add(step.rest, stream, after, is_beside=True), *urgent]
                self.calls.append(("", 0, 0, self.branch.join))
            elif isinstance(step, Launch):
                given = (*parameters(self.backend, step, self.buffers), *step.constants)
                kernel = step.kernel
                shape = (step.grid, kernel.block, kernel.shared_nbytes)
                launcher, node = (
                    Launcher(
                        self.backend.function(kernel),
                        *shape,
                        kernel.param_format,
                        0,
                        given,
                        cluster=kernel.cluster,
                        is_programmatic=is_programmatic,
                        stream=stream,
                    )
                    for is_programmatic in (GRID_WAIT in kernel.ptx and not is_beside, False)
                )
                flops = step.work.flops if kernel.name.startswith("gemm") else 0
                name = f"{kernel.name} of 1e{int(math.log10(flops))}" if flops else kernel.name
                self.calls.append((name, flops, stream, launcher.launch))
                node = self.graph.add_kernel(node, after=after)
                if stream:
                    row = LaunchAttribute()
                    row.value[0] = HIGHEST & 0xFFFFFFFF
                    address = ctypes.addressof(row) + LaunchAttribute.value.offset
                    self.graph.driver.cuGraphKernelNodeSetAttribute(node.handle, LaunchAttributeId.PRIORITY, address)
                after = [node]
            else:
                target = self.place(step.target)
                driver = self.backend.context.driver
                fill = partial(driver.cuMemsetD8Async, target, step.byte, step.nbytes, stream)
                self.calls.append(("fill", 0, stream, fill))
                after = [self.graph.add_fill(target, step.byte, step.nbytes, after=after)]
        return after

    def place(self, argument):
        return self.buffers[argument.buffer] + argument.offset

    def __call__(self):
        for *_, call in self.calls:
            call()

    def graphed(self):
        self.executable.launch(self.backend.stream)

    def by_kernel(self):
        """Milliseconds, steps and TFLOP/s of every kernel, the longest first, in a line: of steps one by one.

        Products are told apart by the power of ten of their operations. A kernel beside others has a plus sign; its
        time has what it waited for until it had a place.
        """
        self.backend.synchronize()
        found = {}
        for name, flops, stream, call in self.calls:
            begin, end = Event(self.backend.context), Event(self.backend.context)
            begin.record(stream)
            call()
            end.record(stream)
            if name:
                found.setdefault(name + "+" * bool(stream), []).append((flops, begin, end))
        self.backend.synchronize()
        lines = []
        for name, parts in found.items():
            time = sum(begin.elapsed_ms(end) for _, begin, end in parts)
            rate = sum(flops for flops, *_ in parts) / time * 1e-9
            lines.append((time, f"{name} {time:.3f} of {len(parts)}" + f" ({rate:.1f} TFLOP/s)" * (rate > 0)))
        return "; ".join(line for _, line in sorted(lines, reverse=True))


class Tuned:
    """A device on which block columns have a width, see `cholesky.Outer`, `lu.Outer`, `qr.BlockColumns`."""

    def __init__(self, device, width, resident, group, looks_ahead):
        self.device = device
        self.answers = {
            "cholesky/outer": {"width": width, "resident": resident},
            "lu/outer": {"width": width, "group": group, "looks_ahead": looks_ahead},
            "qr/block": {"width": width, "group": group, "looks_ahead": looks_ahead},
        }

    def __getattr__(self, name):
        return getattr(self.device, name)

    def tuned(self, choice):
        return self.answers.get(choice.family) or self.device.tuned(choice)


class Problem:
    """Operands on the device, and what solves."""

    def __init__(
        self, backend, rng, name, count, n, columns, dtype, width=None, resident=0, group=32, looks_ahead=False
    ):
        self.backend, self.name, self.dtype, self.n = backend, name, np.dtype(dtype), n
        shape = (n, n) if count == 1 else (count, n, n)
        self.a = self.draw(rng, shape)
        if name == "cholesky":
            diagonal = np.arange(n)
            self.a[..., diagonal, diagonal] = 2 * n  # of the lower triangle, a matrix that is positive definite
        self.b = self.draw(rng, (*shape[:-1], columns)) if name == "solve" else None
        out = self.b if name == "solve" else self.a
        self.found = np.empty_like(out)
        second = self.a if name == "qr" else np.zeros(1, np.int64)
        arrays = [out, second, self.a, *([] if self.b is None else [self.b])]
        self.held = [backend.allocate(x.nbytes) for x in arrays]
        for buffer, array in zip(self.held[2:], arrays[2:], strict=True):
            backend.upload(buffer.ptr, array)
        self.device = Tuned(backend.capability, width, resident, group, looks_ahead) if width else backend.capability
        self.bind()

    def bind(self):
        """Plan, and bind the plan."""
        shape, square, device = self.a.shape, self.operand(self.a), self.device
        plan = {
            "solve": lambda: lapack.plan_solve(self.b.shape, square, self.operand(self.b), device),
            "cholesky": lambda: lapack.plan_cholesky(shape, square, device),
            "inv": lambda: lapack.plan_invert(shape, square, device),
            "qr": lambda: lapack.plan_qr(shape, square, device),
        }[self.name]()
        pointers = [buffer.ptr for buffer in self.held]
        self.bound = None  # its workspace is free before there is another
        self.bound = Bound(self.backend, plan, pointers[:2], pointers[2:])

    def operand(self, array):
        return Operand(from_dtype(self.dtype), contiguous_strides(array.shape))

    def draw(self, rng, shape):
        x = rng.random(shape, np.float32) - np.float32(0.5)
        return (x + 1j * (rng.random(shape, np.float32) - 0.5) if self.dtype.kind == "c" else x).astype(self.dtype)

    def ratio(self, rng):
        """What LAPACK tests, by products with a few vectors; infinity where the status says that it failed."""
        second = np.empty_like(self.a) if self.name == "qr" else np.zeros(1, np.int64)
        for run in (self.bound, self.bound.graphed):
            run()
            self.backend.synchronize()
            self.backend.download(second, self.held[1].ptr)
            if self.name != "qr" and second[0] != -1:
                return float("inf")
        self.backend.download(self.found, self.held[0].ptr)
        a, x = self.a, self.found
        probes = self.draw(rng, (*a.shape[:-1], NUM_PROBES))
        if self.name == "solve":
            difference, norms = self.b - a @ x, (_norm(a), _norm(x))
        elif self.name == "cholesky":
            if np.triu(x[..., :64, :64], 1).any():
                return float("inf")
            whole = np.tril(a) + np.tril(a, -1).conj().swapaxes(-1, -2)
            difference = whole @ probes - x @ (x.conj().swapaxes(-1, -2) @ probes)
            norms = (_norm(whole), _norm(probes))
        elif self.name == "qr":
            orthogonal = x.conj().swapaxes(-1, -2) @ (x @ probes) - probes
            worst = np.max(_norm(orthogonal) / (self.n * np.finfo(self.dtype).eps * _norm(probes)))
            difference, norms = a @ probes - x @ (second @ probes), (_norm(a), _norm(probes))
            if worst > RATIO or np.tril(second[..., :64, :64], -1).any():
                return float("inf")
        else:
            difference, norms = a @ (x @ probes) - probes, (_norm(a), _norm(x), _norm(probes))
        allowed = self.n * np.finfo(self.dtype).eps * np.prod(norms, axis=0)
        return float(np.max(_norm(difference) / allowed))


def _norm(array):
    return np.linalg.norm(array, 1, axis=(-2, -1))


def peers():
    """Name and functions of the peers that are installed."""
    found = {}
    if importlib.util.find_spec("cupy") is not None:
        cupy = importlib.import_module("cupy")
        found["cupy"] = cupy, {name: getattr(cupy.linalg, name) for name in NAMES}
    if importlib.util.find_spec("torch") is not None:
        torch = importlib.import_module("torch")
        found["torch"] = torch, {name: getattr(torch.linalg, name) for name in NAMES}
    return found


def measure_peer(package, module, functions, problem):
    """Milliseconds of a peer's function on the same data; NaN where it has no memory or no way for it."""
    if package == "cupy":
        place, event = module.asarray, module.cuda.Event
    else:
        place = lambda x: module.from_numpy(x).cuda()  # noqa: E731
        event = lambda: module.cuda.Event(enable_timing=True)  # noqa: E731
    arrays = [place(x) for x in (problem.a, problem.b) if x is not None]
    if problem.name == "cholesky":
        lower = module.tril(arrays[0])
        arrays = [lower + module.tril(arrays[0], -1).conj().swapaxes(-1, -2)]
    times = []
    for _ in range(8):
        begin, end = event(), event()
        begin.record()
        functions[problem.name](*arrays)
        end.record()
        end.synchronize()
        times.append(module.cuda.get_elapsed_time(begin, end) if package == "cupy" else begin.elapsed_time(end))
    return statistics.median(times[3:])


def main(arguments):
    """Check, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small cases only")
    parser.add_argument("--peer", action="store_true", help="measure CuPy and PyTorch as well")
    parser.add_argument("--steps", action="store_true", help="say which kernels take how long")
    parser.add_argument("--width", type=int, help="of block columns")
    parser.add_argument("--resident", type=int, default=0, help="blocks on a multiprocessor that factor one together")
    parser.add_argument("--group", type=int, default=32, help="columns that every panel brings up to date")
    parser.add_argument("--ahead", action="store_true", help="factor block columns beside the rest")
    parser.add_argument("--alternatives", action="store_true", help="measure other values of constants as well")
    parser.add_argument("--cases", default="", help="a regular expression of the lines that are wanted")
    options = parser.parse_args(arguments)
    backend, rng, is_right = open_backend(), np.random.default_rng(), True
    known = peers() if options.peer else {}
    for name, count, n, columns, dtype in QUICK if options.quick else CASES:
        title = f"{name} {dtype} {count if count > 1 else ''}{'x' if count > 1 else ''}{n}"
        if not re.search(options.cases, title):
            continue
        given = (options.width, options.resident, options.group, options.ahead)
        problem = Problem(backend, rng, name, count, n, columns, dtype, *given)
        ratio = problem.ratio(rng)
        is_right &= ratio <= RATIO
        repetitions = 3 if count * n**3 > 1 << 38 else 7
        each, whole = (milliseconds(backend, run, repetitions) for run in (problem.bound, problem.bound.graphed))
        share = flops(name, count, n, columns, dtype) / whole * 1e3 / PEAK[dtype]
        line = (
            f"{title:24s} {each:9.3f} ms, graph {whole:9.3f} ms of {len(list(in_order(problem.bound.steps)))} steps, "
        )
        line += f"{share:6.1%} of peak, ratio {ratio:.3g}"
        times = {key: measure_peer(key, *value, problem) for key, value in known.items()}
        if times:
            best = min(times, key=times.get)
            line += f"; {best} {times[best]:9.3f} ms, {times[best] / whole:5.2f}x"
        write(line)
        if options.steps:
            write("    " + problem.bound.by_kernel())
        for changes in ALTERNATIVES.get(f"{name} {dtype}", ()) if options.alternatives and n != 256 else ():
            with constants(changes) as told:
                problem.bind()
            ratio = problem.ratio(rng) if n <= MOST_CHECKED else 0.0
            is_right &= ratio <= RATIO
            write(f"    {milliseconds(backend, problem.bound.graphed, repetitions):9.3f} ms, ratio {ratio:.3g}: {told}")
        del problem
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Device times of the kernel families on a GPU: ``python -m asv_benchmarks.kernels.families [REGEX]``.

Prints, per case, the median of event times, the bytes that have to move, and their rate as a share of a
device-to-device copy's in the same run. Inputs are random and, all together, far larger than the second-level cache.
CuPy's times stand beside where CuPy is there.
"""

import importlib
import operator
import re
import statistics
import sys

import numpy as np

from asv_benchmarks.kernels.plans import Prepared
from oxinp._kernels.elementwise import plan as elementwise
from oxinp._kernels.problem import MAX_ALIGNMENT, Instr, Operand, Output, ScalarOperand
from oxinp._kernels.reduce import plan as reduce
from oxinp._ptx.types import f32, f64, from_dtype, pred
from oxinp._runtime.cuda import open_backend
from tests.kernels.operations import max_op, sum_op

REPEATS = 15
F4, F8, B1, I4 = (np.dtype(name) for name in ("f4", "f8", "?", "i4"))
N4, N8 = 2**27, 2**26
ROWS, COLUMNS, SIDE = 8192, 16384, 8192


def lower(operation):
    return lambda _, *args: operation(*args)


ADD, SUB, MUL, DIV, LT = (lower(getattr(operator, name)) for name in ("add", "sub", "mul", "truediv", "lt"))


def sqrt(k, a):
    return k.sqrt(a)


def index_as_f64(k, index):
    return k.cast(index, f64)


index_as_f64.wants_index = True


class Bench:
    """Buffers with random bytes of sensible values, and timing."""

    def __init__(self):
        self.backend = open_backend()
        self.capability = self.backend.capability
        self.pools = {}

    def buffer(self, dtype, size, number):
        """Return a pointer to `size` random elements; the same for the same arguments."""
        key = (dtype, size, number)
        if key not in self.pools:
            rng = np.random.default_rng(number)
            part = min(size, 2**20 + 7)
            high = {"f": 100, "b": 2}.get(dtype.kind, 999)
            values = rng.random(part) * high if dtype.kind == "f" else rng.integers(0, high, part)
            buffer = self.backend.allocate(size * dtype.itemsize)
            self.backend.upload(buffer.ptr, np.resize(values.astype(dtype), size))
            self.pools[key] = buffer
        return self.pools[key].ptr

    def median_ms(self, run, batch=1):
        for _ in range(3):
            run()
        self.backend.synchronize()
        times = []
        for _ in range(REPEATS):
            start = self.backend.record_event()
            for _ in range(batch):
                run()
            end = self.backend.record_event()
            self.backend.synchronize()
            times.append(start.elapsed_ms(end) / batch)
        return statistics.median(times)


def ghost(shape, dtype):
    """Return an array of a shape whose pages are never touched."""
    return np.empty(shape, dtype)


class Case:
    """A problem: views of host ghosts stand for device arrays, numbered by `array`."""

    def __init__(self, bench):
        self.bench = bench
        self.numbers = {}

    def array(self, shape, dtype=F4):
        base = ghost(int(np.prod(shape)), dtype)
        self.numbers[base.__array_interface__["data"][0]] = (len(self.numbers), base)
        return base.reshape(shape)

    def bind(self, view):
        root = view
        while isinstance(root.base, np.ndarray):
            root = root.base
        number, base = self.numbers[root.__array_interface__["data"][0]]
        pointer = self.bench.buffer(view.dtype, base.size, number)
        pointer += view.__array_interface__["data"][0] - root.__array_interface__["data"][0]
        strides = tuple(step // view.itemsize for step in view.strides)
        return Operand(from_dtype(view.dtype), strides, min(MAX_ALIGNMENT, pointer & -pointer)), pointer

    def bind_inputs(self, inputs):
        operands, arguments = [], []
        for x in inputs:
            is_array = isinstance(x, np.ndarray)
            operand, argument = self.bind(x) if is_array else (ScalarOperand(from_dtype(x.dtype)), x.item())
            operands.append(operand)
            arguments.append(argument)
        return operands, arguments

    def elementwise(self, inputs, instrs, out, value=None):
        operands, arguments = self.bind_inputs(inputs)
        target, pointer = self.bind(out)
        value = len(inputs) + len(instrs) - 1 if value is None else value
        plan = elementwise.plan(out.shape, operands, instrs, [Output(value, target)], self.bench.capability)
        return Prepared(self.bench.backend, plan, [pointer], arguments)

    def reduce(self, x, axes, op):
        operands, arguments = self.bind_inputs([x])
        kept = tuple(n for d, n in enumerate(x.shape) if d not in axes)
        dtype = F8 if op.acc is f64 and x.dtype == F8 else x.dtype if x.dtype.kind == "f" else np.dtype("i8")
        target, pointer = self.bind(self.array(kept or (1,), dtype).reshape(kept))
        plan = reduce.plan(x.shape, axes, operands, [], 0, op, target, self.bench.capability)
        return Prepared(self.bench.backend, plan, [pointer], arguments)


def multiply_add(case, n=N4, dtype=F4):
    a, b, c, out = (case.array(n, dtype) for _ in range(4))
    t = from_dtype(dtype)
    return case.elementwise([a, b, c], [Instr(MUL, t, (0, 1)), Instr(ADD, t, (3, 2))], out), 4 * n * dtype.itemsize


def norm(case):
    x, y, z, out = (case.array(N4) for _ in range(4))
    steps = [(MUL, 0, 0), (MUL, 1, 1), (ADD, 4, 5), (sqrt, 6), (ADD, 2, 3), (DIV, 7, 8)]
    instrs = [Instr(f, f32, tuple(args)) for f, *args in steps]
    return case.elementwise([x, y, z, np.float32(1)], instrs, out), 16 * N4


def copy(case, make_view, shape, dtype=F4, sectors=1.0):
    """Copy a view to a new array; `sectors` is the number of bytes read per byte wanted."""
    x = case.array(shape, dtype)
    view = make_view(x)
    out = case.array(view.shape, dtype)
    return case.elementwise([view], [], out), int(view.size * dtype.itemsize * (1 + sectors))


def with_mean(case, axis):
    x, m, out = case.array((ROWS, COLUMNS)), case.array((ROWS, COLUMNS)[1 - axis]), case.array((ROWS, COLUMNS))
    mean = np.broadcast_to(m[:, None] if axis == 1 else m, (ROWS, COLUMNS))
    return case.elementwise([x, mean], [Instr(SUB, f32, (0, 1))], out), 8 * ROWS * COLUMNS


def plus_transposed(case):
    x, y, out = (case.array((SIDE, SIDE)) for _ in range(3))
    return case.elementwise([x.T, y], [Instr(ADD, f32, (0, 1))], out), 12 * SIDE * SIDE


def stencil(case, dtype=F8):
    u, v = case.array((SIDE, SIDE), dtype), case.array((SIDE, SIDE), dtype)
    views = [u[1:-1, 1:-1], u[:-2, 1:-1], u[2:, 1:-1], u[1:-1, :-2], u[1:-1, 2:]]
    t = from_dtype(dtype)
    steps = [(ADD, 1, 2), (ADD, 7, 3), (ADD, 8, 4), (MUL, 5, 0), (SUB, 9, 10), (MUL, 6, 11), (ADD, 0, 12)]
    instrs = [Instr(f, t, tuple(args)) for f, *args in steps]
    run = case.elementwise([*views, dtype.type(4), dtype.type(0.2)], instrs, v[1:-1, 1:-1])
    return run, dtype.itemsize * (SIDE * SIDE - 4 + (SIDE - 2) ** 2)


def compare(case):
    a, b = case.array(N4), case.array(N4)
    return case.elementwise([a, b], [Instr(LT, pred, (0, 1))], case.array(N4, B1)), 9 * N4


def fill(case):
    return case.elementwise([np.float32(3)], [], case.array(N4)), 4 * N4


def arange(case):
    return case.elementwise([], [Instr(index_as_f64, f64, ())], case.array(N8, F8)), 8 * N8


def reduction(case, make_op, shape, axes, dtype=F4):
    x = case.array(shape, dtype)
    return case.reduce(x, axes, make_op(dtype)), x.nbytes


def transpose(x):
    return x.T


# Every other dtype, 512 MB each: what narrow and wide elements make of the bandwidth.
OTHERS = {
    f"{what} {dtype} 512 MB": (
        lambda c, run=run, dtype=dtype: run(c, np.dtype(dtype), 2**29 // np.dtype(dtype).itemsize)
    )
    for dtype in ("i1", "i2", "u8", "f2", "c8", "c16")
    for what, run in {
        "copy": lambda c, dtype, n: copy(c, lambda x: x, n, dtype),
        "a*b+c": lambda c, dtype, n: multiply_add(c, n // 4, dtype),
        "sum": lambda c, dtype, n: reduction(c, sum_op, (n,), (0,), dtype),
        "sum axis 0": lambda c, dtype, n: reduction(c, sum_op, (n // 8192, 8192), (0,), dtype),
        "transposed": lambda c, dtype, n: copy(c, transpose, (n // 8192, 8192), dtype),
    }.items()
}


CASES = {
    "a*b+c f32 2^27": multiply_add,
    "sqrt(x*x+y*y)/(z+1) f32 2^27": norm,
    "copy f32 2^27": lambda c: copy(c, lambda x: x, N4),
    "copy f64 2^26": lambda c: copy(c, lambda x: x, N8, F8),
    "copy bool 2^29": lambda c: copy(c, lambda x: x, 2**29, B1),
    "a<b f32 2^27": compare,
    "fill f32 2^27": fill,
    "arange f64 2^26": arange,
    "a*b+c f32 32768": lambda c: multiply_add(c, 32768),
    "a*b+c f32 2^20": lambda c: multiply_add(c, 2**20),
    "transposed f32 8192x16384": lambda c: copy(c, transpose, (ROWS, COLUMNS)),
    "transposed f64 8192x8192": lambda c: copy(c, transpose, (SIDE, SIDE), F8),
    "transposed bool 16384x16384": lambda c: copy(c, transpose, (COLUMNS, COLUMNS), B1),
    "transposed f32 8191x16383": lambda c: copy(c, transpose, (ROWS - 1, COLUMNS - 1)),
    "x.T + y f32 8192x8192": plus_transposed,
    "x[::2] f32 2^27": lambda c: copy(c, lambda x: x[::2], N4, sectors=2),
    "x[::3] f32 2^27": lambda c: copy(c, lambda x: x[::3], N4, sectors=3),
    "x[::5] f32 2^27": lambda c: copy(c, lambda x: x[::5], N4, sectors=5),
    "x[::-1] f32 2^27": lambda c: copy(c, lambda x: x[::-1], N4),
    "x[1:] f32 2^27": lambda c: copy(c, lambda x: x[1:], N4),
    "x[:, ::2] f32": lambda c: copy(c, lambda x: x[:, ::2], (ROWS, COLUMNS), sectors=2),
    "x[::2] f32 rows": lambda c: copy(c, lambda x: x[::2], (ROWS, COLUMNS)),
    "x[1:-1, 1:-1] f32": lambda c: copy(c, lambda x: x[1:-1, 1:-1], (ROWS, COLUMNS)),
    "x[:, 4:-4] f32": lambda c: copy(c, lambda x: x[:, 4:-4], (ROWS, COLUMNS)),
    "x[:, :3] f32 of 2^25x4": lambda c: copy(c, lambda x: x[:, :3], (2**25, 4), sectors=4 / 3),
    "x.transpose(2,0,1) f32": lambda c: copy(c, lambda x: x.transpose(2, 0, 1), (512, 512, 512)),
    "x.transpose(1,0,2) f32": lambda c: copy(c, lambda x: x.transpose(1, 0, 2), (512, 512, 512)),
    "x - m[:, None] f32": lambda c: with_mean(c, 1),
    "x - m[None, :] f32": lambda c: with_mean(c, 0),
    "stencil f64 8192^2": stencil,
    "stencil f32 8192^2": lambda c: stencil(c, F4),
    "sum f32 2^27": lambda c: reduction(c, sum_op, (N4,), (0,)),
    "max f32 2^27": lambda c: reduction(c, max_op, (N4,), (0,)),
    "sum f64 2^26": lambda c: reduction(c, sum_op, (N8,), (0,), F8),
    "max f64 2^26": lambda c: reduction(c, max_op, (N8,), (0,), F8),
    "sum i32 2^27": lambda c: reduction(c, sum_op, (N4,), (0,), I4),
    "sum bool 2^29": lambda c: reduction(c, sum_op, (2**29,), (0,), B1),
    "sum axis 1 f32 8192x16384": lambda c: reduction(c, sum_op, (ROWS, COLUMNS), (1,)),
    "sum axis 0 f32 8192x16384": lambda c: reduction(c, sum_op, (ROWS, COLUMNS), (0,)),
    "max axis 1 f32 8192x16384": lambda c: reduction(c, max_op, (ROWS, COLUMNS), (1,)),
    "max axis 0 f32 8192x16384": lambda c: reduction(c, max_op, (ROWS, COLUMNS), (0,)),
    "sum axis 1 f32 2^20x128": lambda c: reduction(c, sum_op, (2**20, 128), (1,)),
    "sum axis 1 f32 131000x1000": lambda c: reduction(c, sum_op, (131000, 1000), (1,)),
    "sum axis 1 f32 32000x4096": lambda c: reduction(c, sum_op, (32000, 4096), (1,)),
    "sum axis 1 f32 2^22x32": lambda c: reduction(c, sum_op, (2**22, 32), (1,)),
    "sum axis 1 f32 2^25x4": lambda c: reduction(c, sum_op, (2**25, 4), (1,)),
    "sum axis 0 f32 2^25x4": lambda c: reduction(c, sum_op, (2**25, 4), (0,)),
    "sum axis 0,2 f32 512^3": lambda c: reduction(c, sum_op, (512, 512, 512), (0, 2)),
    "sum axis 1 f32 512^3": lambda c: reduction(c, sum_op, (512, 512, 512), (1,)),
    "sum f32 32768": lambda c: reduction(c, sum_op, (32768,), (0,)),
    "sum f32 2^20": lambda c: reduction(c, sum_op, (2**20,), (0,)),
    "sum f64 2^16": lambda c: reduction(c, sum_op, (2**16,), (0,), F8),
    **OTHERS,
}


def cupy_times(pattern):
    """Return CuPy's median event times in ms, by case."""
    cp = importlib.import_module("cupy")
    make = {
        "a*b+c f32 2^27": lambda: (lambda a, b, c: a * b + c, [cp.random.random(N4, cp.float32) for _ in range(3)]),
        "sum f32 2^27": lambda: (cp.sum, [cp.random.random(N4, cp.float32)]),
        "max f32 2^27": lambda: (cp.max, [cp.random.random(N4, cp.float32)]),
        "sum f64 2^26": lambda: (cp.sum, [cp.random.random(N8)]),
        "max f64 2^26": lambda: (cp.max, [cp.random.random(N8)]),
        "sum axis 1 f32 8192x16384": lambda: (lambda x: x.sum(1), [cp.random.random((ROWS, COLUMNS), cp.float32)]),
        "sum axis 0 f32 8192x16384": lambda: (lambda x: x.sum(0), [cp.random.random((ROWS, COLUMNS), cp.float32)]),
        "transposed f32 8192x16384": lambda: (
            lambda x: cp.ascontiguousarray(x.T),
            [cp.random.random((ROWS, COLUMNS), cp.float32)],
        ),
        "x[::2] f32 2^27": lambda: (lambda x: cp.ascontiguousarray(x[::2]), [cp.random.random(N4, cp.float32)]),
    }
    times = {}
    for name, build in make.items():
        if not pattern.search(name):
            continue
        function, arrays = build()
        samples = []
        for _ in range(REPEATS + 3):
            start, end = cp.cuda.Event(), cp.cuda.Event()
            start.record()
            function(*arrays)
            end.record()
            end.synchronize()
            samples.append(cp.cuda.get_elapsed_time(start, end))
        times[name] = statistics.median(samples[3:])
        del arrays
        cp.get_default_memory_pool().free_all_blocks()
    return times


def copy_rate(bench):
    """Return bytes read and written per ms by the driver's device-to-device copy."""
    nbytes = 4 * N4
    source, target = (bench.buffer(F4, N4, number) for number in range(2))
    return 2 * nbytes / bench.median_ms(lambda: bench.backend.copy(target, source, nbytes))


def measure(bench, pattern):
    """Yield name, ms and bytes of every case whose name matches."""
    for name, build in CASES.items():
        if pattern.search(name):
            run, nbytes = build(Case(bench))
            yield name, bench.median_ms(run, 1 if nbytes > 2**25 else 20), nbytes


def main():
    pattern = re.compile(sys.argv[1] if len(sys.argv) > 1 else "")
    bench = Bench()
    rate = copy_rate(bench)
    sys.stdout.write(f"{bench.capability.device_name}: copy {rate / 1e6:.0f} GB/s\n")
    rows = list(measure(bench, pattern))
    try:
        peers = cupy_times(pattern)
    except ImportError:
        peers = {}
    for name, ms, nbytes in rows:
        peer = f"{peers[name]:9.4f}" if name in peers else " " * 9
        figures = f"{ms:9.4f} ms {nbytes / ms / 1e6:7.0f} GB/s {nbytes / ms / rate:6.2f} of copy {peer}"
        sys.stdout.write(f"{name:32s} {figures}\n")


if __name__ == "__main__":
    main()

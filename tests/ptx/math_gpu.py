"""Elementary functions on a GPU: ``python -m tests.ptx.math_gpu [REGEX]``. Needs CuPy, which compiles the judges.

For every function whose name matches it prints

* ``f32``: the largest error over all 2**32 arguments (functions of two: 2**30 pairs), in units in the last place of the
  true value, and the argument. The true value is CUDA's own function in double precision.
* ``f64``: the largest distance from CUDA's own function over 3 * 2**26 random arguments. CUDA's error, of 1 to 2, is
  part of it.
* ``mpmath``: the largest error of f64 over some thousand arguments, against multiple precision.
* milliseconds for 2**27 f32 and 2**26 f64, as elementwise kernels, with CuPy's beside. The first line says what a copy
  takes.

Bounds: 1 for ``f32`` and ``mpmath``, 3.5 for ``f64``. The last line says PASS, or names what is beyond.
"""

import importlib
import re
import statistics
import struct
import sys
import time
from itertools import repeat

import numpy as np

from asv_benchmarks.kernels.families import F4, F8, N4, N8, Bench, Case
from oxinp._kernels.problem import Instr
from oxinp._ptx import Builder
from oxinp._ptx.types import f32, f64
from tests.ptx.elementary import FUNCTIONS, arguments, distance, exact_values

CHUNK = 2**28
BLOCK = 256
DOUBLES = 2**26
BOUNDS = {"f32": 1.0, "f64": 3.5, "mpmath": 1.0}

JUDGE = r"""
typedef unsigned long long u64;

__device__ double distance(double got, double exact, double unit, int lowest, int highest, int digits) {
    double inf = __longlong_as_double(0x7ff0000000000000ll);
    if (isnan(exact)) return isnan(got) ? 0 : inf;
    if (isnan(got) || (signbit(got) != signbit(exact) && unit == 0)) return inf;
    if (isinf(exact)) return got == exact ? 0 : inf;
    int exponent = min(max(ilogb(fmax(fabs(exact), unit)), lowest), highest);
    if (isinf(got) || fabs(exact) > ldexp(1.0, highest) * 2) {
        // compared at half the size, where the number beyond the largest one exists
        double top = ldexp(1.0, highest);
        double a = isinf(got) ? copysign(top, got) : got / 2, b = exact / 2;
        return fabs(a - (fabs(b) > top ? copysign(top, b) : b)) / ldexp(1.0, highest - 1 - digits);
    }
    return ldexp(fabs(got - exact), digits - exponent);
}

// CuPy compiles with -ftz=true, so conversions of subnormal f32 would give 0
__device__ double widened(const float* place) {
    unsigned bits = *(const unsigned*)place, magnitude = bits & 0x7fffffffu;
    double value = magnitude < 0x00800000u ? ldexp((double)magnitude, -149) : (double)fabsf(*place);
    return bits >> 31 ? -value : value;
}

__device__ void keep(double error, u64 place, u64* worst) {
    // the error as float bits above, the place below
    u64 word = ((u64)__float_as_uint((float)error) << 32) | (place & 0xffffffffull);
    for (int step = 16; step; step /= 2) {
        u64 other = __shfl_xor_sync(0xffffffffu, word, step);
        word = word > other ? word : other;
    }
    if ((threadIdx.x & 31) == 0 && word >> 32) atomicMax(worst, word);
}

__device__ unsigned mixed(u64 z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return (unsigned)(z >> 32);
}

extern "C" __global__ void scramble(unsigned* out, u64 seed) {
    u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = mixed((i + 1 + (seed << 40)) * 0x9e3779b97f4a7c15ull);
}
"""

JUDGE_OF = r"""
extern "C" __global__ void single_NAME(const float* got, const float* xs, const float* ys, u64* worst) {
    u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    double x = widened(xs + i), y = widened(ys + i);
    keep(distance(widened(got + i), EXACT, UNIT, -126, 127, 23), i, worst);
}

extern "C" __global__ void double_NAME(const double* got, const double* xs, const double* ys, u64* worst) {
    u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    double x = xs[i], y = ys[i];
    keep(distance(got[i], EXACT, UNIT, -1022, 1023, 52), i, worst);
}
"""


UNITS = {False: "0.0", True: "fabs(fmax(x, y))"}


class Judges:
    """Functions on the GPU, and the kernels that hold them against CUDA's."""

    def __init__(self, functions):
        self.cupy = importlib.import_module("cupy")
        source = JUDGE + "".join(
            JUDGE_OF.replace("NAME", function.name)
            .replace("EXACT", function.cuda)
            .replace("UNIT", UNITS[function.cancels])
            for function in functions
        )
        self.module = self.cupy.RawModule(code=source, options=("--std=c++14",))
        self.bench = Bench()

    def ours(self, function, type, out, *inputs):
        """Compute a function over CuPy arrays."""
        k = Builder(f"{function.name}_{type}", block=BLOCK)
        target = k.pointer("out", type, "w")
        pointers = [k.pointer(f"in{i}", type, "r") for i in range(function.num_args)]
        i = k.ctaid * k.ntid + k.tid
        target[i] = function.ours(k, *[pointer[i] for pointer in pointers])
        self.cupy.cuda.Device().synchronize()
        arguments = [array.data.ptr for array in (out, *inputs[: function.num_args])]
        self.bench.backend.launcher(k.build(), (out.size // BLOCK, 1, 1), len(arguments), ())(*arguments)
        self.bench.backend.synchronize()

    def judge(self, function, prefix, out, *inputs):
        """Return the largest error and the index where it is."""
        worst = self.cupy.zeros(1, np.uint64)
        kernel = self.module.get_function(f"{prefix}_{function.name}")
        kernel((out.size // BLOCK,), (BLOCK,), (out, inputs[0], inputs[-1], worst))
        word = int(worst[0])
        return struct.unpack("f", struct.pack("I", word >> 32))[0], word & 0xFFFFFFFF

    def random(self, size, seed):
        """Return `size` random words."""
        words = self.cupy.empty(size, np.uint32)
        self.module.get_function("scramble")((size // BLOCK,), (BLOCK,), (words, np.uint64(seed)))
        return words

    def single(self, function):
        """Return the worst of all f32 arguments, or of 2**30 pairs: error and arguments."""
        cupy, results = self.cupy, []
        out = cupy.empty(CHUNK, np.float32)
        for chunk in range(16 if function.num_args == 1 else 4):
            if function.num_args == 1:
                inputs = [(cupy.arange(CHUNK, dtype=np.uint32) + np.uint32(chunk * CHUNK)).view(np.float32)]
            else:
                inputs = [self.single_arguments(2 * chunk + i, chunk % 2) for i in range(2)]
            self.ours(function, f32, out, *inputs)
            error, place = self.judge(function, "single", out, *inputs)
            results.append((error, *[float(x[place]) for x in inputs]))
        return max(results, key=lambda result: result[0])

    def single_arguments(self, seed, moderate):
        """Return random bits, or numbers of moderate exponent: those of the bits with less of it."""
        words = self.random(CHUNK, seed + 1)
        if moderate:
            words = (words & np.uint32(0x87FFFFFF)) | np.uint32(0x38000000)
        return words.view(np.float32)

    def double(self, function):
        """Return the worst of random f64 arguments: error and arguments."""
        cupy, results = self.cupy, []
        out = cupy.empty(DOUBLES, np.float64)
        for kind in range(3):
            inputs = []
            for i in range(function.num_args):
                words = self.random(2 * DOUBLES, 100 + 10 * i + kind).view(np.uint64)
                if kind == 0:
                    inputs.append(words.view(np.float64))
                elif kind == 1:  # exponents from -32 to 31
                    bits = (words & np.uint64(0x83FFFFFFFFFFFFFF)) + np.uint64(0x3DF0000000000000)
                    inputs.append(bits.view(np.float64))
                else:
                    inputs.append((words >> np.uint64(11)).astype(np.float64) * 2.0**-49 - 8)
            self.ours(function, f64, out, *inputs)
            error, place = self.judge(function, "double", out, *inputs)
            results.append((error, *[float(x[place]) for x in inputs]))
        return max(results, key=lambda result: result[0])

    def exact(self, function, num=700):
        """Return the worst of f64 arguments against multiple precision."""
        args = [np.resize(arg, -(-len(arg) // BLOCK) * BLOCK) for arg in arguments(function, np.float64, num, seed=7)]
        size = len(args[0])
        out = self.cupy.empty(size, np.float64)
        self.ours(function, f64, out, *[self.cupy.asarray(arg) for arg in args])
        wanted = exact_values(function, *args)
        errors = list(map(distance, out.get(), wanted, repeat(np.float64), function.unit(args)))
        place = int(np.argmax(errors))
        return errors[place], *[float(arg[place]) for arg in args]

    def times(self, function):
        """Return ms of 2**27 f32 and 2**26 f64, and CuPy's."""
        result = []
        for dtype, type, size in ((F4, f32, N4), (F8, f64, N8)):
            case = Case(self.bench)
            inputs = [case.array(size, dtype) for _ in range(function.num_args)]
            instrs = [Instr(function.ours, type, tuple(range(function.num_args)))]
            result += [self.bench.median_ms(case.elementwise(inputs, instrs, case.array(size, dtype)))]
            result += [self.cupys(getattr(self.cupy, function.name), size, dtype, function.num_args)]
        return result

    def cupys(self, ufunc, size, dtype, num_args):
        """Return CuPy's ms."""
        cupy = self.cupy
        inputs = [cupy.random.random(size, dtype) * dtype.type(100) for _ in range(num_args)]
        out, samples = cupy.empty(size, dtype), []
        for _ in range(10):
            start, end = cupy.cuda.Event(), cupy.cuda.Event()
            start.record()
            ufunc(*inputs, out)
            end.record()
            end.synchronize()
            samples.append(cupy.cuda.get_elapsed_time(start, end))
        return statistics.median(samples[2:])

    def chain_ms(self):
        """Return ms of ``sqrt(x*x + y*y) * sin(z)``, f32, 2**27."""
        sine = next(function.ours for function in FUNCTIONS if function.name == "sin")
        case = Case(self.bench)
        steps = [
            (lambda _, a, b: a * b, (0, 0)),
            (lambda _, a, b: a * b, (1, 1)),
            (lambda _, a, b: a + b, (3, 4)),
            (lambda k, a: k.sqrt(a), (5,)),
            (sine, (2,)),
            (lambda _, a, b: a * b, (6, 7)),
        ]
        instrs = [Instr(lower, f32, args) for lower, args in steps]
        return self.bench.median_ms(case.elementwise([case.array(N4) for _ in range(3)], instrs, case.array(N4)))

    def copy_ms(self):
        """Return ms of copying 2**29 bytes."""
        source, target = (self.bench.buffer(F4, N4, number) for number in range(2))
        return self.bench.median_ms(lambda: self.bench.backend.copy(target, source, 4 * N4))


def shown(result):
    error, *args = result
    return f"{error:9.4f} at {', '.join(f'{x:.9g}' for x in args):24s}"


def main(pattern):
    functions = [function for function in FUNCTIONS if re.search(pattern, function.name)]
    judges, beyond, began = Judges(functions), [], time.perf_counter()
    write = sys.stdout.write
    write(f"{judges.bench.capability.device_name}: copy of 512 MiB {judges.copy_ms():.3f} ms, ")
    write(f"sqrt(x*x+y*y)*sin(z) f32 2**27 {judges.chain_ms():.3f} ms (to reach: 0.55)\n")
    for function in functions:
        results = {
            "f32": judges.single(function),
            "f64": judges.double(function),
            "mpmath": judges.exact(function),
        }
        beyond += [f"{function.name} {kind}" for kind, result in results.items() if not result[0] <= BOUNDS[kind]]
        mine32, peer32, mine64, peer64 = judges.times(function)
        write(f"{function.name:10s} " + " ".join(f"{kind} {shown(result)}" for kind, result in results.items()))
        write(f" ms {mine32:.3f} (CuPy {peer32:.3f}) {mine64:.3f} (CuPy {peer64:.3f})\n")
        judges.cupy.get_default_memory_pool().free_all_blocks()
    write(f"{time.perf_counter() - began:.0f} s. {'Beyond the bound: ' + ', '.join(beyond) if beyond else 'PASS'}\n")
    return len(beyond)


if __name__ == "__main__":
    sys.exit(bool(main(sys.argv[1] if len(sys.argv) > 1 else "")))

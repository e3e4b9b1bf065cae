"""What a fresh process pays: importing, and the first kernel."""

import json
import os
import subprocess
import sys

from asv_benchmarks import requirement
from asv_benchmarks.case import ValueCase

IMPORT = """
import time
start = time.perf_counter()
import {name}
print(1e3 * (time.perf_counter() - start))
"""

# What any program pays before its first kernel: starting the driver and making the primary context.
START = """
import ctypes, sys, time

start = time.perf_counter()
driver = ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
device, context = ctypes.c_int(), ctypes.c_void_p()
assert driver.cuInit(0) == 0
assert driver.cuDeviceGet(ctypes.byref(device), 0) == 0
assert driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device) == 0
assert driver.cuCtxSetCurrent(context) == 0
print(1e3 * (time.perf_counter() - start))
"""

FIRST_KERNEL = """
import time
import numpy
import {name} as xp

host = numpy.arange(32768, dtype="float32")
start = time.perf_counter()
x = xp.asarray(host)
y = (x * 2 + 1) * x
first = float(y[77])
elapsed = time.perf_counter() - start
assert first == 155 * 77, first
print(1e3 * elapsed)
"""


def in_fresh_process(script):
    """Run a script in a new interpreter that finds the same packages; return the number it prints last.

    Bytecode is cached, as for any installed package, whatever this process does.
    """
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        raise RuntimeError(done.stderr.strip().rsplit("\n", 1)[-1])
    return json.loads(done.stdout.rsplit("\n", 2)[-2])


class Import(ValueCase):
    """`import oxinp` in a fresh interpreter, NumPy's own import included."""

    is_of_device = False
    peers = ("numpy", "cupy")
    rounds = 9

    def measure(self, side):
        return in_fresh_process(IMPORT.format(name=side.name))

    def requirements(self):
        return (requirement.at_most_above("numpy", 50, "ms", needs_gpu=False),)


class FirstKernel(ValueCase):
    """The first result of a kernel in a second process (upload, chain, one element), less the start of the driver.

    The start is timed in a process of its own right before, by the bare driver calls.
    """

    peers = ("cupy",)
    rounds = 9

    def measure(self, side):
        start = in_fresh_process(START) if side.backend == "cuda" else 0.0
        return in_fresh_process(FIRST_KERNEL.format(name=side.name)) - start

    def requirements(self):
        return (requirement.at_most(10, "ms"),)

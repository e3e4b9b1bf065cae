"""Memory: a long loop ends where it began, and a fused chain holds its inputs and one output."""

import gc
import sys

from asv_benchmarks import requirement
from asv_benchmarks.case import ValueCase, random_array
from asv_benchmarks.sides import NotApplicableError

# A block per operation would be 100,000; caches that fill once may keep a few.
ALLOWED_PYTHON_BLOCKS = 2000


def mixed_operations(x, y, count):
    """Run about `count` operations of every kind on device arrays: fused, reduced, sliced, written in place."""
    for i in range(count // 10):
        z = (x + y) * x - y  # 3
        z[1:-1] = x[2:] * 2  # 3
        z += y  # 1
        total = z.sum()  # 1
        x[i % 64] = total / (total + 1)  # 2, without growth


class MixedLoop(ValueCase):
    """What is left after `operations` mixed operations: device bytes, and the interpreter's memory blocks."""

    params = (("device bytes", "python blocks"), (100_000,))
    quick_params = (("device bytes", "python blocks"), (50,))
    param_names = ("what", "operations")
    peers = ()
    rounds = 1
    unit = "left"

    def measure(self, side, what, operations):
        x, y = (side.asarray(random_array(32768, "float32", seed)) for seed in range(2))
        mixed_operations(x, y, min(operations, 1000))  # fills the caches
        before = self.used(side, what)
        mixed_operations(x, y, operations)
        return self.used(side, what) - before

    @staticmethod
    def used(side, what):
        """Return what is in use once everything is done."""
        side.synchronize()
        gc.collect()
        return sys.getallocatedblocks() if what == "python blocks" else side.device_nbytes() or 0

    def requirements(self, what, operations):
        del operations
        return (requirement.at_most(ALLOWED_PYTHON_BLOCKS if what == "python blocks" else 0, what),)


class ChainPeak(ValueCase):
    """The most a chain of 4 operations adds to its inputs, in bytes; one output is `nbytes`."""

    params = ((256 << 20,),)
    quick_params = ((1 << 17,),)
    param_names = ("nbytes",)
    rounds = 3
    unit = "bytes"

    def measure(self, side, nbytes):
        if side.peak_device_nbytes() is None:
            raise NotApplicableError(f"{side.name} on {side.backend} does not know its peak")
        leaves = [side.asarray(random_array(nbytes // 4, "float32", seed)) for seed in range(3)]
        a, b, c = leaves
        side.synchronize()
        side.reset_peak()
        before = side.device_nbytes()
        result = (a * b + c) * a - b
        if side.materialise is not None:
            side.materialise(result)
        side.synchronize()
        return side.peak_device_nbytes() - before

    def requirements(self, nbytes):
        return (requirement.at_most(nbytes, "bytes"),)

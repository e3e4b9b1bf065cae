"""What small arrays and element loops cost: these stay on the host and should cost little more than NumPy."""

import numpy as np

from asv_benchmarks import requirement
from asv_benchmarks.case import HostCase, ValueCase, random_array

MILLISECONDS = 1e3


class Small(HostCase):
    """One operation on arrays of 16 elements."""

    params = (("add", "sum", "item", "slice"),)
    param_names = ("operation",)
    peers = ("numpy",)
    burst = quick_burst = 5000

    def iteration(self, side, operation):
        a, b = (side.asarray(random_array(16, "float64", seed)) for seed in range(2))
        return {
            "add": lambda: a + b,
            "sum": a.sum,
            "item": lambda: a[3],
            "slice": lambda: a[2:9],
        }[operation]

    def requirements(self, operation):
        return (requirement.at_most_above("numpy", 0.6, "us"),) if operation == "add" else ()


class ElementLoop(ValueCase):
    """`for i in range(n): x[i] = x[i] + 1` over an array that lives on the device."""

    params = ((1 << 20,),)
    quick_params = ((1 << 17,),)
    param_names = ("nbytes",)
    peers = ("numpy",)

    def measure(self, side, nbytes):
        host = random_array(nbytes // 8, "float64")
        x = side.asarray(host) * 1  # on the device, and nowhere else
        if side.materialise is not None:
            side.materialise(x)
        side.synchronize()
        start = self.clock()
        for i in range(host.size):
            x[i] = x[i] + 1
        side.synchronize()
        elapsed = self.clock() - start
        assert np.array_equal(side.to_host(x), host + 1)
        return MILLISECONDS * elapsed

    def requirements(self, nbytes):
        del nbytes
        return (requirement.ratio("numpy", 0.1),)

"""An ordinary (pageable) NumPy array to the device and back."""

import numpy as np

from asv_benchmarks import requirement
from asv_benchmarks.case import ValueCase, random_array

MILLISECONDS = 1e3


class Transfer(ValueCase):
    """The whole of a one-way copy, until the data is there."""

    params = ((1 << 30,),)
    quick_params = ((1 << 17,),)
    param_names = ("nbytes",)
    least_bytes_per_s = 25e9

    def requirements(self, nbytes):
        return (requirement.throughput(nbytes, self.least_bytes_per_s),)


class ToDevice(Transfer):
    """`asarray(host)`."""

    def measure(self, side, nbytes):
        host = random_array(nbytes // 4, "float32")
        before = side.transferred_nbytes()
        start = self.clock()
        x = side.asarray(host)
        if side.materialise is not None:
            side.materialise(x)
        side.synchronize()
        elapsed = self.clock() - start
        if before is not None:
            assert side.transferred_nbytes()[0] - before[0] == nbytes, "the array did not go to the device"
        return MILLISECONDS * elapsed


class ToHost(Transfer):
    """The array on the device into a fresh NumPy array."""

    def measure(self, side, nbytes):
        host = random_array(nbytes // 4, "float32")
        x = side.asarray(host) * 2  # on the device, and nowhere else
        if side.materialise is not None:
            side.materialise(x)
        side.synchronize()
        before = side.transferred_nbytes()
        start = self.clock()
        back = side.to_host(x)
        elapsed = self.clock() - start
        if before is not None:
            assert side.transferred_nbytes()[1] - before[1] == nbytes, "the array did not come from the device"
        assert np.array_equal(back[:: nbytes // 512], host[:: nbytes // 512] * 2)
        return MILLISECONDS * elapsed

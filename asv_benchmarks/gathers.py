"""Elements by index and by mask."""

import numpy as np

from asv_benchmarks import requirement
from asv_benchmarks.case import DeviceCase, random_array


class Gather(DeviceCase):
    """Elements at random indices, rows at random indices, elements with a true mask, their indices."""

    params = (("elements", "rows", "mask", "flatnonzero", "fill"), (2**26,))
    quick_params = (("elements", "rows", "mask", "flatnonzero", "fill"), (2**14,))
    param_names = ("form", "n")

    def inputs(self, form, n):
        rng = np.random.default_rng(0)
        x = random_array(n, "float32")
        if form == "elements":
            return [x, rng.integers(0, n, n // 4)]
        if form == "rows":
            return [x.reshape(-1, 64), rng.integers(0, n // 64, n // 128)]
        return [x, x > 1]

    def body(self, xp, arrays, form, n):
        del n
        x, key = arrays
        if form == "flatnonzero":
            return xp.flatnonzero(key)
        if form == "fill":
            x[key] = 1
            return x
        return x[key]

    def requirements(self, form, n):
        del form, n
        return (requirement.ratio("cupy", 1.0),)

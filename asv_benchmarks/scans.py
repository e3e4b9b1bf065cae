"""Cumulative sums and their kin: limited by one read and one write of the array."""

import numpy as np

from asv_benchmarks import requirement
from asv_benchmarks.case import DeviceCase, random_array


class Scan(DeviceCase):
    """A scan of a vector."""

    params = (("cumsum", "cumprod"), ("float32", "float64", "int32", "complex64"), (2**29,))
    quick_params = (("cumsum", "cumprod"), ("float32", "int32"), (80_000,))
    param_names = ("operation", "dtype", "nbytes")

    def inputs(self, operation, dtype, nbytes):
        dtype = np.dtype(dtype)
        real = {"c": "float32"}.get(dtype.kind, dtype) if dtype.kind != "i" else "float32"
        values = random_array(nbytes // dtype.itemsize, np.dtype(real).name)
        if operation == "cumprod":  # products that neither overflow nor vanish
            values = np.where(values > 1, np.float32(2), np.float32(0.5)).astype(real)
            values[1::2] = 1 / values[::2][: values[1::2].size]
        return [values.astype(dtype)]

    def body(self, xp, arrays, operation, dtype, nbytes):
        del nbytes
        return getattr(xp, operation)(arrays[0], dtype=dtype)

    def nbytes_moved(self, operation, dtype, nbytes):
        del operation, dtype
        return 2 * nbytes

    def requirements(self, operation, dtype, nbytes):
        del operation, dtype, nbytes
        return (requirement.ratio("cupy", 1.0),)


class MatrixScan(DeviceCase):
    """A cumulative sum of a C-ordered matrix along one axis."""

    params = (("float32", "float64"), (0, 1), ((8192, 16384), (2**22, 32), (2**20, 128)))
    quick_params = (("float32",), (0, 1), ((140, 150),))
    param_names = ("dtype", "axis", "shape")

    def inputs(self, dtype, axis, shape):
        del axis
        return [random_array(shape, dtype)]

    def body(self, xp, arrays, dtype, axis, shape):
        del dtype, shape
        return xp.cumsum(arrays[0], axis=axis)

    def nbytes_moved(self, dtype, axis, shape):
        del axis
        return 2 * np.dtype(dtype).itemsize * shape[0] * shape[1]

    def requirements(self, dtype, axis, shape):
        del dtype, axis, shape
        return (requirement.ratio("cupy", 1.0),)

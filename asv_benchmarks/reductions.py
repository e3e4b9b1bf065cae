"""Reductions over everything and over either axis of a matrix: limited by one read of the array."""

import math

import numpy as np

from asv_benchmarks import requirement
from asv_benchmarks.case import DeviceCase, random_array

ITEMSIZE = {"float32": 4, "float64": 8}
# What to reach over CuPy by axis: it reads rows at full speed, columns badly.
LEAST_RATIO = {0: 1.5, 1: 0.98}


class Vector(DeviceCase):
    """A reduction of a whole vector."""

    params = (("sum", "max"), ("float32", "float64"), (2**29,))
    quick_params = (("sum", "max"), ("float32", "float64"), (80_000,))
    param_names = ("operation", "dtype", "nbytes")

    def inputs(self, operation, dtype, nbytes):
        del operation
        return [random_array(nbytes // ITEMSIZE[dtype], dtype)]

    def body(self, xp, arrays, operation, dtype, nbytes):
        del dtype, nbytes
        return getattr(xp, operation)(arrays[0])

    def nbytes_moved(self, operation, dtype, nbytes):
        del operation, dtype
        return nbytes

    def requirements(self, operation, dtype, nbytes):
        del operation, dtype, nbytes
        return (requirement.ratio("cupy", 0.98),)


class Wide(Vector):
    """Averages, indices and truth of a whole vector: as fast as a sum."""

    params = (("mean", "var", "std", "min", "argmax", "argmin", "any", "all"), ("float32", "float64"), (2**29,))
    quick_params = (("mean", "var", "argmax", "any"), ("float32", "float64"), (80_000,))

    def requirements(self, operation, dtype, nbytes):
        del dtype, nbytes
        if operation in {"var", "std"}:
            return (requirement.share_of_limit(0.8), requirement.launches(2))
        return (requirement.ratio("cupy", 0.98),)


class Bytes(DeviceCase):
    """Sums and truth of one-byte elements, four times as many per byte moved."""

    params = (("sum", "any", "all", "max"), ("bool", "uint8"), (2**29,))
    quick_params = (("sum", "any"), ("bool", "uint8"), (80_000,))
    param_names = ("operation", "dtype", "nbytes")

    def inputs(self, operation, dtype, nbytes):
        array = random_array(nbytes, "float32") * 0
        return [(array if operation == "any" else array + 1).astype(dtype)]

    def body(self, xp, arrays, operation, dtype, nbytes):
        del dtype, nbytes
        return getattr(xp, operation)(arrays[0])

    def nbytes_moved(self, operation, dtype, nbytes):
        del operation, dtype
        return nbytes

    def requirements(self, operation, dtype, nbytes):
        del operation, dtype, nbytes
        return (requirement.ratio("cupy", 1.0),)


class Narrow(Bytes):
    """Extrema of integers of one and two bytes, and where they are."""

    params = (("max", "min", "argmax"), ("int8", "uint8", "int16", "uint16"), (2**29,))
    quick_params = (("max", "argmax"), ("int8", "uint16"), (80_000,))

    def inputs(self, operation, dtype, nbytes):
        del operation
        info = np.iinfo(dtype)
        rng = np.random.default_rng(0)
        return [rng.integers(info.min, info.max, nbytes // info.dtype.itemsize, dtype, endpoint=True)]


class Strided(DeviceCase):
    """Reductions over several axes, of steps and of few columns."""

    params = (("sum", "max", "mean", "std"), ("outer axes", "inner axes", "every other", "few columns"), (1,))
    quick_params = (("sum", "std"), ("outer axes", "every other", "few columns"), (512,))
    param_names = ("operation", "form", "cut")
    shapes = {  # noqa: RUF012
        "outer axes": (256, 512, 1024),
        "inner axes": (1024, 256, 512),
        "every other": (8192, 16384),
        "few columns": (2**25, 4),
    }
    axes = {"outer axes": (0, 1), "inner axes": (1, 2), "every other": 1, "few columns": 0}  # noqa: RUF012

    def shape(self, form, cut):
        *outer, last = self.shapes[form]
        return (*(max(2, n // cut) for n in outer), last)

    def inputs(self, operation, form, cut):
        del operation
        return [random_array(self.shape(form, cut), "float32")]

    def body(self, xp, arrays, operation, form, cut):
        del cut
        x = arrays[0][:, ::2] if form == "every other" else arrays[0]
        return getattr(xp, operation)(x, axis=self.axes[form])

    def nbytes_moved(self, operation, form, cut):
        del operation
        return 4 * math.prod(self.shape(form, cut))

    def requirements(self, operation, form, cut):
        del operation, form, cut
        return (requirement.ratio("cupy", 1.0),)


class Matrix(DeviceCase):
    """A reduction of a C-ordered float32 matrix over one axis."""

    params = (("sum", "max", "mean", "std", "argmax"), (0, 1), (8192,), (16384,))
    quick_params = (("sum", "max", "std"), (0, 1), (140,), (150,))
    param_names = ("operation", "axis", "rows", "columns")

    def inputs(self, operation, axis, rows, columns):
        del operation, axis
        return [random_array((rows, columns), "float32")]

    def body(self, xp, arrays, operation, axis, rows, columns):
        del rows, columns
        return getattr(xp, operation)(arrays[0], axis=axis)

    def nbytes_moved(self, operation, axis, rows, columns):
        del operation
        return ITEMSIZE["float32"] * (rows * columns + (columns if axis == 0 else rows))

    def requirements(self, operation, axis, rows, columns):
        del operation, rows, columns
        return (requirement.ratio("cupy", LEAST_RATIO[axis]),)

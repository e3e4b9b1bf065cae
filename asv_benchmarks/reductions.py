"""Sum and max, over everything and over either axis of a matrix: limited by one read of the array."""

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


class Matrix(DeviceCase):
    """A reduction of a C-ordered float32 matrix over one axis."""

    params = (("sum", "max"), (0, 1), (8192,), (16384,))
    quick_params = (("sum", "max"), (0, 1), (140,), (150,))
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

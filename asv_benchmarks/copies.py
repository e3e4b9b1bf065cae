"""Copies that rearrange: transposes and strided slices, against the speed of a plain copy."""

from asv_benchmarks import requirement
from asv_benchmarks.case import DeviceCase, random_array

F32_NBYTES = 4
SECTOR_NBYTES = 32  # the least that DRAM delivers


class TransposedCopy(DeviceCase):
    """`ascontiguousarray(x.T)`, float32."""

    params = ((8192,), (16384,))
    quick_params = ((140,), (150,))
    param_names = ("rows", "columns")

    def inputs(self, rows, columns):
        return [random_array((rows, columns), "float32")]

    def body(self, xp, arrays, rows, columns):
        del rows, columns
        return xp.ascontiguousarray(arrays[0].T)

    def nbytes_moved(self, rows, columns):
        return 2 * F32_NBYTES * rows * columns

    def requirements(self, rows, columns):
        del rows, columns
        return (requirement.share_of_limit(0.75),)


class StridedCopy(DeviceCase):
    """`ascontiguousarray(x[::step])`, float32: whole sectors move, wanted or not."""

    params = ((2**27,), (2, 3, 5))
    quick_params = ((20_000,), (2, 3))
    param_names = ("n", "step")

    def inputs(self, n, step):
        del step
        return [random_array(n, "float32")]

    def body(self, xp, arrays, n, step):
        del n
        return xp.ascontiguousarray(arrays[0][::step])

    def nbytes_moved(self, n, step):
        # Up to 8 elements apart every sector of x is read; further apart one sector for each element.
        written = -(-n // step)
        read = min(F32_NBYTES * n, SECTOR_NBYTES * written)
        return read + F32_NBYTES * written

    def requirements(self, n, step):
        del n, step
        return (requirement.share_of_limit(0.75),)


class SlicedRows(DeviceCase):
    """`ascontiguousarray(x[1:-1, 1:-1])`, float32: rows that begin unaligned."""

    params = ((8192,), (16384,))
    quick_params = ((140,), (150,))
    param_names = ("rows", "columns")

    def inputs(self, rows, columns):
        return [random_array((rows, columns), "float32")]

    def body(self, xp, arrays, rows, columns):
        del rows, columns
        return xp.ascontiguousarray(arrays[0][1:-1, 1:-1])

    def nbytes_moved(self, rows, columns):
        return 2 * F32_NBYTES * (rows - 2) * (columns - 2)

    def requirements(self, rows, columns):
        del rows, columns
        return (requirement.share_of_limit(0.75),)

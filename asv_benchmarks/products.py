"""Matrix products: squares large and small, batches of small ones, and a matrix with a vector."""

import numpy as np

from asv_benchmarks import requirement
from asv_benchmarks.case import DeviceCase, random_array

ITEMSIZE = {"float32": 4, "float64": 8}
NUM_CHECKED = 64  # rows and columns of a result that are compared with NumPy's


class Square(DeviceCase):
    """The product of two square matrices. PyTorch's and CuPy's are cuBLAS's."""

    params = (("float64", "float32"), (256, 1024, 4096, 8192))
    quick_params = (("float64", "float32"), (96,))
    param_names = ("dtype", "n")

    def inputs(self, dtype, n):
        return [random_array((n, n), dtype, seed) for seed in range(2)]

    def body(self, xp, arrays, dtype, n):
        del dtype, n
        return xp.matmul(arrays[0], arrays[1])

    def verify(self, side, dtype, n):
        a, b = self.inputs(dtype, n)
        ours = side.to_host(self.body(side.xp, [side.asarray(a), side.asarray(b)], dtype, n))
        rows = np.random.default_rng(0).choice(n, min(n, NUM_CHECKED), replace=False)
        bound = n * np.finfo(dtype).eps * (np.abs(a[rows]) @ np.abs(b))
        assert (np.abs(ours[rows] - a[rows].astype(np.float64) @ b.astype(np.float64)) <= bound).all()

    def requirements(self, dtype, n):
        if dtype != "float64":
            return ()
        return (requirement.ratio("cupy", 1.1 if n <= 1024 else 0.97),)


class Batch(DeviceCase):
    """Many small products."""

    params = (((4096, 64, "float64"), (16384, 32, "float32")),)
    quick_params = (((8, 16, "float64"),),)
    param_names = ("batch",)

    def inputs(self, batch):
        count, n, dtype = batch
        return [random_array((count, n, n), dtype, seed) for seed in range(2)]

    def body(self, xp, arrays, batch):
        del batch
        return xp.matmul(arrays[0], arrays[1])

    def verify(self, side, batch):
        a, b = self.inputs(batch)
        ours = side.to_host(self.body(side.xp, [side.asarray(a), side.asarray(b)], batch))
        np.testing.assert_allclose(ours, a @ b, rtol=1e-4, atol=batch[1] * np.finfo(batch[2]).eps)

    def nbytes_moved(self, batch):
        count, n, dtype = batch
        return 3 * count * n * n * ITEMSIZE[dtype]

    def requirements(self, batch):
        del batch
        return (requirement.ratio("cupy", 1.15),)


class Vector(DeviceCase):
    """A matrix with a vector: limited by one read of the matrix."""

    params = (("float64", "float32"), (16384,))
    quick_params = (("float64", "float32"), (160,))
    param_names = ("dtype", "n")

    def inputs(self, dtype, n):
        return [random_array((n, n), dtype), random_array(n, dtype, 1)]

    def body(self, xp, arrays, dtype, n):
        del dtype, n
        return xp.matmul(arrays[0], arrays[1])

    def nbytes_moved(self, dtype, n):
        return ITEMSIZE[dtype] * n * n

    def requirements(self, dtype, n):
        del n
        return (requirement.ratio("cupy", 1.0),) if dtype == "float64" else ()

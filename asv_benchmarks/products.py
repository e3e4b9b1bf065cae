"""Matrix products: squares large and small, batches of small ones, and a matrix with a vector."""

import numpy as np

from asv_benchmarks import requirement
from asv_benchmarks.case import DeviceCase, random_array

ITEMSIZE = {"float32": 4, "float64": 8}
NUM_CHECKED = 64  # rows and columns of a result that are compared with NumPy's
DTYPES = ("float64", "float32", "float16", "int64")


def random_matrix(n, dtype, seed):
    """Return random values of any dtype: the whole range of integers."""
    if np.dtype(dtype).kind == "f":
        return random_array((n, n), "float32" if dtype == "float16" else dtype, seed).astype(dtype, copy=False)
    info = np.iinfo(dtype)
    return np.random.default_rng(seed).integers(info.min, info.max, (n, n), dtype, endpoint=True)


def checked(a, product, n):
    """Return some rows of a product, and of the matrix on its left."""
    rows = np.random.default_rng(0).choice(n, min(n, NUM_CHECKED), replace=False)
    return product[rows], a[rows]


class Square(DeviceCase):
    """The product of two square matrices. PyTorch's and CuPy's are cuBLAS's."""

    params = (DTYPES, (256, 1024, 4096, 8192))
    quick_params = (DTYPES, (96,))
    param_names = ("dtype", "n")

    def inputs(self, dtype, n):
        return [random_matrix(n, dtype, seed) for seed in range(2)]

    def body(self, xp, arrays, dtype, n):
        del dtype, n
        return xp.matmul(arrays[0], arrays[1])

    def verify(self, side, dtype, n):
        a, b = self.inputs(dtype, n)
        ours = side.to_host(self.body(side.xp, [side.asarray(a), side.asarray(b)], dtype, n))
        got, left = checked(a, ours, n)
        if np.dtype(dtype).kind != "f":
            np.testing.assert_array_equal(got, left @ b)
            return
        left, b = left.astype(np.float64), b.astype(np.float64)
        eps = np.finfo(dtype).eps + n * np.finfo("float32" if dtype == "float16" else dtype).eps
        assert (np.abs(got - left @ b) <= eps * (np.abs(left) @ np.abs(b))).all()

    def requirements(self, dtype, n):
        if dtype == "int64":
            return (requirement.ratio("cupy", 5),) if n >= 1024 else ()
        peer = "torch" if dtype == "float16" else "cupy"
        if dtype == "float32" and n > 1024:
            return (requirement.ratio("cupy", 3),)
        return (requirement.ratio(peer, 1.1 if n <= 1024 else 0.97),)


class Bytes(DeviceCase):
    """The exact product of two square matrices of bytes, summed up in 32 bits."""

    params = ((1024, 4096, 8192),)
    quick_params = ((96,),)
    param_names = ("n",)
    peers = ()

    def inputs(self, n):
        return [random_matrix(n, "int8", seed) for seed in range(2)]

    def body(self, xp, arrays, n):
        del n
        return xp.matmul(arrays[0], arrays[1], dtype="int32")

    def verify(self, side, n):
        a, b = self.inputs(n)
        ours = side.to_host(self.body(side.xp, [side.asarray(a), side.asarray(b)], n))
        got, left = checked(a, ours, n)
        np.testing.assert_array_equal(got, np.matmul(left, b, dtype="int32"))

    def requirements(self, n):
        return (requirement.operations(2 * n**3, 1e15),) if n >= 8192 else ()


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

"""Matrix products: squares large and small, skinny ones, batches of small ones, and a matrix with a vector."""

import numpy as np

from asv_benchmarks import requirement
from asv_benchmarks.case import DeviceCase, random_array
from asv_benchmarks.sides import NotApplicableError

NUM_CHECKED = 64  # rows and columns of a result that are compared with NumPy's
DTYPES = ("float64", "float32", "complex128", "complex64", "float16", "int64")
SIZES = (256, 512, 1024, 2048, 4096, 8192, 16384)
# What squares of each dtype must reach beyond 1024, up to where they are measured, beside which library.
LARGE = {
    "float64": ({2048: 0.97, 4096: 0.97, 8192: 1.2, 16384: 1.2}, "cupy"),
    "float32": ({2048: 1.0, 4096: 3.0, 8192: 3.0, 16384: 3.0}, "cupy"),
    "complex128": ({2048: 1.0, 4096: 1.0, 8192: 1.0}, "cupy"),
    "complex64": ({2048: 2.0, 4096: 2.0, 8192: 2.0}, "cupy"),
    "float16": ({2048: 0.97, 4096: 0.97, 8192: 0.97, 16384: 0.97}, "torch"),
    "int64": ({2048: 5.0, 4096: 5.0, 8192: 5.0}, "cupy"),
}
HALF_SHAPES = ((16, 8192, 8192), (128, 8192, 8192), (8192, 8192, 128), (8192, 128, 8192), (256, 65536, 256))


def random_matrix(shape, dtype, seed):
    """Return random values of any dtype: the whole range of integers."""
    dtype = np.dtype(dtype)
    if dtype.kind == "c":
        parts = [random_matrix(shape, dtype.type(0).real.dtype, 2 * seed + i) - 1 for i in range(2)]
        return parts[0] + dtype.type(1j) * parts[1]
    if dtype.kind == "f":
        return random_array(shape, "float32" if dtype == "float16" else dtype.name, seed).astype(dtype, copy=False)
    info = np.iinfo(dtype)
    return np.random.default_rng(seed).integers(info.min, info.max, shape, dtype, endpoint=True)


def checked(a, product):
    """Return some rows of a product, and of the matrix on its left."""
    rows = np.random.default_rng(0).choice(len(a), min(len(a), NUM_CHECKED), replace=False)
    return product[rows], a[rows]


class Product(DeviceCase):
    """The product of two matrices that `inputs` makes. PyTorch's and CuPy's are cuBLAS's."""

    def body(self, xp, arrays, *params):
        del params
        return xp.matmul(arrays[0], arrays[1])

    def verify(self, side, *params):
        a, b = self.inputs(*params)
        got, left = checked(a, side.to_host(self.body(side.xp, [side.asarray(a), side.asarray(b)], *params)))
        if a.dtype.kind not in "fc":
            np.testing.assert_array_equal(got, left @ b)
            return
        eps = np.finfo(a.dtype).eps + len(b) * np.finfo("float32" if a.dtype == "float16" else a.dtype).eps
        wide = np.result_type(a, "float64")
        left, b = left.astype(wide), b.astype(wide)
        assert (np.abs(got - left @ b) <= eps * (np.abs(left) @ np.abs(b))).all()


class Square(Product):
    """Square matrices of one dtype."""

    params = (DTYPES, SIZES)
    quick_params = (DTYPES, (96,))
    param_names = ("dtype", "n")

    def inputs(self, dtype, n):
        if n > max(LARGE[dtype][0]):
            raise NotApplicableError("one product takes more than a second")
        return [random_matrix((n, n), dtype, seed) for seed in range(2)]

    def requirements(self, dtype, n):
        least, peer = LARGE[dtype]
        if n > 1024:
            return (requirement.ratio(peer, least[n]),) if n in least else ()
        return (requirement.ratio(peer, 1.1),) if dtype != "int64" else ()


class Half(Product):
    """Products of halves of which one side is short."""

    params = (HALF_SHAPES,)
    quick_params = (((8, 96, 40),),)
    param_names = ("shape",)

    def inputs(self, shape):
        m, k, n = shape
        return [random_matrix((m, k), "float16", 0), random_matrix((k, n), "float16", 1)]

    def requirements(self, shape):
        del shape
        return (requirement.ratio("torch", 0.97),)


class Bytes(DeviceCase):
    """The exact product of two square matrices of bytes, summed up in 32 bits."""

    params = ((1024, 4096, 8192),)
    quick_params = ((96,),)
    param_names = ("n",)
    peers = ()

    def inputs(self, n):
        return [random_matrix((n, n), "int8", seed) for seed in range(2)]

    def body(self, xp, arrays, n):
        del n
        return xp.matmul(arrays[0], arrays[1], dtype="int32")

    def verify(self, side, n):
        a, b = self.inputs(n)
        ours = side.to_host(self.body(side.xp, [side.asarray(a), side.asarray(b)], n))
        got, left = checked(a, ours)
        np.testing.assert_array_equal(got, np.matmul(left, b, dtype="int32"))

    def requirements(self, n):
        return (requirement.operations(2 * n**3, 1e15),) if n >= 8192 else ()


class Batch(Product):
    """Many small products."""

    params = (((4096, 64, "float64"), (16384, 32, "float32")),)
    quick_params = (((8, 16, "float64"),),)
    param_names = ("batch",)

    def inputs(self, batch):
        count, n, dtype = batch
        return [random_array((count, n, n), dtype, seed) for seed in range(2)]

    def verify(self, side, batch):
        a, b = self.inputs(batch)
        ours = side.to_host(self.body(side.xp, [side.asarray(a), side.asarray(b)], batch))
        np.testing.assert_allclose(ours, a @ b, rtol=1e-4, atol=batch[1] * np.finfo(batch[2]).eps)

    def nbytes_moved(self, batch):
        count, n, dtype = batch
        return 3 * count * n * n * np.dtype(dtype).itemsize

    def requirements(self, batch):
        del batch
        return (requirement.ratio("cupy", 1.15),)


class Vector(Product):
    """A matrix with a vector: limited by one read of the matrix."""

    params = (("float64", "float32"), (16384,))
    quick_params = (("float64", "float32"), (160,))
    param_names = ("dtype", "n")

    def inputs(self, dtype, n):
        return [random_array((n, n), dtype), random_array(n, dtype, 1)]

    def nbytes_moved(self, dtype, n):
        return np.dtype(dtype).itemsize * n * n

    def requirements(self, dtype, n):
        del n
        return (requirement.ratio("cupy", 1.0),) if dtype == "float64" else ()

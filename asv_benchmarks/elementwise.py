"""Fused elementwise expressions and the stencil: one launch each, as fast as the bytes can move."""

import numpy as np

from asv_benchmarks import requirement
from asv_benchmarks.case import DeviceCase, random_array

F32_NBYTES = 4
F64_NBYTES = 8


class Elementwise(DeviceCase):
    """An expression over `num_arrays` contiguous float32 arrays, making one more."""

    params = ((2**27,),)
    quick_params = ((20_000,),)
    param_names = ("n",)
    num_arrays = 3

    def inputs(self, n):
        return [random_array(n, "float32", seed) for seed in range(self.num_arrays)]

    def nbytes_moved(self, n):
        return (self.num_arrays + 1) * F32_NBYTES * n

    def requirements(self, n):
        del n
        return (requirement.launches(1), requirement.share_of_limit(0.85))


class MultiplyAdd(Elementwise):
    """`a*b + c`."""

    def body(self, xp, arrays, n):
        del xp, n
        a, b, c = arrays
        return a * b + c


class Norm(Elementwise):
    """`sqrt(x*x + y*y) / (z + 1)`."""

    def body(self, xp, arrays, n):
        del n
        x, y, z = arrays
        return xp.sqrt(x * x + y * y) / (z + 1)


class NormSine(Elementwise):
    """`sqrt(x*x + y*y) * sin(z)`."""

    def body(self, xp, arrays, n):
        del n
        x, y, z = arrays
        return xp.sqrt(x * x + y * y) * xp.sin(z)

    def requirements(self, n):
        del n
        return (requirement.launches(1), requirement.at_most(0.62, "ms"))


class Stencil(DeviceCase):
    """A step of the 5-point heat stencil, float64, written through slices into a slice of the other array."""

    params = ((8192,),)
    quick_params = ((100,),)
    param_names = ("n",)

    def inputs(self, n):
        return [random_array((n, n), "float64", seed) for seed in range(2)]

    def body(self, xp, arrays, n):
        del xp, n
        u, v = arrays
        inside = u[1:-1, 1:-1]
        neighbours = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]
        v[1:-1, 1:-1] = inside + 0.2 * (neighbours - 4 * inside)
        return v

    def nbytes_moved(self, n):
        # All of u but its corners is read once, the inside of v is written once.
        return F64_NBYTES * ((n * n - 4) + (n - 2) ** 2)

    def requirements(self, n):
        del n
        return (requirement.launches(1), requirement.share_of_limit(0.75))


class StencilInPlace(Stencil):
    """A step of the 5-point stencil, float64, written to the array that it reads."""

    def inputs(self, n):
        return [random_array((n, n), "float64", 0)]

    def body(self, xp, arrays, n):
        del xp, n
        (u,) = arrays
        u[1:-1, 1:-1] = 0.25 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:])
        return u

    def nbytes_moved(self, n):
        # All of u is read, and written to new memory.
        return 2 * F64_NBYTES * n * n


class ComplexFunction(DeviceCase):
    """A function of complex numbers, some of which take hundreds of instructions."""

    params = (("exp", "arcsin", "arccosh", "arctanh", "log1p", "power", "cube"), ("complex64", "complex128"), (2**26,))
    quick_params = (("arcsin", "power"), ("complex64",), (2**10,))
    param_names = ("function", "dtype", "n")

    def inputs(self, function, dtype, n):
        del function
        real = {"complex64": "float32", "complex128": "float64"}[dtype]
        x = 4 * (random_array((n, 2), real) - 1)
        return [x.view(dtype)[:, 0], x[::-1].copy().view(dtype)[:, 0]]

    def body(self, xp, arrays, function, dtype, n):
        del dtype, n
        x, y = arrays
        if function == "power":
            return xp.power(x, y)
        return xp.power(x, 3) if function == "cube" else getattr(xp, function)(x)

    def nbytes_moved(self, function, dtype, n):
        return np.dtype(dtype).itemsize * n * (3 if function == "power" else 2)

"""`oxinp.cuda.kernel`: kernels written in Python by users."""

import numpy as np
import pytest

import oxinp
from oxinp import cuda
from oxinp._ptx.types import ALL
from oxinp.cuda import kernel
from oxinp.cuda.kernel import In, InOut, Out, c64, f32, f64, jit, pred, u32

pytestmark = pytest.mark.usefixtures("device")


@pytest.fixture
def device(config):
    """Run kernels on the GPU where the suite does, else on the emulator."""
    if config.backend != "cuda":
        config.backend = "emulator"


@jit
def scale(k, a: f32, x: In[f32], y: Out[f32], n: u32):
    """Write y = a * x."""
    with k.grid_stride(n) as i:
        y[i] = a * x[i]


@jit(block=64)
def one_thread_each(k, x: InOut[f64], n: u32):
    i = k.ctaid * k.ntid + k.tid
    with k.when(i < n):
        x[i] = kernel.math.exp(k, x[i])


@jit(block=(32, 4))
def transposed(k, x: In[f32], y: Out[f32], width: u32, height: u32):
    column, row = k.ctaid.x * 32 + k.tid.x, k.ctaid.y * 4 + k.tid.y
    with k.when((column < width) & (row < height)):
        y[column * height + row] = x[row * width + column]


@jit
def rotated(k, factor: c64, is_conjugate: pred, x: InOut[c64], n: u32):
    with k.grid_stride(n) as i:
        value = x[i] * factor
        x[i] = k.compound(c64, value.real, k.where(is_conjugate, -value.imag, value.imag))


@pytest.mark.parametrize("size", [7, 50_000])
def test_a_kernel_on_arrays_and_numbers(size):
    x, y = oxinp.arange(size, dtype="f4"), oxinp.empty(size, "f4")
    scale[3](2.5, x, y, size)
    np.testing.assert_array_equal(np.asarray(y), np.float32(2.5) * np.arange(size, dtype="f4"))


def test_the_launch_may_say_the_block():
    x, y = oxinp.ones(1000, "f4"), oxinp.zeros(1000, "f4")
    scale[2, 32](3, x, y, 1000)
    assert y.sum() == 3000
    assert scale.raw(32) is scale.raw((32, 1, 1))
    assert scale.raw() is not scale.raw(32)


def test_forall_has_a_thread_for_each_element():
    x = oxinp.linspace(0, 1, 1000)
    expected = np.exp(np.linspace(0, 1, 1000))
    one_thread_each.forall(x.size)(x, x.size)
    np.testing.assert_array_max_ulp(np.asarray(x), expected, 1)


def test_grids_of_two_dimensions():
    x, y = oxinp.arange(35 * 70, dtype="f4").reshape(35, 70), oxinp.empty((70, 35), "f4")
    transposed[(3, 9), None](x, y, 70, 35)
    np.testing.assert_array_equal(np.asarray(y), np.asarray(x).T)


@pytest.mark.parametrize("is_conjugate", [False, True])
def test_complex_numbers_and_booleans_by_value(is_conjugate):
    x = oxinp.arange(100, dtype="c8")
    rotated[1](1j, is_conjugate, x, 100)
    expected = np.arange(100, dtype="c8") * np.complex64(1j)
    np.testing.assert_array_equal(np.asarray(x), expected.conj() if is_conjugate else expected)


def test_a_launch_is_in_order_with_array_operations_and_streams():
    x, y = oxinp.zeros(30_000, "f4"), oxinp.empty(30_000, "f4")
    x += 1
    stream = cuda.Stream()
    scale[4, None, stream](2, x, y, x.size)
    assert (y + x).max() == 3


@pytest.mark.parametrize(
    ("args", "error", "message"),
    [
        (lambda x, y: (2, x, y), TypeError, r"takes 4 arguments \(a, x, y, n\), not 3"),
        (lambda x, y: (2, x.astype("f8"), y, 9), TypeError, "argument x of kernel scale has dtype float64; .*float32"),
        (lambda _, y: (2, np.ones(9, "f4"), y, 9), TypeError, "argument x of kernel scale is a NumPy array"),
        (lambda _, y: (2, [1.0], y, 9), TypeError, "argument x of kernel scale is list, not an array"),
        (lambda x, y: (2, x[::2], y, 9), TypeError, "argument x of kernel scale is not contiguous"),
        (lambda x, y: ("2", x, y, "n"), TypeError, "argument n of kernel scale is 'n', not a number"),
        (lambda x, y: (2, y, oxinp.broadcast_to(x[:1], 9), 9), ValueError, "argument y of kernel scale is read-only"),
    ],
)
def test_arguments_are_checked_by_name(args, error, message):
    with pytest.raises(error, match=message):
        scale[1](*args(oxinp.ones(9, "f4"), oxinp.ones(9, "f4")))


def test_a_kernel_cannot_be_called_without_a_grid():
    with pytest.raises(TypeError, match=r"kernel scale needs a grid: scale\[grid\]"):
        scale(1, 2, 3, 4)
    with pytest.raises(TypeError, match=r"\[grid, block, stream, shared_nbytes\]"):
        scale[1, 2, None, 0, 5]


def test_numpys_types_declare_parameters():
    @jit
    def filled(k, value: np.float64, x: Out[np.float64], n: np.dtype("u4")):
        with k.grid_stride(n) as i:
            x[i] = value

    x = oxinp.empty(100)
    filled[1](2.5, x, 100)
    assert x.tolist() == [2.5] * 100


def test_parameters_need_annotations():
    with pytest.raises(TypeError, match="parameter 'n' needs an annotation"):

        @jit
        def wrong(k, x: In[f32], n):
            pass


def test_what_a_kernel_says_of_itself():
    assert repr(scale) == "<KernelFunction scale(a, x, y, n)>"
    assert scale.__doc__ == "Write y = a * x."
    assert ".visible .entry scale(" in scale.ptx


def test_without_a_device_it_says_how_to_run(config):
    config.backend = "host"
    x, y = oxinp.ones(9, "f4"), oxinp.ones(9, "f4")
    with pytest.raises(cuda.NotSupported, match="needs a GPU"):
        scale[1](2, x, y, 9)


def test_the_types_are_complete():
    assert {type_.name for type_ in ALL} <= set(kernel.__all__)

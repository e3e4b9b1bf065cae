import ctypes
import itertools

import numpy as np
import pytest

import oxinp
from oxinp import _runtime, cuda
from oxinp._ptx import In, InOut, Out, kernel
from oxinp._ptx.types import f32, u32
from tests.driver.ptx_samples import PTX


@kernel(block=128)
def axpy(k, x: In[f32], y: InOut[f32], a: f32, n: u32):
    with k.grid_stride(n) as i:
        y[i] = k.fma(a, x[i], y[i])


@kernel(block=64)
def increment(k, x: InOut[f32], n: u32):
    with k.grid_stride(n) as i:
        x[i] = x[i] + 1


@kernel(block=64)
def fill(k, x: Out[f32], a: f32, n: u32):
    with k.grid_stride(n) as i:
        x[i] = a


@pytest.fixture
def emulator(config):
    config.backend = "emulator"


TEXT = """
.version 8.0
.target sm_80
.address_size 64
// .entry not_this_one(.param .u64 x)
.visible .entry mixed(
    .param .u64 .ptr .global .align 4 x,  // an array
    .param .u32 n,
    .param .f64 a,
    .param .s16 i,
    .param .align 64 .b8 block[128]
)
{ ret; }
"""


# On the emulator


@pytest.mark.usefixtures("emulator")
@pytest.mark.parametrize("size", [10, 100_000])
def test_a_kernel_of_the_language_on_arrays_wherever_they_are(size):
    x, y = oxinp.arange(size, dtype="f4"), oxinp.ones(size, "f4")
    expected = np.float32(2.5) * np.arange(size, dtype="f4") + 1
    cuda.RawKernel(axpy)(4, args=(x, y, 2.5, size))
    assert np.asarray(y).tolist() == expected.tolist()
    assert np.asarray(x).tolist() == list(range(size))


@pytest.mark.usefixtures("emulator")
def test_what_is_pending_sees_the_values_it_was_recorded_with():
    x = oxinp.zeros(50_000, "f4")
    before = x + 10
    launch = cuda.RawKernel(increment)
    launch(4, args=(x, x.size))
    after = x + 10
    launch(4, args=(x, x.size))
    assert (float(before[7]), float(after[7]), float(x[7])) == (10, 11, 2)
    x += 5
    assert float(x[-1]) == 7


@pytest.mark.usefixtures("emulator")
def test_views_and_results_that_are_pending():
    x = oxinp.zeros((4, 30_000), "f4")
    cuda.RawKernel(fill)(4, args=(x[1], 3, 30_000))
    assert [float(row.sum()) for row in x] == [0, 90_000, 0, 0]
    y = x * 2
    cuda.RawKernel(increment)(4, args=(y, y.size))
    assert float(y[1, 5]) == 7
    with pytest.raises(TypeError, match="argument x of kernel fill is not contiguous"):
        cuda.RawKernel(fill)(4, args=(x[:, 1], 3, 4))


@pytest.mark.usefixtures("emulator")
def test_launches_are_counted(stats):
    x, launch = oxinp.zeros(50_000, "f4"), cuda.RawKernel(increment)
    for _ in range(3):
        launch(4, args=(x, x.size))
    assert stats().launches >= 3


@pytest.mark.usefixtures("emulator")
@pytest.mark.parametrize(
    ("args", "words"),
    [
        (lambda x: (x,), r"takes 2 arguments \(x, n\), not 1"),
        (lambda x: (x, 1, 2), "not 3"),
        (lambda x: (x, 1.5), "argument n of kernel increment is 1.5"),
        (lambda x: (x, -1), "argument n of kernel increment is -1"),
        (lambda x: (x, 1 << 32), "argument n"),
        (lambda x: (x, x), "argument n"),
        (lambda _: ("text", 1), "argument x of kernel increment is 'text'"),
        (lambda _: (None, 1), "argument x"),
    ],
)
def test_arguments_that_do_not_fit_are_named_and_nothing_is_launched(args, words, stats):
    x = oxinp.zeros(10, "f4")
    before = stats().launches
    with pytest.raises(TypeError, match=words):
        cuda.RawKernel(increment)(1, args=args(x))
    assert stats().launches == before


@pytest.mark.usefixtures("emulator")
def test_blocks_of_the_kernels_own():
    with pytest.raises(TypeError, match=r"made for blocks of \(64, 1, 1\)"):
        cuda.RawKernel(increment)(1, 128, (oxinp.zeros(10, "f4"), 10))


@pytest.mark.usefixtures("emulator")
def test_ptx_needs_a_gpu():
    with pytest.raises(cuda.NotSupported, match="runs on a GPU only"):
        cuda.RawKernel(PTX, "add")(1, 1, (oxinp.zeros(4, "i4"), 1))
    with pytest.raises(cuda.NotSupported, match="needs a GPU"):
        cuda.RawKernel(PTX, "add").attribute("num_registers")


def test_without_a_device(config):
    config.backend = "host"
    with pytest.raises(cuda.NotSupported, match=r"config\.backend is 'host'"):
        cuda.RawKernel(increment)(1, args=(oxinp.zeros(4, "f4"), 4))


# PTX text


def test_parameters_are_read_off_the_text():
    made = cuda.RawKernel(TEXT)
    assert made.name == "mixed"
    assert made.params == (("x", "Q"), ("n", "I"), ("a", "d"), ("i", "h"), ("block", "128s"))
    assert made._kernel.param_format == "<QI4xdh38x128s"
    assert repr(made) == "<RawKernel mixed(x, n, a, i, block)>"


@pytest.mark.parametrize(
    ("text", "name", "words"),
    [
        (PTX, None, "which of them is meant.*count, add"),
        (PTX, "missing", "no entry 'missing'"),
        ("", None, "the entries: none"),
        (TEXT.replace(".f64 a", ".texref a"), None, "parameter '.*texref a' of entry mixed"),
    ],
)
def test_text_without_such_an_entry(text, name, words):
    with pytest.raises(cuda.CompileError, match=words):
        cuda.RawKernel(text, name)


def test_a_launch_of_ptx(library):
    made = cuda.RawKernel(TEXT)
    x = oxinp.zeros(1000, "f4")
    for _ in range(2):
        made((3, 2), 96, (x, 1000, 0.5, -2, bytes(range(128))), shared_nbytes=1000, cluster=(1, 2, 1))
    launch = library.launches[-1]
    assert (launch.grid, launch.block, launch.shared_nbytes) == ((3, 2, 1), (96, 1, 1), 1000)
    addresses = (ctypes.c_void_p * 5).from_address(launch.kernel_params)
    ptr = ctypes.c_uint64.from_address(addresses[0]).value
    assert ptr in library.memory
    assert ctypes.c_uint32.from_address(addresses[1]).value == 1000
    assert ctypes.c_int16.from_address(addresses[3]).value == -2
    assert library.count()["cuModuleGetFunction"] == 1  # compiled once
    with pytest.raises(TypeError, match="needs block"):
        made(1, args=(x, 1, 1, 1, bytes(128)))
    with pytest.raises(TypeError, match="argument block of kernel mixed has 3 bytes"):
        made(1, 1, (x, 1, 1, 1, b"abc"))
    with pytest.raises(cuda.LaunchError, match="grid"):
        made(0, 1, (x, 1, 1, 1, bytes(128)))
    assert made.attribute("num_registers") == 40
    assert made.suggest_block() == 1024
    assert made.max_blocks_per_sm(256) == 8


def test_launches_on_several_streams_wait_for_each_other_where_they_share_an_array(library):
    made, stream = cuda.RawKernel(PTX, "add"), cuda.Stream()
    x, y = oxinp.zeros(1000, "i4"), oxinp.zeros(1000, "i4")
    made(1, 32, (x, 1))
    library.calls.clear()
    made(1, 32, (y, 1), stream=stream)
    assert library.launches[-1].stream == stream.handle
    assert "cuStreamWaitEvent" not in library.names()[library.names().index("cuLaunchKernelEx") :]
    made(1, 32, (x, 1), stream=stream)
    assert library.arguments("cuStreamWaitEvent")[0] == stream.handle
    library.calls.clear()
    made(1, 32, (x, 1), stream=stream)
    assert "cuStreamWaitEvent" not in library.names()
    with cuda.Stream() as current:
        made(1, 32, (x, 1))
        assert library.launches[-1].stream == current.handle
        assert library.arguments("cuStreamWaitEvent")[0] == current.handle
        assert library.arguments("cuEventRecord")[1] == stream.handle
    made(1, 32, (x, 1))
    assert library.launches[-1].stream == 0


def test_a_stream_may_have_the_handle_of_one_that_was_closed(library, monkeypatch):
    made, x, first = cuda.RawKernel(PTX, "add"), oxinp.zeros(1000, "i4"), cuda.Stream()
    for _ in range(2):  # the first launch beside the default stream changes how work is queued
        made(1, 32, (x, 1), stream=first)
    monkeypatch.setattr(library, "_handles", itertools.chain([first.handle], library._handles))
    first.close()
    second = cuda.Stream()
    made(1, 32, (x, 1), stream=second)
    assert [launch.stream for launch in library.launches] == [second.handle] * 3


def test_arrays_of_others(library):
    buffer = _runtime.current().allocate(64)

    class Theirs:
        __cuda_array_interface__ = {  # noqa: RUF012
            "shape": (4, 4),
            "typestr": "<f4",
            "data": (buffer.ptr, False),
            "strides": None,
            "version": 3,
        }

    made = cuda.RawKernel(PTX, "add")
    made(1, 1, (Theirs(), 1))
    assert library.launches[-1].unpack("<QI") == (buffer.ptr, 1)
    made(1, 1, (buffer.ptr + 4, np.int64(7)))
    assert library.launches[-1].unpack("<QI") == (buffer.ptr + 4, 7)
    Theirs.__cuda_array_interface__ = {**Theirs.__cuda_array_interface__, "strides": (4, 16)}
    with pytest.raises(TypeError, match="not contiguous"):
        made(1, 1, (Theirs(), 1))

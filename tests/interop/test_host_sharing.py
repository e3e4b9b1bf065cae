"""Host memory that others hold, too: in NumPy's hands."""

import ctypes
import gc
import hashlib
import io
import mmap

import numpy as np
import pytest
import scipy.linalg.blas
import scipy.ndimage

import oxinp
from oxinp._core.array.buffer import HAS_PROTOCOL
from oxinp._core.memory.storage import is_pinned
from tests.comparator import assert_same

N = 20_000  # doubles: above the threshold


@pytest.mark.usefixtures("offload_threshold")
class TestPinned:
    def test_writes_through_flat_are_seen_by_the_device(self):
        x = oxinp.ones(N)
        flat = x.flat
        for i in range(3):
            flat[i] = i + 5.0
            assert_same(x + 1, np.r_[np.arange(i + 1) + 6.0, np.full(N - i - 1, 2.0)])

    def test_writes_of_the_device_are_seen_through_flat(self):
        x = oxinp.ones(N)
        flat = x.flat
        x *= 3
        assert flat[7] == 3
        x[2:4] = oxinp.zeros(2)
        assert list(flat[1:5]) == [3, 0, 0, 3]
        oxinp.add(x, x, out=x[::-1])
        assert flat[-1] == 6
        x.sum(keepdims=True, out=x[:1])
        assert flat[0] == 6 * (N - 2)

    def test_views_and_their_base_are_one_memory(self):
        x = oxinp.arange(float(N))
        memory = np.asarray(x[10:20].data)
        memory[0] = -1
        assert x[10] == -1
        x += 1
        assert memory[0] == 0
        assert memory[1] == 12

    def test_a_pending_array_is_computed(self):
        x = oxinp.ones(N) * 2
        x[1] = 9
        assert x.data[1] == 9

    def test_an_expression_reads_what_was_there_when_it_was_written(self):
        x = oxinp.ones(N)
        memory = np.asarray(x.data)
        y = x + 1
        memory[:] = 0
        assert_same(y, np.full(N, 2.0))

    def test_a_pending_reader_from_before(self):
        x = oxinp.ones(N)
        y = x + 1
        np.asarray(x.data)[:] = 0
        assert_same(y, np.full(N, 2.0))

    def test_ctypes_holds_for_good(self):
        x = oxinp.ones(N)
        address = x.ctypes.data
        np.ctypeslib.as_array((np.ctypeslib.ctypes.c_double * N).from_address(address))[:2] = 4
        assert_same((x + 1)[:3], np.array([5.0, 5, 2]))
        x *= 2
        assert (np.ctypeslib.ctypes.c_double * N).from_address(address)[0] == 8
        assert x.ctypes.data == address

    def test_nditer(self):
        x = oxinp.ones(N)
        with oxinp.nditer(x, op_flags=["readwrite"]) as iterator:
            for i, element in enumerate(iterator):
                if i > 2:
                    break
                element[...] = i
                x.sum()
        assert_same((x * 2)[:4], np.array([0.0, 2, 4, 2]))
        assert iterator is not None

    def test_dlpack_is_the_memory(self):
        x = oxinp.ones(N)
        memory = x.data  # on a GPU, too, this keeps it on the host
        seen = np.from_dlpack(x)
        assert seen.ctypes.data == np.asarray(memory).ctypes.data
        x += 1
        assert seen[5] == 2
        if seen.flags.writeable:
            seen[5] = 7
            assert x[5] == 7

    def test_a_read_only_array_stays_so(self):
        x = oxinp.ones(N)
        x.flags.writeable = False
        with pytest.raises(ValueError, match="read-only"):
            np.asarray(x.data)[0] = 1
        assert x.data.readonly


@pytest.mark.usefixtures("offload_threshold")
class TestOutputsOfOthers:
    """What NumPy, SciPy and Python are handed as an array is the array's memory."""

    def test_scipys_outputs(self):
        x, out = oxinp.arange(4.0), oxinp.zeros((2, 4))
        scipy.ndimage.gaussian_filter1d(x, 1, output=out[1])
        assert_same(out, np.array([np.zeros(4), scipy.ndimage.gaussian_filter1d(np.arange(4.0), 1)]))
        y = oxinp.ones(4) * 1
        scipy.linalg.blas.daxpy(x, y)  # which also writes to what is read-only
        assert_same(y + 1, np.arange(4.0) + 2)

    def test_views_in_any_order(self):
        for make in (lambda x: x.T, lambda x: x[::-2, 1:], lambda x: x[1], lambda x: x.reshape(3, 2, 2)[..., 0]):
            x = oxinp.arange(12.0).reshape(4, 3)
            seen, wanted = np.asarray(make(x)), np.arange(12.0).reshape(4, 3)
            part = make(wanted)
            assert_same(seen, part)
            assert seen.strides == part.strides
            seen *= 2
            part *= 2
            x += 1
            wanted += 1
            assert_same(seen, part)
            assert_same(x, wanted)

    def test_copies_are_copies(self):
        for x in (oxinp.arange(6.0).reshape(2, 3), oxinp.arange(6.0).reshape(2, 3).T * 1, oxinp.ones(())):
            wanted = oxinp.asnumpy(x)
            for copied in (oxinp.asnumpy(x), np.array(x), np.asarray(x, "f4"), x.__array__(copy=True)):
                assert copied.strides == tuple(copied.itemsize * step // 8 for step in x.strides)
                copied[...] = 7
                assert_same(x, wanted)
            assert not is_pinned(x._storage)
        assert oxinp.asnumpy([1, 2]).tolist() == [1, 2]
        assert type(oxinp.asnumpy(oxinp.arange(3.0).sum())) is np.ndarray

    def test_no_copy_where_none_is_allowed(self):
        x = oxinp.ones(3)
        np.array(x, copy=False)[0] = 4
        assert x[0] == 4
        with pytest.raises(ValueError, match="copy"):
            np.array(x, "f4", copy=False)

    def test_read_only_arrays_stay_so(self):
        x = oxinp.broadcast_to(oxinp.arange(3.0), (2, 3))
        seen = np.asarray(x)
        assert not seen.flags.writeable
        assert seen.strides == (0, 8)
        assert memoryview(x).readonly

    @pytest.mark.parametrize("dtype", ["M8[D]", "V3", "O", "S0", "T", "f2", ">i4", "g", [("a", "i4"), ("b", "m8[s]")]])
    def test_dtypes_that_buffers_do_not_know(self, dtype):
        x = oxinp.zeros(2, dtype)
        seen = np.asarray(x)
        assert seen.dtype == x.dtype
        seen[1] = seen[0] = np.ones((), dtype)
        assert x[1] == x[0] == seen[1]

    def test_pythons_buffers(self):
        x, wanted = oxinp.arange(6).reshape(2, 3), np.arange(6).reshape(2, 3)
        assert bytearray(x) == bytes(x) == b"".join([x]) == wanted.tobytes()
        assert bytearray(x.T) == wanted.T.tobytes()
        assert hashlib.sha256(x).digest() == hashlib.sha256(wanted).digest()
        assert io.BytesIO(x).getvalue() == wanted.tobytes()
        assert io.BytesIO(wanted[::-1].tobytes()).readinto(x) == x.nbytes
        assert_same(x, wanted[::-1])
        seen = memoryview(x)
        assert (seen.format, seen.shape, seen.strides) == ("l", (2, 3), (24, 8))
        seen[1, 2] = 9
        x += 1
        assert seen[1, 2] == x[1, 2] == 10

    def test_subclasses_have_buffers_too(self):
        class Ours(oxinp.ndarray):
            pass

        assert memoryview(oxinp.arange(3.0).view(Ours)).tolist() == [0, 1, 2]

    def test_array_interface(self):
        x = oxinp.arange(4.0)[1:] * 1

        class Foreign:
            __array_interface__ = x.__array_interface__

        np.asarray(Foreign())[:] = 3
        assert_same(x * 2, np.full(3, 6.0))
        x += 1
        assert_same(np.asarray(Foreign()), np.full(3, 4.0))


@pytest.mark.usefixtures("on_device")
def test_only_the_part_that_was_lent_is_copied_back(stats):
    x = oxinp.zeros(N) + 1
    oxinp.evaluate(x)
    np.asarray(x[7:9])[1] = 5
    before = stats().h2d_bytes
    assert float(x.sum()) == N + 4
    assert stats().h2d_bytes - before == 16
    assert x._storage.value is not None


@pytest.mark.usefixtures("on_device")
def test_the_pin_goes_with_the_last_view():
    x = oxinp.ones(N)
    flat = x.flat
    part = np.asarray(x.data)[3:5]
    assert is_pinned(x._storage)
    del flat
    assert is_pinned(x._storage)
    part[0] = 2
    del part
    gc.collect()
    assert_same(x + 1, np.r_[np.full(3, 2.0), 3, np.full(N - 4, 2.0)])
    assert not is_pinned(x._storage)
    assert x._storage.value is not None


def test_resize_is_refused_while_pinned():
    for xp in (np, oxinp):
        x = xp.ones(4)
        memory = x.data
        with pytest.raises(ValueError, match="resize"):
            x.resize(5)
        del memory


@pytest.mark.usefixtures("offload_threshold")
class TestForeignHostMemory:
    def test_frombuffer(self):
        memory = bytearray(8 * N)
        x = oxinp.frombuffer(memory)
        assert type(x) is oxinp.ndarray
        assert x.base is memory or x.base.obj is memory
        x[:] = 3
        assert memory[:8] == np.float64(3).tobytes()
        memory[:8] = np.float64(4).tobytes()
        assert_same(x + 1, np.frombuffer(memory) + 1)
        x += oxinp.arange(float(N))
        assert_same(x, np.frombuffer(memory))
        assert memory[8:16] == np.float64(4).tobytes()

    def test_frombuffer_of_bytes(self):
        memory = np.arange(float(N)).tobytes()
        x = oxinp.frombuffer(memory)
        assert not x.flags.writeable
        assert_same(x * 2, np.frombuffer(memory) * 2)
        with pytest.raises(ValueError, match="WRITEABLE"):
            x.flags.writeable = True
        with pytest.raises(ValueError, match="read-only"):
            x[0] = 1

    def test_writeable_again(self):
        for xp in (np, oxinp):
            x = xp.frombuffer(bytearray(16))
            x.flags.writeable = False
            x.flags.writeable = True
            x[0] = 1

    def test_ndarray_of_a_buffer(self):
        for xp in (np, oxinp):
            memory = bytearray(8 * N)
            x = xp.ndarray((N // 4, 2), "f8", memory, 16, (16, -8 + 16))
            y = xp.ndarray((3, 2), "f8", memory, 48, (-16, 8))
            x[0] = (5, 6)
            assert y[2].tolist() == [5, 6]
            y += 1
            assert x[0].tolist() == [6, 7]
            assert np.frombuffer(memory)[2] == 6
            assert x.base is memory
            assert not x.flags.owndata
            assert x[1:].base is x

    def test_ndarray_of_an_array_of_ours(self):
        for xp in (np, oxinp):
            memory = xp.zeros(N)
            x = xp.ndarray((2, 2), "f8", memory, 8)
            x[:] = 1
            assert memory[:6].tolist() == [0, 1, 1, 1, 1, 0]

    def test_a_mapped_file(self, tmp_path):
        path = tmp_path / "memory"
        path.write_bytes(bytes(8 * N))
        with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
            x = oxinp.frombuffer(mapped)
            x[:] = oxinp.arange(float(N))
            x *= 2
            mapped.flush()
            assert_same(oxinp.fromfile(path), np.arange(float(N)) * 2)
            del x
            gc.collect()

    def test_memmap(self, tmp_path):
        x = oxinp.memmap(tmp_path / "memory", dtype="f8", mode="w+", shape=N)
        x[:] = oxinp.arange(float(N))
        x += oxinp.ones(N)
        x.flush()
        assert_same(oxinp.fromfile(tmp_path / "memory"), np.arange(N) + 1.0)

    def test_from_dlpack_of_numpy(self):
        theirs = np.ones(N)
        x = oxinp.from_dlpack(theirs)
        x *= 2
        assert theirs[3] == 2
        theirs[3] = 9
        assert_same((x + 1)[:5], np.array([3.0, 3, 3, 10, 3]))
        copied = oxinp.from_dlpack(theirs, copy=True)
        copied[0] = 77
        assert theirs[0] == 2


class Held:
    def __init__(self, memory):
        self.values = np.frombuffer(memory)

    def __array__(self, dtype=None, copy=None):
        return self.values if dtype is None else self.values.astype(dtype)


def has(name, array):
    """Return an object with an attribute of an array's."""
    return type("Has", (), {name: getattr(array, name), "array": array})()


SHARERS = {
    "memoryview": lambda memory: memoryview(memory).cast("d"),
    "bytearray": lambda memory: memory,
    "ctypes": (ctypes.c_double * N).from_buffer,
    "__array_interface__": lambda memory: has("__array_interface__", np.frombuffer(memory)),
    "__array_struct__": lambda memory: has("__array_struct__", np.frombuffer(memory)),
    "__array__": Held,
}


@pytest.mark.usefixtures("offload_threshold")
@pytest.mark.parametrize("name", SHARERS)
def test_asarray_shares(name):
    memory = bytearray(8 * N)
    given = SHARERS[name](memory)
    x = oxinp.asarray(given)
    assert type(x) is oxinp.ndarray
    assert_same(x, np.asarray(given))
    x[:2] = x.dtype.type(7)
    assert memory[: 2 * x.itemsize] == np.full(2, 7, x.dtype).tobytes()
    y = x + 1
    memory[:8] = b"\1" * 8
    assert_same((x + 0)[:3], np.asarray(given)[:3])
    assert y[0] == 8
    x += oxinp.ones_like(x)
    assert_same(x, np.frombuffer(memory, x.dtype))
    copied = oxinp.asarray(given, "f4")
    copied[0] = 99
    assert np.asarray(given)[0] != 99


@pytest.mark.usefixtures("on_device")
def test_what_nobody_else_holds_is_not_pinned():
    class Makes:
        def __array__(self, dtype=None, copy=None):
            return np.arange(6.0).reshape(2, 3).T

    for x in (oxinp.asarray(Makes()), oxinp.array(bytearray(8)), oxinp.asarray(memoryview(b"12345678"))):
        assert not is_pinned(x._storage)
    assert not oxinp.asarray(memoryview(b"12345678")).flags.writeable


def test_asarray_of_a_read_only_array_method_copies():
    class Frame:
        def __init__(self):
            self.values = np.zeros(3)

        def __array__(self, dtype=None, copy=None):
            read_only = self.values.view()
            read_only.flags.writeable = False
            return read_only

    x = oxinp.asarray(Frame())
    assert not is_pinned(x._storage)


def test_asarray_of_a_file_mapped_for_writing(tmp_path):
    mapped = np.memmap(tmp_path / "memory", "f8", "w+", shape=3)
    oxinp.asarray(mapped)[:] = 4
    mapped.flush()
    assert np.fromfile(tmp_path / "memory").tolist() == [4, 4, 4]
    assert not is_pinned(oxinp.asarray(np.memmap(tmp_path / "memory", "f8", "r"))._storage)


DESCRIBED = {
    "long long": "q",
    "unsigned long long": "Q",
    "arrays in fields": [("a", "i1"), ("b", "f8", (2, 5))],
    "arrays of fields": [("x", [("a", "i1"), ("b", "i4")], (4, 3))],
    "paddings": {"names": ["a", "b"], "formats": ["i8", "S3"], "itemsize": 24},
    "fields": "i4, f8",
}


@pytest.mark.parametrize("dtype", DESCRIBED.values(), ids=DESCRIBED)
def test_numpy_gets_every_dtype(dtype):
    x = oxinp.zeros(3, dtype)
    given = np.asarray(x)
    assert given.dtype == x.dtype
    assert given.dtype.char == x.dtype.char
    given[1] = 1
    assert_same(x, given)


@pytest.mark.parametrize("code", ["q", "f8", "O", "T", "V3"])
def test_interfaces_that_a_program_asks_for_by_name(code):
    x, y = oxinp.zeros(3, code), np.zeros(3, code)
    assert x.__array_interface__["typestr"] == y.__array_interface__["typestr"]
    assert x.__array_interface__["data"][0] == x.ctypes.data
    assert type(x.__array_struct__) is type(y.__array_struct__)
    assert np.asarray(x).dtype == y.dtype


@pytest.mark.parametrize("make", [
    lambda xp: xp.zeros(2, "M8[s]"),
    lambda xp: xp.arange(3).astype(">i4"),
    lambda xp: xp.zeros(3, [("a", "i4"), ("b", "i1")])["a"],
], ids=["dates", "bytes in another order", "strides"])  # fmt: skip
def test_dlpack_does_not_take_what_it_cannot_describe(make):
    for xp in (np, oxinp):
        with pytest.raises(BufferError):
            xp.from_dlpack(make(xp))


def test_dlpack_takes_any_step_of_a_dimension_of_one():
    x = oxinp.ndarray((1, 3), "f8", strides=(13, 8))
    assert_same(oxinp.from_dlpack(x).shape, (1, 3))


def test_functions_in_c_take_what_ndpointer_describes():
    x = oxinp.arange(6.0)
    declared = np.ctypeslib.ndpointer(float, ndim=1, flags="C_CONTIGUOUS, WRITEABLE")
    fill = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t)(("memset", ctypes.pythonapi))
    assert declared.from_param(x).data == x.ctypes.data
    fill(declared.from_param(x), 0, 16)
    assert_same(x + 0, np.array([0, 0, 2.0, 3.0, 4.0, 5.0]))
    for wrong in (x[::2], oxinp.arange(6), x.reshape(2, 3)):
        with pytest.raises(TypeError, match="must have"):
            declared.from_param(wrong)


def _message(make):
    try:
        return make()
    except Exception as error:  # noqa: BLE001 - whatever it is
        return type(error), str(error)


NOT_DESCRIBED = {
    "times": "M8[s]",
    "text": "T",
    "overlapping": {"names": "ab", "formats": ["i4"] * 2, "offsets": [4, 0]},
}


@pytest.mark.skipif(not HAS_PROTOCOL, reason="errors of buffers are a SystemError before Python 3.12")
@pytest.mark.parametrize("dtype", NOT_DESCRIBED.values(), ids=NOT_DESCRIBED)
def test_buffers_that_numpy_refuses(dtype):
    assert _message(lambda: memoryview(oxinp.zeros(2, dtype))) == _message(lambda: memoryview(np.zeros(2, dtype)))


def test_buffers_of_objects():
    x = oxinp.array([1, "a", None], dtype=object)
    assert memoryview(x).format == "O"
    seen = np.asarray(memoryview(x))
    seen[0] = 2
    assert x[0] == 2


@pytest.mark.skipif(not HAS_PROTOCOL, reason="classes have a buffer from Python 3.12 on")
def test_flags_of_buffers_are_numpys_to_check():
    simple, f_contiguous = 0, 0x50
    strided = oxinp.arange(5)[::2]
    with pytest.raises(ValueError, match="ndarray is not C-contiguous"):
        strided.__buffer__(simple)
    assert oxinp.ones((1, 10)).__buffer__(f_contiguous).strides == np.ones((1, 10)).__buffer__(f_contiguous).strides

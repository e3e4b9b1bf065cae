"""Memory that others hold, too: on the host in NumPy's hands, on the emulated device in those of a stand-in library."""

import gc
import mmap
import os
import subprocess
import sys
import weakref

import numpy as np
import pytest

import oxinp
from oxinp import _runtime
from oxinp._core import dlpack, interop
from oxinp._core.storage import is_pinned, is_shared
from tests.comparator import assert_same

N = 20_000  # doubles: above the threshold


class Peer:
    """What another library has: device memory, and an array over it that says so by both protocols."""

    def __init__(self, values, *, read_only=False, stream=None, offset=0):
        self.values = np.ascontiguousarray(values)
        backend = self.backend = _runtime.current()
        self.buffer = backend.allocate(offset + self.values.nbytes)
        self.ptr = self.buffer.ptr + offset
        if offset:
            backend.upload(self.buffer.ptr, np.zeros(offset, np.uint8))
        self.write(self.values)
        self.read_only = read_only
        self.stream = stream

    def write(self, values):
        self.backend.upload(self.ptr, np.ascontiguousarray(values, self.values.dtype))

    def read(self):
        found = np.empty_like(self.values)
        self.backend.download(found, self.ptr)
        return found

    @property
    def __cuda_array_interface__(self):
        return {
            "shape": self.values.shape,
            "typestr": self.values.dtype.str,
            "data": (self.ptr, self.read_only),
            "version": 3,
            "stream": self.stream,
        }

    def __dlpack_device__(self):
        return self.backend.dlpack_device

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        kind = self.values.dtype.kind
        steps = tuple(step // self.values.itemsize for step in self.values.strides)
        tensor = dlpack.Tensor(
            self.ptr,
            self.values.shape,
            steps,
            dlpack.CODES[kind],
            8 * self.values.itemsize,
            self.backend.dlpack_device,
            dlpack.READ_ONLY if self.read_only else 0,
        )
        return dlpack.make_capsule(tensor, self, is_versioned=max_version is not None)


@pytest.fixture
def device(monkeypatch):
    """Let others use the emulated device's memory, under the name of a GPU."""
    backend = _runtime.current()
    if backend.name != "emulator":
        pytest.skip("test_gpu_peers.py does this with real peers")
    monkeypatch.setattr(backend, "dlpack_device", (dlpack.CUDA, 0), raising=False)
    return backend


IMPORTS = {"cai": oxinp.asarray, "dlpack": oxinp.from_dlpack}


@pytest.fixture(params=IMPORTS.values(), ids=IMPORTS)
def take(request):
    return request.param


# -- the host side -----------------------------------------------------------------------------------------------------


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


# -- the device side ---------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("device", "on_device")
class TestForeignDeviceMemory:
    def test_nothing_is_copied(self, take, stats):
        peer = Peer(np.arange(float(N)))
        before = stats().h2d_bytes, stats().d2h_bytes
        x = take(peer)
        assert (stats().h2d_bytes, stats().d2h_bytes) == before
        assert x.__cuda_array_interface__["data"][0] == peer.ptr
        assert x.dtype == "f8"
        assert x.shape == (N,)

    def test_reads_are_not_late(self, take):
        peer = Peer(np.zeros(N))
        x = take(peer)
        lazy = [x + 1, x * x, x[2], x[::2], x.copy(), x.astype("f4"), x.sum(), oxinp.where(x == 0, x, 3), -x, 1 - x]
        lazy += [oxinp.exp(x), oxinp.concatenate([x, x]), abs(x), x[::-1] + x, 2 * x + x]
        views = [x[::2]]
        peer.write(np.ones(N))
        zero = np.zeros(N)
        expected = [zero + 1, zero, np.float64(0), None, zero, zero.astype("f4"), np.float64(0), zero, -zero, 1 - zero]
        expected += [zero + 1, np.zeros(2 * N), zero, zero, zero]
        for ours, numpys in zip(lazy, expected, strict=True):
            if numpys is not None:
                assert_same(ours, numpys)
        assert_same(views[0], np.ones(N // 2))
        assert_same(lazy[3], np.ones(N // 2))

    def test_later_reads_see_later_writes(self, take):
        peer = Peer(np.zeros(N))
        x = take(peer)
        for value in range(3):
            peer.write(np.full(N, float(value)))
            assert_same(x, np.full(N, float(value)))
            assert float(x[3]) == value
            assert x.tolist()[-1] == value
            assert next(iter(x)) == value
            assert "..." in repr(x)
            assert_same(oxinp.cumsum(x), np.cumsum(np.full(N, float(value))))

    @pytest.mark.parametrize(
        "write",
        [
            lambda x: x.__iadd__(1),
            lambda x: x.__setitem__(slice(None), 7),
            lambda x: x.__setitem__(slice(2, 9), oxinp.arange(7.0)),
            lambda x: x.__setitem__(3, 5),
            lambda x: oxinp.add(x, x, out=x),
            lambda x: oxinp.add(x[:-1], x[1:], out=x[1:]),
            lambda x: oxinp.sum(x, keepdims=True, out=x[4:5]),
            lambda x: x.sort(),
            lambda x: x.__setitem__(x > 5, 0),
            lambda x: x.__setitem__([1, 2, 1], [7, 8, 9]),
            lambda x: x[::-1].sort(),
            lambda x: x.fill(3),
            lambda x: np.add.at(x, [0, 0], 1),
            lambda x: np.copyto(x, 2, where=np.arange(len(x)) % 2 == 0),
            lambda x: np.divmod(x, 3, out=(x[:], np.empty(len(x)))),
            lambda x: np.cumsum(x, out=x),
            lambda x: oxinp.add(np.float64(1), 2, out=x),
            lambda x: oxinp.exp2(x % 5, out=x),
            lambda x: x.__setattr__("flat", 5),
        ],
    )
    def test_writes_are_seen_at_once(self, take, write):
        values = np.random.default_rng(3).permutation(N).astype(float)
        expected = values.copy()
        peer = Peer(values)
        x = take(peer)
        oxinp_add = oxinp.add
        write(x)
        with np.errstate(all="ignore"):
            _on_numpy(write, expected)
        assert oxinp.add is oxinp_add
        assert_same(peer.read(), expected)
        assert_same(x, expected)
        assert is_shared(x._storage)

    def test_a_write_is_not_seen_by_what_was_recorded(self, take):
        x = take(Peer(np.zeros(N)))
        y = x + 1
        x += 5
        assert_same(y, np.ones(N))

    def test_pending_values_are_written_where_they_belong(self, take):
        peer = Peer(np.zeros(N))
        x = take(peer)
        y = oxinp.arange(float(N)) * 2
        x[:] = y
        assert_same(peer.read(), np.arange(float(N)) * 2)
        z = x[:10] + 1
        x[:10] = z
        peer.write(np.zeros(N))
        assert_same(z, np.arange(10.0) * 2 + 1)

    def test_read_only(self, take):
        x = take(Peer(np.zeros(N), read_only=True))
        assert not x.flags.writeable
        with pytest.raises(ValueError, match="read-only"):
            x[0] = 1
        with pytest.raises(ValueError, match="WRITEABLE"):
            x.flags.writeable = True

    @pytest.mark.parametrize("dtype", "?bBhHiIlLefdFD")
    def test_dtypes(self, take, dtype):
        values = (np.arange(N) % 2).astype(dtype)
        peer = Peer(values)
        x = take(peer)
        assert_same(x, values)
        assert_same(x[3], values[3])
        assert_same(x[::3], values[::3])
        assert_same(x == x[0], values == values[0])
        x[1:3] = [0, 1]
        values[1:3] = [0, 1]
        assert_same(peer.read(), values)

    def test_addresses_anywhere(self, take):
        peer = Peer(np.arange(N, dtype="f4"), offset=20)
        x = take(peer)
        assert_same(x + 1, np.arange(N, dtype="f4") + 1)
        x[:] = 2
        assert_same(peer.read(), np.full(N, 2, "f4"))

    def test_other_layouts(self):
        values = np.arange(float(N)).reshape(100, 200)
        peer = Peer(values)
        described = peer.__cuda_array_interface__ | {"strides": (8, 1600), "shape": (200, 100)}

        class Turned:
            __cuda_array_interface__ = described

        x = oxinp.asarray(Turned())
        assert_same(x, values.T)
        assert x.flags.f_contiguous
        assert_same((x * 2).sum(0), (values.T * 2).sum(0))

        class Backwards:
            __cuda_array_interface__ = described | {
                "strides": (-8,),
                "shape": (N,),
                "data": (peer.ptr + 8 * (N - 1), False),
            }

        assert_same(oxinp.asarray(Backwards()) + 0, values.ravel()[::-1])

    def test_the_owner_lives_as_long_as_the_array(self, take):
        peer = Peer(np.arange(float(N)))
        alive = weakref.ref(peer)
        x = take(peer)[5:]
        del peer
        gc.collect()
        assert alive() is not None
        assert x[0] == 5
        del x
        gc.collect()
        assert alive() is None

    def test_asarray_converts_and_array_copies(self):
        peer = Peer(np.arange(float(N)))
        assert_same(oxinp.asarray(peer, "f4"), np.arange(N, dtype="f4"))
        x = oxinp.array(peer)
        x += 1
        assert peer.read()[0] == 0
        y = oxinp.from_dlpack(peer, copy=True)
        y += 1
        assert peer.read()[0] == 0

    def test_no_elements(self, take):
        assert take(Peer(np.empty((0, 3), "f4"))).shape == (0, 3)

    def test_memory_that_is_not_ours_to_use(self, monkeypatch):
        peer = Peer(np.zeros(N))
        monkeypatch.setattr(peer, "ptr", 4096)
        with pytest.raises(BufferError, match="0x1000"):
            oxinp.asarray(peer)
        monkeypatch.setattr(Peer, "__dlpack_device__", lambda _: (dlpack.CUDA, 1))
        with pytest.raises(BufferError, match="GPU 1"):
            oxinp.from_dlpack(peer)
        with oxinp.config.override(backend="host"), pytest.raises(BufferError, match="not in use"):
            oxinp.from_dlpack(peer)

    def test_streams(self, device, monkeypatch):
        waited = []
        monkeypatch.setattr(device, "wait_for", waited.append, raising=False)
        oxinp.asarray(Peer(np.zeros(N), stream=2))
        assert waited == [2]
        with pytest.raises(ValueError, match="stream 0"):
            oxinp.asarray(Peer(np.zeros(N), stream=0))

    def test_host_exports_are_copies(self, take):
        peer = Peer(np.zeros(N))
        x = take(peer)
        assert x.data.readonly
        assert next(x.flat) == 0
        with pytest.raises(BufferError, match="on the device"):
            x.ctypes  # noqa: B018


def _on_numpy(write, array):
    """Run a body that names oxinp on NumPy's array."""
    code = type(write)(write.__code__, {**write.__globals__, "oxinp": np})
    code(array)


@pytest.mark.usefixtures("device", "on_device")
class TestExports:
    def test_the_memory_is_the_arrays(self):
        x = oxinp.arange(float(N))
        tensor, owner = dlpack.consume(x[3:].__dlpack__(max_version=(1, 0)))
        assert tensor.device == (dlpack.CUDA, 0) == x.__dlpack_device__()
        assert tensor.shape == (N - 3,)
        assert tensor.strides == (1,)
        assert tensor.address == x.__cuda_array_interface__["data"][0] + 24
        assert tensor.flags == 0
        del owner

    def test_it_lives_as_long_as_the_consumer_wants(self):
        x = oxinp.arange(float(N)) + 1
        alive = weakref.ref(x._storage)
        capsule = x.__dlpack__()
        tensor, owner = dlpack.consume(capsule)
        del x, capsule
        gc.collect()
        assert alive() is not None
        found = np.empty(N)
        _runtime.current().download(found, tensor.address)
        assert_same(found, np.arange(float(N)) + 1)
        del owner
        gc.collect()
        assert alive() is None
        assert not dlpack._exports

    def test_a_capsule_that_nobody_consumes(self):
        x = oxinp.ones(N)
        for _ in range(3):
            x.__dlpack__()
            x.__dlpack__(max_version=(1, 1))
        gc.collect()
        assert len(dlpack._exports) == 1  # until somebody looks
        dlpack.sweep()
        assert not dlpack._exports

    def test_a_capsule_that_somebody_holds(self):
        capsules = [oxinp.ones(N).__dlpack__(), oxinp.ones(N).__dlpack__(max_version=(1, 1))]
        dlpack.sweep()
        assert len(dlpack._exports) == 2
        owners = [dlpack.consume(capsule)[1] for capsule in capsules]
        del capsules
        dlpack.sweep()
        assert len(dlpack._exports) == 2
        assert not dlpack._capsules
        del owners
        assert not dlpack._exports

    def test_a_consumer_that_raises(self):
        with pytest.raises((BufferError, RuntimeError), match="device"):
            np.from_dlpack(oxinp.ones(N))
        dlpack.sweep()
        assert not dlpack._exports

    def test_a_capsule_is_consumed_once(self):
        capsule = oxinp.ones(N).__dlpack__()
        dlpack.consume(capsule)
        with pytest.raises(BufferError, match="consumed"):
            dlpack.consume(capsule)
        with pytest.raises(BufferError, match="no DLPack capsule"):
            dlpack.consume(3)

    def test_our_own_address_is_our_own_storage(self):
        x = oxinp.arange(float(N))

        class Passed:
            __cuda_array_interface__ = x[5:].__cuda_array_interface__

            def __dlpack_device__(self):
                return x.__dlpack_device__()

            def __dlpack__(self, **keywords):
                return x[5:].__dlpack__(**keywords)

        for y in (oxinp.asarray(Passed()), oxinp.from_dlpack(Passed()), oxinp.from_dlpack(x)[5:]):
            assert y._storage is x._storage
            y[0] += 1
        assert x[5] == 8

    def test_what_is_pending_is_computed_first(self):
        x = oxinp.ones(N) * 3
        reader = x + 1
        described = x.__cuda_array_interface__
        _runtime.current().upload(described["data"][0], np.zeros(N))
        assert_same(reader, np.full(N, 4.0))
        assert_same(x, np.zeros(N))

    def test_writes_after_the_export(self):
        x = oxinp.ones(N)
        where = x.__cuda_array_interface__["data"][0]
        x += 1
        x[0] = 9
        x[1:3] = oxinp.zeros(2)
        found = np.empty(4)
        _runtime.current().download(found, where)
        assert found.tolist() == [9, 0, 0, 2]
        assert x.__cuda_array_interface__["data"][0] == where

    def test_layouts_and_flags(self):
        x = oxinp.ones((100, 200))
        assert x.T.__cuda_array_interface__["strides"] == (8, 1600)
        assert x.__cuda_array_interface__["strides"] is None
        assert x.__cuda_array_interface__["stream"] == 1
        x.flags.writeable = False
        assert x.__cuda_array_interface__["data"][1] is True
        with pytest.raises(BufferError, match="read-only"):
            x.__dlpack__()
        tensor, owner = dlpack.consume(x.T.__dlpack__(max_version=(1, 0)))
        assert tensor.flags == dlpack.READ_ONLY
        assert tensor.strides == (1, 200)
        tensor, owner = dlpack.consume(oxinp.ones(N).__dlpack__(max_version=(1, 0), copy=True))
        assert tensor.flags == dlpack.IS_COPIED
        del owner

    def test_streams(self, device, monkeypatch):
        waiting = []
        monkeypatch.setattr(device, "let_wait", waiting.append, raising=False)
        x = oxinp.ones(N)
        for stream in (None, 1, 2, 7 << 20, -1):
            x.__dlpack__(stream=stream)
        assert waiting == [1, 1, 2, 7 << 20]
        for stream in (0, -2, "1", True):
            with pytest.raises(ValueError, match="stream"):
                x.__dlpack__(stream=stream)

    def test_the_host_gets_a_copy(self):
        x = oxinp.arange(float(N))
        seen = np.from_dlpack(x, device="cpu")
        assert_same(seen, np.arange(float(N)))
        with pytest.raises(BufferError, match="cannot be avoided"):
            x.__dlpack__(dl_device=(dlpack.CPU, 0), copy=False)
        with pytest.raises(BufferError, match="cannot be exported"):
            x.__dlpack__(dl_device=(8, 0))

    def test_pinned_arrays_are_on_the_host(self):
        x = oxinp.ones(N)
        flat = x.flat
        assert x.__dlpack_device__() == (dlpack.CPU, 0)
        assert not hasattr(x, "__cuda_array_interface__")
        tensor, owner = dlpack.consume(x.__dlpack__(max_version=(1, 0), dl_device=(dlpack.CUDA, 0)))
        assert tensor.flags == dlpack.IS_COPIED
        with pytest.raises(BufferError, match="cannot be avoided"):
            x.__dlpack__(max_version=(1, 0), dl_device=(dlpack.CUDA, 0), copy=False)
        del owner, flat

    def test_dtypes_that_dlpack_has_not(self):
        x = oxinp.array(["2001-01-01"], "M8[D]")
        assert x.__dlpack_device__() == (dlpack.CPU, 0)
        with pytest.raises(BufferError):
            x.__dlpack__()


@pytest.mark.usefixtures("device")
def test_small_arrays_are_on_the_host():
    x = oxinp.ones(3)
    assert not hasattr(x, "__cuda_array_interface__")
    assert x.__dlpack_device__() == (dlpack.CPU, 0)
    tensor, owner = dlpack.consume(x.__dlpack__(dl_device=(dlpack.CUDA, 0)))
    assert tensor.device == (dlpack.CUDA, 0)
    x += 1
    found = np.empty(3)
    _runtime.current().download(found, tensor.address)
    assert found.tolist() == [2, 2, 2]
    del owner


def test_without_a_gpu_there_is_no_cuda_array_interface():
    if _runtime.current().name == "emulator":
        assert not hasattr(oxinp.ones(N), "__cuda_array_interface__")
        assert oxinp.ones(N).__dlpack_device__() == (dlpack.CPU, 0)
    assert interop.dlpack_device(oxinp.ones(2)) == (dlpack.CPU, 0)


def test_what_is_still_out_when_the_interpreter_ends():
    body = f"""
import atexit, ctypes
at_the_very_end = []
atexit.register(lambda: [f() for f in at_the_very_end])  # before oxinp registers anything, so after all of it

import oxinp
from oxinp import _runtime
from oxinp._core import dlpack

_runtime.current().dlpack_device = (2, 0)
tensor, owner = dlpack.consume(oxinp.ones({N}).__dlpack__())
unconsumed = oxinp.ones({N}).__dlpack__(max_version=(1, 0))

@at_the_very_end.append
def let_go():
    # What a library in C does after Python's end: call what the structure says, then.
    (address,) = [a for a, e in dlpack._exports.items() if e.owner[0].value[1][0].ptr == tensor.address]
    deleter = dlpack._Managed.from_address(address).deleter
    assert deleter == ctypes.cast(ctypes.pythonapi.PyMem_RawFree, ctypes.c_void_p).value
    owner._deleter = None
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(deleter)(address)
    print("freed")
"""
    command = [sys.executable, "-c", body]
    environment = os.environ | {"OXINP_BACKEND": "emulator"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "freed\n", done.stderr
    assert not done.stderr

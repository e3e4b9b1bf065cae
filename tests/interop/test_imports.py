"""Device memory of others in our arrays: the emulated device's in those of a stand-in library."""

import gc
import weakref

import numpy as np
import pytest

import oxinp
from oxinp._core.interop import dlpack
from oxinp._core.memory.storage import is_shared
from tests.comparator import assert_same
from tests.interop.peer import Peer

N = 20_000  # doubles: above the threshold


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

    def test_parts_that_read_what_they_overwrite_are_written_where_they_are(self, take):
        wanted = np.random.default_rng(1).random((160, 170))
        peer = Peer(wanted)
        x = take(peer)
        for _ in range(12):
            for a in (x, wanted):
                a[1:-1, 1:-1] = 0.25 * (a[:-2, 1:-1] + a[2:, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:])
        assert x.__cuda_array_interface__["data"][0] == peer.ptr
        assert_same(x, wanted)
        assert_same(peer.read(), wanted)

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

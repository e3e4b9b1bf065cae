"""PyTorch and CuPy on the same GPU: one memory, both ways, by DLPack and by `__cuda_array_interface__`."""

import gc

import numpy as np
import pytest
import scipy.sparse

import oxinp
import oxinp.sparse
from tests.comparator import assert_same

pytestmark = pytest.mark.gpu
N = 100_000
BOTH = ("?", "u1", "i1", "i2", "i4", "i8", "f2", "f4", "f8", "F", "D")


class Torch:
    """PyTorch, under the names that the tests call peers by."""

    def __init__(self):
        self.torch = pytest.importorskip("torch")
        if not self.torch.cuda.is_available():
            pytest.skip("this PyTorch has no CUDA")

    def make(self, values):
        return self.torch.from_numpy(values.copy()).cuda()

    def take(self, array):
        return self.torch.from_dlpack(array)

    def pointer(self, tensor):
        return tensor.data_ptr()

    def numpy(self, tensor):
        return tensor.cpu().numpy()

    def fill(self, tensor, value):
        tensor.fill_(value)

    def add_on_stream(self, tensor, value):
        stream = self.torch.cuda.Stream()
        stream.wait_stream(self.torch.cuda.current_stream())
        with self.torch.cuda.stream(stream):
            for _ in range(50):
                tensor = tensor + value
            return oxinp.from_dlpack(tensor)

    def take_on_stream(self, array):
        stream = self.torch.cuda.Stream()
        with self.torch.cuda.stream(stream):
            taken = self.torch.from_dlpack(array) + 0
        stream.synchronize()
        return taken


class Cupy:
    """CuPy, under the same names."""

    def __init__(self):
        self.cupy = pytest.importorskip("cupy")

    def make(self, values):
        return self.cupy.asarray(values)

    def take(self, array):
        return self.cupy.from_dlpack(array)

    def pointer(self, array):
        return array.data.ptr

    def numpy(self, array):
        return array.get()

    def fill(self, array, value):
        array.fill(value)

    def add_on_stream(self, array, value):
        with self.cupy.cuda.Stream(non_blocking=True):
            for _ in range(50):
                array = array + value
            return oxinp.from_dlpack(array)

    def take_on_stream(self, array):
        with self.cupy.cuda.Stream(non_blocking=True) as stream:
            taken = self.cupy.from_dlpack(array) + 0
            stream.synchronize()
        return taken


@pytest.fixture(params=[Torch, Cupy], ids=["torch", "cupy"])
def peer(request):
    return request.param()


def address(array):
    return array.__cuda_array_interface__["data"][0]


def values_of(dtype):
    return (np.arange(N) % 100).astype(dtype)


@pytest.mark.parametrize("dtype", BOTH)
def test_from_a_peer(peer, dtype, stats):
    values = values_of(dtype)
    theirs = peer.make(values)
    before = stats()
    ours = oxinp.from_dlpack(theirs)
    assert (stats().h2d_bytes, stats().d2h_bytes) == (before.h2d_bytes, before.d2h_bytes)
    assert address(ours) == peer.pointer(theirs)
    assert_same(ours, values)
    peer.fill(theirs, 1)
    assert_same(ours, np.ones(N, dtype))
    ours[:] = 0
    assert not peer.numpy(theirs).any()


@pytest.mark.parametrize("dtype", BOTH)
def test_to_a_peer(peer, dtype, stats):
    values = values_of(dtype)
    ours = oxinp.asarray(values)
    if ours.__dlpack_device__()[0] != 2:
        pytest.fail(f"{dtype} does not live on the GPU")
    oxinp.evaluate(ours)
    before = stats()
    theirs = peer.take(ours)
    assert (stats().h2d_bytes, stats().d2h_bytes) == (before.h2d_bytes, before.d2h_bytes)
    assert peer.pointer(theirs) == address(ours)
    assert_same(peer.numpy(theirs), values)
    ours[:] = 1
    assert_same(peer.numpy(theirs), np.ones(N, dtype))
    peer.fill(theirs, 0)
    assert_same(ours, np.zeros(N, dtype))


def test_pending_work_is_launched_first(peer):
    theirs = peer.take(oxinp.arange(float(N)) * 2 + 1)
    assert_same(peer.numpy(theirs), np.arange(float(N)) * 2 + 1)


def test_in_place_work_on_both_sides(peer):
    ours = oxinp.zeros(N, "f4")
    theirs = peer.take(ours)
    for _ in range(20):
        ours += 1
        theirs += 1
        ours[::2] += oxinp.from_dlpack(theirs)[::2]
    expected = np.zeros(N, "f4")
    for _ in range(20):
        expected += 2
        expected[::2] *= 2
    assert_same(ours, expected)
    assert_same(peer.numpy(theirs), expected)


def test_our_own_memory_comes_back_as_our_own(peer):
    ours = oxinp.arange(float(N))
    theirs = peer.take(ours)
    back = oxinp.from_dlpack(theirs)
    assert back._storage is ours._storage
    assert oxinp.asarray(theirs)._storage is ours._storage
    assert oxinp.from_dlpack(theirs[5:])[0] == 5


def test_the_consumer_outlives_the_array(peer):
    ours = oxinp.arange(float(N)) + 1
    theirs = peer.take(ours)
    del ours
    gc.collect()
    others = [oxinp.full(N, float(i)) for i in range(50)]  # would land in the memory, were it free
    oxinp.evaluate(*others)
    assert_same(peer.numpy(theirs), np.arange(float(N)) + 1)


def test_the_array_outlives_the_producer(peer):
    theirs = peer.make(np.arange(float(N)))
    ours = oxinp.from_dlpack(theirs)[10:]
    del theirs
    gc.collect()
    others = [peer.make(np.full(N, float(i))) for i in range(50)]
    assert_same(ours, np.arange(10.0, N))
    del others


def test_memory_comes_back_to_the_pool(peer):
    oxinp.cuda.trim()
    before = oxinp.cuda.memory_stats().used_nbytes
    theirs = peer.take(oxinp.zeros(N))
    assert oxinp.cuda.memory_stats().used_nbytes > before
    del theirs
    gc.collect()
    assert oxinp.cuda.memory_stats().used_nbytes == before


def test_strided_views(peer):
    values = np.arange(float(N)).reshape(400, 250)
    theirs = peer.make(values)
    ours = oxinp.from_dlpack(theirs.T)
    assert ours.strides == values.T.strides
    assert_same(ours * 2, values.T * 2)
    assert_same(oxinp.from_dlpack(theirs[3:, ::5]).sum(0), values[3:, ::5].sum(0))
    x = oxinp.asarray(values)
    assert_same(peer.numpy(peer.take(x.T[7:])), values.T[7:])


def test_the_cuda_array_interface_both_ways(peer):
    theirs = peer.make(np.arange(float(N)))
    ours = oxinp.asarray(theirs)
    assert address(ours) == peer.pointer(theirs)
    ours += 1
    assert_same(peer.numpy(theirs), np.arange(float(N)) + 1)
    taken = (peer.torch.as_tensor if isinstance(peer, Torch) else peer.cupy.asarray)(
        oxinp.arange(float(N)), **({"device": "cuda"} if isinstance(peer, Torch) else {})
    )
    assert_same(peer.numpy(taken), np.arange(float(N)))


def test_a_producer_on_another_stream(peer):
    for _ in range(20):
        ours = peer.add_on_stream(peer.make(np.zeros(1 << 22)), 1)
        assert float(ours.max()) == float(ours.min()) == 50


def test_a_consumer_on_another_stream(peer):
    for _ in range(20):
        x = oxinp.zeros(1 << 22)
        for _ in range(20):
            x = oxinp.sqrt(x * x + 1)
            oxinp.evaluate(x)
        assert np.allclose(peer.numpy(peer.take_on_stream(x)), np.sqrt(20))


def test_our_own_stream(peer):
    with oxinp.cuda.Stream():
        x = oxinp.arange(float(N)) * 3
        theirs = peer.take(x)
        assert_same(peer.numpy(theirs), np.arange(float(N)) * 3)
        back = oxinp.from_dlpack(theirs) + 1
    assert_same(back, np.arange(float(N)) * 3 + 1)


def test_small_arrays_go_where_they_are_asked_for(peer):
    x = oxinp.arange(4.0)
    assert x.__dlpack_device__()[0] == 1
    if isinstance(peer, Torch):
        assert peer.torch.from_dlpack(x).device.type == "cpu"
        assert peer.torch.from_dlpack(oxinp.arange(4.0), device="cuda").device.type == "cuda"
    else:
        assert_same(peer.numpy(peer.cupy.asarray(x)), np.arange(4.0))


def test_torch_learns_through_our_memory():
    torch = Torch().torch
    weights = torch.zeros(N, device="cuda", requires_grad=True)
    ours = oxinp.from_dlpack(weights.detach())
    target = torch.from_dlpack(oxinp.ones(N, "f4"))
    ((weights - target) ** 2).sum().backward()
    ours -= 0.25 * oxinp.from_dlpack(weights.grad)
    assert_same(weights.detach().cpu().numpy(), np.full(N, 0.5, "f4"))


def test_bfloat16_has_no_dtype_in_numpy():
    torch = Torch().torch
    with pytest.raises(BufferError, match="unknown"):
        oxinp.from_dlpack(torch.zeros(N, dtype=torch.bfloat16, device="cuda"))


@pytest.mark.parametrize("library", ["torch", "cupy"])
@pytest.mark.filterwarnings("ignore:Sparse:UserWarning")  # of PyTorch, which says once that it checks nothing
def test_sparse_objects_of_a_peer(library):
    matrix = scipy.sparse.csr_array(scipy.sparse.random_array((300, 200), density=0.1, rng=1))
    if library == "torch":
        torch = Torch().torch
        parts = [torch.from_numpy(each).cuda() for each in (matrix.indptr, matrix.indices, matrix.data)]
        theirs = torch.sparse_csr_tensor(*parts, size=matrix.shape)
        held = theirs.values().data_ptr()
    else:
        theirs = pytest.importorskip("cupyx.scipy.sparse").csr_matrix(scipy.sparse.csr_matrix(matrix))
        held = theirs.data.data.ptr
    made = oxinp.sparse.csr_array(theirs)
    assert address(made.data) == held
    assert_same(made.toarray(), matrix.toarray())
    others = theirs.to_sparse_coo() if library == "torch" else theirs.tocoo()
    assert_same(oxinp.sparse.coo_array(others).toarray(), matrix.toarray())

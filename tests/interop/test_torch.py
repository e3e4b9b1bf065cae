"""PyTorch on the host, by DLPack: its memory and ours, without a copy."""

import gc

import numpy as np
import pytest

import oxinp
from tests.comparator import assert_same

torch = pytest.importorskip("torch")
N = 20_000


@pytest.fixture(autouse=True)
def _on_the_host():
    if oxinp.ones(N).__dlpack_device__()[0] != 1:
        pytest.skip("test_gpu_peers.py does this on the GPU")


@pytest.mark.usefixtures("offload_threshold")
@pytest.mark.parametrize("dtype", ["?", "u1", "i1", "i2", "i4", "i8", "f2", "f4", "f8", "F", "D"])
def test_one_memory(dtype):
    values = (np.arange(N) % 2).astype(dtype)
    x = oxinp.asarray(values)
    t = torch.from_dlpack(x)
    assert_same(t.numpy(), values)
    t[:10] = 1
    assert_same(x[:10], np.ones(10, dtype))
    x[:] = 0
    assert not t.any()
    y = oxinp.from_dlpack(t)
    y[0] = 1
    assert_same(x[0] == x[1], np.False_)
    assert_same(y + y, np.asarray(x) + np.asarray(x))


@pytest.mark.usefixtures("offload_threshold")
def test_whichever_goes_first():
    t = torch.from_dlpack(oxinp.arange(float(N)) * 2)
    gc.collect()
    assert t[5] == 10
    x = oxinp.from_dlpack(t[3:])
    del t
    gc.collect()
    assert_same(x, np.arange(3.0, N) * 2)
    assert x.base is not None


def test_gradients_and_pytorchs_functions():
    w = torch.zeros(N, dtype=torch.float64, requires_grad=True)
    x = oxinp.from_dlpack(w.detach())
    ((w - torch.from_dlpack(oxinp.ones(N))) ** 2).sum().backward()
    x -= 0.25 * oxinp.from_dlpack(w.grad)
    assert_same(w.detach().numpy(), np.full(N, 0.5))


def test_asarray_shares_the_hosts_memory_as_numpys_does():
    t = torch.ones(N)
    x = oxinp.asarray(t)
    x += 1
    assert t[0] == 2
    t[1] = 5
    assert x[1] == 5
    x[2:] = oxinp.array(t)[2:] * 4
    assert t[-1] == 8
    assert type(oxinp.add(oxinp.ones(3), torch.ones(3).numpy())) is oxinp.ndarray

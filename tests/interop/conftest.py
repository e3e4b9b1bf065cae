"""What the tests of memory that others hold share."""

import pytest

import oxinp
from oxinp import _runtime
from oxinp._core.interop import dlpack


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

"""Devices of `oxinp.cuda`, over a driver without a GPU."""

import threading

import numpy as np
import pytest

import oxinp
from oxinp import _runtime, cuda
from tests.cuda_interface.evaluated import evaluated

# Devices


def test_a_device_is_current_inside_with(library):
    first = _runtime.current()
    assert cuda.current_device() == cuda.Device(0)
    with cuda.Device(1) as device:
        second = _runtime.current()
        assert second is not first
        assert second.device.ordinal == device.ordinal == 1
        assert cuda.current_device() == device
        with cuda.Device(0):
            assert _runtime.current() is first
        assert _runtime.current() is second
    assert _runtime.current() is first
    with cuda.Device(1):
        assert _runtime.current() is second  # it is not opened twice
    assert library.count()["cuDevicePrimaryCtxRetain"] == 2


def test_a_device_waits_for_another_where_it_reads_its_memory(library, config):
    config.offload_threshold = 0
    first = _runtime.current()
    with cuda.Device(1):
        second = _runtime.current()
        y = evaluated(oxinp.ones(1000) + 1)
    x = evaluated(oxinp.zeros(1000) + 1)
    library.calls.clear()
    with cuda.Device(1):
        evaluated(y + 2)
        assert not library.peers
        assert "cuStreamWaitEvent" not in library.names()
        evaluated(x + y)
        event, _ = library.arguments("cuEventRecord")
        assert library.made_in["cuEventRecord"] == first.context.handle
        assert library.arguments("cuStreamWaitEvent")[1] == event
        assert library.made_in["cuStreamWaitEvent"] == second.context.handle
        assert len(library.peers) == 1


@pytest.mark.usefixtures("library")
def test_threads_have_devices_of_their_own():
    seen = []
    with cuda.Device(1):
        thread = threading.Thread(target=lambda: seen.append(cuda.current_device()))
        thread.start()
        thread.join()
        assert cuda.current_device() == cuda.Device(1)
    assert seen == [cuda.Device(0)]


@pytest.mark.usefixtures("library")
def test_others_are_told_the_device_of_the_array(config):
    config.offload_threshold = 0
    x = evaluated(oxinp.ones(1000) + 1)
    with cuda.Device(1):
        y = evaluated(oxinp.ones(1000) + 1)
        pending = oxinp.ones(1000) + 2
        assert (x.__dlpack_device__(), y.__dlpack_device__()) == ((2, 0), (2, 1))
    assert (x.__dlpack_device__(), y.__dlpack_device__()) == ((2, 0), (2, 1))
    assert pending.__dlpack_device__() == (2, 1)
    assert y.__cuda_array_interface__["shape"] == (1000,)


def test_synchronize_waits_for_all_devices(library):
    with cuda.Device(1):
        _runtime.current()
    library.calls.clear()
    cuda.synchronize()
    assert library.count()["cuCtxSynchronize"] == 2


def test_kernels_are_kept_for_each_device(library, config):
    config.offload_threshold = 0
    for turn in range(3):
        for ordinal in range(2):
            with cuda.Device(ordinal):
                evaluated(oxinp.ones(1000) * turn)
    assert len(library.launches) == 6
    assert library.count()["cuModuleGetFunction"] == 2


def test_work_goes_to_the_device_that_is_current(library, config):
    config.offload_threshold = 0
    with cuda.Device(1):
        x = oxinp.ones(1000) + 1
        oxinp.evaluate(x)
        assert library.made_in["cuModuleGetFunction"] == _runtime.current().context.handle
        used = _runtime.current().pool.used_nbytes
        assert used >= 8000
    assert _runtime.current().pool.used_nbytes == 0
    before = len(library.launches)
    oxinp.evaluate(x + 1)  # memory of the one, used by the other
    assert len(library.launches) == before + 1


def test_an_exception_inside_gives_the_device_back(library):
    first = _runtime.current()
    with pytest.raises(KeyError), cuda.Device(1):
        raise KeyError("inside")
    assert _runtime.current() is first
    with pytest.raises(cuda.DeviceNotFound, match="no device 999"):
        cuda.Device(999)
    assert library.num_devices == 2


def test_devices_that_cannot_meet(library, config):
    config.offload_threshold = 0
    library.can_access_peers = False
    x = evaluated(oxinp.ones(1000) + 1)
    with cuda.Device(1):
        evaluated(oxinp.ones(1000) + 1)
        y = x + 3
        with pytest.raises(cuda.PeerError, match="make the array's device current"):
            oxinp.evaluate(y)
        del y  # which is computed before what it reads can be lent
        np.asarray(x)  # by way of the host there is one
    evaluated(x + 1)


@pytest.mark.usefixtures("library")
def test_properties_of_devices():
    first, second = cuda.list_devices()
    assert (first.ordinal, second.ordinal) == (0, 1)
    assert first.name == "Fake GPU"
    assert first.compute_capability == (9, 0)
    assert first.total_nbytes == 140 << 30
    assert first.pci_address == "0000:1b:00.0"
    assert first.uuid.startswith("GPU-")
    assert first.attributes()["num_sms"] == 132
    assert second.memory_info() == (100 << 30, 140 << 30)
    assert cuda.best_device() in {first, second}
    assert repr(second) == "<Device 1: Fake GPU>"
    assert len({first, second, cuda.Device(1)}) == 2


@pytest.mark.usefixtures("library")
def test_a_pool_leases_devices_in_turn():
    pool = cuda.DevicePool()
    seen = []
    for _ in range(3):
        with pool.lease() as device:
            assert cuda.current_device() == device
            seen.append(device.ordinal)
    assert seen == [0, 1, 0]
    with cuda.DevicePool(policy="least_loaded").lease() as device:
        assert device.ordinal == 0
    other = cuda.DevicePool(cuda.list_devices()[1:], "least_loaded")
    with other.lease() as device:
        assert (device.ordinal, other.loads) == (1, (1,))
    with pytest.raises(KeyError), other.lease():
        raise KeyError("inside")
    assert other.loads == (0,)
    assert cuda.current_device() == cuda.Device(0)
    with pytest.raises(cuda.InvalidValue, match="policy='best'"):
        cuda.DevicePool(policy="best")
    with pytest.raises(cuda.InvalidValue, match="devices is empty"):
        cuda.DevicePool([])


def test_links_and_places(library):
    first, second = cuda.list_devices()
    assert first.can_reach(first)
    assert first.can_reach(second)
    library.can_access_peers = False
    assert not first.can_reach(second)
    assert first.bus_place().pci_address == "0000:1b:00.0"
    assert {(link.first, link.second) for link in cuda.links()} >= {(0, 1)}


def test_without_a_gpu(config):
    config.backend = "host"
    assert cuda.current_device() is None
    assert "no GPU in use" in cuda.debug.snapshot()

"""Threads on two devices: none waits for the other one's device, and arrays that they share mean the same to both."""

import threading

import numpy as np
import pytest

import oxinp
from oxinp import _runtime, cuda
from oxinp._core.lazy import schedule
from oxinp._core.lazy.handle import fetch_storage
from tests.cuda_interface.evaluated import evaluated
from tests.patience import PATIENCE

SHORTLY = 0.2
"""Seconds in which what should wait would have gone on."""


class Device:
    """A device, what a thread does there, and where the driver holds it up.

    Attributes
    ----------
    is_held : threading.Event
        The thread is inside the driver.
    """

    def __init__(self, library, ordinal):
        self.library, self.ordinal = library, ordinal
        self.is_held, self._may_go = threading.Event(), threading.Event()
        self.errors = []
        with cuda.Device(ordinal):
            self.context = _runtime.current().context.handle

    def hold(self, name):
        """Let the next call of a function of the driver, on this device, wait until `release`."""
        result = self.library._result

        def wait(called):
            if called == name and self.library._thread.context == self.context and not self.is_held.is_set():
                self.is_held.set()
                assert self._may_go.wait(PATIENCE)
            return result(called)

        self.library._result = wait

    def release(self):
        self._may_go.set()

    def start(self, body):
        """Run a body on the device in a thread of its own, and return that."""

        def run():
            try:
                with cuda.Device(self.ordinal):
                    body()
            except BaseException as error:  # noqa: BLE001 - whatever it is belongs to the test
                self.errors.append(error)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        return thread


@pytest.fixture
def devices(library, config):
    config.offload_threshold = 0
    devices = [Device(library, ordinal) for ordinal in range(2)]
    yield devices
    for device in devices:
        device.release()


def everything(x):
    """Compute, upload, write to and read arrays."""
    y = evaluated(x * 2 + 1)
    oxinp.evaluate(y.sum())
    y[1:] = x[:-1] - 3
    y += 1
    y[:500] = np.arange(500.0)
    evaluated(oxinp.asarray(np.arange(2000.0)) * 2)
    (x[:400].reshape(20, 20) @ x[400:800].reshape(20, 20)).tolist()
    np.asarray(y)
    y.fill(3)
    np.add(1.0, y[:2], out=y[2:4])
    oxinp.evaluate(y)


def on_host(array):
    """Return an array that is on the host so far."""
    with oxinp.config.override(offload_threshold=float("inf")):
        return oxinp.asarray(array)


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("cuLaunchKernelEx", lambda x: oxinp.evaluate(x * 2 + 1)),
        ("cuMemcpyHtoDAsync_v2", lambda x: x.__setitem__(slice(5, 900), np.arange(895.0))),
        ("cuMemcpyDtoH_v2", lambda x: np.asarray(x[10:])),
        ("cuEventSynchronize", np.asarray),
        ("cuMemAlloc_v2", lambda x: oxinp.evaluate(oxinp.repeat(x, 77))),
        ("cuModuleLoadDataEx", lambda x: oxinp.evaluate(oxinp.sqrt(x) * 7 - x)),
    ],
)
def test_a_thread_on_one_device_never_waits_for_another_device(devices, name, body):
    first, second = devices
    arrays = []
    for device in devices:
        with cuda.Device(device.ordinal):
            x = evaluated(oxinp.ones(1000) + 1)
            everything(x)
            evaluated(x * 2 + 1)
            arrays.append(x)
    first.hold(name)
    held = first.start(lambda: body(arrays[0]))
    assert first.is_held.wait(PATIENCE), first.errors
    other = second.start(lambda: everything(arrays[1]))
    other.join(PATIENCE)
    assert not other.is_alive(), "it waits"
    first.release()
    held.join(PATIENCE)
    assert not held.is_alive()
    assert not first.errors + second.errors


def test_a_write_waits_for_a_reader_that_another_device_is_about_to_run(devices, library):
    first, second = devices
    with cuda.Device(1):
        evaluated(oxinp.ones(1000) * 3)
    x = evaluated(oxinp.ones(1000) + 1)
    x[1:] = 7.0
    second.hold("cuLaunchKernelEx")
    reading = second.start(lambda: oxinp.evaluate(x * 3))
    assert second.is_held.wait(PATIENCE), second.errors
    before = len(library.launches)
    writing = first.start(lambda: x.__setitem__(slice(1, None), 7.0))
    writing.join(SHORTLY)
    assert writing.is_alive()
    assert len(library.launches) == before
    second.release()
    for thread in (reading, writing):
        thread.join(PATIENCE)
        assert not thread.is_alive()
    assert not first.errors + second.errors
    read, written = library.launches[before:]
    address = x._storage.value[1][0].ptr
    assert address in np.frombuffer(read.params, np.uint64)
    assert address + 8 in np.frombuffer(written.params[:8], np.uint64)


def test_many_pending_arrays_are_computed_together(devices):
    with cuda.Device(devices[1].ordinal):
        x = evaluated(oxinp.ones(1000) + 1)
        arrays = [x + number for number in range(schedule.MAX_ALIVE + 50)]
        oxinp.evaluate(arrays[3])
        assert not any(y._storage.value[0].nodes for y in arrays)


def test_an_array_of_the_host_goes_to_two_devices_at_once(devices):
    first, second = devices
    first.hold("cuMemcpyHtoDAsync_v2")
    x, made = on_host(np.arange(3000.0)), []
    uploading = first.start(lambda: made.append(evaluated(x * 2)))
    assert first.is_held.wait(PATIENCE), first.errors
    other = second.start(lambda: made.append(evaluated(x * 2)))
    other.join(PATIENCE)
    assert not other.is_alive(), "it waits"
    first.release()
    uploading.join(PATIENCE)
    assert not first.errors + second.errors
    assert len(made) == 2
    assert x._storage.value[1][0].backend.device.ordinal == 0
    assert x._storage.stale is None


def test_what_is_written_during_an_upload_is_uploaded_again(devices):
    first, _ = devices
    first.hold("cuMemcpyHtoDAsync_v2")
    x = on_host(np.zeros(3000))
    uploading = first.start(lambda: oxinp.evaluate(x * 2))
    assert first.is_held.wait(PATIENCE), first.errors
    writing = threading.Thread(target=x.__setitem__, args=(5, 9.0), daemon=True)
    writing.start()
    writing.join(PATIENCE)
    assert not writing.is_alive(), "it waits"
    first.release()
    uploading.join(PATIENCE)
    assert not first.errors
    assert x._storage.value is None
    assert x._storage.stale is None
    held = oxinp.evaluate(x * 1) or x._storage.value[1][0]
    assert np.frombuffer((np.ctypeslib.ctypes.c_char * 64).from_address(held.ptr), np.float64)[5] == 9


def test_pending_work_of_another_device_stays_there(devices, library):
    _, second = devices
    made, may_end = [], threading.Event()
    recorded = threading.Event()

    def record():
        made.append(oxinp.ones(1000) + 1)
        recorded.set()
        assert may_end.wait(PATIENCE)

    thread = second.start(record)
    assert recorded.wait(PATIENCE), second.errors
    before = len(library.launches)
    with cuda.Stream():
        pass
    assert len(library.launches) == before
    oxinp.evaluate()
    assert len(library.launches) == before + 1
    assert made[0]._storage.value[1][0].backend.device.ordinal == 1
    may_end.set()
    thread.join(PATIENCE)
    assert not second.errors


@pytest.mark.parametrize("repeat", range(4))
def test_threads_that_share_arrays_of_two_devices_never_hang(devices, repeat):
    shared = []
    for device in devices:
        with cuda.Device(device.ordinal):
            shared.append(evaluated(oxinp.ones(1000) + 1))

    def work(number):
        random = np.random.default_rng(2 * repeat + number)
        for _ in range(30):
            x, y = (shared[i] for i in random.permutation(2))
            match random.integers(7):
                case 0:
                    oxinp.evaluate(x + y)
                case 1:
                    x[10:] = y[:-10] * 2
                case 2:
                    x += y
                case 3:
                    np.asarray(x)
                case 4:
                    x[3] = 4.0
                case 5:
                    x[:5] = np.arange(5.0)
                case 6:
                    oxinp.evaluate()

    threads = [device.start(lambda number=device.ordinal: work(number)) for device in devices]
    for thread in threads:
        thread.join(PATIENCE)
    assert not any(thread.is_alive() for thread in threads), "they hang"
    assert not devices[0].errors + devices[1].errors


def test_transfers_go_by_the_device_that_holds_the_array(devices, library, config):
    _, second = devices
    with cuda.Device(1):
        x = evaluated(oxinp.ones(1000) + 1)
        y = evaluated(oxinp.ones(1000) + 1)
    library.calls.clear()
    np.asarray(x)
    x.tolist()
    assert library.made_in["cuMemcpyDtoH_v2"] == second.context
    assert "cuStreamWaitEvent" not in library.names()  # only the stream that the work is on
    with config.override(offload_threshold=float("inf")):
        fetch_storage(y._storage)
        y[:5] = 7.0
    oxinp.evaluate(y + 1)  # runs on the first device, and lies where it did
    assert library.made_in["cuMemcpyHtoDAsync_v2"] == second.context
    assert y._storage.value[1][0].backend.device.ordinal == 1

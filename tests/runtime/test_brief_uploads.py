"""Small uploads through pinned memory: what is uploaded is what was there, whenever the device reads it."""

import ctypes

import numpy as np

from oxinp._runtime.brief_uploads import MOST_NBYTES, NUM_PARTS, RENTED, BriefUploads


class LateDevice:
    """A driver whose copies are done when somebody waits for an event that follows them."""

    def __init__(self):
        self.memory = bytearray(1 << 20)
        self.queued = []
        self.num_done = self.num_allocated = 0

    def allocate_pinned(self, nbytes):
        self.num_allocated += 1
        array = np.full(nbytes, 0xEE, np.uint8)
        return array.ctypes.data, array

    def make_event(self):
        return LateEvent(self)

    def upload_async(self, ptr, address, nbytes, stream):
        assert stream == 0
        self.queued.append((ptr, address, nbytes))

    def run_until(self, position):
        for ptr, address, nbytes in self.queued[self.num_done : position]:
            self.memory[ptr : ptr + nbytes] = ctypes.string_at(address, nbytes)
        self.num_done = max(self.num_done, position)


class LateEvent:
    def __init__(self, device):
        self.device, self.position = device, 0

    def record(self, stream):
        assert stream == 0
        self.position = len(self.device.queued)

    def synchronize(self):
        self.device.run_until(self.position)


def bought(device):
    """Uploads of which so many have gone the driver's own way that there may be memory for the next one."""
    uploads = BriefUploads(device)
    assert not any(uploads.upload(0, np.zeros(1), 8) for _ in range(RENTED))
    return uploads


def test_memory_is_used_again_when_the_device_has_read_it():
    device = LateDevice()
    uploads = bought(device)
    rng = np.random.default_rng(1)
    expected = bytearray(len(device.memory))
    for _ in range(5 * NUM_PARTS * NUM_PARTS):
        nbytes = int(rng.integers(1, MOST_NBYTES + 1))
        ptr = int(rng.integers(0, len(expected) - nbytes))
        array = rng.integers(0, 256, nbytes, np.uint8)
        expected[ptr : ptr + nbytes] = array.tobytes()
        assert uploads.upload(ptr, array, nbytes)
        array[:] = 0  # it has been read
    assert 0 < device.num_done < len(device.queued)
    device.run_until(len(device.queued))
    assert device.memory == expected
    assert device.num_allocated == 1


def test_few_or_large_uploads_go_the_drivers_way():
    device = LateDevice()
    uploads = bought(device)
    assert not device.queued
    small, large = np.zeros(MOST_NBYTES, np.uint8), np.zeros(MOST_NBYTES + 1, np.uint8)
    assert [uploads.upload(0, array, array.nbytes) for array in (small, large)] == [True, False]


def test_arrays_that_are_not_to_be_written_to():
    device = LateDevice()
    array = np.arange(9)
    array.flags.writeable = False
    uploads = bought(device)
    assert uploads.upload(64, array, array.nbytes)
    device.run_until(1)
    assert device.memory[64 : 64 + array.nbytes] == array.tobytes()


def test_memory_that_is_not_to_be_had():
    device = LateDevice()

    def refuse(_):
        raise MemoryError

    device.allocate_pinned, allocate = refuse, device.allocate_pinned
    uploads = bought(device)
    array = np.arange(9)
    assert not uploads.upload(0, array, array.nbytes)
    assert not device.queued
    device.allocate_pinned = allocate
    assert not any(uploads.upload(0, array, array.nbytes) for _ in range(RENTED))
    assert uploads.upload(0, array, array.nbytes)

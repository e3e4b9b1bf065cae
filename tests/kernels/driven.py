"""The GPU as the kernel tests use it, through the CUDA backend."""

import numpy as np

from oxinp._runtime.cuda import open_backend


class Driven:
    """One GPU, or another backend; the interface of `machine.Emulated`."""

    def __init__(self, backend=None):
        self.backend = open_backend() if backend is None else backend
        self._buffers = {}

    def allocate(self, nbytes):
        buffer = self.backend.allocate(nbytes)
        self._buffers[buffer.ptr] = buffer
        return buffer.ptr

    def upload(self, array):
        address = self.allocate(array.nbytes)
        self.backend.upload(address, array)
        return address

    def download(self, address, nbytes):
        array = np.empty(nbytes, np.uint8)
        self.backend.download(array, address)
        return array

    def write(self, address, array):
        self.backend.upload(address, array)

    def tensor_map(self, spec, address):
        return self.backend.tensor_map(spec, address)

    def launch(self, launch, parameters):
        self.backend.launcher(launch.kernel, launch.grid, len(parameters), launch.constants)(*parameters)

    def free(self, address):
        del self._buffers[address]

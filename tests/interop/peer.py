"""What another library is to us: device memory of its own, and arrays over it that others may use."""

import numpy as np

from oxinp import _runtime
from oxinp._core.interop import dlpack


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

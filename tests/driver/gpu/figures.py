"""What tests of the GPU read, and how they tell what they measured."""

import contextlib
import ctypes
import sys

MIB, GIB = 1 << 20, 1 << 30


def report(claim, figure):
    """Print what was measured; ``-s`` shows it."""
    sys.stdout.write(f"\n{claim}: {figure}\n")


@contextlib.contextmanager
def allocated(memory, nbytes):
    """Memory of the device, given back after the block."""
    ptr = memory.allocate(nbytes)
    try:
        yield ptr
    finally:
        memory.free(ptr)


def read(memory, ptr, count=1, ctype=ctypes.c_uint32):
    """Return numbers that lie on the device."""
    host = (ctype * count)()
    memory.download(ctypes.addressof(host), ptr, ctypes.sizeof(host))
    return list(host)

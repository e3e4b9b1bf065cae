"""Running one kernel over host arrays on the emulator."""

import struct

import numpy as np

from oxinp._ptx import emulate


def launch(kernel, *args, grid=1, memory=None):
    """Run a kernel; array arguments are copied to memory and, where the kernel may write them, back.

    Parameters
    ----------
    kernel : Kernel
    *args : array, scalar or tuple
        One per parameter, in order; of a compound type a complex number, or a tuple of the parts.
    grid : int or tuple of int
    memory : emulate.Memory, optional
    """
    memory = memory or emulate.Memory(1 << 20)
    values, written = [], []
    flat = [part for arg in args for part in parts_of(arg)]
    for param, arg in zip(kernel.params, flat, strict=True):
        if param.is_pointer:
            address = memory.allocate(arg.nbytes)
            if "r" in param.access:
                memory.write(address, np.ascontiguousarray(arg))
            if "w" in param.access:
                written.append((arg, address))
            values.append(address)
        else:
            values.append(arg)
    emulate.run(kernel, memory, grid, struct.pack(kernel.param_format, *values))
    for array, address in written:
        array[...] = memory.read(address, array.nbytes).view(array.dtype).reshape(array.shape)


def parts_of(arg):
    """Return what an argument is as parameters."""
    if isinstance(arg, complex | np.complexfloating):
        return arg.real, arg.imag
    return arg if isinstance(arg, tuple) else (arg,)

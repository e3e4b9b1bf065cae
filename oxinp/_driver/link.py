"""The driver's linker, used for what loading a module does not give: the machine code, to be kept."""

from __future__ import annotations

import contextlib
import ctypes
from typing import TYPE_CHECKING, NamedTuple

from oxinp._driver.jit import JitOptions

if TYPE_CHECKING:
    from oxinp._driver.context import Context

__all__ = ["Linked", "link"]

_INPUT_PTX = 1


class Linked(NamedTuple):
    """Machine code for one compute capability, and what the compiler said."""

    cubin: bytes
    log: str


def link(context: Context, ptx: str, *, name: str = "kernel", is_verbose: bool = False) -> Linked:
    """Compile PTX to machine code for the context's device. The interpreter lock is free meanwhile.

    Parameters
    ----------
    context : Context
    ptx : str
    name : str
        What the compiler's messages call it.
    is_verbose : bool
        Whether the log names registers, spills and shared memory per kernel.

    Raises
    ------
    CompileError
        It does not compile; the message and `log` hold what the compiler said.
    DriverTooOld
        It is written in a newer PTX than the driver knows.
    """
    driver = context.driver
    options = JitOptions(is_verbose=is_verbose)
    source = ctypes.create_string_buffer(ptx.encode())  # ends with the NUL that the driver wants counted
    state, cubin, nbytes = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_size_t()
    with options.reporting(), contextlib.ExitStack() as stack:
        driver.cuLinkCreate_v2(*options.arguments, ctypes.byref(state))
        stack.callback(driver.cuLinkDestroy, state)
        driver.cuLinkAddData_v2(state, _INPUT_PTX, source, len(source), name.encode(), 0, None, None)
        driver.cuLinkComplete(state, ctypes.byref(cubin), ctypes.byref(nbytes))
        # The code belongs to the link state: copied before that goes.
        image = ctypes.string_at(cubin.value or 0, nbytes.value)
    return Linked(image, options.info_log)

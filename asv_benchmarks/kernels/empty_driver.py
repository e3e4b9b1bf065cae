"""A driver whose launches do nothing, so that what is left of a call's time is the host's; it needs no GPU."""

import ctypes
import sys

import oxinp
from oxinp._driver import driver
from oxinp._driver.api import argument_types
from tests.driver.fake_library import FakeLibrary

_HOT = ("cuLaunchKernelEx", "cuTensorMapEncodeTiled")


class EmptyLibrary(FakeLibrary):
    """A driver library of one device of compute capability 9.0: memory is there, launches return at once."""

    def __init__(self):
        super().__init__(results={"cuPointerGetAttribute": 1})

    def bind(self, row):
        """Return a function; those that launches go through are a function of C that returns zero."""
        if row.name not in _HOT:
            return super().bind(row)
        returns_zero = ctypes.cast(ctypes.pythonapi.PyErr_CheckSignals, ctypes.c_void_p).value
        return ctypes.PYFUNCTYPE(ctypes.c_int, *(() if row.is_hot else argument_types(row)))(returns_zero)


def start():
    """Have oxinp use such a driver in this process, instead of what the machine has."""
    driver._loaded = driver.start(EmptyLibrary())
    oxinp.config.backend = "cuda"
    oxinp.config.cache_dir = ""


def calls_and_bytecodes(call, arguments):
    """Return how many functions of Python are called, and how many bytecodes executed, per call: the medians.

    Parameters
    ----------
    call : callable
    arguments : sequence
        Of each call the only one.
    """
    calls = bytecodes = 0

    def trace(frame, event, _):
        nonlocal calls, bytecodes
        if event == "call":
            calls += 1
            frame.f_trace_opcodes, frame.f_trace_lines = True, False
        elif event == "opcode":
            bytecodes += 1
        return trace

    counts = []
    for argument in arguments:
        calls = bytecodes = 0
        before = sys.gettrace()
        sys.settrace(trace)
        try:
            call(argument)
        finally:
            sys.settrace(before)
        counts.append((calls - 1, bytecodes))  # without `settrace` of the way out and the call itself
    return [sorted(column)[len(column) // 2] for column in zip(*counts, strict=True)]

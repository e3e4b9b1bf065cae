"""Nothing leaks: every object, made and closed again and again."""

import ctypes
import gc
import os
from pathlib import Path

import pytest

from oxinp._driver.context import Context
from oxinp._driver.event import Event
from oxinp._driver.graph import Graph
from oxinp._driver.green import split
from oxinp._driver.ipc import ExportedMemory, SharedEvent
from oxinp._driver.link import link
from oxinp._driver.managed import ManagedMemory
from oxinp._driver.memory import PinnedMemory, RegisteredMemory
from oxinp._driver.module import Module
from oxinp._driver.stream import Stream
from oxinp._driver.stream_pool import StreamPool
from oxinp._driver.virtual import AddressRange, granularity
from tests.driver.gpu.figures import MIB, report
from tests.driver.ptx_samples import PTX

pytestmark = pytest.mark.gpu

# Leaks

_cubins = []


def _cubin(context):
    if not _cubins:
        _cubins.append(link(context, PTX).cubin)
    return _cubins[0]


def _close_executable(context):
    graph = Graph(context)
    graph.add_empty()
    graph.instantiate().close()


def _close_range(context):
    unit = granularity(context)
    reserved = AddressRange(context, 2 * unit)
    reserved.commit(0, unit)
    reserved.close()


_pages = ctypes.create_string_buffer(8192)


def _close_registered(context):
    RegisteredMemory(context, -(-ctypes.addressof(_pages) // 4096) * 4096, 4096).close()


NUM_CYCLES = 100_000
CYCLES = {
    "event": lambda context: Event(context).close(),
    "stream": lambda context: Stream(context).close(),
    "graph": lambda context: Graph(context).close(),
    "executable": _close_executable,
    "pinned": lambda context: PinnedMemory(context, 4096).close(),
    "managed": lambda context: ManagedMemory(context, 4096).close(),
    "module": lambda context: Module.from_cubin(context, _cubin(context)).close(),
    "range": _close_range,
    "context": lambda context: Context(context.device).close(),
    "registered": _close_registered,
    "stream_pool": lambda context: StreamPool(context).close(),
    "exported": lambda context: ExportedMemory(context, 4096).close(),
    "shared_event": lambda context: SharedEvent(context).close(),
    "green": lambda context: split(context, 8)[0].close(),
}


def resident_nbytes():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.exclusive
@pytest.mark.slow
@pytest.mark.timeout(550)
@pytest.mark.parametrize("name", CYCLES)
def test_nothing_leaks(name, context, memory):
    cycle = CYCLES[name]
    for _ in range(NUM_CYCLES // 20):
        cycle(context)
    gc.collect()
    for _ in range(3):  # others may use the device meanwhile; a leak shows every time
        free, resident = memory.info()[0], resident_nbytes()
        for _ in range(NUM_CYCLES):
            cycle(context)
        gc.collect()
        context.synchronize()
        lost, grown = free - memory.info()[0], resident_nbytes() - resident
        report("leak", f"{name}: {lost} bytes of the device, {grown} of the host after {NUM_CYCLES} cycles")
        if lost <= 0 and grown < 16 * MIB:
            return
    pytest.fail(f"{name}: {lost} bytes of the device and {grown} of the host are lost in {NUM_CYCLES} cycles")

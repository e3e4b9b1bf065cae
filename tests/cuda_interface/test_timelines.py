"""Work on several streams and devices: random programs, and whether everything that shares memory is in order.

The driver is one of Python functions. From its calls alone (launches, copies, events, waits) follows what the device
may do at the same time: two uses of the same bytes, one of them a write, of which neither waits for the other, are a
race.
"""

# ruff: noqa: ARG002 - parameters are the driver's

import contextlib
import ctypes
import mmap
import random
import threading

import numpy as np
import pytest

import oxinp
from oxinp import _runtime, cuda
from oxinp._driver import driver
from oxinp._driver.enums import DeviceAttribute
from oxinp._runtime import hooks, select
from oxinp._runtime.loader import Loader
from oxinp._runtime.stock import Stock
from oxinp.cuda.kernel import In, InOut, f64, jit, u32
from tests.driver.fake_library import FakeLibrary
from tests.thinned import thinned

SIZE = 1024


class Races:
    """What calls let happen at the same time: a clock of its own for each stream, and one for the host."""

    def __init__(self):
        self.clocks, self.host, self.events = {}, {}, {}
        self.homes = {}  # contexts of streams
        self.memory = {}  # where what was allocated last at an address ends
        self.uses = []  # (low, high, is a write, stream, number)
        self.found = []

    @staticmethod
    def merge(clock, other):
        for stream, number in other.items():
            clock[stream] = max(clock.get(stream, 0), number)

    def allocate(self, ptr, nbytes):
        self.memory = {low: high for low, high in self.memory.items() if high <= ptr or ptr + nbytes <= low}
        self.memory[ptr] = ptr + nbytes

    def use(self, stream, accesses, context):
        self.homes[stream] = context
        clock = self.clocks.setdefault(stream, {})
        self.merge(clock, self.host)
        number = clock[stream] = clock.get(stream, 0) + 1
        made = []
        for ptr, access in accesses:
            low = max(start for start in self.memory if start <= ptr)
            high, writes = self.memory[low], "w" in access
            assert ptr < high
            for other in self.uses:
                if other[0] < high and low < other[1] and (writes or other[2]) and clock.get(other[3], 0) < other[4]:
                    self.found.append((stream, ptr, access, other))
            made.append((low, high, writes, stream, number))
        self.uses += made

    def call(self, name, arguments, context):
        stream = arguments[-1] or context if arguments else 0
        if name == "cuMemcpyHtoDAsync_v2":
            self.use(stream, [(arguments[0], "w")], context)
        elif name == "cuMemcpyDtoHAsync_v2":
            self.use(stream, [(arguments[1], "r")], context)
        elif name == "cuMemcpyDtoH_v2":
            self.use(context, [(arguments[1], "r")], context)
            self.merge(self.host, self.clocks[context])
        elif name == "cuEventRecord":
            self.events[arguments[0]] = dict(self.clocks.get(stream, {}))
        elif name == "cuStreamWaitEvent":
            self.merge(self.clocks.setdefault(arguments[0] or context, {}), self.events.get(arguments[1], {}))
        elif name == "cuStreamSynchronize":
            self.merge(self.host, self.clocks.get(stream, {}))
        elif name == "cuCtxSynchronize":
            for stream, clock in self.clocks.items():
                if self.homes.get(stream) == context:
                    self.merge(self.host, clock)


class Calls(list):
    """The calls of a library, watched as they come."""

    def __init__(self, library):
        super().__init__()
        self.library = library

    def append(self, call):
        super().append(call)
        with self.library.lock:
            self.library.races.call(*call, getattr(self.library._thread, "context", 0))


class WatchedLibrary(FakeLibrary):
    """A driver of two devices that notes which memory each launch reads and writes."""

    def __init__(self):
        super().__init__(num_devices=2, results={"cuPointerGetAttribute": 1})
        self.races, self.calls, self.lock = Races(), Calls(self), threading.Lock()
        self.kernels = {}  # by function, with their contexts
        self.recorded = {}  # accesses by the stream that is captured, then by graph, then by what is launched of it
        self.attributes[DeviceAttribute.VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED] = 1
        self.ranges = []

    def capture_launch(self, stream, launch):
        kernel, context = self.kernels[launch.function]
        values = launch.unpack(kernel.param_format)
        accesses = [
            (value, param.access) for param, value in zip(kernel.params, values, strict=True) if param.is_pointer
        ]
        is_captured = super().capture_launch(stream, launch)
        if is_captured:
            self.recorded.setdefault(stream, []).extend(accesses)
        else:
            with self.lock:
                self.races.use(stream or context, accesses, context)
        return is_captured

    def do_cuDeviceTotalMem_v2(self, result, address, device):
        ctypes.c_size_t.from_address(address).value = 64 << 20

    def do_cuMemAddressReserve(self, result, address, nbytes, *_):
        self.ranges.append(mmap.mmap(-1, nbytes))
        place = ctypes.addressof(ctypes.c_char.from_buffer(self.ranges[-1]))
        ctypes.c_uint64.from_address(address).value = place

    def do_cuStreamEndCapture(self, result, stream, address):
        failed = super().do_cuStreamEndCapture(result, stream, address)
        accesses = self.recorded.pop(stream, [])
        if not failed:
            self.recorded[ctypes.c_void_p.from_address(address).value] = accesses
        return failed

    def do_cuGraphInstantiateWithFlags(self, result, address, graph, flags):
        super().do_cuGraphInstantiateWithFlags(result, address, graph, flags)
        self.recorded[ctypes.c_void_p.from_address(address).value] = self.recorded[graph]

    def do_cuGraphLaunch(self, result, executable, stream):
        with self.lock:
            self.races.use(stream or self._thread.context, self.recorded[executable], self._thread.context)
        return super().do_cuGraphLaunch(result, executable, stream)


@pytest.fixture
def library(monkeypatch, config, one_stream):  # noqa: ARG001
    library = WatchedLibrary()
    monkeypatch.setattr(driver, "_loaded", driver.start(library))
    monkeypatch.setattr(select, "_opened", {})
    monkeypatch.setattr(select, "_failures", {})
    monkeypatch.setattr(select, "_decided", (-1, None))
    monkeypatch.setattr(hooks, "before_synchronize", list(hooks.before_synchronize))
    find, allocate = Loader.function, Stock.allocate

    def function(self, kernel):
        found = find(self, kernel)
        library.kernels[found.handle] = kernel, self.context.handle
        return found

    def noted(self, nbytes):
        buffer = allocate(self, nbytes)
        with library.lock:
            library.races.allocate(buffer.ptr, nbytes)
        return buffer

    monkeypatch.setattr(Loader, "function", function)
    monkeypatch.setattr(Stock, "allocate", noted)
    config.backend, config.cache_dir, config.offload_threshold = "cuda", "", 0
    return library


@jit(block=64)
def add_to(k, x: InOut[f64], y: In[f64], n: u32):
    with k.grid_stride(n) as i:
        x[i] = x[i] + y[i]


class Program:
    """A random program of array operations on streams and devices."""

    def __init__(self, library, seed, *, num_devices, steps):
        self.library, self.random, self.steps = library, random.Random(seed), steps
        self.devices = range(num_devices)
        self.streams = {}
        self.arrays = [oxinp.arange(float(SIZE)) + number for number in range(4)]
        self.graphs = []

    def run(self, steps):
        for _ in range(steps):
            with contextlib.ExitStack() as places:
                if len(self.devices) > 1:
                    places.enter_context(cuda.Device(self.random.choice(self.devices)))
                device = _runtime.current().device.ordinal
                made = self.streams.setdefault(device, [])
                if self.random.random() < 0.1 or not made:
                    made.append(cuda.Stream())
                if self.random.random() < 0.1:
                    made.pop(self.random.randrange(len(made)))
                if made and self.random.random() < 0.8:
                    places.enter_context(self.random.choice(made))
                for _ in range(self.random.randrange(1, 4)):
                    getattr(self, self.random.choice(self.steps))()

    def some(self):
        return self.random.choice(self.arrays)

    def make(self):
        self.arrays.append(self.some() * self.some() + 1)
        if len(self.arrays) > 8:
            self.arrays.pop(self.random.randrange(len(self.arrays)))

    def change(self):
        x = self.some()
        x += self.some()

    def write_part(self):
        self.some()[: SIZE // 2] = self.some()[SIZE // 2 :]

    def total(self):
        self.arrays.append(self.some().sum() + self.some())
        self.arrays.pop(0)

    def multiply(self):
        a, b = (x.reshape(32, 32) for x in (self.some(), self.some()))
        self.arrays.append((a @ b).reshape(-1))
        self.arrays.pop(0)

    def read(self):
        oxinp.asnumpy(self.some()[3:700])

    def write_host(self):
        self.some()[100:200] = np.arange(100.0)

    def upload(self):
        self.arrays.append(oxinp.array(np.arange(float(SIZE))))
        self.arrays.pop(0)

    def evaluate(self):
        oxinp.evaluate(*self.arrays)

    def trim(self):
        cuda.trim()

    def launch_graph(self):
        if self.random.random() < 0.3 or not self.graphs:
            x, y = oxinp.arange(float(SIZE)) + 1, self.some() + 1  # which keeps its memory
            oxinp.evaluate(x, y)
            with cuda.Graph.capture(x) as graph:
                x += y
                made = x * 2
                x[: SIZE // 4] = made[: SIZE // 4]
            # What the graph reads has to live as long as it does.
            self.graphs.append((graph, _runtime.current(), x, y, made))
            self.arrays += [x, made]
        graph, backend, *_ = self.random.choice(self.graphs)
        if backend is _runtime.current():
            graph.launch()
        if len(self.graphs) > 3:
            self.graphs.pop(0)

    def close_graph(self):
        if self.graphs:
            self.graphs.pop()[0].close()

    def close_stream(self):
        with cuda.Stream() as stream:
            oxinp.evaluate(self.some() + 1)
        stream.close()

    def wait_for_event(self):
        event = cuda.Event().record()
        cuda.Stream().wait(event)
        event.synchronize()

    def run_kernel(self):
        stream = cuda.Stream() if self.random.random() < 0.5 else None
        add_to[4, None, stream](self.some(), self.some(), SIZE)

    def copy_bytes(self):
        cuda.Stream().copy(self.some(), self.some())

    def synchronize(self):
        cuda.synchronize()


STEPS = [
    "make",
    "make",
    "change",
    "write_part",
    "total",
    "multiply",
    "read",
    "write_host",
    "upload",
    "evaluate",
    "trim",
]
OBJECTS = ["launch_graph", "close_graph", "close_stream", "wait_for_event", "run_kernel", "copy_bytes", "synchronize"]


@pytest.mark.parametrize(("seed", "num_devices"), thinned(list(range(15)), [1, 2]))
def test_whatever_shares_memory_is_in_order(library, seed, num_devices):
    program = Program(library, seed, num_devices=num_devices, steps=STEPS + OBJECTS)
    program.run(25)
    assert len(library.launches) > 20
    assert not library.races.found


# Steps, and how many seeds without `--full`.
THREADED = {"arrays": (STEPS, 8), "objects": (STEPS + 2 * OBJECTS, 2)}


@pytest.mark.usefixtures("takes_turns")
@pytest.mark.parametrize("num_devices", [1, 2])
@pytest.mark.parametrize(
    ("steps", "seed"),
    [
        pytest.param(steps, seed, marks=[pytest.mark.slow] * (seed >= few), id=f"{name}-{seed}")
        for name, (steps, few) in THREADED.items()
        for seed in range(80)
    ],
)
def test_threads_on_streams_of_their_own_are_in_order(library, steps, seed, num_devices):
    """Four threads, each on streams of its own, on one device or on two, work on the same arrays."""
    programs = [Program(library, 100 * seed + number, num_devices=num_devices, steps=steps) for number in range(4)]
    failures = []

    def work(program):
        program.arrays = list(programs[0].arrays)
        try:
            program.run(15)
        except BaseException as error:  # noqa: BLE001 - whatever it is belongs to the test
            failures.append(error)

    threads = [threading.Thread(target=work, args=(program,)) for program in programs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert not library.spoilt
    assert not library.races.found

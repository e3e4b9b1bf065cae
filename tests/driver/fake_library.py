"""A driver library made of Python functions, for tests: `driver.start(FakeLibrary())` is a driver without a GPU.

Calls go through C, with the argument types of the table, so what arrives is what libcuda would get. Device memory is
host memory, so that copies really copy. Results are injected by name: `library.results["cuMemAlloc_v2"] = 2`.
"""

# ruff: noqa: ARG002, N815 - names and parameters are the driver's

import ctypes
import itertools
import struct
import threading
from collections import Counter

from oxinp._driver.api import argument_types
from oxinp._driver.context import Context
from oxinp._driver.device import Device
from oxinp._driver.driver import start
from oxinp._driver.launch import LaunchAttribute, LaunchConfig
from oxinp._driver.work_structures import DevResource, Memcpy2D, Memcpy3D, Memcpy3DPeer
from tests.driver.fake_graphs import FakeGraphs

CONTEXT_FREE = ("cuInit", "cuDriver", "cuDevice", "cuCtxSetCurrent", "cuCtxGetCurrent", "cuCtxPushCurrent")
INVALID_CONTEXT = 201


def _store(address, ctype, value):
    ctype.from_address(address).value = value


class Launch:
    """What a launch handed to the driver."""

    def __init__(self, config_address, function, kernel_params, extra_address):
        config = LaunchConfig.from_address(config_address)
        self.function = function
        self.kernel_params = kernel_params
        self.grid, self.block = tuple(config.grid), tuple(config.block)
        self.shared_nbytes, self.stream = config.shared_nbytes, config.stream or 0
        attributes = (LaunchAttribute * config.num_attributes).from_address(config.attributes or 0)
        self.attributes = {row.id: tuple(row.value) for row in attributes} if config.num_attributes else {}
        self.extra = None
        if extra_address is None:
            return
        self.extra = tuple((ctypes.c_void_p * 5).from_address(extra_address))
        self.param_address = self.extra[1]
        self.params = ctypes.string_at(self.param_address, ctypes.c_size_t.from_address(self.extra[3]).value)

    def unpack(self, param_format):
        return struct.unpack(param_format, self.params)


class FakeLibrary(FakeGraphs):
    """A driver of one device, or more.

    Attributes
    ----------
    version : int
    missing : set of str
        Functions it does not have.
    results : dict of str to int or list of int
        What functions return: always, or each the next time.
    calls : list of (str, tuple)
        Names and arguments, in order.
    launches : list of Launch
    log : bytes
        What the compiler says, as an error where it fails.
    """

    def __init__(self, version=13000, missing=(), results=(), num_devices=1):
        self.is_forked = False
        self.is_watching_fork = False
        self.version = version
        self.num_devices = num_devices
        self.missing = set(missing)
        self.results = dict(results)
        self.calls = []
        self.made_in = {}  # the context that was current at the last call of each function
        self.launches = []
        self.log = b""
        self.cubin = None
        self.device_attributes = {}  # of each device, where they differ from:
        self.attributes = {16: 132, 38: 50 << 20, 75: 9, 76: 0, 97: 227 << 10}
        self.memory = {}
        self._callbacks = []
        self._handles = itertools.count(0x7000_0000_1000, 0x10)
        self._thread = threading.local()
        self.pool_attributes = {}
        self.advice = []
        self.mapped = {}  # what lies behind reserved addresses: {address: (handle, bytes)}
        self.peers = set()
        self.can_access_peers = True
        self.free_nbytes = {}  # by context, where it is not:
        self.init_graphs()

    # What the product asks of a library

    def bind(self, row):
        if row.name in self.missing:
            raise AttributeError(row.name)
        behaviour = getattr(self, f"do_{row.name}", None)

        def function(*arguments):
            self.calls.append((row.name, arguments))
            self.made_in[row.name] = getattr(self._thread, "context", 0)
            result = self._result(row.name)
            if behaviour is not None:
                result = behaviour(result, *arguments) or result
            return result

        prototype = ctypes.PYFUNCTYPE if row.is_hot else ctypes.CFUNCTYPE
        callback = prototype(ctypes.c_int, *argument_types(row))(function)
        self._callbacks.append(callback)
        if not row.is_hot:
            return callback
        # As the real library gives it: arguments are not converted.
        return prototype(ctypes.c_int)(ctypes.cast(callback, ctypes.c_void_p).value)

    def watch_fork(self):
        self.is_watching_fork = True

    # What tests ask of it

    def names(self):
        return [name for name, _ in self.calls]

    def count(self):
        return Counter(self.names())

    def arguments(self, name):
        """Return the arguments of the last call of a function."""
        return next(arguments for called, arguments in reversed(self.calls) if called == name)

    def _result(self, name):
        injected = self.results.get(name, 0)
        if isinstance(injected, list):
            injected = injected.pop(0) if injected else 0
        if not injected and not name.startswith(CONTEXT_FREE) and not getattr(self._thread, "context", 0):
            return INVALID_CONTEXT
        return injected

    # What functions do beside returning; `result` is what they are going to return

    def do_cuDriverGetVersion(self, result, address):
        _store(address, ctypes.c_int, self.version)

    def do_cuDeviceGetCount(self, result, address):
        _store(address, ctypes.c_int, self.num_devices)

    def do_cuDeviceGet(self, result, address, ordinal):
        _store(address, ctypes.c_int, ordinal)
        return 0 if ordinal < self.num_devices else 101

    def do_cuDeviceGetPCIBusId(self, result, address, size, device):
        ctypes.memmove(address, b"0000:%02X:00.0\0" % (0x1B + device), 13)

    def do_cuDeviceGetName(self, result, address, size, device):
        ctypes.memmove(address, b"Fake GPU\0", 9)

    def do_cuDeviceGetUuid_v2(self, result, address, device):
        ctypes.memmove(address, bytes(range(16)), 16)

    def do_cuDeviceTotalMem_v2(self, result, address, device):
        _store(address, ctypes.c_size_t, 140 << 30)

    def do_cuDeviceGetAttribute(self, result, address, attribute, device):
        found = {**self.attributes, **self.device_attributes.get(device, {})}
        _store(address, ctypes.c_int, found.get(attribute, 0))

    def do_cuDevicePrimaryCtxRetain(self, result, address, device):
        _store(address, ctypes.c_void_p, 0xC0DE_0000_0001 + device)

    def do_cuCtxSetCurrent(self, result, context):
        self._thread.context = context

    def do_cuCtxGetCurrent(self, result, address):
        _store(address, ctypes.c_void_p, getattr(self._thread, "context", 0))

    def _give_handle(self, result, address, *_):
        if not result:
            _store(address, ctypes.c_void_p, next(self._handles))

    do_cuStreamCreateWithPriority = do_cuEventCreate = do_cuModuleGetFunction = do_cuMemPoolCreate = _give_handle

    def do_cuCtxPushCurrent_v2(self, result, context):
        self._stack().append(self._thread.context if hasattr(self._thread, "context") else 0)
        self._thread.context = context

    def do_cuCtxPopCurrent_v2(self, result, address):
        _store(address, ctypes.c_void_p, self._thread.context)
        self._thread.context = self._stack().pop()

    def _stack(self):
        if not hasattr(self._thread, "stack"):
            self._thread.stack = []
        return self._thread.stack

    def do_cuCtxGetLimit(self, result, address, limit):
        _store(address, ctypes.c_size_t, 1000 + limit)

    def do_cuCtxGetStreamPriorityRange(self, result, lowest, highest):
        _store(lowest, ctypes.c_int, 0)
        _store(highest, ctypes.c_int, -5)

    def do_cuEventElapsedTime(self, result, address, start, stop):
        _store(address, ctypes.c_float, 1.5)

    def do_cuMemGetInfo_v2(self, result, free, total):
        _store(free, ctypes.c_size_t, self.free_nbytes.get(self._thread.context, 100 << 30))
        _store(total, ctypes.c_size_t, 140 << 30)

    def _allocate(self, result, address, nbytes, *_):
        if not result:
            memory = ctypes.create_string_buffer(nbytes + 256)
            ptr = ctypes.addressof(memory) + -ctypes.addressof(memory) % 256
            self.memory[ptr] = memory
            _store(address, ctypes.c_void_p, ptr)

    do_cuMemAlloc_v2 = do_cuMemAllocAsync = do_cuMemHostAlloc = do_cuMemAllocManaged = _allocate
    do_cuMemAllocFromPoolAsync = _allocate

    def _free(self, result, ptr, *_):
        if not result:
            del self.memory[ptr]

    do_cuMemFree_v2 = do_cuMemFreeAsync = do_cuMemFreeHost = _free

    def _copy(self, result, destination, source, nbytes, *_):
        if not result:
            ctypes.memmove(destination, source, nbytes)

    do_cuMemcpyHtoD_v2 = do_cuMemcpyDtoH_v2 = do_cuMemcpyDtoD_v2 = _copy
    do_cuMemcpyHtoDAsync_v2 = do_cuMemcpyDtoHAsync_v2 = do_cuMemcpyDtoDAsync_v2 = _copy

    def _copy_rows(self, params):
        source = params.srcHost or params.srcDevice
        target = params.dstHost or params.dstDevice
        source += getattr(params, "srcXInBytes", 0)
        for layer in range(getattr(params, "Depth", 1)):
            for row in range(params.Height):
                start = (layer * getattr(params, "srcHeight", 0) + row) * params.srcPitch
                end = (layer * getattr(params, "dstHeight", 0) + row) * params.dstPitch
                ctypes.memmove(target + end, source + start, params.WidthInBytes)

    def do_cuMemcpy2DUnaligned_v2(self, result, address, *_):
        self._copy_rows(Memcpy2D.from_address(address))

    do_cuMemcpy2DAsync_v2 = do_cuMemcpy2DUnaligned_v2

    def do_cuMemcpy3D_v2(self, result, address, *_):
        self._copy_rows(Memcpy3D.from_address(address))

    do_cuMemcpy3DAsync_v2 = do_cuMemcpy3D_v2

    def do_cuMemcpy3DPeerAsync(self, result, address, stream):
        params = Memcpy3DPeer.from_address(address)
        self.peer_copy = params.dstContext, params.srcContext, stream
        self._copy_rows(params)

    def do_cuMemcpyPeer(self, result, target, target_context, source, source_context, nbytes, *_):
        self.peer_copy = target_context, source_context
        ctypes.memmove(target, source, nbytes)

    do_cuMemcpyPeerAsync = do_cuMemcpyPeer

    def do_cuMemHostGetDevicePointer_v2(self, result, address, ptr, flags):
        _store(address, ctypes.c_uint64, ptr)

    # Managed memory, the driver's pools, virtual memory, peers

    def do_cuMemAdvise(self, result, *arguments):
        self.advice.append(arguments)

    def do_cuMemRangeGetAttribute(self, result, address, nbytes, attribute, ptr, count):
        _store(address, ctypes.c_int, {1: 1, 2: -1, 4: -2}[attribute])

    def do_cuMemPoolGetAttribute(self, result, pool, attribute, address):
        ctype = ctypes.c_uint64 if attribute >= 4 else ctypes.c_int
        _store(address, ctype, self.pool_attributes.get(attribute, 0))

    def do_cuMemPoolSetAttribute(self, result, pool, attribute, address):
        ctype = ctypes.c_uint64 if attribute >= 4 else ctypes.c_int
        self.pool_attributes[attribute] = ctype.from_address(address).value

    def do_cuDeviceGetDefaultMemPool(self, result, address, device):
        _store(address, ctypes.c_void_p, 0xD00)

    def do_cuMemGetAllocationGranularity(self, result, address, props, option):
        _store(address, ctypes.c_size_t, 2 << 20)

    def do_cuMemCreate(self, result, address, nbytes, props, flags):
        self._give_handle(result, address)

    def do_cuMemAddressReserve(self, result, address, nbytes, *_):
        if not result:
            self._reserved = getattr(self, "_reserved", 0x10_0000_0000)
            _store(address, ctypes.c_uint64, self._reserved)
            self._reserved += nbytes

    def do_cuMemMap(self, result, ptr, nbytes, offset, handle, flags):
        if not result:
            assert not any(
                start < ptr + nbytes and ptr < start + size for start, (_, size) in list(self.mapped.items())
            )
            self.mapped[ptr] = handle, nbytes

    def do_cuMemUnmap(self, result, ptr, nbytes):
        if not result:
            assert self.mapped.pop(ptr)[1] == nbytes

    def do_cuDeviceCanAccessPeer(self, result, address, device, peer):
        _store(address, ctypes.c_int, int(self.can_access_peers))

    def do_cuDeviceGetP2PAttribute(self, result, address, attribute, device, peer):
        _store(address, ctypes.c_int, {1: 0, 2: 1, 3: 1}[attribute])

    def do_cuCtxEnablePeerAccess(self, result, peer, flags):
        pair = self._thread.context, peer
        if pair in self.peers:
            return 704
        self.peers.add(pair)
        return 0

    def do_cuCtxDisablePeerAccess(self, result, peer):
        pair = self._thread.context, peer
        if pair not in self.peers:
            return 705
        self.peers.discard(pair)
        return 0

    # Occupancy

    def do_cuIpcGetMemHandle(self, result, address, ptr):
        ctypes.memmove(address, struct.pack("<QQ", ptr, len(self.memory)), 16)

    def do_cuIpcOpenMemHandle_v2(self, result, address, handle, flags):
        _store(address, ctypes.c_uint64, struct.unpack_from("<Q", bytes(handle))[0])

    def do_cuIpcGetEventHandle(self, result, address, event):
        ctypes.memmove(address, struct.pack("<Q", event), 8)

    def do_cuIpcOpenEventHandle(self, result, address, handle):
        _store(address, ctypes.c_void_p, struct.unpack_from("<Q", bytes(handle))[0])

    def do_cuDeviceGetDevResource(self, result, device, address, kind):
        DevResource.from_address(address).sm = 132

    def do_cuDevSmResourceSplitByCount(self, result, address, count, source, rest, flags, wanted):
        share = -(-wanted // 8) * 8
        groups = DevResource.from_address(source).sm // share
        _store(count, ctypes.c_uint, groups)
        if address:
            for group in (DevResource * groups).from_address(address):
                group.sm = share

    do_cuGreenCtxCreate = do_cuGreenCtxStreamCreate = do_cuDevResourceGenerateDesc = _give_handle

    def do_cuOccupancyMaxActiveBlocksPerMultiprocessor(self, result, address, function, num_threads, shared_nbytes):
        _store(address, ctypes.c_int, 2048 // num_threads)

    def do_cuOccupancyMaxPotentialBlockSize(self, result, blocks, threads, function, callback, nbytes, limit):
        _store(blocks, ctypes.c_int, 264)
        _store(threads, ctypes.c_int, limit or 1024)

    def do_cuOccupancyAvailableDynamicSMemPerBlock(self, result, address, function, num_blocks, num_threads):
        _store(address, ctypes.c_size_t, (228 << 10) // num_blocks)

    def do_cuOccupancyMaxPotentialClusterSize(self, result, address, function, config):
        _store(address, ctypes.c_int, 8)

    def do_cuOccupancyMaxActiveClusters(self, result, address, function, config):
        config = LaunchConfig.from_address(config)
        attribute = LaunchAttribute.from_address(config.attributes)
        assert attribute.id == 4
        _store(address, ctypes.c_int, 132 // attribute.value[0])

    def do_cuLaunchHostFunc(self, result, stream, function, number):
        self._call_host(function, number)

    def do_cuModuleGetFunctionCount(self, result, address, module):
        _store(address, ctypes.c_uint, 2)

    def do_cuModuleEnumerateFunctions(self, result, functions, count, module):
        array = (ctypes.c_void_p * count).from_address(functions)
        array[:] = range(1, count + 1)

    def do_cuFuncGetName(self, result, address, function):
        self._names = [*getattr(self, "_names", []), ctypes.create_string_buffer(b"kernel%d" % function)]
        _store(address, ctypes.c_void_p, ctypes.addressof(self._names[-1]))

    def do_cuModuleGetGlobal_v2(self, result, address, nbytes, module, name):
        _store(address, ctypes.c_uint64, 0x5000)
        _store(nbytes, ctypes.c_size_t, 64)

    def _fill(self, code, result, ptr, value, count):
        if not result:
            ctypes.memmove(ptr, struct.pack(f"<{code}", value) * count, struct.calcsize(code) * count)

    def do_cuMemsetD8Async(self, result, ptr, value, count, stream):
        self._fill("B", result, ptr, value, count)

    def do_cuMemsetD16Async(self, result, ptr, value, count, stream):
        self._fill("H", result, ptr, value, count)

    def do_cuMemsetD32Async(self, result, ptr, value, count, stream):
        self._fill("I", result, ptr, value, count)

    def do_cuModuleLoadDataEx(self, result, address, image, num_options, options, values):
        self._compile(result, num_options, options, values)
        self._give_handle(result, address)

    def do_cuLinkCreate_v2(self, result, num_options, options, values, address):
        self._compile(self.results.get("cuLinkAddData_v2", 0), num_options, options, values)
        self._give_handle(result, address)

    def do_cuLinkAddData_v2(self, result, state, kind, data, nbytes, name, num_options, options, values):
        self.linked = (kind, ctypes.string_at(data, nbytes), name)

    def do_cuLinkComplete(self, result, state, address, size_address):
        if result:
            return
        self.cubin = ctypes.create_string_buffer(b"CUBIN\0code", 10)
        _store(address, ctypes.c_void_p, ctypes.addressof(self.cubin))
        _store(size_address, ctypes.c_size_t, 10)

    def do_cuLinkDestroy(self, result, state):
        # What the linker gave is gone with it.
        if self.cubin is not None:
            ctypes.memset(self.cubin, 0, len(self.cubin))

    def _compile(self, result, num_options, options, values):
        names = (ctypes.c_int * num_options).from_address(options)
        slots = (ctypes.c_void_p * num_options).from_address(values)
        self.jit_options = dict(zip(names, slots, strict=True))
        ctypes.memmove(self.jit_options[5 if result else 3], self.log + b"\0", len(self.log) + 1)

    def do_cuFuncGetAttribute(self, result, address, attribute, function):
        _store(address, ctypes.c_int, {4: 40, 3: 16}.get(attribute, 0))

    def do_cuLaunchKernelEx(self, result, *arguments):
        launch = Launch(*arguments)
        if not self.capture_launch(launch.stream, launch):
            self.launches.append(launch)

    def do_cuTensorMapEncodeTiled(self, result, address, kind, rank, ptr, shape, strides, box, steps, *modes):
        arrays = [(ctypes.c_uint64 * rank).from_address(a) for a in (shape, strides)]
        arrays += [(ctypes.c_uint32 * rank).from_address(a) for a in (box, steps)]
        extents, strides, box, steps = (list(array) for array in arrays)
        self.tensor_map = (address, kind, ptr, extents, strides[:-1], box, steps, modes)
        ctypes.memmove(address, bytes(range(128)), 128)


def open_context(library=None):
    """Return a context on a fake device, current in this thread, and the library it is in."""
    library = FakeLibrary() if library is None else library
    return Context(Device(0, start(library))), library

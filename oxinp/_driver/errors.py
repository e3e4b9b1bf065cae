"""What the CUDA driver's results become: typed exceptions that say what happened and what to do about it.

The tree::

    CudaError (RuntimeError)
    |-- Unavailable              no GPU can be used in this process
    |   |-- NoDriver             libcuda is not there
    |   |-- UnsupportedPlatform  and cannot be
    |   |-- DriverTooOld         it lacks something we need
    |   |-- NoDevice             it finds no GPU
    |   |-- DeviceNotFound       it has no GPU of that number
    |   |-- DeviceBusy           the GPU belongs to somebody else
    |   |-- SystemNotReady       the GPU or its service is not in a state to work
    |   `-- ForkedProcess        this process was forked from one that uses CUDA
    |-- OutOfMemory (MemoryError)
    |-- InvalidValue             the driver rejects an argument
    |-- InvalidHandle            a context, stream, event, module or function that is not, or no longer, one
    |-- NotFound                 a name the driver does not know
    |-- NotReady                 not an error: the work is still going on
    |-- NotSupported             this device, system or mode cannot do that
    |-- CompileError             a kernel that does not compile, link or load
    |-- LaunchError              a kernel that cannot be launched like this
    |-- CaptureError             not allowed in, or damaging to, a stream capture
    |-- DeviceFault              a kernel or the device failed; the context is lost
    |-- PeerError                access between devices
    `-- InternalError            what the driver itself cannot explain
"""

from __future__ import annotations

from typing import NamedTuple

# The exceptions, which users meet as `oxinp.cuda.*`; the rest of this module is for the other modules here.
__all__ = [
    "CaptureError",
    "CompileError",
    "CudaError",
    "DeviceBusy",
    "DeviceFault",
    "DeviceNotFound",
    "DriverTooOld",
    "ForkedProcess",
    "InternalError",
    "InvalidHandle",
    "InvalidValue",
    "LaunchError",
    "NoDevice",
    "NoDriver",
    "NotFound",
    "NotReady",
    "NotSupported",
    "OutOfMemory",
    "PeerError",
    "SystemNotReady",
    "Unavailable",
    "UnsupportedPlatform",
]

SUCCESS = 0
NOT_INITIALIZED = 3
INVALID_CONTEXT = 201
INVALID_HANDLE = 400
NOT_READY = 600


class CudaError(RuntimeError):
    """The CUDA driver refused or failed.

    Attributes
    ----------
    code : int
        The CUresult, 0 where no driver call was made.
    name : str
        Its name, ``CUDA_ERROR_...``; empty where no driver call was made.
    call : str
        The driver function; empty where none was called.
    """

    def __init__(self, message: str, *, code: int = 0, name: str = "", call: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.name = name
        self.call = call


class Unavailable(CudaError):
    """No GPU can be used in this process."""


class NoDriver(Unavailable):
    """The driver library is not installed, or cannot be loaded."""


class UnsupportedPlatform(Unavailable):
    """There is no CUDA for this operating system."""


class DriverTooOld(Unavailable):
    """The installed driver lacks something that is needed."""


class NoDevice(Unavailable):
    """The driver finds no GPU."""


class DeviceNotFound(Unavailable):
    """There is no GPU of that number."""


class DeviceBusy(Unavailable):
    """The GPU is reserved by another process or may not be used."""


class SystemNotReady(Unavailable):
    """The GPU, its driver or a service of it is not in a state to work."""


class ForkedProcess(Unavailable):
    """The process was forked from one that uses CUDA."""


class OutOfMemory(CudaError, MemoryError):
    """Device memory, pinned memory or another resource of the driver is used up."""


class InvalidValue(CudaError):
    """The driver rejects an argument."""


class InvalidHandle(CudaError):
    """A context, stream, event, module or function is not one, or no longer."""


class NotFound(CudaError):
    """The driver does not know that name."""


class NotReady(CudaError):
    """The work is still going on."""


class NotSupported(CudaError):
    """What was asked is beyond this device, system or mode."""


class CompileError(CudaError):
    """A kernel does not compile, link or load.

    Attributes
    ----------
    log : str
        What the compiler said.
    """

    log: str = ""


class LaunchError(CudaError):
    """A kernel cannot be launched like this."""


class CaptureError(CudaError):
    """The call is not allowed in, or damages, a stream capture."""


class DeviceFault(CudaError):
    """A kernel or the device failed; nothing more works in this process's context.

    Attributes
    ----------
    kernels : tuple of str
        Names of the kernels that may have caused it, the last launched first; empty where none was launched.
    """

    kernels: tuple[str, ...] = ()


class PeerError(CudaError):
    """Access from one device to another's memory."""


class InternalError(CudaError):
    """The driver failed in a way it does not explain."""


class Row(NamedTuple):
    """One CUresult: its number, its name without "CUDA_ERROR_", what is raised, and cause and remedy in sentences."""

    code: int
    name: str
    type: type[CudaError]
    cause: str
    remedy: str


_UPDATE = "Install a newer NVIDIA driver."
_RESTART = "Nothing more can run on the GPU in this process: start it again."
_DEBUG = f"Run it under compute-sanitizer to find the line. {_RESTART}"
_REPORT = "This is a defect in the calling library, please report it."
_CAPTURE = "Do this before the capture begins or after it ends."
_PROFILER = "Profile without the external tool, or without the call."
_MPS = "Look at the MPS control daemon and its logs, or run without MPS."
_GRAPHICS = "Only graphics interoperation meets this; no part of this library uses it."

# fmt: off
ROWS: tuple[Row, ...] = (
    Row(1, "INVALID_VALUE", InvalidValue, "The driver does not accept one of the arguments.", _REPORT),
    Row(2, "OUT_OF_MEMORY", OutOfMemory, "There is not enough memory or of another resource.",
        "Delete arrays that are no longer needed, work in smaller pieces, or stop other processes on this GPU."),
    Row(3, "NOT_INITIALIZED", InvalidHandle, "The driver has not been initialised in this process.",
        "If the process was forked, start it with multiprocessing's 'spawn' method instead."),
    Row(4, "DEINITIALIZED", InvalidHandle, "The driver is shutting down.",
        "Finish device work before the process exits."),
    Row(5, "PROFILER_DISABLED", NotSupported, "The profiler cannot be controlled in this run.", _PROFILER),
    Row(6, "PROFILER_NOT_INITIALIZED", NotSupported, "The profiler has not been initialised.", _PROFILER),
    Row(7, "PROFILER_ALREADY_STARTED", NotSupported, "The profiler is already running.", _PROFILER),
    Row(8, "PROFILER_ALREADY_STOPPED", NotSupported, "The profiler is not running.", _PROFILER),
    Row(34, "STUB_LIBRARY", NoDriver, "The library that was loaded is the CUDA toolkit's stub, not a driver.",
        "Install the NVIDIA driver, and take the stubs directory out of LD_LIBRARY_PATH."),
    Row(36, "CALL_REQUIRES_NEWER_DRIVER", DriverTooOld, "The call needs a newer driver than the installed one.",
        _UPDATE),
    Row(46, "DEVICE_UNAVAILABLE", DeviceBusy, "The GPU is in an exclusive or prohibited compute mode, or taken.",
        "Stop the process that holds it (nvidia-smi shows it), choose another GPU with CUDA_VISIBLE_DEVICES, or have "
        "the administrator set the mode back with nvidia-smi -c DEFAULT."),
    Row(47, "MULTICAST_RESOURCE_FULL", OutOfMemory, "The hardware has no room for another multicast object.",
        "Close one that is no longer needed."),
    Row(100, "NO_DEVICE", NoDevice, "The driver finds no GPU.",
        "Check that nvidia-smi lists one, that CUDA_VISIBLE_DEVICES does not hide it, and, in a container, that it was "
        "started with access to GPUs."),
    Row(101, "INVALID_DEVICE", DeviceNotFound, "There is no GPU of that number, or it cannot do what was asked.",
        "Count devices from 0; CUDA_VISIBLE_DEVICES limits and renumbers them."),
    Row(102, "DEVICE_NOT_LICENSED", SystemNotReady, "The virtual GPU has no licence.",
        "Have the administrator provide the NVIDIA vGPU licence."),
    Row(200, "INVALID_IMAGE", CompileError, "The code to load is not valid PTX or not a valid cubin.",
        "If it comes from a cache, delete that; a cubin fits one compute capability and no older driver."),
    Row(201, "INVALID_CONTEXT", InvalidHandle, "No context is current in this thread, or it is not a valid one.",
        _REPORT),
    Row(202, "CONTEXT_ALREADY_CURRENT", InvalidHandle, "The context is already current.", _REPORT),
    Row(205, "MAP_FAILED", InternalError, "Mapping memory failed.", _GRAPHICS),
    Row(206, "UNMAP_FAILED", InternalError, "Unmapping memory failed.", _GRAPHICS),
    Row(207, "ARRAY_IS_MAPPED", InvalidHandle, "The array is mapped and cannot be destroyed.", _GRAPHICS),
    Row(208, "ALREADY_MAPPED", InvalidHandle, "The resource is already mapped.", _GRAPHICS),
    Row(209, "NO_BINARY_FOR_GPU", CompileError, "The code holds nothing this GPU can run.",
        "Use a kernel for this compute capability or an older one."),
    Row(210, "ALREADY_ACQUIRED", InvalidHandle, "The resource has already been acquired.", _REPORT),
    Row(211, "NOT_MAPPED", InvalidHandle, "The resource is not mapped.", _GRAPHICS),
    Row(212, "NOT_MAPPED_AS_ARRAY", InvalidHandle, "The resource is not mapped as an array.", _GRAPHICS),
    Row(213, "NOT_MAPPED_AS_POINTER", InvalidHandle, "The resource is not mapped as a pointer.", _GRAPHICS),
    Row(214, "ECC_UNCORRECTABLE", DeviceFault, "The GPU met a memory error that it cannot correct.",
        "Start the process again; if it returns, nvidia-smi -q -d ECC shows whether the card has to be replaced."),
    Row(215, "UNSUPPORTED_LIMIT", NotSupported, "The GPU does not know that limit.", _REPORT),
    Row(216, "CONTEXT_ALREADY_IN_USE", InvalidHandle, "The context is bound to another thread.", _REPORT),
    Row(217, "PEER_ACCESS_UNSUPPORTED", PeerError, "These two GPUs cannot reach each other's memory.",
        "Copy through the host; nvidia-smi topo -p2p r shows which pairs can."),
    Row(218, "INVALID_PTX", CompileError, "The PTX does not compile.", "The compiler's log says where and why."),
    Row(219, "INVALID_GRAPHICS_CONTEXT", InvalidHandle, "An OpenGL or DirectX context is not valid.", _GRAPHICS),
    Row(220, "NVLINK_UNCORRECTABLE", DeviceFault, "NVLink met an error that it cannot correct.", _RESTART),
    Row(221, "JIT_COMPILER_NOT_FOUND", DriverTooOld, "The driver's PTX compiler, libnvidia-ptxjitcompiler, is missing.",
        "Install the complete driver; in a container, ask for the 'compute' driver capability."),
    Row(222, "UNSUPPORTED_PTX_VERSION", DriverTooOld, "The driver's compiler does not know this version of PTX.",
        _UPDATE),
    Row(223, "JIT_COMPILATION_DISABLED", CompileError, "Compiling PTX is disabled.",
        "Unset the environment variable CUDA_DISABLE_PTX_JIT."),
    Row(224, "UNSUPPORTED_EXEC_AFFINITY", NotSupported, "The GPU does not support that execution affinity.", _REPORT),
    Row(225, "UNSUPPORTED_DEVSIDE_SYNC", CompileError, "The PTX calls cudaDeviceSynchronize, which is gone.",
        "Take the call out of the kernel."),
    Row(226, "CONTAINED", DeviceFault, "The device met a fault, which was contained.", _RESTART),
    Row(227, "INSUFFICIENT_LOADER_VERSION", DriverTooOld, "The driver cannot load code of this newer form.", _UPDATE),
    Row(300, "INVALID_SOURCE", CompileError, "The kernel's source is not valid.", "The compiler's log says where."),
    Row(301, "FILE_NOT_FOUND", NotFound, "There is no such file.", "Check the path."),
    Row(302, "SHARED_OBJECT_SYMBOL_NOT_FOUND", NotFound, "A shared library lacks a symbol.",
        "Install the driver anew."),
    Row(303, "SHARED_OBJECT_INIT_FAILED", SystemNotReady, "A shared library of the driver could not be initialised.",
        "Install the driver anew; library and kernel module must have one version."),
    Row(304, "OPERATING_SYSTEM", SystemNotReady, "The operating system refused a call of the driver.",
        "Look at its limits (locked memory, open files, address space) and at the kernel log."),
    Row(400, "INVALID_HANDLE", InvalidHandle, "A stream, event, module or function is not valid, or no longer.",
        "Do not use it after it was closed, nor with another device's context."),
    Row(401, "ILLEGAL_STATE", InvalidHandle, "The object is not in a state that allows this.", _REPORT),
    Row(402, "LOSSY_QUERY", NotSupported, "The answer would leave out information the call cannot carry.", _REPORT),
    Row(500, "NOT_FOUND", NotFound, "The name is not there.", "Check the kernel's or variable's name in its module."),
    Row(600, "NOT_READY", NotReady, "The work is still going on.", "Wait for it."),
    Row(700, "ILLEGAL_ADDRESS", DeviceFault, "A kernel read or wrote memory that is not its own.", _DEBUG),
    Row(701, "LAUNCH_OUT_OF_RESOURCES", LaunchError,
        "A block needs more registers or shared memory than there are, or the parameters have the wrong size.",
        "Use a smaller block, or limit the kernel's registers."),
    Row(702, "LAUNCH_TIMEOUT", DeviceFault, "A kernel ran longer than the display's watchdog allows.",
        f"Use a GPU without a display, or smaller pieces. {_RESTART}"),
    Row(703, "LAUNCH_INCOMPATIBLE_TEXTURING", LaunchError, "The kernel uses an incompatible texturing mode.", _REPORT),
    Row(704, "PEER_ACCESS_ALREADY_ENABLED", PeerError, "Access to that GPU is already enabled.", "Enable it once."),
    Row(705, "PEER_ACCESS_NOT_ENABLED", PeerError, "Access to that GPU is not enabled.", "Enable it first."),
    Row(708, "PRIMARY_CONTEXT_ACTIVE", InvalidHandle, "The device's primary context is already in use.",
        "Set its flags before anything uses the device."),
    Row(709, "CONTEXT_IS_DESTROYED", InvalidHandle, "The thread's context has been destroyed.",
        "Something in this process has reset the device; start the process again and do not reset it."),
    Row(710, "ASSERT", DeviceFault, "An assertion in a kernel failed.", _RESTART),
    Row(711, "TOO_MANY_PEERS", PeerError, "The GPU has no room for another peer.", "Disable access to one first."),
    Row(712, "HOST_MEMORY_ALREADY_REGISTERED", InvalidValue, "The host memory is already pinned.", "Pin it once."),
    Row(713, "HOST_MEMORY_NOT_REGISTERED", InvalidValue, "The host memory is not pinned.", "Pin it first."),
    Row(714, "HARDWARE_STACK_ERROR", DeviceFault, "A kernel overran or corrupted its stack.", _DEBUG),
    Row(715, "ILLEGAL_INSTRUCTION", DeviceFault, "A kernel met an instruction that is not one.", _DEBUG),
    Row(716, "MISALIGNED_ADDRESS", DeviceFault, "A kernel accessed an address that is not aligned to the access.",
        _DEBUG),
    Row(717, "INVALID_ADDRESS_SPACE", DeviceFault, "A kernel accessed an address in the wrong memory space.", _DEBUG),
    Row(718, "INVALID_PC", DeviceFault, "A kernel's program counter left its program.", _DEBUG),
    Row(719, "LAUNCH_FAILED", DeviceFault, "A kernel failed on the device.", _DEBUG),
    Row(720, "COOPERATIVE_LAUNCH_TOO_LARGE", LaunchError, "The grid does not fit the device all at once.",
        "Launch no more blocks than the device holds at a time."),
    Row(721, "TENSOR_MEMORY_LEAK", DeviceFault, "A kernel ended without giving its tensor memory back.", _RESTART),
    Row(800, "NOT_PERMITTED", NotSupported, "The operation is not permitted.",
        "Check the permissions of the process or container on the GPU."),
    Row(801, "NOT_SUPPORTED", NotSupported, "This system or GPU does not support that.",
        "Check the compute capability and the driver that it needs."),
    Row(802, "SYSTEM_NOT_READY", SystemNotReady, "The system is not ready for CUDA work.",
        "On machines with NVSwitch start the nvidia-fabricmanager service, of the driver's own version."),
    Row(803, "SYSTEM_DRIVER_MISMATCH", SystemNotReady, "The driver library and the kernel module differ in version.",
        "Reboot after a driver update; in a container, take out its own copy of libcuda."),
    Row(804, "COMPAT_NOT_SUPPORTED_ON_DEVICE", DriverTooOld, "This GPU does not support forward compatibility.",
        "Take the cuda-compat directory out of LD_LIBRARY_PATH, or install a newer driver."),
    Row(805, "MPS_CONNECTION_FAILED", SystemNotReady, "The MPS daemon cannot be reached.", _MPS),
    Row(806, "MPS_RPC_FAILURE", SystemNotReady, "A call to the MPS server failed.", _MPS),
    Row(807, "MPS_SERVER_NOT_READY", SystemNotReady, "The MPS server does not accept clients now.", _MPS),
    Row(808, "MPS_MAX_CLIENTS_REACHED", DeviceBusy, "The MPS server has no room for another client.", _MPS),
    Row(809, "MPS_MAX_CONNECTIONS_REACHED", DeviceBusy, "The MPS server has no room for another connection.", _MPS),
    Row(810, "MPS_CLIENT_TERMINATED", DeviceFault, "The MPS server ended this client.", _RESTART),
    Row(811, "CDP_NOT_SUPPORTED", NotSupported, "Kernels cannot launch kernels in this configuration.",
        "Run without MPS."),
    Row(812, "CDP_VERSION_MISMATCH", CompileError, "The module mixes versions of device-side launches.",
        "Build all of it with one toolkit."),
    Row(900, "STREAM_CAPTURE_UNSUPPORTED", CaptureError, "The operation cannot be captured.", _CAPTURE),
    Row(901, "STREAM_CAPTURE_INVALIDATED", CaptureError, "An earlier error has spoilt the capture.",
        "End it, and capture again without the operation that failed."),
    Row(902, "STREAM_CAPTURE_MERGE", CaptureError, "The operation would merge two captures.", _CAPTURE),
    Row(903, "STREAM_CAPTURE_UNMATCHED", CaptureError, "The capture did not begin in this stream.",
        "End it in the stream it began in."),
    Row(904, "STREAM_CAPTURE_UNJOINED", CaptureError, "A stream that joined the capture has not come back to it.",
        "Let the first stream wait for an event of every other one before the capture ends."),
    Row(905, "STREAM_CAPTURE_ISOLATION", CaptureError, "The operation depends on work outside the capture.", _CAPTURE),
    Row(906, "STREAM_CAPTURE_IMPLICIT", CaptureError, "The operation implicitly waits for the capturing stream.",
        "Use streams that do not synchronise with the default stream."),
    Row(907, "CAPTURED_EVENT", CaptureError, "The event was last recorded inside a capture.",
        "Record it again outside before waiting for it."),
    Row(908, "STREAM_CAPTURE_WRONG_THREAD", CaptureError, "The capture began in another thread.",
        "End it in the thread it began in."),
    Row(909, "TIMEOUT", NotReady, "The wait took longer than it may.", "Wait again, or longer."),
    Row(910, "GRAPH_EXEC_UPDATE_FAILURE", CaptureError, "The graph has changed too much to be updated.",
        "Instantiate it anew."),
    Row(911, "EXTERNAL_DEVICE", DeviceFault, "A device outside CUDA reported an error.", _RESTART),
    Row(912, "INVALID_CLUSTER_SIZE", LaunchError, "The GPU cannot launch clusters of that shape.",
        "Use at most 8 blocks per cluster, and a grid that is a multiple of it."),
    Row(913, "FUNCTION_NOT_LOADED", InvalidHandle, "The kernel has not been loaded yet.", "Load it before the call."),
    Row(914, "INVALID_RESOURCE_TYPE", InvalidValue, "The resource is of the wrong kind.", _REPORT),
    Row(915, "INVALID_RESOURCE_CONFIGURATION", InvalidValue, "The resources are too few or do not apply.", _REPORT),
    Row(916, "KEY_ROTATION", SystemNotReady, "The confidential-computing keys are being changed.", "Try again."),
    Row(917, "STREAM_DETACHED", InvalidHandle, "The stream's context is gone, and the stream with it.",
        "Make a new stream."),
    Row(918, "GRAPH_RECAPTURE_FAILURE", CaptureError, "Capturing the graph anew failed.", "Capture a new graph."),
    Row(919, "FABRIC_NOT_READY", SystemNotReady, "The links between the GPUs are still being set up.",
        "Try again in a while; CUDA_FABRIC_INIT_TIMEOUT_MS sets how long the driver waits."),
    Row(999, "UNKNOWN", InternalError, "The driver failed without saying why.",
        f"Look at the kernel log (Xid messages). {_RESTART}"),
)
# fmt: on

BY_CODE = {row.code: row for row in ROWS}

for _name in __all__:
    globals()[_name].__module__ = "oxinp.cuda"  # where users find them, and what tracebacks say


def version_text(version: int) -> str:
    """Return a CUDA version as people write it.

    Examples
    --------
    >>> from oxinp._driver.errors import version_text
    >>> version_text(12040)
    '12.4'
    """
    return f"{version // 1000}.{version % 1000 // 10}"


def from_result(code: int, call: str, detail: str = "") -> CudaError:
    """Return the exception for a CUresult.

    Parameters
    ----------
    code : int
        The CUresult, not 0.
    call : str
        The driver function that gave it.
    detail : str
        What was asked for, in a few words.

    Returns
    -------
    CudaError
        Of the type that belongs to the code; InternalError for a code newer than the table.
    """
    row = BY_CODE.get(code)
    if row is None:
        message = f"{call} failed with the unknown CUresult {code}; this driver is newer than the table of its errors."
        return InternalError(message, code=code, call=call)
    name = f"CUDA_ERROR_{row.name}"
    subject = f"{call} ({detail})" if detail else call
    return row.type(f"{subject} failed with {name} ({code}). {row.cause} {row.remedy}", code=code, name=name, call=call)

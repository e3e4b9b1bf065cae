"""THE TABLE OF DRIVER FUNCTIONS.

One row per function: its exported symbol, its C parameters, the CUDA version that brought it. Argument types come from
the C text, so that they are written once. `driver.Driver` makes the rows callable.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any, TypeAlias

__all__ = ["FUNCTIONS", "MINIMUM_VERSION", "CType", "DriverFunction", "argument_types"]

MINIMUM_VERSION = 12000
"""The oldest CUDA version a driver must offer: cuLaunchKernelEx with clusters, PTX 8.0, tensor maps."""


@dataclass(frozen=True, slots=True)
class DriverFunction:
    """One function of the driver.

    Attributes
    ----------
    name : str
        Exported symbol, with the suffix of its version.
    parameters : str
        C parameters, as cuda.h declares them.
    since : int
        CUDA version that brought it, 12040 for 12.4.
    is_hot : bool
        It returns at once and is called so often that a tenth of a microsecond counts: the interpreter lock is kept,
        and arguments are not converted. The caller prepares them, once, with `from_param` of their ctypes.
    """

    name: str
    parameters: str
    since: int
    is_hot: bool = False


# fmt: off
_ROWS = (
    # Driver and devices
    DriverFunction("cuInit", "unsigned int Flags", 2000),
    DriverFunction("cuDriverGetVersion", "int *driverVersion", 2020),
    DriverFunction("cuDeviceGetCount", "int *count", 2000),
    DriverFunction("cuDeviceGet", "CUdevice *device, int ordinal", 2000),
    DriverFunction("cuDeviceGetName", "char *name, int len, CUdevice dev", 2000),
    DriverFunction("cuDeviceGetUuid_v2", "CUuuid *uuid, CUdevice dev", 11040),
    DriverFunction("cuDeviceTotalMem_v2", "size_t *bytes, CUdevice dev", 3020),
    DriverFunction("cuDeviceGetAttribute", "int *pi, CUdevice_attribute attrib, CUdevice dev", 2000),
    # Contexts
    DriverFunction("cuDevicePrimaryCtxRetain", "CUcontext *pctx, CUdevice dev", 7000),
    DriverFunction("cuDevicePrimaryCtxRelease_v2", "CUdevice dev", 11000),
    DriverFunction("cuCtxSetCurrent", "CUcontext ctx", 4000),
    DriverFunction("cuCtxGetCurrent", "CUcontext *pctx", 4000),
    DriverFunction("cuCtxSynchronize", "void", 2000),
    DriverFunction("cuCtxGetStreamPriorityRange", "int *leastPriority, int *greatestPriority", 5050),
    # Streams and events
    DriverFunction("cuStreamCreateWithPriority", "CUstream *phStream, unsigned int flags, int priority", 5050),
    DriverFunction("cuStreamDestroy_v2", "CUstream hStream", 4000),
    DriverFunction("cuStreamSynchronize", "CUstream hStream", 2000),
    DriverFunction("cuStreamQuery", "CUstream hStream", 2000),
    DriverFunction("cuStreamWaitEvent", "CUstream hStream, CUevent hEvent, unsigned int Flags", 3020),
    DriverFunction("cuEventCreate", "CUevent *phEvent, unsigned int Flags", 2000),
    DriverFunction("cuEventDestroy_v2", "CUevent hEvent", 4000),
    DriverFunction("cuEventRecord", "CUevent hEvent, CUstream hStream", 2000),
    DriverFunction("cuEventSynchronize", "CUevent hEvent", 2000),
    DriverFunction("cuEventQuery", "CUevent hEvent", 2000),
    DriverFunction("cuEventElapsedTime", "float *pMilliseconds, CUevent hStart, CUevent hEnd", 2000),
    # Memory
    DriverFunction("cuMemGetInfo_v2", "size_t *free, size_t *total", 3020),
    DriverFunction("cuPointerGetAttribute", "void *data, CUpointer_attribute attribute, CUdeviceptr ptr", 4000),
    DriverFunction("cuMemAlloc_v2", "CUdeviceptr *dptr, size_t bytesize", 3020),
    DriverFunction("cuMemFree_v2", "CUdeviceptr dptr", 3020),
    DriverFunction("cuMemAllocAsync", "CUdeviceptr *dptr, size_t bytesize, CUstream hStream", 11020),
    DriverFunction("cuMemFreeAsync", "CUdeviceptr dptr, CUstream hStream", 11020),
    DriverFunction("cuMemHostAlloc", "void **pp, size_t bytesize, unsigned int Flags", 2020),
    DriverFunction("cuMemFreeHost", "void *p", 2000),
    DriverFunction("cuMemcpyHtoD_v2", "CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount", 3020),
    DriverFunction("cuMemcpyDtoH_v2", "void *dstHost, CUdeviceptr srcDevice, size_t ByteCount", 3020),
    DriverFunction("cuMemcpyDtoD_v2", "CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount", 3020),
    DriverFunction(
        "cuMemcpyHtoDAsync_v2", "CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount, CUstream hStream", 3020),
    DriverFunction(
        "cuMemcpyDtoHAsync_v2", "void *dstHost, CUdeviceptr srcDevice, size_t ByteCount, CUstream hStream", 3020),
    DriverFunction(
        "cuMemcpyDtoDAsync_v2",
        "CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount, CUstream hStream", 3020),
    DriverFunction("cuMemsetD8Async", "CUdeviceptr dstDevice, unsigned char uc, size_t N, CUstream hStream", 3020),
    DriverFunction("cuMemsetD16Async", "CUdeviceptr dstDevice, unsigned short us, size_t N, CUstream hStream", 3020),
    DriverFunction("cuMemsetD32Async", "CUdeviceptr dstDevice, unsigned int ui, size_t N, CUstream hStream", 3020),
    # Modules and functions
    DriverFunction(
        "cuModuleLoadDataEx",
        "CUmodule *module, const void *image, unsigned int numOptions, CUjit_option *options, void **optionValues",
        2010),
    DriverFunction("cuModuleUnload", "CUmodule hmod", 2000),
    DriverFunction("cuModuleGetFunction", "CUfunction *hfunc, CUmodule hmod, const char *name", 2000),
    DriverFunction("cuFuncGetAttribute", "int *pi, CUfunction_attribute attrib, CUfunction hfunc", 2020),
    DriverFunction("cuFuncSetAttribute", "CUfunction hfunc, CUfunction_attribute attrib, int value", 9000),
    DriverFunction(
        "cuLinkCreate_v2",
        "unsigned int numOptions, CUjit_option *options, void **optionValues, CUlinkState *stateOut", 6050),
    DriverFunction(
        "cuLinkAddData_v2",
        "CUlinkState state, CUjitInputType type, void *data, size_t size, const char *name, unsigned int numOptions, "
        "CUjit_option *options, void **optionValues", 6050),
    DriverFunction("cuLinkComplete", "CUlinkState state, void **cubinOut, size_t *sizeOut", 5050),
    DriverFunction("cuLinkDestroy", "CUlinkState state", 5050),
    # Launches
    DriverFunction(
        "cuLaunchKernelEx",
        "const CUlaunchConfig *config, CUfunction f, void **kernelParams, void **extra", 11060, is_hot=True),
    DriverFunction(
        "cuTensorMapEncodeTiled",
        "CUtensorMap *tensorMap, CUtensorMapDataType tensorDataType, cuuint32_t tensorRank, void *globalAddress, "
        "const cuuint64_t *globalDim, const cuuint64_t *globalStrides, const cuuint32_t *boxDim, "
        "const cuuint32_t *elementStrides, CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle, "
        "CUtensorMapL2promotion l2Promotion, CUtensorMapFloatOOBfill oobFill", 12000),
)
# fmt: on

FUNCTIONS = {row.name: row for row in _ROWS}

CType: TypeAlias = "type[ctypes._SimpleCData[Any]]"

_ENUM = ctypes.c_int
_HANDLE = ctypes.c_void_p
_C_TYPES: dict[str, CType] = {
    "int": ctypes.c_int,
    "unsigned char": ctypes.c_ubyte,
    "unsigned short": ctypes.c_ushort,
    "unsigned int": ctypes.c_uint,
    "cuuint32_t": ctypes.c_uint32,
    "size_t": ctypes.c_size_t,
    "CUdevice": ctypes.c_int,
    "CUdeviceptr": ctypes.c_uint64,
    "CUcontext": _HANDLE,
    "CUstream": _HANDLE,
    "CUevent": _HANDLE,
    "CUmodule": _HANDLE,
    "CUfunction": _HANDLE,
    "CUlinkState": _HANDLE,
    "CUdevice_attribute": _ENUM,
    "CUfunction_attribute": _ENUM,
    "CUpointer_attribute": _ENUM,
    "CUjitInputType": _ENUM,
    "CUtensorMapDataType": _ENUM,
    "CUtensorMapInterleave": _ENUM,
    "CUtensorMapSwizzle": _ENUM,
    "CUtensorMapL2promotion": _ENUM,
    "CUtensorMapFloatOOBfill": _ENUM,
}


def argument_types(row: DriverFunction) -> list[CType]:
    """Return the ctypes of a function's parameters: every pointer is a `c_void_p`, so a plain int will do for it."""
    if row.parameters == "void":
        return []
    found: list[CType] = []
    for parameter in row.parameters.split(","):
        type_text, _, name = parameter.strip().rpartition(" ")
        is_text = type_text == "const char"
        found.append((ctypes.c_char_p if is_text else _HANDLE) if name.startswith("*") else _C_TYPES[type_text])
    return found

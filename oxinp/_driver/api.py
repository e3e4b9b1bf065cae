"""THE TABLE OF DRIVER FUNCTIONS.

One row per function: its exported symbol, its C parameters as cuda.h declares them, the CUDA version that brought it.
Argument types come from the C text, so that they are written once. `driver.Driver` makes the rows callable, each when
it is first called: a driver that lacks a function is in the way of that function only.

Where a newer header gives a plain name to a successor that drivers for CUDA 12.0 lack, the row is the predecessor's,
which stays exported.
"""

from __future__ import annotations

import ctypes
from typing import Any, NamedTuple, TypeAlias

__all__ = ["FUNCTIONS", "MINIMUM_VERSION", "CType", "DriverFunction", "IpcHandle", "argument_types"]

MINIMUM_VERSION = 12000
"""The oldest CUDA version a driver must offer: cuLaunchKernelEx with clusters, PTX 8.0, tensor maps."""


class DriverFunction(NamedTuple):
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
    # Driver and errors
    DriverFunction("cuInit", "unsigned int Flags", 2000),
    DriverFunction("cuDriverGetVersion", "int *driverVersion", 2020),
    DriverFunction(
        "cuGetProcAddress_v2",
        "const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags, "
        "CUdriverProcAddressQueryResult *symbolStatus", 12000),
    DriverFunction("cuGetErrorName", "CUresult error, const char **pStr", 6000),
    DriverFunction("cuGetErrorString", "CUresult error, const char **pStr", 6000),
    # Devices
    DriverFunction("cuDeviceGetCount", "int *count", 2000),
    DriverFunction("cuDeviceGet", "CUdevice *device, int ordinal", 2000),
    DriverFunction("cuDeviceGetName", "char *name, int len, CUdevice dev", 2000),
    DriverFunction("cuDeviceGetUuid_v2", "CUuuid *uuid, CUdevice dev", 11040),
    DriverFunction("cuDeviceGetLuid", "char *luid, unsigned int *deviceNodeMask, CUdevice dev", 10000),
    DriverFunction("cuDeviceTotalMem_v2", "size_t *bytes, CUdevice dev", 3020),
    DriverFunction("cuDeviceGetAttribute", "int *pi, CUdevice_attribute attrib, CUdevice dev", 2000),
    DriverFunction("cuDeviceGetPCIBusId", "char *pciBusId, int len, CUdevice dev", 4010),
    DriverFunction("cuDeviceGetByPCIBusId", "CUdevice *dev, const char *pciBusId", 4010),
    DriverFunction("cuDeviceGetExecAffinitySupport", "int *pi, CUexecAffinityType type, CUdevice dev", 11040),
    DriverFunction(
        "cuDeviceGetTexture1DLinearMaxWidth",
        "size_t *maxWidthInElements, CUarray_format format, unsigned numChannels, CUdevice dev", 11010),
    DriverFunction("cuDeviceGetDefaultMemPool", "CUmemoryPool *pool_out, CUdevice dev", 11020),
    DriverFunction("cuDeviceGetMemPool", "CUmemoryPool *pool, CUdevice dev", 11020),
    DriverFunction("cuDeviceSetMemPool", "CUdevice dev, CUmemoryPool pool", 11020),
    DriverFunction("cuDeviceGetGraphMemAttribute", "CUdevice device, CUgraphMem_attribute attr, void *value", 11040),
    DriverFunction("cuDeviceSetGraphMemAttribute", "CUdevice device, CUgraphMem_attribute attr, void *value", 11040),
    DriverFunction("cuDeviceGraphMemTrim", "CUdevice device", 11040),
    DriverFunction("cuDeviceCanAccessPeer", "int *canAccessPeer, CUdevice dev, CUdevice peerDev", 4000),
    DriverFunction(
        "cuDeviceGetP2PAttribute",
        "int *value, CUdevice_P2PAttribute attrib, CUdevice srcDevice, CUdevice dstDevice", 8000),
    DriverFunction(
        "cuDeviceGetP2PAtomicCapabilities",
        "unsigned int *capabilities, const CUatomicOperation *operations, unsigned int count, "
        "CUdevice srcDevice, CUdevice dstDevice", 13000),
    DriverFunction(
        "cuDeviceGetHostAtomicCapabilities",
        "unsigned int *capabilities, const CUatomicOperation *operations, unsigned int count, CUdevice dev", 13000),
    DriverFunction(
        "cuDeviceRegisterAsyncNotification",
        "CUdevice device, CUasyncCallback callbackFunc, void *userData, CUasyncCallbackHandle *callback", 12040),
    DriverFunction("cuDeviceUnregisterAsyncNotification", "CUdevice device, CUasyncCallbackHandle callback", 12040),
    # Contexts
    DriverFunction("cuDevicePrimaryCtxRetain", "CUcontext *pctx, CUdevice dev", 7000),
    DriverFunction("cuDevicePrimaryCtxRelease_v2", "CUdevice dev", 11000),
    DriverFunction("cuDevicePrimaryCtxReset_v2", "CUdevice dev", 11000),
    DriverFunction("cuDevicePrimaryCtxGetState", "CUdevice dev, unsigned int *flags, int *active", 7000),
    DriverFunction("cuDevicePrimaryCtxSetFlags_v2", "CUdevice dev, unsigned int flags", 11000),
    DriverFunction(
        "cuCtxCreate_v3",
        "CUcontext *pctx, CUexecAffinityParam *paramsArray, int numParams, unsigned int flags, CUdevice dev", 11040),
    DriverFunction("cuCtxDestroy_v2", "CUcontext ctx", 4000),
    DriverFunction("cuCtxPushCurrent_v2", "CUcontext ctx", 4000),
    DriverFunction("cuCtxPopCurrent_v2", "CUcontext *pctx", 4000),
    DriverFunction("cuCtxSetCurrent", "CUcontext ctx", 4000),
    DriverFunction("cuCtxGetCurrent", "CUcontext *pctx", 4000),
    DriverFunction("cuCtxGetDevice", "CUdevice *device", 2000),
    DriverFunction("cuCtxGetFlags", "unsigned int *flags", 7000),
    DriverFunction("cuCtxSetFlags", "unsigned int flags", 12010),
    DriverFunction("cuCtxGetId", "CUcontext ctx, unsigned long long *ctxId", 12000),
    DriverFunction("cuCtxGetApiVersion", "CUcontext ctx, unsigned int *version", 3020),
    DriverFunction("cuCtxSynchronize", "void", 2000),
    DriverFunction("cuCtxGetLimit", "size_t *pvalue, CUlimit limit", 3010),
    DriverFunction("cuCtxSetLimit", "CUlimit limit, size_t value", 3010),
    DriverFunction("cuCtxGetCacheConfig", "CUfunc_cache *pconfig", 3020),
    DriverFunction("cuCtxSetCacheConfig", "CUfunc_cache config", 3020),
    DriverFunction("cuCtxGetStreamPriorityRange", "int *leastPriority, int *greatestPriority", 5050),
    DriverFunction("cuCtxResetPersistingL2Cache", "void", 11000),
    DriverFunction("cuCtxGetExecAffinity", "CUexecAffinityParam *pExecAffinity, CUexecAffinityType type", 11040),
    DriverFunction("cuCtxRecordEvent", "CUcontext hCtx, CUevent hEvent", 12050),
    DriverFunction("cuCtxWaitEvent", "CUcontext hCtx, CUevent hEvent", 12050),
    DriverFunction("cuCtxEnablePeerAccess", "CUcontext peerContext, unsigned int Flags", 4000),
    DriverFunction("cuCtxDisablePeerAccess", "CUcontext peerContext", 4000),
    # Green contexts: a share of a device's multiprocessors
    DriverFunction("cuDeviceGetDevResource", "CUdevice device, CUdevResource *resource, CUdevResourceType type", 12040),
    DriverFunction("cuCtxGetDevResource", "CUcontext hCtx, CUdevResource *resource, CUdevResourceType type", 12040),
    DriverFunction(
        "cuStreamGetDevResource", "CUstream hStream, CUdevResource *resource, CUdevResourceType type", 13010),
    DriverFunction(
        "cuDevSmResourceSplitByCount",
        "CUdevResource *result, unsigned int *nbGroups, const CUdevResource *input, "
        "CUdevResource *remainder, unsigned int flags, unsigned int minCount", 12040),
    DriverFunction(
        "cuDevResourceGenerateDesc",
        "CUdevResourceDesc *phDesc, CUdevResource *resources, unsigned int nbResources", 12040),
    DriverFunction(
        "cuGreenCtxCreate", "CUgreenCtx *phCtx, CUdevResourceDesc desc, CUdevice dev, unsigned int flags", 12040),
    DriverFunction("cuGreenCtxDestroy", "CUgreenCtx hCtx", 12040),
    DriverFunction(
        "cuGreenCtxGetDevResource", "CUgreenCtx hCtx, CUdevResource *resource, CUdevResourceType type", 12040),
    DriverFunction("cuGreenCtxGetId", "CUgreenCtx greenCtx, unsigned long long *greenCtxId", 12090),
    DriverFunction("cuGreenCtxRecordEvent", "CUgreenCtx hCtx, CUevent hEvent", 12040),
    DriverFunction("cuGreenCtxWaitEvent", "CUgreenCtx hCtx, CUevent hEvent", 12040),
    DriverFunction(
        "cuGreenCtxStreamCreate", "CUstream *phStream, CUgreenCtx greenCtx, unsigned int flags, int priority", 12050),
    DriverFunction("cuCtxFromGreenCtx", "CUcontext *pContext, CUgreenCtx hCtx", 12040),
    DriverFunction("cuStreamGetGreenCtx", "CUstream hStream, CUgreenCtx *phCtx", 12040),
    # Streams
    DriverFunction("cuStreamCreate", "CUstream *phStream, unsigned int Flags", 2000),
    DriverFunction("cuStreamCreateWithPriority", "CUstream *phStream, unsigned int flags, int priority", 5050),
    DriverFunction("cuStreamDestroy_v2", "CUstream hStream", 4000),
    DriverFunction("cuStreamSynchronize", "CUstream hStream", 2000),
    DriverFunction("cuStreamQuery", "CUstream hStream", 2000),
    DriverFunction("cuStreamWaitEvent", "CUstream hStream, CUevent hEvent, unsigned int Flags", 3020),
    DriverFunction(
        "cuStreamAddCallback", "CUstream hStream, CUstreamCallback callback, void *userData, unsigned int flags", 5000),
    DriverFunction("cuStreamGetPriority", "CUstream hStream, int *priority", 5050),
    DriverFunction("cuStreamGetFlags", "CUstream hStream, unsigned int *flags", 5050),
    DriverFunction("cuStreamGetId", "CUstream hStream, unsigned long long *streamId", 12000),
    DriverFunction("cuStreamGetCtx", "CUstream hStream, CUcontext *pctx", 9020),
    DriverFunction("cuStreamGetDevice", "CUstream hStream, CUdevice *device", 12080),
    DriverFunction(
        "cuStreamGetAttribute", "CUstream hStream, CUstreamAttrID attr, CUstreamAttrValue *value_out", 11000),
    DriverFunction(
        "cuStreamSetAttribute", "CUstream hStream, CUstreamAttrID attr, const CUstreamAttrValue *value", 11000),
    DriverFunction("cuStreamCopyAttributes", "CUstream dst, CUstream src", 11000),
    DriverFunction(
        "cuStreamAttachMemAsync", "CUstream hStream, CUdeviceptr dptr, size_t length, unsigned int flags", 6000),
    DriverFunction("cuLaunchHostFunc", "CUstream hStream, CUhostFn fn, void *userData", 10000),
    DriverFunction(
        "cuStreamWaitValue32_v2", "CUstream stream, CUdeviceptr addr, cuuint32_t value, unsigned int flags", 11070),
    DriverFunction(
        "cuStreamWaitValue64_v2", "CUstream stream, CUdeviceptr addr, cuuint64_t value, unsigned int flags", 11070),
    DriverFunction(
        "cuStreamWriteValue32_v2", "CUstream stream, CUdeviceptr addr, cuuint32_t value, unsigned int flags", 11070),
    DriverFunction(
        "cuStreamWriteValue64_v2", "CUstream stream, CUdeviceptr addr, cuuint64_t value, unsigned int flags", 11070),
    DriverFunction(
        "cuStreamBatchMemOp_v2",
        "CUstream stream, unsigned int count, CUstreamBatchMemOpParams *paramArray, unsigned int flags", 11070),
    # Events
    DriverFunction("cuEventCreate", "CUevent *phEvent, unsigned int Flags", 2000),
    DriverFunction("cuEventDestroy_v2", "CUevent hEvent", 4000),
    DriverFunction("cuEventRecord", "CUevent hEvent, CUstream hStream", 2000),
    DriverFunction("cuEventRecordWithFlags", "CUevent hEvent, CUstream hStream, unsigned int flags", 11010),
    DriverFunction("cuEventSynchronize", "CUevent hEvent", 2000),
    DriverFunction("cuEventQuery", "CUevent hEvent", 2000),
    DriverFunction("cuEventElapsedTime", "float *pMilliseconds, CUevent hStart, CUevent hEnd", 2000),
    # Memory
    DriverFunction("cuMemGetInfo_v2", "size_t *free, size_t *total", 3020),
    DriverFunction("cuMemAlloc_v2", "CUdeviceptr *dptr, size_t bytesize", 3020),
    DriverFunction(
        "cuMemAllocPitch_v2",
        "CUdeviceptr *dptr, size_t *pPitch, size_t WidthInBytes, size_t Height, "
        "unsigned int ElementSizeBytes", 3020),
    DriverFunction("cuMemFree_v2", "CUdeviceptr dptr", 3020),
    DriverFunction("cuMemGetAddressRange_v2", "CUdeviceptr *pbase, size_t *psize, CUdeviceptr dptr", 3020),
    DriverFunction("cuPointerGetAttribute", "void *data, CUpointer_attribute attribute, CUdeviceptr ptr", 4000),
    DriverFunction(
        "cuPointerGetAttributes",
        "unsigned int numAttributes, CUpointer_attribute *attributes, void **data, CUdeviceptr ptr", 7000),
    DriverFunction("cuPointerSetAttribute", "const void *value, CUpointer_attribute attribute, CUdeviceptr ptr", 6000),
    # Host memory
    DriverFunction("cuMemHostAlloc", "void **pp, size_t bytesize, unsigned int Flags", 2020),
    DriverFunction("cuMemAllocHost_v2", "void **pp, size_t bytesize", 3020),
    DriverFunction("cuMemFreeHost", "void *p", 2000),
    DriverFunction("cuMemHostRegister_v2", "void *p, size_t bytesize, unsigned int Flags", 6050),
    DriverFunction("cuMemHostUnregister", "void *p", 4000),
    DriverFunction("cuMemHostGetDevicePointer_v2", "CUdeviceptr *pdptr, void *p, unsigned int Flags", 3020),
    DriverFunction("cuMemHostGetFlags", "unsigned int *pFlags, void *p", 2030),
    # Managed memory
    DriverFunction("cuMemAllocManaged", "CUdeviceptr *dptr, size_t bytesize, unsigned int flags", 6000),
    DriverFunction("cuMemAdvise", "CUdeviceptr devPtr, size_t count, CUmem_advise advice, CUdevice device", 8000),
    DriverFunction(
        "cuMemPrefetchAsync", "CUdeviceptr devPtr, size_t count, CUdevice dstDevice, CUstream hStream", 8000),
    DriverFunction(
        "cuMemRangeGetAttribute",
        "void *data, size_t dataSize, CUmem_range_attribute attribute, CUdeviceptr devPtr, size_t count", 8000),
    DriverFunction(
        "cuMemRangeGetAttributes",
        "void **data, size_t *dataSizes, CUmem_range_attribute *attributes, size_t numAttributes, "
        "CUdeviceptr devPtr, size_t count", 8000),
    DriverFunction(
        "cuMemPrefetchBatchAsync",
        "CUdeviceptr *dptrs, size_t *sizes, size_t count, CUmemLocation *prefetchLocs, "
        "size_t *prefetchLocIdxs, size_t numPrefetchLocs, unsigned long long flags, CUstream hStream", 13000),
    DriverFunction(
        "cuMemDiscardBatchAsync",
        "CUdeviceptr *dptrs, size_t *sizes, size_t count, unsigned long long flags, CUstream hStream", 13000),
    DriverFunction(
        "cuMemDiscardAndPrefetchBatchAsync",
        "CUdeviceptr *dptrs, size_t *sizes, size_t count, CUmemLocation *prefetchLocs, "
        "size_t *prefetchLocIdxs, size_t numPrefetchLocs, unsigned long long flags, CUstream hStream", 13000),
    # Stream-ordered memory
    DriverFunction("cuMemAllocAsync", "CUdeviceptr *dptr, size_t bytesize, CUstream hStream", 11020),
    DriverFunction("cuMemFreeAsync", "CUdeviceptr dptr, CUstream hStream", 11020),
    DriverFunction(
        "cuMemAllocFromPoolAsync", "CUdeviceptr *dptr, size_t bytesize, CUmemoryPool pool, CUstream hStream", 11020),
    DriverFunction("cuMemPoolCreate", "CUmemoryPool *pool, const CUmemPoolProps *poolProps", 11020),
    DriverFunction("cuMemPoolDestroy", "CUmemoryPool pool", 11020),
    DriverFunction("cuMemPoolTrimTo", "CUmemoryPool pool, size_t minBytesToKeep", 11020),
    DriverFunction("cuMemPoolGetAttribute", "CUmemoryPool pool, CUmemPool_attribute attr, void *value", 11020),
    DriverFunction("cuMemPoolSetAttribute", "CUmemoryPool pool, CUmemPool_attribute attr, void *value", 11020),
    DriverFunction(
        "cuMemPoolGetAccess", "CUmemAccess_flags *flags, CUmemoryPool memPool, CUmemLocation *location", 11020),
    DriverFunction("cuMemPoolSetAccess", "CUmemoryPool pool, const CUmemAccessDesc *map, size_t count", 11020),
    DriverFunction(
        "cuMemPoolExportToShareableHandle",
        "void *handle_out, CUmemoryPool pool, CUmemAllocationHandleType handleType, "
        "unsigned long long flags", 11020),
    DriverFunction(
        "cuMemPoolImportFromShareableHandle",
        "CUmemoryPool *pool_out, void *handle, CUmemAllocationHandleType handleType, "
        "unsigned long long flags", 11020),
    DriverFunction("cuMemPoolExportPointer", "CUmemPoolPtrExportData *shareData_out, CUdeviceptr ptr", 11020),
    DriverFunction(
        "cuMemPoolImportPointer", "CUdeviceptr *ptr_out, CUmemoryPool pool, CUmemPoolPtrExportData *shareData", 11020),
    DriverFunction(
        "cuMemGetDefaultMemPool", "CUmemoryPool *pool_out, CUmemLocation *location, CUmemAllocationType type", 13000),
    DriverFunction("cuMemGetMemPool", "CUmemoryPool *pool, CUmemLocation *location, CUmemAllocationType type", 13000),
    DriverFunction("cuMemSetMemPool", "CUmemLocation *location, CUmemAllocationType type, CUmemoryPool pool", 13000),
    # Virtual memory
    DriverFunction(
        "cuMemAddressReserve",
        "CUdeviceptr *ptr, size_t size, size_t alignment, CUdeviceptr addr, unsigned long long flags", 10020),
    DriverFunction("cuMemAddressFree", "CUdeviceptr ptr, size_t size", 10020),
    DriverFunction(
        "cuMemCreate",
        "CUmemGenericAllocationHandle *handle, size_t size, const CUmemAllocationProp *prop, "
        "unsigned long long flags", 10020),
    DriverFunction("cuMemRelease", "CUmemGenericAllocationHandle handle", 10020),
    DriverFunction(
        "cuMemMap",
        "CUdeviceptr ptr, size_t size, size_t offset, CUmemGenericAllocationHandle handle, "
        "unsigned long long flags", 10020),
    DriverFunction("cuMemUnmap", "CUdeviceptr ptr, size_t size", 10020),
    DriverFunction("cuMemSetAccess", "CUdeviceptr ptr, size_t size, const CUmemAccessDesc *desc, size_t count", 10020),
    DriverFunction(
        "cuMemGetAccess", "unsigned long long *flags, const CUmemLocation *location, CUdeviceptr ptr", 10020),
    DriverFunction(
        "cuMemGetAllocationGranularity",
        "size_t *granularity, const CUmemAllocationProp *prop, CUmemAllocationGranularity_flags option", 10020),
    DriverFunction(
        "cuMemGetAllocationPropertiesFromHandle",
        "CUmemAllocationProp *prop, CUmemGenericAllocationHandle handle", 10020),
    DriverFunction("cuMemRetainAllocationHandle", "CUmemGenericAllocationHandle *handle, void *addr", 11000),
    DriverFunction(
        "cuMemExportToShareableHandle",
        "void *shareableHandle, CUmemGenericAllocationHandle handle, CUmemAllocationHandleType handleType, "
        "unsigned long long flags", 10020),
    DriverFunction(
        "cuMemImportFromShareableHandle",
        "CUmemGenericAllocationHandle *handle, void *osHandle, CUmemAllocationHandleType shHandleType", 10020),
    DriverFunction(
        "cuMemGetHandleForAddressRange",
        "void *handle, CUdeviceptr dptr, size_t size, CUmemRangeHandleType handleType, "
        "unsigned long long flags", 11070),
    # Multicast: one address for the memory of several devices
    DriverFunction(
        "cuMulticastCreate", "CUmemGenericAllocationHandle *mcHandle, const CUmulticastObjectProp *prop", 12010),
    DriverFunction("cuMulticastAddDevice", "CUmemGenericAllocationHandle mcHandle, CUdevice dev", 12010),
    DriverFunction(
        "cuMulticastBindMem",
        "CUmemGenericAllocationHandle mcHandle, size_t mcOffset, CUmemGenericAllocationHandle memHandle, "
        "size_t memOffset, size_t size, unsigned long long flags", 12010),
    DriverFunction(
        "cuMulticastBindAddr",
        "CUmemGenericAllocationHandle mcHandle, size_t mcOffset, CUdeviceptr memptr, size_t size, "
        "unsigned long long flags", 12010),
    DriverFunction(
        "cuMulticastUnbind",
        "CUmemGenericAllocationHandle mcHandle, CUdevice dev, size_t mcOffset, size_t size", 12010),
    DriverFunction(
        "cuMulticastGetGranularity",
        "size_t *granularity, const CUmulticastObjectProp *prop, CUmulticastGranularity_flags option", 12010),
    # Memory of other processes
    DriverFunction("cuIpcGetMemHandle", "CUipcMemHandle *pHandle, CUdeviceptr dptr", 4010),
    DriverFunction("cuIpcOpenMemHandle_v2", "CUdeviceptr *pdptr, CUipcMemHandle handle, unsigned int Flags", 11000),
    DriverFunction("cuIpcCloseMemHandle", "CUdeviceptr dptr", 4010),
    DriverFunction("cuIpcGetEventHandle", "CUipcEventHandle *pHandle, CUevent event", 4010),
    DriverFunction("cuIpcOpenEventHandle", "CUevent *phEvent, CUipcEventHandle handle", 4010),
    DriverFunction(
        "cuFlushGPUDirectRDMAWrites",
        "CUflushGPUDirectRDMAWritesTarget target, CUflushGPUDirectRDMAWritesScope scope", 11030),
    # Copies
    DriverFunction("cuMemcpy", "CUdeviceptr dst, CUdeviceptr src, size_t ByteCount", 4000),
    DriverFunction("cuMemcpyAsync", "CUdeviceptr dst, CUdeviceptr src, size_t ByteCount, CUstream hStream", 4000),
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
    DriverFunction(
        "cuMemcpyPeer",
        "CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice, CUcontext srcContext, "
        "size_t ByteCount", 4000),
    DriverFunction(
        "cuMemcpyPeerAsync",
        "CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice, CUcontext srcContext, "
        "size_t ByteCount, CUstream hStream", 4000),
    DriverFunction("cuMemcpy2D_v2", "const CUDA_MEMCPY2D *pCopy", 3020),
    DriverFunction("cuMemcpy2DUnaligned_v2", "const CUDA_MEMCPY2D *pCopy", 3020),
    DriverFunction("cuMemcpy2DAsync_v2", "const CUDA_MEMCPY2D *pCopy, CUstream hStream", 3020),
    DriverFunction("cuMemcpy3D_v2", "const CUDA_MEMCPY3D *pCopy", 3020),
    DriverFunction("cuMemcpy3DAsync_v2", "const CUDA_MEMCPY3D *pCopy, CUstream hStream", 3020),
    DriverFunction("cuMemcpy3DPeer", "const CUDA_MEMCPY3D_PEER *pCopy", 4000),
    DriverFunction("cuMemcpy3DPeerAsync", "const CUDA_MEMCPY3D_PEER *pCopy, CUstream hStream", 4000),
    DriverFunction(
        "cuMemcpyBatchAsync_v2",
        "CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t count, CUmemcpyAttributes *attrs, "
        "size_t *attrsIdxs, size_t numAttrs, CUstream hStream", 13000),
    DriverFunction(
        "cuMemcpy3DBatchAsync_v2",
        "size_t numOps, CUDA_MEMCPY3D_BATCH_OP *opList, unsigned long long flags, CUstream hStream", 13000),
    # Fills
    DriverFunction("cuMemsetD8_v2", "CUdeviceptr dstDevice, unsigned char uc, size_t N", 3020),
    DriverFunction("cuMemsetD16_v2", "CUdeviceptr dstDevice, unsigned short us, size_t N", 3020),
    DriverFunction("cuMemsetD32_v2", "CUdeviceptr dstDevice, unsigned int ui, size_t N", 3020),
    DriverFunction("cuMemsetD8Async", "CUdeviceptr dstDevice, unsigned char uc, size_t N, CUstream hStream", 3020),
    DriverFunction("cuMemsetD16Async", "CUdeviceptr dstDevice, unsigned short us, size_t N, CUstream hStream", 3020),
    DriverFunction("cuMemsetD32Async", "CUdeviceptr dstDevice, unsigned int ui, size_t N, CUstream hStream", 3020),
    DriverFunction(
        "cuMemsetD2D8_v2",
        "CUdeviceptr dstDevice, size_t dstPitch, unsigned char uc, size_t Width, size_t Height", 3020),
    DriverFunction(
        "cuMemsetD2D16_v2",
        "CUdeviceptr dstDevice, size_t dstPitch, unsigned short us, size_t Width, size_t Height", 3020),
    DriverFunction(
        "cuMemsetD2D32_v2",
        "CUdeviceptr dstDevice, size_t dstPitch, unsigned int ui, size_t Width, size_t Height", 3020),
    DriverFunction(
        "cuMemsetD2D8Async",
        "CUdeviceptr dstDevice, size_t dstPitch, unsigned char uc, size_t Width, size_t Height, "
        "CUstream hStream", 3020),
    DriverFunction(
        "cuMemsetD2D16Async",
        "CUdeviceptr dstDevice, size_t dstPitch, unsigned short us, size_t Width, size_t Height, "
        "CUstream hStream", 3020),
    DriverFunction(
        "cuMemsetD2D32Async",
        "CUdeviceptr dstDevice, size_t dstPitch, unsigned int ui, size_t Width, size_t Height, "
        "CUstream hStream", 3020),
    # Modules and functions
    DriverFunction("cuModuleLoad", "CUmodule *module, const char *fname", 2000),
    DriverFunction("cuModuleLoadData", "CUmodule *module, const void *image", 2000),
    DriverFunction(
        "cuModuleLoadDataEx",
        "CUmodule *module, const void *image, unsigned int numOptions, CUjit_option *options, "
        "void **optionValues", 2010),
    DriverFunction("cuModuleLoadFatBinary", "CUmodule *module, const void *fatCubin", 2000),
    DriverFunction("cuModuleUnload", "CUmodule hmod", 2000),
    DriverFunction("cuModuleGetLoadingMode", "CUmoduleLoadingMode *mode", 11070),
    DriverFunction("cuModuleGetFunction", "CUfunction *hfunc, CUmodule hmod, const char *name", 2000),
    DriverFunction("cuModuleGetFunctionCount", "unsigned int *count, CUmodule mod", 12040),
    DriverFunction(
        "cuModuleEnumerateFunctions", "CUfunction *functions, unsigned int numFunctions, CUmodule mod", 12040),
    DriverFunction("cuModuleGetGlobal_v2", "CUdeviceptr *dptr, size_t *bytes, CUmodule hmod, const char *name", 3020),
    DriverFunction("cuFuncGetAttribute", "int *pi, CUfunction_attribute attrib, CUfunction hfunc", 2020),
    DriverFunction("cuFuncSetAttribute", "CUfunction hfunc, CUfunction_attribute attrib, int value", 9000),
    DriverFunction("cuFuncSetCacheConfig", "CUfunction hfunc, CUfunc_cache config", 3000),
    DriverFunction("cuFuncGetModule", "CUmodule *hmod, CUfunction hfunc", 11000),
    DriverFunction("cuFuncGetName", "const char **name, CUfunction hfunc", 12030),
    DriverFunction(
        "cuFuncGetParamInfo", "CUfunction func, size_t paramIndex, size_t *paramOffset, size_t *paramSize", 12040),
    DriverFunction("cuFuncGetParamCount", "CUfunction func, size_t *paramCount", 13020),
    DriverFunction("cuFuncIsLoaded", "CUfunctionLoadingState *state, CUfunction function", 12040),
    DriverFunction("cuFuncLoad", "CUfunction function", 12040),
    # Libraries: code that is loaded into every context
    DriverFunction(
        "cuLibraryLoadData",
        "CUlibrary *library, const void *code, CUjit_option *jitOptions, void **jitOptionsValues, "
        "unsigned int numJitOptions, CUlibraryOption *libraryOptions, void **libraryOptionValues, "
        "unsigned int numLibraryOptions", 12000),
    DriverFunction(
        "cuLibraryLoadFromFile",
        "CUlibrary *library, const char *fileName, CUjit_option *jitOptions, void **jitOptionsValues, "
        "unsigned int numJitOptions, CUlibraryOption *libraryOptions, void **libraryOptionValues, "
        "unsigned int numLibraryOptions", 12000),
    DriverFunction("cuLibraryUnload", "CUlibrary library", 12000),
    DriverFunction("cuLibraryGetKernel", "CUkernel *pKernel, CUlibrary library, const char *name", 12000),
    DriverFunction("cuLibraryGetKernelCount", "unsigned int *count, CUlibrary lib", 12040),
    DriverFunction("cuLibraryEnumerateKernels", "CUkernel *kernels, unsigned int numKernels, CUlibrary lib", 12040),
    DriverFunction("cuLibraryGetModule", "CUmodule *pMod, CUlibrary library", 12000),
    DriverFunction(
        "cuLibraryGetGlobal", "CUdeviceptr *dptr, size_t *bytes, CUlibrary library, const char *name", 12000),
    DriverFunction(
        "cuLibraryGetManaged", "CUdeviceptr *dptr, size_t *bytes, CUlibrary library, const char *name", 12000),
    DriverFunction("cuLibraryGetUnifiedFunction", "void **fptr, CUlibrary library, const char *symbol", 12000),
    DriverFunction("cuKernelGetFunction", "CUfunction *pFunc, CUkernel kernel", 12000),
    DriverFunction("cuKernelGetLibrary", "CUlibrary *pLib, CUkernel kernel", 12050),
    DriverFunction(
        "cuKernelGetAttribute", "int *pi, CUfunction_attribute attrib, CUkernel kernel, CUdevice dev", 12000),
    DriverFunction(
        "cuKernelSetAttribute", "CUfunction_attribute attrib, int val, CUkernel kernel, CUdevice dev", 12000),
    DriverFunction("cuKernelSetCacheConfig", "CUkernel kernel, CUfunc_cache config, CUdevice dev", 12000),
    DriverFunction("cuKernelGetName", "const char **name, CUkernel hfunc", 12030),
    DriverFunction(
        "cuKernelGetParamInfo", "CUkernel kernel, size_t paramIndex, size_t *paramOffset, size_t *paramSize", 12040),
    DriverFunction("cuKernelGetParamCount", "CUkernel kernel, size_t *paramCount", 13020),
    # The linker
    DriverFunction(
        "cuLinkCreate_v2",
        "unsigned int numOptions, CUjit_option *options, void **optionValues, CUlinkState *stateOut", 6050),
    DriverFunction(
        "cuLinkAddData_v2",
        "CUlinkState state, CUjitInputType type, void *data, size_t size, const char *name, "
        "unsigned int numOptions, CUjit_option *options, void **optionValues", 6050),
    DriverFunction(
        "cuLinkAddFile_v2",
        "CUlinkState state, CUjitInputType type, const char *path, unsigned int numOptions, "
        "CUjit_option *options, void **optionValues", 6050),
    DriverFunction("cuLinkComplete", "CUlinkState state, void **cubinOut, size_t *sizeOut", 5050),
    DriverFunction("cuLinkDestroy", "CUlinkState state", 5050),
    # Launches
    DriverFunction(
        "cuLaunchKernelEx",
        "const CUlaunchConfig *config, CUfunction f, void **kernelParams, void **extra", 11060, is_hot=True),
    DriverFunction(
        "cuLaunchKernel",
        "CUfunction f, unsigned int gridDimX, unsigned int gridDimY, unsigned int gridDimZ, "
        "unsigned int blockDimX, unsigned int blockDimY, unsigned int blockDimZ, "
        "unsigned int sharedMemBytes, CUstream hStream, void **kernelParams, void **extra", 4000),
    DriverFunction(
        "cuLaunchCooperativeKernel",
        "CUfunction f, unsigned int gridDimX, unsigned int gridDimY, unsigned int gridDimZ, "
        "unsigned int blockDimX, unsigned int blockDimY, unsigned int blockDimZ, "
        "unsigned int sharedMemBytes, CUstream hStream, void **kernelParams", 9000),
    DriverFunction(
        "cuOccupancyMaxActiveBlocksPerMultiprocessor",
        "int *numBlocks, CUfunction func, int blockSize, size_t dynamicSMemSize", 6050),
    DriverFunction(
        "cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags",
        "int *numBlocks, CUfunction func, int blockSize, size_t dynamicSMemSize, unsigned int flags", 7000),
    DriverFunction(
        "cuOccupancyMaxPotentialBlockSize",
        "int *minGridSize, int *blockSize, CUfunction func, CUoccupancyB2DSize blockSizeToDynamicSMemSize, "
        "size_t dynamicSMemSize, int blockSizeLimit", 6050),
    DriverFunction(
        "cuOccupancyMaxPotentialBlockSizeWithFlags",
        "int *minGridSize, int *blockSize, CUfunction func, CUoccupancyB2DSize blockSizeToDynamicSMemSize, "
        "size_t dynamicSMemSize, int blockSizeLimit, unsigned int flags", 7000),
    DriverFunction(
        "cuOccupancyAvailableDynamicSMemPerBlock",
        "size_t *dynamicSmemSize, CUfunction func, int numBlocks, int blockSize", 10020),
    DriverFunction(
        "cuOccupancyMaxPotentialClusterSize", "int *clusterSize, CUfunction func, const CUlaunchConfig *config", 11070),
    DriverFunction(
        "cuOccupancyMaxActiveClusters", "int *numClusters, CUfunction func, const CUlaunchConfig *config", 11070),
    # Tensor maps
    DriverFunction(
        "cuTensorMapEncodeTiled",
        "CUtensorMap *tensorMap, CUtensorMapDataType tensorDataType, cuuint32_t tensorRank, "
        "void *globalAddress, const cuuint64_t *globalDim, const cuuint64_t *globalStrides, "
        "const cuuint32_t *boxDim, const cuuint32_t *elementStrides, CUtensorMapInterleave interleave, "
        "CUtensorMapSwizzle swizzle, CUtensorMapL2promotion l2Promotion, CUtensorMapFloatOOBfill oobFill", 12000),
    DriverFunction(
        "cuTensorMapEncodeIm2col",
        "CUtensorMap *tensorMap, CUtensorMapDataType tensorDataType, cuuint32_t tensorRank, "
        "void *globalAddress, const cuuint64_t *globalDim, const cuuint64_t *globalStrides, "
        "const int *pixelBoxLowerCorner, const int *pixelBoxUpperCorner, cuuint32_t channelsPerPixel, "
        "cuuint32_t pixelsPerColumn, const cuuint32_t *elementStrides, CUtensorMapInterleave interleave, "
        "CUtensorMapSwizzle swizzle, CUtensorMapL2promotion l2Promotion, CUtensorMapFloatOOBfill oobFill", 12000),
    DriverFunction(
        "cuTensorMapEncodeIm2colWide",
        "CUtensorMap *tensorMap, CUtensorMapDataType tensorDataType, cuuint32_t tensorRank, "
        "void *globalAddress, const cuuint64_t *globalDim, const cuuint64_t *globalStrides, "
        "int pixelBoxLowerCornerWidth, int pixelBoxUpperCornerWidth, cuuint32_t channelsPerPixel, "
        "cuuint32_t pixelsPerColumn, const cuuint32_t *elementStrides, CUtensorMapInterleave interleave, "
        "CUtensorMapIm2ColWideMode mode, CUtensorMapSwizzle swizzle, CUtensorMapL2promotion l2Promotion, "
        "CUtensorMapFloatOOBfill oobFill", 12080),
    DriverFunction("cuTensorMapReplaceAddress", "CUtensorMap *tensorMap, void *globalAddress", 12000),
    # Stream capture
    DriverFunction("cuStreamBeginCapture_v2", "CUstream hStream, CUstreamCaptureMode mode", 10010),
    DriverFunction(
        "cuStreamBeginCaptureToGraph",
        "CUstream hStream, CUgraph hGraph, const CUgraphNode *dependencies, "
        "const CUgraphEdgeData *dependencyData, size_t numDependencies, CUstreamCaptureMode mode", 12030),
    DriverFunction("cuStreamEndCapture", "CUstream hStream, CUgraph *phGraph", 10000),
    DriverFunction("cuStreamIsCapturing", "CUstream hStream, CUstreamCaptureStatus *captureStatus", 10000),
    DriverFunction(
        "cuStreamGetCaptureInfo_v2",
        "CUstream hStream, CUstreamCaptureStatus *captureStatus_out, cuuint64_t *id_out, "
        "CUgraph *graph_out, const CUgraphNode **dependencies_out, size_t *numDependencies_out", 11030),
    DriverFunction(
        "cuStreamUpdateCaptureDependencies",
        "CUstream hStream, CUgraphNode *dependencies, size_t numDependencies, unsigned int flags", 11030),
    DriverFunction("cuThreadExchangeStreamCaptureMode", "CUstreamCaptureMode *mode", 10010),
    # Graphs
    DriverFunction("cuGraphCreate", "CUgraph *phGraph, unsigned int flags", 10000),
    DriverFunction("cuGraphDestroy", "CUgraph hGraph", 10000),
    DriverFunction("cuGraphClone", "CUgraph *phGraphClone, CUgraph originalGraph", 10000),
    DriverFunction("cuGraphDebugDotPrint", "CUgraph hGraph, const char *path, unsigned int flags", 11030),
    DriverFunction("cuGraphGetNodes", "CUgraph hGraph, CUgraphNode *nodes, size_t *numNodes", 10000),
    DriverFunction("cuGraphGetRootNodes", "CUgraph hGraph, CUgraphNode *rootNodes, size_t *numRootNodes", 10000),
    DriverFunction("cuGraphGetEdges", "CUgraph hGraph, CUgraphNode *from, CUgraphNode *to, size_t *numEdges", 10000),
    DriverFunction(
        "cuGraphAddDependencies",
        "CUgraph hGraph, const CUgraphNode *from, const CUgraphNode *to, size_t numDependencies", 10000),
    DriverFunction(
        "cuGraphRemoveDependencies",
        "CUgraph hGraph, const CUgraphNode *from, const CUgraphNode *to, size_t numDependencies", 10000),
    DriverFunction(
        "cuGraphAddKernelNode_v2",
        "CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies, "
        "size_t numDependencies, const CUDA_KERNEL_NODE_PARAMS *nodeParams", 12000),
    DriverFunction(
        "cuGraphAddMemcpyNode",
        "CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies, "
        "size_t numDependencies, const CUDA_MEMCPY3D *copyParams, CUcontext ctx", 10000),
    DriverFunction(
        "cuGraphAddMemsetNode",
        "CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies, "
        "size_t numDependencies, const CUDA_MEMSET_NODE_PARAMS *memsetParams, CUcontext ctx", 10000),
    DriverFunction(
        "cuGraphAddHostNode",
        "CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies, "
        "size_t numDependencies, const CUDA_HOST_NODE_PARAMS *nodeParams", 10000),
    DriverFunction(
        "cuGraphAddEmptyNode",
        "CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies, size_t numDependencies", 10000),
    DriverFunction(
        "cuGraphAddChildGraphNode",
        "CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies, "
        "size_t numDependencies, CUgraph childGraph", 10000),
    DriverFunction(
        "cuGraphAddEventRecordNode",
        "CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies, "
        "size_t numDependencies, CUevent event", 11010),
    DriverFunction(
        "cuGraphAddEventWaitNode",
        "CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies, "
        "size_t numDependencies, CUevent event", 11010),
    DriverFunction(
        "cuGraphAddMemAllocNode",
        "CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies, "
        "size_t numDependencies, CUDA_MEM_ALLOC_NODE_PARAMS *nodeParams", 11040),
    DriverFunction(
        "cuGraphAddMemFreeNode",
        "CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies, "
        "size_t numDependencies, CUdeviceptr dptr", 11040),
    DriverFunction(
        "cuGraphAddBatchMemOpNode",
        "CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies, "
        "size_t numDependencies, const CUDA_BATCH_MEM_OP_NODE_PARAMS *nodeParams", 11070),
    DriverFunction(
        "cuGraphAddNode_v2",
        "CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies, "
        "const CUgraphEdgeData *dependencyData, size_t numDependencies, CUgraphNodeParams *nodeParams", 12030),
    DriverFunction(
        "cuGraphConditionalHandleCreate",
        "CUgraphConditionalHandle *pHandle_out, CUgraph hGraph, CUcontext ctx, "
        "unsigned int defaultLaunchValue, unsigned int flags", 12030),
    DriverFunction(
        "cuGraphRetainUserObject", "CUgraph graph, CUuserObject object, unsigned int count, unsigned int flags", 11030),
    DriverFunction("cuGraphReleaseUserObject", "CUgraph graph, CUuserObject object, unsigned int count", 11030),
    DriverFunction(
        "cuUserObjectCreate",
        "CUuserObject *object_out, void *ptr, CUhostFn destroy, unsigned int initialRefcount, "
        "unsigned int flags", 11030),
    DriverFunction("cuUserObjectRetain", "CUuserObject object, unsigned int count", 11030),
    DriverFunction("cuUserObjectRelease", "CUuserObject object, unsigned int count", 11030),
    # Nodes of graphs
    DriverFunction("cuGraphNodeGetType", "CUgraphNode hNode, CUgraphNodeType *type", 10000),
    DriverFunction("cuGraphDestroyNode", "CUgraphNode hNode", 10000),
    DriverFunction(
        "cuGraphNodeGetDependencies", "CUgraphNode hNode, CUgraphNode *dependencies, size_t *numDependencies", 10000),
    DriverFunction(
        "cuGraphNodeGetDependentNodes",
        "CUgraphNode hNode, CUgraphNode *dependentNodes, size_t *numDependentNodes", 10000),
    DriverFunction(
        "cuGraphNodeFindInClone", "CUgraphNode *phNode, CUgraphNode hOriginalNode, CUgraph hClonedGraph", 10000),
    DriverFunction(
        "cuGraphNodeGetEnabled", "CUgraphExec hGraphExec, CUgraphNode hNode, unsigned int *isEnabled", 11060),
    DriverFunction("cuGraphNodeSetEnabled", "CUgraphExec hGraphExec, CUgraphNode hNode, unsigned int isEnabled", 11060),
    DriverFunction("cuGraphNodeSetParams", "CUgraphNode hNode, CUgraphNodeParams *nodeParams", 12020),
    DriverFunction("cuGraphKernelNodeGetParams_v2", "CUgraphNode hNode, CUDA_KERNEL_NODE_PARAMS *nodeParams", 12000),
    DriverFunction(
        "cuGraphKernelNodeSetParams_v2", "CUgraphNode hNode, const CUDA_KERNEL_NODE_PARAMS *nodeParams", 12000),
    DriverFunction("cuGraphKernelNodeCopyAttributes", "CUgraphNode dst, CUgraphNode src", 11000),
    DriverFunction(
        "cuGraphKernelNodeGetAttribute",
        "CUgraphNode hNode, CUkernelNodeAttrID attr, CUkernelNodeAttrValue *value_out", 11000),
    DriverFunction(
        "cuGraphKernelNodeSetAttribute",
        "CUgraphNode hNode, CUkernelNodeAttrID attr, const CUkernelNodeAttrValue *value", 11000),
    DriverFunction("cuGraphMemcpyNodeGetParams", "CUgraphNode hNode, CUDA_MEMCPY3D *nodeParams", 10000),
    DriverFunction("cuGraphMemcpyNodeSetParams", "CUgraphNode hNode, const CUDA_MEMCPY3D *nodeParams", 10000),
    DriverFunction("cuGraphMemsetNodeGetParams", "CUgraphNode hNode, CUDA_MEMSET_NODE_PARAMS *nodeParams", 10000),
    DriverFunction("cuGraphMemsetNodeSetParams", "CUgraphNode hNode, const CUDA_MEMSET_NODE_PARAMS *nodeParams", 10000),
    DriverFunction("cuGraphHostNodeGetParams", "CUgraphNode hNode, CUDA_HOST_NODE_PARAMS *nodeParams", 10000),
    DriverFunction("cuGraphHostNodeSetParams", "CUgraphNode hNode, const CUDA_HOST_NODE_PARAMS *nodeParams", 10000),
    DriverFunction("cuGraphChildGraphNodeGetGraph", "CUgraphNode hNode, CUgraph *phGraph", 10000),
    DriverFunction("cuGraphEventRecordNodeGetEvent", "CUgraphNode hNode, CUevent *event_out", 11010),
    DriverFunction("cuGraphEventRecordNodeSetEvent", "CUgraphNode hNode, CUevent event", 11010),
    DriverFunction("cuGraphEventWaitNodeGetEvent", "CUgraphNode hNode, CUevent *event_out", 11010),
    DriverFunction("cuGraphEventWaitNodeSetEvent", "CUgraphNode hNode, CUevent event", 11010),
    DriverFunction("cuGraphMemAllocNodeGetParams", "CUgraphNode hNode, CUDA_MEM_ALLOC_NODE_PARAMS *params_out", 11040),
    DriverFunction("cuGraphMemFreeNodeGetParams", "CUgraphNode hNode, CUdeviceptr *dptr_out", 11040),
    DriverFunction(
        "cuGraphBatchMemOpNodeGetParams", "CUgraphNode hNode, CUDA_BATCH_MEM_OP_NODE_PARAMS *nodeParams_out", 11070),
    DriverFunction(
        "cuGraphBatchMemOpNodeSetParams", "CUgraphNode hNode, const CUDA_BATCH_MEM_OP_NODE_PARAMS *nodeParams", 11070),
    # Executable graphs
    DriverFunction(
        "cuGraphInstantiateWithFlags", "CUgraphExec *phGraphExec, CUgraph hGraph, unsigned long long flags", 11040),
    DriverFunction(
        "cuGraphInstantiateWithParams",
        "CUgraphExec *phGraphExec, CUgraph hGraph, CUDA_GRAPH_INSTANTIATE_PARAMS *instantiateParams", 12000),
    DriverFunction("cuGraphUpload", "CUgraphExec hGraphExec, CUstream hStream", 11010),
    DriverFunction("cuGraphLaunch", "CUgraphExec hGraphExec, CUstream hStream", 10000),
    DriverFunction("cuGraphExecDestroy", "CUgraphExec hGraphExec", 10000),
    DriverFunction("cuGraphExecGetFlags", "CUgraphExec hGraphExec, cuuint64_t *flags", 12000),
    DriverFunction(
        "cuGraphExecUpdate_v2",
        "CUgraphExec hGraphExec, CUgraph hGraph, CUgraphExecUpdateResultInfo *resultInfo", 12000),
    DriverFunction(
        "cuGraphExecKernelNodeSetParams_v2",
        "CUgraphExec hGraphExec, CUgraphNode hNode, const CUDA_KERNEL_NODE_PARAMS *nodeParams", 12000),
    DriverFunction(
        "cuGraphExecMemcpyNodeSetParams",
        "CUgraphExec hGraphExec, CUgraphNode hNode, const CUDA_MEMCPY3D *copyParams, CUcontext ctx", 10020),
    DriverFunction(
        "cuGraphExecMemsetNodeSetParams",
        "CUgraphExec hGraphExec, CUgraphNode hNode, const CUDA_MEMSET_NODE_PARAMS *memsetParams, "
        "CUcontext ctx", 10020),
    DriverFunction(
        "cuGraphExecHostNodeSetParams",
        "CUgraphExec hGraphExec, CUgraphNode hNode, const CUDA_HOST_NODE_PARAMS *nodeParams", 10020),
    DriverFunction(
        "cuGraphExecChildGraphNodeSetParams", "CUgraphExec hGraphExec, CUgraphNode hNode, CUgraph childGraph", 11010),
    DriverFunction(
        "cuGraphExecEventRecordNodeSetEvent", "CUgraphExec hGraphExec, CUgraphNode hNode, CUevent event", 11010),
    DriverFunction(
        "cuGraphExecEventWaitNodeSetEvent", "CUgraphExec hGraphExec, CUgraphNode hNode, CUevent event", 11010),
    DriverFunction(
        "cuGraphExecBatchMemOpNodeSetParams",
        "CUgraphExec hGraphExec, CUgraphNode hNode, const CUDA_BATCH_MEM_OP_NODE_PARAMS *nodeParams", 11070),
    DriverFunction(
        "cuGraphExecNodeSetParams", "CUgraphExec hGraphExec, CUgraphNode hNode, CUgraphNodeParams *nodeParams", 12020),
    # Diagnostics
    DriverFunction("cuProfilerStart", "void", 4000),
    DriverFunction("cuProfilerStop", "void", 4000),
    DriverFunction("cuCoredumpGetAttribute", "CUcoredumpSettings attrib, void *value, size_t *size", 12010),
    DriverFunction("cuCoredumpGetAttributeGlobal", "CUcoredumpSettings attrib, void *value, size_t *size", 12010),
    DriverFunction("cuCoredumpSetAttribute", "CUcoredumpSettings attrib, void *value, size_t *size", 12010),
    DriverFunction("cuCoredumpSetAttributeGlobal", "CUcoredumpSettings attrib, void *value, size_t *size", 12010),
    DriverFunction(
        "cuLogsRegisterCallback",
        "CUlogsCallback callbackFunc, void *userData, CUlogsCallbackHandle *callback_out", 12090),
    DriverFunction("cuLogsUnregisterCallback", "CUlogsCallbackHandle callback", 12090),
    DriverFunction("cuLogsCurrent", "CUlogIterator *iterator_out, unsigned int flags", 12090),
    DriverFunction("cuLogsDumpToFile", "CUlogIterator *iterator, const char *pathToFile, unsigned int flags", 12090),
    DriverFunction(
        "cuLogsDumpToMemory", "CUlogIterator *iterator, char *buffer, size_t *size, unsigned int flags", 12090),
)
# fmt: on

FUNCTIONS = {row.name: row for row in _ROWS}


class IpcHandle(ctypes.Structure):
    """CUipcMemHandle and CUipcEventHandle: what another process opens; the only structures passed by value."""

    _fields_ = (("reserved", ctypes.c_char * 64),)


CType: TypeAlias = "type[ctypes._SimpleCData[Any] | ctypes.Structure]"

_HANDLES = (
    "CUcontext CUstream CUevent CUmodule CUfunction CUlibrary CUkernel CUlinkState CUgraph CUgraphNode CUgraphExec "
    "CUuserObject CUmemoryPool CUgreenCtx CUdevResourceDesc CUasyncCallbackHandle CUlogsCallbackHandle "
    # and functions that the driver calls
    "CUhostFn CUstreamCallback CUasyncCallback CUlogsCallback CUoccupancyB2DSize"
)
_ENUMS = (
    "CUresult CUdevice_attribute CUdevice_P2PAttribute CUdevResourceType CUexecAffinityType CUarray_format CUlimit "
    "CUfunc_cache CUfunction_attribute CUpointer_attribute CUjitInputType CUmem_advise CUmem_range_attribute "
    "CUmemPool_attribute CUmemAllocationType CUmemAllocationHandleType CUmemAllocationGranularity_flags "
    "CUmemRangeHandleType CUmulticastGranularity_flags CUgraphMem_attribute CUstreamCaptureMode CUstreamAttrID "
    "CUkernelNodeAttrID CUcoredumpSettings CUflushGPUDirectRDMAWritesScope CUflushGPUDirectRDMAWritesTarget "
    "CUtensorMapDataType CUtensorMapInterleave CUtensorMapSwizzle CUtensorMapL2promotion CUtensorMapFloatOOBfill "
    "CUtensorMapIm2ColWideMode"
)
_C_TYPES: dict[str, CType] = {
    "int": ctypes.c_int,
    "unsigned": ctypes.c_uint,
    "unsigned char": ctypes.c_ubyte,
    "unsigned short": ctypes.c_ushort,
    "unsigned int": ctypes.c_uint,
    "unsigned long long": ctypes.c_ulonglong,
    "cuuint32_t": ctypes.c_uint32,
    "cuuint64_t": ctypes.c_uint64,
    "size_t": ctypes.c_size_t,
    "CUdevice": ctypes.c_int,
    "CUdeviceptr": ctypes.c_uint64,
    "CUmemGenericAllocationHandle": ctypes.c_uint64,
    "CUipcMemHandle": IpcHandle,
    "CUipcEventHandle": IpcHandle,
    **dict.fromkeys(_HANDLES.split(), ctypes.c_void_p),
    **dict.fromkeys(_ENUMS.split(), ctypes.c_int),
}


def argument_types(row: DriverFunction) -> list[CType]:
    """Return the ctypes of a function's parameters: every pointer is a `c_void_p`, so a plain int will do for it.

    Text is the exception: `const char *` takes bytes.
    """
    if row.parameters == "void":
        return []
    found: list[CType] = []
    for parameter in row.parameters.split(","):
        type_text, _, name = parameter.strip().rpartition(" ")
        is_text = type_text == "const char" and not name.startswith("**")
        found.append((ctypes.c_char_p if is_text else ctypes.c_void_p) if "*" in name else _C_TYPES[type_text])
    return found

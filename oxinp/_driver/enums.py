"""The driver's enumerations, under the names of cuda.h without their prefixes.

Plain numbers: a class is a name space, its `prefix` is what the header puts before each name. The tests hold every one
against the header's.
"""

from __future__ import annotations

from typing import ClassVar

__all__ = [
    "AccessFlag",
    "AccessProperty",
    "Advice",
    "AllocationType",
    "AttachFlag",
    "CaptureMode",
    "CaptureStatus",
    "ComputeMode",
    "ContextFlag",
    "DeviceAttribute",
    "EventFlag",
    "FunctionAttribute",
    "GranularityFlag",
    "GraphDependencyType",
    "GraphDotFlag",
    "GraphInstantiateFlag",
    "GraphMemoryAttribute",
    "GraphNodeType",
    "GraphUpdateResult",
    "GreenContextFlag",
    "HandleType",
    "HostMemoryFlag",
    "HostRegisterFlag",
    "IpcFlag",
    "JitInput",
    "JitOption",
    "LaunchAttributeId",
    "Limit",
    "LocationType",
    "MemoryType",
    "P2PAttribute",
    "PointerAttribute",
    "PoolAttribute",
    "RangeAttribute",
    "ResourceType",
    "StreamFlag",
]


class DeviceAttribute:
    """A property of a device (CUdevice_attribute)."""

    prefix: ClassVar = "CU_DEVICE_ATTRIBUTE_"

    MAX_THREADS_PER_BLOCK = 1
    MAX_BLOCK_DIM_X = 2
    MAX_BLOCK_DIM_Y = 3
    MAX_BLOCK_DIM_Z = 4
    MAX_GRID_DIM_X = 5
    MAX_GRID_DIM_Y = 6
    MAX_GRID_DIM_Z = 7
    MAX_SHARED_MEMORY_PER_BLOCK = 8
    TOTAL_CONSTANT_MEMORY = 9
    WARP_SIZE = 10
    MAX_PITCH = 11
    MAX_REGISTERS_PER_BLOCK = 12
    CLOCK_RATE = 13
    MULTIPROCESSOR_COUNT = 16
    KERNEL_EXEC_TIMEOUT = 17
    INTEGRATED = 18
    CAN_MAP_HOST_MEMORY = 19
    COMPUTE_MODE = 20
    CONCURRENT_KERNELS = 31
    ECC_ENABLED = 32
    PCI_BUS_ID = 33
    PCI_DEVICE_ID = 34
    TCC_DRIVER = 35
    MEMORY_CLOCK_RATE = 36
    GLOBAL_MEMORY_BUS_WIDTH = 37
    L2_CACHE_SIZE = 38
    MAX_THREADS_PER_MULTIPROCESSOR = 39
    ASYNC_ENGINE_COUNT = 40
    UNIFIED_ADDRESSING = 41
    PCI_DOMAIN_ID = 50
    COMPUTE_CAPABILITY_MAJOR = 75
    COMPUTE_CAPABILITY_MINOR = 76
    STREAM_PRIORITIES_SUPPORTED = 78
    GLOBAL_L1_CACHE_SUPPORTED = 79
    LOCAL_L1_CACHE_SUPPORTED = 80
    MAX_SHARED_MEMORY_PER_MULTIPROCESSOR = 81
    MAX_REGISTERS_PER_MULTIPROCESSOR = 82
    MANAGED_MEMORY = 83
    MULTI_GPU_BOARD = 84
    MULTI_GPU_BOARD_GROUP_ID = 85
    HOST_NATIVE_ATOMIC_SUPPORTED = 86
    SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO = 87
    PAGEABLE_MEMORY_ACCESS = 88
    CONCURRENT_MANAGED_ACCESS = 89
    COMPUTE_PREEMPTION_SUPPORTED = 90
    CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM = 91
    COOPERATIVE_LAUNCH = 95
    COOPERATIVE_MULTI_DEVICE_LAUNCH = 96
    MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97
    CAN_FLUSH_REMOTE_WRITES = 98
    HOST_REGISTER_SUPPORTED = 99
    PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES = 100
    DIRECT_MANAGED_MEM_ACCESS_FROM_HOST = 101
    VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED = 102
    HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED = 103
    HANDLE_TYPE_WIN32_HANDLE_SUPPORTED = 104
    HANDLE_TYPE_WIN32_KMT_HANDLE_SUPPORTED = 105
    MAX_BLOCKS_PER_MULTIPROCESSOR = 106
    GENERIC_COMPRESSION_SUPPORTED = 107
    MAX_PERSISTING_L2_CACHE_SIZE = 108
    MAX_ACCESS_POLICY_WINDOW_SIZE = 109
    GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED = 110
    RESERVED_SHARED_MEMORY_PER_BLOCK = 111
    READ_ONLY_HOST_REGISTER_SUPPORTED = 113
    MEMORY_POOLS_SUPPORTED = 115
    GPU_DIRECT_RDMA_SUPPORTED = 116
    GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS = 117
    GPU_DIRECT_RDMA_WRITES_ORDERING = 118
    MEMPOOL_SUPPORTED_HANDLE_TYPES = 119
    CLUSTER_LAUNCH = 120
    CAN_USE_64_BIT_STREAM_MEM_OPS = 122
    CAN_USE_STREAM_WAIT_VALUE_NOR = 123
    DMA_BUF_SUPPORTED = 124
    IPC_EVENT_SUPPORTED = 125
    MEM_SYNC_DOMAIN_COUNT = 126
    TENSOR_MAP_ACCESS_SUPPORTED = 127
    HANDLE_TYPE_FABRIC_SUPPORTED = 128
    UNIFIED_FUNCTION_POINTERS = 129
    NUMA_CONFIG = 130
    NUMA_ID = 131
    MULTICAST_SUPPORTED = 132
    MPS_ENABLED = 133
    HOST_NUMA_ID = 134
    GPU_PCI_DEVICE_ID = 139
    GPU_PCI_SUBSYSTEM_ID = 140
    HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED = 141
    HOST_NUMA_MEMORY_POOLS_SUPPORTED = 142
    HOST_NUMA_MULTINODE_IPC_SUPPORTED = 143
    HOST_MEMORY_POOLS_SUPPORTED = 144
    HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED = 145
    HOST_ALLOC_DMA_BUF_SUPPORTED = 146
    ONLY_PARTIAL_HOST_NATIVE_ATOMIC_SUPPORTED = 147
    ATOMIC_REDUCTION_SUPPORTED = 148


class P2PAttribute:
    """A property of a pair of devices (CUdevice_P2PAttribute)."""

    prefix: ClassVar = "CU_DEVICE_P2P_ATTRIBUTE_"

    PERFORMANCE_RANK = 1
    ACCESS_SUPPORTED = 2
    NATIVE_ATOMIC_SUPPORTED = 3
    ONLY_PARTIAL_NATIVE_ATOMIC_SUPPORTED = 5


class ComputeMode:
    """Who may use a device (CUcomputemode)."""

    prefix: ClassVar = "CU_COMPUTEMODE_"

    DEFAULT = 0
    PROHIBITED = 2
    EXCLUSIVE_PROCESS = 3


class ContextFlag:
    """How a context waits (CUctx_flags)."""

    prefix: ClassVar = "CU_CTX_"

    SCHED_AUTO = 0
    SCHED_SPIN = 1
    SCHED_YIELD = 2
    SCHED_BLOCKING_SYNC = 4
    MAP_HOST = 8
    COREDUMP_ENABLE = 32
    USER_COREDUMP_ENABLE = 64
    SYNC_MEMOPS = 128


class Limit:
    """A limit of a context (CUlimit)."""

    prefix: ClassVar = "CU_LIMIT_"

    STACK_SIZE = 0
    PRINTF_FIFO_SIZE = 1
    MALLOC_HEAP_SIZE = 2
    DEV_RUNTIME_SYNC_DEPTH = 3
    DEV_RUNTIME_PENDING_LAUNCH_COUNT = 4
    MAX_L2_FETCH_GRANULARITY = 5
    PERSISTING_L2_CACHE_SIZE = 6


class StreamFlag:
    """What a stream waits for (CUstream_flags)."""

    prefix: ClassVar = "CU_STREAM_"

    DEFAULT = 0
    NON_BLOCKING = 1


class EventFlag:
    """What an event can do (CUevent_flags)."""

    prefix: ClassVar = "CU_EVENT_"

    DEFAULT = 0
    BLOCKING_SYNC = 1
    DISABLE_TIMING = 2
    INTERPROCESS = 4


class FunctionAttribute:
    """A property of a kernel (CUfunction_attribute)."""

    prefix: ClassVar = "CU_FUNC_ATTRIBUTE_"

    MAX_THREADS_PER_BLOCK = 0
    SHARED_SIZE_BYTES = 1
    CONST_SIZE_BYTES = 2
    LOCAL_SIZE_BYTES = 3
    NUM_REGS = 4
    PTX_VERSION = 5
    BINARY_VERSION = 6
    MAX_DYNAMIC_SHARED_SIZE_BYTES = 8
    PREFERRED_SHARED_MEMORY_CARVEOUT = 9
    CLUSTER_SIZE_MUST_BE_SET = 10
    REQUIRED_CLUSTER_WIDTH = 11
    REQUIRED_CLUSTER_HEIGHT = 12
    REQUIRED_CLUSTER_DEPTH = 13
    NON_PORTABLE_CLUSTER_SIZE_ALLOWED = 14
    CLUSTER_SCHEDULING_POLICY_PREFERENCE = 15
    DEVICE_NODE_UPDATE_SUPPORTED = 16
    SHARED_MEMORY_MODE = 17


class JitOption:
    """An option of the compiler or the linker (CUjit_option)."""

    prefix: ClassVar = "CU_JIT_"

    MAX_REGISTERS = 0
    THREADS_PER_BLOCK = 1
    WALL_TIME = 2
    INFO_LOG_BUFFER = 3
    INFO_LOG_BUFFER_SIZE_BYTES = 4
    ERROR_LOG_BUFFER = 5
    ERROR_LOG_BUFFER_SIZE_BYTES = 6
    OPTIMIZATION_LEVEL = 7
    TARGET_FROM_CUCONTEXT = 8
    TARGET = 9
    FALLBACK_STRATEGY = 10
    GENERATE_DEBUG_INFO = 11
    LOG_VERBOSE = 12
    GENERATE_LINE_INFO = 13
    CACHE_MODE = 14
    FAST_COMPILE = 16
    LTO = 20
    POSITION_INDEPENDENT_CODE = 30
    MIN_CTA_PER_SM = 31
    MAX_THREADS_PER_BLOCK = 32
    OVERRIDE_DIRECTIVE_VALUES = 33
    SPLIT_COMPILE = 34
    BINARY_LOADER_THREAD_COUNT = 35


class IpcFlag:
    """How memory of another process is opened (CUipcMem_flags)."""

    prefix: ClassVar = "CU_IPC_MEM_"

    LAZY_ENABLE_PEER_ACCESS = 1


class JitInput:
    """What the linker is given (CUjitInputType)."""

    prefix: ClassVar = "CU_JIT_INPUT_"

    CUBIN = 0
    PTX = 1
    FATBINARY = 2
    OBJECT = 3
    LIBRARY = 4
    NVVM = 5


class LaunchAttributeId:
    """An attribute of a launch (CUlaunchAttributeID)."""

    prefix: ClassVar = "CU_LAUNCH_ATTRIBUTE_"

    IGNORE = 0
    ACCESS_POLICY_WINDOW = 1
    COOPERATIVE = 2
    SYNCHRONIZATION_POLICY = 3
    CLUSTER_DIMENSION = 4
    CLUSTER_SCHEDULING_POLICY_PREFERENCE = 5
    PROGRAMMATIC_STREAM_SERIALIZATION = 6
    PROGRAMMATIC_EVENT = 7
    PRIORITY = 8
    MEM_SYNC_DOMAIN_MAP = 9
    MEM_SYNC_DOMAIN = 10
    PREFERRED_CLUSTER_DIMENSION = 11
    LAUNCH_COMPLETION_EVENT = 12
    DEVICE_UPDATABLE_KERNEL_NODE = 13
    PREFERRED_SHARED_MEMORY_CARVEOUT = 14


class MemoryType:
    """Which memory an address is in (CUmemorytype)."""

    prefix: ClassVar = "CU_MEMORYTYPE_"

    HOST = 1
    DEVICE = 2
    ARRAY = 3
    UNIFIED = 4


class PointerAttribute:
    """A property of an address (CUpointer_attribute)."""

    prefix: ClassVar = "CU_POINTER_ATTRIBUTE_"

    CONTEXT = 1
    MEMORY_TYPE = 2
    DEVICE_POINTER = 3
    HOST_POINTER = 4
    P2P_TOKENS = 5
    SYNC_MEMOPS = 6
    BUFFER_ID = 7
    IS_MANAGED = 8
    DEVICE_ORDINAL = 9
    IS_LEGACY_CUDA_IPC_CAPABLE = 10
    RANGE_START_ADDR = 11
    RANGE_SIZE = 12
    MAPPED = 13
    ALLOWED_HANDLE_TYPES = 14
    IS_GPU_DIRECT_RDMA_CAPABLE = 15
    ACCESS_FLAGS = 16
    MEMPOOL_HANDLE = 17
    MAPPING_SIZE = 18
    MAPPING_BASE_ADDR = 19
    MEMORY_BLOCK_ID = 20
    IS_HW_DECOMPRESS_CAPABLE = 21


class HostMemoryFlag:
    """What pinned memory can do."""

    prefix: ClassVar = "CU_MEMHOSTALLOC_"

    PORTABLE = 1
    DEVICEMAP = 2
    WRITECOMBINED = 4


class HostRegisterFlag:
    """What memory that is pinned later can do."""

    prefix: ClassVar = "CU_MEMHOSTREGISTER_"

    PORTABLE = 1
    DEVICEMAP = 2
    IOMEMORY = 4
    READ_ONLY = 8


class AttachFlag:
    """Who may touch managed memory (CUmemAttach_flags)."""

    prefix: ClassVar = "CU_MEM_ATTACH_"

    GLOBAL = 1
    HOST = 2
    SINGLE = 4


class Advice:
    """A hint about managed memory (CUmem_advise)."""

    prefix: ClassVar = "CU_MEM_ADVISE_"

    SET_READ_MOSTLY = 1
    UNSET_READ_MOSTLY = 2
    SET_PREFERRED_LOCATION = 3
    UNSET_PREFERRED_LOCATION = 4
    SET_ACCESSED_BY = 5
    UNSET_ACCESSED_BY = 6


class RangeAttribute:
    """A property of managed memory (CUmem_range_attribute)."""

    prefix: ClassVar = "CU_MEM_RANGE_ATTRIBUTE_"

    READ_MOSTLY = 1
    PREFERRED_LOCATION = 2
    ACCESSED_BY = 3
    LAST_PREFETCH_LOCATION = 4


class ResourceType:
    """What part of a device is meant (CUdevResourceType)."""

    prefix: ClassVar = "CU_DEV_RESOURCE_TYPE_"

    INVALID = 0
    SM = 1


class LocationType:
    """Where memory is (CUmemLocationType)."""

    prefix: ClassVar = "CU_MEM_LOCATION_TYPE_"

    INVALID = 0
    DEVICE = 1
    HOST = 2
    HOST_NUMA = 3
    HOST_NUMA_CURRENT = 4


class AllocationType:
    """How memory is held (CUmemAllocationType)."""

    prefix: ClassVar = "CU_MEM_ALLOCATION_TYPE_"

    INVALID = 0
    PINNED = 1
    MANAGED = 2


class GreenContextFlag:
    """What a green context has (CUgreenCtxCreate_flags)."""

    prefix: ClassVar = "CU_GREEN_CTX_"

    DEFAULT_STREAM = 1


class HandleType:
    """How memory is given to another process (CUmemAllocationHandleType)."""

    prefix: ClassVar = "CU_MEM_HANDLE_TYPE_"

    NONE = 0
    POSIX_FILE_DESCRIPTOR = 1
    WIN32 = 2
    WIN32_KMT = 4
    FABRIC = 8


class AccessFlag:
    """What a device may do with memory (CUmemAccess_flags)."""

    prefix: ClassVar = "CU_MEM_ACCESS_FLAGS_PROT_"

    NONE = 0
    READ = 1
    READWRITE = 3


class GranularityFlag:
    """Which unit of mapped memory is asked for (CUmemAllocationGranularity_flags)."""

    prefix: ClassVar = "CU_MEM_ALLOC_GRANULARITY_"

    MINIMUM = 0
    RECOMMENDED = 1


class PoolAttribute:
    """A setting or a count of a memory pool (CUmemPool_attribute)."""

    prefix: ClassVar = "CU_MEMPOOL_ATTR_"

    REUSE_FOLLOW_EVENT_DEPENDENCIES = 1
    REUSE_ALLOW_OPPORTUNISTIC = 2
    REUSE_ALLOW_INTERNAL_DEPENDENCIES = 3
    RELEASE_THRESHOLD = 4
    RESERVED_MEM_CURRENT = 5
    RESERVED_MEM_HIGH = 6
    USED_MEM_CURRENT = 7
    USED_MEM_HIGH = 8
    MAX_POOL_SIZE = 13


class GraphMemoryAttribute:
    """A count of the memory that graphs hold (CUgraphMem_attribute)."""

    prefix: ClassVar = "CU_GRAPH_MEM_ATTR_"

    USED_MEM_CURRENT = 0
    USED_MEM_HIGH = 1
    RESERVED_MEM_CURRENT = 2
    RESERVED_MEM_HIGH = 3


class CaptureMode:
    """Which calls a capture forbids to whom (CUstreamCaptureMode)."""

    prefix: ClassVar = "CU_STREAM_CAPTURE_MODE_"

    GLOBAL = 0
    THREAD_LOCAL = 1
    RELAXED = 2


class CaptureStatus:
    """Whether a stream captures (CUstreamCaptureStatus)."""

    prefix: ClassVar = "CU_STREAM_CAPTURE_STATUS_"

    NONE = 0
    ACTIVE = 1
    INVALIDATED = 2


class GraphNodeType:
    """What a node of a graph does (CUgraphNodeType)."""

    prefix: ClassVar = "CU_GRAPH_NODE_TYPE_"

    KERNEL = 0
    MEMCPY = 1
    MEMSET = 2
    HOST = 3
    GRAPH = 4
    EMPTY = 5
    WAIT_EVENT = 6
    EVENT_RECORD = 7
    MEM_ALLOC = 10
    MEM_FREE = 11
    BATCH_MEM_OP = 12
    CONDITIONAL = 13
    MEMCPY_BATCH = 14


class GraphDependencyType:
    """How a node waits for another (CUgraphDependencyType)."""

    prefix: ClassVar = "CU_GRAPH_DEPENDENCY_TYPE_"

    DEFAULT = 0
    PROGRAMMATIC = 1


class GraphDotFlag:
    """What a drawing of a graph shows (CUgraphDebugDot_flags)."""

    prefix: ClassVar = "CU_GRAPH_DEBUG_DOT_FLAGS_"

    VERBOSE = 1
    RUNTIME_TYPES = 2
    KERNEL_NODE_PARAMS = 4
    MEMCPY_NODE_PARAMS = 8
    MEMSET_NODE_PARAMS = 16
    HOST_NODE_PARAMS = 32
    EVENT_NODE_PARAMS = 64
    KERNEL_NODE_ATTRIBUTES = 512
    HANDLES = 1024
    MEM_ALLOC_NODE_PARAMS = 2048
    MEM_FREE_NODE_PARAMS = 4096
    BATCH_MEM_OP_NODE_PARAMS = 8192
    EXTRA_TOPO_INFO = 16384
    CONDITIONAL_NODE_PARAMS = 32768
    MEMCPY_BATCH_NODE_PARAMS = 65536


class GraphInstantiateFlag:
    """How a graph is made executable (CUgraphInstantiate_flags)."""

    prefix: ClassVar = "CUDA_GRAPH_INSTANTIATE_FLAG_"

    AUTO_FREE_ON_LAUNCH = 1
    UPLOAD = 2
    DEVICE_LAUNCH = 4
    USE_NODE_PRIORITY = 8


class GraphUpdateResult:
    """Why an executable graph cannot take another's parameters (CUgraphExecUpdateResult)."""

    prefix: ClassVar = "CU_GRAPH_EXEC_UPDATE_"

    SUCCESS = 0
    ERROR = 1
    ERROR_TOPOLOGY_CHANGED = 2
    ERROR_NODE_TYPE_CHANGED = 3
    ERROR_FUNCTION_CHANGED = 4
    ERROR_PARAMETERS_CHANGED = 5
    ERROR_NOT_SUPPORTED = 6
    ERROR_UNSUPPORTED_FUNCTION_CHANGE = 7
    ERROR_ATTRIBUTES_CHANGED = 8


class AccessProperty:
    """How long the second-level cache keeps what is read (CUaccessProperty)."""

    prefix: ClassVar = "CU_ACCESS_PROPERTY_"

    NORMAL = 0
    STREAMING = 1
    PERSISTING = 2

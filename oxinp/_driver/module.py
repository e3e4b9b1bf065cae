"""Modules, which hold the code of kernels, and the functions in them."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING
from weakref import WeakSet

from oxinp._driver import errors
from oxinp._driver.enums import FunctionAttribute
from oxinp._driver.handle import Handle
from oxinp._driver.jit import JitOptions

if TYPE_CHECKING:
    from oxinp._driver.context import Context

__all__ = ["ATTRIBUTES", "Function", "Module"]

ATTRIBUTES = {
    "max_threads_per_block": FunctionAttribute.MAX_THREADS_PER_BLOCK,
    "static_shared_nbytes": FunctionAttribute.SHARED_SIZE_BYTES,
    "constant_nbytes": FunctionAttribute.CONST_SIZE_BYTES,
    "local_nbytes": FunctionAttribute.LOCAL_SIZE_BYTES,  # per thread; spilled registers among them
    "num_registers": FunctionAttribute.NUM_REGS,
    "ptx_version": FunctionAttribute.PTX_VERSION,
    "binary_version": FunctionAttribute.BINARY_VERSION,
    "needs_cluster": FunctionAttribute.CLUSTER_SIZE_MUST_BE_SET,
    "required_cluster_x": FunctionAttribute.REQUIRED_CLUSTER_WIDTH,
    "required_cluster_y": FunctionAttribute.REQUIRED_CLUSTER_HEIGHT,
    "required_cluster_z": FunctionAttribute.REQUIRED_CLUSTER_DEPTH,
    # These can be set:
    "max_dynamic_shared_nbytes": FunctionAttribute.MAX_DYNAMIC_SHARED_SIZE_BYTES,
    "preferred_shared_carveout": FunctionAttribute.PREFERRED_SHARED_MEMORY_CARVEOUT,
    "allows_nonportable_cluster": FunctionAttribute.NON_PORTABLE_CLUSTER_SIZE_ALLOWED,
}
"""Numbers of the CU_FUNC_ATTRIBUTE_* that `Function` knows, by the names used here."""


class Module(Handle):
    """Code loaded into a context.

    Made by `from_ptx` or `from_cubin`. `close` unloads it as soon as no `Function` of it is left.

    Attributes
    ----------
    context : Context
    log : str
        What the compiler said; empty for a cubin.
    """

    __slots__ = ("_functions", "_is_retired", "context", "log")

    destroyer = "cuModuleUnload"

    def __init__(self, context: Context, handle: int, log: str) -> None:
        super().__init__(context.driver, handle)
        self.context = context
        self.log = log
        self._functions: WeakSet[Function] = WeakSet()
        self._is_retired = False

    @classmethod
    def from_ptx(cls, context: Context, ptx: str, *, is_verbose: bool = False) -> Module:
        """Compile PTX with the driver's compiler and load it.

        Parameters
        ----------
        context : Context
        ptx : str
        is_verbose : bool
            Whether the log names registers, spills and shared memory per kernel.

        Raises
        ------
        CompileError
            It does not compile; the message and `log` hold what the compiler said.
        DriverTooOld
            It is written in a newer PTX than the driver knows.
        """
        return cls._load(context, ptx.encode(), is_verbose=is_verbose)

    @classmethod
    def from_cubin(cls, context: Context, cubin: bytes) -> Module:
        """Load machine code made for this device.

        Raises
        ------
        CompileError
            It is damaged, or for another compute capability.
        """
        return cls._load(context, cubin, is_verbose=False)

    @classmethod
    def _load(cls, context: Context, image: bytes, *, is_verbose: bool) -> Module:
        options = JitOptions(is_verbose=is_verbose)
        handle = ctypes.c_void_p()
        with options.reporting():
            # The bytes themselves, not a copy; Python ends them with the NUL that PTX must have.
            address = ctypes.cast(ctypes.c_char_p(image), ctypes.c_void_p)
            context.driver.cuModuleLoadDataEx(ctypes.byref(handle), address, *options.arguments)
        return cls(context, handle.value or 0, options.info_log)

    def function(self, name: str) -> Function:
        """Return a kernel of the module.

        Raises
        ------
        NotFound
            It has none of that name.
        """
        if self._is_retired:
            raise errors.InvalidHandle("this Module is closed: take functions from it before")
        function = Function(self, name)
        self._functions.add(function)
        return function

    def names(self) -> list[str]:
        """Return the names of its kernels.

        Raises
        ------
        DriverTooOld
            The driver is older than CUDA 12.4.
        """
        count = ctypes.c_uint()
        self.driver.cuModuleGetFunctionCount(ctypes.byref(count), self.handle)
        functions = (ctypes.c_void_p * count.value)()
        self.driver.cuModuleEnumerateFunctions(functions, count.value, self.handle)
        found = []
        for function in functions:
            text = ctypes.c_char_p()
            self.driver.cuFuncGetName(ctypes.byref(text), function)
            found.append((text.value or b"").decode())
        return found

    def variable(self, name: str) -> tuple[int, int]:
        """Return the address and the size of a variable in device memory.

        Raises
        ------
        NotFound
            It has none of that name.
        """
        ptr, nbytes = ctypes.c_uint64(), ctypes.c_size_t()
        self.driver.cuModuleGetGlobal_v2(ctypes.byref(ptr), ctypes.byref(nbytes), self.handle, name.encode())
        return ptr.value, nbytes.value

    def close(self) -> None:
        """Unload the code; where functions of it are still held, when the last of them goes."""
        # A launcher calls with the function's handle and checks nothing: it must stay valid.
        self._is_retired = True
        if not self._functions:
            super().close()


class Function:
    """A kernel, as long as this object lives: it holds its module.

    Attributes
    ----------
    module : Module
    name : str
    handle : int
    """

    __slots__ = ("__weakref__", "_dynamic_shared_nbytes", "driver", "handle", "module", "name")

    def __init__(self, module: Module, name: str) -> None:
        self.module = module
        self.driver = module.driver
        self.name = name
        handle = ctypes.c_void_p()
        self.driver.cuModuleGetFunction(ctypes.byref(handle), module.handle, name.encode())
        self.handle = handle.value or 0
        self._dynamic_shared_nbytes = 0

    def attribute(self, name: str) -> int:
        """Return one of `ATTRIBUTES`."""
        value = ctypes.c_int()
        self.driver.cuFuncGetAttribute(ctypes.byref(value), ATTRIBUTES[name], self.handle)
        return value.value

    def set_attribute(self, name: str, value: int) -> None:
        """Set one of `ATTRIBUTES`; only the last three can be."""
        self.driver.cuFuncSetAttribute(self.handle, ATTRIBUTES[name], value)

    def reserve_dynamic_shared(self, nbytes: int) -> None:
        """Let launches ask for that much dynamic shared memory; what was reserved before stays.

        Raises
        ------
        InvalidValue
            With the static shared memory it is more than a block may have.
        """
        # Without asking, 48 KiB are granted, less what is static: so ask whenever it grows.
        if nbytes > self._dynamic_shared_nbytes:
            self.set_attribute("max_dynamic_shared_nbytes", nbytes)
            self._dynamic_shared_nbytes = nbytes

    def __repr__(self) -> str:
        return f"<Function {self.name}>"

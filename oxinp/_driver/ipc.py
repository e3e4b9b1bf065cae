"""Memory and events that several processes use: what one exports as bytes, another one opens.

Only memory of cuMemAlloc can be exported, all of an allocation at once, and only by the process that allocated it; the
importing one must have given it back before it is freed.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

from oxinp._driver.api import IpcHandle
from oxinp._driver.enums import EventFlag, IpcFlag
from oxinp._driver.event import Event
from oxinp._driver.handle import Handle

if TYPE_CHECKING:
    from oxinp._driver.context import Context

__all__ = ["ExportedMemory", "ImportedMemory", "SharedEvent"]


class ExportedMemory(Handle):
    """Memory of a device that other processes can open.

    Parameters
    ----------
    context : Context
    nbytes : int
        At least 1.

    Attributes
    ----------
    ptr, nbytes : int
    token : bytes
        What `ImportedMemory` takes in another process.
    """

    __slots__ = ("nbytes", "token")

    destroyer = "cuMemFree_v2"

    def __init__(self, context: Context, nbytes: int) -> None:
        ptr = ctypes.c_uint64()
        context.driver.cuMemAlloc_v2(ctypes.byref(ptr), nbytes)
        super().__init__(context.driver, ptr.value)
        self.nbytes = nbytes
        exported = IpcHandle()
        context.driver.cuIpcGetMemHandle(ctypes.byref(exported), self.handle)
        self.token = bytes(exported)

    @property
    def ptr(self) -> int:
        """Device address."""
        return self.handle


class ImportedMemory(Handle):
    """Memory that another process exports, at an address of this one.

    Parameters
    ----------
    context : Context
        Of the device that it is on.
    token : bytes
        `ExportedMemory.token`.

    Attributes
    ----------
    ptr : int

    Raises
    ------
    InvalidContext
        It was exported by this process.
    InvalidHandle
        The memory is gone.
    """

    __slots__ = ()

    destroyer = "cuIpcCloseMemHandle"

    def __init__(self, context: Context, token: bytes) -> None:
        ptr = ctypes.c_uint64()
        opened = IpcHandle.from_buffer_copy(token)
        context.driver.cuIpcOpenMemHandle_v2(ctypes.byref(ptr), opened, IpcFlag.LAZY_ENABLE_PEER_ACCESS)
        super().__init__(context.driver, ptr.value)

    @property
    def ptr(self) -> int:
        """Device address."""
        return self.handle


class SharedEvent(Event):
    """An event that several processes record and wait for; it does not note the time.

    Parameters
    ----------
    context : Context
    token : bytes, optional
        Of the one to open; a new one is made if not given.

    Attributes
    ----------
    token : bytes
        What it is opened by in another process.
    """

    __slots__ = ("token",)

    def __init__(self, context: Context, token: bytes | None = None) -> None:
        made = ctypes.c_void_p()
        if token is None:
            context.driver.cuEventCreate(ctypes.byref(made), EventFlag.DISABLE_TIMING | EventFlag.INTERPROCESS)
        else:
            context.driver.cuIpcOpenEventHandle(ctypes.byref(made), IpcHandle.from_buffer_copy(token))
        Handle.__init__(self, context.driver, made.value or 0)
        if token is None:
            exported = IpcHandle()
            context.driver.cuIpcGetEventHandle(ctypes.byref(exported), self.handle)
            token = bytes(exported)
        self.token = token

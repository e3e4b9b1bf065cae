"""Green contexts: a share of a device's multiprocessors, and streams whose kernels run on nothing else.

They lie inside the primary context, and have its memory, modules and functions.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

from _driver import errors
from _driver.enums import GreenContextFlag, ResourceType
from _driver.handle import Handle
from _driver.stream import Stream
from _driver.work_structures import DevResource

if TYPE_CHECKING:
    from _driver.context import Context

__all__ = ["GreenContext", "GreenStream", "split"]


class GreenContext(Handle):
    """A share of a device's multiprocessors. Made by `split`.

    Parameters
    ----------
    context : Context
        The primary one, around it.
    resource : DevResource
        Its multiprocessors.

    Attributes
    ----------
    context : Context
    num_sms : int
    """

    __slots__ = ("context", "num_sms")

    destroyer = "cuGreenCtxDestroy"

    def __init__(self, context: Context, resource: DevResource) -> None:
        described, made = ctypes.c_void_p(), ctypes.c_void_p()
        context.driver.cuDevResourceGenerateDesc(ctypes.byref(described), ctypes.byref(resource), 1)
        context.driver.cuGreenCtxCreate(
            ctypes.byref(made), described, context.device.handle, GreenContextFlag.DEFAULT_STREAM
        )
        super().__init__(context.driver, made.value or 0)
        self.context = context
        self.num_sms: int = resource.sm


class GreenStream(Stream):
    """A stream whose kernels run on the multiprocessors of a green context, which it keeps.

    Parameters
    ----------
    green : GreenContext
    priority : int
        Lower numbers go first.
    """

    __slots__ = ("green",)

    def __init__(self, green: GreenContext, *, priority: int = 0) -> None:
        made = ctypes.c_void_p()
        green.driver.cuGreenCtxStreamCreate(ctypes.byref(made), green.handle, 1, priority)
        super().__init__(green.context, handle=made.value or 0)
        self.is_owned = True
        self.green = green


def split(context: Context, *num_sms: int) -> list[GreenContext]:
    """Return green contexts that have no multiprocessor in common.

    Parameters
    ----------
    context : Context
        The primary one of the device.
    *num_sms : int
        How many each has at least; the driver rounds up, to a multiple of 8 on compute capability 9.0.

    Raises
    ------
    InvalidValue
        A number is not positive, or there are not so many left.
    """
    rest, made = DevResource(), []
    context.driver.cuDeviceGetDevResource(context.device.handle, ctypes.byref(rest), ResourceType.SM)
    for wanted in num_sms:
        if not 0 < wanted <= rest.sm:
            raise errors.InvalidValue(f"{wanted} multiprocessors cannot be set aside: {rest.sm} are left")
        share, remainder, count = DevResource(), DevResource(), ctypes.c_uint(1)
        context.driver.cuDevSmResourceSplitByCount(
            ctypes.byref(share), ctypes.byref(count), ctypes.byref(rest), ctypes.byref(remainder), 0, wanted
        )
        if not count.value:
            raise errors.InvalidValue(f"{wanted} multiprocessors cannot be set aside: {rest.sm} are left")
        made.append(GreenContext(context, share))
        rest = remainder
    return made

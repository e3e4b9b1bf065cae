"""Green contexts: a share of a device's multiprocessors, and streams whose kernels run on nothing else.

They lie inside the primary context, and have its memory, modules and functions. Drivers (580 is one) lose 4 MiB of the
device with every one that is destroyed; so those that are closed are kept, for whoever wants the same multiprocessors.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from oxinp._driver import errors
from oxinp._driver.enums import GreenContextFlag, ResourceType
from oxinp._driver.handle import Handle
from oxinp._driver.stream import Stream
from oxinp._driver.work_structures import DevResource

if TYPE_CHECKING:
    from collections.abc import Sequence

    from oxinp._driver.context import Context

__all__ = ["GreenContext", "GreenStream", "split"]

_idle: WeakKeyDictionary[Context, dict[tuple[int, ...], list[int]]] = WeakKeyDictionary()
"""Of each context the green ones that are closed, by the groups of multiprocessors that they have."""


class GreenContext(Handle):
    """A share of a device's multiprocessors. Made by `split`.

    Parameters
    ----------
    context : Context
        The primary one, around it.
    groups : dict of int to DevResource
        Its multiprocessors: groups of one split of the whole device, by their place in it.

    Attributes
    ----------
    context : Context
    num_sms : int
    """

    __slots__ = ("_places", "context", "num_sms")

    def __init__(self, context: Context, groups: dict[int, DevResource]) -> None:
        self.context = context
        self.num_sms: int = sum(group.sm for group in groups.values())
        self._places = tuple(groups)
        idle = _idle.setdefault(context, {}).get(self._places)
        super().__init__(context.driver, idle.pop() if idle else _create(context, list(groups.values())))

    def _destroy(self, handle: int) -> None:
        _idle.setdefault(self.context, {}).setdefault(self._places, []).append(handle)


def _create(context: Context, groups: Sequence[DevResource]) -> int:
    described, made = ctypes.c_void_p(), ctypes.c_void_p()
    driver, array = context.driver, (DevResource * len(groups))(*groups)
    driver.cuDevResourceGenerateDesc(ctypes.byref(described), array, len(groups))
    driver.cuGreenCtxCreate(ctypes.byref(made), described, context.device.handle, GreenContextFlag.DEFAULT_STREAM)
    return made.value or 0


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
        How many each has at least: multiprocessors come in groups, of 8 on compute capability 9.0.

    Raises
    ------
    InvalidValue
        A number is not positive, or there are not so many left.
    """
    everything, count = DevResource(), ctypes.c_uint()
    driver = context.driver
    driver.cuDeviceGetDevResource(context.device.handle, ctypes.byref(everything), ResourceType.SM)
    # Cut into the smallest groups there are, once: what one split leaves cannot be split again.
    source = ctypes.byref(everything)
    driver.cuDevSmResourceSplitByCount(None, ctypes.byref(count), source, None, 0, 1)
    groups = (DevResource * count.value)()
    driver.cuDevSmResourceSplitByCount(groups, ctypes.byref(count), source, None, 0, 1)
    free, made = dict(enumerate(groups[: count.value])), []
    for wanted in num_sms:
        left = sum(group.sm for group in free.values())
        if not 0 < wanted <= left:
            raise errors.InvalidValue(f"{wanted} multiprocessors cannot be set aside: {left} are left, in groups")
        taken: dict[int, DevResource] = {}
        while sum(group.sm for group in taken.values()) < wanted:
            place = next(iter(free))
            taken[place] = free.pop(place)
        made.append(GreenContext(context, taken))
    return made

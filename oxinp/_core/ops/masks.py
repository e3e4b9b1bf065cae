"""Elements where a mask is true, for masks that are used more than once: ``z[inside] = z[inside] ** 2 + c[inside]``.

How many there are only the device knows, which has to be waited for each time. So the numbers of a mask's true elements
are found once, and kept with its storage until it has another value. Whether a mask will be used again is judged by the
one before that lay as it does: in a loop they are alike.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oxinp._core.lazy.windows import Windowed
from oxinp._core.manipulation.shape import flat
from oxinp._core.memory.storage import SHARED
from oxinp._core.ops import gather
from oxinp._runtime import here

if TYPE_CHECKING:
    from oxinp._core.lazy.handle import Handle
    from oxinp._core.memory.layout import Layout

MAX_SIZE = 1 << 23
"""Elements of a mask up to which its numbers are kept, of 8 bytes each."""
MAX_LATEST = 64
USES = 2
"""Of a mask of which nothing is expected, that are waited for one by one."""


class Chosen(tuple[Any, ...]):  # noqa: SLOT001 - tuples have room for none
    """A storage's value, a mask of which it is known how often it has been used; any other value knows nothing of it.

    Attributes
    ----------
    layout : Layout
        How the mask lies in the storage.
    comes_again : bool
        Whether the one before was used more than once.
    uses : list of int
        How many there were, one number.
    numbers : ndarray or None
        The numbers of its true elements, in C order, int64.
    """

    layout: Layout
    comes_again: bool
    uses: list[int]
    numbers: Any


_latest: dict[Layout, list[int]] = {}
"""By their layout how often the masks have been used that were the last ones."""


def select(array: Handle, mask: Handle) -> Any:
    """Return what `gather.select` does; of a mask that is used more than once, without waiting for the device again."""
    layout = array._known or array._layout
    if (mask._known or mask._layout).shape != layout.shape or not layout.size or not _comes_again(mask):
        return gather.select(array, mask)
    gather.need_kernel(layout)
    return gather.chosen(flat(array), numbers(mask, is_counted=True))


def numbers(mask: Handle, *, is_counted: bool = False) -> Handle:
    """Return the numbers, in C order, of the true elements of a mask, int64.

    Parameters
    ----------
    mask : Handle
    is_counted : bool
        Whether this use of it has been counted.
    """
    if not is_counted:
        _comes_again(mask)
    storage = mask._held or mask._storage
    value: Any = storage.value
    if type(value) is not Chosen:  # nothing is kept of it, or a thread has written to it meanwhile
        return gather.flatnonzero(mask)  # type: ignore[no-any-return]
    if value.numbers is None:
        value.numbers = gather.flatnonzero(mask)
        value.comes_again = True
        if storage.value is not value:  # as a thread may do now: whose numbers these are is not known
            return gather.flatnonzero(mask)  # type: ignore[no-any-return]
    return value.numbers  # type: ignore[no-any-return]


def _comes_again(mask: Handle) -> bool:
    """Count a use of a mask; whether its numbers are known, or worth being found, which takes a launch more."""
    storage, layout = mask._held or mask._storage, mask._known or mask._layout
    value = storage.value
    if value is None or here.are_several or layout.size > MAX_SIZE or value[2] & SHARED or type(value) is Windowed:
        return False
    if type(value) is not Chosen or value.layout is not layout:
        before = _latest.get(layout)
        chosen = Chosen(value)
        chosen.layout, chosen.uses, chosen.numbers = layout, [0], None
        chosen.comes_again = before is not None and before[0] > 1
        if storage.value is value:  # nothing is called from here to the assignment
            storage.value = chosen
        value = chosen
        if len(_latest) >= MAX_LATEST:
            _latest.clear()
        _latest[layout] = chosen.uses
    value.uses[0] += 1
    return value.comes_again or value.uses[0] > USES


__all__ = ["numbers", "select"]

"""`ndarray.resize`, which changes an array in place unless somebody else may see it, and how that is found out."""

from __future__ import annotations

import operator
import sys
import weakref
from opcode import opmap
from types import FrameType
from typing import Any

import numpy as np

from oxinp._core.array import dispatch
from oxinp._core.lazy.handle import base_of, fetch
from oxinp._core.memory.host_side import host_layout
from oxinp._core.memory.storage import is_pinned, make_storage


def resize(self: Any, *new_shape: Any, refcheck: bool = True) -> None:
    """Change shape and size in place; see `numpy.ndarray.resize`.

    Raises
    ------
    ValueError
        The array views another one's elements, or another one views its.
    """
    is_checked = bool(operator.index(refcheck))
    wanted = np.empty(0, np.dtype([]))
    wanted.resize(*new_shape, refcheck=False)  # which raises what is wrong with a shape
    if wanted.size == self._layout.size and self._layout.is_contiguous:
        if new_shape not in ((), (None,)):
            self._lie_at(dispatch.functions[np.reshape](self, wanted.shape)._layout)
        return
    if base_of(self) is not None:
        raise ValueError("cannot resize this array: it does not own its data")
    if weakref.getweakrefcount(self) or (
        is_checked
        and (
            sys.getrefcount(self) > _REFERENCES_OF_A_CALL + _is_unpacking(sys._getframe(1))
            or sys.getrefcount(self._storage) > _REFERENCES_OF_ONE_HANDLE
            or is_pinned(self._storage)
        )
    ):
        raise ValueError(
            "cannot resize an array that references or is referenced\n"
            "by another array in this way.\nUse the np.resize function or refcheck=False"
        )
    # As the elements lie in memory, of which NumPy keeps the beginning.
    fetched = fetch(self.T).T if self._layout.is_fortran else fetch(self)
    resized = fetched if fetched.flags.owndata else fetched.copy("K")
    resized.resize(*new_shape, refcheck=False)
    self._held, self._known = make_storage(None, resized), host_layout(resized)
    self._host = self._seen = None


def _is_unpacking(frame: FrameType) -> bool:
    """Whether a call that a frame is in unpacks arguments: then there is a bound method, which refers to the array."""
    return frame.f_code.co_code[frame.f_lasti] == opmap["CALL_FUNCTION_EX"]


class _One:
    __slots__ = ("held",)

    def __init__(self) -> None:
        self.held = object()

    def count(self) -> int:
        return sys.getrefcount(self)


_one = _One()
_REFERENCES_OF_ONE_HANDLE = sys.getrefcount(_one.held)
_REFERENCES_OF_A_CALL = _one.count()  # of a method, to an array that one variable holds


__all__ = ["resize"]

"""NumPy's bit generators and seed sequences, made from seeds, keys and counters that may be arrays of ours."""

from __future__ import annotations

from abc import ABCMeta
from typing import Any

import numpy as np

from oxinp._core.array import dispatch
from oxinp._core.documentation import stand_for
from oxinp._core.lazy.handle import Handle
from oxinp._core.manipulation.copy import asnumpy

NAMES = ("MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64", "SeedSequence")


class _Made(ABCMeta):
    """The class of classes that make NumPy's own objects: those are their instances.

    A program's class below one of them is a class below NumPy's.
    """

    _theirs: type

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        """Return NumPy's object, or one of a program's class."""
        given = [_numpys(value) for value in args]
        named = {key: _numpys(value) for key, value in kwargs.items()}
        return cls._theirs(*given, **named) if "_theirs" in vars(cls) else super().__call__(*given, **named)

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, cls._theirs) if "_theirs" in vars(cls) else super().__instancecheck__(instance)

    def __subclasscheck__(cls, kind: type) -> bool:
        return issubclass(kind, cls._theirs) if "_theirs" in vars(cls) else super().__subclasscheck__(kind)


def _numpys(value: Any) -> Any:
    """Return NumPy's array for one of ours, and its scalar for an element on the device."""
    return asnumpy(value)[()] if isinstance(value, Handle) else value


for _name in NAMES:
    _theirs: Any = getattr(np.random, _name)
    _ours = _Made(_name, (_theirs,), {"_theirs": _theirs})
    stand_for(_ours, _theirs, "Its state is on the host; large draws of `Generator` from it are on the device.")
    _ours.__module__ = "oxinp.random"
    dispatch.register(_theirs, _ours)

"""The class of the class `ndarray`: which objects count as arrays, what it is called, and who inherits from it."""

from __future__ import annotations

from typing import Any

import numpy as np

from oxinp._core.lazy.results import types
from oxinp._core.subclass import SUBCLASSES

_NumpyArray = np.ndarray
OWN_NAME = type.__dict__["__name__"]


class ArrayType(type):
    """Makes ``isinstance(numpy_array, oxinp.ndarray)`` true: programs test for arrays, not for whose they are.

    Users' classes get `Dressed` for their base in the place of `ndarray`.
    """

    def __new__(cls, name: str, bases: tuple[type, ...], body: dict[str, Any], **keywords: Any) -> Any:
        dressed = types.dressed
        if dressed is None:
            return super().__new__(cls, name, bases, body, **keywords)
        made = super().__new__(cls, name, tuple(dressed if b is types.ndarray else b for b in bases), body, **keywords)
        SUBCLASSES.add(made)
        return made

    @property
    def __name__(cls) -> str:  # of the class, without the module that messages in C have before it
        return str(OWN_NAME.__get__(cls)).rpartition(".")[2]

    @__name__.setter  # noqa: A003 - of the class
    def __name__(cls, name: str) -> None:
        OWN_NAME.__set__(cls, name)

    def __instancecheck__(cls, instance: Any) -> bool:
        return type.__instancecheck__(cls, instance) or (cls is types.ndarray and isinstance(instance, _NumpyArray))

    def __subclasscheck__(cls, subclass: type) -> bool:
        return type.__subclasscheck__(cls, subclass) or (cls is types.ndarray and issubclass(subclass, _NumpyArray))


__all__ = ["OWN_NAME", "ArrayType"]

"""Kernel families: a problem (shapes, strides, types) -> a frozen Spec -> a Kernel, with its launch geometry.

A family is imported when its first kernel is wanted, and the kernel language with it: the import of oxinp pays for
neither.
"""

import importlib
from types import ModuleType

FAMILIES = frozenset({"elementwise", "problem", "reduce"})
"""The modules that `_core` uses, as attributes of this package."""


def __getattr__(name: str) -> ModuleType:
    if name not in FAMILIES:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    return importlib.import_module(f"{__name__}.{name}")

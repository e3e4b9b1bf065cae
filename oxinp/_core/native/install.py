"""Giving `ndarray` its slots in machine code, and taking them away again.

The code lies in pages that may be executed and no longer written to; where a system allows no such pages, or objects
are laid out in another way than in `objects`, arrays keep the slots that Python gives them, and everything works.
"""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Callable
from functools import partial
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np

from oxinp._config import before_change, config
from oxinp._core.lazy import inlining
from oxinp._core.lazy.balance import is_sampled
from oxinp._core.native import objects, slots
from oxinp._core.ufunc.operator_texts import reach_of
from oxinp._core.ufunc.table import UFUNCS

_REACHES = {row.name: reach_of(row) for row in UFUNCS}
_BINARY = {"add": "add", "subtract": "sub", "multiply": "mul"}
"""Slots of operators and what their methods are called."""
_ALIGNMENT = 16


class _Native(NamedTuple):
    """A slot's function in machine code, and the one that it stands before."""

    name: str
    address: int
    before: int


_installed: list[_Native] = []
_pages: list[Any] = []  # which are mapped as long as there may be calls


def _most(name: str) -> int | None:
    """Return how many elements are too many for the host where an operator takes long; None where `FEW` says it."""
    reach = _REACHES[name]
    return None if reach <= inlining.HEAVY else inlining.MOST_FEW * inlining.HEAVY // reach


def _makers() -> dict[str, Callable[[type, int], bytes]]:
    """Return what makes the code of each slot, of the class and the slot's function of before."""

    def numpys(name: str) -> int:
        address: int = objects.slot(np.ndarray, name).value
        return address

    makers: dict[str, Callable[[type, int], bytes]] = {
        "subscript": slots.subscript,
        "ass_subscript": slots.ass_subscript,
        "compare": partial(slots.compare, numpys=numpys("compare")),
        "matrix_multiply": partial(slots.matrix_multiply, numpys=numpys("matrix_multiply")),
        "true_divide": partial(slots.binary, numpys=numpys("true_divide"), name="truediv", most=_most("divide")),
    }
    for name, method in _BINARY.items():
        makers[name] = partial(slots.binary, numpys=numpys(name), name=method)
        makers[f"inplace_{name}"] = partial(slots.in_place, numpys=numpys(f"inplace_{name}"))
    for name in ("negative", "absolute"):
        makers[name] = partial(slots.unary, numpys=numpys(name))
    return makers


def _mapped(code: bytes) -> int | None:
    """Return where code may be executed; None if the system forbids that."""
    try:
        pages = mmap.mmap(-1, len(code), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except (OSError, ValueError):
        return None
    pages.write(code)
    address = ctypes.addressof(ctypes.c_char.from_buffer(pages))
    protect = ctypes.CDLL(None).mprotect
    protect.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    if protect(address, len(code), mmap.PROT_READ | mmap.PROT_EXEC):
        return None
    _pages.append(pages)
    return address


def _update(_: object = None) -> None:
    few = inlining.meaning("FEW")
    slots.cells[0], slots.cells[1] = id(few), inlining.meaning("SMALL")


def install(kind: type) -> bool:
    """Give a class slots in machine code; return whether it has them.

    Parameters
    ----------
    kind : type
        That of arrays, whose general operators are in its slots.
    """
    if not objects.ARE_KNOWN or _installed:
        return bool(_installed)
    code, places = b"", []
    for name, make in _makers().items():
        before = objects.slot(kind, name).value
        made = make(kind, before)
        places.append((name, len(code), before))
        code += made + bytes(-len(made) % _ALIGNMENT)
    address = _mapped(code)
    if address is None:
        return False
    _update()
    for name, offset, before in places:
        objects.slot(kind, name).value = address + offset
        _installed.append(_Native(name, address + offset, before))
    inlining.enter(is_weighed=repeat(object()).__next__)  # of those that come to Python, see `slots.subscript`
    return True


def uninstall(kind: type) -> None:
    """Give a class its slots of before again."""
    for native in _installed:
        place = objects.slot(kind, native.name)
        if place.value == native.address:  # else a method has been replaced, and Python has set the slot
            place.value = native.before
    _installed.clear()
    inlining.enter(is_weighed=is_sampled)


def _change(kind: type, is_wanted: bool) -> None:  # noqa: FBT001 - the setting's new value
    if is_wanted:
        install(kind)
    else:
        uninstall(kind)


def follow_setting(kind: type) -> None:
    """Let a class have slots in machine code while the setting `machine_code` says so."""
    before_change.setdefault("offload_threshold", []).append(_update)
    before_change.setdefault("machine_code", []).append(partial(_change, kind))
    _change(kind, config.machine_code)


__all__ = ["follow_setting", "install", "uninstall"]

"""Slots and flags of type objects that a class statement cannot set: what is iterated, and what `match` takes apart.

A class with ``__getitem__`` is a sequence to Python, which `iter` walks through by 0, 1, 2, ...; NumPy's scalars are
indexed and not iterated. ``__iter__ = None`` forbids that, too, but leaves an attribute, by whose presence
programs tell whether a value is iterable.
"""

from __future__ import annotations

import ctypes
from abc import ABCMeta

_POINTER = ctypes.sizeof(ctypes.c_void_p)
# A type object begins with an object's head and a count, and has nine pointers and sizes before `tp_as_number`.
_AS_SEQUENCE = object.__basicsize__ + 11 * _POINTER
_SQ_ITEM = 3 * _POINTER


_TPFLAGS_SEQUENCE = 1 << 5  # ``Py_TPFLAGS_SEQUENCE``


class _Sequence(metaclass=ABCMeta):  # noqa: B024 - it is there for what it is registered with
    __abc_tpflags__ = _TPFLAGS_SEQUENCE


class _Indexed:
    def __getitem__(self, key: object) -> object:
        raise IndexError(key)


class _Plain:
    pass


def _sq_item(kind: type) -> ctypes.c_void_p | None:
    """Return where a class's `sq_item` lies; None where type objects do not look as they should."""
    address = id(kind)
    sequence = ctypes.c_void_p.from_address(address + _AS_SEQUENCE).value or 0
    # The slots of a class lie in its own type object.
    is_inside = address < sequence < address + type.__basicsize__  # type: ignore[operator]
    return ctypes.c_void_p.from_address(sequence + _SQ_ITEM) if is_inside else None


def _are_known() -> bool:
    indexed, plain = _sq_item(_Indexed), _sq_item(_Plain)
    return indexed is not None and plain is not None and bool(indexed.value) and not plain.value


ARE_KNOWN = _are_known()
"""Whether this Python's type objects are laid out as CPython's have been since 2.2."""


def forbid_iteration(kind: type) -> None:
    """Let `iter` refuse the instances of a class that has ``__getitem__``, and no ``__iter__``.

    Parameters
    ----------
    kind : type
        Changed in place. Setting its ``__getitem__``, or that of a class above it, undoes this.
    """
    slot = _sq_item(kind) if ARE_KNOWN else None
    if slot is None:
        kind.__iter__ = None  # type: ignore[attr-defined]
    else:
        slot.value = None


def match_like(kind: type, numpys: type) -> None:
    """Let sequence patterns of `match` take instances of a class apart if they do so with those of NumPy's.

    Neither becomes a `collections.abc.Sequence`: an abstract class passes the flag on to those registered with it.
    """
    if numpys.__flags__ & _TPFLAGS_SEQUENCE:
        _Sequence.register(kind)
